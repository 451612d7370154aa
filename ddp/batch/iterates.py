# mypy: allow-untyped-defs, allow-untyped-calls
"""Iterate of a lane, `Iterate` compiled: its gaps, limits of controls, tests of it, how iterations begin and end."""

import numpy as np

from ddp.adjoint import FIRM
from ddp.batch.lanes import IDLE, NO_STEP, horizon_at
from ddp.batch.sweeps import attempt_of, copy, know
from ddp.compiling.kernel import kernel
from ddp.constraints.bounds import rooms
from ddp.derivatives import FIRST
from ddp.descent import judged
from ddp.machine.addresses import array_at
from ddp.machine.memory import floats_at
from ddp.models.globalisation import OWN
from ddp.sweeps.horizon import Horizon
from ddp.unbounded import BOTTOMLESS, FAR


@kernel
def clip(w, U, out):
    """out := controls within their limits."""
    for t in range(w.N):
        for i in range(w.nu):
            k = t * w.nu + i
            out[k] = min(max(U[k], w.lower[t, i]), w.upper[t, i])


@kernel
def is_at_limits(w, lane):
    """Whether any control is at a limit."""
    for t in range(w.N):
        for i in range(w.nu):
            u = lane.U[t * w.nu + i]
            if u <= w.lower[t, i] or u >= w.upper[t, i]:
                return True
    return False


@kernel
def limit(w, lane):
    """Sweep within the limits of controls from now on: see `ddp.iterate.Iterate.limit`."""
    lane.limited, lane.followed, lane.age = 1, 0, -1
    held = Horizon(horizon_at(lane, 0, 1, 0)).held
    for t in range(w.N):
        for i in range(w.nu):
            held[t, i] = 0.0
    measure_room(w, lane)


@kernel
def measure_room(w, lane):
    """Find how far controls are from their limits."""
    for t in range(w.N):
        for i in range(w.nu):
            k = t * w.nu + i
            lane.low[k], lane.high[k] = rooms(lane.U[k], w.lower[t, i], w.upper[t, i])


@kernel
def close_gaps(w, lane):
    """Set all gaps to zero."""
    lane.gap, lane.torn = 0.0, 0
    for i in range(w.N * w.n):
        lane.gaps[i] = 0.0


@kernel
def scale_gaps(w, lane, share):
    """Leave a share of the gaps open."""
    largest, total = 0.0, 0.0
    for i in range(w.N * w.n):
        lane.gaps[i] *= share
        largest = max(largest, abs(lane.gaps[i]))
        total += abs(lane.gaps[i])
    lane.gap, lane.torn = total if total != total else largest, 1 if largest > 0.0 else 0


@kernel
def forget(lane):
    """Forget derivatives."""
    if lane.derived.owner == lane.index:
        lane.derived.owner = -1


@kernel
def is_far(w, lane):
    """Whether costs or motions are so far out that `ddp.descent.Descent.is_unbounded` has to be asked."""
    out = 0.0
    for i in range((w.N + 1) * w.nx):
        out = max(out, abs(lane.X[i]))
    for i in range(w.N * w.nu):
        out = max(out, abs(lane.U[i]))
    return lane.cost <= BOTTOMLESS or not out < FAR


@kernel
def is_minimum(w, lane):
    """Whether an exact sweep that has succeeded says that here is a minimum: see `ddp.saddles`.

    Not for certain where there are controls that nothing moves, or at limits that do not hold them firmly.
    """
    N, n, nu = w.N, w.n, w.nu
    nz = n + nu
    know(w, lane, FIRST)
    d = lane.derived
    A, B, lz = array_at(d.A, (N, n, n)), array_at(d.B, (N, n, nu)), array_at(d.lz, (N + 1, nz))
    p, before = np.empty(n), np.empty(n)
    for j in range(n):
        p[j] = lz[N, j]
    for t in range(N - 1, -1, -1):
        for i in range(nu):
            slope, size, still = lz[t, n + i], abs(lz[t, n + i]), lane.k[t * nu + i] == 0.0
            for j in range(n):
                slope += B[t, j, i] * p[j]
                size += abs(B[t, j, i]) * abs(p[j])
                still = still and lane.K[(t * nu + i) * n + j] == 0.0
            held = False
            if lane.limited:
                low, high = lane.low[t * nu + i] >= 0.0, lane.high[t * nu + i] <= 0.0
                held = (low and slope > FIRM * size) or (high and slope < -FIRM * size)
                if (low or high) and not held:
                    return False
            if still and not held:
                return False
        for j in range(n):
            before[j] = lz[t, j]
            for i in range(n):
                before[j] += A[t, i, j] * p[i]
        for j in range(n):
            p[j] = before[j]
    return True


@kernel
def begin_iteration(s):
    """Begin an iteration, with the model of the mode."""
    s.model, s.entered, s.place = s.mode, s.mode, OWN


@kernel
def accept(w, lane):
    """Go where the best attempt of an iteration led.

    Returns the verdict on it, and whether sweeps have to know limits of controls from now on.
    """
    attempt = attempt_of(lane.decisions, lane.decisions.best)
    verdict, lane.settled = judged(lane, attempt, w.tolerance, lane.settled)
    if attempt.step.alpha > 0.0:
        copy(lane.X, floats_at(lane.reached_X), (w.N + 1) * w.nx)
        copy(lane.U, floats_at(lane.reached_U), w.N * w.nu)
        lane.cost, lane.highest = attempt.step.cost, max(lane.highest, attempt.step.cost)
        if lane.torn:
            scale_gaps(w, lane, 1.0 - attempt.step.alpha)
        lane.scaled, lane.age = 0, -1
        forget(lane)
        if lane.limited:
            measure_room(w, lane)
    free = w.limited != 0 and lane.limited == 0
    return verdict, free and (attempt.step.alpha == 0.0 or is_at_limits(w, lane))


@kernel
def report(w, lane, verdict, touches):
    """Write the numbers of an iteration of a worker's only lane; verdict, touches: of `accept`."""
    s, out = lane.decisions, w.single.numbers
    lane.stage = IDLE
    out[0], out[1] = float(verdict), 1.0 if touches else 0.0
    if verdict != NO_STEP:
        m = s.best
        out[2], out[3], out[4], out[5] = lane.cost, s.gradient[m], s.expected[m], s.alpha[m]
        out[6], out[7], out[8], out[9] = s.used_mu[m], float(m), s.used_blend[m], float(lane.contracted[m])

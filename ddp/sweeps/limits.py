# mypy: allow-untyped-defs, allow-untyped-calls
"""Control limits over the whole horizon: the quadratic model's minimum in the box, by a primal-dual active set.

    minimise Σ l_z·z + ½ zᵀ H z  along  x' = gap + J (A x + B u),    low <= u <= high

A backward sweep solves it where some controls are held at limits and all others are free, with gains of zero for those
that are held. Its step is rolled out in the linear model: free controls that it takes beyond a limit are held next,
held ones are freed whose multiplier, the gradient q_u + Q_ux x + Q_uu u, pulls them off their limit. Where neither
is left, that is the minimum in the box, and its policy (Hintermüller, Ito & Kunisch 2002). The sets of the last
iterate come first, so that near the optimum one sweep is enough.

Where the sets do not settle, which such steps do not promise, the best step in the box that was met is taken: of each
policy but the first, whose sets are the last iterate's, its rollout within the limits. If that brings little, the sweep
counts as failed: a larger mu settles the sets. With w what clipping adds to a policy's controls, of value V, a
rollout costs

    V + Σ ½ wᵀ Q_uu w
"""

import numpy as np

from ddp.compiling.kernel import inline, kernel
from ddp.machine.algebra import dot
from ddp.machine.declared import each
from ddp.machine.memory import as_matrix, floats_at, hold, rows_of
from ddp.machine.struct import Struct, matrix
from ddp.sweeps.gaps import pass_through
from ddp.sweeps.horizon import Horizon
from ddp.sweeps.sweeping import Sweeping, recur

MOST_SWEEPS = 12
"""Sweeps for one step within control limits, at most."""

ENOUGH = 0.3
"""Share of the largest decrease without limits for some held controls that is enough of a step in the box."""

ROUNDING = 1e-12
"""Steps beyond limits that are none, relative to 1 and the step."""


class Scratch(Struct):
    """Memory that sweeps within limits work in: k, u (N, nu), K (N, nu n), x, y (N+1, n)."""

    k, K, u, x, y = each(5, matrix, constant=False)


def scratch_of(N: int, n: int, nu: int) -> Scratch:
    """A `Scratch` for N knots."""
    shapes = {"k": (N, nu), "K": (N, nu * n), "u": (N, nu), "x": (N + 1, n), "y": (N + 1, n)}
    return Scratch(**{name: np.zeros(shape) for name, shape in shapes.items()})


@inline
def sizes(p):
    """States and controls of a `Horizon`; numbers take its place where they are known, see sized_sweep.py."""
    return p.n, p.nu


def sweep_within(sweeping, scratch, unused, none):  # type: ignore[no-untyped-def]
    """C function of a `Sweeping` within limits, which works in a `Scratch`."""
    s = Sweeping(sweeping)
    s.failed, s.slope, s.change, s.gradient = settle(s, Horizon(s.horizon), Scratch(scratch))


@kernel
def settle(s, p, r):
    """Sweep until held controls are those that the model's minimum has at limits: failed knot, slope, change, gradient.

    The `Horizon` has the policy at the end.
    """
    k, K, u, x, y = r.k, r.K, r.u, r.x, r.y
    s.known = 0
    stay_held(p)
    recur(s.address)
    failed, slope, change, gradient = s.failed, s.slope, s.change, s.gradient
    if failed >= 0:
        return failed, slope, change, gradient
    best, lowest, found = np.inf if p.torn != 0 else 0.0, 0.0, False
    s.kept, s.known = 1 if s.blend > 0.0 else s.kept, 1
    for attempt in range(MOST_SWEEPS):
        roll(p, False, u, x, y)
        if revise(p, u, x) == 0:
            return -1, slope_along(p, u, x), s.change, gradient
        lowest = min(lowest, s.change)
        cost = s.change + roll(p, True, u, x, y) if attempt > 0 else np.inf
        if cost < best:
            best, found, slope, change = cost, True, slope_along(p, u, x), cost
            keep(p.N, p.nu * p.n, K, p.K)
            lead_to(p, u, x, k)
        if attempt == MOST_SWEEPS - 1:
            break
        recur(s.address)
        if s.failed >= 0:
            break
    if not found or (p.torn == 0 and change > ENOUGH * lowest):
        return max(s.failed, 0), slope, change, gradient
    n, nu = sizes(p)
    keep(p.N, nu, p.k, k)
    keep(p.N, nu * n, p.K, K)
    return -1, slope, change, gradient


def linear_step(horizon, u, x, y):  # type: ignore[no-untyped-def]
    """C function, of addresses: u (N, nu), x (N+1, n) := the last sweep's step, y (N+1, n) as of `roll`."""
    p, (n, nu) = Horizon(horizon), sizes(Horizon(horizon))
    u, x, y = as_matrix(floats_at(u), p.N, nu), as_matrix(floats_at(x), p.N + 1, n), as_matrix(floats_at(y), p.N + 1, n)
    roll(p, False, u, x, y)


@kernel
def stay_held(p):
    """Let go of held controls that are not at their limits."""
    nu = sizes(p)[1]
    for t in range(p.N):
        for i in range(nu):
            limit = p.low[t, i] if p.held[t, i] < 0.0 else p.high[t, i]
            if limit != 0.0:
                p.held[t, i] = 0.0


@kernel
def revise(p, u, x):
    """Hold free controls whose step is beyond a limit, free held ones that are pulled off theirs; how many there are.

    u, x: the policy's own step, not clipped.
    """
    changes, (n, nu) = 0, sizes(p)
    nz = n + nu
    for t in range(p.N):
        for i in range(nu):
            before, size = p.held[t, i], ROUNDING * (1.0 + abs(u[t, i]))
            if before == 0.0:
                if u[t, i] < p.low[t, i] - size:
                    p.held[t, i] = -1.0
                elif u[t, i] > p.high[t, i] + size:
                    p.held[t, i] = 1.0
            else:
                row = p.rows[t][i * (nz + 1) :]
                if before * (row[nz] + dot(row, x[t], n) + dot(row[n:], u[t], nu)) > 0.0:
                    p.held[t, i] = 0.0
            if p.held[t, i] != before:
                changes += 1
    return changes


@kernel
def keep(count, size, out, rows):
    """out (count, size) := rows."""
    for i in range(count):
        for j in range(size):
            out[i, j] = rows[i, j]


@kernel
def lead_to(p, u, x, k):
    """k (N, nu) := what leads to the model's step u, x with the gains of the last sweep."""
    n, nu = sizes(p)
    for t in range(p.N):
        for i in range(nu):
            k[t, i] = u[t, i] - dot(p.K[t][i * n :], x[t], n)


@kernel
def is_bent(p):
    """Whether gaps bend derivatives; ``bends`` has J and C of every gap then."""
    return p.torn != 0 and p.closing != 0


@kernel
def roll(p, limited, u, x, y):
    """u (N, nu), x (N+1, n) := the policy's step in the linear model, clipped if ``limited``; what clipping costs.

    y[t + 1] (n,): F z of knot t, where the dynamics arrive before their gaps.
    """
    bent, cost, (n, nu) = is_bent(p), 0.0, sizes(p)
    nz = n + nu
    own = np.zeros(nu)
    added = rows_of(own)
    for i in range(n):
        x[0, i] = 0.0
    for t in range(p.N):
        clipped = False
        for i in range(nu):
            u[t, i] = p.k[t, i] + dot(p.K[t][i * n :], x[t], n)
            if limited:
                inside = min(max(u[t, i], p.low[t, i]), p.high[t, i])
                added[i] = inside - u[t, i]
                u[t, i] = inside
                clipped = clipped or added[i] != 0.0
        if clipped:
            for i in range(nu):
                cost += 0.5 * added[i] * dot(p.rows[t][i * (nz + 1) + n :], added, nu)
        for i in range(n):
            y[t + 1, i] = dot(p.A[t][i * n :], x[t], n) + dot(p.B[t][i * nu :], u[t], nu)
        if bent:
            pass_through(p.crossed, p.bends[t], n, 1, n, y[t + 1], x[t + 1])
            for i in range(n):
                x[t + 1, i] += p.gaps[t, i]
        else:
            for i in range(n):
                x[t + 1, i] = p.gaps[t, i] + y[t + 1, i]
    hold(own)
    return cost


@kernel
def slope_along(p, u, x):
    """Σ l_z·z of a step u (N, nu), x (N+1, n)."""
    slope, (n, nu) = 0.0, sizes(p)
    for t in range(p.N + 1):
        slope += dot(p.lz[t], x[t], n)
        if t < p.N:
            slope += dot(p.lz[t][n:], u[t], nu)
    return slope

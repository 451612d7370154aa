"""Stationary trajectories, judged by the exact Hessian of the cost in the controls; saddles and maxima are left."""

import time
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from ddp.adjoint import costates, holding
from ddp.costs import faults
from ddp.derivatives import EXACT, FIRST, RECORDS, mirrored
from ddp.iterate import Iterate
from ddp.search import Step
from ddp.solutions.status import Record
from ddp.sweeps.inertia import Inertia, inertia
from ddp.sweeps.outcome import COSTATE, Sweep

HALVINGS, LEVEL = 40, 3
"""Lengths of steps along negative curvature, and how many of the longest, if they leave the cost as it is to rounding,
say that it is flat: along controls that come too late to act, for one."""

CURVATURE = "curvature"
"""The model of such a step."""


def judged(iterate: Iterate, exact: bool) -> tuple[Sweep | None, bool, Inertia]:
    """A last sweep, whether its Hessians are exact, as they shall be if ``exact``, and the curvatures of the cost."""
    sweep, convex = iterate.final_sweep(True)
    found = _curvatures(iterate, sweep if convex else None)
    if convex and not exact:
        sweep = iterate.final_sweep(False)[0]
    return sweep, convex and exact, found


def away(iterate: Iterate, found: Inertia, sweep: Sweep | None) -> tuple[Step, Record] | None:
    """The best step along curvature that is not positive, of many lengths, either way; None if none lowers the cost."""
    before, cost, problem = time.perf_counter(), iterate.cost, iterate.problem
    own = iterate.units[problem.dynamics.n :]
    widths = np.nan_to_num((problem.upper - problem.lower) / own, posinf=0.0)
    longest = max(1.0, float(np.abs(iterate.U / own).max()), float(widths.max(initial=0.0)))
    alphas, gaps = longest * np.exp2(-np.arange(HALVINGS, dtype=float)), np.zeros_like(iterate.gaps)
    best = Step(0.0, cost - iterate.noise, iterate.X, iterate.U)
    for number, (k, K) in enumerate(found.policies + found.further):
        if number >= len(found.policies) and best.alpha > 0.0:
            break
        for way in (k, -k):
            for lengths in np.split(alphas, [LEVEL]):
                X, U, notes = problem.track(iterate.X, iterate.U, way, K, lengths, gaps)
                lanes = zip(X, U, notes if len(notes) else repeat(notes), strict=False)
                reached = [problem.total(*lane) for lane in lanes]
                for lane, alpha in enumerate(lengths.tolist()):
                    if -np.inf < reached[lane] < best.cost:
                        best = Step(alpha, reached[lane], X[lane], U[lane])
                if all(abs(one - cost) <= iterate.noise for one in reached):
                    break
    if best.alpha == 0.0:
        return None
    gradient = float("nan") if sweep is None else sweep.gradient
    seconds, violated = time.perf_counter() - before, iterate.violated() if iterate.constrained else (0.0, 0.0)
    return best, Record(
        best.cost, gradient, cost - best.cost, best.alpha, 0.0, CURVATURE, 1.0, seconds, iterate.gap, COSTATE, *violated
    )


def described(iterate: Iterate, found: Inertia) -> str:
    """Describe the kind of the point and its control of least curvature in words."""
    control = int(np.argmax(np.abs(found.policies[0][0][found.knot])))
    what = f"a {found.kind}" if found.lowest < 0.0 else "a degenerate point"
    said = f"{what}: the exact Hessian in the controls has the curvature {found.lowest:.2g} at knot {found.knot}"
    term = faults.most_concave(iterate.problem.objective, iterate.X, iterate.U, found.knot)
    return f"{said}, along control {control}" + (f"; {term} has negative curvature there" if term else "")


def _curvatures(iterate: Iterate, convex: Sweep | None) -> Inertia:
    """The curvatures of the cost, without those of controls that a limit holds.

    convex: a sweep with exact Hessians, if one has succeeded. That says it all, unless there are controls that cost
    nothing, which it leaves alone, or at limits that do not hold them.
    """
    limited, d = iterate.limited, iterate.work.derivatives
    N, n, nu = d.B.shape
    free, free_at_limits = np.ones((N, nu), dtype=bool), False
    if limited:
        iterate.know(FIRST)
        low, high = iterate.backward.limits
        free = holding(d.B, d.lz, costates(d.A, d.lz), low, high)[1] == 0
        free_at_limits = bool((free & ((low >= 0.0) | (high <= 0.0))).any())
    if convex is not None and not free_at_limits:
        still = free & (convex.k == 0.0)
        if still.any():
            still &= ~convex.K.any(axis=2)
            free &= ~_absent(iterate, still)
        if not (free & still).any():
            return Inertia(0, int(free.sum()), 0)
    iterate.know(FIRST | EXACT | RECORDS)
    H = d.hessians(iterate.separable)
    second = np.zeros((N, n + nu, n + nu))
    iterate.work.contract(costates(d.A, d.lz)[1:], second)
    H[:N] += second
    if not all(np.isfinite(array).all() for array in (H, d.A, d.B)):
        return Inertia(0, 0, int(free.sum()))
    z, (x, u) = iterate.units, np.split(iterate.units, [n])
    found = inertia(d.A * (x / x[:, None]), d.B * (u / x[:, None]), mirrored(H) * z * z[:, None], free)
    policies, further = (
        tuple((u * k, K * (u[:, None] / x)) for k, K in some) for some in (found.policies, found.further)
    )
    return found._replace(policies=policies, further=further)


def _absent(iterate: Iterate, still: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which of the controls ``still`` (N, nu) neither dynamics nor costs know, as in impacts: they are no variables."""
    d, n = iterate.work.derivatives, iterate.work.derivatives.A.shape[1]
    absent = np.zeros_like(still)
    for t in np.flatnonzero(still.any(axis=1)):
        H = np.diag(d.diagonal[t]) if iterate.separable[t] else mirrored(d.exact[t : t + 1])[0]
        absent[t] = still[t] & ~(d.B[t].any(axis=0) | (d.lz[t, n:] != 0.0) | H[n:].any(axis=1))
    return absent

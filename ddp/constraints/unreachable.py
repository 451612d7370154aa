"""Whether a knot's constraints can be met by any state, however it is reached, or after the first step by any control.

Violations are minimised from many points at once by the method of Levenberg and Marquardt. Where none of the minima
meets all bounds no motion can, as it would have to at this knot.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ddp.constraints.rows import beyond
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.systems.system import Expansion

STEPS, DAMPED, FALL, RISE, SETTLED = 40, 1e-3, 0.2, 5.0, 1e-6
"""Steps, the first damping relative to the diagonal of JᵀJ, how it falls where a step helps, and rises elsewhere. A
step that lowers squares by no more than the last share is the last one of its state."""

MET, MISSED = 1e-6, 1e-4
"""Violations of no more count as none, of bounds beyond one relative to these; and those of no more do not count as
missed after the first step, which is judged before anything else is tried."""

CHANGED = 0.5
"""Share of the least sum of squares that any other controls change to first order, at most, where it is a proof."""

STILL = 0.05
"""Share of the least sum of squares that a step may still take away, to first order, at most, where it is a minimum."""

ALIKE, UNSEEN = 1e-2, 1.0
"""Relative difference of minima that count as one, and how many more may be expected where it is a proof. With sines
of states at the end, problems that can be solved, but where no state was found, have 7 and more, all but one; of 33
that cannot be solved 28 have at most one."""

EPSILON, TINY = 1e-12, 1e-300
"""Damping of what JᵀJ does not see, relative to its largest diagonal number, and where all of it is zero."""

AT_ONCE = "no controls within limits meet it, whatever follows"
"""Proof, in words, that the first step cannot meet constraints."""

MOST = 2
"""Other constraints that are named."""

BEGUN, REACH = 24, 30.0
"""Controls of the first step to begin with, and how far they are from rest, relative to it, where nothing limits them.
"""


class Knot:
    """The hard rows (m,) of a knot, functions of M states and controls; sizes (m,): what their bounds count as.

    names: of constraints, each of one or several rows.
    factors: of all rows, by which violations are measured, see `ddp.interior.scaling`; by default one.
    """

    def __init__(self, problem: Problem, knot: int, factors: Array | None = None) -> None:
        here = [entry for entry in problem.placed if entry.start <= knot < entry.stop and entry.cap is None]
        self.names = [entry.name for entry in here]
        self._constraints, self._nz = [entry.constraint for entry in here], problem.dynamics.n + problem.dynamics.nu
        bounds = [(entry.lower[knot - entry.start], entry.upper[knot - entry.start]) for entry in here]
        self._ends = np.cumsum([len(lower) for lower, _ in bounds])
        self.bounds = [np.concatenate(sides) for sides in zip((np.zeros(0),) * 2, *bounds, strict=True)]
        sizes = (np.where(np.isfinite(bound), np.abs(bound), 1.0) for bound in self.bounds)
        own = [] if factors is None else [1.0 / entry.own(factors)[knot - entry.start] for entry in here]
        self.sizes = np.maximum(np.concatenate([np.zeros(0), *own]) if own else 1.0, np.minimum(*sizes))

    def split(self, rows: NDArray[np.bool_]) -> list[NDArray[np.bool_]]:
        """Numbers of rows (m,) by constraint, in the order of names."""
        return np.split(rows, self._ends)[: len(self.names)]

    def values(self, X: Array, U: Array) -> Array:
        """Values (M, m)."""
        return np.concatenate([np.zeros((len(X), 0)), *(one.values(X, U) for one in self._constraints)], axis=1)

    def beyond(self, X: Array, U: Array) -> Array:
        """Violations (M, m): above the bounds positive, below negative."""
        return beyond(self.values(X, U), *self.bounds)

    def slopes(self, X: Array, U: Array, r: Array) -> Array:
        """Jacobians (M, m, nz) of violations r (M, m)."""
        J = [np.zeros((len(X), 0, self._nz)), *(one.jacobian(X, U) for one in self._constraints)]
        return np.where((r == 0.0)[:, :, None], 0.0, np.concatenate(J, axis=1))


class _FirstStep:
    """The hard rows of knots 0 and 1, functions of M pairs U (M, 2 nu) of their controls, and of no states."""

    def __init__(self, problem: Problem, factors: Array | None = None) -> None:
        self._problem, self._knots = problem, (Knot(problem, 0, factors), Knot(problem, 1, factors))
        self.sizes = np.concatenate([knot.sizes for knot in self._knots])

    def points(self, U: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """States and controls of both knots."""
        x0, (first, second) = self._problem.x0, np.split(U, 2, axis=1)
        after = np.array([self._problem.dynamics.step(x0, u) for u in first])
        return (np.tile(x0, (len(U), 1)), first), (after, second)

    def beyond(self, X: Array, U: Array) -> Array:
        return np.concatenate([k.beyond(*at) for k, at in zip(self._knots, self.points(U), strict=True)], axis=1)

    def priced(self, U: Array, y: Array) -> Array:
        """Values beyond the bounds that y (m,) pushes against, times y (M,): negative where all bounds are met."""
        c = np.concatenate([k.values(*at) for k, at in zip(self._knots, self.points(U), strict=True)], axis=1)
        lower, upper = np.concatenate([knot.bounds for knot in self._knots], axis=1)
        of = y != 0.0
        return (c - np.where(y > 0.0, upper, lower))[:, of] @ y[of]

    def slopes(self, X: Array, U: Array, r: Array) -> Array:
        (x, u), after = self.points(U)
        system, m = self._problem.dynamics, len(self._knots[0].sizes)
        n, B = system.n, np.empty((len(U), system.n, system.nu))
        for k in range(len(U)):
            out = Expansion.of(system, 1)
            system.expand(x[k : k + 1], u[k : k + 1], out)
            B[k] = out.B[0]
        own, J = self._knots[0].slopes(x, u, r[:, :m])[:, :, n:], self._knots[1].slopes(*after, r[:, m:])
        first = np.concatenate([own, J[:, :, :n] @ B], axis=1)
        return np.concatenate([first, np.concatenate([np.zeros_like(own), J[:, :, n:]], axis=1)], axis=2)


def contradicting(
    problem: Problem, knot: int, X: Array, U: Array, factors: Array | None = None, sure: bool = False
) -> list[str]:
    """Names of a knot's constraints that no states X (M, nx) with controls U (M, nu) can be moved to meet; else none.

    They are those that are missed where all are missed least. Soft constraints need not hold. Limits of controls do; at
    the end of the horizon controls are zeros. Where minimising has not come to an end there is no proof, and no name;
    nor, if it is to be sure, where other minima are to be expected, see `unseen`.   factors: see `Knot`.
    """
    rows = Knot(problem, knot, factors)
    low, high = (limit[knot] for limit in _limits(problem))
    U = np.clip(U, low, high)
    units = np.abs(rows.slopes(X, U, rows.beyond(X, U))).max(axis=(0, 2))
    units = np.where(units == 0.0, 1.0, units)
    r, X, U = _least(problem, rows, X, U, low, high, units)
    if _is_met(rows, r, MET) or not np.isfinite(r).all():
        return []
    squares = ((r / units) ** 2).sum(axis=1)
    i = int(squares.argmin())
    best = slice(i, i + 1)
    if sure and unseen(squares) > UNSEEN:
        return []
    if not _still_removable(rows, X[best], U[best], r[best], low, high, units) <= STILL:  # nor where slopes are none
        return []
    missed = np.abs(r[i]) > MET * rows.sizes
    return [name for name, of in zip(rows.names, rows.split(missed), strict=True) if of.any()]


def unseen(minima: Array) -> float:
    """Number of minima that searches have not found, of which these (M,) were found, to be expected.

    Of M random starts that lead to w different minima it is w (w + 1) / (M - w - 2) (Boender & Rinnooy Kan 1987).
    """
    found = np.sort(minima)
    w = 1 + int((np.diff(found) > ALIKE * found[1:]).sum())
    return w * (w + 1) / (len(found) - w - 2) if len(found) > w + 2 else np.inf


def nearest(problem: Problem, knot: int, X: Array, U: Array, count: int, factors: Array | None = None) -> Array:
    """Numbers of so many of states X (M, nx) with controls U that violate a knot's constraints least."""
    rows = Knot(problem, knot, factors)
    missed = ((rows.beyond(X, U) / rows.sizes) ** 2).sum(axis=1)
    return np.asarray(np.argsort(np.where(np.isfinite(missed), missed, np.inf), kind="stable")[:count])


def _still_removable(rows: Knot, X: Array, U: Array, r: Array, low: Array, high: Array, units: Array) -> float:
    """Share of the squares of violations r (1, m) that a damped step takes away, to first order: none at a minimum."""
    J, wanted = rows.slopes(X, U, r)[0] / units[:, None], r[0] / units
    n = J.shape[1] - U.shape[1]
    pushed = (wanted @ J)[n:]
    J[:, n:][:, ((low >= U[0]) & (pushed > 0.0)) | ((high <= U[0]) & (pushed < 0.0))] = 0.0
    H, g = J.T @ J, wanted @ J
    sizes = H.diagonal()
    step = np.linalg.solve(H + np.diag(DAMPED * sizes + EPSILON * sizes.max() + TINY), g)
    return float(g @ step / (wanted @ wanted))


def nearest_end(problem: Problem, x: Array, factors: Array | None = None) -> Array:
    """A state (nx,) near x that meets the constraints of the end; x itself if none is found.   factors: see `Knot`."""
    rows, X, U = Knot(problem, problem.horizon, factors), x[None], np.zeros((1, problem.dynamics.nu))
    r, X, _ = _least(problem, rows, X, U, U[0], U[0], rows.sizes)
    return X[0] if _is_met(rows, r, MET) else x


def begins_outside(problem: Problem) -> bool:
    """Whether x0 violates hard constraints of states, which are imposed from knot 1 on."""
    try:
        return problem.constrained and problem.rows.worst_given(problem.x0) > 0.0
    except Exception:  # a user's own code fails, which is told where it is solved
        return False


def unmet_at_once(problem: Problem, factors: Array | None = None) -> str | None:
    """The constraint that no controls within limits meet up to the first step, in words; None if some may do.

    factors: see `Knot`.
    """
    rows, (low, high) = _FirstStep(problem, factors), (limit[:2].ravel() for limit in _limits(problem))
    try:
        rest = np.tile(problem.dynamics.nominal_control(problem.x0), 2)
        reach, random = REACH * np.maximum(np.abs(rest), 1.0), np.random.default_rng(0)
        ends = np.maximum(low, np.minimum(high, rest) - reach), np.minimum(high, np.maximum(low, rest) + reach)
        U = np.where(np.arange(BEGUN)[:, None] < BEGUN // 2, np.where(random.random((BEGUN, rest.size)) < 0.5, *ends),
                     random.uniform(*ends, (BEGUN, rest.size)))  # fmt: skip
        U[0] = np.clip(rest, low, high)
        tried = U
        r, _, U = _least(problem, rows, np.zeros((BEGUN, 0)), U, low, high, rows.sizes)
        if _is_met(rows, r, MISSED) or not np.isfinite(r).all():
            return None
        weighed = r / rows.sizes**2
        best = int(np.argmin((weighed * r).sum(axis=1)))
        g = weighed[best] @ rows.slopes(np.zeros((BEGUN, 0)), U, r)[best]
        room = np.minimum(np.where(g > 0.0, U[best] - low, high - U[best]), reach)
        if np.abs(g) @ room > CHANGED * (weighed * r)[best].sum():
            return None
        if not (rows.priced(np.concatenate([tried, U]), weighed[best]) > 0.0).all():  # controls far away disagree
            return None
        (x0, u0), (x1, u1) = ((x[best], u[best]) for x, u in rows.points(U))
        N = problem.horizon
        found = problem.residuals(np.array([x0, *[x1] * N]), np.array([u0, *[u1] * N])[:N])
    except Exception:  # there is no step, or a user's own code fails, which proves nothing
        return None
    placed = zip(found, problem.placed, strict=True)
    early = [(one, max(0, 2 - entry.start)) for one, entry in placed if entry.cap is None and entry.start < 2]
    cut = [replace(one, violation=one.violation[:many]) for one, many in early]
    worst, *others = sorted(cut, key=lambda one: -one.worst)
    beside = (f", beside {one.name} by {one.worst:.3g}" for one in others[:MOST] if one.worst > MET)
    return str(worst) + "".join(beside)


def _limits(problem: Problem) -> tuple[Array, Array]:
    """Lower and upper limits (N+1, nu) of controls, zeros at the end."""
    return problem.padded(problem.lower), problem.padded(problem.upper)


def _is_met(rows: Knot | _FirstStep, r: Array, within: float) -> bool:
    """Whether any of M points with violations r (M, m) meets all bounds."""
    return bool((np.abs(r) <= within * rows.sizes).all(axis=1).any())


def _least(
    problem: Problem, rows: Knot | _FirstStep, X: Array, U: Array, low: Array, high: Array, units: Array
) -> tuple[Array, Array, Array]:
    """The least violations (M, m) near states X (M, nx) and numbers U within limits, or some that are met; these X, U.

    units (m,): of rows, which their squares are weighed by. Numbers at a limit that violations push them against stay
    there.
    """
    r, X, U, go_on = rows.beyond(X, U), X.copy(), U.copy(), np.arange(len(X))
    n, damping = problem.dynamics.n if X.shape[1] else 0, np.full((len(X), 1), DAMPED)
    for _ in range(STEPS):
        if _is_met(rows, r, MET) or not go_on.size:
            break
        x, u, own = X[go_on], U[go_on], r[go_on]
        scaled = rows.slopes(x, u, own) / units[:, None]
        g = np.einsum("kia,ki->ka", scaled, own / units)
        held = ((low >= u) & (g[:, n:] > 0.0)) | ((high <= u) & (g[:, n:] < 0.0))
        scaled[:, :, n:][np.broadcast_to(held[:, None], (*own.shape, u.shape[1]))] = 0.0
        g[:, n:][held] = 0.0
        H, diagonal = scaled.swapaxes(1, 2) @ scaled, np.arange(scaled.shape[2])
        sizes = H[:, diagonal, diagonal]
        H[:, diagonal, diagonal] += damping[go_on] * sizes + EPSILON * sizes.max(axis=1, keepdims=True) + TINY
        step = -np.linalg.solve(H, g[:, :, None])[:, :, 0]
        moved = problem.dynamics.integrate(x, step[:, :n]) if n else x, np.clip(u + step[:, n:], low, high)
        tried = rows.beyond(*moved)
        before, after = (((part / units) ** 2).sum(axis=1, keepdims=True) for part in (own, tried))
        better = after < before
        X[go_on], U[go_on], r[go_on] = (
            np.where(better, *pair) for pair in zip((*moved, tried), (x, u, own), strict=True)
        )
        damping[go_on] *= np.where(better, FALL, RISE)
        go_on = go_on[~(better & (after > (1.0 - SETTLED) * before)).ravel()]
    return r, X, U

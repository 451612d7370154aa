"""Ends that a motion may have, and straight ways there: guesses for targets that several postures reach.

The way to an end costs about as much as in a linear-quadratic model about x0 at rest. Its arrival cost is ½ |y|² for
the end ``x0 ⊕ (m + L y)``, where m and L Lᵀ are the mean and the covariance that a Kalman filter predicts: costs of
states are its measurements, and its noise is the inverse of what controls cost. Minima of this and the exact cost of
the end are postures that a motion may end in; random y, always the same ones, lead to them.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np

from ddp.constraints.detours import detour
from ddp.constraints.unreachable import Knot
from ddp.costs.batch import varying
from ddp.costs.bound import GAUSS_NEWTON
from ddp.costs.cost_table import Table, expand_matrices
from ddp.guesses import Motion, Start, resting, smooth
from ddp.machine.recycled import recycled
from ddp.posture_kernels import DampedSteps, choose, keep_to
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solutions.explanation import may_be_dear, rests
from ddp.solutions.solution import Solution
from ddp.systems.system import Expansion, ability

logger = logging.getLogger("mayne")

SEEDS, NEAR, STEPS = 24, 2, 10
"""Random ends to begin from; steps to a minimum from the end that costs least to come to, and from these."""

FREE = 1e-15
"""Prices of controls below this, relative to the largest, count as none: these controls are not used."""

HELD = 100.0
"""Price of half a squared violation at the end, relative to its bound's size, in costs of the end y = 0."""

APART = 0.2
"""Distance of y, relative to it, from which ends are others."""

BEST, DEAR = 2, 3.0
"""Ends, of those to which straight ways cost least, that are guessed before random ones; ways that cost no more than
such a multiple of the least, or as much more of a negative one, tell how far away random ends are."""

TRIED, EVERY, TOGETHER = 4, 4, 16
"""Ends, of those that seem to cost least, to one of which a second start goes; how many knots have the same controls;
and how many problems are searched for ends at a time."""


WAYS, PIECES, LENGTHS = 32, 6, 8
"""Random controls that motions at rest are left by, each of so many pieces that last equally long and have the same
controls, zero on average, for what they speed up they are to slow down; and how many lengths of each are tried, either
way, each half of the one before."""


class Way(NamedTuple):
    """A straight way to an end: its states X (N+1, nx), controls U (N, nu) that nearly follow it, and what it costs.

    kept: adds gains that keep to it.
    """

    X: Array
    U: Array
    cost: float
    kept: Callable[[], Motion]


class _Steps(NamedTuple):
    """Steps of linear-quadratic models, as one: x' ~ N(A x, C), after exp(-½ x·J x).

    x (n+1,) ends in one, so that A, C and J (M, n+1, n+1) have what is affine, too.
    """

    A: Array
    C: Array
    J: Array

    def then(self, other: "_Steps") -> "_Steps":
        """Steps of this and other ones after them."""
        inverse = np.linalg.inv(np.eye(self.A.shape[-1]) + self.C @ other.J)
        gain, back = other.A @ inverse, self.A.mT
        return _Steps(gain @ self.A, gain @ self.C @ other.A.mT + other.C, back @ other.J @ inverse @ self.A + self.J)


def _steps(problems: Sequence[Problem]) -> _Steps:
    """The first step of each problem about rest at x0, with the mean of running costs."""
    d, N, n, M = problems[0].dynamics, problems[0].horizon, problems[0].dynamics.n, len(problems)
    x = np.array([one.x0 for one in problems])
    u = resting(d, x)
    made, costs, nz = Expansion.of(d, M, np.zeros), problems[0].allocate(np.zeros), n + d.nu
    d.expand(x, u, made)
    H, z, mean = np.empty((M, nz, nz)), np.empty((M, nz)), np.full(N, 1.0 / N)
    for i, one in enumerate(problems):
        one.objective.expand(x[i : i + 1].repeat(N + 1, axis=0), u[i : i + 1].repeat(N + 1, axis=0), costs, 0, N)
        z[i], H[i] = mean @ costs.lz[:N], (mean @ costs.lzz[:N].reshape(N, -1)).reshape(nz, nz)
        H[i].reshape(-1)[:: nz + 1] += mean @ costs.diagonal[:N]  # of separable knots, whose lzz is zero
    sizes, axes = np.linalg.eigh(H[:, n:, n:])
    free, moves = np.abs(sizes) <= FREE * np.abs(sizes).max(axis=1, keepdims=True), made.B @ axes
    noise = moves / np.where(free, np.inf, sizes)[:, None]
    A, C, J = np.tile(np.eye(n + 1), (M, 1, 1)), np.zeros((M, n + 1, n + 1)), np.zeros((M, n + 1, n + 1))
    drift = noise @ (axes.mT @ z[:, n:, None])
    A[:, :n, :n], A[:, :n, n] = made.A, d.difference(x, d.step(x, u)) - drift[:, :, 0]
    C[:, :n, :n], J[:, :n, :n] = noise @ moves.mT, H[:, :n, :n]
    J[:, :n, n] = J[:, n, :n] = z[:, :n]
    return _Steps(A, C, J)


def _arrival(problems: Sequence[Problem]) -> tuple[Array, Array]:
    """m (M, 1, n) and L (M, n, n) of arrival costs: the symmetric root of C, as rounding decides signs of its axes."""
    step, steps = _steps(problems), None
    N, n = problems[0].horizon, problems[0].dynamics.n
    while N:
        if N % 2:
            steps = step if steps is None else steps.then(step)
        step, N = step.then(step) if N > 1 else step, N // 2
    assert steps is not None
    C = steps.C[:, :n, :n]
    sizes, axes = np.linalg.eigh(0.5 * (C + C.mT))
    return steps.A[:, None, :n, n], axes * np.sqrt(np.maximum(sizes, 0.0))[:, None] @ axes.mT


class Ends:
    """Ends of motions of problems that differ in numbers, and what arriving there costs.

    They are ``x0 ⊕ (m + L y)``; in Y (M, S, n) are S of each problem.
    """

    def __init__(self, *problems: Problem) -> None:
        self._problems, (self._mean, self._axes) = problems, _arrival(problems)
        self._system, N = problems[0].dynamics, problems[0].horizon
        self._terms = [[entry for entry in one.objective.entries if entry.begin == N] for one in problems]
        self._rows = [Knot(one, N) for one in problems]
        self._laid: dict[int, tuple[Table, Array]] = {}
        self._prices: list[float] = []  # of violations, until they are known
        if any(len(rows.sizes) for rows in self._rows):
            costs = self.least(np.zeros((len(problems), 1, self._system.n)), 0)[0][:, 0]
            self._prices = [HELD * (abs(float(cost)) or 1.0) for cost in costs]

    def _of(self, count: int) -> tuple[Table, Array]:
        """The compiled terms of the ends, and the states x0, of as many for each problem."""
        if count not in self._laid:
            rows = []
            for i, (one, entries) in enumerate(zip(self._problems, self._terms, strict=True)):
                own = one.objective.table[one.objective.table[:, 2] == one.horizon]
                for row, entry in zip(own, (entry for entry in entries if entry.compiled), strict=True):
                    few = count if varying(entry.term) is None else 1
                    rows += [(*row[:2], j, j + few, row[4]) for j in range(i * count, (i + 1) * count, few)]
            x0 = np.array([one.x0 for one in self._problems])
            self._laid[count] = np.array(rows, dtype=np.int64).reshape(-1, 5), x0.repeat(count, axis=0)
        return self._laid[count]

    def at(self, Y: Array) -> Array:
        """The ends (M S, nx)."""
        return self._moved((self._mean + Y @ self._axes.mT).reshape(-1, self._system.n))

    def _moved(self, moves: Array) -> Array:
        """States (M S, nx) that moves from x0 (M S, n) lead to, as many of each problem."""
        return self._system.integrate(self._of(len(moves) // len(self._problems))[1], moves)

    def _add_costs(self, X: Array, l: Array, lz: Array, lzz: Array) -> None:
        """Add costs of ends X (M S, nx), with Gauss-Newton Hessians. Hard constraints of the end count as costs."""
        d, S = self._system, len(X) // len(self._problems)
        n, U = d.n, np.zeros((len(X), d.nu))
        expand_matrices(self._of(S)[0], GAUSS_NEWTON, X, U, l, lz, lzz)
        for i, (entries, rows) in enumerate(zip(self._terms, self._rows, strict=True)):
            own = slice(i * S, (i + 1) * S)
            for entry in entries:
                if not entry.compiled:
                    entry.term.expand(X[own].copy(), U[own].copy(), entry.weight, False, l[own], lz[own], lzz[own])
            if self._prices and len(rows.sizes):
                r, price = rows.beyond(X[own], U[own]), self._prices[i]
                J, r = rows.slopes(X[own], U[own], r)[:, :, :n] / rows.sizes[:, None], r / rows.sizes
                l[own] += 0.5 * price * (r * r).sum(axis=1)
                lz[own, :n] += price * np.einsum("kia,ki->ka", J, r)
                lzz[own, :n, :n] += price * np.einsum("kia,kib->kab", J, J)

    def least(self, Y: Array, steps: int) -> tuple[Array, Array]:
        """Minima near Y: their estimates (M, S) and y (M, S, n)."""
        search = DampedSteps(self._mean, self._axes, Y, self._system.nu)
        for _ in range(steps + 1):
            self._add_costs(self._moved(search.moves), search.l, search.lz, search.lzz)
            search.go_on()
        return search.f, search.Y

    def found(self, most: int = SEEDS) -> list[Array]:
        """Different ends (., nx) of each, the least estimate first, from some that are no further than the nearest."""
        M, n, random = len(self._problems), self._system.n, np.random.default_rng(0)
        y = self.least(np.zeros((M, 1, n)), NEAR)[1]
        away = random.normal(size=(SEEDS, n))
        away *= (random.uniform(0.3, 1.0, SEEDS) / np.linalg.norm(away, axis=1))[:, None]
        Y = np.concatenate([y, np.linalg.norm(y, axis=2)[:, :, None] * away], axis=1)
        f, Y = self.least(Y, STEPS)
        chosen = np.empty((M, min(most, f.shape[1])), dtype=np.int64)
        choose(f, Y, APART, chosen)
        X = self.at(Y).reshape(*f.shape, -1)
        return [x[own[own >= 0]] for x, own in zip(X, chosen, strict=True)]


def straight(problems: Sequence[Problem], ends: Array, every: int = 1) -> list[Way]:
    """Straight ways of problems to ends (M, nx), at rest at both ends of the way, with controls that keep to them.

    every: so many knots have the same controls and gains.
    """
    d, N, M = problems[0].dynamics, problems[0].horizon, len(problems)
    x0, lower, upper = (np.array([getattr(one, name) for one in problems]) for name in ("x0", "lower", "upper"))
    ahead, h = smooth(np.linspace(0.0, 1.0, N + 1)[:, None]), d.n // 2
    way = d.difference(x0, ends)
    robot = ability(d, "turn") is not None  # whose states are positions and velocities
    if robot:
        way[:, h:] = 0.0
    dX = (ahead * way[:, None]).reshape(-1, d.n)
    X = d.integrate(x0.repeat(N + 1, axis=0), dX).reshape(M, N + 1, d.nx)
    if robot:
        X[:, :, d.nx - h :] = np.gradient(ahead[:, 0])[:, None] / d.dt * way[:, None, :h]
        X[:, 0] = x0
    at, after = (np.ascontiguousarray(X[:, i : N + i : every]).reshape(-1, d.nx) for i in (0, 1))
    rest = np.ascontiguousarray(d.nominal_control(at))
    if robot:
        made = Expansion.of(d, len(at), recycled)
        d.expand(at, rest, made)
        missed = d.difference(d.step(at, rest), after)

    def found(own: slice, gains: bool) -> Array:
        """Controls of some knots and, if wanted, the gains behind them: (., nu, 1 + n)."""
        if not robot:
            return np.concatenate([rest[own, :, None], np.zeros((len(rest[own]), d.nu, d.n))], axis=2)
        out = np.empty((len(rest[own]), d.nu, 1 + d.n if gains else 1))
        keep_to(made.A[own], made.B[own], missed[own], rest[own], out)
        return out

    def kept(i: int) -> Motion:
        """Way i with its gains."""
        few = len(at) // M
        both = found(slice(i * few, (i + 1) * few), True).repeat(every, axis=0)[:N]
        return Motion(X[i], np.clip(both[:, :, 0], lower[i], upper[i]), both[:, :, 1:])

    U = found(slice(None), False)[:, :, 0].reshape(M, -1, d.nu).repeat(every, axis=1)[:, :N]
    U = np.clip(U, lower, upper)
    costs = [one.total(x, u) + one.paid(x, u) for one, x, u in zip(problems, X, U, strict=True)]
    return [Way(X[i], U[i], costs[i], partial(kept, i)) for i in range(M)]


def second_starts(problems: Sequence[Problem], motions: Sequence[Motion | Solution]) -> list[Start]:
    """Guesses from which minima may be cheaper than motions from default ones; None where these are hardly dear.

    Steps that are made for the whole way to a distant target turn joints far, and may end in another posture, or with
    joints wound the other way round, at a minimum several times as dear as the best one. A straight way to the posture
    that costs least to come to does not. Gains keep to it; under constraints its states are imposed. Motions that have
    stayed at rest, as no control changes the cost to first order, are left by random controls.
    """
    found: list[Start] = [None] * len(problems)
    dear = [i for i, (one, motion) in enumerate(zip(problems, motions, strict=True)) if _is_dear(one, motion)]
    for begin in range(0, len(dear), TOGETHER):
        some = dear[begin : begin + TOGETHER]
        for i, start in zip(some, _by_ways([problems[i] for i in some]), strict=True):
            found[i] = start
    for i, (one, motion) in enumerate(zip(problems, motions, strict=True)):
        found[i] = moving(one, motion) if rests(motion, one) else found[i]
    return found


def moving(problem: Problem, motion: Motion | Solution) -> Motion | None:
    """Motion by random controls, always the same ones, that costs less than a given one; None if none is found.

    Such as a car's whose target is beside it: neither pedal nor wheel alone leads there. The first random controls that
    serve are taken, by the best length.
    """
    (N, nu), random, best = motion.U.shape, np.random.default_rng(0), None
    widths = (problem.upper - problem.lower)[np.isfinite(problem.upper - problem.lower)]
    longest = max(1.0, float(np.abs(motion.U).max()), float(widths.max(initial=0.0)))
    alphas, least = longest * np.exp2(-np.arange(LENGTHS, dtype=float)), problem.total(motion.X, motion.U)
    K, gaps = np.zeros((N, nu, problem.dynamics.n)), np.zeros((N, problem.dynamics.n))
    try:
        with np.errstate(all="ignore"):
            for pieces in random.normal(size=(WAYS, PIECES, nu)):
                k = (pieces - pieces.mean(axis=0))[np.arange(N) * PIECES // N]
                for way in (k, -k):
                    for X, U in zip(*problem.track(motion.X, motion.U, way, K, alphas, gaps)[:2], strict=True):
                        cost = problem.total(X, U) if np.isfinite(X).all() else np.inf
                        if -np.inf < cost < least:
                            least, best = cost, Motion(X, U, K)
                if best is not None:
                    return best
    except Exception:  # as in `_by_ways`
        logger.debug("no motion by random controls", exc_info=True)
    return None


def _is_dear(problem: Problem, motion: Motion | Solution) -> bool:
    """Whether a motion turns joints far, though what it costs on its way is less than what it saves at its end."""
    if not may_be_dear(motion, problem):
        return False
    end = float(problem.values(np.tile(problem.x0, (len(motion.X), 1)), motion.U)[-1])
    return 0.0 < float(problem.values(motion.X, motion.U)[:-1].sum()) < end


def _by_ways(problems: Sequence[Problem]) -> list[Start]:
    """The cheapest straight way of each problem, as a guess."""
    starts: list[Start] = []
    try:
        with np.errstate(all="ignore"):
            ends = Ends(*problems).found(TRIED)
            each = [one for one, own in zip(problems, ends, strict=True) for _ in own]
            ways = iter(straight(each, np.concatenate(ends), EVERY))
            for one, own in zip(problems, ends, strict=True):
                few = list(islice(ways, len(own)))
                way = few[int(np.nanargmin([way.cost for way in few]))].kept()
                starts.append(around(one, way) if one.constrained else way)
            return starts
    except Exception:  # a user's own code fails at states that no solve has come to
        logger.debug("no second start for %d problems", len(problems), exc_info=True)
        return [None] if len(problems) == 1 else [start for one in problems for start in _by_ways([one])]


def own_guesses(problem: Problem, count: int) -> list[Start]:
    """Guesses of a problem's own, always the same: the default, straight ways to the best ends, and to random ones.

    Random ends are as far away as good ones. Where the model of the way cannot be made, there is the default alone.
    """
    d, random = problem.dynamics, np.random.default_rng(0)
    try:
        with np.errstate(all="ignore"):
            ends = Ends(problem).found()[0]
            known = [way for way in straight([problem] * len(ends), ends) if np.isfinite(way.cost)]
            found = sorted(known, key=lambda way: way.cost)
            most = found[0].cost + (DEAR - 1.0) * abs(found[0].cost)
            good = np.array([way.X[-1] for way in found if way.cost <= most])
            x0 = np.tile(problem.x0, (max(count, len(good)), 1))
            spread = np.sqrt(3.0 * (d.difference(x0[: len(good)], good) ** 2).mean(axis=0))
            ends = d.integrate(x0, spread * random.uniform(-1.0, 1.0, (len(x0), d.n)))
            others = straight([problem] * len(ends), ends)
            ways = [way for way in (*found[:BEST], *others) if np.isfinite(way.cost)][: count - 1]
            return [None, *(around(problem, way.kept()) for way in ways)]
    except Exception:  # as in `_by_ways`
        logger.debug("no guesses of a problem's own", exc_info=True)
        return [None]


def around(problem: Problem, way: Motion) -> tuple[Array, Array]:
    """A way that goes around what it violates, if it is known how; else itself."""
    violated = problem.constrained and problem.violation(way.X, way.U) > 0.0
    other = detour(problem, way.X[-1])[0] if violated else None
    return (way.X, way.U) if other is None else other

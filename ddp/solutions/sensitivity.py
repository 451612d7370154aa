"""Derivatives of an optimum by its initial state and by numbers that its problem can vary: targets, weights, masses.

With the Lagrangian L of cost, dynamics and constraints, its Hessian H in z = (dx, du), and θ a change of numbers,

    min  Σ_k ½ zᵀ H z + zᵀ L_zθ θ,     dx' = A dx + B du + f_θ θ,     C z + c_θ θ = D ν

is what the optimum changes by, for the constraints c that hold and changes ν of their multipliers, see
`ddp.solutions.response`, with a column for each number and each multiplier. Rows of soft constraints give way by
D = 1 / price; where they are violated at a linear price, that is their multiplier. Controls at a limit that holds them
go with it.

H, A, B and C are exact. L_zθ, f_θ and c_θ are differences of fourth order of exact first derivatives: exact to rounding
where numbers enter as weights, bounds and targets of squares do.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ddp.adjoint import costates, holding
from ddp.constraints.bounds import room
from ddp.derivatives import EXACT, FIRST, RECORDS, mirrored
from ddp.differences import POINTS, WEIGHTS
from ddp.errors import ProblemError, numbers, said
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solutions.numbers import PLAIN, Number
from ddp.solutions.response import Quadratic, Slopes, compliances, response
from ddp.solutions.status import Status
from ddp.systems.structure import blocks_of
from ddp.tracing.function import space_of

if TYPE_CHECKING:
    from ddp.solutions.solution import Solution

STEP, SHARE = 1e-5, 1e-2
"""Step of differences, relative to numbers above one, which seldom passes where costs have kinks; and the largest share
of a number that it may be, for some are divided by."""

NOTHING, LITTLE, ALIKE = 1e-14, 1e-8, 1e-3
"""Numbers that count as zero in this, which may be rounding; and numbers that do so too, unless differences of a whole
and of half a step differ by more than the last share, as they do of capacities in farads."""

ALONG = 1e-3
"""Step of differences along tangents of states, which are smooth."""

PAID = 1.0 - 1e-3
"""Multipliers of soft constraints are their price where they are larger than this share of it."""


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """Derivatives of an optimum by numbers of its problem, as `Solution.sensitivity` returns them.

    dX (N+1, n, p), dU (N, nu, p): of states, as tangents at X, and of controls.
    cost (p,): of the least cost, see `Solution.cost`.
    multipliers (m, p): of those of constraints.
    columns: where of p each name's are: of plain numbers the entries in a row, of poses translation [m] and
        rotation vector [rad] in their own axes, of states tangents (n,).
    """

    solution: "Solution" = field(repr=False)
    columns: Mapping[str, slice]
    dX: Array = field(repr=False)
    dU: Array = field(repr=False)
    cost: Array
    multipliers: Array = field(repr=False)

    def __str__(self) -> str:
        lines = [f"derivatives of an optimum: dX {self.dX.shape}, dU {self.dU.shape}, of its cost"]
        return "\n".join([*lines, *(f"  by {name}: {numbers(self.cost[at])}" for name, at in self.columns.items())])

    def predicted(self, numbers: Mapping[str, Any] | None = None, /, **named: Any) -> "Solution":
        """The motion for other numbers, to first order: a guess for ``problem.varying(...)``, which is its problem.

        Controls are clipped to their limits. Raises ProblemError for names that are not among ``columns``, and for
        numbers that do not fit.
        """
        old, change = self.solution, np.zeros(self.dX.shape[2])
        problem = old._own_problem("predicted")
        twin = problem.varying(numbers, **named)
        for name in [*(numbers or {}), *named]:
            if name not in self.columns:
                raise ProblemError(f"predicted: expected some of {', '.join(self.columns)}, got {said(name)}")
            change[self.columns[name]] = Number.of(problem, name).towards(twin)
        X = twin.dynamics.integrate(old.X, self.dX @ change)
        X[0] = twin.x0
        U = np.clip(old.U + self.dU @ change, twin.lower, twin.upper)
        with np.errstate(all="ignore"):
            cost, violation = twin.total(X, U) + twin.paid(X, U), twin.violation(X, U)
            found = replace(
                old, X=X, U=U, cost=cost, converged=False, status=Status("predicted by sensitivities"), kind="unknown",
                multipliers=old.multipliers + self.multipliers @ change, violation=violation, iterations=0, seconds=0.0,
                setup_seconds=0.0, history=(), problem=twin,
            )  # fmt: skip
            return replace(found, gradient=found.stationarity())


def sensitivity(solution: "Solution", problem: Problem, names: tuple[str, ...]) -> Sensitivity:
    """Derivatives of an optimum by numbers of its problem; see `Solution.sensitivity`."""
    numbers = [Number.of(problem, name) for name in names]
    if not names or len(set(names)) < len(names):
        example = "" if names else ", such as 'x0'"
        raise ProblemError(f"names: expected names of numbers{example}, each once, got {said(names)}")
    if not solution.converged:
        raise ProblemError(f"sensitivity: expected a solution that has converged, got one of status: {solution.status}")
    optimum = Optimum(problem, solution)
    slopes, costs, paid = zip(*(optimum.by(number) for number in numbers), strict=True)
    by = Slopes(*(np.concatenate(parts, axis=-1) for parts in zip(*slopes, strict=True)))
    found = response(optimum.quadratic, by)
    begin, columns = 0, {}
    for number in numbers:
        columns[number.name] = slice(begin, begin := begin + number.size)
    multipliers = np.zeros((len(solution.multipliers), begin))
    multipliers[optimum.rows], multipliers[optimum.paid] = found.nu, np.concatenate(paid, axis=-1)
    return Sensitivity(solution, columns, found.dX, found.dU, np.concatenate(costs), multipliers)


class Optimum:
    """The linear-quadratic problem about a solution, and how its parts change with numbers of its problem.

    rows (a,): which multipliers are of constraints that hold, knots (a,): at which of the horizon; paid (m,): which are
    prices.   quadratic: the problem, see `ddp.solutions.response`.   costate (N+1, n): of the Lagrangian.
    """

    def __init__(self, problem: Problem, solution: "Solution") -> None:
        self._problem, self._X, self._U = problem, solution.X, problem.padded(solution.U)
        self._y, self._N, self._n = solution.multipliers, problem.horizon, problem.dynamics.n
        N, X, U, y = self._N, self._X, self._U, self._y
        d = problem.allocate()
        problem.expand(X, U, d, 0, N + 1, FIRST | EXACT | RECORDS)
        H = mirrored(d.hessians(problem.separable))
        if problem.constrained:
            problem.add_forces(X, U, y, d.lz)
            curvature = np.zeros_like(H)
            problem.rows.add_curvature(X, U, y, curvature)
            H += mirrored(curvature)
        self.costate, second = costates(d.A, d.lz), np.empty((N, *H.shape[1:]))
        problem.dynamics.contract(d.record, self.costate[1:], second)
        H[:N] += mirrored(second)
        self._F = np.concatenate([d.A, d.B], axis=2)
        self._side = self._at_limits(d.lz)
        self.paid = np.abs(y) > PAID * problem.rows.cap if problem.constrained else np.zeros(0, bool)
        some, C = self._pushing()
        yields, reach = compliances(d.A, d.B, H, self._side == 0, C)
        holds = self._holding(some, reach)
        self.rows, give = some[holds], problem.rows.compliance[some[holds]] if len(some) else np.zeros(0)
        self.knots = self._places(self.rows)[0]
        self.quadratic = Quadratic(d.A, d.B, H, self._side == 0, C[:, :, holds], give, yields, reach[holds])

    def by(self, number: Number) -> tuple[Slopes, Array, Array]:
        """Slopes by a number's tangents (p,), and derivatives of the least cost (p,) and of prices paid (., p)."""
        if number.name == "x0":
            still = np.zeros((len(self.parts(self._problem)), self._n))
            slopes, _, paid = self.slopes(still)
            return slopes._replace(F=np.eye(self._n)), self.costate[0], paid
        problem = self._problem
        if problem.constrained and number.twin(np.zeros(number.size)).rows.size != problem.rows.size:
            raise ProblemError(
                f"names: {number.name} moves one constraint of two that are one and the same, in two lists: name its"
                f" field alone, {number.name.rpartition('.')[-1]!r}, which moves both"
            )
        return self.slopes(np.stack([self._column(number, i) for i in range(number.size)], axis=-1))

    def slopes(self, columns: Array) -> tuple[Slopes, Array, Array]:
        """Slopes and derivatives of the least cost (p,) and of prices paid (., p), of those (., p) of ``parts``."""
        (N, n, nz), p = (self._N, self._n, self._F.shape[2]), columns.shape[1]
        c, S, r, du, cost, paid = np.split(columns, np.cumsum([(N + 1) * nz, N * n, len(self.rows), N * (nz - n), 1]))
        return Slopes(
            c.reshape(N + 1, nz, p), S.reshape(N, n, p), r, np.zeros((n, p)), du.reshape(N, nz - n, p)
        ), cost[0], paid  # fmt: skip

    def _column(self, number: Number, i: int) -> Array:
        """The derivative of `parts` along one tangent: of fourth order, or one-sided where numbers end."""
        along, value = np.eye(number.size)[i], abs(float(number.value.ravel()[i])) if number.kind == PLAIN else 1.0
        if np.isinf(value) or (value == 0.0 and number.problem.resolved(number.name) == "dynamics.masses"):
            return np.zeros_like(self.parts(self._problem))  # bodies without mass stay so

        def central(h: float) -> Array:
            ends = np.array([self.parts(number.twin(point * h * along)) for point in POINTS])
            return np.tensordot(WEIGHTS, ends - ends[0], axes=1) / h  # exactly 0 where nothing changes

        if value > LITTLE:
            return central(min(STEP * max(1.0, value), SHARE * value))
        try:
            with np.errstate(all="ignore"):
                far = central(STEP)
                if value <= NOTHING or np.abs(central(0.5 * STEP) - far).max() <= ALIKE * np.abs(far).max():
                    return far
            return central(SHARE * value)
        except ProblemError:  # below zero there may be no weights
            if value > 0.0:
                return central(SHARE * value)
        here, one, two = (self.parts(number.twin(k * STEP * along)) for k in range(3))
        return np.asarray((4.0 * one - 3.0 * here - two) / (2.0 * STEP))

    def parts(self, twin: Problem) -> Array:
        """L_z, f ⊖ X', what constraints that hold miss, controls at limits, L, and prices paid, at the optimum."""
        N, n, X, U, problem, F = self._N, self._n, self._X, self._U, self._problem, self._F
        d, on_next, y = twin.allocate(), self.costate[1:], self._y
        after = np.zeros((N, n))
        if twin.dynamics is problem.dynamics and not twin.objective.noted:
            twin.objective.expand(X, U, d, 0, N + 1)
        else:
            twin.expand(X, U, d, 0, N + 1)
        if twin.dynamics is not problem.dynamics:
            F, reached = np.concatenate([d.A, d.B], axis=2), twin.dynamics.step(X[:-1], U[:-1])
            after = twin.dynamics.difference(X[1:], reached)
            on_next = seen_from(twin, X[1:], reached, on_next)
        value, missed = float(d.l.sum() + (self.costate[1:] * after).sum()), np.zeros(0)
        if problem.constrained:
            rows = twin.rows
            y = np.where(self.paid, np.copysign(rows.cap, y), y)
            twin.add_forces(X, U, y, d.lz)
            bound = np.where(y > 0.0, rows.upper, np.where(y < 0.0, rows.lower, 0.0))
            beyond = rows.values(X, U) - np.where(rows.equal, rows.lower, bound)
            value += float((y * beyond - 0.5 * rows.compliance * y * y)[y != 0.0].sum())
            missed = (beyond - rows.compliance * y)[self.rows]
        d.lz[:N] += np.einsum("kij,ki->kj", F, on_next)
        held = np.where(self._side < 0, twin.lower, np.where(self._side > 0, twin.upper, U[:N]))
        value += float((self._slope * (held - U[:N])).sum())
        return np.concatenate([d.lz.ravel(), after.ravel(), missed, held.ravel(), [value], y[self.paid]])

    def _at_limits(self, lz: Array) -> NDArray[np.int64]:
        """Which limit (N, nu) holds a control: -1 the lower one, 1 the upper one, else 0."""
        limits = room(self._U[:-1], self._problem.lower, self._problem.upper)
        self._slope, side = holding(self._F[:, :, self._n :], lz, self.costate, *limits)
        return side

    def _pushing(self) -> tuple[NDArray[np.int64], Array]:
        """Rows (a,) that may hold, and their C: equalities, and what has a multiplier, less than its price."""
        if not self._problem.constrained:
            return np.zeros(0, np.int64), np.zeros((self._N + 1, self._F.shape[2], 0))
        rows = self._problem.rows
        some = np.flatnonzero((rows.equal | (self._y != 0.0)) & ~rows.free & ~self.paid)
        return some, self._jacobian(some)

    def _holding(self, some: NDArray[np.int64], reach: Array) -> NDArray[np.bool_]:
        """Which rows of some (a,) hold: equalities, what gives way, and what would leave its bound without multiplier.

        reach (a,): their compliances. Loose tolerances leave what holds away from its bound, by less than that.
        """
        if not len(some):
            return np.zeros(0, bool)
        rows, y = self._problem.rows, self._y[some]
        c, high = rows.values(self._X, self._U)[some], y > 0.0
        short = np.where(high, rows.upper[some] - c, c - rows.lower[some])
        return (rows.equal | (rows.compliance > 0.0))[some] | (short <= np.abs(y) * reach)

    def _jacobian(self, some: NDArray[np.int64]) -> Array:
        """C (N+1, nz, a) of some rows (a,)."""
        N, nz = self._N, self._F.shape[2]
        C, rows, (knots, columns) = np.zeros((N + 1, nz, len(some))), self._problem.rows, self._places(some)
        for number, entry in enumerate(rows.placed):
            if len(own := np.flatnonzero(rows.constraint[some] == number)):
                at, k = slice(entry.start, entry.stop), knots[own] - entry.start
                C[knots[own], :, own] = entry.constraint.jacobian(self._X[at], self._U[at])[k, columns[own]]
        return C

    def _places(self, some: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The knots (a,) of some rows, and which rows of their constraints they are."""
        knots, columns = np.zeros((2, len(some)), np.int64)
        for number, entry in enumerate(self._problem.rows.placed if len(some) else ()):
            own = self._problem.rows.constraint[some] == number
            k, columns[own] = np.divmod(some[own] - entry.first, entry.lower.shape[1])
            knots[own] = entry.start + k
        return knots, columns


def seen_from(problem: Problem, at: Array, moved: Array, weights: Array) -> Array:
    """Weights (N, n) on tangents at states ``at``, pulled back to those at ``moved``, which are near."""
    d, h, closing = problem.dynamics, ALONG, problem.dynamics.closing()
    space = space_of(d)
    if space is not None and space.is_flat:
        return weights
    bent = [range(first, first + size) for first, size in blocks_of(closing, d.n)] if closing.address else [range(d.n)]
    back = weights.copy()
    for j in itertools.chain(*bent):
        along = h * np.eye(d.n)[j]
        near = (d.integrate(moved, np.tile(way * along, (len(at), 1))) for way in (1.0, -1.0))
        ahead, behind = (d.difference(at, one) for one in near)
        back[:, j] = ((ahead - behind) * weights).sum(axis=1) / (2.0 * h)
    return back

"""The augmented Lagrangian of a problem's constraints (Powell, Hestenes, Rockafellar): what makes them cost terms.

With multipliers λ and a penalty ρ, and with e = s - clip(s, lower, upper) for ``s = c + λ / ρ``, every knot costs

    Σ_i ½ ρ e_i² - ½ λ_i² / ρ,   gradient  Jᵀ (ρ e),   Hessian  ρ J_aᵀ J_a + Σ_i ρ e_i ∂²c_i

J_a the rows that are active: those beyond a bound, and equalities. ``ρ e`` is the next estimate of λ: positive where
the upper bound holds c back, negative where the lower one does. The last sum is left out of the Gauss-Newton Hessian.

Soft constraints minimise this together with a violation v that has a price: of L2, π v² / 2, they are less stiff,
ρ / (1 + ρ / π) in place of ρ; of L1, π |v|, forces ρ e beyond ±π are cut, and what is beyond costs π for each unit.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ddp.constraints.augmented_cost import augmented_cost, weigh
from ddp.constraints.placement import Placed
from ddp.constraints.rows import Rows, Values, beyond, compiled
from ddp.costs import cost_table
from ddp.costs.batch import CompiledCost, ability
from ddp.costs.bound import EXACT, GAUSS_NEWTON, bind
from ddp.protocols import Array, copied

GIVEN = "at x0, which is given"
"""Words where x0 violates a constraint."""

TOLD = 1e-6
"""Violations up to this are not told of."""

SINGLE = re.compile(r"^constraints_at\[\d+\]")
"""Place of a constraint of a single knot: those of one place in their lists are told of as one."""

HARD = np.zeros((0, 0))
"""Caps and compliances of constraints that are not soft."""


@dataclass(frozen=True, eq=False)
class Residual:
    """A constraint along a trajectory.

    name: what it is, and which.   knots: where it is imposed, M of them.   values (M, size): c.
    violation (M, size): how far c is above (positive) or below (negative) its bounds.
    multipliers (M, size): positive where the upper bound is held by force, negative where the lower one is; that of an
        equality has either sign. ``∇cost + Jᵀ multipliers = 0`` at a solution.
    row_names: names of the ``size`` numbers, such as joints, where the constraint has some.
    given: how far x0 violates what is not imposed at knot 0, where the state is given.
    """

    name: str
    knots: range
    values: Array
    violation: Array
    multipliers: Array
    row_names: tuple[str, ...] = ()
    given: float = 0.0

    @property
    def worst(self) -> float:
        """The largest violation."""
        return float(np.abs(self.violation).max())

    @property
    def violated(self) -> int:
        """Number of knots at which it is violated by more than `TOLD`."""
        return int((np.abs(self.violation) > TOLD).any(axis=1).sum())

    def __str__(self) -> str:
        if self.worst == 0.0:
            return f"{self.name} holds"
        knot, row = np.unravel_index(int(np.argmax(np.abs(self.violation))), self.violation.shape)
        part = f"[{self.row_names[row] if self.row_names else row}]" if self.violation.shape[1] > 1 else ""
        others = f", by less at {self.violated - 1} more" if self.violated > 1 else ""
        start = f", and by {self.given:.3g} {GIVEN}" if self.given > 0.0 else ""
        return f"{self.name}{part} is violated by {self.worst:.3g} at knot {self.knots[int(knot)]}{others}{start}"


def shared_name(name: str) -> str:
    """Name that constraints of single knots share if they have one place in their lists; of others their own."""
    return SINGLE.sub("constraints_at[...]", name)


def multipliers_of(placed: Sequence[Placed]) -> int:
    """Number of multipliers."""
    return sum(entry.lower.size for entry in placed)


def state_size(placed: Sequence[Placed]) -> int:
    """Number of multipliers, penalties and shares."""
    return 2 * multipliers_of(placed) + len(placed)


def residuals(rows: Rows, X: Array, U: Array, multipliers: Array) -> tuple[Residual, ...]:
    """All constraints along X (N+1, nx), U (N, nu)."""
    c = rows.values(X, U)
    violations = rows.beyond(c)
    return tuple(
        Residual(
            entry.name,
            range(entry.start, entry.stop),
            entry.own(c),
            entry.own(violations),
            entry.own(multipliers).copy(),
            tuple(ability(entry.constraint, "row_names")),
            violated_by_start(entry, entry.own(c)),
        )
        for entry in rows.placed
    )


def violated_by_start(entry: Placed, c: Array) -> float:
    """Excess of values c (M, size) of a constraint over bounds that it has, and that knot 0 has not."""
    dropped = np.isinf(entry.lower[0]) & np.isinf(entry.upper[0]) & (entry.start == 0)
    violations = beyond(c[0], entry.constraint.lower, entry.constraint.upper)
    return float(np.abs(violations[dropped]).max(initial=0.0))


@dataclass(frozen=True, eq=False)
class Lagrangian:
    """Multipliers (m,) of all constraints, one penalty for each, and shares (m,) that those of rows are multiplied by.

    state: all of these in one vector, which terms read wherever derivatives are made.
    warm: whether they come from an earlier solution.
    factors (m,): what brings rows to units of order one, the same at all knots; penalties are of rows in these.
    units (nz,): of states and controls, by which descents measure steps; None: one.
    """

    rows: Rows
    state: Array
    warm: bool = False
    factors: Array | float = 1.0
    units: Array | None = None

    def __post_init__(self) -> None:
        self.shares[:] = np.full(self.rows.size, self.factors) ** 2

    @property
    def multipliers(self) -> Array:
        """All multipliers (m,), a view."""
        return self.state[: self.rows.size]

    @property
    def penalties(self) -> Array:
        """Penalties (constraints,), a view."""
        return self.state[self.rows.size : len(self.state) - self.rows.size]

    @property
    def shares(self) -> Array:
        """Shares (m,), squares of the factors, a view."""
        return self.state[len(self.state) - self.rows.size :]

    @cached_property
    def terms(self) -> "tuple[AugmentedTerm, ...]":
        """Terms, one for each constraint, that read ``state``."""
        each = zip(self.rows.placed, self.penalties[:, None], strict=True)
        return tuple(
            AugmentedTerm(one, one.own(self.multipliers), penalty, self.rows.known, one.own(self.shares)[0])
            for one, penalty in each
        )

    @property
    def stiffness(self) -> Array:
        """Penalties (m,) of all rows."""
        return self.penalties[self.rows.constraint] * self.shares

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "terms"}  # they have views of the state

    def shifts(self, X: Array, U: Array) -> tuple[Array, Array]:
        """Forces (m,), the next estimate of the multipliers, and for each constraint their largest change over ρ.

        That is violation and lack of complementarity in one: where it is zero, c is within its bounds, and a
        multiplier that is not zero stands at a bound. It is in the units of rows, or of order one where it is larger.
        """
        rows, penalties = self.rows, self.stiffness
        with np.errstate(invalid="ignore"):
            e = rows.beyond(rows.values(X, U) + self.multipliers / penalties)
        e[rows.free] = 0.0
        force = np.clip(penalties / (1.0 + penalties * rows.compliance) * e, -rows.cap, rows.cap)
        changes = np.abs(force - self.multipliers) / penalties * np.maximum(self.factors, 1.0)
        return force, np.maximum.reduceat(changes, rows.first)


class AugmentedTerm:
    """One constraint as a cost of its knots; see the module for the formulas.

    multipliers (M, size), penalty (1,), shares (size,), which multiply it for rows: read at every call.
    """

    def __init__(self, entry: Placed, multipliers: Array, penalty: Array, known: Values, shares: Array):
        self.constraint, self.multipliers, self.penalty = entry.constraint, multipliers, penalty
        self._entry, self._known, self._shares = entry, known, shares
        self._lower, self._upper = entry.lower, entry.upper
        self._cap, self._compliance = (HARD if s is None else s for s in (entry.cap, entry.compliance))

    @property
    def thread_safe(self) -> bool:
        """Whether the constraint is."""
        return bool(ability(self.constraint, "thread_safe"))

    @property
    def knots(self) -> int:
        """Number of knots it is made for."""
        return len(self._lower)

    def part(self, start: int, stop: int) -> "AugmentedTerm":
        """Part for its knots start .. stop-1."""
        own = "multipliers", "_lower", "_upper", "_cap", "_compliance"
        return copied(self, "compiled", **{name: getattr(self, name)[start:stop] for name in own})

    @property
    def separable(self) -> bool:
        """Whether every row has a column of its own, and no curvature."""
        found = compiled(self.constraint)
        return found is not None and found.diagonal and not found.curved

    @cached_property
    def compiled(self) -> CompiledCost | None:
        """C function of the constraint, if it has one."""
        found = compiled(self.constraint)
        if found is None:
            return None
        kind = int(found.diagonal), int(found.curved)
        own = self._lower, self._upper, self._cap, self._compliance, self.multipliers, self.penalty, self._shares
        given = found.address, found.context, found.columns, *kind, *own
        return bind(augmented_cost, *given, separable=self.separable).owned(found)

    def values(self, X: Array, U: Array) -> Array:
        """The costs (M,)."""
        costs = np.zeros(len(X))
        self._weigh(X, U, 1.0, costs)
        return costs

    def expand(self, X: Array, U: Array, weight: float, exact: bool, l: Array, lz: Array, lzz: Array) -> None:
        """Add weight times value, gradient and Hessian; only knots with an active row are differentiated."""
        if self.compiled is not None:
            table = cost_table.table_of([(self.compiled, 0, len(X), float(weight))])
            X, U = np.ascontiguousarray(X), np.ascontiguousarray(U)
            cost_table.expand_matrices(table, EXACT if exact else GAUSS_NEWTON, X, U, l, lz, lzz)
            return
        force, stiff = self._weigh(X, U, float(weight), l)
        at = np.flatnonzero(((force != 0.0) | (stiff != 0.0)).any(axis=1))
        if at.size == 0:
            return
        force, stiff, X, U = force[at], stiff[at], X[at], U[at]
        J = self._entry.slopes(X, U, lz.shape[1])
        lz[at] += np.einsum("ki,kia->ka", force, J)
        H = J.transpose(0, 2, 1) @ (stiff[:, :, None] * J)
        lzz[at] += H + self._entry.bends(X, U, force, lz.shape[1]) if exact else H

    def _weigh(self, X: Array, U: Array, weight: float, l: Array) -> tuple[Array, Array]:
        """Add weight times the costs to l (M,); as many times forces and stiffness (M, size)."""
        c = np.ascontiguousarray(self._known(self._entry, X, U), dtype=np.float64)
        force, stiff = np.empty((2, *c.shape))
        own = self._lower, self._upper, self._cap, self._compliance, self.multipliers, self.penalty, self._shares
        weigh(c, *own, 0, weight, l, force, stiff)
        return force, stiff

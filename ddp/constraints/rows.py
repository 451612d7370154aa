"""Rows of all constraints of a problem, as one vector: what methods that hold constraints evaluate and multiply.

Numbers of rows are vectors (m,): constraint after constraint, of each its knots one after another (`Placed.own`).
Everything that is compiled is evaluated in one call; constraints in Python follow one by one.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray

from ddp.constraints import row_table
from ddp.constraints.bound import CURVATURE, JACOBIAN, VALUES, CompiledConstraint, interpreted
from ddp.constraints.compiled import NO_HESSIANS, NONE
from ddp.constraints.placement import Placed
from ddp.costs.batch import ability, padded
from ddp.costs.terms import naming
from ddp.errors import as_array
from ddp.protocols import Array, Constraint, copied

UNPICKLED = "table", "_alive", "_python", "_contexts"
"""Names of what `Rows` make anew where they are unpickled."""


class Values:
    """Values of constraints in Python, the last ones kept: judged before they are differentiated."""

    def __init__(self) -> None:
        self.last: dict[int, tuple[Array, Array, Array]] = {}

    def __call__(self, entry: Placed, X: Array, U: Array) -> Array:
        """c (M, size) of a constraint at X (M, nx), U (M, nu)."""
        last = self.last.get(entry.first)
        if last is None or not (np.array_equal(last[0], X) and np.array_equal(last[1], U)):
            c = as_array("values", entry.constraint.values(X.copy(), U.copy()), entry.shape(X), finite=False).copy()
            self.last[entry.first] = last = X.copy(), U.copy(), c
        return last[2]


class Rows:
    """Rows c (m,) of constraints along trajectories X (N+1, nx), U (N, nu) of tangents (n,).

    placed: the constraints.   lower, upper (m,): bounds; equal for an equality, both infinite where nothing is held.
    knot, constraint (m,): which knot and which of the constraints a row is of.   first: the first row of each one.
    equal, free (m,): which rows are equalities, which have no bounds.
    cap, compliance (m,): how large multipliers may be, and how far a row gives way to a unit of them: infinite and zero
        but for soft ones, which are those that ``soft`` (m,) tells.   softened: whether there are any.
    size: m.   entries: how many numbers all Jacobians have.   known: values of those that are not compiled.
    table: see row_table.py.
    """

    def __init__(self, placed: Sequence[Placed], N: int, n: int, nu: int) -> None:
        self.placed, self.horizon, self.n, self.nz = tuple(placed), N, n, n + nu
        self.lower = np.concatenate([NONE, *(entry.lower.ravel() for entry in placed)])
        self.upper = np.concatenate([NONE, *(entry.upper.ravel() for entry in placed)])
        self.equal, self.free = self.lower == self.upper, np.isinf(self.lower) & np.isinf(self.upper)
        self.known = Values()
        self.size = len(self.lower)
        own = [(entry.lower.shape, entry.cap, entry.compliance) for entry in placed]
        caps = [np.full(shape, np.inf) if cap is None else cap for shape, cap, _ in own]
        given = [np.zeros(shape) if compliance is None else compliance for shape, _, compliance in own]
        self.cap, self.compliance = (np.concatenate([NONE, *map(np.ravel, parts)]) for parts in (caps, given))
        self.soft = np.isfinite(self.cap) | (self.compliance > 0.0)
        self.softened = bool(self.soft.any())
        self._held = np.where(self.soft, -np.inf, self.lower), np.where(self.soft, np.inf, self.upper)
        knots = [np.repeat(np.arange(entry.start, entry.stop), entry.lower.shape[1]) for entry in placed]
        self.knot = np.concatenate([np.zeros(0, dtype=np.int64), *knots])
        self.constraint = np.repeat(np.arange(len(placed)), [entry.lower.size for entry in placed])
        self.first = np.array([entry.first for entry in placed], dtype=np.int64)
        self._make_table()

    def _make_table(self) -> None:
        own = [compiled(entry.constraint) for entry in self.placed]
        dense = interpreted(self.nz)
        self._alive = [found or dense for found in own]  # what the table's addresses point to
        rows, self.entries, self._python = [], 0, []
        for entry, found, kept in zip(self.placed, own, self._alive, strict=True):
            size = entry.lower.shape[1]
            if found is None:
                self._python.append((entry, self.entries))
            rows.append(row_table.words_of(kept, entry.start, entry.stop, size, entry.first, self.entries))
            self.entries += entry.lower.size * kept.width
        self.table = np.array(rows, dtype=np.int64).reshape(-1, row_table.WORDS)
        self._contexts: list[NDArray[np.int64]] = []  # what it points to, too
        begin = 0
        while begin < len(own):
            begin = self._join(begin)

    def _join(self, begin: int) -> int:
        """Let constraints from one on be evaluated together, as far as they go with each other; where others begin."""
        ways, knots = [self._alive[begin].together], self.placed[begin][2:4]
        for entry, found in zip(self.placed[begin + 1 :], self._alive[begin + 1 :], strict=True):
            way = found.together
            if way is None or entry[2:4] != knots or not all(one is not None and one.goes_with(way) for one in ways):
                break
            ways.append(way)
        first, end = ways[0], begin + len(ways)
        if first is not None and len(ways) > 1:
            contexts = np.array([way.kept.context for way in ways if way], dtype=np.int64)
            self._contexts.append(contexts)
            self.table[begin:end, row_table.COUNT] = len(ways), *[0] * (len(ways) - 1)
            self.table[begin, row_table.ADDRESS] = first.make().address
            self.table[begin, row_table.CONTEXT] = contexts.ctypes.data
        return end

    @cached_property
    def curved(self) -> bool:
        """Whether any row has second derivatives."""
        return any(found.curved for found in self._alive)

    @cached_property
    def straight(self) -> NDArray[np.bool_]:
        """Which rows (m,) have no second derivatives."""
        return np.array([not found.curved for found in self._alive], dtype=bool)[self.constraint]

    @property
    def afresh(self) -> "Rows":
        """Itself, with no values kept: what functions in Python read may have changed."""
        self.known.last.clear()
        return self

    @property
    def compiled_alone(self) -> bool:
        """Whether there are no constraints in Python."""
        return not self._python

    @property
    def is_current(self) -> bool:
        """Whether constraints are compiled as they were."""
        own = (compiled(entry.constraint) for entry in self.placed)
        return all(found is None or found is kept for found, kept in zip(own, self._alive, strict=True))

    def has_shapes_of(self, other: "Rows") -> bool:
        """Whether bounds and all that is known of Jacobians are another's: its memory serves for these rows too."""
        if self is other:
            return True
        pairs = zip(self._alive, other._alive, strict=True)
        return self.lower is other.lower and all(one.has_structure_of(its) for one, its in pairs)

    def moved(self, placed: Sequence[Placed]) -> "Rows":
        """Copy with other constraints in the same places, with the same bounds; behind them go on what is there now."""
        there = (*placed, *self.placed[len(placed) :])
        twin = copied(self, "curved", "straight", "separable", placed=there, known=Values())
        twin._make_table()
        return twin

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name not in UNPICKLED}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._make_table()  # its addresses are of a process

    @cached_property
    def separable(self) -> NDArray[np.bool_]:
        """Flags (N+1,) of knots at which every row has a column of its own and no curvature: Jᵀ w J is diagonal."""
        mask = np.ones(self.horizon + 1, dtype=bool)
        for entry, found in zip(self.placed, self._alive, strict=True):
            if not found.diagonal or found.curved:
                mask[entry.start : entry.stop] = False
        return mask

    @property
    def touched(self) -> NDArray[np.int64]:
        """How many of the first states and controls (N+1,) rows depend on, but for those with columns of their own."""
        count = np.zeros(self.horizon + 1, dtype=np.int64)
        for entry, found in zip(self.placed, self._alive, strict=True):
            if not found.diagonal:
                at = slice(entry.start, entry.stop)
                count[at] = np.maximum(count[at], found.columns.max(initial=-1) + 1)
        return count

    def values(self, X: Array, U: Array) -> Array:
        """c (m,)."""
        c = np.empty(self.size)
        if self.size == 0:
            return c
        X, U = _knots(X, U)
        row_table.evaluate(self.table, VALUES, 0, self.horizon + 1, X, U, NONE, c, NO_HESSIANS)
        for entry, _, at, x, u in self._in_python(X, U):
            with naming(entry.name, at):
                entry.own(c)[:] = self.known(entry, x, u)
        return c

    def jacobian(self, X: Array, U: Array, out: Array | None = None) -> Array:
        """J (entries,): of each constraint (M, size, width), in the columns that it keeps; into ``out`` if given."""
        X, U = _knots(X, U)
        J = np.empty(self.entries) if out is None else out
        row_table.evaluate(self.table, JACOBIAN, 0, self.horizon + 1, X, U, NONE, J, NO_HESSIANS)
        for entry, begin, at, x, u in self._in_python(X, U):
            with naming(entry.name, at):
                J[begin : begin + entry.lower.size * self.nz] = entry.slopes(x, u, self.nz).ravel()
        return J

    def at_knot(self, J: Array, knot: int) -> tuple[NDArray[np.int64], Array]:
        """The rows (k,) of a knot, and their Jacobian (k, nz) of all that `jacobian` finds."""
        own, found = [np.zeros(0, dtype=np.int64)], [np.zeros((0, self.nz))]
        for entry, kept, begin in zip(self.placed, self._alive, self.table[:, row_table.NUMBER], strict=True):
            if entry.start <= knot < entry.stop:
                size, k = entry.lower.shape[1], knot - entry.start
                C, rows = np.zeros((size, self.nz)), np.arange(size)
                numbers = J[begin + k * size * kept.width :][: size * kept.width]
                if kept.diagonal:
                    C[rows, kept.columns[:size]] = numbers
                else:
                    C[:, kept.columns] = numbers.reshape(size, kept.width)
                own.append(entry.first + k * size + rows)
                found.append(C)
        return np.concatenate(own), np.concatenate(found)

    def add_curvature(self, X: Array, U: Array, y: Array, H: Array) -> None:
        """H (N+1, nz, nz) += Σ_i y_i ∂²c_i, y (m,)."""
        row_table.evaluate(self.table, CURVATURE, 0, self.horizon + 1, *_knots(X, U), y, NONE, H)
        self.add_curvature_in_python(X, U, y, H)

    def add_curvature_in_python(self, X: Array, U: Array, y: Array, H: Array) -> None:
        """Do the part of `add_curvature` that is not compiled."""
        for entry, _, at, x, u in self._in_python(X, U):
            with naming(entry.name, at):
                H[at] += entry.bends(x, u, entry.own(y), self.nz)

    def _in_python(self, X: Array, U: Array) -> Iterator[tuple[Placed, int, slice, Array, Array]]:
        """Constraints in Python, where each one's numbers of Jacobians begin, its knots, and X and U there."""
        U = padded(U, len(X)) if self._python else U
        for entry, begin in self._python:
            at = slice(entry.start, entry.stop)
            yield entry, begin, at, X[at], U[at]

    def add_forces(self, J: Array, y: Array, lz: Array) -> None:
        """lz (N+1, nz) += Jᵀ y, y (m,)."""
        row_table.add_forces(self.table, J, y, lz)

    def worst(self, X: Array, U: Array, factors: Array | None = None, soft: bool = False) -> float:
        """The largest violation of any row, NaN where c is; rows may be multiplied by factors (m,).

        soft: whether those of soft rows count.
        """
        if self.size == 0:
            return 0.0
        found = self.values(X, U), *((self.lower, self.upper) if soft else self._held)
        return float(row_table.worst(*(found if factors is None else [factors * part for part in found])))

    def fault_of_values(self, X: Array, U: Array) -> str | None:
        """The first constraint that is not finite, the knot and the number, as a sentence; None if all are."""
        return self._fault(X, U, "value", self.known)

    def fault(self, X: Array, U: Array) -> str | None:
        """`fault_of_values` of Jacobians, in rows that are held."""

        def held(entry: Placed, X: Array, U: Array) -> Array:
            bounded = np.isfinite(entry.lower) | np.isfinite(entry.upper)
            return np.where(bounded[:, :, None], entry.slopes(X, U, self.nz), 0.0)

        return self._fault(X, U, "Jacobian", held)

    def fault_of_curvature(self, X: Array, U: Array, y: Array) -> str | None:
        """`fault_of_values` of curvature, weighed by multipliers y (m,)."""
        return self._fault(X, U, "curvature", lambda entry, X, U: entry.bends(X, U, entry.own(y), self.nz))

    def _fault(self, X: Array, U: Array, what: str, found: Callable[[Placed, Array, Array], Array]) -> str | None:
        """The first constraint of which a number is not finite, as a sentence; found: numbers (M, ...) of its knots."""
        X, U = _knots(X, padded(U, len(X)))
        for entry in self.placed:
            at = slice(entry.start, entry.stop)
            with naming(entry.name, at), np.errstate(all="ignore"):
                numbers = found(entry, X[at], U[at])
            if (broken := ~np.isfinite(numbers)).any():
                knot, *_ = np.argwhere(broken)[0].tolist()
                return f"{entry.name}: its {what} is {numbers[broken][0]:g} at knot {entry.start + knot}"
        return None

    @cached_property
    def _given(self) -> tuple[Array, Array]:
        """Hard bounds (m,) that knot 0 is not held to, as x0 alone decides its rows; infinite elsewhere."""
        given = np.full(self.size, -np.inf), np.full(self.size, np.inf)
        for entry in self.placed:
            if entry.start == 0 and entry.cap is None:
                free = np.isinf(entry.lower[0]) & np.isinf(entry.upper[0])
                for bound, own in zip(given, (entry.constraint.lower, entry.constraint.upper), strict=True):
                    entry.own(bound)[0, free] = np.broadcast_to(own, free.shape)[free]
        return given

    def worst_given(self, x0: Array) -> float:
        """The largest violation of hard rows at x0 that no control can change."""
        X, U, c = x0[None], np.zeros((1, self.nz - self.n)), np.zeros(self.size)
        row_table.evaluate(self.table, VALUES, 0, 1, X, U, NONE, c, NO_HESSIANS)
        for entry, _ in self._python:
            if entry.start == 0 and entry.cap is None:
                entry.own(c)[0] = entry.constraint.values(X, U)[0]
        return float(row_table.worst(c, *self._given))

    def paid(self, X: Array, U: Array) -> Array:
        """Costs (N+1,) of violations of soft rows, those of each knot."""
        if not self.softened:
            return np.zeros(self.horizon + 1)
        v = np.abs(self.beyond(self.values(X, U)))[self.soft]
        cap, give = self.cap[self.soft], self.compliance[self.soft]
        force = np.where(give == 0.0, cap, v / np.where(give == 0.0, 1.0, give))
        costs = np.bincount(self.knot[self.soft], force * (v - 0.5 * give * force), self.horizon + 1)
        return np.asarray(costs, dtype=np.float64)

    def beyond(self, c: Array) -> Array:
        """Violations of c (m,), see `beyond`."""
        return beyond(c, self.lower, self.upper)


def beyond(c: Array, lower: Array, upper: Array) -> Array:
    """Violations of c: above the bounds positive, below negative; 0 between them, infinite or not, NaN where c is."""
    nearest = np.clip(c, lower, upper)
    return np.subtract(c, nearest, out=np.zeros(c.shape), where=c != nearest)


def compiled(constraint: Constraint) -> CompiledConstraint | None:
    """The C function of a constraint; None if it is not compiled."""
    return cast("CompiledConstraint | None", ability(constraint, "compiled"))


def _knots(X: Array, U: Array) -> tuple[Array, Array]:
    return np.ascontiguousarray(X, dtype=np.float64), np.ascontiguousarray(U, dtype=np.float64)

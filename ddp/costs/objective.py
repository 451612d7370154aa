"""The cost of a trajectory: every term and the knots it belongs to, its value, derivatives and faults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp.constraints.lagrangian import Lagrangian
from ddp.costs import cost_table
from ddp.costs.batch import BatchTerm, CompiledCost, ability
from ddp.costs.bound import EXACT, GAUSS_NEWTON
from ddp.costs.entries import Entry, entries_of, note_reader, try_entry
from ddp.costs.stretches import check_length, even, part, varying, weights_of
from ddp.costs.terms import naming
from ddp.costs.traced import TracedTerm
from ddp.derivatives import Derivatives
from ddp.protocols import Array
from ddp.systems.system import System
from ddp.tracing.function import TracedFunction

OF_TERMS = "separable", "runs", "interpreted", "table", "table_with_notes", "_alive", "_of_constraints"
"""Cached properties that depend on which terms there are."""

OF_SHAPES = "separable", "runs"
"""Cached properties that depend on nothing but where terms are and which are separable."""

Terms = Sequence[Any]
"""Terms as users give them."""


def padded(U: Array, count: int) -> Array:
    """U (N, nu) with the row of zeros (N+1, nu) that terms in Python are given at knot N; as it is if it has that."""
    return U if len(U) == count else np.concatenate([U, np.zeros((1, U.shape[1]))])


@dataclass(frozen=True, eq=False)
class Objective:
    """The terms of the knots 0 .. N, and what constraints contribute to the augmented Lagrangian.

    Trajectories are X (N+1, nx) and U (N, nu), padded with a row of zeros or not.
    running: of the knots 0 .. N-1.  during: of stretches.  at: of single knots.  terminal: of the knot N.
    """

    dynamics: System
    horizon: int
    running: tuple[Entry, ...]
    during: tuple[tuple[range, Entry], ...]
    at: tuple[tuple[int, Entry], ...]
    terminal: tuple[Entry, ...]
    lagrangian: Lagrangian | None = None

    @classmethod
    def of(
        cls, dynamics: System, horizon: int, x0: Array, running: Terms, during: Mapping[range, Terms],
        at: Mapping[int, Terms], terminal: Terms, tried: bool = False,
    ) -> Objective:  # fmt: skip
        """From what users give, as of `Problem`. Raises ProblemError, naming the term.

        tried: whether all terms are known to fit, so that none is evaluated.
        """
        of_running = entries_of("running", running, dynamics.dt, dynamics, x0)
        of_stretches = [
            (knots, entry)
            for knots in sorted(during, key=lambda knots: (knots.start, knots.stop))
            for entry in entries_of(f"during[{knots}]", during[knots], dynamics.dt, dynamics, x0)
        ]
        of_knots = [
            (int(knot), entry)
            for knot in sorted(at)
            for entry in entries_of(f"at[{knot}]", at[knot], 1.0, dynamics, x0)
        ]
        at_end = entries_of("terminal", terminal, 1.0, dynamics, x0)
        for knots, entry in [
            *of_stretches, *((range(horizon), entry) for entry in of_running),
            *((range(knot, knot + 1), entry) for knot, entry in of_knots),
            *((range(horizon, horizon + 1), entry) for entry in at_end),
        ]:  # fmt: skip
            check_length(entry.name, entry.term, knots)
        weights = weights_of(dynamics, horizon)
        if (weights != dynamics.dt).any():  # steps of time differ: apart for each run of knots with the same
            whole = [*((range(horizon), entry) for entry in of_running), *of_stretches]
            of_running, of_stretches = (), list(_weighed(whole, weights))
        plain = cls(dynamics, horizon, of_running, tuple(of_stretches), tuple(of_knots), at_end)
        for entry, rows in () if tried else plain.within(0, horizon + 1):
            try_entry(entry, rows, horizon, dynamics, x0)

        readers = []

        def reads(entry: Entry, start: int, stop: int) -> Entry:
            """The entry, marked if it reads notes of these knots."""
            reader = note_reader(entry, dynamics, slice(start, stop)) if stop <= horizon else None
            if reader is not None:
                readers.append((reader, start, stop, entry.weight))
            return entry._replace(noted=reader is not None)

        found = replace(
            plain, during=tuple((k, reads(entry, k.start, k.stop)) for k, entry in of_stretches),
            at=tuple((k, reads(entry, k, k + 1)) for k, entry in of_knots),
        )  # fmt: skip
        _ = found.table  # what cannot be compiled is told here
        vars(found)["_readers"] = readers
        return found

    @cached_property
    def _traces(self) -> list[tuple[TracedTerm, TracedFunction]]:
        """Traced terms, and the traces that tables are made of."""
        terms = {id(entry.term): entry.term for entry, _, _ in self._stretches}
        return [(term, term.traced) for term in terms.values() if isinstance(term, TracedTerm)]

    def renew(self) -> bool:
        """Trace terms again that have changed. Returns whether tables have to be made anew."""
        for term, _ in self._traces:
            term.renew()
        return not self._is_current

    @property
    def _is_current(self) -> bool:
        """Whether tables are made of the terms' latest traces: problems share terms, and each of them renews these."""
        return all(term.traced is traced for term, traced in self._traces)

    def with_lagrangian(self, lagrangian: Lagrangian) -> Objective:
        """Copy of these terms, without constraints until now, with what constraints contribute."""
        twin = object.__new__(Objective)
        vars(twin).update({name: value for name, value in vars(self).items() if name not in OF_TERMS})
        vars(twin).update(lagrangian=lagrangian, plain=self)
        return twin

    def with_entries(self, alike: bool, **parts: Any) -> Objective:
        """Copy with other entries of some of its fields, at the same knots; nothing is checked.

        alike: whether as many terms are separable, in the same places.
        """
        twin, own = object.__new__(Objective), vars(self)
        vars(twin).update({name: own[name] for name in self.__dataclass_fields__} | parts)
        if alike and self._is_current:
            vars(twin).update({name: getattr(self, name) for name in OF_SHAPES})
        return twin

    @cached_property
    def plain(self) -> Objective:
        """The terms without what constraints contribute: itself, or what `with_lagrangian` was made of."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        of_this_process = "table", "table_with_notes", "_alive", "_of_constraints", "_traces"  # addresses
        return {name: value for name, value in vars(self).items() if name not in of_this_process}

    @property
    def count(self) -> int:
        """Number of terms."""
        return len(self.running) + len(self.at) + len(self.during) + len(self.terminal)

    def values(self, X: Array, U: Array) -> Array:
        """The costs (N+1,) of all knots; nothing is checked."""
        costs = np.empty(self.horizon + 1)
        X, U = np.ascontiguousarray(X), np.ascontiguousarray(U)
        cost_table.values(self.table, X, U, cost_table.NO_NOTES, costs)
        self._add_values(X, U, costs)
        return costs

    def total(self, X: Array, U: Array, notes: Array = cost_table.NO_NOTES) -> float:
        """The cost of a rollout X (N+1, nx) under U (N, nu), with its notes if known; infinite where it diverges."""
        costs = np.empty(self.horizon + 1)
        table = self.table_with_notes if len(notes) else self.table
        total = cost_table.total(table, np.ascontiguousarray(X), np.ascontiguousarray(U), notes, costs)
        if (self.interpreted or (self.noted and not len(notes))) and total < np.inf:
            self._add_values(X, U, costs, len(notes) > 0)
            total = cost_table.sum_of(costs)
        return total

    def _add_values(self, X: Array, U: Array, costs: Array, noted: bool = False) -> None:
        """Add those of the terms that are not compiled; ``noted``: nor those that read notes."""
        if self.interpreted or self.noted:
            U = padded(U, len(X))
            for entry, knots in self._in_python(0, self.horizon + 1, noted):
                with naming(entry.name, knots):
                    costs[knots] += entry.weight * entry.term.values(X[knots], U[knots])

    def expand(
        self, X: Array, U: Array, out: Derivatives, start: int, stop: int, exact: bool = False, again: bool = False
    ) -> None:
        """Costs, gradients and Hessians, Gauss-Newton's or exact, of the knots start .. stop-1 of 0 .. N.

        again: whether those with the other Hessians are known, which at separable knots are both.
        """
        X, U = np.ascontiguousarray(X), np.ascontiguousarray(U)
        order, H = (EXACT, out.exact) if exact else (GAUSS_NEWTON, out.lzz)
        into = out.l, out.lz, H, out.diagonal
        cost_table.expand(self.table_with_notes, order, self.runs, start, stop, X, U, out.record, *into, again)
        if self.interpreted:
            U = padded(U, len(X))
            for entry, rows in self._in_python(start, stop, True):  # none of them separable
                with naming(entry.name, rows):
                    entry.term.expand(X[rows], U[rows], entry.weight, exact, out.l[rows], out.lz[rows], H[rows])

    @cached_property
    def separable(self) -> NDArray[np.bool_]:
        """Flags (N+1,) of knots at which every term is separable: its Hessian is diagonal, and Gauss-Newton's."""
        mask = np.ones(self.horizon + 1, dtype=bool) if self.plain is self else self.plain.separable.copy()
        for entry, begin, end in (*(self._stretches if self.plain is self else ()), *self._of_constraints):
            if not entry.separable:
                mask[begin:end] = False
        return mask

    @cached_property
    def runs(self) -> NDArray[np.int64]:
        """Runs [begin, end) of knots that are all separable, or all not, and which it is (., 3)."""
        edges = np.flatnonzero(np.diff(self.separable)) + 1
        bounds = np.concatenate([[0], edges, [self.horizon + 1]])
        return np.stack([bounds[:-1], bounds[1:], self.separable[bounds[:-1]]], axis=1).astype(np.int64)

    @cached_property
    def table(self) -> cost_table.Table:
        """The compiled terms."""
        if self.plain is not self:
            found = [(ability(entry.term, "compiled"), begin, end, 1.0) for entry, begin, end in self._of_constraints]
            compiled = [row for row in found if row[0] is not None]
            object.__setattr__(self, "_alive", compiled)
            return np.concatenate([self.plain.table, cost_table.table_of(compiled)])
        rows, _ = [], self._traces
        for entry, begin, end in self._stretches:
            if entry.compiled:
                with naming(entry.name, slice(begin, end)):
                    rows.append((ability(entry.term, "compiled"), begin, end, entry.weight))
        object.__setattr__(self, "_alive", [row[0] for row in rows])  # what the table's addresses point to
        return cost_table.table_of(rows)

    @cached_property
    def table_with_notes(self) -> cost_table.Table:
        """These, and the terms that read what the dynamics have noted of their knots."""
        return np.concatenate([self.table, cost_table.table_of(self._readers)]) if self._readers else self.table

    @property
    def noted(self) -> bool:
        """Whether any terms read what the dynamics have noted."""
        return bool(self._readers)

    @cached_property
    def _readers(self) -> list[tuple[CompiledCost, int, int, float]]:
        """C functions of terms that read notes, their knots and weights."""
        rows = [
            (note_reader(entry, self.dynamics, slice(begin, end)), begin, end, entry.weight)
            for entry, begin, end in self._stretches
            if entry.noted
        ]
        return [(cost, begin, end, weight) for cost, begin, end, weight in rows if cost is not None]

    @cached_property
    def interpreted(self) -> bool:
        """Whether there are terms that are neither compiled nor noted."""
        return bool(self._interpreted[True]) or not all(entry.compiled for entry, _, _ in self._of_constraints)

    @property
    def compiled_alone(self) -> cost_table.Table | None:
        """Terms, if all of them are compiled and read no notes."""
        return None if self.interpreted or self.noted else self.table

    def has_shapes_of(self, other: Objective) -> bool:
        """Whether all terms are compiled, and separable where another's are: its memory serves for these terms too."""
        if self is other:
            return True
        runs = self.runs is other.runs or np.array_equal(self.runs, other.runs)
        return runs and self.compiled_alone is not None and len(self.table) == len(other.table)

    def _in_python(self, start: int, stop: int, noted: bool = False) -> list[tuple[Entry, slice]]:
        """Terms of `within` that are not compiled; ``noted``: nor do they read notes."""
        of_constraints = [stretch for stretch in self._of_constraints if not stretch[0].compiled]
        return _cut([*self._interpreted[noted], *of_constraints], start, stop)

    @cached_property
    def _of_constraints(self) -> tuple[tuple[Entry, int, int], ...]:
        """Terms of constraints with their knots; knot N apart from others, for it has no controls."""
        if self.lagrangian is None:
            return ()
        found, N = [], self.horizon
        for placed, term in zip(self.lagrangian.placed, self.lagrangian.terms, strict=True):
            entry = Entry(placed.name, term, 1.0, term.compiled is not None)
            for begin, end in ((placed.start, min(placed.stop, N)), (max(placed.start, N), placed.stop)):
                if begin < end:
                    own = term.part(begin - placed.start, end - placed.start)
                    found.append((entry._replace(term=own), begin, end))
        return tuple(found)

    @cached_property
    def _stretches(self) -> tuple[tuple[Entry, int, int], ...]:
        """Every term with the knots begin .. end-1 that it belongs to, in the order that costs are summed in."""
        N = self.horizon
        return (
            *((entry, 0, N) for entry in self.running), *((entry, k.start, k.stop) for k, entry in self.during),
            *((entry, k, k + 1) for k, entry in self.at), *((entry, N, N + 1) for entry in self.terminal),
        )  # fmt: skip

    @cached_property
    def _interpreted(self) -> tuple[list[tuple[Entry, int, int]], list[tuple[Entry, int, int]]]:
        """Stretches whose terms are not compiled, and those that do not read notes either."""
        plain = [stretch for stretch in self._stretches if not stretch[0].compiled]
        return plain, [stretch for stretch in plain if not stretch[0].noted]

    def terms(self) -> Iterator[tuple[str, BatchTerm, slice]]:
        """Every term with its name and the knots it belongs to, for reports; one that varies, knot by knot."""
        for entry, knots in self.within(0, self.horizon + 1):
            if varying(entry.term) is None:
                yield entry.name, entry.term, knots
            else:
                for row, knot in enumerate(range(knots.start, knots.stop)):
                    yield entry.name, part(entry.term, row, row + 1), slice(knot, knot + 1)

    def within(self, start: int, stop: int) -> list[tuple[Entry, slice]]:
        """The terms of the knots start .. stop-1, with those of its knots, always in the same order."""
        return _cut([*self._stretches, *self._of_constraints], start, stop)


def _cut(stretches: Iterable[tuple[Entry, int, int]], start: int, stop: int) -> list[tuple[Entry, slice]]:
    """Parts of stretches among the knots start .. stop-1."""
    found = []
    for entry, begin, end in stretches:
        a, b = max(start, begin), min(stop, end)
        if a < b:
            term = entry.term if b - a == end - begin else part(entry.term, a - begin, b - begin)
            found.append((entry if term is entry.term else entry._replace(term=term), slice(a, b)))
    return found


def _weighed(entries: Sequence[tuple[range, Entry]], weights: Array) -> Iterator[tuple[range, Entry]]:
    """Running costs, split into runs of knots with equal steps of time."""
    for knots, entry in entries:
        for run in even(weights, knots):
            own = part(entry.term, run.start - knots.start, run.stop - knots.start)
            yield run, entry._replace(term=own, weight=float(weights[run.start]))

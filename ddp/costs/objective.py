"""The cost of a trajectory: every term and the knots it belongs to, its value, derivatives and faults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp.constraints.lagrangian import Lagrangian
from ddp.costs import cost_table
from ddp.costs.batch import BatchTerm, CompiledCost, ability, check_length, even, inside, padded, varying, weights_of
from ddp.costs.bound import EXACT, GAUSS_NEWTON
from ddp.costs.entries import Entry, check_fits, entries_of, note_reader, try_entry, with_kernels
from ddp.costs.terms import naming
from ddp.costs.traced import TracedTerm
from ddp.derivatives import Derivatives
from ddp.protocols import Array, copied
from ddp.systems.system import System
from ddp.tracing.function import TracedFunction

OF_TERMS = (
    "coupled", "separable", "runs", "interpreted", "table", "table_with_notes", "_alive", "_of_constraints", "_lifted",
)  # fmt: skip
"""Cached properties that depend on which terms there are."""

OF_THIS_PROCESS = "table", "table_with_notes", "_alive", "_of_constraints", "_traces", "_lifted", "_places"
"""Cached properties that hold addresses."""

Terms = Sequence[Any]
"""Terms as users give them."""


@dataclass(frozen=True, eq=False)
class Objective:
    """The terms of the knots 0 .. N, and what constraints contribute to the augmented Lagrangian.

    Trajectories are X (N+1, nx) and U (N, nu), padded with a row of zeros or not.
    entries: every term with its knots, in the order that costs are summed in.
    """

    dynamics: System
    horizon: int
    entries: tuple[Entry, ...]
    lagrangian: Lagrangian | None = None

    @classmethod
    def of(
        cls, dynamics: System, horizon: int, x0: Array, running: Terms, during: Mapping[range, Terms],
        at: Mapping[int, Terms], terminal: Terms, tried: bool = False,
    ) -> Objective:  # fmt: skip
        """Make one of what users give, as of `Problem`. Raises ProblemError, naming the term.

        tried: whether all terms are known to fit, so that none is evaluated.
        """
        in_order = sorted(during, key=lambda knots: (knots.start, knots.stop))
        lists = [
            ("running", running, range(horizon), True),
            *((f"during[{knots}]", during[knots], knots, True) for knots in in_order),
            *((f"at[{k}]", at[k], range(int(k), int(k) + 1), False) for k in sorted(at)),
            ("terminal", terminal, range(horizon, horizon + 1), False),
        ]
        entries = [entry for of_knots in lists for entry in entries_of(*of_knots, dynamics, x0)]
        for entry in entries:
            check_length(entry.name, entry.term, range(entry.begin, entry.end))
            if not tried:
                check_fits(entry, dynamics, x0)
        entries = [with_kernels(entry) for entry in entries]  # after all that is told without kernels
        weights = weights_of(dynamics, horizon)
        if (weights != dynamics.dt).any():  # steps of time differ: apart for each run of knots with the same
            entries = [own for entry in entries for own in (_weighed(entry, weights) if entry.density else [entry])]
        readers = [note_reader(entry, dynamics) if entry.end <= horizon else None for entry in entries]
        for entry, read in () if tried else zip(entries, readers, strict=True):
            if read is None:  # those that read notes of these dynamics fit them
                try_entry(entry, horizon, dynamics, x0)
        marked = [entry._replace(noted=read is not None) for entry, read in zip(entries, readers, strict=True)]
        found = cls(dynamics, horizon, tuple(marked))
        _ = found.table  # what cannot be compiled is told here
        vars(found)["_readers"] = _rows(marked, readers)
        return found

    @cached_property
    def _traces(self) -> list[tuple[Entry, TracedTerm, TracedFunction]]:
        """Traced terms, each with its first entry, and the traces that tables are made of."""
        first = {id(inside(entry.term)): entry for entry in reversed(self.entries)}
        terms = [(entry, inside(entry.term)) for entry in first.values()]
        return [(entry, term, term.traced) for entry, term in terms if isinstance(term, TracedTerm)]

    def renew(self) -> bool:
        """Trace terms again that have changed. Returns whether tables have to be made anew."""
        for entry, term, _ in self._traces:
            with naming(entry.name, entry.knots):
                term.renew()
        return not self._is_current

    @property
    def _is_current(self) -> bool:
        """Whether tables are made of the terms' latest traces: problems share terms, and each of them renews these."""
        return all(term.traced is traced for _, term, traced in self._traces)

    def with_lagrangian(self, lagrangian: Lagrangian) -> Objective:
        """Copy of these terms, without constraints until now, with what constraints contribute."""
        return copied(self, *OF_TERMS, lagrangian=lagrangian, plain=self)

    def with_terms(self, terms: Mapping[str, tuple[Any, BatchTerm]]) -> Objective | None:
        """Copy with other terms of the same classes, each with the one before, by their places in the problem.

        None where one varies only by being wrapped anew, see `Entry.given`. Nothing is checked.
        """
        entries, alike = list(self.entries), self._is_current
        for place, (old, term) in terms.items():
            for i in self._places[place]:
                if (before := entries[i]).given is not old:
                    return None
                entries[i] = own = before.with_given(term)
                alike = alike and own.coupled == before.coupled
        return self.with_entries(entries, alike)

    def with_entries(self, entries: Sequence[Entry], alike: bool) -> Objective:
        """Copy with other entries at the same knots; ``alike``: each couples what the one before did."""
        twin = object.__new__(Objective)
        vars(twin).update(
            dynamics=self.dynamics, horizon=self.horizon, entries=tuple(entries), lagrangian=self.lagrangian
        )  # fmt: skip
        if alike:
            vars(twin).update(coupled=self.coupled, separable=self.separable, runs=self.runs)
        return twin

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        """Numbers of the entries of each place of the problem."""
        found: dict[str, list[int]] = {}
        for i, entry in enumerate(self.entries):
            found.setdefault(entry.name.partition(" (")[0], []).append(i)
        return found

    @cached_property
    def plain(self) -> Objective:
        """The terms without what constraints contribute: itself, or what `with_lagrangian` was made of."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in OF_THIS_PROCESS}

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
            for system, inner in self._lifted:
                costs += inner.values(*system.inner(X, U))
            for entry in self._in_python(0, self.horizon + 1, noted):
                with naming(entry.name, entry.knots):
                    costs[entry.knots] += entry.weight * entry.term.values(X[entry.knots], U[entry.knots])

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
            own, U = slice(start, stop), padded(U, len(X))
            self._add_in_python(exact, start, X[own], U[own], out.l[own], out.lz[own], H[own])

    def add(self, exact: bool, first: int, X: Array, U: Array, l: Array, lz: Array, lzz: Array) -> None:
        """Add costs, gradients and Hessians, those that are diagonal too, of the knots of X (M, nx) from one on."""
        rows = self.table - [0, 0, first, first, 0]
        cost_table.expand_matrices(rows, EXACT if exact else GAUSS_NEWTON, X, U, l, lz, lzz)
        self._add_in_python(exact, first, X, U, l, lz, lzz)

    def _add_in_python(self, exact: bool, first: int, X: Array, U: Array, l: Array, lz: Array, lzz: Array) -> None:
        """Do the part of `add` that is neither compiled nor read from records; lifted terms are pulled back at once."""
        stop = first + len(X)
        for system, inner in self._lifted:
            begin = max(first, min(entry.begin for entry in inner.entries))
            at = slice(begin - first, min(stop, max(entry.end for entry in inner.entries)) - first)
            if at.start < at.stop:
                system.add_pulled(partial(inner.add, exact, begin), exact, X[at], U[at], l[at], lz[at], lzz[at])
        for entry in self._in_python(first, stop, True):  # none of them separable
            at = slice(entry.begin - first, entry.end - first)
            with naming(entry.name, entry.knots):
                given = X[at].copy(), U[at].copy()  # theirs to write on
                entry.term.expand(*given, entry.weight, exact, l[at], lz[at], lzz[at])

    @cached_property
    def coupled(self) -> NDArray[np.int64]:
        """How many of the first numbers of z the Hessians of knots (N+1,) couple; 0: these are `Derivatives.diagonal`.

        Beyond those rows and columns Hessians are diagonal; nz where nothing is known of a term, or controls are among
        them.
        """
        n, nz = self.dynamics.n, self.dynamics.n + self.dynamics.nu
        count = np.zeros(self.horizon + 1, dtype=np.int64) if self.plain is self else self.plain.coupled.copy()
        for entry in (*(self.entries if self.plain is self else ()), *self._of_constraints):
            own = entry.coupled
            count[entry.knots] = np.maximum(count[entry.knots], nz if own is None or own > n else own)
        return count

    @cached_property
    def separable(self) -> NDArray[np.bool_]:
        """Flags (N+1,) of knots at which every term is separable: its Hessian is diagonal, and Gauss-Newton's."""
        return self.coupled == 0

    @cached_property
    def runs(self) -> NDArray[np.int64]:
        """Runs [begin, end) of knots that are `coupled` alike, and how (., 3)."""
        edges = np.flatnonzero(np.diff(self.coupled)) + 1
        bounds = np.concatenate([[0], edges, [self.horizon + 1]])
        return np.stack([bounds[:-1], bounds[1:], self.coupled[bounds[:-1]]], axis=1).astype(np.int64)

    @cached_property
    def table(self) -> cost_table.Table:
        """The compiled terms."""
        if self.plain is not self:
            compiled = _rows(self._of_constraints, [ability(entry.term, "compiled") for entry in self._of_constraints])
            object.__setattr__(self, "_alive", compiled)
            return np.concatenate([self.plain.table, cost_table.table_of(compiled)])
        rows, _ = [], self._traces
        for entry in self.entries:
            if entry.compiled:
                with naming(entry.name, entry.knots):
                    rows.append((ability(entry.term, "compiled"), entry.begin, entry.end, entry.weight))
        object.__setattr__(self, "_alive", [row[0] for row in rows])  # what the table's addresses point to
        return cost_table.table_of(rows)

    @cached_property
    def table_with_notes(self) -> cost_table.Table:
        """Table, with the terms that read what the dynamics have noted of their knots."""
        return np.concatenate([self.table, cost_table.table_of(self._readers)]) if self._readers else self.table

    @property
    def noted(self) -> bool:
        """Whether any terms read what the dynamics have noted."""
        return bool(self._readers)

    @cached_property
    def _readers(self) -> list[tuple[CompiledCost, int, int, float]]:
        """C functions of terms that read notes, their knots and weights."""
        noted = [entry for entry in self.entries if entry.noted]
        return _rows(noted, [note_reader(entry, self.dynamics) for entry in noted])

    @cached_property
    def interpreted(self) -> bool:
        """Whether there are terms that are neither compiled nor noted."""
        own = [*self._lifted, *self._interpreted[True]]
        return bool(own) or not all(entry.compiled for entry in self._of_constraints)

    @property
    def compiled_alone(self) -> cost_table.Table | None:
        """Terms, if all of them are compiled and read no notes."""
        return None if self.interpreted or self.noted else self.table

    def has_runs(self, runs: NDArray[np.int64]) -> bool:
        """Whether `runs` are these."""
        return self.runs is runs or self.runs.tobytes() == runs.tobytes()

    def has_shapes_of(self, other: Objective) -> bool:
        """Whether all terms are compiled, and separable where another's are: its memory serves for these terms too."""
        if self is other:
            return True
        return self.has_runs(other.runs) and self.compiled_alone is not None and len(self.table) == len(other.table)

    def _in_python(self, start: int, stop: int, noted: bool = False) -> list[Entry]:
        """Terms of `within` that are not compiled; ``noted``: nor do they read notes."""
        of_constraints = [entry for entry in self._of_constraints if not entry.compiled]
        return _cut([*self._interpreted[noted], *of_constraints], start, stop)

    @cached_property
    def _of_constraints(self) -> tuple[Entry, ...]:
        """Terms of constraints with their knots; knot N apart from others, for it has no controls."""
        if self.lagrangian is None:
            return ()
        found, N = [], self.horizon
        for placed, term in zip(self.lagrangian.rows.placed, self.lagrangian.terms, strict=True):
            for begin, end in ((placed.start, min(placed.stop, N)), (max(placed.start, N), placed.stop)):
                if begin < end:
                    own = term.part(begin - placed.start, end - placed.start)
                    found.append(Entry(placed.name, own, 1.0, begin, end, term.compiled is not None))
        return tuple(found)

    @cached_property
    def _interpreted(self) -> tuple[list[Entry], list[Entry]]:
        """Terms that are not compiled, nor lifted, and those that do not read notes either."""
        plain = [one for one in self.entries if not one.compiled and ability(one.term, "composed_of") is None]
        return plain, [entry for entry in plain if not entry.noted]

    @cached_property
    def _lifted(self) -> list[tuple[Any, Objective]]:
        """Compositions, and terms of the system inside of each as its objective."""
        found: dict[Any, list[Entry]] = {}
        for entry in self.entries:
            if (lifted := ability(entry.term, "composed_of")) is not None:
                system, term, fixed = lifted
                found.setdefault(system, []).append(entry._replace(term=term, compiled=fixed))
        return [(system, Objective(system.system, self.horizon, tuple(own))) for system, own in found.items()]

    def terms(self) -> Iterator[tuple[str, BatchTerm, slice]]:
        """Every term with its name and the knots it belongs to, for reports; one that varies, knot by knot."""
        for entry in self.within(0, self.horizon + 1):
            varies = varying(entry.term) is not None
            for own in [entry.part(k, k + 1) for k in range(entry.begin, entry.end)] if varies else [entry]:
                yield own.name, own.term, own.knots

    def within(self, start: int, stop: int) -> list[Entry]:
        """The terms of the knots start .. stop-1, and of these alone, always in the same order."""
        return _cut([*self.entries, *self._of_constraints], start, stop)


def _rows(entries: Sequence[Entry], costs: Sequence[CompiledCost | None]) -> list[tuple[CompiledCost, int, int, float]]:
    """Rows of a table: C functions, where there is one, with knots and weights."""
    pairs = zip(entries, costs, strict=True)
    return [(cost, entry.begin, entry.end, entry.weight) for entry, cost in pairs if cost is not None]


def _cut(entries: Iterable[Entry], start: int, stop: int) -> list[Entry]:
    """Parts of entries among the knots start .. stop-1."""
    return [entry.part(max(start, entry.begin), min(stop, entry.end)) for entry in entries
            if start < entry.end and entry.begin < stop]  # fmt: skip


def _weighed(entry: Entry, weights: Array) -> Iterator[Entry]:
    """A running cost, split into runs of knots with equal steps of time."""
    for run in even(weights, range(entry.begin, entry.end)):
        yield entry.part(run.start, run.stop)._replace(weight=float(weights[run.start]))

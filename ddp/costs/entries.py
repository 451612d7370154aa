"""Cost terms as the horizon sees them: what users give is checked, named and wrapped."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, cast

import numpy as np

from ddp.constraints.placement import described
from ddp.costs.batch import BatchTerm, CompiledCost, ability, check_tangents, coupled_by, inside, part, varying
from ddp.costs.jitted import CompiledDerivedTerm, JittedTerm
from ddp.costs.terms import Cost, DerivedTerm, FunctionTerm, naming
from ddp.costs.traced import TracedTerm, is_traced
from ddp.errors import ProblemError
from ddp.protocols import Array, has_all
from ddp.systems.system import System
from ddp.systems.system import ability as of_system


class Entry(NamedTuple):
    """A term as the horizon sees it: how the user would name it, what multiplies it, and its knots begin .. end-1.

    compiled: whether kernels can ask it anywhere; noted: where the dynamics have noted what it needs.
    density: whether it is a cost by the second, multiplied by how long its knots take.
    """

    name: str
    term: BatchTerm
    weight: float
    begin: int
    end: int
    compiled: bool = False
    density: bool = False
    noted: bool = False

    @property
    def given(self) -> Any:
        """The term as the user has given it, where it may vary without being wrapped anew."""
        return self.term.term if isinstance(self.term, TracedTerm) and isinstance(self.term.term, Cost) else self.term

    def with_given(self, term: Any) -> "Entry":
        """The entry of another term of the same class, see `given`."""
        own = self.term.at(term) if isinstance(self.term, TracedTerm) else term
        return Entry(self.name, own, *self[2:])

    @property
    def knots(self) -> slice:
        """Knots of the term."""
        return slice(self.begin, self.end)

    def part(self, begin: int, end: int) -> "Entry":
        """The term at some of its knots."""
        if (begin, end) == (self.begin, self.end):
            return self
        return self._replace(term=part(self.term, begin - self.begin, end - self.begin), begin=begin, end=end)

    @property
    def coupled(self) -> int | None:
        """How many of the first numbers of a tangent vector its Hessian is known to couple, see `coupled_by`."""
        return coupled_by(self.term) if self.compiled else None


def entries_of(name: str, terms: Any, knots: range, density: bool, dynamics: System, x0: Array) -> Iterator[Entry]:
    """The user's list of terms of some knots, checked, named and wrapped."""
    if isinstance(terms, (str, Mapping)) or not isinstance(terms, Sequence):
        raise ProblemError(f"{name}: expected a list of cost terms, got {described(terms)}")
    for i, term in enumerate(terms):
        label = f"{name}[{i}]"
        if isinstance(term, type):
            raise ProblemError(f"{label}: expected a cost term, got the class {term.__name__}: make an instance of it")
        kind = kind_of(term)
        if callable(term) and not hasattr(term, "value") and not has_all(term, BatchTerm):
            term = FunctionTerm(term)
        batch: BatchTerm
        if is_traced(term, dynamics):
            with naming(f"{label} ({kind})", slice(0, 1)):
                batch = TracedTerm(term, dynamics)
        elif isinstance(term, JittedTerm):
            with naming(label, slice(0, 1)):
                batch = CompiledDerivedTerm(term, dynamics, x0, np.zeros(dynamics.nu))
        elif has_all(term, BatchTerm):
            batch = term
        elif hasattr(term, "value"):
            batch = DerivedTerm(term, dynamics)
        else:
            raise ProblemError(
                f"{label}: expected a cost term, a function of (x, u) or an object with value(x, u), "
                f"got {described(term)}"
            )
        weight = dynamics.dt if density else 1.0
        yield Entry(f"{label} ({kind})", batch, weight, knots.start, knots.stop, density=density)


def check_fits(entry: Entry, dynamics: System, x0: Array) -> None:
    """Refuse a term of other sizes than the system's, as far as it says so without being compiled."""
    check_tangents(entry.name, entry.term, dynamics.n)
    if (fits := ability(entry.term, "fits")) is not None:
        with naming(entry.name, entry.knots):
            fits(x0[None], np.zeros((1, dynamics.nu)))


def with_kernels(entry: Entry) -> Entry:
    """The entry, which knows whether kernels can ask its term; they are compiled."""
    with naming(entry.name.partition(" (")[0], slice(0, 1)):
        return entry._replace(compiled=ability(entry.term, "compiled") is not None)


def kind_of(term: Any) -> str:
    """Name of a user's function, or the kind of a term; of one that lifts another, that of the other."""
    own = inside(term)
    own = own.term if isinstance(own, (TracedTerm, DerivedTerm, CompiledDerivedTerm)) else own
    own = own.value if isinstance(own, FunctionTerm) else own
    return str(getattr(own, "__name__", type(own).__name__))


def note_reader(entry: Entry, dynamics: System) -> CompiledCost | None:
    """C function that evaluates a term by the notes of the dynamics, if there is one."""
    read = None if entry.compiled else ability(entry.term, "noted")
    if read is None or of_system(dynamics, "track_noting") is None:
        return None
    with naming(entry.name, entry.knots):
        return cast("CompiledCost | None", read(dynamics, entry.knots))


def try_entry(entry: Entry, horizon: int, dynamics: System, x0: Array) -> None:
    """Evaluate a batch term once: one made for another system is found here, not on the way.

    So is one of the controls alone at knot N, where there are none: a constant, and surely a mistake.
    """
    users = DerivedTerm, CompiledDerivedTerm, TracedTerm  # perhaps not defined there
    if isinstance(inside(entry.term), users):
        return
    elsewhere = dynamics.integrate(x0, 0.1 * np.cos(1.0 + np.arange(dynamics.n)))
    X, U = np.stack([x0, x0, elsewhere]), np.outer([0.0, 1.0, 0.0], np.ones(dynamics.nu))
    with naming(entry.name, entry.knots), np.errstate(all="ignore"):
        one = entry.term if varying(entry.term) is None else part(entry.term, 0, 1)
        values = np.asarray(one.values(X, U))
    if not (np.array_equal(X, [x0, x0, elsewhere]) and (U.T == [0.0, 1.0, 0.0]).all()):
        raise ProblemError(f"{entry.name}: values: expected X and U as they were, which the solver goes on with")
    if values.shape != (3,):
        raise ProblemError(f"{entry.name}: values: expected shape (3,) for 3 knots, got {values.shape}")
    if not entry.compiled and ability(one, "noted") is None and not _adds(one, X, U, dynamics):
        raise ProblemError(f"{entry.name}: expand: expected it to add to l, lz and lzz, got numbers in their place")
    if entry.begin == horizon and values[0] != values[1] and values[0] == values[2]:
        raise ProblemError(
            f"{entry.name}: expected a term of the state at the end of the horizon, "
            "where there is no control; got one of the controls alone"
        )


def _adds(term: BatchTerm, X: Array, U: Array, dynamics: System) -> bool:
    """Whether a term adds its derivatives to what other terms have written: NaN stays NaN."""
    nz = dynamics.n + dynamics.nu
    sums = [np.full((len(X), *shape), np.nan) for shape in ((), (nz,), (nz, nz))]
    with suppress(Exception), np.errstate(all="ignore"):  # told where it is needed, and perhaps not defined here
        for exact in (False, True):
            term.expand(X.copy(), U.copy(), 1.0, exact, *sums)
    return all(bool(np.isnan(one).all()) for one in sums)

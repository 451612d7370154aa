"""Cost terms as the horizon evaluates them: many knots in one call, with optional abilities; stretches of knots.

A user's own term, `ddp.protocols.Term`, is made into one by `ddp.costs.terms`.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ddp.errors import ProblemError
from ddp.machine.bound import Bound
from ddp.protocols import Array
from ddp.systems.system import System
from ddp.systems.system import ability as of_system


class CompiledCost(Bound):
    """A compiled cost term: the C function ``void(context, block, order, first)`` of `ddp.costs.bound`."""


@runtime_checkable
class BatchTerm(Protocol):
    """Cost term that is evaluated for many knots in one call. `TermAbilities` are optional."""

    def values(self, X: Array, U: Array) -> Array:
        """The costs (M,) at X (M, nx), U (M, nu)."""

    def expand(self, X: Array, U: Array, weight: float, exact: bool, l: Array, lz: Array, lzz: Array) -> None:
        """Add ``weight`` times value (M,), gradient (M, nz) and Hessian (M, nz, nz); Gauss-Newton unless ``exact``."""


class TermAbilities(Protocol):
    """Optional members of a `BatchTerm`, here with what stands for those that one lacks; `ability` reads them.

    thread_safe: whether several threads may ask at once, for compiled kernels do the work.
    compiled: its C function; all such terms of a problem are evaluated in one call.
    composed_of: of a cost of x and u in a composition (X, U), that, whose ``inner(X, U)`` gives x and u and whose
        ``add_pulled`` derivatives, the cost of x and u, and whether it is compiled for good; all of one composition are
        evaluated together.
    separable: of a compiled one, whether its Hessian is diagonal everywhere, and Gauss-Newton's the exact one.
    coupled: of a compiled one, how many of the first numbers of a state's tangent vector its Hessian couples: beyond
        their rows and columns it is diagonal. None: it may couple all numbers.
    n: of a compiled one, how many numbers a tangent vector of its states has; 0 where it knows no states.
    knots: for how many knots it is made, if it differs from one to the next, as by a reference that moves.
    at_end: of a constraint, whether it holds at the end of the horizon as well, where no control enters it.
    of_states: of a constraint, which of its rows (size,) no control enters; None: it is tried.
    lifts: of a term or a constraint around another, the field that is the other, whose numbers are its own to vary.
    movable: of a constraint, names of numbers, fields or those that its ``varied`` takes. Only where bounds change do
        other numbers change where rows are held, and which numbers of z they depend on.
    row_names: of a constraint, names of its rows for reports, such as joints; without them rows are numbered.
    """

    thread_safe: bool = False
    compiled: CompiledCost | None = None
    composed_of: tuple[Any, BatchTerm, bool] | None = None
    separable: bool = False
    coupled: int | None = None
    n: int = 0
    knots: int | None = None
    at_end: bool = True
    of_states: NDArray[np.bool_] | None = None
    lifts: str | None = None
    movable: Sequence[str] = ()
    row_names: Sequence[str] = ()

    def part(self, start: int, stop: int) -> BatchTerm:
        """Part for its knots start .. stop-1; of one knot, it takes any number of states."""

    def noted(self, dynamics: System, knots: slice) -> CompiledCost | None:
        """The C function, which reads notes of rollouts for values and records of expansions for derivatives.

        None where these dynamics do not note it, or not at all of these knots. Its exact Hessian may leave out what it
        asks the dynamics, in their records, to add to the contracted second order.
        """

    def fits(self, X: Array, U: Array) -> None:
        """Raise ProblemError for states and controls of other sizes than it is made for; nothing is compiled."""

    def by_duration(self, X: Array, U: Array) -> Array:
        """Derivatives (M,) of values by how long a knot takes; of constraints (M, size)."""


def check_tangents(name: str, term: Any, n: int) -> None:
    """Raise ProblemError for a compiled term or constraint of states with other tangents: it writes beyond these."""
    if (own := ability(term, "n")) not in (0, n) and ability(term, "compiled") is not None:  # which compiles it
        raise ProblemError(
            f"{name}: expected one of states whose tangent vectors have {n} numbers, got one for {own}: is it made for"
            " another system, or for plain numbers where these have quaternions or (cos, sin)?"
        )


def levels(term: Any) -> Iterator[Any]:
    """A term or a constraint, and those in it that it lifts."""
    yield term
    while name := ability(term, "lifts"):
        yield (term := getattr(term, name))


def inside(term: Any) -> Any:
    """The term or constraint that one lifts, or that one itself."""
    *_, innermost = levels(term)
    return innermost


def ability(term: Any, name: str) -> Any:
    """An optional member of a term or a constraint: a value or its default, a method or None."""
    return getattr(term, name, _LACKING[name])


def coupled_by(term: Any) -> int | None:
    """How many of the first numbers of a tangent vector a compiled term's Hessian couples, 0 of a separable one.

    Nobody reads more than their rows and columns and the diagonal. None: it may couple all numbers.
    """
    if ability(term, "compiled") is None:
        return None
    return 0 if ability(term, "separable") else ability(term, "coupled")


_LACKING = {name: None if callable(default) else default for name, default in vars(TermAbilities).items()}


def check_length(name: object, term: BatchTerm, knots: range) -> None:
    """Check that a term that differs from knot to knot has as many knots as its stretch; name: printed in errors."""
    count = varying(term)
    if count is not None and count != len(knots):
        raise ProblemError(f"{name}: expected a term of {len(knots)} knots, those of {knots}, got one of {count}")


def varying(term: BatchTerm) -> int | None:
    """Number of knots that a term is made for, if it differs from one to the next."""
    count: int | None = ability(term, "knots")
    return count


def part(term: BatchTerm, start: int, stop: int) -> BatchTerm:
    """Part of a term for the knots start .. stop-1, counted from the beginning of its stretch."""
    return term if varying(term) is None else cast(BatchTerm, ability(term, "part")(start, stop))


def padded(U: Array, count: int) -> Array:
    """Controls (count, nu) of knots, of which the last is that of zeros, at knot N, where U has none for it."""
    return U if len(U) == count else np.concatenate([U, np.zeros((1, U.shape[1]))])


def durations_of(dynamics: System, horizon: int) -> Array:
    """Duration (N,) of each of the knots [s]."""
    lasting = of_system(dynamics, "step_durations")
    return np.full(horizon, dynamics.dt) if lasting is None else np.asarray(lasting(horizon))


def weights_of(dynamics: System, horizon: int) -> Array:
    """Weights of running costs at each of the knots (N,): how long it takes, and dt at an event."""
    lasting = durations_of(dynamics, horizon)
    return np.where(lasting > 0.0, lasting, dynamics.dt)


def even(weights: Array, knots: range) -> Iterator[range]:
    """The runs of knots with the same weight."""
    own = weights[knots.start : knots.stop]
    edges = [0, *np.flatnonzero(np.diff(own)) + 1, len(own)]
    for begin, end in pairwise(edges):
        yield range(knots.start + int(begin), knots.start + int(end))

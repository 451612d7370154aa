"""A user's function, followed: called with numbers that remember how they were made, and compared with itself.

It is called once for every way through its branches, and selects join the results. Python asks a truth whether it
holds. It is told yes first; later calls turn the last answer that was yes, as long as there is one. What was asked
before has the answer that it had.
"""

import linecache
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ddp.compiling.setup import in_children
from ddp.errors import DDPError, line_of
from ddp.tracing import arrays, rewriting
from ddp.tracing.graph import Graph
from ddp.tracing.numbers import TEXTS, Node, Number, TraceError, Truth
from ddp.tracing.quantities import Asked, Use
from ddp.tracing.reads import GIVEN, Reads
from ddp.tracing.undefined import is_raised, is_undefined

MOST_DECISIONS, MOST_WAYS = 64, 256
"""Decisions of a call, and ways through a function, at most."""


class Way(NamedTuple):
    """A call: answers in the order of questions, and what came back."""

    answers: list[tuple[Truth, bool]]
    result: Any


class _Path:
    """Answers of one call: those of a prefix, then always yes."""

    def __init__(self, prefix: list[bool]) -> None:
        self._prefix = prefix
        self._known: dict[int, bool] = {}
        self.answers: list[tuple[Truth, bool]] = []

    def decide(self, truth: Truth) -> bool:
        """Answer to a question: whether a truth holds."""
        if truth.op == "not":
            return not self.decide(truth.args[0])
        if truth.op in ("and", "or"):
            first = self.decide(truth.args[0])
            return self.decide(truth.args[1]) if first == (truth.op == "and") else first
        if truth.place not in self._known:
            if len(self.answers) >= MOST_DECISIONS:
                raise TraceError(
                    f"more than {MOST_DECISIONS} decisions by values of x or u: does a loop end by such a value?"
                )
            taken = len(self.answers)
            answer = self._prefix[taken] if taken < len(self._prefix) else True
            self._known[truth.place] = answer
            self.answers.append((truth, answer))
        return self._known[truth.place]


def ways(graph: Graph, call: Callable[[list[Any]], Any]) -> list[Way]:
    """All ways through ``call``, depth first, the yes of each question before its no; it is given answers so far."""
    found: list[Way] = []
    prefix: list[bool] = []
    before = graph.decide
    try:
        while True:
            path = _Path(prefix)
            graph.decide = path.decide
            found.append(Way(path.answers, call(path.answers)))
            prefix = [answer for _, answer in path.answers]
            while prefix and not prefix[-1]:
                prefix.pop()
            if not prefix:
                return found
            if len(found) >= MOST_WAYS:
                raise TraceError(f"more than {MOST_WAYS} ways through branches by values that depend on x or u")
            prefix[-1] = False
    finally:
        graph.decide = before


def joined(graph: Graph, found: list[Way], depth: int = 0) -> list[Any]:
    """The results of ways, lists of equally many numbers, as one list of selects."""
    if len(found) == 1:
        return list(found[0].result)
    question = found[0].answers[depth][0]
    yes = joined(graph, [way for way in found if way.answers[depth][1]], depth + 1)
    no = joined(graph, [way for way in found if not way.answers[depth][1]], depth + 1)
    return [graph.select(question, *pair) for pair in zip(yes, no, strict=True)]


_HERE = Path(__file__).parent

MOST_OPERATIONS = 50_000
"""Operations of a function, at most."""

_lock = threading.RLock()


def _renew_lock() -> None:
    """Have a lock that no thread holds."""
    global _lock
    _lock = threading.RLock()


in_children(_renew_lock)


class Trace(NamedTuple):
    """Expressions of what a function returns, of variables that are the entries of its arguments one after another.

    shape: of what it returns.   arguments: how many variables there are.   reads: what it has read beside them.
    uses: of quantities, whose numbers are the last of these variables.
    """

    graph: Graph
    outputs: list[Number]
    shape: tuple[int, ...]
    arguments: int
    reads: Reads
    uses: tuple[Use, ...] = ()


class FollowError(Exception):
    """Raised where a function cannot be followed, or is another one when called again; says why, and where."""


class ShapeError(Exception):
    """Raised where a function returns an array of a wrong shape; says which, and which was expected."""


def of_shape(what: str, found: Any, n: int) -> Any:
    """Return an array that a user's function made; ShapeError unless it is one of shape (n,)."""
    if found.shape != (n,):
        came = "None: does it lack a return?" if found.shape == () and found.item() is None else found.shape
        raise ShapeError(f"expected a {what} of shape ({n},), got {came}")
    for entry in found:
        if isinstance(entry, np.ndarray):
            raise ShapeError(f"expected a {what} of {n} numbers, got an array of shape {entry.shape} as one of them")
    return found


def refused(reason: Exception) -> str:
    """Why a function that Python can call cannot be followed: what it raised of numbers that remember."""
    first = (str(reason).strip() or type(reason).__name__).splitlines()[0]
    return f"it calls what takes plain numbers alone ({type(reason).__name__}: {first[:200]}){line_of(reason)}{may()}"


def may() -> str:
    """List what functions may call, if there is anything."""
    known = ", ".join(sorted(function.__name__ for function in GIVEN))
    return f"; costs and constraints may call {known}" if known else ""


def trace(function: Callable[..., Any], sizes: tuple[int, ...], asked: Asked | None = None) -> Trace:
    """Follow a function of vectors of some sizes, on every way through its branches.

    asked: takes its uses of quantities, if it may have some.

    Raises FollowError, and exceptions of the function: but where they say that it has no value, or it raises them
    itself behind a branch, it is NaN.
    """
    graph, reads = Graph(), Reads(function)
    graph.asked = asked
    variables = graph.variables(sum(sizes))
    ends = np.cumsum(sizes)
    shapes: list[tuple[int, ...]] = []
    undefined: list[Exception] = []

    def call(answers: list[Any]) -> Any:
        given = [np.array([*variables[end - size : end], None], dtype=object)[:-1].view(arrays.TracedArray).copy()
                 for end, size in zip(ends, sizes, strict=True)]  # fmt: skip
        TEXTS.clear()
        try:
            result = rewriting.Rewriter(reads).value(function)(*given)
        except DDPError as reason:  # of a function on robots, say, that refuses numbers which remember
            raise FollowError(f"it calls what takes plain numbers alone ({reason}){line_of(reason)}{may()}") from reason
        except Exception as reason:
            if isinstance(reason, TraceError) or not (is_undefined(reason) or (answers and is_raised(reason))):
                raise
            undefined.append(reason)
            return None
        for made_at in TEXTS.values():
            told = "a text, which is not only printed or raised, of a number that depends on x or u"
            raise TraceError(told).with_traceback(made_at)
        if np.ma.is_masked(result):
            raise TypeError("expected real numbers, got a masked one")
        found = np.array(arrays.traced(result), dtype=object)
        for entry in found.flat:
            if not isinstance(entry, (Node, float, int, np.floating, np.integer, np.bool_)):
                raise TypeError(f"expected real numbers, got {type(entry).__name__}")
        shapes.append(found.shape)
        return [graph.number(entry) for entry in found.flat]

    with _lock, np.errstate(all="ignore"):
        try:
            found = ways(graph, call)
        except TraceError as reason:
            raise FollowError(f"{reason}{users_line(reason)}") from reason
        finally:
            TEXTS.clear()
    if not shapes:
        raise undefined[0]  # there is no value anywhere
    if len(set(shapes)) > 1:
        raise FollowError(f"it returns arrays of different shapes, {' and '.join(map(str, sorted(set(shapes))))}")
    shape = shapes[0]
    nothing = [graph.constant(np.nan)] * int(np.prod(shape))
    defined = [way._replace(result=nothing if way.result is None else way.result) for way in found]
    try:
        outputs = joined(graph, defined)
    except IndexError:
        raise FollowError("it does not ask the same questions when it is called again") from None
    if len(graph) > MOST_OPERATIONS:
        raise FollowError(f"it has {len(graph)} operations, more than {MOST_OPERATIONS}")
    graph.is_strict = False
    reads.settle()
    uses = () if asked is None else tuple(asked.uses)
    return Trace(graph, outputs, shape, sum(sizes) + sum(use.quantity.size for use in uses), reads, uses)


@np.errstate(all="ignore")
def compare(name: str, function: Callable[..., Any], compiled: Callable[..., Any], points: Any) -> None:
    """Call a function and its compiled trace at some points, and at the first again; FollowError if they differ.

    FollowError, too, where Python has a TypeError for it at every point.
    """
    refusals: list[Exception] = []
    for k, point in enumerate([*points, points[0]]):
        try:
            value = np.asarray(function(*(part.copy() for part in point)))
            expected = np.asarray(value, dtype=float)
        except TraceError as reason:
            raise FollowError(f"it keeps what it is given{users_line(reason)}") from reason
        except Exception as reason:  # whatever it has against the point
            refusals.append(reason)
            continue
        if value.dtype.kind == "b":
            raise TypeError(f"{name}: expected numbers, got {value.tolist()}")
        found = np.asarray(compiled(*point)).reshape(expected.shape)
        agreed = np.where(np.isnan(expected), np.nan, found)  # squares of roots have values where the roots have none
        if not np.allclose(agreed, expected, 1e-9, 1e-9, equal_nan=True):
            when = "when called again " if k == len(points) else ""
            raise FollowError(
                f"{name} returns {expected.ravel().tolist()} {when}where its operations, followed once, give"
                f" {found.ravel().tolist()}: does it keep something between calls, read what changes, or draw"
                " random numbers, or go on after an exception?"
            )
    if len(refusals) > len(points) and all(isinstance(one, TypeError) and not is_raised(one) for one in refusals):
        why = str(refusals[0]).partition("\n")[0]
        raise FollowError(f"plain numbers are refused (TypeError: {why}){line_of(refusals[0])}")


def users_line(reason: BaseException) -> str:
    """Describe where a traceback leaves a user's function: the innermost line of no library, with its text."""
    found = ""
    frame = reason.__traceback__
    while frame is not None:
        path = Path(frame.tb_frame.f_code.co_filename)
        installed = {"site-packages", "dist-packages"} & set(path.parts)
        if path.suffix != ".pyx" and path.parent != _HERE and not installed:
            text = linecache.getline(str(path), frame.tb_lineno).strip()
            found = f", in line {frame.tb_lineno} of {path.name}" + (f": {text}" if text else "")
        frame = frame.tb_next
    return found

"""Every way through a function's branches: it is called once for each, and selects join the results.

Python asks a truth whether it holds. It is told yes first; later calls turn the last answer that was yes, as long as
there is one. What was asked before has the answer that it had.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from ddp.tracing.graph import Graph
from ddp.tracing.numbers import TraceError, Truth

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

"""Numbers and truths of a graph: what a function of a user's is given, with Python's operators.

Each is an operation and its arguments. Operators add to the graph (graph.py); Python's ``if`` on a truth asks it.
"""

from __future__ import annotations

import hashlib
import sys
import traceback
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

import numpy as np

_PARTIAL = frozenset({
    "div", "pow", "sqrt", "log", "log1p", "asin", "acos", "acosh", "atanh", "tan", "exp", "expm1", "mod", "floordiv",
    "fmod",
})  # fmt: skip
"""Operations without a value for some finite arguments, or an infinite one."""


class TraceError(Exception):
    """Raised where a function does with a number what cannot be followed."""


TEXTS: dict[str, TracebackType | None] = {}
"""Texts of numbers since a call began, but those printed, and where each was made: no trace knows what they say."""


def refusing(what: str) -> Any:
    """A method that refuses what would have to know a value."""

    def refuse(self: Node, *unused: Any) -> Any:
        raise TraceError(f"{what} of a number that depends on x or u")

    return refuse


class Node:
    """An operation and its arguments; place: its own in the graph, after those of its arguments."""

    __slots__ = ("args", "graph", "is_partial", "op", "place")

    def __init__(self, graph: Any, op: str, args: tuple[Any, ...], place: int) -> None:
        self.graph, self.op, self.args, self.place = graph, op, args, place
        self.is_partial: bool = op in _PARTIAL or True in [arg.is_partial for arg in args if isinstance(arg, Node)]
        """Whether it has no value for some finite arguments."""

    def __repr__(self) -> str:
        text, made_at = f"<{self.op} {self.place}>", None
        for frame, line in traceback.walk_stack(sys._getframe()):
            made_at = TracebackType(made_at, frame, frame.f_lasti, line)
        TEXTS[text] = made_at
        return text

    def __reduce__(self) -> Any:
        raise TraceError("pickling a number that depends on x or u")

    __hash__ = refusing("a hash, as of a key in a dictionary or set,")
    __int__, __float__, __complex__, __round__ = map(refusing, ("int()", "float()", "complex()", "round()"))
    __index__ = refusing("an index or a count made")

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __copy__(self) -> Node:
        return self

    def __deepcopy__(self, memo: Any) -> Node:
        return self


PLAIN = Node, float, int, np.floating, np.integer, np.bool_
"""Values that numbers of a graph are combined with; arrays ask for each of their entries."""


def _unknown(other: Any) -> Any:
    """Answer to an operand that is no number of a graph: complex ones are refused, others may know what to do."""
    if isinstance(other, (complex, np.complexfloating)):
        raise TraceError("arithmetic of a number that depends on x or u with complex")
    return NotImplemented


def _operators(operation: Callable[[Any, Any, Any], Any]) -> tuple[Any, Any]:
    """Methods of an operator, and of the one that is reflected."""

    def forward(self: Node, other: Any) -> Any:
        return operation(self.graph, self, other) if isinstance(other, PLAIN) else _unknown(other)

    def reflected(self: Node, other: Any) -> Any:
        return operation(self.graph, other, self) if isinstance(other, PLAIN) else _unknown(other)

    return forward, reflected


class Number(Node):
    """A float that depends on arguments. arrays.py adds what NumPy asks for."""

    __slots__ = ()
    __hash__ = Node.__hash__
    shape: tuple[int, ...] = ()
    ndim, size, imag = 0, 1, 0.0

    @property
    def is_zero(self) -> bool:
        return self.op == "const" and self.args[0] == 0.0

    @property
    def real(self) -> Number:
        return self

    T = real

    def _itself(self, *unused: Any, **named: Any) -> Number:
        return self

    conjugate = copy = item = sum = mean = flatten = squeeze = _itself

    __add__, __radd__ = _operators(lambda graph, a, b: graph.binary("add", a, b))
    __sub__, __rsub__ = _operators(lambda graph, a, b: graph.binary("sub", a, b))
    __mul__, __rmul__ = _operators(lambda graph, a, b: graph.binary("mul", a, b))
    __truediv__, __rtruediv__ = _operators(lambda graph, a, b: graph.binary("div", a, b))
    __pow__, __rpow__ = _operators(lambda graph, a, b: graph.power(a, b))
    __lt__, __gt__ = _operators(lambda graph, a, b: graph.binary("lt", a, b))
    __le__, __ge__ = _operators(lambda graph, a, b: graph.binary("le", a, b))
    __floordiv__, __rfloordiv__ = _operators(lambda graph, a, b: graph.binary("floordiv", a, b))
    __mod__, __rmod__ = _operators(lambda graph, a, b: graph.binary("mod", a, b))

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __neg__(self) -> Any:
        return self.graph.neg(self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self.graph.unary("fabs", self)

    def __floor__(self) -> Any:
        return self.graph.unary("floor", self)

    def __eq__(self, other: Any) -> Any:
        return self.graph.binary("eq", self, other) if isinstance(other, PLAIN) else NotImplemented

    def __ne__(self, other: Any) -> Any:
        return self.graph.inverted(self == other) if isinstance(other, PLAIN) else NotImplemented

    def __bool__(self) -> bool:
        return bool(self != 0.0)


class Truth(Number):
    """A condition that depends on arguments; in arithmetic, 1 where it holds and 0 elsewhere."""

    __slots__ = ()
    __hash__ = Node.__hash__

    def __add__(self, other: Any) -> Any:
        if isinstance(other, (Truth, bool, np.bool_)):
            raise TraceError("a + b of conditions, which is a | b in NumPy and float(a) + float(b) in Python")
        return super().__add__(other)

    def __mul__(self, other: Any) -> Any:
        return self & other if isinstance(other, (Truth, bool, np.bool_)) else super().__mul__(other)

    __radd__, __rmul__ = __add__, __mul__

    def __int__(self) -> int:
        return int(bool(self))

    def __bool__(self) -> bool:
        return self.graph.decide(self)

    def __and__(self, other: Any) -> Any:
        return self.graph.both(self, other)

    def __or__(self, other: Any) -> Any:
        return self.graph.either(self, other)

    def __xor__(self, other: Any) -> Any:
        a, b = self, other
        return self.graph.either(self.graph.both(a, self.graph.inverted(b)), self.graph.both(self.graph.inverted(a), b))

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __invert__(self) -> Any:
        return self.graph.inverted(self)


def ordered(outputs: Iterable[Any]) -> list[Node]:
    """Nodes that outputs are made of, arguments before what is made of them."""
    found: dict[int, Node] = {}
    waiting = [node for node in outputs if isinstance(node, Node)]
    while waiting:
        node = waiting.pop()
        if node.place not in found:
            found[node.place] = node
            waiting += [arg for arg in node.args if isinstance(arg, Node)]
    return [found[place] for place in sorted(found)]


def digest(outputs: list[Number], *others: Any) -> bytes:
    """Digest of expressions: equal for equal ones, whatever graph they are in. ``others``: what goes in beside them."""
    places: dict[int, int] = {}
    told = []
    for node in ordered(outputs):
        places[node.place] = len(places)
        args = [str(places[arg.place]) if isinstance(arg, Node) else float(arg).hex() for arg in node.args]
        told.append(f"{node.op} {' '.join(args)}")
    told.append(repr(([places[node.place] for node in outputs], others)))
    return hashlib.sha256("\n".join(told).encode()).digest()

"""Numbers that remember how they were made: a graph of operations, in which equal expressions are one object.

A `Number` stands for a float, a `Truth` for a comparison; arithmetic with them adds to their `Graph`, which works out
what is constant and leaves out zeros and ones. Python's ``if`` on a truth asks `Graph.decide`. Numbers take part in
NumPy's arithmetic, see arrays.py.

| operations | meaning |
|---|---|
| ``add sub mul div neg pow``, those of `UNARY`, ``atan2 hypot mod floordiv fmod`` | of numbers |
| ``select(c, p, q)`` | p where the truth c holds, else q |
| ``lt le eq odd``, ``and or not`` | conditions on numbers, and on truths |
| ``const``, ``var`` | a float; an argument, by its place |
"""

import math
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ddp.tracing.numbers import PLAIN, Node, Number, TraceError, Truth, ordered, refusing

UNARY = {
    "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tan": np.tan, "exp": np.exp, "expm1": np.expm1, "log": np.log,
    "log1p": np.log1p, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "floor": np.floor, "rint": np.rint,
    "fabs": np.fabs,
}  # fmt: skip
"""Operations on one number, and NumPy's functions that they are."""

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power, "atan2": np.arctan2,
    "hypot": np.hypot, "mod": np.remainder, "floordiv": np.floor_divide, "fmod": np.fmod,
    "lt": np.less, "le": np.less_equal, "eq": np.equal,
}  # fmt: skip
"""Operations on two numbers, and NumPy's functions that they are."""

_AT_LEAST_ZERO = {"sqrt", "exp", "cosh", "acosh", "acos", "fabs", "hypot"}
"""Operations whose results are not negative."""

MOST_MULTIPLICATIONS = 64
"""Powers of whole numbers up to this are products."""


class Graph:
    """All nodes of a trace, by operation and arguments.

    decide: what Python's ``if`` is answered; set while a function is followed, see trace.py.
    is_strict: whether zero times what may have no value is kept, and signs of zeros, which arctan2 asks for, as of
        functions; of derivatives they are not.
    asked: takes what is asked of quantities, see quantities.py; None where nothing may be.
    """

    def __init__(self) -> None:
        self._nodes: dict[tuple[Any, ...], Node] = {}
        self.is_strict = True
        self.asked: Any = None
        self.decide: Callable[[Truth], bool] = refusing("a decision")

    def __len__(self) -> int:
        return len(self._nodes)

    def _node(self, kind: type[Node], op: str, args: tuple[Any, ...]) -> Any:
        key = (op, *[arg.place if isinstance(arg, Node) else arg for arg in args])
        found = self._nodes.get(key)
        if found is None:
            found = self._nodes[key] = kind(self, op, args, len(self._nodes))
        return found

    def variables(self, count: int) -> list[Number]:
        """Arguments 0 .. count-1."""
        return [self._node(Number, "var", (place,)) for place in range(count)]

    def constant(self, value: Any) -> Number:
        """A float as a number; equal floats, and not -0.0 and 0.0, are one."""
        number = float(value)
        key = "const", struct.pack("d", number)
        found = self._nodes.get(key)
        if found is None:
            found = self._nodes[key] = Number(self, "const", (number,), len(self._nodes))
            found.is_partial = not math.isfinite(number)
        return found  # type: ignore[return-value]

    def number(self, value: Any) -> Number:
        """Anything that is a number, as one of this graph."""
        if type(value) is Number:
            return value
        if type(value) is float:
            return self.constant(value)
        if isinstance(value, Truth):
            return self.select(value, 1.0, 0.0)
        if isinstance(value, Number):
            return value
        if isinstance(value, PLAIN):
            return self.constant(value)
        if isinstance(value, np.ndarray) and value.ndim == 0:
            return self.number(value.item())
        raise TraceError(f"arithmetic of a number that depends on x or u with {type(value).__name__}")

    def unary(self, op: str, value: Any) -> Number:
        """One of `UNARY`."""
        a = self.number(value)
        if a.op == "const":
            with np.errstate(all="ignore"):
                return self.constant(UNARY[op](a.args[0]))
        if op in ("sin", "tan", "asin", "atan", "sinh", "tanh", "asinh") and a.op == "neg":
            return self.neg(self.unary(op, a.args[0]))
        if op in ("cos", "cosh") and a.op == "neg":
            return self.unary(op, a.args[0])
        return self._node(Number, op, (a,))

    def of_library(self, name: str, a: Number) -> Number:
        """One of C's functions where operations of the same name are formulas, see formulas.py."""
        return self._node(Number, f"{name}_", (a,))

    def neg(self, value: Any) -> Number:
        """``-a``."""
        a = self.number(value)
        if a.op == "const":
            return self.constant(-a.args[0])
        if a.op == "neg":
            return a.args[0]
        if a.op == "sub" and not self.is_strict:
            return self.binary("sub", a.args[1], a.args[0])
        return self._node(Number, "neg", (a,))

    def binary(self, op: str, left: Any, right: Any) -> Any:
        """One of `BINARY`."""
        a = left if type(left) is Number else self.number(left)
        b = right if type(right) is Number else self.number(right)
        if a.op == b.op == "const":
            with np.errstate(all="ignore"):
                value = BINARY[op](a.args[0], b.args[0])
            return bool(value) if op in ("lt", "le", "eq") else self.constant(value)
        if op in ("lt", "le", "eq"):
            return self._node(Truth, op, (a, b))
        simpler = _SIMPLER.get(op)
        found = None if simpler is None else simpler(self, a, b)
        if found is not None:
            return found
        if a.place > b.place and op in ("add", "mul"):
            a, b = b, a
        key = op, a.place, b.place
        made = self._nodes.get(key)
        if made is None:
            made = self._nodes[key] = Number(self, op, (a, b), len(self._nodes))
        return made

    def select(self, condition: Any, chosen: Any, other: Any) -> Number:
        """``chosen`` where the condition holds, else ``other``."""
        if not isinstance(condition, (Truth, bool, np.bool_)):
            condition = condition != 0
        if not isinstance(condition, Truth):
            return self.number(chosen if condition else other)
        p, q = self.number(chosen), self.number(other)
        if p is q:
            return p
        if condition.op == "not":
            return self._node(Number, "select", (condition.args[0], q, p))
        return self._node(Number, "select", (condition, p, q))

    def both(self, a: Any, b: Any) -> Any:
        """Whether two conditions hold."""
        if isinstance(a, Truth) and isinstance(b, Truth):
            return a if a is b else self._node(Truth, "and", (a, b))
        return (b if a else False) if isinstance(b, Truth) else (a if b else False)

    def either(self, a: Any, b: Any) -> Any:
        """Whether one of two conditions holds."""
        if isinstance(a, Truth) and isinstance(b, Truth):
            return a if a is b else self._node(Truth, "or", (a, b))
        return (True if a else b) if isinstance(b, Truth) else (True if b else a)

    def inverted(self, a: Any) -> Any:
        """Whether a condition does not hold."""
        if not isinstance(a, Truth):
            return not a
        return a.args[0] if a.op == "not" else self._node(Truth, "not", (a,))

    def odd(self, a: Any) -> Any:
        """Whether a number, a whole one, is odd."""
        return self._node(Truth, "odd", (self.number(a),))

    def power(self, base: Any, exponent: Any) -> Number:
        """``base ** exponent``; products and roots where the exponent is a small whole number or a half."""
        a, b = self.number(base), self.number(exponent)
        if b.op != "const" or a.op == "const":
            return self.binary("pow", a, b)
        p = b.args[0]
        if p == 0.5:
            return self.unary("sqrt", a)
        if not (p == int(p) if math.isfinite(p) else False) or abs(p) > MOST_MULTIPLICATIONS:
            return self.binary("pow", a, b)
        result, square, left = self.constant(1.0), a, abs(int(p))
        while left:
            if left & 1:
                result = self.binary("mul", result, square)
            left >>= 1
            if left:
                square = self.binary("mul", square, square)
        return result if p >= 0 else self.binary("div", 1.0, result)


def may_be_negative(a: Number) -> bool:
    """Whether a number may be less than zero, or NaN of a constant, as sums of squares may not."""
    waiting, seen = [a], {a.place}
    while waiting:
        node = waiting.pop()
        if (node.op == "const" and node.args[0] >= 0.0) or node.op in _AT_LEAST_ZERO:
            continue
        if node.op not in ("add", "mul", "div", "select"):
            return True
        parts = [arg for arg in node.args if not isinstance(arg, Truth)]
        if node.op == "add" or parts[0] is not parts[1]:
            waiting += [part for part in parts if part.place not in seen]
            seen.update(part.place for part in parts)
    return False


def _simpler_sum(graph: Graph, a: Number, b: Number) -> Any:
    for zero, other in ((a, b), (b, a)):
        if zero.is_zero:
            return graph.binary("sub", 0.0, other.args[0]) if other.op == "neg" and graph.is_strict else other
    if b.op == "neg":
        return graph.binary("sub", a, b.args[0])
    return graph.binary("sub", b, a.args[0]) if a.op == "neg" else None


def _simpler_difference(graph: Graph, a: Number, b: Number) -> Any:
    if b.is_zero:
        return a
    if a.is_zero and not graph.is_strict:
        return graph.neg(b)
    if a is b and not (graph.is_strict and a.is_partial):
        return graph.constant(0.0)
    return graph.binary("add", a, b.args[0]) if b.op == "neg" else None


def _simpler_product(graph: Graph, a: Number, b: Number) -> Any:
    if b.op == "const":
        a, b = b, a
    if a.is_zero:
        return None if graph.is_strict and b.is_partial else graph.constant(0.0)
    if a.op == "const" and abs(a.args[0]) == 1.0:
        return b if a.args[0] > 0.0 else graph.neg(b)
    if a is b and a.op == "sqrt":
        below = graph.is_strict and may_be_negative(a.args[0]) and a.args[0] < 0.0
        return graph.select(below, math.nan, a.args[0])
    if a is b and a.op == "hypot":
        return a.args[0] * a.args[0] + a.args[1] * a.args[1]
    for factor, other in ((a, b), (b, a)):
        if factor.op == "neg":
            return graph.neg(graph.binary("mul", factor.args[0], other))
        if factor.op == "select" and not graph.is_strict and {one.op for one in factor.args[1:]} == {"const"}:
            condition, p, q = factor.args
            if p.is_zero or q.is_zero:  # of what may be infinite, zero is meant
                return graph.select(condition, graph.binary("mul", p, other), graph.binary("mul", q, other))
    return None


def _simpler_quotient(graph: Graph, a: Number, b: Number) -> Any:
    if a.is_zero and not graph.is_strict:
        return a
    if b.op == "const" and abs(b.args[0]) == 1.0:
        return a if b.args[0] > 0.0 else graph.neg(a)
    if a.op == "neg":
        return graph.neg(graph.binary("div", a.args[0], b))
    return graph.neg(graph.binary("div", a, b.args[0])) if b.op == "neg" else None


_SIMPLER: dict[str, Callable[[Graph, Number, Number], Any]] = {
    "add": _simpler_sum, "sub": _simpler_difference, "mul": _simpler_product, "div": _simpler_quotient,
}  # fmt: skip


def substituted(graph: Graph, outputs: Iterable[Number], values: Mapping[int, Any]) -> list[Number]:
    """Expressions with values, floats or other expressions, for variables by their places."""
    outputs = list(outputs)
    known: dict[int, Any] = {}
    for node in ordered(outputs):
        args = [known[arg.place] if isinstance(arg, Node) else arg for arg in node.args]
        if node.op == "var":
            known[node.place] = graph.number(values.get(node.args[0], node))
        elif node.op == "const" or all(a is b for a, b in zip(args, node.args, strict=True)):
            known[node.place] = node
        else:
            known[node.place] = _again(graph, node.op, args)
    return [known[output.place] for output in outputs]


def _again(graph: Graph, op: str, args: list[Any]) -> Any:
    """An operation on other arguments, truths of constants among them."""
    match op:
        case "select":
            return graph.select(*args)
        case "and":
            return graph.both(*args)
        case "or":
            return graph.either(*args)
        case "not":
            return graph.inverted(*args)
        case "neg":
            return graph.neg(*args)
        case "odd":
            return graph.odd(*args)
        case "pow":
            return graph.power(*args)
    return graph.unary(op, *args) if op in UNARY else graph.binary(op, *args)

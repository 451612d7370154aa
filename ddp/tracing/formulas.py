"""Functions without an instruction or a function of C that lanes could use as it is: formulas, and where they hold.

Each is a graph of what it returns, a truth that says where that is right, and what is right elsewhere, which code
computes only if some of its lanes ask for it.
"""

import math
from collections.abc import Callable
from types import FunctionType
from typing import NamedTuple

from ddp.compiling.content import chosen
from ddp.machine import number
from ddp.tracing.graph import Graph
from ddp.tracing.numbers import Number, Truth


class Formula(NamedTuple):
    """Results near ordinary arguments, whether they are right, and results elsewhere."""

    near: list[Number]
    holds: Truth
    far: list[Number]


def _sine_cosine(graph: Graph, x: Number) -> Formula:
    """Sine and cosine by the kernel of `number.sine_cosine`: its Python source, followed."""
    source = chosen[number.sine_cosine](number.lanes).py_func
    names = {
        "_nearest_integer": lambda n: graph.unary("rint", n),
        "_where_odd": lambda n, a, b: graph.select(graph.odd(n), a, b),
        "where_less": lambda a, b, x, y: graph.select(graph.binary("lt", a, b), x, y),
    }
    near = FunctionType(source.__code__, {**source.__globals__, **names})(x)
    return Formula(list(near), x * x < 1e30, [graph.of_library("sin", x), graph.of_library("cos", x)])


def _remainder(graph: Graph, a: Number, b: Number) -> Formula:
    """``a % b``, which is never on the other side of zero than b, and ``a // b``."""
    quotient = a / b
    whole, size = graph.unary("floor", quotient), abs(b)
    rest = a - whole * b
    above = rest * b < 0.0  # a / b was rounded up to a whole number
    near = [_with_side_of(graph, b, graph.select(above, rest + b, rest)), graph.select(above, whole - 1.0, whole)]
    holds = graph.both(abs(quotient) < 1e15, graph.both(size > 1e-150, size < 1e150))
    rest = graph.binary("fmod", a, b)
    below = graph.select(b < 0.0, -rest, rest) < 0.0
    whole = graph.unary("rint", (a - rest) / b)
    whole = graph.select(b.__eq__(0.0), quotient, graph.select(below, whole - 1.0, whole))
    return Formula(near, holds, [_with_side_of(graph, b, graph.select(below, rest + b, rest)), whole])


def _with_side_of(graph: Graph, b: Number, rest: Number) -> Number:
    """A number on the side of zero where b is, with the sign of zeros that NumPy gives it, too."""
    return graph.select(b < 0.0, -abs(rest), abs(rest))


def _hypotenuse(graph: Graph, a: Number, b: Number) -> Formula:
    """Length of (a, b); of squares that no float holds, by parts of the longer side."""
    square, is_less = a * a + b * b, abs(a) < abs(b)
    side = graph.select(is_less, abs(b), abs(a))
    scaled = side * graph.unary("sqrt", (a / side) * (a / side) + (b / side) * (b / side))
    holds = graph.both(square > 1e-290, square < 1e300)
    is_scaled = graph.both(side > 0.0, side < math.inf)
    is_infinite = graph.either(abs(a).__eq__(math.inf), abs(b).__eq__(math.inf))
    far = graph.select(is_scaled, scaled, graph.select(is_infinite, math.inf, abs(a) + abs(b)))
    return Formula([graph.unary("sqrt", square)], holds, [far])


FORMULAS: dict[str, tuple[int, Callable[..., Formula]]] = {
    "sine_cosine": (1, _sine_cosine), "remainder": (2, _remainder), "hypotenuse": (2, _hypotenuse),
}  # fmt: skip
"""Formulas by name, with how many arguments they have."""

BY_FORMULA = {
    "sin": ("sine_cosine", 0), "cos": ("sine_cosine", 1), "mod": ("remainder", 0), "floordiv": ("remainder", 1),
    "hypot": ("hypotenuse", 0),
}  # fmt: skip
"""Operations of graphs, their formulas, and places among the results of those."""


def results_of(name: str) -> int:
    """How many results a formula has."""
    return sum(formula == name for formula, _ in BY_FORMULA.values())

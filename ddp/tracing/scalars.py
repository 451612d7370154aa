"""Operations on single values, floats or numbers of a graph: NumPy's universal functions, Python's module math.

A value is followed where it is a number of a graph; floats are left to Python.
"""

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ddp.tracing.graph import BINARY, UNARY
from ddp.tracing.numbers import TEXTS, Node, TraceError, Truth


def graph_of(*values: Any) -> Any:
    """The graph of the first number of a graph among values."""
    for value in values:
        if isinstance(value, Node):
            return value.graph
    return None


def lifted(plain: Callable[..., Any], op: Callable[..., Any]) -> Callable[..., Any]:
    """An operation of values: ``plain`` where all are floats, else ``op`` of their graph and them."""

    def call(*values: Any) -> Any:
        graph = graph_of(*values)
        return plain(*values) if graph is None else op(graph, *values)

    return call


def _least(graph: Any, a: Any, b: Any) -> Any:
    return graph.select(graph.binary("lt", b, a), b, a)


def _most(graph: Any, a: Any, b: Any) -> Any:
    return graph.select(graph.binary("lt", a, b), b, a)


least, most = lifted(min, _least), lifted(max, _most)
"""The smaller and the larger one of two values."""

select = lifted(lambda c, p, q: p if c else q, lambda graph, c, p, q: graph.select(c, p, q))
"""One of two values, by a condition."""


def _is_nan(graph: Any, a: Any) -> Any:
    return graph.inverted(graph.binary("eq", a, a))


def unless_nan(graph: Any, a: Any, constant: Any) -> Any:
    """A constant, but NaN where ``a`` is."""
    return graph.select(_is_nan(graph, a), math.nan, constant)


def _minimum(graph: Any, a: Any, b: Any) -> Any:
    if _is_nan(graph, a) is False:
        return graph.select(graph.binary("le", a, b), a, b)
    return graph.select(graph.either(graph.binary("lt", b, a), _is_nan(graph, b)), b, a)  # a, where that is NaN


def _maximum(graph: Any, a: Any, b: Any) -> Any:
    if _is_nan(graph, a) is False:
        return graph.select(graph.binary("le", b, a), a, b)
    return graph.select(graph.either(graph.binary("lt", a, b), _is_nan(graph, b)), b, a)


maximum = lifted(np.maximum, _maximum)
"""The larger one of two values, NaN where one of them is."""


def _hypot(graph: Any, *values: Any) -> Any:
    if len(values) == 2:
        return graph.binary("hypot", *values)
    return graph.unary("sqrt", sum((graph.number(a) * a for a in values), start=graph.constant(0.0)))


def _log_of_sum(graph: Any, a: Any, b: Any) -> Any:
    """Logarithm of ``exp(a) + exp(b)``: of equal ones half the slope of each."""
    is_less = graph.binary("lt", a, b)
    high, low = graph.select(is_less, b, a), graph.select(is_less, a, b)
    return high + graph.unary("log1p", graph.unary("exp", low - high))


def _step(graph: Any, a: Any, at_zero: Any) -> Any:
    positive = graph.select(graph.binary("eq", a, 0.0), at_zero, unless_nan(graph, a, 1.0))
    return graph.select(graph.binary("lt", a, 0.0), 0.0, positive)


def _sign(graph: Any, a: Any) -> Any:
    return graph.select(a < 0.0, -1.0, graph.select(a > 0.0, 1.0, unless_nan(graph, a, 0.0)))


def _with_sign(graph: Any, a: Any, b: Any) -> Any:
    """|a| with the sign of b, which zeros have as well: 1 / -0.0 is negative."""
    size, below = abs(graph.number(a)), graph.binary("lt", b, 0.0)
    is_negative = graph.either(below, graph.binary("lt", graph.binary("div", 1.0, b), 0.0))
    return graph.select(is_negative, -size, size)


def is_condition(a: Any) -> bool:
    """Whether a value is a condition, and no number."""
    return isinstance(a, (Truth, bool, np.bool_))


def as_condition(a: Any) -> Any:
    """A condition as it is; of a number, whether it is not zero."""
    return a if is_condition(a) else a != 0.0


def _sum(graph: Any, a: Any, b: Any) -> Any:
    """Sum; of two conditions, as NumPy has it, whether one of them holds."""
    return graph.either(a, b) if is_condition(a) and is_condition(b) else graph.binary("add", a, b)


def _product(graph: Any, a: Any, b: Any) -> Any:
    """Product; of two conditions, as NumPy has it, whether both hold."""
    return graph.both(a, b) if is_condition(a) and is_condition(b) else graph.binary("mul", a, b)


def _scaled(name: str, factor: float) -> Callable[..., Any]:
    return lambda graph, a: graph.unary(name, a) * factor


OPERATIONS: dict[Any, Callable[..., Any]] = {
    **{function: lambda graph, a, name=name: graph.unary(name, a) for name, function in UNARY.items()},
    **{function: lambda graph, a, b, name=name: graph.binary(name, a, b) for name, function in BINARY.items()},
    np.power: lambda graph, a, b: graph.power(a, b), np.float_power: lambda graph, a, b: graph.power(a, b),
    np.negative: lambda graph, a: graph.neg(a), np.positive: lambda graph, a: a, np.conjugate: lambda graph, a: a,
    np.absolute: lambda graph, a: abs(graph.number(a)),
    np.square: lambda graph, a: a * a, np.reciprocal: lambda graph, a: 1.0 / a,
    np.add: _sum, np.multiply: _product, np.sign: _sign, np.hypot: _hypot,
    np.ceil: lambda graph, a: -graph.unary("floor", -a),
    np.trunc: lambda graph, a: graph.select(a < 0.0, -graph.unary("floor", -a), graph.unary("floor", a)),
    np.cbrt: lambda graph, a: _sign(graph, a) * graph.power(abs(a), 1.0 / 3.0),
    np.exp2: lambda graph, a: graph.unary("exp", a * math.log(2.0)),
    np.log2: _scaled("log", 1.0 / math.log(2.0)), np.log10: _scaled("log", 1.0 / math.log(10.0)),
    np.degrees: lambda graph, a: a * (180.0 / math.pi), np.rad2deg: lambda graph, a: a * (180.0 / math.pi),
    np.radians: lambda graph, a: a * (math.pi / 180.0), np.deg2rad: lambda graph, a: a * (math.pi / 180.0),
    np.logaddexp: _log_of_sum, np.heaviside: _step,
    np.minimum: _minimum, np.maximum: _maximum,
    np.fmin: lambda graph, a, b: graph.select(_is_nan(graph, a), b, _least(graph, a, b)),
    np.fmax: lambda graph, a, b: graph.select(_is_nan(graph, a), b, _most(graph, a, b)),
    np.greater: lambda graph, a, b: graph.binary("lt", b, a),
    np.greater_equal: lambda graph, a, b: graph.binary("le", b, a),
    np.not_equal: lambda graph, a, b: graph.inverted(graph.binary("eq", a, b)),
    np.logical_and: lambda graph, a, b: graph.both(as_condition(a), as_condition(b)),
    np.logical_or: lambda graph, a, b: graph.either(as_condition(a), as_condition(b)),
    np.logical_xor: lambda graph, a, b: as_condition(a) ^ as_condition(b), np.bitwise_xor: lambda graph, a, b: a ^ b,
    np.logical_not: lambda graph, a: graph.inverted(a), np.isnan: _is_nan,
    np.isinf: lambda graph, a: graph.binary("eq", abs(graph.number(a)), math.inf),
    np.bitwise_and: lambda graph, a, b: graph.both(a, b), np.bitwise_or: lambda graph, a, b: graph.either(a, b),
    np.invert: lambda graph, a: graph.inverted(a),
    np.copysign: _with_sign,
    np.isfinite: lambda graph, a: graph.binary("lt", abs(graph.number(a)), math.inf),
}  # fmt: skip
"""Universal functions, as operations of a graph and values."""

BY_NAME: dict[str, Callable[..., Any]] = {
    "clip": lambda graph, a, low, high: _minimum(graph, _maximum(graph, a, low), high)
}
"""Universal functions that NumPy has no public name for."""


def _of_math(name: str) -> Callable[..., Any]:
    plain, ufunc = getattr(math, name), getattr(np, _MATH[name])
    return lifted(plain, lambda graph, *values: OPERATIONS[ufunc](graph, *map(graph.number, values)))


_MATH = {
    **{name: name for name in ("sqrt", "sin", "cos", "tan", "exp", "expm1", "log1p", "sinh", "cosh", "tanh", "fabs",
                               "hypot", "floor", "ceil", "trunc", "degrees", "radians", "log2", "log10", "exp2",
                               "isnan", "isinf", "isfinite", "cbrt", "fmod")},
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "asinh": "arcsinh", "acosh": "arccosh",
    "atanh": "arctanh", "pow": "power", "copysign": "copysign",
}  # fmt: skip
"""Python's functions on floats, and NumPy's that they are."""


def _logarithm(x: Any, base: Any = None) -> Any:
    log = lifted(math.log, lambda graph, a: graph.unary("log", a))
    return log(x) if base is None else log(x) / log(base)


MATH: dict[Any, Callable[..., Any]] = {
    **{getattr(math, name): _of_math(name) for name in _MATH if hasattr(math, name)},
    math.log: _logarithm, math.fsum: lambda values: functools.reduce(operator.add, values, 0.0),
    math.prod: lambda values, start=1.0: functools.reduce(operator.mul, values, start),
    math.dist: lambda p, q: MATH[math.sqrt](sum((a - b) ** 2 for a, b in zip(p, q, strict=True))),
}  # fmt: skip
"""Functions of the module math, for floats and numbers of a graph."""


def folding(choose: Callable[[Any, Any], Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    """Python's min or max, by selects where there are numbers of a graph."""

    def call(*values: Any, **named: Any) -> Any:
        given = list(values[0]) if len(values) == 1 else list(values)
        if named or graph_of(*given) is None:
            return plain(given, **named)
        return functools.reduce(choose, given)

    return call


class _Floats(type):
    """Floats, and numbers of a graph, which stand for them."""

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, float) or (isinstance(value, Node) and not isinstance(value, Truth))


class AsFloat(float, metaclass=_Floats):
    """Python's float, which numbers of a graph are already."""

    def __new__(cls, value: Any = 0.0) -> Any:
        """Floats as they are, and numbers of a graph."""
        if isinstance(value, np.ndarray) and value.size == 1:
            value = value.reshape(-1)[0]
        if isinstance(value, Truth):
            return value.graph.number(value)
        if isinstance(value, str) and value.startswith("<"):  # see `Node.__format__`
            raise TraceError("float() of a text made of a number that depends on x or u")
        return value if isinstance(value, Node) else float(value)


def _print(*values: Any, **named: Any) -> None:
    print(*values, **named)
    printed = " ".join(map(str, values))
    for text in [text for text in TEXTS if text in printed]:
        del TEXTS[text]


BUILTINS: dict[str, Any] = {"print": _print, "min": folding(least, min), "max": folding(most, max), "float": AsFloat}
"""Python's own functions, for floats and numbers of a graph."""

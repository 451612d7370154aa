"""Derivatives of a graph: Jacobians forward, gradients of weighted sums in reverse, Hessians forward of those.

Zeros are never made. A function that is chosen by a select may be infinite where it is not chosen: in reverse its
adjoint, zero there, meets an infinite slope, so slopes count only under the conditions that lead to them.
"""

import functools
import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any

from ddp.tracing.graph import Graph
from ddp.tracing.numbers import Number, ordered

DEEPEST = 8
"""Selects inside each other, under which derivatives of zero are looked for, so that an infinite slope meets none."""


LARGE = 1e290
"""Slope of exp, sinh and cosh where these are no floats: finite, times what follows, so that 1 / cosh(a) is flat."""


def slopes(graph: Graph, node: Any) -> Iterator[tuple[Number, Any]]:
    """Arguments of a node, and derivatives by them; none of a select, see `jacobian` and `gradient`.

    Those in two factors are to be multiplied by one after the other: their product may be too small for a float.
    """
    a: Any = node.args[0] if node.args else None
    one = 1.0
    match node.op:
        case "add":
            yield from ((arg, one) for arg in node.args)
        case "sub":
            yield from zip(node.args, (one, -one), strict=True)
        case "mul":
            yield from zip(node.args, reversed(node.args), strict=True)
        case "div":
            b = node.args[1]
            yield a, one / b
            yield b, -node / b if b.op == "sqrt" else (one / b, -node)
        case "neg":
            yield a, -one
        case "fabs":
            yield a, graph.select(a < 0.0, -one, one)
        case "sqrt":
            yield a, 0.5 / node
        case "sin":
            yield a, graph.unary("cos", a)
        case "cos":
            yield a, -graph.unary("sin", a)
        case "tan":
            yield a, one + node * node
        case "exp":
            yield a, graph.select(node < math.inf, node, LARGE)
        case "expm1":
            yield a, graph.unary("exp", a)
        case "log":
            yield a, one / a
        case "log1p":
            yield a, one / (one + a)
        case "asin" | "acos":
            slope = one / graph.unary("sqrt", (one - a) * (one + a))
            yield a, slope if node.op == "asin" else -slope
        case "atan":
            yield a, one / (one + a * a)
        case "atan2":
            b = node.args[1]
            square = a * a + b * b
            yield a, b / square
            yield b, -a / square
        case "hypot":
            yield from ((arg, arg / node) for arg in node.args)
        case "mod" | "fmod":
            yield a, one
            yield node.args[1], graph.unary("rint", (node - a) / node.args[1])
        case "sinh":
            yield a, graph.select(abs(node) < math.inf, graph.unary("cosh", a), LARGE)
        case "cosh":
            yield a, graph.select(node < math.inf, graph.unary("sinh", a), graph.select(a < 0.0, -LARGE, LARGE))
        case "tanh":
            e = graph.unary("exp", -2.0 * abs(a))  # 1 - tanh² would lose what is small
            yield a, 4.0 * e / ((one + e) * (one + e))
        case "asinh":
            yield a, one / graph.unary("sqrt", one + a * a)
        case "acosh":
            yield a, one / (graph.unary("sqrt", a - one) * graph.unary("sqrt", a + one))
        case "atanh":
            yield a, one / ((one - a) * (one + a))
        case "pow":
            b = node.args[1]
            yield a, b * graph.power(a, b - one)
            if b.op != "const":
                yield b, graph.select(a.__eq__(0.0), 0.0, node * graph.unary("log", a))


def jacobian(graph: Graph, outputs: Sequence[Number], by: range) -> list[dict[int, Number]]:
    """Derivatives of each output by a range of variables, by their places in it; without those that are zero."""
    known: dict[int, dict[int, Number]] = {}
    for node in ordered(outputs):
        if node.op == "var":
            own = {node.args[0] - by.start: graph.constant(1.0)} if node.args[0] in by else {}
        elif node.op == "select":
            condition, p, q = node.args
            of_p, of_q = known[p.place], known[q.place]
            own = {i: graph.select(condition, of_p.get(i, 0.0), of_q.get(i, 0.0)) for i in {**of_p, **of_q}}
        else:
            own = {}
            moving = (pair for pair in slopes(graph, node) if known[pair[0].place]) if depends(known, node) else ()
            for argument, slope in moving:
                for i, change in known[argument.place].items():
                    term = _chained(graph, change, slope)
                    own[i] = _added(graph, own[i], term) if i in own else term
        known[node.place] = {i: d for i, d in own.items() if not d.is_zero}
    return [known[output.place] for output in outputs]


def _chained(graph: Graph, change: Number, slope: Any, depth: int = DEEPEST) -> Number:
    """Product of a derivative and a slope, which may be infinite where a select has made the derivative zero."""
    if isinstance(slope, tuple):
        return functools.reduce(functools.partial(_chained, graph), slope, change)
    if depth and change.op == "select" and any(branch.is_zero for branch in change.args[1:]):
        return graph.select(change.args[0], *(_chained(graph, branch, slope, depth - 1) for branch in change.args[1:]))
    return change * slope


def _added(graph: Graph, a: Number, b: Number, depth: int = DEEPEST) -> Number:
    """Sum of derivatives; of those that are zero under the same condition, zero under it."""
    if depth and a.op == b.op == "select" and a.args[0] is b.args[0]:
        pairs = list(zip(a.args[1:], b.args[1:], strict=True))
        if any(p.is_zero and q.is_zero for p, q in pairs):
            return graph.select(a.args[0], *(_added(graph, *pair, depth - 1) for pair in pairs))
    return a + b


def depends(known: dict[int, dict[int, Number]], node: Any) -> bool:
    """Whether any argument of a node depends on what is differentiated by."""
    return any(isinstance(arg, Number) and bool(known.get(arg.place)) for arg in node.args)


def gradient(graph: Graph, output: Number, by: range) -> dict[int, Number]:
    """Derivatives of one output by a range of variables, in reverse; without those that are zero."""
    nodes = ordered([output])
    moving: set[int] = set()
    for node in nodes:
        is_variable = node.op == "var" and node.args[0] in by
        if is_variable or any(isinstance(arg, Number) and arg.place in moving for arg in node.args):
            moving.add(node.place)
    adjoints: dict[int, tuple[Number, Any]] = {output.place: (graph.constant(1.0), True)}
    found: dict[int, Number] = {}

    def give(node: Any, adjoint: Number, mask: Any) -> None:
        if node.place in moving and not adjoint.is_zero:
            before = adjoints.get(node.place)
            known = (adjoint, mask) if before is None else (before[0] + adjoint, graph.either(before[1], mask))
            adjoints[node.place] = known

    for node in reversed(nodes):
        if node.place not in adjoints:
            continue
        bar, mask = adjoints.pop(node.place)
        if node.op == "var":
            found[node.args[0] - by.start] = bar
        elif node.op == "select":
            condition, p, q = node.args
            give(p, graph.select(condition, bar, 0.0), graph.both(mask, condition))
            give(q, graph.select(condition, 0.0, bar), graph.both(mask, graph.inverted(condition)))
        else:
            for argument, slope in slopes(graph, node):
                if argument.place in moving:
                    term = functools.reduce(operator.mul, slope, bar) if isinstance(slope, tuple) else bar * slope
                    guarded = mask is not True and not (isinstance(slope, float) or getattr(slope, "op", "") == "const")
                    give(argument, graph.select(mask, term, 0.0) if guarded else term, mask)
    return {i: bar for i, bar in found.items() if not bar.is_zero}


def hessian(graph: Graph, output: Number, by: range) -> dict[tuple[int, int], Number]:
    """Second derivatives of one output by a range of variables, by pairs of places i <= j in it; zeros left out."""
    slope = gradient(graph, output, by)
    rows = jacobian(graph, [slope[i] for i in slope], by)
    return {(i, j): d for i, row in zip(slope, rows, strict=True) for j, d in row.items() if i <= j}

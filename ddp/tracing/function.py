"""Traced functions of states, controls and parameters: values, first and second derivatives of many knots at once."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.kernel import callback
from ddp.protocols import Array
from ddp.system import Contraction, System
from ddp.tracing import derivatives, evaluate
from ddp.tracing.machine_code import Code, obtain
from ddp.tracing.numbers import Number, digest
from ddp.tracing.trace import Trace, compare, trace

NOTHING = np.zeros(0)


class Block(NamedTuple):
    """Entries of a result: constants (size,), and the outputs and positions (., 2) of all others."""

    template: Array
    places: NDArray[np.int64]


class Layout(NamedTuple):
    """A function's outputs: how many there are, the blocks that they make, and how many operations there were."""

    outputs: int
    blocks: tuple[Block, ...]
    operations: int


def arranged(graph_length: int, *entries: tuple[int, Mapping[int, Number]]) -> tuple[list[Number], Layout]:
    """Outputs and their layout of blocks, each given by its size and its entries by position, zero elsewhere."""
    outputs: dict[int, tuple[int, Number]] = {}
    blocks = []
    for size, numbers in entries:
        template, places = np.zeros(size), []
        for position, number in numbers.items():
            if number.op == "const":
                template[position] = number.args[0]
            else:
                row, _ = outputs.setdefault(number.place, (len(outputs), number))
                places.append((row, position))
        blocks.append(Block(template, np.array(places, dtype=np.int64).reshape(-1, 2)))
    return [number for _, number in outputs.values()], Layout(len(outputs), tuple(blocks), graph_length)


class TracedFunction:
    """A function ``f(x, u)`` or ``f(x, u, p)`` of numbers, or of arrays of one axis, as compiled code.

    nx, nu, size: how many numbers x, u and f have.   shape: of f, () for a number.   p: parameters, read at each call.
    seconds: how long it took to be made.

    cost: whether it is one number, wanted with its gradient and Hessian at once.

    Raises `trace.FollowError` if f cannot be followed, and whatever f raises but where it is undefined.
    """

    def __init__(
        self, name: str, function: Callable[..., Any], nx: int, nu: int, p: Array | None = None, cost: bool = False
    ) -> None:
        begin = time.perf_counter()
        self._made_of = name, function, nx, nu, p, cost
        self.nx, self.nu, self.p = nx, nu, NOTHING if p is None else p
        given = (nx, nu) if p is None else (nx, nu, len(p))
        self._trace: Trace | None = trace(function, given)
        self.shape, self.size = self._trace.shape, len(self._trace.outputs)
        if cost and self.size != 1:
            raise ValueError(f"expected a number, got an array of shape {self.shape}")
        self.digest = digest(self._trace.outputs, nx, nu, len(self.p), cost)
        self._code = obtain(self.digest, self._cost if cost else self._functions)
        self._reads, self._trace = self._trace.reads, None
        compare(name, function, self._called, self._points())
        self.seconds = time.perf_counter() - begin

    def __reduce__(self) -> Any:
        return TracedFunction, self._made_of  # machine code is of a process

    def at(self, p: Array) -> TracedFunction:
        """Copy with other parameters, as many as it has; nothing is traced or compiled."""
        twin = copy.copy(self)
        twin.p, twin._made_of = p, (*self._made_of[:4], p, self._made_of[5])
        vars(twin).pop("contraction", None)
        return twin

    def __copy__(self) -> TracedFunction:
        twin = object.__new__(TracedFunction)
        vars(twin).update(vars(self))
        return twin

    def renewed(self) -> TracedFunction:
        """Itself, or what it is now if it is another function than when it was traced: what it reads may change."""
        if self._reads.are_current():
            return self
        _, function, nx, nu, p, cost = self._made_of
        outputs = trace(function, (nx, nu) if p is None else (nx, nu, len(p))).outputs
        same = digest(outputs, nx, nu, len(self.p), cost) == self.digest
        return self if same else TracedFunction(*self._made_of)

    def _points(self) -> list[tuple[Array, ...]]:
        """Arguments at random."""
        own = (self.p,) if self._made_of[4] is not None else ()
        return [(x, u, *own) for x, u in zip(_normal(self.nx), _normal(-self.nu), strict=True)]

    def _called(self, x: Array, u: Array, *p: Array) -> Array:
        return self.values(x[None], u[None])[0]

    @property
    def code(self) -> Code:
        """Machine code, to be kept alive where its addresses are."""
        return self._code

    def layout(self, name: str) -> Layout:
        """Layout of one of the functions ``value``, ``first``, ``second``."""
        return self._code.layout[name]  # type: ignore[no-any-return]

    @property
    def operations(self) -> int:
        """Operations of value and derivatives together."""
        return int(max(layout.operations for layout in self._code.layout.values()))

    def _functions(self) -> tuple[dict[str, list[Number]], dict[str, Layout]]:
        """Value, Jacobian in blocks of x and u, and Hessian of the sum with weights, which come before parameters."""
        assert self._trace is not None
        graph, outputs, _, count, _ = self._trace
        nx, nz, m = self.nx, self.nx + self.nu, self.size
        value = arranged(len(graph), (m, dict(enumerate(outputs))))
        rows = derivatives.jacobian(graph, outputs, nz)
        by_x = {nx * i + j: d for i, row in enumerate(rows) for j, d in row.items() if j < nx}
        by_u = {self.nu * i + j - nx: d for i, row in enumerate(rows) for j, d in row.items() if j >= nx}
        first = arranged(len(graph), (m * nx, by_x), (m * self.nu, by_u))
        weights = graph.variables(count + m)[count:]
        total = graph.number(sum((w * y for w, y in zip(weights, outputs, strict=True)), start=graph.constant(0.0)))
        second = arranged(len(graph), (nz * nz, self._symmetric(derivatives.hessian(graph, total, nz))))
        found = {"value": value, "first": first, "second": second}
        return {name: of[0] for name, of in found.items()}, {name: of[1] for name, of in found.items()}

    def _cost(self) -> tuple[dict[str, list[Number]], dict[str, Layout]]:
        """Value alone, and with gradient and Hessian, of a function of one number."""
        assert self._trace is not None
        graph, outputs, *_ = self._trace
        nz = self.nx + self.nu
        value = 1, {0: outputs[0]}
        slope = derivatives.gradient(graph, outputs[0], nz)
        bent = self._symmetric(derivatives.hessian(graph, outputs[0], nz))
        alone, together = arranged(len(graph), value), arranged(len(graph), value, (nz, slope), (nz * nz, bent))
        return {"value": alone[0], "all": together[0]}, {"value": alone[1], "all": together[1]}

    def _symmetric(self, upper: Mapping[tuple[int, int], Number]) -> dict[int, Number]:
        nz = self.nx + self.nu
        return {nz * a + b: d for (i, j), d in upper.items() for a, b in ((i, j), (j, i))}

    def values(self, X: Array, U: Array) -> Array:
        """Values (M, size) at X (M, nx), U (M, nu)."""
        return self._evaluated("value", X, U, np.empty((len(X), 0)), np.empty((len(X), self.size)))

    def first(self, X: Array, U: Array, A: Array, B: Array) -> None:
        """A (M, size, nx), B (M, size, nu) := derivatives by x and u."""
        count, (a, b), _ = self.layout("first")
        flat = A.reshape(len(A), -1), B.reshape(len(B), -1)
        evaluate.evaluate_two(self._code.addresses["first"], X, U, self.p, count, *a, *b, *flat)

    def second(self, X: Array, U: Array, weight: Array, out: Array) -> None:
        """out (M, nz, nz) := second derivatives of ``weight @ f``, weight (M, size)."""
        self._evaluated("second", X, U, weight, out.reshape(len(out), -1))

    def _evaluated(self, name: str, X: Array, U: Array, W: Array, out: Array) -> Array:
        count, (block,), _ = self.layout(name)
        evaluate.evaluate(self._code.addresses[name], X, U, W, self.p, count, *block, out)
        return out

    def track(self, X: Array, U: Array, k: Array, K: Array, alphas: Array, gaps: Array, limits: Any) -> Any:
        """Closed-loop rollouts of ``x' = f(x, u)``, see `system.System`."""
        count, (block,), _ = self.layout("value")
        Xs, Us = np.empty((len(alphas), *X.shape)), np.empty((len(alphas), *U.shape))
        rows = (limit if limit.ndim == 2 else limit[None] for limit in limits)
        given = [np.ascontiguousarray(part) for part in (X, U, k, K, alphas, gaps, *rows)]
        evaluate.track(self._code.addresses["value"], self.p, count, *block, *given, Xs, Us)
        return Xs, Us

    @cached_property
    def contraction(self) -> Contraction:
        """The second derivatives of one knot, whose record is x and u."""
        count, ((template, places),), _ = self.layout("second")
        sizes = self.nx + self.nu, len(self.p), self.size, self.p.ctypes.data, count
        where = template.size, template.ctypes.data, len(places), places.ctypes.data
        words = np.array([self._code.addresses["second"], *sizes, *where], dtype=np.int64)
        return Contraction(_contracting().address, words.ctypes.data, (words, template, places, self.p, self._code))


@cache
def _normal(size: int) -> Array:
    """Three points (3, |size|) at random, others for each size."""
    return np.random.default_rng([abs(size), size < 0]).normal(size=(3, abs(size)))


@cache
def _contracting() -> Any:
    """C function of `evaluate.contract_one`."""
    return callback(evaluate.contract_one)


def is_flat(dynamics: System) -> bool:
    """Whether states are plain numbers, ``x ⊕ dx = x + dx``."""
    x, dx, _ = _normal(dynamics.nx)
    return dynamics.n == dynamics.nx and bool(np.abs(dynamics.integrate(x, dx) - (x + dx)).max() < 1e-12)

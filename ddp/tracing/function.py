"""Traced functions of states, controls and parameters: values, first and second derivatives of many knots at once."""

import math
import time
from collections.abc import Callable, Iterable
from functools import cache, cached_property
from types import MethodType
from typing import Any

import numpy as np

from ddp.errors import ModelError, line_of
from ddp.protocols import Array, copied
from ddp.systems.system import Contraction, Routines, Stepping, System, ability
from ddp.tracing import chain, derivatives, evaluate, rollouts
from ddp.tracing.graph import substituted
from ddp.tracing.layout import Layout, arranged, in_order
from ddp.tracing.machine_code import Functions, obtain
from ddp.tracing.numbers import Number, digest
from ddp.tracing.quantities import Asked, Uses, uses_of
from ddp.tracing.reads import recalled, remember
from ddp.tracing.spaces import NOTHING, UNIT, Space, plain_space
from ddp.tracing.trace import ShapeError, Trace, compare, trace

NO_RECORD = np.zeros((0, 0))
"""Record of derivatives that are not contracted."""


class TracedFunction:
    """A function ``f(x, u)`` or ``f(x, u, p)`` of numbers, or of arrays of one axis, as compiled code.

    nx, nu, size: how many numbers x, u and f have.   shape: of f, () for a number.   p: parameters, read at each call.
    seconds: how long it took to be made.   code: machine code, to be kept alive where its addresses are.

    cost: whether it is one number, wanted with its gradient and Hessian at once.
    space: of x, by default plain numbers; derivatives are by its tangent vectors dx (n,), at zero.
    steps: whether f is in the same space, so that derivatives are those of ``f(x ⊕ dx, u + du) ⊖ f(x, u)``.
    chained: whether f may ask for quantities of states y (ny,); derivatives are by (dx, du, y) then, for chain.py.
    lasting: whether its code is kept for other processes.

    Raises `trace.FollowError` if f cannot be followed, ModelError if it is no step, and whatever f raises but where it
    is undefined.
    """

    def __init__(
        self, name: str, function: Callable[..., Any], nx: int, nu: int, p: Array | None = None, cost: bool = False,
        space: Space | None = None, steps: bool = False, chained: bool = False, *, lasting: bool = True,
    ) -> None:  # fmt: skip
        begin = time.perf_counter()
        self._made_of = name, function, nx, nu, p, cost, space, steps, chained
        self.nx, self.nu, self.p = nx, nu, NOTHING if p is None else p
        self.space, self.steps = plain_space(nx) if space is None else space, steps
        self.n, self.nz = self.space.n, self.space.n + nu
        self._trace: Trace | None = None
        known = recalled(function, self._kind)
        if known is None:
            found = self._trace = self._follow()
            self.shape, self.digest, self.uses, self._reads = found.shape, self._digest(found), found.uses, found.reads
        else:
            (self.shape, self.digest, self.uses), self._reads = known
        self.size, self.ny = math.prod(self.shape), sum(use.quantity.size for use in self.uses)
        self.ne = self.nz + self.ny
        self.changes = self.n if steps else self.size
        if cost and self.size != 1:
            raise ValueError(f"expected a number, got an array of shape {self.shape}")
        if steps and self.shape != (nx,):
            raise ModelError(f"{name}: expected a next state of shape ({nx},), got {self.shape}")
        self.code = obtain(self.digest, self._cost if cost else self._functions, lasting)
        self._trace = None
        if known is None:
            points = self._points()
            compare(name, function, self._called, points)
            if steps:
                self._check_units(name, points)
            remember(function, self._kind, (self.shape, self.digest, self.uses), self._reads)
        self.seconds = time.perf_counter() - begin

    def __reduce__(self) -> Any:
        return TracedFunction, self._made_of  # machine code is of a process

    def identity(self) -> tuple[Any, ...]:
        """All that decides what it gives, as plain data, arrays and quantities."""
        return self.digest, self.p, self.uses

    def at(self, p: Array) -> "TracedFunction":
        """Copy with other parameters, as many as it has; nothing is traced or compiled."""
        made_of, (uses, kept) = (*self._made_of[:4], p, *self._made_of[5:]), self.used
        return copied(self, "contraction", "_first", p=p, _made_of=made_of, used=(uses._replace(p=p), kept))

    def of(self, function: Callable[..., Any]) -> "TracedFunction":
        """Another function of the same arguments, traced."""
        return TracedFunction(self._made_of[0], function, *self._made_of[2:])

    def is_of(self, function: Callable[..., Any]) -> bool:
        """Whether it was traced from this function; methods are made anew wherever they are asked for."""
        own = self._made_of[1]
        return own is function or (isinstance(own, MethodType) and isinstance(function, MethodType) and own == function)

    def _sizes(self) -> tuple[int, ...]:
        return (self.nx, self.nu) if self._made_of[4] is None else (self.nx, self.nu, len(self.p))

    @property
    def _kind(self) -> tuple[Any, ...]:
        """All that its code depends on, but the function."""
        return self._sizes(), self._made_of[5], self.space, self.steps, self._made_of[8]

    def _found(self) -> Trace:
        """The trace; made again where only what it was is remembered, and code is not kept."""
        return self._trace or self._follow()

    def _follow(self) -> Trace:
        asked = Asked(self.space, self.nu, len(self.p)) if self._made_of[8] else None
        return trace(self._made_of[1], self._sizes(), asked)

    def _digest(self, found: Trace) -> bytes:
        of_space = "" if self.space.is_flat else repr(self.space)
        sizes = self.nx, self.nu, len(self.p), found.arguments
        return digest(found.outputs, *sizes, self._made_of[5], of_space, self.steps)

    def renewed(self) -> "TracedFunction":
        """The function as it is now: itself, or traced again if what it reads has changed.

        Raises ModelError, with what has changed, where it cannot be traced any more, or returns more or fewer numbers.
        """
        name, function = self._made_of[:2]
        if self._reads.are_those_of(function):
            return self
        try:
            found = self._follow()
            if math.prod(found.shape) != self.size:
                raise ShapeError(f"expected an array of shape {self.shape}, got {found.shape}")
            if self._digest(found) != self.digest or found.uses != self.uses:
                return TracedFunction(*self._made_of, lasting=False)  # its numbers may change at every step
        except Exception as reason:
            why, changes = str(reason).removeprefix(f"{name}: ").strip(), self._reads.changes(function)
            when = f" after {changes}" if changes else ""
            raise ModelError(f"{name}: cannot be traced again{when}: {why}{line_of(reason)}") from None
        self._reads = found.reads
        return self

    def reads(self, name: str) -> bool:
        """Whether the function reads anything by this name, as an attribute of its object."""
        return self._reads.has(name)

    def _points(self) -> list[tuple[Array, ...]]:
        own = (self.p,) if self._made_of[4] is not None else ()
        pairs = zip(_normal(self.n), _normal(-self.nu), strict=True)
        neutral = self.space.neutral().tolist()
        return [(np.asarray(self.space.plus(neutral, d), dtype=float), u, *own) for d, u in pairs]

    def _check_units(self, name: str, points: list[tuple[Array, ...]]) -> None:
        """Raise ModelError unless what has norm one in a state has it in the next one."""
        for x, u, *_ in points:
            after = self._called(x, u)
            for unit in self.space.units:
                norm = np.linalg.norm(after[unit])
                if np.isfinite(norm) and abs(norm - 1.0) > UNIT:
                    own = f"{unit.start} to {unit.stop - 1}"
                    raise ModelError(
                        f"{name}: expected numbers {own} of the next state to keep their norm 1, got {norm:.6g} at"
                        f" x = {x.tolist()}"
                    )

    def _called(self, x: Array, u: Array, *p: Array) -> Array:
        return self.values(x[None], u[None])[0]

    @cached_property
    def used(self) -> tuple[Uses, Any]:
        """Quantities of the function for kernels, and what keeps them alive."""
        return uses_of(self.uses, self.p)

    @property
    def linear(self) -> bool:
        """Whether all second derivatives vanish, as far as can be seen from how the function is made."""
        second = self.layout("second")
        return not (self.uses or second.outputs)

    def layout(self, name: str) -> Layout:
        """Layout of one of the functions ``value``, ``first``, ``second``."""
        return self.code.layout[name]

    def _moved(self, found: Trace) -> tuple[list[Number], range, Callable[[Iterable[Number]], list[Number]]]:
        """Outputs of which derivatives are taken, by which variables, and what puts values for those afterwards.

        In flat spaces they are by x, u and y themselves; elsewhere by (dx, du, dy), behind all others, at zero.
        """
        graph, outputs, count = found.graph, found.outputs, found.arguments
        if self.space.is_flat and not (self.ny and len(self.p)):  # parameters stand between controls and quantities
            return outputs, range(self.ne), list
        by = range(count + self.changes, count + self.changes + self.ne)
        variables = graph.variables(by.stop)
        moves = variables[by.start :]
        x, nxu, y = self.space.plus(variables[: self.nx], moves[: self.n]), self.nx + self.nu, count - self.ny
        places = [*range(self.nx, nxu), *range(y, count)]
        others = {place: variables[place] + move for place, move in zip(places, moves[self.n :], strict=True)}
        moved = substituted(graph, outputs, dict(enumerate(x)) | others)
        if self.steps:
            moved = [graph.number(change) for change in self.space.near_minus(moved, outputs)]
        zero = dict.fromkeys(by, 0.0)
        return moved, by, lambda found: substituted(graph, found, zero)

    def _functions(self) -> Functions:
        """Value, Jacobian in blocks of x, u, y, and Hessian of the sum with weights, which come behind all others."""
        trace_of = self._found()
        graph, outputs, count = trace_of.graph, trace_of.outputs, trace_of.arguments
        n, nu, nz, ne, m = self.n, self.nu, self.nz, self.ne, self.changes
        moved, by, settled = self._moved(trace_of)
        rows = [dict(zip(row, settled(row.values()), strict=True)) for row in derivatives.jacobian(graph, moved, by)]
        by_x = {n * i + j: d for i, row in enumerate(rows) for j, d in row.items() if j < n}
        by_u = {nu * i + j - n: d for i, row in enumerate(rows) for j, d in row.items() if n <= j < nz}
        by_y = {self.ny * i + j - nz: d for i, row in enumerate(rows) for j, d in row.items() if j >= nz}
        first = arranged((m * n, by_x), (m * nu, by_u), *([(m * self.ny, by_y)] if self.ny else []))
        weights = graph.variables(count + m)[count:]
        total = graph.number(sum((w * y for w, y in zip(weights, moved, strict=True)), start=graph.constant(0.0)))
        bends = derivatives.hessian(graph, total, by)
        second = arranged((ne * ne, self._symmetric(bends, settled(bends.values()))))
        return {"value": in_order(outputs), "first": first, "second": second}

    def _cost(self) -> Functions:
        """Value alone, and with gradient and Hessian, of a function of one number."""
        trace_of = self._found()
        graph, outputs, ne = trace_of.graph, trace_of.outputs, self.ne
        (moved,), by, settled = self._moved(trace_of)
        value = 1, {0: outputs[0]}
        slope, bends = derivatives.gradient(graph, moved, by), derivatives.hessian(graph, moved, by)
        slope = dict(zip(slope, settled(slope.values()), strict=True))
        bent = self._symmetric(bends, settled(bends.values()))
        return {"value": arranged(value), "all": arranged(value, (ne, slope), (ne * ne, bent))}

    def _symmetric(self, upper: Iterable[tuple[int, int]], values: Iterable[Number]) -> dict[int, Number]:
        pairs = zip(upper, values, strict=True)
        return {self.ne * a + b: d for (i, j), d in pairs for a, b in ((i, j), (j, i))}

    def values(self, X: Array, U: Array) -> Array:
        """Values (M, size) at X (M, nx), U (M, nu)."""
        out, function = np.empty((len(X), self.size)), self.code.compiled("value")
        if self.uses:
            chain.evaluate_chained(function, self.used[0], X, U, out)
        else:
            evaluate.evaluate(tuple(function), X, U, np.empty((len(X), 0)), self.p, out)
        return out

    def first(self, X: Array, U: Array, A: Array, B: Array, record: Array = NO_RECORD) -> None:
        """A (M, ., n), B (M, ., nu) := derivatives by x and u, both of which record (M, nx + nu) keeps, if given."""
        if not (X.flags.c_contiguous and U.flags.c_contiguous):
            X, U = np.ascontiguousarray(X), np.ascontiguousarray(U)
        evaluate.evaluate_two(*self._first, self.p, X, U, A, B, record)

    @cached_property
    def _first(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Derivatives by x and u for ``evaluate_two``."""
        return tuple(self.code.compiled("first")), tuple(self.layout("first").blocks[1])

    @cached_property
    def _second(self) -> tuple[Any, ...]:
        """Second derivatives for ``evaluate``."""
        return tuple(self.code.compiled("second"))

    def second(self, X: Array, U: Array, weight: Array, out: Array) -> None:
        """out (M, nz, nz) := second derivatives of ``weight @ f``, weight (M, .)."""
        evaluate.evaluate(self._second, X, U, weight, self.p, out.reshape(len(out), -1))

    @property
    def stepping(self) -> Stepping:
        """The function as a step: see `system.Abilities`."""
        return Stepping(self.code.addresses["value"], 0, self.p, self.code)

    def routines(self, count: int) -> Routines | None:
        """Compiled work on trajectories of ``count`` knots, see `system.Abilities`; None of steps that ask robots."""
        if self.uses:
            return None
        return rollouts.routines_of(self.stepping, self.space, self.nu, count, *self._first, self._second)

    @cached_property
    def contraction(self) -> Contraction:
        """The second derivatives of one knot, whose record is x and u."""
        sizes = self.nx + self.nu, self.changes
        return evaluate.contraction_of(self.code.compiled("second"), sizes, self.p, self.code)


@cache
def _normal(size: int) -> Array:
    """Three points (3, |size|) at random, others for each size."""
    return np.random.default_rng([abs(size), size < 0]).normal(size=(3, abs(size)))


def space_of(dynamics: System) -> Space | None:
    """The space of a system's states: what it says, or plain numbers; None where it is not known."""
    known = ability(dynamics, "space")
    if known is not None or dynamics.n != dynamics.nx:
        return known
    x, dx, _ = _normal(dynamics.nx)
    is_plain = bool(np.abs(dynamics.integrate(x, dx) - (x + dx)).max() < 1e-12)
    return plain_space(dynamics.nx) if is_plain else None

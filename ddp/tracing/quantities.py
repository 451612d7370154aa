# mypy: allow-untyped-defs, allow-untyped-calls
"""Quantities: functions whose derivatives are kernels of their own, such as a robot's, in functions of users.

To a trace their numbers are variables y behind its arguments. Their arguments are numbers of x and u as they are, or
constants, so that derivatives by tangent vectors are known. chain.py puts both together by the chain rule.
"""

import itertools
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property, wraps
from inspect import signature
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.kernel import call_contraction, kernel
from ddp.errors import DDPError
from ddp.machine.addresses import address_of_words, array_at, integers_at
from ddp.machine.bound import Bound
from ddp.machine.memory import rows_of
from ddp.machine.number import WIDTH
from ddp.machine.simd import load_some, multiply_add, store_some
from ddp.protocols import Array
from ddp.tracing.arrays import TracedArray, made, traced
from ddp.tracing.groups import S1, Euclidean
from ddp.tracing.numbers import Number, TraceError
from ddp.tracing.reads import FIXED, GIVEN
from ddp.tracing.scalars import graph_of
from ddp.tracing.spaces import Space

VALUES, FIRST, SECOND = 0, 1, 2
"""The ``order`` of a quantity's C function: its numbers; these and the Jacobian; the weighted Hessian alone."""

BLOCK = 9
"""Words of a block: how many samples, how many arguments, numbers y and columns each has, and where arguments, y,
weights, Jacobians and Hessians are."""


@dataclass(frozen=True)
class Quantity:
    """A function of named arguments, each in a space, with ``size`` numbers.

    name, key: equal for equal quantities.   kernel, arguments: see `bind`.
    taken: of all tangent entries of its arguments, those (n,) that it depends on.
    """

    name: str
    key: Hashable
    size: int = field(compare=False)
    spaces: tuple[tuple[str, Space], ...] = field(compare=False)
    taken: NDArray[np.int64] = field(compare=False)
    kernel: Any = field(compare=False)
    arguments: tuple[Any, ...] = field(compare=False)

    @cached_property
    def bound(self) -> Bound:
        """C function of the quantity."""
        return bind(self.kernel, *self.arguments)


def bind(of: Any, *arguments: Any) -> Bound:
    """Make the C function ``void(context, block, order, unused)`` of a quantity's kernel, and its context.

    The kernel is ``(*arguments, a, order, y, weight, J, H)``.

    From rows of a (M, .), the numbers of its arguments, the kernel makes y (M, size), with order FIRST also
    J (M, size, n), or with order SECOND makes H (M, n, n), zeros before, the Hessians of ``weight @ y``, weight
    (M, size).
    """
    return Bound(_evaluate, {"quantity": of}, arguments)


quantity: Any = None
bound: Any = None


def _evaluate(context, block, order, unused):  # type: ignore[no-untyped-def]
    """The C function, but for ``quantity`` and ``bound``."""
    w = integers_at(block, (BLOCK,))
    M, size, n = w[0], w[2], w[3]
    a, y, weight = array_at(w[4], (M, w[1])), array_at(w[5], (M, size)), array_at(w[6], (M, size))
    quantity(*bound(context), a, order, y, weight, array_at(w[7], (M, size, n)), array_at(w[8], (M, n, n)))


@kernel
def evaluate(function, order, a, y, weight, J, H):
    """Call a C function, (address, context), with arrays as `bind` tells of them."""
    block = address_of_words((
        a.shape[0], a.shape[1], y.shape[1], J.shape[2],
        a.ctypes.data, y.ctypes.data, weight.ctypes.data, J.ctypes.data, H.ctypes.data,
    ))  # fmt: skip
    call_contraction(function[0], function[1], block, order, 0)


@kernel
def add_hessians(scale, H, columns, out):
    """Rows and columns of out (M, nz, nz), which ascend, += scale times H (M, n, n)."""
    n, nz, own, to = H.shape[1], out.shape[1], rows_of(H), rows_of(out)
    begin = columns[0] if n > 0 and columns[n - 1] - columns[0] == n - 1 else -1
    for k in range(H.shape[0]):
        for a in range(n):
            row, added = to[k][nz * columns[a] :], own[k][n * a :]
            if begin < 0:
                for b in range(n):
                    row[columns[b]] += scale * added[b]
                continue
            for i in range(0, n, WIDTH):
                total = multiply_add(scale, load_some(added, i, n - i), load_some(row, begin + i, n - i))
                store_some(row, begin + i, total, n - i)


class AskError(Exception):
    """Raised where a quantity is asked for that there is not, such as that of an unknown frame."""


class Use(NamedTuple):
    """A quantity as a function asks for it: entries are places among x and u, or constants."""

    quantity: Quantity
    entries: tuple[int | float, ...]
    columns: tuple[int, ...]
    """Places in z = (dx, du) of the tangent entries that it depends on; -1 of constants."""


class Asked:
    """Quantities that a function of states x in a space, controls u (nu,) and so many parameters asks for."""

    def __init__(self, space: Space, nu: int, parameters: int = 0) -> None:
        self._space, self._nu, self._parameters = space, nu, parameters
        self.uses: list[Use] = []
        self._known: dict[Any, list[Number]] = {}

    @property
    def size(self) -> int:
        """Numbers of all together."""
        return sum(use.quantity.size for use in self.uses)

    def numbers(self, quantity: Quantity, arguments: list[list[Any]]) -> list[Number]:
        """The numbers (size,) of a quantity at arguments, each a list of numbers of a graph and floats."""
        graph: Any = graph_of(*[entry for argument in arguments for entry in argument])
        entries: list[int | float] = []
        columns: list[int] = []
        for (name, space), argument in zip(quantity.spaces, arguments, strict=True):
            given = [self._entry(quantity.name, name, i, entry) for i, entry in enumerate(argument)]
            entries += given
            columns += self._columns(quantity.name, name, space, given)
        use = Use(quantity, tuple(entries), tuple(columns[i] for i in quantity.taken.tolist()))
        found = self._known.get(use)
        if found is None:
            first = self._space.nx + self._nu + self._parameters + self.size
            found = self._known[use] = graph.variables(first + quantity.size)[first:]
            self.uses.append(use)
        return found

    def _entry(self, name: str, argument: str, i: int, entry: Any) -> int | float:
        if not isinstance(entry, Number):
            return float(entry)
        if entry.op == "const":
            return float(entry.args[0])
        if entry.op != "var" or entry.args[0] >= self._space.nx + self._nu:
            raise TraceError(
                f"{name} of computed numbers ({argument}[{i}] is no number of x or u as it is, and no constant; "
                "make it a number of the state, which the dynamics compute)"
            )
        return int(entry.args[0])

    def _columns(self, name: str, argument: str, space: Space, given: list[int | float]) -> list[int]:
        """Places in z of the tangent entries of an argument."""
        columns: list[int] = []
        at = 0
        for part in space.parts:
            own = given[at : at + part.nx]
            if all(isinstance(entry, float) for entry in own):
                columns += [-1] * part.n
            elif isinstance(part, (Euclidean, S1)):
                columns += [self._places.get(entry, -2) if isinstance(entry, int) else -1 for entry in own]
            else:
                steps = [b - a for a, b in itertools.pairwise(own)] if float not in map(type, own) else []
                begin = self._places.get((own[0], part), -2) if steps == [1] * (part.nx - 1) else -2
                columns += [begin + i if begin >= 0 else -2 for i in range(part.n)]
            if -2 in columns:
                raise TraceError(
                    f"{name} whose {argument}[{at}:{at + part.nx}] is no such part of the state, in its order"
                )
            at += part.nx
        return columns

    @cached_property
    def _places(self) -> dict[Any, int]:
        """Places in z of numbers of x and u that move by what is added to them, and of parts (place in x, part)."""
        found: dict[Any, int] = {}
        x = z = 0
        for part in self._space.parts:
            found[x, part] = z
            if isinstance(part, (Euclidean, S1)):
                found |= {x + i: z + i for i in range(part.nx)}
            x, z = x + part.nx, z + part.n
        return found | {x + i: z + i for i in range(self._nu)}


def refuse(what: str) -> NoReturn:
    """Say that something cannot be followed."""
    raise TraceError(what)


def is_fixed(kind: type) -> None:
    """Note that objects of a class, of all in its module, and of what is derived from these, never change."""
    FIXED.add(kind.__module__)


Made = TypeVar("Made", bound=Callable[..., Any])


def traceable(
    make: Callable[..., Quantity], count: int, result: Callable[[Any], Any] = lambda y: y
) -> Callable[[Made], Made]:
    """Decorate a function that becomes numbers of a quantity where users' functions that call it are traced.

    make: gives the quantity, of what the function takes but for the ``count`` arguments of numbers behind its first.
    result: makes the function's result of an array of the quantity's numbers.
    """

    def decorate(function: Made) -> Made:
        signed = signature(function)

        @wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            if not any(map(_is_traced, args)) and not any(map(_is_traced, named.values())):
                return function(*args, **named)
            given = signed.bind(*args, **named)
            given.apply_defaults()
            owner, arguments, options = given.args[0], given.args[1 : 1 + count], given.args[1 + count :]
            try:
                quantity = make(owner, *options, **given.kwargs)
            except DDPError as reason:
                raise AskError(f"{function.__name__}: {reason}") from reason
            except TraceError as reason:  # whose line is the user's
                raise TraceError(str(reason)) from None
            named_spaces = [(f"{function.__name__}: {name}", space.nx) for name, space in quantity.spaces]
            rows = [_row(*one, a) for one, a in zip(named_spaces, arguments, strict=True)]
            graph: Any = graph_of(*[entry for row in rows for entry in row])
            if graph is None:  # arrays that numbers could have been written into
                return function(*map(_floats, args), **{name: _floats(value) for name, value in named.items()})
            if graph.asked is None:
                raise TraceError(
                    f"{function.__name__} in a system (costs and constraints alone may call it; RobotDynamics moves "
                    "robots, and mayne.augment puts motors, delays and functions of one's own around it)"
                )
            return result(made(graph.asked.numbers(quantity, rows)))

        GIVEN.add(call)
        return call  # type: ignore[return-value]

    return decorate


def _is_traced(value: Any) -> bool:
    """Whether an argument is of numbers of a graph, or a list with some."""
    if isinstance(value, (list, tuple)):
        return any(isinstance(entry, (Number, TracedArray)) for entry in value)
    return isinstance(value, (Number, TracedArray))


def _row(name: str, size: int, value: Any) -> list[Any]:
    """An argument as a list of numbers of a graph and floats."""
    row = np.array(traced(value), dtype=object)
    if row.shape != (size,):
        raise AskError(f"{name}: expected shape ({size},), got {row.shape}")
    return list(row)


def _floats(value: Any) -> Any:
    """An array of floats for one that numbers of a graph could be written into."""
    return np.array(value, dtype=float) if isinstance(value, TracedArray) else value


class Uses(NamedTuple):
    """Uses for kernels.

    table (uses, 9): C function, context, size, numbers of arguments, n; begins of entries, columns, numbers, Jacobian.
    entries: places among x and u, -1 - i of the constant i.   constants: all, one after the other.
    columns: places in z, -1 of constants.   into: places of these in ``whole`` (c,), which has each place in z once.
    p: parameters of the function, which takes them behind x and u, before quantities.
    """

    table: NDArray[np.int64]
    entries: NDArray[np.int64]
    constants: Array
    columns: NDArray[np.int64]
    into: NDArray[np.int64]
    whole: NDArray[np.int64]
    p: Array


def uses_of(asked: tuple[Use, ...], p: Array) -> tuple[Uses, list[Any]]:
    """Uses for kernels of a function with parameters p, and what is to be kept alive."""
    rows: list[list[int]] = []
    entries: list[int] = []
    columns: list[int] = []
    constants: list[float] = []
    y = first = 0
    kept = [use.quantity.bound for use in asked]
    for use, function in zip(asked, kept, strict=True):
        sizes = use.quantity.size, len(use.entries), len(use.columns)
        rows.append([function.address, function.context, *sizes, len(entries), len(columns), y, first])
        for entry in use.entries:
            if isinstance(entry, float):
                constants.append(entry)
            entries.append(-len(constants) if isinstance(entry, float) else entry)
        columns += use.columns
        y, first = y + sizes[0], first + sizes[0] * sizes[2]
    at = np.array(columns, dtype=np.int64)
    whole = np.unique(at[at >= 0])
    into = np.where(at >= 0, np.searchsorted(whole, at), -1)
    table = np.array(rows, dtype=np.int64).reshape(-1, 9)
    return Uses(table, np.array(entries, dtype=np.int64), np.array(constants), at, into, whole, p), kept

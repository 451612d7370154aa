"""State spaces: products of those of groups.py, with ⊕ and ⊖ of states, followed by users' functions or compiled."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from ddp.errors import ProblemError, as_array, axes, items, said
from ddp.protocols import Array
from ddp.systems.system import Contraction
from ddp.tracing import derivatives, evaluate
from ddp.tracing.arrays import made
from ddp.tracing.graph import Graph, substituted
from ddp.tracing.groups import S1, Euclidean, Part
from ddp.tracing.layout import arranged, in_order
from ddp.tracing.machine_code import Code, Functions, obtain
from ddp.tracing.numbers import Node, Number, digest

UNIT = 1e-6
"""Tolerance of the norm of a unit quaternion."""


@dataclass(frozen=True)
class Space:
    """Product of spaces, one behind the other in a state (nx,), and in its tangent vectors (n,).

    parts: a list of `Euclidean`, `S1`, `SO3`, `SE2`, `SE3`. Raises ProblemError for anything else.
    """

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        parts: Any = [self.parts] if isinstance(self.parts, Part) else self.parts
        parts = items("state", parts, "spaces such as SO3()")
        for i, part in enumerate(parts):
            if not isinstance(part, Part):
                raise ProblemError(f"state[{i}]: expected Euclidean(n), S1(), SO3(), SE2() or SE3(), got {said(part)}")
        object.__setattr__(self, "parts", parts)

    @cached_property
    def nx(self) -> int:
        """Numbers of a state."""
        return sum(part.nx for part in self.parts)

    @cached_property
    def n(self) -> int:
        """Numbers of a tangent vector."""
        return sum(part.n for part in self.parts)

    @cached_property
    def is_flat(self) -> bool:
        """Whether ``x ⊕ d = x + d``, and ``y ⊖ x = y - x`` nearby."""
        return all(isinstance(part, (Euclidean, S1)) for part in self.parts)

    @cached_property
    def is_plain(self) -> bool:
        """Whether there are plain numbers alone."""
        return all(isinstance(part, Euclidean) for part in self.parts)

    @cached_property
    def units(self) -> list[slice]:
        """Numbers of a state whose squares add up to one, together."""
        begins = np.cumsum([0, *(part.nx for part in self.parts)]).tolist()
        pairs = ((begin, part.unit) for begin, part in zip(begins, self.parts, strict=False))
        return [slice(begin + unit.start, begin + unit.stop) for begin, unit in pairs if unit is not None]

    def neutral(self) -> Array:
        """The state (nx,) of zeros, and of what is not turned."""
        return np.array([number for part in self.parts for number in part.neutral()])

    def random(self, rng: np.random.Generator) -> Array:
        """A state (nx,) at random."""
        return np.array(self._joined("plus", self.neutral().tolist(), rng.normal(size=self.n).tolist()))

    def plus(self, x: Any, d: Any) -> Any:
        """``x ⊕ d`` (nx,) of one state, for users' functions."""
        return _array(self._joined("plus", x, d))

    def minus(self, y: Any, x: Any) -> Any:
        """``y ⊖ x`` (n,) of one state, for users' functions."""
        return _array(self._joined("minus", y, x))

    def bracket(self, a: Any, b: Any) -> Any:
        """``[a, b]`` (n,) of two tangent vectors: zero where motions commute."""
        return _array(self._joined("bracket", a, b))

    def near_minus(self, y: Sequence[Any], x: Sequence[Any]) -> list[Any]:
        """``y ⊖ x`` to second order about x."""
        return self._joined("near_minus", y, x)

    def check(self, field: str, x: Array) -> None:
        """Raise ProblemError unless states x (..., nx) are finite, and what has norm one has."""
        states = as_array(field, x, (*(None,) * (axes(x) - 1), self.nx))
        for unit in self.units:
            norms = np.linalg.norm(states[..., unit], axis=-1)
            if (np.abs(norms - 1.0) > UNIT).any():
                wrong = norms.reshape(-1)[int(np.argmax(np.abs(norms - 1.0)))]
                own = f"{unit.start} to {unit.stop - 1}"
                raise ProblemError(f"{field}: expected numbers {own} of norm 1 together, got {wrong:.6g}")

    def _joined(self, name: str, a: Any, b: Any) -> list[Any]:
        """A function of all parts."""
        found: list[Any] = []
        i = j = 0
        for part in self.parts:
            first = part.n if name == "bracket" else part.nx
            second = part.nx if name.endswith("minus") else part.n
            found += getattr(part, name)(list(a[i : i + first]), list(b[j : j + second]))
            i, j = i + first, j + second
        return found

    # -- compiled ----------------------------------------------------------------------------------------------------

    @cached_property
    def code(self) -> Code:
        """``plus`` and ``minus`` of eight pairs, and ``closing``."""
        graph = Graph()
        graph.is_strict = False
        variables = graph.variables(self.nx + max(self.nx, self.n))
        functions = {
            "plus": self._followed(graph, "plus", variables[: self.nx], variables[self.nx : self.nx + self.n]),
            "minus": self._followed(graph, "minus", variables[: self.nx], variables[self.nx : 2 * self.nx]),
        }
        key = digest([number for numbers in functions.values() for number in numbers], "space", self.nx, self.n)

        def make() -> Functions:
            return {name: in_order(numbers) for name, numbers in functions.items()} | {"closing": self._closing(graph)}

        return obtain(key, make)

    def _followed(self, graph: Graph, name: str, a: list[Number], b: list[Number]) -> list[Number]:
        return [graph.number(number) for number in self._joined(name, a, b)]

    def _closing(self, graph: Graph) -> Any:
        """Jacobian (n, n), and Hessian (n, n) of ``weight @``, of ``log(Exp(gap) Exp(y))`` by y at zero.

        Variables are the gap, the weight, and y.
        """
        n = self.n
        variables = graph.variables(3 * n)
        at = [graph.number(number) for number in self.neutral().tolist()]
        arrived = self._joined("plus", self._joined("plus", at, variables[:n]), variables[2 * n :])
        deviation = self._followed(graph, "minus", arrived, at)
        by, zero = range(2 * n, 3 * n), dict.fromkeys(range(2 * n, 3 * n), 0.0)
        rows = derivatives.jacobian(graph, deviation, by)
        weighted = (w * d for w, d in zip(variables[n : 2 * n], deviation, strict=True))
        bends = derivatives.hessian(graph, graph.number(sum(weighted, start=graph.constant(0.0))), by)
        entries = {n * i + j: d for i, row in enumerate(rows) for j, d in row.items()}
        entries |= {n * (n + a) + b: d for (i, j), d in bends.items() for a, b in ((i, j), (j, i))}
        found = dict(zip(entries, substituted(graph, entries.values(), zero), strict=True))
        return arranged((2 * n * n, found))

    def moved(self, name: str, X: Array, D: Array) -> Array:
        """``plus`` or ``minus`` of M pairs, as far as one is alone of all."""
        count = max(len(X), len(D))
        given = (np.ascontiguousarray(np.broadcast_to(rows, (count, rows.shape[1])), dtype=float) for rows in (X, D))
        function = self.code.compiled(name)
        out = np.empty((count, function.outputs))
        evaluate.evaluate(tuple(function), *given, np.empty((count, 0)), NOTHING, out)
        return out

    @cached_property
    def closing(self) -> Contraction:
        """See `system.System.closing`."""
        if self.is_flat:
            return Contraction(0, 0, None)
        return evaluate.contraction_of(self.code.compiled("closing"), (self.n, self.n), NOTHING, self.code)

    def __reduce__(self) -> Any:
        return Space, (self.parts,)


NOTHING = np.zeros(0)


def _array(values: list[Any]) -> Any:
    """An array of floats, or of numbers of a graph among them."""
    return made(values) if any(isinstance(value, Node) for value in values) else np.array(values)


@cache
def plain_space(nx: int) -> Space:
    """The space of nx plain numbers, one for all."""
    return Space((Euclidean(nx),))


def as_space(state: Any, nx: int) -> Space:
    """A space of nx numbers, given as a list of its parts, a part alone, or None for plain numbers."""
    if state is None:
        return plain_space(nx)
    space = state if isinstance(state, Space) else Space(state)
    if space.nx != nx:
        sizes = " + ".join(str(part.nx) for part in space.parts)
        raise ProblemError(f"state: expected spaces of nx = {nx} numbers together, got {sizes or 0} = {space.nx}")
    return space

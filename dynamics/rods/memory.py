# mypy: allow-untyped-defs, allow-untyped-calls
"""Working memory of rods, and kernels that are compiled for trees with rods alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ddp.compiling.kernel import by_types, inline, kernel
from ddp.machine.fields import Fields, rows
from ddp.machine.struct import StructType
from dynamics.robots.tree import HybridTree


class RodMemory(Fields):
    """Working memory of all rods of a tree at one knot, in world axes where nothing else is said.

    points: a row for each point of each rod, base first; of segments, the row of the point that ends it.
      R, p, v, a, w: pose, velocity, acceleration, velocity under the multiplier μ.   I, hK, hKw: of a point alone.
      f, pf, z: sums over this point and all beyond.   xi1, xi2: strains where a segment samples them.
      twist, rate, second, virtual: Ω, Ω', Ω'' and its rate under μ, in the axes of the segment's base.
    columns: a row for each degree of freedom at each point.
      s, psi, psidd, eta, chi: as in ``Workspace``, of a body that the point carries.   ds, dv: what the segment adds to
      s, and the derivative of the velocity that it adds.   Z, Zd, Zdd, Zmu: derivatives of Ω, Ω', Ω'', Ω_μ by q.
      load: I ψ'' + B ψ'.
    nv: a row for each degree of freedom of the tree, read where rods carry it: what ``inverse.py`` and ``hessian.py``
      make of s and composites of a body, summed over the rod's points.
    """

    R, p, v, a, w = rows("points", 9), rows("points", 3), rows("points", 6), rows("points", 6), rows("points", 6)
    I, hK, hKw = rows("points", 10), rows("points", 12), rows("points", 12)
    f, pf, z, xi1, xi2 = rows("points", 6), rows("points", 6), rows("points", 3), rows("points", 6), rows("points", 6)
    twist, rate, second, virtual = rows("points", 6), rows("points", 6), rows("points", 6), rows("points", 6)
    s, psi, psidd, eta, chi = (
        rows("columns", 6), rows("columns", 6), rows("columns", 6), rows("columns", 6), rows("columns", 6)
    )  # fmt: skip
    ds, dv, Z, Zd, Zdd, Zmu, load = (
        rows("columns", 6), rows("columns", 6), rows("columns", 6), rows("columns", 6), rows("columns", 6),
        rows("columns", 6), rows("columns", 6),
    )  # fmt: skip
    bt, F, V, P, couple, bw = (
        rows("nv", 3), rows("nv", 6), rows("nv", 6), rows("nv", 6), rows("nv", 3), rows("nv", 3)
    )  # fmt: skip


def is_hybrid(tree: Any) -> bool:
    """Whether a type of numba's is a tree's with rods."""
    return isinstance(tree, StructType) and issubclass(tree.struct, HybridTree)


@inline
def _nothing(tree, a, b, c=None, d=None, e=None, f=None):
    """Do nothing."""


def of_rods(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a kernel ``function(tree, ...)`` for trees with rods; of other trees, a call of it does nothing."""
    made = kernel(function)

    def choose(tree: Any, *others: Any) -> Any:
        return made if is_hybrid(tree) else _nothing

    by_types(function)(choose)
    return function


def has_rod(tree, b):
    """Whether a rod carries body b: known when a kernel is compiled, of trees without rods."""
    return tree.rod[b] >= 0


@by_types(has_rod)
def _has_rod(tree, b):
    return _is_carried_by_rod if is_hybrid(tree) else _is_not


def is_carried(tree, b):
    """Whether a body's rows are seen by something that moves: ψ' and χ vanish of a joint on the world alone."""
    return tree.parent[b] >= 0


@by_types(is_carried)
def _is_carried(tree, b):
    return _has_parent_or_rod if is_hybrid(tree) else _has_parent


@inline
def _has_parent(tree, b):
    return tree.parent[b] >= 0


@inline
def _has_parent_or_rod(tree, b):
    return tree.parent[b] >= 0 or tree.rod[b] >= 0


@inline
def _is_carried_by_rod(tree, b):
    return tree.rod[b] >= 0


@inline
def _is_not(tree, b):
    return False

# mypy: allow-untyped-defs, allow-untyped-calls
"""Working memory of rods, and kernels that are compiled for trees with rods alone."""

from collections.abc import Callable
from typing import Any

from ddp.compiling.kernel import by_types, inline, kernel
from ddp.machine.declared import each
from ddp.machine.fields import Fields, matrix_of, rows, rows_apart, vector
from ddp.machine.struct import StructType
from dynamics.robots.tree import HybridTree


class RodMemory(Fields):
    """Working memory of all rods of a tree at one knot, in world axes where nothing else is said.

    points: a row for each point of each rod, base first; of segments, the row of the point that ends it.
      R, p, v, a, w: pose, velocity, acceleration, velocity under the multiplier μ.   I, hK, hKw: of a point alone.
      f, pf, z: sums over this point and all beyond.   xi1, xi2: strains where a segment samples them; v1, v2, a1, a2,
      x1, x2: their rates, second rates, and rates under μ.
      twist, rate, second, virtual: Ω, Ω', Ω'' and its rate under μ, in the axes of the segment's base.   T: (T, T_ε).
    units: two rows for each strain that a rod has, for each segment, whose strain is 1 at one of the two samples alone.
      Z, Zd, Zdd, Zmu: derivatives of Ω, Ω', Ω'', Ω_μ.   unit_ds, unit_dv, ...: what the segment adds, in the
      world's axes, to s, the derivative of the velocity, ψ'', η and χ.
    columns: a row for each degree of freedom at each point.
      s, psi, psidd, eta, chi: as in ``Workspace``, of a body that the point carries.   ds, dv: the segment's.
    nv: a row for each degree of freedom of the tree, read where rods carry it: what ``inverse.py`` and ``hessian.py``
      make of s and composites of a body, summed over the rod's points.   C, D: covectors of ψ' and s, likewise.
    pressed: wrenches on strains at the samples of one segment.   y, ..., L, ...: on its units, and their rates.
    """

    R, p, v, a, w = rows("points", 9), rows("points", 3), rows("points", 6), rows("points", 6), rows("points", 6)
    I, hK, hKw = rows("points", 10), rows("points", 12), rows("points", 12)
    f, pf, z, xi1, xi2 = each(5, rows, "points", 6)
    v1, v2, a1, a2, x1, x2 = each(6, rows, "points", 6)
    T = rows("points", 18)
    twist, rate, second, virtual = each(4, rows, "points", 6)
    Z, Zd, Zdd, Zmu = each(4, rows, "units", 6)
    unit_ds, unit_dv, unit_dpsidd, unit_deta, unit_dchi = each(5, rows, "units", 6)
    s, psi, psidd, eta, chi = each(5, rows, "columns", 6)
    ds, dv = rows("columns", 6), rows("columns", 6)
    bt, F, V, P, couple, bw = rows("nv", 3), *each(3, rows, "nv", 6), rows("nv", 3), rows("nv", 3)
    C, D = rows("nv", 6), rows("nv", 6)
    pressed = rows_apart("2", 6)
    y, y_v, y_vv, y_a = each(4, vector, "12")
    L, L_v, L_vv, L_a = each(4, matrix_of, "12", "12")


def is_hybrid(tree: Any) -> bool:
    """Whether a type of numba's is a tree's with rods."""
    return isinstance(tree, StructType) and issubclass(tree.struct, HybridTree)


@inline
def _nothing(tree, a, b, c=None, d=None, e=None, f=None, g=None, h=None):
    """Do nothing."""


def of_rods(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a kernel ``function(tree, ...)`` for trees with rods; of other trees, a call of it does nothing."""
    by_rods(function, _nothing, kernel(function))
    return function


def by_rods(function: Callable[..., Any], rigid: Any, hybrid: Any) -> None:
    """Inside kernels, call ``hybrid`` of trees with rods and ``rigid`` of others where ``function`` is called."""

    def choose(tree: Any, *others: Any) -> Any:
        return hybrid if is_hybrid(tree) else rigid

    by_types(function)(choose)


def has_rod(tree, b):
    """Whether a rod carries body b: known when a kernel is compiled, of trees without rods."""
    return tree.rod[b] >= 0


@inline
def _is_not(tree, b):
    return False


by_rods(has_rod, _is_not, inline(has_rod))

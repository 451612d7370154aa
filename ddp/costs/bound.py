# mypy: allow-untyped-defs, allow-untyped-calls
"""Cost terms as C functions: kernels with their arguments bound, so that one kernel can call them all.

A term's kernel is ``term(*arguments, first, X, U, scale, order, l, lz, lzz)``: it adds ``scale`` times the costs of M
knots to l, and unless ``order`` is VALUES their gradients to lz and Hessians to lzz. Its arguments, numbers, arrays and
named tuples of them, are bound by `bind`. The C function that this makes is ``void(context, block, order, first)``:
arguments behind one address, a `BLOCK` of words behind another. It is compiled once for all terms of the same kernel,
and cached as they are.
"""

from typing import Any

from ddp.compiling.kernel import inline
from ddp.costs.batch import CompiledCost
from ddp.machine.addresses import array_at, integers_at, strided_at
from ddp.machine.memory import floats_at

VALUES, GAUSS_NEWTON, EXACT = 0, 1, 2
"""The ``order`` of a C function: costs alone, or with gradients and one of two Hessians."""

BLOCK = 15
"""Words of a block of M knots: M, nx, nu, nz, the bits of a scale, where X (M, nx), U (M, nu), l (M,), lz (M, nz) and
lzz (M, nz, nz) are, how many notes a knot has and where they are, and, of separable terms, how far entries of lzz are
from those of the next knot, row and column, in bytes. To l, lz and lzz a term is added, ``scale`` times; lz has no
columns where values alone are asked for. Notes are what the dynamics have noted or recorded, see `ddp.costs.batch`."""


@inline
def matrices_at(block):
    """lzz (M, nz, nz) of a block."""
    w = integers_at(block, (BLOCK,))
    return array_at(w[9], (w[0], w[3], w[3]))


@inline
def diagonals_at(block):
    """Hessians of separable terms: where diagonals are kept apart, every entry of a row is that on the diagonal."""
    w = integers_at(block, (BLOCK,))
    return strided_at(w[9], (w[0], w[3], w[3]), (w[12], w[13], w[14]))


def bind(term: Any, *arguments: Any, noted: bool = False, separable: bool = False) -> CompiledCost:
    """Make the C function of a term with this kernel, and its context. Arguments are copied where they must be.

    noted: whether the kernel takes the knots' notes (M, .) after X and U.
    separable: whether the term is `TermAbilities`: of lzz, the kernel then writes to diagonals alone.
    """
    kernels = {"term": term, "hessians": diagonals_at if separable else matrices_at}
    return CompiledCost(_evaluate_noted if noted else _evaluate, kernels, arguments)


term: Any = None
bound: Any = None
hessians: Any = None


def _evaluate(context, block, order, first):  # type: ignore[no-untyped-def]
    """The C function, but for ``term``, ``bound`` and ``hessians``: see `bind`."""
    w = integers_at(block, (BLOCK,))
    M = w[0]
    X, U, scale = array_at(w[5], (M, w[1])), array_at(w[6], (M, w[2])), floats_at(block)[4]
    l, lz = array_at(w[7], (M,)), array_at(w[8], (M, w[3]))
    term(*bound(context), first, X, U, scale, order, l, lz, hessians(block))


def _evaluate_noted(context, block, order, first):  # type: ignore[no-untyped-def]
    """C function of a kernel that takes notes."""
    w = integers_at(block, (BLOCK,))
    M = w[0]
    X, U, scale = array_at(w[5], (M, w[1])), array_at(w[6], (M, w[2])), floats_at(block)[4]
    l, lz, notes = array_at(w[7], (M,)), array_at(w[8], (M, w[3])), array_at(w[11], (M, w[10]))
    term(*bound(context), first, X, U, notes, scale, order, l, lz, hessians(block))

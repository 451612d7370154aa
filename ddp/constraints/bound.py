# mypy: allow-untyped-defs, allow-untyped-calls
"""Constraints as C functions: kernels with their arguments bound, so that one kernel can call them all.

A constraint is three kernels with the same arguments first:

    values(*arguments, X, U, c)                    c (M, size) := its values at M knots
    jacobian(*arguments, X, U, J)                  J (M, size, width) := its Jacobian, all of it, in its own columns
    curvature(*arguments, X, U, weight, H)         H (M, nz, nz) += Σ_i weight_i ∂²c_i, weight (M, size)

The C function that `bind` makes of them is ``void(context, block, order, unused)``: arguments behind one address,
knots and results behind another. It is compiled once for all constraints of the same kernels, and cached as they are.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddp.compiling.kernel import kernel
from ddp.machine.addresses import array_at, integers_at
from ddp.machine.bound import Bound

VALUES, JACOBIAN, CURVATURE = 0, 1, 2
"""The ``order`` of a C function."""

BLOCK = 11
"""Words of a block: M, nx, nu, nz, size, width, and where X, U, weights, c or J, and H are."""


class Together(NamedTuple):
    """C function ``void(contexts, blocks, order, count)`` of several constraints at the same knots, which share work.

    make: gives it.   kept: has the context of this constraint.
    owner, chain: constraints of one owner are evaluated together if one's chain begins with the other's.
    """

    make: Callable[[], Any]
    kept: Bound
    owner: object
    chain: tuple[int, ...]

    def goes_with(self, other: "Together") -> bool:
        """Whether both are evaluated in one call."""
        count = min(len(self.chain), len(other.chain))
        return self.owner is other.owner and self.chain[:count] == other.chain[:count]


class CompiledConstraint(Bound):
    """A compiled constraint: its C function, and the structure of its Jacobian.

    columns (width,): the entries of z that it depends on; of a ``diagonal`` one, the one of each row, and width is 1.
    curved: whether it has second derivatives.   together: how it is evaluated with others; None if it is not.
    """

    columns: NDArray[np.int64]
    diagonal: bool
    curved: bool
    together: Together | None = None

    def structured(self, columns: ArrayLike, diagonal: bool, curved: bool) -> Self:
        """Enter the structure of the Jacobian."""
        self.columns, self.diagonal, self.curved = np.array(columns, dtype=np.int64), diagonal, curved
        return self

    def has_structure_of(self, other: "CompiledConstraint") -> bool:
        """Whether kernels and the structure of the Jacobian are another's."""
        own = self.address == other.address and self.diagonal == other.diagonal and self.curved == other.curved
        return own and (self.columns is other.columns or np.array_equal(self.columns, other.columns))

    @property
    def width(self) -> int:
        """Numbers of a row of the Jacobian that are kept."""
        return 1 if self.diagonal else len(self.columns)


@kernel
def _straight(*arguments):
    """Curvature of a constraint that has none."""


class Kernels(NamedTuple):
    """The kernels of a constraint."""

    values: Callable[..., Any]
    jacobian: Callable[..., Any]
    curvature: Callable[..., Any] = _straight


def bind(kernels: Kernels, *arguments: Any, columns: ArrayLike, diagonal: bool = False) -> CompiledConstraint:
    """Make the C function of a constraint, and its context. Arguments are copied where they must be."""
    made = CompiledConstraint(_evaluate, kernels._asdict(), arguments)
    return made.structured(columns, diagonal, kernels.curvature is not _straight)


def interpreted(nz: int) -> CompiledConstraint:
    """The structure of a constraint in Python, of which nothing is known; its address is 0."""
    made = object.__new__(CompiledConstraint)
    vars(made)["_here"] = 0, 0, ()
    return made.structured(np.arange(nz), False, True)


bound: Any = None
values: Any = None
jacobian: Any = None
curvature: Any = None


def _evaluate(context, block, order, unused):  # type: ignore[no-untyped-def]
    """The C function, but for the names above."""
    w = integers_at(block, (BLOCK,))
    M, nz, size = w[0], w[3], w[4]
    X, U = array_at(w[6], (M, w[1])), array_at(w[7], (M, w[2]))
    if order == VALUES:
        values(*bound(context), X, U, array_at(w[9], (M, size)))
    elif order == JACOBIAN:
        jacobian(*bound(context), X, U, array_at(w[9], (M, size, w[5])))
    else:
        curvature(*bound(context), X, U, array_at(w[8], (M, size)), array_at(w[10], (M, nz, nz)))

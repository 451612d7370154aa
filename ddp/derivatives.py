"""Derivatives along a trajectory, and which of them are known."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.portable import portable
from ddp.protocols import Array
from ddp.systems.system import System, ability

FIRST, GAUSS_NEWTON, EXACT, RECORDS = 1, 2, 4, 8
"""Derivatives of a trajectory: first ones, Hessians of costs of either kind, and the records of the second
order of the dynamics. Bits of one number."""


class Derivatives(NamedTuple):
    """Every derivative along a trajectory of N controls; all arrays C-contiguous, knots first.

    A (N, n, n), B (N, n, nu), record (N, record_size): see `system.Expansion`.
    l (N+1,), lz (N+1, nz): cost and gradient in z = (dx, du), nz = n + nu; at knot N the x part counts alone.
    lzz (N+1, nz, nz): the Gauss-Newton Hessian.  exact (N+1, nz, nz): the exact one.
    diagonal (N+1, nz): both, where all terms of a knot are `TermAbilities`: there it stands for the other two,
        which are not read, since writing and reading numbers that lie far apart takes longer than computing them.
    dual (.,): not a derivative, but what those of constraints depend on: `Lagrangian.state`; empty without constraints.
    """

    A: Array
    B: Array
    record: Array
    l: Array
    lz: Array
    lzz: Array
    exact: Array
    diagonal: Array
    dual: Array

    def hessians(self, separable: NDArray[np.bool_], exact: bool = True) -> Array:
        """Hessians (N+1, nz, nz), Gauss-Newton's or exact, those of separable knots (N+1,) among them."""
        own = self.diagonal[:, :, None] * np.eye(self.diagonal.shape[1])
        return np.where(separable[:, None, None], own, self.exact if exact else self.lzz)


def derivatives_of(system: System, N: int, dual: int, empty: Callable[[tuple[int, ...]], Array]) -> Derivatives:
    """Arrays for N controls of a system and ``dual`` numbers of constraints, from an allocator ``empty(shape)``."""
    n, nu, nz = system.n, system.nu, system.n + system.nu
    return Derivatives(
        A=empty((N, n, n)), B=empty((N, n, nu)), record=empty((N, system.record_size)),
        l=empty((N + 1,)), lz=empty((N + 1, nz)), lzz=empty((N + 1, nz, nz)), exact=empty((N + 1, nz, nz)),
        diagonal=empty((N + 1, nz)), dual=empty((dual,)),
    )  # fmt: skip


def numbers_of(system: System) -> int:
    """Count the numbers that a solve keeps for each knot: its derivatives, and a few trajectories."""
    nz = system.n + system.nu
    return int(nz * system.n + system.record_size + 2 * nz * (nz + 1) + 1 + 8 * (system.nx + system.nu))


def broken_rows(array: Array) -> NDArray[np.bool_]:
    """Flags of rows of an array (M, ...) that hold a number that is not finite."""
    return np.asarray(~np.isfinite(array).reshape(len(array), -1).all(axis=1))


@portable
def lacking(known, wanted, curved):  # type: ignore[no-untyped-def]
    """The derivatives to make, so that those wanted are known, in the company that costs least; what is known then.

    curved: whether the exact Hessians of costs are others than Gauss-Newton's.
    """
    made = 0
    if not known and wanted & RECORDS:
        made = FIRST | EXACT | RECORDS
    elif not known:
        made = FIRST | (GAUSS_NEWTON if wanted & GAUSS_NEWTON or not curved else EXACT)
    left = wanted & ~known & ~made
    if left & RECORDS:
        made |= EXACT | RECORDS
    elif left & EXACT and curved:
        made |= EXACT
    made |= left & GAUSS_NEWTON
    return made, known | made | wanted


def contract_with(dynamics: System, record: Array, weights: Array, out: Array, in_blocks: bool) -> None:
    """Contract the second order of some knots into ``out``, as Hessians or as the blocks of `system.Abilities`."""
    if in_blocks:
        ability(dynamics, "contract_batch")(record, weights, out)
    else:
        dynamics.contract(record, weights, out)


def mirrored(H: Array) -> Array:
    """Symmetric matrices (M, nz, nz) from their upper triangles."""
    return np.where(np.tri(H.shape[1], dtype=bool), H.transpose(0, 2, 1), H)

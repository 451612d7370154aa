"""What sweeps read: every derivative along a trajectory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp.protocols import Array


class Derivatives(NamedTuple):
    """Every derivative along a trajectory of N controls; all arrays C-contiguous, knots first.

    A (N, n, n), B (N, n, nu), record (N, record_size): see `protocols.Expansion`.
    l (N+1,), lz (N+1, nz): cost and gradient in z = (dx, du), nz = n + nu; at knot N the x part counts alone.
    lzz (N+1, nz, nz): the Gauss-Newton Hessian.  exact (N+1, nz, nz): the exact one.
    diagonal (N+1, nz): both, where all terms of a knot are `protocols.Separable`: there it stands for the other two,
        which are not read, for to write and read numbers that lie far apart takes longer than all else about them.
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


def broken_rows(array: Array) -> NDArray[np.bool_]:
    """Which rows of an array (M, ...) hold a number that is not finite."""
    return np.asarray(~np.isfinite(array).reshape(len(array), -1).all(axis=1))

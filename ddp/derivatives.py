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
    lzz (N+1, nz, nz): the Gauss-Newton Hessian.  exact (N+1, nz, nz): the exact one, where that may be another one:
        at knots that are `protocols.Separable` nobody need write it, and nobody reads it.
    dual (.,): not a derivative, but what those of constraints depend on: `Lagrangian.state`; empty without constraints.
    """

    A: Array
    B: Array
    record: Array
    l: Array
    lz: Array
    lzz: Array
    exact: Array
    dual: Array


def broken_rows(array: Array) -> NDArray[np.bool_]:
    """Which rows of an array (M, ...) hold a number that is not finite."""
    return np.asarray(~np.isfinite(array).reshape(len(array), -1).all(axis=1))

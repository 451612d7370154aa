"""Steps that are measured in units of states and controls: what mu and first steps are relative to, whatever these are.

mu I, added to Hessians, is as large as what it is added to in one unit, and nothing or all there is in others. With mu
times the inverse squares of units (nz,) that change as states and controls do, a problem in other units takes the same
way; and to the same bits if they differ by powers of two, as units do.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from ddp.adjoint import costates, holding
from ddp.derivatives import Derivatives
from ddp.protocols import Array


@contextmanager
def shifted(d: Derivatives, mu: float, units: Array) -> Iterator[None]:
    """Add mu, in units (nz,), to all Hessians of the costs, for one sweep."""
    n, hessians, shift = d.A.shape[1], (d.lzz, d.exact), mu / units**2
    diagonals = [d.diagonal, *(np.einsum("kii->ki", H) for H in hessians)]
    kept = [own.copy() for own in diagonals]
    for own in diagonals:
        own[:-1] += shift
        own[-1, :n] += shift[:n]
    try:
        yield
    finally:
        for own, before in zip(diagonals, kept, strict=True):
            own[:] = before


def measured(d: Derivatives, separable: NDArray[np.bool_], H: Array, units: Array) -> tuple[Array, Array, Array]:
    """Diagonals (N+1, nz) of costs' Hessians H, and A, B, in units (nz,) of states and controls."""
    n = d.A.shape[1]
    x, u = units[:n], units[n:]
    own = np.where(separable[:, None], d.diagonal, np.einsum("kii->ki", H)) * units**2
    return own, d.A * (x / x[:, None]), d.B * (u / x[:, None])


def steepest(d: Derivatives, units: Array, limits: tuple[Array, Array] | None) -> float:
    """The largest slope of the cost along a control, in units (nz,), but for controls that limits hold.

    limits: distances (N, nu) to the lower and to the upper ones.
    """
    low, high = limits or (np.full(d.B.shape[::2], -1.0), np.full(d.B.shape[::2], 1.0))
    slope, held = holding(d.B, d.lz, costates(d.A, d.lz), low, high)
    return float((np.abs(slope) * units[d.A.shape[1] :])[held == 0].max(initial=0.0))

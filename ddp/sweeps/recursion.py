"""The compiled recursion of backward sweeps over one set of derivatives, with the memory that it works in."""

from __future__ import annotations

import numpy as np

from ddp.derivatives import Derivatives
from ddp.protocols import Array
from ddp.sweeps.horizon import horizon_of
from ddp.sweeps.room import RoomOwner
from ddp.sweeps.sized_limits import scratch_arrays, within_limits_of
from ddp.sweeps.sized_sweep import sweep_of
from ddp.sweeps.sweeping import Sweeping, sweep_function, sweeping_of
from ddp.sweeps.tiled_sweep import NOTHING
from ddp.systems.structure import Structure
from ddp.systems.system import System

Swept = tuple[int, float, float, float]
"""The knot that failed, -1 if none did; slope and change of the cost along the policy; max-norm of the gradient."""


class Recursion:
    """Sweeps over derivatives whose second order is contracted into ``second``, one knot or all of them: see `Horizon`.

    horizon: all that is read and written over the horizon.   sizes: of the functions that are compiled for them.
    limited: whether sweeps keep to limits of controls.   whole: whether bends and rows of all knots are kept, as limits
    and sweeps with controls that are held ask for; `sweeping` lets kernels sweep then.
    """

    def __init__(
        self, derivatives: Derivatives, dynamics: System, structure: Structure, second: Array, limited: bool,
        whole: bool,
    ) -> None:  # fmt: skip
        N, n, nu = derivatives.B.shape
        steps, closing = structure.halves, dynamics.closing()
        bends = np.zeros((N if whole and closing.address else 1, 2, n, n))
        self.horizon = horizon_of(derivatives, second, steps, closing, bends, structure.blocks, whole)
        self.horizon.limited, self._knots = int(limited), N
        self.sizes = sizes = n, nu, structure.swept[0] > 0.0, len(steps[1])
        self._closing, self._room, self._function = closing, RoomOwner(*sizes), sweep_of(*sizes)  # closing stays alive
        self.sweeping: Sweeping | None = None
        if whole:
            self.sweeping = sweeping_of(sweep_function(*sizes).address, N, self.room, self.horizon.address)
        self._within = within_limits_of(n, nu) if limited else None
        self.scratch = scratch_arrays(N, n, nu) if limited else ()

    @property
    def room(self) -> int:
        """Address of the `Room` that sweeps work in."""
        return self._room.address

    def __call__(self, blend: float, mu: float, by_costate: bool = False, kept: bool = True) -> Swept:
        """Sweep once: see `tiled_sweep.sweep`, and within limits `limits.sweep_within`.

        kept: with the second order as it is.
        """
        if self._within is not None:
            assert self.sweeping is not None
            args = blend, mu, int(by_costate), int(kept)
            within: Swept = self._within(self.sweeping.address, *args, *self.scratch)
            return within
        horizon = self.horizon
        found: Swept = self._function(
            horizon.address, self.room, 0, self._knots, NOTHING, blend, mu, by_costate, kept, False
        )
        return found

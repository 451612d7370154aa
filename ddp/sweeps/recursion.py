"""The compiled recursion of backward sweeps over one set of derivatives, with the memory that it works in."""

import numpy as np

from ddp.derivatives import Derivatives
from ddp.machine.written import assign, read_all
from ddp.protocols import Array
from ddp.sweeps.horizon import horizon_of
from ddp.sweeps.limits import scratch_of
from ddp.sweeps.room import RoomOwner
from ddp.sweeps.sized_limits import within_function
from ddp.sweeps.sweeping import call, recur, sweep_function, sweeping_of
from ddp.systems.structure import Structure
from ddp.systems.system import System

Swept = tuple[int, float, float, float]
"""The knot that failed, -1 if none did; slope and change of the cost along the policy; max-norm of the gradient."""


class Recursion:
    """Sweeps over derivatives whose second order is contracted into ``second``, one knot or all of them: see `Horizon`.

    horizon: all that is read and written over the horizon.   sizes: of the functions that are compiled for them.
    limited: whether sweeps keep to limits of controls, in ``scratch``.   whole: whether bends and rows of all knots are
    kept, as limits and sweeps with controls that are held ask for.   sweeping: by which kernels sweep.
    room: address of the `Room` that sweeps work in.
    """

    def __init__(
        self, derivatives: Derivatives, dynamics: System, structure: Structure, second: Array, limited: bool,
        whole: bool,
    ) -> None:  # fmt: skip
        N, n, nu = derivatives.B.shape
        steps, closing = structure.halves, dynamics.closing()
        bends = np.zeros((N if whole and closing.address else 1, 2, n, n))
        self.horizon = horizon_of(derivatives, second, steps, closing, bends, structure.blocks, whole)
        self.horizon.limited = int(limited)
        self.sizes = sizes = n, nu, structure.swept[0] > 0.0, len(steps[1])
        owner = RoomOwner(*sizes)
        self._alive, self.room = (closing, owner), owner.address
        self.sweeping = sweeping_of(sweep_function(*sizes).address, N, self.room, self.horizon.address)
        self.scratch, self._within = scratch_of(N, n, nu) if limited else None, within_function(n, nu)

    def __call__(self, blend: float, mu: float, by_costate: bool = False, kept: bool = True) -> Swept:
        """Sweep once: see `tiled_sweep.sweep`, and within limits `limits.sweep_within`.

        kept: with the second order as it is.
        """
        sweeping = self.sweeping
        assign(sweeping, {"blend": blend, "mu": mu, "by_costate": by_costate, "kept": kept, "known": 0})
        if self.scratch is None:
            recur(sweeping.address)
        else:
            call(self._within.address, sweeping.address, self.scratch.address, 0, 0)
        failed, slope, change, gradient = read_all(sweeping, ("failed", "slope", "change", "gradient"))
        return failed, slope, change, gradient

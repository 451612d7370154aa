"""Backward sweeps of full-space steps: the second order of the dynamics is contracted with multipliers of their own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ddp.derivatives import Derivatives
from ddp.machine.aligned import aligned_zeros
from ddp.machine.written import assign, copied, read_all
from ddp.protocols import Array
from ddp.sweeps.horizon import Horizon
from ddp.sweeps.outcome import GIVEN, NONE, Sweep
from ddp.sweeps.recursion import Recursion
from ddp.sweeps.sized_limits import Scratch, scratch_of, within_function
from ddp.systems.structure import Structure, numbers_of_blocks
from ddp.systems.system import System


class WeightedSweeps:
    """Sweeps over one set of derivatives, with weights for their second orders, and controls that may be held.

    contract: see `Backward`.   gaps (N, n), separable (N+1,): of the derivatives; gaps are written in place.
    limited: whether sweeps find out by themselves which controls limits hold.
    second: second orders (N, .) as `contract` writes them, as Hessians or, if dynamics know them, as blocks.
    """

    def __init__(
        self, derivatives: Derivatives, dynamics: System, contract: Callable[[Array, Array, bool], None],
        structure: Structure, gaps: Array, separable: NDArray[np.bool_], limited: bool,
    ) -> None:  # fmt: skip
        N, n, nu = derivatives.B.shape
        self._contract, self._blockwise, self._torn = contract, structure.blockwise, False
        blocks = N, numbers_of_blocks(n // 2, structure.halves[1])
        self.second = aligned_zeros(blocks if self._blockwise else (N, n + nu, n + nu))
        self._recursion = Recursion(derivatives, dynamics, structure, self.second, limited, True)
        assert self._recursion.sweeping is not None
        self._sweeping = self._recursion.sweeping
        self._sweeping.kept = 1
        self._horizon = horizon = self._recursion.horizon
        horizon.in_blocks, horizon.gaps, horizon.separable = self._blockwise, gaps, separable.astype(np.int64)
        self._k, self.gains = horizon.k, horizon.K

    @property
    def address(self) -> int:
        """Address of the `Horizon`, for kernels."""
        return self._horizon.address

    @property
    def sweeping(self) -> int:
        """Address of the `Sweeping` by which kernels sweep."""
        return self._sweeping.address

    @property
    def limits(self) -> tuple[Array, Array]:
        """Distances of controls to their lower and upper limits, (N, nu) each, to be written."""
        return self._horizon.low, self._horizon.high

    def begin(self) -> None:
        """Hold no controls and no gaps, as the first sweep of a solve; gains stay."""
        self.tear(False)
        self._horizon.held.fill(0.0)

    def tear(self, torn: bool) -> None:
        """Note whether any gap is open."""
        if torn is not self._torn:
            self._horizon.torn = self._torn = torn

    def contract(self, weights: Array) -> None:
        """Contract the second order with weights (N, n)."""
        self._contract(weights, self.second, self._blockwise)

    def __call__(self, blend: float, mu: float, held: Array | None = None) -> Sweep:
        """Sweep once.

        held (N, nu): -1, 1 of controls that go to their lower and upper `limits` and stay there, 0 of all others.
        """
        if held is None:
            failed, slope, change, gradient = self._recursion(blend, mu)
        else:
            self._horizon.held[:] = held
            self._horizon.limited = 1
            failed, slope, change, gradient = self._recursion(blend, mu, known=True)
            self._horizon.limited = 0
        return self.told(blend, failed, slope, change, gradient)

    def told(self, blend: float, failed: int, slope: float, change: float, gradient: float) -> Sweep:
        """A sweep that a kernel made, by ``sweeping``."""
        return Sweep(self._k, self.gains, -slope, -change, gradient, failed, NONE if blend == 0.0 else GIVEN)

    def twins(self) -> tuple[Horizon, Horizon]:
        """Copies of the `Horizon` for kernels: one without open gaps, and one with some."""
        whole, torn = copied(self._horizon), copied(self._horizon)
        whole.torn, torn.torn = 0, 1
        return whole, torn

    def serve(self, horizon: int) -> None:
        """Let kernels sweep, by ``sweeping``, what is at the address of a `Horizon`."""
        assign(self._sweeping, {"horizon": horizon})

    def within(self) -> tuple[int, Scratch]:
        """Address of the C function that sweeps within limits, and its scratch."""
        return within_function(*self._recursion.sizes[:2]).address, scratch_of(self._recursion.scratch)

    def swept_last(self, blend: float) -> Sweep | None:
        """The last sweep that kernels made, by ``sweeping`` and with ``blend``; None if it failed."""
        failed, *found = read_all(self._sweeping, ("failed", "slope", "change", "gradient"))
        return None if failed >= 0 else self.told(blend, failed, *found)

    @property
    def rows(self) -> Array:
        """Rows (N, nu (nz + 1)) of the action values' Hessians and gradients, see box.py, where controls are held."""
        return self._horizon.rows

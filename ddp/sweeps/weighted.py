"""Backward sweeps of full-space steps: the second order of the dynamics is contracted with multipliers of their own."""

from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ddp.derivatives import Derivatives
from ddp.machine.aligned import aligned_zeros
from ddp.machine.written import assign, copied, read_all, read_one
from ddp.protocols import Array
from ddp.sweeps.backward import Recursion
from ddp.sweeps.horizon import UNSLOPED, Horizon
from ddp.sweeps.limits import Scratch
from ddp.sweeps.outcome import GIVEN, NONE, Sweep
from ddp.sweeps.sized_limits import within_function
from ddp.sweeps.sweeping import recur
from ddp.systems.structure import Structure, shape_of_second
from ddp.systems.system import System


class WeightedSweeps:
    """Sweeps over one set of derivatives, with weights for their second orders, and controls that may be held.

    contract: see `Backward`.   gaps (N, n), coupled (N+1,): of the derivatives; gaps are written in place.
    limited: whether sweeps find out by themselves which controls limits hold.
    second: second orders (N, .) as `contract` writes them, as Hessians or, if dynamics know them, as blocks.
    blockwise: which blocks, 0 for Hessians.   policy: k (N, nu), K (N, nu, n) of the last sweep.
    sweeping: address of the `Sweeping` by which kernels sweep.
    held (N, nu): controls that are held, to be written: -1, 1 of those at lower and upper limits, 0 of all others.
    """

    def __init__(
        self, derivatives: Derivatives, dynamics: System, contract: Callable[[Array, Array, bool], None],
        structure: Structure, gaps: Array, coupled: NDArray[np.int64], limited: bool,
    ) -> None:  # fmt: skip
        N, n, nu = derivatives.B.shape
        self._contract, self.blockwise = contract, structure.blockwise
        self.second = aligned_zeros((N, *shape_of_second(structure, n, nu)))
        self._recursion = Recursion(derivatives, dynamics, structure, self.second, limited, True)
        self._sweeping = self._recursion.sweeping
        self._sweeping.kept = 1
        self._horizon = horizon = self._recursion.horizon
        horizon.in_blocks, horizon.gaps, horizon.coupled = self.blockwise, gaps, coupled
        self.coupled, self.held, self.policy = coupled, horizon.held, (horizon.k, horizon.K)
        self.sweeping = self._sweeping.address

    def begin(self) -> None:
        """Hold no controls, as the first sweep of a solve; gains stay."""
        self.held.fill(0.0)

    def contract(self, weights: Array) -> None:
        """Contract the second order with weights (N, n)."""
        self._contract(weights, self.second, bool(self.blockwise))

    def horizons(self) -> dict[str, Horizon]:
        """A `Horizon` without open gaps, and with some, each also with controls that are ``held``."""
        made = {}
        for torn, name in ((0, "whole"), (UNSLOPED, "torn")):
            for suffix in ("horizon", "held"):
                made[f"{name}_{suffix}"] = horizon = copied(self._horizon)
                horizon.torn = torn
                if suffix == "held":
                    horizon.limited = 1
        return made

    def within(self) -> tuple[int, Scratch]:
        """Address of the C function that sweeps within limits, and its scratch."""
        assert self._recursion.scratch is not None
        return within_function(*self._recursion.sizes[:2]).address, self._recursion.scratch

    @cached_property
    def apart(self) -> Horizon:
        """A `Horizon` without gaps whose A, B, coupled costs, held controls and policy are its own, to be written."""
        h = copied(self._horizon)
        for name in ("A", "B", "coupled", "held", "k", "K"):
            setattr(h, name, getattr(h, name).copy())
        h.low, h.high, h.limited = np.zeros_like(h.held), np.zeros_like(h.held), 1
        return h

    def sweep_apart(self, blend: float) -> bool:
        """Sweep over `apart`, with a share of the exact Hessian; whether it succeeds."""
        sweeping = copied(self._sweeping)
        assign(sweeping, {"horizon": self.apart.address, "blend": blend, "mu": 0.0, "known": 1, "kept": 1})
        recur(sweeping.address)
        return bool(read_one(sweeping, "failed") < 0)

    def last(self) -> Sweep | None:
        """The last sweep that kernels made, by ``sweeping``; None if it failed."""
        failed, change, gradient, blend = read_all(self._sweeping, ("failed", "change", "gradient", "blend"))
        if failed >= 0:
            return None
        return Sweep(*self.policy, np.nan, -change, gradient, failed, NONE if blend == 0.0 else GIVEN)

"""Systems that are made of another one: whatever they have from it, and single knots as expansions of one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ddp.errors import ModelError, ProblemError, as_array, integer
from ddp.machine.number import WIDTH
from ddp.protocols import Array
from ddp.systems.by_knot import ByKnot
from ddp.systems.derived_dynamics import as_system
from ddp.systems.system import Expansion, System, ability, expanded
from ddp.tracing.function import space_of
from ddp.tracing.rollouts import tracked
from ddp.tracing.spaces import Space


class Around(ByKnot):
    """System around another one, ``system``, whose space of states is known."""

    _space: Space

    def __init__(self, system: Any) -> None:
        self.system: System = as_system(system, "system")
        known = space_of(self.system)
        if known is None:
            raise ProblemError("system: expected one of plain numbers, or whose `space` of states is known")
        self._space = known
        self.nx, self.nu, self.dt = self.system.nx, self.system.nu, self.system.dt

    @property
    def thread_safe(self) -> bool:
        """Whether the system is."""
        return bool(ability(self.system, "thread_safe"))

    @property
    def lanes(self) -> int:
        """Step lengths that are rolled out for the price of one: those of the system."""
        return WIDTH if ability(self.system, "lanes") else 0

    @property
    def robot(self) -> Any:
        """The system's robot, if it has one."""
        return self.system.robot  # type: ignore[attr-defined]

    @property
    def digest(self) -> bytes:
        """Digest of the functions of the system."""
        return getattr(self.system, "digest", b"")

    def renew(self) -> bool:
        """Trace functions of the system again, if what they read has changed; whether it has."""
        renew = getattr(self.system, "renew", None)
        return bool(renew and renew())

    def _called(self, x: Any, u: Any) -> Any:
        return self.step(x, u)

    def _called_at(self, x: Any, u: Any, knot: int) -> Any:
        return self.step(x, u, knot)

    def track(
        self, X: Array, U: Array, k: Array, K: Array, alphas: Array, gaps: Array, lower: Array, upper: Array
    ) -> tuple[Array, Array]:
        """Closed-loop rollouts, one for each alpha: see `System`; NaN from where they diverge."""
        stepping = self.stepping(len(U), len(alphas))
        if stepping is None:
            return super().track(X, U, k, K, alphas, gaps, lower, upper)
        return tracked(stepping, self._space, X, U, k, K, alphas, gaps, (lower, upper))

    def linearize(self, x: Array, u: Array, knot: int = 0) -> tuple[Array, Array]:
        """``A (n, n), B (n, nu)`` of one knot."""
        out = self._expanded_at(x, u, knot)
        if not np.isfinite(out.A).all():
            raise ModelError("system: its derivatives are not finite there")
        return out.A[0], out.B[0]

    def hessian(self, x: Array, u: Array, weight: Array, knot: int = 0) -> Array:
        """The exact Hessian (nz, nz) of ``weight @ (f(x ⊕ dx, u + du) ⊖ f(x, u))`` of one knot."""
        out, H = self._expanded_at(x, u, knot), np.empty((1, self.n + self.nu, self.n + self.nu))
        self.contract(out.record, as_array("weight", weight, (self.n,))[None], H)
        return H[0]

    def _expanded_at(self, x: Array, u: Array, knot: int) -> Expansion:
        X, U = as_array("x", x, (self.nx,))[None], as_array("u", u, (self.nu,))[None]
        return expanded(self, X, U, integer("knot", knot))

"""Systems that are made of another one: whatever they have from it, and single knots as expansions of one."""

from __future__ import annotations

from typing import Any

from ddp.errors import ProblemError
from ddp.machine.number import WIDTH
from ddp.systems.by_knot import ByKnot
from ddp.systems.derived_dynamics import as_system
from ddp.systems.system import System, ability
from ddp.tracing.function import space_of
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
        return bool(ability(self.system, "thread_safe"))

    @property
    def lanes(self) -> int:
        """Step lengths that are rolled out for the price of one: those of the system."""
        return WIDTH if ability(self.system, "lanes") else 0

    @property
    def implicit(self) -> bool:
        """Whether the system's steps are those of an implicit integrator."""
        return bool(ability(self.system, "implicit"))

    @property
    def schedule(self) -> Any:
        return ability(self.system, "schedule")

    @property
    def robot(self) -> Any:
        return self.system.robot  # type: ignore[attr-defined]

    @property
    def digest(self) -> bytes:
        return getattr(self.system, "digest", b"")

    def renew(self) -> bool:
        renew = getattr(self.system, "renew", None)
        return bool(renew and renew())

    def _called(self, x: Any, u: Any) -> Any:
        return self.step(x, u)

    def _called_at(self, x: Any, u: Any, knot: int) -> Any:
        return self.step(x, u, knot)

"""Phases: which contacts hold for how many steps of time, and which are struck before."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ddp.errors import ProblemError, flag, instance, instances, integer, positive, settle, suggesting
from dynamics.contacts.contact import Contact
from dynamics.contacts.dynamics import as_share


@suggesting
@dataclass(frozen=True, eq=False)
class Phase:
    """Contacts held for some knots, after an impact of some if there is one.

    contacts: those held while time passes; none is flight.
    knots: how many steps of time. It may be 0 where there is an impact.
    impact: the contacts whose velocities an impact at the phase's start stops, or reflects: a knot of its own, of no
    duration, before the others. True: those of ``contacts``.
    restitution: Newton's coefficient of that impact, 0 plastic to 1 elastic.
    name: for reports and plots.
    held: whether every step of time ends with the contacts exactly at their targets, which all of them need then, and
    which must be independent. Gains play no part. See held_steps.py.
    dt [s]: of its steps, if not that of the other phases.
    """

    contacts: Sequence[Contact] = ()
    knots: int = 1
    impact: Sequence[Contact] | bool = ()
    restitution: float = 0.0
    name: str = ""
    held: bool = False
    dt: float | None = None

    def __post_init__(self) -> None:
        held = instances("contacts of a phase", self.contacts, Contact, "Contacts")
        given = self.impact if not isinstance(self.impact, bool) else held if self.impact else ()
        struck = instances("impact of a phase", given, Contact, "Contacts")
        knots = integer("knots of a phase", self.knots, 0 if struck else 1)
        flag("held of a phase", self.held)
        instance("name of a phase", self.name, str, "a text")
        for contact in held if self.held else ():
            if contact.kind == "rolling":
                raise ProblemError(
                    f"held of a phase: expected False where {contact.frame!r} rolls, whose steps end without slipping"
                    " anyhow, got True"
                )
            if contact.target is None:
                raise ProblemError(f"target of the contact at {contact.frame!r}: expected where it is held, got None")
        if self.dt is not None:
            settle(self, dt=positive("dt of a phase", self.dt))
        restitution = as_share("restitution", self.restitution)
        settle(self, contacts=held, impact=struck, knots=knots, restitution=restitution)

    @property
    def size(self) -> int:
        """All its knots, the impact's among them."""
        return self.knots + bool(self.impact)

    @property
    def struck(self) -> Sequence[Contact]:
        """The contacts of its impact."""
        return () if isinstance(self.impact, bool) else self.impact


def stretches(phases: Sequence[Phase], horizon: int | None = None) -> list[range]:
    """The knots of each phase in which time passes, of a horizon, by default all; the last phase lasts to its end."""
    found, knot = [], 0
    for phase in phases:
        knot += bool(phase.impact)
        found.append(range(knot, knot + phase.knots))
        knot += phase.knots
    if horizon is None:
        return found
    found[-1] = range(found[-1].start, max(horizon, knot))
    return [range(min(knots.start, horizon), min(knots.stop, horizon)) for knots in found]


def rotated(phases: Sequence[Phase], first: int) -> tuple[Phase, ...]:
    """The phases of a cycle from its knot ``first`` on; of the phase that this cuts, the beginning ends the cycle."""
    i = 0
    while first >= phases[i].size:
        first, i = first - phases[i].size, i + 1
    if first == 0:
        return (*phases[i:], *phases[:i])
    passed = first - bool(phases[i].impact)
    rest = replace(phases[i], impact=(), knots=phases[i].knots - passed)
    return (rest, *phases[i + 1 :], *phases[:i], replace(phases[i], knots=passed))

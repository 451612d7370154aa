"""Phases: which contacts hold for how many steps of time, and which are struck before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ddp.errors import ProblemError, positive
from dynamics.contacts.contact import Contact
from dynamics.contacts.dynamics import number


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
        held = (self.contacts,) if isinstance(self.contacts, Contact) else tuple(self.contacts)
        if isinstance(self.impact, bool):
            struck = held if self.impact else ()
        else:
            struck = (self.impact,) if isinstance(self.impact, Contact) else tuple(self.impact)
        whole = isinstance(self.knots, (int, np.integer)) and not isinstance(self.knots, bool)
        least = 0 if struck else 1
        if not whole or self.knots < least:
            raise ProblemError(f"knots of a phase: expected a whole number of at least {least}, got {self.knots!r}")
        if not isinstance(self.held, (bool, np.bool_)):
            raise ProblemError(f"held of a phase: expected True or False, got {self.held!r}")
        for contact in held if self.held else ():
            if contact.target is None:
                raise ProblemError(f"target of the contact at {contact.frame!r}: expected where it is held, got None")
        if self.dt is not None:
            object.__setattr__(self, "dt", positive("dt of a phase", self.dt))
        object.__setattr__(self, "contacts", held)
        object.__setattr__(self, "impact", struck)
        object.__setattr__(self, "knots", int(self.knots))
        object.__setattr__(self, "restitution", number("restitution", self.restitution, 1.0))

    @property
    def size(self) -> int:
        """All its knots, the impact's among them."""
        return self.knots + bool(self.impact)

    @property
    def struck(self) -> Sequence[Contact]:
        """The contacts of its impact."""
        return () if isinstance(self.impact, bool) else self.impact

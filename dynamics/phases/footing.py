"""Feet that stand along a motion: how they move with the robot, and how their legs move them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ddp.systems.system import Footing
from dynamics.phases.phase import stretches
from dynamics.quantities.quantities import frame_velocity_derivatives
from dynamics.quantities.units import Units

if TYPE_CHECKING:
    from dynamics.phases.phased_dynamics import PhasedDynamics

Array = NDArray[np.float64]

SLOW, FAR = 0.1, 0.01
"""Speed of feet that creep and roll on soft ground [√(g h)], and a way beyond that speed that is sliding [h]. In
`make bench-policy`, feet of bounds that hold creep by 0.02 to 0.07 and those that slide by 0.2 to 2; with 0.2 for SLOW,
or a FAR from 0.005 to 0.08, none of 50 bounds falls either, and 49 or 50 are better than a joint PD."""

STRETCHED = 0.05
"""A leg moves its foot in directions in which it does so by at least this part of the most; others are left out."""


def footing(system: PhasedDynamics, X: Array, units: Units) -> Footing:
    """Feet at the knots of X (M, nx), in the axes of their contacts, of which the third is across the ground."""
    robot, M = system.robot, len(X)
    known = {contact.frame: contact.size for phase in system.phases for contact in phase.contacts}
    names, most = list(known), max(known.values())
    moves, legs = np.zeros((M, len(names), most, robot.nv)), np.zeros((M, len(names), robot.nv, most))
    for phase, knots in zip(system.phases, stretches(system.phases, M), strict=True):
        at, still = slice(knots.start, knots.stop), np.zeros((len(knots), robot.nv))
        for contact in phase.contacts if knots else ():
            found = frame_velocity_derivatives(robot, X[at, : robot.nq], still, contact.frame, contact.reference)
            J, foot = found.dv[:, : contact.size].copy(), names.index(contact.frame)
            moves[at, foot, : contact.size] = J
            J[:, :, robot.floating_dofs] = 0.0
            legs[at, foot, :, : contact.size] = np.linalg.pinv(J, rcond=STRETCHED)
    slow = SLOW * units.height / units.time
    return Footing(tuple(names), moves, legs, slow, FAR * units.height / slow)

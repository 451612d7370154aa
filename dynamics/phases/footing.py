"""Velocities of feet that stand, along the ground: measured ones tell whether feet slide."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ddp.system import Footing
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


def footing(system: PhasedDynamics, X: Array, units: Units) -> Footing:
    """Velocities along the ground of all feet at the knots of X (M, nx), zeros of those that do not stand.

    The ground is across the third axis of a contact: the world's of a point, a surface's own.
    """
    robot = system.robot
    frames = list(dict.fromkeys(contact.frame for phase in system.phases for contact in phase.contacts))
    rows = np.zeros((len(X), len(frames), 2, robot.nv))
    for phase, knots in zip(system.phases, stretches(system.phases, len(X)), strict=True):
        at = slice(knots.start, knots.stop)
        still = np.zeros((len(knots), robot.nv))
        for contact in phase.contacts if knots else ():
            moved = frame_velocity_derivatives(robot, X[at, : robot.nq], still, contact.frame, contact.reference)
            rows[at, frames.index(contact.frame)] = moved.dv[:, :2]
    slow = SLOW * units.height / units.time
    return Footing(rows / slow, FAR * units.height / slow)

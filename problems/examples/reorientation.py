"""HyQ turns by 90 degrees in the air, from wrong attitudes and with a base 5 % heavier than planned.

Angular momentum is zero throughout: only the order in which the legs move turns the base, so that errors of its
attitude can be corrected slowly. From 2 degrees feedback does it, and the solver's gains leave least; from 20 degrees
hardly anything but a solve from the true start, ``replanned``, comes to the end.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from problems import flights, quadruped


def run(count: int = 10, angle: float = np.deg2rad(2.0)) -> Iterable[flights.Flights]:
    """Outcomes of ``count`` flights by each policy, from errors of up to ``angle`` [rad]."""
    return flights.fly_all(quadruped.reorientation(), count, angle, mass=1.05)

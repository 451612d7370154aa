"""A quadrotor flies an inverted loop from attitudes that are wrong by up to 20 degrees.

The plan is optimal for a start that hovers level. Three policies fly it: the solver's own gains, a time-varying LQR
(``tracking``), and the solver's gains about a solution from the true start (``replanned``). Costs are multiples of the
optimum from each start: the solver's gains are its second order, so they lose least.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from problems import flights, quadrotor


def run(count: int = 10) -> Iterable[flights.Flights]:
    """Outcomes of ``count`` flights by each policy."""
    return flights.fly_all(quadrotor.loop(), count, angle=np.deg2rad(20.0))

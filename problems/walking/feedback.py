"""Feedback of plans that are soon replaced: the solver's gains on what contacts leave free, and joints that resist.

As in `ddp.feedback`, ``G = K N + R (I - N)``, N the part of errors that contacts leave free; but K is the solver's own,
which costs no sweep.
"""

from __future__ import annotations

import numpy as np

from ddp.feedback.policy import Policy
from ddp.protocols import Array
from ddp.solutions.solution import Solution
from dynamics.phases.phased_dynamics import PhasedDynamics

HELD = 0.15
"""Time [s] after which a policy that has not been replaced yet has the joints' stiffness alone."""


def following(solution: Solution, system: PhasedDynamics, start: float, stiff: Array) -> Policy:
    """The policy of a solution that begins at a time [s]; stiff (nu, n): feedback of joints that resist."""
    lasting, n = system.durations, system.n
    begin = np.cumsum(lasting) - lasting
    steps = np.flatnonzero(lasting > 0.0)
    near = steps[begin[steps] < HELD]
    N = system.tracked.free_directions(solution.X[: near[-1] + 1])[near]
    G = np.tile(stiff, (len(steps), 1, 1))
    G[: len(near)] = solution.K[near] @ N + stiff @ (np.eye(n) - N)
    X, U = solution.X, solution.U[steps]
    lower, upper = (np.broadcast_to(limit, U.shape) for limit in system.control_limits.T)
    return Policy(system, start + begin[steps], lasting[steps], X[steps], X[steps + 1], U, U, U, G, lower, upper)

"""Talos stands on its soles and is pushed; an LQR about its posture brings it back.

In our dynamics soles hold whatever is asked of them: a push is what they let through. In MuJoCo they tip and slide, so
that a push beyond some 0.2 m/s would need a step; torques keep to the robot's limits in both.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import problems
from ddp.options import ILQR
from ddp.solver import solve
from problems import balance

PUSHES = (0.15, 0.0), (-0.15, 0.0), (0.0, 0.1)
"""Velocities that the base is given, forward and to the left [m/s]."""


def run() -> Iterator[str]:
    """Deviations under each push, in our dynamics and in MuJoCo."""
    problem = balance.standing()
    keeper, solution = balance.regulator(problem), solve(problem, ILQR())
    for push in PUSHES:
        X = balance.balance(problem, keeper, balance.pushed(problem, (*push, 0.0)))
        away = np.linalg.norm(X[:, :3] - problem.x0[:3], axis=1)
        played = problems.simulate(solution, push=push, policy=keeper.policy)
        yield f"{push} m/s: base moved {away.max():.4f} m, {away[-1]:.1e} m at the end; in MuJoCo {played}"

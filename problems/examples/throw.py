"""A UR5 throws in MuJoCo: its tool passes a point at 3 m/s, the first link 5 % heavier than planned.

The plan's torques alone miss; the policy that tracks the motion stays close to the point and to the speed. The plan's
steps of 10 ms are not MuJoCo's, which is why the last centimetres stay.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import problems
from ddp.protocols import Array
from ddp.solver import solve
from dynamics.quantities.quantities import frame_placement, frame_velocity
from dynamics.robots.model import load
from problems import arm


def run(mass: float = 1.05) -> Iterator[str]:
    """Errors of place and velocity at the release, by the plan's torques and by the policy that tracks the motion."""
    robot = load("ur5")
    solution = solve(arm.throw(robot))

    def release(x: Array) -> Array:
        """Place [m] and velocity [m/s] of the tool (2, 3) in a state (nx,)."""
        q, v = np.split(x, [robot.nq])
        return np.array([frame_placement(robot, q, "tool0")[:3, 3], frame_velocity(robot, q, v, "tool0")[:3]])

    for policy in ("open", "tracking"):
        played = problems.simulate(solution, mass=mass, policy=policy)
        place, velocity = np.linalg.norm(release(played.X[-1]) - release(solution.X[-1]), axis=1)
        yield f"{policy:9s} place {place:.3f} m, velocity {velocity:.2f} m/s off at the release; {played}"

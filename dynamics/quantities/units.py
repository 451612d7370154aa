"""Units of a robot that stands: lengths, times and torques in proportion to its height and weight."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ddp.protocols import Array
from dynamics.robots.libraries import pin
from dynamics.robots.model import Robot

FREE = (True, True, True, False, False, False)
"""Which numbers of a free-flying base are along lines; others turn it."""


class Units(NamedTuple):
    """height h [m] of the centre of mass above the feet, mass m [kg], gravity g [m/s²]."""

    height: float
    mass: float
    gravity: float

    @property
    def weight(self) -> float:
        """Weight of the robot, m g [N]."""
        return self.mass * self.gravity

    @property
    def torque(self) -> float:
        """Unit of torques, m g h [N m]."""
        return self.weight * self.height

    @property
    def time(self) -> float:
        """Unit of time, √(h / g) [s]."""
        return float(np.sqrt(self.height / self.gravity))

    def of_state(
        self, joints: int, position: float, rotation: float, posture: float, velocity: float, turning: float,
        speed: float, slides: Sequence[bool] = FREE,
    ) -> Array:  # fmt: skip
        """Weights (n,) of a tangent state, the base first; slides: which of its numbers are along lines.

        position [1/h²] and rotation [1/rad²] of the base, posture [1/rad²] of the joints; velocity [1/(g h)] and
        turning [h/g] of the base, speed [h/g] of the joints.
        """
        rate = self.height / self.gravity
        moving = velocity / (self.gravity * self.height), turning * rate, speed * rate
        kinds = np.concatenate([np.where(slides, 0, 1), np.full(joints, 2)])
        weights = np.array([[position / self.height**2, rotation, posture], moving])
        return np.asarray(weights[:, kinds].ravel())


def forces_of(actuation: Array) -> Array:
    """Sizes (nu,) of the generalised forces that units of controls make by S (nv, nu), 1 of controls that make none."""
    made = np.linalg.norm(actuation, axis=0)
    return np.where(made > 0.0, made, 1.0)


def units_of(robot: Robot, q: Array, feet: Sequence[str]) -> Units:
    """Units of a robot that stands in q (nq,) on the frames called ``feet``."""
    model, data = robot.model, robot.model.createData()
    pin.framesForwardKinematics(model, data, q)
    center = pin.centerOfMass(model, data, q)
    floor = np.mean([data.oMf[robot.frame_id(foot)].translation[2] for foot in feet])
    mass = float(sum(inertia.mass for inertia in list(model.inertias)[1:]))
    return Units(float(center[2] - floor), mass, float(np.linalg.norm(model.gravity.linear)))

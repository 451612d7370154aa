"""Motors: efforts that a policy asks for, cut to what a robot's file allows."""

from dataclasses import dataclass, field

import numpy as np

from ddp.errors import settle
from ddp.protocols import Array
from dynamics.phases.phased_dynamics import PhasedDynamics
from dynamics.robots.joints import effort_limits
from dynamics.steps.robot_dynamics import RobotDynamics


@dataclass(frozen=True, eq=False)
class Motors:
    """Efforts (nv,) of a system's robot within the limits of its file: of its actuators, and of its joints [N m, N]."""

    system: RobotDynamics | PhasedDynamics = field(repr=False)

    def __post_init__(self) -> None:
        robot = self.system.robot
        same = np.array_equal(self.system.actuation, robot.actuation)  # else the file's are of other controls
        controls = robot.control_limits.T if same else np.array([[-np.inf], [np.inf]])
        settle(self, controls=controls, joints=effort_limits(robot.model).T)

    controls: Array = field(init=False, repr=False)
    joints: Array = field(init=False, repr=False)

    def __call__(self, u: Array) -> Array:
        """Effect of controls u (nu,) on the joints, within limits."""
        return np.asarray(np.clip(self.system.actuation @ np.clip(u, *self.controls), *self.joints))

"""Systems that are ready to simulate: a robot, where it starts, and its controls by time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ddp.errors import settle
from ddp.protocols import Array
from dynamics.robots.model import Robot
from dynamics.steps.robot_dynamics import RobotDynamics
from dynamics.steps.simulation import Motion, simulate


@dataclass(frozen=True, eq=False)
class SoftSystem:
    """A robot that moves for some seconds under controls that are known in advance.

    name: "soft/...".   description: one sentence.
    It begins at rest in the robot's q0.   u: a function of time [s] to the controls (nu,), tensions [N] of tendons
    first; by default zeros.
    seconds: how long.   dt [s], integrator: its steps, see ``RobotDynamics``.
    frames: those worth tracing in a viewer.
    prescribed: positions of joints by name, functions of time, see ``dynamics.simulate``.
    """

    name: str
    description: str
    robot: Robot
    u: Callable[[float], Array] = None  # type: ignore[assignment]
    seconds: float = 10.0
    dt: float = 0.02
    integrator: str = "sdirk2"
    frames: tuple[str, ...] = field(default=())
    prescribed: Mapping[str, Callable[[float], float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.u is None:
            none = np.zeros(self.robot.actuation.shape[1])
            settle(self, u=lambda t: none)

    @property
    def x0(self) -> Array:
        """The first state (nx,)."""
        return np.append(self.robot.q0, np.zeros(self.robot.nv))

    @cached_property
    def dynamics(self) -> RobotDynamics:
        """The system of its robot and steps."""
        return RobotDynamics(self.robot, self.dt, integrator=self.integrator, prescribed=tuple(self.prescribed))

    def simulate(self, seconds: float | None = None, tolerance: float | None = None) -> Motion:
        """Motion for so many seconds, by default the system's own time; tolerance: see ``dynamics.simulate``."""
        whole = self.seconds if seconds is None else seconds
        return simulate(self.dynamics, self.x0, self.u, whole, tolerance, self.prescribed)

"""Systems of soft and hybrid robots that are ready to simulate, by name: a robot, where it starts, controls by time."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from ddp.errors import choice, settle
from ddp.protocols import Array
from dynamics.robots.model import Robot
from dynamics.steps.robot_dynamics import RobotDynamics
from dynamics.steps.simulation import Motion, simulate
from problems.soft import robots


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


def tensions(t: float) -> Array:
    """Tensions (5,) of the cable arm [N] at a time [s]."""
    return np.array([
        10.0 * (1.0 + np.sin(2.0 * t)), 10.0 * (1.0 + np.sin(3.0 * t + 1.0)), 10.0 * (1.0 - np.cos(2.5 * t)),
        5.0 * (1.0 + np.sin(t + 2.0)), 5.0 * (1.0 - np.sin(1.7 * t)),
    ])  # fmt: skip


def turn(k: int, t: float) -> float:
    """The angle of joint k of the serial arm at a time [s]."""
    return 0.5 * float(np.sin((1.0 + 0.1 * k) * t))


def slide(t: float) -> float:
    """Place of the finger's slider at a time [s]: 5 mm to and fro, once a second."""
    return 0.005 * float(np.sin(2.0 * np.pi * t))


def push(t: float) -> Array:
    """Controls (15,) of the parallel robot at a time [s]: the wrench on the platform alone."""
    turning = np.array([np.sin(t), np.cos(2.0 * t), np.sin(3.0 * t)])
    return np.concatenate([0.3 * turning, 0.03 * turning, np.zeros(9)])


def torques(t: float) -> Array:
    """Torques (2,) of the swimmer's shafts [N m] at a time [s]: opposite ones, so that the body turns little."""
    return np.array([0.25, -0.25])


SYSTEMS: dict[str, Callable[[], SoftSystem]] = {
    "soft/cable-arm": lambda: SoftSystem(
        "soft/cable-arm", "an arm of silicone is pulled about by five cables", robots.cable_arm(), tensions,
        frames=("arm/tip",),
    ),
    "soft/serial": lambda: SoftSystem(
        "soft/serial", "seven joints swing a soft finger", robots.serial_arm(cables=False), frames=("finger/tip",),
        prescribed={f"joint{k}": partial(turn, k) for k in range(1, robots.JOINTS + 1)},
    ),
    "soft/fin-ray": lambda: SoftSystem(
        "soft/fin-ray", "a fin-ray finger is bent by a slider", robots.fin_ray(), dt=0.01, frames=("top",),
        prescribed={"slider": slide},
    ),
    "soft/parallel": lambda: SoftSystem(
        "soft/parallel", "a platform on three pillars of silicone is pushed about", robots.parallel_robot(), push,
        frames=("platform",),
    ),
    "soft/contact": lambda: SoftSystem(
        "soft/contact", "an arm of silicone is pulled against the wall of a pipe", robots.arm_in_a_pipe(), tensions,
        dt=0.01, frames=("arm/tip",),
    ),
    "soft/underwater": lambda: SoftSystem(
        "soft/underwater", "a swimmer turns its flagella", robots.swimmer(), torques,
        frames=("front flagellum 1/tip", "rear flagellum 1/tip"),
    ),
}  # fmt: skip
"""Builders of the systems."""


def system(name: str) -> SoftSystem:
    """The system of a name; ProblemError with the nearest names if there is none."""
    choice("system", name, SYSTEMS, "there is none called")
    return SYSTEMS[name]()

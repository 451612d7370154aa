"""A platform on three pillars of silicone, which are hinged to the ground or clamped: closed chains."""

from __future__ import annotations

import numpy as np

from ddp.protocols import Array
from dynamics.robots.libraries import pin
from dynamics.robots.rods import Rectangle, Rod
from dynamics.rods.assembly import Assembly
from dynamics.rods.hybrid_robot import HybridRobot
from problems.soft.cables import SILICONE
from problems.soft.system import SoftSystem

SIDE, THICKNESS, HEIGHT = 0.2, 0.01, 0.15
"""Side and thickness of the platform, an equilateral triangle, and height of the pillars [m]."""

_UP = np.array([[0.0, 0.0, -1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])


def pillar(name: str) -> Rod:
    """A pillar: cubic twist and bending, linear stretch and shear; 18 degrees of freedom."""
    return Rod(name, HEIGHT, Rectangle(0.03, 0.015), SILICONE, torsion=3, bending=3, stretch=1, shear=1, gauss=6)


def corners() -> Array:
    """The corners (3, 3) of the platform about its centre [m]."""
    angles = 2.0 * np.pi * np.arange(3) / 3.0
    return SIDE / np.sqrt(3.0) * np.array([np.cos(angles), np.sin(angles), 0.0 * angles]).T


def platform() -> pin.Inertia:
    """Inertia of the platform about its centre, at the density of the pillars."""
    mass = SILICONE.density * np.sqrt(3.0) / 4.0 * SIDE**2 * THICKNESS
    across, about = mass * (SIDE**2 / 24.0 + THICKNESS**2 / 12.0), mass * SIDE**2 / 12.0
    return pin.Inertia(mass, np.zeros(3), np.diag([across, across, about]))


def parallel_robot() -> HybridRobot:
    """The robot: one pillar is clamped to the ground, two are hinged to it; balls join them to the platform.

    63 degrees of freedom, two loops of five equations. Controls: force [N] and couple [N m] on the platform's centre in
    the world's axes, then the torques of the balls.
    """
    places, build = corners(), Assembly("parallel-robot")
    build.rod(pillar("pillar1"), placement=pin.SE3(_UP, places[0]))
    build.joint("ball1", pin.JointModelSpherical(), "pillar1/tip", pin.SE3(_UP.T, np.zeros(3)))
    build.body(platform(), "ball1", pin.SE3(np.eye(3), -places[0]), name="platform")
    for k in (1, 2):
        build.joint(f"ball{k + 1}", pin.JointModelSpherical(), "platform", pin.SE3(np.eye(3), places[k]))
        turned = pin.utils.rotate("z", 2.0 * np.pi * k / 3.0) @ _UP
        down = pin.SE3(turned @ np.diag([-1.0, 1.0, -1.0]), np.zeros(3))
        build.rod(pillar(f"pillar{k + 1}"), f"ball{k + 1}", down)
        build.frame(f"foot{k + 1}", placement=pin.SE3(down.rotation, places[k]))
        build.loop(f"pillar{k + 1}/tip", f"foot{k + 1}", free="ry")
    return build.wrench("push", "platform").robot()


def push(t: float) -> Array:
    """Controls (15,) at a time [s]: the wrench on the platform alone."""
    turning = np.array([np.sin(t), np.cos(2.0 * t), np.sin(3.0 * t)])
    return np.concatenate([0.3 * turning, 0.03 * turning, np.zeros(9)])


def system() -> SoftSystem:
    """The platform, pushed about."""
    return SoftSystem(
        "soft/parallel", "a platform on three pillars of silicone is pushed about", parallel_robot(), push,
        frames=("platform",),
    )  # fmt: skip

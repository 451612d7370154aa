"""A fin-ray finger: two walls joined at the tip, and ribs between them that are hinged to both; it bends in a plane."""

from __future__ import annotations

import numpy as np

from dynamics.robots.libraries import pin
from dynamics.robots.rods import Material, Rectangle, Rod
from dynamics.rods.assembly import Assembly
from dynamics.rods.hybrid_robot import HybridRobot
from problems.soft.system import SoftSystem

ABS = Material(young=2e9, poisson=0.35, density=1050.0, damping=1e5)
PIECES, PIECE, HALF_ANGLE = 6, 0.03, np.radians(10.0)
"""Pieces of a wall, the length of each [m], and how far it leans from the vertical [rad]."""

ACROSS_PLANE = "y rx ry rz"
"""Free of a hinge in the plane of x and z: all that lies across it, and the turn about it."""


def strip(name: str, length: float, width: float) -> Rod:
    """A strip 1 mm thick that bends in the plane: linear bending, constant stretch and shear."""
    section = Rectangle(width, 0.001)
    return Rod(name, length, section, ABS, bending=(1, None), stretch=0, shear=(None, 0), gauss=6)


def fin_ray() -> HybridRobot:
    """The finger: walls of six strips, 25 mm wide, and five ribs of 10 mm; one wall stands on a slider along z.

    74 degrees of freedom; six loops, of 13 equations in the plane. Controls: forces and torques of the joints.
    """
    half = PIECES * PIECE * np.sin(HALF_ANGLE)
    build = Assembly("fin-ray")
    build.joint("slider", pin.JointModelPZ(), placement=pin.SE3(np.eye(3), np.array([half, 0.0, 0.0])),
                inertia=pin.Inertia(0.02, np.zeros(3), 1e-5 * np.eye(3)))  # fmt: skip
    at: dict[str, tuple[str, pin.SE3]] = {
        "left": ("world", _wall(-half, HALF_ANGLE)), "right": ("slider", _wall(0.0, -HALF_ANGLE))
    }  # fmt: skip
    for k in range(1, PIECES + 1):
        for side in ("left", "right"):
            on, placement = at[side]
            build.rod(strip(f"{side}{k}", PIECE, 0.025), on, placement)
            at[side] = f"{side}{k}/tip", pin.SE3.Identity()
        level = pin.SE3(_wall(0.0, HALF_ANGLE).rotation.T, np.zeros(3))
        if k < PIECES:
            build.joint(f"hinge{k}", pin.JointModelRY(), f"left{k}/tip", level)
            build.rod(strip(f"rib{k}", 2.0 * half * (1.0 - k / PIECES), 0.01), f"hinge{k}")
            build.loop(f"rib{k}/tip", f"right{k}/tip", free=ACROSS_PLANE)
        else:
            other = pin.SE3(_wall(0.0, -HALF_ANGLE).rotation.T, np.zeros(3))
            build.frame("top", f"left{k}/tip", level).frame("other top", f"right{k}/tip", other)
            build.loop("top", "other top", free="y rx rz")
    return build.robot()


def _wall(x: float, angle: float) -> pin.SE3:
    """Pose of a wall's base: its strips run along z of the world, leaning by an angle, and bend about y."""
    return pin.SE3(pin.utils.rotate("y", angle - 0.5 * np.pi), np.array([x, 0.0, 0.0]))


def slide(t: float) -> float:
    """Place of the slider at a time [s]: 5 mm to and fro, once a second."""
    return 0.005 * float(np.sin(2.0 * np.pi * t))


def system() -> SoftSystem:
    """The finger, bent to and fro by its slider."""
    return SoftSystem(
        "soft/fin-ray", "a fin-ray finger is bent by a slider", fin_ray(), dt=0.01, frames=("top",),
        prescribed={"slider": slide},
    )  # fmt: skip

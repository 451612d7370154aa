"""The arm of cables.py in a pipe, against whose wall its cables press it."""

from __future__ import annotations

from dynamics.robots.surroundings import ContactSprings, Cylinder
from dynamics.rods.hybrid_robot import HybridRobot
from problems.soft.cables import assemble, tensions
from problems.soft.system import SoftSystem

PIPE = Cylinder((0.0, 0.0, 0.0), (0.0, 0.0, 1.0), 0.15)


def arm_in_a_pipe(smoothing: float = 0.0) -> HybridRobot:
    """The arm with 12 points, eleven of them centres of spheres that the wall pushes by 1e5 N/m^1.5.

    smoothing: see ``ContactSprings``.
    """
    build = assemble("arm-in-a-pipe", gauss=10)
    return build.contact(ContactSprings(PIPE, 1e5, 1.5, smoothing)).robot()


def system() -> SoftSystem:
    """The arm, pulled about by its cables within the pipe."""
    return SoftSystem(
        "soft/contact", "an arm of silicone is pulled against the wall of a pipe", arm_in_a_pipe(), tensions, dt=0.01,
        frames=("arm/tip",),
    )  # fmt: skip

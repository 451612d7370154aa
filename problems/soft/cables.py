"""An arm of silicone that hangs, with three cables along it and two that wind around it; and the same in a pipe."""

from __future__ import annotations

from functools import partial

import numpy as np

from ddp.protocols import Array
from dynamics.robots.libraries import pin
from dynamics.robots.rods import Circle, Material, Rod, Tendon
from dynamics.robots.surroundings import ContactSprings, Cylinder
from dynamics.rods.assembly import Assembly
from dynamics.rods.hybrid_robot import HybridRobot
from problems.soft.system import SoftSystem

SILICONE = Material(young=1e6, poisson=0.5, density=1000.0, damping=1e4)
_BASE, _TIP = 0.03, 0.015

PIPE = Cylinder((0.0, 0.0, 0.0), (0.0, 0.0, 1.0), 0.15)


def hanging() -> pin.SE3:
    """Pose of a base whose rod hangs: along -z of the world."""
    return pin.SE3(np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]]), np.zeros(3))


def straight(angle: float, base: float, tip: float, x: float) -> tuple[float, float]:
    """Place at X/L of a cable along a rod, whose distance from the axis goes from ``base`` to ``tip`` [m]."""
    distance = base + (tip - base) * x
    return distance * np.sin(angle), distance * np.cos(angle)


def helix(side: float, x: float) -> tuple[float, float]:
    """Place of a cable that winds around the axis twice, at the tip's radius, to one side or the other."""
    return _TIP * np.sin(4.0 * np.pi * x), side * _TIP * np.cos(4.0 * np.pi * x)


def along(count: int, base: float, tip: float) -> list[Tendon]:
    """Cables along a rod, at equal angles from its z axis on."""
    angles = -2.0 * np.pi * np.arange(count) / count
    return [Tendon(f"cable {k}", partial(straight, angle, base, tip)) for k, angle in enumerate(angles, 1)]


def cable_arm(gauss: int = 5) -> HybridRobot:
    """The arm: half a metre long, its radius 30 mm at the base and 15 mm at the tip; 24 degrees of freedom.

    gauss: number of Gauss-Legendre points.   Controls: tensions [N] of cables 1 to 3 along it, then of the helices.
    """
    return assemble("cable-arm", gauss).robot()


def assemble(name: str, gauss: int) -> Assembly:
    """The arm before it is finished."""
    rod = Rod("arm", 0.5, Circle(_BASE, _TIP), SILICONE, torsion=4, bending=4, stretch=2, shear=2, gauss=gauss)
    helices = [Tendon(f"helix {k}", partial(helix, side)) for k, side in ((1, 1.0), (2, -1.0))]
    return Assembly(name).rod(rod, placement=hanging(), tendons=[*along(3, _BASE, _TIP), *helices])


def tensions(t: float) -> Array:
    """Tensions (5,) [N] at a time [s]."""
    return np.array([
        10.0 * (1.0 + np.sin(2.0 * t)), 10.0 * (1.0 + np.sin(3.0 * t + 1.0)), 10.0 * (1.0 - np.cos(2.5 * t)),
        5.0 * (1.0 + np.sin(t + 2.0)), 5.0 * (1.0 - np.sin(1.7 * t)),
    ])  # fmt: skip


def system() -> SoftSystem:
    """The arm, pulled about by all of its cables."""
    return SoftSystem(
        "soft/cable-arm", "an arm of silicone is pulled about by five cables", cable_arm(), tensions,
        frames=("arm/tip",),
    )  # fmt: skip


def in_a_pipe() -> SoftSystem:
    """The arm with 12 points, eleven of them centres of spheres that the wall of a pipe pushes by 1e5 N/m^1.5."""
    arm = assemble("arm-in-a-pipe", gauss=10).contact(ContactSprings(PIPE, 1e5, 1.5)).robot()
    return SoftSystem(
        "soft/contact", "an arm of silicone is pulled against the wall of a pipe", arm, tensions, dt=0.01,
        frames=("arm/tip",),
    )  # fmt: skip

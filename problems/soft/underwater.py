"""A swimmer: a body that floats in water, with two shafts that turn three flagella of silicone each."""

from __future__ import annotations

import numpy as np

from ddp.protocols import Array
from dynamics.robots.libraries import pin
from dynamics.robots.rods import Circle, Rod
from dynamics.robots.surroundings import Water
from dynamics.rods.assembly import Assembly
from dynamics.rods.hybrid_robot import HybridRobot
from problems.soft.cables import SILICONE
from problems.soft.system import SoftSystem

BODY, LENGTH, HOOK = 0.08, 0.3, 0.06
"""Radius and length of the body, and length of hooks [m]."""


def swimmer() -> HybridRobot:
    """The robot: three flagella of 0.35 m in front and three of 0.5 m behind, on hooks; all as dense as water.

    80 degrees of freedom. Controls: torques of the two shafts [N m].
    """
    rho = SILICONE.density
    body = pin.Inertia.FromCylinder(rho * np.pi * BODY**2 * LENGTH, BODY, LENGTH)
    along_x = pin.SE3(pin.utils.rotate("y", 0.5 * np.pi), np.zeros(3))
    build = Assembly("swimmer").joint("body", pin.JointModelFreeFlyer(), inertia=along_x.act(body))
    for shaft, side, length in (("front", 1.0, 0.35), ("rear", -1.0, 0.5)):
        end = pin.SE3(np.eye(3), np.array([0.5 * side * LENGTH, 0.0, 0.0]))
        disc = pin.Inertia.FromCylinder(rho * np.pi * 0.03**2 * 0.04, 0.03, 0.04)
        build.joint(shaft, pin.JointModelRX(), "body", end, along_x.act(disc))
        for k in range(3):
            radial = pin.utils.rotate("x", 2.0 * np.pi * k / 3.0) @ pin.utils.rotate("y", -0.5 * np.pi)
            hook = pin.SE3(radial, np.zeros(3))
            bar = pin.Inertia.FromCylinder(rho * np.pi * 0.01**2 * HOOK, 0.01, HOOK)
            build.body((hook * pin.SE3(np.eye(3), np.array([0.5 * HOOK, 0.0, 0.0])) * along_x).act(bar), shaft)
            backwards = pin.utils.rotate("y", 0.25 * np.pi * side)
            base = hook * pin.SE3(backwards, np.array([HOOK, 0.0, 0.0]))
            rod = Rod(
                f"{shaft} flagellum {k + 1}", length, Circle(0.0125, 0.0005), SILICONE, torsion=3, bending=3, gauss=11
            )
            build.rod(rod, shaft, base)
    return build.water(Water(rho)).robot()


def torques(t: float) -> Array:
    """Torques (2,) of the shafts [N m] at a time [s]: opposite ones, so that the body turns little."""
    return np.array([0.25, -0.25])


def system() -> SoftSystem:
    """The swimmer, its shafts turned by opposite torques."""
    tips = tuple(f"{shaft} flagellum 1/tip" for shaft in ("front", "rear"))
    return SoftSystem("soft/underwater", "a swimmer turns its flagella", swimmer(), torques, frames=tips)

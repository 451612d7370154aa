"""A ceiling-mounted arm of seven rigid links with a soft finger, which three cables bend."""

from __future__ import annotations

from functools import partial

import numpy as np

from dynamics.robots.libraries import pin
from dynamics.robots.rods import Circle, Rod
from dynamics.rods.assembly import Assembly
from dynamics.rods.hybrid_robot import HybridRobot
from problems.soft.cables import SILICONE, along, hanging
from problems.soft.system import SoftSystem

JOINTS = 7
LINK, MASS, RADIUS = 0.2, 1.0, 0.04
"""Length [m], mass [kg] and radius [m] of each link."""

_BASE, _TIP = 0.015, 0.01


def serial_arm(cables: bool = True) -> HybridRobot:
    """The arm: joints that turn about x and y in turn, links that hang, a rod of half a metre; 27 degrees of freedom.

    cables: whether three pull along the rod.   Controls: their tensions [N], then the torques of the joints [N m].
    """
    build, on, at = Assembly("serial-arm"), "world", pin.SE3.Identity()
    link = pin.Inertia.FromCylinder(MASS, RADIUS, LINK)
    link.lever = np.array([0.0, 0.0, -0.5 * LINK])
    for k in range(JOINTS):
        kind = pin.JointModelRX() if k % 2 == 0 else pin.JointModelRY()
        build.joint(f"joint{k + 1}", kind, on, at, link)
        on, at = f"joint{k + 1}", pin.SE3(np.eye(3), np.array([0.0, 0.0, -LINK]))
    rod = Rod("finger", 0.5, Circle(_BASE, _TIP), SILICONE, torsion=4, bending=4, stretch=4, gauss=6)
    return build.rod(rod, on, at * hanging(), tendons=along(3, _BASE, _TIP) if cables else ()).robot()


def turn(k: int, t: float) -> float:
    """The angle of joint k at a time [s]."""
    return 0.5 * float(np.sin((1.0 + 0.1 * k) * t))


def system() -> SoftSystem:
    """The arm without cables, its joints moved to and fro."""
    return SoftSystem(
        "soft/serial", "seven joints swing a soft finger", serial_arm(cables=False),
        frames=("finger/tip",), prescribed={f"joint{k}": partial(turn, k) for k in range(1, JOINTS + 1)},
    )  # fmt: skip

"""Soft and hybrid robots: systems ready to simulate, by name, and problems of reaching. Importing it builds none."""

from problems.soft import robots
from problems.soft.reaching import out_of_reach, reach, serial_reach
from problems.soft.robots import SILICONE, cable_arm, serial_arm
from problems.soft.systems import SYSTEMS, SoftSystem, system

__all__ = [
    "HANGING", "SILICONE", "SYSTEMS", "SoftSystem", "cable_arm", "out_of_reach", "reach", "serial_arm", "serial_reach",
    "system",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """``HANGING``: as a constant it would have Pinocchio imported wherever a problem is."""
    if name == "HANGING":
        return robots.hanging()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

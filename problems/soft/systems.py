"""All systems of soft and hybrid robots that are ready to simulate, by name."""

from __future__ import annotations

from collections.abc import Callable

from ddp.errors import choice
from problems.soft import cables, fin_ray, parallel, serial, underwater
from problems.soft.system import SoftSystem

SYSTEMS: dict[str, Callable[[], SoftSystem]] = {
    "soft/cable-arm": cables.system, "soft/serial": serial.system, "soft/fin-ray": fin_ray.system,
    "soft/parallel": parallel.system, "soft/contact": cables.in_a_pipe, "soft/underwater": underwater.system,
}
"""Builders of the systems."""


def system(name: str) -> SoftSystem:
    """The system of a name; ProblemError with the nearest names if there is none."""
    choice("system", name, SYSTEMS, "there is none called")
    return SYSTEMS[name]()

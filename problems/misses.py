"""Distances between where something shall be and where it is, in words."""

from __future__ import annotations

import numpy as np

from ddp.protocols import Array
from dynamics.geometry.solids import Mark
from dynamics.quantities.quantities import center_of_mass, frame_placement
from dynamics.robots.libraries import pin
from dynamics.robots.model import Robot


def miss(robot: Robot, mark: Mark, x: Array) -> str:
    """Say how far a frame, or the centre of mass, is from its target in a state x (nx,): millimetres and degrees."""
    q = x[: robot.nq]
    if not mark.frame:
        return f"the centre of mass is {_length(center_of_mass(robot, q) - mark.start)} from its target"
    M = frame_placement(robot, q, mark.frame)
    told = f"{mark.frame} is {_length(M[:3, 3] - mark.start)}"
    if mark.rotation is not None:
        turn = float(np.degrees(np.linalg.norm(pin.log3(mark.rotation.T @ M[:3, :3]))))
        told += f" and {turn:.3g}°"
    return f"{told} from its target"


def _length(error: Array) -> str:
    """A length in millimetres, or in metres from one on."""
    size = float(np.linalg.norm(error))
    return f"{1e3 * size:.3g} mm" if size < 1.0 else f"{size:.4g} m"

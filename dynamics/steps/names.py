"""Names of what a robot's states and controls are made of, by its joints."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dynamics.geometry.joint_motion import ROD
from dynamics.robots.joints import NUMBERS
from dynamics.robots.model import Robot
from dynamics.rods.hybrid_robot import HybridRobot


def names_of(robot: Robot, S: NDArray[np.float64]) -> tuple[list[str], list[str], list[str]]:
    """Names of the numbers of q (nq,) and v (nv,), and of controls (nu,) that act by S (nv, nu).

    A control is called as what it alone drives, and alone, else by its number.
    """
    positions: list[str] = []
    velocities: list[str] = []
    for b, (kind, joint) in enumerate(zip(robot.tree.kind.tolist(), robot.joint_names, strict=True)):
        own: Sequence[str] = NUMBERS[kind].positions if kind in NUMBERS else ()
        rates: Sequence[str] = NUMBERS[kind].velocities if kind in NUMBERS else ()
        if isinstance(robot, HybridRobot) and kind == ROD:
            own = rates = robot.rod_of(b).labels
        positions += [f"{joint}.{number}" for number in own] or [joint]
        velocities += [f"{joint}.{number}" for number in rates] or [joint]
    controls = robot.cable_names if isinstance(robot, HybridRobot) else []
    drives = S[:, len(controls) :] != 0.0
    alone = drives & (drives.sum(axis=0) == 1)
    for i, column in enumerate(alone.T, start=len(controls)):
        driven = np.flatnonzero(column)
        only = len(driven) == 1 and alone[driven[0]].sum() == 1
        controls.append(velocities[driven[0]] if only else f"control {i}")
    return positions, velocities, controls

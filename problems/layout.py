"""How the numbers of a state make its tangent: what a state cost knows of the manifold it lives on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp.errors import ProblemError
from ddp.protocols import Dynamics
from dynamics.model import CONTINUOUS, FREE_FLYER, Robot
from dynamics.robot_dynamics import RobotDynamics


class Layout(NamedTuple):
    """Rows (index in x, index in the tangent), each array (any, 2).

    flat: plain numbers, subtracted.   circle: angles kept as (cos, sin).
    body: free-flyers (position, quaternion).
    """

    flat: NDArray[np.int64]
    circle: NDArray[np.int64]
    body: NDArray[np.int64]


def _rows(pairs: Iterable[tuple[int, int]]) -> NDArray[np.int64]:
    return np.array(list(pairs), dtype=np.int64).reshape(-1, 2)


def state_layout(dynamics: Dynamics) -> Layout:
    """The layout of a system's states: by the joints of a robot, plain numbers for anything else."""
    if isinstance(dynamics, RobotDynamics):
        robot = dynamics.robot
        joints = _joints(robot)
        speeds = _rows((robot.nq + i, robot.nv + i) for i in range(robot.nv))
        return joints._replace(flat=np.concatenate([joints.flat, speeds]))
    if dynamics.nx != dynamics.n:
        raise ProblemError(
            f"dynamics: expected a robot's, or one with as many tangent numbers as state numbers; got"
            f" n = {dynamics.n}, nx = {dynamics.nx}. Write a cost term of your own on this manifold"
        )
    return Layout(_rows((i, i) for i in range(dynamics.n)), _rows(()), _rows(()))


def scalar_joints(robot: Robot) -> Layout:
    """Only the revolute and prismatic joints of a robot's configuration."""
    return Layout(_joints(robot).flat, _rows(()), _rows(()))


def _joints(robot: Robot) -> Layout:
    tree = robot.tree
    rows = list(zip(tree.kind, tree.iq, tree.iv, strict=True))
    return Layout(
        flat=_rows((q, v) for kind, q, v in rows if kind not in (CONTINUOUS, FREE_FLYER)),
        circle=_rows((q, v) for kind, q, v in rows if kind == CONTINUOUS),
        body=_rows((q, v) for kind, q, v in rows if kind == FREE_FLYER),
    )

"""Layout of a state: which numbers make which tangent coordinates, for costs and constraints on states."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ddp.errors import ProblemError
from ddp.protocols import Array
from ddp.system import System
from dynamics.geometry.joint_motion import GROUPS, UNIT_NUMBERS
from dynamics.phases.phased_dynamics import PhasedDynamics
from dynamics.robots.model import Robot
from dynamics.steps.robot_dynamics import RobotDynamics


class Layout(NamedTuple):
    """Rows (index in x, index in the tangent), each array (any, 2), those of ``group`` (any, 4).

    flat: plain numbers, subtracted.   circle: angles kept as (cos, sin).
    group: free-flyers, spherical and planar joints; two more columns, the kind and the degrees of freedom.
    """

    flat: NDArray[np.int64]
    circle: NDArray[np.int64]
    group: NDArray[np.int64]

    def weighted(self, weights: Array) -> Layout:
        """Keep the rows whose tangent numbers have a weight."""
        flat, circle = (rows[weights[rows[:, 1]] != 0.0] for rows in (self.flat, self.circle))
        moving = [weights[t : t + nj].any() for _, t, _, nj in self.group]
        return Layout(flat, circle, self.group[np.array(moving, dtype=bool)])


def _rows(rows: Iterable[tuple[int, ...]], columns: int = 2) -> NDArray[np.int64]:
    return np.array(list(rows), dtype=np.int64).reshape(-1, columns)


_known: WeakKeyDictionary[Robot, Layout] = WeakKeyDictionary()
"""Layouts of robots' states that have been asked for: terms that vary ask again and again."""


def state_layout(dynamics: System) -> Layout:
    """The layout of a system's states: by the joints of a robot, plain numbers for anything else."""
    if isinstance(dynamics, (RobotDynamics, PhasedDynamics)):
        robot = dynamics.robot
        if robot not in _known:
            joints = _joints(robot)
            speeds = _rows((robot.nq + i, robot.nv + i) for i in range(robot.nv))
            _known[robot] = joints._replace(flat=np.concatenate([joints.flat, speeds]))
        return _known[robot]
    if dynamics.nx != dynamics.n:
        raise ProblemError(
            f"dynamics: expected a robot's, or one with as many tangent numbers as state numbers; got"
            f" n = {dynamics.n}, nx = {dynamics.nx}. Write a cost term of your own on this manifold"
        )
    return Layout(_rows((i, i) for i in range(dynamics.n)), _rows(()), _rows((), 4))


def scalar_joints(robot: Robot) -> Layout:
    """Only the angles and lengths of a robot's configuration that are plain numbers."""
    return Layout(_joints(robot).flat, _rows(()), _rows((), 4))


def _joints(robot: Robot) -> Layout:
    tree = robot.tree
    rows = list(zip(tree.kind, tree.iq, tree.iv, tree.nj, strict=True))
    return Layout(
        flat=_rows((q + k, v + k) for kind, q, v, nj in rows if kind not in UNIT_NUMBERS for k in range(nj)),
        circle=_rows((q, v) for kind, q, v, _ in rows if kind in UNIT_NUMBERS and kind not in GROUPS),
        group=_rows(((q, v, kind, nj) for kind, q, v, nj in rows if kind in GROUPS), 4),
    )

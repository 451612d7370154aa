"""Layout of a state: which numbers make which tangent coordinates, for costs and constraints on states."""

from collections.abc import Iterable
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ddp.errors import ProblemError
from ddp.protocols import Array
from ddp.systems.system import System
from ddp.tracing.function import space_of
from ddp.tracing.groups import Euclidean
from ddp.tracing.spaces import Space
from dynamics.geometry.joint_motion import CONTINUOUS, GROUPS
from dynamics.phases.phased_dynamics import PhasedDynamics
from dynamics.robots.joints import NUMBERS, UNIT_NUMBERS
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

    def weighted(self, weights: Array) -> "Layout":
        """Keep the rows whose tangent numbers have a weight."""
        flat, circle = (rows[weights[rows[:, 1]] != 0.0] for rows in (self.flat, self.circle))
        moving = [weights[t : t + nj].any() for _, t, _, nj in self.group]
        return Layout(flat, circle, self.group[np.array(moving, dtype=bool)])


def from_the_end(count: int) -> NDArray[np.int64]:
    """Places of the last numbers, which controls are in z = (dx, du)."""
    return np.arange(-count, 0)


def _rows(rows: Iterable[tuple[int, ...]], columns: int = 2) -> NDArray[np.int64]:
    return np.array(list(rows), dtype=np.int64).reshape(-1, columns)


_known: WeakKeyDictionary[Robot, Layout] = WeakKeyDictionary()
"""Layouts of robots' states that have been asked for: terms that vary ask again and again."""


def state_layout(dynamics: System) -> Layout:
    """The layout of a system's states: by the joints of a robot, or by the space of states."""
    if isinstance(dynamics, (RobotDynamics, PhasedDynamics)):
        robot = dynamics.robot
        if robot not in _known:
            joints = _joints(robot)
            speeds = _rows((robot.nq + i, robot.nv + i) for i in range(robot.nv))
            _known[robot] = joints._replace(flat=np.concatenate([joints.flat, speeds]))
        return _known[robot]
    space = space_of(dynamics)
    unknown = [] if space is None else [part for part in space.parts if type(part) not in _KINDS]
    if space is None or unknown:
        why = f"of {unknown[0]}" if unknown else f"with n = {dynamics.n}, nx = {dynamics.nx}"
        raise ProblemError(
            "dynamics: expected a robot's, or one whose states are plain numbers, of SO3() or SE3(); got one"
            f" {why}. Write a cost term of your own on this manifold, with space.minus(x, target)"
        )
    return _of_space(space)


_KINDS = {type(NUMBERS[kind].space): kind for kind in UNIT_NUMBERS} | {Euclidean: None}
"""Kinds of joints that move as parts of spaces do; None: plain numbers."""


def _of_space(space: Space) -> Layout:
    flat: list[tuple[int, ...]] = []
    circle: list[tuple[int, ...]] = []
    group: list[tuple[int, ...]] = []
    i = j = 0
    for part in space.parts:
        kind = _KINDS[type(part)]
        if kind is None:
            flat += [(i + k, j + k) for k in range(part.n)]
        elif kind == CONTINUOUS:
            circle.append((i, j))
        else:
            group.append((i, j, kind, part.n))
        i, j = i + part.nx, j + part.n
    return Layout(_rows(flat), _rows(circle), _rows(group, 4))


def scalar_joints(robot: Robot) -> Layout:
    """Layout of the angles and lengths of a robot's configuration that are plain numbers, alone."""
    return Layout(_joints(robot).flat, _rows(()), _rows((), 4))


def _joints(robot: Robot) -> Layout:
    tree = robot.tree
    rows = list(zip(tree.kind, tree.iq, tree.iv, tree.nj, strict=True))
    return Layout(
        flat=_rows((q + k, v + k) for kind, q, v, nj in rows if kind not in UNIT_NUMBERS for k in range(nj)),
        circle=_rows((q, v) for kind, q, v, _ in rows if kind in UNIT_NUMBERS and kind not in GROUPS),
        group=_rows(((q, v, kind, nj) for kind, q, v, nj in rows if kind in GROUPS), 4),
    )

"""The base that legs carry: free in the world, or on rails that hold it in a plane and have no motors."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp.protocols import Array
from dynamics.quantities.units import FREE
from dynamics.robots.joints import subspace
from dynamics.robots.libraries import pin

if TYPE_CHECKING:
    from dynamics.phases.phased_dynamics import PhasedDynamics


class Base(NamedTuple):
    """Base of a robot on legs.

    dofs (b,): its degrees of freedom, the robot's first ones.   slides (b,): which of them are along lines, in which
    it moves; others turn it.   joint: 1, 2, ..., the last of its joints, which moves the base itself.
    """

    dofs: NDArray[np.int64]
    slides: tuple[bool, ...]
    joint: int


def base_of(system: "PhasedDynamics", q: Array) -> Base | None:
    """The base of a system's robot in q (nq,): a free-flyer, or joints without motors one behind the other.

    None where gravity moves neither: of a robot that is fixed, or that slides on level rails.
    """
    robot = system.robot
    gravity = robot.model.gravity.linear
    if not gravity.any():
        return None
    if robot.is_floating:
        alone = robot.floating_dofs.tolist() == list(range(6))
        return Base(np.arange(6), FREE, 1) if alone else None
    data, tree = robot.model.createData(), robot.tree
    pin.forwardKinematics(robot.model, data, q)
    weight = np.linalg.norm(gravity)
    driven, slides, falls = np.asarray(system.actuation.any(axis=1)), list[bool](), False
    for j in range(1, robot.model.njoints):
        own = np.flatnonzero(tree.body == j - 1)
        if tree.parent[j - 1] != j - 2 or driven[own].any():
            break
        for axis in subspace(robot.model, j):
            slides.append(not axis[3:].any())
            falls = falls or (slides[-1] and abs(data.oMi[j].rotation @ axis[:3] @ gravity) > 0.5 * weight)
    count = len(slides)
    return Base(np.arange(count), tuple(slides), int(tree.body[count - 1]) + 1) if falls else None

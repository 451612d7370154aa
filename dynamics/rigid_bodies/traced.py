# mypy: allow-untyped-defs, allow-untyped-calls
"""Inverse and forward dynamics in functions of users, with Jacobians and weighted Hessians.

Kernels are ``(*arguments, a, order, y, weight, J, H)`` of `ddp.tracing.quantities`.
"""

from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ddp.compiling.kernel import inline, kernel
from ddp.tracing.quantities import SECOND, VALUES, Quantity, is_fixed, refuse
from ddp.tracing.spaces import Space, plain_space
from dynamics.rigid_bodies import batch
from dynamics.robots.model import Robot, check_robot
from dynamics.robots.tree import space_of_configurations

is_fixed(Robot)

_known: WeakKeyDictionary[Robot, tuple[Space, Space]] = WeakKeyDictionary()
"""Spaces of q and of v that have been asked for."""


def spaces_of(robot: Robot, *others: str) -> tuple[tuple[str, Space], ...]:
    """Spaces of q and, by name, of what has nv numbers."""
    check_robot(robot)
    if robot not in _known:
        _known[robot] = space_of_configurations(robot.tree), plain_space(robot.nv)
    configurations, velocities = _known[robot]
    return ("q", configurations), *((name, velocities) for name in others)


@inline
def _split(a, nq, nv):
    """q, and two vectors of nv numbers, of samples: arrays of their own."""
    M = a.shape[0]
    Q, V, W = np.empty((M, nq)), np.empty((M, nv)), np.empty((M, nv))
    for k in range(M):
        for i in range(nq):
            Q[k, i] = a[k, i]
        for i in range(nv):
            V[k, i], W[k, i] = a[k, nq + i], a[k, nq + nv + i]
    return Q, V, W


@kernel
def torques(tree, size, nq, nv, a, order, y, weight, J, H):
    """Inverse dynamics of (q, v, a)."""
    M = a.shape[0]
    memory, none, (Q, V, A) = np.empty(size), np.empty((M, 0, 6)), _split(a, nq, nv)
    if order == SECOND:
        second = np.empty((4, M, nv, nv))
        batch.inverse_dynamics_hessian(tree, memory, Q, V, A, weight, none, second)
        add_blocks(second, H)
        return
    batch.inverse_dynamics(tree, memory, Q, V, A, none, y)
    if order != VALUES:
        first = np.empty((3, M, nv, nv))
        batch.inverse_dynamics_derivatives(tree, memory, Q, V, A, none, first)
        write_blocks(first, J)


@kernel
def accelerations(tree, size, nq, nv, a, order, y, weight, J, H):
    """Forward dynamics of (q, v, tau); NaN where the mass matrix is singular."""
    M = a.shape[0]
    memory, none, (Q, V, tau) = np.empty(size), np.empty((M, 0, 6)), _split(a, nq, nv)
    if order == SECOND:
        second, unwanted = np.empty((4, M, nv, nv)), np.empty((0, 0, nv, nv))
        batch.forward_dynamics_hessian(tree, memory, Q, V, tau, weight, none, unwanted, second)
        add_blocks(second, H)
        return
    failed = batch.forward_dynamics_by_mass(tree, memory, Q, V, tau, none, y, np.empty((0, nv, nv)))
    if order != VALUES and failed < 0:
        first = np.empty((3, M, nv, nv))
        failed = batch.forward_dynamics_derivatives(tree, memory, Q, V, tau, none, first)
        write_blocks(first, J)
    if failed >= 0:
        for k in range(M):
            for i in range(nv):
                y[k, i] = np.nan


@kernel
def write_blocks(first, J):
    """J (M, nv, 3 nv) := derivatives by each argument, (3, M, nv, nv)."""
    nv = first.shape[2]
    for k in range(J.shape[0]):
        for b in range(3):
            for i in range(nv):
                for j in range(nv):
                    J[k, i, b * nv + j] = first[b, k, i, j]


@kernel
def add_blocks(second, H):
    """H (M, 3 nv, 3 nv) += blocks qq, iterated and so made symmetric, qv, vv and those of q and the third argument."""
    nv = second.shape[2]
    for k in range(H.shape[0]):
        for i in range(nv):
            for j in range(nv):
                H[k, i, j] += 0.5 * (second[0, k, i, j] + second[0, k, j, i])
                H[k, nv + i, nv + j] += second[2, k, i, j]
                for b, block in ((1, 1), (2, 3)):
                    H[k, i, b * nv + j] += second[block, k, i, j]
                    H[k, b * nv + j, i] += second[block, k, i, j]


def _of_motion(name: str, of: Any, last: str, robot: Robot, fext: Any, fext_frame: str) -> Quantity:
    spaces, tree = spaces_of(robot, "v", last), robot.tree
    if fext is not None:
        refuse(f"{name} with wrenches (fext)")
    own = tree, batch.size(tree.nb, robot.nq, robot.nv, robot.room), robot.nq, robot.nv
    return Quantity(name, robot, robot.nv, spaces, np.arange(3 * robot.nv), of, own)


torques_of = partial(_of_motion, "inverse_dynamics", torques, "a")
accelerations_of = partial(_of_motion, "forward_dynamics", accelerations, "tau")

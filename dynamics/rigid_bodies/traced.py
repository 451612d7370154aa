# mypy: allow-untyped-defs, allow-untyped-calls
"""Inverse and forward dynamics in functions of users: one sample, with Jacobian and weighted Hessian.

Kernels are ``(*arguments, a, order, y, weight, J, H)`` of `ddp.tracing.quantities`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ddp.compiling.kernel import kernel
from ddp.tracing import reads
from ddp.tracing.numbers import TraceError
from ddp.tracing.quantities import SECOND, VALUES, Quantity
from ddp.tracing.spaces import Space, plain_space
from dynamics.rigid_bodies import batch
from dynamics.robots.model import Robot, check_robot
from dynamics.robots.space import space_of_configurations

reads.FIXED.add(Robot.__module__)

Traced = tuple[Quantity, tuple[Any, ...], Callable[[Any], Any]]
"""What `traceable` wants: a quantity, its arguments, and what makes a result of its numbers."""


def spaces_of(robot: Robot, *others: str) -> tuple[tuple[str, Space], ...]:
    """Spaces of q and, by name, of what has nv numbers."""
    check_robot(robot)
    own = plain_space(robot.nv)
    return ("q", space_of_configurations(robot.tree)), *((name, own) for name in others)


@kernel
def torques(tree, size, nq, nv, a, order, y, weight, J, H):
    """Inverse dynamics of (q, v, a)."""
    memory, none = np.empty(size), np.empty((1, 0, 6))
    Q, V, A = a[:nq].reshape(1, nq), a[nq : nq + nv].reshape(1, nv), a[nq + nv :].reshape(1, nv)
    batch.inverse_dynamics(tree, memory, Q, V, A, none, y.reshape(1, nv))
    if order != VALUES:
        first = np.empty((3, 1, nv, nv))
        batch.inverse_dynamics_derivatives(tree, memory, Q, V, A, none, first)
        write_blocks(first, J)
    if order == SECOND:
        second = np.empty((4, 1, nv, nv))
        batch.inverse_dynamics_hessian(tree, memory, Q, V, A, weight.reshape(1, nv), none, second)
        add_blocks(second, H)


@kernel
def accelerations(tree, size, nq, nv, a, order, y, weight, J, H):
    """Forward dynamics of (q, v, tau); NaN where the mass matrix is singular."""
    memory, none = np.empty(size), np.empty((1, 0, 6))
    Q, V, tau = a[:nq].reshape(1, nq), a[nq : nq + nv].reshape(1, nv), a[nq + nv :].reshape(1, nv)
    failed = batch.forward_dynamics_by_mass(tree, memory, Q, V, tau, none, y.reshape(1, nv))
    if order != VALUES:
        first = np.empty((3, 1, nv, nv))
        failed = max(failed, batch.forward_dynamics_derivatives(tree, memory, Q, V, tau, none, first))
        write_blocks(first, J)
    if order == SECOND:
        second, unwanted = np.empty((4, 1, nv, nv)), np.empty((3, 0, nv, nv))
        w = weight.reshape(1, nv)
        failed = max(failed, batch.forward_dynamics_hessian(tree, memory, Q, V, tau, w, none, unwanted, second))
        add_blocks(second, H)
    if failed >= 0:
        for i in range(nv):
            y[i] = np.nan


@kernel
def write_blocks(first, J):
    """J (nv, 3 nv) := derivatives by each argument, (3, 1, nv, nv)."""
    nv = first.shape[2]
    for b in range(3):
        for i in range(nv):
            for j in range(nv):
                J[i, b * nv + j] = first[b, 0, i, j]


@kernel
def add_blocks(second, H):
    """H (3 nv, 3 nv) += blocks qq, iterated and so made symmetric, qv, vv and those of q and the third argument."""
    nv = second.shape[2]
    for i in range(nv):
        for j in range(nv):
            H[i, j] += 0.5 * (second[0, 0, i, j] + second[0, 0, j, i])
            H[nv + i, nv + j] += second[2, 0, i, j]
            for b, block in ((1, 1), (2, 3)):
                H[i, b * nv + j] += second[block, 0, i, j]
                H[b * nv + j, i] += second[block, 0, i, j]


def torques_of(robot: Robot, q: Any, v: Any, a: Any, fext: Any = None, *, fext_frame: str = "local") -> Traced:
    """`rigid_body.inverse_dynamics`."""
    return _of_motion("inverse_dynamics", torques, robot, (q, v, a), "a", fext)


def accelerations_of(robot: Robot, q: Any, v: Any, tau: Any, fext: Any = None, *, fext_frame: str = "local") -> Traced:
    """`rigid_body.forward_dynamics`."""
    return _of_motion("forward_dynamics", accelerations, robot, (q, v, tau), "tau", fext)


def _of_motion(name: str, of: Any, robot: Robot, arguments: tuple[Any, ...], last: str, fext: Any) -> Traced:
    spaces, tree = spaces_of(robot, "v", last), robot.tree
    if fext is not None:
        raise TraceError(f"{name} with wrenches (fext)")
    own = tree, batch.size(tree.nb, robot.nq, robot.nv, robot.room), robot.nq, robot.nv
    return Quantity(name, robot, robot.nv, spaces, np.arange(3 * robot.nv), of, own), arguments, lambda y: y

# mypy: allow-untyped-defs, allow-untyped-calls
"""One sample after the other, as fast as that goes: for controllers and simulators rather than for trajectories."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.kernel import kernel
from ddp.errors import ModelError, numbers
from dynamics.arrays.tables import matrix, vector
from dynamics.arrays.views import views_of
from dynamics.rigid_bodies.batch import Relation, relate
from dynamics.rigid_bodies.forward import is_positive
from dynamics.rigid_bodies.kinematics import Workspace
from dynamics.rigid_bodies.results import ForwardDerivatives
from dynamics.robots.model import Robot, check_robot
from dynamics.robots.tree import Tree

Array = NDArray[np.float64]


class OneSample:
    """A robot's dynamics at one sample at a time, into memory that is used again.

    Unlike in rigid_body.py nothing is checked but that the mass matrix is positive definite: arguments are contiguous
    arrays of float64 of the right shapes, quaternions unit. Results are views that the next call overwrites. One object
    serves one thread.
    """

    def __init__(self, robot: Robot) -> None:
        check_robot(robot)
        self.robot = robot
        nb, nv = robot.tree.nb, robot.nv
        self._scratch = np.zeros(95 * nb + 39 * nv + 4 * nv**2)
        self._first = np.zeros((3, robot.nv, robot.nv))
        self._derivatives = ForwardDerivatives(*self._first)

    def forward_dynamics_derivatives(self, q: Array, v: Array, tau: Array) -> ForwardDerivatives:
        """∂a/∂q, ∂a/∂v, ∂a/∂τ = M⁻¹, each (nv, nv). ModelError if M is not positive definite."""
        if not forward_derivatives_at(self.robot.tree.address, self._scratch, q, v, tau, self._first):
            raise ModelError(f"{self.robot.name}: the mass matrix is not positive definite at q = {numbers(q)}")
        return self._derivatives


@kernel
def forward_derivatives_at(context, memory, q, v, tau, first):
    """∂a/∂q, ∂a/∂v, M⁻¹ into first (3, nv, nv); whether the mass matrix is positive definite."""
    tree = Tree(context)
    nb, nv = tree.nb, tree.nv
    scratch = memory.ctypes.data
    ws, r = views_of(workspace_at(scratch, nb, nv)), relation_at(scratch + 8 * (95 * nb + 36 * nv), nv, first)
    relate(tree, q, v, tau, matrix(scratch, 0, 6), ws, r)
    return is_positive(r.D, r.a)


@kernel
def workspace_at(address, nb, nv):
    """A ``Workspace`` of floats in 95 nb + 36 nv of them."""
    b, d = 8 * nb, 8 * nv
    s = address + 95 * b
    return Workspace(
        matrix(address, nb, 9), matrix(address + 9 * b, nb, 3), matrix(address + 12 * b, nb, 6),
        matrix(address + 18 * b, nb, 6), matrix(address + 24 * b, nb, 6), matrix(address + 30 * b, nb, 10),
        matrix(address + 40 * b, nb, 10), matrix(address + 50 * b, nb, 6), matrix(address + 56 * b, nb, 12),
        matrix(address + 68 * b, nb, 12), matrix(address + 80 * b, nb, 12), matrix(address + 92 * b, nb, 3),
        matrix(s, nv, 6), matrix(s + 6 * d, nv, 6), matrix(s + 12 * d, nv, 6),
        matrix(s + 18 * d, nv, 6), matrix(s + 24 * d, nv, 6), matrix(s + 30 * d, nv, 6),
    )  # fmt: skip


@kernel
def relation_at(address, nv, first):
    """A ``Relation`` in 4 nv² + 3 nv floats, its results a_q, a_v, M⁻¹ in ``first`` (3, nv, nv)."""
    m, d = 8 * nv * nv, 8 * nv
    square = address + 3 * d
    return Relation(
        vector(address, nv), vector(address + d, nv), first[2], first[0], first[1], matrix(square, nv, nv),
        matrix(square + m, nv, nv), matrix(square + 2 * m, nv, nv), matrix(square + 3 * m, nv, nv),
        vector(address + 2 * d, nv),
    )  # fmt: skip

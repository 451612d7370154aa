# mypy: allow-untyped-defs, allow-untyped-calls
"""One sample after the other, as fast as that goes: for controllers and simulators rather than for trajectories."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.kernel import kernel
from ddp.errors import ModelError, numbers
from dynamics.rigid_bodies.batch import relate
from dynamics.rigid_bodies.forward import is_positive
from dynamics.rigid_bodies.kinematics import views_of
from dynamics.rigid_bodies.results import ForwardDerivatives
from dynamics.robots.flattened import Packed
from dynamics.robots.model import Robot, check_robot
from dynamics.robots.packed import matrix, read_numbers, read_tree, relation_at, workspace_at

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
        self._packed = Packed(robot.tree, robot.nq)
        self._context = self._packed.address
        self._first = np.zeros((3, robot.nv, robot.nv))
        self._derivatives = ForwardDerivatives(*self._first)

    def forward_dynamics_derivatives(self, q: Array, v: Array, tau: Array) -> ForwardDerivatives:
        """∂a/∂q, ∂a/∂v, ∂a/∂τ = M⁻¹, each (nv, nv). ModelError if M is not positive definite."""
        if not forward_derivatives_at(self._context, q, v, tau, self._first):
            raise ModelError(f"{self.robot.name}: the mass matrix is not positive definite at q = {numbers(q)}")
        return self._derivatives


@kernel
def forward_derivatives_at(context, q, v, tau, first):
    """∂a/∂q, ∂a/∂v, M⁻¹ into first (3, nv, nv); whether the mass matrix is positive definite."""
    tree = views_of(read_tree(context))
    nb, nv = tree.parent.size, tree.body.size
    scratch = read_numbers(context)[4]
    ws, r = views_of(workspace_at(scratch, nb, nv)), relation_at(scratch + 8 * (95 * nb + 36 * nv), nv, first)
    relate(tree, q, v, tau, matrix(scratch, 0, 6), ws, r)
    return is_positive(r.D, r.a)

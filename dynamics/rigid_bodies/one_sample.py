# mypy: allow-untyped-defs, allow-untyped-calls
"""One sample after the other, as fast as that goes: for controllers and simulators rather than for trajectories."""

import numpy as np

from ddp.compiling.kernel import kernel
from ddp.errors import ModelError, numbers
from ddp.machine.memory import as_matrix, rows_of
from ddp.protocols import Array
from dynamics.rigid_bodies.batch import forward_dynamics_derivatives, size
from dynamics.rigid_bodies.rigid_body import ForwardDerivatives
from dynamics.robots.model import Robot, check_rigid


class OneSample:
    """A robot's dynamics at one sample at a time, into memory that is used again.

    Unlike in rigid_body.py nothing is checked but that the mass matrix is positive definite: arguments are contiguous
    arrays of float64 of the right shapes, quaternions unit. Results are views that the next call overwrites. One object
    serves one thread.
    """

    def __init__(self, robot: Robot) -> None:
        check_rigid(robot)
        self.robot = robot
        self._memory = np.zeros(size(robot.tree.nb, robot.nq, robot.nv))
        self._out = np.zeros((3, 1, robot.nv, robot.nv))
        self._derivatives = ForwardDerivatives(*self._out[:, 0])

    def forward_dynamics_derivatives(self, q: Array, v: Array, tau: Array) -> ForwardDerivatives:
        """∂a/∂q, ∂a/∂v, ∂a/∂τ = M⁻¹, each (nv, nv). ModelError if M is not positive definite."""
        if forward_derivatives_at(self.robot.tree.address, self._memory, q, v, tau, self._out) >= 0:
            raise ModelError(f"{self.robot.name}: the mass matrix is not positive definite at q = {numbers(q)}")
        return self._derivatives


@kernel
def forward_derivatives_at(address, memory, q, v, tau, out):
    """`forward_dynamics_derivatives` of one sample: -1, or 0 where the mass matrix is not positive definite."""
    Q, V, T = as_matrix(rows_of(q), 1, q.size), as_matrix(rows_of(v), 1, v.size), as_matrix(rows_of(tau), 1, v.size)
    return forward_dynamics_derivatives(address, memory, Q, V, T, as_matrix(rows_of(q), 1, 0), out)

"""Quadratic costs of plain states and controls, and of torques beyond those that carry a robot's weight."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ddp.costs.batch import CompiledCost
from ddp.costs.bound import bind
from ddp.costs.terms import FunctionTerm
from ddp.costs.traced import TracedTerm
from ddp.errors import ProblemError, as_array, axes, instance
from ddp.protocols import Array
from dynamics.phases.phased_dynamics import PhasedDynamics
from dynamics.rigid_bodies.rigid_body import inverse_dynamics
from dynamics.steps.robot_dynamics import RobotDynamics
from problems import checks
from problems.kernels import states as state_kernels
from problems.terms import KernelTerm, MovingTerm, OfTorques


@dataclass(frozen=True, eq=False)
class Quadratic(MovingTerm, KernelTerm):
    """``½ (x - target)ᵀ Q (x - target) + ½ uᵀ R u`` of states that are plain numbers.

    target: a number or (nx,), or (M, nx) for each knot of a stretch.
    Q: a number, (nx,) for a diagonal, or (nx, nx), symmetric and positive semidefinite.
    R: a number, (nu,) or (nu, nu); 0 for none, as at the end of the horizon, where there is no control.
    """

    target: Array
    Q: Array
    R: ArrayLike = 0.0

    def __post_init__(self) -> None:
        sizes = [np.shape(value)[-1] for value in (self.target, self.Q) if axes(value) > 0]
        if not sizes:
            raise ProblemError("target, Q: expected one of (nx,) at least, got two numbers")
        nx = int(sizes[0])
        target = np.full(nx, as_array("target", self.target, ())) if axes(self.target) == 0 else self.target
        checks.settle(self, target=checks.targets("target", target, nx), Q=checks.weighting("Q", self.Q, nx))
        if axes(self.R) == 0:
            R: float | Array = checks.weight("R", self.R)
        else:
            R = checks.weighting("R", self.R, int(np.shape(self.R)[-1]))
        checks.settle(self, R=R, _targets=self.target.reshape(-1, nx))

    @property
    def n(self) -> int:
        return self._targets.shape[1]

    @property
    def separable(self) -> bool:
        """Whether neither Q nor R is a matrix."""
        return self.Q.ndim == 1 and np.ndim(self.R) < 2

    def _bound(self) -> CompiledCost:
        R = np.atleast_1d(np.asarray(self.R, dtype=np.float64))
        if self.separable:
            return bind(state_kernels.diagonal_cost, self._targets, self.Q, R, separable=True)
        W = np.full((1, 1), R[0]) if R.size == 1 else checks.as_matrix(R)
        return bind(state_kernels.quadratic_cost, self._targets, np.zeros(1), checks.as_matrix(self.Q), W)

    def _check(self, X: Array, U: Array) -> None:
        checks.rows("numbers in a state", X, self.n)
        if np.ndim(self.R) > 0:
            checks.rows("controls", U, len(np.asarray(self.R)))


@dataclass(frozen=True, eq=False)
class GravityTorqueCost(OfTorques, KernelTerm):
    """``½ (τ - g(q))ᵀ W (τ - g(q))`` of the torques τ = S u beyond those g that carry a robot's weight at rest.

    dynamics: a robot's, whose actuation S it is.
    weights: W of the degrees of freedom that controls act on, in their order: one number for all, one for each, or a
        symmetric positive semidefinite matrix.
    """

    dynamics: RobotDynamics | PhasedDynamics
    weights: Array
    _rows: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        instance("dynamics", self.dynamics, (RobotDynamics, PhasedDynamics), "RobotDynamics or PhasedDynamics")
        rows = np.flatnonzero(self.dynamics.actuation.any(axis=1))
        weights = checks.weighting("weights", self.weights, len(rows))
        checks.settle(self, _rows=rows, weights=weights)

    def _bound(self) -> CompiledCost:
        robot, rows, W = self.dynamics.robot, self._rows, checks.as_matrix(self.weights)
        nq, still, S = robot.nq, np.zeros(robot.nv), self.dynamics.actuation[rows]

        def value(x: Any, u: Any) -> Any:
            r = S @ u - inverse_dynamics(robot, x[:nq], still, still)[rows]
            return 0.5 * r @ (W @ r)

        return TracedTerm(FunctionTerm(value), self.dynamics).compiled

    def _check(self, X: Array, U: Array) -> None:
        checks.rows("numbers in a state", X, self.dynamics.nx)
        checks.rows("controls", U, self.dynamics.nu)

"""Robots driven by velocities: base twists and joints' rates are what is commanded, and what can roll does not slip."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import ModelError, ProblemError, as_array, positive, suggesting
from ddp.systems.by_knot import ByKnot
from ddp.systems.derived_dynamics import checked_state, followed
from dynamics.robots.equipment import pairs_of_limits
from dynamics.robots.model import Robot, check_rigid
from dynamics.robots.tree import space_of_states
from dynamics.steps.names import names_of


@suggesting
class KinematicDynamics(ByKnot):
    """``v' = S u``, ``q' = q ⊕ dt v'`` of a robot, x = (q, v): velocities are commanded, forces are not asked for.

    robot: from ``dynamics.load``.   dt [s]: the time step.
    rates S (nv, nu): velocities per unit of each control; default one control for each degree of freedom. Velocities of
    a free-flyer or a planar joint are twists in the base's own axes, so that a base on wheels has no column for what
    wheels cannot do: ``np.delete(np.eye(nv), 1, axis=1)`` leaves out the lateral velocity, and no motion slips.
    control_limits (nu, 2): lower and upper limit of each control, ±inf for none; default none.

    Accelerations are controls in ``augment.rates(KinematicDynamics(...))``. Terms of robots serve as they are.
    """

    _fixed = "robot", "dt", "rates"

    def __init__(
        self, robot: Robot, dt: float, rates: ArrayLike | None = None, control_limits: ArrayLike | None = None
    ) -> None:
        check_rigid(robot)
        if robot.loops:
            raise ModelError(f"{robot.name} has loops, which only RobotDynamics(integrator='implicit-euler') holds")
        self.robot, self.dt = robot, positive("dt", dt)
        self.rates = as_array("rates", np.eye(robot.nv) if rates is None else rates, (robot.nv, None)).copy()
        self.rates.flags.writeable = False  # kernels have its numbers by then
        self.nx, self.nu = robot.nq + robot.nv, self.rates.shape[1]
        if self.nu == 0:
            raise ProblemError("rates: expected at least one column, got none")
        self.control_limits = pairs_of_limits("control_limits", control_limits, self.nu)
        self._space = space_of_states(robot.tree)
        space, S, h, nq, still = self._space, self.rates, self.dt, robot.nq, np.zeros(robot.nv)

        def step(x: Any, u: Any) -> Any:
            v = S @ u
            return np.concatenate([space.plus(x, np.concatenate([h * v, still]))[:nq], v])

        self._step = step
        self._traced = followed("step", step, self.nx, self.nu, None, space)

    @property
    def named_numbers(self) -> tuple[list[str], list[str], list[str]]:
        return names_of(self.robot, self.rates)

    def _called(self, x: Any, u: Any) -> Any:
        return checked_state("step", self._step, x, u, self.nx)

    def __reduce__(self) -> Any:
        return KinematicDynamics, (self.robot, self.dt, self.rates, self.control_limits)

    def __repr__(self) -> str:
        return f"KinematicDynamics({self.robot.name!r}, dt={self.dt}, nu={self.nu})"

"""Tracking of robots' motions: weights of errors by Bryson's rule."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp.protocols import Array
from ddp.systems.system import Cones, Contraction, Footing, System, Tracking
from dynamics.quantities.units import forces_of
from dynamics.rods.hybrid_robot import HybridRobot
from dynamics.steps.deviations import deviation
from dynamics.steps.stepped_robot import SteppedRobot

ERROR, RATE, SHARE = 0.02, 0.2, 0.2
"""Errors of positions [rad, m] and velocities [rad/s, m/s], and the share of the largest control, that weigh the same:
Bryson's rule. The largest control is the motion's, or one that holds its start against gravity; controls count by the
forces that they make."""


@dataclass(frozen=True, eq=False)
class TrackedRobot:
    """Knowledge of a robot without contacts for feedback: see `ddp.systems.system.Tracked`."""

    system: SteppedRobot

    def weights(self, X: Array, U: Array) -> Tracking:
        """Weights by Bryson's rule about a motion X (N+1, nx), U (N, nu); nothing is forbidden."""
        nv, nu, made = self.system.robot.nv, self.system.nu, forces_of(self.system.actuation)
        holding = np.abs(made * self.system.nominal_control(X[0])).max()
        largest = max(np.abs(made * U).max(initial=0.0), holding) or 1.0
        state = np.repeat([ERROR**-2.0, RATE**-2.0], nv) * np.tile(self._sizes() ** 2.0, 2)
        return Tracking(state, (SHARE * largest) ** -2.0 * made**2, state, np.zeros((nu, 2 * nv)))

    def stretches(self, horizon: int) -> list[range]:
        return [range(horizon)]

    def in_steps(self, counts: Sequence[int], durations: Sequence[float]) -> System:
        s: Any = self.system
        dt = durations[0] / counts[0]
        options = s.damping, s.springs, s.control_limits, s.prescribed
        return type(s)(s.robot, dt, s.actuation, s.integrator, *options)

    def free_and_resisted(self, X: Array) -> tuple[Array, Array]:
        free = np.tile(np.eye(self.system.n), (len(X), 1, 1))
        return free, np.zeros_like(free)

    def driven(self) -> NDArray[np.bool_]:
        robot = self.system.robot
        tendons = robot.recipe.tendons if isinstance(robot, HybridRobot) else {}
        pulled = [bool(tendons.get(body)) for body in robot.tree.body.tolist()]
        return np.asarray(np.logical_or(self.system.actuation.any(axis=1), pulled))

    def pulling(self) -> NDArray[np.bool_]:
        robot = self.system.robot
        return np.arange(self.system.nu) < (len(robot.tendons) if isinstance(robot, HybridRobot) else 0)

    def cones(self, X: Array, U: Array, friction: float) -> Cones | None:
        """None: there are no contacts."""
        return None

    def footing(self, X: Array) -> Footing | None:
        """None: there are no feet."""
        return None

    def deviation(self) -> Contraction:
        return deviation(self.system.robot.tree)

    def _sizes(self) -> Array:
        """Displacement of each degree of freedom [rad, m] by a unit of it (nv,): for strains of a rod, its length."""
        robot, sizes = self.system.robot, np.ones(self.system.robot.nv)
        if isinstance(robot, HybridRobot):
            for rod in robot.rods:
                sizes[robot.coordinates(rod.name)] = rod.length
        return sizes

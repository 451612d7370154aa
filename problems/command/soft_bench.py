"""Speed of soft and hybrid robots: derivatives, simulated motion and rest, beside the rows of a paper.

The paper is Mathew, Boyer, Lebastard and Renda, "Analytical derivatives of the geometric variable strain model", whose
numbers are the best of theirs in MATLAB on a desktop of an Intel Core i9. Inputs of systems are our own: theirs are in
figures alone. Times are of this process alone, the least of several, so that others on the machine matter little.
"""

from typing import NamedTuple

import numpy as np

from ddp.errors import ProblemError
from dynamics import inverse_dynamics_derivatives, inverse_dynamics_hessian, statics
from dynamics.rigid_bodies import batch
from dynamics.rods.hybrid_robot import HybridRobot
from problems.command.timing import least
from problems.soft.systems import SYSTEMS, system

KNOTS = 96
PAPER_MOTION = {
    "soft/cable-arm": 1.25, "soft/serial": 2.49, "soft/fin-ray": 69.0, "soft/parallel": 2.46, "soft/contact": 7.8,
    "soft/underwater": 1.17,
}  # fmt: skip
"""Seconds for 10 s of motion."""
PAPER_REST = {"soft/cable-arm": 3.3, "soft/serial": 6.3, "soft/parallel": 8.97}
"""Milliseconds for a configuration at rest."""


class Row(NamedTuple):
    """Times of one system; NaN where there is none.

    first, hessian [µs]: derivatives of inverse dynamics of both orders, the second contracted, without loads, of one
    knot alone; first_of_many, hessian_of_many: of one of many.   motion, paper_motion [s]: 10 s of motion.
    rest, paper_rest [ms]: a configuration at rest.
    """

    system: str
    degrees_of_freedom: int
    first: float
    first_of_many: float
    hessian: float
    hessian_of_many: float
    motion: float
    paper_motion: float
    rest: float
    paper_rest: float

    @property
    def cells(self) -> list[str]:
        """A line of a table."""
        return [self.system, str(self.degrees_of_freedom), *("" if np.isnan(x) else f"{x:.3g}" for x in self[2:])]


HEADER = (
    "system", "DoF", "1st order [µs]", "of many", "Hessian [µs]", "of many", "10 s [s]", "paper", "rest [ms]", "paper",
)  # fmt: skip


def row(name: str, repeat: int) -> Row:
    """Measure one system."""
    moving = system(name)
    robot = moving.robot
    if not isinstance(robot, HybridRobot):
        raise ProblemError(f"system: expected one with rods, got {name}")
    first, of_many, hessian, hessian_of_many = (1e6 * seconds for seconds in _derivatives(robot, repeat))
    moving.simulate(moving.dt)
    motion = least(moving.simulate, max(1, repeat // 10), warm=True)
    paper = PAPER_MOTION[name] * moving.seconds / 10.0
    rest = float("nan")
    if name in PAPER_REST:
        load = moving.u(0.5)
        rest = 1e3 * least(lambda: statics(robot, u=load), repeat)
    known = PAPER_REST.get(name, float("nan"))
    return Row(name, robot.nv, first, of_many, hessian, hessian_of_many, motion, paper, rest, known)


def rows(repeat: int) -> list[Row]:
    """Measure all systems."""
    return [row(name, repeat) for name in SYSTEMS]


def _derivatives(robot: HybridRobot, repeat: int) -> list[float]:
    """Seconds of first order and Hessian, of one knot in memory of floats and of one of many in that of lanes."""
    rng, tree, nv = np.random.default_rng(0), robot.tree, robot.nv
    Q = np.stack([robot.random_configuration(rng) for _ in range(KNOTS)])
    V, A, mu = rng.normal(size=(3, KNOTS, nv))
    q, v, a, weight = Q[:1], V[:1], A[:1], mu[:1]
    memory, fext = np.zeros(batch.size(tree.nb, robot.nq, nv, tree.room)), np.empty((1, 0))
    out, second = np.zeros((3, 1, nv, nv)), np.zeros((4, 1, nv, nv))
    return [
        least(lambda: batch.inverse_dynamics_derivatives(tree, memory, q, v, a, fext, out), repeat),
        least(lambda: inverse_dynamics_derivatives(robot, Q, V, A), repeat) / KNOTS,
        least(lambda: batch.inverse_dynamics_hessian(tree, memory, q, v, a, weight, fext, second), repeat),
        least(lambda: inverse_dynamics_hessian(robot, Q, V, A, mu), repeat) / KNOTS,
    ]

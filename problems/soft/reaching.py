"""Soft and hybrid arms bring their tips to points and rest there, within the tensions of their cables.

Cables only pull, so that controls have limits, and rods damp fast modes, so that steps are L-stable ones (SDIRK2).
Where a tip arrives, the residual vanishes and Gauss-Newton's model misses little: of `reach` iLQR and DDP take 12
iterations. Out of reach, where the arm folds up on the way, iLQR takes 27 and DDP 13: the last ones are linear and
quadratic. ``mayne compare soft/out-of-reach`` shows both.
"""

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import as_array, positive, positive_integer, suggesting
from ddp.problem import Problem
from ddp.protocols import Array
from dynamics.robots.rods import Rod
from dynamics.rods.hybrid_robot import HybridRobot
from dynamics.steps.robot_dynamics import RobotDynamics
from dynamics.steps.statics import statics
from problems import checks
from problems.costs import ControlCost, FramePosition, StateCost
from problems.soft.robots import cable_arm, serial_arm


@checks.weighing
def reach(
    position: ArrayLike = (0.3, 0.1, -0.3),
    largest_tension: float = 40.0,
    horizon: int = 40,
    dt: float = 0.02,
    tension_weight: float = 1e-4,
    speed_weight: float = 1e-4,
    position_weight: float = 1e3,
    final_speed_weight: float = 0.1,
) -> Problem:
    """Bring the tip of the hanging arm of five cables to a point, after ``horizon * dt`` seconds (0.8 s), from rest.

    position (3,): of the tip [m]; hanging, it is at (0, 0, -0.5).   largest_tension [N]: no cable pushes.
    tension_weight [1/N²]; speed_weight on rates of torsion and bending [m² s²], ten times that on rates of stretch and
    shear [s²]; final_speed_weight likewise; position_weight [1/m²].
    """
    arm = cable_arm()
    rates, still = weights_of_rates(arm.rods[0]), np.zeros(arm.nv)
    effort = np.full(len(arm.tendons), tension_weight)
    running = np.concatenate([still, speed_weight * rates])
    ending = np.concatenate([still, final_speed_weight * rates])
    return _reach(arm, "arm/tip", position, largest_tension, horizon, dt, effort, running, ending, position_weight)


@suggesting
def out_of_reach(
    position: ArrayLike = (0.5, 0.3, 0.1), largest_tension: float = 40.0, horizon: int = 40, dt: float = 0.02
) -> Problem:
    """Stretch the hanging arm of five cables towards a point that it cannot reach.

    The residual stays large, so that Gauss-Newton misses what curves the cost. The arguments are those of `reach`.
    """
    return reach(position, largest_tension, horizon, dt, position_weight=3e2)


@checks.weighing
def serial_reach(
    position: ArrayLike = (0.7, 0.4, -1.2),
    largest_tension: float = 40.0,
    horizon: int = 40,
    dt: float = 0.02,
    tension_weight: float = 1e-4,
    torque_weight: float = 1e-3,
    posture_weight: float = 0.1,
    joint_speed_weight: float = 0.1,
    speed_weight: float = 1e-3,
    position_weight: float = 1e3,
    final_joint_speed_weight: float = 10.0,
    final_speed_weight: float = 0.1,
) -> Problem:
    """Bring the tip of a soft finger on an arm of seven links to a point, after ``horizon * dt`` seconds (0.8 s).

    position (3,): of the tip [m]; hanging, it is at (0, 0, -1.9).   torque_weight [1/(N m)²], posture_weight [1/rad²],
    joint_speed_weight, final_joint_speed_weight [s²/rad²]: of the seven joints. The rest as in `reach`.
    """
    arm = serial_arm()
    links, rates = arm.nv - arm.rods[0].nv, weights_of_rates(arm.rods[0])
    effort = np.repeat([tension_weight, torque_weight], [len(arm.tendons), links])
    one = np.ones(links)
    running = np.concatenate([posture_weight * one, 0.0 * rates, joint_speed_weight * one, speed_weight * rates])
    ending = np.concatenate([np.zeros(arm.nv), final_joint_speed_weight * one, final_speed_weight * rates])
    return _reach(arm, "finger/tip", position, largest_tension, horizon, dt, effort, running, ending, position_weight)


def weights_of_rates(rod: Rod) -> Array:
    """Relative weights of rates of a rod's coordinates: 1 of torsion and bending [1/m], 10 of stretch and shear."""
    return np.repeat([1.0, 1.0, 1.0, 10.0, 10.0, 10.0], [0 if d is None else d + 1 for d in rod.degrees])


def _reach(
    arm: HybridRobot, tip: str, position: ArrayLike, largest_tension: float, horizon: int, dt: float,
    effort: Array, running: Array, ending: Array, position_weight: float,
) -> Problem:  # fmt: skip
    """The problem of an arm that hangs, whose first controls are tensions; weights of controls and of states."""
    system = RobotDynamics(arm, dt, integrator="sdirk2")
    rest = np.concatenate([statics(arm).q, np.zeros(arm.nv)])
    parts = [len(arm.tendons), system.nu - len(arm.tendons)]
    most = np.repeat([positive("largest_tension", largest_tension), np.inf], parts)
    steps = positive_integer("horizon", horizon, "of steps,")
    cheap, near = ControlCost(np.zeros(system.nu), effort), StateCost(system, rest, running)
    place = FramePosition(arm, tip, as_array("position", position, (3,)), position_weight)
    return Problem(
        system, [cheap, near], [place, StateCost(system, rest, ending)], rest, steps,
        control_limits=(np.repeat([0.0, -np.inf], parts), most), guess=np.zeros((steps, system.nu)),
    )  # fmt: skip

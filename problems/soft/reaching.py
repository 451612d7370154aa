"""Soft and hybrid arms bring their tips to points and rest there, within the tensions of their cables.

Cables only pull, so that controls have limits, and rods damp fast modes, so that steps are L-stable ones (SDIRK2).
Where a tip arrives, the residual vanishes and Gauss-Newton's model misses little: DDP and iLQR take about as many
iterations. Out of reach it takes several times more.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import as_array, positive
from ddp.problem import Problem
from dynamics.rods.assembly import HybridRobot
from dynamics.steps.robot_dynamics import RobotDynamics
from dynamics.steps.statics import statics
from problems import checks
from problems.costs import ControlCost, FramePosition, StateCost
from problems.soft.cables import cable_arm
from problems.soft.serial import serial_arm

_OF_RATES = (1.0, 1.0, 1.0, 10.0, 10.0, 10.0)
"""Relative weights on rates of a rod's torsion and bending [1/m], stretch and shear [without unit]."""


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
    return _reach(
        cable_arm(), "arm", position, largest_tension, horizon, dt, [tension_weight], speed_weight, position_weight,
        final_speed_weight,
    )  # fmt: skip


def out_of_reach(
    position: ArrayLike = (0.5, 0.3, 0.1), largest_tension: float = 40.0, horizon: int = 40, dt: float = 0.02
) -> Problem:
    """Stretch the hanging arm of five cables towards a point that it cannot reach.

    The residual stays large, so that Gauss-Newton misses what curves the cost. The arguments are those of `reach`.
    """
    return reach(position, largest_tension, horizon, dt, position_weight=3e2)


def serial_reach(
    position: ArrayLike = (0.7, 0.4, -1.2),
    largest_tension: float = 40.0,
    horizon: int = 40,
    dt: float = 0.02,
    tension_weight: float = 1e-4,
    torque_weight: float = 1e-4,
    speed_weight: float = 1e-4,
    position_weight: float = 1e3,
    final_speed_weight: float = 0.1,
) -> Problem:
    """Bring the tip of a soft finger on an arm of seven links to a point, after ``horizon * dt`` seconds (0.8 s).

    position (3,): of the tip [m]; hanging, it is at (0, 0, -1.9).   torque_weight [1/(N m)²]; speed_weight on speeds of
    joints too [s²/rad²]. The rest as in `reach`.
    """
    return _reach(
        serial_arm(), "finger", position, largest_tension, horizon, dt, [tension_weight, torque_weight], speed_weight,
        position_weight, final_speed_weight,
    )  # fmt: skip


def _reach(
    arm: HybridRobot, rod: str, position: ArrayLike, largest_tension: float, horizon: int, dt: float,
    efforts: list[float], speed_weight: float, position_weight: float, final_speed_weight: float,
) -> Problem:  # fmt: skip
    """The problem of an arm that hangs straight at q = 0, whose only rod has all cables."""
    system = RobotDynamics(arm, dt, integrator="sdirk2")
    rest = np.concatenate([statics(arm).q, np.zeros(arm.nv)])
    parts = [len(arm.tendons), system.nu - len(arm.tendons)]
    weights = [checks.weight("tension_weight", efforts[0]), checks.weight("torque_weight", efforts[-1])]
    most = np.repeat([positive("largest_tension", largest_tension), np.inf], parts)
    scale = np.ones(arm.nv)
    scale[arm.coordinates(rod)] = np.repeat(_OF_RATES, [0 if d is None else d + 1 for d in arm.rods[0].degrees])

    def on_speeds(field: str, weight: float) -> StateCost:
        return StateCost(system, rest, np.concatenate([np.zeros(arm.nv), checks.weight(field, weight) * scale]))

    return Problem(
        dynamics=system,
        running=[ControlCost(np.zeros(system.nu), np.repeat(weights, parts)), on_speeds("speed_weight", speed_weight)],
        terminal=[
            FramePosition(arm, f"{rod}/tip", as_array("position", position, (3,)), position_weight),
            on_speeds("final_speed_weight", final_speed_weight),
        ],
        x0=rest,
        horizon=horizon,
        control_limits=(np.repeat([0.0, -np.inf], parts), most),
        guess=np.zeros((horizon, system.nu)),
    )

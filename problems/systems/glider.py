"""A glider perches: it stalls by its elevator and stops where it should, Drake's model of Cory and Tedrake's."""

from typing import Any

import numpy as np

from ddp.problem import Problem
from dynamics.steps.continuous_dynamics import ContinuousDynamics
from problems.costs import ControlCost, StateCost

WING, ELEVATOR, LEVER, TAIL, INERTIA, MASS, G, AIR = 0.0885, 0.0147, 0.022, 0.27, 0.0015, 0.08, 9.81, 1.204
"""Areas [m²], from the elevator's hinge to its centre and from the centre of mass to that hinge [m], inertia [kg m²],
mass [kg], gravity [m/s²], density of air [kg/m³]; the wing is at the centre of mass."""

SERVO = 13.0
"""The elevator's highest speed [rad/s]."""


def glider(x: Any, u: Any) -> Any:
    """Rates of place (x, z), pitch, elevator's angle, velocity (x, z) and pitch rate, for an elevator's speed u.

    Forces are those of flat plates, normal to them.
    """
    _, _, pitch, elevator, vx, vz, rate = x
    tilted = pitch + elevator
    wing = AIR * WING * np.sin(pitch - np.arctan2(vz, vx)) * (vx**2 + vz**2)
    ex = vx + TAIL * rate * np.sin(pitch) + LEVER * (rate + u[0]) * np.sin(tilted)
    ez = vz - TAIL * rate * np.cos(pitch) - LEVER * (rate + u[0]) * np.cos(tilted)
    tail = AIR * ELEVATOR * np.sin(tilted - np.arctan2(ez, ex)) * (ex**2 + ez**2)
    ax = -(wing * np.sin(pitch) + tail * np.sin(tilted)) / MASS
    az = (wing * np.cos(pitch) + tail * np.cos(tilted)) / MASS - G
    turning = -tail * (TAIL * np.cos(elevator) + LEVER) / INERTIA
    return np.array([vx, vz, rate, u[0], ax, az, turning])


def perch(horizon: int = 80, dt: float = 0.01) -> Problem:
    """Glide from 3.5 m before the perch at 7 m/s to the perch at 45 degrees and almost no speed, in 0.8 s.

    The elevator's speed is limited as Drake's is.
    """
    system = ContinuousDynamics(glider, 7, 1, dt, "rk4")
    goal = np.array([0.0, 0.0, np.pi / 4.0, 0.0, 0.0, 0.0, 0.0])
    end = StateCost(system, goal, np.array([400.0, 400.0, 40.0, 1.0, 10.0, 10.0, 1.0]))
    effort = ControlCost(np.zeros(1), np.array([0.01]))
    x0 = np.array([-3.5, 0.1, 0.0, 0.0, 7.0, 0.0, 0.0])
    return Problem(system, [effort], [end], x0, horizon, control_limits=(-SERVO, SERVO), guess=np.zeros((horizon, 1)))

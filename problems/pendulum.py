"""A pendulum with a motor too weak to lift it at once: the smallest swing-up."""

import numpy as np

from ddp.errors import positive
from ddp.problem import Problem
from dynamics.robots.libraries import pin
from dynamics.robots.model import Robot, load
from dynamics.steps.robot_dynamics import RobotDynamics
from problems import checks
from problems.costs import ControlCost, StateCost


def pendulum(mass: float = 1.0, length: float = 1.0) -> Robot:
    """A point mass [kg] at a distance [m] below a joint about the x axis; the angle is 0 when it hangs."""
    mass, length = positive("mass", mass), positive("length", length)
    model = pin.Model()
    model.name = "pendulum"
    joint = model.addJoint(0, pin.JointModelRX(), pin.SE3.Identity(), "hinge")
    end = np.array([0.0, 0.0, -length])
    model.appendBodyToJoint(joint, pin.Inertia(mass, end, np.zeros((3, 3))), pin.SE3.Identity())
    model.addFrame(pin.Frame("tip", joint, pin.SE3(np.eye(3), end), pin.FrameType.OP_FRAME))
    return load(model)


@checks.weighing
def swing_up(
    mass: float = 1.0,
    length: float = 1.0,
    horizon: int = 100,
    dt: float = 0.03,
    control_weight: float = 0.1,
    angle_weight: float = 0.1,
    speed_weight: float = 0.01,
    final_weight: float = 1000.0,
) -> Problem:
    """Swing up from hanging at rest to upright at rest in ``horizon * dt`` seconds (3 s).

    mass [kg], length [m].   control_weight [1/(N m)²] is as large as angle_weight [1/rad²] so that swinging
    back and forth pays; speed_weight [s²/rad²]; final_weight on angle and speed makes the end nearly exact.
    """
    system = RobotDynamics(pendulum(mass, length), dt)
    upright = np.array([np.pi, 0.0])
    state = StateCost(system, upright, np.array([angle_weight, speed_weight]))
    running = [ControlCost(np.zeros(1), np.array([control_weight])), state]
    terminal = [StateCost(system, upright, np.full(2, final_weight))]
    problem = Problem(system, running, terminal, np.zeros(2), horizon)
    return problem.with_guess(np.zeros((problem.horizon, 1)))

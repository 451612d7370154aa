"""A pole hinged on a cart, pushed at the cart alone: the smallest underactuated swing-up."""

import numpy as np

from ddp.errors import positive
from ddp.problem import Problem
from dynamics.robots.libraries import pin
from dynamics.robots.model import Robot, load
from dynamics.steps.robot_dynamics import RobotDynamics
from problems import checks
from problems.costs import ControlCost, StateCost


def cartpole(cart_mass: float = 1.0, pole_mass: float = 0.1, length: float = 0.5) -> Robot:
    """A cart [kg] on a rail along y; below it, on a joint about x, a point mass [kg] at a distance [m]."""
    cart_mass, pole_mass = positive("cart_mass", cart_mass), positive("pole_mass", pole_mass)
    end = np.array([0.0, 0.0, -positive("length", length)])
    model = pin.Model()
    model.name = "cartpole"
    cart = model.addJoint(0, pin.JointModelPY(), pin.SE3.Identity(), "rail")
    model.appendBodyToJoint(cart, pin.Inertia(cart_mass, np.zeros(3), np.zeros((3, 3))), pin.SE3.Identity())
    pole = model.addJoint(cart, pin.JointModelRX(), pin.SE3.Identity(), "hinge")
    model.appendBodyToJoint(pole, pin.Inertia(pole_mass, end, np.zeros((3, 3))), pin.SE3.Identity())
    model.addFrame(pin.Frame("tip", pole, pin.SE3(np.eye(3), end), pin.FrameType.OP_FRAME))
    return load(model)


@checks.weighing
def swing_up(
    cart_mass: float = 1.0,
    pole_mass: float = 0.1,
    length: float = 0.5,
    horizon: int = 100,
    dt: float = 0.02,
    control_weight: float = 0.01,
    position_weight: float = 0.1,
    speed_weight: float = 0.01,
    final_weight: float = 1000.0,
) -> Problem:
    """Swing up from hanging at rest to upright at rest, the cart back where it was, in ``horizon * dt`` seconds (2 s).

    Masses [kg], length [m].   control_weight [1/N²]; position_weight on the cart [1/m²] and on the angle
    [1/rad²]; speed_weight on both speeds; final_weight on all four makes the end nearly exact.
    """
    robot = cartpole(cart_mass, pole_mass, length)
    system = RobotDynamics(robot, dt, actuation=np.array([[1.0], [0.0]]))
    upright = np.array([0.0, np.pi, 0.0, 0.0])
    state = np.repeat([position_weight, speed_weight], 2)
    running = [ControlCost(np.zeros(1), np.array([control_weight])), StateCost(system, upright, state)]
    terminal = [StateCost(system, upright, np.full(4, final_weight))]
    problem = Problem(system, running, terminal, np.zeros(4), horizon)
    return problem.with_guess(np.zeros((problem.horizon, 1)))

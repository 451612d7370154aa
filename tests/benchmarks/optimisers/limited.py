"""Robots with limits and constraints: the problems that mayne's methods for them are judged by."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pinocchio as pin

import ddp
from ddp.errors import ProblemError
from dynamics.contacts.contact import Contact
from dynamics.phases.phase import Phase
from dynamics.phases.phased_dynamics import PhasedDynamics
from dynamics.robots.model import load
from dynamics.steps.robot_dynamics import RobotDynamics
from problems import arm, cartpole, gaits, pendulum, quadrotor
from problems.constraints import FramePositionEquality, JointLimits, StateEquality, TorqueLimits, VelocityLimits
from problems.costs import ControlCost, FramePosition, StateCost

WEAK = np.array([20.0, 66.0, 18.0, 10.0, 5.0, 1.2])
"""Torques of a UR5 [N m] that matter in a second's reach."""


def limited_pendulum():
    """`pendulum/swing-up` in 4.5 s with at most 3 N m: it has to swing back and forth. Cost 3.0711."""
    return replace(pendulum.swing_up(horizon=150), control_limits=(-3.0, 3.0))


def rail():
    """`cartpole/swing-up` on a rail of ±0.6 m, pushed by at most 8 N, upright and at rest at the end: cost 1.1506."""
    plain = cartpole.swing_up()
    end = _at(plain.dynamics, [0.0, np.pi, 0.0, 0.0])
    return replace(
        plain, terminal=[], control_limits=(-8.0, 8.0), terminal_constraints=[end],
        constraints=[ddp.Inequality(lambda x, u: x[0], lower=-0.6, upper=0.6)],
    )  # fmt: skip


def acrobot(limit=10.0):
    """Two rods of 1 m and 1 kg, driven at the elbow alone, swing up in 3 s: cost 2.4926 and others."""
    model, parent = pin.Model(), 0
    model.name = "acrobot"
    rod = pin.Inertia(1.0, np.array([0.0, 0.0, -0.5]), np.diag([1.0, 1.0, 0.0]) / 12.0)
    for name, end in (("shoulder", 0.0), ("elbow", -1.0)):
        place = pin.SE3(np.eye(3), np.array([0.0, 0.0, end]))
        parent = model.addJoint(parent, pin.JointModelRX(), place, name)
        model.appendBodyToJoint(parent, rod, pin.SE3.Identity())
    system = RobotDynamics(load(model), 0.02, actuation=np.array([[0.0], [1.0]]))
    up = np.array([np.pi, 0.0, 0.0, 0.0])
    running = [ControlCost(np.zeros(1), np.array([0.01])), StateCost(system, up, np.repeat([0.1, 0.01], 2))]
    return ddp.Problem(
        system, running, [], np.zeros(4), 150, control_limits=(-limit, limit), guess=np.zeros((150, 1)),
        terminal_constraints=[_at(system, up)],
    )  # fmt: skip


def point_to_point(share=0.5, weight=1e4):
    """A UR5 from posture to posture in 0.6 s with a share of its torques; the end weighs 1e4 or 1e2."""
    robot = load("ur5")
    system = RobotDynamics(robot, 0.01)
    start, goal = (np.concatenate([q, np.zeros(6)]) for q in (arm._UR5_START, arm._UR5_GOAL))
    limits = share * robot.model.effortLimit
    return ddp.Problem(
        system, [ControlCost(np.zeros(6), np.full(6, 1e-4))], [StateCost(system, goal, np.full(12, weight))], start, 60,
        control_limits=(-limits, limits),
    )  # fmt: skip


def boxed_reach():
    """A UR5's tool at rest at a point, reached with weak torques: cost 0.82995, other minima .99157, 2.36."""
    plain = arm.reach()
    robot = plain.dynamics.robot
    point = FramePositionEquality(robot, "tool0", plain.terminal[0].target.translation)
    rest = ddp.Equality(lambda x, u: x[6:])
    return replace(plain, terminal=[], control_limits=(-WEAK, WEAK), terminal_constraints=[point, rest])


def cluttered_reach():
    """`boxed_reach` past three spheres, nine clearances, with limits of speeds: cost 0.83354."""
    plain, clear = boxed_reach(), arm.obstacles().constraints[:3]
    return replace(plain, constraints=[*clear, VelocityLimits(plain.dynamics.robot)])


def bounded_loop():
    """`quadrotor/loop` with thrusts between nothing and four times what carries the weight."""
    plain = quadrotor.loop()
    return replace(plain, control_limits=(np.zeros(4), 4.0 * plain.dynamics.nominal_control(plain.x0)))


def bounded_flight(limited=True):
    """A quadrotor flies 2.4 m in a second and hovers, with thrusts of at most 1.5 times what carries the weight."""
    system = quadrotor.loop().dynamics
    x0 = np.concatenate([system.robot.neutral(), np.zeros(6)])
    goal, hover = x0.copy(), system.nominal_control(x0)
    goal[:3] = [2.0, 1.0, 1.0]
    running = [ControlCost(hover, np.full(4, 0.1)), StateCost(system, goal, np.repeat([0.1, 0.01], 6))]
    end = StateCost(system, goal, np.repeat([100.0, 10.0], [3, 9]))
    limits = (np.zeros(4), 1.5 * hover) if limited else None
    return ddp.Problem(system, running, [end], x0, 50, control_limits=limits, guess=np.tile(hover, (50, 1)))


def talos_reach():
    """Talos on two soles brings its left hand to a point in front of it, within the limits of its joints."""
    robot = load("talos")
    fixed = [n for n in robot.joint_names if any(part in n for part in ("gripper", "head"))]
    robot = arm.lock(robot, fixed)
    data = robot.model.createData()
    pin.framesForwardKinematics(robot.model, data, robot.q0)
    soles = [
        Contact(name, "surface", data.oMf[robot.frame_id(name)], (0.0, 20.0), "local")
        for name in ("left_sole_link", "right_sole_link")
    ]
    system = PhasedDynamics(robot, 0.02, Phase(soles, knots=60))
    x0 = np.concatenate([robot.q0, np.zeros(robot.nv)])
    posture = np.concatenate([np.zeros(3), np.full(3, 500.0), np.full(robot.nv - 6, 0.01), np.full(robot.nv, 10.0)])
    hold = system.nominal_control(x0)
    running = [ControlCost(hold, np.full(system.nu, 1e-3)), StateCost(system, x0, 0.1 * posture)]
    point = FramePosition(robot, "gripper_left_base_link", [0.4, 0.0, 1.2], 1e4)
    return ddp.Problem(
        system, running, [point, StateCost(system, x0, posture)], x0, 60, guess=np.tile(hold, (60, 1)),
        constraints=[JointLimits(robot)],
    )  # fmt: skip


def gait(name="trot", constrained=True):
    """A gait of ANYmal; constrained: cones of friction, limits of joints and torques are constraints."""
    build = getattr(gaits, name)
    if not constrained:
        return build("anymal")
    plain = build("anymal", cones="constraint")
    limits = [JointLimits(plain.dynamics.robot), TorqueLimits(plain.dynamics)]
    return replace(plain, constraints=[*plain.constraints, *limits])


def _at(system, x):
    return StateEquality(system, np.array(x))


def starts(problem, count, sigma, seed=0):
    """Guesses: the problem's own, and ``count - 1`` with normal noise on its controls, within the limits."""
    rng, own = np.random.default_rng(seed), problem.guess
    if own is None:
        own = np.tile(problem.dynamics.nominal_control(problem.x0), (problem.horizon, 1))
    if isinstance(own, ddp.Solution):
        raise ProblemError("problem: expected a guess of controls, or of states and controls")
    X, U = own if isinstance(own, tuple) else (None, own)
    shape = (count - 1, *U.shape)
    several = np.clip([U, *(U + sigma * rng.normal(size=shape))], problem.lower, problem.upper)
    return list(several) if X is None else [(X, one) for one in several]

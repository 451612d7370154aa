"""The benchmark problems in Crocoddyl's own C++ models; runs where Crocoddyl is installed, imports nothing of ours.

Every problem is semi-implicit Euler with running costs multiplied by dt and terminal ones not, and every cost
``w/2 Σ a_i r_i²``. The cart-pole's motor pushes the cart alone, which Crocoddyl has no compiled model for: its
actuation is a Python class, and ``cartpole/full``, with a motor on the hinge too, is the compiled twin that tells
what an iteration would take without it.
"""

import crocoddyl
import example_robot_data
import numpy as np
import pinocchio as pin


class Builder:
    """Action models over one robot: ``costs`` makes sums of weighted residuals, ``shooting`` the problem."""

    def __init__(self, model, dt, actuation=None):
        self.model, self.dt = model, dt
        self.state = crocoddyl.StateMultibody(model)
        self.actuation = crocoddyl.ActuationModelFull(self.state) if actuation is None else actuation(self.state)
        self.nu = self.actuation.nu

    def control(self, target, weight):
        return crocoddyl.ResidualModelControl(self.state, target), np.full(self.nu, float(weight))

    def about(self, x, weights):
        return crocoddyl.ResidualModelState(self.state, x, self.nu), np.asarray(weights, dtype=float)

    def pose(self, frame, target, weights):
        frame = self.model.getFrameId(frame)
        return crocoddyl.ResidualModelFramePlacement(self.state, frame, target, self.nu), np.asarray(weights, float)

    def position(self, frame, target, weight):
        frame = self.model.getFrameId(frame)
        return crocoddyl.ResidualModelFrameTranslation(self.state, frame, target, self.nu), np.full(3, float(weight))

    def velocity(self, frame, target, weights):
        frame, target = self.model.getFrameId(frame), pin.Motion(target)
        residual = crocoddyl.ResidualModelFrameVelocity(self.state, frame, target, pin.LOCAL, self.nu)
        return residual, np.asarray(weights, dtype=float)

    def action(self, *terms, dt=None):
        """One knot whose cost is dt times the sum of the terms; with dt = 0, a terminal one."""
        costs = crocoddyl.CostModelSum(self.state, self.nu)
        for i, (residual, weights) in enumerate(terms):
            activation = crocoddyl.ActivationModelWeightedQuad(weights)
            costs.addCost(f"term {i}", crocoddyl.CostModelResidual(self.state, activation, residual), 1.0)
        free = crocoddyl.DifferentialActionModelFreeFwdDynamics(self.state, self.actuation, costs)
        return crocoddyl.IntegratedActionModelEuler(free, self.dt if dt is None else dt)

    def shooting(self, x0, N, running, terminal, at=None):
        """At: further terms of single knots, not multiplied by dt."""
        models = [self.action(*running)] * N
        for knot, extra in (at or {}).items():
            models[knot] = self.action(*running, *[(residual, w / self.dt) for residual, w in extra])
        return crocoddyl.ShootingProblem(x0, models, self.action(*terminal, dt=0.0))


class FirstJointActuation(crocoddyl.ActuationModelAbstract):
    """A motor on the first joint alone."""

    def __init__(self, state):
        crocoddyl.ActuationModelAbstract.__init__(self, state, 1)
        self.selection = np.eye(state.nv, 1)

    def calc(self, data, x, u=None):
        if u is not None:
            data.tau = self.selection @ u

    def calcDiff(self, data, x, u=None):
        data.dtau_du = self.selection


def pendulum(N=100):
    model = pin.Model()
    hinge = model.addJoint(0, pin.JointModelRX(), pin.SE3.Identity(), "hinge")
    mass = pin.Inertia(1.0, np.array([0.0, 0.0, -1.0]), np.zeros((3, 3)))
    model.appendBodyToJoint(hinge, mass, pin.SE3.Identity())
    b, up = Builder(model, 0.03), np.array([np.pi, 0.0])
    running = b.control(np.zeros(1), 0.1), b.about(up, [0.1, 0.01])
    return b.shooting(np.zeros(2), N, running, [b.about(up, [1000.0, 1000.0])])


def cartpole(actuation=FirstJointActuation):
    model = pin.Model()
    rail = model.addJoint(0, pin.JointModelPY(), pin.SE3.Identity(), "rail")
    model.appendBodyToJoint(rail, pin.Inertia(1.0, np.zeros(3), np.zeros((3, 3))), pin.SE3.Identity())
    hinge = model.addJoint(rail, pin.JointModelRX(), pin.SE3.Identity(), "hinge")
    mass = pin.Inertia(0.1, np.array([0.0, 0.0, -0.5]), np.zeros((3, 3)))
    model.appendBodyToJoint(hinge, mass, pin.SE3.Identity())
    b, up = Builder(model, 0.02, actuation), np.array([0.0, np.pi, 0.0, 0.0])
    running = b.control(np.zeros(b.nu), 0.01), b.about(up, [0.1, 0.1, 0.01, 0.01])
    return b.shooting(np.zeros(4), 100, running, [b.about(up, [1000.0] * 4)])


def cartpole_full():
    return cartpole(None)


UR5_START = np.array([0.0, -1.2, 1.4, -1.77, -1.57, 0.0])
UR5_GOAL = np.array([1.6, -0.8, 0.9, -0.6, -0.8, 0.7])


def reaching(model, frame, start, target, rotation_weight):
    nv = model.nv
    b, x0 = Builder(model, 0.01), np.concatenate([start, np.zeros(nv)])
    if not isinstance(target, pin.SE3):
        data = model.createData()
        pin.framesForwardKinematics(model, data, target)
        target = data.oMf[model.getFrameId(frame)].copy()
    running = b.control(np.zeros(nv), 1e-3), b.about(x0, np.repeat([1e-2, 0.1], nv))
    terminal = b.pose(frame, target, np.repeat([1000.0, rotation_weight], 3)), b.about(x0, np.repeat([0.0, 10.0], nv))
    return b.shooting(x0, 100, running, terminal)


def reach():
    return reaching(example_robot_data.load("ur5").model, "tool0", UR5_START, UR5_GOAL, 1000.0)


def out_of_reach():
    target = pin.SE3(np.eye(3), np.array([0.4, 1.2, 0.9]))
    return reaching(example_robot_data.load("ur5").model, "tool0", UR5_START, target, 0.0)


def panda():
    """`arm.reach("panda")`: every joint turns half a radian towards the middle of its range."""
    robot = example_robot_data.load("panda")
    middle = 0.5 * (robot.model.lowerPositionLimit + robot.model.upperPositionLimit)
    goal = robot.q0 + np.where(robot.q0 > middle, -0.5, 0.5)
    return reaching(robot.model, "panda_hand_tcp", robot.q0, goal, 1000.0)


def throw():
    robot = example_robot_data.load("panda")
    fingers = [robot.model.getJointId(name) for name in robot.model.names if "finger" in name]
    model = pin.buildReducedModel(robot.model, fingers, robot.q0)
    b, x0 = Builder(model, 0.01), np.concatenate([robot.q0[:7], np.zeros(7)])
    running = b.control(np.zeros(7), 1e-3), b.about(x0, np.full(14, 1e-2))
    hand = "panda_hand_tcp"
    terminal = (
        b.velocity(hand, np.array([0.0, 0.0, 3.0, 0.0, 0.0, 0.0]), np.repeat([10.0, 0.0], 3)),
        b.position(hand, np.array([0.2, 0.5, 0.7]), 100.0),
    )
    return b.shooting(x0, 60, running, terminal)


def reorientation():
    robot = example_robot_data.load("hyq")
    model = robot.model
    model.gravity = pin.Motion.Zero()
    b = Builder(model, 0.01, crocoddyl.ActuationModelFloatingBase)
    x0 = np.concatenate([robot.q0, np.zeros(model.nv)])
    goal = x0.copy()
    turn = pin.Quaternion(pin.exp3(np.array([np.pi / 2, 0.0, 0.0])))
    goal[3:7] = (pin.Quaternion(robot.q0[6], *robot.q0[3:6]) * turn).coeffs()
    legs = [3, 3, 12]
    running = (
        b.control(np.zeros(12), 1e-3),
        b.about(x0, np.concatenate([np.repeat([0.0, 0.0, 0.1], legs), np.repeat([0.0, 0.0, 0.01], legs)])),
    )
    final = np.concatenate([np.repeat([0.0, 1000.0, 100.0], legs), np.repeat([0.0, 10.0, 10.0], legs)])
    return b.shooting(x0, 100, running, [b.about(goal, final)])


def loop():
    model = example_robot_data.load("iris").model
    arm, moment = 0.1525, 1e-6 / 6.6e-5
    turning = crocoddyl.ThrusterType
    places = [
        ([arm, 0.0, 0.0], turning.CCW), ([0.0, -arm, 0.0], turning.CW),
        ([-arm, 0.0, 0.0], turning.CCW), ([0.0, arm, 0.0], turning.CW),
    ]  # fmt: skip
    thrusters = [crocoddyl.Thruster(pin.SE3(np.eye(3), np.array(p)), moment, turn) for p, turn in places]
    b = Builder(model, 0.02, lambda state: crocoddyl.ActuationModelFloatingBaseThrusters(state, thrusters))
    x0 = np.concatenate([pin.neutral(model), np.zeros(6)])
    hover = np.full(4, pin.computeTotalMass(model) * 9.81 / 4.0)
    running = b.control(hover, 0.1), b.about(x0, np.repeat([0.0, 0.01], 6))
    pose = np.repeat([10.0, 100.0], 3)
    frame = model.names[1]
    at = {
        knot: [b.pose(frame, pin.SE3(pin.exp3(np.array([0.0, angle, 0.0])), np.array([0.0, 0.0, 0.7])), pose)]
        for knot, angle in ((46, np.deg2rad(120.0)), (54, np.deg2rad(240.0)))
    }
    return b.shooting(x0, 100, running, [b.about(x0, np.repeat([100.0, 100.0, 10.0, 10.0], 3))], at)


GAITS = {
    "walk": ("createWalkingProblem", (0.25, 0.15, 1e-2, 25, 2)),
    "trot": ("createTrottingProblem", (0.15, 0.1, 1e-2, 25, 2)),
    "pace": ("createPacingProblem", (0.15, 0.1, 1e-2, 25, 5)),
    "bound": ("createBoundingProblem", (0.15, 0.1, 1e-2, 25, 5)),
    "jump": ("createJumpingProblem", (0.15, [0.0, 0.3, 0.0], 1e-2, 10, 20)),
}
"""Of Crocoddyl's quadrupedal example: step length and height [m], time step [s], knots of steps and of supports;
the jump's height, length, time step, knots on the ground and in flight."""


def gait(name):
    from crocoddyl.utils.quadruped import SimpleQuadrupedalGaitProblem

    model = example_robot_data.load("anymal").model
    maker = SimpleQuadrupedalGaitProblem(model, "LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT")
    x0 = np.concatenate([model.referenceConfigurations["standing"], np.zeros(model.nv)])
    constructor, arguments = GAITS[name]
    copied = [list(a) if isinstance(a, list) else a for a in arguments]  # the jump's is written on
    return getattr(maker, constructor)(x0, *copied)


ALL = {
    "pendulum/swing-up": pendulum,
    "pendulum/limited": lambda: pendulum(150),
    "arm/panda": panda,
    "cartpole/swing-up": cartpole,
    "cartpole/full": cartpole_full,
    "arm/reach": reach,
    "arm/out-of-reach": out_of_reach,
    "arm/throw": throw,
    "quadruped/reorientation": reorientation,
    "quadrotor/loop": loop,
    **{f"quadruped/{name}": lambda name=name: gait(name) for name in GAITS},
}

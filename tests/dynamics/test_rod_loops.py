"""Loops of robots with rods: kept at every step, steps exact to second order, redundant ones named."""

import numpy as np
import pinocchio as pin
import pytest
from oracles import fourth_order, relative_error
from rod_oracles import EIGHTH_ORDER, FOURTH_ORDER, assert_exact

from ddp.errors import ModelError, ProblemError
from dynamics import Assembly, Circle, Material, RobotDynamics, Rod, load, simulate
from dynamics.robots import loop

UP = pin.utils.rotate("y", -np.pi / 2)


def pillar(name, **degrees):
    silicone = Material(1e6, 0.45, 1000.0, 1e4)
    given = {"torsion": 1, "bending": 1, "stretch": 0, "shear": 0, "gauss": 3, **degrees}
    return Rod(name, 0.3, Circle(0.02), silicone, **given)


def closed_chain(free="ry"):
    """Two pillars, one on a joint, joined by a body on a ball; a wrench pushes the body."""
    body = pin.Inertia(0.2, np.array([0.1, 0.0, 0.0]), 0.01 * np.eye(3))
    build = Assembly("closed").rod(pillar("a"), placement=pin.SE3(UP, np.zeros(3)))
    build.joint("ball", pin.JointModelSpherical(), "a/tip", inertia=body)
    build.body(body, "ball", pin.SE3(np.eye(3), np.array([0.0, 0.2, 0.0])), name="end")
    build.joint("yaw", pin.JointModelRZ(), placement=pin.SE3(np.eye(3), np.array([0.0, 0.2, 0.0])), inertia=body)
    build.rod(pillar("b"), "yaw", pin.SE3(UP, np.zeros(3))).wrench("push", "ball")
    return build.loop("end", "b/tip", free).robot()


def errors(robot, X):
    """The largest error of a loop [m, rad] at each state, by Pinocchio on the chain of segments."""
    data, found = robot.chain.createData(), []
    for q in robot.to_chain(X[:, : robot.nq]):
        pin.forwardKinematics(robot.chain, data, q)
        end = data.oMi[robot.chain.getJointId("ball")] * pin.SE3(np.eye(3), np.array([0.0, 0.2, 0.0]))
        tip = data.oMi[robot.chain.getJointId("b/4")]
        found.append([*(tip.translation - end.translation), *(end.rotation[:, [0, 2]].T @ tip.rotation[:, 1])])
    return np.abs(found).max(axis=1)


@pytest.mark.parametrize("integrator", ["implicit-euler", "sdirk2"])
def test_loops_are_kept_and_steps_exact_to_second_order(integrator, rng):
    robot = closed_chain()
    system = RobotDynamics(robot, 0.01, integrator=integrator)
    u, w = np.zeros(system.nu), rng.normal(size=system.n)
    u[:6] = 1.0, 2.0, 3.0, 0.1, 0.2, 0.3
    X = system.rollout(np.append(robot.q0, np.zeros(robot.nv)), np.tile(u, (30, 1)))
    assert np.abs(X[-1, : robot.nq] - robot.q0).max() > 0.1
    assert errors(robot, X).max() < 1e-12
    x = X[20]
    assert_exact(system, x, u, w, rng, EIGHTH_ORDER, 3e-3, 1e-9)


def test_a_loop_that_holds_what_is_held_is_named():
    flat = {"torsion": None, "bending": (1, None), "shear": None}
    build = Assembly("flat").rod(pillar("a", **flat)).rod(pillar("b", **flat), placement=pin.SE3.Identity())
    build.loop("a/tip", "b/tip")
    with pytest.raises(ModelError, match=r"the loop of 'a/tip' and 'b/tip' holds 3 directions"):
        build.robot()


def test_a_loop_of_a_point_within_a_rod_is_refused():
    with pytest.raises(ModelError, match="expected the base or the tip of a rod"):
        Assembly().rod(pillar("a")).loop("a/2", "world")


def test_the_jacobian_of_loops_is_its_difference(rng):
    robot = closed_chain("x rz")
    q = robot.mechanism.moved(robot.q0, 0.3 * rng.normal(size=robot.nv))

    def e(q):
        return loop.errors(robot.mechanism, robot.loops, q)[0]

    J = [fourth_order(lambda t, d=d: e(robot.mechanism.moved(q, t * d)), 1e-3) for d in np.eye(robot.nv)]
    assert relative_error(loop.errors(robot.mechanism, robot.loops, q)[1], np.array(J).T) < 1e-10


@pytest.mark.parametrize("integrator", ["implicit-euler", "sdirk2"])
def test_prescribed_joints_move_as_they_are_told(integrator, rng):
    robot = closed_chain()
    given = RobotDynamics(robot, 0.01, integrator=integrator)
    motion = simulate(
        given, np.append(robot.q0, np.zeros(robot.nv)), np.zeros(given.nu), 0.5,
        prescribed={"yaw": lambda t: 0.2 * np.sin(4.0 * t)},
    )  # fmt: skip
    yaw = robot.coordinates("yaw").start
    q = motion.X[:, robot.tree.iq[robot.joint_names.index("yaw")]]
    bar = 1e-12 if integrator == "implicit-euler" else 3e-5  # of the trapezoidal rule
    np.testing.assert_allclose(q, 0.2 * np.sin(4.0 * motion.t), rtol=0, atol=bar)
    assert errors(robot, motion.X).max() < 1e-12
    system = RobotDynamics(robot, 0.01, integrator=integrator, prescribed=("yaw",))
    x, u, w = motion.X[25], motion.U[25], rng.normal(size=system.n)
    end = system.step(x, u)
    np.testing.assert_allclose(end, motion.X[26], rtol=0, atol=1e-12)
    faster = end[robot.nq + yaw] - x[robot.nq + yaw]
    np.testing.assert_allclose(faster, 0.01 * u[given.actuation[yaw] > 0.0], atol=1e-13)
    assert_exact(system, x, u, w, rng, FOURTH_ORDER, 3e-3, 1e-6)


def test_joints_that_a_system_prescribes_stay_so_beside_those_that_follow_functions():
    robot = load("ur5")
    system = RobotDynamics(robot, 0.01, integrator="implicit-euler", prescribed=["elbow_joint", "wrist_1_joint"])
    u = np.array([0.0, 0.0, 0.5, 0.0, 0.0, 0.0])
    motion = simulate(system, np.zeros(12), u, 0.1, prescribed={"wrist_1_joint": np.sin})
    np.testing.assert_allclose(motion.X[:, 8], 0.5 * motion.t, atol=1e-12)
    np.testing.assert_allclose(motion.X[:, 3], np.sin(motion.t), atol=1e-12)


def test_what_cannot_be_prescribed_is_refused():
    robot = closed_chain()
    x, system = np.append(robot.q0, np.zeros(robot.nv)), RobotDynamics(robot, 0.01, integrator="sdirk2")
    with pytest.raises(ProblemError, match="one angle or length"):
        simulate(system, x, np.zeros(system.nu), 0.1, prescribed={"ball": lambda t: t})
    with pytest.raises(ProblemError, match="no joint 'yawn'"):
        simulate(system, x, np.zeros(system.nu), 0.1, prescribed={"yawn": lambda t: t})
    with pytest.raises(ModelError, match="a control of its own"):
        RobotDynamics(robot, 0.01, integrator="sdirk2", prescribed=("a",))

"""Actuators of robots and limits of controls: what a file gives, what it does not, and where both arrive."""

import pickle
from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest
from oracles import sprung

import ddp
import dynamics
from ddp.errors import ModelError, ProblemError
from dynamics import Contact, Phase, PhasedDynamics, Robot, RobotDynamics
from dynamics.robots.equipment import Equipment
from problems import arm, cartpole
from problems.costs import ControlCost

GEAR, RANGE = np.array([[10.0], [0.0]]), np.array([[-1.0, 0.8]])


def driven_cart(limits=RANGE, **more):
    """A cart-pole with one actuator of gear 10, on the cart."""
    return Robot(cartpole.cartpole().model, equipment=Equipment(GEAR, limits, **more))


def swing_up(system, **more):
    plain = cartpole.swing_up()
    running = [ControlCost(np.zeros(1), np.ones(1)), *plain.running[1:]]
    return ddp.Problem(system, running, plain.terminal, plain.x0, plain.horizon, **more)


def test_a_robot_without_actuators_has_one_control_for_each_joint_and_its_limits_of_effort():
    ur5, iris, hyq = (dynamics.load(name) for name in ("ur5", "iris", "hyq"))
    np.testing.assert_array_equal(ur5.actuation, np.eye(6))
    np.testing.assert_array_equal(ur5.control_limits.T, np.array([150.0, 150, 150, 28, 28, 28]) * [[-1.0], [1.0]])
    np.testing.assert_array_equal(iris.actuation, np.eye(6))
    np.testing.assert_array_equal(iris.control_limits, np.tile([-np.inf, np.inf], (6, 1)))
    np.testing.assert_array_equal(hyq.actuation, np.eye(18)[:, 6:])
    np.testing.assert_array_equal(hyq.control_limits, np.tile([-150.0, 150.0], (12, 1)))
    without = Robot(ur5.model, equipment=Equipment(np.zeros((6, 0)), np.zeros((0, 2))))
    np.testing.assert_array_equal(without.actuation, np.eye(6))
    np.testing.assert_array_equal(RobotDynamics(without, 0.01).control_limits, np.tile([-np.inf, np.inf], (6, 1)))


def test_limits_that_a_urdf_does_not_give_are_none(tmp_path):
    body = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    links, joints = '<link name="l0"/>', ""
    limits = ('effort="7"', 'effort="0"', None)
    for i, effort in enumerate(limits):
        links += f'<link name="l{i + 1}">{body}</link>'
        limit = "" if effort is None else f'<limit {effort} velocity="1" lower="-1" upper="1"/>'
        joints += (
            f'<joint name="j{i}" type="{"continuous" if effort is None else "revolute"}"><parent link="l{i}"/>'
            f'<child link="l{i + 1}"/><axis xyz="1 0 0"/>{limit}</joint>'
        )
    path = tmp_path / "efforts.urdf"
    path.write_text(f'<robot name="efforts">{links}{joints}</robot>')
    robot = dynamics.load(path)
    np.testing.assert_array_equal(robot.control_limits, [[-7, 7], [-np.inf, np.inf], [-np.inf, np.inf]])
    assert np.isinf(RobotDynamics(robot, 0.01).control_limits).all()  # offered, not imposed


def test_a_limit_of_effort_that_is_set_by_pinocchio_holds_both_ways():
    model = pin.Model()
    joint = model.addJoint(0, pin.JointModelRX(), pin.SE3.Identity(), "hinge")
    model.appendBodyToJoint(joint, pin.Inertia(1.0, np.zeros(3), np.eye(3)), pin.SE3.Identity())
    model.effortLimit = np.array([5.0])
    assert dynamics.load(model).control_limits.tolist() == [[-5.0, 5.0]]


def test_a_files_actuators_and_their_limits_are_what_systems_begin_with():
    robot = driven_cart()
    np.testing.assert_array_equal(robot.actuation, GEAR)
    np.testing.assert_array_equal(robot.control_limits, RANGE)
    robot.actuation[:] = robot.control_limits[:] = 0.0  # copies
    phase = Phase((), 3)
    for system in (RobotDynamics(robot, 0.02), PhasedDynamics(robot, 0.02, phase)):
        np.testing.assert_array_equal(system.actuation, GEAR)
        np.testing.assert_array_equal(system.control_limits, RANGE)
        again = pickle.loads(pickle.dumps(system))
        np.testing.assert_array_equal(again.control_limits, RANGE)
    np.testing.assert_array_equal(PhasedDynamics(robot, 0.02, phase).lasting([0.3]).control_limits, RANGE)
    none = np.array([[-np.inf, np.inf]])
    np.testing.assert_array_equal(driven_cart(None).control_limits, none)
    np.testing.assert_array_equal(RobotDynamics(driven_cart(None), 0.02).control_limits, none)
    np.testing.assert_array_equal(RobotDynamics(robot, 0.02, GEAR).control_limits, none)  # other units, perhaps
    np.testing.assert_array_equal(RobotDynamics(robot, 0.02, control_limits=3.0 * RANGE).control_limits, 3.0 * RANGE)
    ur5 = dynamics.load("ur5")
    imposed = RobotDynamics(ur5, 0.02, control_limits=ur5.control_limits)
    np.testing.assert_array_equal(imposed.control_limits, ur5.control_limits)


def test_a_problem_keeps_the_limits_of_its_dynamics_unless_it_is_given_others():
    system = RobotDynamics(driven_cart(), 0.02)
    problem = swing_up(system)
    np.testing.assert_array_equal(problem.lower, np.full((100, 1), -1.0))
    np.testing.assert_array_equal(problem.upper, np.full((100, 1), 0.8))
    assert problem.limited
    free = swing_up(system, control_limits=(-np.inf, np.inf))
    assert not free.limited
    other = swing_up(system, control_limits=(-5.0, 0.5))
    assert (other.lower.max(), other.upper.max()) == (-5.0, 0.5)
    assert not swing_up(RobotDynamics(driven_cart(None), 0.02)).limited
    assert not cartpole.swing_up().limited
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(problem)).upper, problem.upper)
    np.testing.assert_array_equal(problem.starting_at(0.1 * np.ones(4)).upper, problem.upper)


def test_the_limits_in_force_are_shown_and_a_problem_with_other_dynamics_takes_theirs():
    system, unlimited = RobotDynamics(driven_cart(), 0.02), RobotDynamics(driven_cart(None), 0.02)
    problem, given = swing_up(system), swing_up(system, control_limits=(-5.0, 0.5))
    other = RobotDynamics(driven_cart(), 0.02, control_limits=[[-3.0, 2.0]])
    derived = problem, problem.starting_at(problem.x0), replace(problem, horizon=7), pickle.loads(pickle.dumps(problem))
    for one in (*derived, replace(pickle.loads(pickle.dumps(problem)), horizon=9)):
        np.testing.assert_array_equal(one.control_limits, [[-1.0], [0.8]])
        np.testing.assert_array_equal(one.upper, np.full((one.horizon, 1), 0.8))
    np.testing.assert_array_equal(replace(problem, dynamics=other).control_limits, [[-3.0], [2.0]])
    np.testing.assert_array_equal(replace(problem, dynamics=other).lower[0], [-3.0])
    assert replace(problem, dynamics=unlimited).control_limits is None
    assert swing_up(unlimited).control_limits is None
    assert not replace(problem, control_limits=(-np.inf, np.inf)).limited
    assert replace(given, horizon=7, dynamics=other).control_limits == (-5.0, 0.5)


def test_a_swing_up_within_the_range_of_its_actuator_is_that_of_the_same_limits_given():
    system = RobotDynamics(driven_cart(), 0.02)
    own = ddp.solve(swing_up(system))
    given = ddp.solve(swing_up(RobotDynamics(driven_cart(None), 0.02), control_limits=(-1.0, 0.8)))
    free = ddp.solve(swing_up(system, control_limits=(-np.inf, np.inf)))
    assert own.converged
    np.testing.assert_array_equal(own.U, given.U)
    assert own.U.min() == -1.0
    assert own.U.max() == 0.8
    assert free.U.min() < -1.0
    assert free.U.max() > 0.8
    assert own.cost > free.cost


def test_limits_of_effort_are_taken_as_they_are_offered():
    problem = arm.reach("ur5")
    robot, fields = problem.dynamics.robot, (problem.dynamics, problem.running, problem.terminal, problem.x0, 10)
    assert not problem.limited
    for limits in (robot.control_limits.T, tuple(robot.control_limits.T), list(robot.control_limits.T)):
        limited = ddp.Problem(*fields, control_limits=limits)
        np.testing.assert_array_equal(limited.upper[3], [150.0, 150, 150, 28, 28, 28])
        np.testing.assert_array_equal(limited.lower, -limited.upper)
    message = r"expected a pair \(lower, upper\), got an array of shape \(6, 2\): transpose it"
    with pytest.raises(ProblemError, match=message):
        ddp.Problem(*fields, control_limits=robot.control_limits)


class Rocket:
    """A user's own system with limits: everything else is another's."""

    def __init__(self, control_limits):
        self.system, self.control_limits = RobotDynamics(driven_cart(None), 0.02), control_limits

    def __getattr__(self, name):
        return getattr(self.system, name)


def test_limits_of_a_users_own_dynamics_are_checked_like_given_ones():
    assert swing_up(Rocket(np.array([[-2.0, 3.0]]))).upper[0, 0] == 3.0
    for limits, words in (
        (np.zeros(2), r"dynamics.control_limits: expected shape \(1, 2\), got \(2,\)"),
        (np.array([[1.0, 1.0]]), "dynamics.control_limits: expected lower < upper, got 1.0 and 1.0"),
        (np.array([[np.nan, 1.0]]), r"dynamics.control_limits\[0\]: expected numbers or infinities, got nan"),
    ):
        with pytest.raises(ProblemError, match=words):
            swing_up(Rocket(limits))


@pytest.mark.parametrize(
    ("equipment", "words"),
    [
        (Equipment(np.eye(5)), r"actuation: expected .*6.*, got \(5, 5\)"),
        (Equipment(np.full((6, 1), np.inf)), "actuation: expected finite numbers, got inf"),
        (Equipment(np.eye(6), np.zeros((2, 6))), r"control_limits: expected shape \(6, 2\), got \(2, 6\)"),
        (Equipment(np.eye(6), np.zeros((6, 2))), "control_limits: expected lower < upper, got 0.0 and 0.0 for"),
        (Equipment(None, np.zeros((6, 2))), "control_limits: expected an actuation beside them, got none"),
    ],
)
def test_equipment_that_does_not_fit_the_robot_is_refused(equipment, words):
    with pytest.raises(ModelError, match=words):
        Robot(dynamics.load("ur5").model, equipment=equipment)


def test_limits_of_a_system_that_make_no_sense_are_refused():
    robot = dynamics.load("ur5")
    for limits, words in (
        (np.zeros((2, 6)), r"control_limits: expected shape \(6, 2\), got \(2, 6\): give its transpose"),
        (np.tile([1.0, -1.0], (6, 1)), "control_limits: expected lower < upper, got 1.0 and -1.0 for control 0"),
        (np.tile([np.nan, 1.0], (6, 1)), "control_limits: expected lower < upper, got nan"),
    ):
        for make in (RobotDynamics, lambda *a, **k: PhasedDynamics(*a, Phase(Contact("tool0"), 1), **k)):
            with pytest.raises(ProblemError, match=words):
                make(robot, 0.01, control_limits=limits)


def test_locking_joints_keeps_what_moves_the_others(rng):
    made = sprung(dynamics.load("ur5"), rng)
    S = np.zeros((6, 3))
    S[1, 0], S[5, 1], S[[2, 5], 2] = 2.0, 3.0, 4.0
    limits = np.array([[-1.0, 1.0], [-2.0, 2.0], [-3.0, 3.0]])
    robot = Robot(made.model, made.q0, None, made.equipment._replace(actuation=S, control_limits=limits, damped=True))
    locked = arm.lock(robot, ["wrist_3_joint"])
    np.testing.assert_array_equal(locked.actuation, S[:5][:, [0, 2]])
    np.testing.assert_array_equal(locked.control_limits, limits[[0, 2]])
    np.testing.assert_array_equal(locked.equipment.stiffness, made.equipment.stiffness[:5])
    np.testing.assert_array_equal(locked.equipment.springref, made.equipment.springref[:5])
    assert RobotDynamics(locked, 0.01).damping


def test_a_spring_in_a_chain_that_universal_joints_become_is_where_it_was(rng):
    """Numbers in q and v stay as the joint becomes two, and so do springs."""
    model = pin.Model()
    joint = model.addJoint(0, pin.JointModelUniversal(np.eye(3)[0], np.eye(3)[1]), pin.SE3.Identity(), "cardan")
    model.appendBodyToJoint(joint, pin.Inertia.FromBox(1.0, 0.1, 0.2, 0.3), pin.SE3(np.eye(3), np.ones(3)))
    stiffness, rest = np.array([3.0, 5.0]), np.array([0.1, -0.4])
    robot = Robot(model, equipment=Equipment(stiffness=stiffness, springref=rest))
    q, v, u = rng.normal(size=(3, 2))
    expected = v + 0.1 * pin.aba(model, model.createData(), q, v, u - stiffness * (q - rest))
    np.testing.assert_allclose(RobotDynamics(robot, 0.1).step(np.r_[q, v], u)[2:], expected, rtol=1e-12)

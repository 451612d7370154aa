"""Options of a robot's discrete steps and what they are given: defaults, and checks at the border."""

import copy
import pickle

import numpy as np
import pinocchio as pin
import pytest

import ddp
import dynamics
from ddp.errors import ModelError, ProblemError
from dynamics import RobotDynamics


def test_controls_default_to_all_joints_but_a_floating_root():
    assert RobotDynamics(dynamics.load("ur5"), 0.01).nu == 6
    assert RobotDynamics(dynamics.load("hyq"), 0.01).nu == 12


def test_nominal_control_balances_gravity(rng):
    system = RobotDynamics(dynamics.load("panda"), 0.01)
    X = np.array([np.concatenate([system.robot.random_configuration(rng), np.zeros(9)]) for _ in range(3)])
    assert np.abs(system.step(X, system.nominal_control(X)) - X).max() < 1e-13
    np.testing.assert_array_equal(system.nominal_control(X[1]), system.nominal_control(X[1:2])[0])


class Named(RobotDynamics):
    """Has its robot before kernels have it."""

    def __init__(self, robot, dt):
        self.robot = robot
        super().__init__(robot, dt)


def test_models_of_other_masses_keep_inertias_that_round_below_zero():
    robot = dynamics.load("ur5")
    robot.model.inertias[1].inertia = np.diag([-1e-20, 0.0, 1e-3])
    link = robot.with_masses(2.0 * robot.masses).model.inertias[1]
    np.testing.assert_array_equal(link.inertia, np.diag([-2e-20, 0.0, 2e-3]))
    assert link.mass == 2.0 * robot.masses[0]


class Tagged(RobotDynamics):
    """Has a slot."""

    __slots__ = ("tag",)


def test_systems_with_slots_are_copied():
    system = Tagged(dynamics.load("ur5"), 0.01)
    system.tag = 3
    for twin in (copy.copy(system), copy.deepcopy(system), pickle.loads(pickle.dumps(system))):
        assert twin.tag == 3
        assert not twin.actuation.flags.writeable


def test_maps_of_controls_that_kernels_have_cannot_be_written_to():
    """Nobody changes some numbers of a system without all; sensors keep their own."""
    robot = dynamics.load("ur5")
    for numbers in (RobotDynamics(robot, 0.01).actuation, dynamics.KinematicDynamics(robot, 0.01).rates):
        with pytest.raises(ValueError, match="read-only"):
            numbers[:] = 0.0
    for name, value in (("damping", True), ("dt", 0.02)):
        with pytest.raises(AttributeError, match=f"{name}: kernels have it already: make another RobotDynamics with"):
            setattr(RobotDynamics(robot, 0.01), name, value)
    moved = dynamics.KinematicDynamics(robot, 0.01)
    for system, name in ((moved, "dt"), (dynamics.augment.delays(moved, 1), "dt"), (moved, "rates")):
        kind = type(system).__name__
        with pytest.raises(AttributeError, match=f"{name}: steps have it already: make another {kind} with it"):
            setattr(system, name, 0.02)
    assert Named(robot, 0.01).robot is robot
    phased = dynamics.PhasedDynamics(robot, 0.01, dynamics.Phase([dynamics.Contact("tool0", target=np.zeros(3))], 2))
    for copied in (copy.deepcopy(phased), pickle.loads(pickle.dumps(phased))):
        for numbers in (copied.actuation, copied.phases[0].contacts[0].target):
            with pytest.raises(ValueError, match="read-only"):
                numbers[:] = 0.0
        with pytest.raises(AttributeError, match="actuation: kernels have it already"):
            copied.actuation = np.zeros((6, 6))
    C = np.eye(2)
    sensor = ddp.LinearSensor(C)
    C[:] = 0.0
    np.testing.assert_array_equal(sensor.C, np.eye(2))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"dt": 0.0}, "dt: expected a positive number, got 0.0"),
        ({"dt": float("nan")}, "dt: expected a positive number, got nan"),
        ({"dt": 0.01, "actuation": np.zeros((5, 3))}, "actuation: expected 6 rows of numbers, got (5, 3)"),
        ({"dt": 0.01, "integrator": "rk5"}, "integrator: unknown 'rk5'"),
        ({"dt": 0.01, "robot": "ur5"}, "robot: expected a Robot from mayne.load, got 'ur5'"),
    ],
)
def test_bad_options_are_named(arguments, words):
    with pytest.raises(ProblemError) as caught:
        RobotDynamics(**{"robot": dynamics.load("ur5"), **arguments})
    assert words in str(caught.value)


def test_robots_are_made_of_models_and_whole_configurations():
    model = dynamics.load("ur5").model
    assert np.array_equal(dynamics.Robot(model, [1] * 6).q0, np.ones(6))
    with pytest.raises(ModelError, match=r"model: expected a pinocchio.Model, got 'ur5'"):
        dynamics.Robot("ur5")
    with pytest.raises(ModelError, match=r"q0: expected shape \(6,\), got \(5,\)"):
        dynamics.Robot(model, np.zeros(5))
    with pytest.raises(ModelError, match="q0: expected finite numbers, got nan"):
        dynamics.Robot(model, np.full(6, np.nan))
    with pytest.raises(ModelError, match=r"q0: expected unit quaternions \(x, y, z, w\), got"):
        dynamics.Robot(dynamics.load("hyq").model, np.zeros(19))


def test_torques_are_of_batches_in_any_form():
    system = RobotDynamics(dynamics.load("ur5"), 0.01)
    assert system.torques([[0] * 12], [[1] * 6]).tolist() == [[1.0] * 6]
    assert system.passive_torques([[0] * 12]).shape == (1, 6)
    for call in (system.driving, system.passive_torques, lambda x: system.torques(x, np.zeros((1, 6)))):
        with pytest.raises(ProblemError, match=r"X: expected rows of 12 numbers, got \(12,\)"):
            call(np.zeros(12))
    with pytest.raises(ProblemError, match=r"U: expected shape"):
        system.torques(np.zeros((2, 12)), np.zeros((3, 6)))


def test_a_state_with_a_quaternion_that_is_not_unit_is_refused():
    system = RobotDynamics(dynamics.load("hyq"), 0.01)
    x = np.concatenate([system.robot.q0, np.zeros(18)])
    x[3:7] *= 1.01
    with pytest.raises(ProblemError, match=r"x0\[3:7\].*expected a unit quaternion"):
        system.check_state("x0", x)


def test_what_a_step_is_given_is_checked_like_everything_else():
    system = RobotDynamics(dynamics.load("hyq"), 0.01)
    x = np.concatenate([2.0 * system.robot.q0, np.zeros(18)])
    for call in (lambda: system.step(x, np.zeros(12)), lambda: system.linearize(x, np.zeros(12)),
                 lambda: system.rollout(x, np.zeros((3, 12)))):  # fmt: skip
        with pytest.raises(ProblemError, match="expected a unit quaternion"):
            call()
    rest = np.concatenate([system.robot.q0, np.zeros(18)])
    with pytest.raises(ProblemError, match="u: expected 2 controls for 2 states, got 3"):
        system.step(np.tile(rest, (2, 1)), np.zeros((3, 12)))
    with pytest.raises(ProblemError, match="x0, x1: expected numbers of shapes"):
        system.difference(np.zeros((3, 37)), np.zeros((2, 37)))
    with pytest.raises(ProblemError, match="x, dx: expected numbers of shapes"):
        system.integrate("a", np.zeros(36))


def test_changing_the_actuation_given_changes_nothing():
    S = np.eye(6)
    system = RobotDynamics(dynamics.load("ur5"), 0.01, actuation=S)
    before = system.step(np.zeros(12), np.ones(6))
    S[:] = 0.0
    assert np.array_equal(system.step(np.zeros(12), np.ones(6)), before)


def test_a_floating_base_that_is_not_the_first_joint_is_not_driven(rng):
    model = dynamics.load("ur5").model.copy()
    joint = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "ball")
    model.appendBodyToJoint(joint, pin.Inertia(1.0, np.zeros(3), np.eye(3)), pin.SE3.Identity())
    assert RobotDynamics(dynamics.load(model), 0.01).nu == 6

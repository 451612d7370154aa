"""Forward dynamics and the ID-FD relation, against Pinocchio's ABA and differences of its derivatives."""

import numpy as np
import pinocchio as pin
import pytest
from oracles import (
    ROBOTS,
    differenced_tensors,
    directions,
    pin_forces,
    pin_forward_derivatives,
    random_state,
    relative_error,
    robot_of,
    seed_of,
)

import dynamics
from ddp.errors import ModelError, ProblemError

STATES = 20


@pytest.mark.parametrize("key", ROBOTS)
def test_accelerations_and_first_derivatives_are_those_of_pinocchio(key):
    robot, rng = robot_of(key), np.random.default_rng(seed_of(key))
    data = robot.model.createData()
    for _ in range(STATES):
        q, v, tau = random_state(robot, rng)
        fext = rng.normal(size=(robot.model.njoints, 6))
        a = dynamics.forward_dynamics(robot, q, v, tau, fext)
        assert relative_error(a, pin.aba(robot.model, data, q, v, tau, pin_forces(fext))) < 1e-9
        assert relative_error(dynamics.inverse_dynamics(robot, q, v, a, fext), tau) < 1e-9
        first = dynamics.forward_dynamics_derivatives(robot, q, v, tau, fext)
        for ours, truth in zip(first, pin_forward_derivatives(robot, data, q, v, tau, fext), strict=True):
            assert relative_error(ours, truth) < 1e-8


@pytest.mark.parametrize("key", ROBOTS)
def test_tensors_are_the_differences_of_pinocchios_first_derivatives(key):
    robot, rng = robot_of(key), np.random.default_rng(seed_of(key))
    data = robot.model.createData()
    for _ in range(STATES):
        q, v, tau = random_state(robot, rng)
        tensors = dynamics.forward_dynamics_second_derivatives(robot, q, v, tau)
        along = directions(robot.nv, rng)
        truth = differenced_tensors(
            robot, lambda q, v, tau=tau: pin_forward_derivatives(robot, data, q, v, tau), q, v, along
        )
        for name, value, reference in zip(tensors._fields, tensors, truth, strict=True):
            assert relative_error(value @ along, reference) < 1e-7, name
        weight = rng.normal(size=robot.nv)
        hessian = dynamics.forward_dynamics_hessian(robot, q, v, tau, weight)
        contracted = [np.einsum("i,ijk", weight, T) for T in tensors]
        assert relative_error(hessian.qq, contracted[0]) < 1e-12
        assert relative_error(hessian.vv, contracted[1]) < 1e-12
        assert relative_error(hessian.qv.T, contracted[2]) < 1e-12
        assert relative_error(hessian.qtau.T, contracted[3]) < 1e-12


@pytest.mark.parametrize("key", ["ur5", "talos", 4, 11])
def test_mass_matrix_times_its_inverse_is_one(key, rng):
    robot = robot_of(key)
    q = robot.random_configuration(rng)
    M = dynamics.mass_matrix(robot, q)
    assert np.array_equal(M, M.T)
    assert relative_error(M @ dynamics.inverse_mass_matrix(robot, q), np.eye(robot.nv)) < 1e-9


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda q, v, tau: (q[:-1], v, tau), "q: expected shape (19,), got (18,)"),
        (lambda q, v, tau: (q, v[None], tau), "v: expected shape (18,), got (1, 18)"),
        (lambda q, v, tau: (q, v, np.where(np.arange(18) == 4, np.nan, tau)), "tau: expected finite numbers, got nan"),
        (lambda q, v, tau: (np.where(np.arange(19) == 3, 2.0, q), v, tau), "expected a unit quaternion"),
        (lambda q, v, tau: (q, ["a"] * 18, tau), "v: expected real numbers"),
    ],
)  # fmt: skip
def test_bad_arguments_are_named(change, words):
    robot = dynamics.load("hyq")
    q, v, tau = change(robot.q0, np.zeros(18), np.zeros(18))
    with pytest.raises(ProblemError) as caught:
        dynamics.forward_dynamics(robot, q, v, tau)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ((0, 2, 1), np.nan, "q: expected finite numbers, got nan at [2, 1]"),
        ((1, 7, 17), np.inf, "v: expected finite numbers, got inf at [7, 17]"),
        ((2, 0, 0), -np.inf, "tau: expected finite numbers, got -inf at [0, 0]"),
        ((3, 4, 5), np.nan, "weight: expected finite numbers, got nan at [4, 5]"),
        ((0, 5, 6), 1.0 + 1.1e-6, "q[3:7] of sample 5, joint 'root_joint': expected a unit quaternion"),
        ((0, 5, 6), 1.0 - 1.1e-6, "q[3:7] of sample 5, joint 'root_joint': expected a unit quaternion"),
    ],
)  # fmt: skip
def test_bad_numbers_of_a_batch_are_found(place, value, words):
    robot = dynamics.load("hyq")
    arguments = [np.tile(robot.neutral(), (8, 1)), *np.zeros((3, 8, 18))]
    argument, *index = place
    arguments[argument][tuple(index)] = value
    with pytest.raises(ProblemError) as caught:
        dynamics.forward_dynamics_both_derivatives(robot, *arguments)
    assert words in str(caught.value)


def test_good_numbers_are_not_refused_for_their_size():
    robot = dynamics.load("hyq")
    q = np.tile(robot.neutral(), (8, 1))
    q[:, 0], q[:, 6] = 1e200, 1.0 + 0.9e-6
    assert np.isfinite(dynamics.forward_dynamics(robot, q, np.zeros((8, 18)), np.zeros((8, 18)))).all()


def test_a_singular_mass_matrix_is_an_error_not_a_number():
    model = pin.Model()
    body = pin.Inertia(1.0, np.zeros(3), np.zeros((3, 3)))
    model.appendBodyToJoint(model.addJoint(0, pin.JointModelRX(), pin.SE3.Identity(), "spin"), body, pin.SE3.Identity())
    robot = dynamics.load(model)
    with pytest.raises(ModelError, match="mass matrix is not positive definite"):
        dynamics.forward_dynamics(robot, robot.neutral(), np.zeros(1), np.ones(1))


@pytest.mark.parametrize("bad", [0, 8])
def test_the_sample_whose_mass_matrix_is_singular_is_named(bad, rng):
    model, point = pin.Model(), pin.Inertia(1.0, np.zeros(3), np.zeros((3, 3)))
    spin = model.addJoint(0, pin.JointModelRX(), pin.SE3.Identity(), "spin")
    slide = model.addJoint(spin, pin.JointModelPY(), pin.SE3.Identity(), "slide")
    model.appendBodyToJoint(slide, point, pin.SE3.Identity())
    robot = dynamics.load(model)
    q, v, tau, weight = rng.uniform(0.5, 1.0, size=(4, 9, 2))
    functions = (dynamics.forward_dynamics, dynamics.forward_dynamics_derivatives)
    for function in functions:
        function(robot, q, v, tau)
    q[bad, 1] = 0.0
    for function in functions:
        with pytest.raises(ModelError, match=f"the mass matrix of sample {bad} is not positive definite"):
            function(robot, q, v, tau)
    with pytest.raises(ModelError, match=f"the mass matrix of sample {bad} is not positive definite"):
        dynamics.forward_dynamics_both_derivatives(robot, q, v, tau, weight)

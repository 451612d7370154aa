"""Inverse dynamics, its derivatives and tensors, against Pinocchio, its differences, and complex step."""

import numpy as np
import pinocchio as pin
import pytest
from oracles import (
    COMPLEX_STEP,
    ROBOTS,
    complex_steps,
    differenced_tensors,
    directions,
    pin_forces,
    pin_inverse_derivatives,
    random_state,
    random_tree,
    relative_error,
    robot_of,
    seed_of,
)

import dynamics
from dynamics.rigid_bodies import batch

STATES = 20


def complex_first_derivatives(robot, q, v, a, along):
    """D_k of (∂τ/∂q, ∂τ/∂v, M), last index k, by complex step."""
    nv = robot.nv
    Q, V, A = complex_steps(robot, (q, v, a), along)
    out = np.empty((3, nv, nv, nv), complex)
    memory = np.empty(batch.size(robot.tree.nb, robot.nq, nv), complex)
    batch.inverse_dynamics_derivatives(robot.tree.address, memory, Q, V, A, np.zeros((nv, 0, 6)), out)
    return np.moveaxis(out.imag / COMPLEX_STEP, 1, -1)


@pytest.mark.parametrize("key", ROBOTS)
def test_torques_and_first_derivatives_are_those_of_pinocchio(key):
    robot, rng = robot_of(key), np.random.default_rng(seed_of(key))
    data = robot.model.createData()
    for _ in range(STATES):
        q, v, a = random_state(robot, rng, speed=3.0)
        fext = rng.normal(size=(robot.model.njoints, 6))
        tau = dynamics.inverse_dynamics(robot, q, v, a, fext)
        assert relative_error(tau, pin.rnea(robot.model, data, q, v, a, pin_forces(fext))) < 1e-12
        first = dynamics.inverse_dynamics_derivatives(robot, q, v, a, fext)
        for ours, truth in zip(first, pin_inverse_derivatives(robot, data, q, v, a, fext), strict=True):
            assert relative_error(ours, truth) < 1e-12


@pytest.mark.parametrize("key", ["ur5", "hyq", *range(8)])
def test_first_derivatives_of_a_batch_are_those_of_pinocchio_whatever_way_is_down(key):
    model, rng = robot_of(key).model.copy(), np.random.default_rng(seed_of(key))
    model.gravity = pin.Motion(np.concatenate([rng.normal(size=3), np.zeros(3)]))
    model.jointPlacements[1] = pin.exp6(rng.normal(size=6))
    robot = dynamics.load(model)
    data = robot.model.createData()
    q, v, a = map(np.stack, zip(*(random_state(robot, rng, speed=3.0) for _ in range(9)), strict=True))
    fext = rng.normal(size=(9, robot.model.njoints, 6))
    first = dynamics.inverse_dynamics_derivatives(robot, q, v, a, fext)
    for t in range(9):
        for ours, truth in zip(first, pin_inverse_derivatives(robot, data, q[t], v[t], a[t], fext[t]), strict=True):
            assert relative_error(ours[t], truth) < 1e-12


@pytest.mark.parametrize("key", ROBOTS)
def test_tensors_are_the_differences_of_pinocchios_first_derivatives(key):
    robot, rng = robot_of(key), np.random.default_rng(seed_of(key))
    data = robot.model.createData()
    for _ in range(STATES):
        q, v, a = random_state(robot, rng)
        along = directions(robot.nv, rng)
        truth = differenced_tensors(robot, lambda q, v, a=a: pin_inverse_derivatives(robot, data, q, v, a), q, v, along)
        ours = dynamics.inverse_dynamics_second_derivatives(robot, q, v, a)
        for name, value, reference in zip(ours._fields, ours, truth, strict=True):
            assert relative_error(value @ along, reference) < 1e-9, name


@pytest.mark.parametrize("key", ROBOTS)
def test_tensors_agree_with_complex_step_and_with_their_contraction(key):
    robot, rng = robot_of(key), np.random.default_rng(seed_of(key))
    for _ in range(STATES):
        q, v, a = random_state(robot, rng, speed=2.0)
        mu = rng.normal(size=robot.nv)
        tensors = dynamics.inverse_dynamics_second_derivatives(robot, q, v, a)
        dqdq, dvdq, dadq = complex_first_derivatives(robot, q, v, a, 0)
        dvdv = complex_first_derivatives(robot, q, v, a, 1)[1]
        for value, truth in zip(tensors, (dqdq, dvdv, dvdq, dadq), strict=True):
            assert relative_error(value, truth) < 1e-12
        hessian = dynamics.inverse_dynamics_hessian(robot, q, v, a, mu)
        contracted = [np.einsum("i,ijk", mu, T) for T in tensors]
        assert relative_error(hessian.qq, contracted[0]) < 1e-12
        assert relative_error(hessian.vv, contracted[1]) < 1e-12
        assert relative_error(hessian.qv.T, contracted[2]) < 1e-12
        assert relative_error(hessian.qa.T, contracted[3]) < 1e-12


@pytest.mark.parametrize("key", ["ur5", "hyq", 3, 7, 8])
def test_first_derivatives_agree_with_complex_step_of_the_torques(key):
    robot, rng = robot_of(key), np.random.default_rng(seed_of(key))
    q, v, a = random_state(robot, rng)
    first = dynamics.inverse_dynamics_derivatives(robot, q, v, a)
    for along, value in enumerate(first):
        Q, V, A = complex_steps(robot, (q, v, a), along)
        tau = np.empty((robot.nv, robot.nv), complex)
        memory = np.empty(batch.size(robot.tree.nb, robot.nq, robot.nv), complex)
        batch.inverse_dynamics(robot.tree.address, memory, Q, V, A, np.zeros((robot.nv, 0, 6)), tau)
        assert relative_error(value, tau.imag.T / COMPLEX_STEP) < 1e-12


def test_iterated_and_symmetric_hessians_differ_by_the_brackets_of_a_free_flyer(rng):
    robot = dynamics.load("hyq")
    data = robot.model.createData()
    q, v, a = random_state(robot, rng)
    mu, delta = rng.normal(size=(2, robot.nv))
    iterated = dynamics.inverse_dynamics_hessian(robot, q, v, a, mu)
    symmetric = dynamics.inverse_dynamics_hessian(robot, q, v, a, mu, symmetric=True)
    assert np.abs(iterated.qq - iterated.qq.T).max() > 0.1
    assert np.array_equal(symmetric.qq, symmetric.qq.T)
    h = 1e-3

    def torque(t):
        return mu @ pin.rnea(robot.model, data, pin.integrate(robot.model, q, t * delta), v, a)

    second = (-torque(2 * h) + 16 * torque(h) - 30 * torque(0) + 16 * torque(-h) - torque(-2 * h)) / (12 * h * h)
    assert abs(delta @ symmetric.qq @ delta - second) < 1e-7 * abs(second)


def test_second_derivatives_include_wrenches_that_turn_with_their_bodies(rng):
    robot = random_tree(5)
    data = robot.model.createData()
    q, v, a = random_state(robot, rng)
    fext = 5.0 * rng.normal(size=(robot.model.njoints, 6))
    along = directions(robot.nv, rng)
    truth = differenced_tensors(robot, lambda q, v: pin_inverse_derivatives(robot, data, q, v, a, fext), q, v, along)
    for value, reference in zip(
        dynamics.inverse_dynamics_second_derivatives(robot, q, v, a, fext), truth, strict=True
    ):
        assert relative_error(value @ along, reference) < 1e-9


def test_a_batch_gives_the_same_as_its_samples(rng):
    """To rounding: one sample runs on floats, many run eight at a time."""
    robot = dynamics.load("panda")
    Q = np.stack([robot.random_configuration(rng) for _ in range(13)])
    V, A, mu = rng.normal(size=(3, 13, robot.nv))
    together = dynamics.inverse_dynamics_hessian(robot, Q, V, A, mu)
    for i in range(13):
        alone = dynamics.inverse_dynamics_hessian(robot, Q[i], V[i], A[i], mu[i])
        for x, y in zip(together, alone, strict=True):
            assert relative_error(x[i], y) < 1e-13


@pytest.mark.parametrize("robot", ["ur5", "hyq"])
def test_strided_and_read_only_arrays_compile_nothing_new(robot, rng):
    robot = dynamics.load(robot)
    Q = np.asfortranarray(np.stack([robot.random_configuration(rng) for _ in range(4)]))
    V = rng.normal(size=(4, 2 * robot.nv))[:, ::2]
    V.flags.writeable = False
    dynamics.inverse_dynamics(robot, np.ascontiguousarray(Q), V.copy(), V.copy())
    before = len(batch.inverse_dynamics.signatures)
    dynamics.inverse_dynamics(robot, Q, V, V)
    assert len(batch.inverse_dynamics.signatures) == before

"""Wrenches constant in their body's frame, and in world axes, against Pinocchio with the wrenches turned by hand."""

import numpy as np
import pinocchio as pin
import pytest
from oracles import (
    chain_of,
    fourth_order,
    pin_forces,
    pin_forward_derivatives,
    pin_inverse_derivatives,
    random_state,
    random_tree,
    relative_error,
)

import dynamics
from ddp.errors import ProblemError

ROBOTS = {
    "hyq": lambda: dynamics.load("hyq"),
    "groups": lambda: chain_of("planar", "spherical", "translation", "helical unaligned", "free-flyer", "revolute"),
    "tree 5": lambda: random_tree(5),
    "tree 8": lambda: random_tree(8),
}


@pytest.fixture(params=ROBOTS)
def sample(request, rng):
    robot = ROBOTS[request.param]()
    return robot, *random_state(robot, rng), 5.0 * rng.normal(size=(robot.model.njoints, 6))


def in_local_axes(robot, q, wrenches):
    """World-axis wrenches as Pinocchio wants them at q: in each joint's own axes."""
    data = robot.model.createData()
    pin.forwardKinematics(robot.model, data, q)
    turned = wrenches.copy()
    for j in range(1, robot.model.njoints):
        R = data.oMi[j].rotation
        turned[j] = np.concatenate([R.T @ wrenches[j, :3], R.T @ wrenches[j, 3:]])
    return turned


def torque(robot, q, v, a, wrenches):
    data = robot.model.createData()
    return pin.rnea(robot.model, data, q, v, a, pin_forces(in_local_axes(robot, q, wrenches))).copy()


def acceleration(robot, q, v, tau, wrenches):
    data = robot.model.createData()
    return pin.aba(robot.model, data, q, v, tau, pin_forces(in_local_axes(robot, q, wrenches))).copy()


def along_q(robot, q, f):
    """Derivatives of f(q) by q, last index the direction."""
    steps = np.eye(robot.nv)
    return np.stack([fourth_order(lambda t, e=e: f(pin.integrate(robot.model, q, t * e))) for e in steps], axis=-1)


def test_inverse_dynamics_and_its_first_derivatives_keep_the_wrench_in_the_world(sample):
    robot, q, v, a, fext = sample
    assert relative_error(
        dynamics.inverse_dynamics(robot, q, v, a, fext, fext_frame="world"), torque(robot, q, v, a, fext)
    ) < 1e-12
    first = dynamics.inverse_dynamics_derivatives(robot, q, v, a, fext, fext_frame="world")
    assert relative_error(first.dq, along_q(robot, q, lambda q: torque(robot, q, v, a, fext))) < 1e-9
    local = dynamics.inverse_dynamics_derivatives(robot, q, v, a, in_local_axes(robot, q, fext))
    np.testing.assert_allclose(first.dv, local.dv, atol=1e-12 * np.abs(local.dv).max())
    assert relative_error(first.dq, local.dq) > 1e-3


def world_first_derivatives(robot, q, v, a, fext):
    """∂τ/∂q by differences of Pinocchio's jacobian-transpose torques, the rest by its analytic derivatives."""
    data = robot.model.createData()
    analytic = pin_inverse_derivatives(robot, data, q, v, a)[0]

    def external(q):
        pin.computeJointJacobians(robot.model, data, q)
        tau = np.zeros(robot.nv)
        for j in range(1, robot.model.njoints):
            tau += pin.getJointJacobian(robot.model, data, j, pin.LOCAL_WORLD_ALIGNED).T @ fext[j]
        return tau

    return analytic, external


def test_second_derivatives_of_inverse_dynamics_keep_the_wrench_in_the_world(sample, rng):
    robot, q, v, a, fext = sample
    data = robot.model.createData()
    _, external = world_first_derivatives(robot, q, v, a, fext)
    tensors = dynamics.inverse_dynamics_second_derivatives(robot, q, v, a, fext, fext_frame="world")
    free = along_q(robot, q, lambda q: pin_inverse_derivatives(robot, data, q, v, a)[0])
    turned = along_q(robot, q, lambda q: along_q(robot, q, external))  # D_k of D_j, the order of iteration
    assert relative_error(tensors.dqdq, free - turned) < 1e-8
    mu = rng.normal(size=robot.nv)
    hessian = dynamics.inverse_dynamics_hessian(robot, q, v, a, mu, fext, fext_frame="world")
    assert relative_error(hessian.qq, np.einsum("i,ijk", mu, tensors.dqdq)) < 1e-12
    symmetric = dynamics.inverse_dynamics_hessian(robot, q, v, a, mu, fext, True, fext_frame="world").qq
    np.testing.assert_array_equal(symmetric, symmetric.T)


def test_forward_dynamics_keeps_the_wrench_in_the_world_to_second_order(sample, rng):
    robot, q, v, tau, fext = sample
    a = dynamics.forward_dynamics(robot, q, v, tau, fext, fext_frame="world")
    assert relative_error(a, acceleration(robot, q, v, tau, fext)) < 1e-9
    first = dynamics.forward_dynamics_derivatives(robot, q, v, tau, fext, fext_frame="world")
    assert relative_error(first.dq, along_q(robot, q, lambda q: acceleration(robot, q, v, tau, fext))) < 1e-7
    tensors = dynamics.forward_dynamics_second_derivatives(robot, q, v, tau, fext, fext_frame="world")
    weight = rng.normal(size=robot.nv)
    hessian = dynamics.forward_dynamics_hessian(robot, q, v, tau, weight, fext, fext_frame="world")
    for value, T in zip((hessian.qq, hessian.vv, hessian.qv.T, hessian.qtau.T), tensors, strict=True):
        np.testing.assert_allclose(value, np.einsum("i,ijk", weight, T), atol=1e-11 * np.abs(T).max())
    delta = rng.normal(size=robot.nv)

    def rate(t):  # Pinocchio's derivatives with the wrench turned to each q, corrected for its own turning
        moved = pin.integrate(robot.model, q, t * delta)
        data = robot.model.createData()
        local = in_local_axes(robot, moved, fext)
        dq, _, Minv = pin_forward_derivatives(robot, data, moved, v, tau, local)
        turning = fourth_order(
            lambda s: torque_of_turning(robot, moved, pin.integrate(robot.model, moved, s * delta), fext)
        )
        return weight @ (dq @ delta + Minv @ turning)

    second = fourth_order(rate)
    symmetric = dynamics.forward_dynamics_hessian(robot, q, v, tau, weight, fext, True, fext_frame="world").qq
    scale = np.abs(delta) @ np.abs(symmetric) @ np.abs(delta)
    assert abs(delta @ symmetric @ delta - second) < 1e-7 * scale


def torque_of_turning(robot, here, there, fext):
    """Torques at ``here`` of the wrenches with the local components they have ``there``."""
    data = robot.model.createData()
    pin.computeJointJacobians(robot.model, data, here)
    local, tau = in_local_axes(robot, there, fext), np.zeros(robot.nv)
    for j in range(1, robot.model.njoints):
        tau += pin.getJointJacobian(robot.model, data, j, pin.LOCAL).T @ local[j]
    return tau


def test_batches_in_the_world_are_their_samples(rng):
    robot = random_tree(5)
    Q = np.stack([robot.random_configuration(rng) for _ in range(9)])
    V, A = rng.normal(size=(2, 9, robot.nv))
    fext = rng.normal(size=(9, robot.model.njoints, 6))
    tau = dynamics.inverse_dynamics(robot, Q, V, A, fext, fext_frame="world")
    for t in range(9):
        one = dynamics.inverse_dynamics(robot, Q[t], V[t], A[t], fext[t], fext_frame="world")
        np.testing.assert_allclose(tau[t], one, rtol=1e-12, atol=1e-12)


def test_an_unknown_frame_of_wrenches_is_named():
    robot = dynamics.load("ur5")
    with pytest.raises(ProblemError, match="fext_frame: unknown 'word'; did you mean 'world'"):
        dynamics.inverse_dynamics(robot, np.zeros(6), np.zeros(6), np.zeros(6), fext_frame="word")

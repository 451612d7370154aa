"""Exp, Log and their derivatives, against Pinocchio's: at 0, at 1e-7, at ordinary angles and near π."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from dynamics.geometry import joint_motion, lie

ANGLES = [0.0, 1e-7, 1e-3, 0.3, 1.0, 2.0, 3.0, np.pi - 1e-3, np.pi - 1e-7]
BEYOND = [3.1622, 3.1624, 4.0, 5.0, 6.2]
H = 1e-3


def tangent(rng, angle):
    axis = rng.normal(size=3)
    return np.concatenate([rng.normal(size=3), angle * axis / np.linalg.norm(axis)])


def fourth_order(f, h=H):
    """d/dt f(t) at 0 by central differences of order four."""
    return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)


def written(kernel, *arguments):
    out = np.full((6, 6), np.nan)
    kernel(*(tuple(a) for a in arguments), out)
    return out


def jexp6(xi):
    return pin.Jexp6(pin.Motion(xi))


def se3(xi):
    return pin.exp6(pin.Motion(xi))


@pytest.mark.parametrize("angle", ANGLES + BEYOND)
def test_exponentials_are_pinocchios(rng, angle):
    for _ in range(10):
        xi = tangent(rng, angle)
        R, p = lie.exp6(tuple(xi))
        expected = se3(xi)
        np.testing.assert_allclose(np.reshape(R, (3, 3)), expected.rotation, atol=1e-14)
        np.testing.assert_allclose(p, expected.translation, atol=1e-14)
        quaternion = lie.quaternion_exp(tuple(xi[3:]))
        assert np.linalg.norm(quaternion) == pytest.approx(1.0, abs=1e-14)
        np.testing.assert_allclose(
            np.reshape(lie.quaternion_to_rotation(quaternion), (3, 3)), expected.rotation, atol=1e-14
        )


@pytest.mark.parametrize("angle", ANGLES)
def test_logarithm_undoes_the_exponential(rng, angle):
    for _ in range(20):
        xi = tangent(rng, angle)
        M = se3(xi)
        np.testing.assert_allclose(lie.log6(tuple(M.rotation.ravel()), tuple(M.translation)), xi, atol=2e-14)
        turn, _ = lie.quaternion_log(tuple(pin.Quaternion(M.rotation).coeffs()))
        np.testing.assert_allclose(turn, xi[3:], atol=2e-14)


def test_half_turns_have_logarithms_of_length_pi():
    for axis in (*np.eye(3), *-np.eye(3), np.array([0.6, 0.0, -0.8])):
        half_turn = 2.0 * np.outer(axis, axis) - np.eye(3)
        w = np.array(lie.log6(tuple(half_turn.ravel()), (0.0, 0.0, 0.0))[3:])
        assert np.linalg.norm(w) == pytest.approx(np.pi, abs=1e-14)
        np.testing.assert_allclose(np.abs(w @ axis), np.pi, atol=1e-14)


def test_quaternion_product_is_that_of_the_rotations(rng):
    a, b = (pin.Quaternion(*q / np.linalg.norm(q)) for q in rng.normal(size=(2, 4)))
    np.testing.assert_allclose(
        lie.quaternion_product(tuple(a.coeffs()), tuple(b.coeffs())), (a * b).coeffs(), atol=1e-15
    )


@pytest.mark.parametrize("angle", ANGLES + BEYOND)
def test_free_flyer_integrates_and_differs_as_pinocchio(rng, angle):
    model = pin.Model()
    model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "root")
    model.lowerPositionLimit[:], model.upperPositionLimit[:] = -1.0, 1.0
    for _ in range(10):
        q = pin.randomConfiguration(model)
        xi = tangent(rng, angle)
        moved = lie.integrate_free_flyer(tuple(q), tuple(xi))
        np.testing.assert_allclose(moved, pin.integrate(model, q, xi), atol=1e-13)
        assert np.linalg.norm(moved[3:]) == pytest.approx(1.0, abs=1e-15)
        if angle < np.pi:
            np.testing.assert_allclose(lie.difference_free_flyer(tuple(q), moved), xi, atol=1e-13)
            if angle < 3.1:  # pinocchio's own logarithm loses digits nearer to pi
                expected = pin.difference(model, q, np.array(moved))
                np.testing.assert_allclose(lie.difference_free_flyer(tuple(q), moved), expected, atol=1e-10)


@pytest.mark.parametrize("angle", ANGLES + BEYOND)
def test_right_jacobian_is_pinocchios(rng, angle):
    for _ in range(10):
        xi = tangent(rng, angle)
        # Pinocchio's coefficients lose digits to cancellation at small angles
        np.testing.assert_allclose(written(lie.right_jacobian6, xi), jexp6(xi), atol=1e-13 if angle > 1e-2 else 1e-6)


@pytest.mark.parametrize("angle", ANGLES)
def test_jlog_inverts_the_right_jacobian_and_is_pinocchios(rng, angle):
    for _ in range(10):
        xi = tangent(rng, angle)
        J = written(lie.jlog6, xi)
        np.testing.assert_allclose(J @ written(lie.right_jacobian6, xi), np.eye(6), atol=1e-13)
        if angle < 3.1:
            np.testing.assert_allclose(J, pin.Jlog6(se3(xi)), atol=1e-12 if angle > 1e-2 else 1e-6)


@pytest.mark.parametrize("angle", ANGLES + BEYOND)
@pytest.mark.parametrize("kind", joint_motion.GROUPS)
def test_rates_of_joints_are_pinocchios_action_and_right_jacobian(rng, kind, angle):
    own = {
        joint_motion.FREE_FLYER: [0, 1, 2, 3, 4, 5],
        joint_motion.SPHERICAL: [3, 4, 5],
        joint_motion.PLANAR: [0, 1, 5],
    }
    numbers = tangent(rng, angle)[own[kind]]
    xi, nj = np.zeros(6), len(numbers)
    xi[own[kind]] = numbers
    assert tuple(xi) == joint_motion.twist_of(kind, numbers, 0, 1.0)
    T, J, alone = np.full((3, 6, 6), np.nan)
    joint_motion.joint_rates(kind, nj, tuple(xi), T, J)
    block = np.ix_(own[kind], own[kind])
    np.testing.assert_allclose(T[:nj, :nj], se3(xi).inverse().action[block], atol=1e-14)
    np.testing.assert_allclose(J[:nj, :nj], jexp6(xi)[block], atol=1e-13 if angle > 1e-2 else 1e-6)
    joint_motion.joint_transport(kind, nj, tuple(xi), alone)
    np.testing.assert_array_equal(alone[:nj, :nj], T[:nj, :nj])


@pytest.mark.parametrize("angle", [0.3, 1.0, 2.0, 3.0, 3.1622, 3.1624, 4.0, 5.0, 6.2])
def test_contracted_right_jacobian_is_the_symmetrised_derivative_of_pinocchios(rng, angle):
    for _ in range(5):
        xi, w = tangent(rng, angle), rng.normal(size=6)
        T = np.stack([fourth_order(lambda h, e=e, xi=xi, w=w: w @ jexp6(xi + h * e)) for e in np.eye(6)])
        np.testing.assert_allclose(written(lie.right_jacobian6_contracted, xi, w), 0.5 * (T + T.T), atol=1e-10)


@pytest.mark.parametrize("angle", ANGLES + BEYOND)
def test_contracted_right_jacobian_is_the_complex_step_of_the_jacobian(rng, angle):
    for _ in range(5):
        xi, w = tangent(rng, angle), rng.normal(size=6)
        T = np.empty((6, 6))
        for j, e in enumerate(np.eye(6)):
            out = np.zeros((6, 6), complex)
            lie.right_jacobian6(tuple(xi + 1e-30j * e), out)
            T[j] = w @ out.imag / 1e-30
        np.testing.assert_allclose(written(lie.right_jacobian6_contracted, xi, w), 0.5 * (T + T.T), atol=1e-13)


@pytest.mark.parametrize("angle", [0.0, 0.3, 1.0, 2.0, 3.0])
def test_log_hessian_is_the_symmetrised_derivative_of_pinocchios_jlog(rng, angle):
    # at 0 with a larger step: Pinocchio's series takes over below about 1e-4 and costs digits
    h = 2e-2 if angle == 0.0 else H
    for _ in range(5):
        xi, w = tangent(rng, angle), rng.normal(size=6)
        M = se3(xi)
        T = np.stack([fourth_order(lambda t, e=e, M=M, w=w: w @ pin.Jlog6(M * se3(t * e)), h) for e in np.eye(6)])
        np.testing.assert_allclose(written(lie.log6_hessian, xi, w), 0.5 * (T + T.T), atol=1e-6 if angle == 0 else 2e-9)


@pytest.mark.parametrize("angle", [*ANGLES, 3.5, 5.0])
def test_log_hessian_is_the_complex_step_of_jlog_along_the_group(rng, angle):
    for _ in range(5):
        xi, w = tangent(rng, angle), rng.normal(size=6)
        J = written(lie.jlog6, xi)
        T = np.empty((6, 6))
        for j, direction in enumerate(J.T):  # log6(M Exp(d)) leaves xi along Jlog d
            out = np.zeros((6, 6), complex)
            lie.jlog6(tuple(xi + 1e-30j * direction), out)
            T[j] = w @ out.imag / 1e-30
        scale = max(1.0, np.abs(T).max())
        np.testing.assert_allclose(written(lie.log6_hessian, xi, w) / scale, 0.5 * (T + T.T) / scale, atol=1e-13)


@pytest.mark.parametrize("angle", [0.0, 1e-7, 1.0, 3.0, np.pi - 1e-3])
def test_logarithm_differentiates_by_complex_step(rng, angle):
    xi = tangent(rng, angle)
    M = se3(xi)
    expected = written(lie.jlog6, xi)
    for j in range(6):
        d = np.zeros(6, complex)
        d[j] = 1e-30j
        R, p = lie.exp6(tuple(d))
        moved = M.rotation @ np.reshape(R, (3, 3))
        shifted = M.translation + M.rotation @ np.array(p)
        column = np.imag(lie.log6(tuple(moved.ravel()), tuple(shifted))) / 1e-30
        np.testing.assert_allclose(column, expected[:, j], atol=1e-12)


def test_hessians_are_exactly_symmetric(rng):
    xi, w = tangent(rng, 1.3), rng.normal(size=6)
    for kernel in (lie.log6_hessian, lie.right_jacobian6_contracted):
        H6 = written(kernel, xi, w)
        np.testing.assert_array_equal(H6, H6.T)

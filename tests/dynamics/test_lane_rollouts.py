"""Closed-loop rollouts against one step after another, which other tests compare with Pinocchio's."""

import numpy as np
import pinocchio as pin
import pytest
from oracles import sprung

import dynamics

JOINTS = [
    pin.JointModelRX, pin.JointModelPZ, pin.JointModelRUBY, pin.JointModelSpherical, pin.JointModelPlanar,
    pin.JointModelTranslation, pin.JointModelFreeFlyer,
]  # fmt: skip


def random_robot(rng, floating):
    """A tree of nine joints, every kind among them, with armature, damping and springs."""
    model = pin.Model()
    kinds = ([pin.JointModelFreeFlyer] if floating else []) + [JOINTS[i] for i in rng.permutation(len(JOINTS))]
    for j, kind in enumerate([*kinds, pin.JointModelRZ, pin.JointModelPX]):
        parent = int(rng.integers(0, j + 1))
        i = model.addJoint(parent, kind(), pin.SE3.Random(), f"joint{j}")
        model.appendBodyToJoint(i, pin.Inertia.Random(), pin.SE3.Identity())
    model.armature = rng.uniform(0.0, 0.3, model.nv)
    return sprung(dynamics.load(model), rng)


def one_by_one(system, X, U, k, K, alphas, gaps, lower, upper):
    Xs, Us = np.empty((len(alphas), *X.shape)), np.empty((len(alphas), *U.shape))
    for alpha, Xn, Un in zip(alphas, Xs, Us, strict=True):
        Xn[0] = X[0]
        for t in range(len(U)):
            Un[t] = np.clip(U[t] + alpha * k[t] + K[t] @ system.difference(X[t], Xn[t]), lower[t], upper[t])
            Xn[t + 1] = system.step(Xn[t], Un[t])
            if gaps[t].any():
                Xn[t + 1] = system.integrate(Xn[t + 1], (alpha - 1.0) * gaps[t])
    return Xs, Us


@pytest.mark.parametrize("integrator", ["semi-implicit-euler", "euler", "rk4", "implicit-euler", "sdirk2"])
@pytest.mark.parametrize("seed", range(4))
def test_rollouts_in_lanes_are_the_rollouts_one_by_one(integrator, seed):
    rng = np.random.default_rng(seed)
    robot = random_robot(rng, seed % 2 == 0)
    system = dynamics.RobotDynamics(robot, 0.01, rng.normal(size=(robot.nv, 5)), integrator, damping=True)
    N, n, nu = 6, system.n, system.nu
    X = np.stack([np.concatenate([robot.random_configuration(rng), rng.normal(size=robot.nv)]) for _ in range(N + 1)])
    U, k, K = rng.normal(size=(N, nu)), rng.normal(size=(N, nu)), 0.1 * rng.normal(size=(N, nu, n))
    gaps = 0.3 * rng.normal(size=(N, n)) * (np.arange(N) % 2)[:, None]
    lower, upper = np.full((N, nu), -np.inf), rng.uniform(0.0, 3.0, (N, nu))
    upper[:, 1] = np.inf
    alphas = 0.5 ** np.arange(11)
    got = system.track(X, U, k, K, alphas, gaps, lower, upper)
    scattered = (np.asfortranarray(x) for x in (X, U, k, K))
    for a, b in zip(got, system.track(*scattered, alphas, np.asfortranarray(gaps), lower, upper), strict=True):
        np.testing.assert_array_equal(a, b)
    expected = one_by_one(system, X, U, k, K, alphas, gaps, lower, upper)
    for a, b in zip(got, expected, strict=True):
        assert np.isfinite(b).all()
        assert np.abs(a - b).max() <= 1e-8 * np.abs(b).max()
    first = slice(0, 2)  # before rounding is amplified by motions this fast
    assert np.abs(got[0][:, first] - expected[0][:, first]).max() <= 1e-11 * np.abs(expected[0][:, first]).max()


@pytest.mark.parametrize("angle", [0.0, 1e-160, 1e-12, 1e-7, 1e-3, 0.5, 3.0, np.pi - 1e-9])
def test_deviations_of_any_angle_in_lanes_are_logarithms(rng, angle):
    system = dynamics.RobotDynamics(dynamics.load("iris"), 0.01, np.eye(6))
    axis = rng.normal(size=3)
    axis /= np.linalg.norm(axis)
    xi = np.concatenate([rng.normal(size=3), angle * axis])
    x0 = np.concatenate([system.robot.random_configuration(rng), rng.normal(size=6)])
    x1 = system.step(x0, np.zeros(6))
    attitude = pin.Quaternion(x1[3:7]) * pin.Quaternion(np.append(-np.sin(angle / 2) * axis, np.cos(angle / 2)))
    position = x1[:3] - attitude.toRotationMatrix() @ pin.exp6(xi).translation
    nominal = np.concatenate([position, -attitude.coeffs(), x1[7:]])
    U, K, free = np.zeros((2, 6)), np.tile(np.eye(6, 12), (2, 1, 1)), np.full((2, 6), np.inf)
    gaps = np.zeros((2, 12))
    _, Us = system.track(np.stack([x0, nominal, nominal]), U, U, K, np.ones(1), gaps, -free, free)
    assert np.abs(Us[0, 1] - xi).max() <= 1e-12


def test_a_lane_that_diverges_is_nan_from_there_on_and_does_not_disturb_the_others():
    robot = dynamics.load("ur5")
    system = dynamics.RobotDynamics(robot, 0.01)
    rng = np.random.default_rng(0)
    N, n, nu = 8, system.n, system.nu
    X, U, K = np.tile(np.concatenate([robot.q0, np.zeros(6)]), (N + 1, 1)), np.zeros((N, nu)), np.zeros((N, nu, n))
    k = np.zeros((N, nu))
    k[3] = 1e300 * rng.normal(size=nu)
    none = np.full(nu, np.inf)
    alphas = np.array([0.0, 1.0, 1e-300])
    Xs, Us = system.track(X, U, k, K, alphas, np.zeros((N, n)), -none, none)
    assert np.isfinite(Xs[[0, 2]]).all()
    assert np.isfinite(Us[[0, 2]]).all()
    fine = np.isfinite(Xs[1]).all(axis=1)
    knot = int(np.argmin(fine))
    assert fine[:4].all()
    assert 4 <= knot <= N
    assert np.isnan(Xs[1, knot:]).all()
    assert np.isnan(Us[1, knot:]).all()
    alone = system.track(X, U, k, K, alphas[2:], np.zeros((N, n)), -none, none)
    assert np.array_equal(alone[0][0], Xs[2])


@pytest.mark.parametrize("seed", range(3))
def test_a_semi_implicit_system_says_which_rows_are_not_plain(seed):
    rng = np.random.default_rng(seed)
    robot = random_robot(rng, floating=True)
    system = dynamics.RobotDynamics(robot, 0.05)
    h, bent = system.semi_implicit
    x = np.concatenate([robot.random_configuration(rng), rng.normal(size=robot.nv)])
    A, B = system.linearize(x, rng.normal(size=system.nu))
    F, m = np.hstack([A, B]), robot.nv
    rest = F[:m] - h * F[m:] - np.eye(m, F.shape[1])
    plain = np.ones(m, dtype=bool)
    for first, size in bent:
        plain[first : first + size] = False
    assert np.abs(rest[plain]).max() <= 1e-14 * np.abs(F).max()
    assert (np.abs(rest[~plain]).max(axis=1) > 1e-6).any()
    assert dynamics.RobotDynamics(robot, 0.05, integrator="rk4").semi_implicit is None

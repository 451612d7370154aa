"""Values, gradients and Hessians of every cost term against differences of Pinocchio's own quantities."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest
import residual_oracle as oracles

import ddp
from ddp.constraints.lagrangian import Lagrangian, state_size
from ddp.errors import ProblemError
from dynamics.robots.model import load
from dynamics.steps.function_dynamics import FunctionDynamics
from dynamics.steps.robot_dynamics import RobotDynamics
from problems.constraints import FramePositionEquality
from problems.costs import (
    CenterOfMass,
    ControlCost,
    ControlLimits,
    Energy,
    FramePose,
    FramePosition,
    FrameVelocity,
    GravityTorqueCost,
    JointLimits,
    Momentum,
    Quadratic,
    StateCost,
)
from tests.problems.conftest import random_state

FRAMES = [("ur5", "tool0"), ("hyq", "rf_foot"), ("mixed", "left_tip"), ("mixed", "right_tip")]
REFERENCES = {
    "local": pin.ReferenceFrame.LOCAL,
    "world": pin.ReferenceFrame.WORLD,
    "local-world-aligned": pin.ReferenceFrame.LOCAL_WORLD_ALIGNED,
}


def near(model, x, rng, spread=0.6):
    """Another state: a target whose difference to x stays away from half a turn, where the logarithm
    breaks.
    """
    q = pin.integrate(model, x[: model.nq], spread * rng.normal(size=model.nv))
    return np.concatenate([q, rng.normal(size=model.nv)])


def close(actual, expected, tolerance):
    """Within a tolerance of the largest entry, or of one."""
    np.testing.assert_allclose(actual, expected, atol=tolerance * max(1.0, np.abs(expected).max()), rtol=0)


def agrees(term, oracle, x, nu=3):
    """Rounding in the value; the differences' own noise, 1e-10 and 1e-7, in the derivatives."""
    u, n = np.zeros(nu), 2 * oracle.model.nv
    assert term.value(x, u) == pytest.approx(oracle.value(x), rel=1e-12)
    gradient, H, G = term.gradient(x, u), term.hessian(x, u), term.hessian(x, u, exact=False)
    assert gradient.shape == (n + nu,)
    assert H.shape == (n + nu, n + nu)
    for beyond in (gradient[n:], H[n:], H[:, n:], G[n:], G[:, n:]):
        assert not beyond.any()
    close(gradient[:n], oracle.gradient(x), 1e-9)
    close(G[:n, :n], oracle.gauss_newton(x), 1e-9)
    close(H[:n, :n], oracle.hessian(x), 2e-7)
    close(H, H.T, 1e-14)


@pytest.mark.parametrize(("name", "frame"), FRAMES)
def test_frame_pose_is_exact_to_second_order(robots, rng, name, frame):
    robot = robots[name]
    for _ in range(2):
        x, weights = random_state(robot, rng), rng.uniform(0.0, 2.0, size=6)
        data = robot.model.createData()
        pin.framesForwardKinematics(robot.model, data, x[: robot.nq])
        target = data.oMf[robot.frame_id(frame)] * pin.exp6(0.6 * rng.normal(size=6))
        oracle = oracles.Oracle(robot.model, oracles.frame_pose(robot.model, frame, target), weights)
        agrees(FramePose(robot, frame, target, weights), oracle, x)
        agrees(FramePose(robot, frame, target.homogeneous, weights), oracle, x)


@pytest.mark.parametrize(("name", "frame"), FRAMES)
def test_frame_position_is_exact_to_second_order(robots, rng, name, frame):
    robot = robots[name]
    x, target = random_state(robot, rng), rng.normal(size=3)
    oracle = oracles.Oracle(robot.model, oracles.frame_position(robot.model, frame, target), np.full(3, 1.7))
    agrees(FramePosition(robot, frame, target, 1.7), oracle, x)


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize(("name", "frame"), FRAMES)
def test_frame_velocity_is_exact_to_second_order(robots, rng, name, frame, reference):
    robot = robots[name]
    x, target, weights = random_state(robot, rng), rng.normal(size=6), rng.uniform(0.0, 2.0, size=6)
    residual = oracles.frame_velocity(robot.model, frame, target, REFERENCES[reference])
    agrees(
        FrameVelocity(robot, frame, target, weights, reference),
        oracles.Oracle(robot.model, residual, weights),
        x,
    )


@pytest.mark.parametrize("name", ["ur5", "hyq", "mixed"])
def test_center_of_mass_is_exact_to_second_order(robots, rng, name):
    robot = robots[name]
    x, target = random_state(robot, rng), rng.normal(size=3)
    oracle = oracles.Oracle(robot.model, oracles.center_of_mass(robot.model, target), np.full(3, 2.3))
    agrees(CenterOfMass(robot, target, 2.3), oracle, x)


@pytest.mark.parametrize("name", ["ur5", "hyq", "mixed"])
def test_energy_is_exact_to_second_order(robots, rng, name):
    robot = robots[name]
    x = random_state(robot, rng, 1.0)
    oracle = oracles.Oracle(robot.model, oracles.energy(robot.model, 3.0), np.full(1, 1e-2))
    agrees(Energy(robot, 3.0, 1e-2), oracle, x)


def test_hessians_of_large_robots_are_cleared_before_terms_add_to_them(robots, rng):
    """Twice into the same memory, at other states each time, with a constraint's part: as if it were new."""
    robot = load("talos")
    system = RobotDynamics(robot, 0.01)
    X = np.array([random_state(robot, rng) for _ in range(5)])
    U = rng.normal(size=(4, system.nu))
    terms = [StateCost(system, X[0], 0.3), FramePosition(robot, "gripper_left_base_link", np.ones(3), 2.0)]
    point = FramePositionEquality(robot, "gripper_right_base_link", np.ones(3))
    plain = ddp.Problem(system, terms, [CenterOfMass(robot, np.zeros(3), 1.0)], X[0], 4, constraints=[point])
    problem = plain.augmented(Lagrangian(plain.rows, np.ones(state_size(plain.placed))))
    nz = system.n + system.nu
    d = problem.allocate()
    d.dual[:] = problem.lagrangian.state
    for at in (X, X[::-1].copy()):
        problem.objective.expand(at, U, d, 0, 5)
        problem.objective.expand(at, U, d, 0, 5, exact=True, again=True)
    fresh = problem.allocate()
    problem.objective.expand(X[::-1].copy(), U, fresh, 0, 5)
    problem.objective.expand(X[::-1].copy(), U, fresh, 0, 5, exact=True, again=True)
    np.testing.assert_array_equal(d.lzz, fresh.lzz)
    np.testing.assert_array_equal(d.exact, fresh.exact)
    H = np.zeros((5, nz, nz))
    for _, term, knots in problem.terms():
        weight = 0.01 if term in terms else 1.0
        own = np.zeros(len(X[knots])), np.zeros((len(X[knots]), nz))
        term.expand(X[::-1][knots].copy(), problem.padded(U)[knots], weight, True, *own, H[knots])
    close(fresh.exact, H, 1e-12)


def test_poses_that_terms_aim_at_can_be_copied_and_not_written_to(robots):
    pose = pin.SE3.Random()
    term = FramePose(robots["ur5"], "tool0", pose, 1.0)
    assert (term.target, copy.copy(term.target), pickle.loads(pickle.dumps(term.target))) == (pose, pose, pose)
    with pytest.raises(ValueError, match="read-only"):
        term.target.translation[2] += 0.1
    with pytest.raises(ValueError, match="read-only"):
        term.target.rotation[:] = np.eye(3)
    with pytest.raises(AttributeError):
        term.target.translation = np.zeros(3)
    with pytest.raises(ProblemError, match="target: cannot be changed in place"):
        term.target.setIdentity()
    raised = term.target.copy()
    raised.translation[2] += 0.1
    assert replace(term, target=raised).target == raised
    assert term.target == pose


@pytest.mark.parametrize("name", ["ur5", "mixed"])
def test_matrices_of_weights_are_exact_to_second_order(robots, rng, name):
    """With W = L Lᵀ the oracle's residual is Lᵀ r."""
    robot, frame = robots[name], "tool0" if name == "ur5" else "left_tip"
    model, x = robot.model, random_state(robot, rng)
    pose, point, target = pin.SE3.Random(), rng.normal(size=3), near(model, x, rng)
    system, none = RobotDynamics(robot, 0.01), np.zeros(6)
    for size, residual, make in (
        (3, oracles.frame_position(model, frame, point), lambda W: FramePosition(robot, frame, point, W)),
        (3, oracles.center_of_mass(model, point), lambda W: CenterOfMass(robot, point, W)),
        (6, oracles.frame_pose(model, frame, pose), lambda W: FramePose(robot, frame, pose, W)),
        (6, oracles.frame_velocity(model, frame, none, pin.LOCAL), lambda W: FrameVelocity(robot, frame, none, W)),
        (system.n, oracles.state(model, target), lambda W: StateCost(system, target, W)),
    ):  # fmt: skip
        L = np.tril(rng.normal(size=(size, size))) / np.sqrt(size)
        weighed = oracles.Oracle(model, lambda q, v, r=residual, L=L: L.T @ r(q, v), np.ones(size))
        agrees(make(L @ L.T), weighed, x)
        same = make(np.diag(np.full(size, 0.7))), make(0.7)
        u = np.zeros(3)
        close(same[0].hessian(x, u), same[1].hessian(x, u), 1e-13)
        close(same[0].gradient(x, u), same[1].gradient(x, u), 1e-13)


def test_matrices_of_weights_on_controls_are_parabolas(rng):
    L, u, target = rng.normal(size=(3, 3)), rng.normal(size=3), rng.normal(size=3)
    W, term = L @ L.T, ControlCost(target, L @ L.T)
    assert term.value(np.zeros(2), u) == pytest.approx(0.5 * (u - target) @ W @ (u - target), rel=1e-13)
    lz, lzz = np.zeros((1, 5)), np.zeros((1, 5, 5))
    term.expand(np.zeros((1, 2)), u[None], 2.0, True, np.zeros(1), lz, lzz)
    close(lz[0], [0.0, 0.0, *(2.0 * W @ (u - target))], 1e-13)
    close(lzz[0, 2:, 2:], 2.0 * W, 1e-13)
    assert not lzz[0, :2].any()


@pytest.mark.parametrize("Q", [2.0, [1.0, 3.0], [[2.0, 0.5], [0.5, 1.0]]])
@pytest.mark.parametrize("R", [0.0, 0.3, [0.1, 0.2, 0.3], np.eye(3) + 0.1])
def test_quadratics_of_plain_states_are_parabolas(rng, Q, R):
    target, x, u = rng.normal(size=2), rng.normal(size=2), rng.normal(size=3)
    term = Quadratic(target, Q, R)
    W = np.zeros((5, 5))
    for own, given in ((slice(0, 2), Q), (slice(2, 5), R)):
        size = own.stop - own.start
        W[own, own] = given if np.ndim(given) == 2 else np.diag(np.broadcast_to(given, size))
    z = np.concatenate([x - target, u])
    assert term.value(x, u) == pytest.approx(0.5 * z @ W @ z, rel=1e-13)
    close(term.gradient(x, u), W @ z, 1e-14)
    close(term.hessian(x, u), W, 1e-14)
    assert term.separable == (np.ndim(Q) < 2 and np.ndim(R) < 2)


@pytest.mark.parametrize("whole", [False, True], ids=["weights", "a matrix of weights"])
@pytest.mark.parametrize("name", ["ur5", "hyq"])
def test_torques_beyond_gravitys_are_exact_to_second_order(robots, rng, name, whole):
    robot = robots[name]
    model, data, system = robot.model, robot.model.createData(), RobotDynamics(robot, 0.01)
    x, u = random_state(robot, rng), 10.0 * rng.normal(size=system.nu)
    rows = np.flatnonzero(system.actuation.any(axis=1))
    root = np.diag(rng.uniform(0.5, 1.0, size=len(rows))) + whole * 0.2 * rng.normal(size=(len(rows), len(rows)))
    W = root.T @ root

    def excess(q, v):
        return (system.actuation @ u - pin.computeGeneralizedGravity(model, data, q))[rows]

    oracle = oracles.Oracle(model, lambda q, v: root @ excess(q, v), np.ones(len(rows)))
    term = GravityTorqueCost(system, W if whole else np.diag(W))
    n = system.n
    assert term.value(x, u) == pytest.approx(oracle.value(x), rel=1e-12)
    close(term.gradient(x, u)[:n], oracle.gradient(x), 1e-7)
    close(term.hessian(x, u)[:n, :n], oracle.hessian(x), 2e-6)
    close(term.hessian(x, u, exact=False)[:n, :n], oracle.gauss_newton(x), 1e-7)
    S = system.actuation[rows]
    close(term.gradient(x, u)[n:], S.T @ W @ excess(x[: model.nq], None), 1e-10)
    close(term.hessian(x, u)[n:, n:], S.T @ W @ S, 1e-12)
    X = np.stack([random_state(robot, rng) for _ in range(5)])
    U = rng.normal(size=(5, system.nu))
    np.testing.assert_array_equal(term.values(X[::-1], U[::-1]), term.values(X, U)[::-1])


@pytest.mark.parametrize("about", ["origin", "center-of-mass"])
@pytest.mark.parametrize("name", ["ur5", "hyq", "mixed"])
def test_momentum_is_exact_to_second_order(robots, rng, name, about):
    robot = robots[name]
    x, target, weights = random_state(robot, rng, 1.0), rng.normal(size=6), rng.uniform(0.0, 0.1, size=6)
    oracle = oracles.Oracle(robot.model, oracles.momentum(robot.model, target, about), weights)
    agrees(Momentum(robot, target, weights, about), oracle, x)


@pytest.mark.parametrize("name", ["ur5", "hyq", "mixed"])
def test_state_cost_is_exact_to_second_order_on_the_manifold(robots, rng, name):
    robot = robots[name]
    system = RobotDynamics(robot, 0.01)
    x, weights = random_state(robot, rng), rng.uniform(0.0, 2.0, size=system.n)
    target = near(robot.model, x, rng)
    oracle = oracles.Oracle(robot.model, oracles.state(robot.model, target), weights)
    agrees(StateCost(system, target, weights), oracle, x)


def test_state_cost_on_a_plain_space_is_a_parabola(rng):
    system = FunctionDynamics(lambda x, u: x + u[0], 3, 1)
    target, weights, x = rng.normal(size=3), np.array([1.0, 0.0, 2.0]), rng.normal(size=3)
    term = StateCost(system, target, weights)
    assert term.value(x, np.zeros(1)) == pytest.approx(0.5 * (weights * (x - target) ** 2).sum(), rel=1e-14)
    np.testing.assert_allclose(term.gradient(x, np.zeros(1)), [*(weights * (x - target)), 0.0], atol=1e-15)
    np.testing.assert_array_equal(term.hessian(x, np.zeros(1)), np.diag([*weights, 0.0]))


def test_exact_hessian_of_a_state_differs_from_gauss_newton_only_in_joints_that_do_not_commute(robots, rng):
    robot = robots["mixed"]
    system = RobotDynamics(robot, 0.01)
    x = random_state(robot, rng)
    term = StateCost(system, near(robot.model, x, rng), np.ones(system.n))
    curvature = term.hessian(x, np.zeros(2)) - term.hessian(x, np.zeros(2), exact=False)
    tree = robot.tree
    bodies = np.concatenate(
        [np.arange(v, v + n) for k, v, n in zip(tree.kind, tree.iv, tree.nj, strict=True) if k in (3, 4, 5)]
    )
    assert np.abs(curvature[np.ix_(bodies, bodies)]).max() > 1e-2
    curvature[np.ix_(bodies, bodies)] = 0.0
    assert not curvature.any()


def test_control_cost_is_a_parabola_in_u_alone(rng):
    target, weights, u = rng.normal(size=4), rng.uniform(size=4), rng.normal(size=4)
    term = ControlCost(target, weights)
    expected = 0.5 * (weights * (u - target) ** 2).sum()
    assert term.value(np.zeros(9), u) == pytest.approx(expected, rel=1e-14)
    l, lz, lzz = np.zeros(1), np.zeros((1, 12)), np.zeros((1, 12, 12))
    term.expand(np.zeros((1, 9)), u[None], 3.0, True, l, lz, lzz)
    assert l[0] == pytest.approx(3.0 * expected, rel=1e-14)
    np.testing.assert_allclose(lz[0], np.concatenate([np.zeros(8), 3.0 * weights * (u - target)]), atol=1e-15)
    np.testing.assert_allclose(lzz[0], np.diag(np.concatenate([np.zeros(8), 3.0 * weights])), atol=1e-15)


def test_limits_of_controls_are_zero_within_and_quadratic_beyond():
    term, x = ControlLimits([-1.0, -np.inf, -2.0], [0.5, 1.0, np.inf], [2.0, 3.0, 4.0]), np.zeros(4)
    within, beyond = np.array([0.5, -100.0, 7.0]), np.array([0.75, 1.5, -2.5])
    assert term.value(x, within) == 0.0
    assert not term.gradient(x, within).any()
    assert term.value(x, beyond) == pytest.approx(0.5 * (2.0 * 0.25**2 + 3.0 * 0.5**2 + 4.0 * 0.5**2), rel=1e-14)
    l, lz, lzz = np.zeros(1), np.zeros((1, 7)), np.zeros((1, 7, 7))
    term.expand(x[None], beyond[None], 3.0, True, l, lz, lzz)
    np.testing.assert_allclose(lz[0, 4:], 3.0 * term.gradient(x, beyond), rtol=1e-14)
    np.testing.assert_allclose(term.gradient(x, beyond), [0.5, 1.5, -2.0], rtol=1e-14)
    np.testing.assert_allclose(lzz[0, 4:, 4:], 3.0 * term.hessian(x, beyond), rtol=1e-14)
    np.testing.assert_array_equal(term.hessian(x, beyond), np.diag([2.0, 3.0, 4.0]))
    with pytest.raises(ProblemError, match=r"lower: expected at most upper, got 2.0 > 1.0 at \[0\]"):
        ControlLimits([2.0], [1.0], [1.0])


def test_joint_limits_are_zero_within_and_quadratic_beyond(robots):
    robot = robots["hyq"]
    model = robot.model
    x = np.concatenate([robot.q0, np.zeros(robot.nv)])
    term = JointLimits(robot, 4.0)
    u = np.zeros(12)
    assert term.value(x, u) == 0.0
    assert not term.hessian(x, u).any()
    x[8] = model.upperPositionLimit[8] + 0.25
    x[11] = model.lowerPositionLimit[11] - 0.5
    gradient, H = np.zeros(48), np.zeros((48, 48))
    gradient[7], gradient[10] = 4.0 * 0.25, -4.0 * 0.5
    H[7, 7] = H[10, 10] = 4.0
    assert term.value(x, u) == pytest.approx(0.5 * 4.0 * (0.25**2 + 0.5**2), rel=1e-12)
    np.testing.assert_allclose(term.gradient(x, u), gradient, atol=1e-12)
    np.testing.assert_array_equal(term.hessian(x, u), H)


def test_given_joint_limits_replace_the_models(robots):
    robot = robots["ur5"]
    term = JointLimits(robot, 1.0, lower=np.full(6, -0.1), upper=np.full(6, np.inf))
    x = np.zeros(12)
    x[2] = -0.3
    assert term.value(x, np.zeros(6)) == pytest.approx(0.5 * 0.04, rel=1e-12)

"""Robots' constraints against Pinocchio and sampled distances; an arm among obstacles against scipy."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest
from residual_oracle import Oracle, frame_pose, frame_position, state
from scipy.optimize import least_squares, minimize

import ddp
from ddp.adjoint import control_gradient
from ddp.errors import ProblemError
from dynamics.robots.model import load
from dynamics.robots.surroundings import Plane
from dynamics.steps.robot_dynamics import RobotDynamics
from problems import arm, pendulum
from problems.constraints import (
    FramePoseEquality,
    FramePositionEquality,
    JointLimits,
    StateEquality,
    TorqueLimits,
    VelocityLimits,
)
from problems.obstacles import Capsule, CapsuleClearance, Sphere, SphereClearance
from tests.problems.conftest import random_state

TIPS = {"ur5": ("forearm_link", "tool0"), "hyq": ("lf_foot", "rh_foot"), "mixed": ("left_tip", "right_tip")}


def exact(constraint, model, residual, x, rng, nu=2):
    """Values, Jacobian, and the Hessian of a random weight times them, against differences of Pinocchio's residual."""
    n, U = 2 * model.nv, np.zeros((1, nu))
    truth = np.atleast_1d(residual(x[: model.nq], x[model.nq :]))
    np.testing.assert_allclose(constraint.values(x[None], U)[0], truth, atol=1e-12)
    J = constraint.jacobian(x[None], U)[0]
    np.testing.assert_allclose(J[:, :n], Oracle(model, residual, np.ones(truth.size)).jacobian(x), atol=1e-8)
    weight = rng.normal(size=truth.size)
    H = constraint.curvature(x[None], U, weight[None])[0]
    # the oracle differentiates squares: ½ (1 + s)² - ½ (1 - s)² = 2 s
    plus = Oracle(model, lambda q, v: 1.0 + weight @ residual(q, v), np.ones(1)).hessian(x)
    minus = Oracle(model, lambda q, v: 1.0 - weight @ residual(q, v), np.ones(1)).hessian(x)
    np.testing.assert_allclose(H[:n, :n], 0.5 * (plus - minus), atol=2e-6 * max(1.0, np.abs(H).max()))
    assert not J[:, n:].any()
    assert not H[n:].any()
    assert not H[:, n:].any()


@pytest.mark.parametrize("name", ["ur5", "mixed"])
def test_frames_and_states_are_exact_to_second_order(robots, rng, name):
    robot = robots[name]
    model, frame = robot.model, TIPS[name][0]
    x, target = random_state(robot, rng), random_state(robot, rng)
    point = rng.normal(size=3)
    exact(FramePositionEquality(robot, frame, point), model, frame_position(model, frame, point), x, rng)
    data = model.createData()
    pin.framesForwardKinematics(model, data, x[: model.nq])
    pose = data.oMf[robot.frame_id(frame)] * pin.exp6(0.6 * rng.normal(size=6))
    exact(FramePoseEquality(robot, frame, pose), model, frame_pose(model, frame, pose), x, rng)
    target[: model.nq] = pin.integrate(model, x[: model.nq], 0.4 * rng.normal(size=model.nv))
    exact(StateEquality(RobotDynamics(robot, 0.01), target), model, state(model, target), x, rng)


def apart(a, b, c, d):
    """The distance of two segments, by minimising over both parameters."""

    def square(st):
        r = a + st[0] * (b - a) - c - st[1] * (d - c)
        return r @ r

    def slope(st):
        r = a + st[0] * (b - a) - c - st[1] * (d - c)
        return 2.0 * np.array([r @ (b - a), -r @ (d - c)])

    found = minimize(square, [0.5, 0.5], jac=slope, bounds=[(0, 1)] * 2, options={"ftol": 1e-16, "gtol": 1e-12})
    return np.sqrt(found.fun)


def points(model, data, names, q):
    pin.framesForwardKinematics(model, data, q)
    return [data.oMf[model.getFrameId(name)].translation.copy() for name in names]


@pytest.mark.parametrize("name", ["ur5", "hyq", "mixed"])
def test_clearances_are_the_distances_of_the_nearest_points(robots, rng, name):
    robot = robots[name]
    model, frames = robot.model, TIPS[name]
    obstacles = [Sphere(rng.normal(size=3), 0.1)]
    obstacles += [Capsule(rng.normal(size=3), s * rng.normal(size=3), 0.2) for s in (0.3, 1.0, 3.0)]
    X = np.array([random_state(robot, rng) for _ in range(4)])
    U, data = np.zeros((4, 1)), model.createData()
    long, ball = CapsuleClearance(robot, frames, 0.05, obstacles), SphereClearance(robot, frames[0], 0.05, obstacles)
    for x, from_capsule, from_ball in zip(X, long.values(X, U), ball.values(X, U), strict=True):
        a, b = points(model, data, frames, x[: model.nq])
        for o, obstacle in enumerate(obstacles):
            radii = 0.05 + obstacle.radius
            assert from_capsule[o] == pytest.approx(apart(a, b, obstacle.start, obstacle.end) - radii, abs=1e-6)
            assert from_ball[o] == pytest.approx(apart(a, a, obstacle.start, obstacle.end) - radii, abs=1e-6)


@pytest.mark.parametrize("name", ["ur5", "mixed"])
def test_clearances_are_exact_to_second_order(robots, rng, name):
    """By differences of the values, which the test above checks; nearest points inside and at ends."""
    robot = robots[name]
    system = RobotDynamics(robot, 0.01)
    spheres = [Sphere(rng.normal(size=3), 0.1), Sphere(3.0 * rng.normal(size=3), 0.1)]
    capsules = [Capsule(s * rng.normal(size=3), s * rng.normal(size=3), 0.2) for s in (0.5, 2.0, 3.0)]
    clear = [
        SphereClearance(robot, TIPS[name][1], 0.05, spheres + capsules),
        CapsuleClearance(robot, TIPS[name], 0.05, spheres + capsules),
    ]
    x = random_state(robot, rng)
    problem = ddp.Problem(system, [], [], x, 1, constraints=clear)
    report = ddp.check_derivatives(problem, np.array([x, x]), np.zeros((1, system.nu)), knots=[0])
    assert report.ok, str(report)
    assert all(check.smooth for check in report.checks), str(report)


@pytest.mark.parametrize("case", ["touching", "parallel", "crossing"])
def test_degenerate_distances_are_finite_and_lead_out(robots, case):
    robot = robots["ur5"]
    x = np.concatenate([robot.q0, np.zeros(6)])
    a, b = points(robot.model, robot.model.createData(), TIPS["ur5"], robot.q0)
    shift = np.cross(b - a, [0.3, 0.1, 0.2])
    obstacle = {
        "touching": Sphere(a, 0.1),
        "parallel": Capsule(a + shift, b + shift, 0.1),
        "crossing": Capsule(0.5 * (a + b) - shift, 0.5 * (a + b) + shift, 0.1),
    }[case]
    ball = SphereClearance(robot, TIPS["ur5"][0], 0.0, [obstacle])
    long = CapsuleClearance(robot, TIPS["ur5"], 0.0, [obstacle])
    for constraint in (ball, long):
        U, one = np.zeros((1, 6)), np.ones((1, 1))
        value, J = constraint.values(x[None], U)[0, 0], constraint.jacobian(x[None], U)[0, 0]
        assert np.isfinite(value)
        assert np.isfinite(constraint.curvature(x[None], U, one)).all()
        assert np.abs(J).max() > 1e-3
        moved = robot_step(robot, x, 1e-3 * J[:6] / np.linalg.norm(J))
        assert constraint.values(moved[None], U)[0, 0] > value


def robot_step(robot, x, dq):
    return np.concatenate([pin.integrate(robot.model, x[: robot.nq], dq), x[robot.nq :]])


def test_an_obstacle_alone_is_one_of_a_list(robots, rng):
    robot, ball = robots["ur5"], Sphere(np.array([0.3, 0.1, 0.6]), 0.2)
    X, U = np.stack([random_state(robot, rng) for _ in range(3)]), np.zeros((3, 6))
    for make in (lambda one: SphereClearance(robot, "tool0", 0.1, one),
                 lambda one: CapsuleClearance(robot, ("wrist_1_link", "tool0"), 0.1, one)):  # fmt: skip
        np.testing.assert_array_equal(make(ball).values(X, U), make([ball]).values(X, U))


def test_solids_know_their_centers():
    assert Sphere([1.0, 2.0, 3.0], 0.1).center.tolist() == [1.0, 2.0, 3.0]
    assert Capsule([1.0, 2.0, 3.0], [3.0, 2.0, -3.0], 0.1).center.tolist() == [2.0, 2.0, 0.0]


def test_joints_without_limits_have_no_rows_and_torques_keep_both_of_theirs():
    robot = load("""<mujoco><worldbody><body><joint axis="0 1 0" actuatorfrcrange="-5 20"/>
        <geom size=".1" pos="0 0 .3"/><body><joint name="elbow" axis="0 1 0" range="-30 30"/>
        <geom size=".1" pos="0 0 .3"/></body></body></worldbody></mujoco>""")
    assert JointLimits(robot).row_names == ["elbow"]
    system = RobotDynamics(robot, 0.01)
    for torques in (TorqueLimits(system), replace(TorqueLimits(system), dynamics=RobotDynamics(robot, 0.02))):
        np.testing.assert_array_equal([torques.lower, torques.upper], [[-5.0], [20.0]])
    with pytest.raises(ProblemError, match=r"limits: expected lower < upper, got 3.0 and 2.0 for control 0"):
        TorqueLimits(system, [[3.0, 2.0], [-1.0, 1.0]])
    with pytest.raises(ProblemError, match="limits: expected at least one that is finite"):
        VelocityLimits(robot)


def test_limits_are_the_models(robots, rng):
    robot = robots["ur5"]
    system, model = RobotDynamics(robot, 0.01), robot.model
    x, u = random_state(robot, rng), rng.normal(size=6)
    for constraint, value, limit in (
        (JointLimits(robot), x[:6], model.upperPositionLimit),
        (VelocityLimits(robot), x[6:], model.velocityLimit),
        (TorqueLimits(system), u, model.effortLimit),
    ):
        np.testing.assert_array_equal(constraint.upper, limit)
        np.testing.assert_array_equal(constraint.values(x[None], u[None])[0], value)
        problem = ddp.Problem(system, [], [], x, 1, constraints=[constraint])
        assert ddp.check_derivatives(problem, np.array([x, x]), u[None], knots=[0]).ok
    hyq = robots["hyq"]
    assert JointLimits(hyq).lower.size == 12
    assert TorqueLimits(RobotDynamics(hyq, 0.01), np.full(18, 7.0)).lower.size == 12


@pytest.fixture(scope="module")
def among():
    """The registry's problem, solved."""
    return ddp.solve(arm.obstacles())


def oracle(problem):
    """Cost and clearances of a UR5 among obstacles, of controls alone, written with Pinocchio."""
    robot, dt = problem.dynamics.robot, problem.dynamics.dt
    model, data, N = robot.model, robot.model.createData(), problem.horizon
    q0, target, spheres = problem.x0[:6], problem.terminal[0].target, problem.constraints[0].obstacles
    links = ("tool0", "forearm_link", "wrist_1_link", "wrist_3_link")

    def clearances(q):
        tool, elbow, wrist, flange = points(model, data, links, q)
        pairs = ((tool, tool), (elbow, wrist), (wrist, flange))
        return [[distance(a, b, s.start) - s.radius - 0.05 for s in spheres] for a, b in pairs]

    def evaluated(U):
        q, v, cost, clear = q0.copy(), np.zeros(6), 0.0, []
        for u in U.reshape(N, 6):
            cost += 0.5 * dt * (1e-3 * u @ u + 1e-2 * (q - q0) @ (q - q0) + 0.1 * v @ v)
            v = v + dt * pin.aba(model, data, q, v, u)
            q = q + dt * v
            clear.append(clearances(q))
        pin.framesForwardKinematics(model, data, q)
        r = pin.log6(target.inverse() * data.oMf[model.getFrameId("tool0")]).vector
        return cost + 500.0 * r @ r + 5.0 * v @ v, np.array(clear)  # (N, 3, K), knots 1 .. N

    return evaluated


def distance(a, b, c):
    d = b - a
    t = np.clip((c - a) @ d / max(d @ d, 1e-300), 0.0, 1.0)
    return np.linalg.norm(a + t * d - c)


def test_an_arm_passes_three_spheres_with_limited_torques(among):
    cost, clear = oracle(among.problem)(among.U)
    torque = np.abs(among.U) - among.problem.constraints[-1].limits
    assert among.violation <= 1e-8
    assert clear.min() >= -1e-8
    assert torque.max() <= 1e-8
    assert (clear < 1e-7).any(axis=(0, 1)).all()  # each of the spheres is in the way
    assert (torque > -1e-7).sum() > 10
    assert cost == pytest.approx(among.cost, rel=1e-6)


def test_multipliers_of_an_arm_make_its_lagrangian_stationary(among):
    """Differences of Pinocchio's rollouts; multipliers of lower bounds are negative, and zero away from them."""
    problem, evaluated = among.problem, oracle(among.problem)
    found = among.residuals()
    clear = np.zeros((100, 3, 3))
    for i in range(3):
        clear[:99, i] = found[i].multipliers[1:]
        clear[99, i] = found[4 + i].multipliers[0]
        assert not found[i].multipliers[0].any()
    torque = found[3].multipliers

    def lagrangian(U):
        cost, c = evaluated(U)
        return cost + (clear * c).sum() + (torque * U).sum()

    h = 1e-3
    for k, j in ((0, 0), (10, 1), (35, 2), (60, 0), (60, 5), (80, 3), (99, 4)):
        values = [lagrangian(among.U + t * h * (np.arange(100)[:, None] == k) * np.eye(6)[j]) for t in (1, -1, 2, -2)]
        slope = (8.0 * (values[0] - values[1]) - (values[2] - values[3])) / (12.0 * h)
        assert abs(slope) <= 1e-6, (k, j)
    assert among.stationarity() <= 1e-6
    assert (clear <= 0.0).all()
    assert np.abs(clear).max() > 0.01
    for residual, placed in zip(found, problem.placed, strict=True):
        inside = np.minimum(residual.values - placed.lower, placed.upper - residual.values) > 1e-7
        assert not residual.multipliers[inside].any()


def test_an_arm_among_obstacles_is_where_scipy_puts_it():
    """SLSQP on the controls of a short horizon, with Pinocchio's values; from 2 % beside: there are other minima."""
    problem = arm.obstacles(horizon=6, dt=0.16)
    solution, evaluated = ddp.solve(problem), oracle(problem)
    assert sum((residual.multipliers != 0.0).sum() for residual in solution.residuals()) >= 4
    limit = np.tile(problem.constraints[-1].limits, 6)

    def slopes(z):
        U = (z * limit).reshape(6, 6)
        X, d, S = problem.dynamics.rollout(problem.x0, U), problem.allocate(), np.zeros((7, 12, 36))
        problem.expand(X, problem.padded(U), d, 0, 7)
        for k in range(6):
            S[k + 1] = d.A[k] @ S[k]
            S[k + 1][:, 6 * k : 6 * k + 6] += d.B[k]
        J = [c.jacobian(X[1:], np.zeros((6, 1)))[:, :, :12] @ S[1:] for c in problem.terminal_constraints]
        return control_gradient(d.A, d.B, d.lz).ravel() * limit, np.stack(J, axis=1).reshape(-1, 36) * limit

    start = solution.U.ravel() * (1.0 + 0.02 * np.random.default_rng(0).normal(size=36))
    clear = {"type": "ineq", "fun": lambda z: evaluated(z * limit)[1].ravel(), "jac": lambda z: slopes(z)[1]}
    found = minimize(
        lambda z: evaluated(z * limit)[0], start / limit, jac=lambda z: slopes(z)[0], method="SLSQP",
        bounds=[(-1.0, 1.0)] * 36, constraints=[clear], options={"maxiter": 500, "ftol": 1e-14},
    )  # fmt: skip
    assert found.success
    assert found.fun == pytest.approx(solution.cost, rel=1e-9)
    np.testing.assert_allclose(found.x * limit, solution.U.ravel(), atol=1e-4)


def test_limits_of_controls_are_the_same_as_constraints_and_as_a_box(among):
    """And imposed states, whose gaps close on the way, end at the same trajectory."""
    problem = among.problem
    limit = problem.constraints[-1].limits
    boxed = replace(problem, constraints=problem.constraints[:-1], control_limits=(-limit, limit))
    straight = np.linspace(problem.x0, among.X[-1], 101)
    for guess in (None, (straight, np.tile(problem.dynamics.nominal_control(problem.x0), (100, 1)))):
        solution = ddp.solve(boxed, guess=guess)
        assert (np.abs(solution.U) <= limit).all()
        assert solution.violation <= 1e-8
        assert solution.stationarity() <= 1e-6
        assert solution.gap() == pytest.approx(0.0, abs=1e-12)
        np.testing.assert_allclose(solution.U, among.U, atol=1e-4)


def test_processes_share_multipliers():
    problem = arm.obstacles(horizon=12, dt=0.08)
    one, two = ddp.solve(problem), ddp.solve(problem, workers=2)
    np.testing.assert_array_equal(one.U, two.U)
    np.testing.assert_array_equal(one.multipliers, two.multipliers)


def test_a_frame_out_of_reach_is_called_infeasible_with_its_knot():
    """The point is 1.55 m from the base. Nothing near the end comes closer by more than a millimetre."""
    plain = arm.reach()
    far = FramePositionEquality(plain.dynamics.robot, "tool0", [0.4, 1.2, 0.9])
    solution = ddp.solve(replace(plain, terminal=[], terminal_constraints=[far]), throw=False)
    assert not solution.converged
    assert solution.iterations <= 40
    assert "infeasible" in solution.status
    assert "terminal_constraints[0] (FramePositionEquality)" in solution.status
    assert "at knot 100" in solution.status
    robot, data = plain.dynamics.robot, plain.dynamics.robot.model.createData()

    def missed(q):
        return points(robot.model, data, ["tool0"], q)[0] - far.target_xyz

    best = least_squares(missed, solution.X[-1, :6] + 0.1, xtol=1e-12, ftol=1e-12)
    assert np.linalg.norm(solution.residuals()[0].values) == pytest.approx(np.linalg.norm(best.fun), abs=1e-3)


def test_a_goal_inside_an_obstacle_is_called_infeasible():
    plain = arm.reach(horizon=30, dt=0.04)
    goal = plain.terminal[0].target.translation
    blocked = replace(
        plain,
        terminal_constraints=[
            FramePositionEquality(plain.dynamics.robot, "tool0", goal),
            SphereClearance(plain.dynamics.robot, "tool0", 0.02, [Sphere(goal + 0.02, 0.08)]),
        ],
    )
    status = ddp.solve(blocked, throw=False).status
    assert "infeasible" in status
    assert "terminal_constraints" in status
    assert "at knot 30" in status


def test_a_pendulum_with_a_weak_motor_stops_exactly_upright():
    plain = pendulum.swing_up()
    system = plain.dynamics
    problem = replace(plain, terminal=[], terminal_constraints=[StateEquality(system, [np.pi, 0.0])])
    solution = ddp.solve(problem, guess=np.zeros((100, 1)))
    np.testing.assert_allclose(solution.X[-1], [np.pi, 0.0], atol=1e-8)
    assert solution.stationarity() <= 1e-6
    assert solution.cost == pytest.approx(2.9009, abs=1e-3)


def test_constrained_problems_survive_pickling():
    problem = arm.obstacles(horizon=3)
    again = pickle.loads(pickle.dumps(problem))
    X, U = np.tile(problem.x0, (4, 1)), np.ones((3, 6))
    assert again.violation(X, U) == problem.violation(X, U)


@pytest.mark.parametrize(
    ("named", "make"),
    [
        ("obstacles", lambda r, s: SphereClearance(r, "tool0", 0.1, [])),
        (r"obstacles\[0\]", lambda r, s: SphereClearance(r, "tool0", 0.1, [1.0])),
        ("FramePositionLimits keeps a frame off a plane", lambda r, s: SphereClearance(r, "tool0", 0.1, [Plane()])),
        ("radius", lambda r, s: SphereClearance(r, "tool0", -0.1, [Sphere(np.zeros(3), 1.0)])),
        ("radius", lambda r, s: Sphere(np.zeros(3), 0.0)),
        ("center", lambda r, s: Sphere(np.zeros(2), 1.0)),
        ("margin", lambda r, s: SphereClearance(r, "tool0", 0.1, [Sphere(np.zeros(3), 1.0)], margin=np.nan)),
        ("tool0", lambda r, s: SphereClearance(r, "tool", 0.1, [Sphere(np.zeros(3), 1.0)])),
        ("frames", lambda r, s: CapsuleClearance(r, "tool0", 0.1, [Sphere(np.zeros(3), 1.0)])),
        ("frames", lambda r, s: CapsuleClearance(r, ("world", "base"), 0.1, [Sphere(np.zeros(3), 1.0)])),
        ("lower", lambda r, s: JointLimits(r, lower=np.full(6, 2.0), upper=np.ones(6))),
        ("limits", lambda r, s: VelocityLimits(r, np.zeros(6))),
        ("limits", lambda r, s: TorqueLimits(s, np.full(6, np.inf))),
        ("dynamics", lambda r, s: TorqueLimits(r)),
        ("target_x", lambda r, s: StateEquality(s, np.zeros(3))),
        ("target", lambda r, s: FramePoseEquality(r, "tool0", np.zeros((4, 4)))),
        ("target_xyz", lambda r, s: FramePositionEquality(r, "tool0", [0.0, np.nan, 0.0])),
        ("vectors have 12 numbers", lambda r, s: replace(arm.reach(), constraints=[JointLimits(load("panda"))])),
    ],
)
def test_mistakes_are_named(robots, named, make):
    robot = robots["ur5"]
    with pytest.raises(ProblemError, match=named):
        make(robot, RobotDynamics(robot, 0.01))

"""Policies track motions of robots: reference, gains of an LQR, C functions, and files that name joints."""

import csv
import ctypes
import json
import pickle
from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest
import scipy.linalg
import scipy.optimize
from oracles import random_state, random_tree
from systems import Quadratic
from thorough import cases

import ddp
import dynamics
from ddp.feedback.policy import held_policy
from ddp.systems.system import Cones
from dynamics.steps.function_dynamics import FunctionDynamics
from problems import gaits, pendulum
from problems.costs import ControlCost, StateCost


def moving(robot, rng, horizon=12, dt=0.01, limits=None):
    """A motion under random torques as a solution, not an optimal one, with random gains."""
    system = dynamics.RobotDynamics(robot, dt)
    x0, U = np.concatenate(random_state(robot, rng)[:2]), rng.normal(size=(horizon, system.nu))
    K = rng.normal(size=(horizon, system.nu, system.n))
    return as_solution(ddp.Problem(system, [_Effort()], [], x0, horizon, control_limits=limits), U, K)


def as_solution(problem, U, K):
    X = problem.dynamics.rollout(problem.x0, U)
    return ddp.Solution(X, U, 0.0 * U, K, 0.0, 0.0, False, ddp.Status("made up"), 0, 0.0, (), problem)


class _Effort:
    def value(self, x, u):
        return 0.5 * (u @ u)


@pytest.fixture(scope="module", params=cases(range(4), [1, 2]))
def solution(request):
    return moving(random_tree(request.param), np.random.default_rng(request.param))


def test_a_policy_returns_the_plan_on_the_way_between_its_states(solution):
    robot, policy = solution.problem.dynamics.robot, solution.policy
    for t in (0.0, 0.013, 0.05, 0.0999, 0.119):
        k, s = int(t / 0.01 + 1e-9), t / 0.01 - int(t / 0.01 + 1e-9)
        x, following = solution.X[k], solution.X[k + 1]
        q = pin.interpolate(robot.model, x[: robot.nq], following[: robot.nq], s)
        expected = np.concatenate([q, (1.0 - s) * x[robot.nq :] + s * following[robot.nq :]])
        np.testing.assert_allclose(policy.reference(t), expected, rtol=0, atol=1e-11)
        np.testing.assert_allclose(policy(t, expected), solution.U[k], rtol=0, atol=1e-7)


@pytest.mark.parametrize(("integrator", "lead"), [("semi-implicit-euler", 0.5), ("euler", -0.5), ("rk4", 0.0)])
@pytest.mark.parametrize("seed", cases(range(3), [1, 2]))
def test_positions_without_their_lead_are_the_integral_of_velocities(seed, integrator, lead):
    """To second order in the step, which the plan's own positions are not but those of Runge and Kutta's steps."""
    robot, rng = random_tree(seed), np.random.default_rng(seed)
    torques, left = rng.normal(size=(4, dynamics.RobotDynamics(robot, 0.01).nu)), []
    for h in (0.01, 0.005):
        system, N = dynamics.RobotDynamics(robot, h, integrator=integrator), round(0.16 / h)
        U = np.repeat(torques, N // 4, axis=0)
        start = np.concatenate([random_state(robot, np.random.default_rng(seed))[0], np.zeros(robot.nv)])
        solution = as_solution(ddp.Problem(system, [_Effort()], [], start, N), U, np.zeros((N, system.nu, system.n)))
        weights = system.tracked.weights(solution.X, U)._replace(lead=lead)
        q, reached = start[: robot.nq], solution.feedback(weights=weights).reference(0.16 - 1e-9)
        for k in range(N):
            speed = 0.5 * (solution.X[k] + solution.X[k + 1])[robot.nq :]
            q = pin.integrate(robot.model, q, h * speed)
        away = pin.difference(robot.model, q, reached[: robot.nq])
        left.append(np.abs(away).max() / np.abs(h * solution.X[-1, robot.nq :]).max())
    assert left[0] < 2e-3  # of how far it moves in a step
    assert left[1] < 0.6 * left[0]


def test_compiled_policies_and_c_functions_are_the_plain_one(solution):
    rng, policy = np.random.default_rng(1), solution.feedback(delay=0.004)
    function, context, _ = policy.compiled()
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(function)
    for t in rng.uniform(0.0, 0.119, size=10):
        x = policy.system.integrate(policy.reference(t), 1e-2 * rng.normal(size=policy.system.n))
        plain, u, time = policy._plainly(t, x), np.empty(policy.system.nu), np.array([t])
        np.testing.assert_allclose(policy(t, x), plain, rtol=1e-9, atol=1e-9 * np.abs(policy.G).max())
        call(context, time.ctypes.data, x.ctypes.data, u.ctypes.data)
        assert np.array_equal(u, policy(t, x))


def test_the_solvers_own_policy_is_its_gains_at_the_knots(solution):
    rng, policy, system = np.random.default_rng(2), solution.feedback("solver"), solution.problem.dynamics
    for k in range(12):
        dx = 1e-2 * rng.normal(size=system.n)
        expected = solution.U[k] + solution.K[k] @ dx
        np.testing.assert_allclose(policy(0.01 * k, system.integrate(solution.X[k], dx)), expected, rtol=0, atol=1e-9)


def test_priced_gains_are_those_of_the_cost_and_the_price_together():
    """Against a solve of the sum, which has the same optimum; without a price, against the solver's own gains."""
    problem = pendulum.swing_up(horizon=40)
    own = ddp.solve(problem)
    n, nu, h = problem.dynamics.n, problem.dynamics.nu, problem.dynamics.dt
    free = ddp.Tracking(np.zeros(n), np.full(nu, 1e-12), np.zeros(n), np.zeros((nu, n)))
    np.testing.assert_allclose(own.feedback("priced", free).G, own.K, rtol=1e-6, atol=1e-8 * np.abs(own.K).max())
    price = ddp.Tracking(np.array([3.0, 0.2]), np.array([0.5]), np.array([7.0, 0.3]), np.zeros((nu, n)))
    at = {k: [StateCost(problem.dynamics, own.X[k], h * price.state), ControlCost(own.U[k], h * price.control)]
          for k in range(40)}  # fmt: skip
    end = [*problem.terminal, StateCost(problem.dynamics, own.X[-1], price.final)]
    both = ddp.solve(replace(problem, at=at, terminal=end), guess=own)
    np.testing.assert_allclose(both.U, own.U, atol=1e-7 * np.abs(own.U).max())
    found = own.feedback("priced", price).G
    np.testing.assert_allclose(found, both.K, rtol=1e-5, atol=1e-6 * np.abs(both.K).max())
    assert np.abs(found - own.K).max() > 0.01 * np.abs(own.K).max()


def test_gains_of_a_long_motion_at_rest_are_those_of_riccatis_algebraic_equation():
    robot = dynamics.load("ur5")
    system = dynamics.RobotDynamics(robot, 0.01)
    x0 = np.concatenate([robot.q0, np.zeros(6)])
    u0 = system.nominal_control(x0)
    problem = ddp.Problem(system, [_Effort()], [], x0, 400)
    still = as_solution(problem, np.tile(u0, (400, 1)), np.zeros((400, 6, 12)))
    weights = ddp.Tracking(np.repeat([3e4, 30.0], 6), np.full(6, 2.0), np.full(12, 5.0), np.zeros((6, 12)))
    A, B = system.linearize(x0, u0)
    P = scipy.linalg.solve_discrete_are(A, B, np.diag(np.repeat([300.0, 0.3], 6)), 0.02 * np.eye(6))
    K = -np.linalg.solve(0.02 * np.eye(6) + B.T @ P @ B, B.T @ P @ A)
    np.testing.assert_allclose(still.feedback(weights=weights).G[0], K, rtol=1e-7, atol=1e-7 * np.abs(K).max())
    assert np.abs(still.feedback(weights=weights).G[-1] - K).max() > 0.1 * np.abs(K).max()
    on = still.feedback(weights=weights._replace(hold=4.0)).G
    np.testing.assert_allclose(on, np.tile(K, (400, 1, 1)), rtol=1e-7, atol=1e-7 * np.abs(K).max())


def test_weights_that_are_matrices_weigh_errors_together():
    """In coordinates y of a system's states x = T y, weights Tᵀ W T make the same policy."""
    A, B = np.array([[1.0, 0.1], [-0.2, 0.9]]), np.array([[0.0], [0.1]])
    T, W = np.array([[2.0, 1.0], [0.0, 0.5]]), np.diag([3.0, 0.5])
    gains = {}
    for name, M, weights in (("x", np.eye(2), W.diagonal()), ("y", T, T.T @ W @ T)):
        turned = np.linalg.inv(M) @ A @ M, np.linalg.inv(M) @ B
        system = FunctionDynamics(lambda x, u, of=turned: of[0] @ x + of[1] @ u, 2, 1, 0.1)
        problem = ddp.Problem(system, [_Effort()], [], np.zeros(2), 9)
        still = as_solution(problem, np.zeros((9, 1)), np.zeros((9, 1, 2)))
        price = ddp.Tracking(weights, np.array([0.1]), 2.0 * weights, np.zeros((1, 2)))
        gains[name] = still.feedback("priced", price).G @ np.linalg.inv(M)
    np.testing.assert_allclose(gains["y"], gains["x"], rtol=1e-9)
    assert np.abs(gains["x"]).min() > 1e-3


def test_the_step_of_the_sweep_divides_the_motion_and_keeps_its_reference(solution):
    fine = solution.feedback(step=0.0025)
    assert len(fine.starts) == 48
    for t in (0.0, 0.0031, 0.0762):
        np.testing.assert_allclose(fine.reference(t), solution.policy.reference(t), rtol=0, atol=1e-10)


def test_controls_keep_to_their_limits():
    solution = moving(dynamics.load("ur5"), np.random.default_rng(0), limits=(-2.0, 1.0))
    far = solution.policy.system.integrate(solution.X[3], np.full(12, 0.5))
    assert np.isin(solution.policy(0.03, far), [-2.0, 1.0]).all()


def test_what_feedback_adds_is_the_closest_within_its_limits():
    """Against SciPy's non-negative least squares, whose multipliers are those of the closest point in a polyhedron."""
    rng, plain = np.random.default_rng(0), moving(dynamics.load("ur5"), np.random.default_rng(0)).policy
    several = rng.normal(size=(12, 3, 6))
    several /= np.linalg.norm(several, axis=2)[:, :, None]
    apart = np.tile(np.eye(6)[[0, 3, 5]], (12, 1, 1))
    for rows, tolerance in ((several[:, :1], 1e-9), (apart, 1e-9), (several, 0.05)):  # that of eight sweeps
        m = rows.shape[1]
        cones = Cones(rows, rng.normal(size=(12, m, 12)), rng.uniform(0.0, 0.1, size=(12, m)))
        policy = replace(plain, cones=cones)
        for t in (0.0, 0.013, 0.0999):
            k, e = int(t / 0.01), 1e-2 * rng.normal(size=12)
            x, planned = policy.system.integrate(policy.reference(t), e), plain(t, plain.reference(t))
            wanted, room = plain(t, x) - planned, cones.b[k] - cones.D[k] @ e
            gram = np.linalg.cholesky(rows[k] @ rows[k].T + 1e-12 * np.eye(m)).T
            pull, _ = scipy.optimize.nnls(gram, np.linalg.solve(gram.T, rows[k] @ wanted - room))
            size = np.abs(wanted).max()
            np.testing.assert_allclose(policy(t, x) - planned, wanted - rows[k].T @ pull, atol=tolerance * size)
            assert (rows[k] @ (policy(t, x) - planned) - room).max() < tolerance * size


def test_files_of_gains_name_joints(tmp_path):
    solution = moving(dynamics.load("ur5"), np.random.default_rng(0))
    policy, joints = solution.policy, dynamics.load("ur5").joint_names
    with np.load(policy.export(tmp_path / "gains.npz")) as file:
        assert np.array_equal(file["G"], policy.G)
        assert np.array_equal(np.hstack([file["q"], file["v"]]), policy.X)
        assert file["names_q"].tolist() == file["names_v"].tolist() == file["names_u"].tolist() == joints
    header, *rows = csv.reader(policy.export(tmp_path / "gains.csv").read_text().splitlines())
    assert len(rows) == 12
    assert header[1:7] == joints
    assert float(rows[5][header.index("control elbow_joint")]) == policy.U[5, joints.index("elbow_joint")]
    column = header.index("wrist_1_joint per d rate of elbow_joint")
    assert float(rows[5][column]) == policy.G[5, joints.index("wrist_1_joint"), 6 + joints.index("elbow_joint")]
    message = json.loads(policy.export(tmp_path / "motion.json").read_text())
    assert message["joint_names"] == joints
    assert message["points"][3]["positions"] == policy.X[3, :6].tolist()
    assert message["points"][3]["effort"] == policy.U[3].tolist()
    assert message["points"][3]["time_from_start"] == {"sec": 0, "nanosec": 30_000_000}
    assert message["points"][-1]["positions"] == policy.X_end[-1, :6].tolist()
    assert message["points"][-1]["time_from_start"] == {"sec": 0, "nanosec": 120_000_000}


def test_tables_of_gains_have_a_heading_for_each_where_states_have_no_names(tmp_path):
    system = FunctionDynamics(lambda x, u: x + 0.1 * np.array([x[1], u[0] + 0.1 * u[1]]), 2, 2, 0.1)
    problem = ddp.Problem(system, [lambda x, u: x @ x + u @ u], [lambda x, u: 9.0 * x @ x], [1.0, 0.0], 4)
    policy = ddp.solve(problem).policy
    header, *rows = csv.reader(policy.export(tmp_path / "gains.csv").read_text().splitlines())
    assert all(len(row) == len(header) for row in rows)
    assert float(rows[2][header.index("u1 per e0")]) == policy.G[2, 1, 0]
    with pytest.raises(ddp.ProblemError, match="a JointTrajectory has joints with one number, there are none"):
        policy.export(tmp_path / "motion.json")


@pytest.mark.parametrize("late", [0.0, 0.02])
def test_files_of_gains_say_what_the_policy_does_within_steps(tmp_path, late):
    """Plays the file of a trot up to its last instant, over impacts too, beside the policy without its cones."""
    rng, solution = np.random.default_rng(0), ddp.solve(gaits.trot("go2"))
    policy = replace(solution.policy, cones=None).later(late)
    system, between = policy.system, lambda a, b, c, s: b + abs(2.0 * s - 1.0) * ((a if s < 0.5 else c) - b)
    with np.load(policy.export(tmp_path / "gains.npz")) as found:
        file = dict(found)
    table = np.loadtxt(policy.export(tmp_path / "gains.csv"), delimiter=",", skiprows=1)
    ends = np.hstack([file[name] for name in ("q_end", "v_end", "u_before", "u_after")])
    np.testing.assert_array_equal(table[:, -ends.shape[1] :], ends)
    start, end = (np.hstack([file[q], file[v]]) for q, v in (("q", "v"), ("q_end", "v_end")))
    struck = np.flatnonzero(np.abs(end[:-1] - start[1:]).max(axis=1) > 1e-6)
    assert struck.size
    for k in (0, *struck, *(struck + 1), len(start) - 1):
        for s in (0.1, 0.45, 0.8, 0.99):
            reference = system.integrate(start[k], s * system.difference(start[k], end[k]))
            near = system.integrate(reference, 1e-3 * rng.normal(size=system.n))
            u = between(file["u_before"][k], file["u"][k], file["u_after"][k], s)
            u = u + file["G"][k] @ system.difference(reference, near)
            accuracy = 1e-5 if late else 1e-9
            sent = policy(file["time"][k] + s * file["durations"][k], near)
            np.testing.assert_allclose(np.clip(u, file["lower"][k], file["upper"][k]), sent, rtol=0, atol=accuracy)


@pytest.mark.parametrize("speed", [2.0, 100.0])  # [rad/s]: slower and faster than half a turn a step
def test_trajectories_of_ros_have_torques_behind_gears_and_angles_without_limits(tmp_path, speed):
    axis = '<limit effort="9" velocity="9"/><axis xyz="0 1 0"/>'
    solid = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
    robot = dynamics.load(f"""<robot name="two"><link name="base"/><link name="a">{solid}</inertial></link>
        <link name="b">{solid}</inertial></link>
        <joint name="turn" type="continuous"><parent link="base"/><child link="a"/>{axis}</joint>
        <joint name="bend" type="revolute"><parent link="a"/><child link="b"/>{axis}</joint></robot>""")
    system = dynamics.RobotDynamics(robot, 0.1, actuation=[[10.0, 0.0, 1.0], [0.0, -2.0, 3.0]])
    U = np.tile([1.0, 0.5, -2.0], (6, 1))
    X = system.rollout([np.cos(3.0), np.sin(3.0), 0.1, speed, 0.0], U)
    policy = held_policy(system, X, U, np.zeros((6, 3, 4)), *system.control_limits.T)
    message = json.loads(policy.export(tmp_path / "motion.json").read_text())
    assert message["joint_names"] == ["turn", "bend"]
    assert [point["effort"] for point in message["points"]] == [[8.0, -7.0]] * 7
    angle, bent = 3.0 + 0.025 * X[1, 3], 0.75 * X[0, 2] + 0.25 * X[1, 2]
    np.testing.assert_allclose(policy.reference(0.025)[:3], [np.cos(angle), np.sin(angle), bent], atol=1e-12)
    turn, bend = np.transpose([point["positions"] for point in message["points"]])
    assert turn[0] == pytest.approx(3.0)
    np.testing.assert_allclose(np.diff(turn), 0.1 * X[1:, 3], atol=1e-12)
    np.testing.assert_array_equal(bend, X[:, 2])


def test_files_of_late_policies_take_planned_controls_later(tmp_path):
    late = moving(dynamics.load("ur5"), np.random.default_rng(0)).feedback(delay=0.013)
    with np.load(late.export(tmp_path / "late.npz")) as file:
        assert file["delay"] == 0.013
        for t, length, u in zip(file["time"], file["durations"], file["u"], strict=True):
            np.testing.assert_array_equal(u, late.planned(t + 0.5 * length + 0.013))
        assert not np.array_equal(file["u"], late.U)


def test_a_policy_survives_a_trip_to_another_process(solution):
    copy, x = pickle.loads(pickle.dumps(solution.policy)), solution.X[4]
    assert np.array_equal(copy(0.043, x), solution.policy(0.043, x))


@pytest.mark.parametrize(("given", "words"), [
    ({"feedback": "own"}, "feedback: unknown 'own'"),
    ({"delay": -1.0}, "delay: expected at least 0 s"),
    ({"delay": 30.0}, "delay: expected at most .* s, the motion's duration, got 30"),
    ({"step": 0.0}, "step: expected a positive number"),
    ({"weights": 3.0}, "weights: expected Tracking"),
    ({"weights": ddp.Tracking(*map(np.ones, (12, 6, 12, (6, 12))), friction=0.0)}, "weights.friction: expected"),
    ({"feedback": "solver", "step": 0.01}, "weights, step: expected with feedback='tracking'"),
])  # fmt: skip
def test_bad_options_of_feedback_are_refused(given, words):
    with pytest.raises(ddp.ProblemError, match=words):
        moving(dynamics.load("ur5"), np.random.default_rng(0)).feedback(**given)


def test_weights_of_the_wrong_shape_are_refused_by_their_names():
    solution = moving(dynamics.load("ur5"), np.random.default_rng(0))
    weights = solution.problem.dynamics.tracked.weights(solution.X, solution.U)
    with pytest.raises(ddp.ProblemError, match=r"weights.state: expected shape \(12,\)"):
        solution.feedback(weights=weights._replace(state=np.ones(3)))
    with pytest.raises(ddp.ProblemError, match=r"weights.final: expected a positive semidefinite matrix"):
        solution.feedback(weights=weights._replace(final=-np.eye(12)))
    with pytest.raises(ddp.ProblemError, match=r"weights.control: expected positive numbers"):
        solution.feedback(weights=weights._replace(control=np.zeros(6)))
    with pytest.raises(ddp.ProblemError, match="step: 1e-300 would need"):
        solution.feedback(step=1e-300)


def test_systems_of_ones_own_have_the_solvers_policy_alone():
    system = FunctionDynamics(lambda x, u: x + u, 1, 1, 0.1)
    solution = ddp.solve(ddp.Problem(system, [Quadratic(np.ones(2), np.zeros(2))], [], [1.0], 5))
    assert solution.policy(0.1, solution.X[1]) == pytest.approx(solution.U[1])
    with pytest.raises(ddp.ProblemError, match="policies that track motions are for a robot's dynamics"):
        solution.feedback("tracking")
    with pytest.raises(ddp.ProblemError, match=r"states of a .* are not compiled"):
        solution.policy.compiled()
    for ask in (solution.policy.inside, solution.policy.part):
        with pytest.raises(ddp.ProblemError, match=r"t: expected a number, got \(2,\)"):
            ask([0.1, 0.2])


@pytest.mark.parametrize("kind", ["tracking", "priced", "solver"])
def test_motions_of_impacts_alone_in_which_no_time_passes_have_no_policy(kind):
    robot = dynamics.load("solo12")
    touching = [dynamics.Contact("FL_FOOT"), dynamics.Contact("HR_FOOT")]
    system = dynamics.PhasedDynamics(robot, 0.01, dynamics.Phase(touching, knots=0, impact=True))
    x0 = np.concatenate([robot.q0, np.zeros(robot.nv)])
    problem = ddp.Problem(system, [ControlCost(np.zeros(system.nu), 1.0)], [], x0, 1)
    solution = as_solution(problem, np.zeros((1, system.nu)), np.zeros((1, system.nu, system.n)))
    with pytest.raises(ddp.ProblemError, match="motions in which time passes, all knots of this one are impacts"):
        solution.feedback(kind)

"""Regulators and observers, against SciPy's Riccati equations in Rⁿ and closed loops of robots on their manifolds."""

from functools import partial

import numpy as np
import pinocchio as pin
import pytest
import scipy.integrate
import scipy.linalg
from oracles import random_placement, random_state, random_tree, relative_error

import ddp
import dynamics
from ddp.errors import ProblemError
from dynamics import augment
from problems import quadrotor

N, NU = 5, 2


def linear_system(rng, spread=1.1):
    """A, B of a random unstable system, and the same as dynamics."""
    A, B = rng.normal(size=(N, N)), rng.normal(size=(N, NU))
    A *= spread / np.abs(np.linalg.eigvals(A)).max()
    return A, B, dynamics.FunctionDynamics(lambda x, u: A @ x + B @ u, N, NU)


def random_weight(rng, n):
    root = rng.normal(size=(n, n))
    return root @ root.T + 0.1 * np.eye(n)


@pytest.fixture(scope="module")
def solo():
    """A quadruped on four feet, at rest: its system, x, u and contacts."""
    robot = dynamics.load("solo12")
    feet = [dynamics.Contact(name) for name in ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT")]
    system = dynamics.PhasedDynamics(robot, 0.01, dynamics.Phase(feet, 50))
    x = np.concatenate([robot.q0, np.zeros(robot.nv)])
    return robot, system, x, system.nominal_control(x), feet


# -- steps of continuous systems ---------------------------------------------------------------------


def affine(A, b, t, x):
    """The rate of a linear system under a constant input."""
    return A @ x + b


def test_discretised_systems_are_the_flow_of_continuous_ones(rng):
    A, B, dt = rng.normal(size=(3, N, N)), rng.normal(size=(3, N, NU)), 0.3
    found = ddp.discretize(A, B, dt)
    for t in range(3):
        alone = ddp.discretize(A[t], B[t], dt)
        x, u = rng.normal(size=N), rng.normal(size=NU)
        rate = partial(affine, A[t], B[t] @ u)
        flow = scipy.integrate.solve_ivp(rate, (0.0, dt), x, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(alone.A @ x + alone.B @ u, flow.y[:, -1], atol=1e-10)
        for one, many in zip(alone, found, strict=True):
            np.testing.assert_allclose(many[t], one, atol=1e-14)


def test_discretised_robots_are_their_steps_to_second_order_in_time(rng):
    robot = random_tree(1)
    q, _, tau = random_state(robot, rng)
    v = np.zeros(robot.nv)
    exact = [ddp.discretize(*dynamics.linearize(robot, q, v, tau, np.eye(robot.nv)), dt) for dt in (2e-3, 1e-3)]
    errors = []
    for (A, B), dt in zip(exact, (2e-3, 1e-3), strict=True):
        step = dynamics.RobotDynamics(robot, dt, np.eye(robot.nv), "rk4").linearize(np.concatenate([q, v]), tau)
        errors.append(max(np.abs(A - step[0]).max(), np.abs(B - step[1]).max()))
    assert errors[0] / errors[1] > 3.0  # A changes along the step: what is left is of order dt²


# -- equilibria --------------------------------------------------------------------------------------


def test_regulators_in_rn_are_those_of_scipy(rng):
    for _ in range(10):
        A, B, system = linear_system(rng)
        Q, R = random_weight(rng, N), random_weight(rng, NU)
        found = ddp.lqr(system, np.zeros(N), np.zeros(NU), Q, R)
        P = scipy.linalg.solve_discrete_are(A, B, Q, R)
        K = -np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)
        assert relative_error(found.P, P) < 1e-10
        assert relative_error(found.K, K) < 1e-10
        poles, modes = np.linalg.eigvals(A + B @ found.K), stable_modes(A, B, Q, R)
        assert len(poles) == len(modes)
        assert max(np.abs(modes - pole).min() for pole in poles) < 1e-10


def stable_modes(A, B, Q, R):
    """Eigenvalues inside the unit circle of the pencil of the two-point boundary value problem."""
    G, one, zero = B @ np.linalg.solve(R, B.T), np.eye(N), np.zeros((N, N))
    left, right = np.block([[A, zero], [-Q, one]]), np.block([[one, G], [zero, A.T]])
    modes = scipy.linalg.eigvals(left, right)
    return modes[np.abs(modes) < 1.0]


def test_weights_may_be_diagonals(rng):
    _, _, system = linear_system(rng)
    q, r = rng.uniform(0.5, 1.0, N), rng.uniform(0.5, 1.0, NU)
    x, u = np.zeros(N), np.zeros(NU)
    np.testing.assert_array_equal(ddp.lqr(system, x, u, q, r).K, ddp.lqr(system, x, u, np.diag(q), np.diag(r)).K)


def test_a_floating_robot_is_kept_where_it_hovers():
    problem = quadrotor.loop()
    system, x = problem.dynamics, problem.x0
    u = system.nominal_control(x)
    found = ddp.lqr(system, x, u, np.ones(system.n), np.ones(system.nu))
    A, B = system.linearize(x, u)
    assert np.abs(np.linalg.eigvals(A + B @ found.K)).max() < 1.0
    X = np.tile(x, (101, 1))
    assert_closed_loop(system, found, X, [A + B @ found.K] * 100, np.linspace(-1.0, 1.0, system.n))


def assert_closed_loop(system, regulator, X, steps, dx):
    """The robot under its policy moves as the linear closed loop says, to second order in the deviation."""
    errors, sizes, linear = [], np.array([1e-3, 1e-4]), dx
    for step in steps:
        linear = step @ linear
    for size in sizes:
        state = system.integrate(X[0], size * dx)
        for k in range(len(steps)):
            state = system.step(state, regulator.policy(k * system.dt, state), k)
        errors.append(np.abs(system.difference(X[len(steps)], state) - size * linear).max())
    assert np.log10(errors[0] / errors[1]) > 1.9, errors


def test_a_standing_robot_is_kept_in_the_null_space_of_its_contacts(solo, rng):
    robot, system, x, u, feet = solo
    C = dynamics.held_directions(robot, x[: robot.nq], x[robot.nq :], feet)
    found = ddp.lqr(system, x, u, np.ones(system.n), 0.1 * np.ones(system.nu))
    told = ddp.lqr(system, x, u, np.ones(system.n), 0.1 * np.ones(system.nu), held=C)
    np.testing.assert_array_equal(found.K, told.K)
    A, B = system.linearize(x, u)
    T = scipy.linalg.null_space(C)
    closed = A + B @ found.K
    assert T.shape == (36, 12)  # a body of six degrees of freedom
    assert np.abs(np.linalg.eigvals(T.T @ closed @ T)).max() < 1.0
    assert np.abs(found.K @ (np.eye(system.n) - T @ T.T)).max() < 1e-12 * np.abs(found.K).max()
    dx = T @ rng.normal(size=12)
    assert_closed_loop(system, found, np.tile(x, (51, 1)), [closed] * 50, dx)


def test_held_directions_are_kept_by_motion_under_contacts(solo, rng):
    robot, _, _x, u, feet = solo
    q, v, tau = robot.q0, np.zeros(robot.nv), robot.actuation @ u
    feet = [*feet[:3], dynamics.Contact(feet[3].frame, kind="surface")]
    A = dynamics.linearize(robot, q, v, tau, contacts=feet).A
    C = dynamics.held_directions(robot, q, v, feet)
    T = scipy.linalg.null_space(C)
    assert np.abs(dynamics.contact_dynamics(robot, q, v, tau, feet).a).max() < 1e-9
    assert np.abs(C @ A @ T).max() < 1e-9 * np.abs(A).max()


# -- trajectories ------------------------------------------------------------------------------------


def test_regulators_along_trajectories_are_dense_solutions(rng):
    A, B, system = linear_system(rng)
    knots = 4
    Q, R, end = random_weight(rng, N), random_weight(rng, NU), random_weight(rng, N)
    X, U = np.zeros((knots + 1, N)), np.zeros((knots, NU))
    found = ddp.tvlqr(system, X, U, Q, R, end)
    # all states from the first one and all controls: least squares in them
    S = np.vstack([np.linalg.matrix_power(A, k) for k in range(knots + 1)])
    G = np.zeros(((knots + 1) * N, knots * NU))
    for k in range(1, knots + 1):
        for j in range(k):
            G[k * N : (k + 1) * N, j * NU : (j + 1) * NU] = np.linalg.matrix_power(A, k - 1 - j) @ B
    W, V = scipy.linalg.block_diag(*[Q] * knots, end), scipy.linalg.block_diag(*[R] * knots)
    best = -np.linalg.solve(G.T @ W @ G + V, G.T @ W @ S)
    assert relative_error(found.K[0], best[:NU]) < 1e-10
    assert relative_error(found.P[0], (S + G @ best).T @ W @ (S + G @ best) + best.T @ V @ best) < 1e-10


def test_long_trajectories_at_an_equilibrium_end_in_scipys_regulator(rng):
    A, B, system = linear_system(rng)
    Q, R = random_weight(rng, N), random_weight(rng, NU)
    found = ddp.tvlqr(system, np.zeros((301, N)), np.zeros((300, NU)), Q, R, Q)
    P = scipy.linalg.solve_discrete_are(A, B, Q, R)
    assert relative_error(found.P[0], P) < 1e-10
    assert relative_error(found.K[0], -np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)) < 1e-10


def test_weights_may_differ_from_knot_to_knot(rng):
    A, B, system = linear_system(rng)
    Q, R = (np.array([random_weight(rng, n) for _ in range(3)]) for n in (N, NU))
    found = ddp.tvlqr(system, np.zeros((4, N)), np.zeros((3, NU)), Q, R, Q[0])
    P = Q[0]
    for k in (2, 1, 0):
        K = -np.linalg.solve(R[k] + B.T @ P @ B, B.T @ P @ A)
        P = Q[k] + A.T @ P @ (A + B @ K)
        assert relative_error(found.K[k], K) < 1e-10
        assert relative_error(found.P[k], P) < 1e-10


def test_a_robot_is_kept_on_its_trajectory(rng):
    robot = dynamics.load("hyq")
    system = dynamics.RobotDynamics(robot, 0.01, np.eye(robot.nv))
    x0 = np.concatenate([robot.q0, 0.3 * rng.normal(size=robot.nv)])
    U = np.tile(system.nominal_control(x0), (60, 1))
    X = system.rollout(x0, U)
    found = ddp.tvlqr(system, X, U, np.ones(system.n), 1e-4 * np.ones(system.nu), np.ones(system.n))
    steps = [np.hstack(system.linearize(X[k], U[k])) @ np.vstack([np.eye(36), found.K[k]]) for k in range(60)]
    assert_closed_loop(system, found, X, steps, rng.normal(size=36))


# -- observers ---------------------------------------------------------------------------------------


def test_observers_in_rn_are_those_of_scipy(rng):
    A, _, system = linear_system(rng)
    C, W, V = rng.normal(size=(3, N)), random_weight(rng, N), random_weight(rng, 3)
    found = ddp.kalman(system, np.zeros(N), np.zeros(NU), ddp.LinearSensor(C), W, V)
    P = scipy.linalg.solve_discrete_are(A.T, C.T, W, V)
    assert relative_error(found.P, P) < 1e-10
    assert relative_error(found.L, P @ C.T @ np.linalg.inv(C @ P @ C.T + V)) < 1e-10
    along = ddp.kalman(system, np.zeros((301, N)), np.zeros((300, NU)), ddp.LinearSensor(C), W, V, P0=W)
    assert relative_error(along.P[-1], P) < 1e-10
    assert relative_error(along.L[-1], found.L) < 1e-10


def test_a_standing_robot_is_seen_by_its_joints_and_a_frame(solo, rng):
    robot, system, x, u, _ = solo
    C = system.held_directions(x)
    sensors = [dynamics.JointSensor(robot), dynamics.FrameSensor(robot, "base_link")]
    m = sum(sensor.size for sensor in sensors)
    found = ddp.kalman(system, x, u, sensors, 1e-2 * np.ones(system.n), 1e-4 * np.ones(m))
    T = scipy.linalg.null_space(C)
    dx = T @ rng.normal(size=T.shape[1])
    state, guess = system.integrate(x, 1e-3 * dx / np.abs(dx).max()), x
    first = np.abs(system.difference(state, guess)).max()
    for k in range(30):
        state = system.step(state, u)
        guess = found.estimate(0.01 * k, guess, u, found.measure(state))
    assert np.abs(system.difference(state, guess)).max() < 0.1 * first


def test_filters_go_through_impacts_with_the_motion(solo, rng):
    """Without measuring speeds, which jump there; covariances as of a filter that measures after the impact alone."""
    robot = solo[0]
    feet = [dynamics.Contact(name) for name in ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT")]
    phases = [dynamics.Phase((), 2), dynamics.Phase(feet, 2, impact=True), dynamics.Phase(feet, 2, impact=True)]
    system = dynamics.PhasedDynamics(robot, 0.01, phases)
    U = 0.1 * rng.normal(size=(8, system.nu))
    X = system.rollout(np.concatenate([robot.q0, -1.0 * np.eye(robot.nv)[2]]), U)
    assert np.abs(system.difference(X[2], X[3])).max() > 0.5
    sensor, n = dynamics.JointSensor(robot, velocities=False), system.n
    W, V, P = 1e-4 * np.eye(n), 1e-3 * np.eye(sensor.size), 1e-2 * np.eye(n)
    observer = ddp.kalman(system, X, U, sensor, 1e-4 * np.ones(n), 1e-3 * np.ones(sensor.size), 1e-2 * np.ones(n))
    x = X[0]
    for k, t, after in ((0, 0.0, 1), (1, 0.01, 3), (3, 0.02, 4), (4, 0.03, 6), (6, 0.04, 7), (7, 0.05, 8)):
        x = observer.estimate(t, x, U[k], observer.measure(X[after]))
        assert np.abs(system.difference(X[after], x)).max() < 1e-9
    for k in range(8):
        A, C = system.linearize(X[k], U[k], k)[0], sensor.jacobian(X[k : k + 1])[0]
        L = np.zeros((n, sensor.size)) if k in (2, 5) else P @ C.T @ np.linalg.inv(C @ P @ C.T + V)
        np.testing.assert_allclose(observer.L[k], L, atol=1e-7 * np.abs(observer.L[0]).max())
        P = A @ (P - L @ C @ P) @ A.T + W


@pytest.mark.parametrize("around", [partial(augment.delays, steps=2), partial(augment.motors, time=0.05)])
def test_sensors_of_a_robot_serve_compositions_around_it(around, rng, tmp_path):
    robot = dynamics.load("ur5")
    inner, sensors = dynamics.RobotDynamics(robot, 0.01), [dynamics.JointSensor(robot)]
    sensors.append(dynamics.FrameSensor(robot, "tool0"))
    system, x = around(inner), np.concatenate([robot.q0, np.zeros(6)])
    u, n = inner.nominal_control(x), system.n
    x = np.concatenate([x, np.tile(u, (n - 12) // 6)])
    W, V = rng.uniform(0.5, 1.0, n), rng.uniform(0.5, 1.0, 18)
    found = ddp.kalman(system, x, u, sensors, W, V)
    C = np.hstack([np.vstack([one.jacobian(x[None, :12])[0] for one in sensors]), np.zeros((18, n - 12))])
    P = scipy.linalg.solve_discrete_are(system.linearize(x, u)[0].T, C.T, np.diag(W), np.diag(V))
    assert relative_error(found.L, P @ C.T @ np.linalg.inv(C @ P @ C.T + np.diag(V))) < 1e-9
    found.save(tmp_path / "seen.npz")
    again = ddp.Observer.load(tmp_path / "seen.npz", system, sensors)
    np.testing.assert_allclose(again.estimate(0.0, x, u, again.measure(x)), x, atol=1e-8)
    with pytest.raises(ProblemError, match="is it made for another system"):
        ddp.kalman(system, x, u, dynamics.JointSensor(dynamics.load("hyq"), ["lf_haa_joint"]), W, V[:2])
    other = dynamics.FrameSensor(dynamics.load("hyq"), "lf_foot", "pose")
    with pytest.raises(ProblemError, match=r"sensors\[0\] \(FrameSensor\): q.* made for another system"):
        ddp.kalman(system, x, u, other, W, V[:6])


@pytest.mark.parametrize("seed", [1, 3, 6])
def test_sensors_have_the_derivatives_of_their_values(seed):
    rng, model = np.random.default_rng(seed), random_tree(seed).model.copy()
    model.addFrame(pin.Frame("tip", model.njoints - 1, random_placement(rng), pin.FrameType.OP_FRAME))
    robot = dynamics.load(model)
    x = np.concatenate(random_state(robot, rng)[:2])
    system = dynamics.RobotDynamics(robot, 0.01)
    sensors = [dynamics.FrameSensor(robot, "tip", kind) for kind in ("pose", "position", "velocity")]
    sensors += [dynamics.JointSensor(robot), dynamics.JointSensor(robot, robot.joint_names[-2:], velocities=False)]
    for sensor in sensors:
        J, y, h = sensor.jacobian(x[None])[0], sensor.values(x[None]), 1e-5
        assert J.shape == (sensor.size, 2 * robot.nv)
        for j, e in enumerate(np.eye(2 * robot.nv)):
            ahead, behind = (sensor.difference(y, sensor.values(system.integrate(x, s * e)[None]))[0] for s in (h, -h))
            np.testing.assert_allclose(J[:, j], (ahead - behind) / (2.0 * h), atol=1e-7)


# -- files, and what is refused ----------------------------------------------------------------------


def test_regulators_and_observers_come_back_from_files(solo, rng, tmp_path):
    _A, _B, system = linear_system(rng)
    x, u, q, r = np.zeros(N), np.zeros(NU), np.ones(N), np.ones(NU)
    X, U = np.zeros((4, N)), np.zeros((3, NU))
    state = rng.normal(size=N)
    for made in (ddp.lqr(system, x, u, q, r), ddp.tvlqr(system, X, U, q, r, q)):
        made.save(tmp_path / "gains.npz")
        found = ddp.Regulator.load(tmp_path / "gains.npz", system)
        assert found.stationary == made.stationary
        for name in ("X", "U", "K", "P"):
            np.testing.assert_array_equal(getattr(found, name), getattr(made, name))
        np.testing.assert_array_equal(found.policy(1.0, state), made.policy(1.0, state))
        with pytest.raises(ProblemError, match="policy needs the system"):
            ddp.Regulator.load(tmp_path / "gains.npz").policy(1.0, state)
        with pytest.raises(ProblemError, match="is of another system: expected nx, nu = "):
            ddp.Regulator.load(tmp_path / "gains.npz", solo[1])
        with pytest.raises(ProblemError, match="is not an observer file"):
            ddp.Observer.load(tmp_path / "gains.npz", system)
    sensor = ddp.LinearSensor(rng.normal(size=(3, N)))
    for made in (
        ddp.kalman(system, x, u, sensor, q, np.ones(3)),
        ddp.kalman(system, X, U, sensor, q, np.ones(3), P0=q),
    ):
        made.save(tmp_path / "gains.npz")
        found = ddp.Observer.load(tmp_path / "gains.npz", system, sensor)
        for _ in range(20):
            y = found.measure(rng.normal(size=N))
            np.testing.assert_array_equal(found.estimate(1.0, state, u, y), made.estimate(1.0, state, u, y))


def call(name, change):
    """One of the functions on a double integrator with some of its arguments changed."""
    A, B = np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([[0.0], [0.1]])
    system = dynamics.FunctionDynamics(lambda x, u: A @ x + B @ u, 2, 1)
    arguments = {
        "discretize": {"A": A, "B": B, "dt": 0.1},
        "lqr": {"dynamics": system, "x": np.zeros(2), "u": np.zeros(1), "Q": np.ones(2), "R": np.ones(1)},
        "tvlqr": {
            "dynamics": system, "X": np.zeros((3, 2)), "U": np.zeros((2, 1)), "Q": np.ones(2), "R": np.ones(1),
            "Q_end": np.ones(2),
        },
        "kalman": {
            "dynamics": system, "x": np.zeros(2), "u": np.zeros(1), "sensors": ddp.LinearSensor(np.eye(2)),
            "W": np.ones(2), "V": np.ones(2),
        },
    }[name]  # fmt: skip
    return getattr(ddp, name)(**(arguments | change))


class Writing(ddp.LinearSensor):
    """A sensor that writes on the states it is given, and returns its own array at every call."""

    def values(self, X):
        self.kept[:] = super().values(X)
        X[:] = np.nan
        return self.kept

    def jacobian(self, X):
        X[:] = np.nan
        return super().jacobian(X)


def test_sensors_may_write_on_states_and_reuse_results(rng):
    system = dynamics.FunctionDynamics(lambda x, u: 0.9 * x + u[0], 2, 1)
    C = rng.normal(size=(2, 2))
    own = Writing(C)
    object.__setattr__(own, "kept", np.zeros((1, 2)))
    X, U = np.zeros((4, 2)), np.zeros((3, 1))
    given = {"W": np.ones(2), "V": np.ones(2), "P0": np.ones(2)}
    known, found = (ddp.kalman(system, X, U, sensor, **given) for sensor in (ddp.LinearSensor(C), own))
    assert np.array_equal(known.L, found.L)
    assert np.array_equal(X, np.zeros((4, 2)))
    x = rng.normal(size=2)
    assert np.array_equal(known.estimate(0.0, x, [0.3], [x]), found.estimate(0.0, x, [0.3], [x]))
    assert np.array_equal(np.concatenate(found.measure(x)), C @ x)
    object.__setattr__(own, "C", np.full((2, 2), np.nan))
    with pytest.raises(ProblemError, match=r"sensors\[0\] \(Writing\): jacobian: expected finite numbers"):
        ddp.kalman(system, X, U, own, **given)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("discretize", {"A": np.zeros((2, 3))}, "A: expected a square matrix, got shape (2, 3)"),
        ("discretize", {"B": np.zeros((3, 1))}, "B: expected 2 rows of numbers, got (3, 1)"),
        ("discretize", {"dt": 0.0}, "dt: expected a positive number, got 0.0"),
        ("lqr", {"x": np.array([0.0, 1.0])}, "x, u: expected an equilibrium, which a step does not move"),
        ("lqr", {"Q": np.zeros(2)}, "Q, R: expected weights of every mode that does not decay"),
        ("lqr", {"Q": -np.ones(2)}, "Q: expected a positive semidefinite matrix, got one with an eigenvalue of -1"),
        ("lqr", {"Q": np.array([[1.0, 1.0], [0.0, 1.0]])}, "Q: expected a symmetric matrix"),
        ("lqr", {"R": np.zeros(1)}, "R: expected a positive definite matrix, got one with an eigenvalue of 0"),
        ("lqr", {"held": np.ones((1, 3))}, "held: expected"),
        ("lqr", {"held": np.array([[1.0, 0.0]])}, "held: expected rows whose null space a step keeps"),
        ("tvlqr", {"X": np.zeros((4, 2))}, "X: expected shape (3, 2), got (4, 2)"),
        ("tvlqr", {"R": -np.ones(1)}, "R: expected a positive definite matrix"),
        ("tvlqr", {"U": np.zeros((0, 1)), "X": np.zeros((1, 2))}, "U: expected at least one knot, got none"),
        ("kalman", {"sensors": ()}, "sensors: expected at least one, got none"),
        ("kalman", {"sensors": ddp.LinearSensor(np.eye(2, 3))}, "sensors[0] (LinearSensor): expected a jacobian of"),
        ("kalman", {"sensors": [3]}, "sensors[0]: expected size, values, jacobian and difference, got 3"),
        ("kalman", {"V": np.ones(3)}, "V: expected shape (2,), got (3,)"),
        ("kalman", {"P0": np.ones(2)}, "P0: expected none about an equilibrium"),
        ("kalman", {"x": np.zeros((3, 2)), "u": np.zeros((2, 1))}, "P0: expected a covariance along a trajectory"),
        ("kalman", {"sensors": ddp.LinearSensor([[0.0, 1.0]]), "V": np.ones(1)}, "but the sensors do not see it"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(name, change, words):
    with pytest.raises(ProblemError) as caught:
        call(name, change)
    assert words in str(caught.value)


@pytest.mark.parametrize("seed", range(9))
def test_modes_that_stay_are_refused_whatever_rounding_makes_of_them(seed):
    """Three integrators pushed along fewer directions, and one that is turned out of view: SciPy solves some."""
    rng = np.random.default_rng(seed)
    push, turned = rng.normal(size=(3, 2)), np.linalg.qr(rng.normal(size=(3, 3)))[0]
    drifting = dynamics.FunctionDynamics(lambda x, u: x + push[:, : 1 + seed % 2] @ u, 3, 1 + seed % 2)
    with pytest.raises(ProblemError, match=r"dynamics: expected a mode .*1\..* to be stabilised"):
        ddp.lqr(drifting, np.zeros(3), np.zeros(drifting.nu), rng.uniform(0.1, 2.0, 3), np.ones(drifting.nu))
    held = dynamics.FunctionDynamics(lambda x, u: turned @ np.diag([1.0, 0.5, 0.4]) @ turned.T @ x + u, 3, 3)
    unseen = turned @ np.diag([0.0, 1.0, 2.0]) @ turned.T
    with pytest.raises(ProblemError, match="Q, R: expected weights of every mode that does not decay"):
        ddp.lqr(held, np.zeros(3), np.zeros(3), unseen, np.ones(3))


def test_the_control_that_keeps_a_state_is_named_where_there_is_one():
    drone = quadrotor.loop().dynamics
    Q, R, x = np.ones(drone.n), np.ones(drone.nu), np.concatenate([drone.robot.q0, np.zeros(drone.robot.nv)])
    for speed, said in ((0.0, r"; u = dynamics\.nominal_control\(x\) keeps x"), (1.0, "")):
        x[-1] = speed
        with pytest.raises(ProblemError, match=rf"moved by 0\.\d+{said}$"):
            ddp.lqr(drone, x, np.zeros(drone.nu), Q, R)


def test_a_state_that_moves_is_refused_where_the_nominal_control_is_not_defined():
    class Divided:
        nx, nu, dt = 1, 1, 0.1

        def step(self, x, u):
            if not u[0]:
                raise ValueError("division by zero")
            return x + 1.0 / u

    with pytest.raises(ProblemError, match=r"moved by 0\.5$"):
        ddp.lqr(Divided(), np.zeros(1), np.full(1, 2.0), np.ones(1), np.ones(1))


def test_exported_regulators_give_a_controller_their_controls(rng, tmp_path):
    """By the formula of the file, u + G e within the limits, of an equilibrium and along a trajectory."""
    drone = quadrotor.loop().dynamics
    x = np.concatenate([drone.robot.q0, np.zeros(drone.robot.nv)])
    x[2], hover = 1.0, drone.nominal_control(x)
    still = ddp.lqr(drone, x, hover, np.ones(drone.n), np.ones(drone.nu))
    X, U, Q = np.tile(x, (6, 1)), np.tile(hover, (5, 1)), np.ones(drone.n)
    along = ddp.tvlqr(drone, X, U, Q, np.ones(drone.nu), Q)
    near = drone.integrate(x, 0.01 * rng.normal(size=drone.n))
    for regulator, k, t in ((still, 0, 7.3), (along, 3, 3.0 * drone.dt)):
        file = np.load(regulator.export(tmp_path / f"gains{k}.npz"), allow_pickle=False)
        assert len(file["time"]) == (1 if regulator is still else 5)
        e = drone.difference(np.concatenate([file["q"][k], file["v"][k]]), near)
        u = np.clip(file["u"][k] + file["G"][k] @ e, file["lower"][k], file["upper"][k])
        np.testing.assert_allclose(u, regulator.policy(t, near), atol=1e-9)
    assert still.export(tmp_path / "gains.csv").read_text().startswith("time,")
    with pytest.raises(ProblemError, match="dynamics: export needs the system"):
        ddp.Regulator(still.X, still.U, still.K, still.P).export(tmp_path / "gains.npz")


def test_regulators_tell_their_sizes_and_the_slowest_mode_that_costs(solo, rng, tmp_path):
    """A robot on its feet has modes that contacts hold, which neither shrink nor cost."""
    robot, system, x, u, feet = solo
    found = ddp.lqr(system, x, u, np.ones(system.n), 0.1 * np.ones(system.nu))
    T = scipy.linalg.null_space(dynamics.held_directions(robot, x[: robot.nq], x[robot.nq :], feet))
    A, B = system.linearize(x, u)
    largest = np.abs(np.linalg.eigvals(T.T @ (A + B @ found.K) @ T)).max()
    sizes = f"about an equilibrium, {system.nu} controls of {system.n} deviations"
    assert str(found) == f"Regulator({sizes}, the largest closed-loop eigenvalue {largest:.4g} a step)"
    found.save(tmp_path / "gains.npz")
    assert str(ddp.Regulator.load(tmp_path / "gains.npz")) == f"Regulator({sizes})"
    _, _, linear = linear_system(rng)
    along = ddp.tvlqr(linear, np.zeros((4, N)), np.zeros((3, NU)), np.ones(N), np.ones(NU), np.ones(N))
    assert str(along) == f"Regulator(about a trajectory of 3 steps, {NU} controls of {N} deviations)"

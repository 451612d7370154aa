"""Problems of functions and of compositions, against simulations and solutions that are not ours."""

import itertools

import numpy as np
import pinocchio as pin
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import ddp
import problems
from ddp.errors import ProblemError
from dynamics import RobotDynamics, frame_position, load, mass_matrix
from problems.systems import acrobot, ballbot, car, composed, glider, integrator, mobile, rocket
from viz.motions import inside


@pytest.fixture
def optimum(solved):
    """Solution of a problem by its name, by DDP."""
    return lambda name: solved(name, ddp.DDP(tolerance=1e-9))


def held(f, X0, U, dt):
    """States under held controls, by SciPy."""
    X = [X0]
    for u in U:
        X.append(solve_ivp(lambda t, x, u=u: f(x, u), (0.0, dt), X[-1], rtol=1e-10, atol=1e-11).y[:, -1])
    return np.array(X)


def test_the_quickest_motion_takes_as_long_as_its_price_says(optimum):
    solution, N = optimum("integrator/quickest"), 100
    T = (18.0 * 0.1 * 2.0**2 * N**2 / (N**2 - 1)) ** 0.25
    assert np.exp(solution.X[-1, 2]) == pytest.approx(T, rel=1e-9)
    assert solution.cost == pytest.approx(4.0 / 3.0 * T, rel=1e-12)
    middle = (np.arange(N) + 0.5) / N
    force = 6.0 * 2.0 / T**2 * (1.0 - 2.0 * middle) * N**2 / (N**2 - 1)
    np.testing.assert_allclose(solution.U[solution.problem.dynamics.before :, 0], force, rtol=0, atol=1e-6)


def test_the_double_integrator_is_solved_as_a_dense_system_is(optimum):
    solution, dt = optimum("integrator/reach"), 0.01
    step = expm(dt * np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]))
    A, B, N, goal = step[:2, :2], step[:2, 2], 250, np.array([2.0, 0.0])
    powers = [np.linalg.matrix_power(A, k) @ B for k in range(N)]
    H, g, c = 0.01 * dt * np.eye(N), np.zeros(N), 0.0
    for k in range(N + 1):
        J = np.array([powers[k - 1 - j] if j < k else np.zeros(2) for j in range(N)]).T
        W = integrator.FINAL if k == N else 0.1 * dt * np.eye(2)
        H, g, c = H + J.T @ W @ J, g - J.T @ W @ goal, c + 0.5 * goal @ W @ goal
    U = -np.linalg.solve(H, g)
    np.testing.assert_allclose(solution.U[:, 0], U, rtol=0, atol=1e-8)
    assert solution.cost == pytest.approx(0.5 * U @ H @ U + g @ U + c, rel=1e-9)


def test_the_acrobot_is_trajaxs(optimum):
    """Their test: the cost without torque is 4959.476212, and the optimum that they find below 51."""
    problem = problems.find("acrobot/swing-up")()
    U = np.zeros((50, 1))
    assert problem.cost(problem.dynamics.rollout(problem.x0, U), U) == pytest.approx(4959.476212, abs=1e-6)
    assert optimum("acrobot/swing-up").cost < 51.0


def test_acrobots_energy_is_what_torques_put_in(rng):
    x0, u = np.array([0.3, -0.2, 0.5, 0.1]), np.array([0.7])

    def energy(x):
        a, b, da, db = x
        first = 0.5 * (acrobot.M1 * acrobot.C1**2 + acrobot.I1) * da**2
        speed = acrobot.L1**2 * da**2 + acrobot.C2**2 * (da + db) ** 2
        speed += 2.0 * acrobot.L1 * acrobot.C2 * da * (da + db) * np.cos(b)
        second = 0.5 * acrobot.M2 * speed + 0.5 * acrobot.I2 * (da + db) ** 2
        height = -acrobot.M1 * acrobot.C1 * np.cos(a)
        height -= acrobot.M2 * (acrobot.L1 * np.cos(a) + acrobot.C2 * np.cos(a + b))
        return first + second + acrobot.G * height

    X = held(acrobot.acrobot, x0, [u] * 2, 0.5)
    assert energy(X[-1]) - energy(X[0]) == pytest.approx(u[0] * (X[-1, 1] - X[0, 1]), rel=1e-7)


@pytest.mark.parametrize(("name", "f"), [("glider/perch", glider.glider), ("rocket/landing", rocket.lander)])
def test_steps_of_rk4_are_close_to_continuous_motion(optimum, name, f):
    solution = optimum(name)
    X = held(f, solution.X[0], solution.U, solution.problem.dynamics.dt)
    np.testing.assert_allclose(solution.X, X, rtol=0, atol=2e-4)


def test_the_glider_stalls_above_all_lift_coefficients_of_a_plate(optimum):
    solution = optimum("glider/perch")
    attack = solution.X[:, 2] - np.arctan2(solution.X[:, 5], solution.X[:, 4])
    assert attack.max() > np.pi / 4.0
    assert np.linalg.norm(solution.X[-1, 4:6]) < 0.3 * np.linalg.norm(solution.X[0, 4:6])
    assert np.abs(solution.U).max() <= glider.SERVO


def test_the_rocket_lands_within_its_thrusts_burning_what_momentum_says(optimum):
    solution = optimum("rocket/landing")
    thrust, dt = solution.U[:, 0], solution.problem.dynamics.dt
    assert np.abs(solution.X[-1, :4]).max() < 1e-3
    assert thrust.min() >= rocket.LEAST_SHARE * rocket.MOST - 1e-6
    assert thrust.max() <= rocket.MOST_SHARE * rocket.MOST + 1e-6
    assert solution.X[0, 4] - solution.X[-1, 4] == pytest.approx(rocket.BURN * thrust.sum() * dt, rel=1e-9)
    near = (thrust < 1.02 * rocket.LEAST_SHARE * rocket.MOST) | (thrust > 0.98 * rocket.MOST_SHARE * rocket.MOST)
    assert near.sum() >= 50  # bang-bang, as the maximum principle says
    assert solution.X[:, 1].min() > -1e-6


def test_the_car_parks_as_well_as_tassa_says_and_keeps_to_its_limits(optimum):
    solution = optimum("car/parking")
    assert (np.abs(solution.U) <= [0.5, 2.0]).all()
    assert solution.cost < 1.9052
    assert np.abs(solution.X[-1, :3]).max() < 0.02


def test_the_car_keeps_clear_of_circles_and_arrives(optimum):
    solution = optimum("car/circles")
    near = np.linalg.norm(solution.X[:, None, :2] - car.CIRCLES, axis=2)
    assert near.min() >= car.RADIUS - 1e-7
    np.testing.assert_allclose(solution.X[-1], [3.0, 3.0, 0.0], rtol=0, atol=1e-7)


def simulated(robot, dt, x0, torques):
    """Semi-implicit Euler by Pinocchio."""
    data, nq, x = robot.model.createData(), robot.nq, x0
    X = [x]
    for tau in torques:
        v = x[nq:] + dt * pin.aba(robot.model, data, x[:nq], x[nq:], tau)
        x = np.concatenate([pin.integrate(robot.model, x[:nq], dt * v), v])
        X.append(x)
    return np.array(X)


def test_thrusts_lag_behind_what_motors_are_told(optimum):
    solution = optimum("quadrotor/rotor-lag")
    inner = solution.problem.dynamics.system
    thrust = [solution.X[0, -4:]]
    for told in solution.U:
        thrust.append(told + (thrust[-1] - told) * np.exp(-0.02 / 0.05))
    np.testing.assert_allclose(solution.X[:, -4:], thrust, rtol=0, atol=1e-12)
    X = simulated(inner.robot, 0.02, solution.X[0, : inner.nx], np.array(thrust[:-1]) @ inner.actuation.T)
    np.testing.assert_allclose(solution.X[:, : inner.nx], X, rtol=0, atol=1e-9)


def test_torques_change_no_faster_than_they_may(optimum):
    solution = optimum("arm/torque-rates")
    inner = solution.problem.dynamics.system
    torques = solution.X[:, inner.nx :]
    assert np.abs(np.diff(torques, axis=0)).max() <= 300.0 * 0.01 + 1e-9
    X = simulated(inner.robot, 0.01, solution.X[0, : inner.nx], torques[:-1])
    np.testing.assert_allclose(solution.X[:, : inner.nx], X, rtol=0, atol=1e-9)


def test_springs_between_motors_and_joints_carry_the_torques(optimum):
    solution = optimum("arm/elastic")
    inner, robot = solution.problem.dynamics.system, solution.problem.dynamics.system.robot
    x, motors, speeds = solution.X[0, :12], solution.X[0, 12:18], solution.X[0, 18:]
    for k, r in enumerate(solution.U):
        torque = 300.0 * (motors - x[:6])
        x = simulated(robot, 0.01, x, [torque])[1]
        speeds = speeds + 0.01 * (r - torque) / 0.5
        motors = motors + 0.01 * speeds
        np.testing.assert_allclose(solution.X[k + 1], np.concatenate([x, motors, speeds]), rtol=0, atol=1e-8)
    assert inner.nu == 6


def test_no_start_nearby_is_better_than_the_best(optimum, rng):
    solution = optimum("arm/best-start")
    problem, before = solution.problem, solution.problem.dynamics.before
    start = solution.X[before]
    near = problem.at[before][0]
    plain = problems.find("arm/reach")()
    at_rest = np.repeat([1.0, 0.0], 6)
    np.testing.assert_allclose(start * (1.0 - at_rest), 0.0, atol=1e-14)
    for _ in range(3):
        x0 = start + 0.03 * at_rest * rng.normal(size=12)
        moved = ddp.solve(plain.starting_at(x0), guess=solution.U[before:])
        assert moved.cost + near.value(x0, np.zeros(6)) > solution.cost


def test_torques_on_the_ball_do_the_work_of_their_turning(rng):
    robot = ballbot.ballbot()
    data = robot.model.createData()
    for _ in range(5):
        q, v, r = rng.normal(size=5), rng.normal(size=5), rng.normal(size=3)
        pin.computeJointJacobians(robot.model, data, q)
        J = pin.getJointJacobian(robot.model, data, 5, pin.ReferenceFrame.LOCAL_WORLD_ALIGNED)
        pin.forwardKinematics(robot.model, data, q)
        torque = data.oMi[5].rotation @ r
        turning = np.array([-v[1], v[0], 0.0]) / ballbot.RADIUS  # a ball that rolls, and does not spin
        power = torque @ (turning - J[3:] @ v)
        assert ballbot.pushes(np.concatenate([q, v]), r) @ v == pytest.approx(power, rel=1e-12)


def test_the_cart_never_slips_aside(optimum):
    solution = optimum("mobile/reach")
    X, robot = solution.X, solution.problem.dynamics.robot
    data = robot.model.createData()
    for a, b in itertools.pairwise(X):
        twist = pin.difference(robot.model, a[: robot.nq], b[: robot.nq])
        assert abs(twist[1]) < 1e-12
    pin.framesForwardKinematics(robot.model, data, X[-1, : robot.nq])
    place = data.oMf[robot.model.getFrameId("tool0")].translation
    np.testing.assert_allclose(place, [1.5, 1.0, 0.8], rtol=0, atol=2e-3)


def test_driven_wheels_roll_as_far_as_they_turn(optimum):
    solution = optimum("mobile/drive")
    robot = solution.problem.dynamics.robot
    q, v = np.split(solution.X, [robot.nq], axis=1)
    left, right = (robot.model.joints[robot.model.getJointId(f"{side} wheel")].idx_v for side in ("left", "right"))
    ahead = v[:, 0, None] + v[:, 2, None] * 0.5 * mobile.TRACK * np.array([-1.0, 1.0])
    np.testing.assert_allclose(mobile.RADIUS * v[:, [left, right]], ahead, rtol=0, atol=1e-12)
    np.testing.assert_allclose(v[:, 1], 0.0, rtol=0, atol=1e-12)
    data = robot.model.createData()
    pin.framesForwardKinematics(robot.model, data, q[-1])
    place = data.oMf[robot.model.getFrameId("tool0")].translation
    np.testing.assert_allclose(place, [1.5, 1.0, 0.8], rtol=0, atol=2e-3)
    assert np.linalg.norm(q[-1, :2]) > 0.5


def test_the_trot_ends_as_it_began_a_stride_ahead(optimum):
    solution = optimum("quadruped/periodic-trot")
    system, before = solution.problem.dynamics, solution.problem.dynamics.before
    robot = system.robot
    first, last = solution.X[before, : robot.nq + robot.nv], solution.X[-1, : robot.nq + robot.nv]
    assert last[0] - first[0] > 0.1
    first = first.copy()
    first[:3] += [last[0] - first[0], 0.0, 0.0]
    q0, q1 = first[: robot.nq], last[: robot.nq]
    np.testing.assert_allclose(pin.difference(robot.model, q0, q1), 0.0, atol=1e-7)
    np.testing.assert_allclose(last[robot.nq :], first[robot.nq :], atol=1e-7)
    assert abs(first[robot.nq]) > 0.1  # it does not start from rest


def test_motions_of_robots_in_compositions_are_drawn_without_what_is_beside_them(optimum):
    solution = optimum("quadruped/periodic-trot")
    system, X, _ = inside(solution.problem.dynamics, solution.X)
    assert type(system).__name__ == "PhasedDynamics"
    assert X.shape == (system.knots + 1, system.nx)


@pytest.mark.parametrize("name", ["kinova", "panda"])
def test_carts_carry_any_arm_from_its_own_posture_to_where_its_tool_is_sent(name):
    for make in (mobile.reach, mobile.drive):
        problem, own = make(name), load(name)
        q = problem.x0[4 : 4 + own.nq]
        assert np.array_equal(q, own.q0)
        whole, tool = problem.dynamics.robot, next(term.frame for term in problem.terminal if hasattr(term, "frame"))
        alone = frame_position(own, q, tool) + np.array([0.0, 0.0, 0.4])
        np.testing.assert_allclose(frame_position(whole, problem.x0[: whole.nq], tool), alone, atol=1e-12)


def test_an_arm_starts_within_its_limits():
    """A hinge of a Kinova is given in another turn than its limits, -1.571 rad for 4.712 rad."""
    robot = load("kinova")
    assert (robot.model.lowerPositionLimit <= robot.q0).all()
    assert (robot.q0 <= robot.model.upperPositionLimit).all()


GEARED_ARM = """
<mujoco><option gravity="0 0 -3.7"/><worldbody><body pos="0 0 .1">
<joint name="a" axis="0 0 1" armature=".3" damping=".5"/>
<geom size=".1"/><body pos="0 0 .3"><joint name="b" axis="0 1 0" stiffness="2" springref="20"/>
<geom size=".05" pos=".1 0 .2"/><site name="tip" pos="0 0 .3"/></body></body></worldbody>
<actuator><motor joint="b" gear="3" ctrlrange="-2 2"/><motor joint="a"/></actuator>
<keyframe><key name="home" qpos=".1 .2"/></keyframe></mujoco>"""


def test_arms_on_carts_keep_motors_springs_and_posture():
    arm = load(GEARED_ARM)
    own = slice(3, 5)
    for robot in (mobile.on_wheels(arm), mobile.driven(arm)):
        assert np.array_equal(robot.q0[4:6], arm.q0)
        assert np.array_equal(robot.actuation[own, own], arm.actuation)
        assert np.array_equal(np.delete(np.delete(robot.actuation, own, 0), own, 1), np.eye(robot.nv - 2))
        assert np.array_equal(robot.control_limits[own], arm.control_limits)
        assert np.isinf(np.delete(robot.control_limits, own, 0)).all()
        assert robot.equipment.damped
        q, v = np.append(robot.q0[:4], np.pad([0.4, 0.5], (0, robot.nv - 5))), np.zeros(robot.nv)
        v[own] = 0.7, 0.8
        x, still = np.concatenate([q, v]), np.array([0.4, 0.5, 0.7, 0.8])
        ours, alone = RobotDynamics(robot, 0.01), RobotDynamics(arm, 0.01)
        np.testing.assert_allclose(ours.passive_torques(x[None])[0, own], alone.passive_torques(still[None])[0])
        np.testing.assert_allclose(ours.holding_torques(x)[own], alone.holding_torques(still), atol=1e-12)
        np.testing.assert_allclose(mass_matrix(robot, q)[own, own], mass_matrix(arm, still[:2]), atol=1e-12)
    driven, system = mobile.driven(arm), mobile.drive(arm).dynamics
    assert np.array_equal(system.actuation, driven.actuation[:, 3:])
    assert np.array_equal(system.control_limits, driven.control_limits[3:])


def test_motors_of_an_elastic_arm_begin_where_springs_hold_it_whatever_their_order():
    problem = composed.elastic_reach(GEARED_ARM.replace('gravity="0 0 -3.7"', 'gravity="0 5 -3.7"'))
    system, arm = problem.dynamics, problem.dynamics.system.robot
    after = system.step(problem.x0, problem.dynamics.system.nominal_control(problem.x0[: arm.nq + arm.nv]))
    np.testing.assert_allclose(after, problem.x0, atol=1e-12)


def test_arms_with_loops_and_legs_are_not_put_on_carts():
    held = '<equality><connect body1="lower" anchor=".1 0 .3"/></equality>'
    text = GEARED_ARM.replace("<body pos", '<body name="lower" pos', 1).replace("<keyframe>", held + "<keyframe>")
    with pytest.raises(ProblemError, match="expected an arm without loops"):
        mobile.on_wheels(load(text.replace(".1 .2", "0 0")))
    with pytest.raises(ProblemError, match="expected an arm on a fixed base, got hyq"):
        mobile.on_wheels("hyq")

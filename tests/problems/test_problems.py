"""The registry, and the reference problems against their definitions written out with Pinocchio alone."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pinocchio as pin
import pytest

import problems
from ddp.check import check_derivatives
from ddp.errors import ProblemError
from ddp.problem import Problem
from ddp.solver import solve
from dynamics.rigid_bodies.rigid_body import inverse_dynamics
from dynamics.robots.model import load
from problems import arm, cartpole, pendulum, quadrotor, quadruped
from problems.costs import ControlCost, JointLimits


@pytest.fixture(scope="module")
def built() -> dict[str, Problem]:
    return {name: entry() for name, entry in problems.ALL.items()}


def simulated(model, dt, S, x0, U):
    """Semi-implicit Euler: v' = v + dt aba(q, v, S u), q' = q ⊕ dt v'."""
    data, q, v = model.createData(), x0[: model.nq], x0[model.nq :]
    states = [(q, v)]
    for u in U:
        v = v + dt * pin.aba(model, data, q, v, S @ u)
        q = pin.integrate(model, q, dt * v)
        states.append((q, v))
    return states


def total(states, U, dt, running, terminal):
    cost = dt * sum(running(q, v, u) for (q, v), u in zip(states, U, strict=False))
    return cost + terminal(*states[-1])


def sq(r):
    return 0.5 * float(np.dot(r, r))


def frame(model, name, q, v):
    data, index = model.createData(), model.getFrameId(name)
    pin.forwardKinematics(model, data, q, v)
    pin.updateFramePlacements(model, data)
    return data.oMf[index], pin.getFrameVelocity(model, data, index, pin.ReferenceFrame.LOCAL)


def pendulum_cost(p, states, U):
    def running(q, v, u):
        return 0.1 * sq(u) + 0.1 * (sq(q - np.pi) + 0.1 * sq(v))

    return total(states, U, 0.03, running, lambda q, v: 1000 * (sq(q - np.pi) + sq(v)))


def cartpole_cost(p, states, U):
    goal = np.array([0.0, np.pi])

    def running(q, v, u):
        return 0.01 * sq(u) + 0.1 * sq(q - goal) + 0.01 * sq(v)

    return total(states, U, 0.02, running, lambda q, v: 1000 * (sq(q - goal) + sq(v)))


def reach_cost(p, states, U, target=None, rotation=1000.0):
    model, q0 = p.dynamics.robot.model, np.array([0, -1.2, 1.4, -1.77, -1.57, 0])
    target = (
        frame(model, "tool0", np.array([1.6, -0.8, 0.9, -0.6, -0.8, 0.7]), np.zeros(6))[0]
        if target is None
        else target
    )

    def running(q, v, u):
        return 1e-3 * sq(u) + 1e-2 * sq(q - q0) + 0.1 * sq(v)

    def terminal(q, v):
        r = pin.log6(target.inverse() * frame(model, "tool0", q, v)[0])
        return 1000 * sq(r.linear) + rotation * sq(r.angular) + 10 * sq(v)

    return total(states, U, 0.01, running, terminal)


def out_of_reach_cost(p, states, U):
    return reach_cost(p, states, U, pin.SE3(np.eye(3), np.array([0.4, 1.2, 0.9])), 0.0)


def throw_cost(p, states, U):
    model, q0 = p.dynamics.robot.model, load("panda").q0[:7]

    def running(q, v, u):
        return 1e-3 * sq(u) + 1e-2 * (sq(q - q0) + sq(v))

    def terminal(q, v):
        M, V = frame(model, "panda_hand_tcp", q, v)
        return 10 * sq(V.linear - [0, 0, 3]) + 100 * sq(M.translation - [0.2, 0.5, 0.7])

    return total(states, U, 0.01, running, terminal)


def reorientation_cost(p, states, U):
    legs = load("hyq").q0[7:]
    R = pin.exp3(np.array([np.pi / 2, 0, 0]))

    def running(q, v, u):
        return 1e-3 * sq(u) + 0.1 * sq(q[7:] - legs) + 0.01 * sq(v[6:])

    def terminal(q, v):
        turn = pin.log3(R.T @ pin.Quaternion(q[3:7]).matrix())
        return 1000 * sq(turn) + 100 * sq(q[7:] - legs) + 10 * sq(v[3:6]) + 10 * sq(v[6:])

    return total(states, U, 0.01, running, terminal)


def loop_cost(p, states, U):
    model = p.dynamics.robot.model
    hover = 9.81 * pin.computeTotalMass(model) / 4

    def error(q, pitch, z):
        target = pin.SE3(pin.exp3(np.array([0, pitch, 0])), np.array([0, 0, z]))
        return pin.log6(target.inverse() * pin.XYZQUATToSE3(q))

    def running(q, v, u):
        return 0.1 * sq(u - hover) + 0.01 * sq(v)

    def terminal(q, v):
        r = error(q, 0.0, 0.0)
        return 100 * sq(r.linear) + 100 * sq(r.angular) + 10 * sq(v)

    cost = total(states, U, 0.02, running, terminal)
    for knot, pitch in ((46, np.deg2rad(120)), (54, np.deg2rad(240))):
        r = error(states[knot][0], pitch, 0.7)
        cost += 10 * sq(r.linear) + 100 * sq(r.angular)
    return cost


REFERENCE = {
    "pendulum/swing-up": (100, 1.0, pendulum_cost),
    "cartpole/swing-up": (100, 1.0, cartpole_cost),
    "arm/reach": (100, 3.0, reach_cost),
    "arm/out-of-reach": (100, 3.0, out_of_reach_cost),
    "arm/obstacles": (100, 3.0, reach_cost),
    "arm/throw": (60, 3.0, throw_cost),
    "quadruped/reorientation": (100, 1.0, reorientation_cost),
    "quadrotor/loop": (100, 0.01, loop_cost),
}


@pytest.mark.parametrize("name", REFERENCE)
def test_reference_problems_cost_what_their_definitions_say(built, rng, name):
    problem, (horizon, noise, cost) = built[name], REFERENCE[name]
    assert problem.horizon == horizon
    system = problem.dynamics
    U = np.tile(system.nominal_control(problem.x0), (horizon, 1)) + noise * rng.normal(
        size=(horizon, system.nu)
    )
    states = simulated(system.robot.model, system.dt, system.actuation, problem.x0, U)
    expected = cost(problem, states, U)
    X = np.array([np.concatenate(state) for state in states])
    # the torques' rounding grows along a horizon of 100 knots
    assert problem.cost(X, U) == pytest.approx(expected, rel=1e-10)
    assert problem.cost(system.rollout(problem.x0, U), U) == pytest.approx(expected, rel=1e-6)


def test_reference_list_is_the_registry():
    """But for gaits, whose terms are tested on those of Crocoddyl, and what test_systems.py and test_soft.py test."""
    others = {"contacts", "composed", "function", "soft"}
    assert list(REFERENCE) == [name for name, entry in problems.ALL.items() if not others & set(entry.tags)]


@pytest.mark.parametrize("name", problems.ALL)
def test_entries_are_complete(built, name):
    entry, problem = problems.ALL[name], built[name]
    assert entry.name == name
    assert name.count("/") == 1
    assert entry.cost > 0.0
    assert entry.tags
    assert entry.description
    robot = getattr(problem.dynamics, "robot", None)
    assert entry.robot_name == ("" if robot is None else robot.name)
    for traced in entry.frames:
        assert robot.has_frame(traced), traced
    guess = entry.guess(problem)
    U = guess[1] if isinstance(guess, tuple) else guess
    assert U is None or (U.shape == (problem.horizon, problem.dynamics.nu) and np.isfinite(U).all())
    if isinstance(guess, tuple):
        problem.dynamics.check_state("X", guess[0])
        assert guess[0].shape == (problem.horizon + 1, problem.dynamics.nx)


def test_guesses_are_the_benchmarks(built):
    problem = built["quadruped/reorientation"]
    generator = np.random.default_rng(0)
    expected = [generator.normal(size=12) for _ in range(100)]
    np.testing.assert_array_equal(problems.ALL["quadruped/reorientation"].guess(problem), expected)
    thrust = problems.ALL["quadrotor/loop"].guess(built["quadrotor/loop"])
    np.testing.assert_allclose(thrust, 9.81 * 1.535 / 4, rtol=1e-4)
    assert not problems.ALL["pendulum/swing-up"].guess(built["pendulum/swing-up"]).any()


@pytest.mark.parametrize("name", ["anymal", "solo12"])
def test_guesses_are_made_for_the_robots_weight(name):
    problem = quadruped.reorientation(name)
    guess = quadruped.small_random_torques(problem)
    assert np.isfinite(problem.dynamics.rollout(problem.x0, guess)).all()
    mass = pin.computeTotalMass(problem.dynamics.robot.model)
    np.testing.assert_allclose(guess[0], mass / 80.0 * np.random.default_rng(0).normal(size=12), rtol=1e-12)


def test_a_control_cost_at_the_end_is_refused_by_its_name(built):
    problem = built["arm/reach"]
    terms = [*problem.terminal, ControlCost(np.ones(6), np.ones(6))]
    with pytest.raises(ProblemError, match=r"terminal\[2\] \(ControlCost\): .* one of the controls alone"):
        Problem(problem.dynamics, problem.running, terms, problem.x0, problem.horizon)


def test_no_derivative_is_called_wrong_where_a_rotation_of_half_a_turn_starts(built):
    problem = built["arm/out-of-reach"]
    U = np.tile(problem.dynamics.nominal_control(problem.x0), (problem.horizon, 1))
    report = check_derivatives(problem, problem.dynamics.rollout(problem.x0, U), U)
    assert report.ok, str(report)
    assert {check.name for check in report.checks if not check.smooth} == {
        "terminal[0] (FramePose) gradient",
        "terminal[0] (FramePose) Hessian",
    }


def test_no_derivative_is_called_wrong_where_a_joint_is_at_its_limit(built):
    problem = built["arm/reach"]
    q = problem.x0[:6]
    limits = JointLimits(problem.dynamics.robot, 1.0, lower=q, upper=np.full(6, 9.0))
    limited = Problem(problem.dynamics, [limits], [], problem.x0, 2)
    report = check_derivatives(limited, np.tile(problem.x0, (3, 1)), np.zeros((2, 6)))
    assert report.ok, str(report)
    assert any(not check.smooth for check in report.checks)


def test_a_solution_is_followed_by_its_gains_from_another_start():
    """Open loop, an arm that starts a milliradian away falls for three seconds."""
    problem = arm.reach("ur5", horizon=300)
    moved = Problem(problem.dynamics, problem.running, problem.terminal, problem.x0 + 1e-3, problem.horizon)
    solution = solve(moved, guess=solve(problem))
    assert solution.iterations <= 2
    assert solution.cost == pytest.approx(1.1648, abs=1e-4)


def test_problems_survive_pickling(built):
    for name, problem in built.items():
        copy, guess = pickle.loads(pickle.dumps(problem)), problems.ALL[name].guess(problem)
        U = np.zeros((problem.horizon, problem.dynamics.nu))
        X = guess[0] if isinstance(guess, tuple) else np.tile(problem.x0, (problem.horizon + 1, 1))
        assert copy.cost(X, U) == problem.cost(X, U)


def test_importing_problems_loads_no_robot_and_compiles_nothing():
    code = (
        "import sys, problems\n"
        "from ddp.compiling.kernel import registered\n"
        "assert not any(kernel.signatures for kernel in registered())\n"
        "assert 'example_robot_data' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_problems_are_answered_with_the_nearest():
    with pytest.raises(ProblemError, match="did you mean 'arm/throw'"):
        problems.find("arm/thro")
    assert problems.find("arm/throw") is problems.ALL["arm/throw"]


def test_total_thrust_lifts_and_opposite_thrusts_turn():
    S = quadrotor.thrusters(0.2, 0.01)
    np.testing.assert_allclose(S @ np.ones(4), [0, 0, 4, 0, 0, 0], atol=1e-15)
    np.testing.assert_allclose(S @ [1, 0, -1, 0], [0, 0, 0, 0, -0.4, 0], atol=1e-15)  # front up: nose rises
    np.testing.assert_allclose(
        S @ [0, 1, 0, -1], [0, 0, 0, -0.4, 0, 0], atol=1e-15
    )  # right up: rolls to the left
    np.testing.assert_allclose(S @ [1, -1, 1, -1], [0, 0, 0, 0, 0, -0.04], atol=1e-15)


@pytest.mark.parametrize(
    "make",
    [
        lambda: pendulum.swing_up(mass=2.0, length=0.5, horizon=50, dt=0.02, control_weight=1.0),
        lambda: cartpole.swing_up(cart_mass=3.0, horizon=150, final_weight=10.0),
        lambda: arm.reach("panda"),
        lambda: arm.reach("ur10", horizon=20),
        lambda: arm.reach("ur5", target=pin.SE3(np.eye(3), np.array([0.3, 0.3, 0.5])).homogeneous),
        lambda: arm.out_of_reach("kinova", position=(2.0, 0.0, 1.0)),
        lambda: arm.throw("ur5", velocity=(1.0, 0.0, 1.0)),
        lambda: arm.throw(load("panda"), position=(0.4, 0.0, 0.6)),
        lambda: quadruped.reorientation("anymal", angle=-2.5),
        lambda: quadruped.reorientation("solo12", horizon=60, dt=0.02),
        lambda: quadrotor.loop("hector", waypoints={20: 1.0}, horizon=40, height=1.0),
    ],
)
def test_problems_can_be_varied(make):
    problem = make()
    U = np.tile(problem.dynamics.nominal_control(problem.x0), (problem.horizon, 1))
    assert np.isfinite(problem.cost(np.tile(problem.x0, (problem.horizon + 1, 1)), U))


def test_default_goal_of_any_arm_is_away_from_its_start():
    problem = arm.reach("panda")
    assert problem.terminal[0].value(problem.x0, np.zeros(9)) > 1.0


def test_locked_joints_are_gone_and_the_rest_is_the_same(rng):
    panda = load("panda")
    locked = arm.lock(panda, ["panda_finger_joint1", "panda_finger_joint2"])
    assert locked.joint_names == panda.joint_names[:7]
    np.testing.assert_array_equal(locked.q0, panda.q0[:7])
    q = rng.normal(size=7)
    whole = frame(panda.model, "panda_hand_tcp", np.concatenate([q, panda.q0[7:]]), np.zeros(9))[0]
    assert whole.isApprox(frame(locked.model, "panda_hand_tcp", q, np.zeros(7))[0], 1e-12)
    assert pin.computeTotalMass(locked.model) == pytest.approx(pin.computeTotalMass(panda.model))


def test_weightless_leaves_the_given_robot_alone():
    hyq = load("hyq")
    assert not quadruped.weightless(hyq).tree.gravity.any()
    assert hyq.tree.gravity[2] == -9.81


@pytest.mark.parametrize(
    ("named", "make"),
    [
        ("mass", lambda: pendulum.swing_up(mass=0.0)),
        ("length", lambda: cartpole.swing_up(length=-1.0)),
        ("dt", lambda: arm.reach(dt=0.0)),
        ("horizon", lambda: arm.reach(horizon=0)),
        ("q0", lambda: arm.reach(q0=np.zeros(3))),
        ("tool0", lambda: arm.reach(frame="tool")),
        ("posture_weight", lambda: arm.reach(posture_weight=-1.0)),
        ("robot", lambda: arm.reach("hyq")),
        ("angle", lambda: quadruped.reorientation(angle=4.0)),
        ("robot.*`mayne list robots` tells which float", lambda: quadruped.reorientation("ur5")),
        ("robot", lambda: quadrotor.loop("hyq")),
        ("waypoints", lambda: quadrotor.loop(horizon=50)),
        ("obstacles", lambda: arm.obstacles("panda", target=np.eye(4))),
        ("torque_limits", lambda: arm.obstacles(torque_limits=np.ones(3))),
        ("velocity", lambda: arm.throw(velocity=(0.0, 3.0))),
        ("panda_joint1", lambda: arm.lock(load("panda"), ["panda_joint11"])),
    ],
)
def test_mistakes_are_named(named, make):
    with pytest.raises(ProblemError, match=named):
        make()


def test_arms_of_mjcf_files_throw_with_their_fingers_locked(rng):
    sphere = '<geom size=".02" mass="1"/>'
    finger = '<body pos="0 {0} .2"><joint name="finger{0}" type="slide"/>{1}</body>'
    hand = f'<site name="tip" pos="0 0 .3"/>{finger.format(0.05, sphere)}{finger.format(-0.05, sphere)}'
    lower = f'<body pos="0 0 .3"><joint name="elbow" axis="0 1 0" armature=".2"/>{sphere}{hand}</body>'
    upper = f'<body pos="0 0 .3"><joint name="shoulder" axis="1 0 0" stiffness="2"/>{sphere}{lower}</body>'
    motors = '<motor joint="finger0.05"/><motor joint="shoulder" gear="3"/><motor joint="elbow" ctrlrange="-1 1"/>'
    robot = load(f"<mujoco><worldbody>{upper}</worldbody><actuator>{motors}</actuator></mujoco>")
    locked = arm.throw(robot).dynamics.robot
    assert locked.joint_names == ["shoulder", "elbow"]
    assert locked.actuation.tolist() == [[3.0, 0.0], [0.0, 1.0]]
    assert locked.control_limits.tolist() == [[-np.inf, np.inf], [-1.0, 1.0]]
    assert locked.equipment.stiffness.tolist() == [2.0, 0.0]
    q, v, a = rng.normal(size=(3, 2))
    whole = inverse_dynamics(robot, *(np.concatenate([x, np.zeros(2)]) for x in (q, v, a)))
    np.testing.assert_allclose(inverse_dynamics(locked, q, v, a), whole[:2], atol=1e-12)


def test_a_base_turns_by_the_joints_that_motors_drive_and_with_loops_closed():
    shape = '<geom size=".05 .2" type="capsule" pos="0 0 -.3"/>'
    limb = f'<body pos="{{0}} 0 0"><joint name="j{{0}}" axis="0 1 0"/>{shape}</body>'
    limbs = "".join(limb.format(x) for x in (-0.2, 0.0, 0.2))
    body = f'<body><freejoint/><geom type="box" size=".3 .1 .1"/>{limbs}</body>'
    motors = '<motor joint="j-0.2"/><motor joint="j0.2"/>'
    robot = load(f"<mujoco><worldbody>{body}</worldbody><actuator>{motors}</actuator></mujoco>")
    problem = quadruped.reorientation(robot)
    X = problem.dynamics.rollout(problem.x0, problem.guess)
    assert problem.guess.shape == (problem.horizon, 2)
    assert np.isfinite(problem.cost(X, problem.guess))
    with pytest.raises(ProblemError, match="cassie has loops"):
        quadruped.reorientation("cassie")

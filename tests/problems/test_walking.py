"""Gaits walk by commands: windows move on for free, feet land where they should, and robots stay up in MuJoCo."""

import dataclasses
import pickle

import numpy as np
import pinocchio as pin
import pytest

import ddp
import problems
from ddp.feedback.succession import Succession
from ddp.problem import Problem
from dynamics import Contact, Phase, PhasedDynamics, RobotDynamics, augment, load
from problems import arm, quadrotor
from problems.costs import ControlCost
from problems.legs import frame_poses
from problems.lifted import free_start
from problems.walking.windows import Command, Ground, Path, Windows
from viz.scene import build


@pytest.fixture(scope="module")
def walking():
    with problems.Walking("solo12", latency=0.02) as made:
        yield made


def state(walking, rng, size=0.02):
    system = walking.system
    return system.integrate(walking.x0, size * rng.normal(size=system.n))


def test_a_cycle_from_any_knot_on_is_the_system_from_there(walking):
    system, rng = walking.system, np.random.default_rng(0)
    x, u = state(walking, rng), rng.normal(size=system.nu)
    for first in (0, 1, 7, 23, 24, 25, system.knots - 1, system.knots + 3):
        later = system.from_knot(first)
        assert sum(phase.size for phase in later.phases) == later.knots == system.knots
        for k in (0, 5, 26):
            at = (first + k) % system.knots
            assert np.array_equal(later.step(x, u, k), system.step(x, u, at))
            assert later.durations[k] == system.durations[at]
            names = {contact.frame for contact in system.phase_of(at).contacts}
            assert {contact.frame for contact in later.phase_of(k).contacts} == names


@pytest.mark.parametrize("step", [0, 3, 20, 22, 43])
def test_a_window_that_moved_costs_as_one_that_was_made_anew(walking, step):
    rng, windows = np.random.default_rng(step), walking.windows
    x = state(walking, rng)
    window = Ground(windows.cycle, walking.x0).window(step, x, Command(0.2, -0.1, 0.3))
    X = windows.nominal(step, window.path, window.floor)
    for start in (0, step):  # the first one is checked
        moved = windows.problem(start, x, X, window.swings)
    anew = Windows(windows.cycle, windows.terms, windows.lift).problem(step, x, X, window.swings)
    again = dataclasses.replace(anew)
    assert isinstance(again, Problem)
    states = moved.dynamics.integrate(X, 0.05 * rng.normal(size=(len(X), moved.dynamics.n)))
    U = rng.normal(size=(moved.horizon, moved.dynamics.nu))
    assert moved.cost(states, U) == pytest.approx(again.cost(states, U), rel=1e-12)


def test_bodies_move_along_arcs():
    path = Path(np.array([0.3, -0.2]), 0.7, Command(0.4, 0.1, 0.5))
    start = pin.SE3(pin.exp3(np.array([0.0, 0.0, 0.7])), np.array([0.3, -0.2, 0.0]))
    twist = pin.Motion(np.array([0.4, 0.1, 0.0]), np.array([0.0, 0.0, 0.5]))
    t = np.array([0.0, 1e-7, 0.3, 2.0])
    places, headings = path.at(t)
    for place, heading, seconds in zip(places, headings, t, strict=True):
        pose = start * pin.exp6(twist * seconds)
        assert place == pytest.approx(pose.translation[:2], abs=1e-12)
        assert pin.log3(pose.rotation)[2] == pytest.approx(heading, abs=1e-12)


def test_feet_swing_from_where_they_are_to_where_they_stand_next(walking):
    cycle, x = walking.windows.cycle, walking.x0
    for step in range(0, cycle.steps, 5):
        ground = Ground(cycle, x)
        still = ground.window(step, x, Command())
        for swing in still.swings:
            assert swing.places(np.array([swing.lifted]), 0.1)[0] == pytest.approx(ground.places[swing.foot])
            assert swing.end == pytest.approx(ground.places[swing.foot])  # in place, at rest
            middle = 0.5 * (swing.lifted + swing.landed)
            assert swing.places(np.array([middle]), 0.1)[0, 2] == pytest.approx(swing.end[2] + 0.1)
        moving = ground.window(step, x, Command(0.3))
        for slow, fast in zip(still.swings, moving.swings, strict=True):
            stance = cycle.dt * (fast.landed + 0.5 * (cycle.steps - cycle.swinging[fast.foot]))
            capture = -0.5 * cycle.stance.unit * 0.3  # the robot is at rest
            assert fast.end - slow.end == pytest.approx([0.3 * stance + capture, 0.0, 0.0])


def test_a_robot_that_is_pushed_walks_on_as_commanded(walking):
    first, then = (0.3, 0.0, 0.0), (0.1, 0.05, 0.3)
    run = problems.simulate_receding(walking, 2.6, {0.0: first, 1.3: then}, pushes={0.6: 0.25, 1.9: (0.25, 0.0)})
    assert not run.fell
    for command, velocity in run.steady(0.7):
        assert velocity == pytest.approx(command, abs=0.05)
    drawn = build(run)  # of no problem of its own
    assert drawn.times[-1] == pytest.approx(2.6, abs=1e-9)
    assert {"the plan", "path of FL_FOOT"} <= {entry.label for entry in drawn.legend}
    again = problems.simulate_receding(walking, 0.2, first)
    assert np.array_equal(again.play.X, run.play.X[: len(again.play.X)])  # it began anew


def test_a_gait_in_a_pickle_walks_on(walking):
    command, x = (0.2, 0.0, 0.1), walking.x0
    walking.restart()
    walking.plan(0.0, x, command)
    sent = pickle.loads(pickle.dumps(walking))
    one, other = (made.plan(0.1, x, command) for made in (walking, sent))
    np.testing.assert_array_equal(one(0.13, x), other(0.13, x))
    sent.close()


def test_a_gait_tells_once_what_its_robot_makes_doubtful(caplog):
    robot = load("solo12")
    robot.model.inertias[1].mass += 0.5
    with problems.Walking(robot) as made:
        for _ in range(2):
            made.plan(0.0, made.x0)
            made.restart()
    said = [record.message for record in caplog.records if "since it was compiled" in record.message]
    assert len(said) == 1
    assert said[0].startswith("robot.model: inertias changed")


def test_errors_stay_from_policy_to_policy_until_a_plan_begins(walking):
    system, rng, policies = walking.system, np.random.default_rng(3), Succession()
    walking.restart()
    one = walking.plan(0.0, walking.x0)
    two = dataclasses.replace(one, starts=one.starts + 0.03)
    three = dataclasses.replace(one, starts=one.starts + 0.05)
    for policy in (one, two, three):
        policies.add(policy)
    for t, through in ((0.01, (one, two, three)), (0.04, (two, three)), (0.06, (three,))):
        x = expected = state(walking, rng)
        for policy, end in zip(through, (0.03, 0.05, 0.07)[-len(through) :], strict=True):
            error = system.difference(policy.reference(max(t, policy.starts[0])), expected)
            expected = system.integrate(policy.reference(end), error)
        assert policies.predicted(t, x, 0.07) == pytest.approx(expected, abs=1e-12)
        assert policies.at(t) is through[0]
    assert policies.predicted(0.06, three.reference(0.06), 0.09) == pytest.approx(three.reference(0.09), abs=1e-12)


@pytest.mark.parametrize(("given", "words"), [
    ({"gait": "hop"}, "gait: unknown 'hop'"),
    ({"latency": -0.1}, "latency: expected at least 0"),
    ({"robot": "talos_legs", "feet": ["left_sole_link", "right_sole_link"]}, "feet: expected one at each corner"),
    ({"weights": 3}, "weights: expected gaits.Weights"),
    ({"solver": "ddp"}, "solver: expected DDP"),
])  # fmt: skip
def test_bad_input_is_named(given, words):
    with pytest.raises(ddp.ProblemError, match=words):
        problems.Walking(**({"robot": "solo12"} | given))


def test_horizons_whose_contacts_change_at_fixed_knots_are_refused():
    robot = load("solo12")
    feet, x0 = [Contact(foot) for foot in ("FL_FOOT", "FR_FOOT")], np.concatenate([robot.q0, np.zeros(robot.nv)])
    for phases, recedes in (([Phase(feet, 5), Phase((), 5)], False), ([Phase(feet, 5), Phase((), 20)], False),
                            ([Phase(feet, 10)], True), ([Phase(feet, 20), Phase((), 5)], True)):  # fmt: skip
        system = PhasedDynamics(robot, 0.01, phases)
        for inner, start in ((system, x0), (augment.rates(system), np.concatenate([x0, np.zeros(system.nu)]))):
            problem = ddp.Problem(inner, [ControlCost(np.zeros(inner.nu), 1.0)], [], start, 10)
            if recedes:
                ddp.RecedingHorizon(problem).close()
                continue
            with pytest.raises(ddp.ProblemError, match=r"problem: expected one whose horizon can recede.* mayne\.W"):
                ddp.RecedingHorizon(problem)
    for freed in (RobotDynamics(robot, 0.01), system):
        start = free_start(ddp.Problem(freed, [ControlCost(np.zeros(12), 1.0)], [], x0, 10))
        with pytest.raises(ddp.ProblemError, match="problem: expected one whose horizon can recede"):
            ddp.RecedingHorizon(start)


def test_bad_plans_are_refused(walking):
    assert repr(walking) == f"Walking('solo12', a cycle of {walking.system.knots} knots of 0.01 s, latency=0.02)"
    walking.restart()
    with pytest.raises(ddp.ProblemError, match="command: expected three numbers, forward and to the left"):
        walking.plan(0.0, walking.x0, (1.0,))
    for command in ((30.0, 0.0, 0.0), (0.0, 0.0, 50.0)):
        with pytest.raises(ddp.ProblemError, match=r"command: expected speeds of up to 3 m/s .* stands for 0\.26 s"):
            walking.plan(0.0, walking.x0, command)
    with pytest.raises(ddp.ProblemError, match="x: "):
        walking.plan(0.0, np.zeros(3))
    walking.plan(0.5, walking.x0)
    with pytest.raises(ddp.ProblemError, match="t: expected a time"):
        walking.plan(1.7e308, walking.x0)
    with pytest.raises(ddp.ProblemError, match="t: expected at least"):
        walking.plan(0.3, walking.x0)


@pytest.mark.parametrize(("given", "words"), [
    ({"planner": 3}, "planner: expected Walking"),
    ({"pushes": [0.3]}, r"pushes: expected a mapping from times to velocities, as \{0.5: 0.3\}"),
    ({"pushes": {0.3: 0.2, 9.0: 0.2}, "duration": 2.0}, "pushes: expected times from 0 to 2 s, got 9"),
    ({"command": {1.0: (0.0, 0.0, 0.0)}}, "command: expected one from time 0 on"),
    ({"every": 0.0}, "every: expected a positive number"),
    ({"rate": 0.1, "duration": 2.0}, r"rate: expected at least 0\.5 Hz, a control in 2 s, got 0\.1"),
    ({"vary": dict}, "vary: expected a function of time for a RecedingHorizon"),
])  # fmt: skip
def test_bad_simulations_are_refused(walking, given, words):
    with pytest.raises(ddp.ProblemError, match=words):
        problems.simulate_receding(**({"planner": walking} | given))


def test_arms_reach_by_plans_made_again_of_late_measurements():
    problem = arm.reach("ur5")
    with ddp.RecedingHorizon(problem, ddp.ILQR(max_iterations=2), latency=0.02) as planner:
        run = problems.simulate_receding(planner, 2.0, every=0.04, mass=1.05)
        for given, words in (
            ({"friction": 0.3}, "friction: expected none, ur5 does not stand on feet"),
            ({"command": (0.1, 0.0, 0.0)}, "command: expected none"),
            ({"command": {0.0: (0.0, 0.0, 0.0), 0.1: (0.0, 0.0, 1.0)}}, "command: expected none"),
            ({"command": lambda t: (t, 0.0, 0.0)}, "command: expected none"),
        ):
            with pytest.raises(ddp.ProblemError, match=words):
                problems.simulate_receding(planner, 0.1, **given)
    assert run.play.rms < 0.05
    slow = np.resize([1.0, 1.0, 1.0, 30.0], len(run.milliseconds) // 4 * 4)
    assert ", 25 % of them longer than the latency of 20 ms" in str(dataclasses.replace(run, milliseconds=slow))
    assert "latency" not in str(dataclasses.replace(run, milliseconds=np.full(8, 20.0)))
    assert "plans" not in str(dataclasses.replace(run, milliseconds=np.zeros(0)))  # one plan alone was made


@pytest.mark.parametrize("delay", [0.005, 0.01])
def test_arms_stay_stable_where_controls_are_late_and_plans_begin_at_every_step(delay):
    plain = arm.reach("ur5", horizon=25, dt=0.02)
    problem = dataclasses.replace(plain, running=[*plain.running, plain.terminal[0]])
    with ddp.RecedingHorizon(problem, ddp.DDP(max_iterations=5), ddp.solve(problem), latency=0.02) as planner:
        run = problems.simulate_receding(planner, 1.5, every=0.02, delay=delay, mass=1.1, noise=0.5)
    end = frame_poses(problem.dynamics.robot, run.play.X[-1, :6], ["tool0"])[0].translation
    assert np.linalg.norm(end - problem.number("terminal[0].target")[:3, 3]) < 0.02


def test_arms_follow_targets_that_move():
    problem, asked = arm.reach("ur5", horizon=25, dt=0.02), []
    pose, robot = problem.number("target"), problem.dynamics.robot

    def moved(t):
        asked.append(t)
        there = pose.copy()
        there[2, 3] += 0.1 * min(t, 1.0)  # [m], up for a second
        return {"target": there}

    with ddp.RecedingHorizon(problem) as planner:
        run = problems.simulate_receding(planner, 3.0, every=0.04, vary=moved)
        with pytest.raises(ddp.ProblemError, match="vary: expected a function that returns a mapping"):
            problems.simulate_receding(planner, 0.1, vary=lambda t: pose)
    np.testing.assert_allclose(np.diff(asked), 0.04, atol=1e-9)
    end = frame_poses(robot, run.play.X[-1, : robot.nq], ["tool0"])[0].translation
    assert abs(end[2] - moved(3.0)["target"][2, 3]) < 0.01
    drawn = build(run)  # beside its plans, with the target of the end
    assert drawn.times[-1] == pytest.approx(3.0, abs=1e-9)
    assert {"the plan", "target of tool0"} <= {entry.label for entry in drawn.legend}


def test_quadrotors_hover_by_plans_made_again():
    problem = quadrotor.loop(waypoints={}, horizon=40)
    with ddp.RecedingHorizon(problem, ddp.ILQR(max_iterations=2), latency=0.02) as planner:
        run = problems.simulate_receding(planner, 2.5, pushes={0.2: (0.5, 0.3, 0.2)})
    assert np.abs(run.play.X[-1, :3]).max() < 0.1
    assert np.abs(run.play.X[:, :3]).max() > 0.1

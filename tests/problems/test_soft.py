"""Soft and hybrid robots by name: systems that are simulated, and problems of reaching."""

import json
from dataclasses import replace

import numpy as np
import pytest
from commands import fails_with, mayne
from rod_oracles import tip
from thorough import cases

import ddp
import problems
from ddp.errors import ProblemError
from dynamics import statics
from dynamics.robots import loop
from problems import soft

REACHES = ("soft/cable-arm", "soft/out-of-reach", "soft/serial")


@pytest.fixture(scope="module")
def systems():
    return {name: soft.system(name) for name in soft.SYSTEMS}


@pytest.mark.parametrize("name", soft.SYSTEMS)
def test_systems_are_complete_and_move(systems, name):
    moving = systems[name]
    assert moving.name == name
    assert moving.description
    assert moving.u(0.3).shape == (moving.dynamics.nu,)
    assert all(moving.robot.has_frame(frame) for frame in moving.frames)
    motion = moving.simulate(5 * moving.dt)
    assert np.isfinite(motion.X).all()
    assert np.abs(motion.X[-1] - motion.X[0]).max() > 1e-6


@pytest.mark.parametrize("name", ["soft/fin-ray", "soft/parallel"])
def test_loops_are_kept_at_every_step(systems, name):
    robot, X = systems[name].robot, systems[name].simulate(0.2).X
    left = [loop.errors(robot.mechanism, robot.loops, x[: robot.nq])[0] for x in X]
    assert np.abs(left).max() < 1e-9
    assert np.abs(X[-1] - X[0]).max() > 1e-3


def test_the_platform_rests_under_any_small_push(systems):
    robot, U = systems["soft/parallel"].robot, np.zeros((16, 15))
    U[:, :6] = np.random.default_rng(0).uniform(-0.5, 0.5, (16, 6)) * [1.0, 1.0, 1.0, 0.1, 0.1, 0.1]
    rest = statics(robot, u=U)
    assert rest.converged.all()
    system = systems["soft/parallel"].dynamics
    x = np.append(rest.q[0], np.zeros(robot.nv))
    np.testing.assert_allclose(system.step(x, U[0]), x, rtol=0, atol=1e-8)
    np.testing.assert_allclose(loop.errors(robot.mechanism, robot.loops, rest.q[0])[0], 0.0, atol=1e-9)


def test_joints_of_the_arm_and_the_slider_move_as_they_are_told(systems):
    for name in ("soft/serial", "soft/fin-ray"):
        moving = systems[name]
        motion = moving.simulate(10 * moving.dt)
        for joint, path in moving.prescribed.items():
            i = moving.robot.tree.iq[moving.robot.joint_names.index(joint)]
            truth = [path(t) for t in motion.t]
            np.testing.assert_allclose(motion.X[:, i], truth, rtol=0, atol=2e-5)


def test_unknown_systems_are_answered_with_the_nearest():
    with pytest.raises(ProblemError, match="did you mean 'soft/cable-arm'"):
        soft.system("soft/cable")


def test_the_command_simulates_and_lists_systems():
    answer = json.loads(mayne("simulate", "soft/cable-arm", "--seconds", 0.1, "--json").stdout)
    assert answer["finished"]
    assert answer["steps"] == 5
    assert len(answer["ends"]["arm/tip"]) == 3
    assert [row["name"] for row in json.loads(mayne("simulate", "--json").stdout)] == list(soft.SYSTEMS)
    fails_with(mayne("simulate", "soft/arm"), 2, "there is none called 'soft/arm'")
    fails_with(mayne("simulate", "soft/cable-arm", "--seconds", 0), 2, "--seconds: expected a positive number")


def sq(x, weights=1.0):
    return 0.5 * float(np.sum(weights * x * x))


TARGETS = {
    "soft/cable-arm": [0.3, 0.1, -0.3], "soft/out-of-reach": [0.5, 0.3, 0.1], "soft/serial": [0.7, 0.4, -1.2]
}  # fmt: skip
RATES = np.repeat([1.0, 10.0], [15, 9])
FINGER = np.repeat([1.0, 10.0], [15, 5])
DEFINITIONS = {
    "soft/cable-arm": (
        lambda q, v, u: sq(u, 1e-4) + sq(v, 1e-4 * RATES),
        lambda p, v: sq(p - TARGETS["soft/cable-arm"], 1e3) + sq(v, 0.1 * RATES),
    ),
    "soft/out-of-reach": (
        lambda q, v, u: sq(u, 1e-4) + sq(v, 1e-4 * RATES),
        lambda p, v: sq(p - TARGETS["soft/out-of-reach"], 3e2) + sq(v, 0.1 * RATES),
    ),
    "soft/serial": (
        lambda q, v, u: (
            sq(u[:3], 1e-4) + sq(u[3:], 1e-3) + sq(q[:7], 0.1) + sq(v[:7], 0.1) + sq(v[7:], 1e-3 * FINGER)
        ),
        lambda p, v: sq(p - TARGETS["soft/serial"], 1e3) + sq(v[:7], 10.0) + sq(v[7:], 0.1 * FINGER),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REACHES)
def test_reaches_cost_what_their_definitions_say(name, rng):
    problem, (running, terminal) = problems.find(name)(), DEFINITIONS[name]
    robot = problem.dynamics.robot
    U = rng.uniform(0.0, 2.0, (problem.horizon, problem.dynamics.nu))
    X = problem.dynamics.rollout(problem.x0, U)
    Q, V = X[:, : robot.nq], X[:, robot.nq :]
    expected = terminal(tip(robot, Q[-1]).translation, V[-1])
    expected += problem.dynamics.dt * sum(running(q, v, u) for q, v, u in zip(Q, V, U, strict=False))
    assert problem.horizon * problem.dynamics.dt == pytest.approx(0.8)
    assert problem.cost(X, U) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("name", REACHES)
def test_both_methods_reach_the_same_minimum_within_the_tensions(solved, name):
    exact, gauss_newton = solved(name, ddp.DDP()), solved(name, ddp.ILQR())
    assert exact.converged
    assert gauss_newton.converged
    assert gauss_newton.cost == pytest.approx(exact.cost, rel=1e-6)
    assert exact.iterations <= (1.0 if name != "soft/out-of-reach" else 0.5) * gauss_newton.iterations
    cables = len(exact.problem.dynamics.robot.tendons)
    assert exact.U[:, :cables].min() >= 0.0
    assert exact.U[:, :cables].max() <= 40.0
    robot = exact.problem.dynamics.robot
    missed = np.linalg.norm(tip(robot, exact.X[-1, : robot.nq]).translation - TARGETS[name])
    assert (missed > 0.1) == (name == "soft/out-of-reach")


OUT_OF_REACH = [(-0.33, -0.55, -0.1), (0.51, 0.05, -0.25), (-0.04, -0.5, -0.27)]
"""Points at 0.57 to 0.65 m from the base of an arm of 0.5 m."""


def test_out_of_reach_in_other_directions_ddp_takes_less_than_half_of_ilqrs_iterations():
    counts = np.zeros(2)
    for point in cases(OUT_OF_REACH, OUT_OF_REACH[2:]):
        problem = problems.find("soft/out-of-reach").build(position=point)
        pair = [ddp.solve(problem, solver) for solver in (ddp.DDP(), ddp.ILQR())]
        assert pair[0].cost <= pair[1].cost * (1.0 + 1e-6)
        counts += [solution.iterations for solution in pair]
    assert counts[0] <= 0.5 * counts[1]


@pytest.mark.parametrize("name", REACHES)
def test_ddp_ends_quadratically(solved, name):
    history = solved(name, ddp.DDP(tolerance=1e-13)).history
    e = [record.expected for record in history if record.hessian != "gauss-newton" and record.step == 1.0][-2:]
    assert e[-2] < 1e-4
    assert e[-1] < 1e-3 * e[-2]


@pytest.mark.parametrize("name", ["soft/cable-arm", "soft/serial"])
def test_first_gain_is_the_sensitivity_of_the_problem_solved_again(solved, name, rng):
    solution = solved(name, ddp.DDP(tolerance=1e-13))
    problem, h = solution.problem, 1e-4  # so small that the controls at their limits stay the same ones
    d = rng.normal(size=problem.dynamics.n)
    d /= np.linalg.norm(d)

    def first_control(t):
        moved = replace(problem, x0=problem.dynamics.integrate(problem.x0, t * d), guess=None)
        return ddp.solve(moved, ddp.DDP(tolerance=1e-14), guess=solution).U[0]

    truth = (8.0 * (first_control(h) - first_control(-h)) - (first_control(2 * h) - first_control(-2 * h))) / (12 * h)
    np.testing.assert_allclose(solution.K[0] @ d, truth, rtol=0, atol=1e-6 * np.abs(truth).max())


@pytest.mark.parametrize("tension", [1e4, -1e3])
def test_wild_tensions_are_no_exception(tension):
    problem = replace(soft.reach(horizon=10), control_limits=None)
    solution = ddp.solve(problem, ddp.DDP(max_iterations=4), guess=np.full((10, 5), tension), throw=False)
    assert not solution.converged
    assert solution.status


def test_a_hundred_wild_starts_end_as_they_say():
    problem, rng = replace(soft.reach(horizon=4), control_limits=None), np.random.default_rng(0)
    for _ in range(cases(100, 30)):
        guess = 10.0 ** rng.uniform(0.0, 4.0) * rng.normal(size=(4, 5))
        solution = ddp.solve(problem, ddp.DDP(max_iterations=2), guess=guess, throw=False)
        assert solution.status
        if np.isfinite(solution.cost):
            assert problem.cost(solution.X, solution.U) == pytest.approx(solution.cost, rel=1e-9)
        else:
            assert not solution.converged


def test_tensions_that_are_no_numbers_are_refused():
    with pytest.raises(ProblemError, match="guess"):
        ddp.solve(soft.reach(horizon=10), guess=np.full((10, 5), np.nan))

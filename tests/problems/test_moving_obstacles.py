"""Obstacles and targets of constraints that move: twins of a problem beside the problem made anew."""

from dataclasses import replace

import numpy as np
import pytest

import ddp
from problems import arm
from problems.constraints import FramePoseEquality, FramePositionEquality, StateEquality
from problems.obstacles import Capsule, CapsuleClearance, Sphere, SphereClearance

RADII = np.array([0.08, 0.07, 0.09])


def bodies(places, radii=RADII):
    """Two spheres and a capsule on the way of the arm, from their places (3, 3)."""
    along = np.array([0.0, 0.0, 0.05])
    return [*map(Sphere, places[:2], radii[:2]), Capsule(places[2] - along, places[2] + along, radii[2])]


def among(obstacles, soft=False):
    """An arm on its way past obstacles, to which tool and forearm keep a distance."""
    plain = arm.obstacles("ur5", horizon=30, dt=0.033)
    robot, keep = plain.dynamics.robot, (lambda one: ddp.Soft(one, 1e3)) if soft else (lambda one: one)
    clear = [
        keep(SphereClearance(robot, "tool0", 0.04, obstacles)),
        keep(CapsuleClearance(robot, ("forearm_link", "wrist_1_link"), 0.04, obstacles)),
    ]
    return replace(plain, constraints=[*clear, plain.constraints[3]], terminal_constraints=clear)


@pytest.fixture(scope="module")
def places():
    return np.array([one.center for one in arm.obstacles("ur5").constraints[0].obstacles])


def same(a, b):
    alike = [np.array_equal(getattr(a, name), getattr(b, name)) for name in ("X", "U", "K", "multipliers")]
    return all(alike) and (a.cost, a.iterations, str(a.status)) == (b.cost, b.iterations, str(b.status))


@pytest.mark.parametrize("soft", [False, True])
def test_a_twin_whose_obstacles_have_moved_is_the_problem_made_anew(places, soft):
    moved, radii = places + np.array([0.01, -0.02, 0.015]), RADII + 0.01
    problem, anew = among(bodies(places), soft), among(bodies(moved, radii), soft)
    twin = problem.varying(centers=moved, radii=radii)
    found = ddp.solve(twin)
    assert found.converged
    assert not np.array_equal(found.X, ddp.solve(problem).X)
    assert same(found, ddp.solve(anew))
    ends = {name: anew.number(f"constraints[1].{name}") for name in ("starts", "ends")}
    assert same(found, ddp.solve(problem.varying(ends, radii=radii)))
    marks = [one.center for one in (twin.constraints[0].constraint if soft else twin.constraints[0]).obstacles]
    np.testing.assert_allclose(marks, moved, atol=1e-15)


def test_limits_that_change_before_or_after_obstacles_move_count(places):
    problem, limits, moved = among(bodies(places)), (-60.0, 60.0), places + 0.01
    anew = ddp.solve(replace(among(bodies(moved)), control_limits=limits))
    assert same(ddp.solve(problem.varying(centers=moved).varying(control_limits=limits)), anew)
    assert same(ddp.solve(problem.varying(control_limits=limits).varying(centers=moved)), anew)


def test_a_receding_horizon_past_obstacles_that_move_takes_the_steps_of_one_made_anew(places):
    problem = among(bodies(places))
    x = problem.x0
    with ddp.RecedingHorizon(problem) as controller, ddp.RecedingHorizon(problem) as other:
        for k in range(6):
            moved = places + 0.004 * k * np.eye(3)[1]
            controller.vary(centers=moved)
            other.problem = among(bodies(moved))
            solution = controller.solve(x)
            assert same(solution, other.solve(x))
            x = problem.dynamics.step(x, solution.U[0])


def test_many_solves_vary_places_of_obstacles(places):
    problem, moved = among(bodies(places)), places + 0.01 * np.arange(3)[:, None, None]
    many = ddp.solve_many(problem, {"centers": moved, "radii": np.tile(RADII, (3, 1))})
    for i in range(3):
        alone = ddp.solve(among(bodies(moved[i])))
        assert many.cost[i] == pytest.approx(alone.cost, rel=1e-8)


def test_the_least_cost_changes_by_places_and_radii_as_solves_say(places):
    problem, step = among(bodies(places)), 1e-5
    best = ddp.solve(problem, ddp.DDP(tolerance=1e-10))
    by = best.sensitivity("centers", "radii")
    assert np.abs(by.cost).max() > 0.1
    for name in ("centers", "radii"):
        own, numbers = by.cost[by.columns[name]], problem.number(name)
        at = int(np.argmax(np.abs(own)))
        change = np.zeros(numbers.size)
        change[at] = step
        costs = [
            ddp.solve(problem.varying({name: numbers + way * change.reshape(numbers.shape)}), guess=best).cost
            for way in (1.0, -1.0)
        ]
        assert (costs[0] - costs[1]) / (2.0 * step) == pytest.approx(own[at], rel=1e-4)


@pytest.mark.parametrize(("numbers", "words"), [
    ({"radii": [0.1, 0.0, 0.1]}, r"constraints\[0\] \(SphereClearance\): radii: expected positive numbers, got \[0.1"),
    ({"centers": np.zeros((2, 3))}, r"centers: expected shape \(3, 3\), got \(2, 3\)"),
    ({"centers": np.full((3, 3), np.nan)}, "centers: expected finite numbers"),
    ({"centers": np.zeros((3, 3)), "starts": np.zeros((3, 3))}, "centers: expected them, or starts and ends, got both"),
    ({"centres": np.zeros((3, 3))}, "no number 'centres'; did you mean 'centers'"),
])  # fmt: skip
def test_mistakes_about_moving_obstacles_are_named(places, numbers, words):
    with pytest.raises(ddp.ProblemError, match=words):
        among(bodies(places)).varying(numbers)


def test_an_obstacle_that_moves_in_one_of_two_places_is_a_problem_made_anew(places):
    problem, moved = among(bodies(places)), places + 0.01
    twin = problem.varying({"constraints[0].centers": moved})
    here, there = (one[0].obstacles for one in (twin.constraints, twin.terminal_constraints))
    assert np.array_equal(here[0].center, moved[0])
    assert np.array_equal(there[0].center, places[0])
    assert twin.multiplier_count > problem.multiplier_count  # the moved one holds at the end, too


def test_targets_of_constraints_move_to_the_same_bits(places):
    plain = arm.reach("ur5", horizon=20, dt=0.05)
    robot, pose, rest = plain.dynamics.robot, plain.number("terminal[0].target"), plain.x0 + np.repeat([0.1, 0.0], 6)
    other = pose.copy()
    other[:3, 3] += 0.03
    makes = [
        ("target_xyz", pose[:3, 3], other[:3, 3], lambda at: FramePositionEquality(robot, "tool0", at)),
        ("target", pose, other, lambda at: FramePoseEquality(robot, "tool0", at)),
        ("target_x", rest, rest + np.repeat([0.05, 0.0], 6), lambda at: StateEquality(plain.dynamics, at)),
    ]
    for name, first, then, make in makes:
        at_first, anew = (replace(plain, terminal=[], terminal_constraints=[make(at)]) for at in (first, then))
        assert same(ddp.solve(at_first.varying({f"terminal_constraints[0].{name}": then})), ddp.solve(anew))


@pytest.mark.parametrize("solver", [ddp.ILQR(), ddp.Newton()])
def test_constraints_in_the_cost_move_with_it(places, solver):
    plain = arm.obstacles("ur5", horizon=12, dt=0.05)
    problem = replace(plain, constraints=[SphereClearance(plain.dynamics.robot, "tool0", 0.04, bodies(places))])
    moved = places + np.array([0.05, -0.08, 0.05])
    with ddp.RecedingHorizon(problem, solver) as controller:
        first = controller.solve(problem.x0)
        controller.vary(centers=moved)
        later = controller.solve(problem.x0)
    with ddp.RecedingHorizon(problem.varying(centers=moved), solver, guess=first) as other:
        again = other.solve(problem.x0)
    assert later.converged
    assert later.violation < 1e-4
    assert later.cost == pytest.approx(again.cost, rel=1e-6)

"""Attempts of a solve where the first one fails, or converges far from its target: arms whose way a ball bars."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from thorough import cases

import ddp
from ddp import DDP, Problem
from ddp.solver import is_far
from dynamics import FunctionDynamics, RobotDynamics, load
from problems import cartpole
from problems.constraints import FramePositionEquality, JointLimits, StateEquality, VelocityLimits
from problems.costs import ControlCost, FramePosition, StateCost
from problems.obstacles import CapsuleClearance, Sphere, SphereClearance

LENGTHS, MASSES = (0.5, 0.4, 0.3), (2.0, 1.5, 1.0)


def arm(folder, joints):
    """A robot of planar links that turn about y, the last one ending in the frame "tip"."""
    text, parent, before = '<link name="world"/>', "world", 0.0
    for i, (length, mass) in enumerate(zip(LENGTHS[:joints], MASSES, strict=False)):
        moment, name = mass * length**2 / 12.0, f"l{i + 1}"
        text += (
            f'<joint name="j{i + 1}" type="revolute"><parent link="{parent}"/><child link="{name}"/>'
            f'<origin xyz="{before} 0 0"/><axis xyz="0 1 0"/>'
            f'<limit lower="-2.5" upper="2.5" effort="{(25, 15, 6)[i]}" velocity="4"/></joint>'
            f'<link name="{name}"><inertial><origin xyz="{length / 2} 0 0"/><mass value="{mass}"/>'
            f'<inertia ixx="0.001" iyy="{moment}" izz="{moment}" ixy="0" ixz="0" iyz="0"/></inertial></link>'
        )
        parent, before = name, length
    origin = f'<parent link="{parent}"/><child link="tip"/><origin xyz="{before} 0 0"/>'
    text += f'<joint name="end" type="fixed">{origin}</joint><link name="tip"/>'
    path = folder / f"planar{joints}.urdf"
    path.write_text(f'<robot name="planar{joints}">{text}</robot>')
    return load(str(path))


def reach(robot, q0, target, balls, radii, limited):
    """Reach a target and rest there, tip and last link clear of balls."""
    nv = robot.nv
    system, x0 = RobotDynamics(robot, 0.02), np.concatenate([q0, np.zeros(nv)])
    clear = [
        SphereClearance(robot, "tip", radii[0], balls),
        CapsuleClearance(robot, (f"l{nv}", "tip"), radii[1], balls),
    ] if balls else []  # fmt: skip
    return Problem(
        system,
        [ControlCost(system.nominal_control(x0), np.full(nv, 1e-3)), StateCost(system, x0, np.full(2 * nv, 0.1))],
        [FramePosition(robot, "tip", target, 1000.0), StateCost(system, x0, np.repeat([0.0, 10.0], nv))],
        x0, 75,
        control_limits=robot.control_limits.T if limited else None,
        constraints=[JointLimits(robot), *([VelocityLimits(robot)] if limited else []), *clear],
    )  # fmt: skip


@cache
def fails_first(folder):
    """Three weak joints: motion without the ball goes through it, from where constraints are not met; and that one."""
    robot = arm(folder, 3)
    where, target = [Sphere([0.75, 0.0, 0.25], 0.1)], [0.5, 0.0, 0.6]
    return [reach(robot, np.zeros(3), target, balls, (0.05, 0.03), True) for balls in (where, [])]


@cache
def ends_far(folder):
    """Two joints: motion without the ball leads to its wrong side, where a minimum is that rests against it."""
    robot = arm(folder, 2)
    return reach(robot, [0.23, 0.59], [-0.462, 0.0, -0.280], [Sphere([-0.1, 0.0, -0.68], 0.11)], (0.03, 0.03), False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("arms")


def test_a_solve_that_fails_on_the_way_of_rollouts_begins_anew_from_its_guess(folder):
    problem, _ = fails_first(folder)
    found, linear = ddp.solve(problem), ddp.solve(problem, DDP(step="linear"))
    assert found.cost <= (1.0 + 1e-6) * linear.cost < 0.5
    assert found.iterations == len(found.history)


def test_constraints_do_not_give_way_after_rollouts_where_other_attempts_follow(folder):
    problem, _ = fails_first(folder)
    alone, linear = ddp.RecedingHorizon(problem).solve(problem.x0), ddp.solve(problem, DDP(step="linear"))
    assert ddp.solve(problem).iterations < alone.iterations + linear.iterations


def test_states_that_are_given_and_lead_nowhere_are_left_for_the_default_guess(folder):
    """An end that has to be met lets no rollouts lead from these states, which pass through three balls."""
    robot = arm(folder, 3)
    target, found = [0.29, 0.0, 0.67], None
    balls = [Sphere([0.678, 0.0, 0.598], 0.116), Sphere([0.718, 0.0, 0.463], 0.082), Sphere([1.052, 0.0, 0.229], 0.112)]
    for obstacles in ([], balls):
        problem = reach(robot, np.zeros(3), target, obstacles, (0.0223, 0.0223), False)
        end = [FramePositionEquality(robot, "tip", target)]
        problem = replace(problem, terminal=problem.terminal[1:], terminal_constraints=end)
        found = ddp.solve(problem, guess=None if found is None else (found.X, found.U))
    assert found.cost < 0.4


def test_a_guess_through_an_obstacle_is_left_for_the_default_one(folder):
    problem, free = fails_first(folder)
    motion = ddp.solve(free)
    found = ddp.solve(problem, guess=(motion.X, motion.U))
    assert found.converged
    assert found.cost < 0.5


def test_a_minimum_far_from_its_target_is_left_for_a_cheaper_one(folder):
    """The first attempt alone, as a receding horizon makes it, ends there; all iterations of a solve count."""
    problem = ends_far(folder)
    first, found = ddp.RecedingHorizon(problem).solve(problem.x0), ddp.solve(problem)
    assert first.converged
    assert is_far(first, problem)
    assert not is_far(found, problem)
    assert found.converged
    assert found.cost < 0.01 * first.cost
    assert found.iterations == len(found.history) > first.iterations
    assert found.status == f"converged after {found.iterations} iterations"


def test_a_minimum_that_no_other_attempt_betters_is_kept(folder):
    """A ball about the target bars every way; the limit of iterations holds for all attempts together."""
    problem = ends_far(folder)
    target = Sphere(problem.terminal[0].target_xyz, 0.15)
    barred = reach(problem.dynamics.robot, problem.x0[:2], target.start, [target], (0.03, 0.03), False)
    first, found = ddp.RecedingHorizon(barred).solve(barred.x0), ddp.solve(barred)
    assert is_far(found, barred)
    assert found.converged
    assert found.cost <= first.cost
    assert found.iterations == len(found.history) > first.iterations
    limited = ddp.solve(barred, DDP(max_iterations=first.iterations + 2))
    assert limited.converged
    assert limited.iterations == first.iterations + 2
    assert np.array_equal(limited.U, first.U)


def car(*goal):
    """A car that parks by effort and a missed goal, its steering within bounds that rollouts do not know of."""

    def drive(x, u):
        return x + 0.05 * np.array([x[3] * np.cos(x[2]), x[3] * np.sin(x[2]), x[3] * np.tan(u[0]), u[1]])

    steering = ddp.Inequality(lambda x, u: np.array([u[0] - 0.5, -u[0] - 0.5]))
    running, terminal = (lambda x, u: 0.01 * (u @ u)), (lambda x, u: 10.0 * ((x - np.array(goal)) ** 2).sum())
    system = FunctionDynamics(drive, nx=4, nu=2, dt=0.05)
    return Problem(system, [running], [terminal], [0.0, 0.0, 0.0, 0.5], 40, constraints=[steering])


def test_no_attempt_repeats_the_one_before_to_the_last_bit():
    """Rollouts, all of them short, lead back to the guess; the attempt from there ends far from its goal."""
    found = ddp.solve(car(0.6, -0.9, -0.1, 0.0))
    costs = [record.cost for record in found.history if record.full_space]
    assert found.converged
    assert len(set(costs)) == len(costs)


def test_other_motions_are_tried_around_the_minimum_found_after_a_failure():
    """Around where the first attempt failed they lead nowhere, and a minimum of 13.09 is kept."""
    found = ddp.solve(car(0.5, -1.0, -1.7, 0.0))
    assert found.converged
    assert found.cost < 1.08


@pytest.mark.parametrize("processes", cases([1, 2], [1]))
def test_many_solves_make_the_same_attempts_as_one(folder, processes):
    problem = ends_far(folder)
    states = problem.x0 + np.array([[0.0, 0.0, 0.0, 0.0], [0.01, 0.0, 0.0, 0.0], [-0.5, 0.3, 0.0, 0.0]])
    many = ddp.solve_many(problem, {"x0": states}, executor=processes)
    for i, state in enumerate(states):
        one = ddp.solve(problem.starting_at(state), throw=False)
        assert np.array_equal(many.U[i], one.U)
        assert many.cost[i] == one.cost
        assert many.iterations[i] == one.iterations


def test_solves_from_solutions_are_attempted_once(folder):
    """Also where they end far from targets: receding horizons make a single attempt, too."""
    problem = ends_far(folder)
    far = ddp.RecedingHorizon(problem).solve(problem.x0)
    again = ddp.solve(problem, guess=far)
    assert is_far(again, problem)
    assert again.iterations < 5


def past_a_pole():
    """A mass moves 3 m past a pole to the right of the straight line: to pass on its left is cheaper."""
    system = FunctionDynamics(lambda x, u: x + 0.1 * np.array([x[2], x[3], u[0], u[1]]), 4, 2, 0.1)
    goal = StateCost(system, np.array([3.0, 0.0, 0.0, 0.0]), np.full(4, 100.0))
    clear = ddp.Inequality(lambda x, u: (x[0] - 1.5) ** 2 + (x[1] + 0.1) ** 2, lower=0.25)
    effort = ControlCost(np.zeros(2), np.full(2, 0.1))
    return ddp.Problem(system, [effort], [goal], np.zeros(4), 40, constraints=[clear])


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_the_way_of_states_that_meet_the_constraints_is_kept(side, tmp_path):
    problem, share = past_a_pole(), np.linspace(0.0, 1.0, 41)
    X = np.stack([3.0 * share, side * np.sin(np.pi * share), 0.0 * share, 0.0 * share], axis=1)
    found = ddp.solve(problem, guess=(X, np.zeros((40, 2))))
    assert found.violation <= 1e-8
    assert side * found.X[20, 1] > 0.3
    again = ddp.solve(problem, guess=(X, np.zeros((40, 2))), checkpoint=tmp_path / "kept.npz")
    np.testing.assert_array_equal(again.X, found.X)


def test_other_motions_are_not_tried_once_one_has_ended_at_the_violations_of_another():
    rail, swing = ddp.Inequality(lambda x, u: x[0], lower=-0.3, upper=0.3), cartpole.swing_up(1.0, 0.5, 0.6, horizon=80)
    up = StateEquality(swing.dynamics, np.array([0.0, np.pi, 0.0, 0.0]))
    fields = {"terminal": [], "constraints": [rail], "terminal_constraints": [up], "control_limits": (-20.0, 20.0)}
    solution = ddp.solve(replace(swing, **fields), throw=False)
    assert solution.status.ending is ddp.Ending.UNMET
    assert solution.iterations < 220

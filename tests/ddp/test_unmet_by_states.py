"""Verdicts that no state meets a knot's constraints, where full-space steps have failed."""

import numpy as np
import pytest

import ddp
from ddp.constraints.impossible import unmet_by_states
from ddp.constraints.unreachable import contradicting
from dynamics import FunctionDynamics, RobotDynamics, frame_placement, load
from dynamics.geometry.solids import Sphere
from problems.constraints import FramePositionEquality
from problems.costs import ControlCost, FramePosition, StateCost
from problems.obstacles import SphereClearance

TOOL, N, H = "tool0", 8, 0.1


@pytest.fixture(scope="module")
def arm():
    """A problem of an arm whose tool has to end at a place (3,), asked for by a cost as well where ``aimed``."""
    robot = load("ur5")
    system, rest = RobotDynamics(robot, dt=0.02), np.concatenate([robot.q0, np.zeros(robot.nv)])
    running = [ControlCost(system.nominal_control(rest), np.full(6, 1e-3)), StateCost(system, rest, np.full(12, 0.1))]

    def made(place, aimed, constraints=()):
        terminal = [StateCost(system, rest, np.repeat([0.0, 10.0], 6))]
        terminal += [FramePosition(robot, TOOL, place, 1000.0)] if aimed else []
        return ddp.Problem(
            system, running, terminal, rest, 30, control_limits=robot.control_limits.T, constraints=list(constraints),
            terminal_constraints=[FramePositionEquality(robot, TOOL, place)],
        )  # fmt: skip

    return robot, made


@pytest.mark.parametrize("aimed", [False, True])
@pytest.mark.parametrize("way", [(-0.2, 0.2, 0.2), (-0.3, -0.3, 0.2), (0.0, 0.4, -0.2)])
def test_ends_inside_of_obstacles_are_told_before_other_attempts_are_made(arm, aimed, way):
    """All attempts take 41 to 834 iterations, and two of six prove nothing."""
    robot, made = arm
    place = frame_placement(robot, robot.q0, TOOL)[:3, 3] + way
    clear = SphereClearance(robot, TOOL, 0.05, [Sphere(place, 0.08)])
    solution = ddp.solve(made(place, aimed, [clear]), throw=False)
    assert solution.status.ending is ddp.Ending.INFEASIBLE
    assert solution.iterations <= 40
    both = "no state meets constraints[0] (SphereClearance) and terminal_constraints[0] (FramePositionEquality)"
    assert f"{both} at knot 30 together" in solution.status
    assert str(solution).count("130 mm nearer to an obstacle than SphereClearance allows") == 1


def test_places_out_of_reach_are_told_so_without_advice_about_limits_of_controls(arm):
    _, made = arm
    solution = ddp.solve(made([2.0, 0.0, 0.0], False), throw=False)
    assert solution.status.ending is ddp.Ending.INFEASIBLE
    assert "no state meets terminal_constraints[0] (FramePositionEquality) at knot 30" in solution.status
    assert "limits of control" not in solution.status
    assert "further than it can reach" in str(solution)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_only_constraints_that_some_state_meets_are_left_open(unit, rng):
    """Random places of a unicycle, which has to end outside of a ball that holds them or does not."""
    system = FunctionDynamics(lambda x, u: x + H * np.array([u[0] * np.cos(x[2]), u[0] * np.sin(x[2]), u[1]]), 3, 2)
    for _ in range(6):
        place, U = rng.normal(size=2), rng.normal(size=(N, 2))
        away = rng.uniform(0.3, 1.0) * np.array([0.6, 0.8])
        for radius in np.linalg.norm(away) * np.array([0.9, 1.1]):
            middle = place - away
            problem = ddp.Problem(
                system, [ControlCost(np.zeros(2), np.ones(2))], [], np.zeros(3), N,
                terminal_constraints=[
                    ddp.Equality(lambda x, u, place=place: unit * (x[:2] - place)),
                    ddp.Inequality(lambda x, u, at=middle: (x[:2] - at) @ (x[:2] - at), lower=radius**2),
                ],
            )  # fmt: skip
            X = system.rollout(problem.x0, U)
            told = unmet_by_states(problem, X, U, np.array([1.0 / unit, 1.0 / unit, 1.0]))
            assert (told is not None) == bool(radius > np.linalg.norm(away))


def test_minima_without_slopes_prove_nothing():
    """A row that no state meets, with a derivative that is no number where it is missed least."""
    nan = ddp.Equality(lambda x, u: np.array([1.0 + x[0] ** 2]), jacobian=lambda x, u: np.full((1, 2), np.nan))
    system = FunctionDynamics(lambda x, u: x + H * u, 1, 1)
    problem = ddp.Problem(system, [ControlCost(np.zeros(1), np.ones(1))], [], [0.3], N, terminal_constraints=[nan])
    assert contradicting(problem, N, np.zeros((3, 1)), np.zeros((3, 1))) == []

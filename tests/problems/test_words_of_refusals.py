"""Wrong calls that everybody makes once are told what was meant, not only what shape was expected."""

import numpy as np
import pinocchio as pin
import pytest

import ddp
from ddp.errors import ProblemError
from dynamics import load
from problems import arm, simulate
from problems.constraints import TorqueLimits
from problems.costs import ControlCost, FramePose, FramePosition, StateCost


@pytest.fixture(scope="module")
def problem():
    return arm.reach("ur5", horizon=3)


@pytest.mark.parametrize("positions", [lambda q: q, list, tuple], ids=["array", "list", "tuple"])
def test_positions_in_place_of_a_state_are_told_what_a_state_is(problem, positions):
    system = problem.dynamics
    q = positions(system.robot.q0)
    words = r"expected shape \(12,\), got \(6,\), which has positions alone: a state is \(q, v\), (np\..*) at rest"
    with pytest.raises(ProblemError, match=f"^x0: {words}") as said:
        ddp.Problem(system, [], [], q, 3)
    with pytest.raises(ProblemError, match=f"^target_x: {words}"):
        StateCost(system, q, np.ones(12))
    made = str(said.value).split("(q, v), ")[1].removesuffix(" at rest")
    assert ddp.Problem(system, [], [], eval(made, {"np": np, "q": q}), 3).x0.shape == (12,)


def test_poses_and_places_in_place_of_each_other_are_told_apart(problem):
    robot = problem.dynamics.robot
    with pytest.raises(ProblemError, match=r"target: expected .* got \(3,\): a pose is a pin\.SE3 or its matrix"):
        FramePose(robot, "tool0", [0.1, 0.2, 0.3], np.ones(6))
    with pytest.raises(ProblemError, match=r"got \(7,\): a pose is .*, pin\.XYZQUATToSE3 makes one"):
        FramePose(robot, "tool0", [0.1, 0.2, 0.3, 0.0, 0.0, 0.0, 1.0], np.ones(6))
    with pytest.raises(ProblemError, match=r"target_xyz: .* that is a pose, its \.translation is a place"):
        FramePosition(robot, "tool0", pin.SE3.Identity(), 1.0)


def test_robots_and_problems_in_place_of_systems_are_told_what_is_one(problem):
    with pytest.raises(ProblemError, match=r"dynamics: .* got Robot; of a robot, RobotDynamics\(robot, dt\) is one"):
        ddp.Problem(load("ur5"), [], [], np.zeros(12), 3)
    with pytest.raises(ProblemError, match="dynamics: expected RobotDynamics or PhasedDynamics, got Problem"):
        TorqueLimits(problem)
    with pytest.raises(ProblemError, match=r"control_limits: expected a pair \(lower, upper\), got 87\.0"):
        ddp.Problem(problem.dynamics, [ControlCost(np.zeros(6), np.ones(6))], [], np.zeros(12), 3, control_limits=87.0)


def test_policies_of_other_arguments_and_pushes_of_other_lengths_are_told_what_they_are(problem):
    solution = ddp.solve(problem, ddp.DDP(max_iterations=1), throw=False)
    with pytest.raises(ProblemError, match=r"policy: expected a function of t and x, got one of \(x\)"):
        simulate(solution, policy=lambda x: x[:6])
    with pytest.raises(ProblemError, match=r"^policy: raised ValueError: The truth value .* at t = 0 s$"):
        simulate(solution, policy=max)
    with pytest.raises(ProblemError, match=r"^policy: raised KeyError: 'gain'.* at t = 0 s$"):
        simulate(solution, policy=lambda t, x: {}["gain"])
    assert simulate(solution, policy=lambda t, x, gain=1.0: gain * x[:6]).t[-1] > 0.0
    with pytest.raises(ProblemError, match=r"push: .* to the left, or forward and to the left, or upwards as well"):
        simulate(solution, push=[1.0, 0.0, 0.0, 0.0])

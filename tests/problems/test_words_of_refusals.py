"""Wrong calls that everybody makes once are told what was meant, not only what shape was expected."""

from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest

import ddp
from ddp.compiling import kernel
from ddp.errors import ModelError, ProblemError
from dynamics import FunctionDynamics, inverse_dynamics, load
from problems import arm, simulate
from problems.constraints import JointLimits, TorqueLimits
from problems.costs import ControlCost, FramePose, FramePosition, StateCost
from problems.play.simulation import pushed


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


def pose(problem_with, target, weights=1.0):
    """A cost of a ur5's pose."""
    return FramePose(problem_with().dynamics.robot, "tool0", target, weights)


@pytest.mark.parametrize(("call", "words"), [
    (lambda p: p(control_limits=[150.0] * 6), r"control_limits: .* to either side, it is \(-np\.asarray\(row\), row"),
    (lambda p: pose(p, [0.1] * 6), r"target: .* pin\.SE3\(pin\.rpy\.rpyToMatrix\("),
    (lambda p: pose(p, [0.1] * 7), "target: .* quaternion in the order x, y, z, w$"),
    (lambda p: pose(p, (np.zeros(3), np.eye(3))), r"target: .* got two: pin\.SE3\(rotation, p"),
    (lambda p: pose(p, np.eye(4), [1.0] * 3), r"weights: .*, three linear and three ang"),
    (lambda p: FramePosition(p().dynamics.robot, "tool0", [[0.1]] * 3, 1.0), r"target_xyz: .*: np\.ravel of it is"),
    (lambda p: FramePosition(p().dynamics, "tool0", [0.1] * 3, 1.0), r"robot: .* RobotDynamics, which has a \.robot$"),
    (lambda p: FramePosition(p().dynamics.robot, "tool0", [0.1] * 3, [[1.0]] * 2), "weight: expected .*2, 1\\)$"),
    (lambda p: p(horizon=0.65), r"horizon: expected a whole number of steps, .*; 0\.65 s are 65 steps of 0\.01 s$"),
    (lambda p: p(horizon=30.0), r"horizon: expected a whole number of steps, at least 1, got 30\.0$"),
    (lambda p: p(at={0.5: []}), r"at: .* got 0\.5; a knot is a whole number of steps, no time \[s\]$"),
    (lambda p: ControlCost(0.0, 1.0), r"target_u: expected a row of numbers, one for each control, .*, got 0\.0$"),
    (lambda p: StateCost(p().dynamics, p().x0, np.ones(6)), r"weights: expected shape \(12,\), positions before veloc"),
    (lambda p: p(running=[lambda x: x @ x]), r"running\[0\] .*: expected a function of x and u .*, got one of \(x\)"),
    (lambda p: p(terminal_constraints=[ddp.Equality(lambda x: x)]), r"c: expected a function .*, got one of \(x\)"),
    (lambda p: p(guess=np.zeros((6, 3))), r"guess: expected shape \(3, 6\), got \(6, 3\): transpose it"),
    (lambda p: p(guess=(np.zeros((3, 6)), np.zeros((4, 12)))), r"guess: expected \(X, U\), states before controls"),
    (lambda p: simulate(p()), r"solution: expected a Solution, which solve\(problem\) returns, got Problem"),
])  # fmt: skip
def test_what_a_robots_engineer_guesses_is_told_what_was_meant_before_anything_is_compiled(problem, call, words):
    compiled = []
    with kernel.compilations(compiled.append), pytest.raises(ProblemError, match=words):
        call(lambda **changes: replace(problem, **changes))
    assert not compiled


class Slow:
    """A cost term whose kernels take minutes to compile."""

    def values(self, X, U):
        raise AssertionError("it was evaluated")

    def expand(self, X, U, weight, exact, l, lz, lzz):
        raise AssertionError("it was expanded")

    @property
    def compiled(self):
        raise AssertionError("its kernels were asked for")


@pytest.mark.parametrize(("changes", "words"), [
    ({"running": [Slow(), ControlCost(np.zeros(7), 1.0)]}, r"running\[1\] \(ControlCost\): made for 7 controls"),
    ({"running": [Slow(), lambda x: x @ x]}, r"running\[1\] \(<lambda>\): value: expected a function of x and u"),
    ({"terminal": [Slow(), 3]}, r"terminal\[1\]: expected a cost term"),
    ({"terminal": [Slow()], "constraints": [lambda x, u: x]}, r"constraints\[0\] \(function\): expected a constr"),
    ({"terminal": [Slow()], "constraints": [JointLimits(load("panda"))]}, r"constraints\[0\] .* have 12 num.* for 18"),
    ({"terminal": [Slow()], "constraints": [JointLimits]}, r"constraints\[0\] .*: expected a constraint, .* the cl"),
    ({"terminal": [Slow()], "constraints_at": {2: [ddp.Equality(lambda x: x)]}}, r"constraints_at\[2\]\[0\] \(Eq"),
    ({"terminal": [Slow()], "terminal_constraints": [ddp.Soft(3, 1.0)]}, r"terminal_constraints\[0\] \(Soft int\)"),
    ({"terminal": [Slow()], "terminal_constraints": [ddp.Equality(lambda x, u: u[:2])]}, "got one that depends on it"),
    ({"terminal": [Slow()], "guess": np.zeros((3, 7))}, r"guess: expected shape \(3, 6\)"),
])  # fmt: skip
def test_mistakes_are_told_before_terms_that_are_right_compile(problem, changes, words):
    with pytest.raises(ProblemError, match=words):
        replace(problem, **changes)
    with pytest.raises(ProblemError, match="its kernels were asked for"):
        replace(problem, running=[Slow()])


def test_a_state_in_place_of_a_configuration_is_told_apart(problem):
    robot, x = problem.dynamics.robot, problem.x0
    with pytest.raises(ProblemError, match=r"q: .* got \(12,\), which is a state \(q, v\), of which the first 6 num"):
        inverse_dynamics(robot, x, np.zeros(6), np.zeros(6))
    with pytest.raises(ProblemError, match=r"q: .* got \(11,\)$"):
        inverse_dynamics(robot, x[:11], np.zeros(6), np.zeros(6))


def test_a_step_of_other_arguments_is_told_what_it_takes():
    with pytest.raises(ModelError, match=r"f: expected a function of x and u, got one of \(x\)"):
        FunctionDynamics(lambda x: x, 2, 1)
    assert FunctionDynamics(lambda x, u, gain=1.0: x + gain * u, 1, 1).nx == 1


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
        pushed([1.0, 0.0, 0.0, 0.0], load("go2"))
    with pytest.raises(ProblemError, match=r"push: expected 6 velocities, of all joints .* got \[1. 0. 0. 0.\]"):
        simulate(solution, push=[1.0, 0.0, 0.0, 0.0])

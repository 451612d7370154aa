"""Every cost term: in batches, pickled, immutable, and its mistakes named."""

from __future__ import annotations

import pickle

import numpy as np
import pinocchio as pin
import pytest
from oracles import chain_of

import ddp
from ddp.costs.batch import BatchTerm, ability
from ddp.errors import ProblemError
from ddp.problem import Problem
from dynamics import FunctionDynamics, augment
from dynamics.steps.robot_dynamics import RobotDynamics
from problems.constraints import FramePoseEquality, StateEquality
from problems.costs import (
    CenterOfMass,
    ControlCost,
    ControlLimits,
    Energy,
    FramePose,
    FramePosition,
    FrameVelocity,
    GravityTorqueCost,
    JointLimits,
    Momentum,
    Quadratic,
    StateCost,
)
from problems.lifted import LiftedTerm, lifted
from tests.problems.conftest import random_state


def every_term(robot, rng):
    """One of each kind on a robot, for the frame of its last body."""
    system = RobotDynamics(robot, 0.01)
    frame, x = robot.model.frames[-1].name, random_state(robot, rng)
    return [
        StateCost(system, x, rng.uniform(size=system.n)),
        ControlCost(np.zeros(system.nu), rng.uniform(size=system.nu)),
        ControlLimits(np.full(system.nu, -0.5), np.full(system.nu, 0.4), rng.uniform(size=system.nu)),
        JointLimits(robot, 1.0),
        CenterOfMass(robot, np.zeros(3), 1.0),
        FramePose(robot, frame, pin.SE3.Identity(), np.ones(6)),
        FramePosition(robot, frame, np.zeros(3), 1.0),
        FrameVelocity(robot, frame, np.zeros(6), np.ones(6), "world"),
        Energy(robot, 1.0, 1.0),
        Momentum(robot, np.zeros(6), np.ones(6)),
    ]


def test_numbers_of_terms_cannot_be_written_on(robots, rng):
    for term in every_term(robots["ur5"], rng):
        for name, value in vars(term).items():
            if name[0] != "_" and isinstance(value, np.ndarray):
                with pytest.raises(ValueError, match="read-only"):
                    value[:] = 0.0


@pytest.mark.parametrize("term", [FramePose, FramePoseEquality])
def test_targets_of_poses_are_copies(robots, term):
    given, weights = pin.SE3.Identity(), [np.ones(6)] if term is FramePose else []
    made = term(robots["ur5"], "tool0", given, *weights)
    given.translation = np.ones(3)
    with pytest.raises(ValueError, match="read-only"):
        made.target.translation[:] = np.ones(3)
    assert made.target == pin.SE3.Identity()


@pytest.mark.parametrize("name", ["ur5", "hyq", "mixed"])
def test_batches_add_scaled_knots_and_do_not_depend_on_how_they_are_split(robots, rng, name):
    robot = robots[name]
    X = np.array([random_state(robot, rng) for _ in range(5)])
    for term in every_term(robot, rng):
        assert isinstance(term, BatchTerm)
        nu = RobotDynamics(robot, 0.01).nu
        U, nz = rng.normal(size=(5, nu)), 2 * robot.nv + nu
        for exact in (False, True):
            whole = np.full(5, 2.0), np.full((5, nz), 3.0), np.full((5, nz, nz), 4.0)
            term.expand(X, U, 0.3, exact, *whole)
            parts = np.full(5, 2.0), np.full((5, nz), 3.0), np.full((5, nz, nz), 4.0)
            for rows in (slice(0, 2), slice(2, 5)):
                term.expand(X[rows], U[rows], 0.3, exact, *(part[rows] for part in parts))
            for a, b in zip(whole, parts, strict=True):
                np.testing.assert_array_equal(a, b)
            np.testing.assert_allclose(whole[0], 2.0 + 0.3 * term.values(X, U), rtol=1e-14)
            if not isinstance(term, (ControlCost, ControlLimits)):
                for k in range(5):
                    g = 3.0 + 0.3 * term.gradient(X[k], U[k])  # an only sample may be rounded otherwise
                    np.testing.assert_allclose(whole[1][k], g, rtol=1e-13, atol=1e-14 * np.abs(g).max())
                    H = 4.0 + 0.3 * term.hessian(X[k], U[k], exact=exact)
                    atol = 1e-12 * max(1.0, np.abs(H).max())
                    np.testing.assert_allclose(whole[2][k], H, rtol=1e-13, atol=atol)


@pytest.mark.parametrize("name", ["ur5", "hyq", "mixed"])
def test_hessians_are_diagonal_beyond_what_terms_say_that_they_couple(robots, rng, name):
    robot = robots[name]
    system, X = RobotDynamics(robot, 0.01), np.array([random_state(robot, rng) for _ in range(3)])
    told, U, nz = set(), rng.normal(size=(3, system.nu)), system.n + system.nu
    for term in every_term(robot, rng):
        coupled = 0 if ability(term, "separable") else ability(term, "coupled")
        told.add(coupled)
        for exact in (False, True):
            H = np.zeros((3, nz, nz))
            term.expand(X, U, 1.0, exact, np.zeros(3), np.zeros((3, nz)), H)
            own = np.einsum("kii->ki", H)[:, :, None] * np.eye(nz)
            own[:, :coupled, :coupled] = H[:, :coupled, :coupled]
            np.testing.assert_array_equal(H, own)
    assert told >= {0, robot.nv, 2 * robot.nv}
    assert (6 in told) == (name != "mixed")  # of hyq's free-flyer, beside ur5's joints


def test_terms_that_tell_too_little_of_what_they_couple_are_found_by_the_check(robots):
    """Solvers read no more than what terms tell."""

    class Short(FramePose):
        coupled = 3

    robot = robots["ur5"]
    system, frame = RobotDynamics(robot, 0.01), robot.frame_names[-1]
    reports = []
    for kind in (FramePose, Short):
        ends = [kind(robot, frame, np.eye(4), np.ones(6))]
        problem = Problem(system, [ControlCost(np.zeros(6), 1.0)], ends, np.append(robot.q0, np.zeros(6)), 3)
        reports.append(ddp.check_derivatives(problem))
    right, wrong = reports
    assert right.ok
    assert {check.name for check in wrong.wrong} == {"terminal[0] (Short) Hessian"}


def test_weights_that_couple_more_numbers_or_fewer_vary_as_in_problems_made_anew():
    system = RobotDynamics(chain_of("spherical", "planar"), 0.05)
    x0 = np.append(system.robot.neutral(), np.zeros(system.robot.nv))
    target = system.integrate(x0, np.linspace(-0.5, 0.6, system.n))
    first, both = np.ones((2, system.n))
    first[3:6] = 0.0

    def problem(weights):
        ends = [StateCost(system, target, weights)]
        return Problem(system, [ControlCost(np.zeros(system.nu), 0.1)], ends, x0, 10)

    made = problem(first)
    assert (made.objective.coupled[-1], problem(both).objective.coupled[-1]) == (3, 6)
    twin = made
    for weights in (both, first, both):
        twin = twin.varying({"terminal[0].weights": weights})
        anew, found = ddp.solve(problem(weights)), ddp.solve(twin)
        assert found.iterations == anew.iterations
        np.testing.assert_allclose(found.K, anew.K, rtol=1e-9, atol=1e-9 * np.abs(anew.K).max())


def test_terms_survive_pickling(robots, rng):
    X = np.array([random_state(robots["hyq"], rng)])
    for term in every_term(robots["hyq"], rng):
        copy = pickle.loads(pickle.dumps(term))
        np.testing.assert_array_equal(copy.values(X, np.ones((1, 12))), term.values(X, np.ones((1, 12))))


def test_terms_are_immutable(robots):
    with pytest.raises(AttributeError):
        FramePosition(robots["ur5"], "tool0", np.zeros(3), 1.0).weight = 2.0


MISTAKES = [
    ("weights", lambda r, s: StateCost(s, s_zero(s), np.ones(3))),
    ("weights", lambda r, s: StateCost(s, s_zero(s), -np.ones(s.n))),
    ("weights", lambda r, s: StateCost(s, s_zero(s), np.full(s.n, np.nan))),
    ("target_x", lambda r, s: StateCost(s, np.zeros(3), np.ones(s.n))),
    ("target_x", lambda r, s: StateCost(s, np.zeros(s.nx), np.ones(s.n))),  # a quaternion of length zero
    ("target_u", lambda r, s: ControlCost(np.zeros((2, 2)), np.ones(2))),
    ("weights", lambda r, s: ControlCost(np.zeros(2), np.ones(3))),
    ("did you mean 'rf_foot'", lambda r, s: FramePose(r, "rf_fot", pin.SE3.Identity(), np.ones(6))),
    ("target", lambda r, s: FramePose(r, "rf_foot", 2.0 * np.eye(4), np.ones(6))),
    ("target", lambda r, s: FramePose(r, "rf_foot", np.eye(3), np.ones(6))),
    ("target", lambda r, s: FramePose(r, "rf_foot", np.diag([1.0, 1.0, -1.0, 1.0]), np.ones(6))),
    ("weights", lambda r, s: FramePose(r, "rf_foot", np.eye(4), np.ones(5))),
    ("fixed to the world", lambda r, s: FramePose(r, "universe", np.eye(4), np.ones(6))),
    ("target_xyz", lambda r, s: FramePosition(r, "rf_foot", np.array([0.0, np.inf, 0.0]), 1.0)),
    ("weight", lambda r, s: FramePosition(r, "rf_foot", np.zeros(3), -1.0)),
    ("weight", lambda r, s: FramePosition(r, "rf_foot", np.zeros(3), np.ones(2))),
    ("weights: expected a symmetric", lambda r, s: ControlCost(np.zeros(2), [[1.0, 0.5], [0.0, 1.0]])),
    ("weights: .* semidefinite .* eigenvalue of -1", lambda r, s: ControlCost(np.zeros(2), [[0.0, 1.0], [1.0, 0.0]])),
    ("target, Q: expected one of", lambda r, s: Quadratic(0.0, 1.0)),
    ("Q: expected shape", lambda r, s: Quadratic(np.zeros(2), np.ones(3))),
    ("R: expected no negative weight", lambda r, s: Quadratic(np.zeros(2), 1.0, [-1.0])),
    ("dynamics: expected RobotDynamics", lambda r, s: GravityTorqueCost(r, 1.0)),
    ("weights: expected shape", lambda r, s: GravityTorqueCost(s, np.ones(18))),
    ("reference", lambda r, s: FrameVelocity(r, "rf_foot", np.zeros(6), np.ones(6), "body")),
    ("target", lambda r, s: FrameVelocity(r, "rf_foot", np.zeros(3), np.ones(6))),
    ("target_xyz", lambda r, s: CenterOfMass(r, np.zeros(2), 1.0)),
    ("target", lambda r, s: Energy(r, np.zeros(2), 1.0)),
    ("weight", lambda r, s: Energy(r, 0.0, -1.0)),
    ("about", lambda r, s: Momentum(r, np.zeros(6), np.ones(6), "com")),
    ("weights", lambda r, s: Momentum(r, np.zeros(6), np.ones(3))),
    ("robot", lambda r, s: CenterOfMass("hyq", np.zeros(3), 1.0)),
    ("robot", lambda r, s: FramePosition("hyq", "rf_foot", np.zeros(3), 1.0)),
    ("lower", lambda r, s: JointLimits(r, 1.0, lower=np.full(19, 9.0))),
    ("upper", lambda r, s: JointLimits(r, 1.0, upper=np.full(3, 9.0))),
    ("upper", lambda r, s: JointLimits(r, 1.0, upper=np.full(19, np.nan))),
    ("lower: expected real numbers", lambda r, s: JointLimits(r, 1.0, lower="abc")),
    ("dynamics: expected an object", lambda r, s: StateCost(None, np.zeros(3), np.ones(3))),
    ("dynamics: expected an object", lambda r, s: StateCost(RobotDynamics, np.zeros(3), np.ones(3))),
    ("reference: expected one of", lambda r, s: FrameVelocity(r, "rf_foot", np.zeros(6), np.ones(6), ["local"])),
    ("frame: hyq has no frame", lambda r, s: FramePosition(r, ["rf_foot"], np.zeros(3), 1.0)),
]


def s_zero(system):
    return np.concatenate([system.robot.neutral(), np.zeros(system.robot.nv)])


@pytest.mark.parametrize(("named", "make"), MISTAKES)
def test_mistakes_are_named_when_the_term_is_made(robots, named, make):
    with pytest.raises(ProblemError, match=named):
        make(robots["hyq"], RobotDynamics(robots["hyq"], 0.01))


def test_a_term_refuses_states_of_another_robot(robots):
    term = FramePosition(robots["ur5"], "tool0", np.zeros(3), 1.0)
    with pytest.raises(ProblemError, match="made for 12 numbers in a state, the dynamics has 37"):
        term.values(np.zeros((4, 37)), np.zeros((4, 12)))
    with pytest.raises(ProblemError, match="made for 2 controls, the dynamics has 6"):
        ControlCost(np.zeros(2), np.ones(2)).values(np.zeros((4, 12)), np.zeros((4, 6)))
    with pytest.raises(ProblemError, match=r"expected an array of shape \(M, 12\), got \(12,\)"):
        term.values(np.zeros(12), np.zeros(6))


def test_terms_of_states_with_other_tangents_are_refused(robots):
    """Of as many numbers in a state: their derivatives would be written beyond those of the problem."""
    system = RobotDynamics(robots["hyq"], 0.01)
    x, plain = s_zero(system), FunctionDynamics(lambda x, u: x + u[0], system.nx, 1)
    x0, words = np.zeros(system.nx), "expected one of states whose tangent vectors have 36 numbers, got one for 37"
    for term in (Quadratic(x, 1.0), StateCost(plain, x0, 1.0)):
        with pytest.raises(ProblemError, match=rf"running\[0\] \({type(term).__name__}\): {words}"):
            Problem(system, [term], [], x, 3)
        with pytest.raises(ProblemError, match=rf"term: {words}"):
            LiftedTerm(term, augment.rates(system))
    with pytest.raises(ProblemError, match=rf"terminal_constraints\[0\] \(StateEquality\): {words}"):
        Problem(system, [], [], x, 3, terminal_constraints=[StateEquality(plain, x0)])


def test_terms_do_not_vary_to_other_numbers_of_knots_states_or_controls():
    system = FunctionDynamics(lambda x, u: x + u, 2, 2)
    moving = {range(1, 4): [Quadratic(np.zeros((3, 2)), 1.0)]}
    running, terminal = ControlCost(np.zeros(2), np.ones(2)), Quadratic(np.zeros(2), 1.0)
    problem = Problem(system, [running], [terminal], np.zeros(2), 5, during=moving)
    lift = lifted(problem, augment.delays(system, 1), np.zeros(2))
    for one in (problem, lift):
        for numbers, words in (
            ({"during[range(1, 4)][0].target": np.zeros((2, 2))}, "expected a term of 3 knots, .*, got one of 2"),
            ({"terminal[0].target": np.zeros(3), "terminal[0].Q": np.ones(3)}, "(made for|got one for) 3"),
            ({"target_u": np.zeros(3), "running[0].weights": np.ones(3)}, "made for 3 controls, the dynamics has 2"),
        ):
            with pytest.raises(ProblemError, match=words):
                one.varying(numbers)
        varied = one.varying({"during[range(1, 4)][0].target": np.ones((3, 2)), "terminal[0].target": np.ones(2)})
        X, U = np.zeros((6, one.dynamics.nx)), np.zeros((5, one.dynamics.nu))
        assert varied.cost(X, U) == pytest.approx(4.0)

"""A problem knows where a solve of it starts: ``solve(problem)`` alone."""

import pickle
from dataclasses import replace

import crocoddyl_gaits
import numpy as np
import pytest

import ddp
import problems
from ddp.errors import ProblemError
from dynamics import FunctionDynamics
from problems import gaits, legged, pendulum
from problems.durations import solve_durations
from problems.sensitivity import with_durations

N = 20


@pytest.fixture
def swing():
    return replace(pendulum.swing_up(horizon=N), guess=None)


@pytest.fixture
def guesses(swing, rng):
    U = 0.1 * rng.normal(size=(N, 1))
    X = swing.dynamics.rollout(swing.x0, 0.5 * U)
    return {"U": U, "XU": (X, U), "solution": ddp.solve(swing, ddp.DDP(max_iterations=3), throw=False)}


@pytest.mark.parametrize("kind", ["U", "XU", "solution"])
def test_a_solve_starts_from_the_problem_s_guess_as_from_its_own(swing, guesses, kind):
    guess, one = guesses[kind], ddp.DDP(max_iterations=1)
    given = ddp.solve(swing, one, guess, throw=False)
    for problem in (replace(swing, guess=guess), swing.with_guess(guess)):
        known = ddp.solve(problem, one, throw=False)
        np.testing.assert_array_equal(known.U, given.U)
        assert known.start == given.start
    assert not np.array_equal(ddp.solve(swing, one, throw=False).U, given.U)


def test_an_explicit_guess_wins(swing, guesses):
    one = ddp.DDP(max_iterations=1)
    problem = swing.with_guess(guesses["U"])
    expected = ddp.solve(swing, one, guesses["XU"], throw=False)
    np.testing.assert_array_equal(ddp.solve(problem, one, guesses["XU"], throw=False).U, expected.U)


def test_a_guess_is_a_copy_that_derived_problems_keep(swing, guesses):
    U = guesses["U"].copy()
    problem = swing.with_guess(U)
    U[:] = 9.0
    np.testing.assert_array_equal(problem.guess, guesses["U"])
    with pytest.raises(ValueError, match="read-only"):
        problem.guess[0] = 9.0
    moved = problem.starting_at(np.array([0.1, 0.0]))
    for derived in (moved, pickle.loads(pickle.dumps(problem)), replace(problem, terminal=problem.running[1:])):
        np.testing.assert_array_equal(derived.guess, guesses["U"])
    one = ddp.DDP(max_iterations=1)
    np.testing.assert_array_equal(
        ddp.solve(moved, one, throw=False).U, ddp.solve(moved, one, guesses["U"], throw=False).U
    )


def test_a_receding_horizon_starts_from_the_problem_s_guess(swing, guesses):
    one = ddp.DDP(max_iterations=1)
    with ddp.RecedingHorizon(swing.with_guess(guesses["U"]), one) as controller:
        first = controller.solve(swing.x0)
    np.testing.assert_array_equal(first.U, ddp.solve(swing, one, guesses["U"], throw=False).U)


def test_multipliers_of_a_solution_are_the_problem_s_too():
    limited = replace(pendulum.swing_up(), constraints=[ddp.Inequality(lambda x, u: u - 2.5)], guess=None)
    solution = ddp.solve(limited, guess=np.zeros((100, 1)))
    assert ddp.solve(limited.with_guess(solution)).iterations <= 3


@pytest.mark.parametrize(
    ("guess", "words"),
    [
        (np.zeros((N + 1, 2)), r"guess: expected controls of shape \(20, 1\), or \(X, U\); got states alone"),
        (np.zeros((N + 1, 1)), r"guess: expected shape \(20, 1\), got \(21, 1\)"),
        (np.full((N, 1), np.nan), "guess: expected finite numbers"),
        ((np.zeros((N, 2)), np.zeros((N, 1))), r"guess\[0\]: expected shape \(21, 2\)"),
        ((np.zeros((N + 1, 2)),), "guess: expected U, .* a tuple of 1"),
        ([np.zeros((N + 1, 2)), np.zeros((N, 1))], "guess: expected U, .* a list of two arrays"),
        ("none", "guess: expected real numbers"),
    ],
)
def test_a_guess_that_does_not_fit_is_refused_with_the_problem(swing, guess, words):
    with pytest.raises(ProblemError, match=words):
        replace(swing, guess=guess)
    with pytest.raises(ProblemError, match=words):
        swing.with_guess(guess)


def test_a_solution_over_another_horizon_is_refused_with_the_problem(swing):
    longer = ddp.solve(pendulum.swing_up(horizon=N + 5), ddp.DDP(max_iterations=1), throw=False)
    with pytest.raises(ProblemError, match=r"guess\.U: expected shape \(20, 1\), got \(25, 1\)"):
        replace(swing, guess=longer)


@pytest.mark.parametrize("build", [gaits.trot, gaits.jump, gaits.stand], ids=lambda build: build.__name__)
def test_gaits_know_their_nominal_motion(build):
    problem = build("go2")
    for own, nominal in zip(problem.guess, legged.follow_nominal(problem), strict=True):
        np.testing.assert_array_equal(own, nominal)
    assert ddp.solve(problem).converged


def test_gaits_of_other_durations_know_theirs():
    jump = gaits.jump("solo12", dt=0.02)
    T = 1.2 * jump.dynamics.phase_durations
    longer = gaits.jump("solo12", dt=0.02, phase_durations=T)
    np.testing.assert_array_equal(longer.guess[1], legged.follow_nominal(longer)[1])
    kept = with_durations(jump, T)
    np.testing.assert_array_equal(kept.guess[0], jump.guess[0])
    assert ddp.solve(kept).cost == pytest.approx(ddp.solve(longer).cost, rel=1e-6)
    assert solve_durations(jump).converged


def test_the_gaits_of_crocoddyl_s_examples_know_their_guess():
    problem = crocoddyl_gaits.gait("jump")
    np.testing.assert_array_equal(problem.guess[1], crocoddyl_gaits.guess(problem)[1])


def test_the_registry_tells_a_copy_of_the_problem_s_own_guess():
    swing, reach = problems.ALL["pendulum/swing-up"], problems.ALL["arm/reach"]
    problem = swing()
    told = swing.guess(problem)
    np.testing.assert_array_equal(told, problem.guess)
    told[:] = 1.0
    assert not problem.guess.any()
    assert reach.guess(reach()) is None


def test_controls_that_lead_to_costs_without_a_value_are_no_start():
    def cubic(x, u):
        return x + 0.1 * x**3 + u

    def held(x, u):
        return 0.5 * (u @ u)

    def bounded(x, u):  # inf / inf where x is 1e200
        return 1e3 * (x @ x) / (1.0 + x @ x)

    problem = ddp.Problem(FunctionDynamics(cubic, 1, 1, dt=0.1), [held], [bounded], x0=[3.0], horizon=7)
    for guess in (None, np.zeros((7, 1))):
        solution = ddp.solve(problem, guess=guess)
        assert solution.start.startswith("states that stay at x0")
        assert np.isfinite(solution.cost)
        assert abs(solution.X[-1, 0]) < 0.1


def test_solutions_of_other_constraints_give_their_motion_and_not_their_multipliers(swing):
    """With none of its own, a solution is followed; with others, the error says how to start from its motion."""
    speed, angle = ddp.Inequality(lambda x, u: x[1] - 6.0), ddp.Inequality(lambda x, u: x[0] - 9.0)
    free, one, two = (replace(swing, constraints=held) for held in ([], [speed], [speed, angle]))
    assert ddp.solve(one, guess=ddp.solve(free)).converged
    earlier = ddp.solve(one)
    told = rf"guess.multipliers: expected {2 * (N + 1)}, got {N + 1}, of a solution of other constraints.*\(solution.X,"
    for solver in (ddp.DDP(), ddp.DDP(step="rollout")):
        with pytest.raises(ProblemError, match=told):
            ddp.solve(two, solver, guess=earlier if solver.step == "auto" else ddp.solve(one, solver))
    assert ddp.solve(two, guess=(earlier.X, earlier.U)).converged


def test_controls_that_lead_away_from_equalities_at_no_less_cost_are_not_rolled_out(rng):
    mass = FunctionDynamics(lambda x, u: np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * u[0]]), 2, 1)
    end = ddp.Equality(lambda x, u: x - np.array([1.0, 0.0]))
    problem = ddp.Problem(mass, [lambda x, u: u @ u], [], np.zeros(2), 30, terminal_constraints=[end])
    push = np.full((30, 1), 3.0)
    solution = ddp.solve(problem, guess=push)
    assert solution.start == "states that stay at x0, 1 from what constraints ask for: those that follow are 12"
    assert ddp.solve(problem, guess=0.1 * push).start == "states that follow from the controls"
    cheaper = replace(problem, running=[lambda x, u: u @ u - x[0]])
    assert ddp.solve(cheaper, guess=push).start == "states that follow from the controls"
    assert solution.cost == pytest.approx(ddp.solve(problem).cost, rel=1e-12)

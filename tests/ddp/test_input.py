"""What is malformed is refused before any work, by its field's name; what fails on the way says where."""

import numpy as np
import pytest
from systems import Quadratic, Swing, failing_pendulum, pendulum, pendulum_step

import ddp
from dynamics.function_dynamics import FunctionDynamics

DYNAMICS = FunctionDynamics(pendulum_step, 2, 1, dt=0.03)
TERM = Quadratic(np.ones(3), np.zeros(3))


def problem(**changes):
    fields = {"dynamics": DYNAMICS, "running": [TERM], "terminal": [TERM], "x0": np.zeros(2), "horizon": 10}
    return ddp.Problem(**(fields | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dynamics": pendulum_step}, "dynamics: .* got function"),
        ({"dynamics": FunctionDynamics}, "dynamics: .* got the class FunctionDynamics"),
        ({"x0": np.zeros(3)}, r"x0: expected shape \(2,\), got \(3,\)"),
        ({"x0": np.array([0.0, np.nan])}, r"x0: .*finite.* got nan at \[1\]"),
        ({"x0": "somewhere"}, "x0: expected real numbers"),
        ({"horizon": 0}, "horizon: .* at least 1, got 0"),
        ({"horizon": 10.0}, "horizon: .* got 10.0"),
        ({"running": TERM}, "running: expected a list of cost terms, got Quadratic"),
        ({"running": [TERM, 3.0]}, r"running\[1\]: .* got float"),
        ({"terminal": [Swing]}, r"terminal\[0\]: .* got the class Swing: make an instance"),
        ({"at": [TERM]}, "at: expected a mapping"),
        ({"at": {11: [TERM]}}, "at: expected knots from 0 to 10 .* got 11"),
        ({"at": {-1: [TERM]}}, "at: expected knots from 0 to 10 .* got -1"),
        ({"at": {3: TERM}}, r"at\[3\]: expected a list"),
    ],
)
def test_a_malformed_problem_is_refused_by_the_name_of_its_field(changes, message):
    with pytest.raises(ddp.ProblemError, match=message):
        problem(**changes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tolerance": 0.0}, "tolerance: expected a positive number"),
        ({"tolerance": float("nan")}, "tolerance: expected a positive number"),
        ({"max_iterations": 0}, "max_iterations: .* at least 1"),
        ({"hessian": "newton"}, "hessian: expected one of .* got 'newton'"),
        ({"switch": -1.0}, "switch: expected a positive number"),
    ],
)
def test_a_malformed_option_is_refused_by_its_name(options, message):
    with pytest.raises(ddp.ProblemError, match=message):
        ddp.DDP(**options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"guess": np.zeros((9, 1))}, r"guess: expected shape \(10, 1\), got \(9, 1\)"),
        ({"guess": np.full((10, 1), np.inf)}, "guess: expected finite numbers"),
        ({"guess": (np.zeros((10, 2)), np.zeros((10, 1)))}, r"guess\[0\]: expected shape \(11, 2\)"),
        ({"guess": (np.zeros((11, 2)),)}, "guess: expected U, .* tuple of 1"),
        ({"workers": 0}, "workers: .* at least 1"),
        ({"solver": "DDP"}, "solver: expected DDP"),
    ],
)
def test_a_malformed_argument_of_solve_is_refused_by_its_name(arguments, message):
    with pytest.raises(ddp.ProblemError, match=message):
        ddp.solve(problem(), **arguments)


class Term:
    """A term whose functions are given."""

    def __init__(self, value):
        self.value = value


def bad(x, u):
    raise KeyError("no such thing")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (bad, r"running\[1\] \(Term\): value raised KeyError: 'no such thing' at knot 0"),
        (lambda x, u: x, r"running\[1\] \(Term\): value: expected a number, got an array of shape \(2,\)"),
        (lambda x, u: "cheap", r"running\[1\] \(Term\): value: expected a number, got 'cheap'"),
        (lambda x, u: np.nan if u[0] == 0.0 else 0.0, "expected a finite cost, got nan at knot 4"),
    ],
)
def test_a_term_that_fails_is_named_with_its_knot(value, message):
    U = np.ones((10, 1))
    U[4] = 0.0
    with pytest.raises(ddp.ProblemError, match=message):
        ddp.solve(problem(running=[TERM, Term(value)]), guess=U)


def test_a_term_that_fails_on_the_way_is_named_with_its_knot():
    with pytest.raises(
        ddp.ProblemError, match=r"running\[1\] \(Fails\): gradient raised .* at knot 5"
    ) as caught:
        ddp.solve(failing_pendulum(after=105, kill=False))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_terms_at_single_knots_and_at_the_end_are_not_multiplied_by_the_time_step():
    X, U = np.ones((11, 2)), np.ones((10, 1))
    assert problem(terminal=[]).cost(X, U) == pytest.approx(10 * 0.03 * 1.5)
    assert problem(running=[]).cost(X, U) == pytest.approx(1.0)
    assert problem(running=[], terminal=[], at={0: [TERM], 7: [TERM, TERM], 10: [TERM]}).cost(
        X, U
    ) == pytest.approx(5.5)


def test_a_guess_that_diverges_is_a_solution_that_says_at_which_knot():
    explosive = FunctionDynamics(lambda x, u: 1e40 * x + u, 1, 1)
    term = Quadratic(np.ones(2), np.zeros(2))
    with pytest.raises(
        ddp.SolveError, match="the guess diverges: its state or cost at knot 8 is not finite"
    ) as caught:
        ddp.solve(ddp.Problem(explosive, [term], [term], np.ones(1), 20))
    solution = caught.value.solution
    assert not solution.converged
    assert solution.iterations == 0
    assert np.isnan(solution.stationarity())


def test_derivatives_that_are_not_finite_are_reported_with_their_knot():
    class Sharp:
        def value(self, x, u):
            return float(u @ u)

        def gradient(self, x, u):
            return np.array([0.0, 0.0, np.nan if u[0] == 0.0 else 2.0 * u[0]])

    U = np.ones((10, 1))
    U[6] = 0.0
    with pytest.raises(
        ddp.ProblemError, match=r"running\[0\] \(Sharp\): its gradient is not finite at knot 6"
    ):
        ddp.solve(problem(running=[Sharp()]), guess=U)


def test_an_unbounded_problem_does_not_converge_and_says_why():
    hill = Quadratic(np.array([0.0, 0.0, -1.0]), np.zeros(3))
    solution = ddp.solve(problem(running=[hill]), ddp.DDP(max_regularization=1e-6), throw=False)
    assert not solution.converged
    assert "not positive definite at knot" in solution.status


def test_the_iteration_limit_is_a_reason_and_not_a_convergence():
    with pytest.raises(ddp.SolveError, match="not converged after 3 iterations, the limit of 3") as caught:
        ddp.solve(pendulum(), ddp.DDP(max_iterations=3))
    assert len(caught.value.solution.history) == 3
    assert not ddp.solve(pendulum(), ddp.DDP(max_iterations=3), throw=False).converged


def test_a_wrong_gradient_never_passes_for_convergence():
    class Liar:
        def value(self, x, u):
            return float(0.5 * (u - 1.0) @ (u - 1.0))

        def gradient(self, x, u):
            return np.concatenate([0.0 * x, 1.0 - u])

        def hessian(self, x, u):
            return np.diag([0.0, 0.0, 1.0])

    solution = ddp.solve(problem(running=[Liar()], terminal=[]), throw=False)
    assert not solution.converged
    assert "no step lowers the cost" in solution.status

"""Malformed input is refused before any work, by its field's name; what fails on the way says where."""

import math
from dataclasses import replace

import numpy as np
import pytest
from systems import Quadratic, Swing, failing_pendulum, pendulum, pendulum_step

import ddp
from ddp.errors import as_array
from ddp.solutions.explanation import ADVICE
from dynamics import Phase
from dynamics.steps.function_dynamics import FunctionDynamics
from problems.costs import ControlCost, StateCost

DYNAMICS = FunctionDynamics(pendulum_step, 2, 1, dt=0.03)
TERM = Quadratic(np.ones(3), np.zeros(3))
EFFORT, WIDE = ControlCost(np.ones(1), np.ones(1)), ControlCost(np.zeros(2), np.ones(2))
TALL = StateCost(FunctionDynamics(lambda x, u: x, 3, 1), np.zeros(3), np.ones(3))


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
        ({"x0": "somewhere"}, r"x0: expected real numbers .*\(of type text\)"),
        ({"horizon": 0}, "horizon: .* at least 1, got 0"),
        ({"horizon": 10.0}, "horizon: expected a whole number of steps, at least 1, got 10.0"),
        ({"horizon": 10**10}, "horizon: 10000000000 would need .* GiB of memory, this machine has .* GiB"),
        ({"horizon": 10**400}, "horizon: 1000.* would need more than any machine has of memory"),
        ({"constraints": np.ones((3, 3))}, r"constraints: expected a list of constraints, got ndarray"),
        ({"control_limits": ([[1.0], [1.0, 2.0]], 1.0)}, r"control_limits\[0\]: expected a real number"),
        (
            {"dynamics": FunctionDynamics(lambda x, u: x + u, 2, 2), "control_limits": [(0.0, 9.0), (-0.2, 0.2)]},
            "expected lower < upper, .* give .lower, upper., the lower limits of both controls first",
        ),
        ({"running": TERM}, "running: expected a list of cost terms, got Quadratic"),
        ({"running": [TERM, 3.0]}, r"running\[1\]: expected a cost term, a function .* got float"),
        ({"running": [lambda x: 0.0]}, r"running\[0\] \(<lambda>\): value: expected a function of x and u"),
        ({"terminal": [lambda x, u: x]}, r"terminal\[0\] \(<lambda>\): value: expected a number, got .* shape \(2,\)"),
        ({"terminal": [Swing]}, r"terminal\[0\]: .* got the class Swing: make an instance"),
        ({"at": [TERM]}, "at: expected a mapping"),
        ({"at": {11: [TERM]}}, "at: expected knots from 0 to 10 .* got 11"),
        ({"at": {-1: [TERM]}}, "at: expected knots from 0 to 10 .* got -1"),
        ({"at": {3: TERM}}, r"at\[3\]: expected a list"),
        ({"running": [WIDE]}, r"running\[0\] \(ControlCost\): made for 2 controls, the dynamics has 1"),
        ({"at": {4: [TERM, WIDE]}}, r"at\[4\]\[1\] \(ControlCost\): made for 2 controls, the dynamics has 1"),
        ({"running": [TALL]}, r"running\[0\] \(StateCost\): expected .* tangent vectors have 2 numbers, got one for 3"),
        ({"running": [Quadratic(np.ones(4), np.zeros(4))]}, r"running\[0\] \(Quadratic\): raised ValueError"),
        ({"running": [lambda x, u: x[0] < 1.0]}, r"running\[0\] \(<lambda>\): value: expected a real number, got"),
        ({"terminal": [TERM, EFFORT]}, r"terminal\[1\] \(ControlCost\): .* got one of the controls alone"),
        ({"at": {10: [EFFORT]}}, r"at\[10\]\[0\] \(ControlCost\): .* got one of the controls alone"),
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
        ({"max_iterations": 2**63}, r"max_iterations: expected a whole number below 2\^63, got 9223372036854775808"),
        ({"hessian": "newton"}, "hessian: expected one of .* got 'newton'"),
        ({"switch": -1.0}, "switch: expected a positive number"),
        ({"tolerance": "small"}, "tolerance: expected a real number, got 'small'"),
        ({"tolerance": True}, r"tolerance: expected a real number, got True \(of type bool\)"),
        ({"tolerance": 1j}, "tolerance: expected a real number, got 1j"),
        ({"hessian": np.ones((2, 2))}, r"hessian: expected one of .* got an array of shape \(2, 2\)"),
        ({"hessian": "x" * 10**6}, "hessian: expected one of .* got 'x{12}\\.\\.\\.x{13}'$"),
        ({"reuse": True}, "reuse: expected a whole number of at least 0, got True"),
        ({"max_regularization": 1e-10}, "max_regularization: expected at least 1e-09.* got 1e-10"),
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
        ({"guess": [np.zeros((11, 2)), np.zeros((10, 1))]}, r"guess: expected U, a tuple \(X, U\) .* a list of two"),
        ({"guess": np.zeros((10, 1), complex)}, "guess: expected real numbers .* complex128"),
        ({"guess": [[None]] * 10}, "guess: expected real numbers .* object"),
        ({"guess": "x" * 500}, r"guess: expected real numbers of shape \(10, 1\), got 'x{12}\.\.\.x{13}'"),
        ({"callback": 3}, "callback: expected a function of a Record, got 3"),
        ({"workers": 0}, "workers: .* at least 1"),
        ({"solver": "DDP"}, "solver: expected DDP"),
        ({"solver": np.ones(1000)}, r"solver: expected DDP.* got an array of shape \(1000,\)$"),
        ({"throw": None}, "throw: expected True or False, got None"),
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
        (lambda x, u: "cheap", r"running\[1\] \(Term\): value: expected a real number, got 'cheap'"),
        (lambda x, u: None, r"running\[1\] \(Term\): value: expected a real number, got None at knot 0"),
        (lambda x, u: 1.0 + 0j, r"running\[1\] \(Term\): value: expected a real number, got \(1\+0j\) at knot 0"),
        (lambda x, u: np.ma.array(1.0, mask=True), r"\(Term\): value: expected a real number, got a masked one"),
        (lambda x, u: np.nan if u[0] == 0.0 else 0.0, r"running\[1\] \(Term\): its cost is nan at knot 4"),
    ],
)
def test_a_term_that_fails_is_named_with_its_knot(value, message):
    U = np.ones((10, 1))
    U[4] = 0.0
    with pytest.raises(ddp.ProblemError, match=message):
        ddp.solve(problem(running=[TERM, Term(value)]), guess=U)


def test_a_hessian_of_which_one_half_is_given_is_refused_and_not_averaged():
    half = np.triu(np.ones((3, 3)))
    term = Term(lambda x, u: 0.0)
    term.gradient, term.hessian = lambda x, u: np.zeros(3), lambda x, u: half
    with pytest.raises(ddp.ProblemError, match=r"running\[0\] \(Term\): hessian: .* symmetric .* 1 at \[0, 1\]"):
        ddp.solve(problem(running=[term]))
    system = FunctionDynamics(
        pendulum_step, 2, 1, hessian=lambda x, u, weight: weight[0] * half, derivatives="differences"
    )
    with pytest.raises(ddp.ModelError, match=r"hessian: .* symmetric matrix, got 1 at \[0, 1\] and 0 at \[1, 0\]"):
        system.hessian(np.zeros(2), np.zeros(1), np.ones(2))


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
    far = np.full(1, 1e300)  # no motion begins there
    explosive = FunctionDynamics(lambda x, u: 1e40 * x + u, 1, 1)
    term = Quadratic(np.ones(2), np.zeros(2))
    gentle = ddp.solve(ddp.Problem(FunctionDynamics(lambda x, u: x + u, 1, 1), [term], [term], np.ones(1), 20))
    with pytest.raises(
        ddp.SolveError, match="the guess diverges: the state at knot 1 is not finite, the dynamics diverged there"
    ) as caught:
        ddp.solve(ddp.Problem(explosive, [term], [term], far, 20), guess=gentle)
    solution = caught.value.solution
    assert not solution.converged
    assert solution.iterations == 0
    assert np.isnan(solution.stationarity())
    nothing = "gradient nan (its gains are zeros: no backward pass succeeds)"
    assert str(solution).endswith(f"{nothing}; try this: {ADVICE[ddp.Ending.NO_START]}")


def test_what_a_function_raises_where_it_diverges_is_kept():
    far = np.full(1, 800.0)  # whose exponential is no number, so that no motion begins there
    growing = FunctionDynamics(lambda x, u: np.array([math.exp(x[0])]), 1, 1)
    term = Quadratic(np.ones(2), np.zeros(2))
    still = ddp.solve(ddp.Problem(FunctionDynamics(lambda x, u: x + u, 1, 1), [term], [term], far, 20))
    guess = replace(still, U=np.zeros((20, 1)), K=np.zeros((20, 1, 1)))
    solution = ddp.solve(ddp.Problem(growing, [term], [term], far, 20), guess=guess, throw=False)
    assert solution.status.startswith("not converged, the guess diverges: the state at knot 1 is not finite")
    assert "f: raised OverflowError: math range error" in solution.status


def test_a_guess_of_infinite_cost_says_which_term_and_where():
    def steep(x, u):
        return np.inf if x[0] > 0.0 else 0.0

    limited, controls = problem(running=[TERM, Term(steep)]), np.ones((10, 1))
    followed = limited.dynamics.rollout(limited.x0, controls), controls
    solution = ddp.solve(limited, guess=followed, throw=False)
    assert solution.status.startswith("not converged, the guess has no finite cost")
    assert solution.status.endswith("running[1] (Term): its cost is inf at knot 1")
    np.testing.assert_array_equal(solution.U, controls)
    assert not any(np.shares_memory(*pair) for pair in zip((solution.X, solution.U), followed, strict=True))


@pytest.mark.parametrize("step", ["auto", "rollout"])
def test_a_cost_that_turns_into_no_number_on_the_way_leaves_the_best_iterate(step):
    class Late:
        """A cost whose gradient fails after the first iteration."""

        slope = 2.0

        def value(self, x, u):
            return float(u @ u)

        def gradient(self, x, u):
            return np.array([0.0, 0.0, self.slope * u[0]])

        def hessian(self, x, u):
            return np.diag([0.0, 0.0, 2.0])

    plain, term = pendulum(), Late()
    late = ddp.Problem(plain.dynamics, [*plain.running, term], plain.terminal, plain.x0, plain.horizon)
    with pytest.raises(ddp.SolveError, match=r"running\[1\] \(Late\): its gradient is not finite at knot") as caught:
        ddp.solve(late, ddp.DDP(step=step), callback=lambda record: setattr(term, "slope", np.nan))
    solution = caught.value.solution
    assert len(solution.history) == 1
    assert solution.gap() == 0.0
    begun = late.dynamics.rollout(late.x0, np.zeros_like(solution.U))
    assert solution.cost <= late.cost(begun, np.zeros_like(solution.U))


def test_constraints_whose_values_are_objects_are_refused():
    class Objects:
        lower, upper = np.zeros(1), np.ones(1)

        def values(self, X, U):
            return X[:, :1].astype(object)

        def jacobian(self, X, U):
            return np.zeros((len(X), 1, X.shape[1] + U.shape[1]))

        def curvature(self, X, U, weight):
            return np.zeros((len(X), *2 * [X.shape[1] + U.shape[1]]))

    with pytest.raises(ddp.ProblemError, match=r"terminal_constraints\[0\] \(Objects\): values: expected real numbers"):
        problem(terminal_constraints=[Objects()])


def test_derivatives_that_are_not_finite_are_reported_with_their_knot():
    class Sharp:
        def value(self, x, u):
            return float(u @ u)

        def gradient(self, x, u):
            return np.array([0.0, 0.0, np.nan if u[0] == 0.0 else 2.0 * u[0]])

    U = np.ones((10, 1))
    U[6] = 0.0
    with pytest.raises(
        ddp.ProblemError, match=r"running\[0\] \(Sharp\): its gradient is not finite at knot 6: norms and square roots"
    ):
        ddp.solve(problem(running=[Sharp()]), guess=U)


def test_an_unbounded_problem_does_not_converge_and_says_why():
    hill = Quadratic(np.array([0.0, 0.0, -1.0]), np.zeros(3))
    solution = ddp.solve(problem(running=[hill]), ddp.DDP(max_regularization=1e-6), throw=False)
    assert not solution.converged
    assert "not positive definite at knot" in solution.status
    # dt (-1), and 0.03² (1 + 0.03²) of the terminal cost through B
    assert "its smallest eigenvalue is -0.029 at knot 9, along control 0" in solution.status
    assert solution.status.endswith("running[0] (Quadratic) has negative curvature there")


def test_controls_that_cost_nothing_are_no_obstacle():
    free = Quadratic(np.array([1.0, 1.0, 0.0]), np.ones(3))
    assert ddp.solve(problem(running=[free], terminal=[free])).converged


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


@pytest.mark.parametrize(
    ("value", "shape", "message"),
    [
        ([1.0, 1j], (2,), r"z: expected real numbers of shape \(2,\), got \[1.0, 1j\] \(of type complex128\)"),
        (["1", "2"], (2,), "z: expected real numbers"),
        (None, (), "z: expected a real number, got None"),
        (np.nan, (), "z: expected finite numbers, got nan$"),
        ([[1.0], [1.0, 2.0]], (2, 1), "z: expected real numbers"),
        ([0.0, np.inf], (2,), r"z: expected finite numbers, got inf at \[1\]"),
        ([1.0], (), r"z: expected a number, got \(1,\)"),
        ([1.0], (None, 6), r"z: expected rows of 6 numbers, got \(1,\)"),
        (np.ones((2, 2)), (None,), r"z: expected one row of numbers, got \(2, 2\)"),
        (np.ma.masked_array([1.0], [True]), (1,), r"z: expected real numbers .* \(some of them are masked"),
    ],
)
def test_what_is_no_array_of_real_numbers_is_refused(value, shape, message):
    with pytest.raises(ddp.ProblemError, match=message):
        as_array("z", value, shape)


def test_arrays_of_another_shape_are_refused_without_a_look_at_their_numbers():
    many = np.broadcast_to(1.0, (10**12,))  # one number in memory; looking at all of them takes minutes
    square = np.broadcast_to(1, (10**6, 10**6))
    given = problem()
    for attempt in (
        lambda: as_array("z", many, ()),
        lambda: as_array("z", [many, many], (2, 3)),
        lambda: ddp.DDP(tolerance=many),
        lambda: ddp.solve(given, guess=many),
        lambda: ddp.solve(given, guess=(square, square)),
        lambda: ddp.solve(given, guess=[square, square]),
        lambda: problem(x0=many),
        lambda: problem(running=many),
        lambda: problem(control_limits=(many, 1.0)),
        lambda: problem(control_limits=[[many, many], 1.0]),
        lambda: StateCost(given.dynamics, many, np.ones(2)),
        lambda: Phase(many, 3),
    ):
        with pytest.raises(ddp.ProblemError, match=": expected") as caught:
            attempt()
        assert len(str(caught.value)) < 300


def test_arrays_that_are_taken_are_what_kernels_want():
    given = np.arange(6).reshape(2, 3).T
    given.flags.writeable = False
    taken = as_array("z", given, (3, None))
    assert taken.dtype == np.float64
    assert taken.flags.c_contiguous
    assert taken.flags.writeable
    assert np.array_equal(taken, given)


def test_limits_are_a_problem_s_own():
    lower = np.full(1, -2.0)
    limited = problem(control_limits=(lower, 2.0))
    lower[0] = -3.0
    assert limited.control_limits == (-2.0, 2.0)
    with pytest.raises(ValueError, match="read-only"):
        limited.control_limits[0][0] = -3.0


@pytest.mark.parametrize("ask", [ddp.Problem.cost, ddp.Problem.total])
def test_a_cost_is_that_of_arrays_that_fit(ask):
    X, U = np.zeros((11, 2)), np.zeros((10, 1))
    for x, u, name in ((X[:4], U, "X"), (X[:, :1], U, "X"), (X, U[:3], "U"), (X, np.zeros((10, 2)), "U")):
        with pytest.raises(ddp.ProblemError, match=f"{name}: expected shape"):
            ask(problem(), x, u)


def test_shapes_that_do_not_fit_are_told_and_no_divergence():
    def late(x, u):
        return 1.5 * x + (np.ones(3) if abs(x[0]) > 2.0 else u)

    term = Quadratic(np.ones(3), np.zeros(3))
    told = r"f: raised ValueError: .*broadcast.* \(line \d+ of test_input.py\)"
    with pytest.raises(ddp.ModelError, match=told):
        FunctionDynamics(late, 2, 1)  # before any knot leads there
    problem = ddp.Problem(FunctionDynamics(late, 2, 1, derivatives="differences"), [term], [term], np.ones(2), 10)
    with pytest.raises(ddp.ModelError, match=told):
        ddp.solve(problem)
    with pytest.raises(ddp.ModelError, match=r"not enough values to unpack .* \(line \d+ of test_input.py\)"):
        FunctionDynamics(lambda x, u: [first := x, *([a, b, c] for a, b, c in [x])][0] * first, 2, 1)


def beyond_the_wall(x):
    if x > 1.0:
        raise ValueError("beyond the wall")
    return 0.0


@pytest.mark.parametrize("found", [lambda x: math.log(1.0 - x), lambda x: 1.0 / (x - 1.5), beyond_the_wall])
def test_rollouts_end_where_a_function_is_not_defined(found):
    walled = FunctionDynamics(lambda x, u: x + u + 0.0 * found(float(x[0].real)), 1, 1)
    X = walled.rollout(np.zeros(1), np.full((6, 1), 0.5))
    assert np.isfinite(X[:3]).all()
    assert np.isnan(X[-1]).all()


def test_an_interrupt_in_a_users_function_is_one():
    def interrupted(x, u):
        if x[0] != 0.0:
            raise KeyboardInterrupt
        return x + u

    with pytest.raises(KeyboardInterrupt):
        FunctionDynamics(interrupted, 2, 1)
    called = FunctionDynamics(interrupted, 2, 1, derivatives="differences")
    problem = ddp.Problem(called, [TERM], [TERM], np.ones(2), 10)
    with pytest.raises(KeyboardInterrupt):
        ddp.solve(problem)

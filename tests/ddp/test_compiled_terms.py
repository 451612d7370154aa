"""Terms that kernels ask themselves: in one table with others, and users' own that numba compiles."""

from __future__ import annotations

import dataclasses
import itertools
import pickle

import numba
import numpy as np
import pytest
from systems import Quadratic, Swing, pendulum

import ddp
from ddp.compiling import kernel
from ddp.costs.terms import DerivedTerm, positive_part
from ddp.derivatives import EXACT, FIRST, GAUSS_NEWTON, RECORDS
from dynamics.steps.function_dynamics import FunctionDynamics
from problems.costs import ControlCost, StateCost

N = 12


class Double:
    """Two integrators."""

    def __call__(self, x, u):
        return x + 0.1 * u


@pytest.fixture
def system():
    return FunctionDynamics(Double(), 2, 2, dt=0.1)


@pytest.fixture
def mixed(system, rng):
    """Terms of every kind of knots, compiled and not, moving and not; and the same in a list with weights."""
    dt, goal = 0.1, StateCost(system, [1.0, -1.0], [2.0, 0.5])
    effort, moving = ControlCost(np.ones(2), np.array([0.1, 0.2])), rng.normal(size=(6, 2))
    path, swing = StateCost(system, moving, np.array([3.0, 1.0])), Swing()
    problem = ddp.Problem(
        system, [effort, swing, goal], [goal], np.zeros(2), N, at={4: [goal], N: [goal]}, during={range(3, 9): [path]}
    )
    each = [[(effort, dt), (swing, dt), (goal, dt)] for _ in range(N)] + [[(goal, 1.0), (goal, 1.0)]]
    each[4].append((goal, 1.0))
    for row in range(6):
        each[3 + row].append((path.part(row, row + 1), dt))
    return problem, each


@pytest.fixture
def rng():
    return np.random.default_rng(8)


@pytest.fixture
def trajectory(rng):
    X, U = rng.normal(size=(N + 1, 2)), rng.normal(size=(N + 1, 2))
    U[N] = 0.0
    return X, U


def as_batch(problem, term):
    return term if isinstance(term, (StateCost, ControlCost)) else DerivedTerm(term, problem.dynamics)


def test_costs_in_one_call_are_the_sums_of_terms(mixed, trajectory):
    problem, each = mixed
    X, U = trajectory
    expected = [
        sum(w * as_batch(problem, t).values(X[k : k + 1], U[k : k + 1])[0] for t, w in each[k]) for k in range(N + 1)
    ]
    np.testing.assert_allclose(problem.values(X, U), expected, rtol=1e-14)
    assert problem.total(X, U[:N].copy()) == pytest.approx(sum(expected), rel=1e-14)
    again = pickle.loads(pickle.dumps(problem))
    assert np.array_equal(again.values(X, U), problem.values(X, U))


@pytest.mark.parametrize("bounds", [(0, N + 1), (0, 5, 7, N + 1)])
def test_expansions_in_one_call_are_the_sums_of_terms_however_knots_are_shared(mixed, trajectory, bounds):
    problem, each = mixed
    X, U = trajectory
    out = problem.allocate()
    for start, stop in itertools.pairwise(bounds):
        problem.expand(X, U, out, start, stop)
        problem.expand(X, U, out, start, stop, EXACT)
    for k in range(N + 1):
        gradient, exact, gauss_newton = np.zeros((1, 4)), np.zeros((1, 4, 4)), np.zeros((1, 4, 4))
        for term, w in each[k]:
            batch, own = as_batch(problem, term), (X[k : k + 1], U[k : k + 1])
            batch.expand(*own, w, True, np.zeros(1), gradient, exact)
            batch.expand(*own, w, False, np.zeros(1), np.zeros((1, 4)), gauss_newton)
        np.testing.assert_allclose(out.lz[k], gradient[0], atol=1e-13)
        np.testing.assert_allclose(out.hessians(problem.separable, False)[k], gauss_newton[0], atol=1e-13)
        np.testing.assert_allclose(out.hessians(problem.separable)[k], exact[0], atol=1e-13)


def test_a_rollout_that_diverges_costs_infinity_even_where_no_term_looks(system):
    problem = ddp.Problem(system, [ControlCost(np.zeros(2), np.ones(2))], [], np.zeros(2), N)
    X, U = np.zeros((N + 1, 2)), np.zeros((N, 2))
    assert problem.total(X, U) == 0.0
    X[-1, 1] = np.nan
    assert problem.total(X, U) == np.inf


# users' own


@numba.njit
def bent(x, u):
    """Neither convex nor separable."""
    return np.cos(x[0]) * x[1] + 0.1 * np.exp(u[0]) + x[0] * u[0]


@numba.njit
def bent_gradient(x, u):
    return np.array([-np.sin(x[0]) * x[1] + u[0], np.cos(x[0]), 0.1 * np.exp(u[0]) + x[0]])


def bent_hessian(x, u):
    H = np.zeros((3, 3))
    H[0, 0] = -np.cos(x[0]) * x[1]
    H[0, 1] = H[1, 0] = -np.sin(x[0])
    H[2, 2] = 0.1 * np.exp(u[0])
    H[0, 2] = H[2, 0] = 1.0
    return H


def expanded(problem, X, U):
    out = problem.allocate()
    problem.expand(X, U, out, 0, len(X))
    problem.expand(X, U, out, 0, len(X), EXACT)
    return out


@pytest.mark.parametrize(("given", "accuracy"), [((bent_gradient,), 1e-11), ((), 1e-9)])
def test_a_jitted_term_is_exact_whatever_is_given_of_it(given, accuracy, rng):
    base = pendulum(horizon=5)
    problem = dataclasses.replace(base, running=[ddp.JittedTerm(bent, *given)], terminal=[])
    X, U = rng.normal(size=(6, 2)), rng.normal(size=(6, 1))
    out, dt = expanded(problem, X, U), base.dynamics.dt
    for k in range(5):
        H = bent_hessian(X[k], U[k])
        assert out.l[k] == pytest.approx(dt * bent(X[k], U[k]), rel=1e-14)
        np.testing.assert_allclose(out.lz[k], dt * bent_gradient(X[k], U[k]), atol=accuracy)
        np.testing.assert_allclose(out.hessians(problem.separable)[k], dt * H, atol=accuracy)
        np.testing.assert_allclose(out.lzz[k], dt * positive_part(H[None])[0], atol=10 * accuracy)
    assert ddp.check_derivatives(problem, X, U[:5]).ok
    assert problem.values(X, U) == pytest.approx(out.l, rel=1e-14)


def term_about(target):
    return ddp.JittedTerm(lambda x, u: 0.5 * ((x[0] - target) ** 2 + u[0] ** 2))


def test_terms_made_anew_of_equal_functions_share_what_is_compiled(rng):
    base = pendulum(horizon=5)
    X, U = rng.normal(size=(6, 2)), rng.normal(size=(6, 1))
    out = {}
    with kernel.compilations(lambda name: names.append(name)):
        for target in (1.0, 2.0, 1.0, 2.0):
            names: list[str] = []
            problem = dataclasses.replace(base, running=[term_about(target)], terminal=[])
            l = expanded(problem, X, U).l
            np.testing.assert_allclose(l[:5], 0.5 * base.dynamics.dt * ((X[:5, 0] - target) ** 2 + U[:5, 0] ** 2))
            assert target not in out or (names == [] and np.array_equal(out[target], l))
            out[target] = l


def swing(x, u):
    """`systems.Swing`; it writes on its arguments, which are its own."""
    x[0] -= np.pi
    return 0.5 * (0.1 * x[0] ** 2 + 0.01 * x[1] ** 2 + 0.1 * u[0] ** 2)


def swing_gradient(x, u):
    return np.array([0.1 * (x[0] - np.pi), 0.01 * x[1], 0.1 * u[0]])


def swing_diagonal(x, u):
    return np.array([0.1, 0.01, 0.1])


def test_a_solve_is_the_same_jitted_or_not_and_a_diagonal_is_known_to_be_one():
    base = pendulum()
    jitted = dataclasses.replace(base, running=[ddp.JittedTerm(swing, swing_gradient, swing_diagonal)])
    assert jitted.separable.tolist() == [True] * 100 + [False]
    reference, solution = ddp.solve(base), ddp.solve(jitted)
    assert solution.iterations == reference.iterations
    assert solution.cost == pytest.approx(reference.cost, rel=1e-12)
    np.testing.assert_allclose(solution.K, reference.K, rtol=1e-8, atol=1e-8)


@numba.njit
def wall(x, u):
    if x[0] > 0.5:
        raise ValueError("beyond the wall")
    return 0.0


@numba.njit
def longer_far_away(x, u):
    """Gradient of nothing, of another size far from the wall."""
    return np.zeros(4000 if x[0] < -1.0 else 3)


@numba.njit
def flat(x, u):
    return np.zeros((3, 3))


def test_a_jitted_term_that_raises_is_named_at_the_guess_and_stepped_back_from_later():
    base = pendulum()
    problem = dataclasses.replace(base, running=[*base.running, ddp.JittedTerm(wall, longer_far_away, flat)])
    U = np.full((100, 1), 5.0)
    with pytest.raises(ddp.ProblemError, match=r"running\[1\].*value raised ValueError: beyond the wall at knot \d+"):
        ddp.solve(problem, guess=U)
    solution = ddp.solve(problem, throw=False)
    assert solution.iterations > 1
    assert solution.X[:-1, 0].max() <= 0.5


def test_what_is_wrong_with_a_jitted_term_is_said_before_it_is_solved(rng):
    base = pendulum()

    def problem(*functions):
        return dataclasses.replace(base, running=[ddp.JittedTerm(*functions)])

    with pytest.raises(ddp.ProblemError, match=r"value: expected a function of x and u that numba can compile, got 3"):
        ddp.JittedTerm(3)
    with pytest.raises(ddp.ProblemError, match=r"gradient: expected a function of x and u beside hessian, got None"):
        ddp.JittedTerm(bent, hessian=bent_hessian)
    with pytest.raises(ddp.ProblemError, match=r"running\[0\].*gradient: expected shape \(3,\) or \(2,\), got \(1,\)"):
        problem(bent, lambda x, u: u)
    with pytest.raises(ddp.ProblemError, match=r"running\[0\].*hessian raised ZeroDivisionError"):
        problem(bent, bent_gradient, lambda x, u: 1 / 0)
    with pytest.raises(ddp.ProblemError, match=r"running\[0\].*value raised AttributeError: .*'undefined'"):
        problem(lambda x, u: [].undefined)
    with pytest.raises(ddp.ProblemError, match=r"running\[0\].*numba cannot compile it"):
        problem(lambda x, u: [].undefined, bent_gradient, bent_hessian)


def test_gradients_are_not_differenced_along_numbers_of_a_curved_space():
    """SE2 has as many numbers as tangents, which are not what is added to them."""
    moved = FunctionDynamics(lambda x, u: ddp.Space([ddp.SE2()]).plus(x, u), 3, 3, state=[ddp.SE2()])
    for listed in (
        {"running": [ddp.JittedTerm(bent, bent_gradient)]},
        {"running": [], "constraints": [ddp.JittedConstraint(lambda x, u: x, lambda x, u: np.eye(3))]},
    ):
        with pytest.raises(ddp.ProblemError, match=r"hessian: expected functions, .* \(nx = 3, n = 3\); got no"):
            ddp.Problem(moved, terminal=[], x0=np.zeros(3), horizon=3, **listed)


def test_a_gradient_that_changes_its_size_is_nan_there_and_nowhere_else():
    problem = dataclasses.replace(
        pendulum(horizon=10), running=[ddp.JittedTerm(wall, longer_far_away, flat)], terminal=[]
    )
    X, U, out = np.zeros((11, 2)), np.zeros((11, 1)), problem.allocate()
    X[3] = -2.0
    problem.expand(X, U, out, 0, 11)
    assert np.isnan(out.lz[3]).all()
    assert np.isfinite(np.delete(out.lz, 3, axis=0)).all()
    assert np.isfinite(out.A).all()


class MadeOnAccess:
    """A compiled term that keeps nothing itself."""

    def __init__(self, system):
        self._given = system, [1.0, -1.0], [2.0, 0.5]

    @property
    def compiled(self):
        return StateCost(*self._given).compiled

    def values(self, X, U):
        return StateCost(*self._given).values(X, U)

    def expand(self, *given):
        StateCost(*self._given).expand(*given)


def test_what_the_table_points_to_lives_as_long_as_the_problem(system, trajectory):
    X, U = trajectory
    ready = ddp.Problem(system, [StateCost(system, [1.0, -1.0], [2.0, 0.5])], [], np.zeros(2), N)
    problem = ddp.Problem(system, [MadeOnAccess(system)], [], np.zeros(2), N)
    rubbish = [np.full(2, np.nan) for _ in range(1000)]
    assert problem.total(X, U[:-1]) == ready.total(X, U[:-1])
    assert len(rubbish) == 1000


def test_states_in_any_order_of_memory_cost_the_same(mixed, trajectory):
    problem, (X, U) = mixed[0], trajectory
    columns = np.asfortranarray(X), np.asfortranarray(U)
    outcomes = [problem.allocate(), problem.allocate()]
    for out, given in zip(outcomes, ((X, U), columns), strict=True):
        problem.expand(*given, out, 0, N + 1)
        problem.expand(*given, out, 0, N + 1, EXACT)
    assert problem.total(columns[0], columns[1][:-1]) == problem.total(X, U[:-1])
    for name in ("l", "lz", "lzz", "exact", "diagonal"):
        np.testing.assert_array_equal(getattr(outcomes[0], name), getattr(outcomes[1], name))


def test_what_is_expanded_at_once_is_what_is_expanded_step_by_step(mixed, trajectory):
    """Any knots go together: all but the Gauss-Newton Hessians, and those afterwards."""
    problem, (X, U) = mixed[0], trajectory
    steps, at_once = problem.allocate(), problem.allocate()
    problem.expand(X, U, steps, 0, N + 1)
    problem.expand(X, U, steps, 0, N + 1, EXACT | RECORDS)
    for start, stop in itertools.pairwise((0, 5, 9, N + 1)):
        problem.expand(X, U, at_once, start, stop, FIRST | EXACT | RECORDS)
    for name in ("A", "B", "record", "l", "lz", "diagonal"):
        np.testing.assert_array_equal(getattr(at_once, name), getattr(steps, name))
    np.testing.assert_array_equal(at_once.hessians(problem.separable), steps.hessians(problem.separable))
    problem.expand(X, U, at_once, 0, N + 1, GAUSS_NEWTON)
    np.testing.assert_array_equal(at_once.lzz, steps.lzz)


def test_kernels_and_functions_of_numba_call_each_other_and_raise():
    @numba.njit
    def grumble(x):
        if x[0] > 1.0:
            raise ValueError("x is", x[0])  # by constants that numba keeps beside the function
        return x[0]

    @kernel.kernel
    def inner(x):
        total = 0.0
        for i in range(x.size):
            total += np.sin(x[i]) * np.exp(x[i]) + np.tanh(x[i]) ** 1.5 + grumble(x[i:])
        return total

    @kernel.kernel
    def outer(x):
        return inner(x) + grumble(x)

    @numba.njit
    def around(x):
        return outer(x) + inner(x)

    x = np.array([0.2, 0.4])
    expected = (np.sin(x) * np.exp(x) + np.tanh(x) ** 1.5 + x).sum()
    assert around(x) == pytest.approx(2.0 * expected + 0.2, rel=1e-12)
    for function in (outer, around):
        with pytest.raises(ValueError, match=r"2\.5"):
            function(np.array([2.5]))


def test_batch_terms_that_write_on_the_trajectory_are_refused():
    class Shifted(Quadratic):
        def values(self, X, U):
            X -= 1.0
            return super().values(X, U)

    system = FunctionDynamics(lambda x, u: x + u, 2, 2)
    with pytest.raises(ddp.ProblemError, match=r"running\[0\] \(Shifted\): values: expected X and U as they were"):
        ddp.Problem(system, [Shifted(np.ones(4), np.zeros(4))], [], np.zeros(2), 3)


def test_batch_terms_that_assign_in_place_of_adding_are_refused():
    class Assigning(Quadratic):
        def expand(self, X, U, weight, exact, l, lz, lzz):
            lz[:] = 0.0
            super().expand(X, U, weight, exact, l, lz, lzz)

    system = FunctionDynamics(lambda x, u: x + u, 2, 2)
    with pytest.raises(ddp.ProblemError, match=r"running\[1\] \(Assigning\): expand: expected it to add"):
        ddp.Problem(system, [lambda x, u: x @ x, Assigning(np.ones(4), np.zeros(4))], [], np.zeros(2), 3)

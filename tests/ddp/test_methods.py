"""Stagewise Newton and second orders that are used again: the same optima and gains, at what they promise to cost."""

import itertools
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from systems import Quadratic, cartpole, pendulum

import ddp
import problems
from ddp.derivatives import EXACT, FIRST, GAUSS_NEWTON, RECORDS, lacking
from ddp.guesses import Guess
from ddp.iterate import Iterate
from ddp.parallel.workers import differentiator
from ddp.sweeps.outcome import AUTO, POLICY, VALUE
from dynamics.steps.function_dynamics import FunctionDynamics


def order_of_convergence(solution):
    e = [record.expected for record in solution.history if record.expected > 1e-25][-3:]
    return float(np.log(e[2] / e[1]) / np.log(e[1] / e[0]))


@cache
def solved(make, solver):
    """The solution of a problem, solved once."""
    return ddp.solve(make(), solver)


@pytest.mark.parametrize("make", [pendulum, cartpole])
def test_newton_ends_where_ddp_does_with_the_same_gains(make):
    newton, rolled, default = (
        solved(make, solver) for solver in (ddp.Newton(1e-14), ddp.DDP(1e-14, step="rollout"), ddp.DDP(1e-14))
    )
    assert newton.stationarity() < 1e-7
    for plain in (rolled, default):
        assert newton.cost == pytest.approx(plain.cost, rel=1e-12)
        np.testing.assert_allclose(newton.K[0], plain.K[0], rtol=1e-5)
    assert {record.contraction for record in newton.history} == {"none", "costate"}
    value = solved(make, ddp.DDP(tolerance=1e-14, multipliers="value"))
    assert {record.contraction for record in value.history} == {"none", "value"}
    assert newton.iterations <= 2 * rolled.iterations


@pytest.mark.parametrize("make", [pendulum, cartpole])
def test_costates_take_over_once_exact_steps_keep_their_promises(make):
    solvers = (ddp.DDP(tolerance=1e-14, multipliers=kind, step="rollout") for kind in ("auto", "value"))
    auto, value = (solved(make, solver) for solver in solvers)
    assert auto.history[-1].contraction == "costate"
    for earlier, before, after in zip(auto.history, auto.history[1:], auto.history[2:], strict=False):
        if after.contraction == "costate":
            decrease = earlier.cost - before.cost
            assert before.step == 1.0
            assert before.hessian != "gauss-newton"
            assert decrease == pytest.approx(before.expected, rel=0.02)
    assert auto.iterations <= value.iterations + 1
    assert auto.cost == pytest.approx(value.cost, rel=1e-12)
    assert order_of_convergence(auto) >= 1.8


@pytest.mark.parametrize("name", ["pendulum/swing-up", "arm/throw", "quadrotor/loop"])
def test_under_the_last_policy_multipliers_take_the_iterations_of_v_x(name):
    entry = problems.find(name)
    problem = entry()
    guess = entry.guess(problem)
    tight = ddp.DDP(tolerance=1e-14, step="rollout")
    auto, value = (ddp.solve(problem, replace(tight, multipliers=kind), guess) for kind in ("auto", "value"))
    assert {record.contraction for record in auto.history} == {"none", "policy"}
    assert auto.iterations <= value.iterations + 2
    assert auto.cost == pytest.approx(value.cost, rel=1e-10)
    np.testing.assert_allclose(auto.K[0], value.K[0], rtol=1e-4, atol=1e-6 * np.abs(value.K[0]).max())
    assert order_of_convergence(auto) >= 1.8


def test_newton_converges_quadratically():
    assert order_of_convergence(solved(pendulum, ddp.Newton(tolerance=1e-14))) >= 1.8


def test_newtons_second_order_is_contracted_once_an_iterate(monkeypatch):
    calls = []
    contract = FunctionDynamics.contract
    monkeypatch.setattr(FunctionDynamics, "contract", lambda *args: (calls.append(1), contract(*args))[1])
    solution = ddp.solve(pendulum(), ddp.Newton())
    exact = sum(record.contraction == "costate" for record in solution.history)
    assert exact <= len(calls) <= solution.iterations + 1


def test_second_orders_that_are_used_again_are_evaluated_less_often(monkeypatch):
    calls = []
    expand = FunctionDynamics.expand_second
    monkeypatch.setattr(FunctionDynamics, "expand_second", lambda *args: (calls.append(1), expand(*args))[1])
    exact = ddp.solve(pendulum(), ddp.DDP(step="rollout"))
    often = len(calls)
    calls.clear()
    again = ddp.solve(pendulum(), ddp.DDP(reuse=2))
    assert len(calls) < often
    assert again.cost == pytest.approx(exact.cost, rel=1e-9)
    assert "kept" in {record.contraction for record in again.history}
    np.testing.assert_allclose(again.K[0], exact.K[0], rtol=1e-4)  # the last sweep is exact
    assert again.iterations <= exact.iterations + 8


@pytest.mark.filterwarnings("ignore:.* fork:DeprecationWarning")
@pytest.mark.usefixtures("forked")
def test_workers_and_reuse_go_together():
    alone, shared = (ddp.solve(pendulum(), ddp.DDP(reuse=1), workers=count) for count in (1, 2))
    assert np.array_equal(alone.U, shared.U)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"multipliers": "lambda"}, "multipliers: expected one of 'auto', 'value', 'costate', 'policy', got 'lambda'"),
        ({"reuse": -1}, "reuse: expected a whole number of at least 0, got -1"),
        ({"reuse": 0.5}, "reuse: expected a whole number"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(ddp.ProblemError, match=message):
        ddp.DDP(**options)


def test_gauss_newton_contracts_nothing():
    assert {record.contraction for record in ddp.solve(pendulum(), ddp.ILQR()).history} == {"none"}


def control_without_effect(x, u):
    return np.array([x[0] + 0.1 * u[0]])


def test_so_does_the_only_control_of_a_small_system():
    cost = Quadratic(np.array([1.0, 1.0, 0.0]), np.ones(3))
    problem = ddp.Problem(FunctionDynamics(lambda x, u: 0.9 * x, 2, 1), [cost], [cost], np.ones(2), 10)
    solution = ddp.solve(problem, guess=np.full((10, 1), 0.5))
    assert (solution.U == 0.5).all()
    assert not solution.K.any()


def test_a_control_that_nothing_depends_on_stays_where_it_is():
    cost = Quadratic(np.array([1.0, 1.0, 0.0]), np.ones(3))
    problem = ddp.Problem(FunctionDynamics(control_without_effect, 1, 2), [cost], [cost], np.zeros(1), 10)
    solution = ddp.solve(problem, guess=np.full((10, 2), 0.5))
    assert (solution.U[:, 1] == 0.5).all()
    assert (solution.K[:, 1] == 0.0).all()
    assert solution.stationarity() < 1e-8


class Whole:
    """A term in Python that says of itself that its Hessian is diagonal, and exact by Gauss-Newton."""

    separable = True

    def __init__(self, beside=0.0):
        self.beside = beside

    def values(self, X, U):
        return 0.5 * (X[:, 0] ** 2 + U[:, 0] ** 2) + self.beside * X[:, 0] * U[:, 0]

    def expand(self, X, U, weight, exact, l, lz, lzz):
        l += weight * self.values(X, U)
        lz[:, 0] += weight * (X[:, 0] + self.beside * U[:, 0])
        lz[:, 1] += weight * (U[:, 0] + self.beside * X[:, 0])
        lzz += weight * np.array([[1.0, self.beside], [self.beside, 1.0]])


@pytest.mark.parametrize("beside", [0.0, 0.25])
def test_separable_terms_in_python_are_there_in_exact_iterations_too(beside):
    """Those that say so falsely, too: their Hessians are read whole."""
    dynamics = FunctionDynamics(lambda x, u: x + 0.1 * np.sin(u) + 0.1 * x * u, 1, 1, 0.1)
    problem = ddp.Problem(dynamics, [Whole(beside)], [Quadratic(np.ones(1), np.zeros(1))], [1.0], 20)
    d, X, U = problem.allocate(), np.ones((21, 1)), np.ones((21, 1))
    problem.expand(X, U, d, 0, 21, FIRST | EXACT | RECORDS)
    whole = 0.1 * np.array([[1.0, beside], [beside, 1.0]])
    np.testing.assert_array_equal(d.hessians(problem.separable)[:20], np.broadcast_to(whole, (20, 2, 2)))
    solution = ddp.solve(problem, ddp.DDP(hessian="exact"))
    assert "not positive definite" not in solution.status
    assert {record.blend for record in solution.history} == {1.0}


def test_gains_that_overflow_leave_nothing_stale(monkeypatch):
    """Contractions with multipliers of theirs are thrown away, and V_x contracts records of this iterate."""
    found = []
    for spoilt in (False, True):
        problem = problems.find("arm/reach").build(horizon=20)
        U = problem.dynamics.nominal_control(problem.x0) + np.random.default_rng(0).normal(size=(20, 6))
        with differentiator(problem, 1) as work:
            iterate = Iterate(problem, work, Guess(np.tile(problem.x0, (21, 1)), U, np.zeros((20, 6, 12))), AUTO)
            iterate.accept(iterate.search(iterate.sweep(0.0, 1e-3), 1.0))
            iterate.backward._K[:] = np.nan if spoilt else iterate.backward._K
            if spoilt:
                assert iterate.sweep(1.0, 1e2).failed >= 0
            else:
                monkeypatch.setattr(iterate.backward, "_chosen", VALUE)
            sweep = iterate.sweep(1.0, 1e2)
            monkeypatch.undo()  # as the next solve may be in the same memory
            assert (sweep.failed, sweep.contraction) == (-1, VALUE)
            found.append(sweep.k.copy())
    np.testing.assert_allclose(*found, rtol=0, atol=1e-12)


def test_a_longer_step_into_the_bottomless_is_not_taken():
    class Depth:
        def value(self, x, u):
            return -np.exp(x[0])

        def gradient(self, x, u):
            return np.array([-np.exp(x[0]), 0.0])

        def hessian(self, x, u):
            return np.zeros((2, 2))

    dynamics = FunctionDynamics(lambda x, u: x + u, 1, 1, 1.0)
    problem = ddp.Problem(dynamics, [Quadratic(np.array([0.0, 0.005]), np.zeros(2))], [Depth()], [1.0], 1)
    with np.errstate(over="ignore"):
        solution = ddp.solve(problem, guess=np.zeros((1, 1)), throw=False)
    assert np.isfinite(solution.cost)


class Coupled:
    """A term whose Hessian is not diagonal."""

    def values(self, X, U):
        return 0.01 * X[:, 0] * X[:, 1]

    def expand(self, X, U, weight, exact, l, lz, lzz):
        l += weight * self.values(X, U)
        lz[:, 0] += weight * 0.01 * X[:, 1]
        lz[:, 1] += weight * 0.01 * X[:, 0]
        lzz[:, [0, 1], [1, 0]] += weight * 0.01


def test_an_exact_sweep_reads_no_hessians_of_gauss_newton():
    plain = problems.find("cartpole/swing-up").build(horizon=30)
    problem = ddp.Problem(plain.dynamics, [*plain.running, Coupled()], plain.terminal, plain.x0, 30)
    with differentiator(problem, 1) as work:
        guess = Guess(np.tile(problem.x0, (31, 1)), np.ones((30, 1)), np.zeros((30, 1, 4)))
        iterate = Iterate(problem, work, guess, AUTO)
        iterate.accept(iterate.search(iterate.sweep(0.0, 1.0), 1.0))
        found = []
        for spoilt in (False, True):
            if spoilt:
                work.derivatives.lzz[~problem.separable] = np.nan
            sweep = iterate.sweep(1.0, 1e2)
            assert (sweep.failed, sweep.contraction) == (-1, POLICY)
            found.append(sweep.k.copy())
    assert np.array_equal(*found)


def test_whatever_is_asked_for_is_made_and_nothing_twice():
    problem, N = problems.find("arm/reach").build(horizon=20), 20
    X, U, of_matrices = np.tile(problem.x0, (N + 1, 1)), np.ones((N + 1, 6)), ~problem.separable
    truth = problem.allocate()
    problem.expand(X, U, truth, 0, N + 1, FIRST | GAUSS_NEWTON | EXACT | RECORDS)
    parts = [
        *((FIRST, getattr(truth, name), name, slice(None)) for name in ("A", "B", "l", "lz")),
        (GAUSS_NEWTON, truth.lzz, "lzz", of_matrices), (EXACT, truth.exact, "exact", of_matrices),
        (RECORDS, truth.record, "record", slice(None)),
    ]  # fmt: skip
    kinds = [FIRST | g | e | r for g in (0, GAUSS_NEWTON) for e in (0, EXACT) for r in (0, RECORDS)]
    for before, then in itertools.product(kinds, kinds):
        out, known = problem.allocate(), 0
        for wanted in (before, then):
            made, known = lacking(known, wanted, problem.curved)
            problem.expand(X, U, out, 0, N + 1, made)
        assert known & (before | then) == before | then
        for what, array, name, knots in parts:
            if known & what:
                np.testing.assert_array_equal(getattr(out, name)[knots], array[knots])
        assert lacking(known, then, problem.curved) == (0, known)


class Dip:
    """-u², of which Gauss-Newton has nothing."""

    def values(self, X, U):
        return -np.sum(U * U, axis=1)

    def expand(self, X, U, weight, exact, l, lz, lzz):
        nx = X.shape[1]
        l += weight * self.values(X, U)
        lz[:, nx:] -= 2.0 * weight * U
        if exact:
            lzz[:, nx:, nx:] -= 2.0 * weight * np.eye(U.shape[1])


def test_weights_of_controls_count_by_their_size_and_are_found_once():
    rest = ddp.Problem(FunctionDynamics(lambda x, u: x + 0.1 * u, 1, 1, 0.1), [Dip()], [], np.zeros(1), 10)
    with differentiator(rest, 1) as work:
        iterate = Iterate(rest, work, Guess(np.zeros((11, 1)), np.zeros((10, 1)), np.zeros((10, 1, 1))), VALUE)
        iterate.sweep(1.0, 10.0)
        known = iterate.known
        assert iterate.control_weight == pytest.approx(0.2)
        assert iterate.known == known


@pytest.mark.parametrize(
    "build", [lambda: problems.arm.reach(horizon=1000), problems.gaits.pace], ids=["long horizon", "gait"]
)
def test_exact_hessians_alone_converge_where_no_shift_makes_them_positive_definite(build):
    problem = build()
    solution = ddp.solve(problem, ddp.DDP(hessian="exact", tolerance=1e-9))
    assert solution.kind == "minimum"
    assert solution.history[-1].blend == 1.0
    assert solution.cost == pytest.approx(ddp.solve(problem, ddp.ILQR(tolerance=1e-9)).cost, rel=1e-6)

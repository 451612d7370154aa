"""Stagewise Newton and second orders that are used again: the same optima and gains, at what they promise to cost."""

import numpy as np
import pytest
from systems import Quadratic, cartpole, pendulum

import ddp
import problems
from dynamics.function_dynamics import FunctionDynamics


def order_of_convergence(solution):
    e = [record.expected for record in solution.history if record.expected > 1e-25][-3:]
    return float(np.log(e[2] / e[1]) / np.log(e[1] / e[0]))


@pytest.mark.parametrize("make", [pendulum, cartpole])
def test_newton_ends_where_ddp_does_with_the_same_gains(make):
    newton, plain = (ddp.solve(make(), solver(tolerance=1e-14)) for solver in (ddp.Newton, ddp.DDP))
    assert newton.cost == pytest.approx(plain.cost, rel=1e-12)
    assert newton.stationarity() < 1e-7
    np.testing.assert_allclose(newton.K[0], plain.K[0], rtol=1e-5)
    assert {record.contraction for record in newton.history} == {"none", "costate"}
    value = ddp.solve(make(), ddp.DDP(multipliers="value"))
    assert {record.contraction for record in value.history} == {"none", "value"}
    assert newton.iterations <= 2 * plain.iterations


@pytest.mark.parametrize("make", [pendulum, cartpole])
def test_costates_take_over_once_exact_steps_keep_their_promises(make):
    auto, value = (ddp.solve(make(), ddp.DDP(tolerance=1e-14, multipliers=kind)) for kind in ("auto", "value"))
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
    auto, value = (ddp.solve(problem, ddp.DDP(tolerance=1e-14, multipliers=kind), guess) for kind in ("auto", "value"))
    assert {record.contraction for record in auto.history} == {"none", "policy"}
    assert auto.iterations <= value.iterations + 2
    assert auto.cost == pytest.approx(value.cost, rel=1e-10)
    np.testing.assert_allclose(auto.K[0], value.K[0], rtol=1e-4, atol=1e-6 * np.abs(value.K[0]).max())
    assert order_of_convergence(auto) >= 1.8


def test_newton_converges_quadratically():
    assert order_of_convergence(ddp.solve(pendulum(), ddp.Newton(tolerance=1e-14))) >= 1.8


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
    exact = ddp.solve(pendulum())
    often = len(calls)
    calls.clear()
    again = ddp.solve(pendulum(), ddp.DDP(reuse=2))
    assert len(calls) < often
    assert again.cost == pytest.approx(exact.cost, rel=1e-9)
    assert "kept" in {record.contraction for record in again.history}
    np.testing.assert_allclose(again.K[0], exact.K[0], rtol=1e-4)  # the last sweep is exact
    assert again.iterations <= exact.iterations + 8


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


def test_a_control_that_nothing_depends_on_stays_where_it_is():
    cost = Quadratic(np.array([1.0, 1.0, 0.0]), np.ones(3))
    problem = ddp.Problem(FunctionDynamics(control_without_effect, 1, 2), [cost], [cost], np.zeros(1), 10)
    solution = ddp.solve(problem, guess=np.full((10, 2), 0.5))
    assert (solution.U[:, 1] == 0.5).all()
    assert (solution.K[:, 1] == 0.0).all()
    assert solution.stationarity() < 1e-8

"""Motions within limits of controls that come sooner as a whole, see sooner.py: oracles are rollouts and policies."""

import logging
from dataclasses import dataclass, replace

import numpy as np
import pytest
from same_bits import same

import ddp
from ddp import descent, sooner
from ddp.batch.compiled_iterations import CompiledIterations
from problems import pendulum


@dataclass(frozen=True)
class InPython(ddp.Backtracking):
    """Search of one's own, for which iterations are made in Python."""


def limited(torque=4.0, horizon=160):
    """A pendulum that has more time for its swing-up than it needs."""
    return replace(pendulum.swing_up(horizon=horizon), control_limits=(-torque, torque))


def guesses(problem, count=4):
    rng = np.random.default_rng(3)
    return [0.5 * rng.normal(size=(problem.horizon, problem.dynamics.nu)) for _ in range(count)]


class Watch:
    """Costs of motions before and after they were asked to come sooner, with the policies that were followed."""

    def __init__(self, monkeypatch):
        self.asked = []
        monkeypatch.setattr(descent, "come_sooner", self)

    def __call__(self, iterate):
        before = iterate.cost, iterate.X.copy(), iterate.U.copy(), iterate.swept.K.copy()
        sooner.come_sooner(iterate)
        self.asked.append(
            (iterate.problem, iterate.unit, *before, iterate.cost, iterate.X, iterate.U, iterate.swept.K.copy())
        )


def test_motions_that_come_sooner_follow_the_policy_of_later_knots_and_cost_less(monkeypatch):
    """Step by step by the dynamics, from x0, within limits, with its gains; that of the last knot again and again."""
    watch, problem = Watch(monkeypatch), limited()
    for guess in guesses(problem):
        ddp.solve(problem, ddp.DDP(search=InPython()), guess)
    moved = [one for one in watch.asked if one[6] < one[2]]
    assert len(moved) >= 2
    for p, unit, cost, X, U, K, reached, to_X, to_U, to_K in moved:
        assert reached < cost - sooner.PAYS * unit
        assert reached == pytest.approx(p.cost(to_X, to_U), rel=1e-12)
        N, found = p.horizon, []
        for knots in (2**i for i in range(int(np.log2(N / sooner.FURTHEST)) + 1)):
            x, worst = p.x0, 0.0
            for t in range(N):
                later = min(t + knots, N - 1)
                u = U[later] + (K[later] @ p.dynamics.difference(X[later], x) if t else 0.0)
                worst = max(worst, np.abs(np.clip(u, p.lower[t], p.upper[t]) - to_U[t]).max())
                x = p.dynamics.step(x, to_U[t])
                worst = max(worst, np.abs(x - to_X[t + 1]).max())
            found.append((worst, knots))
        worst, knots = min(found)
        assert worst < 1e-9
        np.testing.assert_array_equal(to_K, K[np.minimum(np.arange(N) + knots, N - 1)])


def test_swing_ups_within_limits_take_fewer_iterations_where_they_come_sooner(monkeypatch):
    problem = limited()
    come = [ddp.solve(problem, guess=guess) for guess in guesses(problem)]
    monkeypatch.setattr(descent, "come_sooner", lambda iterate: None)
    solver = ddp.DDP(search=InPython())
    stay = [ddp.solve(problem, solver, guess) for guess in guesses(problem)]
    assert all(one.converged for one in [*come, *stay])
    assert sum(one.iterations for one in come) <= 0.8 * sum(one.iterations for one in stay)
    assert all(one.cost <= other.cost * (1.0 + 1e-8) for one, other in zip(come, stay, strict=True))


@pytest.mark.parametrize("hessian", ["auto", "gauss-newton"])
def test_compiled_iterations_come_sooner_as_those_of_python(hessian, monkeypatch):
    watch, problem, made, improve = Watch(monkeypatch), limited(), [], CompiledIterations.improve
    monkeypatch.setattr(CompiledIterations, "improve", lambda *args: made.append(1) or improve(*args))
    for guess in guesses(problem):
        in_python = ddp.solve(replace(problem), ddp.DDP(search=InPython(), hessian=hessian), guess)
        for _ in range(3):  # in Python the first time
            made.clear()
            assert same(ddp.solve(problem, ddp.DDP(hessian=hessian), guess), in_python)
        assert len(made) > 0.5 * in_python.iterations
    assert any(one[6] < one[2] for one in watch.asked)


def test_batches_come_sooner_as_solves_do(monkeypatch):
    watch, problem = Watch(monkeypatch), limited()
    X0 = problem.x0 + np.random.default_rng(0).uniform(-0.3, 0.3, size=(10, 2))
    batch = ddp.Batch(problem, 10)
    found = batch.solve({"x0": X0})
    assert batch.left < 5
    for i, x0 in enumerate(X0):
        alone = ddp.solve(problem.starting_at(x0), ddp.DDP(search=InPython()), throw=False)
        assert found.solution(i).iterations == alone.iterations
        np.testing.assert_allclose(found.solution(i).X, alone.X, rtol=1e-7, atol=1e-7)
    assert sum(one[6] < one[2] for one in watch.asked) >= 3


def test_solves_that_begin_with_an_earlier_motion_keep_its_time(monkeypatch):
    watch, problem = Watch(monkeypatch), limited()
    solver = ddp.DDP(search=InPython())
    first = ddp.solve(problem, replace(solver, max_iterations=6), guesses(problem)[0], throw=False)
    watch.asked.clear()
    assert ddp.solve(problem, solver, first).iterations > 3
    assert watch.asked == []
    ddp.solve(problem, solver, (first.X, first.U))
    assert watch.asked != []


def test_compiled_iterations_hand_over_the_gains_of_python_wherever_a_solve_is_cut():
    """Without a last sweep these are of the last policy, which has come sooner with its motion."""
    problem = limited()
    solver = ddp.DDP(last_sweep=False)
    for guess in guesses(problem):
        whole = ddp.solve(problem, guess=guess)
        for count in range(2, whole.iterations):
            s = ddp.solve(problem, replace(solver, max_iterations=count), guess, throw=False)
            b = ddp.solve(problem, replace(solver, max_iterations=count, search=InPython()), guess, throw=False)
            assert same(s, b)


def test_a_motion_stays_where_a_users_function_fails_on_the_way_sooner(monkeypatch, caplog):
    problem, asked = limited(), []

    def fails(*given):
        raise RuntimeError("not here")

    def within(iterate):
        before = iterate.cost, iterate.X, iterate.U
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(ddp.Problem, "track", fails)
            sooner.come_sooner(iterate)
        asked.append(all(one is own for one, own in zip(before, (iterate.cost, iterate.X, iterate.U), strict=True)))

    monkeypatch.setattr(descent, "come_sooner", within)
    caplog.set_level(logging.DEBUG, logger="mayne")
    assert ddp.solve(problem, ddp.DDP(search=InPython()), guesses(problem)[0]).converged
    assert asked
    assert all(asked)
    assert "does not come sooner: RuntimeError('not here')" in caplog.text

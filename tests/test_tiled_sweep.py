"""The sweep of real problems, with all it is told about them, against the textbook recursion that is told nothing."""

import numpy as np
import pytest
from recursion import dense_sweep

import problems
from ddp.guesses import Guess
from ddp.iterate import Iterate
from ddp.parallel.workers import differentiator
from ddp.sweeps.outcome import COSTATE, POLICY, VALUE


def problem_and_guess(name, torn=False):
    """A benchmark problem, and a trajectory near rest, whose gaps are open if it is ``torn``."""
    problem = problems.find(name)()
    d, rng = problem.dynamics, np.random.default_rng(0)
    U = np.tile(d.nominal_control(problem.x0), (problem.horizon, 1))
    U = U + 0.1 * rng.normal(size=U.shape)
    X = d.rollout(problem.x0, U)
    if torn:
        X[1:] = d.integrate(X[1:], 0.05 * rng.normal(size=(len(U), d.n)))
    return problem, Guess(X, U, np.zeros((*U.shape, d.n)), imposed=torn)


def under_policy(d, K):
    """The gradients of the cost to come, (N, n), at every next state, if du = K dx."""
    N, n, _ = d.B.shape
    p, weights = d.lz[N, :n], np.empty((N, n))
    for t in reversed(range(N)):
        weights[t] = p
        p = d.lz[t, :n] + d.A[t].T @ p + K[t].T @ (d.lz[t, n:] + d.B[t].T @ p)
    return weights


def assert_close(sweep, expected, rtol=1e-7):
    assert sweep.failed == -1
    assert np.abs(sweep.k - expected.k).max() <= rtol * np.abs(expected.k).max()
    assert np.abs(sweep.K - expected.K).max() <= rtol * np.abs(expected.K).max()
    assert sweep.d0 == pytest.approx(expected.d0, rel=1e-9)
    assert sweep.expected == pytest.approx(expected.expected, rel=1e-9)


@pytest.mark.parametrize(
    ("multipliers", "torn"), [(VALUE, False), (VALUE, True), (COSTATE, False), (COSTATE, True), (POLICY, False)]
)
@pytest.mark.parametrize(
    "name", ["quadruped/reorientation", "quadrotor/loop", "arm/reach", "pendulum/swing-up", "cartpole/swing-up"]
)
def test_what_the_sweep_knows_of_a_problem_changes_nothing(name, multipliers, torn):
    problem, guess = problem_and_guess(name, torn)
    d = problem.dynamics
    with differentiator(problem, 1) as work:
        iterate = Iterate(problem, work, guess, multipliers)
        before, K = None, np.empty(0)

        def contract(t, weight):
            weight = weight if before is None else before[t]
            return d.hessian(iterate.X[t], iterate.U[t], weight)

        for blend, mu in ((0.0, 1e-6), (0.5, 10.0), (1.0, 10.0)):
            if multipliers == POLICY and blend == 0.5:  # once an iterate
                before = under_policy(work.derivatives, K)
            sweep = iterate.sweep(blend, mu)
            K = sweep.K.copy()
            assert sweep.contraction == (multipliers if blend > 0.0 else "none")
            around = d.closing(), blend, mu, iterate.gaps
            found, where = work.derivatives, problem.separable
            whole = found._replace(lzz=found.hessians(where, exact=False), exact=found.hessians(where))
            assert_close(sweep, dense_sweep(whole, contract, *around, by_costate=multipliers == COSTATE))


@pytest.mark.parametrize("name", ["quadruped/reorientation", "quadrotor/loop", "arm/throw", "cartpole/swing-up"])
def test_under_its_own_gains_weights_are_those_of_the_sweep(name):
    problem, guess = problem_and_guess(name)
    with differentiator(problem, 1) as work:
        iterate = Iterate(problem, work, guess, POLICY)
        first = iterate.sweep(1.0, 10.0)
        assert first.contraction == VALUE  # no policy is known yet
        first = first._replace(k=first.k.copy(), K=first.K.copy())
        again = iterate.sweep(1.0, 10.0)
        assert again.contraction == POLICY
        assert_close(again, first)

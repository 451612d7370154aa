"""The sweep of real problems, with all it is told about them, against the textbook recursion that is told nothing."""

import numpy as np
import pytest
from recursion import dense_sweep

import problems
from ddp.iterate import Guess, Iterate
from ddp.workers import differentiator


@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("name", ["quadruped/reorientation", "quadrotor/loop", "arm/reach"])
def test_what_the_sweep_knows_of_a_problem_changes_nothing(name, torn):
    problem = problems.find(name)()
    d, rng = problem.dynamics, np.random.default_rng(0)
    U = np.tile(d.nominal_control(problem.x0), (problem.horizon, 1))
    U = U + 0.1 * rng.normal(size=U.shape)
    X = d.rollout(problem.x0, U)
    if torn:
        X[1:] = d.integrate(X[1:], 0.05 * rng.normal(size=(len(U), d.n)))
    with differentiator(problem, 1) as work:
        iterate = Iterate(problem, work, Guess(X, U, np.zeros((*U.shape, d.n)), imposed=torn))

        def contract(t, weight):
            out = np.empty((1, d.n + d.nu, d.n + d.nu))
            d.contract(work.derivatives.record[t, None], weight[None], out)
            return out[0]

        for blend, mu in ((0.0, 1e-6), (0.5, 10.0), (1.0, 10.0)):
            sweep = iterate.sweep(blend, mu)
            expected = dense_sweep(work.derivatives, contract, d.closing(), blend, mu, iterate.gaps)
            assert sweep.failed == -1
            assert np.abs(sweep.k - expected.k).max() <= 1e-7 * np.abs(expected.k).max()
            assert np.abs(sweep.K - expected.K).max() <= 1e-7 * np.abs(expected.K).max()
            assert sweep.d0 == pytest.approx(expected.d0, rel=1e-9)
            assert sweep.expected == pytest.approx(expected.expected, rel=1e-9)

"""The tiled sweep of real problems, with all it is told about them, against the general one that is told nothing."""

import numpy as np
import pytest

import problems
from ddp.backward import Backward
from ddp.iterate import Guess, Iterate
from ddp.workers import differentiator


@pytest.mark.parametrize("name", ["quadruped/reorientation", "quadrotor/loop", "arm/reach"])
def test_what_the_tiled_sweep_knows_of_a_problem_changes_nothing(name, monkeypatch):
    entry = problems.find(name)
    problem = entry()
    rng = np.random.default_rng(0)
    U = np.tile(problem.dynamics.nominal_control(problem.x0), (problem.horizon, 1))
    U = U + 0.1 * rng.normal(size=U.shape)
    X = problem.dynamics.rollout(problem.x0, U)
    with differentiator(problem, 1) as work:
        iterate = Iterate(problem, work, Guess(X, U, np.zeros((*U.shape, problem.dynamics.n))))
        for blend, mu in ((0.0, 1e-6), (0.5, 10.0), (1.0, 10.0)):
            monkeypatch.undo()
            tiled = iterate.sweep(blend, mu)
            k, K = tiled.k.copy(), tiled.K.copy()
            monkeypatch.setattr(Backward, "_plain", False)
            general = iterate.sweep(blend, mu)
            assert tiled.failed == general.failed == -1
            assert np.abs(k - general.k).max() <= 1e-7 * np.abs(general.k).max()
            assert np.abs(K - general.K).max() <= 1e-7 * np.abs(general.K).max()
            assert tiled.d0 == pytest.approx(general.d0, rel=1e-9)

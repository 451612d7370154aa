"""Promises to an outer loop: the inner one goes on from the same iterate when the costs have changed."""

import numpy as np
import pytest
from systems import Quadratic, pendulum

import ddp
from ddp.guesses import Guess
from ddp.iterate import Iterate
from ddp.loop import run
from ddp.parallel.workers import differentiator


def test_the_loop_goes_on_from_where_it_was_when_costs_have_changed():
    plain, weights = pendulum(), np.zeros(3)
    extra = Quadratic(weights, np.array([0.0, 0.0, 0.5]))
    problem = ddp.Problem(plain.dynamics, [*plain.running, extra], plain.terminal, plain.x0, plain.horizon)
    start = Guess(np.zeros((101, 2)), np.zeros((100, 1)), np.zeros((100, 1, 2)))
    history = []
    with differentiator(problem, 1) as work:
        iterate = Iterate(problem, work, start)
        assert run(iterate, ddp.DDP(), history, None).status.ending.converged
        assert iterate.cost == pytest.approx(2.9008066548, rel=1e-8)
        weights[2] = 1.0
        iterate.evaluate()
        assert iterate.cost == problem.cost(iterate.X, iterate.U)
        assert run(iterate, ddp.DDP(), history, None).status.ending.converged
    heavier = ddp.solve(problem)
    assert iterate.cost == pytest.approx(heavier.cost, rel=1e-9)
    assert iterate.cost > 2.95

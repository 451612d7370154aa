"""Gaits from random starts, and every gait of every robot: ``make bench`` does all of them, the tests a few."""

import numpy as np
import pytest

import ddp
from problems import anymal_gaits, gaits, legged

ROBOTS = ["anymal", "hyq", "solo12", "a1", "go1", "go2", "b1"]
NOISE = 2.0
"""Of each control of the guess [N m]."""


@pytest.mark.parametrize("name", anymal_gaits.GAITS)
def test_crocoddyls_gaits_from_random_starts(benchmark, name):
    problem = anymal_gaits.gait(name)
    _from_random_starts(benchmark, problem, anymal_gaits.guess(problem))


@pytest.mark.parametrize("name", gaits.GAITS)
def test_gaits_from_random_starts(benchmark, name):
    problem = gaits.GAITS[name]()
    _from_random_starts(benchmark, problem, legged.follow_nominal(problem))


def _from_random_starts(benchmark, problem, guess):
    """20 of 20 converge, to one optimum."""
    X, U = guess
    best = ddp.solve(problem, guess=guess).cost

    def solve(seed):
        noise = NOISE * np.random.default_rng(seed).normal(size=U.shape)
        return ddp.solve(problem, guess=(X, U + noise), throw=False)

    solutions = [benchmark.pedantic(solve, args=(0,), rounds=3)]
    solutions += [solve(seed) for seed in range(1, 20 if benchmark.enabled else 1)]
    for seed, solution in enumerate(solutions):
        assert solution.converged, f"start {seed}: {solution}"
        assert solution.cost == pytest.approx(best, rel=1e-4), f"start {seed}"


@pytest.mark.parametrize("robot", ROBOTS)
@pytest.mark.parametrize("gait", gaits.GAITS)
def test_every_robot_does_every_gait_in_two_seconds(benchmark, gait, robot):
    problem = gaits.GAITS[gait](robot, dt=0.01 if benchmark.enabled else 0.04)
    guess = legged.follow_nominal(problem)
    assert benchmark(ddp.solve, problem, guess=guess).converged
    if benchmark.enabled:
        assert benchmark.stats["min"] <= 2.0

"""Gaits from random starts, and every gait of every robot: ``make bench`` does all of them, the tests a few."""

import crocoddyl_gaits
import numpy as np
import pytest

import ddp
import dynamics
from ddp.machine.aligned import aligned_zeros
from ddp.systems.system import Expansion
from problems import gaits, legged

ROBOTS = ["anymal", "hyq", "solo12", "a1", "go1", "go2", "b1"]
NOISE = 2.0
"""Of each control of the guess [N m]."""


KNOT = 12e-6
"""Seconds for a knot of ANYmal on four feet, first and contracted second order, of an idle machine."""


def test_a_constrained_knot_to_second_order(benchmark):
    robot, rng, N = dynamics.load("anymal"), np.random.default_rng(0), 104
    feet = [dynamics.Contact(foot, gains=(0.0, 50.0)) for foot in crocoddyl_gaits.FEET]
    system = dynamics.PhasedDynamics(robot, 0.01, dynamics.Phase(feet, N))
    n, nu = system.n, system.nu
    X = system.integrate(np.tile(np.concatenate([robot.q0, np.zeros(18)]), (N, 1)), 0.1 * rng.normal(size=(N, n)))
    U, weight = 5.0 * rng.normal(size=(N, nu)), rng.normal(size=(N, n))
    out = Expansion(aligned_zeros((N, n, n)), aligned_zeros((N, n, nu)), aligned_zeros((N, system.record_size)))
    H = aligned_zeros((N, n + nu, n + nu))

    def both_orders():
        system.expand(X, U, out)
        system.contract(out.record, weight, H)

    benchmark(both_orders)
    for t in (0, 50):  # one by one
        np.testing.assert_array_equal(out.A[t], system.linearize(X[t], U[t], t)[0])
        np.testing.assert_array_equal(H[t], system.hessian(X[t], U[t], weight[t], t))
    if benchmark.enabled:
        assert benchmark.stats["min"] / N <= KNOT


@pytest.mark.parametrize("name", crocoddyl_gaits.GAITS)
def test_crocoddyls_gaits_from_random_starts(benchmark, name):
    problem = crocoddyl_gaits.gait(name)
    _from_random_starts(benchmark, problem, crocoddyl_gaits.guess(problem))


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
    problem = gaits.GAITS[gait](robot)
    guess = legged.follow_nominal(problem)
    assert benchmark(ddp.solve, problem, guess=guess).converged
    if benchmark.enabled:
        assert benchmark.stats["min"] <= 2.0

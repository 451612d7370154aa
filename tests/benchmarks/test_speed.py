"""Speed on one thread and warm: ``make bench``. Bars are asserted on the fastest round; machines are noisy."""

import copy
import timeit
from types import SimpleNamespace

import numpy as np
import pytest

import ddp
import dynamics
import problems
from ddp.compiling.kernel import call_contraction, kernel
from ddp.derivatives import EXACT
from ddp.guesses import Guess
from ddp.iterate import Iterate
from ddp.parallel.workers import differentiator
from ddp.systems.system import Expansion
from problems.costs import ControlCost, StateCost

N = 100


@kernel
def contract_all(address, context, record, weight, H):
    for t in range(record.shape[0]):
        call_contraction(address, context, record[t].ctypes.data, weight[t].ctypes.data, H[t].ctypes.data)


@pytest.mark.parametrize(("name", "bar"), [("ur5", None), ("hyq", 2.0e-3), ("talos", None)])
def test_first_and_contracted_second_derivatives_of_100_knots(benchmark, name, bar):
    robot = dynamics.load(name)
    system = dynamics.RobotDynamics(robot, 0.01)
    n, nz = system.n, system.n + system.nu
    rng = np.random.default_rng(0)
    X = np.stack([np.concatenate([robot.random_configuration(rng), rng.normal(size=robot.nv)]) for _ in range(N)])
    U, weight = rng.normal(size=(N, system.nu)), rng.normal(size=(N, n))
    out = Expansion(np.empty((N, n, n)), np.empty((N, n, system.nu)), np.empty((N, system.record_size)))
    H = np.empty((N, nz, nz))
    address, context, _ = system.contraction()

    def derivatives():
        system.expand(X, U, out)
        system.expand_second(X, U, out)
        contract_all(address, context, out.record, weight, H)

    derivatives()
    benchmark(derivatives)
    assert np.isfinite(H).all()
    if bar is not None and benchmark.enabled:
        assert benchmark.stats["min"] <= bar


@pytest.mark.parametrize(("name", "bar"), [("arm/reach", None), ("quadruped/reorientation", 9.0e-3)])
def test_one_iteration(benchmark, name, bar):
    """The mean over the first ten iterations, line searches and failed sweeps included."""
    entry = problems.find(name)
    problem = entry()
    guess = entry.guess(problem)
    ddp.solve(problem, guess=guess)

    def ten_iterations():
        return ddp.solve(problem, ddp.DDP(max_iterations=10), guess=guess, throw=False)

    solution = benchmark(ten_iterations)
    assert len(solution.history) == 10
    if bar is not None and benchmark.enabled:
        assert benchmark.stats["min"] / 10 <= bar


@pytest.mark.parametrize("name", problems.ALL)
def test_a_whole_solve(benchmark, name):
    entry = problems.find(name)
    problem = entry()
    guess = entry.guess(problem)
    ddp.solve(problem, guess=guess)
    assert benchmark(ddp.solve, problem, guess=guess).converged


PHASES = ["pendulum/swing-up", "arm/reach", "quadruped/reorientation", "quadrotor/loop"]


@pytest.mark.parametrize("gap", [0.0, 0.01])
@pytest.mark.parametrize("name", PHASES)
def test_a_backward_sweep(benchmark, name, gap):
    iterate = at_the_guess(name)
    iterate.backward.gaps = np.full_like(iterate.gaps, gap)
    sweep = benchmark(iterate.sweep, 0.0, 1e-6)
    assert sweep.failed < 0


@pytest.mark.parametrize("name", PHASES)
def test_eight_rollouts(benchmark, name):
    iterate = at_the_guess(name)
    sweep, problem = iterate.sweep(0.0, 1e-6), iterate.problem
    rest = 0.5 ** np.arange(8.0), iterate.gaps, problem.lower, problem.upper
    Xs, _ = benchmark(problem.dynamics.track, iterate.X, iterate.U, sweep.k, sweep.K, *rest)
    assert np.isfinite(Xs[-1]).all()


@pytest.mark.parametrize("name", PHASES)
def test_costs_and_their_gauss_newton_expansion(benchmark, name):
    iterate = at_the_guess(name)
    problem, U = iterate.problem, iterate.problem.padded(iterate.U)
    out = problem.allocate()
    benchmark(without_dynamics(problem).expand, iterate.X, U, out, 0, len(iterate.X))
    assert out.l.sum() == pytest.approx(problem.cost(iterate.X, iterate.U), rel=1e-12)


@pytest.mark.parametrize("name", ["pendulum/swing-up", "arm/reach"])
def test_a_jitted_cost_takes_at_most_three_times_a_built_in_one_of_the_same_size(benchmark, name):
    """Costs of a rollout, their expansion and exact Hessians, of weighted squares of states and controls."""
    base = problems.find(name)()
    system, n, nu = base.dynamics, base.dynamics.n, base.dynamics.nu
    w, goal = np.linspace(1.0, 2.0, n + nu), np.linspace(0.0, 1.0, n)

    def value(x, u):
        total = 0.0
        for i in range(n):
            total += 0.5 * w[i] * (x[i] - goal[i]) ** 2
        for i in range(nu):
            total += 0.5 * w[n + i] * u[i] ** 2
        return total

    def gradient(x, u):
        return w * np.concatenate((x - goal, u))

    def diagonal(x, u):
        return w

    X = np.random.default_rng(0).normal(size=(N + 1, n))
    U = np.vstack([np.ones((N, nu)), np.zeros((1, nu))])

    def work(terms):
        problem = ddp.Problem(system, terms, [], base.x0, N)
        out, costs = problem.allocate(), without_dynamics(problem)

        def everything():
            costs.total(X, U)
            costs.expand(X, U, out, 0, N + 1)
            costs.expand(X, U, out, 0, N + 1, EXACT)

        everything()
        return everything, out

    built_in, expected = work([StateCost(system, goal, w[:n]), ControlCost(np.zeros(nu), w[n:])])
    jitted, out = work([ddp.JittedTerm(value, gradient, diagonal)])
    benchmark(jitted)
    np.testing.assert_allclose(out.lz, expected.lz, atol=1e-14)
    if benchmark.enabled:
        theirs, ours = (min(timeit.repeat(f, number=20, repeat=50)) for f in (jitted, built_in))
        benchmark.extra_info["ratio"] = theirs / ours
        assert theirs <= 3.0 * ours


def without_dynamics(problem: ddp.Problem) -> ddp.Problem:
    """Costs of the problem alone."""
    nothing = SimpleNamespace(expand=lambda *arguments: None, dt=problem.dynamics.dt)
    costs = copy.copy(problem)
    object.__setattr__(costs, "dynamics", nothing)
    return costs


def at_the_guess(name: str) -> Iterate:
    entry = problems.find(name)
    problem = entry()
    U = entry.guess(problem)
    U = np.tile(problem.dynamics.nominal_control(problem.x0), (problem.horizon, 1)) if U is None else U
    X = problem.dynamics.rollout(problem.x0, U)
    still = np.zeros((*U.shape, problem.dynamics.n))
    with differentiator(problem, 1) as work:
        return Iterate(problem, work, Guess(X, U, still))

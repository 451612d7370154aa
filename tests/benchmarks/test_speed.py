"""How fast, on one thread and warm: ``make bench``. Bars are asserted on the fastest round; machines are noisy."""

import numpy as np
import pytest

import ddp
import dynamics
import problems
from ddp.kernel import call_contraction, kernel
from ddp.protocols import Expansion

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

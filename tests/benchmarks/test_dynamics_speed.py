"""Speed of the dynamics, on one thread and warm: ``make bench``, and ``mayne bench dynamics`` for the table.

Ratios are to Pinocchio's C++ called per knot from Python, timed in the same run. Bars are those of an idle machine with
registers of eight doubles; they are asserted where benchmarks are asked for.
"""

import os
import subprocess
import sys
import time

import numpy as np
import pinocchio as pin
import pytest

import dynamics
from problems.command import dynamics_bench

CASES = [(robot, quantity) for robot in dynamics_bench.ROBOTS for quantity in dynamics_bench.BARS]


@pytest.mark.parametrize(("robot", "quantity"), CASES)
def test_derivatives_against_pinocchio(benchmark, robot, quantity):
    case = next(case for case in dynamics_bench.cases(robot) if case.quantity == quantity)
    benchmark(case.ours)
    if benchmark.enabled:
        row = dynamics_bench.compare(case, 3.0)
        benchmark.extra_info.update(row._asdict())
        assert row.ratio <= row.bar


@pytest.mark.parametrize("links", dynamics_bench.CHAINS)
def test_both_orders_of_a_chain(benchmark, links):
    benchmark(dynamics_bench.both_orders(dynamics_bench.tree(links)))
    if benchmark.enabled:
        row = next(row for row in dynamics_bench.scaling(8.0) if row.robot == f"chain {links}")
        benchmark.extra_info.update(row._asdict())
        assert row.ratio <= row.bar


EVERYTHING = (
    dynamics.inverse_dynamics, dynamics.inverse_dynamics_derivatives, dynamics.inverse_dynamics_second_derivatives,
    dynamics.forward_dynamics, dynamics.forward_dynamics_derivatives, dynamics.forward_dynamics_second_derivatives,
    dynamics.linearize,
)  # fmt: skip


def run_everything():
    """Call every function of robots once, one sample and a batch, with first, second and contracted derivatives."""
    robot = dynamics.load(pin.buildSampleModelManipulator())
    rng = np.random.default_rng(0)
    for N in ((), (8,)):
        q = np.tile(robot.random_configuration(rng), (*N, 1))
        v, a, w = rng.normal(size=(3, *N, robot.nv))
        for function in EVERYTHING:
            function(robot, q, v, a)
        dynamics.inverse_dynamics_hessian(robot, q, v, a, w)
        dynamics.forward_dynamics_hessian(robot, q, v, a, w)
    dynamics.OneSample(robot).forward_dynamics_derivatives(q[0], v[0], a[0])
    for integrator in ("semi-implicit-euler", "rk4"):
        system = dynamics.RobotDynamics(robot, 0.01, integrator=integrator)
        x = np.concatenate([q[0], v[0]])
        system.hessian(x, a[0], np.ones(system.n))
        system.contraction()
        system.difference(system.rollout(x, a), np.tile(x, (len(a) + 1, 1)))
        system.integrate(x, np.ones(system.n))


def first_calls(cache):
    """Seconds of a core that the first calls of everything take a new process with this folder of kernels."""
    environment = os.environ | {"MAYNE_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout.splitlines()[-1])


def test_first_calls(benchmark, tmp_path):
    if not benchmark.enabled:
        benchmark(run_everything)
        return
    cold, cached = benchmark.pedantic(lambda: (first_calls(tmp_path), first_calls(tmp_path)), rounds=1)
    benchmark.extra_info.update({"cold": cold, "from the cache": cached})
    assert cold <= 30.0
    assert cached <= 1.0


if __name__ == "__main__":
    begin = time.process_time()
    run_everything()
    print(time.process_time() - begin)

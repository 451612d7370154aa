"""Speed of the dynamics, on one thread and warm: ``make bench``, and ``mayne bench dynamics`` for the table.

Ratios are to Pinocchio's C++ called per knot from Python, timed in the same run. Bars are those of an idle machine with
registers of eight doubles; they are asserted where benchmarks are asked for.
"""

import pytest

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


def test_first_calls(benchmark):
    times = benchmark.pedantic(dynamics_bench.starts, rounds=1) if benchmark.enabled else None
    if times is None:
        benchmark(dynamics_bench.run_everything)
    else:
        benchmark.extra_info.update(times)
        assert times["cold"] <= 30.0
        assert times["from the cache"] <= 1.0

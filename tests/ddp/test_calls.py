"""Python calls of an iteration: the loop is a thin shell around kernels, which are counted too."""

import statistics
import sys
from itertools import pairwise

import pytest

import ddp
import problems


def calls_of_iterations(problem, solver):
    """Calls between the ends of iterations of a solve that has nothing to compile; kernels count as one."""
    ddp.solve(problem, solver, throw=False)
    calls, ends = 0, []

    def end(record):
        ends.append(calls)

    def count(frame, event, argument):
        nonlocal calls
        calls += event == "call" and frame.f_code is not end.__code__

    sys.setprofile(count)
    try:
        ddp.solve(problem, solver, callback=end, throw=False)
    finally:
        sys.setprofile(None)
    return [after - before for before, after in pairwise(ends)]


@pytest.mark.parametrize(("name", "bound"), [("arm/reach", 10), ("quadruped/trot", 80)])
def test_an_iteration_takes_few_python_calls(name, bound):
    assert statistics.median(calls_of_iterations(problems.find(name).build(), ddp.DDP())) <= bound

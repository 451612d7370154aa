"""Trials that are rolled out after a linear one was refused: where the filter might accept them."""

import numpy as np
import pytest

from ddp.compiling.kernel import kernel
from ddp.interior import iteration
from ddp.interior.course import KNOWN
from ddp.interior.iteration import Decisions, may_do
from ddp.interior.memory import LANES, Memory
from ddp.interior.point import Point
from ddp.interior.trials import Worth
from ddp.machine.written import assign, copied, read_one
from ddp.parallel.workers import Workers, differentiator
from tests.ddp.constrained_systems import on_a_rail


@kernel
def asked(memory, decisions, theta, cost, theta0, phi0, alpha):
    """Ask after a trial with these numbers, from a point with those, along a step of slope -1."""
    return may_do(Decisions(decisions), Memory(memory), Worth(cost, 0.0, theta, 0.0, 0.0), theta0, phi0, -1.0, alpha)


@pytest.mark.parametrize(
    ("rows", "gaps", "cost", "may"),
    [
        (0.5, 2.0, 3.0, True),  # gaps alone are in the way
        (1.5, 2.0, 3.0, True),  # rows are as well, but gaps are much of what is open
        (1.5, 0.5, 3.0, False),
        (1.5, 0.0, 3.0, False),
        (1.5, 0.5, 1.0, True),  # the cost falls
        (np.inf, 2.0, 1.0, True),  # nobody knows
    ],
)
def test_only_trials_are_rolled_out_that_would_be_accepted_with_smaller_gaps(rows, gaps, cost, may):
    problem = on_a_rail()
    U = np.zeros((problem.horizon, problem.dynamics.nu))
    with differentiator(problem, Workers(1)) as work, np.errstate(all="ignore"):
        point = Point(problem, work, problem.dynamics.rollout(problem.x0, U), U, 1.0, 0.01)
        decisions, tried = copied(point.place.decisions), point.place.own["tried_gaps"]
        point.gaps[:] = 0.0
        point.gaps[3, 1] = 0.6
        point.do(iteration.begin, decisions.address, 0, KNOWN)
        tried[:] = 0.0
        tried[5, 0] = gaps
        assign(point.memory, {"ahead": LANES - 1})
        assert point.do(asked, decisions.address, np.hypot(rows, gaps), cost, 1.0, 2.0, 0.5) is may
        assert read_one(point.memory, "ahead") == LANES - 1 - (not may)  # a trial that is left out is not looked at


def test_half_of_a_gap_stays_open_after_half_of_a_step():
    """Rows .97, the gap .5: with half of it .97 and .25 come to more than 1."""
    problem = on_a_rail()
    U = np.zeros((problem.horizon, problem.dynamics.nu))
    with differentiator(problem, Workers(1)) as work, np.errstate(all="ignore"):
        point = Point(problem, work, problem.dynamics.rollout(problem.x0, U), U, 1.0, 0.01)
        decisions = copied(point.place.decisions)
        point.gaps[:] = 0.0
        point.gaps[3, 1] = 0.5
        point.do(iteration.begin, decisions.address, 0, KNOWN)
        point.place.own["tried_gaps"][:] = point.gaps
        theta = np.hypot(0.97, 0.5)
        assert not point.do(asked, decisions.address, theta, 3.0, 1.0, 2.0, 0.5)
        assert point.do(asked, decisions.address, theta, 3.0, 1.0, 2.0, 1.0)

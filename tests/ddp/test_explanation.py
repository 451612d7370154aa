"""An explanation adds up to the cost, names what holds, and knows something to try for every ending."""

import re

import numpy as np
import pytest

import ddp
from ddp.explanation import ADVICE
from ddp.status import Ending
from problems import arm, gaits, pendulum


@pytest.mark.parametrize("build", [arm.reach, lambda: gaits.jump("solo12")], ids=["reach", "jump"])
def test_shares_of_terms_add_up_to_the_cost(build):
    solution = ddp.solve(build(), ddp.DDP(max_iterations=3), throw=False)
    shares = solution.explain().shares
    assert sum(cost for _, cost in shares) == pytest.approx(solution.cost, rel=1e-12)
    assert len(shares) == solution.problem.objective.count
    assert [abs(cost) for _, cost in shares] == sorted((abs(cost) for _, cost in shares), reverse=True)


def test_what_holds_a_motion_is_named():
    limited = pendulum.swing_up()
    limited = ddp.Problem(
        limited.dynamics, limited.running, limited.terminal, limited.x0, limited.horizon, control_limits=(-3.0, 3.0),
        constraints=[ddp.Inequality(lambda x, u: x[1] - 6.0)],
    )  # fmt: skip
    solution = ddp.solve(limited)
    active = "\n".join(solution.explain().active)
    at_limit = int((np.abs(solution.U) == 3.0).sum())
    assert at_limit > 0
    assert sum(int(count) for count in re.findall(r"limit at (\d+) of", active)) == at_limit
    (residual,) = solution.residuals()
    assert (f"{residual.name} at" in active) == bool(np.abs(residual.multipliers).max() > 0.0)
    assert "held by\n  control" in str(solution.explain())


def test_every_ending_that_is_no_success_has_advice():
    failures = {ending for ending in Ending if not ending.converged} - {Ending.UNKNOWN}
    assert set(ADVICE) == failures
    unfinished = ddp.solve(pendulum.swing_up(), ddp.DDP(max_iterations=2), throw=False)
    assert "\ntry\n  give it more" in str(unfinished.explain())
    finished = ddp.solve(pendulum.swing_up())
    assert finished.explain().advice == ""
    assert "\ntry" not in str(finished.explain())

"""Whole solves of gaits with second orders as blocks, beside the same with Hessians."""

from dataclasses import replace

import numpy as np
import pytest

import ddp
import problems
from dynamics import PhasedDynamics
from problems import gaits


def between_cones():
    """A bound whose forces are on cones, so that gains keep them there: controls are solved for at these knots."""
    return gaits.bound("hyq", cones="constraint")


def within_limits():
    """A jump whose torques are at their limits for a while."""
    return replace(problems.find("quadruped/jump")(), control_limits=(-70.0, 70.0))


@pytest.mark.parametrize("build", [between_cones, within_limits])
def test_blocks_lead_where_hessians_do(build, monkeypatch):
    found = []
    for blockwise in (True, False):
        if not blockwise:
            monkeypatch.setattr(PhasedDynamics, "in_blocks", 0)
            monkeypatch.setattr(PhasedDynamics, "routines", lambda self, *options: None)  # they are of blocks
        problem = build()
        assert bool(problem.structure.blockwise) == blockwise
        found.append(ddp.solve(problem))
    ours, theirs = found
    assert ours.converged
    assert ours.iterations == theirs.iterations
    for name in ("X", "U", "K", "multipliers"):
        mine, truth = getattr(ours, name), getattr(theirs, name)
        np.testing.assert_allclose(mine, truth, rtol=0.0, atol=1e-9 * np.abs(truth).max(initial=0.0), err_msg=name)

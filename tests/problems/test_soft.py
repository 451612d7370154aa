"""Soft and hybrid robots by name: systems that are simulated, and problems of reaching."""

import json

import numpy as np
import pytest
from commands import fails_with, mayne

from ddp.errors import ProblemError
from problems import soft


@pytest.fixture(scope="module")
def systems():
    return {name: soft.system(name) for name in soft.SYSTEMS}


@pytest.mark.parametrize("name", soft.SYSTEMS)
def test_systems_are_complete_and_move(systems, name):
    moving = systems[name]
    assert moving.name == name
    assert moving.description
    assert moving.u(0.3).shape == (moving.dynamics.nu,)
    assert all(moving.robot.has_frame(frame) for frame in moving.frames)
    motion = moving.simulate(5 * moving.dt)
    assert np.isfinite(motion.X).all()
    assert np.abs(motion.X[-1] - motion.X[0]).max() > 1e-6


def test_unknown_systems_are_answered_with_the_nearest():
    with pytest.raises(ProblemError, match="did you mean 'soft/cable-arm'"):
        soft.system("soft/cable")


def test_the_command_simulates_and_lists_systems():
    answer = json.loads(mayne("simulate", "soft/cable-arm", "--seconds", 0.1, "--json").stdout)
    assert answer["finished"]
    assert answer["steps"] == 5
    assert len(answer["ends"]["arm/tip"]) == 3
    assert [row["name"] for row in json.loads(mayne("simulate", "--json").stdout)] == list(soft.SYSTEMS)
    fails_with(mayne("simulate", "soft/arm"), 2, "there is none called 'soft/arm'")
    fails_with(mayne("simulate", "soft/cable-arm", "--seconds", 0), 2, "--seconds: expected a positive number")

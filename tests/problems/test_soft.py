"""Soft and hybrid robots by name: systems that are simulated, and problems of reaching."""

import json

import numpy as np
import pytest
from commands import fails_with, mayne

from ddp.errors import ProblemError
from dynamics import statics
from dynamics.robots import loop
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


@pytest.mark.parametrize("name", ["soft/fin-ray", "soft/parallel"])
def test_loops_are_kept_at_every_step(systems, name):
    robot, X = systems[name].robot, systems[name].simulate(0.2).X
    left = [loop.errors(robot.mechanism, robot.loops, x[: robot.nq])[0] for x in X]
    assert np.abs(left).max() < 1e-9
    assert np.abs(X[-1] - X[0]).max() > 1e-3


def test_the_platform_rests_under_any_small_push(systems):
    robot, U = systems["soft/parallel"].robot, np.zeros((16, 15))
    U[:, :6] = np.random.default_rng(0).uniform(-0.5, 0.5, (16, 6)) * [1.0, 1.0, 1.0, 0.1, 0.1, 0.1]
    rest = statics(robot, u=U)
    assert rest.converged.all()
    system = systems["soft/parallel"].dynamics
    x = np.append(rest.q[0], np.zeros(robot.nv))
    np.testing.assert_allclose(system.step(x, U[0]), x, rtol=0, atol=1e-8)
    np.testing.assert_allclose(loop.errors(robot.mechanism, robot.loops, rest.q[0])[0], 0.0, atol=1e-9)


def test_joints_of_the_arm_and_the_slider_move_as_they_are_told(systems):
    for name in ("soft/serial", "soft/fin-ray"):
        moving = systems[name]
        motion = moving.simulate(10 * moving.dt)
        for joint, path in moving.prescribed.items():
            i = moving.robot.tree.iq[moving.robot.joint_names.index(joint)]
            truth = [path(t) for t in motion.t]
            np.testing.assert_allclose(motion.X[:, i], truth, rtol=0, atol=2e-5)


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

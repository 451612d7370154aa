"""Policies learn how late their controls act and that feet slide, and nothing where neither is so."""

from collections import deque
from dataclasses import replace

import numpy as np
import pytest
from oracles import random_state, random_tree
from thorough import cases

import ddp
import dynamics
from ddp.feedback.adaptive import AdaptivePolicy
from ddp.systems.system import Cones, Footing

PERIOD = 0.001
"""Of the controller [s]."""


def moving(seed, horizon=20):
    """A motion under torques that jump every 10 ms, as a solution."""
    robot, rng = random_tree(seed), np.random.default_rng(seed)
    system = dynamics.RobotDynamics(robot, 0.01)
    x0, U = np.concatenate(random_state(robot, rng, speed=0.3)[:2]), 3.0 * rng.normal(size=(horizon, system.nu))
    X, K = system.rollout(x0, U), np.zeros((horizon, system.nu, system.n))
    problem = ddp.Problem(system, [_Effort()], [], x0, horizon)
    return ddp.Solution(X, U, 0.0 * U, K, 0.0, 0.0, False, ddp.Status("made up"), 0, 0.0, (), problem)


def played(solution, policy, delay, noise=0.0):
    """Let a policy control the plan's own robot, late by a delay [s]; its controls."""
    plan, rng = solution.problem.dynamics, np.random.default_rng(0)
    system = dynamics.RobotDynamics(plan.robot, PERIOD, plan.actuation)
    x, waiting, sent = solution.X[0], deque([solution.U[0]] * round(delay / PERIOD)), []
    spread = noise * np.repeat([1e-3, 0.02], system.n // 2)
    for k in range(round(policy.duration / PERIOD)):
        sent.append(policy(k * PERIOD, system.integrate(x, spread * rng.normal(size=system.n))))
        waiting.append(sent[-1])
        x = system.step(x, waiting.popleft())
    return np.array(sent)


@pytest.mark.parametrize("seed", cases(range(6), [1, 2]))
@pytest.mark.parametrize("delay", [0.0, 0.002, 0.007])
def test_delays_are_learned_and_none_is_imagined(seed, delay):
    solution = moving(seed)
    policy = solution.adaptive()
    played(solution, policy, delay)
    assert policy.delay == pytest.approx(delay, abs=0.0005)


def test_noise_alone_teaches_nothing():
    solution = moving(2)
    policy = solution.adaptive()
    assert np.array_equal(played(solution, policy, 0.0, 5.0), played(solution, solution.policy, 0.0, 5.0))
    assert policy.delay == 0.0


def test_a_delay_that_was_given_is_unlearned():
    solution = moving(1)
    policy = solution.adaptive(delay=0.0042)
    assert policy.delay == 0.0042
    played(solution, policy, 0.001)
    assert policy.delay == pytest.approx(0.001, abs=0.0005)


def test_time_that_begins_again_forgets():
    solution = moving(1)
    policy = solution.adaptive()
    late = played(solution, policy, 0.005)
    assert policy.delay > 0.0
    assert np.array_equal(played(solution, policy, 0.005), late)
    policy(0.0, solution.X[0])
    assert policy.delay == 0.0


def test_policies_that_share_tables_are_those_made_anew():
    solution = moving(2)
    shared, anew = solution.policy.later(0.0037), solution.feedback(delay=0.0037)
    rng = np.random.default_rng(0)
    for t in rng.uniform(0.0, 0.199, size=10):
        x = anew.system.integrate(anew.reference(t), 0.01 * rng.normal(size=anew.system.n))
        assert np.array_equal(shared(t, x), anew(t, x))
    assert solution.policy.delay == 0.0
    with pytest.raises(ddp.ProblemError, match=r"delay: expected at least 0 s, got -0\.1"):
        solution.policy.later(-0.1)


def test_limits_of_forces_act_from_when_a_foot_has_slid():
    """A foot whose speed along the ground is that of the first two joints, on a plan that has limits everywhere."""
    solution = moving(2)
    plan, (nu, n) = solution.policy, solution.K.shape[1:]
    M, nv = len(plan.starts), n // 2
    tight = replace(plan, cones=Cones(np.tile(np.eye(nu), (M, 1, 1)), np.zeros((M, nu, n)), np.zeros((M, nu))))
    moves = np.zeros((M, 1, 3, nv))
    moves[:, 0, :, :3] = np.eye(3)
    feet = Footing(("foot",), moves, np.zeros((M, 1, nv, 3)), 0.25, 0.0045)
    policy = AdaptivePolicy(tight, np.zeros((M, nv, nu)), np.full(nv, np.inf), feet)

    def sliding(speed):
        """The time at which the foot has slid that moves with a speed, but for every fourth time."""
        seen = []
        for k in range(60):
            x = plan.reference(PERIOD * k)
            x[-nv:] = 0.0
            x[-nv : 3 - nv] = *((0.0 if k % 4 == 0 else speed) * np.array([0.6, -0.8])), 3.0  # upwards is no sliding
            u = policy(PERIOD * k, x)
            seen.append(policy.slid)
            assert np.array_equal(u, (tight if policy.slid else plan)(PERIOD * k, x))
        assert seen == sorted(seen)
        return seen.index(True) if seen[-1] else None

    assert sliding(0.24) is None  # slower than what is slow
    assert sliding(0.5) == 7  # how far after each: 0, 1, 2, 3, 2, 3, 4, 5 ms at twice what is slow
    assert sliding(1.25) == 2  # 0, 4, 8
    assert sliding(0.24) is None


def test_bad_input_is_refused():
    solution = moving(1)
    with pytest.raises(ddp.ProblemError, match="delay: expected at least 0 s"):
        solution.adaptive(delay=-0.001)
    with pytest.raises(ddp.ProblemError, match="x: expected shape"):
        solution.adaptive()(0.0, np.zeros(2))
    system = dynamics.FunctionDynamics(lambda x, u: x + 0.1 * u, 1, 1)
    flat = ddp.solve(ddp.Problem(system, [_Effort()], [], np.zeros(1), 5))
    with pytest.raises(ddp.ProblemError, match="are for a robot's dynamics"):
        flat.adaptive()


class _Effort:
    def value(self, x, u):
        return 0.5 * (u @ u)

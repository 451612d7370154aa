"""Policies whose controls act late answer the state that they will meet."""

import ctypes

import numpy as np
import pytest

import ddp
import problems
from ddp.errors import ProblemError
from dynamics import FunctionDynamics, RobotDynamics
from problems import arm, gaits


@pytest.fixture(scope="module")
def reach():
    return ddp.solve(arm.reach("ur5"))


def test_the_state_ahead_is_that_of_the_controls_on_their_way(reach, rng):
    """At a call every 2 ms the model's steps are those of the controls, and it is a rollout in steps of 2 ms."""
    policy, system = reach.predictive(0.008), RobotDynamics(reach.problem.dynamics.robot, 0.002)
    sent, x = [], reach.X[0]
    for k in range(12):
        t, measured = 0.002 * k, reach.policy.reference(0.002 * k) + 0.001 * rng.normal(size=12)
        ahead = policy.ahead(t, measured)
        x = measured
        for j in range(4):
            late = k - 4 + j
            u = sent[late] if late >= 0 else reach.policy.planned(0.002 * late + 0.001 + 0.008)
            x = system.step(x, u)
        np.testing.assert_allclose(ahead, x, rtol=0, atol=1e-9)
        u = policy(t, measured)
        np.testing.assert_allclose(u, reach.policy(t + 0.008, ahead), rtol=0, atol=1e-10)
        sent.append(u)


def test_controls_within_a_step_of_the_model_count_by_how_long_they_act(reach):
    policy = reach.predictive(0.002)
    first = policy(0.0, reach.X[0])
    second = policy(0.0005, reach.X[0])
    # planned for 1 ms, the first for half of one, the second for the rest
    (acting,) = policy._acting(np.array([-0.001]), 0.002)
    planned = reach.policy.planned(-0.0005 + 0.002)
    np.testing.assert_allclose(acting, 0.5 * planned + 0.25 * first + 0.25 * second, rtol=0, atol=1e-12)


def test_an_arm_whose_controls_are_late_by_20_ms_keeps_to_its_motion(reach):
    late = {"delay": 0.02}
    with np.errstate(all="ignore"):
        swings = problems.simulate(reach, policy=reach.feedback(delay=0.02), **late).rms
    assert not swings < 1.0
    calm = problems.simulate(reach, policy=reach.predictive(0.02), **late)
    assert calm.rms < 0.003
    assert calm.limited
    assert problems.simulate(reach, policy=reach.predictive(0.02), mass=1.1, noise=1.0, **late).rms < 0.008


def test_a_motion_that_a_wrong_delay_makes_diverge_ends_as_all_that_diverge(reach):
    with np.errstate(all="ignore"):
        run = problems.simulate(reach, policy=reach.predictive(0.03), delay=0.01)
    assert run.fell
    assert "overflowed" in str(run)


def test_the_policy_without_a_delay_serves_a_loop_that_predicts_for_itself(reach, tmp_path):
    """As the documentation says: the C function of `.policy`, asked for the state ahead at its time."""
    predictive = reach.predictive(0.01)
    compiled, t, x = predictive.policy.compiled(), 0.105, reach.X[10] + 0.01
    control = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(compiled.address)
    later, ahead, u = np.array([t + 0.01]), predictive.ahead(t, x), np.empty(6)
    control(compiled.context, later.ctypes.data, ahead.ctypes.data, u.ctypes.data)
    np.testing.assert_array_equal(predictive(t, x), u)
    assert np.load(predictive.policy.export(tmp_path / "gains.npz"))["delay"] == 0.0


def test_time_that_does_not_go_on_begins_the_motion_anew(reach):
    policy, x = reach.predictive(0.01), reach.X[0] + 0.01
    first = [policy(t, x) for t in (0.0, 0.001, 0.002)]
    again = [policy(t, x) for t in (0.0, 0.001, 0.002)]
    np.testing.assert_array_equal(first, again)
    assert policy.duration == reach.policy.duration


@pytest.mark.parametrize(("delay", "words"), [(0.0, "expected a positive"), (30.0, "expected at most 1 s.*, got 30")])
def test_delays_that_cannot_be_are_refused(reach, delay, words):
    with pytest.raises(ProblemError, match=f"delay: {words}"):
        reach.predictive(delay)


@pytest.mark.parametrize("t", [-0.1, 1.001, 1000.0, np.nan])
def test_times_outside_of_the_motion_are_refused_as_by_any_policy(reach, t):
    policy, x = reach.predictive(0.01), reach.X[0]
    first = policy(0.0, x)
    for own in (policy, reach.policy):
        with pytest.raises(ProblemError, match="t: expected 0 <= t < 1 s, the horizon, got"):
            own(t, x)
    np.testing.assert_array_equal(first, policy(0.0, x))


@pytest.mark.parametrize("delay", [1e-300, 1e-12])
def test_the_shortest_delays_are_none(reach, delay):
    x = reach.X[0] + 0.001
    for t in (0.0, 0.3):
        np.testing.assert_allclose(reach.predictive(delay)(t, x), reach.policy(t, x), rtol=0, atol=1e-6)


def test_motions_that_are_not_predicted_are_refused():
    trot = ddp.solve(gaits.trot("solo12"), ddp.DDP(max_iterations=1), throw=False)
    with pytest.raises(ProblemError, match="delay: expected a motion whose contacts do not change"):
        trot.predictive(0.01)
    plain = FunctionDynamics(lambda x, u: x + 0.1 * u, 1, 1, 0.1)
    line = ddp.solve(ddp.Problem(plain, [lambda x, u: u[0] ** 2], [lambda x, u: x[0] ** 2], [1.0], 5))
    words = r"policies that track motions are for a robot's dynamics, got FunctionDynamics; expected solution\.feedb"
    with pytest.raises(ProblemError, match=words):
        line.predictive(0.01)

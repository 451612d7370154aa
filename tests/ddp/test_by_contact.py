"""Policies that are told which feet touch take them to stand where they have landed."""

import numpy as np
import pytest

import ddp
import dynamics
from problems import gaits

PERIOD = 0.001
"""Of the controller [s]."""


@pytest.fixture(scope="module")
def walk():
    return ddp.solve(gaits.walk("solo12", cycles=2))


@pytest.fixture
def policy(walk):
    return walk.by_contact()


def landing(policy, foot):
    """Times at which the plan has a foot touch down and lift again [s]."""
    stands, starts = policy.policy.footing.moves[:, foot].any(axis=(1, 2)), policy.policy.policy.starts
    down = next(k for k in range(1, len(stands)) if stands[k] and not stands[k - 1])
    up = next((k for k in range(down, len(stands)) if not stands[k]), len(stands))
    return starts[down], starts[up] if up < len(starts) else policy.duration


def stepped_aside(policy, foot, t, away):
    """The plan's state at a time with a foot (3,) [m] off, which the joints of its leg have moved."""
    plan = policy.policy.policy
    k, _ = plan.part(t)
    dq = policy.policy.footing.legs[k, foot] @ away
    return plan.system.integrate(plan.reference(t), np.concatenate([dq, 0.0 * dq]))


def swinging(policy, foot):
    """Let the plan's swing of a foot pass, which stands in the end as all do; that they do."""
    t, standing = landing(policy, foot)[0] - 0.02, np.ones(len(policy.feet), dtype=bool)
    policy(t, policy.policy.policy.reference(t), standing & (np.arange(len(standing)) != foot))
    return standing


def test_feet_that_land_off_their_places_are_no_errors_from_when_they_have_landed(walk, policy):
    foot, away, plan = 1, np.array([0.004, -0.003, -0.008]), walk.policy
    down, up = landing(policy, foot)
    standing = swinging(policy, foot)
    felt = down + 0.011
    for t in np.arange(down + 0.001, up - PERIOD, PERIOD):
        x = stepped_aside(policy, foot, t, away)
        touching = standing if t >= felt - 1e-9 else standing & (np.arange(len(standing)) != foot)
        u = policy(t, x, touching)
        if t < felt + 0.002 - 1e-9:
            np.testing.assert_allclose(u, plan(t, x), atol=1e-9)
        elif t > felt + 0.002 + 1e-9:
            at_rest, still = plan(t, x), plan(t, plan.reference(t))
            assert np.abs(u - still).max() < 0.05 * np.abs(at_rest - still).max()  # J changes on the way
    x = plan.reference(up + 0.004)
    np.testing.assert_allclose(policy(up + 0.004, x, standing), plan(up + 0.004, x), atol=1e-9)  # forgotten when lifted


def test_feet_that_touch_for_a_moment_have_not_landed(walk, policy):
    foot, plan = 2, walk.policy
    down, up = landing(policy, foot)
    swinging(policy, foot)
    for i, t in enumerate(np.arange(down + 0.001, up - PERIOD, PERIOD)):
        x = stepped_aside(policy, foot, t, np.array([0.0, 0.0, -0.01]))
        touching = np.ones(len(policy.feet), dtype=bool)
        touching[foot] = i % 3 < 2
        np.testing.assert_allclose(policy(t, x, touching), plan(t, x), atol=1e-9)


def test_a_foot_that_came_down_early_has_landed_at_once(walk, policy):
    foot, away, plan = 0, np.array([0.0, 0.0, 0.01]), walk.policy
    down, _ = landing(policy, foot)
    standing = swinging(policy, foot)
    for t in (down - 0.004, down - 0.002):
        policy(t, plan.reference(t), standing)
    t = down + 0.001
    np.testing.assert_allclose(policy(t, stepped_aside(policy, foot, t, away), standing), plan(t, plan.reference(t)))


def test_time_that_begins_again_forgets_where_feet_landed(walk, policy):
    foot, away = 1, np.array([0.0, 0.0, -0.01])
    down, _ = landing(policy, foot)
    t = down + 0.006
    standing = swinging(policy, foot)
    policy(t - 0.005, walk.policy.reference(t), standing)
    x = stepped_aside(policy, foot, t, away)
    learned = policy(t, x, standing)
    assert np.array_equal(policy(t, x, standing), walk.policy(t, x))
    assert np.abs(learned - walk.policy(t, x)).max() > 0.1


def test_bad_input_is_refused_by_its_name(walk, policy):
    x = walk.X[0]
    for touching in (True, [True] * 3, [1.0] * 4, None, "yes"):
        with pytest.raises(ddp.ProblemError, match="touching: expected True or False of FL_FOOT, "):
            policy(0.0, x, touching)
    with pytest.raises(ddp.ProblemError, match="x: expected shape"):
        policy(0.0, x[:3], [True] * 4)
    with pytest.raises(ddp.ProblemError, match="t: expected 0 <= t"):
        policy(-1.0, x, [True] * 4)
    arm = dynamics.RobotDynamics(dynamics.load("ur5"), 0.01)
    problem = ddp.Problem(arm, [_Effort()], [], np.zeros(12), 3)
    reach = ddp.Solution(np.zeros((4, 12)), np.zeros((3, 6)), np.zeros((3, 6)), np.zeros((3, 6, 12)), 0.0, 0.0, False,
                         ddp.Status("made up"), 0, 0.0, (), problem)  # fmt: skip
    with pytest.raises(ddp.ProblemError, match="by_contact: expected a motion of a robot with legs"):
        reach.by_contact()


class _Effort:
    def value(self, x, u):
        return 0.5 * (u @ u)

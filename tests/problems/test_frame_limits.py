"""Bounds on frames, their velocities, the centre of mass and groups of joints: against Pinocchio, and kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest
from residual_oracle import center_of_mass, frame_position, frame_velocity

import ddp
from ddp.errors import ProblemError
from problems import arm
from problems.constraints import (
    CenterOfMassLimits,
    FramePositionEquality,
    FramePositionLimits,
    FrameVelocityLimits,
    JointLimits,
    TorqueLimits,
    VelocityLimits,
)
from tests.problems.conftest import random_state
from tests.problems.test_obstacles import TIPS, exact


@pytest.mark.parametrize("name", ["ur5", "mixed"])
def test_bounds_on_frames_and_the_centre_of_mass_are_exact_to_second_order(robots, rng, name):
    robot, frame = robots[name], TIPS[name][0]
    model, x, axes = robot.model, random_state(robot, rng), rng.normal(size=(2, 3))
    where, center = frame_position(model, frame, np.zeros(3)), center_of_mass(model, np.zeros(3))
    exact(
        FramePositionLimits(robot, frame, 0.0, [1.0, np.inf], axes), model, lambda q, v: axes @ where(q, v), x, rng
    )
    exact(FramePositionLimits(robot, frame, [-np.inf, -np.inf, 0.1]), model, lambda q, v: where(q, v)[2:], x, rng)
    exact(CenterOfMassLimits(robot, upper=0.4, axes=axes[0]), model, lambda q, v: axes[:1] @ center(q, v), x, rng)
    for reference, frame_of in (
        ("local", pin.LOCAL), ("world", pin.WORLD), ("local-world-aligned", pin.LOCAL_WORLD_ALIGNED)
    ):  # fmt: skip
        twist = frame_velocity(model, frame, np.zeros(6), frame_of)
        bounds = [np.inf, 1.0, np.inf, 0.5, 2.0, np.inf]
        limits = FrameVelocityLimits(robot, frame, upper=bounds, reference=reference)
        exact(limits, model, lambda q, v, twist=twist: twist(q, v)[[1, 3, 4]], x, rng)


@pytest.mark.parametrize(
    "make", [lambda robot, *numbers: FramePositionLimits(robot, "tool0", *numbers), CenterOfMassLimits]
)
def test_axes_are_copies_that_cannot_be_written_on(robots, make):
    given = np.eye(3)
    made = make(robots["ur5"], -1.0, 1.0, given)
    given[:] = 0.0
    np.testing.assert_array_equal(replace(made).axes, np.eye(3))
    with pytest.raises(ValueError, match="read-only"):
        made.axes[:] = 0.0


def test_a_tool_stays_above_a_height_and_within_a_speed():
    plain = arm.reach("ur5", horizon=30, dt=0.03)
    robot, free = plain.dynamics.robot, ddp.solve(plain)
    heights = FramePositionLimits(robot, "tool0", 0.0, axes=[0.0, 0.0, 1.0])
    speeds = FrameVelocityLimits(robot, "tool0", upper=[np.inf] * 3 + [1.5] * 3, reference="local-world-aligned")
    U = plain.padded(free.U)
    high = heights.values(free.X, U).min() + 0.02
    limit = speeds.values(free.X, U).max() - 0.1
    held = [
        FramePositionLimits(robot, "tool0", high, axes=[0.0, 0.0, 1.0]),
        FrameVelocityLimits(robot, "tool0", upper=[np.inf] * 3 + [limit] * 3, reference="local-world-aligned"),
    ]
    solution = ddp.solve(replace(plain, constraints=held))
    assert solution.violation <= 1e-8
    assert heights.values(solution.X, U).min() == pytest.approx(high, abs=1e-7)
    assert solution.cost > free.cost


def test_limits_of_a_group_of_joints_are_those_of_all_that_are_in_it(robots):
    robot, dynamics = robots["ur5"], arm.reach("ur5").dynamics
    wrist = ["wrist_1_joint", "wrist_3_joint"]
    X, U = np.arange(24.0).reshape(2, 12), np.arange(12.0).reshape(2, 6)
    np.testing.assert_array_equal(JointLimits(robot, -1.0, [2.0, 3.0], joints=wrist).values(X, U), X[:, [3, 5]])
    np.testing.assert_array_equal(JointLimits(robot, -1.0, [2.0, 3.0], joints=wrist).upper, [2.0, 3.0])
    np.testing.assert_array_equal(VelocityLimits(robot, 2.0, joints=wrist).values(X, U), X[:, [9, 11]])
    np.testing.assert_array_equal(TorqueLimits(dynamics, np.arange(1.0, 7.0), joints=wrist).upper, [4.0, 6.0])


@pytest.mark.parametrize(("make", "words"), [
    (lambda r: FramePositionLimits(r, "tool0"), "lower, upper: expected at least one that is finite"),
    (lambda r: FramePositionLimits(r, "tool0", 1.0, 0.0), "lower: expected at most upper, got 1.0 > 0.0"),
    (lambda r: FramePositionLimits(r, "tool0", 1.0, axes=np.zeros(3)), "axes: expected directions that are not zero"),
    (lambda r: FramePositionLimits(r, "tool", 1.0), "has no frame 'tool'"),
    (lambda r: FrameVelocityLimits(r, "tool0", 0.0, reference="here"), "reference: expected one of"),
    (lambda r: FrameVelocityLimits(r, "tool0", [0.0]), "lower: expected shape"),
    (lambda r: CenterOfMassLimits(r, 0.0, at_end=1), "at_end: expected True or False"),
    (lambda r: JointLimits(r, 0.0, joints=["elbow"]), "joints: ur5 has no joint 'elbow'"),
    (lambda r: VelocityLimits(r, 1.0, joints=2 * ["elbow_joint"]), "joints: expected each joint once, got 'elbow_"),
    (lambda r: JointLimits(r, [0.0, 1.0], joints=["elbow_joint"]), "lower: expected a number or shape"),
    (lambda r: VelocityLimits(r, 1.0, joints=[]), "joints: expected at least one, got none"),
])  # fmt: skip
def test_what_is_malformed_is_named(robots, make, words):
    with pytest.raises(ProblemError, match=words):
        make(robots["ur5"])


def test_reports_of_limits_name_the_joint():
    problem = arm.reach("ur5")
    robot, system = problem.dynamics.robot, problem.dynamics
    joints = ["elbow_joint", "wrist_2_joint"]
    constraints = [
        JointLimits(robot, -0.1, 3.0, joints), VelocityLimits(robot, 10.0, joints), TorqueLimits(system, 1e3, joints)
    ]  # fmt: skip
    limited = replace(problem, constraints=constraints)
    solution = ddp.solve(limited, ddp.DDP(max_iterations=1), guess=np.zeros((limited.horizon, 6)), throw=False)
    residuals = solution.residuals()
    assert [one.row_names for one in residuals] == [tuple(joints)] * 3
    row = int(np.abs(residuals[0].violation).max(axis=0).argmax())
    assert f"(JointLimits)[{joints[row]}] is violated by " in str(residuals[0])
    assert str(residuals[2]) == "constraints[2] (TorqueLimits) holds"
    far = replace(problem, terminal_constraints=[FramePositionEquality(robot, "tool0", [0.0, 9.0, 0.0])])
    (residual,) = ddp.solve(far, ddp.DDP(max_iterations=1), throw=False).residuals()
    assert "(FramePositionEquality)[y] is violated by " in str(residual)

"""Reaches of arms with joints of every kind, and of those without a frame that could be a tool."""

import numpy as np
import pinocchio as pin
import pytest
from oracles import chain_of

import ddp
from dynamics import frame_placement, load
from problems import arm

KINDS = ("planar", "revolute", "spherical"), ("continuous", "translation", "helical"), ("free-flyer", "prismatic")


@pytest.mark.parametrize("kinds", KINDS)
def test_arms_with_joints_of_every_kind_reach(kinds):
    model = chain_of("revolute", *kinds).model
    with pytest.raises(ddp.ProblemError, match=r"frame: expected the name of one, .* has no link or site"):
        arm.reach(load(model))
    model.addFrame(pin.Frame("hand", model.njoints - 1, pin.SE3(np.eye(3), np.array([0.1, 0.2, 0.0])), pin.OP_FRAME))
    robot = load(model)
    solution = ddp.solve(arm.reach(robot, horizon=20))
    target = solution.problem.terminal[0].target
    reached = frame_placement(robot, solution.X[-1, : robot.nq], "hand")
    start = frame_placement(robot, robot.q0, "hand")
    assert np.linalg.norm((reached - target.homogeneous)[:3, 3]) < 0.1 * np.linalg.norm((start - reached)[:3, 3])


@pytest.mark.parametrize("name", ["panda", "kinova"])
def test_any_arm_passes_spheres_that_are_in_its_way(name):
    problem = arm.obstacles(name)
    robot, ball = problem.dynamics.robot, problem.constraints[0]

    def least(X):
        places = frame_placement(robot, X[:, : robot.nq], ball.frame)[:, :3, 3]
        away = [np.linalg.norm(places - sphere.center, axis=1) - sphere.radius for sphere in ball.obstacles]
        return np.min(away) - 0.05

    assert least(ddp.solve(arm.reach(name)).X) < -0.05
    assert abs(least(ddp.solve(problem).X)) < 1e-7


@pytest.mark.parametrize("name", ["z1", "xarm7"])
def test_spheres_leave_the_ends_of_short_ways_free(name):
    problem = arm.obstacles(name)
    ball, way = problem.constraints[0], ddp.solve(arm.reach(name)).X
    ends = ball.values(way[[0, -1]], np.zeros((2, problem.dynamics.nu)))
    assert ends.min() > 0.0
    assert ball.values(way, np.zeros((len(way), problem.dynamics.nu))).min() < 0.0
    assert ddp.solve(problem).cost < 1.1 * ddp.solve(arm.reach(name)).cost

"""Motions of free bases are the same however their axes lie in them, and from wherever their numbers count."""

import numpy as np
import pinocchio as pin
import pytest
from thorough import cases

import ddp
import problems
from dynamics import Robot, RobotDynamics, load
from dynamics.robots.equipment import Equipment
from problems import gaits, legs, quadrotor
from problems.costs import ControlCost, ControlLimits, StateCost
from problems.gait_terms import GaitTerms, Weights
from problems.legs import base_pose, frame_poses, heading_of
from problems.play.simulation import NOISE, _deviations, feet_of
from problems.play.terrain import APART, uneven_ground
from problems.systems.periodic import FROUDE, _cycle
from problems.walking.windows import Command, Ground

TURNS = ((0.0, 0.3, 0.0), (np.pi, 0.0, 0.0))


def turned(name, turn):
    """The robot with other axes of its base, about the same origin: it stands as it did."""
    robot, R = load(name), pin.SE3(pin.exp3(np.array(turn)), np.zeros(3))
    model = robot.model.copy()
    model.inertias[1] = R.actInv(model.inertias[1])
    for j in range(2, model.njoints):
        if model.parents[j] == 1:
            model.jointPlacements[j] = R.actInv(model.jointPlacements[j])
    for frame in model.frames:
        if frame.parentJoint == 1 and frame.type != pin.FrameType.JOINT:
            frame.placement = R.actInv(frame.placement)
    q = robot.q0.copy()
    q[:7] = pin.SE3ToXYZQUAT(pin.XYZQUATToSE3(q[:7]) * R)
    return Robot(model, q, equipment=robot.equipment)


@pytest.mark.parametrize("turn", TURNS)
def test_bodies_move_as_commanded_in_the_axes_of_their_heading(turn):
    with problems.Walking(turned("solo12", turn)) as walking:
        cycle, robot = walking.windows.cycle, walking.system.robot
        window = Ground(cycle, walking.x0).window(0, walking.x0, Command(0.2, -0.1, 0.3))
        X = walking.windows.nominal(0, window.path, window.floor)
    for x in X:
        R = base_pose(robot, x).rotation
        c, s = np.cos(heading_of(R)), np.sin(heading_of(R))
        ahead, left = 0.2 * np.array([c, s, 0.0]), -0.1 * np.array([-s, c, 0.0])
        np.testing.assert_allclose(R @ x[robot.nq : robot.nq + 3], ahead + left, atol=1e-12)
        np.testing.assert_allclose(R @ x[robot.nq + 3 : robot.nq + 6], [0.0, 0.0, 0.3], atol=1e-12)


@pytest.mark.parametrize("turn", TURNS)
def test_robots_jump_upward_whichever_way_the_axes_of_their_bases_lie(turn):
    usual, problem = gaits.jump("solo12"), gaits.jump(turned("solo12", turn))
    system, other = problem.dynamics, usual.dynamics
    assert len(problem.guess[0]) == len(usual.guess[0])
    for x, y in zip(problem.guess[0], usual.guess[0], strict=True):
        assert base_pose(system.robot, x).translation == pytest.approx(base_pose(other.robot, y).translation, abs=1e-9)


def test_uneven_ground_lies_under_the_motion_wherever_the_base_counts_from():
    robot = load("solo12")
    model = robot.model.copy()
    model.jointPlacements[1] = pin.SE3(pin.exp3(np.array([0.0, 0.0, 0.7])), np.array([3.0, -2.0, 0.1]))
    problem = gaits.trot(Robot(model, robot.q0, equipment=robot.equipment))
    system, q = problem.dynamics, problem.x0[: robot.nq]
    X = np.tile(problem.x0, (3, 1))
    names = [foot.frame for foot in feet_of(system)]
    relief = uneven_ground(system, X, names, (-0.02, 0.02), 0)
    place = base_pose(system.robot, q).translation[:2]
    assert np.abs(relief.center - place).max() < 1e-9
    feet = np.array([pose.translation[:2] for pose in frame_poses(system.robot, q, names)])
    height = system.tracked.units(X).height
    columns, rows = (np.linspace(-h, h, n) for h, n in zip(relief.half, relief.heights.shape[::-1], strict=True))
    apart = np.hypot(*(place[:, None, None] + np.stack(np.meshgrid(columns, rows)) - feet[0][:, None, None]))
    assert np.abs(relief.heights[apart < 0.25 * APART * height]).max() < 1e-12


@pytest.mark.parametrize("turn", cases([(np.pi, 0.0, 0.0), (0.0, 1.2, 0.0)], [(0.0, 1.2, 0.0)]))
def test_soles_whose_axes_do_not_point_up_are_refused(turn):
    model = load("talos_legs").model.copy()
    sole = model.frames[model.getFrameId("left_sole_link")]
    sole.placement = sole.placement * pin.SE3(pin.exp3(np.array(turn)), np.zeros(3))
    robot = Robot(model, load("talos_legs").q0)
    angle = round(np.degrees(np.linalg.norm(turn)))
    with pytest.raises(ddp.ProblemError, match=f"feet: expected soles whose z .* 'left_sole_link' is {angle} deg off"):
        gaits.stand(robot)


def test_controls_beyond_limits_of_one_side_cost_as_those_of_both_do():
    given, costs = load("solo12"), []
    U = np.full((1, 12), 3.0)
    for lower in (-2.0, -np.inf):
        limits = np.tile([lower, 2.0], (12, 1))
        robot = Robot(given.model, given.q0, equipment=Equipment(given.actuation, limits))
        terms = GaitTerms(legs.stance(robot), Weights()).always(12)
        costs += [term.values(np.zeros((1, 37)), U) for term in terms if isinstance(term, ControlLimits)]
    assert len(costs) == 2
    assert costs[0] == costs[1] > 0.0


def test_a_base_that_is_not_the_first_body_of_its_file_plays_as_one_that_is():
    door = '<body pos="2 0 0"><joint name="door" damping="1"/><geom size=".1" pos=".3 0 0"/></body>'
    base = '<body name="base"><freejoint name="root"/><geom type="box" size=".1 .2 .3" mass="2"/></body>'
    runs, noises = [], []
    for bodies in (base + door, door + base):
        robot = load(f'<mujoco><option gravity="0 0 0"/><worldbody>{bodies}</worldbody></mujoco>')
        v, nq = robot.numbers_of("root")[1], robot.nq
        system = RobotDynamics(robot, 0.02, np.eye(7)[:, v])
        x0 = np.concatenate([robot.q0, np.zeros(7)])
        x0[nq + v[0]], x0[nq + v[5]] = 0.3, 0.5
        rest = StateCost(system, np.concatenate([robot.q0, np.zeros(7)]), np.ones(14))
        problem = ddp.Problem(system, [ControlCost(np.zeros(6), np.ones(6))], [rest], x0, 20)
        runs.append(problems.simulate(ddp.solve(problem), mass=1.5, push=(0.1, 0.2, 0.0)))
        noises.append(_deviations(robot, 1.0).reshape(2, 7)[:, [*v, *robot.numbers_of("door")[1]]])
    assert runs[0].rms > 1e-3
    np.testing.assert_allclose(runs[1].error, runs[0].error, atol=1e-9)
    np.testing.assert_allclose(runs[1].attitude, runs[0].attitude, atol=1e-7)
    assert np.array_equal(*noises)
    place, attitude, angle, speed, turning, rate = NOISE
    assert noises[0].tolist() == [[place] * 3 + [attitude] * 3 + [angle], [speed] * 3 + [turning] * 3 + [rate]]


def test_periodic_trots_are_as_fast_as_gravity_swings_their_legs():
    model = load("solo12").model.copy()
    model.gravity = pin.Motion(0.25 * model.gravity.vector)
    stand = legs.stance(Robot(model, load("solo12").q0))
    fast = FROUDE * np.sqrt(stand.gravity * stand.height)
    np.testing.assert_allclose(_cycle(stand, None, 0.01).X, _cycle(stand, fast, 0.01).X, atol=1e-12)


def test_a_quadrotor_loops_above_its_start_wherever_its_base_counts_from():
    robot, costs = load("hector"), []
    for place in (pin.SE3.Identity(), pin.SE3(pin.exp3(np.array([0.0, 0.0, 0.7])), np.array([1.0, 2.0, 3.0]))):
        model = robot.model.copy()
        model.jointPlacements[1] = place
        costs.append(ddp.solve(quadrotor.loop(Robot(model, robot.q0))).cost)
    assert costs[1] == pytest.approx(costs[0], rel=1e-9)

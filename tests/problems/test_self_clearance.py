"""Capsules around a robot's bodies: they hold its shapes; their distances, exact to second order; they keep apart."""

from __future__ import annotations

from dataclasses import replace

import coal
import numpy as np
import pinocchio as pin
import pytest
from thorough import cases

import ddp
from ddp.errors import ProblemError
from dynamics.robots.capsules import around, capsules
from dynamics.robots.model import load
from dynamics.steps.robot_dynamics import RobotDynamics
from problems import arm
from problems.obstacles import SelfClearance
from tests.problems.conftest import random_state
from tests.problems.test_obstacles import apart


@pytest.mark.parametrize("name", ["ur5", "talos_legs"])
def test_capsules_hold_all_shapes_of_their_bodies(name):
    robot = load(name)
    found, missing = capsules(robot)
    assert not missing
    geometry, _ = robot.collisions()
    held = {one.joint: one for one in found}
    for shape in geometry.geometryObjects:
        if not isinstance(shape.geometry, coal.BVHModelBase):
            continue
        one, points = held[shape.parentJoint], np.array(shape.geometry.vertices()).reshape(-1, 3)
        points = points @ shape.placement.rotation.T + shape.placement.translation
        axis = one.end - one.start
        s = np.clip((points - one.start) @ axis / max(axis @ axis, 1e-30), 0.0, 1.0)
        away = np.linalg.norm(points - one.start - s[:, None] * axis, axis=1)
        assert away.max() <= one.radius + 1e-9


def test_shapes_of_mjcf_files_that_collide_count_whether_they_are_shown_or_not():
    robot = load("""<mujoco><worldbody><body><joint axis="0 1 0"/>
        <geom size=".3" contype="0" conaffinity="0"/><geom size=".1" group="3" rgba="0 0 0 0"/>
        <body pos="1 0 0"><joint axis="0 1 0"/><geom type="capsule" size=".2 .4" group="4"/></body></body>
        </worldbody></mujoco>""")
    found = capsules(robot)[0]
    assert [one.joint for one in found] == [1, 2]
    assert [one.radius for one in found] == pytest.approx([0.1, 0.2])
    assert len(robot.visuals()[0].geometryObjects) == 1


def test_bodies_that_several_joints_of_one_join_are_next_to_each_other():
    capsule = '<geom type="capsule" size=".04 .1" pos="0 0 -.2"/>'
    shin = f'<body pos="0 0 -.35"><joint name="shin" axis="0 1 0"/>{capsule}</body>'
    thigh = f'<body pos="0 .3 0"><joint name="x"/><joint name="thigh" axis="0 1 0"/>{capsule}{shin}</body>'
    trunk = f'<body><freejoint name="trunk"/><geom type="capsule" size=".05 .2" euler="90 0 0"/>{thigh}</body>'
    robot = load(f"<mujoco><worldbody>{trunk}</worldbody></mujoco>")
    clear = SelfClearance(robot)
    assert clear.pairs == (("trunk", "shin"),)
    assert not clear.left_out


def test_bodies_beside_one_without_mass_are_apart():
    """A URDF link with shapes and no <inertial>."""
    mass = '<inertial><mass value="1"/><inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/></inertial>'
    shape = '<origin xyz="0 0 .25"/><geometry><cylinder radius=".04" length=".4"/></geometry>'
    links = "".join(
        f'<link name="l{i}">{mass if i != 2 else ""}<collision>{shape}</collision></link>' for i in range(4)
    )
    joints = "".join(
        f'<joint name="j{i}" type="continuous"><parent link="l{i - 1}"/><child link="l{i}"/><origin xyz="0 0 .5"/>'
        '<axis xyz="0 1 0"/></joint>'
        for i in range(1, 4)
    )
    robot = load(f'<robot name="arm">{links}{joints}</robot>')
    assert SelfClearance(robot).pairs == (("universe", "j2"), ("universe", "j3"), ("j1", "j3"))


def test_capsules_around_a_rod_are_slim(rng):
    R = pin.exp3(rng.normal(size=3))
    points = rng.normal(size=(500, 3))
    points = (points / np.linalg.norm(points, axis=1)[:, None] * [0.05, 0.05, 0.5]) @ R.T
    start, end, radius = around(points, np.zeros(500))
    assert radius < 0.055
    assert np.linalg.norm(end - start) < 1.0
    assert abs((end - start) @ R[:, 2]) > 0.95 * np.linalg.norm(end - start)


@pytest.mark.parametrize("name", cases(["ur5", "talos_legs"], ["ur5"]))
def test_distances_of_bodies_are_those_of_their_axes_and_exact_to_second_order(rng, name):
    robot = load(name)
    clear = SelfClearance(robot)
    X = np.array([random_state(robot, rng) for _ in range(9)])
    values, data = clear.values(X, np.zeros((9, 1))), robot.model.createData()
    held = {robot.model.names[one.joint]: one for one in capsules(robot)[0]}
    for k in (0, 8):
        pin.forwardKinematics(robot.model, data, X[k, : robot.nq])
        for i, pair in enumerate(clear.pairs):
            one, other = (held[joint] for joint in pair)
            ends = [data.oMi[c.joint].act(p) for c in (one, other) for p in (c.start, c.end)]
            assert values[k, i] == pytest.approx(apart(*ends) - one.radius - other.radius, abs=1e-6)
    problem = ddp.Problem(RobotDynamics(robot, 0.01), [], [], X[0], 1, constraints=[clear])
    U = np.zeros((1, problem.dynamics.nu))
    report = ddp.check_derivatives(problem, X[[0, 1]], U, knots=[0])
    assert report.ok, str(report)


def test_an_arm_reaches_without_touching_itself():
    plain = arm.reach("ur5", horizon=30, dt=0.03)
    robot, free = plain.dynamics.robot, ddp.solve(plain)
    whole = SelfClearance(robot)
    values = whole.values(free.X, plain.padded(free.U))
    dips = np.minimum(values[0], values[-1]) - values.min(axis=0)
    i = int(np.argmax(dips))
    margin = values[:, i].min() + 0.5 * dips[i]
    assert dips[i] > 0.01
    solution = ddp.solve(replace(plain, constraints=[SelfClearance(robot, [whole.pairs[i]], margin)]))
    assert solution.violation <= 1e-8
    assert solution.cost > free.cost


def test_bodies_that_come_too_close_are_named():
    plain = arm.reach("ur5", horizon=5)
    pairs = [("wrist_3_joint", "shoulder_lift_joint"), ("elbow_joint", "wrist_3_joint")]
    far = SelfClearance(plain.dynamics.robot, pairs, margin=5.0)
    solution = ddp.solve(replace(plain, constraints=[far]), ddp.DDP(max_iterations=2), throw=False)
    assert "(SelfClearance)[elbow_joint and wrist_3_joint] is violated by" in str(solution.explain())


@pytest.mark.parametrize(("make", "words"), [
    (lambda: SelfClearance(load("ur5"), [("elbow_joint",)]), "pairs: expected names of two joints"),
    (lambda: SelfClearance(load("ur5"), [("elbow_joint", "elbow")]), "no shapes at a joint 'elbow'"),
    (lambda: SelfClearance(load("ur5"), []), "pairs: expected at least one, got none"),
    (lambda: SelfClearance(load("ur5"), margin=-1.0), "margin: "),
    (lambda: SelfClearance(load("ur5"), margin=9.0), "pairs: no two bodies of ur5 are apart by 9 m"),
    (lambda: SelfClearance(load(pin.buildSampleModelManipulator())), "robot: expected one with shapes of its bodies"),
])  # fmt: skip
def test_what_is_malformed_is_named(make, words):
    with pytest.raises(ProblemError, match=words):
        make()

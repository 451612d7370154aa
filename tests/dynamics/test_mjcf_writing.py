"""Robots written for MuJoCo move there as they do here: random trees and named robots, impossible inertias too."""

import mujoco
import numpy as np
import pinocchio as pin
import pytest
from oracles import passive, random_placement, random_tree, sprung

import ddp
import dynamics
from dynamics.robots.mjcf.writing import Foot, Ground, World

JOINTS = [
    pin.JointModelFreeFlyer, pin.JointModelSpherical, pin.JointModelTranslation, pin.JointModelRX, pin.JointModelPZ,
    pin.JointModelRUBY, lambda: pin.JointModelRevoluteUnaligned(np.array([0.6, 0.0, 0.8])),
    lambda: pin.JointModelPrismaticUnaligned(np.array([0.0, 0.6, 0.8])),
]  # fmt: skip


def tree(seed):
    """A free base or none, then a random tree of MuJoCo's joints with rotors' inertia."""
    rng, model = np.random.default_rng(seed), pin.Model()
    for k in range(1 + rng.integers(3, 8)):
        kind = JOINTS[0] if k == 0 and seed % 2 else JOINTS[rng.integers(1, len(JOINTS))]
        parent = 0 if k == 0 else int(rng.integers(1, k + 1))
        index = model.addJoint(parent, kind(), random_placement(rng), f"joint{k}")
        model.appendBodyToJoint(index, pin.Inertia.Random(), random_placement(rng))
    model.armature = np.where(np.arange(model.nv) < (6 if seed % 2 else 0), 0.0, rng.uniform(0.0, 0.2, model.nv))
    return dynamics.load(model)


def worst(robot, seed, samples=5):
    """Largest error of accelerations under random torques, in MuJoCo and here, relative to the largest of them."""
    rng, world, found = np.random.default_rng(seed), World(robot), 0.0
    for _ in range(samples):
        q, v, tau = robot.random_configuration(rng), rng.normal(size=robot.nv), rng.normal(size=robot.nv)
        data = world.data(q, v)
        there, speeds = world.state(data)
        assert np.abs(pin.difference(robot.model, q, there)).max() < 1e-7  # of an angle near zero by its cosine
        np.testing.assert_allclose(np.abs(there), np.abs(q), rtol=0, atol=1e-12)  # quaternions have either sign
        np.testing.assert_allclose(speeds, v, rtol=0, atol=1e-12)
        world.apply(data, tau)
        mujoco.mj_forward(world.model, data)
        a = dynamics.forward_dynamics(robot, q, v, tau)
        theirs = world.acceleration(data)
        found = max(found, np.abs(theirs - a).max() / max(np.abs(a).max(), 1.0))
    return found


@pytest.mark.parametrize("seed", range(12))
def test_random_trees_accelerate_as_they_do_here(seed):
    assert worst(tree(seed), seed) < 1e-12


@pytest.mark.parametrize("name", ["go2", "hyq", "b1", "talos", "panda"])
def test_named_robots_accelerate_as_they_do_here(name):
    assert worst(dynamics.load(name), 0, 2) < 1e-12


@pytest.mark.parametrize("name", ["anymal", "ur5"])
@pytest.mark.parametrize(("damping", "springs"), [(False, True), (True, False), (True, True)])
def test_springs_and_damping_pull_in_mujoco_as_they_do_here(name, damping, springs, rng):
    robot = sprung(dynamics.load(name), rng)
    robot.model.damping[: 6 * robot.is_floating] = 0.0
    q, v = robot.random_configuration(rng), rng.normal(size=robot.nv)
    tau = passive(dynamics.RobotDynamics(robot, 0.01, damping=damping, springs=springs), q, v)
    world = World(robot, damping=damping, springs=springs)
    here = dynamics.forward_dynamics(robot, q, v, tau)
    np.testing.assert_allclose(world.acceleration(world.data(q, v)), here, rtol=0, atol=1e-12 * np.abs(here).max())
    assert np.abs(here - dynamics.forward_dynamics(robot, q, v, 0.0 * tau)).max() > 1e-3 * np.abs(here).max()


def test_joints_that_mujoco_has_not_are_refused_by_name():
    with pytest.raises(ddp.ModelError, match="which MuJoCo has not"):
        World(random_tree(0, lambda rng: pin.JointModelPlanar(), bodies=1))


def test_a_foot_that_stands_is_carried_by_the_ground_at_its_height():
    robot = dynamics.load("go2")
    feet = [Foot(f"{corner}_foot", (0.02,)) for corner in ("FL", "FR", "RL", "RR")]
    data = robot.model.createData()
    pin.framesForwardKinematics(robot.model, data, robot.q0)
    height = data.oMf[robot.frame_id("FL_foot")].translation[2]
    world = World(robot, feet, Ground(height, 0.6))
    assert world.model.geom("FL_foot").friction[0] == 0.6
    played = world.data(robot.q0, np.zeros(robot.nv))
    played.qpos[2] -= 1e-4
    mujoco.mj_forward(world.model, played)
    assert played.ncon == 4
    world = World(robot, feet, Ground(height - 0.01, 0.6))
    assert world.data(robot.q0, np.zeros(robot.nv)).ncon == 0


@pytest.mark.parametrize("seed", range(6))
def test_a_pulled_body_accelerates_as_under_its_force(seed):
    robot, rng = tree(seed), np.random.default_rng(seed)
    q, v, model = robot.random_configuration(rng), rng.normal(size=robot.nv), robot.model
    world = World(robot)
    data = world.data(q, v)
    joint = int(rng.integers(1, model.njoints))
    point, force = rng.normal(size=3), rng.normal(size=3)
    own = model.createData()
    pin.forwardKinematics(model, own, q)
    np.testing.assert_allclose(world.place(data, joint, point), own.oMi[joint].act(point), atol=1e-12)
    world.pull(data, joint % (model.njoints - 1) + 1, rng.normal(size=3), rng.normal(size=3))  # one that is over
    world.pull(data, joint, point, force)
    mujoco.mj_forward(world.model, data)
    local = own.oMi[joint].rotation.T @ force
    wrenches = [pin.Force.Zero() for _ in range(model.njoints)]
    wrenches[joint] = pin.Force(local, np.cross(point, local))
    a = pin.aba(model, own, q, v, np.zeros(robot.nv), wrenches)
    np.testing.assert_allclose(world.acceleration(data), a, atol=1e-10 * max(1.0, np.abs(a).max()))

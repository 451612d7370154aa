"""Robots with rods against closed forms and published numbers: circles, curved beams, contact, rigid limits."""

import numpy as np
import pinocchio as pin
import pytest
from oracles import fourth_order, random_inertia, random_placement
from rod_oracles import random_hybrid, tip

import dynamics
from dynamics import Assembly, Circle, ContactSprings, Material, Plane, Rod
from dynamics.geometry.configuration import integrate_batch

LIGHT = Material(1e6, 0.5, 1e-9)


@pytest.mark.parametrize("gauss", [2, 5, 9])
def test_an_end_couple_bends_a_rod_to_a_circle(gauss):
    rod = Rod("rod", 1.0, Circle(0.01), LIGHT, bending=(1, None), gauss=gauss)
    robot = Assembly(gravity=np.zeros(3)).rod(rod).wrench("couple", "rod/tip", follows=True).robot()
    u = np.zeros(6)
    u[4] = 2.0 * np.pi * 1e6 * 0.25 * np.pi * 0.01**4  # 2π EI / L
    rest = dynamics.statics(robot, u=u)
    assert rest.converged
    end = tip(robot, rest.q)
    np.testing.assert_allclose(end.translation, 0.0, rtol=0, atol=1e-12)
    np.testing.assert_allclose(end.rotation, np.eye(3), rtol=0, atol=1e-12)


def test_the_curved_beam_of_bathe_and_bolourchi():
    """A bend of 45 degrees, radius 100, E = 1e7, ν = 0, under 300 across its plane at the tip.

    The published section is 1 x 1, with the polar moment 1/6 for its torsion: so has a circle of the same bending.
    """
    length = 100.0 * np.pi / 4.0
    rest = [1.0, 0.0, 0.0, 0.0, 0.0, -0.01]
    rod = Rod(
        "bend", length, Circle((1.0 / (3.0 * np.pi)) ** 0.25), Material(1e7, 0.0, 1e-9), torsion=5, bending=5,
        stretch=3, shear=3, gauss=12, rest=rest,
    )  # fmt: skip
    along_y = pin.SE3(pin.utils.rotate("z", np.pi / 2), np.zeros(3))
    robot = Assembly(gravity=np.zeros(3)).rod(rod, placement=along_y).wrench("load", "bend/tip").robot()
    np.testing.assert_allclose(tip(robot, robot.q0).translation, [29.2893, 70.7107, 0.0], atol=1e-3)
    found = dynamics.statics(robot, u=[0.0, 0.0, 300.0, 0.0, 0.0, 0.0])
    assert found.converged
    np.testing.assert_allclose(tip(robot, found.q).translation, [22.24478, 58.77912, 40.19189], atol=1e-4 * length)


@pytest.mark.parametrize("push", [0.5, 20.0])
def test_a_rod_pressed_on_a_plane_sinks_by_the_law_of_its_springs(push):
    rod = Rod("rod", 0.5, Circle(0.02), Material(1e8, 0.4, 1000.0), stretch=1, gauss=4)
    build = Assembly(gravity=np.zeros(3))
    build.joint("slide", pin.JointModelPZ(), inertia=pin.Inertia(1.0, np.zeros(3), np.eye(3)))
    build.rod(rod, "slide", pin.SE3(pin.utils.rotate("y", np.pi / 2), np.zeros(3)))  # downwards
    build.contact(ContactSprings(Plane([0.0, 0.0, -0.53]), 1e5)).wrench("push", "slide")
    robot = build.robot()
    start = robot.q0.copy()
    start[0] = -0.015
    rest = dynamics.statics(robot, u=[0.0, 0.0, -push, 0.0, 0.0, 0.0, 0.0], q0=start)
    assert rest.converged
    depth = 0.02 - (tip(robot, rest.q).translation[2] + 0.53)
    np.testing.assert_allclose(depth, (push / 1e5) ** (2.0 / 3.0), rtol=1e-9)


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_rods_that_do_not_deform_are_rigid_bodies(seed, rng):
    robot = random_hybrid(seed)
    rods = robot.tree.rod[robot.tree.body] >= 0
    q, (v, a) = robot.random_configuration(rng), np.where(rods, 0.0, rng.normal(size=(2, robot.nv)))
    tau = dynamics.inverse_dynamics(robot, q, v, a)
    model, data = robot.chain, robot.chain.createData()
    chain_v, chain_a, names = np.zeros(model.nv), np.zeros(model.nv), []
    for b, name in enumerate(robot.joint_names):
        if robot.tree.rod[b] < 0:
            joint, own = model.joints[model.getJointId(name)], robot.coordinates(name)
            at = slice(joint.idx_v, joint.idx_v + joint.nv)
            chain_v[at], chain_a[at] = v[own], a[own]
            names.append((at, own))
    truth = pin.rnea(model, data, robot.to_chain(q), chain_v, chain_a)
    scale = np.abs(truth).max()
    for at, own in names:
        np.testing.assert_allclose(tau[own], truth[at], rtol=0, atol=1e-12 * scale)


def test_a_floating_hybrid_keeps_its_momentum(rng):
    body = random_inertia(rng)
    build = Assembly(gravity=np.zeros(3)).joint("root", pin.JointModelFreeFlyer(), inertia=body)
    soft = Material(1e6, 0.5, 1e3, 1e3)
    for k in range(2):
        rod = Rod(f"rod{k}", 0.4, Circle(0.03, 0.02), soft, torsion=1, bending=2, stretch=1, shear=0, gauss=4)
        build.rod(rod, "root", random_placement(rng))
    robot = build.joint("wrist", pin.JointModelSpherical(), "rod0/tip", inertia=body).robot()
    q, v = robot.random_configuration(rng), rng.normal(size=robot.nv)
    still = np.zeros(robot.nv)
    forces = dynamics.inverse_dynamics(robot, q, v, still) + dynamics.internal_forces(robot, q, v)
    a = -np.linalg.solve(dynamics.mass_matrix(robot, q), forces)

    def momentum(t):
        """Of the whole robot about the world's origin, t later to second order."""
        end = np.zeros((1, robot.nq + robot.nv))
        step = np.append(t * v + 0.5 * t * t * a, t * a)[None]
        integrate_batch(robot.tree, np.append(q, v)[None], step, end)
        at, rates = end[0, : robot.nq], end[0, robot.nq :]
        own = (dynamics.mass_matrix(robot, at) @ rates)[:6]  # along the axes of the root, about its origin
        return pin.XYZQUATToSE3(at[:7]).act(pin.Force(own)).vector

    assert np.abs(momentum(0.0)).min() > 1e-3
    rate, fast = fourth_order(momentum, 1e-5), np.abs(a).max()
    assert np.abs(rate).max() < 1e-10 * fast * np.abs(momentum(0.0)).max()

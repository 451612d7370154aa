"""SDF files: links and joints where the file has them, rotors, springs, loops; Cassie stands, falls and squats."""

import numpy as np
import pinocchio as pin
import pytest

import ddp
import dynamics
from ddp.errors import ModelError
from dynamics import Loop, Robot, RobotDynamics
from dynamics.robots import loop
from problems.costs import ControlCost, FramePosition, StateCost

LINK = """<link name="{}"><pose>{} 0 0.2 {}</pose><inertial><pose>.1 0 .02 0 .3 0</pose><mass>{}</mass><inertia>
<ixx>.01</ixx><iyy>.02</iyy><izz>.025</izz><ixy>.001</ixy></inertia></inertial></link>"""
JOINT = """<joint name="{}" type="{}"><parent>{}</parent><child>{}</child>{}<axis><xyz>{}</xyz>
<use_parent_model_frame>{}</use_parent_model_frame>{}</axis></joint>"""
SPRING = """<dynamics><damping>.3</damping><spring_stiffness>40</spring_stiffness>
<spring_reference>.2</spring_reference></dynamics>"""
ROTOR = """<joint name="motor" type="gearbox"><parent>rotor</parent><child>one</child>
<gearbox_reference_body>base</gearbox_reference_body><gearbox_ratio>.05</gearbox_ratio>
<axis><xyz>0 1 0</xyz><use_parent_model_frame>1</use_parent_model_frame></axis></joint>"""


def file(joints, links=""):
    bodies = ("base", 0, "0 0 0", 2), ("one", 0.4, "0 0 1", 1), ("two", 0.8, "1 0 0", 3)
    base = "".join(LINK.format(*link) for link in bodies)
    return f'<sdf version="1.6"><model name="made">{base}{links}{joints}</model></sdf>'


def chain(more="", links=""):
    first = JOINT.format("a", "revolute", "base", "one", "<pose>-.4 0 0 0 0 .5</pose>", "0 1 0", 1, SPRING)
    return file(first + JOINT.format("b", "prismatic", "one", "two", "", "0 0 1", 0, "") + more, links)


def test_bodies_are_where_the_file_has_them_and_turn_about_its_axes(rng):
    """Against poses written out by hand: T = about(place of a, y, q_a) · pose of a link, then a slide along two's z."""
    robot = dynamics.load(chain())
    q = rng.normal(size=2)
    places = (0.4, (0, 0, 1)), (0.8, (1, 0, 0))
    poses = [pin.SE3(pin.rpy.rpyToMatrix(*turn), np.array([x, 0.0, 0.2])) for x, turn in places]
    axis = poses[0].act(np.array([-0.4, 0.0, 0.0]))
    turned = pin.SE3(pin.exp3(q[0] * np.array([0.0, 1.0, 0.0])), np.zeros(3))
    about = pin.SE3(np.eye(3), axis) * turned * pin.SE3(np.eye(3), -axis)
    slid = pin.SE3(np.eye(3), poses[1].rotation[:, 2] * q[1])
    for name, truth in (("one", about * poses[0]), ("two", about * slid * poses[1])):
        np.testing.assert_allclose(dynamics.frame_placement(robot, q, name), truth.homogeneous, atol=1e-13)
    np.testing.assert_array_equal(robot.equipment.stiffness, [40.0, 0.0])
    assert robot.model.damping[0] == 0.3
    assert np.isclose(sum(body.mass for body in robot.model.inertias), 4.0)


def test_rotors_of_gearboxes_are_armature_and_motors():
    link = LINK.format("rotor", 0.0, "0 0 0", 0.5)
    spin = JOINT.format("spin", "revolute", "base", "rotor", "", "0 1 0", 1, "")
    robot = dynamics.load(chain(spin + ROTOR, link))
    assert robot.joint_names == ["a", "b"]
    about = (pin.exp3(np.array([0.0, 0.3, 0.0])) @ np.diag([0.01, 0.02, 0.025]))[1, 1]
    np.testing.assert_allclose(robot.model.armature, [about / 0.05**2, 0.0])
    np.testing.assert_array_equal(robot.actuation, [[1.0], [0.0]])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (file(JOINT.format("a", "revolute", "base", "nowhere", "", "0 1 0", 0, "")), "joins a link 'nowhere'"),
        (file(JOINT.format("a", "revolute", "base", "one", "", "0 0 0", 0, "")), "an axis of no length"),
        (file(JOINT.format("a", "revolute", "base", "one", "<pose>1 2</pose>", "0 1 0", 0, "")), "expected 6 finite"),
        (file(JOINT.format("a", "revolute", "two", "one", "", "0 1 0", 0, "")
              + JOINT.format("b", "revolute", "one", "two", "", "0 1 0", 0, "")), "form a circle"),
        (chain().replace("<pose>0.4", '<pose relative_to="base">0.4'), "SDF is read up to version 1.6"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_said(text, words):
    with pytest.raises(ModelError, match=words):
        dynamics.load(text)


def test_cassie_falls_with_its_rods_attached():
    cassie = dynamics.load("cassie")
    assert len(cassie.loops) == 4
    assert cassie.actuation.shape == (32, 10)
    assert np.count_nonzero(cassie.equipment.stiffness) == 4
    errors = []  # of the centre of mass, which no force but gravity moves: the light rods spin at 160 rad/s
    for dt in (1e-3, 5e-4):
        system = RobotDynamics(cassie, dt, integrator="sdirk2")
        X = system.rollout(np.r_[cassie.q0, np.zeros(32)], np.zeros((round(0.1 / dt), 10)))
        apart = [np.abs(loop.distances(loop.mechanism(cassie.model), cassie.loops, x[: cassie.nq])[0]).max() for x in X]
        assert max(apart) < 1e-9
        fallen = dynamics.center_of_mass(cassie, X[-1, : cassie.nq]) - dynamics.center_of_mass(cassie, cassie.q0)
        errors.append(np.abs(fallen - [0.0, 0.0, -0.5 * 9.81 * 0.1**2]).max())
    assert errors[1] < 2e-4
    assert errors[1] < 0.7 * errors[0]


def standing():
    """Cassie with both feet on lines that the ground holds: they may roll."""
    cassie = dynamics.load("cassie")
    model, feet = cassie.model.copy(), []
    data = model.createData()
    pin.framesForwardKinematics(model, data, cassie.q0)
    places = {side: data.oMf[model.getFrameId(f"{side}-foot")].copy() for side in ("left", "right")}
    for side, place in places.items():
        foot = model.frames[model.getFrameId(f"{side}-foot")]
        ground = pin.SE3(np.eye(3), place.translation)
        sole = foot.placement * place.actInv(ground)
        model.addFrame(pin.Frame(f"{side}-sole", foot.parentJoint, 0, sole, pin.OP_FRAME))
        model.addFrame(pin.Frame(f"{side}-ground", 0, 0, ground, pin.OP_FRAME))
        feet.append(Loop(f"{side}-sole", f"{side}-ground", "rx"))
    return Robot(model, cassie.q0, None, cassie.equipment, (*cassie.loops, *feet))


def test_cassie_squats():
    robot = standing()
    system = RobotDynamics(robot, 0.02, integrator="implicit-euler")
    x0 = np.r_[robot.q0, np.zeros(robot.nv)]
    u = system.nominal_control(x0)
    high = dynamics.frame_placement(robot, robot.q0, "pelvis")[:3, 3]
    low = FramePosition(robot, "pelvis", high - [0.0, 0.0, 0.15], 500.0)
    stay = StateCost(system, x0, np.r_[np.full(robot.nv, 0.01), np.full(robot.nv, 0.1)])
    still = StateCost(system, x0, np.r_[np.zeros(robot.nv), np.ones(robot.nv)])
    problem = ddp.Problem(system, [stay, ControlCost(u, np.full(10, 1e-5))], [low, still], x0, 25)
    exact, gauss_newton = ddp.solve(problem, ddp.DDP()), ddp.solve(problem, ddp.ILQR())
    assert exact.converged
    assert gauss_newton.converged
    assert abs(exact.cost - gauss_newton.cost) < 1e-8 * exact.cost
    assert abs(dynamics.frame_placement(robot, exact.X[-1, : robot.nq], "pelvis")[2, 3] - high[2] + 0.15) < 0.01
    for x in exact.X:
        assert np.abs(loop.distances(loop.mechanism(robot.model), robot.loops, x[: robot.nq])[0]).max() < 1e-9

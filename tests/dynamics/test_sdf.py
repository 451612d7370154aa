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

APART = (
    LINK.format("loose", 0, "0 0 0", 1) + LINK.format("tip", 1, "0 0 0", 1)
    + JOINT.format("c", "revolute", "loose", "tip", "", "0 1 0", 0, "")
    + JOINT.format("closing", "revolute", "tip", "two", "", "0 1 0", 0, "") + "</model>"
)  # fmt: skip


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
        (chain().replace("<xyz>", '<xyz expressed_in="base">'), "expressed_in='base' is not read"),
        (chain().replace("<pose>0.4", '<pose degrees="true">0.4'), "degrees='true' is not read"),
        (chain().replace('"made">', '"made" placement_frame="one">'), "placement_frame='one' is not read"),
        (chain().replace("<inertial>", '<inertial auto="true">'), "link 'base': expected an <inertial> with numbers"),
        (chain().replace('name="base"', 'name="world"'), "link 'world' in SDF: expected another name"),
        (chain().replace('"two"', '"one"'), "expected each link once, got 'one' 2 times"),
        (chain(JOINT.format("c", "fixed", "two", "world", "", "0 0 1", 0, "")), "expected a link as its child"),
        (chain().replace("</inertial>", "</inertial><inertial/>"), "'base' in SDF: expected one <inertial>, got 2"),
        (file(JOINT.format("turn", "screw", "base", "one", "", "0 0 1", 0, "")), "at least one moving joint, got none"),
        (chain().replace("<damping>.3", "<damping>-.3"), "<axis/dynamics/damping> of 'a': expected no negative number"),
        (chain().replace("</dynamics>", "<friction>-1</friction></dynamics>"), "friction> of 'a': expected no neg"),
        (chain().replace("<axis>", "<axis/><axis>"), "joint 'a' in SDF: expected one <axis>, got 2"),
        (chain(ROTOR.replace(".05", "0"), LINK.format("rotor", 0, "0 0 0", 1)), "expected a number but 0"),
        (chain(ROTOR.replace("one<", "two<").replace("rotor<", "one<")), "a rotor that carries nothing, got 'one'"),
        (chain().replace("</dynamics>", "</dynamics><limit><lower>2</lower><upper>1</upper></limit>"), "lower <="),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_said(text, words):
    with pytest.raises(ModelError, match=words):
        dynamics.load(text)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("</link>", "<gravity>false</gravity></link>", "gravity acts on all links, as on 'base', 'one', 'two'"),
        ("</link>", "<gravity>False</gravity></link>", "gravity acts on all links, as on 'base', 'one', 'two'"),
        ("</link>", "<kinematic>1</kinematic></link>", "links that are kinematic, 'base', 'one', 'two', are moved"),
        ("</link>", "<velocity_decay/></link>", "decay of velocities of links 'base', 'one', 'two' is not modelled"),
        ("</model>", "<static>true</static></model>", "models that are static, 'made', move"),
        ("</model>", '<model name="arm"/></model>', "nested models 'arm' are not read"),
        ("</model>", "<include><uri>model://a</uri></include></model>", "are included, 'model://a', are not read"),
        ("</model>", "</model><world/>", "elements <world> beside the first <model> are not read"),
        ("</model>", LINK.format("loose", 0, "0 0 0", 1) + "</model>", "links 'loose' that no joint carries"),
        ("</model>", APART, "links 'loose', 'tip' that no joint carries from the base on are not modelled"),
        ("</model>", APART, "joints 'closing' of links that are left out are not modelled"),
        ("</link><joint", '</link><link name="bare"/><joint', "links 'bare' without <inertial>, which weigh 1 kg"),
        ("</axis>", '<mimic joint="a"/></axis>', "mimic others follow them in MimicDynamics alone: 'a', 'b'"),
        ("</axis>", "<initial_position>.3</initial_position></axis>", "positions of joints 'a', 'b' are not read"),
        ('"revolute"', '"ball"', "springs of ball joints 'a' are not modelled"),
        ("</axis>", "</axis><drake:rotor_inertia>2</drake:rotor_inertia>", "<drake:rotor_inertia> of a, <drake:rotor"),
        ("</axis>", '</axis><drake:mimic joint="b"/>', "elements of other programs are not modelled: <drake:mimic> of"),
        ("</model>", '<drake:joint name="q" type="planar"/></model>', "are not modelled: <drake:joint> of q"),
    ],
)
def test_what_changes_the_motion_and_is_not_read_is_said(old, new, words, caplog):
    text = chain().replace(old, new)
    dynamics.load(text)
    assert words in caplog.text
    with pytest.raises(ModelError, match=words):
        dynamics.load(text, strict=True)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("</axis>", "<stifness>3</stifness></axis>", "SDF has no meaning for <stifness> of <axis>, which is not read"),
        ("<spring_stiffness>", "<spring_stiffness>-", "negative stiffness push away from their rest: 'a'"),
    ],
)
def test_what_is_odd_is_said_and_not_refused_by_strict(old, new, words, caplog):
    assert old in chain()
    robot = dynamics.load(chain().replace(old, new), strict=True)
    assert words in caplog.text
    assert (robot.equipment.stiffness.min() < 0.0) == ("negative" in words)


def test_loops_are_closed_to_what_is_fixed_to_the_world():
    """Fixed to the base, a plate is a body of the world: the joint from the last link to it is a ball there."""
    legs = "".join(JOINT.format(*ends, "", "0 1 0", 0, "") for ends in (("a", "ball", "base", "one"),
                   ("b", "ball", "one", "two"), ("p", "fixed", "base", "plate")))  # fmt: skip
    closing = JOINT.format("closing", "revolute", "two", "plate", "<pose>0 .3 0 0 0 0</pose>", "0 1 0", 0, "")
    robot = dynamics.load(file(legs + closing, LINK.format("plate", 1.0, "0 0 0", 1)))
    assert robot.loops == (Loop("closing_a", "closing_b", "rx ry rz"),)
    assert robot.carrier("closing_a")[0] == 1
    moved = pin.integrate(robot.model, robot.q0, np.full(6, 0.1))
    place = dynamics.frame_position(robot, robot.closed(moved), "closing_a")
    np.testing.assert_allclose(place, [1.0, 0.3, 0.2], atol=1e-9)


@pytest.mark.parametrize("tilt", [0.0, 0.4])
def test_hinges_that_close_loops_are_told_where_balls_give_their_axes_way(tilt, caplog):
    """A four-bar of parallel hinges, and one whose coupler has a ball at its other end and a tilted hinge."""
    kind = "ball" if tilt else "revolute"
    ends = ("a", "revolute", "base", "one"), ("b", kind, "one", "two"), ("c", "revolute", "base", "rocker")
    joints = "".join(JOINT.format(*names, "", "0 1 0", 1, "") for names in ends)
    at = "<pose>.3 0 .3 0 0 0</pose>"
    joints += JOINT.format("closing", "revolute", "two", "rocker", at, f"{tilt} 1 0", 1, "")
    robot = dynamics.load(file(joints, LINK.format("rocker", 1.2, "0 0 0", 1)))
    assert len(robot.loops) == 1
    assert ("hinges 'closing' close loops, in which they turn as balls" in caplog.text) == (tilt > 0.0)


def test_a_model_stands_where_its_pose_says():
    """A model that is turned about x, axes in its frame or not, is gravity that is turned back."""
    turned = dynamics.load(chain().replace('"made">', '"made"><pose>1 2 3 .7 0 0</pose>'))
    model = dynamics.load(chain()).model
    model.gravity.linear = pin.exp3(np.array([-0.7, 0.0, 0.0])) @ model.gravity.linear
    q, v, a = np.array([[0.3, -0.2], [0.5, 1.0], [-0.7, 0.4]])
    torques = dynamics.inverse_dynamics(turned, q, v, a)
    np.testing.assert_allclose(torques, pin.rnea(model, model.createData(), q, v, a), atol=1e-12)


@pytest.mark.parametrize(("old", "new", "words"), [
    ("</dynamics>", "</dynamics><dynamics><damping>9</damping></dynamics>", "'a' in SDF: expected one <dynamics>"),
    ("<damping>.3</damping>", "<damping>.3</damping><damping>9</damping>", "joint 'a' in SDF: expected one <damping>"),
    ("</mass>", "</mass><mass>2</mass>", "link 'base' in SDF: expected one <mass>, got 2"),
    ("<iyy>.02</iyy>", "<iyy>.02</iyy><iyy>.03</iyy>", "link 'base' in SDF: expected one <iyy>, got 2"),
])  # fmt: skip
def test_parts_that_stand_twice_are_refused(old, new, words):
    with pytest.raises(ModelError, match=words):
        dynamics.load(chain().replace(old, new))


def test_parts_that_stand_where_they_have_no_meaning_are_told(caplog):
    dynamics.load(chain().replace("</axis>", "<damping>3</damping><gazebo:damping/></axis>"))
    assert caplog.messages == ["made: SDF has no meaning for <damping> of <axis>, which is not read"]


@pytest.mark.parametrize(("old", "new", "told"), [
    ("</model>", "<plugin name='walk' filename='libwalk.so'/></model>", "plugins of simulators, 'walk', do not run"),
    ("</model>", "<gripper name='hand'/></model>", "grippers 'hand' do not hold what they touch"),
    ("</model>", "<frame name='F'/></model>", "frames 'F' are not read"),
    ("</axis>", "</axis><physics><ode/></physics>", "settings of simulators are not read: <physics> of 'a'"),
    ("</axis>", "</axis><axis2><xyz>1 0 0</xyz></axis2>", "second axes of joints 'a' have no meaning"),
    ("</axis>", "<limit><stiffness>9</stiffness></limit></axis>", "give way: <stiffness> of 'a' is not read"),
    ("</axis>", "<limit><dissipation>9</dissipation></limit></axis>", "give way: <dissipation> of 'a' is not read"),
    ("</axis>", "</axis><origin pose='1 0 0 0 0 0'/>", "SDF has no meaning for <origin> of <joint>, which is not read"),
    ("</link>", "<mass>3</mass></link>", "SDF has no meaning for <mass> of <link>, which is not read"),
    ("</model>", "<gravity>0 0 0</gravity></model>", "SDF has no meaning for <gravity> of <model>, which is not read"),
])  # fmt: skip
def test_parts_of_simulators_and_parts_unknown_are_told(old, new, told, caplog):
    dynamics.load(chain().replace(old, new, 1), strict=True)
    assert len(caplog.messages) == 1
    assert told in caplog.messages[0]


def test_inertias_that_no_body_can_have_are_warned_of_as_in_urdf(caplog, rng):
    robot = dynamics.load(chain().replace("<ixx>.01</ixx>", "<ixx>-.002</ixx>"))
    assert "inertias that no body can have (a negative moment of inertia: the body of joint 'a'" in caplog.text
    q, v, a = robot.random_configuration(rng), *rng.normal(size=(2, robot.nv))
    expected = pin.rnea(robot.model, robot.model.createData(), q, v, a)
    np.testing.assert_allclose(dynamics.inverse_dynamics(robot, q, v, a), expected, rtol=0, atol=1e-12)
    with pytest.raises(ModelError, match="link 'base': expected an <inertia> of less than 1e308"):
        dynamics.load(chain().replace(".01</ixx>", "1.7e308</ixx><ixz>1.7e308</ixz>").replace(".025<", "1.7e308<"))


def test_limits_of_effort_of_zero_are_told_as_they_are_read(caplog):
    for effort, told in ((0, True), (-1, False)):
        caplog.clear()
        limit = f"<limit><effort>{effort}</effort></limit><initial_position>0</initial_position>"
        robot = dynamics.load(chain().replace("</dynamics>", "</dynamics>" + limit), strict=True)
        assert np.isinf(robot.control_limits).all()
        assert ("limits of effort that are 0 are read as none: 'a'" in caplog.text) == told


def test_limits_of_effort_and_speed_are_read_and_axes_of_old_files_are_in_the_model():
    limit = "<limit><lower>-inf</lower><upper>2</upper><effort>5</effort><velocity>3</velocity></limit>"
    robot = dynamics.load(chain().replace("</dynamics>", "</dynamics>" + limit))
    np.testing.assert_array_equal(robot.control_limits, [[-5.0, 5.0], [-np.inf, np.inf]])
    assert (robot.model.upperVelocityLimit[0], robot.model.upperPositionLimit[0]) == (3.0, 2.0)
    unsaid = chain().replace("<use_parent_model_frame>1</use_parent_model_frame>", "")
    old, new = (dynamics.load(unsaid.replace("1.6", version)) for version in ("1.4", "1.6"))
    q = np.array([0.4, 0.0])
    place = dynamics.frame_placement(dynamics.load(chain()), q, "one")
    np.testing.assert_allclose(dynamics.frame_placement(old, q, "one"), place, atol=1e-14)
    assert np.abs(dynamics.frame_placement(new, q, "one") - place).max() > 0.01


def test_cassie_falls_with_its_rods_attached():
    cassie = dynamics.load("cassie")
    assert len(cassie.loops) == 4
    assert cassie.actuation.shape == (32, 10)
    assert np.count_nonzero(cassie.equipment.stiffness) == 4
    errors = []  # of the centre of mass, which no force but gravity moves: the light rods spin at 160 rad/s
    for dt in (1e-3, 5e-4):
        system = RobotDynamics(cassie, dt, integrator="sdirk2")
        X = system.rollout(np.r_[cassie.q0, np.zeros(32)], np.zeros((round(0.1 / dt), 10)))
        apart = [np.abs(loop.distances(cassie.mechanism, cassie.loops, x[: cassie.nq])[0]).max() for x in X]
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
        assert np.abs(loop.distances(robot.mechanism, robot.loops, x[: robot.nq])[0]).max() < 1e-9

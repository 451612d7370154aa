"""Robots from names, files and models; files that are wrong."""

import numpy as np
import pinocchio as pin
import pytest
from oracles import chain_of, random_state, random_tree

import dynamics
from ddp.errors import ModelError

URDF = """<robot name="arm">
  <link name="base"/>
  <link name="{link}"><inertial><mass value="{mass}"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
  {visual}</link>
  <joint name="hinge" type="{kind}"><parent link="base"/><child link="{link}"/><axis xyz="0 1 0"/>
    <limit effort="1" velocity="1" lower="-1" upper="1"/></joint>
</robot>"""


def urdf(folder, link="arm", mass="2.0", kind="revolute", visual=""):
    path = folder / "arm.urdf"
    path.write_text(URDF.format(link=link, mass=mass, kind=kind, visual=visual))
    return path


def test_a_named_robot_has_its_usual_root_and_posture():
    hyq = dynamics.load("hyq")
    assert (hyq.name, hyq.nq, hyq.nv, hyq.is_floating) == ("hyq", 19, 18, True)
    assert hyq.joint_names[0] == "root_joint"
    assert hyq.q0[2] > 0.5
    assert dynamics.load("ur5").nq == 6
    assert dynamics.load("ur5", root="free-flyer").nq == 13


def test_a_urdf_loads_with_either_root(tmp_path):
    assert dynamics.load(urdf(tmp_path)).nv == 1
    assert dynamics.load(str(urdf(tmp_path)), root="free-flyer").nv == 7


def test_an_mjcf_file_loads(tmp_path):
    path = tmp_path / "arm.xml"
    path.write_text(
        '<mujoco model="arm"><worldbody><body name="link"><joint name="hinge" type="hinge" axis="0 0 1"/>'
        '<inertial pos="0 0 0.1" mass="1" diaginertia="0.1 0.1 0.1"/></body></worldbody></mujoco>'
    )
    assert dynamics.load(path).joint_names == ["hinge"]


def test_missing_meshes_are_named_and_the_dynamics_still_load(tmp_path):
    visual = '<visual><geometry><mesh filename="package://nowhere/arm.stl"/></geometry></visual>'
    visual += '<visual><geometry><sphere radius="0.1"/></geometry></visual>'
    robot = dynamics.load(urdf(tmp_path, visual=visual))
    assert dynamics.inverse_dynamics(robot, [0.1], [0.0], [1.0]).shape == (1,)
    shapes, missing = robot.visuals()
    assert missing == ["package://nowhere/arm.stl"]
    assert len(shapes.geometryObjects) == 1


@pytest.mark.parametrize("mass", ["0.0", "-1.0"])
def test_a_mass_that_is_not_positive_is_named(tmp_path, mass):
    with pytest.raises(ModelError, match=r"mass of the link at joint 'hinge': expected a positive number \[kg\], got"):
        dynamics.load(urdf(tmp_path, mass=mass))


def test_a_joint_that_is_not_supported_is_named_with_its_type():
    model = pin.Model()
    joint = model.addJoint(0, pin.JointModelEllipsoid(1.0, 2.0, 3.0), pin.SE3.Identity(), "egg")
    model.appendBodyToJoint(joint, pin.Inertia.Random(), pin.SE3.Identity())
    with pytest.raises(ModelError, match=r"'egg' is a JointModelEllipsoid; supported are revolute.*Remodel it as"):
        dynamics.load(model)


@pytest.mark.parametrize("joint", [
    pin.JointModelUniversal(), pin.JointModelRevoluteUnaligned(), pin.JointModelPrismaticUnaligned(),
    pin.JointModelHelicalUnaligned(np.array([0.0, 1.0, 0.0]), 0.1),
])  # fmt: skip
def test_an_axis_whose_length_is_not_one_is_named(joint):
    for axis in ("axis", "axis1"):
        if hasattr(joint, axis):
            setattr(joint, axis, np.array([0.0, 0.0, 2.0]))
    model = pin.Model()
    j = model.addJoint(0, joint, pin.SE3.Identity(), "pin")
    model.appendBodyToJoint(j, pin.Inertia.Random(), pin.SE3.Identity())
    with pytest.raises(ModelError, match=r"joint 'pin.*': expected an axis of length 1, got \[0. 0. "):
        dynamics.load(model)


def test_gravity_that_is_not_uniform_is_refused():
    model = pin.buildSampleModelManipulator()
    model.gravity = pin.Motion(np.array([0.0, 0.0, -9.81, 0.1, 0.0, 0.0]))
    with pytest.raises(ModelError, match="expected a uniform gravity, got one with an angular part"):
        dynamics.load(model)


@pytest.mark.parametrize(("name", "bad"), [("armature", -1.0), ("armature", np.nan), ("damping", np.inf)])
def test_numbers_of_joints_that_make_no_sense_are_refused(name, bad):
    model = pin.buildSampleModelManipulator()
    setattr(model, name, np.append(np.zeros(model.nv - 1), bad))
    with pytest.raises(ModelError, match=f"{name} of .*: expected .* numbers?, got"):
        dynamics.load(model)


def test_gravity_that_is_no_number_is_refused():
    model = pin.buildSampleModelManipulator()
    model.gravity = pin.Motion(np.array([0.0, 0.0, np.nan, 0.0, 0.0, 0.0]))
    with pytest.raises(ModelError, match=r"gravity of .*: expected finite numbers"):
        dynamics.load(model)


def test_a_mimic_joint_is_refused_with_a_way_out():
    model = pin.Model()
    first = model.addJoint(0, pin.JointModelRX(), pin.SE3.Identity(), "finger")
    model.appendBodyToJoint(first, pin.Inertia.Random(), pin.SE3.Identity())
    second = model.addJoint(0, pin.JointModelRX(), pin.SE3.Identity(), "thumb")
    model.appendBodyToJoint(second, pin.Inertia.Random(), pin.SE3.Identity())
    mimic = pin.transformJointIntoMimic(model, first, second, 1.0, 0.0)
    with pytest.raises(ModelError, match=r"joint 'thumb' is a JointModelMimic.*Make it a joint of its own, or fix it"):
        dynamics.load(mimic)


@pytest.mark.parametrize(
    ("source", "root", "words"),
    [
        ("hyk", None, "did you mean 'hyq'"),
        ("HyQ", None, "did you mean 'hyq'"),
        ("UR5", None, "did you mean 'ur5'"),
        ("<mujoco/>", None, "robot text: expected at least one joint, got bodies that cannot move"),
        ("missing.urdf", None, "no such file in "),
        ("missing.urdf.xacro", None, "no such file in "),
        ("https://a.org/b.urdf", None, "robot file 'https:/a.org/b.urdf': no such file: addresses are not fetched"),
        ("folder/missing", None, "robot file 'folder/missing': no such file in "),
        ("hyq", "floating", "root: expected 'fixed' or 'free-flyer', got 'floating'"),
        (7, None, "source: expected a name, a path or a pinocchio.Model, got 7"),
        (pin.Model(), None, "expected at least one moving joint, got none"),
    ],
)
def test_what_cannot_be_loaded_is_named(source, root, words):
    with pytest.raises(ModelError) as caught:
        dynamics.load(source, root=root)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.urdf", "<robot name='a'><link", "not well-formed XML"),
        ("a.urdf", "<mujoco/>", "expected a <robot> element at the top, got <mujoco>"),
        ("a.urdf", "<robot name='a'><link name='b'/><joint name='c' type='revolute'/></robot>", "expected a <parent>"),
        ("a.txt", "hello", "expected .urdf, .xml (MJCF) or .sdf"),
        ("a.npz", "hello", "read by Solution.load(path, problem)"),
        ("a.urdf.xacro", "<robot/>", "expand it with `xacro "),
        ("a.sdf", "<sdf version='1.6'><model name='a'/></sdf>", "SDF"),
    ],
)  # fmt: skip
def test_an_unreadable_file_says_why(tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    with pytest.raises(ModelError) as caught:
        dynamics.load(tmp_path / name)
    assert words in str(caught.value)
    assert name in str(caught.value)


def test_unknown_frames_get_the_nearest_name():
    with pytest.raises(ModelError, match="ur5 has no frame 'tool'; did you mean 'tool0'"):
        dynamics.load("ur5").frame_id("tool")


def test_random_configurations_respect_limits_and_manifolds(rng):
    for robot in (dynamics.load("panda"), dynamics.load("hyq"), random_tree(1)):
        for _ in range(20):
            q = robot.random_configuration(rng)
            assert pin.isNormalized(robot.model, q, 1e-9)
            for kind, i in zip(robot.tree.kind, robot.tree.iq, strict=True):
                if kind in (0, 2):
                    assert robot.model.lowerPositionLimit[i] <= q[i] <= robot.model.upperPositionLimit[i]


def test_loading_a_model_does_not_change_it_or_share_it():
    model = dynamics.load("ur5").model
    robot = dynamics.load(model)
    model.armature = np.ones(6)
    assert robot.model.armature[0] == 0.0


def test_a_robot_cut_out_of_another_is_what_its_loader_makes():
    legs = dynamics.load("talos_legs")
    assert (legs.nq, legs.nv) == (19, 18)
    legs.model.armature, legs.q0[7:] = np.ones(18), 1.0
    again = dynamics.load("talos_legs")
    assert again.model.armature[0] == 0.0
    assert again.q0[7] == 0.0


def test_random_configurations_stay_within_limits_far_from_zero(rng):
    model = pin.Model()
    joint = model.addJoint(0, pin.JointModelPX(), pin.SE3.Identity(), "rail")
    model.appendBodyToJoint(joint, pin.Inertia.Random(), pin.SE3.Identity())
    model.lowerPositionLimit, model.upperPositionLimit = np.array([1.5]), np.array([2.0])
    assert 1.5 <= dynamics.load(model).random_configuration(rng)[0] <= 2.0
    model.upperPositionLimit = np.array([np.inf])
    assert dynamics.load(model).random_configuration(rng)[0] >= 1.5


def test_a_model_without_a_name_is_called_robot():
    model = pin.Model()
    joint = model.addJoint(0, pin.JointModelPX(), pin.SE3.Identity(), "rail")
    model.appendBodyToJoint(joint, pin.Inertia.Random(), pin.SE3.Identity())
    with pytest.raises(ModelError, match="robot has no frame 'tip'"):
        dynamics.load(model).frame_id("tip")


def test_rotors_are_honoured_and_what_the_dynamics_leave_out_is_said(caplog, rng):
    model = chain_of("revolute", "spherical", "prismatic").model
    model.name = "geared"
    model.rotorInertia, model.rotorGearRatio = np.full(5, 1e-4), np.array([100.0, 1.0, 1.0, 1.0, 50.0])
    model.damping, model.upperDryFrictionLimit = np.array([0.5, 0, 0, 0, 0.0]), np.array([0, 0, 0.2, 0, 0.0])
    plain = dynamics.load(model.copy())
    assert caplog.messages == [
        "geared: dry friction of spherical 1 is not modelled;"
        " viscous damping of revolute 0 acts in RobotDynamics(..., damping=True) alone"
    ]
    with pytest.raises(ModelError, match=r"^geared: dry friction of spherical 1 is not modelled$"):
        dynamics.load(model, strict=True)
    model.upperDryFrictionLimit = np.zeros(5)
    dynamics.load(model, strict=True)
    assert len(caplog.records) == 2
    q, v, a = random_state(plain, rng)
    rotors = np.array([1.0, 1e-4, 1e-4, 1e-4, 0.25])
    model.armature, model.rotorInertia = rotors, np.zeros(5)
    expected = pin.rnea(model, model.createData(), q, v, a)
    np.testing.assert_allclose(dynamics.inverse_dynamics(plain, q, v, a), expected, rtol=1e-12)
    np.testing.assert_allclose(dynamics.inverse_dynamics(dynamics.load(model), q, v, a), expected, rtol=1e-12)


def test_mimic_in_a_file_is_said_aloud(tmp_path, caplog):
    text = urdf(tmp_path).read_text()
    finger = (
        '<link name="finger"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
        '</inertial></link><joint name="curl" type="continuous"><parent link="arm"/><child link="finger"/>'
        '<axis xyz="1 0 0"/><mimic joint="hinge" multiplier="2"/></joint></robot>'
    )
    path = tmp_path / "hand.urdf"
    path.write_text(text.replace("</robot>", finger))
    assert dynamics.load(path).nv == 2
    assert "joints that mimic others follow them in MimicDynamics alone: curl" in caplog.text
    with pytest.raises(ModelError, match="joints that mimic others follow them in MimicDynamics alone: curl"):
        dynamics.load(path, strict=True)


def test_an_empty_name_is_refused():
    with pytest.raises(ModelError, match=r"source: expected a name, a path or a pinocchio\.Model, got ''"):
        dynamics.load("")


def test_a_named_robot_is_warned_of_once_a_process(caplog):
    for _ in range(2):
        dynamics.load("double_pendulum")
    assert caplog.text.count("acts in RobotDynamics(..., damping=True) alone") == 1


def test_massless_joints_of_models_without_frames_of_joints_are_fixed(rng):
    """Against Pinocchio's inverse dynamics of the whole model, where these joints rest at zero."""
    model, parent = pin.Model(), 0
    for name in ("a", "b", "c"):
        parent = model.addJoint(parent, pin.JointModelRX(), pin.SE3.Random(), name)
        model.appendBodyToJoint(parent, pin.Inertia.Random(), pin.SE3.Identity())
    empty = model.addJoint(2, pin.JointModelRY(), pin.SE3.Random(), "empty")
    model.addFrame(pin.Frame("tip", empty, 0, pin.SE3.Random(), pin.OP_FRAME))
    model.addJoint(empty, pin.JointModelSpherical(), pin.SE3.Random(), "end")
    model.armature = np.array([0.1, 0.2, 0.3, 0.0, 0.0, 0.0, 0.0])
    model.lowerEffortLimit, model.upperEffortLimit = -np.arange(1.0, 8.0), np.arange(1.0, 8.0)
    robot, kept = dynamics.load(model, massless="fixed"), [0, 1, 2]
    assert robot.joint_names == ["a", "b", "c"]
    np.testing.assert_array_equal(robot.control_limits[:, 1], [1.0, 2.0, 3.0])
    q, motion = pin.neutral(model), np.zeros((2, 7))
    q[kept], motion[:, kept] = rng.normal(size=3), rng.normal(size=(2, 3))
    data = model.createData()
    tau = pin.rnea(model, data, q, *motion)[kept]
    np.testing.assert_allclose(dynamics.inverse_dynamics(robot, q[kept], *motion[:, kept]), tau, atol=1e-12)
    pin.framesForwardKinematics(model, data, q)
    there = data.oMf[model.getFrameId("tip")].homogeneous
    np.testing.assert_allclose(dynamics.frame_placement(robot, q[kept], "tip"), there, atol=1e-13)

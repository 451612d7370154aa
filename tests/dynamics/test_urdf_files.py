"""URDF files that are wrong in one place: each is refused in a sentence that names it, none is silently repaired."""

import os
import resource

import mujoco
import numpy as np
import pinocchio as pin
import pytest
from oracles import random_state

import dynamics
import viz
from ddp.errors import ModelError

INERTIAL = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'


def link(name, inside=INERTIAL):
    return f'<link name="{name}">{inside}</link>'


def joint(name, parent, child, kind="continuous", inside=""):
    return f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>{inside}</joint>'


def robot(*parts, attributes=""):
    return f'<robot name="r"{attributes}>{"".join(parts)}</robot>'


def arm(*more, **replaced):
    """A robot of one hinge, with more elements, and with texts of it replaced."""
    limit = '<axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="1" velocity="1"/>'
    text = robot(link("base"), link("tip"), joint("hinge", "base", "tip", "revolute", limit), *more)
    for old, new in replaced.values():
        assert old in text
        text = text.replace(old, new)
    return text


WRONG = {
    "two parents": (arm(link("c"), joint("j", "base", "c"), joint("k", "tip", "c")), "'c'.*'base' by joint 'j'.*'k'"),
    "a cycle beside": (arm(link("c"), link("d"), joint("j", "c", "d"), joint("k", "d", "c")), "a cycle of 'c', 'd'"),
    "a cycle alone": (robot(link("c"), link("d"), joint("j", "c", "d"), joint("k", "d", "c")), "a cycle of 'c', 'd'"),
    "its own parent": (arm(link("c"), joint("j", "c", "c")), "a cycle of 'c'"),
    "two roots": (arm(link("c")), "one link without a parent, got 'base', 'c'"),
    "no link": (robot(), "expected at least one <link>, got none"),
    "a link twice": (arm(link("tip")), "each link once, got 'tip' 2 times"),
    "a joint twice": (arm(link("c"), joint("hinge", "tip", "c")), "each joint once, got 'hinge' 2 times"),
    "a link without a name": (arm("<link/>"), "a name of each <link>, got none at number 3"),
    "an unknown child": (arm(joint("j", "tip", "tipp")), "joint 'j': its child 'tipp' is no link; did you mean 'tip'"),
    "an unknown parent": (arm(link("c"), joint("j", "bass", "c")), "joint 'j': its parent 'bass' is no link"),
    "no child": (arm(x=('<child link="tip"/>', "")), "joint 'hinge': expected a <child>"),
    "no type": (arm(x=(' type="revolute"', "")), "joint 'hinge': expected one of the types revolute.*got None"),
    "an unknown type": (arm(x=('"revolute"', '"hinge"')), "joint 'hinge': expected one of the types.*got 'hinge'"),
    "no limit": (arm(x=("<limit ", "<bound ")), "joint 'hinge': a revolute joint needs a <limit> with effort"),
    "no axis": (arm(x=("0 1 0", "0 0 0")), "joint 'hinge': <axis>: expected a direction, got '0 0 0'"),
    "an axis too short": (arm(x=("0 1 0", "1e-200 0 0")), "'hinge': <axis>: expected a direction"),
    "a mass that is NaN": (arm(x=('value="1"', 'value="nan"')), "link 'base': <mass> value: .*number, got 'nan'"),
    "an infinite moment": (arm(x=('ixx="1"', 'ixx="1e999"')), "link 'base': <inertia> ixx: .*got '1e999'"),
    "a NaN in an axis": (arm(x=("0 1 0", "0 nan 0")), "joint 'hinge': <axis> xyz: expected 3 finite numbers"),
    "a limit that is NaN": (arm(x=('lower="-1"', 'lower="NaN"')), "joint 'hinge': <limit> lower"),
    "a word for a number": (arm(x=('value="1"', 'value="1kg"')), "link 'base': <mass> value: .*got '1kg'"),
    "two numbers for three": (arm(x=("0 1 0", "0 1")), "'hinge': <axis> xyz: expected 3 finite numbers, got '0 1'"),
    "a NaN in a shape": (
        arm(link("c", '<visual><geometry><sphere radius="nan"/></geometry></visual>'), joint("j", "tip", "c", "fixed")),
        "link 'c': <sphere> radius",
    ),
    "a digit of another script": (arm(x=('effort="1"', 'effort="１"')), "joint 'hinge': <limit> effort: .*got '１'"),
    "a negative effort": (arm(x=('effort="1"', 'effort="-1"')), "'hinge': <limit> effort: expected no negative number"),
    "a negative damping": (
        arm(x=("<limit", '<dynamics damping="-1"/><limit')), "<dynamics> damping: expected no negative number",
    ),
    "a negative speed": (arm(x=('velocity="1"', 'velocity="-1"')), "<limit> velocity: expected no negative number"),
    "no resistance": (arm(x=("<limit", "<dynamics/><limit")), "<dynamics>: expected damping or friction, got neither"),
    "no effort": (arm(x=('revolute"', 'continuous"'), y=('effort="1"', "")), "<limit>: expected effort .*no effort"),
    "an axis without numbers": (arm(x=(' xyz="0 1 0"', "")), "joint 'hinge': <axis>: expected xyz, got none"),
    "no leader": (arm(x=("<limit", "<mimic/><limit")), "joint 'hinge': <mimic>: expected joint, got no joint"),
    "no gain": (arm(x=("<limit", "<safety_controller/><limit")), "<safety_controller>: expected k_velocity, got no k_"),
    "a robot without a name": (arm(x=(' name="r"', "")), "expected a name of the <robot>, got none"),
    "a quaternion": (
        arm(x=("<inertial>", '<inertial><origin quat_xyzw="0 0 1 0"/>')), "link 'base': <origin>: .* got quat_xyzw"
    ),
    "a length out of bounds": (
        arm(x=("<inertial>", '<inertial><origin xyz="0 0 1e308"/>')), "link 'base': <origin> xyz: .* up to 1e.09, got"
    ),
    "two axes": (arm(x=("<axis", '<axis xyz="1 0 0"/><axis')), "joint 'hinge': expected one <axis>, got 2"),
    "two masses": (arm(x=("<mass", '<mass value="2"/><mass')), "link 'base': <inertial>: expected one <mass>, got 2"),
    "two inertials": (robot(link("base", INERTIAL * 2)), "link 'base': expected one <inertial>, got 2"),
    "a mass left out": (arm(x=('<mass value="1"/>', "")), "link 'base': <inertial>: expected <mass> with value"),
    "a moment left out": (arm(x=(' iyz="0"', "")), "link 'base': <inertial>: expected <inertia> with .*got no iyz"),
    "xacro's variables": (arm(x=('value="1"', 'value="${m}"')), "a xacro file that is not expanded.*run `xacro"),
    "xacro's macros": (arm('<xacro:leg side="left"/>'), r"a xacro file that is not expanded \(xacro:leg\)"),
    "xacro by another prefix": (
        robot("<x:include/>", link("a"), attributes=' xmlns:x="http://www.ros.org/wiki/xacro"'), "a xacro file",
    ),
    "macros alone": (robot('<xacro:macro name="arm"/>'), "a xacro file that is not expanded"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_urdf_that_is_wrong_is_refused_by_the_name_of_the_element(name, tmp_path):
    text, words = WRONG[name]
    with pytest.raises(ModelError, match=f"robot text: .*{words}") as caught:
        dynamics.load(text)
    assert "\n" not in str(caught.value)
    path = tmp_path / "wrong.urdf"
    path.write_text(text)
    with pytest.raises(ModelError, match=f"wrong.urdf': .*{words}"):
        dynamics.load(path)


def test_the_text_of_a_file_is_the_robot_of_the_file(tmp_path, rng):
    path = tmp_path / "arm.urdf"
    path.write_text(arm())
    read, given = dynamics.load(path, root="free-flyer"), dynamics.load("\ufeff\n " + arm(), root="free-flyer")
    assert given.joint_names == read.joint_names == ["root_joint", "hinge"]
    q, v, a = random_state(read, rng)
    np.testing.assert_array_equal(*[dynamics.inverse_dynamics(x, q, v, a) for x in (read, given)])


@pytest.mark.parametrize("kind", ["planar", "floating"])
def test_damping_and_friction_of_joints_that_pinocchio_reads_none_of_are_said_aloud(kind, caplog):
    inside = '<axis xyz="0 0 1"/><dynamics damping="{}" friction="{}" unit="SI"/>'  # with a word that means nothing
    free, rubbing = (
        arm(link("c"), joint("base", "tip", "c", kind, inside.format(*numbers))) for numbers in ((0, 0), (0, 0.2))
    )
    dynamics.load(free, strict=True)
    assert caplog.text == ""
    with pytest.raises(ModelError, match=r"damping and friction of planar and floating joints are not modelled: base$"):
        dynamics.load(rubbing, strict=True)
    assert dynamics.load(rubbing).nv == dynamics.load(free).nv


def test_a_floating_joint_counts_from_its_origin_where_mujoco_counts_from_the_world(rng):
    origin = '<origin xyz="1 -2 3" rpy="0.4 -0.5 0.6"/>'
    text = robot(link("a", ""), link("b"), joint("free", "a", "b", "floating", origin))
    made, theirs = dynamics.load(text), mujoco.MjModel.from_xml_string(text)
    data, q = mujoco.MjData(theirs), made.random_configuration(rng)
    base, placed = dynamics.frame_placement(made, made.q0, "b"), dynamics.frame_placement(made, q, "b")
    np.testing.assert_allclose(base[:3, 3], [1.0, -2.0, 3.0], rtol=0, atol=1e-15)
    np.testing.assert_allclose(placed, base @ pin.XYZQUATToSE3(q).homogeneous, rtol=0, atol=1e-12)
    data.qpos[:] = pin.SE3ToXYZQUAT(pin.SE3(placed))[[0, 1, 2, 6, 3, 4, 5]]
    mujoco.mj_forward(theirs, data)
    np.testing.assert_allclose(data.xpos[-1], placed[:3, 3], rtol=0, atol=1e-12)
    np.testing.assert_allclose(data.xmat[-1].reshape(3, 3), placed[:3, :3], rtol=0, atol=1e-12)


def test_prefixes_that_a_file_does_not_declare_are_read_as_ros_reads_them(caplog):
    gazebo = '<gazebo:plugin name="camera"><sensor:ray xacro:width="3"/></gazebo:plugin>'
    mimic = '<mimic joint="hinge"/><safety:limit value="2"/>'
    unused = '<xacro:property name="m" value="${2 * pi}"/><xacro:macro name="leg"><link name="${side}"/></xacro:macro>'
    made = dynamics.load(arm(gazebo, unused, link("c"), joint("follower", "tip", "c", inside=mimic)))
    assert made.joint_names == ["hinge", "follower"]
    assert "joints that mimic others follow them in MimicDynamics alone: follower" in caplog.text
    assert len(made.visuals()[0].geometryObjects) == 0
    attributes = ' xmlns="http://ros.org/urdf" xmlns:k="urn:k"'
    declared = robot(link("a"), link("b"), joint("j", "a", "b"), attributes=attributes)
    assert dynamics.load(declared).nv == 1


def test_misspelt_parts_and_planes_across_other_axes_are_said(caplog):
    slides = joint("slides", "tip", "c", "planar", '<axis xyz="0 1 0"/>')
    made = arm(link("c"), slides, x=("<limit", '<dynamic damping="3"/><dynamics damping="0" spring="2"/><limit'))
    assert dynamics.load(made).nv == 4
    assert "URDF has no meaning for <dynamic> of hinge, spring of <dynamics>, which is not read" in caplog.text
    with pytest.raises(ModelError, match=r"planar joints move in the plane of x and y of their origin.*: slides"):
        dynamics.load(made, strict=True)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("<limit", '<spring stiffness="3"/><limit', "<spring> of hinge"),
        ("<limit", '<gear ratio="50"/><limit', "<gear> of hinge"),
        ("</robot>", '<frame name="tool" link="tip" xyz="0 0 1"/></robot>', "<frame> of <robot>"),
        ('type="revolute"', 'type="revolute" stiffness="3"', "stiffness of <joint> hinge"),
        ('<link name="tip"', '<link name="tip" mass="3"', "mass of <link> tip"),
        ("<mass", '<com xyz="0 0 1"/><mass', "<com> of base, <com> of tip"),
        ("</robot>", "<Joint/></robot>", "<Joint> of <robot>"),
    ],
)
def test_elements_and_attributes_that_urdf_does_not_have_are_told(old, new, told, caplog):
    dynamics.load(arm(x=(old, new)))
    assert caplog.messages == [f"r: URDF has no meaning for {told}, which is not read"]


def test_what_other_programs_add_and_moves_nothing_is_not_told(caplog):
    ours = '<drake:collision_filter_group name="g"/><sensor name="s"/><material name="m"/><ros2_control name="c"/>'
    inside = '<contact><lateral_friction value="1"/></contact><self_filter scale="1"/></link>'
    dynamics.load(arm(ours, x=("</link>", inside), y=('type="revolute"', 'type="revolute" dont_collapse="true"')))
    assert not caplog.records


def test_what_other_programs_add_to_a_urdf_and_changes_its_motion_is_said(caplog):
    spring = '<gazebo reference="hinge"><springStiffness>{}</springStiffness></gazebo>'
    motor = (
        '<transmission name="t"><actuator name="m"><drake:rotor_inertia value="{}"/><drake:gear_ratio value="50"/>'
        "</actuator></transmission>"
    )
    loop = '<loop_joint name="l" type="fixed"><link1 link="a"/><link2 link="tip"/></loop_joint>'
    light = '<gazebo reference="tip"><turnGravityOff>{0}</turnGravityOff><plugin><static>1</static></plugin></gazebo>'
    heavy = '<gazebo reference="tip"><gravity>{}</gravity></gazebo>'
    rotor = (
        '<transmission name="r"><actuator name="m"><mechanicalReduction>50</mechanicalReduction>'
        "<motorInertia>{}</motorInertia></actuator></transmission>"
    )
    compiler = '<mujoco><compiler meshdir="." {}/></mujoco>'
    none = spring.format(0), motor.format("0.00"), rotor.format(0), light.format("false"), heavy.format(1)
    dynamics.load(arm(*none, compiler.format("")), strict=True)
    assert not caplog.records
    expected = (
        "<springStiffness> of hinge, <drake:gear_ratio> of t, <drake:rotor_inertia> of t, <loop_joint> of l,"
        " <turnGravityOff> of tip, <gravity> of tip, <motorInertia> of r, settotalmass of <compiler>$"
    )
    acting = spring.format(3), motor.format(1), loop, light.format(1), heavy.format("false"), rotor.format("1e-4")
    with pytest.raises(ModelError, match=expected):
        dynamics.load(arm(*acting, compiler.format('settotalmass="3"')), strict=True)


def test_numbers_of_unit_length_have_no_limits():
    continuous = dynamics.load("kinova")  # its joints 1, 4 and 6 turn without end
    pairs = [slice(0, 2), slice(4, 6), slice(7, 9)]
    assert all(np.isneginf(continuous.ranges.lower[pair]).all() for pair in pairs)
    assert all(np.isposinf(continuous.ranges.upper[pair]).all() for pair in pairs)
    assert np.isfinite([continuous.ranges.lower[i] for i in (2, 3, 6)]).all()
    base = dynamics.load("anymal").ranges
    assert np.isinf(base.lower[:7]).all()
    assert np.isfinite(base.lower[7:]).all()


def test_limits_of_zero_are_told_as_they_are_read(caplog):
    made = dynamics.load(arm(x=('lower="-1" upper="1" effort="1" velocity="1"', 'effort="0" velocity="0"')))
    lower, upper, velocity, effort = made.ranges
    assert (lower, upper, velocity) == (0.0, 0.0, 0.0)
    assert np.isinf(effort).all()
    told = "0 are read as none: hinge; limits of position or velocity that are 0 are read as 0: hinge"
    assert caplog.messages == [f"r: limits of effort that are {told}"]
    caplog.clear()
    dynamics.load(arm(x=('lower="-1"', 'lower="0"')))
    assert not caplog.records


def test_limits_of_continuous_joints_are_told_as_none(caplog):
    dynamics.load(arm(x=('"revolute"', '"continuous"')))
    assert caplog.messages == ["r: limits of position of continuous joints are not read: hinge"]
    caplog.clear()
    dynamics.load(arm(x=('"revolute"', '"continuous"'), y=('lower="-1" upper="1" ', "")))
    assert not caplog.records


def test_the_root_joint_has_a_name_that_is_free():
    made = dynamics.load(arm(x=("hinge", "root_joint")), root="free-flyer")
    assert (made.nv, made.joint_names) == (7, ["world_root_joint", "root_joint"])
    assert dynamics.load(arm(), root="free-flyer").joint_names == ["root_joint", "hinge"]


def test_the_frame_of_a_link_is_found_where_a_joint_has_its_name():
    made = dynamics.load(arm(link("c"), joint("tip", "tip", "c", inside='<origin xyz="1 2 3"/>')))
    np.testing.assert_array_equal(dynamics.frame_position(made, made.q0, "tip"), [0.0, 0.0, 0.0])
    np.testing.assert_array_equal(dynamics.frame_position(made, made.q0, "tip_joint"), [1.0, 2.0, 3.0])


def test_spaces_around_numbers_change_nothing():
    spaced = arm(x=('value="1"', 'value=" 1&#9;"'), y=('effort="1"', 'effort=" 1 "'), z=('ixx="1"', 'ixx="&#10;1"'))
    assert dynamics.load(spaced).model == dynamics.load(arm()).model


def limited(kind, lower, upper):
    limit = f'<limit lower="{lower}" upper="{upper}" effort="1" velocity="1"/>'
    return joint("j", "a", "b", kind, f'<axis xyz="0 0 1"/>{limit}')


@pytest.mark.parametrize(("lower", "upper"), [(1.0, -1.0), (np.nan, 1.0)])
def test_limits_that_leave_no_room_are_refused_by_the_name_of_the_joint(lower, upper):
    model = dynamics.load(arm()).model.copy()
    model.lowerPositionLimit, model.upperPositionLimit = np.array([lower]), np.array([upper])
    with pytest.raises(ModelError, match="limits of joint 'hinge': expected lower <= upper, got"):
        dynamics.load(model)


@pytest.mark.parametrize(
    ("kind", "lower", "upper", "expected"),
    [("revolute", 0.5, 1.0, 0.5), ("prismatic", -2.0, -1.0, -1.0), ("revolute", -1.0, 1.0, 0.0)],
)
def test_the_usual_posture_is_neutral_clipped_into_the_limits(kind, lower, upper, expected):
    made = dynamics.load(robot(link("a"), link("b"), limited(kind, lower, upper)), root="free-flyer")
    np.testing.assert_array_equal(made.q0, [0, 0, 0, 0, 0, 0, 1, expected])
    np.testing.assert_array_equal(made.neutral(), [0, 0, 0, 0, 0, 0, 1, 0])


def test_a_continuous_joint_and_a_posture_of_the_source_are_left_as_they_are():
    made = dynamics.load(robot(link("a"), link("b"), limited("continuous", 0.5, 1.0)))
    np.testing.assert_array_equal(made.q0, [1.0, 0.0])
    assert dynamics.load("hyq").q0[2] > 0.5


def chain(length):
    links = [link(f"l{i}") for i in range(length)]
    kinds = ["continuous", *["fixed"] * (length - 2)]
    return robot(*links, *(joint(f"j{i}", f"l{i}", f"l{i + 1}", kind) for i, kind in enumerate(kinds)))


DANGEROUS = {
    "links one behind another": (chain(10_000), "at most 500 links one behind another"),
    "elements one inside of another": ("<robot>" + "<a>" * 50_000, "at most 500 elements one inside of another"),
    "too many elements": ("<robot>" + "<a/>" * 150_000 + "</robot>", "at most 100000 elements"),
    "entities": (
        '<!DOCTYPE r [<!ENTITY a "1"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><robot name="&b;"/>',
        r"no entities of its own, got 'a' \(line 1\)",
    ),
    "entities of another file": ('<!DOCTYPE r SYSTEM "other"><robot>&x;</robot>', "no entities of its own"),
    "no element": ("<!-- nothing -->", "not well-formed XML"),
    "another element": ("<html/>", "expected a <robot>, <mujoco> or <sdf> element at the top, got <html>"),
    "an unknown encoding": ("<?xml version='1.0' encoding='klingon'?><robot/>", ""),
}


def in_a_child(action):
    """Text that ``action`` returns in a process of its own, whose end is not ours, with 2 GB more memory at most."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()  # noqa: SIM115
        resource.setrlimit(resource.RLIMIT_AS, (used + 2**31, used + 2**31))
        resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
        try:
            os.write(write, str(action()).encode()[:4000])
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as results:
        said = results.read()
    assert os.waitpid(child, 0)[1] == 0
    return said


def refusal(source):
    try:
        return dynamics.load(source)
    except ModelError as error:
        return f"ModelError: {error}"


@pytest.mark.parametrize("name", DANGEROUS)
def test_no_text_ends_the_process(name):
    text, words = DANGEROUS[name]
    said = in_a_child(lambda: refusal(text))
    assert said.startswith("ModelError: robot text: ")
    assert words.replace("\\", "") in said


@pytest.mark.parametrize("fixed", [True, False])
def test_the_longest_chain_that_is_accepted_can_be_simulated(fixed):
    text = chain(500) if fixed else chain(500).replace("fixed", "continuous")
    said = in_a_child(lambda: dynamics.load(text).nv)
    assert said == ("1" if fixed else "499")


def test_a_long_chain_is_drawn_in_little_memory(tmp_path):
    made, path = dynamics.load(chain(400).replace("fixed", "continuous")), tmp_path / "motion.html"
    assert "missing=()" in in_a_child(lambda: viz.save_html(path, made, np.repeat(made.q0[None], 2, axis=0), 0.1))


def test_no_file_ends_the_process_or_waits_for_ever(tmp_path):
    os.mkfifo(tmp_path / "pipe.urdf")
    (tmp_path / "folder.urdf").mkdir()
    (tmp_path / "empty.urdf").write_bytes(b"")
    (tmp_path / "garbage.urdf").write_bytes(np.random.default_rng(0).bytes(5000))
    (tmp_path / "loop.urdf").symlink_to(tmp_path / "loop.urdf")
    (tmp_path / "device.urdf").symlink_to("/dev/zero")
    with open(tmp_path / "huge.urdf", "wb") as file:
        file.truncate(2**36)
    words = {
        "pipe": "a pipe", "folder": "got a folder", "empty": "well-formed", "garbage": "well-formed", "huge": "64 MB",
        "loop": "cannot be read", "device": "got a device", "absent": "no such file",
    }  # fmt: skip
    for name, expected in words.items():
        said = in_a_child(lambda name=name: refusal(tmp_path / f"{name}.urdf"))
        assert said.startswith("ModelError")
        assert expected in said


@pytest.mark.parametrize("path", ["arm.urdf", "../arm.urdf"])
def test_a_file_is_not_looked_for_where_no_folder_is_any_more(tmp_path, monkeypatch, path):
    (tmp_path / "arm.urdf").write_text(arm())
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(ModelError, match=rf"^robot file '{path}': .* the working folder has been removed"):
        dynamics.load(path)


@pytest.mark.parametrize("source", ["x" * 5000, "a\0b.urdf", "a\0b", ""])
def test_names_that_no_file_can_have_are_refused(source):
    with pytest.raises(ModelError):
        dynamics.load(source)


def test_a_file_that_may_not_be_read_says_so(tmp_path, monkeypatch):
    def forbidden(*_):
        raise PermissionError(13, "Permission denied")

    path = tmp_path / "arm.urdf"
    path.write_text(arm())
    monkeypatch.setattr("os.open", forbidden)
    with pytest.raises(ModelError, match=r"arm.urdf': cannot be read .*Permission denied"):
        dynamics.load(path)

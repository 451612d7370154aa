"""Inertias of URDF links that no body can have, and joints that move nothing."""

import pickle

import numpy as np
import pinocchio as pin
import pytest
from example_robot_data import robots_loader
from oracles import random_tree

import dynamics
from ddp.errors import ModelError
from dynamics.robots.massless_joints import mass_matrix

WEIGHTLESS = ("bluevolta_bravo7_gripper", "bravo7_gripper", "falcon_bravo7_gripper", "romeo")
IMPOSSIBLE = {
    "alex_psyonic_hands": 4, "allegro_left_hand": 4, "allegro_right_hand": 4, "anymal": 1, "anymal_c": 5,
    "anymal_kinova": 1, "b1": 1, "b1_z1": 1, "bolt": 2, "go1": 1, "hyq": 5, "pr2": 2, "tiago": 2, "tiago_dual": 2,
    "tiago_no_hand": 2,
}  # fmt: skip
"""Links of each robot of example-robot-data with an inertia that no body has, see ``impossible``."""


def inertial(mass="1", moments="1 1 1", products="0 0 0", com="0 0 0"):
    ixx, iyy, izz = moments.split()
    ixy, ixz, iyz = products.split()
    tensor = f'ixx="{ixx}" iyy="{iyy}" izz="{izz}" ixy="{ixy}" ixz="{ixz}" iyz="{iyz}"'
    return f'<inertial><origin xyz="{com}"/><mass value="{mass}"/><inertia {tensor}/></inertial>'


UPPER = inertial()


def arm(name, tip="", kind="continuous", upper=UPPER):
    """base - shoulder (continuous) -> upper - wrist -> tip, with these inertials."""
    return f"""<robot name="{name}"><link name="base"/><link name="upper">{upper}</link><link name="tip">{tip}</link>
      <joint name="shoulder" type="continuous"><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/></joint>
      <joint name="wrist" type="{kind}"><parent link="upper"/><child link="tip"/><origin xyz="0.1 0.2 1"/>
        <axis xyz="0 1 0"/></joint></robot>"""


@pytest.mark.parametrize(
    ("tip", "reason"),
    [
        (inertial(moments="1 1 2.1"), "a principal moment larger than the sum of the other two"),
        (inertial(moments="2 2 2", products="1 1 1"), "a principal moment larger than the sum of the other two"),
        (inertial(moments="1 1 1", products="2 0 0"), "a negative moment of inertia"),
        (inertial(moments="-1e-8 1e-8 1e-8"), "a negative moment of inertia"),
        (inertial(mass="0"), "moments of inertia without mass"),
        (inertial(mass="-0.1"), "negative mass"),
    ],
)
def test_a_link_that_no_body_can_be_is_named_in_one_warning_wherever_it_is_fixed(tip, reason, caplog):
    name = f"{reason} {tip}".replace('"', "").replace("<", "").replace(">", "")
    dynamics.load(arm(name, tip, "fixed"))
    assert [record.message for record in caplog.records] == [
        f"{name}: inertias that no body can have ({reason}: link 'tip')"
    ]


def test_a_joint_that_turns_a_negative_moment_of_inertia_is_told_of_in_words_alone(caplog):
    dynamics.load(arm("negative", inertial(moments="-9 1 1")))
    assert "a negative moment of inertia: link 'tip'" in caplog.text


@pytest.mark.parametrize(
    "tip", ["", inertial(moments="0 0 0"), inertial(moments="1 1 2"), inertial(moments="1 1 2.001"),
            inertial(mass="0", moments="0 0 0"), inertial(moments="0 1 1"), inertial(moments="1e-20 -1e-20 0")],
)  # fmt: skip
def test_plates_rods_points_and_rounding_are_bodies(tip, caplog):
    dynamics.load(arm("plain", tip, "fixed"))
    assert caplog.text == ""


def test_a_fixed_joint_that_is_called_as_the_world_carries_its_link(rng):
    text = arm("mounted", UPPER, "fixed")
    usual, renamed = dynamics.load(text), dynamics.load(text.replace("wrist", "universe"))
    q = usual.random_configuration(rng)
    torques = [dynamics.inverse_dynamics(robot, q, np.ones(1), np.ones(1)) for robot in (usual, renamed)]
    np.testing.assert_array_equal(*torques)
    places = [dynamics.frame_placement(robot, q, "tip") for robot in (usual, renamed)]
    np.testing.assert_array_equal(*places)


@pytest.mark.parametrize("shape", ["", "<visual><geometry><box size='1 1 1'/></geometry></visual>"])
@pytest.mark.parametrize("fixed", ["", inertial()])
def test_a_link_with_a_shape_moves_without_mass_in_one_warning_that_names_it(shape, fixed, caplog):
    turns = "<axis xyz='0 1 0'/></joint>"
    dynamics.load(
        f"<robot name='r'><link name='base'/><link name='bare'>{shape}</link><link name='fixed'>{fixed}</link>"
        f"<link name='tip'>{inertial()}</link>"
        f"<joint name='a' type='continuous'><parent link='base'/><child link='bare'/>{turns}"
        "<joint name='b' type='fixed'><parent link='bare'/><child link='fixed'/></joint>"
        f"<joint name='c' type='continuous'><parent link='bare'/><child link='tip'/><origin xyz='1 0 0'/>{turns}"
        "</robot>"
    )
    warned = ["r: links with a shape and no <inertial>, which move as if they had no mass: link 'bare'"]
    assert [record.message for record in caplog.records] == (warned if shape and not fixed else [])


def test_bodies_of_a_model_are_named_by_their_joints(caplog):
    model = pin.Model()
    model.name = "modelled"
    joint = model.addJoint(0, pin.JointModelRX(), pin.SE3.Identity(), "hinge")
    model.appendBodyToJoint(joint, pin.Inertia(1.0, np.zeros(3), np.diag([1.0, 1.0, 3.0])), pin.SE3.Identity())
    dynamics.load(model)
    assert "modelled: inertias that no body can have" in caplog.text
    assert "the body of joint 'hinge'" in caplog.text


def test_a_mass_matrix_with_a_negative_direction_is_refused():
    with pytest.raises(ModelError, match=r"odd: expected a mass matrix that is positive definite.*link 'upper'"):
        dynamics.load(arm("odd", kind="fixed", upper=inertial(moments="1 -1 1")))


def test_an_ill_conditioned_mass_matrix_is_said_aloud_in_any_units_and_small_tips_are_not(caplog):
    twice = inertial(moments="1e-7 1e-7 1e-7", com="-0.1 -0.2 0.0")
    model = pin.Model()
    model.name = "twofold"
    first = model.addJoint(0, pin.JointModelRZ(), pin.SE3.Identity(), "first")
    model.appendBodyToJoint(first, pin.Inertia(1e-15, np.zeros(3), 1e-15 * np.eye(3)), pin.SE3.Identity())
    second = model.addJoint(first, pin.JointModelRZ(), pin.SE3.Identity(), "second")
    model.appendBodyToJoint(second, pin.Inertia(10.0, np.zeros(3), np.eye(3)), pin.SE3.Identity())
    dynamics.load(model)
    assert "twofold: the mass matrix is ill-conditioned (" in caplog.text
    model.inertias[1] = pin.Inertia(1e-20, np.zeros(3), 1e-20 * np.eye(3))
    dynamics.load(model)
    assert "twofold: the mass matrix is singular" in caplog.text
    caplog.clear()
    big = inertial(mass="1e6", moments="1e9 1e9 1e9")
    dynamics.load(arm("scaled", twice.replace('value="1"', 'value="1e-6"'), upper=big))  # condition 1e16 in SI units
    assert caplog.text == ""


def test_the_mass_matrix_that_is_checked_is_pinocchios(rng):
    for seed in range(6):
        model = random_tree(seed).model
        model.armature = rng.uniform(0.1, 1.0, model.nv)
        q = dynamics.load(model).random_configuration(rng)
        expected = pin.crba(model, model.createData(), q)
        expected = np.triu(expected) + np.triu(expected, 1).T
        np.testing.assert_allclose(mass_matrix(model, q), expected, atol=1e-13 * np.abs(expected).max())


@pytest.mark.parametrize(
    "tip",
    [
        "",
        inertial(mass="0", moments="0 0 0"),
        inertial(mass="0"),
    ],
)
def test_a_joint_that_moves_nothing_is_refused_by_the_name_of_its_link_with_a_way_out(tip):
    text = arm("light", tip)
    words = r"joint 'wrist': expected a positive number \[kg\].*link 'tip'.*'fixed'.*'ignore'"
    with pytest.raises(ModelError, match=words):
        dynamics.load(text)
    rigid, fixed = dynamics.load(arm("light", tip, "fixed")), dynamics.load(text, massless="fixed")
    assert fixed.joint_names == ["shoulder"]
    assert fixed.model.existFrame("tip")
    for each in (fixed, pickle.loads(pickle.dumps(fixed))):
        np.testing.assert_array_equal(each.q0, rigid.q0)
        arguments = [np.cos(0.3), np.sin(0.3)], [0.2], [0.7]
        expected = dynamics.inverse_dynamics(rigid, *arguments)
        np.testing.assert_allclose(dynamics.inverse_dynamics(each, *arguments), expected, rtol=1e-14)


@pytest.mark.parametrize("moments", ["0 0 0", "1 0 1"])
def test_a_point_or_a_rod_on_its_axis_is_warned_of_and_can_be_fixed(moments, caplog):
    text = arm("thin", inertial(moments=moments))
    assert dynamics.load(text).nv == 2
    assert "thin: the mass matrix is singular" in caplog.text
    assert dynamics.load(text, massless="fixed").joint_names == ["shoulder"]


def test_weightless_links_that_are_kept_follow_pinocchio_and_forward_dynamics_say_that_they_cannot():
    kept = dynamics.load(arm("kept"), massless="ignore")
    q, v, a = pin.integrate(kept.model, kept.q0, np.array([0.3, 0.4])), np.array([0.1, -0.2]), np.array([0.5, 0.6])
    expected = pin.rnea(kept.model, kept.model.createData(), q, v, a)
    np.testing.assert_allclose(dynamics.inverse_dynamics(kept, q, v, a), expected, rtol=1e-12, atol=1e-15)
    assert len(pickle.loads(pickle.dumps(kept)).joint_names) == 2
    with pytest.raises(ModelError, match="kept: the mass matrix is not positive definite"):
        dynamics.forward_dynamics(kept, q, v, a)


def test_a_rotor_moves_a_weightless_link():
    model = pin.buildModelFromXML(arm("geared"))
    model.armature = np.array([0.0, 0.1])
    assert dynamics.load(model).nv == 2


def test_what_is_said_of_weightless_joints_is_checked():
    with pytest.raises(ModelError, match="massless: expected 'fixed' or 'ignore', got 'drop'"):
        dynamics.load("romeo", massless="drop")
    with pytest.raises(ModelError, match="expected a joint that moves mass, got none"):
        dynamics.load(arm("empty", upper="", kind="fixed"), massless="fixed")


def impossible(robot):
    """Links of a robot's URDF that no masses add up to: their second moment tr(I)/2 - I has a negative eigenvalue.

    Moments of a body 0.03 mm across count as none, and a thousandth of the largest as rounding.
    """
    found = []
    for link in robot.source.document.iter("link"):
        mass, tensor = link.find("inertial/mass"), link.find("inertial/inertia")
        if mass is not None:
            m, i = float(mass.get("value")), {key: float(value) for key, value in tensor.items()}
            upper = [[i["ixx"], i["ixy"], i["ixz"]], [0.0, i["iyy"], i["iyz"]], [0.0, 0.0, i["izz"]]]
            I = np.triu(upper) + np.triu(upper, 1).T
            size = np.abs(np.linalg.eigvalsh(I)).max()
            spread = np.linalg.eigvalsh(0.5 * np.trace(I) * np.eye(3) - I)[0]
            if size > 1e-9 * m and (m <= 0.0 or spread < -0.5e-3 * size):
                found.append(link.get("name"))
    return found


@pytest.mark.parametrize("name", sorted(robots_loader.ROBOTS))
def test_every_robot_of_example_robot_data_loads_or_says_why_not(name, caplog):
    if name == "cassie":
        assert len(dynamics.load(name).loops) == 4  # an SDF model: see test_sdf.py
        return
    if name in WEIGHTLESS:
        with pytest.raises(ModelError, match=r"massless='fixed'\) fixes such joints"):
            dynamics.load(name)
    robot = dynamics.load(name, massless="fixed" if name in WEIGHTLESS else None)
    wrong = impossible(robot)
    assert len(wrong) == IMPOSSIBLE.get(name, 0)
    said = [record.message for record in caplog.records if "no body can have" in record.message]
    assert len(said) == (len(wrong) > 0)
    assert all(f"link {link!r}" in said[0] for link in wrong)
    assert ("ill-conditioned" in caplog.text) == (name == "icub")
    assert pin.isNormalized(robot.model, robot.q0, 1e-9)

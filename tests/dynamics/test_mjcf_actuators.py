"""Actuators of MJCF files: constant columns of S and limits of controls as MuJoCo has them, the others named."""

import mujoco
import mujoco_oracle
import numpy as np
import pytest

import dynamics
from ddp.errors import ModelError

ARM = """<worldbody><body pos="0 0 1"><joint name="a" axis="0 1 0"/><geom size=".1" pos=".3 0 0"/>
    <body pos=".5 0 0"><joint name="b" axis="1 1 0" {}/><geom size=".1" pos=".2 .1 0"/><site name="tip" pos=".3 0 0"/>
    <body pos=".4 0 0"><joint name="c" type="ball"/><geom type="box" size=".1 .2 .1" pos=".1 0 0"/></body></body></body>
    <site name="origin"/></worldbody>"""
DRONE = """<worldbody><body><freejoint name="root"/><geom type="box" size=".1 .1 .02"/><site name="left" pos="0 .1 0"/>
    <site name="right" pos="0 -.1 0" euler="10 0 0"/></body><site name="origin"/></worldbody>"""
TENDON = """<tendon><fixed name="t"><joint joint="a" coef="2"/><joint joint="b" coef="-3"/></fixed></tendon>"""

CONSTANT = {
    "motors with gears": (ARM, '<motor joint="a" gear="3"/><motor joint="b" gear="-2" ctrlrange="-1 2"/>'),
    "general with a gain": (ARM, '<general joint="a" gainprm="7" gear="2" ctrlrange="0 1"/>'),
    "an affine gain that is constant": (ARM, '<general joint="a" gaintype="affine" gainprm="7" biastype="affine"/>'),
    "in the parent's frame": (ARM, '<motor jointinparent="b" gear="2"/>'),
    "balls": (ARM, '<motor joint="c" gear="1 2 3"/><motor joint="c" gear="0 1 0"/>'),
    "a fixed tendon": (ARM + TENDON, '<motor tendon="t" gear="2" ctrlrange="-1 1"/>'),
    "propellers": (DRONE, '<motor site="left" gear="0 0 1 0 0 .1"/><motor site="right" gear="0 0 1 0 0 -.1"/>'),
    "torques on a free body": (DRONE, '<motor joint="root" gear="0 0 0 1 2 3"/>'),
    "disabled groups": (
        '<option actuatorgroupdisable="3"/>' + ARM, '<motor joint="a" group="3"/><motor joint="b"/>'
    ),
}  # fmt: skip


def write(folder, inside, actuators):
    path = folder / "robot.xml"
    path.write_text(f'<mujoco model="robot">\n{inside.replace("{}", "")}\n<actuator>{actuators}</actuator></mujoco>')
    return path


@pytest.mark.parametrize("case", CONSTANT)
def test_motors_move_the_robot_as_in_mujoco(tmp_path, case, rng):
    path = write(tmp_path, *CONSTANT[case])
    robot, said = mujoco_oracle.load(path)
    m = mujoco_oracle.compiled(path)
    assert not said
    used = [1] if case == "disabled groups" else range(m.nu)
    assert robot.equipment.actuation.shape == (m.nv, len(used))
    u = np.clip(rng.normal(size=m.nu), *np.where(m.actuator_ctrllimited, m.actuator_ctrlrange.T, [[-9], [9]]))
    qpos, qvel = mujoco_oracle.random_state(m, rng)
    data = mujoco.MjData(m)
    data.qpos[:], data.qvel[:], data.ctrl[:] = qpos, qvel, u
    mujoco.mj_forward(m, data)
    assert mujoco_oracle.error(mujoco_oracle.our_qacc(robot, m, qpos, qvel, u[used]), data.qacc) < 1e-12


@pytest.mark.parametrize(
    ("actuators", "joint", "expected"),
    [
        ('<motor joint="b"/>', "", [-np.inf, np.inf]),
        ('<motor joint="b" ctrlrange="-2 3"/>', "", [-2, 3]),
        ('<motor joint="b" ctrlrange="-2 3" ctrllimited="false"/>', "", [-np.inf, np.inf]),
        ('<motor joint="b" ctrlrange="-2 3" forcerange="-1 9" gear="5"/>', "", [-1, 3]),
        ('<general joint="b" ctrlrange="-2 3" gainprm="-4" forcerange="-1 9"/>', "", [-2, 0.25]),
        ('<motor joint="b" gear="5"/>', 'actuatorfrcrange="-10 20"', [-2, 4]),
        ('<motor joint="b" gear="-5" ctrlrange="-3 1"/>', 'actuatorfrcrange="-10 20"', [-3, 1]),
        ('<position joint="b" kp="9" ctrlrange="-2 3" forcerange="-7 8"/>', "", [-7, 8]),
        ('<position joint="b" kp="9" ctrlrange="-2 3"/>', 'actuatorfrcrange="-5 6"', [-5, 6]),
        ('<muscle joint="b" lengthrange="0 1"/>', "", [-np.inf, 0]),
    ],
)
def test_limits_of_controls_are_those_of_control_and_force(tmp_path, actuators, joint, expected):
    robot = dynamics.load(write(tmp_path, ARM.format(joint), actuators))
    np.testing.assert_allclose(robot.equipment.control_limits, [expected])


def test_control_limits_are_off_where_a_flag_says_so(tmp_path):
    inside = '<option><flag clampctrl="disable"/></option>' + ARM
    robot = dynamics.load(write(tmp_path, inside, '<motor joint="b" ctrlrange="-2 3"/>'))
    np.testing.assert_array_equal(robot.equipment.control_limits, [[-np.inf, np.inf]])


def test_the_force_of_all_motors_of_a_joint_is_named_where_it_can_reach_its_limit(tmp_path):
    two = '<motor joint="b" ctrlrange="-1 1"/><motor joint="b" ctrlrange="-1 1" gear="2"/>'
    wide = write(tmp_path, ARM.format('actuatorfrcrange="-3 3"'), two)
    assert mujoco_oracle.load(wide)[1] == []
    narrow = write(tmp_path, ARM.format('actuatorfrcrange="-2 3"'), two)
    assert mujoco_oracle.load(narrow)[1] == [
        "robot: the limits of all actuators' force on joints 'b' (line 3) are not modelled"
    ]


def test_a_joint_that_cuts_the_force_of_a_tendon_leaves_what_moves_the_others(tmp_path):
    inside = ARM.format('actuatorfrcrange="-3 3"') + TENDON
    robot, said = mujoco_oracle.load(write(tmp_path, inside, '<motor tendon="t"/>'))
    assert said == ["robot: the limits of all actuators' force on joints 'b' (line 3) are not modelled"]
    np.testing.assert_array_equal(robot.equipment.control_limits, [[-np.inf, np.inf]])


SERVOS = {
    "position": '<position name="s" joint="a" kp="50" kv="3" gear="2"/>',
    "velocity": '<velocity name="s" tendon="t" kv="3"/>',
    "intvelocity": '<intvelocity name="s" joint="b" kp="3" actrange="-1 1"/>',
    "general": '<general name="s" joint="b" gainprm="3" biastype="affine" biasprm="1 -2 0"/>',
    "muscle": '<muscle name="s" joint="b" lengthrange="0 1" force="30"/>',
    "pid": '<pid name="s" joint="b" kp="3" ki="1"/>',
    "dcmotor": '<dcmotor name="s" joint="b" motorconst="1" resistance="2"/>',
}


@pytest.mark.parametrize("kind", SERVOS)
def test_the_control_of_an_actuator_with_a_law_of_its_own_is_its_force(tmp_path, kind, rng):
    path = write(tmp_path, ARM + TENDON, SERVOS[kind])
    robot, said = mujoco_oracle.load(path)
    law = "bias" if kind == "general" else kind
    sentence = f"the control laws of actuators 's' (line 6, {law}) are not modelled, their controls are their forces"
    assert said == [f"robot: {sentence}"]
    with pytest.raises(ModelError, match="their controls are their forces"):
        dynamics.load(path, strict=True)
    m = mujoco_oracle.compiled(path)
    data = mujoco.MjData(m)
    data.qpos[:], data.qvel[:] = mujoco_oracle.random_state(m, rng)
    data.ctrl[:] = rng.uniform(size=m.nu)
    data.act[:] = rng.uniform(size=m.na)
    mujoco.mj_forward(m, data)
    assert data.qfrc_actuator.any()
    np.testing.assert_allclose(robot.equipment.actuation @ data.actuator_force, data.qfrc_actuator, atol=1e-12)


def test_an_actuator_with_a_lag_acts_at_once(tmp_path):
    cylinder = '<cylinder name="s" joint="a" timeconst=".1" area="3" ctrlrange="-1 1"/>'
    robot, said = mujoco_oracle.load(write(tmp_path, ARM, cylinder))
    assert said == ["robot: the lag of actuators 's' (line 6, cylinder) is not modelled, they act at once"]
    np.testing.assert_allclose(robot.equipment.actuation[:, 0], [3, 0, 0, 0, 0])
    np.testing.assert_allclose(robot.equipment.control_limits, [[-1, 1]])


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ('actrange="-1 2"', [-1, 2]),
        ('actrange="-1 2" ctrlrange="0 5"', [0, 2]),
        ('actrange="-1 2" actlimited="false"', [-np.inf, np.inf]),
        ('actrange="-1 2" forcerange="-1 1"', [-0.5, 0.5]),
        ('actrange="-1 2" ctrlrange="4 5"', [4, 5]),
    ],
)
def test_limits_of_a_lag_are_those_of_its_control_where_it_ends(tmp_path, ranges, expected):
    lag = f'<general name="s" joint="a" dyntype="filter" dynprm=".1" gainprm="2" {ranges}/>'
    robot, said = mujoco_oracle.load(write(tmp_path, ARM, lag))
    np.testing.assert_allclose(robot.equipment.control_limits, [expected])
    assert ("the activation ranges of 's' (line 6), which their controls" in said[0]) == (expected == [4, 5])


SPATIAL = '<tendon><spatial name="t"><site site="origin"/><site site="tip"/></spatial></tendon>'
VARYING = {
    "a site on two joints": (ARM, '<motor name="s" site="tip" gear="0 0 1 0 0 0"/>'),
    "a site from another": (ARM, '<motor name="s" site="tip" refsite="origin" gear="1 0 0 0 0 0"/>'),
    "forces on a free body in the world's axes": (DRONE, '<motor name="s" joint="root" gear="0 0 1 0 0 0"/>'),
    "a ball in the parent's frame": (ARM, '<motor name="s" jointinparent="c" gear="1 0 0"/>'),
    "a slider-crank": (ARM, '<motor name="s" cranksite="tip" slidersite="origin" cranklength=".5"/>'),
    "a spatial tendon": (ARM + SPATIAL, '<motor name="s" tendon="t"/>'),
}


@pytest.mark.parametrize("case", VARYING)
def test_moments_that_depend_on_the_configuration_are_named(tmp_path, case):
    inside, actuator = VARYING[case]
    joint = "c" if inside != DRONE else "root"
    path = write(tmp_path, inside, actuator + f'<motor joint="{joint}" gear="0 0 0 0 0 1"/>' * (inside == DRONE))
    robot, said = mujoco_oracle.load(path)
    assert "actuators 's' (line" in said[0]
    assert "have no control (their moments depend on the configuration or on contacts)" in said[0]
    if inside == DRONE:
        np.testing.assert_allclose(robot.equipment.actuation, np.eye(6)[:, 5:])
    else:
        assert robot.equipment.actuation is None
        assert "no actuator can be modelled, each joint gets a control of its own" in said[0]


def test_adhesion_and_dampers_give_no_control(tmp_path):
    pads = '<adhesion name="s" body="palm" ctrlrange="0 1"/><damper name="d" joint="a" kv="2" ctrlrange="0 1"/>'
    robot, said = mujoco_oracle.load(write(tmp_path, ARM.replace('<body pos="0 0 1">', '<body name="palm">'), pads))
    assert "'s' (line 6, adhesion) have no control" in said[0]
    assert "actuators 'd' (line 6, damper) are not modelled (their controls give no force)" in said[0]
    assert robot.equipment.actuation is None


def test_a_file_without_actuators_says_nothing_of_them(tmp_path):
    robot, said = mujoco_oracle.load(write(tmp_path, ARM, ""))
    assert robot.equipment.actuation is None
    assert said == []


@pytest.mark.parametrize(
    "option", ['<option actuatorgroupdisable="0"/>', '<option><flag actuation="disable"/></option>']
)
def test_controls_that_take_the_place_of_disabled_actuators_are_named(tmp_path, option):
    robot, said = mujoco_oracle.load(write(tmp_path, option + ARM, '<motor joint="a" gear="5"/>'))
    assert robot.equipment.actuation is None
    assert said == ["robot: no actuator can be modelled, each joint gets a control of its own"]


def test_a_cartpole_of_classes_has_one_control_in_its_range(tmp_path):
    path = tmp_path / "cartpole.xml"
    path.write_text(
        """<mujoco model="cart-pole"><default><default class="pole"><joint type="hinge" axis="0 1 0" damping="2e-6"/>
        <geom type="capsule" fromto="0 0 0 0 0 1" size="0.045" mass=".1"/></default></default><worldbody>
        <body name="cart" pos="0 0 1"><joint name="slider" type="slide" axis="1 0 0" limited="true" range="-1.8 1.8"/>
        <geom type="box" size="0.2 0.15 0.1" mass="1"/><body childclass="pole"><joint/><geom/></body></body></worldbody>
        <actuator><motor joint="slider" gear="10" ctrllimited="true" ctrlrange="-1 1"/></actuator></mujoco>"""
    )
    robot = dynamics.load(path)
    np.testing.assert_array_equal(robot.equipment.actuation, [[10.0], [0.0]])
    np.testing.assert_array_equal(robot.equipment.control_limits, [[-1.0, 1.0]])
    np.testing.assert_allclose([inertia.mass for inertia in robot.model.inertias], [0.0, 1.0, 0.1])

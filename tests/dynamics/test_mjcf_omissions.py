"""Parts of MJCF files that mayne does not model: all named with their lines in one warning, refused by strict."""

import logging
import os

import gymnasium
import mujoco_oracle
import pytest

import dynamics
from ddp.errors import ModelError

BODIES = """<worldbody>
  <body name="one" pos="0 0 1" {body}>
    <joint name="a" axis="0 1 0" {joint}/><geom name="g" size=".1" pos=".3 0 0"/>
    <site name="tip" pos=".4 0 0"/>
    <body name="two" pos=".5 0 0">
      <joint name="b" axis="1 1 0"/><geom size=".1" pos=".2 .1 0"/>
      <body name="three" pos=".4 0 0">
        <joint name="c" type="ball" {ball}/><geom type="box" size=".1 .2 .1" pos=".1 0 0"/>
      </body>
    </body>
  </body>
  <body name="four">
    <joint name="root" type="free" {free}/><geom type="box" size=".1 .2 .3"/>
  </body>
  <site name="origin"/>
</worldbody>"""
TENDON = '<tendon><fixed name="t" {}><joint joint="a" coef="1"/><joint joint="b" coef="-2"/></fixed></tendon>'

NAMED = {
    "weld that cannot be": (
        {}, '<equality><weld body1="one" body2="two" relpose="3 0 0 1 0 0 0"/></equality>',
        "equality constraints equality 0 (line 18, weld), which no posture near q0 satisfies, are not modelled",
    ),
    "coupled joints": (
        {}, '<equality><joint name="e" joint1="a" joint2="b"/></equality>',
        "equality constraints 'e' (line 18, joint) hold in MimicDynamics alone",
    ),
    "joints coupled by a polynomial": (
        {}, '<equality><joint name="e" joint1="a" joint2="b" polycoef="0 1 .5 0 0"/></equality>',
        "equality constraints 'e' (line 18, joint) are not modelled",
    ),
    "joint that is held": (
        {}, '<equality><joint name="e" joint1="a"/></equality>',
        "equality constraints 'e' (line 18, joint) are not modelled",
    ),
    "tendon": (
        {}, TENDON.format('stiffness="3" damping="2" springlength=".1"'),
        "stiffness and damping of tendons 't' (line 18) are not modelled",
    ),
    "tendon's friction": (
        {}, TENDON.format('frictionloss="3"'), "dry friction of tendons 't' (line 18) is not modelled",
    ),
    "tendon's armature": (
        {}, TENDON.format('armature=".3"'), "armature of tendons 't' (line 18) is not modelled",
    ),
    "spatial tendon": (
        {}, '<tendon><spatial name="s" stiffness="5"><site site="origin"/><site site="tip"/></spatial></tendon>',
        "stiffness of tendons 's' (line 18) is not modelled",
    ),
    "rotor of a tendon": (
        {}, TENDON.format("") + '<actuator><motor name="m" tendon="t" armature=".2" damping="3"/></actuator>',
        "armature and damping of actuators 'm' (line 18, motor) are not modelled",
    ),
    "rotor of a ball": (
        {}, '<actuator><motor name="m" joint="c" gear="1 2 3" armature=".2"/></actuator>',
        "armature and damping of actuators 'm' (line 18, motor) are not modelled",
    ),
    "drag of a free joint": (
        {}, '<actuator><motor name="m" joint="root" damping="3"/></actuator>',
        "armature and damping of actuators 'm' (line 18, motor) are not modelled",
    ),
    "flex": (
        {}, """<worldbody><flexcomp name="cloth" type="grid" count="3 3 1" spacing=".1 .1 .1" dim="2" mass="1">
        <elasticity young="1e3" poisson="0" thickness=".01" elastic2d="both"/></flexcomp></worldbody>""",
        "flexes 'cloth' are not modelled",
    ),
    "delay": (
        {}, '<actuator><motor name="m" joint="a" delay=".1" nsample="9"/></actuator>',
        "the delay of actuators 'm' (line 18, motor) is not modelled",
    ),
    "plastic tendon": (
        {}, TENDON.format('stiffness="3" springyield=".01" springlength=".1"'), "stiffness of tendons 't' (line 18)",
    ),
    "gravity compensation": (
        {"body": 'gravcomp=".5"'}, "", "gravity compensation of 'one' (line 3) is not modelled",
    ),
    "density": (
        {}, '<option density="1000"/>', "forces of the fluid around (density 1000, line 18) are not modelled",
    ),
    "viscosity and wind": (
        {}, '<option viscosity=".1" wind="1 0 0"/>', "forces of the fluid around (viscosity 0.1, line 18)",
    ),
    "dry friction": ({"joint": 'frictionloss="2"'}, "", "dry friction of 'a' (line 4) is not modelled"),
    "spring of a ball": (
        {"ball": 'stiffness="2"'}, "", "springs of ball and free joints 'c' (line 9) are not modelled",
    ),
    "spring of a free joint": (
        {"free": 'stiffness="2"'}, "", "springs of ball and free joints 'root' (line 14) are not modelled",
    ),
    "spring that is a polynomial": (
        {"joint": 'stiffness="2 1 3"'}, "", "springs of 'a' (line 4) are linear and do not yield in mayne",
    ),
    "damping that is a polynomial": (
        {"joint": 'damping="2 1 3"'}, "", "damping of 'a' (line 4) is linear in mayne",
    ),
    "armature of a free joint": (
        {"free": 'armature="5"'}, "",
        "armature of free joints 'root' (line 14) is not modelled exactly while they turn",
    ),
}  # fmt: skip


def write(folder, inside):
    path = folder / "robot.xml"
    path.write_text(f'<mujoco model="robot">\n{inside}\n</mujoco>')
    return path


def bodies(attributes):
    return BODIES.format(**{"body": "", "joint": "", "ball": "", "free": "", **attributes})


@pytest.mark.parametrize("case", NAMED)
def test_effects_that_are_not_modelled_are_named_with_their_lines(tmp_path, case):
    attributes, more, words = NAMED[case]
    path = write(tmp_path, f"{bodies(attributes)}\n{more}")
    verdict = mujoco_oracle.verdict(path, tolerance=1e-9)
    assert verdict.outcome == "named", verdict
    assert verdict.error > 1e-4
    assert words in verdict.warning
    with pytest.raises(ModelError) as refusal:
        dynamics.load(path, strict=True)
    assert words in str(refusal.value)


def test_one_warning_tells_all_of_a_file(tmp_path):
    attributes = {"joint": 'frictionloss="2" damping="1" stiffness="3"', "body": 'gravcomp="1"'}
    path = write(tmp_path, bodies(attributes) + "\n" + TENDON.format('damping=".1"'))
    for _ in range(2):
        assert mujoco_oracle.load(path)[1] == [
            "robot: dry friction of 'a' (line 4) is not modelled; damping of tendons 't' (line 18) is not modelled;"
            " gravity compensation of 'one' (line 3) is not modelled"
        ]


def test_a_file_that_is_modelled_is_not_spoken_of(tmp_path):
    ranges = 'range="-10 10"'
    assert mujoco_oracle.load(write(tmp_path, bodies({"joint": ranges})))[1] == []


@pytest.mark.parametrize(
    ("compiler", "told"), [("", True), ('<compiler angle="radian"/>', False), ('<compiler angle="degree"/>', True)]
)
def test_ranges_of_a_few_degrees_are_taken_for_radians_and_doubted(tmp_path, compiler, told):
    path = write(tmp_path, compiler + bodies({"joint": 'range="-1.5 2.6"'}))
    doubt = "robot: ranges of 'a' (line 4) are of a few degrees: if they are in radians, the file needs"
    assert mujoco_oracle.load(path)[1] == ([doubt + ' <compiler angle="radian"/>'] if told else [])
    dynamics.load(path, strict=True)


def test_ranges_of_balls_are_named_since_no_limits_are_made_of_them(tmp_path):
    path = write(tmp_path, bodies({"ball": 'range="0 40"'}))
    assert mujoco_oracle.load(path)[1] == ["robot: ranges of ball joints 'c' (line 9) are not modelled"]
    assert mujoco_oracle.strictly_refused(path)


@pytest.mark.parametrize(
    ("attributes", "more"),
    [
        ({}, '<equality><connect active="false" body1="three" anchor=".1 0 0"/></equality>'),
        ({}, '<option><flag equality="disable"/></option><equality><weld body1="three" body2="four"/></equality>'),
        ({"joint": 'frictionloss="2"'}, '<option><flag frictionloss="disable"/></option>'),
        ({"joint": 'frictionloss="2"'}, '<option><flag constraint="disable"/></option>'),
        ({"ball": 'range="0 40"'}, '<option><flag limit="disable"/></option>'),
        ({"ball": 'stiffness="2"'}, '<option><flag spring="disable"/></option>'),
        ({"body": 'gravcomp="1"'}, '<option gravity="0 0 0"/>'),
        ({}, '<option wind="1 0 0"/>'),
    ],
)
def test_effects_that_are_switched_off_are_not_named(tmp_path, attributes, more):
    path = write(tmp_path, f"{bodies(attributes)}\n{more}")
    verdict = mujoco_oracle.verdict(path, tolerance=1e-9)
    assert (verdict.outcome, verdict.warning) == ("exact", "")
    dynamics.load(path, strict=True)


def test_every_element_that_is_not_modelled_is_named(tmp_path):
    joints = "".join(f'<body><joint name="j{k}" frictionloss="1"/><geom size=".1"/></body>' for k in range(40))
    path = write(tmp_path, f"<worldbody>{joints}</worldbody>")
    said = mujoco_oracle.load(path)[1]
    assert all(f"'j{k}' (line 2)" in said[0] for k in range(40))
    assert "more" not in said[0]


def test_damping_and_springs_are_modelled_and_no_reason_to_warn(tmp_path, caplog):
    path = write(tmp_path, bodies({"joint": 'damping="1" stiffness="2"'}))
    robot, said = mujoco_oracle.load(path, strict=True)
    assert robot.equipment.damped
    assert said == []
    with caplog.at_level(logging.INFO, "mayne"):
        dynamics.load(path)
    (record,) = (one for one in caplog.records if one.module == "omissions")  # kernels may be told of meanwhile
    assert record.levelname == "INFO"
    assert "viscous damping of 'a' (line 4) acts in RobotDynamics, not in forward_dynamics" in caplog.text
    assert "springs of 'a' (line 4) act in RobotDynamics, not in forward_dynamics" in caplog.text


FOLDER = os.path.join(os.path.dirname(gymnasium.__file__), "envs/mujoco/assets")


@pytest.mark.parametrize("name", sorted(os.listdir(FOLDER)))
def test_robots_of_gymnasium_move_as_in_mujoco(name):
    verdict = mujoco_oracle.verdict(os.path.join(FOLDER, name), tolerance=1e-9)
    assert verdict.outcome == ("named" if name == "swimmer.xml" else "exact"), verdict

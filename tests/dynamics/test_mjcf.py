"""MJCF files: bodies, joints and postures are those of MuJoCo's compiler, and what cannot be read is refused."""


import pickle
import sys

import mujoco
import mujoco_oracle
import numpy as np
import pinocchio as pin
import pytest

import dynamics
from ddp.errors import ModelError

TETRAHEDRON = 'vertex="0 0 0  .3 0 0  0 .2 0  0 0 .4"'

FEATURES = {
    "mass in a default": """<default><geom mass="0.1"/></default><worldbody>
        <body><joint/><geom size=".1" pos=".2 .3 0"/></body></worldbody>""",
    "mass, places and joint positions in classes": """<default><geom mass="7"/><default class="light">
        <geom mass="0.1" pos=".3 0 .1"/><joint pos="0 .1 .2" armature=".2"/></default></default><worldbody>
        <body childclass="light"><joint/><geom size=".1"/><body><joint class="main"/><geom size=".1"/></body></body>
        </worldbody>""",
    "a fixed root in a pose of its own": """<worldbody><body euler="30 40 50" pos="1 2 3"><geom size=".3"/>
        <body pos=".1 0 0" quat=".5 .5 -.5 .5"><joint axis="1 2 3"/><geom size=".1" pos=".2 .1 0"/></body></body>
        </worldbody>""",
    "several trees": """<worldbody><body name="a"><joint/><geom size=".1" pos=".3 0 0"/></body>
        <body><freejoint/><geom type="box" size=".1 .2 .3"/>
        <body pos="0 0 1"><joint type="ball"/><geom size=".1"/></body></body><body>
        <joint type="slide" axis="1 1 1"/><geom size=".2"/></body></worldbody>""",
    "gravity of the option": '<option gravity="1 -2 3"/><worldbody><body><joint/><geom size=".1" pos="1 1 1"/></body>'
    "</worldbody>",
    "gravity disabled": """<option><flag gravity="disable"/></option><worldbody>
        <body><joint/><geom size=".1" pos="1 1 1"/></body></worldbody>""",
    "meshes": f"""<asset><mesh name="m" {TETRAHEDRON} scale="1 2 1"/></asset><worldbody><body>
        <joint axis="1 0 0"/><geom type="mesh" mesh="m" density="300"/></body></worldbody>""",
    "boxes of inertia": """<worldbody><body><joint axis="1 0 1"/><geom type="cylinder" size=".1 .2" pos=".3 .2 0"/>
        <body><joint axis="0 1 0"/><geom type="ellipsoid" size=".2 .1 .3" pos="0 .1 .2"/></body></body></worldbody>""",
    "bounds of mass and inertia": """<compiler boundmass="2" boundinertia=".3"/><worldbody>
        <body><joint axis="1 0 0"/><geom size=".05" pos=".3 0 0"/></body></worldbody>""",
    "balanced inertia": """<compiler balanceinertia="true"/><worldbody><body><joint axis="1 0 0"/>
        <inertial pos="0 .1 0" mass="1" diaginertia="1 1 5"/></body></worldbody>""",
    "inertia of some groups": """<compiler inertiagrouprange="1 2"/><worldbody><body><joint axis="1 0 0"/>
        <geom size=".3" pos="0 1 0"/><geom group="1" size=".1"/></body></worldbody>""",
    "inertia in spite of inertials": """<compiler inertiafromgeom="true"/><worldbody><body><joint axis="1 0 0"/>
        <inertial pos="0 .1 0" mass="9" diaginertia="1 1 1"/><geom group="1" size=".1" pos="0 .2 0"/></body>
        </worldbody>""",
    "full inertia": """<worldbody><body><joint axis="1 0 0"/><inertial pos="0 .1 0" mass="2"
        fullinertia="3 4 5 .1 .2 .3"/></body></worldbody>""",
    "inertia without mass, welded": """<worldbody><body><joint axis="0 1 0"/><geom size=".1" pos=".2 .1 0"/>
        <body pos=".3 0 0" euler="20 30 40"><inertial pos=".1 0 .2" mass="0" diaginertia=".1 .05 .1"/></body></body>
        <body><joint axis="1 0 0"/><inertial pos="0 .1 0" mass="1" diaginertia=".1 .1 .1"/>
        <body><inertial pos="0 0 0" mass="0" diaginertia=".1 .2 .1"/></body><body pos="0 0 .2"><geom size=".1"/></body>
        </body></worldbody>""",
    "angles in degrees": """<worldbody><body axisangle="1 2 3 40"><joint axis="1 0 0"/>
        <geom type="capsule" size=".1 .4" euler="10 20 30" pos=".2 .1 0"/></body></worldbody>""",
    "angles in radians, another sequence": """<compiler angle="radian" eulerseq="ZYX"/><worldbody>
        <body euler=".1 .5 1"><joint axis="1 0 0" ref=".5"/><geom type="box" size=".1 .2 .3" pos=".2 .1 0"/></body>
        </worldbody>""",
    "frames": """<worldbody><frame pos="1 0 0" euler="0 90 0"><frame euler="0 0 30"><body pos=".1 .2 .3">
        <frame pos="0 0 1"><joint axis="0 1 1"/><geom size=".1" pos=".3 .2 .1"/></frame></body></frame></frame>
        </worldbody>""",
    "replicate": """<worldbody><replicate count="3" offset="0 0 .4" euler="0 30 0">
        <body pos=".3 0 0"><joint axis="1 1 0"/><geom size=".1" pos=".1 0 0"/></body></replicate></worldbody>""",
    "ref": """<worldbody><body><joint axis="1 2 0" ref="40" pos=".1 0 .2"/><geom size=".1" pos=".3 .1 0"/>
        <body pos=".5 0 0" euler="0 20 0"><joint type="slide" ref=".7" axis="1 1 0"/><geom size=".1"/>
        <body><joint ref="-20"/><joint type="slide" ref=".2" axis="0 0 1"/><geom size=".1" pos="0 .1 0"/></body></body>
        </body></worldbody>""",
    "several joints on a body": """<worldbody><body pos="1 0 0" euler="10 0 0">
        <joint type="slide" axis="1 0 0" pos="3 2 1"/><joint axis="1 1 0" pos=".3 0 0"/>
        <joint axis="0 1 0" pos="0 0 -.4"/><geom type="box" size=".1 .2 .3"/><body pos="1 0 0">
        <joint type="slide" axis="0 1 1"/><joint type="ball" pos=".1 .2 .3"/><geom size=".2"/></body></body>
        </worldbody>""",
    "fixed bodies": """<worldbody><body><joint axis="1 0 0"/><geom size=".1"/>
        <body pos="0 1 0" euler="20 30 0"><geom type="box" size=".1 .2 .1"/><body pos=".3 0 0"><geom size=".2"/>
        <body pos="0 0 .3"><joint/><geom size=".1" pos=".2 0 0"/></body></body></body></body></worldbody>""",
    "free joints with alignment": """<worldbody><body pos="1 2 3" euler="20 0 0"><freejoint align="true"/>
        <geom type="box" size=".1 .2 .3" pos=".4 .1 0"/></body></worldbody>""",
    "mocap": """<worldbody><body mocap="true" pos="0 0 1" euler="90 0 0"><geom size=".1"/>
        <body><joint axis="1 0 0"/><geom size=".1" pos="0 .2 0"/></body></body><camera pos="1 0 0"/><light/>
        </worldbody>""",
    "armature and damping": """<default><joint armature=".3" damping=".4"/></default><worldbody>
        <body><joint type="ball"/><geom size=".1" pos=".2 0 0"/>
        <body pos="1 0 0"><joint/><geom size=".1"/></body></body></worldbody>""",
    "damping of a free joint": """<worldbody><body><joint type="free" damping=".7"/>
        <geom type="box" size=".1 .2 .3" pos=".1 0 0"/></body></worldbody>""",
    "springs of hinges and slides": """<worldbody><body><joint ref="10" springref="30" stiffness="5"/>
        <geom size=".1" pos=".2 0 0"/><body><joint type="slide" springref=".2" stiffness="7"/><geom size=".1"/></body>
        </body></worldbody>""",
    "springs by their periods": """<worldbody><body><joint axis="1 0 0" springdamper=".2 .7"/>
        <geom size=".1" pos="0 .2 0"/></body></worldbody>""",
    "springs and dampers disabled": """<option><flag spring="disable" damper="disable"/></option><worldbody>
        <body><joint axis="1 0 0" stiffness="5" springref="20" damping="3"/><geom size=".1" pos="0 .2 0"/></body>
        </worldbody>""",
    "rotors and drag of actuators": """<worldbody><body><joint name="j" axis="1 0 0"/>
        <geom size=".1" pos="0 .2 0"/></body></worldbody>
        <actuator><motor joint="j" gear="3" armature=".1" damping=".2"/></actuator>""",
    "limits": """<worldbody><body><joint axis="1 0 0" range="-10 10"/><geom size=".1" pos="0 .2 0"/></body>
        </worldbody>""",
    "bodies held together, let loose": """<worldbody>
        <body name="a"><joint axis="1 0 0"/><geom size=".1"/></body>
        <body name="b" pos="0 1 0"><joint axis="0 1 1"/><geom size=".1" pos=".2 0 0"/></body></worldbody>
        <equality><connect body1="a" body2="b" anchor="0 0 0"/></equality>""",
}  # fmt: skip
"""Minimal files of what Pinocchio's reader gets wrong, and of what it gets right."""


def write(folder, inside, name="robot.xml"):
    path = folder / name
    path.write_text(f'<mujoco model="robot">\n{inside}\n</mujoco>')
    return path


@pytest.fixture
def silent(tmp_path, monkeypatch):
    """MuJoCo writes its warnings into a file of the working folder: there must be none."""
    inside = tmp_path / "work"
    inside.mkdir()
    monkeypatch.chdir(inside)
    yield
    assert list(inside.iterdir()) == []


@pytest.mark.parametrize("feature", FEATURES)
def test_accelerations_are_those_of_mujoco(tmp_path, feature):
    verdict = mujoco_oracle.verdict(write(tmp_path, FEATURES[feature]), tolerance=1e-9)
    assert verdict.outcome == "exact", verdict
    assert "not modelled" not in verdict.warning


def test_masses_of_deprecated_settings_are_mujocos(tmp_path, silent):
    path = write(tmp_path, '<compiler settotalmass="5"/><worldbody><body><joint/><geom size=".1"/></body></worldbody>')
    robot, said = mujoco_oracle.load(path)
    assert robot.model.inertias[1].mass == pytest.approx(5.0)
    assert "MuJoCo warns: compiler attribute 'settotalmass' is deprecated" in said[0]


def random_mjcf(rng):
    """Random trees: joints of all kinds, several a body, refs, classes, frames, fixed and replicated bodies."""

    def numbers(size=3, scale=0.3):
        return " ".join(f"{x:.17g}" for x in scale * rng.normal(size=size))

    def joints(top):
        if top and rng.random() < 0.3:
            return '<joint type="free"/>'
        found = []
        for _ in range(rng.integers(0, 4)):
            kind = rng.choice(["hinge", "slide", "ball"], p=[0.6, 0.25, 0.15])
            alone = f'axis="{numbers(scale=1.0)}" ref="{numbers(1)}"' if kind != "ball" else ""
            dynamic = f'armature="{rng.uniform(0, 0.1):.3g}" damping="{rng.uniform(0, 0.1):.3g}"'
            found.append(f'<joint type="{kind}" pos="{numbers()}" {alone} {dynamic}/>')
            if kind == "ball":
                break
        if found and rng.random() < 0.3:
            found[0] = '<joint class="stiff"/>'
        return "".join(found)

    def body(depth, top=False):
        shape = rng.choice(['size=".1"', 'type="box" size=".1 .2 .3"', 'type="capsule" size=".1 .2"'])
        inside = f'{joints(top)}<geom {shape} pos="{numbers()}" euler="{numbers(scale=60)}"/><site pos="{numbers()}"/>'
        for _ in range(rng.integers(0, 3) if depth else 0):
            inside += body(depth - 1)
        text = f'<body pos="{numbers()}" euler="{numbers(scale=60)}">{inside}</body>'
        if rng.random() < 0.2:
            text = f'<frame pos="{numbers()}" axisangle="{numbers(4, 1.0)}">{text}</frame>'
        if not top and rng.random() < 0.1:
            text = f'<replicate count="2" offset="{numbers()}">{text}</replicate>'
        return text

    classes = """<default><geom density="800"/><default class="stiff"><joint axis="1 2 3" ref="20" stiffness="3"
        springref="10" armature=".05"/></default></default>"""
    trees = "".join(body(3, top=True) for _ in range(rng.integers(1, 3)))
    hinge = '<body><joint axis="1 1 0"/><geom size=".1" pos="0 .1 0"/></body>'
    return f'<option gravity="{numbers(scale=9.0)}"/>{classes}<worldbody>{trees}{hinge}</worldbody>'


@pytest.mark.parametrize("seed", range(25))
def test_random_trees_move_as_in_mujoco(tmp_path, seed):
    path = write(tmp_path, random_mjcf(np.random.default_rng(seed)))
    verdict = mujoco_oracle.verdict(path, seed, tolerance=1e-8)
    assert verdict.outcome == "exact", verdict


@pytest.mark.parametrize("seed", range(5))
def test_bodies_and_sites_are_frames_where_mujoco_has_them(tmp_path, seed):
    rng = np.random.default_rng(seed)
    path = write(tmp_path, random_mjcf(rng))
    robot, m = dynamics.load(path), mujoco_oracle.compiled(path)
    qpos, qvel = mujoco_oracle.random_state(m, rng)
    data = mujoco.MjData(m)
    data.qpos[:] = qpos
    mujoco.mj_kinematics(m, data)
    q, _ = mujoco_oracle.to_ours(m, qpos, qvel)
    names = [f"body{b}" for b in range(1, m.nbody)] + [f"site{s}" for s in range(m.nsite)]
    places = [*data.xpos[1:], *data.site_xpos]
    turns = [*data.xmat[1:], *data.site_xmat]
    for name, place, turn in zip(names, places, turns, strict=True):
        here = dynamics.frame_placement(robot, q, name)
        np.testing.assert_allclose(here[:3, 3], place, atol=1e-12)
        np.testing.assert_allclose(here[:3, :3], turn.reshape(3, 3), atol=1e-12)


def test_included_and_attached_files_are_found_beside_the_file(tmp_path, monkeypatch, rng):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/link.xml").write_text(
        '<mujocoinclude><body name="link" pos="1 0 0"><joint name="hinge" axis="0 1 0" frictionloss="1"/>'
        '<geom size=".1" pos=".3 0 0"/></body></mujocoinclude>'
    )
    (tmp_path / "parts/hand.xml").write_text(
        '<mujoco><worldbody><body name="palm"><joint axis="0 1 0"/><geom size=".1" pos=".2 0 0"/></body></worldbody>'
        "</mujoco>"
    )
    inside = """<asset><model name="hand" file="parts/hand.xml"/></asset><worldbody><include file="parts/link.xml"/>
        <body pos="0 0 1"><joint axis="1 0 0"/><geom size=".1" pos="0 .1 0"/>
        <attach model="hand" body="palm" prefix="left-"/></body></worldbody>"""
    path = write(tmp_path, inside)
    assert mujoco_oracle.verdict(path).outcome == "named"
    path = path.rename(tmp_path / "robot.mjcf")
    monkeypatch.chdir("/")
    robot, said = mujoco_oracle.load(path)
    assert robot.nv == 3
    assert robot.model.existFrame("left-palm")
    assert said == ["robot: dry friction of 'hinge' is not modelled"]


def test_the_text_of_a_file_is_read_and_drawn_as_the_file(tmp_path):
    path = write(tmp_path, FEATURES["several trees"])
    robot = dynamics.load(path.read_text())
    assert robot.model == dynamics.load(path).model
    assert len(pickle.loads(pickle.dumps(robot)).visuals()[0].geometryObjects) == 4


def test_joints_have_their_names_or_those_of_their_bodies(tmp_path):
    inside = """<worldbody><body name="base"><freejoint/><geom size=".1"/><body name="leg"><joint name="knee"/>
        <joint axis="0 1 0"/><geom size=".1"/><body><joint type="ball"/><geom size=".1"/></body></body></body>
        </worldbody>"""
    robot = dynamics.load(write(tmp_path, inside))
    assert robot.joint_names == ["base_free", "knee", "leg_hinge_2", "body3_ball"]
    assert robot.is_floating


def test_frames_of_one_name_are_told_apart(tmp_path):
    inside = """<worldbody><body name="knee"><joint name="knee"/><geom size=".1"/><site name="knee" pos="1 2 3"/></body>
        </worldbody>"""
    robot = dynamics.load(write(tmp_path, inside))
    for name, place in {"knee": (0, 0, 0), "knee_site": (1, 2, 3), "knee_joint": (0, 0, 0)}.items():
        np.testing.assert_allclose(dynamics.frame_placement(robot, [0.0], name)[:3, 3], place)


def test_limits_are_position_limits_around_the_numbers_of_mujoco(tmp_path):
    inside = """<default><joint range="-10 20"/></default><worldbody><body>
        <joint ref="5" actuatorfrcrange="-3 4"/><geom size=".1"/>
        <body><joint type="slide" range="-.1 .3"/><geom size=".1"/><body><joint limited="false"/><geom size=".1"/>
        </body></body></body></worldbody>"""
    robot = dynamics.load(write(tmp_path, inside))
    np.testing.assert_allclose(robot.model.lowerPositionLimit[:2], [np.deg2rad(-10), -0.1])
    np.testing.assert_allclose(robot.model.upperPositionLimit[:2], [np.deg2rad(20), 0.3])
    assert robot.model.upperPositionLimit[2] > 1e10
    assert (robot.model.lowerEffortLimit[0], robot.model.upperEffortLimit[0]) == (-3, 4)
    assert robot.model.upperEffortLimit[1] > 1e10


KEYS = """<worldbody><body pos="0 0 1" euler="90 0 0"><freejoint/><geom size=".1"/><body><joint ref="30"/>
    <geom size=".1"/></body></body></worldbody>"""


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("", [0, 0, 1, 0.5**0.5, 0, 0, 0.5**0.5, np.pi / 6]),
        ('<key name="a" qpos="1 2 3 0 0 2 0 .4"/><key name="b"/>', [1, 2, 3, 0, 1, 0, 0, 0.4]),
        ('<key name="a"/><key name="home" qpos="0 0 1 1 0 0 0 .1"/>', [0, 0, 1, 0, 0, 0, 1, 0.1]),
    ],
)
def test_the_usual_posture_is_home_or_the_first_keyframe(tmp_path, keys, expected):
    robot = dynamics.load(write(tmp_path, f"{KEYS}<keyframe>{keys}</keyframe>"))
    np.testing.assert_allclose(robot.q0, expected, atol=1e-12)


ARM = """<worldbody><geom type="plane" size="1 1 1"/><body name="base" pos="1 0 .5" euler="0 0 90"><geom size=".2"/>
    <body pos="0 0 .2"><joint name="hinge" axis="1 0 0"/><geom size=".1" pos="0 0 .3"/></body></body></worldbody>
    <keyframe><key qpos=".3"/></keyframe>"""


def test_a_fixed_base_can_be_made_free(tmp_path, rng):
    robot = dynamics.load(write(tmp_path, ARM), root="free-flyer")
    np.testing.assert_allclose(robot.q0, [1, 0, 0.5, 0, 0, 0.5**0.5, 0.5**0.5, 0.3], atol=1e-12)
    free = ARM.replace('<geom size=".2"/>', '<freejoint/><geom size=".2"/>').replace('qpos=".3"', "")
    truth = dynamics.load(write(tmp_path, free, "free.xml"))
    q, v, tau = truth.random_configuration(rng), rng.normal(size=7), rng.normal(size=7)
    ours = dynamics.forward_dynamics(robot, q, v, tau)
    np.testing.assert_allclose(ours, dynamics.forward_dynamics(truth, q, v, tau), rtol=1e-12)
    assert dynamics.load(write(tmp_path, ARM), root="fixed").nq == 1


def test_a_base_that_is_free_stays_as_it_is(tmp_path):
    path = write(tmp_path, f'{KEYS}<keyframe><key qpos="1 2 3 0 0 2 0 .4"/></keyframe>')
    plain, freed = dynamics.load(path), dynamics.load(path, root="free-flyer")
    assert freed.joint_names == plain.joint_names
    np.testing.assert_array_equal(freed.q0, plain.q0)


@pytest.mark.parametrize(
    ("root", "inside", "words"),
    [
        ("free-flyer", FEATURES["several trees"], "one body of the world as the base of a free-flyer, but 3 bodies"),
        ("free-flyer", KEYS.replace("freejoint", "joint"), "fixed to the world, but body 1 has a joint of its own"),
        ("free-flyer", "<worldbody><body/></worldbody>", "but nothing in the file moves"),
        ("fixed", KEYS, "bodies with a free joint, which cannot be 'fixed'; leave root out"),
    ],
)
def test_a_root_that_cannot_be_is_refused(tmp_path, root, inside, words):
    with pytest.raises(ModelError, match=words):
        dynamics.load(write(tmp_path, inside), root=root)


BODY = '<worldbody><body name="arm">{}</body></worldbody>'
ILL = {
    "nothing moves": (BODY.format('<geom size=".1"/>'), "expected at least one joint, got bodies that cannot move"),
    "no mass": (BODY.format("<joint/>"), "mass and inertia of moving bodies must be larger than mjMINVAL"),
    "NaN mass": (BODY.format('<joint/><geom size=".1" mass="nan"/>'), "expected numbers, got a NaN"),
    "infinite mass": (BODY.format('<joint/><geom size=".1" mass="inf"/>'), "expected finite numbers, got body_mass"),
    "NaN gravity": ('<option gravity="nan 0 0"/>' + BODY.format('<joint/><geom size="1"/>'), "got a NaN"),
    "infinite gravity": ('<option gravity="inf 0 0"/>' + BODY.format('<joint/><geom size="1"/>'), "got gravity"),
    "infinite armature": (BODY.format('<joint armature="inf"/><geom size="1"/>'), "got dof_armature"),
    "negative mass": (BODY.format('<joint/><geom size=".1" mass="-1"/>'), "mass, inertia or density are negative"),
    "missing mesh": ('<asset><mesh file="a.stl"/></asset>' + BODY.format('<joint/><geom size="1"/>'), "a.stl"),
    "unknown element": (BODY.format('<joynt/><geom size="1"/>'), "unrecognized element"),
    "nested free joints": (
        BODY.format('<geom size=".1"/><body><freejoint/><geom size=".1"/></body>'), "only be used on top level"
    ),
    "an axis of zero": (BODY.format('<joint axis="0 0 0"/><geom size="1"/>'), "axis too small in joint"),
    "a keyframe of the wrong size": (
        BODY.format('<joint/><geom size="1"/>') + '<keyframe><key qpos="1 2"/></keyframe>', "invalid qpos size"
    ),
    "a file that includes itself": ('<include file="robot.xml"/>', "the file contains itself"),
    "too deep": (BODY.format("<body>" * 3000 + "</body>" * 3000), "robot.xml"),
}  # fmt: skip


@pytest.mark.parametrize("case", ILL)
def test_what_mujoco_refuses_is_refused_in_its_words(tmp_path, silent, case):
    inside, words = ILL[case]
    path = write(tmp_path, inside)
    with pytest.raises(ModelError) as caught:
        dynamics.load(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_mujoco_the_extra_is_named(tmp_path, monkeypatch):
    path = write(tmp_path, FEATURES["limits"])
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(ModelError, match=r"not installed: pip install mujoco, or .* extra: mayne\[mujoco\]"):
        dynamics.load(path)


def test_a_robot_is_pickled_with_its_equipment(tmp_path, rng):
    inside = f"""{FEATURES["springs of hinges and slides"]}<actuator><motor joint="j"/></actuator>"""
    robot = dynamics.load(write(tmp_path, inside.replace("<joint ref", '<joint name="j" ref')))
    copy = pickle.loads(pickle.dumps(robot))
    assert copy.model == robot.model
    for ours, truth in zip(copy.equipment, robot.equipment, strict=True):
        np.testing.assert_array_equal(ours, truth)


def test_geoms_are_drawn_where_mujoco_has_them(tmp_path, rng):
    inside = f"""<asset><mesh name="m" {TETRAHEDRON}/><material name="red" rgba="1 0 0 1"/></asset><worldbody>
        <geom type="plane" size="1 1 1"/><body pos="1 0 0"><joint axis="1 0 1" pos=".1 0 0"/>
        <geom type="mesh" mesh="m" euler="10 20 30" material="red"/>
        <geom type="capsule" fromto="0 0 0 .1 .2 .3" size=".1"/>
        <geom group="3" size=".4"/><body pos="0 .1 0"><geom type="box" size=".1 .2 .3" rgba="0 1 0 .5"/></body>
        <geom type="ellipsoid" size=".1 .2 .3"/><geom type="cylinder" size=".1 .2"/><geom size=".1"/></body>
        </worldbody>"""
    path = write(tmp_path, inside)
    robot, m = dynamics.load(path), mujoco_oracle.compiled(path)
    shapes, missing = robot.visuals()
    assert missing == []
    data, qpos = mujoco.MjData(m), np.array([0.7])
    data.qpos[:] = qpos
    mujoco.mj_kinematics(m, data)
    placed = robot.model.createData()
    pin.forwardKinematics(robot.model, placed, qpos)
    shown = [g for g in range(m.ngeom) if m.geom_group[g] == 0 and m.geom_type[g] != 0]
    assert len(shapes.geometryObjects) == len(shown) == 6
    for shape, g in zip(shapes.geometryObjects, shown, strict=True):
        here = placed.oMi[shape.parentJoint] * shape.placement
        np.testing.assert_allclose(here.translation, data.geom_xpos[g], atol=1e-12)
        np.testing.assert_allclose(here.rotation, data.geom_xmat[g].reshape(3, 3), atol=1e-12)
    colors = [tuple(np.round(shape.meshColor, 6)) for shape in shapes.geometryObjects]
    assert (1, 0, 0, 1) in colors
    assert (0, 1, 0, 0.5) in colors
    mesh = shapes.geometryObjects[shown.index(int(np.flatnonzero(m.geom_type == 7)[0]))].geometry
    np.testing.assert_allclose(mesh.vertices(), m.mesh_vert, atol=1e-7)
    assert mesh.num_tris == 4


def test_contact_geoms_are_drawn_where_there_are_no_others(tmp_path):
    inside = '<worldbody><body><joint/><geom size=".1" group="3"/></body></worldbody>'
    assert len(dynamics.load(write(tmp_path, inside)).visuals()[0].geometryObjects) == 1

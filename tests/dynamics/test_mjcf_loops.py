"""Equality constraints of MJCF files as loops: MuJoCo's own errors of them vanish, and its motion is ours."""

import mujoco
import numpy as np
import pinocchio as pin
import pytest

import dynamics
from ddp.errors import ModelError
from dynamics import RobotDynamics
from dynamics.robots.mjcf.states import velocity_map

HEAD = '<mujoco><compiler angle="radian"/><option timestep="1e-4" integrator="implicitfast"/><worldbody>'
STIFF = 'solref="2e-4 1" solimp=".9999 .9999 .001 .5 2"'
BAR = """<body name="{}" pos="{} 0 0"><joint axis="0 1 0" damping=".05"/>
<geom type="capsule" fromto="0 0 0 {} 0 .1" size=".02" contype="0" conaffinity="0"/>"""
FOUR_BAR = f"""{HEAD}{BAR.format("crank", 0, 0.3)}{BAR.format("coupler", 0.3, 0.7)}</body></body>
{BAR.format("rocker", 0.8, 0.5)}</body></worldbody>
<equality><connect body1="coupler" body2="rocker" anchor=".7 0 .2" {STIFF}/></equality></mujoco>"""

LEG = """<body name="{0}" pos="0 {1} 0"><joint type="ball" damping=".1"/>
<geom type="box" size=".1 .05 .04" pos=".1 0 0"/>
<body pos=".25 0 0"><joint axis="0 1 1" damping=".1"/><geom type="box" size=".1 .03 .04" pos=".1 0 .02"/>
<body name="{0} end" pos=".25 .01 0"><joint axis="1 0 1" damping=".1"/><geom type="box" size=".1 .03 .02" pos=".1 0 0"/>
<site name="{0} tip" pos=".2 0 .03" euler=".3 .2 .1"/></body></body></body>"""
BODY = f"""{HEAD}<body name="base" pos="0 0 1"><freejoint/>
<geom type="box" size=".2 .3 .1" contype="0" conaffinity="0"/>
{LEG.format("left", 0.3)}{LEG.format("right", -0.3)}</body></worldbody><equality>{{}}</equality></mujoco>"""

FILES = {
    "four-bar": FOUR_BAR,
    "weld": BODY.format(f'<weld body1="left end" body2="right end" anchor=".1 .2 .3" {STIFF}/>'),
    "posed weld": BODY.format(f'<weld body1="left end" relpose="-.9 .1 .9 1 .1 .2 .3" {STIFF}/>'),
    "connect to the world": BODY.format(f'<connect body1="right end" anchor=".2 .05 0" {STIFF}/>'),
    "sites": BODY.format(f'<connect site1="left tip" site2="right tip" {STIFF}/>'),
}


def compiled(text):
    m = mujoco.MjModel.from_xml_string(text)
    m.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    return m


def their_numbers(robot, m, x):
    """MuJoCo's qpos and qvel of a state."""
    qpos = x[: robot.nq].copy()
    for kind, i in zip(m.jnt_type, m.jnt_qposadr, strict=True):
        if kind < 2:
            j = i + 3 * (kind == 0)
            qpos[j : j + 4] = np.roll(qpos[j : j + 4], 1)
    return qpos, velocity_map(m, qpos) @ x[robot.nq :]


@pytest.mark.parametrize("name", FILES)
def test_mujocos_own_errors_of_constraints_vanish_at_every_step(name, rng):
    robot, m = dynamics.load(FILES[name]), compiled(FILES[name])
    assert len(robot.loops) == 1
    system = RobotDynamics(robot, 0.01, np.eye(robot.nv), "implicit-euler")
    X = system.rollout(np.r_[robot.q0, 0.3 * rng.normal(size=robot.nv)], 0.1 * rng.normal(size=(10, robot.nv)))
    data = mujoco.MjData(m)
    for x in X:
        data.qpos[:], data.qvel[:] = their_numbers(robot, m, x)
        mujoco.mj_forward(m, data)
        held = data.efc_type == mujoco.mjtConstraint.mjCNSTR_EQUALITY
        assert held.any()
        assert np.abs(data.efc_pos[held]).max() < 1e-9


@pytest.mark.parametrize("name", ["four-bar", "weld", "connect to the world"])
def test_motion_is_mujocos_with_stiff_constraints(name):
    """To the 1e-3 of MuJoCo's softness over a fifth of a second; a step's own error of order two is less."""
    robot, m = dynamics.load(FILES[name]), compiled(FILES[name])
    system = RobotDynamics(robot, 1e-3, np.eye(robot.nv), "sdirk2")
    X = system.rollout(np.r_[robot.q0, np.zeros(robot.nv)], np.zeros((200, robot.nv)))
    data = mujoco.MjData(m)
    data.qpos[:], _ = their_numbers(robot, m, X[0])
    for _ in range(2000):
        mujoco.mj_step(m, data)
    qpos, qvel = their_numbers(robot, m, X[-1])
    moved = np.abs(qpos - their_numbers(robot, m, X[0])[0]).max()
    assert moved > 0.02
    assert np.abs(qpos - data.qpos).max() < 5e-3 * (1.0 + moved)
    assert np.abs(qvel - data.qvel).max() < 2e-2 * (1.0 + np.abs(qvel).max())


def test_directions_that_a_plane_holds_already_are_left_out():
    assert dynamics.load(FOUR_BAR).loops[0].free == "y rx ry rz"


def test_the_only_joint_of_a_robot_can_be_held():
    slide = """<mujoco><worldbody><body name="box"><joint type="slide"/><geom size=".1"/></body></worldbody>
    <equality><connect body1="box" anchor="0 0 0"/></equality></mujoco>"""
    system = RobotDynamics(dynamics.load(slide), 0.01, integrator="implicit-euler")
    np.testing.assert_allclose(system.rollout(np.zeros(2), np.zeros((3, 1))), 0.0, atol=1e-15)


@pytest.mark.parametrize("held", ['<connect body1="tip" anchor="0 0 .3"/>', '<weld body1="tip"/>'])
def test_directions_lost_at_a_straight_reference_are_told(held):
    """A cart and two upright links whose tip is pinned: z has no rate while straight, and falls if it is left out."""
    bodies = """<body><joint type="slide" axis="1 0 0"/><geom size=".1"/>
<body pos="0 0 .1"><joint axis="0 1 0"/><geom size=".1" pos="0 0 .2"/>
<body name="tip" pos="0 0 .4"><joint axis="0 1 0"/><geom size=".1" pos="0 0 .2"/></body></body></body>"""
    with pytest.raises(ModelError, match=r"z of .* bent reference posture"):
        dynamics.load(f"{HEAD}{bodies}</worldbody><equality>{held}</equality></mujoco>", strict=True)


def test_a_flat_four_bar_has_lost_rank():
    flat = f"""{HEAD}<body><joint axis="0 1 0"/><geom size=".1" pos=".1 0 0"/><body name="coupler" pos=".2 0 0">
    <joint axis="0 1 0"/><geom size=".1" pos=".1 0 0"/></body></body><body name="rocker" pos=".4 0 0">
    <joint axis="0 1 0"/><geom size=".1" pos=".1 0 0"/></body></worldbody>
    <equality><connect body1="coupler" body2="rocker" anchor=".4 0 0"/></equality></mujoco>"""
    system = RobotDynamics(dynamics.load(flat), 0.01, integrator="sdirk2")
    assert np.isnan(system.step(np.zeros(6), np.zeros(3))).all()
    with pytest.raises(ModelError, match="the Jacobian of its loops has lost rank"):
        system.linearize(np.zeros(6), np.zeros(3))
    assert "lost rank" in str(system.undefined([0] * 6))


PINNED = """<mujoco><worldbody><body name="arm"><joint axis="0 0 1"/><geom size=".1" pos=".3 0 0"/></body></worldbody>
<equality><connect body1="arm" anchor="{}"/></equality></mujoco>"""


def test_postures_are_closed_on_the_branch_of_the_file():
    """Across the arm alone holds it at half a turn, too, where its tip is twice the arm's length from the pin."""
    robot = dynamics.load(PINNED.format(".3 .4 0"))
    assert len(robot.loops[0].free.split()) == 5
    for q in (0.1, 2.0, -3.0):
        assert np.cos(robot.closed([q])) == pytest.approx(1.0, abs=1e-12)


def test_loops_that_joints_hold_already_are_none():
    robot = dynamics.load(PINNED.format("0 0 .4"))
    assert robot.loops == ()
    RobotDynamics(robot, 0.01)


ROCKER = '<body name="{}" pos="{} 0 0"><joint axis="0 1 0"/><geom type="capsule" fromto="0 0 0 -.4 0 .05" size=".02"/>'


def test_a_parallelogram_with_a_rocker_too_many_keeps_all_its_directions(caplog):
    """Of four equations three are independent; the flat posture, where two are, is a radian and a half away."""
    platform = '<body name="platform" pos="-.4 0 .05"><joint axis="0 1 0"/><geom type="box" size=".9 .1 .01"/></body>'
    rockers = "".join(f"{ROCKER.format(f'rocker{x}', x)}</body>" for x in (0.5, 0.9))
    held = "".join(f'<connect body1="platform" body2="rocker{x}" anchor="{x} 0 0"/>' for x in (0.5, 0.9))
    bodies = f"{ROCKER.format('first', 0)}{platform}</body>{rockers}"
    robot = dynamics.load(f"{HEAD}{bodies}</worldbody><equality>{held}</equality></mujoco>", strict=True)
    assert not caplog.records
    assert sum(6 - len(loop.free.split()) for loop in robot.loops) == 3
    X = RobotDynamics(robot, 0.01, integrator="implicit-euler").rollout(np.r_[robot.q0, np.zeros(4)], np.zeros((50, 4)))
    np.testing.assert_allclose(X[:, :4] * [1, -1, 1, 1], np.tile(X[:, :1], 4), atol=1e-9)
    assert np.abs(X[-1, 0]) > 0.5


@pytest.mark.parametrize("unit", [1.0, 1e3])
def test_loops_are_closed_in_any_units_of_length(unit):
    """A slider-crank that stands far from where its rod ends; unit: of lengths, in a metre."""
    bodies = f"""<body><joint axis="0 1 0"/><geom size="{0.1 * unit}" pos="{0.1 * unit} 0 0"/>
<body name="rod" pos="{0.3 * unit} 0 0"><joint axis="0 1 0"/><geom size="{0.1 * unit}" pos="{0.1 * unit} 0 0"/></body>
</body><body name="slider" pos="{unit} 0 0"><joint type="slide" axis="1 0 0"/><geom size="{0.1 * unit}"/></body>"""
    held = f'<connect body1="rod" body2="slider" anchor="{0.7 * unit} 0 0"/>'
    home = '<keyframe><key name="home" qpos=".7 -1.1 0"/></keyframe>'
    robot = dynamics.load(f"{HEAD}{bodies}</worldbody><equality>{held}</equality>{home}</mujoco>", strict=True)
    for off in ((0.0, 0.0, 0.2), (0.5, 0.5, -0.2), (1.0, -1.0, 0.4)):
        q = robot.closed(robot.q0 + np.array(off) * [1.0, 1.0, unit])
        tip = 0.3 * np.exp(-1j * q[0]) + 0.7 * np.exp(-1j * (q[0] + q[1]))
        assert tip == pytest.approx(1.0 + q[2] / unit, abs=1e-9)


def test_a_weld_of_a_body_that_floats_is_closed_from_a_little_off():
    """Nothing turns about a lever here: lengths that shrink with what is left would make rounding large."""
    bodies = '<body name="c" pos="-.5 .3 .7"><freejoint/><geom size=".1"/></body></worldbody>'
    held = '<equality><weld body1="world" body2="c"/></equality>'
    home = '<keyframe><key name="home" qpos="-.5002 .3007 .6991 1 -.0003678 -.0002657 -.0001097"/></keyframe>'
    robot = dynamics.load(f"{HEAD}{bodies}{held}{home}</mujoco>", strict=True)
    np.testing.assert_allclose(robot.q0, [-0.5, 0.3, 0.7, 0.0, 0.0, 0.0, 1.0], atol=1e-12)


def test_welds_that_hold_no_attitude_are_balls():
    text = BODY.format(f'<weld body1="left end" body2="right end" anchor=".1 .2 .3" torquescale="0" {STIFF}/>')
    robot, m = dynamics.load(text), compiled(text)
    assert robot.loops[0].free == "rx ry rz"
    q = robot.closed(pin.integrate(robot.model, robot.q0, np.full(robot.nv, 0.3)))
    data = mujoco.MjData(m)
    data.qpos[:], data.qvel[:] = their_numbers(robot, m, np.append(q, np.zeros(robot.nv)))
    mujoco.mj_forward(m, data)
    assert np.abs(data.efc_pos[: data.ne]).max() < 1e-9


def test_bodies_of_motion_capture_are_where_the_keyframe_has_them():
    text = f"""{HEAD}<body name="hand" mocap="true" pos="0 0 .2"><geom size=".1"/>
    <site name="held" pos=".1 0 0"/></body>
    <body name="box" pos="0 0 .2"><freejoint/><geom size=".1"/></body></worldbody>
    <equality><weld body1="box" body2="hand"/></equality>
    <keyframe><key name="home" qpos="1 0 .3 1 0 0 0" mpos="1 0 .3" mquat="1 0 0 0"/></keyframe></mujoco>"""
    robot = dynamics.load(text)
    np.testing.assert_allclose(robot.q0, [1.0, 0.0, 0.3, 0.0, 0.0, 0.0, 1.0], atol=1e-12)
    np.testing.assert_allclose(dynamics.frame_position(robot, robot.q0, "held"), [1.1, 0.0, 0.3], atol=1e-12)


@pytest.mark.parametrize("unit", [1.0, 1e3])
def test_controls_that_balance_a_closed_chain_keep_it_at_rest_in_any_units_of_length(unit):
    """A scissor lift whose foot is pushed by a motor with a small gear; unit: of lengths, in a metre."""
    arm = f"""<joint name="{{}}" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 {{}} 0 {0.9 * unit}" size="{0.02 * unit}" mass="1"/>"""
    bodies = f"""<body name="one">{arm.format("lift", 0.3 * unit)}</body><body pos="{0.3 * unit} 0 0">
    <joint name="slide" type="slide" axis="1 0 0"/><geom size="{0.03 * unit}" mass="1"/>
    <body name="two">{arm.format("turn", -0.3 * unit)}</body></body>"""
    held = f'<connect body1="one" body2="two" anchor="{0.15 * unit} 0 {0.45 * unit}"/>'
    motors = '<motor joint="slide" gear=".05"/>'
    text = HEAD.replace("<worldbody>", f'<option gravity="0 0 {-9.81 * unit}"/><worldbody>') + bodies
    robot = dynamics.load(f"{text}</worldbody><equality>{held}</equality><actuator>{motors}</actuator></mujoco>")
    system, rest = RobotDynamics(robot, 0.002, integrator="implicit-euler"), np.append(robot.q0, np.zeros(robot.nv))
    assert np.abs(system.step(rest, np.zeros(1))[robot.nq :]).max() > 1e-3
    np.testing.assert_allclose(system.step(rest, system.nominal_control(rest)), rest, atol=1e-7 * unit)

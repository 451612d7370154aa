"""Targets of MuJoCo's servos with which they give the forces of a plan: MuJoCo's own forces are the oracle."""

import mujoco
import numpy as np
import pytest

import dynamics
import mayne
from ddp.errors import ProblemError
from problems import interop
from problems.costs import ControlCost, StateCost

TREE = """<mujoco><option timestep="0.001"/><worldbody><body name="trunk" pos="0 0 1">{base}<geom size="0.1" mass="3"/>
  <body pos="0.2 0 0"><joint name="a" axis="0 1 0"/><geom size="0.05" pos="0.1 0 -0.2" mass="1"/>
    <body pos="0 0 -0.4"><joint name="b" type="slide" axis="0.6 0 0.8"/><geom size="0.03" pos="0 0.1 0" mass="0.5"/>
      <body pos="0 0 -0.2"><joint name="c" axis="1 0 0"/><geom size="0.03" pos="0 0.2 -0.1" mass="0.4"/></body></body>
  </body></body></worldbody>
  <tendon><fixed name="t"><joint joint="a" coef="2"/><joint joint="b" coef="-3"/></fixed></tendon>
  <actuator>{actuators}</actuator></mujoco>"""
SERVOS = {
    "positions": """<position joint="c" kp="30"/><position joint="a" kp="50" kv="4" gear="3"/>
        <position joint="b" kp="9"/>""",
    "velocities": '<velocity joint="a" kv="5"/><velocity joint="b" kv="7" gear="-2"/><motor joint="c" gear="4"/>',
    "general": """<general joint="a" gaintype="affine" gainprm="7 .3 .2" biastype="affine" biasprm="1 -2 -3"/>
        <general joint="b" gainprm="-4" biastype="affine" biasprm="0 3 0"/>
        <position joint="c" kp="8" dampratio="1"/>""",
    "a tendon": '<position tendon="t" kp="20" kv="1"/><motor joint="b"/><position joint="c" kp="30"/>',
    "a lag": '<position joint="a" kp="20" timeconst="0.1"/><motor joint="b"/><position joint="c" kp="30"/>',
    "two of one joint": '<position joint="a" kp="20"/><velocity joint="a" kv="3"/><motor joint="b"/><motor joint="c"/>',
}


@pytest.mark.parametrize("base", ["", "<freejoint/>"])
@pytest.mark.parametrize("name", SERVOS)
def test_servos_give_the_forces_of_a_plan_in_mujoco(name, base, rng):
    text = TREE.format(base=base, actuators=SERVOS[name])
    robot, model = dynamics.load(text), mujoco.MjModel.from_xml_string(text)
    X = np.array([[*robot.random_configuration(rng), *rng.normal(size=robot.nv)] for _ in range(4)])
    tau = rng.normal(size=(4, robot.actuation.shape[1])) @ robot.actuation.T
    data = mujoco.MjData(model)
    for x, wanted in zip(X, tau, strict=True):
        data.qpos[:], data.qvel[:] = interop.to_mujoco(robot, model, x)
        data.ctrl[:] = interop.mujoco_controls(robot, model, data, wanted)
        if model.na:  # what a lag has come to
            data.act[:] = data.ctrl[: model.na]
        mujoco.mj_forward(model, data)
        np.testing.assert_allclose(data.qfrc_actuator, wanted, rtol=0, atol=1e-10)


def test_a_robot_of_position_servos_moves_as_one_of_motors(caplog):
    """An arm is told targets at 1 kHz, in steps of MuJoCo's."""
    text = TREE.format(base="", actuators=SERVOS["positions"])
    robot = dynamics.load(text)
    assert "their controls are their forces" in caplog.text
    system = dynamics.RobotDynamics(robot, 0.01)
    still = StateCost(system, [0.6, 0.1, -0.4, 0.0, 0.0, 0.0], [1e4, 1e4, 1e4, 1e2, 1e2, 1e2])
    solution = mayne.solve(mayne.Problem(system, [ControlCost(np.zeros(3), 1e-2)], [still], np.zeros(system.nx), 60))
    motors = "".join(f'<motor joint="{name}"/>' for name in "abc")
    ends = []
    for actuators in (SERVOS["positions"], motors):
        model = mujoco.MjModel.from_xml_string(TREE.format(base="", actuators=actuators))
        data = mujoco.MjData(model)
        while data.time < solution.policy.duration - 1e-9:
            x = interop.from_mujoco(robot, model, data.qpos, data.qvel)
            tau = system.actuation @ solution.policy(data.time, x)
            data.ctrl[:] = interop.mujoco_controls(robot, model, data, tau)
            mujoco.mj_step(model, data)
        ends.append(data.qpos.copy())
    np.testing.assert_allclose(*ends, rtol=0, atol=1e-9)
    assert abs(ends[0][0] - 0.6) < 0.02


@pytest.mark.parametrize(
    ("actuators", "words"),
    [
        ('<motor joint="a"/><motor joint="b"/>', "tau: no actuators give 3 at joint 'c', 3 is left"),
        ('<muscle name="m" joint="a" lengthrange="0 1"/>', "expected motors and servos .*actuator 'm' has another law"),
        ('<intvelocity name="m" joint="a" kp="3" actrange="-1 1"/>', "actuator 'm' has another law"),
        ('<general joint="a" gainprm="0"/><motor joint="b"/><motor joint="c"/>', "its actuator 0 has a gain of zero"),
    ],
)
def test_forces_that_actuators_cannot_give_are_refused(actuators, words):
    text = TREE.format(base="", actuators='<motor joint="a"/><motor joint="b"/><motor joint="c"/>')
    other = mujoco.MjModel.from_xml_string(TREE.format(base="", actuators=actuators))
    with pytest.raises(ProblemError, match=words):
        interop.mujoco_controls(dynamics.load(text), other, mujoco.MjData(other), [1.0, 2.0, 3.0])


def test_data_of_another_model_is_refused():
    text = TREE.format(base="", actuators='<motor joint="a"/><motor joint="b"/><motor joint="c"/>')
    model = mujoco.MjModel.from_xml_string(text)
    other = mujoco.MjModel.from_xml_string(TREE.format(base="", actuators='<motor joint="a"/>'))
    words = r"data: expected that of the model, \(nq, nv, nu\) = \(3, 3, 3\), got \(3, 3, 1\)"
    with pytest.raises(ProblemError, match=words):
        interop.mujoco_controls(dynamics.load(text), model, mujoco.MjData(other), [1.0, 2.0, 3.0])


@pytest.mark.parametrize("field", ["qpos", "qvel"])
def test_states_that_are_not_finite_get_no_controls(field):
    text = TREE.format(base="", actuators='<motor joint="a"/><motor joint="b"/><motor joint="c"/>')
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    getattr(data, field)[1] = np.nan
    with pytest.raises(ProblemError, match=rf"data\.{field}: expected finite numbers, got nan at \[1\]"):
        interop.mujoco_controls(dynamics.load(text), model, data, [1.0, 2.0, 3.0])

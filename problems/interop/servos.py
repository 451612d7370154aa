"""Controls of MuJoCo's own actuators, servos among them, that give the forces a plan asks for.

An actuator's force is gain · ctrl + bias, both constant or linear in its length and velocity, and acts by its moment:
τ = Mᵀ f. A position servo of stiffness kp and damping kv has gain kp and bias -kp length - kv velocity, so that

    ctrl = (f - bias) / gain

is the target that makes it pull with f now.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import ProblemError, as_array, said, suggesting
from ddp.protocols import Array
from dynamics.robots.mjcf.actuation import moment_of
from dynamics.robots.mjcf.compiling import import_mujoco
from dynamics.robots.model import Robot
from problems.interop.mujoco import state_map

MISSED = 1e-6
"""Share of the largest torque that actuators may miss."""


@suggesting
def mujoco_controls(robot: Robot, model: Any, data: Any, tau: ArrayLike) -> Array:
    """Controls (model.nu,) by which MuJoCo's actuators give forces tau (nv,) in the state that ``data`` is in.

    tau: generalised forces of the robot [N, N m]: of a policy's controls u, ``system.actuation @ u``.
    model: as of `to_mujoco`, with motors, or position, velocity or other servos whose gain and bias are constant or
    linear; lags count as over. Where several actuators move a joint, they share its force, with the least sum of
    squares. Ranges are left to MuJoCo, which clips controls and forces.
    Raises ProblemError for forces that no actuators give, and for actuators with another law.
    """
    mujoco, found = import_mujoco(), state_map(robot, model)
    if not all(hasattr(data, name) for name in ("qpos", "qvel", "actuator_length")):
        raise ProblemError(f"data: expected a mujoco.MjData, got {said(data)}")
    if (got := (len(data.qpos), len(data.qvel), len(data.ctrl))) != (sizes := (model.nq, model.nv, model.nu)):
        raise ProblemError(f"data: expected that of the model, (nq, nv, nu) = {sizes}, got {got}")
    for name in ("qpos", "qvel"):
        as_array(f"data.{name}", getattr(data, name), (None,))
    wanted = as_array("tau", tau, (robot.nv,))
    laws = [_law(mujoco, model, i) for i in range(int(model.nactuator))]
    M = moment_of(mujoco, model, data)
    by_joints = (M @ found.rates(data.qpos, int(model.nv))).T
    f = np.linalg.lstsq(by_joints, wanted, rcond=1e-10)[0]
    missed = np.abs(by_joints @ f - wanted)
    worst = int(missed.argmax())
    if missed[worst] > MISSED * max(1.0, np.abs(wanted).max()):
        joint = robot.joint_names[int(robot.tree.body[worst])]
        left = f"{missed[worst]:.3g} is left"
        raise ProblemError(f"tau: no actuators give {wanted[worst]:.3g} at joint {joint!r}, {left}")
    out, speed = np.zeros(int(model.nu)), M @ data.qvel
    for i, (gain, bias) in enumerate(laws):
        o = int(model.actuator_outadr[i])
        state = np.array([1.0, data.actuator_length[o], speed[o]])
        if (slope := float(gain @ state)) == 0.0:
            raise ProblemError(f"model: its actuator {_named(mujoco, model, i)} has a gain of zero")
        out[int(model.actuator_ctrladr[i])] = (f[o] - bias @ state) / slope
    return out


def _law(mujoco: Any, model: Any, i: int) -> tuple[Array, Array]:
    """Gain and bias (3,) of actuator i: a constant, and factors of its length and velocity; ProblemError for others."""
    Gain, Bias, Dyn = mujoco.mjtGain, mujoco.mjtBias, mujoco.mjtDyn
    kinds = int(model.actuator_gaintype[i]), int(model.actuator_biastype[i]), int(model.actuator_dyntype[i])
    linear = kinds[0] in (Gain.mjGAIN_FIXED, Gain.mjGAIN_AFFINE) and kinds[1] in (Bias.mjBIAS_NONE, Bias.mjBIAS_AFFINE)
    plain = kinds[2] in (Dyn.mjDYN_NONE, Dyn.mjDYN_FILTER, Dyn.mjDYN_FILTEREXACT) and int(model.actuator_outnum[i]) == 1
    if not (linear and plain) or model.actuator_plugin[i] >= 0:
        name = _named(mujoco, model, i)
        raise ProblemError(f"model: expected motors and servos with linear laws, its actuator {name} has another law")
    gain, bias = (np.array(prm[i, :3], dtype=np.float64) for prm in (model.actuator_gainprm, model.actuator_biasprm))
    gain[1:] *= kinds[0] == Gain.mjGAIN_AFFINE
    return gain, bias * (kinds[1] == Bias.mjBIAS_AFFINE)


def _named(mujoco: Any, model: Any, i: int) -> str:
    return repr(mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_ACTUATOR, i) or i)

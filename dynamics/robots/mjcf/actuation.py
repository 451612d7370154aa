"""Actuators of an MJCF file as constant columns of τ = S u, with the limits of their controls.

MuJoCo's actuator gives a force (gain · input + bias), clamped to ``forcerange``, which acts by its moment: the
transmission's Jacobian. In mayne

- a motor, whose force is a constant gain times its control, is a column gain · moment, limited by ``ctrlrange`` and by
  the ranges of force;
- any other, such as a position servo, is a column moment: its control is its force [N, N m], limited by the ranges of
  force, and its law (gain, bias, activation) is left out, as a torque-controlled robot's is;
- one with a first-order lag acts at once;
- one whose moment depends on the configuration has no column.

Everything that is left out is named. (Entries of MuJoCo's arrays are made int before they are compared with its enums:
NumPy's integers differ from these.)
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp.protocols import Array
from dynamics.robots.mjcf.compiling import Elements, import_mujoco
from dynamics.robots.mjcf.states import velocity_map
from dynamics.robots.omissions import Omissions

_SAMPLES = 4
"""Configurations at which a moment must be the same to be called constant."""


class _Column(NamedTuple):
    """A control: its actuator, its column of S (nv,), its lower and upper limit."""

    actuator: int
    column: Array
    limits: Array


def actuation(m: Any, elements: Elements, omissions: Omissions) -> tuple[Array | None, Array | None]:
    """S (nv, nu) and the limits (nu, 2) of the actuators that can be such; None and None if there are none."""
    mujoco = import_mujoco()
    disabled = m.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_ACTUATION
    moments, constant = _moments(mujoco, m)
    columns: list[_Column] = []
    for i in range(0 if disabled else m.nactuator):
        group = int(m.actuator_group[i])
        if 0 <= group <= 30 and m.opt.disableactuator & (1 << group):
            continue
        columns += _columns(mujoco, m, i, moments, constant, elements, omissions)
    if not columns:
        if m.nactuator:
            omissions.drop("no actuator can be modelled, each joint gets a control of its own", "")
        return None, None
    S = np.stack([control.column for control in columns], axis=1)
    limits = np.stack([control.limits for control in columns])
    _limit_joint_forces(m, S, limits, elements, omissions)
    return S, limits


def _columns(
    mujoco: Any, m: Any, i: int, moments: Array, constant: NDArray[np.bool_], elements: Elements, omissions: Omissions
) -> list[_Column]:
    """Columns of actuator i: one, several for one with several forces, none where its moment is no constant."""
    first, count = int(m.actuator_outadr[i]), int(m.actuator_outnum[i])
    outputs = range(first, first + count)
    kind = int(m.actuator_trntype[i])
    varies = kind in (mujoco.mjtTrn.mjTRN_BODY, mujoco.mjtTrn.mjTRN_SLIDERCRANK)
    if kind == mujoco.mjtTrn.mjTRN_TENDON:
        varies = int(m.wrap_type[m.tendon_adr[m.actuator_trnid[i, 0]]]) != mujoco.mjtWrap.mjWRAP_JOINT
    if varies or not constant[outputs].all():
        omissions.drop(
            "actuators {} have no control (their moments depend on the configuration or on contacts)",
            elements.actuator(i),
        )
        return []
    law = _law(mujoco, m, i)
    if law == "passive":
        omissions.drop("actuators {} are not modelled (their controls give no force)", elements.actuator(i, "bias"))
        return []
    element, force = elements.actuator(i), _force_range(mujoco, m, i, elements, omissions)
    if law in ("constant", "lag"):
        if law == "lag":
            omissions.drop("the lag of actuators {} is not modelled, they act at once", element)
        gain = float(m.actuator_gainprm[i, 0])
        k, clamped = int(m.actuator_ctrladr[i]), not m.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_CLAMPCTRL
        limits = _range(m.actuator_ctrlrange[k], clamped and m.actuator_ctrllimited[k])
        activation = _range(m.actuator_actrange[i], m.actuator_actlimited[i])  # of a lag, in the end
        for what, given in (("activation", activation), ("force", np.sort(force / gain))):
            both = _both(limits, given)
            if both[0] >= both[1]:
                omissions.drop(f"the {what} ranges of {{}}, which their controls cannot reach, are ignored", element)
            else:
                limits = both
    else:
        gain, limits = 1.0, force
        omissions.drop(
            "the control laws of actuators {} are not modelled, their controls are their forces",
            elements.actuator(i, law),
        )
    if m.actuator_delay[i] > 0.0:
        omissions.drop("the delay of actuators {} is not modelled", element)
    return [_Column(i, gain * moments[k], limits) for k in outputs if moments[k].any()]


def _law(mujoco: Any, m: Any, i: int) -> str:
    """Name the law by which actuator i makes its force: "constant" gain, "lag" before one, or another."""
    Gain, Bias, Dyn = mujoco.mjtGain, mujoco.mjtBias, mujoco.mjtDyn
    gain, bias, dynamics = int(m.actuator_gaintype[i]), int(m.actuator_biastype[i]), int(m.actuator_dyntype[i])
    if m.actuator_plugin[i] >= 0:
        return "plugin"
    if gain not in (Gain.mjGAIN_FIXED, Gain.mjGAIN_AFFINE):
        names = {
            Gain.mjGAIN_MUSCLE: "muscle", Gain.mjGAIN_DCMOTOR: "dcmotor", Gain.mjGAIN_SO3: "orientation",
            Gain.mjGAIN_PID: "pid",
        }  # fmt: skip
        return names.get(gain, "user")
    if m.actuator_gainprm[i, 0] == 0.0:
        return "passive"
    if gain == Gain.mjGAIN_AFFINE and m.actuator_gainprm[i, 1:3].any():
        return "affine gain"
    biased = bias != Bias.mjBIAS_AFFINE or m.actuator_biasprm[i, :3].any()
    if bias != Bias.mjBIAS_NONE and biased:
        return "bias"
    if dynamics == Dyn.mjDYN_NONE:
        return "constant"
    return "lag" if dynamics in (Dyn.mjDYN_FILTER, Dyn.mjDYN_FILTEREXACT) else "activation"


def _range(given: Array, limited: Any) -> Array:
    return np.array(given if limited else (-np.inf, np.inf))


def _force_range(mujoco: Any, m: Any, i: int, elements: Elements, omissions: Omissions) -> Array:
    """Limits of an actuator's force: its own, its tendon's, and that a muscle pulls."""
    limits = _range(m.actuator_forcerange[i], m.actuator_forcelimited[i])
    if int(m.actuator_gaintype[i]) == mujoco.mjtGain.mjGAIN_MUSCLE and limits[0] < 0.0:
        limits = _both(limits, np.array([-np.inf, 0.0]))
    kind, target = int(m.actuator_trntype[i]), int(m.actuator_trnid[i, 0])
    if kind == mujoco.mjtTrn.mjTRN_TENDON and m.tendon_actfrclimited[target]:
        alone = ((m.actuator_trntype == kind) & (m.actuator_trnid[:, 0] == target)).sum() == 1
        both = _both(limits, m.tendon_actfrcrange[target])
        if alone and both[0] < both[1]:
            return both
        tendon = elements.named("tendon", target)
        omissions.drop("the limits of all actuators' force on tendons {} are not modelled", tendon)
    return limits


def _limit_joint_forces(m: Any, S: Array, limits: Array, elements: Elements, omissions: Omissions) -> None:
    """Tighten limits, in place, of a joint's only control by its actuatorfrcrange, if that moves no other joint."""
    for j in np.flatnonzero(m.jnt_actfrclimited).tolist():
        row, allowed = S[m.jnt_dofadr[j]], np.asarray(m.jnt_actfrcrange[j])
        acting = np.flatnonzero(row)
        extremes = np.sort(row[acting, None] * limits[acting], axis=1).sum(axis=0)
        if not len(acting) or (extremes[0] >= allowed[0] and extremes[1] <= allowed[1]):
            continue
        k = acting[0]
        both = _both(limits[k], np.sort(allowed / row[k]))
        if len(acting) == 1 and np.count_nonzero(S[:, k]) == 1 and both[0] < both[1]:
            limits[k] = both
        else:
            joint = elements.named("joint", j)
            omissions.drop("the limits of all actuators' force on joints {} are not modelled", joint)


def moment_of(mujoco: Any, m: Any, data: Any) -> Array:
    """MuJoCo's moments (nout, nv) at the configuration of its data, for its own velocities; lengths are found, too."""
    mujoco.mj_kinematics(m, data)
    mujoco.mj_comPos(m, data)
    mujoco.mj_tendon(m, data)
    mujoco.mj_transmission(m, data)
    dense = np.zeros((m.nout, m.nv))
    if m.nout:
        mujoco.mju_sparse2dense(
            dense, data.actuator_moment, data.moment_rownnz, data.moment_rowadr, data.moment_colind
        )
    return dense


def _both(first: Array, second: Array) -> Array:
    """The intersection of two ranges."""
    return np.array([max(first[0], second[0]), min(first[1], second[1])])


def _moments(mujoco: Any, m: Any) -> tuple[Array, NDArray[np.bool_]]:
    """MuJoCo's moments (nout, nv) for velocities of mayne, and which of them are the same at any configuration."""
    data, rng = mujoco.MjData(m), np.random.default_rng(0)
    found = []
    for _ in range(_SAMPLES):
        mujoco.mj_integratePos(m, data.qpos, rng.uniform(-1.0, 1.0, m.nv), 1.0)
        found.append(moment_of(mujoco, m, data) @ velocity_map(m, data.qpos))
    samples = np.array(found)
    size = np.abs(samples).max(axis=(0, 2), initial=0.0)
    spread = np.ptp(samples, axis=0).max(axis=1, initial=0.0)
    moments = np.where(np.abs(samples[0]) > 1e-12 * size[:, None], samples[0], 0.0)
    return moments, spread <= 1e-9 * size

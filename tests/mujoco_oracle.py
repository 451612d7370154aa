"""MuJoCo's own forward dynamics of a file beside ours, at random states: exact, named, refused or silently wrong."""

from __future__ import annotations

import logging
from typing import NamedTuple

import mujoco
import numpy as np

import dynamics
from ddp.errors import ModelError

FREE, BALL = 0, 1
OF_JOINTS = int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_JOINTINPARENT)
BITS = mujoco.mjtDisableBit


class Verdict(NamedTuple):
    """Outcome of one file, the warning of its load, the error against all of MuJoCo's physics, and against the rest."""

    outcome: str
    warning: str
    error: float
    rest: float


class Listener(logging.Handler):
    """Keeps what the logger says."""

    def __init__(self):
        super().__init__()
        self.said = []

    def emit(self, record):
        self.said.append(record.getMessage())


def load(path, **options):
    """A robot and the warnings of its load."""
    logger, listener = logging.getLogger("mayne"), Listener()
    logger.addHandler(listener)
    try:
        return dynamics.load(path, **options), listener.said
    finally:
        logger.removeHandler(listener)


def compiled(path):
    """MuJoCo's model of a file; warnings, which MuJoCo would write into a file of the working folder, are dropped."""
    usual = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        return mujoco.MjModel.from_xml_path(str(path))
    finally:
        mujoco.set_mju_user_warning(usual)


def strictly_refused(path):
    """Whether ``strict`` refuses a file, as one of which something is not modelled."""
    try:
        load(path, strict=True)
    except ModelError:
        return True
    return False


def rotation(quaternion):
    """R of (w, x, y, z)."""
    R = np.zeros(9)
    mujoco.mju_quat2Mat(R, quaternion / np.linalg.norm(quaternion))
    return R.reshape(3, 3)


def random_state(m, rng):
    """qpos with quaternions of length one, qvel."""
    data = mujoco.MjData(m)
    mujoco.mj_integratePos(m, data.qpos, rng.normal(size=m.nv), 1.0)
    return data.qpos.copy(), rng.normal(size=m.nv)


def to_ours(m, qpos, qvel):
    """(q, v) of MuJoCo's state."""
    q, v = qpos.copy(), qvel.copy()
    for j in range(m.njnt):
        i, k = m.jnt_qposadr[j], m.jnt_dofadr[j]
        if m.jnt_type[j] in (FREE, BALL):
            i += 3 if m.jnt_type[j] == FREE else 0
            q[i : i + 4] = np.roll(qpos[i : i + 4], -1)
            if m.jnt_type[j] == FREE:
                v[k : k + 3] = rotation(qpos[i : i + 4]).T @ qvel[k : k + 3]
    return q, v


def to_theirs(m, qpos, v, a):
    """MuJoCo's qacc of our acceleration: linear accelerations of free joints are d/dt (R v)."""
    qacc = a.copy()
    for j in range(m.njnt):
        if m.jnt_type[j] == FREE:
            i, k = m.jnt_qposadr[j], m.jnt_dofadr[j]
            qacc[k : k + 3] = rotation(qpos[i + 3 : i + 7]) @ (a[k : k + 3] + np.cross(v[k + 3 : k + 6], v[k : k + 3]))
    return qacc


def our_qacc(robot, m, qpos, qvel, u):
    """Accelerations of controls u (nu,) with the file's passive forces, as MuJoCo counts them."""
    q, v = to_ours(m, qpos, qvel)
    tau = -robot.model.damping * v
    S, k = robot.equipment.actuation, robot.equipment.stiffness
    if S is not None:
        tau = tau + S @ u
    if k is not None:
        for i in np.flatnonzero(k):
            j = m.dof_jntid[i]
            tau[i] -= k[i] * (q[m.jnt_qposadr[j]] - robot.equipment.springref[i])
    return to_theirs(m, qpos, v, dynamics.forward_dynamics(robot, q, v, tau))


def verdict(path, seed=0, states=5, tolerance=1e-6):
    """Compare a file's robot with MuJoCo's physics but for contacts and limits."""
    try:
        robot, said = load(path)
    except ModelError as reason:
        return Verdict("refused", str(reason), np.nan, np.nan)
    m = compiled(path)
    if robot.loops:  # held by implicit steps alone: without them on both sides
        robot = dynamics.Robot(robot.model, robot.q0, equipment=robot.equipment)
        m.eq_active0[np.isin(m.eq_type, (mujoco.mjtEq.mjEQ_CONNECT, mujoco.mjtEq.mjEQ_WELD))] = 0
    rng = np.random.default_rng(seed)
    m.opt.disableflags |= BITS.mjDSBL_CONTACT | BITS.mjDSBL_LIMIT
    full, rest = 0.0, 0.0
    for _ in range(states):
        qpos, qvel = random_state(m, rng)
        data = mujoco.MjData(m)
        data.qpos[:], data.qvel[:] = qpos, qvel
        mujoco.mj_forward(m, data)
        nu = 0 if robot.equipment.actuation is None else robot.equipment.actuation.shape[1]
        full = max(full, error(our_qacc(robot, m, qpos, qvel, np.zeros(nu)), data.qacc))
    driven = driven_error(robot, m, rng)
    full = max(full, driven)
    neutralise(m)
    for _ in range(states):
        qpos, qvel = random_state(m, rng)
        qvel[(m.jnt_type[m.dof_jntid] == FREE) & (m.dof_armature > 0.0)] = 0.0  # what is named is a product of speeds
        data = mujoco.MjData(m)
        data.qpos[:], data.qvel[:] = qpos, qvel
        mujoco.mj_forward(m, data)
        rest = max(rest, error(our_qacc(robot, m, qpos, qvel, np.zeros(nu)), data.qacc))
    warning = " ".join(said)
    if full <= tolerance:
        return Verdict("exact", warning, full, rest)
    named = rest <= tolerance and warning != "" and strictly_refused(path)
    return Verdict("named" if named else "wrong", warning, full, rest)


def driven_error(robot, m, rng, states=3):
    """With random controls within limits, where every control of MuJoCo's is one of ours; else 0."""
    S, limits = robot.equipment.actuation, robot.equipment.control_limits
    if S is None or S.shape[1] != m.nu:
        return 0.0 if S is not None or m.nactuator == 0 else np.inf
    worst = 0.0
    for _ in range(states):
        qpos, qvel = random_state(m, rng)
        u = np.clip(rng.normal(size=m.nu), *limits.T)
        data = mujoco.MjData(m)
        data.qpos[:], data.qvel[:], data.ctrl[:] = qpos, qvel, u
        mujoco.mj_forward(m, data)
        worst = max(worst, error(our_qacc(robot, m, qpos, qvel, u), data.qacc))
    return worst


def neutralise(m):
    """Take out of MuJoCo's model what mayne names as not modelled; bodies, joints, dampers and springs stay."""
    m.opt.disableflags |= BITS.mjDSBL_CONSTRAINT | BITS.mjDSBL_ACTUATION
    m.opt.density = m.opt.viscosity = 0.0
    m.body_gravcomp[:] = 0.0
    for effect in ("stiffness", "damping", "armature", "stiffnesspoly", "dampingpoly"):
        getattr(m, f"tendon_{effect}")[:] = 0.0
    for field in ("jnt_stiffnesspoly", "dof_dampingpoly", "actuator_dampingpoly"):
        getattr(m, field)[:] = 0.0
    for effect in ("stiffness", "bending", "damping", "edgestiffness", "edgedamping"):
        getattr(m, f"flex_{effect}")[:] = 0.0
    m.jnt_stiffness[m.jnt_type <= BALL] = 0.0
    for i in range(m.nactuator):
        if int(m.actuator_trntype[i]) not in OF_JOINTS or m.jnt_type[m.actuator_trnid[i, 0]] <= BALL:
            m.actuator_damping[i] = m.actuator_armature[i] = 0.0
    mujoco.mj_setConst(m, mujoco.MjData(m))  # bodies that MuJoCo calls simple have their inertia from there


def error(ours, theirs):
    """Largest difference relative to the largest acceleration."""
    return float(np.abs(ours - theirs).max() / max(np.abs(theirs).max(), 1e-3))

"""Bodies, joints and loops of MuJoCo's model as Pinocchio's: the same tree, degree of freedom by degree.

MuJoCo turns a body about an anchor p that is fixed in it: by joints 1, 2, ... the body's pose in its parent's is

    T_body · Trans(p_1) J_1 Trans(-p_1) · Trans(p_2) J_2 Trans(-p_2) · ...

so each joint is one of Pinocchio's at its anchor, and a body with several is a chain. J is the identity where a hinge's
or slide's position is its ``ref``, which the joint's placement takes back, so that q is MuJoCo's qpos.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp.protocols import Array
from dynamics.robots import loop
from dynamics.robots.libraries import pin
from dynamics.robots.loop import Loop
from dynamics.robots.mjcf.compiling import Elements, import_mujoco
from dynamics.robots.mjcf.passive import active_equalities, couplings
from dynamics.robots.mjcf.states import BALL, FREE, HINGE, SLIDE, pose, rotation
from dynamics.robots.omissions import Omissions

_KINDS = {FREE: "free", BALL: "ball", SLIDE: "slide", HINGE: "hinge"}


def body_name(m: Any, b: int) -> str:
    """Name of a body, "body3" for one without."""
    return m.body(b).name or f"body{b}"


def body_frame(b: int) -> int:
    """Index among a model's frames of a body's: those of bodies come first, after Pinocchio's frame of the world."""
    return b + 1


def joint_name(m: Any, j: int) -> str:
    """Name of a joint; for one without the body's and its kind, with a number if the body has several."""
    if m.joint(j).name:
        return m.joint(j).name
    b = int(m.jnt_bodyid[j])
    number = f"_{j - int(m.body_jntadr[b]) + 1}" if m.body_jntnum[b] > 1 else ""
    return f"{body_name(m, b)}_{_KINDS[int(m.jnt_type[j])]}{number}"


def pinocchio_model(m: Any, name: str, gravity: Array) -> pin.Model:
    """Pinocchio's model of MuJoCo's: q is qpos but for the order of quaternions, see states.py.

    Bodies without joints are merged into those that carry them. Frames: all joints, bodies and sites by their names;
    where one is taken, by a body first, "_site" or "_joint" is appended.
    """
    model = pin.Model()
    model.name = name
    model.gravity = pin.Motion(gravity, np.zeros(3))
    carrier, place = np.zeros(m.nbody, dtype=int), [pin.SE3.Identity()] * m.nbody
    for b in range(1, m.nbody):
        parent = int(m.body_parentid[b])
        joint, here = int(carrier[parent]), place[parent] * pose(m.body_pos[b], m.body_quat[b])
        for j in range(m.body_jntadr[b], m.body_jntadr[b] + m.body_jntnum[b]):
            joint, here = _add_joint(model, m, j, joint, here)
        carrier[b], place[b] = joint, here
        if joint and (m.body_mass[b] > 0.0 or m.body_inertia[b].any()):
            R = rotation(m.body_iquat[b])
            inertia = pin.Inertia(m.body_mass[b], m.body_ipos[b], R @ np.diag(m.body_inertia[b]) @ R.T)
            model.appendBodyToJoint(joint, inertia, here)
    _add_frames(model, m, carrier, place)
    _set_limits(model, m)
    return model


def _add_joint(model: pin.Model, m: Any, j: int, parent: int, body: pin.SE3) -> tuple[int, pin.SE3]:
    """Joint j behind another, where its body's frame is before it moves: its index, and the frame's place in it."""
    kind, anchor, axis = int(m.jnt_type[j]), _shift(m.jnt_pos[j]), np.array(m.jnt_axis[j])
    place = body * anchor
    if kind == FREE:
        joint, place = pin.JointModelFreeFlyer(), pin.SE3.Identity()
    elif kind == BALL:
        joint = pin.JointModelSpherical()
    else:
        back = -float(m.qpos0[m.jnt_qposadr[j]])
        if kind == HINGE:
            joint, home = pin.JointModelRevoluteUnaligned(axis), pin.SE3(pin.exp3(back * axis), np.zeros(3))
        else:
            joint, home = pin.JointModelPrismaticUnaligned(axis), _shift(back * axis)
        place = place * home
    index = model.addJoint(parent, joint, place, joint_name(m, j))
    return index, pin.SE3.Identity() if kind == FREE else anchor.inverse()


def _add_frames(model: pin.Model, m: Any, carrier: NDArray[np.int64], place: list[pin.SE3]) -> None:
    for b in range(m.nbody):
        name = free_name(model, body_name(m, b), "_body")
        model.addBodyFrame(name, int(carrier[b]), place[b], body_frame(int(m.body_parentid[b])) if b else 0)
    for s in range(m.nsite):
        b = int(m.site_bodyid[s])
        here = place[b] * pose(m.site_pos[s], m.site_quat[s])
        name = free_name(model, m.site(s).name or f"site{s}", "_site")
        model.addFrame(pin.Frame(name, int(carrier[b]), body_frame(b), here, pin.FrameType.OP_FRAME), False)
    for j in range(1, model.njoints):
        name = free_name(model, model.names[j], "_joint")
        model.addFrame(pin.Frame(name, j, 0, pin.SE3.Identity(), pin.FrameType.JOINT), False)


def free_name(model: pin.Model, name: str, suffix: str) -> str:
    """The name, with suffixes until no frame is called so."""
    while model.existFrame(name):
        name += suffix
    return name


def _set_limits(model: pin.Model, m: Any) -> None:
    """Ranges of hinges and slides as position limits, of what all their actuators give as effort limits."""
    lower, upper = np.array(model.lowerPositionLimit), np.array(model.upperPositionLimit)
    weakest, strongest = np.array(model.lowerEffortLimit), np.array(model.upperEffortLimit)
    for j in np.flatnonzero((m.jnt_type == SLIDE) | (m.jnt_type == HINGE)):
        i, k = int(m.jnt_qposadr[j]), int(m.jnt_dofadr[j])
        if m.jnt_limited[j]:
            lower[i], upper[i] = m.jnt_range[j]
        if m.jnt_actfrclimited[j]:
            weakest[k], strongest[k] = m.jnt_actfrcrange[j]
    model.lowerPositionLimit, model.upperPositionLimit = lower, upper
    model.lowerEffortLimit, model.upperEffortLimit = weakest, strongest


def _shift(offset: Array) -> pin.SE3:
    return pin.SE3(np.eye(3), np.array(offset))


def followers(m: Any) -> dict[str, tuple[str, float, float]]:
    """Leader, multiplier and offset of joints by name that active constraints have follow others in proportion.

    MuJoCo's polynomial is of displacements from qpos0.
    """
    found = {}
    for i in couplings(m):
        own, leader = int(m.eq_obj1id[i]), int(m.eq_obj2id[i])
        offset, factor = m.eq_data[i, :2].tolist()
        rest, leading = (float(m.qpos0[m.jnt_qposadr[j]]) for j in (own, leader))
        found[joint_name(m, own)] = joint_name(m, leader), factor, offset + rest - factor * leading
    return found


# -- closed chains -----------------------------------------------------------------------------------------------------


TORQUESCALE = 10
"""Place of a weld's factor on its errors of attitude in MuJoCo's ``eq_data``."""
FREE_IN = {"CONNECT": "rx ry rz", "WELD": ""}
"""Directions that equality constraints between bodies leave free: <connect> is a ball, <weld> holds everything."""


def loops_of(m: Any, elements: Elements, model: pin.Model, q0: Array, omissions: Omissions) -> tuple[Loop, ...]:
    """Loops of the active constraints between bodies, rows that hold nothing more left out; frames enter the model.

    Those that no configuration near q0 closes are named as omissions.
    """
    mujoco = import_mujoco()
    found: list[Loop] = []
    for i in active_equalities(m):
        kind = mujoco.mjtEq(m.eq_type[i]).name.removeprefix("mjEQ_")
        if kind not in FREE_IN:
            continue
        ends = _ends(m, model, i, kind)
        if ends[0].parentJoint == 0:
            ends = ends[::-1]
        name = elements.named("equality", i, kind.lower())
        for frame in ends:
            model.addFrame(frame, False)
        as_ball = kind == "WELD" and m.eq_data[i, TORQUESCALE] == 0.0  # which holds no attitude
        one = Loop(ends[0].name, ends[1].name, FREE_IN["CONNECT" if as_ball else kind])
        if ends[0].parentJoint == ends[1].parentJoint:
            continue
        if loop.closed(loop.Mechanism(model), [*found, one], q0) is None:
            omissions.drop("equality constraints {}, which no posture near q0 satisfies, are not modelled", name)
            continue
        omissions.place("equality constraints {} are held by implicit steps of RobotDynamics alone", name)
        found.append(one)
    return loop.independent(loop.Mechanism(model), found, q0, omissions)


def _ends(m: Any, model: pin.Model, i: int, kind: str) -> list[pin.Frame]:
    """The two frames of a constraint: on bodies by its data, or sites."""
    first, second, data = int(m.eq_obj1id[i]), int(m.eq_obj2id[i]), np.array(m.eq_data[i])
    if m.eq_objtype[i] == import_mujoco().mjtObj.mjOBJ_SITE:
        bodies = [int(m.site_bodyid[s]) for s in (first, second)]
        places = [pose(m.site_pos[s], m.site_quat[s]) for s in (first, second)]
    else:
        bodies = [first, second]
        anchors = (data[:3], data[3:6]) if kind == "CONNECT" else (data[3:6], data[:3])
        turns = (np.eye(3) if kind == "CONNECT" else rotation(data[6:10]), np.eye(3))
        places = [pin.SE3(R, np.array(p)) for R, p in zip(turns, anchors, strict=True)]
    made = []
    for side, body, place in zip("ab", bodies, places, strict=True):
        carrier = model.frames[body_frame(body)]
        name = free_name(model, f"equality{i}_{side}", "_loop")
        made.append(
            pin.Frame(name, carrier.parentJoint, body_frame(body), carrier.placement * place, pin.FrameType.OP_FRAME)
        )
    return made

"""Forces of joints on their own, and what of a file's physics has no place in mayne."""

from typing import Any, NamedTuple

import numpy as np

from ddp.protocols import Array
from dynamics.robots.mjcf.compiling import Elements, import_mujoco
from dynamics.robots.mjcf.states import BALL, FREE, HINGE, SLIDE
from dynamics.robots.omissions import Omissions


class Passive(NamedTuple):
    """Armature [kg m², kg], viscous damping [N m s/rad, N s/m], stiffness [N m/rad, N/m] and rest [rad, m]: (nv,)."""

    armature: Array
    damping: Array
    stiffness: Array
    springref: Array


def passive(m: Any, elements: Elements, omissions: Omissions) -> Passive:
    """Inertia and forces that act on one degree of freedom each, those of actuators through their gears included."""
    disabled = _disabled(m)
    damped, sprung = not disabled["DAMPER"], not disabled["SPRING"]
    armature, damping = np.array(m.dof_armature), damped * np.array(m.dof_damping)
    trn = import_mujoco().mjtTrn
    for i in range(m.nactuator):
        rotor, drag = float(m.actuator_armature[i]), damped * float(m.actuator_damping[i])
        kind, j = int(m.actuator_trntype[i]), int(m.actuator_trnid[i, 0])
        if kind in (trn.mjTRN_JOINT, trn.mjTRN_JOINTINPARENT) and m.jnt_type[j] in (SLIDE, HINGE):
            gear, k = float(m.actuator_gear[m.actuator_outadr[i], 0]), int(m.jnt_dofadr[j])
            armature[k] += rotor * gear**2
            damping[k] += drag * gear**2
        elif rotor or drag:
            omissions.drop("armature and damping of actuators {} are not modelled", elements.actuator(i))
        if damped and m.actuator_dampingpoly[i].any():
            omissions.drop("damping of actuators {} is linear in mayne", elements.actuator(i))
    stiffness, springref = np.zeros(m.nv), np.zeros(m.nv)
    for j in range(m.njnt):
        k = int(m.jnt_dofadr[j])
        dofs = slice(k, k + {FREE: 6, SLIDE: 1, HINGE: 1}.get(int(m.jnt_type[j]), 3))
        joint = elements.named("joint", j)
        if m.jnt_type[j] == FREE and armature[dofs].any():
            omissions.drop("armature of free joints {} is not modelled exactly while they turn", joint)
        if damping[dofs].any():
            omissions.place("viscous damping of {} acts in RobotDynamics, not in forward_dynamics", joint)
        if damped and m.dof_dampingpoly[dofs].any():
            omissions.drop("damping of {} is linear in mayne", joint)
        if m.dof_frictionloss[dofs].any() and not disabled["CONSTRAINT"] and not disabled["FRICTIONLOSS"]:
            omissions.drop("dry friction of {} is not modelled", joint)
        if not sprung or not (m.jnt_stiffness[j] or m.jnt_stiffnesspoly[j].any()):
            continue
        if m.jnt_type[j] not in (SLIDE, HINGE):
            omissions.drop("springs of ball and free joints {} are not modelled", joint)
            continue
        if m.jnt_stiffnesspoly[j].any() or m.jnt_springyield[j]:
            omissions.drop("springs of {} are linear and do not yield in mayne", joint)
        if m.jnt_stiffness[j]:
            stiffness[k], springref[k] = m.jnt_stiffness[j], m.qpos_spring[m.jnt_qposadr[j]]
            omissions.place("springs of {} act in RobotDynamics, not in forward_dynamics", joint)
    return Passive(armature, damping, stiffness, springref)


def gravity(m: Any) -> Array:
    """Acceleration of gravity (3,) [m/s²], zero where a flag disables it."""
    return np.zeros(3) if _disabled(m)["GRAVITY"] else np.array(m.opt.gravity)


def note_the_rest(m: Any, elements: Elements, omissions: Omissions) -> None:
    """Name what couples or drives bodies and is neither joint nor actuator."""
    mujoco, disabled = import_mujoco(), _disabled(m)
    constrained, coupled = not disabled["CONSTRAINT"], couplings(m)
    for i in active_equalities(m):
        kind = mujoco.mjtEq(m.eq_type[i]).name.removeprefix("mjEQ_").lower()
        if kind in ("connect", "weld"):  # which are loops
            continue
        only = "hold in MimicDynamics alone" if i in coupled else "are not modelled"
        omissions.drop(f"equality constraints {{}} {only}", elements.named("equality", i, kind))
    limited = constrained and not disabled["LIMIT"]
    for j in np.flatnonzero((m.jnt_type == BALL) & (np.asarray(m.jnt_limited) > 0) & limited).tolist():
        omissions.drop("ranges of ball joints {} are not modelled", elements.named("joint", j))
    for i in range(m.ntendon):
        effects = {
            "stiffness": not disabled["SPRING"] and (m.tendon_stiffness[i] or m.tendon_stiffnesspoly[i].any()),
            "damping": not disabled["DAMPER"] and (m.tendon_damping[i] or m.tendon_dampingpoly[i].any()),
            "dry friction": constrained and not disabled["FRICTIONLOSS"] and m.tendon_frictionloss[i],
            "limits": limited and m.tendon_limited[i],
            "armature": m.tendon_armature[i],
        }
        found = [effect for effect, there in effects.items() if there]
        if found:
            told = " and ".join([", ".join(found[:-1]), found[-1]] if found[1:] else found)
            are = "are" if found[1:] or found[0] == "limits" else "is"
            omissions.drop(f"{told} of tendons {{}} {are} not modelled", elements.named("tendon", i))
    if gravity(m).any():
        for b in np.flatnonzero(m.body_gravcomp).tolist():
            omissions.drop("gravity compensation of {} is not modelled", elements.named("body", b))
    for name in ("density", "viscosity"):
        if getattr(m.opt, name) > 0.0:
            omissions.drop("forces of the fluid around ({}) are not modelled", elements.option(name))
    for i in range(m.nflex):
        omissions.drop("flexes {} are not modelled", elements.named("flex", i))
    for b in np.flatnonzero(np.asarray(m.body_plugin) >= 0).tolist():
        omissions.drop("plugins of {} are not modelled", elements.named("body", b))


def active_equalities(m: Any) -> list[int]:
    """Numbers of the equality constraints that act."""
    disabled = _disabled(m)
    return [] if disabled["CONSTRAINT"] or disabled["EQUALITY"] else np.flatnonzero(m.eq_active0).tolist()


def couplings(m: Any) -> list[int]:
    """Numbers of the equality constraints that have a joint follow another in proportion.

    Of each joint the first, and none that would have a joint follow one that follows it.
    """
    found: dict[int, int] = {}
    for i in active_equalities(m):
        coupled = m.eq_type[i] == import_mujoco().mjtEq.mjEQ_JOINT and m.eq_obj2id[i] >= 0
        if coupled and not m.eq_data[i, 2:5].any():
            follower, leader = int(m.eq_obj1id[i]), int(m.eq_obj2id[i])
            while leader in found and leader != follower:
                leader = int(m.eq_obj2id[found[leader]])
            if leader != follower:
                found.setdefault(follower, i)
    return [*found.values()]


def _disabled(m: Any) -> dict[str, bool]:
    """Which of MuJoCo's flags <flag .../> switch something off."""
    bits = import_mujoco().mjtDisableBit
    names = ("CONSTRAINT", "EQUALITY", "FRICTIONLOSS", "LIMIT", "SPRING", "DAMPER", "GRAVITY")
    return {name: bool(m.opt.disableflags & getattr(bits, f"mjDSBL_{name}")) for name in names}

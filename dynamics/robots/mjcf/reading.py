"""MJCF files as robots: compiled by MuJoCo, taken over by Pinocchio, with actuators, springs and a usual posture."""

from pathlib import Path
from typing import Any

import numpy as np

from ddp.errors import ModelError
from ddp.protocols import Array
from dynamics.robots.equipment import Equipment
from dynamics.robots.found import Found
from dynamics.robots.mjcf.actuation import actuation
from dynamics.robots.mjcf.bodies import followers, loops_of, pinocchio_model
from dynamics.robots.mjcf.compiling import Compiled, Elements, compile_file, where
from dynamics.robots.mjcf.passive import gravity, note_the_rest, passive
from dynamics.robots.mjcf.states import HINGE, configuration
from dynamics.robots.omissions import Omissions

_UNNAMED = "MuJoCo Model"
"""MuJoCo's name for a model without one."""


DEGREES = 'ranges of {} are of a few degrees: if they are in radians, the file needs <compiler angle="radian"/>'
"""Doubt about numbers that MJCF takes for degrees."""


def read(path: Path, text: bytes, root: str | None = None) -> Found:
    """Read an MJCF file; ModelError says why it cannot be a robot, or that MuJoCo is not installed.

    q is MuJoCo's qpos, v its qvel, but for the conventions in states.py. q0 is the keyframe called "home", else the
    first, else MuJoCo's qpos0.  text, root: see ``compile_file``.
    """
    compiled = compile_file(path, text, root)
    m, omissions = compiled.model, Omissions()
    if m.nv == 0:
        raise ModelError(f"{where(path)}: expected at least one joint, got bodies that cannot move")
    _move_mocap(m)
    elements = Elements(compiled)
    forces = passive(m, elements, omissions)
    S, limits = actuation(m, elements, omissions)
    note_the_rest(m, elements, omissions)
    if compiled.spec.compiler.degree:
        _doubt_degrees(m, elements, omissions)
    for warning in compiled.warnings:
        omissions.doubt("MuJoCo warns: {}", warning)
    name = compiled.spec.modelname
    model = pinocchio_model(m, path.stem if name in ("", _UNNAMED) else name, gravity(m))
    model.armature, model.damping = forces.armature, forces.damping
    stiffness, springref = (forces.stiffness, forces.springref) if forces.stiffness.any() else (None, None)
    equipment = Equipment(S, limits, stiffness, springref, damped=True)
    q0 = _posture(compiled, root)
    loops = loops_of(m, elements, model, q0, omissions)
    return Found(model, q0, equipment=equipment, omissions=omissions, loops=loops, followers=followers(m))


def _doubt_degrees(m: Any, elements: Elements, omissions: Omissions) -> None:
    """Doubt ranges of hinges that are all of a few degrees: written in radians, which a file has to say."""
    hinges = np.flatnonzero((m.jnt_type == HINGE) & (np.asarray(m.jnt_limited) > 0)).tolist()
    if hinges and np.degrees(np.abs(m.jnt_range[hinges])).max() <= 2.0 * np.pi:
        for j in hinges:
            omissions.doubt(DEGREES, elements.named("joint", j))


def _posture(compiled: Compiled, root: str | None) -> Array:
    """Usual posture: of a base made free, its place in the world and the file's posture of the rest."""
    if root == "free-flyer":
        fixed = compile_file(compiled.path, compiled.text)
        rest = configuration(fixed.model, _keyframe(fixed.model))
        if fixed.model.nq == compiled.model.nq:  # the file's own base is free
            return rest
        return np.concatenate([configuration(compiled.model, compiled.model.qpos0)[:7], rest])
    return configuration(compiled.model, _keyframe(compiled.model))


def _keyframe(m: Any) -> Array:
    """MuJoCo's qpos of the keyframe called "home", else of the first, else qpos0."""
    return np.array(m.key_qpos[_key(m)] if m.nkey else m.qpos0)


def _key(m: Any) -> int:
    names = [m.key(k).name for k in range(m.nkey)]
    return names.index("home") if "home" in names else 0


def _move_mocap(m: Any) -> None:
    """Put bodies that motion capture moves where the keyframe of the usual posture has them."""
    for b in np.flatnonzero(m.body_mocapid >= 0) if m.nkey else ():
        own, k = int(m.body_mocapid[b]), _key(m)
        m.body_pos[b], m.body_quat[b] = (each[k].reshape(m.nmocap, -1)[own] for each in (m.key_mpos, m.key_mquat))

"""Equality constraints between bodies of MJCF files as loops: <connect> is a ball, <weld> holds everything."""

from __future__ import annotations

from typing import Any

import numpy as np

from ddp.protocols import Array
from dynamics.robots import loop
from dynamics.robots.libraries import pin
from dynamics.robots.loop import Loop
from dynamics.robots.mjcf.bodies import body_frame, free_name
from dynamics.robots.mjcf.compiling import import_mujoco
from dynamics.robots.mjcf.elements import Elements
from dynamics.robots.mjcf.passive import active_equalities
from dynamics.robots.mjcf.states import rotation
from dynamics.robots.omissions import Omissions

KINDS = {"CONNECT": "rx ry rz", "WELD": ""}
"""Directions that each kind of constraint leaves free."""


def loops_of(m: Any, elements: Elements, model: pin.Model, q0: Array, omissions: Omissions) -> tuple[Loop, ...]:
    """Loops of the active constraints between bodies, rows that hold nothing more left out; frames enter the model.

    Those that no configuration near q0 closes are named as omissions.
    """
    mujoco = import_mujoco()
    found: list[Loop] = []
    for i in active_equalities(m):
        kind = mujoco.mjtEq(m.eq_type[i]).name.removeprefix("mjEQ_")
        if kind not in KINDS:
            continue
        ends = _ends(m, model, i, kind)
        if ends[0].parentJoint == 0:
            ends = ends[::-1]
        name = elements.named("equality", i, kind.lower())
        for frame in ends:
            model.addFrame(frame, False)
        one = Loop(ends[0].name, ends[1].name, KINDS[kind])
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
        places = [pin.SE3(rotation(m.site_quat[s]), np.array(m.site_pos[s])) for s in (first, second)]
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

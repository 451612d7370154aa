"""What a file says of motors and bearings: rotors are honoured, and what the dynamics leave out is said aloud.

Pinocchio's rnea and aba, whose numbers inverse and forward dynamics must have, know ``armature`` alone. So

- rotor inertia becomes armature: ``rotorInertia · rotorGearRatio²`` wherever the file gives no armature;
- viscous damping is left to ``RobotDynamics(..., damping=True)``, dry friction and <mimic> to nobody: a warning names
  their joints, once a process for each robot.
"""

from __future__ import annotations

import logging
import xml.etree.ElementTree as ElementTree
from functools import cache

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

logger = logging.getLogger("mayne")


def reflect_rotors(model: pin.Model) -> None:
    """Rotor inertia, seen through its gear, where there is no armature [kg m² or kg]."""
    reflected = np.asarray(model.rotorInertia) * np.asarray(model.rotorGearRatio) ** 2
    model.armature = np.where(np.asarray(model.armature) == 0.0, reflected, model.armature)


def announce(model: pin.Model, document: ElementTree.Element | None = None) -> None:
    """Warn of what the dynamics leave out of a model, and of the URDF it is from."""
    friction = np.maximum(np.abs(model.upperDryFrictionLimit), np.abs(model.lowerDryFrictionLimit))
    damped, rubbing = _joints_with(model, np.asarray(model.damping)), _joints_with(model, friction)
    if damped:
        _warn(f"{model.name}: viscous damping of {damped} acts in RobotDynamics(..., damping=True) alone")
    if rubbing:
        _warn(f"{model.name}: dry friction of {rubbing} is not modelled")
    mimics = [] if document is None else _mimics(document, model)
    if mimics:
        _warn(f"{model.name}: <mimic> is ignored, {', '.join(mimics)} move on their own")


def _joints_with(model: pin.Model, per_dof: NDArray[np.float64]) -> str:
    """The names of the joints with something that is not zero, the first few of many."""
    found = [
        name
        for name, joint in zip(list(model.names)[1:], list(model.joints)[1:], strict=True)
        if per_dof[joint.idx_v : joint.idx_v + joint.nv].any()
    ]
    return ", ".join(found if len(found) <= 4 else [*found[:3], f"{len(found) - 3} more joints"])


def _mimics(document: ElementTree.Element, model: pin.Model) -> list[str]:
    joints = document.findall("joint")
    named = [joint.get("name", "") for joint in joints if joint.find("mimic") is not None]
    return [name for name in named if model.existJointName(name)]


@cache
def _warn(message: str) -> None:
    logger.warning(message)

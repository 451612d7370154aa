"""Motors and bearings of robot files: rotors count as armature, effects that the dynamics leave out are collected.

Pinocchio's rnea and aba, whose numbers inverse and forward dynamics must have, know ``armature`` alone. So

- rotor inertia becomes armature: ``rotorInertia · rotorGearRatio²`` wherever the file gives no armature;
- viscous damping is left to ``RobotDynamics(..., damping=True)``, the default for formats that have it act (MJCF);
  dry friction, <mimic> and what acts on planar and floating joints to nobody: see omissions.py.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np
from numpy.typing import NDArray

from dynamics.robots import urdf
from dynamics.robots.libraries import pin
from dynamics.robots.omissions import Omissions


def reflect_rotors(model: pin.Model) -> None:
    """Rotor inertia, seen through its gear, where there is no armature [kg m² or kg]."""
    reflected = np.asarray(model.rotorInertia) * np.asarray(model.rotorGearRatio) ** 2
    model.armature = np.where(np.asarray(model.armature) == 0.0, reflected, model.armature)


def left_out(model: pin.Model, document: ElementTree.Element | None = None) -> Omissions:
    """Collect what the dynamics leave out of a model, and of the URDF it is from."""
    found = Omissions()
    friction = np.maximum(np.abs(model.upperDryFrictionLimit), np.abs(model.lowerDryFrictionLimit))
    for name in _joints_with(model, np.asarray(model.damping)):
        found.doubt("viscous damping of {} acts in RobotDynamics(..., damping=True) alone", name)
    for name in _joints_with(model, friction):
        found.drop("dry friction of {} is not modelled", name)
    if document is None:
        return found
    for name in _mimics(document, model):
        found.drop("joints that mimic others move on their own: {}", name)
    for name in _unread(document, model):
        found.drop("damping and friction of planar and floating joints are not modelled: {}", name)
    for name in _tilted(document, model):
        found.drop("planar joints move in the plane of x and y of their origin, whatever their axis: {}", name)
    for name in urdf.unknown(document):
        found.doubt("URDF has no meaning for {}, which is not read", name)
    return found


def _joints_with(model: pin.Model, per_dof: NDArray[np.float64]) -> list[str]:
    """Names of the joints with something that is not zero."""
    return [
        name
        for name, joint in zip(list(model.names)[1:], list(model.joints)[1:], strict=True)
        if per_dof[joint.idx_v : joint.idx_v + joint.nv].any()
    ]


def _mimics(document: ElementTree.Element, model: pin.Model) -> list[str]:
    joints = document.findall("joint")
    named = [joint.get("name", "") for joint in joints if joint.find("mimic") is not None]
    return [name for name in named if model.existJointName(name)]


def _unread(document: ElementTree.Element, model: pin.Model) -> list[str]:
    """Joints of several degrees of freedom with a <dynamics> of which Pinocchio takes nothing."""
    return [
        name
        for joint in document.findall("joint")
        if joint.get("type") in ("planar", "floating") and model.existJointName(name := joint.get("name", ""))
        if any(float(given.get(kind, 0.0)) for given in joint.findall("dynamics") for kind in ("damping", "friction"))
    ]


def _tilted(document: ElementTree.Element, model: pin.Model) -> list[str]:
    """Planar joints whose axis, (1, 0, 0) by default, is not along z, which Pinocchio takes it for."""
    found = []
    for joint in document.findall("joint[@type='planar']"):
        axis = joint.find("axis")
        x, y, z = map(float, ("1 0 0" if axis is None else axis.get("xyz", "1 0 0")).split())
        if model.existJointName(joint.get("name", "")) and np.hypot(x, y) > 1e-9 * abs(z):
            found.append(joint.get("name", ""))
    return found

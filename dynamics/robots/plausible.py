"""Inertias that no body can have, and mass matrices that rounding spoils: said aloud, in one warning a robot each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element

import numpy as np

from ddp.errors import ModelError
from ddp.protocols import Array
from dynamics.robots.joints import joint_index
from dynamics.robots.libraries import pin
from dynamics.robots.massless_joints import mass_matrix
from dynamics.robots.omissions import listed, logger, warn_once

_ROUNDING = 1e-3
"""Share of the largest principal moment that may be missing or too much: files have some digits only."""
_POINT = 1e-9
"""Moments of inertia per mass [m²] that are none: those of a body 0.03 mm across."""
_ILL = 1e12
"""Condition of the mass matrix, its diagonal scaled to ones, from which on it is ill-conditioned; robots have 1e6."""
_SINGULAR = 1e16
"""Condition from which on rounding alone decides whether it is singular."""
_MOST = 12
"""Links named in a message."""


def announce(model: pin.Model, document: Element | None, postures: Sequence[Array], once: bool = False) -> None:
    """Warn of a model's inertias, by the links of its URDF or else by its joints, and of its mass matrix at postures.

    once: whether to do so once a process.
    ModelError if the mass matrix at the first posture has a direction of negative inertia.
    """
    flaws: dict[str, list[str]] = {}
    of_joints = zip(list(model.names)[1:], list(model.inertias)[1:], strict=True)
    own = ((f"the body of joint {name!r}", one.mass, np.asarray(one.inertia)) for name, one in of_joints)
    for name, mass, inertia in own if document is None else _links_of(document, model):
        reason = flaw(mass, inertia)
        if reason:
            flaws.setdefault(reason, []).append(name)
    wrong = "; ".join(f"{reason}: {listed(names, _MOST)}" for reason, names in flaws.items())
    conditions = [condition(model, q) for q in postures]
    if conditions and conditions[0] < 0.0:
        reason = f"inertias that no body can have ({wrong})" if wrong else "its masses"
        raise ModelError(f"{model.name}: expected a mass matrix that is positive definite, got {reason}")
    warn = warn_once if once else logger.warning
    if wrong:
        warn(f"{model.name}: inertias that no body can have ({wrong})")
    if document is not None and (empty := list(_without_mass(document, model))):
        names = listed(empty, _MOST)
        warn(f"{model.name}: links with a shape and no <inertial>, which move as if they had no mass: {names}")
    worst = max((np.inf if found < 0.0 else found for found in conditions), default=1.0)
    if worst > _ILL:
        what = "singular" if worst > _SINGULAR else f"ill-conditioned ({worst:.0e}, its diagonal scaled to ones)"
        warn(f"{model.name}: the mass matrix is {what}")


def flaw(mass: float, inertia: Array) -> str:
    """The reason why no body has this mass [kg] and rotational inertia (3, 3) [kg m²], empty if one has."""
    moments = np.linalg.eigvalsh(inertia)
    size = float(np.abs(moments).max())
    if mass < 0.0:
        return "negative mass"
    if size <= _POINT * mass:
        return ""
    if mass == 0.0:
        return "moments of inertia without mass"
    if moments[0] < -_ROUNDING * size:
        return "a negative moment of inertia"
    if moments[2] - moments[0] - moments[1] > _ROUNDING * size:
        return "a principal moment larger than the sum of the other two"
    return ""


def condition(model: pin.Model, q: Array) -> float:
    """Condition of the mass matrix at q, its diagonal scaled to ones, infinite if an entry of that is zero.

    It is -1 if the mass matrix has a negative eigenvalue.

    No change of units changes it, and little else does: rounding of M⁻¹ is about this times 1e-16.
    """
    M = mass_matrix(model, q)
    diagonal = np.diag(M)
    if diagonal.min() <= 0.0:
        return -1.0 if diagonal.min() < 0.0 else np.inf
    scale = np.sqrt(diagonal)
    values = np.linalg.eigvalsh(M / scale / scale[:, None])
    if values[0] < -1e-12 * values[-1]:
        return -1.0
    return float(values[-1] / max(values[0], 1e-300))


def _links_of(document: Element, model: pin.Model) -> Iterator[tuple[str, float, Array]]:
    """Name, mass and inertia of the links of a URDF that are in the model."""
    for link in document.findall("link"):
        mass, tensor, name = link.find("inertial/mass"), link.find("inertial/inertia"), link.get("name", "")
        if mass is not None and tensor is not None and model.existFrame(name, pin.FrameType.BODY):
            xx, xy, xz, yy, yz, zz = (float(tensor.get(f"i{key}", "0")) for key in ("xx", "xy", "xz", "yy", "yz", "zz"))
            inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
            yield f"link {name!r}", float(mass.get("value", "0")), inertia


def _without_mass(document: Element, model: pin.Model) -> Iterator[str]:
    """Names of the links of a URDF that joints move, that have a shape, and no mass, nor what is fixed to them."""
    for joint in document.findall("joint"):
        child, name = joint.find("child"), joint.get("name", "")
        if child is None or not (j := joint_index(model, name)) or model.inertias[j].mass != 0.0:
            continue
        for link in document.findall("link"):
            shaped = link.find("visual") is not None or link.find("collision") is not None
            if link.get("name") == child.get("link") and shaped and link.find("inertial") is None:
                yield f"link {link.get('name')!r}"

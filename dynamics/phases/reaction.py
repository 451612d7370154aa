"""Reaction of the ground along a motion: forces on the feet and intervals of contact, for drawings and reports."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddp.errors import ProblemError, as_array, instance
from ddp.protocols import Array
from dynamics.contacts.contact import Contact
from dynamics.geometry.solids import Mark
from dynamics.phases.cones import UP, noted
from dynamics.phases.forces import pushes
from dynamics.phases.phase import stretches
from dynamics.phases.phased_dynamics import PhasedDynamics
from dynamics.quantities.quantities import frame_placement
from dynamics.robots.libraries import pin
from dynamics.steps.doubts import stated_in

NATURAL = {"point": "local-world-aligned", "rolling": "local-world-aligned", "surface": "local"}
"""Axes in which steps of every kind tell forces."""


def ground_forces(system: PhasedDynamics, X: ArrayLike, U: ArrayLike) -> dict[str, Array]:
    """The force (N, 3) on each frame [N], in world axes, along X (N+1, nx) under U (N, nu); zero without contact.

    At an impact, which takes no time, it is zero as well: what acts there is an impulse. It is NaN where no step from a
    state leaves feet in their places.
    """
    instance("system", system, PhasedDynamics, "PhasedDynamics")
    U = as_array("U", U, (None, system.nu))
    X = as_array("X", X, (len(U) + 1, system.nx))
    if len(U) > system.knots:
        raise ProblemError(f"U: expected controls of at most {system.knots} knots, got {len(U)}")
    found = {contact.frame: np.zeros((len(U), 3)) for phase in system.phases for contact in phase.contacts}
    known = {knots.start: F for _, knots, F, _ in noted(system, X, U)}
    for i, (phase, knots) in enumerate(zip(system.phases, stretches(system.phases, len(U)), strict=True)):
        if not phase.contacts or not knots:
            continue
        at = slice(knots.start, knots.stop)
        contacts = [replace(contact, reference=NATURAL[contact.kind]) for contact in phase.contacts]
        F, row = known.get(knots.start), 0
        if F is None:
            F = pushes(system, contacts, phase=i).values(X[at], U[at])
        for contact in contacts:
            force = F[:, row : row + 3]
            found[contact.frame][at] = _in_world(system, contact, X[at], force)
            row += contact.size
    return found


def standing(system: PhasedDynamics) -> dict[str, NDArray[np.bool_]]:
    """Flags of each frame, true at each knot (N,) of contact; at an impact, as in the phase that it begins."""
    instance("system", system, PhasedDynamics, "PhasedDynamics")
    found = {contact.frame: np.zeros(system.knots, bool) for phase in system.phases for contact in phase.contacts}
    for phase, knots in zip(system.phases, stretches(system.phases), strict=True):
        for contact in phase.contacts:
            found[contact.frame][knots.start - bool(phase.impact) : knots.stop] = True
    return found


def ground(system: PhasedDynamics) -> float | None:
    """The height of the lowest place where a contact is held [m], if it is known."""
    return min(heights(system), default=None)


def heights(system: PhasedDynamics) -> list[float]:
    """The heights of the places where contacts are held [m], of those that are known."""
    poses = [contact.target for contact in _held(system) if level(contact)]
    return [float((p.translation if isinstance(p, pin.SE3) else p)[2]) for p in poses]


def _held(system: PhasedDynamics) -> list[Contact]:
    """Contacts of all phases whose place is known."""
    return [contact for phase in system.phases for contact in phase.contacts if contact.target is not None]


def level(contact: Contact) -> bool:
    """Whether a contact is none that rolls on a slope."""
    return contact.normal is None or bool(np.allclose(contact.normal, UP))


def slopes(system: PhasedDynamics) -> list[Mark]:
    """Slopes that wheels roll on."""
    found = {}
    for contact in _held(system):
        if not level(contact):
            normal = np.array(contact.normal)
            found[(*normal, normal @ contact.target)] = Mark("wall", contact.target, contact.target + normal)
    return list(found.values())


def friction(problem: Any) -> float | None:
    """The coefficient of friction of a problem's cones, if it has any."""
    found = [getattr(one, "friction", None) for one in stated_in(problem)]
    return next((float(mu) for mu in found if mu is not None), None)


def friction_cones(problem: Any, system: PhasedDynamics, X: Array) -> dict[str, tuple[float, Array]]:
    """Friction and normal (3,) in the world, at its first contact along X (N+1, nx), of each frame that has a cone."""
    found: dict[str, tuple[float, Array]] = {}
    touching = standing(system)
    for one in stated_in(problem):
        if getattr(one, "friction", None) is None:
            continue
        cone = getattr(one, "cone", None)
        mu, normal = float(one.friction), UP if cone is None else cone.keywords["normal"]
        for contact in getattr(one, "contacts", ()):
            if contact.frame in touching and contact.frame not in found:
                at = min(int(np.argmax(touching[contact.frame])), len(X) - 1)
                axis = _in_world(system, contact, X[at : at + 1], np.atleast_2d(normal))[0]
                found[contact.frame] = mu, axis / np.linalg.norm(axis)
    return found


def _in_world(system: PhasedDynamics, contact: Contact, X: Array, force: Array) -> Array:
    """Forces (M, 3) of a contact in its own axes as those in the world's."""
    if contact.reference != "local" and contact.slides is None:
        return force
    M = frame_placement(system.robot, X[:, : system.robot.nq], contact.frame)
    return np.array([contact.directions(R).T @ f for R, f in zip(M[:, :3, :3], force, strict=True)])

"""Contact forces as arrows and friction as cones, at the frames that they act on, while they act."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ddp.errors import ProblemError, positive
from dynamics.robots.libraries import pin
from viz.contacts import as_friction, in_contact
from viz.messages import Message, clip, safe, set_object, set_property, track
from viz.shapes import Array, Color, Mesh, cone, cylinder, lathe, sharpen, turned_to

GRAVITY = 9.81
FORCE: Color = (0.35, 0.38, 0.42, 1.0)
UP = np.array([0.0, 0.0, 1.0])

MOST = 3.0
"""Length of the longest arrow over that of the robot's weight."""
LONGEST = 1e6
"""Bound of the scale of arrows [m/N]: longer ones cannot be drawn."""


class Contact(NamedTuple):
    """Contact of one frame, as it is drawn.

    path (N+1, 3) [m]: where the frame is; force (N+1, 3) [N] or (N, 3), each held until the next state, in world axes,
    zero where there is none; scale [m/N]; mu: coefficient of friction, None: no cone; reach [m]: a length that suits
    the robot; normal (3,): axis of the cone.
    """

    name: str
    path: Array
    force: Array
    scale: float
    mu: float | None
    color: Color
    reach: float
    normal: Array = UP

    @property
    def held(self) -> Array:
        """The force from each state on (N+1, 3) [N]: the last state has that of the last interval."""
        return np.concatenate([self.force, self.force[-1:]])[: len(self.path)]

    @property
    def tips(self) -> Array:
        """Ends of the arrows, at the states in contact."""
        touching = in_contact(self.held)
        return (self.path + self.scale * self.held)[touching]


def contacts(
    model: pin.Model, q: Array, paths: Mapping[str, Array], colors: Mapping[str, Color], forces: Mapping[str, Array],
    scale: float | None, cones: float | Mapping[str, float] | None, known: Mapping[str, tuple[float, Array]],
) -> list[Contact]:  # fmt: skip
    """The contacts of a robot that starts in the configuration q.

    known: friction of frames and axes of their cones, where cones is None.
    Without a scale, the robot's weight is as long as its centre of mass is far from the mean of the frames at q, and
    shorter where a force is more than three times the weight: that force is three times as long.
    """
    scale = None if scale is None else positive("force_scale", scale)
    if scale is not None and scale > LONGEST:
        raise ProblemError(f"force_scale: expected at most {LONGEST:g} m/N, got {scale:g}")
    if cones is not None and not forces:
        raise ProblemError("cones: expected forces as well, which say when a frame is in contact, got none")
    friction = {name: mu for name, (mu, _) in known.items()}
    if cones is not None:
        friction = as_friction("cones", cones, list(forces))
    if not forces:
        return []
    mass = sum(inertia.mass for inertia in list(model.inertias)[1:])
    feet = np.mean([paths[name][0] for name in forces], axis=0)
    reach = float(np.linalg.norm(pin.centerOfMass(model, model.createData(), q) - feet)) if mass > 0.0 else 1.0
    reach = max(reach, 1e-2)
    largest = max(float(np.linalg.norm(f, axis=1).max(initial=0.0)) for f in forces.values())
    unit = reach / max(GRAVITY * mass or 1.0, largest / MOST) if scale is None else scale
    axes = {name: axis for name, (_, axis) in known.items()}
    return [
        Contact(name, paths[name], f, unit, friction.get(name), colors[name], reach, axes.get(name, UP))
        for name, f in forces.items()
    ]


def legend(contacts: list[Contact]) -> list[tuple[str, Color]]:
    """Entries of the legend for arrows and cones."""
    if not contacts:
        return []
    newtons = float(f"{1.0 / contacts[0].scale:.3g}")
    known = [(f"force arrows: 1 m for {newtons:g} N", FORCE)]
    mu = sorted({contact.mu for contact in contacts if contact.mu is not None})
    if mu:
        values = f"{mu[0]:g}" + (f" to {mu[-1]:g}" if len(mu) > 1 else "")
        known.append((f"friction cones: μ = {values}", translucent(FORCE)))
    return known


def root(name: str) -> str:
    """Path of a frame's arrow and cone in the scene."""
    return f"/mayne/contacts/{safe(name)}"


def draw(contact: Contact, times: list[float], thickness: float) -> tuple[list[Message], list[Message]]:
    """Messages and clips of a contact; times (N+2,) [s]: those of the states, and the end.

    thickness: the radius of the arrow's shaft [m].
    """
    path = root(contact.name)
    force = np.concatenate([contact.held, contact.held[-1:]])
    head = 5.0 * thickness
    length = contact.scale * np.linalg.norm(force, axis=1)
    size = np.minimum(length / (2.0 * head), 1.0)  # an arrow shorter than two heads shrinks as a whole
    shaft = np.maximum(length, 2.0 * head) - head
    turns = np.array([pin.Quaternion.FromTwoVectors(UP, f if f.any() else UP).coeffs() for f in force])
    messages = [
        set_property(path, "visible", False),
        set_object(f"{path}/force/shaft", sharpen(_standing(cylinder(thickness, 1.0, contact.color), 0.5))),
        set_object(f"{path}/force/head", sharpen(_standing(cone(2.2 * thickness, head, contact.color), 0.5 * head))),
    ]
    if contact.mu is not None:
        drawn = friction_cone(contact.mu, 0.25 * contact.reach, contact.color, contact.normal)
        messages.append(set_object(f"{path}/cone", drawn))
    at = np.concatenate([contact.path, contact.path[-1:]])
    shown = track(".visible", "bool", times, in_contact(force), held=True)
    turned = track(".quaternion", "quaternion", times, turns, held=True)
    sized = track(".scale", "vector3", times, np.outer(size, np.ones(3)), held=True)
    stretched = track(".scale", "vector3", times, np.outer(shaft, UP) + np.array([1.0, 1.0, 0.0]), held=True)
    lifted = track(".position", "vector3", times, np.outer(shaft, UP), held=True)
    clips = [
        clip(path, [track(".position", "vector3", times, at), shown]),
        clip(f"{path}/force", [turned, sized]),
        clip(f"{path}/force/shaft", [stretched]),
        clip(f"{path}/force/head", [lifted]),
    ]
    return messages, clips


def friction_cone(mu: float, side: float, color: Color, normal: Array = UP) -> Mesh:
    """The directions of forces that do not slip: a cone about a normal that opens from the origin; side [m]."""
    height = side / np.hypot(1.0, mu)
    made = lathe(np.array([0.0, mu * height]), np.array([0.0, height]), translucent(color))
    return made.moved(turned_to(normal), np.zeros(3))


def translucent(color: Color) -> Color:
    """Make a colour as translucent as cones are."""
    return (*color[:3], 0.25)


def _standing(mesh: Mesh, half: float) -> Mesh:
    return mesh.moved(np.eye(3), half * UP)

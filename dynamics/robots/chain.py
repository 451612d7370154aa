"""Rods as chains of rigid segments: what draws them, and an oracle of their dynamics that knows no rods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddp.protocols import Array
from dynamics.robots.libraries import pin
from dynamics.robots.rods import Rod

Add: TypeAlias = "Callable[[pin.Model, int, pin.SE3, str, Rod], list[int]]"
"""Function of a model, a joint of it, a pose there, a name and a rod, in place of which it adds the joints returned."""


class Segment(NamedTuple):
    """A segment of a rod with coordinates q: Ω = h/2 (ξ1 + ξ2) + √3 h²/12 ξ1 × ξ2 takes its base to its end.

    length [m]; reference (2, 6), basis (2, n, 6): strains where it samples them, ξ = reference + q · basis.
    """

    length: float
    reference: Array
    basis: Array

    def twist(self, q: Array) -> Array:
        """Ω (6,)."""
        first, second = self.reference + np.tensordot(self.basis, q, (1, 0))
        bracket = pin.Motion(first).cross(pin.Motion(second)).vector
        return np.asarray(0.5 * self.length * (first + second) + np.sqrt(3.0) / 12.0 * self.length**2 * bracket)


def segments_of(rod: Rod) -> list[Segment]:
    """The segments of a rod, from its base to its tip."""
    basis = rod.basis(rod.sampling_points()).reshape(-1, 2, rod.nv, 6)
    return [Segment(*one) for one in zip(np.diff(rod.points), rod.rest.reshape(-1, 2, 6), basis, strict=True)]


def linked(joints: pin.Model, rods: Mapping[int, Rod], add: Add) -> tuple[pin.Model, list[list[int]]]:
    """The model of joints in which others take the places of those that are rods, by body; and these for each joint."""
    model, made = pin.Model(), [[0]]
    model.name, model.gravity = joints.name, joints.gravity
    for j in range(1, joints.njoints):
        parent, placement, name = made[joints.parents[j]][-1], joints.jointPlacements[j], joints.names[j]
        if j - 1 in rods:
            made.append(add(model, parent, placement, name, rods[j - 1]))
        else:
            made.append([model.addJoint(parent, joints.joints[j], placement, name)])
        model.appendBodyToJoint(made[-1][-1], joints.inertias[j], pin.SE3.Identity())
    return model, made[1:]


def add_chain(model: pin.Model, parent: int, placement: pin.SE3, name: str, rod: Rod) -> list[int]:
    """Add a free-flyer for each segment of a rod, with the inertia of the point that ends it; their indices."""
    made = []
    for k, moments in enumerate(rod.inertias()[1:], start=1):
        parent = model.addJoint(parent, pin.JointModelFreeFlyer(), placement, f"{name}/{k}")
        placement = pin.SE3.Identity()
        mass, second = moments[0], np.diag(moments[[4, 7, 9]])
        inertia = pin.Inertia(mass, np.zeros(3), np.trace(second) * np.eye(3) - second)
        model.appendBodyToJoint(parent, inertia, pin.SE3.Identity())
        made.append(parent)
    return made


def configurations(rods: Mapping[int, Rod], first: NDArray[np.int64], Q: Array, pieces: Callable[[Rod], int]) -> Array:
    """Configurations (N, .) of `linked` joints of those of the robot Q (N, nq), of which joints begin at ``first``.

    pieces: of a rod, how many free-flyers there are for a segment.
    """
    found = []
    for q in Q:
        own = enumerate(np.split(q, first[1:]))
        found.append([free_flyers(rods[b], part, pieces(rods[b])) if b in rods else part for b, part in own])
    return np.array([np.concatenate(parts) for parts in found])


def free_flyers(rod: Rod, q: Array, pieces: int) -> Array:
    """Configuration of the free-flyers of a rod with coordinates q (n,): 7 numbers for each piece of a segment."""
    found = []
    for one in segments_of(rod):
        found += pieces * [pin.SE3ToXYZQUAT(pin.exp6(pin.Motion(one.twist(q) / pieces)))]
    return np.concatenate(found)

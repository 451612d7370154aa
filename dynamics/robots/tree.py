"""Kinematic trees: compiled once from Pinocchio's models, read by every kernel."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ddp.errors import ModelError, said
from ddp.machine.declared import each
from ddp.machine.struct import Struct, integer, integers, nested, reals
from ddp.protocols import Array
from ddp.tracing.groups import Euclidean
from ddp.tracing.spaces import Space
from dynamics.geometry.joint_motion import FREE_FLYER, ROD
from dynamics.robots import joints
from dynamics.robots.joints import NUMBERS
from dynamics.robots.libraries import pin

Indices = NDArray[np.int64]
_UPPER = np.triu_indices(3)
OfTree = TypeVar("OfTree", bound="Tree")


class Tree(Struct):
    """A kinematic tree as flat arrays, bodies 0..nb-1 with parents before children; what every kernel reads.

    nb, nv, nq, ns: bodies, degrees of freedom, numbers in a configuration, segments.

    parent (nb,): parent body, -1 for the world.   heir (nb,): the last body that it carries, -1 for none.
    kind (nb,): kind of the joint that carries the body.
    iq, iv, nj (nb,): the joint's first index in q and in v, its number of degrees of freedom.
    placement (nb, 12): the joint's frame in its parent's, rotation row-major then position [m].
    turns (3 nb, 10): of joints that turn about an axis, for a body seen from its parent, R = A + cos θ B + sin θ C and
    p = placement + θ d: a row for each of A, B and C, with a number of d.
    subspace (nv, 6): each degree of freedom's motion, linear then angular, in the joint's frame.
    inertia (nb, 10): mass [kg], first moment [kg m], second moment [kg m²] in the body's frame (see spatial.py).
    armature (nv,): inertia added by rotors on each degree of freedom [kg m²] or [kg].
    gravity (6,): spatial acceleration of gravity.
    damping (nv,): viscous friction [N m s/rad] or [N s/m].   stiffness, springref (nv,): springs [N m/rad] or [N/m]
    and where they are at rest [rad] or [m]. All three are read by discrete steps alone, see passive.py.
    body, previous (nv,): the body of each degree of freedom; the one before it on its way to the root, -1 at the root.
    segment (ns, 4): runs of degrees of freedom [first, end) with the same relatives (ancestors, itself, descendants),
    which are relatives[start:stop].
    weightless: the tree without gravity, friction and springs, in which impacts happen; None of itself.
    room, cables: numbers of working memory that rods take, and controls whose pull depends on q, tendons of rods and
    wrenches, which are the first ones; 0 of rigid bodies alone.
    """

    nb, nv, nq, ns = each(4, integer)
    parent, heir, kind, iq, iv, nj = each(6, integers)
    placement: Array = reals(12)
    turns: Array = reals(10)
    subspace: Array = reals(6)
    inertia: Array = reals(10)
    armature, gravity, damping, stiffness, springref = each(5, reals)
    body, previous = each(2, integers)
    segment: Indices = integers(4)
    relatives: Indices = integers()
    weightless: Tree | None = nested()
    room, cables = each(2, integer)

    @property
    def handle(self) -> int | Tree:
        """Argument of kernels that know rods: the address, or the object itself, by whose class they compile."""
        return self.address


class KnowsRods:
    """Structs of robots with rods: kernels are compiled by their classes; those that are given an address know none."""

    @property
    def handle(self) -> Any:
        """Argument of kernels that know rods."""
        return self

    @property
    def address(self) -> int:
        """Refuse to be taken for a struct of rigid bodies."""
        raise ModelError("expected a robot of rigid bodies, got one with rods, which this function does not know")

    @address.setter
    def address(self, value: int) -> None:
        """Leave it to ``start``."""


class HybridTree(KnowsRods, Tree):
    """A tree with elastic rods, each one joint: its body is the rod's tip, with what is fixed there.

    rod (nb,): the rod that carries a body, -1 for a joint.   first, count, column (rods,): a rod's first point, its
    number of points, base first, and its first row of ``level_there``.
    length (points,): of the segment that ends at a point [m].   section (points, 10): inertia that a point stands for,
    in the section's axes, x along the rod.
    reference (2 points, 6), level (2 columns,): strains at rest, and derivatives of a strain by its coordinates, where
    the segment that ends at a point samples them: a pair of rows, or of numbers, each.
    strain, mode (nv,): which of the six strains a coordinate of a rod is of, and which of those that the rod has; the
    rod's are ``strains`` (rods, 6), ``modes`` (rods,) of them.   until (nv,): the first of the rod's coordinates beyond
    this one that is not of the same strain.   units: two for each strain of a rod at each point; unit (rods,): a rod's
    first.   axes (6, 6): the six strains alone.
    weight (points,), reference_there (points, 6), level_there (columns,): weights of integrals along the rod [m], and
    these strains at the points themselves.
    square (rods,): where a rod's matrices begin in ``elastic`` and ``viscous``, K and D row after row.
    cable (rods + 1,): a rod's first tendon.   tendons: how many, the first of ``cables``.
    route (., 4): (y, z) [m] where a tendon passes the points of its rod, and its derivative by arc length; route_of
    (tendons,): a tendon's first row.
    laden, carried: rows for loads, of points and bodies, and of degrees of freedom; 0 where loads do not act.
    steady, wet: whether there are loads that do not turn with what they act on, and water.
    sites (pushes, 4), site_pose (pushes, 12): body, point of a rod or -1, whether it turns with it, and the first
    control of a wrench that controls set; where it acts.
    heavy (points,): mass that a point stands for, less that of the water it displaces [kg]; pull (3,): gravity that
    acts on it, where that of the tree is zero.
    drag, added (points, 3): along the axes of a section, drag per squared speed [kg/m] and mass [kg] of water.
    surfaces (., 10): see ``ContactSprings.row``.   touch, touch_radius (touches,): surface and point that meet, radius
    of its sphere [m].
    root (nb,): the body on the world that carries a body.
    """

    rod, first, count, column = each(4, integers)
    points, columns = each(2, integer)
    length: Array = reals()
    section: Array = reals(10)
    reference: Array = reals(6)
    level: Array = reals()
    strain, mode, until = each(3, integers)
    strains: Indices = integers(6)
    modes: Indices = integers()
    units: int = integer()
    unit: Indices = integers()
    axes: Array = reals(6)
    weight: Array = reals()
    reference_there: Array = reals(6)
    level_there: Array = reals()
    square: Indices = integers()
    elastic, viscous = each(2, reals)
    tendons: int = integer()
    cable, route_of = each(2, integers)
    route: Array = reals(4)
    laden, carried, steady, wet, pushes = each(5, integer)
    sites: Indices = integers(4)
    site_pose: Array = reals(12)
    heavy, pull = each(2, reals)
    drag, added = each(2, reals, 3)
    surfaces: Array = reals(10)
    touches: int = integer()
    touch: Indices = integers(2)
    touch_radius: Array = reals()
    root: Indices = integers()


def compiled(model: pin.Model) -> Tree:
    """The flat arrays of a Pinocchio model; ModelError names the first joint or link that is not supported."""
    none = np.zeros(model.nv)
    tree = Tree(**arrays_of(model), stiffness=none, springref=none, weightless=None, room=0, cables=0)
    tree.weightless = tree.replace(gravity=np.zeros(6), damping=none)
    return tree


def arrays_of(model: pin.Model, rods: Collection[int] = ()) -> dict[str, Any]:
    """The arrays of a tree that its model tells.

    rods: bodies that rods carry, whose joints tell how many numbers a rod has.
    """
    nb, nv = model.njoints - 1, model.nv
    if nb == 0:
        raise ModelError(f"{model.name}: expected at least one moving joint, got none")
    if np.any(model.gravity.angular):
        turning = model.gravity.angular
        raise ModelError(f"{model.name}: expected a uniform gravity, got one with an angular part {turning}")
    for name, values in (("gravity", model.gravity.linear), ("armature", model.armature), ("damping", model.damping)):
        if not np.isfinite(values).all() or (name == "armature" and np.min(values) < 0.0):
            expected = "no negative number" if name == "armature" else "finite numbers"
            raise ModelError(f"{name} of {model.name}: expected {expected}, got {values}")
    found = list(model.joints)[1:]
    kind = np.array([ROD if b in rods else joints.kind_of(model, b + 1) for b in range(nb)])
    subspace, copied = np.zeros((nv, 6)), copied_numbers(model)
    for b, joint in enumerate(found):
        if b not in rods:
            subspace[joint.idx_v : joint.idx_v + joint.nv] = S = joints.subspace(model, b + 1)
            joints.check_axis(model, b + 1, S)
    _check_bodies(model, copied["placement"], copied["inertia"])
    parent, sizes = np.array(list(model.parents)[1:]) - 1, [(joint.nq, joint.nv) for joint in found]
    return {
        **structure(parent, kind, np.array(sizes), copied["placement"], subspace), **copied,
    }


def copied_numbers(model: pin.Model) -> dict[str, Array]:
    """The arrays of a tree that hold a model's own numbers: changes of the model after this leave them as they are.

    inertia: mass, first and second moment about the body frame's origin: J = ½ tr(I) 1 - I + m r rᵀ.
    """
    bodies, frames = model.inertias.tolist()[1:], model.jointPlacements.tolist()[1:]
    m, r, I = (np.array([getattr(body, name) for body in bodies]) for name in ("mass", "lever", "inertia"))
    inertia, placement = np.empty((len(bodies), 10)), np.empty((len(bodies), 12))
    with np.errstate(invalid="ignore", over="ignore"):
        inertia[:, 0], inertia[:, 1:4] = m, m[:, None] * r
        J = 0.5 * np.trace(I, axis1=1, axis2=2)[:, None, None] * np.eye(3) - I
        inertia[:, 4:] = (J + m[:, None, None] * (r[:, :, None] * r[:, None, :]))[:, *_UPPER]
    pose = np.array([frame.homogeneous for frame in frames])
    placement[:, :9], placement[:, 9:] = pose[:, :3, :3].reshape(-1, 9), pose[:, :3, 3]
    return {
        "gravity": np.array(model.gravity.vector), "inertia": inertia, "placement": placement,
        "armature": np.array(model.armature, dtype=np.float64), "damping": np.array(model.damping, dtype=np.float64),
    }  # fmt: skip


def _check_bodies(model: pin.Model, placement: Array, inertia: Array) -> None:
    """Raise ModelError for the first joint whose place, or link whose inertia, is not finite, or of negative mass."""
    for b, joint in enumerate(list(model.names)[1:]):
        if not np.isfinite(placement[b]).all():
            raise ModelError(f"{model.name}: joint {joint!r} has a placement that is not finite")
        if not np.isfinite(inertia[b]).all():
            of = {name: getattr(model.inertias[b + 1], name) for name in ("mass", "lever", "inertia")}
            name = next((name for name, given in of.items() if not np.isfinite(given).all()), "inertia")
            raise ModelError(f"{name} of the link at joint {joint!r}: expected finite numbers, got {said(of[name])}")
        if inertia[b, 0] < 0.0:
            mass = inertia[b, 0]
            raise ModelError(f"mass of the link at joint {joint!r}: expected a positive number [kg], got {mass}")


def structure(parent: Indices, kind: Indices, sizes: Indices, placement: Array, subspace: Array) -> dict[str, Any]:
    """The arrays of a tree that follow from its joints; sizes (nb, 2): numbers of each in q and in v."""
    (nq, nj), (iq, iv) = sizes.T, (np.cumsum(sizes, axis=0) - sizes).T
    previous = np.arange(nj.sum()) - 1
    previous[iv] = np.where(parent < 0, -1, (iv + nj - 1)[parent])
    segment, relatives = segments(previous)
    return {
        "nb": len(parent), "nv": len(previous), "nq": int(nq.sum()), "ns": len(segment), "parent": parent,
        "heir": heirs(parent), "kind": kind, "iq": iq, "iv": iv, "nj": nj, "placement": placement,
        "turns": turns(placement, subspace[iv]), "subspace": subspace, "body": np.repeat(np.arange(len(parent)), nj),
        "previous": previous, "segment": segment, "relatives": relatives,
    }  # fmt: skip


def on_free_base(tree: OfTree, **others: Any) -> OfTree:
    """The tree on a free base at the world's origin, without mass: no gravity, springs, friction or rotors.

    others: what else a class of trees has that is not equal.
    """
    sizes = np.stack([np.diff(np.append(tree.iq, tree.nq)), tree.nj], axis=1)
    placement = np.concatenate([np.append(np.eye(3), np.zeros(3))[None], tree.placement])
    of_joints = structure(
        np.concatenate([[-1], tree.parent + 1]), np.concatenate([[FREE_FLYER], tree.kind]),
        np.concatenate([[[7, 6]], sizes]), placement, np.concatenate([np.eye(6), tree.subspace]),
    )  # fmt: skip
    none = np.zeros(tree.nv + 6)
    return tree.replace(
        **of_joints, inertia=np.concatenate([np.zeros((1, 10)), tree.inertia]), armature=none, gravity=np.zeros(6),
        damping=none, stiffness=none, springref=none, weightless=None, **others,
    )  # fmt: skip


def turns(placement: Array, motion: Array) -> Array:
    """``Tree.turns`` of motions (l ; a), (nb, 6), in frames with R: A = R a aᵀ, B = R - A, C = R a ×, d = R l."""
    rows = []
    for frame, s in zip(placement, motion, strict=True):
        R = frame[:9].reshape(3, 3)
        along = np.outer(R @ s[3:], s[3:])
        rows += [np.append(part, x) for part, x in zip((along, R - along, np.cross(R, s[3:])), R @ s[:3], strict=True)]
    return np.array(rows)


def heirs(parent: Indices) -> Indices:
    """``heir`` of a tree."""
    heir, carried = np.full(len(parent), -1), np.flatnonzero(parent >= 0)
    heir[parent[carried]] = carried  # the last one stays
    return heir


def roots(parent: Indices) -> Indices:
    """``root`` of a tree, for each body."""
    root = np.arange(len(parent))
    for b, p in enumerate(parent):
        if p >= 0:
            root[b] = root[p]
    return root


def segments(previous: Indices) -> tuple[Indices, Indices]:
    """``segment`` and ``relatives`` of a tree: a column of ∂τ/∂q has entries for relatives only."""
    nv = len(previous)
    related = np.eye(nv, dtype=bool)
    for i in range(nv):
        j = previous[i]
        while j >= 0:
            related[i, j] = related[j, i] = True
            j = previous[j]
    segment: list[list[int]] = []
    relatives: list[int] = []
    for i in range(nv):
        if i == 0 or (related[i] != related[i - 1]).any():
            mine = np.flatnonzero(related[i])
            segment.append([i, i + 1, len(relatives), len(relatives) + len(mine)])
            relatives.extend(mine)
        segment[-1][1] = i + 1
    return np.array(segment, dtype=np.int64).reshape(-1, 4), np.array(relatives, dtype=np.int64)


def space_of_configurations(tree: Tree) -> Space:
    """The space of q."""
    joints = zip(tree.kind.tolist(), tree.nj.tolist(), strict=True)
    return Space(tuple(NUMBERS[kind].space if kind in NUMBERS else Euclidean(size) for kind, size in joints))


def space_of_states(tree: Tree) -> Space:
    """The space of x = (q, v)."""
    return Space((*space_of_configurations(tree).parts, Euclidean(tree.nv)))

"""The space of a robot's states, joint by joint, for functions of states that are traced."""

from __future__ import annotations

from ddp.tracing.groups import SE3, SO3, Euclidean, Part, UnitCircle, UnitPlane
from ddp.tracing.spaces import Space
from dynamics.geometry.joint_motion import CONTINUOUS, FREE_FLYER, PLANAR, SPHERICAL
from dynamics.robots.tree import Tree

_PARTS: dict[int, Part] = {FREE_FLYER: SE3(), SPHERICAL: SO3(), PLANAR: UnitPlane(), CONTINUOUS: UnitCircle()}


def space_of_configurations(tree: Tree) -> Space:
    """The space of q."""
    joints = zip(tree.kind.tolist(), tree.nj.tolist(), strict=True)
    return Space(tuple(_PARTS.get(kind) or Euclidean(size) for kind, size in joints))


def space_of_states(tree: Tree) -> Space:
    """The space of x = (q, v)."""
    return Space((*space_of_configurations(tree).parts, Euclidean(tree.nv)))

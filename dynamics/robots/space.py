"""The space of a robot's states, joint by joint, for functions of states that are traced."""

from ddp.tracing.groups import Euclidean
from ddp.tracing.spaces import Space
from dynamics.robots.joints import NUMBERS
from dynamics.robots.tree import Tree


def space_of_configurations(tree: Tree) -> Space:
    """The space of q."""
    joints = zip(tree.kind.tolist(), tree.nj.tolist(), strict=True)
    return Space(tuple(NUMBERS[kind].space if kind in NUMBERS else Euclidean(size) for kind, size in joints))


def space_of_states(tree: Tree) -> Space:
    """The space of x = (q, v)."""
    return Space((*space_of_configurations(tree).parts, Euclidean(tree.nv)))

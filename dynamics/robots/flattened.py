"""A tree behind one address, with memory to work in: a kernel is handed one number faster than fifteen arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from dynamics.robots.model import Model


class Walk(NamedTuple):
    """A walk through a tree depth first: bodies in order (nb,); how many are before each body (nb,) and dof (nv,)."""

    order: Any
    bodies: Any
    dofs: Any


def walk_through(tree: Model) -> Walk:
    """The walk that takes siblings in the order of the tree."""
    parent, nb = tree.parent.tolist(), len(tree.parent)
    order: list[int] = []
    ahead = [b for b in range(nb - 1, -1, -1) if parent[b] < 0]
    while ahead:
        order.append(ahead.pop())
        ahead.extend(b for b in range(nb - 1, -1, -1) if parent[b] == order[-1])
    bodies, dofs = np.zeros(nb, dtype=np.int64), np.zeros(len(tree.body), dtype=np.int64)
    for b in range(nb):
        bodies[b] = 0 if parent[b] < 0 else bodies[parent[b]] + 1
    for i, j in enumerate(tree.previous.tolist()):
        dofs[i] = 0 if j < 0 else dofs[j] + 1
    return Walk(np.array(order, dtype=np.int64), bodies, dofs)


class Packed:
    """A tree, its step h, number of controls and method behind one address; alive as long as this object is.

    method (stages + 1, stages + 3): of explicit steps, see steps/runge_kutta.py; without stages by default.
    packed.py takes it apart. The memory is one knot's: who works in it must be alone.
    """

    def __init__(self, tree: Model, nq: int, nu: int = 0, h: float = 0.0, method: Any = None) -> None:
        lists = (tree.parent, tree.kind, tree.iq, tree.iv, tree.nj, tree.body, tree.previous)
        walk = walk_through(tree)
        self.integers = np.concatenate([*lists, tree.segment.ravel(), tree.relatives, *walk])
        blocks = (tree.placement, tree.inertia, tree.subspace, tree.armature, tree.damping, tree.gravity, [h])
        springs = tree.stiffness, tree.springref
        self.reals = np.concatenate([np.ravel(block) for block in (*blocks, tree.turns, *springs)])
        nb, nv, nz = len(tree.parent), len(tree.body), 2 * len(tree.body) + nu
        self.scratch = np.zeros(95 * nb + 36 * nv + 6 * nv**2 + nv * nu + 5 * nv + 108 + 18 * nz)
        self.method = np.zeros((1, 3)) if method is None else method
        where = [self.integers.ctypes.data, self.reals.ctypes.data, len(self.method) - 1, self.scratch.ctypes.data]
        where.append(self.method.ctypes.data)
        self.header = np.array([nb, nv, nq, nu, len(tree.segment), len(tree.relatives), *where], dtype=np.int64)
        self.address = int(self.header.ctypes.data)

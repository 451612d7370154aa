"""A tree behind one address, with memory to work in: a kernel is handed one number faster than fifteen arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dynamics.model import Model


class Packed:
    """A tree, its step h, number of controls and stages behind one address; alive as long as this object is.

    packed.py takes it apart. The memory is one knot's: who works in it must be alone.
    """

    def __init__(self, tree: Model, nq: int, nu: int = 0, h: float = 0.0, stages: int = 0) -> None:
        lists = (tree.parent, tree.kind, tree.iq, tree.iv, tree.nj, tree.body, tree.previous)
        self.integers = np.concatenate([*lists, tree.segment.ravel(), tree.relatives])
        blocks = (tree.placement, tree.inertia, tree.subspace, tree.armature, tree.damping, tree.gravity, [h])
        self.reals = np.concatenate([np.ravel(block) for block in blocks])
        nb, nv, nz = len(tree.parent), len(tree.body), 2 * len(tree.body) + nu
        self.scratch = np.zeros(95 * nb + 36 * nv + 6 * nv**2 + nv * nu + 5 * nv + 108 + 18 * nz)
        where = [self.integers.ctypes.data, self.reals.ctypes.data, stages, self.scratch.ctypes.data]
        self.header = np.array([nb, nv, nq, nu, len(tree.segment), len(tree.relatives), *where], dtype=np.int64)
        self.address = int(self.header.ctypes.data)

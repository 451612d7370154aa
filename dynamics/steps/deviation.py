"""Deviation of a state from a reference on the way between two knots, as one C function."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import carray

from ddp.compiling.kernel import callback, pointer
from ddp.system import Contraction
from dynamics.geometry.configuration import difference_state, integrate_state
from dynamics.robots.tree import Tree


def deviate_at(context, at, x, out):  # type: ignore[no-untyped-def]
    """The C function: out (n,) := x ⊖ (X ⊕ dx), of a ``Tree`` and of X (nx,) and dx (n,) in a row ``at``."""
    tree = Tree(context)
    nx, n = tree.nq + tree.nv, 2 * tree.nv
    given = carray(pointer(at), nx + n)
    reference = np.empty(nx)
    integrate_state(tree, given[:nx], given[nx:], reference)
    difference_state(tree, reference, carray(pointer(x), nx), carray(pointer(out), n))


@cache
def _deviation() -> Any:
    """``deviate_at``, compiled on first use."""
    return callback(deviate_at)


def deviation(tree: Tree) -> Contraction:
    """The C function, for the states of a tree."""
    return Contraction(_deviation().address, tree.address, tree)

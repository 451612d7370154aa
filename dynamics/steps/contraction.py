# mypy: allow-untyped-defs, allow-untyped-calls
"""The contraction of explicit steps' second order as a C function, for the compiled backward sweep."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import carray
from numpy.typing import NDArray

from ddp.compiling.kernel import call_contraction, callback, kernel, pointer
from ddp.machine.struct import Struct, integer, matrix, nested, real
from dynamics.rigid_bodies.kinematics import workspace
from dynamics.robots.tree import Tree
from dynamics.steps.curvature import second_scratch
from dynamics.steps.runge_kutta_curvature import adjoint_scratch, contract_explicit
from dynamics.steps.runge_kutta_linearization import stage_sizes


class ExplicitStep(Struct):
    """A tree and how it is stepped.   h [s].   method (stages + 1, stages + 3): see runge_kutta.py."""

    tree: Tree = nested(Tree)
    nu: int = integer()
    h: float = real()
    method: NDArray[np.float64] = matrix()


@kernel
def contract_rows(address, context, record, weight, out):
    """Call the C function at ``address`` for every knot: record (M, .), weight (M, n), out (M, nz, nz).

    The last comes first, as in a sweep: records that were written last are in the fastest memory.
    """
    for t in range(record.shape[0] - 1, -1, -1):
        call_contraction(address, context, record[t].ctypes.data, weight[t].ctypes.data, out[t].ctypes.data)


def contract_explicit_at(context, record, weight, hessian):  # type: ignore[no-untyped-def]
    """The C function for the explicit steps of runge_kutta.py, likewise; its context is an ``ExplicitStep``."""
    c = ExplicitStep(context)
    tree, method, nq, nu, h = c.tree, c.method, c.tree.nq, c.nu, c.h
    stages = len(method) - 1
    nv = tree.nv
    n, nz = 2 * nv, 2 * nv + nu
    stored = carray(pointer(record), stages * stage_sizes(nq, nv, nu)[1])
    H = carray(pointer(hessian), (nz, nz))
    ws, c, d = workspace(tree, stored), second_scratch(tree, nu), adjoint_scratch(tree, nu, stages)
    no_fext = np.zeros((0, 6))
    contract_explicit(tree, method, nq, nu, h, stored, carray(pointer(weight), n), no_fext, ws, c, d, H)


@cache
def explicit_callback() -> Any:
    """``contract_explicit_at``, compiled on first use."""
    return callback(contract_explicit_at)

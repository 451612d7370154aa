"""The contraction of a robot's second order as a C function, for the compiled backward sweep."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import carray

from ddp.kernel import call_contraction, callback, kernel, pointer
from dynamics.curvature import Second, contract, second_scratch
from dynamics.kinematics import workspace
from dynamics.packed import matrix, read_numbers, read_tree, vector, workspace_at
from dynamics.runge_kutta_curvature import adjoint_scratch, contract_explicit
from dynamics.runge_kutta_linearization import stage_sizes


@kernel
def contract_rows(address, context, record, weight, out):
    """Call the C function at ``address`` for every knot: record (M, .), weight (M, n), out (M, nz, nz)."""
    for t in range(record.shape[0]):
        call_contraction(address, context, record[t].ctypes.data, weight[t].ctypes.data, out[t].ctypes.data)


@kernel
def second_at(address, nv, nu):
    """Scratch for contractions in 6 nv² + nv nu + 2 nv + 108 + 18 nz floats, which come in as zeros."""
    nz, m = 2 * nv + nu, 8 * nv * nv
    a = address + 16 * nv
    b = a + 6 * m + 8 * nv * nu
    c = b + 8 * 108
    return Second(
        vector(address, nv), vector(address + 8 * nv, nv), matrix(a, nv, nv), matrix(a + m, nv, nv),
        matrix(a + 2 * m, nv, nv), matrix(a + 3 * m, nv, nv), matrix(a + 4 * m, nv, nv),
        matrix(a + 5 * m, nv, nv), matrix(a + 6 * m, nv, nu),
        matrix(b, 6, 6), matrix(b + 8 * 36, 6, 6), matrix(b + 8 * 72, 6, 6),
        matrix(c, 6, nz), matrix(c + 48 * nz, 6, nz), matrix(c + 96 * nz, 6, nz),
    )  # fmt: skip


def contract_at(context, record, weight, hessian):  # type: ignore[no-untyped-def]
    """The C function: addresses of a ``Packed`` header, a record, a weight (n,) and the Hessian (nz, nz) to write."""
    nq, nu, h, _, scratch = read_numbers(context)
    tree = read_tree(context)
    nb, nv = tree.parent.size, tree.body.size
    n, nz = 2 * nv, 2 * nv + nu
    stored = carray(pointer(record), nq + 2 * nv + nv * nv + nv * nz)
    ws, c = workspace_at(scratch, nb, nv), second_at(scratch + 8 * (95 * nb + 30 * nv), nv, nu)
    H = carray(pointer(hessian), (nz, nz))
    contract(tree, nq, nu, h, stored, carray(pointer(weight), n), matrix(scratch, 0, 6), ws, c, H)


def contract_explicit_at(context, record, weight, hessian):  # type: ignore[no-untyped-def]
    """The same for the explicit steps of runge_kutta.py."""
    nq, nu, h, stages, _ = read_numbers(context)
    tree = read_tree(context)
    nv = tree.body.size
    n, nz = 2 * nv, 2 * nv + nu
    stored = carray(pointer(record), stages * stage_sizes(nq, nv, nu)[1])
    H = carray(pointer(hessian), (nz, nz))
    ws, c, d = workspace(tree, stored), second_scratch(tree, nu), adjoint_scratch(tree, nu, stages)
    no_fext = np.zeros((0, 6))
    contract_explicit(tree, nq, nu, h, stages, stored, carray(pointer(weight), n), no_fext, ws, c, d, H)


@cache
def contraction_callback(explicit: bool = False) -> Any:
    """``contract_at`` or ``contract_explicit_at``, compiled on first use."""
    return callback(contract_explicit_at if explicit else contract_at)

# mypy: allow-untyped-defs, allow-untyped-calls
"""The contraction of explicit steps' second order as a C function, for the compiled backward sweep."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import carray

from ddp.compiling.kernel import call_contraction, callback, kernel, pointer
from ddp.system import Contraction
from dynamics.rigid_bodies.kinematics import workspace
from dynamics.steps.curvature import second_scratch
from dynamics.steps.modes import Modes, step_of
from dynamics.steps.runge_kutta_curvature import adjoint_scratch, contract_explicit
from dynamics.steps.runge_kutta_linearization import stage_sizes


@kernel
def contract_rows(address, context, record, weight, out):
    """Call the C function at ``address`` for every knot: record (M, .), weight (M, n), out (M, nz, nz).

    The last comes first, as in a sweep: records that were written last are in the fastest memory.
    """
    for t in range(record.shape[0] - 1, -1, -1):
        call_contraction(address, context, record[t].ctypes.data, weight[t].ctypes.data, out[t].ctypes.data)


def contract_explicit_at(context, record, weight, hessian):  # type: ignore[no-untyped-def]
    """The C function for the explicit steps of runge_kutta.py, likewise; its context are `Modes`."""
    modes = Modes(context)
    tree, method, nu, h = modes.tree, modes.method, modes.nu, step_of(modes, 0)
    nq, nv, stages = tree.nq, tree.nv, len(method) - 1
    n, nz = 2 * nv, 2 * nv + nu
    stored = carray(pointer(record), stages * stage_sizes(nq, nv, nu)[1])
    H = carray(pointer(hessian), (nz, nz))
    ws, c, d = workspace(tree, stored), second_scratch(tree, nu), adjoint_scratch(tree, nu, stages)
    no_fext = np.zeros((0, 6))
    contract_explicit(tree, method, nq, nu, h, stored, carray(pointer(weight), n), no_fext, ws, c, d, H)


@cache
def _callback() -> Any:
    return callback(contract_explicit_at)


def explicit_contraction(modes: Modes) -> Contraction:
    """The second order of single knots of an explicit step, as a C function."""
    return Contraction(_callback().address, modes.address, modes)

# mypy: allow-untyped-defs, allow-untyped-calls
"""The contraction of explicit steps' second order as a C function, for the compiled backward sweep."""

from __future__ import annotations

from functools import cache
from typing import Any

from numba import carray

from ddp.compiling.kernel import callback, kernel, pointer
from ddp.machine.memory import hold, memory_of
from ddp.system import Contraction
from dynamics.rigid_bodies.kinematics import Workspace, workspace
from dynamics.steps.curvature import second_scratch
from dynamics.steps.modes import Modes, step_of
from dynamics.steps.runge_kutta_curvature import adjoint_scratch, contract_explicit


@kernel
def contract_knots(context, arena, record, weight, out):
    """out (M, nz, nz): Hessians of weight·(f(x ⊕ dx, u + du) ⊖ f(x, u)) of M knots, from their records (M, .)."""
    modes = Modes(context)
    tree, method, nu, h = modes.tree, modes.method, modes.nu, step_of(modes, 0)
    memory, c, d = workspace(tree, record), second_scratch(tree, nu), adjoint_scratch(tree, nu, len(method) - 1)
    ws = Workspace(memory_of(memory), tree)
    for t in range(len(record) - 1, -1, -1):  # as in a sweep: those written last are in the fastest memory
        contract_explicit(tree, method, tree.nq, nu, h, record[t], weight[t], ws, c, d, out[t])
    hold(memory)


def contract_at(context, record, weight, hessian):  # type: ignore[no-untyped-def]
    """The C function: addresses of `Modes`, a record, a weight (n,) and the Hessian (nz, nz) to write."""
    modes = Modes(context)
    nz, n = 2 * modes.tree.nv + modes.nu, 2 * modes.tree.nv
    stored = carray(pointer(record), (1, modes.end))
    contract_knots(context, stored, stored, carray(pointer(weight), (1, n)), carray(pointer(hessian), (1, nz, nz)))


@cache
def _callback() -> Any:
    return callback(contract_at)


def contraction(modes: Modes) -> Contraction:
    """The second order of single knots of an explicit step, as a C function."""
    return Contraction(_callback().address, modes.address, modes)

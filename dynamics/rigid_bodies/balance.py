# mypy: allow-untyped-defs, allow-untyped-calls
"""Balance of forces at many samples: residuals of motion, and how controls enter them, where that depends on q.

Of rigid bodies alone controls enter by a constant S; tendons and wrenches of robots with rods pull by where they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.kernel import kernel
from ddp.machine.aligned import working_memory
from ddp.machine.fields import Fields, matrix_of, vector
from ddp.machine.memory import as_matrix, as_vector, columns_of, memory_of, rows_of
from dynamics.rigid_bodies.kinematics import Workspace, clear
from dynamics.rigid_bodies.passive import entries_of
from dynamics.rigid_bodies.residual import residual_by_controls, residual_derivatives
from dynamics.robots.tree import Tree

Array = NDArray[np.float64]


class Balanced(Fields):
    """Scratch of one sample."""

    torques, R, zeros = vector("nv"), vector("nv"), vector("nv")
    Rq, Rv, M = matrix_of("nv", "nv"), matrix_of("nv", "nv"), matrix_of("nv", "nv")


@kernel
def _balance(tree, memory, pulls, Q, U, out, by_controls):
    pulls, Q, U, out, by_controls = rows_of(pulls), rows_of(Q), rows_of(U), rows_of(out), rows_of(by_controls)
    ws = Workspace(memory_of(memory), tree)
    x = Balanced(ws.end, tree)
    no_fext, nu = as_matrix(x.zeros, 0, 6), columns_of(U)
    clear(x.torques, 3 * tree.nv + 3 * tree.nv * tree.nv)
    for t in range(len(Q)):
        clear(as_vector(x.Rq), 3 * tree.nv * tree.nv)
        residual_derivatives(tree, pulls, Q[t], x.zeros, x.zeros, U[t], no_fext, ws, x.torques, x.R, x.Rq, x.Rv, x.M)
        for i in range(tree.nv):
            out[t, i] = x.R[i]
        residual_by_controls(tree, pulls, Q[t], 1.0, 0, ws, as_matrix(by_controls[t], tree.nv, nu))


def balance(tree: Tree, S: Array, Q: Array, U: Array) -> tuple[Array, Array]:
    """Forces (N, nv) that are missing for rest at Q (N, nq) under U (N, nu), and how these act there, (N, nv, nu)."""
    (N, nu), nv = U.shape, tree.nv
    missing, by_controls = np.zeros((N, nv)), np.zeros((N, nv, nu))
    memory: Any = working_memory(Workspace.size(tree) + Balanced.size(tree), 1)
    _balance(tree.handle, memory, entries_of(S), np.ascontiguousarray(Q), np.ascontiguousarray(U), missing, by_controls)
    return missing, -by_controls

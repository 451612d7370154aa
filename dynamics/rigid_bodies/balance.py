# mypy: allow-untyped-defs, allow-untyped-calls
"""Balance of forces at many samples: residuals of motion, and how controls enter them, where that depends on q.

Of rigid bodies alone controls enter by a constant S; tendons and wrenches of robots with rods pull by where they are.
"""

from typing import Any

import numpy as np

from ddp.compiling.kernel import kernel
from ddp.machine.aligned import working_memory
from ddp.machine.fields import Fields, matrix_of, vector
from ddp.machine.memory import as_matrix, as_vector, columns_of, memory_of, rows_of
from ddp.protocols import Array
from dynamics.rigid_bodies.kinematics import Workspace, clear
from dynamics.rigid_bodies.passive import entries_of
from dynamics.rigid_bodies.residual import residual_by_controls, residual_derivatives
from dynamics.robots.tree import Tree


class Balanced(Fields):
    """Scratch of one sample."""

    torques, R = vector("nv"), vector("nv")
    Rq, Rv, M = matrix_of("nv", "nv"), matrix_of("nv", "nv"), matrix_of("nv", "nv")


@kernel
def _balance(context, memory, pulls, Q, V, A, U, out, by_controls):
    tree, Q, V, A, U = Tree(context), rows_of(Q), rows_of(V), rows_of(A), rows_of(U)
    pulls, out, by_controls = rows_of(pulls), rows_of(out), rows_of(by_controls)
    ws = Workspace(memory_of(memory), tree)
    x = Balanced(ws.end, tree)
    no_fext, nu = as_matrix(x.R, 0, 6), columns_of(U)
    for t in range(len(Q)):
        clear(as_vector(x.Rq), 3 * tree.nv * tree.nv)
        residual_derivatives(tree, pulls, Q[t], V[t], A[t], U[t], no_fext, ws, x.torques, x.R, x.Rq, x.Rv, x.M)
        for i in range(tree.nv):
            out[t, i] = x.R[i]
        residual_by_controls(tree, pulls, Q[t], 1.0, 0, ws, as_matrix(by_controls[t], tree.nv, nu))


def balance(
    tree: Tree, S: Array, Q: Array, U: Array, V: Array | None = None, A: Array | None = None
) -> tuple[Array, Array]:
    """Forces (N, nv) that motion Q (N, nq), V, A (N, nv) takes beside U (N, nu), and how these act, (N, nv, nu).

    V, A: zeros by default, of rest.
    """
    (N, nu), nv = U.shape, tree.nv
    missing, by_controls = np.zeros((N, nv)), np.zeros((N, nv, nu))
    memory: Any = working_memory(Workspace.size(tree) + Balanced.size(tree), 1)
    moving = [np.zeros((N, nv)) if part is None else part for part in (V, A)]
    Q, V, A, U = (np.ascontiguousarray(part) for part in (Q, *moving, U))
    _balance(tree.handle, memory, entries_of(S), Q, V, A, U, missing, by_controls)
    return missing, -by_controls

# mypy: allow-untyped-defs, allow-untyped-calls
"""Gaps of loops in many configurations, and the rates at which they open."""

import numpy as np

from ddp.compiling.kernel import kernel
from ddp.machine.memory import memory_of, rows_of
from ddp.protocols import Array
from dynamics.rigid_bodies.kinematics import Workspace, place_bodies
from dynamics.rigid_bodies.loops import looping, see_loops
from dynamics.robots.loop import Loops
from dynamics.robots.model import Robot
from dynamics.robots.tree import Tree


@kernel
def _errors(context, loops, memory, Q, e, J):
    tree, loops, Q, e, J = Tree(context), Loops(loops), rows_of(Q), rows_of(e), rows_of(J)
    ws = Workspace(memory_of(memory), tree)
    lp = looping(ws.end, tree, loops)
    for t in range(len(Q)):
        place_bodies(tree, Q[t], True, ws)
        see_loops(tree, loops, Q[t], ws, lp)
        for r in range(loops.nc):
            e[t, r] = lp.e[r]
            for i in range(tree.nv):
                J[t, r * tree.nv + i] = lp.J[r, i]


def errors_of_loops(robot: Robot, memory: Array, Q: Array) -> tuple[Array, Array]:
    """e (N, nc) and J = e_q (N, nc, nv) of configurations Q (N, nq); memory for a Workspace and a Looping."""
    N, nc, nv = len(Q), robot.held.nc, robot.nv
    e, J = np.empty((N, nc)), np.empty((N, nc * nv))
    _errors(robot.handle, robot.held.address, memory, np.ascontiguousarray(Q), e, J)
    return e, J.reshape(N, nc, nv)

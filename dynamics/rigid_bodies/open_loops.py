# mypy: allow-untyped-defs, allow-untyped-calls
"""How far loops are open in many configurations."""

import numpy as np

from ddp.compiling.kernel import kernel
from ddp.machine.memory import memory_of, rows_of
from ddp.protocols import Array
from dynamics.rigid_bodies.kinematics import Workspace, place_bodies
from dynamics.rigid_bodies.loops import looping, see_errors
from dynamics.robots.loop import Loops
from dynamics.robots.model import Robot
from dynamics.robots.tree import Tree


@kernel
def _errors(context, loops, memory, Q, out):
    tree, loops, Q, out = Tree(context), Loops(loops), rows_of(Q), rows_of(out)
    ws = Workspace(memory_of(memory), tree)
    lp = looping(ws.end, tree, loops)
    for t in range(len(Q)):
        place_bodies(tree, Q[t], True, ws)
        see_errors(tree, loops, Q[t], ws, lp)
        for r in range(loops.nc):
            out[t, r] = lp.e[r]


def errors_of_loops(robot: Robot, memory: Array, Q: Array) -> Array:
    """e (N, nc) of configurations Q (N, nq); memory for a Workspace and a Looping."""
    out = np.empty((len(Q), robot.held.nc))
    _errors(robot.handle, robot.held.address, memory, np.ascontiguousarray(Q), out)
    return out

# mypy: allow-untyped-defs, allow-untyped-calls
"""M⁻¹ column by column: responses of articulated bodies (articulated.py) to unit torques, four samples at once.

With the U and d = 1 / (s·U + armature) of ``articulate``, a torque τ of a joint is felt on the way to the root alone,

    u = τ - s·f,    f_p += f + d u U,

and the accelerations that follow from u are the column of M⁻¹. Between torques nothing is factorised again.
"""

from __future__ import annotations

from ddp.compiling.kernel import kernel
from ddp.machine.number import QUAD, lane_of, spread
from dynamics.arrays.tables import scatter
from dynamics.geometry.spatial import add6, dot6, load6, load9, scale6
from dynamics.rigid_bodies.articulated import (
    accelerate,
    articulate,
    bodies_at,
    column,
    is_free,
    numbers,
    place,
    room_of_bodies,
    turned,
)
from dynamics.robots.tree import Tree


def size(tree: Tree) -> int:
    """How many lanes the arena must hold for ``inverse_mass_matrix``, two quads to each."""
    return (room_of_bodies(tree) + tree.nq + 3 * tree.nv + 2 * QUAD) // 2 + 1


@kernel
def inverse_mass_matrix(context, arena, Q, out):
    """M⁻¹ (N, nv, nv) of every sample; the first whose mass matrix is not positive definite, or -1."""
    tree = Tree(context)
    N, nq, nv = Q.shape[0], Q.shape[1], tree.nv
    memory = arena.ctypes.data + 64
    still = memory + 32 * (nq + QUAD)
    reply = still + 32 * nv
    w = bodies_at(reply + 32 * (nv + QUAD), tree.nb, nv)
    q, v, a, configuration = column(memory), column(still), column(reply), numbers(memory)
    for i in range(nv):
        v[i] = 0.0
    for begin in range(0, N, QUAD):
        count = min(QUAD, N - begin)
        for lane in range(QUAD):
            for i in range(nq):
                configuration[QUAD * i + lane] = Q[begin + min(lane, count - 1), i]
        place(tree, q, v, w)
        pivot = articulate(tree, v, w)
        for lane in range(count):
            if not lane_of(pivot, lane) > 0.0:
                return begin + lane
        for j in range(nv):
            twist(tree, j, w)
            accelerate(tree, w, a)
            for i in range(0, nv, QUAD):  # of a symmetric matrix columns are rows
                to = out.ctypes.data + 8 * ((begin * nv + j) * nv + i)
                scatter(reply + 32 * i, nv - i, to, nv * nv, count)
    return -1


@kernel
def twist(tree, j, w):
    """u of a unit torque of the degree of freedom j; one on a free root is given in its axes, its u in the world's."""
    zero, b = spread(0.0, w.d[0]), tree.body[j]
    for k in range(tree.nv):
        w.u[k] = zero
    f, k = scale6(0.0, load6(w.U, j)), j
    if is_free(tree, b):
        c, one = j - tree.iv[b], spread(1.0, w.d[0])
        unit = (
            one if c == 0 else zero, one if c == 1 else zero, one if c == 2 else zero,
            one if c == 3 else zero, one if c == 4 else zero, one if c == 5 else zero,
        )  # fmt: skip
        torque, k = turned(load9(w.R, b), unit), tree.iv[b] + 5
        for i in range(6):
            w.u[tree.iv[b] + i] = torque[i]
    else:
        w.u[j] = 1.0
    while k >= 0:
        u = w.u[k] - dot6(load6(w.s, k), f)
        w.u[k] = u
        f = add6(f, scale6(w.d[k] * u, load6(w.U, k)))
        k = tree.previous[k]

# mypy: allow-untyped-defs, allow-untyped-calls
"""M⁻¹ column by column: responses of articulated bodies (articulated.py) to unit torques, four samples at once.

With the U and d = 1 / (s·U + armature) of ``articulate``, a torque τ of a joint is felt on the way to the root alone,

    u = τ - s·f,    f_p += f + d u U,

and the accelerations that follow from u are the column of M⁻¹. Between torques nothing is factorised again.
"""

from __future__ import annotations

from ddp.compiling.kernel import kernel
from ddp.machine.fields import Fields, vector
from ddp.machine.memory import as_quads, memory_of, rows_of
from ddp.machine.number import QUAD, WIDTH, lane_of, spread
from ddp.machine.packing import pack, unpack_columns
from dynamics.geometry.spatial import add6, dot6, rotate6, scale6
from dynamics.rigid_bodies.articulated import Bodies, accelerate, articulate, is_free, no_wrenches, place
from dynamics.robots.tree import Tree


class Replying(Fields):
    """A configuration, no velocity, and the accelerations that a unit torque causes."""

    q, v, a = vector("nq"), vector("nv"), vector("nv")


def size(tree: Tree) -> int:
    """Lanes of memory that ``inverse_mass_matrix`` takes."""
    return -(-(Replying.size(tree) + Bodies.size(tree)) * QUAD // WIDTH)


@kernel
def inverse_mass_matrix(context, memory, Q, out):
    """M⁻¹ (N, nv, nv) of every sample; the first whose mass matrix is not positive definite, or -1."""
    tree, samples, matrices = Tree(context), rows_of(Q), rows_of(out)
    N, nv, x = len(samples), tree.nv, Replying(as_quads(memory_of(memory)), tree)
    w = Bodies(x.end, tree)
    for i in range(nv):
        x.v[i] = 0.0
    for begin in range(0, N, QUAD):
        count = min(QUAD, N - begin)
        pack(samples, begin, x.q, tree.nq)
        place(tree, x.q, x.v, w)
        pivot = articulate(tree, x.v, no_wrenches(x.v), w)
        for j in range(nv):
            twist(tree, j, w)
            accelerate(tree, w, x.a)
            unpack_columns(x.a, nv, matrices, begin, j * nv)  # of a symmetric matrix columns are rows
            pivot += 0.0 * x.a[j]
        for lane in range(count):
            if not lane_of(pivot, lane) > 0.0:
                return begin + lane
    return -1


@kernel
def twist(tree, j, w):
    """u of a unit torque of the degree of freedom j; one on a free root is given in its axes, its u in the world's."""
    zero, b = spread(0.0, w.d[0]), tree.body[j]
    for k in range(tree.nv):
        w.u[k] = zero
    f, k = scale6(0.0, w.U[j]), j
    if is_free(tree, b):
        c, one = j - tree.iv[b], spread(1.0, w.d[0])
        unit = (
            one if c == 0 else zero, one if c == 1 else zero, one if c == 2 else zero,
            one if c == 3 else zero, one if c == 4 else zero, one if c == 5 else zero,
        )  # fmt: skip
        torque, k = rotate6(w.R[b], unit), tree.iv[b] + 5
        for i in range(6):
            w.u[tree.iv[b] + i] = torque[i]
    else:
        w.u[j] = 1.0
    while k >= 0:
        u = w.u[k] - dot6(w.s[k], f)
        w.u[k] = u
        f = add6(f, scale6(w.d[k] * u, w.U[k]))
        k = tree.previous[k]

# mypy: allow-untyped-defs, allow-untyped-calls
"""What the second order of many knots needs and no weight changes, eight knots to a register.

Each degree of freedom is described by ``FIELDS`` numbers, by the symbols of spatial.py and rigid_bodies/hessian.py:

    s, ψ', ψ'', η (6 each), and of its body the composites f (6), I (10) and (h, K) (12)

A knot's record holds them as rows (FIELDS, lx) over the degrees of freedom, lx the next multiple of eight to nv, zeros
in what is beyond: that is how knot_curvature.py reads them, eight degrees of freedom to a register.
"""

from __future__ import annotations

from ddp.compiling.kernel import inline, kernel
from ddp.machine.number import WIDTH
from ddp.matrices.tiles import padded
from dynamics.arrays.lanes import lane_matrix, lane_vector
from dynamics.arrays.packing import pack, unpack_columns
from dynamics.geometry.spatial import load6, load10, load12
from dynamics.rigid_bodies.kinematics import clear, composites, lane_workspace, lane_workspace_size
from dynamics.robots.model import Model
from dynamics.robots.packed import views_of

S, PSI, PSIDD, ETA, F, I, HK, FIELDS = 0, 6, 12, 18, 24, 30, 40, 52
"""Where a degree of freedom's quantities begin among its numbers, and how many there are."""


def size(tree: Model, nq: int) -> int:
    """How many lanes the arena must hold for ``describe_knots``."""
    nv = len(tree.body)
    return lane_workspace_size(tree) + nq + 2 * nv + FIELDS * padded(nv)


@inline
def put(out, first, i, values):
    """out[first:, i] := a tuple."""
    for k in range(len(values)):
        out[first + k, i] = values[k]


@kernel
def describe_knots(model, arena, nq, record, begin):
    """Columns ``begin`` and on of records (M, .) := the description of each knot, from q, v, a in their first ones."""
    tree = views_of(model)
    nv = tree.body.size
    ws, no_fext = lane_workspace(tree, arena), lane_matrix(arena, 0, 6)
    packed, lx = lane_vector(arena, nq + 2 * nv), (nv + 7) // 8 * 8
    q, v, a = packed[:nq], packed[nq : nq + nv], packed[nq + nv : nq + 2 * nv]
    description = lane_matrix(arena, FIELDS, lx)
    clear(description)
    for t in range(0, record.shape[0], WIDTH):
        pack(record, t, packed)
        composites(tree, q, v, a, no_fext, ws)
        describe(tree, ws, description)
        unpack_columns(description, record, t, begin)


@kernel
def describe(tree, ws, out):
    """out (FIELDS, .) of eight knots, after ``composites``."""
    for i in range(tree.body.size):
        b = tree.body[i]
        put(out, S, i, load6(ws.s, i))
        put(out, PSI, i, load6(ws.psi, i))
        put(out, PSIDD, i, load6(ws.psidd, i))
        put(out, ETA, i, load6(ws.eta, i))
        put(out, F, i, load6(ws.f, b))
        put(out, I, i, load10(ws.Ic, b))
        put(out, HK, i, load12(ws.hKc, b))

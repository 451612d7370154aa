# mypy: allow-untyped-defs, allow-untyped-calls
"""Inverse dynamics' mass matrix and first derivatives in one walk through the tree, in the axes of a root that floats.

Nothing in them depends on the axes that vectors are written in. Those of a root that floats make its columns s_j unit
vectors: what others have with it is then a vector itself, and needs no product.
"""

from __future__ import annotations

from ddp.compiling.kernel import inline, kernel
from dynamics.geometry.lie import quaternion_to_rotation
from dynamics.geometry.spatial import (
    add6,
    angular,
    coriolis_times,
    coriolis_transposed_times,
    cross3,
    cross_force,
    dot3,
    dot6,
    inertia_times,
    join,
    linear,
    load3,
    load6,
    load9,
    load10,
    load12,
    rotate_back,
    rotation_product,
    store,
    sub6,
)
from dynamics.rigid_bodies.bodies import carry, forces_of, move_body, place_body, row
from dynamics.rigid_bodies.inverse import floats


@kernel
def derivatives_depth_first(tree, walk, q, qd, qdd, fext, ws, M, dq, dv):
    """M, ∂τ/∂q and ∂τ/∂q' at once; the matrices must come in as zeros. See inverse.py for the equations.

    Bodies are entered in the order of a ``Walk`` and left when all they carry has been: the workspace holds a path from
    the root, and stays in the fastest memory.
    """
    order, bodies, dofs = walk.order, walk.bodies, walk.dofs
    top, n = -1, 0
    while n < order.size or top >= 0:
        if n < order.size and tree.parent[order[n]] == top:
            top = order[n]
            if floats(tree.kind[top], tree.parent[top]):
                enter_root(tree, top, bodies[top], q, qd, qdd, fext, ws)
            else:
                place_body(tree, top, bodies, dofs, q, True, ws)
                move_body(tree, top, bodies, dofs, qd, qdd, fext, ws)
            n += 1
        else:
            for i in range(tree.iv[top] + tree.nj[top] - 1, tree.iv[top] - 1, -1):
                pairs_of(tree, i, bodies, dofs, ws, M, dq, dv)
            carry(tree, top, bodies, ws)
            top = tree.parent[top]


@inline
def enter_root(tree, b, at, q, qd, qdd, fext, ws):
    """What place_body and move_body find of a root that floats, in its own axes: R = 1, v = q', a = q'' - Rᵀg.

    Rᵀg is kept as w, of which there is none. at: its row of the workspace.
    """
    iv, g = tree.iv[b], tree.gravity
    zero, i = 0.0 * qd[iv], tree.iq[b] + 3
    one = 1.0 + zero
    R = rotation_product(load9(tree.placement, b), quaternion_to_rotation((q[i], q[i + 1], q[i + 2], q[i + 3])))
    down = rotate_back(R, (g[0], g[1], g[2]))
    v = (qd[iv], qd[iv + 1], qd[iv + 2], qd[iv + 3], qd[iv + 4], qd[iv + 5])
    a = sub6((qdd[iv], qdd[iv + 1], qdd[iv + 2], qdd[iv + 3], qdd[iv + 4], qdd[iv + 5]), join(down, (zero, zero, zero)))
    R, p = (one, zero, zero, zero, one, zero, zero, zero, one), (zero, zero, zero)
    store(ws.R, at, R)
    store(ws.p, at, p)
    store(ws.w, at, down)
    for k in range(6):
        for l in range(6):
            ws.s[k, l] = one if k == l else zero
    forces_of(tree, b, at, R, p, v, a, fext, ws)


@inline
def pairs_of(tree, i, bodies, dofs, ws, M, dq, dv):
    """The entries of M, ∂τ/∂q and ∂τ/∂q' that i has with its joint and those before it on its path."""
    b = tree.body[i]
    own, iv = row(bodies, b), tree.iv[b]
    s, I, hK = load6(ws.s, row(dofs, i)), load10(ws.Ic, own), load12(ws.hKc, own)
    Y, bt = inertia_times(I, s), coriolis_transposed_times(hK, s)
    j = i
    if not floats(tree.kind[b], tree.parent[b]):
        psi = load6(ws.psi, row(dofs, i))
        F = add6(cross_force(s, load6(ws.f, own)), inertia_times(I, load6(ws.psidd, row(dofs, i))))
        F = add6(F, coriolis_times(hK, psi))
        V = add6(inertia_times(I, load6(ws.eta, row(dofs, i))), coriolis_times(hK, s))
        for j in range(iv, iv + tree.nj[b]):
            to = row(dofs, j)
            sj = load6(ws.s, to)
            M[i, j] = dot6(Y, sj)
            dq[i, j] = dot3(bt, angular(load6(ws.psi, to))) + dot6(Y, load6(ws.psidd, to))
            dv[i, j] = dot3(bt, angular(sj)) + dot6(Y, load6(ws.eta, to))
        j = tree.previous[iv]
        while j >= 0 and not floats(tree.kind[tree.body[j]], tree.parent[tree.body[j]]):
            to = row(dofs, j)
            sj = load6(ws.s, to)
            M[i, j] = M[j, i] = dot6(Y, sj)
            dq[i, j] = dot3(bt, angular(load6(ws.psi, to))) + dot6(Y, load6(ws.psidd, to))
            dq[j, i] = dot6(sj, F)
            dv[i, j] = dot3(bt, angular(sj)) + dot6(Y, load6(ws.eta, to))
            dv[j, i] = dot6(sj, V)
            j = tree.previous[j]
        if j >= 0:
            root = tree.iv[tree.body[j]]
            for k in range(6):
                M[root + k, i], dq[root + k, i], dv[root + k, i] = Y[k], F[k], V[k]
    if j >= 0:
        root = tree.iv[tree.body[j]]
        at, zero = bodies[tree.body[j]], 0.0 * bt[0]
        down, v = load3(ws.w, at), load6(ws.v, at)
        by_v = sub6(join((zero, zero, zero), bt), cross_force(v, Y))
        for k in range(6):
            M[i, root + k], dv[i, root + k] = Y[k], by_v[k]
        by_turn = cross3(down, linear(Y))  # ψ''_j of a translation is zero
        for k in range(3):
            dq[i, root + 3 + k] = by_turn[k]
    M[i, i] += tree.armature[i]

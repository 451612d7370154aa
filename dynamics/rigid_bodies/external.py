# mypy: allow-untyped-defs, allow-untyped-calls
"""Wrenches held constant in world axes at their bodies' origins: the torques τ_ext = Jᵀ f and their derivatives by q.

Unlike a wrench that turns with its body, which is part of the force its body feels (``accelerations``), such a wrench
acts on the joints by a torque that depends on q alone (Singh et al., "Details", §X, with J the Jacobian of the body's
origin in world axes). With, for every body, the wrench (f, n) at its origin p, and summed over subtrees

    F = Σ (f ; n + p × f),    N = Σ p fᵀ,    n = Σ n                          the wrench, its first moment
    W = Σ (f uᵀ + n w_aᵀ),    w = Σ s_i μ_i,  u = w_l + w_a × p               under a multiplier μ

    g(m) = m_l × F_l + (N - tr N) m_a                       the rate of F's couple when a motion m carries the bodies
    D_j τ_i = (s_j × s_i)·F + s_ia·g(s_j)    for j on the way from i to the root, in the same joint too, F and N of i
            =                 s_ia·g(s_j)    for j beyond i, F and N of j
    D_k D_j μᵀτ = (s_ka × s_ja)·y + s_kaᵀ W s_ja - tr W s_ka·s_ja + s_ja·(g(χ_k) + χ_ka × n)
                  + (s_k × χ_j + χ_k × s_j)·F + χ_ja·g(s_k),        χ_j = w_p × s_j,  y = vee of W = Σ (u × f + w_a × n)

for k on the way from j to the root or in its joint; for other pairs the order does not matter. Everything is in world
axes at the reference point of kinematics.py.
"""

from __future__ import annotations

from functools import cache

from ddp.compiling.kernel import kernel
from ddp.machine.fields import Fields, matrix_of, rows, rows_apart, vector
from ddp.machine.memory import as_vector, memory_of, rows_of
from ddp.machine.number import width
from ddp.machine.packing import pack, unpack
from dynamics.geometry.spatial import (
    add3,
    add6,
    angular,
    couple_rate,
    cross3,
    cross_motion,
    dot3,
    dot6,
    join,
    linear,
    rotate_back,
    scale3,
)
from dynamics.rigid_bodies.kinematics import Workspace, clear, place_bodies, sum_over_subtrees, virtual_twists
from dynamics.robots.tree import Tree


class Wrenches(Fields):
    """Wrenches of one sample, sums over subtrees: N (``moment``), n (``couple``), W (``power``); results."""

    q, mu, tau, wrench = vector("nq"), vector("nv"), vector("nv"), rows_apart("nb", 6)
    moment, couple, power, dq = rows("nb", 9), rows("nb", 3), rows("nb", 9), matrix_of("nv", "nv")


@cache
def size(nb: int, nq: int, nv: int) -> int:
    """Numbers of memory of the kernels that are called from Python."""
    return Workspace.size(nb=nb, nv=nv, room=0) + Wrenches.size(nb=nb, nq=nq, nv=nv)


@kernel
def place_wrenches(tree, ws, x):
    """Placements of bodies; F into ws.f, N into x.moment, n into x.couple, summed over subtrees."""
    place_bodies(tree, x.q, True, ws)
    for b in range(tree.nb):
        wrench, p = x.wrench[b], ws.p[b]
        f, n = linear(wrench), angular(wrench)
        ws.f[b] = join(f, add3(n, cross3(p, f)))
        x.couple[b] = n
        x.moment[b] = scale3(p[0], f) + scale3(p[1], f) + scale3(p[2], f)
    sum_over_subtrees(tree, ws.f)
    sum_over_subtrees(tree, x.moment)
    sum_over_subtrees(tree, x.couple)


@kernel
def external_torques(address, memory, order, Q, wrenches, mu, out):
    """Write τ_ext of every sample, or derivatives of it, into out.

    order 0: τ_ext (N, nv).   1: its derivatives by q (N, nv, nv).   2: the Hessian of μᵀ τ_ext (N, nv, nv), of one μ
    (nv,) a sample, iterated: row first derivative, column second.
    """
    Q, wrenches, mu, out = rows_of(Q), rows_of(wrenches), rows_of(mu), rows_of(out)
    tree = Tree(address)
    ws = Workspace(memory_of(memory), tree)
    x = Wrenches(ws.end, tree)
    clear(as_vector(x.dq), tree.nv * tree.nv)
    for t in range(0, len(Q), width(ws.end)):
        pack(Q, t, x.q, tree.nq)
        pack(wrenches, t, as_vector(x.wrench), 6 * tree.nb)
        place_wrenches(tree, ws, x)
        if order == 0:
            for i in range(tree.nv):
                x.tau[i] = dot6(ws.s[i], ws.f[tree.body[i]])
            unpack(x.tau, tree.nv, out, t)
            continue
        if order == 1:
            derivatives_of_sample(tree, ws, x)
        else:
            pack(mu, t, x.mu, tree.nv)
            hessian_of_sample(tree, ws, x)
        unpack(as_vector(x.dq), tree.nv * tree.nv, out, t)


@kernel
def derivatives_of_sample(tree, ws, x):
    """∂τ_ext/∂q of one sample into x.dq, after ``place_wrenches``."""
    for i in range(tree.nv):
        b = tree.body[i]
        F, N, si = ws.f[b], x.moment[b], ws.s[i]
        j = tree.iv[b] + tree.nj[b] - 1
        while j >= 0:
            sj = ws.s[j]
            x.dq[i, j] = dot6(cross_motion(sj, si), F) + dot3(angular(si), couple_rate(linear(F), N, sj))
            if tree.body[j] != b:
                x.dq[j, i] = dot3(angular(sj), couple_rate(linear(F), N, si))
            j = tree.previous[j]


@kernel
def hessian_of_sample(tree, ws, x):
    """The iterated Hessian of one sample into x.dq, after ``place_wrenches``; W into x.power."""
    virtual_twists(tree, x.mu, ws)
    for b in range(tree.nb):
        wrench, w = x.wrench[b], ws.w[b]
        f, n, wa = linear(wrench), angular(wrench), angular(w)
        u = add3(linear(w), cross3(wa, ws.p[b]))
        for i in range(3):
            for k in range(3):
                x.power[b, 3 * i + k] = f[i] * u[k] + n[i] * wa[k]
    sum_over_subtrees(tree, x.power)
    for j in range(tree.nv):
        b = tree.body[j]
        F, N, n, W = ws.f[b], x.moment[b], x.couple[b], x.power[b]
        y = (W[7] - W[5], W[2] - W[6], W[3] - W[1])
        trace = W[0] + W[4] + W[8]
        s, chi = ws.s[j], ws.chi[j]
        sa = angular(s)
        k = tree.iv[b] + tree.nj[b] - 1
        while k >= 0:
            sk, chik = ws.s[k], ws.chi[k]
            ska = angular(sk)
            turned = dot3(cross3(ska, sa), y) + dot3(sa, rotate_back(W, ska)) - trace * dot3(ska, sa)
            carried = dot3(sa, add3(couple_rate(linear(F), N, chik), cross3(angular(chik), n)))
            moved = dot6(add6(cross_motion(sk, chi), cross_motion(chik, s)), F)
            value = turned + carried + moved + dot3(angular(chi), couple_rate(linear(F), N, sk))
            x.dq[j, k] = value
            if tree.body[k] != b:
                x.dq[k, j] = value
            k = tree.previous[k]

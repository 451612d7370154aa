# mypy: allow-untyped-defs, allow-untyped-calls
"""Wrenches held constant in world axes at their bodies' origins: the torques τ_ext = Jᵀ f and their derivatives by q.

Unlike a wrench that turns with its body, which is part of the force its body feels (``accelerations``), such a wrench
acts on the joints by a torque that depends on q alone (Singh et al., "Details", §X, with J the Jacobian of the body's
origin in world axes): ID = ID₀ - τ_ext, and FD = FD₀(q, v, τ + τ_ext(q)) with derivatives by the chain rule, FD₀
being linear in τ. With, for every body, the wrench (f, n) at its origin p, and summed over subtrees

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

import numpy as np

from ddp.compiling.kernel import kernel
from ddp.machine.fields import Fields, matrix_of, rows, rows_apart, vector
from ddp.machine.memory import as_vector, memory_of, rows_of
from ddp.machine.number import width
from ddp.machine.packing import pack, unpack
from ddp.protocols import Array
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
from dynamics.rigid_bodies.samples import Samples
from dynamics.robots.tree import Tree


class Wrenches(Fields):
    """Wrenches of one sample, sums over subtrees: N (``moment``), n (``couple``), W (``power``); results."""

    q, mu, tau, wrench = vector("nq"), vector("nv"), vector("nv"), rows_apart("nb", 6)
    moment, couple, power, dq = rows("nb", 9), rows("nb", 3), rows("nb", 9), matrix_of("nv", "nv")


def _found(s: Samples, order: int, Q: Array, wrenches: Array, mu: Array, out: Array) -> Array:
    tree, nq, nv = s.robot.tree, s.robot.nq, s.robot.nv
    room = Workspace.size(nb=tree.nb, nv=nv, room=0) + Wrenches.size(nb=tree.nb, nq=nq, nv=nv)
    external_torques(tree.address, s.memory(room), order, Q, wrenches, mu, out)
    return out


def torques(s: Samples) -> Array:
    """τ_ext (N, nv)."""
    return _found(s, 0, s.q, s.world, s.first, np.empty((s.N, s.robot.nv)))


def rates(s: Samples) -> Array:
    """∂τ_ext/∂q (N, nv, nv)."""
    return _found(s, 1, s.q, s.world, s.first, s.matrices(1)[0])


def tensors(s: Samples) -> Array:
    """∂²τ_ext/∂q∂q (N, nv, nv, nv), from Hessians of each torque alone."""
    nv = s.robot.nv
    Q, wrenches = (np.repeat(part, nv, axis=0) for part in (s.q, s.world))
    found = _found(s, 2, Q, wrenches, np.tile(np.eye(nv), (s.N, 1)), np.zeros((len(Q), nv, nv)))
    return found.reshape(s.N, nv, nv, nv)


def contracted(s: Samples, mu: Array) -> Array:
    """The Hessian (N, nv, nv) of μᵀ τ_ext, mu (N, nv)."""
    return _found(s, 2, s.q, s.world, np.ascontiguousarray(mu), s.matrices(1)[0])


def through_tensors(s: Samples, dtaudq: Array, Minv: Array) -> Array:
    """Terms of a_qq by way of τ_ext: a_τq τ_q + (a_τq τ_q)ᵀ + a_τ τ_qq; Minv = a_τ (N, nv, nv)."""
    cross = np.einsum("nilk,nlj->nijk", dtaudq, rates(s), optimize=True)
    return cross + np.swapaxes(cross, -1, -2) + np.einsum("nil,nljk->nijk", Minv, tensors(s), optimize=True)


def through_hessian(s: Samples, qtau: Array, Minv: Array) -> Array:
    """Terms of qq by way of τ_ext, contracted with the weights on a; Minv = a_τ (N, nv, nv)."""
    cross = qtau @ rates(s)
    return cross + np.swapaxes(cross, -1, -2) + contracted(s, np.einsum("ni,nil->nl", s.weight[0], Minv))


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
        if order == 2:
            pack(mu, t, x.mu, tree.nv)
            hessian_of_sample(tree, ws, x)
        else:
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
        unpack(as_vector(x.dq), tree.nv * tree.nv, out, t)


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

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

import numpy as np

from ddp.compiling.kernel import kernel
from dynamics.geometry.spatial import (
    add3,
    add6,
    angular,
    cross3,
    cross_motion,
    dot3,
    dot6,
    join,
    linear,
    load3,
    load6,
    load9,
    rotate,
    rotate_back,
    scale3,
    scale6,
    store,
    sub3,
)
from dynamics.rigid_bodies.kinematics import place_bodies, sum_over_subtrees, workspace


@kernel
def sum_wrenches(tree, wrenches, ws, moment, couple):
    """F into ws.f, N into ``moment`` (nb, 9), n into ``couple`` (nb, 3), summed over subtrees; needs placements."""
    for b in range(tree.nb):
        wrench, p = load6(wrenches, b), load3(ws.p, b)
        f, n = linear(wrench), angular(wrench)
        store(ws.f, b, join(f, add3(n, cross3(p, f))))
        store(couple, b, n)
        store(moment, b, scale3(p[0], f) + scale3(p[1], f) + scale3(p[2], f))
    sum_over_subtrees(tree, ws.f)
    sum_over_subtrees(tree, moment)
    sum_over_subtrees(tree, couple)


@kernel
def couple_rate(F, N, m):
    """g(m) = m_l × F_l + (N - tr N) m_a."""
    trace = N[0] + N[4] + N[8]
    turned = sub3(rotate(N, angular(m)), scale3(trace, angular(m)))
    return add3(cross3(linear(m), linear(F)), turned)


@kernel
def external_torques(tree, Q, wrenches, tau):
    """τ_ext (N, nv) of every sample."""
    ws = workspace(tree, Q)
    moment, couple = np.empty((tree.nb, 9)), np.empty((tree.nb, 3))
    for t in range(Q.shape[0]):
        place_bodies(tree, Q[t], True, ws)
        sum_wrenches(tree, wrenches[t], ws, moment, couple)
        for i in range(tree.nv):
            tau[t, i] = dot6(load6(ws.s, i), load6(ws.f, tree.body[i]))


@kernel
def external_derivatives(tree, Q, wrenches, dq):
    """∂τ_ext/∂q (N, nv, nv) of every sample."""
    ws = workspace(tree, Q)
    moment, couple = np.empty((tree.nb, 9)), np.empty((tree.nb, 3))
    dq[:] = 0.0
    for t in range(Q.shape[0]):
        place_bodies(tree, Q[t], True, ws)
        sum_wrenches(tree, wrenches[t], ws, moment, couple)
        for i in range(tree.nv):
            b = tree.body[i]
            F, N, si = load6(ws.f, b), load9(moment, b), load6(ws.s, i)
            j = tree.iv[b] + tree.nj[b] - 1
            while j >= 0:
                sj = load6(ws.s, j)
                dq[t, i, j] = dot6(cross_motion(sj, si), F) + dot3(angular(si), couple_rate(F, N, sj))
                if tree.body[j] != b:
                    dq[t, j, i] = dot3(angular(sj), couple_rate(F, N, si))
                j = tree.previous[j]


@kernel
def virtual_motion(tree, mu, wrenches, ws, power):
    """w into ws.w, χ into ws.chi, W summed over subtrees into ``power`` (nb, 9)."""
    for b in range(tree.nb):
        parent = tree.parent[b]
        for k in range(6):
            ws.w[b, k] = ws.w[parent, k] if parent >= 0 else 0.0
        wp = load6(ws.w, b)
        w = wp
        for i in range(tree.iv[b], tree.iv[b] + tree.nj[b]):
            s = load6(ws.s, i)
            w = add6(w, scale6(mu[i], s))
            store(ws.chi, i, cross_motion(wp, s))
        store(ws.w, b, w)
        wrench, wa = load6(wrenches, b), angular(w)
        f, n = linear(wrench), angular(wrench)
        u = add3(linear(w), cross3(wa, load3(ws.p, b)))
        for i in range(3):
            for k in range(3):
                power[b, 3 * i + k] = f[i] * u[k] + n[i] * wa[k]
    sum_over_subtrees(tree, power)


@kernel
def external_hessian(tree, Q, wrenches, mu, qq):
    """Hessian of μᵀ τ_ext by q, iterated (row first derivative, column second): (N, nv, nv), one μ a sample."""
    nb = tree.nb
    ws = workspace(tree, Q)
    moment, couple, power = np.empty((nb, 9)), np.empty((nb, 3)), np.empty((nb, 9))
    for t in range(Q.shape[0]):
        place_bodies(tree, Q[t], True, ws)
        sum_wrenches(tree, wrenches[t], ws, moment, couple)
        hessian_of_sample(tree, wrenches[t], mu[t], ws, moment, couple, power, qq[t])


@kernel
def external_tensors(tree, Q, wrenches, dqdq):
    """∂²τ_ext/∂q∂q, iterated: (N, nv, nv, nv), one multiplier after the other."""
    nb, nv = tree.nb, tree.nv
    ws, mu = workspace(tree, Q), np.zeros(nv)
    moment, couple, power = np.empty((nb, 9)), np.empty((nb, 3)), np.empty((nb, 9))
    for t in range(Q.shape[0]):
        place_bodies(tree, Q[t], True, ws)
        sum_wrenches(tree, wrenches[t], ws, moment, couple)
        for i in range(nv):
            mu[:] = 0.0
            mu[i] = 1.0
            hessian_of_sample(tree, wrenches[t], mu, ws, moment, couple, power, dqdq[t, i])


@kernel
def hessian_of_sample(tree, wrenches, mu, ws, moment, couple, power, qq):
    """The iterated Hessian of one sample, placements and wrenches summed."""
    virtual_motion(tree, mu, wrenches, ws, power)
    qq[:] = 0.0
    for j in range(tree.nv):
        b = tree.body[j]
        F, N, n, W = load6(ws.f, b), load9(moment, b), load3(couple, b), load9(power, b)
        y = (W[7] - W[5], W[2] - W[6], W[3] - W[1])
        trace = W[0] + W[4] + W[8]
        s, chi = load6(ws.s, j), load6(ws.chi, j)
        sa = angular(s)
        k = tree.iv[b] + tree.nj[b] - 1
        while k >= 0:
            sk, chik = load6(ws.s, k), load6(ws.chi, k)
            ska = angular(sk)
            turned = dot3(cross3(ska, sa), y) + dot3(sa, rotate_back(W, ska)) - trace * dot3(ska, sa)
            carried = dot3(sa, add3(couple_rate(F, N, chik), cross3(angular(chik), n)))
            moved = dot6(add6(cross_motion(sk, chi), cross_motion(chik, s)), F)
            value = turned + carried + moved + dot3(angular(chi), couple_rate(F, N, sk))
            qq[j, k] = value
            if tree.body[k] != b:
                qq[k, j] = value
            k = tree.previous[k]

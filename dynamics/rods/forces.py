# mypy: allow-untyped-defs, allow-untyped-calls
"""Forces within rods: elasticity and viscosity, which are linear, and tendons, which pull with tensions u.

    K q + D v      with constant K, D (robots/rods.py)
    B(q) u         B_jt = ∂(length of tendon t)/∂q_j = Σ w Φ_jᵀ (t ; d × t),   t = T/|T|,   T = ξ_l + ξ_a × d + d'

over Gauss points of weight w, where a tendon passes a section at d = (0, y, z). Both stand on the side of inverse
dynamics, so that a tension does the work -u δ(length). With c_j = Φ_jl + Φ_ja × d the rate of T, c of Σ Φ_j ω_j,

    ∂(B u)_i/∂q_j = Σ w u/|T| (c_i·c_j - (t·c_i)(t·c_j))
    ∂²(ω·B u)/∂q_i∂q_j = Σ w u/|T|² (3 (t·c)(t·c_i)(t·c_j) - (c·c_i)(t·c_j) - (t·c_i)(c·c_j) - (t·c)(c_i·c_j))
"""

from __future__ import annotations

from ddp.compiling.kernel import inline, kernel
from ddp.machine.number import square_root
from dynamics.geometry.spatial import add3, angular, cross3, dot3, linear, scale3
from dynamics.rods.memory import of_rods


@of_rods
def add_internal_forces(tree, b, scale, q, v, tau):
    """tau += scale (K q + D v) of the rod that carries b."""
    n, iq, iv, at = tree.nj[b], tree.iq[b], tree.iv[b], tree.square[tree.rod[b]]
    for i in range(n):
        total = 0.0 * q[iq]
        for j in range(n):
            total = total + tree.elastic[at + i * n + j] * q[iq + j] + tree.viscous[at + i * n + j] * v[iv + j]
        tau[iv + i] += scale * total


@of_rods
def add_internal_stiffness(tree, b, dq, dv):
    """dq += K, dv += D of the rod that carries b."""
    n, iv, at = tree.nj[b], tree.iv[b], tree.square[tree.rod[b]]
    for i in range(n):
        for j in range(n):
            dq[iv + i, iv + j] += tree.elastic[at + i * n + j]
            dv[iv + i, iv + j] += tree.viscous[at + i * n + j]


@inline
def passed(tree, at, k):
    """d of the tendon whose rows of ``route`` begin at ``at``, at the k-th point of its rod."""
    return 0.0, tree.route[at + k, 0], tree.route[at + k, 1]


@kernel
def pulled(tree, b, at, k, q):
    """t and 1/|T| of the tendon whose rows of ``route`` begin at ``at``, at the k-th point of the rod below b."""
    r, n, iq = tree.rod[b], tree.nj[b], tree.iq[b]
    point, column, d = tree.first[r] + k, tree.column[r] + k * n, passed(tree, at, k)
    xi = tree.reference_there[point]
    zero = 0.0 * q[iq]
    T = add3(add3(linear(xi), cross3(angular(xi), d)), (zero, tree.route[at + k, 2], tree.route[at + k, 3]))
    for j in range(n):
        T = add3(T, scale3(q[iq + j], stretched(tree, column + j, d)))
    inverse = 1.0 / square_root(dot3(T, T))
    return scale3(inverse, T), inverse


@inline
def stretched(tree, column, d):
    """c_j of a degree of freedom, from its row of ``basis_there``."""
    phi = tree.basis_there[column]
    return add3(linear(phi), cross3(angular(phi), d))


@of_rods
def add_tendon_forces(tree, b, scale, q, u, tau):
    """tau += scale B(q) u of the rod that carries b; u begins with the tensions of all tendons."""
    r, n, iv = tree.rod[b], tree.nj[b], tree.iv[b]
    for c in range(tree.cable[r], tree.cable[r + 1]):
        at = tree.route_of[c]
        for k in range(1, tree.count[r] - 1):
            t, _ = pulled(tree, b, at, k, q)
            d, w, column = passed(tree, at, k), tree.weight[tree.first[r] + k], tree.column[r] + k * n
            pull = (scale * w) * u[c]
            for j in range(n):
                tau[iv + j] += pull * dot3(t, stretched(tree, column + j, d))


@of_rods
def add_tendon_columns(tree, b, scale, q, column, Bu):
    """Bu (nv, .) += scale B(q), in the columns from ``column`` on."""
    r, n, iv = tree.rod[b], tree.nj[b], tree.iv[b]
    for c in range(tree.cable[r], tree.cable[r + 1]):
        at = tree.route_of[c]
        for k in range(1, tree.count[r] - 1):
            t, _ = pulled(tree, b, at, k, q)
            d, w, first = passed(tree, at, k), tree.weight[tree.first[r] + k], tree.column[r] + k * n
            for j in range(n):
                Bu[iv + j, column + c] += (scale * w) * dot3(t, stretched(tree, first + j, d))


@of_rods
def add_tendon_stiffness(tree, b, q, u, dq):
    """dq += ∂(B u)/∂q of the rod that carries b."""
    r, n, iv = tree.rod[b], tree.nj[b], tree.iv[b]
    for c in range(tree.cable[r], tree.cable[r + 1]):
        at = tree.route_of[c]
        for k in range(1, tree.count[r] - 1):
            t, inverse = pulled(tree, b, at, k, q)
            d, w, column = passed(tree, at, k), tree.weight[tree.first[r] + k], tree.column[r] + k * n
            pull = w * u[c] * inverse
            for i in range(n):
                ci = stretched(tree, column + i, d)
                across = add3(ci, scale3(-dot3(t, ci), t))
                for j in range(n):
                    dq[iv + i, iv + j] += pull * dot3(across, stretched(tree, column + j, d))


@of_rods
def add_tendon_curvature(tree, b, q, u, omega, qq, qu):
    """qq += ∂²(ω·B u)/∂q², qu (nv, cables) += ∂²(ω·B u)/∂q∂u of the rod that carries b."""
    r, n, iv = tree.rod[b], tree.nj[b], tree.iv[b]
    for l in range(tree.cable[r], tree.cable[r + 1]):
        at = tree.route_of[l]
        for k in range(1, tree.count[r] - 1):
            t, inverse = pulled(tree, b, at, k, q)
            d, w, column = passed(tree, at, k), tree.weight[tree.first[r] + k], tree.column[r] + k * n
            c = scale3(omega[iv], stretched(tree, column, d))
            for j in range(1, n):
                c = add3(c, scale3(omega[iv + j], stretched(tree, column + j, d)))
            along, pull = dot3(t, c), w * u[l] * inverse * inverse
            across = add3(c, scale3(-along, t))
            for i in range(n):
                ci = stretched(tree, column + i, d)
                ti, bent = dot3(t, ci), dot3(across, ci)
                qu[iv + i, l] += (w * inverse) * bent
                turned = add3(scale3(-bent, t), add3(scale3(-ti, across), scale3(-along, add3(ci, scale3(-ti, t)))))
                for j in range(n):
                    qq[iv + i, iv + j] += pull * dot3(turned, stretched(tree, column + j, d))

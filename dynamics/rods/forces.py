# mypy: allow-untyped-defs, allow-untyped-calls
"""Forces within rods: elasticity and viscosity, which are linear, and tendons, which pull with tensions u.

    K q + D v      with constant K, D (robots/rods.py)
    B(q) u         B_jt = ∂(length of tendon t)/∂q_j = Σ w Φ_jᵀ (t ; d × t),   t = T/|T|,   T = ξ_l + ξ_a × d + d'

over Gauss points of weight w, where a tendon passes a section at d = (0, y, z). Both stand on the side of inverse
dynamics, so that a tension does the work -u δ(length). With c_j = Φ_jl + Φ_ja × d the rate of T, c of Σ Φ_j ω_j,

    ∂(B u)_i/∂q_j = Σ w u/|T| (c_i·c_j - (t·c_i)(t·c_j))
    ∂²(ω·B u)/∂q_i∂q_j = Σ w u/|T|² (3 (t·c)(t·c_i)(t·c_j) - (c·c_i)(t·c_j) - (t·c_i)(c·c_j) - (t·c)(c_i·c_j))

A column Φ_j has one strain: at each point all of this is found by strains, summed over tendons, and then spread on
degrees of freedom by their levels. K and D have entries between coordinates of one strain alone.
"""

from ddp.compiling.kernel import inline, kernel
from ddp.machine.number import square_root
from dynamics.geometry.spatial import add3, add6, angular, cross3, dot3, join, linear, scale3, scale6
from dynamics.rods.memory import RodMemory, of_rods


@of_rods
def add_internal_forces(tree, b, scale, q, v, tau):
    """tau += scale (K q + D v) of the rod that carries b."""
    n, iq, iv, at, begin = tree.nj[b], tree.iq[b], tree.iv[b], tree.square[tree.rod[b]], 0
    for i in range(n):
        end = tree.until[iv + i]
        total = 0.0 * q[iq]
        for j in range(begin, end):
            total = total + tree.elastic[at + i * n + j] * q[iq + j] + tree.viscous[at + i * n + j] * v[iv + j]
        tau[iv + i] += scale * total
        if i + 1 == end:
            begin = end


@of_rods
def add_internal_stiffness(tree, b, dq, dv):
    """dq += K, dv += D of the rod that carries b."""
    n, iv, at, begin = tree.nj[b], tree.iv[b], tree.square[tree.rod[b]], 0
    for i in range(n):
        end = tree.until[iv + i]
        for j in range(begin, end):
            dq[iv + i, iv + j] += tree.elastic[at + i * n + j]
            dv[iv + i, iv + j] += tree.viscous[at + i * n + j]
        if i + 1 == end:
            begin = end


@inline
def passed(tree, at, k):
    """d of the tendon whose rows of ``route`` begin at ``at``, at the k-th point of its rod."""
    return 0.0, tree.route[at + k, 0], tree.route[at + k, 1]


@inline
def on_strains(d, x):
    """(x ; d × x): what a vector on T does on strains."""
    return join(x, cross3(d, x))


@kernel
def strain(tree, b, k, x, first, m):
    """Row 0 of m.pressed := Σ Φ_j x_j at the k-th point of the rod below b; coordinates begin at x[first]."""
    zero = 0.0 * x[first]
    column = tree.column[tree.rod[b]] + k * tree.nj[b]
    m.pressed[0] = zero, zero, zero, zero, zero, zero
    for j in range(tree.nj[b]):
        m.pressed[0, tree.strain[tree.iv[b] + j]] += tree.level_there[column + j] * x[first + j]


@kernel
def pulled(tree, b, at, k, xi):
    """t and 1/|T| of the tendon whose rows of ``route`` begin at ``at``, at the k-th point of the rod below b.

    xi: the strain there, less that of rest.
    """
    d = passed(tree, at, k)
    whole = add6(xi, tree.reference_there[tree.first[tree.rod[b]] + k])
    slope = (0.0, tree.route[at + k, 2], tree.route[at + k, 3])
    T = add3(add3(linear(whole), cross3(angular(whole), d)), slope)
    inverse = 1.0 / square_root(dot3(T, T))
    return scale3(inverse, T), inverse


@inline
def stretched(e, d):
    """Rate of T by a strain e."""
    return add3(linear(e), cross3(angular(e), d))


@kernel
def spread_strains(tree, b, k, m, out):
    """Add the matrix m.L by strains at the k-th point of the rod below b to the rod's block of out."""
    n, iv = tree.nj[b], tree.iv[b]
    column = tree.column[tree.rod[b]] + k * n
    for i in range(n):
        own, factor = tree.strain[iv + i], tree.level_there[column + i]
        for s in range(6):
            m.y[s] = factor * m.L[own, s]
        for j in range(n):
            out[iv + i, iv + j] += tree.level_there[column + j] * m.y[tree.strain[iv + j]]


@kernel
def clear_strains(tree, r, m):
    """m.L := 0 between the strains of rod r."""
    for l in range(tree.modes[r]):
        for o in range(tree.modes[r]):
            m.L[tree.strains[r, l], tree.strains[r, o]] = 0.0


@of_rods
def add_tendon_forces(tree, b, ws, scale, q, u, tau):
    """tau += scale B(q) u of the rod that carries b; u begins with the tensions of all tendons."""
    m, r, n, iv = RodMemory(ws.rods, tree), tree.rod[b], tree.nj[b], tree.iv[b]
    if tree.cable[r] == tree.cable[r + 1]:
        return
    for k in range(1, tree.count[r] - 1):
        strain(tree, b, k, q, tree.iq[b], m)
        w, column, xi, total = tree.weight[tree.first[r] + k], tree.column[r] + k * n, m.pressed[0], scale6(
            0.0, m.pressed[0])  # fmt: skip
        for c in range(tree.cable[r], tree.cable[r + 1]):
            at = tree.route_of[c]
            t, _ = pulled(tree, b, at, k, xi)
            total = add6(total, scale6((scale * w) * u[c], on_strains(passed(tree, at, k), t)))
        m.pressed[1] = total
        for j in range(n):
            tau[iv + j] += tree.level_there[column + j] * m.pressed[1, tree.strain[iv + j]]


@of_rods
def add_tendon_columns(tree, b, ws, scale, q, column, Bu):
    """Bu (nv, .) += scale B(q), in the columns from ``column`` on."""
    m, r, n, iv = RodMemory(ws.rods, tree), tree.rod[b], tree.nj[b], tree.iv[b]
    if tree.cable[r] == tree.cable[r + 1]:
        return
    for k in range(1, tree.count[r] - 1):
        strain(tree, b, k, q, tree.iq[b], m)
        w, first, xi = tree.weight[tree.first[r] + k], tree.column[r] + k * n, m.pressed[0]
        for c in range(tree.cable[r], tree.cable[r + 1]):
            at = tree.route_of[c]
            t, _ = pulled(tree, b, at, k, xi)
            m.pressed[1] = scale6(scale * w, on_strains(passed(tree, at, k), t))
            for j in range(n):
                Bu[iv + j, column + c] += tree.level_there[first + j] * m.pressed[1, tree.strain[iv + j]]


@of_rods
def add_tendon_stiffness(tree, b, ws, q, u, dq):
    """dq += ∂(B u)/∂q of the rod that carries b."""
    m, r = RodMemory(ws.rods, tree), tree.rod[b]
    if tree.cable[r] == tree.cable[r + 1]:
        return
    for k in range(1, tree.count[r] - 1):
        strain(tree, b, k, q, tree.iq[b], m)
        w, xi = tree.weight[tree.first[r] + k], m.pressed[0]
        clear_strains(tree, r, m)
        for c in range(tree.cable[r], tree.cable[r + 1]):
            at = tree.route_of[c]
            t, inverse = pulled(tree, b, at, k, xi)
            d, pull = passed(tree, at, k), w * u[c] * inverse
            for l in range(tree.modes[r]):
                x = stretched(tree.axes[tree.strains[r, l]], d)
                m.pressed[1] = scale6(pull, on_strains(d, add3(x, scale3(-dot3(t, x), t))))
                for o in range(tree.modes[r]):
                    m.L[tree.strains[r, l], tree.strains[r, o]] += m.pressed[1, tree.strains[r, o]]
        spread_strains(tree, b, k, m, dq)


@of_rods
def add_tendon_curvature(tree, b, ws, q, u, omega, qq, qu):
    """qq += ∂²(ω·B u)/∂q², qu (nv, cables) += ∂²(ω·B u)/∂q∂u of the rod that carries b."""
    m, r, n, iv = RodMemory(ws.rods, tree), tree.rod[b], tree.nj[b], tree.iv[b]
    if tree.cable[r] == tree.cable[r + 1]:
        return
    for k in range(1, tree.count[r] - 1):
        strain(tree, b, k, omega, iv, m)
        bent = m.pressed[0]
        strain(tree, b, k, q, tree.iq[b], m)
        w, column, xi = tree.weight[tree.first[r] + k], tree.column[r] + k * n, m.pressed[0]
        clear_strains(tree, r, m)
        for c in range(tree.cable[r], tree.cable[r + 1]):
            at = tree.route_of[c]
            t, inverse = pulled(tree, b, at, k, xi)
            d, pull = passed(tree, at, k), w * u[c] * inverse * inverse
            rate = stretched(bent, d)
            along = dot3(t, rate)
            across = add3(rate, scale3(-along, t))
            m.pressed[1] = scale6(w * inverse, on_strains(d, across))
            for j in range(n):
                qu[iv + j, c] += tree.level_there[column + j] * m.pressed[1, tree.strain[iv + j]]
            for l in range(tree.modes[r]):
                x = stretched(tree.axes[tree.strains[r, l]], d)
                tx, turn = dot3(t, x), dot3(across, x)
                moved = add3(scale3(-tx, across), scale3(-along, add3(x, scale3(-tx, t))))
                m.pressed[1] = scale6(pull, on_strains(d, add3(scale3(-turn, t), moved)))
                for o in range(tree.modes[r]):
                    m.L[tree.strains[r, l], tree.strains[r, o]] += m.pressed[1, tree.strains[r, o]]
        spread_strains(tree, b, k, m, qq)

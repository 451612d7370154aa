# mypy: allow-untyped-defs, allow-untyped-calls
"""Rods in inverse dynamics, its first derivatives and the mass matrix.

A point k of a rod is a body of its own inertia I and (h, K), with the rows of motion.py; at the tip these are the
composites of all that the rod carries. f is the sum of forces on a point and all beyond, δs what the segment before it
adds to s, F that sum in the axes of the segment's base, and K(F), TᵀF are those of local_maps.py:

    τ_j = Σ δs_j·f      M_ij = Σ s_j·I s_i      ∂τ_j/∂v_i = Σ s_j·(I η_i + B s_i)
    ∂τ_j/∂q_i = Σ s_j·(I ψ''_i + B ψ'_i + δs_i ×* f) + Z_j·K(F)ᵀ Z_i + (TᵀF)·Ω_ij      over points and their segments

with Ω_ij = c (Φ1_j × Φ2_i + Φ1_i × Φ2_j). To what carries it a degree of freedom i is the sums over points of

    Y_i = Σ I s     bt_i = Σ [Bᵀ s]_a     F_i = Σ δs ×* f + I ψ'' + B ψ'     V_i = Σ I η + B s

and the formulas between joints are those of rigid_bodies/inverse.py.
"""

from __future__ import annotations

from ddp.compiling.kernel import kernel
from dynamics.geometry.spatial import (
    add3,
    add6,
    coriolis_times,
    coriolis_transposed_times,
    cross_force,
    dot6,
    inertia_times,
    scale6,
    seen_force,
)
from dynamics.rods.local_maps import (
    coefficients,
    moving,
    on_wrench,
    pressing,
    slope_transposed_on,
    tangent,
    transposed_slope,
)
from dynamics.rods.memory import RodMemory, of_rods
from dynamics.rods.motion import bend, still


@of_rods
def carry_rod(tree, b, ws):
    """Sum Ic, hKc and f of b over the rod's points, into those of its parent."""
    m, r, parent = RodMemory(ws.rods, tree), tree.rod[b], tree.parent[b]
    last = tree.first[r] + tree.count[r] - 1
    m.I[last], m.hK[last] = ws.Ic[b], ws.hKc[b]
    sum_forces_of_rod(tree, b, ws)
    if parent >= 0:
        for k in range(tree.first[r] + 1, last + 1):
            for l in range(10):
                ws.Ic[parent, l] += m.I[k, l]
            for l in range(12):
                ws.hKc[parent, l] += m.hK[k, l]


@of_rods
def sum_forces_of_rod(tree, b, ws):
    """Sum f of b and of the rod's points, each with those beyond it, into that of its parent."""
    m, r, parent = RodMemory(ws.rods, tree), tree.rod[b], tree.parent[b]
    last = tree.first[r] + tree.count[r] - 1
    m.f[last] = ws.f[b]
    for k in range(last - 1, tree.first[r], -1):
        m.f[k] = add6(m.f[k], m.f[k + 1])
    if parent >= 0:
        ws.f[parent] = add6(ws.f[parent], m.f[tree.first[r] + 1])


@of_rods
def forces_of_rod(tree, b, ws, tau):
    """τ of the rod's degrees of freedom, after ``sum_forces_of_rod``."""
    m, r, n, iv = RodMemory(ws.rods, tree), tree.rod[b], tree.nj[b], tree.iv[b]
    for i in range(n):
        total, at = 0.0 * m.f[tree.first[r] + 1, 0], tree.column[r] + i
        for k in range(tree.first[r] + 1, tree.first[r] + tree.count[r]):
            at += n
            total = total + dot6(m.ds[at], m.f[k])
        tau[iv + i] = total


@kernel
def clear_block(first, n, matrix):
    """Entries of n neighbours among themselves := 0."""
    for i in range(first, first + n):
        for j in range(first, first + n):
            matrix[i, j] = 0.0


@of_rods
def mass_of_rod(tree, b, ws, M):
    """Y and the entries of M within the rod, after ``carry_rod``."""
    m, r, n, iv, at = RodMemory(ws.rods, tree), tree.rod[b], tree.nj[b], tree.iv[b], tree.column[tree.rod[b]]
    clear_block(iv, n, M)
    for i in range(iv, iv + n):
        ws.Y[i] = still(ws.s[i])
    for k in range(tree.first[r] + 1, tree.first[r] + tree.count[r]):
        at += n
        I = m.I[k]
        for i in range(n):
            Y = inertia_times(I, m.s[at + i])
            ws.Y[iv + i] = add6(ws.Y[iv + i], Y)
            for j in range(i + 1):
                M[iv + i, iv + j] += dot6(Y, m.s[at + j])
    for i in range(iv, iv + n):
        for j in range(iv, i):
            M[j, i] = M[i, j]


@of_rods
def derivatives_of_rod(tree, b, ws, dq, dv):
    """Y, bt, F, V and the entries of ∂τ/∂q and ∂τ/∂v within the rod, after ``carry_rod``."""
    m, r, n, iv, at = RodMemory(ws.rods, tree), tree.rod[b], tree.nj[b], tree.iv[b], tree.column[tree.rod[b]]
    clear_block(iv, n, dq)
    clear_block(iv, n, dv)
    for i in range(iv, iv + n):
        nothing = still(ws.s[i])
        ws.Y[i] = m.F[i] = m.V[i] = nothing
        m.bt[i] = (nothing[0], nothing[1], nothing[2])
    for k in range(tree.first[r] + 1, tree.first[r] + tree.count[r]):
        at += n
        add_point(tree, b, k, at, ws, m, dq, dv)


@kernel
def add_point(tree, b, k, at, ws, m, dq, dv):
    """Terms of ``derivatives_of_rod`` of point k and the segment that it ends, whose columns begin at ``at``."""
    n, iv, I, hK, f = tree.nj[b], tree.iv[b], m.I[k], m.hK[k], m.f[k]
    for i in range(n):
        s = m.s[at + i]
        load = add6(inertia_times(I, m.psidd[at + i]), coriolis_times(hK, m.psi[at + i]))
        by_v = add6(inertia_times(I, m.eta[at + i]), coriolis_times(hK, s))
        m.load[at + i] = load
        ws.Y[iv + i] = add6(ws.Y[iv + i], inertia_times(I, s))
        m.bt[iv + i] = add3(m.bt[iv + i], coriolis_transposed_times(hK, s))
        m.F[iv + i] = add6(m.F[iv + i], add6(load, cross_force(m.ds[at + i], f)))
        m.V[iv + i] = add6(m.V[iv + i], by_v)
        for j in range(n):
            dv[iv + j, iv + i] += dot6(m.s[at + j], by_v)
    add_turned_forces(tree, b, k, at, f, 1.0, False, iv, m, dq)


@kernel
def add_turned_forces(tree, b, k, at, f, scale, both, first, m, out):
    """Add s_j·load_i and the rates of s_j·f, f turning with the segment's end, to rows j, columns i from ``first`` on.

    both: whether their transposes are added, too.
    """
    n, c, twist, pressed = tree.nj[b], bend(tree.length[k]), m.twist[k], seen_force(m.R[k - 1], m.p[k - 1], f)
    omega = moving(twist, still(twist))
    factors = coefficients(omega)
    T, K = tangent(omega, factors), transposed_slope(omega, pressing(pressed, still(pressed)), factors)
    pull = scale6(c, on_wrench(T[0], T[1], pressed))
    for i in range(n):
        turned = add6(m.load[at + i], cross_force(m.ds[at + i], f))
        local = slope_transposed_on(K[0], K[1], m.Z[at + i])
        after = cross_force(tree.basis[2 * (at + i) + 1], pull)
        before = cross_force(tree.basis[2 * (at + i)], pull)
        for j in range(n):
            strained = dot6(tree.basis[2 * (at + j)], after) - dot6(tree.basis[2 * (at + j) + 1], before)
            rate = scale * (dot6(m.s[at + j], turned) + dot6(m.Z[at + j], local) + strained)
            out[first + j, first + i] += rate
            if both:
                out[first + i, first + j] += rate


@of_rods
def bend_rod(tree, b, ws, f, scale, first, hessian):
    """Add the Hessian of f·(displacement of the tip) by the rod's coordinates, after ``place_rod``.

    f: a wrench that turns with the tip, in world axes.   first: the column of the rod's first coordinate.
    """
    m, r, n, at = RodMemory(ws.rods, tree), tree.rod[b], tree.nj[b], tree.column[tree.rod[b]]
    for k in range(tree.first[r] + 1, tree.first[r] + tree.count[r]):
        at += n
        for j in range(at, at + n):
            m.load[j] = still(m.s[j])
        add_turned_forces(tree, b, k, at, f, 0.5 * scale, True, first, m, hessian)

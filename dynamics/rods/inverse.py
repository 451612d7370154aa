# mypy: allow-untyped-defs, allow-untyped-calls
"""Rods in inverse dynamics, its first derivatives and the mass matrix.

A point k of a rod is a body of its own inertia I and (h, K), with the rows of motion.py; at the tip these are the
composites of all that the rod carries. f is the sum of forces on a point and all beyond, δs what the segment before it
adds to s, F that sum in the axes of the segment's base, and K(F), TᵀF are those of local_maps.py:

    τ_j = Σ δs_j·f      M_ij = Σ s_j·I s_i      ∂τ_j/∂v_i = Σ s_j·(I η_i + B s_i)
    ∂τ_j/∂q_i = Σ s_j·(I ψ''_i + B ψ'_i + δs_i ×* f) + Z_j·K(F)ᵀ Z_i + (TᵀF)·Ω_ij      over points and their segments

with Ω_ij = c (Φ1_j × Φ2_i + Φ1_i × Φ2_j). Since s_j is the sum of its δs, Σ s_j·x = Σ δs_j·(sum of x at the point and
all beyond): sums of x go from tip to base, and what they do on the segment's units, see motion.py, is spread on
degrees of freedom by their levels. To what carries it a degree of freedom i is the sums over all points

    Y_i = Σ I s     bt_i = Σ [Bᵀ s]_a     F_i = Σ δs ×* f + I ψ'' + B ψ'     V_i = Σ I η + B s

and the formulas between joints are those of rigid_bodies/inverse.py.
"""

from ddp.compiling.kernel import inline, kernel
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
    sub6,
)
from dynamics.rods.loads import loads_of, on, rates_of_load
from dynamics.rods.local_maps import coefficients, moving, on_wrench, pressing, slope_transposed_on, transposed_slope
from dynamics.rods.memory import RodMemory, of_rods
from dynamics.rods.motion import bend, halves, span_rod, still, vary_rod


@of_rods
def carry_rod(tree, b, ws):
    """Rows of the rod; sum Ic, hKc and f of b over its points, into those of its parent."""
    m, r, parent = RodMemory(ws.rods, tree), tree.rod[b], tree.parent[b]
    last = tree.first[r] + tree.count[r] - 1
    span_rod(tree, b, ws)
    vary_rod(tree, b, ws)
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
    at = tree.column[r]
    for j in range(iv, iv + n):
        tau[j] = 0.0 * m.f[tree.first[r] + 1, 0]
    for k in range(tree.first[r] + 1, tree.first[r] + tree.count[r]):
        at += n
        h, T = tree.length[k], halves(m.T[k])
        pressed = on_wrench(T[0], T[1], seen_force(m.R[k - 1], m.p[k - 1], m.f[k]))
        c, half = bend(h), scale6(0.5 * h, pressed)
        m.pressed[0] = add6(half, scale6(c, cross_force(m.xi2[k], pressed)))
        m.pressed[1] = add6(half, scale6(-c, cross_force(m.xi1[k], pressed)))
        for j in range(n):
            at_first, at_second, strain = tree.level[2 * (at + j)], tree.level[2 * (at + j) + 1], tree.strain[iv + j]
            tau[iv + j] += at_first * m.pressed[0, strain] + at_second * m.pressed[1, strain]


@kernel
def clear_block(first, n, matrix):
    """Entries of n neighbours among themselves := 0."""
    for i in range(first, first + n):
        for j in range(first, first + n):
            matrix[i, j] = 0.0


@inline
def spread_column(tree, at, iv, n, y, first, i, out):
    """Add forces y on units to rows ``first`` + j of column i, of n degrees of freedom j."""
    j = 0
    while j < n:
        u, end = 2 * tree.mode[iv + j], tree.until[iv + j]
        here, there = y[u], y[u + 1]
        while j < end:
            out[first + j, i] += tree.level[2 * (at + j)] * here + tree.level[2 * (at + j) + 1] * there
            j += 1


@inline
def spread_row(tree, at, iv, n, y, first, i, out):
    """Add forces y on units to columns ``first`` + j of row i, of n degrees of freedom j."""
    j = 0
    while j < n:
        u, end = 2 * tree.mode[iv + j], min(n, tree.until[iv + j])
        here, there = y[u], y[u + 1]
        while j < end:
            out[i, first + j] += tree.level[2 * (at + j)] * here + tree.level[2 * (at + j) + 1] * there
            j += 1


@of_rods
def mass_of_rod(tree, b, ws, M):
    """Y and the entries of M within the rod, after ``carry_rod``."""
    m, r, n, iv = RodMemory(ws.rods, tree), tree.rod[b], tree.nj[b], tree.iv[b]
    base, units = tree.first[r], 2 * tree.modes[r]
    last = tree.count[r] - 1
    clear_block(iv, n, M)
    for i in range(iv, iv + n):
        ws.Y[i] = still(ws.s[i])
    for k in range(last, 0, -1):
        at, unit, I = tree.column[r] + k * n, tree.unit[r] + k * units, m.I[base + k]
        for i in range(n):
            Y = add6(ws.Y[iv + i], inertia_times(I, m.s[at + i]))
            if tree.wet > 0:
                Y = add6(Y, on(loads_of(tree, ws).A[base + k], m.s[at + i]))
            ws.Y[iv + i] = Y
            for u in range(units):
                m.y[u] = dot6(m.unit_ds[unit + u], Y)
            spread_row(tree, at, iv, i + 1, m.y, iv, iv + i, M)
    for i in range(iv, iv + n):
        for j in range(iv, i):
            M[j, i] = M[i, j]


@of_rods
def derivatives_of_rod(tree, b, ws, dq, dv):
    """bt, F, V and the entries of ∂τ/∂q and ∂τ/∂v within the rod, after ``carry_rod``."""
    m, r, n, iv = RodMemory(ws.rods, tree), tree.rod[b], tree.nj[b], tree.iv[b]
    last, units = tree.count[r] - 1, 2 * tree.modes[r]
    clear_block(iv, n, dq)
    clear_block(iv, n, dv)
    for i in range(iv, iv + n):
        nothing = still(ws.s[i])
        m.F[i] = m.V[i] = nothing
        m.bt[i] = (nothing[0], nothing[1], nothing[2])
        if tree.laden > 0:
            L = loads_of(tree, ws)
            L.Bs[i] = L.Ns[i] = nothing
    for k in range(last, 0, -1):
        point = tree.first[r] + k
        turn_units(tree, b, k, m.f[point], m)
        at, unit, I, hK, f = tree.column[r] + k * n, tree.unit[r] + k * units, m.I[point], m.hK[point], m.f[point]
        for i in range(n):
            s = m.s[at + i]
            F = add6(inertia_times(I, m.psidd[at + i]), coriolis_times(hK, m.psi[at + i]))
            F = add6(m.F[iv + i], add6(F, cross_force(m.ds[at + i], f)))
            V = add6(m.V[iv + i], add6(inertia_times(I, m.eta[at + i]), coriolis_times(hK, s)))
            if tree.laden > 0:
                by_q, by_v = rates_of_load(tree, at + i, iv + i, point, ws, m)
                F, V = add6(F, by_q), add6(V, by_v)
            m.F[iv + i], m.V[iv + i] = F, V
            m.bt[iv + i] = add3(m.bt[iv + i], coriolis_transposed_times(hK, s))
            for u in range(units):
                ds = m.unit_ds[unit + u]
                m.y[u], m.y_v[u] = dot6(ds, F), dot6(ds, V)
            add_rates(tree, at, iv, i, units, m.L, m.y)
            spread_column(tree, at, iv, n, m.y, iv, iv + i, dq)
            spread_column(tree, at, iv, n, m.y_v, iv, iv + i, dv)


@kernel
def turn_units(tree, b, k, f, m):
    """L_uv := the rate of f·(δs of unit u) by unit v of the rod's k-th segment beyond the turn of its base.

    f: in world axes.
    """
    r, point = tree.rod[b], tree.first[tree.rod[b]] + k
    units, twist = 2 * tree.modes[r], m.twist[point]
    unit, pressed = tree.unit[r] + k * units, seen_force(m.R[point - 1], m.p[point - 1], f)
    omega, T = moving(twist, still(twist)), halves(m.T[point])
    K = transposed_slope(omega, pressing(pressed, still(pressed)), coefficients(omega))
    for v in range(units):
        local = slope_transposed_on(K[0], K[1], m.Z[unit + v])
        for u in range(units):
            m.L[u, v] = dot6(m.Z[unit + u], local)
    add_strained(tree, r, scale6(bend(tree.length[point]), on_wrench(T[0], T[1], pressed)), 1.0, m.L)


@inline
def add_strained(tree, r, g, scale, L):
    """Add scale g·(Φ1_u × Φ2_v + Φ1_v × Φ2_u) to L_uv."""
    for l in range(tree.modes[r]):
        turned = cross_force(tree.axes[tree.strains[r, l]], scale6(scale, g))
        for j in range(tree.modes[r]):
            rate = dot6(tree.axes[tree.strains[r, j]], turned)
            L[2 * j, 2 * l + 1] += rate
            L[2 * j + 1, 2 * l] -= rate


@inline
def add_rates(tree, at, iv, i, units, L, y):
    """Add the rates of forces on units, L, along the i-th degree of freedom to y."""
    v, first, second = 2 * tree.mode[iv + i], tree.level[2 * (at + i)], tree.level[2 * (at + i) + 1]
    for u in range(units):
        y[u] += first * L[u, v] + second * L[u, v + 1]


@of_rods
def turn_rod(tree, b, ws, f, scale, both, row, column, out):
    """Add scale D_i s_j·f, f turning with the tip, in world axes, to rows j of the rod from ``row``, columns i.

    column: the first one.   both: whether their transposes are added, too; halves of them, both ways, are the Hessian
    of f·(displacement of the tip). After ``span_rod``. D_i s_j·f is, over segments, the product of δs_j and what i
    moves of the segment's end and all beyond, (s_i - s_i of its base) ×* f, with the local rates.
    """
    m, r, n, iv = RodMemory(ws.rods, tree), tree.rod[b], tree.nj[b], tree.iv[b]
    units = 2 * tree.modes[r]
    for k in range(1, tree.count[r]):
        at, unit = tree.column[r] + k * n, tree.unit[r] + k * units
        turn_units(tree, b, k, f, m)
        for i in range(n):
            turned = cross_force(sub6(ws.s[iv + i], m.s[at - n + i]), f)
            for u in range(units):
                m.y[u] = dot6(m.unit_ds[unit + u], turned)
            add_rates(tree, at, iv, i, units, m.L, m.y)
            for u in range(units):
                m.y[u] = scale * m.y[u]
            spread_column(tree, at, iv, n, m.y, row, column + i, out)
            if both:
                spread_row(tree, at, iv, n, m.y, row, column + i, out)

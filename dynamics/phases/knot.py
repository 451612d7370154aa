# mypy: allow-untyped-defs, allow-untyped-calls
"""The second order of one step under point contacts, contracted with weights: eight degrees of freedom to a register.

It is that of knot_curvature.py under ω = -K⁻ᵀ w = (μ, ν), to which contacts add what contacts/curvature.py says. With
its g, x, y, z of every degree of freedom, and gᶠ = Σ P(s) × f, that is

    F_a -= gᶠ     P_a += g     Z += x     -b_w += 2 g      in the products there, and
    qq += (j ≤ i) s_aᵀ y     qv += (j ≤ i) s_aᵀ z     qa += (j ≤ i) s_aᵀ g     and -D_q (J μ) f_y, the forces' coupling.

Sums over the contacts that a degree of freedom moves are products, too. What steps add that hold contacts exactly is in
held_knot.py.
"""

from __future__ import annotations

from numba import carray

from ddp.compiling.kernel import integer_pointer, kernel, pointer
from ddp.matrices.rows import copy_rows, mirror, write_dense
from ddp.matrices.tiles import add_product, product
from dynamics.contacts.algebra import matrix_rate, outer, rate, sub9, velocity_at
from dynamics.geometry.spatial import add3, angular, cross3, linear, scale3, sub3
from dynamics.phases.curvature import contract
from dynamics.phases.held_knot import bend_end
from dynamics.phases.modes import HELD, Modes, mode_of, step_of, whole
from dynamics.phases.plan import SUMS, mode_at, read_phase_plan
from dynamics.robots.packed import matrix, read_numbers, read_tree, vector
from dynamics.steps.knot_curvature import (
    add_group_curvatures,
    add_run_products,
    clear_lanes,
    complete,
    couple,
    lanes_at,
    read_group,
    relate,
    take3,
    take6,
    take9,
    virtual_velocities,
    weigh_acceleration,
)
from dynamics.steps.knot_plan import CHI, FORCE, HELD_G, HELD_Y, HELD_Z, MINUS_BW, MOVED, OMEGA, ROWS, P, Z, read_plan
from dynamics.steps.lane_curvature import ETA, FIELDS, PSI, PSIDD, S, put


def contract_at(context, record, weight, hessian):  # type: ignore[no-untyped-def]
    """The C function: addresses of a ``PhasePlan``, a record, a weight (n,) and the Hessian (nz, nz) to write."""
    c = read_phase_plan(context)
    p = read_plan(c.plan)
    told = vector(record, p.nq + 2 * p.nv + 1)[p.nq + 2 * p.nv]
    if told >= 0.0 and mode_at(c, mode_of(told))[0] != 0:
        contract_knot(p, c, mode_of(told), record, weight, hessian)
    else:
        contract_single(c, record, weight, hessian)


@kernel
def modes_at(c):
    """All modes."""
    table = carray(integer_pointer(c.modes_table), (c.size_table, 5))
    return Modes(table, carray(integer_pointer(c.integers), c.size_integers), carray(pointer(c.reals), c.size_reals))


@kernel
def contract_single(c, record, weight, hessian):
    """The same of any knot."""
    nq, nu, _, _, _ = read_numbers(c.packed)
    tree = read_tree(c.packed)
    n = 2 * tree.body.size
    modes = modes_at(c)
    H = carray(pointer(hessian), (n + nu, n + nu))
    contract(tree, modes, nq, nu, vector(record, c.end), vector(weight, n), H)


@kernel
def contract_knot(p, c, mode, record, weight, hessian):
    """The Hessian (nz, nz) of weight·(f(x ⊕ dx, u + du) ⊖ f(x, u)) + g·forces of a step held by points."""
    modes, nv = modes_at(c), p.nv
    h, to_joints = step_of(modes, mode), weight
    v, a = vector(record + 8 * p.nq, nv), vector(record + 8 * (p.nq + nv), nv)
    _, _, nc, _, _, _, _ = mode_at(c, mode)
    weigh_acceleration(p, h, v, a, vector(weight, 2 * nv))
    lk = whole(nv + nc)
    clear_lanes(c.omega, lk)
    add_product(c.omega, lk, 1, lk, p.effective, 0, 1, record + 8 * c.K, lk, nv)
    g = vector(record + 8 * c.g, nc)
    for i in range(nc):
        if g[i] != 0.0:  # hardly ever
            add_product(c.omega, lk, 1, lk, record + 8 * (c.g + i), 0, 1, record + 8 * (c.K + (nv + i) * lk), lk, 1)
    curve(p, c, mode, record)
    if modes.table[mode, 0] == HELD:
        bend_end(p, c, mode, record, h, v, a, vector(weight, 2 * nv))
        to_joints = c.next
    add_group_curvatures(p, h, v, a, vector(to_joints, 2 * nv))
    mirror(p.H, p.ld)
    write_dense(hessian, p.H, p.ld, 2 * nv + p.nu)


@kernel
def curve(p, c, mode, record):
    """p.H := the Hessian of weights·(a, f) by (q, v, u), on and above its diagonal; c.omega holds -ω."""
    nv, lx, ld, D = p.nv, p.lx, p.ld, lanes_at(record + 8 * c.D, FIELDS, p.lx)
    copy_rows(p.rows + 8 * OMEGA * lx, lx, c.omega, lx, 1, nv)
    virtual_velocities(p, D)
    sum_over_contacts(p, c, mode, record)
    add_contacts(p, c, D)
    couple_forces(p, c, mode, record, D)
    relate(p, 3)
    couple(p)
    _, _, _, _, _, _, runs = mode_at(c, mode)
    add_run_products(p.H, ld, nv, p.runs, p.qa, lx, 1, record + 8 * c.Z, ld)
    add_run_products(p.H, ld, nv, runs, c.R, 1, lx, record + 8 * (c.Z + nv * ld), ld)
    complete(p)
    for b in range(p.number):
        _, iv, nj = read_group(p, b)
        copy_rows(p.A + 8 * iv * ld, ld, record + 8 * (c.Z + iv * ld), ld, nj, ld)


@kernel
def sum_over_contacts(p, c, mode, record):
    """c.totals: Σ f, Σ p fᵀ and the sums of ``sum_duals`` (contacts/curvature.py) for each degree of freedom.

    c.of_contacts := rows ν, f, P(w) and w over contacts.
    """
    nv, lx, lm, nq = p.nv, p.lx, c.lm, p.nq
    _, m, _, held, transposed, weights, _ = mode_at(c, mode)
    x, T, gains = lanes_at(c.of_contacts, 15, lm), lanes_at(c.by_contact, SUMS, lm), lanes_at(weights, 3, lm)
    places = lanes_at(record + 8 * c.places, 9, lm)
    numbers, omega = matrix(c.of_contacts, 15, lm), vector(c.omega, nv + 3 * m)
    f = vector(record + 8 * (nq + 2 * nv + 1), 3 * m)
    for i in range(m):
        for k in range(3):
            numbers[k, i] = -omega[nv + 3 * i + k]
            numbers[3 + k, i] = f[3 * i + k]
    w = c.of_contacts + 8 * 9 * lm
    clear_lanes(w, 6 * lm)
    add_product(w, lm, 6, lm, p.rows + 8 * MOVED * lx, lx, 1, transposed, lm, nv)
    for g in range(lm // 8):
        n, force, place, u = take3(x, 0, g), take3(x, 3, g), take3(places, 0, g), take3(places, 3, g)
        ka, kd, kp = gains[0, g], gains[1, g], gains[2, g]
        Pw = velocity_at(place, take6(x, 9, g))
        put(x, 6, g, Pw)
        put(T, 0, g, force)
        put(T, 3, g, outer(place, force))
        put(T, 12, g, scale3(ka, n))
        put(T, 15, g, scale3(kd, n))
        put(T, 18, g, scale3(kp, n))
        put(T, 21, g, outer(scale3(ka, place), n))
        put(T, 30, g, outer(add3(scale3(2.0 * ka, u), scale3(kd, place)), n))
        seen = add3(scale3(ka, take3(places, 6, g)), add3(scale3(kd, u), scale3(kp, place)))
        put(T, 39, g, sub9(outer(seen, n), outer(Pw, force)))
    product(c.totals, lx, p.zeros, 0, SUMS, lx, c.by_contact, lm, 1, held, lx, m)


@kernel
def add_contacts(p, c, D):
    """Into the rows of products: F, P, Z, b_w, and y, z, g."""
    x, t = lanes_at(p.rows, ROWS, p.lx), lanes_at(c.totals, SUMS, p.lx)
    for i in range(p.lx // 8):
        s, psi, chi = take6(D, S, i), take6(D, PSI, i), take6(x, CHI, i)
        force, moment = take3(t, 0, i), take9(t, 3, i)
        F, Fd, Fp = take3(t, 12, i), take3(t, 15, i), take3(t, 18, i)
        N, Q, C = take9(t, 21, i), take9(t, 30, i), take9(t, 39, i)
        moved = add3(matrix_rate(Q, angular(s)), cross3(linear(s), Fd))
        g, gf = rate(F, N, s), rate(force, moment, s)
        y = add3(matrix_rate(C, angular(s)), cross3(linear(s), Fp))
        y = add3(y, add3(matrix_rate(Q, angular(psi)), cross3(linear(psi), Fd)))
        put(x, HELD_Y, i, sub3(add3(y, rate(F, N, take6(D, PSIDD, i))), rate(force, moment, chi)))
        put(x, HELD_Z, i, add3(rate(F, N, take6(D, ETA, i)), moved))
        put(x, HELD_G, i, g)
        put(x, FORCE + 3, i, sub3(take3(x, FORCE + 3, i), gf))
        put(x, P + 3, i, add3(take3(x, P + 3, i), g))
        put(x, Z, i, add3(take3(x, Z, i), add3(scale3(2.0, rate(F, N, psi)), moved)))
        put(x, MINUS_BW, i, add3(take3(x, MINUS_BW, i), scale3(2.0, g)))


@kernel
def couple_forces(p, c, mode, record, D):
    """c.R (nc, lx): rows of -D_q (J μ)."""
    lx, lm = p.lx, c.lm
    _, m, _, held, _, _, _ = mode_at(c, mode)
    x, R, moves = lanes_at(p.rows, ROWS, lx), lanes_at(c.R, 3 * lm, lx), lanes_at(held, max(m, 1), lx)
    numbers, places = matrix(c.of_contacts, 15, lm), matrix(record + 8 * c.places, 9, lm)
    for i in range(m):
        place, Pw = (places[0, i], places[1, i], places[2, i]), (numbers[6, i], numbers[7, i], numbers[8, i])
        for g in range(lx // 8):
            own = -moves[i, g]
            put(R, 3 * i, g, scale3(own, add3(cross3(take3(D, S + 3, g), Pw), velocity_at(place, take6(x, CHI, g)))))

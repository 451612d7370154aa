# mypy: allow-untyped-defs, allow-untyped-calls
"""Loads on rods and bodies in residuals: springs of contact, water, wrenches of controls; see rods/loads.py.

At a place p, in motions (t ; a) of it, t = s_l + s_a × p, a load is a force f and a couple n, on the side of R, so that
a force that pushes counts negative. One that does not turn with its place, f = ∇U(p) or constant, varies by

    N: (K t + f × a ; n × a),  K = ∂f/∂p        and under virtual velocities u, w of the place
    L: (D_u K t + (K u) × a + K (a × u) ; u × (K t + f × a) + w × (n × a))        G = (K u ; u × f + w × n)

One of water depends on the velocities u, ω and the acceleration of a place, in the axes of its section: with the mass A
of water and the drag D, (A a + ω × A u + |u| D u ; u × A u), Kirchhoff's equations and Morison's drag.
"""

from dynamics.geometry.spatial import add6
from dynamics.rigid_bodies.control_wrenches import see_wrench
from dynamics.rigid_bodies.places import FORCES, RATES, VIRTUAL
from dynamics.rigid_bodies.surfaces import see_surfaces
from dynamics.rigid_bodies.water import curve_water, see_water
from dynamics.rods.loads import loads_of, sum_loads
from dynamics.rods.memory import RodMemory, of_rods


@of_rods
def see_loads(tree, q, u, ws, order):
    """Add loads to the forces of points and bodies, after ``forces``; of RATES, A, B, N of all places, and sums, too.

    Of VIRTUAL order, S, L, p, ζ, G of all places, and their sums, after ``virtual_velocities``.
    """
    if tree.laden == 0:
        return
    m, L = RodMemory(ws.rods, tree), loads_of(tree, ws)
    for k in range(tree.laden if order == RATES else 0):
        for l in range(36):
            L.A[k, l] = L.B[k, l] = L.N[k, l] = 0.0
    zero = 0.0 * ws.w[0, 0]
    for k in range(tree.laden if order == VIRTUAL else 0):
        L.p[k] = L.z[k] = L.G[k] = zero, zero, zero, zero, zero, zero
        for l in range(36):
            L.S[k, l] = L.L[k, l] = 0.0
    for b in range(tree.nb):
        if tree.rod[b] >= 0:
            first = tree.first[tree.rod[b]] + 1
            for k in range(first, first + tree.count[tree.rod[b]] - 2 if tree.wet > 0 else first):
                if order == VIRTUAL:
                    curve_water(tree, k, m, L)
                else:
                    see_water(tree, k, order == RATES, m, L)
            if tree.steady > 0:
                see_surfaces(tree, b, q, order, ws, m, L)
    for c in range(tree.pushes):
        see_wrench(tree, c, u, order, ws, m, L)
    if order != FORCES:
        sum_loads(tree, ws, order == VIRTUAL)
    for b in range(tree.nb if order == VIRTUAL else 0):
        if tree.rod[b] >= 0:
            first = tree.first[tree.rod[b]] + 1
            for k in range(first, first + tree.count[tree.rod[b]] - 1):
                m.pf[k], m.z[k] = add6(m.pf[k], L.sp[k]), add6(m.z[k], L.sz[k])

# mypy: allow-untyped-defs, allow-untyped-calls
"""Forward pass over the tree: placements, velocities and accelerations of all bodies, in world axes.

The common reference point is the world's origin, or the root body's frame: nothing in the dynamics depends on where
a root stands, and numbers stay small far from the origin.
"""

from ddp.compiling.kernel import kernel
from ddp.machine.fields import Fields, rows, vector
from dynamics.geometry.spatial import add6, cross_motion, inertia_times, scale6
from dynamics.rigid_bodies.bodies import forces_of, move_body, place_body
from dynamics.rods.inverse import carry_rod, sum_forces_of_rod
from dynamics.rods.memory import has_rod
from dynamics.rods.motion import move_rod, move_rod_virtually, place_rod


class Workspace(Fields):
    """Working memory of one knot, by the symbols of spatial.py; f, hKw, z become composites bottom-up.

    Ic, hKc: I and (h, K).   psi: ψ', psidd: ψ'', eta: η, chi: w_p × s, Y: Ic s.
    Rows of a rod's degrees of freedom are those of a body at its tip.   rods: a ``RodMemory``.
    """

    R, p, v, a, w = rows("nb", 9), rows("nb", 3), rows("nb", 6), rows("nb", 6), rows("nb", 6)
    Ic, f = rows("nb", 10), rows("nb", 6)
    hKc, hKw, z = rows("nb", 12), rows("nb", 12), rows("nb", 3)
    s, psi, psidd = rows("nv", 6), rows("nv", 6), rows("nv", 6)
    eta, chi, Y = rows("nv", 6), rows("nv", 6), rows("nv", 6)
    rods = vector("room")


@kernel
def clear(x, n):
    """x[0..n-1] := 0."""
    for i in range(n):
        x[i] = 0.0


@kernel
def place_bodies(tree, q, origin_at_root, ws):
    """R, p of every body and the columns s of every degree of freedom."""
    for b in range(tree.nb):
        if has_rod(tree, b):
            place_rod(tree, b, q, origin_at_root, ws)
        else:
            place_body(tree, b, q, origin_at_root, ws)


@kernel
def forces(tree, qd, qdd, fext, ws):
    """Velocities, accelerations and forces: v, a, ψ', ψ'', η, and each body's own I, (h, K), f.

    They come after ``place_bodies``.
    v = v_p + s q'    a = a_p + s q'' + v × s q'    ψ' = v_p × s    η = ψ' + v × s    ψ'' = a_p × s + v_p × ψ'
    f = I a + v ×* (I v) - f_ext;  a_0 = -gravity.  I, (h, K) and f are written to Ic, hKc and f, to be summed there.
    fext: a matrix (nb, 6), a wrench on each body in its own frame, or one of no row.
    """
    for b in range(tree.nb):
        if has_rod(tree, b):
            move_rod(tree, b, qd, qdd, ws)
            forces_of(tree, b, ws.R[b], ws.p[b], ws.v[b], ws.a[b], fext, ws)
        else:
            move_body(tree, b, qd, qdd, fext, ws)


@kernel
def add_accelerations(tree, qdd, ws):
    """Add the effect of accelerations q'' to a, ψ'' and the composites f, where these are those of q'' = 0.

    A joint's motion δ = Σ s q'' moves all it carries: Δf = Iᶜ w_p + Σ Iᶜ_l δ_l over the joint and those behind it,
    w = w_p + δ the acceleration that q'' adds to a body.
    """
    for b in range(tree.nb):
        parent = tree.parent[b]
        for k in range(6):
            ws.w[b, k] = ws.w[parent, k] if parent >= 0 else 0.0
            ws.hKw[b, k] = 0.0
        wp = ws.w[b]
        w = wp
        for i in range(tree.iv[b], tree.iv[b] + tree.nj[b]):
            s = ws.s[i]
            w = add6(w, scale6(qdd[i], s))
            if parent >= 0:
                ws.psidd[i] = add6(ws.psidd[i], cross_motion(wp, s))
        ws.w[b] = w
        ws.a[b] = add6(ws.a[b], w)
    for b in range(tree.nb - 1, -1, -1):
        parent, first, I = tree.parent[b], tree.iv[b], ws.Ic[b]
        moved = scale6(qdd[first], ws.s[first])
        for i in range(first + 1, first + tree.nj[b]):
            moved = add6(moved, scale6(qdd[i], ws.s[i]))
        carried = add6(ws.hKw[b], inertia_times(I, moved))
        f = add6(ws.f[b], carried)
        if parent >= 0:
            f = add6(f, inertia_times(I, ws.w[parent]))
            for k in range(6):
                ws.hKw[parent, k] += carried[k]
        ws.f[b] = f


@kernel
def virtual_twists(tree, mu, ws):
    """w = w_p + s μ and χ = w_p × s."""
    for b in range(tree.nb):
        parent = tree.parent[b]
        for k in range(6):
            ws.w[b, k] = ws.w[parent, k] if parent >= 0 else 0.0
        wp = ws.w[b]
        w = wp
        for i in range(tree.iv[b], tree.iv[b] + tree.nj[b]):
            s = ws.s[i]
            w = add6(w, scale6(mu[i], s))
            ws.chi[i] = cross_motion(wp, s)
        ws.w[b] = w
        if has_rod(tree, b):
            move_rod_virtually(tree, b, mu, ws)


@kernel
def sum_over_subtrees(tree, quantity):
    """Composite of a per-body quantity: each body's own plus those of all bodies it carries."""
    for b in range(tree.nb - 1, -1, -1):
        parent = tree.parent[b]
        if parent >= 0:
            for k in range(len(quantity[b])):
                quantity[parent, k] += quantity[b, k]


@kernel
def sum_forces(tree, ws):
    """f of each body with all it carries, after ``forces``."""
    for b in range(tree.nb - 1, -1, -1):
        parent = tree.parent[b]
        if has_rod(tree, b):
            sum_forces_of_rod(tree, b, ws)
        elif parent >= 0:
            ws.f[parent] = add6(ws.f[parent], ws.f[b])


@kernel
def sum_composites(tree, ws):
    """Ic, hKc and f of each body with all it carries, after ``forces``."""
    for b in range(tree.nb - 1, -1, -1):
        parent = tree.parent[b]
        if has_rod(tree, b):
            carry_rod(tree, b, ws)
        elif parent >= 0:
            for k in range(10):
                ws.Ic[parent, k] += ws.Ic[b, k]
            for k in range(12):
                ws.hKc[parent, k] += ws.hKc[b, k]
            for k in range(6):
                ws.f[parent, k] += ws.f[b, k]


@kernel
def composites(tree, q, v, a, fext, ws):
    """The whole forward pass, and the composites Ic, f, hKc: what the derivatives of inverse dynamics need."""
    place_bodies(tree, q, True, ws)
    forces(tree, v, a, fext, ws)
    sum_composites(tree, ws)

# mypy: allow-untyped-defs, allow-untyped-calls
"""Motion under contacts and impacts of four states at once, by articulated bodies: what rollouts and forces need.

With U, d, u of articulated.py, a force F on a body, 6 numbers, is felt by one degree of freedom after another on the
way to the root, y = s·F, F -= d U y. Rows y of all contacts' unit forces are Y, so that M⁻¹ Jᵀ is Y's transpose taken
back down, and J M⁻¹ Jᵀ = Y d Yᵀ, which has the entries of the paths that two contacts share:

    Σ = Y d Yᵀ     f = -Σ⁻¹ (c + Y d u)     u += Yᵀ f     and q'' from there

c what must vanish at contacts without joint accelerations. In an impact u = 0 and c = J (1 + e) v. The factors of Σ
are exact: contacts that are redundant are told by their pivots, and are for contacts/batch.py to solve.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ddp.compiling.kernel import inline, kernel
from ddp.machine.number import QUAD, spread
from dynamics.contacts.algebra import seen_from, velocity_at
from dynamics.contacts.contact import POINT
from dynamics.contacts.kinematics import root_offset
from dynamics.geometry.spatial import (
    add3,
    add6,
    angular,
    cross3,
    dot6,
    join,
    load3,
    load6,
    load9,
    load12,
    rotate,
    rotation_product,
    scale6,
    store,
    sub6,
)
from dynamics.rigid_bodies.articulated import column, quads3, quads9, six


class Push(NamedTuple):
    """Tables of quads, of m contacts and nc forces.

    R (m, 9), p (m, 3): contacts' placements from their roots' origins.   f, c, pivots (nc,): pivots relative to the
    diagonal of Σ.   Y (nc nv,).   sigma (nc nc,): the lower triangle in, the factor L above the diagonal, 1/D on it.
    """

    R: Any
    p: Any
    f: Any
    c: Any
    pivots: Any
    Y: Any
    sigma: Any


def push_size(nv: int, m: int, nc: int) -> int:
    """How many quads `push_at` takes."""
    return 12 * m + nc + nc * nv + nc * nc


@kernel
def push_at(address, f, pivots, nv, m, nc):
    """A `Push` in the quads from an address on, f and pivots at others."""
    c = address + 32 * 12 * m
    return Push(
        quads9(address), quads3(address + 32 * 9 * m), column(f), column(c), column(pivots), column(c + 32 * nc),
        column(c + 32 * nc * (1 + nv)),
    )  # fmt: skip


@kernel
def place_contacts(contacts, w, x):
    """R, p of every contact."""
    for i in range(contacts.body.size):
        b, F = contacts.body[i], load12(contacts.placement, i)
        Rb = load9(w.R, b)
        store(x.p, i, add3(load3(w.p, b), rotate(Rb, (F[9], F[10], F[11]))))
        store(x.R, i, rotation_product(Rb, (F[0], F[1], F[2], F[3], F[4], F[5], F[6], F[7], F[8])))


@inline
def _put(c, r, values):
    for k in range(len(values)):
        c[r + k] = values[k]


@kernel
def see_motion(tree, contacts, q, w, x):
    """c of steps; surfaces have no gain on their poses."""
    gravity = six(tree.gravity, 0)
    for i in range(contacts.body.size):
        b, r = contacts.body[i], contacts.row[i]
        ka, kd, kp = contacts.gains[i, 0], contacts.gains[i, 1], contacts.gains[i, 2]
        R, p, v, a = load9(x.R, i), load3(x.p, i), load6(w.v, b), add6(load6(w.a, b), gravity)
        if contacts.kind[i] == POINT:
            u = velocity_at(p, v)
            e = add3(velocity_at(p, a), cross3(angular(v), u))
            _put(x.c, r, (ka * e[0] + kd * u[0], ka * e[1] + kd * u[1], ka * e[2] + kd * u[2]))
            if kp != 0.0:
                there = add3(p, root_offset(tree, q, contacts.root[i]))
                for k in range(3):
                    x.c[r + k] += kp * (there[k] - contacts.target[i, 9 + k])
        else:
            V, A = seen_from(R, p, v), seen_from(R, p, a)
            _put(x.c, r, add6(scale6(ka, A), scale6(kd, V)))


@kernel
def see_impact(contacts, restitution, w, x):
    """c of impacts, (1 + e) J v."""
    for i in range(contacts.body.size):
        p, v, share = load3(x.p, i), load6(w.v, contacts.body[i]), 1.0 + restitution
        if contacts.kind[i] == POINT:
            u = velocity_at(p, v)
            _put(x.c, contacts.row[i], (share * u[0], share * u[1], share * u[2]))
        else:
            _put(x.c, contacts.row[i], scale6(share, seen_from(load9(x.R, i), p, v)))


@inline
def _units(kind, part, R, p):
    """Three unit forces of a contact, or its unit couples, about the origin."""
    zero, one = spread(0.0, p[0]), spread(1.0, p[0])
    none = (zero, zero, zero)
    if kind == POINT:
        return (
            (one, zero, zero, zero, p[2], -p[1]), (zero, one, zero, -p[2], zero, p[0]),
            (zero, zero, one, p[1], -p[0], zero),
        )  # fmt: skip
    a, b, c = (R[0], R[3], R[6]), (R[1], R[4], R[7]), (R[2], R[5], R[8])
    if part == 0:
        return join(a, cross3(p, a)), join(b, cross3(p, b)), join(c, cross3(p, c))
    return join(none, a), join(none, b), join(none, c)


@inline
def last_dof(tree, contacts, i):
    """The degree of freedom that is nearest to contact i."""
    b = contacts.body[i]
    return tree.iv[b] + tree.nj[b] - 1


@inline
def parts(contacts, i):
    """How many threes of rows a contact has."""
    return 1 if contacts.kind[i] == POINT else 2


@kernel
def take_up(tree, previous, contacts, w, x):
    """Y."""
    nv = tree.nv
    for i in range(contacts.body.size):
        for part in range(parts(contacts, i)):
            r = (contacts.row[i] + 3 * part) * nv
            F, G, H = _units(contacts.kind[i], part, load9(x.R, i), load3(x.p, i))
            k = last_dof(tree, contacts, i)
            while k >= 0:
                s, U, d = load6(w.s, k), load6(w.U, k), w.d[k]
                y, z, o = dot6(s, F), dot6(s, G), dot6(s, H)
                x.Y[r + k], x.Y[r + nv + k], x.Y[r + 2 * nv + k] = y, z, o
                F, G, H = sub6(F, scale6(d * y, U)), sub6(G, scale6(d * z, U)), sub6(H, scale6(d * o, U))
                k = previous[k]


@kernel
def shared_dof(tree, previous, contacts, i, j):
    """The last degree of freedom that moves both of two contacts, -1 if none does."""
    k, l = last_dof(tree, contacts, i), last_dof(tree, contacts, j)
    while k != l:
        if k > l:
            k = previous[k]
        else:
            l = previous[l]
    return k


@kernel
def form_sigma(tree, previous, contacts, nc, w, x):
    """Σ on and below its diagonal, in tiles of 3 x 3."""
    nv = tree.nv
    for i in range(contacts.body.size):
        for j in range(i + 1):
            top = shared_dof(tree, previous, contacts, i, j)
            for part in range(parts(contacts, i)):
                for other in range(parts(contacts, j)):
                    r, c = contacts.row[i] + 3 * part, contacts.row[j] + 3 * other
                    if c <= r:
                        _sigma_tile(previous, top, nv, nc, r, c, w, x)


@inline
def _sigma_tile(previous, top, nv, nc, r, c, w, x):
    zero, k = spread(0.0, w.d[0]), top
    a, b, e, f, g, h, l, m, n = zero, zero, zero, zero, zero, zero, zero, zero, zero
    while k >= 0:
        d = w.d[k]
        s, t, u = d * x.Y[r * nv + k], d * x.Y[r * nv + nv + k], d * x.Y[r * nv + 2 * nv + k]
        y, z, o = x.Y[c * nv + k], x.Y[c * nv + nv + k], x.Y[c * nv + 2 * nv + k]
        a, b, e = a + s * y, b + s * z, e + s * o
        f, g, h = f + t * y, g + t * z, h + t * o
        l, m, n = l + u * y, m + u * z, n + u * o
        k = previous[k]
    _put(x.sigma, r * nc + c, (a, b, e))
    _put(x.sigma, (r + 1) * nc + c, (f, g, h))
    _put(x.sigma, (r + 2) * nc + c, (l, m, n))


@kernel
def factor_sigma(nc, x):
    """Σ = L D Lᵀ; row by row, so that no sum waits for another."""
    sigma = x.sigma
    for i in range(nc):
        x.pivots[i] = 1.0 / sigma[i * nc + i]
    for j in range(nc):
        pivot = sigma[j * nc + j]
        x.pivots[j] = pivot * x.pivots[j]
        inverse = 1.0 / pivot
        sigma[j * nc + j] = inverse
        for i in range(j + 1, nc):
            factor = sigma[i * nc + j] * inverse
            for c in range(j + 1, i + 1):
                sigma[i * nc + c] -= factor * sigma[c * nc + j]
            sigma[j * nc + i] = factor


@kernel
def push_back(tree, previous, contacts, nc, w, x):
    """f, and u += Yᵀ f."""
    nv, Y, f, sigma = tree.nv, x.Y, x.f, x.sigma
    for i in range(contacts.body.size):
        for r in range(contacts.row[i], contacts.row[i] + 3 * parts(contacts, i)):
            total, k = -x.c[r], last_dof(tree, contacts, i)
            while k >= 0:
                total -= Y[r * nv + k] * (w.d[k] * w.u[k])
                k = previous[k]
            f[r] = total
    for j in range(nc):
        own = f[j]
        for i in range(j + 1, nc):
            f[i] -= sigma[j * nc + i] * own
        f[j] = own * sigma[j * nc + j]
    for j in range(nc - 1, -1, -1):
        own = f[j]
        for i in range(j):
            f[i] -= sigma[i * nc + j] * own
    for i in range(contacts.body.size):
        for r in range(contacts.row[i], contacts.row[i] + 3 * parts(contacts, i)):
            own, k = f[r], last_dof(tree, contacts, i)
            while k >= 0:
                w.u[k] += Y[r * nv + k] * own
                k = previous[k]


@kernel
def solve_contacts(tree, previous, contacts, nc, w, x):
    """f, and what it adds to u, from placements, c, and u without forces."""
    take_up(tree, previous, contacts, w, x)
    form_sigma(tree, previous, contacts, nc, w, x)
    factor_sigma(nc, x)
    push_back(tree, previous, contacts, nc, w, x)


@kernel
def is_any_redundant(pivots, count, limit):
    """Whether any contact of the first ``count`` lanes of pivots (nc, 4) holds what others hold already."""
    for i in range(pivots.shape[0]):
        for lane in range(min(count, QUAD)):
            if pivots[i, lane] <= limit:
                return True
    return False

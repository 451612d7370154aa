# mypy: allow-untyped-defs, allow-untyped-calls
"""Motion under contacts and impacts by articulated bodies, for any number: for rollouts and forces.

With U, d, u of articulated.py, a force F on a body, 6 numbers, is felt by one degree of freedom after another on the
way to the root, y = s·F, F -= d U y. Rows y of all contacts' unit forces are Y, so that M⁻¹ Jᵀ is Y's transpose taken
back down, and J M⁻¹ Jᵀ = Y d Yᵀ, which has the entries of the paths that two contacts share:

    S = Y d Yᵀ     f = -S⁻¹ (c + Y d u)     u += Yᵀ f     and q'' from there

c what must vanish at contacts without joint accelerations. In an impact u = 0 and c = J (1 + e) v. Lanes whose contacts
turn out to be redundant, by their pivots, are solved again with their ``softness``.
"""

from ddp.compiling.kernel import inline, kernel
from ddp.machine.fields import Fields, matrix_of, nested, vector
from ddp.machine.number import spread
from dynamics.contacts.contact import ROLLING, SURFACE
from dynamics.contacts.kinematics import Standing
from dynamics.contacts.products import last_dof, settle_still_rows, threes, turn_tilted
from dynamics.contacts.response import REDUNDANT, are_below, eliminate, solve_redundant
from dynamics.contacts.rolling import units_of_wheel
from dynamics.geometry.spatial import cross3, dot6, join, scale6, sub6
from dynamics.rigid_bodies.articulated import accelerate


class Push(Fields):
    """Contacts and their response.

    place: contacts, see `Standing`.   a, f: accelerations and forces.   pivots: of S.
    c, Y, S: see above, S overwritten by its factors.   G: M⁻¹ Jᵀ.
    """

    place = nested(Standing)
    a, f, pivots, c = vector("nv"), vector("nc"), vector("nc"), vector("nc")
    Y, G, S = matrix_of("nc", "nv"), matrix_of("nv", "nc"), matrix_of("nc", "nc")


@inline
def _units(kind, part, R, p):
    """Three unit forces of a contact, or its unit couples, about the origin."""
    zero, one = spread(0.0, p[0]), spread(1.0, p[0])
    none = (zero, zero, zero)
    if kind != SURFACE:
        return (
            (one, zero, zero, zero, p[2], -p[1]), (zero, one, zero, -p[2], zero, p[0]),
            (zero, zero, one, p[1], -p[0], zero),
        )  # fmt: skip
    a, b, c = (R[0], R[3], R[6]), (R[1], R[4], R[7]), (R[2], R[5], R[8])
    if part == 0:
        return join(a, cross3(p, a)), join(b, cross3(p, b)), join(c, cross3(p, c))
    return join(none, a), join(none, b), join(none, c)


@kernel
def take_up(tree, contacts, w, x):
    """Fill Y from the contacts' places, after ``articulate``."""
    for i in range(contacts.count):
        for part in range(threes(contacts, i)):
            r = contacts.row[i] + 3 * part
            F, G, H = _units(contacts.kind[i], part, x.place.R[i], x.place.p[i])
            if contacts.kind[i] == ROLLING:
                F, G, H = units_of_wheel(contacts, x.place, i)
            k = last_dof(tree, contacts, i)
            while k >= 0:
                s, U, d = w.s[k], w.U[k], w.d[k]
                y, z, o = dot6(s, F), dot6(s, G), dot6(s, H)
                x.Y[r, k], x.Y[r + 1, k], x.Y[r + 2, k] = y, z, o
                F, G, H = sub6(F, scale6(d * y, U)), sub6(G, scale6(d * z, U)), sub6(H, scale6(d * o, U))
                k = tree.previous[k]


@kernel
def respond_to_units(tree, contacts, w, x, spare):
    """G, after ``articulate``, of whose u nothing is left; spare (nv,): scratch."""
    take_up(tree, contacts, w, x)
    for i in range(contacts.count):
        for r in range(contacts.row[i], contacts.row[i] + 3 * threes(contacts, i)):
            for k in range(tree.nv):
                w.u[k] = 0.0
            k = last_dof(tree, contacts, i)
            while k >= 0:
                w.u[k] = x.Y[r, k]
                k = tree.previous[k]
            accelerate(tree, w, spare)
            for k in range(tree.nv):
                x.G[k, r] = spare[k]


@kernel
def shared_dof(tree, contacts, i, j):
    """The last degree of freedom that moves both of two contacts, -1 if none does."""
    k, l = last_dof(tree, contacts, i), last_dof(tree, contacts, j)
    while k != l:
        if k > l:
            k = tree.previous[k]
        else:
            l = tree.previous[l]
    return k


@kernel
def form_response(tree, contacts, nc, w, x):
    """S, in tiles of 3 x 3, in ``Contacts.axes``."""
    for i in range(contacts.count):
        for j in range(i + 1):
            top = shared_dof(tree, contacts, i, j)
            for part in range(threes(contacts, i)):
                for other in range(threes(contacts, j)):
                    r, c = contacts.row[i] + 3 * part, contacts.row[j] + 3 * other
                    if c <= r:
                        _tile(tree.previous, top, r, c, w, x)
    settle_still_rows(contacts, nc, x.S)


@inline
def _tile(previous, top, r, c, w, x):
    zero, k, Y, S = spread(0.0, w.d[0]), top, x.Y, x.S
    a, b, e, f, g, h, l, m, n = zero, zero, zero, zero, zero, zero, zero, zero, zero
    while k >= 0:
        d = w.d[k]
        s, t, u = d * Y[r, k], d * Y[r + 1, k], d * Y[r + 2, k]
        y, z, o = Y[c, k], Y[c + 1, k], Y[c + 2, k]
        a, b, e = a + s * y, b + s * z, e + s * o
        f, g, h = f + t * y, g + t * z, h + t * o
        l, m, n = l + u * y, m + u * z, n + u * o
        k = previous[k]
    S[c, r], S[c + 1, r], S[c + 2, r] = a, b, e
    S[c, r + 1], S[c + 1, r + 1], S[c + 2, r + 1] = f, g, h
    S[c, r + 2], S[c + 1, r + 2], S[c + 2, r + 2] = l, m, n
    S[r, c], S[r, c + 1], S[r, c + 2] = a, b, e
    S[r + 1, c], S[r + 1, c + 1], S[r + 1, c + 2] = f, g, h
    S[r + 2, c], S[r + 2, c + 1], S[r + 2, c + 2] = l, m, n


@kernel
def solve_contacts(tree, contacts, nc, w, x):
    """f, and u += Yᵀ f, from placements, c, and u without forces."""
    take_up(tree, contacts, w, x)
    oppose(tree, contacts, nc, w, x)
    eliminate(nc, x.S, x.f, x.pivots)
    if are_below(REDUNDANT, x.pivots, nc):
        oppose(tree, contacts, nc, w, x)
        solve_redundant(contacts, nc, x.S, x.f, x.pivots)
    turn_tilted(contacts, True, x.f)
    for i in range(contacts.count):
        for r in range(contacts.row[i], contacts.row[i] + 3 * threes(contacts, i)):
            own, k = x.f[r], last_dof(tree, contacts, i)
            while k >= 0:
                w.u[k] += x.Y[r, k] * own
                k = tree.previous[k]


@kernel
def oppose(tree, contacts, nc, w, x):
    """S, and f := -(c + Y d u), in ``Contacts.axes``."""
    form_response(tree, contacts, nc, w, x)
    for i in range(contacts.count):
        for r in range(contacts.row[i], contacts.row[i] + 3 * threes(contacts, i)):
            total, k = -x.c[r], last_dof(tree, contacts, i)
            while k >= 0:
                total -= x.Y[r, k] * (w.d[k] * w.u[k])
                k = tree.previous[k]
            x.f[r] = total
    turn_tilted(contacts, False, x.f)

# mypy: allow-untyped-defs, allow-untyped-calls
"""Contacts that roll without slipping: wheels, discs and balls on a plane, held at the end of every step.

A wheel has its centre p, its axle a, of length one, and a radius r; the plane has a normal n. The lowest point of the
wheel is p + d, and what of the wheel is there has the velocity g under a twist w of its body:

    d(a) = -r m (n - c a),   c = n·a,   m = (1 - c²)^(-½)        g(q, w) = u + ω × d,   u = P(w),   ω = w_a

A ball is the case a = 0. Steps hold velocities where they end, ``g(q, v + h a) = 0``: with gains ka = 1, kd = 1/h,

    c = g(q, w°) + kp (n·(p + d) - height) n,    w° = ka a + kd v

in which kp = 1/h² keeps the wheel on the plane, too, where that is asked for. What slides in one direction of the
plane, as skates, omnidirectional and mecanum wheels do, has the rows e·c, 0 and n·c instead, with e across that:

    e(a) = m η(a),   η(a) = cos δ a × n + sin δ (a - c n),   δ from the axle to where it slides

g is linear in w and not integrable: J = g_w is no derivative of a place. With x_k = s_ka × a the change of the axle,
χ_k = w_p × s_k, for j on the way from the degree of freedom k to the root, or of the same joint,

    D_k u = s_ka × u + P(χ_k)         D_k ω = s_ka × ω + χ_ka             D_k d = d'[x_k]
    D_j D_k u = s_ja × D_k u + χ_ja × P(s_k)            D_j D_k ω = s_ja × D_k ω
    D_j D_k d = d''[x_j, x_k] + d'[s_ja × x_k]
    D_j J_k = s_ja × P(s_k) + (s_ja × s_ka) × d + s_ka × D_j d           D_k J_j = s_ja × (P(s_k) + D_k d)

(Neimark & Fufaev, "Dynamics of Nonholonomic Systems", 1972, chapter III, for the wheel.)
"""

from ddp.compiling.kernel import apart, inline, kernel
from ddp.machine.number import square_root
from dynamics.contacts.contact import ROLLING
from dynamics.geometry.spatial import (
    add3,
    add6,
    angular,
    cross3,
    cross_motion,
    dot3,
    join,
    load3_at,
    load6_at,
    part3,
    rotate,
    scale3,
    scale6,
    store_at,
    store_below,
    sub3,
    velocity_at,
)


@inline
def normal_of(contacts, i):
    """The plane's normal n."""
    W = contacts.wheel
    return (W[i, 4], W[i, 5], W[i, 6])


@inline
def slides(contacts, i):
    """Whether it slides in one direction."""
    return abs(contacts.wheel[i, 7]) + abs(contacts.wheel[i, 8]) > 0.0


@inline
def across(contacts, i, a):
    """η(a), linear in a."""
    n = normal_of(contacts, i)
    ahead, aside = cross3(a, n), sub3(a, scale3(dot3(n, a), n))
    return add3(scale3(contacts.wheel[i, 7], ahead), scale3(contacts.wheel[i, 8], aside))


@inline
def in_rows(contacts, place, i, g):
    """The rows of a contact of a vector of the world."""
    if slides(contacts, i):
        return (dot3(place.held[i], g), 0.0 * g[0], dot3(normal_of(contacts, i), g))
    return g


@inline
def in_world(contacts, place, i, x):
    """The vector of the world whose product with another is that of x with the other's rows."""
    if slides(contacts, i):
        return add3(scale3(x[0], place.held[i]), scale3(x[2], normal_of(contacts, i)))
    return x


@apart
def place_wheel(contacts, i, R, there, place):
    """The axle, d and e of a wheel, and its height over the plane as error; there: its centre in the world."""
    W = contacts.wheel
    a = rotate(R, (W[i, 1], W[i, 2], W[i, 3]))
    place.axle[i] = a
    n = normal_of(contacts, i)
    c = dot3(n, a)
    m = 1.0 / square_root(1.0 - c * c)
    d = scale3(-W[i, 0] * m, sub3(n, scale3(c, a)))
    place.d[i], place.held[i] = d, scale3(m, across(contacts, i, a))
    T = contacts.target
    height = dot3(n, add3(there, d)) - (n[0] * T[i, 9] + n[1] * T[i, 10] + n[2] * T[i, 11])
    store_at(place.error, i, 0, in_rows(contacts, place, i, scale3(height, n)))


@inline
def shift(contacts, i, a, x):
    """d'[x]."""
    n = normal_of(contacts, i)
    c, alpha = dot3(n, a), dot3(n, x)
    m = 1.0 / square_root(1.0 - c * c)
    bent = scale3(m * m * m * c * alpha, sub3(n, scale3(c, a)))
    return scale3(-contacts.wheel[i, 0], sub3(bent, scale3(m, add3(scale3(alpha, a), scale3(c, x)))))


@inline
def turn(contacts, i, a, x):
    """e'[x]."""
    n = normal_of(contacts, i)
    c, alpha = dot3(n, a), dot3(n, x)
    m = 1.0 / square_root(1.0 - c * c)
    return add3(scale3(m * m * m * c * alpha, across(contacts, i, a)), scale3(m, across(contacts, i, x)))


@inline
def turn_twice(contacts, i, a, x, y, z):
    """e''[x, y] + e'[z]."""
    n = normal_of(contacts, i)
    c, alpha, beta, zeta = dot3(n, a), dot3(n, x), dot3(n, y), dot3(n, z)
    m = 1.0 / square_root(1.0 - c * c)
    mx, my = m * m * m * c * alpha, m * m * m * c * beta
    mxy = (m * m * m + 3.0 * m * m * m * m * m * c * c) * alpha * beta + m * m * m * c * zeta
    once = add3(scale3(mx, across(contacts, i, y)), scale3(my, across(contacts, i, x)))
    return add3(scale3(mxy, across(contacts, i, a)), add3(once, scale3(m, across(contacts, i, z))))


@inline
def bend(contacts, i, a, x, y, z):
    """d''[x, y] + d'[z]."""
    n = normal_of(contacts, i)
    c, alpha, beta, zeta = dot3(n, a), dot3(n, x), dot3(n, y), dot3(n, z)
    m = 1.0 / square_root(1.0 - c * c)
    mx, my, q = m * m * m * c * alpha, m * m * m * c * beta, sub3(n, scale3(c, a))
    mxy = (m * m * m + 3.0 * m * m * m * m * m * c * c) * alpha * beta + m * m * m * c * zeta
    qx, qy = add3(scale3(alpha, a), scale3(c, x)), add3(scale3(beta, a), scale3(c, y))  # less their signs
    qxy = add3(add3(scale3(zeta, a), scale3(alpha, y)), add3(scale3(beta, x), scale3(c, z)))
    total = sub3(scale3(mxy, q), add3(add3(scale3(mx, qy), scale3(my, qx)), scale3(m, qxy)))
    return scale3(-contacts.wheel[i, 0], total)


@kernel
def roll(tree, contacts, a, ws, place):
    """place.roll := twists of bodies of accelerations a, where anything rolls."""
    for i in range(contacts.count):
        if contacts.kind[i] == ROLLING:
            for b in range(tree.nb):
                parent = tree.parent[b]
                w = place.roll[parent] if parent >= 0 else scale6(0.0, ws.s[tree.iv[b]])  # roll[b] may be old NaN yet
                for k in range(tree.iv[b], tree.iv[b] + tree.nj[b]):
                    w = add6(w, scale6(a[k], ws.s[k]))
                place.roll[b] = w
            return


@inline
def before(tree, twists, b):
    """The twist of the body that carries b."""
    parent = tree.parent[b]
    return twists[parent] if parent >= 0 else scale6(0.0, twists[b])


@inline
def seen(contacts, i, v, w):
    """w° = ka w + kd v of a body; of impacts there is no w."""
    own = scale6(contacts.gains[i, 1], v)
    return add6(scale6(contacts.gains[i, 0], w), own) if contacts.gains[i, 0] != 0.0 else own


@inline
def rates(place, i, s, w, chi):
    """D_k u and D_k ω, one behind the other."""
    sa, u = angular(s), velocity_at(place.p[i], w)
    Du, Dw = add3(cross3(sa, u), velocity_at(place.p[i], chi)), add3(cross3(sa, angular(w)), angular(chi))
    return (Du[0], Du[1], Du[2], Dw[0], Dw[1], Dw[2])


@inline
def slip_rate(contacts, place, i, s, w, chi):
    """Rows of D_k g."""
    x = cross3(angular(s), place.axle[i])
    rate = velocity_rate(place.d[i], rates(place, i, s, w, chi), w, shift(contacts, i, place.axle[i], x))
    if slides(contacts, i):
        turned = dot3(turn(contacts, i, place.axle[i], x), velocity(place, i, w))
        return (turned + dot3(place.held[i], rate), 0.0 * turned, dot3(normal_of(contacts, i), rate))
    return rate


@inline
def velocity_rate(d, D, w, Dd):
    """D_k g of D_k u and D_k ω, one behind the other, and D_k d."""
    return add3((D[0], D[1], D[2]), add3(cross3((D[3], D[4], D[5]), d), cross3(angular(w), Dd)))


@inline
def velocity(place, i, m):
    """g of a twist m."""
    return add3(velocity_at(place.p[i], m), cross3(angular(m), place.d[i]))


@inline
def slip(contacts, place, i, m):
    """Rows of g of a twist m; of s_k, J_k."""
    return in_rows(contacts, place, i, velocity(place, i, m))


@apart
def roll_jacobian(tree, contacts, i, ws, place, J):
    """Rows of ``contact_jacobian`` of one wheel."""
    b, r = contacts.body[i], contacts.row[i]
    k = tree.iv[b] + tree.nj[b] - 1
    while k >= 0:
        store_below(J, r, k, slip(contacts, place, i, ws.s[k]))
        k = tree.previous[k]


@apart
def couple_roll(tree, contacts, i, ws, place, Ryz):
    """Columns of ``couple_forces`` of one wheel."""
    b, r = contacts.body[i], tree.nv + contacts.row[i]
    k = tree.iv[b] + tree.nj[b] - 1
    while k >= 0:
        slipped = slip_rate(contacts, place, i, ws.s[k], ws.w[b], ws.chi[k])
        for a in range(3):
            Ryz[k, r + a] = -slipped[a]
        k = tree.previous[k]


@apart
def roll_derivatives(tree, contacts, i, ws, place, dq, dv):
    """Rows of ``contact_derivatives`` of one wheel; needs ``roll``."""
    b, r, n = contacts.body[i], contacts.row[i], normal_of(contacts, i)
    kd, kp = contacts.gains[i, 1], contacts.gains[i, 2]
    w = seen(contacts, i, ws.v[b], place.roll[b])
    k = tree.iv[b] + tree.nj[b] - 1
    while k >= 0:
        s, own = ws.s[k], tree.body[k]
        wp = seen(contacts, i, before(tree, ws.v, own), before(tree, place.roll, own))
        J = velocity(place, i, s)
        by_q, lift = slip_rate(contacts, place, i, s, w, cross_motion(wp, s)), kp * dot3(n, J)
        store_below(dq, r, k, add3(by_q, in_rows(contacts, place, i, scale3(lift, n))))
        store_below(dv, r, k, scale3(kd, in_rows(contacts, place, i, J)))
        k = tree.previous[k]


@apart
def subtract_roll_torques(tree, contacts, i, ws, place, f, dq):
    """dq (nv, nv) -= ∂(Jᵀ f)/∂q of one wheel."""
    b, force = contacts.body[i], part3(f, contacts.row[i])
    k = tree.iv[b] + tree.nj[b] - 1
    while k >= 0:
        j = tree.iv[tree.body[k]] + tree.nj[tree.body[k]] - 1
        while j >= 0:
            nearer, farther = column_rates(contacts, place, i, force, ws.s[j], ws.s[k])
            dq[k, j] -= nearer
            if tree.body[j] != tree.body[k]:
                dq[j, k] -= farther
            j = tree.previous[j]
        k = tree.previous[k]


@inline
def column_rates(contacts, place, i, weight, sj, sk):
    """Products of weights on rows with D_j J_k and D_k J_j."""
    p, d, a, ja, ka = place.p[i], place.d[i], place.axle[i], angular(sj), angular(sk)
    Dj, Dk = shift(contacts, i, a, cross3(ja, a)), shift(contacts, i, a, cross3(ka, a))
    P, on = velocity_at(p, sk), in_world(contacts, place, i, weight)
    nearer = dot3(on, add3(cross3(ja, P), add3(cross3(cross3(ja, ka), d), cross3(ka, Dj))))
    farther = dot3(on, cross3(ja, add3(P, Dk)))
    if slides(contacts, i):
        nearer = nearer + weight[0] * dot3(turn(contacts, i, a, cross3(ja, a)), velocity(place, i, sk))
        farther = farther + weight[0] * dot3(turn(contacts, i, a, cross3(ka, a)), velocity(place, i, sj))
    return nearer, farther


@inline
def second_rate(weight, d, omega, Dd, D, ja, chij, P, moved, bent):
    """weight·D_j D_k g; D: D_k u and D_k ω, moved: D_j ω and D_j d, Dd: D_k d, bent: D_j D_k d."""
    Dwk, Dwj, Ddj = (D[3], D[4], D[5]), moved[0], moved[1]
    u = add3(cross3(ja, (D[0], D[1], D[2])), cross3(chij, P))
    total = add3(u, add3(cross3(cross3(ja, Dwk), d), cross3(omega, bent)))
    return dot3(weight, add3(total, add3(cross3(Dwk, Ddj), cross3(Dwj, Dd))))


@apart
def add_roll_curvature(tree, contacts, i, ws, place, nu, f, qq, qv, qa):
    """Add the second order of ``νᵀ c - fᵀ g(q, μ)`` of one wheel; needs ``roll``, and w and χ of μ."""
    b, r, n = contacts.body[i], contacts.row[i], normal_of(contacts, i)
    ka, kd, kp = contacts.gains[i, 0], contacts.gains[i, 1], contacts.gains[i, 2]
    a, d, on_rows, force_rows = place.axle[i], place.d[i], part3(nu, r), part3(f, r)
    weight, force = in_world(contacts, place, i, on_rows), in_world(contacts, place, i, force_rows)
    w, mu, lifted = seen(contacts, i, ws.v[b], place.roll[b]), ws.w[b], kp * dot3(weight, n)
    column = place.column
    k = tree.iv[b] + tree.nj[b] - 1
    while k >= 0:
        s, own = ws.s[k], tree.body[k]
        wp = seen(contacts, i, before(tree, ws.v, own), before(tree, place.roll, own))
        chi, x = cross_motion(wp, s), cross3(angular(s), a)
        store_at(column, k, 0, rates(place, i, s, w, chi))
        store_at(column, k, 6, rates(place, i, s, mu, ws.chi[k]))
        store_at(column, k, 12, angular(chi))
        store_at(column, k, 15, x)
        store_at(column, k, 18, shift(contacts, i, a, x))
        store_at(column, k, 21, velocity_at(place.p[i], s))
        k = tree.previous[k]
    j = tree.iv[b] + tree.nj[b] - 1
    while j >= 0:
        ja, chij, chim, xj = angular(ws.s[j]), load3_at(column, j, 12), angular(ws.chi[j]), load3_at(column, j, 15)
        Ddj = load3_at(column, j, 18)
        moved, moved_mu = (load3_at(column, j, 3), Ddj), (load3_at(column, j, 9), Ddj)
        k = tree.iv[b] + tree.nj[b] - 1
        while k >= 0 and k >= tree.iv[tree.body[j]]:
            xk, Dd, P = load3_at(column, k, 15), load3_at(column, k, 18), load3_at(column, k, 21)
            bent = bend(contacts, i, a, xj, xk, cross3(ja, xk))
            D, Dm = load6_at(column, k, 0), load6_at(column, k, 6)
            value = second_rate(weight, d, angular(w), Dd, D, ja, chij, P, moved, bent)
            value = value - second_rate(force, d, angular(mu), Dd, Dm, ja, chim, P, moved_mu, bent)
            if kp != 0.0:
                value = value + lifted * dot3(n, add3(cross3(ja, P), bent))
            if slides(contacts, i):
                ej, ek = turn(contacts, i, a, xj), turn(contacts, i, a, xk)
                both = turn_twice(contacts, i, a, xj, xk, cross3(ja, xk))
                Dj, Djm = load6_at(column, j, 0), load6_at(column, j, 6)
                moves = velocity(place, i, w), velocity_rate(d, Dj, w, Ddj), velocity_rate(d, D, w, Dd)
                pushes = velocity(place, i, mu), velocity_rate(d, Djm, mu, Ddj), velocity_rate(d, Dm, mu, Dd)
                value = value + on_rows[0] * (dot3(both, moves[0]) + dot3(ek, moves[1]) + dot3(ej, moves[2]))
                value = value - force_rows[0] * (dot3(both, pushes[0]) + dot3(ek, pushes[1]) + dot3(ej, pushes[2]))
            nearer, farther = column_rates(contacts, place, i, on_rows, ws.s[j], ws.s[k])
            qq[k, j] += value
            qv[j, k] += kd * nearer
            qa[j, k] += ka * nearer
            if tree.body[k] != tree.body[j]:
                qq[j, k] += value
                qv[k, j] += kd * farther
                qa[k, j] += ka * farther
            k = tree.previous[k]
        j = tree.previous[j]


@inline
def units_of_wheel(contacts, place, i):
    """Unit forces of the rows of a wheel, about the origin."""
    p = add3(place.p[i], place.d[i])
    one, zero = 0.0 * p[0] + 1.0, 0.0 * p[0]
    x, y, z = (one, zero, zero), (zero, one, zero), (zero, zero, one)
    if slides(contacts, i):
        n = normal_of(contacts, i)
        x, y, z = place.held[i], (zero, zero, zero), (n[0] * one, n[1] * one, n[2] * one)
    return join(x, cross3(p, x)), join(y, cross3(p, y)), join(z, cross3(p, z))

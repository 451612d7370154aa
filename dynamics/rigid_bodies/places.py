# mypy: allow-untyped-defs, allow-untyped-calls
"""Loads at places: motions and wrenches there, and those that do not turn with what they act on; see loads.py."""

from ddp.compiling.kernel import inline, kernel
from dynamics.geometry.spatial import add3, add6, angular, cross3, join, rotate, unit6, velocity_at

FORCES, RATES, VIRTUAL = range(3)
"""Orders in which loads are seen: their forces, these and how they vary with motion, or second derivatives under μ."""


@inline
def at_place(x, p):
    """(t ; a) of a motion at p."""
    return velocity_at(p, x), angular(x)


@inline
def wrench_at(f, n, p):
    """The wrench of a force and a couple at p."""
    return join(f, add3(n, cross3(p, f)))


@kernel
def add_steady(k, p, f, n, K, L):
    """N of a force f with ∂f/∂p = K and a couple n at p, into row k."""
    for c in range(6):
        t, a = at_place(unit6(c), p)
        column = wrench_at(add3(rotate(K, t), cross3(f, a)), cross3(n, a), p)
        for l in range(6):
            L.N[k, 6 * l + c] += column[l]


@kernel
def add_steady_curvature(k, p, f, n, K, DK, w, L):
    """L and G of a force f, ∂f/∂p = K, D_u K, and a couple n at p under the virtual velocity w, into row k."""
    u, turn = at_place(w, p)
    Ku = rotate(K, u)
    L.G[k] = add6(L.G[k], wrench_at(Ku, add3(cross3(u, f), cross3(turn, n)), p))
    for c in range(6):
        t, a = at_place(unit6(c), p)
        Kt = rotate(K, t)
        force = add3(add3(rotate(DK, t), cross3(Ku, a)), rotate(K, cross3(a, u)))
        couple = add3(cross3(u, add3(Kt, cross3(f, a))), cross3(turn, cross3(n, a)))
        column = wrench_at(force, couple, p)
        for l in range(6):
            L.L[k, 6 * l + c] += column[l]


@kernel
def take_up(tree, b, k, p, f, n, K, DK, follows, order, ws, m, L):
    """A force f and a couple n at p, of the point k of the rod below b or, where k is -1, of body b itself.

    follows: whether they turn with their place; else ∂f/∂p = K and, of VIRTUAL order, D_u K.
    """
    row = k if k >= 0 else tree.points + b
    if order == VIRTUAL:
        if not follows:
            add_steady_curvature(row, p, f, n, K, DK, m.w[k] if k >= 0 else ws.w[b], L)
        return
    if k >= 0:
        m.f[k] = add6(m.f[k], wrench_at(f, n, p))
    else:
        ws.f[b] = add6(ws.f[b], wrench_at(f, n, p))
    if order == RATES and not follows:
        add_steady(row, p, f, n, K, L)

# mypy: allow-untyped-defs, allow-untyped-calls
"""One body after the other: where it is, how it moves, what it feels, and what it hands to the one that carries it."""

from ddp.compiling.kernel import inline
from ddp.machine.number import sine_cosine
from dynamics.geometry.joint_motion import CONTINUOUS, FREE_FLYER, REVOLUTE, joint_displacement
from dynamics.geometry.spatial import (
    add3,
    add6,
    angular,
    cross3,
    cross_force,
    cross_motion,
    inertia_times,
    join,
    linear,
    load6,
    momentum,
    momentum_operator,
    move_force,
    move_inertia,
    rotate,
    rotation_product,
    scale3,
    scale6,
    sub6,
)


@inline
def turned(tree, b, cosine, sine, angle):
    """R, p of body b, which turns about an axis, in the axes of its parent: see ``Tree.turns``."""
    A, B, C = tree.turns[3 * b], tree.turns[3 * b + 1], tree.turns[3 * b + 2]
    R = (
        A[0] + B[0] * cosine + C[0] * sine, A[1] + B[1] * cosine + C[1] * sine, A[2] + B[2] * cosine + C[2] * sine,
        A[3] + B[3] * cosine + C[3] * sine, A[4] + B[4] * cosine + C[4] * sine, A[5] + B[5] * cosine + C[5] * sine,
        A[6] + B[6] * cosine + C[6] * sine, A[7] + B[7] * cosine + C[7] * sine, A[8] + B[8] * cosine + C[8] * sine,
    )  # fmt: skip
    p = (
        tree.placement[b, 9] + tree.turns[3 * b, 9] * angle,
        tree.placement[b, 10] + tree.turns[3 * b + 1, 9] * angle,
        tree.placement[b, 11] + tree.turns[3 * b + 2, 9] * angle,
    )
    return R, p


@inline
def is_free(tree, b):
    """Whether a body is a root that is free, whose s_j are the root's axes at its origin."""
    return tree.parent[b] < 0 and tree.kind[b] == FREE_FLYER


@inline
def place_body(tree, b, q, origin_at_root, ws):
    """R, p of body b, whose parent's are known, and its columns s."""
    R, p = seen_by_parent(tree, b, q)
    iv, parent = tree.iv[b], tree.parent[b]
    if parent >= 0:
        Rp = ws.R[parent]
        p = add3(ws.p[parent], rotate(Rp, p))
        R = rotation_product(Rp, R)
    elif origin_at_root:
        p = scale3(0.0, p)
    ws.R[b] = R
    ws.p[b] = p
    if tree.kind[b] == FREE_FLYER:
        for k in range(3):
            e = (R[k], R[3 + k], R[6 + k])
            ws.s[iv + k] = join(e, scale3(0.0, e))
            ws.s[iv + 3 + k] = join(cross3(p, e), e)
    else:
        for k in range(iv, iv + tree.nj[b]):
            ws.s[k] = motion_of(R, p, tree.subspace[k])


@inline
def motion_of(R, p, S):
    """A motion S in the axes of a frame at (R, p), seen from the origin; about an axis alone it needs half the work."""
    axis = rotate(R, angular(S))
    moved = cross3(p, axis)
    if S[0] != 0.0 or S[1] != 0.0 or S[2] != 0.0:
        moved = add3(rotate(R, linear(S)), moved)
    return join(moved, axis)


@inline
def seen_by_parent(tree, b, q):
    """R, p of body b in the axes of its parent."""
    i = tree.iq[b]
    if tree.kind[b] == REVOLUTE:
        sine, cosine = sine_cosine(q[i])
        return turned(tree, b, cosine, sine, q[i])
    if tree.kind[b] == CONTINUOUS:
        return turned(tree, b, q[i], q[i + 1], 0.0 * q[i])
    local = tree.placement[b]
    R, p = (
        (local[0], local[1], local[2], local[3], local[4], local[5], local[6], local[7], local[8]),
        (local[9], local[10], local[11]),
    )
    turn, shift = joint_displacement(tree.kind[b], tree.subspace[tree.iv[b]], q, i)
    return rotation_product(R, turn), add3(p, rotate(R, shift))


@inline
def move_body(tree, b, qd, qdd, fext, ws):
    """Write what ``forces`` finds of body b, whose parent's velocity and acceleration are known."""
    zero = 0.0 * qd[0]
    g, iv, parent = tree.gravity, tree.iv[b], tree.parent[b]
    R, p = ws.R[b], ws.p[b]
    if parent >= 0:
        vp, ap = ws.v[parent], ws.a[parent]
    else:
        vp = (zero, zero, zero, zero, zero, zero)
        ap = (zero - g[0], zero - g[1], zero - g[2], zero - g[3], zero - g[4], zero - g[5])
    v, a = vp, ap
    for i in range(iv, iv + tree.nj[b]):
        v = add6(v, scale6(qd[i], ws.s[i]))
    for i in range(iv, iv + tree.nj[b]):
        s = ws.s[i]
        psi = cross_motion(vp, s)
        turned = psi if tree.nj[b] == 1 else cross_motion(v, s)  # s × s = 0
        a = add6(a, add6(scale6(qdd[i], s), scale6(qd[i], turned)))
        ws.psi[i] = psi
        ws.eta[i] = add6(psi, turned)
        ws.psidd[i] = add6(cross_motion(ap, s), cross_motion(vp, psi))
    forces_of(tree, b, R, p, v, a, fext, ws)


@inline
def forces_of(tree, b, R, p, v, a, fext, ws):
    """Write v, a, I, (h, K) and f of body b."""
    ws.v[b] = v
    ws.a[b] = a
    I = move_inertia(R, p, tree.inertia[b])
    hK = momentum_operator(I, v)
    f = add6(inertia_times(I, a), cross_force(v, momentum(hK)))
    if len(fext) > 0:
        f = sub6(f, move_force(R, p, load6(fext, b)))
    ws.Ic[b] = I
    ws.hKc[b] = hK
    ws.f[b] = f

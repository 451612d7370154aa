# mypy: allow-untyped-defs, allow-untyped-calls
"""Forward dynamics by articulated bodies (Featherstone, ch. 7), in world axes, for any number.

With a⁰ the accelerations if no joint accelerated, I and f = I a⁰ + v ×* I v of every body, from the leaves on

    U = I s,   d = 1 / (s·U + armature),   u = τ - s·f,     I_p += I - d U Uᵀ,   f_p += f + d u U

one degree of freedom after another: all share one frame, so that those of one joint are like joints in a chain; then
from the root on  q'' = d (u - U·Δa_p),  Δa = Δa_p + s q''.  A root's position is the origin: see kinematics.py. One
that is free moves along the axes of the world, and its U are columns of I: τ comes, and q'' goes, in those of the body.
Each body's inertia and force are computed on the way up, where they hide the latency of the divisions.

An articulated inertia is 21 numbers: the symmetric linear block (xx xy xz yy yz zz), the block linear x angular
(row by row), the symmetric angular block.

By the factors of M, see forward.py, in place of this, whole solves take 1.03 (reorientation), 1.06 (pendulum), 1.09
(arm/reach, arm/throw) and 1.13 (quadrotor/loop) times as long.
"""

import numpy as np

from ddp.compiling.kernel import inline, kernel
from ddp.machine.fields import Fields, rows
from ddp.machine.memory import as_matrix
from ddp.machine.number import smaller, spread
from dynamics.geometry.joint_motion import FREE_FLYER
from dynamics.geometry.spatial import (
    add3,
    add6,
    angular,
    cross3,
    cross_motion,
    dot3,
    join,
    linear,
    mass_moment,
    move_force,
    move_inertia,
    part6,
    rotate,
    rotate6,
    rotate_back6,
    rotation_product,
    scale3,
    scale6,
    sub6,
    symmetric_times,
)
from dynamics.rigid_bodies.bodies import is_free, motion_of, seen_by_parent


class Bodies(Fields):
    """Per body R, p, v, a (a⁰, then Δa), and f and I of what it carries; per degree of freedom s, U, d and u."""

    R, p, v, a, f, I = rows("nb", 9), rows("nb", 3), rows("nb", 6), rows("nb", 6), rows("nb", 6), rows("nb", 21)
    s, U, d, u = rows("nv", 6), rows("nv", 6), rows("nv", 1), rows("nv", 1)


@inline
def articulated(I):
    """A rigid body's inertia, 10 numbers, as 21."""
    zero, trace = 0.0 * I[0], I[4] + I[7] + I[9]
    return (
        I[0], zero, zero, I[0], zero, I[0],
        zero, I[3], -I[2], -I[3], zero, I[1], I[2], -I[1], zero,
        trace - I[4], -I[5], -I[6], trace - I[7], -I[8], trace - I[9],
    )  # fmt: skip


@inline
def articulated_times(I, x):
    """I x."""
    return (
        I[0] * x[0] + I[1] * x[1] + I[2] * x[2] + I[6] * x[3] + I[7] * x[4] + I[8] * x[5],
        I[1] * x[0] + I[3] * x[1] + I[4] * x[2] + I[9] * x[3] + I[10] * x[4] + I[11] * x[5],
        I[2] * x[0] + I[4] * x[1] + I[5] * x[2] + I[12] * x[3] + I[13] * x[4] + I[14] * x[5],
        I[6] * x[0] + I[9] * x[1] + I[12] * x[2] + I[15] * x[3] + I[16] * x[4] + I[17] * x[5],
        I[7] * x[0] + I[10] * x[1] + I[13] * x[2] + I[16] * x[3] + I[18] * x[4] + I[19] * x[5],
        I[8] * x[0] + I[11] * x[1] + I[14] * x[2] + I[17] * x[3] + I[19] * x[4] + I[20] * x[5],
    )


@inline
def less_square(I, d, U):
    """I - d U Uᵀ."""
    e = scale6(d, U)
    return (
        I[0] - e[0] * U[0], I[1] - e[0] * U[1], I[2] - e[0] * U[2],
        I[3] - e[1] * U[1], I[4] - e[1] * U[2], I[5] - e[2] * U[2],
        I[6] - e[0] * U[3], I[7] - e[0] * U[4], I[8] - e[0] * U[5],
        I[9] - e[1] * U[3], I[10] - e[1] * U[4], I[11] - e[1] * U[5],
        I[12] - e[2] * U[3], I[13] - e[2] * U[4], I[14] - e[2] * U[5],
        I[15] - e[3] * U[3], I[16] - e[3] * U[4], I[17] - e[3] * U[5],
        I[18] - e[4] * U[4], I[19] - e[4] * U[5], I[20] - e[5] * U[5],
    )  # fmt: skip


@inline
def add21(I, A):
    """I + A."""
    return (
        I[0] + A[0], I[1] + A[1], I[2] + A[2], I[3] + A[3], I[4] + A[4], I[5] + A[5], I[6] + A[6],
        I[7] + A[7], I[8] + A[8], I[9] + A[9], I[10] + A[10], I[11] + A[11], I[12] + A[12], I[13] + A[13],
        I[14] + A[14], I[15] + A[15], I[16] + A[16], I[17] + A[17], I[18] + A[18], I[19] + A[19], I[20] + A[20],
    )  # fmt: skip


@inline
def force(rigid, I, v, a):
    """I a + v ×* I v of a body's inertia, 10 numbers and 21, by the laws of Newton and Euler for what is at the origin.

    Its acceleration there is e = a_l + v_a × v_l:  (m e + a_a × c + v_a × (v_a × c) ; c × e + Ī a_a + v_a × Ī v_a).
    """
    c, spin, turning = mass_moment(rigid), angular(v), (I[15], I[16], I[17], I[18], I[19], I[20])
    e, about = add3(linear(a), cross3(spin, linear(v))), angular(a)
    moved = add3(add3(scale3(rigid[0], e), cross3(about, c)), cross3(spin, cross3(spin, c)))
    spun = add3(cross3(c, e), symmetric_times(turning, about))
    return join(moved, add3(spun, cross3(spin, symmetric_times(turning, spin))))


@inline
def no_wrenches(x):
    """A matrix of no wrenches, of the kind of numbers that a vector has."""
    return as_matrix(x, 0, 6)


@kernel
def place(tree, q, v, w):
    """Place bodies, from the root on: R, p, s, v, a⁰."""
    nothing, g = spread(0.0, v[0]), tree.gravity
    still = (nothing, nothing, nothing, nothing, nothing, nothing)
    falling = sub6(still, part6(g, 0))
    for b in range(tree.nb):
        iv, kind, parent = tree.iv[b], tree.kind[b], tree.parent[b]
        R, p = seen_by_parent(tree, b, q)
        if parent >= 0:
            Rp = w.R[parent]
            p = add3(w.p[parent], rotate(Rp, p))
            R = rotation_product(Rp, R)
        else:
            p = scale3(0.0, p)
        w.R[b] = R
        w.p[b] = p
        own = still
        for k in range(iv, iv + tree.nj[b]):
            if is_free(tree, b):
                s = still
            elif kind == FREE_FLYER:
                c = (k - iv) % 3
                e = (w.R[b, c], w.R[b, 3 + c], w.R[b, 6 + c])
                s = join(e, scale3(0.0, e)) if k - iv < 3 else join(cross3(p, e), e)
            else:
                s = motion_of(R, p, tree.subspace[k])
            w.s[k] = s
            own = add6(own, scale6(v[k], s))
        if is_free(tree, b):
            for k in range(6):
                w.s[iv + k, k] = 1.0
            own = rotate6(R, part6(v, iv))
        vb, a = own, falling
        if parent >= 0:
            vp = w.v[parent]
            vb, a = add6(vp, own), add6(w.a[parent], cross_motion(vp, own))
        w.v[b] = vb
        w.a[b] = a


@kernel
def forward_dynamics(tree, q, v, tau, fext, w, qdd):
    """q'' of q, v, τ; returns the smallest pivot 1/d, not positive where the mass matrix is singular.

    fext: a matrix (nb, 6), a wrench on each body in its own frame, or one of no row.
    """
    place(tree, q, v, w)
    pivot = articulate(tree, tau, fext, w)
    accelerate(tree, w, qdd)
    return pivot


@kernel
def articulate(tree, tau, fext, w):
    """Make U, d, u, from the leaves on, under torques and wrenches, see ``forward_dynamics``; the smallest pivot."""
    pivot = spread(np.inf, tau[0])
    for b in range(tree.nb - 1, -1, -1):
        iv, parent, v, a = tree.iv[b], tree.parent[b], w.v[b], w.a[b]
        R = w.R[b]
        rigid = move_inertia(R, w.p[b], tree.inertia[b])
        I = articulated(rigid)
        f = force(rigid, I, v, a)
        if len(fext) > 0:
            f = sub6(f, move_force(R, w.p[b], part6(fext[b], 0)))
        if tree.heir[b] >= 0:
            I, f = add21(I, w.I[b]), add6(f, w.f[b])
        if is_free(tree, b):
            pivot = release(tree, iv, R, rotate6(R, part6(tau, iv)), w, I, f, pivot)
            continue
        for k in range(iv + tree.nj[b] - 1, iv - 1, -1):
            s = w.s[k]
            U = articulated_times(I, s)
            D = tree.armature[k] + dot3(linear(s), linear(U)) + dot3(angular(s), angular(U))
            d, u = 1.0 / D, tau[k] - dot3(linear(s), linear(f)) - dot3(angular(s), angular(f))
            pivot = smaller(pivot, D)
            w.U[k] = U
            w.d[k] = d
            w.u[k] = u
            if parent >= 0 or k > iv:  # something carries it, or there is more to the joint
                I = less_square(I, d, U)
                f = add6(f, scale6(d * u, U))
        if parent >= 0:
            if tree.heir[parent] != b:
                I, f = add21(I, w.I[parent]), add6(f, w.f[parent])
            w.I[parent] = I
            w.f[parent] = f
    return pivot


@kernel
def release(tree, iv, R, tau, w, I, f, pivot):
    """U, d, u of the six degrees of freedom of a root that is free; returns the smallest pivot."""
    o = spread(0.0, pivot)
    for c in range(3):
        e, stiff, spun = (R[c], R[3 + c], R[6 + c]), tree.armature[iv + c], tree.armature[iv + 3 + c]
        if stiff != 0.0 or spun != 0.0:
            I = less_square(less_square(I, -stiff, join(e, (o, o, o))), -spun, join((o, o, o), e))
    I, f, pivot = released(w, iv + 5, (I[8], I[11], I[14], I[17], I[19], I[20]), I[20], tau[5] - f[5], I, f, pivot)
    I, f, pivot = released(w, iv + 4, (I[7], I[10], I[13], I[16], I[18], o), I[18], tau[4] - f[4], I, f, pivot)
    I, f, pivot = released(w, iv + 3, (I[6], I[9], I[12], I[15], o, o), I[15], tau[3] - f[3], I, f, pivot)
    I, f, pivot = released(w, iv + 2, (I[2], I[4], I[5], o, o, o), I[5], tau[2] - f[2], I, f, pivot)
    I, f, pivot = released(w, iv + 1, (I[1], I[3], o, o, o, o), I[3], tau[1] - f[1], I, f, pivot)
    I, f, pivot = released(w, iv, (I[0], o, o, o, o, o), I[0], tau[0] - f[0], I, f, pivot)
    return pivot


@inline
def released(w, k, U, D, u, I, f, pivot):
    """I, f and the smallest pivot D without one axis of the world; U: its column of I, zero for those gone before."""
    d = 1.0 / D
    w.U[k] = U
    w.d[k] = d
    w.u[k] = u
    return less_square(I, d, U), add6(f, scale6(d * u, U)), smaller(pivot, D)


@kernel
def accelerate(tree, w, qdd):
    """Make q'' and Δa, from the root on."""
    for b in range(tree.nb):
        iv, nothing = tree.iv[b], spread(0.0, qdd[0])
        if is_free(tree, b):
            for k in range(6):
                x = w.u[iv + k]
                for j in range(k):
                    x -= w.U[iv + k, j] * qdd[iv + j]
                qdd[iv + k] = w.d[iv + k] * x
            a, R = part6(qdd, iv), w.R[b]
            w.a[b] = a
            a = rotate_back6(R, a)
            for k in range(6):
                qdd[iv + k] = a[k]
            continue
        a = (nothing, nothing, nothing, nothing, nothing, nothing)
        if tree.parent[b] >= 0:
            a = w.a[tree.parent[b]]
        for k in range(iv, iv + tree.nj[b]):
            U = w.U[k]
            x = w.d[k] * ((w.u[k] - dot3(linear(U), linear(a))) - dot3(angular(U), angular(a)))
            qdd[k] = x
            a = add6(a, scale6(x, w.s[k]))
        w.a[b] = a

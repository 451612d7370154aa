# mypy: allow-untyped-defs, allow-untyped-calls
"""Centre of mass, momentum and energy of a robot, with first and second derivatives, from inverse dynamics.

The robot is put on a free base without mass. From rest, without gravity, accelerations (0, v) take a force h of the
base: the momentum about the world's origin, had these been velocities. So with τ = M (0, v)

    h = τ_base    D_i h = ∂τ_base/∂q_i    D_vi h = M_base,i    T = ½ v·τ    D_i T = ½ v·∂τ/∂q_i

and second derivatives are those of μ·τ: μ = (weight, 0) of momentum, (0, ½ v) of T. The first three rows of M are the
mass times the Jacobian of the centre of mass c. About c the angular part of h is k - c × l, and the product rule adds
the variations of c. Potential energy is -gravity·(mass c), zero at the origin. Rotors have energy, but no momentum, as
in Pinocchio.

A quantity is a kernel ``(tree, base, at_center, order, ws, x, J, H)`` of one sample (q, v) in x, of any number. It
writes x.y, J (size, n) or H (n, n), as the order of `ddp.tracing.quantities` asks.
"""

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numba import types

from ddp.compiling.kernel import inline, kernel, variant
from ddp.machine.fields import Fields, matrix_of, vector
from ddp.machine.memory import as_matrix, as_vector, columns_from, hold, memory_of, numbers_between, rows_at, rows_of
from ddp.machine.number import WIDTH
from ddp.machine.packing import pack, unpack
from ddp.tracing.quantities import FIRST, SECOND, VALUES
from dynamics.geometry.spatial import (
    add3,
    add6,
    angular,
    cross3,
    dot3,
    join,
    linear,
    mass_moment,
    part3,
    part6,
    rotate,
    scale3,
    sub3,
)
from dynamics.rigid_bodies.batch import contracted
from dynamics.rigid_bodies.inverse import inverse_dynamics_derivatives, mass_matrix
from dynamics.rigid_bodies.kinematics import Workspace, clear, composites, place_bodies
from dynamics.robots.model import Robot
from dynamics.robots.tree import HybridTree, Tree, on_free_base
from dynamics.rods import hybrid_trees
from dynamics.rods.memory import by_rods

POINTS = {"center-of-mass": 1, "origin": 0}
"""Points that angular momentum may be about."""

_floats = rows_at(types.float64)

_known: WeakKeyDictionary[Robot, Tree] = WeakKeyDictionary()
"""Trees on free bases that have been asked for."""


def floating(robot: Robot) -> Tree:
    """The tree of a robot on a free base."""
    if robot not in _known:
        tree = robot.tree
        _known[robot] = hybrid_trees.on_free_base(tree) if isinstance(tree, HybridTree) else on_free_base(tree)
    return _known[robot]


class Whole(Fields):
    """Arguments of inverse dynamics on a free base; M, ∂τ/∂q, ∂τ/∂v; the Hessian of μ·τ; a quantity's results."""

    q, v, a, mu = vector("nq"), vector("nv"), vector("nv"), vector("nv")
    M, by_q, by_v = matrix_of("nv", "nv"), matrix_of("nv", "nv"), matrix_of("nv", "nv")
    qq, qv, vv, qa = matrix_of("nv", "nv"), matrix_of("nv", "nv"), matrix_of("nv", "nv"), matrix_of("nv", "nv")
    weight, y, J, H = vector("6"), vector("6"), vector("12 nv"), matrix_of("2 nv", "2 nv")


@kernel
def begin(base, order, x):
    """Write what is equal for all samples: a base at rest in the world's axes, zeros between unrelated joints."""
    for i in range(7):
        x.q[i] = 1.0 if i == 6 else 0.0
    for i in range(base.nv):
        x.v[i] = x.a[i] = 0.0
    blocks = 7 if order == SECOND else 3 if order == FIRST else 1
    clear(as_vector(x.M), blocks * base.nv * base.nv)


@kernel
def whole_motion(base, ws, x):
    """Move all bodies as x tells, and sum what they feel."""
    composites(base, x.q, x.v, x.a, as_matrix(x.v, 0, 6), ws)


@kernel
def curve(base, weight, share, ws, x):
    """The Hessian of weight·h + share T, weight (6,): of the first ∂²/∂q∂v in qa; of both ∂²/∂q² in qq."""
    for i in range(6):
        x.mu[i] = weight[i]
    for i in range(6, base.nv):
        x.mu[i] = 0.5 * share * x.a[i]
    contracted(base, x.mu, ws, x.qq, x.qv, x.vv, x.qa)


@kernel
def add_symmetric(scale, A, n, H):
    """H += scale times the symmetric part of A without its first six rows and columns."""
    for i in range(n):
        for j in range(n):
            H[i, j] += 0.5 * scale * (A[6 + i, 6 + j] + A[6 + j, 6 + i])


@kernel
def add_center_curvature(base, force, ws, x, H):
    """H += the Hessian by q of force·(mass c), force (3,)."""
    zero = scale3(0.0, force)
    curve(base, join(force, zero), 0.0, ws, x)
    add_symmetric(1.0, x.qa, base.nv - 6, H)


def find_center(tree, base, order, ws, x, J, H):
    """c [m], and its Jacobian or the Hessian of weight·c, as the order asks."""


@kernel
def _center_of_bodies(tree, base, order, ws, x, J, H):
    """Find c of rigid bodies, without their dynamics: e = Σ m c of all that a degree of freedom k carries moves it,

    M D_k c = m s_k + s_ka × e,   D_j D_k c = s_ja × D_k c,   j before k, and in one joint the symmetric part of it.
    Inverse dynamics takes three times as long to find that.
    """
    zero = 0.0 * x.q[7]
    total = (zero, zero, zero, zero, zero, zero)
    place_bodies(tree, x.q[7:], False, ws)
    for b in range(tree.nb):
        I = tree.inertia[b]
        e = add3(rotate(ws.R[b], mass_moment(I)), scale3(I[0], ws.p[b]))
        ws.f[b] = (I[0] + zero, e[0], e[1], e[2], zero, zero)
    for b in range(tree.nb - 1, -1, -1):
        if tree.parent[b] >= 0:
            ws.f[tree.parent[b]] = add6(ws.f[tree.parent[b]], ws.f[b])
        else:
            total = add6(total, ws.f[b])
    per_mass = 1.0 / total[0]
    for k in range(3):
        x.y[k] = per_mass * total[1 + k]
    for i in range(tree.nv if order != VALUES else 0):
        s, carried = ws.s[i], ws.f[tree.body[i]]
        moved = add3(scale3(carried[0], linear(s)), cross3(angular(s), mass_moment(carried)))
        if order == SECOND:
            ws.Y[i] = join(scale3(per_mass, moved), cross3(part3(x.weight, 0), angular(s)))
        for k in range(3 if order == FIRST else 0):
            J[k, i] = per_mass * moved[k]
    if order == SECOND:
        clear(as_vector(H), tree.nv * tree.nv)
        for i in range(tree.nv):
            b, own = tree.body[i], ws.Y[i]
            j = tree.iv[b] + tree.nj[b] - 1
            while j >= 0:
                h = dot3(angular(ws.Y[j]), linear(own))
                if tree.body[j] == b:
                    h = 0.5 * (h + dot3(angular(own), linear(ws.Y[j])))
                H[i, j] = H[j, i] = h
                j = tree.previous[j]


@kernel
def _center_with_rods(tree, base, order, ws, x, J, H):
    """Find c from inverse dynamics: its Hessian from ∂τ/∂q, for τ = D (weight·mass c) where the base accelerates."""
    nv = tree.nv
    for k in range(3 if order == SECOND else 0):
        x.a[k] = x.weight[k]
    whole_motion(base, ws, x)
    per_mass = 1.0 / ws.Ic[0, 0]
    if order != VALUES:
        mass_matrix(base, ws, x.M)
    if order == SECOND:
        inverse_dynamics_derivatives(base, ws, x.by_q, x.by_v)
        clear(as_vector(H), nv * nv)
        add_symmetric(per_mass, x.by_q, nv, H)
        return
    for k in range(3):
        x.y[k] = per_mass * ws.Ic[0, 1 + k]
        if order != VALUES:
            for i in range(nv):
                J[k, i] = per_mass * x.M[k, 6 + i]


by_rods(find_center, _center_of_bodies, _center_with_rods)


def takes_dynamics(tree, moving):
    """Whether a quantity, ``moving`` if it depends on v, is found from inverse dynamics."""


@inline
def _if_moving(tree, moving):
    return moving != 0


@inline
def _always(tree, moving):
    return True


by_rods(takes_dynamics, _if_moving, _always)


@kernel
def center(tree, base, at_center, order, ws, x, J, H):
    """c [m]."""
    find_center(tree, base, order, ws, x, J, H)


@kernel
def energy(tree, base, at_center, order, ws, x, J, H):
    """T + U [J]."""
    nv, v, w = tree.nv, x.a[6:], x.weight[0]
    zero = 0.0 * v[0]
    falling = (zero - tree.gravity[0], zero - tree.gravity[1], zero - tree.gravity[2])
    whole_motion(base, ws, x)
    mass_matrix(base, ws, x.M)
    if order != VALUES:
        inverse_dynamics_derivatives(base, ws, x.by_q, x.by_v)
    if order == SECOND:
        clear(as_vector(H), 4 * nv * nv)
        add_center_curvature(base, scale3(w, falling), ws, x, H)
        curve(base, (zero, zero, zero, zero, zero, zero), 1.0, ws, x)
        add_symmetric(w, x.qq, nv, H)
        for i in range(nv):
            for j in range(nv):
                H[nv + i, nv + j] = w * x.M[6 + i, 6 + j]
                H[i, nv + j] = H[nv + j, i] = w * x.by_q[6 + j, 6 + i]
            H[nv + i, nv + i] += w * tree.armature[i]
        return
    total = dot3(falling, mass_moment(ws.Ic[0]))
    for i in range(nv):
        by_v = tree.armature[i] * v[i]
        for j in range(nv):
            by_v += x.M[6 + i, 6 + j] * v[j]
        total += 0.5 * by_v * v[i]
        if order != VALUES:
            by_q = falling[0] * x.M[0, 6 + i] + falling[1] * x.M[1, 6 + i] + falling[2] * x.M[2, 6 + i]
            for j in range(nv):
                by_q += 0.5 * v[j] * x.by_q[6 + j, 6 + i]
            J[0, i], J[0, nv + i] = by_q, by_v
    x.y[0] = total


@kernel
def momentum(tree, base, at_center, order, ws, x, J, H):
    """h about the world's origin, or with the angular part about c."""
    whole_motion(base, ws, x)
    nv, I, h = tree.nv, ws.Ic[0], ws.f[0]
    per_mass = 1.0 / I[0]
    c = scale3(per_mass, mass_moment(I))
    if order != VALUES:
        mass_matrix(base, ws, x.M)
        inverse_dynamics_derivatives(base, ws, x.by_q, x.by_v)
    if order != SECOND:
        about = join(linear(h), sub3(angular(h), cross3(c, linear(h)))) if at_center else h
        for k in range(6):
            x.y[k] = about[k]
        if order != VALUES:
            for i in range(nv):
                by_q, by_v = column(x.by_q, 6 + i), column(x.M, 6 + i)
                if at_center:
                    moved = add3(cross3(c, linear(by_q)), cross3(scale3(per_mass, linear(by_v)), linear(h)))
                    by_q = join(linear(by_q), sub3(angular(by_q), moved))
                    by_v = join(linear(by_v), sub3(angular(by_v), cross3(c, linear(by_v))))
                for k in range(6):
                    J[k, i], J[k, nv + i] = by_q[k], by_v[k]
        return
    clear(as_vector(H), 4 * nv * nv)
    w = part6(x.weight, 0)
    turning = angular(w)
    if at_center:  # turning·(k - c × l): the part that c holds still is a weight on l, and then c moves
        w = join(sub3(linear(w), cross3(turning, c)), turning)
        add_center_curvature(base, scale3(per_mass, cross3(turning, linear(h))), ws, x, H)
    curve(base, w, 0.0, ws, x)
    add_symmetric(1.0, x.qq, nv, H)
    for i in range(nv):
        for j in range(nv):
            H[i, nv + j] += x.qa[6 + i, 6 + j]
            H[nv + j, i] += x.qa[6 + i, 6 + j]
        if at_center:
            turned = scale3(per_mass, cross3(turning, linear(column(x.M, 6 + i))))  # times x: -turning·(D_i c × x)
            for j in range(nv):
                qq, qv = dot3(turned, linear(column(x.by_q, 6 + j))), dot3(turned, linear(column(x.M, 6 + j)))
                H[i, j] -= qq
                H[j, i] -= qq
                H[i, nv + j] -= qv
                H[nv + j, i] -= qv


@inline
def column(A, j):
    """The first six numbers of a column."""
    return (A[0, j], A[1, j], A[2, j], A[3, j], A[4, j], A[5, j])


# -- batches of samples ------------------------------------------------------------------------------

quantity: Any = None


@kernel
def numbers_of(base):
    """Numbers of working memory that one sample takes."""
    memory = _floats(64)
    return numbers_between(memory, Whole(Workspace(memory, base).end, base).end)


def _of_all(tree, base, at_center, moving, a, order, y, weight, J, H):  # type: ignore[no-untyped-def]
    """A quantity of all samples, eight at a time; one alone is rounded as among others.   moving: 1 if v follows q."""
    memory = np.empty((numbers_of(base), WIDTH))
    ws = Workspace(memory_of(memory), base)
    x = Whole(ws.end, base)
    size, n = y.shape[1], H.shape[2] if order == SECOND else J.shape[2]
    jacobian, hessian = as_matrix(x.J, size, n), as_matrix(as_vector(x.H), n, n)
    if takes_dynamics(tree, moving):
        begin(base, order, x)
    for t in range(0, a.shape[0], WIDTH):
        pack(rows_of(a), t, x.q[7:], tree.nq)
        if moving:
            pack(columns_from(rows_of(a), tree.nq), t, x.a[6:], tree.nv)
        if order == SECOND:
            pack(rows_of(weight), t, x.weight, size)
        quantity(tree, base, at_center, order, ws, x, jacobian, hessian)
        if order == SECOND:
            unpack(as_vector(x.H), n * n, rows_of(H), t)
            continue
        unpack(x.y, size, rows_of(y), t)
        if order != VALUES:
            unpack(x.J, size * n, rows_of(J), t)
    hold(memory)


def _looped(one: Any) -> Any:
    """The kernel of all samples of a quantity."""
    return variant(_of_all, f"{one.py_func.__name__}_of_all", quantity=one)


center_of_all, energy_of_all, momentum_of_all = _looped(center), _looped(energy), _looped(momentum)

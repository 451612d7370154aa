# mypy: allow-untyped-defs, allow-untyped-calls
"""Motions of joints, kind by kind: where they put a body, q ⊕ ξ, q1 ⊖ q0, and their derivatives to second order.

Every kind moves its body by a subgroup of SE(3), so that its motion subspace is constant in the joint's own frame and
its adjoint, Exp, Log and their derivatives are those of SE(3) on its own twists: a joint of several degrees of freedom
is a twist (linear, angular) of six numbers with zeros, see ``slot``. Conventions are those of lie.py and Pinocchio.
"""

import numpy as np

from ddp.compiling.kernel import apart, inline, kernel
from ddp.machine.coefficients import eighth_arctangent
from ddp.machine.number import sine_cosine, square_root, where_less
from ddp.machine.rotations import arc, log_arc
from dynamics.geometry.lie import (
    bracket_contracted,
    difference_free_flyer,
    difference_spherical,
    integrate_free_flyer,
    integrate_spherical,
    jlog6,
    log6_hessian,
    quaternion_to_rotation,
    right_jacobian6,
    right_jacobian6_contracted,
)
from dynamics.geometry.spatial import cross_motion, dot6, linear, part3, part4, put, scale3, unit6

REVOLUTE, CONTINUOUS, PRISMATIC, FREE_FLYER, SPHERICAL, PLANAR, TRANSLATION, ROD = range(8)
"""One angle (helical joints also advance with it); one angle kept as (cos, sin); one length; a free body
(position, quaternion); an attitude (quaternion); a body sliding on a plane (x, y, cos, sin); a position; coefficients
of the strains of an elastic rod, whose motion is dynamics/rods/'s."""

GROUPS = (FREE_FLYER, SPHERICAL, PLANAR)
"""Kinds whose motions do not commute."""


@inline
def is_group(kind):
    """Whether a kind has motions that do not commute: one of GROUPS."""
    return kind == FREE_FLYER or kind == SPHERICAL or kind == PLANAR


@inline
def slot(kind, k):
    """Which number of the joint's twist (linear, angular) its k-th degree of freedom is."""
    if kind == SPHERICAL:
        return k + 3
    return 5 if kind == PLANAR and k == 2 else k


@inline
def twist_of(kind, x, i, h):
    """The twist (6,) that h x[i], h x[i + 1], ... are of a joint whose motions do not commute."""
    zero = 0.0 * x[i]
    a, b, c = h * x[i], h * x[i + 1], h * x[i + 2]
    if kind == FREE_FLYER:
        return a, b, c, h * x[i + 3], h * x[i + 4], h * x[i + 5]
    if kind == SPHERICAL:
        return zero, zero, zero, a, b, c
    return a, b, zero, zero, zero, c


# -- where it puts its body ------------------------------------------------------------------------------------------


@inline
def joint_displacement(kind, s, q, i):
    """(R, p) of a joint about no axis, from its numbers q[i], q[i + 1], ...; s: the motion of its first one."""
    zero = 0.0 * q[i]
    one, still = 1.0 + zero, (zero, zero, zero)
    if kind == FREE_FLYER:
        return quaternion_to_rotation(part4(q, i + 3)), part3(q, i)
    if kind == SPHERICAL:
        return quaternion_to_rotation(part4(q, i)), still
    if kind == PLANAR:
        c, sine = q[i + 2], q[i + 3]
        return (c, -sine, zero, sine, c, zero, zero, zero, one), (q[i], q[i + 1], zero)
    if kind == TRANSLATION:
        return (one, zero, zero, zero, one, zero, zero, zero, one), part3(q, i)
    return (one, zero, zero, zero, one, zero, zero, zero, one), scale3(q[i], linear(s))


# -- ⊕ and ⊖ ---------------------------------------------------------------------------------------------------------


@inline
def move_joint(kind, nj, q, i, xi, iv, scale, out):
    """out := q ⊕ scale ξ of one joint, as pinocchio.integrate; quaternions and (cos, sin) stay unit. out may be q.

    Its numbers begin at i in q and in out, at iv in ξ.
    """
    if is_group(kind) or kind == CONTINUOUS:
        _turn_joint(kind, q, i, xi, iv, scale, out)
    else:
        for k in range(nj):
            out[i + k] = q[i + k] + scale * xi[iv + k]


@apart
def _turn_joint(kind, q, i, xi, iv, scale, out):
    """`move_joint` of kinds that turn by more than a sum, apart, so that others need not load their constants."""
    if kind == FREE_FLYER:
        put(out, i, integrate_free_flyer(part3(q, i) + part4(q, i + 3), twist_of(kind, xi, iv, scale)))
    else:
        _turn_other(kind, q, i, xi, iv, scale, out)


@apart
def _turn_other(kind, q, i, xi, iv, scale, out):
    """`_turn_joint` of other joints than those of free bodies."""
    if kind == SPHERICAL:
        put(out, i, integrate_spherical(part4(q, i), scale3(scale, part3(xi, iv))))
    elif kind == PLANAR:
        put(out, i, integrate_planar(part4(q, i), scale3(scale, part3(xi, iv))))
    else:
        put(out, i, turn_circle(q[i], q[i + 1], scale * xi[iv]))


@inline
def joint_difference(kind, nj, q0, q1, i, out, iv):
    """out := q1 ⊖ q0 of one joint, as pinocchio.difference, whose numbers begin at i in q0 and q1, at iv in out."""
    if is_group(kind) or kind == CONTINUOUS:
        _turn_between(kind, q0, q1, i, out, iv)
    else:
        for k in range(nj):
            out[iv + k] = q1[i + k] - q0[i + k]


@apart
def _turn_between(kind, q0, q1, i, out, iv):
    """`joint_difference` of kinds whose difference is no subtraction."""
    if kind == FREE_FLYER:
        put(out, iv, difference_free_flyer(part3(q0, i) + part4(q0, i + 3), part3(q1, i) + part4(q1, i + 3)))
    else:
        _turn_between_other(kind, q0, q1, i, out, iv)


@apart
def _turn_between_other(kind, q0, q1, i, out, iv):
    """`_turn_between` of other joints than those of free bodies."""
    if kind == SPHERICAL:
        put(out, iv, difference_spherical(part4(q0, i), part4(q1, i)))
    elif kind == PLANAR:
        put(out, iv, difference_planar(part4(q0, i), part4(q1, i)))
    else:
        out[iv] = angle_of(q0[i] * q1[i] + q0[i + 1] * q1[i + 1], q0[i] * q1[i + 1] - q0[i + 1] * q1[i])


# -- derivatives, in the joint's own numbers, of joints whose motions do not commute ---------------------------------


@apart
def joint_jacobian(kind, nj, xi, J):
    """J: q ⊕ ξ moves by J δξ.

    Here and below matrices are (nj, nj), the first rows and columns of scratch (6, 6); ξ and weights are twists.
    """
    right_jacobian6(xi, J)
    _keep_own(kind, nj, J)


@kernel
def joint_transport(kind, nj, xi, T):
    """T: q ⊕ ξ moves by T δq, with T = Ad_{Exp(-ξ)}."""
    right_jacobian6(xi, T)
    _transport(xi, T, T)
    _keep_own(kind, nj, T)


@apart
def joint_rates(kind, nj, xi, T, J):
    """T and J of both: q ⊕ ξ moves by T δq + J δξ."""
    right_jacobian6(xi, J)
    _transport(xi, J, T)
    _keep_own(kind, nj, T)
    _keep_own(kind, nj, J)


@inline
def _transport(xi, Jr, T):
    """T (6, 6) := Ad_{Exp(-ξ)} = 1 - ad_ξ Jr(ξ) of twists; T may be Jr."""
    for c in range(6):
        turned = cross_motion(xi, (Jr[0, c], Jr[1, c], Jr[2, c], Jr[3, c], Jr[4, c], Jr[5, c]))
        for i in range(6):
            T[i, c] = (1.0 if i == c else 0.0) - turned[i]


@kernel
def joint_curvature(kind, nj, xi, weight, J, C, D):
    """J of ``joint_jacobian``, and C, D: weight·(q ⊕ ξ) is to second order ½ η·C η + δq·D η with η = δξ."""
    right_jacobian6(xi, J)
    right_jacobian6_contracted(xi, weight, C)
    bracket_contracted(xi, weight, J, D)
    _keep_own(kind, nj, J)
    _keep_own(kind, nj, C)
    _keep_own(kind, nj, D)


@kernel
def joint_log_jacobian(kind, nj, xi, J):
    """J: (q1 ⊕ δ) ⊖ q0 is ξ + J δ to first order, where ξ = q1 ⊖ q0."""
    jlog6(xi, J)
    _keep_own(kind, nj, J)


@kernel
def joint_log_hessian(kind, nj, xi, weight, H):
    """The Hessian H of weight·((q1 ⊕ δ) ⊖ q0) at δ = 0, where ξ = q1 ⊖ q0."""
    log6_hessian(xi, weight, H)
    _keep_own(kind, nj, H)


@kernel
def joint_bracket(kind, nj, x, M):
    """M: [x, y] = M y of a joint's tangent vectors, x a twist."""
    for k in range(nj):
        turned = cross_motion(x, _unit_twist(kind, k))
        for i in range(nj):
            M[i, k] = turned[slot(kind, i)]


@kernel
def joint_bracket_contracted(kind, nj, weight, M):
    """M: weight·[x, y] = x·M y of a joint's tangent vectors."""
    for i in range(nj):
        for k in range(nj):
            M[i, k] = dot6(weight, cross_motion(_unit_twist(kind, i), _unit_twist(kind, k)))


@inline
def turned_back(M, nj, x, i, k):
    """(Mᵀ x)_k of a joint's matrix (nj, nj), in scratch (6, 6), and numbers that begin at x[i]."""
    total = M[0, k] * x[i]
    for l in range(1, nj):
        total += M[l, k] * x[i + l]
    return total


@inline
def _unit_twist(kind, k):
    """The twist (6,) of a joint's k-th degree of freedom at unit speed."""
    return unit6(slot(kind, k))


@inline
def _keep_own(kind, nj, M):
    """Move what belongs to a joint's own numbers to the front of a (6, 6) matrix of twists: columns, then rows."""
    if nj < 6:
        last = nj - 1  # the last one repeated
        a, b, c = slot(kind, 0), slot(kind, min(1, last)), slot(kind, min(2, last))
        d, e = slot(kind, min(3, last)), slot(kind, min(4, last))
        for i in range(6):
            row = (M[i, a], M[i, b], M[i, c], M[i, d], M[i, e])
            for k in range(nj):
                M[i, k] = row[k]
        for k in range(nj):
            column = (M[a, k], M[b, k], M[c, k], M[d, k], M[e, k])
            for i in range(nj):
                M[i, k] = column[i]


# -- angles, and poses in a plane ------------------------------------------------------------------------------------


@inline
def angle_of(c, s):
    """The angle in [-π, π] of a unit (cos, sin): 4 arctan of tan(θ/4), from half a turn away if cos < 0."""
    side = where_less(c, 0.0, -1.0, 1.0)
    half = side * s / (1.0 + side * c)
    e = half / (1.0 + square_root(1.0 + half * half))
    back = where_less(s, 0.0, -np.pi, np.pi)
    z = e * e
    return where_less(c, 0.0, back, 0.0) + 4.0 * e * (1.0 + z * eighth_arctangent(z))


@inline
def turn_circle(c, s, angle):
    """(cos, sin) turned by an angle, kept unit."""
    sine, cosine = sine_cosine(angle)
    x, y = c * cosine - s * sine, s * cosine + c * sine
    k = 1.5 - 0.5 * (x * x + y * y)
    return k * x, k * y


@inline
def integrate_planar(q, xi):
    """``q ⊕ xi`` of (x, y, cos, sin) with xi = (v_x, v_y, ω) in the body's axes, as pin.integrate."""
    x, y = arc(xi[2], xi)
    cosine, sine = turn_circle(q[2], q[3], xi[2])
    return q[0] + q[2] * x - q[3] * y, q[1] + q[3] * x + q[2] * y, cosine, sine


@inline
def difference_planar(q0, q1):
    """``q1 ⊖ q0`` of (x, y, cos, sin), as pin.difference."""
    angle = angle_of(q0[2] * q1[2] + q0[3] * q1[3], q0[2] * q1[3] - q0[3] * q1[2])
    dx, dy = q1[0] - q0[0], q1[1] - q0[1]
    x, y = q0[2] * dx + q0[3] * dy, q0[2] * dy - q0[3] * dx
    x, y = log_arc(angle, (x, y))
    return x, y, angle

# mypy: allow-untyped-defs, allow-untyped-calls
"""Joints that move by smaller groups than SE(3), attitudes and poses in a plane; and all of them seen inside SE(3).

A subgroup's adjoint, Exp, Log and their derivatives are those of SE(3) on its own twists: a joint of several degrees
of freedom is a twist of six numbers with zeros, see ``joints.slot``. Conventions are those of lie.py and Pinocchio.
"""

from __future__ import annotations

import numpy as np

from ddp.compiling.kernel import inline
from dynamics.geometry.coefficients import cotangent_ratios, eighth_arctangent, stumpff
from dynamics.geometry.lie import difference_free_flyer, quaternion_exp, quaternion_log, quaternion_product
from dynamics.robots.joints import FREE_FLYER, PLANAR, SPHERICAL

# -- attitudes ---------------------------------------------------------------------------------------


@inline
def integrate_spherical(q, w):
    """``q ⊕ w`` of one quaternion (x, y, z, w), as pin.integrate: unit, and its sign left as it comes."""
    new = quaternion_product(q, quaternion_exp(w))
    k = 1.5 - 0.5 * (new[0] * new[0] + new[1] * new[1] + new[2] * new[2] + new[3] * new[3])
    return k * new[0], k * new[1], k * new[2], k * new[3]


@inline
def difference_spherical(q0, q1):
    """``q1 ⊖ q0 = log3(R0ᵀ R1)`` of one quaternion, as pin.difference."""
    return quaternion_log(quaternion_product((-q0[0], -q0[1], -q0[2], q0[3]), q1))


# -- poses in a plane --------------------------------------------------------------------------------


@inline
def angle_of(c, s):
    """The angle in [-π, π] of a unit (cos, sin): 4 arctan of tan(θ/4), from half a turn away if cos < 0."""
    side = 1.0 if c.real >= 0.0 else -1.0
    half = side * s / (1.0 + side * c)
    e = half / (1.0 + np.sqrt(1.0 + half * half))
    turn = 0.0 if side > 0.0 else (np.pi if s.real >= 0.0 else -np.pi)
    return turn + 4.0 * e * eighth_arctangent(e * e)


@inline
def unit_circle(c, s, angle):
    """(cos, sin) turned by an angle, kept unit."""
    a, b = np.cos(angle), np.sin(angle)
    cosine, sine = c * a - s * b, s * a + c * b
    k = 1.5 - 0.5 * (cosine * cosine + sine * sine)
    return k * cosine, k * sine


@inline
def integrate_planar(q, xi):
    """``q ⊕ xi`` of (x, y, cos, sin) with xi = (v_x, v_y, ω) in the body's axes, as pin.integrate."""
    c = stumpff(xi[2] * xi[2])
    along, across = c[1], c[2] * xi[2]
    x, y = along * xi[0] - across * xi[1], across * xi[0] + along * xi[1]
    cosine, sine = unit_circle(q[2], q[3], xi[2])
    return q[0] + q[2] * x - q[3] * y, q[1] + q[3] * x + q[2] * y, cosine, sine


@inline
def difference_planar(q0, q1):
    """``q1 ⊖ q0`` of (x, y, cos, sin), as pin.difference."""
    angle = angle_of(q0[2] * q1[2] + q0[3] * q1[3], q0[2] * q1[3] - q0[3] * q1[2])
    dx, dy = q1[0] - q0[0], q1[1] - q0[1]
    x, y = q0[2] * dx + q0[3] * dy, q0[2] * dy - q0[3] * dx
    t = angle * angle
    k, half = 1.0 - cotangent_ratios(t)[0] * t, 0.5 * angle
    return k * x + half * y, k * y - half * x, angle


# -- all of them inside SE(3) ------------------------------------------------------------------------


@inline
def twist_of(kind, v, iv, h):
    """The twist (6,) that h v[iv], h v[iv + 1], ... are of a free-flyer, spherical or planar joint."""
    zero = 0.0 * v[iv]
    if kind == FREE_FLYER:
        return (h * v[iv], h * v[iv + 1], h * v[iv + 2], h * v[iv + 3], h * v[iv + 4], h * v[iv + 5])
    if kind == SPHERICAL:
        return (zero, zero, zero, h * v[iv], h * v[iv + 1], h * v[iv + 2])
    return (h * v[iv], h * v[iv + 1], zero, zero, zero, h * v[iv + 2])


@inline
def difference_of(kind, q0, q1, i):
    """``q1 ⊖ q0`` as a twist (6,) of the free-flyer, spherical or planar joint whose numbers begin at i."""
    zero = 0.0 * q0[i]
    if kind == PLANAR:
        xi = difference_planar((q0[i], q0[i + 1], q0[i + 2], q0[i + 3]), (q1[i], q1[i + 1], q1[i + 2], q1[i + 3]))
        return (xi[0], xi[1], zero, zero, zero, xi[2])
    if kind == SPHERICAL:
        w = difference_spherical((q0[i], q0[i + 1], q0[i + 2], q0[i + 3]), (q1[i], q1[i + 1], q1[i + 2], q1[i + 3]))
        return (zero, zero, zero, w[0], w[1], w[2])
    return difference_free_flyer(
        (q0[i], q0[i + 1], q0[i + 2], q0[i + 3], q0[i + 4], q0[i + 5], q0[i + 6]),
        (q1[i], q1[i + 1], q1[i + 2], q1[i + 3], q1[i + 4], q1[i + 5], q1[i + 6]),
    )

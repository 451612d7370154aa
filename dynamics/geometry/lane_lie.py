# mypy: allow-untyped-defs, allow-untyped-calls
"""Exp and Log of joints on lanes: what lie.py and groups.py do, with selections where those branch."""

from __future__ import annotations

import numpy as np

from ddp.compiling.kernel import inline, kernel
from ddp.machine.number import all_less, sine_cosine, spread, square_root, where_less
from dynamics.geometry.coefficients import cotangent_ratio, eighth_arctangent
from dynamics.geometry.lie import quaternion_product, quaternion_to_rotation
from dynamics.geometry.spatial import cross3, dot3, rotate, rotate_back


@kernel
def coefficients(t):
    """c0 ... c3 of coefficients.py at t = θ², θ < 1e5: the series of c2 and c3 up to t = 4, sin and cos beyond."""
    four = 4.0
    near = where_less(t, four, t, four)
    even = odd = spread(1.0, t)
    for j in range(11, 0, -1):
        even = 1.0 - even * (near * (1.0 / ((2 * j + 1.0) * (2 * j + 2.0))))
        odd = 1.0 - odd * (near * (1.0 / ((2 * j + 2.0) * (2 * j + 3.0))))
    c2, c3 = 0.5 * even, odd * (1.0 / 6.0)
    c1, c0 = 1.0 - near * c3, 1.0 - near * c2
    if all_less(t, four):
        return c0, c1, c2, c3
    theta = square_root(where_less(t, four, four, t))
    sine, cosine = sine_cosine(theta)
    far1 = sine / theta
    return (
        where_less(t, four, c0, cosine), where_less(t, four, c1, far1),
        where_less(t, four, c2, (1.0 - cosine) / t), where_less(t, four, c3, (1.0 - far1) / t),
    )  # fmt: skip


@inline
def bent(a, b, c, w, p):
    """``a p + b w × p + c w (w·p)``."""
    n, s = cross3(w, p), c * dot3(w, p)
    return a * p[0] + b * n[0] + s * w[0], a * p[1] + b * n[1] + s * w[1], a * p[2] + b * n[2] + s * w[2]


@inline
def turned(old, w):
    """The quaternion ``old`` (x, y, z, w) turned by the rotation vector w, unit."""
    c = coefficients(0.25 * dot3(w, w))
    half = 0.5 * c[1]
    new = quaternion_product(old, (half * w[0], half * w[1], half * w[2], c[0]))
    k = 1.5 - 0.5 * (new[0] * new[0] + new[1] * new[1] + new[2] * new[2] + new[3] * new[3])
    return (k * new[0], k * new[1], k * new[2], k * new[3])


@inline
def free_flyer_moved(pose, xi):
    """``q ⊕ ξ`` of a free-flyer (x y z qx qy qz qw), on the side of its quaternion."""
    old, w = (pose[3], pose[4], pose[5], pose[6]), (xi[3], xi[4], xi[5])
    c = coefficients(dot3(w, w))
    move = rotate(quaternion_to_rotation(old), bent(c[1], c[2], c[3], w, (xi[0], xi[1], xi[2])))
    new = turned(old, w)
    side = new[0] * old[0] + new[1] * old[1] + new[2] * old[2] + new[3] * old[3]
    sign = where_less(side, 0.0, -1.0, 1.0)
    return (
        pose[0] + move[0], pose[1] + move[1], pose[2] + move[2],
        sign * new[0], sign * new[1], sign * new[2], sign * new[3],
    )  # fmt: skip


@inline
def logarithm(q):
    """The rotation vector w = k (x, y, z), |w| <= π, of a unit quaternion, and x cot x of half its angle.

    With s = |sin x| and c = |cos x|, tan x/4 = s/(1 + c + sqrt((1 + c)² + s²)), and x cot x = k c/2.
    """
    sign = where_less(q[3], 0.0, -1.0, 1.0)
    c, square = sign * q[3], dot3(q, q)
    e = 1.0 / (1.0 + c + square_root((1.0 + c) * (1.0 + c) + square))
    k = 8.0 * e * eighth_arctangent(square * (e * e))
    along = sign * k
    return (along * q[0], along * q[1], along * q[2]), 0.5 * k * c


@inline
def turn_between(old, new):
    """The quaternion that turns one into another."""
    return quaternion_product((-old[0], -old[1], -old[2], old[3]), new)


@inline
def attitude_between(old, new):
    """The rotation vector from one quaternion to another."""
    return logarithm(turn_between(old, new))[0]


@inline
def free_flyer_between(old, new):
    """``new ⊖ old`` of free-flyers, a twist (6,).

    β = (1 - x cot x)/θ² of small angles θ is as inaccurate as θ² is small, which is what it is multiplied by.
    """
    a, b = (old[3], old[4], old[5], old[6]), (new[3], new[4], new[5], new[6])
    w, straight = logarithm(turn_between(a, b))
    p = rotate_back(quaternion_to_rotation(a), (new[0] - old[0], new[1] - old[1], new[2] - old[2]))
    beta = (1.0 - straight) / (dot3(w, w) + 1e-200)
    moved = bent(straight, -0.5, beta, w, p)
    return (moved[0], moved[1], moved[2], w[0], w[1], w[2])


@inline
def angle_of(c, s):
    """The angle in [-π, π] of a unit (cos, sin)."""
    side = where_less(c, 0.0, -1.0, 1.0)
    half = side * s / (1.0 + side * c)
    e = half / (1.0 + square_root(1.0 + half * half))
    back = where_less(s, 0.0, -np.pi, np.pi)
    return where_less(c, 0.0, back, 0.0) + 4.0 * e * eighth_arctangent(e * e)


@inline
def circle_moved(c, s, angle):
    """(cos, sin) turned by an angle, kept unit."""
    sine, cosine = sine_cosine(angle)
    x, y = c * cosine - s * sine, s * cosine + c * sine
    k = 1.5 - 0.5 * (x * x + y * y)
    return k * x, k * y


@inline
def planar_moved(q, xi):
    """``q ⊕ ξ`` of (x, y, cos, sin), ξ = (v_x, v_y, ω) in the body's axes."""
    c = coefficients(xi[2] * xi[2])
    along, across = c[1], c[2] * xi[2]
    x, y = along * xi[0] - across * xi[1], across * xi[0] + along * xi[1]
    cosine, sine = circle_moved(q[2], q[3], xi[2])
    return q[0] + q[2] * x - q[3] * y, q[1] + q[3] * x + q[2] * y, cosine, sine


@inline
def planar_between(old, new):
    """``new ⊖ old`` of (x, y, cos, sin)."""
    angle = angle_of(old[2] * new[2] + old[3] * new[3], old[2] * new[3] - old[3] * new[2])
    dx, dy = new[0] - old[0], new[1] - old[1]
    x, y = old[2] * dx + old[3] * dy, old[2] * dy - old[3] * dx
    t = angle * angle
    k, half = 1.0 - cotangent_ratio(t) * t, 0.5 * angle
    return k * x + half * y, k * y - half * x, angle


@inline
def pose_between(R, p):
    """log6 of a displacement (R, p), a twist (6,); NaN where it turns by more than 178 degrees."""
    square = 1.0 + (R[0] + R[4] + R[8])
    root = square_root(where_less(1e-3, square, square, np.nan))
    k = 0.5 / root
    w, straight = logarithm(((R[7] - R[5]) * k, (R[2] - R[6]) * k, (R[3] - R[1]) * k, 0.5 * root))
    moved = bent(straight, -0.5, (1.0 - straight) / (dot3(w, w) + 1e-200), w, p)
    return (moved[0], moved[1], moved[2], w[0], w[1], w[2])

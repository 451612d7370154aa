# mypy: allow-untyped-defs, allow-untyped-calls
"""Exp and Log of rotations, displacements and motions in a plane, for any number: kernels', and values of traces.

3-vectors and quaternions (x, y, z, w) are tuples of numbers. Nothing here branches on a number but `all_less`, and
nothing is singular up to half a turn. `ddp.tracing.groups` follows the same functions.
"""

from ddp.compiling.kernel import inline
from ddp.machine.coefficients import cotangent_ratios, eighth_arctangent, stumpff
from ddp.machine.number import square_root, where_less

# -- vectors -----------------------------------------------------------------------------------------


@inline
def dot3(a, b):
    """``a·b``."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@inline
def cross3(a, b):
    """``a × b``."""
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


@inline
def bent(a, b, c, w, p):
    """``a p + b w × p + c w (w·p)``."""
    n, s = cross3(w, p), c * dot3(w, p)
    return a * p[0] + b * n[0] + s * w[0], a * p[1] + b * n[1] + s * w[1], a * p[2] + b * n[2] + s * w[2]


# -- rotations ---------------------------------------------------------------------------------------


@inline
def quaternion_exp(w):
    """The unit quaternion (x, y, z, w) of the rotation by |w| about w."""
    c = stumpff(0.25 * dot3(w, w))
    half = 0.5 * c[1]
    return half * w[0], half * w[1], half * w[2], c[0]


@inline
def quaternion_product(a, b):
    """The quaternion of the rotation b followed, in the outer frame, by a."""
    return (
        a[3] * b[0] + a[0] * b[3] + a[1] * b[2] - a[2] * b[1],
        a[3] * b[1] + a[1] * b[3] + a[2] * b[0] - a[0] * b[2],
        a[3] * b[2] + a[2] * b[3] + a[0] * b[1] - a[1] * b[0],
        a[3] * b[3] - a[0] * b[0] - a[1] * b[1] - a[2] * b[2],
    )


@inline
def quaternion_log(q):
    """The rotation vector w = 2x q/sin x, |w| <= π, of a unit quaternion, and β = (1 - x cot x)/|w|²: see `log6`.

    With e = tan x/4 = s/(1 + c + sqrt((1 + c)² + s²)) of s = |sin x| and c = |cos x|, and arctan e = e (1 + e² r),
    1 - x cot x is a multiple of z = e² in which nothing cancels: so β is accurate at every angle.
    """
    side = where_less(q[3], 0.0, -1.0, 1.0)
    c, square = 1.0 + side * q[3], dot3(q, q)
    i = 1.0 / (c + square_root(c * c + square))
    z = square * (i * i)
    r, less = eighth_arctangent(z), 1.0 - z
    turn = 1.0 + z * r
    k = side * (8.0 * i * turn)
    beta = (5.0 - z - r * (less * less - 4.0 * z)) / (64.0 * less * turn * turn)
    return (k * q[0], k * q[1], k * q[2]), beta


# -- displacements -----------------------------------------------------------------------------------


@inline
def screw(w, v):
    """Translation and unit quaternion of ``Exp([v; w])``.

    The quaternion needs c0 ... c3 of half the angle, of which those of the whole one are made.
    """
    t = 0.25 * dot3(w, w)
    c = stumpff(t)
    c1, c2, c3 = c[1] * c[0], 0.5 * (c[1] * c[1]), 0.25 * (c[2] + c[3] - t * (c[2] * c[3]))
    half = 0.5 * c[1]
    return bent(c1, c2, c3, w, v), (half * w[0], half * w[1], half * w[2], c[0])


@inline
def log_translation(w, beta, p):
    """The linear part of the logarithm of (Exp(w), p), β as `quaternion_log` gives it."""
    return bent(1.0 - beta * dot3(w, w), -0.5, beta, w, p)


# -- in a plane --------------------------------------------------------------------------------------


@inline
def arc(w, v):
    """The place that a twist (v, w) leads to, v (2,), w an angle."""
    c = stumpff(w * w)
    along, across = c[1], c[2] * w
    return along * v[0] - across * v[1], across * v[0] + along * v[1]


@inline
def log_arc(w, p):
    """The linear part v (2,) of the twist that leads to a place p, turned by an angle w, at most half a turn."""
    t = w * w
    k, half = 1.0 - cotangent_ratios(t)[0] * t, 0.5 * w
    return k * p[0] + half * p[1], k * p[1] - half * p[0]

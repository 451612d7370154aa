# mypy: allow-untyped-defs, allow-untyped-calls
"""Nearest points of two segments, and how these move along them; of any numbers."""

from ddp.compiling.kernel import inline, kernel
from ddp.machine.number import spread, square_root, where_less
from dynamics.geometry.spatial import dot3, scale3, sub3

TOUCHING = 1e-12
"""Axes nearer than this [m] have no normal: the world's z axis stands in for it, and nothing is curved."""

PARALLEL = 1e-12
"""Two segments are parallel if the square of the sine between them is below this."""


@inline
def _clamped(x):
    return where_less(x, 0.0, 0.0, where_less(x, 1.0, x, 1.0))


@inline
def _or_one(x):
    """Divisor: x where it is positive, one elsewhere."""
    return where_less(0.0, x, x, 1.0)


@inline
def _inside(x):
    """One where 0 < x < 1, else zero."""
    return where_less(0.0, x, where_less(x, 1.0, 1.0, 0.0), 0.0)


@kernel
def nearest(p, d, q, e):
    """Nearest points of the segments p + s d and q + t e: s, t, and whether each could move both ways (1) or not (0).

    After Ericson, Real-Time Collision Detection (2005), 5.1.9. Of parallel segments one of many pairs is taken.
    e: floats; where it is zero two of three divisions are not needed.
    """
    a, r = dot3(d, d), sub3(p, q)
    f = dot3(d, r)
    if e == (0.0, 0.0, 0.0):
        s, t = _clamped(-f / _or_one(a)), spread(0.0, f)
        return s, t, _inside(s), t
    b, c, g = dot3(d, e), dot3(e, e), dot3(e, r)
    square = a * c - b * b
    skew = where_less(PARALLEL * a * c, square, 1.0, 0.0)
    s = skew * _clamped((b * g - f * c) / _or_one(square))
    t = where_less(0.0, c, (b * s + g) / _or_one(c), -1.0)
    beyond = _clamped(where_less(1.0, t, b - f, -f) / _or_one(a))
    s = where_less(t, 0.0, beyond, where_less(1.0, t, beyond, s))
    t = _clamped(t)
    t_free = _inside(t)
    return s, t, _inside(s) * where_less(0.0, skew, 1.0, 1.0 - t_free), t_free


@inline
def normal(apart):
    """The unit vector and the length."""
    length = square_root(dot3(apart, apart))
    scale = 1.0 / where_less(TOUCHING, length, length, 1.0)
    x, y, z = scale3(scale, apart)
    touching = where_less(TOUCHING, length, 0.0, 1.0)
    keep = 1.0 - touching
    return (keep * x, keep * y, keep * z + touching), length


@inline
def free_inverse(d, e, s_free, t_free):
    """D_ff⁻¹ over the free ones of s, t: its entries ss, tt, st, zero where one is not free."""
    ss, tt, st = dot3(d, d), dot3(e, e), -dot3(d, e)
    both = s_free * t_free
    inverse = both / where_less(0.0, both, ss * tt - st * st, 1.0)
    iss = tt * inverse + (s_free - both) / _or_one(ss)
    itt = ss * inverse + (t_free - both) / _or_one(tt)
    return iss, itt, -st * inverse

# mypy: allow-untyped-defs, allow-untyped-calls
"""Distances of segments, to second order; of eight knots at once between axes of bodies and of obstacles.

Numbers of eight knots lie side by side, as in points.py, whose columns D these continue. An axis goes from an origin
P1 (3, 8) to P2 (3, 8) if it is ``long``, else it is P1 alone.   obstacles (K, 7): start, end, radius, in the world.
"""

from ddp.compiling.kernel import inline, kernel
from ddp.machine.memory import memory_of
from ddp.machine.number import spread, square_root, where_less
from dynamics.geometry.spatial import add3, dot3, part3, scale3, sub3

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
    """
    a, b, c = dot3(d, d), dot3(d, e), dot3(e, e)
    r = sub3(p, q)
    f, g = dot3(d, r), dot3(e, r)
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


@inline
def _axis(P1, P2, long):
    """Start and extent of the axis of a body."""
    p, zero = part3(P1, 0), spread(0.0, P1[0])
    d = (zero, zero, zero)
    if long:
        d = sub3(part3(P2, 0), p)
    return p, d


@inline
def _obstacle(obstacles, o):
    """Start and extent of the axis of an obstacle."""
    q = part3(obstacles[o], 0)
    return q, sub3(part3(obstacles[o], 3), q)


@kernel
def axis_distances(P1, P2, long, obstacles, C):
    """C (K, 8) := distances of a body's axis and those of obstacles."""
    out = memory_of(C)
    p, d = _axis(memory_of(P1), memory_of(P2), long)
    for o in range(obstacles.shape[0]):
        q, e = _obstacle(obstacles, o)
        s, t, _, _ = nearest(p, d, q, e)
        apart = sub3(add3(p, scale3(s, d)), add3(q, scale3(t, e)))
        out[o] = square_root(dot3(apart, apart))


@kernel
def axis_columns(P1, P2, long, obstacles, D1, first, D2, second, m, J):
    """J (K m, 8) := the gradients of distances, where D1, D2 move both ends, of columns ``first``, ``second`` of m."""
    rows, moved1, moved2 = memory_of(J), memory_of(D1), memory_of(D2)
    p, d = _axis(memory_of(P1), memory_of(P2), long)
    for o in range(obstacles.shape[0]):
        q, e = _obstacle(obstacles, o)
        s, t, _, _ = nearest(p, d, q, e)
        n, _ = normal(sub3(add3(p, scale3(s, d)), add3(q, scale3(t, e))))
        row = rows[o * m :]
        for j in range(m):
            row[j] = spread(0.0, s)
        _add_along(scale3(1.0 - s, n), moved1, first, D1.shape[0] // 3, row)
        if long:
            _add_along(scale3(s, n), moved2, second, D2.shape[0] // 3, row)


@inline
def _add_along(n, D, columns, count, row):
    """row += nᵀ D."""
    for j in range(count):
        row[columns[j]] += dot3(n, part3(D, 3 * j))


@kernel
def add_axis_forms(P1, P2, long, obstacles, y, work, W, f1, f2):
    """W (36, 8) += the Hessian of distances times y (K, 8) in where both ends are, and f1, f2 (3, 8) the gradient.

    work (18, 8): scratch.
    """
    scratch, form, force1, force2 = memory_of(work), memory_of(W), memory_of(f1), memory_of(f2)
    weights, size = memory_of(y), 6 if long else 3
    p, d = _axis(memory_of(P1), memory_of(P2), long)
    for o in range(obstacles.shape[0]):
        if y[o].any():
            _add_distance_form(p, d, *_obstacle(obstacles, o), weights[o], size, scratch, form, force1, force2)
    for i in range(size):
        for j in range(i):
            form[6 * i + j] = form[6 * j + i]


@kernel
def _add_distance_form(p, d, q, e, weight, size, work, W, f1, f2):
    """W, its upper half, and f1, f2 of one distance: see `problems.kernels.clearances.clearance`."""
    s, t, s_free, t_free = nearest(p, d, q, e)
    apart = sub3(add3(p, scale3(s, d)), add3(q, scale3(t, e)))
    n, length = normal(apart)
    iss, itt, ist = free_inverse(d, e, s_free, t_free)
    weight = where_less(TOUCHING, length, weight, 0.0)
    factor = weight / where_less(TOUCHING, length, length, 1.0)
    _scale(1.0 - s, n, e, sub3(scale3(1.0 - s, d), apart), 0, work)
    _scale(s, n, e, add3(scale3(s, d), apart), 3, work)
    for i in range(3):
        f1[i] += weight * work[i]
        f2[i] += weight * work[3 + i]
    for i in range(size):
        ni, di, ei = factor * work[i], factor * work[12 + i], factor * work[6 + i]
        by_d, by_e = iss * di + ist * ei, itt * ei + ist * di
        for j in range(i, size):
            W[6 * i + j] += -ni * work[j] - by_d * work[12 + j] - by_e * work[6 + j]
    for i in range(3):
        W[7 * i] += factor * (1.0 - s) * (1.0 - s)
        W[7 * (3 + i)] += factor * s * s
        W[6 * i + 3 + i] += factor * s * (1.0 - s)


@inline
def _scale(share, n, e, along, begin, work):
    """Numbers ``begin`` .. begin+2 of three times six: share n, -share e, and D_sx by how an end moves."""
    work[begin], work[begin + 1], work[begin + 2] = scale3(share, n)
    work[6 + begin], work[7 + begin], work[8 + begin] = scale3(-share, e)
    work[12 + begin], work[13 + begin], work[14 + begin] = along

# mypy: allow-untyped-defs, allow-untyped-calls
"""Rotations and rigid displacements: Exp, Log and their derivatives to second order, exact at every angle.

Pinocchio's conventions: a tangent vector of SE(3) is ``[linear; angular]``, perturbations are local (on the
right), a quaternion is (x, y, z, w). 3-vectors, 6-vectors, rotations (row-major) and quaternions are tuples
of numbers; 6 x 6 matrices are written into ``out``. Every function takes floats, complex numbers and lanes alike:
selections, instead of branches, look at real parts, so that complex step goes through.

Two facts keep the formulas short.

*Dual numbers.* SE(3) is SO(3) over dual numbers, with ``ω + ε v`` for the tangent vector (v, ω): whatever is
known on SO(3) gives its SE(3) counterpart by one directional derivative along v. A matrix F(ω) becomes
``[[F, D_v F], [0, F]]``, and a quadratic form S(ω; m), contracted with (f, m), becomes
``[[0, S(f)], [S(f), S(m) + D_v S(f)]]``.

*Entire functions.* The coefficients are functions of t = |ω|² that are smooth at zero, with derivatives in
closed form: see `ddp.machine.coefficients`; Exp and Log themselves are `ddp.machine.rotations`.
"""

from ddp.compiling.kernel import inline, kernel
from ddp.machine.coefficients import cotangent_ratios, stumpff
from ddp.machine.number import square_root, where_less
from ddp.machine.rotations import (
    bent,
    cross3,
    dot3,
    log_translation,
    quaternion_exp,
    quaternion_log,
    quaternion_product,
    screw,
)
from dynamics.geometry.spatial import add3, placement, rotate, rotate_back, rotation_product, scale3, sub3

# -- rotations ---------------------------------------------------------------------------------------


@inline
def _rotation(c, w):
    """``c0 1 + c1 [w] + c2 w wᵀ``."""
    x, y, z = c[1] * w[0], c[1] * w[1], c[1] * w[2]
    u = c[2] * w[0], c[2] * w[1], c[2] * w[2]
    return (
        c[0] + u[0] * w[0], u[0] * w[1] - z, u[0] * w[2] + y,
        u[1] * w[0] + z, c[0] + u[1] * w[1], u[1] * w[2] - x,
        u[2] * w[0] - y, u[2] * w[1] + x, c[0] + u[2] * w[2],
    )  # fmt: skip


@inline
def quaternion_to_rotation(q):
    """The rotation matrix of a unit quaternion (x, y, z, w)."""
    x, y, z, w = q[0], q[1], q[2], q[3]
    return (
        1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y),
        2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x),
        2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y),
    )  # fmt: skip


@inline
def rotation_to_quaternion(R):
    """The unit quaternion of a rotation matrix, from its largest component (Shepperd's method)."""
    x, y, z, w = R[0] - R[4] - R[8], R[4] - R[0] - R[8], R[8] - R[0] - R[4], R[0] + R[4] + R[8]
    xw, yw, zw = R[7] - R[5], R[2] - R[6], R[3] - R[1]
    xy, xz, yz = R[1] + R[3], R[2] + R[6], R[5] + R[7]
    column, largest = (1.0 + x, xy, xz, xw), x
    column, largest = _larger(largest, y, column, (xy, 1.0 + y, yz, yw)), where_less(largest, y, y, largest)
    column, largest = _larger(largest, z, column, (xz, yz, 1.0 + z, zw)), where_less(largest, z, z, largest)
    column, largest = _larger(largest, w, column, (xw, yw, zw, 1.0 + w)), where_less(largest, w, w, largest)
    k = 0.5 / square_root(1.0 + largest)
    return k * column[0], k * column[1], k * column[2], k * column[3]


@inline
def _larger(a, b, x, y):
    """Four numbers y where a < b, else x."""
    return (
        where_less(a, b, y[0], x[0]), where_less(a, b, y[1], x[1]),
        where_less(a, b, y[2], x[2]), where_less(a, b, y[3], x[3]),
    )  # fmt: skip


@inline
def kept_unit(q):
    """A quaternion of almost length one, made so."""
    k = 1.5 - 0.5 * (q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3])
    return k * q[0], k * q[1], k * q[2], k * q[3]


@inline
def integrate_spherical(q, w):
    """``q ⊕ w`` of one quaternion (x, y, z, w), as pin.integrate: unit, and its sign left as it comes."""
    return kept_unit(quaternion_product(q, quaternion_exp(w)))


@inline
def difference_spherical(q0, q1):
    """``q1 ⊖ q0 = log3(R0ᵀ R1)`` of one quaternion, as pin.difference."""
    return quaternion_log(quaternion_product((-q0[0], -q0[1], -q0[2], q0[3]), q1))[0]


# -- rigid displacements -----------------------------------------------------------------------------


@inline
def exp6(xi):
    """``Exp(xi) = (R, p)``, as pin.exp6."""
    w = xi[3:6]
    return displacement(stumpff(dot3(w, w)), w, xi[0:3])


@inline
def displacement(c, w, v):
    """``Exp([v; w]) = (R, p)`` from c_0 ... c_3 at |w|²."""
    return _rotation(c, w), bent(c[1], c[2], c[3], w, v)


@inline
def log6(R, p):
    """The tangent vector xi, |angular| <= π, with ``Exp(xi) = (R, p)``, as pin.log6."""
    w, beta = quaternion_log(rotation_to_quaternion(R))
    return log_translation(w, beta, p) + w


@inline
def integrate_free_flyer(q, xi):
    """``q ⊕ xi`` of one free-flyer (x y z qx qy qz qw), as pin.integrate: unit, and on the side of q."""
    old, (moved, turn) = (q[3], q[4], q[5], q[6]), screw(xi[3:6], xi[0:3])
    move, new = rotate(quaternion_to_rotation(old), moved), kept_unit(quaternion_product(old, turn))
    k = where_less(new[0] * old[0] + new[1] * old[1] + new[2] * old[2] + new[3] * old[3], 0.0, -1.0, 1.0)
    return q[0] + move[0], q[1] + move[1], q[2] + move[2], k * new[0], k * new[1], k * new[2], k * new[3]


@inline
def difference_free_flyer(q0, q1):
    """``q1 ⊖ q0 = log6(M0⁻¹ M1)`` of one free-flyer, as pin.difference."""
    old = (q0[3], q0[4], q0[5], q0[6])
    w, beta = quaternion_log(quaternion_product((-old[0], -old[1], -old[2], old[3]), (q1[3], q1[4], q1[5], q1[6])))
    moved = rotate_back(quaternion_to_rotation(old), (q1[0] - q0[0], q1[1] - q0[1], q1[2] - q0[2]))
    return log_translation(w, beta, moved) + w


# -- first derivatives -------------------------------------------------------------------------------


@inline
def _write(f, df, w, v, out):
    """``[[F, D_v F], [0, F]]`` of ``F = f0 1 + f1 [w] + f2 w wᵀ``; df holds the derivatives of f along v."""
    for i in range(3):
        for j in range(3):
            ww = w[i] * w[j]
            out[i, j] = f[2] * ww
            out[i, 3 + j] = df[2] * ww + f[2] * (w[i] * v[j] + v[i] * w[j])
            out[3 + i, j] = 0.0
    for i in range(3):
        out[i, i] += f[0]
        out[i, 3 + i] += df[0]
        j, k = (i + 1) % 3, (i + 2) % 3
        out[j, k] -= f[1] * w[i]
        out[k, j] += f[1] * w[i]
        turn = df[1] * w[i] + f[1] * v[i]
        out[j, 3 + k] -= turn
        out[k, 3 + j] += turn
    for i in range(3):
        for j in range(3):
            out[3 + i, 3 + j] = out[i, j]


@kernel
def right_jacobian6(xi, out):
    """Jr with ``Exp(xi + d) = Exp(xi) Exp(Jr d)``, as pin.Jexp6; ``c1 1 - c2 [w] + c3 w wᵀ`` on SO(3)."""
    v, w = xi[0:3], xi[3:6]
    _, c1, c2, c3, c4, c5, _, _ = stumpff(dot3(w, w))
    s = dot3(w, v)
    _write((c1, -c2, c3), (s * (c3 - c2), -s * (2.0 * c4 - c3), s * (3.0 * c5 - c4)), w, v, out)


@kernel
def pose_error(target, R, p):
    """log6(target⁻¹ (R, p)) of a placement of twelve numbers and a frame."""
    Rt, pt = placement(target)
    back = (Rt[0], Rt[3], Rt[6], Rt[1], Rt[4], Rt[7], Rt[2], Rt[5], Rt[8])
    return log6(rotation_product(back, R), rotate_back(Rt, sub3(p, pt)))


@kernel
def jlog6(xi, out):
    """Jlog with ``log6(M Exp(d)) = xi + Jlog d`` at xi = log6(M), as pin.Jlog6(M): the inverse of Jr(xi)."""
    v, w = xi[0:3], xi[3:6]
    t = dot3(w, w)
    beta, rho, _ = cotangent_ratios(t)
    s = 2.0 * dot3(w, v)
    slope = 0.5 * beta * (beta - rho)
    _write((1.0 - beta * t, 0.5 + 0.0 * t, beta), (-s * (beta + slope * t), 0.0 * t, s * slope), w, v, out)


# -- second derivatives ------------------------------------------------------------------------------


@inline
def _write_symmetric(a, b, w, v, f, m, out):
    """``[[0, S(f)], [S(f), S(m) + D_v S(f)]]`` of a quadratic form S.

    ``S(m) = a0 (m·w) 1 + sym(w yᵀ)``,  ``y = a1 (m·w) w + a2 m + a3 m × w``.

    b holds the derivatives of the coefficients along v;  sym(x yᵀ) = (x yᵀ + y xᵀ) / 2.
    """
    mw, fw, fv = dot3(m, w), dot3(f, w), dot3(f, v)
    fxw = cross3(f, w)
    y = _combined(a[1] * fw, w, a[2], f, a[3], fxw)
    z = _combined(a[1] * (mw + fv) + b[1] * fw, w, a[2], m, a[3], cross3(m, w))
    z = add3(z, _combined(a[1] * fw, v, b[2], f, b[3], fxw))
    z = add3(z, scale3(a[3], cross3(f, v)))
    mixed, turned = fw * a[0], (mw + fv) * a[0] + fw * b[0]
    for i in range(3):
        for j in range(3):
            k = 0.5 * (w[i] * y[j] + y[i] * w[j]) + (mixed if i == j else 0.0 * mixed)
            out[i, j] = 0.0
            out[i, 3 + j] = k
            out[3 + i, j] = k
            k = 0.5 * ((w[i] * z[j] + z[i] * w[j]) + (v[i] * y[j] + y[i] * v[j]))
            out[3 + i, 3 + j] = k + (turned if i == j else 0.0 * turned)


@inline
def _combined(a, x, b, y, c, z):
    """``a x + b y + c z``."""
    return add3(add3(scale3(a, x), scale3(b, y)), scale3(c, z))


@kernel
def right_jacobian6_contracted(xi, weight, out):
    """The symmetric C with ``η·C η = weight · (D_η Jr(xi)) η`` for every η."""
    v, w = xi[0:3], xi[3:6]
    t = dot3(w, w)
    _, _, _, c3, c4, c5, c6, c7 = stumpff(t)
    s = 2.0 * dot3(w, v)
    d2, d3, d4, d5 = 0.5 * (2.0 * c4 - c3), 0.5 * (3.0 * c5 - c4), 0.5 * (4.0 * c6 - c5), 0.5 * (5.0 * c7 - c6)
    dd2, dd3 = 0.5 * (2.0 * d4 - d3), 0.5 * (3.0 * d5 - d4)
    a = c3, 2.0 * d3, -(2.0 * t * d3 + c3), -2.0 * d2
    b = s * d3, s * 2.0 * dd3, -s * (3.0 * d3 + 2.0 * t * dd3), -s * 2.0 * dd2
    _write_symmetric(a, b, w, v, weight[0:3], weight[3:6], out)


@kernel
def bracket_contracted(xi, weight, J, out):
    """The D with ``a·D η = ½ weight · [Ad_{Exp(-xi)} a, J η]`` for every a, η; J: Jr(xi).

    With weight = (f, m), columns (j, k) of J, (R, p) = Exp(xi): columns (R u, p × R u + R n) of 2 D, u = k × f and
    n = j × f + k × m.
    """
    R, p = exp6(xi)
    f, m = weight[0:3], weight[3:6]
    for i in range(3):
        j, k = (J[0, 3 + i], J[1, 3 + i], J[2, 3 + i]), (J[3, 3 + i], J[4, 3 + i], J[5, 3 + i])
        u, n = rotate(R, scale3(0.5, cross3(k, f))), scale3(0.5, add3(cross3(j, f), cross3(k, m)))
        n = add3(cross3(p, u), rotate(R, n))
        for l in range(3):
            out[l, i] = 0.0
            out[3 + l, i] = u[l]
            out[l, 3 + i] = u[l]
            out[3 + l, 3 + i] = n[l]


@kernel
def log6_hessian(xi, weight, out):
    """The symmetric Hessian of ``weight · log6(M Exp(d))`` at d = 0, where xi = log6(M)."""
    v, w = xi[0:3], xi[3:6]
    t = dot3(w, w)
    beta, rho, sigma = cotangent_ratios(t)
    s = 2.0 * dot3(w, v)
    slope, drho = 0.5 * beta * (beta - rho), 0.5 * rho * (rho - sigma)
    ab = beta - beta * beta * t
    dab = slope - 2.0 * beta * slope * t - beta * beta
    a = ab - 0.25, 3.0 * beta * beta - beta * rho, 2.0 * ab, beta
    b = s * dab, s * (6.0 * beta * slope - slope * rho - beta * drho), s * 2.0 * dab, s * slope
    _write_symmetric(a, b, w, v, weight[0:3], weight[3:6], out)

# mypy: allow-untyped-defs, allow-untyped-calls
"""Spatial algebra on tuples of scalars, after Featherstone; linear part first, as in Pinocchio.

========  ==========================================================================================
symbol    meaning (everything in world axes, at one common reference point)
========  ==========================================================================================
m, n      motion (6,): ``(m_l, m_a)``, linear and angular
f         force (6,): ``(f_l, f_a)``, force and couple
R         rotation (9,): row-major
I         rigid-body inertia (10,): mass m, first moment c = m·com (3,), second moment J = ∫ρ x xᵀ
          (xx, xy, xz, yy, yz, zz).  The usual rotational inertia is tr(J) 1 - J.
h, K      momentum operator of (I, u) for a motion u, kept doubled: with h = m u_l + u_a × c (3,) and
          K = [u_a]× J + u_l cᵀ (3, 3), it is 2h and G = 2 (tr K 1 - K) (9,). Then I u = (h ; vee K), and the Coriolis
          operator B(u) = u ×* I - I u × + (I u) ×̄* is  B(u) x = (x_a × 2h ; G x_a),  B(u)ᵀ y = (0 ; 2h × y_l + Gᵀ y_a).
          B is twice the B of Singh et al., Eq. 6, and the B of their Algorithm 1.
s         world column of one degree of freedom (6,)
ψ', ψ''   v_p × s, and a_p × s + v_p × ψ' (p: parent body); η = ψ' + v × s
v, a, w   velocity and acceleration of a body (a_0 = -gravity); w its velocity if q' were the multiplier μ
========  ==========================================================================================

The functions do not care what a number is: floats, and complex numbers for complex-step tests.
"""

from ddp.compiling.kernel import inline
from ddp.machine.rotations import cross3 as cross3
from ddp.machine.rotations import dot3 as dot3

# -- three numbers -----------------------------------------------------------------------------------


@inline
def add3(a, b):
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])


@inline
def sub3(a, b):
    return (a[0] - b[0], a[1] - b[1], a[2] - b[2])


@inline
def scale3(k, a):
    return (k * a[0], k * a[1], k * a[2])


# -- rotations ---------------------------------------------------------------------------------------


@inline
def rotate(R, a):
    return (
        R[0] * a[0] + R[1] * a[1] + R[2] * a[2],
        R[3] * a[0] + R[4] * a[1] + R[5] * a[2],
        R[6] * a[0] + R[7] * a[1] + R[8] * a[2],
    )


@inline
def rotate_back(R, a):
    """Rᵀ a."""
    return (
        R[0] * a[0] + R[3] * a[1] + R[6] * a[2],
        R[1] * a[0] + R[4] * a[1] + R[7] * a[2],
        R[2] * a[0] + R[5] * a[1] + R[8] * a[2],
    )


@inline
def rotation_product(A, B):
    x, y, z = (A[0], A[1], A[2]), (A[3], A[4], A[5]), (A[6], A[7], A[8])
    p, q, r = (B[0], B[3], B[6]), (B[1], B[4], B[7]), (B[2], B[5], B[8])
    return (
        dot3(x, p), dot3(x, q), dot3(x, r),
        dot3(y, p), dot3(y, q), dot3(y, r),
        dot3(z, p), dot3(z, q), dot3(z, r),
    )  # fmt: skip


# -- motions and forces ------------------------------------------------------------------------------


@inline
def linear(m):
    return (m[0], m[1], m[2])


@inline
def angular(m):
    return (m[3], m[4], m[5])


@inline
def join(l, a):
    return (l[0], l[1], l[2], a[0], a[1], a[2])


@inline
def add6(a, b):
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3], a[4] + b[4], a[5] + b[5])


@inline
def sub6(a, b):
    return (a[0] - b[0], a[1] - b[1], a[2] - b[2], a[3] - b[3], a[4] - b[4], a[5] - b[5])


@inline
def scale6(k, a):
    return (k * a[0], k * a[1], k * a[2], k * a[3], k * a[4], k * a[5])


@inline
def unit6(k):
    """Six zeros, but for a one as the k-th."""
    return (
        1.0 if k == 0 else 0.0, 1.0 if k == 1 else 0.0, 1.0 if k == 2 else 0.0,
        1.0 if k == 3 else 0.0, 1.0 if k == 4 else 0.0, 1.0 if k == 5 else 0.0,
    )  # fmt: skip


@inline
def rotate6(R, x):
    """(R l ; R a) of x = (l ; a)."""
    return join(rotate(R, linear(x)), rotate(R, angular(x)))


@inline
def rotate_back6(R, x):
    """(Rᵀ l ; Rᵀ a) of x = (l ; a)."""
    return join(rotate_back(R, linear(x)), rotate_back(R, angular(x)))


@inline
def dot6(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3] + a[4] * b[4] + a[5] * b[5]


@inline
def cross_motion(m, n):
    """m × n, of two motions."""
    ma = angular(m)
    return join(add3(cross3(ma, linear(n)), cross3(linear(m), angular(n))), cross3(ma, angular(n)))


@inline
def cross_force(m, f):
    """m ×* f, of a motion and a force."""
    ma = angular(m)
    return join(cross3(ma, linear(f)), add3(cross3(ma, angular(f)), cross3(linear(m), linear(f))))


@inline
def move_force(R, p, f):
    """The force f, given in a frame at (R, p), in the outer frame: (R f_l ; R f_a + p × R f_l)."""
    fl = rotate(R, linear(f))
    return join(fl, add3(rotate(R, angular(f)), cross3(p, fl)))


@inline
def move_motion(R, p, m):
    """The motion m, given in a frame at (R, p), in the outer frame: (R m_l + p × R m_a ; R m_a)."""
    turned = rotate(R, angular(m))
    return join(add3(rotate(R, linear(m)), cross3(p, turned)), turned)


@inline
def velocity_at(p, m):
    """P(m): the velocity that a motion gives the point p."""
    return add3(linear(m), cross3(angular(m), p))


@inline
def seen_motion(R, p, m):
    """The motion m of the outer frame in a frame at (R, p): (Rᵀ P(m) ; Rᵀ m_a)."""
    return join(rotate_back(R, velocity_at(p, m)), rotate_back(R, angular(m)))


@inline
def seen_force(R, p, f):
    """The force f of the outer frame in a frame at (R, p): (Rᵀ f_l ; Rᵀ (f_a - p × f_l))."""
    return join(rotate_back(R, linear(f)), rotate_back(R, sub3(angular(f), cross3(p, linear(f)))))


# -- inertias ----------------------------------------------------------------------------------------


@inline
def mass_moment(I):
    return (I[1], I[2], I[3])


@inline
def symmetric_times(J, a):
    """J a, with J = (xx, xy, xz, yy, yz, zz)."""
    return (
        J[0] * a[0] + J[1] * a[1] + J[2] * a[2],
        J[1] * a[0] + J[3] * a[1] + J[4] * a[2],
        J[2] * a[0] + J[4] * a[1] + J[5] * a[2],
    )


@inline
def second_moment(I):
    return (I[4], I[5], I[6], I[7], I[8], I[9])


@inline
def inertia_times(I, x):
    """I x = (m x_l + x_a × c ; tr(J) x_a - J x_a + c × x_l)."""
    xl, xa, c = linear(x), angular(x), mass_moment(I)
    turned = symmetric_times((I[7] + I[9], -I[5], -I[6], I[4] + I[9], -I[8], I[4] + I[7]), xa)
    return join(add3(scale3(I[0], xl), cross3(xa, c)), add3(turned, cross3(c, xl)))


@inline
def move_inertia(R, p, I):
    """The inertia I, given in a frame at (R, p), in the outer frame: c' = R c + m p, J' = R J Rᵀ + (R c) pᵀ + p c'ᵀ."""
    c = rotate(R, mass_moment(I))
    e = add3(c, scale3(I[0], p))  # c'
    J = second_moment(I)
    a = rotate(R, symmetric_times(J, (R[0], R[1], R[2])))  # R J Rᵀ, column by column
    b = rotate(R, symmetric_times(J, (R[3], R[4], R[5])))
    d = rotate(R, symmetric_times(J, (R[6], R[7], R[8])))
    return (
        I[0] + 0.0 * p[0], e[0], e[1], e[2],
        a[0] + c[0] * p[0] + p[0] * e[0], a[1] + c[0] * p[1] + p[0] * e[1], a[2] + c[0] * p[2] + p[0] * e[2],
        b[1] + c[1] * p[1] + p[1] * e[1], b[2] + c[1] * p[2] + p[1] * e[2],
        d[2] + c[2] * p[2] + p[2] * e[2],
    )  # fmt: skip


# -- the momentum and Coriolis operators -------------------------------------------------------------


@inline
def momentum_operator(I, u):
    """(2h, G) of an inertia under a motion, as (12,)."""
    n, c, J = scale6(-2.0, u), mass_moment(I), second_moment(I)
    nl, na = linear(n), angular(n)
    x = cross3(na, (J[0], J[1], J[2]))  # columns of -2 [u_a]× J
    y = cross3(na, (J[1], J[3], J[4]))
    z = cross3(na, (J[2], J[4], J[5]))
    xx, yy, zz = x[0] + nl[0] * c[0], y[1] + nl[1] * c[1], z[2] + nl[2] * c[2]
    return (
        c[1] * na[2] - c[2] * na[1] - I[0] * nl[0],
        c[2] * na[0] - c[0] * na[2] - I[0] * nl[1],
        c[0] * na[1] - c[1] * na[0] - I[0] * nl[2],
        -(yy + zz), y[0] + nl[0] * c[1], z[0] + nl[0] * c[2],
        x[1] + nl[1] * c[0], -(xx + zz), z[1] + nl[1] * c[2],
        x[2] + nl[2] * c[0], y[2] + nl[2] * c[1], -(xx + yy),
    )  # fmt: skip


@inline
def momentum(hK):
    """I u = (h ; vee K)."""
    return (
        0.5 * hK[0], 0.5 * hK[1], 0.5 * hK[2],
        0.5 * (hK[8] - hK[10]), 0.5 * (hK[9] - hK[5]), 0.5 * (hK[4] - hK[6]),
    )  # fmt: skip


@inline
def coriolis_times(hK, x):
    """B x, which does not depend on the linear part of x."""
    G = (hK[3], hK[4], hK[5], hK[6], hK[7], hK[8], hK[9], hK[10], hK[11])
    return join(cross3(angular(x), (hK[0], hK[1], hK[2])), rotate(G, angular(x)))


@inline
def coriolis_transposed_times(hK, y):
    """The angular part of Bᵀ y; its linear part is zero."""
    G = (hK[3], hK[4], hK[5], hK[6], hK[7], hK[8], hK[9], hK[10], hK[11])
    return add3(cross3((hK[0], hK[1], hK[2]), linear(y)), rotate_back(G, angular(y)))


# -- plain matrices (9,), row-major --------------------------------------------------------------------


@inline
def outer3(a, b):
    """a bᵀ."""
    return scale3(a[0], b) + scale3(a[1], b) + scale3(a[2], b)


@inline
def add9(A, B):
    """A + B."""
    return (
        A[0] + B[0], A[1] + B[1], A[2] + B[2], A[3] + B[3], A[4] + B[4], A[5] + B[5], A[6] + B[6], A[7] + B[7],
        A[8] + B[8],
    )  # fmt: skip


@inline
def scale9(k, A):
    """k A."""
    return k * A[0], k * A[1], k * A[2], k * A[3], k * A[4], k * A[5], k * A[6], k * A[7], k * A[8]


# -- parts of vectors and of rows of arrays ------------------------------------------------------------


@inline
def part3(x, i):
    """Three numbers of a vector from the i-th on."""
    return (x[i], x[i + 1], x[i + 2])


@inline
def part4(x, i):
    """Four numbers of a vector from the i-th on."""
    return (x[i], x[i + 1], x[i + 2], x[i + 3])


@inline
def part6(x, i):
    """Six numbers of a vector from the i-th on."""
    return (x[i], x[i + 1], x[i + 2], x[i + 3], x[i + 4], x[i + 5])


@inline
def placement(F):
    """(R, p) of a placement of twelve numbers."""
    return (F[0], F[1], F[2], F[3], F[4], F[5], F[6], F[7], F[8]), (F[9], F[10], F[11])


@inline
def put(x, i, values):
    """Write numbers into a vector from the i-th on."""
    for k in range(len(values)):
        x[i + k] = values[k]


@inline
def load3_at(A, i, k):
    """Three numbers of row i from column k."""
    return (A[i, k], A[i, k + 1], A[i, k + 2])


@inline
def load6_at(A, i, k):
    """Six numbers of row i from column k."""
    return (A[i, k], A[i, k + 1], A[i, k + 2], A[i, k + 3], A[i, k + 4], A[i, k + 5])


@inline
def load9_at(A, i, k):
    """Nine numbers of row i from column k."""
    return (
        A[i, k], A[i, k + 1], A[i, k + 2], A[i, k + 3], A[i, k + 4], A[i, k + 5], A[i, k + 6], A[i, k + 7], A[i, k + 8],
    )  # fmt: skip


@inline
def store_at(A, i, k, values):
    """Write numbers into row i from column k."""
    for j in range(len(values)):
        A[i, k + j] = values[j]


@inline
def store_below(A, i, k, values):
    """Write numbers into column k from row i."""
    for j in range(len(values)):
        A[i + j, k] = values[j]


@inline
def load6(A, i):
    return (A[i, 0], A[i, 1], A[i, 2], A[i, 3], A[i, 4], A[i, 5])


@inline
def times6(G, a):
    """G a, of a matrix (6, 6)."""
    return (
        dot6(load6(G, 0), a), dot6(load6(G, 1), a), dot6(load6(G, 2), a),
        dot6(load6(G, 3), a), dot6(load6(G, 4), a), dot6(load6(G, 5), a),
    )  # fmt: skip


@inline
def transposed_times6(G, a):
    """Gᵀ a."""
    total = scale6(a[0], load6(G, 0))
    for i in range(1, 6):
        total = add6(total, scale6(a[i], load6(G, i)))
    return total


@inline
def couple_rate(F, N, m):
    """Σ P(m) × f over points, of F = Σ f and N = Σ p fᵀ: m_l × F + (N - tr N) m_a."""
    return add3(cross3(linear(m), F), matrix_rate(N, angular(m)))


@inline
def matrix_rate(N, a):
    """Σ (a × x) × f over points, of N = Σ x fᵀ: (N - tr N) a."""
    return sub3(rotate(N, a), scale3(N[0] + N[4] + N[8], a))


@inline
def store(A, i, value):
    """Write a tuple into row i."""
    for k in range(len(value)):
        A[i, k] = value[k]

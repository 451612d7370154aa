# mypy: allow-untyped-defs, allow-untyped-calls
"""Maps of one segment of a rod: exp(Ω), its tangent T(Ω) = Σ ad^n/(n+1)!, and derivatives of T to second order.

On rotations T is, with t = |ω|² and Stumpff's c_k(t) (ddp/machine/coefficients.py),

    T u = c1 u + c2 ω × u + c3 (ω·u) ω

and so are all its derivatives: polynomials of 3-vectors and the c_k, with c_k' = (k c_{k+2} - c_{k+1})/2. Poses need
no formulas of their own (principle of transference): a twist (l ; a) is the dual vector a + ε l, a wrench is l + ε a,
and ε² = 0. A rate in time is a second such number, Ω + δ Ω', δ² = 0. Everything here is therefore written once, for
hyper-dual numbers x + ε x_ε + δ x_δ + εδ x_εδ, kept as four parts in this order; parts are numbers, 3-vectors or
matrices (9,), row-major.

A matrix part M + ε M_ε maps a twist to a twist by [[M, M_ε], [0, M]]; the derivative of a wrench, and a Hessian by
twists, are [[0, M], [M, M_ε]]. Nothing is singular at ω = 0: a rod may be straight. Segments may turn by θ <= 2π.
"""

from typing import Any

from ddp.compiling.kernel import inline, specialised
from dynamics.geometry.spatial import (
    add3,
    add9,
    angular,
    cross3,
    dot3,
    join,
    linear,
    outer3,
    rotate,
    rotate_back,
    scale3,
)

# -- hyper-dual numbers, vectors and matrices ------------------------------------------------------------------------


@inline
def moving(m, rate):
    """The twist m + δ rate as a hyper-dual vector."""
    return angular(m), linear(m), angular(rate), linear(rate)


@inline
def pressing(f, rate):
    """The wrench f + δ rate as a hyper-dual vector."""
    return linear(f), angular(f), linear(rate), angular(rate)


def _product(a, b):
    """Product rule: ``of`` is bilinear in plain numbers, vectors or matrices."""
    first, second = add(of(a[0], b[1]), of(a[1], b[0])), add(of(a[0], b[2]), of(a[2], b[0]))
    mixed = add(add(of(a[0], b[3]), of(a[1], b[2])), add(of(a[2], b[1]), of(a[3], b[0])))
    return of(a[0], b[0]), first, second, mixed


def _sum(a, b):
    """Sum of two numbers, vectors or matrices."""
    return add(a[0], b[0]), add(a[1], b[1]), add(a[2], b[2]), add(a[3], b[3])


@inline
def _add1(x, y):
    return x + y


@inline
def _times1(x, y):
    return x * y


of: Any = None
add: Any = None
"""Kernels of plain numbers, vectors and matrices, which take their places in the two templates above."""

plus, sum3, sum9 = (
    inline(specialised(_sum, name, add=add)) for name, add in (("plus", _add1), ("sum3", add3), ("sum9", add9))
)
times = inline(specialised(_product, "times", of=_times1, add=_add1))
dot = inline(specialised(_product, "dot", of=dot3, add=_add1))
cross = inline(specialised(_product, "cross", of=cross3, add=add3))
scaled = inline(specialised(_product, "scaled", of=scale3, add=add3))
outer = inline(specialised(_product, "outer", of=outer3, add=add9))


@inline
def multiple(k, x):
    """k x of a float and a number."""
    return k * x[0], k * x[1], k * x[2], k * x[3]


@inline
def multiple3(k, a):
    """k a of a float and a vector."""
    return scale3(k, a[0]), scale3(k, a[1]), scale3(k, a[2]), scale3(k, a[3])


@inline
def symmetric9(A):
    """A + Aᵀ."""
    x, y, z = A[1] + A[3], A[2] + A[6], A[5] + A[7]
    return A[0] + A[0], x, y, x, A[4] + A[4], z, y, z, A[8] + A[8]


@inline
def symmetric(A):
    """A + Aᵀ of a matrix."""
    return symmetric9(A[0]), symmetric9(A[1]), symmetric9(A[2]), symmetric9(A[3])


@inline
def cross_and_unit3(a, x):
    """[a ×] + x 1 of plain numbers."""
    return x, -a[2], a[1], a[2], x, -a[0], -a[1], a[0], x


@inline
def cross_and_unit(a, x):
    """[a ×] + x 1 of a vector and a number."""
    return (
        cross_and_unit3(a[0], x[0]), cross_and_unit3(a[1], x[1]),
        cross_and_unit3(a[2], x[2]), cross_and_unit3(a[3], x[3]),
    )  # fmt: skip


@inline
def on_twist(M, Me, m):
    """(M + ε M_ε) of a twist: (M l + M_ε a ; M a)."""
    return join(add3(rotate(M, linear(m)), rotate(Me, angular(m))), rotate(M, angular(m)))


@inline
def on_wrench(M, Me, f):
    """(M + ε M_ε)ᵀ of a wrench: (Mᵀ l ; M_εᵀ l + Mᵀ a)."""
    return join(rotate_back(M, linear(f)), add3(rotate_back(Me, linear(f)), rotate_back(M, angular(f))))


@inline
def slope_on(M, Me, m):
    """[[0, M], [M, M_ε]] of a twist: a wrench."""
    return join(rotate(M, angular(m)), add3(rotate(M, linear(m)), rotate(Me, angular(m))))


@inline
def slope_transposed_on(M, Me, m):
    """[[0, Mᵀ], [Mᵀ, M_εᵀ]] of a twist: a wrench."""
    return join(rotate_back(M, angular(m)), add3(rotate_back(M, linear(m)), rotate_back(Me, angular(m))))


# -- coefficients ----------------------------------------------------------------------------------------------------


@inline
def ratios(t):
    """``c_1 ... c_11`` at t = θ², θ <= 2π: series of the last two, and c_k = 1/k! - t c_{k+2} downwards."""
    even, odd = 1.0 + 0.0 * t, 1.0 + 0.0 * t
    for j in range(14, 0, -1):
        even = 1.0 - even * t * (1.0 / ((2 * j + 9.0) * (2 * j + 10.0)))
        odd = 1.0 - odd * t * (1.0 / ((2 * j + 10.0) * (2 * j + 11.0)))
    c10, c11 = even * (1.0 / 3628800.0), odd * (1.0 / 39916800.0)
    c9, c8 = 1.0 / 362880.0 - t * c11, 1.0 / 40320.0 - t * c10
    c7, c6 = 1.0 / 5040.0 - t * c9, 1.0 / 720.0 - t * c8
    c5, c4 = 1.0 / 120.0 - t * c7, 1.0 / 24.0 - t * c6
    c3, c2 = 1.0 / 6.0 - t * c5, 0.5 - t * c4
    return 1.0 - t * c3, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11


@inline
def extended(k, c, t):
    """c_k of a hyper-dual t, from the plain c_k, ..., c_{k+4}."""
    first = 0.5 * (1.0 * k * c[2] - c[1])
    second = 0.25 * (1.0 * k * ((k + 2.0) * c[4] - c[3]) - ((k + 1.0) * c[3] - c[2]))
    return c[0], first * t[1], first * t[2], first * t[3] + second * t[1] * t[2]


@inline
def coefficients(omega):
    """``c_1 ... c_7`` at t = ω·ω, hyper-dual."""
    t = dot(omega, omega)
    c = ratios(t[0])
    return (
        extended(1, c, t), extended(2, c[1:], t), extended(3, c[2:], t), extended(4, c[3:], t),
        extended(5, c[4:], t), extended(6, c[5:], t), extended(7, c[6:], t),
    )  # fmt: skip


@inline
def slope_of(k, c):
    """c_k' from c_k, c_{k+1} and c_{k+2}."""
    return multiple(0.5, plus(multiple(1.0 * k, c[2]), multiple(-1.0, c[1])))


@inline
def curvature_of(k, c):
    """c_k'' from c_k, ..., c_{k+4}."""
    return multiple(0.5, plus(multiple(1.0 * k, slope_of(k + 2, c[2:])), multiple(-1.0, slope_of(k + 1, c[1:]))))


# -- the tangent and its derivatives ---------------------------------------------------------------------------------


@inline
def tangent(omega, c):
    """T as a matrix: c1 1 + c2 [ω ×] + c3 ω ωᵀ."""
    return sum9(cross_and_unit(scaled(c[1], omega), c[0]), outer(scaled(c[2], omega), omega))


@inline
def tangent_slope(omega, u, c):
    """∂(T u)/∂ω = 2 (c1' u + c2' ω × u + c3' (ω·u) ω) ωᵀ - c2 [u ×] + c3 (ω uᵀ + (ω·u) 1)."""
    along = dot(omega, u)
    pulled = sum3(scaled(slope_of(1, c), u), scaled(slope_of(2, c[1:]), cross(omega, u)))
    pulled = sum3(pulled, scaled(times(slope_of(3, c[2:]), along), omega))
    turned = cross_and_unit(scaled(multiple(-1.0, c[1]), u), times(c[2], along))
    return sum9(sum9(turned, outer(multiple3(2.0, pulled), omega)), outer(scaled(c[2], omega), u))


@inline
def transposed(omega, f, c):
    """Tᵀ f = c1 f + c2 f × ω + c3 (ω·f) ω, the gradient of f·T u by u."""
    return sum3(sum3(scaled(c[0], f), scaled(c[1], cross(f, omega))), scaled(times(c[2], dot(omega, f)), omega))


@inline
def transposed_slope(omega, f, c):
    """K = ∂(Tᵀ f)_j/∂ω_i = 2 ω (c1' f + c2' f × ω + c3' (ω·f) ω)ᵀ - c2 [f ×] + c3 (f ωᵀ + (ω·f) 1)."""
    along = dot(omega, f)
    pulled = sum3(scaled(slope_of(1, c), f), scaled(slope_of(2, c[1:]), cross(f, omega)))
    pulled = sum3(pulled, scaled(times(slope_of(3, c[2:]), along), omega))
    turned = cross_and_unit(scaled(multiple(-1.0, c[1]), f), times(c[2], along))
    return sum9(sum9(turned, outer(omega, multiple3(2.0, pulled))), outer(scaled(c[2], f), omega))


@inline
def curved(omega, f, u, c):
    """Gradient and Hessian by ω of f·T u = c1 f·u + c2 ω·b + c3 (ω·f)(ω·u), b = u × f.

    With S = c1' f·u + c2' ω·b + c3' (ω·f)(ω·u), S' likewise of c'', e = (ω·u) f + (ω·f) u and g = c2' b + c3' e

        gradient   2 S ω + c2 b + c3 e
        Hessian    2 S 1 + 4 S' ω ωᵀ + 2 (ω gᵀ + g ωᵀ) + c3 (f uᵀ + u fᵀ)
    """
    b, across, along = cross(u, f), dot(omega, f), dot(omega, u)
    e = sum3(scaled(along, f), scaled(across, u))
    A, B, C = dot(f, u), dot(omega, b), times(across, along)
    S = plus(plus(times(slope_of(1, c), A), times(slope_of(2, c[1:]), B)), times(slope_of(3, c[2:]), C))
    S2 = plus(plus(times(curvature_of(1, c), A), times(curvature_of(2, c[1:]), B)), times(curvature_of(3, c[2:]), C))
    g = sum3(scaled(slope_of(2, c[1:]), b), scaled(slope_of(3, c[2:]), e))
    gradient = sum3(scaled(multiple(2.0, S), omega), sum3(scaled(c[1], b), scaled(c[2], e)))
    half = sum9(outer(scaled(multiple(2.0, S2), omega), omega), outer(multiple3(2.0, omega), g))
    half = sum9(half, outer(scaled(c[2], f), u))
    zero = scaled(multiple(0.0, S), omega)
    return gradient, sum9(cross_and_unit(zero, multiple(2.0, S)), symmetric(half))

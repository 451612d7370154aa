# mypy: allow-untyped-defs, allow-untyped-calls
"""Scalar functions of t = θ² in Exp, Log and their derivatives: smooth at zero, for any number.

Stumpff's ``c_k(t) = Σ_j (-t)^j / (2j + k)!`` are c0 = cos θ, c1 = sin θ/θ, c2 = (1 - cos θ)/θ² and so on,
with ``c_k = 1/k! - t c_{k+2}`` and ``c_k' = (k c_{k+2} - c_{k+1})/2``. The logarithm needs the cotangent,
here by Lambert's continued fraction, whose levels have derivatives as simple.
"""

from ddp.compiling.kernel import inline, kernel
from ddp.machine.number import all_less, sine_cosine, square_root, where_less


@kernel
def stumpff(t):
    """``c_0 ... c_7`` at t = θ², 0 <= θ < 1e5.

    Up to t = 10 the series of c6 and c7 (no cancellation there) and ``c_k = 1/k! - t c_{k+2}`` downwards;
    beyond, the same relation upwards from cos and sin.
    """
    ten = 10.0
    near, far = where_less(t, ten, t, ten), where_less(t, ten, ten, t)
    even, odd = 1.0 + 0.0 * t, 1.0 + 0.0 * t
    for j in range(12, 0, -1):
        even = 1.0 - even * near * (1.0 / ((2 * j + 5.0) * (2 * j + 6.0)))
        odd = 1.0 - odd * near * (1.0 / ((2 * j + 6.0) * (2 * j + 7.0)))
    c6, c7 = even * (1.0 / 720.0), odd * (1.0 / 5040.0)
    c5, c4 = 1.0 / 120.0 - near * c7, 1.0 / 24.0 - near * c6
    c3, c2 = 1.0 / 6.0 - near * c5, 0.5 - near * c4
    c1, c0 = 1.0 - near * c3, 1.0 - near * c2
    if all_less(t, ten):
        return c0, c1, c2, c3, c4, c5, c6, c7
    theta, inverse = square_root(far), 1.0 / far
    sine, d0 = sine_cosine(theta)
    d1, d2 = sine / theta, (1.0 - d0) * inverse
    d3, d4 = (1.0 - d1) * inverse, (0.5 - d2) * inverse
    d5, d6 = (1.0 / 6.0 - d3) * inverse, (1.0 / 24.0 - d4) * inverse
    return (
        where_less(t, ten, c0, d0), where_less(t, ten, c1, d1),
        where_less(t, ten, c2, d2), where_less(t, ten, c3, d3), where_less(t, ten, c4, d4),
        where_less(t, ten, c5, d5), where_less(t, ten, c6, d6), where_less(t, ten, c7, (1.0 / 120.0 - d5) * inverse),
    )  # fmt: skip


@inline
def cotangent_ratios(t):
    """``β = (1 - x cot x)/t`` at x = θ/2, t = θ² < (2π)², and the next two levels of its continued fraction.

    ``β = 1/(4 (3 - t ρ))``, ``ρ = 1/(4 (5 - t σ))``, ``σ = 1/(4 (7 - ...))``;  ``β' = β (β - ρ)/2``,
    ``ρ' = ρ (ρ - σ)/2`` and ``(1/4 - 3β)/t = -β ρ``.  Level j is ``D_{j+1} / (4 (2j + 1) D_j)`` with
    ``D_j = D_{j+1} - t D_{j+2}/(4 (2j + 1) (2j + 3))``.
    """
    d4 = d3 = d2 = d1 = 1.0 + 0.0 * t
    for j in range(14, 0, -1):
        d4, d3, d2, d1 = d3, d2, d1, d1 - d2 * (t * (1.0 / (4.0 * (2 * j + 1.0) * (2 * j + 3.0))))
    return d2 / (12.0 * d1), d3 / (20.0 * d2), d4 / (28.0 * d3)


@inline
def eighth_arctangent(z):
    """``(arctan(e)/e - 1)/z`` of z = e² for |e| <= 0.66, to rounding: the rational function of the Cephes library."""
    p = -8.750608600031904122785e-1
    p = p * z - 1.615753718733365076637e1
    p = p * z - 7.500855792314704667340e1
    p = p * z - 1.228866684490136173410e2
    p = p * z - 6.485021904942025371773e1
    q = z + 2.485846490142306297962e1
    q = q * z + 1.650270098316988542046e2
    q = q * z + 4.328810604912902668951e2
    q = q * z + 4.853903996359136964868e2
    q = q * z + 1.945506571482613964425e2
    return p / q

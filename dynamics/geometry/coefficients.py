# mypy: allow-untyped-defs, allow-untyped-calls
"""The scalar functions of t = θ² in Exp, Log and their derivatives: smooth at zero, float64 or complex128.

Stumpff's ``c_k(t) = Σ_j (-t)^j / (2j + k)!`` are c0 = cos θ, c1 = sin θ/θ, c2 = (1 - cos θ)/θ² and so on,
with ``c_k = 1/k! - t c_{k+2}`` and ``c_k' = (k c_{k+2} - c_{k+1})/2``. The logarithm needs the cotangent,
here by Lambert's continued fraction, whose levels have derivatives as simple.
"""

from __future__ import annotations

import numpy as np

from ddp.compiling.kernel import by_types, inline, kernel
from ddp.machine.number import LanesType, all_less, sine_cosine, square_root, where_less


@inline
def _series(t, terms):
    """``720 c6`` and ``5040 c7``, by so many terms beyond 1."""
    even = 1.0 + 0.0 * t
    odd = 1.0 + 0.0 * t
    for j in range(terms, 0, -1):
        even = 1.0 - even * t * (1.0 / ((2 * j + 5.0) * (2 * j + 6.0)))
        odd = 1.0 - odd * t * (1.0 / ((2 * j + 6.0) * (2 * j + 7.0)))
    return even, odd


def stumpff(t):  # type: ignore[no-untyped-def]
    """``c_0 ... c_7`` at t = θ², 0 <= θ < 4π, of any number, inside kernels."""
    return _stumpff(t)


@by_types(stumpff)
def _which_stumpff(t):  # type: ignore[no-untyped-def]
    return _lane_stumpff if isinstance(t, LanesType) else _stumpff


@inline
def _stumpff(t):
    """Of floats and complex numbers.

    Up to t = 10 the series of c6 and c7 (no cancellation there) and ``c_k = 1/k! - t c_{k+2}`` downwards;
    beyond, the same relation upwards from cos and sin.
    """
    if t.real < 10.0:
        even, odd = _series(t, 6) if t.real < 0.5 else _series(t, 12)
        c6 = even / 720.0
        c7 = odd / 5040.0
        c5 = 1.0 / 120.0 - t * c7
        c4 = 1.0 / 24.0 - t * c6
        c3 = 1.0 / 6.0 - t * c5
        c2 = 0.5 - t * c4
        c1 = 1.0 - t * c3
        c0 = 1.0 - t * c2
    else:
        theta = np.sqrt(t)
        c0 = np.cos(theta)
        c1 = np.sin(theta) / theta
        c2 = (1.0 - c0) / t
        c3 = (1.0 - c1) / t
        c4 = (0.5 - c2) / t
        c5 = (1.0 / 6.0 - c3) / t
        c6 = (1.0 / 24.0 - c4) / t
        c7 = (1.0 / 120.0 - c5) / t
    return c0, c1, c2, c3, c4, c5, c6, c7


@kernel
def _lane_stumpff(t):
    """The same of lanes, by both ways where some are far."""
    ten = 10.0
    near, far = where_less(t, ten, t, ten), where_less(t, ten, ten, t)
    even, odd = _series(near, 12)
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
    ``ρ' = ρ (ρ - σ)/2`` and ``(1/4 - 3β)/t = -β ρ``.
    """
    fraction = 0.0 * t
    for j in range(14, 2, -1):
        fraction = 1.0 / (4.0 * (2 * j + 1.0 - t * fraction))
    rho = 1.0 / (4.0 * (5.0 - t * fraction))
    beta = 1.0 / (4.0 * (3.0 - t * rho))
    return beta, rho, fraction


@inline
def cotangent_ratio(t):
    """The same β alone, with one division: it is D_2/(12 D_1), with D_j = D_{j+1} - t D_{j+2}/(4 (2j + 1) (2j + 3))."""
    before = last = 1.0 + 0.0 * t
    for j in range(14, 0, -1):
        before, last = last, last - before * (t * (1.0 / (4.0 * (2 * j + 1.0) * (2 * j + 3.0))))
    return before / (12.0 * last)


@inline
def eighth_arctangent(z):
    """``arctan(e)/e`` of z = e² for |e| <= 0.66, to rounding: the rational function of the Cephes library."""
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
    return 1.0 + z * p / q

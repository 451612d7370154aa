"""Derivatives of an implicit function: the relation between inverse and forward dynamics, of any system.

Let z(y) solve R(y, z) = 0, with R linear in z and K = ∂R/∂z. Then (Singh et al., "Details", §IX, Eq. 274)

    z_y    = -K⁻¹ R_y
    w z_yy = ω R_yy + (ω R_yz) z_y + [(ω R_yz) z_y]ᵀ,      ω = -K⁻ᵀ w

=================  ======  =====================================================
system             z       R
=================  ======  =====================================================
free motion        a       ID(q, v, a) - S u
rigid contact      (a, f)  ID(q, v, a) - Jᵀf - S u ;  J a + J' v
impact             (v, Λ)  M (v - v⁻) - JᵀΛ ;  J (v + e v⁻)
=================  ======  =====================================================

In all of them R couples z with the configuration alone, so ω R_yz has rows for the first part of y only.
"""

from __future__ import annotations

from ddp.kernel import kernel
from dynamics.products import product


@kernel
def first_order(Kinv, Ry, zy):
    """zy = -K⁻¹ R_y: Kinv (nz, nz), Ry (nz, m) -> zy (nz, m)."""
    product(Kinv, Ry, zy)
    for i in range(zy.shape[0]):
        for j in range(zy.shape[1]):
            zy[i, j] = -zy[i, j]


@kernel
def adjoint_weight(Kinv, weight, omega):
    """ω = -K⁻ᵀ w."""
    for j in range(omega.size):
        total = Kinv[0, j] * weight[0]
        for i in range(1, weight.size):
            total = total + Kinv[i, j] * weight[i]
        omega[j] = -total


@kernel
def add_coupling(Ryz, zy, cross, qq, qv, qu):
    """Add (ω R_yz) z_y + [(ω R_yz) z_y]ᵀ to ω R_yy, by blocks of y = (q, v, u); the other blocks have no part of it.

    Ryz (k, nz) has rows for q only; zy = [z_q z_v z_u] (nz, m); cross (k, m) is scratch.
    """
    product(Ryz, zy, cross)
    k = cross.shape[0]
    for i in range(k):
        for j in range(k):
            qq[i, j] += cross[i, j] + cross[j, i]
            qv[i, j] += cross[i, k + j]
        for j in range(qu.shape[1]):
            qu[i, j] += cross[i, 2 * k + j]

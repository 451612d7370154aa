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
from dynamics.products import coupling_product, product


@kernel
def first_order(tree, Kinv, Ry, zy):
    """zy = -K⁻¹ R_y, one block (nz, nv) of columns at a time."""
    product(tree, -1.0, Kinv, Ry, zy)


@kernel
def adjoint_weight(Kinv, weight, omega):
    """ω = -K⁻ᵀ w."""
    for j in range(omega.size):
        total = Kinv[0, j] * weight[0]
        for i in range(1, weight.size):
            total = total + Kinv[i, j] * weight[i]
        omega[j] = -total


@kernel
def add_coupling(tree, Ryz, zq, zv, zu, cross, crossed, qq, qv, qu):
    """Add (ω R_yz) z_y + [(ω R_yz) z_y]ᵀ to ω R_yy, by blocks of y = (q, v, u); the other blocks have no part of it.

    Ryz (nv, nz): the rows of q, the only ones.  zq, zv, zu: blocks of z_y.  cross, crossed: scratch like zq, zu.
    """
    nv, nu = crossed.shape
    coupling_product(tree, Ryz, zq, cross)
    for i in range(nv):
        for j in range(nv):
            qq[i, j] += cross[i, j] + cross[j, i]
    coupling_product(tree, Ryz, zv, cross)
    for i in range(nv):
        for j in range(nv):
            qv[i, j] += cross[i, j]
    coupling_product(tree, Ryz, zu, crossed)
    for i in range(nv):
        for j in range(nu):
            qu[i, j] += crossed[i, j]

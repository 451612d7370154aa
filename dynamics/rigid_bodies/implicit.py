# mypy: allow-untyped-defs, allow-untyped-calls
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

from ddp.compiling.kernel import kernel
from dynamics.arrays.products import coupling_product, product


@kernel
def first_order(tree, Kinv, Ry, begin, zy):
    """zy = -K⁻¹ R_y of a tree's forward dynamics, by q or v; the columns of R_y before ``begin`` are zero."""
    product(tree, tree.nv, -1.0, Kinv, Ry, begin, zy)


@kernel
def adjoint_weight(nz, Kinv, weight, omega):
    """ω = -K⁻ᵀ w, nz numbers."""
    for j in range(nz):
        total = Kinv[0, j] * weight[0]
        for i in range(1, nz):
            total = total + Kinv[i, j] * weight[i]
        omega[j] = -total


@kernel
def second_order(tree, nu, Ryz, zq, zv, zu, Rqq, Rqv, cross, qq, qv, qu):
    """ω R_yy + (ω R_yz) z_y + [(ω R_yz) z_y]ᵀ by blocks of y = (q, v, u): qq, qv, qu; the others are those of ω R_yy.

    Ryz (nv, nv): the rows of q, the only ones.  zq, zv, zu: blocks of z_y, nu columns of the last.
    Rqq, Rqv: blocks of ω R_yy; Rqq may be the same memory as qq.  cross (nv, nv): scratch.
    """
    nv = tree.nv
    coupling_product(tree, None, Ryz, zq, nv, cross)
    coupling_product(tree, Rqv, Ryz, zv, nv, qv)
    coupling_product(tree, None, Ryz, zu, nu, qu)
    for i in range(nv):
        qq[i, i] = Rqq[i, i] + 2.0 * cross[i, i]
        for j in range(i):
            through = cross[i, j] + cross[j, i]
            qq[i, j] = Rqq[i, j] + through
            qq[j, i] = Rqq[j, i] + through

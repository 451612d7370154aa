# mypy: allow-untyped-defs, allow-untyped-calls
"""Second order of a semi-implicit Euler step on the manifold, contracted with a weight.

With ξ = h v', η = h δv', A = Ad_{Exp(-ξ)} and Jr the right Jacobian of Exp, joint by joint,

    δq' = A δq + w + ½ [A δq, w],    w = Jr(ξ) η + ½ (D_η Jr(ξ)) η

exactly to second order; δv' carries the second order of the acceleration. With weights (w_q, w_v) on (δq', δv'), the
Hessian of the step is h times that of the acceleration weighted by w_v + h Jrᵀ w_q, plus the joints' own
curvature in (δq, η), of free-flyers, spherical and planar joints alone: for the others A = Jr = 1.
"""

from __future__ import annotations

from ddp.compiling.kernel import kernel
from ddp.machine.memory import address_of
from ddp.machine.rows import clear_rows
from ddp.machine.tiles import add_product
from dynamics.geometry.joint_motion import is_group, joint_jacobian
from dynamics.steps.linearization import next_twist


@kernel
def weigh_accelerations(tree, h, v, a, w, J, effective):
    """effective (nv,) := -h (w_v + h Jrᵀ w_q); J (6, 6): scratch."""
    nv = tree.nv
    for i in range(nv):
        effective[i] = -h * (w[nv + i] + h * w[i])
    for b in range(tree.nb):
        kind, iv, nj = tree.kind[b], tree.iv[b], tree.nj[b]
        if is_group(kind):
            joint_jacobian(kind, nj, next_twist(kind, v, a, iv, h), J)
            for i in range(nj):
                total = J[0, i] * w[iv]
                for k in range(1, nj):
                    total += J[k, i] * w[iv + k]
                effective[iv + i] = -h * (w[nv + iv + i] + h * total)


@kernel
def weigh_residuals(K, lk, nz, on_z, omega):
    """omega := K⁻ᵀ on_z, in whole registers: with on_z = -w, the weights ω on residuals. K⁻¹ has rows of lk numbers."""
    at, lx = address_of(omega), (nz + 7) // 8 * 8
    clear_rows(at, lx, 1, lx)
    add_product(at, lx, 1, lx, address_of(on_z), nz, 1, address_of(K), lk, nz)

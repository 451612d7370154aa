# mypy: allow-untyped-defs, allow-untyped-calls
"""Forward dynamics: the sparse factorisation M = Lᵀ D L of Featherstone (ch. 6), and a = M⁻¹ (τ - bias)."""

from ddp.compiling.kernel import kernel
from dynamics.arrays.products import symmetric_product
from dynamics.rigid_bodies.inverse import generalized_forces, mass_matrix
from dynamics.rigid_bodies.kinematics import forces, place_bodies, sum_composites


@kernel
def factorize(tree, M, D):
    """Overwrite M by L (unit lower triangle) and D⁻¹ (diagonal), without fill-in along the tree; D (nv,) apart."""
    for k in range(tree.nv - 1, -1, -1):
        D[k] = M[k, k]
        inverse = 1.0 / M[k, k]
        M[k, k] = inverse
        i = tree.previous[k]
        while i >= 0:
            factor = M[k, i] * inverse
            j = i
            while j >= 0:
                M[i, j] -= factor * M[k, j]
                j = tree.previous[j]
            M[k, i] = factor
            i = tree.previous[i]


@kernel
def solve(tree, LD, x):
    """x := M⁻¹ x."""
    for i in range(tree.nv - 1, -1, -1):
        j = tree.previous[i]
        while j >= 0:
            x[j] -= LD[i, j] * x[i]
            j = tree.previous[j]
    for i in range(tree.nv):
        total = x[i] * LD[i, i]
        j = tree.previous[i]
        while j >= 0:
            total -= LD[i, j] * x[j]
            j = tree.previous[j]
        x[i] = total


@kernel
def invert(tree, LD, N, U, Minv):
    """M⁻¹ = N U with N = L⁻¹, which has the sparsity of L, and U = D⁻¹ Nᵀ; N, U (nv, nv) are scratch, in as zeros.

    In as zeros but for entries between related degrees of freedom, which are written. N_ik = -Σ_j L_ij N_jk over the
    path from k to i.
    """
    for t in range(tree.ns):
        first, end, begin = tree.segment[t, 0], tree.segment[t, 1], tree.segment[t, 2]
        count = 0
        while tree.relatives[begin + count] < first:
            count += 1
        path = tree.relatives[begin:]
        for i in range(first, end):
            for c in range(count):
                total = LD[i, path[c]]
                for e in range(c + 1, count):
                    total = total + LD[i, path[e]] * N[path[e], path[c]]
                N[i, path[c]] = -total
            for c in range(count):
                k = path[c]
                N[k, i] = 0.0
                U[k, i] = N[i, k] * LD[k, k]
                U[i, k] = 0.0
            N[i, i] = 1.0
            U[i, i] = LD[i, i]
            count += 1
    symmetric_product(tree, N, U, Minv)


@kernel
def forward_dynamics(tree, q, qd, tau, fext, ws, LD, D, qdd):
    """a = M⁻¹ (τ - ID(q, q', 0)); leaves M's factors in LD and D. Meaningless unless D is positive.

    LD (nv, nv) comes in as zeros where degrees of freedom are unrelated. The composites left are those of q'' = 0.
    """
    place_bodies(tree, q, True, ws)
    for i in range(tree.nv):
        qdd[i] = 0.0
    forces(tree, qd, qdd, fext, ws)
    sum_composites(tree, ws)
    mass_matrix(tree, ws, LD)
    factorize(tree, LD, D)
    generalized_forces(tree, qdd, ws, qdd)
    for i in range(tree.nv):
        qdd[i] = tau[i] - qdd[i]
    solve(tree, LD, qdd)

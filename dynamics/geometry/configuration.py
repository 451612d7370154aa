# mypy: allow-untyped-defs, allow-untyped-calls
"""The configuration manifold of a tree, and its states': ⊕ and ⊖, joint by joint."""

from ddp.compiling.kernel import kernel
from dynamics.geometry.joint_motion import is_group, joint_difference, move_joint, slot, twist_of
from dynamics.geometry.spatial import cross_motion


@kernel
def integrate_configuration(tree, q, xi, scale, out):
    """out := q ⊕ scale ξ."""
    for b in range(tree.nb):
        move_joint(tree.kind[b], tree.nj[b], q, tree.iq[b], xi, tree.iv[b], scale, out)


@kernel
def add_bracket(tree, scale, v, x, y, out):
    """out += scale [x, y] of two tangent vectors, joint by joint, that begin at x and y in v."""
    for b in range(tree.nb):
        iv, kind = tree.iv[b], tree.kind[b]
        if is_group(kind):
            z = cross_motion(twist_of(kind, v, x + iv, scale), twist_of(kind, v, y + iv, 1.0))
            for k in range(tree.nj[b]):
                out[iv + k] += z[slot(kind, k)]


@kernel
def difference_state(tree, x0, x1, out):
    """out := x1 ⊖ x0 for x = (q, v)."""
    nq, nv = tree.nq, tree.nv
    for b in range(tree.nb):
        joint_difference(tree.kind[b], tree.nj[b], x0, x1, tree.iq[b], out, tree.iv[b])
    for i in range(nv):
        out[nv + i] = x1[nq + i] - x0[nq + i]


@kernel
def integrate_state(tree, x, dx, out):
    """out := x ⊕ dx for x = (q, v)."""
    nq, nv = tree.nq, tree.nv
    integrate_configuration(tree, x, dx, 1.0, out)
    for i in range(nv):
        out[nq + i] = x[nq + i] + dx[nv + i]


@kernel
def difference_batch(tree, X0, X1, out):
    """Row by row, out := X1 ⊖ X0."""
    for t in range(X0.shape[0]):
        difference_state(tree, X0[t], X1[t], out[t])


@kernel
def integrate_batch(tree, X, dX, out):
    """Row by row, out := X ⊕ dX."""
    for t in range(X.shape[0]):
        integrate_state(tree, X[t], dX[t], out[t])


@kernel
def turn_columns(m, iv, nj, T, J, scale, out, shift):
    """out := scale J T in m rows of the columns from iv on of a joint whose motions do not commute, shifted in out."""
    for r in range(m):
        for j in range(nj):
            total = J[r, iv] * T[0, j]
            for k in range(1, nj):
                total += J[r, iv + k] * T[k, j]
            out[r, shift + iv + j] = scale * total

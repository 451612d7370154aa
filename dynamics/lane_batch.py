"""The kernels of batch.py on eight samples at a time, for whoever has many."""

from __future__ import annotations

import numpy as np

from ddp.kernel import kernel
from dynamics import inverse, tensors
from dynamics.batch import Relation, composites, contracted, relate, relate_twice
from dynamics.forward import forward_dynamics as solve_forward
from dynamics.forward import is_positive
from dynamics.kinematics import lane_matrix, lane_workspace
from dynamics.lanes import WIDTH, lane_array, pack, unpack


@kernel
def floats(n):
    """Memory of n lanes, not initialised."""
    return np.empty((n, WIDTH))


@kernel
def lane_vector(n):
    """An array (n,) of lanes, not initialised."""
    return lane_array(np.empty((n, WIDTH)))


@kernel
def matrix(memory, n):
    """Memory of n² lanes as an (n, n) array."""
    return lane_array(memory.reshape(n, n, WIDTH))


@kernel
def unpack_matrices(memory, out, t):
    """Memory of n² lanes into out (N, n, n) at samples t..t+7."""
    unpack(memory, out.reshape(out.shape[0], memory.shape[0]), t)


@kernel
def inverse_dynamics(tree, Q, V, A, fext, tau):
    """τ of every sample."""
    nv = tree.body.size
    ws = lane_workspace(tree)
    q, v, a, f, out = floats(Q.shape[1]), floats(nv), floats(nv), floats(6 * fext.shape[1]), floats(nv)
    wrenches = lane_array(f.reshape(fext.shape[1], 6, WIDTH))
    for t in range(0, Q.shape[0], WIDTH):
        pack(Q, t, q)
        pack(V, t, v)
        pack(A, t, a)
        pack(fext.reshape(Q.shape[0], f.shape[0]), t, f)
        inverse.inverse_dynamics(
            tree, lane_array(q), lane_array(v), lane_array(a), wrenches, ws, lane_array(out)
        )
        unpack(out, tau, t)


@kernel
def inverse_dynamics_derivatives(tree, Q, V, A, fext, dq, dv, da):
    """∂τ/∂q, ∂τ/∂v, M of every sample."""
    nv = tree.body.size
    ws = lane_workspace(tree)
    q, v, a, f = floats(Q.shape[1]), floats(nv), floats(nv), floats(6 * fext.shape[1])
    wrenches = lane_array(f.reshape(fext.shape[1], 6, WIDTH))
    x, y, z = floats(nv * nv), floats(nv * nv), floats(nv * nv)
    for t in range(0, Q.shape[0], WIDTH):
        pack(Q, t, q)
        pack(V, t, v)
        pack(A, t, a)
        pack(fext.reshape(Q.shape[0], f.shape[0]), t, f)
        composites(tree, lane_array(q), lane_array(v), lane_array(a), wrenches, ws)
        inverse.inverse_dynamics_derivatives(tree, ws, matrix(x, nv), matrix(y, nv))
        inverse.mass_matrix(tree, ws, matrix(z, nv))
        unpack_matrices(x, dq, t)
        unpack_matrices(y, dv, t)
        unpack_matrices(z, da, t)


@kernel
def inverse_dynamics_tensors(tree, Q, V, A, fext, dqdq, dvdv, dvdq, dadq):
    """The four tensors of every sample."""
    N, nv = V.shape
    ws = lane_workspace(tree)
    q, v, a, f = floats(Q.shape[1]), floats(nv), floats(nv), floats(6 * fext.shape[1])
    wrenches = lane_array(f.reshape(fext.shape[1], 6, WIDTH))
    m = nv * nv * nv
    x, y, z, w = floats(m), floats(m), floats(m), floats(m)
    shape = (nv, nv, nv, WIDTH)
    for t in range(0, N, WIDTH):
        pack(Q, t, q)
        pack(V, t, v)
        pack(A, t, a)
        pack(fext.reshape(N, f.shape[0]), t, f)
        composites(tree, lane_array(q), lane_array(v), lane_array(a), wrenches, ws)
        tensors.inverse_dynamics_tensors(
            tree, ws, lane_array(x.reshape(shape)), lane_array(y.reshape(shape)), lane_array(z.reshape(shape)),
            lane_array(w.reshape(shape)),
        )  # fmt: skip
        unpack(x, dqdq.reshape(N, m), t)
        unpack(y, dvdv.reshape(N, m), t)
        unpack(z, dvdq.reshape(N, m), t)
        unpack(w, dadq.reshape(N, m), t)


@kernel
def inverse_dynamics_hessian(tree, Q, V, A, mu, fext, qq, qv, vv, qa):
    """The Hessian of μᵀ ID of every sample."""
    nv = tree.body.size
    ws = lane_workspace(tree)
    q, v, a, m, f = floats(Q.shape[1]), floats(nv), floats(nv), floats(nv), floats(6 * fext.shape[1])
    wrenches = lane_array(f.reshape(fext.shape[1], 6, WIDTH))
    x, y, z, w = floats(nv * nv), floats(nv * nv), floats(nv * nv), floats(nv * nv)
    for t in range(0, Q.shape[0], WIDTH):
        pack(Q, t, q)
        pack(V, t, v)
        pack(A, t, a)
        pack(mu, t, m)
        pack(fext.reshape(Q.shape[0], f.shape[0]), t, f)
        contracted(
            tree, lane_array(q), lane_array(v), lane_array(a), lane_array(m), wrenches, ws,
            matrix(x, nv), matrix(y, nv), matrix(z, nv), matrix(w, nv),
        )  # fmt: skip
        unpack_matrices(x, qq, t)
        unpack_matrices(y, qv, t)
        unpack_matrices(z, vv, t)
        unpack_matrices(w, qa, t)


@kernel
def first_failure(pivots, accelerations):
    """The first sample whose mass matrix is not positive definite, or -1."""
    for t in range(pivots.shape[0]):
        if not is_positive(pivots[t], accelerations[t]):
            return t
    return -1


@kernel
def forward_dynamics(tree, Q, V, tau, fext, A):
    """a of every sample; the first that fails, or -1."""
    nv = tree.body.size
    ws, LD, pivots = lane_workspace(tree), lane_matrix(nv, nv), np.empty_like(V)
    q, v, x, f = floats(Q.shape[1]), floats(nv), floats(nv), floats(6 * fext.shape[1])
    D, a = floats(nv), floats(nv)
    wrenches = lane_array(f.reshape(fext.shape[1], 6, WIDTH))
    for t in range(0, Q.shape[0], WIDTH):
        pack(Q, t, q)
        pack(V, t, v)
        pack(tau, t, x)
        pack(fext.reshape(Q.shape[0], f.shape[0]), t, f)
        solve_forward(
            tree, lane_array(q), lane_array(v), lane_array(x), wrenches, ws, LD, lane_array(D), lane_array(a)
        )
        unpack(a, A, t)
        unpack(D, pivots, t)
    return first_failure(pivots, A)


@kernel
def lane_relation(tree):
    """A ``Relation`` of eight samples."""
    nv = tree.body.size
    return Relation(
        lane_vector(nv), lane_vector(nv), lane_matrix(nv, nv), lane_matrix(nv, 3 * nv),
        lane_matrix(nv, 3 * nv), lane_matrix(nv, nv), lane_matrix(nv, nv), lane_matrix(nv, nv),
    )  # fmt: skip


@kernel
def copy_block(source, i, j, memory, n):
    """Memory of n² lanes := the block of source that begins at (i, j)."""
    block = matrix(memory, n)
    for r in range(n):
        for c in range(n):
            block[r, c] = source[i + r, j + c]


@kernel
def copy_vector(source, memory):
    """Memory of lanes := a lane array (n,)."""
    out = lane_array(memory)
    for i in range(source.shape[0]):
        out[i] = source[i]


@kernel
def forward_dynamics_derivatives(tree, Q, V, tau, fext, dq, dv, dtau):
    """∂a/∂q, ∂a/∂v, M⁻¹ of every sample; the first that fails, or -1."""
    N, nv = V.shape
    ws, r = lane_workspace(tree), lane_relation(tree)
    q, v, x, f = floats(Q.shape[1]), floats(nv), floats(nv), floats(6 * fext.shape[1])
    wrenches = lane_array(f.reshape(fext.shape[1], 6, WIDTH))
    D, a, pivots, A = floats(nv), floats(nv), np.empty_like(V), np.empty_like(V)
    block = floats(nv * nv)
    for t in range(0, N, WIDTH):
        pack(Q, t, q)
        pack(V, t, v)
        pack(tau, t, x)
        pack(fext.reshape(N, f.shape[0]), t, f)
        relate(tree, lane_array(q), lane_array(v), lane_array(x), wrenches, ws, r)
        for i, out in ((0, dq), (nv, dv), (2 * nv, dtau)):
            copy_block(r.zy, 0, i, block, nv)
            unpack_matrices(block, out, t)
        copy_vector(r.D, D)
        copy_vector(r.a, a)
        unpack(D, pivots, t)
        unpack(a, A, t)
    return first_failure(pivots, A)


@kernel
def forward_dynamics_hessian(tree, Q, V, tau, weight, fext, qq, qv, vv, qtau):
    """The Hessian of weight·a of every sample, qq iterated; the first that fails, or -1."""
    N, nv = V.shape
    ws, r = lane_workspace(tree), lane_relation(tree)
    H, qa, cross, omega = lane_matrix(3 * nv, 3 * nv), lane_matrix(nv, nv), lane_matrix(nv, 3 * nv), lane_vector(nv)
    q, v, x, y, f = floats(Q.shape[1]), floats(nv), floats(nv), floats(nv), floats(6 * fext.shape[1])
    wrenches = lane_array(f.reshape(fext.shape[1], 6, WIDTH))
    D, a, pivots, A = floats(nv), floats(nv), np.empty_like(V), np.empty_like(V)
    block = floats(nv * nv)
    for t in range(0, N, WIDTH):
        pack(Q, t, q)
        pack(V, t, v)
        pack(tau, t, x)
        pack(weight, t, y)
        pack(fext.reshape(N, f.shape[0]), t, f)
        relate(tree, lane_array(q), lane_array(v), lane_array(x), wrenches, ws, r)
        copy_vector(r.D, D)
        copy_vector(r.a, a)
        relate_twice(tree, lane_array(q), lane_array(v), wrenches, lane_array(y), ws, r, omega, qa, cross, H)
        for i, j, out in ((0, 0, qq), (0, nv, qv), (nv, nv, vv), (0, 2 * nv, qtau)):
            copy_block(H, i, j, block, nv)
            unpack_matrices(block, out, t)
        unpack(D, pivots, t)
        unpack(a, A, t)
    return first_failure(pivots, A)

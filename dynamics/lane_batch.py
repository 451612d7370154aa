"""The kernels of batch.py on eight samples at a time, for whoever has many."""

from __future__ import annotations

import numpy as np

from ddp.kernel import kernel
from dynamics import inverse, tensors
from dynamics.batch import Relation, composites, contracted, relate, relate_twice
from dynamics.forward import forward_dynamics as solve_forward
from dynamics.forward import is_positive
from dynamics.kinematics import lane_workspace
from dynamics.lanes import WIDTH, lane_array, lane_matrix, lane_memory, lane_vector, pack, unpack


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
    q, v, a, f, out = lane_memory(Q.shape[1]), lane_memory(nv), lane_memory(nv), lane_memory(6 * fext.shape[1]), lane_memory(nv)
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
    q, v, a, f = lane_memory(Q.shape[1]), lane_memory(nv), lane_memory(nv), lane_memory(6 * fext.shape[1])
    wrenches = lane_array(f.reshape(fext.shape[1], 6, WIDTH))
    x, y, z = lane_memory(nv * nv), lane_memory(nv * nv), lane_memory(nv * nv)
    for t in range(0, Q.shape[0], WIDTH):
        pack(Q, t, q)
        pack(V, t, v)
        pack(A, t, a)
        pack(fext.reshape(Q.shape[0], f.shape[0]), t, f)
        composites(tree, lane_array(q), lane_array(v), lane_array(a), wrenches, ws)
        inverse.inverse_dynamics_derivatives(tree, ws, matrix(x, nv), matrix(y, nv), matrix(z, nv))
        unpack_matrices(x, dq, t)
        unpack_matrices(y, dv, t)
        unpack_matrices(z, da, t)


@kernel
def inverse_dynamics_tensors(tree, Q, V, A, fext, dqdq, dvdv, dvdq, dadq):
    """The four tensors of every sample."""
    N, nv = V.shape
    ws = lane_workspace(tree)
    q, v, a, f = lane_memory(Q.shape[1]), lane_memory(nv), lane_memory(nv), lane_memory(6 * fext.shape[1])
    wrenches = lane_array(f.reshape(fext.shape[1], 6, WIDTH))
    m = nv * nv * nv
    x, y, z, w = lane_memory(m), lane_memory(m), lane_memory(m), lane_memory(m)
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
    q, v, a, m, f = lane_memory(Q.shape[1]), lane_memory(nv), lane_memory(nv), lane_memory(nv), lane_memory(6 * fext.shape[1])
    wrenches = lane_array(f.reshape(fext.shape[1], 6, WIDTH))
    x, y, z, w = lane_memory(nv * nv), lane_memory(nv * nv), lane_memory(nv * nv), lane_memory(nv * nv)
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
    q, v, x, f = lane_memory(Q.shape[1]), lane_memory(nv), lane_memory(nv), lane_memory(6 * fext.shape[1])
    D, a = lane_memory(nv), lane_memory(nv)
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
def lane_relation(tree, D, a, Minv):
    """A ``Relation`` of eight samples whose D, a and M⁻¹ are in the memory given."""
    nv = tree.body.size
    return Relation(
        lane_array(a), lane_array(D), matrix(Minv, nv), lane_matrix(nv, 3 * nv), lane_matrix(nv, nv),
        lane_matrix(nv, 2 * nv), lane_matrix(nv, nv), lane_matrix(nv, nv), lane_matrix(nv, 3 * nv), lane_vector(nv),
    )  # fmt: skip


@kernel
def forward_dynamics_derivatives(tree, Q, V, tau, fext, dq, dv, dtau):
    """∂a/∂q, ∂a/∂v, M⁻¹ of every sample; the first that fails, or -1."""
    N, nv = V.shape
    q, v, x, f = lane_memory(Q.shape[1]), lane_memory(nv), lane_memory(nv), lane_memory(6 * fext.shape[1])
    wrenches = lane_array(f.reshape(fext.shape[1], 6, WIDTH))
    D, a, Minv, aq, av = lane_memory(nv), lane_memory(nv), lane_memory(nv * nv), lane_memory(nv * nv), lane_memory(nv * nv)
    ws, r = lane_workspace(tree), lane_relation(tree, D, a, Minv)
    pivots, A = np.empty_like(V), np.empty_like(V)
    for t in range(0, N, WIDTH):
        pack(Q, t, q)
        pack(V, t, v)
        pack(tau, t, x)
        pack(fext.reshape(N, f.shape[0]), t, f)
        relate(
            tree, lane_array(q), lane_array(v), lane_array(x), wrenches, ws, r, matrix(aq, nv), matrix(av, nv)
        )
        unpack_matrices(aq, dq, t)
        unpack_matrices(av, dv, t)
        unpack_matrices(Minv, dtau, t)
        unpack(D, pivots, t)
        unpack(a, A, t)
    return first_failure(pivots, A)


@kernel
def forward_dynamics_hessian(tree, Q, V, tau, weight, fext, qq, qv, vv, qtau):
    """The Hessian of weight·a of every sample, qq iterated; the first that fails, or -1."""
    N, nv = V.shape
    q, v, x, y = lane_memory(Q.shape[1]), lane_memory(nv), lane_memory(nv), lane_memory(nv)
    f = lane_memory(6 * fext.shape[1])
    wrenches = lane_array(f.reshape(fext.shape[1], 6, WIDTH))
    D, a, Minv = lane_memory(nv), lane_memory(nv), lane_memory(nv * nv)
    b0, b1, b2, b3 = lane_memory(nv * nv), lane_memory(nv * nv), lane_memory(nv * nv), lane_memory(nv * nv)
    ws, r = lane_workspace(tree), lane_relation(tree, D, a, Minv)
    pivots, A = np.empty_like(V), np.empty_like(V)
    for t in range(0, N, WIDTH):
        pack(Q, t, q)
        pack(V, t, v)
        pack(tau, t, x)
        pack(weight, t, y)
        pack(fext.reshape(N, f.shape[0]), t, f)
        relate(
            tree, lane_array(q), lane_array(v), lane_array(x), wrenches, ws, r, matrix(b0, nv), matrix(b1, nv)
        )
        relate_twice(
            tree, lane_array(q), lane_array(v), wrenches, lane_array(y), ws, r,
            matrix(b0, nv), matrix(b1, nv), matrix(b2, nv), matrix(b3, nv),
        )  # fmt: skip
        unpack_matrices(b0, qq, t)
        unpack_matrices(b1, qv, t)
        unpack_matrices(b2, vv, t)
        unpack_matrices(b3, qtau, t)
        unpack(D, pivots, t)
        unpack(a, A, t)
    return first_failure(pivots, A)

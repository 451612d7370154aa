"""The kernels of batch.py on eight samples at a time, for whoever has many; the tree is behind ``Robot.packed``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddp.kernel import kernel
from dynamics import inverse, tensors
from dynamics.batch import Relation, contracted, relate, relate_twice
from dynamics.forward import forward_dynamics as solve_forward
from dynamics.forward import is_positive
from dynamics.kinematics import composites, lane_workspace, lane_workspace_size
from dynamics.lanes import WIDTH, lane_array, lane_matrix, lane_memory, lane_vector
from dynamics.model import Model
from dynamics.packed import read_tree
from dynamics.packing import pack, unpack, unpack_groups


class Arguments(NamedTuple):
    """Eight samples of a function's arguments, as packed: configuration, two tangent vectors, wrenches."""

    q: np.ndarray
    first: np.ndarray
    second: np.ndarray
    fext: np.ndarray


def size(tree: Model, with_tensors: bool) -> int:
    """How many lanes the arena must hold for any kernel here, with or without tensors."""
    nb, nv = len(tree.parent), len(tree.body)
    return lane_workspace_size(tree) + 9 * nb + 16 * nv + 11 * nv**2 + (4 * nv**3 if with_tensors else 0)


@kernel
def take_arguments(arena, Q, V, fext):
    """Memory for eight samples of arguments."""
    nv = V.shape[1]
    return Arguments(
        lane_memory(arena, Q.shape[1]), lane_memory(arena, nv), lane_memory(arena, nv),
        lane_memory(arena, 6 * fext.shape[1]),
    )  # fmt: skip


@kernel
def pack_arguments(args, Q, first, second, fext, t):
    """Samples t..t+7 into lanes; returns them as arrays of lanes."""
    pack(Q, t, args.q)
    pack(first, t, args.first)
    pack(second, t, args.second)
    pack(fext.reshape(Q.shape[0], args.fext.shape[0]), t, args.fext)
    wrenches = lane_array(args.fext.reshape(fext.shape[1], 6, WIDTH))
    return lane_array(args.q), lane_array(args.first), lane_array(args.second), wrenches


@kernel
def square_memory(arena, n):
    """Memory for an (n, n) array of lanes, zeros: kernels write entries between related degrees of freedom only."""
    memory = lane_memory(arena, n * n)
    memory[:] = 0.0
    return memory


@kernel
def square(memory, n):
    """Memory of n² lanes as an (n, n) array."""
    return lane_array(memory.reshape(n, n, WIDTH))


@kernel
def cube(memory, n):
    """Memory of n³ lanes as an (n, n, n) array."""
    return lane_array(memory.reshape(n, n, n, WIDTH))


@kernel
def unpack_flat(memory, out, t):
    """Memory of lanes into the rows t..t+7 of out (N, ...), each row flat."""
    unpack(memory, out.reshape(out.shape[0], memory.shape[0]), t)


@kernel
def inverse_dynamics(context, arena, Q, V, A, fext, tau):
    """τ of every sample."""
    tree = read_tree(context)
    ws, args, out = lane_workspace(tree, arena), take_arguments(arena, Q, V, fext), lane_memory(arena, V.shape[1])
    for t in range(0, Q.shape[0], WIDTH):
        q, v, a, f = pack_arguments(args, Q, V, A, fext, t)
        inverse.inverse_dynamics(tree, q, v, a, f, ws, lane_array(out))
        unpack(out, tau, t)


@kernel
def inverse_dynamics_derivatives(context, arena, Q, V, A, fext, dq, dv, da):
    """∂τ/∂q, ∂τ/∂v, M of every sample."""
    tree = read_tree(context)
    nv = tree.body.size
    ws, args = lane_workspace(tree, arena), take_arguments(arena, Q, V, fext)
    x, y, z = square_memory(arena, nv), square_memory(arena, nv), square_memory(arena, nv)
    for t in range(0, Q.shape[0], WIDTH):
        q, v, a, f = pack_arguments(args, Q, V, A, fext, t)
        composites(tree, q, v, a, f, ws)
        inverse.inverse_dynamics_derivatives(tree, ws, square(x, nv), square(y, nv), square(z, nv))
        unpack_flat(x, dq, t)
        unpack_flat(y, dv, t)
        unpack_flat(z, da, t)


@kernel
def related_groups(tree):
    """The groups of eight consecutive entries of an (nv, nv, nv) tensor that are not all zero.

    An entry is zero unless its three degrees of freedom stand on one path to the root.
    """
    nv = tree.body.size
    related = np.zeros((nv, nv), np.bool_)
    for i in range(nv):
        j = i
        while j >= 0:
            related[i, j] = related[j, i] = True
            j = tree.previous[j]
    groups = np.empty(nv * nv * nv // WIDTH, np.int64)
    count = 0
    for group in range(groups.size):
        for entry in range(group * WIDTH, (group + 1) * WIDTH):
            i, j, k = entry // (nv * nv), entry // nv % nv, entry % nv
            if related[i, j] and related[j, k] and related[i, k]:
                groups[count] = group
                count += 1
                break
    return groups[:count]


@kernel
def inverse_dynamics_tensors(context, arena, Q, V, A, fext, dqdq, dvdv, dvdq, dadq):
    """The four tensors of every sample, which come in as zeros."""
    tree = read_tree(context)
    N, nv = V.shape
    ws, args, m = lane_workspace(tree, arena), take_arguments(arena, Q, V, fext), nv * nv * nv
    x, y, z, w = lane_memory(arena, m), lane_memory(arena, m), lane_memory(arena, m), lane_memory(arena, m)
    x[:], y[:], z[:], w[:] = 0.0, 0.0, 0.0, 0.0
    groups = related_groups(tree)
    for t in range(0, Q.shape[0], WIDTH):
        q, v, a, f = pack_arguments(args, Q, V, A, fext, t)
        composites(tree, q, v, a, f, ws)
        tensors.inverse_dynamics_tensors(tree, ws, cube(x, nv), cube(y, nv), cube(z, nv), cube(w, nv))
        unpack_groups(x, dqdq.reshape(N, m), t, groups)
        unpack_groups(y, dvdv.reshape(N, m), t, groups)
        unpack_groups(z, dvdq.reshape(N, m), t, groups)
        unpack_groups(w, dadq.reshape(N, m), t, groups)


@kernel
def inverse_dynamics_hessian(context, arena, Q, V, A, mu, fext, qq, qv, vv, qa):
    """The Hessian of μᵀ ID of every sample."""
    tree = read_tree(context)
    nv = tree.body.size
    ws, args, weight = lane_workspace(tree, arena), take_arguments(arena, Q, V, fext), lane_memory(arena, nv)
    x, y, z, w = square_memory(arena, nv), square_memory(arena, nv), square_memory(arena, nv), square_memory(arena, nv)
    for t in range(0, Q.shape[0], WIDTH):
        q, v, a, f = pack_arguments(args, Q, V, A, fext, t)
        pack(mu, t, weight)
        blocks = square(x, nv), square(y, nv), square(z, nv), square(w, nv)
        composites(tree, q, v, a, f, ws)
        contracted(tree, lane_array(weight), ws, *blocks)
        unpack_flat(x, qq, t)
        unpack_flat(y, qv, t)
        unpack_flat(z, vv, t)
        unpack_flat(w, qa, t)


@kernel
def first_failure(pivots, accelerations):
    """The first sample whose mass matrix is not positive definite, or -1."""
    for t in range(pivots.shape[0]):
        if not is_positive(pivots[t], accelerations[t]):
            return t
    return -1


@kernel
def forward_dynamics(context, arena, Q, V, tau, fext, A):
    """a of every sample; the first that fails, or -1."""
    tree = read_tree(context)
    nv = tree.body.size
    ws, args, LD = lane_workspace(tree, arena), take_arguments(arena, Q, V, fext), square(square_memory(arena, nv), nv)
    D, a, pivots = lane_memory(arena, nv), lane_memory(arena, nv), np.empty_like(V)
    for t in range(0, Q.shape[0], WIDTH):
        q, v, x, f = pack_arguments(args, Q, V, tau, fext, t)
        solve_forward(tree, q, v, x, f, ws, LD, lane_array(D), lane_array(a))
        unpack(a, A, t)
        unpack(D, pivots, t)
    return first_failure(pivots, A)


@kernel
def lane_relation(tree, arena, D, a, Minv, aq, av):
    """A ``Relation`` of eight samples with its results in the memory given."""
    nv = tree.body.size
    return Relation(
        lane_array(a), lane_array(D), square(Minv, nv), square(aq, nv), square(av, nv),
        square(square_memory(arena, nv), nv), square(square_memory(arena, nv), nv),
        square(square_memory(arena, nv), nv), lane_matrix(arena, nv, nv), lane_vector(arena, nv),
    )  # fmt: skip


@kernel
def forward_dynamics_derivatives(context, arena, Q, V, tau, fext, dq, dv, dtau):
    """∂a/∂q, ∂a/∂v, M⁻¹ of every sample; the first that fails, or -1."""
    tree = read_tree(context)
    nv = tree.body.size
    D, a, Minv = lane_memory(arena, nv), lane_memory(arena, nv), square_memory(arena, nv)
    aq, av = square_memory(arena, nv), square_memory(arena, nv)
    ws, args, r = (
        lane_workspace(tree, arena), take_arguments(arena, Q, V, fext), lane_relation(tree, arena, D, a, Minv, aq, av),
    )  # fmt: skip
    pivots, A = np.empty_like(V), np.empty_like(V)
    for t in range(0, Q.shape[0], WIDTH):
        q, v, x, f = pack_arguments(args, Q, V, tau, fext, t)
        relate(tree, q, v, x, f, ws, r)
        unpack_flat(aq, dq, t)
        unpack_flat(av, dv, t)
        unpack_flat(Minv, dtau, t)
        unpack(D, pivots, t)
        unpack(a, A, t)
    return first_failure(pivots, A)


@kernel
def forward_dynamics_hessian(context, arena, Q, V, tau, weight, fext, first, qq, qv, vv, qtau):
    """The Hessian of weight·a of every sample, qq iterated; the first that fails, or -1.

    first (3, N or 0, nv, nv): where a_q, a_v and M⁻¹ go, if they are wanted.
    """
    tree = read_tree(context)
    nv = tree.body.size
    D, a, Minv = lane_memory(arena, nv), lane_memory(arena, nv), square_memory(arena, nv)
    aq, av, mu = square_memory(arena, nv), square_memory(arena, nv), lane_memory(arena, nv)
    x, y, z, w = square_memory(arena, nv), square_memory(arena, nv), square_memory(arena, nv), square_memory(arena, nv)
    ws, args, r = (
        lane_workspace(tree, arena), take_arguments(arena, Q, V, fext), lane_relation(tree, arena, D, a, Minv, aq, av),
    )  # fmt: skip
    pivots, A = np.empty_like(V), np.empty_like(V)
    for t in range(0, Q.shape[0], WIDTH):
        q, v, torque, f = pack_arguments(args, Q, V, tau, fext, t)
        pack(weight, t, mu)
        relate(tree, q, v, torque, f, ws, r)
        if first.shape[1] > 0:
            unpack_flat(aq, first[0], t)
            unpack_flat(av, first[1], t)
            unpack_flat(Minv, first[2], t)
        relate_twice(tree, lane_array(mu), ws, r, square(x, nv), square(y, nv), square(z, nv), square(w, nv))
        unpack_flat(x, qq, t)
        unpack_flat(y, qv, t)
        unpack_flat(z, vv, t)
        unpack_flat(w, qtau, t)
        unpack(D, pivots, t)
        unpack(a, A, t)
    return first_failure(pivots, A)

# mypy: allow-untyped-defs, allow-untyped-calls
"""The kernels of batch.py on eight samples at a time, for whoever has many; the tree is handed over by its address."""

from __future__ import annotations

from typing import Any, NamedTuple

from ddp.compiling.kernel import kernel
from ddp.machine.number import WIDTH, lane_of, smaller
from dynamics.arrays.lanes import flat, lane_matrix, lane_vector
from dynamics.arrays.packing import pack, unpack, unpack_places
from dynamics.rigid_bodies import inverse, tensors
from dynamics.rigid_bodies.batch import Relation, contracted, relate, relate_twice
from dynamics.rigid_bodies.forward import forward_dynamics as solve_forward
from dynamics.rigid_bodies.kinematics import clear, composites, lane_workspace, lane_workspace_size
from dynamics.rigid_bodies.tensor_entries import SLOTS, Entries
from dynamics.robots.tree import Tree


class Arguments(NamedTuple):
    """Eight samples of a function's arguments: configuration, two tangent vectors, wrenches."""

    q: Any
    first: Any
    second: Any
    fext: Any


def size(tree: Tree) -> int:
    """How many lanes the arena must hold for any kernel here, but for tensors."""
    nb, nv = tree.nb, tree.nv
    return lane_workspace_size(tree) + 9 * nb + 16 * nv + 13 * nv**2


@kernel
def take_arguments(arena, Q, V, fext):
    """Memory for eight samples of arguments."""
    nv = V.shape[1]
    return Arguments(
        lane_vector(arena, Q.shape[1]), lane_vector(arena, nv), lane_vector(arena, nv),
        lane_matrix(arena, fext.shape[1], 6),
    )  # fmt: skip


@kernel
def pack_arguments(args, Q, first, second, fext, t):
    """Samples t..t+7 into lanes."""
    pack(Q, t, args.q)
    pack(first, t, args.first)
    pack(second, t, args.second)
    pack(fext, t, flat(args.fext))


@kernel
def sparse(arena, n):
    """An (n, n) array of lanes, zeros: kernels write entries between related degrees of freedom only."""
    M = lane_matrix(arena, n, n)
    clear(M)
    return M


@kernel
def inverse_dynamics(context, arena, Q, V, A, fext, tau):
    """τ of every sample."""
    tree = Tree(context)
    ws, x, out = lane_workspace(tree, arena), take_arguments(arena, Q, V, fext), lane_vector(arena, V.shape[1])
    for t in range(0, Q.shape[0], WIDTH):
        pack_arguments(x, Q, V, A, fext, t)
        inverse.inverse_dynamics(tree, x.q, x.first, x.second, x.fext, ws, out)
        unpack(out, tau, t)


@kernel
def inverse_dynamics_derivatives(context, arena, Q, V, A, fext, out):
    """∂τ/∂q, ∂τ/∂v, M of every sample: out (3, N, nv, nv)."""
    tree = Tree(context)
    nv, Dq, Dv, Da = V.shape[1], out[0], out[1], out[2]
    ws, x = lane_workspace(tree, arena), take_arguments(arena, Q, V, fext)
    dq, dv, M = sparse(arena, nv), sparse(arena, nv), sparse(arena, nv)
    for t in range(0, Q.shape[0], WIDTH):
        pack_arguments(x, Q, V, A, fext, t)
        composites(tree, x.q, x.first, x.second, x.fext, ws)
        inverse.mass_matrix(tree, ws, M)
        inverse.inverse_dynamics_derivatives(tree, ws, dq, dv)
        unpack(M, Da, t)
        unpack(dq, Dq, t)
        unpack(dv, Dv, t)


def room_of_tensors(entries: Entries) -> int:
    """How many lanes ``inverse_dynamics_tensors`` takes beyond ``size``."""
    return SLOTS * (entries.triples + 1)


@kernel
def inverse_dynamics_tensors(context, arena, Q, V, A, fext, entries, dqdq, dvdv, dvdq, dadq):
    """The four tensors of every sample, by the ``Entries`` of the tree; they come in as zeros."""
    tree = Tree(context)
    ws, x = lane_workspace(tree, arena), take_arguments(arena, Q, V, fext)
    values = lane_matrix(arena, entries.triples + 1, SLOTS)
    for t in range(0, Q.shape[0], WIDTH):
        pack_arguments(x, Q, V, A, fext, t)
        composites(tree, x.q, x.first, x.second, x.fext, ws)
        tensors.inverse_dynamics_tensors(tree, ws, values)
        unpack_places(values, entries.places[0], entries.groups, entries.bounds, 0, dqdq, t)
        unpack_places(values, entries.places[1], entries.groups, entries.bounds, 1, dvdv, t)
        unpack_places(values, entries.places[2], entries.groups, entries.bounds, 2, dvdq, t)
        unpack_places(values, entries.places[3], entries.groups, entries.bounds, 3, dadq, t)


@kernel
def inverse_dynamics_hessian(context, arena, Q, V, A, mu, fext, out):
    """The Hessian of μᵀ ID of every sample, blocks qq, qv, vv, qa: out (4, N, nv, nv)."""
    tree = Tree(context)
    nv, QQ, QV, VV, QA = V.shape[1], out[0], out[1], out[2], out[3]
    ws, x, weight = lane_workspace(tree, arena), take_arguments(arena, Q, V, fext), lane_vector(arena, nv)
    qq, qv, vv, qa = sparse(arena, nv), sparse(arena, nv), sparse(arena, nv), sparse(arena, nv)
    for t in range(0, Q.shape[0], WIDTH):
        pack_arguments(x, Q, V, A, fext, t)
        pack(mu, t, weight)
        composites(tree, x.q, x.first, x.second, x.fext, ws)
        contracted(tree, weight, ws, qq, qv, vv, qa)
        unpack(qq, QQ, t)
        unpack(qv, QV, t)
        unpack(vv, VV, t)
        unpack(qa, QA, t)


@kernel
def first_failure(D, a, first, count):
    """The first of samples first..first+7, of ``count``, whose D (nv,) is not positive or a no number; or -1."""
    smallest, nothing = D[0], 0.0 * a[0]
    for i in range(1, a.size):
        smallest, nothing = smaller(smallest, D[i]), nothing + 0.0 * a[i]
    for lane in range(min(WIDTH, count - first)):
        if not (lane_of(smallest, lane) > 0.0 and lane_of(nothing, lane) == 0.0):
            return first + lane
    return -1


@kernel
def forward_dynamics(context, arena, Q, V, tau, fext, A):
    """a of every sample; the first that fails, or -1."""
    tree = Tree(context)
    nv = V.shape[1]
    ws, x, LD = lane_workspace(tree, arena), take_arguments(arena, Q, V, fext), sparse(arena, nv)
    D, a = lane_vector(arena, nv), lane_vector(arena, nv)
    for t in range(0, Q.shape[0], WIDTH):
        pack_arguments(x, Q, V, tau, fext, t)
        solve_forward(tree, x.q, x.first, x.second, x.fext, ws, LD, D, a)
        unpack(a, A, t)
        failed = first_failure(D, a, t, Q.shape[0])
        if failed >= 0:
            return failed
    return -1


@kernel
def lane_relation(nv, arena):
    """A ``Relation`` of eight samples."""
    return Relation(
        lane_vector(arena, nv), lane_vector(arena, nv), lane_matrix(arena, nv, nv), lane_matrix(arena, nv, nv),
        lane_matrix(arena, nv, nv), sparse(arena, nv), sparse(arena, nv), sparse(arena, nv),
        lane_matrix(arena, nv, nv), lane_vector(arena, nv),
    )  # fmt: skip


@kernel
def forward_dynamics_derivatives(context, arena, Q, V, tau, fext, out):
    """∂a/∂q, ∂a/∂v, M⁻¹ of every sample, out (3, N, nv, nv); the first that fails, or -1."""
    tree = Tree(context)
    ws, x, r = lane_workspace(tree, arena), take_arguments(arena, Q, V, fext), lane_relation(V.shape[1], arena)
    for t in range(0, Q.shape[0], WIDTH):
        pack_arguments(x, Q, V, tau, fext, t)
        relate(tree, x.q, x.first, x.second, x.fext, ws, r)
        unpack_relation(r, out, t)
        failed = first_failure(r.D, r.a, t, Q.shape[0])
        if failed >= 0:
            return failed
    return -1


@kernel
def unpack_relation(r, out, t):
    """a_q, a_v and M⁻¹ of eight samples into out (3, N, nv, nv)."""
    unpack(r.av, out[1], t)
    unpack(r.aq, out[0], t)
    unpack(r.Minv, out[2], t)


@kernel
def forward_dynamics_hessian(context, arena, Q, V, tau, weight, fext, first, out):
    """The Hessian of weight·a of every sample, blocks qq (iterated), qv, vv, qτ; the first that fails, or -1.

    out (4, N, nv, nv).  first (3, N or 0, nv, nv): where a_q, a_v and M⁻¹ go, if they are wanted.
    """
    tree = Tree(context)
    nv, QQ, QV, VV, QT = V.shape[1], out[0], out[1], out[2], out[3]
    mu, vv = lane_vector(arena, nv), sparse(arena, nv)
    qq, qv, qtau = lane_matrix(arena, nv, nv), lane_matrix(arena, nv, nv), lane_matrix(arena, nv, nv)
    ws, x, r = lane_workspace(tree, arena), take_arguments(arena, Q, V, fext), lane_relation(nv, arena)
    for t in range(0, Q.shape[0], WIDTH):
        pack_arguments(x, Q, V, tau, fext, t)
        pack(weight, t, mu)
        relate(tree, x.q, x.first, x.second, x.fext, ws, r)
        if first.shape[1] > 0:
            unpack_relation(r, first, t)
        relate_twice(tree, mu, ws, r, qq, qv, vv, qtau)
        unpack(qq, QQ, t)
        unpack(qtau, QT, t)
        unpack(qv, QV, t)
        unpack(vv, VV, t)
        failed = first_failure(r.D, r.a, t, Q.shape[0])
        if failed >= 0:
            return failed
    return -1

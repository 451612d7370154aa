# mypy: allow-untyped-defs, allow-untyped-calls
"""The kernels of inverse and forward dynamics over batches of samples, one compiled call each, for any number.

Every kernel is given the address of a tree and working memory of ``size`` numbers: an array (., 8) of floats for eight
samples at a time, an array (.,) of floats or complex numbers for one (machine/memory.py).
"""

from functools import cache

from ddp.compiling.kernel import inline, kernel
from ddp.machine.fields import Fields, matrix_of, rows_apart, vector
from ddp.machine.memory import as_matrix, as_vector, columns_of, memory_of, rows_of
from ddp.machine.number import lane_of, smaller, width
from ddp.machine.packing import pack, unpack, unpack_places
from dynamics.arrays.products import dense_product
from dynamics.rigid_bodies import articulated, forward, hessian, inverse, tensors
from dynamics.rigid_bodies.implicit import adjoint_weight, first_order, second_order
from dynamics.rigid_bodies.inverse import first_felt
from dynamics.rigid_bodies.kinematics import Workspace, add_accelerations, clear, composites
from dynamics.rigid_bodies.tensor_entries import SLOTS
from dynamics.robots.tree import Tree
from dynamics.rods.memory import by_rods


class Sample(Fields):
    """Arguments of functions: q, two tangent vectors, as many wrenches as are given, and a vector of results."""

    q, first, second, weight, result = vector("nq"), vector("nv"), vector("nv"), vector("nv"), vector("nv")
    fext = matrix_of("wrenches", "6")


class Matrices(Fields):
    """Results (nv, nv), which stay zero between unrelated degrees of freedom."""

    a, b, c, d = matrix_of("nv", "nv"), matrix_of("nv", "nv"), matrix_of("nv", "nv"), matrix_of("nv", "nv")


class Relation(Fields):
    """The ID-FD relation at one sample: a, D (nv,), a_q, a_v, M⁻¹ (nv, nv), and scratch.

    LD, dq and dv begin as zeros and stay zero between unrelated degrees of freedom; cross need not.
    """

    a, D, omega = vector("nv"), vector("nv"), vector("nv")
    aq, av, Minv, cross = matrix_of("nv", "nv"), matrix_of("nv", "nv"), matrix_of("nv", "nv"), matrix_of("nv", "nv")
    LD, dq, dv = matrix_of("nv", "nv"), matrix_of("nv", "nv"), matrix_of("nv", "nv")


class Values(Fields):
    """Numbers of the tensors, see tensors.py."""

    values = rows_apart("triples + 1", SLOTS)


class Tensors(Fields):
    """Tensors of inverse dynamics, (nv, nv) for each torque, and room for one more."""

    qq, vv, vq = matrix_of("nv", "square"), matrix_of("nv", "square"), matrix_of("nv", "square")
    aq, spare = matrix_of("nv", "square"), matrix_of("nv", "square")


@cache
def size(nb: int, nq: int, nv: int, room: int = 0) -> int:
    """Numbers of memory that any kernel here takes, but for tensors; room: of rods, as in ``Tree``."""
    counts = {"nb": nb, "nq": nq, "nv": nv, "wrenches": nb, "room": room}
    return sum(fields.size(**counts) for fields in (Workspace, Sample, Relation, Matrices))


@cache
def room_of_tensors(nv: int, triples: int) -> int:
    """Numbers that the kernels of tensors take beyond ``size``."""
    return Values.size(triples=triples) + Tensors.size(nv=nv, square=nv * nv)


@inline
def given(address, memory, fext):
    """The tree, and a workspace and a sample in the memory."""
    tree = Tree(address)
    ws = Workspace(memory_of(memory), tree)
    return tree, ws, Sample(ws.end, tree, columns_of(fext) // 6)


@inline
def _matrices(tree, memory, count):
    """Matrices, the first ``count`` of zeros."""
    m = Matrices(memory, tree)
    clear(as_vector(m.a), count * tree.nv * tree.nv)
    return m


@inline
def relating(address, memory, fext):
    """The tree, and a workspace, a sample and a relation in the memory; LD, dq and dv are zeros."""
    tree, ws, x = given(address, memory, fext)
    r = Relation(x.end, tree)
    clear(as_vector(r.LD), 3 * tree.nv * tree.nv)
    return tree, ws, x, r


@kernel
def take(x, tree, Q, first, second, fext, t):
    """Read the arguments of the samples from t on."""
    pack(Q, t, x.q, tree.nq)
    pack(first, t, x.first, tree.nv)
    pack(second, t, x.second, tree.nv)
    pack(fext, t, as_vector(x.fext), columns_of(fext))


@inline
def give(x, m, out, N, t):
    """Write blocks of m numbers, one behind the other in x, of the samples from t on; out: a row of N for each."""
    for k in range(len(out)):
        unpack(x[k * m :], m, as_matrix(out[k], N, m), t)


@kernel
def inverse_dynamics(address, memory, Q, V, A, fext, tau):
    """τ of every sample."""
    Q, V, A, fext, tau = rows_of(Q), rows_of(V), rows_of(A), rows_of(fext), rows_of(tau)
    tree, ws, x = given(address, memory, fext)
    for t in range(0, len(Q), width(ws.end)):
        take(x, tree, Q, V, A, fext, t)
        inverse.inverse_dynamics(tree, x.q, x.first, x.second, x.fext, ws, x.result)
        unpack(x.result, tree.nv, tau, t)


@kernel
def inverse_dynamics_derivatives(address, memory, Q, V, A, fext, out):
    """∂τ/∂q, ∂τ/∂v, M of every sample: out (3, N, nv, nv)."""
    Q, V, A, fext, out = rows_of(Q), rows_of(V), rows_of(A), rows_of(fext), rows_of(out)
    tree, ws, x = given(address, memory, fext)
    m, square = _matrices(tree, x.end, 3), tree.nv * tree.nv
    for t in range(0, len(Q), width(ws.end)):
        take(x, tree, Q, V, A, fext, t)
        composites(tree, x.q, x.first, x.second, x.fext, ws)
        inverse.mass_matrix(tree, ws, m.c)
        inverse.inverse_dynamics_derivatives(tree, ws, m.a, m.b)
        give(as_vector(m.a), square, out, len(Q), t)


@kernel
def inverse_dynamics_tensors(address, memory, Q, V, A, fext, entries, dqdq, dvdv, dvdq, dadq):
    """The four tensors of every sample, by the ``Entries`` of the tree; they come in as zeros."""
    qq, vv, vq, aq = rows_of(dqdq), rows_of(dvdv), rows_of(dvdq), rows_of(dadq)
    places, groups, bounds = rows_of(entries.places), rows_of(entries.groups), rows_of(entries.bounds)
    Q, V, A, fext = rows_of(Q), rows_of(V), rows_of(A), rows_of(fext)
    tree, ws, x = given(address, memory, fext)
    values, cube = Values(x.end, entries.triples).values, tree.nv**3
    for t in range(0, len(Q), width(ws.end)):
        take(x, tree, Q, V, A, fext, t)
        composites(tree, x.q, x.first, x.second, x.fext, ws)
        tensors.inverse_dynamics_tensors(tree, ws, values)
        found = as_vector(values)
        for k, tensor in enumerate((qq, vv, vq, aq)):
            unpack_places(found, places[k], cube, groups, bounds, k, tensor, t)


@kernel
def contracted(tree, mu, ws, qq, qv, vv, qa):
    """The Hessian of μᵀ ID of one sample, after ``composites``."""
    hessian.virtual_velocities(tree, mu, ws)
    hessian.inverse_dynamics_hessian(tree, ws, qq, qv, vv, qa)


@kernel
def inverse_dynamics_hessian(address, memory, Q, V, A, mu, fext, out):
    """The Hessian of μᵀ ID of every sample, blocks qq, qv, vv, qa: out (4, N, nv, nv)."""
    Q, V, A, mu, fext, out = rows_of(Q), rows_of(V), rows_of(A), rows_of(mu), rows_of(fext), rows_of(out)
    tree, ws, x = given(address, memory, fext)
    m, square = _matrices(tree, x.end, 4), tree.nv * tree.nv
    for t in range(0, len(Q), width(ws.end)):
        take(x, tree, Q, V, A, fext, t)
        pack(mu, t, x.weight, tree.nv)
        composites(tree, x.q, x.first, x.second, x.fext, ws)
        contracted(tree, x.weight, ws, m.a, m.b, m.c, m.d)
        give(as_vector(m.a), square, out, len(Q), t)


@kernel
def first_failure(tree, D, a, first, count):
    """The first of samples from ``first`` on, of ``count``, whose D are not positive or a not finite; or -1."""
    smallest = D[0]
    for i in range(1, tree.nv):
        smallest = smaller(smallest, D[i])
    return first_singular(tree, smallest, a, first, count)


@kernel
def first_singular(tree, pivot, a, first, count):
    """The first of samples from ``first`` on, of ``count``, whose pivot is not positive or a not finite; or -1."""
    nothing = 0.0 * a[0]
    for i in range(1, tree.nv):
        nothing = nothing + 0.0 * a[i]
    for lane in range(min(width(a), count - first)):
        if not (lane_of(pivot, lane) > 0.0 and lane_of(nothing, lane) == 0.0):
            return first + lane
    return -1


@kernel
def forward_dynamics(address, memory, Q, V, tau, fext, A):
    """a of every sample, by articulated bodies; the first that fails, or -1."""
    Q, V, tau, fext, A = rows_of(Q), rows_of(V), rows_of(tau), rows_of(fext), rows_of(A)
    tree = Tree(address)
    bodies = articulated.Bodies(memory_of(memory), tree)
    x = Sample(bodies.end, tree, columns_of(fext) // 6)
    for t in range(0, len(Q), width(x.end)):
        take(x, tree, Q, V, tau, fext, t)
        pivot = articulated.forward_dynamics(tree, x.q, x.first, x.second, x.fext, bodies, x.result)
        unpack(x.result, tree.nv, A, t)
        failed = first_singular(tree, pivot, x.result, t, len(Q))
        if failed >= 0:
            return failed
    return -1


@kernel
def forward_dynamics_by_mass(address, memory, Q, V, tau, fext, A, Minv):
    """a of every sample, by the mass matrix, for robots with rods, too; the first that fails, or -1.

    Minv (N or 0, nv, nv): where M⁻¹ goes, if it is wanted.
    """
    Q, V, tau, fext, A, Minv = rows_of(Q), rows_of(V), rows_of(tau), rows_of(fext), rows_of(A), rows_of(Minv)
    tree, ws, x, r = relating(address, memory, fext)
    for t in range(0, len(Q), width(ws.end)):
        take(x, tree, Q, V, tau, fext, t)
        forward.forward_dynamics(tree, x.q, x.first, x.second, x.fext, ws, r.LD, r.D, r.a)
        unpack(r.a, tree.nv, A, t)
        if len(Minv) > 0:
            forward.invert(tree, r.LD, r.dq, r.dv, r.Minv)
            unpack(as_vector(r.Minv), tree.nv * tree.nv, Minv, t)
        failed = first_failure(tree, r.D, r.a, t, len(Q))
        if failed >= 0:
            return failed
    return -1


def accelerate(tree, q, v, a, fext, ws):
    """Make composites and rows of a = 0 those of a, after ``forward.forward_dynamics``."""
    add_accelerations(tree, a, ws)


by_rods(accelerate, inline(accelerate), composites)


@kernel
def relate(tree, q, v, tau, fext, ws, r):
    """Fill a ``Relation``; meaningless where its D are not positive."""
    forward.forward_dynamics(tree, q, v, tau, fext, ws, r.LD, r.D, r.a)
    forward.invert(tree, r.LD, r.dq, r.dv, r.Minv)
    accelerate(tree, q, v, r.a, fext, ws)
    inverse.inverse_dynamics_derivatives(tree, ws, r.dq, r.dv)
    first_order(tree, r.Minv, r.dq, first_felt(tree), r.aq)
    first_order(tree, r.Minv, r.dv, 0, r.av)


@kernel
def forward_dynamics_derivatives(address, memory, Q, V, tau, fext, out):
    """∂a/∂q, ∂a/∂v, M⁻¹ of every sample, out (3, N, nv, nv); the first that fails, or -1."""
    Q, V, tau, fext, out = rows_of(Q), rows_of(V), rows_of(tau), rows_of(fext), rows_of(out)
    tree, ws, x, r = relating(address, memory, fext)
    for t in range(0, len(Q), width(ws.end)):
        take(x, tree, Q, V, tau, fext, t)
        relate(tree, x.q, x.first, x.second, x.fext, ws, r)
        give(as_vector(r.aq), tree.nv * tree.nv, out, len(Q), t)
        failed = first_failure(tree, r.D, r.a, t, len(Q))
        if failed >= 0:
            return failed
    return -1


@kernel
def relate_twice(tree, weight, ws, r, qq, qv, vv, qtau):
    """The Hessian of weight·a by blocks, qq iterated, after ``relate``; vv comes in as zeros."""
    adjoint_weight(tree.nv, r.Minv, weight, r.omega)
    contracted(tree, r.omega, ws, r.dq, r.dv, vv, r.LD)
    second_order(tree, tree.nv, r.LD, r.aq, r.av, r.Minv, r.dq, r.dv, r.cross, qq, qv, qtau)


@kernel
def forward_dynamics_hessian(address, memory, Q, V, tau, weight, fext, first, out):
    """The Hessian of weight·a of every sample, blocks qq (iterated), qv, vv, qτ; the first that fails, or -1.

    out (4, N, nv, nv).  first (3 or 0, N, nv, nv): where a_q, a_v and M⁻¹ go, if they are wanted.
    """
    Q, V, tau, weight, fext = rows_of(Q), rows_of(V), rows_of(tau), rows_of(weight), rows_of(fext)
    first, out = rows_of(first), rows_of(out)
    tree, ws, x, r = relating(address, memory, fext)
    m, square = _matrices(tree, r.end, 4), tree.nv * tree.nv
    for t in range(0, len(Q), width(ws.end)):
        take(x, tree, Q, V, tau, fext, t)
        pack(weight, t, x.weight, tree.nv)
        relate(tree, x.q, x.first, x.second, x.fext, ws, r)
        failed = first_failure(tree, r.D, r.a, t, len(Q))
        if failed >= 0:
            return failed
        give(as_vector(r.aq), square, first, len(Q), t)
        relate_twice(tree, x.weight, ws, r, m.a, m.b, m.c, m.d)
        give(as_vector(m.a), square, out, len(Q), t)
    return -1


@kernel
def forward_dynamics_tensors(address, memory, Q, V, tau, fext, entries, dqdq, dvdv, dvdq, dtaudq):
    """The four tensors of every sample, dqdq iterated; the first that fails, or -1.

    The relation of implicit.py column by column: S_l = R_yy[l] + ... for each torque l, then -M⁻¹ over l.
    """
    out, places = (rows_of(dqdq), rows_of(dvdv), rows_of(dvdq), rows_of(dtaudq)), rows_of(entries.places)
    Q, V, tau, fext = rows_of(Q), rows_of(V), rows_of(tau), rows_of(fext)
    tree, ws, x, r = relating(address, memory, fext)
    nv, m, cube = tree.nv, _matrices(tree, r.end, 4), tree.nv**3
    found = Values(m.end, entries.triples)
    S = Tensors(found.end, tree, nv * nv)
    for t in range(0, len(Q), width(ws.end)):
        take(x, tree, Q, V, tau, fext, t)
        relate(tree, x.q, x.first, x.second, x.fext, ws, r)
        failed = first_failure(tree, r.D, r.a, t, len(Q))
        if failed >= 0:
            return failed
        tensors.inverse_dynamics_tensors(tree, ws, found.values)
        for k, tensor in enumerate((S.qq, S.vv, S.vq, S.aq)):
            values, entries = as_vector(found.values), as_vector(tensor)
            for e in range(cube):
                entries[e] = values[places[k, e]]
        for l in range(nv):
            own, by_v, by_a = as_matrix(S.qq[l], nv, nv), as_matrix(S.vq[l], nv, nv), as_matrix(S.aq[l], nv, nv)
            transpose(nv, by_v, m.a)
            transpose(nv, by_a, m.d)
            second_order(tree, nv, m.d, r.aq, r.av, r.Minv, own, m.a, r.cross, own, m.b, m.c)
            transpose(nv, m.b, by_v)
            transpose(nv, m.c, by_a)
        for k, tensor in enumerate((S.qq, S.vv, S.vq, S.aq)):
            dense_product(nv, nv * nv, nv, -1.0, r.Minv, tensor, S.spare)
            unpack(as_vector(S.spare), cube, out[k], t)
    return -1


@kernel
def transpose(n, A, out):
    """out (n, n) := Aᵀ, of other memory."""
    for i in range(n):
        for j in range(n):
            out[j, i] = A[i, j]

# mypy: allow-untyped-defs, allow-untyped-calls
"""First order of the explicit steps of runge_kutta.py: the chain rule through their stages.

With E_q, E_v, E_u the rows of the identity that pick δq, δv, δu out of δz = (δq, δv, δu), stage by stage

    V_i = E_v + h Σ_j A_ij W_j       rates of v_i           W_i = a_q Q_i + a_v V_i + a_u E_u    of a_i
    Q_i = T_i E_q + J_i Ξ_i          of q_i                 Ξ_i    of ξ_i, by its formula

with T = Ad_{Exp(-ξ)} and J = Jr(ξ), joint by joint, 1 but for free-flyers, spherical and planar joints. Those of the
stage after the last are [A B]. Accelerations are of eight knots at a time, rates of one, eight columns to a register.
"""

from ddp.compiling.kernel import inline, kernel
from ddp.machine.fields import Fields, matrix_of, nested, rows_apart, vector
from ddp.machine.memory import address_of, as_matrix, as_vector, columns_of, floats_at, numbers_between
from ddp.machine.number import spread, width
from ddp.machine.packing import unpack, unpack_columns
from ddp.machine.rows import add_rows, clear_rows, copy_rows, write_scaled
from ddp.machine.tiles import add_product
from dynamics.geometry.joint_motion import is_group, joint_bracket, joint_rates, twist_of
from dynamics.rigid_bodies.kinematics import Workspace, clear
from dynamics.steps.linearization import Motion, Relating, relate_controls
from dynamics.steps.modes import stage_sizes, step_of
from dynamics.steps.runge_kutta import reach_stage


class ExplicitRelation(Fields):
    """Working memory of ``relate_explicitly``, before ``Rates`` of each knot.

    q, v: where a step begins.   xi: ξ of the last stage reached, x its motion.   velocities, rates: of all stages.
    """

    q, v, u, xi = vector("nq"), vector("nv"), vector("nu"), vector("nv")
    velocities, rates = matrix_of("stages", "nv"), matrix_of("stages", "nv")
    x, ws, r = nested(Motion), nested(Workspace), nested(Relating)


class Rates(Fields):
    """Rates of one knot, floats: ξ, Ξ; [Q ; V] of the end; W of all stages, one below the other; T and J of a joint."""

    xi, Xi, end_rates, W = vector("nv"), matrix_of("nv", "ld"), matrix_of("2 nv", "ld"), matrix_of("staged", "ld")
    T, J = rows_apart("6", 6), rows_apart("6", 6)


@kernel
def explicit_relation(modes, mode, memory):
    """Working memory of ``relate_explicitly``."""
    tree = modes.tree
    w = ExplicitRelation(memory, tree, modes.nu, len(modes.method) - 1, modes.ld)
    clear(as_vector(w.x.Z), tree.nv * modes.ld)
    clear(as_vector(w.r.LD), 3 * tree.nv * tree.nv)
    return w


@inline
def relate_explicitly(modes, mode, w, A, B, record, t):
    """A, B and records of the knots from t on."""
    tree, method, h, nu, x, ld = modes.tree, modes.method, step_of(modes, mode), modes.nu, w.x, modes.ld
    nv, stages, count = tree.nv, len(method) - 1, min(width(x.q), len(A) - t)
    n, (own, size), floats = 2 * nv, stage_sizes(tree.nq, nv, ld), floats_at(address_of(w.end))
    numbers = numbers_between(floats, Rates(floats, tree, ld, stages * nv).end)
    knots = as_matrix(floats, width(x.q), numbers)
    for i in range(stages + 1):
        reach_stage(tree, method, h, i, w.q, w.v, spread(0.0, w.v[0]), w.velocities, w.rates, w.xi, x.q, x.v)
        unpack(w.xi, nv, knots[:count], 0)
        if i < stages:
            relate_controls(tree, modes.pulls, nu, w.u, x, w.ws, w.r)
            unpack_columns(x.q, own, record, t, i * size)
            for j in range(nv):
                w.velocities[i, j] = x.v[j]
                w.rates[i, j] = x.a[j]
        for k in range(count):
            relate_stage(tree, method, h, i, nu, ld, Rates(knots[k], tree, ld, stages * nv), record[t + k])
    for k in range(count):
        of_end = Rates(knots[k], tree, ld, stages * nv).end_rates
        write_scaled(address_of(A[t + k]), n, 1.0, address_of(of_end), ld, n, n)
        write_scaled(address_of(B[t + k]), nu, 1.0, address_of(as_vector(of_end)[n:]), ld, n, nu)


@kernel
def rates_of(record, i, own, size):
    """[Q ; V] (2 nv, ld) of stage i in a record, as a vector."""
    return record[i * size + own :]


@kernel
def relate_stage(tree, method, h, i, nu, ld, r, record):
    """[Q ; V] and W of stage i of a knot: the former into its record, or of the step's end into r."""
    nv, ends = tree.nv, i == len(method) - 1
    own, size = stage_sizes(tree.nq, nv, ld)
    Q = as_vector(r.end_rates) if ends else rates_of(record, i, own, size)
    V, W = Q[nv * ld :], as_vector(r.W)
    clear_rows(address_of(V), ld, nv, ld)
    for a in range(nv):
        V[a * ld + nv + a] = 1.0
    for j in range(i):
        if method[i, j] != 0.0:
            add_rows(address_of(V), ld, h * method[i, j], address_of(W[j * nv * ld :]), ld, nv, ld)
    relate_twist(tree, method, h, i, record, own, size, r.J, r.Xi)
    copy_rows(address_of(Q), ld, address_of(r.Xi), ld, nv, ld)
    for b in range(tree.nb):
        kind, iv, nj = tree.kind[b], tree.iv[b], tree.nj[b]
        if is_group(kind):
            joint_rates(kind, nj, twist_of(kind, r.xi, iv, 1.0), r.T, r.J)
            turned = address_of(Q[iv * ld :])
            clear_rows(turned, ld, nj, ld)
            add_product(turned, ld, nj, ld, address_of(r.J), 6, 1, address_of(r.Xi[iv]), ld, nj)
            for a in range(nj):
                for k in range(nj):
                    Q[(iv + a) * ld + iv + k] += r.T[a, k]
        else:
            for a in range(iv, iv + nj):
                Q[a * ld + a] += 1.0
    if not ends:
        Z, W = record[i * size + own - nv * ld :], W[i * nv * ld :]
        clear_rows(address_of(W), ld, nv, ld)
        add_product(address_of(W), ld, nv, ld, address_of(Z), ld, 1, address_of(Q), ld, 2 * nv)
        for a in range(nv):
            for k in range(a * ld + 2 * nv, a * ld + 2 * nv + nu):
                W[k] += Z[k]


@kernel
def relate_twist(tree, method, h, i, record, own, size, M, Xi):
    """Ξ (nv, ld) of stage i from the rates V of the stages before; M: scratch."""
    nv, ld, to, stages = tree.nv, columns_of(Xi), address_of(Xi), len(method) - 1
    clear_rows(to, ld, nv, ld)
    for j in range(i):
        if method[i, j] != 0.0:
            add_rows(to, ld, h * method[i, j], address_of(rates_of(record, j, own, size)[nv * ld :]), ld, nv, ld)
    if method[i, stages] != 0.0:
        scale, j, k = h * h * method[i, stages], int(method[i, stages + 1]), int(method[i, stages + 2])
        for b in range(tree.nb):
            kind, iv, nj = tree.kind[b], tree.iv[b], tree.nj[b]
            if is_group(kind):  # [x, y] changes by [x, δy] - [y, δx]
                for x, of_y, sign in ((j, k, scale), (k, j, -scale)):
                    joint_bracket(kind, nj, twist_of(kind, record, x * size + tree.nq + iv, sign), M)
                    y = rates_of(record, of_y, own, size)[(nv + iv) * ld :]
                    add_product(address_of(Xi[iv]), ld, nj, ld, address_of(M), 6, 1, address_of(y), ld, nj)

# mypy: allow-untyped-defs, allow-untyped-calls
"""Second order of the implicit steps of implicit_steps.py, contracted with a weight: back through the stages.

With weights (w_q, w_v) on where a stage ends, the weight on v' is w_z = κ (w_v + θ h Jrᵀ w_q) and that on the residual
ω = -h K⁻ᵀ w_z. With L_q, L_v, L_a the rates of q_s, v_s, a_s by (δx, δu), a stage adds

    L_qᵀ qq L_q + L_vᵀ vv L_v + sym[L_qᵀ (qv L_v + qa L_a + qλ L_λ + qu L_u)]   blocks of ω·R + ν·e there

and, of joints whose motions do not commute, the curvature of q ⊕ κ h v_s under w_q and of q ⊕ θ h v_s under R_qᵀ ω, see
second_order.py. sym[A] = A + Aᵀ. Knots of eight lanes at a time, or one; products with rates are of floats.
"""

from ddp.compiling.kernel import inline, kernel
from ddp.machine.fields import Fields, matrix_of, nested, rows_apart, vector
from ddp.machine.memory import address_of, as_matrix, as_vector, columns_from, floats_at, numbers_between
from ddp.machine.number import width
from ddp.machine.packing import pack, unpack_columns
from ddp.machine.rows import add_rows, add_transposed, clear_rows, mirror, write_rows
from ddp.machine.tiles import add_product
from dynamics.arrays.elimination import solve_transposed
from dynamics.geometry.joint_motion import (
    is_group,
    joint_curvature,
    joint_jacobian,
    joint_rates,
    joint_transport,
    turned_back,
    twist_of,
)
from dynamics.rigid_bodies.kinematics import Workspace, clear
from dynamics.rigid_bodies.loops import Looping, add_loop_stiffness, curve_loops, see_loops
from dynamics.rigid_bodies.residual import residual_hessian
from dynamics.steps.implicit_linearization import (
    Rates,
    begin_rates,
    displaced_rates,
    numbers_of_stage,
    rates_of_stage,
    see_velocity,
    z_of,
)
from dynamics.steps.implicit_steps import Solving, see_stage
from dynamics.steps.modes import step_of, whole


class ImplicitCurvature(Fields):
    """q, v, z, K of a stage in a record; weights on its end, v', and e, R; λ; J of a joint; blocks, zeros at first.

    pull: tensions of tendons, the first controls of a stage.
    """

    q, v, z, K = vector("nq"), vector("nv"), vector("nv + nc"), matrix_of("nv + nc", "nv + nc")
    weight, on_next, omega, force, J = vector("2 nv"), vector("nv"), vector("nv + nc"), vector("nc"), rows_apart("6", 6)
    qq, qv, vv, qa = matrix_of("nv", "nv"), matrix_of("nv", "nv"), matrix_of("nv", "nv"), matrix_of("nv", "nv")
    ql, qu, pull = matrix_of("nv", "nc"), matrix_of("nv", "cables"), vector("cables")
    ws, s, loops = nested(Workspace), nested(Solving), nested(Looping)


class Assembling(Fields):
    """Floats of one knot, rows of ld numbers: L_q, L_a and products; of a joint C, D, J, T; weights."""

    Lq, La, X, Y = matrix_of("nv", "ld"), matrix_of("nv", "ld"), matrix_of("nv", "ld"), matrix_of("nv", "ld")
    bent, pulled, on_stage = matrix_of("6", "ld"), vector("ld"), vector("12")
    C, D, J, T, other = (rows_apart("6", 6), rows_apart("6", 6), rows_apart("6", 6), rows_apart("6", 6),
                         rows_apart("6", 6))  # fmt: skip


class Adjoint(Fields):
    """Floats of one knot: weights on where a stage ends and on v', blocks, half of the Hessian."""

    carried, on_next, blocks = vector("2 nv"), vector("nv"), matrix_of("4 nv + nc + cables", "nv")
    H = matrix_of("ld", "ld")


@kernel
def size(tree, where, m, nc, lanes):
    """Numbers, of so many lanes, that ``implicit_curvature`` takes."""
    memory = floats_at(64)
    numbers, _, y = floats_of_knots(tree, nc, where.ld, 1, memory)
    rest = numbers_between(memory, y.end) - numbers
    of_knots = numbers_between(memory, ImplicitCurvature(memory, tree, nc, m).end)
    return of_knots + numbers + (rest + 16) // lanes + 1


@kernel
def floats_of_knots(tree, nc, ld, lanes, floats):
    """Numbers of an ``Adjoint``, of which there is one to a lane, and ``Rates`` and an ``Assembling`` after these."""
    numbers = numbers_between(floats, Adjoint(floats, tree, nc, ld).end)
    r = Rates(floats[lanes * numbers :], tree.nv, ld, nc)
    return numbers, r, Assembling(r.end, tree.nv, ld)


@kernel
def implicit_curvature(modes, mode, memory):
    """Working memory of ``curve_implicitly``."""
    tree, nc = modes.tree, modes.loops.nc
    w = ImplicitCurvature(memory, tree, nc, modes.loops.entries)
    clear(as_vector(w.qq), tree.nv * (4 * tree.nv + nc + tree.cables))
    clear(as_vector(w.loops.J), nc * tree.nv)
    return w


@inline
def curve_implicitly(modes, mode, w, record, weight, out):
    """Hessians of some knots, as many as there are in a record, at most one to a lane."""
    tree, method, nu, dt, ld, loops = modes.tree, modes.method, modes.nu, step_of(modes, mode), modes.ld, modes.loops
    nq, nv, count, nc, floats = tree.nq, tree.nv, len(method), loops.nc, floats_at(address_of(w.end))
    n, nz, own = 2 * nv, 2 * nv + nu, numbers_of_stage(nq, nv, nu, nc)
    numbers, r, y = floats_of_knots(tree, nc, ld, width(w.q), floats)
    knots = as_matrix(floats, len(record), numbers)
    for k in range(len(record)):
        a = Adjoint(knots[k], tree, nc, ld)
        clear(as_vector(a.H), ld * ld)
        for j in range(n):
            a.carried[j] = weight[k, j]
    for i in range(count - 1, -1, -1):
        theta, h, kappa = method[i, 0], dt * method[i, 1], method[i, 2]
        pack(columns_from(record, i * own), 0, w.q, nq + n + nc + (nv + nc) * (nv + nc))
        pack(columns_from(record, (i + 1) * own - nu), 0, w.pull, tree.cables)
        pack(knots, 0, w.weight, n)
        weigh_stage(tree, loops, modes.pulls, theta, h, kappa, w)
        unpack_columns(w.on_next, nv, knots, 0, n)
        unpack_columns(as_vector(w.qq), nv * (4 * nv + nc + tree.cables), knots, 0, n + nv)
        for k in range(len(record)):
            a, kept = Adjoint(knots[k], tree, nc, ld), record[k][i * own :]
            begin_rates(tree, nu, nc, i, count, record[k], r)
            rates_of_stage(tree, nu, nc, theta, i, kept, r)
            both = a.carried, a.on_next
            add_stage(tree, nu, nc, theta, h, kappa, kept, both, as_vector(a.blocks), r, y, as_vector(a.H))
    for k in range(len(record)):
        H = address_of(Adjoint(knots[k], tree, nc, ld).H)
        add_transposed(H, ld, ld)
        mirror(H, ld)
        write_rows(address_of(out[k]), nz, H, ld, nz, nz)


@kernel
def weigh_stage(tree, loops, pulls, theta, h, kappa, x):
    """Weights on v' and on e and R, and the blocks of ω·R + ν·e."""
    nv, nc, ws, s, lp = tree.nv, loops.nc, x.ws, x.s, x.loops
    for i in range(nv + nc):
        s.z[i] = x.z[i]
    for i in range(nv):
        x.on_next[i] = kappa * (x.weight[nv + i] + (theta * h) * x.weight[i])
    see_stage(tree, nc, theta, h, x.q, x.v, s)
    for b in range(tree.nb):
        iv, nj, kind = tree.iv[b], tree.nj[b], tree.kind[b]
        if is_group(kind):
            joint_jacobian(kind, nj, twist_of(kind, s.v, iv, kappa * h), x.J)
            for i in range(nj):
                turned = turned_back(x.J, nj, x.weight, iv, i)
                x.on_next[iv + i] = kappa * (x.weight[nv + iv + i] + (theta * h) * turned)
    for i in range(nv + nc):
        x.omega[i] = -x.on_next[i - nc] if i >= nc else 0.0 * x.v[0]
    solve_transposed(loops.previous, nv + nc, x.K, x.omega)
    for i in range(nv + nc):
        x.omega[i] = h * x.omega[i] if i >= nc else x.omega[i] / h
    for e in range(len(pulls)):
        if pulls[e, 3] != 0.0:
            x.omega[nc + int(pulls[e, 0])] = 0.0 * x.v[0]
    omega = x.omega[nc:]
    if nc > 0:  # which couple what the tree does not
        clear(as_vector(x.qq), nv * nv)
    residual_hessian(tree, s.q, s.v, s.a, x.pull, omega, s.no_fext, ws, x.qq, x.qv, x.vv, x.qa, x.qu)
    if nc > 0:
        for r in range(nc):
            x.force[r] = x.z[r] / h
        see_loops(tree, loops, s.q, ws, lp)
        add_loop_stiffness(tree, loops, 1.0, x.omega, ws, lp, x.qq)
        curve_loops(tree, loops, x.force, ws, lp, x.qq, x.ql)


# -- one knot, floats ------------------------------------------------------------------------------------------------


@kernel
def add_stage(tree, nu, nc, theta, h, kappa, kept, weights, blocks, r, y, H):
    """Add half of a stage's Hessian to H; weights on its end, which become those on its beginning, and on v'."""
    weight, on_next = weights
    nv, n, nz, ld = tree.nv, 2 * tree.nv, 2 * tree.nv + nu, whole(2 * tree.nv + nu)
    square, at, pulled = nv * nv, address_of(H), address_of(y.pulled)
    Lq, La, S, X, Y = (
        address_of(as_vector(y.Lq)), address_of(as_vector(y.La)), address_of(as_vector(r.S)),
        address_of(as_vector(y.X)), address_of(as_vector(y.Y)),
    )  # fmt: skip
    clear_rows(pulled, ld, 1, ld)
    for i in range(nv):
        row = z_of(tree, nc, kept)[(nc + i) * nz :]
        for j in range(n):
            y.pulled[j] += on_next[i] * row[j]
    see_velocity(tree, nc, theta, kept, r.own)
    displaced_rates(tree, nu, theta * h, r, y.Lq)
    clear_rows(La, ld, nv, ld)
    add_rows(La, ld, 1.0 / h, address_of(r.Z[nc]), ld, nv, ld)
    add_rows(La, ld, -1.0 / h, address_of(as_vector(r.V)), ld, nv, ld)
    for i in range(square):
        blocks[i], blocks[2 * square + i] = 0.5 * blocks[i], 0.5 * blocks[2 * square + i]
    for b in range(tree.nb):
        if is_group(tree.kind[b]):
            add_joint(tree, b, nu, theta, h, kappa, weight, blocks, r, y, H)
    clear_rows(X, ld, nv, ld)
    add_product(X, ld, nv, ld, address_of(blocks), nv, 1, Lq, ld, nv)
    add_product(X, ld, nv, ld, address_of(blocks[square:]), nv, 1, S, ld, nv)
    add_product(X, ld, nv, ld, address_of(blocks[3 * square :]), nv, 1, La, ld, nv)
    if nc > 0:
        for i in range(4 * square, 4 * square + nv * nc):
            blocks[i] = blocks[i] / h
        add_product(X, ld, nv, ld, address_of(blocks[4 * square :]), nc, 1, address_of(as_vector(r.Z)), ld, nc)
    for i in range(nv):
        for j in range(tree.cables):
            y.X[i, n + j] += blocks[4 * square + nv * nc + i * tree.cables + j]
    clear_rows(Y, ld, nv, ld)
    add_product(Y, ld, nv, ld, address_of(blocks[2 * square :]), nv, 1, S, ld, nv)
    add_product(at, ld, nz, ld, Lq, 1, ld, X, ld, nv)
    add_product(at, ld, nz, ld, S, 1, ld, Y, ld, nv)
    for b in range(tree.nb):
        pull_weight(tree, b, theta, h, kappa, weight, y, r)


@kernel
def add_joint(tree, b, nu, theta, h, kappa, weight, blocks, r, y, H):
    """Curvature of a joint whose motions do not commute: half of it by v_s into vv, that by q and v_s into H."""
    nv, iv, nj, kind, ld = tree.nv, tree.iv[b], tree.nj[b], tree.kind[b], whole(2 * tree.nv + nu)
    joint_transport(kind, nj, twist_of(kind, r.own[0], iv, -theta * h), y.T)
    for i in range(nj):
        y.on_stage[i] = turned_back(y.T, nj, y.pulled, iv, i)
    joint_curvature(
        kind, nj, twist_of(kind, r.own[0], iv, theta * h), twist_of(kind, y.on_stage, 0, 1.0), y.J, y.C, y.D
    )
    for i in range(nj):
        for k in range(nj):
            blocks[(2 * nv + iv + i) * nv + iv + k] += 0.5 * (theta * h) * (theta * h) * y.C[i, k]
            y.other[i, k] = theta * h * y.D[i, k]
    joint_curvature(kind, nj, twist_of(kind, r.own[0], iv, kappa * h), twist_of(kind, weight, iv, 1.0), y.J, y.C, y.D)
    for i in range(nj):
        for k in range(nj):
            blocks[(2 * nv + iv + i) * nv + iv + k] += 0.5 * (kappa * h) * (kappa * h) * y.C[i, k]
            y.other[i, k] += kappa * h * y.D[i, k]
    bent = address_of(as_vector(y.bent))
    clear_rows(bent, ld, nj, ld)
    add_product(bent, ld, nj, ld, address_of(as_vector(y.other)), 6, 1, address_of(r.S[iv]), ld, nj)
    add_product(address_of(H), ld, 2 * nv + nu, ld, address_of(r.Q[iv]), 1, ld, bent, ld, nj)


@kernel
def pull_weight(tree, b, theta, h, kappa, weight, y, r):
    """Weights on where a stage ends become those on where it begins, for a joint's degrees of freedom."""
    nv, iv, nj, kind = tree.nv, tree.iv[b], tree.nj[b], tree.kind[b]
    if is_group(kind):
        joint_rates(kind, nj, twist_of(kind, r.own[0], iv, kappa * h), y.T, y.J)
        for i in range(nj):
            y.on_stage[i] = turned_back(y.T, nj, weight, iv, i)
            y.on_stage[6 + i] = turned_back(y.J, nj, weight, iv, i)
    else:
        for i in range(nj):
            y.on_stage[i] = y.on_stage[6 + i] = weight[iv + i]
    for i in range(nj):
        weight[iv + i] = y.on_stage[i] + y.pulled[iv + i]
        through = (1.0 - kappa) * weight[nv + iv + i] + kappa * h * (1.0 - theta) * y.on_stage[6 + i]
        weight[nv + iv + i] = through + y.pulled[nv + iv + i]

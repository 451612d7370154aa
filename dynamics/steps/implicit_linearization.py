# mypy: allow-untyped-defs, allow-untyped-calls
"""First order of the implicit steps of implicit_steps.py: each stage as a relation, and the chain rule through them.

With T = Ad_{Exp(-ξ)} and Jr, joint by joint, of ξ = θ h v_s, and G = R_v + θ h R_q Jr, a stage moves v' by

    δv' = Z (δq, δv, δu),   Z = K⁻¹ [-h R_q T | M - (1 - θ) h G | h S]

and, of loops, h λ by rows before those of v', with -e_q T / h on the right.

Where Q, V (nv, nz) are the rates of where it begins by (δx, δu), those of v' are Z (Q, V, E_u), of v_s they are
(1 - θ) V plus θ times that, and where the next stage begins they are, with T and Jr of κ h v_s,

    Q⁺ = T Q + κ h Jr V_s          V⁺ = (1 - κ) V + κ Z (Q, V, E_u)

A record holds q, v, z = (h λ, v'), the factors of K, Z, u of every stage, then Q, V of every stage but the first.
"""

from ddp.compiling.kernel import inline, kernel
from ddp.machine.fields import Fields, matrix_of, nested, rows_apart, vector
from ddp.machine.memory import address_of, as_vector, floats_at
from ddp.machine.number import width
from ddp.machine.packing import unpack_columns
from ddp.machine.rows import add_rows, clear_rows, copy_rows, write_rows, write_scaled
from ddp.machine.tiles import add_product, padded
from dynamics.arrays.elimination import solve_columns
from dynamics.geometry.configuration import turn_columns
from dynamics.geometry.joint_motion import is_group, joint_rates, joint_transport, twist_of
from dynamics.rigid_bodies.kinematics import Workspace
from dynamics.rigid_bodies.loops import Looping
from dynamics.rigid_bodies.residual import residual_by_controls
from dynamics.steps.implicit_steps import Solving, clear_solving, end_stage, solve_stage
from dynamics.steps.modes import Layout, step_of, whole


class Stage(Fields):
    """Record of a stage: q, v, z = (h λ, v'), the factors of K, Z, u."""

    q, v, z = vector("nq"), vector("nv"), vector("nv + nc")
    K, Z, u = matrix_of("nv + nc", "nv + nc"), matrix_of("nv + nc", "2 nv + nu"), vector("nu")


class Rates(Fields):
    """Rates of one knot, rows of ld floats: Q, V, those of z and v_s, of where the stage ends; v_s; T, J."""

    Q, V, Z, S = matrix_of("nv", "ld"), matrix_of("nv", "ld"), matrix_of("nv + nc", "ld"), matrix_of("nv", "ld")
    Qn, Vn, own = matrix_of("nv", "ld"), matrix_of("nv", "ld"), matrix_of("1", "ld")
    T, J = rows_apart("6", 6), rows_apart("6", 6)


def implicit_layout(nq: int, nv: int, nu: int, most: int, stages: int) -> Layout:
    """The `Layout` of implicit steps, whose records are those of their stages and have no parts."""
    nz = 2 * nv + nu
    end = stages * Stage.size(nq=nq, nv=nv, nu=nu, nc=most) + (stages - 1) * 2 * nv * nz
    return Layout(end, end, end, end, 0, padded(nz))


@kernel
def numbers_of_stage(nq, nv, nu, nc):
    """Count the numbers that a record keeps of a stage, see ``Stage``."""
    nz = nv + nc
    return nq + nv + nz + nz * nz + nz * (2 * nv + nu) + nu


class ImplicitRelation(Fields):
    """Working memory of ``relate_implicitly``, before ``Rates``; q: states of knots.   T: of a joint."""

    q, u, T, kept = vector("nq + nv"), vector("nu"), rows_apart("6", 6), nested(Stage)
    ws, s, loops = nested(Workspace), nested(Solving), nested(Looping)


@kernel
def implicit_relation(modes, mode, memory):
    """Working memory of ``relate_implicitly``."""
    w = ImplicitRelation(memory, modes.tree, modes.nu, modes.loops.nc, modes.loops.entries)
    clear_solving(modes.tree, modes.loops.nc, w.s, w.loops)
    return w


@inline
def relate_implicitly(modes, mode, w, A, B, record, t):
    """A, B and records of the knots from t on."""
    tree, method, dt, nu, nc, ld = modes.tree, modes.method, step_of(modes, mode), modes.nu, modes.loops.nc, modes.ld
    nq, nv, count, x, s = tree.nq, tree.nv, len(method), w.q, w.s
    r = Rates(floats_at(address_of(w.end)), nv, ld, nc)
    n, own = 2 * nv, numbers_of_stage(nq, nv, nu, nc)
    for i in range(count):
        theta, h, kappa = method[i, 0], dt * method[i, 1], method[i, 2]
        wrong = solve_stage(modes, i > 0, theta, h, x, x[nq:], w.u, w.ws, s, w.loops, True)
        keep_stage(tree, modes.pulls, nu, nc, theta, h, wrong, modes.loops, w)
        unpack_columns(w.kept.q, own, record, t, i * own)
        end_stage(tree, nc, theta, h, kappa, wrong, x, s)
    for k in range(t, min(t + width(x), len(A))):
        for i in range(count):
            begin_rates(tree, nu, nc, i, count, record[k], r)
            rates_of_stage(tree, nu, nc, method[i, 0], i, record[k][i * own :], r)
            end_rates(tree, nu, nc, method[i, 0], dt * method[i, 1], method[i, 2], record[k][i * own :], r)
            if i + 1 < count:
                after = address_of(record[k][count * own + i * n * (n + nu) :])
                write_rows(after, n + nu, address_of(as_vector(r.Qn)), ld, n, n + nu)
        write_rows(address_of(A[k]), n, address_of(as_vector(r.Qn)), ld, n, n)
        write_scaled(address_of(B[k]), nu, 1.0, address_of(as_vector(r.Qn)[n:]), ld, n, nu)


@kernel
def keep_stage(tree, pulls, nu, nc, theta, h, wrong, loops, w):
    """Write what records keep of a solved stage."""
    nq, nv, s, lp, kept = tree.nq, tree.nv, w.s, w.loops, w.kept
    for i in range(nq):
        kept.q[i] = w.q[i]
    for i in range(nv):
        kept.v[i] = w.q[nq + i]
        for j in range(nv):
            kept.Z[nc + i, j] = -h * s.Rq[i, j]
            kept.Z[nc + i, nv + j] = s.M[i, j] - ((1.0 - theta) * h) * s.G[i, j]
    for i in range(nc + nv):
        kept.z[i] = s.z[i] + wrong
        for j in range(nc + nv):
            kept.K[i, j] = s.K[i, j]
        for j in range(nu):
            kept.Z[i, 2 * nv + j] = 0.0 * wrong
    for i in range(nc):
        for j in range(nv):
            kept.Z[i, j] = (-1.0 / h) * lp.J[i, j]
            kept.Z[i, nv + j] = 0.0 * wrong
    for b in range(tree.nb):
        if is_group(tree.kind[b]):
            joint_transport(tree.kind[b], tree.nj[b], twist_of(tree.kind[b], s.xi, tree.iv[b], 1.0), w.T)
            turn_columns(nv, tree.iv[b], tree.nj[b], w.T, s.Rq, -h, kept.Z[nc:], 0)
            turn_columns(nc, tree.iv[b], tree.nj[b], w.T, lp.J, -1.0 / h, kept.Z, 0)
    for j in range(nu):
        kept.u[j] = w.u[j]
    residual_by_controls(tree, pulls, s.q, -h, 2 * nv, w.ws, kept.Z[nc:])
    for e in range(len(pulls)):
        if pulls[e, 3] != 0.0:
            i = int(pulls[e, 0])
            for j in range(2 * nv + nu):
                kept.Z[nc + i, j] = 0.0 * wrong
            kept.Z[nc + i, nv + i] = 1.0 + 0.0 * wrong
            kept.Z[nc + i, 2 * nv + int(pulls[e, 1])] = h * pulls[e, 2] + 0.0 * wrong
    solve_columns(loops.previous, nv + nc, s.K, kept.Z, 2 * nv + nu)


# -- one knot, floats ------------------------------------------------------------------------------------------------


@kernel
def begin_rates(tree, nu, nc, i, count, record, r):
    """r.Q, r.V of where stage i begins."""
    nv = tree.nv
    n, ld = 2 * nv, whole(2 * nv + nu)
    if i == 0:
        clear_rows(address_of(as_vector(r.Q)), ld, n, ld)
        for k in range(n):
            r.Q[k, k] = 1.0
    else:
        before = record[count * numbers_of_stage(tree.nq, nv, nu, nc) + (i - 1) * n * (n + nu) :]
        copy_rows(address_of(as_vector(r.Q)), ld, address_of(before), n + nu, n, n + nu)


@kernel
def rates_of_stage(tree, nu, nc, theta, i, kept, r):
    """r.Z, r.S: rates of z and of v_s of a stage that begins with r.Q, r.V."""
    nv, z = tree.nv, z_of(tree, nc, kept)
    n, nz, ld = 2 * nv, 2 * nv + nu, whole(2 * nv + nu)
    Z = address_of(as_vector(r.Z))
    if i == 0:
        copy_rows(Z, ld, address_of(z), nz, nv + nc, nz)
    else:
        clear_rows(Z, ld, nv + nc, ld)
        for k in range(nv + nc):
            for j in range(n, nz):
                r.Z[k, j] = z[k * nz + j]
        add_product(Z, ld, nv + nc, ld, address_of(z), nz, 1, address_of(as_vector(r.Q)), ld, n)
    clear_rows(address_of(as_vector(r.S)), ld, nv, ld)
    add_rows(address_of(as_vector(r.S)), ld, theta, address_of(r.Z[nc]), ld, nv, ld)
    add_rows(address_of(as_vector(r.S)), ld, 1.0 - theta, address_of(as_vector(r.V)), ld, nv, ld)


@inline
def z_of(tree, nc, kept):
    """Z (nv + nc, nz) of a stage in a record, rows without gaps."""
    nz = tree.nv + nc
    return kept[tree.nq + tree.nv + nz + nz * nz :]


@kernel
def end_rates(tree, nu, nc, theta, h, kappa, kept, r):
    """r.Qn, r.Vn: rates of where a stage ends."""
    nv, ld = tree.nv, whole(2 * tree.nv + nu)
    Vn = address_of(as_vector(r.Vn))
    clear_rows(Vn, ld, nv, ld)
    add_rows(Vn, ld, kappa, address_of(r.Z[nc]), ld, nv, ld)
    if kappa != 1.0:
        add_rows(Vn, ld, 1.0 - kappa, address_of(as_vector(r.V)), ld, nv, ld)
    see_velocity(tree, nc, theta, kept, r.own)
    displaced_rates(tree, nu, kappa * h, r, r.Qn)


@kernel
def see_velocity(tree, nc, theta, kept, own):
    """The first row of own := v_s of a stage in a record."""
    nq, nv = tree.nq, tree.nv
    for k in range(nv):
        own[0, k] = (1.0 - theta) * kept[nq + k] + theta * kept[nq + nv + nc + k]


@kernel
def displaced_rates(tree, nu, h, r, out):
    """out (nv, ld) := T Q + h Jr V_s, rates of q ⊕ h v_s, with v_s in the first row of r.own."""
    ld = whole(2 * tree.nv + nu)
    for b in range(tree.nb):
        iv, nj, kind = tree.iv[b], tree.nj[b], tree.kind[b]
        to, Q, S = address_of(out[iv]), address_of(r.Q[iv]), address_of(r.S[iv])
        clear_rows(to, ld, nj, ld)
        if is_group(kind):
            joint_rates(kind, nj, twist_of(kind, r.own[0], iv, h), r.T, r.J)
            add_product(to, ld, nj, ld, address_of(as_vector(r.T)), 6, 1, Q, ld, nj)
            for i in range(nj):
                for k in range(nj):
                    r.J[i, k] = h * r.J[i, k]
            add_product(to, ld, nj, ld, address_of(as_vector(r.J)), 6, 1, S, ld, nj)
        else:
            add_rows(to, ld, 1.0, Q, ld, nj, ld)
            add_rows(to, ld, h, S, ld, nj, ld)

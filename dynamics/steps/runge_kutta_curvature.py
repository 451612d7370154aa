# mypy: allow-untyped-defs, allow-untyped-calls
"""Second order of the explicit steps of runge_kutta.py, contracted with a weight: back through the stages.

A stage's acceleration carries a weight ω_i and adds [Q V E_u]ᵀ (Hessian of ω_i·a) [Q V E_u], by the relation of
implicit.py; what it passes on to q_i and v_i goes through q ⊕ ξ_i, which adds the curvature of `joint_curvature`, and
through the brackets, which are bilinear. knots.py has the loop over knots.
"""

from ddp.compiling.kernel import inline, kernel
from ddp.machine.fields import Fields, matrix_of, nested, rows_apart, vector
from ddp.machine.memory import address_of, as_matrix, as_vector, columns_from, floats_at, numbers_between
from ddp.machine.number import width
from ddp.machine.packing import pack, unpack
from ddp.machine.rows import add_upper, clear_rows, mirror, write_rows
from ddp.machine.tiles import add_product, add_upper_product
from dynamics.contacts.hessian import clear_blocks, curve_motion
from dynamics.geometry.configuration import add_bracket
from dynamics.geometry.joint_motion import is_group, joint_bracket_contracted, joint_curvature, turned_back, twist_of
from dynamics.rigid_bodies.kinematics import Workspace, clear, composites
from dynamics.steps.hessians import add_joint, assemble_relation
from dynamics.steps.modes import stage_sizes, step_of
from dynamics.steps.runge_kutta_linearization import rates_of, relate_twist
from dynamics.steps.second_order import weigh_residuals


class ExplicitCurvature(Fields):
    """Motion of a stage, ω and blocks of the Hessian of ωᵀ ID, of as many knots as a number has lanes."""

    q, v, a, omega = vector("nq"), vector("nv"), vector("nv"), vector("nv")
    qq, qv, vv, qz = matrix_of("nv", "nv"), matrix_of("nv", "nv"), matrix_of("nv", "nv"), matrix_of("nv", "nv")
    ws, no_fext = nested(Workspace), matrix_of("0", "6")


class Adjoint(Fields):
    """Floats of one knot: ω, blocks; weights on q, on v of stages and of the end, on -a of stages; its Hessian."""

    omega, blocks, on_q = vector("ld"), matrix_of("4 nv", "nv"), vector("nv")
    on_v, on_a, H = matrix_of("stages + 1", "nv"), matrix_of("stages", "nv"), matrix_of("ld", "ld")


class Products(Fields):
    """Floats to work in: ξ, Ξ and the weight on ξ; a stage's Hessian G, its product with [Q V E_u]; of one joint."""

    xi, on_xi, Xi = vector("nv"), vector("nv"), matrix_of("nv", "ld")
    G, Y, bent = matrix_of("ld", "ld"), matrix_of("ld", "ld"), matrix_of("6", "ld")
    J, C, D = rows_apart("6", 6), rows_apart("6", 6), rows_apart("6", 6)


@kernel
def size(tree, where, m, nc, lanes):
    """Numbers, of so many lanes, that ``explicit_curvature`` takes."""
    memory, stages = floats_at(64), where.end // stage_sizes(tree.nq, tree.nv, where.ld)[1]
    numbers = numbers_between(memory, Adjoint(memory, tree, where.ld, stages).end)
    products = numbers_between(memory, Products(memory, tree, where.ld).end)
    return numbers_between(memory, ExplicitCurvature(memory, tree).end) + numbers + products // lanes + 2


@kernel
def explicit_curvature(modes, mode, memory):
    """Working memory of ``curve_explicitly``."""
    w = ExplicitCurvature(memory, modes.tree)
    clear_blocks(modes.tree, w)
    return w


@inline
def curve_explicitly(modes, mode, w, record, weight, out):
    """Hessians of some knots, as many as there are in a record, at most one to a lane."""
    tree, method, nu, h, ld = modes.tree, modes.method, modes.nu, step_of(modes, mode), modes.ld
    nq, nv, stages, floats = tree.nq, tree.nv, len(method) - 1, floats_at(address_of(w.end))
    numbers = numbers_between(floats, Adjoint(floats, tree, ld, stages).end)
    knots, products = as_matrix(floats, len(record), numbers), Products(floats[width(w.q) * numbers :], tree, ld)
    nz, (own, size) = 2 * nv + nu, stage_sizes(nq, nv, ld)
    for k in range(len(record)):
        y = Adjoint(knots[k], tree, ld, stages)
        clear(y.on_q, numbers_between(y.on_q, y.end))
        for j in range(nv):
            y.on_q[j], y.on_v[stages, j] = weight[k, j], weight[k, nv + j]
    for i in range(stages - 1, -1, -1):
        for k in range(len(record)):
            y, K = Adjoint(knots[k], tree, ld, stages), record[k][i * size + nq + 2 * nv :]
            leave_stage(tree, method, h, i + 1, nz, record[k], products, y)
            weigh_residuals(K, nv, nv, y.on_a[i], y.omega)
        pack(columns_from(record, i * size), 0, w.q, nq + 2 * nv)
        pack(knots, 0, w.omega, nv)
        composites(tree, w.q, w.v, w.a, w.no_fext, w.ws)
        curve_motion(tree, w.omega, w.ws, w)
        unpack(as_vector(w.qq), 4 * nv * nv, columns_from(knots, ld), 0)
        for k in range(len(record)):
            y, Z = Adjoint(knots[k], tree, ld, stages), record[k][i * size + own - nv * ld :]
            curve_acceleration(tree, i, nu, Z, products, y)
    for k in range(len(record)):
        H = address_of(Adjoint(knots[k], tree, ld, stages).H)
        mirror(H, ld)
        write_rows(address_of(out[k]), nz, H, ld, nz, nz)


@kernel
def leave_stage(tree, method, h, i, nz, record, p, y):
    """Second order of stage i's q ⊕ ξ and of ξ's bracket, into H's upper triangle; weights on the stages before."""
    nv, ld, stages = tree.nv, len(y.H), len(method) - 1
    own, size = stage_sizes(tree.nq, nv, ld)
    scale, first, second = h * h * method[i, stages], int(method[i, stages + 1]), int(method[i, stages + 2])
    at_x, at_y = first * size + tree.nq, second * size + tree.nq
    clear(p.xi, nv)
    for j in range(i):
        for k in range(nv):
            p.xi[k] += h * method[i, j] * record[j * size + tree.nq + k]
    if scale != 0.0:
        add_bracket(tree, scale, record, at_x, at_y, p.xi)
    relate_twist(tree, method, h, i, record, own, size, p.J, p.Xi)
    for b in range(tree.nb):
        kind, iv, nj = tree.kind[b], tree.iv[b], tree.nj[b]
        for a in range(iv, iv + nj):
            p.on_xi[a] = y.on_q[a]
        if is_group(kind):
            joint_curvature(kind, nj, twist_of(kind, p.xi, iv, 1.0), twist_of(kind, y.on_q, iv, 1.0), p.J, p.C, p.D)
            C, D, Xi, bent, H = as_vector(p.C), as_vector(p.D), as_vector(p.Xi), as_vector(p.bent), as_vector(y.H)
            add_joint(iv, nj, 6, C, D, nz, ld, Xi, bent, H)
            for a in range(nj):
                p.on_xi[iv + a] = turned_back(p.J, nj, y.on_q, iv, a)
            if scale != 0.0:
                joint_bracket_contracted(kind, nj, twist_of(kind, p.on_xi, iv, scale), p.C)
                X = rates_of(record, first, own, size)[(nv + iv) * ld :]
                Y = rates_of(record, second, own, size)[(nv + iv) * ld :]
                for a in range(nj):
                    for k in range(nj):
                        y.on_v[first, iv + a] += p.C[a, k] * record[at_y + iv + k]
                        y.on_v[second, iv + k] += p.C[a, k] * record[at_x + iv + a]
                clear_rows(address_of(bent), ld, nj, ld)
                add_product(address_of(bent), ld, nj, ld, address_of(C), 6, 1, address_of(Y), ld, nj)
                add_upper_product(address_of(H), ld, nz, ld, address_of(X), 1, ld, address_of(bent), ld, nj)
                add_upper_product(address_of(H), ld, nz, ld, address_of(bent), 1, ld, address_of(X), ld, nj)
    for j in range(i):
        for k in range(nv):
            y.on_v[j, k] += h * method[i, j] * p.on_xi[k]
            y.on_a[j, k] -= h * method[i, j] * y.on_v[i, k]


@kernel
def curve_acceleration(tree, i, nu, Z, p, y):
    """Second order of stage i's acceleration into H's upper triangle; what its q and v inherit of its weight.

    Z: [a_q a_v a_u] in a record, before [Q ; V], rows of ld numbers.
    """
    nv, ld = tree.nv, len(y.H)
    n, nz, H, G, Y = 2 * nv, 2 * nv + nu, address_of(y.H), address_of(p.G), address_of(p.Y)
    assemble_relation(nv, nv, Z, ld, as_vector(y.blocks), as_vector(p.G))
    for j in range(nv):
        to_q, to_v = 0.0, 0.0
        for k in range(nv):
            to_q -= Z[k * ld + j] * y.on_a[i, k]
            to_v -= Z[k * ld + nv + j] * y.on_a[i, k]
        y.on_q[j] = to_q
        y.on_v[i, j] += to_v
    if i == 0:  # Q and V are rows of the identity
        add_upper(H, ld, 1.0, G, ld, nz, nz)
        return
    rates = address_of(Z[nv * ld :])
    mirror(G, ld)
    clear_rows(Y, ld, nz, ld)
    add_product(Y, ld, nz, ld, G, ld, 1, rates, ld, n)
    for a in range(nv):
        for k in range(n, nz):
            p.Y[a, k] += p.G[a, k]
    add_upper_product(H, ld, nz, ld, rates, 1, ld, Y, ld, n)
    below = 8 * n * (ld + 1)
    add_upper(H + below, ld, 1.0, Y + below, ld, nu, nu)

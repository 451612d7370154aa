# mypy: allow-untyped-defs, allow-untyped-calls
"""First order of a semi-implicit Euler step on the manifold, eight knots at a time.

About a nominal step, with ξ = h v' and, joint by joint, T = Ad_{Exp(-ξ)} and J = Jr(ξ) the right Jacobian of Exp,

    δv' = E δz,  E = [h a_q | 1 + h a_v | h a_u],        δq' = T δq + h J δv'

T = J = 1 but for free-flyers, spherical and planar joints, see geometry/joint_motion.py.
"""

from __future__ import annotations

from ddp.compiling.kernel import kernel
from ddp.machine.number import WIDTH
from ddp.machine.rows import clear_rows, write_scaled
from dynamics.arrays.lanes import lane_matrix, lane_vector
from dynamics.arrays.packing import pack, unpack, unpack_columns
from dynamics.arrays.views import folded
from dynamics.geometry.joint_motion import is_group, joint_rates, twist_of
from dynamics.rigid_bodies.forward import forward_dynamics, invert
from dynamics.rigid_bodies.implicit import first_order
from dynamics.rigid_bodies.inverse import first_felt, inverse_dynamics_derivatives
from dynamics.rigid_bodies.kinematics import add_accelerations, clear, lane_workspace, lane_workspace_size
from dynamics.rigid_bodies.passive import actuate, drive, resist
from dynamics.robots.tree import Tree
from dynamics.steps.modes import Layout, Modes, step_of
from dynamics.steps.step_rows import write_steps


def size(tree: Tree, where: Layout, nu: int, stages: int, m: int, nc: int) -> int:
    """How many lanes the arena must hold for ``linearize``."""
    nv = tree.nv
    return lane_workspace_size(tree) + where.end + 3 * nv**2 + 2 * nv + nu + 6 * (2 * nv + nu) + 72


@kernel
def linearize(context, arena, schedule, X, U, A, B, record):
    """A (N, n, n), B (N, n, nu) of every knot, and q, v, a, M⁻¹ in its record (N, size)."""
    (N, nu), modes = U.shape, Modes(context)
    tree, h = modes.tree, step_of(modes, 0)
    nv = tree.nv
    nq = X.shape[1] - nv
    start = nq + 2 * nv + nv * nv
    u, x = lane_vector(arena, nu), lane_vector(arena, start + nv * (2 * nv + nu))
    ws, scratch = lane_workspace(tree, arena), relation_scratch(tree, arena)
    T, J, rows = lane_matrix(arena, 6, 6), lane_matrix(arena, 6, 6), lane_vector(arena, 6 * (2 * nv + nu))
    for t in range(0, N, WIDTH):
        pack(X, t, x[: nq + nv])
        pack(U, t, u)
        relate_controls(tree, modes.pulls, nu, nq, u, x, ws, scratch)
        unpack(x[:start], record, t)
        write_steps(tree, h, x, start, A, B, t)
        for b in range(tree.nb):
            if is_group(tree.kind[b]):
                turn_rows(tree, b, h, nq, x, T, J, rows, A, B, t)


@kernel
def keep_rates(context, A, B, record):
    """[a_q a_v a_u] of every knot from A and B into its record, as z_y."""
    (N, n, nu), modes = B.shape, Modes(context)
    h, Z, ld = step_of(modes, 0), modes.Z, modes.ld
    nv = n // 2
    for t in range(N):
        rates, E = record[t].ctypes.data + 8 * Z, A[t].ctypes.data + 8 * nv * n
        clear_rows(rates, ld, nv, ld)
        write_scaled(rates, ld, 1.0 / h, E, n, nv, n)
        write_scaled(rates + 8 * n, ld, 1.0 / h, B[t].ctypes.data + 8 * nv * nu, nu, nv, nu)
        for i in range(nv):
            record[t, Z + i * (ld + 1) + nv] -= 1.0 / h


@kernel
def turn_rows(tree, b, h, nq, x, T, J, rows, A, B, t):
    """δq' = T δq + h J E δz for the rows of a joint whose motions do not commute, ξ = h v'.

    Of the knots t..t+7, from their record x (lanes) into A and B; T, J, rows: scratch.
    """
    iv, nj, kind, nv, nu = tree.iv[b], tree.nj[b], tree.kind[b], tree.nv, B.shape[2]
    n, start = 2 * nv, nq + 2 * nv + nv * nv
    joint_rates(kind, nj, next_twist(kind, x[nq : nq + nv], x[nq + nv : nq + n], iv, h), T, J)
    of_x, of_u = rows[: nj * n], rows[nj * n : nj * (n + nu)]
    turn_columns(nj, h, J, x, start + iv * nv, nv, nv, of_x, 0, n)
    turn_columns(nj, h, J, x, start + nv * nv + iv * nv, nv, nv, of_x, nv, n)
    turn_columns(nj, h, J, x, start + 2 * nv * nv + iv * nu, nu, nu, of_u, 0, nu)
    add_joint_rates(nj, iv, h, T, J, of_x, n)
    unpack_columns(of_x, A, t, iv * n)
    unpack_columns(of_u, B, t, iv * nu)


@kernel
def add_joint_rates(nj, iv, h, T, J, out, n):
    """Add T δq + h J δv to a joint's rows of δq', n numbers each."""
    for i in range(nj):
        for k in range(nj):
            out[i * n + iv + k] += T[i, k]
            out[i * n + n // 2 + iv + k] += h * J[i, k]


@kernel
def turn_columns(nj, h, J, x, start, stride, m, out, column, ld):
    """Columns of a joint's rows of δq', ld long, := h² J times its rows of m rates in x, a stride apart."""
    square = h * h
    for j in range(m):
        i = 0
        while i + 3 <= nj:
            e = square * x[start + j]
            a, b, c = J[i, 0] * e, J[i + 1, 0] * e, J[i + 2, 0] * e
            for k in range(1, nj):
                e = square * x[start + k * stride + j]
                a, b, c = a + J[i, k] * e, b + J[i + 1, k] * e, c + J[i + 2, k] * e
            at = i * ld + column + j
            out[at], out[at + ld], out[at + 2 * ld] = a, b, c
            i += 3
        while i < nj:
            a = J[i, 0] * x[start + j]
            for k in range(1, nj):
                a += J[i, k] * x[start + k * stride + j]
            out[i * ld + column + j] = square * a
            i += 1


@kernel
def relation_scratch(tree, arena):
    """Scratch of ``relate_controls``."""
    nv = tree.nv
    LD, dq, dv = lane_matrix(arena, nv, nv), lane_matrix(arena, nv, nv), lane_matrix(arena, nv, nv)
    clear(LD)
    clear(dq)
    clear(dv)
    return LD, dq, dv, lane_vector(arena, nv), lane_vector(arena, nv), lane_matrix(arena, 0, 6)


@kernel
def relate_controls(tree, pulls, nu, nq, u, x, ws, scratch):
    """a = M⁻¹ (S u + passive torques - bias), M⁻¹, a_q, a_v, a_u into the packed record x (lanes) that holds q, v."""
    nv = tree.nv
    n, m = 2 * nv, nv * nv
    q, v, a = x[:nq], x[nq : nq + nv], x[nq + nv : nq + n]
    begin = nq + n
    Minv, aq, av = square(x, begin, nv), square(x, begin + m, nv), square(x, begin + 2 * m, nv)
    au = folded(x[begin + 3 * m : begin + 3 * m + nv * nu], nv, nu)
    LD, dq, dv, D, tau, no_fext = scratch
    actuate(tree, pulls, u, q, v, tau)
    forward_dynamics(tree, q, v, tau, no_fext, ws, LD, D, a)
    invert(tree, LD, dq, dv, Minv)
    add_accelerations(tree, a, ws)
    inverse_dynamics_derivatives(tree, ws, dq, dv)
    resist(tree, dq, dv)
    first_order(tree, Minv, dq, first_felt(tree), aq)
    first_order(tree, Minv, dv, 0, av)
    drive(pulls, nv, nu, Minv, au)


@kernel
def square(x, start, n):
    """n² lanes of an array as an (n, n) array."""
    return folded(x[start : start + n * n], n, n)


@kernel
def next_twist(kind, v, a, iv, h):
    """ξ = h v' = h (v + h a) of the joint whose first velocity is v[iv]."""
    x, y = twist_of(kind, v, iv, h), twist_of(kind, a, iv, h * h)
    return (x[0] + y[0], x[1] + y[1], x[2] + y[2], x[3] + y[3], x[4] + y[4], x[5] + y[5])

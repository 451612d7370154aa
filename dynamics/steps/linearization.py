# mypy: allow-untyped-defs, allow-untyped-calls
"""First order of a semi-implicit Euler step on the manifold, eight knots at a time.

About a nominal step, with ξ = h v' and, joint by joint, T = Ad_{Exp(-ξ)} and J = Jr(ξ) the right Jacobian of Exp,

    δv' = E δz,  E = [h a_q | 1 + h a_v | h a_u],        δq' = T δq + h J δv'

T = J = 1 but for free-flyers, spherical and planar joints, see geometry/joint_motion.py.
"""

from __future__ import annotations

from ddp.compiling.kernel import kernel
from ddp.machine.fields import Fields, matrix_of, rows_apart, vector
from ddp.machine.memory import address_of, as_vector, memory_of, rows_of
from ddp.machine.number import width
from ddp.machine.packing import pack, unpack, unpack_columns
from ddp.machine.rows import clear_rows, write_scaled
from dynamics.geometry.joint_motion import is_group, joint_rates, twist_of
from dynamics.rigid_bodies.forward import forward_dynamics, invert
from dynamics.rigid_bodies.implicit import first_order
from dynamics.rigid_bodies.inverse import first_felt, inverse_dynamics_derivatives
from dynamics.rigid_bodies.kinematics import Workspace, add_accelerations, clear
from dynamics.rigid_bodies.passive import actuate, drive, resist
from dynamics.robots.tree import Tree
from dynamics.steps.modes import Layout, Modes, step_of
from dynamics.steps.step_rows import write_steps


class Motion(Fields):
    """A knot's motion and its first order, one after the other as records have them."""

    q, v, a, Minv = vector("nq"), vector("nv"), vector("nv"), matrix_of("nv", "nv")
    aq, av, au = matrix_of("nv", "nv"), matrix_of("nv", "nv"), matrix_of("nv", "nu")


class Relating(Fields):
    """Scratch of ``relate_controls``; LD, dq and dv begin as zeros."""

    LD, dq, dv = matrix_of("nv", "nv"), matrix_of("nv", "nv"), matrix_of("nv", "nv")
    D, tau, u, no_fext = vector("nv"), vector("nv"), vector("nu"), matrix_of("0", "6")


class Turning(Fields):
    """T and J of a joint whose motions do not commute, and its rows of A and B."""

    T, J, rows = rows_apart("6", 6), rows_apart("6", 6), vector("12 nv + 6 nu")


def size(tree: Tree, where: Layout, nu: int, stages: int, m: int, nc: int) -> int:
    """How many numbers of memory ``linearize`` takes."""
    counts = {"nb": tree.nb, "nq": tree.nq, "nv": tree.nv, "nu": nu}
    return sum(fields.size(**counts) for fields in (Motion, Workspace, Relating, Turning))


@kernel
def linearize(context, memory, schedule, X, U, A, B, record):
    """A (N, n, n), B (N, n, nu) of every knot, and q, v, a, M⁻¹ in its record (N, size)."""
    modes, N, nu = Modes(context), U.shape[0], U.shape[1]
    tree, h = modes.tree, step_of(modes, 0)
    nq, nv = tree.nq, tree.nv
    X, U, of_x, of_u, record = rows_of(X), rows_of(U), rows_of(A), rows_of(B), rows_of(record)
    x = Motion(memory_of(memory), tree, nu)
    ws = Workspace(x.end, tree)
    r = relating(ws.end, tree, nu)
    w = Turning(r.end, tree, nu)
    for t in range(0, N, width(x.end)):
        pack(X, t, x.q, nq + nv)
        pack(U, t, r.u, nu)
        relate_controls(tree, modes.pulls, nu, x, ws, r)
        unpack(x.q, nq + 2 * nv + nv * nv, record, t)
        write_steps(tree, h, as_vector(x.aq), A, B, t)
        for b in range(tree.nb):
            if is_group(tree.kind[b]):
                turn_rows(tree, b, h, nu, x, w, of_x, of_u, t)


@kernel
def keep_rates(context, A, B, record):
    """[a_q a_v a_u] of every knot from A and B into its record, as z_y."""
    modes, A, B, record = Modes(context), rows_of(A), rows_of(B), rows_of(record)
    h, ld, nv, nu = step_of(modes, 0), modes.ld, modes.tree.nv, modes.nu
    n = 2 * nv
    for t in range(len(record)):
        rates, E = record[t][modes.Z :], A[t][nv * n :]
        clear_rows(address_of(rates), ld, nv, ld)
        write_scaled(address_of(rates), ld, 1.0 / h, address_of(E), n, nv, n)
        write_scaled(address_of(rates[n:]), ld, 1.0 / h, address_of(B[t][nv * nu :]), nu, nv, nu)
        for i in range(nv):
            rates[i * (ld + 1) + nv] -= 1.0 / h


@kernel
def turn_rows(tree, b, h, nu, x, w, A, B, t):
    """δq' = T δq + h J E δz for the rows of a joint whose motions do not commute, ξ = h v', of the knots from t on."""
    iv, nj, kind, nv = tree.iv[b], tree.nj[b], tree.kind[b], tree.nv
    n = 2 * nv
    joint_rates(kind, nj, next_twist(kind, x.v, x.a, iv, h), w.T, w.J)
    of_x, of_u = w.rows, w.rows[nj * n :]
    turn_columns(nj, h, w.J, as_vector(x.aq), iv * nv, nv, nv, of_x, 0, n)
    turn_columns(nj, h, w.J, as_vector(x.av), iv * nv, nv, nv, of_x, nv, n)
    turn_columns(nj, h, w.J, as_vector(x.au), iv * nu, nu, nu, of_u, 0, nu)
    add_joint_rates(nj, iv, h, w.T, w.J, of_x, n)
    unpack_columns(of_x, nj * n, A, t, iv * n)
    unpack_columns(of_u, nj * nu, B, t, iv * nu)


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
def relating(memory, tree, nu):
    """Scratch of ``relate_controls``."""
    r = Relating(memory, tree, nu)
    clear(as_vector(r.LD), 3 * tree.nv * tree.nv)
    return r


@kernel
def relate_controls(tree, pulls, nu, x, ws, r):
    """a = M⁻¹ (S u + passive torques - bias), M⁻¹, a_q, a_v, a_u of a ``Motion`` x that holds q, v under u in r."""
    nv = tree.nv
    actuate(tree, pulls, r.u, x.q, x.v, r.tau)
    forward_dynamics(tree, x.q, x.v, r.tau, r.no_fext, ws, r.LD, r.D, x.a)
    invert(tree, r.LD, r.dq, r.dv, x.Minv)
    add_accelerations(tree, x.a, ws)
    inverse_dynamics_derivatives(tree, ws, r.dq, r.dv)
    resist(tree, r.dq, r.dv)
    first_order(tree, x.Minv, r.dq, first_felt(tree), x.aq)
    first_order(tree, x.Minv, r.dv, 0, x.av)
    drive(pulls, nv, nu, x.Minv, x.au)


@kernel
def next_twist(kind, v, a, iv, h):
    """ξ = h v' = h (v + h a) of the joint whose first velocity is v[iv]."""
    x, y = twist_of(kind, v, iv, h), twist_of(kind, a, iv, h * h)
    return (x[0] + y[0], x[1] + y[1], x[2] + y[2], x[3] + y[3], x[4] + y[4], x[5] + y[5])

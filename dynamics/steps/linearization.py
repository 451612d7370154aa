# mypy: allow-untyped-defs, allow-untyped-calls
"""First order of semi-implicit Euler steps on the manifold; knots.py has the loop over knots.

About a nominal step, with ξ = h v' and, joint by joint, T = Ad_{Exp(-ξ)} and J = Jr(ξ) the right Jacobian of Exp,

    δv' = E δz,  E = [h a_q | 1 + h a_v | h a_u],        δq' = T δq + h J δv'

T = J = 1 but for free-flyers, spherical and planar joints, see geometry/joint_motion.py.

Where they are, each row of accelerations' rates becomes two rows, h E and E, of A and of B: registers of one knot are
made of eight lanes by transposition, scaled and stored twice. Written by way of records, as those under contacts are,
they make first derivatives of pendulum, ur5 and hyq take 1.25, 1.14 and 1.09 times as long, and whole solves by iLQR of
cart-pole, arm and quadrotor 1.10, 1.09 and 1.14 times.
"""

from ddp.compiling.kernel import apart, inline, kernel
from ddp.machine.fields import Fields, matrix_of, nested, rows_apart, vector
from ddp.machine.memory import address_of, as_vector, columns_from, rows_of
from ddp.machine.number import WIDTH
from ddp.machine.packing import unpack, unpack_columns
from ddp.machine.rows import clear_rows, write_scaled
from ddp.machine.simd import load, stack, store, store_some, transpose
from dynamics.geometry.joint_motion import is_group, joint_rates, twist_of
from dynamics.rigid_bodies.forward import forward_dynamics, invert
from dynamics.rigid_bodies.implicit import first_order
from dynamics.rigid_bodies.inverse import first_felt, inverse_dynamics_derivatives
from dynamics.rigid_bodies.kinematics import Workspace, add_accelerations, clear
from dynamics.rigid_bodies.passive import actuate, drive, resist
from dynamics.steps.modes import Modes, step_of


class Motion(Fields):
    """A knot's motion and its first order Z = [a_q a_v a_u], rows of ld numbers, one after the other as in records."""

    q, v, a, Minv, Z = vector("nq"), vector("nv"), vector("nv"), matrix_of("nv", "nv"), matrix_of("nv", "ld")


class Relating(Fields):
    """Scratch of ``relate_controls``; LD, dq and dv begin as zeros."""

    LD, dq, dv = matrix_of("nv", "nv"), matrix_of("nv", "nv"), matrix_of("nv", "nv")
    D, tau, no_fext = vector("nv"), vector("nv"), matrix_of("0", "6")


class Turning(Fields):
    """T and J of a joint whose motions do not commute, and its rows of A and B."""

    T, J, rows = rows_apart("6", 6), rows_apart("6", 6), vector("12 nv + 6 nu")


class FreeRelation(Motion):
    """Working memory of ``relate_freely``, with controls."""

    u, ws, r, turning = vector("nu"), nested(Workspace), nested(Relating), nested(Turning)


@kernel
def free_relation(modes, mode, memory):
    """Working memory of ``relate_freely``."""
    w = FreeRelation(memory, modes.tree, modes.ld, modes.nu)
    clear(as_vector(w.r.LD), 3 * modes.tree.nv * modes.tree.nv)
    return w


@inline
def relate_freely(modes, mode, w, A, B, record, t):
    """A, B of the knots from t on, and q, v, a, M⁻¹ in their records."""
    tree, h, Z = modes.tree, step_of(modes, mode), as_vector(w.Z)
    relate_controls(tree, modes.pulls, modes.nu, w.u, w, w.ws, w.r)
    unpack(w.q, tree.nq + 2 * tree.nv + tree.nv * tree.nv, record, t)
    write_steps(tree, h, Z, modes.ld, modes.nu, A, B, t)
    turn_rows(tree, h, modes.nu, w.v, w.a, Z, modes.ld, w.turning, A, B, t)


@inline
def _write_pair(block, h, out, upper, lower, stride, knots, count):
    """Write columns of E, lanes in a block, to rows of each knot's matrix, ``stride`` apart: h E, and lower E."""
    transpose(block)
    for k in range(WIDTH):
        row, knot = load(block, WIDTH * k), min(k, knots - 1) * stride  # the last one is repeated
        if count >= WIDTH:
            store(out, upper + knot, h * row)
            store(out, lower + knot, row)
        else:
            store_some(out, upper + knot, h * row, count)
            store_some(out, lower + knot, row, count)


@kernel
def write_steps(tree, h, x, ld, nu, A, B, t):
    """A and B of the knots t..t+7 where T = J = 1; x: lanes of [a_q a_v a_u], rows of ld numbers.

    Rows of δq' of A whose joints' motions do not commute are left to others.
    """
    nv = tree.nv
    n, knots = 2 * nv, min(WIDTH, len(A) - t)
    block, out = stack(64), as_vector(A)
    for i in range(nv):
        lower = (t * n + nv + i) * n
        turned = is_group(tree.kind[tree.body[i]])
        upper = lower if turned else (t * n + i) * n  # what is written there first is written over
        for j in range(0, n, WIDTH):
            for c in range(WIDTH):
                store(block, WIDTH * c, h * x[i * ld + j + c] + (1.0 if j + c == nv + i else 0.0))
            _write_pair(block, h, out, upper + j, lower + j, n * n, knots, n - j)
        if not turned:
            for k in range(knots):
                out[upper + k * n * n + i] += 1.0
    out, size, i, k = as_vector(B), nv * nu, 0, 0
    upper = t * n * nu
    for j in range(0, size, WIDTH):
        for c in range(WIDTH):
            store(block, WIDTH * c, h * x[i * ld + n + k])
            k += 1
            if k == nu:
                i, k = min(i + 1, nv - 1), 0
        _write_pair(block, h, out, upper + j, upper + size + j, n * nu, knots, size - j)


@apart
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
def turn_rows(tree, h, nu, v, a, Z, ld, w, A, B, t):
    """δq' = T δq + h J δv' for the rows of joints whose motions do not commute, ξ = h v', of the knots from t on.

    Z: [a_q a_v a_u], rows of ld numbers.   w: a ``Turning``.
    """
    n = 2 * tree.nv
    for b in range(tree.nb):
        iv, nj, kind = tree.iv[b], tree.nj[b], tree.kind[b]
        if is_group(kind):
            of_x, of_u = w.rows, w.rows[nj * n :]
            joint_rates(kind, nj, next_twist(kind, v, a, iv, h), w.T, w.J)
            turn_rates(nj, h, w.J, Z, iv * ld, ld, n, of_x, n)
            turn_rates(nj, h, w.J, Z, iv * ld + n, ld, nu, of_u, nu)
            for i in range(nj):
                for k in range(nj):
                    of_x[i * n + iv + k] += w.T[i, k]
                    of_x[i * n + n // 2 + iv + k] += h * w.J[i, k]
            unpack_columns(of_x, nj * n, A, t, iv * n)
            unpack_columns(of_u, nj * nu, B, t, iv * nu)


@apart
def turn_rates(nj, h, J, x, start, stride, m, out, ld):
    """Columns of a joint's rows of δq', ld long, := h² J times its rows of m rates in x, a stride apart."""
    square = h * h
    for j in range(m):
        for i in range(nj):
            a = J[i, 0] * (square * x[start + j])
            for k in range(1, nj):
                a = a + J[i, k] * (square * x[start + k * stride + j])
            out[i * ld + j] = a


@kernel
def relate_controls(tree, pulls, nu, u, x, ws, r):
    """a = M⁻¹ (S u + passive torques - bias), M⁻¹, a_q, a_v, a_u of a ``Motion`` x that holds q, v; r: ``Relating``."""
    nv = tree.nv
    actuate(tree, pulls, u, x.q, x.v, r.tau)
    forward_dynamics(tree, x.q, x.v, r.tau, r.no_fext, ws, r.LD, r.D, x.a)
    invert(tree, r.LD, r.dq, r.dv, x.Minv)
    add_accelerations(tree, x.a, ws)
    inverse_dynamics_derivatives(tree, ws, r.dq, r.dv)
    resist(tree, r.dq, r.dv)
    first_order(tree, x.Minv, r.dq, first_felt(tree), x.Z)
    first_order(tree, x.Minv, r.dv, 0, columns_from(x.Z, nv))
    drive(pulls, nv, nu, x.Minv, columns_from(x.Z, 2 * nv))


@kernel
def next_twist(kind, v, a, iv, h):
    """ξ = h v' = h (v + h a) of the joint whose first velocity is v[iv]."""
    x, y = twist_of(kind, v, iv, h), twist_of(kind, a, iv, h * h)
    return (x[0] + y[0], x[1] + y[1], x[2] + y[2], x[3] + y[3], x[4] + y[4], x[5] + y[5])

# mypy: allow-untyped-defs, allow-untyped-calls
"""Second order of knots of any mode as blocks of δq, δv, δv', δu and δq', contracted with weights.

In these a step under contacts is the relation of second_order.py, with a = (v' - v)/h and the forces' first order f_y:
with L = ω R, symmetric where it is by q twice, and G = L_qf f_y,

    qq = ½ (L_qq + L_qqᵀ) + G_q + G_qᵀ     qv = L_qv - L_qa/h + G_v     vv = L_vv     nq = (L_qa/h)ᵀ     uq = G_uᵀ

and for joints whose motions do not commute nq += h Dᵀ, nn = h² C, see second_order.py. An impact has L_qa of v⁺ itself:
nq = L_qaᵀ, qv = L_qv + G_v. Steps that are held have ww = W.

Products with derivatives of steps are left to sweeps, which have them with those of V_xx, and blocks take two thirds of
a Hessian's memory: a second-order iteration of five gaits of a quadruped takes .93 to .98 of the time that it takes by
hessians.py, which serves sweeps that contract with V_x.
"""

from ddp.compiling.kernel import inline, kernel
from ddp.machine.fields import Fields, vector
from ddp.machine.memory import address_of, as_matrix, as_vector, columns_of, floats_at
from ddp.machine.number import WIDTH, width
from ddp.machine.packing import unpack, unpack_columns
from ddp.machine.rows import add_rows, add_transposed, clear_rows, write_rows
from ddp.machine.tiles import add_product
from dynamics.geometry.joint_motion import is_group
from dynamics.rigid_bodies.kinematics import clear
from dynamics.steps import hessians
from dynamics.steps.modes import HELD, IMPACT, layout_of, step_of, whole


class Packed(Fields):
    """Blocks as `ddp.systems.system.Abilities` has them, but for G, and L_qfᵀ (nc, nv)."""

    blocks, couples = vector("numbers"), vector("entries")


@kernel
def numbers_of(tree):
    """Numbers of the blocks without uq."""
    bent = 0
    for b in range(tree.nb):
        if is_group(tree.kind[b]):
            bent += tree.nj[b] * tree.nj[b]
    return 4 * whole(tree.nv * tree.nv) + whole(bent)


@kernel
def size(tree, where, m, nc, lanes):
    """Numbers, of so many lanes, that ``hessians.room_for`` and `curve` take, for at most m contacts and nc forces."""
    of_products = (2 * whole(tree.nv) * where.ld) // WIDTH + 4  # registers
    blocks = numbers_of(tree) + 2 * tree.nv * nc
    return hessians.size_of_motions(tree, where, m, nc) + blocks + of_products * WIDTH // lanes


@inline
def curve(modes, mode, w, record, weight, out):
    """Blocks of some knots of a mode, as many as there are in a record, at most one to a lane."""
    tree, where, nc, count = modes.tree, layout_of(modes), modes.table[mode, 2], len(record)
    nv, numbers, ld = tree.nv, numbers_of(tree), where.ld
    space = hessians.curve_motions(modes, mode, w, record, weight)
    x = Packed(space, numbers, nv * nc)
    h = step_of(modes, mode)
    pack_blocks(tree, modes.table[mode, 0] == IMPACT, h, w.own, x)
    unpack(x.blocks, numbers, out[:count], 0)
    at = numbers + whole(modes.nu * nv)
    if modes.table[mode, 0] == HELD:
        unpack_columns(as_vector(w.own.W), nv * nv, out[:count], 0, at)
    elif columns_of(out) > at:
        for i in range(count):
            clear(out[i][at:], nv * nv)
    lanes, G = width(w.kept), address_of(x.end)
    couples = G + 16 * whole(nv) * ld
    if nc > 0:
        rows = as_matrix(floats_at(couples), lanes, nv * nc)
        unpack(x.couples, nv * nc, rows[:count], 0)
    for i in range(count):
        zy = address_of(record[i][where.Z + nv * ld :])
        add_couples(nv, modes.nu, nc, zy, ld, couples + 8 * i * nv * nc, G, address_of(out[i]), numbers)


@kernel
def pack_blocks(tree, is_impact, h, own, x):
    """Blocks and L_qfᵀ := those of the `second_order.Blocks` ``own``."""
    nv, P = tree.nv, whole(tree.nv * tree.nv)
    nc, rate = columns_of(own.qz) - nv, 1.0 if is_impact else 1.0 / h
    passed = 0.0 if is_impact else rate
    qq, qv = as_matrix(x.blocks, nv, nv), as_matrix(x.blocks[P:], nv, nv)
    vv, nq = as_matrix(x.blocks[2 * P :], nv, nv), as_matrix(x.blocks[3 * P :], nv, nv)
    for i in range(nv):
        for j in range(nv):
            qa = own.qz[i, j]
            qq[i, j] = 0.5 * (own.qq[i, j] + own.qq[j, i])
            qv[i, j] = own.qv[i, j] - passed * qa
            vv[i, j] = own.vv[i, j]
            nq[j, i] = rate * qa
        for j in range(nc):
            x.couples[j * nv + i] = own.qz[i, nv + j]
    at, to = 0, 4 * P
    for i in range(nv * nv, P):
        for k in range(4):
            x.blocks[k * P + i] = 0.0
    for b in range(tree.nb):
        if is_group(tree.kind[b]):
            iv, nj = tree.iv[b], tree.nj[b]
            square = nj * nj
            for i in range(nj):
                for k in range(nj):
                    place = i * nj + k
                    x.blocks[to + place] = 0.0 if is_impact else (h * h) * own.joints[at + place]
                    if not is_impact:
                        nq[iv + k, iv + i] += h * own.joints[at + square + place]
            at, to = at + 4 * square, to + square
    for i in range(to, numbers_of(tree)):
        x.blocks[i] = 0.0


@kernel
def add_couples(nv, nu, nc, zy, ld, couples, G, out, numbers):
    """Add G to the blocks of a knot, and write uq, from f_y and L_qfᵀ at their addresses; G: memory to work in."""
    P, end = whole(nv * nv), whole(nv)
    uq = G + 8 * end * ld
    clear_rows(G, ld, end, ld)
    clear_rows(uq, end, nu, end)
    if nc > 0:
        add_product(G, ld, nv, ld, couples, 1, nv, zy, ld, nc)
        add_product(uq, end, nu, end, zy + 16 * nv, 1, ld, couples, nv, nc)
        add_rows(out + 8 * P, nv, 1.0, G + 8 * nv, ld, nv, nv)
        add_transposed(G, ld, end)
        add_rows(out, nv, 1.0, G, ld, nv, nv)
    write_rows(out + 8 * numbers, nv, uq, end, nu, nv)

# mypy: allow-untyped-defs, allow-untyped-calls
"""The second order of semi-implicit steps, contracted with weights that are known before: eight knots to a register.

In δq, δv and δv' a step is the relation of inverse dynamics with a = (v' - v)/h: its Hessian is that of ωᵀ ID with
ω = -h M⁻ᵀ (w_v + h Jrᵀ w_q), and no product with derivatives of accelerations is formed. With L of
rigid_bodies/hessian.py,

    qq = ½ (L_qq + L_qqᵀ)     qv = L_qv - L_qa/h     vv = L_vv     nq = (L_qa/h)ᵀ     nn = 0

and for joints whose motions do not commute nq += h Dᵀ, nn = h² C, see `joint_motion.joint_curvature`.

hessians.py contracts any step. With it in place of this, without `RobotDynamics.contract_batch`, whole solves by DDP
take 1.04 (arm/throw), 1.06 (quadruped/reorientation), 1.14 (arm/reach) and 1.2 (quadrotor/loop) times as long.
"""

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.kernel import apart, kernel
from ddp.machine.fields import Fields, matrix_of, rows_apart, vector
from ddp.machine.memory import as_matrix, as_vector, hold, memory_of, rows_of
from ddp.machine.number import WIDTH
from ddp.machine.packing import pack, unpack, unpack_groups
from ddp.machine.tiles import padded
from dynamics.geometry.joint_motion import is_group, joint_curvature, twist_of
from dynamics.rigid_bodies.batch import contracted
from dynamics.rigid_bodies.kinematics import Workspace, clear, composites
from dynamics.robots.tree import Tree
from dynamics.steps.linearization import next_twist
from dynamics.steps.second_order import weigh_accelerations, weigh_residuals


class Contracting(Fields):
    """Motions, weights w on steps and ``effective`` and ω on accelerations, scratch, and the blocks to write."""

    q, v, a, w = vector("nq"), vector("nv"), vector("nv"), vector("2 nv")
    effective, omega, no_fext = vector("nv"), vector("nv"), matrix_of("0", "6")
    J, C, D, qa = rows_apart("6", 6), rows_apart("6", 6), rows_apart("6", 6), matrix_of("nv", "nv")
    blocks = vector("numbers")


def written(tree: Tree, bent: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Begins of the groups of eight that have entries, among the numbers of one knot's blocks.

    bent (nb,): which bodies' joints have motions that do not commute.
    """
    nv = tree.nv
    related = np.zeros((nv, nv), dtype=bool)
    for first, end, begin, stop in tree.segment:
        related[first:end, tree.relatives[begin:stop]] = True
    carried = tree.parent[tree.body] >= 0
    upper, own = np.triu(related), np.equal.outer(tree.body, tree.body) & bent[tree.body]
    nn = np.ones((tree.nj[bent] ** 2).sum(), dtype=bool)
    blocks = upper, related & carried[:, None], upper, (related & carried) | own, nn
    entries = np.concatenate([np.pad(block.ravel(), (0, -block.size % WIDTH)) for block in blocks])
    return np.flatnonzero(entries.reshape(-1, WIDTH).any(axis=1)) * WIDTH


def size(tree: Tree, bent: NDArray[np.bool_]) -> int:
    """Numbers of memory that ``contract_knots`` takes."""
    numbers = 4 * padded(tree.nv**2) + padded((tree.nj[bent] ** 2).sum())
    return Workspace.size(tree) + Contracting.size(tree, numbers=int(numbers))


@kernel
def contract_knots(address, memory, h, groups, record, weight, out):
    """The blocks of M knots, see `system.Abilities`, from their records and weights (M, n); groups: `written`."""
    tree = Tree(address)
    nb, nq, nv, numbers, count = tree.nb, tree.nq, tree.nv, out.shape[1], groups.size
    n, lx, P = nq + 2 * nv, (nv + 7) // 8 * 8, (nv * nv + 7) // 8 * 8
    rows, omegas = np.empty((WIDTH, nv)), np.empty((WIDTH, lx))
    records, weights, blocks, groups = rows_of(record), rows_of(weight), rows_of(out), rows_of(groups)
    of_rows, of_omegas = rows_of(rows), rows_of(omegas)
    ws = Workspace(memory_of(memory), tree)
    x = Contracting(ws.end, tree, numbers)
    clear(x.blocks, numbers)
    qq, qv = as_matrix(x.blocks, nv, nv), as_matrix(x.blocks[P:], nv, nv)
    vv, n_q = as_matrix(x.blocks[2 * P :], nv, nv), as_matrix(x.blocks[3 * P :], nv, nv)
    clear(as_vector(x.qa), nv * nv)
    for t in range(0, len(records), WIDTH):
        pack(records, t, x.q, n)
        pack(weights, t, x.w, 2 * nv)
        weigh_accelerations(tree, h, x.v, x.a, x.w, x.J, x.effective)
        unpack(x.effective, nv, of_rows, 0)
        M = min(WIDTH, len(records) - t)
        for k in range(M):
            weigh_residuals(records[t + k][n:], nv, nv, of_rows[k], of_omegas[k])
        pack(of_omegas[:M], 0, x.omega, nv)
        composites(tree, x.q, x.v, x.a, x.no_fext, ws)
        contracted(tree, x.omega, ws, qq, qv, vv, x.qa)
        eliminate_accelerations(tree, h, qq, qv, x.qa, n_q)
        own = 4 * P
        for b in range(nb):
            if is_group(tree.kind[b]):
                add_group_blocks(tree, b, h, x, n_q, x.blocks[own:])
                own += tree.nj[b] * tree.nj[b]
        unpack_groups(x.blocks, groups, count, blocks, t)
    hold(rows)
    hold(omegas)


@kernel
def eliminate_accelerations(tree, h, qq, qv, qa, nq):
    """a = (v' - v)/h in blocks qq, of which the upper triangle becomes that of a symmetric one, qv and qa, that is nq.

    The joints on the world have no rows of qv and qa.
    """
    rate = 1.0 / h
    for t in range(tree.ns):
        columns = tree.relatives[tree.segment[t, 2] :]
        for i in range(tree.segment[t, 0], tree.segment[t, 1]):
            if tree.parent[tree.body[i]] >= 0:
                for k in range(tree.segment[t, 3] - tree.segment[t, 2]):
                    j = columns[k]
                    x = rate * qa[i, j]
                    nq[j, i] = x
                    qv[i, j] = qv[i, j] - x
    for b in range(tree.nb):
        for i in range(tree.iv[b], tree.iv[b] + tree.nj[b]):
            for j in range(tree.iv[b], i):
                qq[j, i] = 0.5 * (qq[i, j] + qq[j, i])


@apart
def add_group_blocks(tree, b, h, x, nq, nn):
    """Add the curvature of one joint's ``q ⊕ h v'`` to nq; nn (nj²,) := its own of nn."""
    iv, nj, kind, rate = tree.iv[b], tree.nj[b], tree.kind[b], 1.0 / h
    joint_curvature(kind, nj, next_twist(kind, x.v, x.a, iv, h), twist_of(kind, x.w, iv, 1.0), x.J, x.C, x.D)
    for i in range(nj):
        for k in range(nj):
            nq[iv + k, iv + i] = rate * x.qa[iv + i, iv + k] + h * x.D[i, k]
            nn[i * nj + k] = (h * h) * x.C[i, k]

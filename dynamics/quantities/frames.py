# mypy: allow-untyped-defs, allow-untyped-calls
"""Frames: placement, velocity, and how their first and second variations pull back to the joints.

Everything is exact to second order in exponential coordinates of the configuration. In the frame's own axes
the columns J_j of its Jacobian obey, for j before k on the way from the root to the frame (other joints),
``D_k J_j = J_j × J_k`` and ``D_j J_k = 0``; between degrees of freedom of one joint the symmetric part
vanishes, unless it is a rod (rods/inverse.py). From it follow, with V_pj the velocity, in the frame, of the body
that carries joint j:

    displacement   δ = Σ J_j dq_j + ½ Σ_{j<k} (J_j × J_k) dq_j dq_k + ...
    twist          D_k V = E_k = V_pk × J_k,   D_j D_k V = E_j × J_k   (in one joint: its symmetric part)

Arrays of columns are stored as rows: J (m, 6) for the m degrees of freedom of a branch.
"""

import numpy as np
from numba import types
from numpy.typing import NDArray

from ddp.compiling.kernel import inline, kernel
from ddp.machine.fields import Fields, vector
from ddp.machine.memory import memory_of, numbers_between, rows_at, rows_of
from ddp.machine.struct import Struct, integer, integers, nested, reals
from dynamics.geometry.spatial import (
    add3,
    add6,
    angular,
    cross_force,
    cross_motion,
    dot6,
    join,
    linear,
    load6,
    move_force,
    move_motion,
    placement,
    rotate,
    rotate6,
    rotate_back6,
    rotation_product,
    scale3,
    scale6,
    seen_force,
    seen_motion,
    store,
    times6,
)
from dynamics.rigid_bodies.kinematics import Workspace, place_bodies, virtual_twists
from dynamics.robots.model import Robot
from dynamics.robots.tree import HybridTree, KnowsRods, Tree, structure
from dynamics.rods.hessian import curve_rod
from dynamics.rods.inverse import turn_rod
from dynamics.rods.memory import has_rod, of_rods
from dynamics.rods.motion import span_rod

LOCAL, WORLD, LOCAL_WORLD_ALIGNED = range(3)

REFERENCES = {"local": LOCAL, "world": WORLD, "local-world-aligned": LOCAL_WORLD_ALIGNED}
"""Pinocchio's reference frames: the frame's own axes; the world's, at its origin; the world's, at the frame's."""

_floats = rows_at(types.float64)


class Branch(Struct):
    """The bodies between the root and a frame, as a tree of their own whose dofs count from 0.

    tree: that tree, without masses; its ``iq`` still index the robot's configuration.
    placement (12,): the frame on the last body.
    count: how many degrees of freedom, m.   dof (m,): which of the robot's they are, root first.
    """

    tree: Tree = nested(Tree)
    count: int = integer()
    placement: NDArray[np.float64] = reals()
    dof: NDArray[np.int64] = integers()


class HybridBranch(KnowsRods, Branch):
    """A branch with rods; the last one may end at a point before its tip."""

    tree: HybridTree = nested(HybridTree)


class Pair(Struct):
    """Two frames of a robot.

    count: m, how many degrees of freedom move either.   dof (m,): which of the robot's they are.
    first_columns, second_columns: where among them those of each branch are.
    """

    first: Branch = nested(Branch)
    second: Branch = nested(Branch)
    count: int = integer()
    dof: NDArray[np.int64] = integers()
    first_columns: NDArray[np.int64] = integers()
    second_columns: NDArray[np.int64] = integers()


def branch(robot: Robot, frame: str) -> Branch:
    """The branch of a robot's tree that carries a frame, empty if no joint moves it."""
    return _both(robot, frame)[0]


def own_branch(robot: Robot, frame: str) -> Branch:
    """The branch with derivatives by its own degrees of freedom alone: ``dof`` counts these."""
    return _both(robot, frame)[1]


def _both(robot: Robot, frame: str) -> tuple[Branch, Branch]:
    """`branch` and `own_branch`, which robots keep and take along: making them needs Pinocchio's model."""
    known = robot.branches
    if not isinstance(frame, str) or frame not in known:
        made = _branch(robot, frame)  # which refuses what is no name
        known[frame] = made, made.replace(dof=np.arange(made.count))
    return known[frame]


class HybridPair(Pair):
    """Two frames of a robot with rods."""

    first: HybridBranch = nested(HybridBranch)
    second: HybridBranch = nested(HybridBranch)


def pair(first: Branch, second: Branch) -> Pair:
    """Both branches, and what moves them."""
    dof = np.union1d(first.dof, second.dof)
    columns = {f"{name}_columns": np.searchsorted(dof, one.dof) for name, one in (("first", first), ("second", second))}
    kind = HybridPair if isinstance(first, HybridBranch) else Pair
    return kind(first=first, second=second, count=len(dof), dof=dof, **columns)


def _branch(robot: Robot, frame: str) -> Branch:
    """Make the branch."""
    tree = robot.tree
    body, pose, point = robot.carrier(frame)
    bodies: list[int] = []
    b = body
    while b >= 0:
        bodies.insert(0, b)
        b = int(tree.parent[b])
    chosen = np.array(bodies, dtype=np.int64)
    nj = tree.nj[chosen]
    dof = np.array([tree.iv[b] + i for b in bodies for i in range(tree.nj[b])], dtype=np.int64)
    of_joints = structure(
        np.arange(len(bodies)) - 1, tree.kind[chosen], np.stack([nj, nj], axis=1), tree.placement[chosen],
        tree.subspace[dof],
    )  # fmt: skip
    own = tree.replace(
        **of_joints | {"iq": tree.iq[chosen], "nq": tree.nq}, inertia=np.zeros((len(bodies), 10)),
        armature=tree.armature[dof], damping=tree.damping[dof],
        stiffness=tree.stiffness[dof], springref=tree.springref[dof], weightless=None,
    )  # fmt: skip
    if isinstance(own, HybridTree):
        own.rod, own.strain, own.mode, own.until = own.rod[chosen], own.strain[dof], own.mode[dof], own.until[dof]
        if point is not None:
            count = own.count.copy()
            count[own.rod[-1]] = point + 1
            own.count = count
        return HybridBranch(tree=own, count=len(dof), placement=pose, dof=dof)
    return Branch(tree=own, count=len(dof), placement=pose, dof=dof)


# -- placement ---------------------------------------------------------------------------------------


class Rates(Fields):
    """Velocities of a branch's degrees of freedom."""

    v = vector("nv")


@kernel
def branch_workspace(branch, like):
    """Memory of a workspace for the bodies of a branch, of the number type of the array ``like``."""
    memory = _floats(64)
    end = Rates(Workspace(memory, branch.tree).end, branch.tree).end
    return np.empty(numbers_between(memory, end), like.dtype)


@kernel
def place_frame(branch, q, memory, J):
    """(R, p) of the frame in the world; J: the columns of its Jacobian, in its own axes. memory: `branch_workspace`."""
    tree = branch.tree
    ws = Workspace(memory_of(memory), tree)
    place_bodies(tree, rows_of(q), False, ws)
    for b in range(tree.nb):
        if has_rod(tree, b):
            span_rod(tree, b, ws)
    R, p = placed(branch, ws)
    for j in range(len(J)):
        store(J, j, seen_motion(R, p, ws.s[j]))
    return R, p


@inline
def placed(branch, ws):
    """(R, p) of the frame in the world, after ``place_bodies``."""
    R, p = placement(branch.placement)
    last = branch.tree.nb - 1
    if last >= 0:
        Rb = ws.R[last]
        p = add3(ws.p[last], rotate(Rb, p))
        R = rotation_product(Rb, R)
    return R, p


@kernel
def add_displacement_curvature(branch, memory, J, force, G, hessian):
    """Add the second variation of a function of the frame's placement M.

    memory, J: as ``place_frame`` left them.
    force (6,), G (6, 6) symmetric: gradient and Hessian of d -> f(M Exp(d)) at 0.
    """
    joint = branch.tree.body
    for j in range(len(J)):
        a, jd = load6(J, j), branch.dof[j]
        Ga = times6(G, a)
        hessian[jd, jd] += dot6(a, Ga)
        turned = add6(Ga, scale6(-0.5, cross_force(a, force)))  # force · ½ (J_j × J_k) = -½ (J_j ×* force) · J_k
        for k in range(j + 1, len(J)):
            h = dot6(load6(J, k), turned if joint[k] != joint[j] else Ga)
            hessian[jd, branch.dof[k]] += h
            hessian[branch.dof[k], jd] += h
    ws = Workspace(memory_of(memory), branch.tree)
    for b in range(branch.tree.nb):
        if has_rod(branch.tree, b):
            R, p = placed(branch, ws)
            first = branch.dof[branch.tree.iv[b]]
            turn_rod(branch.tree, b, ws, move_force(R, p, force), 0.5, True, first, first, hessian)


# -- velocity ----------------------------------------------------------------------------------------


@inline
def _carrying(reference, R, p, m):
    """X m: a motion in the frame's axes, as the reference asks for it."""
    if reference == LOCAL:
        return m
    return move_motion(R, p, m) if reference == WORLD else rotate6(R, m)


@inline
def _carrying_back(reference, R, p, f):
    """Xᵀ f, of a force."""
    if reference == LOCAL:
        return f
    return seen_force(R, p, f) if reference == WORLD else rotate_back6(R, f)


@inline
def _drift(reference, m):
    """The motion Ω_k of the reference when joint k moves: D_k X = X (Ω_k ×). Of wrenches it is the transpose, too."""
    if reference == LOCAL:
        return scale6(0.0, m)
    return m if reference == WORLD else join(scale3(0.0, linear(m)), angular(m))


@kernel
def frame_twist(branch, memory, J, v, E):
    """The frame's velocity V = Σ J_j v_j in its own axes; its derivatives by q_j into E (m, 6).

    memory, J: as ``place_frame`` left them.
    """
    joint = branch.tree.body
    V = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    before = V
    for j in range(len(J)):
        a = load6(J, j)
        if j > 0 and joint[j] != joint[j - 1]:
            before = V
        V = add6(V, scale6(v[branch.dof[j]], a))
        store(E, j, cross_motion(before, a))
    move_branch(branch.tree, branch, memory, v, E)
    return V


@of_rods
def move_branch(tree, branch, memory, v, E):
    """Velocities of a branch with rods, as those of multipliers are found; E: E_j = X⁻¹ ψ'_j of all of it."""
    ws = Workspace(memory_of(memory), tree)
    mu = Rates(ws.end, tree).v
    for j in range(tree.nv):
        mu[j] = v[branch.dof[j]]
    virtual_twists(tree, mu, ws)
    R, p = placed(branch, ws)
    for j in range(tree.nv):
        store(E, j, seen_motion(R, p, ws.chi[j]))


@kernel
def twist_derivatives(reference, R, p, V, J, E, Dq, Dv):
    """``X V``, the velocity as the reference asks for it; its derivatives by q, v into Dq, Dv (m, 6)."""
    for j in range(len(J)):
        a = load6(J, j)
        store(Dv, j, _carrying(reference, R, p, a))
        store(Dq, j, _carrying(reference, R, p, add6(load6(E, j), cross_motion(_drift(reference, a), V))))
    return _carrying(reference, R, p, V)


@inline
def _turned(oj, ok, V, ej, ek):
    """Ω_j × (Ω_k × V + E_k) + Ω_k × E_j."""
    return add6(cross_motion(oj, add6(cross_motion(ok, V), ek)), cross_motion(ok, ej))


@kernel
def add_twist_curvature(branch, memory, reference, R, p, V, J, E, force, nv, hessian):
    """Add the second variation of ``force · X V`` in (q, v); v begins at column nv.

    With f = Xᵀ force and j before k:  ``D_j D_k = Ω_j × (Ω_k × V + E_k) + Ω_k × E_j + E_j × J_k``; within a rod, where
    both orders differ, D_j E_k and (D_j Ω_k) × V take the place of the last term.   memory: as ``frame_twist`` left it.
    """
    joint, dof = branch.tree.body, branch.dof
    f = _carrying_back(reference, R, p, force)
    m = len(J)
    for j in range(m):
        aj, ej = load6(J, j), load6(E, j)
        oj = _drift(reference, aj)
        for k in range(j, m):
            ak, ek = load6(J, k), load6(E, k)
            ok = _drift(reference, ak)
            T, are_one = _turned(oj, ok, V, ej, ek), joint[j] == joint[k]
            if are_one and has_rod(branch.tree, joint[j]):
                hessian[dof[j], dof[k]] += dot6(f, T)
                if j != k:
                    hessian[dof[k], dof[j]] += dot6(f, _turned(ok, oj, V, ek, ej))
                continue
            h = dot6(f, add6(T, cross_motion(ej, ak)))
            if are_one:
                h = 0.5 * (h + dot6(f, add6(_turned(ok, oj, V, ek, ej), cross_motion(ek, aj))))
            hessian[dof[j], dof[k]] += h
            if j != k:
                hessian[dof[k], dof[j]] += h
        for k in range(m):  # by q_k of J_j:  Ω_k × J_j, and J_j × J_k if j is before k
            ak = load6(J, k)
            T = cross_motion(_drift(reference, ak), aj)
            if joint[j] < joint[k]:
                T = add6(T, cross_motion(aj, ak))
            h = dot6(f, T)
            hessian[dof[k], nv + dof[j]] += h
            hessian[nv + dof[j], dof[k]] += h
    ws = Workspace(memory_of(memory), branch.tree)
    for b in range(branch.tree.nb):
        if has_rod(branch.tree, b):
            first, seen = dof[branch.tree.iv[b]], move_force(R, p, f)
            turned = move_force(R, p, _drift(reference, cross_force(V, f)))
            curve_rod(branch.tree, b, ws, seen, turned, 1.0, first, hessian)
            turn_rod(branch.tree, b, ws, seen, 1.0, True, nv + first, first, hessian)

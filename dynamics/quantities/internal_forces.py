# mypy: allow-untyped-defs, allow-untyped-calls
"""Forces within robots with rods, as functions: elasticity, viscosity, and the pull of tendons, with derivatives.

In motion, ``inverse_dynamics + internal_forces = S u + tendon_forces + Jᵀ wrenches``. Arguments are one sample or a
batch along the leading axis; SI units; derivatives with respect to q are plain ones, since rods are flat.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ddp.compiling.kernel import kernel
from ddp.errors import ModelError
from ddp.machine.aligned import working_memory
from ddp.machine.memory import as_matrix, columns_of, memory_of, rows_of
from ddp.protocols import Array
from dynamics.rigid_bodies.kinematics import Workspace
from dynamics.rigid_bodies.samples import Stack
from dynamics.robots.model import Robot
from dynamics.robots.tree import HybridTree
from dynamics.rods import forces


class InternalDerivatives(NamedTuple):
    """Stiffness ∂τ/∂q and damping ∂τ/∂v of internal forces, each (nv, nv)."""

    dq: Array
    dv: Array


class TendonDerivatives(NamedTuple):
    """∂τ/∂q (nv, nv) and ∂τ/∂u (nv, tendons) of the forces of tendons."""

    dq: Array
    du: Array


class TendonHessian(NamedTuple):
    """Hessian blocks of mu @ τ of the forces of tendons, (nv, nv) and (nv, tendons); the last one vanishes."""

    qq: Array
    qu: Array


@kernel
def _internal(tree, Q, V, out, dq, dv):
    Q, V, out, dq, dv = rows_of(Q), rows_of(V), rows_of(out), rows_of(dq), rows_of(dv)
    for t in range(len(Q)):
        for b in range(tree.nb):
            if tree.rod[b] >= 0:
                forces.add_internal_forces(tree, b, 1.0, Q[t], V[t], out[t])
                if len(dq) > 0:
                    forces.add_internal_stiffness(
                        tree, b, as_matrix(dq[t], tree.nv, tree.nv), as_matrix(dv[t], tree.nv, tree.nv)
                    )


@kernel
def _tendons(tree, memory, Q, U, mu, out, dq, du, qq, qu):
    ws = Workspace(memory_of(memory), tree)
    Q, U, mu, out = rows_of(Q), rows_of(U), rows_of(mu), rows_of(out)
    dq, du, qq, qu, nv = rows_of(dq), rows_of(du), rows_of(qq), rows_of(qu), tree.nv
    m = columns_of(U)
    for t in range(len(Q)):
        for b in range(tree.nb):
            if tree.rod[b] >= 0:
                if len(out) > 0:
                    forces.add_tendon_forces(tree, b, ws, 1.0, Q[t], U[t], out[t])
                if len(dq) > 0:
                    forces.add_tendon_stiffness(tree, b, ws, Q[t], U[t], as_matrix(dq[t], nv, nv))
                    forces.add_tendon_columns(tree, b, ws, 1.0, Q[t], 0, as_matrix(du[t], nv, m))
                if len(qq) > 0:
                    forces.add_tendon_curvature(
                        tree, b, ws, Q[t], U[t], mu[t], as_matrix(qq[t], nv, nv), as_matrix(qu[t], nv, m)
                    )


def _hybrid(robot: Robot, q: ArrayLike) -> tuple[Stack, HybridTree]:
    s = Stack(robot, q)
    if not isinstance(robot.tree, HybridTree):
        raise ModelError(f"robot: expected one with rods, made by an Assembly, got {robot.name}")
    return s, robot.tree


def internal_forces(robot: Robot, q: ArrayLike, v: ArrayLike) -> Array:
    """Forces K q + D v (nv,) that hold rods in q and v against elasticity and viscosity: add them to inverse dynamics.

    Per coordinate of a rod, [N m²] of bending and torsion, [N m] of stretch and shear; zero of joints. Springs and
    friction of joints take no part. ModelError for a robot without rods.
    """
    return _held(robot, q, v, 0)[0]


def internal_forces_derivatives(robot: Robot, q: ArrayLike, v: ArrayLike) -> InternalDerivatives:
    """K and D of ``internal_forces``, which are constant."""
    return InternalDerivatives(*_held(robot, q, v, 1)[1:])


def _held(robot: Robot, q: ArrayLike, v: ArrayLike, order: int) -> list[Array]:
    """Internal forces and, of first order, K and D."""
    (s, tree), nv = _hybrid(robot, q), robot.nv
    out, dq, dv = np.zeros((s.N, nv)), *np.zeros((2, order * s.N, nv, nv))
    _internal(tree, s.q, s.rows("v", v, nv), out, dq, dv)
    return [s.result(one) for one in (out, dq, dv)[: 1 + 2 * order]]


def tendon_forces(robot: Robot, q: ArrayLike, u: ArrayLike) -> Array:
    """Generalised forces (nv,) of tensions u [N], one for each of ``robot.tendons``, positive where they pull."""
    return _pulled(robot, q, u, 0)[0]


def tendon_forces_derivatives(robot: Robot, q: ArrayLike, u: ArrayLike) -> TendonDerivatives:
    """First derivatives of ``tendon_forces``."""
    return TendonDerivatives(*_pulled(robot, q, u, 1))


def tendon_forces_hessian(robot: Robot, q: ArrayLike, u: ArrayLike, mu: ArrayLike) -> TendonHessian:
    """Hessian of ``mu @ tendon_forces(q, u)``, mu (nv,)."""
    return TendonHessian(*_pulled(robot, q, u, 2, mu))


def _pulled(robot: Robot, q: ArrayLike, u: ArrayLike, order: int, mu: ArrayLike | None = None) -> list[Array]:
    """Forces of tendons, their first derivatives or their Hessian weighted by mu, as the order asks for."""
    (s, tree), nv = _hybrid(robot, q), robot.nv
    sizes = (0, (nv,)), (1, (nv, nv)), (1, (nv, tree.tendons)), (2, (nv, nv)), (2, (nv, tree.tendons))
    found = [np.zeros((s.N if own == order else 0, *size)) for own, size in sizes]
    memory = working_memory(Workspace.size(tree), 1)
    _tendons(tree, memory, s.q, s.rows("u", u, tree.tendons), s.rows("mu", mu, nv), *found)
    return [s.result(-one) for (own, _), one in zip(sizes, found, strict=True) if own == order]

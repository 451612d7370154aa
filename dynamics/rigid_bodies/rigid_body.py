"""Inverse and forward dynamics of a robot with first and second derivatives: the functions people call.

Arguments are one sample or a batch along the leading axis; results follow. Conventions are Pinocchio's throughout:
derivatives with respect to q are Lie derivatives along the local perturbation q ⊕ t e_j. SI units.

``fext`` (njoints, 6) is one wrench [N, N m] per joint, the world's first, as in ``pinocchio.rnea``. With
``fext_frame="local"`` it is given in that joint's frame and held constant there when derivatives are taken; with
``fext_frame="world"`` it acts at the origin of that frame, is given in world axes and constant in them.

Viscous friction and springs of joints take no part, as in Pinocchio: ``RobotDynamics`` has them.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import flag
from ddp.machine.aligned import working_memory
from ddp.protocols import Array
from ddp.tracing.quantities import traceable
from dynamics.rigid_bodies import batch, traced, world_wrenches
from dynamics.rigid_bodies.samples import Samples, Stack
from dynamics.rigid_bodies.tensor_entries import entries_of
from dynamics.robots.model import Robot


class InverseDerivatives(NamedTuple):
    """∂τ/∂q, ∂τ/∂v, ∂τ/∂a = M: each (nv, nv)."""

    dq: Array
    dv: Array
    da: Array


class InverseTensors(NamedTuple):
    """Second derivatives of τ, each (nv, nv, nv): T[i, j, k] = D_k (D_j τ_i); dvdq has v second, q last."""

    dqdq: Array
    dvdv: Array
    dvdq: Array
    dadq: Array


class InverseHessian(NamedTuple):
    """Hessian blocks of mu @ τ, each (nv, nv); rows are the first letter. vq, aq are transposes; the others vanish."""

    qq: Array
    qv: Array
    vv: Array
    qa: Array


class ForwardDerivatives(NamedTuple):
    """∂a/∂q, ∂a/∂v, ∂a/∂τ = M⁻¹: each (nv, nv)."""

    dq: Array
    dv: Array
    dtau: Array


class ForwardTensors(NamedTuple):
    """Second derivatives of a, each (nv, nv, nv): T[i, j, k] = D_k (D_j a_i); dtaudq = ∂M⁻¹/∂q."""

    dqdq: Array
    dvdv: Array
    dvdq: Array
    dtaudq: Array


class ForwardHessian(NamedTuple):
    """Hessian blocks of weight @ a, each (nv, nv); rows are the first letter."""

    qq: Array
    qv: Array
    vv: Array
    qtau: Array


@traceable(traced.torques_of, 3)
def inverse_dynamics(
    robot: Robot, q: ArrayLike, v: ArrayLike, a: ArrayLike, fext: ArrayLike | None = None,
    *, fext_frame: str = "local",
) -> Array:  # fmt: skip
    """Joint torques τ (nv,) that produce accelerations a at (q, v) (RNEA)."""
    s = Samples(robot, q, ("v", v), ("a", a), fext, fext_frame)
    tau = np.empty((s.N, robot.nv))
    s.run(batch.inverse_dynamics, tau, rods=True)
    if s.has_world:
        tau -= world_wrenches.torques(s)
    return s.result(tau)


def inverse_dynamics_derivatives(
    robot: Robot, q: ArrayLike, v: ArrayLike, a: ArrayLike, fext: ArrayLike | None = None,
    *, fext_frame: str = "local",
) -> InverseDerivatives:  # fmt: skip
    """First derivatives of inverse dynamics (IDSVA).

    They are geometric, or left-trivialised: dq is by Δ of q ⊕ Δ where v and a, those of a free base along its own axes,
    are held fixed.
    """
    s = Samples(robot, q, ("v", v), ("a", a), fext, fext_frame)
    out = s.matrices(3)
    s.run(batch.inverse_dynamics_derivatives, out, rods=True)
    if s.has_world:
        out[0] -= world_wrenches.rates(s)
    return s.named(InverseDerivatives(out[0], out[1], out[2]))  # here and below: *out would take twice as long


def inverse_dynamics_second_derivatives(
    robot: Robot, q: ArrayLike, v: ArrayLike, a: ArrayLike, fext: ArrayLike | None = None, symmetric: bool = False,
    *, fext_frame: str = "local", out: InverseTensors | None = None,
) -> InverseTensors:  # fmt: skip
    """Second derivatives of inverse dynamics as tensors (IDSVA-SO).

    dqdq is iterated, so not symmetric in its last two indices for a joint whose motions do not commute;
    ``symmetric=True`` returns its symmetric part, the derivative in exponential coordinates.
    out: what an earlier call returned for as many samples of the same robot. Its memory is written again, but for the
    zeros between unrelated degrees of freedom, which must still be there: new memory costs more than what is computed.
    """
    s = Samples(robot, q, ("v", v), ("a", a), fext, fext_frame)
    memory = InverseTensors(*(s.tensors(4) if out is None else s.earlier(out)))
    if robot.is_hybrid:
        _by_torques(s, inverse_dynamics_hessian, memory)
    else:
        entries = entries_of(robot.tree)
        room = batch.room_of_tensors(robot.nv, entries.triples)
        s.run(batch.inverse_dynamics_tensors, entries, *memory, room=room)
    if s.has_world:
        memory.dqdq[:] -= world_wrenches.tensors(s)
    return s.named(memory._replace(dqdq=asked(memory.dqdq, symmetric)))


def inverse_dynamics_hessian(
    robot: Robot, q: ArrayLike, v: ArrayLike, a: ArrayLike, mu: ArrayLike, fext: ArrayLike | None = None,
    symmetric: bool = False, *, fext_frame: str = "local",
) -> InverseHessian:  # fmt: skip
    """Hessian of ``mu @ inverse_dynamics(q, v, a)``, mu (nv,), without building a tensor.

    qq is iterated (row first derivative, column second); ``symmetric=True`` returns its symmetric part.
    """
    s = Samples(robot, q, ("v", v), ("a", a), fext, fext_frame, ("mu", mu))
    memory = s.matrices(4)
    s.run(batch.inverse_dynamics_hessian, memory, rods=True)
    if s.has_world:
        memory[0] -= world_wrenches.contracted(s, s.weight[0])
    return s.named(InverseHessian(asked(memory[0], symmetric), memory[1], memory[2], memory[3]))


@traceable(traced.accelerations_of, 3)
def forward_dynamics(
    robot: Robot, q: ArrayLike, v: ArrayLike, tau: ArrayLike, fext: ArrayLike | None = None,
    *, fext_frame: str = "local",
) -> Array:  # fmt: skip
    """Accelerations a (nv,) that torques tau produce at (q, v). ModelError if the mass matrix is singular."""
    s = _pushed(robot, q, v, tau, fext, fext_frame)
    a = np.empty((s.N, robot.nv))
    if robot.is_hybrid:
        s.check(s.run(batch.forward_dynamics_by_mass, a, np.empty((0, robot.nv, robot.nv)), rods=True))
    else:
        s.check(s.run(batch.forward_dynamics, a))
    return s.result(a)


def forward_dynamics_derivatives(
    robot: Robot, q: ArrayLike, v: ArrayLike, tau: ArrayLike, fext: ArrayLike | None = None,
    *, fext_frame: str = "local",
) -> ForwardDerivatives:  # fmt: skip
    """First derivatives of forward dynamics, from those of inverse dynamics by the ID-FD relation."""
    s = _pushed(robot, q, v, tau, fext, fext_frame)
    out = s.matrices(3)
    s.check(s.run(batch.forward_dynamics_derivatives, out, rods=True))
    return _first_order(s, out)


def forward_dynamics_second_derivatives(
    robot: Robot, q: ArrayLike, v: ArrayLike, tau: ArrayLike, fext: ArrayLike | None = None, symmetric: bool = False,
    *, fext_frame: str = "local",
) -> ForwardTensors:  # fmt: skip
    """Second derivatives of forward dynamics as tensors; dqdq iterated unless ``symmetric``."""
    s = _pushed(robot, q, v, tau, fext, fext_frame)
    out = ForwardTensors(*s.tensors(4))
    if robot.is_hybrid:
        _by_torques(s, forward_dynamics_hessian, out)
    else:
        entries = entries_of(robot.tree)
        room = batch.room_of_tensors(robot.nv, entries.triples)
        s.check(s.run(batch.forward_dynamics_tensors, entries, *out, room=room))
    if s.has_world:
        out.dqdq[:] += world_wrenches.through_tensors(s, out.dtaudq, _inverse_mass(s))
    return s.named(out._replace(dqdq=asked(out.dqdq, symmetric)))


def forward_dynamics_hessian(
    robot: Robot, q: ArrayLike, v: ArrayLike, tau: ArrayLike, weight: ArrayLike, fext: ArrayLike | None = None,
    symmetric: bool = False, *, fext_frame: str = "local",
) -> ForwardHessian:  # fmt: skip
    """Hessian of ``weight @ forward_dynamics(q, v, tau)``, weight (nv,), without building a tensor."""
    s = _pushed(robot, q, v, tau, fext, fext_frame, ("weight", weight))
    return _both_orders(s, np.empty((0, s.N, robot.nv, robot.nv)), symmetric)


def forward_dynamics_both_derivatives(
    robot: Robot, q: ArrayLike, v: ArrayLike, tau: ArrayLike, weight: ArrayLike, fext: ArrayLike | None = None,
    symmetric: bool = False, *, fext_frame: str = "local",
) -> tuple[ForwardDerivatives, ForwardHessian]:  # fmt: skip
    """``forward_dynamics_derivatives`` and ``forward_dynamics_hessian`` for little more than the second alone."""
    s = _pushed(robot, q, v, tau, fext, fext_frame, ("weight", weight))
    memory = s.matrices(3)
    hessian = _both_orders(s, memory, symmetric)
    return _first_order(s, memory), hessian


def _pushed(
    robot: Robot, q: ArrayLike, v: ArrayLike, tau: ArrayLike, fext: ArrayLike | None, fext_frame: str,
    weight: tuple[str, ArrayLike] | None = None,
) -> Samples:  # fmt: skip
    """Arguments of forward dynamics, with the torques of wrenches that keep their direction in the world in tau."""
    s = Samples(robot, q, ("v", v), ("tau", tau), fext, fext_frame, weight)
    if s.has_world:
        s.second = s.second + world_wrenches.torques(s)
    return s


def _first_order(s: Samples, out: Array) -> ForwardDerivatives:
    """First derivatives (3, N, nv, nv), and by way of such wrenches: a_q + a_τ τ_q."""
    if s.has_world:
        out[0] += out[2] @ world_wrenches.rates(s)
    return s.named(ForwardDerivatives(out[0], out[1], out[2]))


def _both_orders(s: Samples, first: Array, symmetric: bool) -> ForwardHessian:
    """The Hessian, and first derivatives (3, N, nv, nv) without the part of such wrenches if there is room for them."""
    memory = s.matrices(4)
    s.check(s.run(batch.forward_dynamics_hessian, first, memory, rods=True))
    out = ForwardHessian(memory[0], memory[1], memory[2], memory[3])
    if s.has_world:
        memory[0] += world_wrenches.through_hessian(s, out.qtau, _inverse_mass(s))
    return s.named(out._replace(qq=asked(out.qq, symmetric)))


def mass_matrix(robot: Robot, q: ArrayLike) -> Array:
    """The mass matrix M (nv, nv), symmetric positive definite (CRBA)."""
    zeros = Stack(robot, q).zeros()
    return inverse_dynamics_derivatives(robot, q, zeros, zeros).da


def inverse_mass_matrix(robot: Robot, q: ArrayLike) -> Array:
    """M⁻¹ (nv, nv), of the factors of M. ModelError if M is singular."""
    s = Stack(robot, q)
    return s.result(_inverse_mass(s))


def inverse_mass_matrix_derivatives(robot: Robot, q: ArrayLike, tau: ArrayLike | None = None) -> Array:
    """∂M⁻¹/∂q, (nv, nv, nv) with T[i, j, k] = D_k (M⁻¹)_ij; or, of a torque tau (nv,), ∂(M⁻¹ tau)/∂q (nv, nv).

    Accelerations from rest without gravity are M⁻¹ tau: their geometric derivatives are these, of each unit torque
    for the tensor. ModelError if M is singular.
    """
    s, nv = Stack(robot, q), robot.nv
    units = np.tile(np.eye(nv), (s.N, 1)) if tau is None else s.rows("tau", tau, nv)
    Q = np.repeat(s.q, nv, axis=0) if tau is None else s.q
    tree, out = robot.tree.weightless or robot.tree.replace(gravity=np.zeros(6)), np.empty((3, len(Q), nv, nv))
    memory, none = working_memory(batch.size(tree.nb, robot.nq, nv, robot.room)), np.empty((len(Q), 0, 6))
    failed = batch.forward_dynamics_derivatives(tree.handle, memory, Q, np.zeros_like(units), units, none, out)
    s.check(failed if failed < 0 or tau is not None else failed // nv)
    found = out[0] if tau is not None else np.swapaxes(out[0].reshape(s.N, nv, nv, nv), 1, 2)
    return s.result(found)


def _by_torques(s: Samples, hessian: Any, out: tuple[Array, ...]) -> None:
    """Tensors of robots with rods, from Hessians of each torque or acceleration alone."""
    N, nv = s.N, s.robot.nv
    Q, first, second, wrenches = (np.repeat(part, nv, axis=0) for part in (s.q, s.first, s.second, s.fext))
    fext = np.concatenate([np.zeros((N * nv, 1, 6)), wrenches], axis=1) if wrenches.shape[1] else None
    found = hessian(s.robot, Q, first, second, np.tile(np.eye(nv), (N, 1)), fext)
    dqdq, dqdv, dvdv, dqda = (block.reshape(N, nv, nv, nv) for block in found)
    for into, block in zip(out, (dqdq, dvdv, np.swapaxes(dqdv, 2, 3), np.swapaxes(dqda, 2, 3)), strict=True):
        into[:] = block


def asked(T: Array, symmetric: bool) -> Array:
    """Iterated derivatives, or their symmetric part."""
    return np.asarray(0.5 * (T + np.swapaxes(T, -1, -2))) if flag("symmetric", symmetric) else T


def _inverse_mass(s: Stack) -> Array:
    """M⁻¹ (N, nv, nv)."""
    robot, out = s.robot, np.empty((s.N, s.robot.nv, s.robot.nv))
    memory = working_memory(batch.size(robot.tree.nb, robot.nq, robot.nv, robot.room))
    still, none = np.zeros((s.N, robot.nv)), np.empty((s.N, 0, 6))
    s.check(batch.forward_dynamics_by_mass(robot.handle, memory, s.q, still, still, none, np.empty_like(still), out))
    return out

"""Inverse and forward dynamics of a robot with first and second derivatives: the functions people call.

Arguments are one sample or a batch along the leading axis; results follow. Conventions are Pinocchio's throughout:
derivatives with respect to q are Lie derivatives along the local perturbation q ⊕ t e_j. SI units.

``fext`` (njoints, 6) is one wrench [N, N m] per joint, the world's first, in that joint's frame and constant there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddp.errors import DDPError, ModelError, ProblemError, as_array
from dynamics import batch, lane_batch
from dynamics.joints import CONTINUOUS, FREE_FLYER, PLANAR, SPHERICAL
from dynamics.lanes import WIDTH, arena
from dynamics.model import Robot

Array = NDArray[np.float64]


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


def inverse_dynamics(robot: Robot, q: ArrayLike, v: ArrayLike, a: ArrayLike, fext: ArrayLike | None = None) -> Array:
    """Joint torques τ (nv,) that produce accelerations a at (q, v) (RNEA)."""
    s = _Samples(robot, q, ("v", v), ("a", a), fext)
    tau = np.empty((s.N, robot.nv))
    s.run(batch.inverse_dynamics, lane_batch.inverse_dynamics, tau)
    return s.result(tau)


def inverse_dynamics_derivatives(
    robot: Robot, q: ArrayLike, v: ArrayLike, a: ArrayLike, fext: ArrayLike | None = None
) -> InverseDerivatives:
    """First derivatives of inverse dynamics (IDSVA)."""
    s = _Samples(robot, q, ("v", v), ("a", a), fext)
    out = InverseDerivatives(*s.matrices(3))
    s.run(batch.inverse_dynamics_derivatives, lane_batch.inverse_dynamics_derivatives, *out)
    return InverseDerivatives(*map(s.result, out))


def inverse_dynamics_second_derivatives(
    robot: Robot, q: ArrayLike, v: ArrayLike, a: ArrayLike, fext: ArrayLike | None = None, symmetric: bool = False
) -> InverseTensors:
    """Second derivatives of inverse dynamics as tensors (IDSVA-SO).

    dqdq is iterated, so not symmetric in its last two indices for a joint whose motions do not commute;
    ``symmetric=True`` returns its symmetric part, the derivative in exponential coordinates.
    """
    s = _Samples(robot, q, ("v", v), ("a", a), fext)
    out = InverseTensors(*s.tensors(4))
    s.run(batch.inverse_dynamics_tensors, lane_batch.inverse_dynamics_tensors, *out)
    return InverseTensors(*map(s.result, out._replace(dqdq=_symmetric(out.dqdq) if symmetric else out.dqdq)))


def inverse_dynamics_hessian(
    robot: Robot, q: ArrayLike, v: ArrayLike, a: ArrayLike, mu: ArrayLike, fext: ArrayLike | None = None,
    symmetric: bool = False,
) -> InverseHessian:  # fmt: skip
    """Hessian of ``mu @ inverse_dynamics(q, v, a)``, mu (nv,), without building a tensor.

    qq is iterated (row first derivative, column second); ``symmetric=True`` returns its symmetric part.
    """
    s = _Samples(robot, q, ("v", v), ("a", a), fext, ("mu", mu))
    out = InverseHessian(*s.matrices(4))
    s.run(batch.inverse_dynamics_hessian, lane_batch.inverse_dynamics_hessian, *out)
    return InverseHessian(*map(s.result, out._replace(qq=_symmetric(out.qq) if symmetric else out.qq)))


def forward_dynamics(robot: Robot, q: ArrayLike, v: ArrayLike, tau: ArrayLike, fext: ArrayLike | None = None) -> Array:
    """Accelerations a (nv,) that torques tau produce at (q, v). ModelError if the mass matrix is singular."""
    s = _Samples(robot, q, ("v", v), ("tau", tau), fext)
    a = np.empty((s.N, robot.nv))
    s.check(s.run(batch.forward_dynamics, lane_batch.forward_dynamics, a))
    return s.result(a)


def forward_dynamics_derivatives(
    robot: Robot, q: ArrayLike, v: ArrayLike, tau: ArrayLike, fext: ArrayLike | None = None
) -> ForwardDerivatives:
    """First derivatives of forward dynamics, from those of inverse dynamics by the ID-FD relation."""
    s = _Samples(robot, q, ("v", v), ("tau", tau), fext)
    out = ForwardDerivatives(*s.matrices(3))
    s.check(s.run(batch.forward_dynamics_derivatives, lane_batch.forward_dynamics_derivatives, *out))
    return ForwardDerivatives(*map(s.result, out))


def forward_dynamics_second_derivatives(
    robot: Robot, q: ArrayLike, v: ArrayLike, tau: ArrayLike, fext: ArrayLike | None = None, symmetric: bool = False
) -> ForwardTensors:
    """Second derivatives of forward dynamics as tensors; dqdq iterated unless ``symmetric``."""
    s = _Samples(robot, q, ("v", v), ("tau", tau), fext)
    out = ForwardTensors(*s.tensors(4))
    s.check(batch.forward_dynamics_tensors(robot.tree, s.q, s.first, s.second, s.fext, *out))
    return ForwardTensors(*map(s.result, out._replace(dqdq=_symmetric(out.dqdq) if symmetric else out.dqdq)))


def forward_dynamics_hessian(
    robot: Robot, q: ArrayLike, v: ArrayLike, tau: ArrayLike, weight: ArrayLike, fext: ArrayLike | None = None,
    symmetric: bool = False,
) -> ForwardHessian:  # fmt: skip
    """Hessian of ``weight @ forward_dynamics(q, v, tau)``, weight (nv,), without building a tensor."""
    s = _Samples(robot, q, ("v", v), ("tau", tau), fext, ("weight", weight))
    out = ForwardHessian(*s.matrices(4))
    s.check(s.run(batch.forward_dynamics_hessian, lane_batch.forward_dynamics_hessian, *out))
    return ForwardHessian(*map(s.result, out._replace(qq=_symmetric(out.qq) if symmetric else out.qq)))


def mass_matrix(robot: Robot, q: ArrayLike) -> Array:
    """The mass matrix M (nv, nv), symmetric positive definite (CRBA)."""
    zeros = np.zeros((*np.shape(q)[:-1], robot.nv))
    return inverse_dynamics_derivatives(robot, q, zeros, zeros).da


def inverse_mass_matrix(robot: Robot, q: ArrayLike) -> Array:
    """M⁻¹ (nv, nv), by the sparse factorisation. ModelError if M is singular."""
    zeros = np.zeros((*np.shape(q)[:-1], robot.nv))
    return forward_dynamics_derivatives(robot, q, zeros, zeros).dtau


_UNIT = {
    FREE_FLYER: (3, 7, "unit quaternion (x, y, z, w)"), SPHERICAL: (0, 4, "unit quaternion (x, y, z, w)"),
    CONTINUOUS: (0, 2, "unit (cos, sin)"), PLANAR: (2, 4, "unit (cos, sin)"),
}  # fmt: skip
"""Which numbers of a joint's configuration have length one."""


def check_configurations(robot: Robot, field: str, Q: Array, error: type[DDPError] = ProblemError) -> None:
    """Raise ``error`` if a row of Q (N, nq) has a quaternion, or a (cos, sin), that is not unit."""
    for kind, i, name in zip(robot.tree.kind, robot.tree.iq, robot.joint_names, strict=True):
        if kind not in _UNIT:
            continue
        first, last, what = _UNIT[kind]
        part = slice(i + first, i + last)
        norms = np.linalg.norm(Q[:, part], axis=1)
        bad = np.flatnonzero(np.abs(norms - 1.0) > 1e-6)
        if len(bad):
            where = f" of sample {bad[0]}" if len(Q) > 1 else ""
            raise error(
                f"{field}[{part.start}:{part.stop}]{where}, joint {name!r}: expected a {what}, got norm"
                f" {norms[bad[0]]:.6g}; normalise it first (pinocchio.normalize)"
            )


def _symmetric(T: Array) -> Array:
    return np.asarray(0.5 * (T + np.swapaxes(T, -1, -2)))


class _Samples:
    """Arguments of one call, checked and stacked along a leading axis."""

    def __init__(
        self, robot: Robot, q: ArrayLike, first: tuple[str, ArrayLike], second: tuple[str, ArrayLike],
        fext: ArrayLike | None, weight: tuple[str, ArrayLike] | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(robot, Robot):
            raise ModelError(f"robot: expected a Robot from dynamics.load, got {type(robot).__name__}")
        self.robot = robot
        self.single = not isinstance(q, (list, tuple, np.ndarray)) or np.ndim(q[0] if len(q) else 0.0) == 0
        self.N = 1 if self.single else len(q)  # type: ignore[arg-type]
        self.q = self._stack("q", q, robot.nq)
        check_configurations(robot, "q", self.q)
        self.first = self._stack(first[0], first[1], robot.nv)
        self.second = self._stack(second[0], second[1], robot.nv)
        self.weight = () if weight is None else (self._stack(weight[0], weight[1], robot.nv),)
        self.fext = self._wrenches(fext)

    def _stack(self, field: str, value: ArrayLike, size: int) -> Array:
        shape = (size,) if self.single else (self.N, size)
        return as_array(field, value, shape).reshape(self.N, size)

    def _wrenches(self, fext: ArrayLike | None) -> Array:
        if fext is None:
            return np.zeros((self.N, 0, 6))
        rows = self.robot.model.njoints
        shape = (rows, 6) if np.ndim(fext) == 2 else (self.N, rows, 6)
        wrenches = as_array("fext", fext, shape)
        return np.ascontiguousarray(np.broadcast_to(wrenches, (self.N, rows, 6))[:, 1:])

    def run(self, one: Any, many: Any, *out: Array) -> Any:
        """Fill ``out`` with the kernel for one sample at a time, or with the one for eight if that is less work."""
        tree, arguments = self.robot.tree, (self.q, self.first, self.second, *self.weight, self.fext, *out)
        if 2 * self.N < WIDTH:
            return one(tree, *arguments)
        return many(tree, arena(lane_batch.size(tree, with_tensors=out[-1].ndim == 4)), *arguments)

    def matrices(self, count: int) -> Array:
        return np.empty((count, self.N, self.robot.nv, self.robot.nv))

    def tensors(self, count: int) -> Array:
        return np.zeros((count, self.N, self.robot.nv, self.robot.nv, self.robot.nv))

    def check(self, failed: int) -> None:
        if failed >= 0:
            where = "" if self.single else f" of sample {failed}"
            raise ModelError(
                f"{self.robot.name}: the mass matrix{where} is not positive definite at q = {self.q[failed]}"
            )

    def result(self, array: Array) -> Array:
        return array[0] if self.single else array

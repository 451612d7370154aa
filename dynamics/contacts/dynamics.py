"""Motion under contacts and impacts with first and second derivatives: the functions people call.

Arguments are one sample or a batch along the leading axis; results follow. Conventions are Pinocchio's throughout:
derivatives with respect to q are Lie derivatives along the local perturbation q ⊕ t e_j. SI units. Forces of all
contacts follow one another in one vector, 3 numbers a point and 6 a surface, in the axes each ``Contact`` names.

**Redundant contacts** hold what others hold already: three points of one rigid foot, two surfaces of one body. Their
forces are not determined by motion. Where the factorisation of J M⁻¹ Jᵀ meets that (a pivot below 1e-10 of its
diagonal), it is regularised: ``J a + ... + ε f = 0`` with ε = 1e-6 1/kg, which spreads forces as evenly as least
squares do and moves them by some 1e-5 of themselves. Derivatives are those of this system, whose rounding is magnified
by 1/ε: for three points of one body of random trees, at speeds that the contacts allow and at others, forces are exact
to 1e-9 of the largest, and batches and single samples differ by less than 3e-8 in ∂f/∂q and in Hessians of forces
(tests/dynamics/test_contact_dynamics.py). Speeds at which points of one body move apart make forces of their residual
over ε. ``regularization`` sets ε > 0 [1/kg] from the start, for all samples.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddp.errors import ProblemError, as_array, axes, flag
from ddp.machine.aligned import working_memory
from ddp.machine.number import WIDTH
from dynamics.contacts import batch as contact_batch
from dynamics.contacts.contact import Contact, Contacts, as_impacts, compile_contacts, forces, refuse_rolling
from dynamics.rigid_bodies.results import ForwardDerivatives, ForwardHessian, ForwardTensors
from dynamics.rigid_bodies.samples import Stack
from dynamics.robots.model import Robot
from dynamics.robots.tree import Tree

Array = NDArray[np.float64]


Given: TypeAlias = Iterable[Contact] | Contact | Contacts
"""Contacts, or what `compile_contacts` has made of them, for those who ask again and again."""


class ContactMotion(NamedTuple):
    """Accelerations a (nv,) and contact forces f (nc,)."""

    a: Array
    f: Array


class ContactDerivatives(NamedTuple):
    """.a, .f: their derivatives .dq, .dv, .dtau, (nv, nv) and (nc, nv) each."""

    a: ForwardDerivatives
    f: ForwardDerivatives


class ContactTensors(NamedTuple):
    """.a, .f: second derivatives .dqdq, .dvdv, .dvdq, .dtaudq, (nv, nv, nv) and (nc, nv, nv) each."""

    a: ForwardTensors
    f: ForwardTensors


class Impact(NamedTuple):
    """Velocities v (nv,) after an impact and the impulses Λ (nc,) [N s, N m s]."""

    v: Array
    impulse: Array


class ImpactRates(NamedTuple):
    """Derivatives by q and by the velocity before."""

    dq: Array
    dv: Array


class ImpactDerivatives(NamedTuple):
    """.v, .impulse: their derivatives .dq, .dv, (nv, nv) and (nc, nv) each."""

    v: ImpactRates
    impulse: ImpactRates


class ImpactTensor(NamedTuple):
    """Second derivatives T[i, j, k] = D_k (D_j z_i): dqdq iterated, dvdq with v second; by v twice there is none."""

    dqdq: Array
    dvdq: Array


class ImpactTensors(NamedTuple):
    """.v, .impulse: second derivatives .dqdq, .dvdq, (nv, nv, nv) and (nc, nv, nv) each."""

    v: ImpactTensor
    impulse: ImpactTensor


class ImpactHessian(NamedTuple):
    """Hessian blocks, each (nv, nv), rows the first letter; v the velocity before. vv vanishes."""

    qq: Array
    qv: Array


def contact_dynamics(
    robot: Robot, q: ArrayLike, v: ArrayLike, tau: ArrayLike, contacts: Iterable[Contact] | Contact,
    fext: ArrayLike | None = None, *, regularization: float = 0.0,
) -> ContactMotion:  # fmt: skip
    """Accelerations a (nv,) and contact forces f (nc,) that torques tau produce while contacts are held.

    fext (njoints, 6): wrenches in the joints' frames, as in ``pinocchio.rnea``.
    ModelError if the mass matrix is singular, ProblemError for contacts that are not.
    """
    s = _Arguments(robot, q, v, contacts, regularization, tau, fext)
    A, F = np.empty((s.N, robot.nv)), np.empty((s.N, s.nc))
    s.run(contact_batch.contact_dynamics, A, F)
    return ContactMotion(*s.results((A, F)))


def contact_dynamics_derivatives(
    robot: Robot, q: ArrayLike, v: ArrayLike, tau: ArrayLike, contacts: Iterable[Contact] | Contact,
    fext: ArrayLike | None = None, *, regularization: float = 0.0,
) -> ContactDerivatives:  # fmt: skip
    """First derivatives of accelerations and contact forces."""
    s = _Arguments(robot, q, v, contacts, regularization, tau, fext)
    z = tuple(np.empty((s.N, s.nz, robot.nv)) for _ in range(3))
    s.run(contact_batch.contact_derivatives, *z)
    a, f = s.split(z)
    return ContactDerivatives(ForwardDerivatives(*a), ForwardDerivatives(*f))


def contact_dynamics_second_derivatives(
    robot: Robot, q: ArrayLike, v: ArrayLike, tau: ArrayLike, contacts: Iterable[Contact] | Contact,
    fext: ArrayLike | None = None, symmetric: bool = False, *, regularization: float = 0.0,
) -> ContactTensors:  # fmt: skip
    """Second derivatives as tensors T[i, j, k] = D_k (D_j z_i); dqdq iterated unless ``symmetric``."""
    s = _Arguments(robot, q, v, contacts, regularization, tau, fext)
    qq, qv, vv, qt = s.hessians(s.every_weight(), 4, symmetric)
    a, f = s.split((qq, vv, np.swapaxes(qv, -1, -2), np.swapaxes(qt, -1, -2)))
    return ContactTensors(ForwardTensors(*a), ForwardTensors(*f))


def contact_dynamics_hessian(
    robot: Robot, q: ArrayLike, v: ArrayLike, tau: ArrayLike, contacts: Iterable[Contact] | Contact,
    weight: ArrayLike | None = None, force_weight: ArrayLike | None = None, fext: ArrayLike | None = None,
    symmetric: bool = False, *, regularization: float = 0.0,
) -> ForwardHessian:  # fmt: skip
    """Hessian of ``weight @ a + force_weight @ f``, without building a tensor; weights (nv,), (nc,), default zeros."""
    s = _Arguments(robot, q, v, contacts, regularization, tau, fext)
    blocks = s.hessians(s.one_weight(weight, force_weight), 4, symmetric)
    return ForwardHessian(*s.results(tuple(block[:, 0] for block in blocks)))


def impact_dynamics(
    robot: Robot, q: ArrayLike, v: ArrayLike, contacts: Given, restitution: float = 0.0,
    *, regularization: float = 0.0,
) -> Impact:  # fmt: skip
    """Velocities v⁺ (nv,) after an impact of contacts at velocities v, and its impulses Λ (nc,).

    ``M (v⁺ - v) = Jᵀ Λ`` and ``J v⁺ = -restitution J v`` (Newton's law; 0 plastic, 1 elastic). Gains play no part.
    """
    s = _Arguments(robot, q, v, contacts, regularization, restitution=restitution, impact=True)
    V, L = np.empty((s.N, robot.nv)), np.empty((s.N, s.nc))
    s.run(contact_batch.contact_dynamics, V, L)
    return Impact(*s.results((V, L)))


def impact_dynamics_derivatives(
    robot: Robot, q: ArrayLike, v: ArrayLike, contacts: Given, restitution: float = 0.0,
    *, regularization: float = 0.0,
) -> ImpactDerivatives:  # fmt: skip
    """First derivatives of velocities after an impact and of its impulses."""
    s = _Arguments(robot, q, v, contacts, regularization, restitution=restitution, impact=True)
    z = tuple(np.empty((s.N, s.nz, robot.nv)) for _ in range(2))
    s.run(contact_batch.contact_derivatives, *z, np.empty((0, s.nz, robot.nv)))
    a, f = s.split(z)
    return ImpactDerivatives(ImpactRates(*a), ImpactRates(*f))


def impact_dynamics_second_derivatives(
    robot: Robot, q: ArrayLike, v: ArrayLike, contacts: Given, restitution: float = 0.0,
    symmetric: bool = False, *, regularization: float = 0.0,
) -> ImpactTensors:  # fmt: skip
    """Second derivatives as tensors; dqdq iterated unless ``symmetric``."""
    s = _Arguments(robot, q, v, contacts, regularization, restitution=restitution, impact=True)
    qq, qv = s.hessians(s.every_weight(), 2, symmetric)
    a, f = s.split((qq, np.swapaxes(qv, -1, -2)))
    return ImpactTensors(ImpactTensor(*a), ImpactTensor(*f))


def impact_dynamics_hessian(
    robot: Robot, q: ArrayLike, v: ArrayLike, contacts: Given, weight: ArrayLike | None = None,
    impulse_weight: ArrayLike | None = None, restitution: float = 0.0, symmetric: bool = False,
    *, regularization: float = 0.0,
) -> ImpactHessian:  # fmt: skip
    """Hessian of ``weight @ v⁺ + impulse_weight @ Λ``, without building a tensor; default weights are zeros."""
    s = _Arguments(robot, q, v, contacts, regularization, restitution=restitution, impact=True)
    weights = s.one_weight(weight, impulse_weight, "impulse_weight")
    blocks = s.hessians(weights, 2, symmetric)
    return ImpactHessian(*s.results(tuple(block[:, 0] for block in blocks)))


def number(field: str, value: float, most: float = np.inf) -> float:
    """A finite number from 0 to ``most``."""
    given = float(as_array(field, value, ()))
    if not 0.0 <= given <= most:
        expected = "a number of at least 0" if most == np.inf else f"a number from 0 to {most:g}"
        raise ProblemError(f"{field}: expected {expected}, got {given}")
    return given


class _Arguments(Stack):
    """The arguments of one call, checked; ``knots`` is what its kernel takes before its results."""

    def __init__(
        self, robot: Robot, q: ArrayLike, v: ArrayLike, contacts: Given, regularization: float,
        tau: ArrayLike | None = None, fext: ArrayLike | None = None, restitution: float = 0.0, impact: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(robot, q)
        self.contacts: Contacts = contacts if isinstance(contacts, Contacts) else compile_contacts(robot, contacts)
        self.nc = forces(self.contacts)
        self.nz = robot.nv + self.nc
        epsilon, V = number("regularization", regularization), self.rows("v", v, robot.nv)
        self.knots: tuple[Any, ...]
        self.tree: Tree
        if not impact:
            refuse_rolling(self.contacts)
            wrenches = self._wrenches(fext)
            tau_rows = self.rows("tau", tau, robot.nv)
            self.tree = robot.resisting(damping=False, springs=False)
            self.knots = self.contacts, self.nc, epsilon, 0.0, False, self.q, V, tau_rows, wrenches
        else:
            e = number("restitution", restitution, 1.0)
            self.tree = robot.tree.weightless or robot.tree
            self.knots = as_impacts(self.contacts), self.nc, epsilon, e, True, self.q, V, V, self._wrenches(None)

    def _wrenches(self, fext: ArrayLike | None) -> Array:
        if fext is None:
            return np.zeros((self.N, 0, 6))
        shape = (self.robot.model.njoints, 6)
        given = as_array("fext", fext, shape if axes(fext) == 2 else (self.N, *shape))
        return np.ascontiguousarray(np.broadcast_to(given, (self.N, *shape))[:, 1:])

    def run(self, kernel: Any, *out: Any) -> None:
        """Fill ``out`` with a kernel of batch.py, for eight samples at a time or, if that is less work, for one."""
        robot = self.robot
        room = contact_batch.size(self.tree.nb, robot.nq, robot.nv, self.contacts.count, self.nc)
        memory = working_memory(room, 1 if 2 * self.N < WIDTH else WIDTH)
        self.check(kernel(self.tree.address, memory, *self.knots, *out))

    def every_weight(self) -> Array:
        """Unit weights, one for each unknown."""
        return np.ascontiguousarray(np.broadcast_to(np.eye(self.nz), (self.N, self.nz, self.nz)))

    def one_weight(self, weight: ArrayLike | None, other: ArrayLike | None, name: str = "force_weight") -> Array:
        """The weights given, (N, 1, nz)."""
        parts = [self.rows("weight", weight, self.robot.nv), self.rows(name, other, self.nc)]
        return np.ascontiguousarray(np.concatenate(parts, axis=1)[:, None])

    def hessians(self, weights: Array, count: int, symmetric: bool) -> list[Array]:
        """Blocks of the Hessians of all weights, (N, W, nv, nv) each."""
        nv = self.robot.nv
        out = [np.empty((self.N, weights.shape[1], nv, nv)) for _ in range(count)]
        self.run(contact_batch.contact_hessians, weights, *out, *[np.empty((0, 1, nv, nv))] * (4 - count))
        if flag("symmetric", symmetric):
            out[0] = 0.5 * (out[0] + np.swapaxes(out[0], -1, -2))
        return out

    def split(self, arrays: tuple[Array, ...]) -> tuple[list[Array], list[Array]]:
        """Results (N, nz, ...) as those of accelerations and those of forces."""
        nv = self.robot.nv
        first, second = [z[:, :nv] for z in arrays], [z[:, nv:] for z in arrays]
        return list(self.results(tuple(first))), list(self.results(tuple(second)))

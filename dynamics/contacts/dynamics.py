"""Motion under contacts and impacts with first and second derivatives: the functions people call.

Arguments are one sample or a batch along the leading axis; results follow. Conventions are Pinocchio's throughout:
derivatives with respect to q are Lie derivatives along the local perturbation q ⊕ t e_j. SI units. Forces of all
contacts follow one another in one vector, 3 numbers a point and 6 a surface, in the axes each ``Contact`` names.

**Redundant contacts** hold what others hold already: three points of one rigid foot, two surfaces of one body. Their
forces are not determined by motion. Where the factorisation of J M⁻¹ Jᵀ meets that (a pivot below 1e-10 of its
diagonal), it is regularised: ``J a + ... + ε f = 0``, with ε a millionth of what a unit of force accelerates at them in
``q0``, which spreads forces as evenly as least squares do and moves them by some 1e-5 of themselves. Where bodies
hardly give way in another direction, at σ of the largest singular value of M^-1/2 Jᵀ, ε changes motion as well, by its
ratio to σ²: by 2e-3 at σ = 2e-2, and by a third at 7e-4. Derivatives are those of this system, whose rounding is
magnified by 1/ε: for three points of one body of random trees, at speeds that the contacts allow and at others, forces
are exact to 1e-9 of the largest, and batches and single samples differ by less than 3e-8 in ∂f/∂q and in Hessians of
forces (tests/dynamics/test_contact_dynamics.py). Speeds at which points of one body move apart make forces of their
residual over ε. ``regularization`` sets ε > 0 [1/kg] from the start, for all samples.
"""

from collections.abc import Iterable
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import ProblemError, as_array, at_least_zero
from ddp.protocols import Array
from dynamics.contacts import batch as contact_batch
from dynamics.contacts.contact import Contact, Contacts, as_impacts, compile_contacts, forces, refuse_rolling
from dynamics.quantities.quantities import Derivatives
from dynamics.rigid_bodies.rigid_body import ForwardDerivatives, ForwardHessian, ForwardTensors, asked
from dynamics.rigid_bodies.samples import Named, Stack
from dynamics.robots.model import Robot
from dynamics.robots.tree import Tree

Part = TypeVar("Part")

Given: TypeAlias = Iterable[Contact] | Contact | Contacts
"""Contacts, or what `compile_contacts` has made of them, for those who ask again and again."""


class OfContact(NamedTuple, Generic[Part]):
    """Accelerations a (nv,) and contact forces f (nc,), or derivatives of theirs, of nv and of nc rows."""

    a: Part
    f: Part


class OfImpact(NamedTuple, Generic[Part]):
    """Velocities v (nv,) after an impact and impulses Λ (nc,) [N s, N m s], or derivatives, of nv and of nc rows."""

    v: Part
    impulse: Part


class ImpactTensor(NamedTuple):
    """Second derivatives T[i, j, k] = D_k (D_j z_i): dqdq iterated, dvdq with v second; by v twice there is none."""

    dqdq: Array
    dvdq: Array


class ImpactHessian(NamedTuple):
    """Hessian blocks, each (nv, nv), rows the first letter; v the velocity before. vv vanishes."""

    qq: Array
    qv: Array


def contact_dynamics(
    robot: Robot, q: ArrayLike, v: ArrayLike, tau: ArrayLike, contacts: Iterable[Contact] | Contact,
    fext: ArrayLike | None = None, *, regularization: float = 0.0,
) -> OfContact[Array]:  # fmt: skip
    """Accelerations a (nv,) and contact forces f (nc,) that torques tau produce while contacts are held.

    fext (njoints, 6): wrenches in the joints' frames, as in ``pinocchio.rnea``.
    ModelError if the mass matrix is singular, ProblemError for contacts that are not.
    """
    s = _Arguments(robot, q, v, contacts, regularization, tau, fext)
    A, F = np.empty((s.N, robot.nv)), np.empty((s.N, s.nc))
    s.run(contact_batch.contact_dynamics, A, F)
    return s.named(OfContact(A, F))


def contact_dynamics_derivatives(
    robot: Robot, q: ArrayLike, v: ArrayLike, tau: ArrayLike, contacts: Iterable[Contact] | Contact,
    fext: ArrayLike | None = None, *, regularization: float = 0.0,
) -> OfContact[ForwardDerivatives]:  # fmt: skip
    """First derivatives .dq, .dv, .dtau of accelerations and of contact forces."""
    s = _Arguments(robot, q, v, contacts, regularization, tau, fext)
    z = [np.empty((s.N, s.nz, robot.nv)) for _ in range(3)]
    s.run(contact_batch.contact_derivatives, *z)
    return OfContact(*s.split(ForwardDerivatives(*z)))


def contact_dynamics_second_derivatives(
    robot: Robot, q: ArrayLike, v: ArrayLike, tau: ArrayLike, contacts: Iterable[Contact] | Contact,
    fext: ArrayLike | None = None, symmetric: bool = False, *, regularization: float = 0.0,
) -> OfContact[ForwardTensors]:  # fmt: skip
    """Second derivatives of both as tensors T[i, j, k] = D_k (D_j z_i); dqdq iterated unless ``symmetric``."""
    s = _Arguments(robot, q, v, contacts, regularization, tau, fext)
    qq, qv, vv, qt = s.hessians(s.every_weight(), 4, symmetric)
    return OfContact(*s.split(ForwardTensors(qq, vv, np.swapaxes(qv, -1, -2), np.swapaxes(qt, -1, -2))))


def contact_dynamics_hessian(
    robot: Robot, q: ArrayLike, v: ArrayLike, tau: ArrayLike, contacts: Iterable[Contact] | Contact,
    weight: ArrayLike | None = None, force_weight: ArrayLike | None = None, fext: ArrayLike | None = None,
    symmetric: bool = False, *, regularization: float = 0.0,
) -> ForwardHessian:  # fmt: skip
    """Hessian of ``weight @ a + force_weight @ f``, without building a tensor; weights (nv,), (nc,), default zeros."""
    s = _Arguments(robot, q, v, contacts, regularization, tau, fext)
    blocks = s.hessians(s.one_weight(weight, force_weight), 4, symmetric)
    return s.named(ForwardHessian(*(block[:, 0] for block in blocks)))


def impact_dynamics(
    robot: Robot, q: ArrayLike, v: ArrayLike, contacts: Given, restitution: float = 0.0,
    *, regularization: float = 0.0,
) -> OfImpact[Array]:  # fmt: skip
    """Velocities v⁺ (nv,) after an impact of contacts at velocities v, and its impulses Λ (nc,).

    ``M (v⁺ - v) = Jᵀ Λ`` and ``J v⁺ = -restitution J v`` (Newton's law; 0 plastic, 1 elastic). Gains play no part.
    """
    s = _Arguments(robot, q, v, contacts, regularization, restitution=restitution, impact=True)
    V, L = np.empty((s.N, robot.nv)), np.empty((s.N, s.nc))
    s.run(contact_batch.contact_dynamics, V, L)
    return s.named(OfImpact(V, L))


def impact_dynamics_derivatives(
    robot: Robot, q: ArrayLike, v: ArrayLike, contacts: Given, restitution: float = 0.0,
    *, regularization: float = 0.0,
) -> OfImpact[Derivatives]:  # fmt: skip
    """First derivatives .dq, .dv of velocities after an impact and of its impulses."""
    s = _Arguments(robot, q, v, contacts, regularization, restitution=restitution, impact=True)
    z = [np.empty((s.N, s.nz, robot.nv)) for _ in range(2)]
    s.run(contact_batch.contact_derivatives, *z, np.empty((0, s.nz, robot.nv)))
    return OfImpact(*s.split(Derivatives(*z)))


def impact_dynamics_second_derivatives(
    robot: Robot, q: ArrayLike, v: ArrayLike, contacts: Given, restitution: float = 0.0,
    symmetric: bool = False, *, regularization: float = 0.0,
) -> OfImpact[ImpactTensor]:  # fmt: skip
    """Second derivatives .dqdq, .dvdq of both as tensors; dqdq iterated unless ``symmetric``."""
    s = _Arguments(robot, q, v, contacts, regularization, restitution=restitution, impact=True)
    qq, qv = s.hessians(s.every_weight(), 2, symmetric)
    return OfImpact(*s.split(ImpactTensor(qq, np.swapaxes(qv, -1, -2))))


def impact_dynamics_hessian(
    robot: Robot, q: ArrayLike, v: ArrayLike, contacts: Given, weight: ArrayLike | None = None,
    impulse_weight: ArrayLike | None = None, restitution: float = 0.0, symmetric: bool = False,
    *, regularization: float = 0.0,
) -> ImpactHessian:  # fmt: skip
    """Hessian of ``weight @ v⁺ + impulse_weight @ Λ``, without building a tensor; default weights are zeros."""
    s = _Arguments(robot, q, v, contacts, regularization, restitution=restitution, impact=True)
    blocks = s.hessians(s.one_weight(weight, impulse_weight, "impulse_weight"), 2, symmetric)
    return s.named(ImpactHessian(*(block[:, 0] for block in blocks)))


def as_share(field: str, value: float) -> float:
    """A number from 0 to 1."""
    given = float(as_array(field, value, ()))
    if not 0.0 <= given <= 1.0:
        raise ProblemError(f"{field}: expected a number from 0 to 1, got {given}")
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
        epsilon, V = at_least_zero("regularization", regularization), self.rows("v", v, robot.nv)
        self.knots: tuple[Any, ...]
        self.tree: Tree
        if not impact:
            refuse_rolling(self.contacts)
            tau_rows, wrenches = self.rows("tau", tau, robot.nv), self.wrenches(fext)
            self.tree = robot.resisting(damping=False, springs=False)
            self.knots = self.contacts, self.nc, epsilon, 0.0, False, self.q, V, tau_rows, wrenches
        else:
            e = as_share("restitution", restitution)
            self.tree = robot.tree.weightless or robot.tree
            self.knots = as_impacts(self.contacts), self.nc, epsilon, e, True, self.q, V, V, self.wrenches(None)

    def run(self, kernel: Any, *out: Any) -> None:
        """Fill ``out`` with a kernel of batch.py."""
        room = contact_batch.size(self.tree.nb, self.robot.nq, self.robot.nv, self.contacts.count, self.nc)
        self.check(kernel(self.tree.address, self.lanes(room), *self.knots, *out))

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
        return [asked(out[0], symmetric), *out[1:]]

    def split(self, found: Named) -> tuple[Named, Named]:
        """Results (N, nz, ...) of a named tuple as those of accelerations and those of forces."""
        parts: Any = slice(self.robot.nv), slice(self.robot.nv, None)
        first, second = (self.named(found._make(z[:, part] for z in found)) for part in parts)  # type: ignore[attr-defined]
        return first, second

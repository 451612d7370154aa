"""Cost terms on contact forces, and soft limits of states, with exact Hessians; conventions as those of costs.py.

Forces depend on states and controls through the dynamics, so that these terms need to know the contacts of their knots
and how controls act: give them the same ones as the dynamics.
"""

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from ddp.costs.batch import CompiledCost
from ddp.costs.bound import bind
from ddp.errors import ProblemError, as_array, at_least_zero, axes, numbers, positive, positive_integer, suggesting
from ddp.protocols import Array
from dynamics.contacts.contact import Contact
from dynamics.phases.cones import pyramid
from dynamics.phases.forces import Pushes, System, as_contacts, pushes
from dynamics.robots.model import Robot
from problems import checks
from problems.kernels import contacts as contact_kernels
from problems.layout import scalar_joints
from problems.terms import KnotTerm, LimitTerm, MovingTerm, check_length

Cone: TypeAlias = partial[tuple[Array, Array, Array]]
"""Rows R on forces and their limits, lower and upper, by the coefficient of friction; keyword normal: its axis."""

MOST_FACES = 1000
"""Most faces of the pyramid that stands for a cone of friction."""


@suggesting
@dataclass(frozen=True, eq=False)
class ForceLimits(MovingTerm, KnotTerm):
    """``½ w Σ_i (how far row i of ``R f(x, u) - target`` is beyond lower_i, upper_i)²`` of contact forces f (nc,).

    system: a robot's dynamics, which says how controls act.   contacts: what touches the world at these knots.
    R (nr, nc): rows on the forces of all contacts in a row [N; N m for couples of surfaces], in the axes each names.
    lower, upper (nr,): limits, infinite where there is none; both zero: the target itself.   weight: one number [1/N²].
    target (nr,), or (M, nr) for each knot of a stretch.   friction: the coefficient, if these are cones, and cone:
    their rows and limits for another one.
    restitution: of the impact at the knot, if f are its impulses [N s; N m s] and not forces.
    phase: of the system, where several hold these contacts exactly and last differently.
    The Hessian is that of the quadratic pieces, by first and second derivatives of f.
    """

    system: System
    contacts: Sequence[Contact]
    R: Array
    lower: Array
    upper: Array
    weight: float
    target: Array | None = None
    friction: float | None = None
    restitution: float | None = None
    phase: int | None = field(default=None, metadata={"varies": False})
    cone: Cone | None = field(default=None, repr=False)
    robot: Robot = field(init=False, repr=False)
    _pushes: Pushes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_rows(self)
        count = len(self.R)
        target = checks.targets("target", np.zeros(count) if self.target is None else self.target, count)
        checks.settle(self, weight=checks.weight("weight", self.weight), robot=self.system.robot)
        checks.settle(self, target=target, _targets=target.reshape(-1, count))

    @property
    def n(self) -> int:
        return self.system.n

    def values(self, X: Array, U: Array) -> Array:
        """The costs (M,) of states X (M, nx) under controls U (M, nu)."""
        return np.asarray(0.5 * self.weight * (self._excess(X, U) ** 2).sum(axis=1))

    def expand(self, X: Array, U: Array, weight: float, exact: bool, l: Array, lz: Array, lzz: Array) -> None:
        """Add ``weight`` times value, gradient and Hessian to l (M,), lz (M, nz), lzz (M, nz, nz)."""
        excess = self._excess(X, U)
        beyond = np.flatnonzero(excess.any(axis=1))  # the others cost no derivative
        if beyond.size == 0:
            return
        e = self.weight * excess[beyond]
        Fz, H = self._pushes.derivatives(X[beyond], U[beyond], e @ self.R, exact)
        Rz = np.where(e[:, :, None] != 0.0, self.R @ Fz, 0.0)
        l[beyond] += 0.5 * weight * (e * excess[beyond]).sum(axis=1)
        lz[beyond] += weight * np.einsum("ki,kia->ka", e, Rz)
        lzz[beyond] += weight * (self.weight * np.swapaxes(Rz, 1, 2) @ Rz + H)

    def noted(self, dynamics: object, knots: slice) -> CompiledCost | None:
        """The C function where these are the dynamics and note these forces at all of the knots."""
        where = self._pushes.noted(dynamics, knots)
        if where is None:
            return None
        own = self.R, self._targets, self.lower, self.upper, self.weight
        return bind(contact_kernels.force_cost, where, *own, noted=True)

    def forces(self, X: ArrayLike, U: ArrayLike) -> Array:
        """The contact forces (M, nc) at states X (M, nx) under controls U (M, nu)."""
        return self._pushes.values(np.asarray(X, float), np.asarray(U, float)).copy()

    def varied(self, **numbers: Any) -> "ForceLimits":
        """Copy with other numbers, see `Problem.varying`; another coefficient of friction is another cone."""
        return _varied(self, numbers)

    def by_duration(self, X: Array, U: Array) -> Array:
        """The derivative (M,) of the costs by how long a knot takes, on which forces of held contacts depend."""
        rates = self._pushes.by_duration(X, U) @ self.R.T
        return np.asarray(self.weight * (self._excess(X, U) * rates).sum(axis=1))

    def _excess(self, X: Array, U: Array) -> Array:
        """Excess of rows (M, nr) over their limits."""
        check_length(self.knots, len(X))
        r = np.einsum("ij,kj->ki", self.R, self._pushes.values(X, U)) - self._targets
        return np.asarray(r - np.clip(r, self.lower, self.upper))


@dataclass(frozen=True, eq=False)
class ForceConstraint:
    """``lower <= R f(x, u) <= upper`` of contact forces f (nc,), as in `ForceLimits`, as a constraint."""

    system: System
    contacts: Sequence[Contact]
    R: Array
    lower: Array
    upper: Array
    friction: float | None = None
    restitution: float | None = None
    phase: int | None = field(default=None, metadata={"varies": False})
    cone: Cone | None = field(default=None, repr=False)
    _pushes: Pushes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_rows(self)

    def values(self, X: Array, U: Array) -> Array:
        """c (M, nr)."""
        return np.asarray(np.einsum("ij,kj->ki", self.R, self._pushes.values(X, U)))

    def jacobian(self, X: Array, U: Array) -> Array:
        """``∂c/∂z`` (M, nr, nz)."""
        unused = np.zeros((len(X), self.R.shape[1]))
        return np.asarray(self.R @ self._pushes.derivatives(X, U, unused, False)[0])

    def varied(self, **numbers: Any) -> "ForceConstraint":
        """Copy with other numbers, as of `ForceLimits`."""
        return _varied(self, numbers)

    def by_duration(self, X: Array, U: Array) -> Array:
        """∂c/∂h (M, nr), h how long the knot takes."""
        return np.asarray(self._pushes.by_duration(X, U) @ self.R.T)

    def curvature(self, X: Array, U: Array, weight: Array) -> Array:
        """``Σ_i weight_i ∂²c_i/∂z²`` (M, nz, nz); weight (M, nr)."""
        return self._pushes.derivatives(X, U, weight @ self.R, True)[1]


OnForces = TypeVar("OnForces", ForceLimits, ForceConstraint)


def _check_rows(term: ForceLimits | ForceConstraint) -> None:
    """Check rows on forces; copies with other rows have what finds the forces already."""
    given = vars(term).get("_pushes") or pushes(term.system, term.contacts, term.restitution, term.phase)
    if given.size == 0:
        raise ProblemError("contacts: expected at least one, got none: there are no forces in flight")
    R = as_array("R", term.R, (None, given.size)).copy()
    lower, upper = checks.limits("lower", term.lower, len(R)), checks.limits("upper", term.upper, len(R))
    checks.ordered(lower, upper)
    checks.settle(term, contacts=given.contacts, R=R, lower=lower, upper=upper, _pushes=given)


def _varied(term: OnForces, numbers: dict[str, Any]) -> OnForces:
    """Copy with other numbers; what finds the forces, dear to make, is shared where none of these is its own."""
    numbers = of_cone(term.cone, numbers)
    if not numbers.keys().isdisjoint(("system", "contacts", "restitution", "phase")):
        return replace(term, **numbers)
    twin = copy(term)
    checks.settle(twin, **numbers)
    twin.__post_init__()
    return twin


@suggesting
def contact_force(system: System, contacts: Iterable[Contact], target: ArrayLike, weight: float) -> ForceLimits:
    """``½ w |f - target|²`` of the forces of all contacts; target (nc,) [N], or (M, nc) along a stretch of M knots."""
    contacts = as_contacts(contacts)
    nc = sum(contact.size for contact in contacts)
    target = as_array("target", target, (None, nc) if axes(target) > 1 else (nc,))
    return ForceLimits(system, contacts, np.eye(nc), np.zeros(nc), np.zeros(nc), weight, target)


@suggesting
def friction_cone(
    system: System,
    contacts: Iterable[Contact],
    mu: float,
    weight: float,
    *,
    faces: int = 4,
    inside: float = 1.0,
    least: float = 0.0,
    margin: float = 0.0,
    sole: tuple[float, float] | None = None,
    normal: ArrayLike = (0.0, 0.0, 1.0),
    restitution: float | None = None,
    phase: int | None = None,
) -> ForceLimits:
    """A barrier on friction: ``½ w Σ (how far forces are outside of their cones)²``, zero within.

    mu: the coefficient of friction.   faces: of the pyramid that stands in for the cone; with four it holds the cone,
    with its faces across the axes of the contact, ``|f_x| <= mu f_n`` and ``|f_y| <= mu f_n``.
    inside: what part of mu the pyramid has; with cos(π / faces) or less it is within the cone, and not about it.
    least [N]: how hard a foot must press, ``f_n >= least``.   margin [N]: how far within the pyramid the barrier
    begins, by the force along the ground.
    normal (3,): of the ground, in the axes of the forces; a surface's must be local, so that its sole is the plane.
    sole: half length and half width [m] of surfaces, within which the centre of pressure must be.
    restitution: of the impact at the knot, if cones are to hold its impulses: then N are N s.
    phase: of the system, where several hold these contacts exactly and last differently.
    """
    contacts = as_contacts(contacts)
    cone = partial(cone_rows, contacts, faces, inside, least, margin, sole, normal=normal)
    return ForceLimits(
        system, contacts, *cone(mu), weight, friction=float(mu), restitution=restitution, phase=phase, cone=cone
    )


@suggesting
def friction_constraint(
    system: System,
    contacts: Iterable[Contact],
    mu: float,
    *,
    faces: int = 4,
    inside: float = 1.0,
    least: float = 0.0,
    sole: tuple[float, float] | None = None,
    normal: ArrayLike = (0.0, 0.0, 1.0),
    restitution: float | None = None,
    phase: int | None = None,
) -> ForceConstraint:
    """Forces, or impulses, stay in their cones of friction: the constraint; arguments as of `friction_cone`."""
    contacts = as_contacts(contacts)
    cone = partial(cone_rows, contacts, faces, inside, least, 0.0, sole, normal=normal)
    return ForceConstraint(
        system, contacts, *cone(mu), friction=float(mu), restitution=restitution, phase=phase, cone=cone
    )


def of_cone(cone: Cone | None, numbers: dict[str, Any]) -> dict[str, Any]:
    """Fields with the rows of the cone of another coefficient of friction, where one is among them."""
    if "friction" not in numbers:
        return numbers
    if cone is None:
        raise ProblemError("friction: expected a cone of friction_cone or friction_constraint, got rows of one's own")
    mu = positive("friction", numbers["friction"])
    R, lower, upper = cone(mu)
    return {"R": R, "lower": lower, "upper": upper} | numbers | {"friction": mu}


def cone_rows(
    contacts: Sequence[Contact], faces: int, inside: float, least: float, margin: float,
    sole: tuple[float, float] | None, mu: float, normal: ArrayLike,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Rows R on the forces of contacts and their limits, lower and upper: the pyramids of `friction_cone`."""
    from scipy.linalg import block_diag

    mu, faces, margin = positive("mu", mu), positive_integer("faces", faces), at_least_zero("margin", margin, " N")
    if not 3 <= faces <= MOST_FACES:
        raise ProblemError(f"faces: expected 3 to {MOST_FACES}, got {faces}")
    n = as_array("normal", normal, (3,))
    if not np.linalg.norm(n) > 0.0:
        raise ProblemError(f"normal: expected a direction, got {numbers(n)}")
    cone = np.vstack([pyramid(mu, faces, positive("inside", inside), n), n / np.linalg.norm(n)])
    upper = np.append(np.full(faces, -margin), np.inf)
    lower = np.append(np.full(faces, -np.inf), float(as_array("least", least, ())))
    blocks = [_rows(contact, cone, sole) for contact in contacts]
    lows, highs = [], []
    for block in blocks:
        extra = len(block) - len(cone)
        lows += [lower, np.full(extra, -np.inf)]
        highs += [upper, np.zeros(extra)]
    R = block_diag(*blocks) if blocks else np.zeros((0, 0))
    return R, np.concatenate([[], *lows]), np.concatenate([[], *highs])


def _rows(contact: Contact, cone: Array, sole: tuple[float, float] | None) -> Array:
    """The rows of one contact: its cone, and of a surface its centre of pressure."""
    if contact.kind != "surface":
        return cone
    if contact.reference != "local":
        raise ProblemError(f"contacts: expected {contact.frame!r} with reference 'local', got {contact.reference!r}")
    rows = np.hstack([cone, np.zeros_like(cone)])
    if sole is None:
        return rows
    length, width = as_array("sole", sole, (2,))
    if not (length > 0.0 and width > 0.0):
        raise ProblemError(f"sole: expected two positive numbers, got {length} and {width}")
    pressure = np.zeros((4, 6))
    pressure[:2, 2], pressure[2:, 2] = -width, -length
    pressure[0, 3], pressure[1, 3], pressure[2, 4], pressure[3, 4] = 1.0, -1.0, 1.0, -1.0
    return np.vstack([rows, pressure])


@suggesting
@dataclass(frozen=True, eq=False)
class StateLimits(LimitTerm):
    """``½ w Σ_i (how far x_i is beyond its limits)²``: soft limits of joints' angles and of all speeds.

    lower, upper (n,): by tangent coordinates, angles and lengths [rad, m] before speeds [rad/s, m/s]; infinite where
    there is none, as must be those of the positions of free-flyers and of other joints whose numbers are no angles.
    """

    robot: Robot
    lower: Array
    upper: Array
    weight: float

    def __post_init__(self) -> None:
        robot = checks.robot("robot", self.robot)
        lower, upper = (checks.limits(name, getattr(self, name), 2 * robot.nv) for name in ("lower", "upper"))
        flat = np.concatenate([scalar_joints(robot).flat, np.arange(robot.nv)[:, None] + [robot.nq, robot.nv]])
        limited = np.isfinite(lower) | np.isfinite(upper)
        for i in np.setdiff1d(np.flatnonzero(limited), flat[:, 1]):
            raise ProblemError(f"lower, upper: expected no limit at [{i}], which is no angle or length of its own")
        checks.ordered(lower, upper)
        flat = np.ascontiguousarray(flat[limited[flat[:, 1]]])
        layout = scalar_joints(robot)._replace(flat=flat)
        checks.settle(self, lower=lower, upper=upper, weight=checks.weight("weight", self.weight))
        checks.settle(self, _layout=layout, _bounds=(lower[flat[:, 1]], upper[flat[:, 1]]))

"""Cost terms on contact forces, and soft limits of states, with exact Hessians; conventions as those of costs.py.

Forces depend on states and controls through the dynamics, so that these terms need to know the contacts of their knots
and how controls act: give them the same ones as the dynamics.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ddp.bound import bind
from ddp.errors import ProblemError, as_array, positive, positive_integer
from ddp.protocols import Array, CompiledCost
from dynamics.contact import Contact, Contacts, compile_contacts, forces
from dynamics.model import Model, Robot
from dynamics.phased_dynamics import PhasedDynamics
from dynamics.robot_dynamics import RobotDynamics
from problems import checks, contact_kernels, state_kernels
from problems.layout import Layout, scalar_joints
from problems.terms import KnotTerm, MovingTerm, RobotTerm

System: TypeAlias = RobotDynamics | PhasedDynamics


@dataclass(frozen=True, eq=False)
class ForceLimits(MovingTerm, KnotTerm):
    """``½ w Σ_i (how far row i of ``R f(x, u) - target`` is beyond lower_i, upper_i)²`` of contact forces f (nc,).

    system: a robot's dynamics, which says how controls act.   contacts: what touches the world at these knots.
    R (nr, nc): rows on the forces of all contacts in a row [N; N m for couples of surfaces], in the axes each names.
    lower, upper (nr,): limits, infinite where there is none; both zero: the target itself.   weight: one number [1/N²].
    target (nr,), or (M, nr) for each knot of a stretch.   friction: the coefficient, if these are cones.
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
    robot: Robot = field(init=False, repr=False)
    _fixed: tuple[Model, Contacts, int, float, Array] = field(init=False, repr=False)
    _rest: tuple[Array, Array, float] = field(init=False, repr=False)
    _targets: Array = field(init=False, repr=False)
    _last: list[tuple[Array, Array, Array]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.system, (RobotDynamics, PhasedDynamics)):
            raise ProblemError(f"system: expected the dynamics of a robot, got {type(self.system).__name__}")
        robot, contacts = self.system.robot, tuple(self.contacts)
        fixed = compiled(self.system, contacts)
        nc = fixed[2]
        if nc == 0:
            raise ProblemError("contacts: expected at least one, got none: there are no forces in flight")
        R = as_array("R", self.R, (None, nc)).copy()
        lower, upper = (checks.limits(name, getattr(self, name), len(R)) for name in ("lower", "upper"))
        if (lower > upper).any():
            i = int(np.argmax(lower > upper))
            raise ProblemError(f"lower: expected at most upper, got {lower[i]} > {upper[i]} at [{i}]")
        given = np.zeros(len(R)) if self.target is None else self.target
        target = checks.targets("target", given, len(R))
        weight = checks.weight("weight", self.weight)
        for name, value in (
            ("contacts", contacts), ("R", R), ("lower", lower), ("upper", upper), ("weight", weight),
            ("target", target), ("_targets", target.reshape(-1, len(R))), ("robot", robot),
            ("_last", []), ("_fixed", fixed), ("_rest", (lower, upper, weight)),
        ):  # fmt: skip
            object.__setattr__(self, name, value)

    @property
    def n(self) -> int:
        """Numbers in a tangent vector of a state."""
        return self.system.n

    def values(self, X: Array, U: Array) -> Array:
        """The costs (M,) of states X (M, nx) under controls U (M, nu)."""
        F, out = self._forces(*self._knots(X, U)), np.empty(len(X))
        contact_kernels.force_values(self.R, self._rows(len(X)), *self._rest, F, out)
        return out

    def expand(self, X: Array, U: Array, weight: float, exact: bool, l: Array, lz: Array, lzz: Array) -> None:
        """Add ``weight`` times value, gradient and Hessian to l (M,), lz (M, nz), lzz (M, nz, nz)."""
        X, U = self._knots(X, U)
        given = self.R, self._rows(len(X)), *self._rest, X, U, self._forces(X, U)
        contact_kernels.expand_forces(*self._fixed, *given, float(weight), bool(exact), l, lz, lzz)

    def forces(self, X: ArrayLike, U: ArrayLike) -> Array:
        """The contact forces (M, nc) at states X (M, nx) under controls U (M, nu)."""
        return self._forces(*self._knots(np.asarray(X), np.asarray(U))).copy()

    def _forces(self, X: Array, U: Array) -> Array:
        """The same; a solver asks for values, first and second order of one trajectory: the last forces are kept."""
        for last in self._last[:1]:
            if np.array_equal(last[0], X) and np.array_equal(last[1], U):
                return last[2]
        F = np.empty((len(X), self.R.shape[1]))
        contact_kernels.contact_forces(*self._fixed, X, U, F)
        self._last[:] = [(X.copy(), U.copy(), F)]
        return F

    def _knots(self, X: Array, U: Array) -> tuple[Array, Array]:
        return checks.rows("numbers in a state", X, self.system.nx), checks.rows("controls", U, self.system.nu)


def compiled(system: System, contacts: Iterable[Contact]) -> tuple[Model, Contacts, int, float, Array]:
    """For kernels: bodies, contacts, how many forces, regularisation, actuation."""
    robot = system.robot
    arrays = compile_contacts(robot, contacts)
    tree = robot.tree if system.damping else robot.tree._replace(damping=np.zeros(robot.nv))
    return tree, arrays, forces(arrays), 0.0, system.actuation


def contact_force(
    system: System, contacts: Iterable[Contact], target: ArrayLike, weight: float
) -> ForceLimits:
    """``½ w |f - target|²`` of the forces of all contacts; target (nc,) [N], or (M, nc) along a stretch of M knots."""
    contacts = list(contacts)
    nc = sum(contact.size for contact in contacts)
    return ForceLimits(system, contacts, np.eye(nc), np.zeros(nc), np.zeros(nc), weight, np.asarray(target, float))


def friction_cone(
    system: System,
    contacts: Iterable[Contact],
    mu: float,
    weight: float,
    *,
    faces: int = 4,
    inside: float = 1.0,
    least: float = 0.0,
    sole: tuple[float, float] | None = None,
    normal: ArrayLike = (0.0, 0.0, 1.0),
) -> ForceLimits:
    """A barrier on friction: ``½ w Σ (how far forces are outside of their cones)²``, zero within.

    mu: the coefficient of friction.   faces: of the pyramid that stands in for the cone; with four it holds the cone,
    with its faces across the axes of the contact, ``|f_x| <= mu f_n`` and ``|f_y| <= mu f_n``.
    inside: what part of mu the pyramid has; with cos(π / faces) or less it is within the cone, and not about it.
    least [N]: how hard a foot must press, ``f_n >= least``.
    normal (3,): of the ground, in the axes of the forces; a surface's must be local, so that its sole is the plane.
    sole: half length and half width [m] of surfaces, within which the centre of pressure must be.
    """
    contacts, mu, faces = list(contacts), positive("mu", mu), positive_integer("faces", faces)
    if faces < 3:
        raise ProblemError(f"faces: expected at least 3, got {faces}")
    n = as_array("normal", normal, (3,))
    if not np.linalg.norm(n) > 0.0:
        raise ProblemError(f"normal: expected a direction, got {n}")
    n = n / np.linalg.norm(n)
    first = np.eye(3)[0] if abs(n[0]) < 0.9 else np.eye(3)[1]
    t = first - n * (n @ first)
    t /= np.linalg.norm(t)
    angles = 2.0 * np.pi * np.arange(faces) / faces
    around = np.outer(np.cos(angles), t) + np.outer(np.sin(angles), np.cross(n, t))
    cone = np.vstack([np.where(np.abs(around) < 1e-15, 0.0, around) - positive("inside", inside) * mu * n, n])
    upper = np.append(np.zeros(faces), np.inf)
    lower = np.append(np.full(faces, -np.inf), float(as_array("least", least, ())))
    blocks = [_rows(contact, cone, sole) for contact in contacts]
    nc = sum(contact.size for contact in contacts)
    R, column = np.zeros((sum(len(block) for block in blocks), nc)), 0
    lows, highs, row = [], [], 0
    for block in blocks:
        R[row : row + len(block), column : column + block.shape[1]] = block
        row, column = row + len(block), column + block.shape[1]
        extra = len(block) - len(cone)
        lows += [lower, np.full(extra, -np.inf)]
        highs += [upper, np.zeros(extra)]
    limits = np.concatenate([[], *lows]), np.concatenate([[], *highs])
    return ForceLimits(system, contacts, R, *limits, weight, friction=mu)


def _rows(contact: Contact, cone: Array, sole: tuple[float, float] | None) -> Array:
    """The rows of one contact: its cone, and of a surface its centre of pressure."""
    if contact.kind == "point":
        return cone
    if contact.reference != "local":
        raise ProblemError(f"contacts: expected {contact.frame!r} with reference 'local', got {contact.reference!r}")
    rows = np.hstack([cone, np.zeros_like(cone)])
    if sole is None:
        return rows
    length, width = (positive("sole", side) for side in sole)
    pressure = np.zeros((4, 6))
    pressure[:2, 2], pressure[2:, 2] = -width, -length
    pressure[0, 3], pressure[1, 3], pressure[2, 4], pressure[3, 4] = 1.0, -1.0, 1.0, -1.0
    return np.vstack([rows, pressure])


@dataclass(frozen=True, eq=False)
class StateLimits(RobotTerm):
    """``½ w Σ_i (how far x_i is beyond its limits)²``: soft limits of joints' angles and of all speeds.

    lower, upper (n,): by tangent coordinates, angles and lengths [rad, m] before speeds [rad/s, m/s]; infinite where
    there is none, as must be those of the positions of free-flyers and of other joints whose numbers are no angles.
    The Hessian is that of the quadratic pieces: w beyond a limit, 0 within.
    """

    robot: Robot
    lower: Array
    upper: Array
    weight: float
    _layout: Layout = field(init=False, repr=False)
    _bounds: tuple[Array, Array] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        robot = checks.robot("robot", self.robot)
        lower, upper = (checks.limits(name, getattr(self, name), 2 * robot.nv) for name in ("lower", "upper"))
        flat = np.concatenate([scalar_joints(robot).flat, np.arange(robot.nv)[:, None] + [robot.nq, robot.nv]])
        limited = np.isfinite(lower) | np.isfinite(upper)
        for i in np.flatnonzero(limited):
            if i not in flat[:, 1]:
                raise ProblemError(f"lower, upper: expected no limit at [{i}], which is no angle or length of its own")
            if lower[i] > upper[i]:
                raise ProblemError(f"lower: expected at most upper, got {lower[i]} > {upper[i]} at [{i}]")
        flat = np.ascontiguousarray(flat[limited[flat[:, 1]]])
        layout = scalar_joints(robot)._replace(flat=flat)
        for name, value in (
            ("lower", lower), ("upper", upper), ("weight", checks.weight("weight", self.weight)),
            ("_layout", layout), ("_bounds", (lower[flat[:, 1]], upper[flat[:, 1]])),
        ):  # fmt: skip
            object.__setattr__(self, name, value)

    def _bound(self) -> CompiledCost:
        return bind(state_kernels.limit_values, state_kernels.expand_limits, self._layout, *self._bounds, self.weight)

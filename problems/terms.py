"""Base of the built-in cost terms: batches of knots, checked, and single knots for people."""

from abc import ABC, abstractmethod
from functools import cache
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from ddp.costs.batch import BatchTerm, CompiledCost, varying
from ddp.costs.bound import bind
from ddp.costs.compiled import CompiledTerm
from ddp.errors import ProblemError, as_array, flag
from ddp.protocols import Array, copied
from ddp.systems.system import System
from dynamics.geometry.solids import Mark, Marked
from dynamics.phases.phased_dynamics import PhasedDynamics
from dynamics.quantities.quantities import center_of_mass, frame_placement
from dynamics.robots.libraries import pin
from dynamics.robots.model import Robot
from dynamics.steps.robot_dynamics import RobotDynamics
from problems import checks
from problems.kernels import states
from problems.layout import Layout


def check_length(made: int | None, M: int) -> None:
    """Raise ProblemError unless a term made for some number of knots, None for any, is asked for M."""
    if made not in (None, M):
        raise ProblemError(f"made for a stretch of {made} knots, got {M}: a term for Problem.during")


class KnotTerm(BatchTerm, Protocol):
    """A batch term of states with tangents (n,), one knot at a time."""

    @property
    @abstractmethod
    def n(self) -> int:
        """Numbers in a tangent vector of a state."""

    thread_safe: bool = True

    def value(self, x: ArrayLike, u: ArrayLike) -> float:
        """The cost of one knot."""
        return float(self.values(*one_knot(x, u))[0])

    def gradient(self, x: ArrayLike, u: ArrayLike) -> Array:
        """(n + nu,): the derivative along z = (dx, du)."""
        return self._knot(x, u, True)[0]

    def hessian(self, x: ArrayLike, u: ArrayLike, exact: bool = True) -> Array:
        """(n + nu, n + nu): the exact Hessian in exponential coordinates, or the Gauss-Newton one."""
        return self._knot(x, u, exact)[1]

    def _knot(self, x: ArrayLike, u: ArrayLike, exact: bool) -> tuple[Array, Array]:
        X, U, exact = *one_knot(x, u), flag("exact", exact)
        nz = self.n + U.shape[1]
        lz, lzz = np.zeros((1, nz)), np.zeros((1, nz, nz))
        self.expand(X, U, 1.0, exact, np.zeros(1), lz, lzz)
        return lz[0], lzz[0]


def one_knot(x: ArrayLike, u: ArrayLike) -> tuple[Array, Array]:
    """A state and a control as the block of knots that they are alone."""
    return as_array("x", x, (None,))[None], as_array("u", u, (None,))[None]


class KernelTerm(CompiledTerm, KnotTerm):
    """A batch term made of a kernel, `ddp.costs.bound`; it writes ``_bound`` and ``_check`` itself."""

    @abstractmethod
    def _check(self, X: Array, U: Array) -> None:
        """Raise ProblemError if states X (M, nx) or controls U (M, nu) are not those it is made for."""

    def fits(self, X: Array, U: Array) -> None:
        self._check(X, U)

    def _checked(self, X: Array, U: Array) -> tuple[Array, Array]:
        self._check(X, U)
        check_length(varying(self), len(X))
        return CompiledTerm._checked(self, X, U)


class ControlTerm(KernelTerm):
    """A term of controls alone, which does not know how large a state is: derivatives of one knot are by u.

    weights (nu,) or (nu, nu).
    """

    weights: Array
    n = 0

    def _check(self, X: Array, U: Array) -> None:
        checks.rows("controls", U, len(self.weights))


class StateTerm(KernelTerm):
    """A term of the state alone, x (nx,) with tangents (n,)."""

    @property
    @abstractmethod
    def nx(self) -> int:
        """Numbers in a state."""

    def _check(self, X: Array, U: Array) -> None:
        checks.rows("numbers in a state", X, self.nx)


class MovingTerm(ABC):
    """A term whose target may be another at each knot of a stretch, `ddp.costs.batch`.

    _targets (T, .): one row for each knot, or one for all.
    """

    _targets: Array

    @property
    def knots(self) -> int | None:
        """Number of knots it is made for, None if its target stays."""
        return None if len(self._targets) == 1 else len(self._targets)

    @property
    def targets(self) -> Array:
        """Targets (T, .): one for each knot of its stretch, or one for all."""
        return self._targets

    def part(self, start: int, stop: int) -> Self:
        """Copy of the term with the targets of the knots start .. stop-1 alone."""
        if (start, stop) == (0, len(self._targets)):
            return self
        return self.toward(self._targets[start:stop])

    def toward(self, targets: Array) -> Self:
        """Copy of the term with other targets (T, .), which are not checked."""
        return copied(self, "compiled", _targets=np.ascontiguousarray(targets))


class _Target:
    """Target of an `AtPose`, made anew: by ``__getattr__``, looks for abilities that it lacks would take 1 µs each.

    Fields named ``target`` are a ``field()``, or dataclasses took this for their default.
    """

    def __get__(self, owner: Any, kind: Any) -> Any:
        return self if owner is None else _fixed_pose()(owner._pose[:9].reshape(3, 3), owner._pose[9:])


@cache
def _fixed_pose() -> Any:
    """Class of poses that cannot be written to, as their numbers are a copy; made when Pinocchio is wanted."""

    class Fixed(pin.SE3):  # type: ignore[misc]
        def _locked(name: str) -> property:  # noqa: N805
            def read(self: Any) -> Array:
                array: Array = getattr(pin.SE3, name).fget(self)
                array.flags.writeable = False
                return array

            return property(read)

        rotation, translation = _locked("rotation"), _locked("translation")

        def _refuse(self) -> None:
            raise ProblemError("target: cannot be changed in place; make a copy, or Problem.varying({...: target})")

        setIdentity = setRandom = _refuse

        def __reduce__(self) -> Any:
            return pin.SE3, (self.rotation, self.translation)

    return Fixed


class AtPose:
    """A function of a frame's pose beside its target, kept as numbers; ``target`` cannot be written to.

    _pose (12,): rotation of the target, row-major, then its position [m].
    """

    frame: str
    target: Any = _Target()
    _pose: Array

    def _aim(self) -> None:
        """Keep the numbers of the target that was given."""
        own = vars(self)
        own["_pose"] = checks.pose("target", own.pop("target"))

    def marks(self) -> list[Mark]:
        """Mark at the target."""
        at = self._pose[9:]
        return [Mark("target", at, at, rotation=self._pose[:9].reshape(3, 3), frame=self.frame)]


class OfRobot(Protocol):
    """A function of a robot's state x = (q, v)."""

    robot: Robot

    def missed(self, x: Array) -> list[str]:
        """Distances of a state x (nx,) from each of the targets, in words; nothing where there are none."""
        marks = self.marks() if isinstance(self, Marked) else []
        return [miss(self.robot, mark, x) for mark in marks if mark.kind == "target"]

    def missed_most(self, X: Array) -> list[str]:
        """The largest distance of states X (M, nx), but the given first, from a target that moves, in words, if any."""
        if not isinstance(self, MovingTerm) or not isinstance(self, Marked) or self.knots is None or len(X) < 2:
            return []
        marks = [mark for k in range(len(X)) for mark in self.part(k, k + 1).marks()]
        far = [np.linalg.norm(_place(self.robot, mark, x) - mark.start) for mark, x in zip(marks, X, strict=True)]
        k = 1 + int(np.argmax(far[1:]))
        return [f"knot {k}: {miss(self.robot, marks[k], X[k])}, the most on the way"]

    @property
    def nx(self) -> int:
        return self.robot.nq + self.robot.nv

    @property
    def n(self) -> int:
        return 2 * self.robot.nv


class OfSystem(Protocol):
    """A function of a system's state."""

    dynamics: System

    @property
    def nx(self) -> int:
        return self.dynamics.nx

    @property
    def n(self) -> int:
        return self.dynamics.n


class OfTorques(OfSystem, Protocol):
    """A function of a robot's state, and of the torques that controls make by the actuation of its dynamics."""

    dynamics: RobotDynamics | PhasedDynamics

    @property
    def driven(self) -> RobotDynamics | PhasedDynamics:
        """The system whose controls make the torques."""
        return self.dynamics


class RobotTerm(OfRobot, StateTerm):
    """A cost term of a robot's state."""

    @property
    def coupled(self) -> int:
        """Numbers of a tangent vector that its Hessian couples, the first ones: all."""
        return self.n


class PlaceTerm(RobotTerm):
    """A cost term of a robot's configuration alone."""

    @property
    def coupled(self) -> int:
        return self.robot.nv


class LimitTerm(RobotTerm):
    """``½ w`` times the squares of how far some numbers of the state are beyond their limits.

    The Hessian is that of the quadratic pieces: w beyond a limit, 0 within.
    """

    weight: float
    separable = True
    _layout: Layout
    _bounds: tuple[Array, Array]

    def _bound(self) -> CompiledCost:
        columns, tangents = self._layout.flat.T
        weights = np.full(len(columns), self.weight)
        return bind(states.limit_cost, columns, tangents, *self._bounds, weights, separable=True)


def miss(robot: Robot, mark: Mark, x: Array) -> str:
    """Say how far a frame, or the centre of mass, is from its target in a state x (nx,): millimetres and degrees."""
    told = f"{mark.frame or 'the centre of mass'} is {_length(_place(robot, mark, x) - mark.start)}"
    if mark.rotation is not None:
        M = frame_placement(robot, x[: robot.nq], mark.frame)
        turn = float(np.degrees(np.linalg.norm(pin.log3(mark.rotation.T @ M[:3, :3]))))
        told += f" and {turn:.3g}°"
    return f"{told} from its target"


def _place(robot: Robot, mark: Mark, x: Array) -> Array:
    """Place (3,) of the frame, or the centre of mass, that a mark is about."""
    q = x[: robot.nq]
    return frame_placement(robot, q, mark.frame)[:3, 3] if mark.frame else center_of_mass(robot, q)


def _length(error: Array) -> str:
    """A length in millimetres, or in metres from one on."""
    size = float(np.linalg.norm(error))
    return f"{1e3 * size:.3g} mm" if size < 1.0 else f"{size:.4g} m"

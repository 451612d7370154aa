"""Base of constraints on states, and the checks of limits."""

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddp.constraints.compiled import KernelConstraint
from ddp.errors import ProblemError, as_array, axes, flag
from ddp.protocols import Array
from dynamics.robots.model import Robot
from problems import checks
from problems.terms import OfRobot


class StateConstraint(KernelConstraint):
    """A constraint of the state alone.

    at_end: among a problem's ``constraints``, whether it holds at the end of the horizon too.
    """

    at_end: bool

    def __post_init__(self) -> None:
        flag("at_end", self.at_end)
        self._settle()

    def _settle(self) -> None:
        """Check the other fields, and keep what is made of them."""

    @property
    def of_states(self) -> NDArray[np.bool_]:
        """All rows (size,)."""
        return np.ones(len(self.lower), dtype=bool)

    @property
    @abstractmethod
    def nx(self) -> int:
        """Numbers in a state."""

    def _checked(self, X: Array, U: Array) -> tuple[Array, Array]:
        return checks.rows("numbers in a state", X, self.nx), np.ascontiguousarray(U, dtype=np.float64)


class RobotConstraint(OfRobot, StateConstraint):
    """A constraint of a robot's state x = (q, v)."""


def keep_limited(constraint: object, rows: NDArray[np.int64], lower: Array, upper: Array) -> None:
    """Keep the rows that have a limit."""
    held = np.isfinite(lower) | np.isfinite(upper)
    if not held.any():
        raise ProblemError("limits: expected at least one that is finite, of a joint whose position is a plain number")
    checks.ordered(lower, upper, rows[:, 0])
    checks.settle(constraint, _rows=rows[held], lower=lower[held], upper=upper[held])


def magnitudes(name: str, value: ArrayLike, size: int, group: NDArray[np.int64]) -> Array:
    """Limits (size,) of magnitudes, as of `limits_of`: positive numbers, infinite where there is none."""
    limits = limits_of(name, value, size, group)
    if (limits[group] <= 0.0).any():
        worst = int(group[np.argmin(limits[group])])
        raise ProblemError(f"{name}: expected positive numbers, infinite where free; got {limits[worst]} at [{worst}]")
    return limits


def limits_of(field: str, value: ArrayLike, size: int, group: NDArray[np.int64]) -> Array:
    """Limits (size,) of which those of a group count: given as a number, one for each of the group, or all."""
    array = as_array(field, value, (None,) if axes(value) > 0 else (), finite=False)
    if array.shape == (size,):
        return checks.limits(field, array, size)
    if array.shape not in ((), (len(group),)):
        raise ProblemError(f"{field}: expected a number or shape ({len(group)},), got shape {array.shape}")
    limits = np.zeros(size)  # of others nobody asks
    limits[group] = checks.limits(field, np.broadcast_to(array, len(group)), len(group))
    return limits


def group_of(robot: Robot, joints: Sequence[str] | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The numbers of q and of v that some joints have, all by default."""
    if joints is None:
        return np.arange(robot.nq), np.arange(robot.nv)
    q: list[int] = []
    v: list[int] = []
    for name in checks.joints(robot, joints, some=True):
        numbers, dofs = robot.numbers_of(name)
        q, v = [*q, *numbers], [*v, *dofs]
    return np.array(q, dtype=np.int64), np.array(v, dtype=np.int64)


def bounded(constraint: object, lower: ArrayLike, upper: ArrayLike, size: int) -> NDArray[np.int64]:
    """Write bounds of those of ``size`` numbers that have one into a constraint; which they are."""
    pair = []
    for field, value in (("lower", lower), ("upper", upper)):
        given = np.broadcast_to(as_array(field, value, (), finite=False), size) if axes(value) == 0 else value
        pair.append(checks.limits(field, given, size))
    low, high = pair
    checks.ordered(low, high)
    held = np.flatnonzero(np.isfinite(low) | np.isfinite(high))
    if held.size == 0:
        raise ProblemError("lower, upper: expected at least one that is finite, got none")
    checks.settle(constraint, lower=low[held], upper=high[held])
    return held

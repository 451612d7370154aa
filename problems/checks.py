"""The checks at the border of the cost terms: ProblemError names the field and what was expected."""

import functools
import inspect
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ForwardRef, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddp.errors import ProblemError, Value, as_array, axes, choice, instance, items, nearest, said, suggesting
from ddp.errors import one_of as one_of
from ddp.errors import rows as rows
from ddp.matrices import definite
from ddp.protocols import Array
from dynamics.geometry.solids import pose as pose
from dynamics.quantities import frames
from dynamics.robots.libraries import pin
from dynamics.robots.loading import READERS
from dynamics.robots.model import Robot, check_robot, load


def settle(record: object, **fields: object) -> None:
    """Write checked fields into a frozen record, public arrays read-only: kernels have their numbers by then."""
    for name, value in fields.items():
        if name[0] != "_" and isinstance(value, np.ndarray):
            value.flags.writeable = False
        object.__setattr__(record, name, value)


def weight(field: str, value: Any) -> float:
    """One weight: a finite number >= 0."""
    given = float(as_array(field, value, ()))
    if given < 0.0:
        raise ProblemError(f"{field}: expected no negative weight, got {given}")
    return given


def weighing(build: Value) -> Value:
    """Decorate the maker of a problem, as `suggesting`: arguments called ..._weight have to be finite numbers >= 0."""
    made: Any = suggesting(build)
    names = list(inspect.signature(made).parameters)

    @functools.wraps(made)
    def checked(*args: Any, **named: Any) -> Any:
        for name, value in {**dict(zip(names, args, strict=False)), **named}.items():
            if name.endswith("_weight"):
                weight(name, value)
        return made(*args, **named)

    return cast(Value, checked)


def weights(field: str, value: ArrayLike, size: int, each: str = "") -> Array:
    """Weights (size,): finite numbers >= 0; one number stands for all.   each: of what, for errors about their size."""
    given = np.full(size, as_array(field, value, ())) if axes(value) == 0 and not isinstance(value, str) else value
    if each and axes(given) == 1 and np.size(given) != size:
        raise ProblemError(f"{field}: expected shape ({size},), {each}, got ({np.size(given)},)")
    array = as_array(field, given, (size,)).copy()
    if (array < 0.0).any():
        worst = int(np.argmin(array))
        raise ProblemError(f"{field}: expected no negative weight, got {array[worst]} at [{worst}]")
    return array


def weighting(field: str, value: ArrayLike, size: int, each: str = "") -> Array:
    """Weights (size,), or a matrix (size, size) of them, symmetric and positive semidefinite; each: see `weights`."""
    if axes(value) != 2:
        return weights(field, value, size, each)
    if size == 0:
        raise ProblemError(f"{field}: expected at least one weight, got none")
    return definite(field, as_array(field, value, (size, size)), 1e-12)


def spatial(field: str, value: ArrayLike) -> float | Array:
    """One weight as a number, or weights (3,), or a matrix (3, 3) of them."""
    return weight(field, value) if axes(value) == 0 else weighting(field, value, 3)


def as_matrix(weights: Array) -> Array:
    """A matrix of weights that may be those of its diagonal."""
    return weights if weights.ndim == 2 else np.diag(weights)


def robot(field: str, value: Any) -> Robot:
    """A robot from mayne.load."""
    check_robot(value, ProblemError, field)
    return value  # type: ignore[no-any-return]


if TYPE_CHECKING:
    RobotLike: TypeAlias = Robot | pin.Model | str | os.PathLike[str]
else:  # Pinocchio is imported by who evaluates the annotation
    RobotLike = Robot | ForwardRef("pin.Model", module=__name__) | str | os.PathLike[str]


def loaded(given: RobotLike, root_of_files: str | None = None) -> Robot:
    """A robot, as it is given or by its model, name or file; root_of_files: as in `dynamics.load`, for files alone."""
    if isinstance(given, Robot):
        return given
    instance("robot", given, (pin.Model, str, os.PathLike), "a Robot, a pinocchio.Model, a name or a file")
    is_file = not isinstance(given, pin.Model) and Path(given).suffix.lower() in READERS
    return load(given, root=root_of_files if is_file else None)


def frame_name(carrier: Robot, frame: str, field: str = "frame") -> None:
    """Refuse the name of a frame that the robot has not."""
    if not robot("robot", carrier).has_frame(frame):
        hint = nearest(frame, carrier.frame_names)
        raise ProblemError(f"{field}: {carrier.name} has no frame {said(frame)}; {hint}")


def joints(carrier: Robot, names: Iterable[str], some: bool = False) -> list[str]:
    """Names of joints of a robot, each once; some: whether there has to be one."""
    known, found = robot("robot", carrier).joint_names, list(items("joints", names, "names of joints", some=some))
    for k, name in enumerate(found):
        choice("joints", name, known, f"{carrier.name} has no joint")
        if name in found[:k]:
            raise ProblemError(f"joints: expected each joint once, got {said(name)} twice")
    return found


def branch(carrier: Robot, frame: str) -> frames.Branch:
    """The branch that carries a frame of a robot."""
    frame_name(carrier, frame)
    found = frames.branch(carrier, frame)
    if found.count == 0:
        raise ProblemError(f"frame: {frame!r} of {carrier.name} is fixed to the world, no joint moves it")
    return found


def targets(field: str, value: Any, size: int) -> Array:
    """A target (size,), or one (M, size) for each of M >= 1 knots."""
    several = axes(value) > 1
    array = as_array(field, value, (None, size) if several else (size,)).copy()
    if several and len(array) == 0:
        raise ProblemError(f"{field}: expected a target for at least one knot, got none")
    return array


def limits(field: str, value: Any, size: int) -> Array:
    """Limits (size,): numbers, infinite where there is none."""
    array = as_array(field, value, (size,), finite=False).copy()
    if np.isnan(array).any():
        raise ProblemError(f"{field}: expected numbers, infinite where free; got NaN at [{np.argmax(np.isnan(array))}]")
    return array


def ordered(lower: Array, upper: Array, rows: NDArray[np.int64] | None = None, unit: str = "") -> None:
    """Refuse a lower limit above its upper one; rows: where errors say that they are."""
    if (lower > upper).any():
        i = int(np.argmax(lower > upper))
        at = i if rows is None else rows[i]
        raise ProblemError(f"lower: expected at most upper, got {lower[i]} > {upper[i]}{unit} at [{at}]")

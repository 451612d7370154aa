"""The errors of mayne, and the checks at its border that raise them.

Every error says which field is wrong, what was expected and what came.
"""

import math
import os
import reprlib
import resource
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddp.suggestions import LONGEST
from ddp.suggestions import nearest as nearest
from ddp.suggestions import other_arguments as other_arguments
from ddp.suggestions import pointing as pointing
from ddp.suggestions import suggesting as suggesting

Array = NDArray[np.float64]
Value = TypeVar("Value")

_OURS = tuple(Path(__file__).parents[1] / package for package in ("ddp", "dynamics", "problems", "viz", "mayne"))

_PYTHON = Path(os.__file__).parent

_LIBRARIES = {"site-packages", "dist-packages"}

_FLOAT = np.dtype(np.float64)

_SMALL = 4096
"""Numbers of an array whose squares BLAS sums up without threads."""

MOST_ITEMS = 1_000_000
"""Items of a list, at most."""

REAL = "fiub"
"""The kinds of numpy types that are real numbers."""


class DDPError(Exception):
    """Root of every error that mayne raises on purpose."""


class ProblemError(DDPError, ValueError):
    """A problem, a guess or an option is malformed; nothing was computed."""


class UndefinedCostError(ProblemError):
    """The cost of a guess is not a number; that of another guess may be one."""


class ModelError(DDPError, ValueError):
    """A robot model cannot be read, or holds something that is not supported."""


class SolveError(DDPError, RuntimeError):
    """A solve ended without convergence; ``solution`` holds the best iterate."""

    def __init__(self, message: str, solution: Any = None) -> None:
        super().__init__(message)
        self.solution = solution


def as_array(
    field: str,
    value: ArrayLike,
    shape: Sequence[int | None],
    error: type[DDPError] = ProblemError,
    finite: bool = True,
) -> Array:
    """``value`` as a C-contiguous writeable float64 array of ``shape`` (None: any length).

    finite: whether infinities and NaN are refused.
    Raises ``error`` naming ``field``, what was expected and what came.
    """
    array: Array
    if type(value) is np.ndarray and value.dtype == _FLOAT and value.flags.c_contiguous and value.flags.aligned:
        array = value if value.flags.writeable else value.copy()
    else:
        known = known_shape(value)
        if known is not None and not _matches(known, shape):
            raise error(_misshapen(field, known, shape))
        try:
            if np.ma.is_masked(value):
                raise TypeError("some of them are masked")
            given = np.asarray(value)
            if given.dtype.kind not in REAL or isinstance(value, (bool, np.bool_)):
                kind = "text" if given.dtype.kind in "US" else given.dtype
                raise TypeError(f"of type {kind}")
            array = np.require(given, np.float64, ["C_CONTIGUOUS", "WRITEABLE"])
        except Exception as reason:  # whatever numpy, or an object that says it is an array, comes up with
            why = str(reason).partition("\n")[0][:LONGEST]
            raise error(f"{field}: expected {_wanted(shape, 'real numbers')}, got {said(value)} ({why})") from None
    if array.shape != shape and not _matches(array.shape, shape):
        raise error(_misshapen(field, array.shape, shape))
    if finite and not (_sums_up(array) or np.isfinite(array).all()):
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        where = f" at [{', '.join(map(str, index))}]" if index else ""
        raise error(f"{field}: expected finite numbers, got {array[index]}{where}")
    return array


def _sums_up(array: Array) -> bool:
    """Whether the sum of squares is finite, and then all numbers are: what small arrays are asked first.

    Products of large ones wait for BLAS's threads, for milliseconds where cores are busy.
    """
    return array.size < _SMALL and math.isfinite(np.vdot(array, array))


def known_shape(value: Any) -> tuple[int, ...] | None:
    """The shape of real numbers as far as it is known without a look at them, of which there may be very many."""
    if isinstance(value, np.ndarray):
        return value.shape if value.dtype.kind in REAL else None
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], np.ndarray):
        parts = {known_shape(part) for part in value}
        part = parts.pop()
        return None if parts or part is None else (len(value), *part)
    return None


def _misshapen(field: str, shape: tuple[int, ...], wanted: Sequence[int | None]) -> str:
    fixed = f"shape {_shown(wanted)}" if wanted and None not in wanted else _wanted(wanted, "numbers")
    return f"{field}: expected {fixed}, got {shape or 'one number'}{_meant(shape, tuple(wanted))}"


_POSES: dict[tuple[int, ...], str] = {
    (7,): "pin.XYZQUATToSE3 makes one, of x, y, z and a quaternion in the order x, y, z, w",
    (6,): "pin.SE3(pin.rpy.rpyToMatrix(roll, pitch, yaw), xyz) makes one",
}
"""How poses are made of so many numbers."""


def _meant(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> str:
    """A hint where a pose is wanted or came, no other arrays being of shape (4, 4), or rows are columns."""
    if wanted == (4, 4):
        return f": a pose is a pin.SE3 or its matrix, {_POSES.get(shape, 'pin.SE3(rotation, translation) makes one')}"
    if shape == (4, 4) and wanted[-1:] == (3,):
        return ": that is a pose, its .translation is a place"
    if len(shape) == 2 and shape == wanted[::-1]:
        return ": transpose it"
    return ": np.ravel of it is one row" if len(shape) == 2 and shape == (*wanted[-1:], 1) else ""


def _matches(shape: tuple[int, ...], wanted: Sequence[int | None]) -> bool:
    return len(shape) == len(wanted) and all(w is None or w == s for w, s in zip(wanted, shape, strict=True))


def _wanted(shape: Sequence[int | None], numbers: str) -> str:
    """A shape in words, where some of its lengths are free."""
    if not shape:
        return f"a {numbers.removesuffix('s')}"
    if None not in shape:
        return f"{numbers} of shape {_shown(shape)}"
    if len(shape) == 1:
        return f"one row of {numbers}"
    if len(shape) == 2:
        rows, columns = ("" if s is None else f"{s} " for s in shape)
        return f"{rows}rows of {columns}{numbers}"
    return f"{numbers} of shape {_shown(shape)}"


def _shown(shape: Sequence[int | None]) -> str:
    return "(" + ", ".join("N" if s is None else str(s) for s in shape) + ("," if len(shape) == 1 else "") + ")"


def rows(what: str, value: Array, size: int) -> Array:
    """States or controls (M, size) of M knots as C-contiguous floats; what: name of their numbers in errors."""
    if value.ndim != 2:
        raise ProblemError(f"expected an array of shape (M, {size}), got {value.shape}")
    if value.shape[1] != size:
        raise ProblemError(f"made for {size} {what}, the dynamics has {value.shape[1]}")
    return np.ascontiguousarray(value, dtype=np.float64)


def axes(value: Any) -> int:
    """Number of axes that an argument has as an array; 0 for what is none, of which `as_array` says what is wrong."""
    known = known_shape(value)
    if known is not None:
        return len(known)
    try:
        found = np.ndim(value)
    except Exception:  # of ragged lists, and of objects that say they are arrays
        return 0
    return found if isinstance(found, int) else 0


def line_of(reason: BaseException | None) -> str:
    """Place where a user's own code raised an exception, as " (line 7 of car.py)": the innermost line of no library."""
    found = ""
    for frame, line in traceback.walk_tb(None if reason is None else reason.__traceback__):
        path = Path(frame.f_code.co_filename)
        if _LIBRARIES.isdisjoint(path.parts) and not any(path.is_relative_to(own) for own in (*_OURS, _PYTHON)):
            found = f" (line {line} of {path.name})"
    return found


def instance(
    field: str, value: object, kind: type | tuple[type, ...], expected: str = "", error: type[DDPError] = ProblemError
) -> None:
    """Raise ``error`` unless ``value`` is of a class, or of one of several; expected: such a thing, in words."""
    if not isinstance(value, kind):
        what = expected or f"a {getattr(kind, '__name__', kind)}"
        raise error(f"{field}: expected {what}, got {said(value)}")


def positive(field: str, value: float, error: type[DDPError] = ProblemError) -> float:
    """``value`` as a float if it is finite and greater than zero, else ``error``."""
    number = value if type(value) is float else float(as_array(field, value, (), error, finite=False))
    if not 0.0 < number < np.inf:
        raise error(f"{field}: expected a positive number, got {number}")
    return number


def at_least_zero(field: str, value: ArrayLike, unit: str = "", error: type[DDPError] = ProblemError) -> float:
    """``value`` as a float if it is finite and at least zero, else ``error``; unit: of the error, after a space."""
    number = float(as_array(field, value, (), error))
    if number < 0.0:
        raise error(f"{field}: expected at least 0{unit}, got {number:g}")
    return number


def integer(field: str, value: Any, least: int = 0, error: type[DDPError] = ProblemError, of: str = "of") -> int:
    """``value`` as an int if it is a whole number of at least ``least``, else ``error``; of: as "of steps,"."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise error(f"{field}: expected a whole number {of} at least {least}, got {said(value)}")
    return int(value)


def word(field: str, value: Any, least: int = 0) -> int:
    """``value`` as an int if it is a whole number of at least ``least`` that has room in 64 bits, else ProblemError."""
    number = integer(field, value, least)
    if number >= 1 << 63:
        raise ProblemError(f"{field}: expected a whole number below 2^63, got {said(value)}")
    return number


def positive_integer(field: str, value: int, of: str = "of") -> int:
    """``value`` as an int if it is a whole number greater than zero, else ProblemError; of: as "of steps,"."""
    return integer(field, value, 1, of=of)


def steps(field: str, value: Any, dt: float) -> int:
    """``value`` as an int if it is a number of steps of dt [s], at least one, else ProblemError."""
    if isinstance(value, float) and 0.0 < value < np.inf and value != round(value):
        many = f"{value:g} s are {max(1, round(value / dt))} steps of {dt:g} s"
        raise ProblemError(f"{field}: expected a whole number of steps, at least 1, got {value}; {many}")
    return positive_integer(field, value, "of steps,")


def flag(field: str, value: Any, error: type[DDPError] = ProblemError) -> bool:
    """``value`` as a bool if it is True or False, else ``error``."""
    if not isinstance(value, (bool, np.bool_)):
        raise error(f"{field}: expected True or False, got {said(value)}")
    return bool(value)


def settle(record: object, **fields: object) -> None:
    """Write checked fields into a frozen record, in place of what was given."""
    for name, value in fields.items():
        object.__setattr__(record, name, value)


def settle_by(record: object, check: Callable[[str, Any], object], *fields: str, of: str = "") -> None:
    """Check fields of a frozen record and write the results in their place; of: prefix of their names in errors."""
    settle(record, **{name: check(of + name, getattr(record, name)) for name in fields})


def affordable(field: str, value: float, floats: int) -> None:
    """Raise ProblemError if a size that ``floats`` numbers depend on asks for more memory than there may be."""
    needed, there = 8 * floats, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    where = "this machine has"
    if limit != resource.RLIM_INFINITY and limit < there:
        there, where = limit, "this process is allowed"
    if needed > there:
        much = f"{needed / 2**30:.3g} GiB" if needed < 1 << 80 else "more than any machine has"
        raise ProblemError(f"{field}: {said(value)} would need {much} of memory, {where} {there / 2**30:.3g} GiB")


def items(
    field: str, value: Iterable[Value], what: str, error: type[DDPError] = ProblemError, some: bool = False
) -> tuple[Value, ...]:
    """``value`` as a tuple if it is a list or another iterable of ``what``, rather than text or a mapping.

    some: whether there has to be one.
    """
    if isinstance(value, (str, bytes, Mapping, type)):
        raise error(f"{field}: expected a list of {what}, got {said(value)}")
    try:
        if isinstance(value, Sized) and len(value) > MOST_ITEMS:
            raise ValueError("too many")
        found = tuple(value)
    except Exception:
        raise error(f"{field}: expected a list of {what}, got {said(value)}") from None
    if some and not found:
        raise error(f"{field}: expected at least one, got none")
    return found


def instances(
    field: str, value: Iterable[Value] | Value, kind: type[Value], what: str, expected: str = "",
    error: type[DDPError] = ProblemError, some: bool = False,
) -> tuple[Value, ...]:  # fmt: skip
    """`items` that are each an `instance` of a class; one alone is a list of it."""
    several: Any = (value,) if isinstance(value, kind) else value
    found: tuple[Value, ...] = items(field, several, what, error, some)
    for i, item in enumerate(found):
        instance(f"{field}[{i}]", item, kind, expected, error)
    return found


def text(field: str, value: Any, error: type[DDPError] = ProblemError) -> str:
    """``value`` if it is a text of a few lines that can be written, else ``error``."""
    fits = isinstance(value, str) and len(value) <= 1000
    if not fits or value.encode(errors="ignore").decode() != value:  # halves of surrogate pairs cannot be written
        raise error(f"{field}: expected a text of at most 1000 characters, got {said(value)}")
    return value


def choice(
    field: str, value: Any, known: Iterable[str], without: str = "unknown", error: type[DDPError] = ProblemError
) -> None:
    """Raise ``error`` unless ``value`` is one of the names ``known``; without: "panda has no joint" and the like."""
    if not isinstance(value, str) or value not in known:
        raise error(f"{field}: {without} {said(value)}; {nearest(value, known)}")


def one_of(field: str, value: Any, known: Iterable[str]) -> None:
    """Raise ProblemError unless ``value`` is one of a few names, which the error lists."""
    if not isinstance(value, str) or value not in known:
        raise ProblemError(f"{field}: expected one of {', '.join(map(repr, known))}, got {said(value)}")


def said(value: Any) -> str:
    """A value as errors quote it: plain data cut to a few items, an array by its shape, other objects by their class.

    Never longer than a line, and never an error of its own.
    """
    if isinstance(value, type):
        return f"the class {value.__name__[:LONGEST]}"
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}" if value.ndim else f"an array of one {value.dtype}"
    if value is None or isinstance(value, _PLAIN):
        try:
            return " ".join(reprlib.repr(value).split())[:LONGEST]
        except Exception:  # of objects inside
            pass
    has = ", which has a .solution" if "solution" in getattr(value, "__dict__", ()) else ""
    return type(value).__name__[:LONGEST] + has


_PLAIN = (
    bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, range, slice, os.PathLike, np.generic,
)  # fmt: skip


def numbers(values: Array) -> str:
    """Numbers as errors quote them: at most six of each row, in one line."""
    text = np.array2string(np.asarray(values), precision=6, threshold=6, edgeitems=3, max_line_width=10_000)
    return " ".join(text.split())

"""The errors of mayne, and the checks at its border that raise them.

Every error says which field is wrong, what was expected and what came.
"""

from __future__ import annotations

import difflib
import math
import reprlib
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

_OURS = Path(__file__).parent

_LIBRARIES = {"site-packages", "dist-packages", "dynamics", "problems"}

_FLOAT = np.dtype(np.float64)

REAL = "fiub"
"""The kinds of numpy types that are real numbers."""


class DDPError(Exception):
    """Root of every error that mayne raises on purpose."""


class ProblemError(DDPError, ValueError):
    """A problem, a guess or an option is malformed; nothing was computed."""


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
    if type(value) is np.ndarray and value.dtype == _FLOAT and value.flags.carray:
        array = value
    else:
        try:
            given = np.asarray(value)
            if given.dtype.kind not in REAL:
                raise TypeError(f"their type is {given.dtype}")
            array = np.require(given, np.float64, ["C_CONTIGUOUS", "WRITEABLE"])
        except (TypeError, ValueError) as reason:
            numbers = f"real numbers of shape {_shown(shape)}" if shape else "a real number"
            raise error(f"{field}: expected {numbers}, got {reprlib.repr(value)} ({reason})") from None
    if array.shape != shape and not _matches(array.shape, shape):
        raise error(f"{field}: expected {f'shape {_shown(shape)}' if shape else 'a number'}, got {array.shape}")
    if finite and not (math.isfinite(np.vdot(array, array)) or np.isfinite(array).all()):  # squares may overflow
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        where = f" at [{', '.join(map(str, index))}]" if index else ""
        raise error(f"{field}: expected finite numbers, got {array[index]}{where}")
    return array


def _matches(shape: tuple[int, ...], wanted: Sequence[int | None]) -> bool:
    return len(shape) == len(wanted) and all(w is None or w == s for w, s in zip(wanted, shape, strict=True))


def _shown(shape: Sequence[int | None]) -> str:
    return "(" + ", ".join("any" if s is None else str(s) for s in shape) + ("," if len(shape) == 1 else "") + ")"


def line_of(reason: BaseException | None) -> str:
    """Where a user's own code raised an exception, as " (line 7 of car.py)": the innermost line of no library."""
    found = ""
    for frame, line in traceback.walk_tb(None if reason is None else reason.__traceback__):
        path = Path(frame.f_code.co_filename)
        if not any(part in _LIBRARIES for part in path.parts) and path.parent.parent != _OURS and path.parent != _OURS:
            found = f" (line {line} of {path.name})"
    return found


def positive(field: str, value: float, error: type[DDPError] = ProblemError) -> float:
    """``value`` as a float if it is finite and greater than zero, else ``error``."""
    number = float(as_array(field, value, (), error, finite=False))
    if not 0.0 < number < np.inf:
        raise error(f"{field}: expected a positive number, got {number}")
    return number


def positive_integer(field: str, value: int, error: type[DDPError] = ProblemError) -> int:
    """``value`` as an int if it is a whole number greater than zero, else ``error``."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise error(f"{field}: expected a whole number of at least 1, got {reprlib.repr(value)}")
    return int(value)


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for an unknown name: the nearest known ones, as a sentence fragment."""
    known = list(known)
    matches = difflib.get_close_matches(str(name), known, n=3, cutoff=0.5)
    if matches:
        return f"did you mean {' or '.join(repr(m) for m in matches)}?"
    listed = ", ".join(map(repr, sorted(known)[:12])) + (", ..." if len(known) > 12 else "")
    return f"known are {listed}"

"""Solves among many as rows of numbers: one declaration of what is kept, sent and stored of each."""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp.errors import ProblemError, items, said
from ddp.machine.recycled import recycled
from ddp.problem import Problem
from ddp.solutions.columns import shapes
from ddp.solutions.solution import Solution
from ddp.solutions.status import Ending, Status, converged

Rows = NDArray[np.void]

ENDINGS = tuple(ending.name for ending in Ending)

STARTS = (
    "own guess", "given guess", "neighbour", "own guess better than neighbour", "neighbour better than own guess",
    "own guess better than neighbour, which gave no sign of it", "neighbour's better optimum",
)  # fmt: skip
"""Source of a row's solution; from the fourth on, both were tried. The last: of a neighbour whose own guess
was better than what it had followed."""


class Source(IntEnum):
    """Places in `STARTS`."""

    OWN, GIVEN, NEIGHBOUR, OWN_BETTER, NEIGHBOUR_BETTER, MISSED, OFFERED = range(len(STARTS))


LONGEST = 400
"""Bytes of a status or an error that a row keeps."""

SCALARS = [
    ("row", "<i8"), ("cost", "<f8"), ("gradient", "<f8"), ("violation", "<f8"), ("iterations", "<i4"),
    ("work", "<i4"), ("converged", "?"), ("ending", "i1"), ("kind", "S8"), ("start", "i1"), ("parent", "<i8"),
    ("moved", "<f8"), ("sentence", f"S{LONGEST}"),
]  # fmt: skip
"""Numbers of each row. work: iterations of all solves that were tried for it. parent: the row whose policy was
followed, -1 the problem's own solution, -2 none. moved: root of the mean square of X ⊖ X_parent. sentence: why it
ended, if not as `converged` says without more."""

ARRAYS = "X", "U", "k", "K", "multipliers", "penalties"

NONE, NOMINAL = -2, -1


def row_type(problem: Problem, keep: Sequence[str], dtype: Any) -> np.dtype[np.void]:
    """Type of rows that keep some arrays, as floats of a size; ProblemError if there are no such arrays."""
    names = items("keep", keep, "names of arrays")
    for name in names:
        if not isinstance(name, str) or name not in ARRAYS:
            raise ProblemError(f"keep: expected some of {', '.join(ARRAYS)}, got {said(name)}")
    try:
        number = np.dtype(dtype)
    except (TypeError, ValueError, RecursionError):
        number = np.dtype(object)
    if number not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ProblemError(f"dtype: expected 'float32' or 'float64', got {said(dtype)}")
    found = shapes(problem)
    kept = [name for name in ARRAYS if name in names and 0 not in found[name]]
    return np.dtype(SCALARS + [(name, number, found[name]) for name in kept])


def unwritten_rows(count: int, kind: np.dtype[np.void]) -> Rows:
    """Rows that are not initialised, in memory that is used again."""
    size = count * kind.itemsize
    return recycled((-(-size // 8),)).view(np.uint8)[:size].view(kind)


def empty_rows(count: int, kind: np.dtype[np.void]) -> Rows:
    """Rows of zeros but for their arrays, which are not initialised, in memory that is used again."""
    rows = unwritten_rows(count, kind)
    for name, *_ in SCALARS:
        rows[name] = np.zeros((), kind[name])
    return rows


def fill(row: Any, solution: Solution) -> None:
    """Write a solution into a row."""
    for name in ("cost", "gradient", "violation", "iterations", "converged", "kind"):
        row[name] = getattr(solution, name)
    row["work"], row["ending"] = solution.iterations, ENDINGS.index(solution.status.ending.name)
    row["sentence"] = b"" if solution.status == converged(solution.iterations) else said_in(str(solution.status))
    for name in kept_in(row):
        row[name] = getattr(solution, name)


def kept_in(rows: Any) -> tuple[str, ...]:
    """Names of the arrays that rows keep."""
    return rows.dtype.names[len(SCALARS) :]  # type: ignore[no-any-return]


def fail(row: Any, sentence: str) -> None:
    """Write into a row that there is no solution, and why."""
    for name in ("cost", "gradient", "violation", "moved", *kept_in(row)):
        row[name] = np.nan
    row["iterations"], row["work"], row["converged"], row["kind"] = 0, 0, False, b"unknown"
    row["ending"], row["sentence"] = ENDINGS.index(Ending.UNKNOWN.name), said_in(sentence)


def said_in(sentence: str) -> bytes:
    """A sentence of at most `LONGEST` bytes, cut after a word."""
    whole = " ".join(sentence.split()).encode()
    short = whole[: LONGEST - 3].decode(errors="ignore")
    return whole if len(whole) <= LONGEST else (short.rpartition(" ")[0] or short).encode() + b"..."


def as_texts(values: Any) -> NDArray[Any]:
    """Texts of rows or of a store as strings (M,)."""
    found = np.asarray(values)
    found = np.strings.decode(found, "utf-8") if found.dtype.kind == "S" else found
    return found.astype(np.dtypes.StringDType())


def solution_of(row: Any, problem: Problem) -> Solution:
    """The solution that a row keeps, of its problem; ProblemError if it lacks X, U, K, or what constraints have."""
    names, sizes = row.dtype.names, shapes(problem)
    if missing := [name for name, shape in sizes.items() if name not in names and name != "k" and 0 not in shape]:
        raise ProblemError(f"solution: {', '.join(missing)} were not kept, see `keep`")
    own: dict[str, Any] = {
        name: np.asarray(row[name], np.float64).copy() if name in names else np.zeros(shape)
        for name, shape in sizes.items()
    }
    ending = Ending[ENDINGS[int(row["ending"])]]
    sentence = row["sentence"].decode() or converged(int(row["iterations"]))
    return Solution(
        **own, cost=float(row["cost"]), gradient=float(row["gradient"]), converged=bool(row["converged"]),
        status=Status(sentence, ending), iterations=int(row["iterations"]), seconds=np.nan, history=(), problem=problem,
        violation=float(row["violation"]), kind=row["kind"].decode(),
    )  # fmt: skip


def policy_type(problem: Problem, coordinates: int) -> np.dtype[np.void]:
    """Type of what children of a row need of it: its policy, where it is, and what its cost lets expect of theirs."""
    own = [(name, "<f8", shape) for name, shape in shapes(problem).items()]
    return np.dtype([("row", "<i8"), ("cost", "<f8"), ("slope", "<f8"), ("point", "<f8", (coordinates,)), *own])

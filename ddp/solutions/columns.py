"""Numbers of a solution by the names of its system: mappings, tables, and files that other programs read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ddp.costs.batch import durations_of
from ddp.errors import ProblemError, choice
from ddp.feedback.policy import names
from ddp.files import as_path, shown, write_table
from ddp.protocols import Array
from ddp.systems.system import System

if TYPE_CHECKING:
    from ddp.solutions.solution import Solution

COLUMN = "history_"
"""Beginning of the names of the history's columns in files."""


class Columns(Mapping[str, Array]):
    """Columns of an array (M, c) by name: ``q["elbow_joint"]`` is (M,). ``np.asarray(q)`` is the whole array."""

    def __init__(self, labels: list[str], values: Array) -> None:
        self.names, self._array = tuple(labels), values

    def __getitem__(self, name: str) -> Array:
        choice("name", name, self.names, "there is no column")
        return np.asarray(self._array[:, self.names.index(name)])

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self._array, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        return f"Columns {', '.join(self.names)} of {len(self._array)} rows"


def times(system: System, count: int) -> Array:
    """When each of ``count`` + 1 states is reached [s]."""
    lasting = durations_of(system, count)
    return np.concatenate([[0.0], np.cumsum(lasting)])


def positions(system: System, X: Array) -> Columns:
    """Positions of a robot's joints, or all numbers of the state of a system that names none."""
    labels, _, _ = names(system)
    return Columns(labels, X[:, : len(labels)])


def velocities(system: System, X: Array) -> Columns:
    """Velocities of a robot's joints; no column of systems that name none."""
    labels, rates, _ = names(system)
    return Columns(rates, X[:, len(labels) : len(labels) + len(rates)])


def controls(system: System, U: Array) -> Columns:
    """Controls by the names of what they drive."""
    return Columns(names(system)[2], U)


def as_table(solution: Solution, system: System) -> dict[str, Array]:
    """Time, positions, velocities and controls by the headings of a table; controls of the last state are NaN."""
    q, v, u = positions(system, solution.X), velocities(system, solution.X), controls(system, solution.U)
    last = np.concatenate([np.asarray(u), np.full((1, len(u)), np.nan)])
    headings = ["time", *q, *(f"rate of {name}" for name in v), *(f"control {name}" for name in u)]
    if twice := [name for i, name in enumerate(headings) if name in headings[:i]]:
        raise ProblemError(f"dynamics: expected a column for each name, got {twice[0]!r} twice; rename that joint")
    columns = times(system, len(solution.U))[:, None], np.asarray(q), np.asarray(v), last
    return dict(zip(headings, np.hstack(columns).T, strict=True))


def to_csv(solution: Solution, system: System, path: str | os.PathLike[str]) -> Path:
    """Write `as_table` with a header; numbers read back as they were, and nothing stands where there is no control."""
    target = as_path(path)
    if target.suffix != ".csv":
        raise ProblemError(f"path: expected a file whose name ends with .csv, got {shown(target)}")
    table = as_table(solution, system)
    return write_table(target, table, zip(*(column.tolist() for column in table.values()), strict=True))


def to_dict(solution: Solution, system: System) -> dict[str, Any]:
    """Trajectory, outcome and history as arrays, numbers and texts by name."""
    found: dict[str, Any] = {"time": times(system, len(solution.U))}
    parts = positions(system, solution.X), velocities(system, solution.X), controls(system, solution.U)
    found |= {what: dict(part) for what, part in zip(("q", "v", "u"), parts, strict=True)}
    outcome = "cost", "gradient", "violation", "converged", "kind", "iterations", "seconds"
    found |= {name: getattr(solution, name) for name in outcome} | {"status": str(solution.status)}
    past = {name.removeprefix(COLUMN): rows for name, rows in solution.arrays().items() if name.startswith(COLUMN)}
    return found | {"history": past}


def to_pandas(solution: Solution, system: System) -> Any:
    """`as_table` as a pandas.DataFrame whose index is the time."""
    try:
        import pandas
    except ModuleNotFoundError:
        raise ProblemError("to_pandas: pandas is not installed, `pip install pandas`; to_dict has the arrays") from None
    return pandas.DataFrame(as_table(solution, system)).set_index("time")


def torques(system: System, X: Array, U: Array) -> Columns:
    """Forces and torques (N, nv) of a robot's actuators by the names of the joints' velocities [N, N m]."""
    applied = getattr(system, "torques", None)
    if applied is None:
        raise ProblemError(f"tau: expected the solution of a robot's problem, got one of {type(system).__name__}")
    return Columns(names(system)[1], applied(X[:-1], U))

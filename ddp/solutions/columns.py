"""Numbers of a solution by the names of its system: mappings, tables and files of other programs; and its own file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ddp.archive import read, refuse
from ddp.costs.batch import durations_of
from ddp.errors import ProblemError, as_array, choice
from ddp.feedback.policy import names
from ddp.files import as_path, shown, write_table
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solutions.status import Ending, Record, Status
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


def memory(system: System, X: Array) -> Columns:
    """Numbers that compositions keep beside positions and velocities, by their names; no column of other systems."""
    labels, rates, _ = names(system)
    kept: list[str] = getattr(system, "named_memory", []) if rates else []
    return Columns(kept, X[:, len(labels) + len(rates) :])


def controls(system: System, U: Array) -> Columns:
    """Controls by the names of what they drive."""
    return Columns(names(system)[2], U)


def as_table(system: System, t: Array, X: Array, U: Array) -> dict[str, Array]:
    """Time, positions, velocities and controls by the headings of a table; controls of the last state are NaN.

    t (N+1,) [s], X (N+1, nx), U (N, nu): of a motion of the system.
    """
    q, v, u = positions(system, X), velocities(system, X), controls(system, U)
    last = np.concatenate([np.asarray(u), np.full((1, len(u)), np.nan)])
    s = memory(system, X)
    headings = ["time", *q, *(f"rate of {name}" for name in v), *s, *(f"control {name}" for name in u)]
    if twice := [name for i, name in enumerate(headings) if name in headings[:i]]:
        raise ProblemError(f"dynamics: expected a column for each name, got {twice[0]!r} twice; rename that joint")
    columns = t[:, None], np.asarray(q), np.asarray(v), np.asarray(s), last
    return dict(zip(headings, np.hstack(columns).T, strict=True))


def to_csv(table: Mapping[str, Array], path: str | os.PathLike[str]) -> Path:
    """Write `as_table` with a header; numbers read back as they were, and nothing stands where there is no control."""
    target = as_path(path)
    if target.suffix != ".csv":
        raise ProblemError(f"path: expected a file whose name ends with .csv, got {shown(target)}")
    return write_table(target, table, zip(*(column.tolist() for column in table.values()), strict=True))


def named_motion(system: System, t: Array, X: Array, U: Array) -> dict[str, Any]:
    """Time, and positions, velocities, what compositions keep and controls of a motion, each by names of its own."""
    parts = positions(system, X), velocities(system, X), memory(system, X), controls(system, U)
    return {"time": t} | {what: dict(part) for what, part in zip("qvsu", parts, strict=True) if part or what != "s"}


def to_dict(solution: Solution, system: System) -> dict[str, Any]:
    """Trajectory, outcome and history as arrays, numbers and texts by name."""
    found = named_motion(system, times(system, len(solution.U)), solution.X, solution.U)
    outcome = "cost", "gradient", "violation", "converged", "kind", "iterations", "seconds"
    found |= {name: getattr(solution, name) for name in outcome} | {"status": str(solution.status)}
    past = {name.removeprefix(COLUMN): rows for name, rows in solution.arrays().items() if name.startswith(COLUMN)}
    return found | {"history": past}


def to_pandas(table: Mapping[str, Any], without: str = "to_dict has the arrays", index: str = "time") -> Any:
    """A pandas.DataFrame of columns, of which one may be the index; ProblemError, with what does ``without``."""
    try:
        import pandas
    except ModuleNotFoundError:
        raise ProblemError(f"to_pandas: pandas is not installed, `pip install pandas`; {without}") from None
    made = pandas.DataFrame(table)
    return made.set_index(index) if index in made else made.rename_axis(index)


def torques(system: System, X: Array, U: Array) -> Columns:
    """Forces and torques (N, nv) of a robot's actuators by the names of the joints' velocities [N, N m]."""
    applied = getattr(system, "torques", None)
    if applied is None:
        raise ProblemError(f"tau: expected the solution of a robot's problem, got one of {type(system).__name__}")
    return Columns(names(system)[1], applied(X[:-1], U))


FORMAT = "mayne solution"
VERSION = 2
"""Version of the format of files; see _ADDED for what a `Solution` has gained since."""

LONGEST_HISTORY = 1_000_000
"""Iterations of a file, at most."""

CLOSED, FOLLOWING = 1e-9, 1e-6
"""Gaps below this count as closed; steps of two machines may differ by so much, relative to the largest of a state."""

SAME, NEAR, SINGLE = 1e-6, 1e-12, 1e-6
"""Distance that costs of one trajectory may have, relative to the sum of the sizes of its knots' costs, and how far
rounding may have moved the trajectory, relative to its largest entry: of costs that are almost zero, that decides.
SINGLE: of trajectories that were kept in single precision."""

_KINDS = {"hessian": "U1", "contraction": "U1", "full_space": "b1"}
"""Fields of a record that are no numbers, with the kind of a column of them."""

_SAVED = {"X": "f2", "U": "f2", "k": "f2", "K": "f3", "cost": "f0", "gradient": "f0", "converged": "b0"}
_SAVED |= {"status": "U0", "kind": "U0", "iterations": "i0", "seconds": "f0", "setup_seconds": "f0"}
_SAVED |= {"multipliers": "f1", "penalties": "f1", "violation": "f0"}
_FIELDS = (*_SAVED,)
_SAVED |= {"ending": "U0"}
_SAVED |= {COLUMN + name: _KINDS.get(name, "f1") for name in Record._fields}
"""Contents of a file: the kind and the rank of every array."""


_ADDED = {"kind", "setup_seconds", "ending", COLUMN + "full_space"}
"""Arrays that files of this version may lack, since a `Solution` has gained them later, with their defaults."""


def arrays(solution: Solution) -> dict[str, np.ndarray]:
    """Arrays of a file, by name."""
    content = {"format": np.array(FORMAT), "version": np.array(VERSION)}
    content |= {name: np.asarray(getattr(solution, name)) for name in _FIELDS}
    content["ending"] = np.array(solution.status.ending.name)
    for i, name in enumerate(Record._fields):
        rows = [record[i] for record in solution.history]
        content[COLUMN + name] = np.array(rows, {"U": str, "b": bool, "f": float}[_SAVED[COLUMN + name][0]])
    return content


def fields(path: Path, problem: Problem | None) -> dict[str, Any]:
    """All fields of a saved solution but its problem, of a problem's sizes if it is given."""
    content = _read(path, {} if problem is None else shapes(problem))
    content.setdefault(COLUMN + "full_space", np.zeros(len(content[COLUMN + "cost"]), bool))
    past = [content.pop(COLUMN + name).tolist() for name in Record._fields]  # of one among many, nothing
    refuse(path, [] if len({*map(len, past)}) == 1 else ["history"])
    values: dict[str, Any] = {name: value if value.ndim else value.item() for name, value in content.items()}
    values["history"] = tuple(Record(*row) for row in zip(*past, strict=True))
    ending = values.pop("ending", "CONVERGED" if values["converged"] else "UNKNOWN")
    refuse(path, [] if ending in Ending.__members__ else ["ending"])
    values["status"] = Status(values["status"], Ending[ending])
    return values


def shapes(problem: Problem) -> dict[str, tuple[int, ...]]:
    """The shapes of a solution's arrays."""
    N, d = problem.horizon, problem.dynamics
    return {
        "X": (N + 1, d.nx), "U": (N, d.nu), "k": (N, d.nu), "K": (N, d.nu, d.n),
        "multipliers": (problem.multiplier_count,), "penalties": (len(problem.placed),),
    }  # fmt: skip


def _read(path: Path, shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """The arrays of a solution file, checked as far as that goes without a problem."""
    signs = read(path, {"format": "U0", "version": "i0", "iterations": "i0"})
    if "format" not in signs or signs["format"].item() != FORMAT:  # str() of arrays loses Ctrl-C
        raise ProblemError(f"path: {shown(path)} is not a solution file")
    if (version := int(signs.get("version", 0))) != VERSION:
        raise ProblemError(f"path: {shown(path)} has version {version} of the format, expected {VERSION}")
    states = read(path, {"X": _SAVED["X"]}, shapes)
    iterations, knots = int(signs.get("iterations", 0)), len(states.get("X", ())) - 1
    refuse(path, [] if 0 <= iterations <= LONGEST_HISTORY else ["iterations"])
    lengths = {name: (iterations, 0) for name in _SAVED if name.startswith(COLUMN)} | dict.fromkeys("UkK", (knots,))
    content = read(path, _SAVED, shapes, lengths)
    if missing := _SAVED.keys() - _ADDED - content.keys():
        raise ProblemError(f"path: {shown(path)} lacks {', '.join(sorted(missing))}")
    refuse(path, [name for name in "kK" if content[name].shape[1] != content["U"].shape[1]])
    if content["converged"]:
        numbers = [name for name, kind in _SAVED.items() if kind[0] == "f" and name != "seconds"]
        refuse(path, [name for name in numbers if name in content and not np.isfinite(content[name]).all()])
    return content


def check_belongs(what: str, solution: Solution, problem: Problem) -> None:
    """Raise ProblemError, which ``what`` begins, unless initial state, cost and motion are those of the problem."""
    if not np.isfinite(solution.X).all():
        return
    as_array("X", solution.X, solution.X.shape)
    near = _rounding(solution)
    size, n = near * np.abs(solution.X).max(), problem.dynamics.n
    nearby = np.array(problem.dynamics.integrate(solution.X, np.full((len(solution.X), n), size)))
    moved = nearby, solution.U + near * np.abs(solution.U).max()
    if not np.allclose(solution.X[0], problem.x0, rtol=0.0, atol=max(1e-9, near * np.abs(solution.X).max())):
        raise ProblemError(f"{what}: it starts at {solution.X[0]}, x0 is {problem.x0}")
    if not np.isfinite(solution.cost):
        return
    cost = problem.cost(solution.X, solution.U)
    if abs(cost - solution.cost) > _accuracy(problem, solution, *moved):
        raise ProblemError(f"{what}: its trajectory costs {cost:.6g} here, {solution.cost:.6g} there")
    beyond = np.maximum(problem.lower - solution.U, solution.U - problem.upper).max()
    violated = problem.violation(solution.X, solution.U)
    violation = max(violated, beyond)
    rounded = np.nan_to_num(abs(problem.violation(*moved) - violated)) + near * np.abs(solution.U).max()
    if violation > solution.violation + SAME * (1.0 + solution.violation) + rounded:
        raise ProblemError(
            f"{what}: its trajectory violates constraints or limits by "
            f"{violation:.3g} here, {solution.violation:.3g} there"
        )
    if solution.converged and solution.history and solution.history[-1].gap < CLOSED:  # else gaps may be open
        X, d = solution.X, problem.dynamics
        away = np.abs(d.difference(X[1:], d.step(X[:-1], solution.U))).max(axis=1)
        if away.max() > FOLLOWING * (1.0 + np.abs(X).max()):
            knot = int(np.argmax(away))
            raise ProblemError(
                f"{what}: its states do not follow from its controls here, that of knot {knot + 1} by {away[knot]:.3g}"
            )


def _rounding(solution: Solution) -> float:
    """Distance by which rounding may have moved a trajectory, relative to its largest entry."""
    with np.errstate(all="ignore"):
        single = all(np.array_equal(each, each.astype(np.float32)) for each in (solution.X, solution.U))
    return SINGLE if single else NEAR


def _accuracy(problem: Problem, solution: Solution, *nearby: Array) -> float:
    """The most that costs of one trajectory, and of one nearby, may differ between two machines."""
    values, moved = problem.values(solution.X, solution.U), problem.values(*nearby)
    return float(SAME * np.abs(values).sum() + np.nan_to_num(np.abs(moved - values), posinf=0.0).sum())

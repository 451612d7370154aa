"""Solutions as files: one .npz of arrays, checked as it is read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ddp.archive import read, refuse
from ddp.errors import ProblemError, as_array
from ddp.files import shown
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solutions.columns import COLUMN
from ddp.solutions.status import Ending, Record, Status

if TYPE_CHECKING:
    from ddp.solutions.solution import Solution

FORMAT = "mayne solution"
VERSION = 2
"""Version of the format of files; see _ADDED for what a `Solution` has gained since."""

LONGEST_HISTORY = 1_000_000
"""Iterations of a file, at most."""

CLOSED, FOLLOWING = 1e-9, 1e-6
"""Gaps below this count as closed; steps of two machines may differ by so much, relative to the largest of a state."""

SAME, NEAR = 1e-6, 1e-12
"""Distance that costs of one trajectory may have, relative to the sum of the sizes of its knots' costs, and how far
rounding may have moved the trajectory, relative to its largest entry: of costs that are almost zero, that decides."""

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
    content.setdefault(COLUMN + "full_space", np.zeros(int(content["iterations"]), bool))
    past = [content.pop(COLUMN + name).tolist() for name in Record._fields]
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
    lengths = {name: iterations for name in _SAVED if name.startswith(COLUMN)} | dict.fromkeys("UkK", knots)
    content = read(path, _SAVED, shapes, lengths)
    if missing := _SAVED.keys() - _ADDED - content.keys():
        raise ProblemError(f"path: {shown(path)} lacks {', '.join(sorted(missing))}")
    refuse(path, [name for name in "kK" if content[name].shape[1] != content["U"].shape[1]])
    if content["converged"]:
        numbers = [name for name, kind in _SAVED.items() if kind[0] == "f"]
        refuse(path, [name for name in numbers if name in content and not np.isfinite(content[name]).all()])
    return content


def check_belongs(path: Path, solution: Solution, problem: Problem) -> None:
    """Raise ProblemError unless the initial state, the cost and the motion are those of the problem."""
    if not np.isfinite(solution.X).all():
        return
    as_array("X", solution.X, solution.X.shape)
    if not np.allclose(solution.X[0], problem.x0, rtol=0.0, atol=1e-9):
        raise ProblemError(
            f"path: {shown(path)} is of another problem: it starts at {solution.X[0]}, x0 is {problem.x0}"
        )
    if not np.isfinite(solution.cost):
        return
    cost = problem.cost(solution.X, solution.U)
    if abs(cost - solution.cost) > _accuracy(problem, solution.X, solution.U):
        raise ProblemError(
            f"path: {shown(path)} is of another problem: "
            f"its trajectory costs {cost:.6g} here, {solution.cost:.6g} there"
        )
    beyond = np.maximum(problem.lower - solution.U, solution.U - problem.upper).max()
    violation = max(problem.violation(solution.X, solution.U), beyond)
    if violation > solution.violation + SAME * (1.0 + solution.violation):
        raise ProblemError(
            f"path: {shown(path)} is of another problem: its trajectory violates constraints or limits by "
            f"{violation:.3g} here, {solution.violation:.3g} there"
        )
    if solution.converged and solution.history and solution.history[-1].gap < CLOSED:  # else gaps may be open
        X, d = solution.X, problem.dynamics
        away = np.abs(d.difference(X[1:], d.step(X[:-1], solution.U))).max(axis=1)
        if away.max() > FOLLOWING * (1.0 + np.abs(X).max()):
            knot = int(np.argmax(away))
            raise ProblemError(
                f"path: {shown(path)} is of another problem: its states do not follow from its controls here, that of"
                f" knot {knot + 1} by {away[knot]:.3g}"
            )


def _accuracy(problem: Problem, X: Array, U: Array) -> float:
    """The most that costs of one trajectory may differ between two machines."""
    values = problem.values(X, U)
    moved = problem.values(X + NEAR * np.abs(X).max(), U + NEAR * np.abs(U).max())
    return float(SAME * np.abs(values).sum() + np.nan_to_num(np.abs(moved - values), posinf=0.0).sum())

"""Solves that go on from a file after whatever ended their process.

A solve with a checkpoint is made of legs of iterations. After each, its solution is written, and the next leg begins
from what was written alone: a solve that is ended and goes on has the result, to the last bit, of one that is not. A
leg begins with a new model of the Hessian, which costs an iteration or two.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ddp.archive import read, write
from ddp.errors import ProblemError, said
from ddp.files import as_path, as_target, shown
from ddp.guesses import Start
from ddp.many.identity import difference, identity_of
from ddp.problem import Problem
from ddp.solutions.solution import Solution
from ddp.solutions.status import Ending
from ddp.starts import CLOSED

LEG = 20
"""Iterations of a leg. With constraints each is as long as all before it together: their multipliers settle first."""


@dataclass(frozen=True)
class Checkpoint:
    """File that a solve writes and goes on from.

    path: of a .npz file.   notes: texts that it also keeps, by names of their own.
    """

    path: str | os.PathLike[str]
    notes: Mapping[str, str | Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        as_path(self.path, "path")
        if not isinstance(self.notes, Mapping) or not all(_is_note(*note) for note in self.notes.items()):
            raise ProblemError(f"notes: expected texts by names, got {said(self.notes)}")


def _is_note(name: object, text: object) -> bool:
    """Whether a name and what it stands for are texts."""
    texts = [text] if isinstance(text, str) else text
    return isinstance(name, str) and isinstance(texts, (list, tuple)) and all(isinstance(one, str) for one in texts)


class Kept:
    """A checkpoint of one problem and solver."""

    def __init__(self, checkpoint: Checkpoint | str | os.PathLike[str], problem: Problem, solver: object) -> None:
        given = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(as_path(checkpoint, "checkpoint"))
        self._path, self._notes, self._problem = as_target(given.path, (), "checkpoint"), given.notes, problem
        self._identity = identity_of(problem, solver)

    def load(self) -> Solution | None:
        """The solution so far, None if there is no file yet.

        Raises ProblemError for a file that is no checkpoint, or of another problem or solver.
        """
        if not self._path.exists():
            return None
        try:
            found = read(self._path, {"parts": "U1", "digests": "U1"})
        except ProblemError:
            found = {}
        if not found.keys() >= {"parts", "digests"} or found["parts"].shape != found["digests"].shape:
            raise ProblemError(f"checkpoint: {shown(self._path)} is not one, or is damaged; give another name")
        there = dict(zip(found["parts"].tolist(), found["digests"].tolist(), strict=True))
        if told := difference(self._identity, there):
            raise ProblemError(f"checkpoint: {shown(self._path)} is of another solve, which differs in {told}")
        return Solution.load(self._path, self._problem)

    def save(self, solution: Solution) -> None:
        """Write a solution, completely or not at all."""
        own = {"parts": np.array([*self._identity]), "digests": np.array([*self._identity.values()])}
        write(self._path, solution.arrays() | own | {name: np.array(text) for name, text in self._notes.items()})

    def goes_on(self, so_far: Solution, limit: int) -> bool:
        """Whether there is something left to do within a limit of iterations."""
        return so_far.status.ending is Ending.ITERATIONS and so_far.iterations < limit

    def leg(self, so_far: Solution | None, limit: int) -> int:
        """The iteration at which the next leg ends."""
        done = 0 if so_far is None else so_far.iterations
        return min(limit, done + (max(LEG, done) if self._problem.constrained else LEG))


def beginning(so_far: Solution) -> Start:
    """The guess that goes on from a solution: itself, or where gaps are open its states and controls."""
    return so_far if so_far.gap() < CLOSED else (so_far.X, so_far.U)


def together(so_far: Solution | None, leg: Solution) -> Solution:
    """A leg's solution with the times of those before."""
    if so_far is None:
        return leg
    spent = so_far.seconds + leg.seconds, so_far.setup_seconds + leg.setup_seconds
    return replace(leg, seconds=spent[0], setup_seconds=spent[1], start=so_far.start or leg.start)

"""Solves that go on from a file after whatever ended their process.

A solve with a checkpoint has the result, to the last bit, of one that was not ended. Full-space steps on a problem with
constraints write where they stand, now and then, and go on from there. Any other solve is made of legs of iterations:
after each its solution is written, and the next leg begins from what was written alone, with a new model of the
Hessian, which costs an iteration or two.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ddp.archive import read, write
from ddp.compiling.setup import Stopwatch
from ddp.errors import ProblemError, said
from ddp.files import as_path, as_target, shown
from ddp.guesses import Start
from ddp.interior.method import STANDING_NUMBERS, Interior, standing_of
from ddp.many.identity import difference, identity_of
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solutions.solution import Solution
from ddp.solutions.status import Ending, Record, Status
from ddp.starts import CLOSED

LEG = 20
"""Iterations of a leg, and between two times that full-space steps write where they stand. With constraints that are
held in another way each leg is as long as all before it together: their multipliers settle first."""

STANDING, KINDS = "standing_", {
    **dict.fromkeys(("X", "U", "opened", "costate", "weights", "rows", "give", "held", "k"), "f2"), "K": "f3",
    **dict.fromkeys(("hard", "residual", "numbers", "course", "thetas", "phis", "factors"), "f1"),
}  # fmt: skip
"""Arrays of where a solve stands, see `ddp.interior.method`: begin of their names, and their kinds."""


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
        self.standing: dict[str, Array] | None = None  # the last place where full-space steps stood

    def load(self) -> Solution | None:
        """The solution so far, None if there is no file yet.

        Raises ProblemError for a file that is no checkpoint, or of another problem, solver or version.
        """
        if not self._path.exists():
            return None
        try:
            stands = {STANDING + name: kind for name, kind in KINDS.items()}
            found = read(self._path, {"parts": "U1", "digests": "U1"} | stands)
        except ProblemError:
            found = {}
        if not found.keys() >= {"parts", "digests"} or found["parts"].shape != found["digests"].shape:
            raise ProblemError(f"checkpoint: {shown(self._path)} is not one, or is damaged; give another name")
        there = dict(zip(found["parts"].tolist(), found["digests"].tolist(), strict=True))
        if told := difference(self._identity, there):
            raise ProblemError(f"checkpoint: {shown(self._path)} is of another solve, which differs in {told}")
        standing = {name: found[STANDING + name] for name in KINDS if STANDING + name in found}
        if standing and len(standing["numbers"]) != STANDING_NUMBERS:
            raise ProblemError(f"checkpoint: {shown(self._path)} is of another version of mayne; give another name")
        self.standing = standing or None
        return Solution.load(self._path, self._problem)

    def save(self, solution: Solution) -> None:
        """Write a solution, and where its solve stands or stood, completely or not at all."""
        own = {"parts": np.array([*self._identity]), "digests": np.array([*self._identity.values()])}
        if self.standing is not None and solution.status.ending is Ending.ITERATIONS:
            own |= {STANDING + name: array for name, array in self.standing.items()}
        write(self._path, solution.arrays() | own | {name: np.array(text) for name, text in self._notes.items()})

    def goes_on(self, so_far: Solution, limit: int) -> bool:
        """Whether there is something left to do within a limit of iterations."""
        return so_far.status.ending is Ending.ITERATIONS and so_far.iterations < limit

    def leg(self, so_far: Solution | None, limit: int) -> int:
        """The iteration at which the next leg ends."""
        done = 0 if so_far is None else so_far.iterations
        return min(limit, done + (max(LEG, done) if self._problem.constrained else LEG))


class Standing:
    """Keeper of where full-space steps stand, of a solve that goes on from a solution so far, or None."""

    def __init__(self, kept: Kept, so_far: Solution | None, start: Stopwatch) -> None:
        self._kept, self._so_far, self._start, self.standing = kept, so_far, start, kept.standing
        self._saved = 0 if so_far is None else so_far.iterations

    def keep(self, interior: Interior) -> None:
        """Remember where it stands, and write it after each leg."""
        point, done = interior.point, len(interior.history)
        self._kept.standing = standing_of(interior)
        if done < self._saved + LEG:
            return
        self._saved, X, U, problem = done, point.X.copy(), point.U.copy(), point.problem
        zeros = np.zeros((*U.shape, point.problem.dynamics.n))
        stood = Solution(
            X=X, U=U, k=zeros[:, :, 0], K=zeros, cost=problem.cost(X, U), gradient=interior.history[-1].gradient,
            converged=False, status=Status(f"not converged after {done} iterations, and going on", Ending.ITERATIONS),
            iterations=done, seconds=self._start.seconds, setup_seconds=self._start.setup_seconds,
            history=tuple(interior.history), problem=problem, multipliers=point.multipliers,
            penalties=np.zeros(len(problem.placed)), violation=problem.violation(X, U),
        )  # fmt: skip
        self._kept.save(together(self._so_far, stood))


def past(kept: Kept, so_far: Solution) -> list[Record]:
    """Records of iterations that are not made again."""
    return [*so_far.history[: so_far.iterations if kept.standing is None else int(kept.standing["numbers"][-1])]]


def beginning(so_far: Solution) -> Start:
    """The guess that goes on from a solution: itself, or where gaps are open its states and controls."""
    return so_far if so_far.gap() < CLOSED else (so_far.X, so_far.U)


def together(so_far: Solution | None, leg: Solution) -> Solution:
    """A leg's solution with the times of those before."""
    if so_far is None:
        return leg
    spent = so_far.seconds + leg.seconds, so_far.setup_seconds + leg.setup_seconds
    return replace(leg, seconds=spent[0], setup_seconds=spent[1], start=so_far.start or leg.start)

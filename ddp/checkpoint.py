"""Solves that go on from a file after whatever ended their process.

A solve with a checkpoint has the result, to the last bit, of one without. What it has come to is kept in a journal: the
guess, how attempts and stretches of iterations have ended, and where the last one stands. A solve that goes on makes
all its decisions anew, but takes from there what iterations came to. Where the model of the Hessian is one of a user's
own, which keeps to itself where it stands, it begins anew.

That holds for any limit of iterations, too. Some rules ask how many iterations are left: what follows from a no is of
this limit alone and is not kept, so that a solve with a larger one goes on from before and makes these anew.
"""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ddp.archive import read, write
from ddp.compiling.setup import Stopwatch
from ddp.descent_state import resume, state_of
from ddp.errors import ProblemError, said
from ddp.files import as_path, as_target, shown
from ddp.guesses import Followed, Motion, Start, as_guess
from ddp.many.identity import difference, identity_of
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solutions.solution import Solution
from ddp.solutions.status import End, Ending, Record, Status

if TYPE_CHECKING:
    from ddp.descent import Descent
    from ddp.options import DDP

T = TypeVar("T")

LEG = 20
"""Iterations between two times that a file is written."""

VERSION = 4
"""Version of what a journal keeps, and of what iterations make of it: another one goes on to another result."""


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


class Journal:
    """Journal of a solve of one problem and solver, in a file.

    entries: each its name, the iterations done by then, the least limit of iterations with which it would be the same,
    and arrays of its own; the last one may be where it stands.
    limit: of iterations, beyond which nothing is kept that a larger one would change; stopped: nor from now on.
    needs: the least limit with which all that was made would be the same, see `asked`.   so_far: of the file, if any.
    records: as they were made, those of a start that is not kept, too; last: the last one that was, see `went_back` of
    `Descent`, which changes it.
    """

    def __init__(
        self, checkpoint: Checkpoint | str | os.PathLike[str], problem: Problem, solver: "DDP", start: Stopwatch
    ) -> None:
        given = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(as_path(checkpoint, "checkpoint"))
        self._path, self._notes, self._problem = as_target(given.path, (), "checkpoint"), given.notes, problem
        self._identity = identity_of(problem, replace(solver, max_iterations=1))  # however many there may be
        self._limit, self._keeps, self._start = solver.max_iterations, not callable(solver.hessian), start
        self._entries: list[list[Array]] = []
        self._state: list[list[Array]] = []
        self._at, self._needs, self._stopped = 0, 0, False
        self._records, self._last = list[Record](), np.zeros(0)
        self.so_far = self._load()
        self._saved = int(self._entries[-1][1][0]) if self._entries else 0

    def _load(self) -> Solution | None:
        """The solution so far, None if there is no file yet.

        Raises ProblemError for a file that is no checkpoint, or of another problem, solver or version.
        """
        if not self._path.exists():
            return None
        try:
            own = {"journal": "f1", "journal_version": "i0", "journal_begins": "i0"}
            own |= {"journal_last": "f1", "journal_limit": "i0"}
            found = read(self._path, {"parts": "U1", "digests": "U1"} | own)
        except ProblemError:
            found = {}
        if not found.keys() >= {"parts", "digests"} or found["parts"].shape != found["digests"].shape:
            raise ProblemError(f"checkpoint: {shown(self._path)} is not one, or is damaged; give another name")
        there = dict(zip(found["parts"].tolist(), found["digests"].tolist(), strict=True))
        if told := difference(self._identity, there):
            raise ProblemError(f"checkpoint: {shown(self._path)} is of another solve, which differs in {told}")
        so_far = Solution.load(self._path, self._problem)
        begins = int(found.get("journal_begins", 0))
        self._records = [*so_far.history[begins:], *so_far.history[:begins]]
        ended = so_far.status.ending is not Ending.ITERATIONS
        if ended and ("journal" not in found or found.get("journal_limit", 0) == self._limit):
            return so_far
        if found.get("journal_version", 0) != VERSION or "journal" not in found:
            raise ProblemError(f"checkpoint: {shown(self._path)} is of another version of mayne; give another name")
        try:
            entries = [_unpacked(entry) for entry in _unpacked(found["journal"])]
            self._entries = [*takewhile(lambda entry: entry[1][1] <= self._limit, entries)]
            if self._records:
                cost, gap = found["journal_last"].tolist()
                self._records[-1] = self._records[-1]._replace(cost=cost, gap=gap)
        except (ValueError, OverflowError, IndexError, KeyError):
            raise ProblemError(f"checkpoint: {shown(self._path)} is damaged; give another name") from None
        return so_far

    def save(self, solution: Solution, made: Sequence[Record]) -> Solution:
        """Write a solution, and what a solve that may go on does so from; with the times of those before.

        made: records as they were made. The history of a solution may begin with those of a start that is not kept.
        """
        before = (0.0, 0.0) if self.so_far is None else (self.so_far.seconds, self.so_far.setup_seconds)
        times = before[0] + self._start.seconds, before[1] + self._start.setup_seconds
        solution = replace(solution, seconds=times[0], setup_seconds=times[1])
        own = {"parts": np.array([*self._identity]), "digests": np.array([*self._identity.values()])}
        if solution.status.ending is Ending.ITERATIONS or solution.iterations >= self._limit or self._stopped:
            entries = [*self._entries[: self._at], *self._state]
            begins = next((i for i, record in enumerate(solution.history) if record is made[0]), 0)
            own |= {"journal": _packed([_packed(entry) for entry in entries])}
            own |= {"journal_version": np.array(VERSION), "journal_begins": np.array(begins)}
            own |= {"journal_last": self._last, "journal_limit": np.array(self._limit)}
        write(self._path, solution.arrays() | own | {name: np.array(text) for name, text in self._notes.items()})
        return solution

    def ended(self) -> bool:
        """Whether there is nothing left to do within the limit of iterations."""
        found = self.so_far
        return found is not None and (not self._entries or found.iterations >= self._limit)

    def knows(self, history: list[Record]) -> bool:
        """Note that the last iteration of a history is made; whether it was made, and shown, before."""
        made, known = history[-1], self._records[len(history) - 1 : len(history)]
        self._last = np.array([made.cost, made.gap])
        return any(repr(one._replace(seconds=made.seconds)) == repr(made) for one in known)

    def asked(self, needed: int, limit: int) -> None:
        """Note that a rule has asked whether a limit allows for so many iterations; a no may not be kept."""
        if needed <= limit:
            self._needs = max(self._needs, needed)
        elif limit >= self._limit:  # else it is of an attempt, whatever that of the solve
            self._stopped = True

    def guess(self, given: Start) -> Start:
        """The guess of the first time."""
        if (known := self._next("guess", [])) is None:
            self._add(0, "guess", [], [*_parts(as_guess(given, self._problem.dynamics, self._problem.horizon))])
            return given
        if len(known) < 3:
            return (known[0], known[1]) if len(known) == 2 else known[0] if known else None
        X, U, K, *held = known
        if not held:
            return Motion(X, U, K)
        nan, ended = float("nan"), Status("")
        return Solution(X, U, np.zeros_like(U), K, nan, nan, False, ended, 0, 0.0, (), None, held[0], held[1])

    def stretch(self, name: str, descent: "Descent", make: Callable[[], T]) -> T | End:
        """End of a stretch of iterations that is known, after which the descent stands where it did, or is made."""
        at, history = self._at, descent.history
        if (known := self._next(name, history)) is not None:
            letters, *state = known
            resume(descent, state)
            ending, _, said = _text(letters).partition(": ")
            none: Any = None
            return End(Ending[ending], said) if ending else none
        end = make()
        if self._keeps:
            told = f"{end.ending.name}: {end.said}" if isinstance(end, End) else ""
            self._add(at, name, history, [_letters(told), *state_of(descent)])
        return end

    def attempt(self, history: list[Record], make: Callable[[], Solution]) -> Solution:
        """Outcome of an attempt that is known, or is made."""
        at = self._at
        if (known := self._next("attempt", history)) is not None:
            letters, (cost, gradient, violation, seconds, setup), X, U, k, K, multipliers, penalties = known
            ending, kind, start, workers, status = _text(letters).split("\0", 4)
            return Solution(
                X, U, k, K, float(cost), float(gradient), Ending[ending].converged, Status(status, Ending[ending]),
                len(history), float(seconds), tuple(history), self._problem, multipliers, penalties, float(violation),
                workers, start, kind, float(setup),
            )  # fmt: skip
        s = make()
        told = "\0".join((s.status.ending.name, s.kind, s.start, s.workers, s.status))
        numbers = np.array([s.cost, s.gradient, s.violation, s.seconds, s.setup_seconds])
        self._add(at, "attempt", history, [_letters(told), numbers, s.X, s.U, s.k, s.K, s.multipliers, s.penalties])
        return s

    def is_due(self, history: list[Record]) -> bool:
        """Whether it is time to keep where a solve stands."""
        done = len(history)
        return self._keeps and not self._stopped and (done >= self._saved + LEG or done >= self._limit)

    def keep(self, name: str, history: list[Record], state: list[Array], X: Array, U: Array, *held: Array) -> None:
        """Keep where a solve stands, at (X, U), if multipliers are known with these, and write it."""
        problem, done = self._problem, len(history)
        self._state = [[_letters(name + STATE), np.array([float(done), self._needs]), *state]]
        self._stopped = done >= self._limit
        if self._stopped:
            return
        self._saved, zeros = done, np.zeros((*U.shape, problem.dynamics.n))
        self.save(Solution(
            X=X.copy(), U=U.copy(), k=zeros[:, :, 0], K=zeros, cost=problem.cost(X, U),
            gradient=history[-1].gradient, converged=False, iterations=done, history=tuple(history), problem=problem,
            status=Status(f"not converged after {done} iterations, and going on", Ending.ITERATIONS), seconds=0.0,
            multipliers=held[0] if held else np.zeros(problem.multiplier_count), violation=problem.violation(X, U),
            penalties=np.zeros(len(problem.placed)),
        ), history)  # fmt: skip

    def has_state(self, name: str) -> bool:
        """Whether a solve goes on from where steps of that name stood."""
        return self._at < len(self._entries) and _text(self._entries[self._at][0]) == name + STATE

    def state(self, name: str, history: list[Record]) -> list[Array] | None:
        """Place where steps of that name stood, if a solve goes on from there; once."""
        self._state = self._entries[self._at :] if self.has_state(name) else self._state
        found = self._next(name + STATE, history)
        if found is not None:
            self._at -= 1
            del self._entries[self._at :]
        return found

    def _next(self, name: str, history: list[Record]) -> list[Array] | None:
        """The next entry, if it has that name."""
        if self._at == len(self._entries) or _text(self._entries[self._at][0]) != name:
            return None
        _, (done, needs), *found = self._entries[self._at]
        self._at, self._needs = self._at + 1, max(self._needs, int(needs))
        history[:] = self._records[: int(done)]
        self._last = np.array([(record.cost, record.gap) for record in history[-1:]]).ravel()
        return found

    def _add(self, at: int, name: str, history: list[Record], arrays: list[Array]) -> None:
        """Add an entry in place of those that it was made of."""
        self._stopped = self._stopped or len(history) >= self._limit
        if not self._stopped:
            self._entries[at:] = [[_letters(name), np.array([float(len(history)), self._needs]), *arrays]]
            self._at, self._state = at + 1, []


STATE = " stands"
"""End of the names of entries that tell where a solve stands."""


def _parts(guess: Start) -> Sequence[Any]:
    """Arrays that a guess is made of."""
    if guess is None or isinstance(guess, tuple):
        return guess or ()
    if not isinstance(guess, Followed):
        return (guess,)
    held = (guess.multipliers, guess.penalties) if isinstance(guess, Solution) else ()
    return guess.X, guess.U, guess.K, *held


def _letters(text: str) -> Array:
    return np.array([float(ord(letter)) for letter in text])


def _text(letters: Array) -> str:
    return "".join(chr(int(letter)) for letter in letters)


def _packed(arrays: Sequence[Array]) -> Array:
    """Arrays as one of numbers: each as its rank, its shape and its entries."""
    return np.concatenate([np.zeros(0), *(np.r_[one.ndim, one.shape, one.ravel()] for one in arrays)])


def _unpacked(packed: Array) -> list[Array]:
    """Arrays of `_packed`; ValueError or OverflowError if these are none."""
    arrays, at = [], 0
    while at < len(packed):
        rank = int(packed[at])
        shape = tuple(packed[at + 1 : at + 1 + rank].astype(int).tolist())
        if rank < 0 or min(shape, default=0) < 0:
            raise ValueError(f"no shape of an array: {shape}")
        at += 1 + rank
        arrays.append(packed[at : at + math.prod(shape)].reshape(shape).copy())
        at += math.prod(shape)
    return arrays

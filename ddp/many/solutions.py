"""Solutions of many problems, in the order of what varied: in memory, or in a store."""

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp.errors import ProblemError, integer, said
from ddp.files import as_path
from ddp.many.identity import difference, identity_of
from ddp.many.plan import points_of
from ddp.many.rows import ARRAYS, SCALARS, STARTS, Source, as_texts, solution_of
from ddp.many.store import TEXTS, Kept, attribute, opened, reading, waiting
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solutions.columns import to_pandas
from ddp.solutions.solution import Solution

ALIKE = 1e-5
"""Root mean square difference of states, relative to their largest number, up to which solutions are the same."""
JUMP = 5.0
"""Distance of two solutions for the distance of their samples, in units of the median, from which it is a jump."""


def _differing(problem: Problem, there: Mapping[str, str], free: Iterable[str] = ()) -> str:
    """Names of the parts of a problem that differ from those of a store, but for some; other solvers are no other."""
    here, left = identity_of(problem, None), {"solver", *free}
    return difference(*({name: one for name, one in parts.items() if name not in left} for parts in (here, there)))


class Failure(NamedTuple):
    """A sample without a solution, or with one that has not converged.

    sample: which one.   status: why, in words.   trajectory: whether there is one at all.
    """

    sample: int
    status: str
    trajectory: bool


class Edge(NamedTuple):
    """Two neighbours whose solutions are further apart than the samples let expect.

    parent, child: indices of the samples, -1 of the problem itself.   moved: rms of X_child ⊖ X_parent.
    ratio: how many times as far, for the distance of the samples, as the median of all edges.
    """

    parent: int
    child: int
    moved: float
    ratio: float


TABLE = "cost", "gradient", "violation", "iterations", "work", "converged", "kind", "start", "parent", "sentence"
"""Columns of `Solutions.to_pandas`, beside what varied."""

_NAMES = {*ARRAYS, *(scalar for scalar, _ in SCALARS)} - {"row"}


class Solutions:
    """Solutions of many problems, as `solve_many` returns them; of a store, with ``Solutions.open(path, problem)``.

    cost, gradient, violation, iterations, converged (M,): as of `Solution`; NaN where there is none.
    work (M,): iterations of all solves that were tried for a sample.
    start (M,): where solutions come from, an index into ``starts``.
    kind, sentence (M,): strings: what the optimum is, as of `Solution`; why a solve ended, empty if it converged.
    parent (M,): the sample whose policy was followed, -1 the problem's own solution, -2 none.
    X (M, N+1, nx), U (M, N, nu), K (M, N, nu, n), ...: what was kept; of a store, arrays of zarr, which read what is
    asked of them, and name the rows where they are damaged.
    over: what varied, by its names.   Solutions[i]: the solution of sample i, as of ``solution``.
    waiting: of a store, how many samples more are solved, but not in its arrays before others of their chunks are:
    of a share, or of a call that was ended.
    """

    starts = STARTS

    def __init__(self, source: Any, over: dict[str, Array], problem: Problem | None, waiting: int = 0) -> None:
        self._source, self.over, self.problem, self.waiting = source, over, problem, waiting

    @staticmethod
    def open(path: str | os.PathLike[str], problem: Problem | None = None) -> "Solutions":
        """Solutions in a store, of which some may be missing yet; with its problem, they can be taken out.

        Problems that differ in numbers that vary are no other ones: they get those of the store's. Raises ProblemError
        if the path is no store, and, naming what differs, if it is one of another problem.
        """
        if problem is not None and not isinstance(problem, Problem):
            raise ProblemError(f"problem: expected a Problem, got {said(problem)}")
        group = opened(as_path(path), "path")
        with reading(path):
            ahead = waiting(group)
            names = [name for name in group.array_keys() if name.startswith("over.")]
            over = {name.removeprefix("over."): Kept(group, name)[:] for name in names}
            varied, own = attribute(group, "varied"), attribute(group, "problem")
        if problem is not None:
            told = _differing(problem, own, () if varied else over)
            if told and varied:
                with suppress(Exception):  # it has no such numbers
                    problem = problem.varying({name: np.array(value) for name, value in varied["numbers"].items()})
                    told = _differing(problem, varied["problem"])
            if told:
                raise ProblemError(f"problem: {path} is a store of another problem, which differs in {told}")
        return Solutions(group, over, problem, ahead)

    def __len__(self) -> int:
        return len(self.done)

    def __getitem__(self, i: int) -> Solution:
        """The solution of sample i, as of ``solution``; of negative i, counted from the end. So they are iterated over.

        Raises IndexError beyond them, as lists do.
        """
        if not isinstance(i, (int, np.integer)) or isinstance(i, bool):
            raise ProblemError(f"i: expected a whole number, which of the solutions, got {said(i)}")
        if not -len(self) <= i < len(self):
            raise IndexError(f"i: expected one of {len(self)} solutions, from {-len(self)} to {len(self) - 1}, got {i}")
        return self.solution(int(i) % len(self))

    def __str__(self) -> str:
        done, converged = int(self.done.sum()), int(self.converged[self.done].sum())
        missing = f", {self.waiting} more solved but not in the arrays yet" if self.waiting else ""
        if left := len(self) - done - self.waiting:
            missing += f", {left} not solved yet"
        costs = self.cost[self.done & np.isfinite(self.cost)]
        range_of = f", costs {costs.min():.5g} to {costs.max():.5g}" if len(costs) else ""
        missed = int((self.start[self.done] == Source.MISSED).sum())
        told = f"; {missed} with better optima from the problem's own guess than from neighbours'" if missed else ""
        return f"{done} solutions: {converged} converged, {done - converged} not{missing}{range_of}{told}"

    def __repr__(self) -> str:
        kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(Counter(self.kind[self.done].tolist()).items()))
        kept = ", ".join(name for name in ARRAYS if name in self._kept())
        return f"<Solutions: {self}; kinds: {kinds or 'none'}; {kept} in {self._where}>"

    @property
    def _where(self) -> str:
        return "memory" if isinstance(self._source, np.ndarray) else str(self._source.store.root)

    @cached_property
    def done(self) -> NDArray[np.bool_]:
        """Which samples there is a row of (M,); all, but in a store that is not complete."""
        if isinstance(self._source, np.ndarray):
            return np.ones(len(self._source), dtype=bool)
        return np.asarray(Kept(self._source, "done")[:], bool)

    def _kept(self) -> set[str]:
        """Names of what was kept."""
        source = self._source
        return _NAMES.intersection(source.dtype.names if isinstance(source, np.ndarray) else source.array_keys())

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._kept()})

    def __getattr__(self, name: str) -> Any:
        if name not in _NAMES:
            raise AttributeError(f"Solutions has no {name}")
        try:
            found = self._source[name] if isinstance(self._source, np.ndarray) else Kept(self._source, name)
        except (ProblemError, ValueError):
            if name in self._kept():
                raise
            raise ProblemError(f"{name}: it was not kept, see `keep`") from None
        if name not in ARRAYS:
            vars(self)[name] = found = as_texts(found[:]) if name in TEXTS else np.asarray(found[:])
        return found

    def row(self, i: int) -> Any:
        """All numbers of one sample."""
        if isinstance(self._source, np.ndarray):
            return self._source[i]
        kinds = dict(SCALARS)
        kept = [name for name in self._source.array_keys() if name in {*kinds, *ARRAYS}]
        values = {name: Kept(self._source, name)[i : i + 1 or None] for name in kept}
        made = np.zeros((), [
            (name, kinds[name]) if name in TEXTS else (name, value.dtype, value.shape[1:])
            for name, value in values.items()
        ])  # fmt: skip
        for name, value in values.items():
            made[name] = as_texts(value)[0].encode() if name in TEXTS else value[0]
        return made[()]

    def solution(self, i: int) -> Solution:
        """The solution of sample i, of its own problem; k is zeros where it was not kept.

        Raises ProblemError for a sample that has none, and where X, U, K or what constraints have was not kept.
        """
        index = integer("i", i)
        if index >= len(self):
            raise ProblemError(f"i: expected less than {len(self)}, how many there are, got {index}")
        if not self.done[index]:
            raise ProblemError(f"i: sample {index} has not been solved yet")
        if self.problem is None:
            raise ProblemError("problem: expected one: Solutions.open(path, problem)")
        row = self.row(index)
        if np.isnan(row["cost"]):
            raise ProblemError(f"i: sample {index} has no solution: {row['sentence'].decode()}")
        return solution_of(row, self.problem.varying({name: values[index] for name, values in self.over.items()}))

    def failures(self) -> list[Failure]:
        """Samples that have not converged, or have raised an error, and why."""
        found = []
        for i in np.flatnonzero(self.done & ~self.converged.astype(bool)).tolist():
            found.append(Failure(i, self.sentence[i], bool(np.isfinite(self.cost[i]))))
        return found

    def to_pandas(self) -> Any:
        """A pandas.DataFrame with a row for each sample: what varied, then cost, iterations and all else of one number.

        What varied in several numbers has a column for each, ``x0[3]``, ``target[0, 3]``; ``start`` is in words.
        Samples without a row yet are left out. Raises ProblemError without pandas.
        """
        table = {f"{name}{list(at) or ''}": values[:, *at] for name, values in self.over.items()
                 for at in np.ndindex(values.shape[1:])}  # fmt: skip
        table |= {name: getattr(self, name) for name in TABLE} | {"start": np.array(STARTS)[self.start]}
        return to_pandas(table, "cost, iterations and others are arrays", "sample").loc[self.done]

    def consistency(self) -> list[Edge]:
        """Edges of the tree of neighbours along which the solution jumps: borders of local minima, the longest first.

        A jump is `JUMP` times as far, for the distance of samples, as the median. Empty where no sample has followed a
        neighbour.
        """
        parents, moved = self.parent, self.moved
        of = np.flatnonzero(self.done & (parents >= -1) & np.isfinite(moved))
        if len(of) == 0:
            return []
        if self.problem is None:
            raise ProblemError("problem: expected one: Solutions.open(path, problem)")
        points, root = points_of(self.problem, self.over)
        before = np.where((parents[of] >= 0)[:, None], points[np.maximum(parents[of], 0)], root)
        distance = np.linalg.norm(points[of] - before, axis=1)
        rate = moved[of] / np.maximum(distance, 1e-12)
        typical = float(np.median(rate)) or 1.0
        jumps = [
            Edge(int(parents[i]), int(i), float(moved[i]), float(r / typical))
            for i, r in zip(of, rate, strict=True) if r > JUMP * typical and not self._is_alike(int(i))
        ]  # fmt: skip
        return sorted(jumps, key=lambda edge: -edge.ratio)

    def _is_alike(self, i: int) -> bool:
        """Whether a sample has the states of its parent, to `ALIKE`; False where states were not kept."""
        try:
            return bool(self.moved[i] <= ALIKE * np.abs(self.X[i]).max())
        except ProblemError:
            return False

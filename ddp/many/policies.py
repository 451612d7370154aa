"""Policies that samples follow: of the problem itself, of samples of other tasks, and of those of a task's own."""

from collections.abc import Iterable

import numpy as np

from ddp.batch.native import Guess, Results
from ddp.machine.recycled import recycled_rows
from ddp.many.plan import Indices
from ddp.many.rows import ARRAYS, NOMINAL, Rows
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solutions.solution import Solution
from ddp.solutions.status import Ending, Status


class Policies:
    """Places for policies, by the rows that they are of.

    given: rows of `policy_type`.   nominal, root (p,): the problem's own solution, if it is followed, and the problem
    as a point.   others: rows whose policies come later.
    row, cost, slope (m,), point (m, p): see `policy_type`.   there (m,): whether there is a policy.
    """

    def __init__(
        self, problem: Problem, given: Rows, nominal: Solution | None, root: Array | None, others: Iterable[int]
    ) -> None:  # fmt: skip
        rows = [*given["row"].tolist(), NOMINAL, *others]
        count, known = len(rows), len(given)
        self._type, self._nominal, self._place = given.dtype, nominal, {row: i for i, row in enumerate(rows)}
        self._arrays = Results.empty(problem, count)
        self.row, self.cost, self.slope = np.array(rows), np.full(count, np.nan), np.full(count, np.nan)
        self.point = np.full((count, *given.dtype["point"].shape), np.nan)
        self.there = np.arange(count) < known
        for name in given.dtype.names or ():
            self._part(name)[:known] = given[name]
        if nominal is not None:
            self.there[known], self.cost[known] = True, nominal.cost
            for name in ("X", "U", "K"):
                self._part(name)[known] = getattr(nominal, name)
        if root is not None:
            self.point[known] = root

    def _part(self, name: str) -> Array:
        return getattr(self._arrays if name in ARRAYS else self, name)  # type: ignore[no-any-return]

    def places(self, rows: Indices) -> Indices:
        """Places of some rows, -1 of those that have none."""
        return np.array([self._place.get(row, -1) for row in rows.tolist()], dtype=np.int64)

    def guess(self, places: Indices) -> Guess:
        """Policies of some places, in memory of their own."""
        own = self._arrays.X, self._arrays.U, self._arrays.K
        X, U, K = recycled_rows(len(places), *(part.shape[1:] for part in own))
        for part, out in zip(own, (X, U, K), strict=True):
            np.take(part, places, axis=0, out=out, mode="clip")
        return Guess(X, U, K, False)

    def solution(self, place: int) -> Solution:
        """The solution whose policy a place has: to be followed, and for nothing else."""
        if self.row[place] == NOMINAL:
            assert self._nominal is not None
            return self._nominal
        return Solution(
            **{name: self._part(name)[place] for name in ARRAYS}, cost=float(self.cost[place]), gradient=np.nan,
            converged=True, status=Status("converged", Ending.CONVERGED), iterations=0, seconds=0.0, history=(),
        )  # fmt: skip

    def put(self, row: int, arrays: Results, i: int, cost: float, slope: float, point: Array) -> None:
        """Keep the policy of a row, if there is a place for it: entry i of some arrays."""
        place = self._place.get(row, -1)
        if place >= 0:
            self.there[place], self.cost[place], self.slope[place], self.point[place] = True, cost, slope, point
            for name in ARRAYS:
                self._part(name)[place] = getattr(arrays, name)[i]

    def pass_on(self, row: int, before: int) -> None:
        """Have those that follow a row without a policy follow what it has followed, the policy of a place, or none."""
        if before >= 0 and self.there[before]:
            self.put(row, self._arrays, before, self.cost[before], self.slope[before], self.point[before])

    def of(self, rows: Indices) -> Rows:
        """Policies of some rows as far as there are any, as rows of `policy_type`."""
        places = self.places(rows)
        places = places[self.there[places]]
        made = np.zeros(len(places), self._type)
        for name in self._type.names or ():
            made[name] = self._part(name)[places]
        return made

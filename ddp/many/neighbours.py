"""Samples that follow policies of others: level by level of a tree, doubted, verified, offered to neighbours."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp.batch.native import Guess, Results
from ddp.batch.solves import Solves, guess_of, reason_of
from ddp.guesses import Start
from ddp.machine.recycled import recycled_rows
from ddp.many.plan import Indices, equals
from ddp.many.rows import ARRAYS, NOMINAL, SCALARS, Rows, Source, fail, kept_in
from ddp.places import varied_each
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

    def put(self, rows: Indices, arrays: Results, which: Indices, costs: Array, slopes: Array, points: Array) -> None:
        """Keep the policies of some rows, of those that there are places for: entries ``which`` of some arrays."""
        to = self.places(rows)
        here = to >= 0
        if not here.any():
            return
        to, which = to[here], which[here]
        self.there[to], self.cost[to], self.slope[to], self.point[to] = True, costs[here], slopes[here], points[here]
        for name in ARRAYS:
            place, source = self._part(name), getattr(arrays, name)
            for i, j in zip(to.tolist(), which.tolist() if place.size else (), strict=False):
                place[i] = source[j]

    def pass_on(self, rows: Indices, before: Indices) -> None:
        """Have those that follow rows without a policy follow what these have followed, policies of places, or none."""
        some = (before >= 0) & self.there[before]
        of = before[some]
        self.put(rows[some], self._arrays, of, self.cost[of], self.slope[of], self.point[of])

    def of(self, rows: Indices) -> Rows:
        """Policies of some rows as far as there are any, as rows of `policy_type`."""
        places = self.places(rows)
        places = places[self.there[places]]
        made = np.zeros(len(places), self._type)
        for name in self._type.names or ():
            made[name] = self._part(name)[places]
        return made


STEEPER = 3.0
"""Multiple of the steepest rise of cost on the way to a sample's parent, by distance, beyond which the problem's own
guess is tried as well."""

RISE = 1.5
"""Multiple of the parent's cost that serves where there is no such way yet."""

BETTER = 1e-8
"""Share of the cost by which another optimum has to be better than a neighbour's to take its place."""

OFFERS = 3
"""Neighbours with better optima that a sample tries to follow, at most."""


class Found(NamedTuple):
    """Outcome of some solves: their rows, which keep no arrays, these, and which (m,) have raised an error."""

    rows: Rows
    arrays: Results
    raised: NDArray[np.bool_]


class Tree:
    """Samples of a task, each of which follows the policy of another or starts from its own guess.

    numbers, parents (m,): their rows, and the rows that they follow.   values: what varies in them, by name.
    points (m, p): or none.   into: rows that results are written to, at the places ``at`` (m,).
    verified: whether samples that follow others are solved from the problem's own guess too.
    guesses: of samples that follow none, by their rows, if not the problem's own.
    """

    def __init__(
        self, problem: Problem, solves: Solves, numbers: Indices, parents: Indices, values: Mapping[str, Array],
        points: Array, policies: Policies, into: Rows, at: Indices, verified: bool, guesses: Sequence[Any] | None,
    ) -> None:  # fmt: skip
        self._problem, self._solves, self._numbers, self._parents = problem, solves, numbers, parents
        self._points = points if len(points) else np.zeros((len(numbers), 0))
        self._policies, self._into, self._at, self._verified, self._guesses = policies, into, at, verified, guesses
        self._problems, self._equals = varied_each(problem, values), equals(values)
        self._follows = np.zeros(len(numbers), dtype=bool)

    def solve(self) -> None:
        """Solve all samples, those at once that need none of each other."""
        for level in levels(self._numbers, self._parents):
            before = self._policies.places(self._parents[level])
            posed = np.array([isinstance(self._problems[i], Problem) for i in level.tolist()])
            follows = (before >= 0) & self._policies.there[before]
            self._refuse(level[~posed], before[~posed])
            self._begin(level[posed & ~follows])
            self._follow(level[posed & follows], before[posed & follows])

    def _solved(self, which: Indices, guess: Guess | None, start: Callable[[int], Start]) -> Found:
        """Solve some samples from guesses, which the compiled loop takes, or from single ones."""
        problems = [self._problems[i] for i in which.tolist()]
        arrays, rows = Results.empty(self._problem, len(which)), np.zeros(len(which), SCALARS)
        others = self._solves.run(problems, guess, start, arrays)
        self._solves.enter(rows, arrays, others)
        rows["row"], rows["parent"], rows["moved"] = self._numbers[which], self._parents[which], np.nan
        raised = np.array([isinstance(others.get(i), Exception) for i in range(len(which))], dtype=bool)
        return Found(rows, arrays, raised)

    def _alone(self, which: Indices) -> Found:
        """Solve some samples from the problem's own guess, equal ones once, or from those that they are given."""
        guesses, rows = self._guesses, self._numbers[which]
        if guesses is not None:
            return self._solved(which, None, lambda i: guesses[rows[i]])
        once, of = np.unique(self._equals[which], return_inverse=True)
        if len(once) == len(which):
            once = which
        problems = [self._problems[i] for i in once.tolist()]
        found = self._solved(once, None if self._solves.obstacle else guess_of(problems, None), lambda i: None)
        if once is which:
            return found
        each = found.rows[of], Results(**{name: part[of] for name, part in vars(found.arrays).items()})
        each[0]["row"], each[0]["parent"] = rows, self._parents[which]
        return Found(*each, found.raised[of])

    def _after(self, which: Indices, before: Indices) -> tuple[Found, Guess]:
        """Solve some samples from the policies of places, which are returned."""
        guess, solution = self._policies.guess(before), self._policies.solution
        return self._solved(which, guess, lambda i: solution(int(before[i]))), guess

    def _write(self, which: Indices, found: Found, part: slice = slice(None)) -> None:
        """Write rows, or a part of them, and what they keep to where they belong."""
        at = self._at[which]
        for name, *_ in SCALARS:
            self._into[name][at] = found.rows[name][part]
        for name in kept_in(self._into):
            self._into[name][at] = getattr(found.arrays, name)[part]

    def _refuse(self, which: Indices, before: Indices) -> None:
        """Write why some samples have no problem."""
        for i in which.tolist():
            row = self._into[self._at[i]]
            row["row"], row["parent"], row["start"] = self._numbers[i], self._parents[i], Source.OWN
            fail(row, reason_of(self._problems[i]))
        self._policies.pass_on(self._numbers[which], before)

    def _begin(self, which: Indices) -> None:
        """Solve samples that follow none."""
        if len(which) == 0:
            return
        found = self._alone(which)
        rows, guesses = found.rows, self._guesses
        if guesses is not None:
            own = [guesses[row] is None for row in self._numbers[which].tolist()]
            rows["start"] = np.where(own, Source.OWN, Source.GIVEN)
        self._write(which, found)
        self._keep(which, found, np.flatnonzero(rows["converged"]), *np.full((3, len(which)), np.nan))

    def _follow(self, which: Indices, before: Indices) -> None:
        """Solve samples that follow policies of places; where that is doubted, from their own guesses, too."""
        if len(which) == 0:
            return
        self._follows[which] = True
        found, guess = self._after(which, before)
        rows, raised, distance = found.rows, found.raised, self._distances(which, before)
        given, costs, slopes = np.isnan(distance), self._policies.cost[before], self._policies.slope[before]
        doubted = ~given & (raised | _are_doubted(rows, costs, slopes, distance))
        rows["start"] = np.where(raised, Source.OWN, np.where(given, Source.GIVEN, Source.NEIGHBOUR))
        tried = np.flatnonzero(doubted | (~given & self._verified))
        if len(tried):
            _take_better(found, self._alone(which[tried]), tried, doubted)
        told = np.flatnonzero(~raised & ~given)
        rows["moved"][told] = self._moved(guess.X, found.arrays.X, told)
        self._write(which, found)
        lost = given | ~rows["converged"]
        self._policies.pass_on(rows["row"][lost], before[lost])
        self._keep(which, found, np.flatnonzero(~lost), costs, slopes, distance)

    def _keep(
        self, which: Indices, found: Found, good: Indices, before: Array, steepest: Array, distance: Array
    ) -> None:  # fmt: skip
        """Keep the policies of some solutions, and how steeply costs have risen on the way there."""
        costs, rows = found.rows["cost"][good], self._numbers[which[good]]
        slopes = np.fmax(steepest[good], abs(costs - before[good]) / distance[good])
        self._policies.put(rows, found.arrays, good, costs, slopes, self._points[which[good]])

    def _distances(self, which: Indices, before: Indices) -> Array:
        """Distances of samples from places (m,); NaN where a solution is followed that the user gave."""
        if self._points.shape[1] == 0:
            return np.full(len(which), np.nan)
        found = _lengths(self._points[which] - self._policies.point[before])
        return np.where(found == 0.0, 1.0, found)

    def _moved(self, before: Array, X: Array, which: Indices) -> Array:
        """Roots of the mean squares of X ⊖ X_before of some (m,)."""
        if len(which) == 0:
            return np.zeros(0)
        some = slice(None) if len(which) == len(X) else which
        pairs = (part[some].reshape(-1, part.shape[-1]) for part in (before, X))
        apart = self._problem.dynamics.difference(*pairs).reshape(len(which), -1)
        return _lengths(apart, apart.shape[1])

    def exchange(self, which: Indices) -> None:
        """Have some samples follow the nearest ones of them whose own guesses led to something better."""
        which = which[self._follows[which]]
        sources = which[np.isin(self._into["start"][self._at[which]], (Source.OWN_BETTER, Source.MISSED))]
        places = self._policies.places(self._numbers[sources])
        sources, places = sources[self._policies.there[places]], places[self._policies.there[places]]
        of, to = list[int](), list[int]()
        for i in which.tolist():
            others = np.flatnonzero(sources != i)
            apart = _lengths(self._points[i] - self._points[sources[others]])
            nearest = places[others[np.argsort(apart, kind="stable")[:OFFERS]]]
            of += [i] * len(nearest)
            to += nearest.tolist()
        if of:
            self._offer(np.array(of), np.array(to))

    def _offer(self, of: Indices, to: Indices) -> None:
        """Have samples follow the policies of places, and keep what is better."""
        found, guess = self._after(of, to)
        rows, distance = found.rows, self._distances(of, to)
        costs, slopes = self._policies.cost[to], self._policies.slope[to]
        good = np.flatnonzero(rows["converged"])
        rows["start"], rows["parent"] = Source.OFFERED, self._policies.row[to]
        rows["moved"][good] = self._moved(guess.X, found.arrays.X, good)
        for j in np.flatnonzero(~found.raised).tolist():
            out, offer = self._into[self._at[of[j]]], rows[j]
            work = out["work"] + offer["iterations"]
            if offer["converged"] and _is_better(offer, out):
                self._write(of[j : j + 1], found, slice(j, j + 1))
                self._keep(of, found, np.array([j]), costs, slopes, distance)
            out["work"] = work


def levels(numbers: Indices, parents: Indices) -> list[Indices]:
    """Samples by how many others of them have to be solved before."""
    depth = dict[int, int]()
    for row, parent in zip(numbers.tolist(), parents.tolist(), strict=True):
        depth[row] = depth.get(parent, -1) + 1
    of = np.array([depth[row] for row in numbers.tolist()])
    return [np.flatnonzero(of == level) for level in range(of.max() + 1)]


def _are_doubted(rows: Rows, costs: Array, slopes: Array, distance: Array) -> NDArray[np.bool_]:
    """Whether following a neighbour seems to have missed something, so that the problem's own guess is tried as well.

    costs, slopes: of the neighbours.
    """
    with np.errstate(all="ignore"):  # costs may be anything
        rise, size = (rows["cost"] - costs) / distance, RISE * np.abs(costs) / distance
        expected = np.where(np.isnan(slopes), size, np.maximum(STEEPER * slopes, 0.1 * size))
    return ~(rows["converged"] & (rise <= expected))


def _take_better(found: Found, own: Found, tried: Indices, doubted: NDArray[np.bool_]) -> None:
    """Put the better one of two solutions, of those that are tried from their own guesses, into what was found."""
    for k, i in enumerate(tried.tolist()):
        if own.raised[k]:
            continue
        row, other = found.rows[i], own.rows[k]
        work, better = row["work"] + other["work"], found.raised[i] or _is_better(other, row)
        if better:
            found.rows[i], found.raised[i] = other, False
            for name in ARRAYS:
                getattr(found.arrays, name)[i] = getattr(own.arrays, name)[k]
        row["start"] = Source.NEIGHBOUR_BETTER if not better else Source.OWN_BETTER if doubted[i] else Source.MISSED
        row["work"] = work


def _is_better(found: Any, than: Any) -> bool:
    """Whether an optimum is better by more than rounding."""
    if found["converged"] != than["converged"]:
        return bool(found["converged"])
    cost, other = float(found["cost"]), float(than["cost"])
    if not np.isfinite(other):
        return bool(np.isfinite(cost))
    return cost < other - BETTER * abs(other)


def _lengths(vectors: Array, count: int = 1) -> Array:
    """Lengths of vectors (m, k), or roots of the mean squares of so many numbers."""
    with np.errstate(over="ignore", invalid="ignore"):  # solutions that have not converged may be anything
        return np.asarray(np.sqrt(np.vecdot(vectors, vectors) / count))

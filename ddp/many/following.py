"""Samples that follow the policies of others: level by level of a tree, doubted, verified, offered to neighbours."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ddp.batch.native import Guess, Results
from ddp.batch.solves import Solves, guess_of, policies_of
from ddp.errors import DDPError
from ddp.many.rows import (
    GIVEN,
    MISSED,
    NEIGHBOUR,
    NEIGHBOUR_BETTER,
    OFFERED,
    OWN,
    OWN_BETTER,
    fail,
    fill,
)
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solutions.solution import Solution

STEEPER = 3.0
"""Multiple of the steepest rise of cost on the way to a sample's parent, by distance, beyond which the problem's own
guess is tried as well."""

RISE = 1.5
"""Multiple of the parent's cost that serves where there is no such way yet."""

BETTER = 1e-8
"""Share of the cost by which another optimum has to be better than a neighbour's to take its place."""

OFFERS = 3
"""Neighbours with better optima that a sample tries to follow, at most."""


class Known(NamedTuple):
    """A policy to follow: its solution, what its cost lets expect, and where it is."""

    solution: Solution
    slope: float
    point: Array | None


class Sample(NamedTuple):
    """A sample to be solved, and the row to write to."""

    row: int
    parent: int
    values: dict[str, Any]
    point: Array | None
    out: Any


def levels(samples: list[Sample]) -> list[list[Sample]]:
    """Samples by how many others of them have to be solved before."""
    depth: dict[int, int] = {}
    levels: list[list[Sample]] = []
    for sample in samples:
        depth[sample.row] = own = depth.get(sample.parent, -1) + 1
        if own == len(levels):
            levels.append([])
        levels[own].append(sample)
    return levels


def solve_level(
    problem: Problem, solves: Solves, samples: list[Sample], known: dict[int, Known | None], verified: bool,
    guesses: Sequence[Any] | None = None,
) -> dict[int, Posed]:  # fmt: skip
    """Solve samples that need none of each other; ``known`` takes the policies for those that follow them.

    guesses: of each sample that follows none, by its row, if not the problem's own.
    Samples that have followed another one are returned, by their rows.
    """
    alone, following = list[Posed](), list[Posed]()
    for sample in samples:
        out = sample.out
        out["row"], out["parent"], out["start"], out["moved"] = sample.row, sample.parent, OWN, np.nan
        before = known[sample.row] = known.get(sample.parent)
        try:
            posed = Posed(sample, problem.varying(sample.values), before)
        except Exception as reason:
            _fail(out, reason)
            continue
        (alone if before is None else following).append(posed)
    for posed, found in zip(alone, _solve_own(solves, alone, guesses), strict=True):
        out = posed.sample.out
        out["start"] = OWN if guesses is None or guesses[posed.sample.row] is None else GIVEN
        if isinstance(found, Exception):
            _fail(out, found)
            continue
        fill(out, found)
        known[posed.sample.row] = Known(found, np.nan, posed.sample.point) if found.converged else None
    found_there = _solve_following(solves, following)
    doubted = [_is_doubted(posed, found) for posed, found in zip(following, found_there, strict=True)]
    tried = [i for i, posed in enumerate(following) if doubted[i] or (verified and not np.isnan(posed.distance))]
    others = dict(zip(tried, _solve_own(solves, [following[i] for i in tried]), strict=True))
    for i, (posed, found) in enumerate(zip(following, found_there, strict=True)):
        known[posed.sample.row] = _entered(posed, found, others.get(i), doubted[i])
    return {posed.sample.row: posed for posed in following}


@dataclass(frozen=True, eq=False)
class Posed:
    """A sample, its problem, and the policy that it follows, if any."""

    sample: Sample
    problem: Problem
    before: Known | None

    @cached_property
    def distance(self) -> float:
        """Distance of the parent; NaN where a solution is followed that the user gave."""
        if self.sample.point is None or self.before is None or self.before.point is None:
            return np.nan
        return float(np.linalg.norm(self.sample.point - self.before.point)) or 1.0


def _solve_own(solves: Solves, posed: list[Posed], guesses: Sequence[Any] | None = None) -> list[Solution | Exception]:
    """Solve problems from their own guesses, or those that they are given."""
    if guesses is not None:
        return [_attempt(solves, one.problem, guesses[one.sample.row]) for one in posed]
    problems = [one.problem for one in posed]
    return _solve(solves, problems, guess_of(problems, None) if problems else None, lambda i: None)


def _solve_following(solves: Solves, posed: list[Posed]) -> list[Solution | Exception]:
    """Solve problems from the policies that they follow."""
    starts = [one.before.solution for one in posed if one.before is not None]
    return _solve(solves, [one.problem for one in posed], policies_of(starts) if starts else None, starts.__getitem__)


def _solve(
    solves: Solves, problems: list[Problem], guess: Guess | None, start: Callable[[int], Any]
) -> list[Solution | Exception]:
    """Solutions of problems, or what solving them raised."""
    if not problems:
        return []
    if solves.obstacle:
        return [_attempt(solves, problem, start(i)) for i, problem in enumerate(problems)]
    out = Results.empty(problems[0], len(problems))
    others = solves.run(problems, guess, start, out)
    return [others[i] if i in others else solves.solution(problem, out, i) for i, problem in enumerate(problems)]


def _attempt(solves: Solves, problem: Problem, start: Any) -> Solution | Exception:
    """The solution of one problem, or what solving it raised."""
    try:
        return solves.alone(problem, start)
    except Exception as reason:
        return reason


def _fail(out: Any, reason: Exception) -> None:
    """Write into a row why there is no solution."""
    fail(out, str(reason) if isinstance(reason, DDPError) else f"{type(reason).__name__}: {reason}")


def _is_doubted(posed: Posed, found: Solution | Exception) -> bool:
    """Whether following a neighbour seems to have missed something, so that the problem's own guess is tried as well.

    A solution that the user gives is followed, and that is all.
    """
    distance, before = posed.distance, posed.before
    if np.isnan(distance) or before is None or isinstance(found, Exception):
        return False
    rise = (found.cost - before.solution.cost) / distance
    size = RISE * abs(before.solution.cost) / distance
    expected = size if np.isnan(before.slope) else max(STEEPER * before.slope, 0.1 * size)
    return not (found.converged and rise <= expected)


def _is_better(found: Solution, than: Solution) -> bool:
    """Whether an optimum is better by more than rounding."""
    if found.converged != than.converged:
        return found.converged
    return found.cost < than.cost - BETTER * abs(than.cost)


def _entered(
    posed: Posed, found: Solution | Exception, other: Solution | Exception | None, doubted: bool
) -> Known | None:
    """Write the better solution into its row; the policy for those that follow, the parent's if it has none.

    other: from the problem's own guess, if that was tried.
    """
    out, before = posed.sample.out, posed.before
    assert before is not None
    failed = found if isinstance(found, Exception) else other if isinstance(other, Exception) else None
    if failed is not None:
        _fail(out, failed)
        return before
    assert isinstance(found, Solution)
    out["start"] = GIVEN if np.isnan(posed.distance) else NEIGHBOUR
    work = found.iterations
    if isinstance(other, Solution):
        work += other.iterations
        out["start"] = NEIGHBOUR_BETTER
        if _is_better(other, found):
            found, out["start"] = other, OWN_BETTER if doubted else MISSED
    fill(out, found)
    out["work"] = work
    if np.isnan(posed.distance):
        return before
    return _followed(posed, found)


def _followed(posed: Posed, found: Solution) -> Known:
    """The policy for those that follow a sample, and how far it is from its parent's into its row."""
    before = posed.before
    assert before is not None
    posed.sample.out["moved"] = _distance(posed.problem, before.solution, found)
    if not found.converged:
        return before
    slope = abs(found.cost - before.solution.cost) / posed.distance
    return Known(found, float(np.fmax(before.slope, slope)), posed.sample.point)


def exchange(solves: Solves, block: list[Posed], known: dict[int, Known | None]) -> None:
    """Have the samples of a block follow the nearest ones whose own guesses led to something better."""
    found_own = [posed for posed in block if posed.sample.out["start"] in (OWN_BETTER, MISSED)]
    sources = [(posed, now) for posed in found_own if (now := known[posed.sample.row]) is not None]
    offers = list[Posed]()
    for posed in block:
        others = [(other, now) for other, now in sources if other is not posed]
        nearest = np.argsort([_apart(posed, other) for other, _ in others], kind="stable")[:OFFERS]
        offers += [
            Posed(posed.sample._replace(parent=others[i][0].sample.row), posed.problem, others[i][1]) for i in nearest
        ]
    for offer, found in zip(offers, _solve_following(solves, offers), strict=True):
        out, row = offer.sample.out, offer.sample.row
        if not isinstance(found, Solution):
            continue
        work = out["work"] + found.iterations
        if found.converged and not (out["converged"] and out["cost"] <= found.cost + BETTER * abs(found.cost)):
            fill(out, found)
            out["start"], out["parent"] = OFFERED, offer.sample.parent
            known[row] = _followed(offer, found)
        out["work"] = work


def _apart(a: Posed, b: Posed) -> float:
    """Distance of two samples."""
    assert a.sample.point is not None
    assert b.sample.point is not None
    return float(np.linalg.norm(a.sample.point - b.sample.point))


def _distance(problem: Problem, a: Solution, b: Solution) -> float:
    """Root of the mean square of X_b ⊖ X_a."""
    difference = problem.dynamics.difference(a.X, b.X).ravel()
    return math.sqrt(difference @ difference / difference.size)

"""Where full-space steps stand between two iterations: arrays from which they go on, to the same bits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ddp.interior.course import Course
from ddp.interior.filter import ENTRIES
from ddp.interior.memory import POINT
from ddp.interior.point import Point
from ddp.machine.written import assign, read_all, read_like, write_like
from ddp.parallel.differentiator import Differentiator
from ddp.problem import Problem
from ddp.protocols import Array

if TYPE_CHECKING:
    from ddp.interior.method import Interior

OF_POINT = tuple(name for name in POINT if name != "forces")
"""Arrays of a point."""

OF_SWEEPS = "held", "k", "K"
"""Arrays of sweeps: where the next one begins to look for controls that limits hold, and the last policy."""

NUMBERS = (
    "scale", "barrier", "share", "least_proximal", "longest_dual", "cost", "penalty", "theta", "gap", "missed",
)  # fmt: skip
"""Numbers of a point."""


class Keeper(Protocol):
    """Keeper of where a solve stands, now and then.

    standing: arrays of `standing_of` with which a solve begins, None for a new one.
    """

    standing: Mapping[str, Array] | None

    def keep(self, interior: Interior) -> None:
        """Called after each call of iterations of which the last one took a step."""


def standing_of(interior: Interior) -> dict[str, Array]:
    """Copies of all that a solve goes on from, by name."""
    p, b, course = interior.point, interior.point.bounds, _course()
    read_like(interior.decisions, course)
    numbers = [*read_all(p.memory, NUMBERS), b.price_of_all, b.elastic, p.boxed, interior.fell, len(interior.history)]
    of_course = [getattr(course, name) for name in _names()]
    arrays: dict[str, Any] = {name: p.place.own[name] for name in OF_POINT}
    arrays |= {"factors": p.factors, "rows": b.state, "give": b.give, "hard": b.hard, "numbers": numbers}
    arrays |= dict(zip(OF_SWEEPS, (p.backward.held, *p.backward.policy), strict=True))
    arrays |= {"course": of_course, "thetas": course.thetas, "phis": course.phis}
    return {name: np.array(array, dtype=np.float64) for name, array in arrays.items()}


def point_at(standing: Mapping[str, Array], problem: Problem, work: Differentiator) -> Point:
    """The point that was there."""
    *numbers, price, elastic, boxed, _, _ = standing["numbers"].tolist()
    known = dict(zip(NUMBERS, numbers, strict=True))
    held = bool(boxed) and problem.constrained
    at, factors = (standing["X"], standing["U"]), standing["factors"]
    p = Point(problem, work, *at, known["scale"], known["barrier"], held=held, factors=factors)
    for name in OF_POINT:
        p.place.own[name][:] = standing[name]
    for name, array in zip(OF_SWEEPS, (p.backward.held, *p.backward.policy), strict=True):
        array[:] = standing[name]
    p.bounds.resume(standing["rows"], standing["give"], standing["hard"], price if elastic else None)
    p.bounds.least_proximal = known["least_proximal"]
    assign(p.memory, known | {"contracted": 0, "valued": 0})
    p.bounds = p.bounds  # their numbers go to the memory of kernels
    return p


def go_on(interior: Interior, standing: Mapping[str, Array]) -> None:
    """Give a solve from `point_at` the numbers of its course."""
    course = _course()
    for name, number in zip(_names(), standing["course"].tolist(), strict=True):
        setattr(course, name, type(getattr(course, name))(number))
    course.thetas, course.phis = standing["thetas"], standing["phis"]
    write_like(interior.decisions, course)
    interior.fell = int(standing["numbers"][-2])


def _course() -> Course:
    return Course(np.zeros(ENTRIES), np.zeros(ENTRIES))


def _names() -> list[str]:
    """Numbers of a course."""
    return sorted(name for name, value in vars(_course()).items() if not isinstance(value, np.ndarray))

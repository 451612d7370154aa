"""Full-space iterations in compiled code, for one `Point`: in the memory of its `Workplace`, by the same decisions.

It is entered and left at any iteration; what is rare is done by the point, outside.
"""

from __future__ import annotations

from ddp.interior import compiled
from ddp.interior.course import MOVED, UNKNOWN, Course
from ddp.interior.layout import Workplace
from ddp.interior.memory import MOST
from ddp.interior.point import Point
from ddp.interior.trials import Judged
from ddp.machine.variables import read
from ddp.machine.written import address, assign, filled, read_all

GIVEN = "first", "limited", "boxed", "holds", "count", "equalities", "elastic", "costates", "scale", "least_proximal"
"""Numbers that iterations take from a point."""

CHANGED = "barrier", "cost", "penalty", "theta", "gap", "missed", "share"
"""Numbers that iterations give back."""

ENTERED = "thetas", "phis"
"""Arrays of a course."""

DECISIONS = tuple(name for name in compiled.Decisions._fields if name not in ENTERED)
"""Numbers of a course."""

TRAJECTORY = ("X", "X"), ("U", "U"), ("gaps", "opened"), ("residual", "residual")
"""Arrays of a point, and their names in its memory."""


class Alone:
    """Compiled iterations in the memory of a workplace."""

    def __init__(self, place: Workplace) -> None:
        self._place, self._own = place, place.own
        self._at: tuple[Point, Course] | None = None
        self._decisions = filled(compiled.Decisions, thetas=place.own["thetas"], phis=place.own["phis"])

    def iterate(self, point: Point, course: Course, most: int) -> tuple[int, list[list[float]]]:
        """Make iterations, up to ``most`` or `memory.MOST`: what the last came to, numbers of those with a record."""
        if self._at is None or self._at[0] is not point:
            self._enter(point, course)
        came, made = compiled.run(self._decisions.address, self._place.memory.address, min(most, MOST))
        return int(came), self._own["numbers"][:made].tolist()

    def _enter(self, point: Point, course: Course) -> None:
        """Copy a point and a course into the memory, to go on from there."""
        if course.known == UNKNOWN:
            point.contract()
        self._at, own, memory = (point, course), self._own, self._place.memory
        for name, here in TRAJECTORY:
            own[here][:] = getattr(point, name)
            setattr(point, name, own[here])
        own["errors"][:] = point.judged
        numbers = {name: getattr(point, name) for name in (*GIVEN, *CHANGED)}
        horizon = memory.torn_horizon if point.gap > 0.0 else memory.whole_horizon
        numbers |= {"rows": point.bounds.address, "horizon": horizon, "whole": int(point.whole)}
        assign(memory, numbers | {"lower": address(point.problem.lower), "upper": address(point.problem.upper)})
        self._place.backward.serve(horizon)
        assign(self._decisions, {name: getattr(course, name) for name in DECISIONS})
        for name in ENTERED:
            own[name][: course.entries] = getattr(course, name)[: course.entries]

    def leave(self) -> None:
        """Write trajectory, errors and numbers back to the point and the course."""
        if self._at is None:
            return
        (point, course), self._at, own, memory = self._at, None, self._own, self._place.memory
        backward = self._place.backward
        for name, here in TRAJECTORY:
            setattr(point, name, own[here].copy())
        for name, value in zip(CHANGED, read_all(memory, CHANGED), strict=True):
            setattr(point, name, value)
        vars(course).update(zip(DECISIONS, read_all(self._decisions, DECISIONS), strict=True))
        for name in ENTERED:
            getattr(course, name)[: course.entries] = own[name][: course.entries]
        point.judged, point.whole = Judged(*own["errors"].tolist()), read(memory, "whole") != 0
        point.contracted = course.known != MOVED
        self._place.take_back()
        backward.tear(point.gap > 0.0)
        point.swept_last = backward.swept_last(course.blend)


def alone_of(point: Point) -> Alone | None:
    """Compiled iterations of a point, if all of it is compiled; not where rows are elastic."""
    place = point.place
    if not point.at_once or point.elastic:
        return None
    if not isinstance(place.alone, Alone):
        place.alone = Alone(place)
    return place.alone

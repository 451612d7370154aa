"""Schedules of gaits for any number of legs: which feet stand in which phase.

A schedule is a sequence of phases. In each some feet stand and all others swing; a foot that swung and stands in the
next phase touches down between the two, in an impact that takes no time.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp.errors import (
    ProblemError,
    affordable,
    at_least_zero,
    choice,
    instance,
    items,
    positive,
    positive_integer,
    said,
    settle,
    suggesting,
    text,
)
from dynamics.robots.omissions import warn_once

logger = logging.getLogger("mayne")

COARSE = 0.2
"""Share of its duration by which a phase may be longer or shorter in steps of time before it is told: by as much as one
of three steps may be."""

Groups = Sequence[Sequence[str]]


class Interval(NamedTuple):
    """A phase: the feet that stand, for how long [s], and its name in reports."""

    stance: tuple[str, ...]
    duration: float
    name: str = ""


@dataclass(frozen=True, eq=False)
class Schedule:
    """Phases of the feet of a robot, one after the other.

    feet: their names.   phases: pairs or triples (who stands, how long [s], name), see `Interval`.
    Everything malformed raises ProblemError. A phase in which no foot stands is a flight: that is allowed, and said in
    `description` and in the log.
    """

    feet: tuple[str, ...]
    phases: tuple[Interval, ...]

    def __init__(self, feet: Sequence[str], phases: Iterable[Interval | tuple[Sequence[str], float]]) -> None:
        names, checked = _names("feet", feet), []
        for i, phase in enumerate(items("phases", phases, "(who stands, duration)")):
            if not isinstance(phase, (tuple, list)) or len(phase) not in (2, 3):
                raise ProblemError(f"phases[{i}]: expected (who stands, duration) or with a name, got {said(phase)}")
            given = (phase[0],) if isinstance(phase[0], str) else items(f"phases[{i}]", phase[0], "names of feet")
            for foot in given:
                choice(f"phases[{i}]", foot, names, "there is no foot")
                if given.count(foot) > 1:
                    raise ProblemError(f"phases[{i}]: {foot!r} is listed {given.count(foot)} times")
            duration = positive(f"duration of phases[{i}]", phase[1])
            stands = tuple(foot for foot in names if foot in given)
            name = text(f"name of phases[{i}]", phase[2]) if len(phase) == 3 else ""
            checked.append(Interval(stands, duration, name))
        if not checked:
            raise ProblemError("phases: expected at least one, got none")
        settle(self, feet=names, phases=tuple(checked))
        if self.flights:
            logger.info("%s", self.description)

    @property
    def duration(self) -> float:
        """Duration of all phases [s]."""
        return sum(phase.duration for phase in self.phases)

    @property
    def flights(self) -> tuple[int, ...]:
        """The phases in which nothing supports the robot."""
        return tuple(i for i, phase in enumerate(self.phases) if not phase.stance)

    @property
    def description(self) -> str:
        """One sentence: how long, how many phases, and whether it flies."""
        text = f"{len(self.phases)} phases of {len(self.feet)} feet in {self.duration:g} s"
        if not self.flights:
            return text
        where = ", ".join(f"phase {i} ({self.phases[i].duration:g} s)" for i in self.flights)
        return f"{text}; nothing supports the robot in {where}: it flies"

    def landing(self, i: int) -> tuple[str, ...]:
        """The feet that touch down at the beginning of phase i."""
        before = self.phases[i - 1].stance if i > 0 else self.phases[0].stance
        return tuple(foot for foot in self.phases[i].stance if foot not in before)

    def swinging(self, i: int) -> tuple[str, ...]:
        """The feet in the air during phase i."""
        return tuple(foot for foot in self.feet if foot not in self.phases[i].stance)

    def knots(self, dt: float) -> list[int]:
        """Number of steps of dt [s] in each phase, at least one."""
        step = positive("dt", dt)
        counts = [max(1, round(min(phase.duration / step, 1e18))) for phase in self.phases]
        longest = max(range(len(counts)), key=counts.__getitem__)
        given = f"duration of phases[{longest}], in steps of dt = {step:g}"
        affordable(given, self.phases[longest].duration, 100 * sum(counts))
        off = [abs(count * step / phase.duration - 1.0) for count, phase in zip(counts, self.phases, strict=True)]
        if off[i := max(range(len(off)), key=off.__getitem__)] > COARSE:
            told = f"{self.phases[i].duration:.3g} s lasts {counts[i] * step:.3g} s"
            warn_once(f"dt = {step:g} s is coarse: phases[{i}] of {told}, {counts[i]} of its steps")
        return counts

    def flags(self, dt: float) -> dict[str, NDArray[np.bool_]]:
        """Flags of each foot, true while it stands, at each step of dt [s] without impacts: for `viz.plot_schedule`."""
        counts = self.knots(dt)
        return {foot: np.repeat([foot in phase.stance for phase in self.phases], counts) for foot in self.feet}


@suggesting
def cycling(
    feet: Sequence[str], groups: Groups, swing: float, support: float, cycles: int = 1, flight: float = 0.0
) -> Schedule:
    """Groups of feet that swing one after the other: all stand, one group swings, all stand, the next one swings ...

    swing, support [s]: how long a group swings, and all feet stand in between and at both ends; support may be zero but
    at the ends. flight [s]: how long none stands after each swing, instead of a support.
    """
    swing, cycles = positive("swing", swing), positive_integer("cycles", cycles)
    support, flight = at_least_zero("support", support, " s"), at_least_zero("flight", flight, " s")
    feet, swinging = _names("feet", feet), []
    for i, group in enumerate(items("groups", groups, "groups of feet")):
        swinging.append((group,) if isinstance(group, str) else items(f"groups[{i}]", group, "feet"))
        if not swinging[i] or not all(foot in feet for foot in swinging[i]):
            raise ProblemError(f"groups[{i}]: expected feet of {said(feet)}, got {said(group)}")
    if not swinging:
        raise ProblemError("groups: expected at least one, got none")
    affordable("cycles", cycles, 100 * cycles * len(swinging))
    ends = support if support > 0.0 else swing
    phases: list[Interval] = [Interval(tuple(feet), ends, "stand")]
    for turn in range(cycles * len(swinging)):
        group = swinging[turn % len(swinging)]
        if turn > 0 and flight > 0.0:
            phases.append(Interval((), flight, "fly"))
        elif turn > 0 and support > 0.0:
            phases.append(Interval(tuple(feet), support, "support"))
        phases.append(Interval(tuple(foot for foot in feet if foot not in group), swing, f"swing {', '.join(group)}"))
    return Schedule(feet, [*phases, Interval(tuple(feet), ends, "stand")])


ORDERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "walk": (("RH",), ("RF",), ("LH",), ("LF",)),
    "trot": (("RF", "LH"), ("LF", "RH")),
    "pace": (("RF", "RH"), ("LF", "LH")),
    "bound": (("LF", "RF"), ("LH", "RH")),
}
"""Corners of a quadruped that swing together, one group after the other."""


@suggesting
def in_turn(corners: Mapping[str, str], gait: str) -> list[list[str]]:
    """Groups of feet that swing one after the other in one of `ORDERS`."""
    choice("gait", gait, ORDERS)
    instance("corners", corners, Mapping, "a mapping from LF, RF, LH and RH to feet")
    for corner in (name for group in ORDERS[gait] for name in group):
        if corner not in corners:
            raise ProblemError(f"corners: expected LF, RF, LH and RH, got {said(tuple(corners))}")
    return [[corners[name] for name in group] for group in ORDERS[gait]]


def jump(feet: Sequence[str], push: float, flight: float, land: float) -> Schedule:
    """All feet push off, fly and land, for so long [s]."""
    every = _names("feet", feet)
    push, flight, land = (positive(*given) for given in (("push", push), ("flight", flight), ("land", land)))
    return Schedule(every, [Interval(every, push, "push"), Interval((), flight, "fly"), Interval(every, land, "land")])


def stand(feet: Sequence[str], duration: float) -> Schedule:
    """All feet stand."""
    every = _names("feet", feet)
    return Schedule(every, [Interval(every, positive("duration", duration), "stand")])


def _names(field: str, feet: Sequence[str]) -> tuple[str, ...]:
    """Names of feet, each once."""
    names = tuple(feet) if isinstance(feet, str) else items(field, feet, "names")
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
        raise ProblemError(f"{field}: expected at least one name, each once, got {said(names)}")
    return names

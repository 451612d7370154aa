"""Numbers over time, beside a motion and on paper: positions, velocities and controls of a solution, or one's own."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import ProblemError, as_array, axes, instance, items, settle, suggesting, text
from dynamics.steps.free_start import inside
from viz.shapes import COLORS, GREY, Array, Color, css


@runtime_checkable
class Named(Protocol):
    """Motion that tells its numbers by name."""

    @property
    def t(self) -> Any: ...
    @property
    def X(self) -> Any: ...
    @property
    def q(self) -> Any: ...
    @property
    def v(self) -> Any: ...
    @property
    def u(self) -> Any: ...
    @property
    def problem(self) -> Any: ...


@runtime_checkable
class Told(Named, Protocol):
    """Solution that tells its numbers by name, gains among them."""

    @property
    def K(self) -> Any: ...


@runtime_checkable
class Acted(Named, Protocol):
    """Simulated motion, whose system and limits of controls (S, nu) are its own."""

    @property
    def system(self) -> Any: ...
    @property
    def limits(self) -> Any: ...


@runtime_checkable
class Timed(Protocol):
    """Solution whose durations were searched for."""

    @property
    def solution(self) -> Any: ...
    @property
    def durations(self) -> Any: ...


@runtime_checkable
class Replanned(Protocol):
    """Simulated motion under a receding horizon."""

    @property
    def play(self) -> Any: ...
    @property
    def milliseconds(self) -> Any: ...


def motion_of(given: Any) -> Any:
    """The motion within a solution of `solve_durations`, or a run of `simulate_receding`; itself of all others."""
    if isinstance(given, Timed):
        return given.solution
    return given.play if isinstance(given, Replanned) else given


def motions_of(given: Any) -> Any:
    """`motion_of` one, or of each of several by name."""
    return {k: motion_of(each) for k, each in given.items()} if isinstance(given, Mapping) else motion_of(given)


@suggesting
@dataclass(frozen=True)
class Signal:
    """Numbers over time.

    t (M,): when [s].   values (M, c), or (M,) of one: NaN where there is none.   names (c,): of the columns.
    unit: of all of them, for the axis.   lower, upper: limits of each column, (c,), or (M, c) over time; ±inf for none.
    held: whether each value holds until the next one, as controls do.
    """

    t: ArrayLike
    values: ArrayLike
    names: Sequence[str] = ("",)
    unit: str = ""
    lower: ArrayLike = -np.inf
    upper: ArrayLike = np.inf
    held: bool = False
    low: Array = field(init=False, repr=False)
    high: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        names = tuple(text("names: a name", name) for name in items("names", self.names, "names of columns"))
        t = as_array("t", self.t, (None,))
        if len(t) == 0 or (np.diff(t) < 0.0).any():
            raise ProblemError("t: expected at least one time, none before the one in front of it")
        count = len(names)
        shape = (len(t), count) if count != 1 or axes(self.values) > 1 else (len(t),)
        values = as_array("values", self.values, shape, finite=False).reshape(len(t), count)
        low, high = _limit("lower", self.lower, values), _limit("upper", self.upper, values)
        settle(self, t=t, values=values, names=names, low=low, high=high, unit=text("unit", self.unit))


def _limit(which: str, limit: ArrayLike, values: Array) -> Array:
    """A limit of each of ``values`` (M, c)."""
    shape = ((), values.shape[1:], values.shape)[min(axes(limit), 2)]
    return np.broadcast_to(as_array(which, limit, shape, finite=False), values.shape)


def signals_of(solution: Named) -> dict[str, Signal]:
    """Positions, velocities and controls of a solution, or of a simulated motion, with the limits of its robot and its
    problem.
    """
    solution = motion_of(solution)
    instance("solution", solution, Named, "a Solution, or what mayne.simulate returns,")
    t, own = solution.t, solution.system if isinstance(solution, Acted) else solution.problem.dynamics
    system, X, _ = inside(own, np.asarray(solution.X))
    robot = getattr(system, "robot", None)
    named: Any = getattr(system, "named_numbers", None)
    if getattr(robot, "ranges", None) is None or named is None:
        found = {"state": _column(t, solution.q, None)}
    elif system is own:
        found = _of_joints(t, solution.q, solution.v, robot)
    else:  # a robot in compositions
        labels, rates, _ = named
        q, v = np.split(X, [len(labels)], axis=1)
        since = t[len(t) - len(X) :]  # a free start may have states before
        places, speeds = (dict(zip(*pair, strict=True)) for pair in ((labels, q.T), (rates, v.T)))
        found = _of_joints(since - since[0], places, speeds, robot)
    low, high = solution.limits if isinstance(solution, Acted) else (solution.problem.lower, solution.problem.upper)
    u, unit = solution.u, _unit_of_controls(own)
    acts = np.diff(t) > 0.0  # not in impacts, which take no time
    applied = Signal(t[:-1][acts], np.asarray(u)[acts], tuple(u), unit, low[acts], high[acts], held=True)
    return found | {"control": applied}


def _of_joints(t: Array, q: Mapping[str, Array], v: Mapping[str, Array], robot: Any) -> dict[str, Signal]:
    """Positions and velocities of joints by name, with their limits."""
    ranges, rate = robot.ranges, robot.ranges.velocity
    units = ("", "") if robot.is_hybrid else _units(robot)
    places = _column(t, q, (ranges.lower, ranges.upper), units[0])
    return {"position": places, "velocity": _column(t, v, (-rate, rate), units[1])}


def _units(robot: Any) -> tuple[str, str]:
    """Units of positions and of velocities; 1 stands for quaternions and (cos, sin)."""
    found, turns = set(), _turns(robot)
    for joint in list(robot.model.joints)[1:]:
        own = turns[joint.idx_v : joint.idx_v + joint.nv]
        plain = joint.nq == joint.nv
        found |= {"rad" if turning and plain else "1" if turning else "m" for turning in own}
    return _listed(found), _listed({"rad/s" if turning else "m/s" for turning in turns})


def _unit_of_controls(system: Any) -> str:
    """Unit of controls that each are the force or torque of one degree of freedom; none of others."""
    S = getattr(system, "actuation", None)
    if S is None or system.robot.is_hybrid or getattr(system, "prescribed", ()):
        return ""
    if not (np.isin(S, (0.0, 1.0)).all() and (S.sum(axis=0) == 1.0).all()):
        return ""
    return _listed({"N m" if turning else "N" for turning in _turns(system.robot)[S.argmax(axis=0)]})


def _turns(robot: Any) -> Array:
    """Whether each degree of freedom (nv,) is a turn."""
    return np.asarray(robot.tree.subspace[:, 3:].any(axis=1))


def _listed(units: set[str]) -> str:
    """Units that are among those of numbers of robots, in one order."""
    return ", ".join(unit for unit in ("m", "rad", "1", "m/s", "rad/s", "N", "N m") if unit in units)


def _column(t: Array, columns: Any, limits: tuple[Array, Array] | None, unit: str = "") -> Signal:
    values = np.stack([*columns.values()], axis=1) if columns else np.empty((len(t), 0))
    if limits is None or any(len(limit) != values.shape[1] for limit in limits):
        return Signal(t, values, tuple(columns), unit)
    return Signal(t, values, tuple(columns), unit, *limits)


def panels(signals: Sequence[tuple[str, Color | None, Mapping[str, Signal]]]) -> list[dict[str, Any]]:
    """Plots of a page: of one motion all columns of a quantity, of several each column of all; JSON's numbers.

    signals: name, colour and signals of each motion.
    """
    found = []
    if len(signals) == 1:
        for title, signal in signals[0][2].items():
            colors = itertools.cycle(COLORS)
            lines = [_line(name, next(colors), signal, i) for i, name in enumerate(signal.names)]
            found.append({"title": titled(title, signal), "lines": lines})
        return found
    for title, first in (signals[0][2] if signals else {}).items():
        for column in first.names:
            lines = [
                _line(motion, color or GREY, own[title], own[title].names.index(column))
                for motion, color, own in signals
                if title in own and column in own[title].names
            ]
            found.append({"title": f"{titled(title, first)}, {column}", "lines": lines})
    return found


def titled(title: str, signal: Signal) -> str:
    """Title of a plot of a signal, with its unit."""
    return f"{title} [{signal.unit}]" if signal.unit else title


def _line(label: str, color: Color, signal: Signal, i: int) -> dict[str, Any]:
    t, values = np.asarray(signal.t), np.asarray(signal.values)
    limits = [_plain(limit[:, i]) for limit in (signal.low, signal.high) if np.isfinite(limit[:, i]).any()]
    return {
        "label": label, "color": css(color), "t": t.tolist(), "y": _plain(values[:, i]), "limits": limits,
        "held": signal.held,
    }  # fmt: skip


def _plain(values: Array) -> list[float | None]:
    """Numbers as JSON has them, with null for those that are none."""
    return [float(f"{y:.6g}") if np.isfinite(y) else None for y in values]

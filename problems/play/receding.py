"""Receding horizons played in MuJoCo: a plan is asked for at a fixed rate, and acts some time after its measurement."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddp.errors import (
    ProblemError,
    affordable,
    as_array,
    at_least_zero,
    choice,
    instance,
    integer,
    pointing,
    positive,
    said,
    suggesting,
)
from ddp.feedback.policy import Policy, within_motion
from ddp.feedback.succession import Succession
from ddp.protocols import Array
from ddp.receding import RecedingHorizon
from ddp.solutions.explanation import misses_of
from dynamics.robots.mjcf.compiling import quietly
from dynamics.robots.omissions import warn_once
from problems.legs import base_pose, heading_of
from problems.play.played import Play, PlayedSystem
from problems.play.simulation import (
    Setting,
    Touching,
    at_limits,
    control_step,
    feet_of,
    limits_at,
    mass_factor,
    played,
    pushed,
    system_of,
    world_of,
)
from problems.walking.controller import Walking
from problems.walking.windows import as_command

Commands = Sequence[float] | Mapping[float, Sequence[float]] | Callable[[float], Sequence[float]]
"""One command (3,), commands by the times [s] from which they hold, or a function of time."""

Planner: TypeAlias = Walking | RecedingHorizon
"""Receding horizon: of a gait, or of a robot's problem."""

Varying: TypeAlias = Callable[[float], Mapping[str, ArrayLike]]
"""Numbers of a problem, by the names that `Problem.varying` takes, as a function of time [s]."""


@pointing()
@dataclass(frozen=True, eq=False)
class Run:
    """Simulated motion under a receding horizon.

    play: times ``t``, states ``X``, controls ``U``; its error is the distance from the plan in force.
    commands, velocity (S+1, 3): of a floating base forward and to the left [m/s] and turning [rad/s], in its heading,
    as they were commanded and as they were.   milliseconds (P,): how long each plan but the first took.
    misses: of a `RecedingHorizon`, how far the last state is from the targets of the last plan's end, in words.
    latency [s]: from a measurement to when its plan was in force, however long it took.
    """

    play: Play
    commands: Array = field(repr=False)
    velocity: Array = field(repr=False)
    milliseconds: Array = field(repr=False)
    misses: tuple[str, ...] = ()
    latency: float = 0.0

    @property
    def fell(self) -> bool:
        """Whether the base came down."""
        return self.play.fell

    def steady(self, settled: float = 1.0) -> list[tuple[Array, Array]]:
        """Commands (3,) and mean velocities (3,) while each lasted, but for the first ``settled`` seconds of each."""
        edges, t = np.flatnonzero(np.diff(self.commands, axis=0).any(axis=1)) + 1, self.play.t
        found = []
        for begin, end in pairwise([0, *edges.tolist(), len(t)]):
            part = slice(begin + int(np.searchsorted(t[begin:end], t[begin] + settled)), end)
            if part.start < end:
                found.append((self.commands[begin], self.velocity[part].mean(axis=0)))
        return found

    def to_csv(self, path: str | os.PathLike[str]) -> Path:
        """Write the motion as a table, see `Play.to_csv`."""
        return self.play.to_csv(path)

    def to_pandas(self) -> Any:
        """The motion as a pandas.DataFrame, see `Play.to_pandas`."""
        return self.play.to_pandas()

    def __str__(self) -> str:
        if self.fell:
            return str(self.play)
        done = "stayed up" if self.velocity.any() else "moved"  # of a floating base, or of a fixed one
        told = f"{done} for {self.play.t[-1]:.2f} s"
        if len(self.milliseconds):
            median, p95 = np.percentile(self.milliseconds, [50, 95])
            told += f", plans of {median:.1f} ms (95 % below {p95:.1f} ms)"
            late = float(np.mean(self.milliseconds > 1e3 * self.latency))
            if self.latency > 0.0 and late > 0.0:
                told += f", {100.0 * late:.0f} % of them longer than the latency of {1e3 * self.latency:g} ms"
        return "; at the end ".join([told + self.play.saturated, *self.misses])


@suggesting
def simulate_receding(
    planner: Planner,
    duration: float = 5.0,
    command: Commands = (0.0, 0.0, 0.0),
    every: float = 0.02,
    pushes: Mapping[float, ArrayLike] | None = None,
    inside: str = "mujoco",
    mass: float = 1.0,
    friction: float | None = None,
    rate: float = 1000.0,
    delay: float = 0.0,
    noise: float = 0.0,
    softness: float = 0.02,
    seed: int = 0,
    vary: Varying | None = None,
) -> Run:
    """Let a receding horizon control its robot in MuJoCo, planned again ``every`` so many seconds.

    Each plan begins its planner's latency after the measurement that it is made of; the one before acts until then.
    The robot begins at rest as it stands (`Walking`), or in the problem's x0.

    duration [s].   command: of `Walking`, see `Commands`.   friction: of the ground under feet, by default 0.7.
    pushes: velocities that a floating base is given [m/s], or joints of a robot whose base is fixed [rad/s, m/s], by
    time [s]; these, ``inside`` and the others are as of `simulate`; delay [s]: of the controls between plans.
    vary: of a `RecedingHorizon`: called with the time [s] of each measurement for targets, weights, limits or bounds of
    the plan that is made of it, as `RecedingHorizon.vary` takes them: ``lambda t: {"target": pose_at(t)}``.
    Raises ProblemError for bad input, and ModelError where MuJoCo is not installed.
    """
    instance("planner", planner, (Walking, RecedingHorizon), "Walking(...) or RecedingHorizon(problem)")
    choice("inside", inside, ("mujoco",))
    system, wanted = system_of(planner.system, "planner"), _as_function(command)
    if vary is not None and not (callable(vary) and isinstance(planner, RecedingHorizon)):
        what = 'a function of time for a RecedingHorizon, as lambda t: {"target": pose_at(t)}'
        raise ProblemError(f"vary: expected {what}, got {said(vary)}")
    if not isinstance(planner, Walking) and (callable(command) or np.any(_rows(command))):
        raise ProblemError("command: expected none, it is what gaits walk by")
    period, step = positive("every", every), control_step(rate, positive("duration", duration), system.dt)
    count = max(1, round(duration / step))
    if period > duration:
        longer = f"{period:g} s is longer than the duration of {duration:g} s"
        warn_once(f"every: {longer}, so the first plan is the only one")
    affordable("duration", duration, 4 * count * (system.nx + system.nu))
    if pushes is not None and not isinstance(pushes, Mapping):
        raise ProblemError(f"pushes: expected a mapping from times to velocities, as {{0.5: 0.3}}, got {said(pushes)}")
    kicks = {}
    for t, push in (pushes or {}).items():
        at = float(as_array("pushes", t, ())) / step
        if not -0.5 < at < count - 0.5:
            raise ProblemError(f"pushes: expected times from 0 to {count * step:g} s, got {t:g}")
        kicks[round(at)] = pushed(push, system.robot, f"pushes[{float(t):g}]")
    if friction is not None and not feet_of(system):
        raise ProblemError(f"friction: expected none, {system.robot.name} does not stand on feet")
    mu = 0.7 if friction is None else positive("friction", friction)
    soft, factor = positive("softness", softness), mass_factor(mass)
    late, spread = at_least_zero("delay", delay), at_least_zero("noise", noise)
    within_motion("delay", late, count * step)
    rng = np.random.default_rng(integer("seed", seed))
    planner.restart()

    def asked(t: float) -> Sequence[float]:
        """The command of time t [s], after the problem has been given the numbers of then."""
        if vary is not None and isinstance(planner, RecedingHorizon):
            numbers = vary(t)
            instance("vary", numbers, Mapping, "a function that returns a mapping of names to numbers")
            planner.vary(numbers)
        return wanted(t)

    replanned = Replanned(planner, period, asked)
    limits: list[tuple[Array, Array]] = []
    clipped: list[NDArray[np.bool_]] = []

    def control(t: float, x: Array, touching: Touching) -> Array:
        u = replanned(t, x, touching)
        limits.append(limits_at(*replanned.acting))
        clipped.append(at_limits(u, *limits[-1]))
        return u

    with quietly():  # a fall is a result
        world = world_of(system, planner.x0, mu, soft, step)
        setting = Setting(world, system, factor, step, count, kicks, late, spread, rng)
        play = played(setting, planner.x0, control, replanned.reference).with_limits(clipped)
    asked_for = np.maximum(np.arange(len(play.U)) - round(late / step), 0)
    low, high = (np.array(side)[asked_for] for side in zip(*limits, strict=True))
    own = planner.problem if isinstance(planner, RecedingHorizon) else None
    play = replace(play, bounds=(low, high), problem=own)
    commands = np.array([as_command(wanted(t)) for t in play.t])
    terms = own.terminal if own is not None and np.isfinite(play.X[-1]).all() else ()
    misses = tuple(misses_of(terms, play.X[-1]))
    return Run(play, commands, _velocity(system, play.X), np.array(replanned.milliseconds[1:]), misses, planner.latency)


class Replanned:
    """A controller that asks for plans, each of which acts from when it begins.

    milliseconds: how long each plan took.   acting: the policy that was asked last, and for which time of its own [s].
    """

    def __init__(self, planner: Planner, every: float, command: Callable[[float], Sequence[float]]) -> None:
        self._planner, self._every, self._command = planner, every, command
        self._asked, self._policies = -np.inf, Succession()
        self.milliseconds: list[float] = []

    def __call__(self, t: float, x: Array, touching: Touching) -> Array:
        """The control (nu,) at time t [s] in state x (nx,), wherever feet touch."""
        if t > self._asked + self._every - 1e-9:
            self._asked, start = t, time.perf_counter()
            self._policies.add(self._planner.plan(t, x, self._command(t)))
            self.milliseconds.append(1e3 * (time.perf_counter() - start))
        policy = self._policies.at(t)
        now = policy.inside(t)
        self.acting: tuple[Policy, float] = policy, now
        return policy(now, x)

    def reference(self, t: float) -> Array:
        """The state (nx,) of the plan in force."""
        policy = self._policies.at(t)
        return policy.reference(policy.inside(t))


def _rows(command: Sequence[float] | Mapping[float, Sequence[float]]) -> list[Sequence[float]]:
    """Commands, whenever they hold."""
    return [*command.values()] if isinstance(command, Mapping) else [command]


def _as_function(command: Commands) -> Callable[[float], Sequence[float]]:
    if callable(command):
        return command
    if not isinstance(command, Mapping):
        only = as_command(command)
        return lambda t: only
    times = np.sort(as_array("command", list(command), (None,)))
    if not times.size or times[0] > 0.0:
        raise ProblemError("command: expected one from time 0 on")
    rows = [as_command(command[t]) for t in times.tolist()]
    return lambda t: rows[int(np.searchsorted(times, t + 1e-9, side="right")) - 1]


def _velocity(system: PlayedSystem, X: Array) -> Array:
    """Velocities (S+1, 3) of a floating base in its heading; zeros of a fixed one."""
    found, robot = np.zeros((len(X), 3)), system.robot
    if robot.is_floating:
        for row, x in zip(found, X, strict=True):
            R = base_pose(robot, x).rotation
            angle = heading_of(R)
            c, s = np.cos(angle), np.sin(angle)
            v, w = x[robot.nq + robot.floating_dofs[:6]].reshape(2, 3) @ R.T
            row[:] = c * v[0] + s * v[1], c * v[1] - s * v[0], w[2]
    return found

"""Policies and receding horizons on measured joints, by name: what a node of ROS does, without ROS."""

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import ProblemError, as_array, choice, items, positive, said, text
from ddp.feedback.policy import Policy
from ddp.feedback.succession import Succession
from ddp.protocols import Array
from ddp.receding import RecedingHorizon
from ddp.solutions.solution import Solution
from problems.interop.motion import CIRCLE, FREE, angle, displaced, joints_of, singles
from problems.play.policies import Motors
from problems.play.simulation import system_of
from problems.walking.controller import Walking
from problems.walking.windows import Command, as_command

ROUNDING = 1e-9
"""Share of an effort by which one counts as cut to its limit."""


class Points(NamedTuple):
    """Motion ahead: times (M,) from now on [s], positions and velocities (M, J) of the joints."""

    times: Array
    positions: Array
    velocities: Array


class Follower:
    """Efforts of a robot's joints from what is measured, at any rate.

        follower = interop.Follower(solution)              # or mayne.Walking(...), or a RecedingHorizon
        follower.measure(now, names, positions, velocities)
        efforts = follower.control(now)                    # in the order of follower.joints; None while it waits

    source: a Solution, whose policy is followed once and held at its end; a `Policy`; or a receding horizon, `Walking`
    or `RecedingHorizon`, for which `plan` is called every so often, in another thread if need be.
    joints: names in the order of efforts; by default all with one degree of freedom that a motor moves.
    patience [s]: the oldest measurement that is acted on.
    within [rad, m]: largest distance of a joint, or of the base, from where a Solution begins, and, after a stop, from
    where any motion is by then. Beyond, a Solution gives no efforts, and a receding horizon plans afresh.
    waiting: why there are no efforts, or "".   started: time [s] of the first ones, or None.
    cut: of the last efforts those beyond the limits of the robot's file, by name, as the policy wanted them [N m, N];
    `control` returns the limits in their place.
    walks: whether it takes commands of velocity.   plans: whether `plan` is to be called.   floats: whether the base is
    free, and measured by `measure_base`.
    Times are those of one clock; call `restart` after it was set back. Raises ProblemError for bad input.
    """

    def __init__(
        self, source: Solution | Policy | Walking | RecedingHorizon, joints: Sequence[str] | None = None,
        patience: float = 0.05, within: float = 0.2,
    ) -> None:  # fmt: skip
        policy = source.policy if isinstance(source, Solution) else source
        if not isinstance(policy, (Policy, Walking, RecedingHorizon)):
            raise ProblemError(
                f"source: expected a Solution, a Policy, Walking(...) or a RecedingHorizon, got {said(source)}"
            )
        system = system_of(policy.system, "source")
        self.system, self.robot = system, system.robot
        self._own = joints_of(self.robot)
        kinds = {*(joint.name for joint in singles(self._own)), *(j.name for j in self._own if j.kind == FREE)}
        if odd := [joint.name for joint in self._own if joint.name not in kinds]:
            raise ProblemError(f"source: expected hinges, sliders and a free base, {self.robot.name} has {odd[0]}")
        self._free = next((joint for joint in self._own if joint.kind == FREE), None)
        self._singles = {joint.name: joint for joint in singles(self._own)}
        self.joints = self._chosen(joints)
        self._columns = [self._singles[name].iv for name in self.joints]
        self.patience, self.within = positive("patience", patience), positive("within", within)
        self._planner = None if isinstance(policy, Policy) else policy
        self.walks, self.plans = isinstance(policy, Walking), self._planner is not None
        self.floats = self._free is not None
        self._policies, self._lock = Succession(), threading.Lock()
        if isinstance(policy, Policy):
            self._policies.add(policy)
        self._command = Command()
        self._planned = 0  # the epoch of the last plan
        self._motors = Motors(system)
        self._epoch = 0  # of restarts: a plan that was begun before one is of no use after it
        self.waiting, self._acting = "", False
        self.started: float | None = None
        self.cut: dict[str, float] = {}
        self._forget()

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    def warm(self) -> None:
        """Compile what `control` and `plan` call, so that they answer in time from the first call on."""
        if self._planner is None:
            policy = self._policies.at(0.0)
        else:
            for t in (0.0, 1.0):  # the first one is made otherwise
                policy = self._planner.plan(t, self._planner.x0)
            self._planner.restart()
        policy(policy.inside(0.0), policy.X[0])

    def restart(self) -> None:
        """Forget what was measured, planned and followed, as after a clock was set back: begin again at the start."""
        with self._lock:
            self._forget()
            self._afresh()

    def measure(self, now: float, names: Sequence[str], positions: ArrayLike, velocities: ArrayLike) -> list[str]:
        """Take positions [rad, m] and velocities of some joints at time now [s]; returns names that it does not know.

        Nothing is taken of a message with numbers that are missing or not finite, with a name twice, or that is older
        than what is known: ProblemError.
        """
        given = _texts("names", names)
        if len({*given}) < len(given):
            raise ProblemError("names: expected each once")
        q, v = as_array("positions", positions, (len(given),)), as_array("velocities", velocities, (len(given),))
        time = float(as_array("now", now, ()))
        with self._lock:
            self._follows(time, given)
            for name, place, rate in zip(given, q.tolist(), v.tolist(), strict=True):
                joint = self._singles.get(name)
                if joint is None:
                    continue
                numbers = [np.cos(place), np.sin(place)] if joint.kind == CIRCLE else [place]
                self._x[joint.iq : joint.iq + len(numbers)] = numbers
                self._x[self.robot.nq + joint.iv] = rate
                self._seen[name] = time
        return [name for name in given if name not in self._singles]

    def measure_base(
        self, now: float, position: ArrayLike, quaternion: ArrayLike, linear: ArrayLike, angular: ArrayLike
    ) -> None:
        """Take place [m], attitude (x, y, z, w) and velocities [m/s, rad/s] of the free base, these in its own axes."""
        if self._free is None:
            raise ProblemError(f"position: expected none, the base of {self.robot.name} is fixed")
        rotation = as_array("quaternion", quaternion, (4,))
        if not 0.9 < (length := float(np.linalg.norm(rotation))) < 1.1:
            raise ProblemError(f"quaternion: expected one of length 1, x y z w, got one of length {length:.3g}")
        place, moving, turning = (
            as_array(field, value, (3,))
            for field, value in (("position", position), ("linear", linear), ("angular", angular))
        )
        time, iq, iv = float(as_array("now", now, ())), self._free.iq, self.robot.nq + self._free.iv
        with self._lock:
            self._follows(time, [self._free.name])
            self._x[iq : iq + 7] = displaced(self._free.place.inverse(), np.append(place, rotation / length)[None])[0]
            self._x[iv : iv + 6] = [*moving, *turning]
            self._seen[self._free.name] = time

    def command(self, forward: float, left: float, turning: float) -> None:
        """Walk with a velocity [m/s, m/s, rad/s] from the next plan on."""
        if not self.walks:
            raise ProblemError("command: expected none, it is what gaits walk by")
        self._command = as_command((forward, left, turning))

    def plan(self, now: float) -> bool:
        """Plan again from what is measured, if that is whole and fresh; whether it did. For receding horizons."""
        if self._planner is None:
            raise ProblemError("plan: expected of receding horizons alone")
        with self._lock:
            x, self.waiting, epoch = self._x.copy(), self._missing(now), self._epoch
            command, again = self._command, epoch != self._planned
        if self.waiting:
            return False
        if again:
            self._planner.restart()
        policy = self._planner.plan(now, x, command)
        with self._lock:
            self._planned = epoch
            if epoch == self._epoch:
                self._policies.add(policy)
            return epoch == self._epoch

    def control(self, now: float) -> Array | None:
        """Efforts [N m, N] of the joints, in their order, at time now [s]; None while it waits."""
        time = float(as_array("now", now, ()))
        with self._lock:
            self.waiting = self._missing(time) or self._away(time)
            self._acting = not self.waiting
            if self.waiting:
                return None
            self.started = time if self.started is None else self.started
            t = time if self.plans else time - self.started
            policy, x = self._policies.at(t), self._x.copy()
        u = policy(policy.inside(t), x)
        wanted, efforts = (made[self._columns] for made in (self.system.actuation @ u, self._motors(u)))
        over = np.abs(wanted - efforts) > ROUNDING * np.abs(wanted)
        self.cut = {self.joints[i]: float(wanted[i]) for i in np.flatnonzero(over)}
        return np.asarray(efforts)

    def ahead(self, now: float) -> Points | None:
        """The motion that is followed from time now [s] on, for those who show it; None before there is one."""
        with self._lock:
            if not len(self._policies):
                return None
            t = now if self.plans else 0.0 if self.started is None else now - self.started
            policy = self._policies.at(t)
        later = policy.starts > t
        X, nq, starts = policy.X[later], self.robot.nq, policy.starts[later]
        joints = [self._singles[name] for name in self.joints]
        places = np.stack([angle(X[:, :nq], X[:, nq:], starts, joint) for joint in joints], axis=1)
        return Points(starts - t, places, X[:, [nq + joint.iv for joint in joints]])

    def _chosen(self, joints: Sequence[str] | None) -> list[str]:
        moved = {joint.name for joint in self._singles.values() if self.system.actuation[joint.iv].any()}
        acting = np.flatnonzero(self.system.actuation.any(axis=1)).tolist()
        if {*acting} - {joint.iv for joint in self._singles.values()}:
            raise ProblemError(f"source: expected motors at hinges and sliders alone, of {self.robot.name}")
        if joints is None:
            return [name for name in self._singles if name in moved]
        chosen = _texts("joints", joints)
        for i, name in enumerate(chosen):
            choice(f"joints[{i}]", name, moved, f"{self.robot.name} has no motor at")
        if len({*chosen}) < len(chosen):
            raise ProblemError("joints: expected each once")
        if left := moved - {*chosen}:
            raise ProblemError(f"joints: expected all motors, {min(left)} is missing")
        return chosen

    def _forget(self) -> None:
        """Know nothing of the robot, and follow nothing."""
        self._x = np.full(self.system.nx, np.nan)
        self._seen = dict.fromkeys([*self._singles, *([] if self._free is None else [self._free.name])], -np.inf)
        self.waiting, self.started, self._acting, self.cut = "nothing is measured", None, False, {}

    def _afresh(self) -> None:
        """Have the next plan be a first one."""
        if self._planner is not None:
            self._policies, self._epoch = Succession(), self._epoch + 1

    def _follows(self, time: float, names: list[str]) -> None:
        """Raise ProblemError where one of the joints was measured after a time [s]."""
        for name in names:
            if (last := self._seen.get(name, time)) > time:
                raise ProblemError(f"now: expected {last:g} s or later, when {name} was measured, got {time:g}")

    def _missing(self, now: float) -> str:
        """Measurements that are missing, too old, or of a time to come, in words."""
        never = [name for name, time in self._seen.items() if time == -np.inf]
        if never:
            return f"waits for {', '.join(never[:3])}{', ...' if len(never) > 3 else ''}"
        name = min(self._seen, key=lambda name: self._seen[name])
        age = now - self._seen[name]
        if age > self.patience:
            return f"{name} was measured {age:.2f} s ago"
        name = max(self._seen, key=lambda name: self._seen[name])
        ahead = self._seen[name] - now
        return f"{name} was measured {ahead:.2f} s after now" if ahead > self.patience else ""

    def _away(self, now: float) -> str:
        """Why what is followed cannot begin, or go on after a stop, at time now [s]."""
        if not len(self._policies):
            return "waits for a plan"
        if self._acting or (self.plans and self.started is None):
            return ""
        t = now if self.plans else 0.0 if self.started is None else now - self.started
        policy = self._policies.at(t)
        error = self.system.difference(policy.reference(policy.inside(t)), self._x)
        far = {name: abs(error[joint.iv]) for name, joint in self._singles.items()}
        if self._free is not None:
            line, turn = np.split(error[self._free.iv : self._free.iv + 6], 2)
            far[self._free.name] = max(np.linalg.norm(line), np.linalg.norm(turn))
        name = max(far, key=lambda name: far[name])
        if far[name] <= self.within:
            return ""
        if self.plans:
            self._afresh()
            return "waits for a plan from where it is after the stop"
        where = "the start" if self.started is None else f"where the motion is after {t:.1f} s; it stopped on the way"
        return f"{name} is {far[name]:.2g} rad or m from {where}"


def _texts(field: str, given: Sequence[str]) -> list[str]:
    return [text(f"{field}[{i}]", name) for i, name in enumerate(items(field, given, "names of joints"))]

"""Windows of a gait that repeats itself: the problem of one cycle from any of its steps on.

Everything that stays is made once: the system's modes and the terms. A window places them, with references of its own,
at other knots, which costs no more than a millisecond or two.

A foot lands where the body that moves as commanded holds it halfway through its stance, moved by the capture point's
share of the velocity that is too much, ½ √(h/g) (v - v_command) (Raibert 1986; Pratt et al. 2006).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ddp.costs.batch import BatchTerm
from ddp.errors import ProblemError, as_array, axes
from ddp.guesses import smooth
from ddp.problem import Problem
from ddp.protocols import Array
from dynamics.contacts.contact import Contact
from dynamics.phases.phase import stretches
from dynamics.robots.libraries import pin
from problems.gait_terms import GaitTerms
from problems.legs import base_pose, heading_of, upright
from problems.walking.cycle import Cycle

CAPTURE = 0.5
"""Share of √(h/g) times the velocity that is too much by which feet land further away."""

SWEPT = 4.0
"""Heights of the centre of mass that a foot that stands may be passed by: by half of it, it is 63° from upright."""


class Command(NamedTuple):
    """Velocity of the body forward and to the left [m/s] and rate of turning [rad/s], in its heading."""

    forward: float = 0.0
    left: float = 0.0
    turning: float = 0.0


def as_command(given: Sequence[float]) -> Command:
    """A command; ProblemError for what is none."""
    numbers = as_array("command", given, (None,) if axes(given) else ())
    if numbers.shape != (3,):
        raise ProblemError(
            f"command: expected three numbers, forward and to the left [m/s] and turning [rad/s], got {numbers.size}"
        )
    return Command(*numbers.tolist())


class Path(NamedTuple):
    """Level motion of the body at a commanded velocity.

    place (2,) [m], heading [rad]: where it is at time 0.
    """

    place: Array
    heading: float
    command: Command

    def at(self, t: Array) -> tuple[Array, Array]:
        """Places (M, 2) [m] and headings (M,) [rad] at times t (M,) [s]: on an arc, or a line."""
        half = 0.5 * self.command.turning * t
        chord = t * np.sinc(half / np.pi)
        c, s = np.cos(self.heading + half), np.sin(self.heading + half)
        v, w = self.command[:2]
        moved = np.stack([c * v - s * w, s * v + c * w], axis=-1)
        return self.place + chord[:, None] * moved, self.heading + 2.0 * half


class Swing(NamedTuple):
    """A foot in the air between two steps of a window, which may begin before it and end behind it."""

    foot: int
    lifted: int
    landed: int
    start: Array
    end: Array

    def places(self, steps: Array, lift: float) -> Array:
        """Places (M, 3) [m] at some steps: smooth from start to end, and up to ``lift`` [m] above the line."""
        s = np.clip((steps - self.lifted) / (self.landed - self.lifted), 0.0, 1.0)[:, None]
        along = smooth(s)
        return self.start + along * (self.end - self.start) + lift * np.sin(np.pi * s) ** 2 * np.array([0.0, 0.0, 1.0])


class Window(NamedTuple):
    """References of a window: the body's path, the height of the ground [m], and feet that swing, by its steps."""

    path: Path
    floor: float
    swings: list[Swing]


class Ground:
    """Knowledge of where feet stand, or stood before they left the ground.

    places (F, 3) [m]: of a robot in state x (nx,) at first, whose feet all stand.
    """

    def __init__(self, cycle: Cycle, x: Array) -> None:
        self._cycle, stance = cycle, cycle.stance
        model = stance.robot.model
        self._data, self._frames = model.createData(), [stance.robot.frame_id(foot) for foot in stance.feet]
        base = base_pose(stance.robot, stance.q)
        self._homes = (stance.places - base.translation)[:, :2] @ _turn(heading_of(base.rotation))
        self.places = self._measured(x)

    def window(self, step: int, x: Array, command: Command) -> Window:
        """The references of one cycle from a step on, in state x (nx,); ProblemError where no leg could follow."""
        cycle, stance = self._cycle, self._cycle.stance
        self._check(command)
        flying = cycle.since(step) < cycle.swinging
        self.places = np.where(flying[:, None], self.places, self._measured(x))
        floor = float(self.places[slice(None) if flying.all() else ~flying, 2].mean())
        base, nq = base_pose(stance.robot, x), stance.robot.nq
        path = Path(base.translation[:2], heading_of(base.rotation), command)
        wanted = _turn(path.heading) @ np.array(command[:2])
        aside = CAPTURE * stance.unit * ((base.rotation @ x[nq : nq + 3])[:2] - wanted)
        return Window(path, floor, self._swings(step, path, aside, floor))

    def _check(self, command: Command) -> None:
        """Raise ProblemError for a command by which the body leaves feet behind while they stand, see `SWEPT`."""
        cycle, height = self._cycle, self._cycle.stance.height
        standing = cycle.dt * float(cycle.steps - cycle.swinging.min())
        fastest = SWEPT * height / standing
        speed = float(np.hypot(*command[:2])) + abs(command.turning) * float(np.linalg.norm(self._homes, axis=1).max())
        if speed > fastest:
            raise ProblemError(
                f"command: expected speeds of up to {fastest:.2g} m/s at the feet, of turning too, got {speed:.3g}: a"
                f" foot stands for {standing:.2g} s, and legs {height:.2g} m high cannot sweep further meanwhile"
            )

    def _swings(self, step: int, path: Path, aside: Array, floor: float) -> list[Swing]:
        """The swings of all feet that begin before the end of the window; aside (2,) [m]: how far they land away."""
        cycle, found = self._cycle, []
        steps, since = cycle.steps, cycle.since(step)
        for foot, (done, swing) in enumerate(zip(since.tolist(), cycle.swinging.tolist(), strict=True)):
            landed, start = swing - done + (0 if done < swing else steps), self.places[foot]
            while landed - swing < steps:
                place, heading = path.at(np.array([cycle.dt * (landed + 0.5 * (steps - swing))]))
                end = np.array([*(place[0] + _turn(heading[0]) @ self._homes[foot] + aside), floor])
                found.append(Swing(foot, landed - swing, landed, start, end))
                landed, start = landed + steps, end
        return found

    def _measured(self, x: Array) -> Array:
        """Places (F, 3) [m] of the feet in a state."""
        robot = self._cycle.stance.robot
        pin.framesForwardKinematics(robot.model, self._data, x[: robot.nq])
        return np.array([self._data.oMf[frame].translation for frame in self._frames])


def _turn(angle: float) -> Array:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s], [s, c]])


class Windows:
    """Problems of one cycle each.

    terms: of the gait.   lift [m]: how high feet swing.
    """

    def __init__(self, cycle: Cycle, terms: GaitTerms, lift: float) -> None:
        self.cycle, self.terms, self.lift = cycle, terms, lift
        system, stance, nowhere = cycle.system, cycle.stance, np.zeros((2, 3))
        still = np.concatenate([stance.q, np.zeros(stance.robot.nv)])
        contacts = {_names(phase.contacts): phase.contacts for phase in system.phases if phase.contacts}
        struck = {_names(phase.struck): phase.struck for phase in system.phases if phase.struck}
        self._always, self._end = terms.always(system.nu), terms.end(system, still)
        self._follow = terms.follow(system, np.stack([still, still]))
        self._paths = [terms.path(foot, nowhere) for foot in stance.feet]
        self._landings: list[Any] = [terms.landing(foot, pin.SE3.Identity()) for foot in stance.feet]
        self._forces = {names: terms.forces(system, own) for names, own in contacts.items()}
        self._impulses = {names: terms.impulses(system, own) for names, own in struck.items()}
        self._shape: Problem | None = None

    def nominal(self, step: int, path: Path, floor: float) -> Array:
        """Nominal states (N+1, nx) of a window: the body along its path, the joints as where the robot steps in place.

        floor [m]: height of the ground.
        """
        cycle, stance = self.cycle, self.cycle.stance
        first, knots = cycle.knot(step) % cycle.system.knots, cycle.system.knots
        X = np.take(cycle.postures, np.arange(first, first + knots + 1), axis=0, mode="wrap")
        home, nq = base_pose(stance.robot, stance.q), stance.robot.nq
        passed = np.concatenate([[0.0], np.cumsum(cycle.system.from_knot(first).durations)])
        places, headings = path.at(passed)
        X[:, :2], X[:, 2] = places, floor + home.translation[2] - stance.places[:, 2].mean()
        half = 0.5 * (headings - heading_of(home.rotation))
        X[:, 3:7] = _product(np.sin(half), np.cos(half), pin.Quaternion(home.rotation).coeffs())
        forward, left, turning = path.command
        level = np.array([[forward, left, 0.0], [0.0, 0.0, turning]]) @ upright(home.rotation).T @ home.rotation
        X[:, nq : nq + 6] = level.ravel()
        return X

    def problem(self, step: int, x: Array, X: Array, swings: list[Swing]) -> Problem:
        """The problem of a window from a step on, in state x (nx,), about nominal states X (N+1, nx).

        The first one is checked, and has others' shape.
        """
        system = self.cycle.system.from_knot(self.cycle.knot(step))
        stance = self.cycle.stance
        during: dict[range, list[BatchTerm]] = {}
        at: dict[int, list[BatchTerm]] = {}
        passed = 0
        for phase, knots in zip(system.phases, stretches(system.phases), strict=True):
            names = _names(phase.contacts)
            steps = passed + np.arange(len(knots), dtype=np.float64)
            flying = [s for s in swings if s.lifted <= passed < s.landed] if knots else []
            if knots:
                during[knots] = [self._paths[s.foot].toward(s.places(steps, self.lift)) for s in flying]
                during[knots] += [self._forces[names]] if names else []
            if phase.struck:
                at[knots.start - 1] = [self._impulses[_names(phase.struck)]]
                for s in swings:
                    if s.landed == passed and stance.feet[s.foot] in _names(phase.struck):
                        place, speed = self._landings[s.foot]
                        at[knots.start - 1] += [place.toward(s.end[None]), speed]
            passed += len(knots)
        running = [self._follow.toward(X[:-1]), *self._always]
        terminal = [self._end.toward(X[-1:]), self.terms.limits]
        if self._shape is not None:
            return self._shape.moved(system, x, running, during, at, terminal)
        free = -np.inf, np.inf
        self._shape = Problem(system, running, terminal, x, system.knots, at=at, during=during, control_limits=free)
        return self._shape


def _names(contacts: Sequence[Contact]) -> tuple[str, ...]:
    return tuple(contact.frame for contact in contacts)


def _product(sine: Array, cosine: Array, q: Array) -> Array:
    """Quaternions (M, 4) of turns about the vertical after one (x, y, z, w); sine, cosine (M,) of half their angles."""
    x, y, z, w = q
    return np.stack(
        [cosine * x - sine * y, cosine * y + sine * x, cosine * z + sine * w, cosine * w - sine * z], axis=1
    )  # fmt: skip

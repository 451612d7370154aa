"""Robots in MuJoCo under a receding horizon, which a person pushes, steers and gives targets while they move."""

import math
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import ProblemError, as_array, at_least_zero, choice, instance, integer, positive
from ddp.protocols import Array
from ddp.receding import RecedingHorizon
from ddp.solutions.explanation import named_terms
from dynamics.robots.mjcf.compiling import quietly
from dynamics.robots.mjcf.writing import World
from problems.play.policies import Motors
from problems.play.receding import Replanned
from problems.play.simulation import control_step, has_fallen, system_of, weight_of, world_of
from problems.walking.controller import Walking
from problems.walking.windows import as_command

FASTEST = 0.35, 0.12, 0.14
"""Largest commands of gaits, forward and to the left over √(g h), turning over √(g/h); h: height of the robot."""
KICK = 0.1, 0.4
"""Duration of a kick [s], and its force over the robot's weight."""
STRENGTH = 0.3
"""Largest force of a hand over the robot's weight: a sideways force of half of it tips over most who stand."""
SLICE = 0.02
"""Simulated time between two looks at what the person does [s]."""
BEHIND = 0.2
"""Time by which the simulation may be behind the clock before it gives it up and runs slower [s]."""


class Hand(Protocol):
    """Point (3,) of the body that a joint moves, in the joint's axes [m], and where it is drawn to, in the world's."""

    @property
    def joint(self) -> int: ...
    @property
    def point(self) -> Array: ...
    @property
    def toward(self) -> Array: ...


class Person(Protocol):
    """Somebody who watches and acts, as `viz.Stage` tells it.

    watching: whether anybody does.   hand: what is pulled.   command (3,): in shares of the largest ones.
    target (3,): where the target shall be [m], None for where it is.
    numbers: weights by the names of `Driven.weights`, some or all.
    """

    @property
    def watching(self) -> bool: ...
    @property
    def hand(self) -> Hand | None: ...
    @property
    def command(self) -> Array: ...
    @property
    def target(self) -> Array | None: ...
    @property
    def numbers(self) -> Mapping[str, float]: ...

    def asked(self) -> tuple[list[Array], bool]:
        """Directions (3,) of kicks, and whether to start again, since the last call."""
        ...

    def show(self, q: Array, told: str, arrow: tuple[Array, Array] | None, target: Array | None) -> None:
        """Show configuration q (nq,), a line, and a force as an arrow from one point to another."""
        ...


class Driven:
    """Robot in MuJoCo, simulated as fast as a clock goes, that is pushed and steered while it plans again.

        with problems.Walking("go2", "trot", latency=0.02) as walking:
            driven = problems.Driven(walking)
            stage = viz.Stage(driven.robot, driven.q, ground=driven.floor)
            driven.play(stage)                            # until Ctrl-C; or without a page:
            driven.command((0.4, 0.0, 0.2))
            driven.pull(1, (0.0, 0.0, 0.0), (0.5, 0.3, 0.3))
            driven.advance(0.5)

    planner: `Walking`, or a `RecedingHorizon` of a robot's problem.   every [s]: time between plans.
    rate [Hz]: of controls.   friction, softness [s]: of the ground, as of `simulate`.

    A hand pulls like a spring, with 0.3 times the robot's weight at a distance of the robot's size and never more.
    The robot starts as `simulate_receding` starts it. Time stands still while a plan is made: plans act after their
    latency.
    x (nx,): state, the last one that was finite.   fell: whether the base came down or overturned, or numbers
    overflowed: time ends there.
    Raises ProblemError for bad input, and ModelError where MuJoCo is not installed.
    """

    def __init__(
        self, planner: Walking | RecedingHorizon, every: float = 0.04, rate: float = 500.0, friction: float = 0.7,
        softness: float = 0.02,
    ) -> None:  # fmt: skip
        instance("planner", planner, (Walking, RecedingHorizon), "Walking(...) or RecedingHorizon(problem)")
        self.planner, self.system = planner, system_of(planner.system, "planner")
        self.robot = self.system.robot
        self._every = positive("every", every)
        self._step = control_step(rate, max(self._every, SLICE), self.system.dt)
        friction, softness = positive("friction", friction), positive("softness", softness)
        self._world = world_of(self.system, planner.x0, friction, softness, self._step)
        self._substeps = round(self._step / self._world.model.opt.timestep)
        self._target, self._weights = _target_of(planner), weights_of(planner)
        self._weighed = {name: weight.largest for name, weight in self._weights.items()}
        self.restart()
        self.weight, self.size = weight_of(self.robot), _size(self._world, self._data)

    @property
    def q(self) -> Array:
        """Configuration (nq,)."""
        return self.x[: self.robot.nq]

    @property
    def floor(self) -> float | None:
        """Height of the ground that is drawn [m]."""
        return self.planner.floor if isinstance(self.planner, Walking) else self._world.floor

    @property
    def fastest(self) -> Array:
        """Largest commands (3,) of a gait [m/s, m/s, rad/s]; zeros of what takes none."""
        if not isinstance(self.planner, Walking):
            return np.zeros(3)
        stance = self.planner.windows.cycle.stance
        speed, rate = np.sqrt(stance.gravity * stance.height), np.sqrt(stance.gravity / stance.height)
        return np.array(FASTEST) * (speed, speed, rate)

    @property
    def target(self) -> Array | None:
        """Place (3,) of the target of the problem [m]; None if there is none, or several."""
        name = self._target
        if name is None or not isinstance(self.planner, RecedingHorizon):
            return None
        number = self.planner.problem.number(name)
        return np.array(number if number.ndim == 1 else number[:3, 3])

    @property
    def weights(self) -> dict[str, float]:
        """Weights of plans now: the largest of each term that has one, by its name in `Solution.explain`.

        Of gaits by the names of `problems.legged.Weights`. What is not weighed at all is not among them.
        """
        return dict(self._weighed)

    def weigh(self, weights: Mapping[str, float]) -> None:
        """Change weights, each positive, by the names of `weights`, from the next plan on.

        A term's other weights change in proportion.
        """
        instance("weights", weights, Mapping, "a mapping from names to numbers")
        given = {}
        for name, value in weights.items():
            choice("weights", name, self._weights, "plans have no weight")
            given[name] = positive(f"weights[{name!r}]", value)
        changed = {name: value for name, value in given.items() if value != self._weighed[name]}
        if changed:
            self.planner.vary({self._weights[name].place: self._weights[name].at(w) for name, w in changed.items()})
            self._weighed |= changed

    def restart(self) -> None:
        """Begin again as the robot starts, with nothing pulled and no command; target and weights stay as they are."""
        self.planner.restart()
        self._steps, self.x, self.fell = 0, np.array(self.planner.x0), False
        self._data = self._world.data(*np.split(self.x, [self.robot.nq]))
        self._command = (0.0, 0.0, 0.0)
        self._control = Replanned(self.planner, self._every, lambda t: self._command)
        self._kick: tuple[int, Array] | None = None
        self._pulled: tuple[int, Array, Array] | None = None

    @property
    def t(self) -> float:
        """Simulated time since the start [s]."""
        return self._steps * self._step

    def command(self, command: ArrayLike) -> None:
        """Walk with a velocity forward and to the left [m/s], turning [rad/s], from the next plan on; of gaits."""
        if not isinstance(self.planner, Walking):
            raise ProblemError("command: expected none, it is what gaits walk by")
        self._command = as_command(np.asarray(command, dtype=float).tolist())

    def aim(self, place: ArrayLike) -> None:
        """Move the problem's target to a place (3,) [m], its attitude stays, from the next plan on."""
        goal = as_array("place", place, (3,))
        if self._target is None or not isinstance(self.planner, RecedingHorizon):
            raise ProblemError("place: expected none, the problem has no target, or several")
        number = self.planner.problem.number(self._target).copy()
        if number.ndim == 1:
            number[:] = goal
        else:
            number[:3, 3] = goal
        self.planner.vary({self._target: number})

    def pull(self, joint: int, point: ArrayLike, toward: ArrayLike) -> None:
        """Draw a point (3,) of the body that joint 1, 2, ... moves, in the joint's axes, toward a place (3,) [m]."""
        chosen = integer("joint", joint, 1)
        if chosen >= self.robot.model.njoints:
            raise ProblemError(f"joint: expected at most {self.robot.model.njoints - 1}, got {chosen}")
        self._pulled = chosen, as_array("point", point, (3,)), as_array("toward", toward, (3,))

    def release(self) -> None:
        """Pull no more."""
        self._pulled = None

    def kick(self, direction: ArrayLike) -> None:
        """Push the first body at its centre of mass for a tenth of a second, with 0.4 times the robot's weight."""
        way = as_array("direction", direction, (3,))
        most = np.abs(way).max()
        if most == 0.0:
            raise ProblemError("direction: expected one, got zeros")
        way = way / most  # numbers of any size
        self._kick = self._steps + round(KICK[0] / self._step), KICK[1] * self.weight * way / np.linalg.norm(way)

    @property
    def arrow(self) -> tuple[Array, Array] | None:
        """Force that acts now: the point where it does, and the force [N]; None without."""
        acting = self._acting()
        return None if acting is None else (self._world.place(self._data, *acting[:2]), acting[2])

    @property
    def stiffness(self) -> float:
        """Force over distance of a hand [N/m]."""
        return STRENGTH * self.weight / self.size

    def advance(self, duration: float) -> None:
        """Simulate so many seconds; less if the robot falls."""
        motors = Motors(self.system)
        with quietly():  # a fall is a result
            for _ in range(max(1, round(positive("duration", duration) / self._step))):
                if self.fell:
                    break
                u = self._control(self.t, self.x, lambda: self._world.pressing(self._data) > 0.0)
                self._world.apply(self._data, motors(u))
                acting = self._acting()
                self._world.pull(self._data, *((1, np.zeros(3), np.zeros(3)) if acting is None else acting))
                for _ in range(self._substeps):
                    self._world.step(self._data)
                x, self._steps = np.concatenate(self._world.state(self._data)), self._steps + 1
                self.fell = has_fallen(self._world, x, self.planner.x0, self.planner.x0)
                self.x = x if np.isfinite(x).all() else self.x

    def play(self, person: Person, duration: float = np.inf) -> None:
        """Let a person act, at the pace of the clock or slower, until so many seconds are simulated, or Ctrl-C.

        Nothing moves while nobody watches.
        """
        if duration != np.inf:
            duration = at_least_zero("duration", duration)
        slices, clock, lasting = 0, _Clock(), self._step * max(1, round(SLICE / self._step))
        while slices * lasting < duration:
            if not person.watching:
                time.sleep(SLICE)
                clock.begin(slices * lasting)
                continue
            self._heed(person)
            self.advance(lasting)
            slices += 1
            arrow = self.arrow
            drawn = None if arrow is None else (arrow[0], arrow[0] + arrow[1] / self.stiffness)
            person.show(self.q, self._told(arrow, clock.pace), drawn, self.target)
            clock.wait(slices * lasting)

    def _heed(self, person: Person) -> None:
        kicks, again = person.asked()
        if again:
            self.restart()
        for way in kicks:
            self.kick(way)
        hand, target = person.hand, person.target
        if hand is None:
            self.release()
        else:
            self.pull(hand.joint, hand.point, hand.toward)
        if isinstance(self.planner, Walking):
            self.command(person.command * self.fastest)
        if target is not None and self._target is not None:
            self.aim(target)
        self.weigh(person.numbers)

    def _told(self, arrow: tuple[Array, Array] | None, pace: float) -> str:
        told = [f"{self.t:.1f} s, plans of {self._control.milliseconds[-1]:.0f} ms"]
        if pace < 0.95:
            told.append(f"{pace:.0%} of real time")
        if self.fastest.any():
            told.append("forward {:.2f}, left {:.2f} m/s, turning {:.2f} rad/s".format(*self._command))
        if arrow is not None:
            told.append(f"pushed with {np.linalg.norm(arrow[1]):.0f} N")
        return "it fell; start again" if self.fell else "\n".join(told)

    def _acting(self) -> tuple[int, Array, Array] | None:
        """Joint, point and force that acts on it now."""
        if self.fell:
            return None
        if self._kick is not None and self._steps < self._kick[0]:
            return 1, np.asarray(self.robot.model.inertias[1].lever), self._kick[1]
        if self._pulled is None:
            return None
        joint, point, toward = self._pulled
        away = toward - self._world.place(self._data, joint, point)
        share = 1.0 / max(1.0, math.hypot(*away) / self.size)
        return joint, point, self.stiffness * share * away


class _Clock:
    """Clock that a simulation follows, and how fast it does."""

    def __init__(self) -> None:
        self.pace = 1.0
        self.begin(0.0)

    def begin(self, played: float) -> None:
        """Let so many simulated seconds be now."""
        now = time.monotonic()
        self._zero, self._marked = now - played, (now, played)

    def wait(self, played: float) -> None:
        """Return when so many seconds are over, or at once if they are; lost time is not made up for."""
        now = time.monotonic()
        since, before = self._marked
        if now - since > 1.0:
            self.pace, self._marked = (played - before) / (now - since), (now, played)
        if now < self._zero + played:
            time.sleep(self._zero + played - now)
        elif now > self._zero + played + BEHIND:
            self._zero = now - played


def _target_of(planner: Walking | RecedingHorizon) -> str | None:
    """Name by which `Problem.varying` knows the target of a problem, if it has one."""
    if isinstance(planner, Walking):
        return None
    try:
        planner.problem.resolved("target")
    except ProblemError:
        return None
    return "target"


def _size(world: World, data: Any) -> float:
    """Twice the radius of gyration: of fixed robots about their first joint, else about the centre of mass [m]."""
    model = world.robot.model
    ids = [world.body(joint) for joint in range(1, model.njoints)]
    masses = np.array([world.model.body_mass[i] for i in ids])
    own = np.array([world.model.body_inertia[i].sum() / 2.0 for i in ids])
    centers = np.array([data.xipos[i] for i in ids])
    about = masses @ centers / masses.sum() if world.robot.is_floating else data.xpos[ids[0]]
    turning = (own + masses * ((centers - about) ** 2).sum(axis=1)).sum()
    return 2.0 * float(np.sqrt(turning / masses.sum()))


FIELDS = "weight", "weights", "Q", "R"
"""Fields of terms that hold weights."""


class Weight(NamedTuple):
    """A number, or numbers that keep their proportions; place: as the planner's ``vary`` names them."""

    place: str
    given: Array

    @property
    def largest(self) -> float:
        """The largest of them, by its size."""
        return float(np.abs(self.given).max())

    def at(self, largest: float) -> Array:
        """All of them where the largest is such a number."""
        return self.given * (largest / self.largest)


def weights_of(planner: Walking | RecedingHorizon) -> dict[str, Weight]:
    """Weights of a planner that are not zero, by the names of terms; of gaits by those of `Weights`."""
    found: dict[str, Weight] = {}
    if isinstance(planner, Walking):
        found = {name: Weight(name, np.array(value)) for name, value in asdict(planner.windows.terms.weights).items()}
    else:
        problem = planner.problem
        for name, term in named_terms(problem):
            places = [str(term._replace(field=field)) for field in FIELDS]
            for place in [place for place in places if place in problem.places]:
                plain = name not in found  # several fields of one term, or equal terms of one knot
                found[name if plain else f"{name}, {place}"] = Weight(place, problem.number(place))
    return {name: weight for name, weight in found.items() if weight.given.size and weight.largest > 0.0}

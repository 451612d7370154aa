"""Gaits ready made: quadrupeds walk, trot, pace, bound, jump and stand; bipeds step.

For any robot whose feet are frames called feet or soles; for others see `legs.stance`, `schedule.Schedule`,
`strides.lay_out` and `legged.legged`, of which these are made. Unless given, speeds, heights and durations are in
proportion to the robot: in units of the height h of its centre of mass above the feet, √(g h) and √(h / g).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import ProblemError, affordable, as_array, at_least_zero, axes, positive, suggesting
from ddp.problem import Problem
from dynamics.robots.libraries import pin
from problems import checks, legs, schedule, strides
from problems.gait_terms import EFFORT, GRIP, Weights
from problems.legged import follow_nominal, legged
from problems.legs import Stance
from problems.schedule import Groups, Schedule
from problems.sensitivity import with_durations

Gait = TypeVar("Gait", bound=Callable[..., Problem])
Arguments = ParamSpec("Arguments")
Turns = Callable[[Stance], Groups]

STEP, SUPPORT, REST = 1.4, 0.2, 0.7
"""Durations of swings, of stances in between, and of those at both ends, in units of √(h / g)."""

FROUDE, LIFT = 0.15, 0.15
"""Speed in units of √(g h), and how high feet swing in units of h."""

LARGEST = 1e4
"""Bound of lengths, angles and rates that gaits are asked for, in SI units."""


STEPPING = """\
cycles: how often.
speed forward and sideways (to the left) [m/s] and turning [rad/s] while feet step; or step_length [m], how far the
body moves in a cycle, in place of speed or of step_duration.
step_height [m], step_duration [s]: of swinging feet.   support_duration [s]: how long all stand in between;
flight_duration [s]: how long no foot stands in between, instead, if it is not zero."""

STANDING = """\
friction: of the ground.   effort, grip: shares of the robot's limits of control (None: no limit) and of the friction
that the plan may use; feedback has the rest.
cones: "barrier", a cost on forces near and beyond their cones; or "constraint": moreover, none leaves its cone.
gains (1/s², 1/s): of Baumgarte's stabilisation, which pull feet that stand to where they should and slow them down,
but for an error in proportion to dt²; without them every step of time ends with feet exactly where they stand.
ground [m]: the height of level ground; by default the ground is where the feet are.
feet: the names of their frames, with commas between them in one text; by default those called feet or soles.
q0 (nq,): the posture in which it stands, its usual one by default.
dt [s]: of a knot.   phase_durations [s]: of each phase, in the knots that it has by what is said above; what
`durations.solve_durations` finds.
weights: what it costs per second, unless said otherwise, in units of the height h of the centre of mass above the feet,
the weight m g, √(g h) and √(h / g):
""" + "".join(inspect.cleandoc(Weights.__doc__ or "").split("\n\n")[1:2])  # without docstrings: nothing

LANDING = 'footholds: "cost" on where feet touch down; or "constraint": moreover, they do so in their places.'


def _explained(*parameters: str) -> Callable[[Gait], Gait]:
    """Add the descriptions of shared parameters to the docstring of a gait."""

    def add(gait: Gait) -> Gait:
        gait.__doc__ = "\n".join([inspect.cleandoc(gait.__doc__ or ""), "", *parameters])
        return gait

    return add


def _stepping(
    turns: Turns,
    robot: checks.RobotLike = "anymal",
    cycles: int = 1,
    speed: float | None = None,
    sideways: float = 0.0,
    turning: float = 0.0,
    step_length: float | None = None,
    step_height: float | None = None,
    step_duration: float | None = None,
    support_duration: float | None = None,
    flight_duration: float = 0.0,
    friction: float = 0.7,
    effort: float | None = EFFORT,
    grip: float = GRIP,
    cones: str = "barrier",
    footholds: str = "cost",
    gains: tuple[float, float] | None = None,
    ground: float | None = None,
    feet: str | Sequence[str] | None = None,
    q0: ArrayLike | None = None,
    dt: float = 0.01,
    phase_durations: ArrayLike | None = None,
    weights: Weights = Weights(),  # noqa: B008  # immutable
) -> Problem:
    """Step with groups of feet in turn; the body moves between the first phase and the last, which are made longer."""
    stand = _stance(robot, feet, q0, ground)
    groups = turns(stand)
    speed, swing, support = _pace(stand, len(groups), speed, step_length, step_duration, support_duration)
    flight, dt = at_least_zero("flight_duration", flight_duration, " s"), positive("dt", dt)
    check_durations(dt, step_duration=swing, support_duration=support, flight_duration=flight)
    first, *middle, last = schedule.cycling(stand.feet, groups, swing, support, cycles, flight).phases
    rest = REST * stand.unit
    plan = Schedule(stand.feet, [first._replace(duration=rest), *middle, last._replace(duration=rest)])
    counts = plan.knots(dt)
    sideways, turning = _numbers(sideways=sideways, turning=turning)
    start, end = dt * counts[0], dt * sum(counts[:-1])
    moving = strides.straight((speed, sideways), turning, start, end, rest)
    lift = LIFT * stand.height if step_height is None else positive("step_height", step_height)
    laid = strides.lay_out(stand, plan, dt, moving, lift)
    problem = legged(laid, weights, friction, gains, cones=cones, footholds=footholds, effort=effort, grip=grip)
    return _lasting(problem, phase_durations)


def _with_arguments_of(
    gait: Callable[Concatenate[Turns, Arguments], Problem], robot: str = "anymal"
) -> Callable[[Turns], Callable[Arguments, Problem]]:
    """Make gaits of functions that say which feet step in turn: with the parameters of ``gait``, and a usual robot."""
    general: Callable[..., Problem] = gait
    _, first, *others = inspect.signature(gait).parameters.values()
    signature = inspect.Signature([first.replace(default=robot), *others], return_annotation=Problem)

    def made(turns: Turns) -> Callable[Arguments, Problem]:
        @wraps(turns)
        def build(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Problem:
            try:
                given = signature.bind(*args, **kwargs)
            except TypeError as reason:
                raise TypeError(f"{turns.__name__}() {reason}") from None
            given.apply_defaults()
            return general(turns, *given.args)

        vars(build)["__signature__"] = signature
        told = suggesting(_explained(STEPPING, LANDING, STANDING)(build))
        told.__annotations__ = {"return": Problem}  # at last: wrappers of Python 3.14 take none over
        return told

    return made


@_with_arguments_of(_stepping)
def walk(stand: Stance) -> Groups:
    """Walk: one foot after the other, right hind, right fore, left hind, left fore, ``cycles`` times."""
    return schedule.in_turn(stand.corners(), "walk")


@_with_arguments_of(_stepping)
def trot(stand: Stance) -> Groups:
    """Trot: diagonal pairs of feet step in turn."""
    return schedule.in_turn(stand.corners(), "trot")


@_with_arguments_of(_stepping)
def pace(stand: Stance) -> Groups:
    """Pace: both feet of a side step in turn."""
    return schedule.in_turn(stand.corners(), "pace")


@_with_arguments_of(_stepping)
def bound(stand: Stance) -> Groups:
    """Bound: both fore feet, then both hind feet."""
    return schedule.in_turn(stand.corners(), "bound")


@_with_arguments_of(_stepping, robot="talos_legs")
def step(stand: Stance) -> Groups:
    """Step with the two feet of a biped: right foot, left foot, ``cycles`` times."""
    sides = stand.sides()
    return [[sides["R"]], [sides["L"]]]


@suggesting
@_explained(LANDING, STANDING)
def jump(
    robot: checks.RobotLike = "anymal",
    length: float = 0.0,
    sideways: float = 0.0,
    turn: float = 0.0,
    height: float | None = None,
    push_duration: float | None = None,
    land_duration: float | None = None,
    step_height: float | None = None,
    friction: float = 0.7,
    effort: float | None = EFFORT,
    grip: float = GRIP,
    cones: str = "barrier",
    footholds: str = "cost",
    gains: tuple[float, float] | None = None,
    ground: float | None = None,
    feet: str | Sequence[str] | None = None,
    q0: ArrayLike | None = None,
    dt: float = 0.01,
    phase_durations: ArrayLike | None = None,
    weights: Weights = Weights(landing=2e6),  # noqa: B008  # immutable
) -> Problem:
    """Jump with all feet, and stand again.

    length forward and sideways (to the left) [m], turn [rad]: where it lands.
    height [m]: by how much the body rises in flight, which lasts twice as long as a free fall from there.
    push_duration, land_duration [s].   step_height [m]: by how much the feet rise more than the body.
    """
    stand = _stance(robot, feet, q0, ground)
    g, unit = stand.gravity, stand.unit
    rise = 0.25 * stand.height if height is None else positive("height", _numbers(height=height)[0])
    tuck = 0.05 * stand.height if step_height is None else positive("step_height", step_height)
    push = 1.5 * unit if push_duration is None else positive("push_duration", push_duration)
    land = 2.0 * unit if land_duration is None else positive("land_duration", land_duration)
    check_durations(positive("dt", dt), push_duration=push, land_duration=land)
    flight = dt * max(1, round(np.sqrt(8.0 * rise / g) / dt))
    plan = schedule.jump(stand.feet, push, flight, land)
    start = dt * plan.knots(dt)[0]
    ramp = 0.5 * min(push, land)
    moved = flight + ramp
    length, sideways, turn = _numbers(length=length, sideways=sideways, turn=turn)
    moving = strides.straight(
        (length / moved, sideways / moved), turn / moved, start - 0.5 * ramp, start + flight + 0.5 * ramp, ramp
    )

    def ballistic(t: float) -> pin.SE3:
        s = float(np.clip(t - start, 0.0, flight))
        return pin.SE3(np.eye(3), np.array([0.0, 0.0, 0.5 * g * s * (flight - s)]))

    laid = strides.lay_out(stand, plan, dt, moving, tuck, ballistic)
    problem = legged(laid, weights, friction, gains, cones=cones, footholds=footholds, effort=effort, grip=grip)
    return _lasting(problem, phase_durations)


@suggesting
@_explained(STANDING)
def stand(
    robot: checks.RobotLike = "anymal",
    duration: float = 1.0,
    period: float = 1.0,
    forward: float = 0.0,
    sideways: float = 0.0,
    up: float | None = None,
    roll: float = 0.0,
    pitch: float = 0.1,
    yaw: float = 0.2,
    friction: float = 0.7,
    effort: float | None = EFFORT,
    grip: float = GRIP,
    cones: str = "barrier",
    gains: tuple[float, float] | None = None,
    ground: float | None = None,
    feet: str | Sequence[str] | None = None,
    q0: ArrayLike | None = None,
    dt: float = 0.01,
    phase_durations: ArrayLike | None = None,
    weights: Weights = Weights(position=1e3, rotation=1e3, posture=0.01),  # noqa: B008  # immutable
) -> Problem:
    """Stand on all feet, and move the body to and fro.

    forward, sideways (to the left), up [m], roll, pitch, yaw [rad]: how far it moves, and back within this period [s];
    down by a tenth of the height of the centre of mass by default.   duration [s].
    """
    stands = _stance(robot, feet, q0, ground)
    lift = -0.1 * stands.height if up is None else _numbers(up=up)[0]
    period, plan = positive("period", period), schedule.stand(stands.feet, duration)
    forward, sideways, *turns = _numbers(forward=forward, sideways=sideways, roll=roll, pitch=pitch, yaw=yaw)
    shift, turned = np.array([forward, sideways, lift]), np.array(turns)

    def swaying(t: float) -> pin.SE3:
        s = np.sin(np.pi * t / period) ** 2
        return pin.SE3(pin.exp3(s * turned), s * shift)

    still = strides.straight((0.0, 0.0), 0.0, 0.0, 0.0)
    laid = strides.lay_out(stands, plan, dt, still, 0.0, swaying)
    problem = legged(laid, weights, friction, gains, cones=cones, effort=effort, grip=grip)
    return _lasting(problem, phase_durations)


def _pace(
    stand: Stance, groups: int, speed: float | None, length: float | None, step_duration: float | None,
    support_duration: float | None,
) -> tuple[float, float, float]:  # fmt: skip
    """Speed [m/s], durations of a swing and of a support [s]: as given, the rest in proportion to the robot."""
    swing = STEP * stand.unit if step_duration is None else positive("step_duration", step_duration)
    support = SUPPORT * stand.unit
    if support_duration is not None:
        support = at_least_zero("support_duration", support_duration, " s")
    moving = FROUDE * stand.gravity * stand.unit if speed is None else float(as_array("speed", speed, ()))
    if length is None:
        return moving, swing, support
    length, cycle = float(as_array("step_length", length, ())), groups * (swing + support)
    if speed is None:
        return length / cycle, swing, support
    if step_duration is None:
        swing = length / moving / groups - support if moving != 0.0 else 0.0
        if swing <= 0.0:
            raise ProblemError(f"step_length: {length} m at {speed} m/s leaves no time for {groups} steps")
    elif abs(moving * cycle - length) > 1e-9:
        raise ProblemError(
            f"step_length: {speed} m/s for {cycle:g} s, of {groups} steps and supports, is"
            f" {speed * cycle:g} m, not {length}"
        )
    return moving, swing, support


def _numbers(**values: float) -> list[float]:
    """Check numbers, given by the names of their arguments: in SI units no motion of legs needs larger ones."""
    found = [float(as_array(name, value, ())) for name, value in values.items()]
    for name, value in zip(values, found, strict=True):
        if abs(value) > LARGEST:
            raise ProblemError(f"{name}: expected a number of at most {LARGEST:g} in size, got {value:g}")
    return found


def _stance(
    robot: checks.RobotLike, feet: str | Sequence[str] | None, q0: ArrayLike | None, ground: float | None
) -> Stance:
    names = [name.strip() for name in feet.split(",")] if isinstance(feet, str) else feet
    return legs.stance(checks.loaded(robot, root_of_files="free-flyer"), names, q0, ground)


def check_durations(dt: float, **durations: float) -> None:
    """Raise ProblemError for the first duration [s], by its argument's name, of more steps than memory has room for."""
    for name, duration in durations.items():
        affordable(f"{name}, in steps of dt = {dt:g}", duration, 100 * round(min(duration / dt, 1e18)))


def _lasting(problem: Problem, durations: ArrayLike | None) -> Problem:
    """Return the problem with phases of these durations, if some are given."""
    if durations is None:
        return problem
    given = as_array("phase_durations", durations, (None,) if axes(durations) else ())
    lasting = with_durations(problem, given.reshape(-1), "phase_durations")
    return lasting.with_guess(follow_nominal(lasting))


GAITS: dict[str, Callable[..., Problem]] = {
    "walk": walk, "trot": trot, "pace": pace, "bound": bound, "jump": jump, "stand": stand,
}  # fmt: skip
"""Gaits of quadrupeds, by name."""

"""Policies played in MuJoCo's own contact model, at the rate of a robot's controller."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddp.doubts import tell
from ddp.errors import (
    DDPError,
    ProblemError,
    affordable,
    as_array,
    at_least_zero,
    axes,
    choice,
    integer,
    line_of,
    numbers,
    other_arguments,
    positive,
    said,
    suggesting,
)
from ddp.feedback.adaptive import AdaptivePolicy, ContactPolicy
from ddp.feedback.policy import Policy, within_motion
from ddp.feedback.predictive import PredictivePolicy
from ddp.protocols import Array
from ddp.solutions.solution import Solution
from dynamics.phases.phased_dynamics import PhasedDynamics
from dynamics.phases.reaction import friction as friction_of
from dynamics.phases.reaction import heights as heights_of
from dynamics.robots.libraries import pin
from dynamics.robots.mjcf.compiling import quietly
from dynamics.robots.mjcf.writing import Foot, Ground, Relief, World
from dynamics.robots.model import Robot
from dynamics.robots.omissions import warn_once
from dynamics.steps.doubts import strangers
from dynamics.steps.mimic import MimicDynamics
from dynamics.steps.robot_dynamics import RobotDynamics
from problems.gait_terms import SOLE
from problems.legs import TOUCHING, base_pose, frame_poses, upright
from problems.lifted import problem_of, unlifted
from problems.play.played import Play, PlayedSystem, root_mean_square
from problems.play.policies import POLICIES, named
from problems.play.terrain import as_range, uneven_ground

RADIUS, THICKNESS = 0.02, 0.01
"""Radius of feet that are points, and half the height of soles [m]."""

FALLEN = 0.4
"""Part of its height at the start below which a base has fallen."""

HELD = 3.0
"""Time for which a motion that comes to rest on its feet is held at its end, to see whether the robot falls, in units
of √(h/g), h the height of its base: a leaning pendulum of that height leans tenfold by then."""

NOISE = (0.001, 0.002, 0.001, 0.02, 0.02, 0.05)
"""Standard deviations of measurements: place [m] and attitude [rad] of a floating base, angles of joints [rad], and the
velocities of these [m/s, rad/s, rad/s]."""

TIMESTEP = 1e-3
"""Largest time step of the simulation [s]."""

TILTED = 1.0
"""Tilt of soles at the start that is told of [deg]."""

TOUCH = 0.05
"""Part of the robot's weight that a foot carries that is felt to touch the ground."""

Controller = Callable[[float, Array], Array]
Touching = Callable[[], NDArray[np.bool_]]
"""Function that tells which feet touch the ground now."""

HEAVY = 4.0
"""Factor on masses beyond which a warning tells that it is no mass in kg."""

OTHERS = "a loop of yours plays such: x = system.step(x, {})"
"""Advice for systems that MuJoCo does not play."""


@suggesting
def simulate(
    solution: Solution,
    inside: str = "mujoco",
    push: ArrayLike | None = None,
    mass: float = 1.0,
    friction: float | None = None,
    rate: float = 1000.0,
    delay: float = 0.0,
    noise: float = 0.0,
    policy: str | Controller | ContactPolicy | None = None,
    softness: float = 0.02,
    seed: int = 0,
    uneven: ArrayLike = 0.0,
) -> Play:
    """Play a solution's policy in a simulator that is not the plan's, at the rate [Hz] of a controller.

    Controls that are held for longer than the plan's steps are warned of: feedback may swing then.

    inside: "mujoco", its soft contacts between the ground and feet: spheres of 2 cm, soles of 16 cm by 8 cm.
    push: velocity that a floating base is given in the middle of the motion [m/s]: sideways (to the left), or forward
    and sideways, or upwards as well, in its heading at the start. Of a robot whose base is fixed, velocities (nv,) that
    its joints are given [rad/s, m/s].
    mass: factor on mass and inertia of a floating base, or else of all bodies.
    friction: of the ground; default the plan's, or 0.7.
    delay [s]: from a measurement to the control that answers it.
    noise: factor on white noise of measurements, whose standard deviations at 1 are 1 mrad and 0.05 rad/s of joints,
    and 1 mm, 2 mrad, 0.02 m/s and 0.02 rad/s of a floating base.
    policy: "adaptive" (the default, ``solution.adaptive()``, which learns), "tracking" (``solution.policy``), "solver",
    "contact" (``solution.by_contact()``, told which feet carry a twentieth of the weight), "pd" (joints' stiffness and
    damping in proportion to the mass, about the plan's controls), "open" (the plan's controls alone), or a function of
    t [s] and x (nx,).
    Of a motion in compositions, `mayne.augment`, controls are those of the robot within, as planned: see `unlifted`.
    softness [s]: time constant of contacts, MuJoCo's solref.   seed: of noise and of uneven ground.
    uneven [m]: the lowest and the highest ground, or one number for either sign; it is level where feet stand at first.

    Raises ProblemError for bad input, and ModelError for joints that MuJoCo has not and where it is not installed.
    """
    solution = unlifted(solution)
    problem = problem_of(solution)
    choice("inside", inside, ("mujoco",))
    system = system_of(problem.dynamics)
    kick, factor, late = pushed(push, system.robot), mass_factor(mass), at_least_zero("delay", delay)
    spread = at_least_zero("noise", noise)
    if friction is not None and not feet_of(system):
        raise ProblemError(f"friction: expected none, {system.robot.name} does not stand on feet")
    mu = (friction_of(problem) or 0.7) if friction is None else positive("friction", friction)
    softness, rng = positive("softness", softness), np.random.default_rng(integer("seed", seed))
    heights = as_range(uneven)
    policy = POLICIES[0] if policy is None else policy
    if isinstance(policy, str):
        choice("policy", policy, POLICIES)
    elif not callable(policy) or isinstance(policy, type):
        known = ", ".join(POLICIES)
        raise ProblemError(f"policy: expected one of {known}, or a function of t and x, got {said(policy)}")
    elif not isinstance(policy, ContactPolicy):
        _check_arguments(policy)
    plan = solution.policy
    every = control_step(rate, plan.duration, float(plan.durations.min()))
    within_motion("delay", late, plan.duration)
    controller = policy if callable(policy) else named(solution, policy)
    limits = controller
    while isinstance(limits, (AdaptivePolicy, ContactPolicy, PredictivePolicy)):
        limits = limits.policy
    tell(strangers(system.robot, [getattr(limits, "system", None)]))
    count = max(1, round(plan.duration / every))
    affordable("rate", rate, 4 * count * (system.nx + system.nu))
    kicks = {count // 2: kick}
    with quietly():  # a fall is a result
        relief = uneven_ground(system, solution.X, [foot.frame for foot in feet_of(system)], heights, seed)
        world = world_of(system, solution.X[0], mu, softness, every, relief)
        held = _held(system, world, solution.X)
        setting = Setting(world, system, factor, every, count, kicks, late, spread, rng, held)
        clipped: list[NDArray[np.bool_]] = []

        def control(t: float, x: Array, touching: Touching) -> Array:
            now = plan.inside(t)
            acting: Any = controller
            if t > now and isinstance(controller, (AdaptivePolicy, ContactPolicy)):  # nothing more is learned
                acting = controller.learned if isinstance(controller, AdaptivePolicy) else plan
            given = (x.copy(), touching()) if isinstance(acting, ContactPolicy) else (x.copy(),)  # theirs to write on
            try:
                u = acting(now, *given)
            except DDPError:
                raise
            except Exception as reason:
                what = f"{type(reason).__name__}: {reason}{line_of(reason)}"
                raise ProblemError(f"policy: raised {what} at t = {t:.6g} s") from reason
            if isinstance(limits, Policy):
                clipped.append(at_limits(u, *limits_at(limits, now)))
            return as_array("policy", u, (system.nu,)).copy()

        play = played(setting, solution.X[0], control, plan.reference, plan.U_before[0])
    return replace(play.with_limits(clipped), problem=problem)


def _check_arguments(policy: Controller) -> None:
    """Raise ProblemError for a function that does not take t and x."""
    if own := other_arguments(policy, 2):
        raise ProblemError(f"policy: expected a function of t and x, got one of {own}")


def limits_at(policy: Policy, t: float) -> tuple[Array, Array]:
    """Lower and upper limits (nu,) that a policy has at time t [s]."""
    part = policy.part(t)[0]
    return policy.lower[part], policy.upper[part]


def at_limits(u: Array, low: Array, high: Array) -> NDArray[np.bool_]:
    """Whether each of the controls (nu,) is at a limit."""
    return ((u <= low) | (u >= high)) & (low < high)


def system_of(system: object, field: str = "solution") -> PlayedSystem:
    """The dynamics themselves, of a robot that MuJoCo plays; ProblemError for others."""
    advice = OTHERS.format("planner.solve(x).U[0]" if field == "planner" else "solution.policy(t, x)")
    if not isinstance(system, PlayedSystem):
        kinds = "RobotDynamics, PhasedDynamics or MimicDynamics"
        raise ProblemError(f"{field}: expected that of {kinds}, got {said(system)}; {advice}")
    if system.robot.is_hybrid:
        got = f"{system.robot.name}, which has rods"
        raise ProblemError(f"{field}: expected that of rigid bodies, got {got}; {advice}")
    if isinstance(system, RobotDynamics) and system.prescribed:
        raise ProblemError(f"{field}: expected torques of all joints, that of {system.prescribed[0]!r} is prescribed")
    return system


def world_of(
    system: PlayedSystem, x0: Array, friction: float, softness: float, every: float,
    relief: Relief | None = None,
) -> World:  # fmt: skip
    """The world of a system's robot, its feet and the ground that they stand on, in steps that ``every`` [s] holds."""
    robot, feet, ground = system.robot, feet_of(system), None
    if isinstance(system, PhasedDynamics) and feet:
        poses = frame_poses(robot, x0[: robot.nq], [foot.frame for foot in feet])
        heights = heights_of(system) or [float(pose.translation[2]) for pose in poses]
        level, steps = min(heights), float(np.ptp(heights))
        if steps > TOUCHING:
            warn_once(f"{robot.name}: MuJoCo's ground is level, feet are planned to stand up to {steps:.2g} m higher")
        leaning = [pose.rotation[2, 2] for foot, pose in zip(feet, poses, strict=True) if len(foot.size) == 3]
        if (tilt := np.rad2deg(np.arccos(np.clip(min(leaning, default=1.0), -1.0, 1.0)))) > TILTED:
            warn_once(f"{robot.name}: MuJoCo's ground is level, soles are planned to stand tilted by {tilt:.2g} deg")
        ground = Ground(level, friction, softness, relief=relief)
    timestep = every / max(1, np.ceil(every / TIMESTEP - 1e-9))
    followers = system.followers if isinstance(system, MimicDynamics) else None
    return World(robot, feet, ground, timestep, system.damping, system.springs, followers)


def feet_of(system: PlayedSystem) -> list[Foot]:
    """The feet of a system: spheres of points, boxes of soles; ProblemError for what rolls."""
    phases = system.phases if isinstance(system, PhasedDynamics) else ()
    known = {contact.frame: contact for phase in phases for contact in phase.contacts}
    if rolling := [name for name, contact in known.items() if contact.kind == "rolling"]:
        raise ProblemError(f"solution: expected feet, points or soles, {rolling[0]!r} rolls")
    return [Foot(name, (RADIUS,) if contact.kind == "point" else (*SOLE, THICKNESS)) for name, contact in known.items()]


@dataclass(frozen=True, eq=False)
class Setting:
    """Conditions of a simulation.

    mass: factor on mass and inertia, as of `simulate`.   every [s]: of each of ``count`` controls.
    kicks: velocities added by control, (3,) to a floating base or (nv,) to joints, or None.   late [s]: of controls.
    spread: noise of measurements, in units of `NOISE`.   held [s]: how long the end is held to see whether it falls.
    """

    world: World
    system: PlayedSystem
    mass: float
    every: float
    count: int
    kicks: Mapping[int, Array | None]
    late: float
    spread: float
    rng: np.random.Generator
    held: float = 0.0


def played(
    setting: Setting, x0: Array, controller: Callable[[float, Array, Touching], Array],
    reference: Callable[[float], Array], first: Array | None = None,
) -> Play:  # fmt: skip
    """Simulate from x0 (nx,); ``first`` (nu,): the control until delayed ones are there, by default none.

    controller: of time, measured state and which feet touch the ground.
    reference: states at times after those that the controller was asked for.
    """
    world, system, every, count = setting.world, setting.system, setting.every, setting.count
    robot, spread = world.robot, setting.spread
    base = robot.floating_dofs[:6]
    if setting.mass != 1.0:
        for joint in (int(robot.tree.body[base[0]]) + 1,) if len(base) else range(1, robot.model.njoints):
            world.heavier(joint, setting.mass)
    S, substeps, nq = system.actuation, round(every / world.model.opt.timestep), robot.nq
    most = count + round(setting.held / every)
    X, U, P = np.empty((most + 1, system.nx)), np.empty((most, system.nu)), np.empty((most + 1, system.nx))
    X[0] = P[0] = x0
    data, fell, later = world.data(*np.split(X[0], [nq])), False, 0.0
    deviations, least_force = _deviations(robot, spread), TOUCH * weight_of(robot)
    waiting = deque([np.zeros(system.nu) if first is None else first] * round(setting.late / every))
    end = count
    for k in range(most):
        t = k * every
        if (kick := setting.kicks.get(k)) is not None:
            if robot.is_floating:
                world.push(data, upright(base_pose(robot, X[0]).rotation) @ kick)
            else:
                world.hit(data, kick)
            X[k] = np.concatenate(world.state(data))
        measured = system.integrate(X[k], deviations * setting.rng.normal(size=system.n)) if spread > 0.0 else X[k]
        if not np.isfinite(measured).all():
            raise ProblemError(f"noise: expected less than what makes states infinite, got {spread:g}")
        waiting.append(controller(t, measured, lambda: world.pressing(data) > least_force))
        U[k] = waiting.popleft()
        world.apply(data, S @ U[k])
        for _ in range(substeps):
            world.step(data)
        X[k + 1] = np.concatenate(world.state(data))
        P[k + 1] = reference(t + every)
        if has_fallen(world, X[k + 1], P[k + 1], X[0]):
            end, fell, later = min(k + 1, count), True, max(0, k + 1 - count) * every
            break
    X, U, P = X[: end + 1], U[:end], P[: end + 1]
    away = system.difference(P, X)[:, : robot.nv]
    errors, turned = away / np.sqrt(robot.nv), np.zeros(end + 1)
    if len(base):
        place = robot.tree.iq[robot.tree.body[base[0]]] + np.arange(3)
        errors, turned = X[:, place] - P[:, place], np.rad2deg(np.linalg.norm(away[:, base[3:6]], axis=1))
    with np.errstate(over="ignore"):  # of states so far away that their squares are infinite, as errors are then
        error = np.asarray(np.linalg.norm(errors, axis=1), np.float64)
    times = np.linspace(0.0, end * every, end + 1)
    return Play(times, X, U, P, error, turned, root_mean_square(error), fell, system, later=later)


def _held(system: PlayedSystem, world: World, X: Array) -> float:
    """Time that the end of a motion X (N+1, nx) is held [s]; not at all if it does not end at rest on feet."""
    robot = system.robot
    if world.floor is None or not robot.is_floating:
        return 0.0
    height = base_pose(robot, X[-1]).translation[2] - world.floor
    gravity = np.linalg.norm(robot.model.gravity.linear)
    unit = float(np.sqrt(max(height, 0.0) / gravity))
    speed = float(np.linalg.norm(X[-1, robot.nq + robot.floating_dofs[:3]]))
    return HELD * unit if speed * HELD * unit < 0.1 * height else 0.0


def has_fallen(world: World, x: Array, plan: Array, start: Array) -> bool:
    """Whether a state x (nx,) overflowed, or its floating base is far below that of the start (nx,), or overturned.

    Overturned: it leans by more than 90 degrees from its plan (nx,). Where there is no ground, nothing falls.
    """
    if not np.isfinite(x).all():
        return True
    if world.floor is None or not world.robot.is_floating:
        return False
    now, planned, first = (base_pose(world.robot, state) for state in (x, plan, start))
    low = now.translation[2] - world.floor < FALLEN * (first.translation[2] - world.floor)
    return bool(low or now.rotation[2] @ planned.rotation[2] < 0.0)


def _deviations(robot: Robot, spread: float) -> Array:
    """Standard deviations (n,) of what is measured."""
    place, attitude, angle, speed, turning, rate = spread * np.array(NOISE)
    base, found = robot.floating_dofs[:6], np.repeat([[angle], [rate]], robot.nv, axis=1)
    found[:, base] = np.repeat([[place, attitude], [speed, turning]], 3, axis=1)[:, : len(base)]
    return found.ravel()


def pushed(push: ArrayLike | None, robot: Robot, field: str = "push") -> Array | None:
    """Velocity (3,) of a push on a floating base, forward, to the left, upwards; or those (nv,) of joints."""
    if push is None:
        return None
    if not robot.is_floating:
        given = as_array(field, push, (None,) if axes(push) else ())
        if given.size != robot.nv:
            joints = f"{robot.nv} velocities, of all joints" if robot.nv > 1 else "one velocity, of its joint"
            why = f"the base of {robot.name} is fixed"
            raise ProblemError(f"{field}: expected {joints} [rad/s, m/s], as {why}, got {numbers(given)}")
        return given.reshape(robot.nv)
    if axes(push) == 0:
        return np.array([0.0, float(as_array(field, push, ())), 0.0])
    given = as_array(field, push, (None,))
    if len(given) not in (2, 3):
        raise ProblemError(
            f"{field}: expected one number, or two or three, got {len(given)}: to the left, or forward and to the left,"
            " or upwards as well [m/s]"
        )
    return np.concatenate([given, np.zeros(3 - len(given))])


def mass_factor(mass: float) -> float:
    """A factor on masses; one that may be meant as a mass [kg] is warned of."""
    if (factor := positive("mass", mass)) > HEAVY:
        warn_once(f"mass: it is a factor, the robot is {factor:g} times as heavy as planned")
    return factor


def control_step(rate: float, duration: float, planned: float) -> float:
    """Time of a control [s] at a rate [Hz]; ProblemError where that is longer than what it is a part of [s].

    planned [s]: the plan's steps. Controls that are held for longer are warned of.
    """
    step = 1.0 / positive("rate", rate)
    if step > (1.0 + 1e-9) * duration:
        raise ProblemError(f"rate: expected at least {1.0 / duration:g} Hz, a control in {duration:g} s, got {rate:g}")
    if step > (1.0 + 1e-6) * planned:
        why = f"a control lasts {step:g} s, longer than the plan's steps of {planned:g} s"
        warn_once(f"rate: {why}, to which its feedback is made; {1.0 / planned:g} Hz or more are safe")
    return step


def weight_of(robot: Robot) -> float:
    """Weight of a robot [N]."""
    return float(pin.computeTotalMass(robot.model) * np.linalg.norm(robot.model.gravity.linear))

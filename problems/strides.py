"""Strides: a schedule laid out for a robot as a path of its body, footholds, swinging feet and postures that follow.

While feet step, the body moves as `Motion` says; each foot lands where the body holds it halfway through its stance, as
in Raibert's machines. Swinging feet leave and land without speed. Postures follow by inverse kinematics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ddp.errors import ProblemError, as_array, instance, positive, said, settle, suggesting
from ddp.guesses import smooth
from ddp.protocols import Array
from dynamics.contacts.contact import Contact
from dynamics.robots.libraries import pin
from problems.layout import scalar_joints
from problems.legs import TOUCHING, Stance, base_pose, frame_poses, upright, with_base
from problems.schedule import Schedule

Motion: TypeAlias = "Callable[[float], pin.SE3]"
"""Pose of the body at a time [s], relative to its start, in the axes of its heading at the start."""

SWEEPS, DAMPING, ACCURACY = 20, 1e-6, 1e-9
"""Inverse kinematics: Newton steps from the posture of the knot before, damping of the Jacobian [m²], and the error of
a foot that is good enough [m, rad]. After a step that leads further away, the next one is damped tenfold: else joints
of a leg that does not reach would turn round and round. Joints at a limit that a step would leave stay there."""


@dataclass(frozen=True, eq=False)
class Strides:
    """A schedule laid out for a robot.

    counts: steps of time of each phase.   starts: the knot of each phase's first one.   impacts: knots, by phase.
    holds: for each phase, the poses at which feet stand.   swings: those of the feet that swing, at each of its steps.
    X (N+1, nx): nominal states, impacts' knots among them.
    """

    stance: Stance
    schedule: Schedule
    dt: float
    counts: tuple[int, ...]
    starts: tuple[int, ...]
    impacts: dict[int, int]
    holds: tuple[dict[str, pin.SE3], ...]
    swings: tuple[dict[str, list[pin.SE3]], ...]
    X: Array

    def knots(self, i: int) -> range:
        """The knots of phase i in which time passes."""
        return range(self.starts[i], self.starts[i] + self.counts[i])

    def paths(self, i: int) -> dict[str, Array]:
        """The places (M, 3) [m] of the feet that swing at each of the M steps of phase i."""
        return {foot: np.array([pose.translation for pose in poses]) for foot, poses in self.swings[i].items()}

    def contacts(self, i: int, gains: tuple[float, float] = (0.0, 0.0)) -> list[Contact]:
        """The contacts of phase i where they stand, with Baumgarte's gains (1/s², 1/s)."""
        if self.stance.surface:
            return [Contact(foot, "surface", pose, gains, "local") for foot, pose in self.holds[i].items()]
        return [Contact(foot, "point", pose.translation, gains) for foot, pose in self.holds[i].items()]


@suggesting
def lay_out(
    stance: Stance, schedule: Schedule, dt: float, motion: Motion, lift: float, rise: Motion | None = None,
    ground: Callable[[float, float], float] | None = None,
) -> Strides:  # fmt: skip
    """The strides of a schedule in steps of dt [s].

    motion: of the body over level ground, which feet follow from one hold to the next.   lift [m]: how high feet swing.
    rise: what moves the body alone, on top of that and in its heading then: up and down in a jump, or to look around.
    ground: height [m] over level ground of a place (x, y) [m], as of a step: feet land on it, and ``rise`` lifts the
    body. It is 0 where feet stand at first.
    """
    dt = positive("dt", dt)
    instance("stance", stance, Stance)
    instance("schedule", schedule, Schedule)
    for field, moving in (("motion", motion), ("rise", rise)):
        if not callable(moving) and not (moving is None and field == "rise"):
            raise ProblemError(f"{field}: expected a function of time, got {said(moving)}")
        if moving is not None and not isinstance(place := moving(0.0), pin.SE3):
            raise ProblemError(f"{field}: expected a function of time that gives a pin.SE3, got {said(place)}")
    instance("ground", ground, (Callable, type(None)), "a function of x and y")  # type: ignore[arg-type]
    lift = float(as_array("lift", lift, ()))
    if schedule.feet != stance.feet:
        raise ProblemError(f"schedule: expected one of the feet {stance.feet}, got {schedule.feet}")
    counts = schedule.knots(dt)
    bounds = np.concatenate([[0.0], np.cumsum(counts) * dt])
    base = base_pose(stance.robot, stance.q)
    heading = pin.SE3(upright(base.rotation), np.array([*base.translation[:2], 0.0]))  # a frame below the base
    poses = dict(zip(stance.feet, frame_poses(stance.robot, stance.q, stance.feet), strict=True))
    for foot, pose in poses.items():
        height = 0.0 if ground is None else float(as_array("ground", ground(*pose.translation[:2]), ()))
        if abs(height) > TOUCHING:
            raise ProblemError(f"ground: expected 0 where feet stand at first, got {height:.3g} m at {foot!r}")

    def held(foot: str, t: float) -> pin.SE3:
        there = heading * motion(t) * heading.inverse() * poses[foot]
        if ground is not None:
            there.translation += [0.0, 0.0, float(as_array("ground", ground(*there.translation[:2]), ()))]
        return there

    holds: list[dict[str, pin.SE3]] = []
    for i, phase in enumerate(schedule.phases):
        holds.append({})
        for foot in phase.stance:
            kept = i > 0 and foot in holds[i - 1]
            holds[i][foot] = holds[i - 1][foot] if kept else held(foot, _middle(schedule, bounds, foot, i))
    swings = tuple(_swings(schedule, holds, counts, i, lift, held, bounds) for i in range(len(counts)))
    if rise is not None:
        for i in schedule.flights:  # feet go up and down with the body
            for path in swings[i].values():
                for m, pose in enumerate(path):
                    pose.translation += [0.0, 0.0, rise(float(bounds[i] + m * dt)).translation[2]]
    starts, impacts, knot = [], {}, 0
    for i, count in enumerate(counts):
        if schedule.landing(i):
            impacts[i] = knot
            knot += 1
        starts.append(knot)
        knot += count
    found = Strides(stance, schedule, dt, tuple(counts), tuple(starts), impacts, tuple(holds), swings, np.zeros((0, 0)))
    settle(found, X=_states(found, heading, motion, rise, bounds))
    return found


def _middle(schedule: Schedule, bounds: Array, foot: str, i: int) -> float:
    """Halfway through the stance that begins with phase i; its end if it is the last, its beginning if the first."""
    end = i
    while end + 1 < len(schedule.phases) and foot in schedule.phases[end + 1].stance:
        end += 1
    if i == 0:
        return 0.0
    return float(bounds[-1] if end + 1 == len(schedule.phases) else 0.5 * (bounds[i] + bounds[end + 1]))


def _swings(
    schedule: Schedule, holds: list[dict[str, pin.SE3]], counts: list[int], i: int, lift: float,
    held: Callable[[str, float], pin.SE3], bounds: Array,
) -> dict[str, list[pin.SE3]]:  # fmt: skip
    """The poses of the feet that swing in phase i: smooth from where they stood to where they stand next."""
    paths: dict[str, list[pin.SE3]] = {}
    for foot in schedule.swinging(i):
        first, last = i, i + 1
        while first > 0 and foot not in holds[first - 1]:
            first -= 1
        while last < len(holds) and foot not in holds[last]:
            last += 1
        start = holds[first - 1][foot] if first > 0 else held(foot, 0.0)
        end = holds[last][foot] if last < len(holds) else held(foot, float(bounds[-1]))
        total, done = sum(counts[first:last]), sum(counts[first:i])
        s = (done + np.arange(counts[i])) / total
        place, turn = end.translation - start.translation, pin.log3(end.rotation @ start.rotation.T)
        along, up = smooth(s), lift * np.sin(np.pi * s) ** 2
        up += place[2] * smooth(np.clip(2.0 * s - (place[2] < 0.0), 0.0, 1.0))  # a step, first or last
        ways = np.column_stack([np.outer(along, place[:2]), up])
        paths[foot] = [
            pin.SE3(pin.exp3(a * turn) @ start.rotation, start.translation + way)
            for a, way in zip(along, ways, strict=True)
        ]
    return paths


def _states(found: Strides, heading: pin.SE3, motion: Motion, rise: Motion | None, bounds: Array) -> Array:
    """Postures that follow body and feet, and the velocities from one to the next; at rest at the end."""
    stance, model = found.stance, found.stance.robot.model
    base = base_pose(stance.robot, stance.q)
    q, nv = stance.q, model.nv
    Q: list[Array] = []
    steps, impacts = [], set(found.impacts.values())
    for i, count in enumerate(found.counts):
        if i in found.impacts:
            Q.append(Q[-1])  # made again below: the posture of the knot after
            steps.append(0.0)
        for m in range(count):
            t = float(bounds[i] + m * found.dt)
            targets = found.holds[i] | {foot: path[m] for foot, path in found.swings[i].items()}
            q = follow(stance, with_base(stance.robot, q, _body(heading, motion, rise, base, t)), targets)
            if len(Q) - 1 in impacts:
                Q[-1] = q
            Q.append(q)
            steps.append(found.dt)
    end = with_base(stance.robot, q, _body(heading, motion, rise, base, float(bounds[-1])))
    Q.append(follow(stance, end, found.holds[-1] | {foot: path[-1] for foot, path in found.swings[-1].items()}))
    V = np.zeros((len(Q), nv))
    for k, step in enumerate(steps):
        if step > 0.0:
            V[k] = pin.difference(model, Q[k], Q[k + 1]) / step
        elif k > 0:
            V[k] = V[k - 1]
    return np.hstack([np.array(Q), V])


def _body(heading: pin.SE3, motion: Motion, rise: Motion | None, base: pin.SE3, t: float) -> pin.SE3:
    ahead = heading * motion(t)
    moved = ahead * heading.inverse() * base
    if rise is None:
        return moved
    there = pin.SE3(ahead.rotation, moved.translation)
    return there * rise(t) * there.actInv(moved)


def follow(stance: Stance, q: Array, targets: Mapping[str, pin.SE3]) -> Array:
    """The posture near q, its base where it is, whose feet are at their targets, or as close as joints' limits allow.

    Of feet that are points, only places count.
    """
    robot = stance.robot
    model, data = robot.model, robot.model.createData()
    joints, (lower, upper, *_) = np.delete(np.arange(model.nv), robot.floating_dofs), robot.ranges
    flat = scalar_joints(robot).flat
    limited, moving = flat[lower[flat[:, 0]] < upper[flat[:, 0]]].T
    nearest, least, damping = q, np.inf, DAMPING
    for _ in range(SWEEPS):
        pin.computeJointJacobians(model, data, q)
        pin.updateFramePlacements(model, data)
        rows, errors = [], []
        for foot, target in targets.items():
            frame = robot.frame_id(foot)
            J, now = pin.getFrameJacobian(model, data, frame, pin.LOCAL_WORLD_ALIGNED)[:, joints], data.oMf[frame]
            rows.append(J if stance.surface else J[:3])
            errors.append(target.translation - now.translation)
            if stance.surface:
                errors.append(pin.log3(target.rotation @ now.rotation.T))
        found = np.concatenate(errors)
        if np.abs(found).max() < ACCURACY:
            return q
        if (size := float(np.linalg.norm(found))) < least:
            nearest, least, A, error, damping = q, size, np.vstack(rows), found, max(0.1 * damping, DAMPING)
        else:
            damping *= 10.0
        step, free = np.zeros(model.nv), np.array(A)
        for _ in range(len(limited) + 1):
            step[joints] = free.T @ np.linalg.solve(free @ free.T + damping * np.eye(len(error)), error)
            ends = np.where(step[moving] > 0.0, upper[limited], lower[limited])
            held = moving[(nearest[limited] == ends) & (step[moving] != 0.0)]
            if not len(held):
                break
            free[:, np.isin(joints, held)] = 0.0
        q = np.array(pin.integrate(model, nearest, step))
        q[limited] = np.clip(q[limited], lower[limited], upper[limited])
    return nearest


def straight(velocity: tuple[float, float], turning: float, start: float, end: float, ramp: float = 0.0) -> Motion:
    """Line, or arc, at a constant velocity (forward, left) [m/s] and rate [rad/s] from ``start`` to ``end`` [s].

    ramp [s]: how long it takes to reach the velocity, half of that before the start, and to stop, half after the end.
    """
    numbers = (("turning", turning), ("start", start), ("end", end), ("ramp", ramp))
    turning, start, end, ramp = (float(as_array(name, value, ())) for name, value in numbers)
    twist = pin.Motion(np.array([*as_array("velocity", velocity, (2,)), 0.0]), np.array([0.0, 0.0, turning]))
    if not np.isfinite(pin.exp6(twist * (end - start)).homogeneous).all():
        raise ProblemError(f"turning: {turning:g} rad/s, with {velocity} m/s, leads to no place that is a number")
    ramp = max(ramp, 1e-9)

    def since(t: float) -> float:
        s = float(np.clip(t / ramp + 0.5, 0.0, 1.0))
        return ramp * 0.5 * s**2 + max(t - 0.5 * ramp, 0.0)

    def motion(t: float) -> pin.SE3:
        return pin.exp6(twist * (since(t - start) - since(t - end)))

    return motion

"""What a schedule means for a robot: the path of its body, footholds, swinging feet, and postures that follow them.

While feet step, the body moves as `Motion` says; each foot lands where the body holds it halfway through its stance, as
in Raibert's machines. Swinging feet leave and land without speed. Postures follow by inverse kinematics.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pinocchio as pin

from ddp.errors import ProblemError, positive
from ddp.protocols import Array
from dynamics.contact import Contact
from problems.legs import Stance, base_pose, with_base
from problems.schedule import Schedule

Motion = Callable[[float], pin.SE3]
"""Where the body is at a time [s], relative to its start, in the axes of its heading at the start."""

SWEEPS, DAMPING = 10, 1e-6
"""Of inverse kinematics: Newton steps from the posture of the knot before, and damping of the Jacobian [m²]."""


@dataclass(frozen=True, eq=False)
class Strides:
    """A schedule laid out for a robot.

    counts: steps of time of each phase.   starts: the knot of each phase's first one.   impacts: knots, by phase.
    holds: for each phase, the poses at which feet stand.   paths: for each phase, places (M, 3) [m] of the feet that
    swing, at each of its M steps.   X (N+1, nx): nominal states, impacts' knots among them.
    """

    stance: Stance
    schedule: Schedule
    dt: float
    counts: tuple[int, ...]
    starts: tuple[int, ...]
    impacts: dict[int, int]
    holds: tuple[dict[str, pin.SE3], ...]
    paths: tuple[dict[str, Array], ...]
    X: Array

    def knots(self, i: int) -> range:
        """The knots of phase i in which time passes."""
        return range(self.starts[i], self.starts[i] + self.counts[i])

    def contacts(self, i: int, gains: tuple[float, float]) -> list[Contact]:
        """The contacts of phase i, held where they stand with Baumgarte's gains (1/s², 1/s)."""
        if self.stance.surface:
            return [Contact(foot, "surface", pose, gains, "local") for foot, pose in self.holds[i].items()]
        return [Contact(foot, "point", pose.translation, gains) for foot, pose in self.holds[i].items()]


def lay_out(
    stance: Stance, schedule: Schedule, dt: float, motion: Motion, lift: float, rise: Motion | None = None
) -> Strides:
    """The strides of a schedule in steps of dt [s].

    motion: of the body over level ground, which feet follow from one hold to the next.   lift [m]: how high feet swing.
    rise: what moves the body alone, on top of that: up and down in a jump, or to look around.
    """
    positive("dt", dt)
    if schedule.feet != stance.feet:
        raise ProblemError(f"schedule: expected one of the feet {stance.feet}, got {schedule.feet}")
    counts = schedule.knots(dt)
    bounds = np.concatenate([[0.0], np.cumsum(counts) * dt])
    heading, poses = _heading(stance), _poses(stance)

    def held(foot: str, t: float) -> pin.SE3:
        return heading * motion(t) * heading.inverse() * poses[foot]

    holds: list[dict[str, pin.SE3]] = []
    for i, phase in enumerate(schedule.phases):
        holds.append({})
        for foot in phase.stance:
            kept = i > 0 and foot in holds[i - 1]
            holds[i][foot] = holds[i - 1][foot] if kept else held(foot, _middle(schedule, bounds, foot, i))
    paths = tuple(_swings(schedule, holds, counts, i, lift, held, bounds) for i in range(len(counts)))
    if rise is not None:
        for i in schedule.flights:  # feet go up and down with the body
            for path in paths[i].values():
                path[:, 2] += [rise(float(bounds[i] + m * dt)).translation[2] for m in range(len(path))]
    starts, impacts, knot = [], {}, 0
    for i, count in enumerate(counts):
        if schedule.landing(i):
            impacts[i] = knot
            knot += 1
        starts.append(knot)
        knot += count
    found = Strides(stance, schedule, dt, tuple(counts), tuple(starts), impacts, tuple(holds), paths, np.zeros((0, 0)))
    object.__setattr__(found, "X", _states(found, heading, motion, rise, bounds))
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
) -> dict[str, Array]:  # fmt: skip
    """The places of the feet that swing in phase i: smooth from where they stood to where they stand next."""
    paths = {}
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
        along = s**3 * (10.0 - 15.0 * s + 6.0 * s**2)
        path = start.translation + np.outer(along, end.translation - start.translation)
        path[:, 2] += lift * np.sin(np.pi * s) ** 2
        paths[foot] = path
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
            targets = {foot: pose.translation for foot, pose in found.holds[i].items()}
            targets |= {foot: path[m] for foot, path in found.paths[i].items()}
            q = follow(stance, with_base(stance.robot, q, _body(heading, motion, rise, base, t)), targets)
            if len(Q) - 1 in impacts:
                Q[-1] = q
            Q.append(q)
            steps.append(found.dt)
    last = {foot: pose.translation for foot, pose in found.holds[-1].items()}
    Q.append(follow(stance, with_base(stance.robot, q, _body(heading, motion, rise, base, float(bounds[-1]))), last))
    V = np.zeros((len(Q), nv))
    for k, step in enumerate(steps):
        if step > 0.0:
            V[k] = pin.difference(model, Q[k], Q[k + 1]) / step
        elif k > 0:
            V[k] = V[k - 1]
    return np.hstack([np.array(Q), V])


def _body(heading: pin.SE3, motion: Motion, rise: Motion | None, base: pin.SE3, t: float) -> pin.SE3:
    moved = heading * motion(t) * heading.inverse() * base
    return moved if rise is None else moved * rise(t)


def follow(stance: Stance, q: Array, targets: dict[str, Array]) -> Array:
    """The posture near q, with its base where it is, whose feet are at their targets (3,), or as close as they can be.

    Soles are brought to the heights and the angles that they have in the standing posture.
    """
    robot = stance.robot
    model, data = robot.model, robot.model.createData()
    joints = np.delete(np.arange(model.nv), robot.floating_dofs)
    frames = {foot: robot.frame_id(foot) for foot in targets}
    level = _poses(stance)
    lower, upper = model.lowerPositionLimit, model.upperPositionLimit
    for _ in range(SWEEPS):
        pin.computeJointJacobians(model, data, q)
        pin.updateFramePlacements(model, data)
        rows, errors = [], []
        for foot, target in targets.items():
            J = pin.getFrameJacobian(model, data, frames[foot], pin.LOCAL_WORLD_ALIGNED)[:, joints]
            rows.append(J[:3])
            errors.append(target - data.oMf[frames[foot]].translation)
            if stance.surface:
                rows.append(J[3:])
                errors.append(_tilt(stance, q, level[foot].rotation, data.oMf[frames[foot]].rotation))
        J, error = np.vstack(rows), np.concatenate(errors)
        if np.abs(error).max() < 1e-10:
            break
        step = np.zeros(model.nv)
        step[joints] = J.T @ np.linalg.solve(J @ J.T + DAMPING * np.eye(len(error)), error)
        q = np.array(pin.integrate(model, q, step))
        q[7:] = np.clip(q[7:], lower[7:], upper[7:]) if model.nq - model.nv == 1 else q[7:]
    return q


def _tilt(stance: Stance, q: Array, level: Array, now: Array) -> Array:
    """The rotation vector, in world axes, from how a sole is to how it stands under the body's heading."""
    before, after = _yaw(base_pose(stance.robot, stance.q).rotation), _yaw(base_pose(stance.robot, q).rotation)
    return np.asarray(pin.log3(after @ before.T @ level @ now.T))


def _heading(stance: Stance) -> pin.SE3:
    """A frame below the base, with its heading."""
    base = base_pose(stance.robot, stance.q)
    return pin.SE3(_yaw(base.rotation), np.array([*base.translation[:2], 0.0]))


def _yaw(R: Array) -> Array:
    angle = np.arctan2(R[1, 0], R[0, 0])
    return np.asarray(pin.exp3(np.array([0.0, 0.0, angle])))


def _poses(stance: Stance) -> dict[str, pin.SE3]:
    """The frames of all feet in the standing posture."""
    model, data = stance.robot.model, stance.robot.model.createData()
    pin.framesForwardKinematics(model, data, stance.q)
    return {foot: data.oMf[stance.robot.frame_id(foot)].copy() for foot in stance.feet}


def straight(velocity: tuple[float, float], turning: float, start: float, end: float) -> Motion:
    """At constant velocity (forward, left) [m/s] and rate [rad/s] from ``start`` to ``end`` [s]: a line, or an arc."""
    twist = pin.Motion(np.array([*velocity, 0.0]), np.array([0.0, 0.0, turning]))

    def motion(t: float) -> pin.SE3:
        return pin.exp6(twist * float(np.clip(t - start, 0.0, end - start)))

    return motion

"""Stance of a robot: the frames of its feet, their places, and the height of its centre of mass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import ProblemError, as_array, choice, items, numbers, said, suggesting
from ddp.protocols import Array
from dynamics.robots.joints import joint_index
from dynamics.robots.libraries import pin
from dynamics.robots.model import Robot
from dynamics.robots.omissions import listed, warn_once
from dynamics.steps.doubts import plain_numbers
from problems import checks

POINT_NAMES, SURFACE_NAMES = ("foot",), ("sole",)
"""Words in the names of feet's frames; frames called soles are surfaces, and are preferred."""

CORNERS = ("LF", "RF", "LH", "RH")
"""Left, right, fore, hind."""

TOUCHING = 1e-3
"""Largest distance [m] from the ground of a foot that stands."""

VERTICAL = 0.1
"""Share of an axis along the ground below which it points nowhere there."""


STEEP = 0.5
"""Cosine of the angle from the vertical beyond which the z axis of a sole is not taken for the ground's normal."""


@dataclass(frozen=True, eq=False)
class Stance:
    """A robot that stands: posture q (nq,), feet by name, their places (F, 3) [m] and the ground below each (F,) [m].

    height [m]: of the centre of mass above the feet.   mass [kg].   surface: whether feet are soles, not points.
    """

    robot: Robot
    q: Array
    feet: tuple[str, ...]
    places: Array
    ground: Array
    center: Array
    mass: float
    surface: bool

    @property
    def height(self) -> float:
        """Height of the centre of mass above the mean foot [m]."""
        return float(self.center[2] - self.places[:, 2].mean())

    @property
    def weight(self) -> float:
        """Weight of the robot [N]."""
        return self.mass * self.gravity

    @property
    def gravity(self) -> float:
        """Acceleration of gravity [m/s²]."""
        return float(np.linalg.norm(self.robot.model.gravity.linear))

    @property
    def unit(self) -> float:
        """The time that a fall takes, √(h / g) [s]."""
        return float(np.sqrt(self.height / self.gravity))

    def place(self, foot: str) -> Array:
        """Place of a foot (3,) [m]."""
        return self.places[self.feet.index(foot)]

    def corners(self) -> dict[str, str]:
        """The feet of a quadruped, by the `CORNERS` that they are at, as the base heads."""
        offsets = upright(base_pose(self.robot, self.q).rotation).T @ (self.places - self.places.mean(axis=0)).T
        named = {
            ("L" if y > 0.0 else "R") + ("F" if x > 0.0 else "H"): foot
            for foot, x, y in zip(self.feet, offsets[0], offsets[1], strict=True)
        }
        if len(self.feet) != 4 or len(named) != 4:
            raise ProblemError(f"feet: expected one at each corner, {', '.join(CORNERS)}; got {said(named)}")
        return {corner: named[corner] for corner in CORNERS}

    def sides(self) -> dict[str, str]:
        """The feet of a biped: "L" and "R"."""
        offsets = upright(base_pose(self.robot, self.q).rotation).T @ (self.places - self.places.mean(axis=0)).T
        named = {"L" if y > 0.0 else "R": foot for foot, y in zip(self.feet, offsets[1], strict=True)}
        if len(self.feet) != 2 or len(named) != 2:
            raise ProblemError(f"feet: expected a left and a right one, got {said(named)}")
        return {side: named[side] for side in "LR"}


def check_floating(robot: Robot) -> Robot:
    """Refuse a robot whose base is fixed, with a ProblemError that says where others are; the robot itself."""
    if not checks.robot("robot", robot).is_floating:
        if not robot.actuation[0].any():
            rails = f"{robot.name} on joints without motors, {robot.joint_names[0]} first"
            own = "phases of contacts of yours, mayne.Phase, are for such"
            raise ProblemError(f"robot: expected legs on a free-flying base, got {rails}: {own}")
        named = robot.source is not None and robot.source.is_named
        free = "`mayne list robots` tells which float" if named else "load(..., root='free-flyer')"
        raise ProblemError(f"robot: expected legs on a free-flying base, got {robot.name} on a fixed one: {free}")
    return robot


@suggesting
def stance(
    robot: Robot,
    feet: Sequence[str] | Mapping[str, str] | None = None,
    q0: ArrayLike | None = None,
    ground: float | None = None,
) -> Stance:
    """Find how a floating robot stands in the posture q0 (nq,), its usual one by default.

    feet: names of frames; default, every body that is called a sole, or else a foot, or such sites of MJCF files.
    ground [m]: the height of level ground; by default, the ground is where the feet are.

    ProblemError names a foot that the robot lacks, with the nearest names, and one that is not on the ground.
    """
    check_floating(robot)
    q = robot.q0 if q0 is None else as_array("q0", q0, (robot.nq,))
    names = tuple(found(robot) if feet is None else check_feet(robot, feet))
    poses = frame_poses(robot, q, names)
    places = np.array([pose.translation for pose in poses])
    floor = places[:, 2].copy() if ground is None else np.full(len(names), float(as_array("ground", ground, ())))
    for name, height in zip(names, places[:, 2] - floor, strict=True):
        if height < -TOUCHING:
            raise ProblemError(f"q0: the foot {name!r} is {-height:.3g} m below the ground at the start")
        if height > TOUCHING:
            raise ProblemError(f"q0: the foot {name!r} is {height:.3g} m above the ground at the start")
    if not (down := robot.model.gravity.linear)[2] < 0.0:
        raise ProblemError(f"robot: expected gravity that points down, along -z, got {numbers(down)} of {robot.name}")
    if np.hypot(*base_pose(robot, q).rotation[:2, 0]) < VERTICAL:
        raise ProblemError(f"q0: expected a base whose x axis points forward, that of {robot.name} is vertical")
    center = np.array(pin.centerOfMass(robot.model, robot.model.createData(), q))
    if not center[2] > (under := float(places[:, 2].mean())):
        lower = f"{robot.name}'s is {under - center[2]:.3g} m below its feet: quaternions are x, y, z, w"
        raise ProblemError(f"q0: expected a centre of mass above the feet, {lower}")
    if q0 is None and (bent := _at_limits(robot, q, names)):
        still = f"its usual posture has {listed(bent, 3)} at limits of position, from where legs hardly move"
        warn_once(f"{robot.name}: {still}: give one to stand in, q0=..., or a keyframe called home of MJCF")
    mass = float(sum(inertia.mass for inertia in list(robot.model.inertias)[1:]))
    surface = all(_is(name, SURFACE_NAMES) for name in names)
    for name, pose in zip(names, poses, strict=True):
        if surface and pose.rotation[2, 2] < STEEP:
            tilt = np.degrees(np.arccos(pose.rotation[2, 2]))
            raise ProblemError(f"feet: expected soles whose z axes point up, that of {name!r} is {tilt:.0f} deg off")
    return Stance(robot, np.array(q, float), names, places, floor, center, mass, surface)


def _at_limits(robot: Robot, q: Array, feet: Iterable[str]) -> list[str]:
    """Joints between the base and some feet that a posture q (nq,) has at a limit of position."""
    model, (low, high) = robot.model, robot.ranges[:2]
    legs = {joint for foot in feet for joint in model.supports[model.frames[robot.frame_id(foot)].parentJoint]}
    return [
        name for name, i, *_ in plain_numbers(robot)
        if joint_index(model, name) in legs and low[i] < high[i] and not low[i] < q[i] < high[i]
    ]  # fmt: skip


def found(robot: Robot) -> list[str]:
    """The bodies of a robot that are called feet, or else its sites."""
    frames = checks.robot("robot", robot).model.frames
    for kind in (pin.FrameType.BODY, pin.FrameType.OP_FRAME):
        for known in (SURFACE_NAMES, POINT_NAMES):
            names = [frame.name for frame in frames if frame.type == kind and _is(frame.name, known)]
            if len(names) >= 2:
                return names
    raise ProblemError(f"feet: {robot.name} has no bodies or sites called soles or feet: name them, feet=[...]")


def check_feet(robot: Robot, feet: Sequence[str] | Mapping[str, str]) -> list[str]:
    """Check that feet are frames of the robot, each named once and moved by some joint."""
    checks.robot("robot", robot)
    several = feet.values() if isinstance(feet, Mapping) else [feet] if isinstance(feet, str) else feet
    names = list(items("feet", several, "names of frames"))
    if not names:
        raise ProblemError("feet: expected the name of at least one frame, got none")
    known = [frame.name for frame in robot.model.frames]
    for name in names:
        choice("feet", name, known, f"{robot.name} has no frame")
        if names.count(name) > 1:
            raise ProblemError(f"feet: {name!r} is listed {names.count(name)} times")
    return names


def frame_poses(robot: Robot, q: Array, frames: Iterable[str]) -> list[pin.SE3]:
    """Poses of frames in a configuration."""
    data = robot.model.createData()
    pin.framesForwardKinematics(robot.model, data, q)
    return [data.oMf[robot.frame_id(frame)].copy() for frame in frames]


def heading_of(R: Array) -> float:
    """Angle about the vertical [rad] of where the x axis of a rotation points."""
    return float(np.arctan2(R[1, 0], R[0, 0]))


def upright(R: Array) -> Array:
    """Rotation about the vertical that has the heading of another."""
    return np.asarray(pin.exp3(np.array([0.0, 0.0, heading_of(R)])))


def base_pose(robot: Robot, q: Array) -> pin.SE3:
    """Pose of the floating base in the world."""
    i, place = _base(robot)
    return place * pin.SE3(pin.Quaternion(*q[[i + 6, i + 3, i + 4, i + 5]]).matrix(), np.array(q[i : i + 3]))


def with_base(robot: Robot, q: Array, pose: pin.SE3) -> Array:
    """The configuration with its base elsewhere in the world."""
    i, place = _base(robot)
    moved, own = np.array(q, float), place.actInv(pose)
    moved[i : i + 3], moved[i + 3 : i + 7] = own.translation, pin.Quaternion(own.rotation).coeffs()
    return moved


def _base(robot: Robot) -> tuple[int, pin.SE3]:
    """Place of the floating base's first number in q, and the pose that its numbers count from."""
    b = int(robot.tree.body[robot.floating_dofs[0]])
    return int(robot.tree.iq[b]), robot.model.jointPlacements[b + 1]


def _is(name: str, known: Sequence[str]) -> bool:
    return any(word in name.lower() for word in known)

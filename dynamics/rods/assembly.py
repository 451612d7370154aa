"""Robots put together of joints, bodies and elastic rods."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import (
    ModelError,
    as_array,
    at_least_zero,
    choice,
    flag,
    instance,
    instances,
    items,
    said,
    suggesting,
    text,
)
from dynamics.robots import joints
from dynamics.robots.libraries import pin
from dynamics.robots.loop import Loop
from dynamics.robots.model import Robot, check_robot
from dynamics.robots.rods import Rod, Tendon
from dynamics.robots.surroundings import ContactSprings, Water
from dynamics.rods.hybrid_robot import HybridRobot
from dynamics.rods.hybrid_trees import WORLD, Place, Recipe, Touching, Wrench

logger = logging.getLogger("mayne")


@suggesting
class Assembly:
    """A robot under construction: joints, bodies and rods, each on a frame of what is there already.

    gravity: its acceleration [m/s²]. Frames are "world", those of a robot begun with, joints and bodies by their names
    and, of a rod, ``name/base``, ``name/tip`` and ``name/0``, ``name/1``, ... of its points; rods carry at their tip.
    Every method returns the assembly.
    """

    def __init__(self, name: str = "robot", gravity: ArrayLike = (0.0, 0.0, -9.81)) -> None:
        self.name, self.model = text("name", name, ModelError), pin.Model()
        self.model.name, self.model.gravity.linear = self.name, as_array("gravity", gravity, (3,), ModelError)
        self.rods: dict[int, Rod] = {}
        self.tendons: dict[int, tuple[Tendon, ...]] = {}
        self.springs: dict[int, tuple[float, float]] = {}
        self.places: dict[str, Place] = {"world": Place(WORLD, pin.SE3.Identity())}
        self.begun: Robot | None = None
        self.wrenches: list[Wrench] = []
        self.contacts: list[Touching] = []
        self.in_water: Water | None = None
        self.loops: list[Loop] = []

    @classmethod
    def of(cls, robot: Robot) -> Assembly:
        """Begin with a robot of rigid bodies, its joints, frames, limits, springs, loops and actuators.

        Viscous friction of a URDF's joints acts in ``RobotDynamics(..., damping=True)`` alone, and not at all beside
        joints that are added with some.
        """
        check_robot(robot)
        if isinstance(robot, HybridRobot):
            raise ModelError(f"robot: expected one of rigid bodies to begin with, got {robot.name}, which has rods")
        made = cls(robot.name, robot.model.gravity.linear)
        made.begun, made.model, made.loops = robot, robot.model.copy(), list(robot.loops)
        for frame in list(made.model.frames)[1:]:
            made.places[frame.name] = Place(frame.parentJoint - 1, frame.placement)
        return made

    def joint(
        self, name: str, kind: pin.JointModel, on: str = "world", placement: pin.SE3 | None = None,
        inertia: pin.Inertia | None = None, stiffness: float = 0.0, damping: float = 0.0, rest: float = 0.0,
        armature: float = 0.0,
    ) -> Self:  # fmt: skip
        """Add a joint, one of Pinocchio's, on a frame, and the inertia of the body that it carries.

        stiffness [N m/rad, N/m], damping [N m s/rad, N s/m], rest [rad, m]: a spring and viscous friction along each
        degree of freedom, and where the spring is at rest; they act in steps of time, springs in ``statics`` too.
        armature [kg m², kg]: inertia of rotors.
        """
        number = _kind_of(text("name", name, ModelError), kind)
        at_rest = float(as_array("rest", rest, (), ModelError))
        spring = at_least_zero("stiffness", stiffness, error=ModelError)
        friction = at_least_zero("damping", damping, error=ModelError)
        rotor = at_least_zero("armature", armature, error=ModelError)
        if spring > 0.0 and number in joints.UNIT_NUMBERS:
            raise ModelError(f"stiffness: expected a joint whose q is an angle or a length, got {said(kind)}")
        body = self._add(name, kind, on, placement, inertia)
        self.springs[body] = spring, at_rest
        own = slice(self.model.nv - self.model.joints[body + 1].nv, self.model.nv)
        self.model.damping[own], self.model.armature[own] = friction, rotor
        self.places[name] = Place(body, pin.SE3.Identity())
        return self

    def body(self, inertia: pin.Inertia, on: str, placement: pin.SE3 | None = None, name: str | None = None) -> Self:
        """Fix a body to a frame; its name, if it has one, is a frame."""
        place = self._place("on", on)
        if place.body == WORLD:
            raise ModelError("on: expected a frame that moves, got one of the world, where a body has no effect")
        pose = place.pose * _pose(placement)
        instance("inertia", inertia, pin.Inertia, "a pinocchio.Inertia", ModelError)
        self.model.inertias[place.body + 1] += pose.act(inertia)
        if name is not None:
            self._new(name)
            self.places[name] = Place(place.body, pose)
        return self

    def frame(self, name: str, on: str = "world", placement: pin.SE3 | None = None) -> Self:
        """Name a pose on a frame."""
        self._new(name)
        place = self._place("on", on)
        self.places[name] = Place(place.body, place.pose * _pose(placement))
        return self

    def rod(
        self, rod: Rod, on: str = "world", placement: pin.SE3 | None = None, tendons: Sequence[Tendon] = ()
    ) -> Self:
        """Add a rod, its base at a pose on a frame, and tendons that run through all of it."""
        instance("rod", rod, Rod, error=ModelError)
        given = instances("tendons", tendons, Tendon, "Tendons", error=ModelError)
        for k, tendon in enumerate(given):
            if tendon.name in [other.name for other in given[:k]]:
                raise ModelError(f"tendons[{k}]: {rod.name} has a tendon {tendon.name!r} already")
            if not rod.holds(tendon):
                logger.warning("tendon %r leaves the section of rod %r: it pulls from outside", tendon.name, rod.name)
        last = rod.gauss + 1
        for name in (rod.name, *(f"{rod.name}/{k}" for k in range(last + 1))):
            self._new(name)
        body = self._add(rod.name, _numbers(rod.nv), on, placement, None)
        self.rods[body], self.tendons[body] = rod, given
        own = {f"{rod.name}/{k}": Place(body, pin.SE3.Identity(), k) for k in range(last + 1)}
        base = Place(self.model.parents[body + 1] - 1, self.model.jointPlacements[body + 1])
        own[f"{rod.name}/base"] = own[f"{rod.name}/0"] = base
        own[f"{rod.name}/tip"] = own[f"{rod.name}/{last}"] = Place(body, pin.SE3.Identity())
        self.places.update(own)
        return self

    def wrench(self, name: str, on: str, follows: bool = False) -> Self:
        """Add six controls: a force [N] and a couple [N m] that act at the origin of a frame.

        They are along the axes of the world or, if they follow, of the frame, which may be a point of a rod.
        """
        if text("name", name, ModelError) in [wrench.name for wrench in self.wrenches]:
            raise ModelError(f"name: {self.name} has a wrench {name!r} already")
        if self._frame("on", on).body == WORLD:
            raise ModelError("on: expected a frame that moves, got one of the world, where a wrench has no effect")
        self.wrenches.append(Wrench(name, on, flag("follows", follows, ModelError)))
        return self

    def contact(self, springs: ContactSprings, rods: Sequence[str] | None = None) -> Self:
        """Let rods, by their names, or all of them, press on a surface by springs of contact."""
        instance("springs", springs, ContactSprings, "ContactSprings", ModelError)
        names = None if rods is None else tuple(items("rods", rods, "names of rods", ModelError))
        known = [rod.name for rod in self.rods.values()]
        for name in names or ():
            choice("rods", name, known, f"{self.name} has no rod", ModelError)
        self.contacts.append(Touching(springs, names))
        return self

    def water(self, water: Water) -> Self:
        """Put the robot into water: buoyancy, drag and added mass of its rods."""
        instance("water", water, Water, "Water", ModelError)
        self.in_water = water
        return self

    def loop(self, frame_a: str, frame_b: str, free: str = "") -> Self:
        """Hold two frames together, but for what is free, see ``Loop``; frames of joints, bodies, or ends of rods."""
        self._place("frame_a", frame_a)
        self._place("frame_b", frame_b)
        self.loops.append(Loop(frame_a, frame_b, free))
        return self

    def robot(self) -> HybridRobot:
        """Finish: a robot for all functions that know rods; others refuse it by a ModelError."""
        if not self.rods:
            raise ModelError(f"{self.name}: expected at least one rod, got none (dynamics.load makes rigid robots)")
        return HybridRobot(Recipe(
            self.model.copy(), dict(self.rods), dict(self.tendons), dict(self.springs), dict(self.places), self.begun,
            tuple(self.wrenches), tuple(self.contacts), self.in_water, tuple(self.loops),
        ))  # fmt: skip

    def _add(
        self, name: str, joint: pin.JointModel, on: str, placement: pin.SE3 | None, inertia: pin.Inertia | None
    ) -> int:
        """Add a joint and what it carries; the number of its body."""
        self._new(name)
        place = self._place("on", on)
        pose = place.pose * _pose(placement)
        if inertia is not None:
            instance("inertia", inertia, pin.Inertia, "a pinocchio.Inertia", ModelError)
        j = self.model.addJoint(place.body + 1, joint, pose, name)
        if inertia is not None:
            self.model.inertias[j] = inertia
        return int(j) - 1

    def _new(self, name: str) -> None:
        taken = {*self.places, *list(self.model.names)[1:]}
        if text("name", name, ModelError) in taken:
            raise ModelError(f"name: {self.name} has a part or frame {name!r} already")

    def _frame(self, field: str, name: str) -> Place:
        choice(field, name, self.places, f"{self.name} has no frame", ModelError)
        return self.places[name]

    def _place(self, field: str, name: str) -> Place:
        place = self._frame(field, name)
        if place.point is not None:
            raise ModelError(
                f"{field}: expected the base or the tip of a rod, got the point {name!r} within it;"
                " make it two rods, one on the tip of the other"
            )
        return place


def _pose(placement: pin.SE3 | None) -> pin.SE3:
    if placement is None:
        return pin.SE3.Identity()
    if not isinstance(placement, pin.SE3) or not np.isfinite(placement.homogeneous).all():
        raise ModelError(f"placement: expected a pinocchio.SE3 of finite numbers, got {said(placement)}")
    return placement


def _kind_of(name: str, joint: pin.JointModel) -> int:
    """The kind of a joint; ModelError for one that is not supported, or a chain of others."""
    alone = pin.Model()
    try:
        alone.addJoint(0, joint, pin.SE3.Identity(), name)
    except Exception:
        raise ModelError(f"kind: expected a joint of pinocchio's, such as JointModelRX(), got {said(joint)}") from None
    return joints.kind_of(alone, 1)


def _numbers(count: int) -> pin.JointModel:
    """A joint of so many plain numbers, which takes the place of a rod."""
    joint = pin.JointModelComposite()
    for _ in range(count):
        joint.addJoint(pin.JointModelPX())
    return joint

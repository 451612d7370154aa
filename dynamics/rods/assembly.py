"""Robots put together of joints, bodies and elastic rods."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike, NDArray

from ddp.errors import ModelError, ProblemError, as_array, flag, items, nearest, said, text
from dynamics.geometry.joint_motion import UNIT_NUMBERS
from dynamics.robots import joints, loop
from dynamics.robots.chain import add_chain, free_flyers
from dynamics.robots.equipment import Equipment
from dynamics.robots.loop import Loop
from dynamics.robots.model import Robot, check_robot
from dynamics.robots.rods import Rod, Tendon
from dynamics.robots.surroundings import ContactSprings, Water
from dynamics.robots.tree import HybridTree, Tree
from dynamics.rods.hybrid_trees import hybrid_tree, laden
from dynamics.rods.mechanism import HybridMechanism

Array = NDArray[np.float64]

logger = logging.getLogger("mayne")

WORLD = -1


class Part(NamedTuple):
    """A joint, alone in a model of its own, or a rod; parent: the part that carries it, -1 for the world."""

    name: str
    parent: int
    placement: pin.SE3
    moves: pin.Model | Rod
    tendons: tuple[Tendon, ...] = ()
    spring: tuple[float, float, float, float] | None = None  # stiffness, damping, position at rest, armature

    @property
    def is_rod(self) -> bool:
        return isinstance(self.moves, Rod)

    def add_to(self, model: pin.Model, parent: int, placement: pin.SE3) -> int:
        """Add the joint to a model; its index."""
        joint: pin.Model = self.moves
        return int(model.addJoint(parent, joint.joints[1], placement, self.name))

    @property
    def nq(self) -> int:
        return int(self.moves.nv if isinstance(self.moves, Rod) else self.moves.nq)


class Place(NamedTuple):
    """A frame: the part that carries it, its pose there and, on a rod, the point (None: the tip)."""

    part: int
    pose: pin.SE3
    point: int | None = None


class Wrench(NamedTuple):
    """Force and couple on a frame that six controls set; follows: whether along its axes, not the world's."""

    name: str
    on: str
    follows: bool


class Touching(NamedTuple):
    """Springs of contact of some rods, by name; None: of all."""

    springs: ContactSprings
    rods: tuple[str, ...] | None


class Assembly:
    """A robot under construction: joints, bodies and rods, each on a frame of what is there already.

    gravity: its acceleration [m/s²]. Frames are "world", those of a robot begun with, joints and bodies by their names
    and, of a rod, ``name/base``, ``name/tip`` and ``name/0``, ``name/1``, ... of its points; rods carry at their tip.
    Every method returns the assembly.
    """

    def __init__(self, name: str = "robot", gravity: ArrayLike = (0.0, 0.0, -9.81)) -> None:
        self.name = text("name", name, ModelError)
        self.gravity = as_array("gravity", gravity, (3,), ModelError).copy()
        self.parts: list[Part] = []
        self.inertias: list[pin.Inertia] = []
        self.places: dict[str, Place] = {"world": Place(WORLD, pin.SE3.Identity())}
        self.begun: Robot | None = None
        self.wrenches: list[Wrench] = []
        self.contacts: list[Touching] = []
        self.in_water: Water | None = None
        self.loops: list[Loop] = []

    @classmethod
    def of(cls, robot: Robot) -> Assembly:
        """Begin with a robot of rigid bodies, its joints, frames, limits and actuators."""
        check_robot(robot)
        if isinstance(robot, HybridRobot):
            raise ModelError(f"robot: expected one of rigid bodies to begin with, got {robot.name}, which has rods")
        model = robot.model
        made = cls(robot.name, model.gravity.linear)
        made.begun = robot
        for j in range(1, model.njoints):
            joint = _alone(model.names[j], model.joints[j])
            made.parts.append(Part(model.names[j], model.parents[j] - 1, model.jointPlacements[j], joint))
            made.inertias.append(model.inertias[j].copy())
        for frame in list(model.frames)[1:]:
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
        joint = _alone(text("name", name, ModelError), kind)
        at_rest = float(as_array("rest", rest, (), ModelError))
        spring = (
            _of_joint("stiffness", stiffness), _of_joint("damping", damping), at_rest, _of_joint("armature", armature)
        )  # fmt: skip
        if spring[0] > 0.0 and joints.kind_of(joint, 1) in UNIT_NUMBERS:
            raise ModelError(f"stiffness: expected a joint whose q is an angle or a length, got {said(kind)}")
        self._add(name, joint, on, placement, inertia)
        if any(spring):
            self.parts[-1] = self.parts[-1]._replace(spring=spring)
        self.places[name] = Place(len(self.parts) - 1, pin.SE3.Identity())
        return self

    def body(self, inertia: pin.Inertia, on: str, placement: pin.SE3 | None = None, name: str | None = None) -> Self:
        """Fix a body to a frame; its name, if it has one, is a frame."""
        place = self._place("on", on)
        if place.part == WORLD:
            raise ModelError("on: expected a frame that moves, got one of the world, where a body has no effect")
        pose = place.pose * _pose(placement)
        self.inertias[place.part] += pose.act(_inertia(inertia))
        if name is not None:
            self._new(name)
            self.places[name] = Place(place.part, pose)
        return self

    def frame(self, name: str, on: str = "world", placement: pin.SE3 | None = None) -> Self:
        """Name a pose on a frame."""
        self._new(name)
        place = self._place("on", on)
        self.places[name] = Place(place.part, place.pose * _pose(placement))
        return self

    def rod(
        self, rod: Rod, on: str = "world", placement: pin.SE3 | None = None, tendons: Sequence[Tendon] = ()
    ) -> Self:
        """Add a rod, its base at a pose on a frame, and tendons that run through all of it."""
        if not isinstance(rod, Rod):
            raise ModelError(f"rod: expected a Rod, got {said(rod)}")
        given = items("tendons", tendons, "Tendon", ModelError)
        for tendon in given:
            if not isinstance(tendon, Tendon):
                raise ModelError(f"tendons: expected a list of Tendon, got {said(tendon)}")
            if not rod.holds(tendon):
                logger.warning("tendon %r leaves the section of rod %r: it pulls from outside", tendon.name, rod.name)
        last = rod.gauss + 1
        for k in range(last + 1):
            self._new(f"{rod.name}/{k}")
        self._add(rod.name, rod, on, placement, None, given)
        part = len(self.parts) - 1
        own = {f"{rod.name}/{k}": Place(part, pin.SE3.Identity(), k) for k in range(last + 1)}
        here = self.parts[part]
        own[f"{rod.name}/base"] = own[f"{rod.name}/0"] = Place(here.parent, here.placement)
        own[f"{rod.name}/tip"] = own[f"{rod.name}/{last}"] = Place(part, pin.SE3.Identity())
        self.places.update(own)
        return self

    def wrench(self, name: str, on: str, follows: bool = False) -> Self:
        """Add six controls: a force [N] and a couple [N m] that act at the origin of a frame.

        They are along the axes of the world or, if they follow, of the frame, which may be a point of a rod.
        """
        if text("name", name, ModelError) in [wrench.name for wrench in self.wrenches]:
            raise ModelError(f"name: {self.name} has a wrench {name!r} already")
        if self._frame("on", on).part == WORLD:
            raise ModelError("on: expected a frame that moves, got one of the world, where a wrench has no effect")
        self.wrenches.append(Wrench(name, on, flag("follows", follows, ModelError)))
        return self

    def contact(self, springs: ContactSprings, rods: Sequence[str] | None = None) -> Self:
        """Let rods, by their names, or all of them, press on a surface by springs of contact."""
        if not isinstance(springs, ContactSprings):
            raise ModelError(f"springs: expected ContactSprings, got {said(springs)}")
        names = None if rods is None else tuple(items("rods", rods, "names of rods", ModelError))
        known = [part.name for part in self.parts if part.is_rod]
        for name in names or ():
            if text("rods", name, ModelError) not in known:
                raise ModelError(f"rods: {self.name} has no rod {said(name)}; {nearest(name, known)}")
        self.contacts.append(Touching(springs, names))
        return self

    def water(self, water: Water) -> Self:
        """Put the robot into water: buoyancy, drag and added mass of its rods."""
        if not isinstance(water, Water):
            raise ModelError(f"water: expected Water, got {said(water)}")
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
        if not any(part.is_rod for part in self.parts):
            raise ModelError(f"{self.name}: expected at least one rod, got none (dynamics.load makes rigid robots)")
        return HybridRobot(Recipe(
            self.name, tuple(self.gravity.tolist()), tuple(self.parts), tuple(self.inertias), dict(self.places),
            self.begun, tuple(self.wrenches), tuple(self.contacts), self.in_water, tuple(self.loops),
        ))  # fmt: skip

    def _add(
        self, name: str, moves: pin.Model | Rod, on: str, placement: pin.SE3 | None,
        inertia: pin.Inertia | None, tendons: tuple[Tendon, ...] = (),
    ) -> None:  # fmt: skip
        self._new(name)
        place = self._place("on", on)
        self.parts.append(Part(name, place.part, place.pose * _pose(placement), moves, tendons))
        self.inertias.append(pin.Inertia.Zero() if inertia is None else _inertia(inertia))

    def _new(self, name: str) -> None:
        taken = {*self.places, *(part.name for part in self.parts)}
        if text("name", name, ModelError) in taken:
            raise ModelError(f"name: {self.name} has a frame {name!r} already")

    def _frame(self, field: str, name: str) -> Place:
        if text(field, name, ModelError) not in self.places:
            raise ModelError(f"{field}: {self.name} has no frame {said(name)}; {nearest(name, self.places)}")
        return self.places[name]

    def _place(self, field: str, name: str) -> Place:
        place = self._frame(field, name)
        if place.point is not None:
            raise ModelError(
                f"{field}: expected the base or the tip of a rod, got the point {name!r} within it;"
                " make it two rods, one on the tip of the other"
            )
        return place


class Recipe(NamedTuple):
    """All that a robot with rods is made of."""

    name: str
    gravity: tuple[float, ...]
    parts: tuple[Part, ...]
    inertias: tuple[pin.Inertia, ...]
    places: dict[str, Place]
    begun: Robot | None
    wrenches: tuple[Wrench, ...] = ()
    contacts: tuple[Touching, ...] = ()
    water: Water | None = None
    loops: tuple[Loop, ...] = ()


class HybridRobot(Robot):
    """A robot with elastic rods, made by ``Assembly``.

    model: its rigid joints alone, with the rods as they are without load: for names and limits, not for numbers.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.tree: HybridTree
        self.model = _rigid_part(recipe)
        self.source, self.equipment = None, Equipment(damped=True)
        self.tree = hybrid_tree(recipe)
        self.handle, self.room = self.tree.handle, self.tree.room
        self._resisting: dict[tuple[bool, bool], Tree] = {}
        self.q0 = self.neutral()
        self.loops = loop.given(self.mechanism, recipe.loops) if recipe.loops else ()
        if self.loops:
            self.q0 = self.closed(self.q0)
            self.held = loop.compile_loops(self.mechanism, self.tree.previous, self.loops, self.q0)

    @cached_property
    def mechanism(self) -> HybridMechanism:
        """The bodies, as loops see them."""
        return HybridMechanism(self)

    @cached_property
    def nq(self) -> int:
        return int(self.tree.nq)

    @cached_property
    def nv(self) -> int:
        return int(self.tree.nv)

    @property
    def joint_names(self) -> list[str]:
        return [part.name for part in self.recipe.parts]

    @property
    def rods(self) -> list[Rod]:
        """The rods, in the order of their coordinates."""
        return [part.moves for part in self.recipe.parts if isinstance(part.moves, Rod)]

    @property
    def tendons(self) -> list[Tendon]:
        """The tendons of all rods, in the order of their tensions."""
        return [tendon for part in self.recipe.parts for tendon in part.tendons]

    @property
    def wrenches(self) -> list[str]:
        """Names of the wrenches that controls set, six numbers each, which come after the tensions."""
        return [wrench.name for wrench in self.recipe.wrenches]

    @property
    def surfaces(self) -> list[ContactSprings]:
        """The surfaces that rods press on."""
        return [contact.springs for contact in self.recipe.contacts]

    @property
    def water(self) -> Water | None:
        """The water about the rods, if they are in some."""
        return self.recipe.water

    def resisting(self, damping: bool, springs: bool) -> Tree:
        """The tree of steps and of rest: springs and friction of joints where asked for, and loads."""
        if (damping, springs) not in self._resisting:
            made = super().resisting(damping, springs)
            assert isinstance(made, HybridTree)
            self._resisting[damping, springs] = laden(made, self.recipe)
        return self._resisting[damping, springs]

    @property
    def actuation(self) -> Array:
        """S (nv, nu): columns of tendons and wrenches, zeros since they act by q, then those of the joints' torques.

        Tensions [N] pull where they are positive; see ``tendon_forces``.
        """
        joints, before = np.flatnonzero(self.tree.rod[self.tree.body] < 0), self.tree.cables
        driven = np.setdiff1d(joints, self.floating_dofs)
        S: Array = np.zeros((self.nv, before + len(driven)))
        S[driven, before + np.arange(len(driven))] = 1.0
        return S

    @property
    def control_limits(self) -> Array:
        """Lower and upper limits (nu, 2) of the controls of ``actuation``: tensions pull, the rest has no limits."""
        limits = np.tile([-np.inf, np.inf], (self.actuation.shape[1], 1))
        limits[: len(self.tendons), 0] = 0.0
        return limits

    def coordinates(self, name: str) -> slice:
        """Where the coordinates of a rod, or the velocities of a joint, are among v (nv,)."""
        if name not in self.joint_names:
            raise ModelError(f"name: {self.name} has no joint or rod {said(name)}; {nearest(name, self.joint_names)}")
        b = self.joint_names.index(name)
        return slice(int(self.tree.iv[b]), int(self.tree.iv[b] + self.tree.nj[b]))

    def neutral(self) -> Array:
        return np.concatenate([_neutral(part.moves) for part in self.recipe.parts])

    def random_configuration(self, rng: np.random.Generator) -> Array:
        """A configuration (nq,): joints as of any robot; rods turn by up to a radian or so, and stretch by a tenth."""
        if not isinstance(rng, np.random.Generator):
            raise ProblemError(f"rng: expected a numpy.random.Generator, got {said(rng)}")
        return np.concatenate([_random(part.moves, kind, rng) for part, kind in zip(
            self.recipe.parts, self.tree.kind, strict=True)])  # fmt: skip

    @cached_property
    def chain(self) -> pin.Model:
        """The robot with every segment of a rod as a rigid body on a free-flyer, called ``name/1``, ``name/2``, ....

        Poses and inverse dynamics of this model at ``to_chain`` are the robot's: Pinocchio, or a viewer, can use it.
        """
        model = pin.Model()
        model.name, model.gravity.linear = self.name, np.array(self.recipe.gravity)
        made: list[int] = []
        for part, inertia in zip(self.recipe.parts, self.recipe.inertias, strict=True):
            parent = made[part.parent] if part.parent >= 0 else 0
            if isinstance(part.moves, Rod):
                made.append(add_chain(model, parent, part.placement, part.name, part.moves))
            else:
                made.append(part.add_to(model, parent, part.placement))
            model.appendBodyToJoint(made[-1], inertia, pin.SE3.Identity())
        return model

    def to_chain(self, Q: ArrayLike) -> Array:
        """Configurations of ``chain``, (chain.nq,) or (N, chain.nq), of the robot's (nq,) or (N, nq)."""
        given = np.asarray(Q, dtype=np.float64)
        rows = as_array("Q", np.atleast_2d(given), (None, self.nq))
        found = []
        for q in rows:
            numbers = np.split(q, self.tree.iq[1:])
            found.append(np.concatenate([
                free_flyers(part.moves, own) if isinstance(part.moves, Rod) else own
                for part, own in zip(self.recipe.parts, numbers, strict=True)
            ]))  # fmt: skip
        return np.array(found).reshape(*given.shape[:-1], -1)

    def has_frame(self, name: object) -> bool:
        return isinstance(name, str) and name in self.recipe.places

    def carrier(self, name: str) -> tuple[int, Array, int | None]:
        if not self.has_frame(name):
            raise ModelError(f"frame: {self.name} has no frame {said(name)}; {nearest(name, self.recipe.places)}")
        part, pose, point = self.recipe.places[name]
        return part, np.concatenate([pose.rotation.ravel(), pose.translation]), point

    def frame_id(self, name: str) -> int:
        """Refuse: the frames of rods are none of Pinocchio's."""
        raise ModelError(f"frame {name!r}: expected a robot of rigid bodies, got {self.name}, which has rods")

    def visuals(self) -> tuple[pin.GeometryModel, list[str]]:
        """Refuse: rods have no shapes yet."""
        raise ModelError(f"{self.name}: rods are not drawn; draw robot.chain at robot.to_chain(X) instead")

    def __getstate__(self) -> Recipe:  # type: ignore[override]
        return self.recipe

    def __setstate__(self, state: Recipe) -> None:  # type: ignore[override]
        self.__init__(state)  # type: ignore[misc]


def _pose(placement: pin.SE3 | None) -> pin.SE3:
    if placement is None:
        return pin.SE3.Identity()
    if not isinstance(placement, pin.SE3) or not np.isfinite(placement.homogeneous).all():
        raise ModelError(f"placement: expected a pinocchio.SE3 of finite numbers, got {said(placement)}")
    return placement


def _of_joint(field: str, value: float) -> float:
    number = float(as_array(field, value, (), ModelError))
    if number < 0.0:
        raise ModelError(f"{field}: expected a number of at least 0, got {number}")
    return number


def _inertia(inertia: pin.Inertia) -> pin.Inertia:
    if not isinstance(inertia, pin.Inertia):
        raise ModelError(f"inertia: expected a pinocchio.Inertia, got {said(inertia)}")
    return inertia


def _alone(name: str, joint: pin.JointModel) -> pin.Model:
    """A model of one joint; ModelError for one that is not supported, or a chain of others."""
    model = pin.Model()
    try:
        model.addJoint(0, joint, pin.SE3.Identity(), name)
    except Exception:
        raise ModelError(f"kind: expected a joint of pinocchio's, such as JointModelRX(), got {said(joint)}") from None
    joints.kind_of(model, 1)
    return model


def _neutral(moves: pin.Model | Rod) -> Array:
    return np.zeros(moves.nv) if isinstance(moves, Rod) else np.asarray(pin.neutral(moves))


def _random(moves: pin.Model | Rod, kind: int, rng: np.random.Generator) -> Array:
    if isinstance(moves, Rod):
        size = [reach for reach, d in zip([1.0 / moves.length] * 3 + [0.1] * 3, moves.degrees, strict=True)
                for _ in range(0 if d is None else d + 1)]  # fmt: skip
        return rng.uniform(-1.0, 1.0, size=moves.nv) * size
    free = np.full(moves.nq, joints.NO_LIMIT)
    return joints.random_numbers(kind, -free, free, rng)


def _rigid_part(recipe: Recipe) -> pin.Model:
    """The rigid joints as a model, on rods that are straight."""
    model = pin.Model()
    model.name, model.gravity.linear = recipe.name, np.array(recipe.gravity)
    made: list[tuple[int, pin.SE3]] = []
    for part, inertia in zip(recipe.parts, recipe.inertias, strict=True):
        index, pose = made[part.parent] if part.parent >= 0 else (0, pin.SE3.Identity())
        if isinstance(part.moves, Rod):
            tip = pin.SE3(np.eye(3), np.array([part.moves.length, 0.0, 0.0]))
            made.append((index, pose * part.placement * tip))
        else:
            j = part.add_to(model, index, pose * part.placement)
            model.appendBodyToJoint(j, inertia, pin.SE3.Identity())
            made.append((j, pin.SE3.Identity()))
    return model

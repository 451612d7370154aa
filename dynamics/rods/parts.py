"""Parts of robots with rods: joints, rods, frames, wrenches and surfaces, and all that makes a robot of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynamics.robots import joints
from dynamics.robots.equipment import effort_limits
from dynamics.robots.libraries import pin
from dynamics.robots.loop import Loop
from dynamics.robots.model import Robot
from dynamics.robots.rods import Rod, Tendon
from dynamics.robots.surroundings import ContactSprings, Water

Array = NDArray[np.float64]

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

    @property
    def damped(self) -> bool:
        """Whether joints' viscous friction acts unless a system is told otherwise."""
        added = any(part.spring is not None and part.spring[1] > 0.0 for part in self.parts)
        return added or self.begun is None or self.begun.equipment.damped


def ranges(moves: pin.Model | Rod) -> joints.Ranges:
    """Limits of a part, infinite where it has none."""
    if isinstance(moves, Rod):
        none = np.full(moves.nv, np.inf)
        return joints.Ranges(-none, none, none, none)
    given = joints.ranges(moves)
    return joints.Ranges(*(np.where(np.abs(one) < joints.NO_LIMIT, one, np.copysign(np.inf, one)) for one in given))


def efforts(moves: pin.Model | Rod) -> Array:
    """Lower and upper limit (nv, 2) of the forces on a part's degrees of freedom, infinite where it has none."""
    return np.tile([-np.inf, np.inf], (moves.nv, 1)) if isinstance(moves, Rod) else effort_limits(moves)


def neutral(moves: pin.Model | Rod) -> Array:
    """Numbers of a part in q without displacement."""
    return np.zeros(moves.nv) if isinstance(moves, Rod) else np.asarray(pin.neutral(moves))


def random(moves: pin.Model | Rod, kind: int, rng: np.random.Generator) -> Array:
    """Random numbers of a part in q: see ``HybridRobot.random_configuration``."""
    if isinstance(moves, Rod):
        size = [reach for reach, d in zip([1.0 / moves.length] * 3 + [0.1] * 3, moves.degrees, strict=True)
                for _ in range(0 if d is None else d + 1)]  # fmt: skip
        return rng.uniform(-1.0, 1.0, size=moves.nv) * size
    return joints.random_numbers(kind, moves.lowerPositionLimit, moves.upperPositionLimit, rng)

"""Parts of robots with rods: frames, wrenches and surfaces, and all that makes a robot of them."""

from __future__ import annotations

from typing import NamedTuple

from dynamics.robots.libraries import pin
from dynamics.robots.loop import Loop
from dynamics.robots.model import Robot
from dynamics.robots.rods import Rod, Tendon
from dynamics.robots.surroundings import ContactSprings, Water

WORLD = -1


class Place(NamedTuple):
    """A frame: the body that carries it, its pose there and, on a rod, the point (None: the tip)."""

    body: int
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
    """All that a robot with rods is made of.

    model: its joints and what they carry, Pinocchio's; in place of a rod, a joint of as many numbers, which is none of
    its motion.   rods, tendons: of the bodies that rods carry.   springs: of bodies, stiffness of their joints and
    where these are at rest.   begun: the robot whose joints are the first ones, if there is one.
    """

    model: pin.Model
    rods: dict[int, Rod]
    tendons: dict[int, tuple[Tendon, ...]]
    springs: dict[int, tuple[float, float]]
    places: dict[str, Place]
    begun: Robot | None
    wrenches: tuple[Wrench, ...] = ()
    contacts: tuple[Touching, ...] = ()
    water: Water | None = None
    loops: tuple[Loop, ...] = ()

    @property
    def damped(self) -> bool:
        """Whether joints' viscous friction acts unless a system is told otherwise."""
        begun = self.begun
        return begun is None or begun.equipment.damped or bool((self.model.damping[begun.nv :] > 0.0).any())

"""Robots with rods: the parts that they are made of, and their trees, the flat arrays that kernels read."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ddp.protocols import Array
from dynamics.robots.libraries import pin
from dynamics.robots.loop import Loop
from dynamics.robots.model import Robot
from dynamics.robots.rods import Rod, Tendon
from dynamics.robots.surroundings import ContactSprings, Water
from dynamics.robots.tree import HybridTree, Indices, arrays_of, roots
from dynamics.robots.tree import on_free_base as tree_on_free_base
from dynamics.rods.loads import LoadMemory
from dynamics.rods.memory import RodMemory

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


def hybrid_tree(recipe: Recipe) -> HybridTree:
    """The flat arrays of a robot with rods, without loads."""
    given = arrays_of(recipe.model, recipe.rods)
    iv, nj, nv = given["iv"], given["nj"], given["nv"]
    stiffness, springref = np.zeros((2, nv))
    if recipe.begun is not None:
        begun = recipe.begun.tree
        stiffness[: begun.nv], springref[: begun.nv] = begun.stiffness, begun.springref
        if recipe.damped and not recipe.begun.equipment.damped:
            given["damping"][: begun.nv] = 0.0
    for b, (spring, rest) in recipe.springs.items():
        own = slice(iv[b], iv[b] + nj[b])
        stiffness[own], springref[own] = spring, rest
    strain, mode, until = np.zeros(nv, dtype=np.int64), np.zeros(nv, dtype=np.int64), np.repeat(nj, nj)
    for b, rod in recipe.rods.items():
        own = slice(iv[b], iv[b] + nj[b])
        strain[own], mode[own] = rod.strain, np.searchsorted(np.array(rod.strains), rod.strain)
        until[own] = _until(rod.strain)
    rod_of, rods = np.full(given["nb"], -1), list(recipe.rods.values())
    rod_of[list(recipe.rods)] = np.arange(len(rods))
    count = np.array([rod.gauss + 2 for rod in rods])
    rows = np.array([(rod.gauss + 2) * rod.nv for rod in rods])
    samples = [_samples(rod) for rod in rods]
    squares = np.array([rod.nv**2 for rod in rods])
    routes = [_route(tendon, recipe.rods[b]) for b, own in recipe.tendons.items() for tendon in own]
    carried = np.cumsum([0, *map(len, recipe.tendons.values())])
    lengths = np.array([len(route) for route in routes], dtype=np.int64)
    points, columns = int(count.sum()), int(rows.sum())
    modes = np.array([len(rod.strains) for rod in rods])
    units, first = 2 * count * modes, np.cumsum(count) - count
    return HybridTree(
        **given, stiffness=stiffness, springref=springref, weightless=None,
        room=RodMemory.size(points=points, columns=columns, nv=nv, units=int(units.sum())),
        rod=rod_of, first=first, count=count,
        column=np.cumsum(rows) - rows, points=points, columns=columns,
        length=np.concatenate([one[0] for one in samples]), section=np.concatenate([rod.inertias() for rod in rods]),
        reference=np.concatenate([one[1] for one in samples]), level=np.concatenate([one[2] for one in samples]),
        strain=strain, mode=mode, until=until, modes=modes,
        strains=np.array([[*rod.strains, *(6 - len(rod.strains)) * [0]] for rod in rods]),
        units=int(units.sum()), unit=np.cumsum(units) - units, axes=np.eye(6),
        weight=np.concatenate([_ends(rod.weights) for rod in rods]),
        reference_there=np.concatenate([_ends(rod.rest_at_points) for rod in rods]),
        level_there=np.concatenate([rod.levels(rod.points).ravel() for rod in rods]),
        square=np.cumsum(squares) - squares, elastic=np.concatenate([rod.stiffness().ravel() for rod in rods]),
        viscous=np.concatenate([rod.damping().ravel() for rod in rods]),
        cables=len(routes) + 6 * len(recipe.wrenches), tendons=len(routes), cable=carried,
        route_of=np.cumsum(lengths) - lengths, route=np.concatenate([np.zeros((0, 4)), *routes]),
        root=roots(given["parent"]), laden=0, carried=0, steady=0, wet=0, pull=np.zeros(3),
        **_loads(recipe, dict(zip(recipe.rods, first.tolist(), strict=True)), points, len(routes)),
    )  # fmt: skip


def on_free_base(tree: HybridTree) -> HybridTree:
    """The tree on a free base, as `tree.on_free_base`, and without loads."""

    def of_dofs(values: Indices) -> Indices:
        return np.concatenate([np.zeros(6, dtype=np.int64), values])

    return tree_on_free_base(
        tree, rod=np.concatenate([[-1], tree.rod]), strain=of_dofs(tree.strain), mode=of_dofs(tree.mode),
        until=of_dofs(tree.until), root=roots(np.concatenate([[-1], tree.parent + 1])),
        room=RodMemory.size(points=tree.points, columns=tree.columns, nv=tree.nv + 6, units=tree.units),
    )  # fmt: skip


def laden(tree: HybridTree, recipe: Recipe) -> HybridTree:
    """The tree on which loads act, where there are some; in water, gravity is one of them."""
    water, acting = recipe.water is not None, len(recipe.wrenches) + len(recipe.contacts)
    if not (water or acting):
        return tree
    rows, steady = tree.points + tree.nb, acting > 0 or bool(np.any(tree.heavy[:] != 0.0) and np.any(tree.gravity))
    room = tree.room + LoadMemory.size(laden=rows, carried=tree.nv)
    made = tree.replace(laden=rows, carried=tree.nv, steady=int(steady), wet=int(water), room=room)
    if water:
        made = made.replace(pull=tree.gravity[:3].copy(), gravity=np.zeros(6))
    return made


def _loads(recipe: Recipe, first: dict[int, int], points: int, tendons: int) -> dict[str, Any]:
    """The arrays of loads; first: points of rods, by body."""
    heavy, drag, added = np.zeros(points), np.zeros((points, 3)), np.zeros((points, 3))
    touch, radii = [], []
    for b, rod in recipe.rods.items():
        k, A = first[b], rod.sections.area
        own = slice(k + 1, k + 1 + rod.gauss)
        if recipe.water is not None:
            rho, width, depth = recipe.water.density, 2.0 * rod.sections.y, 2.0 * rod.sections.z
            heavy[own] = rod.weights * (rod.material.density - rho) * A
            faces = np.array([0.25 * np.pi * (width + depth), depth, width]).T
            drag[own] = 0.5 * rho * rod.weights[:, None] * faces * np.asarray(recipe.water.drag)
            added[own] = (rho * rod.weights * A)[:, None] * np.asarray(recipe.water.added)
        for c, contact in enumerate(recipe.contacts):
            if contact.rods is None or rod.name in contact.rods:
                touch += [(c, k + 1 + l) for l in range(rod.gauss + 1)]
                radii += rod.half_widths[1:].tolist()
    sites = []
    for c, wrench in enumerate(recipe.wrenches):
        place = recipe.places[wrench.on]
        point = -1 if place.point is None else first[place.body] + place.point
        sites.append((place.body, point, int(wrench.follows), tendons + 6 * c))
    poses = [recipe.places[wrench.on].pose for wrench in recipe.wrenches]
    return {
        "heavy": heavy, "drag": drag, "added": added, "pushes": len(sites), "touches": len(touch),
        "touch": np.array(touch, dtype=np.int64).reshape(-1, 2),
        "touch_radius": np.array(radii), "sites": np.array(sites, dtype=np.int64).reshape(-1, 4),
        "site_pose": np.array([[*M.rotation.ravel(), *M.translation] for M in poses]).reshape(-1, 12),
        "surfaces": np.array([contact.springs.row() for contact in recipe.contacts]).reshape(-1, 10),
    }  # fmt: skip


def _samples(rod: Rod) -> tuple[Array, Array, Array]:
    """``length``, ``reference`` and ``level`` of a tree with this rod."""
    length = np.concatenate([[0.0], np.diff(rod.points)])
    reference = np.concatenate([np.zeros((2, 6)), rod.rest])
    at_samples = rod.levels(rod.sampling_points())
    level = np.concatenate([np.zeros((rod.nv, 2)), at_samples.reshape(-1, 2, rod.nv).swapaxes(1, 2).reshape(-1, 2)])
    return length, reference, level.ravel()


def _until(strain: Indices) -> Indices:
    """``until`` of the coordinates of a rod."""
    changes = np.flatnonzero(np.diff(strain)) + 1
    ends = np.append(changes, len(strain))
    return np.asarray(ends[np.searchsorted(ends, np.arange(len(strain)), side="right")])


def _ends(values: Array) -> Array:
    """Values at Gauss points, with zeros for base and tip, where integrals have no weight."""
    none = np.zeros_like(values[:1])
    return np.concatenate([none, values, none])


def _route(tendon: Tendon, rod: Rod) -> Array:
    """``route`` of a tendon."""
    path, slope = tendon.along(rod.points[1:-1] / rod.length)
    return _ends(np.hstack([path, slope / rod.length]))

"""Trees of robots with rods: parts compiled into the flat arrays that kernels read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynamics.geometry.joint_motion import ROD
from dynamics.robots import joints
from dynamics.robots.rods import Rod, Tendon
from dynamics.robots.tree import HybridTree, heirs, moments, segments, turns
from dynamics.robots.tree import on_free_base as tree_on_free_base
from dynamics.rods.loads import LoadMemory
from dynamics.rods.memory import RodMemory

if TYPE_CHECKING:
    from dynamics.rods.parts import Recipe

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


def hybrid_tree(recipe: Recipe) -> HybridTree:
    """The flat arrays of parts."""
    parts = recipe.parts
    kind = np.array([ROD if p.is_rod else joints.kind_of(p.moves, 1) for p in parts])
    nj = np.array([p.moves.nv for p in parts])
    sizes_q = np.array([p.nq for p in parts])
    iq, iv, nv = np.cumsum(sizes_q) - sizes_q, np.cumsum(nj) - nj, int(nj.sum())
    parent = np.array([part.parent for part in parts])
    previous = np.arange(nv) - 1
    for b in range(len(parts)):
        previous[iv[b]] = -1 if parent[b] < 0 else iv[parent[b]] + nj[parent[b]] - 1
    placement = np.array([[*p.placement.rotation.ravel(), *p.placement.translation] for p in parts])
    subspace = np.concatenate([np.zeros((p.moves.nv, 6)) if p.is_rod else joints.subspace(p.moves, 1) for p in parts])
    segment, relatives = segments(previous)
    begun = recipe.begun.tree if recipe.begun is not None else None

    def extended(values: Array | None) -> Array:
        return np.concatenate([np.zeros(0) if values is None else values, np.zeros(nv)])[:nv]

    damping, stiffness, springref, armature = (
        extended(None if begun is None else getattr(begun, name))
        for name in ("damping", "stiffness", "springref", "armature")
    )
    if recipe.damped and recipe.begun is not None and not recipe.begun.equipment.damped:
        damping[:] = 0.0
    for part, first in zip(parts, iv, strict=True):
        if part.spring is not None:
            own = slice(first, first + part.moves.nv)
            stiffness[own], damping[own], springref[own], armature[own] = part.spring
    rods = [part.moves for part in parts if isinstance(part.moves, Rod)]
    count = np.array([rod.gauss + 2 for rod in rods])
    rows = np.array([(rod.gauss + 2) * rod.nv for rod in rods])
    number = np.cumsum([isinstance(p.moves, Rod) for p in parts]) - 1
    samples = [_samples(rod) for rod in rods]
    squares = np.array([rod.nv**2 for rod in rods])
    tendons = [(tendon, part.moves) for part in parts for tendon in part.tendons]
    carried = np.cumsum([0, *(len(part.tendons) for part in parts if part.is_rod)])
    routes = [_route(tendon, rod) for tendon, rod in tendons]
    lengths = np.array([len(route) for route in routes], dtype=np.int64)
    points, columns = int(count.sum()), int(rows.sum())
    strains, modes = [rod.strains for rod in rods], np.array([len(rod.strains) for rod in rods])
    units, none = 2 * count * modes, np.zeros(0, dtype=np.int64)
    of_parts = [p.moves.strain if isinstance(p.moves, Rod) else np.zeros(p.moves.nv, dtype=np.int64) for p in parts]
    modes_of_parts = [
        np.searchsorted(np.array(p.moves.strains), p.moves.strain) if isinstance(p.moves, Rod) else of
        for p, of in zip(parts, of_parts, strict=True)
    ]
    return HybridTree(
        nb=len(parts), nv=nv, nq=int(sizes_q.sum()), ns=len(segment), parent=parent, heir=heirs(parent), kind=kind,
        iq=iq, iv=iv, nj=nj, placement=placement, turns=turns(placement, subspace[iv]), subspace=subspace,
        inertia=np.array([moments(i, p.name) for i, p in zip(recipe.inertias, parts, strict=True)]),
        armature=armature, gravity=np.array([*recipe.gravity, 0.0, 0.0, 0.0]), damping=damping, stiffness=stiffness,
        springref=springref, body=np.repeat(np.arange(len(parts)), nj), previous=previous, segment=segment,
        relatives=relatives, weightless=None,
        room=RodMemory.size(points=points, columns=columns, nv=nv, units=int(units.sum())),
        rod=np.where(kind == ROD, number, -1), first=np.cumsum(count) - count, count=count,
        column=np.cumsum(rows) - rows, points=points, columns=columns,
        length=np.concatenate([one[0] for one in samples]), section=np.concatenate([rod.inertias() for rod in rods]),
        reference=np.concatenate([one[1] for one in samples]), level=np.concatenate([one[2] for one in samples]),
        strain=np.concatenate([none, *of_parts]), mode=np.concatenate([none, *modes_of_parts]),
        until=np.concatenate([none, *map(_until, of_parts)]),
        strains=np.array([[*own, *(6 - len(own)) * [0]] for own in strains]), modes=modes, units=int(units.sum()),
        unit=np.cumsum(units) - units, axes=np.eye(6),
        weight=np.concatenate([_ends(rod.weights) for rod in rods]),
        reference_there=np.concatenate([_ends(rod.rest_at_points) for rod in rods]),
        level_there=np.concatenate([rod.levels(rod.points).ravel() for rod in rods]),
        square=np.cumsum(squares) - squares, elastic=np.concatenate([rod.stiffness().ravel() for rod in rods]),
        viscous=np.concatenate([rod.damping().ravel() for rod in rods]),
        cables=len(tendons) + 6 * len(recipe.wrenches), tendons=len(tendons), cable=carried,
        route_of=np.cumsum(lengths) - lengths, route=np.concatenate([np.zeros((0, 4)), *routes]),
        root=_roots(parent), laden=0, carried=0, steady=0, wet=0, pull=np.zeros(3),
        **_loads(recipe, rods, np.cumsum(count) - count, len(tendons)),
    )  # fmt: skip


def on_free_base(tree: HybridTree) -> HybridTree:
    """The tree on a free base, as `tree.on_free_base`, and without loads."""

    def of_dofs(values: Indices) -> Indices:
        return np.concatenate([np.zeros(6, dtype=np.int64), values])

    return tree_on_free_base(
        tree, rod=np.concatenate([[-1], tree.rod]), strain=of_dofs(tree.strain), mode=of_dofs(tree.mode),
        until=of_dofs(tree.until), root=_roots(np.concatenate([[-1], tree.parent + 1])),
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


def _roots(parent: Indices) -> Indices:
    """``root`` of a tree."""
    root = np.arange(len(parent))
    for b, p in enumerate(parent):
        if p >= 0:
            root[b] = root[p]
    return root


def _loads(recipe: Recipe, rods: list[Rod], first: Indices, tendons: int) -> dict[str, Any]:
    """The arrays of loads."""
    points, names = int(sum(rod.gauss + 2 for rod in rods)), [rod.name for rod in rods]
    heavy, drag, added = np.zeros(points), np.zeros((points, 3)), np.zeros((points, 3))
    touch, radii = [], []
    for k, rod in zip(first, rods, strict=True):
        own, A = slice(k + 1, k + 1 + rod.gauss), rod.sections.area
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
        point = -1 if place.point is None else int(first[names.index(recipe.parts[place.part].name)] + place.point)
        sites.append((place.part, point, int(wrench.follows), tendons + 6 * c))
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

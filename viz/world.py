"""Surroundings that a solution's problem tells of: ground and forces, targets and footholds, obstacles, what holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynamics.geometry.solids import Capsule, Mark, Marked
from dynamics.phases.phased_dynamics import PhasedDynamics
from dynamics.phases.reaction import friction_cones, ground, ground_forces, slopes, standing
from dynamics.robots.capsules import BodyCapsule
from dynamics.robots.joints import joint_index
from dynamics.robots.libraries import pin
from dynamics.rods.hybrid_robot import HybridRobot
from dynamics.steps.doubts import constraints_of, terms_of
from viz.shapes import Array, distinct

Flags = NDArray[np.bool_]

HOLDS = 1e-6
"""Multipliers below this share of the largest hold nothing."""
NEAR = 0.01
"""Targets this close to a foothold [m] are that foothold's."""
AT_LIMIT = 1e-6
"""Controls are at a limit that is as near as this share of its size."""


class World(NamedTuple):
    """Surroundings of a motion of N+1 states.

    targets: what something shall reach.   footholds (F, 3) [m].   forces: the force (N, 3) on each foot [N].
    friction: coefficient of each foot's cone, and its axis (3,).   ground: its height [m].   obstacles, walls: solids
    and planes, and at which states (N+1,) each holds the motion.   slopes: planes that wheels roll on.   bodies: solids
    of the robot that constraints are about.   limits: joint index to the states at which its control or a constraint on
    it is at a limit.   feet: frames with contacts.   shown: index of an obstacle to the states (N+1,) at which it is
    there, all where it has none.
    """

    targets: Sequence[Mark] = ()
    footholds: Array = np.empty((0, 3))
    forces: Mapping[str, Array] = MappingProxyType({})
    friction: Mapping[str, tuple[float, Array]] = MappingProxyType({})
    ground: float | None = None
    obstacles: Sequence[tuple[Capsule, Flags | None]] = ()
    walls: Sequence[tuple[Mark, Flags | None]] = ()
    slopes: Sequence[Mark] = ()
    bodies: Sequence[BodyCapsule] = ()
    limits: Mapping[int, Flags] = MappingProxyType({})
    feet: tuple[str, ...] = ()
    shown: Mapping[int, Flags] = MappingProxyType({})


def world_of(solution: Any, system: Any, X: Array, U: Array | None, first: int = 0) -> World:
    """Surroundings that the problem of a solution tells of.

    system, X (N+1, nx), U (N, nu): the robot's own, without compositions around it, from the knot ``first`` of the
    solution on; U None: not known.
    """
    problem = solution.problem
    placed = list(getattr(problem, "placed", ()))
    targets = [mark for term in terms_of(problem) if isinstance(term, Marked) for mark in term.marks()]
    residuals = solution.residuals() if placed and getattr(solution, "multipliers", np.zeros(0)).size else None
    solids: dict[tuple[Any, ...], tuple[Mark, Flags | None]] = {}
    imposed: dict[tuple[Any, ...], set[int]] = {}
    bodies: dict[tuple[int, bytes], BodyCapsule] = {}
    limits = {} if U is None else _limits(solution, system, first, len(X))
    for i, one in enumerate(constraints_of(problem)):

        def holding(row: int | None, side: int = 0, i: int = i) -> Flags | None:
            return None if residuals is None else _holding(residuals[i], row, side, first, len(X))

        if hasattr(one, "bodies"):
            bodies |= {(body.joint, np.asarray(body.start).tobytes()): body for body in one.bodies()}
        if hasattr(one, "joints") and hasattr(one, "row_names") and not isinstance(system.robot, HybridRobot):
            _add_limits(limits, system.robot.model, one.row_names, holding)
        for mark in one.marks() if isinstance(one, Marked) else ():
            if mark.kind == "target":
                targets.append(mark)
                continue
            key = mark.frame, mark.start.tobytes(), mark.end.tobytes(), mark.radius
            found = [flags for _, flags in (solids.get(key, (mark, None)), (mark, holding(mark.row, mark.side)))
                     if flags is not None]  # fmt: skip
            solids[key] = mark, np.any(found, axis=0) if found else None
            imposed.setdefault(key, set()).update(range(placed[i].start, placed[i].stop))
    knots = [imposed[key] for key, (mark, _) in solids.items() if mark.kind == "obstacle"]
    told = World(
        _each(targets), bodies=list(bodies.values()), limits=limits,
        obstacles=[(Capsule(m.start, m.end, m.radius), flags) for m, flags in solids.values() if m.kind == "obstacle"],
        walls=[(mark, flags) for mark, flags in solids.values() if mark.kind == "wall"],
        shown=_in_turn(knots, first, len(X)),
    )  # fmt: skip
    if not isinstance(system, PhasedDynamics):
        return told
    held = [contact.target for phase in system.phases for contact in phase.contacts if contact.target is not None]
    points = np.array([p.translation if isinstance(p, pin.SE3) else p for p in held]).reshape(-1, 3)
    once, _ = distinct(points.round(6))
    near = [mark for mark in told.targets if not (np.linalg.norm(points - mark.start, axis=1) < NEAR).any()]
    return told._replace(
        targets=near, footholds=points[np.sort(once)], forces={} if U is None else _finite(ground_forces(system, X, U)),
        friction=friction_cones(problem, system, X), ground=ground(system), slopes=slopes(system),
        feet=tuple(standing(system)),
    )  # fmt: skip


def ground_of(system: Any) -> World:
    """Surroundings of a system that nobody has a problem of: the ground and the feet of a robot with legs."""
    if not isinstance(system, PhasedDynamics):
        return World()
    return World(ground=ground(system), slopes=slopes(system), feet=tuple(standing(system)))


def _finite(forces: dict[str, Array]) -> dict[str, Array]:
    """Forces (N, 3), zero where they are not known: in states from which no step leaves feet in their places."""
    return {foot: np.where(np.isfinite(force).all(axis=1, keepdims=True), force, 0.0) for foot, force in forces.items()}


def _each(marks: Iterable[Mark]) -> list[Mark]:
    """Marks without repetitions at one place."""
    return list({(mark.frame, mark.start.round(6).tobytes()): mark for mark in marks}.values())


def _in_turn(imposed: Sequence[set[int]], first: int, count: int) -> dict[int, Flags]:
    """Index of an obstacle that moves to the states, ``count`` from a knot on, at which it is there.

    imposed: knots of each obstacle. Those of one knot are places of what moves, each until the next knot that has one.
    """
    starts = np.array(sorted({k for knots in imposed if len(knots) == 1 for k in knots}))
    if len(starts) < 2:
        return {}
    last = starts[np.maximum(np.searchsorted(starts, np.arange(first, first + count), side="right") - 1, 0)]
    return {i: np.isin(last, list(knots)) for i, knots in enumerate(imposed) if len(knots) == 1}


def _holding(residual: Any, row: int | None, side: int, first: int, count: int) -> Flags:
    """Flags of ``count`` states from a knot on: whether a row of a constraint, or one side of it, holds the motion."""
    size = np.abs(residual.multipliers)
    own = size if side == 0 else np.maximum(side * np.asarray(residual.multipliers), 0.0)
    own = own if row is None else own[:, row : row + 1]
    flags = np.zeros(count, dtype=bool)
    knots = np.asarray(residual.knots) - first
    inside = (knots >= 0) & (knots < count)
    flags[knots[inside]] = (own > HOLDS * max(float(size.max()), 1e-300)).any(axis=1)[inside]
    return flags


def _add_limits(
    limits: dict[int, Flags], model: pin.Model, names: Sequence[str], holding: Callable[[int], Flags | None]
) -> None:
    """Add the states at which a constraint's rows, named after joints, hold the motion."""
    for row, name in enumerate(names):
        flags = holding(row)
        if flags is not None and flags.any() and (joint := joint_index(model, name)):
            limits[joint] = flags | limits.get(joint, flags)


def _limits(solution: Any, system: Any, first: int, count: int) -> dict[int, Flags]:
    """States at which the control of a joint, by its index, is at a limit."""
    names = getattr(getattr(solution, "u", None), "names", ())
    if isinstance(system.robot, HybridRobot):  # whose controls are cables
        return {}
    model, problem, found = system.robot.model, solution.problem, {}
    for i, name in enumerate(names):
        if not (joint := joint_index(model, name)):
            continue
        u = np.asarray(solution.U)[:, i]
        low, high = (np.broadcast_to(limit, np.shape(solution.U))[:, i] for limit in (problem.lower, problem.upper))
        at = np.isclose(u, low, rtol=AT_LIMIT, atol=0.0) | np.isclose(u, high, rtol=AT_LIMIT, atol=0.0)
        at = np.append(at, at[-1])[first : first + count]
        if at.any():
            found[joint] = at
    return found

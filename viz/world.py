"""Surroundings that a solution's problem tells of: ground and forces, targets and footholds, obstacles, what holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dynamics.geometry.solids import Capsule, Mark, Marked
from dynamics.phases.phased_dynamics import PhasedDynamics
from dynamics.phases.reaction import friction, ground, ground_forces, standing
from dynamics.robots.capsules import BodyCapsule
from dynamics.robots.libraries import pin
from dynamics.rods.hybrid_robot import HybridRobot
from dynamics.steps.doubts import terms_of
from viz.shapes import Array, distinct

Flags = NDArray[np.bool_]

HOLDS = 1e-6
"""Multipliers below this share of the largest hold nothing."""
NEAR = 0.01
"""Targets this close to a foothold [m] are that foothold's."""
AT_LIMIT = 1e-6
"""Controls are at a limit that is as near as this share of its size."""


@runtime_checkable
class Carried(Protocol):
    """Constraint on solids that a robot carries."""

    def bodies(self) -> list[BodyCapsule]: ...


class World(NamedTuple):
    """Surroundings of a motion of N+1 states.

    targets: what something shall reach.   footholds (F, 3) [m].   forces: the force (N, 3) on each foot [N].
    friction: coefficient of the cones.   ground: its height [m].   obstacles: solids, and at which states (N+1,) each
    holds the motion.   bodies: solids of the robot that constraints are about.   limits: joint index to the states at
    which its control is at a limit.   feet: frames with contacts.
    """

    targets: Sequence[Mark] = ()
    footholds: Array = np.empty((0, 3))
    forces: Mapping[str, Array] = MappingProxyType({})
    friction: float | None = None
    ground: float | None = None
    obstacles: Sequence[tuple[Capsule, Flags | None]] = ()
    bodies: Sequence[BodyCapsule] = ()
    limits: Mapping[int, Flags] = MappingProxyType({})
    feet: tuple[str, ...] = ()


def world_of(solution: Any, system: Any, X: Array, U: Array | None) -> World:
    """Surroundings that the problem of a solution tells of.

    system, X (N+1, nx), U (N, nu): the robot's own, without compositions around it; U None: not known.
    """
    problem = solution.problem
    placed = list(getattr(problem, "placed", ()))
    targets = [mark for term in terms_of(problem) if isinstance(term, Marked) for mark in term.marks()]
    residuals = solution.residuals() if placed and getattr(solution, "multipliers", np.zeros(0)).size else None
    obstacles: dict[int, tuple[Capsule, Flags | None]] = {}
    bodies: dict[tuple[int, bytes], BodyCapsule] = {}
    for i, one in enumerate(placed):
        if isinstance(one.constraint, Carried):
            bodies |= {(body.joint, np.asarray(body.start).tobytes()): body for body in one.constraint.bodies()}
        for mark in one.constraint.marks() if isinstance(one.constraint, Marked) else ():
            if mark.kind != "obstacle":
                targets.append(mark)
                continue
            holding = None if residuals is None else _holding(residuals[i], mark.row, len(X))
            key = hash((mark.start.tobytes(), mark.end.tobytes(), mark.radius))
            before = obstacles[key][1] if key in obstacles else None
            joined = holding if before is None else before if holding is None else before | holding
            obstacles[key] = Capsule(mark.start, mark.end, mark.radius), joined
    told = World(_each(targets), obstacles=list(obstacles.values()), bodies=list(bodies.values()))
    if U is not None:
        told = told._replace(limits=_limits(solution, system, len(X)))
    if not isinstance(system, PhasedDynamics):
        return told
    held = [contact.target for phase in system.phases for contact in phase.contacts if contact.target is not None]
    points = np.array([p.translation if isinstance(p, pin.SE3) else p for p in held]).reshape(-1, 3)
    first, _ = distinct(points.round(6))
    near = [mark for mark in told.targets if not (np.linalg.norm(points - mark.start, axis=1) < NEAR).any()]
    return told._replace(
        targets=near, footholds=points[np.sort(first)], forces={} if U is None else ground_forces(system, X, U),
        friction=friction(problem), ground=ground(system), feet=tuple(standing(system)),
    )  # fmt: skip


def _each(marks: Iterable[Mark]) -> list[Mark]:
    """Marks without repetitions at one place."""
    return list({(mark.frame, mark.start.round(6).tobytes()): mark for mark in marks}.values())


def _holding(residual: Any, row: int | None, count: int) -> Flags:
    """At which of ``count`` states a row of a constraint holds the motion."""
    size = np.abs(residual.multipliers)
    own = size if row is None else size[:, row : row + 1]
    flags = np.zeros(count, dtype=bool)
    knots = np.asarray(residual.knots)
    inside = knots < count
    flags[knots[inside]] = (own > HOLDS * max(float(size.max()), 1e-300)).any(axis=1)[inside]
    return flags


def _limits(solution: Any, system: Any, count: int) -> dict[int, Flags]:
    """States at which the control of a joint, by its index, is at a limit."""
    names = getattr(getattr(solution, "u", None), "names", ())
    if isinstance(system.robot, HybridRobot):  # whose controls are cables
        return {}
    model, problem, found = system.robot.model, solution.problem, {}
    for i, name in enumerate(names):
        if not model.existJointName(name):
            continue
        u = np.asarray(solution.U)[:, i]
        low, high = (np.broadcast_to(limit, np.shape(solution.U))[:, i] for limit in (problem.lower, problem.upper))
        at = np.isclose(u, low, rtol=AT_LIMIT, atol=0.0) | np.isclose(u, high, rtol=AT_LIMIT, atol=0.0)
        if at.any():
            found[int(model.getJointId(name))] = np.append(at, at[-1])[:count]
    return found

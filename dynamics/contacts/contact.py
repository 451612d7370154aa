"""Contacts: which frames of a robot touch the world, and how they are held; compiled once for the kernels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import ProblemError, as_array, choice, instance, instances, positive, said, settle, suggesting
from ddp.machine.declared import each
from ddp.machine.struct import Struct, integer, integers, reals
from ddp.protocols import Array
from dynamics.geometry.solids import direction, pose
from dynamics.quantities.quantities import frame_placement, frame_velocity_derivatives
from dynamics.robots.libraries import pin
from dynamics.robots.massless_joints import mass_matrix
from dynamics.robots.model import Robot, check_robot
from dynamics.robots.omissions import warn_once
from dynamics.robots.tree import roots

POINT, SURFACE, ROLLING = range(3)
KINDS = {"point": POINT, "surface": SURFACE, "rolling": ROLLING}
LOCAL, LOCAL_WORLD_ALIGNED = range(2)
REFERENCES = {"local": LOCAL, "local-world-aligned": LOCAL_WORLD_ALIGNED}

REGULARIZATION = 1e-6
"""ε of redundant contacts, as a part of what a unit of force accelerates where they touch. Less, and rounding shows."""

_STILL = 1e-10
"""Size of the rows of a direction in which nothing moves, of that of three rows, or of all of a frame."""

_ROUNDED = 1e-4
"""Below this size joints are meant to move nothing there: axes are rounded in a file, as 1.5708 for π/2."""

_APART = 1e-3
"""Distance [m, rad] that two references of one body may be off what its frames allow."""


@suggesting
@dataclass(frozen=True, eq=False)
class Contact:
    """A frame that touches the world and does not accelerate in it, or rolls on it.

    frame: its name in the robot's model.
    kind: "point", whose origin is held and that feels a force (3,) [N]; "surface", all of whose pose is held and
    that feels a wrench (6,) = [force N; couple N m] at its origin; or "rolling", a wheel, disc or ball about its origin
    that rolls on a plane without slipping and feels a force (3,) [N] where it touches.
    gains (kp [1/s²], kd [1/s]): Baumgarte's, as Crocoddyl's contact models and Pinocchio's corrector have them; the
    acceleration obeys ``acceleration + kd velocity + kp error = 0``. For a point: the classical acceleration, the
    velocity and ``p - target`` of its origin. For a surface: the frame's spatial acceleration and velocity, and
    ``log6(target⁻¹ oMf)``, all in its own axes.
    target: where it is held, (3,) [m] for a point, a pin.SE3 or (4, 4) for a surface; needed if kp is not zero. Of what
    rolls, a point (3,) [m] of the plane, on which every step then ends but for dt².
    reference: the axes in which its force is expressed, "local-world-aligned" (the world's) or "local" (the frame's).
    In directions in which no joint moves the frame, as across the plane of a planar robot, nothing is held nor felt.

    Of what rolls: radius [m]; axis (3,), the wheel's axle in the frame's axes, None for a ball; normal (3,) of the
    plane, in the world, default upward. What of it touches the plane stands still with the velocities that every step
    of time ends with, so that gains have no part: exactly in the posture where the step begins, as in that where it
    ends of carts that stay level, to the order of dt of what tilts. `PhasedDynamics` has such steps. slides [rad]:
    where it slides freely in one direction of the plane, the angle of that from the axle, about the normal: 0 of
    omnidirectional wheels, and of the second wheel on an axle, ±π/4 of mecanum wheels, π/2 of skates and knife edges.
    Its force is then (along what it holds, 0, along the normal). See contacts/rolling.py.
    """

    frame: str
    kind: str = "point"
    target: Any = None
    gains: Sequence[float] = (0.0, 0.0)
    reference: str = "local-world-aligned"
    radius: float | None = None
    axis: Sequence[float] | None = None
    normal: Sequence[float] | None = None
    slides: float | None = None

    def __post_init__(self) -> None:
        instance("frame of a contact", self.frame, str, "a name")
        where = f"of the contact at {said(self.frame)}"
        for field, known in (("kind", KINDS), ("reference", REFERENCES)):
            choice(f"{field} {where}", getattr(self, field), known)
        gains = as_array(f"gains {where}", self.gains, (2,))
        if (gains < 0.0).any():
            raise ProblemError(f"gains {where}: expected no negative number, got {said(tuple(gains.tolist()))}")
        if gains[0] > 0.0 and self.target is None:
            raise ProblemError(f"target {where}: expected where gains[0] = {gains[0]} pulls it to, got None")
        settle(self, gains=(float(gains[0]), float(gains[1])))
        self._check_wheel(where, gains)
        settle(self, target=None if self.target is None else _target(self))

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if isinstance(self.target, np.ndarray):
            self.target.flags.writeable = False

    def _check_wheel(self, where: str, gains: Array) -> None:
        """Check what belongs to rolling, and that there is none of it elsewhere."""
        if self.kind != "rolling":
            for field in ("radius", "axis", "normal", "slides"):
                if getattr(self, field) is not None:
                    given = said(getattr(self, field))
                    raise ProblemError(f"{field} {where}: expected None where it does not roll, got {given}")
            return
        if gains.any() or self.reference != "local-world-aligned":
            given = f"{self.gains}, {self.reference!r}"
            raise ProblemError(f"gains, reference {where}: expected none where it rolls, got {given}")
        if self.radius is None:
            raise ProblemError(f"radius {where}: expected that of a wheel or a ball [m], got None")
        settle(self, radius=positive(f"radius {where}", self.radius))
        if self.axis is not None:
            settle(self, axis=tuple(direction(f"axis {where}", self.axis).tolist()))
        upward = (0.0, 0.0, 1.0) if self.normal is None else self.normal
        settle(self, normal=tuple(direction(f"normal {where}", upward).tolist()))
        if self.slides is not None:
            if self.axis is None:
                given = said(self.slides)
                raise ProblemError(f"slides {where}: expected None of a ball, whose axis is None, got {given}")
            settle(self, slides=float(as_array(f"slides {where}", self.slides, ())))

    @property
    def size(self) -> int:
        """Numbers of the contact's force."""
        return 6 if self.kind == "surface" else 3

    def jacobian(self, robot: Robot, q: ArrayLike) -> Array:
        """Derivatives J (size, nv) of what it holds still, velocities J v, in the axes of its force; q (nq,)."""
        J = frame_velocity_derivatives(robot, q, np.zeros(robot.nv), self.frame, self.reference).dv
        if self.kind != "rolling":
            return J[: self.size]
        R = frame_placement(robot, q, self.frame)[:3, :3]
        return self.directions(R) @ (J[:3] - np.cross(self.lowest(R), J[3:], axisb=0).T)

    def distance(self, robot: Robot, q: ArrayLike) -> float:
        """Distance of its frame's origin from that of the target [m], zero where there is none; q (nq,)."""
        if self.target is None:
            return 0.0
        data, target = robot.model.createData(), self.target
        pin.forwardKinematics(robot.model, data, as_array("q", q, (robot.nq,)))
        place = pin.updateFramePlacement(robot.model, data, robot.frame_id(self.frame)).translation
        return float(np.linalg.norm(place - (target if self.kind != "surface" else target.translation)))

    def height(self, robot: Robot, q: ArrayLike) -> Array:
        """Height (3,) [m] of what rolls over its plane, along the normal; zero where there is no target."""
        if self.target is None:
            return np.zeros(3)
        M, n = frame_placement(robot, q, self.frame), np.array(self.normal)
        R, p = M[:3, :3], M[:3, 3]
        return self.directions(R) @ (n @ (p + self.lowest(R) - self.target) * n)

    def directions(self, rotation: Array) -> Array:
        """Axes (3, 3) of its force in rows, in the world; rotation: of its frame. One that slides holds two of them."""
        if self.slides is None:
            return np.eye(3) if self.reference == "local-world-aligned" else rotation.T
        n, a = np.array(self.normal), rotation @ np.array(self.axis)
        ahead, aside = np.cross(a, n), a - (n @ a) * n
        e = np.cos(self.slides) * ahead + np.sin(self.slides) * aside
        return np.stack([e / np.linalg.norm(e), np.zeros(3), n])

    def lowest(self, rotation: Array) -> Array:
        """The way d (3,) [m] from the centre of what rolls to where it touches the plane; rotation: of its frame."""
        assert self.radius is not None
        n, a = np.array(self.normal), rotation @ (np.zeros(3) if self.axis is None else np.array(self.axis))
        return -self.radius * (n - (n @ a) * a) / np.sqrt(1.0 - (n @ a) ** 2)


def _target(contact: Contact) -> Array | pin.SE3:
    field = f"target of the contact at {contact.frame!r}"
    if contact.kind != "surface":
        place = as_array(field, contact.target, (3,)).copy()
        place.flags.writeable = False  # kernels have its numbers by then
        return place
    given = pose(field, contact.target)
    return pin.SE3(given[:9].reshape(3, 3), given[9:])


class Contacts(Struct):
    """Contacts as flat arrays, one row each; what the kernels read.

    count: how many, m.   body, root: the body that carries it and the first one on the way there.
    kind, reference: as numbered above.   row: where its force begins among all.
    placement (m, 12): the frame on its body; target (m, 12).
    gains (m, 3): of the acceleration, the velocity and the position in the constraint.
    softness (nc,): ε of redundant ones, of forces [1/kg] and couples [1/(kg m²)], see response.py.
    axes (nc / 3, 12): of three rows, directions Q in columns, and ones for those in which nothing is ever held, where
        these are not the rows' own; zeros elsewhere.
    wheel (m, 9): of what rolls, radius, axle, which is zero of a ball, the plane's normal, and cosine and sine of the
        angle from the axle to where it slides, zeros if it does not.
    """

    count: int = integer()
    body, root, kind, reference, row = each(5, integers)
    placement, target = each(2, reals, 12)
    gains: Array = reals(3)
    wheel: Array = reals(9)
    softness: Array = reals()
    axes: Array = reals(12)

    def asking(self, *gains: float) -> Contacts:
        """Contacts with other gains, all with the same."""
        return self.replace(gains=np.tile(gains, (self.count, 1)))

    def stand_as(self, other: Contacts) -> bool:
        """Whether these are contacts with what others are in contact with, whatever their gains."""
        return self.count == other.count and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in self._fields if name != "gains"
        )

    def lasting(self, h: float) -> Contacts:
        """Contacts of steps that take h [s]: what rolls stands still where they end, see rolling.py."""
        if not (self.kind == ROLLING).any():
            return self
        with np.errstate(all="ignore"):
            by_step = np.float64(h) ** np.array([0.0, -1.0, -2.0])
        return self.replace(gains=self.gains * np.where((self.kind == ROLLING)[:, None], by_step, 1.0))


def forces(contacts: Contacts) -> int:
    """Numbers of all forces together."""
    return int(np.where(contacts.kind == SURFACE, 6, 3).sum())


def are_natural(contacts: Contacts) -> bool:
    """Whether forces are asked for in the axes that steps of every kind find them in, see `Contact.reference`."""
    natural = np.where(contacts.kind == SURFACE, LOCAL, LOCAL_WORLD_ALIGNED)
    return bool((contacts.reference == natural).all())


def refuse_rolling(contacts: Contacts) -> None:
    """Raise ProblemError if anything rolls, where there is no step of time."""
    if (contacts.kind == ROLLING).any():
        raise ProblemError(
            "contacts: expected points and surfaces in continuous time, got one that rolls, which stands still where"
            " steps of time end: PhasedDynamics has those"
        )


def as_impacts(contacts: Contacts) -> Contacts:
    """Contacts of impacts: the velocity itself is what vanishes."""
    return contacts.asking(0.0, 1.0, 0.0)


def compile_contacts(robot: Robot, contacts: Iterable[Contact] | Contact) -> Contacts:
    """The arrays of some contacts of a robot; ProblemError or ModelError names the one that is wrong."""
    check_robot(robot)
    given = instances("contacts", contacts, Contact, "Contacts")
    names = [contact.frame for contact in given]
    for name in names:
        if names.count(name) > 1:
            raise ProblemError(f"contacts: the frame {name!r} is listed {names.count(name)} times")
    found = [robot.model.frames[robot.frame_id(name)] for name in names]
    for frame in found:
        if frame.parentJoint == 0:
            raise ProblemError(f"contacts: the frame {frame.name!r} is fixed to the world, no joint moves it")
    _check_targets(given, found)
    known = robot.unvaried
    with np.errstate(all="ignore"):
        J = [] if robot.is_hybrid else [contact.jacobian(known, known.q0) for contact in given]
    body = np.array([frame.parentJoint - 1 for frame in found], dtype=np.int64)
    sizes = np.array([contact.size for contact in given], dtype=np.int64)
    return Contacts(
        count=len(body), body=body, root=roots(robot.tree.parent)[body],
        kind=np.array([KINDS[contact.kind] for contact in given], dtype=np.int64),
        reference=np.array([REFERENCES[contact.reference] for contact in given], dtype=np.int64),
        row=np.cumsum(sizes) - sizes,
        placement=_rows([frame.placement for frame in found]),
        target=_rows([_pose(contact) for contact in given]),
        gains=np.array([_gains(contact) for contact in given]).reshape(-1, 3),
        wheel=np.array([_wheel(contact) for contact in given]).reshape(-1, 9),
        softness=REGULARIZATION * _met(known, given, J),
        axes=_axes(known, given, J),
    )  # fmt: skip


def _axes(robot: Robot, contacts: Sequence[Contact], jacobians: Sequence[Array]) -> Array:
    """`Contacts.axes` of contacts whose Jacobians in some posture are known; most hold three directions in each."""
    found = np.zeros((sum(contact.size for contact in contacts) // 3, 12))
    J = np.concatenate([np.zeros((0, robot.nv)), *jacobians]).reshape(-1, 3, robot.nv)
    if not len(J) or not np.isfinite(J).all():
        return found
    sizes = np.linalg.eigvalsh(J @ J.transpose(0, 2, 1))
    thin, first = sizes[:, 0] <= _ROUNDED**2 * np.maximum(sizes[:, 2], 1.0), 0
    for contact in contacts:
        blocks = slice(first, first + contact.size // 3)
        first = blocks.stop
        if thin[blocks].any():
            rng = np.random.default_rng(0)
            postures = [robot.random_configuration(rng) for _ in range(3)]
            many = [_own_rows(robot, contact, q) for q in postures]
            rounding = _STILL * max(_motion(robot, contact, q) for q in postures)
            for axes, rows in zip(found[blocks], np.concatenate(many, axis=2), strict=True):
                Q, widths, _ = np.linalg.svd(rows, full_matrices=False)
                still = widths <= max(_STILL * widths[0], rounding)
                if ((widths <= _ROUNDED * widths[0]) & ~still).any():
                    warn_once(
                        f"{robot.name}: the contact at {contact.frame!r} is held in a direction in which joints move it"
                        f" by less than {_ROUNDED:g} of others, which takes enormous forces: if joints are to move in"
                        " a plane, write their axes with all digits"
                    )
                across = Q[:, still] @ Q[:, still].T
                if still.all() or np.abs(across - np.diag(np.diag(across))).max() > _STILL:
                    axes[:] = *Q.ravel(), *still
    return found


def _motion(robot: Robot, contact: Contact, q: ArrayLike) -> float:
    """Largest entry of the Jacobian of a frame's twist: rows of much less are rounding."""
    return float(np.abs(frame_velocity_derivatives(robot, q, np.zeros(robot.nv), contact.frame).dv).max())


def _own_rows(robot: Robot, contact: Contact, q: ArrayLike) -> Array:
    """Rows (size / 3, 3, nv) of a contact in the axes of the relation, see contacts/relation.py."""
    natural = "local" if contact.kind == "surface" else "local-world-aligned"
    return replace(contact, reference=natural).jacobian(robot, q).reshape(-1, 3, robot.nv)


def _met(robot: Robot, contacts: Sequence[Contact], jacobians: Sequence[Array]) -> Array:
    """Accelerations (nc,) by a unit of force, or of couple, at contacts in q0: means over rows of a kind."""
    couples = np.concatenate([np.zeros(0, dtype=bool), *(np.arange(one.size) > 2 for one in contacts)])
    found = np.ones(len(couples))
    if not jacobians:
        return found
    with np.errstate(all="ignore"), suppress(np.linalg.LinAlgError):
        J = np.vstack(jacobians)
        met = np.einsum("ij,ji->i", J, np.linalg.solve(mass_matrix(robot.model, robot.q0), J.T))
        for rows in (couples, ~couples):
            some = met[rows & np.isfinite(met)]
            found[rows] = some.mean() if some.any() else 1.0
    return found


def are_regular(robot: Robot, contacts: Sequence[Contact]) -> bool:
    """Whether no contact holds what others hold already, almost everywhere."""
    held, independent = directions_of(robot, contacts, robot.random_configuration(np.random.default_rng(0)))
    return held == independent


def directions_of(robot: Robot, contacts: Sequence[Contact], q: ArrayLike) -> tuple[int, int]:
    """Number of directions that contacts hold and joints move them in, and how many of these are independent."""
    rows = [np.zeros((0, robot.nv))]
    for contact in contacts:
        J = contact.jacobian(robot, q)
        axes = _axes(robot, [contact], [J])
        blocks = _own_rows(robot, contact, q) if axes.any() else J.reshape(-1, 3, robot.nv)
        for block, own in zip(blocks, axes, strict=True):
            held = (own[:9].reshape(3, 3).T @ block)[own[9:] == 0.0] if own.any() else block
            rows.append(held[np.linalg.norm(held, axis=1) > _STILL * np.linalg.norm(held)])
    J = np.vstack(rows)
    return len(J), int(np.linalg.matrix_rank(J)) if len(J) else 0  # NumPy before 2.4 has no rank of no rows


def _gains(contact: Contact) -> tuple[float, float, float]:
    """Gains of the acceleration, the velocity and the position; of what rolls, to be divided by h and h²."""
    if contact.kind == "rolling":
        return 1.0, 1.0, 0.0 if contact.target is None else 1.0
    return 1.0, contact.gains[1], contact.gains[0]


def _wheel(contact: Contact) -> Array:
    axis = np.zeros(3) if contact.axis is None else contact.axis
    slides = (0.0, 0.0) if contact.slides is None else (np.cos(contact.slides), np.sin(contact.slides))
    normal = np.zeros(3) if contact.normal is None else contact.normal
    return np.concatenate([[contact.radius or 0.0], axis, normal, slides])


def _pose(contact: Contact) -> pin.SE3:
    if isinstance(contact.target, pin.SE3):
        return contact.target
    return pin.SE3(np.eye(3), np.zeros(3) if contact.target is None else contact.target)


def _rows(poses: list[pin.SE3]) -> Array:
    rows = [np.concatenate([M.rotation.ravel(), M.translation]) for M in poses]
    return np.array(rows, dtype=np.float64).reshape(-1, 12)


def _check_targets(contacts: Sequence[Contact], frames: list[pin.Frame]) -> None:
    """Refuse targets of two frames of one body that are not as far apart as the frames are."""
    for i, (a, frame) in enumerate(zip(contacts, frames, strict=True)):
        for b, other in zip(contacts[:i], frames[:i], strict=True):
            if other.parentJoint != frame.parentJoint or a.gains[0] == 0.0 or b.gains[0] == 0.0:
                continue
            between, wanted = frame.placement.actInv(other.placement), _pose(a).actInv(_pose(b))
            off = abs(np.linalg.norm(between.translation) - np.linalg.norm(wanted.translation))
            if a.kind == b.kind == "surface":
                off = np.linalg.norm(pin.log6(between.actInv(wanted)).vector)
            if off > _APART:
                raise ProblemError(
                    f"contacts: {a.frame!r} and {b.frame!r} contradict each other: they are fixed to one body, whose"
                    f" frames cannot both be at their targets ({off:.3g} off)"
                )

"""Cones of friction along a motion: limits of what feedback may add to planned controls, to first order.

With forces f of contacts, f_x, f_u of the motion, and pyramids R f <= 0 inside their cones, a deviation dx, du keeps

    R (f + f_x dx + f_u du) <= 0        as        C du + D dx <= b,  C = R f_u,  D = R f_x,  b = -R f.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ddp.machine.aligned import aligned_zeros
from ddp.protocols import Array
from ddp.systems.system import Cones, Expansion
from dynamics.contacts.contact import Contact, compile_contacts
from dynamics.geometry.joint_motion import FREE_FLYER
from dynamics.phases.base import base_of
from dynamics.phases.phase import Phase, stretches
from dynamics.quantities.quantities import frame_position
from dynamics.robots.libraries import pin
from dynamics.steps.doubts import stated_in

if TYPE_CHECKING:
    from dynamics.phases.phased_dynamics import PhasedDynamics

FACES = 8
"""Faces of the pyramid inside a cone."""

NEAR, LIGHT = 0.85, 0.05
"""Part of the friction beyond which a plan has none to give away; part of a phase's largest normal force below which a
foot does not count."""

PULL = 0.02
"""Part of a robot's weight: feet that pull this much are told of."""

UP = np.array([0.0, 0.0, 1.0])
UP.setflags(write=False)


def pyramid(mu: float, faces: int, inside: float | None = None, normal: Array = UP) -> Array:
    """Rows R (faces, 3) of a pyramid about a normal, ``R f <= 0`` for a force f within it.

    inside: part of mu that it has; with cos(π / faces), the default, it is the largest one within the cone.
    """
    n = normal / np.linalg.norm(normal)
    first = np.eye(3)[0] if abs(n[0]) < 0.9 else np.eye(3)[1]
    t = first - n * (n @ first)
    t /= np.linalg.norm(t)
    angles = 2.0 * np.pi * np.arange(faces) / faces
    around = np.outer(np.cos(angles), t) + np.outer(np.sin(angles), np.cross(n, t))
    share = np.cos(np.pi / faces) if inside is None else inside
    return np.asarray(np.where(np.abs(around) < 1e-15, 0.0, around) - share * mu * n)


def cones(system: "PhasedDynamics", X: Array, U: Array, friction: float) -> Cones | None:
    """Limits of deviations from X (N+1, nx), U (N, nu), rows of C of length 1; forces beyond their cones go no further.

    None unless the plan uses nearly all friction somewhere: else feedback that slips for a moment does better than
    feedback that holds back, and trots pushed sideways err half as much. Zeros at impacts, in flight, and of forces
    in other axes than a point's in the world's and a surface's in its own.
    """
    N, n, nu = len(U), system.n, system.nu
    most = FACES * max(len(phase.contacts) for phase in system.phases)
    C, D, b = np.zeros((N, most, nu)), np.zeros((N, most, n)), np.zeros((N, most))
    share = 0.0
    for phase, knots, forces, by_z in noted(system, X, U):
        R = _pyramids(phase.contacts, friction)
        share = max(share, _largest_share(phase.contacts, forces))
        at = slice(knots.start, knots.stop), slice(len(R))
        D[at], C[at] = np.split(R @ by_z, [n], axis=2)
        b[at] = np.maximum(-forces @ R.T, 0.0)
    if share < NEAR * friction:
        return None
    long = np.linalg.norm(C, axis=2)
    long[long == 0.0] = 1.0
    return Cones(C / long[:, :, None], D / long[:, :, None], b / long)


def noted(system: "PhasedDynamics", X: Array, U: Array) -> Iterator[tuple[Phase, range, Array, Array]]:
    """Phases with contacts, their knots, forces (M, nc) of these and their derivatives (M, nc, n+nu), where noted."""
    N = len(U)
    found = Expansion.of(system, N, aligned_zeros)
    system.expand(X[:N], U, found)
    found.record[~np.isfinite(found.A).all(axis=(1, 2))] = np.nan  # there is no step
    for phase, knots in zip(system.phases, stretches(system.phases, N), strict=True):
        if not phase.contacts or not knots:
            continue
        held = compile_contacts(system.robot, phase.contacts)
        where = system.noted_forces(held, knots.start, len(knots))
        if where is not None:
            (first, _, begin, ld), size = where, sum(contact.size for contact in phase.contacts)
            record = found.record[knots.start : knots.stop]
            by_z = record[:, begin : begin + size * ld].reshape(-1, size, ld)[:, :, : system.n + system.nu]
            yield phase, knots, record[:, first : first + size], by_z


def pulls(system: "PhasedDynamics", problem: Any, X: Array, U: Array) -> list[str]:
    """A sentence about the foot that pulls most at the ground, of a robot on legs, where no cone bounds its force.

    Contacts above the base are none with the ground; forces are looked at as far as they are noted, see `cones`.
    """
    robot = system.robot
    cones = [getattr(one, "contacts", ()) for one in stated_in(problem) if hasattr(one, "friction")]
    bounded = {contact.frame for contacts in cones for contact in contacts}
    held = {contact.frame for phase in system.phases for contact in phase.contacts}
    base = base_of(system, X[0, : robot.nq])
    if held <= bounded or (base is None and robot.tree.kind[0] != FREE_FLYER):
        return []
    joint, data = 1 if base is None else base.joint, robot.model.createData()
    most, told = PULL * np.linalg.norm(robot.model.gravity.linear) * robot.tree.inertia[:, 0].sum(), []
    for phase, knots, forces, _ in noted(system, X, U):
        firsts = np.cumsum([0, *(contact.size for contact in phase.contacts[:-1])])
        for contact, pushes in zip(phase.contacts, forces[:, firsts + 2].T, strict=True):
            k = knots.start + int(np.argmin(pushes))
            if contact.frame in bounded or -pushes.min() <= most:
                continue
            pin.forwardKinematics(robot.model, data, q := X[k, : robot.nq])
            if frame_position(robot, q, contact.frame)[2] < data.oMi[joint].translation[2]:
                most = -pushes.min()
                cure = "mayne.costs.friction_cone lets feet push alone"
                told = [f"{contact.frame} pulls at the ground with {most:.3g} N at knot {k}: {cure}"]
    return told


def _largest_share(contacts: Sequence[Contact], forces: Array) -> float:
    """Largest force along the ground as a part of that across it, of forces (M, nc) of a phase."""
    firsts = np.cumsum([0, *(contact.size for contact in contacts[:-1])])
    pushes = forces[:, firsts[:, None] + np.arange(3)]
    along, across = np.hypot(pushes[..., 0], pushes[..., 1]), pushes[..., 2]
    counts = across > LIGHT * across.max()
    return float((along[counts] / across[counts]).max(initial=0.0))


def _pyramids(contacts: Sequence[Contact], friction: float) -> Array:
    """Rows (FACES m, nc) on the forces of m contacts: the pyramids inside their cones."""
    sizes = [contact.size for contact in contacts]
    faces, R = pyramid(friction, FACES), np.zeros((FACES * len(sizes), sum(sizes)))
    for i, first in enumerate(np.cumsum([0, *sizes[:-1]])):
        R[FACES * i : FACES * (i + 1), first : first + 3] = faces
    return R

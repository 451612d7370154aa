"""Displacements of a robot's mass, as a measure of errors where some of the coordinates are strains of rods.

Strains have units and sizes of their own, and several together move the tip of a rod far or hardly at all. So it counts
how far they move the mass: with the mass matrix M,

    dqᵀ M dq = ∫ |δr|² dm

is a weight of errors in any coordinates, whatever basis strains have. As errors of joints are weighed in rad and m, it
is scaled to W = D M D: the diagonal of W is 1 for joints, and D² = 1/I for a rod, with I the moment of inertia about
its base of all that it carries. An error of its strains weighs as much as the angle of a hinge there that moves the
mass as far. With the inertia about the first of several rods in a row, which is as good for arms, a platform on three
pillars errs by 15 mm under a delay of 20 ms, in place of 0.2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ddp.protocols import Array
from dynamics.rigid_bodies.rigid_body import mass_matrix
from dynamics.robots.libraries import pin
from dynamics.rods.hybrid_robot import HybridRobot


def squares_of_angles(robot: HybridRobot, q: Array) -> Array:
    """W (nv, nv) of a robot at q (nq,): errors dq weigh ``dqᵀ W dq`` as squares of angles [rad²]."""
    M, poses = mass_matrix(robot, q), poses_of_chain(robot, q)
    scale = np.diag(M).copy()
    for rod in robot.rods:
        scale[robot.coordinates(rod.name)] = inertia_about_base(robot, poses, rod.name)
    D = scale**-0.5
    return D[:, None] * M * D


def poses_of_chain(robot: HybridRobot, q: Array) -> list[pin.SE3]:
    """Poses of the joints of ``robot.chain``. Pinocchio's own would need memory in gigabytes for 700 velocities."""
    chain, there, poses = robot.chain, robot.to_chain(q), [pin.SE3.Identity()]
    for j in range(1, chain.njoints):
        moved = chain.joints[j].createData()
        chain.joints[j].calc(moved, there)
        poses.append(poses[chain.parents[j]] * chain.jointPlacements[j] * moved.M)
    return poses


def inertia_about_base(robot: HybridRobot, poses: Sequence[pin.SE3], rod: str) -> float:
    """The moment of inertia [kg m²] of a rod and what it carries, the largest of all axes through the rod's base."""
    chain = robot.chain
    first = chain.getJointId(f"{rod}/1")
    base = poses[chain.parents[first]] * chain.jointPlacements[first]
    carried = [base.actInv(poses[j]).act(chain.inertias[j]).matrix()[3:, 3:] for j in chain.subtrees[first].tolist()]
    return float(np.linalg.eigvalsh(np.sum(carried, axis=0))[-1])

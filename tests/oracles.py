"""Independent oracles: Pinocchio and differences of its analytic derivatives; and random trees to try them on."""

from __future__ import annotations

import ctypes

import numpy as np
import pinocchio as pin
from thorough import cases

import dynamics
from ddp.machine.tiles import padded
from ddp.systems.system import COUPLED, ENDING, MOTIONS
from dynamics.geometry.configuration import integrate_batch
from dynamics.robots.equipment import Equipment

NAMED = ("ur5", "panda", "hyq", "anymal", "talos")
ROBOTS = cases([*NAMED, *range(20)], [*NAMED, *range(8)])
"""Keys of `robot_of`: names, and seeds of random trees."""

STEP, COMPLEX_STEP = 1e-3, 1e-30


def random_inertia(rng):
    """A rigid body of eight random point masses: a physical inertia."""
    points = rng.normal(scale=0.2, size=(8, 3)) + rng.normal(scale=0.1, size=3)
    masses = rng.uniform(0.05, 0.5, size=8)
    total = masses.sum()
    com = masses @ points / total
    rotational = sum(
        m * ((p @ p) * np.eye(3) - np.outer(p, p)) for m, p in zip(masses, points - com, strict=True)
    )
    return pin.Inertia(total, com, rotational)


def extreme_inertia(rng):
    """A long thin rod, a heavy block or a mote: bodies that differ by eight orders of magnitude."""
    kind = rng.integers(4)
    if kind == 0:
        return pin.Inertia.FromCylinder(rng.uniform(0.5, 2.0), 1e-3, 3.0)
    if kind == 1:
        return pin.Inertia.FromBox(1e3, *rng.uniform(0.2, 1.0, size=3))
    if kind == 2:
        return pin.Inertia.FromSphere(1e-2, 2e-2)
    return random_inertia(rng)


def random_axis(rng):
    """A unit vector."""
    axis = rng.normal(size=3)
    return axis / np.linalg.norm(axis)


INERTIAL = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
CONTINUOUS = """<robot name="r"><link name="a"/><link name="b">{}</link><joint name="j" type="continuous">
  <parent link="a"/><child link="b"/><axis xyz="{!r} {!r} {!r}"/></joint></robot>"""


def continuous_joint(axis):
    """A continuous joint about any axis: only the URDF reader can make one in Python."""
    return pin.buildModelFromXML(CONTINUOUS.format(INERTIAL, *axis.tolist())).joints[1]


JOINTS = {
    "revolute": lambda rng: pin.JointModelRY(),
    "revolute unaligned": lambda rng: pin.JointModelRevoluteUnaligned(random_axis(rng)),
    "continuous": lambda rng: pin.JointModelRUBX(),
    "continuous unaligned": lambda rng: continuous_joint(random_axis(rng)),
    "prismatic": lambda rng: pin.JointModelPZ(),
    "prismatic unaligned": lambda rng: pin.JointModelPrismaticUnaligned(random_axis(rng)),
    "helical": lambda rng: pin.JointModelHX(rng.normal()),
    "helical unaligned": lambda rng: pin.JointModelHelicalUnaligned(random_axis(rng), rng.normal()),
    "translation": lambda rng: pin.JointModelTranslation(),
    "spherical": lambda rng: pin.JointModelSpherical(),
    "planar": lambda rng: pin.JointModelPlanar(),
    "free-flyer": lambda rng: pin.JointModelFreeFlyer(),
}
"""One joint of every kind that moves by a subgroup of SE(3)."""

GROUPS = ("spherical", "planar", "free-flyer")
"""The kinds whose motions do not commute."""


def random_joint(rng):
    """Any kind; every third has several degrees of freedom."""
    kinds = list(JOINTS)
    several = rng.random() < 1 / 3
    return JOINTS[kinds[rng.integers(8, 12) if several else rng.integers(8)]](rng)


def random_placement(rng):
    """A random pose."""
    return pin.SE3(pin.exp3(rng.normal(size=3)), rng.normal(scale=0.3, size=3))


def random_tree(seed, joint=random_joint, bodies=None, straight=0.6, body=random_inertia):
    """A robot of up to 12 bodies after the root, mixed joints and branches; every second one floats.

    joint(rng), body(rng): its joints and links; bodies: how many; straight: how often a body continues the last one.
    """
    rng = np.random.default_rng(seed)
    model = pin.Model()
    model.name = f"tree{seed}"
    path = [0]
    if seed % 2:
        path.append(model.addJoint(0, pin.JointModelFreeFlyer(), random_placement(rng), "root"))
        model.appendBodyToJoint(path[-1], body(rng), pin.SE3.Identity())
    for i in range(int(rng.integers(2, 12)) if bodies is None else bodies):
        if len(path) > 2 and rng.random() > straight:
            path = path[: rng.integers(2, len(path) + 1)]
        path.append(model.addJoint(path[-1], joint(rng), random_placement(rng), f"joint{i}"))
        model.appendBodyToJoint(path[-1], body(rng), pin.SE3.Identity())
    model.armature = np.where(rng.random(model.nv) < 0.3, rng.uniform(0.0, 0.1, model.nv), 0.0)
    if seed % 2:
        model.armature[:6] = 0.0
    return dynamics.load(model)


def robot_of(key):
    """A named robot, or a random tree."""
    return dynamics.load(key) if isinstance(key, str) else random_tree(key)


def seed_of(key):
    """A seed of each of `ROBOTS`."""
    return key if isinstance(key, int) else 100 + NAMED.index(key)


def chain_of(*kinds, seed=0):
    """A robot whose joints are these, one after the other."""
    rng = np.random.default_rng(seed)
    model = pin.Model()
    model.name = "-".join(kinds)
    parent = 0
    for i, kind in enumerate(kinds):
        parent = model.addJoint(parent, JOINTS[kind](rng), random_placement(rng), f"{kind} {i}")
        model.appendBodyToJoint(parent, random_inertia(rng), pin.SE3.Identity())
    return dynamics.load(model)


def random_state(robot, rng, speed=1.0):
    """q, v and one more tangent vector."""
    return robot.random_configuration(rng), speed * rng.normal(size=robot.nv), rng.normal(size=robot.nv)


def symmetric(M):
    """Pinocchio fills upper triangles only."""
    return np.triu(M) + np.triu(M, 1).T


def pin_forces(fext):
    """A wrench per joint, as Pinocchio takes them."""
    forces = pin.StdVec_Force()
    for wrench in fext:
        forces.append(pin.Force(wrench))
    return forces


def pin_inverse_derivatives(robot, data, q, v, a, fext=None):
    """Pinocchio's ∂τ/∂q, ∂τ/∂v, M."""
    extra = () if fext is None else (pin_forces(fext),)
    pin.computeRNEADerivatives(robot.model, data, q, v, a, *extra)
    return np.array([data.dtau_dq, data.dtau_dv, symmetric(data.M)])


def pin_forward_derivatives(robot, data, q, v, tau, fext=None):
    """Pinocchio's ∂a/∂q, ∂a/∂v, M⁻¹."""
    extra = () if fext is None else (pin_forces(fext),)
    pin.computeABADerivatives(robot.model, data, q, v, tau, *extra)
    return np.array([data.ddq_dq, data.ddq_dv, symmetric(data.Minv)])


def complex_steps(of, samples, along):
    """Complex samples q, v, ... of a robot or a tree of so many numbers, each stepped in one number of one of them.

    along: which of the samples.
    """
    count = of.nv if along == 0 else len(samples[along])
    found = [np.tile(x, (count, 1)).astype(complex) for x in samples]
    steps = 1j * COMPLEX_STEP * np.eye(count)
    if along > 0:
        found[along] += steps
        return found
    moved, still = np.zeros((count, of.nq + count), complex), np.zeros((count, count), complex)
    integrate_batch(of.tree, np.hstack([found[0], still]), np.hstack([steps, still]), moved)
    return [np.ascontiguousarray(moved[:, : of.nq]), *found[1:]]


def fourth_order(f, h=STEP):
    """df/dt at 0 by the five-point stencil."""
    return (8.0 * (f(h) - f(-h)) - (f(2.0 * h) - f(-2.0 * h))) / (12.0 * h)


def newton(residual, z, h):
    """Root of residual, to rounding, by Newton iterations from z.

    Differences of one side make the matrix, again where steps do not halve: it moves no root.
    """
    last, K = np.inf, None
    for _ in range(60):
        here = residual(z)
        if K is None:
            K = np.stack([(residual(z + h * e) - here) / h for e in np.eye(len(z))], axis=1)
        step = np.linalg.solve(K, here)
        z, size = z - step, np.abs(step).max()
        if last < 2.0 * size:
            if size < 1e-8 * (1.0 + np.abs(z).max()):
                return z
            K = None
        last = size
    return z


def directions(nv, rng):
    """All (nv, nv) of a small robot; else eight orthonormal ones (nv, 8) across all axes, which miss no number."""
    return np.eye(nv) if nv <= 12 else np.linalg.qr(rng.normal(size=(nv, 8)))[0]


def differenced_tensors(robot, first, q, v, along=None):
    """∂²/∂q∂q, ∂²/∂v∂v, ∂²/∂v∂q, ∂/∂q of the third, by differences of ``first(q, v)`` = three (nv, nv) blocks.

    The last index is that of the directions ``along`` (nv, n), by default of all, of q and of the v of ∂²/∂v∂v.
    """
    along = np.eye(robot.nv) if along is None else along
    by_q = [fourth_order(lambda t, e=e: first(pin.integrate(robot.model, q, t * e), v)) for e in along.T]
    vv = [fourth_order(lambda t, e=e: first(q, v + t * e))[1] for e in along.T]
    qq, vq, aq = np.stack(by_q, axis=-1)
    return qq, np.stack(vv, axis=-1), vq, aq


def relative_error(value, truth):
    """The largest entry of the difference, relative to the largest entry of the truth."""
    return float(np.abs(value - truth).max() / max(np.abs(truth).max(), 1e-12))


def as_blocks(qq, qv, vv, nq, nn, bent, uq=(), ww=()):
    """The numbers that `system.Abilities` writes of a knot with its second order in matrices (m, m), and uq (nu, m)."""
    runs = [nn[first : first + size, first : first + size].ravel() for first, size in bent]
    below = np.tril(np.full_like(qq, 7.0), -1)  # what counts of qq and vv is above it
    parts = np.triu(qq) + below, qv, np.triu(vv) + below, nq, np.concatenate([[], *runs]), *map(np.asarray, (uq, ww))
    return np.concatenate([np.pad(part.ravel(), (0, padded(part.size) - part.size)) for part in parts])


def random_blocks(rng, F, bent, in_blocks=MOTIONS):
    """A second order in (δq, δv, δx'), as `system.Abilities` writes it, and what it is in z (nz, nz); δx' = F z."""
    n, nz = F.shape
    m = n // 2
    qq, qv, vv, nq = 0.1 / m * rng.normal(size=(4, m, m))
    qq, vv, nn = qq + qq.T, vv + vv.T, np.zeros((m, m))
    for first, size in bent:
        root = rng.normal(size=(size, size))
        nn[first : first + size, first : first + size] = root @ root.T
    uq = 0.1 / m * rng.normal(size=((nz - n) * (in_blocks >= COUPLED), m))
    root = 0.3 / np.sqrt(m) * rng.normal(size=(m, m * (in_blocks == ENDING)))
    blocks = as_blocks(qq, qv, vv, nq, nn, bent, uq, root @ root.T if in_blocks == ENDING else ())
    return blocks, hessian_of_blocks(blocks, F, bent, in_blocks)


def hessian_of_blocks(blocks, F, bent, in_blocks=MOTIONS):
    """Hessian (nz, nz) of what `system.Abilities` writes of one knot; δx' = F z."""
    n, nz = F.shape
    m, nu = n // 2, nz - n
    qq, qv, vv, nq, nn = as_matrices(blocks, m, bent)
    q, v, u, E = np.eye(m, nz), np.eye(m, nz, m), np.eye(nu, nz, n), F[m:]
    half = 0.5 * (q.T @ qq @ q + v.T @ vv @ v + E.T @ nn @ E) + q.T @ qv @ v + E.T @ nq @ q
    others = blocks[4 * padded(m * m) + padded(sum(size**2 for _, size in bent)) :]
    if in_blocks >= COUPLED:
        half += u.T @ others[: nu * m].reshape(nu, m) @ q
    if in_blocks == ENDING:
        half += 0.5 * F[:m].T @ others[padded(nu * m) :][: m * m].reshape(m, m) @ F[:m]
    return half + half.T


def as_matrices(blocks, m, bent):
    """qq, qv, vv, nq, nn (m, m) from what `system.Abilities` writes of one knot."""
    P = padded(m * m)
    qq, qv, vv, nq = blocks[: 4 * P].reshape(4, P)[:, : m * m].reshape(4, m, m)
    qq, vv = (np.triu(upper) + np.triu(upper, 1).T for upper in (qq, vv))
    nn, own = np.zeros((m, m)), blocks[4 * P :]
    for first, size in bent:
        nn[first : first + size, first : first + size] = own[: size**2].reshape(size, size)
        own = own[size**2 :]
    return qq, qv, vv, nq, nn


def sprung(robot, rng):
    """A copy of a robot with friction in its joints, and springs in those whose position is a number in q."""
    model = robot.model.copy()
    model.damping = rng.uniform(0.1, 1.0, model.nv)
    stiffness = np.zeros(model.nv)
    for joint in list(model.joints)[1:]:
        if joint.nq == joint.nv:
            stiffness[joint.idx_v : joint.idx_v + joint.nv] = rng.uniform(2.0, 20.0, joint.nv)
    assert stiffness.any()
    equipment = Equipment(stiffness=stiffness, springref=rng.normal(size=model.nv))
    return dynamics.Robot(model, robot.q0, equipment=equipment)


def passive(system, q, v):
    """Forces that joints exert of themselves (nv,): -stiffness (q - springref) - damping v, joint by joint."""
    robot, equipment = system.robot, system.robot.equipment
    tau = -np.asarray(robot.model.damping) * v * system.damping
    if equipment.stiffness is not None and system.springs:
        for joint in list(robot.model.joints)[1:]:
            if joint.nq == joint.nv:
                at, of = (slice(i, i + joint.nv) for i in (joint.idx_v, joint.idx_q))
                tau[at] -= equipment.stiffness[at] * (q[of] - equipment.springref[at])
    return tau


def contract_rows(address, context, record, weight, out):
    """Call a contraction's C function for every knot: record (M, .), weight (M, n), out (M, nz, nz)."""
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(address)
    for knot in zip(record, weight, out, strict=True):
        call(context, *(part.ctypes.data for part in knot))

"""Robots with rods: random ones, the cable arm of the golden numbers, and their dynamics by chains of rigid bodies."""

import numpy as np
import pinocchio as pin
from oracles import JOINTS, fourth_order, random_inertia, random_placement, relative_error

from dynamics import Assembly, Circle, Material, Rectangle, Rod, Tendon
from dynamics.geometry.configuration import integrate_batch
from dynamics.robots.chain import segments_of

SILICONE = Material(young=1e6, poisson=0.5, density=1000.0, damping=1e4)
HANGING = pin.SE3(np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]]), np.zeros(3))


def radius(x):
    """Radius of the cable arm."""
    return 0.03 - 0.015 * x


TENDONS = [
    Tendon("front", lambda x: (0.0, radius(x))),
    Tendon("left", lambda x: (-np.sqrt(3.0) / 2.0 * radius(x), -0.5 * radius(x))),
    Tendon("right", lambda x: (np.sqrt(3.0) / 2.0 * radius(x), -0.5 * radius(x))),
    Tendon("helix", lambda x: (0.015 * np.sin(4.0 * np.pi * x), 0.015 * np.cos(4.0 * np.pi * x))),
    Tendon("other helix", lambda x: (0.015 * np.sin(4.0 * np.pi * x), -0.015 * np.cos(4.0 * np.pi * x))),
]


def cable_arm(gauss=5, **degrees):
    """A hanging arm of silicone with 24 degrees of freedom."""
    given = {"torsion": 4, "bending": 4, "stretch": 2, "shear": 2, **degrees}
    rod = Rod("arm", 0.5, Circle(0.03, 0.015), SILICONE, gauss=gauss, **given)
    return Assembly("cable-arm").rod(rod, placement=HANGING, tendons=TENDONS).robot()


def golden_state():
    """q, v, a of the cable arm."""
    i = np.arange(1, 25)
    scale = np.where(i <= 15, 1.0, 0.1)
    return 0.5 * scale * np.sin(i), 0.7 * scale * np.cos(i), 0.9 * scale * np.sin(2 * i)


def tip(robot, q):
    """Pose in the world of the tip of the last rod."""
    data = robot.chain.createData()
    pin.forwardKinematics(robot.chain, data, robot.to_chain(q))
    return data.oMi[robot.chain.njoints - 1]


def random_rod(rng, name):
    """A rod of any strains, curved without load."""
    def degree():
        return None if rng.random() < 0.3 else int(rng.integers(0, 3))

    curve, twist = rng.normal(size=(2, 3)), rng.normal(scale=0.05, size=3)
    round_one = rng.random() < 0.5
    section = Circle(rng.uniform(0.02, 0.05), 0.02) if round_one else Rectangle(0.03, lambda x: 0.05 - 0.02 * x)
    return Rod(
        name, rng.uniform(0.3, 0.8), section, SILICONE, torsion=degree(), bending=(int(rng.integers(0, 3)), degree()),
        stretch=degree(), shear=(degree(), degree()), gauss=int(rng.integers(3, 5)),
        rest=lambda x: [1.0 + twist[0], *twist[1:], *(curve[0] + x * curve[1])],
    )  # fmt: skip


def random_hybrid(seed, parts=7, rods=3):
    """A tree of joints of all kinds with three rods in it, some on each other; every second one floats."""
    return random_assembly(seed, parts, rods)[0].robot()


def random_assembly(seed, parts=7, rods=3):
    """The assembly of ``random_hybrid``, and frames of its parts."""
    rng = np.random.default_rng(seed)
    build = Assembly(f"hybrid{seed}")
    frames = ["world"]
    if seed % 2:
        build.joint("root", pin.JointModelFreeFlyer(), "world", random_placement(rng), random_inertia(rng))
        frames = ["root"]
    soft = set(rng.permutation(parts)[:rods].tolist())
    for k in range(parts):
        on = frames[-1] if rng.random() < 0.6 else frames[rng.integers(len(frames))]
        if k in soft:
            build.rod(random_rod(rng, f"rod{k}"), on, random_placement(rng))
            frames.append(f"rod{k}/tip")
            if rng.random() < 0.5:
                build.body(random_inertia(rng), f"rod{k}/tip", random_placement(rng))
        else:
            kinds = list(JOINTS)
            joint = JOINTS[kinds[rng.integers(len(kinds))]](rng)
            build.joint(f"joint{k}", joint, on, random_placement(rng), random_inertia(rng))
            frames.append(f"joint{k}")
    return build, frames


def right_jacobian(twist):
    """Jr of exp at a twist (6,), of Pinocchio."""
    return pin.Jexp6(pin.Motion(twist))


def chain_motion(robot, q, v=None):
    """B(q), by which velocities of ``robot.chain`` are B v, and of a v B' v, by differences of Pinocchio's Jexp6."""
    B, drift, at = np.zeros((robot.chain.nv, robot.nv)), np.zeros(robot.chain.nv), 0
    for b, n in enumerate(robot.tree.nj.tolist()):
        own = slice(robot.tree.iv[b], robot.tree.iv[b] + n)
        if robot.tree.rod[b] < 0:
            B[at : at + n, own] = np.eye(n)
            at += n
            continue
        mine, rates = q[robot.tree.iq[b] : robot.tree.iq[b] + n], None if v is None else v[own]
        for one in segments_of(robot.rod_of(b)):
            Z = np.array([(one.twist(mine + e) - one.twist(mine - e)) / 2.0 for e in np.eye(len(mine))]).T  # quadratic
            B[at : at + 6, own] = right_jacobian(one.twist(mine)) @ Z

            def velocity(t, one=one, mine=mine, rates=rates):
                now, later = mine + t * rates, mine + (t + 1.0) * rates
                before = mine + (t - 1.0) * rates
                return right_jacobian(one.twist(now)) @ (0.5 * (one.twist(later) - one.twist(before)))

            if v is not None:
                drift[at : at + 6] = fourth_order(velocity, 1e-3)
            at += 6
    return B, drift


def chain_inverse_dynamics(robot, q, v, a):
    """τ by Pinocchio's RNEA of ``robot.chain``, whose velocities are B(q) v."""
    B, drift = chain_motion(robot, q, v)
    return B.T @ pin.rnea(robot.chain, robot.chain.createData(), robot.to_chain(q), B @ v, B @ a + drift)


def moved(robot, q, d):
    """q ⊕ d."""
    out, still = np.zeros((1, robot.nq + robot.nv)), np.zeros(robot.nv)
    integrate_batch(robot.tree, np.concatenate([q, still])[None], np.concatenate([d, still])[None], out)
    return out[0, : robot.nq]


def named(robot):
    """Places of each strain's coefficients of the only rod, by name."""
    names = ("torsion", "bending y", "bending z", "stretch", "shear y", "shear z")
    found, at = {}, 0
    for name, degree in zip(names, robot.rods[0].degrees, strict=True):
        size = 0 if degree is None else degree + 1
        found[name] = slice(at, at + size)
        at += size
    return found


FOURTH_ORDER = np.array([-1.0, 16.0, -30.0, 16.0, -1.0]) / 12.0
EIGHTH_ORDER = np.array([-1 / 560, 8 / 315, -1 / 5, 8 / 5, -205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560])
"""Weights of second differences."""


def assert_exact(system, x, u, w, rng, weights, t, bar):
    """Compare first derivatives of a step, and second ones of w·(f(x ⊕ dx, u + du) ⊖ f(x, u)), with differences.

    weights: of second differences of steps t, along six directions, which are good to a part ``bar`` of the Hessian.
    """
    (A, B), H, end = system.linearize(x, u), system.hessian(x, u, w), system.step(x, u)
    directions, half = np.eye(system.n + system.nu), len(weights) // 2

    def change(d):
        return system.difference(end, system.step(system.integrate(x, d[: system.n]), u + d[system.n :]))

    AB = np.array([fourth_order(lambda s, d=d: change(s * d), 1e-4) for d in directions]).T
    assert relative_error(np.hstack([A, B]), AB) < 1e-9
    some = rng.normal(size=(6, len(directions)))
    some /= np.linalg.norm(some, axis=1, keepdims=True)
    truth = [weights @ [w @ change(k * t * d) for k in range(-half, half + 1)] / (t * t) for d in some]
    found = np.einsum("ki,ij,kj->k", some, H, some)
    np.testing.assert_allclose(found, truth, rtol=0, atol=bar * np.abs(H).max())

"""Energy, momentum, centre of mass, velocities of frames and forward dynamics of robots with rods, by oracles.

Values are Pinocchio's of the chain of rigid segments, first and second derivatives their differences. Forward dynamics
are those of dense solves with inverse dynamics, which test_rods.py tests, and differences.
"""

import numpy as np
import pinocchio as pin
import pytest
from oracles import fourth_order, relative_error
from rod_oracles import chain_motion, moved, random_hybrid
from test_rod_frames import pose_of
from thorough import cases

import dynamics

SEEDS = cases(range(3), [1])
H = 2e-3
STENCIL = np.array([-1.0, 16.0, -30.0, 16.0, -1.0]) / (12.0 * H * H)


class Chain:
    """Quantities by Pinocchio, of the chain of rigid segments."""

    def __init__(self, robot):
        self.robot, self.data = robot, robot.chain.createData()

    def center_of_mass(self, q, v):
        return pin.centerOfMass(self.robot.chain, self.data, self.robot.to_chain(q)).copy()

    def energy(self, q, v):
        model, of_chain = self.robot.chain, self.robot.to_chain(q)
        kinetic = pin.computeKineticEnergy(model, self.data, of_chain, chain_motion(self.robot, q)[0] @ v)
        rotors = 0.5 * v @ (self.robot.tree.armature * v)
        return np.array([kinetic + pin.computePotentialEnergy(model, self.data, of_chain) + rotors])

    def momentum(self, q, v):
        B = chain_motion(self.robot, q)[0]
        return pin.computeCentroidalMomentum(self.robot.chain, self.data, self.robot.to_chain(q), B @ v).vector.copy()

    def momentum_about_the_origin(self, q, v):
        h = self.momentum(q, v)
        return h + np.append(np.zeros(3), np.cross(self.center_of_mass(q, v), h[:3]))

    def frame_velocity(self, q, v, frame, reference):
        """The chain's own, or of a rod's base the motion of what carries it."""
        B = chain_motion(self.robot, q)[0]
        pin.forwardKinematics(self.robot.chain, self.data, self.robot.to_chain(q), B @ v)
        joint = self.robot.chain.getJointId(frame)
        return pin.getVelocity(self.robot.chain, self.data, joint, reference).vector.copy()


def check(robot, truth, value, derivatives, hessian, rng):
    """A quantity with its derivatives of both orders against differences of its truth (q, v) -> (k,)."""
    q, v = robot.random_configuration(rng), rng.normal(size=robot.nv)
    here = truth(q, v)
    np.testing.assert_allclose(value(q, v), here, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(here).max()))
    dq, dv = (np.atleast_2d(D) for D in derivatives(q, v))
    weight, nv = rng.normal(size=len(np.atleast_1d(here))), robot.nv
    for _ in range(4):
        a, b = rng.normal(size=(2, nv)) / np.sqrt(nv)
        slope = fourth_order(lambda t, a=a, b=b: truth(moved(robot, q, t * a), v + t * b))
        np.testing.assert_allclose(dq @ a + dv @ b, slope, atol=1e-7 * max(1.0, np.abs(dq).max()))
        along = [weight @ truth(moved(robot, q, t * a), v + t * b) for t in (-2 * H, -H, 0.0, H, 2 * H)]
        qq, qv, vv = hessian(q, v, weight)
        np.testing.assert_allclose(qq, qq.T, atol=1e-9 * max(1.0, np.abs(qq).max()))
        found = a @ qq @ a + 2.0 * a @ qv @ b + b @ vv @ b
        np.testing.assert_allclose(found, STENCIL @ along, atol=2e-6 * max(1.0, np.abs(qq).max()))


@pytest.mark.parametrize("seed", SEEDS)
def test_center_of_mass_is_that_of_the_chain(seed, rng):
    robot, none = random_hybrid(seed), np.zeros
    check(
        robot, Chain(robot).center_of_mass, lambda q, v: dynamics.center_of_mass(robot, q),
        lambda q, v: (dynamics.center_of_mass_derivatives(robot, q), none((3, robot.nv))),
        lambda q, v, w: (dynamics.center_of_mass_hessian(robot, q, w), *none((2, robot.nv, robot.nv))), rng,
    )  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
def test_energy_is_that_of_the_chain(seed, rng):
    robot = random_hybrid(seed)
    check(
        robot, Chain(robot).energy, lambda q, v: np.array([dynamics.energy(robot, q, v)]),
        lambda q, v: dynamics.energy_derivatives(robot, q, v),
        lambda q, v, w: [w[0] * block for block in dynamics.energy_hessian(robot, q, v)], rng,
    )  # fmt: skip


@pytest.mark.parametrize("about", ["center-of-mass", "origin"])
@pytest.mark.parametrize("seed", SEEDS)
def test_momentum_is_that_of_the_chain(seed, about, rng):
    robot = random_hybrid(seed)
    chain = Chain(robot)
    check(
        robot, chain.momentum if about == "center-of-mass" else chain.momentum_about_the_origin,
        lambda q, v: dynamics.momentum(robot, q, v, about),
        lambda q, v: dynamics.momentum_derivatives(robot, q, v, about),
        lambda q, v, w: dynamics.momentum_hessian(robot, q, v, w, about), rng,
    )  # fmt: skip


REFERENCES = {"local": pin.LOCAL, "world": pin.WORLD, "local-world-aligned": pin.LOCAL_WORLD_ALIGNED}


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("seed", SEEDS)
def test_velocities_of_frames_are_those_of_the_chain(seed, reference, rng):
    robot = random_hybrid(seed)
    chain, rod = Chain(robot), robot.rods[seed]
    for point in (2, rod.gauss + 1):
        frame = f"{rod.name}/{point}"
        check(
            robot, lambda q, v, frame=frame: chain.frame_velocity(q, v, frame, REFERENCES[reference]),
            lambda q, v, frame=frame: dynamics.frame_velocity(robot, q, v, frame, reference),
            lambda q, v, frame=frame: dynamics.frame_velocity_derivatives(robot, q, v, frame, reference),
            lambda q, v, w, frame=frame: dynamics.frame_velocity_hessian(robot, q, v, frame, w, reference), rng,
        )  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
def test_forward_dynamics_undo_inverse_dynamics(seed, rng):
    robot, nv = random_hybrid(seed), random_hybrid(seed).nv
    q, (v, a), w = robot.random_configuration(rng), 0.3 * rng.normal(size=(2, nv)), rng.normal(size=nv)
    tau, M = dynamics.inverse_dynamics(robot, q, v, a), dynamics.mass_matrix(robot, q)
    found = dynamics.forward_dynamics(robot, q, v, tau)
    np.testing.assert_allclose(M @ (found - a), 0.0, atol=1e-9 * np.abs(tau).max())
    np.testing.assert_allclose(M @ dynamics.inverse_mass_matrix(robot, q), np.eye(nv), atol=1e-6)
    first, second = dynamics.forward_dynamics_both_derivatives(robot, q, v, tau, w)

    def along(x):
        """Accelerations along x = (δq, δv, δτ)."""
        return lambda t: dynamics.forward_dynamics(
            robot, moved(robot, q, t * x[:nv]), v + t * x[nv : 2 * nv], tau + t * x[2 * nv :]
        )

    size = np.concatenate([np.full(2 * nv, 1.0), np.abs(tau).max() * np.ones(nv)]) / np.sqrt(3 * nv)
    for _ in range(3):
        x = 1e-2 * size * rng.normal(size=3 * nv)
        slope = fourth_order(along(x), 0.1)
        found = np.hstack(first) @ x
        assert relative_error(found, slope) < 1e-5
        steps = 0.2 * np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
        bent = np.dot([-1.0, 16.0, -30.0, 16.0, -1.0], [w @ along(x)(t) for t in steps]) / (12.0 * 0.04)
        d, r, u = np.split(x, 3)
        curve = d @ second.qq @ d + 2 * d @ second.qv @ r + r @ second.vv @ r + 2 * d @ second.qtau @ u
        assert abs(curve - bent) < 1e-3 * max(abs(bent), 1e-6 * np.abs(w @ first.dq).max())


@pytest.mark.parametrize("seed", SEEDS)
def test_the_hessian_of_forward_dynamics_is_the_relation_of_dense_matrices(seed, rng):
    robot = random_hybrid(seed)
    nv, Z = robot.nv, np.zeros((robot.nv, robot.nv))
    q, (v, tau), w = robot.random_configuration(rng), 0.3 * rng.normal(size=(2, nv)), rng.normal(size=nv)
    a, M = dynamics.forward_dynamics(robot, q, v, tau), dynamics.mass_matrix(robot, q)
    inverse = dynamics.inverse_dynamics_derivatives(robot, q, v, a)
    aq, av, Minv = -np.linalg.solve(M, inverse.dq), -np.linalg.solve(M, inverse.dv), np.linalg.inv(M)
    by_torque = dynamics.inverse_dynamics_hessian(robot, q, v, a, -Minv @ w)
    L = np.block([[np.eye(nv), Z, Z], [Z, np.eye(nv), Z], [aq, av, Minv]])
    qq, qv, vv, qa = by_torque
    R = np.block([[qq, qv, qa], [qv.T, vv, Z], [qa.T, Z, Z]])
    found = dynamics.forward_dynamics_hessian(robot, q, v, tau, w)
    whole = np.block([[found.qq, found.qv, found.qtau], [found.qv.T, found.vv, Z], [found.qtau.T, Z, Z]])
    for rows in range(3):
        for columns in range(3):
            block = np.s_[rows * nv : (rows + 1) * nv, columns * nv : (columns + 1) * nv]
            truth = (L.T @ R @ L)[block]
            np.testing.assert_allclose(whole[block], truth, atol=1e-6 * max(np.abs(truth).max(), 1e-300))
    tensors = dynamics.forward_dynamics_second_derivatives(robot, q, v, tau)
    for tensor, block in zip(tensors, (found.qq, found.vv, found.qv.T, found.qtau.T), strict=True):
        np.testing.assert_allclose(np.einsum("i,ijk->jk", w, tensor), block, atol=1e-6 * np.abs(block).max())
    T = dynamics.inverse_mass_matrix_derivatives(robot, q)
    d = rng.normal(size=nv) / np.sqrt(nv)
    slope = fourth_order(lambda t: dynamics.inverse_mass_matrix(robot, moved(robot, q, t * d)))
    assert relative_error(T @ d, slope) < 1e-6


@pytest.mark.parametrize("seed", range(2))
def test_tensors_of_inverse_dynamics_are_differences(seed, rng):
    robot = random_hybrid(seed, parts=4, rods=2)
    nv = robot.nv
    q, v, a, d = robot.random_configuration(rng), *rng.normal(size=(3, nv))
    tensors = dynamics.inverse_dynamics_second_derivatives(robot, q, v, a)

    def first(t, along):
        x = {"q": (moved(robot, q, t * d), v), "v": (q, v + t * d)}[along]
        return np.array(dynamics.inverse_dynamics_derivatives(robot, *x, a))

    by_q = fourth_order(lambda t: first(t, "q"))
    by_v = fourth_order(lambda t: first(t, "v"))
    for tensor, slope in zip((tensors.dqdq, tensors.dvdq, tensors.dadq, tensors.dvdv), (*by_q, by_v[1]), strict=True):
        assert relative_error(tensor @ d, slope) < 1e-8


def test_a_base_of_a_rod_moves_as_what_carries_it(rng):
    robot = random_hybrid(1)
    q, v = robot.random_configuration(rng), rng.normal(size=robot.nv)
    name, chain = f"{robot.rods[1].name}/base", Chain(robot)
    found = fourth_order(
        lambda t: pin.log6(
            pose_of(robot, chain.data, name, q).actInv(pose_of(robot, chain.data, name, moved(robot, q, t * v)))
        ).vector
    )
    np.testing.assert_allclose(dynamics.frame_velocity(robot, q, v, name), found, atol=1e-8 * np.abs(found).max())

"""Properties of every tree: dozens of them, all kinds of joints, against Pinocchio and against themselves.

Depth and branching vary with the seed; so do bodies (ordinary, or rods, blocks and motes together) and states (fast,
at rest, with rotations near half a turn, with rotations of 1e-7).
"""

import numpy as np
import pinocchio as pin
import pytest
from oracles import (
    chain_of,
    extreme_inertia,
    fourth_order,
    pin_forces,
    pin_forward_derivatives,
    pin_inverse_derivatives,
    random_inertia,
    random_tree,
    symmetric,
)
from thorough import cases

import dynamics
from dynamics import RobotDynamics
from dynamics.geometry.joint_motion import FREE_FLYER, PLANAR

SEEDS = range(cases(100, 32))
STATES = ("fast", "at rest", "near half a turn", "hardly turned")


def tree(seed):
    """Chains, bushes and what is between, of one to ten bodies after the root."""
    return random_tree(
        seed, bodies=1 + seed % 10, straight=(1.0, 0.6, 0.2)[seed % 3],
        body=extreme_inertia if seed % 4 == 3 else random_inertia,
    )  # fmt: skip


def displacement(robot, rng, angle):
    """A tangent vector (nv,) that turns every joint by ``angle``."""
    xi = rng.normal(size=robot.nv)
    for kind, iv, nj in zip(robot.tree.kind, robot.tree.iv, robot.tree.nj, strict=True):
        first = {FREE_FLYER: 3, PLANAR: 2}.get(int(kind), 0)
        turn = xi[iv + first : iv + nj]
        turn *= angle / np.linalg.norm(turn)
    return xi


def state(robot, seed, rng):
    kind = STATES[(seed // 2) % 4]
    v, a = rng.normal(size=(2, robot.nv))
    if kind == "fast":
        return robot.random_configuration(rng), 5.0 * v, a
    if kind == "at rest":
        return robot.random_configuration(rng), 0.0 * v, a
    angle = np.pi - 1e-6 if kind == "near half a turn" else 1e-7
    return pin.integrate(robot.model, robot.neutral(), displacement(robot, rng, angle)), v, a


@pytest.fixture(params=SEEDS)
def sample(request):
    seed = request.param
    rng = np.random.default_rng(1000 + seed)
    robot = tree(seed)
    return robot, rng, *state(robot, seed, rng)


def close(value, truth, tolerance, scale=0.0):
    """Within a tolerance of the largest entry of the truth, of a scale, or of one."""
    truth = np.reshape(truth, np.shape(value))  # of one degree of freedom Pinocchio gives vectors
    np.testing.assert_allclose(value, truth, rtol=0, atol=tolerance * max(np.abs(truth).max(), scale, 1.0))


def test_inverse_dynamics_is_pinocchios(sample):
    robot, rng, q, v, a = sample
    data = robot.model.createData()
    fext = rng.normal(size=(robot.model.njoints, 6))
    tau = pin.rnea(robot.model, data, q, v, a, pin_forces(fext))
    close(dynamics.inverse_dynamics(robot, q, v, a, fext), tau, 1e-12)
    first = dynamics.inverse_dynamics_derivatives(robot, q, v, a, fext)
    for ours, truth in zip(first, pin_inverse_derivatives(robot, data, q, v, a, fext), strict=True):
        close(ours, truth, 1e-11)


def test_forward_dynamics_inverts_inverse_dynamics_with_its_derivatives(sample):
    robot, _, q, v, a = sample
    tau = dynamics.inverse_dynamics(robot, q, v, a)
    M = symmetric(pin.crba(robot.model, robot.model.createData(), q))
    gain = np.abs(np.linalg.inv(M)).max()  # what rounding in torques becomes in accelerations
    inverse = dynamics.inverse_dynamics_derivatives(robot, q, v, a)
    forward = dynamics.forward_dynamics_derivatives(robot, q, v, tau)
    close(inverse.da, M, 1e-12)
    close(dynamics.forward_dynamics(robot, q, v, tau), a, 1e-13, gain * np.abs(tau).max())
    close(M @ forward.dtau, np.eye(robot.nv), 1e-13, gain * np.abs(M).max())
    for ours, truth in ((forward.dq, inverse.dq), (forward.dv, inverse.dv)):
        close(M @ ours, -truth, 1e-11, np.abs(M).max() * np.abs(ours).max())
    data = robot.model.createData()
    for ours, truth in zip(forward, pin_forward_derivatives(robot, data, q, v, tau), strict=True):
        close(ours, truth, 1e-8 + 1e-14 * np.linalg.cond(M))  # Pinocchio's own lose digits sooner
    for ours, rate in zip(forward, pin_inverse_derivatives(robot, data, q, v, a)[:2], strict=False):
        close(ours, -np.linalg.solve(M, rate), 1e-10 + 1e-15 * np.linalg.cond(M))


def test_contracted_seconds_are_the_tensors_and_the_tensors_pinocchios_derivatives(sample):
    robot, rng, q, v, a = sample
    mu = rng.normal(size=robot.nv)
    tensors = dynamics.inverse_dynamics_second_derivatives(robot, q, v, a)
    hessian = dynamics.inverse_dynamics_hessian(robot, q, v, a, mu)
    for value, T in zip((hessian.qq, hessian.vv, hessian.qv.T, hessian.qa.T), tensors, strict=True):
        close(value, np.einsum("i,ijk", mu, T), 1e-12, np.abs(T).max())
    direction = rng.normal(size=robot.nv)
    data = robot.model.createData()

    def first(t):
        return pin_inverse_derivatives(robot, data, pin.integrate(robot.model, q, t * direction), v, a)

    for T, truth in zip((tensors.dqdq, tensors.dvdq, tensors.dadq), fourth_order(first), strict=True):
        close(T @ direction, truth, 1e-8, np.abs(T).max())
    truth = fourth_order(lambda t: pin_inverse_derivatives(robot, data, q, v + t * direction, a)[1])
    close(tensors.dvdv @ direction, truth, 1e-8, np.abs(tensors.dvdv).max())


def test_steps_on_the_manifold_are_pinocchios_and_undo_each_other(sample):
    robot, rng, q, _, _ = sample
    system, still = RobotDynamics(robot, 0.01, np.eye(robot.nv)), np.zeros(robot.nv)
    for angle in (0.0, 1e-7, 1.0, np.pi - 1e-6):
        xi = displacement(robot, rng, angle)
        moved = system.integrate(np.r_[q, still], np.r_[xi, still])
        tolerance = 1e-12 if angle != 1e-7 else 1e-8  # (1 - cos ω)/ω cancels in Pinocchio's planar joint
        close(moved[: robot.nq], pin.integrate(robot.model, q, xi), tolerance)
        close(system.difference(np.r_[q, still], moved)[: robot.nv], xi, 2e-11)


def test_energy_and_momentum_are_pinocchios(sample):
    robot, _, q, v, _ = sample
    data = robot.model.createData()
    M = symmetric(pin.crba(robot.model, data, q))
    energy = 0.5 * v @ M @ v + pin.computePotentialEnergy(robot.model, data, q)
    assert abs(dynamics.energy(robot, q, v) - energy) < 1e-11 * max(1.0, 0.5 * v @ M @ v, abs(energy))
    close(dynamics.momentum(robot, q, v), pin.computeCentroidalMomentum(robot.model, data, q, v).vector, 1e-11, 1.0)
    pin.computeCentroidalMap(robot.model, data, q)
    close(dynamics.momentum_derivatives(robot, q, v).dv, data.Ag, 1e-11)


@pytest.mark.parametrize("seed", [3, 7, 12, 18])
def test_power_of_all_torques_is_the_rate_of_the_energy(seed):
    """τ·v = d/dt E along the motion, gravity and rotors included; dE = E_q v + E_v a."""
    rng = np.random.default_rng(seed)
    robot = random_tree(seed)
    q, v, a = robot.random_configuration(rng), *rng.normal(size=(2, robot.nv))
    gradient = dynamics.energy_derivatives(robot, q, v)
    power = dynamics.inverse_dynamics(robot, q, v, a) @ v
    assert abs(gradient.dq @ v + gradient.dv @ a - power) < 1e-11 * (np.abs(gradient.dq) @ np.abs(v) + 1.0)


@pytest.mark.parametrize("integrator", ["semi-implicit-euler", "euler", "rk4", "implicit-midpoint", "sdirk2"])
def test_linearizations_compose_along_a_rollout(integrator, rng):
    """The product of two steps' derivatives is the derivative of Pinocchio-charted two steps, by differences."""
    system = RobotDynamics(chain_of("free-flyer", "spherical", "planar"), 0.02, np.eye(12), integrator)
    x = np.r_[system.robot.random_configuration(rng), rng.normal(size=12)]
    U = rng.normal(size=(2, 12))
    X = system.rollout(x, U)
    (A0, B0), (A1, _) = system.linearize(X[0], U[0]), system.linearize(X[1], U[1])
    dx, du = rng.normal(size=(2, 24))
    du = du[:12]

    def end(t):
        start = system.integrate(x, t * dx)
        return system.difference(X[2], system.rollout(start, U + t * np.stack([du, np.zeros(12)]))[2])

    close(A1 @ (A0 @ dx + B0 @ du), fourth_order(end), 1e-9)

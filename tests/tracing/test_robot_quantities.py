"""Costs and constraints of users that ask for a robot's quantities: to second order, against Pinocchio's values."""


import numpy as np
import pinocchio as pin
import pytest
from oracles import chain_of, random_state, random_tree

import ddp
import dynamics
from ddp.constraints.constraint import made_batch
from ddp.costs.traced import TracedTerm

ROBOTS = {
    "ur5": lambda: dynamics.load("ur5"),
    "groups": lambda: chain_of("planar", "spherical", "continuous", "helical unaligned", "free-flyer", "revolute"),
    "tree 4": lambda: random_tree(4),
    "tree 9": lambda: random_tree(9),
}
ALIGNED = "local-world-aligned"


class Case:
    """A robot with a frame at its end, and functions of its state and torques by mayne and by Pinocchio."""

    def __init__(self, name):
        self.robot = ROBOTS[name]()
        robot, rng = self.robot, np.random.default_rng(sum(map(ord, name)))
        robot.model.addFrame(pin.Frame("tip", robot.model.njoints - 1, 0, pin.SE3.Random(), pin.OP_FRAME))
        self.model, self.data, self.rng = robot.model, robot.model.createData(), rng
        self.nq, self.nv = robot.nq, robot.nv
        self.x = np.concatenate(random_state(robot, rng)[:2])
        self.S = robot.actuation
        self.u = rng.normal(size=self.S.shape[1])
        self.nz = 2 * self.nv + len(self.u)
        self.B, self.target = pin.SE3.Random().rotation, rng.normal(size=3)

    def asked(self, x, u):
        """All quantities, by mayne."""
        robot, q, v = self.robot, x[: self.nq], x[self.nq :]
        M, rest = dynamics.frame_placement(robot, q, "tip"), np.zeros(self.nv)
        return [
            dynamics.frame_position(robot, q, "tip"), M[:3, :3], dynamics.frame_velocity(robot, q, v, "tip", ALIGNED),
            dynamics.center_of_mass(robot, q), dynamics.energy(robot, q, v), dynamics.momentum(robot, q, v),
            dynamics.inverse_dynamics(robot, q, rest, rest), dynamics.inverse_dynamics(robot, q, v, self.S @ u),
            dynamics.forward_dynamics(robot, q, v, self.S @ u),
        ]  # fmt: skip

    def inertia(self, q):
        """The mass matrix."""
        M = np.triu(pin.crba(self.model, self.data, q))
        return M + np.triu(M, 1).T

    def known(self, x, u):
        """The same by Pinocchio."""
        model, data, q, v = self.model, self.data, x[: self.nq].copy(), x[self.nq :].copy()
        frame, rest = model.getFrameId("tip"), np.zeros(self.nv)
        pin.forwardKinematics(model, data, q, v)
        M = pin.updateFramePlacement(model, data, frame)
        V = pin.getFrameVelocity(model, data, frame, pin.LOCAL_WORLD_ALIGNED).vector
        energy = pin.computePotentialEnergy(model, data) + 0.5 * v @ self.inertia(q) @ v  # pin's own loses rotors
        h = pin.computeCentroidalMomentum(model, data, q, v).vector.copy()
        return [
            M.translation.copy(), M.rotation.copy(), V, pin.centerOfMass(model, data, q).copy(), energy, h,
            pin.rnea(model, data, q, rest, rest).copy(), pin.rnea(model, data, q, v, self.S @ u).copy(),
            pin.aba(model, data, q, v, self.S @ u).copy(),
        ]  # fmt: skip

    def mixed(self, parts, x, u):
        """Numbers of a constraint (5,) of all of these, of x and of u."""
        p, R, V, c, energy, h, gravity, tau, a = parts
        return np.array([
            (p - self.target) @ (p - self.target) + x[-1] * c[0],
            (R @ self.target)[1] * p[0] + V @ V + 0.1 * np.sin(u[0]) * V[2],
            np.tanh(1e-2 * energy) + R[0, 1] ** 3 + c[2],
            1e-3 * (gravity @ gravity) + 1e-2 * np.exp(0.1 * c[1]) * (tau @ tau),
            1e-3 * (a @ a) + 1e-2 * (h @ h) * x[-1],
        ])  # fmt: skip

    def moved(self, d):
        """x ⊕ dx, u + du for d = (dx, du)."""
        q = pin.integrate(self.model, self.x[: self.nq], d[: self.nv])
        return np.concatenate([q, self.x[self.nq :] + d[self.nv : 2 * self.nv]]), self.u + d[2 * self.nv :]

    def truth(self, d):
        x, u = self.moved(d)
        return self.mixed(self.known(x, u), x, u)

    def along(self, d, h=4e-3):
        """First and second derivative along d, by differences of fourth order of Pinocchio's values."""
        low, less, now, more, high = (self.truth(k * h * d) for k in (-2, -1, 0, 1, 2))
        return (low - 8 * less + 8 * more - high) / (12 * h), (
            -low + 16 * less - 30 * now + 16 * more - high
        ) / (12 * h * h)


@pytest.mark.parametrize("name", ROBOTS)
def test_quantities_in_functions_are_pinocchios_to_second_order(name):
    case = Case(name)
    system = dynamics.RobotDynamics(case.robot, 0.01)
    of_users = ddp.Equality(lambda x, u: case.mixed(case.asked(x, u), x, u))
    constraint = made_batch("c", of_users, system, case.x)
    cost = TracedTerm(ddp.costs.terms.FunctionTerm(lambda x, u: np.sum(case.mixed(case.asked(x, u), x, u))), system)
    X, U, weight = case.x[None], case.u[None], case.rng.normal(size=(1, 5))
    np.testing.assert_allclose(constraint.values(X, U)[0], case.truth(np.zeros(case.nz)), rtol=1e-11, atol=1e-12)
    J, H = constraint.jacobian(X, U)[0], constraint.curvature(X, U, weight)[0]
    l, lz, lzz = np.zeros(1), np.zeros((1, case.nz)), np.zeros((1, case.nz, case.nz))
    cost.expand(X, U, 1.0, True, l, lz, lzz)
    np.testing.assert_allclose(lz[0], J.sum(axis=0), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(lzz, constraint.curvature(X, U, np.ones((1, 5))), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(H, H.T, rtol=1e-9, atol=1e-9)
    for _ in range(5):
        d = case.rng.normal(size=case.nz)
        d /= np.linalg.norm(d)
        slope, bend = case.along(d)
        np.testing.assert_allclose(J @ d, slope, rtol=1e-8, atol=1e-8 * max(1.0, np.abs(slope).max()))
        np.testing.assert_allclose(d @ H @ d, weight[0] @ bend, atol=2e-6 * max(1.0, np.abs(weight[0] * bend).max()))

"""Costs and constraints of users that ask for a robot's quantities: to second order, against Pinocchio's values."""


import pickle
from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest
from oracles import chain_of, random_state, random_tree

import ddp
import dynamics
import mayne
from ddp.constraints.constraint import made_batch
from ddp.costs.terms import FunctionTerm
from ddp.costs.traced import TracedTerm
from ddp.errors import ProblemError
from dynamics.steps import routines
from problems import arm
from problems.costs import FramePosition

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
        """Values of the quantities by Pinocchio."""
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
    cost = TracedTerm(FunctionTerm(lambda x, u: np.sum(case.mixed(case.asked(x, u), x, u))), system)
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


UR5 = dynamics.load("ur5")
PLAIN = arm.reach("ur5", horizon=20)
TARGET = np.array([0.4, 0.2, 0.5])


def reaching(x, u):
    e = mayne.frame_position(UR5, x[:6], "tool0") - TARGET
    return 0.5 * (e @ (30.0 * e))


def of_placement(x, u):
    e = mayne.frame_placement(UR5, x[:6], "tool0")[:3, 3] - TARGET
    return 15.0 * (e @ e)


def problem_with(*terms, **changes):
    return replace(PLAIN, running=[*PLAIN.running, *terms], **changes)


@pytest.mark.parametrize("cost", [reaching, of_placement])
def test_a_reach_by_hand_is_the_built_in_one(cost):
    """To the last iterate: of ``|p - target|²``, Gauss-Newton's Hessian is that of the residual."""
    built_in = mayne.solve(problem_with(FramePosition(UR5, "tool0", TARGET, np.full(3, 30.0))))
    by_hand = mayne.solve(problem_with(cost))
    assert len(by_hand.history) == len(built_in.history)
    np.testing.assert_allclose(by_hand.X, built_in.X, atol=1e-9)


def test_quantities_of_the_robot_inside_of_a_composition():
    """Of an arm with limited torque rates, x = (q, v, torques); of velocities that are constants, none depends."""
    system = dynamics.augment.rates(PLAIN.dynamics)

    def cost(x, u):
        potential = mayne.energy(UR5, x[:6], np.zeros(6))
        V = mayne.frame_velocity(UR5, x[:6], x[6:12], "tool0")
        return reaching(x, u) + 1e-3 * potential + 1e-2 * V @ x[12:]

    x0 = np.concatenate([PLAIN.x0, np.ones(6)])
    problem = mayne.Problem(system, x0=x0, horizon=5, running=[cost], terminal=[cost])
    assert ddp.check_derivatives(problem).ok


def test_constraints_hold_at_the_end():
    def height(x, u):
        return mayne.frame_position(UR5, x[:6], "tool0")[2] - 0.6

    solution = mayne.solve(problem_with(reaching, terminal_constraints=[mayne.Equality(height)]))
    assert solution.converged
    assert abs(height(solution.X[-1], None)) < 1e-6


class Balance:
    """The centre of mass above a place."""

    def __init__(self, robot):
        self.robot, self.place = robot, np.array([0.1, 0.05])

    def value(self, x, u):
        away = mayne.center_of_mass(self.robot, x[: self.robot.nq])[:2] - self.place
        return 10.0 * away @ away


def test_a_problem_that_is_pickled_solves_as_before():
    problem = problem_with(Balance(UR5))
    assert mayne.solve(pickle.loads(pickle.dumps(problem))).cost == mayne.solve(problem).cost


def test_another_robot_is_seen_in_a_term_that_was_traced():
    term = Balance(UR5)
    problem = problem_with(term)
    before = mayne.solve(problem).cost
    masses = UR5.masses * np.linspace(1.0, 5.0, len(UR5.masses))
    term.robot = UR5.with_masses(masses)
    after = mayne.solve(problem).cost
    assert after != before
    assert after == mayne.solve(problem_with(Balance(UR5.with_masses(masses)))).cost


def test_many_problems_at_once_solve_as_they_do_alone(monkeypatch):
    monkeypatch.setattr(routines, "MOST", 0)  # code of a robot's own compiles for seconds
    problems = [problem_with(reaching, x0=PLAIN.x0 + 0.02 * k) for k in range(9)]
    batch = ddp.Batch(problems[0], len(problems))
    assert not batch.obstacle
    solutions = batch.solve({"x0": np.array([problem.x0 for problem in problems])})
    for problem, cost in zip(problems, solutions.cost, strict=True):
        np.testing.assert_allclose(cost, mayne.solve(problem).cost, rtol=1e-9)


def computed(x, u):
    return mayne.frame_position(UR5, x[:6] + 0.1 * x[6:], "tool0")[2]


def no_frame(x, u):
    return mayne.frame_position(UR5, x[:6], "tool")[2]


def inertia(x, u):
    return mayne.mass_matrix(UR5, x[:6])[0, 0]


def whole_state(x, u):
    return mayne.center_of_mass(UR5, x)[2]


def by_pinocchio(x, u):
    return pin.neutral(UR5.model)[0] + pin.centerOfMass(UR5.model, UR5.model.createData(), np.asarray(x[:6]))[2]


@pytest.mark.parametrize(
    ("cost", "said"),
    [
        (computed, r"frame_position of computed numbers \(q\[0\] is no number of x or u as it is, and no constant; "
                   r"make it a number of the state, which the dynamics compute\), in"
                   r" line \d+ of test_robot_quantities.py: return mayne"),
        (no_frame, r"frame_position: frame: ur5 has no frame 'tool'; did you mean 'tool0'"),
        (inertia, r"takes plain numbers alone .*; costs and constraints may call center_of_mass, energy, forward_dyn"),
        (whole_state, r"value: center_of_mass: q: expected shape \(6,\), got \(12,\) at knot 0 \(line \d+ of [^;]*\)$"),
        (by_pinocchio, r"takes plain numbers alone \(ArgumentError.* costs and constraints may call center_of_mass"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_says_why(cost, said):
    with pytest.raises(ProblemError, match=said):
        problem_with(cost)


def test_a_function_by_differences_may_ask_for_anything():
    class Moved:
        derivatives = "differences"

        def value(self, x, u):
            return computed(x, u)

    assert ddp.check_derivatives(problem_with(Moved())).ok


def test_a_system_may_ask_for_none():
    said = r"forward_dynamics in a system \(costs and constraints alone may call it; RobotDynamics moves robots"
    with pytest.raises(ddp.ModelError, match=said):
        dynamics.FunctionDynamics(lambda x, u: x + np.sum(mayne.forward_dynamics(UR5, x[:6], x[6:], u)), 12, 6, dt=0.1)

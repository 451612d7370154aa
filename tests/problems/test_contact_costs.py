"""Costs on contact forces against Pinocchio's forces and differences of them; phases and impacts in a problem."""

import numpy as np
import pinocchio as pin
import pytest
from contact_oracles import FEET, Constrained, some_contacts
from oracles import fourth_order

import dynamics
from ddp import DDP, Problem, check_derivatives, solve
from ddp.errors import ProblemError
from dynamics import Contact, ContactForces, Phase, PhasedDynamics
from problems.contact_costs import ContactForce, FrictionCone
from problems.costs import ControlCost, FramePosition, StateCost


class Standing:
    """anymal near its usual posture, four feet held; Pinocchio's forces of the states around."""

    def __init__(self, rng, reference):
        self.robot, self.rng = dynamics.load("anymal"), rng
        self.contacts = some_contacts(FEET["anymal"], "point", rng, (0.0, 50.0), reference)
        self.forces = ContactForces(self.robot, self.contacts, damping=True)
        self.damping = np.asarray(self.robot.model.damping)
        self.oracle = Constrained(self.robot, self.contacts)
        nv = self.robot.nv
        q = pin.integrate(self.robot.model, self.robot.q0, 0.2 * rng.normal(size=nv))
        self.x, self.u = np.concatenate([q, 0.3 * rng.normal(size=nv)]), 30.0 * rng.normal(size=12)

    def force(self, foot, dz):
        """The force of a foot when z has moved by dz."""
        nq, nv = self.robot.nq, self.robot.nv
        q, v = pin.integrate(self.robot.model, self.x[:nq], dz[:nv]), self.x[nq:] + dz[nv : 2 * nv]
        tau = self.forces.actuation @ (self.u + dz[2 * nv :]) - self.damping * v
        return self.oracle.motion(q, v, tau)[nv + 3 * foot : nv + 3 * foot + 3]

    def check(self, term, cost):
        """Value, gradient and Hessian of ``cost(dz)``, at 0."""
        nz = 2 * self.robot.nv + 12
        assert term.value(self.x, self.u) == pytest.approx(cost(np.zeros(nz)), rel=1e-10)
        slope = np.array([fourth_order(lambda t, e=e: cost(t * e)) for e in np.eye(nz)])
        np.testing.assert_allclose(term.gradient(self.x, self.u), slope, atol=1e-7 * np.abs(slope).max())
        H = term.hessian(self.x, self.u)
        assert np.array_equal(H, H.T) or np.abs(H - H.T).max() < 1e-12 * np.abs(H).max()
        for _ in range(8):
            d = self.rng.normal(size=nz) / nz
            h = 1e-2
            near, far = cost(h * d) + cost(-h * d), cost(2 * h * d) + cost(-2 * h * d)
            second = (16 * near - far - 30 * cost(0 * d)) / (12 * h * h)
            assert abs(d @ H @ d - second) < 1e-5 * np.abs(d) @ np.abs(H) @ np.abs(d)
        gauss_newton = term.hessian(self.x, self.u, exact=False)
        assert np.linalg.eigvalsh(gauss_newton)[0] > -1e-9 * np.abs(gauss_newton).max()
        assert np.abs(gauss_newton - H).max() > 1e-6 * np.abs(H).max()


@pytest.mark.parametrize("reference", ["local", "local-world-aligned"])
def test_forces_cost_what_pinocchio_says(rng, reference):
    case = Standing(rng, reference)
    target, weights = rng.normal(size=3), rng.uniform(0.1, 1.0, size=3)
    term = ContactForce(case.forces, "LH_FOOT", target, weights)
    case.check(term, lambda dz: 0.5 * weights @ (case.force(2, dz) - target) ** 2)


@pytest.mark.parametrize(("facets", "inner"), [(4, True), (6, False)])
def test_cones_cost_what_lies_beyond_their_facets(rng, facets, inner):
    case, normal = Standing(rng, "local-world-aligned"), np.array([0.3, -0.2, 0.9])
    term = FrictionCone(case.forces, "RH_FOOT", 0.5, 0.1, normal, facets, inner, 5.0, 50.0)
    n = normal / np.linalg.norm(normal)
    turn = pin.Quaternion.FromTwoVectors(np.array([0.0, 0.0, 1.0]), n).matrix()
    mu = 0.5 * np.cos(np.pi / facets) if inner else 0.5

    def cost(dz):
        f = turn.T @ case.force(1, dz)
        angles = 2 * np.pi * np.arange(facets) / facets
        slips = np.maximum(np.cos(angles) * f[0] + np.sin(angles) * f[1] - mu * f[2], 0.0)
        return 0.05 * (slips @ slips + max(5.0 - f[2], 0.0) ** 2 + max(f[2] - 50.0, 0.0) ** 2)

    assert cost(np.zeros(48)) > 0.0
    case.check(term, cost)


def test_forces_inside_their_cone_cost_nothing(rng):
    robot, feet = dynamics.load("anymal"), FEET["anymal"]
    system = PhasedDynamics(robot, 0.01, Phase([Contact(foot) for foot in feet], 1))
    x = np.concatenate([robot.q0, np.zeros(robot.nv)])
    forces = ContactForces(robot, system.phases[0].contacts)
    X, U = x[None], system.nominal_control(x)[None]
    weight = 9.81 * pin.computeTotalMass(robot.model)
    assert forces.values(X, U).reshape(4, 3).sum(axis=0) == pytest.approx([0.0, 0.0, weight], abs=1e-8)
    for foot in feet:
        assert FrictionCone(forces, foot, 0.7, 1.0).value(x, U[0]) == 0.0


def step_over():
    """anymal lifts a foot, puts it down 5 cm ahead, and stands: two phases and an impact."""
    robot, feet = dynamics.load("anymal"), FEET["anymal"]
    held = [Contact(foot, gains=(0.0, 50.0)) for foot in feet]
    system = PhasedDynamics(robot, 0.02, [Phase(held[1:], 8), Phase(held, 4, held[:1])])
    x0 = np.concatenate([robot.q0, np.zeros(robot.nv)])
    start = dynamics.frame_placement(robot, robot.q0, feet[0])[:3, 3]
    swing, stand = ContactForces(robot, held[1:]), ContactForces(robot, held)
    posture = StateCost(system, x0, np.concatenate([np.full(18, 10.0), np.full(18, 1.0)]))
    at = {k: [FrictionCone(swing, foot, 0.7, 1e-2) for foot in feet[1:]] for k in range(8)}
    at |= {k: [FrictionCone(stand, foot, 0.7, 1e-2) for foot in feet] for k in range(9, 13)}
    at[4] = [*at[4], FramePosition(robot, feet[0], start + np.array([0.03, 0.0, 0.05]), 1e3)]
    at[8] = [FramePosition(robot, feet[0], start + np.array([0.05, 0.0, 0.0]), 1e4)]
    effort = ControlCost(np.zeros(12), np.full(12, 1e-3))
    return Problem(dynamics=system, running=[posture, effort], terminal=[posture], x0=x0, horizon=system.knots, at=at)


def test_a_step_is_solved_to_second_order():
    problem = step_over()
    guess = np.array([problem.dynamics.nominal_control(problem.x0, k) for k in range(problem.horizon)])
    solution = solve(problem, DDP(tolerance=1e-9), guess=guess)
    assert solution.converged
    assert solution.stationarity() < 1e-4
    assert [record.hessian for record in solution.history][-1] == "exact"
    robot, feet = problem.dynamics.robot, FEET["anymal"]
    landed = dynamics.frame_placement(robot, solution.X[-1, : robot.nq], feet[0])[:3, 3]
    start = dynamics.frame_placement(robot, robot.q0, feet[0])[:3, 3]
    assert np.abs(landed - start - [0.05, 0.0, 0.0]).max() < 5e-3
    after = dynamics.frame_velocity(robot, *np.split(solution.X[9], [robot.nq]), feet[0], "local-world-aligned")
    assert np.abs(after[:3]).max() < 1e-10  # the impact has stopped the foot
    report = check_derivatives(problem, solution.X, solution.U)  # cones are left where they bend, some facets on them
    assert all(check.ok for check in report.checks if "FrictionCone" not in check.name), str(report)


def test_mistakes_are_named():
    robot = dynamics.load("anymal")
    forces = ContactForces(robot, [Contact("LF_FOOT")])
    with pytest.raises(ProblemError, match="no contact at 'RF_FOOT'; did you mean 'LF_FOOT'"):
        FrictionCone(forces, "RF_FOOT", 0.7, 1.0)
    with pytest.raises(ProblemError, match="facets: expected an even number of at least 4, got 5"):
        FrictionCone(forces, "LF_FOOT", 0.7, 1.0, facets=5)
    with pytest.raises(ProblemError, match="mu: expected a positive number"):
        FrictionCone(forces, "LF_FOOT", -0.7, 1.0)
    with pytest.raises(ProblemError, match=r"target: expected shape \(3,\), got \(6,\)"):
        ContactForce(forces, "LF_FOOT", np.zeros(6), np.ones(6))
    with pytest.raises(ProblemError, match=r"forces: expected dynamics\.ContactForces, got Robot"):
        ContactForce(robot, "LF_FOOT", np.zeros(3), np.ones(3))

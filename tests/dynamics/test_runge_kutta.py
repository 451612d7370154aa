"""The order of the steps, against a fine solution in one chart by Pinocchio and SciPy; what motion conserves."""

import numpy as np
import pinocchio as pin
import pytest
from oracles import chain_of, fourth_order, random_state, random_tree, relative_error
from scipy.integrate import solve_ivp

import dynamics
from dynamics import RobotDynamics
from dynamics.steps.runge_kutta import method
from dynamics.steps.schemes import INTEGRATORS, explicit

TIME = 0.4


def fine_solution(robot, q, v, tau):
    """The state after TIME: θ' = Jr(θ)⁻¹ v with q ⊕ θ, v' = aba, to 1e-12."""
    model, data, nv = robot.model, robot.model.createData(), robot.nv

    def rate(t, y):
        J = pin.dIntegrate(model, q, y[:nv], pin.ArgumentPosition.ARG1)
        a = pin.aba(model, data, pin.integrate(model, q, y[:nv]), y[nv:], tau)
        return np.concatenate([np.linalg.solve(J, y[nv:]), a])

    found = solve_ivp(rate, (0.0, TIME), np.concatenate([np.zeros(nv), v]), "DOP853", rtol=1e-12, atol=1e-12)
    return np.concatenate([pin.integrate(model, q, found.y[:nv, -1]), found.y[nv:, -1]])


def error(system, x, u, steps, truth):
    finer = RobotDynamics(system.robot, TIME / steps, system.actuation, system.integrator)
    X = finer.rollout(x, np.tile(u, (steps, 1)))
    return np.abs(system.difference(truth, X[-1])).max()


def gentle(robot, rng):
    q, v, tau = random_state(robot, rng, 0.5)
    return q, v, dynamics.inverse_dynamics(robot, q, v, 0.3 * tau)


ROBOTS = {
    "free body": lambda: chain_of("free-flyer"),
    "spherical": lambda: chain_of("spherical", "revolute"),
    "planar": lambda: chain_of("planar", "spherical"),
    "hyq": lambda: dynamics.load("hyq"),
    "branches": lambda: random_tree(3, bodies=4),
}


OTHERS = {
    "midpoint": method([(), (1 / 2,), (0.0, 1.0)]),
    "heun": method([(), (1.0,), (1 / 2, 1 / 2)]),
    "kutta": method([(), (1 / 2,), (-1.0, 2.0), (1 / 6, 2 / 3, 1 / 6)], {3: (1 / 12, 0, 2)}),
}
"""Methods that are no more than tables: two of order two, one of order three."""


@pytest.fixture(autouse=True)
def _known_methods(monkeypatch):
    for name, table in OTHERS.items():
        monkeypatch.setitem(INTEGRATORS, name, explicit(table))


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize(
    ("integrator", "order", "steps"),
    [
        ("euler", 1, 400), ("semi-implicit-euler", 1, 400), ("midpoint", 2, 200), ("heun", 2, 200), ("kutta", 3, 80),
        ("rk4", 4, 40), ("implicit-euler", 1, 400), ("implicit-midpoint", 2, 200), ("sdirk2", 2, 200),
    ],
)  # fmt: skip
def test_steps_converge_at_their_order(name, integrator, order, steps, rng):
    robot = ROBOTS[name]()
    q, v, tau = gentle(robot, rng)
    if name == "free body":
        v = 3.0 * rng.normal(size=6)  # spinning fast: the brackets are what makes it order four
    system = RobotDynamics(robot, 0.1, np.eye(robot.nv), integrator)
    x, truth = np.concatenate([q, v]), fine_solution(robot, q, v, tau)
    coarse, fine = error(system, x, tau, steps, truth), error(system, x, tau, 2 * steps, truth)
    assert fine < 1e-2
    assert abs(np.log2(coarse / fine) - order) < 0.25


@pytest.mark.parametrize("integrator", [*OTHERS, "implicit-euler", "implicit-midpoint", "sdirk2"])
@pytest.mark.parametrize("name", ["free body", "spherical", "planar", "branches"])
def test_derivatives_of_any_method_are_those_of_its_steps(name, integrator, rng):
    """Along curves f(x ⊕ t dx, u + t du) ⊖ f(x, u), whose first and second derivatives at 0 are A, B and δᵀ H δ."""
    robot = ROBOTS[name]()
    system = RobotDynamics(robot, 0.05, rng.normal(size=(robot.nv, 3)), integrator)
    x, u = np.concatenate([robot.random_configuration(rng), rng.normal(size=robot.nv)]), rng.normal(size=3)
    weight, nominal = rng.normal(size=system.n), system.step(x, u)
    (A, B), H, h = system.linearize(x, u), system.hessian(x, u, weight), 5e-3
    for _ in range(4):
        delta = rng.normal(size=system.n + 3)
        delta /= np.linalg.norm(delta)

        def moved(t, delta=delta):
            start = system.integrate(x, t * delta[: system.n])
            return system.difference(nominal, system.step(start, u + t * delta[system.n :]))

        assert relative_error(A @ delta[: system.n] + B @ delta[system.n :], fourth_order(moved)) < 1e-9
        near, far = moved(h) + moved(-h), moved(2.0 * h) + moved(-2.0 * h)
        second = weight @ (16.0 * near - far) / (12.0 * h * h)
        assert abs(delta @ H @ delta - second) < 1e-7 * (np.abs(delta) @ np.abs(H) @ np.abs(delta))


@pytest.mark.parametrize("name", ["free body", "branches", "free chain"])
def test_free_motion_conserves_energy_and_momentum_to_the_steps_order(name, rng):
    """Without gravity and torques the energy and, with a free root, the momentum in the world are constant."""
    robot = chain_of("free-flyer", "spherical", "planar", "revolute") if name == "free chain" else ROBOTS[name]()
    model = robot.model
    model.gravity = pin.Motion.Zero()
    model.armature = np.zeros(model.nv)  # rotors have energy, but no place in Pinocchio's momentum
    robot, data = dynamics.load(model), model.createData()
    q, v, _ = random_state(robot, rng, 1.0)

    def invariants(x):
        q, v = x[: robot.nq], x[robot.nq :]
        pin.computeCentroidalMomentum(model, data, q, v)
        about_origin = pin.SE3(np.eye(3), data.com[0]).act(data.hg)
        return np.concatenate([[pin.computeKineticEnergy(model, data, q, v)], about_origin.vector])

    drifts = []
    for steps in (100, 200):
        system = RobotDynamics(robot, TIME / steps, np.eye(robot.nv), "rk4")
        X = system.rollout(np.concatenate([q, v]), np.zeros((steps, robot.nv)))
        assert np.isfinite(X).all()
        start = invariants(X[0])
        drifts.append(max(np.abs(invariants(x) - start).max() for x in X) / np.abs(start).max())
    assert drifts[1] < 1e-5
    assert drifts[1] < drifts[0] / 12 or drifts[0] < 1e-12

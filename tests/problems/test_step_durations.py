"""Steps that take different times: what systems, costs and the Lagrangian make of them, and their derivatives."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from contact_oracles import FEET
from oracles import random_tree, sprung
from thorough import cases
from uneven_steps import fourth, uneven

import ddp
from ddp.check import check_derivatives
from ddp.costs.batch import durations_of
from dynamics import Contact, Phase, PhasedDynamics, load
from problems import legged
from problems.contact_costs import ForceLimits
from problems.costs import ControlCost, StateCost
from problems.sensitivity import by_durations, with_durations

pytestmark = pytest.mark.usefixtures("quiet")


def hybrid(rng):
    """anymal: held feet, stabilised ones, flight, an impact, each with its own step."""
    robot = load("anymal")
    data = robot.model.createData()
    pin.framesForwardKinematics(robot.model, data, robot.q0)
    held = [Contact(foot, target=data.oMf[robot.frame_id(foot)].translation.copy()) for foot in FEET["anymal"]]
    soft = [Contact(foot, gains=(0.0, 50.0)) for foot in FEET["anymal"][:2]]
    held_phase = Phase(held[:3], 2, held=True, dt=0.013)
    phases = [held_phase, Phase(soft, 2), Phase((), 1, dt=0.03), Phase(soft, 1, impact=True)]
    return PhasedDynamics(robot, 0.02, phases), robot.q0


def soft(rng):
    """hyq on feet whose accelerations are stabilised, and in the air: knots and step lengths go in lanes."""
    robot = load("hyq")
    feet = [Contact(foot, gains=(0.0, 50.0)) for foot in FEET["hyq"][:2]]
    phases = [Phase(feet, 2, dt=0.013), Phase((), 2, dt=0.03), Phase(feet, 2, impact=True)]
    return PhasedDynamics(robot, 0.02, phases), robot.q0


def surface(rng):
    """talos on one sole."""
    robot = load("talos")
    data, sole = robot.model.createData(), FEET["talos"][0]
    pin.framesForwardKinematics(robot.model, data, robot.q0)
    held = Contact(sole, "surface", data.oMf[robot.frame_id(sole)].copy(), reference="local")
    return PhasedDynamics(robot, 0.02, Phase(held, 2, held=True, dt=0.011), damping=True), robot.q0


def tree(rng):
    """A random tree of all kinds of joints with springs, held by its tip."""
    robot = sprung(random_tree(7, bodies=6), rng)
    robot.model.addFrame(pin.Frame("tip", robot.model.njoints - 1, 0, pin.SE3.Random(), pin.OP_FRAME))
    data = robot.model.createData()
    pin.framesForwardKinematics(robot.model, data, robot.q0)
    tip = Contact("tip", target=data.oMf[robot.frame_id("tip")].translation.copy())
    return PhasedDynamics(robot, 0.02, [Phase(tip, 1, held=True, dt=0.015), Phase((), 1, dt=0.03)]), robot.q0


@pytest.fixture(params=[hybrid, soft, surface, tree], ids=lambda make: make.__name__)
def case(request, rng):
    """A system, and a state near its targets and a control for every knot."""
    system, q0 = request.param(rng)
    robot, N = system.robot, system.knots
    near = [pin.integrate(robot.model, q0, 0.01 * rng.normal(size=robot.nv)) for _ in range(N)]
    return system, np.hstack([near, 0.5 * rng.normal(size=(N, robot.nv))]), 5.0 * rng.normal(size=(N, system.nu))


def test_a_step_changes_with_its_duration_as_differences_of_steps_say(case):
    system, X, U = case
    T, lasting, after = system.phase_durations, system.durations, system.step(X, U)
    moved = fourth(lambda e: system.difference(after, system.lasting(T * (1.0 + e)).step(X, U)), 1e-3)
    rates = system.by_duration(X, U)
    assert np.abs(rates * lasting[:, None] - moved).max() < 1e-9 * np.abs(moved).max()
    assert (rates[lasting == 0.0] == 0.0).all()


def test_knots_beyond_the_phases_last_as_long_as_the_last_phase_though_it_is_but_an_impact():
    robot = load("hyq")
    feet = [Contact("lf_foot"), Contact("rf_foot")]
    system = PhasedDynamics(robot, 0.01, [Phase(feet, 2), Phase(feet, 0, impact=True, dt=0.02)])
    assert np.array_equal(durations_of(system, 5), [0.01, 0.01, 0.0, 0.02, 0.02])


def test_every_phase_steps_as_a_system_whose_steps_are_all_like_its_own(case):
    system, X, U = case
    Xs = system.rollout(X[0], U)
    for k, h in enumerate(system.durations):
        alone = PhasedDynamics(system.robot, h or 1.0, system.phase_of(k), system.actuation, system.damping)
        knot = 0 if system.is_impact(k) else alone.knots - 1
        weight = np.cos(np.arange(system.n))
        ours = system.step(X[k], U[k], k), Xs[k + 1], *system.linearize(X[k], U[k], k)
        theirs = alone.step(X[k], U[k], knot), alone.step(Xs[k], U[k], knot), *alone.linearize(X[k], U[k], knot)
        second = system.hessian(X[k], U[k], weight, k), alone.hessian(X[k], U[k], weight, knot)
        for a, b in (*zip(ours, theirs, strict=True), second):
            assert np.allclose(a, b, rtol=1e-11, atol=1e-11)


def test_derivatives_of_a_problem_with_uneven_steps_are_right(rng):
    problem = uneven()
    X, U = legged.follow_nominal(problem)
    X = problem.dynamics.integrate(X, 0.05 * rng.normal(size=(len(X), problem.dynamics.n)))
    report = check_derivatives(problem, X, U, knots=cases([1, 12, 22, 33], [12, 33]))
    assert report.ok, report


def test_running_costs_count_by_how_long_their_knots_take(rng):
    system, q0 = hybrid(rng)
    x, N = np.concatenate([q0, np.zeros(18)]), system.knots
    paths = system.integrate(x, 0.1 * rng.normal(size=(N, system.n)))
    effort, near = ControlCost(np.zeros(12), np.ones(12)), StateCost(system, paths, np.ones(system.n))
    problem = ddp.Problem(system, [effort], [], x, N, during={range(N): [near]})
    X, U = np.tile(x, (N + 1, 1)), rng.normal(size=(N, 12))
    weights = [0.013, 0.013, 0.02, 0.02, 0.03, 0.02, 0.02]  # an impact counts as one of dt
    expected = np.dot(weights, 0.5 * (U**2).sum(axis=1) + 0.5 * (system.difference(X[:-1], paths) ** 2).sum(axis=1))
    assert problem.cost(X, U) == pytest.approx(expected, rel=1e-12)


def test_costs_of_held_forces_change_with_durations_as_differences_say(case):
    system, X, U = case
    phase = system.phases[0]
    knots, nc = slice(0, phase.knots), sum(contact.size for contact in phase.contacts)
    R, T, zero = np.eye(nc), system.phase_durations, np.zeros(nc)

    def cost(e):
        return ForceLimits(system.lasting(T * (1.0 + e)), phase.contacts, R, zero, zero, 1e-3, phase=0)

    expected = fourth(lambda e: cost(e).values(X[knots], U[knots]), 1e-3) / system.durations[0]
    assert cost(0.0).by_duration(X[knots], U[knots]) == pytest.approx(expected, rel=1e-8)


def test_the_lagrangian_changes_with_durations_as_differences_say(rng):
    """On any trajectory, with any multipliers: costs on forces beyond their cones, constraints on forces, and steps."""
    problem = uneven(friction=0.1, cones="constraint")
    system, T = problem.dynamics, problem.dynamics.phase_durations
    X, U = legged.follow_nominal(problem)
    X, U = system.integrate(X, 0.01 * rng.normal(size=(len(X), system.n))), U + 0.5 * rng.normal(size=U.shape)
    multipliers = 1e-3 * rng.normal(size=problem.multiplier_count)
    costates, after = rng.normal(size=(problem.horizon, system.n)), system.step(X[:-1], U)

    def lagrangian(e):
        longer = with_durations(problem, T * (1.0 + e))
        moved = system.difference(after, longer.dynamics.step(X[:-1], U))
        forces = sum((part.multipliers * part.values).sum() for part in longer.residuals(X, U, multipliers))
        return np.array([longer.cost(X, U), forces, (costates * moved).sum()])

    cost, forces, moved = fourth(lagrangian, 1e-3)
    none = np.zeros_like(costates)
    rates = [by_durations(problem, X, U, *given) @ system.durations for given in (
        (0.0 * multipliers, none), (multipliers, none), (0.0 * multipliers, costates))]  # fmt: skip
    assert rates == pytest.approx([cost, cost + forces, cost + moved], rel=1e-8)
    assert abs(forces) > 1e-3 * abs(cost)

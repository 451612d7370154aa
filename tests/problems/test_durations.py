"""Durations of phases: steps of different length, the exact derivative of an optimum by them, and the best ones."""

from __future__ import annotations

import logging

import numpy as np
import pinocchio as pin
import pytest
from contact_oracles import FEET
from oracles import random_tree
from scipy.optimize import minimize, minimize_scalar

import ddp
from ddp.check import check_derivatives
from ddp.costs.stretches import durations_of
from ddp.errors import ProblemError
from dynamics import Contact, FunctionDynamics, Phase, PhasedDynamics, load
from dynamics.robots.model import Robot
from problems import gaits, legged
from problems.constraints import StateEquality
from problems.contact_costs import ForceConstraint, ForceLimits, friction_cone
from problems.costs import CenterOfMass, ControlCost, StateCost
from problems.durations import FreeDurations, free_durations, solve_durations
from problems.sensitivity import gradient, sensitivity, with_durations

PRECISE = ddp.DDP(tolerance=1e-13)


@pytest.fixture(scope="module", autouse=True)
def quiet():
    logging.getLogger("mayne").setLevel(logging.ERROR)
    yield
    logging.getLogger("mayne").setLevel(logging.NOTSET)


def fourth(f, step):
    """f'(0) by central differences of order four."""
    return (8.0 * (f(step) - f(-step)) - (f(2.0 * step) - f(-2.0 * step))) / (12.0 * step)


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
    """A random tree of all kinds of joints, held by its tip."""
    robot = random_tree(7, bodies=6)
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


def uneven(**options):
    """A trot of solo12 in coarse steps, whose phases last longer or shorter than they did."""
    problem = gaits.trot("solo12", dt=0.02, **options)
    return with_durations(problem, problem.dynamics.phase_durations * [0.9, 1.1, 1.2, 1.0, 0.95])


def test_derivatives_of_a_problem_with_uneven_steps_are_right(rng):
    problem = uneven()
    X, U = legged.follow_nominal(problem)
    X = problem.dynamics.integrate(X, 0.05 * rng.normal(size=(len(X), problem.dynamics.n)))
    report = check_derivatives(problem, X, U, knots=[1, 12, 22, 33])
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
    rates = [problem.by_durations(X, U, *given) @ system.durations for given in (
        (0.0 * multipliers, none), (multipliers, none), (0.0 * multipliers, costates))]  # fmt: skip
    assert rates == pytest.approx([cost, cost + forces, cost + moved], rel=1e-8)
    assert abs(forces) > 1e-3 * abs(cost)


@pytest.mark.parametrize("options", [{"friction": 0.25}, {"footholds": "constraint", "cones": "constraint"}], ids=str)
def test_the_gradient_by_durations_is_that_of_optima_found_again(options, rng):
    problem = uneven(**options)
    T = problem.dynamics.phase_durations
    best = ddp.solve(problem, PRECISE, legged.follow_nominal(problem))
    along = T * rng.normal(size=len(T))

    def cost(e):  # what is left of the violation, times its multipliers, is what it has gained
        solution = ddp.solve(with_durations(problem, T + e * along), PRECISE, best)
        return solution.cost + sum((part.multipliers * part.violation).sum() for part in solution.residuals())

    found = fourth(cost, 1e-3)
    assert gradient(best) @ along == pytest.approx(found, rel=1e-6)


def test_the_hessian_and_the_prediction_are_those_of_optima_found_again(rng):
    problem = uneven()
    T = problem.dynamics.phase_durations
    best = ddp.solve(problem, PRECISE, legged.follow_nominal(problem))
    known, along = sensitivity(best), T * rng.normal(size=len(T))

    def again(e):
        solution = ddp.solve(with_durations(problem, T + e * along), PRECISE, known.predicted(e * along))
        moved = problem.dynamics.difference(best.X, solution.X)
        return np.concatenate([gradient(solution), solution.U.ravel(), moved.ravel()])

    found = np.split(fourth(again, 1e-4), [len(T), len(T) + best.U.size])
    assert known.hessian @ along == pytest.approx(found[0], abs=5e-5 * np.abs(found[0]).max())
    for predicted, seen in zip((known.dU @ along, known.dX @ along), found[1:], strict=True):
        assert predicted.ravel() == pytest.approx(seen, abs=1e-4 * np.abs(seen).max())


def mass(*knots, distance=0.7, kilograms=1.3):
    """A mass on rails goes from rest to rest, at the least ½ ∫ u², in phases of some knots."""
    model = pin.Model()
    model.appendBodyToJoint(
        model.addJoint(0, pin.JointModelPX(), pin.SE3.Identity(), "x"), pin.Inertia.FromSphere(kilograms, 0.1),
        pin.SE3.Identity(),
    )
    system = PhasedDynamics(Robot(model), 0.05, [Phase((), count) for count in knots])
    end = StateEquality(system, [distance, 0.0])
    return ddp.Problem(system, [ControlCost([0.0], [1.0])], [], [0.0, 0.0], sum(knots), terminal_constraints=[end])


def least_effort(counts, durations, distance=0.7, kilograms=1.3):
    """½ Σ h u² of it in closed form: q_N = Σ_k h_k u_k (t_N - t_k) / m, v_N = Σ_k h_k u_k / m."""
    h = np.repeat(np.asarray(durations) / counts, counts)
    C = h / kilograms * np.stack([np.cumsum(h[::-1])[::-1], np.ones(len(h))])
    goal = np.array([distance, 0.0])
    return 0.5 * goal @ np.linalg.solve(C / h @ C.T, goal)


def test_a_mass_at_a_price_of_time_takes_the_time_that_calculus_says():
    price = 4.0
    found = solve_durations(mass(40), FreeDurations(upper=10.0, price=price, tolerance=1e-8), PRECISE)
    one = least_effort([40], [1.0])  # in proportion to 1/T³
    assert found.converged
    assert found.durations == pytest.approx([(3.0 * one / price) ** 0.25], rel=1e-7)
    assert found.cost == pytest.approx(one / found.durations[0] ** 3 + price * found.durations[0], rel=1e-9)
    assert found.durations == pytest.approx([(18.0 * 1.3**2 * 0.7**2 / price) ** 0.25], rel=2e-3)  # continuous time


def test_phases_of_different_steps_share_the_time_as_calculus_says():
    counts = [5, 20, 7]
    found = solve_durations(mass(*counts), FreeDurations(total=2.0, lower=0.05, upper=2.0), PRECISE)
    bounds = [(0.05, 2.0)] * 2
    expected = minimize(
        lambda T: least_effort(counts, [*T, 2.0 - sum(T)]), [0.5, 0.9], method="L-BFGS-B", bounds=bounds,
        options={"ftol": 1e-15, "gtol": 1e-9},
    )  # fmt: skip
    assert found.durations.sum() == pytest.approx(2.0, abs=1e-12)
    assert found.cost == pytest.approx(expected.fun, rel=1e-8)
    assert found.durations[:2] == pytest.approx(expected.x, rel=1e-3)
    assert found.gradient == pytest.approx(found.time_value, rel=1e-4)


def test_a_bound_holds_and_the_gradient_says_what_it_costs():
    problem = mass(10, 10)
    free = FreeDurations(lower=[0.9, 0.05], upper=[0.9, 5.0], price=4.0)
    found = solve_durations(problem, free, PRECISE)
    best = minimize_scalar(lambda T: least_effort([10, 10], [0.9, T]) + 4.0 * T, bounds=(0.05, 5.0), method="bounded")
    assert found.durations[0] == 0.9
    assert found.durations[1] == pytest.approx(best.x, rel=1e-4)
    slope = fourth(lambda e: least_effort([10, 10], [0.9 + e, found.durations[1]]) + 4.0 * e, 1e-3)
    assert found.gradient == pytest.approx([slope, 0.0], abs=1e-6)


def hopper(counts):
    """A body on a leg pushes off and rises as high as it can: its height counts at the end."""
    model = pin.Model()
    body = model.addJoint(0, pin.JointModelTranslation(), pin.SE3.Identity(), "body")
    model.appendBodyToJoint(body, pin.Inertia.FromSphere(2.0, 0.1), pin.SE3.Identity())
    leg = model.addJoint(body, pin.JointModelPZ(), pin.SE3.Identity(), "leg")
    model.appendBodyToJoint(leg, pin.Inertia.FromSphere(0.2, 0.05), pin.SE3.Identity())
    model.addFrame(pin.Frame("foot", leg, 0, pin.SE3.Identity(), pin.OP_FRAME))
    robot, foot = Robot(model), Contact("foot", target=np.zeros(3))
    phases = [Phase(foot, counts[0], held=True, name="push"), Phase((), counts[1], name="rise")]
    system = PhasedDynamics(robot, 0.02, phases, actuation=np.eye(4)[:, 3:])
    x0 = np.array([0.0, 0.0, 0.5, -0.5, 0.0, 0.0, 0.0, 0.0])
    return ddp.Problem(
        dynamics=system, running=[ControlCost([0.0], [1e-3])], terminal=[CenterOfMass(robot, [0.0, 0.0, 3.0], 50.0)],
        x0=x0, horizon=sum(counts),
    )  # fmt: skip


def kneeling(counts, most):
    """A body on a leg with hip and knee pushes off, by so much force, and flies."""
    model = pin.Model()
    index = model.addJoint(0, pin.JointModelTranslation(), pin.SE3.Identity(), "body")
    model.appendBodyToJoint(index, pin.Inertia.FromSphere(2.0, 0.1), pin.SE3.Identity())
    down = pin.SE3(np.eye(3), np.array([0.0, 0.0, -0.25]))
    for name, place in (("hip", pin.SE3.Identity()), ("knee", down)):
        index = model.addJoint(index, pin.JointModelRY(), place, name)
        model.appendBodyToJoint(index, pin.Inertia.FromSphere(0.2, 0.05), pin.SE3.Identity())
    model.addFrame(pin.Frame("foot", index, 0, down, pin.OP_FRAME))
    robot, foot = Robot(model), Contact("foot", target=np.zeros(3))
    phases = [Phase(foot, counts[0], held=True), Phase((), counts[1])]
    system = PhasedDynamics(robot, 0.02, phases, actuation=np.eye(5)[:, 3:])
    x0 = np.concatenate([[0.0, 0.0, 0.5 * np.cos(0.8), 0.8, -1.6], np.zeros(5)])
    pushing = ForceConstraint(system, [foot], [[0.0, 0.0, 1.0]], [-np.inf], [most], phase=0)
    posture = StateCost(system, x0, np.repeat([0.0, 0.1, 0.01], [3, 2, 5]))
    return ddp.Problem(
        dynamics=system, running=[ControlCost(np.zeros(2), np.full(2, 1e-3)), posture],
        terminal=[CenterOfMass(robot, [0.0, 0.0, 0.8], 50.0), StateCost(system, x0, np.repeat([0.0, 0.1], 5))],
        x0=x0, horizon=sum(counts), constraints_at={range(counts[0]): [pushing]},
    )  # fmt: skip


def test_a_hopper_flies_until_gravity_has_taken_its_speed():
    problem = hopper((15, 20))
    push = problem.dynamics.phase_durations[0]
    free = FreeDurations(lower=[push, 0.05], upper=[push, 3.0], price=0.0)
    found = solve_durations(problem, free, PRECISE)
    robot, X = problem.dynamics.robot, found.solution.X
    pin.centerOfMass(robot.model, data := robot.model.createData(), X[15, :4], X[15, 4:])
    assert found.converged
    assert data.vcom[0][2] > 1.0
    apex = data.vcom[0][2] / 9.81  # v_z N h - g h² N (N + 1) / 2 is most at (N + 1) h = v_z / g
    assert found.durations[1] * 21 / 20 == pytest.approx(apex, rel=1e-6)
    assert np.abs(found.solution.U[15:]).max() < 1e-6 * np.abs(found.solution.U).max()  # for no effort in the air


def test_limits_of_forces_have_their_part_in_both_derivatives():
    problem = kneeling((6, 8), most=40.0)
    solver = ddp.DDP(1e-14, constraints=ddp.AugmentedLagrangian(tolerance=1e-10, stationarity=1e-10))
    T = problem.dynamics.phase_durations
    best = ddp.solve(problem, solver)
    assert (best.multipliers > 0.0).sum() >= 3
    along, known = T * [1.0, -0.7], sensitivity(best)

    def again(e):
        solution = ddp.solve(with_durations(problem, T + e * along), solver, known.predicted(e * along))
        forces = sum((part.multipliers * part.violation).sum() for part in solution.residuals())
        return np.array([solution.cost + forces, *gradient(solution)])

    cost, *slopes = fourth(again, 1e-3)
    assert gradient(best) @ along == pytest.approx(cost, rel=1e-7)
    assert known.hessian @ along == pytest.approx(slopes, rel=1e-6)


def test_a_quadruped_finds_the_durations_of_its_jump_in_few_solves():
    problem = gaits.jump("solo12", dt=0.02)
    found = solve_durations(problem, guess=legged.follow_nominal(problem))
    T = problem.dynamics.phase_durations
    assert found.converged
    assert len(found.history) <= 8
    assert found.cost < 0.9 * found.history[0].cost
    assert found.durations.sum() == pytest.approx(T.sum(), abs=1e-12)
    inner = (found.durations > 0.5 * T + 1e-9) & (found.durations < 2.0 * T - 1e-9)
    assert found.gradient[inner] == pytest.approx(found.time_value, rel=1e-4)
    dear = found.gradient > 1.001 * found.time_value
    assert found.durations[dear] == pytest.approx(0.5 * T[dear], rel=1e-9)
    robot, system, X = problem.dynamics.robot, found.solution.problem.dynamics, found.solution.X
    data, first, N = robot.model.createData(), system.phases[0].knots, system.phases[1].knots
    landed = pin.centerOfMass(robot.model, data, X[first + N, : robot.nq])[2]
    left = pin.centerOfMass(robot.model, data, X[first, : robot.nq], X[first, robot.nq :])[2]
    speed, h = data.vcom[0][2], found.durations[1] / N
    assert landed - left == pytest.approx(speed * N * h - 0.5 * 9.81 * h**2 * N * (N + 1), abs=1e-3)  # a free fall
    assert found.solution.stationarity() < 1e-5


def test_a_gait_rebuilt_with_durations_found_costs_the_same():
    options = {"robot": "solo12", "dt": 0.02}
    problem = gaits.trot(**options)
    found = solve_durations(problem, free_durations(problem, "0.8,1.3", None), guess=legged.follow_nominal(problem))
    again = gaits.trot(**options, phase_durations=found.durations)
    assert again.cost(found.solution.X, found.solution.U) == pytest.approx(found.solution.cost, rel=1e-12)
    ends = np.concatenate([[0.0], np.cumsum(again.dynamics.durations)])
    for k in (0, 3, again.horizon - 1):
        assert np.array_equal(found.solution.policy(ends[k] + 1e-3, found.solution.X[k]), found.solution.U[k])


def test_a_search_that_is_cut_short_says_so():
    problem = mass(10, 10)
    found = solve_durations(problem, FreeDurations(price=4.0, max_iterations=1), throw=False)
    assert not found.converged
    assert "the limit of 1 solves" in found.status
    with pytest.raises(ddp.SolveError, match="the limit of 1 solves"):
        solve_durations(problem, FreeDurations(price=4.0, max_iterations=1))
    with pytest.raises(ddp.SolveError, match="the motion is not converged after 1 iterations"):
        solve_durations(problem, solver=ddp.DDP(max_iterations=1))


@pytest.mark.parametrize(("free", "words"), [
    ({"lower": 2.0, "upper": 1.0}, r"lower: expected at most upper, got 2 > 1 s at \[0\]"),
    ({"lower": [1.0]}, r"lower: expected shape \(2,\)"),
    ({"upper": -1.0}, "upper: expected more than 0 s, got -1"),
    ({"total": 9.0}, "total: expected from 0.5 to 2 s, what bounds allow, got 9"),
    ({"total": -1.0}, "total: "),
    ({"price": -1.0}, "price: "),
    ({"tolerance": 0.0}, "tolerance: "),
    ({"max_iterations": 0}, "max_iterations: "),
])  # fmt: skip
def test_bad_input_is_named(free, words):
    with pytest.raises(ProblemError, match=words):
        solve_durations(mass(10, 10), FreeDurations(**free))


def test_other_bad_input_is_named():
    problem = mass(10, 10)
    with pytest.raises(ProblemError, match=r"durations\[1\]: expected more than 0 s, got 0"):
        with_durations(problem, [1.0, 0.0])
    with pytest.raises(ProblemError, match=r"durations: expected shape \(2,\)"):
        with_durations(problem, [1.0])
    with pytest.raises(ProblemError, match=r"durations: expected shape \(1,\)"):
        gaits.stand("solo12", phase_durations=[1.0, 2.0])
    with pytest.raises(ProblemError, match="dt of a phase: "):
        Phase((), 1, dt=0.0)
    with pytest.raises(ProblemError, match="durations: expected free or two numbers"):
        free_durations(problem, "short", None)
    unphased = ddp.Problem(FunctionDynamics(lambda x, u: x + u, 1, 1), [], [], [0.0], 3)
    with pytest.raises(ProblemError, match="problem: expected one with phases"):
        solve_durations(unphased)
    with pytest.raises(ProblemError, match="dynamics: FunctionDynamics does not know"):
        unphased.by_durations(np.zeros((4, 1)), np.zeros((3, 1)), np.zeros(0))
    with pytest.raises(ProblemError, match="horizon: expected 20, the phases' knots, got 3"):
        solve_durations(ddp.Problem(problem.dynamics, [], [], [0.0, 0.0], 3))
    feet = hopper((2, 2)).dynamics.phases[0].contacts
    two = PhasedDynamics(hopper((2, 2)).dynamics.robot, 0.02, [Phase(feet, 1, held=True, dt=h) for h in (0.01, 0.03)])
    with pytest.raises(ProblemError, match="phase: expected which one holds foot, got None"):
        friction_cone(two, feet, 0.5, 1.0)
    with pytest.raises(ProblemError, match=r"phase: expected one of the system's 0 .+ 1, got 2"):
        friction_cone(two, feet, 0.5, 1.0, phase=2)



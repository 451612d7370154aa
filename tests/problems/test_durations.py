"""Durations of phases: the exact derivative of an optimum by them, and the best ones."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from scipy.optimize import minimize, minimize_scalar
from uneven_steps import fourth, uneven

import ddp
import viz
from ddp.errors import ProblemError
from dynamics import Contact, FunctionDynamics, Phase, PhasedDynamics, RobotDynamics, load
from dynamics.robots.model import Robot
from problems import gaits, legged
from problems.constraints import StateEquality
from problems.contact_costs import ForceConstraint, friction_cone
from problems.costs import CenterOfMass, ControlCost, StateCost
from problems.durations import FreeDurations, TimedSolution, free_durations, solve_durations
from problems.sensitivity import by_durations, gradient, sensitivity, with_durations

pytestmark = pytest.mark.usefixtures("quiet")

PRECISE = ddp.DDP(tolerance=1e-13)


@pytest.mark.parametrize(
    "options", [{"friction": 0.25, "grip": 1.0}, {"footholds": "constraint", "cones": "constraint"}], ids=str
)
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
    problem, to_rounding = uneven(), ddp.DDP(tolerance=1e-18)  # whose gradients are then divided by a short step
    T = problem.dynamics.phase_durations
    best = ddp.solve(problem, to_rounding, legged.follow_nominal(problem))
    known, along = sensitivity(best), T * rng.normal(size=len(T))

    def again(e):
        solution = ddp.solve(with_durations(problem, T + e * along), to_rounding, known.predicted(e * along))
        moved = problem.dynamics.difference(best.X, solution.X)
        return np.concatenate([gradient(solution), solution.U.ravel(), moved.ravel()])

    found = np.split(fourth(again, 4e-4), [len(T), len(T) + best.U.size])
    assert known.hessian @ along == pytest.approx(found[0], abs=5e-5 * np.abs(found[0]).max())
    for predicted, seen in zip((known.dU @ along, known.dX @ along), found[1:], strict=True):
        assert predicted.ravel() == pytest.approx(seen, abs=1e-4 * np.abs(seen).max())


def test_copies_with_other_durations_know_how_long_their_steps_last():
    problem = uneven()
    before = problem.structure.halves[0]
    longer = with_durations(problem, 1.25 * problem.dynamics.phase_durations)
    np.testing.assert_allclose(longer.structure.halves[0], 1.25 * before, rtol=1e-12)
    assert (before == 0.0).any()


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


@pytest.mark.parametrize(("norm", "price"), [("L1", 3.0), ("L2", 5.0)])
def test_prices_of_violations_last_as_long_as_knots(norm, price):
    slow = ddp.Soft(ddp.Inequality(lambda x, u: x[1], upper=1.2), price, norm)
    problem = replace(mass(6, 7), constraints=[slow])
    T = problem.dynamics.phase_durations
    best = ddp.solve(problem, PRECISE)
    assert (best.residuals()[0].violation > 0.1).sum() >= 4
    along, known = T * [1.0, -0.7], sensitivity(best)

    def again(e):
        solution = ddp.solve(with_durations(problem, T + e * along), PRECISE, known.predicted(e * along))
        return np.concatenate([[solution.cost], gradient(solution), solution.multipliers])

    cost, *slopes = np.split(fourth(again, 1e-4), [1, 3])
    assert gradient(best) @ along == pytest.approx(cost[0], rel=1e-8)
    for own, seen in zip((known.hessian @ along, known.multipliers @ along), slopes, strict=True):
        assert own == pytest.approx(seen, abs=1e-6 * np.abs(seen).max())


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
        assert np.array_equal(found.solution.feedback("solver")(ends[k], found.solution.X[k]), found.solution.U[k])


def test_a_search_that_is_cut_short_says_so():
    problem = mass(10, 10)
    found = solve_durations(problem, FreeDurations(price=4.0, max_iterations=1), throw=False)
    assert not found.converged
    assert "the limit of 1 solves" in found.status
    with pytest.raises(ddp.SolveError, match="the limit of 1 solves"):
        solve_durations(problem, FreeDurations(price=4.0, max_iterations=1))
    with pytest.raises(ddp.SolveError, match="the motion is not converged after 1 iterations"):
        solve_durations(problem, solver=ddp.DDP(max_iterations=1))


def test_solves_of_a_search_are_drawn_as_iterations_are(tmp_path):
    found, other = (solve_durations(mass(10, knots), FreeDurations(price=4.0)) for knots in (10, 20))
    viz.plot_convergence({"short": found, "long": other}, tmp_path / "both.svg")
    drawn = (tmp_path / "both.svg").read_text()
    assert f"<!-- short ({len(found.history)} solves) -->" in drawn
    assert all(f"<!-- {label} -->" in drawn for label in ("solve (filled: converged)", "change of durations"))
    viz.plot_convergence(replace(found, history=found.history[:1]), tmp_path / "one.svg")
    viz.plot_convergence(found.solution, tmp_path / "own.svg")
    labels = [re.search(r"<!-- (\d+ iterations) -->", (tmp_path / name).read_text()) for name in ("one.svg", "own.svg")]
    assert labels[0][1] == labels[1][1] == f"{found.solution.iterations} iterations"
    with pytest.raises(ProblemError, match=r"solutions: expected either .* got both; \['a'\]\.solution is"):
        viz.plot_convergence({"a": found, "b": found.solution}, tmp_path / "mixed.svg")


def test_a_timed_solution_is_drawn_as_its_motion(tmp_path):
    problem = hopper((2, 2))
    solution = ddp.solve(problem, ddp.DDP(max_iterations=1), throw=False)
    timed = TimedSolution(solution, problem.dynamics.phase_durations, np.zeros(1), 0.0, 1.0, True, "converged", 0.0, ())
    for draw in (viz.plot_solution, viz.plot_schedule, viz.plot_forces):
        both = [draw(each, tmp_path / f"{k}.png").read_bytes() for k, each in enumerate((timed, solution))]
        assert both[0] == both[1]
    pages = [viz.save_html(tmp_path / f"{k}.html", each).where for k, each in enumerate((timed, solution))]
    assert len({Path(page).stat().st_size for page in pages}) == 1


@pytest.mark.parametrize(("free", "words"), [
    ({"lower": 2.0, "upper": 1.0}, r"lower: expected at most upper, got 2.0 > 1.0 s at \[0\]"),
    ({"lower": [1.0]}, r"lower: expected shape \(2,\)"),
    ({"upper": -1.0}, "upper: expected more than 0 s, got -1"),
    ({"total": 9.0}, "total: expected from 0.5 to 2 s, what bounds allow, got 9"),
    ({"total": -1.0}, "total: "),
    ({"price": -1.0}, r"price: expected no negative weight, got -1\.0$"),
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
        by_durations(unphased, np.zeros((4, 1)), np.zeros((3, 1)), np.zeros(0))
    with pytest.raises(ProblemError, match="horizon: expected 20, the phases' knots, got 3"):
        solve_durations(ddp.Problem(problem.dynamics, [], [], [0.0, 0.0], 3))
    feet = hopper((2, 2)).dynamics.phases[0].contacts
    two = PhasedDynamics(hopper((2, 2)).dynamics.robot, 0.02, [Phase(feet, 1, held=True, dt=h) for h in (0.01, 0.03)])
    with pytest.raises(ProblemError, match="phase: expected which one holds foot, got None"):
        friction_cone(two, feet, 0.5, 1.0)
    with pytest.raises(ProblemError, match=r"phase: expected one of the system's 0 .+ 1, got 2"):
        friction_cone(two, feet, 0.5, 1.0, phase=2)


def test_durations_too_short_for_limits_are_given_up_soon():
    robot = load("ur5")
    system, rest = RobotDynamics(robot, 0.02), np.concatenate([robot.q0, np.zeros(6)])
    there = StateEquality(system, rest + np.repeat([0.5, 0.0], 6))
    kept = {"terminal_constraints": [there], "control_limits": robot.control_limits.T}
    problem = ddp.Problem(system, [ControlCost(np.zeros(6), np.full(6, 1e-6))], [], rest, 30, **kept)
    timed = solve_durations(problem, FreeDurations(price=1.0))
    shorter = [trial for trial in timed.history if trial.durations[0] < timed.durations[0] - 1e-9]
    assert timed.converged
    assert shorter
    assert not any(trial.converged for trial in shorter)
    assert max(trial.iterations for trial in shorter) <= 80
    assert not ddp.solve(with_durations(timed.solution.problem, 0.99 * timed.durations), throw=False).converged

"""Derivatives of optima by numbers of their problems, beside optima that are found again, and calculus."""

import re
from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest

import ddp
import problems
from ddp.differences import POINTS, WEIGHTS
from ddp.errors import ProblemError
from dynamics import ContinuousDynamics, FunctionDynamics, RobotDynamics, augment, load
from problems import arm, lifted, pendulum, quadrotor, quadruped
from problems.constraints import StateEquality
from problems.costs import ControlCost, FramePosition, StateCost

PRECISE = ddp.DDP(tolerance=1e-14)


def agrees(problem, name, moved, along, step, share=1e-6):
    """Whether states, controls, cost and multipliers change as those of problems that are solved again."""
    best = ddp.solve(problem, PRECISE)
    by = best.sensitivity(name)
    found = []
    for point in POINTS:
        other = {name: moved(point * step * along)}
        again = ddp.solve(problem.varying(other), PRECISE, by.predicted(other))
        assert again.converged
        X = problem.dynamics.difference(best.X, again.X)
        changes = again.U - best.U, [again.cost - best.cost], np.append(again.multipliers - best.multipliers, 0.0)
        found.append([X.ravel(), *map(np.ravel, changes)])
    expected = by.dX @ along, by.dU @ along, by.cost @ along, np.append(by.multipliers @ along, 0.0)
    for parts, own in zip(zip(*found, strict=True), expected, strict=True):
        seen = np.tensordot(WEIGHTS, np.array(parts), axes=1) / step
        assert np.abs(np.ravel(own) - seen).max() < share * max(np.abs(seen).max(), 1e-3)
    return by


@pytest.fixture(scope="module")
def reach():
    return arm.reach("ur5")


@pytest.mark.parametrize("name", [
    "x0", "running[0].weights", "running[1].target_x", "terminal[0].weights", "dynamics.masses"
])  # fmt: skip
def test_an_arm_answers_as_optima_that_are_found_again(reach, name, rng):
    value = reach.number(name)
    along = rng.uniform(-0.3, 0.3, value.size) * (1.0 if name in ("x0", "running[1].target_x") else value.ravel())
    agrees(reach, name, lambda d: value + d.reshape(value.shape), along, 1e-3)


def test_a_pose_moves_along_twists_in_its_own_axes(reach, rng):
    target = reach.terminal[0].target
    by = agrees(reach, "target", lambda d: (target * pin.exp6(d)).homogeneous, rng.normal(size=6), 1e-4)
    assert by.columns == {"target": slice(0, 6)}


def test_a_point_with_as_many_numbers_as_states_is_none():
    model = pin.Model()
    link = model.addJoint(0, pin.JointModelRUBZ(), pin.SE3.Identity(), "joint")
    model.appendBodyToJoint(link, pin.Inertia(1.0, np.array([0.5, 0.0, 0.0]), 0.05 * np.eye(3)), pin.SE3.Identity())
    tip = pin.SE3(np.eye(3), np.array([1.0, 0.0, 0.0]))
    model.addFrame(pin.Frame("tip", link, tip, pin.FrameType.OP_FRAME))
    robot = load(model)
    system, point = RobotDynamics(robot, 0.05), np.array([0.5, 0.8, 0.1])
    aim, x0 = FramePosition(robot, "tip", point, 20.0), np.array([1.0, 0.0, 0.0])
    problem = ddp.Problem(system, [ControlCost(np.zeros(1), 0.05)], [aim], x0, 15)
    assert (system.nx, system.n) == (3, 2)
    agrees(problem, "target_xyz", lambda d: point + d, np.array([0.5, -0.3, 0.2]), 1e-4)


@pytest.mark.parametrize("unit", [1.0, 1e3])
def test_constraints_that_are_met_loosely_hold(unit):
    system = FunctionDynamics(lambda x, u: np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * u[0]]), 2, 1, 1.0)
    costs = [ControlCost(np.zeros(1), 0.1)], [StateCost(system, np.array([1.0, 0.0]), 50.0)]
    slow = ddp.Inequality(lambda x, u: unit * (x[1] - 0.6))
    problem = ddp.Problem(system, *costs, np.zeros(2), 20, constraints=[slow])
    loose = ddp.solve(problem, ddp.DDP(constraints=ddp.AugmentedLagrangian(tolerance=1e-3)))
    assert loose.violation > 1e-5
    own, exact = (solution.sensitivity("x0", "target_x") for solution in (loose, ddp.solve(problem, PRECISE)))
    np.testing.assert_allclose(own.dU, exact.dU, atol=1e-10)


@pytest.mark.parametrize("unit", [1.0, 2.0**-20, 2.0**20])
def test_multipliers_that_are_rounding_hold_nothing(unit):
    system = FunctionDynamics(lambda x, u: np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * u[0]]), 2, 1, 1.0)
    costs = [ControlCost(np.zeros(1), 0.1)], [StateCost(system, np.array([1.0, 0.0]), 50.0)]
    slow = ddp.Inequality(lambda x, u: unit * (x[1] - 0.6))
    best = ddp.solve(ddp.Problem(system, *costs, np.zeros(2), 20, constraints=[slow]), PRECISE)
    room = -unit * (best.X[:, 1] - 0.6)[-len(best.multipliers) :]
    free = room > 0.01 * unit
    assert (best.multipliers > 0.0).any()
    assert free.any()
    noisy = replace(best, multipliers=best.multipliers + np.where(free, 1e-9 / unit, 0.0))
    own, exact = (solution.sensitivity("x0") for solution in (noisy, best))
    np.testing.assert_allclose(own.dU, exact.dU, atol=1e-8)
    assert not own.multipliers[free].any()


def test_several_names_have_their_columns_side_by_side(reach):
    best = ddp.solve(reach)
    both, alone = best.sensitivity("target", "x0"), best.sensitivity("x0")
    np.testing.assert_allclose(both.dU[..., both.columns["x0"]], alone.dU, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(alone.dU[0], best.K[0], rtol=1e-7, atol=1e-9 * np.abs(best.K[0]).max())


@pytest.mark.parametrize("name", ["x0", "terminal[0].target_x", "dynamics.masses"])
def test_a_floating_robot_answers_along_tangents(name, rng):
    problem = quadruped.reorientation()
    d, value = problem.dynamics, problem.number(name)
    plain = name == "dynamics.masses"
    along = 0.3 * value if plain else rng.normal(size=d.n)
    agrees(problem, name, (lambda e: value + e) if plain else (lambda e: d.integrate(value, e)), along, 1e-4)


@pytest.mark.parametrize("name", ["x0", "control_limits", "dynamics.masses"])
def test_controls_at_limits_go_with_them(name):
    problem = replace(pendulum.swing_up(), control_limits=(-3.0, 3.0))
    value = np.array([[-3.0], [3.0]]) if name == "control_limits" else problem.number(name)
    along = np.cos(np.arange(value.size)) * np.abs(value.ravel() + (value.ravel() == 0.0))
    by = agrees(problem, name, lambda d: value + d.reshape(value.shape), along, 1e-4)
    assert (name == "control_limits") == bool(by.dU[np.abs(by.solution.U) >= 3.0 - 1e-12].any())


@pytest.mark.parametrize("name", ["x0", "terminal_constraints[0].target_x", "dynamics.masses"])
def test_an_equality_at_the_end_holds_and_moves(reach, name):
    end = StateEquality(reach.dynamics, 1.1 * ddp.solve(reach).X[-1])
    problem = replace(reach, terminal=[], terminal_constraints=[end])
    value = problem.number(name)
    along = np.cos(np.arange(value.size)) * (0.3 * value if name.endswith("masses") else 1.0)
    by = agrees(problem, name, lambda d: value + d, along, 1e-3)
    if name.startswith("terminal"):  # what a unit of the bound costs
        np.testing.assert_allclose(by.cost, -by.solution.multipliers, rtol=1e-5)


@pytest.mark.parametrize(("norm", "price", "name"), [
    (None, 1.0, "x0"), (None, 1.0, "target"), ("L1", 0.3, "constraints[0].price"), ("L1", 0.3, "x0"), ("L2", 10.0, "x0")
])  # fmt: skip
def test_rows_that_hold_are_paid_for_or_give_way_change_as_they_do(reach, norm, price, name, rng):
    fastest = 0.8 * np.abs(ddp.solve(reach).X).max(axis=0)[6:8]
    limit = ddp.Inequality(lambda x, u: x[6:8] - fastest)
    problem = replace(reach, constraints=[limit if norm is None else ddp.Soft(limit, price, norm)])
    target, step = reach.terminal[0].target, 1e-5
    if name == "target":
        agrees(problem, name, lambda d: (target * pin.exp6(d)).homogeneous, rng.normal(size=6), step)
    else:
        value = problem.number(name)
        agrees(problem, name, lambda d: value + d.reshape(value.shape), rng.normal(size=max(value.size, 1)), step)


@pytest.mark.parametrize(("number", "gain", "step"), [
    (1e-4, lambda p: 1e-5 / p, 1e-7), (5e-9, lambda p: 5e-10 / p, 5e-12), (6e-17, lambda p: 0.1 * np.exp(p), 1e-3)
], ids=["small", "of a capacitor", "zero but for rounding"])  # fmt: skip
def test_numbers_that_are_divided_by_may_be_small(number, gain, step):
    def f(x, u, p):
        return np.array([x[0] + 0.1 * x[1], x[1] + gain(p[0]) * u[0]])

    system = FunctionDynamics(f, 2, 1, 1.0, parameters=np.array([number]))
    costs = [ControlCost(np.zeros(1), 0.1)], [StateCost(system, np.array([1.0, 0.0]), 50.0)]
    problem = ddp.Problem(system, *costs, np.zeros(2), 20)
    agrees(problem, "dynamics.parameters", lambda d: number + d, np.ones(1), step)


def test_numbers_of_costs_on_contact_forces_change_what_they_read():
    problem = problems.ALL["quadruped/stand"]()
    best = ddp.solve(problem)
    name = next(f"during[{k}][{i}].friction" for k, terms in problem.during.items()
                for i, term in enumerate(terms) if type(term).__name__ == "ForceLimits")  # fmt: skip
    friction, h = problem.number(name), 1e-6
    by = best.sensitivity(name)
    more, less = (problem.varying({name: friction + way * h}) for way in (1.0, -1.0))
    seen = (more.total(best.X, best.U) - less.total(best.X, best.U)) / (2.0 * h)
    assert abs(seen) > 1e-6
    np.testing.assert_allclose(by.cost, [seen], rtol=1e-3)  # of its envelope
    h, U = 1e-4, []
    for way in (1.0, -1.0):
        other = problem.varying({name: friction + way * h})
        U.append(ddp.solve(other, PRECISE, best).U)
    slope = (U[0] - U[1]) / (2.0 * h)
    assert np.abs(by.dU[..., 0] - slope).max() < 1e-4 * np.abs(slope).max()


def test_a_linear_quadratic_problem_answers_as_calculus_says(rng):
    A, B = np.eye(3) + 0.1 * rng.normal(size=(3, 3)), rng.normal(size=(3, 2))
    system, N = FunctionDynamics(lambda x, u: A @ x + B @ u, 3, 2, 1.0), 6
    goal, q, r = rng.normal(size=3), rng.uniform(0.5, 2.0, 3), rng.uniform(0.5, 2.0, 2)
    problem = ddp.Problem(system, [StateCost(system, goal, q), ControlCost(np.zeros(2), r)],
                          [StateCost(system, goal, 5.0 * q)], rng.normal(size=3), N)  # fmt: skip
    by = ddp.solve(problem, PRECISE).sensitivity("target_x", "x0")
    G = np.zeros((3 * (N + 1), 2 * N))
    for k in range(N + 1):
        for j in range(k):
            G[3 * k : 3 * k + 3, 2 * j : 2 * j + 2] = np.linalg.matrix_power(A, k - 1 - j) @ B
    Phi = np.vstack([np.linalg.matrix_power(A, k) for k in range(N + 1)])
    W = np.kron(np.diag([1.0] * N + [5.0]), np.diag(q))
    H = G.T @ W @ G + np.kron(np.eye(N), np.diag(r))
    expected = np.linalg.solve(H, G.T @ W @ np.hstack([np.tile(np.eye(3), (N + 1, 1)), -Phi]))
    np.testing.assert_allclose(by.dU.reshape(2 * N, -1), expected, atol=1e-10)


def test_a_weight_of_zero_has_a_derivative_to_one_side(reach):
    up = np.eye(12)[7]
    weights = reach.running[1].weights * (1.0 - up)
    problem = reach.varying({"running[1].weights": weights})
    best = ddp.solve(problem, PRECISE)
    h = 1e-4
    twins = [weights + k * h * up for k in (1.0, 2.0)]
    one, two = (ddp.solve(problem.varying({"running[1].weights": w}), PRECISE, best).U for w in twins)
    seen = (4.0 * one - 3.0 * best.U - two) / (2.0 * h)
    assert np.abs(best.sensitivity("running[1].weights").dU[..., 7] - seen).max() < 1e-3 * np.abs(seen).max()


def test_a_prediction_misses_by_the_square_of_the_change(reach):
    best, target = ddp.solve(reach, PRECISE), reach.terminal[0].target
    by, missed = best.sensitivity("target"), []
    for way in (0.02, 0.01):
        pose = target * pin.exp6(np.array([way, -way, way, 0.0, way, 0.0]))
        guess = by.predicted(target=pose.homogeneous)
        assert not guess.converged
        assert guess.gradient == guess.stationarity() > 1e3 * best.gradient
        again = ddp.solve(guess.problem, PRECISE, guess)
        missed.append(np.abs(again.U - guess.U).max())
    assert 3.5 < missed[0] / missed[1] < 4.5


def test_what_has_no_derivative_is_refused_by_name(reach):
    best = ddp.solve(reach)
    with pytest.raises(ProblemError, match=r"names: the problem has no number 'targets'; .*target"):
        best.sensitivity("targets")
    with pytest.raises(ProblemError, match="names of numbers, such as 'x0', each once"):
        best.sensitivity()
    with pytest.raises(ProblemError, match="has converged"):
        ddp.solve(reach, ddp.DDP(max_iterations=1), throw=False).sensitivity("x0")
    matrix = reach.varying({"running[1].weights": np.diag(reach.running[1].weights)})
    with pytest.raises(ProblemError, match=r"running\[1\].weights: .*symmetric"):
        ddp.solve(matrix).sensitivity("running[1].weights")
    with pytest.raises(ProblemError, match="predicted: expected some of x0, got 'target'"):
        best.sensitivity("x0").predicted(target=reach.terminal[0].target)
    with pytest.raises(ProblemError, match="x0 is given twice"):
        best.sensitivity("x0").predicted({"x0": 0.0 * reach.x0}, x0=reach.x0)


def test_sensitivities_print_the_slopes_of_the_cost_by_name(reach):
    by = ddp.solve(reach).sensitivity("x0", "terminal[0].weights")
    lines = str(by).splitlines()
    assert [line.split(":")[0].strip() for line in lines[1:]] == ["by x0", "by terminal[0].weights"]
    assert len(lines) == 3
    printed = [float(number) for number in re.findall(r"-?\d\S+", lines[2].split(":")[1].replace("]", ""))]
    np.testing.assert_allclose(printed, by.cost[by.columns["terminal[0].weights"]], rtol=1e-5)
    assert len(repr(by)) < 1000


def test_a_constraint_that_stands_in_two_lists_moves_by_its_fields_name_alone():
    held = ddp.Inequality(lambda x, u: x[0], upper=0.4)
    system = FunctionDynamics(lambda x, u: x + u, 1, 1)
    costs = [lambda x, u: u @ u + (x[0] - 1.0) ** 2], [lambda x, u: (x[0] - 2.0) ** 2]
    problem = ddp.Problem(system, *costs, [0.0], 5, constraints=[held], terminal_constraints=[held])
    best = ddp.solve(problem, PRECISE)
    with pytest.raises(ProblemError, match=r"names: constraints\[0\]\.upper moves one .* alone, 'upper'"):
        best.sensitivity("constraints[0].upper")
    below, above = (ddp.solve(problem.varying(upper=0.4 + h), PRECISE).cost for h in (-1e-4, 1e-4))
    assert best.sensitivity("upper").cost == pytest.approx((above - below) / 2e-4, rel=1e-6)


def test_planes_whose_states_have_as_many_numbers_as_tangents_are_no_flat_ones():
    flow = lambda x, u, p: np.array([p[0] * u[0], 0.3 * u[0], p[1] * u[1]])  # noqa: E731
    system = ContinuousDynamics(flow, 3, 2, 0.1, state=[ddp.SE2()], parameters=[1.0, 0.8])

    def missed(x, u):
        e = system.space.minus(x, np.array([1.0, 0.6, -2.0]))
        return 10.0 * (e @ e)

    problem = ddp.Problem(system, [lambda x, u: u @ u], [missed], [0.0, 0.2, 0.5], 8)
    agrees(problem, "dynamics.parameters", lambda d: system.parameters + d, np.array([1.0, -0.5]), 1e-3, 1e-5)


def test_states_of_lifted_terms_are_of_the_system_that_they_were_made_for(rng):
    plain = quadrotor.loop(horizon=12, waypoints={})
    aside = plain.dynamics.integrate(plain.x0, 0.1 * rng.normal(size=12))
    plain = plain.varying({"terminal[0].target_x": aside})
    hover = plain.dynamics.nominal_control(plain.x0)
    smooth = ControlCost(np.zeros(4), np.full(4, 0.01))
    problem = lifted(plain, augment.rates(plain.dynamics), hover, running=[smooth])
    moved = lambda d: plain.dynamics.integrate(aside, d)  # noqa: E731
    agrees(problem, "terminal[0].target_x", moved, rng.normal(size=12), 1e-3, 1e-5)


def test_paths_of_floating_robots_have_derivatives_and_neighbours(rng):
    plain = quadrotor.loop(horizon=3, waypoints={})
    path = np.array([plain.dynamics.integrate(plain.x0, 0.1 * rng.normal(size=12)) for _ in range(3)])
    problem = replace(plain, during={range(3): [StateCost(plain.dynamics, path, 1.0)]})
    place = "during[range(0, 3)][0].target_x"
    moved = lambda d: plain.dynamics.integrate(path, d.reshape(3, 12))  # noqa: E731
    agrees(problem, place, moved, rng.normal(size=36), 1e-3, 1e-5)
    over = {place: np.array([moved(0.1 * rng.normal(size=36)) for _ in range(3)])}
    costs = [ddp.solve_many(problem, over, executor=1, start=start).cost for start in (None, "neighbours")]
    assert np.allclose(*costs, rtol=1e-9)


def test_a_coordinate_that_is_called_a_target_is_no_state():
    class Reaches:
        def __init__(self, target_x):
            self.target_x = target_x

        def value(self, x, u):
            return 5.0 * (x[4] - self.target_x) ** 2

    spaces = [ddp.SO3(), ddp.Euclidean(3)]
    system = ContinuousDynamics(lambda x, u: np.concatenate([x[4:], u]), 7, 3, 0.1, state=spaces)
    x0 = [0.0, 0.0, 0.0, 1.0, 0.1, 0.0, 0.0]
    problem = ddp.Problem(system, [lambda x, u: u @ u], [Reaches(0.5)], x0, 6)
    agrees(problem, "target_x", lambda d: 0.5 + d[0], np.ones(1), 1e-3)


def test_bodies_without_mass_have_none_that_could_vary():
    model = pin.Model()
    slide = model.addJoint(0, pin.JointModelPX(), pin.SE3.Identity(), "slide")  # as of a second joint of one body
    turn = model.addJoint(slide, pin.JointModelRY(), pin.SE3.Identity(), "turn")
    model.appendBodyToJoint(turn, pin.Inertia(1.5, np.array([0.0, 0.0, -0.4]), 0.05 * np.eye(3)), pin.SE3.Identity())
    system = RobotDynamics(load(model), 0.05)
    goal = StateCost(system, np.array([0.3, 0.2, 0.0, 0.0]), 20.0)
    problem = ddp.Problem(system, [ControlCost(np.zeros(2), 0.05)], [goal], np.zeros(4), 10)
    along = np.array([0.0, 1.0])
    by = agrees(problem, "masses", lambda d: system.masses + d, along, 1e-3)
    assert by.cost[0] == 0.0 != by.cost[1]


@pytest.mark.parametrize("unit", [1.0, 2.0**-20])
@pytest.mark.parametrize("horizon", [2, 4])
def test_controls_that_cost_nothing_follow_what_constraints_ask_of_them(horizon, unit):
    def step(x, u):
        return np.array([x[0] + 0.1 * x[1] + 0.02 * np.sin(x[1]), x[1] + 0.1 * np.tanh(u[0] / unit)])

    running = [lambda x, u: 0.01 * (x[1] - 0.05) ** 2] if horizon > 2 else []
    end = ddp.Equality(lambda x, u: x - np.array([0.005, 0.01]))
    problem = ddp.Problem(FunctionDynamics(step, 2, 1), running, [], np.zeros(2), horizon, terminal_constraints=[end])
    agrees(problem, "x0", lambda d: d, np.array([1.0, -0.5]), 1e-4)


def on_a_line(running, constraints, bend=0.0):
    """A mass on a line, pushed by two forces, that comes to rest elsewhere."""
    def step(x, u):
        return np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * (u[0] + 2.0 * u[1] + bend * np.sin(u[1]))])

    end = ddp.Equality(lambda x, u: x - np.array([0.05, 0.02]))
    held = {"constraints": constraints, "terminal_constraints": [end]}
    return ddp.Problem(FunctionDynamics(step, 2, 2), running, [], np.zeros(2), 6, **held)


@pytest.mark.parametrize(("running", "constraints"), [
    ([lambda x, u: u[0] ** 2 + 0.5 * u[1] ** 2], [ddp.Inequality(lambda x, u: u[0] + u[1], upper=0.3)]),
    ([lambda x, u: u[0] ** 2 + 50.0 * u[1] ** 2 - 22.0 * x[1] ** 2], []),
], ids=["rows of controls", "concave"])  # fmt: skip
def test_what_constraints_ask_of_controls_is_shared_among_them(running, constraints):
    problem = on_a_line(running, constraints, 0.1)
    assert (ddp.solve(problem).multipliers[:-2] > 0.0).any() == bool(constraints)
    agrees(problem, "x0", lambda d: d, np.array([1.0, -0.5]), 1e-4)


@pytest.mark.parametrize("unit", [1.0, 2.0**-20])
def test_controls_that_no_cost_is_curved_along_do_what_constraints_ask_for(unit):
    system = FunctionDynamics(lambda x, u: np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * u[0] / unit]), 2, 1)
    end = ddp.Equality(lambda x, u: x - np.array([0.05, 0.02]))
    by = ddp.solve(ddp.Problem(system, [], [], np.zeros(2), 2, terminal_constraints=[end])).sensitivity("x0")
    # x2 = x + 0.2 v + 0.01 u0 and v2 = v + 0.1 (u0 + u1) stay
    np.testing.assert_allclose(by.dU[:, 0] / unit, [[-100.0, -20.0], [100.0, 10.0]], rtol=1e-9)
    np.testing.assert_allclose(by.dX[-1], np.zeros((2, 2)), atol=1e-9)

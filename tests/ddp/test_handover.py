"""Rollouts hand over to full-space steps where these serve better, and take over again where they do not."""

import itertools
from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest
from test_full_space import noisy, point_to_point

import ddp
import problems
from ddp.interior import handover
from ddp.systems.structure import is_underactuated
from dynamics import ContinuousDynamics, FunctionDynamics, RobotDynamics, load
from problems import arm, cartpole, pendulum, quadruped
from problems.constraints import VelocityLimits
from problems.costs import ControlCost, StateCost
from tests.benchmarks.optimisers import limited


def rates(x, u):
    """Rates of a cart with two poles, hanging at 0: of 0.5 and 0.8 m, with 0.1 kg at their tips."""
    _, a, b, v, wa, wb = x
    sa, ca, sb, cb = np.sin(a), np.cos(a), np.sin(b), np.cos(b)
    push = u[0] + 0.1 * (sa * (0.5 * wa * wa + 9.81 * ca) + sb * (0.8 * wb * wb + 9.81 * cb))
    acceleration = push / (1.0 + 0.1 * (sa * sa + sb * sb))
    turns = [-(acceleration * c + 9.81 * s) / length for s, c, length in ((sa, ca, 0.5), (sb, cb, 0.8))]
    return np.array([v, wa, wb, acceleration, *turns])


def two_poles(horizon, control_weight):
    """Both poles swing up at once."""
    system, upright = ContinuousDynamics(rates, 6, 1, 0.02), np.array([0.0, np.pi, np.pi, 0.0, 0.0, 0.0])
    effort, away = ControlCost(np.zeros(1), np.array([control_weight])), StateCost(system, upright, np.full(6, 0.01))
    end = StateCost(system, upright, np.full(6, 300.0))
    return ddp.Problem(system, [effort, away], [end], np.zeros(6), horizon, guess=np.zeros((horizon, 1)))


def test_full_space_steps_are_for_underactuated_motions_whose_rollouts_are_short():
    problem = two_poles(100, 0.01)
    swing = ddp.solve(problem)
    first = [record.full_space for record in swing.history].index(True)
    assert 2 <= first <= 5
    assert all(record.step <= 0.125 for record in swing.history[first - 2 : first])
    assert all(record.full_space for record in swing.history[first:])
    assert f"{swing.iterations - first} by full-space steps" in swing.explain().course
    assert swing.iterations <= 0.5 * ddp.solve(problem, ddp.DDP(step="rollout")).iterations


def promise(problem, guess=None):
    """Share of what the first rollout promises that it brings, and what it promises of the guess's cost."""
    U = problem.guess if guess is None else guess
    before = problem.total(problem.dynamics.rollout(problem.x0, U), U)
    record = ddp.solve(problem, ddp.DDP(step="rollout", max_iterations=1), guess=guess, throw=False).history[0]
    return (before - record.cost) / record.expected, record.expected / before


@pytest.mark.parametrize(("name", "most"), [("cartpole/swing-up", 15), ("acrobot/swing-up", 12)])
def test_full_space_steps_begin_at_the_guess_where_states_are_few_and_the_first_rollout_leads_astray(name, most):
    problem = problems.find(name)()
    kept, large = promise(problem)
    assert abs(kept - 1.0) > 0.02
    assert large > 0.01
    swing = ddp.solve(problem)
    assert all(record.full_space for record in swing.history)
    assert swing.iterations <= most  # 16 and 15 where they wait for a short rollout


def test_full_space_steps_begin_at_the_guess_where_few_states_are_driven():
    problem = pendulum.swing_up()
    swing, rolled = ddp.solve(problem), ddp.solve(problem, ddp.DDP(step="rollout"))
    assert all(record.full_space for record in swing.history)
    assert swing.iterations <= 9
    assert swing.kind == "minimum"
    assert swing.gap() == 0.0
    assert swing.cost == pytest.approx(rolled.cost, rel=1e-12)


def test_few_states_that_are_driven_roll_out_under_policies_and_where_asked_to():
    problem = pendulum.swing_up()
    earlier, moved = ddp.solve(problem), problem.starting_at(problem.x0 + 0.1)
    for again in (
        ddp.solve(moved, guess=earlier), ddp.solve(problem, ddp.DDP(reuse=2)),
        ddp.solve(problem, ddp.DDP(max_iterations=30)),
    ):  # fmt: skip
        assert again.converged
        assert not any(record.full_space for record in again.history)


def test_rollouts_go_on_where_states_are_few_and_the_first_one_keeps_its_promise():
    plain = cartpole.swing_up()
    effort, end = ControlCost(np.zeros(1), np.array([0.01])), StateCost(plain.dynamics, np.zeros(4), np.full(4, 10.0))
    crane = ddp.Problem(plain.dynamics, [effort], [end], np.array([0.3, 0.1, 0.0, 0.0]), 60, guess=np.zeros((60, 1)))
    assert promise(crane)[0] == pytest.approx(1.0, abs=0.02)
    assert not any(record.full_space for record in ddp.solve(crane).history)
    assert all(record.full_space for record in ddp.solve(crane, ddp.DDP(step="linear")).history)


def test_minima_may_cost_more_than_states_that_were_given_and_do_not_follow_from_controls():
    problem = cartpole.swing_up()
    X, U = np.linspace(problem.x0, [0.0, np.pi, 0.0, 0.0], problem.horizon + 1), np.zeros((problem.horizon, 1))
    swing = ddp.solve(problem, guess=(X, U))
    assert problem.total(X, U) < 0.5 * swing.cost
    assert swing.iterations <= 15  # 36 where rollouts go on from the guess, 32 where they come first
    assert swing.cost == pytest.approx(ddp.solve(problem).cost, rel=1e-9)


def test_constants_added_to_costs_do_not_change_where_full_space_steps_begin():
    plain = cartpole.swing_up()
    dear = replace(plain, running=[*plain.running, lambda x, u: 1e7])
    noise = 1e3 * np.random.default_rng(0).normal(size=(plain.horizon, 1))
    for guess in (None, noise):
        swing, other = ddp.solve(plain, guess=guess), ddp.solve(dear, guess=guess)
        assert all(record.full_space for record in other.history)
        assert other.iterations <= swing.iterations + 1
        np.testing.assert_allclose(other.U, swing.U, atol=1e-6)


def test_rollouts_come_first_where_the_policy_of_a_solution_is_followed():
    problem = cartpole.swing_up()
    moved = replace(problem, x0=np.array([0.05, 0.1, 0.0, 0.0]))
    again = ddp.solve(moved, guess=ddp.solve(problem))
    assert not any(record.full_space for record in again.history)
    assert again.iterations <= 8


def test_driven_motions_keep_to_rollouts():
    driven = ddp.solve(arm.out_of_reach())
    assert max(record.step for record in driven.history[4:7]) <= 0.125
    assert not any(record.full_space for record in driven.history)


@pytest.mark.parametrize("name", ["reorientation", "two poles"])
def test_full_space_steps_that_would_be_as_short_are_not_tried(name):
    problem = quadruped.reorientation() if name == "reorientation" else two_poles(80, 1e-3)
    solution, rolled = ddp.solve(problem), ddp.solve(problem, ddp.DDP(step="rollout"))
    steps = [record.step for record in solution.history]
    assert any(first <= 0.125 and second <= 0.125 for first, second in itertools.pairwise(steps))
    assert not any(record.full_space for record in solution.history)
    assert solution.iterations == rolled.iterations
    np.testing.assert_array_equal(solution.U, rolled.U)


def test_linear_steps_are_not_asked_for_while_gaps_bend_them(monkeypatch):
    asked, further = list[float](), handover._goes_further

    def told(descent):
        asked.append(descent.iterate.gap)
        return further(descent)

    monkeypatch.setattr(handover, "_goes_further", told)
    solution = ddp.solve(quadruped.reorientation(angle=np.pi / 3.0))
    assert [(record.step <= 0.125, record.gap > 0.1) for record in solution.history[:2]] == 2 * [(True, True)]
    assert not asked


def test_rollouts_go_on_where_full_space_steps_struggle():
    problem = cartpole.swing_up(pole_mass=3.0)
    solution, rolled = ddp.solve(problem), ddp.solve(problem, ddp.DDP(step="rollout"))
    tried = [record.full_space for record in solution.history]
    assert any(tried)
    assert not tried[-1]
    assert solution.iterations <= rolled.iterations
    assert solution.cost == pytest.approx(rolled.cost, rel=1e-9)
    np.testing.assert_allclose(solution.U, rolled.U, atol=1e-6 * np.abs(rolled.U).max())


def test_states_follow_from_controls_where_iterations_are_few():
    solution = ddp.solve(cartpole.swing_up(), ddp.DDP(max_iterations=30), throw=False)
    assert not any(record.full_space for record in solution.history)
    assert solution.gap() == 0.0


def test_states_follow_from_controls_where_the_limit_ends_full_space_steps():
    solution = ddp.solve(cartpole.swing_up(pole_mass=2.0), ddp.DDP(max_iterations=41), throw=False)
    assert any(record.full_space for record in solution.history)
    assert solution.gap() == solution.history[-1].gap == 0.0
    assert solution.cost == solution.history[-1].cost == min(r.cost for r in solution.history if not r.full_space)
    assert solution.status.ending is ddp.Ending.ITERATIONS


@pytest.mark.parametrize("limit", [1, 3, 5])
def test_a_solve_that_ends_before_full_space_steps_leaves_the_motion_that_rollouts_led_to(limit):
    plain = arm.reach("ur5")
    slow = VelocityLimits(plain.dynamics.robot, np.ones(6))
    problem = replace(plain, control_limits=(-60.0, 60.0), constraints=[slow])
    solution = ddp.solve(problem, ddp.DDP(max_iterations=limit), throw=False)
    assert not any(record.full_space for record in solution.history)
    assert solution.gap() == 0.0
    assert solution.cost == pytest.approx(solution.history[-1].cost, rel=1e-12)
    assert "states do not follow" not in solution.status


@pytest.mark.parametrize(("build", "limits"), [(limited.rail, (30, 31)), (limited.boxed_reach, (1, 3, 9))])
def test_what_a_limit_of_iterations_leaves_is_the_motion_that_the_last_record_tells_of(build, limits):
    """Where it cuts Newton's steps on the active set, 31, and rollouts that went back to the guess, 1 and 3, too."""
    problem = build()
    for limit in limits:
        solution = ddp.solve(problem, ddp.DDP(max_iterations=limit), throw=False)
        last = solution.history[-1]
        assert solution.status.ending is ddp.Ending.ITERATIONS
        assert solution.cost == last.cost == pytest.approx(problem.cost(solution.X, solution.U), rel=1e-12)
        assert last.violation == pytest.approx(problem.violation(solution.X, solution.U), rel=1e-9)
        assert last.gap == pytest.approx(solution.gap(), abs=1e-12)
        assert last.gap <= 1e-5  # off limits of controls it was up to .03


@pytest.mark.parametrize("name", ["cartpole/swing-up", "acrobot/swing-up"])
def test_full_space_steps_that_nothing_can_bind_end_at_rounding(name, rng):
    problem = problems.find(name)()
    X0 = problem.x0 + 0.02 * rng.normal(size=(4, 4))
    batch = ddp.Batch(problem, 4)
    batch.solve({"x0": X0})
    for i in range(4):
        solution = ddp.solve(problem.starting_at(X0[i]))
        assert solution.history[-1].full_space
        assert solution.stationarity() <= 1e-10 * max(1.0, solution.cost)  # 1e-12 with a last step, 1e-7 without
        np.testing.assert_allclose(batch.X[i], solution.X, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(batch.K[i], solution.K, rtol=0.0, atol=1e-10 * np.abs(solution.K).max())


@pytest.mark.parametrize("step", ["auto", "linear"])
@pytest.mark.parametrize("name", ["cartpole/swing-up", "pendulum/swing-up"])
def test_motions_of_loose_tolerances_follow_from_their_controls(name, step):
    problem = problems.find(name)()
    still = np.zeros((problem.horizon, 1))
    begun = problem.cost(problem.dynamics.rollout(problem.x0, still), still)
    solver = ddp.DDP(tolerance=1.0, step=step)
    solution = ddp.solve(problem, solver)
    assert solution.gap() == 0.0
    assert solution.cost < begun
    assert solution.kind == "minimum"
    if step == "auto":
        batch = ddp.Batch(problem, 1, solver)
        batch.solve({"x0": problem.x0[None]})
        rolls = not is_underactuated(problem.dynamics)  # in batches
        alike = ddp.solve(problem, replace(solver, step="rollout")) if rolls else solution
        np.testing.assert_allclose(batch.X[0], alike.X, rtol=1e-10, atol=1e-10)


class Mine(ddp.Backtracking):
    """The default's search by another name."""


@pytest.mark.parametrize(("search", "hands_over"), [(Mine(), True), (Mine(share=0.2), False)])
def test_a_search_with_the_defaults_numbers_hands_over_as_the_default_does(search, hands_over):
    solution = ddp.solve(cartpole.swing_up(), ddp.DDP(search=search, max_iterations=200), throw=False)
    assert any(record.full_space for record in solution.history) == hands_over


def test_rollouts_that_struggle_with_limits_hand_over(rng):
    problem = point_to_point(0.25, 1e4)
    solution = ddp.solve(problem, guess=noisy(problem, rng, 3.0))
    assert solution.iterations <= 40
    assert {record.contraction for record in solution.history} >= {"multipliers", "none"}
    swung = ddp.solve(replace(pendulum.swing_up(horizon=150), control_limits=(-3.0, 3.0), guess=None))
    assert swung.iterations <= 27
    assert "multipliers" not in {record.contraction for record in swung.history}


@pytest.mark.parametrize("seed", [2, 4])
def test_full_space_steps_within_limits_do_not_wander_off_a_saddle(seed):
    problem, rng = point_to_point(0.5, 1e4), np.random.default_rng(seed)
    for _ in range(10):  # up to 70 and 139 where Gauss-Newton's steps may open gaps as far as at first
        assert ddp.solve(problem, guess=noisy(problem, rng, 5.0)).iterations <= 40


def test_short_rollouts_within_limits_go_on_where_a_full_one_does_not_go_far_astray():
    problem = problems.find("car/parking")()
    guess = noisy(problem, np.random.default_rng(1005), 0.1)
    solution, rolled = ddp.solve(problem, guess=guess), ddp.solve(problem, ddp.DDP(step="rollout"), guess=guess)
    assert min(record.step for record in solution.history) <= 0.125
    assert not any(record.full_space for record in solution.history)
    assert solution.iterations <= rolled.iterations  # 119 where the first short step hands over


def test_short_rollouts_within_limits_go_on_where_linear_steps_would_be_as_short():
    problem = problems.find("soft/serial")()
    guess = noisy(problem, np.random.default_rng(1002), 1.0)
    by_default, rolled = ddp.solve(problem, guess=guess), ddp.solve(problem, ddp.DDP(step="rollout"), guess=guess)
    assert by_default.iterations <= 1.1 * rolled.iterations
    assert {record.contraction for record in by_default.history} >= {"policy", "none"}
    assert not any(record.full_space for record in by_default.history)
    assert by_default.cost == pytest.approx(rolled.cost, rel=1e-7)


def test_full_space_steps_that_stay_short_give_back_to_rollouts():
    problem = replace(problems.find("acrobot/swing-up")(), control_limits=(-10.0, 10.0), guess=None)
    guess = noisy(problem, np.random.default_rng(5), 1.0)
    by_default, rolled = ddp.solve(problem, guess=guess), ddp.solve(problem, ddp.DDP(step="rollout"), guess=guess)
    tried = [record.full_space for record in by_default.history]
    assert any(tried)
    assert not tried[-1]
    assert by_default.iterations <= 1.1 * rolled.iterations
    assert by_default.cost == pytest.approx(rolled.cost, rel=1e-7)


def hanging(rods, limit, horizon):
    """Rods of 0.5 m and 0.5 kg, driven at every joint, swing up with little torque."""
    model, parent, end = pin.Model(), 0, 0.0
    for rod in range(rods):
        place = pin.SE3(np.eye(3), np.array([0.0, 0.0, end]))
        parent, end = model.addJoint(parent, pin.JointModelRX(), place, f"joint{rod}"), -0.5
        inertia = pin.Inertia(0.5, np.array([0.0, 0.0, -0.25]), 0.125 / 12.0 * np.diag([1.0, 1.0, 0.01]))
        model.appendBodyToJoint(parent, inertia, pin.SE3.Identity())
    system, up, rest = RobotDynamics(load(model), 0.02), np.zeros(2 * rods), np.zeros(rods)
    up[0] = np.pi
    running = [ControlCost(rest, np.full(rods, 0.01)), StateCost(system, up, np.repeat([0.1, 0.01], rods))]
    costs = running, [StateCost(system, up, np.full(2 * rods, 100.0))]
    guess, limits = np.zeros((horizon, rods)), (-limit * np.ones(rods), limit * np.ones(rods))
    return ddp.Problem(system, *costs, np.zeros(2 * rods), horizon, control_limits=limits, guess=guess)


@pytest.mark.parametrize(("rods", "limit"), [(3, 2.0), (4, 4.0)])
def test_full_space_steps_of_driven_arms_save_iterations_of_rollouts(rods, limit):
    problem = hanging(rods, limit, 75)
    by_default, rolled = ddp.solve(problem), ddp.solve(problem, ddp.DDP(step="rollout"))
    assert by_default.cost == pytest.approx(rolled.cost, rel=1e-6)
    assert by_default.iterations < rolled.iterations  # 115 and 63, not 89 and 54, where mu rises after full steps


def test_linear_steps_within_limits_do_not_end_while_regularisation_is_small():
    solution = ddp.solve(hanging(4, 2.0, 50), ddp.DDP(step="linear", max_iterations=400))
    steps = [record.step for record in solution.history]
    assert any(first == second == 0.0 for first, second in itertools.pairwise(steps))  # they ended at the second one
    assert solution.stationarity() < 1e-6


def test_linear_steps_within_limits_take_shares_of_the_exact_hessian_where_gauss_newtons_alone_would_be_many():
    solution = ddp.solve(hanging(2, 1.5, 100), ddp.DDP(step="linear"))
    shares = [record.blend for record in solution.history]
    assert set(shares[:40]) <= {0.0, 1.0}
    assert any(0.0 < share < 1.0 for share in shares[40:])
    assert solution.iterations <= 120  # 152 by Gauss-Newton's alone
    assert solution.cost == pytest.approx(0.8226416, rel=1e-6)


@pytest.mark.parametrize(("limit", "horizon", "most"), [(0.5, 50, 100), (1.0, 75, 180), (6.0, 100, 120)])
def test_linear_steps_within_limits_do_not_stay_short(limit, horizon, most):
    solution = ddp.solve(hanging(4, limit, horizon), ddp.DDP(step="linear", max_iterations=400))
    assert solution.iterations <= most  # not in 400 where mu rose after no step alone, or gaps never could be larger
    assert solution.kind == "minimum"


@pytest.mark.parametrize(("rods", "limit", "horizon"), [(4, 2.0, 50), (4, 2.0, 75)])
def test_rollouts_go_back_where_it_costs_more_to_close_what_full_space_steps_leave_open(rods, limit, horizon):
    problem = hanging(rods, limit, horizon)
    by_default, rolled = ddp.solve(problem), ddp.solve(problem, ddp.DDP(step="rollout"))
    full_space = [record.full_space for record in by_default.history]
    again = len(full_space) - full_space[::-1].index(True)
    assert again < len(full_space)
    costs = [record.cost for record in by_default.history]
    higher = [k for k in range(again, len(costs)) if costs[k] > costs[full_space.index(True) - 1]]
    assert len(higher) == 1  # they ended at 156.9 in place of 6.143, at 2.915 in place of 1.552
    assert by_default.cost == pytest.approx(rolled.cost, rel=1e-6)
    assert by_default.iterations <= 1.15 * rolled.iterations


@pytest.mark.parametrize("limits", [None, (-2.0, 2.0)])
def test_problems_that_begin_elsewhere_share_what_memory_of_full_space_steps_is_laid_out_for(limits):
    problem = replace(cartpole.swing_up(), control_limits=limits)
    first, second = (problem.starting_at(np.full(4, start)) for start in (0.01, 0.02))
    assert first.rows is second.rows


@pytest.mark.parametrize(("steepness", "to", "most"), [(2.0, 0.2, 7), (4.0, 0.2, 9), (8.0, 0.2, 10), (8.0, 0.5, 6)])
def test_steps_from_given_states_do_not_go_to_and_fro_where_curvature_jumps(steepness, to, most):
    class Effort:
        def value(self, x, u):
            return 0.01 * u @ u + 0.001 * x @ x

    class There:
        def value(self, x, u):
            return 10.0 * np.log(np.cosh(steepness * np.array([x[0] - 1.0, x[1]]))).sum()

    system = ContinuousDynamics(lambda x, u: np.array([x[1], u[0]]), 2, 1, 0.1, integrator="euler")
    free = ddp.Problem(system, [Effort()], [There()], np.zeros(2), 20)
    never_binds = ddp.Inequality(lambda x, u: np.array([x[0] - 5.0, u[0] - 50.0]))
    way = np.linspace(np.zeros(2), [to, 0.0], 21), np.zeros((20, 1))
    solution = ddp.solve(replace(free, constraints=[never_binds]), guess=way)
    assert solution.iterations <= most  # 9, 18, 39 and 9 by whole steps
    assert solution.cost == pytest.approx(ddp.solve(free).cost, rel=1e-9)


@pytest.mark.parametrize(("turn", "horizon"), [(1.0, 60), (-1.0, 30)])
@pytest.mark.parametrize("given", [False, True])
def test_states_that_are_imposed_lead_to_no_more_than_the_motion_of_their_controls_costs(turn, horizon, given):
    system = RobotDynamics(load("ur10"), 0.01)
    limits, rest = 0.25 * system.robot.model.effortLimit, np.zeros(6)  # too little to hold the arm
    start, goal = np.r_[system.robot.q0, rest], np.r_[system.robot.q0 + turn, rest]
    costs = [ControlCost(rest, np.full(6, 1e-4))], [StateCost(system, goal, np.full(12, 100.0))]
    problem = ddp.Problem(system, *costs, start, horizon, control_limits=(-limits, limits))
    U = np.tile(np.clip(system.nominal_control(start), -limits, limits), (horizon, 1))
    falling = problem.cost(system.rollout(start, U), U)
    guess = (np.tile(start, (horizon + 1, 1)), U) if given else U
    assert ddp.solve(problem, guess=guess, throw=False).cost < 0.1 * falling
    for most in (3, 10, 20, 40):
        cut = ddp.solve(problem, ddp.DDP(max_iterations=most), guess, throw=False)
        assert (cut.history[-1].cost, cut.history[-1].gap) == (cut.cost, pytest.approx(cut.gap(), abs=1e-9))
        assert cut.cost <= falling


def test_what_rollouts_without_constraints_met_far_away_is_no_measure_of_steps_from_the_guess():
    """Without the bound on the time T more of it is worth ever less: rollouts lead to -8e10 s, and go back.

    From rest to rest 1 m away with the price 1 + u²/10 of a second T + 1.2 / T³ is least at T⁴ = 3.6.
    """
    N = 40

    def step(x, u):
        return x + x[2] / N * np.array([x[1], u[0], 0.0])

    problem = ddp.Problem(
        FunctionDynamics(step, 3, 1, dt=1.0 / N), [lambda x, u: x[2] * (1.0 + 0.1 * u[0] ** 2)], [], [0.0, 0.0, 2.0], N,
        terminal_constraints=[ddp.Equality(lambda x, u: x[:2] - np.array([1.0, 0.0]))],
        constraints=[ddp.Inequality(lambda x, u: x[2], lower=0.1)],
    )  # fmt: skip
    free = problems.free_start(problem, np.eye(3)[:, 2:])
    alone, solution = ddp.solve(free, ddp.DDP(step="linear")), ddp.solve(free)
    assert solution.X[-1, 2] == pytest.approx(3.6**0.25, abs=5e-4)
    assert solution.iterations - alone.iterations == sum(not record.full_space for record in solution.history)


@pytest.mark.parametrize("bend", [0.0, 1e-3])
def test_linear_steps_are_rollouts(bend):
    """A rollout of what is known to be linear is the full-space step, and costs less."""
    dynamics = FunctionDynamics(lambda x, u: x + 0.1 * np.array([x[1], u[0] - bend * x[0] ** 2]), 2, 1)
    assert dynamics.linear == (bend == 0.0)
    costs = [ControlCost(np.zeros(1), np.ones(1))], [StateCost(dynamics, np.ones(2), np.full(2, 100.0))]
    solution = ddp.solve(ddp.Problem(dynamics, *costs, np.zeros(2), 20))
    assert solution.converged
    assert {record.full_space for record in solution.history} == {bend > 0.0}

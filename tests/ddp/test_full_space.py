"""Full-space steps: counts of iterations on problems of many kinds, ends that are met, what is refused."""

import itertools
from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest
from constrained_systems import UR5_TO, noisy, on_a_rail, point_to_point
from test_units_of_gaps import cart

import ddp
from ddp import options
from ddp.solver import AROUND
from dynamics import FunctionDynamics, RobotDynamics, frame_placement, load
from problems import arm, cartpole, gaits, pendulum, quadrotor
from problems.constraints import FramePositionEquality, JointLimits, StateEquality, TorqueLimits
from problems.costs import ControlCost, StateCost
from problems.obstacles import Sphere, SphereClearance
from problems.systems import rocket
from tests.benchmarks.optimisers import limited, published

LINEAR = ddp.DDP(step="linear", max_iterations=100)


def test_swing_ups_take_few_iterations_from_any_start(rng):
    free = ddp.solve(pendulum.swing_up(), LINEAR)
    assert free.iterations <= 9
    assert free.cost == pytest.approx(2.9008067, rel=1e-7)
    assert free.gap() == 0.0
    problem = cartpole.swing_up()
    for solver in (LINEAR, ddp.DDP()):
        for _ in range(11):
            solution = ddp.solve(problem, solver, guess=noisy(problem, rng, 1.0))
            assert solution.iterations <= 20
            assert solution.cost == pytest.approx(0.9204226, rel=1e-7)
            assert solution.kind == "minimum"


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e2, 1e4, 1e6])
def test_costs_of_any_size_meet_equalities_in_few_iterations(scale):
    goal = np.array([1.0, -0.5])
    system = FunctionDynamics(lambda x, u: np.stack([x[0] + 0.3 * x[1], x[1] + 0.3 * u[0] - 0.05 * np.sin(x[0])]), 2, 1)
    problem = ddp.Problem(
        system, [lambda x, u: scale * (0.05 * u @ u + (x - goal) @ (x - goal))], [], np.array([-1.0, 0.0]), 8,
        terminal_constraints=[ddp.Equality(lambda x, u: x + goal)],
    )  # fmt: skip
    solution = ddp.solve(problem, LINEAR)
    assert solution.iterations <= 15
    assert solution.violation < 1e-8
    assert solution.cost == pytest.approx(29.197342542681 * scale, rel=1e-9)


def test_costs_in_tiny_units_take_no_more_iterations():
    for problem in (cartpole.swing_up(), on_a_rail()):
        entries = [entry._replace(weight=2.0**-30 * entry.weight) for entry in problem.objective.entries]
        tiny = problem.twin(objective=problem.objective.with_entries(entries, True))
        plain, other = ddp.solve(problem), ddp.solve(tiny)
        assert other.iterations == plain.iterations
        assert other.cost == pytest.approx(2.0**-30 * plain.cost, rel=1e-9)


@pytest.mark.parametrize("scale", [1e-3, 1e3, 1e6])
def test_costs_in_other_units_lead_to_the_same_motion_between_limits(scale):
    plain = on_a_rail()
    problem = replace(plain, running=[replace(term, weights=scale * term.weights) for term in plain.running])
    for solver in (ddp.DDP(step="linear"), ddp.DDP()):
        solution = ddp.solve(problem, solver)
        assert solution.converged
        assert solution.cost == pytest.approx(1.15055576 * scale, rel=1e-7)


@pytest.mark.parametrize("moved", [0.0, 1e-9, 1e-6])
def test_rounding_is_no_work_where_a_motion_begins_at_its_goal(moved):
    plain, upright = pendulum.swing_up(), np.array([np.pi, 0.0])
    end = [ddp.Equality(lambda x, u: x - upright)]
    problem = replace(plain, x0=np.array([np.pi + moved, 0.0]), terminal=[], terminal_constraints=end, guess=None)
    rolled = ddp.solve(problem, ddp.DDP(step="rollout"))
    for solver in (LINEAR, ddp.DDP()):
        solution = ddp.solve(problem, solver)
        assert solution.iterations <= 6
        assert solution.violation < 1e-8
        assert solution.cost == pytest.approx(rolled.cost, rel=1e-5, abs=1e-28)


def test_motions_on_manifolds_end_where_rollouts_do():
    problem = quadrotor.loop()
    linear = ddp.solve(problem, LINEAR)
    assert linear.iterations <= ddp.solve(problem).iterations
    rolled = ddp.solve(problem, guess=linear.U)
    assert linear.cost == pytest.approx(rolled.cost, rel=1e-10)
    np.testing.assert_allclose(linear.U, rolled.U, atol=1e-6 * np.abs(rolled.U).max())
    np.testing.assert_allclose(linear.K, rolled.K, atol=1e-5 * np.abs(rolled.K).max())


@pytest.mark.parametrize("share", [0.5, 0.25])
@pytest.mark.parametrize("weight", [1e2, 1e4])
def test_stiff_valleys_between_limits_are_gone_through(rng, share, weight):
    problem = point_to_point(share, weight)
    for _ in range(3):
        solution = ddp.solve(problem, LINEAR, guess=noisy(problem, rng, 3.0))
        assert solution.iterations <= 40
        assert (np.abs(solution.U) <= problem.upper).all()
        assert solution.stationarity() < 1e-9
        held = (problem.lower == solution.U) | (problem.upper == solution.U)
        assert held.any()
        assert (solution.K[held] == 0.0).all()
        assert (solution.K[~held] != 0.0).any(axis=1).all()


def test_a_quadrotor_between_tight_bounds_arrives_in_about_the_iterations_that_it_takes_without():
    system = quadrotor.loop().dynamics
    x0 = np.concatenate([system.robot.neutral(), np.zeros(6)])
    goal, hover = x0.copy(), system.nominal_control(x0)
    goal[:3] = [2.0, 1.0, 1.0]
    running = [ControlCost(hover, np.full(4, 0.1)), StateCost(system, goal, np.repeat([0.1, 0.01], 6))]
    end = StateCost(system, goal, np.repeat([100.0, 10.0], [3, 9]))
    flight = ddp.Problem(system, running, [end], x0, 50, guess=np.tile(hover, (50, 1)))
    free, held = ddp.solve(flight), ddp.solve(replace(flight, control_limits=(np.zeros(4), 1.5 * hover)))
    assert (held.problem.upper == held.U).mean() > 0.2
    assert held.iterations <= 1.5 * free.iterations
    assert held.cost == pytest.approx(27.252028, rel=1e-6)
    assert held.stationarity() < 1e-6


def test_regularisation_falls_after_full_steps_though_those_without_it_fail():
    """Regularisation rose wherever a step without it had failed, and steps with it were full, until none was left."""
    solution = ddp.solve(cart(1.0, control_limits=(-6.0, 6.0)), replace(LINEAR, max_iterations=150))
    assert solution.cost == pytest.approx(30.790728, rel=1e-7)
    steps = [(record.regularization, record.step) for record in solution.history if record.regularization > 0.0]
    assert any(later < mu for (mu, step), (later, _) in itertools.pairwise(steps) if step == 1.0)
    assert all(later > mu for (mu, step), (later, _) in itertools.pairwise(steps) if step == 0.0)


@pytest.mark.parametrize("start", [[0.98, 1.02, 1.08, 1.08, 1.1], [0.978, 1.021, 1.084, 1.078, 1.104]])
def test_regularisation_does_not_stay_where_constraints_shorten_steps(start):
    """Where regularisation stays, so do steps of an eighth: neither landing is found in 300 iterations."""
    problem = rocket.landing()
    solution = ddp.solve(replace(problem, x0=problem.x0 * start), LINEAR)
    assert solution.kind == "minimum"
    assert solution.iterations <= 50


def test_limits_cost_no_iteration_where_nothing_reaches_them():
    plain = arm.reach("ur5")
    free, wide = ddp.solve(plain), ddp.solve(replace(plain, control_limits=(-1e4, 1e4)))
    assert wide.iterations == free.iterations
    np.testing.assert_array_equal(wide.U, free.U)
    np.testing.assert_array_equal(wide.K, free.K)


def test_constraints_that_cannot_be_met_are_named_and_confirmed():
    problem = on_a_rail(control_limits=(-0.5, 0.5))
    for solver in (LINEAR, ddp.DDP()):
        solution = ddp.solve(problem, solver, throw=False)
        assert solution.status.ending is ddp.Ending.INFEASIBLE
        assert "terminal_constraints[0] (Equality)[1] is violated by 2." in solution.status


def test_memory_of_a_solve_whose_constraints_gave_way_serves_the_next_one_as_new_memory_does():
    problem, solver = on_a_rail(), ddp.DDP(max_iterations=150)
    new, beyond = ddp.solve(problem, solver), problem.starting_at(np.array([5.0, 0.0, 0.0, 0.0]))
    assert ddp.solve(beyond, solver, throw=False).status.ending is ddp.Ending.INFEASIBLE
    kept = ddp.solve(problem, solver)
    assert kept.iterations == new.iterations
    for one, other in ((kept.X, new.X), (kept.U, new.U), (kept.K, new.K), (kept.multipliers, new.multipliers)):
        np.testing.assert_array_equal(one, other)


def test_a_car_whose_guess_leads_through_walls_finds_the_door():
    solution = ddp.solve(published.car_escape(), ddp.DDP(tolerance=1e-4, max_iterations=60))
    assert solution.converged, solution.status
    assert solution.cost == pytest.approx(0.331654, rel=1e-4)


def test_first_barriers_whose_steps_lead_astray_are_lowered():
    problem = gaits.walk("go2", cones="constraint", footholds="constraint")
    solution = ddp.solve(problem, LINEAR)
    assert solution.converged
    assert solution.violation <= 1e-8
    assert solution.iterations <= 20  # 38 with the first barrier of all other problems
    assert solution.cost == pytest.approx(0.0661606, rel=1e-5)
    barriers = [record.penalty for record in solution.history if record.penalty > 0.0]
    assert barriers[0] < 1e-2


def test_what_binds_where_rollouts_lead_is_held_without_a_barrier():
    problem = limited.gait("bound")
    solution = ddp.solve(problem)
    assert solution.converged
    assert solution.violation <= 1e-8
    assert solution.iterations <= 15  # 21 with barriers
    assert solution.cost == pytest.approx(ddp.solve(problem, LINEAR).cost, rel=1e-8)
    assert max(record.penalty for record in solution.history) == 0.0


def test_what_binds_at_states_that_are_given_is_held_without_a_barrier():
    problem = gaits.walk("go2", cones="constraint", footholds="constraint")
    solution = ddp.solve(problem)
    assert solution.converged
    assert solution.violation <= 1e-8
    assert solution.iterations <= 10  # 15 with barriers
    assert solution.cost == pytest.approx(0.0661606, rel=1e-5)
    assert max(record.penalty for record in solution.history) == 0.0


def test_convex_steps_are_taken_where_exact_ones_open_too_much():
    plain = gaits.bound("anymal", cones="constraint")
    problem = replace(plain, constraints=[*plain.constraints, JointLimits(plain.dynamics.robot)])
    solution = ddp.solve(problem)
    assert solution.converged
    assert solution.violation <= 1e-8
    assert solution.iterations <= 13  # 27 with barriers from the guess
    assert solution.cost == pytest.approx(ddp.solve(problem, LINEAR).cost, rel=1e-8)
    assert max(record.penalty for record in solution.history) == 0.0


def test_constraints_that_never_bind_leave_the_iterations_of_gaits():
    free, cones = gaits.trot("a1"), gaits.trot("a1", cones="constraint")
    robot = free.dynamics.robot
    bounded = replace(free, constraints=[JointLimits(robot), TorqueLimits(free.dynamics)])
    alone, *others = (ddp.solve(problem) for problem in (free, cones, bounded))
    assert [other.iterations for other in others] == [alone.iterations] * 2  # 9 and 12 for 5, from the guess at once
    assert [other.cost for other in others] == pytest.approx([alone.cost] * 2, rel=1e-9)


def test_newtons_steps_begin_at_once_from_states_near_a_minimum_at_which_nothing_binds():
    plain = arm.reach()
    problem = replace(plain, constraints=[JointLimits(plain.dynamics.robot)])
    found, x0 = ddp.solve(problem), problem.x0 + np.repeat([0.02, 0.0], 6)
    again = ddp.solve(problem.starting_at(x0), guess=(found.X, found.U))
    assert again.history[0].full_space
    assert again.iterations <= 3  # 4 after a rollout


def test_slacks_do_not_hold_up_steps_past_obstacles(rng):
    problem, taken = arm.obstacles(), []
    for _ in range(6):
        x0 = problem.x0.copy()
        x0[:6] += 0.15 * rng.normal(size=6)
        solution = ddp.solve(problem.starting_at(x0), throw=False)
        assert solution.converged, solution.status
        taken.append(solution.iterations)
    assert np.median(taken) <= 36  # 43 with slacks that follow steps alone


def test_the_last_steps_hold_what_binds(rng):
    problem = on_a_rail()
    solution = ddp.solve(problem, guess=noisy(problem, rng, 1.0))
    assert solution.history[-1].full_space
    assert solution.history[-1].penalty == 0.0  # no barrier


def test_loose_tolerances_save_iterations_but_bend_no_constraint(rng):
    problem, taken = on_a_rail(), []
    guess = noisy(problem, rng, 1.0)
    best = ddp.solve(problem, guess=guess)
    for tolerance in (1e-6, 1e-4, 1e-2):
        solution = ddp.solve(problem, ddp.DDP(tolerance=tolerance), guess)
        taken.append(solution.iterations)
        assert solution.violation <= 1e-8
        assert solution.cost == pytest.approx(best.cost, rel=tolerance)
    assert max(taken) <= best.iterations
    assert taken[1] < best.iterations


def test_rails_limits_and_ends_are_kept_to_rounding(rng):
    problem = on_a_rail()
    for _ in range(3):
        solution = ddp.solve(problem, LINEAR, guess=noisy(problem, rng, 1.0))
        assert solution.iterations <= 40
        assert solution.cost == pytest.approx(1.150556, rel=1e-6)
        assert solution.violation < 1e-12
        assert solution.stationarity() < 1e-11
        assert solution.gradient < 1e-11
        assert solution.gap() == 0.0


def test_an_arm_that_has_to_end_at_a_point_ends_there_in_the_best_basin():
    plain = arm.reach("ur5")
    goal = plain.dynamics.robot.model.effortLimit * 0.5
    point = np.array([0.35, 0.45, 0.35])
    problem = replace(
        plain, terminal=[], control_limits=(-goal, goal),
        terminal_constraints=[
            FramePositionEquality(plain.dynamics.robot, "tool0", point), ddp.Equality(lambda x, u: x[6:]),
        ],
    )  # fmt: skip
    solution = ddp.solve(problem, LINEAR)
    assert solution.violation < 1e-10
    assert solution.iterations <= 30
    assert solution.stationarity() < 1e-8
    assert solution.gradient < 1e-9


def test_a_kind_of_step_that_is_none_is_refused():
    with pytest.raises(ddp.ProblemError, match="step: expected one of 'rollout', 'linear', 'auto', got 'long'"):
        ddp.DDP(step="long")


def boxed(robot, rng, share):
    """An arm that has to be at rest with its tool at a random point, with a share of its torques."""
    plain = arm.reach(robot)
    own, target = plain.dynamics.robot, plain.terminal[0]
    there = plain.dynamics.integrate(plain.x0, np.concatenate([rng.uniform(-0.6, 0.6, own.nv), np.zeros(own.nv)]))
    point = frame_placement(own, there[: own.nq], target.frame)[:3, 3]
    effort = np.maximum(share * own.model.effortLimit, 1.3 * np.abs(plain.dynamics.nominal_control(plain.x0)))
    rest = ddp.Equality(lambda x, u: x[own.nq :])
    return replace(
        plain, terminal=[], control_limits=(-effort, effort),
        terminal_constraints=[FramePositionEquality(own, target.frame, point), rest],
    )  # fmt: skip


@pytest.mark.parametrize("robot", ["panda", "kinova"])
def test_noise_on_guesses_changes_neither_minima_nor_iterations_much(rng, robot):
    problem = boxed(robot, rng, 0.3)
    first = ddp.solve(problem)
    assert first.kind == "minimum"
    for _ in range(3):
        solution = ddp.solve(problem, guess=noisy(problem, rng, 3.0))
        assert solution.cost == pytest.approx(first.cost, rel=1e-6)
        assert solution.iterations <= first.iterations + 12
        assert solution.violation < 1e-10


def test_a_constraint_that_does_not_matter_at_the_minimum_costs_no_iteration():
    plain = arm.reach("ur5")
    free = ddp.solve(plain)
    wide = ddp.solve(replace(plain, constraints=[ddp.Inequality(lambda x, u: x[6:], lower=-50.0, upper=50.0)]))
    assert wide.iterations == free.iterations
    assert (wide.multipliers == 0.0).all()
    np.testing.assert_array_equal(wide.U, free.U)


@pytest.mark.parametrize("limit", [1e6, np.finfo(float).max])
def test_swing_ups_within_limits_that_are_far_off_take_the_iterations_of_free_ones(rng, limit):
    plain = cartpole.swing_up()
    held = replace(plain, constraints=[ddp.Inequality(lambda x, u: x, lower=-limit, upper=limit)])
    for _ in range(3):
        guess = 0.5 * rng.normal(size=(plain.horizon, 1))
        free, wide = ddp.solve(plain, guess=guess), ddp.solve(held, guess=guess)
        assert wide.iterations <= free.iterations + 4
        assert wide.cost == pytest.approx(free.cost, rel=1e-9)


def test_ends_are_reached_in_few_iterations_where_motion_without_them_costs_nothing():
    free = point_to_point(0.5, 0.0)
    held = ddp.Equality(lambda x, u: x - np.array([*UR5_TO, *np.zeros(6)]))
    solution = ddp.solve(replace(free, terminal=[], terminal_constraints=[held]))
    assert solution.converged
    assert solution.iterations <= 40
    assert solution.kind == "minimum"
    assert np.abs(solution.X[-1] - [*UR5_TO, *np.zeros(6)]).max() < 1e-8


@pytest.mark.parametrize("solver", [ddp.DDP(), ddp.DDP(step="rollout"), ddp.ILQR()], ids=["auto", "rollout", "iLQR"])
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_arms_do_not_fall_first_where_torques_alone_cost(rng, noise, solver):
    """Without its end the motion of least torque is a fall, from which 250 iterations and more lead back."""
    system, rest = arm.throw("panda").dynamics, arm.throw("panda").x0
    most = 0.7 * system.robot.model.effortLimit
    problem = ddp.Problem(
        system, [ControlCost(np.zeros(7), most**-2.0)], [], rest, 80, control_limits=(-most, most),
        terminal_constraints=[StateEquality(system, rest + np.repeat([0.4, 0.0], 7))],
    )  # fmt: skip
    solution = ddp.solve(problem, solver, noisy(problem, rng, noise * most))
    assert solution.iterations <= 100
    assert solution.cost == pytest.approx(0.0451753, rel=1e-5)


def around_ball():
    """Two links whose tip has to go around a ball: full-space steps end at a minimum of violations."""
    model, joint = pin.Model(), 0
    model.name = "two links"
    rod = pin.Inertia(1.0, np.array([0.0, 0.0, -0.25]), np.diag([1.0, 1.0, 0.048]) / 48.0)
    for name, place in (("shoulder", 0.0), ("elbow", -0.5)):
        joint = model.addJoint(joint, pin.JointModelRX(), pin.SE3(np.eye(3), np.array([0.0, 0.0, place])), name)
        model.appendBodyToJoint(joint, rod, pin.SE3.Identity())
    model.addFrame(pin.Frame("tip", joint, pin.SE3(np.eye(3), np.array([0.0, 0.0, -0.5])), pin.FrameType.OP_FRAME))
    robot = load(model)
    system, x0, end = RobotDynamics(robot, 0.02), np.array([-0.25, 0.41, 0.0, 0.0]), np.array([-1.42, -0.89, 0.0, 0.0])
    slow = StateCost(system, x0, np.array([0.0, 0.0, 0.01, 0.01]))
    clear = SphereClearance(robot, "tip", 0.0, [Sphere([0.0, -0.82, -0.6], 0.2)])
    return ddp.Problem(
        system, [ControlCost(np.zeros(2), np.full(2, 0.01)), slow], [], x0, 80, control_limits=(-20.0, 20.0),
        constraints=[clear], terminal_constraints=[StateEquality(system, end)],
    )  # fmt: skip


def test_rollouts_have_their_turn_before_motions_elsewhere(monkeypatch):
    problem = around_ball()
    assert ddp.solve(problem).iterations <= 60  # by a detour of states
    monkeypatch.setattr("ddp.solver.detour", lambda problem, end, factors: (None, False))
    solution = ddp.solve(problem)
    assert not solution.history[-1].full_space
    assert solution.iterations <= 200


def test_points_that_an_arm_cannot_reach_are_infeasible(rng):
    problem = boxed("ur5", rng, 0.5)
    robot = problem.dynamics.robot
    far = FramePositionEquality(robot, "tool0", [1.5, 0.5, 0.5])
    solution = ddp.solve(replace(problem, terminal_constraints=[far, problem.terminal_constraints[1]]), throw=False)
    assert solution.status.ending is ddp.Ending.INFEASIBLE
    assert "(FramePositionEquality)" in solution.status
    assert solution.iterations <= 300


def test_ends_that_differ_by_less_than_a_millionth_are_both_met_that_nearly():
    system = FunctionDynamics(lambda x, u: np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * u[0]]), 2, 1, dt=0.1)
    ends = [ddp.Equality(lambda x, u, off=off: 1e3 * (x[0] - 1.0) - off) for off in (0.0, 1e-6)]
    effort = ControlCost(np.zeros(1), np.ones(1))
    solution = ddp.solve(ddp.Problem(system, [effort], [], np.zeros(2), 20, terminal_constraints=ends), throw=False)
    assert solution.violation == pytest.approx(5e-7, rel=0.1)


def test_a_way_around_an_obstacle_is_found_from_the_guess_where_none_is_after_rollouts():
    def step(x, u):
        return np.array([x[0] + u[0] * np.cos(x[2]), x[1] + u[0] * np.sin(x[2]), x[2] + u[0] * np.tan(u[1])])

    car = FunctionDynamics(step, 3, 2)
    costs = StateCost(car, np.array([0.378, -0.136, -0.134]), np.array([4.0, 14.0, 3.2])), ControlCost(
        np.zeros(2), np.array([61.0, 98.6])
    )
    clear = ddp.Inequality(lambda x, u: (x[0] + 0.092) ** 2 + (x[1] + 0.54) ** 2, lower=0.166, upper=np.inf)
    problem = ddp.Problem(
        car, costs, [], np.array([-0.087, -0.126, -0.343]), 7,
        control_limits=(np.array([-0.0405, -0.37]), np.array([0.0435, 0.17])), constraints=[clear],
    )  # fmt: skip
    X = np.array([
        [-0.049, -0.148, -0.353], [-0.056, -0.234, -0.429], [-0.007, -0.091, -0.372], [-0.167, -0.035, -0.36],
        [-0.159, -0.193, -0.273], [-0.079, -0.132, -0.312], [-0.116, -0.169, -0.275], [-0.085, -0.183, -0.272],
    ])  # fmt: skip
    U = np.array([
        [0.0124, -0.069], [-0.0355, -0.313], [-0.0351, -0.44], [0.0001, -0.149], [0.0291, 0.061], [0.0365, 0.154],
        [0.0443, 0.156],
    ])  # fmt: skip
    assert ddp.solve(problem, guess=(X, U)).violation <= 1e-8


def pushed_by_jerk(x0, units=1.0):
    """A mass from x0 to 2 m, driven by jerk, with limits of place, speed and acceleration, in units of a metre."""
    system = FunctionDynamics(lambda x, u: x + 0.1 * np.array([x[1], x[2], u[0]]), 3, 1, 0.1)
    goal = StateCost(system, np.array([2.0, 0.0, 0.0]), np.array([10.0, 1.0, 0.1]))
    lower, upper = units * np.array([[-3.0, -0.5, -0.7], [1.2, 0.5, 0.7]])
    within = ddp.Inequality(lambda x, u: units * x, lower=lower, upper=upper)
    costs, limits = [ControlCost(np.zeros(1), 1e-2), goal], (-4.0, 4.0)
    return ddp.Problem(system, costs, [goal], np.array(x0), 25, control_limits=limits, constraints=[within])


@pytest.mark.parametrize("x0", [(0.5, 0.5, 0.0), (0.0, 0.5, 0.0), (1.2, 0.0, 0.0)])
@pytest.mark.parametrize("step", ["auto", "linear"])
def test_motions_begin_at_bounds_that_no_control_changes_at_once(step, x0):
    best = ddp.solve(pushed_by_jerk(x0), ddp.DDP(step=step))
    assert best.iterations <= 20
    assert best.stationarity() < 1e-6
    assert np.max(best.X - np.array([1.2, 0.5, 0.7])) <= 1e-8


def test_bounds_that_are_missed_whatever_controls_do_are_told():
    found = ddp.solve(pushed_by_jerk((0.5, 0.501, 0.0)), throw=False)
    assert found.status.ending is ddp.Ending.INFEASIBLE
    assert found.violation == pytest.approx(1e-3, abs=1e-6)


@pytest.mark.parametrize("units", [1.0, 1e2, 1e4, 1e6])
def test_what_misses_such_bounds_by_more_than_the_tolerance_is_told_in_any_units(units):
    met = ddp.solve(pushed_by_jerk((0.5, 0.5, 0.0), units))
    assert met.iterations <= 20
    missed = ddp.solve(pushed_by_jerk((0.5, 0.5 + 1.5e-8 / units, 0.0), units), throw=False)
    assert not missed.converged
    assert missed.violation == pytest.approx(1.5e-8, abs=1.5e-9)


def test_limits_of_iterations_leave_the_course_as_it_is():
    """Newton's steps on what binds need few iterations, as horizons have."""
    plain = arm.obstacles("ur5", horizon=50, dt=0.02)
    problem = replace(plain, constraints=plain.constraints[:1], terminal_constraints=[])
    free, few = ddp.solve(problem), ddp.solve(problem, ddp.DDP(max_iterations=18))
    assert (few.cost, few.iterations) == (free.cost, free.iterations)


@pytest.mark.parametrize("limit", [7.0, 8.0, 9.0])
def test_steps_within_limits_begin_anew_where_they_end_before_constraints_are_met(limit):
    solution = ddp.solve(limited.acrobot(limit), ddp.DDP(step="linear"), throw=False)
    assert solution.converged
    assert solution.cost < 2.6


@pytest.mark.parametrize("limit", [7.0, 8.0, 12.0])
def test_an_attempt_that_its_limit_has_cut_off_goes_on_from_its_states(limit, monkeypatch):
    monkeypatch.setattr(options, "PATIENCE", 60)
    solution = ddp.solve(limited.acrobot(limit), ddp.DDP(), throw=False)
    assert solution.converged
    assert solution.iterations <= 2 * 60 + AROUND

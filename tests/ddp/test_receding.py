"""Receding horizons: each solve starts from the last, is what a solve from scratch would find, and compiles nothing."""

import dataclasses

import numpy as np
import pytest
from systems import Quadratic, cartpole, pendulum
from thorough import cases

import ddp
from ddp.compiling import kernel
from dynamics import ContinuousDynamics
from dynamics.steps.function_dynamics import FunctionDynamics
from problems import quadrotor
from problems.costs import ControlCost, StateCost
from problems.pendulum import swing_up
from problems.systems.car import dubins


def test_each_solve_finds_what_one_from_scratch_would_find():
    problem = pendulum(horizon=60)
    with ddp.RecedingHorizon(problem) as controller:
        x = problem.x0
        for _ in range(4):
            solution = controller.solve(x)
            x = problem.dynamics.step(x, solution.U[0])
        x = problem.dynamics.integrate(x, np.array([0.02, -0.05]))  # pushed
        pushed = controller.solve(x)
    alone = ddp.solve(problem.starting_at(x), guess=pushed.U)
    assert pushed.converged
    assert np.array_equal(pushed.X[0], x)
    assert pushed.cost == pytest.approx(alone.cost, rel=1e-10)
    assert pushed.stationarity() < 1e-5
    assert pushed.iterations < 10


def test_solving_again_from_where_the_solution_leads_needs_few_iterations():
    problem = cartpole()
    first = ddp.solve(problem)
    with ddp.RecedingHorizon(problem, guess=first) as controller:
        assert controller.solve(problem.x0).iterations == 1
        assert controller.solve(first.X[1]).iterations <= 5
        assert controller.solve(first.X[4], steps=3).iterations <= 5


def test_nothing_is_compiled_again_for_another_state():
    problem = pendulum(horizon=20)
    with ddp.RecedingHorizon(problem) as controller:
        controller.solve(problem.x0)
        before = [len(dispatcher.signatures) for dispatcher in kernel.registered()]
        for k in range(3):
            controller.solve(problem.x0 + 0.01 * k)
        assert [len(dispatcher.signatures) for dispatcher in kernel.registered()] == before


def test_constraints_hold_as_the_horizon_recedes():
    problem = dataclasses.replace(pendulum(), constraints=[ddp.Inequality(lambda x, u: u[0], upper=2.5)])
    with ddp.RecedingHorizon(problem) as controller:
        first = controller.solve(problem.x0)
        later = controller.solve(first.X[1])
    assert first.converged
    assert later.converged
    assert later.violation < 1e-8


def test_steps_by_rollouts_past_obstacles_stay_short_as_the_horizon_recedes(rng):
    system, goal = ContinuousDynamics(dubins, 3, 2, 0.05, "rk4"), np.array([2.2, 1.8, 0.5])
    weights, centers, radii = np.array([1.0, 1.0, 0.01]), np.array([[0.8, 0.7], [1.6, 1.5]]), np.array([0.3, 0.25])
    circles = ddp.Inequality(lambda x, u: radii**2 - ((x[:2] - centers) ** 2).sum(axis=1))
    speeds = ddp.Inequality(lambda x, u: u[0], lower=0.0, upper=1.5)
    problem = ddp.Problem(
        system, [ControlCost(np.zeros(2), 0.1), StateCost(system, goal, weights)],
        [StateCost(system, goal, 10.0 * weights)], np.array([0.0, 0.2, 0.3]), 40, guess=np.full((40, 2), 0.1),
        constraints=[circles, speeds],
    )  # fmt: skip
    x = problem.x0
    with ddp.RecedingHorizon(problem, ddp.DDP(step="rollout", max_iterations=100)) as controller:
        first = controller.solve(x)
        for _ in range(15):
            x = system.integrate(system.step(x, controller.solution.U[0]), 3e-3 * rng.normal(size=3))
            solution = controller.solve(x)
            assert solution.converged
            assert solution.iterations <= first.iterations / 2
    assert (solution.penalties <= 1e4 * first.penalties).all()


def test_rollouts_recover_from_a_step_whose_constraints_could_not_be_met():
    system = FunctionDynamics(lambda x, u: np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * u[0]]), 2, 1, 0.1)
    cost, bounds = StateCost(system, np.zeros(2), np.ones(2)), ((0, -1.0, 1.0), (1, -0.5, 2.0))
    rows = [ddp.Inequality(lambda x, u, i=i: (u[0], x[0])[i], lower=low, upper=high) for i, low, high in bounds]
    problem = ddp.Problem(system, [cost, ControlCost(np.zeros(1), 0.1)], [cost], np.ones(2), 20, constraints=rows)
    with ddp.RecedingHorizon(problem, ddp.DDP(step="rollout", max_iterations=100)) as controller:
        assert controller.solve(np.array([0.9, 0.0])).converged
        assert not controller.solve(np.array([0.0, -2.5])).converged
        for x in (np.array([0.5, 0.0]), np.array([0.4, 0.0])):
            again = controller.solve(x)
            assert again.converged
            assert again.iterations <= 20
            assert again.cost == pytest.approx(ddp.solve(problem.starting_at(x)).cost, rel=1e-9)


def test_a_solve_that_does_not_converge_is_returned_with_its_status():
    with ddp.RecedingHorizon(pendulum(), ddp.DDP(max_iterations=1)) as controller:
        solution = controller.solve(np.zeros(2))
    assert not solution.converged
    assert "limit of 1 iterations" in solution.status


@pytest.mark.parametrize(("arguments", "words"), [
    ({"problem": None}, "problem: expected a Problem"),
    ({"solver": "ddp"}, "solver: expected DDP"),
    ({"guess": np.zeros((3, 1))}, "guess: expected shape"),
    ({"workers": 0}, "workers: "),
])  # fmt: skip
def test_bad_input_is_named(arguments, words):
    with pytest.raises(ddp.ProblemError, match=words):
        ddp.RecedingHorizon(**({"problem": pendulum()} | arguments))


def test_a_latency_beyond_the_horizon_is_doubted(caplog, monkeypatch):
    monkeypatch.setattr("ddp.doubts._told", set())
    problem = pendulum(horizon=60)
    for latency in (0.02, 20):
        ddp.RecedingHorizon(problem, latency=latency).close()
    lasts = 60 * problem.dynamics.dt
    assert caplog.messages == [f"latency: 20 s, the horizon ends after {lasts:g} s: are these milliseconds?"]


def test_a_state_that_is_none_is_named():
    with ddp.RecedingHorizon(pendulum()) as controller, pytest.raises(ddp.ProblemError, match="x0: expected shape"):
        controller.solve(np.zeros(3))


def test_a_controller_goes_on_after_a_solve_that_diverged():
    def explosive(x, u):
        return np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * (u[0] + x[1] ** 3)])

    cost = Quadratic(np.array([1.0, 1.0, 0.1]), np.zeros(3))
    problem = ddp.Problem(FunctionDynamics(explosive, 2, 1, dt=0.1), [cost], [cost], np.zeros(2), 20)
    with ddp.RecedingHorizon(problem) as controller:
        assert controller.solve(np.zeros(2)).converged
        pushed = controller.solve(np.array([0.0, 8.0]))  # where the last policy diverges: its states are imposed
        assert pushed.converged
        assert "those that its policy leads to diverge" in pushed.start
        assert "diverges" in controller.solve(np.array([0.0, 1e200])).status
        assert controller.solve(np.array([0.1, 0.0])).converged


def test_a_solution_whose_end_is_no_orientation_any_more_can_be_shifted():
    problem = quadrotor.loop()
    solution = ddp.solve(problem, throw=False)
    X = solution.X.copy()
    X[-1, problem.dynamics.robot.nq :] = 1e170
    later = dataclasses.replace(solution, X=X).shift()
    assert later.status == "shifted by 1 knots; its last state is repeated where its policy diverges"
    problem.dynamics.check_state("X", later.X)


class Walled(Quadratic):
    """Cost that is no number beyond a wall, which moves."""

    def values(self, X, U):
        return np.where(np.abs(X).max(axis=1) > WALL[0], np.nan, super().values(X, U))


WALL = [np.inf]


@pytest.fixture
def walled():
    WALL[0] = np.inf
    cost = Walled(np.ones(3), np.zeros(3))
    system = FunctionDynamics(lambda x, u: np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * u[0]]), 2, 1, dt=0.1)
    return ddp.Problem(system, [cost], [cost], np.array([1.0, 0.0]), 10)


def test_a_policy_that_leads_to_where_costs_are_not_defined_is_not_followed(walled):
    first = ddp.solve(walled)
    wild = dataclasses.replace(first, K=first.K + 50.0)
    moved, WALL[0] = walled.starting_at(np.array([1.2, 0.3])), 1.5
    solution = ddp.solve(moved, guess=wild)
    assert "the states of the guess" in solution.start
    assert solution.converged
    with pytest.raises(ddp.ProblemError, match="its cost is nan at knot"):
        ddp.solve(moved, guess=wild.U + 50.0)  # controls have no states to fall back on


def test_a_controller_goes_on_where_the_last_solution_has_no_cost_any_more(walled):
    with ddp.RecedingHorizon(walled) as controller:
        policy = controller.plan(0.0, walled.x0)
        controller.solution = dataclasses.replace(controller.solution, K=np.zeros((10, 1, 2)))
        WALL[0] = 0.05  # less than the last solution's speed
        solution = controller.solve(np.array([0.01, 0.0]))
        assert solution.converged
        assert "the guess before these had no cost: running[0] (Walled): its cost is nan at knot" in solution.start
        WALL[0] = 0.01
        with pytest.raises(ddp.ProblemError, match="its cost is nan at knot 0"):
            controller.solve(walled.x0)  # no guess has a cost there
        assert controller.plan(0.1, walled.x0) is policy
        WALL[0] = np.inf
        assert controller.solve(walled.x0).converged


def test_a_controller_goes_on_where_the_end_of_its_policy_diverges(walled):
    first = ddp.solve(walled)
    wild = dataclasses.replace(first, K=np.concatenate([first.K[:-1], np.full((1, 1, 2), 1e120)]))
    later = wild.shift(3)
    assert np.isfinite(later.X).all()
    assert np.array_equal(later.X[-1], later.X[-2])
    assert "its last state is repeated where its policy diverges" in later.status
    with ddp.RecedingHorizon(walled) as controller:
        controller.solution = wild
        assert controller.solve(walled.x0, steps=3).converged


@pytest.mark.filterwarnings("ignore:.* fork:DeprecationWarning")
@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("workers", [1, "threads:2", "processes:2"])
def test_a_closed_controller_says_so(workers):
    controller = ddp.RecedingHorizon(pendulum(horizon=10), workers=workers)
    controller.close()
    controller.close()
    with pytest.raises(ddp.ProblemError, match=r"controller: .* closed"):
        controller.solve(np.zeros(2))


class Phases(FunctionDynamics):
    """Steps that differ from knot to knot."""

    def step_durations(self, count):
        return np.linspace(0.1, 0.2, count)


def test_phases_that_would_start_over_at_every_solve_are_refused():
    one = pendulum()
    phased = dataclasses.replace(one, dynamics=Phases(one.dynamics.f, 2, 1, dt=0.1))
    with pytest.raises(ddp.ProblemError, match="problem: expected one whose horizon can recede"):
        ddp.RecedingHorizon(phased)


def test_numbers_that_vary_on_the_way_are_named_or_in_a_mapping():
    problem = quadrotor.loop(horizon=60)
    with ddp.RecedingHorizon(problem) as controller:
        controller.solve(problem.x0)
        controller.vary({"control_limits": (-4.0, 4.0)}, target_u=np.full(4, 2.0))
        solution = controller.solve(problem.x0)
    wanted = problem.varying(control_limits=(-4.0, 4.0), target_u=np.full(4, 2.0))
    assert solution.cost == pytest.approx(ddp.solve(wanted, guess=solution).cost, rel=1e-9)
    with pytest.raises(ddp.ProblemError, match="no number 'target_v'"):
        controller.vary(target_v=1.0)


def test_a_policy_of_a_later_plan_says_from_when_it_is():
    problem = swing_up(horizon=20)
    controller = ddp.RecedingHorizon(problem, ddp.DDP(max_iterations=2))
    controller.plan(1.0, problem.x0)
    later = controller.plan(1.03, problem.x0)
    with pytest.raises(ddp.ProblemError, match=r"t: expected 1.03 <= t < 1.63 s, the horizon, got 1"):
        later(1.0, problem.x0)


class Mass:
    """A mass on a line, as a step of time."""

    mass = 1.0

    def __call__(self, x, u):
        return np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * u[0] / self.mass])


def moved_mass(mass, target=0.0):
    """A mass, pushed to a target by a force of at least -0.5."""
    system = FunctionDynamics(mass, 2, 1, dt=0.1)
    cost = StateCost(system, [target, 0.0], np.ones(2))
    return ddp.Problem(
        system, [cost, lambda x, u: 0.1 * u[0] ** 2], [cost], np.array([1.0, 0.0]), 20,
        constraints=[ddp.Inequality(lambda x, u: u[0], lower=-0.5)],
    )  # fmt: skip


def test_motions_with_constraints_are_optimal_for_what_the_dynamics_are_now():
    mass = Mass()
    problem = moved_mass(mass)
    with ddp.RecedingHorizon(problem) as controller:
        for mass.mass in (1.0, 0.3, 2.0):
            anew = Mass()
            anew.mass = mass.mass
            best = ddp.solve(moved_mass(anew)).cost
            assert [ddp.solve(problem).cost, controller.solve(problem.x0).cost] == pytest.approx([best, best], rel=1e-9)


def test_memory_of_constrained_steps_serves_other_numbers_to_the_same_bits():
    problem, x = moved_mass(Mass()), np.array([0.9, -0.1])
    numbers = {"running[0].target_x": [0.5, 0.0], "terminal[0].target_x": [0.5, 0.0], "terminal[0].weights": [3.0, 1.0]}
    with ddp.RecedingHorizon(problem) as controller:
        first = controller.solve(problem.x0)
        controller.vary(numbers)
        later = controller.solve(x)
    with ddp.RecedingHorizon(problem.varying(numbers), guess=first.shift()) as other:
        again = other.solve(x)
    assert np.array_equal(later.X, again.X)
    assert np.array_equal(later.K, again.K)
    assert later.iterations == again.iterations


@pytest.mark.parametrize("t", [1.7e308, -1.7e308, 1e17])
def test_times_that_steps_are_lost_in_are_refused(t):
    with ddp.RecedingHorizon(pendulum()) as controller:
        controller.plan(0.0, controller.x0)
        with pytest.raises(ddp.ProblemError, match=r"t: expected a time \[s\] that steps of .* can be added to, got"):
            controller.plan(t, controller.x0)


def test_a_clock_that_is_set_back_far_is_planned_by_at_once():
    problem = swing_up(horizon=20)
    with ddp.RecedingHorizon(problem, ddp.DDP(max_iterations=3)) as controller:
        controller.plan(1e6, problem.x0)
        assert controller.plan(0.0, problem.x0).starts[0] > 1e6


def test_rows_hold_at_the_first_knot_wherever_controls_change_them_from_the_state_that_varies():
    """A bound on power says nothing at rest, and holds for the first control of what moves."""
    system = FunctionDynamics(lambda x, u: np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * u[0]]), 2, 1, 0.1)
    costs = [lambda x, u: 0.01 * u @ u], [lambda x, u: 5e3 * ((x[0] - 3.0) ** 2 + x[1] ** 2)]
    power = ddp.Inequality(lambda x, u: x[1] * u[0], lower=-2.0, upper=2.0)
    rest, moving = np.zeros(2), np.array([0.0, 2.5])
    for away, kept in ((rest, moving), (moving, rest)):
        problem, fresh = (ddp.Problem(system, *costs, x0, 10, constraints=[power]) for x0 in (away, kept))
        limits = -9.0, 9.0
        limited, made = problem.varying(control_limits=limits), dataclasses.replace(fresh, control_limits=limits)
        for one, other in ((problem, fresh), (limited, made)):
            moved = one.varying(x0=kept)
            for twin, own in ((moved, other), (moved.varying(x0=away), one)):
                assert np.array_equal(ddp.solve(twin).U, ddp.solve(own).U)
        with ddp.RecedingHorizon(problem) as controller:
            found = controller.solve(kept)
        assert max(abs(found.X[:-1, 1] * found.U[:, 0])) < 2.0 + 1e-6
        assert ddp.solve_many(problem, {"x0": kept[None]}).solution(0).cost == pytest.approx(ddp.solve(fresh).cost)


def power(x, u):
    return x[1] * u[0]


def microwatts(x, u):
    return 1e6 * x[1] * u[0]


@pytest.mark.filterwarnings("ignore:.* fork:DeprecationWarning")
@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("workers", [1, "threads:2", "processes:2"])
@pytest.mark.parametrize(
    "solver", [ddp.ILQR(max_iterations=2), ddp.DDP(max_iterations=20, constraints=ddp.AugmentedLagrangian())]
)
def test_constraints_in_the_cost_are_weighed_as_in_a_solve_alone_however_many_came_before(solver, workers):
    """Weights of rows follow from where a solve begins, and so differ from one solve to the next."""
    bound = ddp.Inequality(microwatts, lower=-2e6, upper=2e6)
    problem = dataclasses.replace(pendulum(horizon=20), x0=np.array([0.0, 0.5]), constraints=[bound])
    guess = None
    with ddp.RecedingHorizon(problem, solver, workers=workers) as controller:
        for x in ([0.0, 0.5], [0.2, 1.0], [0.5, 1.4], [0.9, 0.3]):
            found = controller.solve(np.array(x))
            alone = ddp.solve(problem.starting_at(x), solver, guess, throw=False)
            np.testing.assert_array_equal(found.U, alone.U)
            np.testing.assert_array_equal(found.K, alone.K)
            guess = found.shift()


@pytest.mark.filterwarnings("ignore:.* fork:DeprecationWarning")
@pytest.mark.usefixtures("forked")
def test_processes_hold_the_first_row_that_another_state_has_controls_change():
    bound = ddp.Inequality(power, lower=-2.0, upper=2.0)
    problem = dataclasses.replace(pendulum(horizon=20), constraints=[bound])
    states, costs = cases([[0.0, 0.0], [0.1, 1.0], [0.3, -1.5]], [[0.0, 0.0], [0.1, 1.0]]), []
    for workers in (1, "processes:2"):
        with ddp.RecedingHorizon(problem, ddp.ILQR(max_iterations=20), workers=workers) as controller:
            costs.append([controller.solve(np.array(x)).cost for x in states])
    assert costs[0] == costs[1]

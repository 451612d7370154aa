"""Constraints whose rows are in units that differ by orders of magnitude, beside the same in units of order one."""

from dataclasses import replace

import numpy as np
import pytest
from thorough import cases

import ddp
from ddp.interior.scaling import factors_of
from dynamics import FunctionDynamics, RobotDynamics, load
from problems import arm
from problems.constraints import JointLimits, StateEquality
from problems.costs import ControlCost, StateCost
from tests.benchmarks.optimisers.cases import CASES
from tests.ddp.constrained_systems import linear_quadratic, on_a_rail

UNITS = np.array([1e-6, 3e4, 1e5, 2e-5])


def in_units(rail, row, derivatives="traced", **changes):
    """A cart-pole on a rail, with rows multiplied by numbers."""
    upright = np.array([0.0, np.pi, 0.0, 0.0])
    return on_a_rail(
        constraints=[
            ddp.Inequality(lambda x, u: rail * x[0], lower=-0.6 * rail, upper=0.6 * rail, derivatives=derivatives)
        ],
        terminal_constraints=[ddp.Equality(lambda x, u: row * (x - upright), derivatives=derivatives)],
        **changes,
    )


def own_units(problem, rail, row):
    """Units (m,) of all rows."""
    return np.concatenate([np.full(problem.multiplier_count - 4, rail), row])


@pytest.fixture(scope="module")
def plain():
    return ddp.solve(in_units(1.0, np.ones(4)))


WAYS = [(1e-6, "traced"), (1.0, "traced"), (1e5, "traced"), (1e-6, "differences"), (1e5, "differences")]


@pytest.mark.parametrize(("rail", "derivatives"), cases(WAYS, [(1e-6, "traced"), (1e5, "differences")]))
def test_rows_in_mixed_units_lead_to_the_same_optimum_as_fast(plain, rail, derivatives):
    problem = in_units(rail, UNITS, derivatives)
    solution = ddp.solve(problem)
    units = own_units(problem, rail, UNITS)
    assert solution.cost == pytest.approx(plain.cost, rel=1e-9)
    assert solution.iterations <= 1.5 * plain.iterations
    assert all(record.full_space for record in solution.history if record.penalty > 0.0)
    assert np.abs(solution.X - plain.X).max() < 1e-6
    size = np.abs(plain.multipliers).max()
    assert np.abs(units * solution.multipliers - plain.multipliers).max() < 1e-6 * size
    assert solution.violation <= 1e-8
    missed = np.abs(problem.rows.beyond(problem.rows.values(solution.X, problem.padded(solution.U))) / units)
    assert missed.max() < 1e-8
    assert solution.stationarity() < 1e-6 * size


def test_records_tell_violations_in_the_units_of_rows():
    problem, seen = in_units(1e5, UNITS), []

    class Watcher:
        def watch(self, record, X, U):
            seen.append((record.violation, problem.violation(X, U)))

    ddp.solve(problem, callback=Watcher())
    told, own = np.array(seen).T
    assert own.max() > 1e3
    assert told == pytest.approx(own, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("unit", [1e-6, 1e-3, 1e5])
@pytest.mark.parametrize(("norm", "power"), [("L1", 1), ("L2", 2)])
def test_soft_rows_cost_as_much_in_any_units(norm, power, unit):
    def bounded(unit):
        rows = ddp.Inequality(lambda x, u: unit * x[0], lower=-0.2 * unit, upper=0.2 * unit)
        problem = in_units(1.0, np.ones(4))
        return ddp.solve(replace(problem, constraints=[ddp.Soft(rows, 0.5 / unit**power, norm)]))

    plain, solution = bounded(1.0), bounded(unit)
    assert np.abs(plain.X[:, 0]).max() > 0.21
    assert solution.cost == pytest.approx(plain.cost, rel=1e-9)
    assert solution.iterations <= 1.5 * plain.iterations


def test_warm_starts_take_as_few_iterations_in_any_units(plain):
    problem = in_units(1e5, UNITS)
    solution = ddp.solve(problem)
    x0 = np.array([0.01, 0.01, 0.0, 0.0])
    for one in (lambda s: s, lambda s: s.shift()):
        first, second = (ddp.solve(s.problem.starting_at(x0), guess=one(s)) for s in (plain, solution))
        assert second.cost == pytest.approx(first.cost, rel=1e-9)
        assert second.iterations <= first.iterations + 1 <= 10


def test_sensitivities_are_the_same_in_any_units(plain):
    by, other = (s.sensitivity("x0") for s in (plain, ddp.solve(in_units(1e5, UNITS))))
    for name in ("dX", "dU", "cost"):
        one = getattr(by, name)
        assert np.abs(getattr(other, name) - one).max() < 1e-6 * np.abs(one).max()


def test_what_cannot_be_met_is_told_in_the_units_of_rows():
    solution = ddp.solve(in_units(1e5, UNITS, control_limits=(-0.5, 0.5)), throw=False)
    assert solution.status.ending is ddp.Ending.INFEASIBLE
    told = float(str(solution.status).partition("is violated by ")[2].split()[0])
    assert told == pytest.approx(solution.violation, rel=1e-2)
    assert told > 1e3


def test_rows_of_about_one_are_not_scaled():
    limits = JointLimits(arm.reach("ur5").dynamics.robot)
    for problem in (CASES["ur5/cluttered-reach"].build(), replace(arm.reach("ur5"), constraints=[limits])):
        X, U = np.tile(problem.x0, (problem.horizon + 1, 1)), np.ones((problem.horizon, 6))
        assert (factors_of(problem, X, U) == 1.0).all()


def test_factors_are_powers_of_two_and_do_not_mistake_units_of_states_for_those_of_rows():
    problem = in_units(1e-6, UNITS)
    rng, N = np.random.default_rng(0), problem.horizon
    X, U = rng.normal(size=(N + 1, 4)), rng.normal(size=(N, 1))
    factors = factors_of(problem, X, U)
    assert (np.exp2(np.round(np.log2(factors))) == factors).all()
    slopes = factors * own_units(problem, 1e-6, UNITS)
    assert ((slopes > 0.1) & (slopes < 10.0)).all()
    assert (factors_of(problem, 1e6 * X, U)[:-4] == 1.0).all()
    far = factors_of(problem, 1e-6 * X, U, np.array([1e-6, 1e-6, 1e-6, 1e-6, 1.0]))
    slopes = 1e-6 * far * own_units(problem, 1e-6, UNITS)
    assert ((slopes > 0.1) & (slopes < 10.0)).all()


def test_tiny_rows_are_held_though_tolerances_would_let_them_go():
    def bounded(unit):
        rows = ddp.Inequality(lambda x, u: unit * (x[0] + x[1] + x[2]), upper=1.5 * unit)
        fields = {"constraints": [rows], "terminal_constraints": [], "control_limits": None}
        return ddp.solve(linear_quadratic(np.random.default_rng(0), **fields))

    plain, tiny = bounded(1.0), bounded(1e-9)
    assert plain.X.sum(axis=1).max() == pytest.approx(1.5, rel=1e-9)
    assert tiny.cost == pytest.approx(plain.cost, rel=1e-9)
    assert tiny.iterations <= 1.5 * plain.iterations


@pytest.mark.parametrize("derivatives", ["traced", "differences"])
def test_rollouts_hold_rows_in_mixed_units_as_well(plain, derivatives):
    solver = ddp.DDP(step="rollout")
    one, other = (ddp.solve(in_units(*units, derivatives), solver) for units in ((1.0, np.ones(4)), (1e5, UNITS)))
    assert other.cost == pytest.approx(one.cost, rel=1e-6)
    assert other.iterations <= 1.5 * one.iterations
    assert other.violation <= 1e-8
    again = ddp.solve(other.problem, solver, guess=other)
    assert again.iterations <= 5
    assert again.cost == pytest.approx(one.cost, rel=1e-6)


@pytest.mark.parametrize("unit", [1e-6, 1e3, 1e7])
@pytest.mark.parametrize("step", ["auto", "linear", "rollout"])
def test_rows_without_slopes_where_a_solve_begins_may_be_in_any_units(step, unit):
    def slow(unit):
        system = FunctionDynamics(lambda x, u: np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * u[0]]), 2, 1)
        squares = ddp.Inequality(lambda x, u: unit * x[1] ** 2, upper=0.3 * unit)
        costs = [lambda x, u: 1e-3 * u @ u], [lambda x, u: 10.0 * (x[0] - 1.0) ** 2 + x[1] ** 2]
        return ddp.solve(ddp.Problem(system, *costs, np.zeros(2), 25, constraints=[squares]), ddp.DDP(step=step))

    plain, solution = slow(1.0), slow(unit)
    assert plain.X[:, 1].max() ** 2 == pytest.approx(0.3, rel=1e-8)
    assert solution.cost == pytest.approx(plain.cost, rel=1e-7)
    assert solution.violation <= 1e-7 * unit
    assert solution.iterations <= 1.5 * plain.iterations


@pytest.mark.parametrize("unit", [1.0, 1e-6])
def test_soft_constraints_whose_penalties_cannot_grow_end_rollouts_in_words(unit):
    rows = ddp.Inequality(lambda x, u: unit * x[0], lower=-0.2 * unit, upper=0.2 * unit)
    problem = replace(in_units(1.0, np.ones(4)), constraints=[ddp.Soft(rows, 0.5 / unit)], terminal_constraints=[])
    free, held = (
        ddp.solve(problem, ddp.DDP(step="rollout", constraints=method), throw=False)
        for method in (None, ddp.AugmentedLagrangian(max_penalty=1e-8))
    )
    assert free.converged
    assert held.status.ending in (ddp.Ending.CONVERGED, ddp.Ending.ROUNDS)


@pytest.mark.parametrize("name", ["alex_psyonic_hands", "tiago_pro"])
def test_light_fingers_of_heavy_robots_reach_a_state_as_arms_do(name):
    """Torques that move an arm would throw its fingers: that is no unit of what fingers do."""
    robot, rng = load(name), np.random.default_rng(1)
    system, n = RobotDynamics(robot, 0.02), robot.nv
    rest = np.concatenate([robot.q0, np.zeros(n)])
    goal = system.integrate(rest, np.concatenate([rng.uniform(-0.5, 0.5, n), np.zeros(n)]))
    goal[: robot.nq] = np.clip(goal[: robot.nq], robot.ranges.lower, robot.ranges.upper)
    weights = np.repeat([[0.1, 0.01], [100.0, 1.0]], n, axis=1)
    during, there = (StateCost(system, goal, own) for own in weights)
    effort = ControlCost(system.nominal_control(rest), np.full(n, 1e-3))
    end = {"terminal_constraints": [StateEquality(system, goal)]}
    solution = ddp.solve(ddp.Problem(system, [effort, during], [there], rest, 50, **end))
    assert solution.iterations <= 20
    assert solution.violation < 1e-8

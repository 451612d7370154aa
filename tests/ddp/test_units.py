"""Systems whose states and controls are in other units: solves take the same way to the same motion."""

from dataclasses import replace

import numpy as np
import pytest
from thorough import cases

import ddp
from ddp import checkpoint
from ddp.constraints import impossible
from ddp.differences import POINTS, WEIGHTS
from dynamics import FunctionDynamics, RobotDynamics, load
from problems.constraints import StateEquality
from problems.costs import ControlCost, StateCost
from tests.benchmarks.tasks_from_rest import tasks
from tests.ddp.systems import cartpole_step, pendulum_step

UPRIGHT = np.array([np.pi, 0.0])


def swing_up(states, controls, **changes):
    """A pendulum's swing-up whose states and controls are so many times what they are in SI units."""
    s, c = np.ones(2) * states, controls

    def running(x, u):
        return 0.05 * (x[0] / s[0] - np.pi) ** 2 + 0.005 * (x[1] / s[1]) ** 2 + 0.05 * (u[0] / c) ** 2

    system = FunctionDynamics(lambda x, u: s * pendulum_step(x / s, u / c), 2, 1, dt=0.03)
    end = [lambda x, u: 500.0 * ((x / s - UPRIGHT) @ (x / s - UPRIGHT))]
    return ddp.Problem(system, [running], end, np.zeros(2), 100, **changes)


UNITS = [(2.0**20, 2.0**-20), (2.0**30, 1.0), (2.0**-20, 2.0**20), (np.array([2.0**20, 2.0**-20]), 2.0**-10)]
"""Units of states, of all or of each, and of the control."""


@pytest.mark.parametrize("limit", [np.inf, 6.0], ids=["free", "limited"])
@pytest.mark.parametrize(("states", "controls"), UNITS)
def test_units_of_states_and_controls_change_no_iteration(states, controls, limit):
    plain = ddp.solve(swing_up(1.0, 1.0, control_limits=(-limit, limit)))
    found = ddp.solve(swing_up(states, controls, control_limits=(-limit * controls, limit * controls)))
    assert (found.iterations, found.kind, found.status.ending) == (plain.iterations, plain.kind, plain.status.ending)
    assert found.cost == pytest.approx(plain.cost, rel=1e-9)
    np.testing.assert_allclose(found.X / states, plain.X, atol=1e-5)


@pytest.mark.parametrize(("states", "controls"), UNITS)
def test_batches_take_the_same_way_in_any_units(states, controls):
    begin = np.array([[0.0, 0.0], [0.1, 0.0], [0.0, 0.2]])
    plain = ddp.Batch(swing_up(1.0, 1.0), 3).solve({"x0": begin})
    found = ddp.Batch(swing_up(states, controls), 3).solve({"x0": begin * states})
    assert found.converged.all()
    assert (found.iterations == plain.iterations).all()
    np.testing.assert_allclose(found.cost, plain.cost, rtol=1e-9)


def on_rails(states=1.0, control=1.0, cost=1.0, rows=1.0):
    """A cart-pole's swing-up on a short rail, upright at rest at the end, in other units of all that it is made of."""
    s, upright, weights = np.ones(4) * states, np.array([0.0, np.pi, 0.0, 0.0]), np.array([0.1, 0.1, 0.01, 0.01])
    rail, end = np.split(np.ones(5) * rows, [1])

    def running(x, u):
        return cost * (0.5 * (weights * (x / s - upright)) @ (x / s - upright) + 0.005 * (u[0] / control) ** 2)

    system = FunctionDynamics(lambda x, u: s * cartpole_step(x / s, u / control), 4, 1, dt=0.02)
    return ddp.Problem(
        system, [running], [], np.zeros(4), 100, control_limits=(-8.0 * control, 8.0 * control),
        constraints=[ddp.Inequality(lambda x, u: rail[0] * x[0] / s[0], lower=-0.6 * rail[0], upper=0.6 * rail[0])],
        terminal_constraints=[ddp.Equality(lambda x, u: end * (x / s - upright))],
    )  # fmt: skip


MIXED = 2.0 ** np.array([20.0, -15.0, 10.0, -25.0])


@pytest.mark.parametrize("changes", [
    {"states": 2.0**30}, {"states": 2.0**-30}, {"states": MIXED}, {"control": 2.0**-30}, {"control": 2.0**30},
    {"cost": 2.0**30}, {"cost": 2.0**-30}, {"rows": 2.0**-20}, {"rows": 2.0**23},
    {"states": MIXED, "control": 2.0**-20, "cost": 2.0**10, "rows": 2.0 ** np.array([-12.0, 17.0, 0.0, -9.0, 4.0])},
], ids=[
    "large states", "small states", "mixed states", "small control", "large control", "dear", "cheap", "small rows",
    "large rows", "all",
])  # fmt: skip
def test_constraints_take_no_more_iterations_in_any_units(changes):
    plain, found = ddp.solve(on_rails()), ddp.solve(on_rails(**changes))
    assert found.converged
    assert found.iterations <= 1.5 * plain.iterations
    assert found.cost / changes.get("cost", 1.0) == pytest.approx(plain.cost, rel=1e-8)
    np.testing.assert_allclose(found.X / changes.get("states", 1.0), plain.X, atol=1e-5)


def scattered(seed, cost=1.0, rows=1.0):
    """A random system that is pushed past a disc to where some of its states end, with a bound on all it does.

    rows: unit of these constraints.
    """
    rng = np.random.default_rng(seed)
    n, nu, h = 4, 2, 0.1
    A, B, C = 0.3 * rng.normal(size=(n, n)), rng.normal(size=(n, nu)), 0.4 * rng.normal(size=(n, n))
    Q, goal, along = 0.1 * rng.uniform(size=n), rng.normal(size=n), rng.normal(size=n + nu)
    centre, radius = 0.5 * goal[:2] + 0.1 * rng.normal(size=2), 0.3 * np.linalg.norm(goal[:2])
    system = FunctionDynamics(lambda x, u: x + h * (A @ x + B @ u + C @ np.sin(x)), n, nu)
    past = ddp.Inequality(lambda x, u: rows * ((x[:2] - centre) @ (x[:2] - centre)), lower=rows * radius**2)
    most = rows * (2.0 + 4.0 * rng.uniform())
    bound = ddp.Inequality(lambda x, u: rows * (along[:n] @ x + along[n:] @ u), upper=most)
    return ddp.Problem(
        system, [lambda x, u: cost * ((x - goal) @ (Q * (x - goal)) + 0.05 * u @ u)], [], np.zeros(n), 20,
        control_limits=(-4.0, 4.0) if seed % 2 else None, constraints=[past, bound],
        terminal_constraints=[ddp.Equality(lambda x, u: rows * (x[:2] - goal[:2]))],
    )  # fmt: skip


@pytest.mark.parametrize("step", ["auto", "linear"])
@pytest.mark.parametrize("seed", cases(range(24), [4, 12, 20]))
def test_costs_that_are_multiplied_by_powers_of_two_take_the_same_way_to_the_same_bits(seed, step):
    solver = ddp.DDP(step=step)
    plain = ddp.solve(scattered(seed), solver, throw=False)
    assert any(record.full_space for record in plain.history)
    for cost in (2.0**7, 2.0**20, 2.0**-33):
        found = ddp.solve(scattered(seed, cost), solver, throw=False)
        assert found.iterations == plain.iterations
        np.testing.assert_array_equal(found.X, plain.X)
        np.testing.assert_array_equal(found.K, plain.K)
        np.testing.assert_array_equal(found.multipliers, cost * plain.multipliers)


@pytest.mark.parametrize("step", ["auto", "linear"])
def test_what_cannot_be_met_is_infeasible_in_tiny_units_too(step):
    solver, unit = ddp.DDP(step=step), 2.0**-20
    plain, tiny = (ddp.solve(scattered(12, rows=rows), solver, throw=False) for rows in (1.0, unit))
    assert plain.status.ending is tiny.status.ending is ddp.Ending.INFEASIBLE
    assert tiny.violation == pytest.approx(unit * plain.violation, rel=1e-6)
    assert tiny.iterations == plain.iterations


def test_solves_in_other_units_go_on_from_checkpoints_to_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "LEG", 4)
    problem, file = on_rails(MIXED, 2.0**-20), tmp_path / "solve.npz"
    whole = ddp.solve(problem)
    cut = ddp.solve(problem, ddp.DDP(max_iterations=15), checkpoint=file, throw=False)
    assert not cut.converged
    again = ddp.solve(problem, checkpoint=file)
    assert again.iterations == whole.iterations
    assert (again.X == whole.X).all()


@pytest.mark.parametrize("length", [2.0**10, 2.0**-10], ids=["mm", "km"])
def test_states_at_rest_have_units_where_nothing_costs_anything_yet(length):
    """A point goes past a disc: it begins at rest, without controls, which alone cost."""
    goal = np.array([1.0, 0.6, 0.0, 0.0])

    def solved(s):
        def step(x, u):
            return s * np.stack([*(x[:2] / s + 0.1 * x[2:] / s), *(x[2:] / s + 0.1 * u)])

        past = ddp.Inequality(lambda x, u: np.sqrt((x[:2] / s) @ (x[:2] / s)), lower=0.4)
        end = ddp.Equality(lambda x, u: x / s - goal)
        return ddp.solve(ddp.Problem(
            FunctionDynamics(step, 4, 2), [lambda x, u: 0.01 * u @ u], [], s * np.array([-1.0, -0.1, 0.0, 0.0]), 30,
            constraints=[past], terminal_constraints=[end],
        ))  # fmt: skip

    plain, found = solved(1.0), solved(length)
    assert found.iterations <= 1.5 * plain.iterations  # 313 of mm, 35 of km
    assert found.cost == pytest.approx(plain.cost, rel=1e-8)


def test_motions_that_begin_at_their_goal_tell_of_no_units():
    problem = on_rails()
    upright = np.array([1e-9, np.pi, 0.0, 0.0])
    solution = ddp.solve(problem.starting_at(upright))
    assert solution.iterations <= 6


def turning(controls):
    """A car whose position and speed have a bound together."""
    goal, c = np.array([2.0, 0.7, 0.0]), np.ones(2) * controls

    def step(x, u):
        return x + 0.1 * np.array([u[0] / c[0] * np.cos(x[2]), u[0] / c[0] * np.sin(x[2]), u[1] / c[1]])

    return ddp.Problem(
        FunctionDynamics(step, 3, 2),
        [lambda x, u: 0.002 * ((u / c) @ (u / c)) + 0.23 * ((x - goal) @ (x - goal))],
        [lambda x, u: 363.0 * ((x - goal) @ (x - goal))], np.array([0.0, 0.0, 0.1]), 20,
        control_limits=(-1.4 * c, 1.4 * c),
        constraints=[ddp.Inequality(lambda x, u: x[1] + 0.2 * x[0] * u[0] / c[0], upper=1.0)],
    )  # fmt: skip


def test_controls_in_tiny_units_are_not_at_limits_that_are_as_tiny():
    """Those that a row determines, whose gains are zero, went there at the end."""
    plain, found = ddp.solve(turning(1.0)), ddp.solve(turning([2.0**-25, 2.0**30]))
    assert found.converged
    assert max(plain.violation, found.violation) <= 1e-8
    np.testing.assert_allclose(found.U / [2.0**-25, 2.0**30], plain.U, atol=1e-8)


def test_other_motions_that_are_tried_are_as_large_as_controls_in_tiny_units():
    swing = np.sin(np.linspace(0.0, 6.0, 100))[:, None]
    plain, tiny = (swing_up(1.0, unit, terminal_constraints=[ddp.Equality(lambda x, u: x)]) for unit in (1.0, 2.0**-30))
    tried = [one.U for one in impossible._motions(plain, 0.5 * swing)]
    assert len(tried) > 100
    np.testing.assert_array_equal([2.0**30 * one.U for one in impossible._motions(tiny, 0.5 * 2.0**-30 * swing)], tried)
    for problem in (plain, tiny):  # what rounding leaves says nothing
        assert impossible._largest(problem, 1e-30 * swing).tolist() == [1.0]


def test_rows_in_tiny_units_of_states_in_tiny_units_hold():
    """A speed limit that a pendulum leaves by less than 1e-8 in units of the row, which is more than the limit."""
    s, row = np.array([2.0**11, 2.0**-27]), 2.0**-28

    def slow(s, row):
        limit = ddp.Inequality(lambda x, u: row * x[1] / s[1], upper=0.8 * row)
        system = FunctionDynamics(lambda x, u: s * pendulum_step(x / s, u), 2, 1, dt=0.03)
        aim = np.array([1.0, 0.0])
        end = [lambda x, u: 500.0 * ((x / s - aim) @ (x / s - aim))]
        return ddp.Problem(system, [lambda x, u: 0.05 * u[0] ** 2], end, np.zeros(2), 50, constraints=[limit])

    plain, found = ddp.solve(slow(np.ones(2), 1.0)), ddp.solve(slow(s, row))
    assert ddp.solve(replace(slow(np.ones(2), 1.0), constraints=[])).X[:, 1].max() > 0.85
    assert found.violation <= 1e-7 * row
    assert found.cost == pytest.approx(plain.cost, rel=1e-6)


def found_again(problem, along, step=1e-5):
    """Derivatives of states and controls along a change of x0, by optima that are found again."""
    precise = ddp.DDP(tolerance=1e-14)
    best = ddp.solve(problem, precise)
    ends = [ddp.solve(problem.starting_at(problem.x0 + point * step * along), precise, best) for point in POINTS]
    return [np.tensordot(WEIGHTS, [getattr(end, name) - getattr(best, name) for end in ends], axes=1) / step
            for name in ("X", "U")]  # fmt: skip


def between(states=1.0, controls=1.0, cost=1.0, rows=1.0):
    """A mass in the plane that has to pass a disc and to come to rest, in other units of all that it is made of."""
    s, c, goal, h = np.ones(4) * states, np.ones(2) * controls, np.array([1.0, 0.6, 0.0, 0.0]), 0.1

    def step(x, u):
        return s * np.concatenate([(x / s)[:2] + h * (x / s)[2:], (x / s)[2:] + h * u / c])

    return ddp.Problem(
        FunctionDynamics(step, 4, 2), [lambda x, u: 0.01 * cost * ((u / c) @ (u / c))], [],
        s * [-1.0, -0.1, 0.0, 0.0], 30, control_limits=(-1.1 * c, 1.1 * c),
        constraints=[ddp.Inequality(lambda x, u: rows * ((x / s)[:2] @ (x / s)[:2]), lower=0.16 * rows)],
        terminal_constraints=[ddp.Equality(lambda x, u: (x / s - goal)[:2]), ddp.Equality(lambda x, u: x[2:])],
    )  # fmt: skip


FOREIGN = [
    (on_rails, {"states": MIXED, "control": 2.0**-20}, "control"),
    (on_rails, {"states": MIXED, "cost": 2.0**10, "rows": 2.0 ** np.array([-12.0, 17.0, 0.0, -9.0, 4.0])}, "control"),
    (turning, {"controls": 2.0 ** np.array([17.0, -24.0])}, "controls"),
    (between, {"states": 2.0 ** np.array([-3.0, 8.0, 5.0, -6.0]), "controls": 2.0 ** np.array([18.0, -11.0]),
               "cost": 2.0**10, "rows": 2.0**-10}, "controls"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "changes", "of_controls"), FOREIGN, ids=["rails", "rows", "turning", "between"])
def test_sensitivities_in_any_units_are_those_of_optima_that_are_found_again(make, changes, of_controls):
    plain, problem = make(**({"controls": 1.0} if make is turning else {})), make(**changes)
    s, c = changes.get("states", 1.0), changes.get(of_controls, 1.0)
    along = np.cos(np.arange(problem.dynamics.n))
    by = ddp.solve(problem).sensitivity("x0")
    for own, seen in zip((by.dX @ (s * along) / s, by.dU @ (s * along) / c), found_again(plain, along), strict=True):
        np.testing.assert_allclose(own, seen, atol=1e-5 * np.abs(seen).max())


def slow(states=1.0, control=1.0):
    """A pendulum that goes to an angle, no faster than so, in other units."""
    s, aim = np.ones(2) * states, np.array([1.0, 0.0])
    limit = ddp.Inequality(lambda x, u: x[1] / s[1], upper=0.8)
    system = FunctionDynamics(lambda x, u: s * pendulum_step(x / s, u / control), 2, 1, dt=0.03)
    end = [lambda x, u: 500.0 * ((x / s - aim) @ (x / s - aim))]
    return ddp.Problem(system, [lambda x, u: 0.05 * (u[0] / control) ** 2], end, np.zeros(2), 50, constraints=[limit])


def come_to_rest(states=1.0, control=1.0):
    """A mass that comes to rest elsewhere, no faster than so, in other units."""
    s, h = np.ones(2) * states, 0.1
    system = FunctionDynamics(
        lambda x, u: s * np.array([x[0] / s[0] + h * x[1] / s[1], x[1] / s[1] + h * u[0] / control]), 2, 1
    )
    return ddp.Problem(
        system, [lambda x, u: 0.1 * (u[0] / control) ** 2], [], np.zeros(2), 26,
        control_limits=(-1.2 * control, 1.2 * control),
        constraints=[ddp.Inequality(lambda x, u: x[1] / s[1], upper=0.62)],
        terminal_constraints=[ddp.Equality(lambda x, u: x / s - np.array([1.0, 0.0]))],
    )  # fmt: skip


@pytest.mark.parametrize(("make", "states", "control"), [
    (slow, 2.0 ** np.array([-6.0, 4.0]), 2.0**-17), (slow, 2.0 ** np.array([20.0, -9.0]), 2.0**12),
    (come_to_rest, 2.0 ** np.array([10.0, -28.0]), 2.0**-27),
], ids=["slow", "slow in large units", "to rest"])  # fmt: skip
def test_gains_where_constraints_bind_are_the_same_in_any_units(make, states, control):
    plain, found = ddp.solve(make()), ddp.solve(make(states, control))
    assert found.iterations <= 1.5 * plain.iterations
    size = np.abs(plain.K).max(axis=(1, 2), keepdims=True)
    assert (np.abs(found.K * states / control - plain.K) <= 1e-5 * size).all()
    by, along = found.sensitivity("x0"), np.array([1.0, -0.5]) * states
    np.testing.assert_allclose(found.K[0] @ along / control, found_again(make(), along / states)[1][0], rtol=1e-5)
    np.testing.assert_allclose(found.K[0], by.dU[0], atol=1e-6 * np.abs(by.dU[0]).max())


@pytest.mark.parametrize("make", [slow, come_to_rest])
@pytest.mark.parametrize("control", [2.0**-30, 2.0**-10, 2.0**20])
def test_rollouts_hold_constraints_of_controls_in_any_units(make, control):
    """Penalties begin by a cost with that of a unit of each control in it, which may be all of it."""
    rollouts = ddp.DDP(step="rollout")
    best, found = ddp.solve(make()), ddp.solve(make(control=control), rollouts)
    assert found.cost == pytest.approx(best.cost, rel=1e-7)
    assert found.violation <= 1e-8
    assert found.iterations <= 2 * ddp.solve(make(), rollouts).iterations
    slopes = [solution.sensitivity("x0").cost for solution in (best, found)]
    np.testing.assert_allclose(*slopes, rtol=1e-5)


@pytest.mark.parametrize("damped", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_torques_that_hold_an_arm_at_rest_tell_of_no_units(seed, damped):
    """Some of them are rounding, and so are its speeds and what these cost."""
    system, rng = RobotDynamics(load("ur5"), 0.02), np.random.default_rng(seed)
    q, still = system.robot.q0, np.zeros(6)
    start, hold = np.concatenate([q, still]), system.nominal_control(np.concatenate([q, still]))
    assert 0.0 < np.abs(hold[3:]).max() < 1e-9 < 1.0 < np.abs(hold[:3]).max()
    slow = StateCost(system, start, np.concatenate([still, np.full(6, 1e-2)]))
    goal = StateEquality(system, np.concatenate([q + rng.uniform(-0.5, 0.5, 6), still]))
    problem = ddp.Problem(
        system, [ControlCost(hold, np.full(6, 1e-3)), *[slow] * damped], [], start, 50, terminal_constraints=[goal],
    )  # fmt: skip
    assert ddp.solve(problem).iterations <= 12  # 345 and more


@pytest.mark.parametrize("name", ["ur5", "xarm7"])
@pytest.mark.parametrize("seed", range(cases(3, 1)))
def test_arms_that_hold_themselves_do_tasks_in_few_iterations(name, seed):
    """Where they begin speeds and costs are rounding, not zeros: by these a pose took 331, limits 64."""
    for task, problem in tasks(name, seed).items():
        if problem.constrained:
            assert ddp.solve(problem).iterations <= (100 if "effort" in task else 50), task

"""Rollouts that hold constraints, by the augmented Lagrangian, in any units; and their gains, which keep what binds."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from thorough import cases

import ddp
from ddp.interior.scaling import measures
from ddp.models.globalisation import step_squared
from ddp.saddles import CURVATURE
from tests.ddp.test_units import between, come_to_rest, found_again, on_rails, slow

ROLLOUTS = ddp.DDP(step="rollout")


class Swing:
    """A pendulum on a spring, with derivatives of its own, whose numbers have the same bits in units of powers of two.

    Functions that are traced have not: their operations are put in another order.
    """

    nx, nu, dt = 2, 2, 1.0

    def __init__(self, states, controls):
        self.s, self.c = states, controls
        self.z = np.concatenate([states, controls])

    def step(self, x, u):
        (q, v), (a, b) = x / self.s, u / self.c
        return self.s * np.array([q + 0.1 * v + 0.05 * b, v + 0.1 * (a - 3.0 * np.sin(q) - q)])

    def linearize(self, x, u):
        q = x[0] / self.s[0]
        A, B = np.array([[1.0, 0.1], [-0.1 * (3.0 * np.cos(q) + 1.0), 1.0]]), np.array([[0.0, 0.05], [0.1, 0.0]])
        return A * (self.s[:, None] / self.s), B * (self.s[:, None] / self.c)

    def hessian(self, x, u, weight):
        H = np.zeros((4, 4))
        H[0, 0] = 0.3 * np.sin(x[0] / self.s[0]) * (weight[1] * self.s[1]) / self.s[0] / self.s[0]
        return H


class Apart(Swing):
    """Two states, each moved by a control of its own; the second one falls to either side."""

    def step(self, x, u):
        (p, q), (a, b) = x / self.s, u / self.c
        return self.s * np.array([p + 0.1 * a, q + 0.1 * (b + np.sin(q))])

    def linearize(self, x, u):
        A, B = np.diag([1.0, 1.0 + 0.1 * np.cos(x[1] / self.s[1])]), 0.1 * np.eye(2)
        return A * (self.s[:, None] / self.s), B * (self.s[:, None] / self.c)

    def hessian(self, x, u, weight):
        H = np.zeros((4, 4))
        H[1, 1] = -0.1 * np.sin(x[1] / self.s[1]) * (weight[1] * self.s[1]) / self.s[1] / self.s[1]
        return H


class Square:
    """``unit Σ w (z - z0)²``, of z = (x, u) in units ``z``."""

    def __init__(self, weights, target, z, unit):
        self.weights, self.target, self.z, self.unit = np.array(weights), np.array(target), z, unit

    def value(self, x, u):
        return self.unit * (self.weights @ (np.concatenate([x, u]) / self.z - self.target) ** 2)

    def gradient(self, x, u):
        return self.unit * (2.0 * self.weights * (np.concatenate([x, u]) / self.z - self.target) / self.z)

    def hessian(self, x, u):
        return np.diag(self.unit * (2.0 * self.weights / self.z / self.z))


class Row:
    """``unit (slopes · z)`` between bounds, of z = (x, u) in units ``z``."""

    def __init__(self, slopes, lower, upper, z, unit):
        self.slopes, self.z, self.unit = np.array([slopes]), z, unit
        self.lower, self.upper = unit * np.array([lower]), unit * np.array([upper])

    def values(self, X, U):
        return self.unit * np.array([self.slopes @ (np.concatenate(one) / self.z) for one in zip(X, U, strict=True)])

    def jacobian(self, X, U):
        return np.tile(self.unit * self.slopes / self.z, (len(X), 1, 1))

    def curvature(self, X, U, weight):
        return np.zeros((len(X), 4, 4))


def swing(states=1.0, controls=1.0, cost=1.0, rows=1.0):
    """A motion with a limited speed, another bound that is soft, and a given end."""
    system = Swing(np.ones(2) * states, np.ones(2) * controls)
    z = system.z
    return ddp.Problem(
        system, [Square([0.1, 0.01, 0.02, 0.5], [1.0, 0.0, 0.0, 0.0], z, cost)], [], np.zeros(2) * states, 12,
        control_limits=([-9.0 * system.c[0], -np.inf], [9.0 * system.c[0], np.inf]),
        constraints=[
            Row([0.0, 1.0, 0.0, 0.1], -np.inf, 0.6, z, rows),
            ddp.Soft(Row([1.0, 0.2, 0.0, 0.0], -np.inf, 0.5, z, rows), 2.0 * cost / rows),
        ],
        terminal_constraints=[Row([1.0, 0.0, 0.0, 0.0], 0.6, 0.6, z, rows)],
    )  # fmt: skip


def calm(states=1.0, controls=1.0, cost=1.0, rows=1.0):
    """A motion that a bound of its speed changes nothing about."""
    system = Swing(np.ones(2) * states, np.ones(2) * controls)
    square = Square([0.1, 0.01, 0.02, 0.5], [1.0, 0.0, 0.0, 0.0], system.z, cost)
    bound = Row([0.0, 1.0, 0.0, 0.1], -np.inf, 60.0, system.z, rows)
    return ddp.Problem(system, [square], [], np.zeros(2), 12, constraints=[bound])


def falling(limits, states=1.0, controls=1.0, cost=1.0, rows=1.0):
    """A motion that stays upright between two better ones, one to each side, unless this saddle is left."""
    system = Apart(np.ones(2) * states, np.ones(2) * controls)
    z, within = system.z, np.array(limits)
    return ddp.Problem(
        system, [Square([0.0, 0.0, 0.02, 0.02], np.zeros(4), z, cost)],
        [Square([1.0, -0.5, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], z, cost)], np.zeros(2) * states, 8,
        control_limits=(-within * system.c, within * system.c),
        constraints=[Row([1.0, 0.0, 0.0, 0.0], -np.inf, 0.5, z, rows)],
        terminal_constraints=[Row([0.0, 1.0, 0.0, 0.0], -0.6, 0.6, z, rows)],
    )  # fmt: skip


FAR = 2.0 ** np.array([14.0, -12.0])
"""Units of states that are foreign: ordinary ones are taken as they are."""

FOREIGN = [
    {"states": 2.0 ** np.array([20.0, -13.0])}, {"states": FAR, "controls": 2.0 ** np.array([-17.0, 9.0])},
    {"states": FAR, "cost": 2.0**14}, {"states": FAR, "rows": 2.0**-9},
    {"states": 2.0**-22, "controls": 2.0 ** np.array([5.0, 21.0]), "cost": 2.0**-11},
]  # fmt: skip


@pytest.fixture(scope="module")
def plain():
    return ddp.solve(swing(FAR), ROLLOUTS)


def check_same_way(plain, found, states=1.0, controls=1.0, cost=1.0, rows=1.0):
    """Compare solutions of a problem with states in units ``FAR``, and of its twin in others: to the last bit."""
    assert [record.cost / cost for record in found.history] == [record.cost for record in plain.history]
    assert (found.U / controls == plain.U).all()
    assert (found.X / states == plain.X / FAR).all()
    assert (found.multipliers * rows / cost == plain.multipliers).all()


@pytest.mark.parametrize("changes", FOREIGN, ids=["states", "controls", "cost", "rows", "all"])
def test_rollouts_take_the_same_way_to_the_last_bit_in_foreign_units(plain, changes):
    found = ddp.solve(swing(**changes), ROLLOUTS)
    assert (np.abs(plain.multipliers) > 0.0).any()
    check_same_way(plain, found, **changes)
    s, c = changes.get("states", 1.0), changes.get("controls", 1.0)
    own = found.K * (np.ones(2) * s) / (np.ones(2) * c)[:, None]
    np.testing.assert_allclose(own, plain.K * FAR, atol=1e-9 * np.abs(plain.K * FAR).max())


def test_units_midway_between_powers_of_two_change_as_states_do():
    """Log2 of a speed's unit is -12.5 and -13.5 there: both were rounded to even numbers, which are two apart."""
    ways = []
    for states in (FAR, FAR / [1.0, 2.0]):
        cost = Square([-0.5, 0.01, 0.01, 0.05], [1.0, 0.0, 0.0, 0.0], np.concatenate([states, np.ones(2)]), 1.0)
        problem = replace(swing(states), running=[cost], horizon=20)
        found = ddp.solve(problem, replace(ROLLOUTS, max_iterations=5), throw=False)
        ways.append([record.cost for record in found.history])
    assert ways[0] == ways[1]


@pytest.mark.parametrize(("limits", "changes"), [
    ([np.inf, np.inf], FOREIGN[-1]), ([4.0, 40.0], {"states": 2.0**20, "controls": 2.0**-20}),
], ids=["free", "limited"])  # fmt: skip
def test_saddles_are_left_in_the_same_way_in_foreign_units(limits, changes):
    plain = ddp.solve(falling(limits, FAR), ROLLOUTS)
    assert any(record.hessian == CURVATURE for record in plain.history)
    check_same_way(plain, ddp.solve(falling(limits, **changes), ROLLOUTS), **changes)


@pytest.mark.parametrize(("stationarity", "iterations"), [(1e-8, 3), (1e-10, 4)])
def test_slopes_that_end_rollouts_are_in_units_of_controls(stationarity, iterations):
    """Nothing binds, so that they alone tell when the first round has come far enough."""
    solver = ddp.DDP(step="rollout", tolerance=1e-2, constraints=ddp.AugmentedLagrangian(stationarity=stationarity))
    for changes in FOREIGN[1::3]:
        assert ddp.solve(calm(**changes), solver).iterations == iterations


def test_steps_are_measured_in_units_of_controls():
    point, k = SimpleNamespace(units=np.array([9.0, 4.0, 0.5])), np.array([[4.0, 0.5], [8.0, 0.0]])
    assert step_squared(point, SimpleNamespace(k=k)) == 1.0 + 1.0 + 4.0


def test_states_that_are_still_and_controls_that_tell_nothing_have_units_of_what_they_are_beside():
    """Of a state's own size, and of what moves other states by their units."""

    def measured(states=1.0, controls=1.0):
        problem = falling([np.inf, np.inf], states, controls)
        d, X, U = problem.allocate(), np.tile([0.0, 3.0], (9, 1)) * states, np.zeros((8, 2))
        X[1:] += np.array([1.0, 1e-9]) * states
        problem.expand(X, problem.padded(U), d, 0, 9)
        d.lzz[:], d.diagonal[:], d.A[:], d.B[..., 1] = 0.0, 0.0, np.eye(2), 0.0
        return measures(problem, d, X, U)

    assert measured().tolist() == [1.0, 4.0, 8.0, 1.0]
    s, c = 2.0 ** np.array([20.0, -13.0]), 2.0 ** np.array([-17.0, 0.0])
    assert measured(s, c).tolist() == [s[0], 4.0 * s[1], 8.0 * c[0], 1.0]


def test_motions_that_are_held_loosely_keep_gains_of_their_own_where_the_optimum_is_far():
    rollouts = ddp.DDP(step="rollout", constraints=ddp.AugmentedLagrangian(tolerance=0.1))
    loose, best = ddp.solve(slow(), rollouts), ddp.solve(slow(), ddp.DDP(tolerance=1e-14))
    assert np.abs(loose.U - best.U).max() > 0.1
    assert np.abs(loose.K - best.K).max() > 0.1 * np.abs(best.K).max()


MIXED = 2.0 ** np.array([20.0, -15.0, 10.0, -25.0])
TRACED = [
    (on_rails, {"states": MIXED}), (on_rails, {"states": 2.0**-30}), (slow, {"states": 2.0 ** np.array([-20.0, 9.0])}),
    (come_to_rest, {"states": 2.0 ** np.array([10.0, -28.0]), "control": 2.0**-27}),
    (between, {"states": MIXED, "controls": 2.0 ** np.array([18.0, -11.0]), "cost": 2.0**10, "rows": 2.0**-10}),
]  # fmt: skip


@pytest.mark.parametrize(("make", "changes"), cases(TRACED, [TRACED[0], TRACED[3]]))
def test_rollouts_take_few_iterations_in_any_units(make, changes):
    plain, found = ddp.solve(make(), ROLLOUTS), ddp.solve(make(**changes), ROLLOUTS)
    assert found.iterations <= 2 * plain.iterations
    assert found.cost / changes.get("cost", 1.0) == pytest.approx(plain.cost, rel=1e-9)


@pytest.mark.parametrize("make", cases([slow, come_to_rest, between, on_rails], [slow, come_to_rest, between]))
def test_gains_of_rollouts_keep_what_binds(make):
    """They had the curvature of the last penalties, and were off by some per cent."""
    problem = make()
    best, found = ddp.solve(problem, ddp.DDP(tolerance=1e-14)), ddp.solve(problem, ROLLOUTS)
    assert found.cost == pytest.approx(best.cost, rel=1e-9)
    size = np.abs(best.multipliers).max()
    assert size > 0.0
    np.testing.assert_allclose(found.multipliers, best.multipliers, atol=1e-6 * size)
    along = np.cos(np.arange(problem.dynamics.n))
    np.testing.assert_allclose(found.K[0] @ along, found_again(problem, along)[1][0], rtol=1e-5, atol=1e-7)
    steps = np.arange(problem.horizon - 8)  # from the last ones an end that is given cannot be reached
    np.testing.assert_allclose(found.K[steps], best.K[steps], atol=1e-6 * np.abs(best.K[steps]).max())


@pytest.mark.parametrize("control", [1.0, 2.0**20])
def test_motions_that_shall_hold_constraints_less_stay_but_for_their_gains(control):
    rollouts = ddp.DDP(step="rollout", constraints=ddp.AugmentedLagrangian(tolerance=1e-3))
    loose, best = ddp.solve(slow(1.0, control), rollouts), ddp.solve(slow(), ddp.DDP(tolerance=1e-14))
    assert loose.violation > 1e-6
    np.testing.assert_allclose(loose.K / control, best.K, atol=1e-6 * np.abs(best.K).max())

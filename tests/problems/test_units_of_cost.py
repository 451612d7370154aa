"""Costs may come in any unit: weights that are all multiplied by a number change nothing but the cost."""

from dataclasses import replace

import numpy as np
import pytest

import ddp
import problems


def weighed(problem, factor):
    """A copy of the problem with all weights times a factor."""

    def heavier(terms):
        names = ["weights" if hasattr(term, "weights") else "weight" for term in terms]
        return [
            replace(term, **{name: factor * getattr(term, name)}) for term, name in zip(terms, names, strict=True)
        ]

    return replace(
        problem,
        running=heavier(problem.running),
        terminal=heavier(problem.terminal),
        during={knots: heavier(terms) for knots, terms in problem.during.items()},
        at={knot: heavier(terms) for knot, terms in problem.at.items()},
    )


@pytest.mark.parametrize("name", ["pendulum/swing-up", "cartpole/swing-up", "arm/reach", "quadruped/trot"])
def test_the_motion_is_the_same_in_any_unit_of_the_cost(name):
    problem = problems.ALL[name]()
    guess = problems.ALL[name].guess(problem)
    plain = ddp.solve(problem, guess=guess)
    assert plain.kind == "minimum"
    for factor in (1e-12, 1e-6, 1e-2, 0.1, 10.0, 1e3, 1e6, 1e12):
        other = ddp.solve(weighed(problem, factor), guess=guess)
        assert other.kind == "minimum"
        np.testing.assert_allclose(other.X, plain.X, rtol=0, atol=1e-8)
        np.testing.assert_allclose(other.U, plain.U, rtol=0, atol=1e-8)
        assert other.cost == pytest.approx(factor * plain.cost, rel=1e-9)


@pytest.mark.parametrize("name", ["arm/obstacles", "car/circles"])
def test_constraints_take_as_many_iterations_in_any_unit_of_the_cost(name):
    problem = problems.ALL[name]()
    plain = ddp.solve(problem)
    for factor in (1e-6, 1e-2, 1e3, 1e6):
        other = ddp.solve(weighed(problem, factor))
        assert abs(other.iterations - plain.iterations) <= 2
        assert other.cost == pytest.approx(factor * plain.cost, rel=1e-9)
        np.testing.assert_allclose(other.X, plain.X, rtol=0, atol=1e-7)


@pytest.mark.parametrize("solver", [ddp.DDP(), ddp.ILQR(), ddp.Newton()])
def test_powers_of_two_change_no_bit(solver):
    problem = problems.ALL["arm/reach"]()
    small, smaller = (ddp.solve(weighed(problem, 2.0**k), solver) for k in (-20, -40))
    large, larger = (ddp.solve(weighed(problem, 2.0**k), solver) for k in (20, 40))
    for one, other in ((small, smaller), (larger, large)):
        np.testing.assert_array_equal(one.X, other.X)
        np.testing.assert_array_equal(one.K, other.K)
        assert [record.cost for record in one.history] == [2.0**20 * record.cost for record in other.history]


class Constant:
    """A cost that does not depend on the motion."""

    def __init__(self, value):
        self._value = value

    def value(self, x, u):
        return self._value

    def gradient(self, x, u):
        return np.zeros(x.size + u.size)

    def hessian(self, x, u):
        return np.zeros((x.size + u.size,) * 2)


@pytest.mark.parametrize("value", [1e4, 1e8, -1e8])
def test_constants_added_to_the_cost_change_nothing(value):
    problem = problems.ALL["pendulum/swing-up"]()
    plain = ddp.solve(problem)
    other = ddp.solve(replace(problem, running=[*problem.running, Constant(value)]))
    np.testing.assert_allclose(other.X, plain.X, rtol=0, atol=1e-6)
    np.testing.assert_allclose(other.U, plain.U, rtol=0, atol=1e-6)


def test_constraints_hold_in_any_unit_of_the_cost():
    problem = problems.ALL["arm/obstacles"]()
    plain = ddp.solve(problem)
    for factor in (1e-9, 1e9):
        other = ddp.solve(weighed(problem, factor))
        np.testing.assert_allclose(other.X, plain.X, rtol=0, atol=1e-5)
        assert other.violation < 1e-8


def test_long_horizons_and_chains_start_from_the_default_guess():
    """An arm that its nominal torques hold for a second and no longer."""
    solution = ddp.solve(problems.arm.reach("ur5", horizon=3000))
    assert solution.start.startswith("states that stay at x0")
    assert solution.kind == "minimum"


def test_an_arm_of_talos_throws_as_well_as_iterative_lqr_does():
    solutions = [ddp.solve(problems.arm.throw("talos_arm"), solver) for solver in (ddp.DDP(), ddp.ILQR())]
    assert solutions[0].cost <= solutions[1].cost + 1e-8

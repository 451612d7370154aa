"""Numbers of a system, of costs and constraints of one's own vary in compositions around it as they do without."""

import dataclasses
import pickle

import numpy as np
import pytest

import ddp
import dynamics
from ddp.systems.system import Expansion
from dynamics import ContinuousDynamics, FunctionDynamics, augment
from problems import arm
from problems.costs import ControlCost, StateCost
from problems.lifted import free_start, lifted

N = 12


def step(x, u, p):
    """Position, speed and the time T of all steps; p: mass, wind."""
    return x + x[2] / N * np.array([x[1], (u[0] + p[1]) / p[0], 0.0])


def price(x, u, p):
    return x[2] * (1.0 + p[0] * u[0] ** 2)


def fall(x, u, p):
    return np.array([x[1], u[0] - p[0] * np.sin(x[0])])


def reached(x, u, p):
    return x[:2] - np.array([p[0], 0.0])


def not_too_fast(x, u, p):
    return x[1:2] * p[0]


def timed():
    """A problem whose time is free, with numbers of every kind."""
    plain = ddp.Problem(
        FunctionDynamics(step, 3, 1, 1.0 / N, parameters=[1.5, 0.1]), [ddp.Cost(price, [0.1])], [], [0.0, 0.0, 2.0], N,
        terminal_constraints=[ddp.Equality(reached, parameters=[1.0])],
        constraints=[
            ddp.Inequality(not_too_fast, upper=0.7, parameters=[1.0]), ddp.Inequality(lambda x, u: x[2], lower=0.1)
        ],
    )  # fmt: skip
    return free_start(plain, directions=np.eye(3)[:, 2:])


HELD = f"constraints_at[{range(1, N + 1)}][0].parameters"


@pytest.mark.parametrize(("name", "along"), [
    ("dynamics.parameters", [1.0, -0.5]), ("terminal_constraints[2].parameters", [1.0]), (HELD, [1.0]),
    (f"during[{range(1, N + 1)}][0].parameters", [0.3]),
])  # fmt: skip
def test_derivatives_of_an_optimum_with_free_time_are_those_of_other_solves(name, along):
    problem, along, h = timed(), np.array(along), 1e-4
    best = ddp.solve(problem, ddp.DDP(tolerance=1e-14))
    by = best.sensitivity(name)
    others = [problem.varying({name: problem.number(name) + s * h * along}) for s in (1.0, -1.0)]
    again = [ddp.solve(other, ddp.DDP(tolerance=1e-14), (best.X, best.U)) for other in others]
    assert by.cost @ along == pytest.approx((again[0].cost - again[1].cost) / (2 * h), rel=1e-5)
    assert by.dX[-1, 2] @ along == pytest.approx((again[0].X[-1, 2] - again[1].X[-1, 2]) / (2 * h), rel=1e-4, abs=1e-7)


def test_samples_of_a_problem_with_free_time_are_those_of_its_solves():
    problem, numbers = timed(), np.array([[1.0, 0.0], [2.0, 0.2], [1.5, -0.1]])
    many = ddp.solve_many(problem, {"dynamics.parameters": numbers}, executor=1)
    for cost, p in zip(many.cost, numbers, strict=True):
        assert cost == pytest.approx(ddp.solve(problem.varying({"dynamics.parameters": p})).cost, rel=1e-9)


COMPOSITIONS = {
    "rates": lambda s: augment.rates(s), "delays": lambda s: augment.delays(s, 2),
    "rates of motors": lambda s: augment.rates(augment.motors(s, 0.05)),
    "elasticity": lambda s: augment.elasticity(s, 100.0, 0.1, positions=np.arange(s.nu)),
}  # fmt: skip


@pytest.mark.parametrize("make", COMPOSITIONS.values(), ids=COMPOSITIONS)
@pytest.mark.parametrize("kind", ["robot", "steps", "continuous"])
def test_a_composition_around_a_system_of_other_numbers_is_one_made_around_it(make, kind, rng):
    if kind == "robot":
        system, name, factor = arm.reach("ur5").dynamics, "masses", np.linspace(0.8, 1.3, 6)
    elif kind == "steps":
        system, name, factor = FunctionDynamics(step, 3, 1, 0.1, parameters=[1.5, 0.1]), "parameters", [1.2, 0.8]
    else:
        system, name, factor = ContinuousDynamics(fall, 2, 1, 0.1, parameters=[3.0]), "parameters", [1.2]
    around = make(system)
    assert tuple(around.variable) == (name,)
    around.contraction()
    numbers = getattr(around, name) * factor
    twin, fresh = around.varied(**{name: numbers}), make(system.varied(**{name: numbers}))
    assert twin.contraction() is not around.contraction()
    x0, U = np.full(around.nx, 0.5), 0.1 * rng.normal(size=(5, around.nu))
    expected = fresh.rollout(x0, U)
    for one in (twin, pickle.loads(pickle.dumps(twin))):
        assert np.array_equal(one.rollout(x0, U), expected)
    assert not np.array_equal(around.rollout(x0, U), expected)
    W = rng.normal(size=(5, around.n))
    X = expected[:-1]
    found = []
    for one in (twin, fresh):
        out = Expansion.of(one, 5)
        one.expand(X, U, out)
        one.expand_second(X, U, out)
        H = np.empty((5, one.n + one.nu, one.n + one.nu))
        one.contract(out.record, W, H)
        found.append((out.A, out.B, H))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_terms_of_a_lifted_problem_refer_to_the_system_and_robot_of_other_masses():
    plain = arm.reach("ur5", horizon=8)
    still = StateCost(plain.dynamics, plain.x0, np.ones(12))
    plain = dataclasses.replace(plain, running=[*plain.running, still])
    smooth = ControlCost(np.zeros(6), np.full(6, 1e-4))
    masses, hold = 1.2 * plain.dynamics.masses, plain.dynamics.nominal_control(plain.x0)
    problem = lifted(plain, augment.rates(plain.dynamics), hold, running=[smooth])
    varied, other = problem.varying(masses=masses), plain.varying(masses=masses)
    expected = lifted(other, augment.rates(other.dynamics), hold, running=[smooth])
    assert varied.terminal[0].system is varied.dynamics
    kept = varied.running[-2].term
    assert kept.dynamics is varied.dynamics.system is not plain.dynamics
    assert varied.terminal[0].term.robot is varied.dynamics.robot is not problem.dynamics.robot
    assert ddp.solve(varied).cost == ddp.solve(expected).cost


@dataclasses.dataclass(frozen=True, eq=False)
class Weighed:
    """A cost, and a function of a cost or a constraint, of a robot's mass."""

    robot: dynamics.Robot

    def value(self, x, u):
        return (x[0] * self.robot.masses.sum()) ** 2

    def __call__(self, x, u, *p):
        return x[:1] * self.robot.masses.sum() * (p[0][0] if p else 1.0)


def test_terms_of_ones_own_refer_to_the_robot_of_other_masses_in_compositions():
    plain = arm.reach("ur5", horizon=8)
    own = Weighed(plain.dynamics.robot)
    plain = dataclasses.replace(
        plain, running=[*plain.running, own, ddp.Cost(own, [1.0])],
        constraints=[ddp.Inequality(own, upper=1.0), ddp.Inequality(own, upper=3.0, parameters=[2.0])],
    )  # fmt: skip
    hold, masses = plain.dynamics.nominal_control(plain.x0), 1.2 * plain.dynamics.masses
    makes = [
        lambda problem: free_start(problem, np.eye(12)[:, :2]),
        lambda problem: lifted(problem, augment.rates(problem.dynamics), hold),
    ]
    X, U = np.full((1, 18), 0.1), np.zeros((1, 6))
    for make in makes:
        varied, other = make(plain).varying(masses=masses), make(plain.varying(masses=masses))
        for one, expected in zip(varied.placed, other.placed, strict=True):
            x = X[:, : varied.dynamics.nx]
            np.testing.assert_array_equal(one.constraint.values(x, U), expected.constraint.values(x, U))
        options = ddp.DDP(max_iterations=3)
        assert ddp.solve(varied, options, throw=False).cost == ddp.solve(other, options, throw=False).cost


def test_parameters_that_let_controls_act_at_once_are_heard_in_lifted_constraints():
    system = FunctionDynamics(fall, 2, 1, 0.1, parameters=[0.0])
    held = ddp.Inequality(lambda x, u, p: p[0] * u, upper=0.5, parameters=[0.0])
    plain = ddp.Problem(system, [lambda x, u: (u - 1.0) @ (u - 1.0)], [], [0.0, 0.0], 4, constraints=[held])
    problem = lifted(plain, augment.driven(system, lambda x, r: r, 1), [])
    (name,) = [path for path, place in problem.places.items() if place.field == "parameters"]
    for one, expected in ((problem, 1.0), (problem.varying({name: [1.0]}), 0.5)):
        np.testing.assert_allclose(ddp.solve(one).U, expected, rtol=1e-6)


def test_a_name_that_a_term_and_the_dynamics_have_is_to_be_said_in_full():
    system = FunctionDynamics(fall, 2, 1, 0.1, parameters=[3.0])
    problem = ddp.Problem(system, [ddp.Cost(lambda x, u, p: p[0] * u[0] ** 2, [1.0])], [], [0.0, 0.0], 4)
    with pytest.raises(ddp.ProblemError, match=r"may be dynamics\.parameters, running\[0\]\.parameters: say which"):
        problem.varying(parameters=[2.0])
    assert problem.varying({"running[0].parameters": [2.0]}).dynamics is system

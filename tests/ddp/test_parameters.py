"""Parameters of users' own costs and constraints: they vary as if the function had been written with other numbers."""

import re
from dataclasses import dataclass, replace

import numpy as np
import pytest

import ddp
from ddp.many.identity import identity_of
from ddp.tracing import function as tracing
from dynamics.quantities.quantities import frame_placement
from problems import arm, pendulum, quadrotor

HELD = "constraints[0].parameters"


@pytest.fixture(scope="module")
def reach():
    return arm.reach("ur5", horizon=40)


@pytest.fixture(scope="module")
def ball(reach):
    """Middle and radius of a ball that the tool's free motion goes through."""
    return np.append(tool(reach, ddp.solve(reach).X[20]) + np.array([0.02, 0.01, -0.02]), 0.08)


@pytest.fixture
def untraced(monkeypatch):
    """Let no function be traced."""
    return lambda: monkeypatch.setattr(tracing, "trace", None)


def tool(reach, x):
    return frame_placement(reach.dynamics.robot, x[:6], "tool0")[:3, 3]


def outside(reach):
    return lambda x, u, p: p[3] ** 2 - ((tool(reach, x) - p[:3]) ** 2).sum()


def pulled(reach):
    return lambda x, u, p: p[3] * ((tool(reach, x) - p[:3]) ** 2).sum() + 1e-3 * (p @ p) * (u @ u)


def solved(problem):
    return ddp.solve(problem, throw=False)


def test_a_constraint_that_has_moved_is_the_one_made_there(reach, ball, untraced):
    there, aside = outside(reach), ball + np.array([0.02, -0.02, 0.02, 0.006])
    problem = replace(reach, constraints=[ddp.Inequality(there, parameters=ball)])
    made = replace(reach, constraints=[ddp.Inequality(there, parameters=aside)])
    plain = replace(reach, constraints=[ddp.Inequality(lambda x, u: there(x, u, aside))])
    first = solved(problem)
    untraced()
    moved = solved(problem.varying({HELD: aside}))
    assert np.array_equal(moved.X, solved(made).X)
    assert np.allclose(moved.X, solved(plain).X, rtol=0.0, atol=1e-9)
    assert max(abs(moved.residuals()[0].multipliers).max(), abs(first.X - moved.X).max()) > 1e-3
    assert np.array_equal(solved(problem).X, first.X)


def test_a_cost_with_other_parameters_is_the_one_made_with_them(reach, ball, untraced):
    cost, other = pulled(reach), 50.0 * ball
    problem = replace(reach, running=[*reach.running, ddp.Cost(cost, ball)])
    made = replace(reach, running=[*reach.running, ddp.Cost(cost, other)])
    plain = replace(reach, running=[*reach.running, lambda x, u: cost(x, u, other)])
    solved(problem)
    untraced()
    twin = problem.varying(parameters=other)
    assert np.array_equal(solved(twin).X, solved(made).X)
    assert np.allclose(solved(twin).X, solved(plain).X, rtol=0.0, atol=1e-6)
    assert ddp.check_derivatives(twin).ok
    assert identity_of(twin, ddp.DDP()) != identity_of(problem, ddp.DDP())


def test_parameters_of_a_cost_on_a_manifold(rng):
    loop = quadrotor.loop()
    cost = ddp.Cost(lambda x, u, p: p[0] * ((x[:3] - p[1:]) ** 2).sum() * x[6] ** 2 * u[0] ** 2, [1.0, 0.1, 0.2, 0.3])
    problem = replace(loop, running=[*loop.running, cost])
    assert ddp.check_derivatives(problem.varying(parameters=rng.normal(size=4))).ok


def test_horizons_and_batches_vary_parameters(reach, ball, untraced):
    problem = replace(reach, constraints=[ddp.Inequality(outside(reach), parameters=ball)])
    controller, x = ddp.RecedingHorizon(problem), problem.x0
    swing = replace(pendulum.swing_up(), running=[ddp.Cost(lambda x, u, p: p[0] * (x[1] ** 2 + u[0] ** 2), [0.01])])
    assert ddp.Batch(swing, 2).obstacle == ""
    over = {HELD: ball + 0.005 * np.arange(3)[:, None]}
    untraced()
    for p in over[HELD]:
        controller.vary({HELD: p})
        solution = controller.solve(x)
        assert solution.converged
        x = solution.X[1]
    batch = ddp.solve_many(problem, over, executor=1)
    assert all(np.array_equal(batch.X[i], solved(problem.varying({HELD: over[HELD][i]})).X) for i in range(3))


def test_sensitivities_to_parameters_are_differences_of_solves(reach, ball):
    problem = replace(reach, constraints=[ddp.Inequality(outside(reach), parameters=ball)])
    best, step = ddp.solve(problem), 1e-5
    ends = [ddp.solve(problem.varying({HELD: ball + h * np.eye(4)[3]}), guess=best).X for h in (step, -step)]
    assert np.allclose((ends[0] - ends[1]) / (2.0 * step), best.sensitivity(HELD).dX[..., 3], rtol=0.0, atol=1e-4)


def test_rows_that_parameters_take_from_controls_are_placed_anew():
    def limit(x, u, p):
        return p[0] * u - 1.0

    swing = pendulum.swing_up()
    idle = replace(swing, constraints=[ddp.Inequality(limit, parameters=[0.0])])
    acting = idle.varying({HELD: [0.5]})
    assert np.isinf(idle.placed[0].lower[0]).all()
    assert np.array_equal(acting.placed[0].upper, np.zeros_like(acting.placed[0].upper))
    made = replace(swing, constraints=[ddp.Inequality(limit, parameters=[0.5])])
    assert np.array_equal(solved(acting).X, solved(made).X)


@pytest.mark.parametrize("how", [{"derivatives": "differences"}, {"jacobian": lambda x, u, p: [[0.0, 0.0, p[0]]]}])
def test_parameters_of_functions_that_are_not_traced_vary(how):
    swing = pendulum.swing_up()
    problem = replace(swing, constraints=[ddp.Equality(lambda x, u, p: p[0] * u - p[1], parameters=[1.0, 0.0], **how)])
    X, U = np.zeros((swing.horizon + 1, 2)), np.zeros((swing.horizon, 1))
    (residual,) = problem.varying({HELD: [2.0, 3.0]}).residuals(X, U)
    assert residual.worst == 3.0


def test_other_numbers_of_parameters_are_refused(reach, ball):
    problem = replace(reach, constraints=[ddp.Inequality(outside(reach), parameters=ball)])
    with pytest.raises(ddp.ProblemError, match=r"constraints\[0\] \(Inequality\): parameters: expected shape \(4,\)"):
        problem.varying({HELD: ball[:3]})
    with pytest.raises(ddp.ProblemError, match=r"parameters: expected shape \(4,\)"):
        replace(reach, running=[ddp.Cost(pulled(reach), ball)]).varying(parameters=ball[:3])
    with pytest.raises(ddp.ProblemError, match="function: expected a function of"):
        ddp.Cost(3.0, ball)


def test_costs_that_have_a_robot_vary_with_its_masses(reach):
    @dataclass(frozen=True)
    class Lowered:
        robot: object

        def __call__(self, x, u, p):
            return p[0] * frame_placement(self.robot, x[:6], "tool0")[2, 3]

    problem = replace(reach, running=[*reach.running, ddp.Cost(Lowered(reach.dynamics.robot), [0.5])])
    heavy = problem.varying({"dynamics.masses": 1.1 * problem.number("dynamics.masses")})
    assert heavy.running[-1].function.robot is heavy.dynamics.robot
    np.testing.assert_array_equal(heavy.running[-1].parameters, [0.5])


def test_samples_without_parameters_are_equal(reach):
    problem = replace(reach, running=[*reach.running, ddp.Cost(lambda x, u, p: 1e-3 * u[0] ** 2, [])])
    many = ddp.solve_many(problem, {f"running[{len(reach.running)}].parameters": np.zeros((3, 0))}, executor=1)
    assert (many.cost == ddp.solve(problem).cost).all()


def test_rows_of_the_end_that_parameters_give_to_controls_are_refused():
    swing = pendulum.swing_up()
    held = [ddp.Equality(lambda x, u, p: x[1] - p[0] * u[0], parameters=[0.0])]
    idle = replace(swing, terminal_constraints=held)
    with pytest.raises(ddp.ProblemError) as made:
        replace(swing, terminal_constraints=[replace(held[0], parameters=[1.0])])
    with pytest.raises(ddp.ProblemError, match=re.escape(str(made.value).splitlines()[0])):
        idle.varying({"terminal_constraints[0].parameters": [1.0]})


@pytest.mark.parametrize("derivatives", ["traced", "differences"])
def test_functions_may_write_on_parameters_as_on_states(derivatives):
    def doubled(x, u, p):
        p *= 2.0
        return x[1] - p[0]

    held = ddp.Inequality(doubled, lower=-9.0, upper=0.0, parameters=[0.5], derivatives=derivatives)
    problem = replace(pendulum.swing_up(), constraints=[held])
    cost = ddp.Cost(lambda x, u, p: np.multiply(p, 2.0, out=p)[0] * x[0], [0.5])
    assert cost.value(np.ones(1), np.zeros(1)) == cost.value(np.ones(1), np.zeros(1)) == 1.0
    np.testing.assert_array_equal(problem.constraints[0].parameters, [0.5])
    np.testing.assert_allclose(problem.rows.values(np.ones((101, 2)), np.zeros((100, 1)))[:3], 0.0, atol=1e-15)

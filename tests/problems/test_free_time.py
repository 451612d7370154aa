"""Free time of motions without phases: it is found with the motion, and everything is in seconds."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import minimize, minimize_scalar

import ddp
import mayne
from ddp.errors import ProblemError, SolveError
from problems.costs import ControlCost, StateCost
from problems.durations import FreeDurations, solve_durations
from problems.free_time import freed

N = 40
LEAST = FreeDurations(price=1.0)


def rolling(x, u):
    return np.array([x[1], u[0]])


def there(x, u):
    return x - np.array([1.0, 0.0])


def effort(x, u):
    return 0.1 * u[0] ** 2


def mass(T, running=(effort,), limit=None):
    """A mass that moves by one and stops."""
    limits = None if limit is None else ([-limit], [limit])
    system = mayne.ContinuousDynamics(rolling, 2, 1, T / N)
    return mayne.Problem(
        system, [*running], [], [0.0, 0.0], N, terminal_constraints=[mayne.Equality(there)], control_limits=limits
    )


def least_effort(T):
    """Cost of T and of the controls of least effort, held over N steps, by the pseudo-inverse."""
    h = T / N
    A, B = np.array([[1.0, h], [0.0, 1.0]]), np.array([h**2 / 2, h])
    C = np.stack([np.linalg.matrix_power(A, N - 1 - k) @ B for k in range(N)], axis=1)
    return T + 0.1 * h * float(((np.linalg.pinv(C) @ [1.0, 0.0]) ** 2).sum())


def test_functions_of_solutions_draw_a_timed_one_or_say_where_it_has_its_own(tmp_path):
    found = solve_durations(mass(2.0), LEAST)
    drawn = [mayne.plot_solution(each, tmp_path / "mass.png").read_bytes() for each in (found, found.solution)]
    assert drawn[0] == drawn[1]
    for use in (mayne.unlifted, mayne.simulate):
        with pytest.raises(ProblemError, match=r"expected .*, got TimedSolution, which has a \.solution"):
            use(found)


@pytest.mark.parametrize("T", [0.5, 2.0, 5.0])
def test_time_and_effort_are_weighed_as_linear_algebra_says(T):
    best = minimize_scalar(least_effort, bounds=(0.5, 4.0), options={"xatol": 1e-10})
    found = solve_durations(mass(T), LEAST)
    assert found.converged
    assert found.durations[0] == pytest.approx(best.x, abs=1e-6)
    assert found.cost == pytest.approx(best.fun, abs=1e-9)
    assert abs(found.gradient[0]) < 1e-9
    solution = found.solution
    assert solution.t[-1] == pytest.approx(found.durations[0], rel=1e-15)
    assert solution.stationarity() < 1e-9
    again = ddp.solve(solution.problem, ddp.DDP(tolerance=1e-12))
    np.testing.assert_allclose(again.X, solution.X, rtol=0, atol=1e-7)
    np.testing.assert_allclose(again.multipliers, solution.multipliers, rtol=0, atol=1e-6)
    np.testing.assert_allclose(again.K[:-2], solution.K[:-2], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("T", [0.5, 1.0, 2.0, 5.0])
def test_the_least_time_of_a_mass_between_limits_is_that_of_full_push_and_full_brake(T):
    found = solve_durations(mass(T, running=(), limit=1.0), LEAST)
    assert found.durations[0] == pytest.approx(2.0, abs=1e-9)
    np.testing.assert_allclose(np.abs(found.solution.U), 1.0, rtol=0, atol=1e-6)
    assert sum(trial.iterations for trial in found.history) < 160


def swung(x, u):
    """A pendulum that hangs at angle zero."""
    return np.array([x[1], u[0] - 9.81 * np.sin(x[0])])


def swing(T, running=()):
    """A pendulum that is too weak to rise at once."""
    system = mayne.ContinuousDynamics(swung, 2, 1, T / N)
    upright = mayne.Equality(lambda x, u: x - np.array([np.pi, 0.0]))
    return mayne.Problem(system, running, [], [0.0, 0.0], N, terminal_constraints=[upright], control_limits=(-4.0, 4.0))


def least_swing(lasting):
    """The least time of full push one way and the other, near such times of each, in continuous time."""
    def missed(lasting):
        x, u = np.zeros(2), 4.0
        for one in lasting:
            x = solve_ivp(lambda t, x, u=u: swung(x, [u]), (0.0, one), x, rtol=1e-10, atol=1e-10).y[:, -1]
            u = -u
        return [abs(x[0]) - np.pi, x[1]]

    found = minimize(np.sum, lasting, jac=lambda x: np.ones(len(x)), constraints={"type": "eq", "fun": missed})
    assert found.success
    return float(found.fun)


@pytest.mark.parametrize("T", [1.5, 3.0, 6.0])
def test_the_least_time_of_a_weak_pendulum_is_found_from_any_guess_of_it(T):
    """From 3 and 6 s it failed without efforts on the way; held steps take no less time than continuous ones."""
    told = []
    found = solve_durations(swing(T), LEAST, callback=told.append)
    signs = np.sign(found.solution.U[:, 0])
    ends = np.concatenate([[0], np.flatnonzero(np.diff(signs)) + 1, [N]])
    least = least_swing(np.diff(ends) * found.durations[0] / N)
    assert least <= found.durations[0] <= 1.002 * least
    assert found.cost == pytest.approx(found.durations[0], rel=1e-12)
    assert len(told) == len(found.solution.history) == found.solution.iterations < 500
    assert f"after {len(told)} iterations" in found.status


@pytest.mark.parametrize("unit", [2.0**-20, 2.0**10, 2.0**20])
def test_the_least_time_does_not_depend_on_the_unit_of_the_control_that_sets_it(unit):
    system = mayne.ContinuousDynamics(lambda x, u: rolling(x, u / unit), 2, 1, 2.0 / N)
    problem = mayne.Problem(
        system, [], [], [0.0, 0.0], N, terminal_constraints=[mayne.Equality(there)], control_limits=(-unit, unit)
    )
    found = solve_durations(problem, LEAST)
    assert found.durations[0] == pytest.approx(2.0, abs=1e-9)
    assert found.solution.iterations < 40
    again = solve_durations(problem, LEAST, guess=found.solution)
    assert again.solution.iterations < 40
    assert again.durations[0] == pytest.approx(2.0, abs=1e-9)


@pytest.mark.parametrize("running", [(effort,), (lambda x, u: 1e-3 * u[0] ** 4,)])
def test_controls_along_which_costs_are_curved_need_no_effort_on_the_way(running):
    problem = mass(2.0, running, limit=4.0)
    found = solve_durations(problem, LEAST)
    plain = ddp.solve(freed(problem, 0.2, 20.0, 1.0))
    assert found.solution.iterations == plain.iterations
    np.testing.assert_array_equal(found.solution.X, plain.X[1:, :-1])


def landing(x, u):
    """Height and speed of a rocket."""
    return np.array([x[1], u[0] - 1.62])


def test_the_least_fuel_of_a_landing_is_a_fall_and_a_full_burn():
    """By energy: the burn stops the fall at the ground. Fuel alone counts, time but little."""
    N, most, height = 60, 4.0, 10.0
    system = mayne.ContinuousDynamics(landing, 2, 1, 6.0 / N)
    problem = mayne.Problem(
        system, [lambda x, u: u[0]], [], [height, 0.0], N, control_limits=(0.0, most),
        terminal_constraints=[mayne.Equality(lambda x, u: x)],
    )  # fmt: skip
    found = solve_durations(problem, FreeDurations(price=0.1))
    share = 1.62 / most  # of the time that the engine burns, by momentum
    T = np.sqrt(2.0 * height / (1.62 * (1.0 - share)))
    assert found.durations[0] == pytest.approx(T, rel=1e-3)
    assert found.cost == pytest.approx((1.62 + 0.1) * T, rel=1e-3)
    assert found.solution.iterations < 60


def test_a_limit_of_iterations_counts_those_on_the_way():
    for most in (1, 10, 40):
        found = solve_durations(swing(3.0), LEAST, ddp.DDP(max_iterations=most), throw=False)
        assert found.solution.iterations == len(found.solution.history) <= most
        assert not found.converged
        assert f"after {most} iterations, the limit of {most} iterations was reached" in found.status


def test_a_bound_holds_and_the_gradient_is_what_other_times_cost():
    found = solve_durations(mass(2.0), FreeDurations(price=1.0, upper=1.2))
    assert found.durations[0] == pytest.approx(1.2, abs=1e-9)
    assert "1 of 1 durations at a bound" in found.status
    slope = (least_effort(1.2 + 1e-5) - least_effort(1.2 - 1e-5)) / 2e-5
    assert found.gradient[0] == pytest.approx(slope, rel=1e-6)


def turning(x, u):
    """An attitude and its rates."""
    return np.concatenate([x[4:], u - 0.1 * x[4:]])


@pytest.mark.parametrize("integrator", ["euler", "semi-implicit-euler", "rk4"])
def test_derivatives_are_exact_through_time_terms_and_constraints_on_manifolds(integrator, rng):
    system = mayne.ContinuousDynamics(
        turning, 7, 3, 0.1, integrator, substeps=2, state=[mayne.SO3(), mayne.Euclidean(3)]
    )
    x0 = np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    problem = mayne.Problem(
        system, [StateCost(system, np.tile(x0, (6, 1)), np.ones(6)), lambda x, u: 0.5 * (u @ u) * (1.0 + x[4] ** 2)],
        [lambda x, u: x[0] ** 4 + x[5] ** 2], x0, 6, at={3: [lambda x, u: (x[1] - 0.3) ** 2]},
        constraints=[
            mayne.Inequality(lambda x, u: u[0] * x[4] ** 2 - 1.0), mayne.Inequality(lambda x, u: x[5:6] - 2.0)
        ],
        terminal_constraints=[mayne.Equality(lambda x, u: x[4:] - 0.1)],
    )  # fmt: skip
    start = freed(problem, 0.1, 5.0, 2.0)
    U = 0.3 * rng.normal(size=(7, 3))
    U[0] = [0.2, 0.0, 0.0]  # of the time, and of nothing
    X = start.dynamics.rollout(start.x0, U)
    for found in (ddp.check_derivatives(start, X, U), ddp.check_derivatives(start, X, 2.0 * U)):
        assert found.ok, str(found)
    own = X[1:, :-1]
    share = X[1, -1] / 0.6
    plain = replace(problem, dynamics=replace(system, dt=0.1 * share))
    assert start.total(X, U) == pytest.approx(plain.total(own, U[1:]) + 2.0 * X[1, -1], rel=1e-12)
    np.testing.assert_allclose(plain.dynamics.rollout(x0, U[1:]), own, rtol=0, atol=1e-12)


def test_a_guess_of_a_motion_past_an_obstacle_is_followed():
    def car(x, u):
        return np.array([x[3] * np.cos(x[2]), x[3] * np.sin(x[2]), x[3] * u[0], u[1]])

    system, end = mayne.ContinuousDynamics(car, 4, 2, 0.06), np.array([4.0, 1.0, 0.0, 0.0])
    problem = mayne.Problem(
        system, [], [], np.zeros(4), 50, control_limits=([-1.0, -2.0], [1.0, 2.0]),
        constraints=[mayne.Inequality(lambda x, u: 0.25 - (x[0] - 2.0) ** 2 - (x[1] - 0.3) ** 2)],
        terminal_constraints=[mayne.Equality(lambda x, u: x - end)],
    )  # fmt: skip
    straight = np.linspace(np.zeros(4), end, 51), np.zeros((50, 2))
    found = [solve_durations(problem, LEAST, guess=guess) for guess in (None, straight)]
    assert found[0].cost == pytest.approx(found[1].cost, rel=1e-3)
    assert max(one.solution.violation for one in found) < 1e-8
    again = solve_durations(problem, LEAST, guess=found[0].solution)
    assert again.durations[0] == pytest.approx(found[0].durations[0], rel=1e-6)
    assert found[0].solution.policy.duration == pytest.approx(found[0].durations[0])


def test_the_time_of_a_robots_motion_is_free_in_its_own_steps():
    robot = mayne.load("ur5")
    system = mayne.RobotDynamics(robot, 0.03)
    x0 = np.concatenate([robot.q0, np.zeros(6)])
    still = StateCost(system, x0 + np.repeat([0.3, 0.0], 6), 1e4)
    problem = mayne.Problem(system, [ControlCost(np.zeros(6), 1e-3)], [still], x0, 20)
    found = solve_durations(problem, FreeDurations(price=10.0))
    T = found.durations[0]
    assert found.solution.t[-1] == pytest.approx(T, rel=1e-12)
    costs = []
    for duration in (0.99 * T, T, 1.01 * T):
        other = mayne.RobotDynamics(robot, duration / 20)
        again = mayne.Problem(other, problem.running, problem.terminal, x0, 20)
        costs.append(ddp.solve(again, guess=found.solution.U).cost + 10.0 * duration)
    assert costs[1] == pytest.approx(found.cost, rel=1e-8)
    assert costs[1] < min(costs[0], costs[2])


@pytest.mark.parametrize(("change", "free", "words"), [
    ({}, FreeDurations(), r"price: expected that of a second .* got none"),
    ({}, FreeDurations(price=1.0, total=2.0), "price: expected that of a second .*got total=2"),
    ({}, FreeDurations(price=1.0, lower=3.0, upper=2.0), "lower"),
    ({"constraints": [mayne.Soft(mayne.Inequality(lambda x, u: x[1] - 1.0), 1.0)]}, LEAST, "none that is Soft"),
    ({"dynamics": mayne.ContinuousDynamics(rolling, 2, 1, 0.05, "sdirk2")}, LEAST, "explicit steps with traced deriv"),
    ({"dynamics": mayne.FunctionDynamics(lambda x, u: x + u[0], 2, 1)}, LEAST, "one with phases .* ContinuousDy"),
])  # fmt: skip
def test_what_time_cannot_be_free_of_is_named(change, free, words):
    with pytest.raises(ProblemError, match=words):
        solve_durations(replace(mass(2.0), **change), free)


def test_a_time_that_is_too_short_raises_with_the_motion():
    with pytest.raises(SolveError) as caught:
        solve_durations(mass(1.0, limit=1.0), FreeDurations(price=1.0, upper=1.5))
    assert caught.value.solution.problem.dynamics.dt == pytest.approx(1.5 / N, rel=0.2)


class Speed:
    """A batch constraint: no more than half a metre a second."""

    lower, upper = np.array([-0.5]), np.array([0.5])

    def values(self, X, U):
        return X[:, 1:].copy()

    def jacobian(self, X, U):
        return np.tile([0.0, 1.0, 0.0], (len(X), 1, 1))

    def curvature(self, X, U, weight):
        return np.zeros((len(X), 3, 3))


def test_multipliers_are_those_of_the_place_of_a_constraint_that_is_given_several_times():
    limit = Speed()
    problem = replace(mass(2.0), constraints=[limit], constraints_at={9: [limit], 15: [limit]})
    found = solve_durations(problem, LEAST)
    again = solve_durations(replace(mass(2.0), constraints=[Speed()]), LEAST)
    assert found.cost == pytest.approx(again.cost, rel=1e-9)
    for solution in (found.solution, again.solution):
        assert solution.multipliers.any()
        assert solution.stationarity() < 1e-9


def test_what_x0_alone_decides_is_given_where_time_is_free():
    fence = mayne.Inequality(lambda x, u: -0.45 - x[0])
    problem = replace(mass(2.0, limit=4.0), x0=np.array([-0.5, 0.0]), constraints=[fence])
    found = solve_durations(problem, LEAST)
    assert found.solution.residuals()[0].worst < 1e-9
    assert found.solution.stationarity() < 1e-9


def test_a_problem_whose_time_is_free_can_be_sent_to_other_processes(rng):
    start = freed(mass(2.0, limit=1.0), 0.5, 5.0, 1.0)
    sent, U = pickle.loads(pickle.dumps(start)), 0.3 * rng.normal(size=(N + 1, 1))
    X = start.dynamics.rollout(start.x0, U)
    np.testing.assert_array_equal(sent.dynamics.rollout(sent.x0, U), X)
    assert sent.total(X, U) == start.total(X, U)


def test_a_time_that_is_given_stays():
    found = solve_durations(mass(2.0), FreeDurations(price=1.0, lower=1.2, upper=1.2))
    assert found.durations[0] == pytest.approx(1.2, abs=1e-8)
    assert found.cost == pytest.approx(least_effort(1.2), rel=1e-7)


def test_words_have_the_names_and_knots_of_the_problem_itself():
    fence = mayne.Inequality(lambda x, u: x[0] - 0.5)
    told = solve_durations(replace(mass(2.0), constraints=[fence]), LEAST, throw=False).status
    assert "terminal_constraints[0] (Equality of there)[0] is violated by" in told
    assert f"at knot {N};" in told
    assert f"constraints[0] (Inequality) and terminal_constraints[0] (Equality of there) at knot {N} together" in told
    assert "range" not in told
    problem = replace(mass(2.0), running=[effort, lambda x, u: np.log(x[0] - 1.0)])
    with pytest.raises(ddp.DDPError, match=r"^running\[1\] \(<lambda>\): its cost is nan at knot 0"):
        solve_durations(problem, LEAST)

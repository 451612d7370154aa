"""Verdicts that constraints cannot be met, against linear programs of dense differences of rollouts."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog, minimize
from thorough import cases

import ddp
from ddp.constraints.impossible import Held, elsewhere, proof
from ddp.constraints.unreachable import contradicting, unmet_at_once
from dynamics import FunctionDynamics, RobotDynamics, frame_placement, load
from dynamics.geometry.solids import Capsule
from problems.constraints import StateEquality
from problems.costs import ControlCost, FramePosition, StateCost
from problems.obstacles import SphereClearance

N, H = 8, 0.1


def cart(x, u):
    """A unicycle: place, heading, speed; acceleration and rate of turning."""
    return np.array([x[0] + H * x[3] * np.cos(x[2]), x[1] + H * x[3] * np.sin(x[2]), x[2] + H * u[1], x[3] + H * u[0]])


def rolled(problem, U):
    """States that follow from controls."""
    X = [problem.x0]
    for u in U:
        X.append(problem.dynamics.step(X[-1], u))
    return np.array(X)


def linearly_feasible(problem, U):
    """Whether changes of controls by at most the largest of their kind, within limits, meet linearised constraints."""
    rows, step = problem.rows, 1e-6
    c = rows.values(rolled(problem, U), U)
    G = np.empty((rows.size, U.size))
    for j in range(U.size):
        d = np.zeros(U.size)
        d[j] = step
        d = d.reshape(U.shape)
        G[:, j] = rows.values(rolled(problem, U + d), U + d) - rows.values(rolled(problem, U - d), U - d)
    G /= 2.0 * step
    largest = np.broadcast_to(np.abs(U).max(axis=0), U.shape)
    low, high = np.maximum(problem.lower - U, -largest), np.minimum(problem.upper - U, largest)
    above, below = np.isfinite(rows.upper), np.isfinite(rows.lower)
    A = np.concatenate([G[above], -G[below]])
    b = np.concatenate([(rows.upper - c)[above], (c - rows.lower)[below]]) + 1e-9
    found = linprog(np.zeros(U.size), A, b, bounds=np.stack([low.ravel(), high.ravel()], axis=1))
    return found.status == 0


def problem_of(rng, reachable, unit):
    """A motion to places that are, or are not, where controls can lead; unit: of the constraint."""
    U = rng.uniform(-1.0, 1.0, (N, 2))
    system, x0 = FunctionDynamics(cart, 4, 2), np.array([0.0, 0.0, rng.uniform(-0.5, 0.5), 1.0])
    control = ControlCost(np.zeros(2), np.full(2, 0.1))
    free = ddp.Problem(system, [control], [], x0, N, control_limits=([-1.0] * 2, [1.0] * 2))
    place = rolled(free, U)[-1, :2] if reachable else x0[:2] + rng.uniform(1.5, 3.0) * np.array([0.6, 0.8])
    end = ddp.Equality(lambda x, u: unit * np.array([x[0] - place[0], x[1] - place[1]]))
    return replace(free, terminal_constraints=[end])


@pytest.mark.parametrize("step", ["auto", "linear", "rollout"])
@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e4])
def test_infeasible_is_what_no_linear_program_meets_nearby(step, unit, rng):
    for reachable in (True, False):
        problem = problem_of(rng, reachable, unit)
        solution = ddp.solve(problem, ddp.DDP(step=step), throw=False)
        assert solution.converged or not reachable
        assert (solution.status.ending is ddp.Ending.INFEASIBLE) != reachable
        if not reachable:
            assert not linearly_feasible(problem, solution.U)
            assert "as large as themselves" in solution.status


def test_what_is_only_badly_scaled_is_not_called_infeasible():
    """Rows of 1e5 and 1e-6 beside each other, met by the controls that made them; no step finds the way."""
    rng = np.random.default_rng(3)
    system, x0 = FunctionDynamics(cart, 4, 2), np.array([0.0, 0.0, 0.1, 1.0])
    U = rng.uniform(-2.0, 2.0, (N, 2))
    made = ddp.Problem(system, [ControlCost(np.zeros(2), np.ones(2))], [], x0, N)
    reached, units = rolled(made, U)[-1], (1e5, 1e-6, 1e3, 1e-4)
    end = ddp.Equality(lambda x, u: np.array([units[i] * (x[i] - reached[i]) for i in range(4)]))
    problem = ddp.Problem(system, made.running, [], x0, N, terminal_constraints=[end])
    for step in ("auto", "linear", "rollout"):
        solution = ddp.solve(problem, ddp.DDP(step=step), throw=False)
        assert solution.status.ending is not ddp.Ending.INFEASIBLE


@pytest.mark.parametrize("radius", [0.2, 0.5, 0.9])
def test_obstacles_in_the_middle_of_the_way_are_gone_around(radius):
    """Straight ahead violations are stationary, and their Hessian has negative curvature to both sides."""
    system = FunctionDynamics(lambda x, u: np.concatenate([x[:2] + H * x[2:], x[2:] + H * u]), 4, 2)
    goal = np.array([2.0, 0.0, 0.0, 0.0])
    around = ddp.Inequality(lambda x, u: (x[0] - 1.0) ** 2 + x[1] ** 2, lower=radius**2)
    problem = ddp.Problem(
        system, [ControlCost(np.zeros(2), np.full(2, 0.1))], [], np.zeros(4), 30, control_limits=(-5.0, 5.0),
        constraints=[around], terminal_constraints=[ddp.Equality(lambda x, u: x - goal)],
    )  # fmt: skip
    straight = np.linspace(0.0, 1.0, 31)[:, None] * goal, np.zeros((30, 2))
    for guess in (straight, None):
        solution = ddp.solve(problem, guess=guess)
        assert np.abs(solution.X[:, 1]).max() > 0.9 * radius
    assert ddp.solve(problem, ddp.DDP(step="rollout"), throw=False).status.ending is not ddp.Ending.INFEASIBLE


def bend(x, u):
    """A car that is driven by its speed and the angle of its wheels."""
    return np.array([x[0] + H * u[0] * np.cos(x[2]), x[1] + H * u[0] * np.sin(x[2]), x[2] + H * u[0] * np.tan(u[1])])


def parking(seed):
    """A car that has to end where controls, which are known to be possible, lead to; and these controls."""
    rng, system = np.random.default_rng(seed), FunctionDynamics(bend, 3, 2)
    U = rng.uniform(-0.6, 0.6, (10, 2))
    control = ControlCost(np.zeros(2), np.full(2, 0.1))
    free = ddp.Problem(system, [control], [], np.zeros(3), 10, control_limits=(U.min(axis=0), U.max(axis=0)))
    end = rolled(free, U)[-1]
    return replace(free, terminal_constraints=[ddp.Equality(lambda x, u: x - end)]), U


@pytest.mark.parametrize("seed", range(8))
def test_motions_that_are_possible_are_not_called_infeasible(seed):
    problem, U = parking(seed)
    assert problem.violation(rolled(problem, U), U) < 1e-9
    for step in ("auto", "linear", "rollout"):
        solution = ddp.solve(problem, ddp.DDP(step=step, max_iterations=200), throw=False)
        assert solution.status.ending is not ddp.Ending.INFEASIBLE


@pytest.mark.parametrize("seed", [12, 41])
def test_hessians_that_lack_little_of_being_definite_are_nearly_exact(seed):
    """Half of the exact Hessian converges linearly there, in 94 and 159 iterations."""
    assert ddp.solve(parking(seed)[0]).iterations <= 50


def test_a_limit_of_iterations_is_told_wherever_it_cuts_attempts_off():
    """With fewer iterations the ending is that of all of them, or that there were too few."""
    problem, _ = parking(5)
    whole = ddp.solve(problem, throw=False)
    for most in range(5, whole.iterations + 3, 7):
        cut = ddp.solve(problem, ddp.DDP(max_iterations=most), throw=False)
        assert cut.iterations <= most
        assert len(cut.history) == cut.iterations
        assert cut.status.ending is (ddp.Ending.ITERATIONS if most < whole.iterations else whole.status.ending)


def test_states_that_meet_the_bounds_of_a_knot_are_found_where_there_are_any(rng):
    """Points in a box, off a ball and on a plane, against SLSQP from as many points."""
    system = FunctionDynamics(lambda x, u: x + H * u, 3, 3)
    both = set()
    for _ in range(12):
        low, normal, off, radius = (
            rng.uniform(-1.0, 0.0, 3),
            rng.normal(size=3),
            rng.uniform(0.0, 1.5),
            rng.uniform(0.5, 1.6),
        )

        def plane(x, normal=normal, off=off):
            return normal @ x - off

        problem = ddp.Problem(
            system, [ControlCost(np.zeros(3), np.ones(3))], [], np.zeros(3), 2,
            terminal_constraints=[
                ddp.Equality(lambda x, u, plane=plane: plane(x), derivatives="differences"),
                ddp.Inequality(lambda x, u: x, lower=low, upper=low + 1.0),
                ddp.Inequality(lambda x, u: x @ x, lower=radius**2),
            ],
        )  # fmt: skip
        X = rng.uniform(-1.0, 1.0, (20, 3))
        found = (
            minimize(
                lambda x: 0.0, x, method="SLSQP", bounds=np.stack([low, low + 1.0], axis=1),
                constraints=[{"type": "eq", "fun": plane}, {"type": "ineq", "fun": lambda x, r=radius: x @ x - r**2}],
            )
            for x in X
        )  # fmt: skip
        reachable = any(one.success and one.x @ one.x >= radius**2 - 1e-6 for one in found)
        assert bool(contradicting(problem, 2, X, np.zeros((20, 3)))) != reachable
        both.add(reachable)
    assert both == {True, False}


def test_soft_constraints_that_miss_most_do_not_hide_the_knot_that_no_state_meets():
    """The end is to be at 0.2, and outside of a ball, where violations are least at 0.6."""
    end = [ddp.Equality(lambda x, u: x - 0.2), ddp.Inequality(lambda x, u: x**2, lower=1.0)]
    far = ddp.Soft(ddp.Equality(lambda x, u: x - 5.0), 1e3)
    problem = ddp.Problem(
        FunctionDynamics(lambda x, u: x + H * u, 1, 1), [ControlCost(np.zeros(1), np.ones(1))], [], [0.0], N,
        terminal_constraints=end, constraints_at={3: [far]},
    )  # fmt: skip
    U, d = np.full((N, 1), 0.6 / (N * H)), problem.allocate()
    X = rolled(problem, U)
    problem.expand(X, problem.padded(U), d, 0, N + 1)
    y = np.array([-1e3, 2.0 * 0.6 * 0.64, -0.64])
    said = proof(Held(problem, d, X, U, np.zeros((N, 1)), y))
    assert f"terminal_constraints[1] (Inequality) at knot {N} together" in said


@pytest.mark.parametrize("unit", [1.0, 1e-4, 1e-6])
def test_ends_whose_slopes_vanish_at_rest_are_reached_in_any_units(unit):
    """A mass that controls of next to nothing keep at 0 is to come to rest at 1, or at -1."""
    system = FunctionDynamics(lambda x, u: np.array([x[0] + H * x[1], x[1] + H * u[0]]), 2, 1, dt=H)
    end = ddp.Equality(lambda x, u: unit * np.array([x[0] ** 2 - 1.0, x[0] * x[1]]))
    costs = [ControlCost(np.zeros(1), np.full(1, 0.02))], []
    problem = ddp.Problem(system, *costs, np.zeros(2), 25, terminal_constraints=[end], guess=np.full((25, 1), 0.01))
    solution = ddp.solve(problem, throw=False)
    assert solution.converged
    np.testing.assert_allclose(np.abs(solution.X[-1]), [1.0, 0.0], atol=1e-6)


def test_motions_where_constraints_fail_are_no_error_and_prove_nothing():
    """A mass is to be nearer to 0 than sqrt(x² + .1) can be; the function knows no place beyond 3."""
    failed = []

    def distance(x, u):
        if abs(x[0]) > 3.0:
            failed.append(x[0])
            raise ValueError("unknown place")
        return np.sqrt(x[0] ** 2 + 0.1)

    system = FunctionDynamics(lambda x, u: np.array([x[0] + H * x[1], x[1] + H * u[0]]), 2, 1, dt=H)
    near = ddp.Inequality(distance, upper=0.2, derivatives="differences")
    costs = [ControlCost(np.zeros(1), 0.02 * np.ones(1))], [lambda x, u: (x - 1.0) @ (x - 1.0)]
    problem = ddp.Problem(
        system, *costs, np.array([0.5, 0.0]), 20, terminal_constraints=[near], control_limits=(-40.0, 40.0)
    )
    solution = ddp.solve(problem, ddp.DDP(step="linear"), throw=False)
    assert solution.status.ending is ddp.Ending.INFEASIBLE
    assert solution.violation == pytest.approx(np.sqrt(0.1) - 0.2, rel=1e-3)
    assert failed


def test_motions_whose_cost_overflows_are_no_start():
    """A cost without end leads controls so far out that waves about them cost more than numbers can be."""
    problem = ddp.Problem(
        FunctionDynamics(lambda x, u: x + 0.1 * (u[0] + u[1]), 1, 2), [lambda x, u: -(u[0] ** 2)], [], [0.0], 5,
        terminal_constraints=[ddp.Equality(lambda x, u: x - 1.0)],
    )  # fmt: skip
    assert not ddp.solve(problem, throw=False).converged
    assert isinstance(elsewhere(problem, np.full((5, 2), 1e150), np.full(1, 1e200)), list)


@pytest.mark.parametrize("held", ["nothing", "a floor that binds", "a ceiling", "limits"])
def test_linear_costs_without_end_are_told_as_linear_programs_tell_them(held):
    """The sum of places of a mass, by the accelerations that move it: from condensed matrices, by SciPy's linprog."""
    system = FunctionDynamics(lambda x, u: np.array([x[0] + H * x[1], x[1] + H * u[0]]), 2, 1, dt=H)
    rows = {"a floor that binds": {"lower": -1.0}, "a ceiling": {"upper": 3.0}}
    problem = ddp.Problem(
        system, [lambda x, u: -x[0]], [], np.array([0.1, 0.0]), N,
        control_limits=(-1.0, 1.0) if held == "limits" else None,
        constraints=[ddp.Inequality(lambda x, u: x[0], **rows[held])] if held in rows else [],
    )  # fmt: skip
    places = np.array([[H**2 * max(0, k - i - 1) for i in range(N)] for k in range(1, N + 1)])  # by accelerations
    A = {"a floor that binds": -places, "a ceiling": places}.get(held)
    b = {"a floor that binds": np.full(N, 1.1), "a ceiling": np.full(N, 2.9)}.get(held)
    limits = (-1.0, 1.0) if held == "limits" else (None, None)
    found = linprog(-H * places[: N - 1].sum(axis=0), A, b, bounds=[limits] * N)
    for step in ("auto", "linear"):
        solution = ddp.solve(problem, ddp.DDP(step=step, max_iterations=300), throw=False)
        assert (solution.status.ending is ddp.Ending.BOTTOMLESS) == (found.status == 3)
        if found.status == 0 and held == "limits":
            assert solution.cost == pytest.approx(found.fun - H * 0.1 * N, rel=1e-6)


@pytest.mark.parametrize("row", [0, 1])
def test_linear_costs_without_end_are_told_within_few_iterations_where_ends_are_given(row):
    """The sum of places or of accelerations, by a mass whose place or speed at the end is given."""
    system = FunctionDynamics(lambda x, u: np.array([x[0] + H * x[1], x[1] + H * u[0]]), 2, 1)
    falls = [lambda x, u: -u[0], lambda x, u: -x[0]][row]
    end = ddp.Equality(lambda x, u: x[row] - 1.0)
    problem = ddp.Problem(system, [falls], [], np.zeros(2), 20, terminal_constraints=[end])
    solution = ddp.solve(problem, ddp.DDP(step="linear"), throw=False)
    assert solution.status.ending is ddp.Ending.BOTTOMLESS
    assert solution.iterations <= 40


@pytest.mark.parametrize(
    ("running", "end", "turn"),
    [
        (lambda x, u: -(u[0] ** 2), lambda x, u: x @ x, np.sin),  # steps diverge
        (lambda x, u: 0.0 * u[0], lambda x, u: -np.sqrt(1.0 + x @ x), np.positive),  # decreases are below the tolerance
    ],
)
def test_costs_without_end_are_told_whatever_ends_the_descent(running, end, turn):
    system = FunctionDynamics(lambda x, u: x + 0.1 * np.array([turn(x[1]), u[0]]), 2, 1, 0.1)
    solution = ddp.solve(ddp.Problem(system, [running], [end], np.zeros(2), 10), throw=False)
    assert solution.status.ending is ddp.Ending.BOTTOMLESS


def test_minima_that_are_far_and_deep_are_no_falls_without_end():
    system = FunctionDynamics(lambda x, u: x + u, 1, 1)
    problem = ddp.Problem(system, [lambda x, u: 1e-12 * u[0] ** 2], [lambda x, u: -x[0] + 1.0], np.zeros(1), 3)
    solution = ddp.solve(problem)
    assert solution.cost == pytest.approx(1.0 - 0.75e12)


def at_once(rng):
    """A random affine step, rows of states and of controls, and by how much no controls within limits meet them."""
    n, nu, m = rng.integers(1, 5, 3)
    A, B, x0 = rng.normal(size=(n, n)), rng.normal(size=(n, nu)) * 10.0 ** rng.uniform(-2, 2, nu), rng.normal(size=n)
    G, F, u = rng.normal(size=(m, n)), rng.normal(size=(m, nu)) * (rng.random() < 0.3), rng.uniform(-1, 1, (2, nu))
    upper = np.maximum(G @ (A @ x0 + B @ u[0]) + F @ u[1], G @ x0 + F @ u[0] if F.any() else -np.inf)
    upper += rng.choice([0.01, 1.0]) * rng.normal(size=m)
    rows = [np.hstack([G @ B, F]), *([np.hstack([F, 0.0 * F])] if F.any() else [])]
    rest = np.concatenate([upper - G @ A @ x0, *([upper - G @ x0] if F.any() else [])])
    slack = np.hstack([np.concatenate(rows), -np.ones((len(rest), 1))])
    found = linprog(np.append(np.zeros(2 * nu), 1.0), slack, rest, bounds=[(-1.0, 1.0)] * (2 * nu) + [(0.0, None)])
    row = ddp.Inequality(lambda x, u: G @ x + F @ u, upper=upper)
    system = FunctionDynamics(lambda x, u: A @ x + B @ u, int(n), int(nu))
    costs = [lambda x, u: u @ u]
    return ddp.Problem(system, costs, [], x0, 3, control_limits=(-1.0, 1.0), constraints=[row]), found.fun


def test_first_steps_are_judged_as_by_linear_programs(rng):
    for _ in range(cases(60, 20)):
        problem, least = at_once(rng)
        told = unmet_at_once(problem)
        assert told is None or least > 1e-7
        assert told is not None or least < 1e-2


@pytest.mark.parametrize("limit", [10.0, 30.0])
@pytest.mark.parametrize("aim", [[0.3, 0.3, 0.6], None])
def test_arms_that_begin_in_an_obstacle_are_told_so(limit, aim):
    robot, tool = load("panda"), "panda_hand_tcp"
    system, rest = RobotDynamics(robot, dt=0.02), np.concatenate([robot.q0, np.zeros(robot.nv)])
    place = frame_placement(robot, robot.q0, tool)[:3, 3]
    ball = SphereClearance(robot, tool, 0.05, [Capsule(place, place, 0.3)])
    running = [ControlCost(np.zeros(9), np.full(9, 1e-3)), StateCost(system, rest, np.full(system.n, 0.1))]
    terminal = [] if aim is None else [FramePosition(robot, tool, aim, 1000.0)]
    problem = ddp.Problem(system, running, terminal, rest, 20, control_limits=(-limit, limit), constraints=[ball])
    solution = ddp.solve(problem, throw=False)
    assert solution.status.ending is ddp.Ending.INFEASIBLE
    assert solution.iterations <= 40
    assert "at knot 1, and by 0.35 at x0" in solution.status
    assert "begin where constraints hold at x0" in str(solution)
    assert "max_iterations" not in str(solution)


def test_nothing_is_proven_by_motions_that_all_diverge():
    system = FunctionDynamics(lambda x, u: x + 1e3 * x**3 + u, 1, 1)
    end = ddp.Equality(lambda x, u: x - 500.0)
    problem = ddp.Problem(system, [lambda x, u: u @ u], [], [0.0], 20, terminal_constraints=[end])
    X, U, d = np.zeros((21, 1)), np.zeros((20, 1)), problem.allocate()
    problem.expand(X, problem.padded(U), d, 0, 21)
    assert proof(Held(problem, d, X, U, np.zeros((20, 1)), np.array([-1.0]))) is None


def test_bounds_that_contradict_each_other_are_named_together():
    system = FunctionDynamics(lambda x, u: np.array([x[0] + H * x[1], x[1] + H * u[0]]), 2, 1)
    high, low = ddp.Inequality(lambda x, u: x[0], lower=0.5), ddp.Inequality(lambda x, u: x[0], upper=0.3)
    for places in ({"constraints_at": {10: [high, low]}}, {"constraints": [high, low], "x0": [0.4, 0.0]}):
        given = {"x0": np.zeros(2), "horizon": 20, "control_limits": (-1.0, 1.0)} | places
        solution = ddp.solve(ddp.Problem(system, [lambda x, u: u @ u], [], **given), throw=False)
        assert solution.status.ending is ddp.Ending.INFEASIBLE
        assert all(f"[{i}] (Inequality)" in solution.status for i in (0, 1))
        assert "limits of control" not in solution.status


@pytest.mark.parametrize("limit", [0.1, 1.0])
def test_limits_that_hold_a_motion_back_are_named_with_what_is_missing(limit):
    """Within 2 s a mass that ends at rest goes no further than the limit in metres, but for what a step is long."""
    system = FunctionDynamics(lambda x, u: np.array([x[0] + H * x[1], x[1] + H * u[0]]), 2, 1)
    end = ddp.Equality(lambda x, u: x - np.array([5.0, 0.0]))
    problem = ddp.Problem(
        system, [lambda x, u: u @ u], [], np.zeros(2), 20, control_limits=(-limit, limit), terminal_constraints=[end]
    )
    solution = ddp.solve(problem, throw=False)
    told = solution.status.partition("limits of control u0, which have to be wider by ")[2].split()[0]
    assert 0.8 * (5.0 - limit) < float(told) <= 5.0 - limit + 1e-2


def test_controls_at_their_limits_are_advised_to_be_allowed_more_where_nothing_is_proven():
    robot = load("ur5")
    system, rest = RobotDynamics(robot, dt=0.02), np.concatenate([robot.q0, np.zeros(robot.nv)])
    costs = [ControlCost(np.zeros(6), np.full(6, 1e-3)), StateCost(system, rest, np.full(12, 0.1))]
    end = StateEquality(system, rest)
    problem = ddp.Problem(system, costs, [], rest, 60, control_limits=(-8.0, 8.0), terminal_constraints=[end])
    solution = ddp.solve(problem, ddp.DDP(max_iterations=3000), throw=False)
    assert solution.status.ending is ddp.Ending.UNMET
    assert "shoulder_lift_joint needs -59.2 N m" in str(solution)
    assert "allow more of control shoulder_lift_joint" in str(solution)


def test_first_steps_with_many_minima_of_violations_are_no_proof(rng):
    for _ in range(cases(100, 20)):
        n, nu, m = rng.integers(1, 4, 3)
        A, B, G = rng.normal(size=(n, n)), rng.normal(size=(n, nu)), rng.normal(size=(m, n))
        x0, u = rng.normal(size=n), rng.uniform(-1.0, 1.0, nu)
        met = np.sin(3.0 * G @ (A @ x0 + B @ u))
        row = ddp.Equality(lambda x, u, G=G, met=met: np.sin(3.0 * G @ x) - met)
        system, costs = FunctionDynamics(lambda x, u, A=A, B=B: A @ x + B @ u, int(n), int(nu)), [lambda x, u: u @ u]
        problem = ddp.Problem(system, costs, [], x0, 3, control_limits=(-1.0, 1.0), constraints=[row])
        assert unmet_at_once(problem) is None


def test_many_minima_of_violations_at_the_end_are_no_proof():
    """Sines of the last state and a ball to stay out of, which a known motion meets."""
    called, count = 0, cases(120, 30)
    for seed in range(count):
        rng = np.random.default_rng([seed, 7])
        n, nu, m = rng.integers(1, 4, 3)
        A, B, G = np.eye(n) + 0.3 * rng.normal(size=(n, n)), rng.normal(size=(n, nu)), rng.normal(size=(m, n))
        system, x0 = FunctionDynamics(lambda x, u, A=A, B=B: A @ x + B @ u, int(n), int(nu)), rng.normal(size=n)
        x, w = system.rollout(x0, rng.uniform(-1.0, 1.0, (6, nu)))[-1], rng.choice([1.0, 3.0, 6.0])
        away = rng.normal(size=n)
        ball = x + away / np.linalg.norm(away) * rng.uniform(0.1, 1.0)
        far, met = 0.81 * ((x - ball) ** 2).sum(), np.sin(w * G @ x)
        rows = [
            ddp.Equality(lambda x, u, G=G, w=w, met=met: np.sin(w * G @ x) - met),
            ddp.Inequality(lambda x, u, ball=ball: (x - ball) @ (x - ball), lower=far),
        ]
        problem = ddp.Problem(system, [lambda x, u: u @ u], [], x0, 6, terminal_constraints=rows)
        called += ddp.solve(problem, throw=False).status.ending is ddp.Ending.INFEASIBLE
    assert called <= count // 60  # 8 of 120 where searches begin at motions alone


def test_waypoints_that_a_known_drive_passes_are_not_called_impossible():
    """Where the first attempt ends at a local minimum of violations, others begin at motions that doubt its proof."""
    rng = np.random.default_rng([24, sum(map(ord, "way"))])
    t, U = np.linspace(0.0, 1.0, 30)[:, None], np.zeros((30, 2))
    for k in range(4):
        U = U + rng.normal(size=2) * np.sin(k * np.pi * t + rng.uniform(0.0, 6.28, 2))
    U = np.array([2.0, 3.0]) * U / np.abs(U).max(axis=0)
    system, x0 = FunctionDynamics(cart, 4, 2), np.array([0.0, 0.0, rng.uniform(-3.0, 3.0), rng.uniform(-1.0, 1.0)])
    X, at = system.rollout(x0, U), {}
    for k in (8, 15, 22):
        a = rng.normal(size=2) + X[k, :2]
        goal = np.array([((X[k, :2] - a) ** 2).sum(), np.cos(X[k, 2])])
        passed = lambda x, u, a=a, goal=goal: np.array([((x[:2] - a) ** 2).sum(), np.cos(x[2])]) - goal  # noqa: E731
        at[range(k, k + 1)] = [ddp.Equality(passed)]
    fast, end = np.abs(X[:, 3]).max(), X[-1, :3]
    problem = ddp.Problem(
        system, [ControlCost(np.zeros(2), np.full(2, 0.1))], [], x0, 30, control_limits=([-2.0, -3.0], [2.0, 3.0]),
        constraints=[ddp.Inequality(lambda x, u: x[3], lower=-fast, upper=fast)], constraints_at=at,
        terminal_constraints=[ddp.Equality(lambda x, u: x[:3] - end)],
    )  # fmt: skip
    assert ddp.solve(problem).converged

"""`converged` is true: in any unit of the cost, at minima alone, with a sweep that succeeded.

The oracles are closed forms, SciPy's minimiser, and eigenvalues of dense Hessians by differences of the cost itself.
"""

from dataclasses import replace

import numpy as np
import pytest
from oracles import random_tree
from scipy.optimize import minimize
from systems import Quadratic, pendulum
from thorough import cases

import ddp
import dynamics
from ddp.augmented import AugmentedLagrangian
from ddp.sweeps.inertia import inertia
from dynamics.steps.function_dynamics import FunctionDynamics
from problems import balance, find
from problems.costs import ControlCost, StateCost

SOLVERS = {"DDP": ddp.DDP(), "iLQR": ddp.ILQR(), "Newton": ddp.Newton(), "exact": ddp.DDP(hessian="exact")}


class Term:
    """A cost term of a function."""

    def __init__(self, function):
        self.value = function


def moved(nu=1, step=0.1):
    return FunctionDynamics(lambda x, u: x + step * u, nu, nu)


def total(problem, U):
    """The cost as a function of the controls alone, by stepping: an oracle that knows no derivative."""
    x, cost = problem.x0, 0.0
    U = np.reshape(U, (problem.horizon, problem.dynamics.nu))
    for u in U:
        cost += problem.dynamics.dt * sum(term.value(x, u) for term in problem.running)
        x = problem.dynamics.step(x, u)
    return cost + sum(term.value(x, np.zeros(problem.dynamics.nu)) for term in problem.terminal)


def eigenvalues(problem, U, h=1e-3):
    """Of the dense Hessian of the cost in all controls, by differences of the cost."""
    m, u = U.size, U.ravel()
    move = h * np.eye(m)
    H = np.empty((m, m))
    for i in range(m):
        for j in range(m):
            corners = [
                a * b * total(problem, u + a * move[i] + b * move[j]) for a in (1.0, -1.0) for b in (1.0, -1.0)
            ]
            H[i, j] = sum(corners) / (4.0 * h * h)
    return np.linalg.eigvalsh(H)


# costs in any unit


def test_a_cost_that_falls_to_zero_is_done():
    """A target that is reached: the tolerance is relative to what the cost was."""
    origin = Quadratic(np.array([0.0, 0.0, 0.0]), np.zeros(3))
    reached = Quadratic(np.array([1e-9, 1e-9, 0.0]), np.array([0.3, 0.0, 0.0]))
    problem = ddp.Problem(pendulum().dynamics, [origin], [reached], np.zeros(2), 30)
    solution = ddp.solve(problem)
    assert solution.iterations < 30
    np.testing.assert_allclose(solution.X[-1], [0.3, 0.0], rtol=0, atol=1e-8)


@pytest.mark.parametrize("step", ["auto", "rollout"])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_controls_that_fall_to_zero_are_done(size, step):
    """Nothing but effort is asked for, at rest: neither states nor controls leave a scale behind."""
    problem = ddp.Problem(pendulum().dynamics, [Quadratic(np.array([0.0, 0.0, 1.0]), np.zeros(3))], [], np.zeros(2), 30)
    most = 4 if step == "rollout" else {1e-3: 2, 1.0: 3, 1e3: 5}[size]  # of full-space steps; the last ones close gaps
    assert ddp.solve(problem, ddp.DDP(step=step), guess=np.full((30, 1), size)).iterations <= most


@pytest.mark.parametrize("solver", [ddp.DDP(), ddp.ILQR()], ids=["DDP", "iLQR"])
def test_a_guess_that_leads_far_away_loosens_no_tolerance(solver):
    """A first cost of 1e12 or so is no measure of an optimum of .8; SciPy finds no lower cost near its end."""
    problem = ddp.Problem(
        FunctionDynamics(lambda x, u: np.array([x[0] + 0.05 * x[1], x[1] + 0.05 * (u[0] - np.sin(x[0]))]), 2, 1, 0.05),
        [Term(lambda x, u: 0.5e-2 * u @ u + np.sin(3.0 * x[0]) ** 2)],
        [Term(lambda x, u: 10.0 * ((x[0] - 3.0) ** 2 + x[1] ** 2))],
        np.zeros(2), 30,
    )  # fmt: skip
    solution = ddp.solve(problem, solver, guess=1e8 * np.random.default_rng(0).normal(size=(30, 1)))
    nearby = minimize(lambda U: total(problem, U), solution.U.ravel(), options={"maxiter": 9})
    assert solution.cost == pytest.approx(nearby.fun, rel=1e-6)


# minima, saddles, maxima


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_maximum_in_a_box_is_left_for_a_corner(solver):
    problem = ddp.Problem(moved(), [Term(lambda x, u: -u[0] ** 2)], [], [0.0], 20, control_limits=(-1.0, 1.0))
    solution = ddp.solve(problem, SOLVERS[solver])
    assert solution.cost == -20.0
    assert solution.kind == "minimum"
    assert "curvature" in {record.hessian for record in solution.history}


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_saddle_is_left_for_the_minimum(solver):
    problem = ddp.Problem(moved(2), [Term(lambda x, u: u[0] ** 2 - u[1] ** 2 + u[1] ** 4)], [], np.zeros(2), 10)
    solution = ddp.solve(problem, SOLVERS[solver])
    assert solution.cost == pytest.approx(-2.5, abs=1e-9)
    assert solution.kind == "minimum"
    np.testing.assert_allclose(np.abs(solution.U), [[0.0, np.sqrt(0.5)]] * 10, rtol=0, atol=1e-4)


def test_where_second_derivatives_are_zero_the_cost_itself_is_asked():
    problem = ddp.Problem(moved(), [Term(lambda x, u: -u[0] ** 4)], [], [0.0], 5, control_limits=(-1.0, 1.0))
    assert ddp.solve(problem).cost == -5.0


class Quartic:
    """c · u⁴ with exact derivatives: at zero, all curvatures are zero to the last bit."""

    def __init__(self, c):
        self.c = np.array(c)

    def value(self, x, u):
        return float(self.c @ u**4)

    def gradient(self, x, u):
        return np.concatenate([0.0 * x, 4.0 * self.c * u**3])

    def hessian(self, x, u):
        return np.diag(np.concatenate([0.0 * x, 12.0 * self.c * u**2]))


@pytest.mark.parametrize("c", [[1.0, -0.5], [-0.5, 1.0], [1.0, 1.0, -0.5], [1.0, -0.5, 1.0], [-1.0, 1.0, -0.2]])
def test_every_flat_direction_is_tried(c):
    """The cost rises along the sum of all of them, and falls along one."""
    problem = ddp.Problem(moved(len(c)), [Quartic(c)], [], np.zeros(len(c)), 4, control_limits=(-1.0, 1.0))
    assert ddp.solve(problem).cost == pytest.approx(4.0 * np.minimum(c, 0.0).sum(), abs=1e-6)


def test_flat_directions_of_one_knot_are_tried():
    """The cost falls at one knot, and rises faster at the others."""
    falls, rises = Quartic([-1.0]), Quartic([20.0])
    problem = ddp.Problem(
        moved(), [], [], [0.0], 4, at={0: [rises], 1: [falls], 2: [rises], 3: [rises]}, control_limits=(-1.0, 1.0)
    )
    assert ddp.solve(problem).cost == pytest.approx(-1.0, abs=1e-6)


def test_a_limit_that_holds_nothing_is_no_excuse():
    """Zero is the lower limit, with a multiplier of zero, and the maximum."""
    problem = ddp.Problem(moved(), [Term(lambda x, u: -u[0] ** 2)], [], [0.0], 5, control_limits=(0.0, 1.0))
    assert ddp.solve(problem).cost == -5.0


@pytest.mark.parametrize("concave", [Term(lambda x, u: -x[0] ** 2), Quadratic(np.array([0.0, -1.0]), np.zeros(2))])
@pytest.mark.parametrize("solver", ["DDP", "iLQR"])
def test_costs_without_a_minimum_do_not_converge(concave, solver):
    solution = ddp.solve(ddp.Problem(moved(), [concave], [], [0.0], 10), SOLVERS[solver], throw=False)
    assert not solution.converged
    assert solution.kind != "minimum"
    assert solution.status.startswith("not converged")


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_what_cannot_be_left_is_said(sign):
    """One iteration is not enough to leave."""
    problem = ddp.Problem(moved(2), [Term(lambda x, u: sign * u[0] ** 2 - u[1] ** 2)], [], np.zeros(2), 5)
    solution = ddp.solve(problem, ddp.DDP(max_iterations=1), throw=False)
    assert not solution.converged
    assert solution.kind == ("saddle" if sign > 0.0 else "maximum")
    assert f"at a {solution.kind}: the exact Hessian in the controls has the curvature -2" in solution.status
    assert "running[0] (Term) has negative curvature there" in solution.status


@pytest.mark.parametrize("value", [lambda x, u: 0.0, lambda x, u: 3.0, lambda x, u: u[0] ** 4])
def test_nothing_is_claimed_where_zeros_decide(value):
    solution = ddp.solve(ddp.Problem(moved(), [Term(value)], [], [0.0], 5))
    assert solution.kind == "unknown"
    assert "perhaps no minimum" in solution.status


def test_controls_that_change_nothing_are_found_out_by_the_longest_steps(monkeypatch):
    """Both ways along each, in place of all lengths down to a billionth."""
    totals, own = [], ddp.Problem.total

    def counted(problem, X, U, *notes):
        totals.append(np.abs(U[:, 1]).max())
        return own(problem, X, U, *notes)

    monkeypatch.setattr(ddp.Problem, "total", counted)
    solution = ddp.solve(ddp.Problem(moved(2), [Term(lambda x, u: u[0] ** 2)], [], np.zeros(2), 5))
    assert solution.kind == "unknown"
    tried = [size for size in totals if size > 0.0]
    assert set(tried) == {1.0, 0.5, 0.25}
    assert len(tried) <= 6 * 8


@pytest.mark.parametrize("step", ["auto", "linear", "rollout"])
def test_costs_without_a_minimum_on_constraints_do_not_converge(step):
    """A place that may be as far away as one likes, though the speed at the end is given; a maximum is no minimum."""
    system = FunctionDynamics(lambda x, u: np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * u[0]]), 2, 1)
    rest = ddp.Equality(lambda x, u: x[1])
    for value in (lambda x, u: x[0], lambda x, u: -x[0] ** 2):
        problem = ddp.Problem(system, [Term(value)], [], [0.0, 0.0], 20, terminal_constraints=[rest])
        solution = ddp.solve(problem, ddp.DDP(step=step), throw=False)
        assert not solution.converged or "perhaps no minimum" in solution.status
        assert not (solution.converged and step == "auto")


def test_controls_that_nothing_knows_are_no_variables():
    """The second one neither moves nor costs anything."""
    half = FunctionDynamics(lambda x, u: x + 0.1 * u[:1], 1, 2)
    problem = ddp.Problem(half, [Term(lambda x, u: (x[0] - 1.0) ** 2 + u[0] ** 2)], [], [0.0], 10)
    assert ddp.solve(problem).kind == "minimum"


def test_controls_that_cost_next_to_nothing_have_gains():
    problem = ddp.Problem(
        FunctionDynamics(lambda x, u: x + 0.05 * np.array([x[1], u[0] - np.sin(x[0])]), 2, 1, dt=0.05),
        [Term(lambda x, u: 1e-13 * u[0] ** 2)], [Term(lambda x, u: 100.0 * (x - 1.0) @ (x - 1.0))], [0.0, 0.0], 40,
    )  # fmt: skip
    solution = ddp.solve(problem, throw=False)
    assert np.isfinite(solution.gradient)
    assert not solution.converged or np.abs(solution.K[-1]).max() > 1.0


@pytest.mark.parametrize("seed", range(6))
def test_what_is_called_a_minimum_is_one(seed):
    """Random costs whose default guess is a saddle, of curved systems: SciPy finds nothing lower from there."""
    rng = np.random.default_rng(seed)
    n, nu, N = 2, 2, 4
    C, Q = rng.normal(size=(n, nu)), rng.normal(size=(nu, nu))
    Q = Q + Q.T

    def step(x, u):
        return x + 0.3 * (C @ u + np.array([np.sin(x[1]), x[0] * u[0]]))

    running = Term(lambda x, u: 0.5 * u @ Q @ u + 0.5 * (u @ u) ** 2 + 0.3 * np.cos(x[0]) + 0.2 * x[1] ** 2)
    problem = ddp.Problem(FunctionDynamics(step, n, nu), [running], [Term(lambda x, u: x @ x)], np.zeros(n), N)
    for solver in SOLVERS.values():
        solution = ddp.solve(problem, solver)
        assert solution.kind == "minimum"
        assert eigenvalues(problem, solution.U)[0] > 0.0
        found = minimize(lambda U: total(problem, U), solution.U.ravel(), method="BFGS", options={"gtol": 1e-8})
        assert solution.cost < found.fun + 1e-8


@pytest.mark.parametrize("seed", range(8))
def test_signs_of_curvatures_are_those_of_the_dense_hessian(seed):
    rng = np.random.default_rng(seed)
    N, n, nu = 5, 3, 2
    A, B, H = rng.normal(size=(N, n, n)), rng.normal(size=(N, n, nu)), rng.normal(size=(N + 1, n + nu, n + nu))
    H = H + H.transpose(0, 2, 1) + (seed - 4.0) * 3.0 * np.eye(n + nu)
    free = rng.random((N, nu)) < 0.8
    maps = np.zeros((N + 1, n, N * nu))
    dense = np.zeros((N * nu, N * nu))
    for t in range(N + 1):
        own = np.zeros((nu, N * nu))
        if t < N:
            own[:, t * nu : (t + 1) * nu] = np.eye(nu)
            maps[t + 1] = A[t] @ maps[t] + B[t] @ own
        Z = np.concatenate([maps[t], own])
        dense += Z.T @ H[t] @ Z if t < N else maps[t].T @ H[t, :n, :n] @ maps[t]
    values = np.linalg.eigvalsh(dense[np.ix_(free.ravel(), free.ravel())])
    found = inertia(A, B, H, free)
    assert (found.negative, found.positive, found.zero) == ((values < 0).sum(), (values > 0).sum(), 0)
    for k, K in found.policies[:1]:  # along the first, the cost falls by what is promised
        x, cost = np.zeros(n), 0.0
        for t in range(N):
            z = np.concatenate([x, k[t] + K[t] @ x])
            cost += 0.5 * z @ H[t] @ z
            x = A[t] @ x + B[t] @ z[n:]
        size = np.square(k[found.knot]).sum()
        assert cost + 0.5 * x @ H[N, :n, :n] @ x == pytest.approx(0.5 * found.lowest * size, rel=1e-6)


def test_constrained_maxima_are_left_too():
    """On the circle x² + y² = 1 of the state after one step, the start is where the cost is largest."""
    problem = ddp.Problem(
        moved(2, 1.0), [Term(lambda x, u: 0.0)], [Term(lambda x, u: x[1] + 0.0 * x[0])], np.zeros(2), 1,
        terminal_constraints=[ddp.Equality(lambda x, u: x @ x - 1.0)],
    )  # fmt: skip
    solver = ddp.DDP(constraints=AugmentedLagrangian(penalty=10.0))
    solution = ddp.solve(problem, solver, guess=np.array([[0.0, 1.0]]), throw=False)
    assert not solution.converged or solution.cost == pytest.approx(-1.0, abs=1e-6)


# what is said


@pytest.mark.parametrize(
    ("running", "terminal", "weight"),
    [
        (lambda x, u: u[0], lambda x, u: 0.0, 1.0),
        (lambda x, u: u[0] ** 2, lambda x, u: -1e5 * x[0] ** 2, 1.0),
        (lambda x, u: u[0] ** 2, lambda x, u: -1e5 * x[0] ** 2, 1e-6),
        (lambda x, u: -u[0] ** 2, lambda x, u: 0.0, 1.0),
        (lambda x, u: -u[0] ** 2, lambda x, u: 0.0, 1e-6),
    ],
)
def test_costs_that_fall_without_end_are_said_to(running, terminal, weight):
    problem = ddp.Problem(
        moved(), [Term(lambda x, u: weight * running(x, u))], [Term(lambda x, u: weight * terminal(x, u))], [0.0], 5
    )
    assert "the cost falls without end" in ddp.solve(problem, ddp.DDP(max_iterations=100), throw=False).status


@pytest.mark.parametrize("far", [1.0, 1e9])
def test_a_minimum_far_below_a_saddle_is_not_bottomless(far):
    """Begin beside the saddle, where the cost is 1e-16 of the final one."""
    term = Term(lambda x, u: (u[0] / far) ** 4 - (u[0] / far) ** 2)
    solution = ddp.solve(ddp.Problem(moved(), [term], [], [0.0], 5), guess=np.full((5, 1), 1e-8 * far), throw=False)
    assert "without end" not in solution.status


@pytest.mark.parametrize("step", ["auto", "rollout", "linear"])
@pytest.mark.parametrize("guess", [None, np.full((20, 2), 0.1), (np.zeros((21, 4)), np.zeros((20, 2)))])
def test_dynamics_without_a_slope_where_they_begin_are_named(step, guess):
    def dragged(x, u):  # by |v| v, whose slope at rest np.linalg.norm does not have
        return np.append(x[:2] + 0.1 * x[2:], x[2:] + 0.1 * (u - np.linalg.norm(x[2:]) * x[2:]))

    problem = ddp.Problem(
        FunctionDynamics(dragged, 4, 2, 0.1), [lambda x, u: u @ u], [lambda x, u: ((x - 0.1) ** 2).sum()],
        np.zeros(4), 20,
    )  # fmt: skip
    solution = ddp.solve(problem, ddp.DDP(step=step), guess=guess, throw=False)
    assert solution.status.ending is ddp.Ending.NOT_FINITE
    assert "the dynamics' derivative is not finite at knot 0" in solution.status


def test_costs_without_a_slope_are_named_by_linear_steps():
    problem = ddp.Problem(moved(), [lambda x, u: np.linalg.norm(u)], [lambda x, u: x @ x], np.ones(1), 5)
    solution = ddp.solve(problem, ddp.DDP(step="linear"), guess=(np.ones((6, 1)), np.zeros((5, 1))), throw=False)
    assert solution.status.ending is ddp.Ending.NOT_FINITE
    assert "running[0] (<lambda>): its gradient is not finite at knot 0" in solution.status


def test_constraints_without_a_slope_are_named():
    system = FunctionDynamics(lambda x, u: x + 0.1 * u, 2, 2, 0.1)
    near = ddp.Inequality(lambda x, u: np.linalg.norm(x), upper=0.1)  # from zero on, where it has none
    costs = [lambda x, u: u @ u], [lambda x, u: (x - 2.0) @ x]
    problem = ddp.Problem(system, *costs, np.zeros(2), 5, constraints=[near])
    solution = ddp.solve(problem, ddp.DDP(step="linear"), guess=(np.zeros((6, 2)), np.zeros((5, 2))), throw=False)
    assert solution.status.ending is ddp.Ending.NOT_FINITE
    assert "constraints[0] (Inequality): its Jacobian is nan at knot 1" in solution.status


@pytest.mark.parametrize("beyond", [np.nan, np.inf])
def test_steps_beyond_which_dynamics_end_are_named(beyond):
    walled = FunctionDynamics(lambda x, u: np.where(np.abs(x + 0.1 * u) > 0.5, beyond, x + 0.1 * u), 1, 1)
    problem = ddp.Problem(
        walled, [Term(lambda x, u: 1e-3 * u[0] ** 2)], [Term(lambda x, u: (x[0] - 1.0) ** 2)], [0.0], 5
    )
    status = ddp.solve(problem, throw=False).status
    assert "the state at knot 5 is not finite, the dynamics diverged there" in status
    assert "saddle" not in status


def test_a_point_of_inflection_is_left():
    """The minimum of u³ + u⁴ is at -3/4."""
    problem = ddp.Problem(moved(), [Term(lambda x, u: u[0] ** 3 + u[0] ** 4)], [], [0.0], 1)
    assert ddp.solve(problem).cost == pytest.approx(-27.0 / 256.0, abs=1e-9)


# what is kept


def test_the_kind_is_saved(tmp_path):
    problem = pendulum()
    solution = ddp.solve(problem)
    solution.save(tmp_path / "swing.npz")
    assert ddp.Solution.load(tmp_path / "swing.npz", problem).kind == "minimum"


def test_files_without_a_kind_are_read(tmp_path):
    problem, path = pendulum(), tmp_path / "swing.npz"
    ddp.solve(problem).save(path)
    with np.load(path) as archive:
        content = {name: archive[name] for name in archive.files if name != "kind"}
    np.savez_compressed(path, **(content | {"version": np.array(2)}))
    assert ddp.Solution.load(path, problem).kind == "unknown"


# the default guess


def test_the_default_guess_stays_where_its_own_motion_diverges():
    """Upside down, a pendulum's nominal control of zeros holds it no longer than rounding lets it."""
    steep = FunctionDynamics(lambda x, u: np.array([x[0] + 3.0 * np.sinh(x[0]) + u[0]]), 1, 1)
    term = Quadratic(np.ones(2), np.zeros(2))
    solution = ddp.solve(ddp.Problem(steep, [term], [term], np.array([0.1]), 60))
    assert solution.start.startswith("states that stay at x0")
    assert solution.kind == "minimum"


@pytest.mark.parametrize("solver", [ddp.DDP(), ddp.ILQR()], ids=["DDP", "iLQR"])
@pytest.mark.parametrize(
    "name", cases(["pendulum", "cart-pole", "ur5", "tree", "talos"], ["cart-pole", "ur5", "talos"])
)
def test_a_start_exactly_at_the_goal_has_converged(name, solver):
    """Nothing is to be gained of what rounding of states costs, 1e-29 or so, whatever weights multiply it by."""
    if name == "talos":
        problem = balance.standing(horizon=20)
    elif name in ("pendulum", "cart-pole"):
        plain = find("pendulum/swing-up" if name == "pendulum" else "cartpole/swing-up")()
        goal = plain.dynamics.robot.neutral()
        goal[-1] = np.pi
        problem = replace(plain, x0=np.concatenate([goal, 0.0 * goal]))
    else:
        robot = dynamics.load("ur5") if name == "ur5" else random_tree(4)
        system, rest = dynamics.RobotDynamics(robot, 0.01), np.zeros(robot.nv)
        q = robot.random_configuration(np.random.default_rng(0))
        x0, hold = np.concatenate([q, rest]), dynamics.inverse_dynamics(robot, q, rest, rest)
        cost = [StateCost(system, x0, np.full(2 * robot.nv, 1e4)), ControlCost(hold, 1e-2)]
        problem = ddp.Problem(dynamics=system, x0=x0, horizon=40, running=cost, terminal=cost[:1])
        problem = problem.with_guess(np.tile(hold, (40, 1)))
    solution = ddp.solve(problem, solver)
    assert solution.converged
    assert len(solution.history) == 1
    assert solution.cost < 1e-22


# gradients that are rounding


def growing(rate, N=40):
    system = FunctionDynamics(lambda x, u: rate * x + 0.1 * u, 1, 1)
    running = [ControlCost(np.zeros(1), np.ones(1)), StateCost(system, [0.1], [1.0])]
    return ddp.Problem(system, running, [StateCost(system, [0.3], [9.0])], [0.2], N)


@pytest.mark.parametrize("together", [False, True])
def test_gradients_that_unstable_dynamics_magnify_are_told_of(together):
    problem = growing(-20.0)
    many = ddp.Batch(problem, 2).solve({"x0": np.array([[0.1], [0.2]])}) if together else None
    solution = many.solution(1) if together else ddp.solve(problem)
    assert solution.gradient > 1e20
    assert "the gradient is rounding that unstable dynamics magnify" in solution.status
    other = problem.dynamics.rollout(problem.x0, solution.U * (1.0 + 1e-15))
    assert np.abs(other - solution.X).max() > 1e20  # what it says
    assert ddp.solve(growing(0.9)).status.endswith("iterations")


def test_unstable_dynamics_are_told_of_where_constraints_hold_too():
    """Full-space steps have a gradient of their own, which stays small."""
    for rate in (-20.0, 0.9):
        problem = replace(growing(rate), constraints=[ddp.Inequality(lambda x, u: x, upper=0.15)])
        solution = ddp.solve(problem)
        assert solution.gradient < 1e-6
        other = problem.dynamics.rollout(problem.x0, solution.U * (1.0 + 1e-15))
        magnified = np.abs(other - solution.X).max() > 1e20
        assert magnified == (rate < -1.0)
        assert ("the gradient is rounding that unstable dynamics magnify" in solution.status) == magnified


@pytest.mark.parametrize("step", ["auto", "linear", "rollout"])
@pytest.mark.parametrize("power", [1, 3, 5, 6])
@pytest.mark.parametrize("growth", [0.9, 1.5])
def test_costs_without_end_are_told_where_the_first_step_is_huge_already(step, power, growth):
    """Its first step may lead to -1e105, beside which nothing that follows is large."""
    system = FunctionDynamics(lambda x, u: growth * x + u, 1, 1)
    problem = ddp.Problem(system, [lambda x, u: x[0] + 1e-3 * x[0] ** 2], [lambda x, u: -(x[0] ** power)], [3.0], 20)
    solution = ddp.solve(problem, ddp.DDP(step=step), throw=False)
    assert solution.status.ending is ddp.Ending.BOTTOMLESS


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_a_minimum_that_is_far_is_not_called_endless_where_the_limit_cuts_the_way(limit):
    system = FunctionDynamics(lambda x, u: x + 0.1 * u, 1, 1)
    problem = ddp.Problem(system, [lambda x, u: x[0] + 1e-9 * u[0] ** 2], [], [1e-3], 20)
    solution = ddp.solve(problem, ddp.DDP(max_iterations=limit), throw=False)
    assert solution.converged or solution.status.ending is ddp.Ending.ITERATIONS

"""Control limits: minima of models against enumeration, whole solves against scipy, gains, bars, what is refused."""

import itertools

import numpy as np
import pytest
import scipy.optimize
from oracles import random_tree
from thorough import cases

import ddp
from ddp.derivatives import Derivatives
from ddp.sweeps.backward import Backward
from ddp.sweeps.outcome import VALUE
from dynamics import FunctionDynamics, RobotDynamics
from problems import arm, pendulum
from problems.costs import ControlCost, StateCost


def limited(problem, limits, **changes):
    fields = {
        "dynamics": problem.dynamics, "running": problem.running, "terminal": problem.terminal, "x0": problem.x0,
        "horizon": problem.horizon, "at": problem.at,
    }  # fmt: skip
    return ddp.Problem(**(fields | changes), control_limits=limits)


def best_vertex_or_face(H, b, low, high):
    """The minimum over the box by trying every set of held controls."""
    best = np.inf, None
    for sides in itertools.product((-1, 0, 1), repeat=len(b)):
        x = np.where(np.array(sides) < 0, low, high)
        free = np.array(sides) == 0
        if not np.isfinite(x[~free]).all():
            continue
        x[free] = -np.linalg.solve(H[np.ix_(free, free)], b[free] + H[np.ix_(free, ~free)] @ x[~free])
        if (x >= low - 1e-12).all() and (x <= high + 1e-12).all():
            best = min(best, (0.5 * x @ H @ x + b @ x, tuple(x)))
    return np.array(best[1])


def model(rng, N, n, nu):
    """Derivatives of N knots whose costs are convex."""
    A, B = rng.normal(size=(N, n, n)) / np.sqrt(n), rng.normal(size=(N, n, nu))
    roots, lz = rng.normal(size=(N + 1, n + nu, n + nu)), rng.normal(size=(N + 1, n + nu))
    lzz = roots @ roots.transpose(0, 2, 1) + 0.1 * np.eye(n + nu)
    d = Derivatives(
        A, B, np.zeros((N, 1)), np.zeros(N + 1), lz, lzz, lzz.copy(), np.zeros((N + 1, n + nu)), np.empty(0)
    )  # fmt: skip
    return d


def dense_model(d, gaps):
    """H (N nu, N nu) and b (N nu,) of a model, states eliminated."""
    N, n, nu = d.B.shape
    x, at = np.zeros((n, N * nu)), np.zeros(n)
    H, b = np.zeros((N * nu, N * nu)), np.zeros(N * nu)
    for t in range(N + 1):
        own = np.zeros((nu, N * nu))
        if t < N:
            own[:, t * nu : (t + 1) * nu] = np.eye(nu)
        Z, z = np.vstack([x, own]), np.concatenate([at, np.zeros(nu)])
        last = slice(0, n) if t == N else slice(0, n + nu)
        Z, z, L = Z[last], z[last], d.lzz[t][last, last]
        H += Z.T @ L @ Z
        b += Z.T @ (d.lz[t][last] + L @ z)
        if t < N:
            x, at = d.A[t] @ x + d.B[t] @ own, d.A[t] @ at + gaps[t]
    return H, b


def step_of(sweep, d, gaps):
    """Controls of a policy in the linear model."""
    x, steps = np.zeros(d.A.shape[1]), []
    for A, B, k, K, gap in zip(d.A, d.B, sweep.k, sweep.K, gaps, strict=True):
        steps.append(k + K @ x)
        x = A @ x + B @ steps[-1] + gap
    return np.concatenate(steps)


@pytest.mark.parametrize(("N", "nu"), [(1, 4), (3, 2), (6, 1)])
@pytest.mark.parametrize("torn", [False, True])
def test_a_sweep_within_limits_finds_the_best_of_all_sets(rng, N, nu, torn):
    system = FunctionDynamics(lambda x, u: x, 3, nu)
    for _ in range(6):
        d, gaps = model(rng, N, 3, nu), rng.normal(size=(N, 3)) * torn
        backward = Backward(d, system, VALUE, limited=True)
        backward.gaps = gaps
        for _ in range(3):  # what is held first is what was held last
            low = -rng.uniform(0.0, 1.0, (N, nu)) * (rng.random((N, nu)) < 0.8)
            high = np.where(rng.random((N, nu)) < 0.2, np.inf, rng.uniform(0.1, 1.0, (N, nu)))
            backward.limits = low, high
            found, (H, b) = backward(0.0, 0.0), dense_model(d, gaps)
            best = best_vertex_or_face(H, b, low.ravel(), high.ravel())
            u = step_of(found, d, gaps)
            np.testing.assert_allclose(u, best, rtol=0, atol=1e-8)
            assert found.expected == pytest.approx(-(0.5 * u @ H @ u + b @ u) - cost_of_gaps(d, gaps), abs=1e-8)
            held = (best == low.ravel()) | (best == high.ravel())
            assert (found.K.reshape(N * nu, 3)[held] == 0.0).all()
            d.lz[:] = rng.normal(size=d.lz.shape)


def cost_of_gaps(d, gaps):
    """The model's cost of no control at all."""
    x, total = np.zeros(gaps.shape[1]), 0.0
    for t in range(len(gaps) + 1):
        total += d.lz[t, : len(x)] @ x + 0.5 * x @ d.lzz[t, : len(x), : len(x)] @ x
        x = d.A[t] @ x + gaps[t] if t < len(gaps) else x
    return total


def test_only_what_is_free_has_to_be_convex(rng):
    d = model(rng, 1, 1, 2)
    d.lzz[:] = np.eye(3)
    d.lzz[0, 2, 2], d.lz[0] = -1.0, [0.0, -0.3, 5.0]
    d.B[:], d.lz[1] = 0.0, 0.0
    backward = Backward(d, FunctionDynamics(lambda x, u: x, 1, 2), VALUE, limited=True)
    backward.limits = np.array([[-2.0, 0.0]]), np.array([[2.0, 2.0]])
    found = backward(0.0, 0.0)
    np.testing.assert_allclose(found.k, [[0.3, 0.0]], rtol=0, atol=1e-15)
    backward.limits = np.array([[-2.0, -2.0]]), np.array([[2.0, 2.0]])
    assert backward(0.0, 0.0).failed == 0


def test_a_swing_up_with_little_torque_pumps_energy_and_keeps_its_limits():
    problem = limited(pendulum.swing_up(horizon=150), (-3.0, 3.0))
    solution = ddp.solve(problem)
    assert solution.cost == pytest.approx(3.0711425, rel=1e-7)
    assert solution.iterations <= 30
    assert np.abs(solution.U).max() == 3.0
    assert (np.abs(solution.U) == 3.0).mean() > 0.5
    assert max(solution.stationarity(), solution.gradient) < 1e-8  # of what no limit holds
    assert (solution.K[np.abs(solution.U[:, 0]) == 3.0] == 0.0).all()
    assert (solution.K[np.abs(solution.U[:, 0]) < 3.0] != 0.0).all()


def test_a_policy_keeps_the_limits():
    solution = ddp.solve(limited(pendulum.swing_up(horizon=150), (-3.0, 3.0)))
    free = int(np.argmax(np.abs(solution.K[:, 0]).sum(axis=1)))
    far = solution.X[free] + np.array([5.0, 5.0]) * np.sign(solution.K[free, 0])
    assert solution.policy(free * 0.03, far) == 3.0
    assert np.abs(solution.shift(40).U).max() <= 3.0


def test_an_arm_with_half_its_torques_reaches():
    problem = arm.reach("panda")
    effort = 0.5 * problem.dynamics.robot.model.effortLimit
    solution = ddp.solve(limited(problem, (-effort, effort)), ddp.DDP(tolerance=1e-12))
    assert (np.abs(solution.U) <= effort).all()
    assert solution.cost == pytest.approx(0.398071, rel=1e-5)
    assert solution.iterations <= 15
    assert solution.stationarity() < 1e-6


def linear(rng, n=3, nu=2):
    """A linear system with quadratic costs that wants more than its limits allow."""
    A, B = np.eye(n) + 0.3 * rng.normal(size=(n, n)), rng.normal(size=(n, nu))
    system = FunctionDynamics(lambda x, u: A @ x + B @ u, n, nu)

    class Cost:
        def value(self, x, u):
            return 0.5 * (x - 1.0) @ (x - 1.0) + 0.05 * u @ u

    return ddp.Problem(system, [Cost()], [Cost()], rng.normal(size=n), 10, control_limits=(-0.2, [0.1, np.inf]))


def by_scipy(problem, U):
    """The optimum over controls in their box by L-BFGS-B; of a quadratic cost central differences are the gradient."""

    def cost(flat):
        controls = flat.reshape(U.shape)
        return problem.cost(problem.dynamics.rollout(problem.x0, controls), controls)

    def gradient(flat):
        h = 1e-4 * np.eye(len(flat))
        return np.array([cost(flat + e) - cost(flat - e) for e in h]) / 2e-4

    bounds = np.stack([problem.lower.ravel(), problem.upper.ravel()], axis=1)
    options = {"maxiter": 2000, "maxfun": 4000, "ftol": 1e-15, "gtol": 1e-9}
    return scipy.optimize.minimize(cost, U.ravel(), jac=gradient, bounds=bounds, method="L-BFGS-B", options=options)


def test_a_linear_quadratic_problem_in_a_box_keeps_its_promises_and_ends_where_scipy_does(rng):
    problem = linear(rng)
    U = np.zeros((10, 2))
    U[-1, 0] = problem.lower[-1, 0]  # sweeps know of limits from the first one at which a control is
    rolled = problem.dynamics.rollout(problem.x0, U)
    solution = ddp.solve(problem, guess=(rolled, U))
    truth = by_scipy(problem, solution.U * 0.0)
    assert (problem.lower == solution.U).any()
    assert (problem.upper == solution.U).any()
    assert solution.cost <= truth.fun + 1e-10
    np.testing.assert_allclose(solution.U.ravel(), truth.x, rtol=0, atol=1e-5)
    assert solution.history[0].step == 1.0
    assert problem.cost(rolled, U) - solution.history[0].cost == pytest.approx(solution.history[0].expected, rel=1e-8)
    assert solution.iterations <= 4


def test_a_nonlinear_problem_in_a_box_ends_where_scipy_does():
    plain = pendulum.swing_up(horizon=25, final_weight=10.0)
    problem = limited(plain, (np.linspace(-1.5, -0.5, 25)[:, None], 2.0), x0=np.array([2.5, 0.0]))
    solution = ddp.solve(problem)
    truth = by_scipy(problem, solution.U * 0.0)
    assert ((problem.lower >= solution.U) | (problem.upper <= solution.U)).any()
    assert solution.cost == pytest.approx(truth.fun, rel=1e-8)
    np.testing.assert_allclose(solution.U.ravel(), truth.x, rtol=0, atol=1e-4)


def test_gains_are_the_optimal_sensitivity_where_limits_hold_elsewhere():
    plain = pendulum.swing_up(horizon=25, final_weight=10.0)
    limits = np.full((25, 1), -np.inf), np.concatenate([np.full((5, 1), np.inf), np.full((20, 1), 1.0)])

    def first_control(t, guess=None):
        moved = limited(plain, limits, x0=np.array([2.5 + t, -t]))
        return ddp.solve(moved, ddp.DDP(tolerance=1e-14), guess=guess)

    base = first_control(0.0)
    assert (base.U[5:] == 1.0).any()
    h = 1e-4
    truth = (first_control(h, base).U[0] - first_control(-h, base).U[0]) / (2.0 * h)
    assert base.K[0] @ [1.0, -1.0] == pytest.approx(truth, rel=1e-5)


def test_limits_and_gaps_go_together(rng):
    problem = limited(pendulum.swing_up(horizon=150), (-3.0, 3.0))
    X = np.linspace([0.0, 0.0], [np.pi, 0.0], 151)
    solution = ddp.solve(problem, guess=(X, 10.0 * rng.normal(size=(150, 1))))
    assert solution.gap() == 0.0
    assert np.abs(solution.U).max() <= 3.0
    assert solution.stationarity() < 1e-6


def test_guesses_are_moved_into_their_limits_and_limits_that_are_far_change_nothing():
    problem = limited(pendulum.swing_up(), (-3.0, 3.0))
    solution = ddp.solve(problem, ddp.DDP(max_iterations=1), guess=np.full((100, 1), 50.0), throw=False)
    assert np.abs(solution.U).max() <= 3.0
    solver = ddp.DDP(multipliers="value")
    plain, far = ddp.solve(pendulum.swing_up(), solver), ddp.solve(limited(pendulum.swing_up(), (-1e6, 1e6)), solver)
    assert far.iterations == plain.iterations
    np.testing.assert_allclose(far.U, plain.U, rtol=0, atol=1e-9)
    assert problem.lower.shape == problem.upper.shape == (100, 1)


def random_limits(seed):
    """A random tree moves through .24 s; limits of its controls: one-sided, none, tiny or a hand's breadth, by knot."""
    rng = np.random.default_rng(1000 + seed)
    system = RobotDynamics(random_tree(seed, bodies=int(rng.integers(2, 4))), 0.02)
    x0 = np.concatenate([system.robot.random_configuration(rng), 0.3 * rng.normal(size=system.robot.nv)])
    goal, hold = system.integrate(x0, 0.5 * rng.normal(size=system.n)), system.nominal_control(x0)
    size, shape = np.abs(hold).mean() + 1.0, (12, system.nu)
    low, high = hold - size * rng.uniform(size=shape), hold + size * rng.uniform(size=shape)
    kind = rng.integers(0, 7, system.nu)
    low[:, (kind == 0) | (kind == 2)], high[:, (kind == 1) | (kind == 2)] = -np.inf, np.inf
    high[:, kind == 3] = low[:, kind == 3] + 1e-6
    running = [ControlCost(hold, np.full(system.nu, 1e-2 / size)), StateCost(system, goal, np.full(system.n, 0.1))]
    end = StateCost(system, goal, np.full(system.n, 10.0))
    return ddp.Problem(system, running, [end], x0, 12, control_limits=(low, high))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seed", cases([1, 5, 6, 11, 14, 39], [6, 14]))
def test_random_trees_in_random_limits_end_where_no_control_can_improve(seed):
    problem = random_limits(seed)
    solution = ddp.solve(problem, ddp.DDP(tolerance=1e-12))
    U, near = solution.U, 1e-13 * (1.0 + np.abs(solution.U))
    assert ((problem.lower <= U) & (problem.upper >= U)).all()
    low, high = problem.lower + near >= U, problem.upper - near <= U
    slope = slopes(problem, U)
    rounding = 1e-7 * (1.0 + abs(solution.cost))
    assert (low | high).any()
    assert np.abs(slope[~(low | high)]).max() < rounding
    assert slope[low & ~high].min(initial=0.0) > -rounding
    assert slope[high & ~low].max(initial=0.0) < rounding
    assert not solution.K[low | high].any()
    assert solution.K[~(low | high)].any(axis=1).all()


def slopes(problem, U, h=1e-4):
    """Differences of order four of the cost along every control, from rollouts alone."""

    def cost(controls):
        return problem.cost(problem.dynamics.rollout(problem.x0, controls), controls)

    found = np.empty(U.shape)
    for at in np.ndindex(U.shape):
        step = np.zeros(U.shape)
        step[at] = h
        beside, further = (cost(U + n * step) - cost(U - n * step) for n in (1, 2))
        found[at] = (8.0 * beside - further) / (12.0 * h)
    return found


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (3.0, r"control_limits: expected a pair \(lower, upper\), got 3\.0"),
        ((1.0, 2.0, 3.0), "control_limits: expected a pair"),
        ([(-0.5, 0.5)], r"control_limits: expected a pair .*, got a list of shape \(1, 2\): transpose it$"),
        (((-0.5, 0.5), (-1.0, 1.0), (-2.0, 2.0)), r"control_limits: expected a pair .* got a tuple of shape \(3, 2\)$"),
        ([(-0.5, 0.5), 1.0, "high"], r"control_limits: expected a pair .*, got \[\(-0\.5, 0\.5\), 1\.0, 'high'\]$"),
        ((-1.0, "high"), r"control_limits\[1\]: expected a real number, got 'high'"),
        ((np.nan, 1.0), r"control_limits\[0\]: expected numbers or infinities, got nan"),
        ((np.zeros(3), 1.0), r"control_limits\[0\]: expected a number or shape \(1,\) or \(100, 1\), got shape \(3,\)"),
        ((1.0, np.r_[np.full(7, 2.0), 1.0, np.full(92, 2.0)][:, None]), "lower < upper, got 1.0 and 1.0 .* at knot 7"),
    ],
)
def test_limits_that_make_no_sense_are_refused(limits, message):
    with pytest.raises(ddp.ProblemError, match=message):
        limited(pendulum.swing_up(), limits)

"""Multiple shooting: imposed states, gaps on the manifold, one Newton step against a dense solve of its exact QP."""

import ctypes

import numpy as np
import pytest
from oracles import chain_of

import ddp
import dynamics
import problems
from ddp.guesses import Guess
from ddp.iterate import Iterate
from ddp.parallel.workers import differentiator
from ddp.starts import CLOSED
from ddp.sweeps.horizon import UNSLOPED
from ddp.sweeps.outcome import COSTATE, VALUE
from dynamics import FunctionDynamics, RobotDynamics
from problems import quadrotor
from problems.costs import ControlCost, StateCost

STENCIL = {-2: 1.0 / 12.0, -1: -8.0 / 12.0, 1: 8.0 / 12.0, 2: -1.0 / 12.0}


def derivatives(f, m, h=5e-3):
    """Gradient and Hessian at 0 of a function f (M, m) -> (M, ...), by stencils of order four."""
    steps = h * np.eye(m)
    first = np.stack([sum(c * f(a * e[None])[0] for a, c in STENCIL.items()) / h for e in steps], axis=-1)
    points = [(a, b, i, j) for i in range(m) for j in range(i, m) for a in STENCIL for b in STENCIL]
    values = f(np.array([a * steps[i] + b * steps[j] for a, b, i, j in points]))
    second = np.zeros((m, m))
    for value, (a, b, i, j) in zip(values, points, strict=True):
        second[i, j] += STENCIL[a] * STENCIL[b] * float(np.sum(value)) / h**2
    return first, np.triu(second) + np.triu(second, 1).T


def spherical(N=4):
    system = RobotDynamics(chain_of("spherical", "revolute"), 0.05)
    x0 = np.concatenate([system.robot.neutral(), np.zeros(4)])
    goal = system.integrate(x0, np.linspace(-0.8, 0.9, 8))
    cost = StateCost(system, goal, np.linspace(1.0, 2.0, 8))
    return ddp.Problem(system, [cost, ControlCost(np.zeros(4), np.ones(4))], [cost], x0, N)


def flyer(N=4):
    system = RobotDynamics(dynamics.load("iris"), 0.05, quadrotor.thrusters())
    x0 = np.concatenate([system.robot.neutral(), np.zeros(6)])
    goal = system.integrate(x0, np.linspace(-0.8, 0.9, 12))
    cost = StateCost(system, goal, np.linspace(1.0, 2.0, 12))
    return ddp.Problem(system, [cost, ControlCost(np.zeros(4), np.ones(4))], [cost], x0, N)


def torn(problem, rng, size=0.4):
    """A trajectory with gaps about as wide as ``size``."""
    N, d = problem.horizon, problem.dynamics
    X = d.integrate(np.tile(problem.x0, (N + 1, 1)), size * rng.normal(size=(N + 1, d.n)))
    X[0] = problem.x0
    return X, d.nominal_control(problem.x0) + 0.3 * rng.normal(size=(N, d.nu))


class Dense:
    """The exact quadratic programme about a trajectory with gaps, from differences of the problem's functions alone."""

    def __init__(self, problem, X, U):
        d, N = problem.dynamics, problem.horizon
        self.d, self.N, self.n, self.nz = d, N, d.n, d.n + d.nu
        self.problem, self.X, self.U, self.padded = problem, X, U, problem.padded(U)
        self.gaps = d.difference(X[1:], d.step(X[:-1], U))

    def cost(self, k, Z):
        """The cost of knot k at deviations Z (M, nz)."""
        X, U = np.tile(self.X, (len(Z), 1, 1)), np.tile(self.padded, (len(Z), 1, 1))
        X[:, k] = self.d.integrate(X[:, k], Z[:, : self.n])
        U[:, k] += Z[:, self.n :]
        return np.array([self.problem.values(*both)[k] for both in zip(X, U, strict=True)])

    def following(self, k, Z):
        """The next state of knot k, seen from X[k + 1]."""
        X = self.d.integrate(np.tile(self.X[k], (len(Z), 1)), Z[:, : self.n])
        reached = self.d.step(X, self.U[k] + Z[:, self.n :])
        return self.d.difference(np.tile(self.X[k + 1], (len(Z), 1)), reached)

    def solve(self, multipliers):
        """Controls and states (as deviations) of its solution, by one KKT system; and the decrease of its objective."""
        n, nz, N = self.n, self.nz, self.N
        size = N * nz + n
        H, g = np.zeros((size, size)), np.zeros(size)
        G, c = np.zeros((N * n, size)), np.zeros(N * n)
        lz, last = derivatives(lambda Z: self.cost(N, np.hstack([Z, np.zeros((len(Z), nz - n))])), n)
        g[-n:], H[-n:, -n:] = lz, last
        p, v, V = lz, lz, last
        for k in reversed(range(N)):
            at, to = slice(k * nz, (k + 1) * nz), slice((k + 1) * nz, (k + 1) * nz + n)
            weight = p if multipliers == COSTATE else v + V @ self.gaps[k]
            F = derivatives(lambda Z, k=k: self.following(k, Z), nz)[0]
            lz, lzz = derivatives(lambda Z, k=k: self.cost(k, Z), nz)
            lzz = lzz + derivatives(lambda Z, k=k, w=weight: self.following(k, Z) @ w, nz)[1]
            H[at, at], g[at] = lzz, lz
            rows = slice(k * n, (k + 1) * n)
            G[rows, at], G[rows, to], c[rows] = F, -np.eye(n), self.gaps[k]
            q, Q = lz + F.T @ (v + V @ self.gaps[k]), lzz + F.T @ V @ F
            K = -np.linalg.solve(Q[n:, n:], Q[n:, :n])
            p, v, V = lz[:n] + F[:, :n].T @ p, q[:n] + K.T @ q[n:], Q[:n, :n] + K.T @ Q[n:, :n]
        free = np.arange(n, size)  # dx_0 = 0
        KKT = np.block([[H[np.ix_(free, free)], G[:, free].T], [G[:, free], np.zeros((N * n, N * n))]])
        z = np.concatenate([np.zeros(n), np.linalg.solve(KKT, -np.concatenate([g[free], c]))[: len(free)]])
        knots = z[: N * nz].reshape(N, nz)
        states = np.concatenate([knots[:, :n], z[None, -n:]])
        return knots[:, n:], states, -(g @ z + 0.5 * z @ H @ z), -g @ z


@pytest.mark.parametrize("multipliers", [VALUE, COSTATE])
@pytest.mark.parametrize("make", [flyer, spherical])
def test_a_sweep_over_gaps_solves_the_exact_quadratic_programme(rng, make, multipliers):
    problem = make()
    X, U = torn(problem, rng)
    dense = Dense(problem, X, U)
    assert np.abs(dense.gaps).max() > 0.5
    du, dx, expected, slope = dense.solve(multipliers)
    K0 = np.zeros((problem.horizon, problem.dynamics.nu, problem.dynamics.n))
    with differentiator(problem, 1) as work:
        iterate = Iterate(problem, work, Guess(X, U, K0, imposed=True), multipliers)
        np.testing.assert_allclose(iterate.gaps, dense.gaps, rtol=0, atol=1e-12)
        sweep = iterate.sweep(1.0, 0.0)
        k, K = sweep.k.copy(), sweep.K.copy()
        iterate.backward._horizon.torn = UNSLOPED  # without the slope, all else is the same to the last bit
        again = iterate.sweep(1.0, 0.0)
    assert sweep.failed < 0
    assert (again.k == k).all()
    assert (again.K == K).all()
    assert (again.expected, again.gradient, again.failed) == (sweep.expected, sweep.gradient, sweep.failed)
    policy = sweep.k + np.einsum("kij,kj->ki", sweep.K, dx[:-1])
    np.testing.assert_allclose(policy, du, rtol=0, atol=1e-6 * np.abs(du).max())
    assert sweep.expected == pytest.approx(expected, rel=1e-6)
    assert sweep.d0 == pytest.approx(slope, rel=1e-6)


def test_the_promise_of_every_step_length_comes_true_where_all_is_linear_and_quadratic(rng):
    A, B, c = np.eye(3) + 0.3 * rng.normal(size=(3, 3)), rng.normal(size=(3, 2)), rng.normal(size=3)
    system = FunctionDynamics(lambda x, u: A @ x + B @ u + c, 3, 2)
    running, target = np.diag(rng.uniform(0.5, 2.0, 5)), rng.normal(size=5)

    class Cost:
        def value(self, x, u):
            z = np.concatenate([x, u]) - target
            return 0.5 * z @ running @ z

    problem = ddp.Problem(system, [Cost()], [Cost()], rng.normal(size=3), 8)
    X, U = rng.normal(size=(9, 3)), rng.normal(size=(8, 2))
    X[0] = problem.x0
    with differentiator(problem, 1) as work:
        iterate = Iterate(problem, work, Guess(X, U, np.zeros((8, 2, 3)), imposed=True))
        sweep = iterate.sweep(1.0, 0.0)
        alphas = np.array([0.1, 0.5, 1.0])
        free = np.full(2, np.inf)
        Xs, Us = system.track(X, U, sweep.k, sweep.K, alphas, iterate.gaps, -free, free)
        for alpha, *reached in zip(alphas, Xs, Us, strict=True):
            assert iterate.cost - problem.cost(*reached) == pytest.approx(sweep.promised(alpha), rel=1e-6)
    solution = ddp.solve(problem, guess=(X, U))
    assert [record.gap for record in solution.history[:1]] == [0.0]
    assert solution.cost == pytest.approx(ddp.solve(problem).cost, rel=1e-12)


def test_imposed_states_reach_what_rollouts_of_the_same_controls_miss():
    problem = problems.find("arm/reach")()
    U = problem.dynamics.nominal_control(problem.x0) + 5.0 * np.random.default_rng(1).normal(size=(100, 6))
    assert ddp.solve(problem, guess=(problem.dynamics.rollout(problem.x0, U), U)).cost > 10.0
    solution = ddp.solve(problem, guess=(np.tile(problem.x0, (101, 1)), U))
    assert solution.cost == pytest.approx(1.17984, rel=1e-5)
    assert solution.iterations <= 13
    assert solution.gap() < CLOSED
    assert solution.stationarity() < 1e-6
    assert solution.history[-1].gap == 0.0


def test_controls_that_throw_an_arm_about_are_not_followed_and_others_are():
    problem = problems.find("arm/reach")()
    quiet = np.tile(problem.dynamics.nominal_control(problem.x0), (100, 1))
    wild = quiet + 5.0 * np.random.default_rng(1).normal(size=quiet.shape)
    staying = np.tile(problem.x0, (101, 1))
    assert problem.cost(problem.dynamics.rollout(problem.x0, wild), wild) > 2.0 * problem.cost(staying, wild)
    alone, imposed = ddp.solve(problem, guess=wild), ddp.solve(problem, guess=(staying, wild))
    assert np.array_equal(alone.U, imposed.U)
    assert alone.start.startswith("states that stay at x0, which costs ")
    assert imposed.start == "the states given"
    assert alone.gap() == 0.0
    done = ddp.solve(problem, ddp.DDP(max_iterations=1), guess=alone.U)
    assert done.converged
    followed = ddp.solve(problem, ddp.DDP(max_iterations=1), guess=quiet, throw=False)
    assert followed.history[0].gap == 0.0
    assert followed.start == "states that follow from the controls"


def test_gaps_of_a_floating_body_close_and_convergence_stays_quadratic(rng):
    problem = problems.find("quadrotor/loop")()
    system = problem.dynamics
    X = system.integrate(np.tile(problem.x0, (101, 1)), 0.3 * rng.normal(size=(101, 12)))
    solution = ddp.solve(problem, ddp.DDP(tolerance=1e-14), guess=(X, quadrotor.hovering(problem)))
    assert np.abs(system.difference(X[1:], system.step(X[:-1], quadrotor.hovering(problem)))).max() > 1.0
    assert solution.history[-1].gap == 0.0
    assert np.array_equal(solution.X, system.rollout(problem.x0, solution.U))
    assert solution.cost == pytest.approx(17.138, rel=1e-4)
    e = [record.expected for record in solution.history if record.expected > 1e-25][-3:]
    assert np.log(e[2] / e[1]) / np.log(e[1] / e[0]) >= 1.8


def test_open_gaps_are_no_convergence_and_are_named():
    problem = problems.find("arm/throw")()
    U = problem.dynamics.nominal_control(problem.x0) + 5.0 * np.random.default_rng(0).normal(size=(60, 7))
    X = np.tile(problem.x0, (61, 1))
    solution = ddp.solve(problem, ddp.DDP(max_iterations=1), guess=(X, U), throw=False)
    assert 0.0 < solution.history[0].step < 1.0
    assert solution.gap() == pytest.approx(solution.history[0].gap, abs=1e-12)
    assert f"a gap of {solution.gap():.2g} is open at knot" in solution.status


def test_states_that_rollouts_reach_need_no_gaps():
    problem = problems.find("pendulum/swing-up")()
    first = ddp.solve(problem)
    again = ddp.solve(problem, guess=(first.X + 1e-13, first.U))
    assert again.iterations == 1
    assert again.gap() == 0.0


def test_a_state_that_cannot_be_stepped_from_is_an_obstacle_with_its_knot():
    system = FunctionDynamics(lambda x, u: np.sqrt(x) + u, 1, 1)
    term = type("Square", (), {"value": lambda self, x, u: float(x @ x + u @ u)})()
    X = np.ones((6, 1))
    X[3] = -1.0
    solution = ddp.solve(ddp.Problem(system, [term], [term], np.ones(1), 5), guess=(X, np.zeros((5, 1))), throw=False)
    assert "not finite at knot 3" in solution.status


@pytest.mark.parametrize("kinds", [("free-flyer", "spherical", "planar", "revolute"), ("planar",)])
def test_closing_is_the_second_order_of_the_deviation_behind_a_gap(rng, kinds):
    system = RobotDynamics(chain_of(*kinds), 0.02)
    n = system.n
    x = np.concatenate([system.robot.random_configuration(rng), rng.normal(size=system.robot.nv)])
    gap, weight = 0.8 * rng.normal(size=n), rng.normal(size=n)
    out = np.stack([np.eye(n), np.zeros((n, n))])
    reached = system.integrate(x, gap)

    def deviation(Y):
        moved = system.integrate(np.tile(reached, (len(Y), 1)), Y)
        return system.difference(np.tile(x, (len(Y), 1)), moved)

    address, context, _ = system.closing()
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(address)
    call(context, gap.ctypes.data, weight.ctypes.data, out.ctypes.data)
    np.testing.assert_allclose(out[0], derivatives(deviation, n)[0], rtol=0, atol=1e-7)
    np.testing.assert_allclose(out[1], derivatives(lambda Y: deviation(Y) @ weight, n)[1], rtol=0, atol=1e-6)


def test_flat_spaces_need_no_closing():
    assert RobotDynamics(dynamics.load("ur5"), 0.01).closing().address == 0
    assert FunctionDynamics(lambda x, u: x, 1, 1).closing().address == 0

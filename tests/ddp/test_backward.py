"""The compiled sweep against dense algebra, and against the optimality of a linear-quadratic problem."""

from typing import NamedTuple

import numpy as np
import pytest
from oracles import chain_of
from recursion import dense_sweep as dense_recursion
from systems import Quadratic
from thorough import cases

import ddp
from ddp.derivatives import Derivatives
from ddp.sweeps.backward import Backward
from ddp.sweeps.outcome import AUTO, COSTATE, VALUE
from dynamics.steps.function_dynamics import FunctionDynamics
from dynamics.steps.robot_dynamics import RobotDynamics


def tensors(n: int, nu: int) -> FunctionDynamics:
    """A system whose records are the tensors (n, nz, nz) of its second order."""
    return FunctionDynamics(lambda x, u: x, n, nu, derivatives="differences")


def random_derivatives(rng: np.random.Generator, N: int, n: int, nu: int) -> Derivatives:
    nz = n + nu

    def definite(count: int) -> np.ndarray:
        G = rng.normal(size=(count, nz, nz))
        return G @ G.transpose(0, 2, 1) + np.eye(nz)

    T = 0.01 * rng.normal(size=(N, n, nz, nz))
    return Derivatives(
        A=np.eye(n) + 0.1 * rng.normal(size=(N, n, n)),
        B=rng.normal(size=(N, n, nu)),
        record=np.ascontiguousarray(T + T.swapaxes(-1, -2)).reshape(N, -1),
        l=np.zeros(N + 1),
        lz=rng.normal(size=(N + 1, nz)),
        lzz=definite(N + 1),
        exact=definite(N + 1),
        diagonal=np.full((N + 1, nz), np.nan),
        dual=np.zeros(0),
    )


def dense_sweep(d: Derivatives, blend: float, mu: float) -> tuple[np.ndarray, np.ndarray, float]:
    """The textbook recursion, one numpy expression a line."""
    N, n, nu = d.B.shape
    H = d.lzz + blend * (d.exact - d.lzz)
    T = d.record.reshape(N, n, n + nu, n + nu)
    v, V = d.lz[N, :n], H[N, :n, :n] + mu * np.eye(n)
    k, K, d0 = np.zeros((N, nu)), np.zeros((N, nu, n)), 0.0
    for t in reversed(range(N)):
        F = np.hstack([d.A[t], d.B[t]])
        q = d.lz[t] + F.T @ v
        Q = H[t] + F.T @ V @ F + blend * np.tensordot(v, T[t], axes=1)
        Quu = Q[n:, n:] + mu * np.eye(nu)
        k[t], K[t] = -np.linalg.solve(Quu, q[n:]), -np.linalg.solve(Quu, Q[n:, :n])
        d0 -= float(q[n:] @ k[t])
        v, V = q[:n] + K[t].T @ q[n:], Q[:n, :n] + K[t].T @ Q[n:, :n] + mu * np.eye(n)
    return k, K, d0


@pytest.mark.parametrize(("n", "nu"), [(1, 1), (2, 1), (4, 1), (3, 3), (5, 3), (12, 6), (36, 12)])
@pytest.mark.parametrize(("blend", "mu"), [(0.0, 0.0), (0.25, 0.1), (1.0, 1e-9)])
def test_the_sweep_is_the_textbook_recursion_for_every_size(rng, n, nu, blend, mu):
    d = random_derivatives(rng, 20, n, nu)
    dynamics = tensors(n, nu)
    k, K, d0 = dense_sweep(d, blend, mu)
    sweep = Backward(d, dynamics)(blend, mu)
    assert sweep.failed == -1
    np.testing.assert_allclose(sweep.k, k, rtol=0, atol=1e-10 * np.abs(k).max())
    np.testing.assert_allclose(sweep.K, K, rtol=0, atol=1e-10 * np.abs(K).max())
    assert sweep.d0 == pytest.approx(d0, rel=1e-10)
    assert sweep.expected == pytest.approx(0.5 * d0, rel=1e-10)


@pytest.mark.parametrize(("n", "nu"), [(2, 1), (4, 1), (4, 2)])
def test_an_indefinite_hessian_is_reported_with_its_knot(rng, n, nu):
    d = random_derivatives(rng, 20, n, nu)
    d.lzz[13] = -1e6 * np.eye(n + nu)
    backward = Backward(d, tensors(n, nu))
    assert backward(0.0, 0.0).failed == 13
    assert backward.curvature()[0] < -1e5


@pytest.mark.parametrize(("n", "nu"), [(2, 1), (4, 1), (4, 2)])
@pytest.mark.parametrize("where", ["A", "lz", "lzz"])
def test_a_nan_anywhere_fails_the_sweep(rng, where, n, nu):
    d = random_derivatives(rng, 20, n, nu)
    getattr(d, where)[7] = np.nan
    assert Backward(d, tensors(n, nu))(0.0, 0.0).failed >= 6


@pytest.mark.parametrize(("n", "nu"), [(2, 1), (4, 1), (4, 2)])
@pytest.mark.parametrize("knot", [0, 7, 19])
def test_a_gradient_that_is_no_number_is_not_taken_for_zero(rng, knot, n, nu):
    d = random_derivatives(rng, 20, n, nu)
    for array in (d.B, d.lzz):
        array[:] = 0.0
    d.lzz[:] = np.eye(n + nu)
    d.lz[knot, n:] = np.nan  # nothing but the gradient itself depends on it
    sweep = Backward(d, tensors(n, nu))(0.0, 0.0)
    assert np.isnan(sweep.gradient)


def test_a_linear_quadratic_problem_is_solved_in_one_step_as_its_optimality_conditions_say(rng):
    n, nu, N = 3, 2, 8
    A, B, c = np.eye(n) + 0.3 * rng.normal(size=(n, n)), rng.normal(size=(n, nu)), rng.normal(size=n)
    stage = Quadratic(rng.uniform(0.5, 2.0, n + nu), rng.normal(size=n + nu))
    last = Quadratic(rng.uniform(0.5, 2.0, n + nu), rng.normal(size=n + nu))
    dynamics = FunctionDynamics(lambda x, u: A @ x + B @ u + c, n, nu)
    x0 = rng.normal(size=n)
    problem, zeros = ddp.Problem(dynamics, [stage], [last], x0, N), np.zeros((N, nu))
    solution = ddp.solve(problem, guess=(dynamics.rollout(x0, zeros), zeros))

    size = N * nu  # X = free + M U, then the normal equations in U
    M, free = np.zeros((N + 1, n, size)), np.zeros((N + 1, n))
    free[0] = x0
    for t in range(N):
        free[t + 1] = A @ free[t] + c
        M[t + 1] = A @ M[t]
        M[t + 1, :, t * nu : (t + 1) * nu] += B
    H, g = np.zeros((size, size)), np.zeros(size)
    for t in range(N + 1):
        term = stage if t < N else last
        H += M[t].T @ np.diag(term.weights[:n]) @ M[t]
        g += M[t].T @ (term.weights[:n] * (free[t] - term.target[:n]))
        if t < N:
            own = slice(t * nu, (t + 1) * nu)
            H[own, own] += np.diag(term.weights[n:])
            g[own] -= term.weights[n:] * term.target[n:]
    U = -np.linalg.solve(H, g).reshape(N, nu)

    np.testing.assert_allclose(solution.U, U, rtol=0, atol=1e-8)
    np.testing.assert_allclose(solution.X, free + M @ U.ravel(), rtol=0, atol=1e-8)
    assert solution.iterations <= 2
    assert solution.history[0].step == 1.0
    assert solution.history[0].expected == pytest.approx(
        dynamics_cost(solution, np.zeros((N, nu))) - solution.cost, rel=1e-7
    )


def dynamics_cost(solution: ddp.Solution, U: np.ndarray) -> float:
    return solution.problem.cost(solution.problem.dynamics.rollout(solution.problem.x0, U), U)


class Bent(NamedTuple):
    """Linear algebra in place of dynamics: random derivatives on the manifold of some robot."""

    derivatives: Derivatives
    closing_of: RobotDynamics | FunctionDynamics

    @property
    def n(self) -> int:
        return self.derivatives.A.shape[1]

    def contract(self, record: np.ndarray, weight: np.ndarray, out: np.ndarray) -> None:
        """Contract all knots."""
        for t in range(len(weight)):
            out[t] = self.contracted(t, weight[t])

    def contracted(self, t: int, weight: np.ndarray) -> np.ndarray:
        nz = self.derivatives.lz.shape[1]
        return np.tensordot(weight, self.derivatives.record[t].reshape(self.n, nz, nz), axes=1)

    def contraction(self):
        return tensors(self.n, self.derivatives.B.shape[2]).contraction()

    def closing(self):
        return self.closing_of.closing()


def on_manifold(rng, kinds, nu, N=12):
    """A random problem with gaps."""
    robot = RobotDynamics(chain_of(*kinds), 0.01) if kinds else tensors(5, nu)
    return Bent(random_derivatives(rng, N, robot.n, nu), robot), 0.3 * rng.normal(size=(N, robot.n))


SPACES = [(), ("revolute", "spherical"), ("free-flyer",), ("planar", "revolute", "free-flyer", "revolute", "spherical")]


def assert_same(sweep, k, K, expected):
    assert sweep.failed == -1
    np.testing.assert_allclose(k, expected.k, rtol=0, atol=1e-11 * np.abs(expected.k).max())
    np.testing.assert_allclose(K, expected.K, rtol=0, atol=1e-11 * np.abs(expected.K).max())
    scale = abs(expected.d0) + abs(expected.expected)
    assert sweep.d0 == pytest.approx(expected.d0, abs=1e-10 * scale)
    assert sweep.expected == pytest.approx(expected.expected, abs=1e-10 * scale)


SIZES = [(kinds, nu) for kinds in SPACES for nu in (1, 4, 7, 13, 32)]


@pytest.mark.parametrize(
    ("kinds", "nu"), cases(SIZES, [(SPACES[0], 1), (SPACES[1], 13), (SPACES[2], 4), (SPACES[3], 32)])
)
def test_open_gaps_on_manifolds_are_those_of_the_textbook_recursion(rng, kinds, nu):
    system, gaps = on_manifold(rng, kinds, nu)
    gaps[3] = 0.0
    for multipliers in (VALUE, COSTATE):
        backward = Backward(system.derivatives, system, multipliers)
        backward.gaps = gaps
        for blend, mu in ((0.0, 0.0), (0.3, 10.0), (1.0, 50.0)):
            expected = dense_recursion(
                system.derivatives, system.contracted, system.closing(), blend, mu, gaps,
                by_costate=multipliers == COSTATE,
            )  # fmt: skip
            sweep = backward(blend, mu)
            assert_same(sweep, sweep.k, sweep.K, expected)


SMALL = [(kinds, nu) for kinds in SPACES[:3] for nu in (1, 2, 4)]


@pytest.mark.parametrize(("kinds", "nu"), cases(SMALL, [(SPACES[0], 1), (SPACES[1], 2), (SPACES[2], 4)]))
@pytest.mark.parametrize("torn", [False, True])
def test_controls_are_held_where_the_minimum_of_the_whole_horizon_has_them(rng, kinds, nu, torn):
    system, gaps = on_manifold(rng, kinds, nu)
    low, high = -rng.uniform(0.0, 0.3, size=(12, nu)), rng.uniform(0.0, 0.3, size=(12, nu))
    low[5], high[6] = -np.inf, np.inf
    backward = Backward(system.derivatives, system, COSTATE, limited=True)
    backward.gaps = gaps if torn else 0.0 * gaps
    backward.limits = low, high
    for blend, mu in ((0.0, 0.0), (0.3, 0.1), (1.0, 1e-9)):
        sweep = backward(blend, mu)
        side = backward._horizon.held
        held = np.where(side == 0.0, np.nan, np.where(side < 0.0, low, high))
        expected = dense_recursion(
            system.derivatives, system.contracted, system.closing(), blend, mu, backward.gaps, held, by_costate=True
        )  # fmt: skip
        assert_same(sweep, sweep.k, sweep.K, expected)
        assert (side != 0).any()
        assert not sweep.K[side != 0].any()
        assert ((expected.u >= low - 1e-11) & (expected.u <= high + 1e-11)).all()
        assert (expected.pull * side <= 1e-11 * np.abs(expected.pull).max()).all()


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("torn", [False, True])
def test_whatever_is_indefinite_or_no_number_fails_at_its_knot(rng, limited, torn):
    for where, poison in (("lzz", -1e6), ("lzz", np.nan), ("A", np.nan)):
        system, gaps = on_manifold(rng, ("free-flyer",), 4)
        getattr(system.derivatives, where)[7] = poison * np.eye(len(getattr(system.derivatives, where)[7]))
        backward = Backward(system.derivatives, system, limited=limited)
        backward.gaps = gaps if torn else 0.0 * gaps
        assert backward(0.0, 0.0).failed == (7 if where == "lzz" else 6)


def test_curvature_is_that_of_the_knot_that_failed(rng):
    system, _ = on_manifold(rng, (), 3)
    d = system.derivatives
    d.lzz[11, 5:, 5:] = np.diag([1.0, -1e4, 2.0])
    backward = Backward(d, system)
    assert backward(0.0, 0.5).failed == 11
    V = d.lzz[12, :5, :5] + 0.5 * np.eye(5)
    smallest = np.linalg.eigvalsh(d.lzz[11, 5:, 5:] + d.B[11].T @ V @ d.B[11] + 0.5 * np.eye(3))[0]
    assert backward.curvature() == (pytest.approx(smallest, rel=1e-12), 1)


@pytest.mark.parametrize("blend", [0.0, 0.3, 1.0])
def test_diagonal_hessians_may_be_named_as_such(rng, blend):
    derivatives = random_derivatives(rng, 9, 5, 3)
    diagonal = np.einsum("kii->ki", derivatives.lzz).copy()
    derivatives = derivatives._replace(lzz=diagonal[:, :, None] * np.eye(8), exact=diagonal[:, :, None] * np.eye(8))
    system = tensors(5, 3)
    dense = Backward(derivatives, system)(blend, 1e-3)
    k, K = dense.k.copy(), dense.K.copy()
    backward = Backward(derivatives._replace(diagonal=diagonal), system)
    backward.coupled = np.zeros(10, dtype=np.int64)
    derivatives.lzz[:], derivatives.exact[:] = np.nan, np.nan  # and nobody reads the others then
    sweep = backward(blend, 1e-3)
    np.testing.assert_allclose(sweep.k, k, rtol=0, atol=1e-13 * np.abs(k).max())
    np.testing.assert_allclose(sweep.K, K, rtol=0, atol=1e-13 * np.abs(K).max())


def test_costates_are_asked_again_after_a_sweep_with_the_value(rng):
    system, _ = on_manifold(rng, (), 3)
    backward = Backward(system.derivatives, system, AUTO)
    K = backward(1.0, 1.0, costates=True).K.copy()
    assert not np.array_equal(backward(1.0, 1.0).K, K)
    assert np.array_equal(backward(1.0, 1.0, costates=True).K, K)


@pytest.mark.parametrize("multipliers", [VALUE, COSTATE])
def test_a_second_order_that_is_kept_is_the_same_across_gaps(rng, multipliers):
    system, gaps = on_manifold(rng, ("free-flyer",), 4)
    backward = Backward(system.derivatives, system, multipliers, reuse=2)
    backward.gaps = gaps
    first = backward(1.0, 10.0)
    k, K = first.k.copy(), first.K.copy()
    again = backward(1.0, 10.0)
    assert (first.failed, again.failed) == (-1, -1)
    assert np.array_equal(again.k, k)
    assert np.array_equal(again.K, K)

"""Gains where constraints bind, against the whole quadratic program of what is left of the horizon."""

from __future__ import annotations

import numpy as np
import pytest
from thorough import cases

import ddp
from dynamics import FunctionDynamics
from problems import find
from tests.benchmarks.optimisers import limited
from tests.ddp.constrained_systems import on_a_rail
from tests.ddp.systems import Quadratic


class Rows:
    """``lower <= G z <= upper``."""

    def __init__(self, G, lower, upper):
        self.G, self.lower, self.upper = np.atleast_2d(G), np.atleast_1d(lower), np.atleast_1d(upper)

    def values(self, X, U):
        return np.hstack([X, U]) @ self.G.T

    def jacobian(self, X, U):
        return np.broadcast_to(self.G, (len(X), *self.G.shape))

    def curvature(self, X, U, weight):
        return np.zeros((len(X), self.G.shape[1], self.G.shape[1]))


def linear(seed):
    """A linear system with rows of all kinds, some twice, around a motion; weights of controls differ by up to 1e8."""
    rng = np.random.default_rng(seed)
    n, nu, N = (int(number) for number in rng.integers([2, 1, 5], [5, 4, 11]))
    A, B = np.eye(n) + 0.2 * rng.normal(size=(n, n)), rng.normal(size=(n, nu))
    U, X, E = 0.5 * rng.normal(size=(N, nu)), [rng.normal(size=n)], rng.normal(size=n + nu)
    for u in U:
        u -= E[n:] * (E @ np.concatenate([X[-1], u])) / (E[n:] @ E[n:])  # so that E z = 0
        X.append(A @ X[-1] + B @ u)
    constraints = []
    for kind in rng.permutation(["mixed", "mixed", "states", "equal"])[: int(rng.integers(1, 4))]:
        G = E if kind == "equal" else rng.normal(size=n + nu) * np.repeat([1.0, kind != "states"], [n, nu])
        most = 0.0 if kind == "equal" else np.abs(np.hstack([X[:-1], U]) @ G).max()
        if kind != "equal" or nu > 1:
            rows = [Rows(scale * G, -scale * most, scale * most) for scale in 10.0 ** rng.uniform(-1.0, 1.0, 2)]
            constraints += rows[: int(rng.integers(1, 3))]
    weights = np.concatenate([10.0 ** rng.uniform(-1.0, 1.0, n), 10.0 ** rng.uniform(-4.0, 4.0, nu)])
    cost, no_curvature = Quadratic(weights, rng.normal(size=n + nu)), np.zeros((n + nu, n + nu))
    system = FunctionDynamics(
        lambda x, u: A @ x + B @ u, n, nu, derivatives="differences",
        jacobian=lambda x, u: (A, B), hessian=lambda x, u, weight: no_curvature,
    )  # fmt: skip
    limits = (-np.abs(U).max(), np.abs(U).max()) if rng.random() < 0.5 else None
    return ddp.Problem(system, [cost], [cost], X[0], N, constraints=constraints, control_limits=limits), weights, A, B


def exact_gain(problem, solution, weights, A, B, begin):
    """du/dx at a knot, of what is left of the horizon with what binds held, in null spaces; None if not all can be."""
    n, nu, left = len(A), B.shape[1], problem.horizon - begin
    maps, rows, H, g = np.eye(n, n + left * nu), [], 0.0, 0.0
    for t in range(left + 1):
        own = np.zeros((nu, n + left * nu))
        if t < left:
            own[:, n + t * nu : n + (t + 1) * nu] = np.eye(nu)
        Z = np.vstack([maps, own])
        H, g = H + (Z[:, n:].T * weights) @ Z[:, n:], g + (Z[:, n:].T * weights) @ Z[:, :n]
        for residual, placed in zip(solution.residuals(), problem.placed, strict=True):
            if begin + t in residual.knots:
                y = residual.multipliers[begin + t - residual.knots[0]]
                rows += list(placed.constraint.G[(y != 0.0) | (placed.constraint.lower == placed.constraint.upper)] @ Z)
        if t < left:
            held = (solution.U[begin + t] <= problem.lower[begin + t]) | (
                solution.U[begin + t] >= problem.upper[begin + t]
            )
            rows += list(own[held])
            maps = A @ maps + B @ own
    rows = np.array(rows).reshape(-1, n + left * nu)
    u, s, v = np.linalg.svd(rows[:, n:])
    rank = int((s > 1e-10 * s.max(initial=1e-300)).sum())
    first = -v[:rank].T @ (u[:, :rank].T @ rows[:, :n] / s[:rank, None])
    if rows.size and np.abs(rows[:, n:] @ first + rows[:, :n]).max() > 1e-9:
        return None
    null = v[rank:].T
    size = 1.0 / np.sqrt(np.diag(null.T @ H @ null))
    free = size[:, None] * np.linalg.solve(
        size[:, None] * (null.T @ H @ null) * size, size[:, None] * null.T @ (g + H @ first)
    )
    return (first - null @ free)[:nu]


@pytest.mark.parametrize("seed", range(cases(40, 9)))
def test_gains_are_those_of_the_quadratic_program_where_rows_bind(seed):
    problem, *own = linear(seed)
    solution, compared = ddp.solve(problem), 0
    for k in range(problem.horizon):
        K = exact_gain(problem, solution, *own, k)
        if K is not None:
            np.testing.assert_allclose(solution.K[k], K, rtol=0.0, atol=1e-7 * max(1.0, np.abs(K).max()))
            compared += 1
    assert compared > 0


@pytest.mark.parametrize("make", [on_a_rail, find("rocket/landing")])
def test_policies_keep_what_binds_to_second_order_from_wherever_that_can_be_kept(make, rng):
    """Before the last knots, in which few controls cannot meet all that is asked of the end."""
    problem = make()
    solution, d, begin = ddp.solve(problem), problem.dynamics, problem.horizon - 6
    holds = (solution.multipliers != 0.0) & (problem.rows.knot > begin) & ~problem.rows.soft
    dx, missed = rng.normal(size=d.n), []
    for size in (1e-5, 1e-6):
        X, U = solution.X.copy(), solution.U.copy()
        X[begin] = d.integrate(X[begin], size * dx)
        for t in range(begin, problem.horizon):
            U[t] += solution.K[t] @ d.difference(solution.X[t], X[t])
            X[t + 1] = d.step(X[t], U[t], t)
        missed.append(np.abs((problem.rows.values(X, U) - problem.rows.values(solution.X, solution.U))[holds]).max())
    assert holds.any()
    assert missed[1] <= 0.02 * missed[0] + 1e-12


def test_without_a_last_sweep_the_motion_is_the_same_and_gains_are_nearly():
    problem = on_a_rail()
    exact, nearly = ddp.solve(problem), ddp.solve(problem, ddp.DDP(last_sweep=False))
    assert nearly.converged
    assert nearly.violation < 1e-8
    np.testing.assert_allclose(nearly.U, exact.U, rtol=0.0, atol=1e-6 * np.abs(exact.U).max())
    assert not np.array_equal(nearly.K, exact.K)


def test_gains_of_what_binds_leave_no_traces_in_memory_that_the_next_solve_uses():
    problem = limited.cluttered_reach()
    first, second = (ddp.solve(problem, ddp.DDP(constraints=None)) for _ in range(2))
    assert first.iterations == second.iterations
    for name in ("X", "U", "K", "multipliers"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))

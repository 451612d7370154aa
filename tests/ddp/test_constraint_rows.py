"""Rows of constraints as one vector: values, Jacobians and curvature against the constraints one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ddp
from ddp.constraints import row_table
from ddp.constraints.rows import compiled
from tests.ddp.systems import pendulum

GIVEN = [
    ddp.Inequality(lambda x, u: np.array([x[1], u[0]]), lower=[-4.0, -3.0], upper=[4.0, np.inf]),
    ddp.Inequality(lambda x, u: np.array([x[0] * u[0], np.sin(x[0]), x[1] ** 2 * u[0]]), upper=[1.0, 0.5, 2.0]),
    ddp.Inequality(lambda x, u: x[0] * x[1], derivatives="differences"),
]


@pytest.fixture(scope="module")
def problem():
    """All kinds: a column for each row, traced, in Python; at all knots, at a stretch, at one, at the end."""
    return replace(
        pendulum(), terminal=[], constraints=GIVEN, control_limits=(-5.0, [7.0]),
        constraints_at={range(3, 8): [GIVEN[1]], 5: [GIVEN[0]]},
        terminal_constraints=[ddp.Equality(lambda x, u: x[0] - np.pi)],
    )  # fmt: skip


@pytest.fixture(scope="module")
def trajectory(problem):
    rng = np.random.default_rng(3)
    return rng.normal(size=(problem.horizon + 1, 2)), rng.normal(size=(problem.horizon, 1))


def dense(rows, X, U):
    """The Jacobian (m, N+1, nz) of every row, from the constraints one by one."""
    J = np.zeros((rows.size, len(X), rows.nz))
    for entry in rows.placed:
        knots = slice(entry.start, entry.stop)
        own = entry.constraint.jacobian(X[knots], U[knots])
        for k in range(entry.stop - entry.start):
            first = entry.first + k * own.shape[1]
            J[first : first + own.shape[1], entry.start + k] = own[k]
    return J


def test_rows_are_the_constraints_one_by_one(problem, trajectory):
    X, U = trajectory
    rows, padded = problem.limited_rows, problem.padded(U)
    assert compiled(rows.placed[0].constraint).diagonal
    assert compiled(rows.placed[2].constraint) is None
    J, rng = dense(rows, X, padded), np.random.default_rng(4)
    y, w, dX, dU = rng.normal(size=rows.size), rng.random(rows.size), rng.normal(size=X.shape), rng.normal(size=U.shape)
    c, own = rows.values(X, U), rows.jacobian(X, U)
    curvature, H = np.zeros((len(X), 3, 3)), np.zeros((len(X), 3, 3))
    rows.add_curvature(X, U, y, H)
    for entry in rows.placed:
        knots = slice(entry.start, entry.stop)
        np.testing.assert_array_equal(entry.own(c), entry.constraint.values(X[knots], padded[knots]))
        curvature[knots] += entry.constraint.curvature(X[knots], padded[knots], entry.own(y))
    np.testing.assert_allclose(H, curvature, atol=1e-13)
    force, squares, none = np.zeros((len(X), 3)), np.zeros((len(X), 3, 3)), np.zeros((len(X), 3))
    rows.add_forces(own, y, force)
    row_table.add_squares(rows.table, own, w, np.zeros(len(X), dtype=bool), squares, none)
    np.testing.assert_allclose(force, np.einsum("mka,m->ka", J, y), atol=1e-13)
    np.testing.assert_allclose(squares, np.einsum("mka,m,mkb->kab", J, w, J), atol=1e-12)
    assert not none.any()
    dz, moved = np.concatenate([dX, problem.padded(dU)], axis=1), np.empty(rows.size)
    row_table.along(rows.table, own, dX, dU, moved)
    np.testing.assert_allclose(moved, np.einsum("mka,ka->m", J, dz), atol=1e-13)


def test_rows_with_columns_of_their_own_add_to_diagonals(problem, trajectory):
    X, U = trajectory
    rows = replace(problem, constraints=GIVEN[:1], constraints_at={}, terminal_constraints=[]).limited_rows
    assert rows.separable.all()
    w = np.random.default_rng(5).random(rows.size)
    J, H, diagonal = rows.jacobian(X, U), np.zeros((len(X), 3, 3)), np.zeros((len(X), 3))
    row_table.add_squares(rows.table, J, w, rows.separable, H, diagonal)
    assert not H.any()
    own = dense(rows, X, problem.padded(U))
    np.testing.assert_allclose(diagonal, np.einsum("mka,m,mka->ka", own, w, own), atol=1e-13)
    knots, own_rows = rows.knot[rows.constraint == 1], rows.lower[rows.constraint == 1]
    np.testing.assert_array_equal(knots, np.arange(problem.horizon))
    np.testing.assert_array_equal(own_rows, np.full(problem.horizon, -5.0))


class Slow:
    """``-1 <= (speed, torque) <= 1``, by methods of one's own."""

    lower, upper = np.full(2, -1.0), np.ones(2)

    def values(self, X, U):
        return np.hstack([X[:, 1:], U])

    def jacobian(self, X, U):
        return np.tile(np.eye(3)[1:], (len(X), 1, 1))

    def curvature(self, X, U, weight):
        return np.zeros((len(X), 3, 3))


class Writing(Slow):
    """Limits of `Slow` by methods that write on their arguments and return a part of them."""

    def values(self, X, U):
        X[:, 0], c = X[:, 1], super().values(X, U)
        X[:] = c
        return X

    def jacobian(self, X, U):
        X[:], U[:] = 7.0, 7.0
        return super().jacobian(X, U)

    def curvature(self, X, U, weight):
        X[:], U[:], weight[:] = 7.0, 7.0, 7.0
        return super().curvature(X, U, weight)


@pytest.mark.parametrize("step", ["linear", "rollout"])
def test_constraints_of_ones_own_may_write_on_what_they_are_given(step):
    cost = {"running": [lambda x, u: 0.5 * u @ u], "terminal": [lambda x, u: 50.0 * (x[0] - 0.5) ** 2 + x[1] ** 2]}
    known, own = (
        ddp.solve(replace(pendulum(horizon=20), constraints=[given], **cost), ddp.DDP(step=step))
        for given in (Slow(), Writing())
    )
    assert known.converged
    assert np.array_equal(known.U, own.U)


@pytest.mark.parametrize("step", ["linear", "rollout"])
@pytest.mark.parametrize(
    ("name", "wrong", "shapes"),
    [
        ("jacobian", lambda X, U: np.ones((len(X), 3, 2)), r"\(20, 2, 3\), got \(20, 3, 2\)"),
        ("curvature", lambda X, U, weight: np.ones((3, 3)), r"\(\d+, 3, 3\), got \(3, 3\)"),
    ],
)
def test_derivatives_of_ones_own_constraints_of_another_shape_are_named(name, wrong, shapes, step):
    own = Slow()
    setattr(own, name, wrong)
    with pytest.raises(ddp.ProblemError, match=rf"constraints\[0\] \(Slow\): {name}: expected shape {shapes}"):
        ddp.solve(replace(pendulum(horizon=20), constraints=[own]), ddp.DDP(step=step))


@pytest.mark.parametrize("step", ["linear", "rollout"])
def test_what_functions_in_python_read_may_change_between_questions(step):
    read = {"scale": 0.5}
    fast = ddp.Inequality(lambda x, u: x[1] * read["scale"], upper=0.4, derivatives="differences")
    cost = {"running": [lambda x, u: 0.5 * u @ u], "terminal": [lambda x, u: 50.0 * (x[0] - 0.5) ** 2 + x[1] ** 2]}
    problem = replace(pendulum(horizon=20), constraints=[fast], **cost)
    found = ddp.solve(problem, ddp.DDP(step=step))
    slowest, twice = problem.violation(found.X, found.U), (2.0 * 0.5 * found.X[:, 1]).max() - 0.4
    read["scale"] = 1.0
    assert slowest < 1e-6 < 0.1 < twice
    assert problem.violation(found.X, found.U) == pytest.approx(twice)
    assert problem.residuals(found.X, found.U)[0].worst == pytest.approx(twice)
    again, anew = (ddp.solve(p, ddp.DDP(step=step), found) for p in (problem, replace(problem)))
    assert np.array_equal(again.U, anew.U)

"""Rows of barriers in registers beside rows one by one, and their steps beside formulas of NumPy."""

import numpy as np
import pytest

from ddp.interior import row_steps
from ddp.interior.barrier import Barrier
from ddp.interior.row_steps import ABOVE, BELOW, BOUNDED, NU, S

ROUNDED = {"rtol": 1e-11, "atol": 1e-13}
M, KEEP = 0.01, 0.99


def rows(rng, size, mixed):
    """Bounds of one or both sides at slacks off centre; mixed: free rows, equalities and rows that give way, too."""
    lower, upper = -0.1 - rng.random(size), 0.1 + rng.random(size)
    side = rng.random(size)
    lower[side < 0.3], upper[side > 0.6] = -np.inf, np.inf
    price, compliance = np.full(size, np.inf), np.zeros(size)
    if mixed:
        kind = rng.integers(0, 20, size)
        lower[kind == 0], upper[kind == 0] = -np.inf, np.inf
        upper[kind == 1] = lower[kind == 1] = 0.3
        price[kind == 2], compliance[kind == 3] = 10.0, 0.1
    b = Barrier(lower, upper, price, compliance)
    inside = np.clip(rng.normal(size=size), np.maximum(lower, -3.0) + 0.01, np.minimum(upper, 3.0) - 0.01)
    b.start(np.where(b.bounded, inside, 0.0), inside + 0.1 * rng.normal(size=size), M)
    for side in (BELOW, ABOVE):
        b.state[side] *= np.exp(rng.normal(size=size))
    return b


def passes(b, plain, residual, along, alpha):
    """All that the kernels make of some rows."""
    w, f, step, left = b.w.copy(), b.f.copy(), np.zeros_like(b.state), np.zeros(b.size)
    row_steps.condense(b.state, b.bounds, b.kind, plain, b.give, M, 1e-8, residual, w, f)
    lengths = row_steps.steps(b.state, b.bounds, b.kind, plain, b.give, M, residual, w, f, along, KEEP, step)
    made = [w, f, step, *lengths, *row_steps.errors(b.state, b.bounds, b.kind, plain, b.give)]
    for share in (alpha * lengths[0], 1.0):
        primal = b.state[:3] + share * step[:3]
        for settle in (False, True):
            penalty = row_steps.evaluate(along, primal, b.bounds, b.kind, plain, b.give, M, left, settle)
            made += [penalty, primal.copy(), left.copy()]
    for share in (alpha, 1.0):
        state = b.state.copy()
        state[S] += alpha * lengths[0] * step[S]
        row_steps.move(state, b.bounds, b.kind, plain, b.give, M, step, share, lengths[1])
        made.append(state)
    return made


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("size", [1, 7, 8, 9, 40, 203])
def test_rows_in_registers_are_as_rows_one_by_one(size, mixed):
    rng = np.random.default_rng(size + 1000 * mixed)
    for _ in range(10):
        b = rows(rng, size, mixed)
        residual, along, alpha = 0.1 * rng.normal(size=size), 0.3 * rng.normal(size=size), rng.random()
        assert b.plain.any() or size < 8 or mixed
        for of_registers, of_rows in zip(
            passes(b, b.plain, residual, along, alpha), passes(b, 0 * b.plain, residual, along, alpha), strict=True
        ):
            np.testing.assert_allclose(of_registers, of_rows, **ROUNDED)


def test_rows_are_plain_where_eight_are_bounded_and_none_gives_way():
    rng = np.random.default_rng(0)
    for _ in range(20):
        b = rows(rng, 60, True)
        own = (b.kind == BOUNDED) & ~b.soft
        assert b.plain.tolist() == [i + 8 <= 60 and own[i : i + 8].all() for i in range(60)]
        b.start_elastic(5.0, np.arange(60) == 30, b.slacks, M)
        assert not b.plain[23:31].any()
        b.end_elastic()
        assert b.plain.tolist() == [i + 8 <= 60 and own[i : i + 8].all() for i in range(60)]


def test_steps_solve_the_linear_system_of_bounds_and_go_as_far_as_all_stay_positive():
    rng = np.random.default_rng(1)
    b = rows(rng, 64, False)
    residual, along, step = 0.1 * rng.normal(size=64), 0.3 * rng.normal(size=64), np.zeros_like(b.state)
    row_steps.condense(b.state, b.bounds, b.kind, b.plain, b.give, M, 1e-8, residual, b.w, b.f)
    longest, dual, _ = row_steps.steps(
        b.state, b.bounds, b.kind, b.plain, b.give, M, residual, b.w, b.f, along, KEEP, step
    )
    np.testing.assert_allclose(step[S], along + residual, rtol=1e-15)
    y = b.state[ABOVE] - b.state[BELOW] + step[ABOVE] - step[BELOW]
    np.testing.assert_allclose(y, b.f + b.w * along, **ROUNDED)
    positive = []
    with np.errstate(invalid="ignore", divide="ignore"):
        for x, dx in (
            (b.slacks - b.lower, step[S]), (b.upper - b.slacks, -step[S]), (b.state[BELOW], step[BELOW]),
            (b.state[ABOVE], step[ABOVE]),
        ):  # fmt: skip
            positive.append(np.where(dx < 0.0, -KEEP * x / dx, np.inf).min())
    assert not step[NU].any()
    np.testing.assert_allclose([longest, dual], [min(1.0, *positive[:2]), min(1.0, *positive[2:])], rtol=1e-14)

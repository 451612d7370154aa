"""Compiled steps to ends of motions, their choice, and controls along straight ways, beside dense algebra."""

import numpy as np
import pytest

from ddp.posture_kernels import DAMPED, FALL, IDLE, RISE, DampedSteps, choose, keep_to


def bent(x, target):
    """A cost of x (K, n) with many minima, its gradient and Gauss-Newton Hessian."""
    r, J = np.sin(x) - target, np.cos(x)
    return 25.0 * (r * r).sum(axis=1), 50.0 * J * r, 50.0 * (J * J)[:, :, None] * np.eye(x.shape[1])


@pytest.mark.parametrize(("n", "S", "nu"), [(1, 1, 1), (3, 8, 0), (7, 9, 2), (12, 25, 6), (18, 17, 3)])
def test_damped_steps_are_those_of_dense_algebra(n, S, nu):
    random, M = np.random.default_rng(n), 3
    mean, L, Y, target = (random.normal(size=shape) for shape in ((M, 1, n), (M, n, n), (M, S, n), (n,)))
    steps = DampedSteps(mean, L, Y, nu)
    tried, best, damping, least = Y.copy(), Y.copy(), np.full((M, S), DAMPED / FALL), np.full((M, S), np.inf)
    g, H = np.zeros((M, S, n)), np.zeros((M, S, n, n))
    for _ in range(8):
        x = (mean + tried @ L.swapaxes(1, 2)).reshape(-1, n)
        np.testing.assert_allclose(steps.moves, x, rtol=0, atol=1e-9 * np.abs(x).max())
        assert not any(part.any() for part in (steps.l, steps.lz, steps.lzz))
        l, lx, lxx = bent(x, target)
        steps.l[:], steps.lz[:, :n], steps.lzz[:, :n, :n] = l, lx, lxx
        steps.lz[:, n:] = steps.lzz[:, n:] = steps.lzz[:, :, n:] = 7.0  # of controls, which ends have none of
        steps.go_on()
        f = l.reshape(M, S) + 0.5 * (tried * tried).sum(axis=2)
        better = f < least
        least, damping = np.where(better, f, least), damping * np.where(better, FALL, RISE)
        best[better], g[better] = tried[better], (lx.reshape(M, S, n) @ L + tried)[better]
        H[better] = (L.swapaxes(1, 2)[:, None] @ lxx.reshape(M, S, n, n) @ L[:, None] + np.eye(n))[better]
        damped = H.copy()
        damped.reshape(M, S, -1)[:, :, :: n + 1] *= 1.0 + damping[:, :, None]
        tried = best - np.linalg.solve(damped, g[..., None])[..., 0]
        np.testing.assert_allclose(steps.f, least, rtol=1e-9)
        np.testing.assert_allclose(steps.Y, best, rtol=0, atol=1e-9 * np.abs(best).max())


def test_points_do_not_depend_on_others_and_stay_where_costs_are_no_numbers_or_bend_downwards():
    random, n, S = np.random.default_rng(0), 5, 11
    mean, L, Y = random.normal(size=(1, 1, n)), random.normal(size=(1, n, n)), random.normal(size=(1, S, n))
    found = []
    for spoilt in ((), (2, 9)):
        steps = DampedSteps(mean, L, Y, 1)
        for _ in range(4):
            steps.l[:], steps.lz[:, :n], steps.lzz[:, :n, :n] = bent(steps.moves, 0.3)
            for i in spoilt:
                steps.l[i] = np.nan if i == 2 else steps.l[i]
                steps.lzz[i, :n, :n] -= 1e6 * np.eye(n)
            steps.go_on()
        found.append((steps.f, steps.Y))
    np.testing.assert_allclose(steps.moves[9], (mean + Y @ L.swapaxes(1, 2))[0, 9], rtol=0, atol=1e-12)
    (f, whole), (other, rest) = found
    clear = np.delete(np.arange(S), (2, 9))
    assert np.array_equal(f[:, clear], other[:, clear])
    assert np.array_equal(whole[:, clear], rest[:, clear])
    assert other[0, 2] == np.inf
    assert np.array_equal(rest[0, 9], Y[0, 9])


def test_points_that_are_chosen_are_apart_and_the_cheapest_ones():
    random, most, apart = np.random.default_rng(1), 4, 0.2
    centres = random.normal(size=(5, 3, 6))
    Y = np.repeat(centres, 4, axis=1) * (1.0 + 1e-3 * random.normal(size=(5, 12, 6)))
    f = random.uniform(1.0, 2.0, (5, 12))
    f[1, :8], f[2] = np.nan, np.inf
    chosen = np.empty((5, most), dtype=np.int64)
    choose(f, Y, apart, chosen)
    for own, cost, rows in zip(f, Y, chosen, strict=True):
        expected, left = [], np.where(np.isfinite(own), own, np.inf)
        while len(expected) < most and left.min() < np.inf:
            expected.append(int(left.argmin()))
            near = np.linalg.norm(cost - cost[expected[-1]], axis=1) <= apart * np.linalg.norm(cost[expected[-1]])
            left[near] = np.inf
        assert rows.tolist() == expected + [-1] * (most - len(expected))
    assert (chosen >= 0).sum(axis=1).tolist() == [3, 1, 0, 3, 3]


@pytest.mark.parametrize("gains", [0, 1])
@pytest.mark.parametrize(("n", "nu"), [(2, 1), (12, 6), (14, 7), (6, 3)])
def test_controls_of_straight_ways_are_least_squares(n, nu, gains):
    """In units of which each control moves states equally far; a control that moves none stays at rest."""
    random, K = np.random.default_rng(n), 5
    A, B, missed, rest = (random.normal(size=shape) for shape in ((K, n, n), (K, n, nu), (K, n), (K, nu)))
    B[1, :, 0] = 0.0
    B *= 10.0 ** random.uniform(-9.0, 9.0, nu)
    out = np.empty((K, nu, 1 + gains * n))
    keep_to(A, B, missed, rest, out)
    for t in range(K):
        sought = np.concatenate([missed[t][:, None], -A[t]], axis=1)[:, : out.shape[2]]
        sizes = np.linalg.norm(B[t], axis=0)
        units = np.where(sizes > 0.0, sizes, 1.0)
        price = np.sqrt(IDLE) * np.eye(nu)
        stacked, wanted = np.concatenate([B[t] / units, price]), np.concatenate([sought, np.zeros((nu, out.shape[2]))])
        expected = np.linalg.lstsq(stacked, wanted, rcond=None)[0] / units[:, None]
        expected[:, 0] += rest[t]
        np.testing.assert_allclose(out[t] * units[:, None], expected * units[:, None], rtol=0, atol=1e-8)
    B[2, 0, 0] = np.nan
    keep_to(A, B, missed, rest, out)
    assert np.isnan(out[2]).all()
    assert np.isfinite(np.delete(out, 2, axis=0)).all()

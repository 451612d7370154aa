"""Sweeps of eight problems in lanes against those of one, whose recursion they are, and where some of them fail."""

import ctypes

import numpy as np
import pytest
from test_sized_sweep import N, halves_of, random_derivatives, second_order, swept
from thorough import cases

from ddp.sweeps.lane_sweep import eight_sweeps, eight_sweeps_of

BLENDS = np.array([0.0, 1.0, 0.4, 0.0, 0.3, 1.0, 0.0, 0.7])


class Eight:
    """Eight random problems that are swept at once, those of ``poisoned`` knots to fail there."""

    def __init__(self, n, nu, h, bent, poisoned):
        rng = np.random.default_rng(n)
        self.how = {"h": h, "bent": bent}
        self.separable = rng.random(N + 1) < 0.5
        self.problems = [random_derivatives(rng, n, nu, h, bent) for _ in BLENDS]
        for lane, knot in poisoned.items():
            own, self.separable[knot] = self.problems[lane], False
            own.B[knot], own.lzz[knot, n, n], own.exact[knot, n, n] = 0.0, -10.0, -10.0
        orders = [second_order(rng, d, bent) for d in self.problems]
        self.T = [np.zeros_like(T) if i in poisoned else T for i, (T, _) in enumerate(orders)]
        self.seconds = [second for _, second in orders]
        self.mus, halves = rng.uniform(0.0, 0.3, size=8), halves_of(h, bent)
        sizes = n, nu, h > 0.0, len(bent)
        self.k, self.K = np.zeros((8, N * nu)), np.zeros((8, N * nu * n))
        shapes = {"x": (N + 1, n), "u": (N, nu), "costate": (N + 1, n), "weights": (N, n)}
        self.steps = {name: np.full((8, *shape), np.nan) for name, shape in shapes.items()}
        flags = self.separable.astype(np.int64)
        self.gaps = np.where(np.arange(8)[:, None, None] < 4, rng.normal(size=(8, N, n)), 0.0)
        self.sweeps = eight_sweeps((N, n, nu), self.T[0][0].shape, True, flags, halves)
        self.function = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(eight_sweeps_of(*sizes, True).address)

    def sweep(self, order):
        """Failed knots, k, K, decreases and largest slopes, with the problems in some order among the lanes."""
        for lane, i in enumerate(order):
            for name in ("A", "B", "lz", "lzz", "exact", "diagonal"):
                getattr(self.sweeps, name)[lane] = getattr(self.problems[i], name).ctypes.data
            self.sweeps.T[lane], self.sweeps.blends[lane] = self.T[i].ctypes.data, BLENDS[i]
            self.sweeps.mus[lane] = self.mus[i]
            self.sweeps.gaps[lane] = self.gaps[i].ctypes.data
            for name, values in self.steps.items():
                getattr(self.sweeps, name)[lane] = values[i].ctypes.data
            self.sweeps.k[lane], self.sweeps.K[lane] = self.k[lane].ctypes.data, self.K[lane].ctypes.data
        self.function(self.sweeps.address, 0, 0, 0)
        s, back = self.sweeps, np.argsort(order)
        return tuple(found[back].copy() for found in (s.failed, self.k, self.K, -s.change, s.steepest))


KINDS = [(2, 1, 0.0, []), (4, 2, 0.1, []), (4, 3, 0.0, [])]
SIZES = pytest.mark.parametrize(("n", "nu", "h", "bent"), cases(KINDS, KINDS[:2]))


@pytest.mark.parametrize("torn", [False, True])
@SIZES
def test_eight_sweeps_are_those_of_each_problem(n, nu, h, bent, torn):
    eight = Eight(n, nu, h, bent, {3: 4, 5: 0, 6: N - 1})
    eight.sweeps.linear = torn
    found = eight.sweep(np.arange(8))
    for i, d in enumerate(eight.problems):
        how = {"T": eight.T[i], "blend": BLENDS[i], "mu": eight.mus[i], "gaps": eight.gaps[i] if torn else None}
        alone = swept(d, eight.separable, **eight.how, **how)
        failed, k, K, promised, steepest = (part[i] for part in found)
        assert failed == alone[0]
        if failed < 0:
            np.testing.assert_allclose(k.reshape(N, nu), alone[1], rtol=1e-11, atol=1e-11)
            np.testing.assert_allclose(K.reshape(N, nu, n), alone[2], rtol=1e-11, atol=1e-11)
            np.testing.assert_allclose([promised, steepest], alone[3:5], rtol=1e-11)
    assert (found[0] >= 0.0).sum() == 3


@SIZES
def test_steps_and_multipliers_solve_the_optimality_system(n, nu, h, bent):
    eight = Eight(n, nu, h, bent, {3: 4})
    eight.sweeps.linear = True
    order = [4, 2, 7, 0, 1, 5, 3, 6]
    failed = eight.sweep(np.array(order))[0] >= 0.0
    for i, d in enumerate(eight.problems):
        x, u, costate, weights = (values[i] for values in eight.steps.values())
        if failed[i]:
            continue
        z, H = np.zeros((N + 1, n + nu)), eight.mus[i] * np.eye(n + nu)
        z[:, :n], z[:N, n:] = x, u
        for exact, share in ((False, 1.0 - BLENDS[i]), (True, BLENDS[i])):
            H = H + share * d.hessians(eight.separable, exact=exact)
        H[:N] += BLENDS[i] * eight.seconds[i]
        slopes = d.lz + np.einsum("tij,tj->ti", H, z)
        slopes[:, :n] -= costate
        slopes[:N] += np.einsum("tij,ti->tj", np.concatenate([d.A, d.B], 2), weights)
        np.testing.assert_allclose(slopes[:N], 0.0, atol=1e-11)
        np.testing.assert_allclose(slopes[N, :n], 0.0, atol=1e-11)
        arrived = np.einsum("tij,tj->ti", d.A, x[:N]) + np.einsum("tij,tj->ti", d.B, u)
        np.testing.assert_allclose(x, np.vstack([np.zeros(n), eight.gaps[i] + arrived]), atol=1e-11)
        np.testing.assert_array_equal(weights, costate[1:])
        along = (d.lz[:N] * z[:N]).sum() + d.lz[N, :n] @ x[N]
        np.testing.assert_allclose(eight.sweeps.slopes[order.index(i)], along, rtol=1e-11, atol=1e-11)
    assert failed.tolist() == [i == 3 for i in range(8)]


def test_a_sweep_depends_on_none_of_its_neighbours():
    eight = Eight(4, 1, 0.0, [], {2: 3})
    eight.problems[6].A[:] = np.nan
    eight.T[6][:] = np.inf  # of no interest to the others, nor where the share of the second order is zero
    first, other = (eight.sweep(order) for order in (np.arange(8), np.array([6, 2, 7, 0, 1, 5, 3, 4])))
    fine = first[0] < 0
    assert fine.tolist() == [i not in (2, 6) for i in range(8)]
    assert all(np.array_equal(a[fine], b[fine]) for a, b in zip(first, other, strict=True))
    eight.sweeps.linear = True
    closed, steps = fine & (eight.gaps == 0.0).all(axis=(1, 2)), []
    for order, before in ((np.arange(8), first), (np.array([6, 2, 7, 0, 1, 5, 3, 4]), other)):
        assert all(np.array_equal(a[closed], b[closed]) for a, b in zip(before, eight.sweep(order), strict=True))
        steps.append([values[fine].copy() for values in eight.steps.values()])
    assert all(np.array_equal(a, b) for a, b in zip(*steps, strict=True))

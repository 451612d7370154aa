"""Sweeps that are compiled for their sizes against the textbook recursion, and against the one for all sizes."""

import pickle
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from oracles import random_blocks
from recursion import dense_sweep
from thorough import cases

from ddp.compiling.kernel import callback
from ddp.derivatives import Derivatives
from ddp.sweeps import tiled_sweep
from ddp.sweeps.gaps import weigh
from ddp.sweeps.horizon import UNSLOPED, horizon_of
from ddp.sweeps.room import RoomOwner
from ddp.sweeps.sized_sweep import MOST, are_few, sweep_of, weigh_of
from ddp.sweeps.sweeping import call
from ddp.systems.structure import structure_of
from ddp.systems.system import COUPLED, ENDING, MOTIONS, Contraction

N = 7
NOTHING = Contraction(0, 0, None)
LASTING = np.array([1.0, 1.0, 0.0, 2.0, 0.5, 0.0, 1.5])
"""Steps of knots, by that of one; some take no time."""
BENT = [[], [(0, 6)], [(1, 3), (4, 2)]]


def halves_of(h, bent):
    """Steps and bent rows as sweeps have them: of semi-implicit steps of h times `LASTING`, of others where h = 0."""
    return (h * LASTING if h > 0.0 else np.zeros(0)), np.array(bent, np.int64).reshape(-1, 2)


def random_derivatives(rng, n, nu, h=0.0, bent=()):
    """Of a problem whose costs are convex; with h > 0 of semi-implicit steps, but for runs of rows that are bent."""
    m, nz = n // 2, n + nu
    F = np.concatenate([np.eye(n) + 0.3 / np.sqrt(n) * rng.normal(size=(N, n, n)), rng.normal(size=(N, n, nu))], 2)
    if h > 0.0:
        F[:, :m] = h * LASTING[:, None, None] * F[:, m:]
        F[:, :m, :m] += np.eye(m)
        for first, size in bent:
            F[:, first : first + size] = rng.normal(size=(N, size, nz))
    roots = rng.normal(size=(2, N + 1, nz, nz)) / np.sqrt(nz)
    lzz, exact = roots @ roots.transpose(0, 1, 3, 2) + np.eye(nz)
    diagonal, lz = rng.uniform(1.0, 2.0, size=(N + 1, nz)), rng.normal(size=(N + 1, nz))
    A, B = (np.ascontiguousarray(part) for part in np.split(F, [n], axis=2))
    return Derivatives(A, B, np.zeros((N, 1)), np.zeros(N + 1), lz, lzz, exact, diagonal, np.empty(0))


def second_order(rng, d, bent, in_blocks=MOTIONS):
    """A second order in blocks, (N, .), and what it is in z, (N, nz, nz); positive definite where it counts."""
    knots = [random_blocks(rng, np.hstack([A, B]), bent, in_blocks) for A, B in zip(d.A, d.B, strict=True)]
    return tuple(np.stack(part) for part in zip(*knots, strict=True))


def swept(
    d, separable, h=0.0, bent=(), T=None, blend=0.0, mu=0.0, sized=True, stops=(N, 0), gaps=None, in_blocks=MOTIONS,
    coupled=None,
):  # fmt: skip
    """The failed knot or -1, k, K, the decrease that is promised, the costate's largest slope, Q_uu where it failed."""
    _, n, nu = d.B.shape
    halves = halves_of(h, bent)
    sweep = sweep_of(n, nu, h > 0.0, len(bent)) if sized else tiled_sweep.sweep
    second, bends = np.zeros((1, n + nu, n + nu)), np.zeros((1, 2, n, n))
    room = RoomOwner(n, nu, h > 0.0, len(bent))
    horizon = horizon_of(d, second, halves, NOTHING, bends, np.zeros((0, 2), np.int64), False)
    horizon.coupled = np.where(separable, 0, n + nu if coupled is None else coupled)
    if T is not None:
        horizon.T, horizon.in_blocks = T, in_blocks
    if gaps is not None:
        horizon.gaps, horizon.torn = gaps, UNSLOPED
    failed, *sums = -1, *tiled_sweep.NOTHING
    for stop, start in pairwise(stops):
        if failed < 0:
            how = blend, mu, False, True, False
            failed, *sums = sweep(horizon.address, room.address, start, stop, tuple(sums), *how)
    return failed, horizon.k, horizon.K, -sums[1], sums[2], horizon.action


def assert_optimal(d, separable, whole=None, **how):
    """Against the recursion in dense matrices, to rounding, which a handful of knots amplify."""
    failed, k, K, promised, steepest, _ = swept(d, separable, **how)
    plain = d._replace(lzz=d.hessians(separable, exact=False), exact=d.hessians(separable))
    second = np.zeros_like(d.exact[:N]) if whole is None else whole
    expected = dense_sweep(plain, lambda t, _: second[t], NOTHING, how.get("blend", 0.0), how.get("mu", 0.0))
    assert failed == -1
    assert np.abs(k - expected.k).max() <= 1e-11 * np.abs(expected.k).max()
    assert np.abs(K - expected.K).max() <= 1e-11 * np.abs(expected.K).max()
    assert promised == pytest.approx(expected.expected, rel=1e-11)
    p, n = d.lz[N, : d.A.shape[1]], d.A.shape[1]
    slopes = []
    for t in reversed(range(N)):
        slopes.append(d.lz[t, n:] + d.B[t].T @ p)
        p = d.lz[t, :n] + d.A[t].T @ p
    assert steepest == pytest.approx(np.abs(slopes).max(), rel=1e-11)


def some_separable(rng):
    return rng.random(N + 1) < 0.5


@pytest.mark.parametrize(
    ("n", "nu"), cases([(1, 1), (2, 1), (5, 3), (9, 2), (12, 6), (16, 8)], [(2, 1), (5, 3), (12, 6)])
)
@pytest.mark.parametrize("blend", [0.0, 0.4])
def test_a_sweep_of_known_sizes_is_the_dense_recursion(n, nu, blend):
    rng = np.random.default_rng(n)
    d = random_derivatives(rng, n, nu)
    T, whole = second_order(rng, d, []) if n % 2 == 0 and blend > 0.0 else (None, None)
    if blend == 0.0 or T is not None:
        assert_optimal(d, some_separable(rng), whole, T=T, blend=blend, mu=0.1)


HALVED = [(n, nu, bent) for bent in BENT for n, nu in ((12, 6), (16, 8), (36, 12), (24, 7))]


@pytest.mark.parametrize(("n", "nu", "bent"), cases(HALVED, [(12, 6, BENT[0]), (36, 12, BENT[1]), (12, 6, BENT[2])]))
@pytest.mark.parametrize(
    ("blend", "in_blocks"), [(0.0, MOTIONS), (0.7, MOTIONS), (1.0, MOTIONS), (1.0, COUPLED), (0.7, ENDING)]
)
def test_so_is_one_of_semi_implicit_steps_with_a_second_order_in_blocks(n, nu, bent, blend, in_blocks):
    rng, h = np.random.default_rng(n + len(bent)), 0.1
    d = random_derivatives(rng, n, nu, h, bent)
    T, whole = second_order(rng, d, bent, in_blocks)
    how = {"h": h, "bent": bent, "blend": blend, "mu": 0.1, "in_blocks": in_blocks}
    assert_optimal(d, some_separable(rng), whole, T=T, **how)


@pytest.mark.parametrize(
    ("n", "nu", "count"), cases([(5, 3, 1), (9, 2, 9), (24, 8, 11), (24, 9, 24), (36, 12, 6)], [(5, 3, 1), (36, 12, 6)])
)
@pytest.mark.parametrize("blend", [0.0, 0.4, 1.0])
def test_hessians_are_read_where_they_couple_and_on_their_diagonal_alone(n, nu, count, blend):
    rng = np.random.default_rng(n)
    d, separable = random_derivatives(rng, n, nu), some_separable(rng)
    T = second_order(rng, d, [])[0] if n % 2 == 0 and blend > 0.0 else None
    beyond = ~np.eye(n + nu, dtype=bool)
    beyond[:count, :count] = False
    for H in (d.lzz, d.exact):
        H[:, beyond] = 0.0
    known = d.hessians(separable, exact=False), d.hessians(separable)
    for H in (d.lzz, d.exact):
        H[:, beyond] = 0.0 if n + nu < tiled_sweep.MANY else np.nan
    how = {"T": T, "blend": 0.0 if T is None else blend, "mu": 0.1}
    found = swept(d, separable, coupled=count, **how)
    expected = swept(d._replace(lzz=known[0], exact=known[1]), np.zeros(N + 1, bool), **how)
    assert found[0] == expected[0] == -1
    for a, b in zip(found[1:5], expected[1:5], strict=True):
        assert np.allclose(a, b, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(
    ("n", "nu", "h"), cases([(12, 6, 0.0), (12, 6, 0.1), (36, 12, 0.1)], [(12, 6, 0.0), (12, 6, 0.1)])
)
def test_a_horizon_in_pieces_has_the_same_policy_to_the_last_bit(n, nu, h):
    rng = np.random.default_rng(0)
    d, separable = random_derivatives(rng, n, nu, h), some_separable(rng)
    once, pieces = (swept(d, separable, h=h, stops=stops) for stops in ((N, 0), (N, 5, 4, 0)))
    assert all(np.array_equal(a, b) for a, b in zip(once, pieces, strict=True))


@pytest.mark.parametrize(("n", "nu", "h"), [(2, 1, 0.0), (12, 6, 0.0), (12, 6, 0.1)])
@pytest.mark.parametrize("poison", [-10.0, np.nan])
def test_a_knot_that_fails_is_found_and_tells_its_matrix(n, nu, h, poison):
    for control in {0, nu // 2, nu - 1}:
        d = random_derivatives(np.random.default_rng(control), n, nu, h)
        d.B[2] = 0.0
        d.lzz[2, n + control, n + control] = poison
        found = swept(d, np.zeros(N + 1, bool), h=h)
        assert found[0] == 2
        assert np.allclose(found[-1], d.lzz[2, n:, n:], rtol=1e-11, equal_nan=True)


@pytest.mark.parametrize(
    ("n", "nu", "bent"),
    cases(
        [(5, 3, []), (12, 6, [(2, 3)]), (12, 6, BENT[2]), (16, 8, []), (36, 12, BENT[1])],
        [(5, 3, []), (12, 6, BENT[2]), (36, 12, BENT[1])],
    ),
)
@pytest.mark.parametrize("h", [0.0, 0.1])
def test_known_sizes_change_rounding_alone(n, nu, bent, h):
    if (n % 2 == 1 and h > 0.0) or not are_few(n, nu, h > 0.0):
        return
    rng = np.random.default_rng(n)
    bent = bent if h > 0.0 else []
    d = random_derivatives(rng, n, nu, h, bent)
    T = second_order(rng, d, bent)[0] if n % 2 == 0 else None
    how = {"separable": some_separable(rng), "h": h, "bent": bent, "T": T, "blend": 0.0 if T is None else 0.7}
    assert sweep_of(n, nu, h > 0.0, len(bent)) is not tiled_sweep.sweep
    found, expected = (swept(d, **how, sized=sized) for sized in (True, False))
    assert found[0] == expected[0] == -1
    assert np.allclose(found[1], expected[1], rtol=1e-12, atol=1e-12)
    assert np.allclose(found[2], expected[2], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("n", "nu", "h", "bent"),
    [(2, 1, 0.0, []), (3, 2, 0.0, []), (4, 2, 0.1, []), (4, 2, 0.1, [(0, 1)]), (12, 6, 0.1, [(1, 3), (4, 2)])],
)
@pytest.mark.parametrize("follows", [False, True])
def test_costates_are_those_of_dense_products(n, nu, h, bent, follows):
    rng = np.random.default_rng(n + len(bent))
    d, halves = random_derivatives(rng, n, nu, h, bent), halves_of(h, bent)
    nothing = np.zeros((1, n + nu, n + nu)), halves, NOTHING, np.zeros((1, 2, n, n)), np.zeros((0, 2), np.int64)
    K, expected, p = rng.normal(size=(N, nu, n)), np.empty((N, n)), d.lz[N, :n]
    for t in reversed(range(N)):
        expected[t] = p
        p = d.lz[t, :n] + d.A[t].T @ p + follows * K[t].T @ (d.lz[t, n:] + d.B[t].T @ p)
    for own in (weigh_of(n, nu, h > 0.0, len(bent)), callback(weigh)):
        horizon = horizon_of(d, *nothing, False)
        horizon.K = K
        call(own.address, horizon.address, int(follows), 0, 0)
        assert np.abs(horizon.weights - expected).max() <= 1e-13 * np.abs(expected).max()


def test_a_control_that_acts_on_nothing_is_left_alone_at_its_knot():
    d, separable = random_derivatives(np.random.default_rng(1), 12, 6, 0.1), np.ones(N + 1, bool)
    for array in (d.B[3, :, 2], d.lz[3, 14:15], d.diagonal[3, 14:15]):
        array[:] = 0.0
    failed, k, K, *_ = swept(d, separable, h=0.1)
    assert failed == -1
    assert k[3, 2] == 0.0
    assert not K[3, 2].any()
    assert k[:, 2].any()


def test_sweeps_of_many_states_are_not_compiled_for_their_sizes():
    for halved, (states, controls) in MOST.items():
        assert sweep_of(states + 2, 1, halved, 0) is sweep_of(2, controls + 1, halved, 0) is tiled_sweep.sweep


def test_a_sweep_is_found_by_its_name():
    made = sweep_of(3, 2, False, 1)
    assert pickle.loads(pickle.dumps(made)) is made


@pytest.mark.parametrize(("n", "turned"), [(6, 1), (6, 2), (8, 1), (8, 2), (10, 3), (18, 6), (24, 8)])
def test_halves_are_made_use_of_where_there_is_room_for_them(n, turned):
    rng, h, bent = np.random.default_rng(n), 0.1, [(0, turned)]
    told = SimpleNamespace(n=n, semi_implicit=(h * LASTING[:-1], np.array(bent)), closing=lambda: NOTHING)
    steps, bent = structure_of(told, N).swept
    assert np.array_equal(steps, h * LASTING[[0, 1, 2, 3, 4, 5, 5]] if n >= 10 else [])
    h = h if n >= 10 else 0.0
    d = random_derivatives(rng, n, 5, h, bent)
    assert_optimal(d, some_separable(rng), h=h, bent=bent, sized=False)

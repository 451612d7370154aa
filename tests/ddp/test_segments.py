"""Sweeps by segments against the serial sweep: the same gains but for rounding, or the serial sweep itself."""

import itertools
import threading

import numpy as np
import pytest
from systems import cartpole, pendulum
from test_backward import random_derivatives

import ddp
import problems
from ddp.guesses import Guess
from ddp.iterate import Iterate
from ddp.parallel.workers import differentiator
from ddp.sweeps.backward import Backward
from ddp.sweeps.outcome import COSTATE
from ddp.sweeps.segments import Segments, cut
from dynamics.steps.function_dynamics import FunctionDynamics


@pytest.fixture(autouse=True)
def _no_thread_left_behind():
    yield
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("mayne")]


def system(n: int, nu: int) -> FunctionDynamics:
    return FunctionDynamics(lambda x, u: np.zeros(n), n, nu)


def assert_close(sweep, serial, tolerance=1e-9):
    assert (sweep.failed, serial.failed) == (-1, -1)
    for name in ("k", "K"):
        got, expected = getattr(sweep, name), getattr(serial, name)
        assert np.abs(got - expected).max() <= tolerance * np.abs(expected).max(), name
    for name in ("d0", "expected", "gradient"):
        assert getattr(sweep, name) == pytest.approx(getattr(serial, name), rel=tolerance), name


@pytest.mark.parametrize("bounds", [[0, 20], [0, 7, 20], [0, 1, 19, 20], [0, 5, 9, 16, 20], [0, 2, 5, 9, 18, 20]])
@pytest.mark.parametrize(("n", "nu"), [(1, 1), (4, 1), (3, 3), (12, 6), (36, 12)])
def test_gains_are_those_of_the_serial_sweep_wherever_the_horizon_is_cut(rng, n, nu, bounds, monkeypatch):
    d = random_derivatives(rng, 20, n, nu)
    for blend, mu in ((0.0, 0.0), (0.3, 0.1), (1.0, 1e-9)):
        serial = Backward(d, system(n, nu), COSTATE)(blend, mu)
        backward = Backward(d, system(n, nu), COSTATE, segments=2)
        backward._segments = Segments(bounds, n, nu)
        monkeypatch.setattr(backward, "_recursion", None)  # it must not be needed
        assert_close(backward(blend, mu), serial)


@pytest.mark.parametrize("name", ["quadruped/reorientation", "quadrotor/loop", "arm/reach"])
def test_gains_of_robots_are_those_of_the_serial_sweep(name):
    entry = problems.find(name)
    problem = entry()
    d = problem.dynamics
    U = np.tile(d.nominal_control(problem.x0), (problem.horizon, 1))
    U = U + 0.1 * np.random.default_rng(0).normal(size=U.shape)
    guess = Guess(d.rollout(problem.x0, U), U, np.zeros((*U.shape, d.n)))
    with differentiator(problem, 1) as work:
        serial = Iterate(problem, work, guess, COSTATE)
        parts = [Iterate(problem, work, guess, COSTATE, segments=count) for count in range(1, 6)]
        for blend, mu in ((0.0, 1e-6), (0.5, 10.0), (1.0, 10.0)):
            expected = serial.sweep(blend, mu)
            for iterate in parts:
                assert_close(iterate.sweep(blend, mu), expected)


def test_a_segmentation_always_gives_the_same_bits(rng):
    d = random_derivatives(rng, 50, 12, 6)
    found = [Backward(d, system(12, 6), segments=3)(0.0, 0.1) for _ in range(3)]
    assert all(np.array_equal(found[0].K, sweep.K) and np.array_equal(found[0].k, sweep.k) for sweep in found)


def test_what_is_not_convex_is_reported_as_by_the_serial_sweep(rng):
    d = random_derivatives(rng, 20, 4, 2)
    d.lzz[3, 4:, 4:] -= 1e3 * np.eye(2)
    serial, sweep = (Backward(d, system(4, 2), segments=count)(0.0, 0.0) for count in (1, 3))
    assert sweep.failed == serial.failed == 3
    d.lz[11] = np.nan
    serial, sweep = (Backward(d, system(4, 2), segments=count)(0.0, 0.0) for count in (1, 3))
    assert sweep.failed == serial.failed == 11


def test_a_segment_that_is_not_convex_on_its_own_is_left_to_the_serial_sweep(rng):
    """Controls without cost: convex by what they lead to, but not by themselves at the end of a segment."""
    d = random_derivatives(rng, 20, 4, 2)
    d.lzz[:, 4:, :] = d.lzz[:, :, 4:] = 0.0
    d.lz[:, 4:] = 0.0
    serial = Backward(d, system(4, 2))(0.0, 0.0)
    sweep = Backward(d, system(4, 2), segments=3)(0.0, 0.0)
    assert serial.failed == -1
    assert np.array_equal(sweep.K, serial.K)
    assert np.array_equal(sweep.k, serial.k)


def test_a_control_that_acts_on_nothing_is_left_alone(rng):
    d = random_derivatives(rng, 20, 4, 2)
    d.B[:, :, 1] = 0.0
    d.lzz[:, 5, :] = d.lzz[:, :, 5] = 0.0
    d.lz[:, 5] = 0.0
    serial, sweep = (Backward(d, system(4, 2), segments=count)(0.0, 0.0) for count in (1, 3))
    assert_close(sweep, serial)
    assert not sweep.K[:, 1].any()


@pytest.mark.parametrize("make", [pendulum, cartpole])
@pytest.mark.parametrize("multipliers", ["value", "costate"])
def test_a_solve_by_segments_ends_where_the_serial_one_does(make, multipliers):
    serial, parts = (ddp.solve(make(), ddp.DDP(multipliers=multipliers, segments=count)) for count in (1, 4))
    assert parts.cost == pytest.approx(serial.cost, rel=1e-9)
    assert np.abs(parts.K - serial.K).max() <= 1e-5 * np.abs(serial.K).max()


@pytest.mark.parametrize(("N", "count"), [(1, 1), (2, 2), (5, 5), (100, 3), (401, 7)])
def test_segments_cover_the_horizon(N, count):
    bounds = cut(N, count)
    assert bounds[0] == 0
    assert bounds[-1] == N
    assert len(bounds) == count + 1
    assert all(a < b for a, b in itertools.pairwise(bounds))


def test_more_segments_than_knots_are_not_needed():
    assert ddp.solve(pendulum(horizon=3), ddp.ILQR(), throw=False).cost == pytest.approx(
        ddp.solve(pendulum(horizon=3), ddp.DDP(hessian="gauss-newton", segments=8), throw=False).cost
    )


@pytest.mark.parametrize("segments", [0, -1, 1.5, "two"])
def test_a_malformed_number_of_segments_is_refused(segments):
    with pytest.raises(ddp.ProblemError, match="segments: "):
        ddp.DDP(segments=segments)

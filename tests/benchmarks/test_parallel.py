"""Gains of two workers and of sweeps by segments, on 400 knots: run with ``-s --benchmark-enable`` to see the tables.

Machines are shared. Around every round two threads of one process compute side by side: the round counts as undisturbed
if they took little longer than one of them alone would have. The bar is asserted on the fastest of undisturbed rounds,
if there were enough; what is printed says how many. Always asserted is how much more processor time threads take.
"""

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pinocchio as pin
import pytest

import ddp
import dynamics
from ddp.compiling.kernel import kernel
from ddp.derivatives import FIRST, GAUSS_NEWTON
from ddp.parallel.differentiator import Differentiator
from ddp.parallel.workers import differentiator
from ddp.sweeps.backward import Backward
from ddp.sweeps.outcome import COSTATE
from problems.costs import ControlCost, StateCost

KNOTS, FEW = 400, 24
ROUNDS, ENOUGH = 60, 5
COUNT = 2_000_000
UNDISTURBED = 1.8
"""Factor by which two threads must be faster than one at work that they cannot hinder each other in."""


@kernel
def spin(count):
    x = 1.0
    for _ in range(count):
        x = 0.999999 * x + 0.1
    return x


class Gain(NamedTuple):
    """Compared with the first case: how many times faster by the clock, nan if disturbed; processor time for one's."""

    speed: float
    effort: float


def seconds(work: Callable[[], object]) -> tuple[float, float]:
    """By the clock, and of all threads of this process on a processor."""
    before, spent = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - before, time.process_time() - spent


def compare(title: str, cases: dict[str, Callable[[], object]], rounds: int) -> list[Gain]:
    """Run all cases in turn, ``rounds`` times, print their times and compare the fastest ones with the first's."""
    times, free = [], []
    with ThreadPoolExecutor(1) as pool:

        def both() -> None:
            other = pool.submit(spin, COUNT)
            spin(COUNT)
            other.result()

        def freedom() -> float:
            return seconds(lambda: spin(2 * COUNT))[0] / seconds(both)[0]

        for work in (both, *cases.values()):
            work()
        for _ in range(rounds):
            before = freedom()
            times.append([seconds(work) for work in cases.values()])
            free.append(min(before, freedom()))
    table = np.array(times)  # (rounds, cases, 2)
    calm = table[np.array(free) >= UNDISTURBED]
    enough = len(calm) >= ENOUGH
    fastest, effort = (calm if enough else table)[:, :, 0].min(axis=0), table[:, :, 1].min(axis=0)
    typical = np.median(table[:, :, 0], axis=0)
    print(f"\n{title}: load {os.getloadavg()[0]:.1f}, {len(calm)} of {rounds} rounds undisturbed")
    for name, best, usual, spent in zip(cases, fastest, typical, effort, strict=True):
        print(
            f"  {name:12s} fastest {1e3 * best:7.2f} ms (ratio {fastest[0] / best:.2f}), median {1e3 * usual:7.2f} ms "
            f"(ratio {typical[0] / usual:.2f}), processors {1e3 * spent:7.2f} ms"
        )
    speed = fastest[0] / fastest if enough else np.full(len(cases), np.nan)
    return [Gain(*pair) for pair in zip(speed, effort / effort[0], strict=True)]


def talos(N: int = KNOTS) -> ddp.Problem:
    """A humanoid of 38 degrees of freedom that falls freely and keeps its posture."""
    robot = dynamics.load("talos")
    system = dynamics.RobotDynamics(robot, 0.002)
    x0 = np.concatenate([pin.neutral(robot.model), np.zeros(robot.nv)])
    running = [StateCost(system, x0, np.ones(system.n)), ControlCost(np.zeros(system.nu), np.full(system.nu, 1e-2))]
    return ddp.Problem(system, running, [StateCost(system, x0, np.full(system.n, 100.0))], x0, N)


@pytest.fixture
def rounds(benchmark) -> int:
    """Number of rounds to measure; one if measurements are switched off."""
    benchmark(lambda: None)
    return ROUNDS if benchmark.enabled else 1


def first_order(work: Differentiator, X: np.ndarray, U: np.ndarray) -> None:
    """Of a trajectory, with costs."""
    work.make(X, U, FIRST | GAUSS_NEWTON)


def knots(rounds: int) -> int:
    """Few where nothing is measured."""
    return FEW if rounds == 1 else KNOTS


@pytest.mark.filterwarnings("ignore")
def test_derivatives_and_segments_of_a_humanoid(rounds):
    N = knots(rounds)
    problem = talos(N)
    d = problem.dynamics
    rng = np.random.default_rng(0)
    X = d.integrate(np.tile(problem.x0, (N + 1, 1)), 0.1 * rng.normal(size=(N + 1, d.n)))
    U, weights = problem.padded(rng.normal(size=(N, d.nu))), rng.normal(size=(N, d.n))
    H = np.zeros((N, d.n + d.nu, d.n + d.nu))
    with differentiator(problem, 1) as one, differentiator(problem, 2) as two:
        works = {"1 thread": one, "2 threads": two}
        expand = compare("first order", {k: lambda w=w: first_order(w, X, U) for k, w in works.items()}, rounds)
        contract = compare("second order", {k: lambda w=w: w.contract(weights, H) for k, w in works.items()}, rounds)
        sweeps = {count: Backward(one.derivatives, d, segments=count) for count in (1, 3, 4)}
        for sweep in sweeps.values():
            sweep.coupled = problem.objective.coupled
        outcomes = {count: sweep(0.0, 1e-6) for count, sweep in sweeps.items()}
        for outcome in outcomes.values():
            assert outcome.failed == -1
            assert np.abs(outcome.K - outcomes[1].K).max() <= 1e-9 * np.abs(outcomes[1].K).max()
        compare("sweep", {f"{k} segments": lambda s=s: s(0.0, 1e-6) for k, s in sweeps.items()}, rounds)
    for _, gain in (expand, contract):
        assert rounds == 1 or gain.effort <= 1.25
        assert not gain.speed < 1.6


@pytest.mark.filterwarnings("ignore")
def test_iterations_of_a_humanoid(rounds):
    problem = talos(knots(rounds))
    for name, solver in {
        "Gauss-Newton": ddp.DDP(hessian="gauss-newton", max_iterations=4),
        "Newton": ddp.DDP(hessian="exact", multipliers=COSTATE, max_iterations=4),
    }.items():

        def iterate(count: int, solver: ddp.DDP = solver) -> float:
            """The fastest iteration but for the first, which differentiates before it sweeps."""
            records = ddp.solve(problem, solver, throw=False, workers=f"threads:{count}").history
            return min(record.seconds for record in records[1:])

        one, two = 1e3 * np.array([[iterate(1), iterate(2)] for _ in range(max(1, rounds // 10))]).min(axis=0)
        print(f"\n{name}, one iteration: {one:.1f} ms with one thread, {two:.1f} with two (ratio {one / two:.2f})")


class Posture:
    """A running cost as a user would write it, in Python; its Hessian is derived from its gradient."""

    def __init__(self, n: int) -> None:
        self.weights = np.linspace(0.5, 1.5, n)

    def value(self, x: np.ndarray, u: np.ndarray) -> float:
        return 0.5 * float(self.weights @ (x * x) + 1e-3 * (u @ u))

    def gradient(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return np.concatenate([self.weights * x, 1e-3 * u])


def arm(N: int) -> ddp.Problem:
    """A UR5 with costs of a user's own."""
    system = dynamics.RobotDynamics(dynamics.load("ur5"), 0.01)
    x0 = np.concatenate([0.3 * np.ones(6), np.zeros(6)])
    return ddp.Problem(system, [Posture(system.n)], [StateCost(system, np.zeros(12), np.ones(12))], x0, N)


def test_costs_written_in_python(rounds):
    N = knots(rounds)
    problem = arm(N)
    X, U = np.tile(problem.x0, (N + 1, 1)), np.zeros((N + 1, problem.dynamics.nu))
    with differentiator(problem, 1) as one, differentiator(problem, 2) as two:
        works = {"1 process": one, "2 processes": two}
        timed = {k: lambda w=w: first_order(w, X, U) for k, w in works.items()}
        _, gain = compare("derivatives", timed, max(1, rounds // 6))
    assert not gain.speed < 1.6

    def iterate(workers: int) -> float:
        """The fastest iteration, without the start of the processes."""
        records = ddp.solve(problem, ddp.DDP(max_iterations=4), throw=False, workers=workers).history
        return min(record.seconds for record in records)

    pairs = np.array([[iterate(1), iterate(2)] for _ in range(max(1, rounds // 30))])
    one_process, two_processes = 1e3 * pairs.min(axis=0)
    print(f"\nwhole iteration: {one_process:.0f} ms with one process, {two_processes:.0f} with two")

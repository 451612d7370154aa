"""The default beside iLQR from 251 random starts of problems of all kinds: work, iterations, optima.

    .venv/bin/python tests/benchmarks/paired_starts.py [NAME ...]

Work is W = 1.0 per Gauss-Newton sweep + 1.3 per exact sweep + 0.3 per rollout or trial point, of both solvers to an
expected decrease of 1e-9. Where iLQR does not converge in 1000 iterations, its work until then counts.
"""

import sys
from collections import namedtuple
from contextlib import contextmanager
from ctypes import c_void_p, cast
from functools import partial
from math import exp, log, radians
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "against_crocoddyl"))

from mayne_runs import metered

import ddp
import problems
from ddp.interior.parts_in_python import C_FUNCTION, PartsInPython
from ddp.machine.written import point_to, read_all
from ddp.sweeps.weighted import WeightedSweeps
from problems import arm, quadruped

MOST_WORK = 1.1
"""The most work of the default over iLQR's."""

SAME = 1e-3
"""Costs that differ by less than this share are those of one optimum."""

STARTS = {
    "pendulum/swing-up": (1.0, 20), "cartpole/swing-up": (3.0, 20), "arm/reach": (5.0, 20),
    "arm/out-of-reach": (5.0, 20), "arm/throw": (5.0, 20), "quadrotor/loop": (0.5, 20), "acrobot/swing-up": (2.0, 20),
    "quadruped/reorientation": (5.0, 6), "quadrotor/rotor-lag": (0.5, 10), "arm/torque-rates": (5.0, 10),
    "arm/elastic": (5.0, 10), "ballbot/roll": (1.0, 10), "mobile/reach": (2.0, 10), "soft/cable-arm": (0.3, 4),
    "soft/serial": (1.0, 4), "soft/out-of-reach": (0.3, 4), "glider/perch": (0.1, 10), "car/parking": (0.1, 10),
    "talos' arm throws": (5.0, 13), "hyq rolls by 60°": (5.0, 10),
}  # fmt: skip
"""Standard deviation of the noise on the guess's controls, and how many starts."""

OTHERS = {
    "talos' arm throws": partial(arm.throw, "talos_arm"),
    "hyq rolls by 60°": partial(quadruped.reorientation, angle=radians(60.0)),
}
"""Problems that are not in `problems.ALL`."""


Swept = namedtuple("Swept", "failed")
"""What a meter asks of a sweep."""


def starts(name):
    """The problem of a name, and its random controls."""
    problem = OTHERS[name]() if name in OTHERS else problems.find(name)()
    guess, (sigma, count) = problem.guess, STARTS[name]
    if isinstance(guess, tuple):
        guess = guess[1]
    if guess is None:
        guess = np.tile(problem.dynamics.nominal_control(problem.x0), (problem.horizon, 1))
    noise = [np.random.default_rng(1000 + seed).normal(size=np.shape(guess)) for seed in range(count)]
    return problem, [np.asarray(guess) + sigma * one for one in noise]


def counted_sweeps(meter, sweeps):
    """Let kernels' sweeps of full-space steps count, each once however often limits free controls in it.

    Rollouts' sweeps count in the same way. Returns what has to stay alive: kernels call it.
    """
    struct, within = sweeps._sweeping, sweeps.within

    def counted(address):
        own = C_FUNCTION(address)

        def sweep(*words):
            own(*words)
            failed, blend = read_all(struct, ("failed", "blend"))
            meter.swept(blend, Swept(failed), struct.N)

        return C_FUNCTION(sweep)

    if sweeps._recursion.scratch is None:
        alive = counted(struct.function)
        point_to(struct, function=address_of(alive))
        return alive
    alive = counted(within()[0])
    sweeps.within = lambda: (address_of(alive), within()[1])
    return alive


def address_of(function):
    """Address of a C function."""
    return cast(function, c_void_p).value


@contextmanager
def all_metered():
    """A `Meter` that counts full-space steps too: sweeps by kernels, and trials, for which kernels ask Python.

    They do where threads share work.
    """
    with metered() as meter:
        own, begin = {name: getattr(PartsInPython, name) for name in ("_stray", "_track")}, WeightedSweeps.__init__

        def counted(name):
            def part(parts):
                meter.rollouts += 1.0
                own[name](parts)

            return part

        def counted_begin(self, *how, **more):
            begin(self, *how, **more)
            self.alive = counted_sweeps(meter, self)

        for name in own:
            setattr(PartsInPython, name, counted(name))
        WeightedSweeps.__init__ = counted_begin
        try:
            yield meter
        finally:
            WeightedSweeps.__init__ = begin
            for name, part in own.items():
                setattr(PartsInPython, name, part)


def solved(problem, solver, guess):
    """A solution, and its work; sweeps that fail count for the knots that they did."""
    with all_metered() as meter:
        solution = ddp.solve(problem, solver, guess, throw=False, workers="threads:2")
    return solution, meter.sweeps + 1.3 * meter.exact + 0.3 * meter.rollouts


def main():
    ratios, sums = [], np.zeros(6, int)
    print(f"{'problem':26} starts  its iLQR/default  work/iLQR's: mean worst  lower higher  not converged")
    for name in sys.argv[1:] or STARTS:
        problem, guesses = starts(name)
        rows = [[solved(problem, solver, U) for solver in (ddp.ILQR(), ddp.DDP())] for U in guesses]
        found = [own[1] / max(other[1], 1e-9) for other, own in rows]
        gain = [(own[0].cost - other[0].cost) / abs(other[0].cost) for other, own in rows]
        counts = [sum(solution.iterations for solution, _ in pair) for pair in zip(*rows, strict=True)]
        lost = [sum(not solution.converged for solution, _ in pair) for pair in zip(*rows, strict=True)]
        lower, higher = sum(one < -SAME for one in gain), sum(one > SAME for one in gain)
        mean = exp(sum(map(log, found)) / len(found))
        print(
            f"{name:26} {len(rows):6} {counts[0]:8} {counts[1]:7} {mean:19.2f} {max(found):5.2f} {lower:6} {higher:6}"
            f"  {lost[0]}, {lost[1]}", flush=True,
        )  # fmt: skip
        ratios += found
        sums += [*counts, lower, higher, *lost]
    above, mean = sum(ratio > MOST_WORK for ratio in ratios), exp(sum(map(log, ratios)) / len(ratios))
    print(f"{len(ratios)} starts: {sums[0]} and {sums[1]} iterations, optimum lower {sums[2]}, higher {sums[3]}")
    print(f"work {mean:.2f} of iLQR's, {max(ratios):.2f} at worst, above {MOST_WORK}: {above}")
    print(f"not converged: {sums[4]} and {sums[5]}")


if __name__ == "__main__":
    main()

"""Our side of the comparison: solves that are timed, and solves whose sweeps and rollouts are counted."""

import time
from contextlib import contextmanager
from itertools import pairwise

import numpy as np

import ddp
from ddp.batch.compiled_iterations import Chosen
from ddp.iterate import Iterate

TINY_GAP = 1e-10
"""States follow from controls where no gap is larger; a solver that imposes no states has none."""


def guess_of(entry, problem):
    """The controls (N, nu) that both sides start from."""
    U = entry.guess(problem)
    return np.tile(problem.dynamics.nominal_control(problem.x0), (problem.horizon, 1)) if U is None else U


def timed(problem, solver, guess):
    """One solve: what it did, its seconds on the wall and of the processor, and those of its iterations."""
    stamps, kinds, contractions = [], [], []

    def note(record):
        stamps.append((time.perf_counter(), time.thread_time()))
        kinds.append(record.hessian)
        contractions.append(record.contraction)

    wall, cpu = time.perf_counter(), time.thread_time()
    solution = ddp.solve(problem, solver, guess, callback=note, throw=False)
    spent = {"cpu": time.thread_time() - cpu, "seconds": time.perf_counter() - wall}
    each = {
        name: [after[i] - before[i] for before, after in pairwise([(wall, cpu), *stamps])]
        for i, name in enumerate(("wall_each", "cpu_each"))
    }
    outcome = {"iterations": solution.iterations, "cost": solution.cost, "status": solution.status}
    models = {"hessians": kinds, "contractions": contractions}
    return {"converged": solution.converged, **outcome, **spent, **each, **models}


class Meter:
    """Sweeps, Gauss-Newton and exact, and rollouts; a sweep that fails counts for the knots that it did."""

    def __init__(self):
        self.sweeps = self.exact = self.rollouts = 0.0

    def swept(self, blend, sweep, N):
        share = 1.0 if sweep.failed < 0 else (N - sweep.failed) / N
        if blend > 0.0:
            self.exact += share
        else:
            self.sweeps += share

    def searched(self, longest, alpha):
        self.rollouts += 1.0 + round(np.log2(longest / max(alpha, ddp.Backtracking().shortest)))


@contextmanager
def metered():
    """A `Meter` of all solves in the block, whose iterations are made in Python: compiled ones count nothing."""
    meter, sweep, search, serves = Meter(), Iterate.sweep, Iterate.search, Chosen.serves

    def counted_sweep(self, blend, mu, *how, **more):
        outcome = sweep(self, blend, mu, *how, **more)
        meter.swept(blend, outcome, self.problem.horizon)
        return outcome

    def counted_search(self, policy, longest):
        step = search(self, policy, longest)
        meter.searched(longest, step.alpha)
        return step

    Iterate.sweep, Iterate.search, Chosen.serves = counted_sweep, counted_search, lambda chosen, model: False
    try:
        yield meter
    finally:
        Iterate.sweep, Iterate.search, Chosen.serves = sweep, search, serves


def traced(problem, solver, guess):
    """One solve as Crocoddyl's server tells of its own: outcome, and the running counts after every iteration."""
    rows = []
    with metered() as meter:

        def note(record):
            counts = {"sweeps": meter.sweeps, "exact": meter.exact, "rollouts": meter.rollouts}
            step = record._asdict()
            rows.append({**step, "feasible": step.get("gap", 0.0) < TINY_GAP, **counts})

        solution = ddp.solve(problem, solver, guess, callback=note, throw=False)
    outcome = {"iterations": solution.iterations, "cost": solution.cost, "status": solution.status}
    return {"converged": solution.converged, **outcome, "trace": rows}

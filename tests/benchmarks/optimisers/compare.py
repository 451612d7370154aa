"""Problems with limits and constraints: mayne beside IPOPT and FATROP, from the same starts, to the same violations.

`make bench-optimisers` prints the table, `make bench-optimisers OPTIONS="--problems cartpole/rail --starts 3"` some.
Problems that CasADi has no functions for are solved by mayne alone.
"""

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

import ddp
from tests.benchmarks.against_crocoddyl.crocoddyl_client import Crocoddyl as Client
from tests.benchmarks.optimisers.cases import CASES
from tests.benchmarks.optimisers.limited import starts
from tests.benchmarks.optimisers.published import tolerant

SERVER = Path(__file__).with_name("serve_casadi.py")
STEPS = "auto", "rollout", "linear"
REPEATS = 5


def ours(problem, name, step, guess, limit):
    """One solve, the fastest of some: iterations, seconds of the processor, cost, violation."""
    solver = replace(tolerant() if name.startswith("altro/") else ddp.DDP(), step=step, max_iterations=limit)
    if step == "auto":  # which is open only where nothing says how constraints are held
        solver = replace(solver, constraints=None)
    seconds = []
    for _ in range(REPEATS):
        begin = time.thread_time()
        solution = ddp.solve(problem, solver, guess, throw=False)
        seconds.append(time.thread_time() - begin)
    return {
        "iterations": solution.iterations, "seconds": min(seconds), "cost": solution.cost,
        "violation": solution.violation, "converged": solution.converged,
    }  # fmt: skip


def theirs(client, name, solver, guess):
    """One solve of CasADi's, the fastest of some."""
    X, U = guess if isinstance(guess, tuple) else (None, guess)
    start = (None if X is None else X.tolist(), U.tolist())
    runs = [client.ask(name, solver=solver, guess=start) for _ in range(REPEATS)]
    return min(runs, key=lambda run: run["seconds"])


def row(name, solver, runs):
    """A line of the table: of the starts that converged, iterations, milliseconds and costs."""
    good = [run for run in runs if run["converged"]]
    if not good:
        return f"{name:28} {solver:16} 0 of {len(runs)}"
    iterations, cost = ([run[key] for run in good] for key in ("iterations", "cost"))
    seconds = 1e3 * np.median([run["seconds"] for run in good])
    worst = max(run["violation"] for run in good)
    return (
        f"{name:28} {solver:16} {len(good)} of {len(runs):2}  {min(iterations):4} - {max(iterations):4} iterations"
        f" {seconds:9.2f} ms  cost {min(cost):.6g} - {max(cost):.6g}  violation {worst:.0e}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", help="of an environment with CasADi; without one mayne is alone")
    parser.add_argument(
        "--problems", nargs="*", choices=CASES, default=list(CASES), help="which, by name", metavar="NAME"
    )
    parser.add_argument("--starts", type=int, default=None, help="of each; default as many as the bars are about")
    parser.add_argument("--limit", type=int, default=300, help="iterations of mayne")
    options = parser.parse_args()
    client = Client(options.python, SERVER) if options.python else None
    for name in options.problems:
        case = CASES[name]
        problem = case.build()
        guesses = starts(problem, case.count if options.starts is None else options.starts, case.sigma)
        for step in STEPS:
            runs = [ours(problem, name, step, guess, options.limit) for guess in guesses]
            print(row(name, f"mayne, {step}", runs), flush=True)
        if client is not None and name in client.versions["problems"]:
            for solver in ("ipopt", "fatrop"):
                runs = [theirs(client, name, solver, guess) for guess in guesses]
                print(row(name, solver, runs), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

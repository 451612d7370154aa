"""Limits of controls: an iteration of mayne beside one of Crocoddyl's box solvers: ``make bench-limits``.

Both start from the guess of the problem. Iterations whose steps are within limits count, each at the fastest of some
solves, by the processor's clock; Crocoddyl's converge slower, so that times of solves are printed, too.
"""

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from crocoddyl_client import ONE_THREAD, Crocoddyl
from mayne_runs import timed

import ddp
from problems import arm
from tests.benchmarks.optimisers.limited import limited_pendulum

REPEATS = 30
BARS = {"pendulum/limited": 0.4, "arm/panda": 0.25}
"""Time of an iteration over one of BoxFDDP."""


def half_panda():
    """`arm.reach("panda")` with half of its torques."""
    problem = arm.reach("panda")
    effort = 0.5 * problem.dynamics.robot.model.effortLimit
    return replace(problem, control_limits=(-effort, effort))


PROBLEMS = {"pendulum/limited": limited_pendulum, "arm/panda": half_panda}


def of_each(runs):
    """Milliseconds of every iteration, the fastest of the runs, which all do the same."""
    return [1e3 * min(spent) for spent in zip(*(run["cpu_each"] for run in runs), strict=True)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", required=True, help="the interpreter that has Crocoddyl")
    options = parser.parse_args()
    if any(os.environ.get(name) != value for name, value in ONE_THREAD.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | ONE_THREAD)
    with Crocoddyl(options.python) as crocoddyl:
        for name, build in PROBLEMS.items():
            problem = build()
            U = [problem.dynamics.nominal_control(problem.x0).tolist()] * problem.horizon
            limits = [problem.lower[0].tolist(), problem.upper[0].tolist()]
            theirs, ours = {"boxfddp": [], "boxddp": []}, []
            for _ in range(REPEATS):
                for solver, runs in theirs.items():
                    start = "tiled" if solver == "boxfddp" else "rollout"
                    runs.append(crocoddyl.ask(name, U=U, solver=solver, limits=limits, start=start, limit=200))
                ours.append(timed(problem, ddp.DDP(), None))
            own = of_each(ours)
            for solver, runs in theirs.items():
                each, run = of_each(runs), runs[0]
                ratio = (sum(own) / len(own)) / (sum(each) / len(each))
                bar = f", bar {BARS[name]}" if solver == "boxfddp" else ""
                print(
                    f"{name}: {solver} {run['iterations']} iterations of {sum(each) / len(each):.3f} ms, "
                    f"{sum(each):.2f} ms, cost {run['cost']:.6g}, converged {run['converged']}; mayne "
                    f"{ours[0]['iterations']} of {sum(own) / len(own):.3f} ms, {sum(own):.2f} ms, cost "
                    f"{ours[0]['cost']:.6g}: ratio {ratio:.2f}{bar}", flush=True,
                )  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""mayne against Crocoddyl on the benchmark problems: ``make bench-crocoddyl``, or with options

    .venv/bin/python tests/benchmarks/against_crocoddyl/compare.py --python .venv-crocoddyl/bin/python --help

Both run in turn on one thread, mayne here and Crocoddyl in its own environment. A solve is repeated, each of its
iterations counts at its fastest, by the wall clock or, where the machine has other work to do, by the processor's.
"""

import argparse
import json
import os
import sys
import time
from math import exp, log
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import crocoddyl_gaits
import random_starts
from crocoddyl_client import ONE_THREAD, Crocoddyl
from mayne_runs import guess_of, timed
from rich.console import Console
from rich.table import Table

import ddp
import problems

ITERATION_BARS = {
    "pendulum/swing-up": 0.5, "cartpole/swing-up": 0.5, "arm/reach": 0.25, "arm/out-of-reach": 0.25,
    "quadrotor/loop": 0.25, "quadruped/reorientation": 0.2,
    "quadruped/walk": 0.5, "quadruped/trot": 0.5, "quadruped/pace": 0.5, "quadruped/bound": 0.5, "quadruped/jump": 0.5,
}  # fmt: skip
"""Time of one full-second-order iteration over that of one FDDP iteration."""

TOTAL_BAR, TOTAL_BARS = 0.2, {"quadruped/reorientation": 0.02}
"""Time to 1e-9 over that of Crocoddyl's best solver: the geometric mean, and single problems."""

OVERHEAD_BAR = 1.6
"""Time of an exact iteration over one of iLQR."""

KEPT_BAR = 1.25
"""Time of a quasi-Newton iteration, one that keeps the contracted second order of an earlier one, over one of iLQR."""

WORK_BARS = {6: 0.6, 9: 0.5}
WORST_WORK = 1.3
"""Work over FDDP's on random starts: geometric means to 1e-6 and 1e-9, and the most that any start may take."""

TWINS = {"cartpole/swing-up": "cartpole/full"}
"""For Crocoddyl's actuation in Python: the compiled problem of the same size that its times are put together from."""

SECOND_ORDER = ("exact", "exact+lm")
"""Models with the dynamics' second derivatives."""

EACH = {"seconds": "wall_each", "cpu": "cpu_each"}
VARIANTS = [(solver, start) for solver in ("fddp", "ddp") for start in ("tiled", "rollout")]
GAITS = tuple(f"quadruped/{gait}" for gait in ("walk", "trot", "pace", "bound", "jump"))
NAMES = [*random_starts.SIGMAS, *GAITS]
SOLVERS = {
    "ddp": ddp.DDP(tolerance=1e-9), "ilqr": ddp.ILQR(tolerance=1e-9), "exact": ddp.DDP(hessian="exact"),
    "quasi": ddp.DDP(tolerance=1e-9, reuse=2),
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="the interpreter that has Crocoddyl")
    parser.add_argument("--problems", nargs="*", default=NAMES, metavar="NAME")
    parser.add_argument("--only", choices=("times", "starts"), help="one half alone")
    parser.add_argument("--repeats", type=int, default=3, help="solves, of which the fastest counts, at least")
    parser.add_argument("--seconds", type=float, default=5.0, help="to spend on repeats of each problem, at least")
    parser.add_argument("--starts", type=int, default=20, help="random starts of each problem")
    parser.add_argument("--states", choices=("tiled", "rollout"), default="tiled", help="what random starts start from")
    parser.add_argument("--clock", choices=("seconds", "cpu"), default="seconds", help="of the wall or the processor")
    parser.add_argument("--json", metavar="FILE", help="write everything that was measured")
    options = parser.parse_args()
    if any(os.environ.get(name) != value for name, value in ONE_THREAD.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | ONE_THREAD)
    names = list(dict.fromkeys(options.problems))
    console = Console(width=None if sys.stdout.isatty() else 220)
    with Crocoddyl(options.python) as crocoddyl:
        measured = {"versions": crocoddyl.versions, "clock": options.clock, "times": [], "starts": []}
        versions = ", ".join(f"{name} {version}" for name, version in crocoddyl.versions.items())
        console.print(f"against {versions}; clock: {options.clock}")
        for name in names if options.only != "starts" else ():
            measured["times"].append(times(crocoddyl, name, options))
            finished(console, name, "timed", measured, options.json)
        if measured["times"]:
            print_times(console, measured["times"])
        for name in names if options.only != "times" else ():
            if name in random_starts.SIGMAS:
                runs = random_starts.runs(crocoddyl, name, range(options.starts), options.states)
                measured["starts"].append({**random_starts.summary(name, runs), "runs": runs})
                finished(console, name, "from random starts", measured, options.json)
        if measured["starts"]:
            print_work(console, measured["starts"])
            print_starts(console, measured["starts"])


def finished(console, name, what, measured, path):
    """Say so, and keep what there is."""
    console.print(f"[dim]{name} {what}[/dim]")
    if path:
        Path(path).write_text(json.dumps(measured, indent=1))


def times(crocoddyl, name, options):
    """Everything about one problem from its own guess."""
    problem, guess, U = ours_of(name)
    trace = crocoddyl.ask(name, U=U, trace=True)
    row = {"problem": name, "guess_cost": trace["guess_cost"]}
    row |= {f"fddp_{key}": trace[key] for key in ("iterations", "cost", "converged")}
    runs = {v: [crocoddyl.ask(name, U=U, solver=v[0], start=v[1])] for v in VARIANTS}
    good = {v: r[0] for v, r in runs.items() if r[0]["converged"] and r[0]["cost"] <= 1.01 * trace["cost"]}
    best = min(good, key=lambda v: good[v][options.clock], default=VARIANTS[0])
    row |= {"best": " ".join(best), "best_iterations": runs[best][0]["iterations"], "best_converged": bool(good)}
    ours = {solver: [] for solver in SOLVERS}
    for solver in ours:  # compile
        timed(problem, SOLVERS[solver], guess)
    end = time.monotonic() + options.seconds
    while len(runs[best]) < options.repeats or time.monotonic() < end:
        for variant in dict.fromkeys((VARIANTS[0], best)):
            runs[variant].append(crocoddyl.ask(name, U=U, solver=variant[0], start=variant[1]))
        for solver, found in ours.items():
            found.append(timed(problem, SOLVERS[solver], guess))
    row |= {"fddp_ms": fastest(runs[VARIANTS[0]], options.clock), "best_ms": fastest(runs[best], options.clock)}
    row["repeats"] = len(runs[best])
    if name in TWINS:
        parts = crocoddyl.ask(TWINS[name], do="parts", repeat=200)
        rollouts = trace["trace"][-1]["rollouts"]
        ms = trace["iterations"] * (parts["derivatives"] + parts["backward"]) + rollouts * parts["forward"]
        row |= {"python_ms": row["fddp_ms"], "best_ms": row["best_ms"] * ms / row["fddp_ms"], "fddp_ms": ms}
    row["fddp_iteration_ms"] = row["fddp_ms"] / row["fddp_iterations"]
    return row | mayne_times(row, ours, options.clock)


def ours_of(name):
    """Our problem of a name, its guess, and the controls of that for Crocoddyl, whose guess of gaits is its own."""
    if name in GAITS:
        problem = crocoddyl_gaits.gait(name.split("/")[1])
        return problem, crocoddyl_gaits.guess(problem), None
    entry = problems.find(name)
    problem = entry()
    return problem, entry.guess(problem), guess_of(entry, problem).tolist()


def mayne_times(row, ours, clock):
    """Of our solves: outcomes, times, and what the bars compare."""
    mine = {}
    for solver, runs in ours.items():
        mine |= {f"{solver}_{key}": runs[0][key] for key in ("iterations", "cost", "converged", "status")}
        mine[f"{solver}_ms"] = fastest(runs, clock)
    kinds = ours["ddp"][0]["hessians"]
    chosen = "ddp" if any(kind in SECOND_ORDER for kind in kinds) else "exact"
    first, *each = zip(iterations(ours[chosen], clock), ours[chosen][0]["hessians"], strict=True)
    second_order = mean([spent for spent, kind in each if kind in SECOND_ORDER] or first[:1])  # has the start in it
    gauss_newton = mean(iterations(ours["ilqr"], clock))
    each = zip(iterations(ours["quasi"], clock), ours["quasi"][0]["contractions"], strict=True)
    kept = [spent for spent, contraction in each if contraction == "kept"]
    return mine | {
        "second_order_ms": second_order,
        "second_order_from": chosen,
        "gauss_newton_ms": gauss_newton,
        "iteration_ratio": second_order / row["fddp_iteration_ms"],
        "total_ratio": mine["ddp_ms"] / row["best_ms"],
        "overhead": second_order / gauss_newton,
        "kept_overhead": mean(kept) / gauss_newton if kept else None,
    }


def iterations(runs, clock):
    """Milliseconds of every iteration of a solve, each the fastest of the runs, which all do the same."""
    return [1e3 * min(spent) for spent in zip(*(run[EACH[clock]] for run in runs), strict=True)]


def fastest(runs, clock):
    """Milliseconds of a solve: its iterations at their fastest, and what is around them at its fastest."""
    return sum(iterations(runs, clock)) + 1e3 * min(run[clock] - sum(run[EACH[clock]]) for run in runs)


def print_times(console, rows):
    table = Table(title="From the problems' own guesses, to an expected decrease of 1e-9")
    table.add_column("problem", no_wrap=True)
    theirs = ("FDDP its", "cost", "ms/it", "best solver", "ms")
    ours = ("DDP its", "cost", "ms", "ms/it 2nd", "iLQR its", "ms/it", "iteration ratio", "time ratio")
    for heading in (*theirs, *ours, "2nd/iLQR", "kept/iLQR"):
        table.add_column(heading, justify="right", no_wrap=True)
    for r in rows:
        cells = [
            r["problem"] + ("*" if r["problem"] in TWINS else ""), count(r["fddp_iterations"], r["fddp_converged"]),
            f"{r['fddp_cost']:.5g}", f"{r['fddp_iteration_ms']:.3f}", r["best"] if r["best_converged"] else "none",
            f"{r['best_ms']:.2f}",
        ]  # fmt: skip
        if "ddp_ms" in r:
            total = judged(r["total_ratio"], TOTAL_BARS.get(r["problem"]))
            cells += [
                count(r["ddp_iterations"], r["ddp_converged"]), f"{r['ddp_cost']:.5g}", f"{r['ddp_ms']:.2f}",
                f"{r['second_order_ms']:.3f}", count(r["ilqr_iterations"], r["ilqr_converged"]),
                f"{r['gauss_newton_ms']:.3f}", judged(r["iteration_ratio"], ITERATION_BARS.get(r["problem"])),
                total if r["best_converged"] else f"({total})", judged(r["overhead"], OVERHEAD_BAR),
                judged(r["kept_overhead"], KEPT_BAR),
            ]  # fmt: skip
        table.add_row(*cells)
    console.print(table)
    console.print("(in brackets: not converged) best solver: the fastest of Crocoddyl's, and the states it starts from")
    if any(r["problem"] in TWINS for r in rows):
        console.print("* without the Python actuation that Crocoddyl needs: put together from a compiled twin's times")
    compared = [r["total_ratio"] for r in rows if "total_ratio" in r and r["best_converged"] and r["ddp_converged"]]
    if compared:
        overall = judged(exp(mean([log(ratio) for ratio in compared])), TOTAL_BAR)
        console.print(f"time ratio, geometric mean of the {len(compared)} problems that both solve: {overall}")


def print_work(console, rows):
    table = Table(title=f"Work and iterations over FDDP's, first {random_starts.COMPARED} starts, where both converge")
    for heading in ("problem", "W 1e-4", "W 1e-6", "worst", "W 1e-9", "worst", "its 1e-6", "its 1e-9"):
        table.add_column(heading, justify="right" if heading != "problem" else "left")
    for heading in ("median W 1e-9 FDDP / mayne", "above 1.3 (1e-6, 1e-9)", "lost"):
        table.add_column(heading, justify="right")
    for r in rows:
        above = [sum(ratio > WORST_WORK for ratio in r[f"work_{e}_ratios"].values()) for e in WORK_BARS]
        table.add_row(
            r["problem"], number(r["work_4"]), number(r["work_6"]), judged(r["work_6_worst"], WORST_WORK),
            number(r["work_9"]), judged(r["work_9_worst"], WORST_WORK), number(r["iterations_6"]),
            number(r["iterations_9"]), f"{number(r['work_9_fddp'])} / {number(r['work_9_mayne'])}",
            f"{above[0]}, {above[1]}", ", ".join(map(str, r["lost"])) or "none",
        )  # fmt: skip
    console.print(table)
    for exponent, bar in WORK_BARS.items():
        all_ratios = [ratio for r in rows for ratio in r[f"work_{exponent}_ratios"].values()]
        if all_ratios:
            over = judged(exp(mean([log(ratio) for ratio in all_ratios])), bar)
            console.print(f"geometric mean of W to 1e-{exponent} over {len(all_ratios)} starts: {over}")


def print_starts(console, rows):
    table = Table(title="Random starts: converged to 1e-6, of which within 1 % of the best cost known")
    for heading in ("problem", "starts", "best cost", "FDDP", "mayne", "bar", "of mayne not converged: seeds"):
        table.add_column(heading, justify="right" if heading != "problem" else "left")
    for r in rows:
        failed = [str(run["seed"]) for run in r["runs"] if not run["mayne"]["converged"]]
        table.add_row(
            r["problem"], str(r["starts"]), f"{r['best']:.5g}", f"{r['fddp_converged']}, {r['fddp_close']}",
            f"{r['mayne_converged']}, {r['mayne_close']}", "holds" if r["starts_ok"] else "[red]fails[/red]",
            ", ".join(failed) or "none",
        )  # fmt: skip
    console.print(table)
    for r in rows:
        for run in (run for run in r["runs"] if not run["mayne"]["converged"]):
            ours = run["mayne"]
            console.print(f"{r['problem']} seed {run['seed']}: {ours['status']}, cost {ours['cost']:.5g}")


def judged(value, bar):
    if value is None:
        return "-"
    if bar is None:
        return f"{value:.3g}"
    return f"{value:.3g} <= {bar:g}" if value <= bar else f"[red]{value:.3g} > {bar:g}[/red]"


def count(iterations, converged):
    return str(iterations) if converged else f"({iterations})"


def number(value):
    return "-" if value is None else f"{value:.3g}"


def mean(values):
    return sum(values) / len(values)


if __name__ == "__main__":
    main()

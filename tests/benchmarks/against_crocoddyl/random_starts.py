"""Many random starts of every problem, on both sides from the same controls: who converges, where, at what work.

Work is W = 1.0 per Gauss-Newton sweep + 1.3 per exact sweep + 0.3 per rollout. "To 1e-x" is the first feasible
iterate whose cost is within 1e-x (1 + |J*|) of J*, the cost that the run itself ends at.
"""

import numpy as np
from mayne_runs import guess_of, traced

import ddp
import problems

SIGMAS = {
    "pendulum/swing-up": 1.0, "cartpole/swing-up": 3.0, "arm/reach": 5.0, "arm/out-of-reach": 5.0, "arm/throw": 5.0,
    "quadruped/reorientation": 5.0, "quadrotor/loop": 0.5,
}  # fmt: skip
"""The standard deviation of the noise on the guess's controls."""

WORK = {"sweeps": 1.0, "exact": 1.3, "rollouts": 0.3}
COMPARED = 10
LIMIT = 1000
TIGHT = 1e-12
CLOSE = 0.01


def start(entry, problem, seed):
    """The controls (N, nu) of a seed."""
    guess = guess_of(entry, problem)
    return guess + SIGMAS[entry.name] * np.random.default_rng(1000 + seed).normal(size=guess.shape)


def runs(crocoddyl, name, seeds, states, solver=None):
    """For every seed the outcome of both sides, without their traces but with what was read from them."""
    entry = problems.find(name)
    problem = entry()
    solver = ddp.DDP(tolerance=TIGHT, max_iterations=LIMIT) if solver is None else solver
    rows = []
    for seed in seeds:
        U = start(entry, problem, seed)
        fddp = {"U": U.tolist(), "tolerance": TIGHT, "limit": LIMIT, "trace": True, "start": states}
        crocoddyl.begin(name, **fddp)
        tiled = np.tile(problem.x0, (problem.horizon + 1, 1))
        ours = traced(problem, solver, (tiled, U) if states == "tiled" else U)
        rows.append({"seed": seed, "mayne": digest(ours), "fddp": digest(crocoddyl.finish())})
    return rows


def digest(run):
    """An outcome with, in place of its trace: whether it converged to 1e-6, and what it took to come within 1e-x."""
    rows = run.pop("trace")
    feasible = [row for row in rows if row["feasible"]]
    settled = any(r["expected"] < 1e-6 and r.get("regularization", 0.0) <= 1e-8 for r in feasible)
    run["converged"] = bool(run["converged"] or settled)
    run["cost"] = min((row["cost"] for row in feasible), default=float("inf"))
    for exponent in (4, 6, 9):
        bound = run["cost"] + 10.0**-exponent * (1.0 + abs(run["cost"]))
        first = next((i for i, row in enumerate(rows) if row["feasible"] and row["cost"] <= bound), None)
        if first is not None and run["converged"]:
            work = sum(price * rows[first][count] for count, price in WORK.items())
            run |= {f"iterations_{exponent}": first + 1, f"work_{exponent}": work}
    return run


def summary(name, rows):
    """The figures that the bars are about, for one problem."""
    best = min([problems.find(name).cost, *(row[side]["cost"] for row in rows for side in ("mayne", "fddp"))])
    outcome = {"problem": name, "best": best, "starts": len(rows)}
    for side in ("mayne", "fddp"):
        converged = [row[side] for row in rows if row[side]["converged"]]
        outcome[f"{side}_converged"] = len(converged)
        outcome[f"{side}_close"] = sum(run["cost"] <= best + CLOSE * abs(best) for run in converged)
    outcome["starts_ok"] = bool(
        outcome["mayne_converged"] >= outcome["fddp_converged"] and outcome["mayne_close"] >= outcome["fddp_close"]
    )
    few = rows[:COMPARED]
    both = [row for row in few if row["mayne"]["converged"] and row["fddp"]["converged"]]
    outcome["lost"] = [r["seed"] for r in few if r["fddp"]["converged"] and not r["mayne"]["converged"]]
    for exponent in (4, 6, 9):
        for measure in ("work", "iterations"):
            key = f"{measure}_{exponent}"
            ratios = [row["mayne"][key] / row["fddp"][key] for row in both]
            outcome[key] = float(np.exp(np.mean(np.log(ratios)))) if ratios else None
            outcome[f"{key}_worst"] = max(ratios, default=None)
            outcome[f"{key}_ratios"] = {row["seed"]: ratio for row, ratio in zip(both, ratios, strict=True)}
            for side in ("mayne", "fddp"):
                outcome[f"{key}_{side}"] = float(np.median([r[side][key] for r in both])) if both else None
    return outcome

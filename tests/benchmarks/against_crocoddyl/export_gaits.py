"""Writes the facts of Crocoddyl's ANYmal gaits as JSON, one file a gait: what to rebuild, and numbers to check it by.

    .venv-crocoddyl/bin/python tests/benchmarks/against_crocoddyl/export_gaits.py DIRECTORY

``knots`` lists the running knots in order and ``terminal`` the last: its kind (contact dynamics over ``dt``, or an
impulse), the feet in contact, and every cost term as weight, activation and reference. ``guess`` is the
quasi-static one, ``solution`` FDDP's from it; both with the costs of all knots, term by term.
"""

import json
import sys
from pathlib import Path

import crocoddyl
import numpy as np
import problems_crocoddyl

HUGE = 1e300


def activation(model):
    if isinstance(model, crocoddyl.ActivationModelQuadraticBarrier):
        bounds = {
            name: [None if abs(b) > HUGE else float(b) for b in bound]
            for name, bound in (("lower", model.bounds.lb), ("upper", model.bounds.ub))
        }
        return {"kind": "quadratic barrier", **bounds}
    if isinstance(model, crocoddyl.ActivationModelWeightedQuad):
        return {"kind": "weighted quadratic", "weights": model.weights.tolist()}
    return {"kind": "quadratic"}


def term(model, item):
    """One cost: weight times the activation of the residual."""
    residual = item.cost.residual
    kind = type(residual).__name__.removeprefix("ResidualModel")
    facts = {"weight": item.weight, "residual": kind, "activation": activation(item.cost.activation)}
    if kind == "ContactFrictionCone":
        cone = residual.reference
        return facts | {
            "frame": model.frames[residual.id].name, "mu": cone.mu, "faces": cone.nf,
            "inner approximation": cone.inner_appr, "A": cone.A.tolist(),
        }  # fmt: skip
    if kind == "FrameTranslation":
        facts["frame"] = model.frames[residual.id].name
    return facts | {"reference": np.asarray(residual.reference).tolist()}


def knot(action):
    """The facts of one action model."""
    impulse = isinstance(action, crocoddyl.ActionModelImpulseFwdDynamics)
    inner = action if impulse else action.differential
    model = inner.state.pinocchio
    touching = inner.impulses.impulses.todict() if impulse else inner.contacts.contacts.todict()
    points = [item.impulse if impulse else item.contact for item in touching.values()]
    facts = {
        "kind": "impulse" if impulse else "contact",
        "feet": [model.frames[point.id].name for point in points],
        "axes": sorted({str(point.type) for point in points}),
        "damping of the contact's inertia": inner.JMinvJt_damping,
        "costs": {name: term(model, item) for name, item in inner.costs.costs.todict().items()},
    }
    if impulse:
        return facts | {"restitution": inner.r_coeff}
    return facts | {"dt": action.dt, "gains": [point.gains.tolist() for point in points]}


def costs(problem, xs, us):
    """Total, of every knot, and of every term of every knot as it enters the total."""
    total = problem.calc(xs, us)
    datas = [*problem.runningDatas, problem.terminalData]
    models = [*problem.runningModels, problem.terminalModel]
    terms = []
    for k, (model, data) in enumerate(zip(models, datas, strict=True)):
        impulse = isinstance(model, crocoddyl.ActionModelImpulseFwdDynamics)
        scale = 1.0 if impulse or k == problem.T else model.dt
        inner = data.costs if impulse else data.differential.costs
        weights = (model if impulse else model.differential).costs.costs.todict()
        terms.append({n: scale * weights[n].weight * d.cost for n, d in inner.costs.todict().items()})
    return {"total": total, "knots": [data.cost for data in datas], "terms": terms}


def export(name):
    problem = problems_crocoddyl.gait(name)
    us = problem.quasiStatic([problem.x0] * problem.T)
    tiled = [problem.x0.copy() for _ in range(problem.T + 1)]
    rolled = list(problem.rollout(us))
    solver = crocoddyl.SolverFDDP(problem)
    solver.th_stop = 1e-9
    solver.solve(tiled, us, 100, False)
    guess = {"X tiled": costs(problem, tiled, us), "X rolled out": costs(problem, rolled, us)}
    models = problem.runningModels
    return {
        "name": name,
        "N": problem.T,
        "x0": problem.x0.tolist(),
        "knots": [knot(model) for model in models],
        "terminal": knot(problem.terminalModel),
        "guess": {"U": [u.tolist() for u in us], **guess},
        "solution": {
            "iterations": solver.iter + 1,
            "X": [x.tolist() for x in solver.xs],
            "U": [u[: m.nu].tolist() for u, m in zip(solver.us, models, strict=True)],
            **costs(problem, list(solver.xs), [u[: m.nu] for u, m in zip(solver.us, models, strict=True)]),
        },
    }


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in problems_crocoddyl.GAITS:
        facts = export(name)
        (folder / f"{name}.json").write_text(json.dumps(facts))
        print(name, facts["N"], facts["guess"]["X tiled"]["total"], facts["solution"]["total"])


if __name__ == "__main__":
    main()

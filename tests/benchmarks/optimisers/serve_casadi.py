"""Solves of IPOPT and FATROP through CasADi, asked for in JSON lines; runs in an environment of its own.

Requests: ``problem``, of `casadi_problems.py`; ``solver`` "ipopt" or "fatrop"; ``guess`` (X, U), X or nothing for the
problem's own; ``tolerance``. Multiple shooting, exact Hessians, functions compiled by the machine's C compiler.
"""

import json
import os
import shutil
import sys
import tempfile
import time

import casadi as ca
import numpy as np
from casadi_problems import CASES

SILENT = {"ipopt": {"print_level": 0, "sb": "yes"}, "fatrop": {"print_level": 0}}


def transcribed(case, solver, tolerance):
    """The solver of a case, and its bounds: variables x_0, u_0, x_1, ...; at each knot first the step, then rows."""
    nx, nu = len(case.x0), case.U.shape[1]
    x, u = ca.SX.sym("x", nx), ca.SX.sym("u", nu)
    step = ca.Function("step", [x, u], [case.f(x, u)])
    running = ca.Function("running", [x, u], [case.running(x, u)])
    rows = [(a, b, ca.Function(f"rows{i}", [x, u], [c(x, u)]), *own) for i, (a, b, c, *own) in enumerate(case.rows)]
    X, U = [ca.MX.sym(f"x{k}", nx) for k in range(case.N + 1)], [ca.MX.sym(f"u{k}", nu) for k in range(case.N)]
    variables, lbx, ubx, g, lower, upper, cost = [], [], [], [], [], [], 0.0
    for k in range(case.N + 1):
        variables.append(X[k])
        fixed = case.x0 if k == 0 else case.end if k == case.N else None
        lbx += [-np.inf] * nx if fixed is None else list(fixed)
        ubx += [np.inf] * nx if fixed is None else list(fixed)
        here = U[k] if k < case.N else ca.DM.zeros(nu)
        if k < case.N:
            variables.append(U[k])
            for bounds, limit in zip((lbx, ubx), case.limits, strict=True):
                bounds += np.broadcast_to(np.asarray(limit, float), nu).tolist()
            cost = cost + running(X[k], U[k])
            g.append(X[k + 1] - step(X[k], U[k]))
            lower += [0.0] * nx
            upper += [0.0] * nx
        for first, last, c, low, high in rows:
            if first <= k <= last:
                value = c(X[k], here)
                g.append(value)
                lower += np.broadcast_to(np.asarray(low, float), value.numel()).tolist()
                upper += np.broadcast_to(np.asarray(high, float), value.numel()).tolist()
    nlp = {"x": ca.vertcat(*variables), "f": cost + case.terminal(X[case.N]), "g": ca.vertcat(*g)}
    options = {"print_time": False, solver: SILENT[solver] | {"tol": tolerance, "max_iter": 1000}}
    if solver == "fatrop":
        same = [low == high for low, high in zip(lower, upper, strict=True)]
        options |= {"structure_detection": "auto", "equality": same}
    if shutil.which("cc"):
        options |= {"jit": True, "compiler": "shell", "jit_options": {"compiler": "cc", "flags": ["-O2"]}}
    made = ca.nlpsol("solver", solver, nlp, options)
    return made, {"lbx": lbx, "ubx": ubx, "lbg": lower, "ubg": upper}


KNOWN = {}


def solved(problem, solver, guess=None, tolerance=1e-8, do="solve"):
    """One solve: iterations, seconds of the processor, cost, violation; compiled once."""
    case = CASES[problem]()
    key = problem, solver, tolerance
    if key not in KNOWN:
        KNOWN[key] = transcribed(case, solver, tolerance)
    made, bounds = KNOWN[key]
    X, U = (None, None) if guess is None else guess
    X, U = np.array(case.X if X is None else X), np.array(case.U if U is None else U)
    start = np.concatenate([np.concatenate([X[:-1], U], axis=1).ravel(), X[-1]])
    begin = time.thread_time()
    found = made(x0=start, **bounds)
    seconds = time.thread_time() - begin
    g, stats = np.array(found["g"]).ravel(), made.stats()
    beyond = np.maximum(g - np.array(bounds["ubg"]), np.array(bounds["lbg"]) - g)
    return {
        "iterations": int(stats["iter_count"]), "seconds": seconds, "cost": float(found["f"]),
        "violation": float(max(beyond.max(), 0.0)), "converged": bool(stats["success"]),
        "status": str(stats["return_status"]),
    }  # fmt: skip


def main():
    with tempfile.TemporaryDirectory() as folder:  # CasADi compiles where it is
        os.chdir(folder)
        serve()


def serve():
    """Answer requests until there are no more."""
    answers, sys.stdout = sys.stdout, sys.stderr
    print(json.dumps({"casadi": ca.__version__, "problems": list(CASES)}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = solved(**request)
        except Exception as reason:
            answer = {"error": f"{type(reason).__name__}: {reason}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()

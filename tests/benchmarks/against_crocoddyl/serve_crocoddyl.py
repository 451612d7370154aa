"""Solves with Crocoddyl what it is asked on standard input, one JSON request a line, one JSON answer a line.

Requests: ``{"problem": name, "do": "solve" | "parts", ...}``; answers carry ``error`` where something went wrong.
Solving: ``U`` (N, nu) controls to start from (null: the quasi-static ones), ``start`` "tiled" (every state x0) or
"rollout" (the controls' own), ``solver`` "fddp", "ddp" or, with ``limits`` of controls (lower, upper), "boxfddp" or
"boxddp", ``tolerance`` (th_stop), ``limit`` on iterations, and ``trace``, whether to say what every iteration did
(which slows it a little).
"""

import itertools
import json
import os
import sys
import time

import crocoddyl
import numpy as np
import pinocchio
import problems_crocoddyl

SOLVERS = {
    "fddp": crocoddyl.SolverFDDP, "ddp": crocoddyl.SolverDDP, "boxfddp": crocoddyl.SolverBoxFDDP,
    "boxddp": crocoddyl.SolverBoxDDP,
}  # fmt: skip
TINY_GAP = 1e-10


class Trace(crocoddyl.CallbackAbstract):
    """Counts sweeps and rollouts: one sweep an iteration and one for every failed factorisation, which shows in
    the regularisation alone; a rollout for every step length down from 1."""

    def __init__(self):
        crocoddyl.CallbackAbstract.__init__(self)
        self.rows, self.sweeps, self.rollouts, self.regularization = [], 0, 0, None

    def __call__(self, solver):
        before = solver.reg_min if self.regularization is None else self.regularization
        after = solver.preg
        alpha = solver.stepLength
        during = after * solver.reg_decFactor if alpha > solver.th_stepDec and after > solver.reg_min else after
        if alpha <= solver.th_stepInc:
            during = after / solver.reg_incFactor
        failures = max(0, round(np.log(during / before) / np.log(solver.reg_incFactor)))
        self.regularization = after
        self.sweeps += 1 + failures
        self.rollouts += 1 + round(-np.log2(alpha))
        feasible = bool(solver.isFeasible) or (1.0 - alpha) * max(np.abs(f).max() for f in solver.fs) < TINY_GAP
        row = {"cost": solver.cost, "expected": solver.stop, "feasible": bool(feasible), "alpha": alpha}
        self.rows.append({**row, "sweeps": self.sweeps, "exact": 0.0, "rollouts": self.rollouts})


class Clock(crocoddyl.CallbackAbstract):
    """When iterations end, on the wall and of the processor."""

    def __init__(self):
        crocoddyl.CallbackAbstract.__init__(self)
        self.stamps = []

    def __call__(self, solver):
        self.stamps.append((time.perf_counter(), time.thread_time()))


def controls(problem, U):
    models, x0 = problem.runningModels, problem.x0
    if U is None:
        return list(problem.quasiStatic([x0] * problem.T))
    return [np.array(u[: model.nu]) for u, model in zip(U, models, strict=True)]


def solve(problem, request):
    us = controls(problem, request.get("U"))
    if "limits" in request:
        for model in problem.runningModels:
            model.u_lb, model.u_ub = (np.array(side) for side in request["limits"])
    tiled = request.get("start", "tiled") == "tiled"
    xs = [problem.x0.copy() for _ in range(problem.T + 1)] if tiled else list(problem.rollout(us))
    answer = {"guess_cost": problem.calc(list(problem.rollout(us)), us)}
    solver = SOLVERS[request.get("solver", "fddp")](problem)
    solver.th_stop = request.get("tolerance", 1e-9)
    trace, clock = Trace(), Clock()
    solver.setCallbacks([trace] if request.get("trace") else [clock])
    wall, cpu = time.perf_counter(), time.thread_time()
    converged = solver.solve(xs, us, request.get("limit", 1000), not tiled)
    answer["cpu"], answer["seconds"] = time.thread_time() - cpu, time.perf_counter() - wall
    iterations = min(solver.iter + 1, request.get("limit", 1000))
    answer |= {"converged": bool(converged), "iterations": iterations, "cost": solver.cost, "stop": solver.stop}
    if request.get("trace"):
        return answer | {"trace": trace.rows}
    for i, name in enumerate(("wall_each", "cpu_each")):
        ends = [(wall, cpu)[i], *(stamp[i] for stamp in clock.stamps)]
        answer[name] = [after - before for before, after in itertools.pairwise(ends)]
    return answer


def parts(problem, request):
    """Milliseconds of derivatives, backward sweep and one rollout, each the best of some."""
    us = controls(problem, request.get("U"))
    solver = crocoddyl.SolverFDDP(problem)
    solver.setCandidate(list(problem.rollout(us)), us, True)
    answer = {}
    for name, function in (
        ("derivatives", solver.calcDiff),
        ("backward", solver.backwardPass),
        ("forward", lambda: solver.forwardPass(1e-3)),
    ):
        times = []
        for _ in range(request.get("repeat", 20)):
            start = time.thread_time()
            function()
            times.append(time.thread_time() - start)
        answer[name] = 1e3 * min(times)
    return answer


def main():
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what the libraries print is no answer
    built = {}
    print(json.dumps({"crocoddyl": crocoddyl.__version__, "pin": pinocchio.__version__}), file=answers)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            name = request["problem"]
            if name not in built:
                built[name] = problems_crocoddyl.ALL[name]()
            answer = {"solve": solve, "parts": parts}[request["do"]](built[name], request)
        except Exception as failure:  # told to the other side, which knows what it asked
            answer = {"error": f"{type(failure).__name__}: {failure}"}
        print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    main()

"""What is abused of `ddp`."""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

import ddp
from abuse.subjects import Subject
from dynamics import FunctionDynamics
from problems import pendulum


def subjects():
    dynamics = FunctionDynamics(_turn, 2, 1, dt=0.1)
    problem = ddp.Problem(dynamics, [_Effort()], [_Upright()], np.zeros(2), 5, constraints=[ddp.Inequality(_room)])
    plain = replace(problem, constraints=())
    solution = ddp.solve(plain)
    X, U = solution.X, solution.U
    folder = Path(tempfile.mkdtemp(prefix="mayne-abuse-"))
    file = folder / "solution.npz"
    solution.save(file)
    given = {
        "dynamics": dynamics, "running": [_Effort()], "terminal": [_Upright()], "x0": np.zeros(2), "horizon": 5,
        "at": {2: [_Upright()]}, "control_limits": (-1.0, 1.0), "constraints": [ddp.Inequality(_room)],
        "terminal_constraints": [ddp.Equality(_end)], "constraints_at": {3: [ddp.Inequality(_room)]},
        "during": {range(1, 3): [_Effort()]},
    }  # fmt: skip
    others = {"at": ("at[",), "guess": ("guess",), "X": ("states", "terminal"), "problem": ("problem", "solution")}
    alone = "problem", "solver", "callback", "throw", "workers"
    threads = {"problem": pendulum.swing_up(horizon=20), "throw": False}
    controller = ddp.RecedingHorizon(plain)
    return [
        Subject("Problem", ddp.Problem, given),
        Subject("Problem.cost", plain.cost, {"X": X, "U": U}),
        Subject("Problem.starting_at", plain.starting_at, {"x0": np.zeros(2)}),
        Subject("DDP", ddp.DDP, {}),
        Subject("ILQR", ddp.ILQR, {}),
        Subject("Newton", ddp.Newton, {}),
        Subject("AugmentedLagrangian", ddp.AugmentedLagrangian, {}),
        Subject("Backtracking", ddp.Backtracking, {}),
        Subject("Workers", ddp.Workers, {}),
        Subject("Equality", ddp.Equality, {"function": _end}),
        Subject("Inequality", ddp.Inequality, {"function": _room}),
        Subject("JittedTerm", ddp.JittedTerm, {"value": _value}),
        Subject(
            "solve", ddp.solve, {"problem": plain, "guess": U}, ("workers", "callback"), others,
            {"guess": ("a tuple",)},
        ),
        Subject("solve from states", ddp.solve, {"problem": plain, "guess": (X, U)}, alone),
        Subject("solve from a solution", ddp.solve, {"problem": plain, "guess": solution}, alone),
        Subject("solve with threads", ddp.solve, threads, ("problem", "guess", "callback")),
        Subject("check_derivatives", ddp.check_derivatives, {"problem": plain, "X": X, "U": U}),
        Subject("RecedingHorizon", ddp.RecedingHorizon, {"problem": plain}),
        Subject("RecedingHorizon.solve", controller.solve, {"x": np.zeros(2)}),
        Subject("Solution.policy", solution.policy, {"t": 0.1, "x": X[1].copy()}),
        Subject("Solution.shift", solution.shift, {"steps": 1}),
        Subject("Solution.save", solution.save, {"path": folder / "other.npz"}),
        Subject("Solution.load", ddp.Solution.load, {"path": file, "problem": plain}),
    ]  # fmt: skip


def _turn(x, u):
    return np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * (u[0] - np.sin(x[0]))])


def _room(x, u):
    return x[:1] - 10.0


def _end(x, u):
    return x[:1] - 0.1


def _value(x, u):
    return 0.5 * u[0] * u[0]


class _Effort:
    def value(self, x, u):
        return 0.5 * (u @ u)


class _Upright:
    def value(self, x, u):
        return 5.0 * (x[0] - 0.3) ** 2 + x[1] ** 2

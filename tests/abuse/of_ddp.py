"""Functions of `ddp` that are abused."""

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
    many = ddp.solve_many(plain, {"x0": np.zeros((2, 2))}, executor=1, start="neighbours")
    return [
        *_of_feedback(folder),
        Subject("Problem", ddp.Problem, given),
        Subject("Batch", ddp.Batch, {"problem": plain, "size": 8}, ("solver",)),
        Subject("Checkpoint", ddp.Checkpoint, {"path": folder / "checkpoint.npz", "notes": {"a": "b"}}),
        Subject("Problem.cost", plain.cost, {"X": X, "U": U}, (), {"X": ("terminal",)}),
        Subject("Problem.starting_at", plain.starting_at, {"x0": np.zeros(2)}),
        Subject(
            "solve_best", ddp.solve_best, {"problem": plain, "guesses": [U], "executor": 1}, ("progress", "solver"),
            {"problem": ("guess",)},
        ),
        Subject(
            "solve_many", ddp.solve_many, {"problem": plain, "over": {"x0": np.zeros((2, 2))}, "executor": 1},
            ("into", "progress", "solver", "start"), {"problem": ("over",), "shard": ("into",)},
        ),
        Subject(
            "Solutions.open", ddp.Solutions.open, {"path": file, "problem": plain}, (), {"path": ("into",)},
            {"problem": ("None",)}, refuses=True,
        ),
        Subject("Solutions.solution", many.solution, {"i": 0}),
        Subject("Problem.varying", _varied(plain), {"x0": np.zeros(2)}),
        Subject("Solution.attached", solution.attached, {"problem": plain}),
        Subject("Soft", ddp.Soft, {"constraint": ddp.Inequality(_room), "price": 1.0}),
        Subject("JittedConstraint", ddp.JittedConstraint, {"function": _room}, ("function", "jacobian", "hessian")),
        Subject("Euclidean", ddp.Euclidean, {"size": 2}, others={"size": ("Euclidean",)}),
        Subject("Space", ddp.Space, {"parts": (ddp.SO3(), ddp.SE2(), ddp.S1())}, others={"parts": ("state",)}),
        Subject("DDP", ddp.DDP, {}),
        Subject("ILQR", ddp.ILQR, {}),
        Subject("Newton", ddp.Newton, {}),
        Subject("AugmentedLagrangian", ddp.AugmentedLagrangian, {}),
        Subject("Backtracking", ddp.Backtracking, {}),
        Subject("Workers", ddp.Workers, {}),
        Subject("Equality", ddp.Equality, {"function": _end}),
        Subject("Inequality", ddp.Inequality, {"function": _room}),
        Subject("Cost", ddp.Cost, {"function": _value, "parameters": np.zeros(2)}),
        Subject("JittedTerm", ddp.JittedTerm, {"value": _value}),
        Subject("JittedConstraint", ddp.JittedConstraint, {"function": _room}),
        Subject("Soft", ddp.Soft, {"constraint": ddp.Inequality(_room), "price": 1.0}),
        Subject(
            "solve", ddp.solve, {"problem": plain, "guess": U}, ("workers", "callback"), others,
            {"guess": ("a tuple",)},
        ),
        Subject("solve from states", ddp.solve, {"problem": plain, "guess": (X, U)}, alone),
        Subject("solve from a solution", ddp.solve, {"problem": plain, "guess": solution}, alone),
        Subject("solve with threads", ddp.solve, threads, ("problem", "guess", "callback")),
        Subject("check_derivatives", ddp.check_derivatives, {"problem": plain, "X": X, "U": U}),
        Subject("RecedingHorizon", ddp.RecedingHorizon, {"problem": plain}),
        Subject("RecedingHorizon.plan", _first_plan(controller), {"t": 0.0, "x": np.zeros(2)}),
        Subject("RecedingHorizon.solve", _first_solve(controller), {"x": np.zeros(2), "steps": 1}),
        Subject("Solution.policy", solution.policy, {"t": 0.1, "x": X[1].copy()}),
        Subject("Solution.feedback", solution.feedback, {"feedback": "solver"}),
        Subject("Policy.reference", solution.policy.reference, {"t": 0.1}),
        Subject("Policy.export", solution.policy.export, {"path": folder / "gains.csv"}),
        Subject("Solution.sensitivity", lambda names: solution.sensitivity(names), {"names": "x0"}),
        Subject("Sensitivity.predicted", solution.sensitivity("x0").predicted, {"numbers": {"x0": solution.X[0]}}),
        Subject("Solution.shift", solution.shift, {"steps": 1}),
        Subject("Solution.save", solution.save, {"path": folder / "other.npz"}),
        Subject("Solution.load", ddp.Solution.load, {"path": file, "problem": plain}),
    ]  # fmt: skip


def _of_feedback(folder):
    """Regulators and observers of a system that nothing moves at the origin."""
    system, x, u, one, two = FunctionDynamics(_turn, 2, 1), np.zeros(2), np.zeros(1), np.ones(1), np.ones(2)
    sensor, X, U = ddp.LinearSensor(np.eye(2)), np.zeros((4, 2)), np.zeros((3, 1))
    regulator, observer = ddp.lqr(system, x, u, two, one), ddp.kalman(system, x, u, sensor, two, two)
    file, other = folder / "regulator.npz", folder / "observer.npz"
    regulator.save(file)
    observer.save(other)
    named = {"x": ("x, u", "X"), "u": ("x, u", "U"), "A": ("B",), "Q": ("Q, R",), "W": ("W, V",), "dynamics": ("path",)}
    return [
        Subject("discretize", ddp.discretize, {"A": np.eye(2), "B": np.ones((2, 1)), "dt": 0.1}, (), named),
        Subject("lqr", ddp.lqr, {"dynamics": system, "x": x, "u": u, "Q": two, "R": one}, (), named),
        Subject(
            "tvlqr", ddp.tvlqr, {"dynamics": system, "X": X, "U": U, "Q": two, "R": one, "Q_end": two}, (), named
        ),
        Subject(
            "kalman", ddp.kalman, {"dynamics": system, "x": x, "u": u, "sensors": sensor, "W": two, "V": two}, (), named
        ),
        Subject(
            "kalman along", ddp.kalman,
            {"dynamics": system, "x": X, "u": U, "sensors": sensor, "W": two, "V": two, "P0": two}, (),
            named | {"x": ("P0", "u"), "u": ("x",)},
        ),
        Subject("LinearSensor", ddp.LinearSensor, {"C": np.eye(2)}),
        Subject("Regulator.policy", regulator.policy, {"t": 0.1, "x": x}),
        Subject("Regulator.save", regulator.save, {"path": folder / "saved.npz"}),
        Subject("Regulator.export", regulator.export, {"path": folder / "exported.npz"}),
        Subject("Regulator.load", ddp.Regulator.load, {"path": file, "dynamics": system}, (), named),
        Subject("Observer.estimate", observer.estimate, {"t": 0.1, "x": x, "u": u, "y": [x]}),
        Subject("Observer.measure", observer.measure, {"x": x}),
        Subject("Observer.load", ddp.Observer.load, {"path": other, "dynamics": system, "sensors": sensor}, (), named),
    ]  # fmt: skip


def _varied(problem):
    """`Problem.varying` with one number."""
    return lambda x0: problem.varying(x0=x0)


def _first_plan(controller):
    """`RecedingHorizon.plan` as if it were asked for the first time."""

    def plan(t, x):
        controller.restart()
        return controller.plan(t, x)

    return plan


def _first_solve(controller):
    """`RecedingHorizon.solve` as if it were asked for the first time: others begin with the last solution."""

    def solve(x, steps):
        controller.restart()
        return controller.solve(x, steps)

    return solve


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

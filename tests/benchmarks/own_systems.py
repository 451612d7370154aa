"""Systems of one's own against their bars, beside JAX and CasADi where they are installed: ``make bench-own``.

Times are of this process's processor, the least of many repeats, what is compared measured in turn: other work on the
machine counts little. JAX and CasADi may be in an environment of their own:
``PYTHONPATH=.:<its site-packages> python -m tests.benchmarks.own_systems``.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np

import ddp
import dynamics
import problems
from ddp.systems.system import Expansion
from ddp.tracing import machine_code
from dynamics import ContinuousDynamics, FunctionDynamics
from problems.costs import ControlCost, FramePosition, StateCost

ROWS: list[tuple[str, str, str]] = []


def told(what: str, measured: str, bar: str) -> None:
    """Print and keep a row."""
    ROWS.append((what, measured, bar))
    print(f"{what:<62}{measured:<44}{bar}", flush=True)


def least(functions: list[Any], repeats: int = 30) -> list[float]:
    """Least times [s] of functions, called in turn."""
    best = [np.inf] * len(functions)
    for _ in range(repeats):
        for i, function in enumerate(functions):
            begin = time.process_time_ns()
            function()
            best[i] = min(best[i], (time.process_time_ns() - begin) * 1e-9)
    return best


CAR = '''
import time
import numpy as np
import mayne
def car(x, u):
    return x + 0.05 * np.array([x[3] * np.cos(x[2]), x[3] * np.sin(x[2]), x[3] * u[0], u[1]])
class Effort:
    def value(self, x, u):
        return 0.5 * (u @ u)
class Parked:
    def value(self, x, u):
        return 500.0 * ((x - np.array([2.0, 1.0, 0.0, 0.0])) ** 2).sum()
def whole():
    problem = mayne.Problem(dynamics=mayne.FunctionDynamics(car, nx=4, nu=2, dt=0.05), running=[Effort()],
                            terminal=[Parked()], x0=[0.0, 0.0, 0.0, 1.0], horizon=80)
    return problem, mayne.solve(problem)
mayne.Problem, mayne.FunctionDynamics, mayne.solve
begin = time.process_time(); problem, solution = whole(); first = time.process_time() - begin
best = solving = 1.0
for _ in range(200):
    begin = time.process_time(); whole(); best = min(best, time.process_time() - begin)
    begin = time.process_time(); mayne.solve(problem); solving = min(solving, time.process_time() - begin)
print(first, best, solving, solution.iterations)
'''


def readmes_car() -> None:
    """The README's car, in processes of their own; traces are made anew in the first."""
    run = [sys.executable, "-c", CAR]
    outputs = [subprocess.run(run, capture_output=True, text=True, check=True, env=os.environ) for _ in range(3)]
    times = np.array([[float(word) for word in one.stdout.split()] for one in outputs])
    first, best, solving, iterations = times.min(axis=0)
    measured = f"{1e3 * best:.2f} ms ({1e3 * solving:.2f} solve, {iterations:.0f} it)"
    told("README's car, problem and solve, warm", measured, "1.5 ms")
    told("the same, first time in a process, code kept", f"{first:.3f} s", "0.3 s")


def pendulum(x: Any, u: Any) -> Any:
    """Hand-written `problems.pendulum`."""
    return np.array([x[1], u[0] - 9.81 * np.sin(x[0])])


def cartpole(x: Any, u: Any) -> Any:
    """Hand-written `problems.cartpole`."""
    s, c = np.sin(x[1]), np.cos(x[1])
    M = np.array([[1.1, 0.05 * c], [0.05 * c, 0.025]])
    a = np.linalg.solve(M, np.array([u[0] + 0.05 * s * x[3] ** 2, -0.4905 * s]))
    return np.array([x[2], x[3], a[0], a[1]])


def over_the_built_in() -> None:
    """Iterations of systems by hand over those of built-in ones."""
    for name, f, n in (("pendulum/swing-up", pendulum, 2), ("cartpole/swing-up", cartpole, 4)):
        built = problems.find(name)()
        system = ContinuousDynamics(f, n, 1, built.dynamics.dt, "semi-implicit-euler")
        target = built.terminal[0].target_x
        own = ddp.Problem(
            system, [ControlCost(np.zeros(1), built.running[0].weights),
                     StateCost(system, target, built.running[1].weights)],
            [StateCost(system, target, built.terminal[0].weights)], built.x0, built.horizon, guess=built.guess,
        )  # fmt: skip
        a, b = ddp.solve(own), ddp.solve(built)
        assert abs(a.cost - b.cost) < 1e-8
        times = least([lambda own=own: ddp.solve(own), lambda built=built: ddp.solve(built)])
        per = times[0] / a.iterations, times[1] / b.iterations
        measured = f"{per[0] / per[1]:.2f} ({1e6 * per[0]:.0f} over {1e6 * per[1]:.0f} us)"
        told(f"{name} by hand over built in, an iteration", measured, "1.3")


def quantities_over_the_built_in() -> None:
    """Iterations of reaches whose cost by hand asks for a frame, over those with the built-in term."""
    plain = problems.find("arm/reach")()
    robot, target = plain.dynamics.robot, np.array([0.4, 0.2, 0.5])

    def position(x: Any, u: Any) -> Any:
        e = dynamics.frame_position(robot, x[:6], "tool0") - target
        return 15.0 * (e @ e)

    def placement(x: Any, u: Any) -> Any:
        e = dynamics.frame_placement(robot, x[:6], "tool0")[:3, 3] - target
        return 15.0 * (e @ e)

    built_in = FramePosition(robot, "tool0", target, np.full(3, 30.0))
    for solver in (ddp.DDP(), ddp.ILQR()):
        made = [replace(plain, running=[*plain.running, cost]) for cost in (built_in, position, placement)]
        iterations = [ddp.solve(problem, solver).iterations for problem in made]
        times = least([lambda problem=problem, solver=solver: ddp.solve(problem, solver) for problem in made])
        base, *ratios = (seconds / count for seconds, count in zip(times, iterations, strict=True))
        for name, each in zip(("frame_position", "frame_placement"), ratios, strict=True):
            told(f"reach by {name} over built in, iteration, {solver.hessian}", f"{each / base:.2f}", "1.5")


def rivals() -> None:
    """Derivatives of an RK4 cart-pole at 100 knots: A and B, and H contracted with weights."""
    system = ContinuousDynamics(cartpole, 4, 1, 0.02, "rk4")
    rng = np.random.default_rng(0)
    X, U, W = rng.normal(size=(100, 4)), rng.normal(size=(100, 1)), rng.normal(size=(100, 4))
    out = Expansion(np.empty((100, 4, 4)), np.empty((100, 4, 1)), np.empty((100, system.record_size)))
    H = np.empty((100, 5, 5))
    system.expand(X, U, out)
    ours = [lambda: system.expand(X, U, out), lambda: system.contract(out.record, W, H)]
    theirs: dict[str, list[Any]] = {}
    if importlib.util.find_spec("casadi"):
        theirs["CasADi, gcc"] = of_casadi(X, U, W, True)
        theirs["CasADi's VM"] = of_casadi(X, U, W, False)
    found = least(ours, 300)
    told("RK4 cart-pole, 100 knots: A, B; H", f"{1e6 * found[0]:.1f}; {1e6 * found[1]:.1f} us", "")
    for name, pair in theirs.items():
        beside(name, ours, pair)
    if importlib.util.find_spec("jax"):  # whose threads go on looking for work
        beside("JAX", ours, of_jax(X, U, W))


def beside(name: str, ours: list[Any], theirs: list[Any]) -> None:
    """Tell times of two functions over those of ours, called in turn."""
    a, b, c, d = least([*ours, *theirs], 300)
    times = f"{1e6 * c:.0f}; {1e6 * d:.0f} us beside {1e6 * a:.1f}; {1e6 * b:.1f}"
    told(f"  {name}", f"{times}: {c / a:.1f}, {d / b:.1f}", "5, 5")


def of_jax(X: Any, U: Any, W: Any) -> list[Any]:
    """JAX: batches of all knots, compiled, waited for."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def f(x: Any, u: Any) -> Any:
        s, c = jnp.sin(x[1]), jnp.cos(x[1])
        M = jnp.array([[1.1, 0.05 * c], [0.05 * c, 0.025]])
        det = M[0, 0] * M[1, 1] - M[0, 1] * M[1, 0]
        r = jnp.array([u[0] + 0.05 * s * x[3] ** 2, -0.4905 * s])
        return jnp.array([x[2], x[3], (M[1, 1] * r[0] - M[0, 1] * r[1]) / det, (M[0, 0] * r[1] - M[1, 0] * r[0]) / det])

    def step(z: Any) -> Any:
        x, u, h = z[:4], z[4:], 0.02
        a = f(x, u)
        b = f(x + 0.5 * h * a, u)
        c = f(x + 0.5 * h * b, u)
        return x + h / 6.0 * (a + 2.0 * b + 2.0 * c + f(x + h * c, u))

    J = jax.jit(jax.vmap(jax.jacfwd(step)))
    H = jax.jit(jax.vmap(lambda z, w: jax.hessian(lambda z: w @ step(z))(z)))
    Z, V = jnp.asarray(np.hstack([X, U])), jnp.asarray(W)
    J(Z).block_until_ready()
    H(Z, V).block_until_ready()
    return [lambda: J(Z).block_until_ready(), lambda: H(Z, V).block_until_ready()]


def of_casadi(X: Any, U: Any, W: Any, compiled: bool) -> list[Any]:
    """CasADi: functions mapped over all knots, of its machine or compiled by gcc."""
    import casadi as ca

    x, u, w, h = ca.SX.sym("x", 4), ca.SX.sym("u"), ca.SX.sym("w", 4), 0.02

    def f(x: Any) -> Any:
        s, c = ca.sin(x[1]), ca.cos(x[1])
        a, b, d = 1.1, 0.05 * c, 0.025
        det = a * d - b * b
        r, t = u + 0.05 * s * x[3] ** 2, -0.4905 * s
        return ca.vertcat(x[2], x[3], (d * r - b * t) / det, (a * t - b * r) / det)

    k1 = f(x)
    k2 = f(x + 0.5 * h * k1)
    k3 = f(x + 0.5 * h * k2)
    after = x + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + f(x + h * k3))
    z = ca.vertcat(x, u)
    flags: dict[str, Any] = {"flags": ["-O3", "-march=native"]}
    options: dict[str, Any] = {"jit": True, "compiler": "shell", "jit_options": flags} if compiled else {}
    J = ca.Function("J", [x, u], [ca.jacobian(after, z)], options).map(100)
    H = ca.Function("H", [x, u, w], [ca.hessian(ca.dot(w, after), z)[0]], options).map(100)
    given = ca.DM(X.T), ca.DM(U.T), ca.DM(W.T)
    J(*given[:2]), H(*given)
    return [lambda: J(*given[:2]), lambda: H(*given)]


def compile_times() -> None:
    """Making systems, code kept and not; what is left of those that are dropped."""

    def long(scale: float) -> Any:
        def f(x: Any, u: Any) -> Any:
            y = x
            for k in range(25):
                y = y + 0.02 * np.array([y[1], -np.sin(y[0]) + u[0], scale * y[0] * y[2], np.cos(y[3]) * u[0]])
                y = y * (1.0 - 1e-3 * k)
            return y

        return f

    def chain(scale: float) -> Any:
        def f(x: Any, u: Any) -> Any:
            q, v = x[:20], x[20:]
            stretch = np.diff(np.concatenate([[0.0], q, [0.0]]))
            force = np.diff(scale * stretch + 0.3 * stretch**3)
            force[-1] += u[0]
            v = v + 0.05 * (force - 0.1 * v)
            return np.concatenate([q + 0.05 * v, v])

        return f

    rng = np.random.default_rng()
    for what, make, nx, bar in (("50 lines", long, 4, "0.3 s"), ("chain of n = 40", chain, 40, "1.2 s")):
        scale = float(rng.normal())
        begin = time.process_time()
        FunctionDynamics(make(scale), nx, 1)
        cold = time.process_time() - begin
        gc.collect()
        begin = time.process_time()
        machine_code._loaded.clear()
        FunctionDynamics(make(scale), nx, 1)
        warm = time.process_time() - begin
        told(f"made: f of {what}, cold; traced and loaded", f"{cold:.2f} s; {1e3 * warm:.1f} ms", f"{bar}; 2 ms loaded")


def step_lengths() -> None:
    """A rollout of eight step lengths over one."""
    system = FunctionDynamics(problems.find("car/parking")().dynamics.f, 4, 2)
    rng = np.random.default_rng(0)
    U, X = 0.1 * rng.normal(size=(500, 2)), np.zeros((501, 4))
    X[:] = system.rollout(np.array([1.0, 1.0, 4.7, 0.0]), U)
    k, K, gaps, free = 0.01 * U, 0.01 * rng.normal(size=(500, 2, 4)), np.zeros((500, 4)), np.full(2, np.inf)
    alphas = 0.5 ** np.arange(8.0)
    one, eight = least([lambda: system.track(X, U, k, K, alphas[:1], gaps, -free, free),
                        lambda: system.track(X, U, k, K, alphas, gaps, -free, free)], 200)  # fmt: skip
    told("rollout of eight step lengths over one, 500 knots", f"{eight / one:.2f} ({1e6 * eight:.0f} us)", "1.6")


def spaces() -> None:
    """Problems on spaces of states."""
    from tests.benchmarks.flying import quadrotor, unicycle

    cases = ("quadrotor on SO3, 80 knots", quadrotor, "10 ms"), ("unicycle on SE2", unicycle, "1.5 ms")
    for what, make, bar in cases:
        problem = make()
        solution = ddp.solve(problem)
        (seconds,) = least([lambda problem=problem: ddp.solve(problem)])
        right = ddp.check_derivatives(problem, solution.X, solution.U + 0.1).ok
        told(what, f"{1e3 * seconds:.2f} ms ({solution.iterations} it), derivatives right: {right}", bar)


def prices() -> None:
    """Functions of other libraries: a knot and iteration of a small pendulum."""
    from tests.extras import test_adapters as adapters

    c = adapters.step_of_c.address, adapters.jacobian_of_c.address, adapters.hessian_of_c.address
    systems = {"traced": adapters.TRACED, "C": adapters.of_c.dynamics(*c, 2, 1, 0.05), "NumPy": adapters.of_numpy()}
    systems |= {name: make() for name, make in adapters.INSTALLED.items()}
    for name, system in systems.items():
        problem = adapters.problem(system)
        solution = ddp.solve(problem)
        (seconds,) = least([lambda problem=problem: ddp.solve(problem)], 10)
        told(f"price of {name}", f"{1e6 * seconds / solution.iterations / 40:.1f} us a knot and iteration", "")


def main() -> None:
    """All rows."""
    print(f"{'what':<62}{'measured':<44}bar")
    for rows in (
        readmes_car, over_the_built_in, quantities_over_the_built_in, spaces, rivals, compile_times, step_lengths,
        prices,
    ):  # fmt: skip
        rows()
    for name in ("car/circles", "car/parking"):
        problem = problems.find(name)()
        solution = ddp.solve(problem)
        (seconds,) = least([lambda problem=problem: ddp.solve(problem)], 5)
        bar = {"car/circles": "20 ms", "car/parking": "150 ms, 1.9052"}[name]
        told(name, f"{1e3 * seconds:.0f} ms ({solution.iterations} it, cost {solution.cost:.5g})", bar)


if __name__ == "__main__":
    main()

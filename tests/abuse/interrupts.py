"""Ctrl-C at moments within work of all kinds: what comes of it must be a KeyboardInterrupt, or exit status 130."""

import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from click.testing import CliRunner

import ddp
import dynamics
import viz
from problems import arm, cli, pendulum
from problems.command import shell

PATIENCE = 20.0


class _Effort:
    """A cost in Python, whose own handlers see the interrupt first."""

    def value(self, x, u):
        return 0.5 * float(u @ u)


def scenarios():
    """Names of what is interrupted, and functions that do it once."""
    swing, reach = pendulum.swing_up(horizon=40), arm.reach("ur5", horizon=60)
    own = ddp.Problem(swing.dynamics, [_Effort()], swing.terminal, swing.x0, 20)
    solution = ddp.solve(swing)
    folder = Path(tempfile.mkdtemp(prefix="mayne-abuse-"))
    robot, system = reach.dynamics.robot, dynamics.FunctionDynamics(lambda x, u: x + 0.1 * np.sin(x) + u, 1, 1)
    function = ddp.Problem(system, [_Effort()], [], np.ones(1), 20)
    return {
        "solve": lambda: ddp.solve(reach),
        "solve a cost in Python": lambda: ddp.solve(own, throw=False),
        "solve a function": lambda: ddp.solve(function, throw=False),
        "solve with threads": lambda: ddp.solve(reach, workers="threads:2"),
        "check_derivatives": lambda: ddp.check_derivatives(own, *_guess(own)),
        "load": lambda: dynamics.load("anymal"),
        "save": lambda: solution.save(folder / "solution.npz"),
        "Solution.load": lambda: ddp.Solution.load(folder / "solution.npz", swing),
        "save_html": lambda: viz.save_html(folder / "motion.html", swing.dynamics.robot, solution.X, 0.03),
        "plot": lambda: viz.plot_convergence({"DDP": solution}, folder / "plot.png"),
        "derivatives": lambda: dynamics.inverse_dynamics_derivatives(robot, *np.zeros((3, 6))),
        "command": lambda: _command("solve", "arm/reach"),
    }  # fmt: skip


def _guess(problem):
    U = np.zeros((problem.horizon, problem.dynamics.nu))
    return problem.dynamics.rollout(problem.x0, U), U


def _command(*words):
    result = CliRunner().invoke(cli.main, words)
    if result.exit_code == shell.INTERRUPTED:
        raise KeyboardInterrupt
    if result.exit_code:
        raise RuntimeError(f"exit status {result.exit_code}: {result.stderr}")


def interrupted(work, delay):
    """Which exception (or signal) ends ``work``, done again and again, when it is interrupted after ``delay`` [s]."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        _work(theirs, work)
    os.close(theirs)
    try:
        os.read(ours, 1)
        time.sleep(delay)
        os.kill(child, signal.SIGINT)
        told = os.read(ours, 1 << 12).decode()
    finally:
        os.close(ours)
        _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return told or "no exception"


def _press_again(lost):
    """Interrupt again, soon, where Python had to drop an interrupt, in the callback of a weak reference say."""
    if lost.exc_type is KeyboardInterrupt:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.01)


def _work(pipe, work):
    try:
        silence = os.open(os.devnull, os.O_RDWR)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGVTALRM, signal.default_int_handler)
        sys.unraisablehook = _press_again
        signal.alarm(int(PATIENCE))  # whoever swallows the interrupt goes on for ever
        try:
            os.write(pipe, b".")
            while True:
                work()
        except BaseException as failure:
            os.write(pipe, type(failure).__name__.encode())
    finally:
        os._exit(0)


def main():
    rng, times = np.random.default_rng(5), int(sys.argv[1]) if len(sys.argv) > 1 else 5
    found = {}
    for name, work in scenarios().items():
        work()  # what it needs is imported and compiled
        found[name] = [interrupted(work, delay) for delay in rng.uniform(0.0, 0.2, times)]
        print(json.dumps({name: found[name]}), flush=True)


if __name__ == "__main__":
    main()

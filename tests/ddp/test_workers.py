"""Several threads or processes: the same results to the last bit, clear errors, and nothing left behind."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from systems import FailsLate, Quadratic, failing_pendulum, pendulum, user_pendulum
from thorough import cases

import ddp
import problems
from ddp.parallel import workers as ddp_workers
from ddp.parallel.workers import BLOCK, as_workers, slices
from ddp.sweeps.sized_sweep import sweep_of
from dynamics.steps.function_dynamics import FunctionDynamics

ROOT = Path(__file__).parents[2]
HEADER = f"""
import sys
sys.path[:0] = [{str(ROOT)!r}, {str(Path(__file__).parent)!r}]
import multiprocessing, os, signal, ddp
from systems import pendulum
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may have had it ignored
"""


ignoring_threads = pytest.mark.filterwarnings("ignore:.* fork:DeprecationWarning")
"""Python 3.12 warns of forks beside threads, which here hold no lock."""


def shared_memory() -> set[str]:
    """Files of multiprocessing's shared memory that this process has made, which carry its number."""
    return {entry.name for entry in Path("/dev/shm").glob(f"*-{os.getpid()}-*")}


@pytest.fixture(autouse=True)
def _nothing_left_behind():
    before = shared_memory()
    yield
    assert multiprocessing.active_children() == []
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("mayne")]
    assert shared_memory() <= before


@pytest.mark.parametrize(
    ("make", "workers"),
    cases([(pendulum, 2), (pendulum, 3), (user_pendulum, 2)], [(pendulum, 2), (user_pendulum, 2)]),
)
def test_results_are_the_same_to_the_last_bit_for_any_number_of_workers(make, workers):
    alone, shared = ddp.solve(make()), ddp.solve(make(), workers=workers)
    for name in ("X", "U", "k", "K"):
        assert np.array_equal(getattr(shared, name), getattr(alone, name)), name
    assert shared.cost == alone.cost
    assert [r.expected for r in shared.history] == [r.expected for r in alone.history]
    assert (alone.workers, shared.workers) == ("this thread alone", f"{workers} processes")
    assert len(sweep_of(2, 1, False, 0).signatures) == 1  # compiled once, whoever owns the memory


class Effort:
    """A residual of the control, whose Hessian by Gauss-Newton is not the exact one."""

    def values(self, X, U):
        return 0.5 * (U[:, 0] ** 2 - 0.3) ** 2

    def expand(self, X, U, weight, exact, l, lz, lzz):
        r = U[:, 0] ** 2 - 0.3
        l += weight * 0.5 * r**2
        lz[:, 2] += weight * 2.0 * r * U[:, 0]
        lzz[:, 2, 2] += weight * (4.0 * U[:, 0] ** 2 + (2.0 * r if exact else 0.0))


@pytest.mark.parametrize("solver", [ddp.DDP(), ddp.DDP(hessian="exact"), ddp.Newton()])
def test_threads_change_no_bit_where_gauss_newton_weighs_controls_otherwise(solver):
    plain = user_pendulum()
    problem = ddp.Problem(plain.dynamics, [*plain.running, Effort()], plain.terminal, plain.x0, 30)
    alone = ddp.solve(problem, solver, throw=False)
    shared = ddp.solve(problem, solver, throw=False, workers=ddp.Workers(3, "threads"))
    assert [r.regularization for r in shared.history] == [r.regularization for r in alone.history]
    assert np.array_equal(shared.U, alone.U)
    assert np.array_equal(shared.K, alone.K)


@pytest.mark.parametrize("name", ["quadruped/reorientation", "arm/obstacles", "pendulum/swing-up"])
@pytest.mark.parametrize("multipliers", ["value", "costate", "policy"])
def test_threads_change_no_bit(name, multipliers):
    entry = problems.find(name)
    problem = entry()
    solver = ddp.DDP(hessian="exact", max_iterations=4, multipliers=multipliers)
    alone = ddp.solve(problem, solver, entry.guess(problem), throw=False)
    for workers in (2, 5, "threads:3"):
        shared = ddp.solve(problem, solver, entry.guess(problem), throw=False, workers=workers)
        assert shared.workers == f"{str(workers)[-1]} threads"
        for part in ("X", "U", "k", "K"):
            assert np.array_equal(getattr(shared, part), getattr(alone, part)), part


@pytest.mark.parametrize("size", [1, 3, 8, 9, 15, 16, 101, 401])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_slices_hold_every_knot_once_and_no_small_remainder(size, count):
    found = slices(size, count)
    assert [knot for start, stop in found for knot in range(start, stop)] == list(range(size))
    assert all(start % BLOCK == 0 for start, _ in found)
    assert size < BLOCK or min(stop - start for start, stop in found) >= BLOCK


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        (3, ddp.Workers(3)),
        ("auto", ddp.Workers()),
        ("threads:2", ddp.Workers(2, "threads")),
        ("processes", ddp.Workers("auto", "processes")),
        ("4", ddp.Workers(4)),
    ],
)
def test_workers_can_be_said_in_words(asked, meant):
    assert as_workers(asked) == meant


@pytest.mark.parametrize("asked", [0, "none", "threads:0", "threads:", "fibres:2", "-1", "", 1.5, None])
def test_workers_that_make_no_sense_are_refused(asked):
    with pytest.raises(ddp.ProblemError, match="workers: "):
        as_workers(asked)
    with pytest.raises(ddp.ProblemError, match=r"workers\.kind: expected one of 'auto', .* got 'fibres'"):
        ddp.Workers(2, "fibres")


def test_a_term_of_a_user_is_called_from_other_threads_if_that_is_forced():
    problem = user_pendulum()
    alone, forced = (ddp.solve(problem, workers=workers) for workers in (1, "threads:2"))
    assert forced.workers == "2 threads"
    assert np.array_equal(forced.U, alone.U)


def test_an_exception_in_a_thread_is_of_the_first_knot_and_leaves_no_thread():
    plain = pendulum()
    problem = ddp.Problem(plain.dynamics, [*plain.running, FailsLate()], plain.terminal, plain.x0, plain.horizon)
    message = r"running\[1\] \(FailsLate\): gradient raised ZeroDivisionError: the user's mistake at knot 0"
    with pytest.raises(ddp.ProblemError, match=message) as caught:
        ddp.solve(problem, workers="threads:3")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


class Interrupted(Quadratic):
    """A batch term that the main thread is interrupted in, once it is armed; others go on when threads are to end."""

    done, armed, ending = 0, False, threading.Event()

    def expand(self, X, U, weight, exact, l, lz, lzz):
        if not self.armed:  # tried as the problem is made
            return
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        self.ending.wait(10.0)
        Interrupted.done += 1


def test_an_interrupted_thread_leaves_no_work_to_the_others(monkeypatch):
    plain = pendulum()
    term = Interrupted(np.ones(3), np.zeros(3))
    problem = ddp.Problem(plain.dynamics, [term], plain.terminal, plain.x0, plain.horizon)
    Interrupted.armed = True
    end = ddp_workers.ThreadPoolExecutor.shutdown
    monkeypatch.setattr(
        ddp_workers.ThreadPoolExecutor, "shutdown", lambda pool, **how: Interrupted.ending.set() or end(pool, **how)
    )
    with pytest.raises(KeyboardInterrupt):
        ddp.solve(problem, workers="threads:2")
    assert Interrupted.done <= 1


def test_little_work_is_not_shared_and_much_is(monkeypatch):
    problem = pendulum()
    monkeypatch.setattr(ddp_workers, "cores", lambda: 2)
    for kind, limit in (("threads", 1e3), ("processes", 1e3), ("threads", 0.0)):
        monkeypatch.setitem(ddp_workers.WORTHWHILE, kind, limit)
        solution = ddp.solve(problem, workers=ddp.Workers(kind=kind))
        assert solution.workers.startswith("2 threads" if limit == 0.0 else "this thread alone (an iterate's")
        assert np.array_equal(solution.U, ddp.solve(problem).U)


@ignoring_threads
@pytest.mark.usefixtures("forked")
def test_auto_changes_to_processes_on_the_way(monkeypatch):
    monkeypatch.setattr(ddp_workers, "cores", lambda: 2)
    monkeypatch.setitem(ddp_workers.WORTHWHILE, "processes", 0.0)
    solution = ddp.solve(user_pendulum(), workers="auto")
    assert solution.workers.startswith("2 processes (an iterate's derivatives took")
    assert np.array_equal(solution.U, ddp.solve(user_pendulum()).U)


def test_auto_says_why_it_stays_alone(monkeypatch):
    monkeypatch.setattr(ddp_workers, "cores", lambda: 1)
    assert ddp.solve(pendulum(), workers="auto").workers == "this thread alone (one core)"
    monkeypatch.setattr(ddp_workers, "cores", lambda: 2)
    term = Quadratic(np.ones(2), np.zeros(2))
    problem = ddp.Problem(FunctionDynamics(lambda x, u: x + u, 1, 1), [term], [term], np.zeros(1), 5)
    assert "cannot be sent to 2 processes" in ddp.solve(problem, workers="auto").workers


@ignoring_threads
@pytest.mark.usefixtures("forked")
def test_more_workers_than_knots_are_not_needed():
    assert ddp.solve(pendulum(horizon=1), workers=3).converged


@ignoring_threads
@pytest.mark.usefixtures("forked")
def test_a_worker_that_is_killed_is_an_error_within_seconds():
    """Or as long as workers need to begin, where the machine is busy."""
    seen, begun = [], time.monotonic()

    def tell(record):
        seen.append(time.monotonic())

    with pytest.raises(ddp.SolveError, match=r"worker \d \(process \d+\) ended with exit code -9") as caught:
        ddp.solve(failing_pendulum(after=120, kill=True), workers=2, callback=tell)
    assert time.monotonic() - seen[-1] < 5.0 + seen[0] - begun
    solution = caught.value.solution
    assert not solution.converged
    assert solution.iterations == len(seen) >= 1
    assert "ended with exit code" in solution.status


@ignoring_threads
@pytest.mark.usefixtures("forked")
def test_an_exception_in_a_worker_arrives_with_its_term_knot_and_traceback():
    message = r"running\[1\] \(Fails\): gradient raised ZeroDivisionError: the user's mistake at knot \d+"
    with pytest.raises(ddp.ProblemError, match=message) as caught:
        ddp.solve(failing_pendulum(after=120, kill=False), workers=2)
    (note,) = caught.value.__notes__
    assert "in worker" in note
    assert 'raise ZeroDivisionError("the user\'s mistake")' in note


@ignoring_threads
@pytest.mark.usefixtures("forked")
def test_whichever_process_fails_first_the_first_knots_are_reported():
    plain = pendulum()
    problem = ddp.Problem(plain.dynamics, [*plain.running, FailsLate()], plain.terminal, plain.x0, plain.horizon)
    with pytest.raises(ddp.ProblemError, match="the user's mistake at knot 0"):
        ddp.solve(problem, workers=2)


def test_a_callbacks_own_error_is_not_a_dead_workers():
    mine = ddp.SolveError("enough")

    def stop(record):
        raise mine

    with pytest.raises(ddp.SolveError, match=r"^enough$") as caught:
        ddp.solve(pendulum(), callback=stop)
    assert caught.value is mine
    assert mine.solution is None


def test_a_problem_that_cannot_be_pickled_is_explained():
    term = Quadratic(np.ones(2), np.zeros(2))
    problem = ddp.Problem(FunctionDynamics(lambda x, u: x + u, 1, 1), [term], [term], np.zeros(1), 5)
    with pytest.raises(ddp.ProblemError, match=r"workers: the problem cannot be sent .* top of a module"):
        ddp.solve(problem, workers=2)


@ignoring_threads
@pytest.mark.usefixtures("forked")
def test_a_callback_that_raises_ends_the_workers():
    def stop(record):
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        ddp.solve(pendulum(), workers=2, callback=stop)


def run(script: Path, code: str, **options) -> subprocess.Popen:
    script.write_text(HEADER + code)
    return subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def test_a_script_without_a_main_guard_is_told_about_it(tmp_path):
    process = run(tmp_path / "unguarded.py", "ddp.solve(pendulum(), workers=2)\n")
    _, errors = process.communicate(timeout=180)
    assert process.returncode == 1
    assert "ProblemError: workers: worker" in errors
    assert "if __name__ == '__main__':" in errors


LONG = """
def tell(record):
    print(*[child.pid for child in multiprocessing.active_children()], flush=True)

if __name__ == "__main__":
    ddp.solve(pendulum(horizon=20_000), ddp.ILQR(), workers=2, callback=tell)
"""


def gone(pid: int) -> bool:
    """Whether a process has ended, collected by its parent or not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except ProcessLookupError:
        return True
    except FileNotFoundError:  # no /proc on this system, or it went just now
        return False


def said_at_an_interrupt(process) -> str:
    """Errors of a process that ends by an interrupt, and tells of nothing else."""
    try:
        _, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode in (1, -signal.SIGINT)
    assert errors.count("Traceback") == 1
    assert errors.rstrip().endswith("KeyboardInterrupt")
    return errors


@pytest.mark.parametrize("to_the_group", cases([True, False], [True]))
def test_an_interrupt_leaves_no_process_no_memory_and_no_noise(tmp_path, to_the_group):
    process = run(tmp_path / "long.py", LONG, start_new_session=True)
    workers = [int(pid) for pid in process.stdout.readline().split()]
    assert len(workers) == 2
    send = os.killpg if to_the_group else os.kill
    send(process.pid, signal.SIGINT)
    assert "resource_tracker" not in said_at_an_interrupt(process)
    assert all(gone(pid) for pid in workers)


def test_workers_end_with_a_parent_that_is_killed(tmp_path):
    process = run(tmp_path / "long.py", LONG, start_new_session=True)
    workers = [int(pid) for pid in process.stdout.readline().split()]
    process.kill()
    process.communicate(timeout=120)
    deadline = time.monotonic() + 60.0
    while not all(gone(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert all(gone(pid) for pid in workers)


ENDLESS = """
class Endless:
    def value(self, x, u):
        if multiprocessing.parent_process() is not None:
            os.write(1, b"%d\\n" % os.getpid())  # at once: print writes the end of the line apart
            while True:
                pass
        return 0.0

if __name__ == "__main__":
    base = pendulum(horizon=20)
    problem = ddp.Problem(base.dynamics, [Endless()], base.terminal, base.x0, 20)
    ddp.solve(problem, workers="processes:2")
"""


def test_workers_that_never_answer_end_with_their_parent_too(tmp_path):
    process = run(tmp_path / "endless.py", ENDLESS, start_new_session=True)
    try:
        workers = [int(process.stdout.readline()) for _ in range(2)]
    finally:
        process.kill()
    deadline = time.monotonic() + 60.0
    while not all(gone(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in workers:
        if not gone(pid):
            os.kill(pid, signal.SIGKILL)
            pytest.fail("a worker lives on without its parent")
    process.communicate(timeout=120)


def test_a_daemonic_process_is_told_that_it_can_have_no_processes(monkeypatch):
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)
    with pytest.raises(ddp.ProblemError, match=r"workers: this process is itself a daemonic one .* workers=1"):
        ddp.solve(user_pendulum(), workers="processes:2")
    assert ddp.solve(pendulum(), workers="threads:2").converged


def test_an_interrupt_ends_threads(tmp_path):
    process = run(tmp_path / "long.py", LONG.replace("workers=2", "workers='threads:3'"), start_new_session=True)
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    said_at_an_interrupt(process)

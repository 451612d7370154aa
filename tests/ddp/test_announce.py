"""Compiling is told of where somebody looks, counts to a total and ends at it; and is not counted as solving."""

import logging
import os
import re
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from commands import on_a_terminal
from numba.core.compiler_lock import global_compiler_lock

import ddp
from ddp.compiling import announce, kernel
from ddp.compiling.setup import Stopwatch
from dynamics import frame_placement, load
from problems import arm, pendulum

ROOT = Path(__file__).parents[2]

CHAIN = """
from ddp.compiling.kernel import kernel


@kernel
def third(x):
    return x + 1.0


@kernel
def second(x):
    return third(2.0 * x)


@kernel
def first(x):
    return second(x) + third(x)


if __name__ != "__main__":
    print("at work", flush=True)
    print("found", first(3.0), flush=True)
"""


WITH_PROGRESS = """
from problems.command.output import progress

with progress("adding"):
    import chain
"""


def compiled(tmp_path, code="import chain", **environment):
    """Output on a terminal of code that compiles the three kernels of CHAIN."""
    (tmp_path / "chain.py").write_text(CHAIN)
    folders = {"MAYNE_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    given = {**os.environ, **folders, **environment}
    return on_a_terminal([sys.executable, "-c", code], env=given, cwd=tmp_path)


def uncached(function):
    """A kernel that compiles in every process."""
    made = kernel.kernel(function)
    made.is_kept = False
    return made


def test_a_line_on_a_terminal_counts_to_a_total_and_ends_at_it(tmp_path):
    text = compiled(tmp_path)
    counts = [(int(k), int(n)) for k, n in re.findall(r"\(first run only\): (\d+) of (\d+), \d+ s", text)]
    assert {(1, 3), (2, 3), (3, 3)} <= set(counts)
    assert counts[0] == (1, 3)  # from the first kernel on
    assert all(k <= n for k, n in counts)
    assert [n for _, n in counts] == sorted(n for _, n in counts)
    assert re.search(r"\ncompiled 3 of 3 kernels in \d+ s\r\n$", text)
    assert "\rfound 11.0\r\n" in text  # a line of its own


def test_the_command_line_s_progress_ends_at_the_same_total(tmp_path):
    text = compiled(tmp_path, WITH_PROGRESS, TERM="xterm")
    assert "adding" in text
    assert "compiled 3 of 3 kernels in" in text
    assert text.count("compiled 3") == 1


def test_silence_can_be_asked_for(tmp_path):
    assert "compil" not in compiled(tmp_path, MAYNE_QUIET="1")


def test_the_command_line_s_progress_is_silent_on_request(tmp_path):
    text = compiled(tmp_path, WITH_PROGRESS, TERM="xterm", MAYNE_QUIET="1")
    assert text.startswith("at work")
    assert "adding" not in text
    assert "\x1b" not in text


def test_progress_in_two_blocks_is_one_count(shown):
    announce.finish()
    with announce.shown_by(shown, ends=False):
        uncached(lambda x: x + 11.0)(np.float64(1.5))
    with announce.shown_by(shown, ends=False):
        uncached(lambda x: x + 12.0)(np.float64(1.5))
    announce.finish()
    assert [text for text in shown if text.startswith("compiled")] == [shown[-1]]
    assert shown[-1].startswith("compiled 2 of 2 kernels")


def test_a_total_does_not_fall_and_says_that_more_may_come(shown):
    announcer = announce._Announcer()
    announcer.display = shown
    announcer._start = lambda: None
    announcer.begin("first")
    assert ": 1 of 1, 0 s, more may come" in shown[-1]
    announcer._total = 30
    announcer.pause()
    announcer.begin("second")
    assert shown[-1].endswith(": 2 of 30, 0 s")


def test_an_interrupted_compile_is_not_said_to_be_done(shown, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    function = uncached(lambda x: x - 4.5)
    monkeypatch.setattr(function, "_built", interrupted)
    with pytest.raises(KeyboardInterrupt):
        function(np.float64(1.0))
    announce.finish()
    assert shown[-1].startswith("compiled 0 kernels, then stopped, in")


def test_an_interrupt_after_a_kernel_does_not_say_that_all_are_compiled(shown):
    def interrupted():
        with announce.shown_by(shown, ends=False):
            uncached(lambda x: x - 5.5)(np.float64(1.0))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert shown[-1].startswith("compiled 1 kernels, then stopped, in")


@pytest.fixture
def shown(monkeypatch):
    """Calls of a display, and the announcer that tells it."""

    class Recorder(list):
        def show(self, text):
            self.append(text)

        def hide(self):
            self.append("")

        def end(self, text):
            self.append(text)

    recorder = Recorder()
    monkeypatch.setattr(announce, "SETTLED", np.inf)  # however long a busy machine takes between two kernels
    with announce.shown_by(recorder):
        yield recorder


def test_compiling_in_this_process_is_shown_and_logged(shown, caplog):
    caplog.set_level(logging.INFO, "mayne")
    double = uncached(lambda x: 2.0 * x)
    assert double(np.float64(1.5)) == 3.0
    assert double(np.float64(2.5)) == 5.0
    announce.finish()
    announce.finish()
    assert next(text for text in shown if "loading" not in text).startswith("compiling kernels (first run only): 1 of")
    assert shown[-1].startswith("compiled 1 of 1 kernels in")
    assert sum(text.startswith("compiled") for text in shown) == 1
    records = [record.getMessage() for record in caplog.records if record.name == "mayne"]
    assert records[0] == "compiling kernels (first run only)..."
    assert records[-1].startswith("compiled 1 of 1 kernels")


def test_loading_that_takes_long_is_shown_until_it_is_done(shown, monkeypatch):
    monkeypatch.setattr(announce, "is_watched", lambda: True)
    with global_compiler_lock:  # as whoever loads kernels does, or waits for another process
        until = time.monotonic() + 60.0
        while not shown and time.monotonic() < until:
            time.sleep(announce.REDRAWN)
    assert shown[-2].startswith("loading kernels, ")
    assert shown[-1] == ""
    assert not any(text.startswith("compil") for text in shown)


def test_the_line_is_finished_by_itself(shown, monkeypatch):
    monkeypatch.setattr(announce, "SETTLED", announce.REDRAWN)
    triple = uncached(lambda x: 3.0 * x)
    assert triple(np.float64(1.0)) == 3.0
    until = time.monotonic() + 60.0
    while not shown[-1].startswith("compiled") and time.monotonic() < until:
        time.sleep(0.1)
    assert shown[-1].startswith("compiled 1 of 1")


def test_nothing_is_written_where_nobody_looks(capfd):
    half = uncached(lambda x: 0.5 * x)
    assert half(np.float64(1.0)) == 0.5
    announce.finish()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(("level", "seen"), [(logging.NOTSET, True), (logging.INFO, True), (logging.WARNING, False)])
def test_the_logger_s_level_asks_for_silence(monkeypatch, level, seen):
    class Terminal:
        def isatty(self):
            return True

    monkeypatch.delenv("MAYNE_QUIET", raising=False)
    monkeypatch.setattr(sys, "stderr", Terminal())
    logger = logging.getLogger("mayne")
    monkeypatch.setattr(logger, "level", level)
    assert announce.is_watched() is seen


def test_a_stopwatch_tells_compiling_from_work():
    watch = Stopwatch()
    uncached(lambda x: np.sqrt(x) + x)(np.float64(4.0))
    compiling = watch.setup_seconds
    time.sleep(0.05)
    assert watch.setup_seconds == compiling > 0.0
    assert watch.seconds >= 0.05


def test_seconds_of_a_solve_are_without_compiling(monkeypatch):
    """By a clock on which it takes days: what else a busy machine does is little beside it."""
    problem = pendulum.swing_up(horizon=20)
    known = ddp.solve(problem)
    square, days = uncached(lambda x: x * x + 1.0), []
    built = square._built
    monkeypatch.setattr(square, "_built", lambda *arguments: days.append(1e6) or built(*arguments))
    clock = SimpleNamespace(perf_counter=lambda: time.perf_counter() + sum(days))
    monkeypatch.setattr("ddp.compiling.setup.time", clock)
    solution = ddp.solve(problem, callback=lambda record: square(np.float64(2.0)))
    assert solution.setup_seconds == pytest.approx(sum(days), rel=1e-3)
    assert len(days) > 0
    assert solution.cost == known.cost
    assert sum(record.seconds for record in solution.history) <= solution.seconds < 1e3


def test_seconds_are_those_of_attempts_that_are_not_kept_too():
    robot, x0 = load("ur5"), arm.reach("ur5").x0
    turned = frame_placement(robot, x0[:6] + np.array([-1.3, -2.4, 1.4, -1.0, -2.8, -2.2]), "tool0")
    seen = list[ddp.Record]()
    solution = ddp.solve(arm.reach("ur5", turned, horizon=34), callback=seen.append)
    assert len(seen) == solution.iterations
    assert solution.cost < 0.95 * seen[-1].cost  # the first of two starts is kept
    assert sum(record.seconds for record in solution.history) <= solution.seconds


def test_seconds_are_saved_and_loaded(tmp_path):
    solution = ddp.solve(pendulum.swing_up(horizon=20))
    solution.save(tmp_path / "swing.npz")
    again = ddp.Solution.load(tmp_path / "swing.npz")
    assert (again.seconds, again.setup_seconds) == (solution.seconds, solution.setup_seconds)


def test_a_file_that_does_not_tell_setup_seconds_has_none(tmp_path):
    ddp.solve(pendulum.swing_up(horizon=20)).save(tmp_path / "new.npz")
    with np.load(tmp_path / "new.npz") as archive:
        old = {name: archive[name] for name in archive.files if name != "setup_seconds"}
    np.savez(tmp_path / "old.npz", **old)
    assert ddp.Solution.load(tmp_path / "old.npz").setup_seconds == 0.0

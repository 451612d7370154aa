"""Ctrl-C while kernels are compiled or loaded is a KeyboardInterrupt, once, and leaves the handler as it was."""

import signal
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import ddp
from ddp.compiling.interrupts import uninterrupted
from problems import cli, pendulum

ROOT = Path(__file__).parents[2]

INTERRUPTED = """
import os, queue, signal, threading, time
import numpy as np
from ddp.compiling import kernel

def made(number):
    inner = kernel.kernel(lambda x: np.sin(x) + number)
    return kernel.kernel(lambda x: inner(x) + number)

start = time.perf_counter()
assert made(-1.0)(0.0) == -2.0
lasting = time.perf_counter() - start
start = time.perf_counter()
assert made(-2.0)(0.0) == -4.0
lasting = min(lasting, time.perf_counter() - start)
rng = np.random.default_rng(7)
outcomes = []
delays = queue.SimpleQueue()  # it holds no lock of Python's, which an interrupt would take away

def press():
    while True:
        time.sleep(delays.get())
        os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=press, daemon=True).start()
for number in range(24):
    delay = rng.uniform(0.0, lasting)
    try:
        delays.put(delay)
        function = made(float(number))
        for _ in range(1000):
            function(0.0)
        time.sleep(20.0)
        outcomes.append("swallowed")
    except KeyboardInterrupt:
        outcomes.append("interrupted")
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
print(*outcomes)
"""


def test_ctrl_c_while_a_kernel_compiles_is_a_keyboard_interrupt():
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == 24 * ["interrupted"]
    assert "Exception ignored" not in done.stderr


def test_an_interrupt_is_deferred_to_the_end_of_the_block_and_comes_once():
    reached = []

    def work():
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            reached.append("end")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert reached == ["end"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with uninterrupted():
        reached.append("again")


def test_an_interrupt_is_delivered_where_an_inner_block_begins():
    def work():
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            with uninterrupted():
                raise AssertionError("the inner block was entered")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_handlers_of_users_are_called_and_ignoring_stays():
    came = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            assert came == []
        assert came == [signal.SIGINT]
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with uninterrupted():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_leave_the_handler_alone():
    found = []

    def work():
        with uninterrupted():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]


def test_an_interrupt_that_python_loses_a_lock_to_is_one_all_the_same(monkeypatch):
    def descend(*_):
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError("cannot release un-acquired lock")  # as threading.Condition does

    monkeypatch.setattr("ddp.solver.descend_from", descend)
    with pytest.raises(KeyboardInterrupt):
        ddp.solve(pendulum.swing_up())


@pytest.mark.parametrize("name", ["_ZipWriteFile.close", "ZipExtFile.read"])
def test_an_interrupt_within_a_zip_file_comes_after_it(tmp_path, monkeypatch, name):
    """Which else complains that it is closed before what is written or read in it."""
    solution = ddp.solve(pendulum.swing_up())
    path = tmp_path / "solution.npz"
    solution.save(path)
    place = f"zipfile.{name}"
    real = getattr(getattr(zipfile, name.split(".")[0]), name.split(".")[1])

    def press(*args):
        signal.raise_signal(signal.SIGINT)
        return real(*args)

    monkeypatch.setattr(place, press)
    with pytest.raises(KeyboardInterrupt):
        solution.save(path) if "Write" in name else ddp.Solution.load(path)
    monkeypatch.undo()
    assert np.array_equal(ddp.Solution.load(path).X, solution.X)


def test_ctrl_c_while_options_are_read_ends_a_command_with_its_exit_status(monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("click.core.Command.parse_args", interrupt)
    done = CliRunner().invoke(cli.main, ["solve", "arm/reach"])
    assert (done.exit_code, done.stderr.strip()) == (130, "interrupted")

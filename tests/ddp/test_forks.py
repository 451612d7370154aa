"""Tests of forks while another thread compiles, which a child has not."""

import signal
import threading
import time
from functools import cached_property

import numpy as np
import pytest
from llvmlite.binding import ffi
from numba.core.compiler_lock import global_compiler_lock

from ddp.compiling import setup
from ddp.compiling.kernel import kernel
from ddp.tracing import machine_code, trace
from dynamics import FunctionDynamics
from tests.ddp.children import PATIENCE, status_of_child


def uncached(function):
    made = kernel(function)
    made.is_kept = False
    return made


def holding(lock, seconds):
    """Thread that has a lock for a while, and has it now."""
    held = threading.Event()

    def hold():
        with lock:
            held.set()
            time.sleep(seconds)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(PATIENCE)
    return thread


def compile_and_follow():
    assert uncached(lambda x: 5.0 * x + 0.25)(np.float64(2.0)) == 10.25
    system = FunctionDynamics(lambda x, u: np.cos(3.0 * x) + u, 1, 1)
    assert system.linearize(np.zeros(1), np.zeros(1))[1].tolist() == [[1.0]]
    watch = setup.Stopwatch()
    time.sleep(0.01)
    assert 0.01 <= watch.seconds < PATIENCE
    assert setup.setup_lasting() == 0.0


LOCKS = {
    "numba": lambda: global_compiler_lock, "LLVM": lambda: ffi.lib._lock, "code": lambda: machine_code._lock,
    "traces": lambda: trace._lock,
}  # fmt: skip


@pytest.mark.parametrize("lock", LOCKS)
def test_children_compile_what_another_thread_was_compiling(lock):
    thread = holding(LOCKS[lock](), 0.3)
    assert status_of_child(compile_and_follow) == 0
    thread.join()
    compile_and_follow()


def test_an_interrupt_of_a_fork_that_waits_comes_when_it_has_forked():
    thread = holding(global_compiler_lock, 0.5)
    threading.Timer(0.1, signal.raise_signal, [signal.SIGINT]).start()

    def fork():
        assert status_of_child(compile_and_follow) == 0
        time.sleep(PATIENCE)

    with pytest.raises(KeyboardInterrupt):
        fork()
    thread.join()
    assert setup.setup_lasting() == 0.0
    assert status_of_child(compile_and_follow) == 0


class Slow:
    @cached_property
    def value(self):
        with global_compiler_lock:
            time.sleep(0.3)
        return 1


def test_children_compute_properties_that_another_thread_was_computing(monkeypatch):
    monkeypatch.setattr(setup, "PACKAGES", (Slow.__module__.partition(".")[0],))
    with global_compiler_lock:
        thread = threading.Thread(target=lambda: Slow().value)
        thread.start()
        time.sleep(0.1)

        def compute():
            assert Slow().value == 1

        assert status_of_child(compute) == 0
    thread.join()


def test_children_of_a_thread_that_compiles_itself_go_on():
    with global_compiler_lock:
        assert status_of_child(compile_and_follow) == 0
    assert setup.setup_lasting() == 0.0


def test_forks_while_compiling_do_not_wait_for_threads_that_wait_for_the_compiler():
    with global_compiler_lock:
        thread = threading.Thread(target=lambda: machine_code.obtain(b"waits", wait_for_compiler), daemon=True)
        thread.start()
        time.sleep(0.1)
        assert status_of_child(compile_and_follow) == 0
    thread.join()


def wait_for_compiler():
    with global_compiler_lock:
        return {}

"""Kernels that are compiled when they are first called, from inside of others: by whom, how often, what they raise."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest

from ddp.compiling import first_calls
from ddp.compiling.compiled import Kernel
from ddp.compiling.first_calls import compile_uncalled
from ddp.compiling.kernel import apart, call_contraction, callback, compilations, kernel
from ddp.machine.addresses import array_at

RARE = """
from numba import float64
from ddp.compiling.kernel import apart, kernel

@kernel
def scaled(x):
    return {factor} * x

@apart
def shift(a, by):
    for i in range(a.size):
        a[i] += scaled(by)

@apart(returns=float64)
def total(a):
    found = 0.0
    for i in range(a.size):
        found += a[i]
    return found
"""

OFTEN = """
from ddp.compiling.kernel import kernel
from rare import shift, total

@kernel
def chosen(a, what):
    if what == 1:
        shift(a, 1.0)
    return total(a) if what == 2 else 0.0

@kernel
def outer(a, what):
    return chosen(a, what)
"""

PROGRAM = """
import often
a = np.zeros(3)
print(*(often.outer(a, what) for what in {asked}), *a)
"""

BATCH = """
import numpy as np
import ddp
from ddp.compiling import first_calls
from problems import pendulum

call, failed = first_calls.Slot.__call__, []

def fail(slot):
    name = slot._kernel.py_func.__qualname__
    if name in failed:
        return call(slot)
    failed.append(name)
    raise MemoryError(name)

problem = pendulum.swing_up(horizon=20)
batch = ddp.Batch(problem, 3)
first_calls.Slot.__call__ = fail
while True:
    try:
        found = batch.solve({"x0": [problem.x0] * 3})
        break
    except MemoryError as reason:
        print(reason)
print(*found.converged)
"""


@pytest.fixture
def folder(tmp_path):
    """A folder of two modules of kernels."""
    (tmp_path / "rare.py").write_text(RARE.format(factor=1.0))
    (tmp_path / "often.py").write_text(OFTEN)
    return tmp_path


def run(fresh, folder, *asked):
    """(what comes back of calls one after the other, and the array after them), the kernels that were compiled."""
    (line,), names = fresh.run(folder, PROGRAM.format(asked=asked))
    return [float(word) for word in line.split()], {name for name in names if not name.endswith(".entry")}


def test_what_is_not_called_is_not_compiled(fresh, folder):
    assert run(fresh, folder, 0, 0) == ([0.0, 0.0, 0.0, 0.0, 0.0], {"outer", "chosen"})
    assert run(fresh, folder, 1, 1) == ([0.0, 0.0, 2.0, 2.0, 2.0], {"shift", "scaled"})
    assert run(fresh, folder, 1, 2) == ([0.0, 3.0, 1.0, 1.0, 1.0], {"total"})
    assert run(fresh, folder, 1, 2) == ([0.0, 3.0, 1.0, 1.0, 1.0], set())


def test_what_is_lost_is_compiled_again_when_it_is_called(fresh, folder):
    run(fresh, folder, 1, 2)
    for path in (folder / "cache").rglob("rare.*"):
        path.unlink()
    assert run(fresh, folder, 0) == ([0.0, 0.0, 0.0, 0.0], set())
    assert run(fresh, folder, 1) == ([0.0, 1.0, 1.0, 1.0], {"shift", "scaled"})


def test_a_change_reaches_callers_that_were_compiled_without_it(fresh, folder):
    run(fresh, folder, 0)
    (folder / "rare.py").write_text(RARE.format(factor=2.0))
    assert run(fresh, folder, 1)[0] == [0.0, 2.0, 2.0, 2.0]


# -- within this process -----------------------------------------------------------------------------------------------


@apart
def fill(a, x):
    """a := x."""
    for i in range(a.size):
        a[i] = x


@apart
def fill_at(address, x):
    """`fill` one number at an address."""
    array_at(address, (1,))[0] = x


@kernel
def filled(a, x):
    """Fill an array if x is positive."""
    if x > 0.0:
        fill(a, x)
    return 2.0 * x


@callback
def fill_in_c(context, block, order, first):
    """C function that fills a number."""
    fill_at(block, 7.0)


@kernel
def filled_by_c(address, a):
    """Fill a number by a C function."""
    call_contraction(address, 0, a.ctypes.data, 0, 0)
    return 1.0


@numba.njit
def filled_by_others(a, x):
    """Function of a user's, of numba alone."""
    return filled(a, x)


@apart
def not_nothing(x):
    """Return something, other than it says."""
    return x + 1.0


@apart
def slow(a, k):
    """a_k += 1."""
    a[k] += np.cos(0.0 * a[k])


@kernel
def all_at_once(gate, count, a, k):
    """Wait until all threads are here, then call what nobody has called."""
    gate[k] = 1.0
    here = 0.0
    while here < count:
        here = 0.0
        for i in range(count):
            here += gate[i]
    slow(a, k)


@apart
def later(a):
    """a := 1, at some time."""
    a[0] = 1.0


@kernel
def maybe_later(a, now):
    """Call it, or do not."""
    if now:
        later(a)


@pytest.fixture
def empty(monkeypatch, tmp_path):
    """An empty cache."""
    monkeypatch.setenv("MAYNE_CACHE_DIR", str(tmp_path))


@pytest.fixture
def failing(monkeypatch):
    """List of what first calls of kernels run before they compile anything: its first one, if there is any."""
    raised = []
    prepare = Kernel.prepare

    def prepared(self, args):
        if raised and self.is_apart:
            raised[0]()
        prepare(self, args)

    monkeypatch.setattr(Kernel, "prepare", prepared)
    return raised


class OddError(Exception):
    """Raised by nothing else."""


def test_what_a_first_call_raises_is_raised_where_python_called(failing):
    a, odd = np.zeros(2), OddError("seven")

    def fail():
        raise odd

    failing.append(fail)
    for _ in range(2):
        with pytest.raises(OddError) as caught:
            filled(a, 1.0)
        assert caught.value is odd
        assert not a.any()
        assert filled(a, -1.0) == -2.0  # other calls do not ask
    failing.clear()
    assert filled(a, 3.0) == 6.0
    assert (a == 3.0).all()


def test_ctrl_c_in_a_first_call_is_an_interrupt(failing):
    a = np.zeros(4, np.float32)
    failing.append(lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        filled(a, np.float32(1.0))
    failing.clear()
    assert not a.any()
    filled(a, np.float32(1.0))
    assert a.all()


def test_what_a_first_call_raises_passes_through_c(failing):
    a, address = np.zeros(1), fill_in_c.address

    def fail():
        raise OddError

    failing.append(fail)
    with pytest.raises(OddError):
        filled_by_c(address, a)
    failing.clear()
    filled_by_c(address, a)
    assert a[0] == 7.0


def test_a_batch_ends_where_what_it_calls_first_cannot_be_compiled():
    found = subprocess.run([sys.executable, "-c", BATCH], capture_output=True, text=True, check=True, timeout=300)
    *failed, one, two, three = found.stdout.split()
    assert {"begin", "conclude"} <= set(failed)
    assert one == two == three == "True"


def test_functions_of_users_call_what_calls_it():
    a = np.zeros(3)
    assert filled_by_others(a, 2.0) == 4.0
    assert (a == 2.0).all()


def test_a_kernel_that_returns_something_else_is_refused():
    with pytest.raises(TypeError, match="not_nothing: expected that it returns none"):
        not_nothing(1.0)


@pytest.mark.usefixtures("empty")
def test_threads_that_call_first_at_once_compile_once():
    count, compiled = 4, []
    a, gate = np.zeros(count), np.zeros(count)
    with compilations(compiled.append), ThreadPoolExecutor(count) as pool:
        for one in [pool.submit(all_at_once, gate, count, a, k) for k in range(count)]:
            one.result()
    assert (a == 1.0).all()
    assert compiled.count("slow") == 1


SLOTS = {}
"""Of one test alone: kernels have their addresses for as long as the process lives."""


@pytest.mark.usefixtures("empty")
def test_what_is_not_called_can_be_compiled_ahead(monkeypatch):
    monkeypatch.setattr(first_calls, "_slots", SLOTS)
    a, compiled = np.zeros(1), []
    maybe_later(a, False)
    with compilations(compiled.append):
        compile_uncalled()
    assert "later" in compiled
    with compilations(compiled.append):
        compiled.clear()
        maybe_later(a, True)
    assert (a[0], compiled) == (1.0, [])

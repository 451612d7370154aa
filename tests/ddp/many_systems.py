"""Systems and terms for batches, which processes can import."""

import os
import time
from concurrent.futures import Future
from pathlib import Path

import numpy as np

from dynamics import FunctionDynamics

DEADLY = 0.77

GAIN = 1.0
"""Read by `gained`."""


def _drift(x, u):
    return x + 0.1 * np.array([x[1], u[0]])


drift = FunctionDynamics(_drift, 2, 1, dt=0.1)


def gained(x, u):
    return GAIN * (x @ x)


def _scaled(x, u):
    return np.array([x[0] + GAIN * u[0], x[1]])


scaled = FunctionDynamics(_scaled, 2, 1, dt=0.1, derivatives="differences")


class Gained:
    """`gained` as a term that Python calls."""

    derivatives = "differences"

    def value(self, x, u):
        return gained(x, u)


class Rounded:
    """A term of rounding alone, which is another in each process."""

    derivatives = "differences"

    def value(self, x, u):
        return 1e-17 * (os.getpid() % 1000)


class Random:
    """A term with noise, which is another at each of three calls."""

    derivatives, calls = "differences", 0

    def value(self, x, u):
        Random.calls += 1
        return (x @ x) * (1.0 + 1e-4 * (Random.calls % 3))


class straight:  # noqa: N801
    def value(self, x, u):
        return 0.01 * (u @ u)


class Picky:
    """A term that raises where the state is far away."""

    derivatives = "differences"

    def value(self, x, u):
        if np.real(x[0]) > 1.5:
            raise ValueError("too far")
        return x @ x


class Deadly:
    """A term that ends its process where the state is at one place."""

    derivatives = "differences"

    def value(self, x, u):
        if abs(np.real(x[0]) - DEADLY) < 0.3:
            os._exit(3)
        return x @ x


def deaf(pipe):
    """Begin as a worker does that imports for long, and listens to nobody."""
    time.sleep(30.0)


class Odd:
    """No executor that works: it returns something, or the future of it, or raises it, or cancels what it is given."""

    def __init__(self, result, is_future=True):
        self._result, self._is_future = result, is_future

    def submit(self, *arguments):
        if isinstance(self._result, Exception):
            raise self._result
        future = Future()
        if self._result is None:
            future.cancel()
            future.set_running_or_notify_cancel()
        else:
            future.set_result(self._result)
        return future if self._is_future else self._result


class Wells:
    """Two minima, at x = 1 and x = -1."""

    def value(self, x, u):
        return 10.0 * (x[0] * x[0] - 1.0) ** 2 + x[1] * x[1]


def samples():
    """Initial states and masses of 90 pendulums."""
    rng = np.random.default_rng(4)
    return {"x0": 0.2 * rng.normal(size=(90, 2)), "masses": rng.uniform(0.9, 1.1, (90, 1))}


def files_of(path):
    """All files of a store, by their names."""
    path = Path(path)
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def of(solutions):
    """All files of the store of some solutions, by their names."""
    return files_of(solutions._source.store.root)


def asleep(seconds):
    """Sleep, and return which process it was."""
    time.sleep(seconds)
    return os.getpid()

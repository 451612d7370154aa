"""One kernel run on every number: floats, complex numbers, quads and lanes."""

from collections.abc import Callable, Sequence

import numpy as np

from ddp.compiling.kernel import kernel, specialised
from ddp.machine.aligned import aligned_zeros
from ddp.machine.memory import memory_of, rows_at
from ddp.machine.number import QUAD, WIDTH, quads

of_quads = rows_at(quads)

OTHERS = ("complex numbers", "quads", "lanes")
"""Numbers beside floats."""


def _by_memory(x, y):
    source(memory_of(x), memory_of(y))


def _by_quads(x, y):
    source(of_quads(x.ctypes.data), of_quads(y.ctypes.data))


def source(x, y):
    """Stand for the kernel, see ``every_number``."""


class EveryNumber:
    """A kernel ``source(x, y)`` of rows of numbers, on samples of floats x (N, n) that become y (N, m)."""

    def __init__(self, source: Callable, m: int) -> None:
        name = f"{source.py_func.__name__}_of"
        self.m = m
        self.by_memory = kernel(specialised(_by_memory, f"{name}_memory", source=source))
        self.by_quads = kernel(specialised(_by_quads, f"{name}_quads", source=source))

    def floats(self, X: np.ndarray, number: type = np.float64) -> np.ndarray:
        Y = np.full((len(X), self.m), np.nan, dtype=number)
        for x, y in zip(X.astype(number), Y, strict=True):
            self.by_memory(x, y)
        return Y

    def registers(self, X: np.ndarray, width: int) -> np.ndarray:
        found = []
        for begin in range(0, len(X), width):
            block = X[np.minimum(np.arange(begin, begin + width), len(X) - 1)]
            raw = np.full((self.m + 8) * width, np.nan)
            y = raw[-raw.ctypes.data // 8 % WIDTH :][: self.m * width].reshape(self.m, width)
            run = self.by_quads if width == QUAD else self.by_memory
            run(np.ascontiguousarray(block.T), y)
            found.append(y.T)
        return np.concatenate(found)[: len(X)]

    def of(self, number: str, X: np.ndarray) -> np.ndarray:
        """The real parts of results by one of `OTHERS`."""
        if number == "complex numbers":
            return self.floats(X, np.complex128).real
        return self.registers(X, QUAD if number == "quads" else WIDTH)

    def all_agree(self, X: np.ndarray, tolerance: float) -> np.ndarray:
        """The results of floats, after all others were found to be theirs."""
        expected = self.floats(X)
        scale = 1.0 + np.abs(np.where(np.isfinite(expected), expected, 0.0)).max()
        complexes = self.floats(X, np.complex128)
        assert np.abs(np.nan_to_num(complexes.imag)).max() == 0.0
        for found in (complexes.real, self.registers(X, QUAD), self.registers(X, WIDTH)):
            np.testing.assert_allclose(found, expected, rtol=0.0, atol=tolerance * scale)
        return expected


@kernel
def motion(tree, x):
    """q, v, a and a multiplier of a sample, in one vector."""
    nq, nv = tree.nq, tree.nv
    return x, x[nq:], x[nq + nv :], x[nq + 2 * nv :]


def _on_tree(address, x, y, memory):
    source(address, memory_of(x), memory_of(y), memory_of(memory))


def _on_tree_by_quads(address, x, y, memory):
    source(address, of_quads(x.ctypes.data), of_quads(y.ctypes.data), of_quads(memory.ctypes.data))


class OfTrees:
    """A kernel ``source(address, x, y, memory)`` of a tree and rows of numbers; memory: what it works in."""

    def __init__(self, source: Callable) -> None:
        name = f"{source.py_func.__name__}_of_tree"
        self.by_memory = kernel(specialised(_on_tree, f"{name}_memory", source=source))
        self.by_quads = kernel(specialised(_on_tree_by_quads, f"{name}_quads", source=source))

    def floats(self, address: int, X: np.ndarray, m: int, room: int, number: type = np.float64) -> np.ndarray:
        Y, memory = np.full((len(X), m), np.nan, number), np.full(room, np.nan, number)
        for x, y in zip(X.astype(number), Y, strict=True):
            self.by_memory(address, x, y, memory)
        return Y

    def registers(self, address: int, X: np.ndarray, m: int, room: int, width: int) -> np.ndarray:
        y, memory, found = aligned_zeros((m, width)), aligned_zeros((room, width)), []
        run = self.by_quads if width == QUAD else self.by_memory
        for begin in range(0, len(X), width):
            y[:], memory[:] = np.nan, np.nan
            block = aligned_zeros((X.shape[1], width))
            block[:] = X[np.minimum(np.arange(begin, begin + width), len(X) - 1)].T
            run(address, block, y, memory)
            found.append(y.T.copy())
        return np.concatenate(found)[: len(X)]

    def agree(self, numbers: Sequence[str], address: int, X: np.ndarray, m: int, room: int, tolerance: float) -> None:
        """Compare the results (N, m) of numbers with those of floats, entry by entry."""
        expected = self.floats(address, X, m, room)
        assert np.isfinite(expected).all()
        atol = tolerance * np.abs(expected).max(axis=1, keepdims=True)
        for number in numbers:
            if number == "complex numbers":
                found = self.floats(address, X, m, room, np.complex128)
                assert (found.imag == 0.0).all()
            else:
                found = self.registers(address, X, m, room, QUAD if number == "quads" else WIDTH)
            assert (np.abs(found - expected) <= atol).all(), (number, (np.abs(found - expected) / atol).max())

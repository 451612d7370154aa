"""One kernel run on every number: floats, complex numbers, quads and lanes."""

from collections.abc import Callable

import numpy as np

from ddp.compiling.kernel import kernel, specialised
from ddp.machine.memory import memory_of, rows_at
from ddp.machine.number import QUAD, WIDTH, quads

of_quads = rows_at(quads)


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

    def all_agree(self, X: np.ndarray, tolerance: float) -> np.ndarray:
        """The results of floats, after all others were found to be theirs."""
        expected = self.floats(X)
        scale = 1.0 + np.abs(np.where(np.isfinite(expected), expected, 0.0)).max()
        complexes = self.floats(X, np.complex128)
        assert np.abs(np.nan_to_num(complexes.imag)).max() == 0.0
        for found in (complexes.real, self.registers(X, QUAD), self.registers(X, WIDTH)):
            np.testing.assert_allclose(found, expected, rtol=0.0, atol=tolerance * scale)
        return expected

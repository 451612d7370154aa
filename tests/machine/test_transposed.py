"""Products of transposed dense matrices and vectors."""

import numpy as np
import pytest

from ddp.compiling.kernel import kernel
from ddp.machine.transposed import add_transposed_times


@kernel
def add_times(out, w, M):
    """out += Mᵀ w for arrays."""
    add_transposed_times(out.ctypes.data, w.ctypes.data, M.ctypes.data, M.shape[1], *M.shape)


@pytest.mark.parametrize("columns", [1, 7, 8, 9, 16, 17, 24, 25, 50])
@pytest.mark.parametrize("rows", [0, 1, 3, 4, 11])
def test_rows_are_summed_and_what_is_behind_a_matrix_is_not_read(rng, rows, columns):
    memory = np.full((rows + 1) * columns + 8, np.nan)
    M, w = memory[: rows * columns].reshape(rows, columns), rng.normal(size=rows)
    M[:] = rng.normal(size=M.shape)
    before = rng.normal(size=(columns + 7) // 8 * 8)
    out = before.copy()
    add_times(out, w, M)
    before[:columns] += M.T @ w
    assert np.abs(out - before).max() <= 1e-14 * (1.0 + rows)

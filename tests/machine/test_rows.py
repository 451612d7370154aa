"""Copies and sums of rows of small matrices, and triangular systems, against NumPy."""

import numpy as np
import pytest

from ddp.compiling.kernel import kernel
from ddp.machine import rows
from ddp.machine.tiles import padded
from ddp.machine.triangles import eliminate, raise_rows


@kernel
def _moved(dense, wide, out, factor):
    """Every way between a dense matrix and a padded one."""
    m, n = dense.shape
    ld = wide.shape[1]
    x, y = np.int64(dense.ctypes.data), np.int64(wide.ctypes.data)
    rows.clear_rows(y, ld, m, ld)
    rows.copy_rows(y, ld, x, n, m, n)
    rows.add_rows(y, ld, factor, x, n, m, n)
    rows.write_rows(np.int64(out[0].ctypes.data), n, y, ld, m, n)
    rows.write_scaled(np.int64(out[1].ctypes.data), n, factor, x, n, m, n)


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (5, 8), (2, 17)])
def test_rows_between_dense_and_padded_matrices(rng, shape):
    m, n = shape
    memory = np.full(m * n + 8, np.nan)  # what is beyond a dense matrix is neither read nor written
    dense = memory[: m * n].reshape(m, n)
    dense[:] = rng.normal(size=shape)
    wide, out = np.full((m, padded(n)), np.nan), np.full((3, m, n), np.nan)
    _moved(dense, wide, out, 0.5)
    np.testing.assert_allclose(out[0], 1.5 * dense, rtol=1e-15)
    np.testing.assert_allclose(wide, np.pad(out[0], [(0, 0), (0, padded(n) - n)]), rtol=1e-15)
    np.testing.assert_array_equal(out[1], 0.5 * dense)
    assert np.isnan(out[2]).all()
    assert np.isnan(memory[m * n :]).all()


@kernel
def _joined(x, y, out, shift, values):
    (m, n), ld = x.shape, out.shape[1]
    at = np.int64(out.ctypes.data)
    rows.join_rows(at, ld, np.int64(x.ctypes.data), n, np.int64(y.ctypes.data), y.shape[1], m)
    rows.add_to_diagonal(at, ld, m, shift, np.int64(values.ctypes.data) if len(values) > 0 else 0)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 7, 3), (5, 8, 8), (9, 12, 6), (2, 17, 20)])
def test_dense_matrices_are_joined_side_by_side_and_a_diagonal_is_added(rng, shape):
    m, n, others = shape
    x, y, values = rng.normal(size=(m, n)), rng.normal(size=(m, others)), rng.normal(size=m)
    for added in (values, values[:0]):
        out = np.full((m, padded(n + others)), np.nan)
        _joined(x, y, out, 0.5, added)
        expected = np.pad(np.hstack([x, y]), [(0, 0), (0, out.shape[1] - n - others)])
        expected[range(m), range(m)] += 0.5 + (added if len(added) else 0.0)
        np.testing.assert_array_equal(out, expected)


@kernel
def _mirrored(x, y, dense, upper, factor):
    ld, n = x.shape[0], dense.shape[0]
    to = np.int64(upper.ctypes.data)
    rows.mirror(np.int64(x.ctypes.data), ld)
    rows.add_transposed(np.int64(y.ctypes.data), ld, ld)
    rows.copy_upper(to, ld, np.int64(dense.ctypes.data), n, n, n)
    rows.add_upper(to, ld, factor, np.int64(dense.ctypes.data), n, n, n)


@pytest.mark.parametrize("n", [3, 8, 13, 20])
def test_triangles_are_copied_mirrored_and_added(rng, n):
    ld = padded(n)
    x, y, dense = (rng.normal(size=(m, m)) for m in (ld, ld, n))
    upper = np.zeros((n, ld))
    X, Y = x.copy(), y.copy()
    _mirrored(x, y, dense, upper, 2.0)
    np.testing.assert_array_equal(x, np.triu(X) + np.triu(X, 1).T)
    np.testing.assert_array_equal(np.triu(y), np.triu(Y + Y.T))
    np.testing.assert_allclose(np.triu(upper[:, :n]), np.triu(3.0 * dense), rtol=1e-15)


@kernel
def _solve(Q, y, size, U, inverse, N, K, first, lx):
    """Whether Q_uu of the rows Q is positive definite; K := -Q_uu⁻¹ Q_ux."""
    ld = Q.shape[1]
    at = np.int64(N.ctypes.data)
    done = eliminate(
        len(Q), np.int64(Q.ctypes.data), ld, first, np.int64(y.ctypes.data), np.int64(size.ctypes.data),
        np.int64(U.ctypes.data), np.int64(inverse.ctypes.data), at,
    )  # fmt: skip
    raise_rows(len(Q), np.int64(K.ctypes.data), lx, at, ld, first)
    return done


def systems(rng, nu, first):
    ld = padded(first + nu) + 8
    Q, root = rng.normal(size=(nu, ld)), rng.normal(size=(nu, nu))
    Q[:, first : first + nu] = root @ root.T + np.eye(nu)
    return Q, rng.normal(size=nu), np.diag(Q[:, first:]).copy(), np.zeros((6, 6)), np.zeros(nu), np.zeros((nu, ld))


@pytest.mark.parametrize("first", [1, 8, 19])
@pytest.mark.parametrize("nu", [1, 2, 3, 5, 6, 7, 8, 9, 13])
def test_elimination_solves_systems_of_all_panels(rng, nu, first):
    Q, y, size, U, inverse, N = systems(rng, nu, first)
    K = np.zeros((nu, padded(first)))
    before = Q.copy()
    assert _solve(Q, y, size, U, inverse, N, K, first, padded(first))
    H = before[:, first : first + nu]
    np.testing.assert_allclose(K[:, :first], -np.linalg.solve(H, before[:, :first]), atol=1e-11)
    np.testing.assert_allclose(np.prod(inverse), 1.0 / np.linalg.det(H), rtol=1e-11)


@pytest.mark.parametrize("nu", [1, 2, 7])
@pytest.mark.parametrize("wrong", [-1.0, np.nan])
def test_elimination_fails_where_a_matrix_is_not_positive_definite(rng, nu, wrong):
    Q, y, size, U, inverse, N = systems(rng, nu, 8)
    Q[nu - 1, 8 + nu - 1] *= wrong
    assert not _solve(Q, y, size, U, inverse, N, np.zeros((nu, 8)), 8, 8)

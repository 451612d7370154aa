"""Registers between memory and numbers, and tiles, against NumPy; nothing is touched beyond what is named."""

import numpy as np
import pytest

from ddp.compiling.kernel import kernel
from ddp.machine.memory import rows_of
from ddp.machine.number import WIDTH
from ddp.machine.simd import (
    add_outer,
    load,
    load_between,
    load_some,
    load_tile,
    multiply_add,
    one_hot,
    prefetch,
    stack,
    store,
    store_some,
    store_tile,
    transpose,
)


@kernel
def _copy(out, x, i, count):
    x, out = rows_of(x), rows_of(out)
    prefetch(out, 10**6)  # any place will do
    store(out, 0, load_some(x, i, count))
    store_some(out, WIDTH, load(x, 0), count)


@pytest.mark.parametrize("count", [-3, 0, 1, 7, 8, 12])
def test_some_of_a_register_are_read_and_written_and_no_more(count):
    x = np.arange(1.0, 11.0)
    out, some = np.full(16, -1.0), min(max(count, 0), WIDTH)
    _copy(out, x, 2, count)
    np.testing.assert_array_equal(out[:8], np.where(np.arange(8) < some, x[2:10], 0.0))
    np.testing.assert_array_equal(out[8:], np.where(np.arange(8) < some, x[:8], -1.0))


@kernel
def _beyond(out, x, i, count):
    store(rows_of(out), 0, load_some(rows_of(x), i, count))


@kernel
def _within(out, x, i, begin, end):
    store(rows_of(out), 0, load_between(rows_of(x), i, begin, end) + one_hot(0.5, begin))


@pytest.mark.parametrize(("begin", "end"), [(-3, 4), (2, 5), (6, 12), (5, 5), (9, 12)])
def test_lanes_between_two_are_read_and_one_is_set(begin, end):
    x, out, lane = np.arange(1.0, 11.0), np.empty(8), np.arange(8)
    _within(out, x, 1, begin, end)
    np.testing.assert_array_equal(out, np.where((begin <= lane) & (lane < end), x[1:9], 0.0) + 0.5 * (lane == begin))


def test_what_is_beyond_an_array_is_not_read(rng):
    import mmap

    page = mmap.PAGESIZE // 8
    x, out = np.frombuffer(mmap.mmap(-1, mmap.PAGESIZE)), np.empty(8)  # what follows need not be mapped
    _beyond(out, x, page - 3, 3)
    np.testing.assert_array_equal(out, 0.0)
    _within(out, x, page - 3, -8, 3)
    np.testing.assert_array_equal(out, 0.0)


@kernel
def _transposed(out, x):
    block = stack(64)
    out, x = rows_of(out), rows_of(x)
    for r in range(WIDTH):
        store(block, WIDTH * r, load(x, WIDTH * r))
    transpose(block)
    for r in range(WIDTH):
        store(out, WIDTH * r, load(block, WIDTH * r))


def test_eight_registers_are_transposed(rng):
    x, out = rng.normal(size=(8, 8)), np.empty(64)
    _transposed(out, x.ravel())
    np.testing.assert_array_equal(out.reshape(8, 8), x.T)


@kernel
def _sum(C, a, B, K):
    C, a, B = rows_of(C), rows_of(a), rows_of(B)
    tile = load_tile(C, 1, 20, 2, 2)
    for k in range(K):
        tile = add_outer(tile, a, k, K, B, 17 * k)
    store_tile(C, 1, 20, tile)


def test_a_tile_sums_outer_products_of_columns_and_rows(rng):
    C, a, B = rng.normal(size=(2, 20)), rng.normal(size=(2, 5)), rng.normal(size=(5, 17))
    expected = C.copy()
    expected[:, 1:17] += a @ B[:, :16]
    _sum(C.ravel(), a.ravel(), B.ravel(), 5)
    np.testing.assert_allclose(C, expected, atol=1e-14)


@kernel
def _rounded(out, x, y, z):
    out = rows_of(out)
    store(out, 0, multiply_add(load(rows_of(x), 0), y, z))


def test_floats_are_equal_lanes_of_a_product_and_sum(rng):
    x, out = rng.normal(size=8), np.empty(8)
    _rounded(out, x, 3.0, 0.5)
    np.testing.assert_allclose(out, 3.0 * x + 0.5, rtol=1e-15)

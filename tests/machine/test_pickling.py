"""Parcels: what comes out is what a plain pickle gives, array by array."""

import colorsys
import pickle
import sys
from collections import OrderedDict

import numpy as np
import pytest

from ddp.machine import pickling
from ddp.machine.pickling import NotPackedError, packed, unpacked
from ddp.machine.struct import Struct, integer
from ddp.tracing.layout import Block

numbers = np.arange(24.0).reshape(4, 6)
readable = numbers.copy()
readable.setflags(write=False)


class Outer:
    class Inner: ...


@pytest.mark.parametrize(
    "array",
    [numbers, numbers.T, np.asfortranarray(numbers), numbers[::2, ::-1], numbers[:, 1], np.zeros((0, 3)), readable,
     np.arange(5), np.array(3.0), np.array([True, False]), np.broadcast_to(1.0, (2, 3)),
     np.arange(3, dtype=">f8"), np.arange(3, dtype=np.float16), np.arange(3, dtype=np.longlong)],
)  # fmt: skip
def test_arrays_of_any_layout_arrive_as_from_a_pickle(array):
    own, again = unpacked(pickle.loads(pickle.dumps(packed([array])))), pickle.loads(pickle.dumps([array]))
    assert own[0].dtype == array.dtype
    assert np.array_equal(own[0], again[0])
    assert own[0].flags.c_contiguous == again[0].flags.c_contiguous
    assert own[0].flags.f_contiguous == again[0].flags.f_contiguous
    assert own[0].flags.writeable == array.flags.writeable


def test_a_layout_is_read_once_for_problems_of_other_numbers():
    before = pickling._layout.cache_info().misses
    one, two = (unpacked(packed([numbers + k, readable])) for k in range(2))
    assert pickling._layout.cache_info().misses <= before + 1
    assert np.array_equal(one[0] + 1.0, two[0])
    assert np.array_equal(one[1], readable)


def test_an_array_in_several_places_is_one_array():
    one, two = unpacked(packed([numbers.T, numbers]))
    assert np.array_equal(one, two.T)
    turned = numbers.T
    first, second = unpacked(packed([turned, turned]))
    assert first is second


def test_classes_are_found_where_pickle_finds_them():
    given = [OrderedDict.fromkeys, np.linalg.norm, OrderedDict(a=1), Outer.Inner, Outer, colorsys.rgb_to_hls]
    assert unpacked(packed(given)) == given


def test_modules_are_imported_where_something_of_them_arrives(monkeypatch):
    there = packed([colorsys.rgb_to_hls])
    monkeypatch.delitem(sys.modules, "colorsys")
    assert unpacked(there)[0].__module__ == "colorsys"


def test_structs_of_classes_that_nobody_finds_are_left_to_plain_pickles():
    class Own(Struct):
        n: int = integer()

    with pytest.raises(NotPackedError, match="Own"):
        packed([Own(n=1)])


def test_constants_of_traced_functions_are_kept_to_the_bit_and_without_their_zeros():
    template = np.zeros(1_000_000)
    template[[3, 700, 999_999]] = -0.0, np.nan, 2.5
    raw = pickle.dumps(Block(template, np.array([[0, 5], [1, 6]])))
    assert len(raw) < 1000
    block = pickle.loads(raw)
    assert isinstance(block, Block)
    assert np.array_equal(block.template.view(np.int64), template.view(np.int64))
    assert block.places.tolist() == [[0, 5], [1, 6]]

"""Rows, structs and working memory by declaration, read and written by kernels."""

import copy
import pickle

import numpy as np
import pytest

from ddp.compiling.kernel import kernel
from ddp.machine import fields
from ddp.machine.fields import Fields, matrix_of, rows, vector
from ddp.machine.memory import (
    as_matrix,
    as_vector,
    memory_of,
    numbers_between,
    rows_at,
    rows_of,
)
from ddp.machine.number import WIDTH, lane_of, quads, spread, width
from ddp.machine.struct import Struct, integer, integers, matrix, nested, real, reals, several


class Chain(Struct):
    n: int = integer()
    h: float = real()
    parent: np.ndarray = integers()
    mass: np.ndarray = reals(3)
    cost: np.ndarray = matrix()
    out: np.ndarray = reals(constant=False)


class Work(Fields):
    R, p = rows("n", 9), rows("n", 3)
    x = vector("2 n + m + 1")
    M = matrix_of("n", "m")
    a = rows("m", 2)


@kernel
def read(address, out):
    chain = Chain(address)
    out[0], out[1], out[2] = chain.n, chain.h, len(chain.cost)
    for i in range(chain.n):
        mass = chain.mass[i]
        chain.out[i] = chain.h * (mass[0] + mass[2]) + chain.parent[i] + chain.cost[i, 1] + chain.cost[i:][0, 0]


@pytest.fixture
def chain():
    cost = 10.0 * np.arange(6.0).reshape(2, 3)
    return Chain(n=2, h=0.5, parent=[-1, 7], mass=np.arange(6.0), cost=cost, out=np.zeros(2))


@pytest.mark.parametrize("handed", [lambda struct: struct, lambda struct: struct.address])
def test_a_struct_is_read_by_name(chain, handed):
    out = np.zeros(3)
    read(handed(chain), out)
    assert out.tolist() == [2.0, 0.5, 2.0]
    expected = 0.5 * np.array([0.0 + 2.0, 3.0 + 5.0]) + [-1.0, 7.0] + np.array([10.0, 40.0]) + [0.0, 30.0]
    assert chain.out.tolist() == expected.tolist()


def test_a_word_that_python_changes_is_what_kernels_read(chain):
    chain.h = 2.0
    chain.mass = np.ones(6)
    other = chain.replace(h=3.0)
    out = np.zeros(3)
    read(other.address, out)
    assert out[1] == 3.0
    read(chain.address, out)
    assert out[1] == chain.h == 2.0
    assert chain.out[0] == 2.0 * 2.0 - 1.0 + 10.0


class Pair(Struct):
    chain: Chain = nested(Chain)
    before: "Pair | None" = nested()
    factor: float = real()
    others: tuple[Chain, ...] = several()


@kernel
def read_pair(address, out):
    pair = Pair(address)
    out[0] = pair.factor * pair.chain.mass[1, 2] + pair.before.chain.h
    out[1] = pair.before.factor
    out[2] = Chain(pair.others[0]).h + 10.0 * Chain(pair.others[1]).h


def test_structs_hold_structs_and_outlive_what_names_them(chain):
    before = Pair(chain=chain, before=None, factor=3.0, others=[])
    pair = Pair(chain=chain.replace(h=9.0), factor=2.0, before=before, others=[chain.replace(h=h) for h in (4.0, 5.0)])
    other = before.replace(before=before, others=pair.others)
    for kept in (pair, copy.deepcopy(pair), pickle.loads(pickle.dumps(other))):
        out = np.zeros(3)
        read_pair(kept, out)
        assert out.tolist() == [kept.factor * 5.0 + 0.5, 3.0, 54.0]


class Masses(Struct):
    h: float = real()
    mass: np.ndarray = reals(3)


@kernel
def first_mass(address, out):
    masses = Masses(address)
    out[0], out[1] = masses.h, masses.mass[0, 0]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda struct: pickle.loads(pickle.dumps(struct))])
def test_a_copy_of_a_struct_has_memory_of_its_own(copied):
    masses, out = Masses(h=1.0, mass=np.full(3, 2.0)), np.zeros(2)
    other = copied(masses)
    other.mass[:] = 5.0
    other.h = 7.0
    first_mass(other.address, out)
    assert out.tolist() == [7.0, 5.0]
    first_mass(masses.address, out)
    assert out.tolist() == [1.0, 2.0]


class Counted(Struct):
    out: np.ndarray = reals(constant=False)


@kernel
def count(address):
    Counted(address).out[0] += 1.0


@pytest.mark.parametrize("protocol", [None, 4, 5])
def test_a_copy_of_a_struct_that_kernels_write_to_is_written_to_by_itself(protocol):
    counted = Counted(out=np.zeros(1))
    other = pickle.loads(pickle.dumps(counted, protocol)) if protocol else copy.deepcopy(counted)
    count(other)
    assert (counted.out[0], other.out[0]) == (0.0, 1.0)


def test_a_struct_refuses_names_shapes_and_copies_of_what_kernels_write_to(chain):
    with pytest.raises(TypeError, match="expected values of"):
        Chain(n=2)
    with pytest.raises(TypeError, match="mass: expected rows of 3"):
        chain.mass = np.zeros(4)
    with pytest.raises(TypeError, match="out: expected a contiguous array"):
        chain.out = np.zeros(4)[::2]


@kernel
def walk(address, memory, m, found):
    chain, memory = Chain(address), memory_of(memory)
    ws = Work(memory, chain, m)
    one = spread(1.0, memory[0])
    for b in range(chain.n):
        ws.R[b] = (one, one, one, one, one, one, one, one, one)
        ws.p[b] = (2.0, one + 1.0, one + 1.0)
    for k in range(2 * chain.n + m + 1):
        ws.x[k] = 3.0 * one
    for i in range(chain.n):
        for j in range(m):
            ws.M[i, j] = 4.0 * one
    for k in range(m):
        ws.a[k, 0] = 5.0
        ws.a[k, 1] = ws.a[k][0]
    found[0] = numbers_between(memory, ws.end)
    found[1] = len(ws.M)
    found[2] = lane_of(ws.p[1][2] + ws.M[1][0], width(memory) - 1)


@kernel
def walk_through(address, memory, m, found):
    walk(address, memory, m, found)


def guarded(size, lanes, number):
    """Working memory of NaN, with guard words behind it."""
    memory = np.full((size + 2, WIDTH) if lanes else size + 2, np.nan, dtype=number)
    memory[size:] = -77.0
    return memory


@pytest.mark.parametrize(("number", "lanes"), [(np.float64, False), (np.complex128, False), (np.float64, True)])
@pytest.mark.parametrize("m", [1, 4])
def test_working_memory_is_as_large_as_declared_and_all_of_it_is_fields(chain, lanes, number, m):
    size = Work.size(chain, m=m)
    assert size == Work.size(n=2, m=m) == 2 * 12 + (4 + m + 1) + 2 * m + 2 * m
    memory, found = guarded(size, lanes, number), np.zeros(3)
    walk_through(chain.address, memory, m, found)
    assert found.tolist() == [size, 2.0, 6.0]
    assert np.isfinite(memory[:size]).all(), "a number of the memory belongs to no field"
    assert (memory[size:] == -77.0).all(), "a field lies beyond the memory"
    assert sorted(np.bincount(memory[:size].real.astype(int).ravel())[1:].tolist()) == sorted(
        (WIDTH if lanes else 1) * np.array([18, 6, 5 + m, 2 * m, 2 * m])
    )


class Inner(Fields):
    R, p = rows("n", 9), rows("n", 3)


class Outer(Inner):
    x, again, other, y = vector("m"), fields.nested(Inner), fields.nested(Work), vector("2")


@kernel
def walk_through_nested(address, memory, m, found):
    w = Outer(memory_of(memory), Chain(address), m)
    found[0] = numbers_between(memory_of(memory), w.end)
    for b in range(2):
        for k in range(9):
            w.R[b, k] = w.again.R[b, k] = w.other.R[b, k] = 1.0
        for k in range(3):
            w.p[b, k] = w.again.p[b, k] = w.other.p[b, k] = 1.0
        w.y[b] = 1.0
        for k in range(m):
            w.other.M[b, k] = 1.0
    for k in range(m):
        w.x[k] = w.other.a[k, 0] = w.other.a[k, 1] = 1.0
    for k in range(5 + m):
        w.other.x[k] = 1.0


@pytest.mark.parametrize("lanes", [False, True])
def test_nested_and_inherited_fields_lie_one_behind_the_other(chain, lanes):
    size, found = Outer.size(chain, m=3), np.zeros(1)
    assert size == Outer.size(n=2, m=3) == 24 + 3 + 24 + Work.size(n=2, m=3) + 2
    memory = guarded(size, lanes, np.float64)
    walk_through_nested(chain.address, memory, 3, found)
    assert found[0] == size
    assert (memory[:size] == 1.0).all(), "a number of the memory belongs to no field"
    assert (memory[size:] == -77.0).all(), "a field lies beyond the memory"


quads2 = rows_at(quads, 2)


@kernel
def of_quads(address, out):
    table = quads2(address)
    table[1] = (table[0, 1] + 1.0, 3.0)
    out[0] = lane_of(table[1][0], 2)
    out[1] = width(table)


def test_rows_of_quads_are_made_of_an_address():
    memory, out = np.arange(16.0), np.zeros(2)
    of_quads(memory.ctypes.data, out)
    assert out.tolist() == [7.0, 4.0]
    assert memory[8:].tolist() == [5.0, 6.0, 7.0, 8.0, 3.0, 3.0, 3.0, 3.0]


@kernel
def seen(A, x, out):
    A, x = rows_of(A), rows_of(x)
    out[0] = A[1, 3]
    out[1] = as_matrix(as_vector(A), 6, 2)[2][1]
    out[2] = len(A[1:])
    out[3] = x[1:][1]


def test_arrays_are_rows_of_the_same_memory():
    out = np.zeros(4)
    seen(np.arange(12.0).reshape(3, 2, 2), np.arange(3.0), out)
    assert out.tolist() == [7.0, 5.0, 2.0, 2.0]


def test_constant_rows_cannot_be_written_to(chain):
    @kernel
    def write(address):
        Chain(address).mass[0, 0] = 1.0

    with pytest.raises(Exception, match="setitem"):
        write(chain.address)

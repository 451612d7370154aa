"""Structs as constants of kernels: read as in memory, each in code of its own, and by no address of this process."""

import ctypes

import numpy as np
import pytest

from ddp.compiling.kernel import callback, inline, kernel, specialised
from ddp.machine.addresses import array_at
from ddp.machine.constants import frozen, place
from ddp.machine.struct import Struct, integer, integers, matrix, nested, real, reals, several


class Chain(Struct):
    """One of each field."""

    n: int = integer()
    h: float = real()
    parent = integers()
    mass = reals(3)
    cost = matrix()
    next = nested()  # of its own class
    others = several()


def chain(rng, n, following=None, others=()):
    return Chain(
        n=n, h=rng.normal(), parent=rng.integers(0, 9, n), mass=rng.normal(size=(n, 3)), cost=rng.normal(size=(n, 2)),
        next=following, others=others,
    )  # fmt: skip


_chain = None
chain_of = None


def known():
    return place(_chain)


@kernel
def total(address):
    """A number that depends on every word, the places of numbers included."""
    c = Chain(address)
    found = c.h + len(c.cost)
    for i in range(c.n):
        found = 1.1 * found + c.parent[i] + c.mass[i, 2] + c.cost[i, 1]
    return found


@kernel
def all_of(address):
    c, found = Chain(address), total(address)
    if c.next.address != 0:
        found = 1.3 * found + total(c.next)
        found = 1.7 * found + total(Chain(c.next).others[0])
    return 1.9 * found + total(c.others[1])


def _written(to, unused, none, nothing):
    array_at(to, (1,))[0] = all_of(chain_of())


def constant(struct):
    own = inline(specialised(known, "known", _chain=frozen(struct)))
    return callback(specialised(_written, "written", chain_of=own), whole=True)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_constants_are_what_memory_holds(rng, n):
    codes = []
    for _ in range(2):
        ends = [chain(rng, 2), chain(rng, 3)]
        struct = chain(rng, n, chain(rng, n + 1, None, ends[::-1]), ends)
        made, out = constant(struct), np.zeros(1)
        call = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(made.address)
        expected = all_of(struct.address)
        struct.h = 100.0  # constants are those of before
        call(out.ctypes.data, 0, 0, 0)
        np.testing.assert_allclose(out[0], expected, rtol=1e-14)
        assert all_of(struct.address) != expected
        codes.append(made.overloads[made.args].library.get_llvm_str())
    assert codes[0] != codes[1]
    lines = [line for code in codes for line in code.splitlines()]
    assert not any("call" in line and "total" in line for line in lines)  # all is inlined


def test_equal_structs_are_equal_constants(rng):
    parent = rng.integers(0, 9, 2)
    twins = [Chain(n=2, h=0.5, parent=parent.copy(), mass=np.ones((2, 3)), cost=np.ones((2, 2)), next=None, others=())
             for _ in range(2)]  # fmt: skip
    assert frozen(twins[0]) == frozen(twins[1]) != frozen(twins[0].replace(h=0.25))

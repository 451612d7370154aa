"""Calls of kernels: of records, of what they keep and give back, and of what raises."""

from __future__ import annotations

import gc
import re
import sys
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from numba import types
from numba.core.errors import LoweringError
from numba.core.runtime import _nrt_python, rtsys
from numba.extending import intrinsic

from ddp.compiling import compiled, library
from ddp.compiling.kernel import by_types, for_constants, inline, jitted, kernel
from ddp.costs.jitted import JittedTerm
from ddp.errors import ProblemError, suggesting


class Tree(NamedTuple):
    """A record of many words."""

    a: Any
    b: Any
    scale: float
    n: int


@kernel
def weighed(tree, k):
    total = 0.0
    for i in range(tree.n):
        total += tree.scale * tree.a[i] * tree.b[i, k]
    return total


@kernel
def both(tree):
    return weighed(tree, 0) + weighed(tree, 1)


@kernel
def made_anew(a, b, scale):
    """Records made in one block, changed in another, passed in a third."""
    total, tree = 0.0, Tree(a, b, scale, a.size)
    for k in range(2):
        before = tree
        if k == 1:
            tree = Tree(b[:, 1].copy(), b, 2.0 * scale, a.size)
        total += weighed(tree, k) + 10.0 * weighed(before, k)
    return total


@kernel
def first(tree):
    return tree.a


@kernel
def exchanged(tree):
    return Tree(tree.a + 1.0, tree.b, 2.0 * tree.scale, tree.n)


@kernel
def put_row(x, row):
    x[0] = row
    return 1.0


@kernel
def put_twice(x, row):
    return put_row(x, row) + put_row(x, row)


@jitted
def of_a_user(tree):
    return both(tree)


@numba.njit
def of_numba(tree):
    return both(tree)


@kernel
def through_a_user(tree):
    return of_a_user(tree)


@kernel
def through_numba(tree):
    return of_numba(tree)


@pytest.fixture
def tree():
    rng = np.random.default_rng(1)
    return Tree(rng.normal(size=3), rng.normal(size=(3, 2)), 0.5, 3)


def test_records_arrive_as_they_are(tree):
    expected = 0.5 * tree.a @ tree.b
    np.testing.assert_allclose([weighed(tree, 0), weighed(tree, 1)], expected, rtol=1e-14)
    np.testing.assert_allclose([both(tree), through_a_user(tree)], expected.sum(), rtol=1e-14)
    np.testing.assert_allclose([of_numba(tree), through_numba(tree)], expected.sum(), rtol=1e-14)


def test_a_record_that_is_replaced_is_what_it_was_where_it_is_kept(tree):
    kept, replaced = 0.5 * tree.a @ tree.b, tree.b[:, 1] @ tree.b
    expected = 11.0 * kept[0] + replaced[1] + 10.0 * kept[1]
    assert made_anew(tree.a, tree.b, 0.5) == pytest.approx(expected, rel=1e-14)


def test_what_is_given_back_is_counted_once(tree):
    first(tree), exchanged(tree)
    before = sys.getrefcount(tree.a), sys.getrefcount(tree.b)
    given = [first(tree) for _ in range(5)]
    changed = [exchanged(tree) for _ in range(5)]
    assert all(np.shares_memory(array, tree.a) for array in given)
    np.testing.assert_array_equal(changed[4].a, tree.a + 1.0)
    del given, changed
    gc.collect()
    assert (sys.getrefcount(tree.a), sys.getrefcount(tree.b)) == before


@kernel
def second_half(x):
    return x[x.size // 2 :]


@kernel
def total(x):
    return x.sum()


def test_arguments_are_lent_unless_they_are_given_back():
    x = np.arange(6.0)
    before = sys.getrefcount(x)
    assert total(x) == 15.0
    half = second_half(x)
    assert sys.getrefcount(x) == before + 1  # the part that came back keeps the whole
    del x
    gc.collect()
    np.testing.assert_array_equal(half, [3.0, 4.0, 5.0])
    for made, counted in ((total, False), (second_half, True)):
        anew = compiled.Kernel(made.py_func)
        anew.is_kept = False  # of what is cached there is no text
        anew(half)
        (entry,) = anew.entries.values()
        assert ("NRT_adapt_ndarray_from_python" in entry.library.get_llvm_str()) == counted


def test_arrays_of_other_shapes_are_refused_through_every_caller():
    x = np.zeros((2, 3))
    assert put_twice(x, np.arange(3.0)) == 2.0
    np.testing.assert_array_equal(x[0], np.arange(3.0))
    with pytest.raises(ValueError, match="cannot assign slice"):
        put_twice(x, np.arange(2.0))


def test_garbage_is_collected_again_after_compiling():
    assert gc.isenabled()
    with compiled.uncollected(), compiled.uncollected():
        assert not gc.isenabled()
    assert gc.isenabled()


@kernel
def caught(x):
    try:
        if x > 1.0:
            raise ValueError
        y = x
    except Exception:
        y = -1.0
    return y


@kernel
def calls(x):
    return caught(x) + caught(2.0 * x)


@pytest.mark.parametrize(("x", "expected"), [(0.25, 0.75), (0.75, -0.25), (3.0, -2.0)])
def test_what_a_kernel_catches_itself_is_no_harm(x, expected):
    assert calls(x) == expected


@inline
def refused(x):
    if x > 1.0:
        raise ValueError("too large")
    return x


@kernel
def passes_on(x):
    return refused(x) + 1.0


def test_what_is_inlined_and_raises_raises_through_its_callers():
    assert passes_on(0.5) == 1.5
    with pytest.raises(ValueError, match="too large"):
        passes_on(2.0)


def test_registers_are_kept_on_a_stack_where_cache_lines_begin(tree):
    anew = compiled.Kernel(weighed.py_func)
    anew.is_kept = False  # of what is cached there is no text
    anew(tree, 0)
    (made,) = anew.overloads.values()
    (head,) = re.findall(r"^define .*weighed.*#(\d+) {$", made.library.get_llvm_str(), re.MULTILINE)
    assert re.search(rf"^attributes #{head} = .*alignstack=64", made.library.get_llvm_str(), re.MULTILINE)


@kernel
def halved(x):
    return 0.5 * x


@inline
def quartered(x):
    return halved(halved(x))


@kernel
def an_eighth(x):
    return quartered(halved(x))


def test_only_what_is_to_be_inlined_always_is(monkeypatch):
    monkeypatch.setattr(library, "SMALL", 0)
    assert an_eighth(8.0) == 1.0
    for each in (halved, quartered):
        each.prepare((types.float64,))  # what calls them may have been cached
    called, inlined = halved.overloads[types.float64,], quartered.overloads[types.float64,]
    assert not called.fndesc.inline
    assert inlined.fndesc.inline
    assert called.library.get_pointer_to_function(called.fndesc.llvm_func_name) > 0
    assert inlined.library.get_pointer_to_function(inlined.fndesc.llvm_func_name) == 0  # no machine code
    assert quartered(8.0) == 2.0  # from Python, too


def test_what_is_small_has_machine_code_only_where_python_calls_it():
    anew = compiled.Kernel(halved.py_func)
    assert anew(8.0) == 4.0
    inlined, called = anew.overloads[types.float64,], anew.entries[types.float64,]
    assert inlined.library.get_pointer_to_function(inlined.fndesc.llvm_func_name) == 0
    assert called.library.get_pointer_to_function(called.fndesc.llvm_cpython_wrapper_name) > 0


def either(x, more=None):
    """Functions that kernels call by the type of x."""


@kernel
def _of_numbers(x, more=1.0):
    return x + more


@kernel
def _of_arrays(x, more=2.0):
    return x[0] + more


@by_types(either)
def _which(x, more=None):
    return _of_arrays if isinstance(x, types.Array) else _of_numbers


@kernel
def both_of(x, y):
    return either(x) + 10.0 * either(y)


def test_a_kernel_is_chosen_by_the_types_of_its_arguments():
    assert both_of(np.array([5.0]), 1) == 27.0


@kernel
def by_name(x, y):
    return either(more=y, x=x)


def test_a_kernel_that_is_chosen_takes_arguments_by_name():
    assert by_name(np.array([5.0]), 4.0) == 9.0


def test_what_others_compile_is_compiled_by_numba_as_it_is():
    assert both_of(np.array([5.0]), 1.0) == 27.0
    assert types.Function.get_call_type is types.BaseFunction.get_call_type


@kernel
def taking(k, x):
    return x[k] + k


@kernel
def giving(x, k):
    return taking(0, x) + 10 * taking(1, x) + 100 * taking(k, x) + 1000 * taking(-1, x)


@for_constants
def knowing(k, x):
    return x[k] + k


@kernel
def telling(x, k):
    return knowing(0, x) + 10 * knowing(1, x) + 100 * knowing(k, x)


@for_constants(but=("x",))
def indifferent(k, x):
    return 10 * x + k


@kernel
def indifferent_to_one():
    return indifferent(1, 2) + indifferent(1, 3)


for caller in (giving, telling, indifferent_to_one):
    caller.is_kept = False  # what it calls is asked for in every run of the tests


def test_one_kernel_for_all_integers():
    x = np.array([1.0, 2.0, 4.0])
    assert giving(x, 2) == 1 + 30 + 600 + 3000
    assert len(taking.overloads) == 1


def test_kernels_for_constants():
    x = np.array([1.0, 2.0, 4.0])
    assert telling(x, 2) == 1 + 30 + 600
    assert len(knowing.overloads) == 3
    assert indifferent_to_one() == 52
    assert len(indifferent.overloads) == 1


@kernel
def with_defaults(x, k=1, scale=2.0):
    return scale * x[k]


def test_defaults_hold_for_python_and_for_kernels():
    x = np.array([1.0, 3.0])
    assert [with_defaults(x), with_defaults(x, 0), with_defaults(x, scale=0.5)] == [6.0, 2.0, 1.5]


@kernel
def gathered(pair, k):
    """Sum over what numba rewrites once it has read it: tuples of others, dictionaries, what is caught."""
    many = (*pair, *pair)
    total = 0.0
    for i in range(4):
        if i == k:
            continue
        total += many[i] + max(*pair)
    known = {0: total, 1: 2.0 * pair[0]}
    try:
        total += known[0] * known[1]
    except Exception:
        total = -1.0
    return total


@pytest.mark.parametrize("k", [0, 3, 7])
def test_rarer_bytecode_is_rewritten(k):
    assert gathered((2.0, 3.0), k) == gathered.py_func((2.0, 3.0), k)


ANNOTATED = """
def halved(x: Known, factor: Known = 0.5) -> Known:
    return factor * x

def patient(*, hours: Known = 1.0) -> Known:
    return hours
"""


def test_annotations_may_name_what_only_type_checkers_import():
    names = {"__name__": "theirs"}
    lazy = "" if sys.version_info >= (3, 14) else "from __future__ import annotations"
    exec(compile(lazy + ANNOTATED, "theirs.py", "exec", dont_inherit=True), names)
    made = kernel(names["halved"])
    assert (made(3.0), made(3.0, 2.0)) == (1.5, 6.0)
    assert made.__wrapped__ is names["halved"]
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'hour'.*id you mean 'hours'"):
        suggesting(names["patient"])(hour=2.0)


@kernel
def sum_of_copies(x, count):
    total = 0.0
    for _ in range(count):
        copy = x.copy()
        copy += 1.0
        total += copy.sum()
    return total


def test_arrays_that_a_kernel_makes_are_freed():
    x = np.arange(3.0)
    sum_of_copies(x, 1)
    _nrt_python.memsys_enable_stats()
    try:
        before = rtsys.get_allocation_stats()
        assert sum_of_copies(x, 7) == 42.0
        after = rtsys.get_allocation_stats()
    finally:
        _nrt_python.memsys_disable_stats()
    assert after.alloc - before.alloc >= 7
    assert after.free - before.free == after.alloc - before.alloc


@intrinsic
def unwritten(context, x):
    def codegen(context, builder, signature, args):
        raise LoweringError("no such instruction")

    return x(x), codegen


@kernel
def asks_for_unwritten(x):
    y = 2.0 * x
    return unwritten(y)


def test_what_cannot_be_written_names_its_instruction_and_line():
    with pytest.raises(LoweringError, match=r"(?s)no such instruction.*lowering .* call .*test_kernel_calls\.py"):
        asks_for_unwritten(1.0)


def test_what_is_no_plain_function_is_no_kernel():
    """A generator would end the process when it is called."""

    def counted(x, u):
        yield x

    for given, name in ((counted, "counted"), (len, "len"), (3, "3")):
        with pytest.raises(ProblemError, match=f"kernel: expected a plain function, without yield, got {name}"):
            kernel(given)
    with pytest.raises(ProblemError, match="value: expected a function of x and u that numba can compile, got"):
        JittedTerm(counted)

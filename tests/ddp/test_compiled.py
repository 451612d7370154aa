"""Kernels that call each other by symbols: the same after a reload, after a change, after a loss, in any process."""

import importlib
import pickle
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from fresh import Fresh
from thorough import cases

from ddp.compiling import library
from ddp.sweeps import gaps

INNER = """
from ddp.compiling.kernel import inline, kernel

@inline
def times(x, y):
    return x * y

@inline
def inlined(x, y):
    return times(y if x > 0.0 else y, x)

inlined.level = 0  # of parts of what is compiled whole

@kernel
def inner(x, scale):
    total = 0.0
    for i in range(x.size):
        total += {factor} * inlined(scale, x[i])
    return total
"""

OUTER = """
from typing import Any, NamedTuple

from ddp.compiling.kernel import callback, kernel
from ddp.machine.addresses import array_at
from inner import inner

@kernel
def outer(x):
    return inner(x, 2.0) + inner(x, 1.0)

class Both(NamedTuple):
    x: Any
    total: float

@kernel
def both(x):
    return Both(x, inner(x, 1.0))

@callback
def store(context, x, y, out):
    array_at(out, (1,))[0] = outer(array_at(x, (3,)))
"""

PROGRAM = """
import ctypes
import inner, outer
x, out = np.arange(3.0), np.zeros(1)
call = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(outer.store.address)
call(0, x.ctypes.data, 0, out.ctypes.data)
assert out[0] == outer.outer(x) == inner.inner(x, 3.0)
assert isinstance(outer.both(x), outer.Both) and 3.0 * outer.both(x).total == out[0]
print(out[0])
"""


def run(fresh: Fresh, folder: Path) -> tuple[float, set[str]]:
    """Run the kernels of a folder in a process of their own: (their result, the names of what had to be compiled)."""
    (result,), names = fresh.run(folder, PROGRAM)
    return float(result), {"inlined", "inner", "outer"}.intersection(names)


def write(folder: Path, factor: float) -> None:
    (folder / "outer.py").write_text(OUTER)
    (folder / "inner.py").write_text(INNER.format(factor=factor))


@pytest.fixture(scope="module")
def kept(tmp_path_factory, fresh):
    """(a folder of kernels, a copy of it as the first process left it)."""
    folder, copy = tmp_path_factory.mktemp("kernels"), tmp_path_factory.mktemp("kept")
    write(folder, 1.0)
    assert run(fresh, folder) == (9.0, {"inlined", "inner", "outer"})
    return folder, shutil.copytree(folder, copy, dirs_exist_ok=True)


@pytest.fixture
def again(kept):
    """The folder of kernels as the first process left it, to the times of its files."""
    folder, copy = kept
    shutil.rmtree(folder)
    return shutil.copytree(copy, folder)


def test_another_process_compiles_nothing_and_finds_the_same(fresh, again):
    assert run(fresh, again) == (9.0, set())


def test_what_is_lost_is_compiled_again_for_those_who_call_it(fresh, again):
    lost = list((again / "cache").rglob("inner.inner-*"))
    assert lost
    for path in lost:
        path.unlink()
    assert run(fresh, again) == (9.0, {"inner"})


DAMAGES = ("cut short", "empty", "swapped", "a folder", "one bit")


@pytest.mark.parametrize(
    "damages", cases([*((damage,) for damage in DAMAGES), DAMAGES], [("one bit",), DAMAGES]), ids=", ".join
)
def test_what_cannot_be_read_is_compiled_again(fresh, again, damages):
    files = sorted((again / "cache" / "kernels").glob("*.kernel"))
    contents = [path.read_bytes() for path in files]
    assert len(files) >= len(DAMAGES)
    for k, (path, kept) in enumerate(zip(files, contents, strict=True)):
        damage = damages[k % len(damages)]
        path.unlink()
        if damage == "a folder":
            path.mkdir()
        else:
            at = (7919 * k) % len(kept)
            path.write_bytes(
                {
                    "cut short": kept[:60],
                    "empty": b"",
                    "one bit": kept[:at] + bytes([kept[at] ^ 1 << k % 8]) + kept[at + 1 :],
                    "swapped": contents[k - 1],
                }[damage]
            )
    assert run(fresh, again) == (9.0, {"inlined", "inner", "outer"})
    if damages == ("one bit",):  # whatever was there, it is written alike
        assert run(fresh, again) == (9.0, set())


def test_a_change_reaches_the_callers_in_other_files(fresh, again):
    write(again, 2.0)
    assert run(fresh, again) == (18.0, {"inner", "outer"})


def test_a_module_imported_again_is_called_anew(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("MAYNE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(library, "SMALL", 0)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # Python tells old from new by whole seconds
    for factor in (1.0, 2.0):
        write(tmp_path, factor)
        for name in ("inner", "outer"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        assert importlib.import_module("outer").outer(np.arange(3.0)) == 9.0 * factor
        assert importlib.import_module("inner").inner(np.arange(3.0), 1.0) == 3.0 * factor
    for name in ("inner", "outer"):
        sys.modules.pop(name)


def test_kernels_travel_between_processes_by_name():
    assert pickle.loads(pickle.dumps(gaps.weigh)) is gaps.weigh

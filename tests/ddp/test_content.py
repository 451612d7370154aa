"""Contents of kernels: equal where they compile to the same, whatever was asked before, and different where not."""

import os
import subprocess
import sys
from itertools import permutations
from types import ModuleType

import numpy as np
import pytest
from fresh import ROOT


@pytest.mark.parametrize(
    "other",
    [
        "# why\nx = 1\n\ny = f(x)  # and how", '"""Doc."""\nx = 1\n"""One."""\ny = f(x)', "x = (1)\ny = f(\n    x,\n)",
    ],
)  # fmt: skip
def test_text_that_python_does_not_run_is_not_in_a_syntax(other):
    from ddp.compiling.syntax import syntax

    assert syntax(other.encode()) == syntax(b"x = 1\ny = f(x)")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x = 1", "x = 1.0"), ("x = 0.0", "x = -0.0"), ("x = 1", "y = 1"), ("x = 'a'", "x = b'a'"),
        ("x = 'a' 'b'", "x = 'a', 'b'"), ("f(x)", "f(*x)"), ("'a'", "('a', )"), ("'a'", "f'{a}'"),
        ("if x:\n  y\nz", "if x:\n  y\n  z"), ("def f(x): pass", "def f(x, /): pass"), ("x: int = 1", "x: float = 1"),
        ("def f():\n  'a'\n  return 1", "def f():\n  return 'a'"), ("a @ b", "a * b"), ("assert x", "x"),
        ("@a\ndef f(): 'b'", "def f(): 'b'"), ("x if y else z", "z if y else x"), ("lambda: 'a'", "lambda: 'b'"),
    ],
)  # fmt: skip
def test_what_python_runs_is_in_a_syntax(one, other):
    from ddp.compiling.syntax import syntax

    assert syntax(one.encode()) != syntax(other.encode())


def test_a_text_that_a_function_uses_is_no_docstring():
    used = [
        "def asked(x):\n    '{}'\n    return x if N else '{}'",
        "asked = lambda x: '{}'",
        "def asked(x):\n    def inner(y):\n        '{}'\n        return '{}' + y\n    return inner",
        "def asked(x):\n    return [('{}', y) for y in x]",
    ]
    for text in used:
        assert named(1.0, text.replace("{}", "a")) != named(1.0, text.replace("{}", "b"))
    unused = "def asked(x):\n    '{}'\n    def inner(y):\n        '{}'\n        return y\n    return inner"
    assert named(1.0, unused.replace("{}", "a")) == named(1.0, unused.replace("{}", "b"))


def test_the_pivot_of_factorisations_is_in_what_eliminates(tmp_path, monkeypatch):
    from ddp.compiling import content
    from ddp.machine import algebra, triangles
    from ddp.sweeps import gaps

    before = {made: content.digest(made) for made in (triangles.eliminate, algebra.factorize, gaps.arrive)}
    monkeypatch.setattr(algebra, "PIVOT", 1e-3)
    assert content.digest(algebra.factorize) != before[algebra.factorize]
    assert content.digest(triangles.eliminate) == before[triangles.eliminate], "it has a name of its own for it"
    monkeypatch.setattr(triangles, "PIVOT", 1e-3)
    assert content.digest(triangles.eliminate) != before[triangles.eliminate]
    assert content.digest(gaps.arrive) == before[gaps.arrive]


def test_a_part_that_changes_in_a_session_is_seen_whichever_is_asked_first():
    """``inner`` reads ``number``, ``outer`` reads ``inner`` and itself."""
    from ddp.compiling import content

    names = {"number": 6.0}
    exec("def inner(x): return number * x\ndef outer(x): return inner(x) if x else outer(x)", names)
    before = content.digest(names["outer"]), content.digest(names["inner"])
    names["number"] = 10.0
    inner, outer = content.digest(names["inner"]), content.digest(names["outer"])
    assert inner != before[1]
    assert outer != before[0]


def test_what_leads_back_to_itself_has_one_content_whichever_is_asked_first():
    """By definition alone: three functions that call each other, made anew for each order of questions."""
    from ddp.compiling import content

    text = """
def a(x): return b(x) + c(x)
def b(x): return c(x) * number
def c(x): return a(x) if x else {}(x)
"""

    def digests(order, last="c", number=6.0):
        names = {"__name__": "asking", "number": number}
        exec(text.format(last), names)
        return {name: content.digest(names[name]) for name in order}

    expected = digests("abc")
    assert len(set(expected.values())) == 3
    for order in permutations("abc"):
        assert digests(order) == expected
    assert not set(digests("abc", number=7.0).values()) & set(expected.values())
    assert not set(digests("abc", last="b").values()) & set(expected.values())


def test_a_part_that_is_looked_at_anew_leaves_what_leads_back_to_itself_as_it_is():
    """``a`` and ``b`` name each other, and ``a`` a dictionary, which may have changed whenever it is asked for."""
    from ddp.compiling import content

    names = {"__name__": "asking", "table": {1: 2.0}}
    exec("def one(x): return table[1]\ndef a(x): return b(x) + one(x)\ndef b(x): return a(x)", names)
    expected = [content.digest(names[name]) for name in "ab"]
    for order in ("ab", "ba"):
        with content.unchanging():
            found = {name: content.digest(names[name]) for name in order}
        assert [found["a"], found["b"]] == expected


ORDERS = """
import hashlib, random, sys
import {first}
import mayne, problems.soft, problems.systems, problems.walking
from ddp.compiling import content, kernel

kernels = kernel.registered()
random.Random({seed}).shuffle(kernels)
alone = [content.digest(one) for one in kernels[:20]]
with content.unchanging():
    found = sorted((one.py_func.__module__, one.py_func.__qualname__, content.digest(one)) for one in kernels)
    assert alone == [content.digest(one) for one in kernels[:20]]
print(len(found), hashlib.sha256(repr(found).encode()).hexdigest())
"""


def test_contents_are_the_same_whatever_was_asked_or_imported_before():
    found = []
    for seed, first in enumerate(("problems", "dynamics.phases")):
        done = subprocess.run(
            [sys.executable, "-c", ORDERS.format(seed=seed, first=first)],
            env={**os.environ, "PYTHONHASHSEED": str(seed)}, capture_output=True, text=True, check=True, cwd=ROOT,
        )  # fmt: skip
        found.append(done.stdout)
    assert found[0] == found[1]
    assert int(found[0].split()[0]) > 300


def test_every_kernel_of_ours_has_a_content_of_its_own():
    import problems  # noqa: F401
    from ddp.compiling import content, kernel

    with content.unchanging():
        found = [content.digest(made) for made in kernel.registered() if made.py_func.__module__.startswith("d")]
    assert None not in found
    assert len(set(found)) == len(found) > 300


def named(value, text="def asked(x):\n    return x * N"):
    """The digest of a function that names a value."""
    from ddp.compiling import content

    variables = {"__name__": "asking", "N": value}
    exec(text, variables)
    return content.digest(variables["asked"])


@pytest.mark.parametrize(
    ("one", "other"),
    [(2.0, 3.0), (2, 3), (2j, 3j), ("a", "b"), (b"a", b"b"), ((1,), (2,)), ([1], [2]), ({1}, {2}), ({1: 2}, {1: 3})],
)
def test_values_of_derived_classes_count(one, other):
    kind = type("Own", (type(one),), {"__repr__": lambda self: "always the same", "__iter__": lambda self: iter(())})
    assert None not in (named(kind(one)), named(one))
    assert named(kind(one)) == named(kind(one))
    assert len({named(kind(one)), named(kind(other)), named(one), named(other)}) == 4
    value = kind(one)
    value.more = 1.0
    before = named(value)
    value.more = 2.0
    assert None is not before != named(value)


def test_objects_that_hold_more_than_their_attributes_have_no_digest():
    class OwnError(ValueError):
        pass

    class Slotted(float):
        __slots__ = ("more",)

    assert named(OwnError("a")) is named(Slotted(2.0)) is None


@pytest.mark.parametrize(
    "text",
    [
        "def asked(x):\n    return getattr(N, 'mass')",
        "read = getattr\ndef asked(x):\n    return read(N, 'mass')",
        "name = 'mass'\ndef asked(x):\n    return getattr(N, name)",
        "def make(module):\n    def asked(x):\n        return module.mass\n    return asked\nasked = make(N)",
    ],
)
def test_what_is_read_of_a_module_counts_however_it_is_spelt(text):
    module = ModuleType("robot")
    found = []
    for module.mass in (1.0, 2.0, 1.0):
        found.append(named(module, text))
    assert found[0] == found[2] != found[1]
    assert None not in found


FALSE = {
    "a function run under a library's name": "__name__ = 'random'\ndef asked(x):\n    return x * {}",
    "a function that wraps one of numpy's": "@functools.wraps(np.linalg.norm)\ndef asked(x):\n    return x * {}",
    "a class that says it is numpy's": "class A:\n  __module__ = 'numpy'\n  by = {}\ndef asked(x):\n    return A.by",
    "a module that says it is numpy": "N = ModuleType('numpy')\nN.by = {}\ndef asked(x):\n    return x * N.by",
}


@pytest.mark.parametrize("text", FALSE.values(), ids=FALSE)
def test_only_what_a_library_has_written_counts_by_its_name(text):
    head = "import functools\nimport numpy as np\nfrom types import ModuleType\n"
    one, other = (named(None, head + text.format(by)) for by in (2.0, 3.0))
    assert None is not one != other is not None


def test_records_of_numpy_count_with_the_places_of_their_fields():
    def made(*offsets, size=32):
        kind = np.dtype({"names": ["a", "b"], "formats": ["<f8", ("<f4", (2,))], "offsets": offsets, "itemsize": size})
        return np.zeros(2, kind)

    layouts = [made(0, 8), made(8, 0), made(0, 16), made(0, 4), made(0, 8, size=24)]
    found = [named(value) for layout in layouts for value in (layout, layout[0])]
    assert None not in found
    assert len(set(found)) == len(found)
    assert named(made(8, 0)) == named(made(8, 0))

"""A cached kernel is that of the present source, whatever it depends on has been edited; else it is compiled."""

import os
import subprocess
import sys
from itertools import permutations
from types import ModuleType

import numpy as np
import pytest
from fresh import ROOT, Fresh

HEAD = "from ddp.compiling.kernel import by_types, inline, kernel, specialised\n"
HEAD += "from typing import Any, NamedTuple\nimport numpy as np\n"

ASKING = "import asking; print(asking.asked(np.arange(3.0)))"


@pytest.fixture(scope="module")
def fresh():
    made = Fresh()
    yield made
    made.close()


@pytest.fixture
def write(tmp_path):
    def write(**modules: str) -> None:
        for name, text in modules.items():
            (tmp_path / f"{name}.py").write_text(HEAD + text)

    return write


OTHER = "import numpy as np\nN = {0}.0\npair = ({0}.0, 1.0)\ntable = np.array([{0}.0, 1.0])\n"

ASKED = "@kernel\ndef asked(x):\n    return {} * (x[1] + x[2])\n"

RECORD = "class Both(NamedTuple):\n    {}: float\n    {}: float\n\ndef made():\n    return Both(2.0, 4.0)\n"

DECIDED = "@kernel\ndef inner(x):\n    return {}.0 * (x[1] + x[2])\n"

LATE = """
@kernel
def asked(x):
    return inner(x)

from other import inner
"""

CLOSED = """
def scaled(factor):
    @kernel
    def scale(x):
        return factor * (x[1] + x[2])
    return scale

asked = scaled({}.0)
"""

INTRINSIC = """
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from other import N

class Writer:
    def number(self):
        return ir.Constant(ir.DoubleType(), N)

def _made(writer):
    @intrinsic
    def number(typingctx, x):
        def codegen(context, builder, sig, args):
            return writer().number()
        return types.float64(x), codegen
    return number

number = _made(Writer)

@kernel
def asked(x):
    return number(0.0) * (x[1] + x[2])
"""

OVERLOADED = """
from numba.extending import overload

def number(x):
    pass

@overload(number)
def _(x):
    return lambda x: {}.0

@overload(abs)
def _(x):
    return None
"""

CHOSEN = """
def number(x):
    pass

@kernel
def _number(x):
    return {}.0

@by_types(number)
def _(x):
    return _number
"""

EDITS = {
    "a number imported by its name": ({"other": OTHER}, "from other import N\n" + ASKED.format("N")),
    "a number of another module": ({"other": OTHER}, "import other\n" + ASKED.format("other.N")),
    "two modules away": (
        {"another": OTHER, "other": "from another import N\n"}, "import other\n" + ASKED.format("other.N"),
    ),
    "a number by getattr": ({"other": OTHER}, "import other\n" + ASKED.format("getattr(other, 'N')")),
    "in a module of a module": (
        {"another": OTHER, "other": "import another\n"}, "import other\n" + ASKED.format("other.another.N"),
    ),
    "a tuple": ({"other": OTHER}, "from other import pair\n" + ASKED.format("pair[0]")),
    "an array": ({"other": OTHER}, "from other import table\n" + ASKED.format("table[0]")),
    "a number of a derived class": (
        {"other": "class Own(float):\n    pass\n\nN = Own({}.0)\n"}, "from other import N\n" + ASKED.format("N"),
    ),
    "a constant in the code": ({}, ASKED),
    "a callee": ({"other": DECIDED}, "from other import inner\n" + ASKED.format("inner(x) / 3.0")),
    "a callee imported below": ({"other": DECIDED}, LATE),
    "a callee of a callee": (
        {"another": OTHER, "other": "from another import N\n" + DECIDED.replace("{}.0", "N")},
        "from other import inner\n" + ASKED.format("inner(x) / 3.0"),
    ),
    "a function that is inlined": (
        {"other": "@inline\ndef small(x):\n    return {}.0\n"},
        "from other import small\n" + ASKED.format("small(0.0)"),
    ),
    "a function of numba's own": (
        {"other": "import numba\n@numba.njit\ndef plain(x):\n    return {}.0\n"},
        "from other import plain\n" + ASKED.format("plain(0.0)"),
    ),
    "a closure": ({}, CLOSED),
    "a default": ({}, "@kernel\ndef asked(x, by={}.0):\n    return by * (x[1] + x[2])\n"),
    "a specialised name": (
        {"other": OTHER},
        "import other\nN = None\ndef _asked(x):\n    return N * (x[1] + x[2])\n"
        "asked = kernel(specialised(_asked, 'asked', N=other.N))",
    ),
    "what an intrinsic writes": ({"other": OTHER}, INTRINSIC),
    "what an overload does": ({"other": OVERLOADED}, "from other import number\n" + ASKED.format("number(0.0)")),
    "what types choose": ({"other": CHOSEN}, "from other import number\n" + ASKED.format("number(0.0)")),
    "a value read at import": (
        {"other": "import pathlib\nN = float(pathlib.Path(__file__).with_name('value').read_text())\n"},
        "from other import N\n" + ASKED.format("N"),
    ),
}  # fmt: skip


ALL_ASKING = """
import os, sys
edits = sys.path[0]
for folder in sorted(one.name for one in os.scandir(edits) if one.is_dir()):
    sys.path.insert(0, os.path.join(edits, folder))
    import asking
    print(folder, asking.asked(np.arange(3.0)))
    del sys.path[0]
    for name in ("asking", "other", "another"):
        sys.modules.pop(name, None)
"""


def test_an_edit_is_seen_and_nothing_else_is_compiled_again(fresh, tmp_path):
    edits = tmp_path / "edits"

    def told(number: int) -> tuple[dict[str, str], list[str]]:
        """Results of all edits' kernels with their number set to ``number``, and the names of kernels that compiled."""
        for name, (others, asking) in EDITS.items():
            folder = edits / name
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "asking.py").write_text(HEAD + asking.replace("{}", str(number)))
            for other, text in others.items():
                text = text.replace("{0}", str(number)).replace("{}", str(number))
                (folder / f"{other}.py").write_text(HEAD + text)
            (folder / "value").write_text(str(number))
            for path in folder.glob("*.py"):
                os.utime(path, (10**9, 10**9))
        lines, compiled = fresh.run(edits, ALL_ASKING, tmp_path / "cache")
        return dict(line.rsplit(" ", 1) for line in lines), compiled

    assert told(2)[0] == dict.fromkeys(EDITS, "6.0")
    assert told(2) == (dict.fromkeys(EDITS, "6.0"), [])
    assert told(3)[0] == dict.fromkeys(EDITS, "9.0")


def test_fields_of_a_record_are_part_of_those_that_read_it(fresh, tmp_path, write):
    write(asking="from records import made\n@kernel\ndef read(both):\n    return both.first\n"
          "def asked(x):\n    return read(made())\n")  # fmt: skip
    write(records=RECORD.format("first", "second"))
    assert fresh.run(tmp_path, ASKING) == (["2.0"], ["read"])
    write(records=RECORD.format("second", "first"))
    assert fresh.run(tmp_path, ASKING) == (["4.0"], ["read"])


def test_equal_names_in_two_modules_are_two_kernels(fresh, tmp_path, write):
    write(one=ASKED.format("2.0"), other=ASKED.format("3.0"), same=ASKED.format("2.0"))
    program = "import one, other, same; x = np.arange(3.0); print(one.asked(x), other.asked(x), same.asked(x))"
    for compiled in (["asked"] * 3, []):
        assert fresh.run(tmp_path, program) == (["6.0 9.0 6.0"], compiled)


EXTENDING = """
{0}
from numba.extending import overload

N = 2.0
{1}

class Numbers:
    {1}
    by = 3.0

def number(x):
    {1}

@overload(number)
def _(x):
    {1}
    def written(x):
        {1}
        return N
    return written

@kernel
def inner(x):
    {1}
    total = number(0.0)
    {2}
    return total * (x[1] + x[2])
"""


def test_comments_docstrings_and_other_folders_compile_nothing(fresh, tmp_path):
    texts = [
        ("", '"""Told."""', ""),
        ('"""Another file."""\n\n# of two lines', '"""Told\n\n    in other words: {}."""', "# why"),
    ]
    told = []
    for name, (head, text, comment) in zip(("one", "two"), texts, strict=True):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "asking.py").write_text(HEAD + "from other import inner\n" + ASKED.format("inner(x) / 3.0"))
        (folder / "other.py").write_text(HEAD + EXTENDING.format(head, text, comment))
        for path in folder.glob("*.py"):
            os.utime(path, (10**9, 10**9))
        told.append(fresh.run(folder, ASKING, tmp_path / "cache"))
    assert told[0][0] == told[1][0] == ["6.0"]
    assert "asked" in told[0][1]
    assert told[1][1] == []


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


def test_a_file_edited_in_a_session_does_not_keep_old_code_under_the_new_name(fresh, tmp_path, write):
    write(asking="from other import inner\n" + ASKED.format("inner(x) / 3.0"), other=DECIDED.format(2))
    editing = (
        "import asking, pathlib, os\npath = pathlib.Path(asking.__file__).with_name('other.py')\n"
        "path.write_text(path.read_text().replace('2.0', '3.0'))\nprint(asking.asked(np.arange(3.0)))"
    )
    assert fresh.run(tmp_path, editing)[0] == ["6.0"]
    assert "3.0" in (tmp_path / "other.py").read_text()
    write(asking="from other import inner\n" + ASKED.format("inner(x)"))
    assert fresh.run(tmp_path, ASKING)[0] == ["27.0"]


def test_a_value_changed_in_a_session_is_that_of_what_is_compiled_after_it(fresh, tmp_path, write):
    write(other="N = 2.0\n@kernel\ndef inner(x):\n    return N * (x[1] + x[2])\n",
          asking="from other import inner\n@kernel\ndef asked(x):\n    return inner(x)\n")  # fmt: skip
    changing = (
        "import other, asking\nx = np.arange(3.0)\nprint(other.inner(x))\nother.N = 3.0\n"
        "print(asking.asked(x), other.inner(x.astype(np.float32)))"
    )
    told, _ = fresh.run(tmp_path, changing)
    assert told == ["6.0", "6.0 9.0"]  # numba's rule: a kernel stays what it was when it was compiled
    assert fresh.run(tmp_path, ASKING)[0] == ["6.0"]
    at_once = "import other, asking\nother.N = 3.0\nprint(asking.asked(np.arange(3.0)))"
    assert fresh.run(tmp_path, at_once)[0] == ["9.0"]
    assert fresh.run(tmp_path, at_once) == (["9.0"], [])


def test_kernels_of_scripts_and_notebooks_are_cached_by_what_they_are(fresh, tmp_path):
    cell = HEAD + DECIDED.replace("{}", "{0}") + "@kernel\ndef asked(x):\n    return inner(x)\n"
    cell += "x = np.arange(3.0)\nprint(asked(x))\n"
    assert fresh.run(tmp_path, cell.format(2))[0] == ["6.0"]
    assert fresh.run(tmp_path, cell.format(2)) == (["6.0"], [])
    assert fresh.run(tmp_path, cell.format(3))[0] == ["9.0"]
    both = cell.format(2) + cell.format(3) + cell.format(2)
    assert fresh.run(tmp_path, both) == (["6.0", "9.0", "6.0"], [])


LOADING = """
import sys
import numpy as np
from llvmlite import binding
import asking
told, add_symbol = {}, binding.add_symbol
binding.add_symbol = lambda name, address: (add_symbol(name, address), told.update({name: address}))
asking.asked(np.arange(3.0))
print("scipy.linalg" in sys.modules)
before = dict(told)
asking.asked.targetctx.refresh()
print(len(before) > 20, told == before)
"""


def test_loading_tells_llvm_all_symbols_that_numba_knows_and_imports_no_scipy(tmp_path, write):
    write(asking=ASKED.format("2.0"))
    paths = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}", "MAYNE_CACHE_DIR": str(tmp_path / "cache")}
    for has_compiled in (True, False):
        run = [sys.executable, "-c", LOADING]
        done = subprocess.run(run, capture_output=True, text=True, check=True, env={**os.environ, **paths})
        assert done.stdout.split() == [str(has_compiled), "True", "True"]


def test_the_pivot_of_factorisations_is_in_what_eliminates(tmp_path, monkeypatch):
    from ddp.compiling import content
    from ddp.machine import algebra, triangles
    from ddp.sweeps import gaps

    before = {made: content.digest(made) for made in (triangles.eliminate, algebra.factorise, gaps.arrive)}
    monkeypatch.setattr(algebra, "PIVOT", 1e-3)
    assert content.digest(algebra.factorise) != before[algebra.factorise]
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


SOLVES = """
import ddp
from ddp.compiling import kernel
from problems import arm, pendulum

told = []
with kernel.compilations(told.append):
    for build in ({builds}):
        ddp.solve(build())
print(told)
"""


def test_a_second_process_compiles_nothing_in_whatever_order_it_solves():
    builds = ["pendulum.swing_up", "arm.reach", "arm.throw"]
    for order in (builds, builds[::-1]):
        text = SOLVES.format(builds=", ".join(order))
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


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

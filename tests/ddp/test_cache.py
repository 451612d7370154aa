"""A cached kernel is that of the present source, whatever it depends on has been edited; else it is compiled."""

import os
import subprocess
import sys

import pytest
from fresh import ROOT

HEAD = "from ddp.compiling.kernel import by_types, inline, kernel, specialised\n"
HEAD += "from typing import Any, NamedTuple\nimport numpy as np\n"

ASKING = "import asking; print(asking.asked(np.arange(3.0)))"


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


def test_a_profiled_process_compiles_nothing_anew(fresh, tmp_path, write):
    inner = "table = np.array([2.0])\n" + DECIDED.format("table[0] * 1")  # looked at anew, as arrays can change
    write(other=inner, asking="from other import inner\n" + ASKED.format("inner(x)"))
    calling = "import other, asking\nx = np.arange(3.0)\nprint(other.inner(x), other.inner(x), asking.asked(x))"
    profiled = "import cProfile\nprofile = cProfile.Profile()\nprofile.enable()\n" + calling
    # numba clears this flag of the code that a profile looks at, before Python 3.12
    flags = "\nimport sys\nassert other.inner.py_func.__code__.co_flags & 1 == (sys.version_info >= (3, 12))"
    assert fresh.run(tmp_path, calling)[0] == ["6.0 6.0 18.0"]
    assert fresh.run(tmp_path, profiled + flags) == (["6.0 6.0 18.0"], [])


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


WEIGHED = """
from numba import njit

def weighed(gain):
    @njit
    def squared(x):
        total = 0.0
        for i in range(x.size):
            total += gain * np.sin(x[i]) ** 2 * np.cos(x[i]) * np.exp(x[i]) * np.tanh(x[i])
        return total

    @kernel
    def value(x):
        return squared(x) + squared(x[1:]) + squared(x[2:])

    return value
"""


def test_functions_of_equal_names_are_told_apart_though_processes_number_them_alike(fresh, tmp_path, write):
    """Each of two processes compiles its own alone, and keeps it for a third."""
    write(weights=WEIGHED)
    program = "from weights import weighed\nfor gain in {}: print(weighed(gain)(np.array([0.3, 0.4, 0.5])) / gain)"
    told = [fresh.run(tmp_path, program.format([gain]))[0][0] for gain in (1.0, 2.0)]
    for gains in ([1.0, 2.0], [2.0, 1.0]):
        assert fresh.run(tmp_path, program.format(gains)) == (told, [])

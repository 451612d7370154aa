"""The rules of the house, as tests: who imports whom, and who may use numba's decorators."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("ddp", "dynamics", "problems", "viz")
FRONT = "mayne"
SOURCES = [path for package in (*PACKAGES, FRONT) for path in sorted((ROOT / package).rglob("*.py"))]
MACHINE = {
    f"ddp.machine.{name}"
    for name in (
        "addresses", "aligned", "bound", "carved", "coefficients", "constants", "declared", "fields", "following",
        "memory", "number", "packing", "recycled", "rotations", "rows", "simd", "struct", "tiles", "trajectories",
        "written",
    )
}  # fmt: skip
TRACING = {
    f"ddp.tracing.{name}"
    for name in ("evaluate", "function", "groups", "quantities", "rollouts", "spaces", "trace", "undefined")
}  # fmt: skip
VOCABULARY = {
    "ddp.errors", "ddp.compiling.kernel", "ddp.compiling.known", "ddp.protocols",
    "ddp.systems.system", "ddp.systems.by_knot", "ddp.systems.derived_dynamics",
    *TRACING, *MACHINE,
}


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """The module and all nodes of its syntax."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def every_node() -> Iterator[tuple[str, ast.AST]]:
    """Each node of each module of the product, after the module's name in the repository."""
    for path in SOURCES:
        name = str(path.relative_to(ROOT))
        for node in nodes_of(path):
            yield name, node


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(*PACKAGES, FRONT, cache_dir=None)


def imports_of(graph: grimp.ImportGraph, package: str) -> set[str]:
    """Modules that the modules of ``package`` import, those of their own package left out."""
    own = {package, *graph.find_descendants(package)}
    return {target for module in own for target in graph.find_modules_directly_imported_by(module)} - own


def test_the_solver_knows_no_robot(graph):
    assert imports_of(graph, "ddp") == set()


def test_the_dynamics_know_no_solver_but_its_vocabulary(graph):
    assert imports_of(graph, "dynamics") <= VOCABULARY


def test_drawing_knows_neither_solver_nor_problems(graph):
    assert {m for m in imports_of(graph, "viz") if not m.startswith("dynamics")} <= {"ddp.errors", "ddp.files"}


def test_nothing_imports_the_front_package(graph):
    front = {FRONT, *graph.find_descendants(FRONT)}
    assert {user for module in front for user in graph.find_modules_that_directly_import(module)} <= front


def test_only_the_command_line_draws(graph):
    drawing = {"viz", *graph.find_descendants("viz")}
    users = {user for module in drawing for user in graph.find_modules_that_directly_import(module)} - drawing
    assert all(user == "problems.cli" or user.startswith("problems.command.") for user in users)


def test_imports_go_in_no_circle():
    """But for annotations: modules with methods of `Problem` or `Solution` name these classes there."""
    graph = grimp.build_graph(*PACKAGES, FRONT, exclude_type_checking_imports=True, cache_dir=None)
    left = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    while ready := [module for module, imported in left.items() if not imported & left.keys()]:
        for module in ready:
            del left[module]
    assert not left


def test_numba_is_configured_in_one_module_only():
    compilers = {"njit", "jit", "cfunc", "vectorize", "guvectorize", "jitclass", "generated_jit"}
    for name, node in every_node():
        used = set()
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("numba", "nb"):
            used = {node.attr}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("numba"):
            used = {alias.name for alias in node.names}
        is_there = name == "ddp/compiling/kernel.py"
        assert is_there or not compilers & used, f"{name}, line {node.lineno}: use ddp.compiling.kernel"


VAGUE = re.compile(r"\s*(What|Who|Whoever|Whatever|The same|The converse|It|Nothing|Those|Of|As)\b")
"""Beginnings of docstrings that are neither a verb nor the name of what comes back."""


def test_docstrings_begin_with_a_verb_or_a_name():
    for name, node in every_node():
        for statement in node.body if isinstance(getattr(node, "body", None), list) else []:
            if isinstance(statement, ast.Expr) and isinstance(text := getattr(statement.value, "value", None), str):
                assert not VAGUE.match(text), f"{name}, line {statement.lineno}: {text.splitlines()[0]}"


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_export_and_do_nothing_else(package):
    tree = ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8"))
    for node in tree.body:
        exports = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        assert isinstance(node, (ast.Import, ast.ImportFrom)) or exports or docstring, ast.unparse(node)


DECORATORS = "kernel|inline|of_rods|portable|apart|intrinsic|for_constants|by_types|specialised|register_model|portable"

KERNELS = re.compile(rf"^@({DECORATORS})\b", re.MULTILINE)


def test_only_modules_of_kernels_leave_their_types_to_numba():
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        if text.startswith("# mypy: allow"):
            assert KERNELS.search(text), f"{path}: it has no kernel: annotate its functions"


def _assigned_slices(function):
    """Lines of a function that assign something other than a number to a slice of an array."""
    for node in (one for one in ast.walk(function) if isinstance(one, ast.Assign)):
        targets = node.targets[0].elts if isinstance(node.targets[0], ast.Tuple) else node.targets
        values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value] * len(targets)
        for target, value in zip(targets, values, strict=False):
            index = target.slice if isinstance(target, ast.Subscript) else target
            has_slice = any(isinstance(part, ast.Slice) for part in ast.walk(index))
            if has_slice and not isinstance(value, ast.Constant):
                yield node.lineno


def test_kernels_assign_no_arrays_to_slices():
    """By numba's way of doing it such kernels can be kept in no file."""
    for name, node in every_node():
        decorators = node.decorator_list[:1] if isinstance(node, ast.FunctionDef) else []
        if KERNELS.match("@" + "".join(map(ast.unparse, decorators))):
            lines = list(_assigned_slices(node))
            assert not lines, f"{name}, lines {lines}: assign entry by entry"


def test_contributing_names_files_that_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(rf"`((?:{'|'.join((*PACKAGES, FRONT, 'tests'))})/[\w./]*)`", text))
    assert len(named) > 40
    assert {name for name in named if not (ROOT / name).exists()} == set()


WRITING_INSTRUCTIONS = {
    "ddp/compiling/kernel.py", "ddp/machine/memory.py", "ddp/machine/number.py", "ddp/machine/simd.py",
}  # fmt: skip
"""Modules that may write LLVM's instructions: only fewer may follow. All of ``ddp/compiling`` has them compiled."""


def test_kernels_leave_instructions_to_few_modules():
    for name, node in every_node():
        allowed = {"llvmlite.ir"} if name in WRITING_INSTRUCTIONS else set()
        allowed |= {"llvmlite", "llvmlite.binding"} if name.startswith("ddp/compiling/") else set()
        imported = {alias.name for alias in node.names} if isinstance(node, ast.Import) else set()
        if isinstance(node, ast.ImportFrom):
            imported = {f"{node.module}.{alias.name}" for alias in node.names}
        found = {one for one in imported if one.partition(".")[0] == "llvmlite"}
        assert found <= allowed, f"{name}, line {node.lineno}: use ddp.machine"


DOCUMENTED = {
    "numba", "numba.extending", "numba.types", "numba.core.cgutils", "numba.core.errors", "numba.core.event",
    "numba.core.compiler", "numba.core.compiler_machinery", "numba.core.ir", "numba.core.typed_passes",
    "numba.core.untyped_passes",
}  # fmt: skip
"""Names of numba that its documentation describes or uses: extensions, events, pipelines of passes."""

PRIVATE = {
    "numba.core.compiler_lock.global_compiler_lock", "numba.core.registry.CPUDispatcher",  # one symbol a kernel
    "numba.core.typing.templates.AttributeTemplate",  # fields of structs by name
    "numba.core.environment.lookup_environment",  # constants of functions that are linked into kernels
    "numba.core.runtime._nrt_python", "numba.cpython.hashing",  # symbols of kept kernels without importing all of numba
}  # fmt: skip
"""All else that the product imports of numba: new versions may change it, and `make versions` tells."""

UNDERSCORED = {"_ensure_finalized", "_get_module_for_linking", "_reload_init", "_replace", "_lock", "_is_owned"}
"""Attributes of libraries of numba, which kernels are linked into; named tuples' own; llvmlite's lock, for forks."""


@pytest.mark.parametrize("path", sorted((ROOT / "ddp" / "compiling").glob("*.py")), ids=lambda path: path.name)
def test_of_the_insides_of_numba_only_what_is_listed_is_reached(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and re.match("_[^_]", node.attr):
            owner = ast.unparse(node.value)
            assert owner in ("self", "other", "cls", "part", "struct") or node.attr in UNDERSCORED, (
                f"line {node.lineno}: {owner}.{node.attr}"
            )


def imported_of_numba(nodes: list[ast.AST]) -> dict[str, str]:
    """Names that a module's imports of numba bind -> what each is."""
    found = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {(alias.asname or "numba"): alias.name for alias in node.names if alias.name.startswith("numba")}
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "numba":
            found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_what_is_private_to_numba_is_listed_and_nothing_of_it_is_replaced():
    for path in SOURCES:
        imported = imported_of_numba(nodes_of(path))
        private = {what for what in imported.values() if not {what, what.rpartition(".")[0]} & DOCUMENTED}
        assert private <= PRIVATE, path
        if imported:
            nothing_is_replaced(path, imported)


def nothing_is_replaced(path: Path, imported: dict[str, str]) -> None:
    """No statement of a module assigns to an attribute of what it imports of numba."""
    for node in nodes_of(path):
        targets = [*getattr(node, "targets", [])] if isinstance(node, (ast.Assign, ast.Delete)) else []
        targets += [node.target] if isinstance(node, (ast.AugAssign, ast.AnnAssign)) else []
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("setattr", "delattr"):
            targets.append(ast.Attribute(value=node.args[0], attr="", ctx=ast.Store()))
        for target in targets:
            owner = target
            while isinstance(owner, (ast.Attribute, ast.Subscript)):
                owner = owner.value
            is_numbas = owner is not target and isinstance(owner, ast.Name) and owner.id in imported
            assert not is_numbas, f"{path}, line {node.lineno}: {ast.unparse(target)} is numba's"

"""Machine code of graphs: kept under a digest, as kernels are, and in memory for as long as somebody holds it.

LLVM's instructions are straight lines of operations on lanes, eight evaluations at once; numba would take seconds over
the same lines. A function is ``void(inputs*, outputs*, ., .)``: variable i is eight doubles, one of each evaluation, at
``inputs + 8 i``; output r is written likewise.
"""

import hashlib
import pickle
import struct
import threading
import weakref
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ddp.compiling import assembler, store
from ddp.compiling.assembler import Linked, assembled
from ddp.compiling.obtaining import environment
from ddp.compiling.setup import in_children
from ddp.compiling.syntax import UnknownError, code_of
from ddp.machine import number
from ddp.tracing.formulas import BY_FORMULA, FORMULAS, results_of
from ddp.tracing.graph import Graph
from ddp.tracing.layout import Block, Compiled, Layout
from ddp.tracing.numbers import Node, Number, ordered

WIDTH = number.WIDTH
_V, _B = f"<{WIDTH} x double>", f"<{WIDTH} x i1>"

INTRINSICS = {"sqrt": "llvm.sqrt", "floor": "llvm.floor", "rint": "llvm.rint", "fabs": "llvm.fabs"}
"""Operations that processors have."""

LIBRARY = {
    "exp": 1, "expm1": 1, "log": 1, "log1p": 1, "tan": 1, "asin": 1, "acos": 1, "atan": 1, "atan2": 2, "sinh": 1,
    "cosh": 1, "tanh": 1, "asinh": 1, "acosh": 1, "atanh": 1, "pow": 2, "fmod": 2, "sin_": 1, "cos_": 1,
}  # fmt: skip
"""Functions of C's library, lane by lane, and how many arguments they have; those with a _ behind are formulas, too."""

_ARITHMETIC = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_COMPARISONS = {"lt": "olt", "le": "ole", "eq": "oeq"}


def module(functions: Mapping[str, list[Number]]) -> tuple[str, tuple[str, ...]]:
    """LLVM's text of functions by name, of their outputs; and those of C's library that it calls."""
    bodies, helpers = [], set()
    for name, outputs in functions.items():
        text, needed = _body(outputs)
        bodies.append(f"define void @{name}(ptr %in, ptr %out, i64 %.a, i64 %.b) {{\n{text}  ret void\n}}\n")
        helpers |= needed
    parts: dict[str, str] = {}
    while helpers:
        name = min(helpers)
        parts[name], needed = _helper(name)
        helpers = (helpers | needed) - set(parts)
    in_c = sorted(name.removesuffix("_") for name in parts if name in LIBRARY)
    return "\n".join([*parts.values(), *bodies]), tuple(in_c)


def _body(outputs: list[Number], results: list[str] | None = None) -> tuple[str, set[str]]:
    """Lines of a function, and the helpers that it calls; ``results`` takes names of outputs, not stored then."""
    lines: list[str] = []
    helpers: set[str] = set()
    names: dict[int, str] = {}
    called: dict[str, str] = {}
    for node in ordered(outputs):
        names[node.place] = name = f"%v{node.place}"
        args = [names[arg.place] for arg in node.args if isinstance(arg, Node)]
        kinds = [_kind(arg) for arg in node.args if isinstance(arg, Node)]
        match node.op:
            case "const":
                names[node.place] = _constant(node.args[0])
            case "var":
                if results is not None:
                    names[node.place] = f"%x{node.args[0]}"
                else:
                    lines.append(f"%p{node.place} = getelementptr {_V}, ptr %in, i64 {node.args[0]}")
                    lines.append(f"{name} = load {_V}, ptr %p{node.place}, align 8")
            case "neg":
                lines.append(f"{name} = fneg {_V} {args[0]}")
            case op if op in _ARITHMETIC:
                lines.append(f"{name} = {_ARITHMETIC[op]} contract {_V} {args[0]}, {args[1]}")
            case op if op in _COMPARISONS:
                lines.append(f"{name} = fcmp {_COMPARISONS[op]} {_V} {args[0]}, {args[1]}")
            case "and" | "or":
                lines.append(f"{name} = {node.op} {_B} {args[0]}, {args[1]}")
            case "not":
                lines.append(f"{name} = xor {_B} {args[0]}, splat (i1 true)")
            case "select":
                lines.append(f"{name} = select {_B} {args[0]}, {_V} {args[1]}, {_V} {args[2]}")
            case "odd":
                lines.append(f"%i{node.place} = fptosi {_V} {args[0]} to <{WIDTH} x i64>")
                lines.append(f"{name} = trunc <{WIDTH} x i64> %i{node.place} to {_B}")
            case op if op in BY_FORMULA:
                formula, place = BY_FORMULA[op]
                helpers.add(formula)
                call = f"@{formula}({', '.join(f'{_V} {arg}' for arg in args)})"
                kind = _together(results_of(formula))
                if call not in called:
                    called[call] = f"%t{node.place}"
                    lines.append(f"%t{node.place} = call {kind} {call}")
                lines.append(f"{name} = extractvalue {kind} {called[call]}, {place}")
            case op:
                helpers.add(op)
                given = ", ".join(f"{kind} {arg}" for kind, arg in zip(kinds, args, strict=True))
                lines.append(f"{name} = call {_V} @{_name(op)}({given})")
    for row, output in enumerate(outputs):
        if results is not None:
            results.append(names[output.place])
            continue
        lines.append(f"%q{row} = getelementptr {_V}, ptr %out, i64 {row}")
        lines.append(f"store {_V} {names[output.place]}, ptr %q{row}, align 8")
    return "".join(f"  {line}\n" for line in lines), helpers


def _name(op: str) -> str:
    if op == "all":
        return f"llvm.vector.reduce.and.v{WIDTH}i1"
    return f"{INTRINSICS[op]}.v{WIDTH}f64" if op in INTRINSICS else f"{op}.lanes"


def _kind(node: Any) -> str:
    return _B if node.op in (*_COMPARISONS, "and", "or", "not", "odd") else _V


def _constant(value: float) -> str:
    return f"splat (double 0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X})"


def _given(count: int) -> str:
    return ", ".join(f"{_V} %x{k}" for k in range(count))


@cache
def _helper(name: str) -> tuple[str, set[str]]:
    """Text of a function that bodies call, and the names of those that it calls itself."""
    if name == "all":
        return f"declare i1 @{_name(name)}({_B})\n", set()
    if name in INTRINSICS:
        return f"declare {_V} @{_name(name)}({_V})\n", set()
    if name in FORMULAS:
        return _formula(name)
    count, in_c = LIBRARY[name], name.removesuffix("_")
    lines = [f"declare double @{in_c}({', '.join(['double'] * count)})"]
    lines.append(f"define internal {_V} @{_name(name)}({_given(count)}) noinline {{")
    before = "undef"
    for k in range(WIDTH):
        lines += [f"  %a{i}.{k} = extractelement {_V} %x{i}, i32 {k}" for i in range(count)]
        lines.append(f"  %f{k} = call double @{in_c}({', '.join(f'double %a{i}.{k}' for i in range(count))})")
        lines.append(f"  %r{k} = insertelement {_V} {before}, double %f{k}, i32 {k}")
        before = f"%r{k}"
    return "\n".join([*lines, f"  ret {_V} {before}", "}\n"]), set()


def _formula(name: str) -> tuple[str, set[str]]:
    """A function of `FORMULAS`: of all lanes the formula, where it holds, or in each lane what is right there."""
    graph, (count, formula) = Graph(), FORMULAS[name]
    graph.is_strict = False
    near, holds, far = formula(graph, *graph.variables(count))
    places, beyond = list[str](), list[str]()
    text, helpers = _body([*near, holds], places)
    far_text, far_helpers = _body(far, beyond)
    kind, (*results, guard) = _together(len(near)), places
    elsewhere = [f"%far{k}" for k in range(len(near))]
    lines = [
        f"define internal {kind} @{name}.far({_given(count)}) noinline {{",
        far_text, *_returned(kind, beyond), "}\n",
        f"define internal {kind} @{name}({_given(count)}) noinline {{",
        text, f"%all = call i1 @{_name('all')}({_B} {guard})", "br i1 %all, label %near, label %elsewhere",
        "near:", *_returned(kind, results),
        "elsewhere:", f"%far = call {kind} @{name}.far({_given(count)})",
    ]  # fmt: skip
    for k, result in enumerate(results):
        lines.append(f"%e{k} = extractvalue {kind} %far, {k}")
        lines.append(f"{elsewhere[k]} = select {_B} {guard}, {_V} {result}, {_V} %e{k}")
    return "\n".join([*lines, *_returned(kind, elsewhere), "}\n"]), {"all", *helpers, *far_helpers}


def _together(count: int) -> str:
    """Type of several numbers of lanes."""
    return f"{{{', '.join([_V] * count)}}}"


def _returned(kind: str, results: list[str]) -> list[str]:
    """Lines that return numbers together."""
    lines, before = [], "undef"
    for k, result in enumerate(results):
        name = f"{result}.{k}" if result.startswith("%") else f"%c{k}"
        lines.append(f"{name} = insertvalue {kind} {before}, {_V} {result}, {k}")
        before = name
    return [*lines, f"ret {kind} {before}"]


_MAKING = Path(assembler.__file__), Path(number.__file__), *sorted(Path(__file__).parent.glob("*.py"))
"""Modules that follow functions and write their code, or are followed for it."""

LONG = 10_000
"""Lines from which code is not optimised: that would take longer than it saves."""


class Code:
    """Functions in memory: ``addresses`` and ``layout`` by name.

    known: what others have found out about them, by names of theirs.
    """

    def __init__(self, objects: bytes, imported: tuple[str, ...], layout: dict[str, Layout]) -> None:
        self._linked, self.layout = Linked(objects, tuple(layout), imported), layout
        self.addresses = self._linked.addresses
        self.known: dict[str, Any] = {}

    def compiled(self, name: str, block: Block | None = None) -> Compiled:
        """A function for kernels, with a block of its outputs, by default the first one."""
        outputs, blocks = self.layout[name]
        return Compiled(self.addresses[name], outputs, *(block or blocks[0]))


_loaded: weakref.WeakValueDictionary[bytes, Code] = weakref.WeakValueDictionary()
_lock = threading.RLock()


def _renew_lock() -> None:
    """Have a lock that no thread holds."""
    global _lock
    _lock = threading.RLock()


in_children(_renew_lock)

Functions = Mapping[str, tuple[list[Number], Layout]]
"""Outputs of functions, and their layouts, by name."""


def obtain(digest: bytes, make: Callable[[], Functions], lasting: bool = True) -> Code:
    """Get code of a digest: had in this process, kept by another one, or made, and kept if it is lasting."""
    with _lock:
        found = _loaded.get(digest)
        if found is None:
            key = _key(digest)
            raw = key and store.load("traced", key)
            if raw is None:
                raw = pickle.dumps(_made(make()))
                if lasting and key is not None:
                    store.save("traced", key, raw)
            found = _loaded[digest] = Code(*pickle.loads(raw))
    return found


def _key(digest: bytes) -> bytes | None:
    """Key that code of a digest is kept under; None if what makes it is not what was imported."""
    try:
        return hashlib.sha256(b"".join((b"traced", digest, environment(), _own_code()))).digest()
    except UnknownError:
        return None


@cache
def _own_code() -> bytes:
    """Digest of the code that makes code, as it was imported."""
    return code_of(*_MAKING)


def _made(functions: Functions) -> tuple[Any, ...]:
    """Arguments of `Code`, as they are kept."""
    text, imported = module({name: outputs for name, (outputs, _) in functions.items()})
    layout = {name: own for name, (_, own) in functions.items()}
    return assembled(text, 0 if text.count("\n") > LONG else 1), imported, layout

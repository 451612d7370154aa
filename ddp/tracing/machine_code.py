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
from types import FunctionType
from typing import Any

from ddp.compiling import assembler, store
from ddp.compiling.assembler import Linked, assembled
from ddp.compiling.content import chosen
from ddp.compiling.obtaining import environment
from ddp.compiling.setup import in_children
from ddp.compiling.syntax import UnknownError, code_of
from ddp.machine import number
from ddp.tracing.graph import Graph
from ddp.tracing.layout import Block, Compiled, Layout
from ddp.tracing.numbers import Node, Number, ordered

WIDTH = number.WIDTH
_V, _B = f"<{WIDTH} x double>", f"<{WIDTH} x i1>"

INTRINSICS = {"sqrt": "llvm.sqrt", "floor": "llvm.floor", "rint": "llvm.rint", "fabs": "llvm.fabs"}
"""Operations that processors have."""

LIBRARY = {
    "exp": 1, "expm1": 1, "log": 1, "log1p": 1, "tan": 1, "asin": 1, "acos": 1, "atan": 1, "atan2": 2, "sinh": 1,
    "cosh": 1, "tanh": 1, "asinh": 1, "acosh": 1, "atanh": 1, "pow": 2,
}  # fmt: skip
"""Functions of C's library, lane by lane, and how many arguments they have."""

_ARITHMETIC = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_COMPARISONS = {"lt": "olt", "le": "ole", "eq": "oeq"}


def module(functions: Mapping[str, list[Number]]) -> tuple[str, tuple[str, ...]]:
    """LLVM's text of functions by name, of their outputs; and those of C's library that it calls."""
    bodies, helpers = [], set()
    for name, outputs in functions.items():
        text, needed = _body(outputs)
        bodies.append(f"define void @{name}(ptr %in, ptr %out, i64 %.a, i64 %.b) {{\n{text}  ret void\n}}\n")
        helpers |= needed
    if "sine_cosine" in helpers:
        helpers |= _sine_cosine()[1]
    parts = [_helper(name) for name in sorted(helpers)]
    return "\n".join([*parts, *bodies]), tuple(sorted(helpers & set(LIBRARY)))


def _body(outputs: list[Number], results: list[str] | None = None) -> tuple[str, set[str]]:
    """Lines of a function, and the helpers that it calls; ``results`` takes names of outputs, not stored then."""
    lines: list[str] = []
    helpers: set[str] = set()
    names: dict[int, str] = {}
    turned: dict[str, str] = {}
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
            case "sin" | "cos":
                helpers.add("sine_cosine")
                if args[0] not in turned:
                    turned[args[0]] = f"%t{node.place}"
                    lines.append(f"%t{node.place} = call {{{_V}, {_V}}} @sine_cosine({_V} {args[0]})")
                pair, place = turned[args[0]], ("sin", "cos").index(node.op)
                lines.append(f"{name} = extractvalue {{{_V}, {_V}}} {pair}, {place}")
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
    return f"{INTRINSICS[op]}.v{WIDTH}f64" if op in INTRINSICS else f"{op}.lanes"


def _kind(node: Any) -> str:
    return _B if node.op in (*_COMPARISONS, "and", "or", "not", "odd") else _V


def _constant(value: float) -> str:
    return f"splat (double 0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X})"


@cache
def _helper(name: str) -> str:
    if name == "sine_cosine":
        return _sine_cosine()[0]
    if name in INTRINSICS:
        return f"declare {_V} @{_name(name)}({_V})\n"
    letters = "ab"[: LIBRARY[name]]
    lines = [f"declare double @{name}({', '.join('double' for _ in letters)})"]
    lines.append(f"define internal {_V} @{_name(name)}({', '.join(f'{_V} %{x}' for x in letters)}) noinline {{")
    before = "undef"
    for k in range(WIDTH):
        lines += [f"  %{x}{k} = extractelement {_V} %{x}, i32 {k}" for x in letters]
        lines.append(f"  %f{k} = call double @{name}({', '.join(f'double %{x}{k}' for x in letters)})")
        lines.append(f"  %r{k} = insertelement {_V} {before}, double %f{k}, i32 {k}")
        before = f"%r{k}"
    return "\n".join([*lines, f"  ret {_V} {before}", "}\n"])


@cache
def _sine_cosine() -> tuple[str, set[str]]:
    """Sines and cosines, by the kernel of `number.sine_cosine`: its Python source, followed. And what it calls."""
    source = chosen[number.sine_cosine](number.lanes).py_func
    graph = Graph()
    names = {
        "_nearest_integer": lambda n: graph.unary("rint", n),
        "_where_odd": lambda n, a, b: graph.select(graph.odd(n), a, b),
        "where_less": lambda a, b, x, y: graph.select(graph.binary("lt", a, b), x, y),
    }
    results: list[str] = []
    outputs = FunctionType(source.__code__, {**source.__globals__, **names})(*graph.variables(1))
    text, helpers = _body(list(outputs), results)
    sine, cosine = results
    lines = "".join(
        [f"define internal {{{_V}, {_V}}} @sine_cosine({_V} %x0) noinline {{\n{text}",
         f"  %s = insertvalue {{{_V}, {_V}}} undef, {_V} {sine}, 0\n",
         f"  %b = insertvalue {{{_V}, {_V}}} %s, {_V} {cosine}, 1\n  ret {{{_V}, {_V}}} %b\n}}\n"]
    )  # fmt: skip
    return lines, helpers


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

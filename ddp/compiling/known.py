"""Code that knows its sizes and numbers: loops unroll, products with zeros go, and what is left are registers.

Most numbers of a robot's placements, inertias and axes are zeros. LLVM keeps ``0 x``, as x may be no number, and
``x + 0``, as x may be -0; here they are 0 and x. So kernels that are to be NaN where x is none have ``x - x``.
"""

import re
from collections.abc import Callable
from types import FunctionType
from typing import Any

from llvmlite import binding

from ddp.compiling.building import WholeBuilder
from ddp.compiling.compiled import Callback
from ddp.compiling.kernel import CONTRACTION, OPTIONS
from ddp.compiling.library import machine
from ddp.compiling.syntax import UnknownError, code_of

_ROUNDS = 20
"""Rounds, at most, in which loops unroll, and in which zeros go: each finds what the last one has made known."""

_UNROLLING = "loop_simplify", "lcssa", "loop_rotate", "instruction_combine", "loop_unroll"
_FOLDING = "sroa", "instruction_combine", "sccp", "simplify_cfg"
"""Passes of LLVM that write loops out, and those that fold what is known after."""

_BRANCH = re.compile(r"^(  br .*?)(?:, !llvm\.loop !\d+)?$", re.MULTILINE)
_NOTE = re.compile(r"^!(\d+) = ", re.MULTILINE)
"""Branches, with the number of the note that says how their loop is to be compiled; and such notes."""

_ZERO = r"(?:zeroinitializer|0\.000000e\+00)"
"""The number 0, or a vector of zeros."""


def _rule(operation: str, operands: str, value: str) -> tuple[re.Pattern[str], str]:
    """Rule for an operation on floats, or on vectors of them: a pattern, and what takes its place."""
    return re.compile(rf"^(  \S+ = ){operation} (?:[a-z]+ )*(<\d+ x double>|double) {operands}$", re.MULTILINE), value


_NOTHING, _OTHER = r"\1select i1 true, \2 zeroinitializer, \2 zeroinitializer", r"\1select i1 true, \2 \3, \2 \3"
"""Values of such operations, zero or the other operand, as instructions that folding removes."""

_RULES = (
    _rule("fmul", rf"{_ZERO}, \S+", _NOTHING), _rule("fmul", rf"\S+, {_ZERO}", _NOTHING),
    _rule("fadd", rf"{_ZERO}, (\S+)", _OTHER), _rule("fadd", rf"(\S+), {_ZERO}", _OTHER),
    _rule("fsub", rf"{_ZERO}, (\S+)", r"\1fneg \2 \3"),
)  # fmt: skip
"""Products with zeros are zeros; sums with zeros, and differences from them, are the other operand or its negative."""


def written_out(function: Callable[..., Any]) -> Any:
    """C function of four words, as of `kernel.callback`, of such code; its name says which version of this made it."""
    copy = FunctionType(function.__code__, function.__globals__, function.__name__)
    copy.__module__, copy.__qualname__, is_kept = function.__module__, function.__qualname__, True
    try:
        copy.__qualname__ += f"_{code_of(__file__).hex()[:12]}"
    except UnknownError:
        is_kept = False
    made = Callback(copy, CONTRACTION, {name: OPTIONS[name] for name in ("error_model", "fastmath")}, _Builder)
    made.is_kept = is_kept
    return made


class _Builder(WholeBuilder):
    """Builder of such code: loops that LLVM can count are written out, if they do not become too long for it."""

    def link(self) -> None:
        super().link()
        before = None
        for _ in range(_ROUNDS):
            self._pass(_to_be_unrolled(str(self.module)), _UNROLLING)
            self._pass(_BRANCH.sub(r"\1", str(self.module)), _FOLDING)
            if before == (before := len(_BRANCH.findall(str(self.module)))):
                break
        for _ in range(_ROUNDS):
            text, found = _without_zeros(str(self.module))
            if not found:
                break
            self._pass(text, _FOLDING)

    def _pass(self, text: str, passes: tuple[str, ...]) -> None:
        """Have LLVM pass over instructions."""
        self.module = binding.parse_assembly(text)
        manager = binding.create_new_module_pass_manager()
        for name in passes:
            getattr(manager, f"add_{name}_pass")()
        tuning = binding.create_pipeline_tuning_options(speed_level=2)
        manager.run(self.module, binding.create_pass_builder(machine(self.codegen), tuning))


def _to_be_unrolled(text: str) -> str:
    """Instructions whose loops are all to be unrolled, if LLVM can count them and what comes out is not too long."""
    full = 1 + max(map(int, _NOTE.findall(text)), default=-1)
    notes = [f'!{full} = !{{!"llvm.loop.unroll.full"}}']

    def noted(branch: re.Match[str]) -> str:
        number = full + len(notes)
        notes.append(f"!{number} = distinct !{{!{number}, !{full}}}")
        return f"{branch[1]}, !llvm.loop !{number}"

    return "\n".join([_BRANCH.sub(noted, text), *notes, ""])


def _without_zeros(text: str) -> tuple[str, int]:
    """Instructions without products with zeros and sums with them, and how many there were."""
    found = 0
    for operation, value in _RULES:
        text, count = operation.subn(value, text)
        found += count
    return text, found

"""Print the calls of one iteration, with the arrays that each is handed: ``python -m tests.call_path [NAME]``.

Arrays go by their names wherever they are handed on: X, U the trajectory, k, K the policy of the last sweep, A, B, l,
lz, lzz, exact and record its derivatives, V_x the weights that contract the second order of the dynamics; ``X'`` and
``U'`` are trajectories of a line search. A star is a kernel: below it is machine code, which its first sentence tells.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import ddp
import problems
from ddp.compiling.compiled import Kernel
from ddp.iterate import Iterate

HOME = Path(__file__).resolve().parent.parent
ROOMS = ("ddp", "dynamics", "problems")


class InPython(ddp.Backtracking):
    """Search of one's own, with which iterations are not compiled in one piece."""


def call_path(problem: ddp.Problem, iteration: int | None = None) -> list[str]:
    """Lines of the calls from the end of the iteration before to the end of this one; default: the last one."""
    solver = ddp.DDP(search=InPython())
    count = ddp.solve(problem, solver, throw=False).iterations
    iteration = count if iteration is None else iteration
    lines: list[str] = []
    known: dict[int, str] = {}
    depth, seen, recording = 0, 0, False

    def entered(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal depth
        if event == "call":
            depth += 1
            if recording and (told := described(frame, known)):
                lines.append(f"{depth:4d} {told}")
        elif event == "return":
            depth -= 1

    def called(kernel: Kernel) -> None:
        function = kernel.py_func
        if recording and function.__module__.partition(".")[0] in ROOMS:
            told = (inspect.getdoc(function) or "").partition("\n")[0]
            lines.append(f"{depth - 1:4d} * {function.__module__}.{function.__code__.co_name}: {told}")

    def note(record: ddp.Record) -> None:
        nonlocal recording, seen
        seen += 1
        if seen == iteration - 1:
            named(iterates[-1], known)
        recording = seen == iteration - 1

    with iterates_made() as iterates, kernels_told(called):
        sys.setprofile(entered)
        try:
            ddp.solve(problem, solver, callback=note, throw=False)
        finally:
            sys.setprofile(None)
    least = min((int(line[:4]) for line in lines), default=0)
    return ["  " * (int(line[:4]) - least) + line[5:] for line in lines]


@contextmanager
def kernels_told(tell: Callable[[Kernel], None]) -> Iterator[None]:
    """Have kernels told of in the block as Python calls them: numba tells profilers of Python 3.14 of none."""
    call = Kernel.__call__

    def told(self: Kernel, *given: Any) -> Any:
        tell(self)
        return call(self, *given)

    Kernel.__call__ = told
    try:
        yield
    finally:
        del Kernel.__call__  # it is of a class above


@contextmanager
def iterates_made() -> Iterator[list[Iterate]]:
    """The iterates that are made in the block."""
    made: list[Iterate] = []
    make = Iterate.__init__

    def keep(self: Iterate, *given: Any, **more: Any) -> None:
        made.append(self)
        make(self, *given, **more)

    Iterate.__init__ = keep  # type: ignore[method-assign]
    try:
        yield made
    finally:
        Iterate.__init__ = make  # type: ignore[method-assign]


def named(iterate: Iterate, known: dict[int, str]) -> None:
    """Names of the arrays of an iterate, by their addresses."""
    backward = iterate.backward
    arrays = {"X": iterate.X, "U": iterate.U, "k": backward._k, "K": backward._K, "V_x": backward._weights}
    arrays |= iterate.work.derivatives._asdict()
    known.update({address(array): name for name, array in arrays.items() if array.size})


def address(array: np.ndarray) -> int:
    """Address at which an array begins."""
    return int(array.__array_interface__["data"][0])


def described(frame: FrameType, known: dict[int, str]) -> str:
    """A call of a function of this project, with its arrays by name; nothing for others, and for machine code."""
    code = frame.f_code
    file = Path(code.co_filename)
    if not file.is_relative_to(HOME) or file.relative_to(HOME).parts[0] not in ROOMS or code.co_name.startswith("<"):
        return ""
    handed = [told for name in code.co_varnames[: code.co_argcount] if (told := shown(name, frame.f_locals, known))]
    where = ".".join(file.relative_to(HOME).with_suffix("").parts)
    thing = getattr(sys.modules[where], code.co_name, None)
    if isinstance(thing, Kernel) or (code.co_argcount > 0 and not frame.f_locals):  # which has no variables to show
        return ""
    return f"{where}.{code.co_qualname}({', '.join(handed)})"


def shown(name: str, given: dict[str, Any], known: dict[int, str]) -> str:
    """An argument that is an array, or the address of one, by its name."""
    value = given.get(name)
    if isinstance(value, np.ndarray) and value.dtype == np.float64 and value.ndim > 0 and value.size:
        if name in ("X", "U") and address(value) not in known:
            known[address(value)] = f"{name}'"
        return known.get(address(value), name)
    return known.get(value, "") if isinstance(value, int) and not isinstance(value, bool) else ""


if __name__ == "__main__":
    chosen = problems.find(sys.argv[1] if len(sys.argv) > 1 else "arm/reach").build()
    print("\n".join(call_path(chosen, int(sys.argv[2]) if len(sys.argv) > 2 else None)))

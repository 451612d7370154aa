"""C functions, compiled when their addresses are first asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from ddp.compiling.building import WholeBuilder
from ddp.compiling.compiled import Callback
from ddp.compiling.kernel import CONTRACTION, OPTIONS, callback
from ddp.compiling.library import Callee, Needed, find


@cache
def c_function(function: Callable[..., Any]) -> Any:
    """The C function of a function of a module, see `kernel.callback`: one, whoever asks for its ``address``."""
    return callback(function)


class _Builder(WholeBuilder):
    """Builder that inlines, too, what is called by kernels that no other process could find by their symbols."""

    def link(self) -> None:
        for library in [one for one in self._libraries if isinstance(one, Callee) and one.needed is None]:
            for need in library.library.code.needs:
                if isinstance(need, Needed):
                    found = find(need.module, need.name).overloads[need.args].library
                    self._libraries[Callee(self.context, found, need)] = None
        super().link()


def whole_c_function(function: Callable[..., Any]) -> Any:
    """A C function of four words, see `kernel.CONTRACTION`, with all kernels that it calls inlined."""
    made = Callback(function, CONTRACTION, {name: OPTIONS[name] for name in ("error_model", "fastmath")})
    made.builder = _Builder
    made.prepare(made.args)
    return made

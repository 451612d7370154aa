"""C functions, compiled when their addresses are first asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from ddp.compiling.kernel import callback


@cache
def c_function(function: Callable[..., Any]) -> Any:
    """The C function of a function of a module, see `kernel.callback`: one, whoever asks for its ``address``."""
    return callback(function)

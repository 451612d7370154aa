"""Functions that Python runs as they are, and that kernels call compiled: decisions with one source for both."""

from collections.abc import Callable
from types import FunctionType
from typing import Any

from ddp.compiling.kernel import by_types, kernel


def portable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let kernels call a function compiled, while Python goes on to run it as it is.

    It takes numbers and objects by their attributes: Python's own, or structs with variables of the same names. Its
    kernel is found by other processes in its module, under its name with ``_kernel``.
    """
    own = f"{function.__name__}_kernel"
    copy = FunctionType(function.__code__, function.__globals__, own)  # which sees what its module defines later
    copy.__module__ = function.__module__
    made = function.__globals__[own] = kernel(copy)
    by_types(function)(lambda *types: made)
    return function

"""Compiled code by keys of content: had in this process, kept by another one, or made and kept.

A key is made of all that code depends on (content.py); files of keys are those of store.py. While something compiles,
whatever it calls says whether it is as its key says.
"""

import hashlib
import logging
import os
import pickle
import platform
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite
import numba
import numba.cpython.hashing  # whose import tells LLVM the hashes' secret
import numpy as np
from llvmlite import binding
from numba.core.runtime import _nrt_python

from ddp.compiling import content, library, store
from ddp.compiling.interrupts import uninterrupted
from ddp.compiling.syntax import UnknownError, code_of
from ddp.errors import ProblemError

logger = logging.getLogger("mayne")

_NAMES = (
    "answers", "assembler", "building", "calls", "compiled", "first_calls", "kernel", "library", "obtaining", "passes",
    "writing",
)  # fmt: skip
_MAKING = [Path(__file__).with_name(f"{name}.py") for name in _NAMES]
"""Modules that make machine code of kernels."""


@cache
def environment() -> bytes:
    """Describe all that machine code depends on beside a kernel: versions, processor, numba's options, our code.

    Raises UnknownError if some of that code is not what was imported.
    """
    options = {name: value for name, value in os.environ.items() if name.startswith("NUMBA_")}
    for name in ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS"):
        options.pop(name, None)
    described = (
        numba.__version__, llvmlite.__version__, np.__version__, sys.version, platform.python_implementation(),
        binding.get_process_triple(), binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten(),
        numba.config.USING_SVML, sorted(options.items()), code_of(*_MAKING),
    )  # fmt: skip
    return repr(described).encode()


class Making(NamedTuple):
    """A kernel that is being compiled.

    number: what numba tells symbols of equal names and types apart by, from the key; its own differs from process to
    process.   impure: not empty if what the kernel calls was compiled before something in it changed.
    """

    number: int
    impure: list[bool]


making: list[Making] = []
_numbers: set[int] = set()
"""Kernels by the symbols of this process."""

_made: dict[bytes, Any] = {}
"""Key -> what was compiled or loaded in this process: for functions that are made anew."""


def key_of(kind: str, thing: Any, args: Any) -> bytes | None:
    """Key that something compiled is kept under; None if nobody knows what it depends on."""
    found = [content.digest(thing), content.digest(args)]
    if None in found:
        return None
    try:
        described = environment(), f" {kind} {library.SMALL} ".encode()
    except UnknownError:
        return None
    return hashlib.sha256(b"".join((*described, *filter(None, found)))).digest()


def obtain(
    name: str, key: bytes | None, context: Any, make: Callable[[], tuple[library.Code, bool]]
) -> tuple[library.Library, bool]:
    """Get something compiled: had here, kept by another process, or made and kept; and whether it is as its key says.

    make: gives code, and whether it holds in other processes. Whoever calls it holds a lock, so that others wait.
    """
    if numba.config.DISABLE_JIT:
        raise ProblemError(
            "NUMBA_DISABLE_JIT is set, but mayne's kernels run as machine code alone: expected it unset, or 0"
        )
    if key is None:
        logger.debug("%s is not cached: it names what only this process knows", name)
        made = Making(0, [])
        making.append(made)
        try:
            with uninterrupted():
                return library.Library(context, make()[0]), not made.impure
        finally:
            making.pop()
    if key in _made:
        return _made[key], True
    found = _kept(name, key, context)
    if found is None:
        with store.locked(key):
            found = _kept(name, key, context)
            if found is None:
                number = int(key.hex()[:12], 16)
                made = Making(0, [True]) if number in _numbers else Making(number, [])
                making.append(made)
                try:
                    with uninterrupted():
                        code, is_lasting = make()
                        found = library.Library(context, code)
                finally:
                    making.pop()
                _numbers.add(number)
                if made.impure:
                    return found, False
                if is_lasting:
                    _keep(name, key, code)
    _made[key] = found
    return found, True


def _kept(name: str, key: bytes, context: Any) -> Any:
    """Load what another process has kept; None if there is nothing, or nothing that can be used here."""
    raw = store.load(name, key)
    if raw is None:
        return None
    try:
        with uninterrupted():
            _introduce_runtime()
            code = pickle.loads(raw)
            for need in code.needs:
                need()
            return library.Library(context, code)
    except library.OtherSymbolError:
        return None
    except Exception as reason:  # whatever loading what is no more can raise
        logger.info("the cached kernel %s cannot be loaded (%r) and is compiled again", name, reason)
        return None


@cache
def _introduce_runtime() -> None:
    """Tell LLVM of the C functions of numba's runtime: all that kept kernels need of it.

    numba's own ``rtsys.initialize`` compiles more, for kernels that are compiled: 23 MB of each process.
    """
    for name, address in _nrt_python.c_helpers.items():
        binding.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)


def _keep(name: str, key: bytes, code: library.Code) -> None:
    try:
        raw = pickle.dumps(code, protocol=5)
    except Exception as reason:  # whatever objects that cannot be pickled raise
        logger.info("the kernel %s cannot be cached (%r)", name, reason)
        return
    store.save(name, key, raw)

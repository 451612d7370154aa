"""Machine code of graphs: kept under a digest, as kernels are, and in memory for as long as somebody holds it."""

import hashlib
import pickle
import threading
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ddp.compiling import assembler, store
from ddp.compiling.assembler import Linked, assembled
from ddp.compiling.obtaining import environment
from ddp.compiling.syntax import UnknownError, code_of
from ddp.machine import number
from ddp.tracing.emit import module
from ddp.tracing.layout import Block, Compiled, Layout
from ddp.tracing.numbers import Number

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
        return hashlib.sha256(b"".join((b"traced", digest, environment(), code_of(*_MAKING)))).digest()
    except UnknownError:
        return None


def _made(functions: Functions) -> tuple[Any, ...]:
    """Arguments of `Code`, as they are kept."""
    text, imported = module({name: outputs for name, (outputs, _) in functions.items()})
    layout = {name: own for name, (_, own) in functions.items()}
    return assembled(text, 0 if text.count("\n") > LONG else 1), imported, layout

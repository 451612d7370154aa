"""Machine code of LLVM's text, beside numba: functions in memory for as long as somebody holds them."""

import itertools
from collections.abc import Iterable
from functools import cache
from typing import Any

from llvmlite import binding

_count = itertools.count()


@cache
def _processor(**options: Any) -> Any:
    """LLVM's target for this machine."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    options |= {"cpu": binding.get_host_cpu_name(), "features": binding.get_host_cpu_features().flatten()}
    return binding.Target.from_default_triple().create_target_machine(codemodel="jitdefault", jit=True, **options)


@cache
def _linker() -> Any:
    """LLVM's linker in memory, one for this process."""
    return binding.create_lljit_compiler(_processor())


@cache
def _address(name: str) -> int:
    """Address of a function of C's library."""
    return int(binding.address_of_symbol(name))


def assembled(text: str, level: int) -> bytes:
    """Object file of LLVM's text, optimised as it is written to some level, 0 to 3, and not before."""
    module = binding.parse_assembly(text)
    module.verify()
    return bytes(_processor(opt=level).emit_object(module))


class Linked:
    """Functions of an object file in memory, ``addresses`` by name; freed with this.

    imported: functions of C's library that they call.
    """

    def __init__(self, objects: bytes, names: Iterable[str], imported: Iterable[str]) -> None:
        builder = binding.JITLibraryBuilder().add_object_img(objects)
        for name in imported:
            builder.import_symbol(name, _address(name))
        for name in names:
            builder.export_symbol(name)
        self._tracker = builder.link(_linker(), f"linked-{next(_count)}")
        self.addresses = {name: int(self._tracker[name]) for name in names}

"""Kernels that are compiled when they are first called, from inside of other kernels.

Callers go through a slot in memory, a word that is zero until the kernel is there. Until then they ask a C function,
which takes Python's lock and has the kernel compiled or loaded. What that raises cannot pass through C: it waits for
the end of the call that Python has made, and until then kernels that are not there are passed over in that thread.
"""

import ctypes
from functools import cache
from typing import Any

from llvmlite import binding
from numba.core.compiler_lock import global_compiler_lock

from ddp.compiling.assembler import Linked, assembled

ASK, RAISE, FAILED = "mayne_ask_for_kernel", "mayne_raise_again", "mayne_has_failed"
"""Symbols: of what is called where a slot is empty, and where Python's call ends, once something has failed."""

_IMPORTED = (
    "PyDict_DelItemString", "PyDict_GetItemString", "PyDict_SetItemString", "PyErr_Fetch", "PyErr_NormalizeException",
    "PyErr_SetObject", "PyException_SetTraceback", "PyGILState_Ensure", "PyGILState_Release", "PyLong_AsLongLong",
    "PyObject_CallNoArgs", "PyObject_Type", "PyThreadState_GetDict", "Py_DecRef", "Py_IncRef",
)  # fmt: skip

_TEXT = f"""
@key = private constant [6 x i8] c"mayne\\00"
@{FAILED} = global i64 0

declare i32 @PyDict_DelItemString(ptr, ptr)
declare ptr @PyDict_GetItemString(ptr, ptr)
declare i32 @PyDict_SetItemString(ptr, ptr, ptr)
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_NormalizeException(ptr, ptr, ptr)
declare void @PyErr_SetObject(ptr, ptr)
declare i32 @PyException_SetTraceback(ptr, ptr)
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyObject_CallNoArgs(ptr)
declare ptr @PyObject_Type(ptr)
declare ptr @PyThreadState_GetDict()
declare void @Py_DecRef(ptr)
declare void @Py_IncRef(ptr)

define i32 @{ASK}(ptr %result, ptr %unused, i64 %place) {{
  %kind = alloca ptr
  %value = alloca ptr
  %trace = alloca ptr
  store i64 0, ptr %result
  %slot = inttoptr i64 %place to ptr
  %second = getelementptr i64, ptr %slot, i64 1
  %asked = load ptr, ptr %second
  %lock = call i32 @PyGILState_Ensure()
  %own = call ptr @PyThreadState_GetDict()
  %failure = call ptr @PyDict_GetItemString(ptr %own, ptr @key)
  %fails = icmp ne ptr %failure, null
  br i1 %fails, label %end, label %ask
ask:
  %answer = call ptr @PyObject_CallNoArgs(ptr %asked)
  %failed = icmp eq ptr %answer, null
  br i1 %failed, label %keep, label %read
read:
  %address = call i64 @PyLong_AsLongLong(ptr %answer)
  store i64 %address, ptr %result
  call void @Py_DecRef(ptr %answer)
  br label %end
keep:
  call void @PyErr_Fetch(ptr %kind, ptr %value, ptr %trace)
  call void @PyErr_NormalizeException(ptr %kind, ptr %value, ptr %trace)
  %a = load ptr, ptr %kind
  %b = load ptr, ptr %value
  %c = load ptr, ptr %trace
  %bare = icmp eq ptr %c, null
  br i1 %bare, label %store, label %trace_back
trace_back:
  call i32 @PyException_SetTraceback(ptr %b, ptr %c)
  br label %store
store:
  call i32 @PyDict_SetItemString(ptr %own, ptr @key, ptr %b)
  call void @Py_DecRef(ptr %a)
  call void @Py_DecRef(ptr %b)
  call void @Py_DecRef(ptr %c)
  store i64 1, ptr @{FAILED}
  br label %end
end:
  call void @PyGILState_Release(i32 %lock)
  ret i32 0
}}

define i32 @{RAISE}(ptr %result, ptr %unused) {{
  %lock = call i32 @PyGILState_Ensure()
  %own = call ptr @PyThreadState_GetDict()
  %failure = call ptr @PyDict_GetItemString(ptr %own, ptr @key)
  %fails = icmp ne ptr %failure, null
  br i1 %fails, label %raise, label %end
raise:
  call void @Py_IncRef(ptr %failure)
  call i32 @PyDict_DelItemString(ptr %own, ptr @key)
  %kind = call ptr @PyObject_Type(ptr %failure)
  call void @PyErr_SetObject(ptr %kind, ptr %failure)
  call void @Py_DecRef(ptr %kind)
  call void @Py_DecRef(ptr %failure)
  br label %end
end:
  %status = zext i1 %fails to i32
  call void @PyGILState_Release(i32 %lock)
  ret i32 %status
}}
"""
"""The C functions, called as numba's: where the result goes, where exceptions go, arguments; they return a status."""


@cache
def introduce() -> Linked:
    """Tell LLVM of the C functions."""
    made = Linked(assembled(_TEXT, 0), (ASK, RAISE, FAILED), _IMPORTED)
    for name, address in made.addresses.items():
        binding.add_symbol(name, address)
    return made


class Slot:
    """Where callers find the address of a kernel for types of arguments, by a symbol; calling it has it compiled."""

    def __init__(self, kernel: Any, args: tuple[Any, ...], symbol: str) -> None:
        self._kernel, self._args = kernel, args
        self._words = (ctypes.c_int64 * 2)(0, id(self))
        binding.add_symbol(symbol, ctypes.addressof(self._words))

    def __call__(self) -> int:
        """Fill it; returns the address."""
        self._kernel.prepare(self._args)
        with global_compiler_lock:
            made = self._kernel.overloads[self._args]
            self._words[0] = made.library.get_pointer_to_function(made.fndesc.mangled_name)
        return self._words[0]

    @property
    def is_filled(self) -> bool:
        """Whether it has the address."""
        return bool(self._words[0])


_slots: dict[str, Slot] = {}
"""Slots by their symbols, for as long as the process lives."""


def add_slot(kernel: Any, args: tuple[Any, ...], symbol: str) -> None:
    """Have a slot under a symbol that is made of the kernel's key."""
    if symbol not in _slots:
        _slots[symbol] = Slot(kernel, args, symbol)


def compile_uncalled() -> None:
    """Compile or load all kernels that those in this process can call and have not called yet."""
    while waiting := [slot for slot in list(_slots.values()) if not slot.is_filled]:
        for slot in waiting:
            slot()

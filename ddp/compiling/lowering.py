"""How numba's instructions become LLVM's: with fewer words for records of arrays, which kernels are full of.

numba passes a record (a named tuple) field by field and an array word by word, stores what it passes, what it is given
and what it drops, counts references to fields that have none, and asks after every call whether the callee raised
something. For a tree of fifteen arrays that is hundreds of instructions a call, most of what there is to compile. Here

* records are passed by one pointer to memory that nobody writes to while the callee runs, and passed on as they came;
* arguments are borrowed: the caller, another kernel or Python, holds them, the callee neither counts nor stores them;
* only what can hold a reference is looked through for references;
* only callees that can raise are asked.

What others compile, numba's own functions and users', is called and calls as numba has it. A kernel cannot call itself
with a record.
"""

from __future__ import annotations

from collections import Counter
from copy import copy
from functools import cache
from typing import Any

from llvmlite import ir as llvm
from numba import types
from numba.core import cgutils, compiler, ir
from numba.core import lowering as numbas
from numba.core.compiler_machinery import register_pass
from numba.core.datamodel import ArgPacker
from numba.core.imputils import impl_ret_new_ref, user_function
from numba.core.runtime.context import NRTContext
from numba.core.typed_passes import NativeLowering

FEW = 6
"""Records of at most so many words are passed as words."""

ALIGNED = "alignstack(64)"
"""LLVM lays registers of eight doubles across cache lines, and pages, where it keeps them on a stack aligned to 16."""


class Options(compiler.Flags):  # type: ignore[misc]
    """numba's options, compared without reading every one of them: its caches are asked thousands of times."""

    def __hash__(self) -> int:
        return hash(Options)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, compiler.Flags) and self._values == other._values:
            return True
        return bool(super().__eq__(other))


def _words(pattern: Any) -> list[Any]:
    """The LLVM types that an argument consists of."""
    if isinstance(pattern, (tuple, list)):
        return [word for part in pattern for word in _words(part)]
    return [pattern]


class _Passed:
    """A record as an argument: a pointer to it."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def get_argument_type(self) -> Any:
        return self._model.get_value_type().as_pointer()

    def as_argument(self, builder: Any, value: Any) -> Any:
        kept = getattr(value, "kept", None)
        if kept is None:
            kept = value.kept = cgutils.alloca_once(builder, value.type)
            builder.store(value, kept)
        return kept

    def from_argument(self, builder: Any, pointer: Any) -> Any:
        value = builder.load(pointer)
        value.kept = pointer
        return value


class _Models:
    """How types are represented where arguments are: numba's models but for records."""

    def __init__(self, models: Any) -> None:
        self._models = models

    def lookup(self, kind: Any) -> Any:
        model = self._models.lookup(kind)
        return _Passed(model) if is_record(self._models, kind) else model


@cache
def is_record(models: Any, kind: Any) -> bool:
    """Whether a type is passed by a pointer: a named tuple of many words that are not all numbers, none a register."""
    if not isinstance(kind, types.BaseNamedTuple):
        return False
    words = _words(models.lookup(kind).get_argument_type())
    numbers = all(isinstance(word, (llvm.DoubleType, llvm.FloatType)) for word in words)
    return len(words) > FEW and not numbers and not any(isinstance(word, llvm.VectorType) for word in words)


class _Packer(ArgPacker):  # type: ignore[misc]
    """Arguments as kernels pass them."""

    def __init__(self, models: Any, kinds: Any) -> None:
        super().__init__(_Models(models), kinds)

    def assign_names(self, args: Any, names: Any) -> None:
        super().assign_names(args, names)
        for model, argument in zip(self._dm_args, self._unflattener.unflatten(args), strict=True):
            if isinstance(model, _Passed):
                for attribute in ("noalias", "nonnull", "captures(none)", "readonly"):
                    set.add(argument.attributes, attribute)  # llvmlite does not know all of them


@cache
def holds_references(models: Any, kind: Any) -> bool:
    """Whether anything in a type is counted."""
    return bool(models[kind].contains_nrt_meminfo())


def is_borrowing(signature: Any) -> bool:
    """Whether a kernel that Python calls returns nothing of its arguments, which Python holds: none need be counted.

    numba's own wrapper allocates a counter for every array, and frees it with Python's lock, which takes it longer than
    all else about the array.
    """

    def is_plain(kind: Any) -> bool:
        if isinstance(kind, types.BaseTuple):
            return all(is_plain(part) for part in kind)
        return isinstance(kind, (types.Number, types.Boolean, types.NoneType))

    def is_held(kind: Any) -> bool:
        if isinstance(kind, types.BaseTuple):
            return all(is_held(part) for part in kind)
        return isinstance(kind, types.Array) or is_plain(kind)

    return is_plain(signature.return_type) and all(is_held(kind) for kind in signature.args)


class _References(NRTContext):  # type: ignore[misc]
    """Counting references, without looking for them where there are none."""

    def get_meminfos(self, builder: Any, ty: Any, val: Any) -> list[Any]:
        models = self._context.data_model_manager
        if not holds_references(models, ty):
            return []
        found = [(ty, models[ty].get_nrt_meminfo(builder, val))] if models[ty].has_nrt_meminfo() else []
        for kind, part in models[ty].traverse(builder):
            if holds_references(models, kind):
                found += self.get_meminfos(builder, kind, part(val))
        return found


def lean(context: Any) -> Any:
    """A target context that passes arguments as kernels do."""
    made = copy(context)
    made.get_arg_packer = lambda kinds: _Packer(made.data_model_manager, kinds)
    return made


def count_few(context: Any) -> None:
    """Have a target context look for references where there are some."""
    context.nrt = _References(context, context.enable_nrt)


def raises() -> None:
    """Mark of a kernel that can raise something, kept with it."""


def call_of(fndesc: Any, can_raise: bool, libraries: Any) -> Any:
    """Writer of a call of a kernel into a caller, whoever compiles that."""
    asking = user_function(fndesc, libraries)

    def call(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        context = lean(context)
        if can_raise or isinstance(sig.return_type, types.Optional):
            return asking(context, builder, sig, args)
        function = context.declare_function(builder.module, fndesc)
        result = cgutils.alloca_once(builder, context.call_conv.get_return_type(fndesc.restype).pointee)
        words = context.get_arg_packer(fndesc.argtypes).as_arguments(builder, args)
        nothing = llvm.Constant(function.args[1].type, None)
        builder.call(function, [result, nothing, *words])
        returned = context.get_returned_value(builder, fndesc.restype, builder.load(result))
        return impl_ret_new_ref(context, builder, fndesc.restype, returned)

    call.signature, call.libs = asking.signature, asking.libs  # type: ignore[attr-defined]
    return call


class _Lower(numbas.Lower):  # type: ignore[misc]
    """numba's lowering of a kernel, with arguments that are given once and for all."""

    def init(self) -> None:
        super().init()
        assigned: Counter[str] = Counter()
        arguments = {}
        for block in self.blocks.values():
            for statement in block.find_insts(ir.Assign):
                assigned[statement.target.name] += 1
                if isinstance(statement.value, ir.Arg):
                    arguments[statement.target.name] = statement.value
        self._once = {name for name, times in assigned.items() if times == 1}
        self._given: dict[str, Any] = {}
        self._borrowed = {
            name: argument.index
            for name, argument in arguments.items()
            if name in self._once and self.typeof(name) == self.typeof("arg." + argument.name)
        }
        self._models = self.context.data_model_manager

    @property
    def call_conv(self) -> Any:
        return lean(self.context).call_conv

    def setup_function(self, fndesc: Any) -> None:
        context: Any = self.context
        self.context: Any = lean(context)
        super().setup_function(fndesc)
        set.add(self.function.attributes, ALIGNED)
        self.context = context

    def create_cpython_wrapper(self, release_gil: bool = False) -> None:
        context = self.context
        self.context = lean(context)
        super().create_cpython_wrapper(release_gil)
        self.context = context

    def lower_normal_function(self, fndesc: Any) -> None:
        super().lower_normal_function(fndesc)
        self.library.main = fndesc.mangled_name

    def lower_assign(self, ty: Any, inst: Any) -> Any:
        if isinstance(inst.value, ir.Arg) and inst.target.name in self._borrowed:
            return self.fnargs[inst.value.index]
        if isinstance(inst.value, (ir.Global, ir.FreeVar)) and isinstance(ty, types.Dispatcher):
            return self.context.get_dummy_value()  # what is called is known by its type
        return super().lower_assign(ty, inst)

    def _alloca_var(self, name: str, fetype: Any) -> None:
        if name not in self._borrowed:
            super()._alloca_var(name, fetype)

    def loadvar(self, name: str) -> Any:
        if name in self._given:
            return self._given[name]
        value = super().loadvar(name)
        kind = self.typeof(name)
        in_memory = name in self._once and name in self.varmap and name not in self._blk_local_varmap
        if in_memory and is_record(self._models, kind) and not holds_references(self._models, kind):
            value.kept = self.varmap[name]  # which is not written to again while the value is in use
        return value

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        if name in self._borrowed:
            self._given[name] = value
        elif name in self._singly_assigned_vars or holds_references(self._models, self.typeof(name)):
            super().storevar(value, name, argidx)
        else:
            self._alloca_var(name, self.typeof(name))
            self.builder.store(value, self.getvar(name))

    def delvar(self, name: str) -> None:
        if name in self._given or name in self._borrowed:
            return
        kind = self.typeof(name)
        if holds_references(self._models, kind):
            super().delvar(name)
        elif name not in self._blk_local_varmap:
            self._singly_assigned_vars.discard(name)
            self._alloca_var(name, kind)


@register_pass(mutates_CFG=True, analysis_only=False)
class Lowering(NativeLowering):  # type: ignore[misc]
    """numba's lowering pass, by the class above."""

    _name = "kernel_lowering"

    @property
    def lowering_class(self) -> Any:
        return _Lower

"""LLVM's instructions of a kernel, which numba writes without those that count references to what has no counter.

numba reads each number of a tuple to find nothing to count, and forgets the tuple by a store of zeros: a quarter of
all instructions, which LLVM removed again. It looks implementations of operators up, and reads their Python signatures,
at each use, too, and prepares for each instruction to say where it failed.
"""

import operator
from functools import cache
from typing import Any

from numba.core import cgutils, errors, ir, typed_passes

from ddp.compiling.answers import answers


class Writer(typed_passes.NativeLowering().lowering_class):  # type: ignore[misc]
    """Writer of a kernel's instructions: numba's, without what has no effect."""

    def init(self) -> None:
        """Begin a kernel, without operators."""
        super().init()
        self._operators: dict[Any, Any] = {}

    def lower_block(self, block: Any) -> None:
        """Write a block's instructions; of one that fails, say which."""
        self.pre_block(block)
        for inst in block.body:
            self.loc = inst.loc
            try:
                self.lower_inst(inst)
            except errors.NumbaError as reason:
                reason.add_context(f'lowering "{inst}" at {inst.loc}')
                raise
        self.post_block(block)

    def incref(self, typ: Any, val: Any) -> None:
        """Count one reference more to a value."""
        if self._is_counted(typ):
            super().incref(typ, val)

    def decref(self, typ: Any, val: Any) -> None:
        """Count one reference less to a value."""
        if self._is_counted(typ):
            super().decref(typ, val)

    def delvar(self, name: str) -> None:
        """Forget a variable."""
        if self._is_counted(self.typeof(name)):
            super().delvar(name)

    def alloca_lltype(self, name: str, lltype: Any, datamodel: Any = None) -> Any:
        """Memory of a variable, of which debuggers are told nothing."""
        return cgutils.alloca_once(self.builder, lltype, name=name)

    def lower_inst(self, inst: Any) -> None:
        """Write an instruction; numba makes a text of each for debuggers."""
        if isinstance(inst, ir.Del):
            self.delvar(inst.value)
        elif isinstance(inst, ir.Assign) and not isinstance(inst.value, ir.Arg):
            self.storevar(self.lower_assign(self.typeof(inst.target.name), inst), inst.target.name)
        else:
            super().lower_inst(inst)

    def lower_binop(self, resty: Any, expr: Any, op: Any) -> Any:
        """Value of an operation of two operands; numba writes powers out."""
        if op in (operator.pow, operator.ipow):
            return super().lower_binop(resty, expr, op)
        return self._operate(resty, op, (expr.lhs, expr.rhs), self.fndesc.calltypes[expr])

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        """Value of an item."""
        return self._operate(resty, operator.getitem, (value, index), signature)

    def _operate(self, resty: Any, op: Any, operands: Any, signature: Any) -> Any:
        """Write a call of an operator of Python's, by the implementation that was found when it was typed."""
        context = self.context
        values = [
            context.cast(self.builder, self.loadvar(operand.name), self.typeof(operand.name), kind)
            for operand, kind in zip(operands, signature.args, strict=True)
        ]
        key = op, signature.args
        if key not in self._operators:
            function = context.typing_context.resolve_value_type(op)
            found = answers(context.typing_context).resolve_function_type(function, signature.args, {})
            self._operators[key] = context.get_function(function, found)
        result = self._operators[key](self.builder, values)
        return context.cast(self.builder, result, signature.return_type, resty)

    def _is_counted(self, kind: Any) -> bool:
        return is_counted(self.context.data_model_manager, kind)


@cache
def is_counted(models: Any, kind: Any) -> bool:
    """Whether values of a type have memory whose references are counted."""
    return bool(models[kind].contains_nrt_meminfo())

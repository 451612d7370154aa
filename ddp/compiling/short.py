"""What kernels are full of, in few of LLVM's instructions: loops over ranges, and elements of arrays.

numba writes fifty instructions for either, through structures in memory and with branches for what cannot happen, and
the optimiser has to find out that three or ten were enough.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir as llvm
from numba import types
from numba.core import cgutils, ir, lowering
from numba.np.arrayobj import load_item, store_item


def part(builder: Any, value: Any, *place: int) -> Any:
    """What is at a place of a structure: what has just been put there, else by an instruction."""
    while isinstance(value, llvm.instructions.InsertValue) and len(place) == 1:
        if tuple(value.indices) == place:
            return value.operands[1]
        value = value.operands[0]
    return builder.extract_value(value, place)


def _pack(builder: Any, kind: Any, parts: Any) -> Any:
    """A structure of parts."""
    made = kind(llvm.Undefined)
    for place, value in parts.items():
        made = builder.insert_value(made, value, place)
    return made


class Short(lowering.Lower):  # type: ignore[misc]
    """numba's lowering, with these in few instructions."""

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        if expr.op == "call" and self._is_range(expr):
            return self._range(expr, resty)
        if expr.op == "static_getitem" and self._kinds(expr.value, expr.index_var) is not None:
            return self.lower_getitem(resty, expr, expr.value, expr.index_var, None)
        if expr.op in ("getiter", "iternext", "pair_first", "pair_second"):
            kind, step = self.typeof(expr.value.name), self._step(expr.value)
            if expr.op == "getiter" and step is not None:
                return self._start(self.loadvar(expr.value.name), step, resty)
            if expr.op == "iternext" and isinstance(kind, types.RangeIteratorType):
                return self._next(self.loadvar(expr.value.name), kind, resty)
            if isinstance(kind, types.Pair) and not self.context.data_model_manager[kind].contains_nrt_meminfo():
                return part(self.builder, self.loadvar(expr.value.name), int(expr.op == "pair_second"))
        return super().lower_expr(resty, expr)

    def _step(self, variable: Any) -> int | None:
        """The step of a range, if it is 1 or -1 and known."""
        made = self.func_ir._definitions[variable.name]
        if len(made) != 1 or not isinstance(made[0], ir.Expr) or made[0].op != "call":
            return None
        if not self._is_range(made[0]):
            return None
        step = getattr(self.typeof(made[0].args[2].name), "literal_value", None) if len(made[0].args) == 3 else 1
        return int(step) if step in (1, -1) else None  # True is a step, too

    def _is_range(self, call: Any) -> bool:
        """Whether a call is one of ``range``."""
        is_range = getattr(self.typeof(call.func.name), "typing_key", None) is range
        return is_range and not call.kws and not call.vararg and len(call.args) <= 3

    def _range(self, call: Any, kind: Any) -> Any:
        """Where it begins and ends, and the step."""
        word = kind.dtype
        args = [self._cast_var(argument, word) for argument in call.args]
        zero, one = (self.context.get_constant(word, value) for value in (0, 1))
        begin, end, step = ([zero, *args, one], [*args, one], args)[len(args) - 1]
        return _pack(self.builder, self.context.get_value_type(kind), {0: begin, 1: end, 2: step})

    def _start(self, state: Any, step: int, kind: Any) -> Any:
        """The iterator over a range: where the number is kept, the end, the step, where is kept how many are left."""
        builder = self.builder
        begin, end = part(builder, state, 0), part(builder, state, 1)
        at, left = cgutils.alloca_once(builder, begin.type), cgutils.alloca_once(builder, begin.type)
        builder.store(begin, at)
        builder.store(builder.sub(end, begin) if step > 0 else builder.sub(begin, end), left)
        model = self.context.data_model_manager[kind]
        parts = {"iter": at, "stop": end, "step": begin.type(step), "count": left}
        return _pack(builder, model.get_value_type(), {model.get_field_position(name): parts[name] for name in parts})

    def _next(self, iterator: Any, kind: Any, pair: Any) -> Any:
        """The next number, and whether there was one left."""
        builder, model = self.builder, self.context.data_model_manager[kind]
        at, by, left = (part(builder, iterator, model.get_field_position(name)) for name in ("iter", "step", "count"))
        number, count = builder.load(at), builder.load(left)
        builder.store(builder.add(number, by), at)
        builder.store(builder.sub(count, count.type(1), flags=["nsw"]), left)
        is_one = builder.icmp_signed(">", count, count.type(0))
        return _pack(builder, self.context.get_value_type(pair), {0: number, 1: is_one})

    def _kinds(self, array: Any, index: Any) -> Any:
        """The types of the indices of an element of an array of numbers; None where it is something else."""
        if array is None or index is None:
            return None
        kind, index = self.typeof(array.name), self.typeof(index.name)
        if type(kind) is not types.Array or not isinstance(kind.dtype, (types.Number, types.Boolean)):
            return None
        kinds = index.types if isinstance(index, types.BaseTuple) else (index,)
        are_indices = all(isinstance(one, types.Integer) for one in kinds)
        return kinds if are_indices and len(kinds) == kind.ndim > 0 else None

    def _address(self, kind: Any, array: Any, kinds: Any, index: Any) -> Any:
        """Where an element is; negative indices count from the end."""
        builder, context = self.builder, self.context
        model = context.data_model_manager[kind]
        shape, strides = (model.get_field_position(name) for name in ("shape", "strides"))
        at, data = None, part(builder, array, model.get_field_position("data"))
        for axis, one in enumerate(kinds):
            i = index if isinstance(index.type, llvm.IntType) else part(builder, index, axis)
            i = context.cast(builder, i, one, types.intp if one.signed else types.uintp)
            if one.signed and getattr(one, "literal_value", -1) < 0:
                extent = builder.extract_value(array, (shape, axis))
                i = builder.select(builder.icmp_signed("<", i, i.type(0)), builder.add(extent, i), i)
            if kind.layout == "C":
                if at is not None:
                    i = builder.add(builder.mul(at, builder.extract_value(array, (shape, axis))), i)
                at = i
            else:
                i = builder.mul(builder.extract_value(array, (strides, axis)), i)
                at = i if at is None else builder.add(at, i)
        return builder.gep(data, [at]) if kind.layout == "C" else cgutils.pointer_add(builder, data, at)

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        kinds, kind = self._kinds(value, index), self.typeof(value.name)
        if kinds is None:
            return super().lower_getitem(resty, expr, value, index, signature)
        where = self._address(kind, self.loadvar(value.name), kinds, self.loadvar(index.name))
        return self.context.cast(self.builder, load_item(self.context, self.builder, kind, where), kind.dtype, resty)

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> Any:
        kinds, given = self._kinds(target_var, index_var), self.typeof(value_var.name)
        if kinds is None or not isinstance(given, (types.Number, types.Boolean)):
            return super().lower_setitem(target_var, index_var, value_var, signature)
        kind = self.typeof(target_var.name)
        value = self.context.cast(self.builder, self.loadvar(value_var.name), given, kind.dtype)
        where = self._address(kind, self.loadvar(target_var.name), kinds, self.loadvar(index_var.name))
        store_item(self.context, self.builder, kind, value, where)
        return None

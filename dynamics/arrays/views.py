# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-subclassing-any
"""Views: arrays that know where their elements are and how many, and nothing else.

A numba array is seven words and a reference count; a tree and a workspace, thirty of them, handed from kernel to
kernel, cost more than the dynamics of a small robot. A view is an address and a shape, of contiguous elements: floats,
integers or lanes (see lanes.py). It does not keep its memory alive: whoever calls a kernel does.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils, typing
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_getattr, infer_global
from numba.extending import intrinsic, lower_builtin, lower_getattr_generic, models, register_model


class ViewType(types.Type):
    """A contiguous array (1 to 3 axes) of some elements."""

    def __init__(self, element: types.Type, ndim: int) -> None:
        self.element, self.ndim = element, ndim
        super().__init__(name=f"view_{element}_{ndim}d")

    def of_shape(self, ndim: int) -> ViewType:
        """The type with another number of axes."""
        return ViewType(self.element, ndim)


@register_model(ViewType)
class ViewModel(models.StructModel):
    """Address and shape."""

    def __init__(self, manager: Any, fe_type: Any) -> None:
        members = [("data", types.CPointer(fe_type.element)), ("shape", types.UniTuple(types.intp, fe_type.ndim))]
        super().__init__(manager, fe_type, members)


@intrinsic
def view(typingctx, array):  # type: ignore[no-untyped-def]
    """A C-contiguous array, or a view, as a view."""
    if isinstance(array, ViewType):
        return array(array), lambda context, builder, sig, args: args[0]
    kind = ViewType(array.dtype, array.ndim)

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        source = context.make_array(sig.args[0])(context, builder, args[0])
        struct = cgutils.create_struct_proxy(kind)(context, builder)
        struct.data, struct.shape = source.data, source.shape
        return struct._getvalue()

    return kind(types.Array(array.dtype, array.ndim, "C")), codegen


@intrinsic
def views_of(typingctx, record):  # type: ignore[no-untyped-def]
    """A named tuple with its arrays, C-contiguous, as views; one without arrays as it came."""
    if any(isinstance(kind, types.Array) and kind.layout != "C" for kind in record.types):
        return None
    kinds = [ViewType(kind.dtype, kind.ndim) if isinstance(kind, types.Array) else kind for kind in record.types]
    made = types.BaseTuple.from_types(kinds, record.instance_class)
    if made == record:
        return record(record), lambda context, builder, sig, args: args[0]

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        parts = cgutils.unpack_tuple(builder, args[0])
        for k, (given, kind) in enumerate(zip(record.types, kinds, strict=True)):
            if isinstance(given, types.Array):
                words, struct = context.data_model_manager[given], context.get_value_type(kind)(ir.Undefined)
                for place, name in enumerate(("data", "shape")):
                    word = builder.extract_value(parts[k], words.get_field_position(name))
                    struct = builder.insert_value(struct, word, place)
                parts[k] = struct
        return context.make_tuple(builder, made, parts)

    return made(record), codegen


@intrinsic
def rows_of(typingctx, array):  # type: ignore[no-untyped-def]
    """A C-contiguous array or a view (N, ...) as a view (N, m) of flat rows."""
    is_view = isinstance(array, ViewType)
    kind = ViewType(array.element if is_view else array.dtype, 2)

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        struct = cgutils.create_struct_proxy(kind)(context, builder)
        make = cgutils.create_struct_proxy(sig.args[0]) if is_view else context.make_array(sig.args[0])
        source = make(context, builder, value=args[0])
        extents = cgutils.unpack_tuple(builder, source.shape)
        size = ir.Constant(extents[0].type, 1)
        for extent in extents[1:]:
            size = builder.mul(size, extent)
        struct.data, struct.shape = source.data, cgutils.pack_array(builder, [extents[0], size])
        return struct._getvalue()

    return kind(array if is_view else types.Array(array.dtype, array.ndim, "C")), codegen


@intrinsic
def folded(typingctx, array, n, m):  # type: ignore[no-untyped-def]
    """A view of n m elements as one of shape (n, m)."""
    kind = array.of_shape(2)

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        source = cgutils.create_struct_proxy(sig.args[0])(context, builder, value=args[0])
        struct = cgutils.create_struct_proxy(kind)(context, builder)
        struct.data, struct.shape = source.data, cgutils.pack_array(builder, list(args[1:]))
        return struct._getvalue()

    return kind(array, types.intp, types.intp), codegen


@intrinsic
def row_of(typingctx, array, i):  # type: ignore[no-untyped-def]
    """The i-th row of a view (N, m)."""
    kind = array.of_shape(1)

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        source = cgutils.create_struct_proxy(sig.args[0])(context, builder, value=args[0])
        struct = cgutils.create_struct_proxy(kind)(context, builder)
        size = builder.extract_value(source.shape, 1)
        struct.data = builder.gep(source.data, [builder.mul(args[1], size)], inbounds=True)
        struct.shape = cgutils.pack_array(builder, [size])
        return struct._getvalue()

    return kind(array, types.intp), codegen


def _is_index(kind: Any, index: Any) -> bool:
    if kind.ndim == 1:
        return isinstance(index, types.Integer)
    integers = isinstance(index, types.BaseTuple) and all(isinstance(i, types.Integer) for i in index)
    return integers and len(index) == kind.ndim


def _element(context: Any, builder: Any, kind: ViewType, index: Any, value: Any, where: Any) -> Any:
    """The address of the element at some indices."""
    struct = cgutils.create_struct_proxy(kind)(context, builder, value=value)
    if kind.ndim == 1:
        row = context.cast(builder, where, index, types.intp)
    else:
        parts = cgutils.unpack_tuple(builder, where, kind.ndim)
        indices = [context.cast(builder, part, i, types.intp) for part, i in zip(parts, index, strict=True)]
        row = indices[0]
        for axis in range(1, kind.ndim):
            row = builder.add(builder.mul(row, builder.extract_value(struct.shape, axis)), indices[axis])
    return builder.gep(struct.data, [row], inbounds=True)


@infer_global(operator.getitem)
class _GetItem(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        array, index = args
        if not isinstance(array, ViewType):
            return None
        if array.ndim == 1 and isinstance(index, types.SliceType):
            return typing.signature(array, array, index)
        return typing.signature(array.element, array, index) if _is_index(array, index) else None


@infer_global(operator.setitem)
class _SetItem(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        array, index, value = args
        if isinstance(array, ViewType) and _is_index(array, index) and value in (array.element, types.float64):
            return typing.signature(types.none, array, index, array.element)
        return None


def _lower_items(index: Any) -> None:
    @lower_builtin(operator.getitem, ViewType, index)
    def get(context, builder, sig, args):  # type: ignore[no-untyped-def]
        load = builder.load(_element(context, builder, sig.args[0], sig.args[1], *args))
        load.align = 8
        return load

    @lower_builtin(operator.setitem, ViewType, index, types.Any)
    def put(context, builder, sig, args):  # type: ignore[no-untyped-def]
        store = builder.store(args[2], _element(context, builder, sig.args[0], sig.args[1], *args[:2]))
        store.align = 8
        return context.get_dummy_value()


_lower_items(types.Integer)
_lower_items(types.BaseTuple)


@lower_builtin(operator.getitem, ViewType, types.SliceType)
def _slice(context, builder, sig, args):  # type: ignore[no-untyped-def]
    """Elements begin..end-1, both given and within the array."""
    kind = sig.args[0]
    bounds = context.make_helper(builder, sig.args[1], args[1])
    source = cgutils.create_struct_proxy(kind)(context, builder, value=args[0])
    part = cgutils.create_struct_proxy(kind)(context, builder)
    part.data = builder.gep(source.data, [bounds.start], inbounds=True)
    part.shape = cgutils.pack_array(builder, [builder.sub(bounds.stop, bounds.start)])
    return part._getvalue()


@infer_getattr
class _Attributes(AttributeTemplate):
    key = ViewType

    def resolve_shape(self, array: Any) -> Any:
        return types.UniTuple(types.intp, array.ndim)

    def resolve_size(self, array: Any) -> Any:
        return types.intp


@lower_getattr_generic(ViewType)
def _attribute(context, builder, kind, value, name):  # type: ignore[no-untyped-def]
    struct = cgutils.create_struct_proxy(kind)(context, builder, value=value)
    shape = cgutils.unpack_tuple(builder, struct.shape, kind.ndim)
    if name == "shape":
        return cgutils.pack_array(builder, shape)
    size = shape[0]
    for extent in shape[1:]:
        size = builder.mul(size, extent)
    return size


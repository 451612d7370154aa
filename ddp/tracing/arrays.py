"""NumPy's functions on numbers of a graph, by NumPy's own protocols.

A `TracedArray` is an array of objects: numbers of a graph, and floats. Universal functions come to `applied`, which
calls the graph's operation entry by entry; other functions are NumPy's own on such arrays, but for `FUNCTIONS`, which
would look at values, and `REFUSED`. `traced` makes arrays that numbers can be written into.
"""

import bisect
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ddp.tracing import dense
from ddp.tracing.graph import UNARY
from ddp.tracing.groups import sine_ratio
from ddp.tracing.numbers import Node, Number, TraceError
from ddp.tracing.scalars import BY_NAME, OPERATIONS, as_condition, is_condition, lifted, select, unless_nan


@functools.cache
def _elementwise(ufunc: Any) -> Any:
    """A universal function of objects that has an operation of graphs."""
    operation = OPERATIONS.get(ufunc) or BY_NAME.get(ufunc.__name__)
    if set("".join(ufunc.types)) <= {"O", "-", ">"}:  # what np.frompyfunc made
        return ufunc
    if operation is None:
        raise TraceError(f"{'np.' * hasattr(np, ufunc.__name__)}{ufunc.__name__}")  # or of scipy.special, say
    return np.frompyfunc(lifted(ufunc, operation), ufunc.nin, 1)


def _as_objects(value: Any) -> Any:
    """A value without classes of ours, an array of objects; a float as it is."""
    if type(value) is TracedArray:
        return value.view(np.ndarray)
    if type(value) is float:
        return value
    if isinstance(value, Node):
        alone = np.empty((), dtype=object)
        alone[()] = value
        return alone
    array = np.asarray(value)
    return array.astype(object) if array.dtype != object else array.view(np.ndarray)


def _unwrapped(value: Any) -> Any:
    """A number, or an array of numbers, that NumPy's own functions take."""
    return value.view(np.ndarray)[()] if isinstance(value, np.ndarray) else value


def returned(result: Any) -> Any:
    """A result as functions see it: arrays that can be written into, and numbers."""
    if isinstance(result, tuple):
        return tuple(map(returned, result))
    if isinstance(result, np.ndarray):
        if result.dtype != object:
            return result
        return result[()] if result.ndim == 0 else result.view(TracedArray)
    return result


def applied(ufunc: Any, method: str, inputs: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """``ufunc.method(*inputs)`` of numbers of a graph."""
    where: Any = True
    if named:
        if not _holds_floats(named.get("dtype")) and np.dtype(named["dtype"]) != bool:
            raise TraceError(f"np.{ufunc.__name__} of type {np.dtype(named['dtype'])}")
        named = {name: value for name, value in named.items() if name not in ("dtype", "casting", "subok", "order")}
        if method == "__call__":
            where = named.pop("where", True)
        named |= {name: _unwrapped(decided(named[name])) for name in ("where", "initial") if name in named}
    out = named.pop("out", None)
    if where is not True and out is None:
        raise TraceError(f"np.{ufunc.__name__} with where= and without out=")
    given = tuple(_as_objects(value) if k != 1 or method in ("__call__", "outer") else value
                  for k, value in enumerate(inputs))  # fmt: skip
    if method not in ("__call__", "outer"):
        given = (_as_reduced(ufunc, given[0]), *given[1:])
    if ufunc is np.matmul:
        result = np.matmul(*given, **named)
    elif method != "__call__" and ufunc in (np.add, np.multiply):
        if named.get("where", True) is not True:
            named.setdefault("initial", float(ufunc.identity))  # objects have none
        result = getattr(ufunc, method)(*given, **named)
    elif method == "at":
        raise TraceError(f"np.{ufunc.__name__}.at")
    else:
        result = getattr(_elementwise(ufunc), method)(*given, **named)
    result = returned(result)
    if out is None:
        return result
    out[0][...] = result if where is True else _where(where, result, out[0])
    return out[0]


def _holds_floats(dtype: Any) -> bool:
    """Whether arrays of a type hold all floats as they are."""
    return dtype is None or np.dtype(dtype) in (np.dtype(np.float64), np.dtype(object))


def _as_reduced(ufunc: Any, array: Any) -> Any:
    """An array that a function is reduced over: np.sum and np.prod count conditions, np.any asks them of numbers."""
    if ufunc in (np.logical_and, np.logical_or):
        return np.frompyfunc(as_condition, 1, 1)(array)
    return _of_floats(array) if ufunc in (np.add, np.multiply) else array


def _are_conditions(array: Any) -> bool:
    """Whether all entries of an array are conditions, so that it is one of truths to NumPy, not of floats."""
    return all(map(is_condition, array.flat))


def _of_floats(value: Any) -> Any:
    """A value or an array, with 1 and 0 for conditions."""
    if not isinstance(value, np.ndarray) or not any(map(is_condition, value.flat)):
        return value + 0.0 if is_condition(value) else value
    return returned(np.frompyfunc(_of_floats, 1, 1)(np.asarray(value)))


def _of_one_type(value: Any) -> Any:
    """A value or an array, in which conditions beside floats are 1 and 0."""
    return _of_floats(value) if isinstance(value, np.ndarray) and not _are_conditions(value) else value


def decided(index: Any) -> Any:
    """An index, in which conditions of a graph are asked one by one whether they hold."""
    if isinstance(index, tuple):
        return tuple(map(decided, index))
    if not (isinstance(index, np.ndarray) and index.dtype == object and index.size):
        return index
    if not _are_conditions(index):
        return index
    return np.array([bool(entry) for entry in index.flat]).reshape(index.shape)


class TracedArray(np.ndarray[Any, Any]):
    """An array of objects: numbers of a graph, and floats."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        return applied(ufunc, method, inputs, named)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function in REFUSED:
            return _of_constants(function, args, kwargs)
        if function in FUNCTIONS:
            return returned(FUNCTIONS[function](*args, **kwargs))
        return _of_one_type(returned(super().__array_function__(function, types, args, kwargs)))

    def __getitem__(self, index: Any) -> Any:
        """Entries; of a mask of conditions, those of each way through all of them."""
        return super().__getitem__(index if type(index) in (int, slice) else decided(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        own = value if _are_conditions(self) else _of_floats(value)
        super().__setitem__(index if type(index) in (int, slice) else decided(index), own)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return returned(np.asarray(array))

    def astype(self, dtype: Any, *unused: Any, **named: Any) -> Any:
        """Copy, where floats are asked for; constants, and conditions by decisions, as any type."""
        if _holds_floats(dtype):
            return _of_floats(self.copy())
        answers = decided(self.view(np.ndarray))
        if any(isinstance(entry, Node) for entry in answers.flat):
            raise TraceError(f"astype({np.dtype(dtype)})")
        return answers.astype(dtype)

    def dot(self, other: Any, out: Any = None) -> Any:
        """Product, as of np.dot."""
        return _dot(self, other, out)

    def tobytes(self, *unused: Any) -> Any:
        """Refuse bytes, which depend on values."""
        raise TraceError("bytes of an array that depends on x or u")

    byteswap: Any = tobytes


def _of_constants(function: Any, args: Any, kwargs: Any) -> Any:
    """NumPy's function of arrays without numbers of a graph; TraceError where there are some."""

    def plain(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(map(plain, value))
        if isinstance(value, Node) or (isinstance(value, TracedArray) and _has_number(value.tolist())):
            raise TraceError(f"np{function.__module__.removeprefix('numpy')}.{function.__name__}")
        return np.array(value.tolist()) if isinstance(value, TracedArray) else value

    result = function(*map(plain, args), **{name: plain(value) for name, value in kwargs.items()})
    if isinstance(result, tuple):
        parts = [made(part) if isinstance(part, np.ndarray) else part for part in result]
        return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)  # as of np.linalg.eigh
    return made(result) if isinstance(result, np.ndarray) else result


def _number_function(self: Any, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    first, *others = map(traced, args)
    if isinstance(args[0], TracedArray):  # whose numbers were asked, one after the other
        first = [_as_objects(entry).view(TracedArray) for entry in first]
    return function(first, *others, **traced(kwargs))


Number.__array_ufunc__ = TracedArray.__array_ufunc__  # type: ignore[attr-defined]
Number.__array_function__ = _number_function  # type: ignore[attr-defined]
for _name, _function in UNARY.items():
    setattr(Number, _function.__name__, functools.partialmethod(lambda self, op: self.graph.unary(op, self), _name))
for _name in ("astype", "clip", "max", "min", "prod", "ravel", "reshape", "round", "std", "var"):
    setattr(Number, _name, functools.partialmethod(
        lambda self, name, *args, **named: getattr(traced(self), name)(*args, **named), _name))  # fmt: skip


def traced(value: Any) -> Any:
    """Arguments of a function, with arrays of objects where there are numbers of a graph in them."""
    if isinstance(value, Node):
        return _as_objects(value).view(TracedArray)
    if isinstance(value, np.ndarray):
        return value.view(TracedArray) if value.dtype == object else value
    has_arrays = isinstance(value, (list, tuple)) and any(isinstance(one, np.ndarray) for one in value)
    if isinstance(value, (list, tuple)) and _has_number(value) and not has_arrays:
        array = np.array(_plain(value), dtype=object)
        if all(isinstance(entry, (Node, float, int, np.number, np.bool_)) for entry in array.flat):
            return array.view(TracedArray)
    if type(value) in (list, tuple):
        return type(value)(map(traced, value))
    return {name: traced(part) for name, part in value.items()} if isinstance(value, dict) else value


def _plain(value: Any) -> Any:
    """Nested sequences with NumPy's own arrays."""
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return value.view(np.ndarray) if isinstance(value, np.ndarray) else value


def _has_number(value: Any) -> bool:
    """Whether there is a number of a graph in nested sequences."""
    if isinstance(value, (list, tuple)):
        return any(map(_has_number, value))
    return isinstance(value, (Node, TracedArray))


def made(value: Any, dtype: Any = None, copy: Any = True, ndmin: int = 0, **unused: Any) -> Any:
    """np.array of what a function gives it: of floats and numbers of a graph an array that both go into."""
    has_some = _has_number(value) or isinstance(value, TracedArray)
    array = np.array(_plain(value) if has_some else value, dtype=object if has_some else dtype, ndmin=ndmin)
    if not _holds_floats(array.dtype):
        return array
    given = array.astype(object).view(TracedArray)
    return _of_one_type(given) if dtype is None else given.astype(dtype)


def as_made(value: Any, dtype: Any = None, **unused: Any) -> Any:
    """np.asarray: the array itself where it is one."""
    if not isinstance(value, TracedArray):
        return made(value, dtype)
    if dtype is None:
        return value
    return _of_floats(value) if _holds_floats(dtype) else value.astype(dtype)


def _making(function: Callable[..., Any]) -> Callable[..., Any]:
    """np.zeros and the like, of arrays that numbers of a graph can be written into."""

    @functools.wraps(function)
    def make(*args: Any, **kwargs: Any) -> Any:
        if any(isinstance(value, Node) for value in (*args[1:], kwargs.get("fill_value"))):  # np.full
            shape, fill, dtype = _of_full(*args, **kwargs)
            return made(np.broadcast_to(_as_objects(fill), shape), dtype)
        return made(function(*args, **kwargs))

    return make


def _of_full(shape: Any, fill_value: Any, dtype: Any = None, *unused: Any, **more: Any) -> tuple[Any, Any, Any]:
    return shape, fill_value, dtype


def _filled(a: Any, fill_value: Any, dtype: Any = None, *unused: Any, shape: Any = None, **more: Any) -> Any:
    return made(np.broadcast_to(_as_objects(fill_value), np.shape(a) if shape is None else shape), dtype)


def _like(value: float) -> Callable[..., Any]:
    return lambda a, *args, **named: _filled(a, value, *args, **named)


def _where(condition: Any, *choices: Any) -> Any:
    if not choices:
        raise TraceError("np.where without choices")
    return np.frompyfunc(select, 3, 1)(*map(_as_objects, (condition, *choices)))


def _dot(a: Any, b: Any, out: Any = None) -> Any:
    result = returned(np.dot(_as_objects(a), _as_objects(b)))
    if out is None:
        return result
    out[...] = result
    return out


def _vdot(a: Any, b: Any) -> Any:
    return np.dot(_as_objects(a).ravel(), _as_objects(b).ravel())


def _interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    if period is not None:
        raise TraceError("np.interp with a period")
    if not any(isinstance(entry, Node) for entry in _as_objects(xp)) and np.any(np.diff(xp) < 0.0):
        raise TraceError("np.interp of places that decrease")

    def of_one(x: Any) -> Any:
        last = unless_nan(x.graph, x, fp[-1]) if isinstance(x, Node) else fp[-1]
        result = last if right is None else select(x > xp[-1], right, last)
        for k in reversed(range(len(xp) - 1)):
            width = xp[k + 1] - xp[k]
            if isinstance(width, Node) or width:  # a jump is no line
                result = select(x < xp[k + 1], fp[k] + (fp[k + 1] - fp[k]) / width * (x - xp[k]), result)
        return select(x < xp[0], fp[0] if left is None else left, result)

    return np.frompyfunc(of_one, 1, 1)(_as_objects(x))


def _sinc(x: Any) -> Any:
    return np.frompyfunc(lambda x: sine_ratio((math.pi * x) ** 2), 1, 1)(_as_objects(x))


def _choose(conditions: Any, choices: Any, default: Any = 0) -> Any:
    """np.select: of each entry the choice of the first condition that holds."""
    result = default
    for condition, choice in reversed(list(zip(conditions, choices, strict=True))):
        result = _where(condition, choice, result)
    return result


def _entrywise(function: Any, x: Any, *args: Any, **named: Any) -> Any:
    """A function of an array; TraceError if it is another one of some of its entries."""
    whole = _as_objects(np.broadcast_to(_as_objects(function(x, *args, **named)), np.shape(x)))
    for entry, own in zip(_as_objects(x).flat, whole.flat, strict=True):
        (alone,) = np.broadcast_to(_as_objects(function(_as_objects([entry]).view(TracedArray), *args, **named)), (1,))
        if alone is not own and not (isinstance(alone, (float, int)) and alone == own):
            raise TraceError("np.piecewise of a function that depends on several entries at once")
    return whole


def _piecewise(x: Any, conditions: Any, functions: Any, *args: Any, **named: Any) -> Any:
    """np.piecewise: of each entry the function of the last condition that holds."""
    several = conditions if isinstance(conditions, (list, tuple)) or np.ndim(conditions) > np.ndim(x) else [conditions]
    values = [_entrywise(one, x, *args, **named) if callable(one) else one for one in functions]
    result = values[len(several)] if len(values) > len(several) else 0.0
    for condition, value in zip(several, values, strict=False):
        result = _where(condition, value, result)
    return result


def _searchsorted(a: Any, v: Any, side: str = "left") -> Any:
    """Place of each entry among sorted numbers, found by decisions."""
    find = bisect.bisect_left if side == "left" else bisect.bisect_right
    places = np.frompyfunc(functools.partial(find, list(_as_objects(a))), 1, 1)(_as_objects(v))
    return places.astype(int) if isinstance(places, np.ndarray) and places.ndim else int(places)


def _digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """np.digitize of bins that increase."""
    if np.any(np.diff(bins) < 0.0):
        raise TraceError("np.digitize of bins that decrease")
    return _searchsorted(bins, x, "left" if right else "right")


def _isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Whether |a - b| <= atol + rtol |b|, entry by entry."""
    return np.abs(np.subtract(traced(a), traced(b))) <= atol + rtol * np.abs(traced(b))


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.where: _where, np.select: _choose, np.piecewise: _piecewise, np.dot: _dot, np.vdot: _vdot, np.interp: _interp,
    np.sinc: _sinc,
    np.linalg.norm: dense.norm, np.linalg.solve: dense.solve, np.linalg.inv: dense.inverse,
    np.linalg.det: dense.determinant,
    np.zeros_like: _like(0.0), np.ones_like: _like(1.0), np.empty_like: _like(0.0), np.full_like: _filled,
    np.real: lambda a: a, np.isrealobj: lambda a: True, np.iscomplexobj: lambda a: False, np.copy: made,
    np.searchsorted: _searchsorted, np.digitize: _digitize, np.isclose: _isclose,
}  # fmt: skip
"""NumPy's functions that are others on numbers of a graph."""

REFUSED: frozenset[Any] = frozenset((
    np.linalg.eig, np.linalg.eigh, np.linalg.eigvals, np.linalg.eigvalsh, np.linalg.svd, np.linalg.qr, np.linalg.pinv,
    np.linalg.cholesky, np.linalg.lstsq, np.linalg.cond, np.linalg.slogdet, np.round, np.around, np.nan_to_num,
    np.histogram, np.unique, np.fft.fft,
))  # fmt: skip
"""NumPy's functions that cannot be followed, but of constants."""

MAKING: dict[Any, Callable[..., Any]] = {
    np.array: made, np.asarray: as_made, np.ascontiguousarray: as_made, np.asanyarray: as_made,
    **{function: _making(function) for function in (np.zeros, np.ones, np.empty, np.full, np.eye, np.identity,
                                                    np.linspace, np.arange, np.tri)},
}  # fmt: skip
"""NumPy's functions that make arrays of what has no numbers of a graph in it."""

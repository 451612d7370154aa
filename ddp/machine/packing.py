# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
"""Samples between rows of arrays and numbers (number.py): one sample to a lane, by transposing eight of them at a time.

    pack(X, t, x, m)                    x[0..m-1] := the first m columns of samples t, t + 1, ... of X (N, ...)
    unpack(x, m, X, t)                  the converse, as many samples as there are
    unpack_columns(x, m, X, t, begin)   into the columns from ``begin`` on
    unpack_groups(x, groups, m, X, t)   m groups of eight numbers alone, those that begin at ``groups``
    unpack_places(x, places, ...)       numbers at some places of x

Rows X are matrices (``memory.rows_of``), x is a vector of any number; quads are read and written one by one. Floats
and complex numbers have room for one sample. Where fewer samples are left than lanes, the last one is repeated: its
lanes hold, and write, equal numbers.
"""

from ddp.compiling.kernel import by_types, inline, kernel
from ddp.machine.number import QUAD, WIDTH, LanesType, lane_of, lanes, quads, spread, width, with_lane
from ddp.machine.simd import load, load_some, prefetch, stack, store, store_some, transpose

AHEAD = 2
"""Distance, in registers, of the cache line that is asked for while one is written."""


def pack(X, t, x, m):  # type: ignore[no-untyped-def]
    """Read samples, inside kernels: see above."""


@by_types(pack)
def _pack(X, t, x, m):  # type: ignore[no-untyped-def]
    if x.number == lanes:
        return _pack_lanes
    return _pack_quads if x.number == quads else _pack_one


@kernel
def _pack_one(X, t, x, m):
    for i in range(m):
        x[i] = X[t, i]


@kernel
def _pack_quads(X, t, x, m):
    last = len(X) - 1
    for i in range(m):
        value = spread(0.0, x[0])
        for lane in range(QUAD):
            value = with_lane(value, lane, X[min(t + lane, last), i])
        x[i] = value


@kernel
def _pack_lanes(X, t, x, m):
    last, square = len(X) - 1, stack(64)
    for field in range(0, m - WIDTH + 1, WIDTH):
        _pack_square(X, t, last, field, x, square)
    if m >= WIDTH and m % WIDTH:  # the last eight overlap others
        _pack_square(X, t, last, m - WIDTH, x, square)
    elif m < WIDTH:
        for lane in range(WIDTH):
            store(square, WIDTH * lane, load_some(X[min(t + lane, last)], 0, m))
        transpose(square)
        for i in range(WIDTH):
            if i < m:
                x[i] = load(square, WIDTH * i)


@inline
def _pack_square(X, t, last, field, x, square):
    for lane in range(WIDTH):
        store(square, WIDTH * lane, load(X[min(t + lane, last)], field))
    transpose(square)
    for i in range(WIDTH):
        x[field + i] = load(square, WIDTH * i)


@inline
def _unpack_square(square, X, t, last, begin, soon):
    """Write eight registers, transposed, to eight columns of the samples from t on; ``soon``: a column to follow."""
    transpose(square)
    for lane in range(WIDTH):
        row = X[min(t + lane, last)]
        prefetch(row, soon)
        store(row, begin, load(square, WIDTH * lane))


@kernel
def unpack(x, m, X, t):
    """Write m numbers of samples: see above."""
    unpack_columns(x, m, X, t, 0)


def unpack_columns(x, m, X, t, begin):  # type: ignore[no-untyped-def]
    """Write m numbers of samples into some columns, inside kernels: see above."""


@by_types(unpack_columns)
def _unpack_columns(x, m, X, t, begin):  # type: ignore[no-untyped-def]
    if x.number == lanes:
        return _unpack_lanes
    return _unpack_one_by_one if x.number == quads else _unpack_one


@kernel
def _unpack_one(x, m, X, t, begin):
    for i in range(m):
        X[t, begin + i] = x[i]


@kernel
def _unpack_one_by_one(x, m, X, t, begin):
    for lane in range(min(width(x), len(X) - t)):
        row = X[t + lane]
        for i in range(m):
            row[begin + i] = lane_of(x[i], lane)


@kernel
def _unpack_lanes(x, m, X, t, begin):
    last, square = len(X) - 1, stack(64)
    if m < WIDTH:
        for i in range(WIDTH):
            if i < m:
                store(square, WIDTH * i, x[i])
        transpose(square)
        for lane in range(WIDTH):
            store_some(X[min(t + lane, last)], begin, load(square, WIDTH * lane), m)
        return
    for start in range(0, m, WIDTH):
        field = min(start, m - WIDTH)  # the last eight may overlap others
        for i in range(WIDTH):
            store(square, WIDTH * i, x[field + i])
        _unpack_square(square, X, t, last, begin + field, begin + field + AHEAD * WIDTH)


@kernel
def unpack_groups(x, groups, m, X, t):
    """Write m groups of eight lanes, those that begin at ``groups``; the others stay as they are."""
    last, square = len(X) - 1, stack(64)
    for g in range(m):
        for i in range(WIDTH):
            store(square, WIDTH * i, x[groups[g] + i])
        _unpack_square(square, X, t, last, groups[g], groups[min(g + AHEAD, m - 1)])


def unpack_places(x, places, m, groups, bounds, k, X, t):  # type: ignore[no-untyped-def]
    """Write the m numbers of samples that are at some places of x, inside kernels.

    Of lanes, the groups of eight from groups[bounds[k]] to groups[bounds[k + 1]] alone; the others stay as they are.
    """


@by_types(unpack_places)
def _unpack_places(x, places, m, groups, bounds, k, X, t):  # type: ignore[no-untyped-def]
    return _unpack_lane_places if isinstance(x.number, LanesType) else _unpack_places_of_one


@kernel
def _unpack_places_of_one(x, places, m, groups, bounds, k, X, t):
    for e in range(m):
        X[t, e] = x[places[e]]


@kernel
def _unpack_lane_places(x, places, m, groups, bounds, k, X, t):
    last, square = len(X) - 1, stack(64)
    end = bounds[k + 1]
    for g in range(bounds[k], end):
        for i in range(WIDTH):
            store(square, WIDTH * i, x[places[groups[g] + i]])
        _unpack_square(square, X, t, last, groups[g], groups[min(g + AHEAD, end - 1)])
    if m < WIDTH:
        for i in range(m):
            for lane in range(min(WIDTH, len(X) - t)):
                X[t + lane, i] = lane_of(x[places[i]], lane)

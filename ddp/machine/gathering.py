# mypy: allow-untyped-defs, allow-untyped-calls
"""Numbers of eight samples wherever they are, to and from lanes: packing.py for samples that are no rows of an array.

gather(places, begin, x, m)      x[0..m-1] := the m floats from ``begin`` on behind each of eight addresses
scatter(x, m, places, begin)     the converse; where addresses are equal, so have lanes to be
"""

from __future__ import annotations

from ddp.compiling.kernel import inline, kernel
from ddp.machine.memory import floats_at
from ddp.machine.number import WIDTH
from ddp.machine.packing import AHEAD
from ddp.machine.simd import load, load_some, prefetch, stack, store, store_some, transpose


@kernel
def gather(places, begin, x, m):
    """Read floats behind eight addresses, or from one place for all: see above."""
    apart = False
    for lane in range(1, WIDTH):
        apart = apart or places[lane] != places[0]
    if not apart:
        row = floats_at(places[0])
        for i in range(m):
            x[i] = row[begin + i]
        return
    square = stack(64)
    for field in range(0, m, WIDTH):
        start = max(0, min(field, m - WIDTH))  # the last eight may overlap others
        for lane in range(WIDTH):
            row = floats_at(places[lane])
            if m < WIDTH:
                store(square, WIDTH * lane, load_some(row, begin, m))
            else:
                store(square, WIDTH * lane, load(row, begin + start))
        transpose(square)
        for i in range(min(m, WIDTH)):
            x[start + i] = load(square, WIDTH * i)


@kernel
def scatter(x, m, places, begin):
    """Write floats behind eight addresses: see above."""
    square = stack(64)
    for field in range(0, m, WIDTH):
        start = max(0, min(field, m - WIDTH))
        for i in range(min(m, WIDTH)):
            store(square, WIDTH * i, x[start + i])
        _scatter_square(square, places, begin + start, m)


@inline
def _scatter_square(square, places, begin, m):
    """Write eight registers, transposed, of which m hold numbers."""
    transpose(square)
    for lane in range(WIDTH):
        row = floats_at(places[lane])
        if m < WIDTH:
            store_some(row, begin, load(square, WIDTH * lane), m)
        else:
            prefetch(row, begin + AHEAD * WIDTH)
            store(row, begin, load(square, WIDTH * lane))

# mypy: allow-untyped-defs, allow-untyped-calls
"""Numbers of eight samples wherever they are, to and from lanes: packing.py for samples that are no rows of an array.

gather(places, begin, x, m)      x[0..m-1] := the m floats from ``begin`` on behind each of eight addresses
scatter(x, m, places, begin)     the converse; where addresses are equal, so have lanes to be
"""

from ddp.compiling.kernel import inline, kernel
from ddp.machine.memory import floats_at
from ddp.machine.number import WIDTH
from ddp.machine.packing import AHEAD
from ddp.machine.simd import load, load_some, prefetch, stack, store, store_some, transpose


@kernel
def gather(places, begin, x, m):
    """Read floats behind eight addresses: see above."""
    for field in range(0, m - WIDTH + 1, WIDTH):
        _gather_square(places, begin + field, x, field)
    if m > WIDTH and m % WIDTH:  # the last eight overlap others
        _gather_square(places, begin + m - WIDTH, x, m - WIDTH)
    elif m < WIDTH:
        square = stack(64)
        for lane in range(WIDTH):
            store(square, WIDTH * lane, load_some(floats_at(places[lane]), begin, m))
        transpose(square)
        for i in range(m):
            x[i] = load(square, WIDTH * i)


@inline
def _gather_square(places, begin, x, field):
    """Read eight floats behind each address, in registers."""
    square = stack(64)
    for lane in range(WIDTH):
        store(square, WIDTH * lane, load(floats_at(places[lane]), begin))
    transpose(square)
    for i in range(WIDTH):
        x[field + i] = load(square, WIDTH * i)


@kernel
def scatter(x, m, places, begin):
    """Write floats behind eight addresses: see above."""
    for field in range(0, m - WIDTH + 1, WIDTH):
        _scatter_square(x, field, places, begin + field)
    if m > WIDTH and m % WIDTH:
        _scatter_square(x, m - WIDTH, places, begin + m - WIDTH)
    elif m < WIDTH:
        square = stack(64)
        for i in range(m):
            store(square, WIDTH * i, x[i])
        transpose(square)
        for lane in range(WIDTH):
            store_some(floats_at(places[lane]), begin, load(square, WIDTH * lane), m)


@inline
def _scatter_square(x, field, places, begin):
    """Write eight floats behind each address, from registers."""
    square = stack(64)
    for i in range(WIDTH):
        store(square, WIDTH * i, x[field + i])
    transpose(square)
    for lane in range(WIDTH):
        row = floats_at(places[lane])
        prefetch(row, begin + AHEAD * WIDTH)
        store(row, begin, load(square, WIDTH * lane))

"""Arrays of many names out of one piece of memory."""

from collections.abc import Mapping
from functools import lru_cache
from itertools import accumulate
from math import prod

import numpy as np
from numpy.typing import NDArray

from ddp.machine.aligned import WIDTH, aligned_zeros
from ddp.machine.written import address

Shape = tuple[int, ...]


def carved(shapes: Mapping[str, Shape]) -> tuple[dict[str, NDArray[np.float64]], dict[str, int]]:
    """Arrays of zeros of some shapes by name, each from where a register begins, and their addresses."""
    size, places = _places(tuple(shapes.items()))
    memory = aligned_zeros((size,))
    start = address(memory)
    views = {name: memory[begin:end].reshape(shape) for name, begin, end, shape in places}
    return views, {name: start + 8 * begin for name, begin, _, _ in places}


@lru_cache(maxsize=64)
def _places(shapes: tuple[tuple[str, Shape], ...]) -> tuple[int, tuple[tuple[str, int, int, Shape], ...]]:
    """Numbers in all, and of each name where it begins and ends, and its shape."""
    lengths = [prod(shape) for _, shape in shapes]
    begins = list(accumulate((-(-length // WIDTH) * WIDTH for length in lengths), initial=0))
    named = zip(shapes, begins, lengths, strict=False)
    return begins[-1], tuple((name, begin, begin + length, shape) for (name, shape), begin, length in named)

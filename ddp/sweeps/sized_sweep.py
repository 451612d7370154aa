"""The backward sweep compiled for its sizes, when a sweep of few states is first prepared.

The source is that of every size; known sizes let LLVM unroll its loops and drop its tests. Measured on one core, in
microseconds a knot, as compiled for all sizes and for its own: 2 states, 1 control .24 and .04; 4, 1 .29 and .06; 12, 6
.74 and .38; 36, 12 of semi-implicit steps 2.7 and 2.2, a twelfth of a whole solve, for 3.5 s more of the compiler; of
other steps 3.0 and 2.7, of which gaits take a thirtieth. So sizes beyond those of `MOST` are not worth its time.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from ddp.compiling.kernel import inline, kernel, specialised
from ddp.sweeps.room import read_room, sizes_of
from ddp.sweeps.tiled_sweep import sweep

MOST = {True: (40, 16), False: (16, 8)}
"""States and controls, at most, of a sweep that is compiled for them; whether steps are semi-implicit."""

_known: Any = None
"""Placeholders in the functions that are compiled."""


def _known_sizes(address):  # type: ignore[no-untyped-def]
    """Sizes of a ``Room``, as they are known."""
    return _known


def sweep_of(n: int, nu: int, halved: bool, runs: int) -> Any:
    """`tiled_sweep.sweep`, compiled for n states and nu controls where they are few; halved, runs: see `Room`."""
    states, controls = MOST[halved]
    if n > states or nu > controls:
        return sweep
    return _sized_sweep(n, nu, halved, runs)


@cache
def _sized_sweep(n: int, nu: int, halved: bool, runs: int) -> Any:
    name = f"sweep_{n}_{nu}_{int(halved)}_{runs}"
    sizes = inline(specialised(_known_sizes, f"sizes_of_{name}", _known=sizes_of(n, nu, halved, runs)))
    room = inline(specialised(read_room.py_func, f"room_of_{name}", sizes_at=sizes))
    function = specialised(sweep.py_func, name, read_room=room)
    function.__module__ = __name__
    return kernel(function, whole=True)


def __getattr__(name: str) -> Any:
    """Sweeps of all sizes by their names: what was compiled in another process finds them so."""
    found = re.fullmatch(r"sweep_(\d+)_(\d+)_([01])_(\d+)", name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    n, nu, halved, runs = map(int, found.groups())
    return _sized_sweep(n, nu, bool(halved), runs)

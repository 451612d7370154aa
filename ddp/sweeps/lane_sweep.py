# mypy: allow-untyped-defs, allow-untyped-calls
"""Backward sweeps of eight problems at once, a lane for each: the recursion of tiled_sweep.py, compiled for lanes.

Knots of few states wait for each other more than they compute; eight problems wait together. Measured in nanoseconds a
knot of one problem, alone and with seven others: 33 and 9 for 2 states and 1 control, 45 and 19 for 4 and 1; with a
second order 45 and 13, 64 and 27. Eight knots at a time go to lanes and back, as in `ddp.machine.following`.

Gaps are closed, controls without limits, and the second order is as contracted; a lane that fails says so, and its
policy means nothing.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.kernel import callback, inline, specialised
from ddp.machine.aligned import aligned_zeros
from ddp.machine.elements import in_lanes
from ddp.machine.following import lanes_at
from ddp.machine.gathering import gather
from ddp.machine.memory import address_of
from ddp.machine.number import WIDTH, all_less, spread, where_less
from ddp.machine.packing import unpack_columns
from ddp.machine.simd import load, store
from ddp.machine.struct import Struct, integer, integers, matrix, reals, several
from ddp.machine.trajectories import Places
from ddp.protocols import Array
from ddp.sweeps import tiled_sweep
from ddp.sweeps.box import hold
from ddp.sweeps.horizon import Horizon, load_costs
from ddp.sweeps.riccati import SMALLEST, block_at, complete_in_place, load_hessian
from ddp.sweeps.room import RoomOwner, read_room, sizes_of
from ddp.sweeps.sized_sweep import known_sizes
from ddp.systems.structure import Halves


class EightSweeps(Struct):
    """Sweeps of eight problems: derivatives, T at eight addresses each; k, K (8, .) that are found; blends, mus (8,).

    failed, change, steepest (8,): as `ddp.sweeps.tiled_sweep.sweep` returns them.   horizons: of eight knots
    each, in lanes, all in the same arrays; room: of lanes.   separable (N+1,).   second: numbers of a knot's T.
    """

    N: int = integer()
    n: int = integer()
    nu: int = integer()
    room: int = integer()
    horizons: tuple[Horizon, ...] = several()
    separable: NDArray[np.int64] = integers()
    A: Places = integers(constant=False)
    B: Places = integers(constant=False)
    lz: Places = integers(constant=False)
    lzz: Places = integers(constant=False)
    exact: Places = integers(constant=False)
    diagonal: Places = integers(constant=False)
    T: Places = integers(constant=False)
    second: int = integer()
    k: Array = matrix(constant=False)
    K: Array = matrix(constant=False)
    blends: Array = reals(constant=False)
    mus: Array = reals(constant=False)
    failed: Array = reals(constant=False)
    change: Array = reals(constant=False)
    steepest: Array = reals(constant=False)


def eight_sweeps(
    sizes: tuple[int, int, int], second: tuple[int, ...], in_blocks: bool, separable: NDArray[np.int64], halves: Halves,
    room: RoomOwner,
) -> EightSweeps:  # fmt: skip
    """Sweeps of eight problems of N knots, n states and nu controls, in a room of lanes.

    second: shape of a knot's second order.   in_blocks, separable (N+1,), halves: of all problems, see `Horizon`.
    """
    N, n, nu = sizes
    nz, knots, nothing = n + nu, WIDTH + 1, np.zeros((1, 1))
    rows = {
        "A": (n, n), "B": (n, nu), "lz": (nz,), "lzz": (nz, nz), "exact": (nz, nz), "diagonal": (nz,), "T": second,
        "k": (nu,), "K": (nu, n), "record": (1,),
    }  # fmt: skip
    own = {name: aligned_zeros((knots, *shape[:-1], WIDTH * shape[-1])) for name, shape in rows.items()}
    horizons = []
    for begin in range(0, N, WIDTH):
        flags = np.zeros(knots, dtype=np.int64)
        flags[: N + 1 - begin] = separable[begin : begin + knots]
        horizons.append(
            Horizon(
                **own, N=N - begin if N - begin <= WIDTH else knots, n=n, nu=nu, separable=flags, h=halves[0],
                bent=halves[1], in_blocks=in_blocks, contraction=0, context=0, gaps=nothing, torn=0, closing=0,
                closing_context=0, bends=nothing, crossed=np.zeros((0, 2), dtype=np.int64), weights=nothing,
                costate=nothing[0], limited=0, low=nothing, high=nothing, held=nothing,
                rows=nothing, action=np.zeros(nu * nu * WIDTH),
            )
        )  # fmt: skip
    numbers = {name: aligned_zeros((WIDTH,)) for name in ("blends", "mus", "failed", "change", "steepest")}
    places = {name: np.zeros(WIDTH, dtype=np.int64) for name in ("A", "B", "lz", "lzz", "exact", "diagonal", "T")}
    return EightSweeps(
        N=N, n=n, nu=nu, room=room.address, horizons=horizons, separable=separable, second=math.prod(second),
        k=aligned_zeros((WIDTH, N * nu)), K=aligned_zeros((WIDTH, N * nu * n)), **numbers, **places,
    )  # fmt: skip


recursion: Any = None
"""The sweep in lanes, of some sizes: takes its place in the template below."""


def _sweep_eight(sweeps, unused, none, nothing):  # type: ignore[no-untyped-def]
    """Sweep: an `EightSweeps`."""
    s = EightSweeps(sweeps)
    n, nu, nz, size = s.n, s.nu, s.n + s.nu, s.second
    blend, mu = load(s.blends, 0), load(s.mus, 0)
    zero = spread(0.0, blend)
    failed, sums, second = spread(-1.0, blend), (zero, zero, zero), not all_less(blend, SMALLEST)
    for w in range((s.N - 1) // WIDTH, -1, -1):
        p, begin = Horizon(s.horizons[w]), WIDTH * w
        knots = min(WIDTH, s.N - begin)
        more = knots + 1 if begin + knots == s.N else knots
        gather(s.A, begin * n * n, lanes_at(address_of(p.A)), knots * n * n)
        gather(s.B, begin * n * nu, lanes_at(address_of(p.B)), knots * n * nu)
        gather(s.lz, begin * nz, lanes_at(address_of(p.lz)), more * nz)
        gather(s.diagonal, begin * nz, lanes_at(address_of(p.diagonal)), more * nz)
        separable = 0
        for t in range(begin, begin + more):
            separable += s.separable[t]
        if separable < more:
            load_mixed(s, p, begin * nz * nz, more * nz * nz, blend)
        if second:
            T = lanes_at(address_of(p.T))
            gather(s.T, begin * size, T, knots * size)
            if not all_less(0.0, blend):  # what was left there from other iterates may not be finite
                for i in range(knots * size):
                    T[i] = where_less(0.0, blend, T[i], 0.0)
        found, slope, change, steepest = recursion(p.address, s.room, 0, knots, sums, blend, mu, False, True, False)
        sums = slope, change, steepest
        failed = where_less(failed, 0.0, where_less(-0.5, found, found + float(begin), failed), failed)
        unpack_columns(lanes_at(address_of(p.k)), knots * nu, s.k, 0, begin * nu)
        unpack_columns(lanes_at(address_of(p.K)), knots * nu * n, s.K, 0, begin * nu * n)
        if all_less(-0.5, failed):
            break
    store(s.failed, 0, failed)
    store(s.change, 0, sums[1])
    store(s.steepest, 0, sums[2])


@inline
def load_mixed(s, p, begin, count, blend):
    """Hessians of costs of some knots, in lanes: GN + blend (exact - GN); of what is not asked for, nothing."""
    H, exact = lanes_at(address_of(p.lzz)), lanes_at(address_of(p.exact))
    if not all_less(0.999, blend):
        gather(s.lzz, begin, H, count)
    if not all_less(blend, SMALLEST):
        gather(s.exact, begin, exact, count)
        for i in range(count):
            mixed = where_less(blend, 1.0, (1.0 - blend) * H[i] + blend * exact[i], exact[i])
            H[i] = where_less(0.0, blend, mixed, H[i])


# -- what the recursion calls of lanes in other words ------------------------------------------------


@inline
def load_own_costs(p, r, t, blend):
    """Q := l_zz of knot t, mixed before."""
    load_hessian(r, address_of(p.lzz[t]))


@inline
def nothing_in_place(r):
    """Complete nothing."""


@inline
def no_gap(horizon, room, t, blend, by_costate, known):
    """Return no change of slope and value: there is no gap."""
    return 0.0, 0.0


@inline
def no_slope(horizon, room, t):
    """Do nothing: there is no gap, and so no slope of its own."""
    return 0.0


@inline
def nothing_held(horizon, room, t, known):
    """Answer as where no control has limits."""
    return 0.0


@inline
def not_pushed(p, t, i, g):
    """Answer as where no control has limits."""
    return False


@inline
def same(failed):
    """Numbers of knots, one for each lane."""
    return failed


_IN_LANES = {
    load_costs: load_own_costs, complete_in_place: nothing_in_place, tiled_sweep.cross_gap: no_gap,
    tiled_sweep.follow: no_slope, hold: nothing_held, tiled_sweep.is_pushed: not_pushed,
    tiled_sweep.knot_of: same,
}  # fmt: skip


@cache
def eight_sweeps_of(n: int, nu: int, halved: bool, runs: int) -> Any:
    """The C function that sweeps an `EightSweeps` of some sizes."""
    name = f"sweep_eight_{n}_{nu}_{int(halved)}_{runs}"
    sizes = inline(specialised(known_sizes, f"sizes_of_{name}", _known=sizes_of(n, nu, halved, runs, deep=True)))
    room = inline(specialised(read_room.py_func, f"room_of_{name}", sizes_at=sizes))
    own = in_lanes(tiled_sweep.sweep, {**_IN_LANES, read_room: room}, (block_at,), FEW=0)
    return callback(specialised(_sweep_eight, name, recursion=own))

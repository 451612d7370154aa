# mypy: allow-untyped-defs, allow-untyped-calls
"""Backward sweeps of eight problems at once, a lane for each: the recursion of tiled_sweep.py, compiled for lanes.

Knots of few states wait for each other more than they compute; eight problems wait together. Loops of so few states are
written out and a knot's matrices are registers, for which no address may depend on what kernels find out. Measured
in nanoseconds a knot of one problem, alone and with seven others: 30 and 6 for 2 states and 1 control, 42 and 13 for 4
and 1; with a second order 30 and 7, 49 and 14. Eight knots at a time go to lanes and back, as in
`ddp.machine.following`.

Gaps are plain, controls without limits, and the second order is as contracted; a lane that fails says so, and its
policy means nothing.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.kernel import inline, specialised
from ddp.compiling.known import written_out
from ddp.machine.addresses import array_at
from ddp.machine.aligned import aligned_zeros
from ddp.machine.constants import room as memory
from ddp.machine.declared import each
from ddp.machine.elements import in_lanes
from ddp.machine.following import lanes_at
from ddp.machine.gathering import gather, scatter
from ddp.machine.memory import address_of, floats_at
from ddp.machine.number import WIDTH, all_less, spread, where_less
from ddp.machine.rows import clear_rows
from ddp.machine.simd import load, store
from ddp.machine.struct import Struct, integer, integers, reals, several
from ddp.machine.tiles import add_product
from ddp.machine.variables import variable_integer
from ddp.protocols import Array
from ddp.sweeps import tiled_sweep
from ddp.sweeps.box import hold
from ddp.sweeps.horizon import UNSLOPED, Horizon, load_costs
from ddp.sweeps.riccati import SMALLEST, block_at, is_given, load_hessian
from ddp.sweeps.room import Room, places_of, read_room
from ddp.systems.structure import Halves


class EightSweeps(Struct):
    """Sweeps of eight problems: derivatives, T and the k, K that are found at eight addresses each; blends, mus (8,).

    used: addresses of T, or where blends are zero of ``zeros``: T may have numbers there that are not finite.
    gaps: at eight addresses, too, if any are open, ``torn``.
    failed, change, steepest (8,): as `ddp.sweeps.tiled_sweep.sweep` returns them.   horizons: of eight knots each,
    in lanes, all in the same arrays: without gaps, then with some.   separable (N+1,).   second: numbers of a knot's T.
    """

    N, n, nu = each(3, integer)
    horizons: tuple[Horizon, ...] = several()
    separable: NDArray[np.int64] = integers()
    A, B, lz, lzz, exact, diagonal, T, used = each(8, integers, constant=False)
    zeros: Array = reals()
    second: int = integer()
    k, K, gaps = each(3, integers, constant=False)
    torn: int = variable_integer()
    blends, mus, failed, change, steepest = each(5, reals, constant=False)


def eight_sweeps(
    sizes: tuple[int, int, int], second: tuple[int, ...], in_blocks: bool, separable: NDArray[np.int64], halves: Halves
) -> EightSweeps:  # fmt: skip
    """Sweeps of eight problems of N knots, n states and nu controls.

    second: shape of a knot's second order.   in_blocks, separable (N+1,), halves: of all problems, see `Horizon`.
    """
    N, n, nu = sizes
    nz, knots, nothing = n + nu, WIDTH + 1, np.zeros((1, 1))
    rows = {
        "A": (n, n), "B": (n, nu), "lz": (nz,), "lzz": (nz, nz), "exact": (nz, nz), "diagonal": (nz,), "T": second,
        "k": (nu,), "K": (nu, n), "gaps": (n,), "record": (1,),
    }  # fmt: skip
    own = {name: aligned_zeros((knots, *shape[:-1], WIDTH * shape[-1])) for name, shape in rows.items()}
    horizons = []
    for torn, begin in product((0, UNSLOPED), range(0, N, WIDTH)):
        flags = np.zeros(knots, dtype=np.int64)
        flags[: N + 1 - begin] = separable[begin : begin + knots]
        horizons.append(
            Horizon(
                **own, N=N - begin if N - begin <= WIDTH else knots, n=n, nu=nu, separable=flags, h=halves[0],
                bent=halves[1], in_blocks=in_blocks, contraction=0, context=0, torn=torn, closing=0,
                closing_context=0, bends=nothing, crossed=np.zeros((0, 2), dtype=np.int64), weights=nothing,
                limited=0, low=nothing, high=nothing, held=nothing,
                rows=nothing, action=np.zeros(nu * nu * WIDTH),
            )
        )  # fmt: skip
    numbers = {name: aligned_zeros((WIDTH,)) for name in ("blends", "mus", "failed", "change", "steepest")}
    places = {name: np.zeros(WIDTH, dtype=np.int64) for name in rows if name != "record"}
    return EightSweeps(
        N=N, n=n, nu=nu, torn=0, horizons=horizons, separable=separable, second=math.prod(second),
        used=np.zeros(WIDTH, dtype=np.int64), zeros=np.zeros(N * math.prod(second)), **numbers, **places,
    )  # fmt: skip


recursion: Any = None
room_in: Any = None
_numbers: Any = None
"""The sweep in lanes, its room, and how many floats that takes, of some sizes: they take their places in the template
below."""


def _sweep_eight(sweeps, unused, none, nothing):  # type: ignore[no-untyped-def]
    """Sweep: an `EightSweeps`."""
    s = EightSweeps(sweeps)
    n, nu, nz, size = s.n, s.nu, s.n + s.nu, s.second
    blend, mu = load(s.blends, 0), load(s.mus, 0)
    room = room_in(lanes_at(memory(_numbers)))  # memory ends with the kernel that makes it, even if inlined
    zero = spread(0.0, blend)
    failed, sums = spread(-1.0, blend), (zero, zero, zero)
    for i in range(WIDTH):
        s.used[i] = s.T[i] if s.blends[i] > 0.0 else address_of(s.zeros)
    for w in range((s.N - 1) // WIDTH, -1, -1):
        p, begin = Horizon(s.horizons[w + (s.N - 1) // WIDTH + 1 if s.torn else w]), WIDTH * w
        knots = min(WIDTH, s.N - begin)
        more = knots + 1 if begin + knots == s.N else knots
        gather(s.A, begin * n * n, lanes_at(address_of(p.A)), knots * n * n)
        gather(s.B, begin * n * nu, lanes_at(address_of(p.B)), knots * n * nu)
        if s.torn:
            gather(s.gaps, begin * n, lanes_at(address_of(p.gaps)), knots * n)
        gather(s.lz, begin * nz, lanes_at(address_of(p.lz)), more * nz)
        gather(s.diagonal, begin * nz, lanes_at(address_of(p.diagonal)), more * nz)
        separable = 0
        for t in range(begin, begin + more):
            separable += s.separable[t]
        if separable < more:
            load_mixed(s, p, begin * nz * nz, more * nz * nz, blend)
        gather(s.used, begin * size, lanes_at(address_of(p.T)), knots * size)
        found, slope, change, steepest = recursion(p.address, room, 0, knots, sums, blend, mu, False, True, False)
        sums = slope, change, steepest
        failed = where_less(failed, 0.0, where_less(-0.5, found, found + float(begin), failed), failed)
        scatter(lanes_at(address_of(p.k)), knots * nu, s.k, begin * nu)
        scatter(lanes_at(address_of(p.K)), knots * nu * n, s.K, begin * nu * n)
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

_sizes: Any = None
_at: Any = None
_flag: Any = None
"""Placeholders: sizes of a room, and the places of its parts; an answer that is known."""


def room_on_stack(all):  # type: ignore[no-untyped-def]
    """A ``Room`` of lanes in memory of which registers take the place."""
    for i in range(_numbers // WIDTH):
        all[i] = spread(0.0, all[i])
    Z, Q, V, v, P, M = all[_at[0] :], all[_at[1] :], all[_at[2] :], all[_at[3] :], all[_at[4] :], all[_at[5] :]
    N, K, U, inverse, size = all[_at[6] :], all[_at[7] :], all[_at[8] :], all[_at[9] :], all[_at[10] :]
    y, q, zeros = all[_at[11] :], all[_at[12] :], all[_at[13] :]
    return Room(*_sizes, Z, Q, V, v, P, M, N, K, U, inverse, size, y, q, zeros)  # type: ignore[call-arg]


@inline
def same(value):
    """Return the value: a room is no address here, and numbers of knots are none to be made integers."""
    return value


def answer(value):  # type: ignore[no-untyped-def]
    """Answer as is known when the sweep is compiled."""
    return _flag


@inline
def begin_in_place(p, r, t, blend):
    """Q := l_zz of knot t, mixed before, or zeros: where there is no choice of memory, registers take its place."""
    if p.separable[t]:
        clear_rows(r.Q, r.ld, r.n + r.nu, r.ld)
    else:
        load_own_costs(p, r, t, blend)
    return r.Q, r.ld


@inline
def load_own_costs(p, r, t, blend):
    """Q := l_zz of knot t, mixed before."""
    load_hessian(r, address_of(p.lzz[t]))


@inline
def nothing_contracted(p, r, t):
    """Contract nothing: that has been done."""


@inline
def cross_plainly(horizon, room, t, blend, by_costate, known):
    """The value where the dynamics arrive, as `ddp.sweeps.gaps.arrive` has it; slopes are found elsewhere."""
    p, r = Horizon(horizon), read_room(room)
    gap, v = floats_at(address_of(p.gaps[t])), array_at(r.v, (1, r.lx))
    change = spread(0.0, gap[0])
    for i in range(r.n):
        change += 0.5 * v[0, i] * gap[i]
    add_product(r.v, r.lx, 1, r.lx, address_of(gap), r.n, 1, r.V, r.lx, r.n)
    for i in range(r.n):
        change += 0.5 * v[0, i] * gap[i]
    return 0.0, change


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


_IN_LANES = {
    read_room: same, load_costs: load_own_costs, tiled_sweep.cross_gap: cross_plainly,
    tiled_sweep.follow: no_slope, hold: nothing_held, tiled_sweep.is_pushed: not_pushed,
    tiled_sweep.knot_of: same, tiled_sweep.contract: nothing_contracted,
    tiled_sweep.begin_with_costs: begin_in_place,
}  # fmt: skip


@cache
def eight_sweeps_of(n: int, nu: int, halved: bool, runs: int, in_blocks: bool) -> Any:
    """The C function that sweeps an `EightSweeps` of some sizes; in_blocks: whether second orders are blocks."""
    name = f"sweep_eight_{n}_{nu}_{int(halved)}_{runs}_{int(in_blocks)}"
    sizes = n, nu, n + nu, n, int(halved), runs, 0  # rows of lanes need no padding
    places, length = places_of(sizes)
    room = inline(specialised(room_on_stack, f"room_of_{name}", _numbers=WIDTH * length, _sizes=sizes, _at=places))
    yes, no = (inline(specialised(answer, word, _flag=word == "yes")) for word in ("yes", "no"))
    blocks = yes if in_blocks else no
    known = {tiled_sweep.has_second: yes, tiled_sweep.has_blocks: blocks, is_given: blocks}
    own = in_lanes(tiled_sweep.sweep, {**_IN_LANES, **known}, (block_at,))
    names = {"recursion": own, "room_in": room, "_numbers": WIDTH * length}
    return written_out(specialised(_sweep_eight, name, **names))

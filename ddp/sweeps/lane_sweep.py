# mypy: allow-untyped-defs, allow-untyped-calls
"""Backward sweeps of eight problems at once, a lane for each: the recursion of tiled_sweep.py, compiled for lanes.

Knots of few states wait for each other more than they compute; eight problems wait together. Loops of so few states are
written out and a knot's matrices are registers, for which no address may depend on what kernels find out. Measured
in nanoseconds a knot of one problem, alone and with seven others: 30 and 6 for 2 states and 1 control, 42 and 13 for 4
and 1; with a second order 30 and 7, 49 and 14. Linear steps of full-space iterations, with the multipliers where they
lead, are found with the sweep: 8 for 4 states, alone 40.

Gaps are plain, controls without limits, and the second order is as contracted; a lane that fails says so, and its
policy means nothing.
"""

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.kernel import inline, specialised
from ddp.compiling.known import written_out
from ddp.machine.aligned import aligned_zeros
from ddp.machine.constants import room as memory
from ddp.machine.declared import each
from ddp.machine.elements import in_lanes
from ddp.machine.following import lanes_at
from ddp.machine.gathering import gather, scatter
from ddp.machine.memory import address_of, floats_at
from ddp.machine.number import WIDTH, all_less, spread, where_less
from ddp.machine.rows import clear_rows, write_rows
from ddp.machine.simd import load, store
from ddp.machine.struct import Struct, integer, integers, reals, several
from ddp.machine.variables import variable_integer
from ddp.machine.written import copied, filled
from ddp.protocols import Array
from ddp.sweeps import tiled_sweep
from ddp.sweeps.box import hold
from ddp.sweeps.gaps import arrive
from ddp.sweeps.horizon import UNSLOPED, Horizon, add_costs, load_costs
from ddp.sweeps.riccati import SMALLEST, block_at, is_given, load_hessian
from ddp.sweeps.room import Room, places_of, read_room
from ddp.sweeps.sized_sweep import always
from ddp.systems.structure import Halves


class EightSweeps(Struct):
    """Sweeps of eight problems: derivatives, T and the k, K that are found at eight addresses each; blends, mus (8,).

    used: addresses of T, or where blends are zero of ``zeros``: T may have numbers there that are not finite.
    linear: whether gaps may be open, and linear steps are written, too, with the multipliers where they lead:
    gaps (N, n), x (N+1, n), u (N, nu), costate (N+1, n), weights (N, n), as of a `ddp.interior.memory.Memory`.
    slopes (8,): changes of costs along these.
    failed, change, steepest (8,): as `ddp.sweeps.tiled_sweep.sweep` returns them.   horizons: of lanes, in the same
    arrays: without gaps, and with some, whose ``bends`` are V and v of the next knots.   separable (N+1,).
    second: numbers of a knot's T.   states, controls, multipliers: x, u, costate of lanes.
    """

    N, n, nu = each(3, integer)
    horizons: tuple[Horizon, ...] = several()
    separable: NDArray[np.int64] = integers()
    A, B, lz, lzz, exact, diagonal, T, used = each(8, integers, constant=False)
    zeros: Array = reals()
    second: int = integer()
    k, K, gaps, x, u, costate, weights = each(7, integers, constant=False)
    linear: int = variable_integer()
    states, controls, multipliers, blends, mus, failed, change, steepest, slopes = each(9, reals, constant=False)


def eight_sweeps(
    sizes: tuple[int, int, int], second: tuple[int, ...], in_blocks: bool, separable: NDArray[np.int64], halves: Halves
) -> EightSweeps:  # fmt: skip
    """Sweeps of eight problems of N knots, n states and nu controls.

    second: shape of a knot's second order.   in_blocks, separable (N+1,), halves: of all problems, see `Horizon`.
    """
    N, n, nu = sizes
    nz = n + nu
    rows = {
        "A": (n, n), "B": (n, nu), "lz": (nz,), "lzz": (nz, nz), "exact": (nz, nz), "diagonal": (nz,), "T": second,
        "k": (nu,), "K": (nu, n), "gaps": (n,), "bends": (n + 1, n),
    }  # fmt: skip
    own = {name: aligned_zeros((N + 1, *shape[:-1], WIDTH * shape[-1])) for name, shape in rows.items()}
    whole = filled(
        Horizon, **own, N=N, n=n, nu=nu, coupled=np.where(separable, 0, nz), h=halves[0], bent=halves[1],
        in_blocks=int(in_blocks), action=np.zeros(nu * nu * WIDTH),
    )  # fmt: skip
    torn = copied(whole)
    torn.torn = UNSLOPED
    numbers = {name: aligned_zeros((WIDTH,)) for name in ("blends", "mus", "failed", "change", "steepest", "slopes")}
    found = {"states": n, "controls": nu, "multipliers": n}
    numbers |= {name: aligned_zeros((N + 1, WIDTH * size)) for name, size in found.items()}
    places = {name: np.zeros(WIDTH, dtype=np.int64) for name in (*rows, "x", "u", "costate", "weights")}
    del places["bends"]
    return EightSweeps(
        N=N, n=n, nu=nu, linear=0, horizons=(whole, torn), separable=separable, second=math.prod(second),
        used=np.zeros(WIDTH, dtype=np.int64), zeros=np.zeros(N * math.prod(second)), **numbers, **places,
    )  # fmt: skip


@inline
def lanes_in(rows):
    """Rows of floats as a vector of lanes."""
    return lanes_at(address_of(rows))


recursion: Any = None
room_in: Any = None
_numbers: Any = None
"""The sweep in lanes, its room, and how many floats that takes, of some sizes: they take their places in the template
below."""


def _sweep_eight(sweeps, unused, none, nothing):  # type: ignore[no-untyped-def]
    """Sweep: an `EightSweeps`."""
    s = EightSweeps(sweeps)
    p, N, n, nu, nz, size = Horizon(s.horizons[1 if s.linear else 0]), s.N, s.n, s.nu, s.n + s.nu, s.second
    blend, mu = load(s.blends, 0), load(s.mus, 0)
    room = room_in(lanes_at(memory(_numbers)))  # memory ends with the kernel that makes it, even if inlined
    for i in range(WIDTH):
        s.used[i] = s.T[i] if s.blends[i] > 0.0 else address_of(s.zeros)
    gather(s.A, 0, lanes_in(p.A), N * n * n)
    gather(s.B, 0, lanes_in(p.B), N * n * nu)
    if s.linear:
        gather(s.gaps, 0, lanes_in(p.gaps), N * n)
    gather(s.lz, 0, lanes_in(p.lz), (N + 1) * nz)
    gather(s.diagonal, 0, lanes_in(p.diagonal), (N + 1) * nz)
    gather(s.used, 0, lanes_in(p.T), N * size)
    for t in range(N + 1):
        if not s.separable[t]:
            load_mixed(s, p, t, blend)
    zero = spread(0.0, blend)
    failed, _, change, steepest = recursion(p.address, room, 0, N, (zero, zero, zero), blend, mu, False, True, False)
    scatter(lanes_in(p.k), N * nu, s.k, 0)
    scatter(lanes_in(p.K), N * nu * n, s.K, 0)
    store(s.failed, 0, failed)
    store(s.change, 0, change)
    store(s.steepest, 0, steepest)
    if s.linear:
        step(s, p, room, zero)


@inline
def load_mixed(s, p, t, blend):
    """Hessians of costs of a knot, in lanes: GN + blend (exact - GN); of what is not asked for, nothing."""
    H, exact, count = lanes_in(p.lzz[t]), lanes_in(p.exact[t]), (s.n + s.nu) * (s.n + s.nu)
    if not all_less(0.999, blend):
        gather(s.lzz, t * count, H, count)
    if not all_less(blend, SMALLEST):
        gather(s.exact, t * count, exact, count)
        for i in range(count):
            mixed = where_less(blend, 1.0, (1.0 - blend) * H[i] + blend * exact[i], exact[i])
            H[i] = where_less(0.0, blend, mixed, H[i])


@inline
def step(s, p, room, zero):
    """Write the step dx' = gap + A dx + B du, du = k + K dx of a sweep, and the multipliers v + V dx where it leads."""
    N, n, nu, slope = s.N, room.n, room.nu, zero
    x, u, w = lanes_in(s.states), lanes_in(s.controls), lanes_in(s.multipliers)
    for i in range(n):
        x[i], w[i] = zero, room.v[i]
    for t in range(N):
        dx, du, after = x[t * n :], u[t * nu :], x[(t + 1) * n :]
        value, gradient = lanes_in(p.bends[t]), lanes_in(p.bends[t])[n * n :]
        add_products(du, lanes_in(p.k[t]), lanes_in(p.K[t]), dx, nu, n)
        add_products(after, lanes_in(p.gaps[t]), lanes_in(p.A[t]), dx, n, n)
        add_products(after, after, lanes_in(p.B[t]), du, n, nu)
        add_products(w[(t + 1) * n :], gradient, value, after, n, n)
        slope = add_slope(slope, lanes_in(p.lz[t]), dx, n)
        slope = add_slope(slope, lanes_in(p.lz[t])[n:], du, nu)
    store(s.slopes, 0, add_slope(slope, lanes_in(p.lz[N]), x[N * n :], n))
    scatter(x, (N + 1) * n, s.x, 0)
    scatter(u, N * nu, s.u, 0)
    scatter(w, (N + 1) * n, s.costate, 0)
    scatter(w[n:], N * n, s.weights, 0)


@inline
def add_products(out, start, M, x, rows, columns):
    """out := start + M x, of lanes."""
    for i in range(rows):
        total = start[i]
        for j in range(columns):
            total += M[i * columns + j] * x[j]
        out[i] = total


@inline
def add_slope(total, gradient, x, count):
    """A slope in lanes and that of ``count`` more numbers: gradientᵀ x."""
    for i in range(count):
        total += gradient[i] * x[i]
    return total


# -- what the recursion calls of lanes in other words ------------------------------------------------

_sizes: Any = None
_at: Any = None
"""Placeholders: sizes of a room, and the places of its parts."""


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


@inline
def begin_in_place(p, r, t, blend):
    """Q := l_zz of knot t, mixed before, or zeros: where there is no choice of memory, registers take its place."""
    if p.coupled[t] == 0:
        clear_rows(r.Q, r.ld, r.n + r.nu, r.ld)
    else:
        load_own_costs(p, r, t, blend)
    return r.Q, r.ld


@inline
def load_own_costs(p, r, t, blend):
    """Q := l_zz of knot t, mixed before."""
    load_hessian(r, address_of(p.lzz[t]))


@inline
def nothing_added(p, r, t, blend):
    """Add nothing: Hessians are whole."""


@inline
def nothing_contracted(p, r, t):
    """Contract nothing: that has been done."""


@inline
def cross_plainly(horizon, room, t, blend, by_costate, known):
    """The value where the dynamics arrive, of plain gaps, and a copy of that behind the gap."""
    p, r = Horizon(horizon), read_room(room)
    value = address_of(p.bends[t])
    write_rows(value, r.n, r.V, r.lx, r.n, r.n)
    write_rows(value + 8 * r.n * r.n, r.n, r.v, r.lx, 1, r.n)
    return arrive(r, floats_at(address_of(p.gaps[t])))


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
    read_room: same, load_costs: load_own_costs, add_costs: nothing_added, tiled_sweep.cross_gap: cross_plainly,
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
    no, yes = always("no", False), always("yes", True)
    blocks = yes if in_blocks else no
    known = {tiled_sweep.has_second: yes, tiled_sweep.has_blocks: blocks}
    known |= {is_given: blocks, tiled_sweep.has_coupling: no, tiled_sweep.has_ends: no}
    own = in_lanes(tiled_sweep.sweep, {**_IN_LANES, **known}, (block_at,))
    names = {"recursion": own, "room_in": room, "_numbers": WIDTH * length}
    return written_out(specialised(_sweep_eight, name, **names))

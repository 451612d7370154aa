# mypy: allow-untyped-defs, allow-untyped-calls
"""Closed loops of compiled steps of eight states: a lane for each step length, or for each problem of a batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from ddp.compiling.kernel import call_contraction, callback, inline, kernel
from ddp.machine.addresses import array_at, integers_at
from ddp.machine.aligned import aligned_zeros
from ddp.machine.bound import c_function, outline_of, words_of
from ddp.machine.fields import Fields, vector
from ddp.machine.following import feedback, follower, lanes_at, where_moved
from ddp.machine.memory import address_of, as_matrix, rows_of
from ddp.machine.number import WIDTH, lane_of, spread, where_less, with_lane
from ddp.machine.packing import unpack_columns
from ddp.machine.struct import Struct, integer
from ddp.machine.trajectories import Lengths, Trajectory, rolled_out
from ddp.protocols import Array
from ddp.systems.system import Routines, Stepping
from ddp.tracing.evaluate import Compiled, evaluate, evaluate_two
from ddp.tracing.layout import Block
from ddp.tracing.spaces import Space


class Moving(Fields):
    """States, controls and parameters, one behind the other, as steps take them; the next states.

    pair: arguments of ⊕ and ⊖.   dx: deviations.   broken: NaN of what has diverged.   own_x, own_u: of `track`.
    """

    x, u, p = vector("nx"), vector("nu"), vector("np")
    after, pair, dx, broken = vector("nx"), vector("2 nx + n"), vector("n"), vector("1")
    own_x, own_u = vector("nx"), vector("nu")


class Motion(Struct):
    """A system of compiled steps, see `Stepping`, with addresses of its ⊕ and ⊖, 0 of plain numbers.

    p: address of ``np`` parameters.   memory: of a `Moving`.
    """

    nx: int = integer()
    n: int = integer()
    nu: int = integer()
    np: int = integer()
    step: int = integer()
    context: int = integer()
    p: int = integer()
    plus: int = integer()
    minus: int = integer()
    memory: int = integer()


def motion_of(step: Stepping, space: Space, nu: int, memory: Array) -> Motion:
    """A `Motion`; whoever uses it keeps its arguments."""
    plus, minus = (0, 0) if space.is_plain else (space.code.addresses["plus"], space.code.addresses["minus"])
    return Motion(
        nx=space.nx, n=space.n, nu=nu, np=len(step.parameters), step=step.address, context=step.context,
        p=step.parameters.ctypes.data, plus=plus, minus=minus, memory=memory.ctypes.data,
    )  # fmt: skip


def size(step: Stepping, space: Space, nu: int) -> int:
    """Lanes that a `Moving` takes."""
    return Moving.size(nx=space.nx, nu=nu, np=len(step.parameters), n=space.n)


@kernel
def moving(motion):
    """The `Moving` of a `Motion`, with its parameters, none of it diverged."""
    m = Motion(motion)
    r, p = Moving(lanes_at(m.memory), m.nx, m.nu, m.np, m.n), array_at(m.p, (m.np,))
    for i in range(m.np):
        r.p[i] = p[i]
    r.broken[0] = 0.0
    return r


@kernel
def deviate(motion, X, x, dx):
    """dx := x ⊖ X of eight states x, from eight states X or from one."""
    m = Motion(motion)
    if m.minus == 0:
        for i in range(m.n):
            dx[i] = x[i] - X[i]
        return
    pair = Moving(lanes_at(m.memory), m.nx, m.nu, m.np, m.n).pair
    for i in range(m.nx):
        pair[i], pair[m.nx + i] = x[i], spread(X[i], x[0])
    call_contraction(m.minus, address_of(pair), address_of(dx), 0, 0)


@kernel
def advance(motion, t, x, u):
    """x := the next states; NaN from where they, or controls, are no finite numbers."""
    m = Motion(motion)
    r = Moving(lanes_at(m.memory), m.nx, m.nu, m.np, m.n)
    broken = r.broken[0]
    for i in range(m.nx):
        r.x[i] = x[i]
    for i in range(m.nu):
        r.u[i] = u[i]
        broken = broken_by(u[i], broken)
    call_contraction(m.step, address_of(r.x), address_of(r.after), m.context, t)
    for i in range(m.nx):
        broken = broken_by(r.after[i], broken)
    for i in range(m.nx):
        x[i] = r.after[i] - broken
    r.broken[0] = broken


@inline
def broken_by(x, broken):
    """NaN in lanes where x is no finite number."""
    return where_less(x, np.inf, where_less(-np.inf, x, broken, np.nan), np.nan)


@kernel
def open_gap(motion, x, dx):
    """x := x ⊕ dx, and to the last bit x where dx is zero."""
    m = Motion(motion)
    r = Moving(lanes_at(m.memory), m.nx, m.nu, m.np, m.n)
    for i in range(m.nx):
        r.pair[i], r.after[i] = x[i], x[i]
    for i in range(m.n):
        r.pair[m.nx + i] = dx[i]
    if m.plus == 0:
        for i in range(m.nx):
            r.after[i] = x[i] + dx[i]
    else:
        call_contraction(m.plus, address_of(r.pair), address_of(r.after), 0, 0)
    where_moved(dx, m.n, r.after, x, m.nx)


@kernel
def write(x, m, out, s, begin):
    """Columns from ``begin`` on of rows s, s + 1, ... := m lanes, as many as there are: steps may leave others out."""
    many = min(WIDTH, len(out) - s)
    if many == WIDTH:
        unpack_columns(x, m, out, s, begin)
        return
    for lane in range(many):
        row = out[s + lane]
        for i in range(m):
            row[begin + i] = lane_of(x[i], lane)


@kernel
def track(motion, X, U, k, K, alphas, gaps, lower, upper, Xs, Us):
    """Closed-loop rollouts Xs (S, N+1, nx), Us (S, N, nu), see `system.System.track`, a lane for each step length.

    motion: address of a `Motion`.   lower, upper (N, nu) or (1, nu).
    """
    m, r = Motion(motion), moving(motion)
    N, nx, n, nu, last, torn = len(U), m.nx, m.n, m.nu, len(alphas) - 1, gaps.any()
    x, u = r.own_x, r.own_u
    nominal, controls, steps, gains, open_gaps = rows_of(X), rows_of(U), rows_of(k), rows_of(K), rows_of(gaps)
    low, high, states, applied = rows_of(lower), rows_of(upper), rows_of(Xs), rows_of(Us)
    for s in range(0, len(alphas), WIDTH):
        alpha = spread(0.0, r.x[0])
        for lane in range(WIDTH):
            alpha = with_lane(alpha, lane, alphas[min(s + lane, last)])
        r.broken[0] = 0.0
        for i in range(nx):
            x[i] = nominal[0, i]
        write(x, nx, states, s, 0)
        for t in range(N):
            limit, own_gains = min(t, len(low) - 1), as_matrix(gains[t], nu, n)
            deviate(motion, nominal[t], x, r.dx)
            feedback(alpha, controls[t], steps[t], own_gains, low[limit], high[limit], n, nu, r.dx, u)
            write(u, nu, applied, s, t * nu)
            advance(motion, t, x, u)
            if torn:
                for i in range(n):
                    r.dx[i] = (alpha - 1.0) * open_gaps[t, i]
                open_gap(motion, x, r.dx)
            write(x, nx, states, s, (t + 1) * nx)


def tracked(
    step: Stepping, space: Space, X: Array, U: Array, k: Array, K: Array, alphas: Array, gaps: Array, limits: Any
) -> tuple[Array, Array]:
    """Closed-loop rollouts of compiled steps, see `system.System.track`."""
    Xs, Us = np.empty((len(alphas), *X.shape)), np.empty((len(alphas), *U.shape))
    rows = (limit if limit.ndim == 2 else limit[None] for limit in limits)
    parts = X, U, k, K, alphas, gaps, *rows
    given = [part if part.flags.c_contiguous else np.ascontiguousarray(part) for part in parts]
    memory = aligned_zeros((size(step, space, U.shape[1]), WIDTH))
    motion = motion_of(step, space, U.shape[1], memory)
    track(motion.address, *given, Xs, Us)
    return Xs, Us


# -- of batches ------------------------------------------------------------------------------------------------------


@inline
def motion_at(context):
    """The address of a `Motion`, the first word of a context."""
    return integers_at(context, (1,))[0]


@inline
def system(context):
    """The address of a `Motion`, ready to begin."""
    moving(motion_at(context))
    return motion_at(context)


bound: Any = None


def expand(context, trajectory, first, second):  # type: ignore[no-untyped-def]
    """First order of a `Trajectory` and its record, if ``first``: x and u, to which ``second`` adds nothing."""
    given, t = bound(context), Trajectory(trajectory)
    p, f, B, N, n, nu = given[1], given[2], given[3], t.N, t.n, t.nu
    if first != 0:
        evaluate_two(
            f.address, p, f.outputs, f.template, f.places, B.template, B.places, array_at(t.X, (N, t.nx)),
            array_at(t.U, (N, nu)), array_at(t.A, (N, n, n)), array_at(t.B, (N, n, nu)),
            array_at(t.record, (N, t.records)),
        )  # fmt: skip


def contract(context, trajectory, unused, none):  # type: ignore[no-untyped-def]
    """Second order of a `Trajectory` with its weights, into T as Hessians."""
    given, t = bound(context), Trajectory(trajectory)
    p, f, N, nz = given[1], given[4], t.N, t.n + t.nu
    record, weights, nothing = array_at(t.record, (N, t.records)), array_at(t.weights, (N, t.n)), array_at(t.U, (N, 0))
    out = array_at(t.T, (N, nz * nz))
    evaluate(f.address, record, nothing, weights, p, f.outputs, f.template, f.places, out)


def track_lengths(context, lengths, unused, none):  # type: ignore[no-untyped-def]
    """Roll out `Lengths`."""
    X, U, k, K, alphas, gaps, lower, upper, Xs, Us = rolled_out(Lengths(lengths))
    track(motion_at(context), X, U, k, K, alphas, gaps, lower, upper, Xs, Us)


_callback = cache(callback)
_follow = follower("follow_traced", system, deviate, advance, open_gap)


@cache
def functions_of(outline: Any) -> dict[str, Callable[[], Any]]:
    """Makers of the C functions of traced steps, whose contexts are of that outline."""
    return {
        "follow": partial(_callback, _follow), "track": partial(_callback, track_lengths),
        "expand": cache(partial(c_function, expand, outline, evaluate_two=evaluate_two)),
        "contract": cache(partial(c_function, contract, outline, evaluate=evaluate)),
    }  # fmt: skip


def routines_of(step: Stepping, space: Space, nu: int, first: Compiled, B: Block, second: Compiled) -> Routines:
    """The routines of traced steps, given by their derivatives, with memory of their own.

    first: of first order, with the block by x.   B: its block by u.
    """
    memory = aligned_zeros((size(step, space, nu), WIDTH))
    motion = motion_of(step, space, nu, memory)
    given = motion.address, step.parameters, first, B, second
    kept: list[Any] = []
    words = np.array(words_of(given, kept), dtype=np.int64)
    return Routines(functions_of(outline_of(given)), words.ctypes.data, (words, kept, motion, memory, step, space))

# mypy: allow-untyped-defs, allow-untyped-calls
"""Closed loops of compiled steps of eight states: a lane for each step length, or for each problem of a batch."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ddp.compiling.kernel import call_contraction, callback, inline, kernel
from ddp.machine.addresses import array_at, integers_at
from ddp.machine.aligned import aligned_zeros
from ddp.machine.bound import c_function, read
from ddp.machine.declared import each
from ddp.machine.fields import Fields, vector
from ddp.machine.following import eight_of, follower, lanes_at, strayer, where_moved
from ddp.machine.memory import address_of
from ddp.machine.number import WIDTH, where_less
from ddp.machine.struct import Struct, integer, nested, reals
from ddp.machine.trajectories import Eight, Lengths, Trajectory
from ddp.machine.written import address, filled, point_to
from ddp.protocols import Array
from ddp.systems.system import Routines, Stepping
from ddp.tracing.evaluate import evaluate, evaluate_two
from ddp.tracing.spaces import Space


class Moving(Fields):
    """States, controls and parameters, one behind the other, as steps take them; the next states.

    pair: arguments of ⊕ and ⊖.   dx: deviations.   broken: NaN of what has diverged.
    """

    x, u, p = vector("nx"), vector("nu"), vector("np")
    after, pair, dx, broken = vector("nx"), vector("2 nx + n"), vector("n"), vector("1")


class Motion(Struct):
    """A system of compiled steps, see `Stepping`, with addresses of its ⊕ and ⊖, 0 of plain numbers.

    p (np,): parameters.   memory: of a `Moving`.   eight: for step lengths, which the C function ``follow`` rolls out.
    """

    nx, n, nu, np, step, context = each(6, integer)
    p: Array = reals()
    plus, minus = each(2, integer)
    memory: Array = reals(constant=False)
    eight: Eight = nested(Eight)
    follow: int = integer()


def motion_of(step: Stepping, space: Space, nu: int, N: int) -> Motion:
    """A `Motion` of N steps, with memory of its own; whoever uses it keeps the step and the space."""
    plus, minus = (0, 0) if space.is_plain else (space.code.addresses["plus"], space.code.addresses["minus"])
    sizes = {"nx": space.nx, "n": space.n, "nu": nu, "np": len(step.parameters)}
    return filled(
        Motion, **sizes, step=step.address, context=step.context, p=step.parameters, plus=plus, minus=minus,
        memory=aligned_zeros((WIDTH * Moving.size(**sizes),)), eight=eight_of(N, space.nx, space.n, nu),
        follow=_follow.address,
    )  # fmt: skip


@inline
def moving_of(m):
    """The `Moving` of a `Motion`."""
    return Moving(lanes_at(address_of(m.memory)), m.nx, m.nu, m.np, m.n)


@kernel
def moving(motion):
    """The `Moving` of a `Motion`, with its parameters, none of it diverged."""
    m = Motion(motion)
    r = moving_of(m)
    for i in range(m.np):
        r.p[i] = m.p[i]
    r.broken[0] = 0.0
    return r


@kernel
def deviate(motion, X, x, dx):
    """dx := x ⊖ X of eight states."""
    m = Motion(motion)
    if m.minus == 0:
        for i in range(m.n):
            dx[i] = x[i] - X[i]
        return
    pair = moving_of(m).pair
    for i in range(m.nx):
        pair[i], pair[m.nx + i] = x[i], X[i]
    call_contraction(m.minus, address_of(pair), address_of(dx), 0, 0)


@kernel
def advance(motion, t, x, u):
    """x := the next states; NaN from where they, or controls, are no finite numbers."""
    m = Motion(motion)
    r = moving_of(m)
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
    r = moving_of(m)
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


@inline
def motion_at(context):
    """The address of a `Motion`, the first word of a context."""
    return integers_at(context, (1,))[0]


@inline
def system(context, memory):
    """The address of a `Motion`, ready to begin."""
    moving(motion_at(context))
    return motion_at(context)


@inline
def advance_anew(motion, t, x, u):
    """x := the next states of knots that do not follow from others."""
    moving_of(Motion(motion)).broken[0] = 0.0
    advance(motion, t, x, u)


@inline
def own_of(motion):
    """Vectors of a `Moving` for a step."""
    r = moving_of(Motion(motion))
    return r.x, r.u, r.dx, r.after


@inline
def is_flat(motion, nx, n):
    """Whether states move by plain sums."""
    return Motion(motion).plus == 0


_follow = callback(follower("follow_traced", system, deviate, advance, open_gap))
_strayer = callback(strayer("stray_traced", system, deviate, advance_anew, open_gap, own_of, is_flat))


@kernel
def track(context, lengths):
    """Roll out `Lengths`, eight of them at once, as problems that are equal but for these."""
    p, m = Lengths(lengths), Motion(motion_at(context))
    e = m.eight
    e.lower, e.upper, e.torn = p.lower, p.upper, array_at(p.gaps, (p.N * p.n,)).any()
    for s in range(0, p.count, WIDTH):
        for lane in range(WIDTH):
            k = min(s + lane, p.count)
            e.X[lane], e.U[lane], e.k[lane], e.K[lane], e.gaps[lane] = p.X, p.U, p.k, p.K, p.gaps
            e.to_X[lane], e.to_U[lane] = p.to_X + 8 * k * (p.N + 1) * p.nx, p.to_U + 8 * k * p.N * p.nu
            e.alphas[lane] = p.alphas[min(k, p.count - 1)]
        call_contraction(m.follow, context, e.address, 0, 0)


def _track(context, lengths, unused, none):  # type: ignore[no-untyped-def]
    """C function of `track`."""
    track(context, lengths)


_last = threading.local()
"""The `Motion` of a thread's last rollouts, ``kept`` with its sizes, space and step: others of its size take it."""


def tracked(
    step: Stepping, space: Space, X: Array, U: Array, k: Array, K: Array, alphas: Array, gaps: Array, limits: Any
) -> tuple[Array, Array]:
    """Closed-loop rollouts of compiled steps, see `system.System.track`."""
    N, nu, count = len(U), U.shape[1], len(alphas)
    Xs, Us, bounds = np.empty((count + 1, *X.shape)), np.empty((count + 1, *U.shape)), np.empty((2, *U.shape))
    bounds[0], bounds[1] = limits
    parts = {"X": X, "U": U, "k": k, "K": K, "gaps": gaps, "lower": bounds[0], "upper": bounds[1], "alphas": alphas}
    given = {name: np.ascontiguousarray(part, dtype=float) for name, part in parts.items()}
    words = {name: address(part) for name, part in {**given, "to_X": Xs, "to_U": Us}.items()}
    words |= {"N": N, "nx": space.nx, "n": space.n, "nu": nu, "count": count, "to_notes": 0, "noted": 0}
    lengths = np.array([words[name] for name in Lengths._fields], dtype=np.int64)  # all of them are single words
    sizes, kept = (len(step.parameters), nu, N), getattr(_last, "kept", None)
    if kept is None or kept[0] != sizes or kept[1] is not space:
        motion = motion_of(step, space, nu, N)
    else:
        motion = kept[2]
        if kept[3] is not step:  # compositions make one for every rollout
            point_to(motion, step=step.address, context=step.context, p=address(step.parameters))
    _last.kept = sizes, space, motion, step
    context = np.array([motion.address])
    track(address(context), address(lengths))
    return Xs[:count], Us[:count]


bound: Any = None


def expand(context, trajectory, first, second):  # type: ignore[no-untyped-def]
    """First order of a `Trajectory` and its record, if ``first``: x and u, to which ``second`` adds nothing."""
    given, t = bound(context), Trajectory(trajectory)
    p, f, B, N, n, nu = given[1], given[2], given[3], t.N, t.n, t.nu
    if first != 0:
        evaluate_two(
            f, B, p, array_at(t.X, (N, t.nx)), array_at(t.U, (N, nu)), array_at(t.A, (N, n, n)),
            array_at(t.B, (N, n, nu)), array_at(t.record, (N, t.records)),
        )  # fmt: skip


def contract(context, trajectory, unused, none):  # type: ignore[no-untyped-def]
    """Second order of a `Trajectory` with its weights, into T as Hessians."""
    given, t = bound(context), Trajectory(trajectory)
    p, f, N, nz = given[1], given[4], t.N, t.n + t.nu
    record, weights, nothing = array_at(t.record, (N, t.records)), array_at(t.weights, (N, t.n)), array_at(t.U, (N, 0))
    out = array_at(t.T, (N, nz * nz))
    evaluate(f, record, nothing, weights, p, out)


_tracker = callback(_track)


def routines_of(step: Stepping, space: Space, nu: int, N: int, first: Any, B: Any, second: Any) -> Routines:
    """The routines of N traced steps, given by their derivatives, with memory of their own.

    first, B, second: as ``evaluate_two`` and ``evaluate`` take them.
    """
    motion = motion_of(step, space, nu, N)
    given = motion.address, step.parameters, first, B, second
    found: list[int] = []
    kept: list[Any] = []
    outline = read(given, found, kept)
    functions: dict[str, Callable[[], Any]] = {
        "follow": lambda: _follow, "track": lambda: _tracker, "stray": lambda: _strayer,
        "expand": partial(c_function, expand, outline, evaluate_two=evaluate_two),
        "contract": partial(c_function, contract, outline, evaluate=evaluate),
    }  # fmt: skip
    words = np.array(found, dtype=np.int64)
    return Routines(functions, words.ctypes.data, (words, kept, motion, step, space))

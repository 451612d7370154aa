# mypy: allow-untyped-defs, allow-untyped-calls
"""Steps of four states at once, and closed-loop rollouts of four step lengths: a line search for the price of one.

Under α:  u = clip(U + α k + K (x ⊖ X)),  x' = f(x, u) ⊕ (α - 1) gap.
"""

from functools import cache
from typing import Any, NamedTuple

from ddp.compiling.kernel import apart, callback, kernel, specialised, variant
from ddp.machine.addresses import integers_at
from ddp.machine.fields import Fields, vector
from ddp.machine.following import feedback
from ddp.machine.memory import as_matrix, as_quads, floats_at, memory_of, rows_of
from ddp.machine.number import QUAD, spread, where_less, with_lane
from ddp.machine.packing import pack, unpack, unpack_columns
from dynamics.geometry.configuration import difference_state, integrate_configuration, integrate_state
from dynamics.robots.tree import Tree
from dynamics.steps.advance import advance_freely, free_scratch
from dynamics.steps.modes import Modes


class Rolling(Fields):
    """A state, controls, their deviations from a nominal state, and another configuration."""

    x, u, dx, q = vector("nq + nv"), vector("nu"), vector("2 nv"), vector("nq")


class Straying(Fields):
    """A state, controls, a tangent vector, and another state."""

    x, u, dx, y = vector("nq + nv"), vector("nu"), vector("2 nv"), vector("nq + nv")


def size(roller: "Roller", tree: Tree, nu: int, stages: int, m: int, nc: int) -> int:
    """Lanes of memory that rollouts take, for an explicit step's stages, m contacts and nc forces at most."""
    quads = Straying.size(tree, nu=nu) + roller.size(tree, stages, m, nc)
    return -(-quads * QUAD // 8) + 1


# -- one step --------------------------------------------------------------------------------------------------------


@kernel
def run_end(schedule, t):
    """The first knot after t of another mode."""
    end = t + 1
    while end < schedule.size and schedule[end] == schedule[t]:
        end += 1
    return end


scratch: Any = free_scratch
advance: Any = advance_freely
"""Kernels by which knots are stepped: in the two templates below others take their place, see ``roller``."""


def _step(context, memory, schedule, X, U, Xn):  # type: ignore[no-untyped-def]
    """Xn (M, nx) := the next states of knots with the modes of ``schedule`` (M,)."""
    modes, nx, nu, t = Modes(context), X.shape[1], U.shape[1], 0
    states, controls, out = rows_of(X), rows_of(U), rows_of(Xn)
    own = Rolling(as_quads(memory_of(memory)), modes.tree, nu)
    while t < len(U):
        end, mode = run_end(schedule, t), schedule[t]
        w = scratch(modes, mode, own.end)
        for begin in range(t, end, QUAD):
            pack(states[:end], begin, own.x, nx)
            pack(controls[:end], begin, own.u, nu)
            advance(modes, mode, own.x, own.u, w)
            unpack(own.x, nx, out[:end], begin)
        t = end


def _stray(context, memory, schedule, X, dX, U, to, gaps):  # type: ignore[no-untyped-def]
    """to (N+1, nx) := X ⊕ dX but for the first state, gaps (N, n) := f(to, U) ⊖ to."""
    modes, nx, n, nu, t = Modes(context), X.shape[1], dX.shape[1], U.shape[1], 0
    states, moves, controls, out, opened = rows_of(X), rows_of(dX), rows_of(U), rows_of(to), rows_of(gaps)
    own = Straying(as_quads(memory_of(memory)), modes.tree, nu)
    for begin in range(0, len(X), QUAD):
        pack(states, begin, own.x, nx)
        pack(moves, begin, own.dx, n)
        integrate_state(modes.tree, own.x, own.dx, own.y)
        unpack(own.y, nx, out, begin)
    for i in range(nx):
        out[0, i] = states[0, i]
    while t < len(U):
        end, mode = run_end(schedule, t), schedule[t]
        w = scratch(modes, mode, own.end)
        for begin in range(t, end, QUAD):
            pack(out[:end], begin, own.x, nx)
            pack(controls[:end], begin, own.u, nu)
            advance(modes, mode, own.x, own.u, w)
            pack(out[: end + 1], begin + 1, own.y, nx)
            difference_state(modes.tree, own.y, own.x, own.dx)
            unpack(own.dx, n, opened[:end], begin)
        t = end


# -- rollouts --------------------------------------------------------------------------------------------------------


@apart
def open_gap(tree, alpha, gap, x, dx, new):
    """x := x ⊕ (α - 1) gap, and to the last bit x where α = 1; dx, new: scratch, the latter for a configuration."""
    n, nq, closed = 2 * tree.nv, tree.nq, True
    for i in range(n):
        closed = closed and gap[i] == 0.0
    if closed:
        return
    share = alpha - 1.0
    for i in range(n):
        dx[i] = share * gap[i]
    integrate_configuration(tree, x, dx, 1.0, new)
    for i in range(nq):
        x[i] = where_less(share * share, 1e-300, x[i], new[i])
    for i in range(tree.nv):
        x[nq + i] += dx[tree.nv + i]


def _track(  # type: ignore[no-untyped-def]
    context, memory, schedule, X, U, k, K, alphas, gaps, lower, upper, Xs, Us, notes
):
    """Rollouts Xs (s, N+1, nx), Us (s, N, nu) from X[0], for as many α as there are, four at a time.

    Gains and gaps of no knots, (0, ...), are zeros, and so is k then.
    notes (s, N, .): contact forces of every step, points' in the world's axes and surfaces' in their own; or (s, N, 0).
    """
    (N, nu), nx, n, most = U.shape, X.shape[1], gaps.shape[1], notes.shape[2]
    modes, controls, steps, gains = Modes(context), rows_of(U), rows_of(k), rows_of(K)
    tree = modes.tree
    nominal, low, high, torn = rows_of(X), rows_of(lower), rows_of(upper), rows_of(gaps)
    to_X, to_U, to_notes = rows_of(Xs), rows_of(Us), rows_of(notes)
    own = Rolling(as_quads(memory_of(memory)), tree, nu)
    for begin in range(0, len(alphas), QUAD):
        count = min(QUAD, len(alphas) - begin)
        alpha = spread(0.0, own.x[0])
        for lane in range(QUAD):
            alpha = with_lane(alpha, lane, alphas[begin + min(lane, count - 1)])
        for i in range(nx):
            own.x[i] = nominal[0, i]
        unpack(own.x, nx, to_X, begin)
        for t in range(N):
            mode = schedule[t]
            if t == 0 or mode != schedule[t - 1]:
                w = scratch(modes, mode, own.end)
            if len(gains) > 0:
                difference_state(tree, nominal[t], own.x, own.dx)
                own_gains = as_matrix(gains[t], nu, n)
                feedback(alpha, controls[t], steps[t], own_gains, low[t], high[t], n, nu, own.dx, own.u)
            else:
                for i in range(nu):
                    own.u[i] = controls[t, i]
            unpack_columns(own.u, nu, to_U, begin, t * nu)
            advance(modes, mode, own.x, own.u, w)
            unpack_columns(w.push.f, min(modes.table[mode, 2], most), to_notes, begin, t * most)
            if len(torn) > 0:
                open_gap(tree, alpha, torn[t], own.x, own.dx, own.q)
            unpack_columns(own.x, nx, to_X, begin, (t + 1) * nx)


def _step_eight(inputs, outputs, context, t):  # type: ignore[no-untyped-def]
    """C function of `system.Stepping`: two quads, or the first alone.

    context: words, which are the addresses of `Modes`, of memory and of modes of knots, nx, nu, and how many quads.
    """
    w = integers_at(context, (6,))
    modes, nx, nu = Modes(w[0]), w[3], w[4]
    mode = integers_at(w[2], (t + 1,))[t]
    given, after = as_quads(floats_at(inputs)), as_quads(floats_at(outputs))
    own = Rolling(as_quads(floats_at(w[1])), modes.tree, nu)
    w_step = scratch(modes, mode, own.end)
    for half in range(w[5]):
        for i in range(nx):
            own.x[i] = given[2 * i + half]
        for i in range(nu):
            own.u[i] = given[2 * (nx + i) + half]
        advance(modes, mode, own.x, own.u, w_step)
        for i in range(nx):
            after[2 * i + half] = own.x[i]


class Roller(NamedTuple):
    """Kernels of steps and rollouts.

    room: the memory that a step takes.   eight ``(kind of Modes)``: a C function of eight states, see `_step_eight`.
    """

    room: type[Fields]
    step: Any
    stray: Any
    track: Any
    eight: Any

    def size(self, tree: Tree, stages: int, m: int, nc: int) -> int:
        """Numbers of memory that a step takes."""
        return self.room.size(tree, stages=stages, m=m, nc=nc, entries=m)


def roller(name: str, room: type[Fields], scratch: Any, advance: Any, whole: bool = False) -> Roller:
    """Kernels of steps that are made by ``advance(modes, mode, x, u, scratch(modes, mode, memory))``.

    room: what scratch memory is a record of; its ``push.f`` are contact forces.
    whole: whether rollouts are compiled with all that they call inlined, where a step is so short that calls count.
    """
    step = variant(_step, f"step_{name}", scratch=scratch, advance=advance)
    track = variant(_track, f"track_{name}", whole, scratch=scratch, advance=advance)
    stray = variant(_stray, f"stray_{name}", scratch=scratch, advance=advance)

    @cache
    def eight(kind: type[Modes]) -> Any:
        own = f"step_eight_{name}_{kind.__name__}"
        return callback(specialised(_step_eight, own, scratch=scratch, advance=advance, Modes=kind))

    return Roller(room, step, stray, track, eight)

# mypy: allow-untyped-defs, allow-untyped-calls
"""C functions of robots' steps for whole trajectories: see `ddp.systems.system.Routines`.

Those of many problems are compiled for their robot, of the same kernels as all others, if it has no more than `MOST`
degrees of freedom: see `ddp.compiling.known`. Of a pendulum, a cart-pole, a UR5, a quadrotor and a panda rollouts take
.38, .29, .52, .70 and .62 of the time, first order .19, .16, .49, .35 and .60, second order .40, .39, .79, .70 and .80;
for 2 s of the compiler, 6 for a UR5 and 14 for a panda, while others worked beside it.
"""

from collections import namedtuple
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.kernel import callback, inline, kernel, specialised
from ddp.compiling.known import written_out
from ddp.machine.addresses import array_at, integers_at
from ddp.machine.carved import carved
from ddp.machine.constants import Frozen, frozen, place, room
from ddp.machine.declared import each
from ddp.machine.following import follower, lanes_at, strayer, where_moved
from ddp.machine.memory import address_of
from ddp.machine.struct import Struct, integer, integers
from ddp.machine.trajectories import Lengths, Trajectory, rolled_out
from ddp.machine.written import address, filled, point_to
from ddp.systems.system import Routines
from dynamics.geometry.configuration import difference_state, integrate_state
from dynamics.robots.tree import Tree
from dynamics.steps.advance import FreeScratch, advance_freely, free_scratch
from dynamics.steps.lane_contraction import contract_knots
from dynamics.steps.modes import Modes, step_of
from dynamics.steps.schemes import Scheme

MOST = 10
"""Degrees of freedom, at most, of robots for which code of their own is compiled: see above for what that saves."""

FEW = 4
"""Degrees of freedom, at most, of robots whose loops of the second order are written out: beyond, that is no faster."""


class Work(Struct):
    """Everything that the routines of one thread need: addresses of `Modes` and of memory, and how much of it.

    schedule (N,): modes of knots.   rollouts, tracks: of eight problems, and of one.
    groups: what `lane_contraction.contract_knots` is given.
    """

    modes: int = integer()
    schedule: NDArray[np.int64] = integers()
    rollouts, tracks, tracking, expansions, expanding, contractions, contracting, groups, grouped = each(9, integer)


Robot = namedtuple("Robot", "modes scratch new")
"""Modes of steps and what steps work with; new: scratch for a state."""


_frozen: Any = None
_numbers: Any = 0
"""Placeholders of the content of one robot's `Modes`, and of how many floats work with it takes on the stack."""


@inline
def modes_of(w):
    """The address of the `Modes` of a `Work`."""
    return w.modes


def known_modes(w):  # type: ignore[no-untyped-def]
    """The address of `Modes` that are constants."""
    return place(_frozen)


@inline
def room_of(address, stack):
    """The address of working memory."""
    return address


@inline
def known_room(address, stack):
    """The address of working memory on the caller's stack, which registers replace where loops are written out."""
    return stack


@inline
def known_sizes(s, p):
    """Sizes of a robot that is known."""
    tree = s.modes.tree
    return tree.nq + tree.nv, 2 * tree.nv, s.modes.nu


def robot(context, memory):  # type: ignore[no-untyped-def]
    """The robot of a `Work`."""
    w = Work(context)
    modes = Modes(modes_of(w))
    scratch = free_scratch(modes, 0, lanes_at(room_of(w.rollouts, memory)))
    return Robot(modes, scratch, scratch.end)


@inline
def deviate(s, X, x, dx):
    """dx := x ⊖ X."""
    difference_state(s.modes.tree, X, x, dx)


@inline
def advance(s, t, x, u):
    """x := the next state."""
    advance_freely(s.modes, 0, x, u, s.scratch)


@inline
def open_gap(s, x, dx):
    """x := x ⊕ dx."""
    tree = s.modes.tree
    integrate_state(tree, x, dx, s.new)
    where_moved(dx, 2 * tree.nv, s.new, x, tree.nq + tree.nv)


@kernel
def nothing(context, A, B, record):
    """Complete no record."""


track: Any = None
linearize: Any = None
complete: Any = None
contract: Any = None
stray: Any = None
"""Kernels by which knots are rolled out, linearised, contracted and stray: those of a `Scheme` take their places in the
templates below."""


def _track(context, lengths, unused, none):  # type: ignore[no-untyped-def]
    """Roll out `Lengths`."""
    w, p = Work(context), Lengths(lengths)
    X, U, k, K, alphas, gaps, lower, upper, Xs, Us, notes = rolled_out(p)
    memory, schedule = array_at(w.tracks, (w.tracking, 8)), integers_at(address_of(w.schedule), (p.N,))
    track(modes_of(w), memory, schedule, X, U, k, K, alphas, gaps, lower, upper, Xs, Us, notes)


@inline
def own_of(s):
    """Vectors behind a `Robot`'s others, for steps of eight knots."""
    tree = s.modes.tree
    x = s.new[tree.nq + tree.nv :]
    dx = x[tree.nq + tree.nv :]
    after = dx[2 * tree.nv :]
    return x, after[tree.nq + tree.nv :], dx, after


@inline
def is_flat(s, nx, n):
    """Whether every joint has one coordinate, so that states move by plain sums."""
    return nx == n


_follow = follower("follow_freely", inline(robot), deviate, advance, open_gap)
_stray_freely = strayer("stray_freely", inline(robot), deviate, advance, open_gap, own_of, is_flat)


def _expand(context, trajectory, first, second):  # type: ignore[no-untyped-def]
    """First order of a `Trajectory`, if ``first``, and the rest of records, if ``second``."""
    w, p = Work(context), Trajectory(trajectory)
    N, n, nu = p.N, p.n, p.nu
    A, B, record = array_at(p.A, (N, n, n)), array_at(p.B, (N, n, nu)), array_at(p.record, (N, p.records))
    if first != 0:
        X, U, schedule = array_at(p.X, (N, p.nx)), array_at(p.U, (N, nu)), integers_at(address_of(w.schedule), (N,))
        memory = array_at(room_of(w.expansions, room(_numbers)), (w.expanding, 8))
        linearize(modes_of(w), memory, schedule, X, U, A, B, record)
    if second != 0:
        complete(modes_of(w), A, B, record)


def _contract(context, trajectory, unused, none):  # type: ignore[no-untyped-def]
    """Second order of a `Trajectory` with its weights, into T as Hessians."""
    w, p = Work(context), Trajectory(trajectory)
    nz, memory = p.n + p.nu, array_at(room_of(w.contractions, room(_numbers)), (w.contracting, 8))
    record, weights = array_at(p.record, (p.N, p.records)), array_at(p.weights, (p.N, p.n))
    contract(modes_of(w), memory, record, weights, array_at(p.T, (p.N, nz, nz)))


def _contract_coupled(context, trajectory, unused, none):  # type: ignore[no-untyped-def]
    """Second order of a `Trajectory` with its weights, into T as the blocks of a scheme of their own."""
    w, p = Work(context), Trajectory(trajectory)
    memory = array_at(room_of(w.contractions, room(_numbers)), (w.contracting, 8))
    record, weights = array_at(p.record, (p.N, p.records)), array_at(p.weights, (p.N, p.n))
    contract(modes_of(w), memory, record, weights, array_at(p.T, (p.N, p.size)))


def _contract_into_blocks(context, trajectory, unused, none):  # type: ignore[no-untyped-def]
    """Second order of a `Trajectory` with its weights, into T as the blocks of `ddp.systems.system.Abilities`."""
    w, p = Work(context), Trajectory(trajectory)
    modes, memory = Modes(modes_of(w)), array_at(room_of(w.contractions, room(_numbers)), (w.contracting, 8))
    record, weights = array_at(p.record, (p.N, p.records)), array_at(p.weights, (p.N, p.n))
    out, groups = array_at(p.T, (p.N, p.size)), integers_at(w.groups, (w.grouped,))
    contract_knots(modes.tree.address, memory, step_of(modes, 0), groups, record, weights, out)


def _stray(context, words, unused, none):  # type: ignore[no-untyped-def]
    """Gaps of states that stray from a trajectory, as ``words`` of `ddp.systems.system.Routines` say."""
    w, t = Work(context), integers_at(words, (9,))
    N, nx, n, nu = t[0], t[1], t[2], t[3]
    stray(
        modes_of(w), array_at(w.tracks, (w.tracking, 8)), integers_at(address_of(w.schedule), (N,)),
        array_at(t[4], (N + 1, nx)), array_at(t[5], (N + 1, n)), array_at(t[6], (N, nu)),
        array_at(t[7], (N + 1, nx)), array_at(t[8], (N, n)),
    )  # fmt: skip


@cache
def _compiled(
    template: Any, scheme: tuple[tuple[str, Any], ...], content: Frozen | None, rows: int, unrolled: bool
) -> Any:  # fmt: skip
    """C function of a scheme's kernels: of all robots, or of the one with modes of some content.

    rows: of eight numbers that work takes.   unrolled: whether its loops are written out.
    """
    own, name = dict(scheme), template.__name__
    if content is None:
        return callback(specialised(template, f"{name}_by_kernels", **own))
    known = inline(specialised(known_modes, "known_modes", _frozen=content))
    own |= {"modes_of": known, "room_of": known_room, "_numbers": 8 * rows}
    own |= {"system": inline(specialised(robot, "known_robot", **own)), "sizes": known_sizes}
    function = specialised(template, f"{name}_of_robot", **own)
    return written_out(function) if unrolled else callback(function, whole=True)


class Owner(NamedTuple):
    """Memory of routines, and everything else that they point to.

    of: numbers and the scheme that memory and C functions depend on.
    """

    work: Work
    of: tuple[Any, ...]
    others: tuple[Any, ...]


def routines_of(
    scheme: Scheme, modes: Modes, tree: Tree, schedule: NDArray[np.int64], tracking: int, expanding: int,
    contracting: int, groups: NDArray[np.int64] | None, alone: bool, own: bool, before: Routines | None = None,
) -> Routines:  # fmt: skip
    """The routines of a robot, with memory of their own; under contacts, those for one problem.

    tracking .. contracting: rows of eight numbers that its kernels take.   groups: of blocks, None for none.
    alone: whether they are for one problem, and of all robots; or for many, and compiled for this robot if ``own`` code
        is worth it.   before: routines whose memory they take, if it is as large.
    """
    written = np.zeros(0, dtype=np.int64) if groups is None else groups
    of = id(scheme), alone, len(schedule), tracking, expanding, contracting, groups is None, len(written)
    if alone and before is not None and isinstance(before.owner, Owner) and before.owner.of == of:
        work = before.owner.work
        point_to(work, modes=modes.start, schedule=address(schedule), groups=address(written))
        return before._replace(owner=Owner(work, of, (before.owner.others[0], schedule, written, modes)))
    following = straying = 0
    if not alone:
        nx = tree.nq + tree.nv
        following = FreeScratch.size(tree, stages=scheme.stages) + nx
        straying = following + 2 * nx + 2 * tree.nv + modes.nu
    rows = {"rollouts": straying, "tracks": tracking if alone else 0, "expansions": expanding}
    rooms, places = carved({name: (count, 8) for name, count in rows.items()} | {"contractions": (contracting, 8)})
    work = filled(
        Work, modes=modes.start, schedule=schedule, **places, tracking=tracking, expanding=expanding,
        contracting=contracting, groups=address(written), grouped=len(written),
    )  # fmt: skip
    coupled, contract = scheme.in_blocks, _contract if groups is None else _contract_into_blocks
    contract = contract if coupled is None else _contract_coupled
    moves = [("expand", _expand, expanding), ("contract", contract, contracting)]
    if alone:
        moves += [("track", _track, 0), ("stray", _stray, 0)]
    else:
        moves += [("follow", _follow, following), ("stray", _stray_freely, straying)]
    parts = {
        "linearize": scheme.linearize, "complete": nothing if scheme.complete is None else scheme.complete,
        "contract": (coupled or scheme.contractor).contract,
        "stray": scheme.roller.stray, "track": scheme.roller.track,
    }  # fmt: skip
    content = frozen(modes) if own and not alone and tree.nv <= MOST else None
    is_short = scheme.stages <= 1  # first order of rk4 would compile for 29 s, of a UR5
    unrolled = {"follow": True, "stray": True, "expand": is_short, "contract": is_short and tree.nv <= FEW}
    functions = {
        name: partial(_compiled, template, tuple(parts.items()), content, count, unrolled.get(name, False))
        for name, template, count in moves
    }
    return Routines(functions, work.address, Owner(work, of, (rooms, schedule, written, modes)))

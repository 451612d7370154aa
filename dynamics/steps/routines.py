# mypy: allow-untyped-defs, allow-untyped-calls
"""C functions of robots' steps without contacts, for batches of problems: see `ddp.systems.system.Routines`."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.kernel import callback, inline, kernel, specialised
from ddp.machine.addresses import array_at, integers_at
from ddp.machine.aligned import aligned_zeros
from ddp.machine.following import follower, lanes_at, where_moved
from ddp.machine.memory import address_of
from ddp.machine.struct import Struct, integer, integers, real
from ddp.machine.trajectories import Trajectory
from ddp.systems.system import Routines
from dynamics.geometry.configuration import difference_state, integrate_state
from dynamics.robots.tree import Tree
from dynamics.steps.advance import advance_freely, free_bench
from dynamics.steps.advance import size as bench_size
from dynamics.steps.lane_contraction import contract_knots
from dynamics.steps.modes import Modes
from dynamics.steps.schemes import Scheme


class Work(Struct):
    """Everything that the routines of one thread need: addresses of `Modes` and of memory, and how much of it.

    schedule (N,): modes of knots.   h, groups: what `lane_contraction.contract_knots` is given.
    """

    modes: int = integer()
    schedule: NDArray[np.int64] = integers()
    rollouts: int = integer()
    expansions: int = integer()
    expanding: int = integer()
    contractions: int = integer()
    contracting: int = integer()
    blocks: int = integer()
    blocking: int = integer()
    straying: int = integer()
    strays: int = integer()
    h: float = real()
    groups: int = integer()
    grouped: int = integer()


class Robot(NamedTuple):
    """Modes of steps and what steps work with; new: scratch for a state."""

    modes: Any
    bench: Any
    new: Any


@inline
def robot(context):
    """The robot of a `Work`."""
    w = Work(context)
    modes = Modes(w.modes)
    bench = free_bench(modes, 0, lanes_at(w.rollouts))
    return Robot(modes, bench, bench.f)


@inline
def deviate(s, X, x, dx):
    """dx := x ⊖ X."""
    difference_state(s.modes.tree, X, x, dx)


@inline
def advance(s, t, x, u):
    """x := the next state."""
    advance_freely(s.modes, 0, x, u, s.bench)


@inline
def open_gap(s, x, dx):
    """x := x ⊕ dx."""
    tree = s.modes.tree
    integrate_state(tree, x, dx, s.new)
    where_moved(dx, 2 * tree.nv, s.new, x, tree.nq + tree.nv)


def nothing(context, A, B, record):  # type: ignore[no-untyped-def]
    """Complete no record."""


linearize: Any = None
complete: Any = kernel(nothing)
contract: Any = None
stray: Any = None
"""How knots are linearised and contracted, and how they stray: kernels of a `Scheme` take their places in the templates
below."""


def _expand(context, trajectory, first, second):  # type: ignore[no-untyped-def]
    """First order of a `Trajectory`, if ``first``, and the rest of records, if ``second``."""
    w, p = Work(context), Trajectory(trajectory)
    N, n, nu = p.N, p.n, p.nu
    A, B, record = array_at(p.A, (N, n, n)), array_at(p.B, (N, n, nu)), array_at(p.record, (N, p.records))
    if first != 0:
        X, U, schedule = array_at(p.X, (N, p.nx)), array_at(p.U, (N, nu)), integers_at(address_of(w.schedule), (N,))
        linearize(w.modes, array_at(w.expansions, (w.expanding, 8)), schedule, X, U, A, B, record)
    if second != 0:
        complete(w.modes, A, B, record)


def _contract(context, trajectory, unused, none):  # type: ignore[no-untyped-def]
    """Second order of a `Trajectory` with its weights, into T as Hessians."""
    w, p = Work(context), Trajectory(trajectory)
    nz, memory = p.n + p.nu, array_at(w.contractions, (w.contracting, 8))
    record, weights = array_at(p.record, (p.N, p.records)), array_at(p.weights, (p.N, p.n))
    contract(w.modes, memory, record, weights, array_at(p.T, (p.N, nz, nz)))


@kernel
def contract_into_blocks(context, trajectory, unused, none):
    """Second order of a `Trajectory` with its weights, into T as the blocks of `ddp.systems.system.Abilities`."""
    w, p = Work(context), Trajectory(trajectory)
    tree, memory = Modes(w.modes).tree, array_at(w.blocks, (w.blocking, 8))
    record, weights = array_at(p.record, (p.N, p.records)), array_at(p.weights, (p.N, p.n))
    out, groups = array_at(p.T, (p.N, p.size)), integers_at(w.groups, (w.grouped,))
    contract_knots(tree.address, memory, w.h, groups, record, weights, out)


def _stray(context, words, unused, none):  # type: ignore[no-untyped-def]
    """Gaps of states that stray from a trajectory, as ``words`` of `ddp.systems.system.Routines` say."""
    w, t = Work(context), integers_at(words, (10,))
    N, nx, n, nu = t[0], t[1], t[2], t[3]
    stray(
        w.modes, array_at(w.straying, (w.strays, 8)), integers_at(address_of(w.schedule), (N,)),
        array_at(t[4], (N + 1, nx)), array_at(t[5], (N + 1, n)), array_at(t[6], (N, nu)),
        array_at(t[7], (N + 1, nx)), array_at(t[8], (N, nx)), array_at(t[9], (N, n)),
    )  # fmt: skip


@cache
def _strayer(strays: Any) -> Any:
    """C function of a scheme's kernel that strays."""
    return callback(specialised(_stray, f"{strays.py_func.__name__}_trajectory", stray=strays))


@cache
def _follower() -> Any:
    """C function of rollouts."""
    return follower("freely", robot, deviate, advance, open_gap)


@cache
def _callbacks(linearized: Any, completed: Any, contracted: Any, blockwise: bool) -> tuple[Any, Any, Any]:
    """C functions of a scheme's kernels."""
    name = linearized.py_func.__name__
    own = {"linearize": linearized, "complete": complete if completed is None else completed}
    expanding = callback(specialised(_expand, f"{name}_trajectory", **own))
    contracting = callback(specialised(_contract, f"{contracted.py_func.__name__}_trajectory", contract=contracted))
    blocks = callback(contract_into_blocks.py_func) if blockwise else None
    return expanding, contracting, blocks


def routines_of(
    scheme: Scheme, modes: Modes, tree: Tree, nu: int, schedule: NDArray[np.int64], expanding: int, contracting: int,
    blocking: int, straying: int, h: float, groups: NDArray[np.int64] | None,
) -> Routines:  # fmt: skip
    """The routines of a robot without contacts, with memory of their own.

    expanding .. straying: rows of eight numbers that its kernels take; it strays if the last are any, and follows if
    not.   groups: of blocks, None for none.
    """
    rooms = [
        aligned_zeros((rows, 8))
        for rows in (
            0 if straying else bench_size(tree, scheme.stages, 0, 0) + tree.nq + tree.nv, expanding, contracting,
            blocking, straying,
        )
    ]  # fmt: skip
    written = np.zeros(0, dtype=np.int64) if groups is None else groups
    work = Work(
        modes=modes.start, schedule=schedule, rollouts=rooms[0].ctypes.data, expansions=rooms[1].ctypes.data,
        expanding=expanding, contractions=rooms[2].ctypes.data, contracting=contracting, h=h,
        blocks=rooms[3].ctypes.data, blocking=blocking, straying=rooms[4].ctypes.data, strays=straying,
        groups=written.ctypes.data, grouped=len(written),
    )  # fmt: skip
    made = (
        None if straying else _follower(),
        *_callbacks(scheme.linearize, scheme.complete, scheme.contract, groups is not None),
        _strayer(scheme.roller.stray) if straying else None,
    )  # fmt: skip
    followed, expanded, contracted, blocks, strayed = (0 if one is None else one.address for one in made)
    owner = work, rooms, written, modes, made
    return Routines(followed, expanded, contracted, blocks, work.address, owner, strayed)

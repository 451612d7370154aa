# mypy: allow-untyped-defs, allow-untyped-calls
"""C functions of robots' steps without contacts, for batches of problems: see `ddp.system.Routines`."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.kernel import callback, kernel, specialised
from ddp.machine.addresses import array_at, integers_at
from ddp.machine.aligned import aligned_zeros
from ddp.machine.fields import Fields, vector
from ddp.machine.memory import address_of, as_matrix, columns_from, rows_at
from ddp.machine.number import WIDTH, lanes, where_less
from ddp.machine.packing import pack, unpack, unpack_columns
from ddp.machine.simd import load
from ddp.machine.struct import Struct, integer, integers, real
from ddp.machine.trajectories import Eight, Trajectory
from ddp.system import Routines
from dynamics.geometry.configuration import difference_state, integrate_state
from dynamics.robots.tree import Tree
from dynamics.steps.advance import advance_freely, free_bench
from dynamics.steps.advance import size as bench_size
from dynamics.steps.lane_contraction import contract_knots
from dynamics.steps.modes import Modes
from dynamics.steps.rollouts import feedback
from dynamics.steps.schemes import Scheme

lanes_at = rows_at(lanes)
"""A vector of lanes at an address, inside kernels."""


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
    h: float = real()
    groups: int = integer()
    grouped: int = integer()


class Following(Fields):
    """States and controls of eight problems, and eight knots of the nominal ones, of policies and of what is found."""

    x, u, dx = vector("nq + nv"), vector("nu"), vector("2 nv")
    X, U, k, K = vector("8 nq + 8 nv"), vector("8 nu"), vector("8 nu"), vector("8 gains")
    to_X, to_U = vector("8 nq + 8 nv"), vector("8 nu")
    gap, new = vector("2 nv"), vector("nq + nv")


@kernel
def follow(context, eight, unused, none):
    """Roll out eight problems under their policies: an `Eight`.

    Eight knots go to and from lanes at once: their numbers fill registers, whatever the sizes are.
    """
    w, p = Work(context), Eight(eight)
    modes, nx, nu = Modes(w.modes), p.nx, p.nu
    tree = modes.tree
    n = 2 * tree.nv
    own = Following(lanes_at(w.rollouts), tree, nu, nu * n)
    alpha, imposed, bench = load(p.alphas, 0), load(p.imposed, 0), free_bench(modes, 0, own.end)
    pack(p.X, 0, own.x, nx)
    unpack(own.x, nx, p.to_X, 0)
    for begin in range(0, p.N, WIDTH):
        knots = min(WIDTH, p.N - begin)
        pack(columns_from(p.X, begin * nx), 0, own.X, knots * nx)
        pack(columns_from(p.U, begin * nu), 0, own.U, knots * nu)
        pack(columns_from(p.k, begin * nu), 0, own.k, knots * nu)
        pack(columns_from(p.K, begin * nu * n), 0, own.K, knots * nu * n)
        for i in range(knots):
            t, X, U = begin + i, own.X[i * nx :], own.U[i * nu :]
            difference_state(tree, X, own.x, own.dx)
            if p.any_imposed:
                if t > 0:
                    leave_gap(own.dx, n, imposed, own.gap, p.gaps, (t - 1) * n)
                impose(imposed, X, nx, n, own.x, own.dx)
            K = as_matrix(own.K[i * nu * n :], nu, n)
            feedback(alpha, U, own.k[i * nu :], K, p.lower[t], p.upper[t], n, nu, own.dx, own.u)
            for j in range(nu):
                own.to_U[i * nu + j] = own.u[j]
            advance_freely(modes, 0, own.x, own.u, bench)
            if p.torn:
                pack(columns_from(p.gaps, t * n), 0, own.gap, n)
                cross_gap(tree, alpha, imposed, own.gap, own.x, own.dx, own.new)
            for j in range(nx):
                own.to_X[i * nx + j] = own.x[j]
        unpack_columns(own.to_U, knots * nu, p.to_U, 0, begin * nu)
        unpack_columns(own.to_X, knots * nx, p.to_X, 0, (begin + 1) * nx)
    if p.any_imposed:
        pack(columns_from(p.X, p.N * nx), 0, own.X, nx)
        difference_state(tree, own.X, own.x, own.dx)
        leave_gap(own.dx, n, imposed, own.gap, p.gaps, (p.N - 1) * n)


@kernel
def impose(imposed, X, nx, n, x, dx):
    """x := X, which deviates by no dx, of problems whose states are imposed."""
    for i in range(nx):
        x[i] = where_less(0.0, imposed, X[i], x[i])
    for i in range(n):
        dx[i] = where_less(0.0, imposed, 0.0, dx[i])


@kernel
def leave_gap(dx, n, imposed, gap, gaps, begin):
    """Gaps from ``begin`` on := dx of problems whose states are imposed, and as they are of others."""
    pack(columns_from(gaps, begin), 0, gap, n)
    for i in range(n):
        gap[i] = where_less(0.0, imposed, dx[i], gap[i])
    unpack_columns(gap, n, gaps, 0, begin)


@kernel
def cross_gap(tree, alpha, imposed, gap, x, dx, new):
    """x := x ⊕ (α - 1) gap, and to the last bit x where that is nothing, or states are imposed."""
    share, size = alpha - 1.0, 0.0 * alpha
    for i in range(2 * tree.nv):
        dx[i] = share * gap[i]
        size = size + dx[i] * dx[i]
    size = where_less(0.0, imposed, 0.0, size)
    integrate_state(tree, x, dx, new)
    for i in range(tree.nq + tree.nv):
        x[i] = where_less(0.0, size, new[i], x[i])


def nothing(context, A, B, record):  # type: ignore[no-untyped-def]
    """Complete no record."""


linearize: Any = None
complete: Any = kernel(nothing)
contract: Any = None
"""How knots are linearised and contracted: kernels of a `Scheme` take their places in the templates below."""


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
    """Second order of a `Trajectory` with its weights, into T as the blocks of `ddp.system.Abilities`."""
    w, p = Work(context), Trajectory(trajectory)
    tree, memory = Modes(w.modes).tree, array_at(w.blocks, (w.blocking, 8))
    record, weights = array_at(p.record, (p.N, p.records)), array_at(p.weights, (p.N, p.n))
    out, groups = array_at(p.T, (p.N, p.size)), integers_at(w.groups, (w.grouped,))
    contract_knots(tree.address, memory, w.h, groups, record, weights, out)


@cache
def _callbacks(linearized: Any, completed: Any, contracted: Any, blockwise: bool) -> tuple[Any, Any, Any, Any]:
    """C functions of a scheme's kernels."""
    name = linearized.py_func.__name__
    own = {"linearize": linearized, "complete": complete if completed is None else completed}
    expanding = callback(specialised(_expand, f"{name}_trajectory", **own))
    contracting = callback(specialised(_contract, f"{contracted.py_func.__name__}_trajectory", contract=contracted))
    blocks = callback(contract_into_blocks.py_func) if blockwise else None
    return callback(follow.py_func), expanding, contracting, blocks


def routines_of(
    scheme: Scheme, modes: Modes, tree: Tree, nu: int, schedule: NDArray[np.int64], expanding: int, contracting: int,
    blocking: int, h: float, groups: NDArray[np.int64] | None,
) -> Routines:  # fmt: skip
    """The routines of a robot without contacts, with memory of their own.

    expanding, contracting, blocking: rows of eight numbers that its kernels take.   groups: of blocks, None for none.
    """
    following = Following.size(tree, nu=nu, gains=2 * tree.nv * nu)
    rooms = [
        aligned_zeros((following + bench_size(tree, scheme.stages, 0, 0), 8)),
        aligned_zeros((expanding, 8)), aligned_zeros((contracting, 8)), aligned_zeros((blocking, 8)),
    ]  # fmt: skip
    written = np.zeros(0, dtype=np.int64) if groups is None else groups
    work = Work(
        modes=modes.start, schedule=schedule, rollouts=rooms[0].ctypes.data, expansions=rooms[1].ctypes.data,
        expanding=expanding, contractions=rooms[2].ctypes.data, contracting=contracting, h=h,
        blocks=rooms[3].ctypes.data, blocking=blocking, groups=written.ctypes.data, grouped=len(written),
    )  # fmt: skip
    made = _callbacks(scheme.linearize, scheme.complete, scheme.contract, groups is not None)
    followed, expanded, contracted, blocks = (0 if one is None else one.address for one in made)
    return Routines(followed, expanded, contracted, blocks, work.address, (work, rooms, written, modes, made))

"""First and second order of many knots, eight of one mode at a time: the loops that every kind of steps shares."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ddp.compiling.kernel import callback, specialised, variant
from ddp.machine.memory import as_matrix, floats_at, hold, memory_of, rows_of
from ddp.machine.number import WIDTH, width
from ddp.machine.packing import pack
from ddp.systems.system import Contraction
from dynamics.robots.tree import Tree
from dynamics.steps import hessians
from dynamics.steps.linearization import relate_freely
from dynamics.steps.modes import Layout, Modes, layout_of, mode_of
from dynamics.steps.rollouts import run_end

relate: Any = relate_freely
size: Any = hessians.size
scratch: Any = hessians.room_for
curve: Any = hessians.curve
"""Kernels by which knots are related and curved: in the templates below others take their place."""


def _expand(context, memory, schedule, X, U, A, B, record):  # type: ignore[no-untyped-def]
    """A (M, n, n), B (M, n, nu) and records of knots with the modes of ``schedule`` (M,); A is NaN of no motion."""
    modes, memory, t = Modes(context), memory_of(memory), 0
    X, U, A, B, record = rows_of(X), rows_of(U), rows_of(A), rows_of(B), rows_of(record)
    while t < len(U):
        end, mode = run_end(schedule, t), schedule[t]
        w = scratch(modes, mode, memory)
        for begin in range(t, end, width(memory)):
            pack(X[:end], begin, w.q, modes.tree.nq + modes.tree.nv)  # type: ignore[no-untyped-call]
            pack(U[:end], begin, w.u, modes.nu)  # type: ignore[no-untyped-call]
            relate(modes, mode, w, A[:end], B[:end], record[:end], begin)
        t = end


def expansion(name: str, scratch: Any, relate: Any) -> Any:
    """The kernel of steps that ``relate(modes, mode, scratch(modes, mode, memory), A, B, record, t)`` linearises.

    Scratch memory has q and v, one after the other, and u; A, B and record are of the knots up to the mode's last.
    """
    return variant(_expand, f"expand_{name}", scratch=scratch, relate=relate)


def _contract(context, memory, record, weight, out):  # type: ignore[no-untyped-def]
    """out (M, nz, nz): Hessians of weight·(f(x ⊕ dx, u + du) ⊖ f(x, u)) of M knots, from their records."""
    modes, memory, t = Modes(context), memory_of(memory), 0
    record, weight, out, nq, nv = rows_of(record), rows_of(weight), rows_of(out), modes.tree.nq, modes.tree.nv
    while t < len(record):
        end, mode = t + 1, mode_of(modes, record[t], nq, nv)
        while end < len(record) and mode_of(modes, record[end], nq, nv) == mode:
            end += 1
        w = scratch(modes, mode, memory)
        while t < end:
            few = min(t + width(memory), end)
            curve(modes, mode, w, record[t:few], weight[t:few], out[t:few])
            t = few


def _contract_one(context, record, weight, hessian):  # type: ignore[no-untyped-def]
    """Contract one knot in C: addresses of `Modes`, a record, a weight (n,) and the Hessian (nz, nz) to write."""
    modes = Modes(context)
    tree, nz = modes.tree, 2 * modes.tree.nv + modes.nu
    records = as_matrix(floats_at(record), 1, modes.end)
    mode = mode_of(modes, records[0], tree.nq, tree.nv)
    m, nc = max(modes.table[mode, 1], modes.loops.entries), max(modes.table[mode, 2], modes.loops.nc)
    memory = np.empty(size(tree, layout_of(modes), m, nc, 1))
    weights, out = as_matrix(floats_at(weight), 1, 2 * tree.nv), as_matrix(floats_at(hessian), 1, nz * nz)
    curve(modes, mode, scratch(modes, mode, memory_of(memory)), records, weights, out)
    hold(memory)


class Contractor:
    """Kernels of steps that ``curve(modes, mode, scratch(modes, mode, memory), record, weight, out)`` contracts.

    size ``(tree, layout, m, nc, lanes)``: how many numbers of so many lanes scratch memory takes.
    contract ``(modes, memory, record, weight, out)``: of many knots.   contraction ``(modes)``: of one, in C.
    """

    def __init__(self, name: str, size: Callable[..., int], scratch: Any, curve: Any) -> None:
        self._name, self._parts = name, {"size": size, "scratch": scratch, "curve": curve}
        self.contract = variant(_contract, f"contract_{name}", **self._parts)
        self._callbacks: dict[type[Modes], Any] = {}

    def room(self, tree: Tree, layout: Layout, m: int, nc: int) -> int:
        """Lanes of memory that ``contract`` takes, for at most m contacts and nc forces."""
        return int(self._parts["size"](tree, layout, m, nc, WIDTH))

    def contraction(self, modes: Modes) -> Contraction:
        """The contraction of single knots, for backward sweeps that know weights knot by knot."""
        kind = type(modes)
        if kind not in self._callbacks:
            name = f"contract_one_{self._name}_{kind.__name__}"
            self._callbacks[kind] = callback(specialised(_contract_one, name, Modes=kind, **self._parts))
        return Contraction(self._callbacks[kind].address, modes.start, modes)

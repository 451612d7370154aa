"""First order of many knots, eight of one mode at a time: the loop that every kind of steps shares."""

from __future__ import annotations

from typing import Any

from ddp.compiling.kernel import variant
from ddp.machine.memory import memory_of, rows_of
from ddp.machine.number import width
from ddp.machine.packing import pack
from dynamics.steps.linearization import free_relation, relate_freely
from dynamics.steps.modes import Modes
from dynamics.steps.rollouts import run_end

bench: Any = free_relation
relate: Any = relate_freely
"""Kernels by which knots are related: in the template below others take their place, see ``expansion``."""


def _expand(context, memory, schedule, X, U, A, B, record):  # type: ignore[no-untyped-def]
    """A (M, n, n), B (M, n, nu) and records of knots with the modes of ``schedule`` (M,); A is NaN of no motion."""
    modes, memory, t = Modes(context), memory_of(memory), 0
    X, U, A, B, record = rows_of(X), rows_of(U), rows_of(A), rows_of(B), rows_of(record)
    while t < len(U):
        end, mode = run_end(schedule, t), schedule[t]
        w = bench(modes, mode, memory)
        for begin in range(t, end, width(memory)):
            pack(X[:end], begin, w.q, modes.tree.nq + modes.tree.nv)  # type: ignore[no-untyped-call]
            pack(U[:end], begin, w.u, modes.nu)  # type: ignore[no-untyped-call]
            relate(modes, mode, w, A[:end], B[:end], record[:end], begin)
        t = end


def expansion(name: str, bench: Any, relate: Any) -> Any:
    """The kernel of steps that ``relate(modes, mode, bench(modes, mode, memory), A, B, record, t)`` linearises.

    A bench has q and v, one after the other, and u; A, B and record are those of the knots up to the mode's last.
    """
    return variant(_expand, f"expand_{name}", bench=bench, relate=relate)

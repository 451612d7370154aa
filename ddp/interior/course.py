"""Course of the barrier, relative to the cost that counts as one: where it begins, how it falls, where it ends."""

from __future__ import annotations

START, WARM, END, LARGEST_END = 0.01, 1e-8, 1e-9, 1e-6
"""Barriers: the first one, that after a warm start, and the last one, which is larger where all bounds together cost no
more than the tolerance of the expected decrease, up to one that shows which rows are active."""

SOLVED, FALL, POWER = 30.0, 0.2, 1.5
"""The barrier falls once errors are smaller than so many times it: to this share, or if that is less, its power."""


def lowered(barrier: float) -> float:
    """The next lower barrier (Wächter & Biegler 2006, equation 7, without its least one)."""
    return min(FALL * barrier, barrier**POWER)

"""Costs that fall without end: no minimum's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ddp.protocols import Array
from ddp.solutions.record import Record

BOTTOMLESS, DEEP = -1e100, -1e8
"""Costs that are no minimum's, relative to those of the first iterations: of itself; where states or controls are
`FAR` out, too, and it has grown by a half `GROWN` times."""

FAR, GROWN, GROWTH = 1e8, 10, 1.5


class Trajectory(Protocol):
    """States X (N+1, nx) and controls U (N, nu)."""

    X: Array
    U: Array


def is_endless(history: Sequence[Record], cost: float, at: Trajectory, grown: int = GROWN) -> bool:
    """Whether the cost falls ever faster, after iterations of which the last one has led to a trajectory.

    grown: how often it has grown by a half at least; 0 where iterations have ended for another reason.
    """
    if not history or cost >= 0.0:
        return False
    out = max(float(np.abs(at.X).max()), float(np.abs(at.U).max()))
    if cost > BOTTOMLESS and out < FAR:
        return False
    costs = np.array([record.cost for record in history])
    below = int(np.argmax(costs < 0.0))
    size, fallen = np.abs(costs[: below + 1]).max(), costs[below:]
    often = int((fallen[1:] < GROWTH * fallen[:-1]).sum())
    return bool(cost < BOTTOMLESS * size or (out > FAR and cost < DEEP * size and often >= grown))

"""Test of whether a cost falls without end, so that there is no minimum."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ddp.protocols import Array
from ddp.solutions.status import Ending, Record

BOTTOMLESS, DEEP = -1e100, -1e8
"""Costs below which there is no minimum, relative to the first and the largest until the cost was negative. The
second one counts where states or controls are beyond `FAR` too, and `GROWN` iterations have made the cost `GROWTH`
times as large.
"""

FAR, GROWN, GROWTH = 1e8, 10, 1.5
"""See `DEEP`."""


class Trajectory(Protocol):
    """States X (N+1, nx) and controls U (N, nu)."""

    X: Array
    U: Array


def is_early(ending: Ending, history: Sequence[Record]) -> bool:
    """Whether a limit ended a solve before its cost could have told that it falls without end."""
    return ending is Ending.ITERATIONS and len(history) < GROWN


def is_unbounded(history: Sequence[Record], cost: float, at: Trajectory, begun: float, grown: int = GROWN) -> bool:
    """Whether the cost falls ever faster, after iterations of which the last one has led to a trajectory.

    begun: the size of the cost before the first iteration.
    grown: how many iterations at least have made it `GROWTH` times as large; 0 where a solve has ended anyway.
    """
    if not history or cost >= 0.0:
        return False
    out = max(float(np.abs(at.X).max()), float(np.abs(at.U).max()))
    if cost > BOTTOMLESS and out < FAR:
        return False
    costs = np.array([record.cost for record in history])
    below = int(np.argmax(costs < 0.0))
    size, fallen = float(np.abs(costs[:below]).max(initial=begun)) or abs(float(costs[below])), costs[below:]
    often = int((fallen[1:] < GROWTH * fallen[:-1]).sum())
    return bool(cost < BOTTOMLESS * size or (out > FAR and cost < DEEP * size and often >= grown))

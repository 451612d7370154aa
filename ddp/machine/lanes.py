# mypy: allow-untyped-defs, allow-untyped-calls
"""Rows of floats to the lanes of a vector of numbers, one row to a lane, and back."""

from __future__ import annotations

from ddp.compiling.kernel import kernel
from ddp.machine.number import lane_of, spread, width, with_lane


@kernel
def take_lanes(X, first, count, n, x):
    """x (n,) := rows first .. first + count - 1 of X, one to a lane, the last one repeated."""
    for i in range(n):
        value = spread(0.0, x[0])
        for lane in range(width(x)):
            value = with_lane(value, lane, X[first + min(lane, count - 1), i])
        x[i] = value


@kernel
def give_lanes(x, n, out, first, column, count):
    """Lanes of x (n,) to rows first .. first + count - 1 of ``out``, from a column on."""
    for lane in range(count):
        row = out[first + lane]
        for i in range(n):
            row[column + i] = lane_of(x[i], lane)

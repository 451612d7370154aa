"""The box that controls keep to: what a user gives, and how far a trajectory is from its sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ddp.constraints.placement import described
from ddp.errors import ProblemError, as_array
from ddp.protocols import Array


def as_limits(limits: Any, N: int, nu: int) -> tuple[Array, Array]:
    """The limits of controls as two arrays (N, nu); ProblemError unless they are a pair, lower < upper."""
    if limits is None:
        return np.full((N, nu), -np.inf), np.full((N, nu), np.inf)
    if not isinstance(limits, Sequence) or isinstance(limits, str) or len(limits) != 2:
        raise ProblemError(f"control_limits: expected a pair (lower, upper), got {described(limits)}")
    pair = []
    for side, value in enumerate(limits):
        name = f"control_limits[{side}]"
        try:
            shape = np.shape(value)
        except ValueError:
            shape = (N, nu)  # as_array says what is wrong
        if shape not in ((), (nu,), (N, nu)):
            raise ProblemError(f"{name}: expected a number or shape ({nu},) or ({N}, {nu}), got shape {shape}")
        array = as_array(name, value, shape, finite=False)
        if np.isnan(array).any():
            raise ProblemError(f"{name}: expected numbers or infinities, got nan")
        pair.append(np.broadcast_to(array, (N, nu)).copy())
    if (crossed := ~(pair[0] < pair[1])).any():
        knot, i = (int(index) for index in np.argwhere(crossed)[0])
        raise ProblemError(
            f"control_limits: expected lower < upper, got {pair[0][knot, i]} and {pair[1][knot, i]} "
            f"for control {i} at knot {knot}"
        )
    return pair[0], pair[1]


def room(U: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
    """``lower - U``, ``upper - U``; zero where only rounding is between."""
    low, high = lower - U, upper - U
    near = 1e-14 * (1.0 + np.abs(U))
    return np.where(low > -near, 0.0, low), np.where(high < near, 0.0, high)

"""Feedback along a trajectory: the control at a time, in a state."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ddp.costs.stretches import durations_of
from ddp.errors import ProblemError, as_array
from ddp.protocols import Array
from ddp.system import System


def knot_at(dynamics: System, horizon: int, t: float) -> int:
    """The knot that holds at time t [s], forgiving rounding; ProblemError for a t that the horizon does not hold."""
    time, lasting = float(as_array("t", t, ())), durations_of(dynamics, horizon)
    starts = np.concatenate([[0.0], np.cumsum(lasting)]) - 1e-6 * dynamics.dt
    k = int(np.searchsorted(starts, time, side="right")) - 1
    if not 0 <= k < horizon:
        raise ProblemError(f"t: expected 0 <= t < {lasting.sum():g} s, the horizon, got {time:g}")
    return k


def as_state(dynamics: System, field: str, x: ArrayLike) -> Array:
    """A state (nx,) of a system; ProblemError naming ``field`` for what is none."""
    state = as_array(field, x, (dynamics.nx,))
    dynamics.check_state(field, state)
    return state


def feedback(dynamics: System, x: Array, X: Array, U: Array, K: Array, lower: Array, upper: Array) -> Array:
    """``U + K (x ⊖ X)`` of one knot, within limits."""
    return np.asarray(np.clip(U + K @ dynamics.difference(X, x), lower, upper))

"""The box that controls keep to: what a user gives, and how far a trajectory is from its sides."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ddp.compiling.kernel import kernel
from ddp.constraints.placement import Placed, described
from ddp.constraints.selection import Selected
from ddp.errors import ProblemError, as_array, axes, known_shape, said
from ddp.protocols import Array
from ddp.systems.system import System, ability

EPSILON = 2.3e-16
"""The spacing of numbers at one."""

FIXED = "; to hold it there, leave its limits wide and give constraints=[mayne.Equality(lambda x, u: u[{i}] - {value})]"
"""Advice where nothing is between the limits."""
TURNED = ": give (lower, upper), the lower limits of both controls first"


class Inherited(NamedTuple):
    """Limits (nu,) that a problem has of its dynamics; one that is made of it takes those of its own."""

    lower: Array
    upper: Array


def as_limits(limits: Any, N: int, dynamics: System) -> tuple[Array, Array]:
    """The limits of controls as two arrays (N, nu); ProblemError unless they are a pair, lower < upper.

    None, or `Inherited`: those of the dynamics, if they have any.
    """
    nu, field = dynamics.nu, "control_limits"
    if limits is None or isinstance(limits, Inherited):
        field, limits = "dynamics.control_limits", (-np.inf, np.inf)
        if (own := ability(dynamics, "control_limits")) is not None:
            limits = as_array(field, own, (nu, 2), finite=False).T
    is_array = isinstance(limits, np.ndarray) and limits.ndim > 0
    if not (is_array or (isinstance(limits, Sequence) and not isinstance(limits, str))) or len(limits) != 2:
        shape = np.shape(limits) if is_array or axes(limits) == 2 else ()
        kind = "an array" if is_array else f"a {described(limits)}"
        came = f"{kind} of shape {shape}" if shape else said(limits)
        advice = ": transpose it" if shape == (nu, 2) else ""
        if axes(limits) == 1 and np.size(limits) == nu:
            advice = ": of a row that is the limit to either side, it is (-np.asarray(row), row)"
        raise ProblemError(f"{field}: expected a pair (lower, upper), got {came}{advice}")
    pair = []
    for side, value in enumerate(limits):
        name = f"{field}[{side}]"
        shape = known_shape(value) or np.shape(value) if axes(value) in (1, 2) else ()  # as_array says what is wrong
        if shape not in ((), (nu,), (N, nu)):
            raise ProblemError(f"{name}: expected a number or shape ({nu},) or ({N}, {nu}), got shape {shape}")
        array = as_array(name, value, shape, finite=False)
        if np.isnan(array).any():
            raise ProblemError(f"{name}: expected numbers or infinities, got nan")
        pair.append(np.broadcast_to(array, (N, nu)).copy())
    if (crossed := ~(pair[0] < pair[1])).any():
        knot, i = (int(index) for index in np.argwhere(crossed)[0])
        low, high = float(pair[0][knot, i]), float(pair[1][knot, i])
        raise ProblemError(
            f"{field}: expected lower < upper, got {low} and {high} for control {i} at knot {knot}"
            f"{FIXED.format(i=i, value=low) if low == high and np.isfinite(low) else ''}"
            f"{TURNED if nu == 2 and (np.array(pair)[:, knot, 0] < np.array(pair)[:, knot, 1]).all() else ''}"
        )
    return pair[0], pair[1]


@kernel
def rooms(u, lower, upper):  # type: ignore[no-untyped-def]
    """Distances of a control from its limits: ``lower - u``, ``upper - u``; zero where only rounding is between.

    More by what rounding may take of it, so that a step that goes there and is clipped ends exactly at the limit.
    """
    low, high, near = lower - u, upper - u, 1e-14 * (1.0 + abs(u))
    low -= EPSILON * (2.0 * abs(u) - low)
    high += EPSILON * (2.0 * abs(u) + high)
    return 0.0 if low > -near else low, 0.0 if high < near else high


@kernel
def measure_room(U, lower, upper, low, high):  # type: ignore[no-untyped-def]
    """low, high (N, nu) := `rooms` of all controls."""
    for t in range(U.shape[0]):
        for i in range(U.shape[1]):
            low[t, i], high[t, i] = rooms(U[t, i], lower[t, i], upper[t, i])


def room(U: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
    """`rooms` of all controls."""
    low, high = np.empty(U.shape), np.empty(U.shape)
    measure_room(U, lower, upper, low, high)
    return low, high


@kernel
def move_within(U, lower, upper):  # type: ignore[no-untyped-def]
    """Move controls into their limits, and those that only rounding keeps from one exactly there."""
    for t in range(U.shape[0]):
        for i in range(U.shape[1]):
            low, high = rooms(U[t, i], lower[t, i], upper[t, i])
            if low >= 0.0:
                U[t, i] = lower[t, i]
            elif high <= 0.0:
                U[t, i] = upper[t, i]


@kernel
def touches(U, lower, upper):  # type: ignore[no-untyped-def]
    """Whether any control is at a limit."""
    for t in range(U.shape[0]):
        for i in range(U.shape[1]):
            if U[t, i] <= lower[t, i] or U[t, i] >= upper[t, i]:
                return True
    return False


def boxed(lower: Array, upper: Array, nx: int, n: int, first: int) -> tuple[Placed, ...]:
    """Limits (N, nu) of controls as a constraint, behind ``first`` rows of others; none if all are infinite."""
    if not (np.isfinite(lower).any() or np.isfinite(upper).any()):
        return ()
    own = np.arange(lower.shape[1])
    box = Selected(nx + own, n + own, np.ones(len(own)), lower[0], upper[0], n)
    return (Placed("control_limits", box, 0, len(lower), first, lower, upper),)

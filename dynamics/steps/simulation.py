"""Motion of a system from a state under controls that are known in advance, by steps as short as it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddp.errors import ProblemError, affordable, as_array, axes, positive, said
from dynamics.steps.robot_dynamics import RobotDynamics

Array = NDArray[np.float64]

FINEST = 12
"""The shortest step is the system's, halved so often."""


@dataclass(frozen=True, eq=False)
class Motion:
    """Simulated motion, N of the system's steps long.

    t (N+1,) [s], X (N+1, nx): states.   U (N, nu): the controls, in the middle of each step.
    steps: how many were taken, rejected ones with them.   NaN from where no step finds an end.
    """

    t: Array = field(repr=False)
    X: Array = field(repr=False)
    U: Array = field(repr=False)
    steps: int


def simulate(
    system: RobotDynamics, x0: ArrayLike, u: Callable[[float], ArrayLike] | ArrayLike, seconds: float,
    tolerance: float | None = None,
) -> Motion:  # fmt: skip
    """The motion of a robot from x0 (nx,) for so many seconds, to whole steps of ``system.dt``: a `Motion`.

    u: controls as a function of time [s] to (nu,), read in the middle of each step and held over it; or (nu,) for all
    times; or (N, nu), one row a step.
    tolerance: the largest error of a state's tangent [rad, m, rad/s, m/s] that a step of dt may make, as two half steps
    show it: steps are halved, down to dt / 4096, until they keep it. None: all steps are dt.
    """
    if not isinstance(system, RobotDynamics):
        raise ProblemError(f"system: expected a RobotDynamics, got {said(system)}")
    dt = system.dt
    steps = positive("seconds", seconds) / dt
    affordable("seconds", seconds, int(min(steps, 1e30)) * (2 + system.nx + 2 * system.nu))
    N = round(steps)
    if N < 1 or abs(N * dt - seconds) > 1e-6 * dt * N:
        raise ProblemError(f"seconds: expected a multiple of the system's step of {dt} s, got {seconds}")
    t: Array = dt * np.arange(N + 1, dtype=np.float64)
    at = _controls(system, u, N)
    U = np.stack([at(time + 0.5 * dt) for time in t[:-1]])
    if tolerance is None:
        return Motion(t, system.rollout(x0, U), U, N)
    return _adapted(system, as_array("x0", x0, (system.nx,)), at, t, U, positive("tolerance", tolerance))


def _controls(
    system: RobotDynamics, u: Callable[[float], ArrayLike] | ArrayLike, N: int
) -> Callable[[float], Array]:
    """Controls (nu,) by time."""
    if callable(u):
        return lambda time: as_array("u(t)", u(time), (system.nu,))
    if axes(u) < 2:
        constant = as_array("u", u, (system.nu,))
        return lambda time: constant
    rows = as_array("u", u, (N, system.nu))
    return lambda time: rows[min(int(time / system.dt), N - 1)]


def _adapted(
    system: RobotDynamics, x: Array, at: Callable[[float], Array], t: Array, U: Array, tolerance: float
) -> Motion:
    """Motion by step doubling: dt / 2^k, k as small as the tolerance allows."""
    s, finer, taken, k, whole = system, [system], 0, 0, 1 << FINEST
    X = np.full((len(t), system.nx), np.nan)
    X[0] = x
    for i, begin in enumerate(t[:-1]):
        place = 0  # in units of the finest step
        while place < whole and np.isfinite(x).all():
            if len(finer) < k + 2:
                h = s.dt / 2 ** (k + 1)
                options = s.damping, s.springs, s.control_limits
                finer.append(RobotDynamics(s.robot, h, s.actuation, s.integrator, *options))
            length, time, h = whole >> k, begin + s.dt * place / whole, s.dt / 2**k
            once = finer[k].step(x, at(time + 0.5 * h))
            half = finer[k + 1].step(x, at(time + 0.25 * h))
            twice = finer[k + 1].step(half, at(time + 0.75 * h)) if np.isfinite(half).all() else half
            taken += 3
            ended = np.isfinite(once).all() and np.isfinite(twice).all()
            error = np.abs(s.difference(once, twice)).max() if ended else np.inf
            if error <= tolerance * length / whole or k + 1 >= FINEST:
                x, place = twice, place + length
                if error < 0.1 * tolerance * length / whole and k > 0 and place % (2 * length) == 0:
                    k -= 1
            else:
                k += 1
        X[i + 1] = x
        if not np.isfinite(x).all():
            break
    return Motion(t, X, U, taken)

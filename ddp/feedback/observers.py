"""Kalman filters on a manifold: estimates of states from measurements, about equilibria and along trajectories.

An estimate deviates from the state by dx, in tangent coordinates, with covariance P. A step predicts and corrects,

    x⁻ = f(x, u),   x = x⁻ ⊕ L (y ⊖ h(x⁻)),      L = P Cᵀ (C P Cᵀ + V)⁻¹,   P' = A (P - L C P) Aᵀ + W,

A of the dynamics and C of the sensors, both exact; W is the covariance of what disturbs a step, V of the measurements.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from ddp.costs.batch import durations_of
from ddp.doubts import tell
from ddp.errors import ProblemError, as_array, axes, instances, items, said, suggesting
from ddp.feedback import regulators
from ddp.feedback.policy import as_state, knot_at
from ddp.protocols import Array, Dynamics
from ddp.systems.derived_dynamics import as_system
from ddp.systems.system import System, ability


@runtime_checkable
class Sensor(Protocol):
    """Measurement y = h(x), on a manifold of its own; ``size`` numbers describe a deviation of it."""

    @property
    def size(self) -> int: ...

    def values(self, X: Array) -> Array:
        """h (M, ...) of M states X (M, nx)."""

    def jacobian(self, X: Array) -> Array:
        """C (M, size, n): ``h(x ⊕ dx) ⊖ h(x) = C dx + ...``."""

    def difference(self, Y0: Array, Y1: Array) -> Array:
        """``Y1 ⊖ Y0`` (M, size) of measurements (M, ...)."""


@dataclass(frozen=True, eq=False)
class LinearSensor:
    """Measurement ``y = C x`` of a flat state; C (size, nx)."""

    C: ArrayLike

    def __post_init__(self) -> None:
        object.__setattr__(self, "C", as_array("C", self.C, (None, None)).copy())

    @property
    def size(self) -> int:
        """Numbers of a measurement."""
        return len(np.asarray(self.C))

    def values(self, X: Array) -> Array:
        """C x of M states (M, nx)."""
        return np.asarray(X @ np.asarray(self.C).T)

    def jacobian(self, X: Array) -> Array:
        """C for each of M states."""
        return np.broadcast_to(np.asarray(self.C), (len(X), *np.shape(self.C)))

    def difference(self, Y0: Array, Y1: Array) -> Array:
        """``Y1 - Y0``."""
        return Y1 - Y0


@dataclass(frozen=True, eq=False)
class Observer:
    """Gains L of measurements and covariances P of predictions, about an equilibrium or a trajectory.

    Of an equilibrium X (nx,), U (nu,), L (n, m), P (n, n); of a trajectory X (N+1, nx), U (N, nu), L (N+1, n, m),
    P (N+1, n, n); m numbers of all sensors' deviations together.   dynamics, sensors: None and () if loaded without.
    """

    X: Array = field(repr=False)
    U: Array = field(repr=False)
    L: Array = field(repr=False)
    P: Array = field(repr=False)
    dynamics: System | None = field(default=None, repr=False)
    sensors: tuple[Sensor, ...] = field(default=(), repr=False)

    @property
    def stationary(self) -> bool:
        """Whether it is of an equilibrium."""
        return self.X.ndim == 1

    def measure(self, x: ArrayLike) -> tuple[Array, ...]:
        """Measurements of all sensors in a state x (nx,)."""
        x = as_state(self._own_system("measure"), "x", x)
        return tuple(np.array(sensor.values(x[None].copy()))[0] for sensor in self.sensors)  # theirs to write on

    def estimate(self, t: float, x: ArrayLike, u: ArrayLike, y: Sequence[ArrayLike]) -> Array:
        """The estimate (nx,) after a step under u (nu,), from the estimate x at time t [s].

        y: measurements at its end, after an impact there, one of each sensor.   Raises ProblemError for what does not
        fit.
        """
        d = self._own_system("estimate")
        x, u, given = as_state(d, "x", x), as_array("u", u, (d.nu,)), items("y", y, "measurements")
        if self.stationary:
            as_array("t", t, ())
            predicted, L = d.step(x, u), self.L
        else:
            k = knot_at(d, len(self.U), t)
            predicted, k = d.step(x, u, k), k + 1
            while k in self._struck:
                predicted, k = d.step(predicted, self.U[k], k), k + 1
            L = self.L[k]
        expected = self.measure(predicted)
        if len(given) != len(expected):
            raise ProblemError(f"y: expected {len(expected)} measurements, one each sensor, got {len(given)}")
        parts = [
            sensor.difference(there[None], as_array(f"y[{i}]", here, there.shape)[None])[0]
            for i, (sensor, there, here) in enumerate(zip(self.sensors, expected, given, strict=True))
        ]
        return d.integrate(predicted, L @ np.concatenate(parts))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all but system and sensors to one .npz file, completely or not at all, or raise ProblemError."""
        regulators.save_gains(path, "an observer", self.X, self.U, {"L": self.L, "P": self.P})

    @staticmethod
    def load(
        path: str | os.PathLike[str], dynamics: Dynamics | None = None, sensors: Sequence[Sensor] | Sensor = ()
    ) -> "Observer":
        """Read a saved observer; with its system and its sensors it estimates again.

        Raises ProblemError if the file is missing, is no such file, or does not fit ``dynamics`` or ``sensors``.
        """
        system = None if dynamics is None else as_system(dynamics)
        sizes = {"L": ("states", "n", "m"), "P": ("states", "n", "n")}
        X, U, gains = regulators.load_gains(path, "an observer", sizes, system)
        several = _of_states(system, as_sensors(sensors))
        if several and (m := sum(sensor.size for sensor in several)) != gains["L"].shape[-1]:
            raise ProblemError(f"sensors: expected {gains['L'].shape[-1]} numbers of deviations together, got {m}")
        return Observer(X, U, gains["L"], gains["P"], system, several)

    @cached_property
    def _struck(self) -> frozenset[int]:
        """Knots of a trajectory that take no time."""
        assert self.dynamics is not None
        return frozenset(np.flatnonzero(durations_of(self.dynamics, len(self.U)) == 0.0).tolist())

    def _own_system(self, purpose: str) -> System:
        if self.dynamics is None or not self.sensors:
            raise ProblemError(f"dynamics: {purpose} needs system and sensors: Observer.load(path, dynamics, sensors)")
        return self.dynamics


@suggesting
def kalman(
    dynamics: Dynamics, x: ArrayLike, u: ArrayLike, sensors: Sequence[Sensor] | Sensor, W: ArrayLike, V: ArrayLike,
    P0: ArrayLike | None = None, held: ArrayLike | None = None,
) -> Observer:  # fmt: skip
    """The observer about an equilibrium x (nx,), u (nu,), or along a trajectory x (N+1, nx), u (N, nu).

    W (n, n) or (n,): covariance of what disturbs a step.  V (m, m) or (m,): of the measurements, positive definite.
    P0 (n, n) or (n,): along a trajectory, the covariance of the first prediction.
    held (m, n): about an equilibrium, what cannot deviate, as of `ddp.lqr`.
    Raises ProblemError for what does not fit, is no equilibrium, or cannot be observed.
    """
    system, several = as_system(dynamics), as_sensors(sensors, some=True)
    strangers = ability(system, "strangers")
    tell(() if strangers is None else strangers(several))
    several = _of_states(system, several)
    n, m = system.n, sum(sensor.size for sensor in several)
    W, V = regulators.weights("W", W, n), regulators.weights("V", V, m, strictly=True)
    if axes(x) > 1:
        if P0 is None or held is not None:
            named, wanted = ("P0", "a covariance along a trajectory") if P0 is None else ("held", "none there")
            raise ProblemError(f"{named}: expected {wanted}, got {said(P0 if P0 is None else held)}")
        X, U = regulators.trajectory(system, x, u, ("x", "u"))
        return _along(system, X, U, several, W, V, regulators.weights("P0", P0, n))
    if P0 is not None:
        raise ProblemError(f"P0: expected none about an equilibrium, got {said(P0)}")
    x, u = as_state(system, "x", x), as_array("u", u, (system.nu,))
    regulators.check_equilibrium(system, x, u)
    A, B = system.linearize(x, u)
    C, T = _jacobian(several, x[None], n)[0], regulators.free_directions(system, x, held, A, B)
    P = T @ regulators.riccati(T.T @ A.T @ T, T.T @ C.T, T.T @ W @ T, V, "the sensors do not see it", "W, V") @ T.T
    return Observer(x.copy(), u.copy(), _gain(P, C, V), P, system, several)


def as_sensors(sensors: Sequence[Sensor] | Sensor, some: bool = False) -> tuple[Sensor, ...]:
    """One sensor or several, checked; some: at least one."""
    asked: Any = Sensor
    return instances("sensors", sensors, asked, "sensors", "size, values, jacobian and difference", some=some)


def _of_states(system: System | None, sensors: tuple[Sensor, ...]) -> tuple[Sensor, ...]:
    """Sensors of a system's states, also of those of the robot that a composition is around."""
    sensed = ability(system, "sensed")
    return sensors if sensed is None else tuple(map(sensed, sensors))


def _along(system: System, X: Array, U: Array, sensors: tuple[Sensor, ...], W: Array, V: Array, P0: Array) -> Observer:
    N, n, m = len(U), system.n, len(V)
    A, C = regulators.linearized(system, X, U).A, _jacobian(sensors, X, system.n)
    L, P = np.empty((N + 1, n, m)), np.empty((N + 1, n, n))
    P[0], lasting = P0, durations_of(system, N)
    for k in range(N + 1):
        L[k] = 0.0 if k < N and lasting[k] == 0.0 else _gain(P[k], C[k], V)  # measured after impacts
        if k < N:
            left = np.eye(n) - L[k] @ C[k]
            P[k + 1] = A[k] @ (left @ P[k] @ left.T + L[k] @ V @ L[k].T) @ A[k].T + W
    return Observer(X.copy(), U.copy(), L, P, system, sensors)


def _jacobian(sensors: tuple[Sensor, ...], X: Array, n: int) -> Array:
    """C (M, m, n) of all sensors; ProblemError for one of another system."""
    found = []
    for k, sensor in enumerate(sensors):
        named, wanted = f"sensors[{k}] ({type(sensor).__name__})", (len(X), sensor.size, n)
        try:
            C = np.array(sensor.jacobian(X.copy()))
        except ProblemError as refused:
            raise ProblemError(f"{named}: {refused}: is it made for another system?") from None
        if C.shape != wanted:
            raise ProblemError(
                f"{named}: expected a jacobian of shape {wanted}, got {C.shape}: is it made for another system?"
            )
        found.append(as_array(f"{named}: jacobian", C, wanted))
    return np.concatenate(found, axis=1)


def _gain(P: Array, C: Array, V: Array) -> Array:
    return np.ascontiguousarray(np.linalg.solve(C @ P @ C.T + V, C @ P).T)  # as it comes back from files

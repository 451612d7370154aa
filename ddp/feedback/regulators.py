"""Linear-quadratic regulators on a manifold: about equilibria and along trajectories.

With deviations dx = x ⊖ X in tangent coordinates, and A, B of one step from the dynamics' exact linearisation, they
minimise  Σ ½ (dxᵀ Q dx + duᵀ R du)  over the steps: weights are those of one step, which are dt times those of a cost
density. The policy is  u = U + K dx,  and  ½ dxᵀ P dx  the cost that it leads to.
"""

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from ddp.archive import read, refuse, write
from ddp.derivatives import Derivatives
from ddp.errors import DDPError, ProblemError, as_array, axes, numbers, positive, suggesting
from ddp.feedback.policy import Policy, as_state, held_policy
from ddp.files import as_path, shown
from ddp.machine.aligned import aligned_zeros
from ddp.matrices import definite
from ddp.protocols import Array, Dynamics
from ddp.sweeps.backward import Backward
from ddp.systems.derived_dynamics import as_system
from ddp.systems.system import Expansion, LinearSystem, System, ability

STILL = 1e-6
"""The most [m, rad, m/s, rad/s] that a step may move an equilibrium, and that rounding may move what is zero."""

LASTING = 1e-12
"""Share by which modes have to decay in a step: rounding makes those that stay decay, or grow, by 1e-15."""


@dataclass(frozen=True, eq=False, repr=False)
class Regulator:
    """The policy ``u = U + K (x ⊖ X)`` about an equilibrium or a trajectory.

    Of an equilibrium X (nx,), U (nu,), K (nu, n), P (n, n); of a trajectory X (N+1, nx), U (N, nu), K (N, nu, n),
    P (N+1, n, n).   dynamics: the system; None if loaded without it.
    """

    X: Array
    U: Array
    K: Array
    P: Array
    dynamics: System | None = None

    def __repr__(self) -> str:
        (nu, n), steps = self.K.shape[-2:], len(self.K)
        where = "an equilibrium" if self.stationary else f"a trajectory of {steps} steps"
        return f"Regulator(about {where}, {nu} controls of {n} deviations)"

    def __str__(self) -> str:
        if self._slowest is None:
            return repr(self)
        return f"{repr(self)[:-1]}, the largest closed-loop eigenvalue {self._slowest:.4g} a step)"

    @cached_property
    def _slowest(self) -> float | None:
        """The largest absolute eigenvalue of A + B K, below 1; None along trajectories, and without a system.

        Of deviations that cost nothing, as of those that contacts hold, it does not tell.
        """
        if self.dynamics is None or not self.stationary:
            return None
        A, B = self.dynamics.linearize(self.X, self.U)
        sizes, ways = np.linalg.eigh(self.P)
        T = ways[:, sizes > LASTING * sizes.max(initial=0.0)]
        return float(np.abs(np.linalg.eigvals(T.T @ (A + B @ self.K) @ T)).max(initial=0.0))

    @property
    def stationary(self) -> bool:
        """Whether it is of an equilibrium."""
        return self.X.ndim == 1

    def policy(self, t: float, x: ArrayLike) -> Array:
        """The control (nu,) at time t [s] in state x (nx,), within the system's limits; t counts along trajectories.

        Raises ProblemError for a t that the horizon does not hold, for an x that is no state, and without a system.
        """
        d = self.dynamics
        if d is None:
            raise ProblemError("dynamics: policy needs the system: Regulator.load(path, dynamics)")
        if not self.stationary:
            return self._along(t, x)
        as_array("t", t, ())
        moved = self.U + self.K @ d.difference(self.X, as_state(d, "x", x))
        return np.asarray(np.clip(moved, *limits_of(d)))

    @cached_property
    def _along(self) -> Policy:
        assert self.dynamics is not None
        return held_policy(self.dynamics, self.X, self.U, self.K, *limits_of(self.dynamics))

    def export(self, path: str | os.PathLike[str]) -> Path:
        """Write reference and gains by the names of joints (.npz, .csv, .json), as `Policy.export` does.

        Of an equilibrium there is one step, from time 0 on, whose gains hold for all times.
        Returns where it is; raises ProblemError if it cannot be written, and without a system.
        """
        if self.dynamics is None:
            raise ProblemError("dynamics: export needs the system: Regulator.load(path, dynamics)")
        if not self.stationary:
            return self._along.export(path)
        X, U, K = np.stack([self.X, self.X]), self.U[None], self.K[None]
        return held_policy(self.dynamics, X, U, K, *limits_of(self.dynamics)).export(path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all but the system to one .npz file, completely or not at all; ProblemError if that cannot be."""
        save_gains(path, "a regulator", self.X, self.U, {"K": self.K, "P": self.P})

    @staticmethod
    def load(path: str | os.PathLike[str], dynamics: Dynamics | None = None) -> "Regulator":
        """Read a saved regulator; with its system it is a policy again.

        Raises ProblemError if the file is missing, is no such file, or does not fit ``dynamics``.
        """
        system = None if dynamics is None else as_system(dynamics)
        X, U, gains = load_gains(path, "a regulator", {"K": ("N", "nu", "n"), "P": ("states", "n", "n")}, system)
        return Regulator(X, U, gains["K"], gains["P"], system)


def limits_of(system: System) -> tuple[Array, Array]:
    """Lower and upper limits (nu,) of a system's controls, infinite where there are none."""
    limits = ability(system, "control_limits")
    lower, upper = np.tile([[-np.inf], [np.inf]], system.nu) if limits is None else np.asarray(limits).T
    return lower, upper


@suggesting
def discretize(A: ArrayLike, B: ArrayLike, dt: float) -> LinearSystem:
    """A and B of steps of dt [s] of ``dx' = A dx + B du`` with controls held: exact, by the matrix exponential.

    A (n, n), B (n, nu), or batches with an axis before.
    """
    from scipy.linalg import expm

    A = as_array("A", A, (None, None) if axes(A) < 3 else (None, None, None))
    if A.shape[-1] != A.shape[-2]:
        raise ProblemError(f"A: expected a square matrix, got shape {A.shape}")
    n, dt = A.shape[-1], positive("dt", dt)
    B = as_array("B", B, (*A.shape[:-1], None))
    both = np.zeros((*A.shape[:-2], n + B.shape[-1], n + B.shape[-1]))
    both[..., :n, :n], both[..., :n, n:] = dt * A, dt * B
    with np.errstate(all="ignore"):
        found = expm(both)
    if not np.isfinite(found).all():
        raise ProblemError(f"dt: expected a step over which the system grows to finite numbers, got {dt:g}")
    return LinearSystem(np.ascontiguousarray(found[..., :n, :n]), np.ascontiguousarray(found[..., :n, n:]))


@suggesting
def lqr(
    dynamics: Dynamics, x: ArrayLike, u: ArrayLike, Q: ArrayLike, R: ArrayLike, held: ArrayLike | None = None
) -> Regulator:
    """The regulator of an infinite horizon about an equilibrium ``f(x, u) = x``.

    Q (n, n) or (n,), R (nu, nu) or (nu,): weights of one step, positive semidefinite and definite.
    held (m, n): rows C of what cannot deviate. The policy is of deviations with ``C dx = 0``, which steps have to keep.
    Default: those that the dynamics know, as a ``PhasedDynamics`` does of the contacts of its first phase.
    Raises ProblemError for what does not fit, is no equilibrium, or cannot be stabilised.
    """
    system = as_system(dynamics)
    x, u = as_state(system, "x", x), as_array("u", u, (system.nu,))
    n, nu = system.n, system.nu
    Q, R = weights("Q", Q, n), weights("R", R, nu, strictly=True)
    check_equilibrium(system, x, u)
    A, B = system.linearize(x, u)
    T = free_directions(system, x, held, A, B)
    P = riccati(T.T @ A @ T, T.T @ B, T.T @ Q @ T, R, "the controls do not reach it", "Q, R")
    K = -np.linalg.solve(R + B.T @ T @ P @ T.T @ B, B.T @ T @ P @ T.T @ A @ T) @ T.T
    return Regulator(x.copy(), u.copy(), K, T @ P @ T.T, system)


@suggesting
def tvlqr(dynamics: Dynamics, X: ArrayLike, U: ArrayLike, Q: ArrayLike, R: ArrayLike, Q_end: ArrayLike) -> Regulator:
    """The regulator along a trajectory X (N+1, nx), U (N, nu), by the backward sweep.

    Q, R: as of `lqr`, or one each knot, (N, n, n) and (N, nu, nu).  Q_end (n, n) or (n,): of the last state.
    Raises ProblemError for what does not fit.
    """
    system = as_system(dynamics)
    X, U = trajectory(system, X, U)
    (N, nu), n = U.shape, system.n
    Q, R, Q_end = weights("Q", Q, n, N), weights("R", R, nu, N, strictly=True), weights("Q_end", Q_end, n)
    lzz = aligned_zeros((N + 1, n + nu, n + nu))
    lzz[:N, :n, :n], lzz[:N, n:, n:], lzz[N, :n, :n] = Q, R, Q_end
    A, B, record = linearized(system, X, U)
    none = aligned_zeros((N + 1, n + nu))
    swept = Backward(Derivatives(A, B, record, none[:, 0], none, lzz, lzz, none, np.zeros(0)), system)(0.0, 0.0)
    if swept.failed >= 0:
        raise ProblemError(f"R: expected weights for which controls have a minimum, got none at knot {swept.failed}")
    K, P = swept.K.copy(), np.empty((N + 1, n, n))
    P[N] = Q_end
    for k in range(N - 1, -1, -1):  # of what the policy costs
        closed = A[k] + B[k] @ K[k]
        P[k] = lzz[k, :n, :n] + K[k].T @ lzz[k, n:, n:] @ K[k] + closed.T @ P[k + 1] @ closed
    return Regulator(X.copy(), U.copy(), K, P, system)


# -- shared with observers.py ------------------------------------------------------------------------


def weights(name: str, value: ArrayLike, n: int, knots: int | None = None, strictly: bool = False) -> Array:
    """A weight (n, n), of its diagonal (n,) too, or one each knot; ProblemError unless symmetric and not negative."""
    shape = {1: (n,), 3: (knots, n, n)}.get(axes(value) if knots or axes(value) == 1 else 2, (n, n))
    W = as_array(name, value, shape)
    return definite(name, np.diag(W) if W.ndim == 1 else W, 1e-9, strictly)


def check_equilibrium(system: System, x: Array, u: Array) -> None:
    """Raise ProblemError unless a step keeps x under u; it says whether the nominal control would."""

    def moved(u: Array) -> float:
        with np.errstate(all="ignore"):
            return float(np.abs(system.difference(x, system.step(x, u))).max())

    if not (by_u := moved(u)) <= STILL:
        why = f"expected an equilibrium, which a step does not move, got one moved by {by_u:.3g}"
        told = ""
        with contextlib.suppress(DDPError):  # where a user's step is not defined for that control
            told = "; u = dynamics.nominal_control(x) keeps x" if moved(system.nominal_control(x)) <= STILL else ""
        raise ProblemError(f"x, u: {why}{told}")


def free_directions(system: System, x: Array, held: ArrayLike | None, A: Array, B: Array) -> Array:
    """An orthonormal basis (n, m) of the deviations from x that nothing holds, which steps A, B must keep."""
    from scipy.linalg import null_space

    n, known = len(A), ability(system, "held_directions")
    if held is None and known is None:
        return np.eye(n)
    held = known(x) if held is None else held
    C = as_array("held", held, (None, n))
    T = np.asarray(null_space(C)) if C.size else np.eye(n)
    left = max(np.abs(C @ M).max(initial=0.0) for M in (A @ T, B))
    if left > STILL * np.abs(C).max(initial=1.0):
        raise ProblemError(f"held: expected rows whose null space a step keeps, got ones that it leaves by {left:.3g}")
    return T


def riccati(A: Array, B: Array, Q: Array, R: Array, why: str, field: str) -> Array:
    """P = Q + Aᵀ P A - Aᵀ P B (R + Bᵀ P B)⁻¹ Bᵀ P A that stabilises; ProblemError names the mode that hinders it."""
    from scipy.linalg import solve_discrete_are

    stable = False
    with np.errstate(all="ignore"), contextlib.suppress(ValueError):  # LinAlgError, or none of SciPy's orders of modes
        P = np.asarray(solve_discrete_are(A, B, Q, R))
        closed = A - B @ np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)
        stable = bool(np.abs(np.linalg.eigvals(closed)).max(initial=0.0) < 1.0 - LASTING)
    if stable:
        return P
    for mode in np.linalg.eigvals(A):
        pencil = np.hstack([A - mode * np.eye(len(A)), B])
        if abs(mode) >= 1.0 - 1e-9 and np.linalg.svd(pencil, compute_uv=False)[-1] < 1e-9 * max(1.0, abs(mode)):
            raise ProblemError(f"dynamics: expected a mode {numbers(mode)} to be stabilised, but {why}")
    raise ProblemError(f"{field}: expected weights of every mode that does not decay, got none of some")


def trajectory(system: System, X: ArrayLike, U: ArrayLike, names: tuple[str, str] = ("X", "U")) -> tuple[Array, Array]:
    """States (N+1, nx) and controls (N, nu), checked; names: theirs in errors."""
    U = as_array(names[1], U, (None, system.nu))
    X = as_array(names[0], X, (len(U) + 1, system.nx))
    if not len(U):
        raise ProblemError(f"{names[1]}: expected at least one knot, got none")
    system.check_state(names[0], X)
    return X, U


def linearized(system: System, X: Array, U: Array) -> Expansion:
    """The first order of the knots of a trajectory."""
    found = Expansion.of(system, len(U), aligned_zeros)
    system.expand(X[: len(U)], U, found)
    if not (np.isfinite(found.A).all() and np.isfinite(found.B).all()):
        raise ProblemError("X, U: expected knots where derivatives of the dynamics are finite, got others")
    return found


VERSION = 1

Sizes = Mapping[str, tuple[str, str, str]]
"""Names of arrays -> their three lengths by name: "N" knots or "states", one more; "nu", "n", or others."""


def save_gains(path: str | os.PathLike[str], what: str, X: Array, U: Array, gains: Mapping[str, Array]) -> None:
    """Write gains of a kind, ``what`` with its article, completely or not at all; ProblemError if that cannot be."""
    signs = {"format": _format(what), "version": VERSION, "stationary": X.ndim == 1}
    arrays = {name: array.reshape(-1, *array.shape[-2:]) for name, array in gains.items()}
    write(path, signs | {"X": np.atleast_2d(X), "U": np.atleast_2d(U)} | arrays)


def load_gains(
    path: str | os.PathLike[str], what: str, sizes: Sizes, system: System | None
) -> tuple[Array, Array, dict[str, Array]]:
    """X, U and the gains of a file, without their axis of knots about an equilibrium.

    Raises ProblemError if the file is missing, is no such file, or does not fit ``system``.
    """
    file = as_path(path)
    signs = read(file, {"format": "U0", "version": "i0", "stationary": "b0"}, what=what)
    if str(signs.get("format")) != _format(what) or signs.get("version") != VERSION or "stationary" not in signs:
        raise ProblemError(f"path: {shown(file)} is not {what} file of version {VERSION}")
    kinds = {"X": "f2", "U": "f2"} | dict.fromkeys(sizes, "f3")
    found = read(file, kinds, what=what)
    if missing := kinds.keys() - found.keys():
        raise ProblemError(f"path: {shown(file)} lacks {', '.join(sorted(missing))}")
    X, U, alone = found.pop("X"), found.pop("U"), bool(signs["stationary"])
    known = {"N": len(U), "states": len(X), "nu": U.shape[1]}
    if system is not None:
        known["n"] = system.n
        if (own := (system.nx, system.nu)) != (given := (X.shape[1], U.shape[1])):
            raise ProblemError(f"path: {shown(file)} is of another system: expected nx, nu = {own}, got {given}")
        system.check_state("path", X)
    damaged = [] if len(X) == (1 if alone else len(U) + 1) and (len(U) == 1 or not alone) else ["X"]
    for name, lengths in sizes.items():
        right = all(known.setdefault(of, got) == got for of, got in zip(lengths, found[name].shape, strict=True))
        damaged += [] if right and np.isfinite(found[name]).all() else [name]
    refuse(file, damaged, what)
    return (X[0], U[0], {name: array[0] for name, array in found.items()}) if alone else (X, U, found)


def _format(what: str) -> str:
    """The first word of a file says whose it is, the second what it holds."""
    return f"mayne {what.split()[-1]}"

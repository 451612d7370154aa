"""Systems whose steps and derivatives are functions of all knots at once, as other libraries have them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ddp.errors import ModelError, ProblemError, as_array, positive, positive_integer, said
from ddp.protocols import Array
from ddp.systems.by_knot import ByKnot
from ddp.systems.system import Expansion
from ddp.tracing.spaces import as_space

Batch = Callable[..., Any]


class BatchDynamics(ByKnot):
    """``x' = f(x, u)`` of plain numbers, by functions of X (M, nx) and U (M, nu).

    step: gives the next states (M, nx).   jacobian: gives A (M, nx, nx) and B (M, nx, nu).
    second: gives second derivatives (M, nx, nz, nz), z = (x, u).
    dt [s]: the time step.   origin: where derivatives come from, for people.

    Rollouts step all step lengths of a line search at once, one knot after the other.
    Raises ModelError where a function raises something, or returns other shapes.
    """

    def __init__(
        self, step: Batch, jacobian: Batch, second: Batch, nx: int, nu: int, dt: float = 1.0, origin: str = "given"
    ) -> None:
        for field, function in (("step", step), ("jacobian", jacobian), ("second", second)):
            if not callable(function):
                raise ProblemError(f"{field}: expected a function of X and U, got {said(function)}")
        self.nx, self.nu, self.dt = positive_integer("nx", nx), positive_integer("nu", nu), positive("dt", dt)
        self._space = as_space(None, self.nx)
        self._step, self._jacobian, self._second, self._from = step, jacobian, second, origin
        X, U = np.zeros((2, self.nx)), np.zeros((2, self.nu))
        with np.errstate(all="ignore"):
            self._stepped(X, U)
            self._slopes_of(X, U)

    def _asked(self, name: str, function: Batch, X: Array, U: Array, *shapes: tuple[int, ...]) -> list[Array]:
        """Arrays that a function gives, their shapes checked."""
        try:
            found = function(X.copy(), U.copy())  # theirs to write on
            parts = (found,) if len(shapes) == 1 else tuple(found)
        except Exception as reason:
            raise ModelError(f"{name}: raised {type(reason).__name__}: {reason}") from reason
        if len(parts) != len(shapes):
            raise ModelError(f"{name}: expected {len(shapes)} arrays, got {len(parts)}")
        pairs = zip(parts, shapes, strict=True)
        return [as_array(name, np.asarray(part), shape, ModelError, finite=False) for part, shape in pairs]

    def _stepped(self, X: Array, U: Array, first: int = 0) -> Array:
        return self._asked("step", self._step, X, U, X.shape)[0]

    def _slopes_of(self, X: Array, U: Array) -> list[Array]:
        M, nx = X.shape
        return self._asked("jacobian", self._jacobian, X, U, (M, nx, nx), (M, nx, self.nu))

    def _called(self, x: Any, u: Any) -> Any:
        return self.step(x, u)

    def track(
        self, X: Array, U: Array, k: Array, K: Array, alphas: Array, gaps: Array, lower: Array, upper: Array
    ) -> tuple[Array, Array]:
        lower, upper, a = np.broadcast_to(lower, U.shape), np.broadcast_to(upper, U.shape), np.asarray(alphas)[:, None]
        Xs, Us = np.empty((len(a), *X.shape)), np.empty((len(a), *U.shape))
        Xs[:, 0] = X[0]
        with np.errstate(all="ignore"):
            for t in range(len(U)):
                Us[:, t] = np.clip(U[t] + a * k[t] + (Xs[:, t] - X[t]) @ K[t].T, lower[t], upper[t])
                after = self._stepped(np.ascontiguousarray(Xs[:, t]), np.ascontiguousarray(Us[:, t]))
                whole = np.isfinite(after).all(axis=1) & np.isfinite(Us[:, t]).all(axis=1)
                Xs[:, t + 1] = np.where(np.reshape(whole, (-1, 1)), after + (a - 1.0) * gaps[t], np.nan)
        return Xs, Us

    def expand(self, X: Array, U: Array, out: Expansion, first: int = 0) -> None:
        out.A[:], out.B[:] = self._slopes_of(np.ascontiguousarray(X), np.ascontiguousarray(U))

    def expand_second(self, X: Array, U: Array, out: Expansion, first: int = 0) -> None:
        """The second order of M knots, into out.record."""
        X, U, nz = np.ascontiguousarray(X), np.ascontiguousarray(U), self.nx + self.nu
        (tensors,) = self._asked("second", self._second, X, U, (len(X), self.nx, nz, nz))
        out.record[:] = tensors.reshape(len(X), -1)

    def _origin(self) -> str:
        return self._from

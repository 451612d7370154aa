"""A user's own cost term, made into the batch protocol: what it does not give is derived numerically.

A term has ``value(x, u) -> float``. It may have ``gradient(x, u)`` of shape (n+nu,) or (n,), and
``hessian(x, u)`` of shape (n+nu, n+nu) or (n, n), both in exponential coordinates about (x, u): derivatives
of ``value(x ⊕ dx, u + du)`` at zero. The short shapes say that u does not matter. Everything is called once a
knot; at the end of the horizon u is zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ddp import differences
from ddp.protocols import Array, Dynamics, Term


class TermError(Exception):
    """A term's own code failed at a row of the batch; the problem knows which term and which knot that is."""

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row = row


@runtime_checkable
class _Gradient(Protocol):
    def gradient(self, x: Array, u: Array) -> Array: ...


@runtime_checkable
class _Hessian(Protocol):
    def hessian(self, x: Array, u: Array) -> Array: ...


@dataclass(eq=False)
class DerivedTerm:
    """A `Term` as a `BatchTerm`; its Gauss-Newton Hessian is the exact one's positive semidefinite part."""

    term: Term
    dynamics: Dynamics
    _last: tuple[Array, Array, Array, Array, Array] | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {"term": self.term, "dynamics": self.dynamics, "_last": None}

    def values(self, X: Array, U: Array) -> Array:
        """The costs (M,); NaN is let through, for the line search to step back from."""
        return np.array([self._value(row, x, u) for row, (x, u) in enumerate(zip(X, U, strict=True))])

    def expand(self, X: Array, U: Array, weight: float, exact: bool, l: Array, lz: Array, lzz: Array) -> None:
        """Add weight times value, gradient and Hessian.

        The solver asks for Gauss-Newton first, and then perhaps for the exact Hessian of the same trajectory:
        what was derived is kept for that.
        """
        last = self._last if exact else None
        if last is None or not (np.array_equal(last[0], X) and np.array_equal(last[1], U)):
            knots = [self._derive(row, x, u) for row, (x, u) in enumerate(zip(X, U, strict=True))]
            values, gradients, hessians = (np.array(part) for part in zip(*knots, strict=True))
            self._last = last = X.copy(), U.copy(), values, gradients, hessians
        _, _, values, gradients, hessians = last
        l += weight * values
        lz += weight * gradients
        lzz += weight * (hessians if exact else positive_part(hessians))

    def _derive(self, row: int, x: Array, u: Array) -> tuple[float, Array, Array]:
        """Value, gradient (nz,) and Hessian (nz, nz) of one knot."""
        n, nz = self.dynamics.n, self.dynamics.n + self.dynamics.nu
        zero = np.zeros(nz)
        value = self._value(row, x, u)
        analytic = False
        if isinstance(self.term, _Gradient):
            gradient = self._given(row, "gradient", self.term.gradient, x, u)
        else:
            gradient, analytic = differences.jacobian(self._about(row, x, u), zero)
        if isinstance(self.term, _Hessian):
            hessian = self._given(row, "hessian", self.term.hessian, x, u)
        elif isinstance(self.term, _Gradient):
            given = self.term.gradient

            def displaced(z: Array) -> Array:
                return self._given(row, "gradient", given, self.dynamics.integrate(x, z[:n]), u + z[n:])

            hessian = differences.real_jacobian(displaced, zero)
        elif analytic:
            hessian = differences.second_jacobian(self._about(row, x, u), zero, analytic)
        else:
            h = np.full(nz, differences.SECOND)
            Z = differences.second_difference_points(nz) * h
            moved = zip(self.dynamics.integrate(np.tile(x, (len(Z), 1)), Z[:, :n]), u + Z[:, n:], strict=True)
            hessian = differences.second_difference(np.array([self._value(row, *at) for at in moved]), nz, h)
        for what, array in (("value", value), ("gradient", gradient), ("Hessian", hessian)):
            if not np.isfinite(array).all():
                raise TermError(row, f"its {what} is not finite")
        return value, gradient, 0.5 * (hessian + hessian.T)

    def _about(self, row: int, x: Array, u: Array) -> Callable[[Any], Any]:
        """The cost as a function of z = (dx, du), real or complex."""
        n = self.dynamics.n

        def cost(z: Any) -> Any:
            if np.iscomplexobj(z):
                return self.term.value(self.dynamics.integrate(x.astype(complex), z[:n]), u + z[n:])
            return self._value(row, self.dynamics.integrate(x, z[:n]), u + z[n:])

        return cost

    def _value(self, row: int, x: Array, u: Array) -> float:
        value = _called(row, "value", self.term.value, x, u)
        try:
            number = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise TermError(row, f"value: expected a number, got {value!r}") from None
        if number.size != 1:
            raise TermError(row, f"value: expected a number, got an array of shape {number.shape}")
        return float(number.reshape(()))

    def _given(
        self, row: int, name: str, function: Callable[[Array, Array], Any], x: Array, u: Array
    ) -> Array:
        """A derivative that the user gives: (n, ...) or (nz, ...), padded with zeros to (nz, ...)."""
        n, nz = self.dynamics.n, self.dynamics.n + self.dynamics.nu
        rank = 1 if name == "gradient" else 2
        try:
            array = np.asarray(_called(row, name, function, x, u), dtype=np.float64)
        except (TypeError, ValueError) as reason:
            raise TermError(row, f"{name}: expected real numbers ({reason})") from None
        if array.shape not in {(n,) * rank, (nz,) * rank}:
            raise TermError(row, f"{name}: expected shape {(nz,) * rank} or {(n,) * rank}, got {array.shape}")
        return np.pad(array, (0, nz - array.shape[0]))


def _called(row: int, name: str, function: Callable[[Array, Array], Any], x: Array, u: Array) -> Any:
    try:
        return function(x.copy(), u.copy())  # theirs to write on
    except Exception as reason:
        raise TermError(row, f"{name} raised {type(reason).__name__}: {reason}") from reason


def positive_part(H: Array) -> Array:
    """The positive semidefinite matrices nearest to H (..., nz, nz): negative eigenvalues become zero."""
    w, V = np.linalg.eigh(H)
    return (V * np.maximum(w, 0.0)[..., None, :]) @ np.swapaxes(V, -1, -2)

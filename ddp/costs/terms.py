"""A user's own cost term, made into the batch protocol: what it does not give is derived numerically.

A term has ``value(x, u) -> float``, or is that function itself. It may have ``gradient(x, u)`` of shape (n+nu,)
or (n,), and ``hessian(x, u)`` of shape (n+nu, n+nu) or (n, n), both in exponential coordinates about (x, u):
derivatives of ``value(x ⊕ dx, u + du)`` at zero. The short shapes say that u does not matter. Everything is called
once a knot; at the end of the horizon u is zeros.
"""

import reprlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np

from ddp import differences, errors
from ddp.errors import REAL, DDPError, ModelError, ProblemError, as_array, line_of, said, settle, suggesting
from ddp.matrices import symmetric
from ddp.protocols import Array, CostFunction, Term
from ddp.systems.system import System


class TermError(Exception):
    """A term's own code failed at a row of the batch; the problem knows which term and which knot that is."""

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row = row


class naming:  # noqa: N801 -- called like a function, at every solve: as a generator it takes three times as long
    """Turn the failure of a term's or a constraint's own code into a ProblemError that names it and the knot.

    A ModelError, of a function that cannot be traced any more, stays one.
    """

    __slots__ = "_knots", "_name"

    def __init__(self, name: str, knots: slice) -> None:
        self._name, self._knots = name, knots

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: Any, failure: BaseException | None, trace: Any) -> None:
        if failure is None:
            return
        name, knots = self._name, self._knots
        if isinstance(failure, TermError):
            knot = min(knots.start + failure.row, knots.stop - 1)  # differences have several rows beside one knot
            raise ProblemError(f"{name}: {failure} at knot {knot}{line_of(failure.__cause__)}") from failure.__cause__
        if isinstance(failure, ProblemError | ModelError):
            kind = ModelError if isinstance(failure, ModelError) else ProblemError
            raise kind(f"{name}: {failure}") from failure
        if isinstance(failure, Exception) and not isinstance(failure, DDPError):
            where = f"at knots {knots.start} to {knots.stop - 1}"
            raise ProblemError(
                f"{name}: raised {type(failure).__name__}: {failure} {where}{line_of(failure)}"
            ) from failure


@dataclass(frozen=True, eq=False)
class FunctionTerm:
    """A function of (x, u) as a `Term`."""

    value: CostFunction


class OfParameters:
    """A record whose ``parameters``, if it has any, vary without its function being traced again."""

    parameters: Any

    @property
    def movable(self) -> tuple[str, ...]:
        return () if self.parameters is None else ("parameters",)

    def varied(self, **numbers: Any) -> Self:
        """Copy with other numbers, see `Problem.varying`; parameters are as many as before."""
        if self.parameters is not None and "parameters" in numbers:
            numbers["parameters"] = as_array("parameters", numbers["parameters"], self.parameters.shape)
        return replace(self, **numbers)  # type: ignore[type-var]


@suggesting
@dataclass(frozen=True, eq=False)
class Cost(OfParameters):
    """A cost ``f(x, u, p)`` of one knot as a term, with parameters p that vary without f being traced again.

        near = ddp.Cost(lambda x, u, p: p[2] * ((x[0] - p[0]) ** 2 + (x[1] - p[1]) ** 2), [1.0, 0.5, 10.0])
        problem.varying({"running[0].parameters": [1.2, 0.5, 10.0]})

    parameters (np,): numbers that `Problem.varying` and horizons change, always as many.
    """

    function: Callable[[Any, Any, Any], Any]
    parameters: Array

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ProblemError(f"function: expected a function of (x, u, p), got {said(self.function)}")
        settle(self, parameters=as_array("parameters", self.parameters, (None,)).copy())

    def value(self, x: Array, u: Array) -> Any:
        """The cost of a knot."""
        return self.function(x, u, self.parameters.copy())


def with_parameters(function: Callable[..., Any], p: Array | None) -> Callable[[Any, Any], Any]:
    """A function (x, u, p) as one of (x, u), or that itself if there are no parameters."""
    return function if p is None else partial(_called_with, function, p)


def _called_with(function: Callable[..., Any], p: Array, x: Any, u: Any) -> Any:
    return function(x, u, p.copy())


@dataclass(eq=False)
class DerivedTerm:
    """A `Term` as a `BatchTerm`; its Gauss-Newton Hessian is the exact one's positive semidefinite part."""

    term: Term
    dynamics: System
    _last: tuple[Array, Array, Array, Array, Array] | None = field(init=False, default=None, repr=False)

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
        """Value, gradient (nz,) and Hessian (nz, nz) of one knot, finite or not."""
        term, zero = self.term, np.zeros(self.dynamics.n + self.dynamics.nu)
        value = self._value(row, x, u)
        slope, bend = getattr(term, "gradient", None), getattr(term, "hessian", None)
        if slope is not None:
            gradient = self.given(row, "gradient", slope, x, u)
        else:
            own = about(self.dynamics, x, u, partial(self._value, row), term.value)
            gradient, hessian = differences.second_order(own, zero)
        if bend is not None:
            hessian = self.given(row, "hessian", bend, x, u)
        elif slope is not None:
            slopes = about(self.dynamics, x, u, partial(self.given, row, "gradient", slope))
            hessian = differences.real_jacobian(slopes, zero)
        return value, gradient, 0.5 * (hessian + hessian.T)

    def _value(self, row: int, x: Array, u: Array) -> float:
        value = called(row, "value", self.term.value, x, u)
        number = np.asarray(value)
        if np.ma.is_masked(value):
            raise TermError(row, "value: expected a real number, got a masked one")
        if number.size != 1:
            raise TermError(row, f"value: expected a number, got an array of shape {number.shape}")
        if number.dtype.kind not in REAL or number.dtype.kind == "b":
            raise TermError(row, f"value: expected a real number, got {reprlib.repr(value)}")
        return float(number.reshape(()))

    def given(self, row: int, name: str, function: Callable[[Array, Array], Any], x: Array, u: Array) -> Array:
        """A derivative that the user gives: (n, ...) or (nz, ...), padded with zeros to (nz, ...)."""
        n, nz = self.dynamics.n, self.dynamics.n + self.dynamics.nu
        rank = 1 if name == "gradient" else 2
        result = called(row, name, function, x, u)
        try:
            array = as_array(name, result, (None,) * rank, finite=False)
            if rank == 2 and array.shape[0] == array.shape[1]:
                array = symmetric(name, array)
        except ProblemError as reason:
            raise TermError(row, str(reason)) from None
        if array.shape not in {(n,) * rank, (nz,) * rank}:
            raise TermError(row, f"{name}: expected shape {(nz,) * rank} or {(n,) * rank}, got {array.shape}")
        return np.pad(array, (0, nz - array.shape[0]))


def about(dynamics: System, x: Array, u: Array, real: Any, complex_: Any = None) -> Callable[[Any], Any]:
    """A function of a knot as one of z = (dx, du) at zero, of ``complex_`` where z is complex."""
    n = dynamics.n

    def moved(z: Any) -> Any:
        if np.iscomplexobj(z):
            return complex_(dynamics.integrate(x.astype(complex), z[:n]), u + z[n:])
        return real(dynamics.integrate(x, z[:n]), u + z[n:])

    return moved


def called(row: int, name: str, function: Callable[[Array, Array], Any], x: Array, u: Array) -> Any:
    """Call a user's function; TermError if it raises."""
    try:
        return function(x.copy(), u.copy())  # theirs to write on
    except Exception as reason:
        if isinstance(reason, TypeError) and (own := errors.other_arguments(function, 2)):
            what = f"{name}: expected a function of x and u (zeros at the end), got one of {own}"
            raise TermError(row, what) from reason
        raise TermError(row, f"{name} raised {type(reason).__name__}: {reason}") from reason


def positive_part(H: Array) -> Array:
    """The positive semidefinite matrices nearest to H (M, nz, nz): negative eigenvalues become zero.

    Matrices that are not finite become NaN.
    """
    finite = np.isfinite(H).all(axis=(1, 2))
    w, V = np.linalg.eigh(H[finite])
    nearest = np.full_like(H, np.nan)
    nearest[finite] = (V * np.maximum(w, 0.0)[:, None, :]) @ V.transpose(0, 2, 1)
    return nearest

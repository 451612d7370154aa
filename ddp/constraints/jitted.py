"""A user's own constraint, compiled by numba: evaluated in the same call as the built-in ones."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ddp.compiling.kernel import jitted, specialised
from ddp.constraints.bound import CompiledConstraint, Kernels, bind
from ddp.constraints.compiled import KernelConstraint
from ddp.costs.jitted import STENCIL, by_numba, check_compilable, check_given, move, place, step
from ddp.costs.terms import called
from ddp.differences import FIRST
from ddp.errors import ProblemError, axes, flag, settle
from ddp.protocols import Array
from ddp.systems.system import System


@dataclass(frozen=True, eq=False)
class JittedConstraint:
    """``lower <= c(x, u) <= upper`` of functions that numba can compile, decorated with ``numba.njit`` or not.

        @numba.njit
        def power(x, u):
            return u * x[6:]

        ddp.Problem(dynamics, ..., constraints=[ddp.JittedConstraint(power, lower=-100.0, upper=100.0)])

    function(x, u): an array (size,), x (nx,), u (nu,) arrays; at the end of the horizon u is zeros.
    jacobian(x, u): (size, n+nu) or (size, n); hessian(x, u, weight): ``Σ_i weight_i ∂²c_i`` (n+nu, n+nu) or (n, n), in
    exponential coordinates; the short shapes say that u does not matter. A function alone is traced, as `Inequality`'s;
    without a hessian the jacobian is differenced, to fourth order, which takes states that are plain numbers.
    lower, upper: numbers or arrays (size,), infinite where there is none, equal for an equality; without
        either, ``c(x, u) <= 0``, and one of them alone is the only bound.
    at_end: as of `Inequality`.

    Where a function raises, c or its derivative is NaN: a step there is rejected.
    """

    function: Callable[[Any, Any], Any]
    jacobian: Callable[[Any, Any], Any] | None = None
    hessian: Callable[[Any, Any, Any], Any] | None = None
    lower: ArrayLike = -np.inf
    upper: ArrayLike | None = None
    at_end: bool = True

    def __post_init__(self) -> None:
        lower, upper = bounds_of(self.lower, self.upper)
        settle(self, lower=lower, upper=upper)
        flag("at_end", self.at_end)
        check_compilable(self, "function", "jacobian")


def bounds_of(lower: ArrayLike, upper: ArrayLike | None) -> tuple[ArrayLike, ArrayLike]:
    """Bounds as given, lists and arrays as read-only copies; without an upper one 0, or none beside a lower bound."""
    if upper is None:
        upper = 0.0 if np.all(np.asarray(lower, dtype=object) == -np.inf) else np.inf
    low, high = (
        np.array(one, subok=True) if isinstance(one, np.ndarray) or axes(one) == 1 else one for one in (lower, upper)
    )  # fmt: skip
    for one in (low, high):
        if isinstance(one, np.ndarray):
            one.flags.writeable = False
    return low, high


class CompiledJittedConstraint(KernelConstraint):
    """A `JittedConstraint` with bounds (size,), for a system; x: a state to try."""

    def __init__(self, name: str, given: JittedConstraint, lower: Array, upper: Array, dynamics: System, x: Array):
        self.given, self.lower, self.upper, self.dynamics = given, lower, upper, dynamics
        n, nz, size = dynamics.n, dynamics.n + dynamics.nu, len(lower)
        check_given(f"{name}: jacobian", given.jacobian, given.hessian, dynamics)
        u, weight = np.zeros(dynamics.nu), np.ones(size)
        tried = ("jacobian", (x, u), {(size, n), (size, nz)}), ("hessian", (x, u, weight), {(n, n), (nz, nz)})
        for field, arguments, shapes in tried[: 1 + (given.hessian is not None)]:
            found = np.shape(getattr(given, field)(*(part.copy() for part in arguments)))
            if found not in shapes:
                raise ProblemError(f"{name}: {field}: expected shape {max(shapes)}, got {found}")

    @property
    def n(self) -> int:
        return int(self.dynamics.n)

    def values(self, X: Array, U: Array) -> Array:
        """c (M, size), one call after the other: what the function raises is raised, and named."""
        rows = zip(X, U, strict=True)
        return np.array([called(k, "c", self.given.function, x, u) for k, (x, u) in enumerate(rows)], dtype=float)

    def _bound(self) -> CompiledConstraint:
        given = self.given
        assert given.jacobian is not None
        function, jacobian = jitted(given.function), jitted(given.jacobian)
        hessian = jitted(given.hessian or specialised(_hessian_by_jacobians, "hessian", jacobian=jacobian))
        names = {"function": function, "jacobian": jacobian, "hessian": hessian}
        kernels = Kernels(*(jitted(specialised(one, "c", **names)) for one in (_values, _jacobian, _curvature)))
        with by_numba():
            return bind(kernels, 0, columns=np.arange(self.n + self.dynamics.nu)).owned(kernels)


# The templates: compiled for each constraint, with its functions for these names.
function: Any = None
jacobian: Any = None
hessian: Any = None


def _values(unused, X, U, c):  # type: ignore[no-untyped-def]
    x, u = np.empty(X.shape[1]), np.empty(U.shape[1])
    for k in range(X.shape[0]):
        try:
            place(X[k], U[k], x, u)
            y = function(x, u)
            if y.size != c.shape[1]:
                raise ValueError
            for i in range(y.size):
                c[k, i] = y[i]
        except Exception:
            c[k] = np.nan


def _jacobian(unused, X, U, J):  # type: ignore[no-untyped-def]
    x, u = np.empty(X.shape[1]), np.empty(U.shape[1])
    for k in range(X.shape[0]):
        try:
            place(X[k], U[k], x, u)
            found = jacobian(x, u)
            if len(found) != J.shape[1] or found.shape[1] > J.shape[2]:
                raise ValueError
            J[k] = 0.0
            for i in range(J.shape[1]):
                for a in range(found.shape[1]):
                    J[k, i, a] = found[i, a]
        except Exception:
            J[k] = np.nan


def _curvature(unused, X, U, weight, H):  # type: ignore[no-untyped-def]
    x, u, w = np.empty(X.shape[1]), np.empty(U.shape[1]), np.empty(weight.shape[1])
    for k in range(X.shape[0]):
        try:
            place(X[k], U[k], x, u)
            for i in range(w.size):
                w[i] = weight[k, i]
            found = hessian(x, u, w)
            m = len(found)
            if m > H.shape[1] or found.shape[1] != m:
                raise ValueError
            for a in range(m):
                for b in range(m):
                    H[k, a, b] += 0.5 * (found[a, b] + found[b, a])
        except Exception:
            H[k] = np.nan


def _hessian_by_jacobians(x, u, weight):  # type: ignore[no-untyped-def]
    """Differences of ``weight J``."""
    xm, um = x.copy(), u.copy()
    m = jacobian(xm, um).shape[1]
    H = np.zeros((m, m))
    for a in range(m):
        size = step(x, u, a, FIRST)
        for point, share in STENCIL:
            place(x, u, xm, um)
            move(xm, um, a, point * size)
            J = jacobian(xm, um)
            for b in range(m):
                for i in range(weight.size):
                    H[a, b] += share / size * weight[i] * J[i, b]
    return H

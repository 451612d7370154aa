"""What the solver asks of a dynamical system and of a cost term: the vocabulary the packages share."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Expansion(NamedTuple):
    """First order of M knots, and what each keeps for its second order.

    A (M, n, n), B (M, n, nu): ``f(x ⊕ dx, u + du) ⊖ f(x, u) = A dx + B du + ...``.
    record (M, record_size): opaque to the solver, laid out by the dynamics that wrote it.
    """

    A: Array
    B: Array
    record: Array


class Contraction(NamedTuple):
    """A compiled second order: the C function ``void(context, record*, weight*, hessian*)``.

    It writes the symmetric (n + nu, n + nu) Hessian of ``weight @ (f(x ⊕ dx, u + du) ⊖ f(x, u))`` of the knot
    whose record it is given. ``owner`` keeps alive what ``context`` points to.
    """

    address: int
    context: int
    owner: Any


@runtime_checkable
class Dynamics(Protocol):
    """A discrete-time system ``x' = f(x, u)`` on a manifold.

    nx numbers describe a state, n a tangent vector of it, nu a control; dt [s] is the step (1 if there is none).
    Everything a knot yields depends on that knot alone: however knots are shared among processes, results are the same.
    """

    @property
    def nx(self) -> int: ...
    @property
    def n(self) -> int: ...
    @property
    def nu(self) -> int: ...
    @property
    def dt(self) -> float: ...
    @property
    def record_size(self) -> int: ...

    def step(self, x: Array, u: Array) -> Array:
        """The next state, (nx,) or (M, nx)."""

    def rollout(self, x0: Array, U: Array) -> Array:
        """The states (N+1, nx) that controls U (N, nu) lead to."""

    def difference(self, x0: Array, x1: Array) -> Array:
        """``x1 ⊖ x0``, the tangent vector at x0 that leads to x1: (n,) or (M, n)."""

    def integrate(self, x: Array, dx: Array) -> Array:
        """``x ⊕ dx``, (nx,) or (M, nx)."""

    def check_state(self, field: str, x: Array) -> None:
        """Raise ProblemError naming ``field`` if an x (..., nx) is not a state (a quaternion that is not unit, say)."""

    def linearize(self, x: Array, u: Array) -> tuple[Array, Array]:
        """``A (n, n), B (n, nu)`` of one knot."""

    def hessian(self, x: Array, u: Array, weight: Array) -> Array:
        """The exact Hessian (n+nu, n+nu) of ``weight @ (f(x ⊕ dx, u + du) ⊖ f(x, u))`` of one knot."""

    def nominal_control(self, x: Array) -> Array:
        """The control (nu,) that keeps x at rest as well as one can, zeros where there is no such notion."""

    def track(self, X: Array, U: Array, k: Array, K: Array, alpha: float) -> tuple[Array, Array]:
        """Closed-loop rollout from X[0] under ``u = U + alpha k + K (x ⊖ X)``; NaN from where it diverges."""

    def expand(self, X: Array, U: Array, out: Expansion) -> None:
        """The first order of M knots, written into ``out``."""

    def expand_second(self, X: Array, U: Array, out: Expansion) -> None:
        """Complete ``out.record`` after ``expand`` at the same X, U."""

    def contraction(self) -> Contraction:
        """The compiled second order, for the backward sweep."""


@runtime_checkable
class Term(Protocol):
    """A user's own cost term: ``value`` is enough; ``gradient`` and ``hessian`` may be given beside it."""

    def value(self, x: Array, u: Array) -> float:
        """The cost at one knot; at the end of the horizon u is zeros."""


@runtime_checkable
class BatchTerm(Protocol):
    """A built-in cost term, evaluated for many knots in one call."""

    def values(self, X: Array, U: Array) -> Array:
        """The costs (M,) at X (M, nx), U (M, nu)."""

    def expand(
        self, X: Array, U: Array, weight: float, exact: bool, l: Array, lz: Array, lzz: Array
    ) -> None:
        """Add ``weight`` times value (M,), gradient (M, nz) and Hessian (M, nz, nz); Gauss-Newton unless ``exact``."""

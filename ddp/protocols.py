"""Vocabulary of users: what a system, a cost term and a constraint of one's own must have.

What the solver asks of systems and terms beyond that is in `ddp.systems.system` and `ddp.costs.batch`; whatever one's
own lack is derived.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Thing = TypeVar("Thing")
CostFunction = Callable[[Any, Any], Any]
"""A cost term that is a function of a knot's x (nx,) and u (nu,), returning a number."""


@runtime_checkable
class Dynamics(Protocol):
    """Discrete-time system ``x' = f(x, u)``: nx numbers describe a state, nu a control.

        class Pendulum:
            nx, nu, dt = 2, 1, 0.02

            def step(self, x, u):
                speed = x[1] + self.dt * (u[0] - 9.81 * np.sin(x[0]))
                return np.array([x[0] + self.dt * speed, speed])

    More may be given, and is derived or left out where it is not:

    dt [s]                          what running costs are multiplied by; default 1
    linearize(x, u) -> A, B         (n, n), (n, nu): ``f(x ⊕ dx, u + du) ⊖ f(x, u) = A dx + B du + ...``
    hessian(x, u, weight)           (n+nu, n+nu): the Hessian of ``weight @ (f(x ⊕ dx, u + du) ⊖ f(x, u))``
    n, difference(x0, x1), integrate(x, dx)
                                    of a manifold: the size of tangent vectors, ``x1 ⊖ x0`` (n,) and ``x ⊕ dx`` (nx,)
    check_state(field, x)           raises ProblemError naming ``field`` if an x (..., nx) is no state
    nominal_control(x)              (nu,), what a solve without a guess begins with; default zeros
    control_limits                  (nu, 2), lower and upper; default none
    thread_safe                     whether threads may call it at once; default no
    derivatives                     "traced": step is called once with numbers that remember how they were made, and
                                    compiled with exact derivatives, where no others and no manifold are given; default
                                    differences
    """

    @property
    def nx(self) -> int: ...
    @property
    def nu(self) -> int: ...

    def step(self, x: Array, u: Array) -> Array:
        """The next state (nx,) of x (nx,) under u (nu,)."""


@runtime_checkable
class Term(Protocol):
    """Cost term of one knot. ``gradient(x, u)`` and ``hessian(x, u)`` may be given, see `ddp.costs.terms`."""

    def value(self, x: Array, u: Array) -> float:
        """The cost at one knot; at the end of the horizon u is zeros."""


@runtime_checkable
class Constraint(Protocol):
    """``lower <= c(x, u) <= upper`` for M knots at a time; X (M, nx), U (M, nu).

    lower, upper (size,): infinite where there is none, equal for an equality; in the units of c.
    """

    @property
    def lower(self) -> Array: ...
    @property
    def upper(self) -> Array: ...

    def values(self, X: Array, U: Array) -> Array:
        """c (M, size)."""

    def jacobian(self, X: Array, U: Array) -> Array:
        """``∂c/∂z`` (M, size, nz)."""

    def curvature(self, X: Array, U: Array, weight: Array) -> Array:
        """``Σ_i weight_i ∂²c_i/∂z²`` (M, nz, nz), symmetric; weight (M, size)."""


def has_all(given: Any, protocol: type) -> bool:
    """Whether an object has all names of a protocol, by ``__getattr__``, too, which isinstance skips from 3.12 on."""
    return all(hasattr(given, name) for name in _names_of(protocol))


@cache
def _names_of(protocol: type) -> list[str]:
    return [name for name in dir(protocol) if not name.startswith("_")]


def copied(thing: Thing, *without: str, **fields: Any) -> Thing:
    """Shallow copy with other fields, which are not checked, and without some, as cached properties are made anew."""
    twin = object.__new__(type(thing))
    own = vars(twin)
    own.update(vars(thing))
    for name in without:
        own.pop(name, None)
    own.update(fields)
    return twin

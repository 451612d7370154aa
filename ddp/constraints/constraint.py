"""Constraints ``lower <= c(x, u) <= upper`` at knots; where the bounds are equal, an equality.

A constraint is an object of the protocol `Constraint`, or made from a plain NumPy function: `Equality`, `Inequality`;
one that may be violated for a price is in a `Soft`.
Derivatives are in exponential coordinates z = (dx, du) of ``c(x ⊕ dx, u + du)`` at zero, as those of cost terms are.
"""

import reprlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ddp import differences
from ddp.constraints.jitted import CompiledJittedConstraint, JittedConstraint, bounds_of
from ddp.constraints.traced import TracedConstraint
from ddp.costs.terms import OfParameters, TermError, about, called, with_parameters
from ddp.errors import REAL, ProblemError, as_array, axes, choice, flag, line_of, said, settle, suggesting
from ddp.protocols import Array, Constraint, has_all
from ddp.systems.system import System
from ddp.tracing.function import TracedFunction, space_of
from ddp.tracing.trace import FollowError, refused

Function = Callable[..., Any]

DERIVATIVES = "traced", "differences"


class _OfFunction(OfParameters):
    """Checks of `Equality` and `Inequality`."""

    function: Function
    jacobian: Function | None
    derivatives: str
    at_end: bool

    def __post_init__(self) -> None:
        for name, thing in (("function", self.function), ("jacobian", self.jacobian)):
            if not callable(thing) and not (thing is None and name == "jacobian"):
                bounds = "; bounds are lower=, upper=" if name == "jacobian" and isinstance(self, Inequality) else ""
                raise ProblemError(f"{name}: expected a function of (x, u), got {said(thing)}{bounds}")
        flag("at_end", self.at_end)
        choice("derivatives", self.derivatives, DERIVATIVES)
        if self.parameters is not None:
            settle(self, parameters=as_array("parameters", self.parameters, (None,)).copy())


@suggesting
@dataclass(frozen=True, eq=False)
class Equality(_OfFunction):
    """``c(x, u) = 0`` from a function of one knot that returns a number or an array (size,).

    jacobian: ``∂c/∂z`` (size, n+nu) or (size, n) of one knot, in exponential coordinates; if None, see ``derivatives``.
    derivatives: where they come from. "traced": from the function's operations, exact and compiled; "differences": from
        its values. Where a jacobian is given, or the space of states is not known, they are by differences.
    at_end: among a problem's ``constraints``, whether it holds at the end of the horizon too, if no control enters it;
        of several numbers those that none enters. There u is zeros.
    parameters (np,): numbers p of functions c(x, u, p), jacobian(x, u, p), which `Problem.varying` and horizons change
        without tracing anything again.
    """

    function: Function
    jacobian: Function | None = None
    derivatives: str = "traced"
    at_end: bool = True
    parameters: Array | None = None


@suggesting
@dataclass(frozen=True, eq=False)
class Inequality(_OfFunction):
    """``lower <= c(x, u) <= upper``, without bounds ``c(x, u) <= 0``; the rest as in `Equality`.

    lower, upper: numbers or arrays (size,), infinite where there is none; one of them alone is the only bound.
    """

    function: Function
    jacobian: Function | None = None
    lower: ArrayLike = -np.inf
    upper: ArrayLike | None = None
    derivatives: str = "traced"
    at_end: bool = True
    parameters: Array | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        lower, upper = bounds_of(self.lower, self.upper)
        settle(self, lower=lower, upper=upper)


def check_kind(name: str, given: Any, dynamics: System, x0: Array) -> None:
    """Raise ProblemError for what is no constraint, and for a function that fails at x0; nothing of it is compiled."""
    if isinstance(given, (Equality, Inequality)):
        _size(name, given, dynamics, x0)
    elif isinstance(given, type) or not (isinstance(given, JittedConstraint) or has_all(given, Constraint)):
        what = f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
        raise ProblemError(f"{name}: expected a constraint, Equality(f) or Inequality(f), got {what}")


def _size(name: str, given: Equality | Inequality | JittedConstraint, dynamics: System, x0: Array) -> int:
    """How many numbers a function returns at x0."""
    try:
        function = with_parameters(given.function, getattr(given, "parameters", None))
        return len(_evaluated(0, x0, np.zeros(dynamics.nu), function))
    except TermError as failure:
        raise ProblemError(f"{name}: {failure} at x0 and u = 0{line_of(failure.__cause__)}") from failure.__cause__


def tried_at(given: Equality | Inequality, x: Array, U: Array) -> Array:
    """Numbers (M, size) that a function returns at x under each of M controls; the first ones alone if others fail."""
    function = with_parameters(given.function, given.parameters)
    found = [_evaluated(0, x, U[0], function)]
    with suppress(TermError, ValueError):
        return np.array([*found, *(_evaluated(0, x, u, function) for u in U[1:])])
    return np.array(found)


def made_batch(name: str, given: Any, dynamics: System, x0: Array) -> Constraint:
    """Make a constraint of anything that users list as one, see `check_kind`; ``name`` is for errors."""
    if isinstance(given, (Equality, Inequality, JittedConstraint)):
        constraint: Constraint = _derived(name, given, dynamics, x0)
    else:
        constraint = given
    lower = as_array(f"{name}: lower", constraint.lower, (None,), finite=False)
    upper = as_array(f"{name}: upper", constraint.upper, (len(lower),), finite=False)
    if lower.size == 0:
        raise ProblemError(f"{name}: expected at least one number to constrain, got none")
    for i, (low, high) in enumerate(zip(lower, upper, strict=True)):
        if not (low <= high and low < np.inf and high > -np.inf):
            raise ProblemError(f"{name}: expected lower <= upper, got {low} and {high} at [{i}]: nothing is between")
    return constraint


def _derived(name: str, given: Equality | Inequality | JittedConstraint, dynamics: System, x0: Array) -> Constraint:
    """A constraint by function, its size found at x0."""
    p = getattr(given, "parameters", None)
    function = with_parameters(given.function, p)
    size = _size(name, given, dynamics, x0)
    bounds: tuple[Any, Any] = (0.0, 0.0) if isinstance(given, Equality) else (given.lower, given.upper)
    lower, upper = (
        np.full(size, as_array(f"{name}: {side}", bound, (size,) if axes(bound) else (), finite=False))
        for side, bound in zip(("lower", "upper"), bounds, strict=True)
    )
    is_open = given.jacobian is None and space_of(dynamics) is not None  # derivatives are to be traced, if they may be
    if isinstance(given, JittedConstraint) and not is_open:
        return CompiledJittedConstraint(name, given, lower, upper, dynamics, x0)
    if is_open and getattr(given, "derivatives", "traced") == "traced":
        traced = _followed(name, given.function, dynamics, size, p)
        return TracedConstraint(traced, lower, upper, partial(_evaluated, function=function), given)
    jacobian = given.jacobian and with_parameters(given.jacobian, p)
    return DerivedConstraint(function, jacobian, lower, upper, dynamics)


def _followed(name: str, function: Function, dynamics: System, size: int, p: Array | None) -> TracedFunction:
    try:
        found = TracedFunction("c", function, dynamics.nx, dynamics.nu, p, space=space_of(dynamics), chained=True)
    except Exception as reason:  # Python has called it at x0
        why = reason if isinstance(reason, FollowError) else refused(reason)
        raise ProblemError(
            f"{name}: c cannot be traced for its derivatives: {why}; a jacobian of yours does without, and so does"
            ' derivatives="differences"'
        ) from reason.__cause__
    if len(found.shape) > 1 or found.size != size:
        raise ProblemError(f"{name}: c: expected shape ({size},), got {found.shape}")
    return found


@dataclass(eq=False)
class DerivedConstraint:
    """A constraint of one knot at a time, its derivatives by complex step or differences where none are given."""

    function: Function
    given: Function | None
    lower: Array
    upper: Array
    dynamics: System
    _last: tuple[Array, Array, Array] | None = field(init=False, default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_last": None}

    def renew(self) -> None:
        """Forget second derivatives: what the function reads may have changed."""
        self._last = None

    def values(self, X: Array, U: Array) -> Array:
        """c (M, size); NaN is let through, for the line search to step back from."""
        return np.array([self._value(row, x, u) for row, (x, u) in enumerate(zip(X, U, strict=True))])

    def jacobian(self, X: Array, U: Array) -> Array:
        """``∂c/∂z`` (M, size, nz)."""
        return np.array([self._slope(row, x, u) for row, (x, u) in enumerate(zip(X, U, strict=True))])

    def curvature(self, X: Array, U: Array, weight: Array) -> Array:
        """``Σ_i weight_i ∂²c_i/∂z²`` (M, nz, nz); the second derivatives at the same knots are kept."""
        last = self._last  # other threads may write theirs
        if last is None or not (np.array_equal(last[0], X) and np.array_equal(last[1], U)):
            bends = [self._bend(row, x, u) for row, (x, u) in enumerate(zip(X, U, strict=True))]
            self._last = last = X.copy(), U.copy(), np.array(bends)
        return np.einsum("ki,kiab->kab", weight, last[2])

    def _value(self, row: int, x: Array, u: Array) -> Array:
        value = _evaluated(row, x, u, self.function)
        if value.shape != self.lower.shape:
            raise TermError(row, f"c: expected shape {self.lower.shape}, got {value.shape}")
        return value

    def _slope(self, row: int, x: Array, u: Array) -> Array:
        """The Jacobian (size, nz) of one knot."""
        n, nz = self.dynamics.n, self.dynamics.n + self.dynamics.nu
        if self.given is None:
            return differences.jacobian(self._about(row, x, u), np.zeros(nz))
        J = np.atleast_2d(called(row, "jacobian", self.given, x, u))
        if J.dtype.kind not in REAL or J.shape not in {(self.lower.size, n), (self.lower.size, nz)}:
            raise TermError(row, f"jacobian: expected shape {(self.lower.size, nz)}, got {J.dtype} of shape {J.shape}")
        return np.pad(J.astype(float), ((0, 0), (0, nz - J.shape[1])))

    def _bend(self, row: int, x: Array, u: Array) -> Array:
        """The second derivatives (size, nz, nz) of one knot."""
        zero = np.zeros(self.dynamics.n + self.dynamics.nu)
        if self.given is None:
            return differences.second_order(self._about(row, x, u), zero)[1]
        H = differences.real_jacobian(about(self.dynamics, x, u, partial(self._slope, row)), zero)
        return 0.5 * (H + np.swapaxes(H, 1, 2))

    def _about(self, row: int, x: Array, u: Array) -> Callable[[Any], Any]:
        """c as a function of z = (dx, du), real or complex."""
        return about(self.dynamics, x, u, partial(self._value, row), lambda x, u: np.atleast_1d(self.function(x, u)))


def _evaluated(row: int, x: Array, u: Array, function: Function) -> Array:
    """c (size,) of one knot, or TermError."""
    value = called(row, "c", function, x, u)
    array = np.atleast_1d(np.asarray(value))
    if array.dtype.kind == "b":
        raise TermError(row, f"c: expected numbers, got {reprlib.repr(value)}: x[0] < 1 is x[0] with upper=1")
    if array.ndim != 1 or array.dtype.kind not in REAL:
        raise TermError(row, f"c: expected a real number or an array of one axis, got {reprlib.repr(value)}")
    return array.astype(np.float64)


NORMS = "L1", "L2"


@suggesting
@dataclass(frozen=True, eq=False)
class Soft:
    """A constraint that may be violated: every violation v costs ``price |v|`` (L1) or ``½ price v²`` (L2).

        Problem(..., constraints=[Soft(Inequality(lambda x, u: x[0] - 1.0), price=10.0)])

    constraint: any that a problem takes.
    price: a number or (size,), positive, in cost per unit (L1) or per unit squared (L2). Among ``constraints`` it is a
        density, multiplied by how long a knot takes as running costs are; not at single knots, stretches and the end.
    norm: with "L1" the constraint holds exactly wherever its multiplier is no larger than the price, and is violated as
        little as pays elsewhere; with "L2" it is violated by multiplier / price.

    Violations of soft constraints are in `Solution.residuals`, and do not count in `Solution.violation`; what they cost
    is part of `Solution.cost`, and of `explain` a share.
    """

    constraint: Constraint | Equality | Inequality
    price: ArrayLike
    norm: str = "L1"
    lifts: ClassVar[str] = "constraint"

    def __post_init__(self) -> None:
        if isinstance(self.constraint, (type, Soft)) or self.constraint is None:
            raise ProblemError(f"constraint: expected a constraint, got {said(self.constraint)}")
        shape = (None,) if axes(self.price) == 1 else ()
        price = as_array("price", self.price, shape).copy()
        if price.size == 0 or not (price > 0.0).all():
            raise ProblemError(f"price: expected positive numbers, got {said(self.price)}")
        choice("norm", self.norm, NORMS)
        object.__setattr__(self, "price", price)

    def softness(self, name: str, weights: Array, size: int) -> tuple[Array, Array]:
        """Caps of multipliers and compliances (M, size) at knots with some weights (M,): see `Placed`."""
        price = np.asarray(self.price)
        if price.ndim == 1 and len(price) != size:
            raise ProblemError(f"{name}: price: expected a number or shape ({size},), got {price.shape}")
        each = weights[:, None] * np.broadcast_to(price, size)
        if self.norm == "L1":
            return each, np.zeros_like(each)
        return np.full_like(each, np.inf), 1.0 / each


ConstraintLike = Constraint | Equality | Inequality | JittedConstraint | Soft
"""Forms in which a problem takes constraints."""

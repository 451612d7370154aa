"""A user's own object, `ddp.protocols.Dynamics`, made into what the solver works with; and a user's function for the
next state: traced into compiled code, or called and its answer checked.
"""

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from ddp.errors import (
    REAL,
    ModelError,
    ProblemError,
    known_shape,
    line_of,
    other_arguments,
    positive,
    positive_integer,
    said,
)
from ddp.protocols import Array, Dynamics, has_all
from ddp.systems.by_knot import ByKnot
from ddp.systems.system import System, ability
from ddp.tracing.function import TracedFunction
from ddp.tracing.spaces import Space, plain_space
from ddp.tracing.trace import FollowError, ShapeError, of_shape, refused


class DerivedDynamics(ByKnot):
    """A user's own `Dynamics`, with all that it does not say itself.

    own: the user's object; what it says is used: see `ddp.protocols.Dynamics`. Its derivatives are looked at once a
    knot; a Hessian is asked for the tensor's rows, one weight after the other.
    """

    def __init__(self, own: Dynamics) -> None:
        self.own = own
        self.nx, self.nu = positive_integer("dynamics.nx", own.nx), positive_integer("dynamics.nu", own.nu)
        self.dt = positive("dynamics.dt", getattr(own, "dt", 1.0))
        self.control_limits = self._of_own("control_limits")
        self._n = positive_integer("dynamics.n", getattr(own, "n", self.nx))
        self._linearize, self._hessian = ("linearize", self._of_own("linearize")), self._of_own("hessian")
        manifold = self._of_own("difference"), self._of_own("integrate")
        if (manifold[0] is None) != (manifold[1] is None) or (self._n != self.nx and manifold[0] is None):
            raise ProblemError("dynamics: expected both difference(x0, x1) and integrate(x, dx), or neither and n = nx")
        self._manifold: Any = None if manifold[0] is None else manifold
        given = self._linearize[1], self._hessian, self._manifold
        self._traced = None
        if getattr(own, "derivatives", None) == "traced" and given == (None, None, None):
            self._traced, self._space = followed("step", own.step, self.nx, self.nu), plain_space(self.nx)

    def renew(self) -> bool:
        """Trace the step again, if what it reads has changed; whether it has."""
        before = self._traced
        self._traced = None if before is None else before.renewed()
        return self._traced is not before

    def _of_own(self, name: str) -> Any:
        return getattr(self.own, name, None)

    @property
    def n(self) -> int:
        return self._n

    @property
    def thread_safe(self) -> bool:
        """Whether its owner says so, or nothing of its owner's is called."""
        return super().thread_safe or bool(getattr(self.own, "thread_safe", False))

    def difference(self, x0: Array, x1: Array) -> Array:
        return super().difference(x0, x1) if self._manifold is None else self._moved_by("difference", x0, x1, self.n)

    def integrate(self, x: Array, dx: Array) -> Array:
        return super().integrate(x, dx) if self._manifold is None else self._moved_by("integrate", x, dx, self.nx)

    def _moved_by(self, name: str, a: Any, b: Any, size: int) -> Array:
        """The user's ⊕ or ⊖ of one knot, or of each of many."""
        a, b, own = np.asarray(a), np.asarray(b), getattr(self.own, name)
        if a.ndim == b.ndim == 1:
            return np.asarray(checked_state(name, own, a, b, size, "result"))
        count = len(a) if a.ndim == 2 else len(b)
        pairs = zip(np.broadcast_to(a, (count, a.shape[-1])), np.broadcast_to(b, (count, b.shape[-1])), strict=True)
        return np.array([checked_state(name, own, *pair, size, "result") for pair in pairs])

    def check_state(self, field: str, x: Array) -> None:
        """Raise ProblemError naming ``field`` unless x (..., nx) holds finite numbers, and is a state to its owner."""
        super().check_state(field, x)
        if check := self._of_own("check_state"):
            check(field, x)

    def nominal_control(self, x: Array) -> Array:
        """The user's, else zeros (nu,), or (M, nu) of states (M, nx)."""
        nominal = self._of_own("nominal_control")
        if nominal is None:
            return super().nominal_control(x)
        found = [np.array(nominal(one.copy())) for one in np.atleast_2d(x)]
        return found[0] if np.ndim(x) == 1 else np.array(found)

    def _called(self, x: Any, u: Any) -> Any:
        return checked_state("step", self.own.step, x, u, self.nx)

    @property
    def _is_flat(self) -> bool:
        return self._manifold is None

    def __repr__(self) -> str:
        return repr(self.own)


def as_system(dynamics: Dynamics | System, field: str = "dynamics") -> System:
    """A system as it is, or a user's own with all that it does not say itself; ProblemError for what is none."""
    if isinstance(dynamics, type) or not has_all(dynamics, Dynamics):
        robot = "; of a robot, RobotDynamics(robot, dt) is one" if type(dynamics).__name__ == "Robot" else ""
        raise ProblemError(f"{field}: expected an object of the Dynamics protocol, got {said(dynamics)}{robot}")
    return cast(System, dynamics) if has_all(dynamics, System) else DerivedDynamics(dynamics)


def refuse_positions(field: str, value: Any, system: System) -> None:
    """Refuse positions of a robot in place of its state, and say what that is."""
    is_row = isinstance(value, (list, tuple)) and all(isinstance(number, (int, float)) for number in value)
    named, shape = ability(system, "named_numbers"), (len(value),) if is_row else known_shape(value)
    if named is None or not named[1] or shape != (len(named[0]),) or len(named[0]) == system.nx:
        return
    made = f"np.concatenate([q, np.zeros({len(named[1])})]) at rest" if sum(map(len, named[:2])) == system.nx else ""
    raise ProblemError(
        f"{field}: expected shape ({system.nx},), got ({len(named[0])},), which has positions alone: a state is (q, v),"
        f" {made or 'and what is kept beside it'}"
    )


def followed(
    name: str, f: Callable[..., Any], nx: int, nu: int, parameters: Array | None = None, space: Space | None = None,
    steps: bool = True,
) -> TracedFunction:  # fmt: skip
    """A user's step as compiled code with its derivatives; ModelError if it cannot be traced, or is wrong.

    steps: see `TracedFunction`.
    """
    try:
        return TracedFunction(name, f, nx, nu, parameters, space=space, steps=steps)
    except ModelError:
        raise
    except ShapeError as reason:
        raise ModelError(f"{name}: {reason}") from None
    except Exception as reason:
        if not isinstance(reason, FollowError):
            plain = f if parameters is None else lambda x, u: f(x, u, parameters.copy())
            at = plain_space(nx) if space is None else space
            checked_state(name, plain, at.neutral(), np.zeros(nu), nx)  # raises what is wrong in Python
            if isinstance(reason, ValueError) and "shape" in str(reason):  # behind a branch, of plain numbers as well
                raise ModelError(f"{name}: raised ValueError: {reason}{line_of(reason)}") from reason
        why = reason if isinstance(reason, FollowError) else refused(reason)
        raise ModelError(
            f'{name}: cannot be traced for its derivatives: {why}; derivatives="differences" does without, and so'
            " does an object of the Dynamics protocol with derivatives of yours"
        ) from reason.__cause__


def checked_state(
    name: str, function: Callable[[Array, Array], Any], x: Any, u: Any, nx: int, what: str = "next state"
) -> Any:
    """Next state that a user's function returns, its shape checked; ``name`` and ``what`` are for errors."""
    try:
        returned = function(x.copy(), u.copy())  # it may write on its arguments, and reuse its result
        if np.ma.is_masked(returned):
            raise TypeError("some numbers of what it returns are masked")
        returned = np.array(returned)
        following = of_shape(what, returned, nx)
    except ShapeError as reason:
        raise ModelError(f"{name}: {reason}") from None
    except Exception as reason:
        if isinstance(reason, TypeError) and (own := other_arguments(function, 2)):
            raise ModelError(f"{name}: expected a function of x and u, got one of {own}") from None
        raise ModelError(f"{name}: raised {type(reason).__name__}: {reason}{line_of(reason)}") from reason
    if following.dtype.kind not in (REAL + "c" if np.iscomplexobj(x) or np.iscomplexobj(u) else REAL):
        raise ModelError(f"{name}: expected a {what} of real numbers, got {following.dtype}")
    return following if following.dtype.kind in "fc" else following.astype(np.float64)

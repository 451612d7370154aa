"""Placement of a problem's constraints: the user's lists, checked, named and tried on a few knots."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp.constraints.constraint import Equality, Inequality, Soft, check_kind, made_batch, tried_at
from ddp.constraints.traced import TracedConstraint
from ddp.costs.batch import ability, check_tangents, inside
from ddp.costs.terms import naming
from ddp.errors import ProblemError, as_array, flag, said
from ddp.protocols import Array, Constraint
from ddp.systems.system import System

DELAYED, ROOM = 3, 1e-9
"""Knots after the first at which controls may not change a row yet, as a speed whose force is a state. Such a row is
what it is: where an earlier motion came to the bound, nothing would be left inside. It has room for so much beyond, in
any units: a tenth of what violations may be."""


class Placed(NamedTuple):
    """A constraint at the knots start .. stop-1.

    name: how the user would call it.   first: the index of its first multiplier among all.
    lower, upper (stop - start, size): its bounds, infinite where a knot's row says nothing.
    cap, compliance (stop - start, size): None, or of a soft one how large multipliers may be, and how far it gives way
        to a unit of them.
    """

    name: str
    constraint: Constraint
    start: int
    stop: int
    first: int
    lower: Array
    upper: Array
    cap: Array | None = None
    compliance: Array | None = None

    @property
    def given(self) -> Any:
        """The constraint as the user has given it, where it may move."""
        return self.constraint.given if isinstance(self.constraint, TracedConstraint) else self.constraint

    def with_given(self, moved: Any, x0: Array, dynamics: System) -> "Placed | None":
        """Place of one that has moved, see `given`; None where controls act on other rows at x0 then."""
        made = self.constraint.at(moved) if isinstance(self.constraint, TracedConstraint) else moved
        if not isinstance(inside(made), TracedConstraint):
            return self._replace(constraint=made)
        before, after = (idle(one, x0, dynamics) for one in (self.constraint, made))
        return self._replace(constraint=made) if (before == after).all() else None

    def own(self, flat: Array) -> Array:
        """The constraint's part (M, size) of a vector of all multipliers."""
        return flat[self.first : self.first + self.lower.size].reshape(self.lower.shape)

    def shape(self, X: Array, *more: int) -> tuple[int, ...]:
        """Shape (M, size, ...) of what it says of knots."""
        return len(X), self.lower.shape[1], *more

    def slopes(self, X: Array, U: Array, nz: int) -> Array:
        """``∂c/∂z`` (M, size, nz) at some of its knots, by its own code, which may write on what it is given."""
        return as_array("jacobian", self.constraint.jacobian(X.copy(), U.copy()), self.shape(X, nz), finite=False)

    def bends(self, X: Array, U: Array, weight: Array, nz: int) -> Array:
        """``Σ_i weight_i ∂²c_i/∂z²`` (M, nz, nz), likewise."""
        found = self.constraint.curvature(X.copy(), U.copy(), weight.copy())
        return as_array("curvature", found, (len(X), nz, nz), finite=False)


def place(
    dynamics: System, N: int, x0: Array, running: Any, at: Mapping[Any, Any], terminal: Any, weights: Array
) -> tuple[Placed, ...]:
    """The constraints of the knots 0 .. N-1, of single knots and of knot N; ProblemError names what is malformed.

    weights (N,): of running costs, which prices of soft ones among the first are multiplied by.
    """
    if not any(map(_is_given, (running, at, terminal))):
        return ()
    at_end = [one for given in (terminal, at.get(N)) if isinstance(given, (list, tuple)) for one in given]
    placed: list[Placed] = []
    first, led = 0, cache(partial(_led, dynamics, x0))
    for name, label, one, start, stop in _listed(running, at, terminal, N):
        plain = one.constraint if isinstance(one, Soft) else one
        made = _placed(label, plain, dynamics, x0, start, stop, first, N)
        if start == 0 and (np.isinf(made.lower[0]) & np.isinf(made.upper[0])).any():
            _give_room(made, dynamics, led)
        if name == "constraints" and not any(one is other for other in at_end):
            made = _extended(made, plain, dynamics, x0)
        if isinstance(one, Soft):
            M, size = made.lower.shape
            each = np.append(weights, 1.0)[made.start : made.stop] if name == "constraints" else np.ones(M)
            cap, compliance = one.softness(label, each, size)
            made = made._replace(cap=cap, compliance=compliance)
        placed.append(made)
        first += placed[-1].lower.size
    return tuple(placed)


def check_listed(dynamics: System, N: int, x0: Array, running: Any, at: Mapping[Any, Any], terminal: Any) -> None:
    """Refuse what is no constraint in the lists of `place`, and functions that fail at x0, before kernels compile."""
    if any(map(_is_given, (running, at, terminal))):
        for _, label, one, start, _ in _listed(running, at, terminal, N):
            plain = one.constraint if isinstance(one, Soft) else one
            check_kind(label, plain, dynamics, x0)
            check_tangents(label, plain, dynamics.n)
            if start == N and isinstance(plain, (Equality, Inequality)):
                with np.errstate(all="ignore"):
                    refuse_controls(label, tried_at(plain, x0, _controls(dynamics)))


def _listed(running: Any, at: Mapping[Any, Any], terminal: Any, N: int) -> Iterator[tuple[str, str, Any, int, int]]:
    """Name of its list, its own name, each constraint as it was given, its first knot and the one after its last."""
    lists = [("constraints", running, 0, N)]
    lists += [(f"constraints_at[{k}]", given, *knots) for k, given, knots in _in_order(at)]
    lists += [("terminal_constraints", terminal, N, N + 1)]
    for name, given, start, stop in lists:
        if isinstance(given, (str, Mapping)) or not isinstance(given, Sequence):
            raise ProblemError(f"{name}: expected a list of constraints, got {described(given)}")
        for i, one in enumerate(given):
            plain = one.constraint if isinstance(one, Soft) else one
            yield name, f"{name}[{i}] ({'Soft ' if one is not plain else ''}{_kind(plain)})", one, start, stop


def begun(placed: tuple[Placed, ...], dynamics: System, x0: Array) -> tuple[Placed, ...]:
    """The constraints at another initial state: rows that no control changes there are free, those of others hold.

    The same tuple where that changes nothing.
    """
    found = tuple(_begun(entry, dynamics, x0) if entry.start == 0 else entry for entry in placed)
    return found if any(one is not own for one, own in zip(found, placed, strict=True)) else placed


def _begun(entry: Placed, dynamics: System, x0: Array) -> Placed:
    constraint, of_states = entry.constraint, ability(entry.constraint, "of_states")
    if of_states is not None and np.all(of_states):
        return entry
    try:
        with np.errstate(all="ignore"):
            free = idle(constraint, x0, dynamics)
    except Exception:  # their own code is not defined there, which solves will tell
        return entry
    lower, upper = np.where(free, -np.inf, constraint.lower), np.where(free, np.inf, constraint.upper)
    if np.array_equal(lower, entry.lower[0]) and np.array_equal(upper, entry.upper[0]):
        return entry
    return entry._replace(lower=np.vstack([lower, entry.lower[1:]]), upper=np.vstack([upper, entry.upper[1:]]))


def _kind(constraint: object) -> str:
    """A constraint's type, or that of the one it lifts, and the name of the function that it is made of, if any."""
    own = inside(constraint)
    own = own.given if isinstance(own, TracedConstraint) else own
    name = getattr(getattr(own, "function", None), "__name__", "<lambda>")
    return type(own).__name__ + ("" if name == "<lambda>" else f" of {name}")


def _is_given(constraints: object) -> bool:
    """Whether there is anything in a list of constraints, or it is none."""
    return not isinstance(constraints, (Sequence, Mapping)) or len(constraints) > 0


def shifted(placed: Sequence[Placed], N: int, multipliers: Array, steps: int) -> Array:
    """Multipliers (m,) as they are ``steps`` knots later, the last ones repeated; those of single knots stay."""
    later = multipliers.copy()
    for entry in placed:
        own = entry.own(multipliers)
        if entry.stop == N + 1:
            own = own[:-1]  # those at x_N stay
        if len(own) > steps:
            entry.own(later)[: len(own)] = moved(own, steps)
    return later


def moved(rows: Array, steps: int) -> Array:
    """Rows of knots as they are ``steps`` knots later, the last one repeated."""
    return np.concatenate([rows[steps:], np.repeat(rows[-1:], steps, axis=0)])


def _placed(label: str, given: Any, dynamics: System, x0: Array, start: int, stop: int, first: int, N: int) -> Placed:
    """One constraint, tried at x0 with three controls."""
    constraint = made_batch(label, given, dynamics, x0)
    check_tangents(label, constraint, dynamics.n)
    size = len(constraint.lower)
    X, U = np.tile(x0, (3, 1)), _controls(dynamics)
    with naming(label, slice(start, stop)), np.errstate(all="ignore"):
        tried = np.asarray(constraint.values(X, U))
    if tried.shape != (3, size):
        raise ProblemError(f"{label}: values: expected shape {(3, size)} for 3 knots, got {tried.shape}")
    tried = as_array(f"{label}: values", tried, (3, size), finite=False)
    idle = (tried == tried[0]).all(axis=0)
    if stop > N:
        refuse_controls(label, tried)
    lower, upper = (np.tile(bound, (stop - start, 1)) for bound in (constraint.lower, constraint.upper))
    if start == 0:
        if stop == 1 and N > 1 and idle.any():
            raise ProblemError(
                f"{label}: expected a constraint that controls can change, got one that depends on the given initial"
                f" state alone in its rows {np.flatnonzero(idle).tolist()}"
            )
        lower[0, idle], upper[0, idle] = -np.inf, np.inf
    return Placed(label, constraint, start, stop, first, lower, upper)


def refuse_controls(label: str, tried: Array) -> None:
    """Raise ProblemError where values (M, size) at the end of the horizon differ by the controls of M trials."""
    if not ((tried == tried[0]).all(axis=0) | np.isnan(tried[0])).all():
        raise ProblemError(
            f"{label}: expected a constraint of the state at the end of the horizon, where there is no control; "
            "got one that depends on it"
        )


def idle(constraint: Constraint, x0: Array, dynamics: System) -> NDArray[np.bool_]:
    """Rows (size,) of a constraint that are the same under all controls at x0."""
    tried = np.asarray(constraint.values(np.tile(x0, (3, 1)), _controls(dynamics)))
    return np.asarray((tried == tried[0]).all(axis=0))


def _controls(dynamics: System) -> Array:
    """Three controls (3, nu) that constraints are tried with."""
    return np.outer([0.0, 1.0, -0.7], np.cos(np.arange(dynamics.nu)))


def _led(dynamics: System, x0: Array) -> Array:
    """States (DELAYED + 1, 3, nx) that these controls lead to from near x0."""
    x = dynamics.integrate(x0, 0.1 * np.cos(1.0 + np.arange(dynamics.n)))
    return np.stack([dynamics.rollout(x, np.tile(u, (DELAYED, 1))) for u in _controls(dynamics)], axis=1)


def _give_room(made: Placed, dynamics: System, led: Callable[[], Array]) -> None:
    """Widen bounds of inequalities at the first knots where no control changes them yet: see `ROOM`."""
    low, high = made.constraint.lower, made.constraint.upper
    delayed = low < high
    with np.errstate(all="ignore"), suppress(Exception):  # their own code may not be defined there
        for k, X in enumerate(led()[1 : len(made.lower)], 1):
            c = np.asarray(made.constraint.values(X, _controls(dynamics)))
            delayed = delayed & (c == c[0]).all(axis=0)
            if not delayed.any():
                return
            made.lower[k, delayed] -= ROOM
            made.upper[k, delayed] += ROOM


def _extended(placed: Placed, given: Any, dynamics: System, x0: Array) -> Placed:
    """Hold what no control enters at the end of the horizon as well, unless it was asked not to be."""
    if not flag(f"{placed.name}: at_end", ability(given, "at_end")):
        return placed
    rows = _of_states(placed, dynamics, x0)
    if not rows.any():
        return placed
    lower = np.vstack([placed.lower, placed.constraint.lower])
    upper = np.vstack([placed.upper, placed.constraint.upper])
    lower[-1, ~rows], upper[-1, ~rows] = -np.inf, np.inf
    return placed._replace(stop=placed.stop + 1, lower=lower, upper=upper)


def _of_states(placed: Placed, dynamics: System, x0: Array) -> NDArray[np.bool_]:
    """Rows (size,) that no control enters; none of a function in Python that any enters, for it might fail without."""
    known = ability(placed.constraint, "of_states")
    if known is not None:
        return np.asarray(known)
    x = dynamics.integrate(x0, 0.1 * np.cos(1.0 + np.arange(dynamics.n)))
    U = _controls(dynamics)
    same = np.ones(placed.lower.shape[1], dtype=bool)
    for state in (x0, x):
        try:
            with np.errstate(all="ignore"):
                c = np.asarray(placed.constraint.values(np.tile(state, (3, 1)), U))
        except Exception:  # their own code is not defined there
            return np.zeros_like(same)
        same &= ((c == c[0]) | np.isnan(c)).all(axis=0)
    return same if same.all() else np.zeros_like(same)


def _in_order(at: Mapping[Any, Any]) -> list[tuple[Any, Any, tuple[int, int]]]:
    """Knots or stretches of knots, what is imposed there, and the first knot and the one after the last."""
    spans = [(k, at[k], (k.start, k.stop) if isinstance(k, range) else (int(k), int(k) + 1)) for k in at]
    return sorted(spans, key=lambda span: span[2])


def check_knots(name: str, given: Any, horizon: int, stretches: bool = False, knots: bool = True) -> None:
    """Check that a mapping's keys are knots, or ranges of ``knots`` before the last; alone, if not."""
    if not isinstance(given, Mapping):
        keys, what = "knots" if knots else "ranges", "constraints" if stretches and knots else "terms"
        raise ProblemError(f"{name}: expected a mapping of {keys} to lists of {what}, got {described(given)}")
    for knot in given:
        if stretches and (isinstance(knot, range) or not knots):
            if not isinstance(knot, range) or knot.step != 1 or not 0 <= knot.start < knot.stop <= horizon:
                last = {"constraints_at": "terminal_constraints", "during": "terminal"}.get(name)
                beyond = isinstance(knot, range) and knot.stop == horizon + 1 and last
                raise ProblemError(
                    f"{name}: expected ranges of knots within range(0, {horizon}), got {said(knot)}"
                    + (f"; what counts at knot {horizon}, the last, is given in {last}" if beyond else "")
                )
            continue
        whole = isinstance(knot, (int, np.integer)) and not isinstance(knot, bool)
        if not whole or not 0 <= knot <= horizon:
            hint = "; a knot is a whole number of steps, no time [s]" if isinstance(knot, float) else ""
            raise ProblemError(f"{name}: expected knots from 0 to {horizon} (the horizon), got {said(knot)}{hint}")


def described(thing: object) -> str:
    """A thing's type, for errors."""
    return f"the class {thing.__name__}" if isinstance(thing, type) else type(thing).__name__

"""Problems: a dynamical system, cost terms over a horizon, constraints and an initial state."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddp.constraints.bounds import Inherited, as_limits, boxed
from ddp.constraints.constraint import ConstraintLike
from ddp.constraints.lagrangian import Lagrangian, Residual, multipliers_of, residuals, state_size
from ddp.constraints.placement import Placed, check_knots, check_listed, place
from ddp.constraints.rows import Rows
from ddp.costs import cost_table, faults
from ddp.costs.batch import BatchTerm, inside, padded, weights_of
from ddp.costs.objective import Objective
from ddp.costs.terms import naming
from ddp.derivatives import EXACT, FIRST, GAUSS_NEWTON, RECORDS, Derivatives, derivatives_of, numbers_of
from ddp.doubts import tell_doubts
from ddp.errors import ProblemError, affordable, as_array, instance, positive, settle, steps, suggesting
from ddp.guesses import Start, kept
from ddp.machine.aligned import aligned_zeros
from ddp.machine.pickling import Parcel, locked, packed, unpacked
from ddp.packages import edition
from ddp.places import Place, number, places_of, resolved, started, varied
from ddp.protocols import Array, CostFunction, Term
from ddp.systems.derived_dynamics import as_system, refuse_positions
from ddp.systems.structure import Structure, structure_of
from ddp.systems.system import Expansion, System, ability, traced_of

Rollouts = tuple[Array, Array, Array]
"""Trajectories of several step lengths: states (S, N+1, nx), controls (S, N, nu), notes (S, N, .), or none at all."""


@suggesting
@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    """Minimise ``Σ_k dt Σ running(x_k, u_k) + Σ at[k](x_k, u_k) + Σ terminal(x_N)`` where ``x' = f(x, u)``.

    dynamics: a robot's, a `FunctionDynamics`, or any object of the `Dynamics` protocol, to which all is added that it
        does not say itself.
    running: terms of the knots 0 .. N-1; densities, multiplied by ``dynamics.dt`` [s], or by how long a knot takes
        where the dynamics say so (`System.step_durations`); ``[]`` for none.
    terminal: terms of the knot N; not multiplied; ``[]`` for none.
    x0 (nx,): the initial state.  horizon: N, the number of controls, at least 1.
    at: terms of single knots ``{k: [...]}``, 0 <= k <= N; not multiplied.
    control_limits: ``(lower, upper)`` that every control keeps to, each a number, (nu,) or (N, nu), ±inf for none.
        Default: those of the dynamics where they have any (`Abilities`), as robots whose file describes actuators do;
        ``(-inf, inf)`` for none at all. The attribute tells what was given, or the dynamics have, None if neither: with
        other dynamics, ``dataclasses.replace`` takes theirs. ``lower``, ``upper`` (N, nu) are those of each knot.
    during: terms of stretches of knots ``{range(a, b): [...]}``, within 0 .. N-1; densities, multiplied like running
        ones. They may be varying terms, with one reference for each knot of the stretch.
    constraints: of the knots 0 .. N-1, and of x_N where no control enters them, unless they say ``at_end=False`` or
        are among those of x_N anyway; what no control can change at knot 0, where the state is given, is not imposed
        there.   terminal_constraints: of x_N.   constraints_at: of single knots ``{k: [...]}``, or of stretches
        ``{range(a, b): [...]}``.
        Objects of the `Constraint` protocol, or ``Equality(f)`` and ``Inequality(f)``, never multiplied by dt; or a
        ``Soft`` one of these. Their rows may be in any units, in which violations and multipliers are told.
    objective: the cost as one sum over the horizon.   placed: every constraint, where it is imposed.
    guess: the one that `solve` starts from where it is given none, in any of its forms: U, (X, U) or a `Solution`.

    A term is a function of (x, u), or has ``value(x, u)`` and, if it likes, ``gradient`` and ``hessian`` (see
    `ddp.costs.terms`), or is a `JittedTerm` or a `BatchTerm`. Raises ProblemError, naming the field, if anything is
    malformed.
    """

    dynamics: System
    running: Sequence[Term | BatchTerm | CostFunction]
    terminal: Sequence[Term | BatchTerm | CostFunction]
    x0: Array
    horizon: int
    at: Mapping[int, Sequence[Term | BatchTerm | CostFunction]] = field(default_factory=dict)
    control_limits: tuple[ArrayLike, ArrayLike] | None = None
    lower: Array = field(init=False, repr=False)
    upper: Array = field(init=False, repr=False)
    constraints: Sequence[ConstraintLike] = ()
    terminal_constraints: Sequence[ConstraintLike] = ()
    constraints_at: Mapping[int | range, Sequence[ConstraintLike]] = field(default_factory=dict)
    during: Mapping[range, Sequence[Term | BatchTerm | CostFunction]] = field(default_factory=dict)
    guess: Start = None
    _limits: tuple[Array, Array] = field(init=False, repr=False)
    objective: Objective = field(init=False, repr=False)
    placed: tuple[Placed, ...] = field(init=False, repr=False, default=())
    _before: Problem | None = field(init=False, repr=False, default=None)  # that whose constraints have moved

    def __post_init__(self) -> None:
        settle(self, dynamics=as_system(self.dynamics))
        positive("dynamics.dt", self.dynamics.dt)
        horizon = steps("horizon", self.horizon, self.dynamics.dt)
        affordable("horizon", horizon, horizon * numbers_of(self.dynamics))
        refuse_positions("x0", self.x0, self.dynamics)
        x0 = as_array("x0", self.x0, (self.dynamics.nx,)).copy()
        self.dynamics.check_state("x0", x0)
        check_knots("at", self.at, horizon)
        check_knots("constraints_at", self.constraints_at, horizon, stretches=True)
        check_knots("during", self.during, horizon, stretches=True, knots=False)
        limits = as_limits(self.control_limits, horizon, self.dynamics)
        lower, upper = (limit.view() for limit in limits)
        for array in (x0, lower, upper):
            array.flags.writeable = False
        control_limits = self.control_limits
        if control_limits is None or isinstance(control_limits, Inherited):
            in_force = bool(np.isfinite(lower).any() or np.isfinite(upper).any())
            control_limits = Inherited(lower[0], upper[0]) if in_force else None
        else:
            low, high = (np.array(limit, dtype=float) for limit in control_limits)
            low.flags.writeable = high.flags.writeable = False
            control_limits = low, high
        terms = self.running, self.during, self.at, self.terminal
        lists = self.constraints, self.constraints_at, self.terminal_constraints
        check_listed(self.dynamics, horizon, x0, *lists)
        settle(
            self, x0=x0, control_limits=control_limits, lower=lower, upper=upper, _limits=limits, horizon=horizon,
            guess=kept(self.guess, self.dynamics, horizon),  # before terms compile
            objective=Objective.of(self.dynamics, horizon, x0, *terms),
            running=tuple(self.running), terminal=tuple(self.terminal),
            placed=place(self.dynamics, horizon, x0, *lists, weights_of(self.dynamics, horizon)),
            constraints=tuple(self.constraints), terminal_constraints=tuple(self.terminal_constraints),
        )  # fmt: skip

    def __repr__(self) -> str:
        terms = f"{len(self.objective.entries)} cost terms"
        constraints = f", {len(self.placed)} constraints" if self.placed else ""
        return f"Problem({self.dynamics!r}, horizon={self.horizon}, {terms}{constraints})"

    def starting_at(self, x0: Array) -> Problem:
        """Copy with another initial state x0 (nx,); nothing but x0 is checked again or copied."""
        x0 = as_array("x0", x0, (self.dynamics.nx,))
        self.dynamics.check_state("x0", x0)
        return started(self, x0[None])[0]

    def varying(self, numbers: Mapping[str, ArrayLike] | None = None, /, **named: Any) -> Problem:
        """Copy with other numbers in some places: initial states, targets, obstacles, weights, limits, masses.

            problem.varying({"running[0].weights": w, "dynamics.masses": m}, x0=x, target=pose)

        A place is "x0", "control_limits", a field of a term or a constraint, as errors name these, "centers", "starts",
        "ends" (K, 3) or "radii" (K,) of obstacles, or a number of the dynamics: "dynamics.masses" (bodies,) [kg] of
        robots, inertias in proportion, "dynamics.parameters" of functions, in compositions, too. A field's name alone
        will do if nothing else has one, or all terms and constraints that have one have the same numbers: all vary.
        Only what varies is checked again. A term of one's own is traced again, but not where ``parameters`` of a `Cost`
        or a constraint vary; robots that functions name stay as they are, so masses do not vary there.

        Raises ProblemError for places that there are not, and for numbers that do not fit.
        """
        if numbers is None:
            return varied(self, named)
        instance("numbers", numbers, Mapping, "a mapping of places to numbers")
        for name in named:
            if name in numbers:
                raise ProblemError(f"varying: {name} is given twice")
        return varied(self, {**numbers, **named})

    def number(self, name: str) -> Array:
        """The numbers that a place of `varying` has now; poses as (4, 4) matrices."""
        return number(self, name)

    @cached_property
    def places(self) -> dict[str, Place]:
        """Places of numbers in terms and constraints, by the names that `varying` takes."""
        return places_of(self)

    def resolved(self, name: str) -> tuple[Place, ...] | str:
        """The places that a name of `varying` means, see `ddp.places`."""
        known: dict[str, tuple[Place, ...] | str] = vars(self).setdefault("_resolved", {})
        if not isinstance(name, str) or name not in known:
            known[name] = resolved(self, name)
        return known[name]

    def renew(self) -> None:
        """Trace functions again that read values which have changed since they were traced."""
        if renew := getattr(self.dynamics, "renew", None):
            renew()
        for placed in self.placed:
            if renew := getattr(inside(placed.constraint), "renew", None):
                with naming(placed.name, slice(placed.start, placed.stop)):
                    renew()
        known = {name: vars(self)[name].afresh for name in ("rows", "limited_rows") if name in vars(self)}
        if not all(rows.is_current for rows in known.values()):
            vars(self).update({name: rows.moved(self.placed) for name, rows in known.items()})
        if self.objective.renew():
            settle(self, objective=replace(self.objective))  # tables are made anew

    @property
    def traces(self) -> tuple[object, object]:
        """Objects that `renew` replaces where it traces functions again: of the cost, and of the dynamics."""
        return self.objective, traced_of(self.dynamics)

    def with_guess(self, guess: Start) -> Problem:
        """Copy that `solve` starts from another guess; nothing but that is checked again or copied."""
        return self.twin(guess=kept(guess, self.dynamics, self.horizon))

    def moved(
        self, dynamics: System, x0: Array, running: Sequence[BatchTerm], during: Mapping[range, Sequence[BatchTerm]],
        at: Mapping[int, Sequence[BatchTerm]], terminal: Sequence[BatchTerm],
    ) -> Problem:  # fmt: skip
        """Copy with a system of the same sizes, and terms as this one's elsewhere: a horizon that has moved on.

        Nothing is checked or tried but the initial state.
        """
        objective = Objective.of(dynamics, self.horizon, x0, running, during, at, terminal, tried=True)
        terms = {"running": running, "during": during, "at": at, "terminal": terminal}
        moved = self.starting_at(x0).twin(dynamics=dynamics, objective=objective, **terms)
        vars(moved).pop("structure", None)  # its steps may last otherwise
        return moved

    def cost(self, X: Array, U: Array) -> float:
        """The total cost of X (N+1, nx) and U (N, nu), with that of `Soft` violations; ProblemError if not finite."""
        N, nx, nu = self.horizon, self.dynamics.nx, self.dynamics.nu
        X, U = as_array("X", X, (N + 1, nx)), as_array("U", U, (N, nu))
        self.renew()
        with np.errstate(all="ignore"):
            total = float(cost_table.sum_of(self.values(X, U))) + self.paid(X, U)
            if not np.isfinite(total):
                raise ProblemError(faults.fault(self.objective, X, U, 0) or "the total cost is not finite")
        return total

    def track(self, X: Array, U: Array, k: Array, K: Array, alphas: Array, gaps: Array) -> tuple[Array, Array, Array]:
        """Closed-loop rollouts within the limits of controls: see `System`. With their notes, if any."""
        if self.objective.noted:
            return cast(Rollouts, ability(self.dynamics, "track_noting")(X, U, k, K, alphas, gaps, *self._limits))
        Xs, Us = self.dynamics.track(X, U, k, K, alphas, gaps, *self._limits)
        return np.ascontiguousarray(Xs, np.float64), np.ascontiguousarray(Us, np.float64), cost_table.NO_NOTES

    def padded(self, U: Array) -> Array:
        """U (N, nu) with the row of zeros (N+1, nu) that the terms of knot N are given."""
        return padded(U, self.horizon + 1)

    def values(self, X: Array, U: Array) -> Array:
        """The costs (N+1,) of the knots of X (N+1, nx) and U (N, nu), padded or not; nothing is checked."""
        return self.objective.values(X, U)

    def total(self, X: Array, U: Array, notes: Array = cost_table.NO_NOTES) -> float:
        """The cost of a rollout X (N+1, nx) under U (N, nu), with its notes if known; infinite where it diverges."""
        X = as_array("X", X, (self.horizon + 1, self.dynamics.nx), finite=False)
        U = as_array("U", U, (self.horizon, self.dynamics.nu), finite=False)
        return self.objective.total(X, U, notes)

    def allocate(self, empty: Callable[[tuple[int, ...]], Array] = aligned_zeros) -> Derivatives:
        """Arrays for all derivatives of this problem, from an allocator of zeros ``empty(shape)``."""
        dual = 0 if self.objective.lagrangian is None else state_size(self.placed)
        return derivatives_of(self.dynamics, self.horizon, dual, empty)

    def expand(
        self, X: Array, U: Array, out: Derivatives, start: int, stop: int, made: int = FIRST | GAUSS_NEWTON
    ) -> None:
        """Derivatives of the knots start .. stop-1 of 0 .. N, into their rows of ``out``.

        X (N+1, nx), U (N, nu), padded or not.  made: which of them, see `derivatives.FIRST`; the second order of the
        dynamics, RECORDS, goes with the first or comes after it.
        """
        N, expansion = self.horizon, Expansion(out.A, out.B, out.record)
        if len(out.dual):
            self.lagrangian.state[:] = out.dual  # of every thread the same
        steps = X, U
        if start > 0 or stop < N:
            knots = slice(start, min(stop, N))
            steps, expansion = (X[knots], U[knots]), Expansion(*(part[knots] for part in expansion))
        elif made & (FIRST | RECORDS):
            steps = X[:N], U if len(U) == N else U[:N]
        if made & FIRST and len(steps[0]) > 0:
            self.dynamics.expand(*steps, expansion, start)
        if made & RECORDS and len(steps[0]) > 0:
            self.dynamics.expand_second(*steps, expansion, start)
        if made & (FIRST | GAUSS_NEWTON):
            self.objective.expand(X, U, out, start, stop, not made & GAUSS_NEWTON)
        if made & EXACT and made & (FIRST | GAUSS_NEWTON) != FIRST:
            self.objective.expand(X, U, out, start, stop, exact=True, again=True)

    @cached_property
    def lanes(self) -> int:
        """Number of step lengths that the dynamics roll out for the price of one, 0 if they know of none."""
        return int(ability(self.dynamics, "lanes"))

    @cached_property
    def structure(self) -> Structure:
        """Structure of the dynamics that sweeps make use of."""
        return structure_of(self.dynamics, self.horizon)

    @cached_property
    def limited(self) -> bool:
        """Whether any control has limits."""
        return bool(np.isfinite(self.lower).any() or np.isfinite(self.upper).any())

    @property
    def separable(self) -> NDArray[np.bool_]:
        """Flags (N+1,) of knots at which every term is separable: the Hessian is diagonal, and Gauss-Newton's exact."""
        return self.objective.separable

    @property
    def curved(self) -> bool:
        """Whether Gauss-Newton leaves anything out of the costs' Hessians."""
        return not self.objective.separable.all()

    def terms(self) -> Iterator[tuple[str, BatchTerm, slice]]:
        """Every term with its name and the knots it belongs to, for reports; one that varies, knot by knot."""
        return self.objective.terms()

    @property
    def constrained(self) -> bool:
        """Whether there are any constraints."""
        return bool(self.placed)

    @property
    def multiplier_count(self) -> int:
        """Number of multipliers: one for each number of each constraint."""
        return multipliers_of(self.placed)

    def augmented(self, lagrangian: Lagrangian) -> Problem:
        """Copy whose cost includes the constraints' part of the augmented Lagrangian."""
        return self.twin(objective=self.objective.plain.with_lagrangian(lagrangian))

    @property
    def plain(self) -> Problem:
        """The problem without what `augmented` added."""
        return self if self.objective.lagrangian is None else self.twin(objective=self.objective.plain)

    def __reduce__(self) -> Any:
        """Send a parcel, and a plain pickle where something in it is of the main script or cannot be found by name.

        Doubts are told first, where the robot's file was read: a process that only solves need not have its model.
        """
        tell_doubts(self)
        left = ("places", "_before") if self.placed else ("places", "_before", "rows")  # no rows are made in no time
        state = {name: value for name, value in vars(self).items() if name not in left}
        try:
            return _made, (edition(),), tuple(packed(state))
        except Exception:
            return _made, (edition(),), state

    def __setstate__(self, state: Any) -> None:
        vars(self).update(unpacked(Parcel(*state)) if isinstance(state, tuple) else state)

    def __copy__(self) -> Problem:
        return self.twin()

    def __deepcopy__(self, memo: dict[int, Any]) -> Problem:
        twin = object.__new__(Problem)
        memo |= {id(self): twin} | locked(self)
        vars(twin).update(copy.deepcopy(vars(self), memo))
        return twin

    def twin(self, **fields: Any) -> Problem:
        """Shallow copy with other fields, which are not checked; it shares all else, cached properties too."""
        twin = object.__new__(Problem)
        vars(twin).update(vars(self), **fields)
        return twin

    @property
    def lagrangian(self) -> Lagrangian:
        """The multipliers and penalties of an `augmented` problem."""
        if self.objective.lagrangian is None:
            raise ProblemError("lagrangian: this problem is not augmented")
        return self.objective.lagrangian

    def residuals(self, X: Array, U: Array, multipliers: Array | None = None) -> tuple[Residual, ...]:
        """All constraints along X (N+1, nx) and U (N, nu); multipliers (m,): all in a row, default zeros."""
        N, m, d = self.horizon, self.multiplier_count, self.dynamics
        X, U = as_array("X", X, (N + 1, d.nx), finite=False), as_array("U", U, (N, d.nu), finite=False)
        multipliers = np.zeros(m) if multipliers is None else as_array("multipliers", multipliers, (m,), finite=False)
        return residuals(self.rows.afresh, X, U, multipliers)

    def violation(self, X: Array, U: Array) -> float:
        """The largest violation of a constraint along X (N+1, nx) and U (N, nu); 0 if there is none."""
        return self.rows.afresh.worst(X, U) if self.placed else 0.0

    def paid(self, X: Array, U: Array) -> float:
        """Cost of violations of `Soft` constraints along X (N+1, nx) and U (N, nu)."""
        return float(self.rows.afresh.paid(X, U).sum()) if self.placed else 0.0

    def add_forces(self, X: Array, U: Array, multipliers: Array, lz: Array) -> None:
        """Add ``Jᵀ multipliers`` of all constraints to lz (N+1, nz)."""
        self.rows.add_forces(self.rows.jacobian(X, U), multipliers, lz)

    @cached_property
    def rows(self) -> Rows:
        """The rows of all constraints: values, Jacobians, curvature."""
        made = self.placed, self.horizon, self.dynamics.n, self.dynamics.nu
        return Rows(*made) if self._before is None else self._before.rows.moved(self.placed)

    @cached_property
    def limited_rows(self) -> Rows:
        """`rows`, and behind them those of the limits of controls."""
        if self._before is not None and self._before.lower is self.lower:
            return self._before.limited_rows.moved(self.placed)
        own = boxed(self.lower, self.upper, self.dynamics.nx, self.dynamics.n, self.multiplier_count)
        return Rows((*self.placed, *own), self.horizon, self.dynamics.n, self.dynamics.nu)


def _made(written: Any = None) -> Problem:
    """An empty problem, for `__setstate__`; ProblemError if other sources than these wrote the pickle."""
    if written != edition():
        raise ProblemError(
            "problem: another version of mayne wrote this pickle: make the problem again with this one, or read it with"
            " that version; where processes exchange problems, install the same version for all of them"
        )
    return object.__new__(Problem)

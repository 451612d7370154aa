"""What is to be minimised: a dynamical system, cost terms over a horizon, an initial state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddp import cost_table
from ddp.adjoint import costates
from ddp.bounds import as_limits
from ddp.constraints import ConstraintLike
from ddp.derivatives import Derivatives, broken_rows
from ddp.errors import ProblemError, as_array, positive, positive_integer
from ddp.jitted import CompiledDerivedTerm, JittedTerm
from ddp.lagrangian import Lagrangian, Residual, Values, residuals, state_size
from ddp.placement import Placed, check_knots, described, place
from ddp.protocols import (
    Array,
    BatchTerm,
    CompiledCost,
    CompiledTerm,
    Dynamics,
    Expansion,
    NotedTerm,
    Noting,
    Separable,
    Term,
    Timed,
)
from ddp.stretches import check_length, check_stretches, durations_of, even, part, varying, weights_of
from ddp.terms import DerivedTerm, naming
from ddp.tiles import aligned_zeros

MOST_RUNS = 8
"""Of knots whose exact Hessians are computed apart from the others."""


class _Entry(NamedTuple):
    """A term as the horizon sees it: how the user would name it, what multiplies it, whether kernels can ask it.

    compiled: anywhere.   noted: where the dynamics have noted what it needs.
    """

    name: str
    term: BatchTerm
    weight: float
    compiled: bool = False
    noted: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    """Minimise ``Σ_k dt Σ running(x_k, u_k) + Σ at[k](x_k, u_k) + Σ terminal(x_N)`` where ``x' = f(x, u)``.

    dynamics: any object of the `Dynamics` protocol.
    running: terms of the knots 0 .. N-1; densities, multiplied by ``dynamics.dt`` [s], or by how long a knot takes
        where the dynamics say so (`Paced`).
    terminal: terms of the knot N; not multiplied.
    x0 (nx,): the initial state.  horizon: N, the number of controls, at least 1.
    at: terms of single knots ``{k: [...]}``, 0 <= k <= N; not multiplied.
    control_limits: ``(lower, upper)`` that every control keeps to, each a number, (nu,) or (N, nu), ±inf for none.
        As ``lower``, ``upper`` (N, nu) they can be read back.
    during: terms of stretches of knots ``{range(a, b): [...]}``, within 0 .. N-1; densities, multiplied like running
        ones. They may be `VaryingTerm`s, with one reference for each knot of the stretch.
    constraints: of the knots 0 .. N-1; what no control can change at knot 0, where the state is given, is not
        imposed there.   terminal_constraints: of x_N.   constraints_at: of single knots ``{k: [...]}``, or of
        stretches ``{range(a, b): [...]}``.
        Objects of the `Constraint` protocol, or ``Equality(f)`` and ``Inequality(f)``; never multiplied by dt.

    A term has ``value(x, u)`` and, if it likes, ``gradient`` and ``hessian`` (see `ddp.terms`), or is a `JittedTerm` or
    a `BatchTerm`. Raises ProblemError, naming the field, if anything is malformed.
    """

    dynamics: Dynamics
    running: Sequence[Term | BatchTerm]
    terminal: Sequence[Term | BatchTerm]
    x0: Array
    horizon: int
    at: Mapping[int, Sequence[Term | BatchTerm]] = field(default_factory=dict)
    control_limits: tuple[ArrayLike, ArrayLike] | None = None
    lower: Array = field(init=False, repr=False)
    upper: Array = field(init=False, repr=False)
    constraints: Sequence[ConstraintLike] = ()
    terminal_constraints: Sequence[ConstraintLike] = ()
    constraints_at: Mapping[int | range, Sequence[ConstraintLike]] = field(default_factory=dict)
    during: Mapping[range, Sequence[Term | BatchTerm]] = field(default_factory=dict)
    _limits: tuple[Array, Array] = field(init=False, repr=False)
    _running: tuple[_Entry, ...] = field(init=False, repr=False)
    _at: tuple[tuple[int, _Entry], ...] = field(init=False, repr=False)
    _during: tuple[tuple[range, _Entry], ...] = field(init=False, repr=False)
    _terminal: tuple[_Entry, ...] = field(init=False, repr=False)
    _placed: tuple[Placed, ...] = field(init=False, repr=False, default=())
    _lagrangian: Lagrangian | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        if isinstance(self.dynamics, type) or not isinstance(self.dynamics, Dynamics):
            raise ProblemError(
                f"dynamics: expected an object of the Dynamics protocol, got {described(self.dynamics)}"
            )
        dt = positive("dynamics.dt", self.dynamics.dt)
        horizon = positive_integer("horizon", self.horizon)
        x0 = as_array("x0", self.x0, (self.dynamics.nx,)).copy()
        self.dynamics.check_state("x0", x0)
        check_knots("at", self.at, horizon)
        check_knots("constraints_at", self.constraints_at, horizon, stretches=True)
        check_stretches(self.during, horizon)
        stretches = tuple(
            (knots, entry)
            for knots in sorted(self.during, key=lambda knots: (knots.start, knots.stop))
            for entry in _entries(f"during[{knots}]", self.during[knots], dt, self.dynamics, x0)
        )
        single = tuple(
            (int(knot), entry)
            for knot in sorted(self.at)
            for entry in _entries(f"at[{knot}]", self.at[knot], 1.0, self.dynamics, x0)
        )
        limits = as_limits(self.control_limits, horizon, self.dynamics.nu)
        lower, upper = (limit.view() for limit in limits)
        for array in (x0, lower, upper):
            array.flags.writeable = False
        for name, value in (
            ("x0", x0),
            ("lower", lower),
            ("upper", upper),
            ("_limits", limits),
            ("horizon", horizon),
            ("_running", _entries("running", self.running, dt, self.dynamics, x0)),
            ("_at", single),
            ("_during", stretches),
            ("_terminal", _entries("terminal", self.terminal, 1.0, self.dynamics, x0)),
        ):
            object.__setattr__(self, name, value)
        placed = [*self._during, *((range(horizon), entry) for entry in self._running)]
        placed += [(range(knot, knot + 1), entry) for knot, entry in self._at]
        placed += [(range(horizon, horizon + 1), entry) for entry in self._terminal]
        for knots, entry in placed:
            check_length(entry.name, entry.term, knots)
        self._weigh_by_durations()
        object.__setattr__(self, "running", tuple(self.running))
        object.__setattr__(self, "terminal", tuple(self.terminal))
        self._try_terms()
        self._find_readers()
        _ = self._table  # what cannot be compiled is told here
        if self.constraints or self.terminal_constraints or self.constraints_at:
            lists = self.constraints, self.constraints_at, self.terminal_constraints
            object.__setattr__(self, "_placed", place(self.dynamics, horizon, x0, *lists))
        object.__setattr__(self, "constraints", tuple(self.constraints))
        object.__setattr__(self, "terminal_constraints", tuple(self.terminal_constraints))

    def _weigh_by_durations(self) -> None:
        """Running costs where steps of time differ: apart for each run of knots with the same."""
        weights = weights_of(self.dynamics, self.horizon)
        if (weights == self.dynamics.dt).all():
            return
        apart = []
        for knots, entry in [*((range(self.horizon), entry) for entry in self._running), *self._during]:
            for run in even(weights, knots):
                own = part(entry.term, run.start - knots.start, run.stop - knots.start)
                apart.append((run, entry._replace(term=own, weight=float(weights[run.start]))))
        object.__setattr__(self, "_running", ())
        object.__setattr__(self, "_during", tuple(apart))

    def __repr__(self) -> str:
        terms = len(self._running) + len(self._at) + len(self._during) + len(self._terminal)
        constraints = f", {len(self._placed)} constraints" if self._placed else ""
        return f"Problem({self.dynamics!r}, horizon={self.horizon}, {terms} cost terms{constraints})"

    def starting_at(self, x0: Array) -> Problem:
        """The same problem from another initial state x0 (nx,); nothing but x0 is checked again or copied."""
        x0 = as_array("x0", x0, (self.dynamics.nx,)).copy()
        self.dynamics.check_state("x0", x0)
        x0.flags.writeable = False
        other = self._twin()
        object.__setattr__(other, "x0", x0)
        return other

    def cost(self, X: Array, U: Array) -> float:
        """The total cost of X (N+1, nx) and U (N, nu). Raises ProblemError if it is not finite."""
        N, nx, nu = self.horizon, self.dynamics.nx, self.dynamics.nu
        X, padded = as_array("X", X, (N + 1, nx)), self.padded(as_array("U", U, (N, nu)))
        with np.errstate(all="ignore"):
            total = float(cost_table.sum_of(self.values(X, padded)))
            if not np.isfinite(total):
                raise ProblemError(self.fault(X, padded, 0) or "the total cost is not finite")
        return total

    def track(
        self, X: Array, U: Array, k: Array, K: Array, alphas: Array, gaps: Array
    ) -> tuple[Array, Array, Array]:
        """Closed-loop rollouts within the limits of controls: see `protocols.Dynamics`. With their notes."""
        given = X, U, k, K, alphas, gaps, *self._limits
        if len(self._noted):
            return cast(Noting, self.dynamics).track_noting(*given)
        Xs, Us = self.dynamics.track(*given)
        notes = np.empty((len(alphas), 0, 0))
        return np.ascontiguousarray(Xs, dtype=np.float64), np.ascontiguousarray(Us, dtype=np.float64), notes

    def padded(self, U: Array) -> Array:
        """U (N, nu) with the row of zeros (N+1, nu) that the terms of knot N are given."""
        return np.concatenate([U, np.zeros((1, U.shape[1]))])

    def values(self, X: Array, U: Array) -> Array:
        """The costs (N+1,) of the knots of X (N+1, nx) and padded U (N+1, nu); nothing is checked."""
        costs = np.empty(self.horizon + 1)
        cost_table.values(self._table, np.ascontiguousarray(X), np.ascontiguousarray(U), costs)
        self._add_values(X, U, costs)
        return costs

    def total(self, X: Array, U: Array, notes: Array = cost_table.NO_NOTES) -> float:
        """The cost of a rollout X (N+1, nx) under U (N, nu), with its notes if known; infinite where it diverges."""
        costs = np.empty(self.horizon + 1)
        noted = self._noted if len(notes) else cost_table.NONE
        X, U = np.ascontiguousarray(X), np.ascontiguousarray(U)
        total = cost_table.total(self._table, noted, X, U, notes, costs)
        if (self._interpreted or len(noted) < len(self._noted)) and total < np.inf:
            self._add_values(X, self.padded(U), costs, len(noted) > 0)
            total = cost_table.sum_of(costs)
        return total

    def _add_values(self, X: Array, U: Array, costs: Array, noted: bool = False) -> None:
        """Add those of the terms that are not compiled; ``noted``: nor those that read notes."""
        if self._interpreted or len(self._noted):
            for entry, knots in self._python_terms(0, self.horizon + 1, noted=noted):
                with _naming(entry, knots):
                    costs[knots] += entry.weight * entry.term.values(X[knots], U[knots])

    def allocate(self, empty: Callable[[tuple[int, ...]], Array] = aligned_zeros) -> Derivatives:
        """Arrays for all derivatives of this problem, from an allocator of zeros ``empty(shape)``."""
        N, n, nu, nz = self.horizon, self.dynamics.n, self.dynamics.nu, self.dynamics.n + self.dynamics.nu
        return Derivatives(
            A=empty((N, n, n)),
            B=empty((N, n, nu)),
            record=empty((N, self.dynamics.record_size)),
            l=empty((N + 1,)),
            lz=empty((N + 1, nz)),
            lzz=empty((N + 1, nz, nz)),
            exact=empty((N + 1, nz, nz)),
            dual=empty((0 if self._lagrangian is None else state_size(self._placed),)),
        )

    def expand(self, X: Array, U: Array, out: Derivatives, start: int, stop: int) -> None:
        """First order of the dynamics and Gauss-Newton costs of the knots start .. stop-1 of 0 .. N.

        X (N+1, nx), U (N+1, nu) padded. Writes the rows of those knots in all of ``out`` but ``out.exact``.
        """
        knots = slice(start, min(stop, self.horizon))
        if knots.stop > knots.start:
            self.dynamics.expand(
                X[knots], U[knots], Expansion(out.A[knots], out.B[knots], out.record[knots]), start
            )
        self.expand_gauss_newton(X, U, out, start, stop)

    def expand_gauss_newton(self, X: Array, U: Array, out: Derivatives, start: int, stop: int) -> None:
        """The costs of `expand` alone."""
        X, U = np.ascontiguousarray(X), np.ascontiguousarray(U)
        tables, record = (self._table, self._noted, self.separable), out.record
        cost_table.expand(*tables, start, stop, X, U, record, out.l, out.lz, out.lzz)
        if self._interpreted:
            for entry, rows in self._python_terms(start, stop, out.dual, True):
                with _naming(entry, rows):
                    entry.term.expand(
                        X[rows], U[rows], entry.weight, False, out.l[rows], out.lz[rows], out.lzz[rows]
                    )

    def expand_second(self, X: Array, U: Array, out: Derivatives, start: int, stop: int) -> None:
        """Second order of the dynamics and exact cost Hessians, after `expand` of the same trajectory."""
        knots = slice(start, min(stop, self.horizon))
        if knots.stop > knots.start:
            self.dynamics.expand_second(
                X[knots], U[knots], Expansion(out.A[knots], out.B[knots], out.record[knots]), start
            )
        self.expand_costs(X, U, out, start, stop)

    def expand_at_once(self, X: Array, U: Array, out: Derivatives, start: int, stop: int) -> None:
        """`expand` and `expand_second`, but for Gauss-Newton Hessians that are not the exact ones as well."""
        knots = slice(start, min(stop, self.horizon))
        if knots.stop > knots.start:
            expansion = Expansion(out.A[knots], out.B[knots], out.record[knots])
            self.dynamics.expand(X[knots], U[knots], expansion, start)
            self.dynamics.expand_second(X[knots], U[knots], expansion, start)
        X, U = np.ascontiguousarray(X), np.ascontiguousarray(U)
        tables, record = (self._table, self._noted, self.separable), out.record
        cost_table.expand_at_once(*tables, start, stop, X, U, record, out.l, out.lz, out.lzz, out.exact)
        if self._interpreted:
            for entry, rows in self._python_terms(start, stop, out.dual, True):
                with _naming(entry, rows):
                    own = out.l[rows], out.lz[rows], out.exact[rows]
                    entry.term.expand(X[rows], U[rows], entry.weight, True, *own)

    def expand_costs(self, X: Array, U: Array, out: Derivatives, start: int, stop: int) -> None:
        """The exact cost Hessians alone."""
        X, U = np.ascontiguousarray(X), np.ascontiguousarray(U)
        tables, record = (self._table, self._noted, self.separable, self._curved), out.record
        cost_table.expand_exact(*tables, start, stop, X, U, record, out.lzz, out.exact)
        if self._interpreted:
            for run_begin, run_end in self._curved.tolist():
                begin, end = max(start, run_begin), min(stop, run_end)
                value, gradient = np.zeros(self.horizon + 1), np.zeros_like(out.lz)
                for entry, rows in self._python_terms(begin, end, out.dual, True):
                    with _naming(entry, rows):
                        entry.term.expand(
                            X[rows], U[rows], entry.weight, True, value[rows], gradient[rows], out.exact[rows]
                        )

    def by_durations(self, X: Array, U: Array, multipliers: Array, on_next: Array | None = None) -> Array:
        """Derivatives (N,) of the Lagrangian, X (N+1, nx) and U (N, nu) kept, by how long each knot takes [1/s].

        Those of running costs are what they are multiplied by; terms and constraints may know more, see `Timed`, and
        the dynamics must:  ∂/∂h_k = ℓ_k + h_k ∂ℓ_k/∂h + λ_{k+1} · ∂f_k/∂h.  Zero at events.
        on_next (N, n): λ_1 .. λ_N, default the costates of X.
        """
        if not isinstance(self.dynamics, Timed):
            raise ProblemError(f"dynamics: {described(self.dynamics)} does not know how it changes with its steps")
        N, padded = self.horizon, self.padded(U)
        if on_next is None:
            d = self.allocate()
            self.expand(X, padded, d, 0, N + 1)
            if multipliers.size:
                self.add_forces(X, U, multipliers, d.lz)
            on_next = costates(d.A, d.lz)[1:]
        rates = np.einsum("ki,ki->k", on_next, self.dynamics.by_duration(X[:-1], U))
        running = [*((slice(0, N), entry) for entry in self._running)]
        running += [(slice(knots.start, knots.stop), entry) for knots, entry in self._during]
        for knots, entry in running:
            rates[knots] += entry.term.values(X[knots], padded[knots])
        for knots, entry in [*running, *((slice(k, k + 1), entry) for k, entry in self._at if k < N)]:
            if isinstance(entry.term, Timed):
                rates[knots] += entry.weight * entry.term.by_duration(X[knots], padded[knots])
        for placed in self._placed:
            if isinstance(placed.constraint, Timed):
                own, knots = placed.own(multipliers), slice(placed.start, placed.stop)
                rates[knots] += (own * placed.constraint.by_duration(X[knots], padded[knots])).sum(axis=1)
        return np.where(durations_of(self.dynamics, N) > 0.0, rates, 0.0)

    @cached_property
    def separable(self) -> NDArray[np.bool_]:
        """Where (N+1,) every term is `Separable`: the Hessian is diagonal, and Gauss-Newton's exact."""
        mask = np.ones(self.horizon + 1, dtype=bool)
        for entry, knots in self._within(0, self.horizon + 1):
            if not (isinstance(entry.term, Separable) and entry.term.separable):
                mask[knots] = False
        return mask

    @cached_property
    def _curved(self) -> NDArray[np.int64]:
        """Runs [begin, end) of knots that are not separable (., 2); all as one where there are many."""
        edges = np.flatnonzero(np.diff(np.concatenate([[False], ~self.separable, [False]])))
        runs = edges.reshape(-1, 2)
        return np.array(runs if len(runs) <= MOST_RUNS else [(0, self.horizon + 1)], dtype=np.int64).reshape(-1, 2)

    @cached_property
    def _table(self) -> cost_table.Table:
        """The compiled terms."""
        rows = []
        for entry, knots in self._within(0, self.horizon + 1):
            if isinstance(entry.term, CompiledTerm):
                with _naming(entry, knots):
                    rows.append((entry.term.compiled, knots.start, knots.stop, entry.weight))
        object.__setattr__(self, "_alive", [row[0] for row in rows])  # what the table's addresses point to
        return cost_table.table_of(rows)

    @cached_property
    def _noted(self) -> cost_table.Table:
        """The terms that read what the dynamics have noted of their knots."""
        rows = [
            (_note_reader(entry, self.dynamics, knots), knots.start, knots.stop, entry.weight)
            for entry, knots in self._within(0, self.horizon + 1)
            if entry.noted
        ]
        found = [(cost, *others) for cost, *others in rows if cost is not None]
        object.__setattr__(self, "_readers", [row[0] for row in found])  # what the table's addresses point to
        return cost_table.table_of(found)

    @cached_property
    def _interpreted(self) -> bool:
        """Whether there are terms that are neither compiled nor noted."""
        return next(self._python_terms(0, self.horizon + 1, noted=True), None) is not None

    def _python_terms(
        self, start: int, stop: int, dual: Array | None = None, noted: bool = False
    ) -> Iterator[tuple[_Entry, slice]]:
        """Those of `_within` that are not compiled; ``noted``: nor do they read notes."""
        within = self._within(start, stop, dual)
        return (found for found in within if not (found[0].compiled or (noted and found[0].noted)))

    def fault(self, X: Array, U: Array, order: int) -> str | None:
        """The first term whose cost or, if order > 0, derivative is not finite, as a sentence; None if all are."""
        nz = self.dynamics.n + self.dynamics.nu
        for entry, knots in self._within(0, self.horizon + 1):
            own, M = (X[knots], U[knots]), knots.stop - knots.start
            with _naming(entry, knots):
                found = [("cost", entry.term.values(*own))]
                for name, exact in (("Gauss-Newton Hessian", False), ("Hessian", True)):
                    if order > 0:
                        l, lz, lzz = np.zeros(M), np.zeros((M, nz)), np.zeros((M, nz, nz))
                        entry.term.expand(*own, 1.0, exact, l, lz, lzz)
                        found += [("gradient", lz), (name, lzz)]
            for what, array in found:
                if (bad := broken_rows(array)).any():
                    row = int(np.argmax(bad))
                    value = array[row] if what == "cost" else "not finite"
                    return f"{entry.name}: its {what} is {value} at knot {knots.start + row}"
        return None

    def most_concave(self, X: Array, U: Array, knot: int) -> str | None:
        """The term with the most negative curvature at a knot of X (N+1, nx), U (N+1, nu); None if none has any."""
        nz = self.dynamics.n + self.dynamics.nu
        found: tuple[float, str | None] = (-1e-12, None)
        for entry, _ in self._within(knot, knot + 1):
            l, lz, lzz = np.zeros(1), np.zeros((1, nz)), np.zeros((1, nz, nz))
            entry.term.expand(X[knot : knot + 1], U[knot : knot + 1], entry.weight, True, l, lz, lzz)
            if np.isfinite(lzz).all():
                found = min(found, (float(np.linalg.eigvalsh(lzz[0])[0]), entry.name), key=lambda pair: pair[0])
        return found[1]

    def terms(self) -> Iterator[tuple[str, BatchTerm, slice]]:
        """Every term with its name and the knots it belongs to, for reports; one that varies, knot by knot."""
        for entry, knots in self._within(0, self.horizon + 1):
            if varying(entry.term) is None:
                yield entry.name, entry.term, knots
            else:
                for row, knot in enumerate(range(knots.start, knots.stop)):
                    yield entry.name, part(entry.term, row, row + 1), slice(knot, knot + 1)

    # constraints

    @property
    def constrained(self) -> bool:
        """Whether there are any constraints."""
        return bool(self._placed)

    @property
    def multiplier_count(self) -> int:
        """How many numbers all constraints constrain."""
        return state_size(self._placed) - len(self._placed)

    @property
    def placed(self) -> tuple[Placed, ...]:
        """Every constraint, where it is imposed."""
        return self._placed

    def augmented(self, lagrangian: Lagrangian) -> Problem:
        """The same problem, its cost with what the constraints contribute to the augmented Lagrangian."""
        return self._with_lagrangian(lagrangian)

    @property
    def plain(self) -> Problem:
        """The problem without what `augmented` added."""
        return self if self._lagrangian is None else self._with_lagrangian(None)

    def _with_lagrangian(self, lagrangian: Lagrangian | None) -> Problem:
        twin = self._twin()
        object.__setattr__(twin, "_lagrangian", lagrangian)
        for cached in ("separable", "_curved", "_interpreted"):  # they are of other terms
            vars(twin).pop(cached, None)
        return twin

    def _twin(self) -> Problem:
        """The same problem, with all that is known of it."""
        twin = object.__new__(Problem)
        vars(twin).update(vars(self))
        return twin

    def __getstate__(self) -> dict[str, Any]:
        of_this_process = "_table", "_alive", "_noted", "_readers"  # addresses
        return {name: value for name, value in vars(self).items() if name not in of_this_process}

    @property
    def lagrangian(self) -> Lagrangian:
        """The multipliers and penalties of an `augmented` problem."""
        if self._lagrangian is None:
            raise ProblemError("lagrangian: this problem is not augmented")
        return self._lagrangian

    def residuals(self, X: Array, U: Array, multipliers: Array | None = None) -> tuple[Residual, ...]:
        """All constraints along X (N+1, nx) and U (N, nu); multipliers (m,): all in a row, default zeros."""
        if multipliers is None:
            multipliers = np.zeros(self.multiplier_count)
        known = Values() if self._lagrangian is None else self._lagrangian.known
        return residuals(self._placed, X, self.padded(U), multipliers, known)

    def violation(self, X: Array, U: Array) -> float:
        """The largest violation of a constraint along X (N+1, nx) and U (N, nu); 0 if there is none."""
        return max(found.worst for found in self.residuals(X, U)) if self._placed else 0.0

    def add_forces(self, X: Array, U: Array, multipliers: Array, lz: Array) -> None:
        """Add ``Jᵀ multipliers`` of all constraints to lz (N+1, nz)."""
        U = self.padded(U)
        for entry in self._placed:
            knots = slice(entry.start, entry.stop)
            J = entry.constraint.jacobian(X[knots], U[knots])
            lz[knots] += np.einsum("ki,kia->ka", entry.own(multipliers), J)

    def shifted(self, multipliers: Array, steps: int) -> Array:
        """Multipliers (m,) as they are ``steps`` knots later, the last ones repeated; those of single knots stay."""
        later = multipliers.copy()
        for entry in self._placed:
            own = entry.own(multipliers)
            if len(own) > steps:
                entry.own(later)[:] = np.concatenate([own[steps:], np.repeat(own[-1:], steps, axis=0)])
        return later

    def _within(self, start: int, stop: int, dual: Array | None = None) -> Iterator[tuple[_Entry, slice]]:
        """The terms of the knots start .. stop-1, with those of its knots, always in the same order.

        dual: where multipliers and penalties are; default this problem's own.
        """
        N = self.horizon
        if start < min(stop, N):
            for entry in self._running:
                yield entry, slice(start, min(stop, N))
        for stretch, entry in self._during:
            a, b = max(start, stretch.start), min(stop, stretch.stop)
            if b - a == len(stretch):
                yield entry, slice(a, b)
            elif a < b:
                yield entry._replace(term=part(entry.term, a - stretch.start, b - stretch.start)), slice(a, b)
        for knot, entry in self._at:
            if start <= knot < stop:
                yield entry, slice(knot, knot + 1)
        if stop > N:
            for entry in self._terminal:
                yield entry, slice(N, N + 1)
        if self._lagrangian is not None:
            own = self._lagrangian if dual is None else replace(self._lagrangian, state=dual)
            for name, term, knots in own.within(start, stop):
                yield _Entry(name, term, 1.0), knots

    def _find_readers(self) -> None:
        """Which terms of stretches read what the dynamics note of them."""
        found = [_note_reader(entry, self.dynamics, slice(k.start, k.stop)) is not None for k, entry in self._during]
        marked = [(knots, entry._replace(noted=one)) for (knots, entry), one in zip(self._during, found, strict=True)]
        object.__setattr__(self, "_during", tuple(marked))

    def _try_terms(self) -> None:
        """Evaluate every batch term once: those made for another system are found here, not on the way.

        So are those of the controls alone at knot N, where there are none: a constant, and surely a mistake.
        """
        d = self.dynamics
        elsewhere = d.integrate(self.x0, 0.1 * np.cos(1.0 + np.arange(d.n)))
        X, U = np.stack([self.x0, self.x0, elsewhere]), np.outer([0.0, 1.0, 0.0], np.ones(d.nu))
        for entry, knots in self._within(0, self.horizon + 1):
            if isinstance(entry.term, (DerivedTerm, CompiledDerivedTerm)):  # users' own, perhaps not defined there
                continue
            with _naming(entry, knots), np.errstate(all="ignore"):
                one = entry.term if varying(entry.term) is None else part(entry.term, 0, 1)
                values = np.asarray(one.values(X, U))
            if values.shape != (3,):
                raise ProblemError(f"{entry.name}: values: expected shape (3,) for 3 knots, got {values.shape}")
            if knots.start == self.horizon and values[0] != values[1] and values[0] == values[2]:
                raise ProblemError(
                    f"{entry.name}: expected a term of the state at the end of the horizon, "
                    "where there is no control; got one of the controls alone"
                )


def _note_reader(entry: _Entry, dynamics: Dynamics, knots: slice) -> CompiledCost | None:
    """What evaluates a term by the notes of the dynamics, if there is such a thing."""
    if entry.compiled or not (isinstance(entry.term, NotedTerm) and isinstance(dynamics, Noting)):
        return None
    with _naming(entry, knots):
        return entry.term.noted(dynamics, knots)


def _naming(entry: _Entry, knots: slice) -> AbstractContextManager[None]:
    return naming(entry.name, knots)


def _entries(name: str, terms: Any, weight: float, dynamics: Dynamics, x0: Array) -> tuple[_Entry, ...]:
    """The user's list of terms, checked, named and wrapped."""
    if isinstance(terms, (str, Mapping)) or not isinstance(terms, Sequence):
        raise ProblemError(f"{name}: expected a list of cost terms, got {described(terms)}")
    entries = []
    for i, term in enumerate(terms):
        label = f"{name}[{i}]"
        if isinstance(term, type):
            raise ProblemError(
                f"{label}: expected a cost term, got the class {term.__name__}: make an instance of it"
            )
        batch: BatchTerm
        if isinstance(term, JittedTerm):
            with naming(label, slice(0, 1)):
                batch = CompiledDerivedTerm(term, dynamics, x0, np.zeros(dynamics.nu))
        elif isinstance(term, BatchTerm):
            batch = term
        elif isinstance(term, Term):
            batch = DerivedTerm(term, dynamics)
        else:
            raise ProblemError(
                f"{label}: expected a cost term, an object with value(x, u), got {described(term)}"
            )
        with naming(label, slice(0, 1)):
            entries.append(_Entry(f"{label} ({type(term).__name__})", batch, weight, isinstance(batch, CompiledTerm)))
    return tuple(entries)

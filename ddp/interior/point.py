"""The iterate of the full-space step: a trajectory with open gaps, slacks, all multipliers, and what is known of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from ddp.constraints.bounds import measure_room, move_within, room
from ddp.derivatives import EXACT, FIRST, GAUSS_NEWTON, RECORDS, missing
from ddp.errors import ModelError
from ddp.interior import measures
from ddp.interior.barrier import Barrier, RowStep
from ddp.interior.linear import bend, multipliers, newton_step, stationarity
from ddp.interior.row_steps import N, P, S
from ddp.parallel.differentiator import Differentiator
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.sweeps.backward import VALUE, Backward, Sweep

NO_ROWS, PRIMAL = np.zeros(0), [S, P, N]

AT_LIMIT = 1e-4
"""Controls nearer to a limit have a multiplier in a warm start, relative to the range, or 1, or the limit."""

INSIDE = 1e-2
"""How far slacks and controls begin from their bounds, see `Barrier.inside`."""


class Trial(NamedTuple):
    """A trajectory X, U with slacks and excesses of its rows (3, M), and its worth.

    cost: its own.  barrier: the barrier function.  gaps (N, n), residual (M,): what is open; theta: the 2-norm of both,
    open: the largest number of both.
    """

    X: Array
    U: Array
    primal: Array
    cost: float
    barrier: float
    gaps: Array
    residual: Array
    theta: float
    open: float


class Move(NamedTuple):
    """A step: of states x (N+1, n), controls u (N, nu), rows, and the multipliers of the dynamics where it leads.

    slope: of cost and barrier along it.   expected: the decrease of both that the model promises, were nothing open.
    """

    x: Array
    u: Array
    rows: RowStep
    costate: Array
    weights: Array
    slope: float
    expected: float


class Point:
    """A trajectory X, U of a problem, with multipliers; rows (M,) are constraints (m,), then control limits (N nu).

    gaps, residual, theta, cost: see `Trial`.   costate (N+1, n), weights (N, n): see linear.py.
    scale: the cost that counts as one.   barrier: that of ``bounds``.   open: the largest gap or residual.
    first: m, the first row of a control's limits.   limited: whether there are such rows; boxed: whether sweeps keep to
    these limits instead, see `sweeps.limits`, as where there are no constraints.
    """

    def __init__(
        self, problem: Problem, work: Differentiator, X: Array, U: Array, scale: float, barrier: float,
        share: float = INSIDE,
    ) -> None:  # fmt: skip
        self.problem, self.dynamics, self.scale, self.barrier = problem, problem.dynamics, scale, barrier
        self.boxed = problem.limited and not problem.constrained
        self._work, self.limited = work, problem.limited and not self.boxed
        self.rows, self.first = problem.limited_rows if self.limited else problem.rows, problem.multiplier_count
        N, n = work.derivatives.A.shape[:2]
        self._n = n
        self.bounds = self.bounded_by(self.rows.lower, self.rows.upper)
        d = work.derivatives
        self._plain_lz, self._error, self._unread = (np.zeros_like(d.lz) for _ in range(3))
        self._swept = d._replace(
            lz=np.zeros_like(d.lz), lzz=np.zeros_like(d.lzz), exact=np.zeros_like(d.exact),
            diagonal=np.zeros_like(d.diagonal),
        )  # fmt: skip
        self.backward = Backward(
            self._swept, problem.dynamics, VALUE, limited=self.boxed, contract=work.contract,
            structure=problem.structure, weighted=True,
        )  # fmt: skip
        self._diagonal = problem.separable
        self.backward.separable = self._separable = self._diagonal & self.rows.separable
        self._dense = ~self._separable
        self._any_dense, self._curved = bool(self._dense.any()), not self.rows.separable.all()
        self.costate, self.weights = np.zeros((N + 1, n)), np.zeros((N, n))
        self._w, self._whole = NO_ROWS, True
        self.start(X, U, share)

    def start(self, X: Array, U: Array, share: float) -> None:
        """Begin at a trajectory, its controls and slacks pushed off their bounds, see `Barrier.inside`."""
        values = self.bounds.inside(self.rows.values(X, U), share)
        if self.limited:
            U = values[self.first :].reshape(U.shape)
        elif self.boxed:
            U = np.clip(U, self.problem.lower, self.problem.upper)
        self.bounds.start(values, self.barrier)
        self._take(self.tried(X, U, self.bounds.primal))

    def warm(self, multipliers: Array, K: Array) -> None:
        """Take multipliers of constraints (m,); those of dynamics and limits follow, under gains K (N, nu, n)."""
        bounds, y = self.bounds, np.zeros(self.rows.size)
        y[: self.first] = multipliers
        bounds.start_warm(y, self.barrier)
        self.differentiate()
        self.adjoint(K)
        if self.limited:
            y[self.first :] = self.limit_forces().ravel() * np.abs(bounds.near(AT_LIMIT)[self.first :])
            bounds.start(bounds.slacks, self.barrier)
            bounds.start_warm(y, self.barrier)

    def bounded_by(self, lower: Array, upper: Array) -> Barrier:
        """Rows within other bounds (M,)."""
        return Barrier(lower, upper, self.scale)

    def tried(self, X: Array, U: Array, primal: Array) -> Trial:
        """Evaluate a trajectory."""
        d, cost = self.dynamics, self.problem.total(X, U)
        try:
            gaps = np.ascontiguousarray(d.difference(X[1:], d.step(X[:-1], U)))
        except ModelError:  # there is no motion
            gaps = np.full((len(U), d.n), np.inf)
        residual, barrier = NO_ROWS, 0.0
        if self.rows.size:
            residual, barrier = self.bounds.evaluate(self.rows.values(X, U), primal, self.barrier)
        theta, largest = measures.sizes(gaps, residual)
        if not (abs(cost) < np.inf and theta < np.inf):
            cost = theta = np.inf
        return Trial(X, U, primal, cost, barrier, gaps, residual, theta, largest)

    def _take(self, trial: Trial) -> None:
        self.X, self.U, self.cost, self.gaps = trial.X, trial.U, trial.cost, trial.gaps
        self.residual, self.theta, self.penalty = trial.residual, trial.theta, trial.barrier
        self.bounds.primal, self.open = trial.primal, trial.open

    def let_go(self, price: float) -> None:
        """Let constraints give way at a price, see barrier.py."""
        self.bounds.start_elastic(price, self.first, self.rows.values(self.X, self.U), self.barrier)
        self.settle()

    def settle(self) -> None:
        """Take the residual of rows that are bounded otherwise now."""
        self._take(self.measure())

    def multipliers(self) -> tuple[Array, Array, Array]:
        """Copies of λ, w and those of equalities, for `restore`."""
        return self.costate.copy(), self.weights.copy(), self.bounds.equal.copy()

    def restore(self, trial: Trial, multipliers: tuple[Array, Array, Array]) -> None:
        """Go back to the trajectory of earlier measures; bounds of rows stay as they are."""
        self._take(trial)
        self.costate, self.weights, self.bounds.equal = multipliers

    def measure(self) -> Trial:
        """The point itself as a trial, with the rows as they are bounded now."""
        return self.tried(self.X, self.U, self.bounds.primal)

    def differentiate(self) -> None:
        """Derivatives here."""
        d, known = self._work.derivatives, 0
        while (made := missing(known, FIRST | GAUSS_NEWTON | EXACT | RECORDS, self.problem.curved))[0]:
            self._work.make(self.X, self.U, made[0])
            known = made[1]
        if self.rows.size:
            self._J = self.rows.jacobian(self.X, self.U)
        self.backward.gaps = self.gaps
        self._plain_lz[:] = d.lz

    def contract(self) -> None:
        """Contract the second order of the dynamics with the multipliers."""
        bend(self.backward.address, self.weights)
        self.backward.contract(self.weights)

    def pull(self, forces: Array) -> None:
        """The swept gradient := l_z + Jᵀ forces (M,)."""
        self._swept.lz[:] = self._plain_lz
        if self.rows.size:
            self.rows.add_forces(self._J, forces, self._swept.lz)

    def condense(self) -> None:
        """Eliminate the rows: their weights and forces come into the Hessians and the gradient that are swept."""
        swept, d = self._swept, self._work.derivatives
        self._w, f = self.bounds.condensed(self.residual, self.barrier)
        self.pull(f)
        swept.diagonal[:] = d.diagonal
        self._fill(d.exact, swept.exact, swept.diagonal)
        if self._curved and self.rows.size:
            self.rows.add_curvature(self.X, self.U, self.bounds.multipliers, swept.exact)
        self._whole = False

    def _fill(self, H: Array, out: Array, diagonal: Array) -> None:
        """out := H + Jᵀ w J where that is not diagonal, diagonal += it elsewhere."""
        if self._any_dense:
            measures.spread(self._dense, self._diagonal, self._work.derivatives.diagonal, H, out)
        if self.rows.size:
            self.rows.add_squares(self._J, self._w, out, diagonal, self._separable)

    def sweep(self, blend: float, mu: float, held: Array | None = None) -> Sweep:
        """Sweep once, after `condense`: see `Backward.with_weights`. Gauss-Newton's Hessians are made if needed."""
        if blend < 1.0 and not self._whole and self._any_dense:
            self._fill(self._work.derivatives.lzz, self._swept.lzz, self._unread)
            self._whole = True
        if self.boxed:
            measure_room(self.U, self.problem.lower, self.problem.upper, *self.backward.limits)
        return self.backward.with_weights(blend, mu, None if self.boxed else held)

    def dual_residual(self) -> Array:
        """The Lagrangian's gradient (N+1, nz) in all states but the first, and all controls that no limit holds."""
        self.pull(self.bounds.multipliers)
        stationarity(self.backward.address, self.costate, self.weights, self._error)
        if self.boxed:
            low, high = room(self.U, self.problem.lower, self.problem.upper)
            slope = self._error[:-1, self._n :]
            slope[((low >= 0.0) & (slope > 0.0)) | ((high <= 0.0) & (slope < 0.0))] = 0.0
        return self._error

    def adjoint(self, K: Array | None = None) -> None:
        """Multipliers of the dynamics := the costates of the point, or with gains K (N, nu, n), those under them."""
        self.pull(self.bounds.multipliers)
        if K is not None:
            self.backward.gains[:] = K
        x, u = np.zeros_like(self.costate), np.zeros_like(self.U)
        bend(self.backward.address, self.weights)
        multipliers(self.backward.address, 0.0, 0.0, x, u, x, K is not None, self.costate, self.weights)

    def limit_forces(self) -> Array:
        """Forces (N, nu) that would hold controls where they are: the multipliers of limits that they are at."""
        forces = self.bounds.multipliers.copy()
        forces[self.first :] = 0.0
        self.pull(forces)
        stationarity(self.backward.address, self.costate, self.weights, self._error)
        return -self._error[:-1, self._n :]

    def move(self, sweep: Sweep, blend: float, mu: float) -> Move:
        """The step of a sweep."""
        x, u, y = np.zeros_like(self.costate), np.zeros_like(self.U), np.zeros_like(self.costate)
        address = self.backward.address
        newton_step(address, x, u, y)
        costate, weights = np.empty_like(self.costate), np.empty_like(self.weights)
        multipliers(address, blend, mu, x, u, y, True, costate, weights)
        along = self.rows.along(self._J, x, u) if self.rows.size else NO_ROWS
        rows = self.bounds.step(along, self.residual, self.barrier)
        slope = measures.slope(self._plain_lz, x, u)
        return Move(x, u, rows, costate, weights, slope + rows.slope, abs(sweep.expected))

    @contextmanager
    def opened(self, trial: Trial, alpha: float) -> Iterator[None]:
        """Meanwhile what is open is what a trial leaves open, and alpha times what is open now."""
        gaps, residual = self.gaps, self.residual
        self.gaps, self.residual = trial.gaps + alpha * gaps, trial.residual + alpha * residual
        self.backward.gaps = self.gaps
        self.condense()
        try:
            yield
        finally:
            self.gaps, self.residual = gaps, residual
            self.backward.gaps = gaps

    def along(self, move: Move, alpha: float) -> Trial:
        """The trial a fraction alpha along a step."""
        X = np.ascontiguousarray(self.dynamics.integrate(self.X, alpha * move.x))
        X[0] = self.X[0]
        U = self.U + alpha * move.u
        if self.boxed:
            move_within(U, self.problem.lower, self.problem.upper)
        primal = self.bounds.primal + alpha * move.rows.rows[PRIMAL]
        if self.limited:
            primal[0, self.first :] = np.where(self.bounds.bounded[self.first :], U.ravel(), 0.0)
        return self.tried(X, U, primal)

    def accept(self, trial: Trial, move: Move, alpha: float) -> None:
        """Go where a trial is; multipliers go as far along the step."""
        self._take(trial)
        self.bounds.move(move.rows, alpha, self.barrier)
        measures.approach(alpha, self.costate, move.costate)
        measures.approach(alpha, self.weights, move.weights)

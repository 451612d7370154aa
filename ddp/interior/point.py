"""The iterate of the full-space step: a trajectory with open gaps, slacks, all multipliers, and what is known of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from ddp.constraints.bounds import measure_room, move_within, room
from ddp.derivatives import EXACT, FIRST, GAUSS_NEWTON, RECORDS, missing
from ddp.errors import ModelError
from ddp.interior import passes
from ddp.interior.barrier import KEPT, Barrier
from ddp.interior.linear import bend, multipliers, stationarity
from ddp.parallel.differentiator import Differentiator
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.sweeps.backward import VALUE, Backward, Sweep
from ddp.sweeps.sized_limits import linear_step_of
from ddp.systems.system import System, ability

NO_JACOBIAN = np.zeros(0)

AT_LIMIT = 1e-4
"""Controls nearer to a limit have a multiplier in a warm start, relative to the range, or 1, or the limit."""

HALVES = np.array([1.0, 0.5, 0.25, 0.125])
"""Fractions of a step that are rolled out at once, in lanes."""

INSIDE = 0.1
"""Distance of first slacks and controls from their bounds, see `Barrier.inside`."""


class Trial(NamedTuple):
    """A trajectory X, U with slacks and excesses of its rows (3, M), and its worth.

    cost: its own.  barrier: the barrier function.  gaps (N, n), residual (M,): what is open; theta: the 2-norm of both.
    gap, missed: the largest gap and the largest residual.
    """

    X: Array
    U: Array
    primal: Array
    cost: float
    barrier: float
    gaps: Array
    residual: Array
    theta: float
    gap: float
    missed: float


class Move(NamedTuple):
    """A step: of states x (N+1, n), controls u (N, nu), rows (8, M), and the dynamics' multipliers where it leads.

    longest, longest_dual: fractions of it until a slack, or a multiplier of a bound, is at zero all but.
    slope: of cost and barrier along it.   expected: the decrease of both that the model promises, were nothing open.
    """

    x: Array
    u: Array
    rows: Array
    costate: Array
    weights: Array
    longest: float
    longest_dual: float
    slope: float
    expected: float


class Judged(NamedTuple):
    """Errors of a point: of the Lagrangian's gradient in x and u, and in slacks; products that the barrier makes equal.

    costates, of_bounds, of_all: sums of absolute multipliers: of the dynamics, of bounds, of all rows.
    """

    dual: float
    costates: float
    low: float
    high: float
    slope: float
    of_bounds: float
    of_all: float


def straying(dynamics: System) -> Callable[[Array, Array, Array], tuple[Array, Array]]:
    """States and gaps as ``strayed`` of `system.Abilities`, of a system that may lack it."""

    def stepped(X: Array, dX: Array, U: Array) -> tuple[Array, Array]:
        to = np.ascontiguousarray(dynamics.integrate(X, dX))
        to[0] = X[0]
        return to, np.ascontiguousarray(dynamics.difference(to[1:], dynamics.step(to[:-1], U)))

    return ability(dynamics, "strayed") or stepped


class Point:
    """A trajectory X, U of a problem, with multipliers; rows (M,) are constraints (m,), then control limits (N nu).

    gaps, residual, theta, gap, missed, cost: see `Trial`.   costate (N+1, n), weights (N, n): see linear.py.
    scale: the cost that counts as one.   barrier: that of ``bounds``.   open: the largest gap or residual.
    first: m, the first row of a control's limits.   limited: whether there are such rows; boxed: whether sweeps keep to
    these limits instead, see `sweeps.limits`: where they are ``held``, as where there are no constraints.
    """

    def __init__(
        self, problem: Problem, work: Differentiator, X: Array, U: Array, scale: float, barrier: float,
        share: float = INSIDE, held: bool = False,
    ) -> None:  # fmt: skip
        self.problem, self.dynamics, self.scale, self.barrier = problem, problem.dynamics, scale, barrier
        self.boxed = problem.limited and (held or not problem.constrained)
        self._work, self.limited = work, problem.limited and not self.boxed
        self.rows, self.first = problem.limited_rows if self.limited else problem.rows, problem.multiplier_count
        N, n = work.derivatives.A.shape[:2]
        self._n = n
        self.bounds = self.bounded_by(self.rows.lower, self.rows.upper, self.rows.cap, self.rows.compliance)
        d = work.derivatives
        self._plain_lz, self._error, self._unread = d.lz, np.zeros_like(d.lz), np.zeros_like(d.lz)
        self._swept = d._replace(
            lz=np.zeros_like(d.lz), lzz=np.zeros(d.lzz.shape), exact=np.zeros(d.exact.shape),
            diagonal=np.zeros_like(d.diagonal),
        )  # fmt: skip
        self.backward = Backward(
            self._swept, problem.dynamics, VALUE, limited=self.boxed, contract=work.contract,
            structure=problem.structure, weighted=True,
        )  # fmt: skip
        self._wanted = FIRST | GAUSS_NEWTON | EXACT | (0 if problem.structure.blockwise else RECORDS)
        self._diagonal = problem.separable
        self.backward.separable = self._separable = self._diagonal & self.rows.separable
        self._dense = ~self._separable
        self._any_dense, self._curved = bool(self._dense.any()), self.rows.curved
        self._linear_step = linear_step_of(n, problem.dynamics.nu)
        self._strayed = straying(problem.dynamics)
        self.costate, self.weights = np.zeros((N + 1, n)), np.zeros((N, n))
        self._arrived, self._dX, self._moved = np.zeros((N + 1, n)), np.zeros((N + 1, n)), np.zeros(self.rows.size)
        self._move = np.zeros((N + 1, n)), np.zeros_like(U), self.bounds.state.copy(), *self.multipliers()[:2]
        self._terms = problem.objective.compiled_alone if self.rows.compiled_alone else None
        self._costs, self._values = np.zeros(N + 1), np.zeros(self.rows.size)
        self._J, self._whole, self._contracted = NO_JACOBIAN, True, False
        self.start(X, U, share)

    @property
    def unit(self) -> float:
        """Cost that counts as one where a solve ends: the scale, or what the point costs if that is less, or one."""
        return min(self.scale, max(abs(self.cost), 1.0))

    def start(self, X: Array, U: Array, share: float) -> None:
        """Begin at a trajectory, its controls and slacks pushed off their bounds, see `Barrier.inside`."""
        values = self.rows.values(X, U)
        inside = self.bounds.inside(values, share)
        if self.limited:
            U = inside[self.first :].reshape(U.shape)
        elif self.boxed:
            U = np.clip(U, self.problem.lower, self.problem.upper)
        self.bounds.start(inside, values, self.barrier)
        self._take(self.tried(X, U, self.bounds.primal))

    def warm(self, multipliers: Array, K: Array) -> None:
        """Take multipliers of constraints (m,); those of dynamics and limits follow, under gains K (N, nu, n)."""
        bounds, y, values = self.bounds, np.zeros(self.rows.size), self.rows.values(self.X, self.U)
        y[: self.first] = multipliers
        bounds.start_warm(y, values, self.barrier)
        self.differentiate()
        self.adjoint(K)
        if self.limited:
            y[self.first :] = self.limit_forces().ravel() * np.abs(bounds.near(AT_LIMIT)[self.first :])
            bounds.start(bounds.slacks, values, self.barrier)
            bounds.start_warm(y, values, self.barrier)

    def held(self) -> Point:
        """A point like this, after `contract`, whose sweeps keep to the limits of controls, without rows of these."""
        other = Point(self.problem, self._work, self.X, self.U, self.scale, self.barrier, held=True)
        other.bounds.state[:], other.bounds.share = self.bounds.state[:, : self.first], self.bounds.share
        other.costate[:], other.weights[:] = self.costate, self.weights
        other.settle()
        other.differentiate()
        other.contract()
        return other

    def bounded_by(self, lower: Array, upper: Array, price: Array, compliance: Array) -> Barrier:
        """Rows within other bounds (M,), that give way otherwise."""
        return Barrier(lower, upper, self.scale, price, compliance)

    def tried(self, X: Array, U: Array, primal: Array) -> Trial:
        """Evaluate a trajectory."""
        d = self.dynamics
        return self._weighed(X, U, primal, np.ascontiguousarray(d.difference(X[1:], d.step(X[:-1], U))))

    def _weighed(self, X: Array, U: Array, primal: Array, gaps: Array) -> Trial:
        """A trajectory whose gaps are known, evaluated."""
        b, residual = self.bounds, np.empty(self.rows.size)
        args = gaps, primal, b.bounds, b.kind, b.give, self.barrier, residual
        if self._terms is not None:
            cost, barrier, sizes = passes.weigh(self._terms, self.rows.table, X, U, self._costs, self._values, *args)
        elif abs(cost := self.problem.total(X, U)) < np.inf:
            barrier, sizes = passes.worth(args[0], self.rows.values(X, U), *args[1:])
        else:  # constraints are not asked where there is no motion
            barrier, sizes = 0.0, (np.inf, np.inf, np.inf)
        theta, gap, missed = sizes
        if not theta < np.inf:
            cost = theta = np.inf
        return Trial(X, U, primal, cost, barrier, gaps, residual, theta, gap, missed)

    def _take(self, trial: Trial) -> None:
        self.X, self.U, self.cost, self.gaps = trial.X, trial.U, trial.cost, trial.gaps
        self.residual, self.theta, self.penalty = trial.residual, trial.theta, trial.barrier
        self.bounds.primal, self.gap, self.missed = trial.primal, trial.gap, trial.missed
        self.open = max(trial.gap, trial.missed)

    def let_go(self, price: float) -> None:
        """Let constraints give way at a price, see barrier.py."""
        rows = np.arange(self.rows.size) < self.first
        self.bounds.start_elastic(price, rows, self.rows.values(self.X, self.U), self.barrier)
        self.settle()

    def settle(self) -> Trial:
        """Take the residual of rows that are bounded otherwise now; the point itself as a trial."""
        here = self._weighed(self.X, self.U, self.bounds.primal, self.gaps)
        self._take(here)
        return here

    def multipliers(self) -> tuple[Array, Array, Array]:
        """Copies of λ, w and those of equalities, for `restore`."""
        return self.costate.copy(), self.weights.copy(), self.bounds.equal.copy()

    def restore(self, trial: Trial, multipliers: tuple[Array, Array, Array]) -> None:
        """Go back to the trajectory of earlier measures; bounds of rows stay as they are."""
        self._take(trial)
        self.costate, self.weights, self.bounds.equal = multipliers
        self._contracted = False

    def differentiate(self) -> None:
        """Derivatives here."""
        self._contracted = False
        known = 0
        while (made := missing(known, self._wanted, self.problem.curved))[0]:
            self._work.make(self.X, self.U, made[0])
            known = made[1]
        if self.rows.size:
            self._J = self.rows.jacobian(self.X, self.U)
        self.backward.take_gaps(self.gaps, self.gap > 0.0)

    def contract(self) -> None:
        """Contract the second order of the dynamics with the multipliers, unless that is known."""
        if not self._contracted:
            bend(self.backward.address, self.weights)
            self.backward.contract(self.weights)
            self._contracted = True

    def priced_openness(self) -> float:
        """Gaps and residuals times their multipliers, all as absolute numbers."""
        return float(np.abs(self.weights * self.gaps).sum() + np.abs(self.bounds.multipliers * self.residual).sum())

    def pull(self, forces: Array) -> None:
        """The swept gradient := l_z + Jᵀ forces (M,)."""
        passes.pull(self.rows.table, self._J, self._plain_lz, forces, self._swept.lz)

    def condense(self) -> None:
        """Eliminate the rows, after `judge`: weights and forces come into the swept Hessians and gradient."""
        swept, d, b = self._swept, self._work.derivatives, self.bounds
        passes.condense(
            self.rows.table, self._J, b.state, b.bounds, b.kind, b.give, self.barrier, b.proximal(self.barrier),
            self.residual, b.w, b.f, self._plain_lz, swept.lz, self._dense, self._any_dense, self._separable,
            self._diagonal, d.diagonal, d.exact, swept.exact, swept.diagonal, self._curved, self.X, self.U, b.y,
        )  # fmt: skip
        self.rows.add_curvature_in_python(self.X, self.U, b.y, swept.exact)
        self._whole = False

    def _fill(self, H: Array, out: Array, diagonal: Array) -> None:
        """out := H + Jᵀ w J where that is not diagonal, diagonal := it elsewhere."""
        passes.fill(
            self.rows.table, self._J, self.bounds.w, self._dense, self._any_dense, self._separable, self._diagonal,
            self._work.derivatives.diagonal, H, out, diagonal,
        )  # fmt: skip

    def sweep(self, blend: float, mu: float, held: Array | None = None) -> Sweep:
        """Sweep once, after `condense`: see `Backward.with_weights`. Gauss-Newton's Hessians are made if needed."""
        if blend < 1.0 and not self._whole and self._any_dense:
            self._fill(self._work.derivatives.lzz, self._swept.lzz, self._unread)
            self._whole = True
        if self.boxed:
            measure_room(self.U, self.problem.lower, self.problem.upper, *self.backward.limits)
        return self.backward.with_weights(blend, mu, None if self.boxed else held)

    def judge(self) -> Judged:
        """Errors of the point; `dual_residual` is known then."""
        b = self.bounds
        dual, costates, found = passes.judge(
            self.backward.address, self.rows.table, self._J, b.state, b.bounds, b.kind, b.give, self._plain_lz,
            self._swept.lz, b.y, self.costate, self.weights, self._error,
        )  # fmt: skip
        if self.boxed:
            low, high = room(self.U, self.problem.lower, self.problem.upper)
            slope = self._error[:-1, self._n :]
            slope[((low >= 0.0) & (slope > 0.0)) | ((high <= 0.0) & (slope < 0.0))] = 0.0
            dual = float(np.abs(self._error).max())
        return Judged(dual, costates, *found)

    def dual_residual(self) -> Array:
        """The Lagrangian's gradient (N+1, nz) in all states but the first, and all controls that no limit holds."""
        self.judge()
        return self._error

    def adjoint(self, K: Array | None = None) -> None:
        """Multipliers of the dynamics := the costates of the point, or with gains K (N, nu, n), those under them."""
        self.pull(self.bounds.multipliers)
        if K is not None:
            self.backward.gains[:] = K
        x, u = np.zeros_like(self.costate), np.zeros_like(self.U)
        bend(self.backward.address, self.weights)
        multipliers(self.backward.address, 0.0, 0.0, x, u, x, K is not None, self.costate, self.weights)
        self._contracted = False

    def limit_forces(self) -> Array:
        """Forces (N, nu) that would hold controls where they are: the multipliers of limits that they are at."""
        forces = self.bounds.multipliers.copy()
        forces[self.first :] = 0.0
        self.pull(forces)
        stationarity(self.backward.address, self._swept.lz, self.costate, self.weights, self._error)
        return -self._error[:-1, self._n :]

    def move(self, sweep: Sweep, blend: float, mu: float) -> Move:
        """The step of a sweep, until that of another one takes its place."""
        b, keep, (x, u, rows, costate, weights) = self.bounds, max(KEPT, 1.0 - self.barrier / self.scale), self._move
        self._linear_step(self.backward.address, u, x, self._arrived)
        longest, longest_dual, slope = passes.stride(
            self.backward.address, self.rows.table, self._J, b.state, b.bounds, b.kind, b.give, self.barrier,
            self.residual, b.w, b.f, self._plain_lz, keep, blend, mu, x, u, self._arrived, self._moved, rows, costate,
            weights,
        )  # fmt: skip
        return Move(x, u, rows, costate, weights, longest, longest_dual, slope, abs(sweep.expected))

    def along(self, move: Move, alpha: float) -> Trial:
        """The trial a fraction alpha along a step."""
        b, U, primal = self.bounds, np.empty_like(self.U), np.empty((3, self.rows.size))
        passes.advance(alpha, move.x, move.u, move.rows, b.state, b.kind, self.first, self.U, self._dX, U, primal)
        if self.boxed:
            move_within(U, self.problem.lower, self.problem.upper)
        try:
            X, gaps = self._strayed(self.X, self._dX, U)
        except ModelError:  # there is no motion
            X, gaps = self.X, np.full_like(self.gaps, np.inf)
        return self._weighed(X, U, primal, gaps)

    def rolled(self, sweep: Sweep, move: Move, alpha: float) -> Iterator[Trial]:
        """Trials alpha, alpha / 2, ... along a step whose states follow from controls, under the policy of its sweep.

        Where motion curves a lot gaps of linear steps are large; these leave but the rest 1 - alpha of each gap. Slacks
        go as far as along the step, whatever constraints do. Controls stay off limits with barriers, as steps do.
        """
        b, share, still = self.bounds, 0.0 if self.boxed else 1.0 - KEPT, np.zeros_like(self.U)
        low, high = (
            np.where(np.isfinite(limit), limit + share * (self.U - limit), limit)
            for limit in (self.problem.lower, self.problem.upper)
        )
        while True:
            alphas = alpha * HALVES
            tracked = self.dynamics.track(self.X, self.U, sweep.k, sweep.K, alphas, self.gaps, low, high)
            for alpha, X, U in zip(alphas, *map(np.ascontiguousarray, tracked), strict=True):
                primal = np.empty((3, self.rows.size))
                args = move.rows, b.state, b.kind, self.first, U, self._dX, np.empty_like(U), primal
                passes.advance(alpha, move.x, still, *args)
                yield self._weighed(X, U, primal, (1.0 - alpha) * self.gaps)
            alpha *= 0.5

    def accept(self, trial: Trial, move: Move, alpha: float) -> None:
        """Go where a trial is; multipliers go as far along the step."""
        self._take(trial)
        self._contracted, b = False, self.bounds
        passes.follow(
            b.state, b.bounds, b.kind, b.give, self.barrier, move.rows, alpha, move.longest_dual, self.costate,
            move.costate, self.weights, move.weights,
        )  # fmt: skip

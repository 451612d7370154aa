"""The iterate of the full-space step: a trajectory with open gaps, slacks, all multipliers, and what is known of it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp.constraints.impossible import Held
from ddp.interior import passes, passes_of_rows, trials
from ddp.interior.barrier import Barrier
from ddp.interior.layout import workplace
from ddp.interior.passes import NO_WAY, Judged, Way
from ddp.interior.row_steps import BELOW
from ddp.interior.scaling import factors_of, ones
from ddp.machine.declared import each
from ddp.machine.written import assign, read_one
from ddp.parallel.differentiator import Differentiator
from ddp.problem import Problem
from ddp.protocols import Array

AT_LIMIT = 1e-4
"""Controls nearer to a limit have a multiplier in a warm start, relative to the range, or 1, or the limit."""

INSIDE, NEAR_BOUNDS = 0.1, 1e-5
"""Distance of first slacks and controls from their bounds, see `Barrier.inside`, and the least one of warm starts."""

TINY = 1e-300


class Number:
    """A number of a point, in the memory of its kernels."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, point: Any, owner: type) -> Any:
        return read_one(point.memory, self._name)

    def __set__(self, point: Any, value: float) -> None:
        assign(point.memory, {self._name: value})


class Point:
    """A trajectory X, U of a problem, with multipliers; rows (M,) are constraints (m,), then control limits (N nu).

    All of it is in the memory of a workplace, see layout.py, where kernels find it.
    gaps (N, n), residual (M,): what is open.   cost, theta, gap, missed: as of a `Worth`.   penalty: the barrier
    function.   costate (N+1, n), weights (N, n): see linear.py.   scale: the cost that counts as one.
    barrier: that of `bounds`.   share: see `barrier.PROXIMAL`.
    moved (M,): by how much the last step x, u changes the rows, by their linear model; longest_dual: fraction of it
    until a multiplier of a bound is at zero all but.
    first: m, the first row of a control's limits.   limited: whether there are such rows; boxed: whether sweeps keep to
    these limits instead, see `sweeps.limits`: where they are ``held``, as where there are no constraints.
    units (nz,): of states and controls, see scaling.py, by default one.
    factors (m,): of constraints, by default those of scaling.py at X, U. All numbers of rows are those of rows that are
    multiplied by them, but for `multipliers`.   free (m,): rows that are left out, see implied.py, by default none.
    """

    cost, penalty, theta, gap, missed, scale, barrier, share, longest_dual, contracted = each(10, Number)

    def __init__(
        self, problem: Problem, work: Differentiator, X: Array, U: Array, scale: float, barrier: float,
        share: float = INSIDE, held: bool = False, units: Array | None = None, factors: Array | None = None,
        free: NDArray[np.bool_] | None = None,
    ) -> None:  # fmt: skip
        self.problem, self._work = problem, work
        self.boxed = problem.limited and (held or not problem.constrained)
        self.limited, self.first = problem.limited and not self.boxed, problem.multiplier_count
        self.rows = problem.limited_rows if self.limited else problem.rows
        self.units = ones(problem) if units is None else units
        self.factors = factors_of(problem, X, U, self.units) if factors is None else factors
        self.free = np.zeros(self.first, dtype=bool) if free is None else free
        self.place = place = workplace(problem, self.rows, work, self.boxed, self.factors, self.units, self.free)
        self.memory, self.backward, self._address, own = place.memory, place.backward, place.memory.address, place.own
        self.X, self.U, self.gaps, self.residual = own["X"], own["U"], own["opened"], own["residual"]
        self.costate, self.weights, self.moved = own["costate"], own["weights"], own["moved"]
        self.x, self.u = own["x"], own["u"]
        assign(self.memory, {"scale": scale, "barrier": barrier})
        self.start(X, U, share)

    @property
    def bounds(self) -> Barrier:
        """Slacks, multipliers and barriers of the rows."""
        return self.place.serving

    @bounds.setter
    def bounds(self, bounds: Barrier) -> None:
        self.place.serving.share = self.share  # as iterations have left it
        self.place.serve(bounds)

    @property
    def held_by(self) -> Held:
        """Constraints and what holds them here, after `differentiate`."""
        d = self._work.derivatives
        return Held(self.problem, d, self.X, self.U, self.gaps, self.multipliers, self.factors)

    @property
    def multipliers(self) -> Array:
        """Multipliers (m,) of constraints as they are given."""
        return self.factors * self.bounds.multipliers[: self.first]

    @property
    def violation(self) -> tuple[float, float]:
        """Excess over bounds of elastic rows that would not have to give way: see `row_steps.violation`."""
        most, total = passes_of_rows.violation(self._address) if self.bounds.size else (0.0, 0.0)
        return float(most), float(total)

    @property
    def judged(self) -> Judged:
        """The errors of the point."""
        return Judged(*self.place.own["errors"].tolist())

    def values(self) -> Array:
        """Values (M,) of the rows, of which the next trial makes others."""
        self.do(trials.values_at)
        return self.place.own["values"]

    def start(self, X: Array, U: Array, share: float | Array) -> None:
        """Begin at a trajectory, its controls and slacks pushed off their bounds, see `Barrier.inside`."""
        own, bounds = self.place.own, self.bounds
        values = own["factors"] * self.rows.values(X, U)
        inside = bounds.inside(values, share)
        if self.limited:
            U = (inside / own["factors"])[self.first :].reshape(U.shape)
        elif self.boxed:
            U = np.clip(U, self.problem.lower, self.problem.upper)
        bounds.start(inside, values, self.barrier)
        self.X[:], own["tried_U"][:], own["tried_primal"][:] = X, U, bounds.state[:BELOW]
        self.do(trials.begin)

    def warm(self, multipliers: Array, K: Array) -> None:
        """Take `multipliers` (m,); those of dynamics and limits follow, under gains K (N, nu, n)."""
        bounds, y, values = self.bounds, np.zeros(self.rows.size), self.values()
        y[: self.first] = multipliers / self.factors
        bounds.start_warm(y, values, self.barrier)
        self.differentiate()
        self.do(trials.measure)
        self.adjoint(K)
        if self.limited:
            self.do(passes.find_limit_forces)
            forces = -self.place.own["error"][:-1, self.problem.dynamics.n :]
            own = forces.ravel() / self.place.own["factors"][self.first :]
            y[self.first :] = own * np.abs(bounds.near(AT_LIMIT)[self.first :])
            bounds.start(bounds.slacks, values, self.barrier)
            bounds.start_warm(y, values, self.barrier)

    def held(self) -> "Point":
        """A point like this, after `contract`, whose sweeps keep to the limits of controls, without rows of these."""
        p, work = self.problem, self._work
        other = Point(p, work, self.X, self.U, self.scale, self.barrier, INSIDE, True, *self._measures)
        other.bounds.state[:], other.share = self.bounds.state[:, : self.first], self.share
        other.costate[:], other.weights[:] = self.costate, self.weights
        other.settle()
        other.arrive()
        return other

    @property
    def _measures(self) -> tuple[Array, Array, NDArray[np.bool_]]:
        """Units, factors and free rows of another point."""
        return self.units.copy(), self.factors.copy(), self.free

    def off_limits(self, relative: float) -> "Point":
        """A point with these states, controls off their limits, which are rows again, see `held`, and no multipliers.

        relative: its barrier, in units of the scale.
        """
        X, U, barrier = self.X.copy(), self.U.copy(), relative * self.scale
        return Point(self.problem, self._work, X, U, self.scale, barrier, INSIDE, False, *self._measures)

    def let_go(self, price: float) -> None:
        """Let constraints give way at a price, from slacks off their bounds, see barrier.py."""
        self.start(self.X, self.U, INSIDE)
        self.bounds.start_elastic(price, np.arange(self.rows.size) < self.first, self.values(), self.barrier)
        self._bound_anew()

    def take_hold(self) -> None:
        """Let constraints give way no longer, after `let_go`."""
        self.bounds.end_elastic()
        self._bound_anew()

    def raise_price(self, factor: float) -> None:
        """Make violations dearer by a factor, with all multipliers: costs weigh so much less."""
        self.costate *= factor
        self.weights *= factor
        self.bounds.raise_price(factor)
        self.contracted = 0
        self._bound_anew()

    def _bound_anew(self) -> None:
        """Go on with bounds that have changed."""
        self.bounds = self.bounds
        self.settle()

    def settle(self) -> None:
        """Find what the point misses of rows that are bounded otherwise now."""
        self.do(trials.settle)

    def resume(self, y: Array, relative: float) -> None:
        """Go on from here with multipliers y (M,) of the rows, and a barrier relative to the scale.

        Slacks are as far from bounds as the barrier holds them there, within limits.
        """
        self.barrier = relative * self.scale
        self.start(self.X, self.U, np.clip(self.barrier / np.maximum(np.abs(y), TINY), NEAR_BOUNDS, INSIDE))
        self.bounds.start_warm(y, self.values(), self.barrier)
        self.contracted = 0

    def differentiate(self) -> None:
        """Derivatives here."""
        self.do(passes.differentiate)

    def contract(self) -> None:
        """Contract the second order of the dynamics with the multipliers, unless that is known."""
        self.do(passes.contract)

    def arrive(self) -> Judged:
        """Derivatives here, contracted with the multipliers; the errors of the point."""
        self.do(passes.arrive)
        return self.judged

    def judge(self) -> Judged:
        """Errors of the point, where sweeps keep to limits of controls without what those hold."""
        self.do(passes.judge)
        return self.judged

    def adjoint(self, K: Array | None = None) -> None:
        """Multipliers of the dynamics := the costates of the point, or with gains K (N, nu, n), those under them."""
        if K is not None:
            self.backward.policy[1][:] = K
        self.do(passes.adjoint, K is not None)

    def propose(self, blend: float, mu: float, again: bool) -> Way:
        """A sweep, after `judge`, and its step; again: after another sweep at this point."""
        if not again:
            self.do(passes.condense)
        failed = self.do(passes.sweep, blend, mu, False)
        return self.do(passes.stride) if failed < 0 else NO_WAY

    def do(self, kernel: Any, *args: Any) -> Any:
        """Run a kernel on the point."""
        found = kernel(self._address, *args)
        if self.place.in_python is not None:
            self.place.in_python.raise_again()
        return found

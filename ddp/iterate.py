"""The current trajectory: its derivatives, sweeps over them, line searches along their policies."""

from contextlib import suppress

import numpy as np

from ddp.compiling.portable import portable
from ddp.compiling.setup import Stopwatch
from ddp.constraints.bounds import measure_room, touches
from ddp.costs import faults
from ddp.costs.cost_table import NO_NOTES, sum_of
from ddp.costs.hessians import scales
from ddp.derivatives import EXACT, FIRST, GAUSS_NEWTON, RECORDS, broken_rows, lacking
from ddp.errors import DDPError, UndefinedCostError
from ddp.foreign_units import measured, shifted, steepest
from ddp.guesses import Guess
from ddp.models.globalisation import NO_SWEEP, shift, swept
from ddp.parallel.differentiator import Differentiator
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.search import Backtracking, Line, Search, Step
from ddp.solutions.solution import Solution
from ddp.solutions.status import Record, Status
from ddp.starts import begun
from ddp.sweeps.backward import Backward
from ddp.sweeps.inertia import UNKNOWN
from ddp.sweeps.outcome import KEPT, VALUE, Sweep
from ddp.systems.system import ability

GONE = 1e6
"""Size of a state from which on a motion has diverged before, so that there is nothing to say about its last step."""

WEAKEST = 1e-2
"""The largest mu of a last sweep, relative to the control costs."""


class Iterate:
    """The current trajectory and its derivatives, each of them computed once, when first asked for.

    known: which of them have been computed, see `derivatives.FIRST`.
    limited: whether sweeps know of the limits of controls, see `limit`.
    separable, coupled (N+1,): see `Objective`.   curved: whether Gauss-Newton leaves anything out of costs' Hessians.
    gaps (N, n): f(X_k, U_k) ⊖ X_{k+1}, zeros once they are closed.   gap: the largest component of any.
    resolution: the spacing of floating-point numbers at the total cost, once it is differentiated: no smaller decrease
        can be represented.
    given: whether states are the guess's own.   bound: the cost of ``motion``, above which `recall` goes back to it:
        of the one that follows from the guess where states are imposed, or see `return_above`; infinite where there is
        none, or constraints count.
    start: which states it began with, in words.   guess: what it began with, until something else is known.
    obstacle: why the guess has no finite cost, in words, or None.   timed: whether an earlier motion is kept in time.
    units (nz,): of states and controls, in which steps are measured if ``foreign``; else one.
    multipliers (m,): of constraints, where a method finds them that needs no Lagrangian as a cost.
    line: where searches go along policies, and what they met.   swept: the sweep of the last search.
    magnitude: the sum of all knots' |cost|, where they were last differentiated, here or at the iterate before.
    control_weight: the mean size of the diagonals of l_uu there; where controls cost nothing, of l_xx; above zero in
        any case.   damping: what mu is relative to, see `ddp.costs.hessians.damping`. All are NaN until derivatives are
        first known.
    noise: the part of the total cost that rounding may hide: a step that brings less cannot be judged.
    grain: the cost of states and controls that are off by what rounding leaves of them, along a random walk over the
        horizon: what may seem to be gained at the optimum itself where that costs nothing.
    settled: iterations in a row that could not be told from rounding.
    unit: the cost that counts as one: Σ|l| of all knots, without what is the same along any motion. So it is no more
        than what controls cost, ½ Σ l_uu u², and what the cost fell by: constants added to costs change nothing, and
        costs that are all multiplied by a number take the same way.
    """

    def __init__(
        self, problem: Problem, work: Differentiator, guess: Guess, multipliers: str = VALUE, reuse: int = 0,
        segments: int = 1, search: Search | None = None,
    ) -> None:  # fmt: skip
        self.problem, self.work, self.line = problem, work, Line(problem)
        self.multipliers: Array | None = None
        self.guess: Guess | None = guess
        self.given, self.timed = guess.imposed, guess.earlier is not None
        self._search = Backtracking() if search is None else search
        self.swept: Sweep | None = None
        self.separable, self.coupled, self.limited = problem.separable, problem.objective.coupled, False
        units = None if problem.objective.lagrangian is None else problem.objective.lagrangian.units
        self.units = np.ones(problem.dynamics.n + problem.dynamics.nu) if units is None else units
        self.foreign = units is not None
        self._backward: Backward | None = None
        self._sweeps = multipliers, reuse, segments
        self.curved, self.constrained = problem.curved, problem.constrained
        self.magnitude = self.control_weight = self.damping = self.unit = float("nan")
        self.resolution = self.noise = self.grain = float("nan")
        self.highest, self.settled = -np.inf, 0
        self.X, self.U, self.gaps, notes, self.start, self.motion, noted = begun(problem, guess)
        self.gap, self.bound = float(np.abs(self.gaps).max()), np.inf
        self.evaluate(notes)
        if self.motion is not None and not self.constrained:
            with suppress(DDPError):  # of a term that is not defined there
                cost = problem.total(*self.motion, noted)
                self.bound = cost if np.isfinite(cost) else np.inf
        if problem.limited and touches(self.U, problem.lower, problem.upper):
            self.limit()

    def publish(self) -> None:
        """Take the multipliers and penalties of the problem's Lagrangian, here and wherever derivatives are made."""
        self.work.derivatives.dual[:] = self.problem.lagrangian.state
        self.evaluate()

    def evaluate(self, notes: Array = NO_NOTES) -> None:
        """Judge the trajectory anew: its cost, with its rollout's notes if known, and derivatives when asked for."""
        self.cost, self.obstacle, self.known = np.inf, None, 0
        if self._backward is not None:
            self._backward.moved()
        if not np.isfinite(self.X).all():
            self.obstacle = f"the guess diverges: {self.divergence(self.X, self.U)}"
        elif not self.gap < np.inf:
            knot = int(np.argmax(broken_rows(self.gaps)))
            undefined = ability(self.problem.dynamics, "undefined")
            why = "" if undefined is None else f" ({undefined(self.X[knot], knot)})"
            self.obstacle = f"the guess cannot be stepped from: the next state is not finite at knot {knot}{why}"
        elif not np.isfinite(cost := self._price(notes)):
            self.known = 0
            fault = faults.fault(self.problem.objective, self.X, self.U, 0) or "the total cost is not finite"
            if not np.isinf(self.problem.values(self.X, self.U)).any():
                raise UndefinedCostError(fault)
            self.obstacle = f"the guess has no finite cost: {fault}"
        else:
            self.cost = self.highest = cost
            if self.known:
                self._scale()

    def _price(self, notes: Array) -> float:
        """The total cost, with its rollout's notes; where terms read such and there are none, from first derivatives.

        The first sweep asks for these; but multipliers change between sweeps, and users' own derivatives may fail.
        """
        objective = self.problem.objective
        if len(notes) or not objective.noted or objective.interpreted or objective.lagrangian is not None:
            return self.problem.total(self.X, self.U, notes)
        made, self.known = lacking(0, FIRST | GAUSS_NEWTON, self.curved)
        self.work.make(self.X, self.U, made)
        return float(sum_of(self.work.derivatives.l))

    def place(self, X: Array, U: Array, gaps: Array) -> None:
        """Be at another trajectory, with its gaps; what is known of the last one is still there."""
        self.X, self.U = X, U
        if gaps is not self.gaps:
            self.gaps, self.gap = gaps, float(np.abs(gaps).max())
        if self._backward is not None:
            self._show(self._backward)

    @property
    def found(self) -> Backward | None:
        """The sweeps, if there are any yet."""
        return self._backward

    @property
    def backward(self) -> Backward:
        """The sweeps, made or taken over when they are first asked for: full-space steps have their own."""
        if self._backward is None:
            kept, name, problem = self.work.kept, (*self._sweeps, self.limited), self.problem
            found = kept.get(name)
            if found is None or not found.turned(problem.dynamics, problem.structure):
                found = kept[name] = self._made()
            self.adopt(found)
        assert self._backward is not None
        return self._backward

    def _made(self) -> Backward:
        (multipliers, reuse, segments), problem, work = self._sweeps, self.problem, self.work
        return Backward(
            work.derivatives, problem.dynamics, multipliers, reuse, self.limited, work.contraction, segments,
            problem.structure,
        )  # fmt: skip

    def adopt(self, backward: Backward) -> None:
        """Take sweeps that an earlier solve has left, as if they were new; those of this one go on."""
        if self._backward is backward:
            return
        self._backward = backward
        backward.coupled = self.coupled
        backward.begin()
        self._show(backward)

    def _show(self, backward: Backward) -> None:
        """Show sweeps the trajectory's gaps, and how far its controls are from their limits."""
        if backward.gaps is not self.gaps:
            backward.gaps = self.gaps
        if self.limited:
            measure_room(self.U, self.problem.lower, self.problem.upper, *backward.limits)

    @property
    def trajectory(self) -> tuple[Array, Array, Array]:
        """X, U and a copy of the gaps, for `arrive` to go back there."""
        return self.X, self.U, self.gaps.copy()

    def arrive(self, X: Array, U: Array, gaps: Array) -> None:
        """Move to another trajectory, with its gaps."""
        self.place(X, U, gaps)
        if self._backward is not None:
            self._backward.led_away()
        if self.problem.limited and touches(U, self.problem.lower, self.problem.upper):
            self.limit()
        if not gaps.any():
            self.gap = 0.0
        self.evaluate()

    def return_above(self, cost: float, X: Array, U: Array) -> None:
        """Let `recall` go back to a motion from before gaps were opened, as soon as rollouts lead to more than that."""
        self.motion, self.bound, self.given = (X.copy(), U.copy()), cost, False

    def recall(self) -> bool:
        """Go back to the motion that was known before gaps were open, where these have led to a higher cost.

        States that are given may cost more on the way to a lower cost, as long as gaps are open.
        """
        motion, worse = self.motion, self.cost > self.bound
        self.motion, self.bound = None, np.inf
        if worse and motion is not None:
            self.arrive(*motion, np.zeros_like(self.gaps))
        return worse

    def violated(self) -> tuple[float, float]:
        """The largest violation of a constraint, and the largest penalty, if any; for problems with constraints."""
        plain = self.problem.objective.lagrangian is None
        penalty = 0.0 if plain else float(self.problem.lagrangian.penalties.max())
        return self.problem.rows.worst(self.X, self.U), penalty

    def sweep(self, blend: float, mu: float, costates: bool = False) -> Sweep:
        """A backward sweep, after the derivatives that it needs; see `Backward` for ``costates``."""
        wanted, backward = FIRST if blend == 1.0 else FIRST | GAUSS_NEWTON, self._backward or self.backward
        if blend > 0.0:
            wanted |= EXACT | RECORDS if backward.reads_records(costates) else EXACT
        if wanted & ~self.known:
            self.know(wanted)
        if self.foreign and mu > 0.0:
            with shifted(self.work.derivatives, mu, self.units):
                sweep = backward(blend, 0.0, costates)
        else:
            sweep = backward(blend, mu, costates)
        if sweep.failed >= 0 and sweep.contraction == KEPT:  # what is kept may be too old
            backward.forget()
            return self.sweep(blend, mu, costates)
        return sweep

    def steepest(self, sweep: Sweep) -> float:
        """The largest slope of the cost along a control, in units of these."""
        if not self.foreign:
            return sweep.gradient
        return steepest(self.work.derivatives, self.units, self.backward.limits if self.limited else None)

    def know(self, wanted: int) -> None:
        """Compute what is not known yet, of `derivatives.FIRST` and the others."""
        made, known = lacking(self.known, wanted, self.curved)
        if made:
            self.work.make(self.X, self.U, made)
        fresh, self.known = not self.known, known
        if fresh:
            self._scale()

    def weigh(self) -> None:
        """Differentiate the first trajectory, if nothing has been yet: no `control_weight` is known before."""
        if not self.control_weight > 0.0:
            self.know(FIRST | GAUSS_NEWTON)

    def _scale(self) -> None:
        """Find what later judgements are relative to; by the exact Hessians where there are no others yet."""
        d = self.work.derivatives
        H = d.lzz if self.known & GAUSS_NEWTON else d.exact
        separable, diagonal, A, B, X, U = self.separable, d.diagonal, d.A, d.B, self.X, self.U
        if self.foreign:
            n, (diagonal, A, B), separable = A.shape[1], measured(d, separable, H, self.units), np.ones_like(separable)
            X, U = X / self.units[:n] if X.shape[1] == n else X, U / self.units[n:]
        flags = separable.astype(np.int64)  # as compiled iterations have them
        found = scales(d.l, flags, H, diagonal, A, B, X, U, self.cost, self.highest)
        self.magnitude, self.control_weight, self.damping, self.unit, self.resolution, self.noise, self.grain = found

    def search(self, sweep: Sweep, longest: float) -> Step:
        """Search along the sweep's policy: see `ddp.search`."""
        line, self.swept = self.line, sweep
        line.X, line.U, line.gaps, line.k, line.K = self.X, self.U, self.gaps, sweep.k, sweep.K
        line.torn, line.cost, line.slope, line.expected = self.gap > 0.0, self.cost, sweep.d0, sweep.expected
        line.resolution, line.unit, line.unpriced = self.resolution, self.unit, None
        return self._search(line, longest)

    def accept(self, step: Step) -> None:
        """Move to where a line search arrived."""
        if step.alpha > 0.0:
            if self.gap or self.limited:
                self.place(step.X, step.U, (1.0 - step.alpha) * self.gaps if self.gap else self.gaps)
            else:
                self.X, self.U = step.X, step.U
            self.cost = step.cost
            self.highest = max(self.highest, step.cost)
            self.known = 0
            if self._backward is not None and self._backward.age is not None:
                self._backward.moved()
        free = self.problem.limited and not self.limited
        if free and (step.alpha == 0.0 or touches(self.U, self.problem.lower, self.problem.upper)):
            self.limit()

    def limit(self) -> bool:
        """Sweep within the limits of controls from now on: whether there are any that sweeps did not know of.

        They cost nothing until a control is at one, or no step is found without.
        """
        if self.limited or not self.problem.limited:
            return False
        self.limited = True
        self._backward = None
        return True

    def final_sweep(self, exact: bool) -> tuple[Sweep | None, bool]:
        """An unregularised sweep, and whether its Hessians are exact; Gauss-Newton's where those fail.

        With as little mu as it takes where those fail, too, as they do to rounding where controls cost next to nothing.
        """
        if not np.isfinite(self.cost):
            return None, False
        self.backward.forget()
        sweep, was_exact = swept_last(self, exact)
        return (sweep if sweep.failed < 0 else None), was_exact

    def concavity(self) -> str:
        """Least eigenvalue of the controls' Hessian without regularisation, and its knot, in words; "" if positive."""
        sweep = self.sweep(1.0 if self.known & EXACT else 0.0, 0.0)
        if sweep.failed < 0 or not np.isfinite(self.backward.curvature()[0]):
            return ""
        smallest, control = self.backward.curvature()
        where = f"at knot {sweep.failed}, along control {control}"
        said = f"; without it, its smallest eigenvalue is {smallest:.2g} {where}"
        term = faults.most_concave(self.problem.objective, self.X, self.U, sweep.failed)
        return said + (f"; {term} has negative curvature there" if term else "")

    def fault(self) -> str | None:
        """A derivative that is not finite, and its knot, in words; None if all are."""
        d = self.work.derivatives
        named = [("derivative", d.A), ("derivative", d.B)]
        if self.known & RECORDS:
            named.append(("second derivative", d.record))
        for what, array in named:
            if (bad := broken_rows(array)).any():
                return f"the dynamics' {what} is not finite at knot {int(np.argmax(bad))}"
        return self.fault_of_term()

    def fault_of_term(self) -> str | None:
        """A cost term that is not finite, or has a derivative that is not, and its knot; None if all are."""
        return faults.fault(self.problem.objective, self.X, self.U, self.known)

    def divergence(self, X: Array, U: Array) -> str:
        """Knot where a rollout that is not finite ends, and what the dynamics say about it."""
        knot, dynamics, said = int(np.argmax(broken_rows(X))), self.problem.dynamics, ""
        x, undefined = X[knot - 1], ability(dynamics, "undefined")
        try:
            end = dynamics.step(x, U[knot - 1], knot - 1)
            if undefined is not None and not np.isfinite(end).all() and np.abs(x).max() < GONE:
                said = f" ({undefined(x, knot - 1)})"
        except DDPError as failure:
            said = f" ({failure})"
        return f"the state at knot {knot} is not finite, the dynamics diverged there{said}"

    def solution(
        self, status: Status, history: tuple[Record, ...], start: Stopwatch, sweep: Sweep | None, kind: str = UNKNOWN
    ) -> Solution:
        """The outcome; k and K are zeros where no sweep succeeded."""
        problem, multipliers = self.problem, self.multipliers
        N, d, held = problem.horizon, problem.dynamics, multipliers is not None
        placed = () if problem.objective.lagrangian is not None else problem.placed  # a relaxation's come later
        if multipliers is None:
            multipliers = np.zeros(problem.multiplier_count if placed else 0)
        return Solution(
            X=self.X,
            U=self.U,
            k=np.zeros((N, d.nu)) if sweep is None else sweep.k.copy(),
            K=np.zeros((N, d.nu, d.n)) if sweep is None else sweep.K.copy(),
            cost=self.cost + problem.paid(self.X, self.U) if held else self.cost,
            gradient=float("nan") if sweep is None else sweep.gradient,
            converged=status.ending.converged,
            status=status,
            iterations=len(history),
            seconds=start.seconds,
            setup_seconds=start.setup_seconds,
            history=history,
            problem=problem,
            workers=self.work.description,
            start=self.start,
            kind=kind,
            multipliers=multipliers,
            penalties=np.zeros(len(placed)),
            violation=problem.violation(self.X, self.U) if held else np.inf if placed else 0.0,
        )


@portable
def swept_last(iterate, exact):  # type: ignore[no-untyped-def]
    """An unregularised sweep, or one that failed, and whether its Hessians are exact: see `Iterate.final_sweep`."""
    if exact:
        found = swept(iterate, 1.0, 0.0, False)
        if found.failed < 0:
            return found, True
    mu = 0.0
    while mu <= WEAKEST * iterate.damping:
        found = swept(iterate, 0.0, mu, False)
        if found.failed < 0 and np.isfinite(found.gradient):
            return found, False
        mu = max(10.0 * mu, shift(iterate))
    return NO_SWEEP, False

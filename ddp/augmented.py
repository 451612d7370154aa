"""The method of multipliers: rounds of descents for problems with constraints.

    repeat  minimise the augmented Lagrangian until its quadratic model expects a decrease of less than ω
            e = violation and lack of complementarity (`Lagrangian.shifts`)
            λ = ρ e                                         (the new estimate of the multipliers)
            where e has not fallen to a quarter: ρ = 10 ρ   (of that constraint alone)
            ω = ω / 10, down to the solver's tolerance

as in ALGENCAN (Birgin & Martinez 2014, algorithm 4.1). With this λ the gradient of the Lagrangian is the one that the
inner loop made small, so that close to the end one or two inner iterations suffice each time. Second derivatives of
constraints are in the exact Hessians: the inner loop stays of second order.

With multipliers of an earlier solution ω is the solver's tolerance at once. Rounds that end after one iteration, far
from their minimum, say nothing about penalties: these would grow from one solve of a receding horizon to the next.

Where states or controls are in foreign units, steps, slopes and rows are measured in units that follow from the
problem, see scaling.py and foreign_units.py: so the way is the same in any of these. At a minimum, gains are found with
what binds held, see `with_gains`.

A first, coarse round knows of no constraints: penalties are chosen from where it ends. If penalties grow and a
violation does not fall, violations are minimised alone, and their saddles left. Where they end at a minimum constraints
cannot be met near there; where they end anywhere else, this is not known. The status says which of both, and which
constraint is violated most, where, and by how much.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ddp.constraints.impossible import Held, proof
from ddp.constraints.lagrangian import Lagrangian, Residual, state_size
from ddp.errors import DDPError, ProblemError, as_array, positive, positive_integer, settle_by, suggesting
from ddp.guesses import Guess, as_multipliers
from ddp.interior.scaling import factors_of, measures, ones, units_of
from ddp.interior.solve import effort_of, with_gains
from ddp.iterate import Iterate
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.saddles import away, judged
from ddp.solutions.solution import Solution
from ddp.solutions.status import End, Ending, infeasible
from ddp.starts import WORSE, begun, start_policy

if TYPE_CHECKING:
    from ddp.descent import Descent

COARSE = 1e-2
"""The first tolerance, relative to the cost."""

ENOUGH, GROWTH = 0.25, 10.0
"""A round has done enough for a constraint if its e falls to this fraction; if not, its penalty grows."""

START = 50
"""Iterations that the first round, without constraints, has at most: it need not have a minimum."""

NEGLIGIBLE, FIRST_PENALTIES = 1e-12, (1e-6, 1e6)

STUCK = 3
"""After so many growths in a row that did not halve a violation, violations alone are minimised."""

MOST_LEFT = 5
"""Saddles of violations that are left along negative curvature, at most."""

RESTORED, RESTORING = 1e-6, 200
"""Size of the cost beside violations then, how close to their minimum is enough, and iterations at most."""

CUT = Ending.ITERATIONS, Ending.WORKER
"""Endings that only cut a solve off: another one goes on with its multipliers and penalties."""

LARGEST_MULTIPLIER = 1e12
"""Multipliers beyond this are no longer followed: penalties alone then drive the violation down."""


class ConstraintMethod(Protocol):
    """Way of holding constraints; a field of `DDP`. Problems without any are only handed through."""

    def relaxed(self, problem: Problem, guess: Any) -> Problem:
        """The problem without constraints that descents are of; ``guess`` may be a `Solution` with multipliers."""

    def minimise(self, descent: "Descent", again: bool) -> End:
        """Descend by ``descent.run``, as often as it takes; ``again``: after a saddle was left."""

    def certified(self, solution: Solution) -> Solution:
        """The solution of the problem with constraints, from the one of its last relaxation."""


@suggesting
@dataclass(frozen=True)
class AugmentedLagrangian:
    """Way of holding constraints; a field of `DDP`, without effect on problems that have none.

    tolerance: convergence needs no violation larger than this, in the constraints' units, and no multiplier further
        than this from the bound that it belongs to.
    stationarity: ... and no larger entry in the gradient of the Lagrangian in the controls, relative to Σ|l|, what all
        knots cost.
    penalty: twice what a unit of violation, squared, costs at first, in units of the cost; None: found by a first
        round without constraints.
    max_penalty: beyond this times Σ|l| at first penalties do not grow.
    rounds: how often the multipliers are updated at most.
    """

    tolerance: float = 1e-8
    stationarity: float = 1e-6
    penalty: float | None = None
    max_penalty: float = 1e10
    rounds: int = 60

    def __post_init__(self) -> None:
        settle_by(self, positive, "tolerance", "stationarity", "max_penalty", of="constraints.")
        settle_by(self, positive_integer, "rounds", of="constraints.")
        if self.penalty is not None:
            settle_by(self, positive, "penalty", of="constraints.")
            if self.penalty > self.max_penalty:
                raise ProblemError(
                    f"constraints.penalty: expected at most max_penalty = {self.max_penalty:g}, got {self.penalty:g}"
                )

    def relaxed(self, problem: Problem, guess: Any) -> Problem:
        """The problem with the augmented Lagrangian for its cost; itself if it has no constraints.

        Multipliers and penalties are those of the guess if that is a `Solution` of a problem with the same constraints.
        """
        placed = problem.placed
        if not placed:
            return problem
        if problem.limited:
            _ = problem.limited_rows  # copies share them, and with these the memory of steps that find gains
        warm = isinstance(guess, Solution) and guess.multipliers.size > 0 and bool((guess.penalties > 0.0).all())
        with np.errstate(all="ignore"):
            units, factors = scales(problem, start_policy(problem, guess))
        lagrangian = Lagrangian(problem.rows, np.ones(state_size(placed)), warm, factors, units)
        lagrangian.multipliers[:] = 0.0
        if isinstance(guess, Solution) and warm:
            lagrangian.multipliers[:] = as_multipliers(guess.multipliers, lagrangian.multipliers.size)
            lagrangian.penalties[:] = as_array("guess.penalties", guess.penalties, (len(placed),))
        return problem.augmented(lagrangian)

    def minimise(self, descent: "Descent", again: bool) -> End:
        """Descend in rounds; ``again``: with the multipliers and penalties of earlier ones."""
        iterate, solver, history = descent.iterate, descent.solver, descent.history

        def inner(tolerance: float, limit: int = solver.max_iterations) -> End:
            if rounds.changed:
                descent.model.restart()
                rounds.changed = False
            return descent.run(tolerance, min(limit, solver.max_iterations))

        rounds = _Rounds(iterate, self, again)
        if rounds.cold:
            most, begun, (before, _) = len(history) + START, iterate.trajectory, iterate.violated()
            while len(history) < most:
                cost = iterate.cost
                inner(COARSE, most)
                if iterate.cost >= cost - 0.5 * abs(cost):
                    break
            if iterate.problem.rows.equal.any() and iterate.violated()[0] > WORSE * before:
                iterate.arrive(*begun)
            if descent.model.failed is not None:  # its mu is too large for any sweep, also where constraints count
                descent.forget()
            rounds.balance()
        near = iterate.problem.lagrangian.warm or (rounds.cold and not rounds.changed)
        tolerance = solver.tolerance if near else np.inf
        for _ in range(self.rounds):
            if tolerance > solver.tolerance:
                tolerance = min(0.1 * tolerance, COARSE)
                tolerance = solver.tolerance if rounds.settled else max(solver.tolerance, tolerance)
                descent.limits.tolerance = tolerance  # what the model compares its rate with
            end = inner(tolerance)
            if not (end.ending.converged or end.ending is Ending.STATIONARY):
                return End(end.ending, f"{end.said}; {rounds.worst()}")
            rounds.measure()
            if rounds.settled and tolerance <= solver.tolerance:
                sweep, _ = iterate.final_sweep(descent.model.exact)
                steady = sweep is None or iterate.steepest(sweep) <= self.stationarity * rounds.plain_cost()
                if steady or tolerance < 1e-8 * solver.tolerance:
                    return end
                tolerance *= COARSE
            if rounds.stuck:
                rounds.weigh_violations()
                inner(RESTORED, len(history) + RESTORING)
                for _ in range(MOST_LEFT):
                    sweep, _, found = judged(iterate, True)
                    way = away(iterate, found, sweep) if found.policies else None
                    if way is None or len(history) >= solver.max_iterations:
                        break
                    iterate.accept(way[0])
                    descent.go_on(way[1])
                    descent.model.restart()
                    inner(RESTORED, len(history) + RESTORING)
                if (verdict := rounds.verdict()) is not None:
                    return verdict
                tolerance = np.inf
            else:
                rounds.update()
        limit = f"the limit of {self.rounds} updates of the multipliers was reached"
        return End(Ending.ROUNDS, f"{limit}; {rounds.worst()}")

    def certified(self, solution: Solution) -> Solution:
        """The solution of the problem with constraints; as it is without any."""
        relaxation = solution.problem
        if relaxation is None or relaxation.objective.lagrangian is None:
            return solution
        problem, lagrangian = relaxation.plain, relaxation.lagrangian
        finite = np.isfinite(solution.X).all() and solution.status.ending is not Ending.NO_START
        multipliers, cost = lagrangian.multipliers, solution.cost
        if finite:
            multipliers, _ = lagrangian.shifts(solution.X, problem.padded(solution.U))
            cost = problem.total(solution.X, solution.U) + problem.paid(solution.X, solution.U)
        found = replace(
            solution,
            cost=cost,
            problem=problem,
            multipliers=multipliers.copy(),
            penalties=lagrangian.penalties * (solution.converged or solution.status.ending in CUT),
            violation=problem.violation(solution.X, solution.U) if finite else np.inf,
        )
        units = ones(problem) if lagrangian.units is None else lagrangian.units
        factors = np.broadcast_to(lagrangian.factors, multipliers.shape)
        return with_gains(found, units, factors) if solution.converged else found


def scales(problem: Problem, guess: Guess) -> tuple[Array | None, Array]:
    """Units (nz,) of states and controls, None of ordinary ones, and factors (m,) of rows, where a solve begins."""
    flat = problem.dynamics.nx == problem.dynamics.n  # on manifolds units are known
    with suppress(DDPError):
        first, d = begun(problem, guess), problem.allocate()
        problem.expand(first.X, problem.padded(first.U), d, 0, problem.horizon + 1)
        finite = all(np.isfinite(part).all() for part in (first.X, d.A, d.B, d.lzz, d.diagonal))
        if flat and finite and (units_of(problem, d, first.X, first.U) != 1.0).any():
            units = measures(problem, d, first.X, first.U)
            return units, factors_of(problem, first.X, first.U, units, even=True)
    return None, factors_of(problem, guess.X, guess.U)


class _Rounds:
    """State between two rounds.

    e (one for each constraint): see `Lagrangian.shifts`.   cold: whether penalties have to be found.
    kept: penalties before violations were minimised alone.   weighed: what violations cost when that began.
    changed: whether the cost has since the last round; not where all constraints hold anyway.
    """

    def __init__(self, iterate: Iterate, options: AugmentedLagrangian, again: bool = False) -> None:
        self.iterate, self.options, self.units = iterate, options, iterate.units
        self.lagrangian = iterate.problem.lagrangian
        self.changed = False
        self.cold = options.penalty is None and not self.lagrangian.warm and not again
        self.e = np.full(len(self.lagrangian.rows.placed), np.inf)
        self.grew = np.zeros(len(self.e), dtype=bool)
        self.growths = np.zeros(len(self.e), dtype=int)
        self.violations = [self.e]
        self.kept, self.weighed = self.e, np.inf
        if options.penalty is not None and not again:
            self.lagrangian.penalties[:] = options.penalty
        elif self.cold:
            self.lagrangian.penalties[:] = NEGLIGIBLE * (self._knots_cost() or 1.0)
        self._publish()
        iterate.weigh()
        at = iterate.work.derivatives, iterate.X, iterate.U
        self.units = iterate.units if iterate.foreign else units_of(iterate.problem, *at)
        self.largest = options.max_penalty * self.plain_cost()

    @property
    def settled(self) -> bool:
        """Whether constraints hold and multipliers stand at bounds, to the tolerance."""
        return bool(self.e.max() <= self.options.tolerance)

    @property
    def stuck(self) -> bool:
        """Whether growing penalties have not halved the violation of some constraint."""
        past = self.violations[-STUCK - 1 :]
        held = (self.growths >= STUCK) & (past[-1] > 0.5 * past[0]) & (past[-1] > self.options.tolerance)
        found = bool((held | (self.grew & (self.lagrangian.penalties >= self.largest))).any())
        return found and self._cost_of_violations() > 0.0  # which soft constraints have none of

    def worst(self) -> str:
        """The largest violation, in words."""
        return str(max(self._residuals(), key=lambda residual: residual.worst))

    def measure(self) -> None:
        """After a round: the next estimate of the multipliers, and which penalties have to grow."""
        iterate = self.iterate
        self.estimate, e = self.lagrangian.shifts(iterate.X, iterate.problem.padded(iterate.U))
        self.grew = (e > ENOUGH * self.e) & (e > self.options.tolerance)
        self.growths = np.where(self.grew, self.growths + 1, 0)
        self.e = e
        self.violations.append(np.array([residual.worst for residual in self._residuals()]))

    def update(self) -> None:
        """The next round's multipliers and penalties."""
        multipliers, penalties = self.lagrangian.multipliers, self.lagrangian.penalties
        bound = LARGEST_MULTIPLIER * self.plain_cost()
        multipliers[:] = np.clip(self.estimate, -bound, bound)
        penalties[self.grew] = np.minimum(GROWTH * penalties[self.grew], self.largest)
        self._publish()

    def balance(self) -> None:
        """Choose the first penalties: violations cost twice as much as all else, at an iterate without constraints.

        Those that it does not violate count as if it did by a tenth of how far it is from their bounds.
        """
        cost = self.plain_cost()
        for i, (found, own) in enumerate(zip(self._all_residuals(), self.lagrangian.rows.placed, strict=True)):
            factors = own.own(np.sqrt(self.lagrangian.shares))
            away = factors * np.minimum(np.abs(found.values - own.lower), np.abs(found.values - own.upper))
            beyond = factors * found.violation
            square = max((beyond**2).sum(), 0.01 * (away[np.isfinite(away)] ** 2).sum(), NEGLIGIBLE)
            self.lagrangian.penalties[i] = cost * np.clip(4.0 / square, *FIRST_PENALTIES)
        self._publish()

    def weigh_violations(self) -> None:
        """Drop multipliers; raise penalties, in their present ratios, until the cost is negligible beside them."""
        penalties = self.lagrangian.penalties
        self.kept = penalties.copy()
        penalties *= self.plain_cost() / (RESTORED * self._cost_of_violations())
        self.weighed = self._cost_of_violations()
        self.lagrangian.multipliers[:] = 0.0
        self._publish()

    def verdict(self) -> End | None:
        """Reason to stop, after violations alone were minimised; None if they gave way."""
        total = self._cost_of_violations()
        if total > ENOUGH * self.weighed:
            iterate, rows = self.iterate, self.lagrangian.rows
            sweep, _ = iterate.final_sweep(True)
            U = iterate.problem.padded(iterate.U)
            forces = self.lagrangian.stiffness * rows.beyond(rows.values(iterate.X, U))
            factors = np.broadcast_to(self.lagrangian.factors, forces.shape)
            held = iterate.problem.plain, iterate.work.derivatives, iterate.X, iterate.U, iterate.gaps, forces, factors
            if sweep is not None and (proven := proof(Held(*held))) is not None:
                return End(Ending.INFEASIBLE, infeasible(self.worst(), proven))
            return End(Ending.UNMET, f"{Ending.UNMET.value}: {self.worst()}")
        self.lagrangian.penalties[:] = np.minimum(GROWTH * self.kept, self.largest)
        self.e[:] = np.inf
        self.growths[:] = 0
        self._publish()
        return None

    def plain_cost(self) -> float:
        """Cost of all knots without constraints, whatever the sign, with a unit of each control beside it.

        So it is no smaller where the motion without constraints costs nothing.
        """
        return self._knots_cost() + effort_of(self.iterate, self.units)

    def _knots_cost(self) -> float:
        return float(np.abs(self.iterate.problem.plain.values(self.iterate.X, self.iterate.U)).sum())

    def _residuals(self) -> tuple[Residual, ...]:
        """All constraints; soft ones as if they were not violated, for they may be."""
        found, placed = self._all_residuals(), self.lagrangian.rows.placed
        return tuple(
            residual if entry.cap is None else replace(residual, violation=np.zeros_like(residual.violation))
            for residual, entry in zip(found, placed, strict=True)
        )

    def _all_residuals(self) -> tuple[Residual, ...]:
        return self.iterate.problem.residuals(self.iterate.X, self.iterate.U)

    def _cost_of_violations(self) -> float:
        """Cost of all violations by penalties alone."""
        beyond = np.concatenate([residual.violation.ravel() for residual in self._residuals()])
        return 0.5 * float(self.lagrangian.stiffness @ beyond**2)

    def _publish(self) -> None:
        """Have the iterate take new multipliers and penalties."""
        before = self.iterate.cost
        self.iterate.publish()
        self.changed = self.changed or self.iterate.cost != before

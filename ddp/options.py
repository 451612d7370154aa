"""Options of the solver: a frozen record of numbers and replaceable parts, checked when it is made.

`DDP` has a field for each part that a user can replace: the model of the Hessian (``hessian``), the line search, the
rule for mu (``regularization``), and how steps by rollouts hold constraints.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Literal, get_args

from ddp.augmented import AugmentedLagrangian, ConstraintMethod
from ddp.constraints.rows import Rows
from ddp.errors import ProblemError, flag, instance, one_of, positive, said, settle_by, suggesting, word
from ddp.guesses import Guess, Start
from ddp.iterate import Iterate
from ddp.models.attempt import HessianModel, Limits, Regularization
from ddp.models.built_in import Mixed, gauss_newton, levenberg_marquardt
from ddp.models.globalisation import SHIFT
from ddp.problem import Problem
from ddp.search import Backtracking, Search
from ddp.systems.structure import has_few_states, is_underactuated
from ddp.systems.system import ability

PATIENCE = 200
"""Iterations after which constraints are held in another way."""

MET = 1e-4
"""Amount by which states that are given may violate constraints that they meet, as other solvers leave it."""

Hessian = Literal["auto", "gauss-newton", "exact"]
Multipliers = Literal["auto", "value", "costate", "policy"]
Steps = Literal["rollout", "linear", "auto"]
HessianModels = Callable[[Limits], HessianModel]

MODELS: dict[str, HessianModels] = {"auto": Mixed, "gauss-newton": gauss_newton, "exact": levenberg_marquardt}


@suggesting
@dataclass(frozen=True)
class DDP:
    """Differential dynamic programming with exact second derivatives of dynamics and costs.

    tolerance: convergence is when the unregularised quadratic model expects the cost to decrease by no more than
        this, relative to the cost that depends on the motion: the smaller one of Σ|l| of all knots and of what it fell
        by, with ½ Σ l_uu u². So costs may come in any unit, with any constant: the motion is the same. For costs about
        one it is the measure of Crocoddyl's ``th_stop``.
    max_iterations: after this many the solve ends, not converged.
    hessian: which model of the Hessian is swept over, and what protects it (`ddp.models`):
        "auto"          Gauss-Newton far away, exact near the optimum
        "gauss-newton"  iLQR
        "exact"         exact from the start with Levenberg-Marquardt damping: slower, and may find other minima
        or one of one's own, a function or class that is called with `Limits` at every solve and makes a `HessianModel`.
    switch: "auto" turns to exact Hessians when the expected decrease, or that of a full step, falls below ``switch``
        times the cost: 1e-3 is cautious, 1e-1 eager.
    max_regularization: beyond this mu, times what mu is relative to (the mean diagonal of l_uu, less where that would
        hold states still) where that is more than 1, the solve ends, not converged.
    multipliers: the vector that the dynamics' second order is contracted with:
        "value"    V_x of the sweep, known knot by knot; the sweep contracts one knot after another
        "costate"  the adjoint of the trajectory, known before; all knots at once, once an iterate: see `Newton`. May
                   take twice as many iterations
        "policy"   V_x under the gains of the last sweep, known before; within a few per cent V_x's iterations
        "auto"     the policy's where the dynamics contract many knots faster than one by one, as those of robots do
                   (semi-implicit steps and phases of contacts); else V_x, and the costate after an exact step that
                   kept its promise, where they mean the same
        "policy" and "auto" are V_x where no sweep has succeeded yet, and as long as gaps are open.
    reuse: for how many iterations the contracted second order of the dynamics is used again (quasi-Newton): 0 is exact
        and converges quadratically; 1 or 2 save the derivatives of functions, whose tensors cost many evaluations each,
        for a few iterations more. It is renewed where it does not serve. Costs' Hessians are always of the iterate.
    constraints: how steps by rollouts hold the problem's constraints, if it has any; None: `AugmentedLagrangian`.
    segments: 1, or how many parts of the horizon are swept at once, by as many threads less one (`segments`): gains
        are the same but for rounding. For Gauss-Newton's Hessians and multipliers known before; V_x of the sweep is
        only known one knot after another. Where gaps are open or controls have limits, sweeps are of one piece.
    search: how far to go along the policy of a sweep: `Backtracking`, or a `Search` of one's own.
    regularization: how mu follows sweeps and steps: a `Regularization`; None: the model's own rule.
    last_sweep: whether a solve that ``max_iterations`` ends is swept once more for its gains; without it they are
        those of the last iteration, about the trajectory before, for a third of the time of two iterations. Also,
        whether gains keep constraints at their bounds exactly: without that a warm solve takes a tenth of its time
        less, and gains of controls that constraints determine may be far off at single knots.
    step: how states move along a step:
        "rollout"  by the dynamics, under the policy of the sweep; constraints are held by ``constraints``
        "linear"   as the linear model says, gaps open on the way: the full-space primal-dual interior point of
                   `ddp.interior`, with its own multipliers, Hessians and search. Limits of controls and constraints are
                   rows with slacks, and never violated by more than the tolerance. With constraints, saddles are not
                   left: the status and ``kind`` tell that the exact Hessian is not positive definite where it ends
        "auto"     linear with constraints, after a few rollouts without them; else by rollouts until these struggle, by
                   a step of an eighth or less within limits of controls where a full one would go far astray, or by
                   two in a row where controls are fewer than the coordinates that they move, and then linear as long
                   as that goes further. Without limits, where states have no more than four numbers, steps are linear
                   from the guess on, if it is no solution and 40 iterations are left: at once where controls are no
                   fewer than coordinates, ``reuse`` is 0 and dynamics are not known to be linear; with fewer controls
                   if the first rollout does not bring what it promised. By rollouts alone with options of theirs:
                   another ``hessian``, ``multipliers`` or ``constraints``; without limits also a ``regularization``, or
                   a ``search`` that is no `Backtracking` with the default's numbers
    """

    tolerance: float = 1e-9
    max_iterations: int = 1000
    hessian: Hessian | HessianModels = "auto"
    switch: float = 1e-2
    max_regularization: float = 1e9
    multipliers: Multipliers = "auto"
    reuse: int = 0
    constraints: ConstraintMethod | None = None
    segments: int = 1
    search: Search = field(default_factory=Backtracking)
    regularization: Regularization | None = None
    last_sweep: bool = True
    step: Steps = "auto"

    def __post_init__(self) -> None:
        settle_by(self, positive, "tolerance", "switch", "max_regularization")
        settle_by(self, partial(word, least=1), "max_iterations", "segments")
        settle_by(self, word, "reuse")
        for name, choices in (("hessian", Hessian), ("multipliers", Multipliers), ("step", Steps)):
            if not (name == "hessian" and callable(self.hessian)):
                one_of(name, getattr(self, name), get_args(choices))
        flag("last_sweep", self.last_sweep)
        if self.max_regularization < SHIFT:
            raise ProblemError(
                f"max_regularization: expected at least {SHIFT:g}, what the solve starts with, "
                f"got {self.max_regularization:g}"
            )
        if self.constraints is not None:
            example = "AugmentedLagrangian(...)"
            _check_part("constraints", self.constraints, example, "relaxed", "minimise", "certified")
        _check_part("search", self.search, "Backtracking(...)", "__call__")
        if self.regularization is not None:
            _check_part("regularization", self.regularization, "Tenfold(...) or ByRatio(...)", "raised", "stepped")

    def full_space(self, problem: Problem) -> bool:
        """Whether steps of a problem are linear."""
        return self.step == "linear" or (self._open and problem.constrained)

    def approaches(self, iterate: Iterate) -> bool:
        """Whether a solve with constraints begins by rollouts without them.

        Not with an earlier solve's multipliers, nor from states that are given where equalities have to hold, for
        rollouts would lead away, nor where these are a motion that meets the constraints with one at its bound already.
        """
        guess, rows = iterate.guess, iterate.problem.rows
        if not (self._open and iterate.constrained):
            return False
        if guess is None:
            return True
        if guess.imposed and (rows.equal.any() or (is_way(guess, rows) and not is_way(guess, rows, -MET))):
            return False
        return guess.earlier is None

    def holds_at_once(self, iterate: Iterate) -> bool:
        """Whether full-space steps are begun by holding what binds: where rollouts lead, or from states that are given.

        Not with equalities where rollouts lead: those lead elsewhere, from where quadratic models are of no use.
        """
        guess = iterate.guess
        given = guess is not None and guess.imposed and guess.earlier is None
        if not (given or iterate.problem.rows.equal.any()):
            return self.approaches(iterate)
        return self._open and iterate.constrained and given

    @property
    def _open(self) -> bool:
        """Whether it is left to the solver how states move."""
        plain = self.hessian == "auto" and self.multipliers == "auto" and self.constraints is None
        return plain and self.step == "auto"

    def attempts(self, problem: Problem) -> "list[DDP]":
        """Solvers to try one after the other where one fails; the first may end early if others follow.

        The second begins at a guess itself, without rollouts that lead away from it; several guesses may be tried.
        """
        return self._in_turn if self._open and problem.constrained else [self]

    @cached_property
    def _in_turn(self) -> "list[DDP]":
        """Solvers for constraints, kept, for each is checked when it is made."""
        early = replace(self, max_iterations=min(self.max_iterations, PATIENCE))
        return [early, replace(self, step="linear"), replace(self, step="rollout")]

    def hands_over(self, problem: Problem) -> bool:
        """Whether steps of a problem become linear where rollouts struggle."""
        if not self._open or problem.constrained:
            return False
        d = problem.dynamics
        if problem.limited:
            return True
        if not is_underactuated(d) and (self.reuse > 0 or not has_few_states(d) or ability(d, "linear")):
            return False
        s = self.search
        usual = isinstance(s, Backtracking) and Backtracking(s.share, s.shortest, s.generous) == PLAIN_SEARCH
        return usual and self.regularization is None

    @property
    def holding(self) -> ConstraintMethod:
        """The method by which steps by rollouts hold constraints."""
        return HELD if self.constraints is None else self.constraints

    def relaxed(self, problem: Problem, guess: Start) -> Problem:
        """The problem that descents minimise: the given one, or one with its constraints in the cost."""
        return problem if self.full_space(problem) else self.holding.relaxed(problem, guess)

    def model(self, limits: Limits) -> HessianModel:
        """The model of the Hessian of one solve."""
        make = MODELS[self.hessian] if isinstance(self.hessian, str) else self.hessian
        return make(limits)


def is_way(guess: Guess, rows: Rows, beyond: float = MET) -> bool:
    """Whether states of a guess move, no row further beyond its bounds than that; room, if ``beyond`` is negative."""
    c = rows.values(guess.X, guess.U)
    return bool((guess.X[0] != guess.X).any() and (c >= rows.lower - beyond).all() and (c <= rows.upper + beyond).all())


def as_solver(solver: DDP | None) -> DDP:
    """The solver that is given, by default `DDP`, checked."""
    chosen = DEFAULT if solver is None else solver
    instance("solver", chosen, DDP, "DDP(...), ILQR(...) or Newton(...)")
    return chosen


def _check_part(name: str, part: object, example: str, *methods: str) -> None:
    """Raise ProblemError unless a part of the solver is an object with these methods."""
    if isinstance(part, type) or not all(callable(getattr(part, method, None)) for method in methods):
        raise ProblemError(f"{name}: expected {example}, got {said(part)}")


@suggesting
def ILQR(
    tolerance: float = 1e-9, max_iterations: int = 1000, max_regularization: float = 1e9,
    constraints: ConstraintMethod | None = None,
) -> DDP:  # fmt: skip
    """Iterative LQR: `DDP` with ``hessian="gauss-newton"`` and nothing else changed."""
    held = constraints
    return DDP(tolerance, max_iterations, "gauss-newton", max_regularization=max_regularization, constraints=held)


@suggesting
def Newton(
    tolerance: float = 1e-9, max_iterations: int = 1000, hessian: Hessian | HessianModels = "auto",
    max_regularization: float = 1e9,
) -> DDP:  # fmt: skip
    """Stagewise Newton (Pantoja 1988): `DDP` with ``multipliers="costate"`` and nothing else changed.

    It has the same optima, gains and order of convergence. An iteration costs no more, and less where several models
    are tried at an iterate; far away it may take more of them, up to twice as many.
    """
    return DDP(tolerance, max_iterations, hessian, max_regularization=max_regularization, multipliers="costate")


DEFAULT, HELD, PLAIN_SEARCH = DDP(), AugmentedLagrangian(), Backtracking()
"""Solver, method of constraints and search where none is given."""

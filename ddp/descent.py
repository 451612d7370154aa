"""The inner loop: derivatives, sweeps and line searches, until the model expects no decrease worth having."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ddp.compiling.portable import portable
from ddp.compiling.setup import working_time
from ddp.costs import faults
from ddp.descent_state import resume, state_of
from ddp.errors import ProblemError
from ddp.iterate import Iterate
from ddp.models.attempt import Attempt, HessianModel, Limits
from ddp.models.globalisation import shift, swept
from ddp.options import DDP
from ddp.search import SHORT
from ddp.solutions.status import End, Ending, Record, Watcher, limit_reached
from ddp.sooner import come_sooner, may_come_sooner
from ddp.starts import CLOSED
from ddp.unbounded import GROWN, Trajectory, is_unbounded

if TYPE_CHECKING:
    from ddp.batch.compiled_iterations import Chosen
    from ddp.checkpoint import Journal

T = TypeVar("T")

GOES_ON, CONVERGED, ROUNDING, STATIONARY = range(4)
ENDINGS = None, Ending.CONVERGED, Ending.ROUNDING, Ending.STATIONARY
"""Verdicts of `judged`, and endings by them."""

SLOPELESS = "norms and square roots have none where they are zero, sqrt(x**2 + e**2) has"
"""Told of a term whose derivatives are not finite where a solve begins: most often the reason."""

SETTLED = 3
"""After this many iterations in a row that could not have been told from rounding, there is nothing to be gained."""


class Improved(NamedTuple):
    """Outcome of an iteration: the verdict of `judged`, and numbers of its `Record`."""

    verdict: int
    cost: float
    gradient: float
    expected: float
    step: float
    mu: float
    hessian: str
    blend: float
    gap: float
    contraction: str


class Descent:
    """One solve's way down: its iterate, the model that chooses sweeps, and a record of every iteration.

    model: made for this solve by ``solver.hessian``.   limits: what the model is told.   compiled: what makes whole
    iterations instead of it, where all parts are built in.   begun: the size of the cost where it begins.
    watched: whether anybody is shown records.   asks: whether rollouts still ask if linear steps go further, see
    `handover.watch`.   first: the attempt at the iterate, if it is known.   journal: what the solve goes on from where
    it was ended.
    """

    def __init__(
        self, iterate: Iterate, solver: DDP, history: list[Record], callback: Callable[[Record], None] | Watcher | None,
        compiled: "Chosen | None" = None, journal: "Journal | None" = None,
    ) -> None:  # fmt: skip
        self.iterate, self.solver, self.history, self.journal = iterate, solver, history, journal
        self._compiled, self.begun, self.asks = compiled, abs(iterate.cost), True
        self.watched, self._watcher = callback is not None, None
        self._callback: Any = callback
        if callback is not None and isinstance(callback, Watcher):  # to ask a protocol takes 20 µs
            self._watcher = callback
        self.limits = Limits(solver.tolerance, solver.switch, solver.max_regularization, solver.regularization)
        self.forget()

    def forget(self) -> None:
        """Begin with another model, as at the start."""
        self.limits.tolerance = self.solver.tolerance
        self.first: Attempt | None = None
        self.model: HessianModel = self.solver.model(self.limits)

    def go_on(self, record: Record, at: Trajectory | None = None) -> None:
        """Add a record, and show it, with the trajectory ``at`` it, by default the iterate's."""
        self.history.append(record)
        if self.journal is not None and self.journal.knows(self.history):
            return
        if self._watcher is not None:
            shown = self.iterate if at is None else at
            self._watcher.watch(record, shown.X.copy(), shown.U.copy())
        elif self._callback is not None:
            self._callback(record)

    def has_left(self, count: int) -> bool:
        """Whether so many iterations are left. What follows from a no is of this limit, and not kept by the journal."""
        needed, limit = len(self.history) + count, self.solver.max_iterations
        if self.journal is not None:
            self.journal.asked(needed, limit)
        return needed <= limit

    def went_back(self) -> None:
        """Let the last record, if the limit lets no other follow, tell of where the iterate has gone since."""
        if 0 < len(self.history) >= self.solver.max_iterations:
            iterate, last = self.iterate, self.history[-1]
            violation = iterate.violated()[0] if iterate.constrained else 0.0
            self.history[-1] = last._replace(cost=iterate.cost, gap=iterate.gap, violation=violation)

    def run(self, tolerance: float, limit: int, struggles: Callable[[list[Record]], bool] | None = None) -> End:
        """Iterate until convergence to a tolerance, or another reason to stop: its history ``struggles``, say.

        limit: of the solve's iterations.
        """
        return self.stretch("rollouts", lambda: self._run(tolerance, limit, struggles))

    def stretch(self, name: str, make: Callable[[], T]) -> T | End:
        """Make a stretch of iterations, unless the journal knows its end: none is that of one without a reason."""
        return make() if self.journal is None else self.journal.stretch(name, self, make)

    def _run(self, tolerance: float, limit: int, struggles: Callable[[list[Record]], bool] | None) -> End:
        end = self._descend(tolerance, limit, struggles)
        self.leave()
        return end

    def leave(self) -> None:
        """Bring the iterate and the model to where compiled iterations have come, for others to go on from there."""
        if self._compiled is not None:
            self._compiled.leave()

    def _keep(self) -> None:
        """Keep where it stands, if it is time."""
        if self.journal is not None and self.journal.is_due(self.history):
            self.leave()
            self.journal.keep("descent", self.history, state_of(self), self.iterate.X, self.iterate.U)

    def _descend(self, tolerance: float, limit: int, struggles: Callable[[list[Record]], bool] | None) -> End:
        iterate, history = self.iterate, self.history
        iterate.settled, before = 0, working_time()
        if self.journal is not None and (state := self.journal.state("descent", history)):
            resume(self, state)
        iterate.weigh()
        while len(history) < limit:
            self._keep()
            improved = self._improve(tolerance)
            if improved is None:
                if iterate.limit():
                    continue
                if not history and (fault := iterate.fault_of_term()):
                    raise ProblemError(f"{fault}: {SLOPELESS}")
                return self._why_no_step()
            verdict, cost, gradient, expected, alpha, mu, hessian, blend, gap, contraction = improved
            now = working_time()
            violation, penalty = iterate.violated() if iterate.constrained else (0.0, 0.0)
            self.go_on(
                Record(
                    cost, gradient, expected, alpha, mu, hessian, blend, now - before, gap, contraction, violation,
                    penalty,
                )
            )  # fmt: skip
            before = now
            if cost > iterate.bound and (iterate.gap == 0.0 or not iterate.given):
                self.leave()
                iterate.recall()
                self.went_back()
                self.forget()
                continue
            if (ending := ENDINGS[verdict]) is not None:
                return End(ending)
            if cost < 0.0 and self.is_unbounded():
                return End(Ending.BOTTOMLESS, Ending.BOTTOMLESS.value)
            if struggles is not None and alpha <= SHORT and struggles(history):
                return End(Ending.STRUGGLES, Ending.STRUGGLES.value)
        self._keep()
        return End(Ending.ITERATIONS, limit_reached(limit, history[-1].expected if history else None))

    def _improve(self, tolerance: float) -> Improved | None:
        """Make an iteration; None if no sweep succeeds."""
        iterate, compiled = self.iterate, self._compiled
        if self.first is None and compiled is not None and compiled.serves(self.model):
            return compiled.improve(self.model, tolerance)
        attempt, self.first = self.first or self.model.iterate(iterate), None
        if attempt is None:
            return None
        before = iterate.cost
        verdict, iterate.settled = judged(iterate, attempt, tolerance, iterate.settled)
        iterate.accept(attempt.step)
        if verdict == GOES_ON and not iterate.constrained and may_come_sooner(iterate, attempt, before, tolerance):
            come_sooner(iterate)
        return Improved(
            verdict, iterate.cost, attempt.gradient, attempt.expected, attempt.step.alpha, attempt.mu,
            attempt.hessian, attempt.blend, iterate.gap, attempt.contraction,
        )  # fmt: skip

    def is_unbounded(self, grown: int = GROWN) -> bool:
        """Whether the cost falls ever faster: see unbounded.py."""
        return is_unbounded(self.history, self.iterate.cost, self.iterate, self.begun, grown)

    def _why_no_step(self) -> End:
        """Explain why regularisation did not help."""
        iterate, most = self.iterate, f"with regularisation up to {self.solver.max_regularization:g}"
        if fault := iterate.fault():
            return End(Ending.NOT_FINITE, fault)
        if self.model.failed is not None:
            where = f"the Hessian in the controls is not positive definite at knot {self.model.failed}"
            return End(Ending.INDEFINITE, f"{where} {most}{iterate.concavity()}")
        if iterate.line.diverged is not None:
            reason = f"every step diverges; of the shortest one {iterate.divergence(*iterate.line.diverged)}"
            return End(Ending.DIVERGED, reason)
        reason = f"{Ending.NO_STEP.value}, {most}"
        if iterate.line.unpriced is not None:
            try:
                found = faults.fault(iterate.problem.objective, *iterate.line.unpriced, 0)
            except ProblemError as failure:  # of a term's own code
                found = str(failure)
            reason += f"; of longer ones {found}" if found else ""
        elif iterate.line.lost is not None:
            reason += f"; of a longer one that was tried before, {iterate.divergence(*iterate.line.lost)}"
        return End(Ending.NO_STEP, reason)


@portable
def judged(iterate, attempt, tolerance, settled):  # type: ignore[no-untyped-def]
    """Verdict on an attempt, and how many in a row could not be told from rounding.

    settled: how many of them there were before it.
    """
    if not (iterate.gap < CLOSED and attempt.expected <= max(tolerance * iterate.unit, iterate.noise)):
        return GOES_ON, 0
    settled = settled + 1 if is_converged(iterate, attempt, iterate.resolution) else 0
    if is_converged(iterate, attempt, tolerance * iterate.unit):
        return CONVERGED, settled
    limit = iterate.noise if attempt.step.alpha == 0.0 else iterate.grain
    if settled == SETTLED or is_converged(iterate, attempt, limit):
        return ROUNDING, settled
    if attempt.expected <= iterate.resolution and is_indefinite(iterate, attempt):
        return STATIONARY, settled
    return GOES_ON, settled


@portable
def is_converged(iterate, attempt, limit):  # type: ignore[no-untyped-def]
    """Whether the model, without the regularisation's help, expects less than ``limit``."""
    if not attempt.expected <= limit:  # nor where that is no number
        return False
    smallest = shift(iterate)
    if attempt.mu <= 2.0 * smallest:  # it is relative to controls' weights, which move a little from iterate to iterate
        return True
    for blend in (attempt.blend, 0.0):
        sweep = swept(iterate, blend, smallest, False)
        if sweep.failed < 0:
            return sweep.expected <= limit
    return False


@portable
def is_indefinite(iterate, attempt):  # type: ignore[no-untyped-def]
    """Whether the models here fail without regularisation."""
    smallest = shift(iterate)
    own = swept(iterate, attempt.blend, smallest, False)
    return own.failed >= 0 and swept(iterate, 0.0, smallest, False).failed >= 0

"""Hand over from rollouts to full-space steps, and back where these do not serve.

With constraints full-space steps begin where a few steps by rollouts lead, within limits of controls, without the
constraints. They take noise out of a guess and settle which way a motion goes, for a part of the price of full-space
steps, which from there end at better minima than from the guess. Where steps have to be short, motion without
constraints does not lead to motion with them: full-space steps then begin before these. Without equalities two in a row
have to be, for motion without constraints may meet nearly all of the others. With equalities costs may not say where
the motion has to end: where rollouts lead away from there, as an arm falls if torques alone cost, full-space steps
begin from the guess. From a way that is given, states that move and meet constraints, rollouts go as long as what they
violate may be mended on the same side of obstacles.

Without constraints rollouts come first, as they cost least. Where one has to be short a linear step may go further.
Within limits of controls full-space steps then take over where the next full rollout would go far astray: in stiff
valleys limits clip feedback, and all steps that follow are short as well; elsewhere they are not. Where controls are
fewer than the coordinates that they move it takes two short steps in a row: feedback cannot hold what nothing drives,
so that a rollout strays far from the linear model where single knots do not. Full-space steps then have to prove
themselves, by Hessians that are positive definite though at least half exact, and by longer steps. If they do not,
rollouts go on; from where they were, if that was clear at once. Where states are few full-space steps cost little: they
begin at the guess, at once where controls are as many as coordinates and dynamics not linear; else if the first
rollout does not bring what it promised. If it does, rollouts go on to the end, as they do from the policy of an earlier
solution, which need not be far from the next one. 224 random motions of fourteen systems with few states take 4142
iterations; 4975, and 1.18 of the time, if those roll out that have as many controls as coordinates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ddp import starts
from ddp.derivatives import FIRST, GAUSS_NEWTON
from ddp.errors import ModelError
from ddp.guesses import Guess
from ddp.interior.course import TOLERANCE
from ddp.interior.filter import Filter, accepts, begin_filter
from ddp.interior.measures import gauge
from ddp.interior.parts_in_python import straying
from ddp.interior.scaling import factors_of, gaps_at
from ddp.interior.solve import AT_ONCE, PATIENCE_WITHIN, is_small, minimise, scale_of, units_at
from ddp.machine.written import address
from ddp.models.built_in import Model
from ddp.models.globalisation import leads_astray
from ddp.options import is_way
from ddp.protocols import Array
from ddp.search import SHORT
from ddp.solutions.status import End, Ending, Record
from ddp.sweeps.outcome import Sweep
from ddp.sweeps.sized_limits import step_function
from ddp.sweeps.sweeping import call
from ddp.systems.structure import is_underactuated

if TYPE_CHECKING:
    from ddp.descent import Descent
    from ddp.iterate import Iterate

ASTRAY = 10.0
"""Rollouts go far astray where a full one raises the cost by so many times what it promises to lower it."""

SHORTER = 0.5
"""Share of what gaps are measured by in full-space steps, by which a first one tells whether these go further: it may
open half as much as they may."""

WORSE = 0.01
"""Share of the cost by which full-space steps may end above what rollouts had reached."""


def begins_far(descent: Descent) -> End | None:
    """End of rollouts before the first one, for problems with few states: if all are driven, or it leads astray.

    Else None, and what the first rollout found is the descent's `first`.
    """
    iterate, model, guess = descent.iterate, descent.model, descent.iterate.guess
    fresh = guess is not None and guess.earlier is None and not descent.history
    if not (fresh and is_small(iterate.problem) and descent.has_left(PATIENCE_WITHIN)):
        return None
    if not is_underactuated(iterate.problem.dynamics):
        return End(Ending.STRUGGLES, Ending.STRUGGLES.value)
    assert isinstance(model, Model)
    iterate.weigh()
    attempt = model.iterate(iterate)
    if attempt is not None and not leads_astray(model.numbers, iterate):
        descent.first = attempt
        return None
    descent.forget()
    return None if attempt is None else End(Ending.STRUGGLES, Ending.STRUGGLES.value)


def watch(descent: Descent) -> Callable[[list[Record]], bool]:
    """Whether rollouts from here on struggle, asked after each short step: a linear one goes further.

    Without limits iterations have to be left for full-space steps, and where a linear one does not go further nothing
    is asked again; nor while open gaps bend linear steps, as they do on the manifold: sweeps for rollouts do not keep
    how. Within limits short steps are enough there.
    """
    iterate, begun = descent.iterate, len(descent.history)
    dynamics = iterate.problem.dynamics
    descent.asks = True

    def struggles(history: list[Record]) -> bool:
        if iterate.gap > 0.0 and dynamics.closing().address != 0:  # it bends linear steps
            return iterate.limited
        if iterate.limited:
            return _goes_further(descent)
        free = is_underactuated(dynamics) and not is_small(iterate.problem)
        if not (free and descent.asks and begun + 2 <= len(history) and history[-2].step <= SHORT):
            return False
        if not descent.has_left(PATIENCE_WITHIN):
            return False
        descent.asks = _goes_further(descent)
        return descent.asks

    return struggles


def _goes_further(descent: Descent) -> bool:
    """Whether a filter accepts twice `SHORT` of the first full-space step: with no multipliers yet, Gauss-Newton's.

    Within limits of controls, a full rollout has to go `ASTRAY`, too, or the sweep to fail. Rollouts that go on find
    the derivatives known. A trial in full costs as much as some iterations of theirs.
    """
    descent.leave()
    iterate = descent.iterate
    sweep, d, alpha = iterate.sweep(0.0, 0.0), iterate.problem.dynamics, 2.0 * SHORT
    if sweep.failed >= 0:
        return iterate.limited
    if iterate.limited and _full_cost(iterate, sweep) <= iterate.cost + ASTRAY * sweep.expected:
        return False
    (N, n), dU = iterate.gaps.shape, np.zeros_like(iterate.U)
    dX, arrived = np.zeros((2, N + 1, n))
    call(step_function(n, d.nu).address, iterate.backward.address, address(dU), address(dX), address(arrived))
    U = iterate.U + alpha * dU
    try:
        X, gaps = straying(d)(iterate.X, alpha * dX, U)
    except ModelError:  # there is no motion
        return False
    factors = np.ones_like(iterate.gaps)
    if d.nx == n:
        size = gaps_at(iterate.problem, iterate.work.derivatives, iterate.X, iterate.U)
        gauge(size if iterate.limited else SHORTER * size, factors)
    before, cost = float(np.linalg.norm(factors * iterate.gaps)), iterate.problem.total(X, U)
    empty = Filter(np.zeros(0), np.zeros(0))
    begin_filter(empty, before, False, scale_of(iterate))
    accepted = accepts(empty, float(np.linalg.norm(factors * gaps)), cost, before, iterate.cost, -sweep.d0, alpha)[0]
    return bool(accepted)


def _full_cost(iterate: Iterate, sweep: Sweep) -> float:
    """Cost of a full step by rollout; infinite where it diverges."""
    X, U, notes = iterate.problem.track(iterate.X, iterate.U, sweep.k, sweep.K, starts.FULL, iterate.gaps)
    return iterate.problem.total(X[0], U[0], notes[0] if len(notes) else notes)


def handed_over(descent: Descent) -> End:
    """End of full-space steps, or of more rollouts where those end at a much higher cost than rollouts had reached."""
    iterate, solver, begun, free = descent.iterate, descent.solver, len(descent.history), not descent.iterate.limited
    reached, cost = iterate.trajectory, np.inf if iterate.gap > 0.0 else iterate.cost
    end = descent.stretch("full space", lambda: minimise(descent).end)
    if end.ending.converged and iterate.cost <= cost + WORSE * abs(cost):
        return end
    last, few = len(descent.history) >= solver.max_iterations, free and len(descent.history) <= begun + AT_ONCE
    if cost < iterate.cost or (iterate.gap >= starts.CLOSED if last else few):
        iterate.arrive(*reached)
    elif not reached[2].any():
        iterate.return_above(cost, *reached[:2])
    descent.went_back()
    return end if last and iterate.X is not reached[0] else descent.run(solver.tolerance, solver.max_iterations)


MOST, LONG, IN_A_ROW = 7, 0.5, 2
"""Iterations at most where constraints do not hold, the fraction of a step below which it is short, and how many short
ones in a row are enough; one that cannot be taken at all is, and with equalities any one."""

COARSE = 1e-2
"""Expected decrease, relative to the cost, that is small enough where constraints do not hold."""

SAME = 0.5
"""Cosine between forces of what is violated, at each knot, from which on they push the same way."""

LITTLE = 0.1
"""Expected decrease, relative to the cost, that is too little for rollouts from a way: it is nearly a minimum."""


def _worst(iterate: Iterate, factors: Array | None = None) -> float:
    """The largest amount by which any row is beyond its bounds, soft ones as well, for here they cost nothing."""
    return iterate.problem.rows.worst(iterate.X, iterate.U, factors, soft=True)


def _keeps(iterate: Iterate, way: Guess, X: Array, U: Array) -> bool:
    """Whether a motion (X, U) may go back to the side of obstacles on which a way meets constraints.

    There what it violates pushes the same way, and no row is violated halfway that holds at both.
    """
    problem, rows, d = iterate.problem, iterate.problem.rows, iterate.problem.dynamics
    beyond = rows.beyond(rows.values(X, U))
    halfway = d.integrate(way.X, 0.5 * d.difference(way.X, X)), 0.5 * (way.U + U)
    if not (rows.beyond(rows.values(*halfway))[beyond == 0.0] == 0.0).all():
        return False
    now, then = np.zeros((2, len(X), d.n + d.nu))
    problem.add_forces(X, U, beyond, now)
    problem.add_forces(way.X, way.U, beyond, then)
    return bool(((now * then).sum(axis=1) >= SAME * np.linalg.norm(now, axis=1) * np.linalg.norm(then, axis=1)).all())


def _leaves(iterate: Iterate, way: Guess) -> bool:
    """Whether the first rollout from a way would gain little, be short, or lead to other sides of obstacles."""
    sweep = iterate.sweep(0.0, 0.0)
    gains = sweep.failed < 0 and abs(sweep.expected) > LITTLE * abs(iterate.cost)
    step = iterate.search(sweep, 1.0) if gains else None
    return step is None or step.alpha < 1.0 or not _keeps(iterate, way, step.X, step.U)


def went_back(history: Sequence[Record]) -> bool:
    """Whether rollouts without constraints led nowhere: where all are short, `approach` goes back to the guess."""
    return all(record.full_space or record.step < LONG for record in history)


def approach(descent: Descent) -> End | None:
    """Step by rollouts without constraints; the end if that is a minimum at which all of them hold, else None.

    The iterate is left where full-space steps begin.
    """
    iterate, solver, history = descent.iterate, descent.solver, descent.history
    problem, rows, first, coarse, short = iterate.problem, iterate.problem.rows, len(history), True, 0
    bound = bool(rows.equal.any())
    enough = 1 if bound else IN_A_ROW
    begun = before = iterate.trajectory
    alike = factors_of(problem, iterate.X, iterate.U, units_at(iterate)) if bound else None
    most = starts.WORSE * _worst(iterate, alike) if bound else np.inf
    guess = iterate.guess  # a way, where its states move and meet constraints
    way = guess if guess is not None and guess.imposed and is_way(guess, problem.rows) else None
    if way is not None and _leaves(iterate, way):
        return None
    while len(history) < solver.max_iterations:
        last = iterate.trajectory
        if short == 0:
            before = last
        end = descent.run(max(COARSE, solver.tolerance) if coarse else solver.tolerance, len(history) + 1)
        hold = not bound and _worst(iterate) <= TOLERANCE
        if way is not None and not (hold or _keeps(iterate, way, iterate.X, iterate.U)):
            iterate.arrive(*last)
            break
        step = history[-1].step if len(history) > first else 0.0
        short = 0 if step >= LONG else short + 1 if step > 0.0 else enough
        if end.ending.converged:
            if not hold:
                break
            if not coarse:
                factors = np.maximum(factors_of(problem, iterate.X, iterate.U, units_at(iterate)), 1.0)
                if _worst(iterate, factors) <= TOLERANCE:  # which is large in tiny units
                    return end
                break
            coarse = False
        elif end.ending is not Ending.ITERATIONS or (coarse and short >= enough):
            iterate.arrive(*before)
            break
        elif not hold and (not coarse or len(history) - first >= MOST):
            break
    undefined = not np.isfinite(rows.values(iterate.X, iterate.U)).all()
    if undefined or descent.is_unbounded() or (bound and _worst(iterate, alike) > most):
        iterate.arrive(*begun)
        iterate.know(FIRST | GAUSS_NEWTON)  # by which full-space steps are measured, and not by those of where it was
    descent.went_back()
    return None

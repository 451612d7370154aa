"""Explanation of a solution in words: what it costs, what holds it, how the solver came there, what to try."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ddp.constraints.lagrangian import GIVEN, TOLD, Residual, shared_name
from ddp.constraints.unreachable import AT_ONCE
from ddp.costs.batch import inside
from ddp.costs.entries import kind_of
from ddp.costs.objective import Objective
from ddp.derivatives import FIRST, GAUSS_NEWTON
from ddp.guesses import Motion
from ddp.places import TERMS, Place, things_of
from ddp.problem import Problem
from ddp.solutions.columns import controls
from ddp.solutions.kinks import kinks
from ddp.solutions.status import UNSTABLE, Ending
from ddp.systems.structure import is_underactuated
from ddp.systems.system import ability

if TYPE_CHECKING:
    from ddp.solutions.solution import Solution

NEAR = 0.01
"""Distance from a limit, relative to it, at which controls are held by it where a solve has failed."""

FREE = "a running cost of states, as of velocities: nothing asks anything of them before the end; or "
"""Advice where the cost falls on and on along motions that only grow longer."""

CREEPING = (Ending.ITERATIONS, Ending.STRUGGLES, Ending.NO_STEP)
"""Endings that kinks lead to."""

HOLDS = 1e-6
"""Multipliers below this share of the largest do not count as holding anything."""

SEEN = 1e-3
"""Share of the cost below which a term is counted and not printed."""

ADVICE = {
    Ending.ITERATIONS: "give it more (max_iterations), a guess nearer to the motion, weights that differ less, or a"
    " small running weight on states that nothing else holds",
    Ending.ROUNDS: "constraints converge slowly: look at residuals() for the worst, or give DDP(step='linear')",
    Ending.STRUGGLES: "steps stay short: give DDP(step='linear'), or a guess nearer to the motion",
    Ending.NO_STEP: "check_derivatives(problem) tells whether a derivative is wrong; kinks do this too",
    Ending.STATIONARY: "the cost is flat or kinked there: add a small weight on controls, or smooth what has a kink",
    Ending.INDEFINITE: "every control needs a cost: give those without one a small weight",
    Ending.DIVERGED: "start from a guess with states, (X, U), or take shorter steps of time",
    Ending.NOT_FINITE: "a term or f has no derivative at the trajectory, such as a norm at zero: smooth it; or speeds"
    " grow without bound: weigh them",
    Ending.BOTTOMLESS: "some control or state is worth more the larger it is: bound it, or weigh its square",
    Ending.SADDLE: "start from a guess that breaks the symmetry",
    Ending.INFEASIBLE: "residuals() names the constraint that cannot be met: loosen it",
    Ending.UNMET: "give constraints units in which their violations are about one, or another guess; residuals() names"
    " the constraint that is missed most",
    Ending.NO_START: "give a guess, of controls or with states (X, U), that does not diverge and has finite costs",
    Ending.WORKER: "solve with workers=1 to see the error itself",
}
"""Advice after endings that are no success, which a solution's line ends with."""

DOUBTED = (Ending.INFEASIBLE, Ending.UNMET, Ending.NO_START, Ending.DIVERGED, Ending.NO_STEP)
"""Endings that what is hardly meant in a problem leads to."""

MOVE = (
    "begin where constraints hold at x0, or impose them from a later knot k of N on, by"
    " constraints_at={range(k, N): [...]}, and terminal_constraints at the end"
)
"""Advice where x0 violates a constraint."""

WIDEN = "allow larger controls, or begin where the first step leads to what constraints allow"
"""Advice where the first step cannot meet constraints."""

ANOTHER = "`solve_best` tries other guesses, which may lead to a better optimum"
"""Advice where a converged motion that constraints hold is far from its targets."""

MOVING = "no control changes the cost to first order where the motion rests: give a guess that moves"
"""Advice where a solve has never left a motion at rest that costs of states ask to move."""

FAR = 0.01
"""Share of what an end at x0 costs above which targets are missed by far: that of a tenth of the way."""

TURN = 2.2
"""Turn of a joint from the first state to the last above which a nearer posture may reach the same end [rad]."""

WOUND = f"a joint turns by more than {TURN} rad: {ANOTHER}"
"""Advice where a converged motion may be far from the best one."""

LATER = ", or give the motion more time"
"""Advice where nothing else is known to keep a constraint from being met."""

STIFFLY = ", or an implicit integrator"
"""Advice where steps that diverge are not of one."""

OF_STEPS = "the dynamics' derivative"
"""Words where first derivatives of steps are not finite."""

SHORTER = "take shorter steps of time, or weaker controls: Newton's method hardly finds an implicit step's end there"
"""Advice there, where steps are of an implicit integrator."""


@dataclass(frozen=True)
class Explanation:
    """Explanation of a solution; ``print`` it.

    outcome: whether it converged, cost and gradient.
    shares: each cost term with its cost, the largest first.   misses: how far targets are missed, in words.
    active: constraints and limits that hold the motion, in words.   course: what the solver did.
    advice: what to try, empty if all is well.   beyond: joints that leave their robot's own limits, in words.
    """

    outcome: str
    shares: tuple[tuple[str, float], ...]
    active: tuple[str, ...]
    course: str
    advice: str
    misses: tuple[str, ...] = ()
    beyond: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.outcome}\n\n{self.details}"

    @property
    def details(self) -> str:
        """All but the outcome, in words."""
        total = sum(abs(cost) for _, cost in self.shares) or 1.0
        lines = ["cost"]
        joined = _joined(self.shares)
        shown = [(name, cost) for name, cost in joined if abs(cost) >= SEEN * total]
        lines += [f"  {abs(cost) / total:6.1%}  {cost:12.5g}  {name}" for name, cost in shown]
        if others := len(joined) - len(shown):
            lines.append(f"  {others} other{'s' * (others > 1)} below {SEEN:.1%} each")
        lines += ["", "targets", *(f"  {miss}" for miss in self.misses)] if self.misses else []
        lines += ["", "held by", *(f"  {what}" for what in self.active or ("nothing",))]
        lines += ["", "beyond limits", *(f"  {excess}" for excess in self.beyond)] if self.beyond else []
        lines += ["", "course", f"  {self.course}"]
        return "\n".join([*lines, "", "try", f"  {self.advice}"] if self.advice else lines)


def explain(solution: Solution, problem: Problem) -> Explanation:
    """Explain a solution of ``problem``."""
    shares = [(name, float(cost)) for name, cost in _costs(problem, solution.X, solution.U)]
    active = [*_limits(problem, solution), *_constraints(solution)]
    advice = advice_after(solution, problem)
    if solution.status.ending is Ending.ITERATIONS and _are_free(problem, solution):
        advice = FREE + advice
    if solution.status.ending in CREEPING and (smooth := kinks(problem, solution.X, solution.U, alone(problem))):
        advice = f"{smooth}; or {advice}"
    if solution.converged and not advice:
        far = is_far(solution, problem) and any(_misses(problem, solution.X))
        advice = "; or ".join([*_doubts(problem), *([ANOTHER] if any(_constraints(solution)) else [])]) if far else ""
        advice = MOVING if not active and rests(solution, problem) else advice
        advice = advice or (WOUND if may_be_dear(solution, problem) else "")
    ordered = tuple(sorted(shares, key=lambda share: -abs(share[1])))
    misses = (*_misses(problem, solution.X), *_on_the_way(problem, solution.X))
    own = beyond_limits(solution, problem)
    line = outcome(solution, own if solution.converged else ())
    return Explanation(line, ordered, tuple(active), _course(solution), advice, misses, own)


def outcome(solution: Solution, excesses: Sequence[str]) -> str:
    """How a solve ended, in a line; excesses: how the motion leaves its robot's own limits, of which one is told."""
    constrained = f", violation {solution.violation:.1e}" if solution.multipliers.size else ""
    gains = " (its gains are zeros: no backward pass succeeds)" if np.isnan(solution.gradient) else ""
    more = f", {len(excesses) - 1} more in explain()" if len(excesses) > 1 else ""
    leaves = f"; {excesses[0]}{more}" if excesses else ""
    numbers = f"cost {solution.cost:.5g}, gradient {solution.gradient:.1e}"
    return f"{solution.status}: {numbers}{gains}{constrained}{leaves}"


def beyond_limits(solution: Solution, problem: Problem) -> tuple[str, ...]:
    """Joints and controls that leave their robot's own limits, and feet that pull on the ground, in words."""
    excesses = ability(problem.dynamics, "excesses")
    return () if excesses is None else tuple(excesses(problem, solution.X, solution.U))


def advice_after(solution: Solution, problem: Problem | None) -> str:
    """Advice after an ending, empty if all is well: first what a problem has that leads to it."""
    status, ending, found = solution.status, solution.status.ending, list[str]()
    if ending is Ending.ITERATIONS and Ending.UNMET.value in status:
        ending = Ending.UNMET  # after which other attempts were cut off
    if problem is not None and (ending in DOUBTED or UNSTABLE in status):
        found = _doubts(problem)
    if problem is not None and ending is Ending.UNMET:  # others say which limits hold
        found += _strained(problem, solution.U)
    if GIVEN in status:
        found.append(MOVE)
    elif AT_ONCE in status:
        found.append(WIDEN)
    plain = ADVICE.get(ending, "") + (LATER if ending is Ending.INFEASIBLE and not found else "")
    implicit = problem is not None and ability(problem.dynamics, "implicit")
    if ending is Ending.DIVERGED and not implicit:
        plain += STIFFLY
    if ending is Ending.NOT_FINITE and implicit and OF_STEPS in status:
        found.append(SHORTER)
    return "; or ".join([*found, plain] if plain else found)


def _doubts(problem: Problem) -> list[str]:
    """Sentences about what is hardly meant in a problem, each once: a cost and a constraint may have one target."""
    doubts = ability(problem.dynamics, "doubts")
    return [] if doubts is None else list(dict.fromkeys(doubts(problem)))


def _strained(problem: Problem, U: Any) -> Iterator[str]:
    """The control that is at a limit for most of a motion that constraints ask more of."""
    lower, upper = problem.lower, problem.upper
    with np.errstate(invalid="ignore"):  # at what has no limit
        at = (U - lower <= NEAR * np.abs(lower)) | (upper - U <= NEAR * np.abs(upper))
    i = int(at.sum(axis=0).argmax())
    if 2 * (count := int(at[:, i].sum())) >= len(U):
        name = controls(problem.dynamics, U).names[i]
        yield f"allow more of control {name}, which is at a limit at {count} of {len(U)} knots"


def _joined(shares: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """Shares, summed over knots and stretches for terms of one kind."""
    found: dict[str, list[float]] = {}
    for name, cost in shares:
        where, at, term = name.partition(": ")
        found.setdefault(term if at else where, []).append(cost)
    named = {f"{name}, at {len(costs)} places" if len(costs) > 1 else name: sum(costs) for name, costs in found.items()}
    return sorted(named.items(), key=lambda share: -abs(share[1]))


def _misses(problem: Problem, X: Any) -> Iterator[str]:
    """Misses of the targets of terms at the end and at single knots."""
    if not np.isfinite(X).all():
        return
    for k, terms in problem.at.items():
        yield from (f"knot {k}: {told}" for told in misses_of(terms, X[k]))
    yield from misses_of(problem.terminal, X[-1])


def _on_the_way(problem: Problem, X: Any) -> Iterator[str]:
    """The largest miss of each running term's target that moves."""
    for term in problem.running if np.isfinite(X).all() else ():
        missed = getattr(term, "missed_most", None)
        yield from missed(X[: problem.horizon]) if callable(missed) else ()


def misses_of(terms: Sequence[Any], x: Any) -> Iterator[str]:
    """Misses of the targets of terms in a state x (nx,), in words."""
    for term in terms:
        missed = getattr(term, "missed", None)
        yield from missed(x) if callable(missed) else ()


def is_far(motion: Motion | Solution, problem: Problem) -> bool:
    """Whether most of the cost is that of a motion's end, and that end far from its targets, as to the way from x0."""
    X, U = motion.X, motion.U
    costs = np.abs(problem.values(X, U))
    if not 2.0 * costs[-1] > costs.sum():
        return False
    return bool(costs[-1] > FAR * abs(problem.values(np.tile(problem.x0, (len(X), 1)), U)[-1]) > 0.0)


def may_be_dear(motion: Motion | Solution, problem: Problem) -> bool:
    """Whether a minimum may be far from the best one: a joint turns far, and not towards a target out of reach.

    Not where costs of the end ask for one posture: those of states, whose Hessians are diagonal.
    """
    turn, beyond = ability(problem.dynamics, "turn"), ability(problem.dynamics, "is_beyond_reach")
    if turn is None or beyond is None or is_underactuated(problem.dynamics) or problem.separable[-1]:
        return False
    return bool(turn(motion.X) > TURN) and not (is_far(motion, problem) and beyond(problem))


def stays(motion: Motion | Solution) -> bool:
    """Whether a motion stays at its first state."""
    return bool((motion.X[0] == motion.X).all())


def rests(motion: Motion | Solution, problem: Problem) -> bool:
    """Whether a motion stays at x0 though the cost changes with states, and with no control."""
    X, n = motion.X, problem.dynamics.n
    if not stays(motion):
        return False
    d, noted = problem.allocate(), FIRST if problem.objective.noted else 0  # which costs read of steps
    problem.expand(X, problem.padded(motion.U), d, 0, problem.horizon + 1, noted | GAUSS_NEWTON)
    slopes = np.abs(d.lz)
    return bool(slopes[:, :n].max() > 1e-6 and slopes[:-1, n:].max(initial=0.0) <= 1e-9 * slopes[:, :n].max())


def _are_free(problem: Problem, solution: Solution) -> bool:
    """Whether no cost and no constraint depends on the states between the first and the last."""
    X, N, n = solution.X, problem.horizon, problem.dynamics.n
    if problem.constrained or N < 2 or not np.isfinite(X).all():
        return False
    d = problem.allocate()
    with np.errstate(all="ignore"):
        problem.expand(X, problem.padded(solution.U), d, 0, N + 1)
    return not d.lz[1:N, :n].any()


def _costs(problem: Problem, X: Any, U: Any) -> Iterator[tuple[str, float]]:
    """Name and cost of each term, as the only one of the problem."""
    for name, cost in alone(problem):
        with np.errstate(all="ignore"):
            yield name, cost.total(X, U)
    if problem.rows.softened:
        yield "violations of soft constraints", problem.paid(X, U)


def alone(problem: Problem) -> Iterator[tuple[str, Objective]]:
    """Name of each term, and it alone."""
    for name, place in named_terms(problem):
        alone: dict[str, Any] = {"running": (), "during": {}, "at": {}, "terminal": ()}
        terms = (place.thing(problem),)
        alone[place.listed] = terms if place.key is None else {place.key: terms}
        yield name, Objective.of(problem.dynamics, problem.horizon, problem.x0, **alone, tried=True)


def named_terms(problem: Problem) -> Iterator[tuple[str, Place]]:
    """Each term by the name that explanations give it, and where it is; those of one knot may have the same name."""
    for place in things_of(problem, TERMS):
        yield f"{_where(place)} {_described(place.thing(problem))}", place


def _where(place: Place) -> str:
    """Place of a term in its list, or the knots at which it counts."""
    knots = place.key
    if knots is None:
        return str(place)
    return f"knots {knots.start} to {knots.stop - 1}:" if isinstance(knots, range) else f"knot {knots}:"


def _described(term: Any) -> str:
    """Name of a user's function, or the kind of a term, and the frame that it is about."""
    frame = getattr(inside(term), "frame", None)
    return kind_of(term) + (f" of {frame}" if isinstance(frame, str) else "")


def _limits(problem: Problem, solution: Solution) -> Iterator[str]:
    for side, limit in (("lower", problem.lower), ("upper", problem.upper)):
        held = np.isclose(solution.U, limit, rtol=1e-9, atol=0.0).sum(axis=0)
        for name, count in zip(controls(problem.dynamics, solution.U).names, held.tolist(), strict=True):
            if count:
                yield f"control {name} at its {side} limit at {count} of {len(solution.U)} knots"


def _constraints(solution: Solution) -> Iterator[str]:
    """Constraints whose multipliers are not zero, and those that are violated; those alike at single knots as one."""
    if not solution.multipliers.size:
        return
    least = HOLDS * float(np.abs(solution.multipliers).max())
    alike: dict[str, list[Residual]] = {}
    for residual in solution.residuals():
        alike.setdefault(shared_name(residual.name), []).append(residual)
    for name, residuals in alike.items():
        sizes = [np.abs(residual.multipliers) for residual in residuals]
        hardest = max(range(len(sizes)), key=lambda j: sizes[j].max())
        one, size = residuals[hardest], sizes[hardest]
        worst = max(residuals, key=lambda residual: residual.worst)
        span = f"{residuals[0].knots[0]} to {residuals[-1].knots[0]}"
        label = name.replace("...", span, 1) if len(sizes) > 1 else one.name
        missed = str(worst).replace(worst.name, label, 1) if worst.worst > TOLD else ""
        if len(residuals) > 1 and missed and (others := sum(residual.violated for residual in residuals) - 1):
            missed += f", by less at {others} more"
        told = ""
        if size.max() > least:
            held = sum(int((each > least).any(axis=1).sum()) for each in sizes)
            k, i = np.unravel_index(int(size.argmax()), size.shape)
            strongest = f"hardest at knot {one.knots[int(k)]}, multiplier {one.multipliers[k, i]:.3g}"
            told = f" at {held} of {sum(map(len, sizes))} knots, {strongest}"
        if missed:
            yield f"{missed}; held{told}" if told else missed
        elif told:
            yield f"{label}{told}"


def _course(solution: Solution) -> str:
    """Iterations by model and by step."""
    past = solution.history
    if not past:
        return f"{solution.iterations} iterations, without a record of each" if solution.iterations else "no iterations"
    kinds = ", ".join(f"{count} {name}" for name, count in Counter(record.hessian for record in past).items())
    short = sum(0.0 < record.step < 1.0 for record in past)
    refused, raised = sum(record.step == 0.0 for record in past), max(record.regularization for record in past)
    linear = sum(record.full_space for record in past)
    if linear:
        kinds += f"; {'all' if linear == len(past) else linear} by full-space steps"
    parts = [f"{len(past)} iterations ({kinds})", f"{short} shortened, {refused} without a step"]
    if raised > 0.0:
        parts.append(f"regularisation up to {raised:.1e}")
    ends = past[-4:]
    if past[-1].full_space:  # whose expected decreases count what is open, at the price of its multipliers
        gradients = [*(record.gradient for record in ends[1:]), solution.gradient]
        parts.append("last gradients " + _listed(gradients))
        parts.append("largest gaps or violations " + _listed([max(record.gap, record.violation) for record in ends]))
    elif expected := [record.expected for record in ends if record.expected > 0.0]:
        parts.append("last expected decreases " + _listed(expected))
    return "; ".join(parts)


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.1e}" for value in values)

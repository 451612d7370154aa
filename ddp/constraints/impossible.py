"""Proof that constraints cannot be met, as far as one can be had where motion and constraints are not linear.

Multipliers y of the rows c, each with the sign of the bound b that it is beyond, weigh what is missed (Farkas' lemma):

    m(U) = Σ y (c - b)

Controls that meet all constraints have m <= 0, whatever y is. So y prove that there are none where m > 0 for all
controls. Of this there are two tests:

    m > Σ_k Σ_i |g_ki| r_ki,   g = ∂m/∂U       no change of controls by up to r, within their limits, to first order
    m(U') > 0                                  some hundred other motions, by controls U' within limits

Multipliers of a minimum of violations, where g vanishes for controls that are not held by limits, pass the first one.
They pass the second one, too, if there is no way; those of minima that are but local fail. So do those of bounds that
are not convex, as of a goal inside an obstacle: there serves another test, that no state meets what is bounded at the
knot where most is missed, see unreachable.py.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from ddp.adjoint import costates
from ddp.constraints.lagrangian import shared_name
from ddp.constraints.unreachable import contradicting, nearest
from ddp.costs.terms import TermError
from ddp.derivatives import Derivatives
from ddp.errors import ModelError, ProblemError
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.systems.system import ability

PROVEN = 0.5
"""Constraints cannot be met where no larger share of what is missed may be taken away, see `removable`."""

TRIED, WAVES = 16, 4
"""Other motions that are tried of each kind, each at several fractions, and waves that smooth ones are made of."""

WEIGHED, MOST = 1e-4, 3
"""Multipliers beyond this share of the largest tell of what holds, and so many constraints are named."""

LESS = 0.9
"""Share of what multipliers miss that other motions doubt a proof by, see `doubts`."""

BY_NO_STATE = "no state meets"
"""Words of a proof that does not come from multipliers."""

ENOUGH = 16
"""Other motions that are enough for a proof, of those that are tried."""

FRACTIONS, REACH = np.array([1.0, 0.3, 0.1, 0.03]), 30.0
"""Fractions of the way to other controls; how large they are where there are no limits, times the largest present."""

RANDOM, KEPT, POWERS = 4096, 256, (-2.0, 0.5)
"""Random states beside those of a motion, of which so many that violate least are tried; and powers of ten of how far
they are, times how far it goes."""

NOTHING = 1e-8
"""Controls, and motions of states, that are no larger are left by rounding: they say nothing of how large controls may
be. Where controls far below one move states, as in large units, they are compared with this share of such controls."""


class Held(NamedTuple):
    """A trajectory X, U of a problem with gaps (N, n) of states, its derivatives d, and multipliers y (m,) of rows.

    factors: of rows, by which violations are measured, see `unreachable.Knot`.
    """

    problem: Problem
    d: Derivatives
    X: Array
    U: Array
    gaps: Array
    y: Array
    factors: Array | None = None


def proof(at: Held) -> str | None:
    """Proof in words, by this module's tests, that constraints cannot be met; None if there is none."""
    share, problem, rows = removable(at), at.problem, at.problem.rows
    if share > PROVEN:
        return None
    others = list(_motions(problem, at.U))
    if len(others) < ENOUGH:  # all diverge, say
        return None
    knot = int(rows.knot[np.abs(_weights(problem, at.y) * rows.beyond(rows.values(at.X, at.U))).argmax()])
    if unmet := _by_no_state(problem, knot, at.X, at.U, others, at.factors):
        return unmet
    if _nearest(problem, others, at.y):
        return None
    taken = f"no change of controls as large as themselves takes away more than {100.0 * share:.2g} % of what is missed"
    tried = f"none of {len(others)} other motions that were tried takes away all of it"
    return f"{_opposed(at)}{taken}, to first order, and {tried}"


def unmet_by_states(problem: Problem, X: Array, U: Array, factors: Array) -> tuple[str, str] | None:
    """Worst violation of a motion X, U, and proof that no state meets that knot's constraints; None if there is none.

    It asks for no multipliers, so that it serves wherever solves end.   factors (m,): as of `Held`.
    """
    rows = problem.rows
    with np.errstate(all="ignore"):  # motions may be far out
        c = values(problem, X, U)
        if c is None or not np.isfinite(X).all():
            return None
        worst = int(np.where(rows.soft, 0.0, np.abs(rows.beyond(c) * factors)).argmax())
        knot = int(rows.knot[worst])
        if _by_no_state(problem, knot, X, U, [], factors) is None:  # nearly always, at the cost of one motion
            return None
        others = list(_motions(problem, U))
        unmet = _by_no_state(problem, knot, X, U, others, factors) if len(others) >= ENOUGH else None
        return None if unmet is None else (str(problem.residuals(X, U)[rows.constraint[worst]]), unmet)


def _by_no_state(
    problem: Problem, knot: int, X: Array, U: Array, others: list["_Motion"], factors: Array | None
) -> str | None:
    """Proof in words that no state near those of a motion X, U and of others meets the constraints of a knot."""
    U = problem.padded(U)
    beside = _beside(problem, X, U, RANDOM) if others else None
    X = np.concatenate([X, *(other.X[knot : knot + 1] for other in others)])
    U = np.concatenate([U, *(problem.padded(other.U)[knot : knot + 1] for other in others)])
    try:
        if beside is not None:
            near = nearest(problem, knot, *beside, KEPT, factors)
            X, U = (np.concatenate([one, other[near]]) for one, other in zip((X, U), beside, strict=True))
        unmet = contradicting(problem, knot, X, U, factors, beside is not None)
    except (ProblemError, TermError):  # a user's own code fails at some state, which proves nothing
        return None
    more = f" and {len(unmet) - MOST} more" if len(unmet) > MOST else ""
    together = " together" if len(unmet) > 1 else ""
    named = " and ".join(unmet[:MOST]) + more
    return f"{BY_NO_STATE} {named} at knot {knot}{together}, as near as {len(X)} come" if unmet else None


def _beside(problem: Problem, X: Array, U: Array, count: int) -> tuple[Array, Array]:
    """So many states beside X (M, nx) with controls U (M, nu), always the same ones, far and near."""
    random, system = np.random.default_rng(0), problem.dynamics
    at = random.integers(len(X), size=count)
    far = 10.0 ** random.uniform(*POWERS, (count, 1)) * random.normal(size=(count, system.n))
    return system.integrate(X[at], far * _extent(problem, X)), U[at]


def elsewhere(problem: Problem, U: Array, y: Array, most: float = 0.0) -> list[Array]:
    """Controls (N, nu) by which multipliers y (m,) miss nothing, or no more than so much: they prove nothing then.

    They are tried around controls U: see this module. Those that violate least, weighed by y, come first. Solves begin
    there, so motions without a finite cost are left out.
    """
    with np.errstate(all="ignore"):  # they may be far out
        motions = (one for one in _motions(problem, U) if np.isfinite(problem.total(one.X, one.U)))
        return _nearest(problem, motions, y, most)


def doubts(problem: Problem, X: Array, U: Array, y: Array) -> list[Array]:
    """Controls (N, nu) that doubt a proof by multipliers y (m,) of a motion X, U: by these they miss much less.

    So the minimum of violations that the multipliers belong to is but a local one.
    """
    with np.errstate(all="ignore"):
        missed = _missed(problem, _weights(problem, y), problem.rows.values(X, U))
        return elsewhere(problem, U, y, LESS * missed) if np.isfinite(missed) else []


def _opposed(at: Held) -> str:
    """Other constraints that multipliers weigh, else the limits of the control that hold the most, in words.

    Limits have to be wider at least by what takes away all that is missed, to first order, if they alone are changed.
    """
    problem, rows, U, y = at.problem, at.problem.rows, at.U, _weights(at.problem, at.y)
    on_next, g = _gradient(at, np.zeros_like(at.d.lz), y)
    c = rows.values(at.X, U)
    missed = _missed(problem, y, c) + float((on_next * at.gaps).sum())
    strongest = [entry.first + int(np.abs(entry.own(y)).argmax()) for entry in problem.placed]
    worst = rows.constraint[np.abs(np.where(rows.soft, 0.0, rows.beyond(c))).argmax()]
    held = [i for i in strongest if np.abs(y[i]) > WEIGHED * np.abs(y).max() and rows.constraint[i] != worst]
    kinds: dict[str, list[int]] = {}
    for i in held:
        kinds.setdefault(shared_name(problem.placed[rows.constraint[i]].name), []).append(i)
    found = []
    for alike in [*kinds.values()][:MOST]:
        hardest = max(alike, key=lambda i: abs(float(y[i])))
        more = f" and {len(alike) - 1} more like it" if len(alike) > 1 else ""
        found.append(f"{problem.placed[rows.constraint[hardest]].name} at knot {rows.knot[hardest]}{more}")
    room = np.where(g == 0.0, 0.0, np.abs(g) * np.where(g > 0.0, U - problem.lower, problem.upper - U)).sum()
    slopes = np.abs(g).sum(axis=0)
    i = int((slopes * _largest(problem, U)).argmax())
    if not found and room < missed and slopes[i] > 0.0:  # whatever controls do within limits
        names = ability(problem.dynamics, "named_numbers")
        wider = f"have to be wider by {(missed - room) / slopes[i]:.2g} at least, to first order, if they alone change"
        found = [f"limits of control {f'u{i}' if names is None else names[2][i]}, which {wider}"]
    return f"what holds against it: {' and '.join(found)}; " if found else ""


def removable(at: Held) -> float:
    """Share of what is missed that changes of controls may take away, to first order, by this module's test.

    Below 1 linearised constraints cannot be met by controls that change by no more than the largest of their kind.
    Multipliers of soft constraints do not count.
    """
    y = _weights(at.problem, at.y)
    on_next, least = _changes(at, np.zeros_like(at.d.lz), y)
    missed = _missed(at.problem, y, at.problem.rows.values(at.X, at.U)) + float((on_next * at.gaps).sum())
    return least / missed if missed > 0.0 else np.inf


def slope(at: Held) -> float:
    """Change of the Lagrangian, to first order, by controls that change by no more than the largest of their kind."""
    return _changes(at, at.d.lz.copy(), at.y)[1]


def _changes(at: Held, lz: Array, y: Array) -> tuple[Array, float]:
    """Costates (N, n) of next states, and Σ |g| r, of a sum with gradients lz (N+1, nz) and Σ y c."""
    problem, U = at.problem, at.U
    on_next, g = _gradient(at, lz, y)
    room = np.minimum(np.where(g > 0.0, U - problem.lower, problem.upper - U), _largest(problem, U))
    return on_next, float((np.abs(g) * np.maximum(room, 0.0)).sum())


def _gradient(at: Held, lz: Array, y: Array) -> tuple[Array, Array]:
    """Costates (N, n) of next states, and gradient g (N, nu) in controls, of a sum with gradients lz and Σ y c."""
    at.problem.add_forces(at.X, at.U, y, lz)
    on_next = costates(at.d.A, lz)[1:]
    return on_next, lz[:-1, at.problem.dynamics.n :] + np.einsum("kij,ki->kj", at.d.B, on_next)


def _largest(problem: Problem, U: Array) -> Array:
    """The largest (nu,) of each kind of controls U (N, nu); one where all of them are next to nothing."""
    largest = np.abs(U).max(axis=0)
    small = (largest > 0.0) & (largest <= NOTHING)
    bound = NOTHING * np.minimum(1.0, _moving(problem, U)) if small.any() else NOTHING
    return np.asarray(np.where(largest > bound, largest, 1.0))


def _moving(problem: Problem, U: Array) -> Array:
    """Controls (nu,) that move states in one step by as much as U does in all, or as states are; one where none do."""
    system = problem.dynamics
    try:
        X, B = system.rollout(problem.x0, U), system.linearize(problem.x0, U[0])[1]
    except ModelError:  # there is no motion
        return np.ones(U.shape[1])
    size = _extent(problem, X)
    moves = np.abs(B[size > NOTHING] / size[size > NOTHING, None]).sum(axis=0)
    return np.divide(1.0, moves, out=np.ones_like(moves), where=moves > 0.0)


def _extent(problem: Problem, X: Array) -> Array:
    """The furthest (n,) that states X (M, nx) are from the first one; on flat spaces from zero, too."""
    system = problem.dynamics
    size = np.abs(system.difference(np.broadcast_to(X[0], X.shape), X)).max(axis=0)
    return np.maximum(size, np.abs(X).max(axis=0)) if system.nx == system.n else np.asarray(size)


def _weights(problem: Problem, y: Array) -> Array:
    """Multipliers y (m,) without those of soft constraints, and of bounds that do not exist."""
    rows = problem.rows
    return np.where(rows.soft | ~np.isfinite(np.where(y < 0.0, rows.lower, rows.upper)), 0.0, y)


def _missed(problem: Problem, y: Array, c: Array) -> float:
    """Sum m of y (m,) times what values c (m,) of rows are beyond the bounds that y belongs to."""
    rows, weighed = problem.rows, y != 0.0
    bound = np.where(y < 0.0, rows.lower, rows.upper)
    return float((y[weighed] * (c - bound)[weighed]).sum())


class _Motion(NamedTuple):
    """States X (N+1, nx) that follow from controls U (N, nu), and values c (m,) of rows."""

    X: Array
    U: Array
    c: Array


def _motions(problem: Problem, U: Array) -> Iterator[_Motion]:
    """Motions around controls U, always the same ones, without those where constraints have no values.

    Controls are noise, waves, and both at their extremes, anywhere within limits, see `REACH`.
    """
    system, (N, nu), random = problem.dynamics, U.shape, np.random.default_rng(0)
    reach = np.maximum(REACH * _largest(problem, U), _moving(problem, U))
    low = np.where(np.isfinite(problem.lower), problem.lower, np.minimum(-reach, problem.upper))
    high = np.where(np.isfinite(problem.upper), problem.upper, np.maximum(reach, problem.lower))
    X, K, closed = np.full((N + 1, system.nx), problem.x0), np.zeros((N, nu, system.n)), np.zeros((N, system.n))
    for way in _ways(random, N, nu):
        k = 0.5 * (low + high) + 0.5 * (high - low) * way - U
        try:
            tracked = system.track(X, U, k, K, FRACTIONS, closed, problem.lower, problem.upper)
        except ModelError:  # there is no motion
            continue
        for x, u in zip(*tracked, strict=True):
            if np.isfinite(x).all() and (c := values(problem, x, u)) is not None:
                yield _Motion(x, u, c)


def values(problem: Problem, X: Array, U: Array) -> Array | None:
    """Values c (m,) of rows; None where they are no numbers, or a user's own code fails: these are far-off motions."""
    try:
        c = problem.rows.values(X, U)
    except ProblemError:
        return None
    return None if np.isnan(c).any() else c


def _ways(random: np.random.Generator, N: int, nu: int) -> Iterator[Array]:
    """Numbers (N, nu) between -1 and 1, of several kinds in turn."""
    time, wave = np.linspace(0.0, np.pi, N)[:, None], np.arange(WAVES)[:, None, None]
    for _ in range(TRIED):
        noise = random.uniform(-1.0, 1.0, (N, nu))
        phase, size = random.uniform(0.0, 2.0 * np.pi, (WAVES, 1, nu)), random.normal(size=(WAVES, 1, nu))
        smooth = (size / (1.0 + wave) * np.sin(wave * time + phase)).sum(axis=0)
        yield from (smooth / np.abs(smooth).max(axis=0), np.sign(smooth), noise, np.sign(noise))


def _nearest(problem: Problem, motions: Iterable[_Motion], y: Array, most: float = 0.0) -> list[Array]:
    """Controls of motions by which y (m,) miss no more than so much; those that violate least, weighed by y, first."""
    y, rows = _weights(problem, y), problem.rows
    found = [(np.abs(y * rows.beyond(c)).sum(), U) for _, U, c in motions if _missed(problem, y, c) <= most]
    return [U for _, U in sorted(found, key=lambda one: float(one[0]))]

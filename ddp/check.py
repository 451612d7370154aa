"""Are the derivatives right? Every one the solver uses, against differences of the functions themselves."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ddp import differences
from ddp.costs.batch import BatchTerm
from ddp.derivatives import Derivatives
from ddp.errors import ProblemError, as_array, instance, items, said
from ddp.problem import Problem
from ddp.protocols import Array, Constraint
from ddp.solver import start_policy
from ddp.systems.system import Expansion

FIRST_TOLERANCE = 1e-6
"""First derivatives: differences are good to 1e-9 or so; a wrong formula is rarely off by less than 1e-3."""

SECOND_TOLERANCE = 3e-6
"""Second derivatives: differences are good to 1e-8 or so."""

SAMPLED_KNOTS = 5

CLOSER = 1.0 / 20.0, 1.0 / 400.0
"""Where an entry seems wrong, it is looked at again with steps this much smaller, as far as rounding lets it."""

FINER = 0.5, 0.25
"""Steps this much shorter tell whether an error is the differences' own: it shrinks by 16 from each to the next."""

LONGER = 4.0, 8.0
"""Where rounding hides a tenth of the tolerance, steps this much longer are tried; two, to know what they miss."""

DEVIATIONS = 30.0
"""How many standard deviations of rounding an entry may be off: there are thousands of them."""

NEARER = 8
"""How often a state whose step is not finite is drawn nearer to the guess, by half."""

PROBES = 3
"""Directions along which rounding is measured."""


@dataclass(frozen=True)
class DerivativeCheck:
    """One derivative at one knot: the largest error relative to the largest entry, and the entry where it is.

    name: what was checked.  entry: its index.  given: its value as the solver gets it.  numerical: as
        differences say.
    smooth: whether differences can judge; not at a kink or a cut, such as a joint's limit or half a turn, where
        the two sides differ, or where smaller steps tell another story, nor where the function is not finite.
    """

    name: str
    knot: int
    error: float
    tolerance: float
    entry: tuple[int, ...]
    given: float
    numerical: float
    smooth: bool = True

    @property
    def ok(self) -> bool:
        """Whether it is not known to be wrong."""
        return self.error <= self.tolerance or not self.smooth

    def __str__(self) -> str:
        if self.error <= self.tolerance:
            return f"ok     {self.name}: relative error {self.error:.1e} at knot {self.knot}"
        if not self.smooth:
            kind = "smooth" if np.isfinite(self.numerical) else "finite"
            return f"?      {self.name}: not {kind} here, at knot {self.knot}, entry {list(self.entry)}"
        return (
            f"WRONG  {self.name}: relative error {self.error:.1e} at knot {self.knot}, "
            f"entry {list(self.entry)} is {self.given:.6g}, differences say {self.numerical:.6g}"
        )


@dataclass(frozen=True)
class DerivativeReport:
    """All checks; prints the worst knot of every derivative, wrong ones first."""

    checks: tuple[DerivativeCheck, ...]

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)

    @property
    def wrong(self) -> tuple[DerivativeCheck, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if not check.ok)

    def __str__(self) -> str:
        worst: dict[str, DerivativeCheck] = {}
        for check in self.checks:
            if check.name not in worst or _severity(check) > _severity(worst[check.name]):
                worst[check.name] = check
        wrong = sum(not check.ok for check in worst.values())
        unknown = sum(not check.smooth for check in worst.values())
        verdict = f"all {len(worst)} derivatives are right"
        if wrong:
            verdict = f"{wrong} of {len(worst)} derivatives are wrong"
        elif unknown:
            finite = all(np.isfinite(check.numerical) for check in worst.values())
            kind = "smooth" if finite else "smooth or finite"
            verdict = f"no derivative is wrong, {unknown} of {len(worst)} cannot be judged where they are not {kind}"
        return "\n".join([verdict, *map(str, sorted(worst.values(), key=_severity, reverse=True))])


def _severity(check: DerivativeCheck) -> tuple[bool, bool, float]:
    return not check.ok, not check.smooth, check.error


@np.errstate(all="ignore")
def check_derivatives(
    problem: Problem, X: Array | None = None, U: Array | None = None, knots: Iterable[int] | None = None
) -> DerivativeReport:
    """Compare every derivative of ``problem`` along X (N+1, nx), U (N, nu) with 4th-order differences of the
    functions; without X and U near the start of a solve, the problem's guess if it has one: see `excited`.

    The dynamics' A and B, the Hessian of a random weight (of a fixed seed) times the dynamics as the backward
    sweep gets it, and the gradient and exact Hessian of every cost term, the Jacobian of every constraint and
    the Hessian of a random weight times it. Only ``step``, ``integrate``,
    ``difference`` and the terms' values are differenced, never a derivative. X need not be a rollout of U.

    knots: which of 0 .. N to check; by default five evenly spread, and those of ``problem.at`` and ``constraints_at``.
    Entries that are not smooth there, where differences mean nothing, are reported as such, not as wrong.
    """
    instance("problem", problem, Problem)
    N, d = problem.horizon, problem.dynamics
    problem.renew()
    if X is None and U is None:
        X, U = excited(problem)
    if X is None or U is None:
        raise ProblemError(f"{'X' if X is None else 'U'}: expected X and U, or neither, got one of them")
    X = as_array("X", X, (N + 1, d.nx))
    d.check_state("X", X)
    U = problem.padded(as_array("U", U, (N, d.nu)))
    chosen = _chosen(problem, knots)
    derivatives = problem.allocate()
    expansion = Expansion(derivatives.A, derivatives.B, derivatives.record)
    d.expand(X[:N], U[:N], expansion)
    d.expand_second(X[:N], U[:N], expansion)  # no cost's wishes are in the records
    checks: list[DerivativeCheck] = []
    for knot in (k for k in chosen if k < N):
        checks += _dynamics_checks(problem, derivatives, knot, X[knot], U[knot])
    for name, term, own in problem.terms():
        for knot in (k for k in chosen if own.start <= k < own.stop):
            checks += _term_checks(problem, name, term, knot, X[knot], U[knot])
    for placed in problem.placed:
        for knot in (k for k in chosen if placed.start <= k < placed.stop):
            checks += _constraint_checks(problem, placed.name, placed.constraint, knot, X[knot], U[knot])
    return DerivativeReport(tuple(checks))


def excited(problem: Problem) -> tuple[Array, Array]:
    """States (N+1, nx) and controls (N, nu) near the guess, where no derivative vanishes by chance; always the same.

    States whose step, or its derivative, is not finite are drawn nearer to the guess.
    """
    rng = np.random.default_rng(0)
    system, given = problem.dynamics, start_policy(problem, problem.guess)
    U = given.U + 0.1 * rng.normal(size=given.U.shape)
    X = given.X if given.imposed else system.rollout(problem.x0, U)
    away, derivatives = 0.1 * rng.normal(size=(len(X), system.n)), problem.allocate()
    for _ in range(NEARER):
        moved = system.integrate(X, away)
        system.expand(moved[:-1], U, Expansion(derivatives.A, derivatives.B, derivatives.record))
        stuck = ~(np.isfinite(derivatives.A).all(axis=(1, 2)) & np.isfinite(derivatives.B).all(axis=(1, 2)))
        if not stuck.any():
            break
        away[:-1][stuck] /= 2.0
    return moved, U


def _chosen(problem: Problem, knots: Iterable[int] | None) -> list[int]:
    N = problem.horizon
    if knots is None:
        single = {*problem.at, *(knot.start if isinstance(knot, range) else knot for knot in problem.constraints_at)}
        return sorted({*np.linspace(0, N, SAMPLED_KNOTS).astype(int).tolist(), N - 1, *single})
    several = isinstance(knots, Iterable) and not isinstance(knots, str)
    chosen: Sequence[Any] = items("knots", knots, "knots") if several else [knots]
    for knot in chosen:
        if isinstance(knot, bool) or not isinstance(knot, (int, np.integer)) or not 0 <= knot <= N:
            raise ProblemError(f"knots: expected knots from 0 to {N}, got {said(knot)}")
    return sorted({int(knot) for knot in chosen})


def _dynamics_checks(
    problem: Problem, out: Derivatives, knot: int, x: Array, u: Array
) -> list[DerivativeCheck]:
    d = problem.dynamics
    weight = np.random.default_rng(knot).normal(size=d.n)
    nominal = d.step(x, u, knot)

    def change(Xs: Array, Us: Array) -> Array:
        reached = np.array([d.step(*point, knot) for point in zip(Xs, Us, strict=True)])
        return d.difference(np.tile(nominal, (len(Xs), 1)), reached)

    size = float(np.abs(nominal).max())
    given = np.empty((d.n + d.nu, d.n + d.nu))
    _contract(problem, out.record[knot], weight, given)
    first = _Differences(problem, change, x, u, 1.0 + size)
    total = 1.0 + size * float(np.abs(weight).sum())
    second = _Differences(problem, lambda Xs, Us: change(Xs, Us) @ weight, x, u, total)
    return [
        first.check_first("dynamics A", knot, out.A[knot], slice(0, d.n)),
        first.check_first("dynamics B", knot, out.B[knot], slice(d.n, None)),
        second.check_second("dynamics Hessian", knot, given),
    ]


def _term_checks(
    problem: Problem, name: str, term: BatchTerm, knot: int, x: Array, u: Array
) -> list[DerivativeCheck]:
    d = problem.dynamics
    nz = d.n + d.nu
    value, gradient, hessian = np.zeros(1), np.zeros((1, nz)), np.zeros((1, nz, nz))
    term.expand(x[None], u[None], 1.0, True, value, gradient, hessian)
    used = slice(0, nz if knot < problem.horizon else d.n)
    about = _Differences(problem, term.values, x, u, abs(float(value[0])))
    return [
        about.check_first(f"{name} gradient", knot, gradient[0, used], used),
        about.check_second(f"{name} Hessian", knot, hessian[0, used, used]),
    ]


def _constraint_checks(
    problem: Problem, name: str, constraint: Constraint, knot: int, x: Array, u: Array
) -> list[DerivativeCheck]:
    d = problem.dynamics
    value = constraint.values(x[None], u[None])[0]
    weight = np.random.default_rng(knot).normal(size=value.size)
    used = slice(0, d.n + d.nu if knot < problem.horizon else d.n)
    jacobian = constraint.jacobian(x[None], u[None])[0]
    curvature = constraint.curvature(x[None], u[None], weight[None])[0]
    size = float(np.abs(value).max())
    first = _Differences(problem, constraint.values, x, u, 1.0 + size)
    total = 1.0 + size * float(np.abs(weight).sum())
    second = _Differences(problem, lambda Xs, Us: constraint.values(Xs, Us) @ weight, x, u, total)
    return [
        first.check_first(f"{name} Jacobian", knot, jacobian[:, used], used),
        second.check_second(f"{name} Hessian", knot, curvature[used, used]),
    ]


@dataclass(frozen=True)
class _Differences:
    """Differences of a batched function about one knot, in exponential coordinates.

    size: the magnitude that its values have at least, whose rounding the differences divide by h or h².
    """

    problem: Problem
    function: Callable[[Array, Array], Array]
    x: Array
    u: Array
    size: float

    def check_first(self, name: str, knot: int, given: Array, columns: slice) -> DerivativeCheck:
        """Compare some columns of the first derivative (..., nz)."""

        def look(closeness: float) -> _Look:
            h = self._steps(differences.FIRST * closeness)
            values = self._values(np.diag(h))
            found, gap = differences.first_difference(values), differences.one_sided_gaps(values)[0]
            found, gap = (np.moveaxis(array, 0, -1)[..., columns] / h[columns] for array in (found, gap))
            return _Look(found, gap, self._noise(found.shape[:-1], values)[..., None] / h[columns])

        return _compared(name, knot, given, look, FIRST_TOLERANCE)

    def check_second(self, name: str, knot: int, given: Array) -> DerivativeCheck:
        """Compare the first rows and columns of the Hessian (nz, nz) of a function of one value."""

        def look(closeness: float) -> _Look:
            h, own = self._steps(differences.SECOND * closeness), slice(0, len(given))
            values = self._values(differences.coordinate_pairs(len(h)) * h)
            found = differences.polarised(differences.second_difference(values), h)
            gap = differences.polarised(differences.one_sided_gaps(values)[1], h, 1.0)
            return _Look(found[own, own], gap[own, own], 4.0 * self._noise((), values) / np.outer(h, h)[own, own])

        return _compared(name, knot, given, look, SECOND_TOLERANCE)

    def _steps(self, h: float) -> Array:
        return np.concatenate([np.full(self.problem.dynamics.n, h), differences.steps(self.u, h)])

    def _values(self, directions: Array) -> Array:
        n, Z = self.problem.dynamics.n, differences.displacements(directions)
        X = self.problem.dynamics.integrate(np.tile(self.x, (len(Z), 1)), np.ascontiguousarray(Z[:, :n]))
        return self.function(X, self.u + Z[:, n:])

    def _noise(self, shape: tuple[int, ...], values: Array) -> Array:
        """Bound of the rounding of each value, of this shape: as measured nearby, but no less than expected."""
        expected = 100.0 * float(np.finfo(float).eps) * max(self.size, _size(values))
        return np.maximum(expected, DEVIATIONS * self._measured.reshape(shape))

    @cached_property
    def _measured(self) -> Array:
        """The largest standard deviation of rounding along some directions."""
        n, nz = self.problem.dynamics.n, self.problem.dynamics.n + self.problem.dynamics.nu
        found = []
        for direction in np.cos(np.outer(1.0 + np.arange(PROBES), 1.0 + np.arange(nz))):
            Z = differences.NEARBY[:, None] * direction * self._steps(1.0)
            X = self.problem.dynamics.integrate(np.tile(self.x, (len(Z), 1)), np.ascontiguousarray(Z[:, :n]))
            found.append(differences.noise(np.asarray(self.function(X, self.u + Z[:, n:]))))
        return np.nan_to_num(np.max(found, axis=0))


class _Look(NamedTuple):
    """A derivative by differences, how far its two sides are apart, and what rounding hides of both."""

    numerical: Array
    gap: Array
    noise: Array


def _contract(problem: Problem, record: Array, weight: Array, out: Array) -> None:
    """Call the compiled second order as the backward sweep does."""
    contraction = problem.dynamics.contraction()
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(contraction.address)
    function(contraction.context, record.ctypes.data, weight.ctypes.data, out.ctypes.data)


def _compared(
    name: str, knot: int, given: Array, look: Callable[[float], _Look], tolerance: float
) -> DerivativeCheck:
    """The largest error of all entries that can be judged, if it is too large; else the largest of all."""
    far = _quietest(look, given, tolerance)
    errors = _errors(given, far, tolerance)
    smooth = np.full(errors.shape, True)
    if (errors > tolerance).any():
        refined, fine = _refined(look, given, far, tolerance)
        refined &= errors > tolerance
        far = far._replace(numerical=np.where(refined, fine.numerical, far.numerical))
        errors = np.where(refined, _errors(given, fine, tolerance), errors)
        smooth = errors <= tolerance
        before, steady = np.abs(given - far.numerical), np.full_like(smooth, True)
        apart, judged = np.full_like(smooth, False), np.full_like(smooth, False)
        for closeness in (1.0, *CLOSER):
            # Of a smooth function, a wrong derivative is as wrong seen from closer by, and the two sides come together.
            close = look(closeness)
            seen, after = close.noise < 0.25 * before, np.abs(given - close.numerical)
            alike = (after < 2.0 * before + close.noise) & (~seen | ((after > 0.5 * before) & (after < 2.0 * before)))
            steady &= alike | (refined & (closeness == 1.0))
            apart |= seen & (closeness < 1.0) & (close.gap > 0.3 * far.gap) & (close.gap > 0.1 * after + close.noise)
            judged |= seen & (closeness < 1.0)
        kinked = (~smooth & judged & ~(steady & ~apart)).any()
        # Where some entries are not smooth, others whose two sides are apart may be hidden by what looks like rounding.
        steady &= judged | ~kinked | (far.gap < 0.5 * before)
        smooth |= (steady & ~apart) | ~np.isfinite(errors)
        smooth &= np.isfinite(far.numerical)
    wrong = np.where(smooth, errors, 0.0)
    worst = wrong if (wrong > tolerance).any() else errors
    entry = tuple(int(i) for i in np.unravel_index(int(np.argmax(worst)), errors.shape))
    numbers = float(errors[entry]), tolerance, entry, float(given[entry]), float(far.numerical[entry])
    return DerivativeCheck(name, knot, *numbers, bool(smooth[entry]))


def _quietest(look: Callable[[float], _Look], given: Array, tolerance: float) -> _Look:
    """Differences whose steps are as long as rounding asks for, entry by entry."""
    near = look(1.0)
    if not (near.noise > 0.1 * tolerance * _largest(given, near)).any():
        return near
    longer, longest = (look(factor) for factor in LONGER)
    noise = longer.noise + np.abs(longest.numerical - longer.numerical) / 8.0  # half of what theory says it misses
    better = noise < near.noise
    return _Look(*(np.where(better, *pair) for pair in zip((*longer[:2], noise), near, strict=True)))


def _refined(look: Callable[[float], _Look], given: Array, far: _Look, tolerance: float) -> tuple[Any, _Look]:
    """Where shorter steps are better, as they converge as theory says and rounding hides little, and theirs."""
    half, quarter = (look(factor) for factor in FINER)
    quiet = 0.1 * tolerance * _largest(given, far)
    fine = _Look(*(np.where(quarter.noise <= quiet, *pair) for pair in zip(quarter, half, strict=True)))
    moved, left = np.abs(far.numerical - half.numerical), np.abs(half.numerical - quarter.numerical)
    return (fine.noise <= quiet) & (left <= moved / 8.0 + half.noise + quarter.noise), fine


def _errors(given: Array, look: _Look, tolerance: float) -> Array:
    """Errors relative to the largest entry or, where all are tiny, to what rounding hides."""
    scale, apart = _largest(given, look) + look.noise / tolerance, np.abs(given - look.numerical)
    return np.nan_to_num(np.divide(apart, scale, out=apart.copy(), where=scale != 0.0), nan=np.inf)


def _largest(given: Array, look: _Look) -> float:
    """The size of the largest entry, as it is given or by differences."""
    return max(_size(look.numerical), _size(given))


def _size(values: Array) -> float:
    """The largest magnitude of all that are finite."""
    return float(np.abs(values).max(where=np.isfinite(values), initial=0.0))

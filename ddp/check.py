"""Are the derivatives right? Every one the solver uses, against differences of the functions themselves."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from ddp import differences
from ddp.errors import ProblemError, as_array
from ddp.problem import Derivatives, Problem
from ddp.protocols import Array, BatchTerm

FIRST_TOLERANCE = 1e-6
"""First derivatives: differences are good to 1e-9 or so; a wrong formula is rarely off by less than 1e-3."""

SECOND_TOLERANCE = 1e-5
"""Second derivatives: differences are good to 1e-8 or so."""

SAMPLED_KNOTS = 5


@dataclass(frozen=True)
class DerivativeCheck:
    """One derivative at one knot: the largest error relative to the largest entry, and the entry where it is.

    name: what was checked.  entry: its index.  given: its value as the solver gets it.  numerical: as
        differences say.
    """

    name: str
    knot: int
    error: float
    tolerance: float
    entry: tuple[int, ...]
    given: float
    numerical: float

    @property
    def ok(self) -> bool:
        return self.error <= self.tolerance

    def __str__(self) -> str:
        if self.ok:
            return f"ok     {self.name}: relative error {self.error:.1e} at knot {self.knot}"
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
            if check.name not in worst or check.error > worst[check.name].error:
                worst[check.name] = check
        wrong = sum(not check.ok for check in worst.values())
        verdict = (
            f"{wrong} of {len(worst)} derivatives are wrong"
            if wrong
            else f"all {len(worst)} derivatives are right"
        )
        return "\n".join([verdict, *map(str, sorted(worst.values(), key=lambda check: check.ok))])


def check_derivatives(
    problem: Problem, X: Array, U: Array, knots: Iterable[int] | None = None
) -> DerivativeReport:
    """Compare every derivative of ``problem`` along X (N+1, nx), U (N, nu) with 4th-order differences of the
    functions.

    The dynamics' A and B, the Hessian of a random weight (of a fixed seed) times the dynamics as the backward
    sweep gets it, and the gradient and exact Hessian of every cost term. Only ``step``, ``integrate``,
    ``difference`` and the terms' values are differenced, never a derivative. X need not be a rollout of U.

    knots: which of 0 .. N to check; by default five evenly spread, and those of ``problem.at``.
    """
    N, d = problem.horizon, problem.dynamics
    X = as_array("X", X, (N + 1, d.nx))
    d.check_state("X", X)
    U = problem.padded(as_array("U", U, (N, d.nu)))
    chosen = _chosen(problem, knots)
    derivatives = problem.allocate()
    problem.expand(X, U, derivatives, 0, N + 1)
    problem.expand_second(X, U, derivatives, 0, N + 1)
    checks: list[DerivativeCheck] = []
    for knot in (k for k in chosen if k < N):
        checks += _dynamics_checks(problem, derivatives, knot, X[knot], U[knot])
    for name, term, own in problem.terms():
        for knot in (k for k in chosen if own.start <= k < own.stop):
            checks += _term_checks(problem, name, term, knot, X[knot], U[knot])
    return DerivativeReport(tuple(checks))


def _chosen(problem: Problem, knots: Iterable[int] | None) -> list[int]:
    N = problem.horizon
    if knots is None:
        return sorted({*np.linspace(0, N, SAMPLED_KNOTS).astype(int).tolist(), N - 1, *problem.at})
    chosen = sorted(set(knots))
    for knot in chosen:
        if not 0 <= knot <= N:
            raise ProblemError(f"knots: expected knots from 0 to {N}, got {knot}")
    return chosen


def _dynamics_checks(
    problem: Problem, out: Derivatives, knot: int, x: Array, u: Array
) -> list[DerivativeCheck]:
    d = problem.dynamics
    weight = np.random.default_rng(knot).normal(size=d.n)
    nominal = d.step(x, u)

    def change(Xs: Array, Us: Array) -> Array:
        return d.difference(np.tile(nominal, (len(Xs), 1)), d.step(Xs, Us))

    size = float(np.abs(nominal).max())
    J = _first(problem, change, x, u)
    H = _second(problem, lambda Xs, Us: change(Xs, Us) @ weight, x, u)
    given = np.empty_like(H)
    _contract(problem, out.record[knot], weight, given)
    noise = size * float(np.abs(weight).sum())
    return [
        _compared("dynamics A", knot, out.A[knot], J[:, : d.n], size, False),
        _compared("dynamics B", knot, out.B[knot], J[:, d.n :], size, False),
        _compared("dynamics Hessian", knot, given, H, noise, True),
    ]


def _term_checks(
    problem: Problem, name: str, term: BatchTerm, knot: int, x: Array, u: Array
) -> list[DerivativeCheck]:
    d = problem.dynamics
    nz = d.n + d.nu
    value, gradient, hessian = np.zeros(1), np.zeros((1, nz)), np.zeros((1, nz, nz))
    term.expand(x[None], u[None], 1.0, True, value, gradient, hessian)
    size = abs(float(value[0]))
    used = slice(0, nz if knot < problem.horizon else d.n)
    g, H = _first(problem, term.values, x, u), _second(problem, term.values, x, u)
    return [
        _compared(f"{name} gradient", knot, gradient[0, used], g[used], size, False),
        _compared(f"{name} Hessian", knot, hessian[0, used, used], H[used, used], size, True),
    ]


Batched = Callable[[Array, Array], Array]


def _first(problem: Problem, function: Batched, x: Array, u: Array) -> Array:
    """The derivative (..., nz) of a batched function in exponential coordinates, by 4th-order differences."""
    h = _steps(problem, u, differences.FIRST)
    points = np.concatenate([point * np.diag(h) for point in differences.POINTS])
    values = function(*_displaced(problem, x, u, points))
    values = values.reshape(len(differences.POINTS), len(h), *values.shape[1:])
    return np.moveaxis(np.tensordot(differences.WEIGHTS, values, axes=1), 0, -1) / h


def _second(problem: Problem, function: Batched, x: Array, u: Array) -> Array:
    """The Hessian (nz, nz) of a batched function of one value, likewise."""
    h = _steps(problem, u, differences.SECOND)
    points = differences.second_difference_points(len(h)) * h
    return differences.second_difference(function(*_displaced(problem, x, u, points)), len(h), h)


def _steps(problem: Problem, u: Array, h: float) -> Array:
    return np.concatenate([np.full(problem.dynamics.n, h), differences.steps(u, h)])


def _displaced(problem: Problem, x: Array, u: Array, Z: Array) -> tuple[Array, Array]:
    """The states and controls at displacements Z (P, nz) from (x, u)."""
    n = problem.dynamics.n
    return problem.dynamics.integrate(np.tile(x, (len(Z), 1)), np.ascontiguousarray(Z[:, :n])), u + Z[:, n:]


def _contract(problem: Problem, record: Array, weight: Array, out: Array) -> None:
    """Call the compiled second order as the backward sweep does."""
    contraction = problem.dynamics.contraction()
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(contraction.address)
    function(contraction.context, record.ctypes.data, weight.ctypes.data, out.ctypes.data)


def _compared(
    name: str, knot: int, given: Array, numerical: Array, size: float, second: bool
) -> DerivativeCheck:
    """The largest difference, relative to the largest entry or, where all are tiny, to what rounding hides.

    size: the magnitude of the differenced values, whose rounding the differences divide by h or h².
    """
    tolerance = SECOND_TOLERANCE if second else FIRST_TOLERANCE
    step = differences.SECOND**2 if second else differences.FIRST
    noise = 100.0 * np.finfo(float).eps * (1.0 + size) / step
    scale = max(float(np.abs(numerical).max()), float(np.abs(given).max())) + noise / tolerance
    errors = np.nan_to_num(np.abs(given - numerical) / scale, nan=np.inf)
    entry = tuple(int(i) for i in np.unravel_index(int(np.argmax(errors)), errors.shape))
    return DerivativeCheck(
        name, knot, float(errors[entry]), tolerance, entry, float(given[entry]), float(numerical[entry])
    )

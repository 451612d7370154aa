"""Check of every derivative that the solver uses against differences of the functions themselves."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ddp.comparison import DerivativeCheck, Differences
from ddp.costs.batch import BatchTerm, coupled_by
from ddp.costs.terms import naming
from ddp.derivatives import Derivatives
from ddp.errors import ProblemError, as_array, instance, items, said, suggesting
from ddp.problem import Problem
from ddp.protocols import Array, Constraint
from ddp.starts import start_policy
from ddp.systems.system import Expansion

SAMPLED_KNOTS = 5

NEARER = 8
"""Times that a state whose step is not finite is drawn nearer to the guess, by half."""


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


@suggesting
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
            with naming(name, slice(knot, knot + 1)):
                checks += _term_checks(problem, name, term, knot, X[knot], U[knot])
    for placed in problem.placed:
        for knot in (k for k in chosen if placed.start <= k < placed.stop):
            with naming(placed.name, slice(knot, knot + 1)):
                checks += _constraint_checks(problem, placed.name, placed.constraint, knot, X[knot], U[knot])
    return DerivativeReport(tuple(checks))


def excited(problem: Problem) -> tuple[Array, Array]:
    """States (N+1, nx) and controls (N, nu) near the guess, where no derivative vanishes by chance; always the same.

    Where states that follow from controls diverge, as of an arm that falls, they stay near those of the guess, or x0.
    States whose step, or its derivative, is not finite are drawn nearer to the guess.
    """
    rng = np.random.default_rng(0)
    system, given = problem.dynamics, start_policy(problem, problem.guess)
    U = given.U + 0.1 * rng.normal(size=given.U.shape)
    rolled = system.rollout(problem.x0, U)
    X = given.X if given.imposed or not np.isfinite(rolled).all() else rolled
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


def _dynamics_checks(problem: Problem, out: Derivatives, knot: int, x: Array, u: Array) -> list[DerivativeCheck]:
    d = problem.dynamics
    weight = np.random.default_rng(knot).normal(size=d.n)
    nominal = d.step(x, u, knot)

    def change(Xs: Array, Us: Array) -> Array:
        reached = np.array([d.step(*point, knot) for point in zip(Xs, Us, strict=True)])
        return d.difference(np.tile(nominal, (len(Xs), 1)), reached)

    size = float(np.abs(nominal).max())
    given = np.empty((d.n + d.nu, d.n + d.nu))
    d.contraction().call(out.record[knot], weight, given)  # as the backward sweep does
    first = Differences(problem, change, x, u, 1.0 + size)
    total = 1.0 + size * float(np.abs(weight).sum())
    second = Differences(problem, lambda Xs, Us: change(Xs, Us) @ weight, x, u, total)
    return [
        first.check_first("dynamics A", knot, out.A[knot], slice(0, d.n)),
        first.check_first("dynamics B", knot, out.B[knot], slice(d.n, None)),
        second.check_second("dynamics Hessian", knot, given),
    ]


def _term_checks(problem: Problem, name: str, term: BatchTerm, knot: int, x: Array, u: Array) -> list[DerivativeCheck]:
    d = problem.dynamics
    nz = d.n + d.nu
    value, gradient, hessian = np.zeros(1), np.zeros((1, nz)), np.zeros((1, nz, nz))
    term.expand(x[None], u[None], 1.0, True, value, gradient, hessian)
    if (coupled := coupled_by(term)) is not None:  # all that a solve reads
        read = np.eye(nz)
        read[:coupled, :coupled] = 1.0
        hessian *= read
    used = slice(0, nz if knot < problem.horizon else d.n)
    about = Differences(problem, term.values, x, u, abs(float(value[0])))
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
    first = Differences(problem, constraint.values, x, u, 1.0 + size)
    total = 1.0 + size * float(np.abs(weight).sum())
    second = Differences(problem, lambda Xs, Us: constraint.values(Xs, Us) @ weight, x, u, total)
    return [
        first.check_first(f"{name} Jacobian", knot, jacobian[:, used], used),
        second.check_second(f"{name} Hessian", knot, curvature[used, used]),
    ]

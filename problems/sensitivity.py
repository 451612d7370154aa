"""Sensitivity of the best cost of a motion in phases to their durations, to second order.

With T (P,) the durations, h_k those of knots, E = ∂h/∂T, L the Lagrangian and z = (dx, du), the change of the best cost
with a change θ of durations is, to second order,

    min  Σ_k ½ zᵀ L_zz z + zᵀ L_zh Eθ + ½ L_hh (Eθ)²,     dx' = A dx + B du + f_h Eθ,     dx_0 = 0,     C z + c_h Eθ = 0

with the constraints c that are active: see `ddp.solutions.response`.

L_zz, A, B, C, c_h and f_h are exact; L_zh and L_hh are central differences of exact derivatives, since they only steer
Newton's method: gradients are exact, and so is what it converges to.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ddp.adjoint import costates
from ddp.constraints.lagrangian import Lagrangian
from ddp.costs.batch import ability
from ddp.derivatives import EXACT, RECORDS, Derivatives
from ddp.errors import ProblemError, instance, said
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solutions.response import Quadratic, Slopes, response
from ddp.solutions.solution import Solution
from dynamics.phases.phase import stretches
from dynamics.phases.phased_dynamics import PhasedDynamics
from dynamics.robots.libraries import pin
from problems.contact_costs import ForceConstraint, ForceLimits
from problems.duration_rates import by_durations

SHARE, STIFFEST = 1e-4, 1e3
"""Step of differences as a share of a duration; and a bound on penalties, which make L_zz convex where multipliers
alone do not: they have no part in what is stationary, and stiffer ones leave too few digits to the recursion."""


def phased(problem: Problem) -> PhasedDynamics:
    """The system of a problem with phases, of just their knots."""
    if not isinstance(problem, Problem) or not isinstance(problem.dynamics, PhasedDynamics):
        got = said(problem.dynamics if isinstance(problem, Problem) else problem)
        raise ProblemError(f"problem: expected one with phases, whose durations are free (PhasedDynamics), got {got}")
    if problem.horizon != problem.dynamics.knots:
        raise ProblemError(f"horizon: expected {problem.dynamics.knots}, the phases' knots, got {problem.horizon}")
    return problem.dynamics


def with_durations(problem: Problem, durations: ArrayLike, field: str = "durations") -> Problem:
    """Copy a problem with other durations (P,) [s] of its phases, in as many knots; references stay with their knots.

    Costs and constraints on contact forces are made anew for it; no other may depend on the steps of its dynamics.
    """
    system = phased(problem).lasting(durations, field)

    def on(terms: Any) -> list[Any]:
        return [replace(t, system=system) if isinstance(t, (ForceLimits, ForceConstraint)) else t for t in terms]

    whole = ("running", "terminal", "constraints", "terminal_constraints")
    lists: dict[str, Any] = {name: on(getattr(problem, name)) for name in whole}
    knots = ("at", "during", "constraints_at")
    maps: dict[str, Any] = {name: {k: on(v) for k, v in getattr(problem, name).items()} for name in knots}
    return replace(problem, dynamics=system, **lists, **maps)


def gradient(solution: Solution) -> Array:
    """The derivative (P,) [1/s] of the best cost by how long each phase lasts, 0 where none of its knots takes time.

    By the envelope theorem it is that of the Lagrangian, ∂L/∂T = Eᵀ ∂L/∂h. Of a solution with its problem.
    """
    problem, system = _own(solution)
    return _knot_shares(system).T @ by_durations(problem, solution.X, solution.U, solution.multipliers)


@dataclass(frozen=True)
class Sensitivity:
    """hessian (P, P) of the best cost by durations [1/s²]; what motion and multipliers change by.

    dX (N+1, n, P), dU (N, nu, P), multipliers (m, P): [1/s].
    """

    solution: Solution
    hessian: Array
    dX: Array
    dU: Array
    multipliers: Array

    def predicted(self, change: Array) -> Solution:
        """The motion after a change (P,) of durations [s], to first order: a guess."""
        old, (_, system) = self.solution, _own(self.solution)
        X, U = system.integrate(old.X, self.dX @ change), old.U + self.dU @ change
        return replace(old, X=X, U=U, multipliers=old.multipliers + self.multipliers @ change)


def sensitivity(solution: Solution) -> Sensitivity:
    """Second order of the best cost by the durations of phases, at an optimum."""
    (problem, system), X, U = _own(solution), solution.X, solution.U
    goal, N, nz = _relaxed(problem, solution), problem.horizon, system.n + system.nu
    d = _expanded(goal, X, U)
    goal.expand(X, goal.padded(U), d, 0, N + 1, EXACT | RECORDS)
    costate, curved = costates(d.A, d.lz)[1:], np.empty((N, nz, nz))
    system.contract(d.record, costate, curved)
    H = d.hessians(goal.separable)
    H[:-1] += curved
    E, T = _knot_shares(system), system.phase_durations
    longer, shorter = (_slopes(with_durations(problem, T * (1.0 + e)), solution, costate) for e in (SHARE, -SHARE))
    span = 2.0 * SHARE * np.where(system.durations > 0.0, system.durations, np.inf)
    Lzh, Lhh = (longer[0] - shorter[0]) / span[:, None], (longer[1] - shorter[1]) / span
    rows, C, ch = _active(problem, solution)
    P, free = len(T), (problem.lower < U) & (problem.upper > U)
    c, S = np.zeros((N + 1, nz, P)), system.by_duration(X[:-1], U)[:, :, None] * E[:, None, :]
    c[:N] = Lzh[:, :, None] * E[:, None, :]
    about = Quadratic(d.A, d.B, H, free, C, np.zeros(len(rows)))
    found = response(about, Slopes(c, S, ch.T @ E, np.zeros((system.n, P)), np.zeros((N, system.nu, P))))
    by = np.zeros((len(solution.multipliers), P))
    by[rows] = found.nu
    return Sensitivity(solution, found.form + E.T @ (Lhh[:, None] * E), found.dX, found.dU, by)


def _active(problem: Problem, solution: Solution) -> tuple[Any, Array, Array]:
    """Which multipliers are of active constraints (a,), their C (N+1, nz, a) and c_h (N, a)."""
    rows, C, ch = [np.zeros(0, int)], [], []
    N, nz = problem.horizon, problem.dynamics.n + problem.dynamics.nu
    for entry in problem.placed:
        knots, own = slice(entry.start, entry.stop), entry.own(solution.multipliers)
        k, i = np.nonzero((own != 0.0) | (entry.lower == entry.upper))
        at, one = (solution.X[knots], problem.padded(solution.U)[knots]), np.arange(len(k))
        C.append(np.zeros((N + 1, nz, len(k))))
        ch.append(np.zeros((N + 1, len(k))))
        if len(k):
            C[-1][entry.start + k, :, one] = entry.constraint.jacobian(*at)[k, i]
            if (by_duration := ability(entry.constraint, "by_duration")) is not None:
                ch[-1][entry.start + k, one] = by_duration(*at)[k, i]
        rows.append(entry.first + k * own.shape[1] + i)
    wide = np.concatenate([np.zeros((N + 1, nz, 0)), *C], axis=2)
    return np.concatenate(rows), wide, np.concatenate([np.zeros((N + 1, 0)), *ch], axis=1)[:N]


def _slopes(problem: Problem, solution: Solution, costate: Array) -> tuple[Array, Array]:
    """L_z (N, nz) and L_h (N,) in other durations, next states x' seen from those of the solution: δ(x' ⊖ X')."""
    (X, U), system, goal = (solution.X, solution.U), phased(problem), _relaxed(problem, solution)
    d, seen, model, nq, nv = _expanded(goal, X, U), costate.copy(), system.robot.model, system.robot.nq, system.robot.nv
    for t, after in enumerate(system.step(X[:-1], U)):
        seen[t, :nv] = pin.dDifference(model, X[t + 1, :nq], after[:nq], pin.ARG1).T @ costate[t, :nv]
    Lz = d.lz[:-1] + np.einsum("kij,ki->kj", np.concatenate([d.A, d.B], axis=2), seen)
    multipliers = goal.lagrangian.shifts(X, goal.padded(U))[0] if goal.constrained else solution.multipliers
    return Lz, by_durations(problem, X, U, multipliers, seen)


def _knot_shares(system: PhasedDynamics) -> Array:
    """E = ∂h/∂T (N, P): 1/N_p at the knots of phase p in which time passes."""
    E = np.zeros((system.knots, len(system.phases)))
    for p, knots in enumerate(stretches(system.phases)):
        E[knots.start : knots.stop, p] = 1.0 / max(len(knots), 1)
    return E


def _relaxed(problem: Problem, solution: Solution) -> Problem:
    """The problem with its constraints as cost, as they were last."""
    if not problem.constrained:
        return problem
    stiff = np.where(solution.penalties > 0.0, np.minimum(solution.penalties, STIFFEST), STIFFEST)
    state = np.concatenate([solution.multipliers, stiff])
    return problem.augmented(Lagrangian(problem.rows, state))


def _expanded(problem: Problem, X: Array, U: Array) -> Derivatives:
    d = problem.allocate()
    if problem.constrained:
        d.dual[:] = problem.lagrangian.state
    problem.expand(X, problem.padded(U), d, 0, problem.horizon + 1)
    return d


def _own(solution: Solution) -> tuple[Problem, PhasedDynamics]:
    instance("solution", solution, Solution)
    if solution.problem is None:
        raise ProblemError("problem: a derivative by durations needs one: Solution.load(path, problem)")
    return solution.problem, phased(solution.problem)

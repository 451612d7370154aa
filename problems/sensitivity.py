"""Sensitivity of the best cost of a motion in phases to their durations, to second order.

With T (P,) the durations, h_k those of knots, E = ∂h/∂T, L the Lagrangian and z = (dx, du), the change of the best cost
with a change θ of durations is, to second order,

    min  Σ_k ½ zᵀ L_zz z + zᵀ L_zh Eθ + ½ L_hh (Eθ)²,     dx' = A dx + B du + f_h Eθ,     dx_0 = 0,     C z + c_h Eθ = 0

with the constraints c that hold: see `ddp.solutions.sensitivity`.

L_zz, A, B and C are exact; what changes with h are central differences of exact derivatives, since they only steer
Newton's method: gradients are exact, and so is what it converges to.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ddp.adjoint import costates
from ddp.constraints.placement import described
from ddp.constraints.rows import beyond
from ddp.costs.batch import ability as of_terms
from ddp.costs.batch import durations_of
from ddp.errors import ProblemError, instance, said
from ddp.places import replaced
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solutions.response import Slopes, response
from ddp.solutions.sensitivity import Optimum, seen_from
from ddp.solutions.solution import Solution
from ddp.systems.system import ability
from dynamics.phases.phase import stretches
from dynamics.phases.phased_dynamics import PhasedDynamics
from problems.contact_costs import ForceConstraint, ForceLimits

SHARE = 1e-4
"""Step of differences as a share of a duration."""


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

    def on(thing: Any) -> Any:
        return replace(thing, system=system) if isinstance(thing, (ForceLimits, ForceConstraint)) else thing

    return replaced(problem, on, system)


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
    problem, system = _own(solution)
    optimum, E, T = Optimum(problem, solution), _knot_shares(system), system.phase_durations
    span = 2.0 * SHARE * np.where(system.durations > 0.0, system.durations, np.inf)
    ends = [with_durations(problem, T * (1.0 + e)) for e in (SHARE, -SHARE)]
    longer, shorter = (optimum.parts(end) for end in ends)
    by, _, paid = optimum.slopes((longer - shorter)[:, None])  # each knot's of its own duration
    shares = np.vstack([E / span[:, None], np.zeros((1, E.shape[1]))])
    found = response(optimum.quadratic, Slopes(
        by.c * shares[:, None], by.S * shares[:-1, None], by.r * shares[optimum.knots],
        np.zeros((system.n, len(T))), by.du * shares[:-1, None],
    ))  # fmt: skip
    later, sooner = (_rates(end, solution, optimum.costate[1:]) for end in ends)
    multipliers = np.zeros((len(solution.multipliers), len(T)))
    multipliers[optimum.rows] = found.nu
    multipliers[optimum.paid] = paid * shares[problem.rows.knot[optimum.paid]]
    hessian = found.form + E.T @ (((later - sooner) / span)[:, None] * E)
    return Sensitivity(solution, hessian, found.dX, found.dU, multipliers)


def _rates(problem: Problem, solution: Solution, costate: Array) -> Array:
    """L_h (N,) in other durations, next states x' seen from those of the solution: δ(x' ⊖ X')."""
    X, U, reached = solution.X, solution.U, phased(problem).step(solution.X[:-1], solution.U)
    return by_durations(problem, X, U, solution.multipliers, seen_from(problem, X[1:], reached, costate))


def _knot_shares(system: PhasedDynamics) -> Array:
    """E = ∂h/∂T (N, P): 1/N_p at the knots of phase p in which time passes."""
    E = np.zeros((system.knots, len(system.phases)))
    for p, knots in enumerate(stretches(system.phases)):
        E[knots.start : knots.stop, p] = 1.0 / max(len(knots), 1)
    return E


def _own(solution: Solution) -> tuple[Problem, PhasedDynamics]:
    instance("solution", solution, Solution)
    if solution.problem is None:
        raise ProblemError("problem: a derivative by durations needs one: Solution.load(path, problem)")
    return solution.problem, phased(solution.problem)


def by_durations(problem: Problem, X: Array, U: Array, multipliers: Array, on_next: Array | None = None) -> Array:
    """Derivatives (N,) of the Lagrangian, X (N+1, nx) and U (N, nu) kept, by how long each knot takes [1/s].

    Those of running costs and prices are what they are multiplied by; terms and constraints may know more,
    `by_duration`, and the dynamics must:  ∂/∂h_k = ℓ_k + h_k ∂ℓ_k/∂h + λ_{k+1} · ∂f_k/∂h.  Zero at events.
    multipliers (m,): of all constraints.   on_next (N, n): λ_1 .. λ_N, default the costates of X.
    """
    if (of_steps := ability(problem.dynamics, "by_duration")) is None:
        raise ProblemError(f"dynamics: {described(problem.dynamics)} does not know how it changes with its steps")
    N, padded, objective = problem.horizon, problem.padded(U), problem.objective
    if on_next is None:
        d = problem.allocate()
        problem.expand(X, padded, d, 0, N + 1)
        if multipliers.size:
            problem.add_forces(X, U, multipliers, d.lz)
        on_next = costates(d.A, d.lz)[1:]
    rates = np.einsum("ki,ki->k", on_next, of_steps(X[:-1], U))
    for entry in objective.entries:
        if entry.density:
            rates[entry.knots] += entry.term.values(X[entry.knots], padded[entry.knots])
    for entry in objective.entries:
        if entry.end <= N and (of_term := of_terms(entry.term, "by_duration")) is not None:
            rates[entry.knots] += entry.weight * of_term(X[entry.knots], padded[entry.knots])
    for placed in problem.placed:
        if (of_constraint := of_terms(placed.constraint, "by_duration")) is not None:
            own, knots = placed.own(multipliers), slice(placed.start, placed.stop)
            rates[knots] += (own * of_constraint(X[knots], padded[knots])).sum(axis=1)
    lasting = durations_of(problem.dynamics, N)
    h = np.where(lasting > 0.0, lasting, 1.0)
    for placed in problem.placed[: len(problem.constraints)]:
        if placed.cap is not None and placed.compliance is not None:  # prices of these are multiplied by durations
            v = beyond(placed.constraint.values(X[:N], U), placed.lower[:N], placed.upper[:N])
            y, cap, give = (part[:N] for part in (placed.own(multipliers), placed.cap, placed.compliance))
            rates += (np.nan_to_num(cap, posinf=0.0) * np.abs(v) + 0.5 * give * y * y).sum(axis=1) / h
    return np.where(lasting > 0.0, rates, 0.0)

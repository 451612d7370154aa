"""Derivatives of a problem's Lagrangian by how long each knot takes, its trajectory kept."""

from __future__ import annotations

import numpy as np

from ddp.adjoint import costates
from ddp.constraints.placement import described
from ddp.costs.batch import ability as of_terms
from ddp.costs.stretches import durations_of
from ddp.errors import ProblemError
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.systems.system import ability


def by_durations(problem: Problem, X: Array, U: Array, multipliers: Array, on_next: Array | None = None) -> Array:
    """Derivatives (N,) of the Lagrangian, X (N+1, nx) and U (N, nu) kept, by how long each knot takes [1/s].

    Those of running costs are what they are multiplied by; terms and constraints may know more, `by_duration`, and
    the dynamics must:  ∂/∂h_k = ℓ_k + h_k ∂ℓ_k/∂h + λ_{k+1} · ∂f_k/∂h.  Zero at events.
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
    running = [(slice(0, N), entry) for entry in objective.running]
    running += [(slice(knots.start, knots.stop), entry) for knots, entry in objective.during]
    for knots, entry in running:
        rates[knots] += entry.term.values(X[knots], padded[knots])
    for knots, entry in [*running, *((slice(k, k + 1), entry) for k, entry in objective.at if k < N)]:
        if (of_term := of_terms(entry.term, "by_duration")) is not None:
            rates[knots] += entry.weight * of_term(X[knots], padded[knots])
    for placed in problem.placed:
        if (of_constraint := of_terms(placed.constraint, "by_duration")) is not None:
            own, knots = placed.own(multipliers), slice(placed.start, placed.stop)
            rates[knots] += (own * of_constraint(X[knots], padded[knots])).sum(axis=1)
    return np.where(durations_of(problem.dynamics, N) > 0.0, rates, 0.0)

"""How the best cost of a motion in phases changes with how long these last: to second order.

With T (P,) the durations, L the Lagrangian, z = (dx, du), h_k = T_p / N_p and c_k, s_k, r_k what another second of
phase p does to L_z, to the next state and to L_T at its knots k,

    min  Σ_k ½ zᵀ L_zz z + zᵀ c_k θ + ½ θᵀ r_k θ,     dx' = A dx + B du + s_k θ,     dx_0 = 0

is, for a change θ of durations, what the best cost changes by in second order. It is swept backward as in Riccati's
recursion, with one linear term v a duration. L_zz, A, B and s are exact; c and r are central differences of exact
derivatives, since they only steer Newton's method: gradients are exact, and so is what it converges to.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from ddp.adjoint import costates
from ddp.errors import ProblemError
from ddp.lagrangian import Lagrangian
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solution import Solution
from dynamics.phased_dynamics import PhasedDynamics
from problems.contact_costs import ForceConstraint, ForceLimits
from problems.reaction import stretches

SHARE, STIFFEST = 1e-4, 1e3
"""Of a duration: the step of differences. Of penalties: stiffer ones leave too few digits to the recursion."""


@dataclass(frozen=True)
class Sensitivity:
    """hessian (P, P) of the best cost by durations [1/s²]; dX (N+1, n, P), dU (N, nu, P): what motion changes by."""

    solution: Solution
    hessian: Array
    dX: Array
    dU: Array

    def predicted(self, change: Array) -> Solution:
        """The motion after a change (P,) of durations [s], to first order: a guess."""
        old, d = self.solution, phased(self.solution.problem)
        return replace(old, X=d.integrate(old.X, self.dX @ change), U=old.U + self.dU @ change)


def with_durations(problem: Problem, durations: ArrayLike) -> Problem:
    """The same problem, whose phases last so long (P,) [s] in as many knots; references stay those of their knots."""
    system = phased(problem).lasting(durations)

    def on(terms: Any) -> list[Any]:
        return [replace(t, system=system) if isinstance(t, (ForceLimits, ForceConstraint)) else t for t in terms]

    lists = {name: on(getattr(problem, name)) for name in ("running", "terminal", "constraints", "terminal_constraints")}
    maps = {name: {k: on(v) for k, v in getattr(problem, name).items()} for name in ("at", "during", "constraints_at")}
    return replace(problem, dynamics=system, **lists, **maps)


def gradient(solution: Solution) -> Array:
    """The derivative (P,) [1/s] of the optimal cost by how long each phase lasts, 0 where none of its knots takes time.

    Raises ProblemError for a solution that was loaded without its problem, or of another system.
    """
    if solution.problem is None:
        raise ProblemError("problem: a gradient by durations needs one: Solution.load(path, problem)")
    system = phased(solution.problem)
    rates = solution.problem.by_durations(solution.X, solution.U, solution.multipliers)
    return np.array([rates[knots.start : knots.stop].mean() if knots else 0.0 for knots in stretches(system)])


def phased(problem: Problem) -> PhasedDynamics:
    """The system of a problem with phases."""
    if not isinstance(problem, Problem) or not isinstance(problem.dynamics, PhasedDynamics):
        raise ProblemError("problem: expected one of PhasedDynamics, whose phases last some time")
    return problem.dynamics



def sensitivity(solution: Solution) -> Sensitivity:
    """Second order of the best cost by the durations of phases, at an optimum; penalties stand in for constraints."""
    problem = _own(solution)
    system, (X, U) = phased(problem), (solution.X, solution.U)
    N, n, nu, nz = problem.horizon, system.n, system.nu, system.n + system.nu
    goal = _relaxed(problem, solution)
    d = _expanded(goal, X, U)
    goal.expand_second(X, goal.padded(U), d, 0, N + 1)
    on_next, curved = costates(d.A, d.lz)[1:], np.empty((N, nz, nz))
    system.contract(d.record, on_next, curved)
    H = np.where(goal.separable[:, None, None], d.lzz, d.exact)
    H[:-1] += curved
    T, counts = system.phase_durations, np.array([max(phase.knots, 1) for phase in system.phases])
    ahead, behind = (_slopes(with_durations(problem, T * (1.0 + share)), solution, on_next) for share in (SHARE, -SHARE))
    s, P = system.by_duration(X[:-1], U), len(T)
    V, v, total = H[N, :n, :n], np.zeros((n, P)), np.zeros((P, P))
    K, k = np.zeros((N, nu, n)), np.zeros((N, nu, P))
    phase = np.zeros(N, int)
    for p, knots in enumerate(stretches(system)):
        phase[knots.start : knots.stop] = p
    lasting = system.durations
    free = (problem.lower < U) & (U < problem.upper)
    for t in reversed(range(N)):
        F, S, c, r = np.hstack([d.A[t], d.B[t]]), np.zeros((n, P)), np.zeros((nz, P)), 0.0
        p = phase[t]
        if lasting[t] > 0.0:
            span = 2.0 * SHARE * lasting[t] * counts[p]
            S[:, p] = s[t] / counts[p]
            c[:, p], r = (ahead[0][t] - behind[0][t]) / span, (ahead[1][t] - behind[1][t]) / (span * counts[p])
        Q, q = H[t] + F.T @ V @ F, c + F.T @ (v + V @ S)
        total += S.T @ V @ S + S.T @ v + v.T @ S
        total[p, p] += r
        u = n + np.flatnonzero(free[t])
        inverse = np.linalg.pinv(Q[np.ix_(u, u)], hermitian=True)
        K[t, u - n], k[t, u - n] = -inverse @ Q[u, :n], -inverse @ q[u]
        V, v = Q[:n, :n] + Q[:n, u] @ K[t, u - n], q[:n] + Q[:n, u] @ k[t, u - n]
        V = 0.5 * (V + V.T)  # or else rounding grows from knot to knot
        total += q[u].T @ k[t, u - n]
    dX, dU = np.zeros((N + 1, n, P)), np.zeros((N, nu, P))
    for t in range(N):
        dU[t] = K[t] @ dX[t] + k[t]
        dX[t + 1] = d.A[t] @ dX[t] + d.B[t] @ dU[t]
        if lasting[t] > 0.0:
            dX[t + 1, :, phase[t]] += s[t] / counts[phase[t]]
    return Sensitivity(solution, 0.5 * (total + total.T), dX, dU)


def _slopes(problem: Problem, solution: Solution, on_next: Array) -> tuple[Array, Array]:
    """L_z (N, nz) and L_h (N,) in other durations, next states seen from those of the solution."""
    X, U = solution.X, solution.U
    system, goal = phased(problem), _relaxed(problem, solution)
    d, nv = _expanded(goal, X, U), system.robot.nv
    nq, seen = system.robot.nq, on_next.copy()
    after = system.step(X[:-1], U)
    for t in range(problem.horizon):  # δ(x' ⊖ X') = Jlog δx'
        seen[t, :nv] = pin.dDifference(system.robot.model, X[t + 1, :nq], after[t, :nq], pin.ARG1).T @ on_next[t, :nv]
    multipliers = goal.lagrangian.shifts(X, goal.padded(U))[0] if problem.constrained else solution.multipliers
    n = system.n
    Lz = d.lz[:-1].copy()
    Lz[:, :n] += np.einsum("kij,ki->kj", d.A, seen)
    Lz[:, n:] += np.einsum("kij,ki->kj", d.B, seen)
    return Lz, problem.by_durations(X, U, multipliers, seen)


def _relaxed(problem: Problem, solution: Solution) -> Problem:
    """The problem with its constraints as cost, as they were last."""
    if not problem.constrained:
        return problem
    return problem.augmented(Lagrangian(problem.placed, np.concatenate([solution.multipliers, np.minimum(solution.penalties, STIFFEST)])))


def _expanded(problem: Problem, X: Array, U: Array) -> Any:
    d = problem.allocate()
    if problem.constrained:
        d.dual[:] = problem.lagrangian.state
    problem.expand(X, problem.padded(U), d, 0, problem.horizon + 1)
    return d


def _own(solution: Solution) -> Problem:
    if solution.problem is None:
        raise ProblemError("problem: a derivative by durations needs one: Solution.load(path, problem)")
    return solution.problem

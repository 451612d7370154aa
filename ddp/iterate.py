"""The current trajectory: its derivatives, sweeps over them, line searches along their policies."""

from __future__ import annotations

import time

import numpy as np

from ddp.backward import Backward, Sweep
from ddp.globalisation import SHIFT, SHORTEST_STEP, Step
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solution import Record, Solution
from ddp.workers import Differentiator


class Iterate:
    """The current trajectory and its derivatives, each order computed once, when first asked for."""

    def __init__(self, problem: Problem, work: Differentiator, U: Array) -> None:
        N, d = problem.horizon, problem.dynamics
        self.problem, self.work = problem, work
        self.backward = Backward(work.derivatives, d.contraction())
        self.diverged: int | None = None
        self.order = 0
        still = np.zeros((N, d.nu)), np.zeros((N, d.nu, d.n))
        self.X, self.U = d.track(np.tile(problem.x0, (N + 1, 1)), U, *still, 0.0)
        self.cost = np.inf
        if not np.isfinite(self.X[-1]).all():
            self.diverged = _first_nonfinite(self.X)
        elif np.isinf(costs := problem.values(self.X, problem.padded(self.U))).any():
            self.diverged = int(np.argmax(np.isinf(costs)))
        else:
            self.cost = problem.cost(self.X, self.U)

    @property
    def control_weight(self) -> float:
        """The mean of the diagonals of l_uu."""
        self._differentiate(1)
        n = self.problem.dynamics.n
        return float(np.einsum("kii->", self.work.derivatives.lzz[:-1, n:, n:])) / self.U.size

    def sweep(self, blend: float, mu: float) -> Sweep:
        """A backward sweep, after the derivatives that it needs."""
        self._differentiate(2 if blend > 0.0 else 1)
        return self.backward(blend, mu)

    def search(self, sweep: Sweep, longest: float) -> Step:
        """Backtrack along the sweep's policy until a step brings a tenth of what it promised.

        Where the promise is less than rounding can show, a step that does not raise the cost is as good.
        """
        rounding = 1e-14 * (1.0 + abs(self.cost))
        alpha = longest
        while alpha >= SHORTEST_STEP:
            X, U = self.problem.dynamics.track(self.X, self.U, sweep.k, sweep.K, alpha)
            cost = np.inf
            if np.isfinite(X[-1]).all():
                cost = float(self.problem.values(X, self.problem.padded(U)).sum())
                self.diverged = None
            else:
                self.diverged = _first_nonfinite(X)
            decrease, promised = self.cost - cost, alpha * (sweep.d0 + 0.5 * alpha * sweep.d1)
            if decrease > 0.1 * promised or (sweep.d0 < 1e-12 and decrease >= -rounding):
                return Step(alpha, cost, X, U)
            alpha *= 0.5
        return Step(0.0, self.cost, self.X, self.U)

    def accept(self, step: Step) -> None:
        """Move to where a line search arrived."""
        if step.alpha > 0.0:
            self.X, self.U, self.cost = step.X, step.U, step.cost
            self.order = 0

    def final_sweep(self, exact: bool) -> tuple[Sweep | None, bool]:
        """An unregularised sweep, and whether its Hessians are exact; Gauss-Newton's where those fail."""
        if not np.isfinite(self.cost):
            return None, False
        for blend, mu in ((1.0, 0.0), (0.0, 0.0), (0.0, SHIFT)):
            if exact or blend == 0.0:
                sweep = self.sweep(blend, mu)
                if sweep.failed < 0:
                    return sweep, blend > 0.0
        return None, False

    def fault(self) -> str | None:
        """Which derivative is not a number, and at which knot; None if all are finite."""
        d = self.work.derivatives
        named = [
            ("the dynamics' derivative", d.A),
            ("the dynamics' derivative", d.B),
            ("a cost's gradient", d.lz),
            ("a cost's Hessian", d.lzz),
        ]
        if self.order == 2:
            named += [("the dynamics' second derivative", d.record), ("a cost's exact Hessian", d.exact)]
        for what, array in named:
            bad = ~np.isfinite(array).reshape(len(array), -1).all(axis=1)
            if bad.any():
                return f"{what} is not finite at knot {int(np.argmax(bad))}"
        return None

    def solution(
        self, status: str, converged: bool, history: tuple[Record, ...], start: float, sweep: Sweep | None
    ) -> Solution:
        """The outcome; k and K are zeros where no sweep succeeded."""
        N, d = self.problem.horizon, self.problem.dynamics
        return Solution(
            X=self.X,
            U=self.U,
            k=np.zeros((N, d.nu)) if sweep is None else sweep.k.copy(),
            K=np.zeros((N, d.nu, d.n)) if sweep is None else sweep.K.copy(),
            cost=self.cost,
            gradient=float("nan") if sweep is None else sweep.gradient,
            converged=converged,
            status=status,
            iterations=len(history),
            seconds=time.perf_counter() - start,
            history=history,
            problem=self.problem,
        )

    def _differentiate(self, order: int) -> None:
        if self.order < 1:
            self.work.first(self.X, self.problem.padded(self.U))
            self.order = 1
        if self.order < order:
            self.work.second()
            self.order = 2


def _first_nonfinite(X: Array) -> int:
    return int(np.argmin(np.isfinite(X).all(axis=1)))

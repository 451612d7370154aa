"""The current trajectory: its derivatives, sweeps over them, line searches along their policies."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

import numpy as np

from ddp.backward import KEPT, VALUE, Backward, Sweep
from ddp.bounds import room
from ddp.derivatives import broken_rows
from ddp.errors import DDPError, ProblemError
from ddp.globalisation import SHORTEST_STEP, Step, shift
from ddp.hessians import scales
from ddp.problem import Problem
from ddp.protocols import Array, Lanes
from ddp.solution import Record, Solution
from ddp.stages import Differentiator
from ddp.terms import positive_part

CHUNKS = (0, 1, 3)
"""Where the chunks of a line search's rollouts begin, unless the dynamics do `Lanes` of them for the price of one."""


GENEROUS, LONGER = 1.2, (2.0, 4.0)
"""Where a full step brings this many times what it promised, as along a valley or away from a saddle, longer ones are
tried."""


EPSILON = float(np.finfo(float).eps)

CLOSED = 1e-10
"""Gaps smaller than this count as closed (norm: the largest component of any, in the units of the tangent space)."""


WORSE = 2.0
"""Controls that lead to such a multiple of what staying at x0 would cost, if one could, are no guess of a motion."""


@cache
def _step_lengths(longest: float) -> tuple[float, ...]:
    """What a line search tries, from the longest step on, each half as long."""
    alphas = [longest]
    while alphas[-1] >= 2.0 * SHORTEST_STEP:
        alphas.append(0.5 * alphas[-1])
    return tuple(alphas)


@cache
def _chunks(
    alphas: tuple[float, ...], lanes: int, spare: tuple[float, ...]
) -> list[tuple[int, Array]]:
    """What is rolled out at once: how many of ``alphas``, and these, in the first chunk followed by ``spare``.

    The first alone, then as many as are likely wanted; or as many as there are `Lanes`.
    """
    starts = range(0, len(alphas), lanes - len(spare)) if lanes else CHUNKS
    bounds = [start for start in starts if start < len(alphas)] + [len(alphas)]
    parts = [alphas[start:stop] for start, stop in itertools.pairwise(bounds)]
    return [(len(part), np.array([*part, *(() if i else spare)])) for i, part in enumerate(parts)]


class Guess(NamedTuple):
    """What to start from: X (N+1, nx) with X[0] the initial state, U (N, nu), K (N, nu, n).

    The policy u = U + K (x ⊖ X) is followed, unless X is ``imposed``: then it is the trajectory, gaps and all. It is,
    too, where controls ``alone`` are given, X is x0 all along, and following costs more than `WORSE` times as much, or
    diverges.
    """

    X: Array
    U: Array
    K: Array
    imposed: bool = False
    alone: bool = False


class Iterate:
    """The current trajectory and its derivatives, each order computed once, when first asked for.

    gaps (N, n): f(X_k, U_k) ⊖ X_{k+1}, zeros once they are closed.   gap: the largest component of any.
    obstacle: why the guess has no finite cost, in words; None if it has one.
    diverged: the last trajectory of a line search whose every step diverged.
    unpriced: the last one of a line search whose cost is no number.
    """

    def __init__(
        self, problem: Problem, work: Differentiator, guess: Guess, multipliers: str = VALUE, reuse: int = 0,
        segments: int = 1,
    ) -> None:  # fmt: skip
        self.problem, self.work = problem, work
        self._limited = bool(np.isfinite(problem.lower).any() or np.isfinite(problem.upper).any())
        self.backward = Backward(
            work.derivatives, problem.dynamics, multipliers, reuse, self._limited, work.contract, segments
        )
        self.backward.separable = problem.separable
        self._curved = not problem.separable.all()
        d = problem.dynamics
        self._lanes = d.lanes if isinstance(d, Lanes) else 0
        self.diverged: tuple[Array, Array] | None = None
        self.unpriced: tuple[Array, Array] | None = None
        self.obstacle: str | None = None
        self._control_weight = -1.0
        self._convex: Array | None = None  # what is added for the convex model, once it is known here
        self._place(*self._started(guess))
        self.evaluate()

    def evaluate(self) -> None:
        """Judge the trajectory anew: its cost, and every derivative when it is next asked for."""
        self.order, self.cost, self.obstacle = 0, np.inf, None
        self._recorded = False  # the dynamics' second order
        self._gauss_newton = True  # whether the Gauss-Newton Hessians are there, if any derivatives are
        self.backward.moved()
        if not np.isfinite(self.X).all():
            self.obstacle = f"the guess diverges: {self.divergence(self.X, self.U)}"
        elif not np.isfinite(self.gaps).all():
            knot = int(np.argmax(broken_rows(self.gaps)))
            self.obstacle = f"the guess cannot be stepped from: f(x, u) is not finite at knot {knot}"
        elif not np.isfinite(cost := self.problem.total(self.X, self.U)):
            padded = self.problem.padded(self.U)
            fault = self.problem.fault(self.X, padded, 0) or "the total cost is not finite"
            if not np.isinf(self.problem.values(self.X, padded)).any():
                raise ProblemError(fault)
            self.obstacle = f"the guess has no finite cost: {fault}"
        else:
            self.cost = cost

    def _started(self, guess: Guess) -> tuple[Array, Array, Array]:
        """X, U and gaps of a guess; gaps that a rollout does not feel are closed by it."""
        problem, d = self.problem, self.problem.dynamics
        self.gaps, self.gap = self.backward.gaps, 0.0
        U = np.clip(guess.U, problem.lower, problem.upper) if guess.imposed or guess.alone else guess.U
        X, rolled, _ = next(self._rollouts(guess.X, U, np.zeros_like(U), guess.K, (1.0,)))
        if not guess.imposed and not (guess.alone and self._no_motion(guess.X, X, U)):
            return X, rolled, self.gaps
        gaps = np.ascontiguousarray(d.difference(guess.X[1:], d.step(guess.X[:-1], U)))
        if np.isfinite(X).all() and np.abs(d.difference(guess.X, X)).max() < CLOSED:
            return X, U, self.gaps
        return guess.X, U, gaps

    def _no_motion(self, staying: Array, X: Array, U: Array) -> bool:
        """Whether controls and the states X that follow from them are no guess worth following."""
        diverges = not np.isfinite(X).all()
        if self.problem.constrained and not diverges:
            return False
        rolled, stayed = np.inf if diverges else self.problem.total(X, U), self.problem.total(staying, U)
        return stayed < np.inf and rolled - stayed > (WORSE - 1.0) * abs(stayed)

    def _place(self, X: Array, U: Array, gaps: Array) -> None:
        """Make this the trajectory."""
        self.X, self.U = X, U
        if gaps is not self.gaps:
            self.gaps, self.gap = gaps, float(np.abs(gaps).max())
            self.backward.gaps = gaps
        if self._limited:
            self.backward.low, self.backward.high = room(U, self.problem.lower, self.problem.upper)

    @property
    def control_weight(self) -> float:
        """The mean of the diagonals of l_uu where they were last computed, here or at the iterate before."""
        if self._control_weight < 0.0:
            self._differentiate(1)
        return self._control_weight

    @property
    def noise(self) -> float:
        """What rounding may hide of the total cost: a step that brings less cannot be judged."""
        return 1e-12 * (1.0 + abs(self.cost))

    @property
    def resolution(self) -> float:
        """The spacing of floating-point numbers at the total cost: no smaller decrease can be represented."""
        return EPSILON * self._magnitude

    @property
    def violation(self) -> float:
        """The largest violation of a constraint."""
        return self.problem.violation(self.X, self.U)

    @property
    def penalty(self) -> float:
        """The largest penalty of a constraint; 0 without any."""
        return float(self.problem.lagrangian.penalties.max()) if self.problem.constrained else 0.0

    @property
    def curved(self) -> bool:
        """Whether Gauss-Newton leaves anything out of the costs, so that there is a ``convex`` sweep."""
        return self._curved

    def sweep(self, blend: float, mu: float, costates: bool = False, convex: bool = False) -> Sweep:
        """A backward sweep, after the derivatives that it needs; see `Backward` for ``costates``.

        convex: with what is convex of what Gauss-Newton leaves out of the costs, l_zz + (exact - l_zz)₊ for l_zz.
        """
        if convex and blend < 1.0:
            with self._convex_costs():
                return self._swept(blend, mu, costates)
        sweep = self._followed(blend, mu, costates)
        return self._swept(blend, mu, costates) if sweep is None else sweep

    def _swept(self, blend: float, mu: float, costates: bool) -> Sweep:
        self._differentiate(2 if blend > 0.0 else 1, costates)
        if blend < 1.0:
            self._differentiate_costs()
        sweep = self.backward(blend, mu, costates)
        if sweep.failed >= 0 and sweep.contraction == KEPT:  # what is kept may be too old
            self.backward.forget()
            return self._swept(blend, mu, costates)
        return sweep

    @contextmanager
    def _convex_costs(self) -> Iterator[None]:
        """Within the block, Gauss-Newton's costs with the convex part of what they leave out: as terms tell it.

        What terms leave to the contraction of the dynamics' second order is left to that.
        """
        self._differentiate(1)
        self._differentiate_costs()
        if self.order < 2:
            self.work.costs()
            self.order = 2
        d = self.work.derivatives
        knots = np.flatnonzero(~self.problem.separable)
        kept = d.lzz[knots]
        if self._convex is None:
            left_out = np.triu(d.exact[knots] - kept)
            left_out += np.triu(left_out, 1).swapaxes(1, 2)
            used = np.flatnonzero(left_out.any(axis=(0, 1)))
            block = slice(None), used[:, None], used
            self._convex = np.zeros_like(kept)
            self._convex[block] = np.nan_to_num(positive_part(left_out[block]))
        d.lzz[knots] += self._convex
        try:
            yield
        finally:
            d.lzz[knots] = kept

    def _followed(self, blend: float, mu: float, costates: bool) -> Sweep | None:
        """The same while derivatives are being made, where those who make them can be followed and have not begun."""
        follow = self.work.followed if self.order == 0 else None
        behind = self.backward.behind(blend, mu, costates) if follow else None
        if follow is None or behind is None:
            return None
        follow(self.X, self.problem.padded(self.U), blend > 0.0, behind)
        self.order, self._recorded = (2, behind.described) if blend > 0.0 else (1, False)
        self._gauss_newton = True
        self._scale(blend > 0.0 and behind.described)
        return behind.outcome()

    def search(self, sweep: Sweep, longest: float) -> Step:
        """Backtrack along the sweep's policy until a step brings a tenth of what it promised.

        Where closing gaps is promised to cost, it may cost twice that (FDDP's rule; Mastalli et al. 2020). Where the
        promise is less than rounding can show, a step that does not raise the cost is as good.
        """
        self.unpriced = None
        rounding = 1e-14 * (1.0 + abs(self.cost))
        alphas = _step_lengths(longest)
        spare = LONGER if longest == 1.0 and self._lanes > len(LONGER) else ()
        rollouts = self._rollouts(self.X, self.U, sweep.k, sweep.K, alphas, spare)
        for alpha, (X, U, notes) in zip(alphas, rollouts, strict=True):
            cost = self.problem.total(X, U, notes)
            finite = abs(cost) < np.inf
            self.diverged = None
            if not finite:
                if np.isfinite(X[-1]).all():
                    self.unpriced = X, U
                else:
                    self.diverged = X, U
            decrease, promised = self.cost - cost, sweep.promised(alpha)
            share = 0.1 if promised >= 0.0 else (2.0 if self.gap else 0.0)
            enough = decrease > share * promised
            enough = enough or (abs(sweep.d0) < max(1e-12, rounding) and decrease >= -rounding)
            if enough and finite:
                step = Step(alpha, cost, X, U)
                if alpha == 1.0 and self.gap == 0.0 and decrease > GENEROUS * promised > 100.0 * self.resolution:
                    step = self._longer(sweep, step)
                return step
        return Step(0.0, self.cost, self.X, self.U)

    def _longer(self, sweep: Sweep, step: Step) -> Step:
        """Twice or four times the full step, if that lowers the cost further."""
        rollouts = self._spare or self._rollouts(self.X, self.U, sweep.k, sweep.K, LONGER)
        for alpha, (X, U, notes) in zip(LONGER, rollouts, strict=True):
            cost = self.problem.total(X, U, notes)
            if -np.inf < cost < step.cost:
                step = Step(alpha, cost, X, U)
        return step

    def accept(self, step: Step) -> None:
        """Move to where a line search arrived."""
        if step.alpha > 0.0:
            self._place(step.X, step.U, (1.0 - step.alpha) * self.gaps if self.gap else self.gaps)
            self.cost, self.order = step.cost, 0
            self.backward.moved()

    def final_sweep(self, exact: bool) -> tuple[Sweep | None, bool]:
        """An unregularised sweep, and whether its Hessians are exact; Gauss-Newton's where those fail."""
        if not np.isfinite(self.cost):
            return None, False
        self.backward.forget()
        for blend, mu in ((1.0, 0.0), (0.0, 0.0), (0.0, shift(self))):
            if exact or blend == 0.0:
                sweep = self.sweep(blend, mu)
                if sweep.failed < 0:
                    return sweep, blend > 0.0
        return None, False

    def concavity(self) -> str:
        """Where, without regularisation, the Hessian in the controls is not positive definite, and by how much."""
        sweep = self.sweep(1.0 if self.order == 2 else 0.0, 0.0)
        if sweep.failed < 0 or not np.isfinite(self.backward.curvature()[0]):
            return ""
        smallest, control = self.backward.curvature()
        where = f"at knot {sweep.failed}, along control {control}"
        said = f"; without it, its smallest eigenvalue is {smallest:.2g} {where}"
        term = self.problem.most_concave(self.X, self.problem.padded(self.U), sweep.failed)
        return said + (f"; {term} has negative curvature there" if term else "")

    def fault(self) -> str | None:
        """Which derivative is not finite, and at which knot, in words; None if all are."""
        d = self.work.derivatives
        named = [("derivative", d.A), ("derivative", d.B)] + [("second derivative", d.record)] * self._recorded
        for what, array in named:
            if (bad := broken_rows(array)).any():
                return f"the dynamics' {what} is not finite at knot {int(np.argmax(bad))}"
        return self.fault_of_term()

    def fault_of_term(self) -> str | None:
        """The same of the cost terms."""
        return self.problem.fault(self.X, self.problem.padded(self.U), self.order)

    def divergence(self, X: Array, U: Array) -> str:
        """Where a rollout that is not finite ends, and what the dynamics say about it."""
        knot = int(np.argmax(broken_rows(X)))
        said = ""
        try:
            self.problem.dynamics.step(X[knot - 1], U[knot - 1], knot - 1)
        except DDPError as failure:
            said = f" ({failure})"
        return f"the state at knot {knot} is not finite, the dynamics diverged there{said}"

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
            workers=self.work.description,
        )

    def _rollouts(
        self, X: Array, U: Array, k: Array, K: Array, alphas: tuple[float, ...], spare: tuple[float, ...] = ()
    ) -> Iterator[tuple[Array, Array, Array]]:
        """Rollouts under one alpha after another, with their notes; those of ``spare`` alphas are kept."""
        self._spare: list[tuple[Array, Array, Array]] = []
        for count, chunk in _chunks(alphas, self._lanes, spare):
            found = list(zip(*self.problem.track(X, U, k, K, chunk, self.gaps), strict=True))
            self._spare += found[count:]
            yield from found[:count]

    def _differentiate(self, order: int, costates: bool = False) -> None:
        if self.order < 1 and order == 2 and self.backward.reads_records(costates):
            self.work.at_once(self.X, self.problem.padded(self.U))
            self.order, self._recorded, self._gauss_newton = 2, True, False
            self._scale(True)
        if self.order < 1:
            self.work.first(self.X, self.problem.padded(self.U))
            self.order, self._recorded, self._gauss_newton = 1, False, True
            self._scale(False)
        if order == 2 and not self._recorded and self.backward.reads_records(costates):
            self.work.second()
            self.order, self._recorded = 2, True
        elif self.order < order:
            self.work.costs()
            self.order = 2

    def _differentiate_costs(self) -> None:
        """Gauss-Newton's Hessians, which an exact model alone does without."""
        if not self._gauss_newton:
            self.work.gauss_newton()
            self._gauss_newton = True

    def _scale(self, exact: bool) -> None:
        """What later judgements are relative to; by the ``exact`` Hessians or by Gauss-Newton's, whoever made them."""
        derivatives, self._convex = self.work.derivatives, None
        H = derivatives.exact if exact else derivatives.lzz
        self._magnitude, self._control_weight = scales(derivatives.l, H, self.U.shape[1])

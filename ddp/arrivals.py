"""Ends that a motion may have, and straight ways there: guesses for targets that several postures reach.

The way to an end costs about as much as in a linear-quadratic model about x0 at rest. Its arrival cost is ½ |y|² for
the end ``x0 ⊕ (m + L y)``, where m and L Lᵀ are the mean and the covariance that a Kalman filter predicts: costs of
states are its measurements, and its noise is the inverse of what controls cost. Minima of this and the exact cost of
the end are postures that a motion may end in; random y, always the same ones, lead to them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddp.constraints.detours import detour
from ddp.constraints.unreachable import Knot
from ddp.guesses import Start
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.systems.system import Expansion, ability

SEEDS, STEPS, STOP = 24, 20, 1e-3
"""Random ends to begin from; steps to a minimum, and the relative fall of its cost that ends them."""

DAMPED, FALL, RISE = 1e-3, 0.2, 5.0
"""The first damping relative to the Hessian's diagonal, how it falls where a step helps, and rises elsewhere."""

HELD = 100.0
"""Price of half a squared violation at the end, relative to its bound's size, in costs of the end y = 0."""

APART = 0.2
"""Distance of y, relative to it, from which ends are others."""

BEST, DEAR = 2, 3.0
"""Ends, of those to which straight ways cost least, that are guessed before random ones; ways that cost no more than
such a multiple of the least, or as much more of a negative one, tell how far away random ends are."""


class Way(NamedTuple):
    """A straight way to an end: its states X (N+1, nx), controls U (N, nu) that nearly follow it, what it costs."""

    X: Array
    U: Array
    cost: float


class _Step(NamedTuple):
    """Steps of a linear-quadratic model, as one: x' ~ N(A x + b, C), after exp(h·x - ½ x·J x)."""

    A: Array
    b: Array
    C: Array
    h: Array
    J: Array

    def then(self, other: _Step) -> _Step:
        """These steps and other ones after them."""
        inverse = np.linalg.inv(np.eye(len(self.b)) + self.C @ other.J)
        gain = other.A @ inverse
        back = self.A.T @ inverse.T
        return _Step(
            gain @ self.A, gain @ (self.b + self.C @ other.h) + other.b, gain @ self.C @ other.A.T + other.C,
            back @ (other.h - other.J @ self.b) + self.h, back @ other.J @ self.A + self.J,
        )  # fmt: skip


def _arrival(problem: Problem) -> tuple[Array, Array]:
    """m (n,) and L (n, n) of the arrival cost, by the first step about rest at x0 and the mean of running costs."""
    d, N, n = problem.dynamics, problem.horizon, problem.dynamics.n
    x, u = problem.x0[None], d.nominal_control(problem.x0)[None]
    made, costs = Expansion.of(d, 1), problem.allocate()
    d.expand(x, u, made)
    problem.objective.expand(np.tile(x, (N + 1, 1)), np.tile(u, (N + 1, 1)), costs, 0, N)
    H, z = costs.hessians(problem.separable, exact=False)[:N].mean(axis=0), costs.lz[:N].mean(axis=0)
    A, B, moved = made.A[0], made.B[0], d.difference(x, d.step(x, u))[0]
    noise = B @ np.linalg.pinv(H[n:, n:], hermitian=True)
    step, steps = _Step(A, moved - noise @ z[n:], noise @ B.T, -z[:n], H[:n, :n]), None
    while N:
        if N % 2:
            steps = step if steps is None else steps.then(step)
        step, N = step.then(step), N // 2
    assert steps is not None
    sizes, axes = np.linalg.eigh(0.5 * (steps.C + steps.C.T))
    return steps.b, axes * np.sqrt(np.maximum(sizes, 0.0))


class Ends:
    """Ends of a problem's motions, and what arriving there costs."""

    def __init__(self, problem: Problem) -> None:
        self._problem, (self._mean, self._axes) = problem, _arrival(problem)
        self._terms = [entry for entry in problem.objective.entries if entry.begin == problem.horizon]
        self._rows = Knot(problem, problem.horizon)
        self._price = 0.0  # of violations, until it is known
        self._price = HELD * (abs(float(self._expanded(np.zeros((1, problem.dynamics.n)))[0][0])) or 1.0)

    def _expanded(self, Y: Array) -> tuple[Array, Array, Array, Array]:
        """Estimates (M,), their gradients (M, n) and Gauss-Newton Hessians (M, n, n), and the ends (M, nx) of Y (M, n).

        Hard constraints of the end count as costs.
        """
        d, L, M = self._problem.dynamics, self._axes, len(Y)
        X, U, n = d.integrate(np.tile(self._problem.x0, (M, 1)), self._mean + Y @ L.T), np.zeros((M, d.nu)), d.n
        l, lz, lzz = np.zeros(M), np.zeros((M, n + d.nu)), np.zeros((M, n + d.nu, n + d.nu))
        for entry in self._terms:
            entry.term.expand(X.copy(), U.copy(), entry.weight, False, l, lz, lzz)
        g, H = lz[:, :n], lzz[:, :n, :n]
        if self._price and len(self._rows.sizes):
            r = self._rows.beyond(X, U)
            J = self._rows.slopes(X, U, r)[:, :, :n] / self._rows.sizes[:, None]
            r = r / self._rows.sizes
            l, g = l + 0.5 * self._price * (r * r).sum(axis=1), g + self._price * np.einsum("kia,ki->ka", J, r)
            H = H + self._price * np.einsum("kia,kib->kab", J, J)
        return l + 0.5 * (Y * Y).sum(axis=1), g @ L + Y, L.T @ H @ L + np.eye(n), X

    def least(self, Y: Array) -> tuple[Array, Array, Array]:
        """Minima near Y (M, n): their estimates (M,), y (M, n) and ends (M, nx)."""
        Y, (f, g, H, X) = Y.copy(), self._expanded(Y)
        damping, diagonal, left = np.full(len(Y), DAMPED), np.arange(Y.shape[1]), np.arange(len(Y))
        for _ in range(STEPS):
            damped = H[left]
            damped[:, diagonal, diagonal] *= 1.0 + damping[left, None]
            tried = Y[left] - np.linalg.solve(damped, g[left, :, None])[:, :, 0]
            found = self._expanded(tried)
            better = found[0] < f[left]
            done, at = better & (f[left] - found[0] < STOP * np.abs(f[left])), left[better]
            for old, new in zip((Y, f, g, H, X), (tried, *found), strict=True):
                old[at] = new[better]
            damping[left] *= np.where(better, FALL, RISE)
            left = left[~done]
            if not len(left):
                break
        return f, Y, X

    def found(self) -> Array:
        """Different ends (M, nx), the least estimate first, of motions that cost as much as the nearest, or less."""
        n, random = self._problem.dynamics.n, np.random.default_rng(0)
        (near,), (y,), _ = self.least(np.zeros((1, n)))
        away = random.normal(size=(SEEDS, n))
        away *= (np.sqrt(2.0 * abs(near)) * random.uniform(0.3, 1.0, SEEDS) / np.linalg.norm(away, axis=1))[:, None]
        f, Y, X = self.least(np.concatenate([y[None], away]))
        chosen: list[int] = []
        for i in np.argsort(f, kind="stable").tolist():
            if all(np.linalg.norm(Y[i] - Y[j]) > APART * np.linalg.norm(Y[j]) for j in chosen):
                chosen.append(i)
        return X[chosen]


def straight(problem: Problem, ends: Array) -> list[Way]:
    """Straight ways to ends (M, nx), at rest at both ends of the way, with the controls that they take."""
    d, N, M = problem.dynamics, problem.horizon, len(ends)
    time = np.linspace(0.0, 1.0, N + 1)[:, None]
    ahead, h = time**3 * (10.0 - 15.0 * time + 6.0 * time**2), d.n // 2
    way = d.difference(np.tile(problem.x0, (M, 1)), ends)
    robot = ability(d, "turn") is not None  # whose states are positions and velocities
    if robot:
        way[:, h:] = 0.0
    dX = (ahead * way[:, None]).reshape(-1, d.n)
    X = d.integrate(np.tile(problem.x0, (len(dX), 1)), dX).reshape(M, N + 1, d.nx)
    if robot:
        X[:, :, d.nx - h :] = np.gradient(ahead[:, 0])[:, None] / d.dt * way[:, None, :h]
        X[:, 0] = problem.x0
    at, after = X[:, :-1].reshape(-1, d.nx), X[:, 1:].reshape(-1, d.nx)
    U = np.ascontiguousarray(d.nominal_control(at))
    if robot:
        made = Expansion.of(d, len(U))
        d.expand(at, U, made)
        missed, B = d.difference(d.step(at, U), after), made.B
        BB = np.einsum("kia,kib->kab", B, B) + 1e-12 * np.eye(d.nu)
        U = U + np.linalg.solve(BB, np.einsum("kia,ki->ka", B, missed)[:, :, None])[:, :, 0]
    U = np.clip(U.reshape(M, N, d.nu), problem.lower, problem.upper)
    return [Way(x, u, problem.total(x, u) + problem.paid(x, u)) for x, u in zip(X, U, strict=True)]


def own_guesses(problem: Problem, count: int) -> list[Start]:
    """Guesses of a problem's own, always the same: the default, straight ways to the best ends, and to random ones.

    Random ends are as far away as good ones. Where the model of the way cannot be made, there is the default alone.
    """
    d, random = problem.dynamics, np.random.default_rng(0)
    try:
        with np.errstate(all="ignore"):
            known = [way for way in straight(problem, Ends(problem).found()) if np.isfinite(way.cost)]
            found = sorted(known, key=lambda way: way.cost)
            most = found[0].cost + (DEAR - 1.0) * abs(found[0].cost)
            good = np.array([way.X[-1] for way in found if way.cost <= most])
            x0 = np.tile(problem.x0, (max(count, len(good)), 1))
            spread = np.sqrt(3.0 * (d.difference(x0[: len(good)], good) ** 2).mean(axis=0))
            others = straight(problem, d.integrate(x0, spread * random.uniform(-1.0, 1.0, (len(x0), d.n))))
            ways = [way for way in (*found[:BEST], *others) if np.isfinite(way.cost)][: count - 1]
            return [None, *(around(problem, way) for way in ways)]
    except Exception:  # a user's own code fails at states that no solve has come to
        return [None]


def around(problem: Problem, way: Way) -> tuple[Array, Array]:
    """A way that goes around what it violates, if it is known how; else itself."""
    violated = problem.constrained and problem.violation(way.X, way.U) > 0.0
    other = detour(problem, way.X[-1])[0] if violated else None
    return (way.X, way.U) if other is None else other

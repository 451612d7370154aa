# mypy: allow-untyped-defs, allow-untyped-calls
"""Implicit steps of users' functions in continuous time, with derivatives of both orders by the implicit function rule.

Stages are those of implicit_steps.py: from x, of a length h, k is found with ``k = h f(x ⊕ θ k, u)``, and the next
stage begins at x ⊕ κ k. With all k of a step, the residual R(x, k, u) and the end Γ(x, k) = x' are traced, and

    k_z = -R_k⁻¹ R_z,    T = ∂(x, k, u)/∂z,    [A B] = Γ' T,    λ = -R_k⁻ᵀ Γ_kᵀ w,    H = Tᵀ ∇²(λ·R + w·Γ) T

(Singh et al., "Details", §X, has that rule.) Newton's method begins at k = 0.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.kernel import call_contraction, callback, inline, kernel
from ddp.errors import ModelError
from ddp.machine.addresses import array_at, integers_at
from ddp.machine.number import WIDTH
from ddp.protocols import Array
from ddp.systems.system import Contraction, Stepping
from ddp.systems.user_step import followed
from ddp.tracing.evaluate import fill, share
from ddp.tracing.function import NO_RECORD, TracedFunction
from ddp.tracing.groups import Euclidean
from ddp.tracing.spaces import NOTHING, Space

SWEEPS, CLOSE = 40, 1e-10
"""Steps of Newton's method at most, the last of them from one below this, relative to 1 + |k|."""


class ImplicitSteps:
    """Steps of a flow by a table of implicit_steps.py, as a `TracedFunction` of (x, u) is asked.

    Raises ModelError where f cannot be traced.
    """

    steps = True

    def __init__(
        self, f: Callable[..., Any], nx: int, nu: int, h: float, method: Array, parts: int, space: Space,
        p: Array | None,
    ) -> None:  # fmt: skip
        self.nx, self.nu, self.space, self.n = nx, nu, space, space.n
        self.p, self.size, self.shape = NOTHING if p is None else p, nx, (nx,)
        stages = method.tolist() * parts
        self.nk, n = space.n * len(stages), space.n
        whole = Space((*space.parts, Euclidean(self.nk)))

        def begins(x: Any, k: Any) -> Any:
            """States at which each stage begins, and the step ends."""
            found = [x]
            for i, (_, _, far) in enumerate(stages):
                found.append(space.plus(found[-1], far * k[n * i : n * (i + 1)]))
            return found

        def residual(y: Any, u: Any, *p: Any) -> Any:
            x, k = y[:nx], y[nx:]
            rows = []
            for i, ((theta, part, _), start) in enumerate(zip(stages, begins(x, k), strict=False)):
                own = k[n * i : n * (i + 1)]
                slope = np.array(f(space.plus(start, theta * own), u.copy(), *p))
                if slope.shape != (n,):
                    raise ModelError(f"f: expected a velocity of shape ({n},), got {slope.shape}")
                rows.append(own - (h / parts * part) * slope)
            return np.concatenate(rows)

        def end(y: Any, u: Any, *p: Any) -> Any:
            return np.concatenate([begins(y[:nx], y[nx:])[-1], y[nx:]])

        self._residual = followed("f", residual, nx + self.nk, nu, p, whole, steps=False)
        self._end = followed("f", end, nx + self.nk, nu, p, whole)

    # -- as a traced function ----------------------------------------------------------------------------------------

    @property
    def operations(self) -> int:
        """Operations of both functions and derivatives together."""
        return self._residual.operations + self._end.operations

    @property
    def digest(self) -> bytes:
        """Digest of both functions."""
        return self._residual.digest + self._end.digest

    @property
    def seconds(self) -> float:
        """Seconds that making them took."""
        return self._residual.seconds + self._end.seconds

    def renewed(self) -> ImplicitSteps:
        """Itself, or what it is now if f is another function than when it was traced."""
        residual, end = self._residual.renewed(), self._end.renewed()
        return self if residual is self._residual and end is self._end else self._with(residual, end)

    def at(self, p: Array) -> ImplicitSteps:
        """Copy with other parameters; nothing is traced or compiled."""
        twin = self._with(self._residual.at(p), self._end.at(p))
        twin.p = p
        return twin

    def _with(self, residual: TracedFunction, end: TracedFunction) -> ImplicitSteps:
        twin = copy.copy(self)
        twin._residual, twin._end = residual, end
        for name in ("words", "contraction"):
            vars(twin).pop(name, None)
        return twin

    @cached_property
    def words(self) -> tuple[NDArray[np.int64], Any]:
        """Words of a context, see `WORDS`, and what keeps alive what they point to."""
        R, E = self._residual, self._end
        places = []
        for layout in (R.layout("first"), E.layout("first")):
            for template, where in layout.blocks:
                places += [template.ctypes.data, template.size, where.ctypes.data, len(where)]
        addresses = [one.code.addresses[name] for one in (R, E) for name in ("value", "first")]
        outputs = [one.layout("first").outputs for one in (R, E)]
        contractions = R.contraction, E.contraction
        called = [word for one in contractions for word in (one.address, one.context)]
        sizes = [self.nx, self.n, self.nk, self.nu, len(self.p), self.p.ctypes.data]
        words = np.array([*sizes, *addresses, *outputs, *called, *places], dtype=np.int64)
        return words, (R.code, E.code, R.layout("first"), E.layout("first"), contractions, self.p)

    def _solved(self, X: Array, U: Array) -> Array:
        """x and k (M, nx + nk) of M knots."""
        Y = np.empty((len(X), self.nx + self.nk))
        solve_knots(self.words[0].ctypes.data, X, U, self.p, Y)
        return Y

    def values(self, X: Array, U: Array) -> Array:
        """Next states (M, nx)."""
        Y = self._solved(X, U)
        found = self._end.values(Y, U)[:, : self.nx]
        found[~np.isfinite(Y).all(axis=1)] = np.nan
        return np.ascontiguousarray(found)

    def first(self, X: Array, U: Array, A: Array, B: Array, record: Array = NO_RECORD) -> None:
        """A (M, n, n), B (M, n, nu) := derivatives by x and u, both of which record (M, nx + nu) keeps, if given."""
        if len(record):
            record[:, : self.nx], record[:, self.nx :] = X, U
        n, nk, M, Y = self.n, self.nk, len(X), self._solved(X, U)
        R, Ru = np.empty((M, nk, n + nk)), np.empty((M, nk, self.nu))
        E, Eu = np.empty((M, n + nk, n + nk)), np.empty((M, n + nk, self.nu))
        self._residual.first(Y, U, R, Ru)
        self._end.first(Y, U, E, Eu)
        Rk, Rz = R[:, :, n:], np.concatenate([R[:, :, :n], Ru], axis=2)
        sound = np.isfinite(Rk).all(axis=(1, 2)) & np.isfinite(Y).all(axis=1)
        Rk[~sound] = np.eye(nk)  # their steps are no numbers already
        Rz[~sound] = np.nan
        through = E[:, :n, n:] @ np.linalg.solve(Rk, Rz)
        A[:], B[:] = E[:, :n, :n] - through[:, :, :n], Eu[:, :n] - through[:, :, n:]

    def second(self, X: Array, U: Array, weight: Array, out: Array) -> None:
        """out (M, nz, nz) := second derivatives of ``weight @ (f(x ⊕ dx, u + du) ⊖ f(x, u))``, weight (M, n)."""
        record = X if X.shape[1] != self.nx else np.hstack([X, U])  # x and u one behind the other
        contract_knots(*self.contraction[:2], np.ascontiguousarray(record), weight, out)

    @property
    def stepping(self) -> Stepping:
        """Compiled steps: see `system.Abilities`."""
        words, owner = self.words
        return Stepping(step_eight.address, words.ctypes.data, NOTHING, (words, owner))

    @cached_property
    def contraction(self) -> Contraction:
        """The second derivatives of one knot, whose record is x and u."""
        words, owner = self.words
        return Contraction(contract_one.address, words.ctypes.data, (words, owner))


# -- kernels -----------------------------------------------------------------------------------------------------------

WORDS = 32
"""Words of a context: nx, n, nk, nu, how many parameters and where, addresses of R, R', Γ and Γ', outputs of R' and Γ',
address and context of ∇²R and ∇²Γ, and of the blocks by (x, k) and by u of R' and Γ' the template's address and size,
the places' address and how many there are."""

_BLOCKS = 16


@inline
def dense(w, block, outputs, lane, out):
    """out, a matrix, := a block of a lane."""
    at = _BLOCKS + 4 * block
    template, columns = array_at(w[at], (w[at + 1],)), out.shape[1]
    places = integers_at(w[at + 2], (w[at + 3], 2))
    for j in range(template.shape[0]):
        out[j // columns, j % columns] = template[j]
    for j in range(places.shape[0]):
        out[places[j, 1] // columns, places[j, 1] % columns] = outputs[WIDTH * places[j, 0] + lane]


@kernel
def solve_dense(A, X):
    """X (n, m) := A⁻¹ X by Gauss with pivots; A is overwritten."""
    n, m = X.shape
    for j in range(n):
        best = j
        for i in range(j + 1, n):
            if abs(A[i, j]) > abs(A[best, j]):
                best = i
        for c in range(n):
            A[j, c], A[best, c] = A[best, c], A[j, c]
        for c in range(m):
            X[j, c], X[best, c] = X[best, c], X[j, c]
        for i in range(j + 1, n):
            factor = A[i, j] / A[j, j]
            for c in range(j + 1, n):
                A[i, c] -= factor * A[j, c]
            for c in range(m):
                X[i, c] -= factor * X[j, c]
    for j in range(n - 1, -1, -1):
        for c in range(m):
            X[j, c] /= A[j, j]
            for i in range(j):
                X[i, c] -= A[i, j] * X[j, c]


@kernel
def find(w, given, lanes):
    """k of the first lanes of given, which holds x, k, u and parameters of eight knots; NaN where there is none."""
    nx, n, nk = w[0], w[1], w[2]
    r, outputs, R, change = np.empty(WIDTH * nk), np.empty(WIDTH * w[10]), np.empty((nk, n + nk)), np.empty((nk, 1))
    Rk, done = np.empty((nk, nk)), np.zeros(WIDTH, np.int64)
    for i in range(WIDTH * nk):
        given[WIDTH * nx + i] = 0.0
    for _ in range(SWEEPS):
        call_contraction(w[6], given.ctypes.data, r.ctypes.data, 0, 0)
        call_contraction(w[7], given.ctypes.data, outputs.ctypes.data, 0, 0)
        waiting = False
        for lane in range(lanes):
            if done[lane] == 2:
                continue
            dense(w, 0, outputs, lane, R)
            for i in range(nk):
                change[i, 0] = r[WIDTH * i + lane]
                for j in range(nk):
                    Rk[i, j] = R[i, n + j]
            solve_dense(Rk, change)
            size = 0.0
            for i in range(nk):
                at = WIDTH * (nx + i) + lane
                given[at] -= change[i, 0]
                part = abs(change[i, 0]) / (1.0 + abs(given[at]))
                size = part if not part < size else size  # NaN, too
            lost = not size < np.inf
            done[lane] = 2 if done[lane] == 1 or lost else (1 if size < CLOSE else 0)
            if lost:
                given[WIDTH * nx + lane] = np.nan
            waiting = waiting or done[lane] < 2
        if not waiting:
            break
    for lane in range(lanes):
        if done[lane] < 2:
            given[WIDTH * nx + lane] = np.nan


@kernel
def solve_knots(context, X, U, p, Y):
    """Y (M, nx + nk) := x and k of M knots."""
    w = integers_at(context, (WORDS,))
    nx, nk = w[0], w[2]
    given = np.empty(WIDTH * (nx + nk + w[3] + w[4]))
    share(given, nx + nk + w[3], p)
    for first in range(0, X.shape[0], WIDTH):
        fill(given, 0, X, first)
        fill(given, nx + nk, U, first)
        find(w, given, WIDTH)
        for lane in range(min(WIDTH, X.shape[0] - first)):
            for i in range(nx + nk):
                Y[first + lane, i] = given[WIDTH * i + lane]


@callback
def step_eight(inputs, outputs, context, knot):  # type: ignore[no-untyped-def]
    """C function of `system.Stepping`."""
    w = integers_at(context, (WORDS,))
    nx, nk, nu = w[0], w[2], w[3]
    own, after = array_at(inputs, (WIDTH * (nx + nu),)), array_at(outputs, (WIDTH * nx,))
    given, ends = np.empty(WIDTH * (nx + nk + nu + w[4])), np.empty(WIDTH * (nx + nk))
    share(given, nx + nk + nu, array_at(w[5], (w[4],)))
    for i in range(WIDTH * nx):
        given[i] = own[i]
    for i in range(WIDTH * nu):
        given[WIDTH * (nx + nk) + i] = own[WIDTH * nx + i]
    find(w, given, WIDTH)
    call_contraction(w[8], given.ctypes.data, ends.ctypes.data, 0, 0)
    for lane in range(WIDTH):
        lost = given[WIDTH * nx + lane] != given[WIDTH * nx + lane]
        for i in range(nx):
            after[WIDTH * i + lane] = np.nan if lost else ends[WIDTH * i + lane]


@kernel
def contract_knots(function, context, record, weight, out):
    """Call the C function of a `system.Contraction` for each of M knots."""
    for k in range(out.shape[0]):
        call_contraction(function, context, record[k].ctypes.data, weight[k].ctypes.data, out[k].ctypes.data)


@callback
def contract_one(context, record, weight, hessian):  # type: ignore[no-untyped-def]
    """C function of `system.Contraction`."""
    w = integers_at(context, (WORDS,))
    nx, n, nk, nu = w[0], w[1], w[2], w[3]
    nz, size = n + nu, n + nk + nu
    known, on_end = array_at(record, (nx + nu,)), array_at(weight, (n,))
    given = np.empty(WIDTH * (nx + nk + nu + w[4]))
    share(given, 0, known[:nx])
    share(given, nx + nk, known[nx:])
    share(given, nx + nk + nu, array_at(w[5], (w[4],)))
    find(w, given, 1)
    of_R, of_E = np.empty(WIDTH * w[10]), np.empty(WIDTH * w[11])
    call_contraction(w[7], given.ctypes.data, of_R.ctypes.data, 0, 0)
    call_contraction(w[9], given.ctypes.data, of_E.ctypes.data, 0, 0)
    R, Ru, E = np.empty((nk, n + nk)), np.empty((nk, nu)), np.empty((n + nk, n + nk))
    dense(w, 0, of_R, 0, R)
    dense(w, 1, of_R, 0, Ru)
    dense(w, 2, of_E, 0, E)
    T, Rk, turned, on_R = np.zeros((size, nz)), np.empty((nk, nk)), np.empty((nk, nk)), np.zeros((nk, 1))
    by_z = T[n : n + nk]
    for i in range(nk):
        for j in range(n):
            by_z[i, j] = -R[i, j]
            on_R[i, 0] -= E[j, n + i] * on_end[j]
        for j in range(nu):
            by_z[i, n + j] = -Ru[i, j]
        for j in range(nk):
            Rk[i, j], turned[j, i] = R[i, n + j], R[i, n + j]
    solve_dense(Rk, by_z)
    solve_dense(turned, on_R)
    for i in range(n):
        T[i, i] = 1.0
    for i in range(nu):
        T[n + nk + i, n + i] = 1.0
    at, on_all = np.empty(nx + nk + nu), np.zeros(n + nk)
    for i in range(nx + nk + nu):
        at[i] = given[WIDTH * i]
    for i in range(n):
        on_all[i] = on_end[i]
    bent, other = np.empty((size, size)), np.empty((size, size))
    call_contraction(w[12], w[13], at.ctypes.data, on_R.ctypes.data, bent.ctypes.data)
    call_contraction(w[14], w[15], at.ctypes.data, on_all.ctypes.data, other.ctypes.data)
    H, turned_T = array_at(hessian, (nz, nz)), np.zeros((size, nz))
    for i in range(size):
        for j in range(size):
            value = bent[i, j] + other[i, j]
            if value != 0.0:
                for b in range(nz):
                    turned_T[i, b] += value * T[j, b]
    for a in range(nz):
        for b in range(nz):
            H[a, b] = 0.0
            for i in range(size):
                H[a, b] += T[i, a] * turned_T[i, b]
    for a in range(nz):
        for b in range(a):
            H[a, b] = H[b, a] = 0.5 * (H[a, b] + H[b, a])

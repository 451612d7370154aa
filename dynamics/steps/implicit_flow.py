# mypy: allow-untyped-defs, allow-untyped-calls
"""Implicit steps of users' functions in continuous time, with derivatives of both orders by the implicit function rule.

Stages are those of implicit_steps.py: from x, of a length h, k is found with ``k = h f(x ⊕ θ k, u)``, and the next
stage begins at x ⊕ κ k. With all k of a step, the residual R(x, u, k) and the end Γ(x, k) = x' are traced, and

    G = k_z = -R_k⁻¹ R_z,   T = (1 ; G),    [A B] = Γ' T,    λ = -R_k⁻ᵀ Γ_kᵀ w,    H = Tᵀ ∇²(λ·R + w·Γ) T

by z = (x, u). In both functions u and k are one vector, as controls are. (Singh et al., "Details", §X, has that rule.)
Newton's method begins at k = 0.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.kernel import call_contraction, callback, inline, kernel
from ddp.machine.addresses import array_at, integers_at
from ddp.machine.memory import hold
from ddp.machine.number import WIDTH
from ddp.protocols import Array, copied
from ddp.systems.derived_dynamics import followed
from ddp.systems.system import Contraction, Stepping
from ddp.tracing.evaluate import fill, share
from ddp.tracing.function import NO_RECORD, TracedFunction
from ddp.tracing.spaces import NOTHING, Space
from ddp.tracing.trace import of_shape
from dynamics.steps.composition import add_pulled

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

        def begins(x: Any, k: Any) -> Any:
            """States at which each stage begins, and the step ends."""
            found = [x]
            for i, (_, _, far) in enumerate(stages):
                found.append(space.plus(found[-1], far * k[n * i : n * (i + 1)]))
            return found

        def residual(x: Any, w: Any, *p: Any) -> Any:
            u, k, rows = w[:nu], w[nu:], []
            for i, ((theta, part, _), start) in enumerate(zip(stages, begins(x, k), strict=False)):
                own = k[n * i : n * (i + 1)]
                slope = of_shape("velocity", np.array(f(space.plus(start, theta * own), u.copy(), *p)), n)
                rows.append(own - (h / parts * part) * slope)
            return np.concatenate(rows)

        def end(x: Any, w: Any, *p: Any) -> Any:
            return begins(x, w[nu:])[-1]

        self._residual = followed("f", residual, nx, nu + self.nk, p, space, steps=False)
        self._end = followed("f", end, nx, nu + self.nk, p, space)

    # -- as a traced function ----------------------------------------------------------------------------------------

    @property
    def digest(self) -> bytes:
        return self._residual.digest + self._end.digest

    @property
    def seconds(self) -> float:
        return self._residual.seconds + self._end.seconds

    def renewed(self) -> "ImplicitSteps":
        residual, end = self._residual.renewed(), self._end.renewed()
        return self if residual is self._residual and end is self._end else self._with(residual, end, self.p)

    def at(self, p: Array) -> "ImplicitSteps":
        return self._with(self._residual.at(p), self._end.at(p), p)

    def _with(self, residual: TracedFunction, end: TracedFunction, p: Array) -> "ImplicitSteps":
        return copied(self, "words", "contraction", _residual=residual, _end=end, p=p)

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
        """u and k (M, nu + nk) of M knots."""
        W = np.empty((len(X), self.nu + self.nk))
        solve_knots(self.words[0].ctypes.data, X, U, self.p, W)
        return W

    def values(self, X: Array, U: Array) -> Array:
        W = self._solved(X, U)
        found = self._end.values(X, W)
        found[~np.isfinite(W).all(axis=1)] = np.nan
        return found

    def first(self, X: Array, U: Array, A: Array, B: Array, record: Array = NO_RECORD) -> None:
        """A (M, n, n), B (M, n, nu) := derivatives by x and u, both of which record (M, nx + nu) keeps, if given."""
        if len(record):
            record[:, : self.nx], record[:, self.nx :] = X, U
        n, nu, nk, M, W = self.n, self.nu, self.nk, len(X), self._solved(X, U)
        R, Rw, E, Ew = np.empty((M, nk, n)), np.empty((M, nk, nu + nk)), np.empty((M, n, n)), np.empty((M, n, nu + nk))
        self._residual.first(X, W, R, Rw)
        self._end.first(X, W, E, Ew)
        Rk, Rz = Rw[:, :, nu:], np.concatenate([R, Rw[:, :, :nu]], axis=2)
        sound = np.isfinite(Rk).all(axis=(1, 2)) & np.isfinite(W).all(axis=1)
        Rk[~sound] = np.eye(nk)  # their steps are no numbers already
        Rz[~sound] = np.nan
        through = Ew[:, :, nu:] @ np.linalg.solve(Rk, Rz)
        A[:], B[:] = E - through[:, :, :n], -through[:, :, n:]

    def second(self, X: Array, U: Array, weight: Array, out: Array) -> None:
        record = X if X.shape[1] != self.nx else np.hstack([X, U])  # x and u one behind the other
        contract_knots(*self.contraction[:2], np.ascontiguousarray(record), weight, out)

    @property
    def stepping(self) -> Stepping:
        words, owner = self.words
        return Stepping(step_eight.address, words.ctypes.data, NOTHING, (words, owner))

    @cached_property
    def contraction(self) -> Contraction:
        words, owner = self.words
        return Contraction(contract_one.address, words.ctypes.data, (words, owner))


# -- kernels -----------------------------------------------------------------------------------------------------------

WORDS = 32
"""Words of a context: nx, n, nk, nu, how many parameters and where, addresses of R, R', Γ and Γ', outputs of R' and Γ',
address and context of ∇²R and ∇²Γ, and of the blocks by x and by (u, k) of R' and Γ' the template's address and size,
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
    """k of the first lanes of given, which holds x, u, k and parameters of eight knots; NaN where there is none."""
    nk, nu, at = w[2], w[3], w[0] + w[3]
    r, outputs, Rw, change = np.empty(WIDTH * nk), np.empty(WIDTH * w[10]), np.empty((nk, nu + nk)), np.empty((nk, 1))
    Rk, done = np.empty((nk, nk)), np.zeros(WIDTH, np.int64)
    for i in range(WIDTH * nk):
        given[WIDTH * at + i] = 0.0
    for _ in range(SWEEPS):
        call_contraction(w[6], given.ctypes.data, r.ctypes.data, 0, 0)
        call_contraction(w[7], given.ctypes.data, outputs.ctypes.data, 0, 0)
        waiting = False
        for lane in range(lanes):
            if done[lane] == 2:
                continue
            dense(w, 1, outputs, lane, Rw)
            for i in range(nk):
                change[i, 0] = r[WIDTH * i + lane]
                for j in range(nk):
                    Rk[i, j] = Rw[i, nu + j]
            solve_dense(Rk, change)
            size = 0.0
            for i in range(nk):
                own = WIDTH * (at + i) + lane
                given[own] -= change[i, 0]
                part = abs(change[i, 0]) / (1.0 + abs(given[own]))
                size = part if not part < size else size  # NaN, too
            lost = not size < np.inf
            done[lane] = 2 if done[lane] == 1 or lost else (1 if size < CLOSE else 0)
            if lost:
                given[WIDTH * at + lane] = np.nan
            waiting = waiting or done[lane] < 2
        if not waiting:
            break
    for lane in range(lanes):
        if done[lane] < 2:
            given[WIDTH * at + lane] = np.nan


@kernel
def solve_knots(context, X, U, p, W):
    """W (M, nu + nk) := u and k of M knots."""
    w = integers_at(context, (WORDS,))
    nx, many = w[0], w[2] + w[3]
    given = np.empty(WIDTH * (nx + many + w[4]))
    share(given, nx + many, p)
    for first in range(0, X.shape[0], WIDTH):
        fill(given, 0, X, first)
        fill(given, nx, U, first)
        find(w, given, WIDTH)
        for lane in range(min(WIDTH, X.shape[0] - first)):
            for i in range(many):
                W[first + lane, i] = given[WIDTH * (nx + i) + lane]


@callback
def step_eight(inputs, outputs, context, knot):  # type: ignore[no-untyped-def]
    """C function of `system.Stepping`."""
    w = integers_at(context, (WORDS,))
    nx, nk, nu = w[0], w[2], w[3]
    own, after = array_at(inputs, (WIDTH * (nx + nu),)), array_at(outputs, (WIDTH * nx,))
    given = np.empty(WIDTH * (nx + nu + nk + w[4]))
    share(given, nx + nu + nk, array_at(w[5], (w[4],)))
    for i in range(WIDTH * (nx + nu)):
        given[i] = own[i]
    find(w, given, WIDTH)
    call_contraction(w[8], given.ctypes.data, outputs, 0, 0)
    for lane in range(WIDTH):
        if given[WIDTH * (nx + nu) + lane] != given[WIDTH * (nx + nu) + lane]:
            for i in range(nx):
                after[WIDTH * i + lane] = np.nan


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
    nz, many = n + nu, nu + nk
    known, on_end = array_at(record, (nx + nu,)), array_at(weight, (n,))
    given, at = np.empty(WIDTH * (nx + many + w[4])), np.empty(nx + many)
    share(given, 0, known)
    share(given, nx + many, array_at(w[5], (w[4],)))
    find(w, given, 1)
    of_R, of_E = np.empty(WIDTH * w[10]), np.empty(WIDTH * w[11])
    call_contraction(w[7], given.ctypes.data, of_R.ctypes.data, 0, 0)
    call_contraction(w[9], given.ctypes.data, of_E.ctypes.data, 0, 0)
    R, Rw, Ew = np.empty((nk, n)), np.empty((nk, many)), np.empty((n, many))
    dense(w, 0, of_R, 0, R)
    dense(w, 1, of_R, 0, Rw)
    dense(w, 3, of_E, 0, Ew)
    G, Rk, turned, on_R = np.empty((nk, nz)), np.empty((nk, nk)), np.empty((nk, nk)), np.zeros((nk, 1))
    for i in range(nk):
        for j in range(nz):
            G[i, j] = -R[i, j] if j < n else -Rw[i, j - n]
        for j in range(n):
            on_R[i, 0] -= Ew[j, nu + i] * on_end[j]
        for j in range(nk):
            Rk[i, j] = turned[j, i] = Rw[i, nu + j]
    solve_dense(Rk, G)
    solve_dense(turned, on_R)
    for i in range(nx + many):
        at[i] = given[WIDTH * i]
    bent, other = np.empty((nz + nk, nz + nk)), np.empty((nz + nk, nz + nk))
    call_contraction(w[12], w[13], at.ctypes.data, on_R.ctypes.data, bent.ctypes.data)
    call_contraction(w[14], w[15], at.ctypes.data, weight, other.ctypes.data)
    hold(at)
    hold(on_R)
    H = array_at(hessian, (nz, nz))
    for i in range(nz + nk):
        for j in range(nz + nk):
            bent[i, j] += other[i, j]
            if i < nz and j < nz:
                H[i, j] = 0.0
    add_pulled(bent, G, nz, H)

"""The backward sweep of DDP (Mayne 1966; Jacobson & Mayne 1970), the whole horizon in one compiled call.

With z = (dx, du), F = [A B], and the next value's gradient v = V_x and Hessian V = V_xx, at every knot

    q = l_z + Fᵀ v                                   gradient of the action value
    Q = l_zz + Fᵀ V F + v · f_zz                     its Hessian
    Q_uu = L Lᵀ,   Y = L⁻¹ Q_ux,   y = L⁻¹ q_u       one Cholesky factorisation
    K = -L⁻ᵀ Y,    k = -L⁻ᵀ y                        the policy  du = alpha k + K dx
    V = Q_xx - Yᵀ Y,   v = q_x - Yᵀ y                the value of this knot

``blend`` s scales what Gauss-Newton leaves out: l_zz = GN + s (exact - GN) and s v · f_zz. ``mu`` is added to
the diagonals of every V and Q_uu. The expected decrease under a step alpha is alpha (1 - alpha / 2) d0,
with d0 = Σ yᵀy.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddp.kernel import call_contraction, kernel
from ddp.problem import Derivatives
from ddp.protocols import Array, Contraction

LARGE = 5
"""From this n on, products go to BLAS; below, its 0.15 us a call is more than the product."""

PIVOT = 1e-15
"""A pivot this much smaller than its diagonal entry is rounding: the matrix counts as singular."""


class Sweep(NamedTuple):
    """The outcome of a backward sweep. k (N, nu) and K (N, nu, n) are overwritten by the next sweep.

    d0: the cost's slope along the policy, downwards; a step alpha should bring alpha (1 - alpha / 2) d0.
    gradient: max-norm of the gradient of the total cost with respect to the controls.
    failed: the knot whose Q_uu has no Cholesky factor (or is not finite), -1 if all have one.
    """

    k: Array
    K: Array
    d0: float
    gradient: float
    failed: int

    @property
    def expected(self) -> float:
        """The decrease that the quadratic model promises for the full step."""
        return 0.5 * self.d0


class Backward:
    """The sweep over one set of derivatives, with its workspace."""

    def __init__(self, derivatives: Derivatives, contraction: Contraction) -> None:
        N, n, nu = derivatives.B.shape
        nz = n + nu
        self._derivatives, self._contraction = derivatives, contraction
        self._k, self._K = np.zeros((N, nu)), np.zeros((N, nu, n))
        self._matrices = tuple(
            np.zeros(shape)
            for shape in ((n, nz), (n, n), (n, nz), (nz, nz), (nu, nu), (nu, n), (n, n), (nz, nz))
        )
        self._vectors = tuple(np.zeros(size) for size in (n, n, nz, nz, nu))

    def __call__(self, blend: float, mu: float) -> Sweep:
        """Sweep once. ``derivatives.exact`` and the record's second order are read only if blend > 0."""
        d = self._derivatives
        failed, d0, gradient = _sweep(
            d.A, d.B, d.lz, d.lzz, d.exact, d.record, float(blend), float(mu),
            self._contraction.address, self._contraction.context,
            self._k, self._K, *self._matrices, *self._vectors,
        )  # fmt: skip
        return Sweep(self._k, self._K, d0, gradient, failed)


@kernel
def _congruence(F: Array, V: Array, W: Array, Q: Array) -> None:
    """Q = Fᵀ V F with V symmetric, by way of W = V F."""
    n, nz = F.shape
    if n >= LARGE:
        np.dot(V, F, W)
        np.dot(F.T, W, Q)
        return
    for i in range(n):
        for j in range(nz):
            total = 0.0
            for m in range(n):
                total += V[i, m] * F[m, j]
            W[i, j] = total
    for i in range(nz):
        for j in range(i, nz):
            total = 0.0
            for m in range(n):
                total += F[m, i] * W[m, j]
            Q[i, j] = total
            Q[j, i] = total


@kernel
def _gram(Y: Array, G: Array) -> None:
    """G = Yᵀ Y."""
    nu, n = Y.shape
    if n >= LARGE:
        np.dot(Y.T, Y, G)
        return
    for i in range(n):
        for j in range(n):
            total = 0.0
            for m in range(nu):
                total += Y[m, i] * Y[m, j]
            G[i, j] = total


@kernel
def _cholesky(L: Array) -> bool:
    """Factorise a symmetric matrix in place, L lower; False if it is not positive definite, or NaN."""
    n = L.shape[0]
    for j in range(n):
        diagonal = L[j, j]
        pivot = diagonal
        for m in range(j):
            pivot -= L[j, m] * L[j, m]
        if not (pivot > PIVOT * abs(diagonal)):
            return False
        L[j, j] = np.sqrt(pivot)
        for i in range(j + 1, n):
            total = L[i, j]
            for m in range(j):
                total -= L[i, m] * L[j, m]
            L[i, j] = total / L[j, j]
    return True


@kernel
def _add_transposed_product(F: Array, v: Array, q: Array) -> None:
    """Add Fᵀ v to q."""
    for i in range(F.shape[0]):
        for j in range(F.shape[1]):
            q[j] += F[i, j] * v[i]


@kernel
def _policy(L: Array, Q: Array, q: Array, n: int, k: Array, K: Array, Y: Array, y: Array) -> None:
    """From the factor L of Q_uu: Y = L⁻¹ Q_ux, y = L⁻¹ q_u, K = -L⁻ᵀ Y, k = -L⁻ᵀ y."""
    nu = L.shape[0]
    for i in range(nu):
        for c in range(n):
            Y[i, c] = Q[n + i, c]
        y[i] = q[n + i]
        for j in range(i):
            for c in range(n):
                Y[i, c] -= L[i, j] * Y[j, c]
            y[i] -= L[i, j] * y[j]
        for c in range(n):
            Y[i, c] /= L[i, i]
        y[i] /= L[i, i]
    for i in range(nu - 1, -1, -1):
        for c in range(n):
            K[i, c] = -Y[i, c]
        k[i] = -y[i]
        for j in range(i + 1, nu):
            for c in range(n):
                K[i, c] -= L[j, i] * K[j, c]
            k[i] -= L[j, i] * k[j]
        for c in range(n):
            K[i, c] /= L[i, i]
        k[i] /= L[i, i]


@kernel
def _sweep(
    A: Array, B: Array, lz: Array, lzz: Array, exact: Array, record: Array,
    blend: float, mu: float, address: int, context: int, k: Array, K: Array,
    F: Array, V: Array, W: Array, Q: Array, L: Array, Y: Array, G: Array, T: Array,
    v: Array, p: Array, q: Array, g: Array, y: Array,
) -> tuple[int, float, float]:  # fmt: skip
    """The recursion above: the failed knot (or -1), d0 and the gradient's max-norm; p is the costate."""
    N, n, nu = B.shape
    nz = n + nu
    d0 = 0.0
    steepest = 0.0
    for i in range(n):
        v[i] = lz[N, i]
        p[i] = lz[N, i]
        for j in range(n):
            V[i, j] = lzz[N, i, j]
            if blend > 0.0:
                V[i, j] += blend * (exact[N, i, j] - lzz[N, i, j])
        V[i, i] += mu
    for t in range(N - 1, -1, -1):
        F[:, :n] = A[t]
        F[:, n:] = B[t]

        q[:] = lz[t]
        g[:] = lz[t]
        _add_transposed_product(F, v, q)
        _add_transposed_product(F, p, g)
        for i in range(n):
            p[i] = g[i]
        for i in range(n, nz):
            if abs(g[i]) > steepest or np.isnan(g[i]):  # max would forget a NaN
                steepest = abs(g[i])

        _congruence(F, V, W, Q)
        if blend > 0.0:
            row = np.int64(record[t].ctypes.data)
            call_contraction(address, context, row, np.int64(v.ctypes.data), np.int64(T.ctypes.data))
            for i in range(nz):
                for j in range(nz):
                    Q[i, j] += lzz[t, i, j] + blend * (exact[t, i, j] - lzz[t, i, j] + T[i, j])
        else:
            for i in range(nz):
                for j in range(nz):
                    Q[i, j] += lzz[t, i, j]

        for i in range(nu):
            for j in range(nu):
                L[i, j] = Q[n + i, n + j]
            L[i, i] += mu
        if not _cholesky(L):
            return t, d0, steepest
        _policy(L, Q, q, n, k[t], K[t], Y, y)
        for i in range(nu):
            d0 += y[i] * y[i]
        if not (d0 < np.inf):
            return t, d0, steepest

        _gram(Y, G)
        for i in range(n):
            v[i] = q[i]
            for j in range(n):
                V[i, j] = 0.5 * (Q[i, j] + Q[j, i]) - G[i, j]
            V[i, i] += mu
        for j in range(nu):
            for i in range(n):
                v[i] -= Y[j, i] * y[j]
    return -1, d0, steepest

"""The backward sweep of DDP (Mayne 1966; Jacobson & Mayne 1970), the whole horizon in one compiled call.

With z = (dx, du), F = [A B], and the next value's gradient v = V_x and Hessian V = V_xx, at every knot

    q = l_z + Fᵀ v                                   gradient of the action value
    Q = l_zz + Fᵀ V F + v · f_zz                     its Hessian
    Q_uu = L Lᵀ,   Y = L⁻¹ Q_ux,   y = L⁻¹ q_u       one Cholesky factorisation
    K = -L⁻ᵀ Y,    k = -L⁻ᵀ y                        the policy  du = alpha k + K dx
    V = Q_xx - Yᵀ Y,   v = q_x - Yᵀ y                the value of this knot

``blend`` s scales what Gauss-Newton leaves out: l_zz = GN + s (exact - GN) and s v · f_zz. ``mu`` is added to
the diagonals of every V and Q_uu. `Multipliers` says what contracts f_zz: v, or the costate.

Where a gap is open, dx' = F z + gap, and v is taken where the dynamics arrive: v + V gap. On a manifold `closing` then
turns F into Jr⁻¹ F and adds a curvature. Where controls have limits, `box` finds those that k puts on them; they
are constants of the knot, and the rest of it is as above, with their rows of K zero.

Under a step alpha the model promises a decrease of alpha d0 - alpha² (d0 - expected): d0 is the cost's slope along the
policy, downwards, and ``expected`` what the full step brings. Without gaps and limits, d0 = Σ yᵀy = 2 expected.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp import tiled_sweep
from ddp.algebra import add_transposed_product, congruence, factorise, gram
from ddp.box import clamp
from ddp.derivatives import Derivatives
from ddp.gaps import add_curvature, bend, close_gap, load, weigh
from ddp.kernel import call_contraction, kernel
from ddp.limits import improve
from ddp.protocols import Array, Dynamics, SemiImplicit
from ddp.riccati import make_room
from ddp.segments import Segments, cut

MOST_SWEEPS = 5
"""Sweeps for one step within control limits, at most."""

SMALL = 20
"""Below this n a semi-implicit step is no faster than any."""

VALUE, COSTATE, AUTO = "value", "costate", "auto"
"""What contracts the dynamics' second order: V_x of the sweep (DDP), the costate (stagewise Newton), or what each sweep
is told to take."""

NONE, KEPT = "none", "kept"
"""Nothing does (Gauss-Newton); or it was contracted at an earlier iterate."""


class Sweep(NamedTuple):
    """The outcome of a backward sweep. k (N, nu) and K (N, nu, n) are overwritten by the next sweep.

    d0: the cost's slope along the policy, downwards.  expected: the decrease that the model promises for the full step.
    gradient: max-norm of the gradient of the total cost with respect to the controls; where a control is at a limit and
        pushed against it, that is zero.
    failed: the knot whose Q_uu has no Cholesky factor (or is not finite), -1 if all have one.
    contraction: what contracted the dynamics' second order: "none", "value", "costate" or "kept".
    """

    k: Array
    K: Array
    d0: float
    expected: float
    gradient: float
    failed: int
    contraction: str = NONE

    def promised(self, alpha: float) -> float:
        """The decrease that the model promises for a step alpha; negative where closing gaps costs."""
        return alpha * self.d0 - alpha * alpha * (self.d0 - self.expected)


class _Scratch(NamedTuple):
    """Work space of one knot; n states, nu controls, nz = n + nu."""

    F: Array  # (n, nz) [A B]
    V: Array  # (n, n) V_xx
    W: Array  # (n, nz) V F
    D: Array  # (n, nz) F before a gap
    Q: Array  # (nz, nz)
    L: Array  # (nu, nu)
    Y: Array  # (nu, n)
    G: Array  # (n, n) Yᵀ Y
    J: Array  # (2, n, n) of `closing`
    v: Array  # (n,) V_x
    p: Array  # (n,) the costate
    s: Array  # (n,) the cost's gradient in dx under the policy's gains alone
    w: Array  # (n,) a weight
    q: Array  # (nz,)
    g: Array  # (nz,) l_z + Fᵀ p
    y: Array  # (nu,)
    box: Array  # (4, nu) of `clamp`


class Backward:
    """The sweep over one set of derivatives, with its workspace.

    gaps (N, n), low, high (N, nu): open gaps, and how far controls are from their limits, ±inf without; the owner
        writes them, and calls `moved` whenever derivatives have changed.
    separable (N+1,): where lzz is known to be diagonal and equal to exact; the owner's, too.
    multipliers: see `VALUE`.  reuse: for how many more iterates a contracted f_zz is used again.
    limited: whether any control has limits.
    contract: what contracts the records of all knots with weights (N, n) into (N, nz, nz); default the dynamics.
    segments: how many parts of the horizon are swept at once, see segments.py; where the second order is contracted
        with V_x, sweeps that have any are of one piece all the same.
    """

    def __init__(
        self, derivatives: Derivatives, dynamics: Dynamics, multipliers: str = VALUE, reuse: int = 0,
        limited: bool = False, contract: Callable[[Array, Array], None] | None = None,
        segments: int = 1,
    ) -> None:  # fmt: skip
        N, n, nu = derivatives.B.shape
        nz = n + nu
        self._derivatives = derivatives
        self._multipliers, self._reuse = multipliers, reuse
        self._contract = contract or partial(dynamics.contract, derivatives.record)
        self._contract_rows = dynamics.contract
        self._contraction, self._closing = dynamics.contraction(), dynamics.closing()
        self._k, self._K = np.zeros((N, nu)), np.zeros((N, nu, n))
        self._second = np.zeros((N if multipliers != VALUE or reuse or limited else 1, nz, nz))
        self._age: int | None = None
        self._limited, self._held = limited, np.zeros((N, nu))
        self.separable = np.zeros(N + 1, dtype=bool)
        self.gaps = np.zeros((N, n))
        self.low, self.high = np.full((N, nu), -np.inf), np.full((N, nu), np.inf)
        shapes = ((n, nz), (n, n), (n, nz), (n, nz), (nz, nz), (nu, nu), (nu, n), (n, n), (2, n, n))
        sizes = (n, n, n, n, nz, nz, nu, (4, nu))
        self._scratch = _Scratch(*(np.zeros(shape) for shape in shapes + sizes))
        self._room, self._memory = make_room(n, nu)
        self._halves = _halves(dynamics)
        self._segments = Segments(cut(N, min(segments, N)), n, nu) if segments > 1 else None

    @property
    def _plain(self) -> bool:
        """Whether there are neither gaps nor limits."""
        return not (self._limited or self.gaps.any())

    def moved(self) -> None:
        """The derivatives are those of another trajectory."""
        self._age = None if self._age is None or self._age >= self._reuse else self._age + 1

    def forget(self) -> None:
        """Whatever is kept of earlier iterates is too old."""
        self._age = None

    @property
    def fresh(self) -> bool:
        """Whether the next sweep with blend > 0 reads the records of the derivatives, not what an earlier one kept."""
        return self._age is None

    def __call__(self, blend: float, mu: float, costates: bool = False) -> Sweep:
        """Sweep once. ``derivatives.exact`` and the record's second order are read only if blend > 0.

        costates: whether they contract the second order, where ``multipliers`` leave that open.
        """
        by_costate = self._multipliers == COSTATE or (self._multipliers == AUTO and costates)
        if blend > 0.0 and by_costate and self._age is None:
            self._contract_with_costates()
        kept = blend > 0.0 and self._age is not None and (by_costate or self._reuse > 0)
        found = self._swept(blend, mu, kept, False, by_costate)
        if blend > 0.0:
            found = found._replace(contraction=KEPT if self._age else COSTATE if by_costate else VALUE)
            if self._reuse and found.failed < 0:
                self._age = self._age or 0
        return self._kept_in_limits(blend, mu, found, by_costate) if self._limited and found.failed < 0 else found

    def behind(self, blend: float, mu: float, costates: bool = False) -> Behind | None:
        """A sweep like `__call__` of derivatives that are still being made; None where it takes all of them to begin."""
        by_costate = self._multipliers == COSTATE or (self._multipliers == AUTO and costates)
        if not self._plain or self._segments is not None or (blend > 0.0 and (self._reuse > 0 or not self.fresh)):
            return None
        if by_costate and blend > 0.0:
            self._age = 0
        return Behind(self, blend, mu, by_costate)

    def curvature(self) -> tuple[float, int]:
        """The smallest eigenvalue of Q_uu at the knot where the last sweep ended, and the control most concerned."""
        n = self._K.shape[2]
        values, vectors = np.linalg.eigh(self._scratch.Q[n:, n:])
        return float(values[0]), int(np.argmax(np.abs(vectors[:, 0])))

    def _contract_with_costates(self) -> None:
        """The whole second order in one batch, the weights being known before the sweep."""
        d, gaps = self._derivatives, (self.gaps, *self._closing[:2])
        costates, weights = np.empty_like(self.gaps), np.empty_like(self.gaps)
        weigh(0, len(d.A), d.A, d.B, d.lz, *gaps, costates, weights, self._scratch)
        self._contract(weights, self._second)
        bend(d.A, d.B, *gaps, costates, self._second, self._scratch)
        self._age = 0

    def _swept(self, blend: float, mu: float, kept: bool, known: bool, by_costate: bool) -> Sweep:
        """One sweep; ``kept``: with the contracted second order as it is; ``known``: the controls held by limits."""
        d = self._derivatives
        model = d.A, d.B, d.lz, d.lzz, d.exact, d.record, float(blend), float(mu), *self._contraction[:2]
        outcome = self._k, self._K
        if self._plain and self._segments is not None and (kept or blend == 0.0):
            exact_gains = d.A, d.B, d.lz, d.lzz, d.exact, float(blend), float(mu), self._second, *outcome
            done, change, gradient = self._segments.sweep(*exact_gains, self.separable, *self._halves)
            if done:
                return Sweep(self._k, self._K, -2.0 * change, -change, gradient, -1)
        if self._plain:
            failed, slope, change, gradient = tiled_sweep.sweep(
                *model, by_costate, kept, self._second, *outcome, self.separable, *self._halves, self._room,
                self._scratch.Q,
            )  # fmt: skip
        else:
            failed, slope, change, gradient = _sweep(
                *model, self.gaps, *self._closing[:2], self._limited, self.low, self.high, known, self._held,
                by_costate, kept, self._second, *outcome, self._scratch,
            )  # fmt: skip
        return Sweep(self._k, self._K, -slope, -change, gradient, failed)

    def _kept_in_limits(self, blend: float, mu: float, found: Sweep, by_costate: bool) -> Sweep:
        """The same policy, or a better one, with its model's step in the box: see `limits`."""
        d, u, x = self._derivatives, np.zeros_like(self._k), np.zeros((len(self._k) + 1, self._K.shape[2]))
        value = np.inf if self.gaps.any() else 0.0  # of a step that does not move
        work = np.empty_like(u), np.empty_like(x), np.empty_like(u)
        best: Sweep | None = None
        sweep = found
        for _ in range(MOST_SWEEPS):
            cost, slope, done = improve(
                d.A, d.B, d.lz, d.lzz, d.exact, self._second, float(blend), float(mu), self.gaps, *self._closing[:2],
                self.low, self.high, sweep.k, sweep.K, value, u, x, *work, self._held, self._scratch,
            )  # fmt: skip
            if cost < value:
                k = u - np.einsum("kij,kj->ki", sweep.K, x[:-1])
                best, value = found._replace(k=k, K=sweep.K.copy(), d0=-slope, expected=-cost), cost
            if done:
                break
            sweep = self._swept(blend, mu, blend > 0.0, True, by_costate)
            if sweep.failed >= 0:
                break
        return found if best is None else best


class Behind:
    """A sweep in blocks of knots, the last ones first, each after its derivatives have been made: see pipeline.py."""

    def __init__(self, backward: Backward, blend: float, mu: float, by_costate: bool) -> None:
        self._of, self._blend, self._mu, self._by_costate = backward, float(blend), float(mu), by_costate
        self.weighted = by_costate and blend > 0.0
        self._costates, self._weights = np.empty_like(backward.gaps), np.empty_like(backward.gaps)
        self._outcome = -1, 0.0, 0.0

    def weigh(self, start: int, stop: int) -> None:
        """The costates of the knots start .. stop-1, what contracts second orders."""
        of, d = self._of, self._of._derivatives
        gaps = of.gaps, *of._closing[:2]
        weigh(start, min(stop, len(d.A)), d.A, d.B, d.lz, *gaps, self._costates, self._weights, of._scratch)

    def contract(self, start: int, stop: int) -> None:
        """The second order of the knots start .. stop-1 with their costates."""
        rows = slice(start, min(stop, len(self._weights)))
        if rows.stop > rows.start:
            self._of._contract_rows(self._of._derivatives.record[rows], self._weights[rows], self._of._second[rows])

    def sweep(self, start: int, stop: int) -> None:
        """The recursion over the knots start .. stop-1, unless it failed at later ones."""
        of, d = self._of, self._of._derivatives
        if stop > len(d.A):
            stop = len(d.A)
            tiled_sweep.start_at_end(d.lz, d.lzz, d.exact, self._blend, self._mu, of.separable, of._room)
        failed, *sums = self._outcome
        if failed < 0:
            self._outcome = tiled_sweep.descend(
                start, stop, *sums, d.A, d.B, d.lz, d.lzz, d.exact, d.record, self._blend, self._mu, *of._contraction[:2],
                self._by_costate, self.weighted, of._second, of._k, of._K, of.separable, *of._halves, of._room,
                of._scratch.Q,
            )  # fmt: skip

    @property
    def result(self) -> Sweep:
        """What it came to."""
        failed, change, gradient = self._outcome
        contraction = NONE if self._blend == 0.0 else COSTATE if self._by_costate else VALUE
        return Sweep(self._of._k, self._of._K, -2.0 * change, -change, gradient, failed, contraction)


def _halves(dynamics: Dynamics) -> tuple[float, NDArray[np.int64]]:
    """The step h and the bent rows of a semi-implicit step; h = 0 of others, and where there is too little to gain."""
    halves = dynamics.semi_implicit if isinstance(dynamics, SemiImplicit) else None
    if halves is None or dynamics.n < SMALL:
        return 0.0, np.zeros((0, 2), dtype=np.int64)
    return halves


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
def _forget_idle(Q: Array, i: int) -> None:
    """A control that nothing depends on, not even a cost, stays where it is: k = 0, K = 0."""
    for j in range(Q.shape[0]):
        if Q[i, j] != 0.0:
            return
    Q[i, i] = 1.0


@kernel
def _sweep(
    A, B, lz, lzz, exact, record, blend, mu, address, context,
    gaps, closing, closing_context, limited, low, high, known, held, by_costate, kept, second, k, K, c,
):  # fmt: skip
    """The recursion above: the failed knot (or -1), the slope, the full step's change and the gradient's max-norm."""
    N, n, nu = B.shape
    nz = n + nu
    slope, change, steepest = 0.0, 0.0, 0.0
    F, V, Q, L, v, p, s, q, g = c.F, c.V, c.Q, c.L, c.v, c.p, c.s, c.q, c.g
    open_gaps = gaps.any()
    plain = not limited and not open_gaps
    for i in range(n):
        v[i] = lz[N, i]
        p[i] = lz[N, i]
        s[i] = lz[N, i]
        for j in range(n):
            V[i, j] = lzz[N, i, j]
            if blend > 0.0:
                V[i, j] += blend * (exact[N, i, j] - lzz[N, i, j])
        V[i, i] += mu
    for t in range(N - 1, -1, -1):
        # the knot: F, V_x where the dynamics arrive, Q
        load(A[t], B[t], F)
        if open_gaps:
            for i in range(n):
                moved = 0.0
                for j in range(n):
                    moved += V[i, j] * gaps[t, j]
                slope += s[i] * gaps[t, i]
                change += (v[i] + 0.5 * moved) * gaps[t, i]
                c.w[i] = moved
            for i in range(n):
                v[i] += c.w[i]
        bent = open_gaps and close_gap(gaps[t], closing, closing_context, p if by_costate else v, F, c.D, c.J, c.w)
        congruence(F, V, c.W, Q)
        if blend > 0.0:
            T = second[t if second.shape[0] == N else 0]
            if not kept:
                row, w_at = np.int64(record[t].ctypes.data), np.int64((c.w if bent else v).ctypes.data)
                call_contraction(address, context, row, w_at, np.int64(T.ctypes.data))
                if bent:
                    add_curvature(c.J[1], c.D, T)
            for i in range(nz):
                for j in range(nz):
                    Q[i, j] += lzz[t, i, j] + blend * (exact[t, i, j] - lzz[t, i, j] + T[i, j])
        else:
            for i in range(nz):
                for j in range(nz):
                    Q[i, j] += lzz[t, i, j]

        # gradients of the action value and of the cost
        q[:] = lz[t]
        add_transposed_product(F, v, q)
        g[:] = lz[t]
        add_transposed_product(F, p, g)
        for i in range(n):
            p[i] = g[i]
        for i in range(nu):
            slack = (low[t, i] == 0.0 and g[n + i] > 0.0) or (high[t, i] == 0.0 and g[n + i] < 0.0)
            if not slack and (abs(g[n + i]) > steepest or np.isnan(g[n + i])):  # max would forget a NaN
                steepest = abs(g[n + i])

        # the policy
        for i in range(nu):
            Q[n + i, n + i] += mu
            if q[n + i] == 0.0:
                _forget_idle(Q, n + i)
        if limited:
            done, constant = clamp(Q, q, low[t], high[t], known, held[t], c.box, L)
            if not done:
                return t, slope, change, steepest
            change += constant
        for i in range(nu):
            for j in range(nu):
                L[i, j] = Q[n + i, n + j]
        if not factorise(L):
            return t, slope, change, steepest
        _policy(L, Q, q, n, k[t], K[t], c.Y, c.y)

        # the value
        for i in range(nu):
            change -= 0.5 * c.y[i] * c.y[i]
            if limited:
                k[t, i] += c.box[0, i]
        if plain:
            slope = 2.0 * change
        else:
            slope += _under_policy(F, lz[t], k[t], K[t], s, g)
        if not (abs(change) < np.inf):
            return t, slope, change, steepest
        gram(c.Y, c.G)
        for i in range(n):
            v[i] = q[i]
            for j in range(n):
                V[i, j] = 0.5 * (Q[i, j] + Q[j, i]) - c.G[i, j]
            V[i, i] += mu
        for j in range(nu):
            for i in range(n):
                v[i] -= c.Y[j, i] * c.y[j]
    return -1, slope, change, steepest


@kernel
def _under_policy(F, lz, k, K, s, g):
    """From s of the next knot to this one's, s = g_x + Kᵀ g_u with g = l_z + Fᵀ s; and the slope g_u·k along k."""
    n = s.size
    g[:] = lz
    add_transposed_product(F, s, g)
    slope = 0.0
    for i in range(n):
        s[i] = g[i]
    for j in range(k.size):
        slope += g[n + j] * k[j]
        for i in range(n):
            s[i] += K[j, i] * g[n + j]
    return slope

# mypy: allow-untyped-defs, allow-untyped-calls
"""The backward sweep cut into segments of the horizon that are swept at the same time, with exact gains.

What happens after a segment touches it through the costate λ at its end alone. Its value as a function of both,

    V(x, λ) = ½ xᵀ P x + xᵀ Λ λ + ½ λᵀ Σ λ + pᵀ x + σᵀ λ,      at its end  P = 0, Λ = 1, Σ = 0, p = 0, σ = 0,

obeys the recursion of backward.py for P and p, and beside it, with Q_uu = Uᵀ D U and Y, y as there,

    [Q_xλ; Q_uλ] = Fᵀ Λ,   Y_λ = U⁻ᵀ Q_uλ,   Λ = Q_xλ - Yᵀ D⁻¹ Y_λ,   Σ = Σ - Y_λᵀ D⁻¹ Y_λ,   σ = σ - Y_λᵀ D⁻¹ y.

Then (Wright 1990; Jallet et al. 2024) λ = V₁ x₁ + v₁ and x₁ = Λᵀ x + Σ λ + σ, with the true value V₁, v₁ there, give

    V₀ = P + Λ V₁ (1 - Σ V₁)⁻¹ Λᵀ,      v₀ = p + Λ (v₁ + V₁ (1 - Σ V₁)⁻¹ (Σ v₁ + σ)).

1. All segments but the earliest are swept at once: the last one as ever, the others as above.
2. Their values are combined, last to earliest.
3. All but the last are swept once more, from the values they now know, at once: these are the gains.

A knot so costs up to three times its work, and the gains are those of the serial sweep but for rounding. It fails
where a segment on its own is not convex, though the horizon may be; the serial sweep then decides.
"""

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from ddp.compiling.kernel import kernel
from ddp.machine.addresses import array_at
from ddp.machine.memory import floats_at
from ddp.machine.rows import clear_rows, copy_rows
from ddp.machine.tiles import add_product
from ddp.protocols import Array
from ddp.sweeps.horizon import Horizon
from ddp.sweeps.riccati import factorize, forget_idle, value
from ddp.sweeps.room import RoomOwner, read_room
from ddp.sweeps.sized_sweep import sweep_of, weigh_of
from ddp.sweeps.sweeping import call
from ddp.sweeps.tiled_sweep import NOTHING, act

EXTENDED = 1.9
"""The work of a knot of step 1 with Λ, Σ and σ, in knots of the serial sweep."""


class _Segment(NamedTuple):
    """Knots start .. stop-1, and the rooms to sweep them in, without and with Λ."""

    start: int
    stop: int
    room: RoomOwner
    extended: RoomOwner
    along: Array  # Λ (n, n)
    curved: Array  # Σ (n, n)
    offset: Array  # σ (n,)


def cut(N: int, count: int) -> list[int]:
    """First knots of ``count`` segments of N knots, and N; the last one longer, for its knots cost less in step 1."""
    if count == 1:
        return [0, N]
    unit = N / (count - 1 + (EXTENDED if count > 2 else 1.0))
    return [*(max(i, round(i * unit)) for i in range(count)), N]


class Segments:
    """Sweeps of N knots with n states and nu controls by segments that begin at ``bounds[:-1]``; ``bounds[-1]`` = N.

    halved, runs: see `Room`. The earliest segment comes first. Threads last as long as a sweep.
    """

    def __init__(self, bounds: list[int], n: int, nu: int, halved: bool = False, runs: int = 0) -> None:
        sizes, V = (n, nu, halved, runs), (n, n)
        self._recursion, self._weigh = sweep_of(*sizes), weigh_of(*sizes)
        self._segments = [
            _Segment(start, stop, RoomOwner(*sizes), RoomOwner(*sizes, n), np.zeros(V), np.zeros(V), np.zeros(n))
            for start, stop in itertools.pairwise(bounds)
        ]

    def sweep(self, horizon: Horizon, blend: float, mu: float) -> tuple[bool, float, float]:
        """Whether it succeeded, the full step's change, the gradient's max-norm.

        Gaps are closed, controls without limits, and the second order is as contracted.
        """

        def swept(part: _Segment) -> tuple[int, float, float]:
            knots = part.start, part.stop, NOTHING
            failed, _, change, steepest = self._recursion(
                horizon.address, part.room.address, *knots, blend, mu, False, True, False
            )
            return failed, change, steepest

        def extended(part: _Segment) -> tuple[int, float, float]:
            found = part.along, part.curved, part.offset
            done = extend(horizon.address, part.extended.address, part.start, part.stop, blend, mu, *found)
            return (-1 if done else part.start), 0.0, 0.0

        *others, end = self._segments
        with ThreadPoolExecutor(max(1, len(others)), thread_name_prefix="mayne-sweep") as pool:
            waiting = [pool.submit(swept, end), *(pool.submit(extended, part) for part in others[1:])]
            found = [one.result() for one in waiting]
            if any(failed >= 0 for failed, _, _ in found):
                return False, 0.0, 0.0
            outcomes = found[:1]
            V, v = end.room.V.copy(), end.room.v[0].copy()
            call(self._weigh.address, horizon.address, 0, 0, 0)
            for part in reversed(others):
                part.room.V[:], part.room.v[0], part.room.v[1] = V, v, horizon.weights[part.stop - 1]
                if part is not others[0]:
                    V, v = _combined(part, V, v)
            outcomes += pool.map(swept, others)
        if any(failed >= 0 for failed, _, _ in outcomes):
            return False, 0.0, 0.0
        steepest = np.array([gradient for _, _, gradient in outcomes])
        return True, sum(change for _, change, _ in outcomes), float(steepest.max())  # NaN, if one is


def _combined(part: _Segment, V: Array, v: Array) -> tuple[Array, Array]:
    """The value at a segment's start, from that at its end, (V, v), and its own, P and p, that its room holds."""
    after = np.linalg.solve(
        np.eye(v.size) - part.curved @ V, np.column_stack([part.along.T, part.curved @ v + part.offset])
    )
    P = part.extended.V + part.along @ V @ after[:, :-1]
    return 0.5 * (P + P.T), part.extended.v[0] + part.along @ (v + V @ after[:, -1])


@kernel
def extend(horizon, room, start, stop, blend, mu, along, curved, offset):
    """P and p of the knots start .. stop-1 into the room, Λ, Σ, σ into the rest; False where they do not exist.

    Rows of Λᵀ are gradients beside the cost's: what comes to v as Fᵀ v comes to them, and `act` carries them along.
    """
    p, r = Horizon(horizon), read_room(room)
    n, nu = r.n, r.nu
    Q, q, v = array_at(r.Q, (n + nu, r.ld)), array_at(r.q, (2 + n, r.ld)), array_at(r.v, (2 + n, r.lx))
    Y, scaled, removed = np.empty((n, nu)), np.empty((n, nu)), np.empty((n, n))
    clear_rows(r.V, r.lx, n, r.lx)
    clear_rows(r.v, r.lx, 2 + n, r.lx)
    curved[:] = 0.0
    offset[:] = 0.0
    for i in range(n):
        v[2 + i, i] = 1.0
    for t in range(stop - 1, start - 1, -1):
        act(p, r, t, 2, blend, mu)
        for i in range(n, n + nu):
            for l in range(2, 2 + n):
                if Q[i, i] == 0.0 and q[l, i] != 0.0:  # it is idle as far as this segment goes, but not beyond
                    return False
        forget_idle(r)
        if not factorize(r):
            return False
        value(r)
        eliminate(r, q[2:], Y, scaled, offset)
        copy_rows(r.v + 16 * r.lx, r.lx, r.q + 16 * r.ld, r.ld, n, n)
        add_product(r.v + 16 * r.lx, r.lx, n, r.lx, Y.ctypes.data, nu, 1, r.N, r.ld, nu)
        np.dot(scaled, Y.T, removed)
        curved -= removed
    for i in range(n):
        for l in range(n):
            along[i, l] = v[2 + l, i]
    return bool(np.isfinite(along).all())


@kernel
def eliminate(r, q, Y, scaled, offset):
    """Y (n, nu) := Y_λᵀ of the rows q = [Q_λx Q_λu] of one knot, after `factorize`; scaled := Y_λᵀ D⁻¹; σ."""
    n, nu = r.n, r.nu
    N, inverse, y = array_at(r.N, (nu, r.ld)), floats_at(r.inverse), floats_at(r.y)  # N = -D⁻¹ [Y U]
    for c in range(n):
        for i in range(nu):
            Y[c, i] = q[c, n + i]
            for l in range(i):
                Y[c, i] += N[l, n + i] * Y[c, l]
            scaled[c, i] = inverse[i] * Y[c, i]
            offset[c] -= scaled[c, i] * y[i]

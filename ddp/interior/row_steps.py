# mypy: allow-untyped-defs, allow-untyped-calls
"""Kernels of barrier.py: one pass over all rows each.

``rows`` and ``step`` are (8, M): slacks s, multipliers z_L, z_U of their bounds, ν, excesses p, n and their z_p, z_n.
``bounds`` (2, M).   ``kind`` (M,): `FREE`, `BOUNDED` or `EQUAL`.   price: of a unit of p and n of the rows before
``elastic``; none are elastic where that is 0.   m: the barrier.   delta: δ of equalities.
"""

from __future__ import annotations

import numpy as np

from ddp.compiling.kernel import inline, kernel

FREE, BOUNDED, EQUAL = 0, 1, 2

S, BELOW, ABOVE, NU, P, N, OF_P, OF_N = range(8)

NEAR = 1e10
"""Multipliers stay within this factor of what the barrier says they are, m / (s - bound)."""


@inline
def stiffness(rows, bounds, i, m):
    """Σ = z_L / (s - lower) + z_U / (upper - s), and the barrier's slope b there."""
    below, above = rows[S, i] - bounds[0, i], bounds[1, i] - rows[S, i]
    return rows[BELOW, i] / below + rows[ABOVE, i] / above, m / above - m / below


@inline
def excess(rows, i, price, m):
    """δ' = p / z_p + n / z_n, and what p - n would be after a step with ν as it is, less p - n."""
    p, n = rows[P, i] / rows[OF_P, i], rows[N, i] / rows[OF_N, i]
    moved = m / rows[OF_P, i] - m / rows[OF_N, i] + p * (rows[NU, i] - price) + n * (rows[NU, i] + price)
    return p + n, moved


@kernel
def condense(rows, bounds, kind, price, elastic, m, delta, residual, w, f):
    """Weights w and forces f (M,) of the rows."""
    for i in range(len(kind)):
        if kind[i] == FREE:
            w[i], f[i] = 0.0, 0.0
        elif i < elastic:
            yielding, moved = excess(rows, i, price, m)
            if kind[i] == BOUNDED:
                own, slope = stiffness(rows, bounds, i, m)
                yielding += 1.0 / own
                moved += (rows[NU, i] - slope) / own
            w[i] = 1.0 / yielding
            f[i] = rows[NU, i] + w[i] * (residual[i] - moved)
        elif kind[i] == BOUNDED:
            own, slope = stiffness(rows, bounds, i, m)
            w[i], f[i] = own, slope + own * residual[i]
        else:
            w[i], f[i] = 1.0 / delta, rows[NU, i] + residual[i] / delta


@kernel
def steps(rows, bounds, kind, price, elastic, m, delta, residual, w, f, along, keep, step):
    """The step (8, M) where J z is ``along``; its longest fractions, primal and dual, and the barrier's slope."""
    step[:] = 0.0
    longest, longest_dual, rise = 1.0, 1.0, 0.0
    for i in range(len(kind)):
        if kind[i] == FREE:
            continue
        if i < elastic or kind[i] == EQUAL:
            step[NU, i] = f[i] - rows[NU, i] + w[i] * along[i]
        if i < elastic:
            nu = rows[NU, i] + step[NU, i]
            for part, of, sign in ((P, OF_P, 1.0), (N, OF_N, -1.0)):
                x, z = rows[part, i], rows[of, i]
                step[part, i] = m / z + x / z * (sign * nu - price)
                step[of, i] = (m - z * step[part, i]) / x - z
                longest = shorten(longest, x, step[part, i], keep)
                longest_dual = shorten(longest_dual, z, step[of, i], keep)
                rise += (price - m / x) * step[part, i]
        if kind[i] == BOUNDED:
            own, slope = stiffness(rows, bounds, i, m)
            moved = (rows[NU, i] + step[NU, i] - slope) / own if i < elastic else along[i] + residual[i]
            step[S, i] = moved
            rise += slope * moved
            below, above = rows[S, i] - bounds[0, i], bounds[1, i] - rows[S, i]
            step[BELOW, i] = (m - rows[BELOW, i] * moved) / below - rows[BELOW, i]
            step[ABOVE, i] = (m + rows[ABOVE, i] * moved) / above - rows[ABOVE, i]
            longest = shorten(shorten(longest, below, moved, keep), above, -moved, keep)
            longest_dual = shorten(longest_dual, rows[BELOW, i], step[BELOW, i], keep)
            longest_dual = shorten(longest_dual, rows[ABOVE, i], step[ABOVE, i], keep)
    return longest, longest_dual, rise


@inline
def shorten(longest, room, move, keep):
    """The fraction of ``move`` that leaves the share 1 - keep of ``room``, at most ``longest``."""
    if move < 0.0 and -longest * move > keep * room:
        return -keep * room / move
    return longest


@kernel
def move(rows, bounds, kind, elastic, m, step, alpha, dual):
    """Move all multipliers: ν by alpha, those of bounds by ``dual``; slacks and excesses have moved."""
    for i in range(len(kind)):
        rows[NU, i] += alpha * step[NU, i]
        if kind[i] == BOUNDED:
            below, above = rows[S, i] - bounds[0, i], bounds[1, i] - rows[S, i]
            rows[BELOW, i] = near(rows[BELOW, i] + dual * step[BELOW, i], m / below)
            rows[ABOVE, i] = near(rows[ABOVE, i] + dual * step[ABOVE, i], m / above)
        if i < elastic and kind[i] != FREE:
            rows[OF_P, i] = near(rows[OF_P, i] + dual * step[OF_P, i], m / rows[P, i])
            rows[OF_N, i] = near(rows[OF_N, i] + dual * step[OF_N, i], m / rows[N, i])


@inline
def near(z, centre):
    """A multiplier within a factor of ``centre``."""
    return min(max(z, centre / NEAR), centre * NEAR)


@kernel
def evaluate(c, primal, bounds, kind, price, elastic, m, residual, settle):
    """residual (M,) of values c and slacks and excesses ``primal`` (3, M); returns barrier function and prices.

    That is infinite if a slack is beyond its bound. To ``settle``, the larger excess becomes what leaves no
    residual of its row.
    """
    total = 0.0
    for i in range(len(kind)):
        residual[i] = 0.0
        if kind[i] == FREE:
            continue
        residual[i] = c[i] - (primal[0, i] if kind[i] == BOUNDED else bounds[0, i])
        if kind[i] == BOUNDED and m > 0.0:
            total += logarithm(primal[0, i] - bounds[0, i], m) + logarithm(bounds[1, i] - primal[0, i], m)
        if i < elastic and settle:
            missed = residual[i] - (primal[1, i] - primal[2, i])
            large, small = (1, 2) if primal[1, i] >= primal[2, i] else (2, 1)
            more, half = missed if large == 1 else -missed, 0.5 * primal[large, i]
            primal[large, i] += max(more, -half)
            primal[small, i] += max(0.0, -half - more)
            residual[i] = 0.0
        if i < elastic:
            total += price * (primal[1, i] + primal[2, i])
            total += logarithm(primal[1, i], m) + logarithm(primal[2, i], m)
    return total


@inline
def logarithm(room, m):
    """The barrier of a slack; nothing where there is no bound."""
    if room == np.inf:
        return 0.0
    return -m * np.log(room) if room > 0.0 else np.inf


@kernel
def errors(rows, bounds, kind, price, elastic, m):
    """Complementarity, the gradient in slacks and excesses, sums of |multipliers|: of bounds, of all."""
    lack, slope, of_bounds, of_all = 0.0, 0.0, 0.0, 0.0
    for i in range(len(kind)):
        of_all += abs(rows[NU, i])
        if kind[i] == BOUNDED:
            for z, room in (
                (rows[BELOW, i], rows[S, i] - bounds[0, i]), (rows[ABOVE, i], bounds[1, i] - rows[S, i]),
            ):
                if room < np.inf:
                    lack = max(lack, abs(z * room - m))
                    of_bounds += z
        if i < elastic and kind[i] != FREE:
            lack = max(lack, abs(rows[P, i] * rows[OF_P, i] - m), abs(rows[N, i] * rows[OF_N, i] - m))
            of_bounds += rows[OF_P, i] + rows[OF_N, i]
            slope = max(slope, abs(price - rows[NU, i] - rows[OF_P, i]), abs(price + rows[NU, i] - rows[OF_N, i]))
            if kind[i] == BOUNDED:
                slope = max(slope, abs(rows[NU, i] + rows[BELOW, i] - rows[ABOVE, i]))
    return lack, slope, of_bounds, of_all + of_bounds

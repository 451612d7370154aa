# mypy: allow-untyped-defs, allow-untyped-calls
"""Kernels of barrier.py: one pass over all rows each.

``rows`` and ``step`` are (8, M): slacks s and excesses p, n, multipliers z_L, z_U of bounds, ν, and z_p, z_n.
``bounds`` (2, M).   ``kind`` (M,): `FREE`, `BOUNDED` or `EQUAL`.   ``give`` (2, M): the price of a unit of p and n,
infinite where a row does not give way at one; and the compliance, by how much c - s exceeds nothing for a unit of ν,
kept in p, with its sign, and zero where a row does not give way that way.   m: the barrier.   delta: δ of equalities.
"""

import numpy as np

from ddp.compiling.kernel import inline, kernel

FREE, BOUNDED, EQUAL = 0, 1, 2

S, P, N, BELOW, ABOVE, NU, OF_P, OF_N = range(8)

PRICE, COMPLIANCE = 0, 1

SMALLEST, LARGEST = 1e-120, 1e120
"""Products of rooms between which another row's may be multiplied to them."""

LEAST = 0.01
"""Share of themselves that multipliers of bounds keep in a whole step."""

LEFT_BEHIND = 0.1
"""Slacks with less than this share of the room that their row's value has take that value, see `evaluate`."""

HUGE = 1e-6
"""Factor below which units of rows are so large that rounding alone is more than tolerances: these count as if this
were the factor."""

NEAR = 1e10
"""Multipliers stay within this factor of what the barrier says they are, m / (s - bound)."""


@inline
def gives(give, i):
    """Whether a row gives way."""
    return give[PRICE, i] < np.inf or give[COMPLIANCE, i] > 0.0


@inline
def closeness(rows, bounds, i):
    """1 / (s - lower), 1 / (upper - s)."""
    return 1.0 / (rows[S, i] - bounds[0, i]), 1.0 / (bounds[1, i] - rows[S, i])


@inline
def stiffness(rows, i, m, low, high):
    """Σ = z_L / (s - lower) + z_U / (upper - s), and the barrier's slope b there; low, high: see `closeness`."""
    return rows[BELOW, i] * low + rows[ABOVE, i] * high, m * (high - low)


@inline
def excess(rows, give, i, m):
    """δ' = p / z_p + n / z_n, and what p - n would be after a step with ν as it is, less p - n."""
    price, compliance = give[PRICE, i], give[COMPLIANCE, i]
    if price == np.inf:
        return compliance, compliance * rows[NU, i] - rows[P, i]
    p, n = rows[P, i] / rows[OF_P, i], rows[N, i] / rows[OF_N, i]
    moved = m / rows[OF_P, i] - m / rows[OF_N, i] + p * (rows[NU, i] - price) + n * (rows[NU, i] + price)
    return p + n, moved


@kernel
def start(inside, bounds, kind, m, rows):
    """Take ``inside`` (M,) as slacks, with the multipliers that the barrier has there; all else is zero."""
    for i in range(len(kind)):
        s = inside[i]
        for j in range(rows.shape[0]):
            rows[j, i] = 0.0
        if kind[i] == BOUNDED:
            rows[S, i], rows[BELOW, i], rows[ABOVE, i] = s, m / (s - bounds[0, i]), m / (bounds[1, i] - s)


@kernel
def multipliers(rows, kind, give, y):
    """y (M,): z_U - z_L of bounds that do not give way, ν of all other rows."""
    for i in range(len(kind)):
        own = kind[i] == BOUNDED and not gives(give, i)
        y[i] = rows[ABOVE, i] - rows[BELOW, i] if own else rows[NU, i]


@kernel
def condense(rows, bounds, kind, give, m, delta, residual, w, f):
    """Weights w and forces f (M,) of the rows."""
    for i in range(len(kind)):
        if kind[i] == FREE:
            w[i], f[i] = 0.0, rows[NU, i]
        elif gives(give, i):
            yielding, moved = excess(rows, give, i, m)
            if kind[i] == BOUNDED:
                own, slope = stiffness(rows, i, m, *closeness(rows, bounds, i))
                yielding += 1.0 / own
                moved += (rows[NU, i] - slope) / own
            w[i] = 1.0 / yielding
            f[i] = rows[NU, i] + w[i] * (residual[i] - moved)
        elif kind[i] == BOUNDED:
            own, slope = stiffness(rows, i, m, *closeness(rows, bounds, i))
            w[i], f[i] = own, slope + own * residual[i]
        else:
            w[i], f[i] = 1.0 / delta, rows[NU, i] + residual[i] / delta


@kernel
def steps(rows, bounds, kind, give, m, residual, w, f, along, keep, step):
    """The step (8, M) where J z is ``along``; its longest fractions, primal and dual, and the barrier's slope.

    Numbers that rows of these kinds do not have are zeros, and stay as they are.
    """
    longest, longest_dual, rise = 1.0, 1.0, 0.0
    for i in range(len(kind)):
        if kind[i] == FREE:
            continue
        soft = gives(give, i)
        if soft or kind[i] == EQUAL:
            step[NU, i] = f[i] - rows[NU, i] + w[i] * along[i]
        nu = rows[NU, i] + step[NU, i]
        if soft and give[PRICE, i] == np.inf:
            step[P, i] = give[COMPLIANCE, i] * nu - rows[P, i]
            rise += rows[P, i] / give[COMPLIANCE, i] * step[P, i]
        elif soft:
            price = give[PRICE, i]
            for part, of, sign in ((P, OF_P, 1.0), (N, OF_N, -1.0)):
                x, z = rows[part, i], rows[of, i]
                step[part, i] = m / z + x / z * (sign * nu - price)
                step[of, i] = (m - z * step[part, i]) / x - z
                longest = shorten(longest, x, step[part, i], keep)
                longest_dual = shorten(longest_dual, z, step[of, i], keep)
                rise += (price - m / x) * step[part, i]
        if kind[i] == BOUNDED:
            low, high = closeness(rows, bounds, i)
            own, slope = stiffness(rows, i, m, low, high)
            moved = (nu - slope) / own if soft else along[i] + residual[i]
            step[S, i] = moved
            rise += slope * moved
            step[BELOW, i] = (m - rows[BELOW, i] * moved) * low - rows[BELOW, i]
            step[ABOVE, i] = (m + rows[ABOVE, i] * moved) * high - rows[ABOVE, i]
            below, above = rows[S, i] - bounds[0, i], bounds[1, i] - rows[S, i]
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
def move(rows, bounds, kind, give, m, step, alpha, dual):
    """Move all multipliers: ν by alpha, those of bounds by ``dual``; slacks and excesses have moved.

    Where the step was taken whole, each of a bound goes all of it, or as far as it stays positive: no row waits for
    the one that comes to zero first.
    """
    for i in range(len(kind)):
        rows[NU, i] += alpha * step[NU, i]
        if kind[i] == BOUNDED:
            below, above = rows[S, i] - bounds[0, i], bounds[1, i] - rows[S, i]
            rows[BELOW, i] = near(moved(rows[BELOW, i], step[BELOW, i], alpha, dual), m / below)
            rows[ABOVE, i] = near(moved(rows[ABOVE, i], step[ABOVE, i], alpha, dual), m / above)
        if kind[i] != FREE and give[PRICE, i] < np.inf:
            rows[OF_P, i] = near(moved(rows[OF_P, i], step[OF_P, i], alpha, dual), m / rows[P, i])
            rows[OF_N, i] = near(moved(rows[OF_N, i], step[OF_N, i], alpha, dual), m / rows[N, i])


@inline
def moved(z, step, alpha, dual):
    """A bound's multiplier after a step, see `move`."""
    return z + dual * step if alpha < 1.0 else max(z + step, LEAST * z)


@inline
def near(z, centre):
    """A multiplier within a factor of ``centre``."""
    return min(max(z, centre / NEAR), centre * NEAR)


@kernel
def evaluate(c, primal, bounds, kind, give, m, residual, settle):
    """residual (M,) of values c and slacks and excesses ``primal`` (3, M); returns barrier function and prices.

    That is infinite if a slack is beyond its bound. To ``settle``, the larger excess becomes what leaves no residual of
    its row, and slacks that are left far behind take its value (Byrd, Hribar & Nocedal 1999): steps are linear, and one
    slack at its bound stops them all where constraints curve away from it. Both lower what is open and the barrier.
    Logarithms are of products of rooms, which take most of the time otherwise.
    """
    total, product = 0.0, 1.0
    for i in range(len(kind)):
        residual[i] = 0.0
        if kind[i] == FREE:
            continue
        residual[i] = c[i] - (primal[0, i] if kind[i] == BOUNDED else bounds[0, i])
        own = settle and kind[i] == BOUNDED and not gives(give, i)
        if own and LEFT_BEHIND * rooms(c[i], bounds, i) > rooms(primal[0, i], bounds, i):
            primal[0, i], residual[i] = c[i], 0.0
        if not SMALLEST < product < LARGEST:
            total, product = total + logarithm(product, m), 1.0
        if kind[i] == BOUNDED and m > 0.0:
            product *= rooms(primal[0, i], bounds, i)
        if not gives(give, i):
            continue
        price, compliance = give[PRICE, i], give[COMPLIANCE, i]
        if price == np.inf:
            if settle:
                primal[1, i] = residual[i]
            total += 0.5 * primal[1, i] * primal[1, i] / compliance
        else:
            if settle:
                missed = residual[i] - (primal[1, i] - primal[2, i])
                large, small = (1, 2) if primal[1, i] >= primal[2, i] else (2, 1)
                more, half = missed if large == 1 else -missed, 0.5 * primal[large, i]
                primal[large, i] += max(more, -half)
                primal[small, i] += max(0.0, -half - more)
            total += price * (primal[1, i] + primal[2, i])
            product *= own_room(primal[1, i]) * own_room(primal[2, i])
        residual[i] = 0.0
    return total + logarithm(product, m)


@inline
def rooms(x, bounds, i):
    """Product of what is left to both bounds."""
    return own_room(x - bounds[0, i]) * own_room(bounds[1, i] - x)


@inline
def own_room(room):
    """Factor of a slack; one where there is no bound, zero beyond it."""
    return 1.0 if room == np.inf else max(room, 0.0)


@inline
def logarithm(product, m):
    """The barrier of the product of rooms."""
    return -m * np.log(product) if product > 0.0 else np.inf


@kernel
def errors(rows, bounds, kind, give):
    """The lowest and highest product of a multiplier and what it keeps positive, the gradient in slacks and excesses.

    Then sums of |multipliers|: of bounds, of all.
    """
    low, high, slope, of_bounds, of_all = np.inf, -np.inf, 0.0, 0.0, 0.0
    for i in range(len(kind)):
        of_all += abs(rows[NU, i])
        if kind[i] == FREE:
            continue
        if kind[i] == BOUNDED:
            for z, room in (
                (rows[BELOW, i], rows[S, i] - bounds[0, i]), (rows[ABOVE, i], bounds[1, i] - rows[S, i]),
            ):
                if room < np.inf:
                    low, high = min(low, z * room), max(high, z * room)
                    of_bounds += z
        if not gives(give, i):
            continue
        price, nu = give[PRICE, i], rows[NU, i]
        if price == np.inf:
            slope = max(slope, abs(rows[P, i] / give[COMPLIANCE, i] - nu))
        else:
            for part, of, sign in ((P, OF_P, 1.0), (N, OF_N, -1.0)):
                product = rows[part, i] * rows[of, i]
                low, high = min(low, product), max(high, product)
                of_bounds += rows[of, i]
                slope = max(slope, abs(price - sign * nu - rows[of, i]))
        if kind[i] == BOUNDED:
            slope = max(slope, abs(nu + rows[BELOW, i] - rows[ABOVE, i]))
    return low, high, slope, of_bounds, of_all + of_bounds


@kernel
def violation(rows, bounds, kind, hard, factors):
    """Excess of ``hard`` rows (M,) over their bounds: the largest, in their own units where larger, and the sum."""
    most, total = 0.0, 0.0
    for i in range(len(kind)):
        if hard[i] != 0:
            c = (bounds[0, i] if kind[i] == EQUAL else rows[S, i]) + rows[P, i] - rows[N, i]
            beyond = max(bounds[0, i] - c, c - bounds[1, i], 0.0)
            most, total = max(most, beyond, beyond / max(factors[i], HUGE)), total + beyond
    return most, total

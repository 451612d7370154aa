# mypy: allow-untyped-defs, allow-untyped-calls
"""Kernels of barrier.py: one pass over all rows each.

``rows`` and ``step`` are (8, M): slacks s and excesses p, n, multipliers z_L, z_U of bounds, ν, and z_p, z_n.
``bounds`` (2, M).   ``kind`` (M,): `FREE`, `BOUNDED` or `EQUAL`.   ``give`` (2, M): the price of a unit of p and n,
infinite where a row does not give way at one; and the compliance, by how much c - s exceeds nothing for a unit of ν,
kept in p, with its sign, and zero where a row does not give way that way.   m: the barrier.   delta: δ of equalities.

``plain`` (M,): 1 where a row and the next seven are all bounded and do not give way, as most do: then these are lanes
of registers. Other rows are taken one by one.
"""

import numpy as np
from numba import float64
from numba.types import UniTuple

from ddp.compiling.kernel import apart, inline, kernel
from ddp.machine.memory import rows_of
from ddp.machine.number import WIDTH, all_less, lane_of, smaller, where_less
from ddp.machine.simd import load, load_some, store

FREE, BOUNDED, EQUAL = 0, 1, 2

S, P, N, BELOW, ABOVE, NU, OF_P, OF_N = range(8)

PRICE, COMPLIANCE = 0, 1

SMALLEST, LARGEST = 1e-120, 1e120
"""Products of rooms between which another row's may be multiplied to them."""

TINY = 1e-120
"""Excess over a room that is none: where there is no bound, its multiplier and the move of that are zero."""

LEAST = 0.01
"""Share of themselves that multipliers of bounds keep in a whole step."""

LEFT_BEHIND = 0.1
"""Slacks with less than this share of the room that their row's value has take that value, see `evaluate`."""

HUGE = 1e-6
"""Factor below which units of rows are so large that rounding alone is more than tolerances: these count as if this
were the factor."""

NEAREST, FURTHEST = 1e-10, 1e10
"""Multipliers stay between these factors of what the barrier says they are, m / (s - bound)."""


@inline
def gives(give, i):
    """Whether a row gives way."""
    return give[PRICE, i] < np.inf or give[COMPLIANCE, i] > 0.0


@inline
def greater(x, y):
    """Number by number the larger one."""
    return where_less(x, y, y, x)


@inline
def closeness(s, lower, upper):
    """1 / (s - lower), 1 / (upper - s)."""
    return 1.0 / (s - lower), 1.0 / (upper - s)


@inline
def stiffness(below, above, m, low, high):
    """Σ = z_L / (s - lower) + z_U / (upper - s), and the barrier's slope b there; low, high: see `closeness`."""
    return below * low + above * high, m * (high - low)


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


@apart
def multipliers(rows, kind, give, y):
    """y (M,): z_U - z_L of bounds that do not give way, ν of all other rows."""
    for i in range(len(kind)):
        own = kind[i] == BOUNDED and not gives(give, i)
        y[i] = rows[ABOVE, i] - rows[BELOW, i] if own else rows[NU, i]


@apart
def condense(rows, bounds, kind, plain, give, m, delta, residual, w, f):
    """Weights w and forces f (M,) of the rows."""
    of, bound, left, to_w, to_f, k = rows_of(rows), rows_of(bounds), rows_of(residual), rows_of(w), rows_of(f), 0
    while k < len(kind):
        if plain[k]:
            low, high = closeness(load(of[S], k), load(bound[0], k), load(bound[1], k))
            own, slope = stiffness(load(of[BELOW], k), load(of[ABOVE], k), m, low, high)
            store(to_w, k, own)
            store(to_f, k, slope + own * load(left, k))
            k += WIDTH
            continue
        i, k = k, k + 1
        if kind[i] == FREE:
            w[i], f[i] = 0.0, rows[NU, i]
            continue
        own, slope = stiffness(rows[BELOW, i], rows[ABOVE, i], m, *closeness(rows[S, i], bounds[0, i], bounds[1, i]))
        if gives(give, i):
            yielding, moved = excess(rows, give, i, m)
            if kind[i] == BOUNDED:
                yielding += 1.0 / own
                moved += (rows[NU, i] - slope) / own
            w[i] = 1.0 / yielding
            f[i] = rows[NU, i] + w[i] * (residual[i] - moved)
        elif kind[i] == BOUNDED:
            w[i], f[i] = own, slope + own * residual[i]
        else:
            w[i], f[i] = 1.0 / delta, rows[NU, i] + residual[i] / delta


@apart(returns=UniTuple(float64, 3))
def steps(rows, bounds, kind, plain, give, m, residual, w, f, along, keep, step):
    """The step (8, M) where J z is ``along``; its longest fractions, primal and dual, and the barrier's slope.

    Numbers that rows of these kinds do not have are zeros, and stay as they are.
    """
    longest, longest_dual, rise, k = 1.0, 1.0, 0.0, 0
    of, bound, left, by, to = rows_of(rows), rows_of(bounds), rows_of(residual), rows_of(along), rows_of(step)
    rises = load_some(left, 0, 0)
    primal, dual = 1.0 + rises, 1.0 + rises
    while k < len(kind):
        if plain[k]:
            s, lower, upper = load(of[S], k), load(bound[0], k), load(bound[1], k)
            below, above, moved = load(of[BELOW], k), load(of[ABOVE], k), load(by, k) + load(left, k)
            slope = stiffness(below, above, m, *closeness(s, lower, upper))[1]
            to_below, to_above = follow(s, below, above, lower, upper, m, moved)
            store(to[S], k, moved)
            store(to[BELOW], k, to_below)
            store(to[ABOVE], k, to_above)
            rises += slope * moved
            primal = shorten(shorten(primal, s - lower, moved, keep), upper - s, -moved, keep)
            dual = shorten(shorten(dual, below, to_below, keep), above, to_above, keep)
            k += WIDTH
            continue
        i, k = k, k + 1
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
            for part, of_part, sign in ((P, OF_P, 1.0), (N, OF_N, -1.0)):
                x, z = rows[part, i], rows[of_part, i]
                step[part, i] = m / z + x / z * (sign * nu - price)
                step[of_part, i] = (m - z * step[part, i]) / x - z
                longest = shorten(longest, x, step[part, i], keep)
                longest_dual = shorten(longest_dual, z, step[of_part, i], keep)
                rise += (price - m / x) * step[part, i]
        if kind[i] == BOUNDED:
            s, below, above, lower, upper = rows[S, i], rows[BELOW, i], rows[ABOVE, i], bounds[0, i], bounds[1, i]
            own, slope = stiffness(below, above, m, *closeness(s, lower, upper))
            moved = (nu - slope) / own if soft else along[i] + residual[i]
            step[S, i] = moved
            step[BELOW, i], step[ABOVE, i] = follow(s, below, above, lower, upper, m, moved)
            rise += slope * moved
            longest = shorten(shorten(longest, s - lower, moved, keep), upper - s, -moved, keep)
            longest_dual = shorten(shorten(longest_dual, below, step[BELOW, i], keep), above, step[ABOVE, i], keep)
    for lane in range(WIDTH):
        longest, longest_dual = min(longest, lane_of(primal, lane)), min(longest_dual, lane_of(dual, lane))
        rise += lane_of(rises, lane)
    return longest, longest_dual, rise


@inline
def follow(s, below, above, lower, upper, m, moved):
    """Steps of the multipliers of bounds where a slack has ``moved``."""
    low, high = closeness(s, lower, upper)
    return (m - below * moved) * low - below, (m + above * moved) * high - above


@inline
def shorten(longest, room, move, keep):
    """The fraction of ``move`` that leaves the share 1 - keep of ``room``, at most ``longest``."""
    if all_less(-TINY, keep * room + longest * move):
        return longest
    shorter = where_less(keep * room, -longest * move, -keep * room / move, longest)
    return where_less(move, 0.0, shorter, longest)


@apart
def move(rows, bounds, kind, plain, give, m, step, alpha, dual):
    """Move all multipliers: ν by alpha, those of bounds by ``dual``; slacks and excesses have moved.

    Where the step was taken whole, each of a bound goes all of it, or as far as it stays positive: no row waits for
    the one that comes to zero first.
    """
    of, bound, by, k = rows_of(rows), rows_of(bounds), rows_of(step), 0
    while k < len(kind):
        if plain[k]:
            s, below, above = load(of[S], k), load(of[BELOW], k), load(of[ABOVE], k)
            below, above = moved(below, load(by[BELOW], k), alpha, dual), moved(above, load(by[ABOVE], k), alpha, dual)
            store(of[BELOW], k, near(below, m / (s - load(bound[0], k))))
            store(of[ABOVE], k, near(above, m / (load(bound[1], k) - s)))
            k += WIDTH
            continue
        i, k = k, k + 1
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
    return z + dual * step if alpha < 1.0 else greater(z + step, LEAST * z)


@inline
def near(z, centre):
    """A multiplier within a factor of ``centre``."""
    return smaller(greater(z, NEAREST * centre), FURTHEST * centre)


@apart(returns=float64)
def evaluate(c, primal, bounds, kind, plain, give, m, residual, settle):
    """residual (M,) of values c and slacks and excesses ``primal`` (3, M); returns barrier function and prices.

    That is infinite if a slack is beyond its bound. To ``settle``, the larger excess becomes what leaves no residual of
    its row, and slacks that are left far behind take its value (Byrd, Hribar & Nocedal 1999): steps are linear, and one
    slack at its bound stops them all where constraints curve away from it. Both lower what is open and the barrier.
    Logarithms are of products of rooms, which take most of the time otherwise.
    """
    total, product, k = 0.0, 1.0, 0
    values, of, bound, left = rows_of(c), rows_of(primal), rows_of(bounds), rows_of(residual)
    products = 1.0 + load_some(values, 0, 0)
    while k < len(kind):
        if plain[k]:
            x, s, lower, upper = load(values, k), load(of[S], k), load(bound[0], k), load(bound[1], k)
            if settle:
                s = caught_up(x, s, lower, upper)
                store(of[S], k, s)
            store(left, k, x - s)
            if not (all_less(SMALLEST, products) and all_less(products, LARGEST)):
                total, products = total + logarithms(products, m), 1.0 + load_some(values, 0, 0)
            if m > 0.0:
                products *= rooms(s, lower, upper)
            k += WIDTH
            continue
        i, k = k, k + 1
        residual[i] = 0.0
        if kind[i] == FREE:
            continue
        if settle and kind[i] == BOUNDED and not gives(give, i):
            primal[S, i] = caught_up(c[i], primal[S, i], bounds[0, i], bounds[1, i])
        residual[i] = c[i] - (primal[S, i] if kind[i] == BOUNDED else bounds[0, i])
        if not SMALLEST < product < LARGEST:
            total, product = total + logarithm(product, m), 1.0
        if kind[i] == BOUNDED and m > 0.0:
            product *= rooms(primal[S, i], bounds[0, i], bounds[1, i])
        if not gives(give, i):
            continue
        price, compliance = give[PRICE, i], give[COMPLIANCE, i]
        if price == np.inf:
            if settle:
                primal[P, i] = residual[i]
            total += 0.5 * primal[P, i] * primal[P, i] / compliance
        else:
            if settle:
                missed = residual[i] - (primal[P, i] - primal[N, i])
                large, small = (P, N) if primal[P, i] >= primal[N, i] else (N, P)
                more, half = missed if large == P else -missed, 0.5 * primal[large, i]
                primal[large, i] += max(more, -half)
                primal[small, i] += max(0.0, -half - more)
            total += price * (primal[P, i] + primal[N, i])
            product *= own_room(primal[P, i]) * own_room(primal[N, i])
        residual[i] = 0.0
    return total + logarithm(product, m) + logarithms(products, m)


@inline
def caught_up(c, s, lower, upper):
    """A slack, or its row's value if that has left it far behind, see `evaluate`."""
    return where_less(rooms(s, lower, upper), LEFT_BEHIND * rooms(c, lower, upper), c, s)


@inline
def rooms(x, lower, upper):
    """Product of what is left to both bounds."""
    return own_room(x - lower) * own_room(upper - x)


@inline
def own_room(room):
    """Factor of a slack; one where there is no bound, zero beyond it."""
    return where_less(room, np.inf, greater(room, 0.0), 1.0)


@inline
def logarithm(product, m):
    """The barrier of the product of rooms."""
    return -m * np.log(product) if product > 0.0 else np.inf


@inline
def logarithms(products, m):
    """The barrier of eight products of rooms."""
    total = 0.0
    for lane in range(WIDTH):
        total += logarithm(lane_of(products, lane), m)
    return total


@apart(returns=UniTuple(float64, 5))
def errors(rows, bounds, kind, plain, give):
    """The lowest and highest product of a multiplier and what it keeps positive, the gradient in slacks and excesses.

    Then sums of |multipliers|: of bounds, of all.
    """
    low, high, slope, of_bounds, of_all, k = np.inf, -np.inf, 0.0, 0.0, 0.0, 0
    of, bound = rows_of(rows), rows_of(bounds)
    total = load_some(of[S], 0, 0)
    lowest, highest = np.inf + total, -np.inf + total
    while k < len(kind):
        if plain[k]:
            s = load(of[S], k)
            for z, room in ((load(of[BELOW], k), s - load(bound[0], k)), (load(of[ABOVE], k), load(bound[1], k) - s)):
                lowest = smaller(lowest, where_less(room, np.inf, z * room, np.inf))
                highest = greater(highest, where_less(room, np.inf, z * room, -np.inf))
                total += z
            k += WIDTH
            continue
        i, k = k, k + 1
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
            for part, of_part, sign in ((P, OF_P, 1.0), (N, OF_N, -1.0)):
                product = rows[part, i] * rows[of_part, i]
                low, high = min(low, product), max(high, product)
                of_bounds += rows[of_part, i]
                slope = max(slope, abs(price - sign * nu - rows[of_part, i]))
        if kind[i] == BOUNDED:
            slope = max(slope, abs(nu + rows[BELOW, i] - rows[ABOVE, i]))
    for lane in range(WIDTH):
        low, high = min(low, lane_of(lowest, lane)), max(high, lane_of(highest, lane))
        of_bounds += lane_of(total, lane)
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

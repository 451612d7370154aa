# mypy: allow-untyped-defs, allow-untyped-calls
"""Kernels of active.py: one pass over all rows each.

``held`` (M,): -1, 1 of rows at their lower and upper bounds; ``pays`` (M,): -1, 1 of rows that pay the price of being
beyond one; else 0.   y, values (M,): multipliers and values.   bounds, kind, give: of the rows, see row_steps.py.
first: m, the first row of a control's limits, of which there are some if ``limited``.
"""

import numpy as np

from ddp.compiling.kernel import apart, inline, kernel
from ddp.interior.row_steps import BOUNDED, COMPLIANCE, EQUAL, FREE, HUGE, NU, PRICE, N, P, S, gives

CLOSER = 0.5
"""Rows are held if a step without barrier takes more than this share of their slack, and so less than the rest of it
from their multiplier: near the minimum active rows lose all of their slack, others all of their multiplier (El-Bakry,
Tapia & Zhang 1994). These shares have no units."""

BEYOND = 1e-12
"""Rows that are beyond a bound by more, in their units, are added."""


@inline
def larger(most, number):
    """The larger of two numbers; NaN if one of them is."""
    return number if number > most or number != number else most


@inline
def is_priced(kind, give, i):
    """Whether a row gives way at a price."""
    return give[PRICE, i] < np.inf and kind[i] != FREE


@apart
def close(bounds, kind, give, state, step, held, pays):
    """held, pays := rows that go to a bound where the barrier ends, and those that stay beyond one: see `CLOSER`.

    step (8, M): a step without barrier from ``state``.
    """
    for i in range(len(kind)):
        s, moved, bounded = state[S, i], step[S, i], kind[i] == BOUNDED
        low = bounded and bounds[0, i] > -np.inf and -moved > CLOSER * (s - bounds[0, i])
        high = bounded and bounds[1, i] < np.inf and moved > CLOSER * (bounds[1, i] - s)
        held[i] = -1.0 if low else 1.0 if high else 0.0
        pays[i] = 0.0
        if is_priced(kind, give, i):
            pays[i] += 1.0 if -step[P, i] <= CLOSER * state[P, i] else 0.0
            pays[i] -= 1.0 if -step[N, i] <= CLOSER * state[N, i] else 0.0


@apart
def pay(bounds, give, y, values, pays):
    """pays := rows that are beyond a bound and push back: multipliers of warm starts are below their price."""
    for i in range(len(y)):
        side = 1.0 if values[i] > bounds[1, i] + BEYOND else -1.0 if values[i] < bounds[0, i] - BEYOND else 0.0
        pays[i] = side if give[PRICE, i] < np.inf and y[i] * side > 0.0 else 0.0


@kernel
def impose(bounds, kind, give, held, pays, y, first, to_bounds, to_kind, to_give, state, step):
    """Bound rows by what binds alone, as equalities: to_bounds, to_kind, to_give, ``state`` (8, M), and no ``step``.

    Returns how many there are, and the largest multiplier of a constraint.
    """
    equalities, largest = 0, 0.0
    for i in range(len(kind)):
        at_both = kind[i] == EQUAL
        at = bounds[0, i] if at_both or held[i] < 0.0 else bounds[1, i]
        holds = (at_both or (held[i] != 0.0 and i < first)) and pays[i] == 0.0
        to_bounds[0, i], to_bounds[1, i], to_kind[i] = (at, at, EQUAL) if holds else (-np.inf, np.inf, FREE)
        to_give[PRICE, i], to_give[COMPLIANCE, i] = np.inf, give[COMPLIANCE, i] if holds else 0.0
        equalities += 1 if holds else 0
        for j in range(state.shape[0]):
            state[j, i] = step[j, i] = 0.0
        state[NU, i] = y[i]
        largest = max(largest, abs(y[i])) if i < first else largest
    return equalities, largest


@kernel
def errors(bounds, kind, give, y, values, imposed, giving, factors):
    """Errors of rows: products of multipliers and what is left to bounds; what is beyond bounds, and not given way to.

    imposed, giving (2, M): ``bounds`` and ``give`` of what binds, see `impose`.   factors (M,): see `Point`; what is
    beyond bounds counts in the row's own units where these are larger.
    """
    products, beyond, unpaid = 0.0, 0.0, 0.0
    for i in range(len(kind)):
        low, high, compliance, priced = bounds[0, i], bounds[1, i], give[COMPLIANCE, i], is_priced(kind, give, i)
        over = max(max(low - values[i], values[i] - high), 0.0)
        if kind[i] == BOUNDED and compliance == 0.0 and y[i] != 0.0:
            room = values[i] - low if y[i] < 0.0 else high - values[i]
            products = larger(products, abs(y[i] * max(room, 0.0)))
        if priced:
            left = give[PRICE, i] - abs(y[i])  # what a unit beyond a bound is not paid for
            products = larger(products, abs(left if left < 0.0 else left * over))
        elif compliance == 0.0 or giving[COMPLIANCE, i] == 0.0:
            beyond = larger(beyond, over / min(max(factors[i], HUGE), 1.0))
        if giving[COMPLIANCE, i] > 0.0:
            unpaid = larger(unpaid, abs(values[i] - imposed[1, i] - giving[COMPLIANCE, i] * y[i]))
    return products, beyond, unpaid


@kernel
def price(bounds, give, y, values):
    """Price of what rows that do not give way are beyond their bounds, by multipliers y (M,)."""
    total = 0.0
    for i in range(len(y)):
        if not gives(give, i):
            total += abs(y[i] * max(max(bounds[0, i] - values[i], values[i] - bounds[1, i]), 0.0))
    return total


@kernel
def revise(bounds, kind, give, step, state, values, moved, rows, x, u, first, limited, factors, held, pays, target):
    """Release rows that push the wrong way after a step, by the linear model, hold those that are beyond bounds.

    step, state (8, M): of the step and where it began.   moved (M,): by how much it changes values.
    rows (N, nu (nz + 1)): see `ddp.sweeps.box`, of its sweep.   x (N+1, n), u (N, nu): the step.
    factors (M,): see `Point`.   target (M,): the multipliers where it leads.   Returns whether any row changed.
    """
    changed, (n, nu) = False, (x.shape[1], u.shape[1])
    nz = n + nu
    for i in range(len(kind)):
        target[i] = state[NU, i] + step[NU, i]
        if limited and i >= first:
            t, j = (i - first) // nu, (i - first) % nu
            row, pull = rows[t, j * (nz + 1) : (j + 1) * (nz + 1)], 0.0
            for a in range(nz):
                pull += row[a] * (x[t, a] if a < n else u[t, a - n])
            target[i] = -(pull + row[nz]) / factors[i] if held[i] != 0.0 else 0.0
        y, at, was_held, was_paying = target[i], values[i] + moved[i], held[i], pays[i]
        below, above = at < bounds[0, i] - BEYOND, at > bounds[1, i] + BEYOND
        if was_held * y < 0.0:
            held[i] = 0.0
        if was_held == 0.0 and kind[i] == BOUNDED:
            held[i] = 1.0 if above else -1.0 if below else 0.0
        if was_paying != 0.0:
            pays[i] = was_paying if (above if was_paying > 0.0 else below) else 0.0
        elif abs(y) > give[PRICE, i] and (kind[i] == EQUAL or was_held * y > 0.0):  # prices are paid at the bound
            pays[i] = 1.0 if y > 0.0 else -1.0  # that a row is beyond
        changed |= held[i] != was_held or pays[i] != was_paying
    return changed


@kernel
def pull(kind, give, y, pays, state):
    """ν of rows := y of equalities, else the price of those that pay it."""
    for i in range(len(kind)):
        state[NU, i] = y[i] if kind[i] == EQUAL else (pays[i] * give[PRICE, i] if pays[i] != 0.0 else 0.0)

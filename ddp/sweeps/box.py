# mypy: allow-untyped-defs, allow-untyped-calls
"""Control limits at one knot: a quadratic programme in a box, by projected Newton (Bertsekas 1982; Tassa et al. 2014).

    minimise ½ xᵀ H x + q_uᵀ x   with low <= x <= high,   H = Q_uu

A control is clamped where x is at a limit and the gradient pushes against it. Newton's direction of the other ones
is exact for a given set of clamped ones, so that a full step which changes no set ends the search; only the block of H
that belongs to the free ones has to be positive definite.
"""

from __future__ import annotations

from ddp.compiling.kernel import kernel
from ddp.machine.algebra import factorise, solve

MOST = 100
"""Iterations; a dozen are many. A knot that needs more counts as failed, and is regularised."""

SUFFICIENT = 0.1
"""The share of its promise that a projected step has to bring."""


@kernel
def clamp(n, Q, H, q, low, high, known, held, box, L):
    """Find the controls that the minimum has at their limits and make them constants of the knot.

    Q (nz, .), q (.,): of z = (x, u), of which rows u of Q are read; H: Q_uu within Q; n: how many x.
    held (nu,): -1, 1 of controls at the lower, the upper limit, 0 of the others; given if ``known``, else written.
    Returns whether there is a minimum, and what these constants add to the value. box (4, nu): box[0] is x of the
    clamped controls and 0 of the free ones. q becomes the gradient with the clamped ones in place; their rows and
    columns of rows u become those of the unit matrix, so that the policy of what is left has zeros for them.
    """
    nu = len(L)
    nz = n + nu
    x, free, gradient, trial = box[0], box[1], box[2], box[3]
    if not known:
        if not box_minimum(H, q[n:], low, high, x, free, gradient, trial, L):
            return False, 0.0
        for i in range(nu):
            held[i] = 0.0 if free[i] != 0.0 else (-1.0 if x[i] <= low[i] else 1.0)
    else:
        for i in range(nu):
            free[i] = 0.0 if held[i] != 0.0 else 1.0
            x[i] = low[i] if held[i] < 0.0 else high[i]
    constant = 0.0
    for i in range(nu):
        if free[i] == 0.0:
            constant += q[n + i] * x[i]
            for j in range(nu):
                if free[j] == 0.0:
                    constant += 0.5 * x[i] * Q[n + i, n + j] * x[j]
    for i in range(nu):
        if free[i] == 0.0:
            for j in range(nz):
                q[j] += Q[n + i, j] * x[i]
    for i in range(nu):
        if free[i] == 0.0:
            q[n + i] = 0.0
            for j in range(nz):
                Q[n + i, j] = 0.0
            for j in range(nu):
                Q[n + j, n + i] = 0.0
            Q[n + i, n + i] = 1.0
        else:
            x[i] = 0.0
    return True, constant


@kernel
def box_minimum(H, b, low, high, x, free, gradient, trial, L):
    """x := the minimum of ½ xᵀHx + b·x in the box, free (nu,) := 1 where no limit holds it; False if there is none."""
    nu = len(H)
    for i in range(nu):
        x[i] = min(max(0.0, low[i]), high[i])
    value = quadratic(H, b, x)
    for _ in range(MOST):
        for i in range(nu):
            total = b[i]
            for j in range(nu):
                total += H[i, j] * x[j]
            held = (x[i] <= low[i] and total > 0.0) or (x[i] >= high[i] and total < 0.0)
            free[i] = 0.0 if held else 1.0
            gradient[i] = 0.0 if held else -total
        for i in range(nu):
            for j in range(nu):
                both = free[i] != 0.0 and free[j] != 0.0
                L[i, j] = H[i, j] if both else (1.0 if i == j else 0.0)
        if not factorise(L):
            return False
        slope = 0.0
        for i in range(nu):
            trial[i] = gradient[i]
        solve(L, trial)
        inside = True
        for i in range(nu):
            slope += trial[i] * gradient[i]
            inside = inside and low[i] <= x[i] + trial[i] <= high[i]
        if inside:
            for i in range(nu):
                x[i] += trial[i]
            if same_set(H, b, low, high, x, free):
                return True
            value = quadratic(H, b, x)
            continue
        for i in range(nu):
            gradient[i] = trial[i]
        step, best = 1.0, value
        while step > 1e-10:
            for i in range(nu):
                trial[i] = min(max(x[i] + step * gradient[i], low[i]), high[i])
            best = quadratic(H, b, trial)
            promise = 0.0
            for i in range(nu):  # -gradient·(trial - x), of the free ones
                total = b[i]
                for j in range(nu):
                    total += H[i, j] * x[j]
                promise -= free[i] * total * (trial[i] - x[i])
            if value - best >= SUFFICIENT * promise:
                break
            step *= 0.5
        if not (best < value):
            return True  # to rounding
        for i in range(nu):
            x[i] = trial[i]
        value = best
    return False


@kernel
def same_set(H, b, low, high, x, free):
    """Whether exactly the controls that are not free are held by their limits."""
    for i in range(len(H)):
        if free[i] == 0.0:
            total = b[i]
            for j in range(len(H)):
                total += H[i, j] * x[j]
            if (x[i] <= low[i] and total < 0.0) or (x[i] >= high[i] and total > 0.0):
                return False
    return True


@kernel
def quadratic(H, b, x):
    """½ xᵀHx + b·x."""
    total = 0.0
    for i in range(len(H)):
        inner = b[i]
        for j in range(len(H)):
            inner += 0.5 * H[i, j] * x[j]
        total += x[i] * inner
    return total

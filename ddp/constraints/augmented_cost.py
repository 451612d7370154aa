# mypy: allow-untyped-defs, allow-untyped-calls
"""The kernel that makes a cost of any compiled constraint: its part of the augmented Lagrangian, see lagrangian.py."""

import numpy as np

from ddp.compiling.kernel import call_contraction, inline, kernel
from ddp.constraints import bound
from ddp.costs.bound import EXACT
from ddp.costs.bound import VALUES as COSTS
from ddp.costs.cost_table import place
from ddp.machine.addresses import address_of_words


@kernel
def augmented_cost(
    address, context, columns, diagonal, curved, lower, upper, cap, compliance, multipliers, penalty, shares,
    first, X, U, scale, order, l, lz, lzz,
):  # fmt: skip
    """Constraint of the C function at ``address``; bounds and multipliers (., size) of all of its knots, penalty (1,).

    shares (size,): what penalties of rows are multiplied by.

    Only runs of knots with an active row are differentiated.
    """
    M, size = X.shape[0], lower.shape[1]
    width = 1 if diagonal != 0 else columns.shape[0]
    c, force, stiff = np.empty((M, size)), np.empty((M, size)), np.empty((M, size))
    _call(address, context, bound.VALUES, 0, M, width, X, U, c, c, lz.shape[1], 0)
    weigh(c, lower, upper, cap, compliance, multipliers, penalty, shares, first, scale, l, force, stiff)
    if order == COSTS:
        return
    J, begin = np.empty((0, size, width)), 0
    while begin < M:
        if not _is_active(force[begin], stiff[begin]):
            begin += 1
            continue
        end = begin + 1
        while end < M and _is_active(force[end], stiff[end]):
            end += 1
        if J.shape[0] == 0:
            J = np.empty((M, size, width))
        _call(address, context, bound.JACOBIAN, begin, end, width, X, U, force, J, lz.shape[1], 0)
        for k in range(begin, end):
            for i in range(size):
                if diagonal != 0:
                    lz[k, columns[i]] += force[k, i] * J[k, i, 0]
                    lzz[k, columns[i], columns[i]] += stiff[k, i] * J[k, i, 0] * J[k, i, 0]
                elif force[k, i] != 0.0 or stiff[k, i] != 0.0:
                    for a in range(width):
                        lz[k, columns[a]] += force[k, i] * J[k, i, a]
                        f = stiff[k, i] * J[k, i, a]
                        if f != 0.0:
                            for b in range(width):
                                lzz[k, columns[a], columns[b]] += f * J[k, i, b]
        if order == EXACT and curved != 0:
            _call(address, context, bound.CURVATURE, begin, end, width, X, U, force, force, lz.shape[1], place(lzz))
        begin = end


@kernel
def weigh(c, lower, upper, cap, compliance, multipliers, penalty, shares, first, scale, l, force, stiff):
    """Add ``scale`` times the costs of values c (M, size) of knots from ``first`` on to l (M,).

    force, stiff (M, size) := as many times forces, and stiffness of active rows; other arguments as above.
    """
    for k in range(c.shape[0]):
        for i in range(c.shape[1]):
            low, up = lower[first + k, i], upper[first + k, i]
            y, rho = multipliers[first + k, i], penalty[0] * shares[i]
            e = shifted(c[k, i] + y / rho, low, up)
            s, most = stiffness(rho, cap, compliance, first + k, i)
            f = s * e
            if abs(f) > most:
                f = most if f > 0.0 else -most
            l[k] += scale * (f * (e - 0.5 * f / s) - 0.5 * y * y / rho)
            force[k, i] = scale * f
            stiff[k, i] = scale * s if (low == up or f != 0.0) and abs(f) < most else 0.0


@inline
def stiffness(rho, cap, compliance, k, i):
    """Stiffness of a row, and how large its force may be: see `Placed`; rows that are not soft have neither array."""
    if cap.shape[0] == 0:
        return rho, np.inf
    return rho / (1.0 + rho * compliance[k, i]), cap[k, i]


@inline
def shifted(s, low, up):
    """``s - clip(s, low, up)``; zero where there are no bounds, whatever s is."""
    if low == -np.inf and up == np.inf:
        return 0.0
    return 0.0 if low <= s <= up else (s - up if s > up else s - low)


@inline
def _is_active(force, stiff):
    active = False
    for i in range(force.size):
        active = active or force[i] != 0.0 or stiff[i] != 0.0
    return active


@inline
def _call(address, context, order, begin, end, width, X, U, weight, out, nz, H):
    """Call the C function of a constraint at the knots begin .. end-1 of a block."""
    nx, nu, size = X.shape[1], U.shape[1], weight.shape[1]
    row = 8 * begin * size
    to = row * width if order == bound.JACOBIAN else row
    block = address_of_words((
        end - begin, nx, nu, nz, size, width, place(X) + 8 * nx * begin, place(U) + 8 * nu * begin,
        place(weight) + row, place(out) + to, H + 8 * nz * nz * begin,
    ))  # fmt: skip
    call_contraction(address, context, block, order, 0)

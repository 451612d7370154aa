# mypy: allow-untyped-defs, allow-untyped-calls
"""Hessians that are swept at a point: those of costs and rows, of Gauss-Newton where these are asked for, and mu."""

from ddp.compiling.kernel import apart, kernel
from ddp.constraints.row_table import add_squares
from ddp.interior.measures import copy, spread
from ddp.interior.memory import arrays, rows_at, units_of
from ddp.machine.addresses import array_at, integers_at


@kernel
def fill(p, exact):
    """Swept Hessians := those of the costs, ``exact`` or not, + Jᵀ w J; or the diagonal of it.

    ``dense``, ``separable``, ``costs_separable`` knots: where Hessians are, and are not, and where those of costs are
    diagonals. Beyond so many of the first rows and columns as are ``coupled`` those that are swept are diagonal.
    """
    knots = (p.N + 1,)
    dense, separable = integers_at(p.dense, knots), integers_at(p.separable, knots)
    a, shape, flat = arrays(p), (p.N + 1, p.n + p.nu, p.n + p.nu), (p.N + 1, p.n + p.nu)
    own, diagonal = array_at(p.diagonal, flat), array_at(p.to_diagonal, flat)
    H, out = array_at(p.exact if exact else p.lzz, shape), array_at(p.to_exact if exact else p.to_lzz, shape)
    copy(p.to_diagonal, p.diagonal, (p.N + 1) * (p.n + p.nu))
    if p.any_dense != 0:
        spread(dense, integers_at(p.costs_separable, knots), integers_at(p.coupled, knots), own, H, out)
    if p.M > 0:
        add_squares(a.table, a.J, rows_at(p.rows).w, separable, out, diagonal)


@kernel
def complete(p, blend):
    """Make Gauss-Newton's Hessians, if a sweep with that share of the exact ones needs them and they are not made."""
    if blend < 1.0 and p.whole == 0 and p.any_dense != 0:
        fill(p, False)
        p.whole = 1


@apart
def shift(p, mu):
    """Add mu to Gauss-Newton's Hessians that are swept, in units of states and controls."""
    N, nz, units = p.N, p.n + p.nu, units_of(p)
    H, diagonal = array_at(p.to_lzz, (N + 1, nz, nz)), array_at(p.to_diagonal, (N + 1, nz))
    for t in range(N + 1):
        for i in range(nz if t < N else p.n):
            H[t, i, i] += mu / units[i] ** 2
            diagonal[t, i] += mu / units[i] ** 2

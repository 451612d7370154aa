# mypy: allow-untyped-defs, allow-untyped-calls
"""Hessians that are swept at a point: those of costs and rows, of Gauss-Newton where these are asked for, and mu."""

from ddp.compiling.kernel import apart, kernel
from ddp.constraints.row_table import add_squares
from ddp.interior.measures import copy, spread
from ddp.interior.memory import rows_at, table_of, units_of
from ddp.machine.addresses import array_at, integers_at


@kernel
def fill(p, exact):
    """Swept Hessians := those of the costs, ``exact`` or not, + Jᵀ w J; or the diagonal of it.

    ``dense``, ``separable``, ``costs_separable`` knots: where Hessians are, and are not, and where those of costs are
    diagonals. Beyond so many of the first rows and columns as are ``coupled`` those that are swept are diagonal.
    """
    copy(p.to_diagonal, p.diagonal, (p.N + 1) * (p.n + p.nu))
    if p.any_dense != 0 or p.M > 0:
        fill_dense(p, exact)


@apart
def fill_dense(p, exact):
    """`fill` where costs have Hessians, or there are rows."""
    knots, nz = (p.N + 1,), p.n + p.nu
    diagonal, separable = array_at(p.to_diagonal, (p.N + 1, nz)), integers_at(p.separable, knots)
    shape = (p.N + 1, nz, nz)
    H, out = array_at(p.exact if exact else p.lzz, shape), array_at(p.to_exact if exact else p.to_lzz, shape)
    if p.any_dense != 0:
        own, of_costs = array_at(p.diagonal, (p.N + 1, nz)), integers_at(p.costs_separable, knots)
        spread(integers_at(p.dense, knots), of_costs, integers_at(p.coupled, knots), own, H, out)
    if p.M > 0:
        add_squares(table_of(p), array_at(p.J, (p.entries,)), rows_at(p.rows).w, separable, out, diagonal)


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

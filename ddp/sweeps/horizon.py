# mypy: allow-untyped-defs, allow-untyped-calls
"""Memory that the compiled sweep reads and writes over the horizon; loading one knot's costs from it."""

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.kernel import kernel
from ddp.derivatives import Derivatives
from ddp.machine.declared import each
from ddp.machine.memory import address_of
from ddp.machine.rows import clear_rows
from ddp.machine.struct import Struct, integer, integer_matrix, integers, matrix, reals
from ddp.machine.written import filled
from ddp.protocols import Array
from ddp.sweeps.riccati import add_coupled, add_hessian, load_hessian
from ddp.systems.structure import Halves
from ddp.systems.system import Contraction

SLOPED, UNSLOPED = 1, 2
"""``Horizon.torn`` of open gaps: with the slope of a step across them, or without, as nobody asks for it."""


class Horizon(Struct):
    """N knots of n states and nu controls: `Derivatives`, second orders, gaps, limits, and the policy that is found.

    halved: whether steps are semi-implicit; h (N,) or (0,), bent (g, 2): of those, see riccati.py.
    coupled (N+1,): how many of the first numbers of z costs' Hessians couple; beyond them these are diagonal, and where
    numbers are many read nowhere else. 0: they are in ``diagonal``.
    record: what C functions contract.   T: contracted second orders, of every knot or one place for all, which are
    Hessians, or blocks as ``in_blocks`` of `system.Abilities` says.
    gaps (N, n), torn: whether any is open, see `SLOPED`; crossed (g, 2): where they bend derivatives, bends
    (., 2, n, n): how; see gaps.py.   weights (N, n): see `gaps.weigh`.
    low, high, held (N, nu): see limits.py.   rows (N, nu (nz + 1)): see box.py.
    action (nu, nu): Q_uu of the last knot that a sweep came to.
    """

    N, n, nu = each(3, integer)
    A, B, lz, lzz, exact, diagonal = each(6, matrix)
    coupled: NDArray[np.int64] = integers()
    halved: int = integer()
    h: Array = reals()
    bent: NDArray[np.int64] = integer_matrix()
    record, T = each(2, matrix, constant=False)
    in_blocks, contraction, context = each(3, integer)
    gaps: Array = matrix()
    torn, closing, closing_context = each(3, integer)
    bends: Array = matrix(constant=False)
    crossed: NDArray[np.int64] = integer_matrix()
    weights: Array = matrix(constant=False)
    limited: int = integer()
    low, high = each(2, matrix)
    held, rows, k, K = each(4, matrix, constant=False)
    action: Array = reals(constant=False)


def horizon_of(
    d: Derivatives, second: Array, steps: Halves, closing: Contraction, bends: Array, crossed: NDArray[np.int64],
    limited: bool,
) -> Horizon:  # fmt: skip
    """A `Horizon` without gaps, with a policy of zeros; its user keeps what C functions need."""
    N, n, nu = d.B.shape
    free = np.full((N if limited else 0, nu), np.inf)
    return filled(
        Horizon, N=N, n=n, nu=nu, A=d.A, B=d.B, lz=d.lz, lzz=d.lzz, exact=d.exact, diagonal=d.diagonal,
        coupled=np.full(N + 1, n + nu), halved=int(len(steps[0]) > 0), h=steps[0].copy(),
        bent=steps[1], record=d.record, T=second, gaps=np.zeros((N, n)),
        closing=closing.address, closing_context=closing.context, bends=bends, crossed=crossed,
        weights=np.zeros((N, n)), limited=int(limited), low=-free, high=free,
        held=np.zeros_like(free), rows=np.zeros((len(free), nu * (n + nu + 1))), k=np.zeros((N, nu)),
        K=np.zeros((N, nu, n)), action=np.zeros((nu, nu)),
    )  # fmt: skip


@kernel
def own(rows, t):
    """Address of the t-th of some rows, or of the one row that serves all knots."""
    return address_of(rows[t if len(rows) > 1 else 0])


@kernel
def load_costs(p, r, t, blend):
    """Q := l_zz + blend (exact - l_zz) of knot t."""
    if blend == 0.0:
        load_hessian(r, address_of(p.lzz[t]))
    elif blend == 1.0:
        load_hessian(r, address_of(p.exact[t]))
    else:
        clear_rows(r.Q, r.ld, r.n + r.nu, r.ld)
        add_hessian(r, 1.0 - blend, address_of(p.lzz[t]))
        add_hessian(r, blend, address_of(p.exact[t]))


@kernel
def add_costs(p, r, t, blend):
    """Q += l_zz + blend (exact - l_zz) of knot t, of which not all is coupled."""
    if blend != 1.0:
        add_coupled(r, 1.0 - blend, address_of(p.lzz[t]), p.coupled[t])
    if blend != 0.0:
        add_coupled(r, blend, address_of(p.exact[t]), p.coupled[t])

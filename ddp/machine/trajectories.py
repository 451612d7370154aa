# mypy: allow-untyped-defs, allow-untyped-calls
"""Trajectories as systems' compiled routines are given them: see `ddp.systems.system.Routines`."""

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.kernel import inline
from ddp.machine.addresses import array_at
from ddp.machine.declared import each
from ddp.machine.memory import address_of
from ddp.machine.struct import Struct, integer, integers, reals
from ddp.machine.variables import variable_integer

Array = NDArray[np.float64]

Places = NDArray[np.int64]
"""Addresses of eight arrays."""


class Trajectory(Struct):
    """Addresses of the arrays of one trajectory of N controls, of sizes as in `ddp.systems.system.System`.

    X (N+1, nx), U (N, nu), A (N, n, n), B (N, n, nu), record (N, records): what routines read and write.
    weights (N, n), T (N, .): of second orders, see `ddp.systems.system.System.contract`.
    """

    N, nx, n, nu, records, X, U, A, B, record, weights, T, size = each(13, integer)


class Eight(Struct):
    """Closed-loop rollouts of eight problems of N controls, each with a step length of its own.

    X (N+1, nx), U (N, nu), k (N, nu), K (N, nu, n), at eight addresses each, and alphas (8,): the policies
    u = clip(U + alpha k + K (x ⊖ X)), from X_0.   lower, upper: addresses of limits (N, nu).   to_X, to_U: as X and U,
    to be written.
    gaps (N, n) at eight addresses, torn: see `ddp.systems.system.System.track`; whether any may be open.
    imposed (8,), any_imposed: of problems where it is one, every knot begins in X, and the gap that it leaves to the
    next one is written to their gaps; whether there are any.   Problems that stand here twice are equal in all.
    memory: of a `following.Following`.
    """

    N, nx, n, nu = each(4, integer)
    memory: Array = reals(constant=False)
    X, U, k, K = each(4, integers, constant=False)
    alphas: Array = reals(constant=False)
    lower, upper = each(2, variable_integer)
    to_X, to_U, gaps = each(3, integers, constant=False)
    imposed: Array = reals(constant=False)
    torn, any_imposed = each(2, variable_integer)


class Lengths(Struct):
    """Closed-loop rollouts of one problem under several step lengths: see `ddp.systems.system.System.track`.

    Addresses of X (N+1, nx), U (N, nu), k (N, nu), K (N, nu, n), gaps (N, n), lower, upper (N, nu), and of what is
    written: to_X (count, N+1, nx), to_U (count, N, nu), with one more if count is no multiple of eight, for whatever is
    left over where eight roll out at once, and to_notes (count, N, noted) of what costs read, such as contact forces.
    alphas (count,).
    """

    N, nx, n, nu, X, U, k, K, gaps, lower, upper, to_X, to_U, to_notes, noted = each(15, integer)
    count: int = variable_integer()
    alphas: Array = reals(constant=False)


@inline
def rolled_out(p):
    """Arrays of `Lengths`: X, U, k, K, alphas, gaps, lower, upper, and those to be written."""
    N, nx, n, nu, count = p.N, p.nx, p.n, p.nu, p.count
    policy = array_at(p.X, (N + 1, nx)), array_at(p.U, (N, nu)), array_at(p.k, (N, nu)), array_at(p.K, (N, nu, n))
    alphas, gaps = array_at(address_of(p.alphas), (count,)), array_at(p.gaps, (N, n))
    lower, upper = array_at(p.lower, (N, nu)), array_at(p.upper, (N, nu))
    to_X, to_U = array_at(p.to_X, (count, N + 1, nx)), array_at(p.to_U, (count, N, nu))
    return (*policy, alphas, gaps, lower, upper, to_X, to_U, array_at(p.to_notes, (count, N, p.noted)))

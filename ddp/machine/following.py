# mypy: allow-untyped-defs, allow-untyped-calls
"""Closed-loop rollouts of eight problems side by side, a lane for each, of any system that steps lanes.

u = clip(U + α k + K (x ⊖ X)),  x' = f(x, u) ⊕ (α - 1) gap

And steps along straight lines, which leave gaps, of eight knots side by side.
"""

from typing import Any

import numpy as np

from ddp.compiling.kernel import inline, kernel, specialised
from ddp.machine.addresses import integers_at
from ddp.machine.aligned import aligned_zeros
from ddp.machine.constants import room
from ddp.machine.fields import Fields, vector
from ddp.machine.gathering import gather, scatter
from ddp.machine.memory import address_of, as_matrix, floats_at, rows_at
from ddp.machine.number import WIDTH, lanes, where_less
from ddp.machine.packing import pack, unpack
from ddp.machine.simd import load, load_some, store_some
from ddp.machine.trajectories import Eight
from ddp.machine.written import filled

lanes_at = rows_at(lanes)
"""A vector of lanes at an address, inside kernels."""


class Following(Fields):
    """States, controls, deviations; eight knots of what is followed, of the policy, and of what is found; gaps."""

    x, u, dx = vector("nx"), vector("nu"), vector("n")
    X, U, k, K = vector("8 nx"), vector("8 nu"), vector("8 nu"), vector("8 gains")
    to_X, to_U, gap = vector("8 nx"), vector("8 nu"), vector("n")


def eight_of(N: int, nx: int, n: int, nu: int) -> Eight:
    """An `Eight` of N controls with memory to work in; addresses of trajectories are to be written."""
    names = "X", "U", "k", "K", "to_X", "to_U", "gaps"
    return filled(
        Eight, N=N, nx=nx, n=n, nu=nu, memory=aligned_zeros((WIDTH * Following.size(nx=nx, nu=nu, n=n, gains=nu * n),)),
        alphas=aligned_zeros((WIDTH,)), imposed=aligned_zeros((WIDTH,)),
        **dict(zip(names, np.zeros((len(names), WIDTH), dtype=np.int64), strict=True)),
    )  # fmt: skip


@kernel
def feedback(alpha, U, k, K, lower, upper, n, nu, dx, u):
    """u := clip(U + α k + K dx), four controls at a time."""
    i = 0
    while i + 4 <= nu:
        a, b = U[i] + alpha * k[i], U[i + 1] + alpha * k[i + 1]
        c, d = U[i + 2] + alpha * k[i + 2], U[i + 3] + alpha * k[i + 3]
        for j in range(n):
            e = dx[j]
            a += K[i, j] * e
            b += K[i + 1, j] * e
            c += K[i + 2, j] * e
            d += K[i + 3, j] * e
        u[i], u[i + 1], u[i + 2], u[i + 3] = a, b, c, d
        i += 4
    while i < nu:
        a = U[i] + alpha * k[i]
        for j in range(n):
            a += K[i, j] * dx[j]
        u[i] = a
        i += 1
    for i in range(nu):
        low, high = lower[i], upper[i]
        x = where_less(u[i], low, low, u[i])
        u[i] = where_less(high, x, high, x)


system: Any = None
deviate: Any = None
advance: Any = None
open_gap: Any = None
sizes: Any = None
own_of: Any = None
is_flat: Any = None
_numbers: Any = 0
"""Kernels by which a system's states deviate and move, and how many floats it works with on the stack: those of some
system take their places in the templates below."""


def _follow(context, eight, unused, none):  # type: ignore[no-untyped-def]
    """Roll out eight problems under their policies: an `Eight`.

    Eight knots go to and from lanes at once: their numbers fill registers, whatever the sizes are.
    """
    p, s = Eight(eight), system(context, room(_numbers))  # memory ends with the kernel that makes it, even if inlined
    nx, n, nu = sizes(s, p)
    own = Following(lanes_at(address_of(p.memory)), nx, nu, n, nu * n)
    alpha, imposed = load(p.alphas, 0), load(p.imposed, 0)
    lower, upper = as_matrix(floats_at(p.lower), p.N, nu), as_matrix(floats_at(p.upper), p.N, nu)
    gather(p.X, 0, own.x, nx)
    scatter(own.x, nx, p.to_X, 0)
    for begin in range(0, p.N, WIDTH):
        knots = min(WIDTH, p.N - begin)
        gather(p.X, begin * nx, own.X, knots * nx)
        gather(p.U, begin * nu, own.U, knots * nu)
        gather(p.k, begin * nu, own.k, knots * nu)
        gather(p.K, begin * nu * n, own.K, knots * nu * n)
        for i in range(knots):
            t, X, U = begin + i, own.X[i * nx :], own.U[i * nu :]
            deviate(s, X, own.x, own.dx)
            if p.any_imposed:
                if t > 0:
                    leave_gap(own.dx, n, imposed, own.gap, p.gaps, (t - 1) * n)
                impose(imposed, X, nx, n, own.x, own.dx)
            K = as_matrix(own.K[i * nu * n :], nu, n)
            feedback(alpha, U, own.k[i * nu :], K, lower[t], upper[t], n, nu, own.dx, own.u)
            for j in range(nu):
                own.to_U[i * nu + j] = own.u[j]
            advance(s, t, own.x, own.u)
            if p.torn:
                gather(p.gaps, t * n, own.gap, n)
                share = where_less(0.0, imposed, 0.0, alpha - 1.0)
                for j in range(n):
                    own.dx[j] = share * own.gap[j]
                open_gap(s, own.x, own.dx)
            for j in range(nx):
                own.to_X[i * nx + j] = own.x[j]
        scatter(own.to_U, knots * nu, p.to_U, begin * nu)
        scatter(own.to_X, knots * nx, p.to_X, (begin + 1) * nx)
    if p.any_imposed:
        gather(p.X, p.N * nx, own.X, nx)
        deviate(s, own.X, own.x, own.dx)
        leave_gap(own.dx, n, imposed, own.gap, p.gaps, (p.N - 1) * n)


@kernel
def impose(imposed, X, nx, n, x, dx):
    """x := X, which deviates by no dx, of problems whose states are imposed."""
    for i in range(nx):
        x[i] = where_less(0.0, imposed, X[i], x[i])
    for i in range(n):
        dx[i] = where_less(0.0, imposed, 0.0, dx[i])


@kernel
def leave_gap(dx, n, imposed, gap, gaps, begin):
    """Gaps from ``begin`` on := dx of problems whose states are imposed, and as they are of others."""
    gather(gaps, begin, gap, n)
    for i in range(n):
        gap[i] = where_less(0.0, imposed, dx[i], gap[i])
    scatter(gap, n, gaps, begin)


@kernel
def where_moved(dx, n, moved, x, nx):
    """x := ``moved`` by dx in lanes where dx is not zero; in others x stays, to the last bit."""
    size = 0.0 * dx[0]
    for i in range(n):
        size = size + dx[i] * dx[i]
    for i in range(nx):
        x[i] = where_less(0.0, size, moved[i], x[i])


@inline
def sizes_of(s, p):
    """Numbers of states, of their tangents, and of controls."""
    return p.nx, p.n, p.nu


def follower(name: str, system: Any, deviate: Any, advance: Any, open_gap: Any) -> Any:
    """The function that rolls out an `Eight` of a system, given by kernels; to be compiled to a C function.

    ``system(context, memory)`` is what the others take first.   ``deviate(s, X, x, dx)``: dx := x ⊖ X.
    ``advance(s, t, x, u)``: x := the next state of knot t.   ``open_gap(s, x, dx)``: x := x ⊕ dx, see `where_moved`.
    """
    return specialised(
        _follow, name, system=system, deviate=deviate, advance=advance, open_gap=open_gap, sizes=sizes_of
    )


def _stray(context, words, unused, none):  # type: ignore[no-untyped-def]
    """Write where a step leads in a straight line, and gaps there, as ``words`` of `ddp.systems.system.Routines`."""
    w, s = integers_at(words, (9,)), system(context, room(_numbers))
    N, nx, n, nu, (x, u, dx, after) = w[0], w[1], w[2], w[3], own_of(s)
    X, dX = as_matrix(floats_at(w[4]), N + 1, nx), as_matrix(floats_at(w[5]), N + 1, n)
    U, to, gaps = (
        as_matrix(floats_at(w[6]), N, nu), as_matrix(floats_at(w[7]), N + 1, nx), as_matrix(floats_at(w[8]), N, n)
    )  # fmt: skip
    if is_flat(s, nx, n):
        add(floats_at(w[4]), floats_at(w[5]), floats_at(w[7]), (N + 1) * n)
    else:
        for t in range(0, N + 1, WIDTH):
            pack(X, t, x, nx)
            pack(dX, t, dx, n)
            open_gap(s, x, dx)
            unpack(x, nx, to, t)
    for i in range(nx):
        to[0, i] = X[0, i]
    for t in range(0, N, WIDTH):
        pack(to[:N], t, x, nx)
        pack(U, t, u, nu)
        advance(s, t, x, u)
        pack(to[1:], t, after, nx)
        deviate(s, after, x, dx)
        unpack(dx, n, gaps, t)


@inline
def add(x, y, out, count):
    """out (count,) := x + y, register by register."""
    for i in range(0, count, WIDTH):
        store_some(out, i, load_some(x, i, count - i) + load_some(y, i, count - i), count - i)


def strayer(name: str, system: Any, deviate: Any, advance: Any, open_gap: Any, own_of: Any, is_flat: Any) -> Any:
    """The function that steps straight, see `Routines`, of a system that is given as in `follower`.

    ``own_of(s)``: vectors of lanes to work with, for a state, controls, a tangent vector, and another state.
    ``advance`` steps eight knots from t on at once.   ``is_flat(s, nx, n)``: whether x ⊕ dx is x + dx.
    """
    kernels = {"system": system, "deviate": deviate, "advance": advance, "open_gap": open_gap, "own_of": own_of}
    kernels["is_flat"] = is_flat
    return specialised(_stray, name, **kernels)

# mypy: allow-untyped-defs, allow-untyped-calls
"""A and B of eight knots' semi-implicit steps, from lanes to where they belong, with nothing in between.

With rows a_q, a_v, a_u of the rates of accelerations and h the step, each of them becomes two rows,

    E = [h a_q | 1 + h a_v | h a_u]   of δv',        [1 0 0] + h E   of δq' = δq + h δv':

registers of one knot are made of eight lanes by transposition, scaled and stored twice. Written by way of records, as
those under contacts are, they make first derivatives of pendulum, ur5 and hyq take 1.25, 1.14 and 1.09 times as long,
and whole solves by iLQR of cart-pole, arm and quadrotor 1.10, 1.09 and 1.14 times.
"""

from __future__ import annotations

from ddp.compiling.kernel import inline, kernel
from ddp.machine.memory import as_vector
from ddp.machine.number import WIDTH
from ddp.machine.simd import load, stack, store, store_some, transpose
from dynamics.geometry.joint_motion import is_group


@inline
def _write_pair(block, h, out, upper, lower, stride, knots, count):
    """Write columns of E, lanes in a block, to rows of each knot's matrix, ``stride`` apart: h E, and lower E."""
    transpose(block)
    for k in range(WIDTH):
        row, knot = load(block, WIDTH * k), min(k, knots - 1) * stride  # the last one is repeated
        if count >= WIDTH:
            store(out, upper + knot, h * row)
            store(out, lower + knot, row)
        else:
            store_some(out, upper + knot, h * row, count)
            store_some(out, lower + knot, row, count)


@kernel
def write_steps(tree, h, x, ld, nu, A, B, t):
    """A and B of the knots t..t+7 where T = J = 1; x: lanes of [a_q a_v a_u], rows of ld numbers.

    Rows of δq' of A whose joints' motions do not commute are left to others.
    """
    nv = tree.nv
    n, knots = 2 * nv, min(WIDTH, len(A) - t)
    block, out = stack(64), as_vector(A)
    for i in range(nv):
        lower = (t * n + nv + i) * n
        turned = is_group(tree.kind[tree.body[i]])
        upper = lower if turned else (t * n + i) * n  # what is written there first is written over
        for j in range(0, n, WIDTH):
            for c in range(WIDTH):
                store(block, WIDTH * c, h * x[i * ld + j + c] + (1.0 if j + c == nv + i else 0.0))
            _write_pair(block, h, out, upper + j, lower + j, n * n, knots, n - j)
        if not turned:
            for k in range(knots):
                out[upper + k * n * n + i] += 1.0
    out, size, i, k = as_vector(B), nv * nu, 0, 0
    upper = t * n * nu
    for j in range(0, size, WIDTH):
        for c in range(WIDTH):
            store(block, WIDTH * c, h * x[i * ld + n + k])
            k += 1
            if k == nu:
                i, k = min(i + 1, nv - 1), 0
        _write_pair(block, h, out, upper + j, upper + size + j, n * nu, knots, size - j)

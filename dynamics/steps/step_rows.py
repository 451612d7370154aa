# mypy: allow-untyped-defs, allow-untyped-calls
"""A and B of eight knots' semi-implicit steps, from lanes to where they belong, with nothing in between.

With rows a_q, a_v, a_u of the rates of accelerations and h the step, each of them becomes two rows,

    E = [h a_q | 1 + h a_v | h a_u]   of δv',        [1 0 0] + h E   of δq' = δq + h δv':

registers of one knot are made of eight lanes by transposition, scaled and stored twice.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ddp.compiling.kernel import kernel
from ddp.machine.number import WIDTH, lanes
from ddp.machine.registers import HALF, VECTOR, WORD, few, places, store_where
from dynamics.arrays.packing import transposed
from dynamics.geometry.joint_motion import is_group

_BYTES = ir.IntType(8).as_pointer()
_AHEAD = 576
"""How many bytes on a cache line is asked for while one is written: some rows on."""


def _one_at(builder, place):  # type: ignore[no-untyped-def]
    """Eight numbers: one at a place, zeros elsewhere; zeros alone if it is none of theirs."""
    ones, zeros = (ir.Constant(VECTOR, [x] * WIDTH) for x in (1.0, 0.0))
    return builder.select(places(builder, "==", place), ones, zeros)


@intrinsic
def _write_pair(typingctx, x, field, bound, jump, h, in_lower, in_upper, upper, lower, stride, knots, some):  # type: ignore[no-untyped-def]
    """Numbers field.. of x (lanes), those from the ``bound``-th on ``jump`` further on, as eight columns of two rows.

    lower := h x, plus one in column ``in_lower``;  upper := h lower, plus one in column ``in_upper``: addresses in the
    first knot's matrix, ``stride`` bytes from the next one's, of as many ``knots`` as there are; where columns are
    fewer, ``some`` of them are written. The lower row is written last.
    """

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        x, field, bound, jump, h, in_lower, in_upper, upper, lower, stride, knots, some = args
        source = cgutils.create_struct_proxy(sig.args[0])(context, builder, value=x).data
        zero, one = ir.Constant(WORD, 0), ir.Constant(WORD, 1)
        fields = []
        for i in range(WIDTH):
            place = ir.Constant(WORD, i)
            further = builder.select(builder.icmp_signed("<", place, bound), zero, jump)
            fields.append(builder.gep(source, [builder.add(builder.add(field, place), further)]))
        scale = context.cast(builder, h, types.float64, lanes)
        on_lower, on_upper = _one_at(builder, in_lower), _one_at(builder, in_upper)
        last = builder.sub(knots, one)
        whole = builder.icmp_signed(">=", some, ir.Constant(WORD, WIDTH))
        rows = transposed(builder, fields)
        pairs = []
        for lane, row in enumerate(rows):
            below = builder.fadd(builder.fmul(scale, row, flags=("contract",)), on_lower, flags=("contract",))
            above = builder.fadd(builder.fmul(scale, below, flags=("contract",)), on_upper, flags=("contract",))
            here = ir.Constant(WORD, lane)
            shift = builder.mul(builder.select(builder.icmp_signed("<", here, last), here, last), stride)
            pairs.append((builder.add(upper, shift), above))
            pairs.append((builder.add(lower, shift), below))
        kind = ir.FunctionType(ir.VoidType(), [_BYTES, HALF, HALF, HALF])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        to_write = [ir.Constant(HALF, k) for k in (1, 3, 1)]
        for address, _ in pairs:
            ahead = builder.add(address, ir.Constant(WORD, _AHEAD))
            builder.call(prefetch, [builder.inttoptr(ahead, _BYTES), *to_write])
        wanted = few(builder, some)
        with builder.if_else(whole) as (all_of_them, some_of_them):
            with all_of_them:
                for address, value in pairs:
                    builder.store(value, builder.inttoptr(address, VECTOR.as_pointer())).align = 8
            with some_of_them:
                for address, value in pairs:
                    store_where(builder, value, address, wanted)
        return context.get_dummy_value()

    word = types.int64
    return types.void(x, word, word, word, types.float64, *[word] * 7), codegen


@kernel
def write_steps(tree, h, x, start, A, B, t):
    """A and B of the knots t..t+7 where T = J = 1; x (lanes) has a_q, a_v, a_u from ``start`` on.

    Rows of δq' of A whose joints' motions do not commute are left to others.
    """
    n, nu = A.shape[2], B.shape[2]
    nv, knots, none = n // 2, min(WIDTH, A.shape[0] - t), -WIDTH
    own, step = A.ctypes.data + 8 * t * n * n, 8 * n * n
    to_av, size = nv * nv - nv, nv * nu
    for i in range(nv):
        upper, lower = own + 8 * i * n, own + 8 * (nv + i) * n
        if is_group(tree.kind[tree.body[i]]):
            upper = lower  # what is written there first is written over
        for j in range(0, n, WIDTH):
            field, bound = start + i * nv + j, nv - j
            if bound <= 0:
                field, bound = field + to_av, WIDTH
            _write_pair(
                x, field, bound, to_av, h, nv + i - j, i - j, upper + 8 * j, lower + 8 * j, step, knots, n - j
            )  # fmt: skip
    upper = B.ctypes.data + 8 * t * n * nu
    lower, step = upper + 8 * size, 8 * n * nu
    for j in range(0, size, WIDTH):
        field = start + 2 * nv * nv + j
        _write_pair(x, field, WIDTH, 0, h, none, none, upper + 8 * j, lower + 8 * j, step, knots, size - j)

# mypy: allow-untyped-defs, allow-untyped-calls
"""One knot of the backward sweep, compiled for its sizes when a sweep of them is first prepared.

The tiles of riccati.py serve every size: they ask how large matrices are, move rows to where whole registers can be
read, and keep sums in memory between one product and the next. Where sizes are known, most of that is not there.
What is left to them: gaps, limits, second orders that are no blocks, large steps, and knots that fail.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ddp.compiling.kernel import callback, specialised
from ddp.matrices.registers import DOUBLE, WORD
from ddp.sweeps.knot_code import KnotCode, given
from ddp.sweeps.looped_knot import LoopedKnot
from ddp.sweeps.small_knot import is_small
from ddp.sweeps.structure import Halves
from ddp.sweeps.unrolled_knot import UnrolledKnot

FEW_STATES, FEW_CONTROLS = 16, 8
"""States and controls of an unrolled knot, at most."""

MANY, MANY_CONTROLS = 48, 16
"""States and controls together, six registers of them, and controls of a looped knot, at most."""

_SIGNATURE = types.float64(*[types.int64] * 4, *[types.float64] * 3)
_whole: Any = None
_rows: Any = None
"""What stands for them in the functions that are compiled: the code, and the rows of its Z."""


def _knot(model, room, t, separable, h, blend, mu):  # type: ignore[no-untyped-def]
    return _whole(given(model, room, t, separable, h, blend, mu, _rows))


@cache
def _compiled(code: type[KnotCode], rows: int, *sizes: Any) -> Any:
    @intrinsic
    def whole(typingctx, told):  # type: ignore[no-untyped-def]
        def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
            return code(builder, *sizes, *args).whole()

        return types.float64(told), codegen

    name = "_".join([code.__name__, *re.findall(r"\w+", str(sizes))])
    return callback(specialised(_knot, name, _whole=whole, _rows=rows), signature=_SIGNATURE)


def sized_knot(n: int, nu: int, halves: Halves) -> int:
    """The address of the code for knots of a size, which `call_knot` calls; 0 if there is none, or `small_knot` has it.

    halves: of semi-implicit steps, where sweeps gain by it.
    """
    h, bent = halves
    runs = tuple((int(first), int(size)) for first, size in bent)
    if is_small.py_func(n, nu) and not runs:
        return 0
    if n <= FEW_STATES and nu <= FEW_CONTROLS:
        return int(_compiled(UnrolledKnot, n // 2, n, nu, h > 0.0 and not runs).address)
    if h > 0.0 and n + nu <= MANY and nu <= MANY_CONTROLS:
        rows = n // 2 + sum(size for _, size in runs)
        return int(_compiled(LoopedKnot, rows, n, nu, runs).address)
    return 0


@intrinsic
def call_knot(typingctx, address, model, room, t, separable, h, blend, mu):  # type: ignore[no-untyped-def]
    """What the step of knot t brings, or 1 where Q_uu is not positive definite; then the room's V and v are as before.

    Otherwise they become this knot's, V on and above its diagonal, as do q, and k and K of the model. T is of blocks.
    """

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        prototype = ir.FunctionType(DOUBLE, [WORD] * 4 + [DOUBLE] * 3)
        return builder.call(builder.inttoptr(args[0], prototype.as_pointer()), args[1:])

    return _SIGNATURE.return_type(types.int64, *_SIGNATURE.args), codegen

"""One knot of the backward sweep, compiled for its sizes when a sweep of them is first prepared."""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ddp.compiling.kernel import callback, specialised
from ddp.matrices.registers import DOUBLE, WORD
from ddp.matrices.rows import copy_rows
from ddp.matrices.tiles import add_product
from ddp.sweeps.knot_code import given
from ddp.sweeps.looped_knot import LoopedKnot, Runs
from ddp.sweeps.riccati import complete, factorize, policy
from ddp.sweeps.room import read_room
from ddp.sweeps.structure import Halves
from ddp.sweeps.unrolled_knot import UnrolledKnot

FEW_STATES, FEW_CONTROLS = 16, 8
"""States and controls of an unrolled knot, at most."""

MANY = 48
"""States and controls together of a looped knot, at most: six registers."""

_SIGNATURE = types.float64(*[types.int64] * 4, *[types.float64] * 3)
_whole: Any = None
_before: Any = None
_after: Any = None
_rows: Any = None
"""What these are in the functions that are compiled."""


def _unrolled(model, room, t, separable, h, blend, mu):  # type: ignore[no-untyped-def]
    return _whole(given(model, room, t, separable, h, blend, mu, _rows))


def _looped(model, room, t, separable, h, blend, mu):  # type: ignore[no-untyped-def]
    told, r = given(model, room, t, separable, h, blend, mu, _rows), read_room(room)
    _before(told)
    if not factorize(room):
        return 1.0
    brought = -0.5 * policy(room, told.k, told.K)
    _after(told)
    complete(room)
    copy_rows(r.v, r.lx, r.q, r.ld, 2, r.n)
    add_product(r.v, r.lx, 1, r.lx, r.y, 0, 1, r.N, r.ld, r.nu)
    return brought


def _part(code: Any, name: str, returned: Any, *sizes: Any) -> Any:
    """A part of the code of a knot, for kernels to call."""

    @intrinsic
    def part(typingctx, told):  # type: ignore[no-untyped-def]
        def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
            made = getattr(code(builder, *sizes, *args), name)()
            return context.get_dummy_value() if made is None else made

        return returned(told), codegen

    return part


@cache
def _unrolled_knot(n: int, nu: int, halved: bool) -> Any:
    whole = _part(UnrolledKnot, "whole", types.float64, n, nu, halved)
    name = f"unrolled_{n}_{nu}" + "_halved" * halved
    return callback(specialised(_unrolled, name, _whole=whole, _rows=n), signature=_SIGNATURE)


@cache
def _looped_knot(n: int, nu: int, runs: Runs) -> Any:
    before, after = (_part(LoopedKnot, name, types.void, n, nu, runs) for name in ("before", "after"))
    name = "_".join(map(str, ("looped", n, nu, *(number for run in runs for number in run))))
    rows = n // 2 + sum(size for _, size in runs)
    return callback(specialised(_looped, name, _before=before, _after=after, _rows=rows), signature=_SIGNATURE)


def sized_knot(n: int, nu: int, halves: Halves) -> int:
    """The address of the code for knots of a size, which `call_knot` calls; 0 if there is none.

    halves: of semi-implicit steps, where sweeps gain by it.
    """
    h, bent = halves
    runs = tuple((int(first), int(size)) for first, size in bent)
    if n <= FEW_STATES and nu <= FEW_CONTROLS:
        return int(_unrolled_knot(n, nu, h > 0.0 and not runs).address)
    if h > 0.0 and n + nu <= MANY:
        return int(_looped_knot(n, nu, runs).address)
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

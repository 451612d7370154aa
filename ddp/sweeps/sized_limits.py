"""Kernels of limits.py compiled for their sizes, when a sweep of few states is first prepared, as in sized_sweep.py.

Measured in microseconds a knot, of all sizes and for its own: the linear step of 2 states and 1 control .020 and .013,
of 4 and 1 .034 and .016, of 12 and 6 .13 and .08. As compiled for all sizes, whole solves within limits take 1.04 times
as long for a UR5, 1.15 for a cart-pole, 1.25 for a pendulum and 1.28 for a quadrotor.
"""

from functools import cache
from typing import Any

from ddp.compiling.kernel import callback, specialised, variant
from ddp.sweeps import limits
from ddp.sweeps.sized_sweep import always, are_few


@cache
def sizes_of(n: int, nu: int) -> dict[str, Any]:
    """The kernel ``sizes`` where n states and nu controls are few, else nothing."""
    return {"sizes": always(f"sizes_of_limits_{n}_{nu}", (n, nu))} if are_few(n, nu, False) else {}


@cache
def _parts(n: int, nu: int) -> dict[str, Any]:
    """Kernels by name, compiled for n states and nu controls where they are few."""
    if not (sizes := sizes_of(n, nu)):
        return {}
    parts = sizes | {
        part: variant(getattr(limits, part).py_func, f"{part}_{n}_{nu}", whole=True, **sizes)
        for part in ("stay_held", "roll", "revise", "lead_to", "slope_along")
    }
    return parts | {"settle": variant(limits.settle.py_func, f"settle_{n}_{nu}", **parts)}


@cache
def within_function(n: int, nu: int) -> Any:
    """The C function of sweeps within limits of some sizes: `limits.sweep_within`."""
    return callback(specialised(limits.sweep_within, f"within_{n}_{nu}", **_parts(n, nu)))


@cache
def step_function(n: int, nu: int) -> Any:
    """The C function of linear steps of some sizes: `limits.linear_step`."""
    return callback(specialised(limits.linear_step, f"linear_step_{n}_{nu}", **_parts(n, nu)))

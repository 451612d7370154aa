"""Kernels of limits.py compiled for their sizes, when a sweep of few states is first prepared, as in sized_sweep.py.

Measured in microseconds a knot, of all sizes and for its own: the linear step of 2 states and 1 control .020 and .013,
of 4 and 1 .034 and .016, of 12 and 6 .13 and .08.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ddp.compiling.kernel import callback, inline, kernel, specialised
from ddp.machine.addresses import array_at
from ddp.sweeps import limits
from ddp.sweeps.horizon import Horizon
from ddp.sweeps.sized_sweep import MOST

_known: Any = None
"""Placeholder in the function that is compiled."""


def _known_sizes(horizon):  # type: ignore[no-untyped-def]
    """Sizes of a `Horizon`, as they are known."""
    return _known


def within_limits_of(n: int, nu: int) -> Any:
    """`limits.sweep_within`, compiled for n states and nu controls where they are few."""
    return _sized(n, nu)[0] if _few(n, nu) else limits.sweep_within


def linear_step_of(n: int, nu: int) -> Any:
    """`limits.linear_step`, compiled for n states and nu controls where they are few."""
    return _sized(n, nu)[1] if _few(n, nu) else limits.linear_step


def _few(n: int, nu: int) -> bool:
    states, controls = MOST[False]
    return n <= states and nu <= controls


@cache
def _sized(n: int, nu: int) -> tuple[Any, Any]:
    name = f"{n}_{nu}"
    sizes = inline(specialised(_known_sizes, f"sizes_of_limits_{name}", _known=(n, nu)))
    parts = {
        part: kernel(specialised(getattr(limits, part).py_func, f"{part}_{name}", sizes=sizes), whole=True)
        for part in ("stay_held", "roll", "revise", "lead_to", "slope_along")
    }
    within = specialised(limits.sweep_within.py_func, f"within_{name}", sizes=sizes, **parts)
    step = specialised(limits.linear_step.py_func, f"linear_step_{name}", roll=parts["roll"])
    return kernel(within), kernel(step)


step_template: Any = limits.linear_step
"""The linear step: one compiled for its sizes takes its place in the template below."""


def _step(horizon, u, x, y):  # type: ignore[no-untyped-def]
    """Linear step of the last sweep: see `limits.linear_step`, of addresses."""
    p = Horizon(horizon)
    states = p.N + 1, p.n
    step_template(horizon, array_at(u, (p.N, p.nu)), array_at(x, states), array_at(y, states))


@cache
def step_function(n: int, nu: int) -> Any:
    """The C function of linear steps of some sizes."""
    own = linear_step_of(n, nu)
    return callback(specialised(_step, f"called_{own.py_func.__name__}", step_template=own))

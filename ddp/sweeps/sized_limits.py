"""Kernels of limits.py compiled for their sizes, when a sweep of few states is first prepared, as in sized_sweep.py.

Measured in microseconds a knot, of all sizes and for its own: the linear step of 2 states and 1 control .020 and .013,
of 4 and 1 .034 and .016, of 12 and 6 .13 and .08. As compiled for all sizes, whole solves within limits take 1.04 times
as long for a UR5, 1.15 for a cart-pole, 1.25 for a pendulum and 1.28 for a quadrotor.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ddp.compiling.kernel import callback, inline, specialised, variant
from ddp.machine.addresses import array_at
from ddp.machine.struct import Struct, integer
from ddp.machine.written import address
from ddp.protocols import Array
from ddp.sweeps import limits
from ddp.sweeps.horizon import Horizon
from ddp.sweeps.sized_sweep import MOST
from ddp.sweeps.sweeping import Sweeping

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
        part: variant(getattr(limits, part).py_func, f"{part}_{name}", whole=True, sizes=sizes)
        for part in ("stay_held", "roll", "revise", "lead_to", "slope_along")
    }
    within = variant(limits.sweep_within.py_func, f"within_{name}", sizes=sizes, **parts)
    return within, variant(limits.linear_step.py_func, f"linear_step_{name}", roll=parts["roll"])


class Scratch(Struct):
    """Addresses of scratch of `limits.sweep_within`: k, u (N, nu), K (N, nu n), x, y (N+1, n)."""

    k: int = integer()
    K: int = integer()
    u: int = integer()
    x: int = integer()
    y: int = integer()


def scratch_arrays(N: int, n: int, nu: int) -> tuple[Array, ...]:
    """Arrays k, K, u, x, y for `scratch_of`, of N knots."""
    return tuple(np.zeros(shape) for shape in ((N, nu), (N, nu * n), (N, nu), (N + 1, n), (N + 1, n)))


def scratch_of(arrays: tuple[Array, ...]) -> Scratch:
    """A `Scratch` of k, K, u, x, y, which the caller keeps alive."""
    k, K, u, x, y = map(address, arrays)
    return Scratch(k=k, K=K, u=u, x=x, y=y)


within_template: Any = limits.sweep_within
"""Sweeps within limits: those compiled for their sizes take its place in the template below."""


def _within(sweeping, scratch, unused, none):  # type: ignore[no-untyped-def]
    """Sweep within limits, as a `Sweeping` says."""
    s, r = Sweeping(sweeping), Scratch(scratch)
    p = Horizon(s.horizon)
    N, n, nu = p.N, p.n, p.nu
    controls, states = (N, nu), (N + 1, n)
    s.failed, s.slope, s.change, s.gradient = within_template(
        sweeping, s.blend, s.mu, s.by_costate, s.kept, array_at(r.k, controls), array_at(r.K, (N, nu * n)),
        array_at(r.u, controls), array_at(r.x, states), array_at(r.y, states),
    )  # fmt: skip


@cache
def within_function(n: int, nu: int) -> Any:
    """The C function of sweeps within limits of some sizes."""
    own = within_limits_of(n, nu)
    return callback(specialised(_within, f"called_{own.py_func.__name__}", within_template=own))


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

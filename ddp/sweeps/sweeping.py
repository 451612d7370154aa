# mypy: allow-untyped-defs, allow-untyped-calls
"""Backward sweeps that kernels call: their arguments in a struct, the function compiled for their sizes."""

from functools import cache
from typing import Any

from ddp.compiling.kernel import call_contraction, callback, kernel, specialised
from ddp.machine.declared import each
from ddp.machine.struct import Struct, integer
from ddp.machine.variables import variable_integer, variable_real
from ddp.machine.written import filled
from ddp.sweeps.sized_sweep import sweep_of
from ddp.sweeps.tiled_sweep import NOTHING, sweep

SWEPT, STEPPED = 2, 3
"""Values of `Sweeping.known` where a sweep has been made already, with those of other problems, and its step as well;
and while that sweep is the last one. Its slope is that of costs along the step, then."""


class Sweeping(Struct):
    """Arguments of a backward sweep of N knots, and what comes back: see `ddp.sweeps.tiled_sweep.sweep`.

    function: address of the C function that sweeps, see `sweep_function`.
    """

    function, N, room = each(3, integer)
    horizon: int = variable_integer()
    blend, mu = each(2, variable_real)
    by_costate, kept, known, failed = each(4, variable_integer)
    slope, change, gradient = each(3, variable_real)


def sweeping_of(function: int, N: int, room: int, horizon: int = 0) -> Sweeping:
    """A `Sweeping` that has not begun."""
    return filled(Sweeping, function=function, N=N, room=room, horizon=horizon)


recursion: Any = sweep
"""The backward sweep: one compiled for its sizes takes its place in the template below."""


def _sweep(sweeping, unused, none, nothing):  # type: ignore[no-untyped-def]
    """Sweep, as a `Sweeping` says."""
    s = Sweeping(sweeping)
    by_costate, kept, known = s.by_costate != 0, s.kept != 0, s.known != 0
    found = recursion(s.horizon, s.room, 0, s.N, NOTHING, s.blend, s.mu, by_costate, kept, known)
    s.failed, s.slope, s.change, s.gradient = found


@cache
def sweep_function(n: int, nu: int, halved: bool, runs: int) -> Any:
    """The C function of sweeps of some sizes."""
    own = sweep_of(n, nu, halved, runs)
    return callback(specialised(_sweep, f"called_{own.py_func.__name__}", recursion=own))


@kernel
def recur(sweeping):
    """Sweep backward as a `Sweeping` says, by `tiled_sweep.sweep`."""
    s = Sweeping(sweeping)
    call_contraction(s.function, s.address, 0, 0, 0)


@kernel
def call(function, first, second, third, fourth):
    """Call a C function of four words at an address."""
    call_contraction(function, first, second, third, fourth)

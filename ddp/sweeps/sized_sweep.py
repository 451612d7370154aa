"""The backward sweep, and the weights before it, compiled for their sizes when a sweep of few states is first prepared.

The source is that of every size; known sizes let LLVM unroll its loops and drop its tests. Measured on one core, in
microseconds a knot, as compiled for all sizes and for its own: 2 states, 1 control .24 and .03; 4, 1 .29 and .05;
12, 6 .74 and .38; 36, 12 of semi-implicit steps 2.7 and 2.2, a twelfth of a whole solve and a fiftieth of a gait's; of
other steps 3.0 and 2.7. So sizes beyond those of `MOST` are not worth the compiler's time. LLVM's higher levels unroll
more loops, which makes sweeps of more than 16 states no faster: these are optimised to the first level, which leaves
every bit as it is (36, 12: 3.1 s of the compiler in place of 4.9). Weights take .020 and .010 for 2 states, .053 and
.041 for 12: batches of pendulums take a tenth less time by that, batches of cart-poles a twentieth. Of more than
`WEIGHED` states they are worth less than a hundredth of a solve, and half a second of the compiler for each size.

Sweeps of one control, and of steps that are not semi-implicit, are given kernels without what they never call: else it
is compiled, half a second of a pendulum's first solve, and left out by LLVM only then.
"""

from functools import cache
from typing import Any

from ddp.compiling.kernel import callback, inline, specialised, variant
from ddp.machine.simd import stack
from ddp.machine.triangles import eliminate_one, raise_one
from ddp.sweeps.gaps import weigh
from ddp.sweeps.riccati import action_value, factorize, no_halves, none_straight, policy
from ddp.sweeps.room import read_room, sizes_of
from ddp.sweeps.tiled_sweep import act, cross_gap, solve, sweep

STATES, CONTROLS = 40, 16
MOST = {True: (STATES, CONTROLS), False: (16, 8)}
"""States and controls, at most, of a sweep that is compiled for them; whether steps are semi-implicit."""

WEIGHED = 4
"""States, at most, of weights that are compiled for their sizes."""

_known: Any = None
"""Placeholder in the functions that are compiled."""


def _answer(unused):  # type: ignore[no-untyped-def]
    return _known


def always(name: str, known: Any) -> Any:
    """Make a kernel that answers to any argument with what is known when it is compiled."""
    return inline(specialised(_answer, name, _known=known))


def _known_steps(z, memory):  # type: ignore[no-untyped-def]
    """Memory as that of `gaps.steps_of`, of known sizes: vectors whose numbers can stay in registers."""
    n, nu, halved, runs = _known
    return n, nu, halved != 0, runs, stack(STATES), stack(STATES), stack(CONTROLS)


def are_few(n: int, nu: int, halved: bool) -> bool:
    """Whether states and controls are no more than `MOST`."""
    states, controls = MOST[halved]
    return n <= states and nu <= controls


@cache
def _whole_act() -> Any:
    """`act` without what is only called where steps are semi-implicit; made once, as others find it by its name."""
    whole = variant(action_value.py_func, "action_value_whole", halve=no_halves, add_straight=none_straight)
    return variant(act.py_func, "act_whole", action_value=whole)


@cache
def _solve_one() -> Any:
    """`solve` of one control, without what eliminates more rows; made once, too."""
    factors = variant(factorize.py_func, "factorize_one", eliminate=eliminate_one)
    found = variant(policy.py_func, "policy_one", raise_rows=raise_one)
    return variant(solve.py_func, "solve_one", factorize=factors, policy=found)


@cache
def sweep_of(n: int, nu: int, halved: bool, runs: int) -> Any:
    """`tiled_sweep.sweep`, compiled for n states and nu controls where they are few; halved, runs: see `Room`."""
    if not are_few(n, nu, halved):
        return sweep
    name = f"sweep_{n}_{nu}_{int(halved)}_{runs}"
    sizes = always(f"sizes_of_{name}", sizes_of(n, nu, halved, runs))
    room = inline(specialised(read_room.py_func, f"room_of_{name}", sizes_at=sizes))
    crossing = variant(cross_gap.py_func, f"cross_gap_of_{name}", whole=True, read_room=room)
    crossing.is_apart, crossing.returns = True, cross_gap.returns
    parts = ({} if halved else {"act": _whole_act()}) | ({"solve": _solve_one()} if nu == 1 else {})
    made = variant(sweep.py_func, name, whole=True, read_room=room, cross_gap=crossing, **parts)
    if not are_few(n, nu, False):
        made.level = 1
    return made


@cache
def weigh_of(n: int, nu: int, halved: bool, runs: int) -> Any:
    """The C function `gaps.weigh`, compiled for n states and nu controls where these are very few."""
    if n > WEIGHED or not are_few(n, nu, False):
        return callback(weigh)
    name = f"weigh_{n}_{nu}_{int(halved)}_{runs}"
    known = inline(specialised(_known_steps, f"steps_of_{name}", _known=(n, nu, int(halved), runs)))
    return callback(specialised(weigh, name, steps_of=known), whole=True)

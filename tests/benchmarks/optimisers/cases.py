"""All problems by name, with how they are started and how many iterations are enough."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from tests.benchmarks.optimisers import limited, published


class Case(NamedTuple):
    """One problem.

    build: its constructor.   count, sigma: starts, and the noise on controls of all but the first.
    most: iterations that are enough.   cost: of the best minimum that is known, if it is known.
    """

    build: Callable[..., Any]
    count: int
    sigma: float
    most: int
    cost: float | None = None


CASES: dict[str, Case] = {
    "pendulum/limited": Case(limited.limited_pendulum, 5, 1.0, 27, 3.0711),
    "cartpole/rail": Case(limited.rail, 5, 3.0, 40, 1.15056),
    "acrobot/limited": Case(limited.acrobot, 5, 1.0, 95),
    **{
        f"ur5/point-to-point {share:g} {weight:g}": Case(
            partial(limited.point_to_point, share, weight), 10, 5.0, 40, cost
        )
        for share, weight, cost in ((0.5, 1e4, 0.042518), (0.5, 1e2, None), (0.25, 1e4, None), (0.25, 1e2, None))
    },
    "ur5/boxed-reach": Case(limited.boxed_reach, 5, 5.0, 20, 0.82995),
    "ur5/cluttered-reach": Case(limited.cluttered_reach, 5, 5.0, 42, 0.83354),
    "quadrotor/bounded-flight": Case(limited.bounded_flight, 5, 0.5, 12),
    "quadrotor/bounded-loop": Case(limited.bounded_loop, 5, 0.5, 20),
    "talos/reach": Case(limited.talos_reach, 1, 0.0, 60),
    "altro/double-integrator": Case(published.double_integrator, 9, 0.5, 9),
    "altro/pendulum": Case(published.pendulum, 9, 0.5, 20),
    "altro/cartpole": Case(published.cartpole, 9, 0.5, 41),
    "altro/three-obstacles": Case(published.three_obstacles, 9, 0.1, 60),
    "altro/parallel-park": Case(published.parallel_park, 9, 0.1, 60),
    "altro/car-escape": Case(published.car_escape, 9, 0.1, 60),
    **{
        f"anymal/{name}": Case(partial(limited.gait, name), 1, 0.0, most)
        for name, most in (("walk", 13), ("trot", 7), ("pace", 12), ("bound", 19), ("jump", 10))
    },
}  # fmt: skip

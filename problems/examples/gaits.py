"""Go2, ANYmal, Solo and HyQ trot and jump in MuJoCo: pushed, late, and over ground that the plan does not know.

Each number is how far the base is off its plan, by the policy that learns while it is called and by a joint PD. Trots
over uneven ground are told which feet touch it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import problems
from ddp.solver import solve
from dynamics.robots.model import load
from problems import gaits, legs

ROBOTS = "go2", "anymal", "solo12", "hyq"


def run(robots: Sequence[str] = ROBOTS) -> Iterator[str]:
    """Errors of each robot's gaits under each disturbance, root mean square [cm]."""
    for robot in robots:
        height = legs.stance(load(robot)).height
        disturbances: list[tuple[str, dict[str, Any]]] = [
            ("calm", {}), ("pushed", {"push": (0.2, 0.2)}), ("5 ms late", {"delay": 0.005}),
            ("uneven", {"uneven": 0.08 * height}),
        ]  # fmt: skip
        for gait in (gaits.trot, gaits.jump):
            solution, told = solve(gait(robot)), []
            for name, disturbed in disturbances:
                own = "contact" if gait is gaits.trot and name == "uneven" else "adaptive"
                runs = [problems.simulate(solution, policy=policy, **disturbed) for policy in (own, "pd")]
                ours, pd = ("falls" if each.fell else f"{100.0 * each.rms:.2f}" for each in runs)
                told.append(f"{name} {ours} (PD {pd})")
            yield f"{robot} {gait.__name__}: " + ", ".join(told)

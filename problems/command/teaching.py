"""The command ``mayne teach``: a problem whose weights, limits and start are sliders, solved again while they move."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import click
import numpy as np

import viz
from ddp.errors import ProblemError
from ddp.options import DDP, ILQR
from ddp.problem import Problem
from ddp.solutions.columns import positions
from ddp.solver import solve
from problems.command.output import progress
from problems.command.parameters import build, parameters
from problems.command.playing import check_robot, wait
from problems.command.shell import NAME, NO_BROWSER
from problems.command.timing import warm
from problems.registry import Entry, find

SHORT = {"pendulum": "pendulum/swing-up", "cartpole": "cartpole/swing-up", "arm": "arm/reach"}
EXERCISES = {
    "pendulum/swing-up": """\
1. Lower the weight of control from 0.1 to 0.01. How often does the pendulum swing back?
Solution: once at 0.1, not at all at 0.01: torque is then so cheap that the motor lifts the pendulum at once.
2. Raise it to 10. What does that do to the iterations of iLQR and DDP?
Solution: 40 and 18, from 26 and 15. More of the final error remains, and its product with the curvature of the dynamics
is what Gauss-Newton leaves out.
3. Set the limit of controls to 3. Where does the pendulum end? Is that the best there is?
Solution: at 2.2 rad, a local optimum near the guess: a descent does not see motions that swing in another way.""",
    "cartpole/swing-up": """\
1. Lower the weight of control from 0.01 to 0.001. How do the force and the way of the cart change?
Solution: 32 N instead of 14 N, 1.1 m instead of 0.7 m, and another number of swings: another local optimum.
2. Which method needs fewer iterations, and does that depend on the weights?
Solution: DDP, in all of them: from a fifth to three fifths as many.""",
    "arm/reach": """\
1. The two methods take nearly the same number of iterations. Why?
Solution: the pose is reached, the residual vanishes, and with it all that Gauss-Newton leaves out. Second order shows
its use where a target is out of reach: `mayne compare arm/out-of-reach`.""",
}


@click.command()
@NAME
@NO_BROWSER
def teach(name: str, no_browser: bool) -> None:
    """Open problem NAME (pendulum, cartpole, arm or another) as a page with sliders that solve it again."""
    entry = find(SHORT.get(name, name))
    check_robot(entry, entry())
    with progress(f"{entry.name}, preparing"):
        warm(entry())
        address = viz.explore(
            sliders(entry), lambda numbers: solved(entry, numbers), entry.description, not no_browser,
            frames=entry.frames, notes=EXERCISES.get(entry.name, ""),
        )  # fmt: skip
    wait(entry.name, address)


def sliders(entry: Entry) -> list[viz.Slider]:
    """Weights and other positive numbers of a problem's constructor, the limit of controls, and the start."""
    problem = entry()
    found = [
        viz.Slider.about(name, value)
        for name, value in parameters(entry).items()
        if isinstance(value, float) and value > 0.0 and name != "dt"
    ]
    most = max(float(np.abs(np.where(np.isfinite(problem.upper), problem.upper, 0.0)).max()), 1.0)
    found.append(viz.Slider("limit", 1e3 * most, 1e-1 * most, 1e3 * most, "limit of controls", logarithmic=True))
    if problem.dynamics.nx == problem.dynamics.n:  # a start on a manifold has no single numbers to vary
        named = positions(problem.dynamics, problem.x0[None])
        found += [
            viz.Slider(f"start of {name}", float(value[0]), float(value[0]) - math.pi, float(value[0]) + math.pi)
            for name, value in list(named.items())[:3]
        ]
    return found


def solved(entry: Entry, numbers: Mapping[str, float]) -> tuple[dict[str, Any], str]:
    """Solutions of both methods for the sliders' numbers, and how many iterations they took."""
    problem = chosen(entry, numbers)
    found = {}
    for title, solver in (("iLQR", ILQR(max_iterations=300)), ("DDP", DDP(max_iterations=300))):
        found[title] = solve(problem, solver, throw=False)
    taken = 1e3 * sum(solution.seconds for solution in found.values())
    told = [
        f"{title}: {solution.iterations} iterations, cost {solution.cost:.4g}"
        + ("" if solution.converged else f", {solution.status}")
        for title, solution in found.items()
    ]
    drawn = {title: solution for title, solution in found.items() if np.isfinite(solution.X).all()}
    if not drawn:
        raise ProblemError("; ".join(told))
    return drawn, "; ".join([*told, f"{taken:.0f} ms for both"])


def chosen(entry: Entry, numbers: Mapping[str, float]) -> Problem:
    """The problem for the sliders' numbers."""
    own = parameters(entry)
    problem = build(entry, {name: value for name, value in numbers.items() if name in own})
    x0 = np.array(problem.x0)
    for i, name in enumerate(positions(problem.dynamics, x0[None]).names):
        x0[i] = numbers.get(f"start of {name}", x0[i])
    limit = numbers["limit"]
    within = np.maximum(problem.lower, -limit), np.minimum(problem.upper, limit)
    return replace(problem.starting_at(x0), control_limits=within)

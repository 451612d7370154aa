"""Feedback at work: robots that are disturbed. ``python -m problems.examples [NAME ...]`` runs them.

Each prints a table; the first run compiles, for minutes on a slow machine.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import click
import numpy as np

import problems
from ddp.errors import ProblemError, choice
from ddp.options import ILQR
from ddp.protocols import Array
from ddp.solver import solve
from dynamics.quantities.quantities import frame_placement, frame_velocity
from dynamics.robots.model import load
from problems import arm, balance, flights, gaits, legs, quadrotor, quadruped

PUSHES = (0.15, 0.0), (-0.15, 0.0), (0.0, 0.1)
"""Velocities that Talos's base is given, forward and to the left [m/s]."""

ROBOTS = "go2", "anymal", "solo12", "hyq"
"""Quadrupeds that trot and jump."""


def fly_loop(count: int = 10) -> Iterable[flights.Flights]:
    """A quadrotor flies an inverted loop from attitudes that are wrong by up to 20 degrees, ``count`` times.

    The plan is optimal for a start that hovers level. Three policies fly it: the solver's own gains, a time-varying LQR
    (``tracking``), and the solver's gains about a solution from the true start (``replanned``). Costs are multiples of
    the optimum from each start: the solver's gains are its second order, so they lose least.
    """
    return flights.fly_all(quadrotor.loop(), count, angle=np.deg2rad(20.0))


def turn_in_the_air(count: int = 10, angle: float = np.deg2rad(2.0)) -> Iterable[flights.Flights]:
    """HyQ turns by 90 degrees in the air, from wrong attitudes and with a base 5 % heavier than planned.

    angle [rad]: of attitudes, at most.
    Angular momentum is zero throughout: only the order in which the legs move turns the base, so that errors of its
    attitude can be corrected slowly. From 2 degrees feedback does it, and the solver's gains leave least; from 20
    degrees hardly anything but a solve from the true start, ``replanned``, comes to the end.
    """
    return flights.fly_all(quadruped.reorientation(), count, angle, mass=1.05)


def stand() -> Iterator[str]:
    """Talos stands on its soles and is pushed; an LQR about its posture brings it back.

    In our dynamics soles hold whatever is asked of them: a push is what they let through. In MuJoCo they tip and slide,
    so that a push beyond some 0.2 m/s would need a step; torques keep to the robot's limits in both.
    """
    problem = balance.standing()
    keeper, solution = balance.regulator(problem), solve(problem, ILQR())
    for push in PUSHES:
        X = balance.balance(problem, keeper, balance.pushed(problem, (*push, 0.0)))
        away = np.linalg.norm(X[:, :3] - problem.x0[:3], axis=1)
        played = problems.simulate(solution, push=push, policy=keeper.policy)
        yield f"{push} m/s: base moved {away.max():.4f} m, {away[-1]:.1e} m at the end; in MuJoCo {played}"


def trot_and_jump(robots: Sequence[str] = ROBOTS) -> Iterator[str]:
    """Go2, ANYmal, Solo and HyQ trot and jump in MuJoCo: pushed, late, and over ground that the plan does not know.

    Each number is how far the base is off its plan, root mean square [cm], by the policy that learns while it is called
    and by a joint PD. Trots over uneven ground are told which feet touch it.
    """
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


def throw(mass: float = 1.05) -> Iterator[str]:
    """A UR5 throws in MuJoCo: its tool passes a point at 3 m/s, the first link 5 % heavier than planned.

    The plan's torques alone miss; the policy that tracks the motion stays close to the point and to the speed. The
    plan's steps of 10 ms are not MuJoCo's, which is why the last centimetres stay.
    """
    robot = load("ur5")
    solution = solve(arm.throw(robot))

    def release(x: Array) -> Array:
        """Place [m] and velocity [m/s] of the tool (2, 3) in a state (nx,)."""
        q, v = np.split(x, [robot.nq])
        return np.array([frame_placement(robot, q, "tool0")[:3, 3], frame_velocity(robot, q, v, "tool0")[:3]])

    for policy in ("open", "tracking"):
        played = problems.simulate(solution, mass=mass, policy=policy)
        place, velocity = np.linalg.norm(release(played.X[-1]) - release(solution.X[-1]), axis=1)
        yield f"{policy:9s} place {place:.3f} m, velocity {velocity:.2f} m/s off at the release; {played}"


EXAMPLES: dict[str, Callable[[], Iterable[object]]] = {
    "loop": fly_loop, "reorientation": turn_in_the_air, "balance": stand, "gaits": trot_and_jump, "throw": throw,
}  # fmt: skip


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME ...]")
def main(names: tuple[str, ...]) -> None:
    """Run the examples that are named, by default all of them: loop, reorientation, balance, gaits, throw."""
    try:
        for name in names:
            choice("NAME", name, EXAMPLES, "there is no example")
        for name in names or EXAMPLES:
            click.echo((EXAMPLES[name].__doc__ or name).splitlines()[0])
            for line in EXAMPLES[name]():
                click.echo(f"  {line}")
    except ProblemError as error:
        click.echo(str(error), err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()

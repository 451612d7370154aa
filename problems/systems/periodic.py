"""A trot that repeats itself: one cycle from any state to the same state one stride ahead, as steady as it can be."""

from dataclasses import replace
from typing import Any

import numpy as np

from ddp.constraints.constraint import Equality
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.tracing.spaces import Space
from dynamics.steps import augment
from problems import checks, legs, schedule, strides
from problems.gaits import FROUDE, LIFT, STEP, SUPPORT
from problems.legged import follow_nominal, legged
from problems.lifted import free_start, lifted
from problems.schedule import Schedule
from problems.strides import Strides


class Repeated:
    """``x ⊖ (start ⊕ s)``, start one stride ahead: how far a state (x, s) is from the cycle's first one (n,)."""

    def __init__(self, space: Space, start: Array) -> None:
        self.space, self.start = space, start

    def __call__(self, x: Any, u: Any) -> Any:
        return self.space.minus(x[: self.space.nx], self.space.plus(self.start, x[self.space.nx :]))


def trot(robot: checks.RobotLike = "anymal", speed: float | None = None, dt: float = 0.01) -> Problem:
    """One cycle of a trot from mid-stance to mid-stance; its first state is free, and the last one's but for a stride.

    speed [m/s]: forward; default in proportion to the robot. States are (x, s): s (n,), a tangent vector, says where a
    cycle begins about its nominal start, and stays. Costs are those of `gaits.trot`.
    """
    laid = _cycle(legs.stance(checks.loaded(robot)), speed, dt)
    plain = legged(laid).starting_at(laid.X[0])
    plain = plain.with_guess(follow_nominal(plain))
    system = plain.dynamics
    known: Any = system
    whole = augment.remembering(system, system.n)
    ahead = laid.X[0].copy()
    ahead[:3] += laid.X[-1][:3] - laid.X[0][:3]
    cycle = lifted(plain, whole, np.zeros(system.n), terminal_constraints=[Equality(Repeated(known.space, ahead))])
    problem = free_start(cycle, np.vstack([np.eye(system.n)] * 2))
    X, U = plain.guess  # type: ignore[misc]
    before = problem.dynamics.before  # type: ignore[attr-defined]
    X = np.hstack([np.vstack([np.tile(X[0], (before, 1)), X]), np.zeros((before + len(X), system.n))])
    return problem.with_guess((X, np.vstack([np.zeros((before, system.nu)), U])))


def _cycle(stand: legs.Stance, speed: float | None, dt: float) -> Strides:
    """Strides of the second of three cycles at a constant speed, from the middle of a stance of all feet to another."""
    unit = stand.unit
    v = FROUDE * np.sqrt(stand.gravity * stand.height) if speed is None else speed
    plan = schedule.cycling(stand.feet, schedule.in_turn(stand.corners(), "trot"), STEP * unit, SUPPORT * unit, 3)
    laid = strides.lay_out(stand, plan, dt, strides.straight((v, 0.0), 0.0, 0.0, plan.duration), LIFT * stand.height)
    first, last = 4, 8
    half = laid.counts[first] // 2
    begin = laid.starts[first] + half
    counts = [*laid.counts[first : last + 1]]
    counts[0] -= half
    counts[-1] = half
    phases = [
        one._replace(duration=dt * count)
        for one, count in zip(laid.schedule.phases[first : last + 1], counts, strict=True)
    ]
    return replace(
        laid, schedule=Schedule(laid.schedule.feet, phases), counts=tuple(counts),
        starts=tuple(max(start - begin, 0) for start in laid.starts[first : last + 1]),
        impacts={i - first: knot - begin for i, knot in laid.impacts.items() if first < i <= last},
        holds=laid.holds[first : last + 1], swings=laid.swings[first : last + 1],
        X=laid.X[begin : laid.starts[last] + half + 1],
    )  # fmt: skip

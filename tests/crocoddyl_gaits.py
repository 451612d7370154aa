"""The quadrupedal gaits of Crocoddyl's examples on ANYmal, with their costs to the last digit.

Crocoddyl 3.2.1's ``SimpleQuadrupedalGaitProblem`` with the parameters of ``quadrupedal_gaits_fwddyn.py``, each gait
from the standing posture: to compare solvers on the same numbers. For gaits of one's own see gaits.py.

Forty-odd references and six weights; steps of 10 ms; contacts with a velocity gain of 50/s; impulses of the feet that
land alone. A step of a foot lasts 25 knots, up and down along straight lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pinocchio as pin

from ddp.costs.batch import BatchTerm
from ddp.errors import ProblemError, nearest
from ddp.problem import Problem
from ddp.protocols import Array
from dynamics.contacts.contact import Contact
from dynamics.phases.phase import Phase
from dynamics.phases.phased_dynamics import PhasedDynamics
from dynamics.robots.model import Robot, load
from problems.contact_costs import StateLimits, friction_cone
from problems.costs import CenterOfMass, ControlCost, FramePosition, StateCost

DT, FRICTION, STEP_KNOTS = 0.01, 0.7, 25
LF, LH, RF, RH = FEET = "LF_FOOT", "LH_FOOT", "RF_FOOT", "RH_FOOT"
FOOT, LANDING, CENTER, STATE, CONTROL, CONE, LIMITS = 1e6, 1e7, 1e6, 1e1, 1e-1, 1e1, 1e3
"""Weights of terms; the first two [1/m²] at knots of swing and of touch-down."""


@dataclass
class _Stretch:
    """Knots with the same contacts: feet that stand, references of the centre of mass and of swinging feet, if any.

    landed: the feet that touch down before it, at these places.
    """

    feet: tuple[str, ...]
    knots: int
    center: Array | None = None
    paths: dict[str, Array] = field(default_factory=dict)
    landed: dict[str, Array] = field(default_factory=dict)


class _Standing:
    """The robot's posture, where its feet are, and the centre of mass that follows them."""

    def __init__(self) -> None:
        self.robot: Robot = load("anymal")
        model, data = self.robot.model, self.robot.model.createData()
        pin.framesForwardKinematics(model, data, self.robot.q0)
        self.feet = {foot: data.oMf[self.robot.frame_id(foot)].translation.copy() for foot in FEET}
        self.center = np.mean(list(self.feet.values()), axis=0)
        self.center[2] = pin.centerOfMass(model, data, self.robot.q0)[2]

    def step(self, swing: Sequence[str], length: float, height: float) -> list[_Stretch]:
        """Swing some feet forward, and land them."""
        k, half = np.arange(STEP_KNOTS), STEP_KNOTS / 2
        lift = height * np.where(k < half, k / half, 1.0 - (k - half) / half)
        ahead = length * (k + 1) / STEP_KNOTS
        move = np.stack([ahead, 0.0 * k, lift], axis=1)
        share = len(swing) / 4
        paths = {foot: self.feet[foot] + move for foot in swing}
        center = self.center + np.outer(ahead * share, [1.0, 0.0, 0.0])
        stretch = _Stretch(tuple(f for f in FEET if f not in swing), STEP_KNOTS, center, paths)
        self.center = self.center + np.array([length * share, 0.0, 0.0])
        for foot in swing:
            self.feet[foot] = self.feet[foot] + np.array([length, 0.0, 0.0])
        return [stretch, _Stretch((), 0, landed={foot: path[-1] for foot, path in paths.items()})]


def _striding(
    groups: Sequence[Sequence[Sequence[str]]], length: float, height: float, support: int, half: int
) -> Callable[[_Standing], list[_Stretch]]:
    """Support, then the steps of a group one after the other, ...; the first ``half`` groups step half as far."""

    def build(standing: _Standing) -> list[_Stretch]:
        stretches = []
        for i, group in enumerate(groups):
            stretches.append(_Stretch(FEET, support))
            for swing in group:
                stretches += standing.step(swing, 0.5 * length if i < half else length, height)
        return stretches

    return build


def _jumping(standing: _Standing) -> list[_Stretch]:
    """Sideways by 0.3 m, 0.15 m up."""
    length, up = np.array([0.0, 0.3, 0.0]), np.array([0.0, 0.15, 0.15])
    rise = standing.center + np.outer(np.arange(1, 21) / 20, up)
    places = {foot: place * [1.0, 1.0, 0.0] + length for foot, place in standing.feet.items()}
    landed = standing.center + length - [0.0, 0.0, standing.feet[RF][2]]
    return [
        _Stretch(FEET, 10), _Stretch((), 20, rise), _Stretch((), 20), _Stretch((), 0, landed=places),
        _Stretch(FEET, 9, landed),
    ]  # fmt: skip


GAITS: dict[str, Callable[[_Standing], list[_Stretch]]] = {
    "walk": _striding([[[RH], [RF]], [[LH], [LF]]], 0.25, 0.15, 2, 1),
    "trot": _striding([[[RF, LH]], [[LF, RH]]], 0.15, 0.1, 2, 1),
    "pace": _striding([[[RF, RH]], [[LF, LH]]], 0.15, 0.1, 5, 1),
    "bound": _striding([[[LF, RF]], [[LH, RH]]], 0.15, 0.1, 5, 0),
    "jump": _jumping,
}


def gait(name: str) -> Problem:
    """One of `GAITS`; the last running knot of all but the jump is a touch-down."""
    if name not in GAITS:
        raise ProblemError(f"gait: there is none called {name!r}; {nearest(name, GAITS)}")
    standing = _Standing()
    stretches = GAITS[name](standing)
    robot, phases = standing.robot, []
    for stretch in stretches:
        phases.append(Phase(_contacts(stretch.feet), stretch.knots, _contacts(tuple(sorted(stretch.landed)))))
    system = PhasedDynamics(robot, DT, phases)
    x0 = np.concatenate([robot.q0, np.zeros(robot.nv)])
    state = StateCost(system, x0, STATE * np.repeat([0.0, 500.0, 0.01, 10.0, 1.0], [3, 3, 12, 6, 12]) ** 2)
    landing = StateCost(system, x0, STATE * np.repeat([1.0, 10.0, 10.0], [6, 12, 18]) ** 2)
    reach = np.repeat([np.inf, 9.42, np.inf, 15.0], [6, 12, 6, 12])
    limits = StateLimits(robot, -reach, reach, LIMITS)
    effort = ControlCost(np.zeros(12), np.full(12, CONTROL))
    during: dict[range, list[BatchTerm]] = {}
    at: dict[int, list[BatchTerm]] = {}
    knot = 0
    for stretch in stretches:
        if stretch.landed:
            at[knot] = [landing] + [FramePosition(robot, f, p, LANDING) for f, p in sorted(stretch.landed.items())]
            knot += 1
        if stretch.knots:
            terms: list[BatchTerm] = [state, limits, effort]
            if stretch.feet:
                terms.append(friction_cone(system, _contacts(stretch.feet), FRICTION, CONE))
            if stretch.center is not None:
                terms.append(CenterOfMass(robot, stretch.center, CENTER))
            terms += [FramePosition(robot, foot, path, FOOT) for foot, path in sorted(stretch.paths.items())]
            during[range(knot, knot + stretch.knots)] = terms
            knot += stretch.knots
    end: list[BatchTerm] = [state, limits]
    if (last := stretches[-1].center) is not None:
        end.append(CenterOfMass(robot, last, CENTER))
    problem = Problem(dynamics=system, running=[], terminal=end, x0=x0, horizon=system.knots, at=at, during=during)
    return problem.with_guess(guess(problem))


def guess(problem: Problem) -> tuple[Array, Array]:
    """Crocoddyl's guess: standing still at all knots, torques that best balance gravity with the feet."""
    system = problem.dynamics
    if not isinstance(system, PhasedDynamics):
        raise ProblemError(f"problem: expected a gait, got one of {type(system).__name__}")
    U = [
        np.zeros(system.nu) if system.is_impact(k) else system.nominal_control(problem.x0, k)
        for k in range(problem.horizon)
    ]
    return np.tile(problem.x0, (problem.horizon + 1, 1)), np.array(U)


def _contacts(feet: Sequence[str]) -> list[Contact]:
    return [Contact(foot, gains=(0.0, 50.0)) for foot in feet]

"""Windows of a gait that repeats itself: the problem of one cycle from any of its steps on.

Everything that stays is made once: the system's modes and the terms. A window places them, with references of its own,
at other knots, which costs no more than a millisecond or two.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ddp.costs.batch import BatchTerm
from ddp.problem import Problem
from ddp.protocols import Array
from dynamics.contacts.contact import Contact
from dynamics.phases.phase import stretches
from dynamics.robots.libraries import pin
from problems.gait_terms import GaitTerms
from problems.legs import base_pose, heading_of, upright
from problems.walking.cycle import Cycle
from problems.walking.footholds import Path, Swing


class Windows:
    """Problems of one cycle each.

    terms: of the gait.   lift [m]: how high feet swing.
    """

    def __init__(self, cycle: Cycle, terms: GaitTerms, lift: float) -> None:
        self.cycle, self.terms, self.lift = cycle, terms, lift
        system, stance, nowhere = cycle.system, cycle.stance, np.zeros((2, 3))
        still = np.concatenate([stance.q, np.zeros(stance.robot.nv)])
        contacts = {_names(phase.contacts): phase.contacts for phase in system.phases if phase.contacts}
        struck = {_names(phase.struck): phase.struck for phase in system.phases if phase.struck}
        self._always, self._end = terms.always(system.nu), terms.end(system, still)
        self._follow = terms.follow(system, np.stack([still, still]))
        self._paths = [terms.path(foot, nowhere) for foot in stance.feet]
        self._landings: list[Any] = [terms.landing(foot, pin.SE3.Identity()) for foot in stance.feet]
        self._forces = {names: terms.forces(system, own) for names, own in contacts.items()}
        self._impulses = {names: terms.impulses(system, own) for names, own in struck.items()}
        self._shape: Problem | None = None

    def nominal(self, step: int, path: Path, floor: float) -> Array:
        """Nominal states (N+1, nx) of a window: the body along its path, the joints as where the robot steps in place.

        floor [m]: height of the ground.
        """
        cycle, stance = self.cycle, self.cycle.stance
        first, knots = cycle.knot(step) % cycle.system.knots, cycle.system.knots
        X = np.take(cycle.postures, np.arange(first, first + knots + 1), axis=0, mode="wrap")
        home, nq = base_pose(stance.robot, stance.q), stance.robot.nq
        passed = np.concatenate([[0.0], np.cumsum(cycle.system.from_knot(first).durations)])
        places, headings = path.at(passed)
        X[:, :2], X[:, 2] = places, floor + home.translation[2] - stance.places[:, 2].mean()
        half = 0.5 * (headings - heading_of(home.rotation))
        X[:, 3:7] = _product(np.sin(half), np.cos(half), pin.Quaternion(home.rotation).coeffs())
        forward, left, turning = path.command
        level = np.array([[forward, left, 0.0], [0.0, 0.0, turning]]) @ upright(home.rotation).T @ home.rotation
        X[:, nq : nq + 6] = level.ravel()
        return X

    def problem(self, step: int, x: Array, X: Array, swings: list[Swing]) -> Problem:
        """The problem of a window from a step on, in state x (nx,), about nominal states X (N+1, nx).

        The first one is checked, and has others' shape.
        """
        system = self.cycle.system.from_knot(self.cycle.knot(step))
        stance = self.cycle.stance
        during: dict[range, list[BatchTerm]] = {}
        at: dict[int, list[BatchTerm]] = {}
        passed = 0
        for phase, knots in zip(system.phases, stretches(system.phases), strict=True):
            names = _names(phase.contacts)
            steps = passed + np.arange(len(knots), dtype=np.float64)
            flying = [s for s in swings if s.lifted <= passed < s.landed] if knots else []
            if knots:
                during[knots] = [self._paths[s.foot].toward(s.places(steps, self.lift)) for s in flying]
                during[knots] += [self._forces[names]] if names else []
            if phase.struck:
                at[knots.start - 1] = [self._impulses[_names(phase.struck)]]
                for s in swings:
                    if s.landed == passed and stance.feet[s.foot] in _names(phase.struck):
                        place, speed = self._landings[s.foot]
                        at[knots.start - 1] += [place.toward(s.end[None]), speed]
            passed += len(knots)
        running = [self._follow.toward(X[:-1]), *self._always]
        terminal = [self._end.toward(X[-1:]), self.terms.limits]
        if self._shape is not None:
            return self._shape.moved(system, x, running, during, at, terminal)
        free = -np.inf, np.inf
        self._shape = Problem(system, running, terminal, x, system.knots, at=at, during=during, control_limits=free)
        return self._shape


def _names(contacts: Sequence[Contact]) -> tuple[str, ...]:
    return tuple(contact.frame for contact in contacts)


def _product(sine: Array, cosine: Array, q: Array) -> Array:
    """Quaternions (M, 4) of turns about the vertical after one (x, y, z, w); sine, cosine (M,) of half their angles."""
    x, y, z, w = q
    return np.stack(
        [cosine * x - sine * y, cosine * y + sine * x, cosine * z + sine * w, cosine * w - sine * z], axis=1
    )  # fmt: skip

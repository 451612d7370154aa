"""One cycle of a gait in steps of time: which feet stand when, the system that repeats it, and postures in place."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ddp.errors import ProblemError
from ddp.protocols import Array
from dynamics.contacts.contact import Contact
from dynamics.phases.phase import Phase
from dynamics.phases.phased_dynamics import PhasedDynamics
from problems import strides
from problems.legs import Stance
from problems.schedule import Groups, cycling


@dataclass(frozen=True, eq=False)
class Cycle:
    """Gait that repeats itself, in ``steps`` steps of dt [s].

    system: of the knots of one cycle, touch-downs among them; feet that stand are held in velocity alone.
    knots (steps,): the knot of each step, after the touch-down that there may be before it.
    lifting, swinging (F,): the step at which each foot leaves the ground, and for how many steps it swings.
    postures (knots, nx): states of the robot that steps in place, in the posture of its stance at the start.
    """

    stance: Stance
    dt: float
    system: PhasedDynamics
    knots: NDArray[np.int64] = field(repr=False)
    lifting: NDArray[np.int64] = field(repr=False)
    swinging: NDArray[np.int64] = field(repr=False)
    postures: Array = field(repr=False)

    @property
    def steps(self) -> int:
        """Steps of time in a cycle."""
        return len(self.knots)

    def since(self, step: int) -> NDArray[np.int64]:
        """Steps (F,) since each foot last left the ground; it swings as long as these are fewer than `swinging`."""
        return (step - self.lifting) % self.steps

    def knot(self, step: int) -> int:
        """The knot of a step, the first cycle's being the first."""
        return int(self.knots[step % self.steps]) + step // self.steps * self.system.knots


def repeating(
    stance: Stance, groups: Groups, swing: float, support: float, flight: float, dt: float, lift: float,
    damping: float,
) -> Cycle:  # fmt: skip
    """The cycle in which groups of feet swing in turn, for ``swing`` [s]; times in between as in `schedule.cycling`.

    lift [m]: how high feet swing.   damping [1/s]: rate at which the speed of feet that stand decays.
    """
    if stance.surface:
        raise ProblemError(f"feet: expected points, got soles: {', '.join(stance.feet)}")
    if not (robot := stance.robot).model.jointPlacements[1].isIdentity(0.0):
        raise ProblemError(f"robot: expected a base that counts from the world's origin, that of {robot.name} does not")
    plan = cycling(stance.feet, groups, swing, support, 3, flight)
    period = len(groups) * (2 if support > 0.0 or flight > 0.0 else 1)
    laid = strides.lay_out(stance, plan, dt, strides.straight((0.0, 0.0), 0.0, 0.0, 0.0), lift)
    middle = range(1 + period, 1 + 2 * period)  # with the same before and after it
    first = laid.starts[middle.start] - (middle.start in laid.impacts)
    phases, knots, stands = [], [], []
    for i in middle:
        contacts = [Contact(foot, gains=(0.0, damping)) for foot in plan.phases[i].stance]
        phases.append(Phase(contacts, laid.counts[i], contacts if i in laid.impacts else ()))
        knots += [knot - first for knot in laid.knots(i)]
        stands += [[foot in plan.phases[i].stance for foot in stance.feet]] * laid.counts[i]
    standing = np.array(stands)
    lifts = ~standing & np.roll(standing, 1, axis=0)
    if (lifts.sum(axis=0) != 1).any():
        raise ProblemError("groups: expected every foot to swing once in a cycle")
    system = PhasedDynamics(stance.robot, dt, phases, control_limits=stance.robot.control_limits)
    return Cycle(
        stance, dt, system, np.array(knots), np.argmax(lifts, axis=0), (~standing).sum(axis=0),
        laid.X[first : first + system.knots],
    )  # fmt: skip

"""Policies that a motion is played with, by name: the one that tracks it, and those it is compared with; and motors,
which cut their efforts to what a robot's file allows.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from ddp.errors import settle
from ddp.feedback.adaptive import AdaptivePolicy, ContactPolicy
from ddp.feedback.policy import Policy
from ddp.protocols import Array
from ddp.solutions.solution import Solution
from dynamics.phases.tracking import held_damping
from dynamics.robots.joints import effort_limits
from dynamics.robots.libraries import pin
from dynamics.steps.mimic import MimicDynamics
from problems.play.played import PlayedSystem

POLICIES = "adaptive", "contact", "tracking", "solver", "pd", "open"

STIFFNESS, DAMPING = 4.0, 4.0 / 30.0
"""Gains of a joint PD per mass of the robot [N m/(rad kg), N m s/(rad kg)]: 60 and 2 for a Go2 of 15 kg."""


def named(solution: Solution, name: str, delay: float = 0.0) -> Policy | AdaptivePolicy | ContactPolicy:
    """One of `POLICIES` about a solution's motion."""
    if name == "contact":
        return solution.by_contact(delay=delay)
    if name == "adaptive":
        return solution.adaptive(delay=delay)
    if name == "solver":
        return solution.feedback("solver", delay=delay)
    tracking = solution.policy if delay == 0.0 else solution.feedback(delay=delay)
    if name == "tracking":
        return tracking
    G = np.zeros_like(tracking.G) if name == "open" else _joint_pd(tracking)
    return replace(tracking, G=G, cones=None)


def _joint_pd(about: Policy) -> np.ndarray:
    """Gains (M, nu, n) of each joint's own stiffness and damping, in proportion to the robot's mass.

    Light joints are damped as much as a controller can hold.
    """
    system = about.system
    assert isinstance(system, PlayedSystem)
    mass = pin.computeTotalMass(system.robot.model)
    acts = np.linalg.pinv(system.actuation)
    acts[:, system.robot.floating_dofs] = 0.0
    G = -np.hstack([mass * STIFFNESS * acts, held_damping(system.robot, mass * DAMPING) * acts])
    return np.tile(G, (len(about.starts), 1, 1))


@dataclass(frozen=True, eq=False)
class Motors:
    """Efforts (nv,) of a system's robot within the limits of its file: of its actuators, and of its joints [N m, N].

    Of controls that are not the file's own, the file limits the joints alone.
    """

    system: PlayedSystem = field(repr=False)

    def __post_init__(self) -> None:
        system, robot = self.system, self.system.robot
        kept = system.driving(robot.actuation) if isinstance(system, MimicDynamics) else slice(None)
        same = np.array_equal(system.actuation, robot.actuation[:, kept])
        controls = robot.control_limits[kept].T if same else np.array([[-np.inf], [np.inf]])
        settle(self, controls=controls, joints=effort_limits(robot.model).T)

    controls: Array = field(init=False, repr=False)
    joints: Array = field(init=False, repr=False)

    def __call__(self, u: Array) -> Array:
        """Effect of controls u (nu,) on the joints, within limits."""
        return np.asarray(np.clip(self.system.actuation @ np.clip(u, *self.controls), *self.joints))

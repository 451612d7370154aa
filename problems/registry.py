"""All problems by name, with their costs: feeds tests, benchmarks and the command line."""

from collections.abc import Callable
from dataclasses import dataclass

from ddp.errors import choice
from ddp.guesses import Start, as_guess
from ddp.problem import Problem
from problems import arm, cartpole, gaits, pendulum, quadrotor, quadruped, soft
from problems.systems import acrobot, ballbot, car, composed, glider, integrator, mobile, periodic, rocket


@dataclass(frozen=True)
class Entry:
    """One problem.

    name: "family/task".   build: the constructor; without arguments it makes the reference problem.
    description: one sentence.   tags: for choosing some.
    cost: of the minimum that its guess leads to, to five digits.
    robot_name: what moves, "" where that is a function.   frames: those worth tracing in a viewer.
    """

    name: str
    build: Callable[..., Problem]
    description: str
    tags: tuple[str, ...]
    cost: float
    robot_name: str
    frames: tuple[str, ...]

    def __call__(self) -> Problem:
        """The reference problem."""
        return self.build()

    @staticmethod
    def guess(problem: Problem) -> Start:
        """A copy of the guess that a problem of this kind knows itself."""
        return as_guess(problem.guess, problem.dynamics, problem.horizon)


ALL: dict[str, Entry] = {
    name: Entry(name, build, description, tuple(tags.split()), cost, robot, frames)
    for name, build, description, cost, robot, frames, tags in (
        ("pendulum/swing-up", pendulum.swing_up, "a pendulum with a weak motor swings up and stops upright",
         2.9008, "pendulum", ("tip",), "fixed-base small swing-up"),
        ("cartpole/swing-up", cartpole.swing_up, "a cart swings its pole up and comes back",
         0.92042, "cartpole", ("tip",), "fixed-base small swing-up underactuated"),
        ("arm/reach", arm.reach, "an arm brings its tool to a pose and rests there",
         1.1798, "ur5", ("tool0",), "fixed-base arm"),
        ("arm/out-of-reach", arm.out_of_reach, "an arm stretches towards a point that it cannot reach",
         154.55, "ur5", ("tool0",), "fixed-base arm large-residual"),
        ("arm/obstacles", arm.obstacles, "an arm reaches among three spheres, its torques limited",
         1.2057, "ur5", ("tool0",), "fixed-base arm constrained"),
        ("arm/throw", arm.throw, "an arm's hand passes a point at 3 m/s",
         0.20346, "panda", ("panda_hand_tcp",), "fixed-base arm"),
        ("quadruped/reorientation", quadruped.reorientation,
         "a quadruped rolls by a quarter turn in the air, with its legs alone",
         2.7002, "hyq", ("base_link", "lf_foot", "rf_foot", "lh_foot", "rh_foot"), "floating-base underactuated"),
        ("quadrotor/loop", quadrotor.loop, "a quadrotor flies a loop and hovers where it started",
         17.138, "iris", ("iris__base_link",), "floating-base small underactuated"),
        ("soft/cable-arm", soft.reach, "an arm of silicone brings its tip to a point by five cables",
         0.034256, "cable-arm", ("arm/tip",), "fixed-base soft limited"),
        ("soft/out-of-reach", soft.out_of_reach, "an arm of silicone stretches towards a point that it cannot reach",
         8.4951, "cable-arm", ("arm/tip",), "fixed-base soft limited large-residual"),
        ("soft/serial", soft.serial_reach, "an arm of seven links and a soft finger bring its tip to a point",
         0.13935, "serial-arm", ("finger/tip",), "fixed-base soft limited"),
        ("quadruped/walk", gaits.walk, "a quadruped walks: one foot after the other",
         0.036221, "anymal", ("base",), "floating-base underactuated contacts"),
        ("quadruped/trot", gaits.trot, "a quadruped trots: diagonal pairs of feet",
         0.01934, "anymal", ("base",), "floating-base underactuated contacts"),
        ("quadruped/pace", gaits.pace, "a quadruped paces: both feet of a side",
         0.061686, "anymal", ("base",), "floating-base underactuated contacts"),
        ("quadruped/bound", gaits.bound, "a quadruped bounds: fore, hind feet",
         0.205, "anymal", ("base",), "floating-base underactuated contacts"),
        ("quadruped/jump", gaits.jump, "a quadruped jumps and stands again",
         0.13943, "anymal", ("base",), "floating-base underactuated contacts"),
        ("quadruped/stand", gaits.stand, "a quadruped stands, moving its body",
         0.011924, "anymal", ("base",), "floating-base underactuated contacts"),
        ("biped/step", gaits.step, "a biped takes two steps on its soles",
         0.042933, "talos_legs", ("base_link",), "floating-base underactuated contacts"),
        ("quadrotor/rotor-lag", composed.lagging_loop, "a quadrotor whose thrusts lag flies a loop",
         20.483, "iris", ("iris__base_link",), "composed"),
        ("arm/torque-rates", composed.torque_rates, "an arm reaches, its torques changing slowly",
         1.2133, "ur5", ("tool0",), "composed"),
        ("arm/elastic", composed.elastic_reach, "an arm with springs in its joints reaches",
         1.2689, "ur5", ("tool0",), "composed"),
        ("arm/best-start", composed.best_start, "an arm reaches from where it is best to start",
         1.0683, "ur5", ("tool0",), "composed"),
        ("ballbot/roll", ballbot.roll_away, "a robot on a ball rolls away and balances",
         372.69, "ballbot", ("top",), "composed"),
        ("mobile/reach", mobile.reach, "an arm on a cart reaches far away, nothing slipping",
         0.16744, "ur5 on wheels", ("tool0",), "composed"),
        ("mobile/drive", mobile.drive, "an arm on two driven wheels reaches far away, by torques",
         0.28902, "ur5 on wheels that turn", ("tool0", "left wheel", "right wheel"), "composed"),
        ("quadruped/periodic-trot", periodic.trot, "a trot that ends as it begins, a stride ahead",
         0.015732, "anymal", ("base",), "composed"),
        ("integrator/reach", integrator.reach, "a point mass goes to a place, after OCS2",
         0.26481, "", (), "function small"),
        ("integrator/quickest", integrator.quickest, "a point mass rests, as soon as effort lets it",
         2.1842, "", (), "function"),
        ("acrobot/swing-up", acrobot.swing_up, "two links swing up: trajax' example",
         44.513, "", (), "function swing-up"),
        ("glider/perch", glider.perch, "a glider stalls and perches, after Drake's",
         19.382, "", (), "function limited"),
        ("rocket/landing", rocket.landing, "a rocket lands on Mars with little fuel",
         3.9058, "", (), "function constrained"),
        ("car/parking", car.parking, "a car parks: Tassa, Mansard and Todorov's example",
         1.9052, "", (), "function limited"),
        ("car/circles", car.past_circles, "a car past three circles: Altro's example",
         9.4355, "", (), "function constrained"),
    )
}  # fmt: skip
"""All problems by name; their tags are words."""


def find(name: str) -> Entry:
    """The problem of a name; ProblemError with the nearest names if there is none."""
    choice("problem", name, ALL, "`mayne list` has none called")
    return ALL[name]

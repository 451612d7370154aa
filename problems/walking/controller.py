"""Walking by commands: a gait that is planned again and again, from where the robot is measured to be."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ddp.doubts import tell_doubts
from ddp.errors import ProblemError, at_least_zero, choice, instance, positive, suggesting
from ddp.feedback.policy import Policy, as_state
from ddp.feedback.succession import Succession
from ddp.guesses import Motion, Start
from ddp.options import DDP
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.receding import as_time
from ddp.solutions.solution import Solution
from ddp.starts import start_policy
from ddp.successive import Closing, Successive
from dynamics.phases.phased_dynamics import PhasedDynamics
from dynamics.phases.tracking import stiffness
from dynamics.quantities.units import Units
from problems import checks, gaits, legs, schedule
from problems.gait_terms import EFFORT, GRIP, GaitTerms, Weights
from problems.legged import WEIGHED, follow_nominal
from problems.walking.cycle import repeating
from problems.walking.windows import Ground, Windows, as_command

WEIGHTS = Weights(
    position=10.0, velocity=10.0, turning=1.0, posture=1.0, speed=0.03, foot=300.0, landing=1e3, landing_speed=30.0
)
"""Weights of plans that are made again before they end: feet need not land to the millimetre."""

DAMPING = 20.0
"""Rate at which the speed of feet that stand decays [1/s]."""

FIRST = DDP(hessian="gauss-newton", max_iterations=30)
"""Solver of the first plan, and of one that no other leads to."""

NEXT = DDP(hessian="gauss-newton", max_iterations=2, last_sweep=False)
"""Solver of all others: each iteration's gains are of the trajectory before it."""

ASTRAY = 3.0, 1.0
"""A guess is not followed with the last gains where it costs more than so many times what the last plan cost, and so
much: its states are imposed then."""

HELD = 0.15
"""Time [s] after which a policy that has not been replaced yet has the joints' stiffness alone."""


class Plan(NamedTuple):
    """Plan in force: its first step, when that begins [s], its solution and the policy that follows it."""

    step: int
    start: float
    solution: Solution
    policy: Policy


@suggesting
class Walking(Closing):
    """Gait of a robot with feet that are points, by commanded velocities that may change at any time.

        with problems.Walking("go2", "trot", latency=0.02) as walking:
            while running:
                policy = walking.plan(t, x, (0.5, 0.0, 0.3))   # forward, left [m/s], turning [rad/s]
                # policy(t, x) from t + latency on, at any rate, until the next plan

    Each plan lasts one cycle of the gait from a step of time on, the first one at or after t + latency. It begins where
    the last plan leads to until then from the state that was measured. Feet that stand are held where they are, others
    land where the commanded motion of the body takes them, and further out where it is faster (windows.py).

    Feet touch down by the gait's clock, whether they are felt to or not.

    robot, gait ("walk", "trot", "pace" or "bound"), step_height [m], step_duration [s], support_duration [s],
    flight_duration [s], friction, effort, grip, ground [m], feet, q0 (nq,), dt [s]: as of `gaits.trot`; durations are
    rounded to steps of dt.
    latency [s]: from a measurement to when its plan is there.   weights: as of `gaits.trot`, but softer on feet.
    solver: of all plans but the first.   workers: threads, as in `solve`.
    system: the robot's dynamics through one cycle.   floor [m]: height of the ground under the robot that stands.

    Raises ProblemError for bad input.
    """

    def __init__(
        self, robot: checks.RobotLike = "go2", gait: str = "trot", latency: float = 0.0,
        step_height: float | None = None, step_duration: float | None = None, support_duration: float | None = None,
        flight_duration: float = 0.0, friction: float = 0.7, effort: float | None = EFFORT, grip: float = GRIP,
        ground: float | None = None, feet: Sequence[str] | None = None, q0: ArrayLike | None = None, dt: float = 0.01,
        weights: Weights = WEIGHTS, solver: DDP = NEXT, workers: int | str = 1,
    ) -> None:  # fmt: skip
        choice("gait", gait, schedule.ORDERS)
        stance = legs.stance(checks.loaded(robot, root_of_files="free-flyer"), feet, q0, ground)
        swing = gaits.STEP * stance.unit if step_duration is None else positive("step_duration", step_duration)
        given = gaits.SUPPORT * stance.unit if support_duration is None else support_duration
        support = at_least_zero("support_duration", given, " s")
        flight, dt = at_least_zero("flight_duration", flight_duration, " s"), positive("dt", dt)
        gaits.check_durations(dt, step_duration=swing, support_duration=support, flight_duration=flight)
        lift = gaits.LIFT * stance.height if step_height is None else positive("step_height", step_height)
        instance("weights", weights, Weights, WEIGHED)
        instance("solver", solver, DDP, "DDP(...)")
        self.latency = at_least_zero("latency", latency, " s")
        groups = schedule.in_turn(stance.corners(), gait)
        cycle = repeating(stance, groups, swing, support, flight, dt, lift, DAMPING)
        self.windows = Windows(cycle, GaitTerms(stance, weights, friction, grip, effort), lift)
        units = Units(stance.height, stance.mass, stance.gravity)
        self.system, self.floor = cycle.system, float(stance.places[:, 2].mean())
        self._stiff = stiffness(units, stance.robot, cycle.system.actuation)
        self.solver, self._solves = solver, Successive(workers)
        self.restart()

    def __repr__(self) -> str:
        cycle = f"{self.system.knots} knots of {self.system.dt:g} s"
        return f"Walking({self.system.robot.name!r}, a cycle of {cycle}, latency={self.latency:g})"

    @property
    def x0(self) -> Array:
        """The state (nx,) in which the robot stands."""
        stance = self.windows.cycle.stance
        return np.concatenate([stance.q, np.zeros(stance.robot.nv)])

    def restart(self) -> None:
        """Begin again: the next plan is a first one, of a robot that stands."""
        self.last: Plan | None = None
        self._policies, self._zero = Succession(), 0.0

    def vary(self, numbers: Mapping[str, ArrayLike]) -> None:
        """Go on with other weights, by the names of `Weights`, from the next plan on."""
        instance("varying", numbers, Mapping, "a mapping from names to numbers")
        old = self.windows
        known = [part.name for part in fields(old.terms.weights)]
        for name in numbers:
            choice("varying", name, known, "gaits have no weight")
        given: dict[str, Any] = dict(numbers)  # checked by Weights
        weights = replace(old.terms.weights, **given)
        self.windows = Windows(old.cycle, replace(old.terms, weights=weights), old.lift)

    def plan(self, t: float, x: ArrayLike, command: Sequence[float] = (0.0, 0.0, 0.0)) -> Policy:
        """The policy from t + latency on [s], of a robot in state x (nx,) at time t; its times are absolute.

        command: velocity forward and to the left [m/s], rate of turning [rad/s].
        The first plan, from when the robot stands, begins at t at once, and takes longer. Where no plan is found, the
        last policy is returned. Raises ProblemError for bad input and a t earlier than plans before.
        """
        now, wanted = as_time(t, self.windows.cycle.dt), as_command(command)
        measured = as_state(self.system, "x", x)
        step, x0 = self._beginning(now, measured)
        last, cycle = self.last, self.windows.cycle
        if last is None:
            self._zero, self._ground = now, Ground(cycle, x0)
        window = self._ground.window(step, x0, wanted)
        X = self.windows.nominal(step, window.path, window.floor)
        problem = self.windows.problem(step, x0, X, window.swings)
        if last is None:
            tell_doubts(problem)
        if last is None or step - last.step >= cycle.steps:
            solution = self._solves.solve(problem, follow_nominal(problem), FIRST)
        else:
            solution = self._solves.solve(problem, self._guess(problem, X, last, step), self.solver)
            if not np.isfinite(solution.cost):
                solution = self._solves.solve(problem, follow_nominal(problem), FIRST)
        if last is not None and not np.isfinite(solution.cost):
            return last.policy
        start = self._zero + step * cycle.dt
        policy = following(solution, self.system.from_knot(cycle.knot(step)), start, self._stiff)
        self.last = Plan(step, start, solution, policy)
        self._policies.add(policy)
        return policy

    def _beginning(self, t: float, x: Array) -> tuple[int, Array]:
        """The first step of the next plan, and the state then: x_r(t + d) ⊕ (x ⊖ x_r(t)) about the last plan's x_r."""
        last = self.last
        if last is None:
            return 0, x
        dt = self.windows.cycle.dt
        step = int(np.ceil((t + self.latency - self._zero) / dt - 1e-6))
        if step < last.step:
            raise ProblemError(f"t: expected at least {last.start - self.latency:g} s, as of the last plan, got {t:g}")
        later = self._zero + step * dt
        return step, self._policies.predicted(t, x, later) if later > t else x

    def _guess(self, problem: Problem, X: Array, last: Plan, step: int) -> Start:
        """The last solution as it goes on from a step, and what is beyond its end as one cycle before.

        It is followed with its gains from the problem's x0; or, where that leads astray, its states are imposed, with
        nominal ones, of X (N+1, nx), beyond its end.
        """
        cycle, old = self.windows.cycle, last.solution
        by = cycle.knot(step) - cycle.knot(last.step)
        known = problem.horizon - by
        states, U, K = (np.roll(part, -by, axis=0) for part in (old.X[:-1], old.U, old.K))
        states, K[known:] = np.concatenate([states, old.X[-1:]]), 0.0
        followed = Motion(states, U, K)
        policy = start_policy(problem, followed)
        none, gaps = np.zeros_like(U), np.zeros((problem.horizon, problem.dynamics.n))
        with np.errstate(all="ignore"):  # it may diverge
            X1, U1, notes = problem.track(policy.X, policy.U, none, K, np.ones(1), gaps)
            cost = problem.total(X1[0], U1[0], notes[0] if len(notes) else notes)
        if cost < ASTRAY[0] * old.cost + ASTRAY[1]:
            return followed
        states[0], states[known:] = problem.x0, X[known:]
        return states, U


def following(solution: Solution, system: PhasedDynamics, start: float, stiff: Array) -> Policy:
    """The policy of a solution that begins at a time [s] and is soon replaced; stiff (nu, n): of joints that resist.

    Unlike in `ddp.feedback`, K is the solver's own, which costs no sweep, and all joints resist, ``K N + R (I - N)``:
    those of swinging legs too, without which HyQ falls under plans that are late by 40 ms.
    """
    lasting, n = system.durations, system.n
    begin = np.cumsum(lasting) - lasting
    steps = np.flatnonzero(lasting > 0.0)
    near = steps[begin[steps] < HELD]
    N = system.tracked.free_and_resisted(solution.X[: near[-1] + 1])[0][near]
    G = np.tile(stiff, (len(steps), 1, 1))
    G[: len(near)] = solution.K[near] @ N + stiff @ (np.eye(n) - N)
    X, U = solution.X, solution.U[steps]
    lower, upper = (np.broadcast_to(limit, U.shape) for limit in system.control_limits.T)
    return Policy(system, start + begin[steps], lasting[steps], X[steps], X[steps + 1], U, U, U, G, lower, upper)

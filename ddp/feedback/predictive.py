"""Feedback for controls that act late by a known delay d: it answers the state that they will meet.

A policy that is late sees errors that its own controls, sent and not yet acting, are about to correct, and corrects
them again: gains that are stiff enough to track a motion make it swing, an arm's from 10 to 50 ms on. From the state
measured at t and the controls that were sent since t - d, a model of the system tells the state at t + d (Smith 1957);
the policy of no delay answers that:

    x(t) -> x(t + d), by the controls sent at t - d .. t,      u = U(t + d) + G (x(t + d) ⊖ X(t + d))

Errors of the model are answered so much later. (Gains of an LQR with the delay, on the last state alone, would do
without memory; those of the closed loop, K Π (A + B K), let arms diverge at 5 to 10 ms.)
"""

from collections import deque

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import ProblemError, affordable, pointing, positive
from ddp.feedback.feedback import tracking_policy
from ddp.feedback.policy import Policy, as_state, within_motion
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.systems.system import System, Tracked, Tracking, ability

STEP = 0.002
"""Longest step of the model [s]."""

SHORTEST = 1e-10
"""Shortest step of it [s], and delay: the model would divide by its square."""


@pointing()
class PredictivePolicy:
    """Policy that is called as time goes on, and remembers the controls that it has sent.

    policy: the one without a delay.   delay [s]: from a measurement to the control that answers it.
    model: the system in short steps, of which ``count`` last as long as the delay.   duration: of the motion [s].
    Time that does not go on begins the motion anew; until the first controls act, planned ones do.
    There is no file and no C function of it, as every call steps a model of the robot from the state that is measured.
    In a loop of your own, let a simulator predict the state at t + delay, and give that to ``.policy`` for that time,
    whose `export` and `compiled` serve there.
    Two calls with the same arguments may differ: from one loop alone, and for each robot a policy of its own.
    """

    def __init__(self, policy: Policy, model: System, count: int, delay: float) -> None:
        self.policy, self.delay, self.duration = policy, delay, policy.duration
        self._model, self._count, self._settled = model, count, ability(model, "tracked").settled
        self.restart()

    def restart(self) -> None:
        """Forget the controls that were sent."""
        self._sent: deque[tuple[float, Array]] = deque()

    def __repr__(self) -> str:
        return f"PredictivePolicy(delay={self.delay})"

    def __call__(self, t: float, x: ArrayLike) -> Array:
        """The control (nu,) to send at time t [s] in state x (nx,); raises ProblemError as `Policy` does."""
        time, state = self.policy.during(t), as_state(self.policy.system, "x", x)
        if self._sent and time <= self._sent[-1][0]:
            self.restart()
        ahead = self.ahead(time, state)
        u = self.policy(self.policy.inside(time + self.delay), ahead)
        while len(self._sent) > 1 and self._sent[1][0] <= time - self.delay:
            self._sent.popleft()
        self._sent.append((time, u.copy()))
        return u

    def ahead(self, t: float, x: Array) -> Array:
        """The state (nx,) that a control sent at time t [s] meets, from the one x that is measured then.

        Where the model overflows on the way, x itself.
        """
        h, ahead = self.delay / self._count, self._settled(x)
        for j, u in enumerate(self._acting(t - self.delay + h * np.arange(self._count, dtype=np.float64), h)):
            ahead = self._model.step(ahead, u, j)
            if not np.isfinite(ahead).all():
                return x
        return ahead

    def _acting(self, starts: Array, lasting: float) -> Array:
        """Means (M, nu) of the controls sent from times on (M,) [s], and of planned ones before the first of those."""
        times, ends = np.array([sent for sent, _ in self._sent]), starts + lasting
        first = np.clip(times[0], starts, ends) if len(times) else ends
        total = np.zeros((len(starts), self.policy.system.nu))
        for j in np.flatnonzero(first > starts):
            planned = self.policy.planned(0.5 * (starts[j] + first[j]) + self.delay)
            total[j] = (first[j] - starts[j]) * planned
        if len(times):
            until = np.append(times[1:], np.inf)
            spans = np.minimum(until, ends[:, None]) - np.maximum(times, starts[:, None])
            total += np.maximum(spans, 0.0) @ np.array([u for _, u in self._sent])
        return total / lasting


def predictive_policy(
    problem: Problem, X: Array, U: Array, delay: float, weights: Tracking | None, step: float | None
) -> PredictivePolicy:
    """The policy about a motion in one stretch; ProblemError for others."""
    late = max(positive("delay", delay), SHORTEST)
    policy = tracking_policy(problem, X, U, weights, step)
    within_motion("delay", late, policy.duration)
    tracked: Tracked = ability(problem.dynamics, "tracked")
    if len(stretches := tracked.stretches(problem.horizon)) != 1 or len(stretches[0]) != problem.horizon:
        raise ProblemError("delay: expected a motion whose contacts do not change, where it is predicted")
    count = int(np.ceil(min(late / STEP, 1e9) - 1e-9))
    affordable("delay", late, count * problem.dynamics.n**2)
    return PredictivePolicy(policy, tracked.in_steps([count], [late]), count, late)

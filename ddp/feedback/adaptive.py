"""Feedback that learns while it is called: how late its controls act, whether feet slide, and where they have landed.

Planned controls are taken earlier by the delay that is believed. Errors bear being answered some milliseconds late;
planned controls do not, where they jump with contacts. Between two calls velocities change, beside the plan's, by

    Δv - Δv_r = T B (u(t - d) - U(t)) + noise,        B: the response of accelerations to controls

where u(t - d) are controls that were sent a delay d ago. Each candidate d has a likelihood, of noise with Student's t
distribution, which pushes and touch-downs hardly count in. The most likely one is believed once the evidence for it
against the delay that was given is strong: until controls have jumped, or been answered, there is none.

What feedback adds is kept within cones of friction only from when a foot has slid. On ground that holds, forces beyond
the friction that the plan counts on bring the robot back sooner; where feet slide, they are lost. A foot has slid that
has gone too far while it should stand (`ddp.systems.system.Footing`), with slow creeping taken off.
"""

from collections import deque
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddp.errors import ProblemError, as_array, pointing, said
from ddp.feedback.feedback import matrix_of, policy_about, swept
from ddp.feedback.policy import Policy, as_state
from ddp.feedback.regulators import linearized
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.systems.system import Footing, Tracked, Tracking, ability

LATEST, APART = 0.01, 0.0005
"""Latest of the candidates, and how far they are apart [s]."""

SPREAD = 0.003
"""Noise of velocities that change, as a part of errors that cost 1/2 a second by the system's own weights. Of a robot
in MuJoCo, whose contacts give way; sensors that are noisier make evidence come later."""

FREEDOM = 3.0
"""Degrees of freedom of Student's t distribution: large errors are frequent."""

EVIDENCE = 25.0
"""Logarithm of how much more likely a delay must be than the one that was given. In `make bench-policy`, with 40, two
bounds that are late by 2 ms learn it too late; with 12, a heavy base is taken for a delay in jumps."""


@pointing()
class AdaptivePolicy:
    """Policy that is called as time goes on; it learns how late its controls act, and whether feet slide.

    policy: the one with the delay that was given.   footing: feet by its steps, None if there are none.
    duration: of the motion [s].
    slid: whether a foot has slid, from when on what feedback adds is kept within cones of friction.
    Time that does not go on begins the motion anew.
    There is no file and no C function of it, as it learns: ``.learned``, what it believes now, has both.
    Two calls with the same arguments may differ: from one loop alone, and for each robot a policy of its own.
    """

    def __init__(self, policy: Policy, response: Array, spread: Array, footing: Footing | None = None) -> None:
        """response (M, nv, nu): of accelerations to controls, by the policy's steps.   spread (nv,): of noise.

        footing: of the steps; without it, or where the policy has no cones, nothing is learned of feet.
        """
        self.policy, self.footing, self._response, self._spread = policy, footing, response, spread
        self.duration = policy.duration
        self._delays = np.unique([*np.arange(0.0, LATEST + 0.5 * APART, APART), policy.delay])
        self._counting = np.isfinite(spread).sum()
        self._given = int(np.searchsorted(self._delays, policy.delay))
        self._watched = footing if policy.cones is not None else None
        self._policies: dict[tuple[int, bool], Policy] = {}
        self.restart()

    @property
    def delay(self) -> float:
        """Time from a measurement to the control that answers it [s], as believed now."""
        return float(self._delays[self._believed])

    def restart(self) -> None:
        """Forget what was learned."""
        self._believed, self._unlikely = self._given, np.zeros(len(self._delays))
        self.slid, self._gone = False, np.zeros(0 if self._watched is None else len(self._watched.names))
        self._last: tuple[float, Array] | None = None
        self._sent: deque[tuple[float, Array, Array]] = deque()

    def __call__(self, t: float, x: ArrayLike) -> Array:
        """The control (nu,) at time t [s] in state x (nx,); raises ProblemError as `Policy` does."""
        time = float(as_array("t", t, ()))
        if self._last is not None and time <= self._last[0]:
            self.restart()
        policy = self.learned
        u, nv = policy(time, x), len(self._spread)
        k, s = policy.part(time)
        v = np.asarray(x, np.float64)[-nv:]
        away = v - policy.X[k, -nv:] - s * policy.moved[k, -nv:]
        if self._last is not None:
            self._watch(k, time - self._last[0], v)
            if self._sent[0][0] <= self._last[0] - self._delays[-1]:
                self._weigh(k, *self._last, time, away)
        if (learned := self.learned) is not policy:
            u = learned(time, x)
        self._last = time, away
        self._send(time, u)
        return u

    @property
    def learned(self) -> Policy:
        """The policy with what is believed now, which learns no more."""
        key = self._believed, self._watched is None or self.slid
        if key not in self._policies:
            policy = self.policy if key[1] else replace(self.policy, cones=None)
            self._policies[key] = policy if key[0] == self._given else policy.later(self.delay)
        return self._policies[key]

    def _watch(self, k: int, T: float, v: Array) -> None:
        """Add to how far feet have slid over T [s] at velocities v (nv,) in step k."""
        feet = self._watched
        if feet is None or self.slid:
            return
        speeds = np.linalg.norm(feet.moves[k, :, :2] @ v, axis=1)
        self._gone = np.maximum(self._gone + T * (speeds / feet.slow - 1.0), 0.0)
        self.slid = bool((self._gone > feet.patience).any())

    def _weigh(self, k: int, before: float, was: Array, now: float, away: Array) -> None:
        """Weigh all delays by how errors of velocities changed over an interval of step k."""
        plan, T = self.policy, now - before
        if plan.part(before)[0] != k:
            return  # velocities of the plan may jump in between
        times, summed, sent = (np.array(part) for part in zip(*self._sent, strict=True))
        edges = np.array([before, now]) - self._delays[:, None]
        at = np.searchsorted(times, edges, side="right") - 1
        acted = np.diff(summed[at] + (edges - times[at])[:, :, None] * sent[at], axis=1)[:, 0]
        expected = (acted - T * plan.planned(0.5 * (before + now))) @ self._response[k].T
        with np.errstate(over="ignore"):  # wherever the robot is thrown to
            squares = (((away - was - expected) / self._spread) ** 2).sum(axis=1)
        self._unlikely += 0.5 * (FREEDOM + self._counting) * np.log1p(np.minimum(squares / FREEDOM, 1e12))
        best = int(np.argmin(self._unlikely))
        sure = self._unlikely[self._given] - self._unlikely[best] > EVIDENCE
        self._believed = best if sure else self._given

    def _send(self, t: float, u: Array) -> None:
        """Note a control that is sent at t, with the integral of all before it."""
        if not self._sent:
            self._sent.append((t, np.zeros_like(u), u))
            return
        before, summed, last = self._sent[-1]
        self._sent.append((t, summed + (t - before) * last, u))
        while len(self._sent) > 2 and self._sent[1][0] < before - self._delays[-1]:
            self._sent.popleft()


def adaptive_policy(
    problem: Problem, X: Array, U: Array, weights: Tracking | None = None, step: float | None = None,
    delay: float = 0.0,
) -> AdaptivePolicy:  # fmt: skip
    """The policy that tracks a motion, and learns its delay and sliding; arguments as of `tracking_policy`."""
    system, m, weigh = swept(problem, X, U, weights, step)
    nv = system.n // 2
    response = linearized(system, m.X, m.U).B[m.steps, nv:] / m.durations[:, None, None]
    tracked: Tracked = ability(system, "tracked")
    units = np.where(tracked.driven(), SPREAD / np.sqrt(np.diag(matrix_of(tracked.weights(X, U).state))[nv:]), np.inf)
    policy = policy_about(problem, system, m, weigh, delay)
    footing = tracked.footing(m.X[:-1])
    if footing is not None:
        footing = footing._replace(moves=footing.moves[m.steps], legs=footing.legs[m.steps])
    return AdaptivePolicy(policy, np.asarray(response), units, footing)


SURE = 0.002
"""Time that a foot touches the ground until it has landed [s]: one that strikes a bump or bounces does so for less."""


@pointing()
class ContactPolicy:
    """Policy that is told which feet touch the ground, called as time goes on; see the module's docstring.

    policy: the one that it corrects, which learns while it is called.   feet: names, in the order of ``touching``.
    duration: of the motion [s].
    Time that does not go on begins the motion anew, in which feet stand at first where the plan has them.
    """

    def __init__(self, policy: AdaptivePolicy) -> None:
        """Correct a policy of a robot with feet; raises ProblemError for others."""
        if policy.footing is None:
            raise ProblemError("by_contact: expected a motion of a robot with legs, got one without feet that stand")
        self.policy, self._footing = policy, policy.footing
        self.feet, self.duration = policy.footing.names, policy.duration
        self._stands = np.asarray(self._footing.moves.any(axis=(2, 3)))
        self.restart()

    def restart(self) -> None:
        """Forget what was learned and where feet have landed."""
        self._last, self._since = -np.inf, np.full(len(self.feet), np.inf)
        self._landed = np.ones(len(self.feet), dtype=bool)
        self._away = np.zeros((len(self.feet), self._footing.moves.shape[2]))

    def __call__(self, t: float, x: ArrayLike, touching: ArrayLike) -> Array:
        """The control (nu,) at time t [s] in state x (nx,) with feet that touch the ground, (m,) of True or False.

        Raises ProblemError as `Policy` does, and for a ``touching`` of other sizes or of numbers.
        """
        time, plan = float(as_array("t", t, ())), self.policy.policy
        touch = self._felt(touching)
        state = as_state(plan.system, "x", x)
        if time <= self._last:
            self.restart()
        self._last = time
        k, _ = plan.part(time)
        stands = self._stands[k]
        self._landed &= stands
        self._away[~stands] = 0.0
        self._since = np.where(touch, np.minimum(self._since, time), np.inf)
        for foot in np.flatnonzero(stands & ~self._landed & (self._since <= time - SURE)):
            error = plan.system.difference(plan.reference(time), state)[: plan.system.n // 2]
            self._away[foot], self._landed[foot] = self._footing.moves[k, foot] @ error, True
        moved = np.zeros(plan.system.n)
        moved[: plan.system.n // 2] = (self._footing.legs[k] @ self._away[:, :, None]).sum(axis=(0, 2))
        return self.policy(time, plan.system.integrate(state, -moved))

    def _felt(self, touching: ArrayLike) -> NDArray[np.bool_]:
        """Which feet touch (m,); ProblemError for what does not say so."""
        try:
            touch = np.asarray(touching)
        except Exception:  # whatever an object raises that is no array
            touch = np.empty(0)
        if touch.shape != (len(self.feet),) or touch.dtype != bool:
            raise ProblemError(f"touching: expected True or False of {', '.join(self.feet)}, got {said(touching)}")
        return touch

"""Feedback whose feet stand where they have landed, on ground that is higher or lower than the plan's.

A plan knows when and where its feet touch down. On other ground they do so later or sooner, and stand elsewhere; then
errors of the leg that stands are not the robot's but the ground's, and the stiffness that resists what contacts forbid
pulls the body after the ground. When a foot is felt to have landed, its deviation from the plan then,

    d = J (x ⊖ X(t)),        J: velocities of the foot from those of the robot,

is kept until its plan lifts it, and joints of its leg track their planned angles plus J_leg⁺ d.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddp.errors import ProblemError, as_array, said
from ddp.feedback.adaptive import AdaptivePolicy
from ddp.feedback.policy import as_state
from ddp.protocols import Array

SURE = 0.002
"""Time that a foot touches the ground until it has landed [s]: one that strikes a bump or bounces does so for less."""


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

"""Policies one after the other, as receding horizons make them: which one is in force, and where it leads to."""

from contextlib import suppress

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import ModelError
from ddp.feedback.policy import Policy, as_state
from ddp.protocols import Array

ROUNDING = 1e-9
"""Time [s] by which a policy may be asked for before it begins."""


class Succession:
    """Policies with absolute times, each in force until the next one begins; to be asked for as time passes."""

    def __init__(self) -> None:
        self._policies: list[Policy] = []

    def __len__(self) -> int:
        return len(self._policies)

    def add(self, policy: Policy) -> None:
        """Let a policy follow, unless it is the last one already."""
        if not self._policies or policy is not self._policies[-1]:
            self._policies.append(policy)

    def at(self, t: float) -> Policy:
        """The policy in force at time t [s]; those before it are forgotten."""
        while len(self._policies) > 1 and self._policies[1].starts[0] <= t + ROUNDING:
            del self._policies[0]
        return self._policies[0]

    def predicted(self, t: float, x: ArrayLike, later: float, controlled: bool = False) -> Array:
        """The state (nx,) at a later time [s] of a system in state x (nx,) at time t, where a plan may begin.

        x_r(later) ⊕ (x ⊖ x_r(t)): errors of a reference x_r in force stay until that of the next one begins.
        controlled: errors change as in steps that policies control, for systems with equal steps.
        """
        now = self.at(t)
        state = as_state(now.system, "x", x)
        ends = [*(float(policy.starts[0]) for policy in self._policies[1:]), np.inf]
        for policy, end in zip(self._policies, ends, strict=True):
            until = min(end, later)
            while controlled and until - t > ROUNDING:
                state, t = _stepped(policy, t, state, min(t + policy.system.dt, until))
            error = policy.system.difference(policy.reference(t), state)
            state, t = policy.system.integrate(policy.reference(until), error), until
            if until == later:
                break
        return np.asarray(state)


def _stepped(policy: Policy, t: float, x: Array, until: float) -> tuple[Array, float]:
    """The state (nx,) at a time [s] within a step from t, where it is x (nx,), and that time.

    It is off the reference by what is in between its errors at t and after the step.
    """
    system, dt = policy.system, policy.system.dt
    error = system.difference(policy.reference(t), x)
    with np.errstate(all="ignore"), suppress(ModelError):  # raised where there is no step
        after = system.difference(policy.reference(t + dt), system.step(x, policy(policy.inside(t), x)))
        error = error + (until - t) / dt * (after - error) if np.isfinite(after).all() else error
    return np.asarray(system.integrate(policy.reference(until), error)), until

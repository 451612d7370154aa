"""Outcome of a backward sweep, and names of what contracts the second order of the dynamics in it."""

from typing import NamedTuple

from ddp.compiling.portable import portable
from ddp.protocols import Array

VALUE, COSTATE, POLICY, AUTO = "value", "costate", "policy", "auto"
"""Vectors that contract the dynamics: V_x of the sweep (DDP), the costate (stagewise Newton), V_x under the last
policy, or what each sweep is told to take."""

NONE, KEPT, GIVEN = "none", "kept", "multipliers"
"""No contraction (Gauss-Newton); one of an earlier iterate; one with the iterate's own multipliers."""

BY_NUMBER = VALUE, COSTATE, POLICY
"""Multipliers by what `multiplier_of` returns."""


@portable
def multiplier_of(followed, torn, batched, costates):  # type: ignore[no-untyped-def]
    """Number of the multiplier where it is open: see `Backward.multiplier`."""
    if followed and not torn and batched:
        return 2
    return 1 if costates else 0


class Sweep(NamedTuple):
    """The outcome of a backward sweep. k (N, nu) and K (N, nu, n) are overwritten by the next sweep.

    d0: the cost's slope along the policy, downwards; NaN of full-space sweeps, which do not find it.
    expected: the decrease that the model promises for the full step.
    gradient: max-norm of the gradient of the total cost with respect to the controls; where a control is at a limit and
        pushed against it, that is zero.
    failed: the knot whose Q_uu is not positive definite (or not finite), -1 if all are.
    contraction: what contracted the dynamics' second order: "none", "value", "costate", "policy" or "kept".
    """

    k: Array
    K: Array
    d0: float
    expected: float
    gradient: float
    failed: int
    contraction: str = NONE

    def promised(self, alpha: float) -> float:
        """The decrease that the model promises for a step alpha; negative where closing gaps costs."""
        return alpha * self.d0 - alpha * alpha * (self.d0 - self.expected)

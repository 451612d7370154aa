"""Records of iterations, callbacks that are told of them, and endings of solves, each with a sentence."""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from ddp.protocols import Array

MAGNIFIED = 1e-3
"""Share of the cost from which on it counts what rounding of the controls changes, by the gradient."""

STEEP = 1e6
"""Gradients up to this are not taken for rounding."""

UNSTABLE = "the gradient is rounding that unstable dynamics magnify: gains keep to the motion, controls alone do not"
"""Words of what converges all the same."""


class Ending(Enum):
    """Endings of a solve; the value is a sentence without particulars."""

    CONVERGED = "the model expects no decrease beyond the tolerance"
    ROUNDING = "no further decrease is representable"
    STATIONARY = "no step lowers the cost, and the Hessian in the controls is not positive definite"
    ITERATIONS = "the limit of iterations was reached"
    STRUGGLES = "steps stay short"
    ROUNDS = "the limit of updates of the multipliers was reached"
    NO_STEP = "no step lowers the cost"
    INDEFINITE = "no regularisation makes the Hessian in the controls positive definite"
    DIVERGED = "every step diverges"
    NOT_FINITE = "a derivative is not finite"
    BOTTOMLESS = "the cost falls without end: it has no minimum"
    SADDLE = "a saddle or a maximum is not left"
    INFEASIBLE = "constraints cannot be met as far as can be seen from there"
    UNMET = "constraints are not met, and it is not known whether they can be"
    NO_START = "the guess has no finite cost"
    WORKER = "a worker ended"
    UNKNOWN = "it is not known why"

    @property
    def converged(self) -> bool:
        """Whether it is a success."""
        return self in (Ending.CONVERGED, Ending.ROUNDING)


class Status(str):
    """The sentence that a solve ended with, and its ``ending``, to tell endings apart without reading it."""

    ending: Ending

    def __new__(cls, sentence: str, ending: Ending = Ending.UNKNOWN) -> "Status":
        """Make one; a `str` cannot be changed later."""
        status = super().__new__(cls, sentence)
        status.ending = ending
        return status


class End(NamedTuple):
    """Ending of a descent, with the particulars that its sentence has."""

    ending: Ending
    said: str = ""


def converged(iterations: int, tolerance: float | None = None) -> str:
    """A sentence about a success; ``tolerance``: of the solver, where rounding ended the solve before."""
    if tolerance is None:
        return f"converged after {iterations} iterations"
    reason = f"no further decrease is representable (the tolerance is {tolerance:g})"
    return f"converged to rounding after {iterations} iterations, {reason}"


def unstable(gradient: float, U: Array, cost: float) -> str:
    """Words where rounding of controls U changes a cost, to first order; empty where it does not."""
    if not gradient > STEEP:
        return ""
    rounding = float(np.finfo(float).eps) * float(np.abs(U).max(initial=0.0)) * gradient
    return f" ({UNSTABLE})" if rounding > MAGNIFIED * abs(cost) else ""


def limit_reached(limit: int, expected: float | None = None) -> str:
    """A sentence about the last iteration that was allowed, and the decrease that it expected, if there was any."""
    last = "" if expected is None else f", the last with an expected decrease of {expected:.2g}"
    return f"the limit of {limit} iterations was reached{last}"


def infeasible(worst: str, proof: str) -> str:
    """A sentence about constraints that cannot be met, of which one is violated most, with the proof in words."""
    return f"infeasible as far as can be seen: {worst}; {proof}"


TOLD = 1e-9
"""Gaps, violations and regularisation up to this are rounding, and not printed of an iteration."""


class Record(NamedTuple):
    """One iteration.

    cost: total cost after it; with constraints, of the augmented Lagrangian, but of full-space steps that of the terms
        alone, without what violated `Soft` constraints cost. Where a limit of iterations ends a solve the last record
        has the cost, the gap and the violation of the motion that is returned, be that an earlier one.
    gradient: max-norm of its gradient in the controls, before it.
    expected: the decrease that the quadratic model promised for the full step; of a full-space step, were nothing open:
        while gaps or constraints are, it may be larger than the cost.  step: the fraction taken, 0 if none, more
        than 1 where the full step brought more than promised.
    regularization: mu on the diagonals of V_xx and Q_uu.
    hessian: model of the cost's Hessian: "gauss-newton"; "exact", mixed with it by ``blend``; "exact+lm", with mu added
        until it is positive definite (Levenberg-Marquardt); or a model of one's own. "curvature" is a step away from a
        saddle or a maximum, along negative curvature: what it brought is what was expected.
    blend: the share of the exact Hessian in the model, 0 to 1.
    seconds: wall time of the iteration, without loading and compiling kernels; some that are made at once share theirs.
    contraction: what contracted the dynamics' second order in the model: "value" (V_x, DDP), "policy" (V_x under the
        last gains), "costate" (Newton), "kept" (from an earlier iterate, see ``DDP.reuse``), "multipliers" (its own,
        of linear steps) or "none".
    gap: the largest component of ``f(X_k, U_k) ⊖ X_{k+1}`` after it, 0 once the states follow from the controls.
    violation: the largest of all constraints, after it.  penalty: the largest of all constraints; of linear steps, the
        barrier, 0 where what binds is held instead.
    full_space: whether it is a full-space step, "linear" of ``DDP.step``.
    """

    cost: float
    gradient: float
    expected: float
    step: float
    regularization: float
    hessian: str
    blend: float
    seconds: float
    gap: float
    contraction: str
    violation: float = 0.0
    penalty: float = 0.0
    full_space: bool = False

    def __str__(self) -> str:
        """The iteration in a line; ``repr`` has all numbers, to the last digit."""
        left = [("gap", self.gap), ("violation", self.violation), ("regularisation", self.regularization)]
        told = "".join(f"  {name} {value:.1e}" for name, value in left if value > TOLD)
        how = f"{self.hessian}, full space" if self.full_space else self.hessian
        promised = f"gradient {self.gradient:.1e}  expected decrease {self.expected:.1e}"
        return f"cost {self.cost:<11.6g}  {promised}  step {self.step:<6.3g}  {1e3 * self.seconds:.1f} ms  {how}{told}"


@runtime_checkable
class Watcher(Protocol):
    """Callback of `solve` that sees the iterates too."""

    def watch(self, record: Record, X: Array, U: Array) -> None:
        """Called after each iteration; X (N+1, nx), U (N, nu) are copies."""


def is_led(history: Sequence[Record]) -> bool:
    """Whether rollouts without constraints have led to where full-space steps began."""
    return not all(record.full_space for record in history)

"""Records of iterations, and callbacks that are told of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from ddp.protocols import Array


class Record(NamedTuple):
    """One iteration.

    cost: total cost after it; with constraints, of the augmented Lagrangian, but of full-space steps that of the terms
        alone, without what violated `Soft` constraints cost.
    gradient: max-norm of its gradient in the controls, before it.
    expected: the decrease that the quadratic model promised for the full step.  step: the fraction taken, 0
        if none, more than 1 where the full step brought more than promised.
    regularization: mu on the diagonals of V_xx and Q_uu.
    hessian: "gauss-newton", "exact" or "exact+lm", see `ddp.models`, or a model of one's own; "curvature" is
        a step away from a saddle or a maximum: what it brought is what was expected.
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


@runtime_checkable
class Watcher(Protocol):
    """Callback of `solve` that sees the iterates too."""

    def watch(self, record: Record, X: Array, U: Array) -> None:
        """Called after each iteration; X (N+1, nx), U (N, nu) are copies."""


def is_led(history: Sequence[Record]) -> bool:
    """Whether rollouts without constraints have led to where full-space steps began."""
    return not all(record.full_space for record in history)

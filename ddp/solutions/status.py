"""Why a solve ended: one of a few endings, and a sentence with the particulars."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

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

    def __new__(cls, sentence: str, ending: Ending = Ending.UNKNOWN) -> Status:
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
    rounding = float(np.finfo(float).eps) * float(np.abs(U).max(initial=0.0)) * gradient
    return f" ({UNSTABLE})" if gradient > STEEP and rounding > MAGNIFIED * abs(cost) else ""


def limit_reached(limit: int, expected: float | None) -> str:
    """A sentence about the last iteration that was allowed, and the decrease that it expected, if there was any."""
    last = "" if expected is None else f", the last with an expected decrease of {expected:.2g}"
    return f"the limit of {limit} iterations was reached{last}"


def infeasible(worst: str, proof: str) -> str:
    """A sentence about constraints that cannot be met, of which one is violated most, with the proof in words."""
    return f"infeasible as far as can be seen: {worst}; {proof}"

"""Records of full-space iterations."""

from __future__ import annotations

from ddp.models.attempt import EXACT, GAUSS_NEWTON, LEVENBERG_MARQUARDT
from ddp.solutions.record import Record
from ddp.starts import CLOSED
from ddp.sweeps.outcome import GIVEN, NONE


def record_of(
    seconds: float, cost: float, dual: float, expected: float, alpha: float, mu: float, blend: float, gap: float,
    violation: float, barrier: float,
) -> Record:  # fmt: skip
    """Record of an iteration, from the numbers that `iteration.report` writes."""
    hessian = GAUSS_NEWTON if blend == 0.0 else EXACT if mu == 0.0 else LEVENBERG_MARQUARDT
    contraction, left = GIVEN if blend > 0.0 else NONE, 0.0 if gap < CLOSED else gap
    return Record(
        cost, dual, expected, alpha, mu, hessian, blend, seconds, left, contraction, violation, barrier, full_space=True
    )

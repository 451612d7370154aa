"""Parts of a full-space iteration that work on a `Point`: Python calls its methods, kernels those of compiled.py.

`iteration.py` is made of them, and of decisions that are functions of numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ddp.interior import row_steps
from ddp.interior.barrier import proximal


class Way(NamedTuple):
    """Numbers of the step of a sweep, as of a `trials.Move`; failed: the knot at which the sweep failed, or -1."""

    failed: int
    longest: float
    slope: float
    expected: float


NO_WAY = Way(0, 1.0, 0.0, 0.0)
"""Result of a sweep that failed."""


class Worth(NamedTuple):
    """Numbers of a `trials.Trial`, without its arrays."""

    cost: float
    barrier: float
    theta: float
    gap: float
    missed: float


def judge(p: Any) -> None:
    """Find the errors of a point: `Point.judge`, after `Point.contract`."""
    p.contract()
    p.judge()


def arrive(p: Any) -> None:
    """Compute derivatives where a step has led, and the errors there: `Point.arrive`."""
    p.arrive()


def judged(p: Any) -> Any:
    """The errors of a point: a `Judged`."""
    return p.judged


def swept(p: Any, blend: float, mu: float, again: bool) -> Any:
    """Sweep, and return the step that it leads to, a `Way`: `Point.swept`."""
    return p.swept(blend, mu, again)


def priced_openness(p: Any) -> float:
    """Gaps and residuals times their multipliers: `Point.priced_openness`."""
    return float(p.priced_openness())


def priced_rows(p: Any) -> float:
    """Residuals of rows times their multipliers: `Point.priced_rows`."""
    return float(p.priced_rows())


def along(p: Any, alpha: float) -> Any:
    """The trial a fraction alpha along the last step: `Point.along`."""
    return p.along(alpha)


def rolled(p: Any, alpha: float) -> Any:
    """The trial a fraction alpha along the last step whose states follow from controls: `Point.rolled`."""
    return p.rolled(alpha)


def accept(p: Any, trial: Any, alpha: float) -> None:
    """Go to a trial: `Point.accept`."""
    p.accept(trial, alpha)


def penalised(p: Any) -> float:
    """The barrier function at a point."""
    return float(p.bounds.value(p.barrier))


def left_open(p: Any) -> float:
    """The largest residual of an equality that the proximal method leaves open after a full step."""
    if p.equalities == 0:
        return 0.0
    return float(proximal(p) * row_steps.largest_step(p.last.rows, p.bounds.kind))


def violation(p: Any) -> tuple[float, float]:
    """The largest violation of an elastic row, and the price of all violations."""
    most, total = p.bounds.violation
    return most, float(p.bounds.price_of_all) * total

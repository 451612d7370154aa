# mypy: allow-untyped-defs, allow-untyped-calls
"""The filter (Wächter & Biegler 2006): steps lower the barrier function or close what is open.

Its entries are pairs of a residual θ and a barrier function φ that later iterates must undercut in one of the two.
"""

import numpy as np

from ddp.compiling.kernel import kernel
from ddp.compiling.portable import portable
from ddp.protocols import Array

FALL, RISE = 1e-5, 1e-8
"""By how much an entry of the filter has to be undercut: of its residual, and in the cost, of its residual times the
cost that counts as one."""

SLOPE, COST_POWER, RESIDUAL_POWER, NEARLY = 1e-4, 2.3, 1.1, 1e-4
"""Armijo's share; when a step is to lower the cost: (-α slope)^COST_POWER > residual^RESIDUAL_POWER, in units of
the cost that counts as one, and the residual is smaller than `NEARLY` times the first one, or 0.1."""

MOST, MOST_OF_GAPS = 10.0, 3.0
"""Residuals are at most so many times the largest of one and those that the solve and this barrier began with; where
they are gaps alone."""

NARROWER, NARROWEST, KEPT = 0.7, 1e-8, 0.5
"""Share of the most that gaps may be which is left after a step within limits of controls, unless gaps are larger than
`MOST_OF_GAPS` allows: Gauss-Newton's steps off a saddle open gaps again, and go astray where they may open them far.
Gaps that count as nothing, so that rounding is not refused. Share of its slope's promise that a shorter step keeps
where its model is good: then, in long solves, gaps may be larger again, by as much. Small ones would keep all steps
short that follow."""

RISEN = 100.0
"""A step raises the barrier function by so many times its size at most, or times the cost that counts as one, however
much it closes: where motion is unstable a rollout closes all gaps at a cost that nothing recovers from."""

EPSILON = 10 * 2.2e-16

ENTRIES = 512
"""Entries that are remembered; where there are more, the oldest is forgotten."""


class Filter:
    """Numbers of a filter.

    allowed: `MOST`, or `MOST_OF_GAPS`.   first: residual of the first iterate, nearly: a small share of it.
    most: the largest one that is accepted.   unit: the cost that counts as one.
    thetas, phis (ENTRIES,): the first ``entries`` are those of the filter.
    """

    def __init__(self, thetas: Array, phis: Array) -> None:
        self.allowed, self.first, self.nearly, self.most, self.entries = MOST, 0.0, 0.0, np.inf, 0
        self.unit, self.thetas, self.phis = 1.0, thetas, phis


@portable
def begin_filter(s, theta, constrained, unit):
    """Begin with a residual; ``constrained``: whether it is not of gaps alone; unit: the cost that counts as one."""
    s.unit = unit
    s.allowed = MOST if constrained else MOST_OF_GAPS
    s.first, s.nearly = theta, NEARLY * max(0.1, theta)
    clear_filter(s, theta)


@portable
def clear_filter(s, theta):
    """Forget all entries, for the barrier function has changed, at an iterate with a residual."""
    s.entries = 0
    s.most = s.allowed * max(1.0, s.first, theta)


@portable
def funnel(s, theta, kept):
    """Allow smaller residuals from an iterate on, whose own is theta: a funnel about the steps that are left.

    kept: share of its promise that a shorter step has kept, of which `KEPT` widens the funnel; 0 of others.
    """
    if kept >= KEPT:
        s.most = min(s.most / NARROWER, s.allowed * max(1.0, s.first))
        return
    s.most = min(s.most, max(NARROWER * s.most, s.allowed * max(theta, NARROWEST)))


@portable
def accepts(s, theta, phi, theta0, phi0, slope, alpha):
    """Whether a trial θ, φ is accepted, and whether it was for its cost, so that no entry is due.

    theta0, phi0: θ, φ of the iterate.   slope: of φ along the step.
    """
    slack, unit = EPSILON * abs(phi0), min(s.unit, abs(phi0))
    if not (theta <= s.most and phi - phi0 <= RISEN * max(s.unit, abs(phi0))):
        return False, False
    for j in range(s.entries):
        if theta > (1.0 - FALL) * s.thetas[j] and phi >= s.phis[j] - RISE * unit * s.thetas[j] + slack:
            return False, False
    gain = -alpha * slope
    if theta0 <= s.nearly and gain > 0.0 and gain**COST_POWER > unit**COST_POWER * theta0**RESIDUAL_POWER:
        return phi <= phi0 - SLOPE * gain + slack, True
    better = theta <= (1.0 - FALL) * theta0 or phi <= phi0 - RISE * unit * theta0 + slack
    return better, False


@kernel
def enter(s, theta, phi):
    """Enter an iterate that was left by a step of which the cost alone did not decide."""
    oldest, kept = 1 if s.entries == ENTRIES else 0, 0
    for j in range(oldest, s.entries):
        if s.thetas[j] < theta or s.phis[j] < phi:
            s.thetas[kept], s.phis[kept] = s.thetas[j], s.phis[j]
            kept += 1
    s.thetas[kept], s.phis[kept] = theta, phi
    s.entries = kept + 1

"""The filter (Wächter & Biegler 2006): steps lower the barrier function or close what is open."""

from __future__ import annotations

FALL, RISE = 1e-5, 1e-8
"""By how much an entry of the filter has to be undercut: of its residual, and in the cost, of its residual too."""

SLOPE, COST_POWER, RESIDUAL_POWER, NEARLY = 1e-4, 2.3, 1.1, 1e-4
"""Armijo's share; when a step is to lower the cost: (-α slope)^COST_POWER > residual^RESIDUAL_POWER, and the residual
is smaller than `NEARLY` times the first one, or 0.1."""

MOST, MOST_OF_GAPS = 10.0, 3.0
"""Residuals are at most so many times the largest of one and those that the solve and this barrier began with; where
they are gaps alone."""

EPSILON = 10 * 2.2e-16


class Filter:
    """Pairs of a residual θ and a barrier function φ that later iterates must undercut in one of the two."""

    def __init__(self, first: float, constrained: bool) -> None:
        self._allowed = MOST if constrained else MOST_OF_GAPS
        self._first, self._nearly = first, NEARLY * max(0.1, first)
        self.clear(first)

    def clear(self, theta: float) -> None:
        """Forget all, for the barrier function has changed, at an iterate with a residual."""
        self.entries: list[tuple[float, float]] = []
        self._most = self._allowed * max(1.0, self._first, theta)

    def accepts(
        self, theta: float, phi: float, before: tuple[float, float], slope: float, alpha: float
    ) -> tuple[bool, bool]:
        """Whether a trial is accepted, and whether it was for its cost, so that no entry is due.

        before: θ, φ of the iterate.   slope: of φ along the step.
        """
        theta0, phi0 = before
        slack = EPSILON * abs(phi0)
        if not (theta <= self._most and phi < float("inf")):
            return False, False
        for theta_j, phi_j in self.entries:
            if theta > (1.0 - FALL) * theta_j and phi >= phi_j - RISE * theta_j + slack:
                return False, False
        gain = -alpha * slope
        if theta0 <= self._nearly and gain > 0.0 and gain**COST_POWER > theta0**RESIDUAL_POWER:
            return phi <= phi0 - SLOPE * gain + slack, True
        better = theta <= (1.0 - FALL) * theta0 or phi <= phi0 - RISE * theta0 + slack
        return better, False

    def add(self, theta: float, phi: float) -> None:
        """Enter an iterate that was left by a step of which the cost alone did not decide."""
        self.entries = [(t, p) for t, p in self.entries if t < theta or p < phi]
        self.entries.append((theta, phi))

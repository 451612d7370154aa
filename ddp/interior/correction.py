"""Hessians of a full-space step, tried in turn until a sweep finds one positive definite: its inertia correction."""

from __future__ import annotations

from collections.abc import Iterator

BLENDED, DIRECT = (1.0, 0.5, 0.125, 0.0), (1.0, 0.0)
"""Shares of the exact Hessian that are tried in turn; within limits of controls alone blends do not help."""

PROOF = 0.5
"""The share of the exact Hessian without which full-space steps have not proved themselves."""

FIRST_SHIFT, SMALLEST_SHIFT, RISES, DECAY, MOST_SHIFT = 1e-4, 1e-10, (100.0, 8.0), 3.0, 1e12
"""mu, added to Hessians where none is positive definite: the first, the smallest one, by how much it rises first and
later, and falls from iterate to iterate."""

STIFFER = 10.0
"""By how much mu rises after steps that were too long for their models."""


class Correction:
    """Shares of the exact Hessian, and mu I, which is added where none of them is positive definite.

    mu: the one that the last sweep needed, 0 for none.   stiff: whether the last step was too long for its model: then
    no Hessian is tried without mu, which does not fall either.
    """

    def __init__(self, blends: tuple[float, ...]) -> None:
        self.blends, self.mu, self.stiff = blends, 0.0, False

    def clear(self) -> None:
        """Begin with another function to be minimised."""
        self.mu, self.stiff = 0.0, False

    def judge(self, stiff: bool, unit: float) -> None:
        """Raise mu after a step that was too long for its model; unit: the cost that counts as one."""
        self.stiff = stiff
        if stiff:
            self.mu = max(FIRST_SHIFT * unit, STIFFER * self.mu)

    def hessians(self, unit: float, proving: bool) -> Iterator[tuple[float, float]]:
        """Shares of the exact Hessian and mu, one after the other; proving: those of at least `PROOF` alone."""
        if proving or not self.stiff:
            for blend in self.blends:
                if proving and blend < PROOF:
                    break
                yield blend, 0.0
        if proving:
            return
        first, later = RISES
        mu, rise = (FIRST_SHIFT * unit, first) if self.mu == 0.0 else (self.mu, later)
        if self.mu > 0.0 and not self.stiff:
            mu = max(mu / DECAY, SMALLEST_SHIFT * unit)
        while mu <= MOST_SHIFT * unit:
            yield self.blends[-1], mu
            mu *= rise

# mypy: allow-untyped-defs, allow-untyped-calls
"""Hessians of a full-space step, tried in turn until a sweep finds one positive definite: its inertia correction.

First shares of the exact Hessian, then mu I as well. ``Course.mu``: the one that the last sweep needed, 0 for none.
``Course.stiff``: whether the last step was too long for its model: then no Hessian is tried without mu, which does not
fall either.
"""

from __future__ import annotations

from ddp.compiling.kernel import kernel
from ddp.interior.course import unit
from ddp.interior.passes import NO_WAY, swept

BLENDED, DIRECT = (1.0, 0.5, 0.125, 0.0), (1.0, 0.0)
"""Shares of the exact Hessian that are tried in turn; within limits of controls alone blends do not help."""

PROOF = 0.5
"""The share of the exact Hessian without which full-space steps have not proved themselves."""

FIRST_SHIFT, SMALLEST_SHIFT, RISES, DECAY, MOST_SHIFT = 1e-4, 1e-10, (100.0, 8.0), 3.0, 1e12
"""mu, added to Hessians where none is positive definite: the first, the smallest one, by how much it rises first and
later, and falls from iterate to iterate."""

STIFFER = 10.0
"""By how much mu rises after steps that were too long for their models."""


@kernel
def judge_step(s, p, stiff):
    """Raise mu after a step that was too long for its model."""
    s.stiff = 1 if stiff else 0
    if stiff:
        s.mu = max(FIRST_SHIFT * unit(p), STIFFER * s.mu)


@kernel
def first_definite(s, p):
    """The step of the first Hessian that is positive definite; where there are proofs due, of at least `PROOF`."""
    proving, shares, way, again = s.done < s.proof, len(DIRECT) if s.within else len(BLENDED), NO_WAY, False
    s.shift = 0.0
    if proving or not s.stiff:
        for i in range(shares):
            s.blend = DIRECT[i] if s.within else BLENDED[i]
            if proving and s.blend < PROOF:
                break
            way = swept(p, s.blend, 0.0, again)
            again = True
            if way.failed < 0:
                s.exact = 1 if s.blend == 1.0 else 0
                return way
    s.exact = 0
    if proving:
        return way
    one, s.blend = unit(p), 0.0
    s.shift, rise = FIRST_SHIFT * one, RISES[0]
    if s.mu > 0.0:
        s.shift, rise = s.mu if s.stiff else max(s.mu / DECAY, SMALLEST_SHIFT * one), RISES[1]
    while s.shift <= MOST_SHIFT * one:
        way = swept(p, 0.0, s.shift, again)
        again = True
        if way.failed < 0:
            s.mu = s.shift
            return way
        s.shift *= rise
    return way

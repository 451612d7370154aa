# mypy: allow-untyped-defs, allow-untyped-calls
"""Hessians of a full-space step, tried in turn until a sweep finds one positive definite: its inertia correction.

First shares of the exact Hessian, then mu I as well: in long solves within limits of controls alone, see `is_long`,
added to the exact one before it is to Gauss-Newton's. ``Course.served``: place of the share less than one that served
last, 0 for none. ``Course.mu``: the one that the last sweep needed, 0 for none. ``Course.stiff``: whether no Hessian is
tried without mu: the last step was too long for its model, or only mu has kept it from that, and mu is not small yet.
"""

from ddp.compiling.kernel import kernel
from ddp.compiling.portable import portable
from ddp.interior.course import unit_of_shifts
from ddp.interior.passes import NO_WAY, swept

BLENDED = 1.0, 0.5, 0.125, 0.0
"""Shares of the exact Hessian that are tried in turn; within limits of controls alone only the first and the last, for
`FROM_AFAR` iterations."""

FROM_AFAR = 40
"""Iterations within limits of controls alone that take Gauss-Newton's steps where the exact Hessian is not positive
definite: from afar they lead further. The default has no more of them, see `solve.PATIENCE_WITHIN`; where there are
more they converge linearly, and steps that stay short find no end."""

SHARES = 1.0, *(1.0 - 0.5 / 3.0**k for k in range(6, 0, -1)), *BLENDED[1:]
"""These with more of nearly one: what each lacks falls to a third, as IPOPT's perturbation of Hessians does."""

HALF, NONE = SHARES.index(0.5), len(SHARES) - 1
"""Places of the shares one half and zero."""

PROOF = 0.5
"""The share of the exact Hessian without which full-space steps have not proved themselves."""

FIRST_SHIFT, SMALLEST_SHIFT, RISES, DECAY, MOST_SHIFT = 1e-4, 1e-20, (100.0, 8.0), 3.0, 1e12
"""mu, added to Hessians where none is positive definite or steps were too long: the first, the smallest one, by how
much it rises first and later, and falls from iterate to iterate."""

STIFFER = 10.0
"""By how much mu rises after steps that were too long for their models though they had it."""


@portable
def is_long(s):
    """Whether a solve within limits of controls alone has taken `FROM_AFAR` iterations."""
    return s.within != 0 and s.done - s.fell >= FROM_AFAR


@portable
def second_share(served, alpha, within):
    """Place of the share that is tried after the exact Hessian; ``within`` limits, see `FROM_AFAR`, Gauss-Newton's.

    After a full step it is nearer to that than the one that ``served`` last: shares that stay small where
    little is lacking converge linearly. After shorter steps it is half: Hessians that are positive definite by little
    promise too much.
    """
    if within:
        return NONE
    return HALF if alpha < 1.0 or served == 0 else max(1, served - 1)


@portable
def revise_shift(s, one, short, full, constrained):
    """Revise mu, and whether it stays, after a step; one: the cost that counts as one.

    short: whether that was too long for its model.   full: whether it was taken as far as bounds allow.
    constrained: whether there are constraints, which shorten steps that are not too long: mu does not stay after these.
    Else mu falls after a full step, and models do without it once it is the first one: a step without mu that fails
    says nothing about the mu with which the step before was taken in full: in long solves that one is taken again.
    """
    had, first, s.stiff = s.shift > 0.0, FIRST_SHIFT * one, 1 if short else 0
    if short:
        s.mu = STIFFER * s.mu if had else s.mu
        if s.mu == 0.0 or not is_long(s):
            s.mu = max(first, s.mu)
    elif had and not constrained:
        if full:
            s.mu /= DECAY
        s.stiff = 1 if s.mu > first or not full else 0


@kernel
def first_definite(s, p):
    """The step of the first Hessian that is positive definite; where there are proofs due, of at least `PROOF`."""
    proving, way, again = s.done < s.proof, NO_WAY, False
    s.shift, long = 0.0, is_long(s)
    if proving or not s.stiff:
        i, second = 0, second_share(s.served, s.alpha, s.within != 0 and not long)
        while i <= NONE and not (proving and SHARES[i] < PROOF):
            s.blend = SHARES[i]
            way = swept(p, s.blend, 0.0, again)
            again = True
            if way.failed < 0:
                s.exact = 1 if i == 0 else 0
                s.served = i if i > 0 else s.served
                return way
            i = second if i == 0 else i + 1
    s.exact = 0
    if proving:
        return way
    one = unit_of_shifts(p)
    s.shift, rise = FIRST_SHIFT * one, RISES[0]
    if s.mu > 0.0:
        s.shift, rise = s.mu if s.stiff else max(s.mu / DECAY, SMALLEST_SHIFT * one), RISES[1]
    while s.shift <= MOST_SHIFT * one:
        s.blend = 1.0 if long else 0.0
        way = swept(p, s.blend, s.shift, again)
        again = True
        if way.failed >= 0 and long:
            s.blend = 0.0
            way = swept(p, 0.0, s.shift, again)
        if way.failed < 0:
            s.mu = s.shift
            return way
        s.shift *= rise
    return way

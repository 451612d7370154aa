# mypy: allow-untyped-defs, allow-untyped-calls
"""Hessians of a full-space step, tried in turn until a sweep finds one positive definite: its inertia correction.

First shares of the exact Hessian, then mu I as well: in long solves within limits of controls alone, see `is_long`,
added to the exact one before it is to Gauss-Newton's. ``Course.served``: place of the share less than one that served
last, 0 for none; place: that of the share that is tried; chosen: whether blend and shift are what is tried next.
``Course.mu``: the one that the last sweep needed, 0 for none. ``Course.stiff``: whether no Hessian is tried without mu:
the last step was too long for its model, or only mu has kept it from that, and mu is not small yet.
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
def choose_first(s, p):
    """Choose the Hessian that is tried first; whether there is one."""
    s.place, s.blend, s.shift = 0, SHARES[0], 0.0
    return begin_shifts(s, p) if s.stiff and not is_proving(s) else True


@kernel
def choose_next(s, p):
    """Choose the Hessian that is tried after one that is not positive definite; whether there is one."""
    long = is_long(s)
    if s.shift == 0.0:
        s.place = second_share(s.served, s.alpha, s.within != 0 and not long) if s.place == 0 else s.place + 1
        if s.place <= NONE and not (is_proving(s) and SHARES[s.place] < PROOF):
            s.blend = SHARES[s.place]
            return True
        return False if is_proving(s) else begin_shifts(s, p)
    if long and s.blend == 1.0:
        s.blend = 0.0
        return True
    s.shift *= RISES[1] if s.mu > 0.0 else RISES[0]
    s.blend = 1.0 if long else 0.0
    return s.shift <= MOST_SHIFT * unit_of_shifts(p)


@kernel
def begin_shifts(s, p):
    """Choose the first mu that is tried; whether it is not too large."""
    one = unit_of_shifts(p)
    s.shift, s.blend = FIRST_SHIFT * one, 1.0 if is_long(s) else 0.0
    if s.mu > 0.0:
        s.shift = s.mu if s.stiff else max(s.mu / DECAY, SMALLEST_SHIFT * one)
    return s.shift <= MOST_SHIFT * one


@kernel
def is_proving(s):
    """Whether Hessians still have to prove themselves: without mu, and with at least `PROOF` of the exact one."""
    return s.done < s.proof


@kernel
def first_definite(s, p):
    """The step of the first Hessian that is positive definite; s.chosen: whether others' sweeps have come to it."""
    again, way = s.chosen != 0, NO_WAY
    goes_on, s.chosen = again or choose_first(s, p), 0
    while goes_on:
        way = swept(p, s.blend, s.shift, again)
        if way.failed < 0:
            s.exact = 1 if s.shift == 0.0 and s.place == 0 else 0
            if s.shift > 0.0:
                s.mu = s.shift
            elif s.place > 0:
                s.served = s.place
            return way
        goes_on, again = choose_next(s, p), True
    s.exact = 0
    return way

"""Terms of stretches of knots: which knots they are, and the part of a term that belongs to some of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, cast

import numpy as np

from ddp.errors import ProblemError, said
from ddp.protocols import Array, BatchTerm, Dynamics, Paced, VaryingTerm


def check_stretches(during: Any, horizon: int) -> None:
    """A mapping whose keys are ranges of knots without gaps."""
    if not isinstance(during, Mapping):
        raise ProblemError(f"during: expected a mapping of ranges to lists of terms, got {type(during).__name__}")
    for knots in during:
        if not isinstance(knots, range) or knots.step != 1 or not 0 <= knots.start < knots.stop <= horizon:
            raise ProblemError(f"during: expected ranges of knots within range(0, {horizon}), got {said(knots)}")


def check_length(name: str, term: BatchTerm, knots: range) -> None:
    """A term that differs from knot to knot has as many knots as its stretch."""
    count = varying(term)
    if count is not None and count != len(knots):
        raise ProblemError(f"{name}: expected a term of {len(knots)} knots, those of {knots}, got one of {count}")


def varying(term: BatchTerm) -> int | None:
    """For how many knots a term is made, if it differs from one to the next."""
    count = getattr(term, "knots", None)  # most have none, and it takes long to ask whether an object has a protocol
    return count if count is not None and isinstance(term, VaryingTerm) else None


def part(term: BatchTerm, start: int, stop: int) -> BatchTerm:
    """Part of a term for the knots start .. stop-1, counted from the beginning of its stretch."""
    return term if varying(term) is None else cast(VaryingTerm, term).part(start, stop)


def durations_of(dynamics: Dynamics, horizon: int) -> Array:
    """How long each of the knots takes (N,) [s]."""
    if not isinstance(dynamics, Paced):
        return np.full(horizon, dynamics.dt)
    return dynamics.step_durations(horizon)


def weights_of(dynamics: Dynamics, horizon: int) -> Array:
    """Weights of running costs at each of the knots (N,): how long it takes, and dt at an event."""
    lasting = durations_of(dynamics, horizon)
    return np.where(lasting > 0.0, lasting, dynamics.dt)


def even(weights: Array, knots: range) -> Iterator[range]:
    """The runs of knots with the same weight."""
    own = weights[knots.start : knots.stop]
    edges = [0, *np.flatnonzero(np.diff(own)) + 1, len(own)]
    for begin, end in pairwise(edges):
        yield range(knots.start + int(begin), knots.start + int(end))

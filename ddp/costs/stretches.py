"""Terms of stretches of knots: which knots they are, and the part of a term that belongs to some of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import cast

import numpy as np

from ddp.costs.batch import BatchTerm, ability
from ddp.errors import ProblemError
from ddp.protocols import Array
from ddp.systems.system import System
from ddp.systems.system import ability as of_system


def check_length(name: object, term: BatchTerm, knots: range) -> None:
    """Check that a term that differs from knot to knot has as many knots as its stretch; name: printed in errors."""
    count = varying(term)
    if count is not None and count != len(knots):
        raise ProblemError(f"{name}: expected a term of {len(knots)} knots, those of {knots}, got one of {count}")


def varying(term: BatchTerm) -> int | None:
    """Number of knots that a term is made for, if it differs from one to the next."""
    return cast("int | None", ability(term, "knots"))


def part(term: BatchTerm, start: int, stop: int) -> BatchTerm:
    """Part of a term for the knots start .. stop-1, counted from the beginning of its stretch."""
    return term if varying(term) is None else cast(BatchTerm, ability(term, "part")(start, stop))


def durations_of(dynamics: System, horizon: int) -> Array:
    """Duration (N,) of each of the knots [s]."""
    lasting = of_system(dynamics, "step_durations")
    return np.full(horizon, dynamics.dt) if lasting is None else np.asarray(lasting(horizon))


def weights_of(dynamics: System, horizon: int) -> Array:
    """Weights of running costs at each of the knots (N,): how long it takes, and dt at an event."""
    lasting = durations_of(dynamics, horizon)
    return np.where(lasting > 0.0, lasting, dynamics.dt)


def even(weights: Array, knots: range) -> Iterator[range]:
    """The runs of knots with the same weight."""
    own = weights[knots.start : knots.stop]
    edges = [0, *np.flatnonzero(np.diff(own)) + 1, len(own)]
    for begin, end in pairwise(edges):
        yield range(knots.start + int(begin), knots.start + int(end))

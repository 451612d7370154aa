"""Users' functions in other processes: modules are imported anew there, without what has been set in them since."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from ddp.constraints.constraint import DerivedConstraint
from ddp.constraints.jitted import CompiledJittedConstraint
from ddp.costs.batch import inside
from ddp.costs.jitted import CompiledDerivedTerm
from ddp.costs.terms import DerivedTerm
from ddp.costs.traced import TracedTerm
from ddp.errors import ProblemError
from ddp.packages import PACKAGES
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.systems.by_knot import ByKnot
from ddp.systems.system import ability

SAME, ROUNDING, NOISE = 1e-6, 1e-12, 100.0
"""Differences below which values of a function are the same: beside the largest of them, as they are, and beside what
they differ by where one process asks twice, as those of random numbers do."""

Sent = tuple[Mapping[str, bytes], Mapping[str, Array]]
"""Digests of functions that were traced, and values of others, by the names of their parts."""


def digests_of(problem: Problem) -> dict[str, bytes]:
    """Digests of the functions that were traced, with the numbers that they read, by the names of their parts."""
    found = {"dynamics": getattr(problem.dynamics, "digest", b"")}
    for name, term, _ in problem.terms():
        found |= {name: own.traced.digest} if isinstance(own := inside(term), TracedTerm) else {}
    for placed in problem.placed:
        if (traced := getattr(inside(placed.constraint), "traced", None)) is not None:
            found[placed.name] = traced.digest
    return found


def sent_of(problem: Problem) -> Sent:
    """All that `check_sent` compares: `digests_of`, and two values of each function that Python or numba calls."""
    return digests_of(problem), _values(problem)


def check_sent(problem: Problem, sent: Sent) -> None:
    """Raise ProblemError, naming the part, unless functions here are those that were ``sent``."""
    (digests, values), (their_digests, theirs) = sent_of(problem), sent
    differing = [name for name, here in digests.items() if their_digests.get(name) != here]
    others = [name for name, here in values.items() if name in theirs and _differ(here, theirs[name])]
    again = _values(problem) if others else {}
    differing += [name for name in others if name in again and _differ(values[name], theirs[name], again[name])]
    if differing:
        raise ProblemError(
            f"{differing[0]}: reads other values in another process than here: modules are imported anew there, without"
            " what has been set in them since; give values as attributes of an object that is sent, or as parameters,"
            " or use threads"
        )


def _differ(here: Array, there: Array, again: Array | None = None) -> bool:
    """Whether values are others than ``there``, by more than they are when they are asked for ``again``."""
    if here.shape != there.shape:
        return True
    size, noise = np.abs(there[np.isfinite(there)]).max(initial=0.0), 0.0 if again is None else _apart(here, again)
    return _apart(here, there) > max(SAME * size, ROUNDING, NOISE * noise)


def _apart(a: Array, b: Array) -> float:
    """The largest difference, infinite where one alone is no number or infinite."""
    some = np.isfinite(a) & np.isfinite(b)
    if a.shape != b.shape or not np.array_equal(a[~some], b[~some], equal_nan=True):
        return np.inf
    return float(np.abs(a[some] - b[some]).max(initial=0.0))


@np.errstate(all="ignore")
def _values(problem: Problem) -> dict[str, Array]:
    """Values of users' functions that are not traced, near x0; without those that raise something there."""
    found = dict[str, Array]()
    own, system = (DerivedTerm, CompiledDerivedTerm, DerivedConstraint, CompiledJittedConstraint), problem.dynamics
    asked: list[tuple[str, Callable[[Array, Array], Any]]] = []
    if not ability(system, "thread_safe") or (isinstance(system, ByKnot) and not system.digest):
        asked.append(("dynamics", lambda X, U: [system.step(x, u) for x, u in zip(X, U, strict=True)]))
    parts: list[tuple[str, Any]] = [(name, term) for name, term, _ in problem.terms()]
    for name, part in parts + [(placed.name, placed.constraint) for placed in problem.placed]:
        innermost = inside(part)
        if isinstance(innermost, own) or type(innermost).__module__.partition(".")[0] not in PACKAGES:
            asked.append((name, part.values))
    if asked:
        u = np.linspace(0.1, 0.2, system.nu)
        try:
            X = np.array([problem.x0, system.integrate(problem.x0, np.linspace(0.1, 0.2, system.n))])
            U = np.clip([u, -u], problem.lower[0], problem.upper[0])
        except Exception:  # whatever a user's own integrate raises
            return found
        for name, function in asked:
            with suppress(Exception):  # whatever a user's function raises: a solve tells of it, with its knot
                found[name] = np.array(function(X, U), dtype=float)
    return found

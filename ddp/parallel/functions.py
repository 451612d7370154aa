"""Users' functions in other processes: modules are imported anew there, without what has been set in them since."""

from collections.abc import Mapping

from ddp.costs.traced import TracedTerm
from ddp.errors import ProblemError
from ddp.problem import Problem


def digests_of(problem: Problem) -> dict[str, bytes]:
    """Digests of the functions that were traced, with the numbers that they read, by the names of their parts."""
    found = {"dynamics": getattr(problem.dynamics, "digest", b"")}
    for name, term, _ in problem.terms():
        found |= {name: term.traced.digest} if isinstance(term, TracedTerm) else {}
    for placed in problem.placed:
        if (traced := getattr(placed.constraint, "traced", None)) is not None:
            found[placed.name] = traced.digest
    return found


def check_sent(problem: Problem, sent: Mapping[str, bytes]) -> None:
    """Raise ProblemError, naming the part, unless functions here are those that were ``sent``."""
    for name, digest in digests_of(problem).items():
        if sent.get(name) != digest:
            raise ProblemError(
                f"{name}: reads other values in another process than here: modules are imported anew there, without"
                " what has been set in them since; give values as attributes of an object that is sent, or as"
                " parameters, or use threads"
            )

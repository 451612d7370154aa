"""Verdicts on what comes of a hostile input: a sound result, or a short sentence that names the argument."""

import dataclasses
import warnings
from typing import Any

import numpy as np

from abuse.subjects import Case
from ddp.errors import ModelError, ProblemError, SolveError

LONGEST, MOST_LINES = 500, 4
"""Of a message: characters and lines."""

REFUSALS = ProblemError, ModelError, SolveError

GOOD = "result", "refused"


def outcome(case: Case) -> str:
    """"result", "refused: ...", or what is wrong in other words."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "Glyph")  # of fonts that lack a letter
        try:
            result = case.run()
        except REFUSALS as refusal:
            return judged(case, refusal)
        except BaseException as failure:
            return f"raises {type(failure).__name__}: {str(failure)[:150]!r}{where(failure)}"
        if case.hostile.same:
            valid = case.subject.call(**case.subject.arguments)
            if not same(result, valid):
                return "another result than that of the same numbers"
    return "result"


def judged(case: Case, refusal: Exception) -> str:
    """Whether a refusal is a good one."""
    message = str(refusal)
    if len(message) > LONGEST or message.count("\n") >= MOST_LINES:
        return f"a message of {len(message)} characters, {1 + message.count(chr(10))} lines: {message[:150]!r}"
    if case.hostile.same:
        return f"refuses the same numbers: {message}"
    names = case.argument, *case.subject.others.get(case.argument, ())
    others = tuple(name + end for name in case.subject.tried() for end in (": ", "["))  # where two contradict
    if not any(name.lower() in message.lower() for name in names) and not message.startswith(others):
        return f"does not name {case.argument}: {message}"
    if "any)" in message or "(any" in message:
        return f"a shape that nobody reads: {message}"
    return f"refused: {message}"


def where(failure: BaseException) -> str:
    """The last place of ours that an exception passed, for the table."""
    place, trace = "", failure.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if any(f"/{room}/" in file for room in ("ddp", "dynamics", "problems", "viz")) and "site-packages" not in file:
            place = f" at {'/'.join(file.rsplit('/', 2)[-2:])}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def same(a: Any, b: Any) -> bool:
    """Whether two results have the same numbers."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return a.shape == b.shape and bool(np.allclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True))
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return same(np.array(a), np.array(b))
    if dataclasses.is_dataclass(a):
        kept = [item.name for item in dataclasses.fields(a) if isinstance(getattr(a, item.name), (np.ndarray, float))]
        return all(same(getattr(a, name), getattr(b, name)) for name in kept if not name.endswith("seconds"))
    return type(a) is type(b)

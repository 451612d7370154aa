"""Exceptions of functions of users that say that there is no value at some point, rather than that they are wrong."""

import dis
import re
from pathlib import Path
from types import FrameType, FunctionType

import numpy as np

_SINGULAR = (ArithmeticError, np.linalg.LinAlgError)
"""Exceptions of a function where it is not defined, as of 1.0 / 0 or a singular matrix; see `is_undefined`."""

_BEYOND = re.compile(
    "math domain error|expected (a (positive|nonnegative|finite|noninteger|number in|number between)|argument value)"
)
"""Begins what functions of `math` say where they have no value: before Python 3.14, and since."""

_TYPES = {
    "isinstance", "issubclass", "type", "hasattr", "getattr", "callable", "dtype", "__class__", "isscalar",
    "repr", "str",
}  # fmt: skip
"""Names by which functions look at types."""


def is_undefined(reason: BaseException | None) -> bool:
    """Whether a function has no value there, and is not wrong: nor is it where its own code says so with a ValueError.

    Those that Python and NumPy raise, but for math.log(0.0) and the like, are of shapes that do not fit.
    """
    if isinstance(reason, _SINGULAR):
        return True
    if not isinstance(reason, ValueError):
        return False
    return is_raised(reason) or _BEYOND.match(str(reason)) is not None


def is_raised(reason: BaseException) -> bool:
    """Whether an exception comes from a statement of a user's own, and not of the type of a number.

    A TypeError does where the function that raises it, and those that it names, do not look at types, and it handles
    no other exception.
    """
    last = reason.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return False
    path = Path(last.tb_frame.f_code.co_filename)
    if "site-packages" in path.parts or path.parent == Path(__file__).parent:
        return False  # of an installed package, or of those that follow functions
    if isinstance(reason, TypeError) and (reason.__context__ or _looks_at_types(last.tb_frame)):
        return False
    steps = dis.get_instructions(last.tb_frame.f_code)
    return any(step.offset == last.tb_lasti and step.opname == "RAISE_VARARGS" for step in steps)


def _looks_at_types(frame: FrameType) -> bool:
    """Whether a function that runs, or one that it names, looks at types."""
    code, known = frame.f_code, frame.f_globals | frame.f_locals
    named = [known.get(name) for name in (*code.co_names, *code.co_freevars)]
    codes = [code, *(one.__code__ for one in named if isinstance(one, FunctionType))]
    return any(_TYPES & {*one.co_names} for one in codes)

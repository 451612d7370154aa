"""A user's function for the next state: traced into compiled code, or called and its answer checked."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ddp.errors import REAL, ModelError, line_of
from ddp.protocols import Array
from ddp.tracing.function import TracedFunction
from ddp.tracing.spaces import Space
from ddp.tracing.trace import FollowError, ShapeError, of_shape


def followed(
    name: str, f: Callable[..., Any], nx: int, nu: int, parameters: Array | None = None, space: Space | None = None,
    steps: bool = True,
) -> TracedFunction:  # fmt: skip
    """A user's step as compiled code with its derivatives; ModelError if it cannot be traced, or is wrong.

    steps: see `TracedFunction`.
    """
    try:
        return TracedFunction(name, f, nx, nu, parameters, space=space, steps=steps)
    except ModelError:
        raise
    except ShapeError as reason:
        raise ModelError(f"{name}: {reason}") from None
    except FollowError as reason:
        raise ModelError(
            f'{name}: cannot be traced for its derivatives: {reason}; derivatives="differences" does without, and so'
            " does an object of the Dynamics protocol with derivatives of yours"
        ) from reason.__cause__
    except Exception as reason:
        raise ModelError(f"{name}: raised {type(reason).__name__}: {reason}{line_of(reason)}") from reason


def checked_state(
    name: str, function: Callable[[Array, Array], Any], x: Any, u: Any, nx: int, what: str = "next state"
) -> Any:
    """Next state that a user's function returns, its shape checked; ``name`` and ``what`` are for errors."""
    try:
        returned = np.array(function(x.copy(), u.copy()))  # it may write on its arguments, and reuse its result
        following = of_shape(what, returned, nx)
    except ShapeError as reason:
        raise ModelError(f"{name}: {reason}") from None
    except Exception as reason:
        raise ModelError(f"{name}: raised {type(reason).__name__}: {reason}{line_of(reason)}") from reason
    if following.dtype.kind not in (REAL + "c" if np.iscomplexobj(x) or np.iscomplexobj(u) else REAL):
        raise ModelError(f"{name}: expected a {what} of real numbers, got {following.dtype}")
    return following if following.dtype.kind in "fc" else following.astype(np.float64)

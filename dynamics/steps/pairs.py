"""Two arguments that are single samples or batches, as ⊕ and ⊖ of systems take them."""

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import REAL, ProblemError, said
from ddp.protocols import Array


def paired(
    a_field: str, a: ArrayLike, a_size: int, b_field: str, b: ArrayLike, b_size: int, dtype: type
) -> tuple[Array, Array, bool]:
    """Two arguments as batches of one length, and whether both were single samples."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.dtype == b.dtype == dtype:
        if (a.shape, b.shape) == ((a_size,), (b_size,)):
            return a[None].copy(), b[None].copy(), True
        plain = type(a) is type(b) is np.ndarray and a.ndim == 2 and a.flags.carray and b.flags.carray
        if plain and (a.shape, b.shape) == ((len(a), a_size), (len(a), b_size)):
            return a, b, False
    try:
        A, B = (_real_or_complex(value, dtype) for value in (a, b))
        N = max(1 if A.ndim == 1 else len(A), 1 if B.ndim == 1 else len(B))
        first: Array = np.array(np.broadcast_to(A, (N, a_size)))
        second: Array = np.array(np.broadcast_to(B, (N, b_size)))
    except Exception:  # whatever numpy, or an object that says it is an array, comes up with
        raise ProblemError(
            f"{a_field}, {b_field}: expected numbers of shapes ({a_size},), ({b_size},) or batches of them,"
            f" got {said(a)}, {said(b)}"
        ) from None
    return first, second, A.ndim == 1 and B.ndim == 1


def is_complex(value: ArrayLike) -> bool:
    """Whether a value is an array, or a number of numpy's, that is complex."""
    return isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind == "c"


def _real_or_complex(value: ArrayLike, dtype: type) -> Array:
    """An array of ``dtype``, unless that loses what it holds."""
    array = np.asarray(value)
    if array.dtype.kind not in REAL + ("c" if dtype is np.complex128 else "") or np.ma.is_masked(value):
        raise TypeError("expected numbers")
    return array.astype(dtype)

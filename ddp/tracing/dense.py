"""Small dense algebra of numbers of a graph: norms, systems of equations, inverses, determinants.

Elimination chooses pivots by selects, so that it holds wherever NumPy's does.
"""

import functools
import math
from typing import Any

import numpy as np

from ddp.tracing.numbers import Node, TraceError
from ddp.tracing.scalars import maximum, select

MINORS = 4
"""Rows of the largest matrix whose determinant is that of minors: 40 products, and five times as many for one more."""


def _objects(value: Any) -> Any:
    array = np.asarray(value)
    return array.view(np.ndarray) if array.dtype == object else array.astype(object)


def _root(value: Any) -> Any:
    return value.graph.unary("sqrt", value) if isinstance(value, Node) else float(np.sqrt(value))


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Euclidean norm (of a matrix Frobenius'), or that of order 1, 2 or infinity of vectors."""
    x = _objects(x)
    if ord not in (None, "fro") and (x.ndim == 2 if axis is None else np.size(axis) == 2):
        raise TraceError(f"np.linalg.norm of a matrix of order {ord}")
    if ord in (None, "fro", 2):
        return np.frompyfunc(_root, 1, 1)((x * x).sum(axis=axis, keepdims=keepdims))
    sizes = np.frompyfunc(abs, 1, 1)(x)
    if ord == 1:
        return sizes.sum(axis=axis, keepdims=keepdims)
    if ord == np.inf and axis is None:
        return functools.reduce(maximum, sizes)
    raise TraceError(f"np.linalg.norm of order {ord}")


def _eliminated(A: Any, B: Any) -> tuple[Any, Any, Any]:
    """Upper triangle of A (n, n), B (n, m) with it, and A's determinant, by rows with pivots of largest size."""
    n, determinant = len(A), 1.0
    M = np.concatenate([A, B], axis=1)
    for k in range(n):
        for r in range(k + 1, n):
            swap = abs(M[k, k]) < abs(M[r, k])
            if isinstance(swap, Node):
                pairs = [(select(swap, q, p), select(swap, p, q)) for p, q in zip(M[k], M[r], strict=True)]
                M[k], M[r] = (list(row) for row in zip(*pairs, strict=True))
                determinant = select(swap, -determinant, determinant)
            elif swap:
                M[[k, r]], determinant = M[[r, k]], -determinant
        determinant = determinant * M[k, k]
        for r in range(k + 1, n):
            if isinstance(M[r, k], Node) or M[r, k] != 0.0:
                M[r, k:] = M[r, k:] - M[r, k] / M[k, k] * M[k, k:]
    return M[:, :n], M[:, n:], determinant


def _square(A: Any) -> Any:
    A = _objects(A)
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise TraceError(f"a square matrix was expected, and its shape is {A.shape}")
    return A


def solve(A: Any, b: Any) -> Any:
    """``A⁻¹ b`` of one matrix."""
    A, b = _square(A), _objects(b)
    U, X, _ = _eliminated(A, b.reshape(len(A), math.prod(b.shape[1:])).copy())
    for k in reversed(range(len(A))):
        X[k] = (X[k] - U[k, k + 1 :] @ X[k + 1 :] if k + 1 < len(A) else X[k]) / U[k, k]
    return X.reshape(b.shape)


def inverse(A: Any) -> Any:
    """``A⁻¹`` of one matrix."""
    return solve(A, np.eye(len(_square(A))))


def determinant(A: Any) -> Any:
    """Determinant of one matrix, of a small one by minors: nothing is divided by, where it is singular."""
    A = _square(A)
    if len(A) > MINORS:
        return _eliminated(A, np.zeros((len(A), 0), dtype=object))[2]
    if len(A) < 2:
        return A[0, 0] if len(A) else 1.0
    minors = (determinant(np.delete(A[1:], k, axis=1)) for k in range(len(A)))
    return sum((-1.0) ** k * A[0, k] * minor for k, minor in enumerate(minors))

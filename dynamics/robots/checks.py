# mypy: allow-untyped-defs, allow-untyped-calls
"""Whether numbers make sense, in one compiled pass over all arguments: Python finds out which do not, and says so."""

from __future__ import annotations

import numpy as np

from ddp.compiling.kernel import kernel

_SHORTEST, _LONGEST = (1.0 - 1e-6) ** 2, (1.0 + 1e-6) ** 2


@kernel
def count_finite(x):
    """Count the entries of an array that are numbers."""
    count, numbers = 0, x.reshape(-1)
    for i in range(numbers.size):
        count += abs(numbers[i]) < np.inf
    return count


@kernel
def are_unit(Q, spans):
    """Whether the numbers from spans[k, 0] to before spans[k, 1] of every row of Q have length one, up to 1e-6."""
    for k in range(spans.shape[0]):
        for t in range(Q.shape[0]):
            square = 0.0
            for i in range(spans[k, 0], spans[k, 1]):
                square += Q[t, i] * Q[t, i]
            if not _SHORTEST <= square <= _LONGEST:
                return False
    return True


@kernel
def are_sound(Q, first, second, weight, spans):
    """Whether all entries are numbers, and lengths of Q one where ``spans`` says so."""
    finite = count_finite(Q) == Q.size and count_finite(first) == first.size
    finite = finite and count_finite(second) == second.size and count_finite(weight) == weight.size
    return finite and are_unit(Q, spans)

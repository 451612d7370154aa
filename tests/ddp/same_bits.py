"""Comparison of solutions bit by bit."""

import numpy as np


def same(one, other):
    """Whether two solutions are equal to the last bit, but for seconds."""
    assert str(one.status) == str(other.status)
    for name in ("X", "U", "k", "K", "cost", "gradient", "multipliers"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    records = [[tuple(record._replace(seconds=0.0)) for record in found.history] for found in (one, other)]
    assert records[0] == records[1]
    return True

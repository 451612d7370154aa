"""Angles of joints that turn without end, whose states are a cosine and a sine."""

import numpy as np

from ddp.protocols import Array


def unwound(circle: Array, speed: Array, t: Array) -> Array:
    """Angles (N,) [rad] of cosines and sines (N, 2) at times t (N,) [s], with all turns that were made between them.

    speed (N,) [rad/s]: its means between two times tell how often a joint turned round there.
    """
    angles = np.arctan2(circle[:, 1], circle[:, 0])
    expected = 0.5 * (speed[1:] + speed[:-1]) * np.diff(t)
    turns = np.rint((expected - np.diff(angles)) / (2.0 * np.pi))
    return np.asarray(angles + 2.0 * np.pi * np.concatenate([[0.0], np.cumsum(turns)]))

"""Angles of joints that turn without end, whose states are a cosine and a sine."""

import numpy as np

from ddp.protocols import Array


def unwound(circle: Array, speed: Array, t: Array) -> Array:
    """Angles (N,) [rad] of cosines and sines (N, 2) at times t (N,) [s], with all turns that were made between them.

    speed (N,) [rad/s]: its means between two times tell how often a joint turned round there.
    """
    angles = np.arctan2(circle[:, 1], circle[:, 0])
    changes = nearest(np.diff(angles), speed[:-1], speed[1:], np.diff(t))
    return np.asarray(angles[0] + np.append(0.0, np.cumsum(changes)))


def nearest(change: Array, before: Array, after: Array, h: Array) -> Array:
    """Changes of angles [rad] by whole turns more or fewer than given, nearest to their mean speeds times h [s]."""
    expected = 0.5 * (before + after) * h
    return np.asarray(change + 2.0 * np.pi * np.rint((expected - change) / (2.0 * np.pi)))

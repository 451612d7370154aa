"""Ground that plans do not know: heights at random, level where feet stand at the start."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import ProblemError, affordable, as_array, axes, numbers
from ddp.protocols import Array
from dynamics.phases.phased_dynamics import PhasedDynamics
from dynamics.robots.mjcf.writing import Relief
from problems.legs import base_pose, frame_poses
from problems.play.played import PlayedSystem

APART = 0.6
"""Distance between heights that are drawn, straight in between, in units of the height of the centre of mass. Around
feet at the start a quarter of it is level, and from three quarters on there is nothing of that."""

FINE = 8
"""Points of the ground in this distance."""

BEYOND = 4.0
"""Distance that the ground reaches beyond the motion, in the same units."""


def as_range(uneven: ArrayLike) -> tuple[float, float]:
    """Lowest and highest ground [m], of both or of one number for either sign; ProblemError for others."""
    if axes(uneven) == 0:
        most = float(as_array("uneven", uneven, ()))
        if most < 0.0:
            raise ProblemError(f"uneven: expected at least 0, or the lowest and the highest, got {most:g}")
        return -most, most
    heights = as_array("uneven", uneven, (None,))
    if len(heights) != 2:
        raise ProblemError(f"uneven: expected one number, or the lowest and the highest ground [m], got {len(heights)}")
    low, high = heights.tolist()
    if low > high:
        raise ProblemError(f"uneven: expected the lowest before the highest, got {numbers(np.array([low, high]))}")
    return low, high


def uneven_ground(
    system: PlayedSystem, X: Array, frames: Sequence[str], limits: tuple[float, float], seed: int
) -> Relief | None:
    """Ground under a motion X (N+1, nx) on feet, heights between limits [m] at random; None for level ground.

    Raises ProblemError for robots without legs, and for heights that a robot does not reach.
    """
    low, high = limits
    if low == high == 0.0:
        return None
    units = system.tracked.units(X) if isinstance(system, PhasedDynamics) else None
    if units is None:
        raise ProblemError(f"uneven: expected 0, {system.robot.name} does not stand on feet")
    if (most := max(abs(low), abs(high))) >= units.height:
        raise ProblemError(f"uneven: expected less than {units.height:g} m, the robot's height, got {most:g}")
    poses = frame_poses(system.robot, X[0, : system.robot.nq], frames)
    feet = np.array([pose.translation[:2] for pose in poses])
    pitch = APART * units.height
    places = np.array([base_pose(system.robot, x).translation[:2] for x in X if np.isfinite(x).all()])
    center = 0.5 * (places.max(axis=0) + places.min(axis=0))
    half = np.ptp(places, axis=0) / 2.0 + BEYOND * units.height
    counts = np.ceil(2.0 * half / pitch).astype(int) + 1
    affordable("uneven", high, int(counts.prod()) * FINE**2)
    half = 0.5 * pitch * (counts - 1)
    drawn = np.random.default_rng(seed).uniform(low, high, size=counts[::-1])
    x, y = (center[i] + np.linspace(-half[i], half[i], FINE * (counts[i] - 1) + 1) for i in range(2))
    heights = _between(_between(drawn).T).T
    far = np.hypot(y[:, None, None] - feet[:, 1], x[:, None] - feet[:, 0]).min(axis=2) / pitch
    return Relief(heights * np.clip(2.0 * far - 0.5, 0.0, 1.0), center, half)


def _between(rows: Array) -> Array:
    """Rows (m, n) with points on straight lines between their numbers, `FINE` to each."""
    count = rows.shape[1]
    at = np.arange(FINE * (count - 1) + 1) / FINE
    return np.stack([np.interp(at, np.arange(count), row) for row in rows])

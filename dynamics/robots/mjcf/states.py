"""States of MuJoCo and of mayne: the same numbers in the same order, but for two conventions.

- MuJoCo's quaternions are (w, x, y, z), Pinocchio's (x, y, z, w).
- The linear velocity of a free joint is in the world's axes in MuJoCo, in the body's own in mayne. Angular velocities
  of free and ball joints are in the body's axes in both.
"""

from typing import Any

import numpy as np

from ddp.protocols import Array
from dynamics.robots.libraries import pin

FREE, BALL, SLIDE, HINGE = range(4)
"""Types of joints, MuJoCo's mjtJoint."""


FROM_OURS, TO_OURS = [3, 0, 1, 2], [1, 2, 3, 0]
"""Where MuJoCo's quaternions (w, x, y, z) find their numbers in ours (x, y, z, w), and ours in MuJoCo's."""


def unit(quaternion: Array) -> Array:
    """A quaternion (w, x, y, z) of length one; no turn of zeros, which are that to MuJoCo."""
    length = np.sqrt(quaternion @ quaternion)
    return quaternion / length if length > 0.0 else np.array([1.0, 0.0, 0.0, 0.0])


def rotation(quaternion: Array) -> Array:
    """The rotation matrix of a quaternion (w, x, y, z) of any length but zero."""
    w, x, y, z = quaternion / np.linalg.norm(quaternion)
    return np.asarray(pin.Quaternion(w, x, y, z).matrix())


def pose(position: Array, quaternion: Array) -> "pin.SE3":
    """The pose at a position, turned by a quaternion (w, x, y, z)."""
    return pin.SE3(rotation(quaternion), np.array(position))


def configuration(m: Any, qpos: Array) -> Array:
    """The configuration q (nq,) of MuJoCo's qpos, its quaternions of length one."""
    q = np.array(qpos, dtype=np.float64)
    for kind, i in zip(m.jnt_type.tolist(), m.jnt_qposadr.tolist(), strict=True):
        if kind in (FREE, BALL):
            j = i + 3 if kind == FREE else i
            q[j : j + 4] = unit(q[j : j + 4])[TO_OURS]
    return q


def velocity_map(m: Any, qpos: Array) -> Array:
    """T (nv, nv) of qvel = T v: MuJoCo's velocities from mayne's at a qpos."""
    T = np.eye(m.nv)
    for kind, i, k in zip(m.jnt_type.tolist(), m.jnt_qposadr.tolist(), m.jnt_dofadr.tolist(), strict=True):
        if kind == FREE:
            T[k : k + 3, k : k + 3] = rotation(np.asarray(qpos[i + 3 : i + 7]))
    return T

"""What a robot file says beyond rigid bodies and joints: actuators, their limits, and springs of joints."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Equipment(NamedTuple):
    """Actuators and springs of a robot file; None where the file has none.

    actuation S (nv, nu): generalised forces per unit of each control, τ = S u [N, N m per unit of control].
    control_limits (nu, 2): lower and upper limit of each control, infinite where there is none.
    stiffness (nv,): spring of each degree of freedom [N m/rad, N/m], zero where there is none.
    springref (nv,): joint position at which each spring is at rest [rad, m]; None: zeros.
    damped: whether the format of the file has the model's viscous damping act, as MJCF does; systems follow it unless
    they are told otherwise.
    """

    actuation: Array | None = None
    control_limits: Array | None = None
    stiffness: Array | None = None
    springref: Array | None = None
    damped: bool = False

"""Equipment of a robot: actuators, their limits, springs and bearings of joints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddp.errors import DDPError, ModelError, ProblemError, as_array
from ddp.protocols import Array
from dynamics.robots.joints import UNIT_NUMBERS
from dynamics.robots.libraries import pin


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

    @property
    def drives(self) -> bool:
        """Whether there are actuators."""
        return self.actuation is not None and self.actuation.shape[1] > 0

    def of_dofs(self, kept: Sequence[int]) -> Equipment:
        """The equipment of some degrees of freedom; actuators that move none of them are left out."""
        S, limits, stiffness, springref, damped = self
        if S is not None:
            acting = np.any(S[kept] != 0.0, axis=0)
            S, limits = S[kept][:, acting], None if limits is None else limits[acting]
        stiffness, springref = (None if values is None else values[kept] for values in (stiffness, springref))
        return Equipment(S, limits, stiffness, springref, damped)


def checked(equipment: Equipment, model: pin.Model, kind: NDArray[np.int64]) -> Equipment:
    """Check equipment against joints of these kinds, and return it with arrays of its own."""
    S, limits, stiffness, springref, damped = equipment
    if S is not None:
        S = as_array("actuation", S, (model.nv, None), ModelError).copy()
    if limits is not None:
        if S is None:
            raise ModelError("control_limits: expected an actuation beside them, got none")
        limits = pairs_of_limits("control_limits", limits, S.shape[1], ModelError)
    if stiffness is not None:
        stiffness = as_array("stiffness", stiffness, (model.nv,), ModelError).copy()
        check_springs(model, kind, stiffness)
    if springref is not None:
        springref = as_array("springref", springref, (model.nv,), ModelError).copy()
    return Equipment(S, limits, stiffness, springref, damped)


def check_springs(model: pin.Model, kind: NDArray[np.int64], stiffness: Array) -> None:
    """Raise ModelError for the first joint with a spring whose position is not a number in q."""
    for joint, of_joint, name in zip(list(model.joints)[1:], kind, list(model.names)[1:], strict=True):
        own = stiffness[joint.idx_v : joint.idx_v + joint.nv]
        if own.any() and of_joint in UNIT_NUMBERS:
            raise ModelError(
                f"stiffness of joint {name!r}: expected springs on joints alone whose q is an angle or a length"
                f" (revolute, prismatic, helical, translation), got {own} for a {joint.shortname()}"
            )


def as_actuation(value: ArrayLike, nv: int, cables: int = 0, least: int = 1) -> Array:
    """S (nv, nu), how controls act; ProblemError for fewer columns than ``least`` or than tendons and wrenches take."""
    S = as_array("actuation", value, (nv, None))
    if S.shape[1] < max(cables, least):
        wanted = f"{cables} columns, the first for tendons and wrenches" if cables else "one column"
        advice = "" if S.size else f"; robots without tendons, wrenches or motors take np.eye({nv}), a force for each v"
        raise ProblemError(f"actuation: expected at least {wanted}, got shape {S.shape}{advice}")
    return S


def pairs_of_limits(field: str, value: ArrayLike | None, nu: int, error: type[DDPError] = ProblemError) -> Array:
    """Lower and upper limits (nu, 2) of controls, ±inf for none, as of None; an error unless lower < upper."""
    if value is None:
        return np.tile([-np.inf, np.inf], (nu, 1))
    limits = as_array(field, value, (None, None), error, finite=False).copy()
    if nu != 2 and limits.shape == (2, nu):
        raise error(f"{field}: expected shape ({nu}, 2), got (2, {nu}): give its transpose, a row of two per control")
    limits = as_array(field, limits, (nu, 2), error, finite=False)
    if (crossed := ~(limits[:, 0] < limits[:, 1])).any():
        i = int(np.argmax(crossed))
        raise error(f"{field}: expected lower < upper, got {limits[i, 0]} and {limits[i, 1]} for control {i}")
    return limits

"""Checks of the contacts to draw: their times, forces and friction."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddp.errors import ProblemError, as_array, axes, choice, instance, numbers, positive, said, text
from viz.shapes import DRAWABLE, Array

Flags = NDArray[np.bool_]


def instants(dt: ArrayLike, count: int) -> Array:
    """Times (count,) [s] that start at 0 and are ``dt`` apart: one number, or (count-1,) of them, zero allowed."""
    if axes(dt) == 0:
        step = positive("dt", float(as_array("dt", dt, (), finite=False)))
        if step > DRAWABLE:
            raise ProblemError(f"dt: expected at most {DRAWABLE:g} s, got {step:g}")
        return np.arange(count, dtype=np.float64) * step
    steps = as_array("dt", dt, (count - 1,))
    if (steps > DRAWABLE).any():
        raise ProblemError(f"dt: expected durations of at most {DRAWABLE:g} s, got {numbers(steps)}")
    if (steps < 0.0).any() or (count > 1 and not steps.any()):
        raise ProblemError(f"dt: expected durations of at least 0 s, not all of them zero, got {numbers(steps)}")
    return np.concatenate([[0.0], np.cumsum(steps)])


def as_forces(forces: Mapping[str, ArrayLike], rows: Sequence[int] = ()) -> dict[str, Array]:
    """Forces (N, 3) of each frame, zero where there is no contact; N, the same for all, is one of ``rows`` if any."""
    given = named("forces", forces, "arrays (N, 3)")
    arrays = {name: as_array(f"forces[{said(name)}]", f, (None, 3), finite=False) for name, f in given.items()}
    allowed = list(rows) or [len(array) for array in arrays.values()][:1]
    for name, array in arrays.items():
        if len(array) not in allowed or len(array) == 0:
            wanted = " or ".join(str(n) for n in allowed if n) or "at least 1"
            raise ProblemError(f"forces[{said(name)}]: expected {wanted} rows, got {len(array)}")
        where, most = f"forces[{said(name)}]", np.nanmax(np.abs(array), initial=0.0)
        if np.isinf(most):
            raise ProblemError(f"{where}: expected finite numbers, or NaN where there is no contact, got inf")
        if most > DRAWABLE:
            raise ProblemError(f"{where}: expected numbers of at most {DRAWABLE:g} N, got {most:g}")
    return {name: np.where(np.isnan(f).any(axis=1, keepdims=True), 0.0, f) for name, f in arrays.items()}


def in_contact(force: Array) -> Flags:
    """Flags (N,) of a frame in contact: true where its force (N, 3) is not zero."""
    return np.asarray((force != 0.0).any(axis=1))


def as_friction(field: str, mu: float | Mapping[str, float], names: Sequence[str]) -> dict[str, float]:
    """A coefficient of friction for each name: one number for all, or those that a mapping has."""
    if not isinstance(mu, Mapping):
        return dict.fromkeys(names, positive(field, mu))
    for name in mu:
        choice(field, name, names, "expected names of frames with forces, got")
    return {name: positive(f"{field}[{said(name)}]", value) for name, value in mu.items()}


def as_schedule(schedule: Mapping[str, ArrayLike]) -> dict[str, Flags]:
    """Check flags (N,) of each foot, true while it stands; N the same for all and at least 1."""
    found: dict[str, Flags] = {}
    for name, flags in named("schedule", schedule, "flags (N,)", some="one foot").items():
        length = len(next(iter(found.values()))) if found else None
        array = as_array(f"schedule[{said(name)}]", flags, (length,))
        if len(array) == 0 or not np.isin(array, (0.0, 1.0)).all():
            given = numbers(array)
            raise ProblemError(f"schedule[{said(name)}]: expected at least one flag, true or false, got {given}")
        found[name] = array != 0.0
    return found


def named(field: str, value: Any, what: str, kind: type = object, one: str = "", some: str = "") -> Mapping[str, Any]:
    """``value`` if it is a mapping from names to instances of a class, each called ``one``, else ProblemError.

    some: "one curve" or the like, which has to be there; where that is an instance, it may also come without a name.
    """
    instance(field, value, Mapping, f"{one + ' or ' if one and some else ''}a mapping from names to {what}")
    for name, item in value.items():
        instance(f"{field}[{said(text(f'{field}: a name', name))}]", item, kind, one)
    if some and not value:
        raise ProblemError(f"{field}: expected at least {some}, got none")
    return value

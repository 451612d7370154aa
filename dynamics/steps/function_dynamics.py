"""Any NumPy function ``x' = f(x, u)`` as a dynamical system, without asking the user for a derivative."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ddp.derived_dynamics import ByKnot, checked_state, is_undefined
from ddp.errors import ModelError, ProblemError, affordable, positive, positive_integer, said
from ddp.protocols import Array


@dataclass(frozen=True)
class FunctionDynamics(ByKnot):
    """A discrete-time system on a Euclidean state space, given as a function.

    f: ``f(x, u) -> x'`` with x (nx,), u (nu,), x' (nx,); called one knot at a time.
    nx, nu: how many numbers a state and a control have.
    dt [s]: the time step that running costs are multiplied by; None counts as 1.

    First derivatives are by complex step, exact to rounding, wherever that agrees with a real difference;
    functions that are not made for complex numbers (``np.abs``, ``np.linalg.norm``, ``float``, ``math``) get
    4th-order differences, good to about 1e-10. The second order is a tensor (nx, nz, nz) a knot, by 4th-order
    differences of the first, good to about 1e-11 (of values and 1e-9 without complex step). x and u should be
    of order one, as SI quantities are: the differences step by 1e-3 and 5e-3.

    Raises ProblemError for malformed sizes, ModelError if f cannot be called or does not return (nx,).
    """

    f: Callable[[Array, Array], Any]
    nx: int
    nu: int
    dt: float = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if not callable(self.f):
            raise ProblemError(f"f: expected a function x' = f(x, u), got {said(self.f)}")
        object.__setattr__(self, "nx", positive_integer("nx", self.nx))
        object.__setattr__(self, "nu", positive_integer("nu", self.nu))
        for field in ("nx", "nu"):
            affordable(field, getattr(self, field), self.record_size)
        object.__setattr__(self, "dt", 1.0 if self.dt is None else positive("dt", self.dt))
        with np.errstate(all="ignore"):
            try:
                self._called(np.zeros(self.nx), np.zeros(self.nu))
            except ModelError as failure:
                if not is_undefined(failure.__cause__):  # zero need not be in its domain
                    raise

    def _called(self, x: Any, u: Any) -> Any:
        return checked_state("f", self.f, x, u, self.nx)

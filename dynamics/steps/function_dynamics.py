"""Any NumPy function ``x' = f(x, u)`` as a dynamical system, without asking the user for a derivative."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import (
    ModelError,
    ProblemError,
    affordable,
    as_array,
    choice,
    positive,
    positive_integer,
    said,
    settle,
    settle_by,
    suggesting,
)
from ddp.protocols import Array, copied
from ddp.systems.by_knot import ByKnot
from ddp.systems.derived_dynamics import checked_state, followed
from ddp.tracing.function import TracedFunction
from ddp.tracing.spaces import Space, as_space
from ddp.tracing.undefined import is_undefined

DERIVATIVES = "traced", "differences"


@suggesting
@dataclass(frozen=True)
class FunctionDynamics(ByKnot):
    """A discrete-time system, given as a function.

    f: ``f(x, u) -> x'`` with x (nx,), u (nu,), x' (nx,), of one knot; ``f(x, u, p)`` where there are parameters p.
    nx, nu: how many numbers a state and a control have.
    dt [s]: the time step that running costs are multiplied by; None counts as 1.
    state: the spaces that a state is made of, ``[Euclidean(3), SO3(), Euclidean(6)]`` say; None: plain numbers.
        Derivatives, gains and differences are by tangent vectors then, exact to second order; f gets unit quaternions
        and is to return such.
    parameters: numbers that f takes as a third argument, an array that may be written on at any time, without
        anything compiled again.
    derivatives: where they come from. "traced": f is called once with numbers that remember how they were made, on
        every way through its branches; derivatives of both orders are exact to rounding, and compiled with f, which is
        called no more. "differences": f is called knot by knot, and nothing need be known of it.

    jacobian: ``jacobian(x, u) -> A, B``, (n, n) and (n, nu), of your own; hessian: ``hessian(x, u, weight)``, the
        Hessian (n + nu, n + nu) of ``weight @ (f(x ⊕ dx, u + du) ⊖ f(x, u))``; of one knot each. They are taken as they
        are, f is called in Python then, and what is not given comes from differences.

    Differences: first derivatives are by complex step, exact to rounding, wherever that agrees with a real difference;
    functions that are not made for complex numbers (``np.abs``, ``np.linalg.norm``, ``float``, ``math``) get 4th-order
    differences, good to about 1e-10. The second order is a tensor (nx, nz, nz) a knot, by 4th-order differences of the
    first, good to about 1e-11 (of values and 1e-9 without complex step). x and u should be of order one, as SI
    quantities are: the differences step by 1e-3 and 5e-3, and refuse values in float32.

    Raises ProblemError for malformed arguments; ModelError if f cannot be called, does not return (nx,), or is to be
    traced and cannot be: it says why, and at which line.
    """

    f: Callable[..., Any]
    nx: int
    nu: int
    dt: float = None  # type: ignore[assignment]
    state: Any = None
    parameters: Array | None = None
    derivatives: str = "traced"
    jacobian: Callable[..., Any] | None = None
    hessian: Any = field(default=None, repr=False, compare=False)
    _space: Space = field(init=False, repr=False, compare=False, default=None)  # type: ignore[assignment]
    _traced: TracedFunction | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        if not callable(self.f):
            raise ProblemError(f"f: expected a function x' = f(x, u), got {said(self.f)}")
        settle_by(self, positive_integer, "nx", "nu")
        choice("derivatives", self.derivatives, DERIVATIVES)
        hessian = vars(self).pop("hessian")  # the method of this name stays
        if getattr(hessian, "__func__", None) is ByKnot.hessian:  # of the system that this is a copy of
            hessian = hessian.__self__._hessian
        for name, given in (("jacobian", self.jacobian), ("hessian", hessian)):
            if given is not None and not callable(given):
                raise ProblemError(f"{name}: expected a function, got {said(given)}")
        settle(self, _linearize=("jacobian", self.jacobian), _hessian=hessian, _space=as_space(self.state, self.nx))
        for name in ("nx", "nu"):
            tensors = 1 if self.derivatives == "traced" else self.nx
            affordable(name, getattr(self, name), tensors * (self.nx + self.nu) ** 2)
        settle(self, dt=1.0 if self.dt is None else positive("dt", self.dt))
        if self.parameters is not None:
            settle(self, parameters=as_array("parameters", self.parameters, (None,)))
        with np.errstate(all="ignore"):
            try:
                self._called(self._space.neutral(), np.zeros(self.nu))
            except ModelError as failure:
                if not is_undefined(failure.__cause__):  # zero need not be in its domain
                    raise
        if self.derivatives == "traced" and self.jacobian is None and hessian is None:
            settle(self, _traced=followed("f", self.f, self.nx, self.nu, self.parameters, self._space))

    @classmethod
    def of(cls, traced: Any, dt: float, parameters: Array | None) -> "FunctionDynamics":
        """System of steps that are compiled already, as a `TracedFunction` or alike; for other systems."""

        def step(x: Any, u: Any, *p: Any) -> Any:
            return (traced.at(*p) if p else traced).values(x[None], u[None])[0]

        own, found = object.__new__(cls), {"f": step, "nx": traced.nx, "nu": traced.nu, "dt": dt}
        vars(own).update(found, state=traced.space, parameters=parameters, derivatives="traced", jacobian=None)
        vars(own).update(_space=traced.space, _traced=traced, _linearize=("jacobian", None), _hessian=None)
        return own

    def renew(self) -> bool:
        before = self._traced
        if before is not None:
            settle(self, _traced=before.renewed())
        return self._traced is not before

    @property
    def variable(self) -> tuple[str, ...]:
        return () if self.parameters is None else ("parameters",)

    def varied(self, parameters: ArrayLike) -> "FunctionDynamics":
        count = 0 if self.parameters is None else len(self.parameters)
        p = as_array("parameters", parameters, (count,)).copy()
        return copied(self, parameters=p, _traced=None if self._traced is None else self._traced.at(p))

    def _called(self, x: Any, u: Any) -> Any:
        if self.parameters is None:
            return checked_state("f", self.f, x, u, self.nx)
        return checked_state("f", lambda x, u: self.f(x, u, self.parameters), x, u, self.nx)


del FunctionDynamics.hessian  # the field's default, in place of which is the method

"""Any NumPy function ``x'(t) = f(x, u)`` in continuous time, as a dynamical system in discrete time.

Steps are functions of f, written once for floats and for numbers that are traced: derivatives go through them. Where
motions do not commute, slopes are those of coordinates θ about the state that a step begins with, x ⊕ θ: of a velocity
k there, θ' = k + ½ [θ, k] + ¹⁄₁₂ [θ, [θ, k]] + ..., all that steps of order four need (Munthe-Kaas 1998).
"""

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
    numbers,
    positive,
    positive_integer,
    said,
    settle,
    suggesting,
)
from ddp.protocols import Array, copied
from ddp.systems.by_knot import ByKnot
from ddp.tracing.function import TracedFunction
from ddp.tracing.spaces import Space, as_space
from ddp.tracing.trace import of_shape
from dynamics.steps.function_dynamics import FunctionDynamics
from dynamics.steps.implicit_flow import ImplicitSteps
from dynamics.steps.implicit_steps import METHODS as IMPLICIT
from dynamics.steps.runge_kutta import METHODS as EXPLICIT

Flow = Callable[..., Any]
"""``f(x, u)`` or ``f(x, u, p)``, of one knot."""


def explicit(method: Array) -> Callable[[Flow, float, Space], Flow]:
    """Steps by a table of Butcher's (runge_kutta.py): y_i = x ⊕ h Σ_j A_ij k_j, k_i = f(y_i, u)."""
    A = method[:, : len(method) - 1].tolist()

    def stepping(f: Flow, h: float, space: Space) -> Flow:
        def step(x: Any, u: Any, *p: Any) -> Any:
            slopes: list[Any] = []
            for i, row in enumerate(A):
                moved: Any = None
                for weight, slope in zip(row, slopes, strict=False):
                    if weight:
                        moved = (h * weight) * slope if moved is None else moved + (h * weight) * slope
                y = x if moved is None else space.plus(x, moved)
                if i < len(A) - 1:
                    slopes.append(of_coordinates(space, moved, flow(f, space.n, y, u, *p)))
            return y

        return step

    return stepping


def of_coordinates(space: Space, moved: Any, k: Any) -> Any:
    """Slope of the coordinates ``moved`` about a state where the velocity is k."""
    if moved is None or space.is_flat:
        return k
    bend = space.bracket(moved, k)
    return k + 0.5 * bend + space.bracket(moved, bend) / 12.0


def semi_implicit(f: Flow, h: float, space: Space) -> Flow:
    """Steps of x = (q, v): v' = v + h f_v(q, v, u), then q' = q ⊕ h f_q(q, v', u)."""
    if space.n % 2:
        given = "nx" if space.is_flat else "n"
        raise ProblemError(
            f"{given}: expected an even number of positions and velocities for semi-implicit-euler, got {space.n}"
        )
    m = space.n // 2
    still = np.zeros(m)

    def step(x: Any, u: Any, *p: Any) -> Any:
        y = space.plus(x, np.concatenate([still, h * flow(f, space.n, x, u, *p)[m:]]))
        return space.plus(y, np.concatenate([h * flow(f, space.n, y, u, *p)[:m], still]))

    return step


def flow(f: Flow, n: int, x: Any, u: Any, *p: Any) -> Any:
    """f of copies of its arguments, which it may write on, as an array; ShapeError unless it is of shape (n,)."""
    return of_shape("velocity", np.array(f(x.copy(), u.copy(), *p)), n)


INTEGRATORS = {name: explicit(table) for name, table in EXPLICIT.items()} | {"semi-implicit-euler": semi_implicit}
"""Explicit steps by name: each makes a function ``x' = step(x, u)`` of a flow, h [s] and the space of states."""

MOST_PARTS = 1000
"""Parts of a step, at most: what is traced has the operations of all of them."""


@suggesting
@dataclass(frozen=True)
class ContinuousDynamics(ByKnot):
    """A system in continuous time, given as a function, in steps of dt.

    f: ``f(x, u) -> dx/dt`` with x (nx,), u (nu,), held over a step; ``f(x, u, p)`` where there are parameters p. With a
        ``state`` it returns a tangent vector (n,): the angular velocity of SO3(), in the body's own axes, the twist of
        SE2() and SE3().
    nx, nu: how many numbers a state and a control have.
    dt [s]: the time step.
    integrator: "rk4", of order four; "euler"; "semi-implicit-euler", for x = (q, v), with velocities first; of stiff
        systems "implicit-euler", "implicit-midpoint" and "sdirk2", of order one, two and two, which are solved by
        Newton's method, and whose derivatives follow from where they end.
    substeps: equal parts of dt that are integrated one after another.
    state, parameters, derivatives: as of `FunctionDynamics`, whose derivatives go through the integrator.

    Raises ProblemError for malformed arguments, ModelError as `FunctionDynamics`.
    """

    f: Flow
    nx: int
    nu: int
    dt: float
    integrator: str = "rk4"
    substeps: int = 1
    state: Any = None
    parameters: Array | None = None
    derivatives: str = "traced"
    _steps: FunctionDynamics = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not callable(self.f):
            raise ProblemError(f"f: expected a function dx/dt = f(x, u), got {said(self.f)}")
        choice("integrator", self.integrator, {**INTEGRATORS, **IMPLICIT})
        nx, nu, dt = positive_integer("nx", self.nx), positive_integer("nu", self.nu), positive("dt", self.dt)
        substeps = positive_integer("substeps", self.substeps)
        if substeps > MOST_PARTS:
            raise ProblemError(f"substeps: expected at most {MOST_PARTS}, got {substeps}")
        make = self._solved if self.implicit else self._composed
        steps = make(nx, nu, dt, substeps)
        settle(self, nx=nx, nu=nu, dt=dt, _steps=steps, parameters=steps.parameters)

    def _composed(self, nx: int, nu: int, dt: float, substeps: int) -> FunctionDynamics:
        """Explicit steps: functions of f."""
        one = INTEGRATORS[self.integrator](self.f, dt / substeps, as_space(self.state, nx))

        def step(x: Any, u: Any, *p: Any) -> Any:
            for _ in range(substeps):
                x = one(x, u, *p)
            return x

        return FunctionDynamics(step, nx, nu, dt, self.state, self.parameters, self.derivatives)

    def _solved(self, nx: int, nu: int, dt: float, substeps: int) -> FunctionDynamics:
        """Implicit steps, which need f traced."""
        choice("derivatives", self.derivatives, ("traced",))
        space, method = as_space(self.state, nx), IMPLICIT[self.integrator]
        affordable("substeps", substeps, (space.n * len(method) * substeps) ** 2)
        p = None if self.parameters is None else as_array("parameters", self.parameters, (None,))
        return FunctionDynamics.of(ImplicitSteps(self.f, nx, nu, dt, method, substeps, space, p), dt, p)

    @property
    def whole_step(self) -> Flow:
        """``x' = step(x, u)``, or of (x, u, p): f integrated over dt."""
        return self._steps.f

    @property
    def implicit(self) -> bool:
        return self.integrator in IMPLICIT

    @property
    def space(self) -> Space | None:
        return self._steps.space

    @property
    def traced(self) -> TracedFunction | None:
        return self._steps.traced

    def __reduce__(self) -> Any:
        given = self.f, self.nx, self.nu, self.dt, self.integrator, self.substeps
        return ContinuousDynamics, (*given, self.state, self.parameters, self.derivatives)

    def renew(self) -> bool:
        return self._steps.renew()

    def undefined(self, x: ArrayLike, knot: int = 0) -> ModelError:
        why = "f is no number near there, or overflows"
        if self.implicit:
            why = "f or its derivative is no number near there, or Newton's method does not end: take shorter steps"
        return ModelError(f"no step from x = {numbers(as_array('x', x, (self.nx,)))}: {why}")

    @property
    def variable(self) -> tuple[str, ...]:
        return self._steps.variable

    def varied(self, parameters: ArrayLike) -> "ContinuousDynamics":
        steps = self._steps.varied(parameters)
        return copied(self, _steps=steps, parameters=steps.parameters)

    def _called(self, x: Any, u: Any) -> Any:
        return self._steps._called(x, u)

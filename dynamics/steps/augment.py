"""Compositions by name, around any system: rates and delays of controls, motors, springs in series, parameters.

    system = augment.rates(RobotDynamics(load("ur5"), 0.01))      # states (x, u), controls du/dt
    x0 = np.concatenate([x, u])

Each is an `Augmented`, with exact derivatives of both orders; so they can be put one around another. x, u are state and
control of the system inside, s what is kept beside x, r the new controls. Where these are of the same kind, in delays,
motors and elasticity, limits of the system's own, as of an MJCF file's actuators, hold for r unless others are given.
"""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddp.errors import ProblemError, affordable, as_array, axes, positive_integer, said, suggesting
from ddp.protocols import Array
from ddp.systems.derived_dynamics import as_system
from ddp.systems.system import System, ability
from ddp.tracing.function import space_of
from ddp.tracing.groups import Euclidean
from ddp.tracing.spaces import as_space
from dynamics.steps.augmented import Around, Augmented
from dynamics.steps.continuous_dynamics import ContinuousDynamics
from dynamics.steps.function_dynamics import FunctionDynamics
from dynamics.steps.implicit_steps import METHODS
from dynamics.steps.stepped_robot import SteppedRobot

Made = TypeVar("Made", bound=Callable[..., Augmented])


def remade(make: Made) -> Made:
    """Decorate a function of a module that makes a composition, by which other processes make it again."""
    taken = signature(make)

    @suggesting
    @wraps(make)
    def made(*args: Any, **named: Any) -> Augmented:
        composition = make(*args, **named)
        given = taken.bind(*args, **named)
        given.apply_defaults()
        composition.made_by = made, given.args
        return composition

    return made  # type: ignore[return-value]


@remade
def rates(system: Any, control_limits: ArrayLike | None = None) -> Augmented:
    """Controls by their rates: states (x, u), ``u' = u + dt r``; control_limits (nu, 2): of rates r [1/s]."""
    inner = _even(system)
    h, nu = inner.dt, inner.nu
    made = Augmented(inner, lambda x, s, r: s, lambda x, s, r: s + h * r, nu, nu, control_limits, "rates of controls")
    return _labelled(made, "rate of {}", "control {}")


@remade
def delays(system: Any, steps: int, control_limits: ArrayLike | None = None) -> Augmented:
    """Controls that act some steps later: states (x, u of the coming steps), the next one first."""
    inner, steps = as_system(system, "system"), positive_integer("steps", steps)
    nu = inner.nu
    affordable("steps", steps, (steps * nu) ** 2)
    made = Augmented(
        inner, lambda x, s, r: s[:nu], lambda x, s, r: np.concatenate([s[nu:], r]), nu, steps * nu,
        _limits(inner, control_limits), f"controls {steps} steps late",
    )  # fmt: skip
    later = (f"control {{}} in {k} step{'s' * (k > 1)}" for k in range(1, steps))
    return _labelled(made, "{}", "control {} now", *later)


@remade
def motors(system: Any, time: ArrayLike, control_limits: ArrayLike | None = None) -> Augmented:
    """Controls that lag behind what they are told: states (x, u), ``u' = u + (1 - exp(-dt / time)) (r - u)``.

    time [s]: in which 63 % of a change is made, one number or (nu,).
    """
    inner = _even(system)
    nu = inner.nu
    share = 1.0 - np.exp(-inner.dt / _each("time", time, nu))
    made = Augmented(
        inner, lambda x, s, r: s, lambda x, s, r: s + share * (r - s), nu, nu, _limits(inner, control_limits),
        "motors that lag",
    )  # fmt: skip
    return _labelled(made, "{}", "acting {}")


@remade
def elasticity(
    system: Any, stiffness: ArrayLike | Callable[[Any], Any], inertia: ArrayLike, damping: ArrayLike = 0.0,
    positions: ArrayLike | None = None, control_limits: ArrayLike | None = None,
) -> Augmented:  # fmt: skip
    """Springs between motors and joints: states (x, θ, θ'), controls the motors' torques r.

    ``u = stiffness (θ - q)``, ``inertia θ'' = r - u - damping θ'``, semi-implicit steps.
    stiffness [N m/rad]: a number, (nu,), or a function of θ - q (nu,) that gives u.   inertia [kg m²], damping
    [N m s/rad]: numbers or (nu,).   positions (nu,): the numbers of x that motors turn, plain ones, no cosine and no
    part of a quaternion; default: those of a robot's joints that its controls drive, of other systems the first nu.
    """
    inner = _even(system)
    h, nu = inner.dt, inner.nu
    mass, friction = _each("inertia", inertia, nu), _each("damping", damping, nu, least=0.0)
    where = _places("positions", _driven_numbers(inner) if positions is None else positions, nu, inner.nx)
    _check_plain("positions", where, inner)
    gain = None if callable(stiffness) else _each("stiffness", stiffness, nu)
    spring: Any = stiffness if gain is None else lambda bent: gain * bent

    def torque(x: Any, s: Any, r: Any) -> Any:
        return np.array(spring(s[:nu] - x[where]))

    def turned(x: Any, s: Any, r: Any) -> Any:
        speed = s[nu:] + h * (r - torque(x, s, r) - friction * s[nu:]) / mass
        return np.concatenate([s[:nu] + h * speed, speed])

    made = Augmented(inner, torque, turned, nu, 2 * nu, _limits(inner, control_limits), "elasticity in series")
    return _labelled(made, "{}", "motor of {}", "rate of motor of {}")


@remade
def driven(
    system: Any, inputs: Callable[[Any, Any], Any], nr: int, control_limits: ArrayLike | None = None
) -> Augmented:
    """Controls as a function of states and new ones: ``u = inputs(x, r)``, such as S(q) r of tendons, propellers."""
    if not callable(inputs):
        raise ProblemError(f"inputs: expected a function of (x, r), got {said(inputs)}")
    return Augmented(system, lambda x, s, r: inputs(x, r), None, nr, 0, control_limits, "driven")


@remade
def remembering(system: Any, count: int, inputs: Callable[[Any, Any, Any], Any] | None = None) -> Augmented:
    """States (x, s) with ``count`` numbers s that never change: what a design, or a start, is a function of.

    inputs: gives u of x, s and r, of which there are as many; default r itself.
    """
    count = positive_integer("count", count)
    affordable("count", count, count**2)
    given = (lambda x, s, r: r) if inputs is None else inputs
    return Augmented(system, given, lambda x, s, r: s, None, count, name="constants beside states")


def parameters(system: FunctionDynamics | ContinuousDynamics) -> FunctionDynamics | ContinuousDynamics:
    """A system whose parameters are constant states: (x, p), p' = p, for design and identification."""
    if not isinstance(system, (FunctionDynamics, ContinuousDynamics)) or system.parameters is None:
        raise ProblemError(f"system: expected a FunctionDynamics with parameters, got {said(system)}")
    nx, size = system.nx, len(system.parameters)
    state = [*as_space(system.state, nx).parts, Euclidean(size)]
    if isinstance(system, ContinuousDynamics) and system.integrator in METHODS:
        f, still, own = system.f, np.zeros(size), (system.dt, system.integrator, system.substeps)

        def flowing(x: Any, u: Any) -> Any:
            return np.concatenate([np.array(f(x[:nx].copy(), u, x[nx:].copy())), still])

        return ContinuousDynamics(flowing, nx + size, system.nu, *own, state)
    step = system.f if isinstance(system, FunctionDynamics) else system.whole_step

    def following(x: Any, u: Any) -> Any:
        return np.concatenate([np.array(step(x[:nx].copy(), u, x[nx:].copy())), x[nx:]])

    return FunctionDynamics(following, nx + size, system.nu, system.dt, state, None, system.derivatives)


def _labelled(made: Augmented, *labels: str) -> Augmented:
    """A composition with the names of its numbers."""
    made.labels = labels
    return made


def _even(system: Any) -> System:
    """A system whose steps of time all take dt, as what changes beside them does; events count as one of them."""
    inner = bare = as_system(system, "system")
    while isinstance(bare, Around):
        bare = bare.system
    durations = ability(bare, "step_durations")
    lasting = np.zeros(0) if durations is None else durations(getattr(bare, "knots", 1))
    if (other := lasting[(lasting > 0.0) & ~np.isclose(lasting, inner.dt, rtol=1e-9, atol=0.0)]).size:
        raise ProblemError(f"system: expected steps that all take dt = {inner.dt:g} s, got one of {other[0]:g} s")
    return inner


def _limits(inner: System, given: ArrayLike | None) -> ArrayLike | None:
    """Limits of controls as given, by default those of the system."""
    own: ArrayLike | None = ability(inner, "control_limits")
    return own if given is None else given


def _each(field: str, value: Any, count: int, least: float | None = None) -> Array:
    """Numbers (count,), positive, or not below ``least``, of one or of as many."""
    found = np.full(count, as_array(field, value, (count,) if axes(value) else ()))
    if not (found > 0.0).all() if least is None else (found < least).any():
        wanted = "positive" if least is None else "no negative"
        raise ProblemError(f"{field}: expected {wanted} numbers, got {found.min()}")
    return found


def _driven_numbers(system: System) -> list[int]:
    """Numbers of x that controls drive: a robot's by its actuation, the first nu of another system."""
    inside: Any = system
    while isinstance(inside, Around) and inside.system.nu == system.nu:
        inside = inside.system
    if not isinstance(inside, SteppedRobot):
        return list(range(system.nu))
    tree, found = inside.robot.tree, []
    for i, column in enumerate(inside.actuation.T):
        driven = np.flatnonzero(column)
        j = int(np.searchsorted(tree.iv, driven[0], side="right")) - 1 if len(driven) == 1 else -1
        if j < 0:
            raise ProblemError(
                f"positions: expected them given, as control {i} drives {len(driven)} degrees of freedom and not one"
            )
        if (gear := float(column[driven[0]])) < 0.0:
            raise ProblemError(
                f"system: expected an actuation whose controls push joints forward, got {gear:g} of control {i}: the"
                " spring of a motor would push its joint away"
            )
        found.append(int(tree.iq[j] + driven[0] - tree.iv[j]))
    return found


def _check_plain(field: str, where: NDArray[np.int64], system: System) -> None:
    """Raise ProblemError for places of numbers that are a cosine, a sine or a part of a quaternion."""
    space = space_of(system)
    for unit in [] if space is None else space.units:
        if (inside := where[(where >= unit.start) & (where < unit.stop)]).size:
            raise ProblemError(
                f"{field}: expected angles and lengths, got number {inside[0]} of x, a part of a quaternion or of (cos,"
                " sin); a revolute joint with limits has its angle in x"
            )


def _places(field: str, value: Any, count: int, size: int) -> NDArray[np.int64]:
    """Places (count,) among ``size`` numbers."""
    given = as_array(field, value, (count,))
    if (given != np.floor(given)).any() or (given < 0).any() or (given >= size).any():
        raise ProblemError(f"{field}: expected places from 0 to {size - 1}, got {given.tolist()}")
    return given.astype(np.int64)

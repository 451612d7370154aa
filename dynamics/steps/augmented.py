"""Systems around another one, and compositions: what drives it, what it remembers, both functions of one's own."""

from collections.abc import Callable, Iterable
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import ModelError, ProblemError, affordable, as_array, axes, integer, positive_integer, said, suggesting
from ddp.machine.number import WIDTH
from ddp.protocols import Array, copied
from ddp.systems.by_knot import ByKnot
from ddp.systems.derived_dynamics import as_system, checked_state
from ddp.systems.system import Contraction, Expansion, Stepping, System, ability
from ddp.tracing.function import TracedFunction, space_of
from ddp.tracing.groups import Euclidean
from ddp.tracing.spaces import Space
from ddp.tracing.trace import FollowError, refused
from dynamics.quantities.sensors import InnerSensor
from dynamics.robots.equipment import pairs_of_limits
from dynamics.robots.model import Robot
from dynamics.steps import composition
from dynamics.steps.doubts import stated_in


class Around(ByKnot):
    """System around another one, ``system``, whose space of states is known."""

    _space: Space
    _fixed = "system", "dt", "inputs", "memory"

    def __init__(self, system: Any) -> None:
        self.system: System = as_system(system, "system")
        known = space_of(self.system)
        if known is None:
            raise ProblemError("system: expected one of plain numbers, or whose `space` of states is known")
        self._space = known
        self.nx, self.nu, self.dt = self.system.nx, self.system.nu, self.system.dt

    @property
    def thread_safe(self) -> bool:
        return bool(ability(self.system, "thread_safe"))

    @property
    def lanes(self) -> int:
        """Step lengths that are rolled out for the price of one: those of the system."""
        return WIDTH if ability(self.system, "lanes") else 0

    @property
    def implicit(self) -> bool:
        """Whether the system's steps are those of an implicit integrator."""
        return bool(ability(self.system, "implicit"))

    @property
    def schedule(self) -> Any:
        return ability(self.system, "schedule")

    @property
    def robot(self) -> Any:
        return self.system.robot  # type: ignore[attr-defined]

    @property
    def digest(self) -> bytes:
        return getattr(self.system, "digest", b"")

    @property
    def variable(self) -> tuple[str, ...]:
        return tuple(ability(self.system, "variable"))

    @property
    def parameters(self) -> Array:
        """Parameters of the system's function."""
        return self.system.parameters  # type: ignore[attr-defined, no-any-return]

    @property
    def masses(self) -> Array:
        """Masses (bodies,) [kg] of the system's robot."""
        return self.system.masses  # type: ignore[attr-defined, no-any-return]

    def varied(self, **numbers: Any) -> Self:
        """Copy around a copy of the system with other numbers."""
        return copied(self, "_contraction", system=ability(self.system, "varied")(**numbers))

    def renew(self) -> bool:
        renew = getattr(self.system, "renew", None)
        return bool(renew and renew())

    def strangers(self, parts: Iterable[Any]) -> list[str]:
        own = ability(self.system, "strangers")
        return [] if own is None else list(own(parts))

    def sensed(self, sensor: Any) -> Any:
        own, robot = getattr(sensor, "robot", None), getattr(self, "robot", None)
        if not (isinstance(own, Robot) and isinstance(robot, Robot) and own.nq + own.nv < self.nx):
            return sensor
        return InnerSensor(sensor) if (own.nq, own.nv) == (robot.nq, robot.nv) else sensor

    def _called(self, x: Any, u: Any) -> Any:
        return self.step(x, u)

    def _called_at(self, x: Any, u: Any, knot: int) -> Any:
        return self.step(x, u, knot)


def _numbers(part: Any) -> int:
    """Numbers of a state of the robot that a term or a constraint is made for, 0 of others."""
    robot = getattr(part, "robot", None)
    return robot.nq + robot.nv if isinstance(robot, Robot) else 0


Function = Callable[[Any, Any, Any], Any]


@suggesting
class Augmented(Around):
    """``u = inputs(x, s, r)``, ``x' = f(x, u)``, ``s' = memory(x, s, r)``: a system of states (x, s) and controls r.

    system: any one, f: a robot's, with contacts or without, a function's, one of one's own, another `Augmented`.
    inputs: gives its controls (nu,).   memory: gives the next s (ns,); None where ns = 0.
    nr, ns: how many numbers r and s have.
    control_limits (nr, 2): lower and upper limit of each r, ±inf for none; default none.
    name: what it is, for people.   labels: texts with {} for names of the system's controls, one that makes the names
    of r and others that make those of s, all controls one after another for each; None: r and s are numbered.

    Both functions are of vectors x (nx,), s (ns,), r (nr,) of one knot, NumPy's functions as those of
    `FunctionDynamics`: they are traced, and derivatives of both orders are exact. What is known of f, and of contacts,
    is used as it is; no tensor is built. Named ones are in `dynamics.augment`.
    Raises ProblemError for malformed arguments, ModelError if a function cannot be traced or is wrong.
    """

    def __init__(
        self, system: Any, inputs: Function, memory: Function | None = None, nr: int | None = None, ns: int = 0,
        control_limits: ArrayLike | None = None, name: str = "augmented",
    ) -> None:  # fmt: skip
        self.made_by: tuple[Any, ...] | None = None
        self.labels: tuple[str, ...] | None = None
        super().__init__(system)
        self.inputs, self.memory, self.name = inputs, memory, name
        self.ns = integer("ns", ns)
        self.nr = self.system.nu if nr is None else positive_integer("nr", nr)
        affordable("nr", self.nr, (self.system.n + self.nr) ** 2)
        affordable("ns", self.ns, (self.system.n + self.ns + self.nr) ** 2)
        for field, function in (("inputs", inputs), ("memory", memory)):
            if not callable(function) and not (function is None and field == "memory"):
                raise ProblemError(f"{field}: expected a function of (x, s, r), got {said(function)}")
        if (memory is None) != (self.ns == 0):
            raise ProblemError(f"memory: expected {'a function' if self.ns else 'None'} for ns = {self.ns} numbers")
        if self.ns:
            self._space = Space((*self._space.parts, Euclidean(self.ns)))
        self.nx, self.nu = self.system.nx + self.ns, self.nr
        self.control_limits = pairs_of_limits("control_limits", control_limits, self.nr)
        self._functions = self._followed()
        if (durations := ability(self.system, "step_durations")) is not None:
            self.step_durations = durations

    def _followed(self) -> TracedFunction:
        """(g, a) (nu + ns,) of (x, s) and r, traced."""
        nx, inputs, memory = self.system.nx, self.inputs, self.memory
        wanted = ("inputs", inputs, self.system.nu), ("memory", memory, self.ns)

        def of(function: Callable[..., Any], z: Any, r: Any) -> Any:
            return np.array(function(z[:nx].copy(), z[nx:].copy(), r.copy()))

        def both(z: Any, r: Any) -> Any:
            return of(inputs, z, r) if memory is None else np.concatenate([of(inputs, z, r), of(memory, z, r)])

        for field, function, size in wanted:
            if function is not None:
                checked_state(field, partial(of, function), self._space.neutral(), np.zeros(self.nr), size, "value")
        try:
            return TracedFunction("inputs, memory", both, self.nx, self.nr, space=self._space)
        except ModelError:
            raise
        except Exception as reason:
            why = reason if isinstance(reason, FollowError) else refused(reason)
            raise ModelError(f"inputs, memory: cannot be traced for their derivatives: {why}") from reason.__cause__

    # -- sizes and abilities -----------------------------------------------------------------------------------------

    @property
    def batched(self) -> bool:
        """Whether many knots are contracted faster than one by one: whether those of the system are."""
        return bool(ability(self.system, "batched"))

    @cached_property
    def _begin(self) -> int:
        """Floats of the system's record, with which one begins; B, G and (x, s, r) follow."""
        return int(self.system.record_size)

    @cached_property
    def record_size(self) -> int:  # type: ignore[override]
        """Floats that a knot keeps for the second order."""
        n, nu, nz = self.system.n, self.system.nu, self.n + self.nr
        return self._begin + n * nu + nu * nz + self.nx + self.nr

    @property
    def digest(self) -> bytes:
        return self._functions.digest + super().digest

    def renew(self) -> bool:
        before = self._functions
        self._functions = before.renewed()
        if self._functions is not before:
            vars(self).pop("_contraction", None)
        return super().renew() or self._functions is not before

    def _origin(self) -> str:
        return f"traced, made in {self._functions.seconds:.3f} s, around {self.system}"

    def __repr__(self) -> str:
        return f"Augmented({self.system!r}, nr={self.nr}, ns={self.ns}, name={self.name!r})"

    def __str__(self) -> str:
        return f"{self.name}: {self.nx} states, {self.nr} controls; derivatives {self._origin()}"

    @property
    def named_numbers(self) -> tuple[list[str], list[str], list[str]] | None:
        own = ability(self.system, "named_numbers")
        if own is None:
            return None
        controls = [f"control {i}" for i in range(self.nr)]
        return own[0], own[1], controls if self.labels is None else [self.labels[0].format(name) for name in own[2]]

    @property
    def named_memory(self) -> list[str]:
        """Names of the numbers beside positions and velocities, of systems whose numbers have names."""
        own, inner = ability(self.system, "named_numbers"), getattr(self.system, "named_memory", [])
        numbered = [f"s{i}" for i in range(len(inner), len(inner) + self.ns)]
        kept = numbered if self.labels is None else [one.format(u) for one in self.labels[1:] for u in own[2]]
        return [*inner, *(name + "'" * inner.count(name) for name in kept)]

    @property
    def torques(self) -> Callable[[Array, Array], Array] | None:
        """Function of states (M, nx) and controls (M, nr) that gives a robot's generalised forces (M, nv)."""
        own = getattr(self.system, "torques", None)
        return None if own is None else lambda X, R: own(*self.inner(X, R))

    # -- what is known of x and u, as functions of (x, s) and r ------------------------------------------------------

    def inner(self, X: Array, R: Array) -> tuple[Array, Array]:
        """States and controls of the system, (M, nx) and (M, nu), at (x, s) and r of M knots."""
        U = self._values(X, R)[:, : self.system.nu]
        return np.ascontiguousarray(X[:, : self.system.nx]), np.ascontiguousarray(U)

    def inner_and_slopes(self, X: Array, R: Array) -> tuple[Array, Array, Array]:
        """`inner` and G (M, nu, nz), derivatives of the system's controls by (dx, ds) and dr."""
        M, size, nu = len(X), self._functions.size, self.system.nu
        by_x, by_r = np.empty((M, size, self.n)), np.empty((M, size, self.nr))
        self._functions.first(np.ascontiguousarray(X), np.ascontiguousarray(R), by_x, by_r)
        return *self.inner(X, R), np.concatenate([by_x[:, :nu], by_r[:, :nu]], axis=2)

    def add_pulled(
        self, expand: Callable[..., None], exact: bool, X: Array, R: Array, l: Array, lz: Array, lzz: Array
    ) -> None:  # fmt: skip
        """Add derivatives of what ``expand(x, u, l, lx, lxx)`` adds those of by x and u, all of the same knots."""
        (x, u, G), nz = self.inner_and_slopes(X, R), self.system.n + self.system.nu
        slope, bend = np.zeros((len(X), nz)), np.zeros((len(X), nz, nz))
        expand(x, u, l, slope, bend)
        lz += self.pulled_slopes(G, slope[:, None])[:, 0]
        self.pull_bends(X, R, G, slope, bend, exact, lzz)

    def pulled_slopes(self, G: Array, slopes: Array) -> Array:
        """Derivatives (M, k, nz) of functions of x and u, slopes (M, k, n + nu), by (dx, ds) and dr."""
        n = self.system.n
        out: Array = slopes[..., n:] @ G
        out[..., :n] += slopes[..., :n]
        return out

    def pull_bends(
        self, X: Array, R: Array, G: Array, slope: Array, bend: Array, exact: bool, out: Array
    ) -> None:  # fmt: skip
        """Add second derivatives (M, nz, nz) of a function of x and u; without those of inputs if not ``exact``."""
        n = self.system.n
        if exact and slope[:, n:].any():
            weights, bends = np.hstack([slope[:, n:], np.zeros((len(X), self.ns))]), np.empty_like(out)
            self._functions.second(np.ascontiguousarray(X), np.ascontiguousarray(R), weights, bends)
            out += bends
        composition.pull(bend, G.reshape(len(X), -1), 0, n, out)

    # -- steps and rollouts ------------------------------------------------------------------------------------------

    def _values(self, X: Array, R: Array) -> Array:
        return self._functions.values(np.ascontiguousarray(X), np.ascontiguousarray(R))

    def _stepped(self, X: Array, U: Array, first: int = 0) -> Array:
        states, (controls, S) = X[:, : self.system.nx], np.split(self._values(X, U), [self.system.nu], axis=1)
        after = self.system.step(np.ascontiguousarray(states), np.ascontiguousarray(controls), first)
        return np.hstack([after, S])

    def check_state(self, field: str, x: Array) -> None:
        states, _ = np.split(as_array(field, x, (*(None,) * (axes(x) - 1), self.nx)), [self.system.nx], axis=-1)
        self.system.check_state(field, np.ascontiguousarray(states))

    def doubts(self, problem: Any) -> list[str]:
        parts = stated_in(problem)
        wide = [self.ns > 0 and _numbers(part) == self.nx for part in parts]
        found = self.strangers([part for part, is_wide in zip(parts, wide, strict=True) if not is_wide])
        own = getattr(getattr(self, "robot", None), "name", self.system)
        other = f"whose states are other numbers than those of {self.name} around {own}"
        told = (part for part, is_wide in zip(parts, wide, strict=True) if is_wide)
        return [*found, *(f"{type(part).__name__}: made for {part.robot.name}, {other}" for part in told)]

    def excesses(self, problem: Any, X: Array, U: Array) -> list[str]:
        own = ability(self.system, "excesses")
        if own is None:
            return []
        _, controls = self.inner(X[: len(U)], U)
        return list(own(problem, X[:, : self.system.nx], controls))

    def stepping(self, count: int, lanes: int) -> Stepping | None:
        own = ability(self.system, "stepping")
        inner = None if own is None else own(count, lanes)
        if inner is None:
            return None
        nx, nu = self.system.nx, self.system.nu
        found, given = np.empty(WIDTH * (nu + self.ns)), np.empty(WIDTH * (nx + nu + len(inner.parameters)))
        given[WIDTH * (nx + nu) :] = np.repeat(inner.parameters, WIDTH)
        where = inner.address, inner.context, self._functions.code.addresses["value"]
        sizes = nx, nu, self.ns, self.nr
        words = np.array([*where, *sizes, found.ctypes.data, given.ctypes.data], dtype=np.int64)
        owner = words, found, given, inner, self._functions.code
        return Stepping(composition.step_eight.address, words.ctypes.data, np.zeros(0), owner)

    # -- derivatives -------------------------------------------------------------------------------------------------

    def expand(self, X: Array, U: Array, out: Expansion, first: int = 0) -> None:
        X, R, M = np.ascontiguousarray(X), np.ascontiguousarray(U), len(U)
        (controls, inner), begin = self._expanded(X, R, first), self._begin
        if self.thread_safe:  # compiled, so that it takes next to no time
            self.system.expand_second(*controls, inner, first)
        by_x, by_r = np.empty((M, self._functions.size, self.n)), np.empty((M, self._functions.size, self.nr))
        self._functions.first(X, R, by_x, by_r)
        out.record[:, :begin] = inner.record
        composition.compose(inner.A, inner.B, by_x, by_r, self.system.nu, out.A, out.B, out.record, begin)
        out.record[:, -self.nx - self.nr : -self.nr], out.record[:, -self.nr :] = X, R

    def _expanded(self, X: Array, R: Array, first: int) -> tuple[tuple[Array, Array], Expansion]:
        """States and controls of the system, and its own first order there."""
        own, inner = self.inner(X, R), Expansion.of(self.system, len(X))
        self.system.expand(*own, inner, first)
        return own, inner

    def expand_second(self, X: Array, U: Array, out: Expansion, first: int = 0) -> None:
        """Complete records of systems whose code is Python's; those of compiled ones are complete."""
        if not self.thread_safe:
            own, inner = self._expanded(np.ascontiguousarray(X), np.ascontiguousarray(U), first)
            self.system.expand_second(*own, inner, first)
            out.record[:, : self._begin] = inner.record

    def contract(self, record: Array, weight: Array, out: Array) -> None:
        M, n, nu, begin = len(record), self.system.n, self.system.nu, self._begin
        own, B = np.ascontiguousarray(record[:, :begin]), record[:, begin : begin + n * nu].reshape(M, n, nu)
        Hf = np.empty((M, n + nu, n + nu))
        self.system.contract(own, np.ascontiguousarray(weight[:, :n]), Hf)
        on_functions = np.hstack([np.einsum("kiu,ki->ku", B, weight[:, :n]), weight[:, n:]])
        X, R = (np.ascontiguousarray(part) for part in np.split(record[:, -self.nx - self.nr :], [self.nx], axis=1))
        self._functions.second(X, R, np.ascontiguousarray(on_functions), out)
        composition.pull(Hf, record, begin + n * nu, n, out)

    def contraction(self) -> Contraction:
        return self._contraction

    @cached_property
    def _contraction(self) -> Contraction:
        inner, own = self.system.contraction(), self._functions.contraction
        sizes = self.system.n, self.system.nu, self.ns, self.nr, self._begin
        words = np.array([inner.address, inner.context, own.address, own.context, *sizes], dtype=np.int64)
        return Contraction(composition.contract_one.address, words.ctypes.data, (words, inner, own))

    def __reduce__(self) -> Any:
        if self.made_by is not None:  # functions of a composition may be local
            make, (_, *others) = self.made_by
            return make, (self.system, *others)
        own = self.system, self.inputs, self.memory, self.nr, self.ns, self.control_limits, self.name
        return type(self), own

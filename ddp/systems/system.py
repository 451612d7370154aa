"""Systems as the solver works with them: one call for many knots, compiled second orders, optional abilities.

Robots' systems have all of this themselves; to a user's own `ddp.protocols.Dynamics` it is added by
`ddp.systems.derived_dynamics`.
"""

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ddp.protocols import Array

MOTIONS, COUPLED, ENDING = 1, 2, 3
"""Blocks of second orders, see `Abilities.contract_batch`: of positions and velocities, of controls with them, and of
the positions where steps end."""


class Expansion(NamedTuple):
    """First order of M knots, and what each keeps for its second order.

    A (M, n, n), B (M, n, nu): ``f(x ⊕ dx, u + du) ⊖ f(x, u) = A dx + B du + ...``.
    record (M, record_size): opaque to the solver, laid out by the dynamics that wrote it.
    """

    A: Array
    B: Array
    record: Array

    @classmethod
    def of(cls, system: "System", M: int, empty: Callable[[tuple[int, ...]], Array] = np.empty) -> "Expansion":
        """Memory for M knots of a system, from an allocator."""
        n, nu = system.n, system.nu
        return cls(empty((M, n, n)), empty((M, n, nu)), empty((M, system.record_size)))


def expanded(system: "System", X: Array, U: Array, first: int = 0) -> Expansion:
    """First order and complete records of M knots, of which the first has index ``first``."""
    out = Expansion.of(system, len(U))
    system.expand(X, U, out, first)
    system.expand_second(X, U, out, first)
    return out


class LinearSystem(NamedTuple):
    """``δx' = A δx + B δu`` of tangent vectors, in continuous time or from step to step; a batch has an axis before.

    A (n, n), B (n, nu).
    """

    A: Array
    B: Array


class Contraction(NamedTuple):
    """The address of a C function and its first argument ``context``; ``owner`` keeps alive what that points to.

    Of a policy ``void(context, double *t, double *x, double *u)``, see `Policy.compiled`. Of second orders
    ``void(context, record*, weight*, hessian*)``: it writes the symmetric (n + nu, n + nu) Hessian of
    ``weight @ (f(x ⊕ dx, u + du) ⊖ f(x, u))`` of the knot whose record it is given.
    """

    address: int
    context: int
    owner: Any

    def call(self, *arrays: Array) -> None:
        """Call it with three arrays."""
        function = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(self.address)
        function(self.context, *(array.ctypes.data for array in arrays))


class Stepping(NamedTuple):
    """Compiled steps of eight states at once: the C function ``void(inputs*, outputs*, context, knot)``.

    inputs: the numbers of a state, a control and ``parameters``, outputs: those of the next state, eight doubles each.
    ``owner`` keeps alive what ``context`` points to.
    """

    address: int
    context: int
    parameters: Array
    owner: Any


class Routines(NamedTuple):
    """Compiled work of a system on whole trajectories, for one thread at a time: C functions of four words each.

    functions: what makes each, by name; it is compiled when its ``address`` is first asked for.
    follow ``(context, eight, 0, 0)``: roll out a `ddp.machine.trajectories.Eight`.
    track ``(context, lengths, 0, 0)``: roll out a `ddp.machine.trajectories.Lengths`, as ``track`` does.
    expand ``(context, trajectory, first, second)``: the first order of a `ddp.machine.trajectories.Trajectory` where
        ``first`` is not zero, and what ``expand_second`` completes where ``second`` is not.
    contract ``(context, trajectory, 0, 0)``: its second order with its weights, as ``contract_batch`` does where steps
        are semi-implicit, else as ``contract``.
    stray ``(context, words, 0, 0)``: work of ``strayed``, see `Abilities`, which not all have.
        Words: N, nx, n, nu, addresses of X, dX, U, and of ``X ⊕ dX`` and the gaps there.
    ``owner`` keeps alive what ``context`` points to.
    """

    functions: Mapping[str, Callable[[], Any]]
    context: int
    owner: Any

    @property
    def strays(self) -> bool:
        """Whether there is ``stray``."""
        return "stray" in self.functions

    def address(self, name: str) -> int:
        """Address of a routine, 0 if there is none of that name."""
        make = self.functions.get(name)
        return 0 if make is None else int(make().address)


@runtime_checkable
class System(Protocol):
    """Discrete-time system ``x' = f(x, u)`` on a manifold, with all that the solver asks for.

    nx numbers describe a state, n a tangent vector of it, nu a control; dt [s] is the step (1 if there is none).
    Everything a knot yields depends on that knot alone: however knots are shared among processes, results are the same.
    `Abilities` are optional.
    """

    @property
    def nx(self) -> int: ...
    @property
    def n(self) -> int: ...
    @property
    def nu(self) -> int: ...
    @property
    def dt(self) -> float: ...
    @property
    def record_size(self) -> int: ...

    def step(self, x: Array, u: Array, first: int = 0) -> Array:
        """The next state, (nx,) or (M, nx); ``first`` is the index of the (first) knot, as in ``expand``."""

    def rollout(self, x0: Array, U: Array) -> Array:
        """The states (N+1, nx) that controls U (N, nu) lead to."""

    def difference(self, x0: Array, x1: Array) -> Array:
        """``x1 ⊖ x0``, the tangent vector at x0 that leads to x1: (n,) or (M, n)."""

    def integrate(self, x: Array, dx: Array) -> Array:
        """``x ⊕ dx``, (nx,) or (M, nx)."""

    def check_state(self, field: str, x: Array) -> None:
        """Raise ProblemError naming ``field`` if an x (..., nx) is not a state (a quaternion that is not unit, say)."""

    def linearize(self, x: Array, u: Array) -> tuple[Array, Array]:
        """``A (n, n), B (n, nu)`` of one knot."""

    def hessian(self, x: Array, u: Array, weight: Array) -> Array:
        """The exact Hessian (n+nu, n+nu) of ``weight @ (f(x ⊕ dx, u + du) ⊖ f(x, u))`` of one knot."""

    def nominal_control(self, x: Array) -> Array:
        """The control (nu,) that keeps x at rest as well as one can, zeros where there is no such notion.

        (M, nu) of states (M, nx).
        """

    def track(
        self, X: Array, U: Array, k: Array, K: Array, alphas: Array, gaps: Array, lower: Array, upper: Array
    ) -> tuple[Array, Array]:
        """Closed-loop rollouts (S, N+1, nx), (S, N, nu) from X[0], one for each of S step lengths alpha.

        ``u = clip(U + alpha k + K (x ⊖ X), lower, upper)``, ``x' = f(x, u) ⊕ ((alpha - 1) gap)``; NaN from where it
        diverges. gaps (N, n): ``f(X_k, U_k) ⊖ X_{k+1}``; a rollout leaves the share 1 - alpha of them open, exactly.
        lower, upper (nu,) or (N, nu): the limits of controls, ±inf where there are none.
        """

    def expand(self, X: Array, U: Array, out: Expansion, first: int = 0) -> None:
        """The first order of M knots, of which the first has index ``first``, written into ``out``."""

    def expand_second(self, X: Array, U: Array, out: Expansion, first: int = 0) -> None:
        """Complete ``out.record`` after ``expand`` at the same X, U."""

    def contract(self, record: Array, weight: Array, out: Array) -> None:
        """Write the Hessians (M, nz, nz) of M knots into ``out``, each with its row of weight (M, n)."""

    def contraction(self) -> Contraction:
        """The compiled second order, for the backward sweep."""

    def closing(self) -> Contraction:
        """Effect of an open gap on deviations, compiled: the C function ``void(context, gap*, weight*, out*)``.

        With y = f(x ⊕ dx, u + du) ⊖ f(x, u), the deviation from the next state is log(Exp(gap) Exp(y)). It writes
        the Jacobian (n, n) in y at 0, then the Hessian (n, n) of ``weight @`` it. Address 0 where states are flat.
        Where entries differ from the unit matrix's, and from zero, depends on the system alone; others stay as they
        are, or are written: nobody reads them.
        """


class Tracking(NamedTuple):
    """Weights of the errors that feedback trades for controls, per second.

    state (n,), control (nu,): of each component of ``x ⊖ X`` and of ``u - U``, squared and halved. state may be
    a matrix W (n, n), too: errors e cost ½ eᵀ W e. It is one by default for robots with rods.
    final (n,) or (n, n): of errors at the end, once.
    restoring (nu, n): feedback on errors that contacts forbid.
    held: whether controls are held over a step, or go straight from the middle of one to that of the next.
    limits (nu,), (nu,): of controls, where feedback may go further than the plan; default the problem's.
    lead: part of a step by which the plan's positions are ahead of its velocities, which the reference takes back. The
    default, 0, keeps all of the plan, and so its end.
    friction: coefficient of the cones that feedback keeps the forces of contacts in, as far as the plan does.
    hold [s]: how long the last step goes on after the motion, before errors at the end count.
    """

    state: Array
    control: Array
    final: Array
    restoring: Array
    held: bool = True
    limits: tuple[Array, Array] | None = None
    lead: float = 0.0
    friction: float = np.inf
    hold: float = 0.0


class Cones(NamedTuple):
    """Limits ``C du + D dx <= b`` of what feedback adds at M knots, up to m each.

    C (M, m, nu): rows of length 1, or zeros where there is no limit.   D (M, m, n), b (M, m): not negative.
    """

    C: Array
    D: Array
    b: Array


class Footing(NamedTuple):
    """Feet that stand along a motion, at M knots.

    names: of m feet.
    moves (M, m, r, n/2): velocities of each in its axes, along the ground twice, across it, then of turning for feet
    that do not turn; on velocities of a state. Zeros of feet that do not stand.
    legs (M, m, n/2, r): deviations of joints that move a foot that stands, and not the base.
    slow [m/s], patience [s]: a foot slides that goes with twice this speed along the ground for this long.
    """

    names: tuple[str, ...]
    moves: Array
    legs: Array
    slow: float
    patience: float


class Tracked(Protocol):
    """Knowledge of a system that makes its motions be tracked in the world: see `ddp.feedback`."""

    def weights(self, X: Array, U: Array) -> Tracking:
        """Weights of errors about a motion X (N+1, nx), U (N, nu)."""

    def stretches(self, horizon: int) -> list[range]:
        """The runs of knots in which time passes and nothing jumps."""

    def in_steps(self, counts: Sequence[int], durations: Sequence[float]) -> System:
        """The system that feedback is computed for, with so many steps and so long [s] in each of ``stretches``."""

    def free_and_resisted(self, X: Array) -> tuple[Array, Array]:
        """Parts of the errors at the knots 0 .. M-1, in states X (M, nx), twice (M, n, n).

        Those that contacts leave free, and of those that they forbid, those of joints that move what touches.
        """

    def settled(self, x: Array) -> Array:
        """A measured state (nx,) without what steps would take back at once, from which motion is predicted."""

    def driven(self) -> NDArray[np.bool_]:
        """Flags of the velocities (n/2,) that controls act on directly."""

    def pulling(self) -> NDArray[np.bool_]:
        """Flags of controls (nu,) that pull and cannot push, as tendons."""

    def cones(self, X: Array, U: Array, friction: float) -> Cones | None:
        """Limits of deviations from a motion X (N+1, nx), U (N, nu) that keep forces in their cones; None for none."""

    def footing(self, X: Array) -> Footing | None:
        """Feet that stand at the knots 0 .. M-1, in states X (M, nx); None if there are no feet."""

    def deviation(self) -> Contraction:
        """The C function ``void(context, at*, x*, out*)``: out (n,) := x ⊖ (X ⊕ dx), with X and dx in a row ``at``."""


class Abilities(Protocol):
    """Optional members of a `System`, here with what stands for those that one lacks; `ability` reads them.

    thread_safe: whether several threads may ask at once, for compiled kernels do the work.
    lanes: how many step lengths are rolled out for the price of one, 0 for none.
    control_limits (nu, 2): lower and upper limit of each control, ±inf where there is none, for problems given none.
    in_blocks: what ``contract_batch`` writes, if there is one: `MOTIONS`, `COUPLED` or `ENDING`.
    semi_implicit: where states may be halves (q, v) with δq' = δq + h δv' but for a few rows, the step h > 0, or
        those (K,) of knots, h >= 0, the last one to the end; and (g, 2) where the runs of other rows of δq' begin and
        how many they are; None if not. Sweeps are then faster.
    batched: whether ``contract`` takes many knots at once, if weights are known before, faster than one by one.
    notes_size: floats of a knot's notes of rollouts: what costs would have to find again, contact forces say.
    variable: names of the numbers that ``varied`` takes.
    schedule (N,): which kind of step each knot is, the last one to the end; None where all are of one kind.
    tracked: what feedback needs to know of the system beyond the solver's, see `Tracked`; None for the solver's gains.
    named_numbers: names of a state's positions (nx - n/2) and velocities (n/2), and of controls (nu,); None for none.
    implicit: whether steps are those of an implicit integrator.
    space: the `ddp.tracing.spaces.Space` of states, so that functions of them are traced; None where it is not known.
    linear: whether steps are known to be linear, with constants: then full-space steps are rollouts.
    """

    thread_safe: bool = False
    lanes: int = 0
    control_limits: Array | None = None
    semi_implicit: tuple[float | Array, NDArray[np.int64]] | None = None
    batched: bool = False
    in_blocks: int = MOTIONS
    notes_size: int = 0
    tracked: Tracked | None = None
    named_numbers: tuple[list[str], list[str], list[str]] | None = None
    implicit: bool = False
    linear: bool = False
    space: Any = None
    variable: tuple[str, ...] = ()
    schedule: NDArray[np.int64] | None = None

    def varied(self, **numbers: Any) -> System:
        """Copy with other numbers of ``variable``, checked; see `Problem.varying`."""

    def stepping(self, count: int, lanes: int) -> Stepping | None:
        """Compiled steps of ``count`` knots, of which the first so many ``lanes`` are looked at; None for none."""

    def routines(self, count: int, alone: bool = False, before: Routines | None = None) -> Routines | None:
        """Compiled routines for trajectories of ``count`` knots, with memory of their own; None if there are none.

        alone: whether for one problem and not for many, for which robots have code of their own.
        before: routines that nothing calls any more, of any system, whose memory these may take.
        """

    def contract_batch(self, record: Array, weight: Array, out: Array) -> None:
        """Contract M knots of a batched semi-implicit system, by blocks that sweeps need not multiply by A and B.

        The Hessian of ``weight @ (f(x ⊕ dx, u + du) ⊖ f(x, u))`` is one of δq, δv and δv', of which δv' = E δz. Its
        blocks (m, m) qq, qv, vv, nq, n for δv', are one behind the other in out (M, .), each in whole registers; then
        come the blocks of nn, a square one for each of the runs, in whole registers together. Of qq and vv the upper
        triangles count; entries that always vanish may stay; nn has entries in the runs' rows alone.

        `COUPLED` ones have uq (nu, m) of controls and positions behind them, in whole registers, and `ENDING` ones then
        ww (m, m), symmetric, of the first half δq' of δx'. Both read records that ``expand_second`` has completed,
        `MOTIONS` those that ``expand`` leaves.
        """

    def track_noting(
        self, X: Array, U: Array, k: Array, K: Array, alphas: Array, gaps: Array, lower: Array, upper: Array
    ) -> tuple[Array, Array, Array]:
        """``track``, and the notes (S, N, notes_size)."""

    def doubts(self, problem: Any) -> Iterable[str]:
        """Sentences about what a problem of this system has, and is hardly meant to have; told as they are found."""

    def strangers(self, parts: Iterable[Any]) -> list[str]:
        """Sentences about terms, constraints or sensors that are made for another system of the same sizes."""

    def sensed(self, sensor: Any) -> Any:
        """Sensor of its states, from one of a system within it; other sensors as they are."""

    def undefined(self, x: Array, knot: int) -> Exception:
        """The error of a knot that has no next state from x, which says why."""

    def excesses(self, problem: Any, X: Array, U: Array) -> list[str]:
        """Sentences about a motion X (N+1, nx), U (N, nu) that leaves what the system allows; `explain` tells them."""

    def is_beyond_reach(self, problem: Any) -> bool:
        """Whether a target at the end of a problem is known to be out of reach."""

    def turn(self, X: Array) -> float:
        """Largest angle [rad] that a joint turns by from the first state of X (N+1, nx) to the last."""

    def strayed(self, X: Array, dX: Array, U: Array) -> tuple[Array, Array]:
        """``X ⊕ dX`` (N+1, nx), but for its first state, and ``f(x_k, u_k) ⊖ x_{k+1}`` (N, n) there, unchecked."""

    def step_durations(self, count: int) -> Array:
        """Duration [s] of each of the knots 0 .. count-1, 0 for an event; without it, dt."""

    def held_directions(self, x: Array) -> Array:
        """Rows C (m, n) of what cannot deviate about a state x of the first knot: motion keeps ``C dx = 0``."""

    def by_duration(self, X: Array, U: Array) -> Array:
        """Derivatives (M, n) of the next state by how long the knots 0 .. M-1 take, tangent vectors there."""


def traced_of(system: Any) -> Any:
    """The trace of a system's function, another one once it is traced anew; None if it has none."""
    return getattr(system, "traced", None)


def ability(system: Any, name: str) -> Any:
    """An optional member of a system: a value or its default, a method or None."""
    default = getattr(Abilities, name)
    return getattr(system, name, None if callable(default) else default)

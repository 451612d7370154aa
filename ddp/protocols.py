"""What the solver asks of a dynamical system and of a cost term: the vocabulary the packages share."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Expansion(NamedTuple):
    """First order of M knots, and what each keeps for its second order.

    A (M, n, n), B (M, n, nu): ``f(x ⊕ dx, u + du) ⊖ f(x, u) = A dx + B du + ...``.
    record (M, record_size): opaque to the solver, laid out by the dynamics that wrote it.
    """

    A: Array
    B: Array
    record: Array


class Contraction(NamedTuple):
    """A compiled second order: the C function ``void(context, record*, weight*, hessian*)``.

    It writes the symmetric (n + nu, n + nu) Hessian of ``weight @ (f(x ⊕ dx, u + du) ⊖ f(x, u))`` of the knot
    whose record it is given. ``owner`` keeps alive what ``context`` points to.
    """

    address: int
    context: int
    owner: Any


class CompiledCost(NamedTuple):
    """A compiled cost term: the C function ``void(context, block, order, first)`` of `ddp.costs.bound`.

    ``owner`` keeps alive what ``context`` points to.
    """

    address: int
    context: int
    owner: Any


@runtime_checkable
class Dynamics(Protocol):
    """A discrete-time system ``x' = f(x, u)`` on a manifold.

    nx numbers describe a state, n a tangent vector of it, nu a control; dt [s] is the step (1 if there is none).
    Everything a knot yields depends on that knot alone: however knots are shared among processes, results are the same.
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
        """The control (nu,) that keeps x at rest as well as one can, zeros where there is no such notion."""

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
        """What an open gap does to deviations, compiled: the C function ``void(context, gap*, weight*, out*)``.

        With y = f(x ⊕ dx, u + du) ⊖ f(x, u), the deviation from the next state is log(Exp(gap) Exp(y)). It writes
        the Jacobian (n, n) in y at 0, then the Hessian (n, n) of ``weight @`` it. Address 0 where states are flat.
        Where entries differ from the unit matrix's, and from zero, depends on the system alone.
        """


@runtime_checkable
class Term(Protocol):
    """A user's own cost term: ``value`` is enough; ``gradient`` and ``hessian`` may be given beside it."""

    def value(self, x: Array, u: Array) -> float:
        """The cost at one knot; at the end of the horizon u is zeros."""


@runtime_checkable
class BatchTerm(Protocol):
    """A built-in cost term, evaluated for many knots in one call."""

    def values(self, X: Array, U: Array) -> Array:
        """The costs (M,) at X (M, nx), U (M, nu)."""

    def expand(
        self, X: Array, U: Array, weight: float, exact: bool, l: Array, lz: Array, lzz: Array
    ) -> None:
        """Add ``weight`` times value (M,), gradient (M, nz) and Hessian (M, nz, nz); Gauss-Newton unless ``exact``."""


@runtime_checkable
class CompiledTerm(Protocol):
    """A batch term that kernels can ask themselves: all such terms of a problem are evaluated in one call."""

    @property
    def compiled(self) -> CompiledCost:
        """Its C function."""


@runtime_checkable
class Separable(Protocol):
    """A batch term that may know that its Hessian is diagonal everywhere, and Gauss-Newton's the exact one."""

    @property
    def separable(self) -> bool:
        """Whether it is."""


@runtime_checkable
class ThreadSafe(Protocol):
    """Dynamics, terms and constraints of which several threads may ask at once, for compiled kernels do their work."""

    @property
    def thread_safe(self) -> bool:
        """Whether they are."""


@runtime_checkable
class SemiImplicit(Protocol):
    """Dynamics whose states may be halves (q, v) with δq' = δq + h δv' but for a few rows: sweeps are then faster."""

    @property
    def semi_implicit(self) -> tuple[float, NDArray[np.int64]] | None:
        """The step h > 0, and (g, 2) where the runs of other rows of δq' begin and how many they are; None if not."""


@runtime_checkable
class Batched(Protocol):
    """Dynamics that contract many knots at once, if weights are known before, faster than one by one."""

    @property
    def batched(self) -> bool:
        """Whether they do."""


@runtime_checkable
class Blockwise(Protocol):
    """Batched semi-implicit dynamics that write a second order by blocks, which sweeps need not multiply by A and B.

    The Hessian of ``weight @ (f(x ⊕ dx, u + du) ⊖ f(x, u))`` is one of δq, δv and δv', of which δv' = E δz. Its blocks
    (m, m) qq, qv, vv, nq, n for δv', are one behind the other, each in whole registers; then come the blocks of nn, a
    square one for each of the runs, in whole registers together. Of qq and vv the upper triangles count.
    """

    @property
    def semi_implicit(self) -> tuple[float, NDArray[np.int64]] | None:
        """As `SemiImplicit`; where it is None there are no such blocks. nn has entries in the runs' rows alone."""

    def contract_batch(self, record: Array, weight: Array, out: Array) -> None:
        """Write them into out (M, .), with a weight (M, n) for each of M knots; entries that always vanish may stay."""


@runtime_checkable
class Lanes(Protocol):
    """Dynamics that roll out several step lengths for the price of one."""

    @property
    def lanes(self) -> int:
        """How many."""


@runtime_checkable
class Limited(Protocol):
    """Dynamics whose controls have limits, which problems take that are given none."""

    @property
    def control_limits(self) -> Array:
        """Lower and upper limit (nu, 2) of each control, ±inf where there is none."""


@runtime_checkable
class Noting(Protocol):
    """Dynamics whose rollouts note what costs would have to find again, contact forces say, as their records do."""

    @property
    def notes_size(self) -> int:
        """Floats of a knot's notes."""

    def track_noting(
        self, X: Array, U: Array, k: Array, K: Array, alphas: Array, gaps: Array, lower: Array, upper: Array
    ) -> tuple[Array, Array, Array]:
        """``track``, and the notes (S, N, notes_size)."""


@runtime_checkable
class NotedTerm(Protocol):
    """A `BatchTerm` that is cheaper where the dynamics have noted what it needs."""

    def noted(self, dynamics: Dynamics, knots: slice) -> CompiledCost | None:
        """Its C function, which reads notes of rollouts for values and records of expansions for derivatives.

        None where these dynamics do not note it, or not at all of these knots. Its exact Hessian may leave out what it
        asks the dynamics, in their records, to add to the contracted second order.
        """


@runtime_checkable
class Paced(Protocol):
    """Dynamics whose steps of time differ from knot to knot."""

    def step_durations(self, count: int) -> Array:
        """How long each of the knots 0 .. count-1 takes [s], 0 for an event."""


@runtime_checkable
class Timed(Protocol):
    """Dynamics, terms and constraints that know how they change with the time h that a knot takes."""

    def by_duration(self, X: Array, U: Array) -> Array:
        """Derivatives by h of values at X (M, nx), U (M, nu): (M,) of terms, (M, size) of constraints.

        Of dynamics, for the knots 0 .. M-1: (M, n), of the next state, a tangent vector there.
        """


@runtime_checkable
class VaryingTerm(Protocol):
    """A `BatchTerm` that may differ from knot to knot: a reference that moves, say."""

    @property
    def knots(self) -> int | None:
        """For how many knots it is made; None if it is the same for all."""

    def part(self, start: int, stop: int) -> BatchTerm:
        """What it says of its knots start .. stop-1; of one knot, it takes any number of states."""

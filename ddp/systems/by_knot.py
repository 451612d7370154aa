"""Systems that say what f is, one knot at a time; whatever else they do not say is derived.

First derivatives are by complex step, exact to rounding, wherever that agrees with a real difference, else by
differences of fourth order; the second order by differences of the first. Where f is `traced`, compiled code takes the
place of all of that.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ddp import differences
from ddp.compiling.kernel import callback
from ddp.errors import REAL, ModelError, ProblemError, as_array, axes, integer, line_of, numbers, said
from ddp.machine.addresses import array_at, integers_at
from ddp.machine.number import WIDTH
from ddp.matrices import symmetric
from ddp.protocols import Array
from ddp.systems.system import Contraction, Expansion, Routines, Stepping, expanded
from ddp.tracing.function import TracedFunction
from ddp.tracing.rollouts import tracked
from ddp.tracing.spaces import Space
from ddp.tracing.undefined import is_undefined


class ByKnot(ABC):
    """System of one knot at a time, on a Euclidean space unless methods say otherwise; see `system.System`."""

    nx: int
    nu: int
    dt: float
    _space: Space | None = None
    _fixed: tuple[str, ...] = ()
    """Options that its steps have copied."""
    _traced: TracedFunction | None = None
    _linearize: tuple[str, Callable[..., Any] | None] = "linearize", None
    """A function of one's own that gives A and B of a knot, and its name."""
    _hessian: Callable[..., Any] | None = None
    """A function of one's own that gives the Hessian of a knot, contracted with a weight."""

    def __setattr__(self, name: str, value: object) -> None:
        if name in self._fixed and name in vars(self):
            raise AttributeError(f"{name}: steps have it already: make another {type(self).__name__} with it")
        super().__setattr__(name, value)

    @abstractmethod
    def _called(self, x: Any, u: Any) -> Any:
        """The next state (nx,) of x (nx,), u (nu,), real or complex, its shape checked: see `checked_state`."""

    def _called_at(self, x: Any, u: Any, knot: int) -> Any:
        """The next state (nx,) of a knot, where systems differ from knot to knot."""
        return self._called(x, u)

    @property
    def traced(self) -> TracedFunction | None:
        """f as compiled code with its derivatives; None where Python is called, and f differenced."""
        return self._traced

    @property
    def digest(self) -> bytes:
        """Digest of the code that f was traced to; empty where Python is called."""
        return b"" if self.traced is None else self.traced.digest

    @property
    def space(self) -> Space | None:
        """The space of states; None where it is not known."""
        return self._space

    def __str__(self) -> str:
        name = getattr(getattr(self, "f", self), "__name__", type(self).__name__)
        return f"{name}: {self.nx} states, {self.nu} controls, steps of {self.dt:.6g} s; derivatives {self._origin()}"

    def _origin(self) -> str:
        if self.traced is None:
            found = [("first", self._linearize[1]), ("second", self._hessian)]
            said = [f"of {order} order {'by differences' if own is None else 'given'}" for order, own in found]
            return "by differences" if all(own is None for _, own in found) else ", ".join(said)
        return f"traced, made in {self.traced.seconds:.3f} s"

    @property
    def n(self) -> int:
        """The size of a tangent vector: nx, where the space is flat."""
        return self.nx if self.space is None else self.space.n

    @property
    def thread_safe(self) -> bool:
        """Whether several threads may ask at once, for nothing of the user's is called."""
        return self.traced is not None

    @property
    def lanes(self) -> int:
        """Number of step lengths that are rolled out for the price of one, see `system.Abilities`."""
        return 0 if self.traced is None else WIDTH

    @property
    def linear(self) -> bool:
        """Whether steps are known to be linear, see `system.Abilities`."""
        return isinstance(self.traced, TracedFunction) and self.traced.linear

    @property
    def record_size(self) -> int:
        """Floats that a knot keeps for the second order: x and u, or the tensor."""
        return self.n * (self.n + self.nu) ** 2 if self.traced is None else self.nx + self.nu

    def step(self, x: Array, u: Array, first: int = 0) -> Array:
        """The next state, (nx,) or (M, nx)."""
        X = as_array("x", x, (self.nx,) if axes(x) == 1 else (None, self.nx))
        U = as_array("u", u, (*X.shape[:-1], self.nu))
        return self._stepped(X.reshape(-1, self.nx), U.reshape(-1, self.nu), integer("knot", first)).reshape(X.shape)

    def _stepped(self, X: Array, U: Array, first: int = 0) -> Array:
        """The next states (M, nx) of M knots, of which the first has index ``first``."""
        if self.traced is None:
            return np.array([self._called(*knot) for knot in zip(X, U, strict=True)]).reshape(X.shape)
        after = self.traced.values(X, U)
        for row in np.flatnonzero(~np.isfinite(after).all(axis=1)):
            self._called(X[row], U[row])  # raises what is wrong there
        return after

    def rollout(self, x0: Array, U: Array) -> Array:
        """The states (N+1, nx) that controls U (N, nu) lead to from x0; NaN from where they diverge."""
        U = as_array("U", U, (None, self.nu))
        X = np.tile(as_array("x0", x0, (self.nx,)), (len(U) + 1, 1))
        K, free = np.zeros((len(U), self.nu, self.n)), np.full(self.nu, np.inf)
        gaps = np.zeros((len(U), self.n))
        return self.track(X, U, np.zeros_like(U), K, np.ones(1), gaps, -free, free)[0][0]

    def track(
        self, X: Array, U: Array, k: Array, K: Array, alphas: Array, gaps: Array, lower: Array, upper: Array
    ) -> tuple[Array, Array]:
        """Closed-loop rollouts, one for each alpha: see `System`; NaN from where they diverge."""
        stepping = self.stepping(len(U), len(alphas))
        if stepping is not None:
            assert self.space is not None
            return tracked(stepping, self.space, X, U, k, K, alphas, gaps, (lower, upper))
        lower, upper = np.broadcast_to(lower, U.shape), np.broadcast_to(upper, U.shape)
        found = [self._tracked(X, U + alpha * k, K, (alpha - 1.0) * gaps, (lower, upper)) for alpha in alphas]
        return np.array([Xnew for Xnew, _ in found]), np.array([Unew for _, Unew in found])

    def stepping(self, count: int, lanes: int) -> Stepping | None:
        """Compiled steps, see `system.Abilities`; None where Python is called."""
        return None if self.traced is None else self.traced.stepping

    def routines(self, count: int, alone: bool = False, before: Routines | None = None) -> Routines | None:
        """Compiled work on trajectories, see `system.Abilities`; None where Python is called, or steps are implicit."""
        return self.traced.routines(count) if isinstance(self.traced, TracedFunction) else None

    def _tracked(self, X: Array, U: Array, K: Array, jumps: Array, limits: tuple[Array, Array]) -> tuple[Array, Array]:
        """``u = clip(U + K (x ⊖ X))``, ``x' = f(x, u) ⊕ jump``."""
        Xnew, Unew = np.full_like(X, np.nan), np.full_like(U, np.nan)
        Xnew[0] = X[0]
        with np.errstate(all="ignore"):
            for t in range(len(U)):
                Unew[t] = np.clip(U[t] + K[t] @ self.difference(X[t], Xnew[t]), limits[0][t], limits[1][t])
                try:
                    following = self._called_at(Xnew[t], Unew[t], t)
                except ModelError as failure:
                    if not is_undefined(failure.__cause__):
                        raise
                    break
                if not (np.isfinite(Unew[t]).all() and np.isfinite(following).all()):
                    break
                Xnew[t + 1] = self.integrate(following, jumps[t])
        return Xnew, Unew

    def difference(self, x0: Array, x1: Array) -> Array:
        """``x1 ⊖ x0``: (n,) or (M, n)."""
        x1, x0 = self._paired("x1", x1, "x0", x0, self.nx)
        return x1 - x0 if self.space is None or self.space.is_plain else self._moved("minus", x1, x0)

    def integrate(self, x: Array, dx: Array) -> Array:
        """``x ⊕ dx``, (nx,) or (M, nx)."""
        x, dx = self._paired("x", x, "dx", dx, self.n)
        return x + dx if self.space is None or self.space.is_plain else self._moved("plus", x, dx)

    def _moved(self, name: str, a: Array, b: Array) -> Array:
        """``plus`` or ``minus`` of the space of states."""
        assert self.space is not None
        if np.iscomplexobj(a) or np.iscomplexobj(b):
            raise TypeError("⊕ and ⊖ of complex numbers")  # differences are of real ones then
        found = self.space.moved(name, np.atleast_2d(a), np.atleast_2d(b))
        return found[0] if a.ndim == b.ndim == 1 else found

    def check_state(self, field: str, x: Array) -> None:
        """Raise ProblemError naming ``field`` unless x (..., nx) holds finite numbers, and is of the space."""
        as_array(field, x, (*(None,) * (axes(x) - 1), self.nx))
        if self.space is not None:
            self.space.check(field, x)

    def nominal_control(self, x: Array) -> Array:
        """Zeros (nu,), or (M, nu) of states (M, nx): a function says nothing about rest."""
        states = as_array("x", x, (*(None,) * (axes(x) - 1), self.nx), finite=False)
        return np.zeros((*states.shape[:-1], self.nu))

    def linearize(self, x: Array, u: Array, knot: int = 0) -> tuple[Array, Array]:
        """``A (n, n), B (n, nu)`` of one knot."""
        out, X, U = Expansion.of(self, 1), *self._one(x, u)
        self.expand(X, U, out, integer("knot", knot))
        if not (np.isfinite(out.A).all() and np.isfinite(out.B).all()):
            raise ModelError(f"f: its derivatives are not finite at x = {numbers(X[0])}, u = {numbers(U[0])}")
        return out.A[0], out.B[0]

    def hessian(self, x: Array, u: Array, weight: Array, knot: int = 0) -> Array:
        """The Hessian (nz, nz) of ``weight @ (f(x ⊕ dx, u + du) ⊖ f(x, u))`` of one knot."""
        out, H = expanded(self, *self._one(x, u), integer("knot", knot)), np.empty((1, *[self.n + self.nu] * 2))
        self.contract(out.record, as_array("weight", weight, (self.n,))[None], H)
        return H[0]

    def _one(self, x: Array, u: Array) -> tuple[Array, Array]:
        """A knot as a batch of one."""
        return as_array("x", x, (self.nx,))[None], as_array("u", u, (self.nu,))[None]

    def expand(self, X: Array, U: Array, out: Expansion, first: int = 0) -> None:
        """The first order of M knots, into out.A and out.B."""
        traced = self.traced
        if traced is not None:
            traced.first(X, U, *out)
            return
        with np.errstate(all="ignore"):
            for t, (x, u) in enumerate(zip(X, U, strict=True)):
                out.A[t], out.B[t] = self._slopes(x, u)

    def expand_second(self, X: Array, U: Array, out: Expansion, first: int = 0) -> None:
        """The second order of M knots: their tensors, into out.record."""
        if self.traced is not None:
            return
        with np.errstate(all="ignore"):
            for t, (x, u) in enumerate(zip(X, U, strict=True)):
                out.record[t] = self._tensor(x, u).ravel()

    def contract(self, record: Array, weight: Array, out: Array) -> None:
        """The Hessians (M, nz, nz) of M knots: their tensors, contracted."""
        if self.traced is not None:
            record = np.ascontiguousarray(record)  # x and u, one behind the other
            self.traced.second(record, record[:, :0], np.ascontiguousarray(weight), out)
            return
        tensors = record.reshape(len(record), self.n, -1)
        out[:] = np.einsum("ki,kij->kj", weight, tensors).reshape(out.shape)

    def contraction(self) -> Contraction:
        """The compiled contraction of a knot's tensor with a weight."""
        if self.traced is not None:
            return self.traced.contraction
        sizes = np.array([self.n, self.n + self.nu], dtype=np.int64)
        return Contraction(_contract.address, sizes.ctypes.data, sizes)

    def closing(self) -> Contraction:
        """Log(Exp(gap) Exp(y)) to second order, compiled; gaps add to deviations in a flat space, or one not known."""
        return Contraction(0, 0, None) if self.space is None else self.space.closing

    def _slopes(self, x: Array, u: Array) -> tuple[Array, Array]:
        """A and B of one knot, finite or not."""
        name, given = self._linearize
        if given is None:
            J = differences.jacobian(*self._about(x, u))
            return J[:, : self.n], J[:, self.n :]
        with _naming(name):
            found = given(x.copy(), u.copy())
        both = [*found] if isinstance(found, (tuple, list)) or axes(found) == 3 else []
        if len(both) != 2:
            raise ModelError(f"{name}: expected two matrices, A and B, got {said(found)}")
        shapes = (self.n, self.n), (self.n, self.nu)
        A, B = (as_array(name, *pair, ModelError, finite=False) for pair in zip(both, shapes, strict=True))
        return A, B

    def _tensor(self, x: Array, u: Array) -> Array:
        """``d²f/dz²`` (n, nz, nz) of one knot, symmetric in the last two."""
        n, nz = self.n, self.n + self.nu
        if self._hessian is not None:
            with _naming("hessian"):
                rows = [np.array(self._hessian(x.copy(), u.copy(), weight)) for weight in np.eye(n)]
            T = np.array([as_array("hessian", row, (nz, nz), ModelError, finite=False) for row in rows])
            return symmetric("hessian", T, error=ModelError)
        if self._linearize[1] is not None and self._is_flat:
            T = differences.real_jacobian(lambda z: np.hstack(self._slopes(z[:n], z[n:])), np.concatenate([x, u]))
            return 0.5 * (T + T.transpose(0, 2, 1))
        return differences.second_order(*self._about(x, u))[1]

    @property
    def _is_flat(self) -> bool:
        """Whether ``x ⊕ dx = x + dx``."""
        return self.space is None or self.space.is_flat

    def _about(self, x: Array, u: Array) -> tuple[Callable[[Any], Any], Array]:
        """A function of z whose derivatives at a point are those of a knot, and that point.

        In a flat space it is f of z = (x, u) itself, else ``f(x ⊕ dx, u + du) ⊖ f(x, u)`` of z = (dx, du), at zero.
        """
        if self._is_flat:
            return lambda z: self._called(z[: self.nx], z[self.nx :]), np.concatenate([x, u])
        n, after = self.n, self._called(x, u)

        def deviation(z: Any) -> Any:
            return self.difference(after, self._called(self.integrate(x, z[:n]), u + z[n:]))

        return deviation, np.zeros(n + self.nu)

    def _paired(self, a_field: str, a: Any, b_field: str, b: Any, b_size: int) -> tuple[Array, Array]:
        """Vectors (nx,) and (b_size,), or batches (M, .) of one length, real or complex."""
        A, B = (np.asarray(value if axes(value) else np.nan) for value in (a, b))
        sizes = (A, self.nx), (B, b_size)
        fitting = all(M.ndim in (1, 2) and M.shape[-1] == size and M.dtype.kind in REAL + "c" for M, size in sizes)
        if not fitting or (A.ndim == B.ndim == 2 and len(A) != len(B)):
            shapes = " and ".join(f"({size},) or (M, {size})" for size in dict.fromkeys((self.nx, b_size)))
            raise ProblemError(f"{a_field}, {b_field}: expected numbers of shape {shapes}, got {A.shape}, {B.shape}")
        return A, B


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Turn what a user's derivative raises into a ModelError that names it."""
    try:
        yield
    except Exception as reason:
        raise ModelError(f"{name}: raised {type(reason).__name__}: {reason}{line_of(reason)}") from reason


@callback
def _contract(context: int, record: int, weight: int, hessian: int) -> None:
    """H = Σ_i w_i T_i."""
    sizes = integers_at(context, (2,))
    n, nz = sizes[0], sizes[1]
    T = array_at(record, (n, nz * nz))
    w = array_at(weight, (n,))
    H = array_at(hessian, (nz * nz,))
    H[:] = 0.0
    for i in range(n):
        for j in range(nz * nz):
            H[j] += w[i] * T[i, j]

"""Any NumPy function ``x' = f(x, u)`` as a dynamical system, without asking the user for a derivative."""

from __future__ import annotations

import dis
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np

from ddp import differences
from ddp.compiling.kernel import callback, integer_pointer, pointer
from ddp.errors import (
    REAL,
    ModelError,
    ProblemError,
    affordable,
    as_array,
    axes,
    line_of,
    numbers,
    positive,
    positive_integer,
    said,
)
from ddp.protocols import Array, Contraction, Expansion

_SINGULAR = (ArithmeticError, np.linalg.LinAlgError)
"""Errors of functions where they are not defined, as of 1.0 / 0 or a singular matrix; see `_is_undefined`."""


@dataclass(frozen=True)
class FunctionDynamics:
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
                if not _is_undefined(failure.__cause__):  # zero need not be in its domain
                    raise

    @property
    def n(self) -> int:
        """The size of a tangent vector: nx, the space being flat."""
        return self.nx

    @property
    def record_size(self) -> int:
        """Floats that a knot keeps for the second order: the tensor."""
        return self.nx * (self.nx + self.nu) ** 2

    def step(self, x: Array, u: Array, first: int = 0) -> Array:
        """The next state, (nx,) or (M, nx)."""
        if axes(x) == 1:
            return self._called(as_array("x", x, (self.nx,)), as_array("u", u, (self.nu,)))
        X = as_array("x", x, (None, self.nx))
        U = as_array("u", u, (len(X), self.nu))
        return np.array([self._called(*knot) for knot in zip(X, U, strict=True)]).reshape(X.shape)

    def rollout(self, x0: Array, U: Array) -> Array:
        """The states (N+1, nx) that controls U (N, nu) lead to from x0; NaN from where they diverge."""
        U = as_array("U", U, (None, self.nu))
        X = np.tile(as_array("x0", x0, (self.nx,)), (len(U) + 1, 1))
        K, free = np.zeros((len(U), self.nu, self.nx)), np.full(self.nu, np.inf)
        return self.track(X, U, np.zeros_like(U), K, np.ones(1), np.zeros_like(X[1:]), -free, free)[0][0]

    def track(
        self, X: Array, U: Array, k: Array, K: Array, alphas: Array, gaps: Array, lower: Array, upper: Array
    ) -> tuple[Array, Array]:
        """Closed-loop rollouts, one for each alpha: see `protocols.Dynamics`; NaN from where they diverge."""
        lower, upper = np.broadcast_to(lower, U.shape), np.broadcast_to(upper, U.shape)
        found = [self._tracked(X, U + alpha * k, K, (alpha - 1.0) * gaps, (lower, upper)) for alpha in alphas]
        return np.array([Xnew for Xnew, _ in found]), np.array([Unew for _, Unew in found])

    def _tracked(
        self, X: Array, U: Array, K: Array, jumps: Array, limits: tuple[Array, Array]
    ) -> tuple[Array, Array]:
        """``u = clip(U + K (x - X))``, ``x' = f(x, u) + jump``."""
        Xnew, Unew = np.full_like(X, np.nan), np.full_like(U, np.nan)
        Xnew[0] = X[0]
        with np.errstate(all="ignore"):
            for t in range(len(U)):
                Unew[t] = np.clip(U[t] + K[t] @ (Xnew[t] - X[t]), limits[0][t], limits[1][t])
                try:
                    following = self._called(Xnew[t], Unew[t])
                except ModelError as failure:
                    if not _is_undefined(failure.__cause__):
                        raise
                    break
                if not (np.isfinite(Unew[t]).all() and np.isfinite(following).all()):
                    break
                Xnew[t + 1] = following + jumps[t]
        return Xnew, Unew

    def difference(self, x0: Array, x1: Array) -> Array:
        """``x1 - x0``: (n,) or (M, n)."""
        x1, x0 = self._paired("x1", x1, "x0", x0)
        return x1 - x0

    def integrate(self, x: Array, dx: Array) -> Array:
        """``x + dx``, (nx,) or (M, nx)."""
        x, dx = self._paired("x", x, "dx", dx)
        return x + dx

    def check_state(self, field: str, x: Array) -> None:
        """Raise ProblemError naming ``field`` unless x (..., nx) holds finite numbers."""
        as_array(field, x, (*(None,) * (axes(x) - 1), self.nx))

    def nominal_control(self, x: Array) -> Array:
        """Zeros (nu,): a function says nothing about rest."""
        return np.zeros(self.nu)

    def linearize(self, x: Array, u: Array) -> tuple[Array, Array]:
        """``A (nx, nx), B (nx, nu)`` of one knot."""
        z = np.concatenate([as_array("x", x, (self.nx,)), as_array("u", u, (self.nu,))])
        J = differences.jacobian(self._joined, z)
        if not np.isfinite(J).all():
            where = ", ".join(f"{name} = {numbers(part)}" for name, part in (("x", z[: self.nx]), ("u", z[self.nx :])))
            raise ModelError(f"f: its derivatives are not finite at {where}")
        return np.ascontiguousarray(J[:, : self.nx]), np.ascontiguousarray(J[:, self.nx :])

    def hessian(self, x: Array, u: Array, weight: Array) -> Array:
        """The Hessian (nz, nz) of ``weight @ f(x, u)`` of one knot."""
        z = np.concatenate([as_array("x", x, (self.nx,)), as_array("u", u, (self.nu,))])
        return np.tensordot(as_array("weight", weight, (self.nx,)), self._tensor(z), axes=1)

    def expand(self, X: Array, U: Array, out: Expansion, first: int = 0) -> None:
        """The first order of M knots, into out.A and out.B."""
        with np.errstate(all="ignore"):
            for t, z in enumerate(np.concatenate([X, U], axis=1)):
                J = differences.jacobian(self._joined, z)
                out.A[t], out.B[t] = J[:, : self.nx], J[:, self.nx :]

    def expand_second(self, X: Array, U: Array, out: Expansion, first: int = 0) -> None:
        """The second order of M knots: their tensors, into out.record."""
        with np.errstate(all="ignore"):
            for t, z in enumerate(np.concatenate([X, U], axis=1)):
                out.record[t] = self._tensor(z).ravel()

    def contract(self, record: Array, weight: Array, out: Array) -> None:
        """The Hessians (M, nz, nz) of ``weight @ f`` of M knots: their tensors, contracted."""
        tensors = record.reshape(len(record), self.nx, -1)
        out[:] = np.einsum("ki,kij->kj", weight, tensors).reshape(out.shape)

    def contraction(self) -> Contraction:
        """The compiled contraction of a knot's tensor with a weight."""
        sizes = np.array([self.nx, self.nx + self.nu], dtype=np.int64)
        return Contraction(_contraction().address, sizes.ctypes.data, sizes)

    def closing(self) -> Contraction:
        """Return None: gaps add to deviations in a flat space."""
        return Contraction(0, 0, None)

    def _paired(self, a_field: str, a: Any, b_field: str, b: Any) -> tuple[Array, Array]:
        """Two vectors (nx,) or batches (M, nx) of one length, real or complex."""
        A, B = (np.asarray(value if axes(value) else np.nan) for value in (a, b))
        fitting = all(M.ndim in (1, 2) and M.shape[-1] == self.nx and M.dtype.kind in REAL + "c" for M in (A, B))
        if not fitting or (A.ndim == B.ndim and len(A) != len(B)):
            shapes = f"({self.nx},) or (M, {self.nx})"
            raise ProblemError(f"{a_field}, {b_field}: expected numbers of shape {shapes}, got {A.shape}, {B.shape}")
        return A, B

    def _joined(self, z: Any) -> Any:
        return self._called(z[: self.nx], z[self.nx :])

    def _tensor(self, z: Array) -> Array:
        """``d²f/dz²`` (nx, nz, nz), symmetric in the last two."""
        return differences.second_order(self._joined, z)[1]

    def _called(self, x: Any, u: Any) -> Any:
        """f(x, u), its shape checked."""
        try:
            following = np.array(self.f(x.copy(), u.copy()))  # f may write on its arguments, and reuse its result
        except Exception as reason:
            raise ModelError(f"f: raised {type(reason).__name__}: {reason}{line_of(reason)}") from reason
        if following.shape != (self.nx,):
            raise ModelError(f"f: expected a next state of shape ({self.nx},), got {following.shape}")
        if following.dtype.kind not in (REAL + "c" if np.iscomplexobj(x) else REAL):
            raise ModelError(f"f: expected a next state of real numbers, got {following.dtype}")
        return following if following.dtype.kind in "fc" else following.astype(np.float64)


def _is_undefined(reason: BaseException | None) -> bool:
    """Whether a function has no value there, and is not wrong: nor is it where its own code says so with a ValueError.

    Those that Python and NumPy raise, but for math.log(0.0) and the like, are of shapes that do not fit.
    """
    if isinstance(reason, _SINGULAR):
        return True
    if not isinstance(reason, ValueError):
        return False
    last = reason.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or "site-packages" in Path(last.tb_frame.f_code.co_filename).parts:
        return False
    steps = dis.get_instructions(last.tb_frame.f_code)
    raises = any(step.offset == last.tb_lasti and step.opname == "RAISE_VARARGS" for step in steps)
    return raises or str(reason) == "math domain error"


def _contract(context: int, record: int, weight: int, hessian: int) -> None:
    """H = Σ_i w_i T_i."""
    sizes = numba.carray(integer_pointer(context), 2)
    n, nz = sizes[0], sizes[1]
    T = numba.carray(pointer(record), (n, nz * nz))
    w = numba.carray(pointer(weight), n)
    H = numba.carray(pointer(hessian), nz * nz)
    H[:] = 0.0
    for i in range(n):
        for j in range(nz * nz):
            H[j] += w[i] * T[i, j]


@cache
def _contraction() -> Any:
    """The C function of `_contract`."""
    return callback(_contract)

# mypy: allow-untyped-defs, allow-untyped-calls
"""A user's own cost term, compiled by numba: as fast as a built-in one, and evaluated in the same call."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba.core.errors import NumbaError

from ddp.compiling import content
from ddp.compiling.kernel import call_contraction, callback, inline, is_compilable, jitted, kernel, specialised
from ddp.costs.batch import CompiledCost
from ddp.costs.bound import EXACT, VALUES, bind
from ddp.costs.compiled import CompiledTerm
from ddp.costs.terms import DerivedTerm, called
from ddp.differences import FIRST, POINTS, WEIGHTS
from ddp.errors import ProblemError
from ddp.errors import said as quoted
from ddp.machine.addresses import array_at, integers_at
from ddp.machine.algebra import factorize, positive_part
from ddp.protocols import Array
from ddp.systems.system import System
from ddp.tracing.function import space_of

STENCIL = tuple(zip(POINTS, WEIGHTS, strict=True))

FLAT = 1e-12
"""Shift of a Hessian's diagonal, in units of its largest entry, to see whether it is positive semidefinite."""


@dataclass(frozen=True, eq=False)
class JittedTerm:
    """A cost term made of functions that numba can compile, decorated with ``numba.njit`` or not.

        @numba.njit
        def effort(x, u):
            return 0.5 * u @ u

        ddp.Problem(dynamics, running=[ddp.JittedTerm(effort)], ...)

    value(x, u): the cost, x (nx,), u (nu,) arrays; at the end of the horizon u is zeros.
    gradient(x, u): (n+nu,) or (n,);  hessian(x, u): (n+nu, n+nu) or (n, n): derivatives of
    ``value(x ⊕ dx, u + du)`` at zero; the short shapes say that u does not matter. A hessian (n+nu,) is the diagonal of
    one that is diagonal everywhere, which is faster, and of a convex term: it is Gauss-Newton's too. A value alone is
    traced, as of any cost; without a hessian the gradient is differenced, to fourth order, which takes time, and states
    that are plain numbers.

    Functions are compiled once a process, in seconds. Where one raises, the cost or its derivative is NaN: a step there
    is rejected, and at the guess it is an error that names term and knot.
    """

    value: Callable[[Any, Any], Any]
    gradient: Callable[[Any, Any], Any] | None = None
    hessian: Callable[[Any, Any], Any] | None = None

    def __post_init__(self) -> None:
        check_compilable(self, "value", "gradient")


def check_compilable(given: Any, value: str, first: str) -> None:
    """Check the functions of a `JittedTerm` or the like, by their names; no hessian without a first derivative."""
    for name in (value, first, "hessian"):
        function = getattr(given, name)
        if not is_compilable(function) and (function is not None or name == value):
            raise ProblemError(f"{name}: expected a function of x and u that numba can compile, got {quoted(function)}")
    if getattr(given, first) is None and given.hessian is not None:
        raise ProblemError(f"{first}: expected a function of x and u beside hessian, got None")


class CompiledDerivedTerm(CompiledTerm):
    """A `JittedTerm` as a `BatchTerm`, with the conventions of `DerivedTerm`; x, u: a state and a control to try."""

    def __init__(self, term: JittedTerm, dynamics: System, x: Array, u: Array) -> None:
        check_given("gradient", term.gradient, term.hessian, dynamics)
        self.term, self._python = term, DerivedTerm(term, dynamics)
        nz = dynamics.n + dynamics.nu
        self.separable = term.hessian is not None and np.shape(called(0, "hessian", term.hessian, x, u)) == (nz,)
        assert term.gradient is not None
        self._python.given(0, "gradient", term.gradient, x, u)
        if term.hessian is not None and not self.separable:
            self._python.given(0, "hessian", term.hessian, x, u)

    def _bound(self) -> CompiledCost:
        with by_numba():
            return compiled(self.term.value, self.term.gradient, self.term.hessian, self.separable)

    def values(self, X: Array, U: Array) -> Array:
        """The costs (M,), one call after the other: what a function raises is raised, and named."""
        return self._python.values(X, U)


def check_given(first: str, given: Any, hessian: Any, dynamics: System) -> None:
    """Raise ProblemError where a derivative is not given that would be differences which states do not allow.

    first: name of the first derivative, ``given`` if it is.
    """
    space = space_of(dynamics)
    if given is None or (hessian is None and not (space is not None and space.is_flat)):
        states = f"states that are no plain numbers (nx = {dynamics.nx}, n = {dynamics.n})"
        came = "none" if given is None else "no hessian"
        raise ProblemError(f"{first}, hessian: expected functions, for {states}; got {came}")


@contextmanager
def by_numba() -> Iterator[None]:
    """Tell as a ProblemError that numba cannot compile something."""
    try:
        yield
    except NumbaError as reason:
        said = " ".join(line.strip() for line in str(reason).splitlines() if line.strip())
        raise ProblemError(f"numba cannot compile it: {said[:300]}") from reason


_compiled: dict[Any, CompiledCost] = {}


def compiled(value: Any, gradient: Any, hessian: Any, diagonal: bool) -> CompiledCost:
    """The C function of a term's functions, for all terms that are made of these, or of equal ones made anew."""
    key = diagonal, *(one and (content.digest(one) or one) for one in (value, gradient, hessian))
    if key not in _compiled:
        _compiled[key] = _compile(value, gradient, hessian, diagonal)
    return _compiled[key]


def _compile(value: Any, gradient: Any, hessian: Any, diagonal: bool) -> CompiledCost:
    of_value, of_gradient = jitted(value), jitted(gradient)
    of_hessian = jitted(hessian or specialised(_hessian_by_gradients, "hessian", gradient=of_gradient))
    if diagonal:
        of_hessian = jitted(specialised(_row_of, "row", hessian=of_hessian))
    names = {"value": of_value, "gradient": of_gradient, "hessian": of_hessian, "is_diagonal": diagonal}
    term = specialised(_cost, "term", **names)
    adds = add_hessian_at
    return bind(jitted(term), adds.address, separable=diagonal).owned(adds)


# The templates: compiled for each term, with its functions for these names.
value: Any = None
gradient: Any = None
hessian: Any = None
is_diagonal: Any = None


def _cost(adding, first, X, U, scale, order, l, lz, lzz):  # type: ignore[no-untyped-def]
    nz = lz.shape[1]
    x, u, H, sizes = np.empty(X.shape[1]), np.empty(U.shape[1]), np.empty(nz**2), np.empty(4, np.int64)  # x, u: theirs
    sizes[1], sizes[2], sizes.view(np.float64)[3] = nz, order == EXACT, scale
    for k in range(X.shape[0]):
        try:
            place(X[k], U[k], x, u)
            l[k] += scale * value(x, u)
            if order > VALUES:
                place(X[k], U[k], x, u)
                g = gradient(x, u)
                if g.size > nz:
                    raise ValueError
                for i in range(g.size):
                    lz[k, i] += scale * g[i]
                place(X[k], U[k], x, u)
                h = hessian(x, u)
                m = h.shape[1]
                if m > nz or len(h) != (1 if is_diagonal else m):
                    raise ValueError
                if is_diagonal:
                    for i in range(m):
                        lzz[k, i, i] += scale * h[0, i]
                    continue
                for i in range(m):
                    for j in range(m):
                        H[m * i + j] = h[i, j]
                sizes[0] = m
                call_contraction(adding, H.ctypes.data, lzz[k].ctypes.data, sizes.ctypes.data, 0)
        except Exception:
            l[k], lz[k], lzz[k] = np.nan, np.nan, np.nan


def _row_of(x, u):  # type: ignore[no-untyped-def]
    """A diagonal as a row (1, m)."""
    return hessian(x, u)[None, :]


def _hessian_by_gradients(x, u):  # type: ignore[no-untyped-def]
    """Differences of the gradient, without rows and columns of u if that has none."""
    xm, um = x.copy(), u.copy()
    m = gradient(xm, um).size
    H = np.zeros((m, m))
    for i in range(m):
        size = step(x, u, i, FIRST)
        for point, weight in STENCIL:
            place(x, u, xm, um)
            move(xm, um, i, point * size)
            g = gradient(xm, um)
            for j in range(m):
                H[i, j] += weight / size * g[j]
    return H


@inline
def place(x, u, x_out, u_out):
    """Copies of x and u."""
    for i in range(x.size):
        x_out[i] = x[i]
    for i in range(u.size):
        u_out[i] = u[i]


@inline
def move(x, u, i, by):
    """Entry i of z = (x, u) is moved."""
    if i < x.size:
        x[i] += by
    else:
        u[i - x.size] += by


@inline
def step(x, u, i, h):
    """The step of entry i of z = (x, u): h, times the entry where that is larger than one."""
    return h * max(1.0, abs(x[i] if i < x.size else u[i - x.size]))


@callback
def add_hessian_at(H, lzz, sizes, unused):  # type: ignore[no-untyped-def]
    """The C function: addresses of H (m, m), of lzz (nz, nz), and of m, nz, whether H is added as it is, and scale."""
    w = integers_at(sizes, (3,))
    scale = array_at(sizes, (4,))[3]
    add_hessian(array_at(H, (w[0], w[0])), scale, w[2] == 1, array_at(lzz, (w[1], w[1])))


@kernel
def add_hessian(H, scale, exact, lzz):
    """lzz += scale H, made symmetric, and unless ``exact`` positive semidefinite; H is overwritten."""
    m, largest = len(H), 0.0
    for i in range(m):
        for j in range(i):
            H[i, j] = 0.5 * (H[i, j] + H[j, i])
            H[j, i] = H[i, j]
        largest = max(largest, abs(H[i, i]))
    if not exact:
        L = H.copy()
        for i in range(m):
            L[i, i] += FLAT * largest
        if not factorize(L):
            positive_part(H)
    for i in range(m):
        for j in range(m):
            lzz[i, j] += scale * H[i, j]

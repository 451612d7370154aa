# mypy: allow-untyped-defs, allow-untyped-calls
"""Functions of C as systems, by their addresses: ``of_c.dynamics(step, jacobian, hessian, nx, nu, dt)``.

They are called from compiled loops, never through Python:

    void step(const double *x, const double *u, double *next, void *unused);
    void jacobian(const double *x, const double *u, double *A, double *B);      rows of A (nx, nx), B (nx, nu)
    void hessian(const double *x, const double *u, const double *w, double *H); of w·f, (nx + nu, nx + nu), symmetric
"""

from functools import cached_property
from typing import Any

import numpy as np

from ddp.compiling.kernel import call_contraction, callback, kernel
from ddp.errors import integer, positive, positive_integer
from ddp.machine.addresses import array_at, integers_at
from ddp.machine.number import WIDTH
from ddp.protocols import Array
from ddp.systems.by_knot import ByKnot
from ddp.systems.system import Contraction, Expansion, Stepping
from ddp.tracing.spaces import as_space
from dynamics.steps.implicit_flow import contract_knots


def dynamics(step: int, jacobian: int, hessian: int, nx: int, nu: int, dt: float = 1.0) -> ByKnot:
    """``x' = f(x, u)`` of C functions at addresses, of ``ctypes.cast(function, ctypes.c_void_p).value`` say."""
    return _OfC(step, jacobian, hessian, nx, nu, dt)


class _OfC(ByKnot):
    thread_safe, lanes = True, WIDTH  # type: ignore[assignment]

    def __init__(self, step: int, jacobian: int, hessian: int, nx: int, nu: int, dt: float) -> None:
        given = (("step", step), ("jacobian", jacobian), ("hessian", hessian))
        self._addresses = tuple(integer(field, address, 1) for field, address in given)
        self.nx, self.nu, self.dt = positive_integer("nx", nx), positive_integer("nu", nu), positive("dt", dt)
        self._space = as_space(None, self.nx)

    @property
    def record_size(self) -> int:
        return self.nx + self.nu

    def _stepped(self, X: Array, U: Array, first: int = 0) -> Array:
        out = np.empty_like(X)
        _call(self._addresses[0], X, U, out, out)
        return out

    def _called(self, x: Any, u: Any) -> Any:
        return self.step(x, u)

    def stepping(self, count: int, lanes: int) -> Stepping:
        words = np.array([self._addresses[0], self.nx, self.nu, min(lanes, WIDTH)], dtype=np.int64)
        return Stepping(_step_eight.address, words.ctypes.data, np.zeros(0), words)

    def expand(self, X: Array, U: Array, out: Expansion, first: int = 0) -> None:
        X, U = np.ascontiguousarray(X), np.ascontiguousarray(U)
        _call(self._addresses[1], X, U, out.A, out.B)
        out.record[:, : self.nx], out.record[:, self.nx :] = X, U

    def expand_second(self, X: Array, U: Array, out: Expansion, first: int = 0) -> None:
        """Do nothing: records are x and u."""

    def contract(self, record: Array, weight: Array, out: Array) -> None:
        contract_knots(*self._contraction[:2], np.ascontiguousarray(record), np.ascontiguousarray(weight), out)

    def contraction(self) -> Contraction:
        return self._contraction

    @cached_property
    def _contraction(self) -> Contraction:
        words = np.array([self._addresses[2], self.nx], dtype=np.int64)
        return Contraction(_contract_one.address, words.ctypes.data, words)

    def _origin(self) -> str:
        return "of C functions"


@kernel
def _call(address, X, U, first, second):
    for k in range(X.shape[0]):
        call_contraction(address, X[k].ctypes.data, U[k].ctypes.data, first[k].ctypes.data, second[k].ctypes.data)


@callback
def _contract_one(context, record, weight, hessian):
    """C function of `system.Contraction`; context: the address of the Hessian, and nx."""
    w = integers_at(context, (2,))
    call_contraction(w[0], record, record + 8 * w[1], weight, hessian)


@callback
def _step_eight(inputs, outputs, context, knot):
    """C function of `system.Stepping`; context: the address of the step, nx, nu, and how many states are looked at."""
    w = integers_at(context, (4,))
    nx, nu = w[1], w[2]
    z, after = array_at(inputs, (WIDTH * (nx + nu),)), array_at(outputs, (WIDTH * nx,))
    own, out = np.empty(nx + nu), np.empty(nx)
    for lane in range(w[3]):
        for i in range(nx + nu):
            own[i] = z[WIDTH * i + lane]
        call_contraction(w[0], own.ctypes.data, own.ctypes.data + 8 * nx, out.ctypes.data, 0)
        for i in range(nx):
            after[WIDTH * i + lane] = out[i]

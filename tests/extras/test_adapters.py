"""Functions of other libraries, where those are installed, and of C, find the optimum that traced ones find."""

import ctypes
import importlib.util

import numba
import numpy as np
import pytest
from numba import carray, types

import ddp
from dynamics import FunctionDynamics, augment
from dynamics.extras import of_c
from dynamics.extras.batches import BatchDynamics
from problems.costs import ControlCost, StateCost


def pendulum(x, u):
    return np.array([x[0] + 0.05 * x[1], x[1] + 0.05 * (u[0] - 3.0 * np.sin(x[0]))])


def problem(system):
    upright = np.array([np.pi, 0.0])
    running = [ControlCost(np.zeros(1), np.array([0.1]))]
    return ddp.Problem(system, running, [StateCost(system, upright, np.full(2, 50.0))], np.zeros(2), 40)


TRACED = FunctionDynamics(pendulum, 2, 1, 0.05)


def same_optimum(system):
    expected, found = (ddp.solve(problem(one), ddp.DDP(tolerance=1e-13)) for one in (TRACED, system))
    assert found.cost == pytest.approx(expected.cost, rel=1e-9)
    np.testing.assert_allclose(found.U, expected.U, rtol=0, atol=1e-7)
    assert ddp.check_derivatives(problem(system), found.X, found.U).ok


def of_jax():
    import jax.numpy as jnp

    from dynamics.extras import of_jax

    def f(x, u):
        return jnp.array([x[0] + 0.05 * x[1], x[1] + 0.05 * (u[0] - 3.0 * jnp.sin(x[0]))])

    return of_jax.dynamics(f, 2, 1, 0.05)


def of_casadi():
    import casadi

    from dynamics.extras import of_casadi

    x, u = casadi.SX.sym("x", 2), casadi.SX.sym("u", 1)
    after = casadi.vertcat(x[0] + 0.05 * x[1], x[1] + 0.05 * (u[0] - 3.0 * casadi.sin(x[0])))
    return of_casadi.dynamics(casadi.Function("f", [x, u], [after]), 0.05)


def of_torch():
    import torch

    from dynamics.extras import of_torch

    def f(x, u):
        return torch.stack([x[0] + 0.05 * x[1], x[1] + 0.05 * (u[0] - 3.0 * torch.sin(x[0]))])

    return of_torch.dynamics(f, 2, 1, 0.05)


INSTALLED = {
    name: make
    for name, make in {"jax": of_jax, "casadi": of_casadi, "torch": of_torch}.items()
    if importlib.util.find_spec(name)
}
"""Libraries that are there; without any, the batches of NumPy below stand for them."""


def of_numpy():
    def step(X, U):
        return np.stack([X[:, 0] + 0.05 * X[:, 1], X[:, 1] + 0.05 * (U[:, 0] - 3.0 * np.sin(X[:, 0]))], axis=1)

    def jacobian(X, U):
        A = np.tile([[1.0, 0.05], [0.0, 1.0]], (len(X), 1, 1))
        A[:, 1, 0] = -0.15 * np.cos(X[:, 0])
        return A, np.tile([[0.0], [0.05]], (len(X), 1, 1))

    def second(X, U):
        T = np.zeros((len(X), 2, 3, 3))
        T[:, 1, 0, 0] = 0.15 * np.sin(X[:, 0])
        return T

    return BatchDynamics(step, jacobian, second, 2, 1, 0.05)


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # torch.func uses what torch deprecates
@pytest.mark.parametrize("make", [of_numpy, *INSTALLED.values()], ids=["numpy", *INSTALLED])
def test_batches_of_all_knots_find_the_same_optimum(make):
    same_optimum(make())


FOUR = types.void(types.CPointer(types.float64), *[types.CPointer(types.float64)] * 3)


def step_of_c(x, u, after, unused):
    x, u, after = carray(x, 2), carray(u, 1), carray(after, 2)
    after[0], after[1] = x[0] + 0.05 * x[1], x[1] + 0.05 * (u[0] - 3.0 * np.sin(x[0]))


def jacobian_of_c(x, u, A, B):
    x, A, B = carray(x, 2), carray(A, (2, 2)), carray(B, 2)
    A[0, 0], A[0, 1], A[1, 0], A[1, 1] = 1.0, 0.05, -0.15 * np.cos(x[0]), 1.0
    B[0], B[1] = 0.0, 0.05


def hessian_of_c(x, u, w, H):
    x, w, H = carray(x, 2), carray(w, 2), carray(H, (3, 3))
    H[:] = 0.0
    H[0, 0] = w[1] * 0.15 * np.sin(x[0])


@pytest.fixture(scope="module")
def compiled():
    return [numba.cfunc(FOUR)(function) for function in (step_of_c, jacobian_of_c, hessian_of_c)]


def test_functions_of_c_find_the_same_optimum_alone_and_composed(compiled):
    system = of_c.dynamics(*(function.address for function in compiled), 2, 1, 0.05)
    same_optimum(system)
    late, expected = (augment.delays(one, 2).rollout(np.zeros(4), np.ones((5, 1))) for one in (system, TRACED))
    np.testing.assert_allclose(late, expected, rtol=0, atol=1e-14)


def test_derivatives_of_ones_own_are_taken_where_given():
    asked = []

    def jacobian(x, u):
        asked.append("jacobian")
        return np.array([[1.0, 0.05], [-0.15 * np.cos(x[0]), 1.0]]), np.array([[0.0], [0.05]])

    def hessian(x, u, w):
        asked.append("hessian")
        return w[1] * 0.15 * np.sin(x[0]) * np.diag([1.0, 0.0, 0.0])

    system = FunctionDynamics(pendulum, 2, 1, 0.05, jacobian=jacobian, hessian=hessian)
    assert str(system).endswith("derivatives of first order given, of second order given")
    same_optimum(system)
    assert set(asked) == {"jacobian", "hessian"}
    first = FunctionDynamics(pendulum, 2, 1, 0.05, jacobian=jacobian)
    assert str(first).endswith("of first order given, of second order by differences")
    x, u, w = np.array([0.3, 0.2]), np.array([0.1]), np.array([0.4, -0.7])
    np.testing.assert_allclose(first.hessian(x, u, w), TRACED.hessian(x, u, w), atol=1e-10)


def test_wrong_derivatives_of_ones_own_are_found():
    def wrong(x, u):
        return np.array([[1.0, 0.05], [0.15 * np.cos(x[0]), 1.0]]), np.array([[0.0], [0.05]])

    report = ddp.check_derivatives(problem(FunctionDynamics(pendulum, 2, 1, 0.05, jacobian=wrong)))
    assert "dynamics A" in {check.name for check in report.wrong}
    bad = FunctionDynamics(pendulum, 2, 1, 0.05, jacobian=lambda x, u: (np.eye(3), np.ones((2, 1))))
    with pytest.raises(ddp.ModelError, match="jacobian: expected shape"):
        ddp.solve(problem(bad))
    with pytest.raises(ddp.ProblemError, match="hessian: expected a function, got 3"):
        FunctionDynamics(pendulum, 2, 1, hessian=3)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: BatchDynamics(3, len, len, 2, 1), "step: expected a function of X and U"),
        (lambda: BatchDynamics(lambda X, U: X[0], len, len, 2, 1), r"step: expected shape \(2, 2\)"),
        (lambda: BatchDynamics(lambda X, U: X, lambda X, U: (X,), len, 2, 1), "jacobian: expected 2 arrays, got 1"),
        (lambda: of_c.dynamics(0, 1, 1, 2, 1), "step: expected a whole number of at least 1"),
    ],
)
def test_malformed_functions_are_refused(make, said):
    with pytest.raises(ddp.DDPError, match=said):
        make()


def test_addresses_of_ctypes_are_addresses(compiled):
    assert ctypes.cast(compiled[0].ctypes, ctypes.c_void_p).value == compiled[0].address

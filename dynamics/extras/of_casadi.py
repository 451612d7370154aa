"""Functions of CasADi as systems: ``of_casadi.dynamics(f, dt)``, f a ``casadi.Function`` of x and u that gives x'."""

from typing import Any

from ddp.errors import ProblemError, said
from dynamics.extras.batches import BatchDynamics


def dynamics(f: Any, dt: float = 1.0) -> BatchDynamics:
    """``x' = f(x, u)`` of a ``casadi.Function``; derivatives of all knots are CasADi's."""
    import casadi

    if not isinstance(f, casadi.Function) or f.n_in() != 2 or f.size1_in(0) != f.size1_out(0):
        raise ProblemError(f"f: expected a casadi.Function of x and u that gives a next state, got {said(f)}")
    nx, nu = f.size1_in(0), f.size1_in(1)
    x, u = casadi.SX.sym("x", nx), casadi.SX.sym("u", nu)
    z, after = casadi.vertcat(x, u), f(x, u)
    J = casadi.jacobian(after, z)
    H = casadi.jacobian(casadi.vec(J), z)  # columns of J behind one another: (nx nz, nz)
    first, second = (casadi.Function(name, [x, u], [casadi.densify(M)]) for name, M in (("first", J), ("second", H)))
    maps: dict[tuple[str, int], Any] = {}

    def called(function: Any, X: Any, U: Any) -> Any:
        """Results of a function for M knots, one behind another in columns."""
        key = function.name(), len(X)
        if key not in maps:
            maps[key] = function.map(len(X))
        return maps[key](X.T, U.T).full()

    def slopes(X: Any, U: Any) -> Any:
        J = called(first, X, U).reshape(nx, len(X), nx + nu).transpose(1, 0, 2)
        return J[:, :, :nx], J[:, :, nx:]

    def bends(X: Any, U: Any) -> Any:
        nz = nx + nu
        H = called(second, X, U).reshape(nz, nx, len(X), nz)
        return H.transpose(2, 1, 0, 3)

    return BatchDynamics(lambda X, U: called(f, X, U).T, slopes, bends, nx, nu, dt, "CasADi's")

"""Functions of JAX as systems: ``of_jax.dynamics(f, nx, nu, dt)``, f of one knot, of jax.numpy.

Steps, Jacobians (forward mode) and second derivatives of all knots are each one compiled call, in doubles.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from dynamics.extras.batches import BatchDynamics


def dynamics(f: Callable[[Any, Any], Any], nx: int, nu: int, dt: float = 1.0) -> BatchDynamics:
    """``x' = f(x, u)`` of x (nx,), u (nu,), a function that ``jax.jit`` takes; its own derivatives are exact."""
    import jax

    jax.config.update("jax_enable_x64", True)

    def of_all(z: Any) -> Any:
        return f(z[:nx], z[nx:])

    step = jax.jit(jax.vmap(f))
    slopes = jax.jit(jax.vmap(jax.jacfwd(f, (0, 1))))
    second = jax.jit(jax.vmap(jax.jacfwd(jax.jacrev(of_all))))

    def bends(X: Any, U: Any) -> Any:
        return second(np.concatenate([X, U], axis=1))

    return BatchDynamics(step, slopes, bends, nx, nu, dt, "JAX's")

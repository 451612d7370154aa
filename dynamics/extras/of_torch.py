"""Functions of PyTorch as systems: ``of_torch.dynamics(f, nx, nu, dt)``, f of one knot, of tensors."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dynamics.extras.batches import BatchDynamics


def dynamics(f: Callable[[Any, Any], Any], nx: int, nu: int, dt: float = 1.0) -> BatchDynamics:
    """``x' = f(x, u)`` of tensors x (nx,), u (nu,) of doubles; derivatives are those of ``torch.func``."""
    import torch

    def of_all(z: Any) -> Any:
        return f(z[:nx], z[nx:])

    step, slopes = torch.func.vmap(of_all), torch.func.vmap(torch.func.jacfwd(of_all))
    second = torch.func.vmap(torch.func.jacfwd(torch.func.jacrev(of_all)))

    def called(function: Any, X: Any, U: Any) -> Any:
        with torch.no_grad():
            return function(torch.from_numpy(np.concatenate([X, U], axis=1))).detach().numpy()

    def both(X: Any, U: Any) -> Any:
        J = called(slopes, X, U)
        return J[:, :, :nx], J[:, :, nx:]

    return BatchDynamics(
        lambda X, U: called(step, X, U), both, lambda X, U: called(second, X, U), nx, nu, dt, "PyTorch's"
    )

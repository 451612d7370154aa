"""Terms at fault: those that are not finite, and those whose curvature is negative, in words."""

import numpy as np

from ddp.costs.batch import padded
from ddp.costs.entries import Entry
from ddp.costs.objective import Objective
from ddp.costs.terms import naming
from ddp.derivatives import broken_rows
from ddp.protocols import Array


def fault(objective: Objective, X: Array, U: Array, order: int) -> str | None:
    """The first term whose cost or, if order > 0, derivative is not finite, as a sentence; None if all are."""
    U = padded(U, len(X))
    for entry in objective.within(0, objective.horizon + 1):
        own = X[entry.knots], U[entry.knots]
        with naming(entry.name, entry.knots):
            found = [("cost", entry.term.values(*own))]
            for name, exact in (("Gauss-Newton Hessian", False), ("Hessian", True)):
                if order > 0:
                    lz, lzz = _derivatives(objective, entry, *own, 1.0, exact)
                    found += [("gradient", lz), (name, lzz)]
        for what, array in found:
            if (bad := broken_rows(array)).any():
                row = int(np.argmax(bad))
                value = array[row] if what == "cost" else "not finite"
                return f"{entry.name}: its {what} is {value} at knot {entry.begin + row}"
    return None


def most_concave(objective: Objective, X: Array, U: Array, knot: int) -> str | None:
    """The term with the most negative curvature at a knot; None if none has any."""
    U, own = padded(U, len(X)), slice(knot, knot + 1)
    found: tuple[float, str | None] = (-1e-12, None)
    for entry in objective.within(knot, knot + 1):
        _, lzz = _derivatives(objective, entry, X[own], U[own], entry.weight, True)
        if np.isfinite(lzz).all():
            found = min(found, (float(np.linalg.eigvalsh(lzz[0])[0]), entry.name), key=lambda pair: pair[0])
    return found[1]


def _derivatives(
    objective: Objective, entry: Entry, X: Array, U: Array, weight: float, exact: bool
) -> tuple[Array, Array]:
    """Gradients (M, nz) and Hessians (M, nz, nz) of a term alone."""
    M, nz = len(X), objective.dynamics.n + objective.dynamics.nu
    lz, lzz = np.zeros((M, nz)), np.zeros((M, nz, nz))
    entry.term.expand(X, U, weight, exact, np.zeros(M), lz, lzz)
    return lz, lzz

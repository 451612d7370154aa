"""Costs on contact forces, with exact Hessians: forces themselves, and how far they leave a friction cone.

A residual r = C f of one contact's force f(x, u), with bounds, costs ``½ Σ w_i d_i²`` where d_i is how far r_i is
beyond its bounds (Crocoddyl's quadratic barrier). With the force's derivatives f_z,

    gradient  f_zᵀ Cᵀ w d        Hessian  f_zᵀ Cᵀ w [d ≠ 0] C f_z + (Cᵀ w d)·f_zz

the last term left out by Gauss-Newton.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import ProblemError, as_array, positive
from ddp.protocols import Array
from dynamics.contact_forces import ContactForces
from problems import checks


class ForceTerm(Protocol):
    """A term of the force of one contact: residual C f with bounds lower, upper and weights."""

    forces: ContactForces
    frame: str

    def _rows(self) -> tuple[Array, Array, Array, Array]:
        """C (m, 3 or 6), lower, upper, weights (m,)."""

    def values(self, X: Array, U: Array) -> Array:
        """The costs (M,) at X (M, nx), U (M, nu)."""
        X, U = self._checked(X, U)
        C, lower, upper, weights = self._rows()
        beyond = _beyond(self.forces.values(X, U)[:, self.forces.rows(self.frame)] @ C.T, lower, upper)
        return np.asarray(0.5 * (beyond * beyond) @ weights)

    def expand(self, X: Array, U: Array, weight: float, exact: bool, l: Array, lz: Array, lzz: Array) -> None:
        """Add ``weight`` times value, gradient and Hessian to l (M,), lz (M, nz), lzz (M, nz, nz)."""
        X, U = self._checked(X, U)
        C, lower, upper, weights = self._rows()
        rows = self.forces.rows(self.frame)
        beyond = _beyond(self.forces.values(X, U)[:, rows] @ C.T, lower, upper)
        l += weight * 0.5 * (beyond * beyond) @ weights
        if not beyond.any():
            return
        slope = C @ self.forces.derivatives(X, U)[:, rows]
        push = weight * weights * beyond
        lz += np.einsum("mi,miz->mz", push, slope)
        lzz += np.swapaxes(slope, 1, 2) @ (slope * (weight * weights * (beyond != 0.0))[:, :, None])
        if exact:
            on_forces = np.zeros((len(X), self.forces.size))
            on_forces[:, rows] = push @ C
            lzz += self.forces.hessians(X, U, on_forces)

    def value(self, x: ArrayLike, u: ArrayLike) -> float:
        """The cost of one knot."""
        return float(self.values(np.array([x], float), np.array([u], float))[0])

    def gradient(self, x: ArrayLike, u: ArrayLike) -> Array:
        """(n + nu,): the derivative along z = (dx, du)."""
        return self._knot(x, u, True)[0]

    def hessian(self, x: ArrayLike, u: ArrayLike, exact: bool = True) -> Array:
        """(n + nu, n + nu): the exact Hessian in exponential coordinates, or the Gauss-Newton one."""
        return self._knot(x, u, exact)[1]

    def _knot(self, x: ArrayLike, u: ArrayLike, exact: bool) -> tuple[Array, Array]:
        nz = 2 * self.forces.robot.nv + self.forces.nu
        lz, lzz = np.zeros((1, nz)), np.zeros((1, nz, nz))
        self.expand(np.array([x], float), np.array([u], float), 1.0, exact, np.zeros(1), lz, lzz)
        return lz[0], lzz[0]

    def _checked(self, X: Array, U: Array) -> tuple[Array, Array]:
        return checks.rows("numbers in a state", X, self.forces.nx), checks.rows("controls", U, self.forces.nu)


def _beyond(r: Array, lower: Array, upper: Array) -> Array:
    return np.asarray(np.minimum(r - lower, 0.0) + np.maximum(r - upper, 0.0))


def _contact(forces: ContactForces, frame: str) -> int:
    """How many numbers the force of a contact has."""
    if not isinstance(forces, ContactForces):
        raise ProblemError(f"forces: expected dynamics.ContactForces, got {type(forces).__name__}")
    found = forces.rows(frame)
    return found.stop - found.start


@dataclass(frozen=True, eq=False)
class ContactForce(ForceTerm):
    """``½ Σ_i w_i (f - target)_i²`` of the force f of a contact.

    forces: those of all contacts held at the knots in question.   frame: whose.
    target, weights (3,) of a point, [N]; (6,) of a surface, [N; N m]; in the axes that the contact names.
    """

    forces: ContactForces
    frame: str
    target: Array
    weights: Array

    def __post_init__(self) -> None:
        size = _contact(self.forces, self.frame)
        object.__setattr__(self, "target", as_array("target", self.target, (size,)).copy())
        object.__setattr__(self, "weights", checks.weights("weights", self.weights, size))

    def _rows(self) -> tuple[Array, Array, Array, Array]:
        return np.eye(len(self.target)), self.target, self.target, self.weights


@dataclass(frozen=True, eq=False)
class FrictionCone(ForceTerm):
    """``½ w d²`` summed over the facets of a friction pyramid that a contact's force is beyond, by d [N].

    With n the normal, t_i unit tangents around it: ``±t_i·f <= mu n·f`` and ``least <= n·f <= most``.

    forces, frame: as in ``ContactForce``; a surface's first three numbers count.
    mu: coefficient of friction.   weight: one number [1/N²].
    normal (3,): in the axes that the contact names, the world's unless it says so.
    facets: an even number; inner: whether the pyramid lies inside the cone (mu becomes mu cos(π/facets)), or around it.
    least, most: limits of the normal force [N].
    """

    forces: ContactForces
    frame: str
    mu: float
    weight: float
    normal: ArrayLike = (0.0, 0.0, 1.0)
    facets: int = 4
    inner: bool = True
    least: float = 0.0
    most: float = np.inf
    _pyramid: tuple[Array, Array, Array, Array] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        size = _contact(self.forces, self.frame)
        mu, weight = positive("mu", self.mu), checks.weight("weight", self.weight)
        facets = self.facets
        if not isinstance(facets, (int, np.integer)) or facets < 4 or facets % 2:
            raise ProblemError(f"facets: expected an even number of at least 4, got {facets!r}")
        normal = as_array("normal", self.normal, (3,))
        if not np.linalg.norm(normal) > 0.0:
            raise ProblemError(f"normal: expected a direction, got {normal}")
        least, most = float(self.least), float(self.most)
        if not 0.0 <= least <= most:
            raise ProblemError(f"least, most: expected 0 <= least <= most, got {least}, {most}")
        C = np.zeros((facets + 1, size))
        n, tangents = _around(normal / np.linalg.norm(normal), facets)
        steep = mu * np.cos(np.pi / facets) if self.inner else mu
        C[:-1, :3] = tangents - steep * n
        C[-1, :3] = n
        lower, upper = np.full(facets + 1, -np.inf), np.zeros(facets + 1)
        lower[-1], upper[-1] = least, most
        object.__setattr__(self, "_pyramid", (C, lower, upper, np.full(facets + 1, weight)))

    def _rows(self) -> tuple[Array, Array, Array, Array]:
        return self._pyramid


def _around(n: Array, facets: int) -> tuple[Array, Array]:
    """The normal and tangents (facets, 3) around it: those of the world's z axis, x first, turned the shortest way."""
    z = np.array([0.0, 0.0, 1.0])
    v, c = np.cross(z, n), float(z @ n)
    V = np.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])
    R = np.diag([1.0, -1.0, -1.0]) if c < -1.0 + 1e-12 else np.eye(3) + V + V @ V / (1.0 + c)
    angles = 2.0 * np.pi * np.arange(facets) / facets
    flat = np.stack([np.cos(angles), np.sin(angles), 0.0 * angles], axis=1)
    return n, flat @ R.T

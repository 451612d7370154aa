"""Quantities of a whole robot or at a frame, with first and second derivatives: the functions people call.

Centre of mass, a frame's placement and velocity, energy and momentum. Arguments are one sample or a batch along the
leading axis; results follow. Conventions are Pinocchio's: derivatives by q are along the local perturbation q ⊕ t e_j.
Hessians are those in exponential coordinates, so symmetric, of the quantity weighted by ``weight``. SI units.
Functions of costs and constraints may ask for the quantities themselves: see `ddp.tracing.quantities`.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import choice
from ddp.protocols import Array
from ddp.tracing.quantities import FIRST, SECOND, VALUES, Quantity, traceable
from dynamics.quantities import frames, traced
from dynamics.quantities.frames import REFERENCES
from dynamics.rigid_bodies.samples import Stack
from dynamics.robots.model import Robot


class Derivatives(NamedTuple):
    """∂/∂q and ∂/∂v: (nv,) of a number, (k, nv) of k."""

    dq: Array
    dv: Array


class Hessian(NamedTuple):
    """Blocks of the Hessian by (q, v), each (nv, nv), rows the first letter; vq is qv transposed."""

    qq: Array
    qv: Array
    vv: Array


@traceable(traced.center_of_mass, 1)
def center_of_mass(robot: Robot, q: ArrayLike) -> Array:
    """The centre of mass (3,) in the world [m]."""
    return _center(Stack(robot, q), VALUES)


def center_of_mass_derivatives(robot: Robot, q: ArrayLike) -> Array:
    """Jacobian of the centre of mass, ∂c/∂q (3, nv)."""
    return _center(Stack(robot, q), FIRST)


def center_of_mass_hessian(robot: Robot, q: ArrayLike, weight: ArrayLike) -> Array:
    """The Hessian (nv, nv) of ``weight @ c``, weight (3,)."""
    return _center(Stack(robot, q), SECOND, weight)


@traceable(traced.frame_position, 1)
def frame_position(robot: Robot, q: ArrayLike, frame: str) -> Array:
    """The origin (3,) of a frame in the world [m]: the last column of its placement."""
    s = Stack(robot, q)
    return _found(s, traced.frame_position(robot, frame), s.q, VALUES, s.q)


@traceable(traced.frame_placement, 1, traced.matrix)
def frame_placement(robot: Robot, q: ArrayLike, frame: str) -> Array:
    """The homogeneous matrix M (4, 4) of a frame in the world."""
    s = Stack(robot, q)
    y = _found(s, traced.frame_placement(robot, frame), s.q, VALUES, s.q)
    M = np.zeros((*y.shape[:-1], 4, 4))
    M[..., :3, :3], M[..., :3, 3], M[..., 3, 3] = y[..., :9].reshape(*y.shape[:-1], 3, 3), y[..., 9:], 1.0
    return M


def frame_placement_derivatives(robot: Robot, q: ArrayLike, frame: str) -> Array:
    """The frame's Jacobian J (6, nv) in its own axes: M(q ⊕ δ) = M Exp(J δ + ...)."""
    s = Stack(robot, q)
    return _halves(_velocity(s, s.zeros(), frame, "local", FIRST)).dv


def frame_placement_hessian(robot: Robot, q: ArrayLike, frame: str, weight: ArrayLike) -> Array:
    """The Hessian (nv, nv) of ``weight @ log6(M⁻¹ M(q ⊕ δ))`` at δ = 0, weight (6,)."""
    s = Stack(robot, q)
    turned = _blocks(_velocity(s, s.zeros(), frame, "local", SECOND, weight)).qv  # D_k J_j in exponential coordinates
    return np.asarray(0.5 * (turned + np.swapaxes(turned, -1, -2)))


@traceable(traced.frame_velocity, 2)
def frame_velocity(robot: Robot, q: ArrayLike, v: ArrayLike, frame: str, reference: str = "local") -> Array:
    """A frame's velocity (6,), [linear m/s; angular rad/s]; reference: "local", "world" or "local-world-aligned"."""
    return _velocity(Stack(robot, q), v, frame, reference, VALUES)


def frame_velocity_derivatives(
    robot: Robot, q: ArrayLike, v: ArrayLike, frame: str, reference: str = "local"
) -> Derivatives:
    """Derivatives of a frame's velocity, (6, nv) each."""
    return _halves(_velocity(Stack(robot, q), v, frame, reference, FIRST))


def frame_velocity_hessian(
    robot: Robot, q: ArrayLike, v: ArrayLike, frame: str, weight: ArrayLike, reference: str = "local"
) -> Hessian:
    """The Hessian of ``weight @ frame_velocity``, weight (6,)."""
    return _blocks(_velocity(Stack(robot, q), v, frame, reference, SECOND, weight))


@traceable(traced.energy, 2, lambda y: y[0])
def energy(robot: Robot, q: ArrayLike, v: ArrayLike) -> Array:
    """Kinetic (rotors' included) and gravity's potential energy, zero at the origin's height [J]: a number, or (N,).

    Springs of joints take no part.
    """
    return _energy(Stack(robot, q), v, VALUES)[..., 0]


def energy_derivatives(robot: Robot, q: ArrayLike, v: ArrayLike) -> Derivatives:
    """Derivatives of the energy, (nv,) each."""
    return _halves(_energy(Stack(robot, q), v, FIRST)[..., 0, :])


def energy_hessian(robot: Robot, q: ArrayLike, v: ArrayLike) -> Hessian:
    """Hessian of the energy."""
    return _blocks(_energy(Stack(robot, q), v, SECOND))


@traceable(traced.momentum, 2)
def momentum(robot: Robot, q: ArrayLike, v: ArrayLike, about: str = "center-of-mass") -> Array:
    """Momentum (6,) in world axes, [linear kg m/s; angular kg m²/s], of the links without their rotors.

    about: "center-of-mass", as pinocchio.computeCentroidalMomentum, or "origin", the world's.
    """
    return _momentum(Stack(robot, q), v, about, VALUES)


def momentum_derivatives(robot: Robot, q: ArrayLike, v: ArrayLike, about: str = "center-of-mass") -> Derivatives:
    """Derivatives of the momentum, (6, nv) each; dv is the (centroidal) momentum matrix."""
    return _halves(_momentum(Stack(robot, q), v, about, FIRST))


def momentum_hessian(
    robot: Robot, q: ArrayLike, v: ArrayLike, weight: ArrayLike, about: str = "center-of-mass"
) -> Hessian:
    """The Hessian of ``weight @ momentum``, weight (6,)."""
    return _blocks(_momentum(Stack(robot, q), v, about, SECOND, weight))


# -- checked arguments to kernels --------------------------------------------------------------------


def _found(s: Stack, quantity: Quantity, a: Array, order: int, weight: Array) -> Array:
    """Numbers (size,), derivatives (size, n) or the Hessian (n, n) of a quantity, as the order asks for."""
    size, n = quantity.size, len(quantity.taken)
    y, J = np.empty((s.N, size)), np.zeros((s.N if order == FIRST else 0, size, n))
    H = np.zeros((s.N if order == SECOND else 0, n, n))
    quantity.kernel(*quantity.arguments, a, order, y, weight, J, H)
    return s.result((y, J, H)[order])


def _center(s: Stack, order: int, weight: ArrayLike | None = None) -> Array:
    return _found(s, traced.center_of_mass(s.robot), s.q, order, s.rows("weight", weight, 3))


def _moving(s: Stack, v: ArrayLike) -> Array:
    """States (N, nq + nv)."""
    return np.concatenate([s.q, s.rows("v", v, s.robot.nv)], axis=1)


def _velocity(s: Stack, v: ArrayLike, frame: str, reference: str, order: int, weight: ArrayLike | None = None) -> Array:
    choice("reference", reference, REFERENCES)
    branch, robot = frames.branch(s.robot, frame), s.robot
    own = branch, branch.dof, REFERENCES[reference], robot.nq
    every = replace(traced.frame_velocity(robot, frame, reference), arguments=own, taken=np.arange(2 * robot.nv))
    return _found(s, every, _moving(s, v), order, s.rows("weight", weight, 6))


def _energy(s: Stack, v: ArrayLike, order: int) -> Array:
    return _found(s, traced.energy(s.robot), _moving(s, v), order, np.ones((s.N, 1)))


def _momentum(s: Stack, v: ArrayLike, about: str, order: int, weight: ArrayLike | None = None) -> Array:
    return _found(s, traced.momentum(s.robot, about), _moving(s, v), order, s.rows("weight", weight, 6))


def _halves(J: Array) -> Derivatives:
    nv = J.shape[-1] // 2
    return Derivatives(np.ascontiguousarray(J[..., :nv]), np.ascontiguousarray(J[..., nv:]))


def _blocks(H: Array) -> Hessian:
    nv = H.shape[-1] // 2
    return Hessian(H[..., :nv, :nv], H[..., :nv, nv:], H[..., nv:, nv:])

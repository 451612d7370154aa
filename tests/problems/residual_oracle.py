"""Pinocchio's residuals of the cost terms, and differences of order four of what they make."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pinocchio as pin

Residual = Callable[[np.ndarray, np.ndarray], np.ndarray]
FIRST, SECOND = 1e-3, 1e-2


class Oracle:
    """``½ r(x)ᵀ W r(x)`` of a residual r(q, v) written with Pinocchio; nothing here comes from mayne."""

    def __init__(self, model: pin.Model, residual: Residual, weights: np.ndarray) -> None:
        self.model, self.residual, self.weights = model, residual, np.asarray(weights, float)

    def moved(self, x: np.ndarray, dx: np.ndarray) -> np.ndarray:
        nq, nv = self.model.nq, self.model.nv
        q, v = pin.integrate(self.model, x[:nq], dx[:nv]), x[nq:] + dx[nv:]
        return np.atleast_1d(self.residual(q, v))

    def value(self, x: np.ndarray, dx: np.ndarray | None = None) -> float:
        r = self.moved(x, np.zeros(2 * self.model.nv) if dx is None else dx)
        return 0.5 * float(r @ (self.weights * r))

    def jacobian(self, x: np.ndarray) -> np.ndarray:
        h = FIRST
        return np.stack(
            [
                (
                    8 * (self.moved(x, h * e) - self.moved(x, -h * e))
                    - self.moved(x, 2 * h * e)
                    + self.moved(x, -2 * h * e)
                )
                / (12 * h)
                for e in np.eye(2 * self.model.nv)
            ],
            axis=1,
        )

    def gradient(self, x: np.ndarray) -> np.ndarray:
        return self.jacobian(x).T @ (self.weights * self.moved(x, np.zeros(2 * self.model.nv)))

    def gauss_newton(self, x: np.ndarray) -> np.ndarray:
        J = self.jacobian(x)
        return J.T @ (self.weights[:, None] * J)

    def hessian(self, x: np.ndarray) -> np.ndarray:
        """By polarisation: δᵀHδ = d²/dt² value(x ⊕ tδ) for all e_i and e_i + e_j that matter."""
        n, h, centre = 2 * self.model.nv, SECOND, self.value(x)

        def along(d: np.ndarray) -> float:
            near = self.value(x, h * d) + self.value(x, -h * d)
            far = self.value(x, 2 * h * d) + self.value(x, -2 * h * d)
            return (16 * near - far - 30 * centre) / (12 * h * h)

        basis = np.eye(n)
        H = np.diag([along(e) for e in basis])
        for i in range(n):
            for j in range(i):
                H[i, j] = H[j, i] = 0.5 * (along(basis[i] + basis[j]) - H[i, i] - H[j, j])
        return H


def frame_pose(model: pin.Model, frame: str, target: pin.SE3) -> Residual:
    data, index = model.createData(), model.getFrameId(frame)

    def residual(q: np.ndarray, v: np.ndarray) -> np.ndarray:
        pin.framesForwardKinematics(model, data, q)
        return pin.log6(target.inverse() * data.oMf[index]).vector

    return residual


def frame_position(model: pin.Model, frame: str, target: np.ndarray) -> Residual:
    data, index = model.createData(), model.getFrameId(frame)

    def residual(q: np.ndarray, v: np.ndarray) -> np.ndarray:
        pin.framesForwardKinematics(model, data, q)
        return data.oMf[index].translation - target

    return residual


def frame_velocity(
    model: pin.Model, frame: str, target: np.ndarray, reference: pin.ReferenceFrame
) -> Residual:
    data, index = model.createData(), model.getFrameId(frame)

    def residual(q: np.ndarray, v: np.ndarray) -> np.ndarray:
        pin.forwardKinematics(model, data, q, v)
        pin.updateFramePlacements(model, data)
        return pin.getFrameVelocity(model, data, index, reference).vector - target

    return residual


def center_of_mass(model: pin.Model, target: np.ndarray) -> Residual:
    data = model.createData()
    return lambda q, v: pin.centerOfMass(model, data, q) - target


def energy(model: pin.Model, target: float) -> Residual:
    data = model.createData()

    def residual(q: np.ndarray, v: np.ndarray) -> np.ndarray:
        kinetic = pin.computeKineticEnergy(model, data, q, v)
        return np.array([kinetic + pin.computePotentialEnergy(model, data, q) - target])

    return residual


def momentum(model: pin.Model, target: np.ndarray, about: str) -> Residual:
    data = model.createData()

    def residual(q: np.ndarray, v: np.ndarray) -> np.ndarray:
        pin.computeCentroidalMomentum(model, data, q, v)
        point = data.com[0] if about == "origin" else np.zeros(3)
        return pin.SE3(np.eye(3), point).act(data.hg).vector - target

    return residual


def state(model: pin.Model, target: np.ndarray) -> Residual:
    nq = model.nq
    return lambda q, v: np.concatenate([pin.difference(model, target[:nq], q), v - target[nq:]])

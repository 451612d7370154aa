"""Wrenches that keep their direction in the world, added to inverse and forward dynamics and their derivatives.

Held constant in world axes at its body's origin, a wrench is a torque τ_ext(q) = Jᵀ f on the joints that depends on q
alone (external.py): ID = ID₀ - τ_ext, and FD = FD₀(q, v, τ + τ_ext(q)) with derivatives by the chain rule, FD₀ being
linear in τ. Arguments are those of ``samples.Samples``; where it holds no such wrench, results come back as they are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dynamics.rigid_bodies import external
from dynamics.rigid_bodies.results import (
    ForwardDerivatives,
    ForwardHessian,
    ForwardTensors,
    InverseDerivatives,
    InverseHessian,
    InverseTensors,
)
from dynamics.rigid_bodies.samples import Samples

Array = NDArray[np.float64]


def _found(s: Samples, order: int, Q: Array, wrenches: Array, mu: Array, out: Array) -> Array:
    tree = s.robot.tree
    memory = s.memory(external.size(tree.nb, s.robot.nq, s.robot.nv))
    external.external_torques(tree.address, memory, order, Q, wrenches, mu, out)
    return out


def torques(s: Samples) -> Array:
    """τ_ext (N, nv)."""
    return _found(s, 0, s.q, s.world, s.first, np.empty((s.N, s.robot.nv)))


def _first(s: Samples) -> Array:
    return _found(s, 1, s.q, s.world, s.first, s.matrices(1)[0])


def _second(s: Samples) -> Array:
    """Tensors, from Hessians of each torque alone."""
    nv = s.robot.nv
    Q, wrenches = (np.repeat(part, nv, axis=0) for part in (s.q, s.world))
    found = _found(s, 2, Q, wrenches, np.tile(np.eye(nv), (s.N, 1)), np.zeros((len(Q), nv, nv)))
    return found.reshape(s.N, nv, nv, nv)


def _contracted(s: Samples, mu: Array) -> Array:
    return _found(s, 2, s.q, s.world, np.ascontiguousarray(mu), s.matrices(1)[0])


def inverse(s: Samples, tau: Array) -> Array:
    """ID₀ - τ_ext."""
    return tau - torques(s) if s.has_world else tau


def inverse_derivatives(s: Samples, out: InverseDerivatives) -> InverseDerivatives:
    """∂ID/∂q less that of τ_ext."""
    return out._replace(dq=out.dq - _first(s)) if s.has_world else out


def inverse_tensors(s: Samples, out: InverseTensors) -> InverseTensors:
    """∂²ID/∂q∂q less that of τ_ext."""
    return out._replace(dqdq=out.dqdq - _second(s)) if s.has_world else out


def inverse_hessian(s: Samples, out: InverseHessian) -> InverseHessian:
    """The Hessian of μᵀ ID by q less that of μᵀ τ_ext."""
    return out._replace(qq=out.qq - _contracted(s, s.weight[0])) if s.has_world else out


def add_to_torques(s: Samples) -> None:
    """τ := τ + τ_ext, before forward dynamics."""
    if s.has_world:
        s.second = s.second + torques(s)


def forward_derivatives(s: Samples, out: ForwardDerivatives) -> ForwardDerivatives:
    """a_q + a_τ τ_q."""
    return out._replace(dq=out.dq + out.dtau @ _first(s)) if s.has_world else out


def forward_tensors(s: Samples, out: ForwardTensors, Minv: Array) -> ForwardTensors:
    """a_qq + a_τq τ_q + (a_τq τ_q)ᵀ + a_τ τ_qq; Minv = a_τ (N, nv, nv)."""
    if not s.has_world:
        return out
    cross = np.einsum("nilk,nlj->nijk", out.dtaudq, _first(s), optimize=True)
    through = np.einsum("nil,nljk->nijk", Minv, _second(s), optimize=True)
    return out._replace(dqdq=out.dqdq + cross + np.swapaxes(cross, -1, -2) + through)


def forward_hessian(s: Samples, out: ForwardHessian, Minv: Array) -> ForwardHessian:
    """Hessian contracted with the weights on a."""
    if not s.has_world:
        return out
    cross = out.qtau @ _first(s)
    weights = np.einsum("ni,nil->nl", s.weight[0], Minv)
    return out._replace(qq=out.qq + cross + np.swapaxes(cross, -1, -2) + _contracted(s, weights))

"""Wrenches that keep their direction in the world, in inverse and forward dynamics and their derivatives.

Held constant in world axes at its body's origin, a wrench is a torque τ_ext(q) = Jᵀ f on the joints that depends on q
alone (external.py): ID = ID₀ - τ_ext, and FD = FD₀(q, v, τ + τ_ext(q)) with derivatives by the chain rule, FD₀ being
linear in τ. Samples are those that have such wrenches.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dynamics.rigid_bodies import external
from dynamics.rigid_bodies.results import ForwardHessian, ForwardTensors
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


def rates(s: Samples) -> Array:
    """∂τ_ext/∂q (N, nv, nv)."""
    return _found(s, 1, s.q, s.world, s.first, s.matrices(1)[0])


def tensors(s: Samples) -> Array:
    """∂²τ_ext/∂q∂q (N, nv, nv, nv), from Hessians of each torque alone."""
    nv = s.robot.nv
    Q, wrenches = (np.repeat(part, nv, axis=0) for part in (s.q, s.world))
    found = _found(s, 2, Q, wrenches, np.tile(np.eye(nv), (s.N, 1)), np.zeros((len(Q), nv, nv)))
    return found.reshape(s.N, nv, nv, nv)


def contracted(s: Samples, mu: Array) -> Array:
    """The Hessian (N, nv, nv) of μᵀ τ_ext, mu (N, nv)."""
    return _found(s, 2, s.q, s.world, np.ascontiguousarray(mu), s.matrices(1)[0])


def through_tensors(s: Samples, of_a: ForwardTensors, Minv: Array) -> Array:
    """Terms of a_qq by way of τ_ext: a_τq τ_q + (a_τq τ_q)ᵀ + a_τ τ_qq; Minv = a_τ (N, nv, nv)."""
    cross = np.einsum("nilk,nlj->nijk", of_a.dtaudq, rates(s), optimize=True)
    return cross + np.swapaxes(cross, -1, -2) + np.einsum("nil,nljk->nijk", Minv, tensors(s), optimize=True)


def through_hessian(s: Samples, of_a: ForwardHessian, Minv: Array) -> Array:
    """Terms of qq by way of τ_ext, contracted with the weights on a; Minv = a_τ (N, nv, nv)."""
    cross = of_a.qtau @ rates(s)
    return cross + np.swapaxes(cross, -1, -2) + contracted(s, np.einsum("ni,nil->nl", s.weight[0], Minv))

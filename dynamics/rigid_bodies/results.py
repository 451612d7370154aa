"""Results of derivatives of inverse and forward dynamics; a batch has a leading axis more."""

from __future__ import annotations

from typing import NamedTuple

from ddp.protocols import Array


class InverseDerivatives(NamedTuple):
    """∂τ/∂q, ∂τ/∂v, ∂τ/∂a = M: each (nv, nv)."""

    dq: Array
    dv: Array
    da: Array


class InverseTensors(NamedTuple):
    """Second derivatives of τ, each (nv, nv, nv): T[i, j, k] = D_k (D_j τ_i); dvdq has v second, q last."""

    dqdq: Array
    dvdv: Array
    dvdq: Array
    dadq: Array


class InverseHessian(NamedTuple):
    """Hessian blocks of mu @ τ, each (nv, nv); rows are the first letter. vq, aq are transposes; the others vanish."""

    qq: Array
    qv: Array
    vv: Array
    qa: Array


class ForwardDerivatives(NamedTuple):
    """∂a/∂q, ∂a/∂v, ∂a/∂τ = M⁻¹: each (nv, nv)."""

    dq: Array
    dv: Array
    dtau: Array


class ForwardTensors(NamedTuple):
    """Second derivatives of a, each (nv, nv, nv): T[i, j, k] = D_k (D_j a_i); dtaudq = ∂M⁻¹/∂q."""

    dqdq: Array
    dvdv: Array
    dvdq: Array
    dtaudq: Array


class ForwardHessian(NamedTuple):
    """Hessian blocks of weight @ a, each (nv, nv); rows are the first letter."""

    qq: Array
    qv: Array
    vv: Array
    qtau: Array

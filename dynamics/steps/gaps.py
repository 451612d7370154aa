# mypy: allow-untyped-defs, allow-untyped-calls
"""Open gaps' effect on deviations on the manifold, to second order.

A trajectory of multiple shooting misses its next state X' by gap = f(X, U) ⊖ X'. When the step deviates by
y = f(x, u) ⊖ f(X, U), the next state deviates from X' by

    log(Exp(gap) Exp(y)) = gap + Jr⁻¹(gap) y + ½ yᵀ C y + ...

joint by joint; C depends on the weight that contracts it. Where joints move by a flat space, Jr = 1 and C = 0.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import carray

from ddp.compiling.kernel import callback, kernel, pointer
from dynamics.geometry.joint_motion import is_group, joint_log_hessian, joint_log_jacobian, twist_of
from dynamics.robots.tree import Tree


@kernel
def close(tree, gap, weight, J, C):
    """J := Jr⁻¹(gap) and C := the Hessian of weight·log(Exp(gap) Exp(y)) at y = 0, both (n, n)."""
    own, curvature = np.zeros((6, 6)), np.zeros((6, 6))
    J[:], C[:] = 0.0, 0.0
    for i in range(J.shape[0]):
        J[i, i] = 1.0
    for b in range(tree.nb):
        kind, iv, nj = tree.kind[b], tree.iv[b], tree.nj[b]
        if is_group(kind):
            xi = twist_of(kind, gap, iv, 1.0)
            joint_log_jacobian(kind, nj, xi, own)
            joint_log_hessian(kind, nj, xi, twist_of(kind, weight, iv, 1.0), curvature)
            for i in range(nj):
                for j in range(nj):
                    J[iv + i, iv + j], C[iv + i, iv + j] = own[i, j], curvature[i, j]


def close_at(context, gap, weight, out):  # type: ignore[no-untyped-def]
    """The C function: addresses of a ``Tree``, a gap (n,), a weight (n,), and J, C (2, n, n) to write."""
    tree = Tree(context)
    n = 2 * tree.nv
    both = carray(pointer(out), (2, n, n))
    close(tree, carray(pointer(gap), n), carray(pointer(weight), n), both[0], both[1])


@cache
def closing_callback() -> Any:
    """``close_at``, compiled on first use."""
    return callback(close_at)

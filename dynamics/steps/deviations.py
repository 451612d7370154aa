# mypy: allow-untyped-defs, allow-untyped-calls
"""Deviations of states as C functions: from a reference between two knots, and across open gaps to second order.

A trajectory of multiple shooting misses its next state X' by gap = f(X, U) ⊖ X'. When the step deviates by
y = f(x, u) ⊖ f(X, U), the next state deviates from X' by

    log(Exp(gap) Exp(y)) = gap + Jr⁻¹(gap) y + ½ yᵀ C y + ...

joint by joint; C depends on the weight that contracts it. Where joints move by a flat space, Jr = 1 and C = 0.
"""

import numpy as np

from ddp.compiling.kernel import callback, kernel
from ddp.machine.addresses import array_at
from ddp.systems.system import Contraction
from dynamics.geometry.configuration import difference_state, integrate_state
from dynamics.geometry.joint_motion import is_group, joint_log_hessian, joint_log_jacobian, twist_of
from dynamics.robots.tree import Tree


@kernel
def close(tree, gap, weight, J, C):
    """J := Jr⁻¹(gap) and C := the Hessian of weight·log(Exp(gap) Exp(y)) at y = 0, both (n, n).

    Rows and columns of joints by a flat space stay as they are: to write the whole of both took a fourteenth of a
    humanoid's solve within limits of joints.
    """
    own, curvature = np.zeros((6, 6)), np.zeros((6, 6))
    for b in range(tree.nb):
        kind, iv, nj = tree.kind[b], tree.iv[b], tree.nj[b]
        if is_group(kind):
            xi = twist_of(kind, gap, iv, 1.0)
            joint_log_jacobian(kind, nj, xi, own)
            joint_log_hessian(kind, nj, xi, twist_of(kind, weight, iv, 1.0), curvature)
            for i in range(nj):
                for j in range(nj):
                    J[iv + i, iv + j], C[iv + i, iv + j] = own[i, j], curvature[i, j]


@callback
def close_at(context, gap, weight, out):
    """The C function: addresses of a ``Tree``, a gap (n,), a weight (n,), and J, C (2, n, n) to write, by blocks."""
    tree = Tree(context)
    n = 2 * tree.nv
    both = array_at(out, (2, n, n))
    close(tree, array_at(gap, (n,)), array_at(weight, (n,)), both[0], both[1])


@callback
def deviate_at(context, at, x, out):
    """The C function: out (n,) := x ⊖ (X ⊕ dx), of a ``Tree`` and of X (nx,) and dx (n,) in a row ``at``."""
    tree = Tree(context)
    nx, n = tree.nq + tree.nv, 2 * tree.nv
    given = array_at(at, (nx + n,))
    reference = np.empty(nx)
    integrate_state(tree, given[:nx], given[nx:], reference)
    difference_state(tree, reference, array_at(x, (nx,)), array_at(out, (n,)))


def deviation(tree: Tree) -> Contraction:
    """The C function, for the states of a tree."""
    return Contraction(deviate_at.address, tree.start, tree)  # knows joints alone

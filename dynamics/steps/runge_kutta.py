# mypy: allow-untyped-defs, allow-untyped-calls
"""Explicit steps on the configuration manifold: methods of Runge-Kutta-Munthe-Kaas type, each of them a table.

With u held over the step and a_i = a(q_i, v_i, u), every stage leaves from q:

    v_i = v + h Σ_j A_ij a_j     q_i = q ⊕ ξ_i     ξ_i = h Σ_j A_ij v_j + h² γ_i [v_j(i), v_k(i)]          j, k < i

The stage after the last is where the step ends, its row of A what the literature calls b. Where motions commute, A is
Butcher's table of a classical method; elsewhere one bracket in a row keeps its order. With those of "rk4" the method
is of order four on any Lie group (Munthe-Kaas & Owren 1999, Computations in a free Lie algebra; their signs are those
of velocities in world axes).
"""

from collections.abc import Mapping, Sequence

import numpy as np

from ddp.compiling.kernel import apart
from ddp.machine.memory import as_vector
from ddp.protocols import Array
from dynamics.geometry.configuration import add_bracket, integrate_configuration


def method(A: Sequence[Sequence[float]], brackets: Mapping[int, tuple[float, int, int]] | None = None) -> Array:
    """The table (stages + 1, stages + 3) of a method: row i holds A_i (stages,), γ_i, and j and k of its bracket.

    A: row i has weights on the stages before i, or fewer; the last row is the step's own. brackets: (γ, j, k) by row.
    """
    stages = len(A) - 1
    table = np.zeros((stages + 1, stages + 3))
    for i, row in enumerate(A):
        table[i, : len(row)] = row
    for i, bracket in (brackets or {}).items():
        table[i, stages:] = bracket
    return table


NONE = method([()])
"""No stages: the method of steps that are not explicit."""

METHODS = {
    "euler": method([(), (1.0,)]),
    "rk4": method(
        [(), (1 / 2,), (0.0, 1 / 2), (0.0, 0.0, 1.0), (1 / 6, 1 / 3, 1 / 3, 1 / 6)],
        {2: (1 / 8, 0, 1), 4: (1 / 12, 0, 3)},
    ),
}
"""Explicit steps by name."""


@apart
def reach_stage(tree, method, h, i, q, v, zero, V, A, xi, qi, vi):
    """qi, vi := q_i, v_i of a stage, or of the step's end, which may be q and v, and xi := ξ_i.

    V, A (stages, nv): velocities and accelerations of the stages before.   zero: added to v_i and ξ_i.
    """
    nv, stages = tree.nv, len(method) - 1
    for j in range(nv):
        xi[j] = zero
        vi[j] = v[j] + zero
    for k in range(i):
        share = h * method[i, k]
        if share != 0.0:
            for j in range(nv):
                xi[j] += share * V[k, j]
                vi[j] += share * A[k, j]
    if method[i, stages] != 0.0:
        scale, of = h * h * method[i, stages], as_vector(V)
        add_bracket(tree, scale, of, nv * int(method[i, stages + 1]), nv * int(method[i, stages + 2]), xi)
    integrate_configuration(tree, q, xi, 1.0, qi)

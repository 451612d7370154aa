"""Gains of the plan's own cost with a price on being off its path.

The solver's gains minimise a cost to which the path itself is worth nothing. Near the motion no others cost less; from
where their model is wrong they leave it, for nothing calls them back. A small price keeps errors where the model holds:

    cost of the plan + ½ dxᵀ Q dx + ½ duᵀ R du,    dx = x ⊖ X,  du = u - U

has the same optimum X, U, whatever Q and R. One exact sweep about it has the gains.
"""

import numpy as np

from ddp.costs.batch import durations_of
from ddp.derivatives import EXACT, FIRST, RECORDS
from ddp.errors import ProblemError
from ddp.feedback.feedback import checked
from ddp.feedback.policy import Policy, held_policy
from ddp.machine.aligned import aligned_zeros
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.sweeps.backward import Backward
from ddp.systems.system import Tracked, Tracking, ability

PRICE = 0.01
"""Part of the weights of tracking that the path is worth. From 5 degrees and with a heavier base, HyQ's turn in the air
comes to its end in 30 of 30 flights with 0.001, 0.01 and 0.1, in 24 with 0.0001 and with tracking alone."""


def priced_policy(
    problem: Problem, X: Array, U: Array, multipliers: Array, weights: Tracking | None = None, delay: float = 0.0
) -> Policy:
    """The policy ``U_k + K_k (x ⊖ X_k)`` of the sum; weights: of the price, default a part of the system's own.

    multipliers: of constraints, whose forces count; their curvature does not.
    Raises ProblemError for systems that know no weights, and for a motion about which the sum has no minimum.
    """
    system, N, n = problem.dynamics, problem.horizon, problem.dynamics.n
    share, given = 1.0, weights
    if given is None:
        tracked: Tracked | None = ability(system, "tracked")
        if tracked is None:
            raise ProblemError(f"weights: expected Tracking(...), a {type(system).__name__} has none of its own")
        share, given = PRICE, tracked.weights(X, U)
    price = checked(given, system)
    lasting = durations_of(system, N)[:, None]
    d = problem.allocate()
    problem.expand(X, problem.padded(U), d, 0, N + 1, FIRST | EXACT | RECORDS)
    if multipliers.size:
        problem.add_forces(X, U, multipliers, d.lz)
    Q = aligned_zeros(d.exact.shape)
    Q[:] = d.hessians(problem.separable)
    diagonal = np.einsum("kii->ki", Q)
    diagonal[:N] += share * lasting * np.concatenate([price.state, price.control])
    diagonal[N, :n] += share * price.final
    swept = Backward(d._replace(lzz=Q, exact=Q), system, structure=problem.structure)(1.0, 0.0)
    if swept.failed >= 0:
        raise ProblemError(f"feedback: expected a motion with least cost, there is none at knot {swept.failed}")
    return held_policy(system, X, U, swept.K.copy(), problem.lower, problem.upper, delay)

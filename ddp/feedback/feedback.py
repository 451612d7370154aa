"""Feedback that works on the robot, about a motion that the solver found.

The solver's gains minimise the plan's cost, to which it is free to be off the path, and which rises steeply before a
touch-down; contacts of the plan hold, whatever happens to the feet. So the motion is swept again for feedback alone:

- weights of errors and of controls, in units of the robot, in place of the plan's cost: a time-varying LQR;
- contacts held in velocity and pulled to no place;
- ``G = K N + R S (I - N)``: the gains K act on what contacts leave free, N; errors that contacts forbid are resisted by
  stiffness and damping R of the joints that move what touches, S;
- what it adds keeps planned forces within cones of friction, to first order;
- references between knots on the manifold, controls between the middles of knots, neither across a change of contacts;
- positions at the instants of their velocities: those of semi-implicit steps, q' = q ⊕ h v', lead them by h/2.

Without contacts the plan's own cost serves, with a price on being off its path. To that cost the path itself is worth
nothing: near the motion no others cost less, but gains leave it from where their model is wrong, for nothing calls them
back. A small price keeps errors where the model holds:

    cost of the plan + ½ dxᵀ Q dx + ½ duᵀ R du,    dx = x ⊖ X,  du = u - U

has the same optimum X, U, whatever Q and R. One exact sweep about it has the gains.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp.costs.batch import durations_of
from ddp.derivatives import EXACT, FIRST, RECORDS
from ddp.errors import ProblemError, affordable, as_array, at_least_zero, axes, flag, instance, numbers, positive
from ddp.feedback.policy import Policy, held_policy, lasting_of
from ddp.feedback.regulators import tvlqr
from ddp.machine.aligned import aligned_zeros
from ddp.matrices import definite
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.sweeps.backward import Backward
from ddp.systems.system import Cones, System, Tracked, Tracking, ability, expanded

UNUSED = 1e10
"""Factor of the weight of a control that feedback is to leave alone."""


def tracking_policy(
    problem: Problem, X: Array, U: Array, weights: Tracking | None = None, step: float | None = None,
    delay: float = 0.0,
) -> Policy:  # fmt: skip
    """The policy that tracks a motion: see the module's docstring; ProblemError if the system cannot be tracked."""
    return policy_about(problem, *swept(problem, X, U, weights, step), delay)


def policy_about(problem: Problem, system: System, m: "Motion", weigh: Tracking, delay: float) -> Policy:
    """The policy about a motion in the steps of a system, from `swept`."""
    about: Tracked = ability(system, "tracked")
    slack = np.zeros(m.U.shape, dtype=bool)
    slack[m.steps] = about.pulling() & (m.U[m.steps] <= m.lower)
    K, (free, resisted) = gains(system, m.X, m.U, weigh, slack), about.free_and_resisted(m.X[:-1])
    cones = about.cones(m.X, m.U, weigh.friction)
    G = K @ free + weigh.restoring @ resisted
    return Policy(
        problem.dynamics, m.starts, m.durations, m.X_start, m.X_end, m.U[m.steps], m.U_before, m.U_after,
        G[m.steps], m.lower, m.upper, delay, None if cones is None else Cones(*(part[m.steps] for part in cones)),
    )  # fmt: skip


def swept(
    problem: Problem, X: Array, U: Array, weights: Tracking | None, step: float | None
) -> "tuple[System, Motion, Tracking]":
    """The system that feedback is computed for, the motion in its steps, and weights; see `tracking_policy`."""
    tracked: Tracked | None = ability(problem.dynamics, "tracked")
    if tracked is None:
        got, within = type(problem.dynamics).__name__, getattr(problem.dynamics, "system", None)
        known = any(ability(part, "tracked") is not None for part in (within, getattr(within, "system", None)))
        robot = ", or mayne.unlifted(solution), the motion of the robot within" if known else ""
        other = f"expected solution.feedback('solver'){robot}"
        raise ProblemError(f"solution: policies that track motions are for a robot's dynamics, got {got}; {other}")
    weigh = checked(weights if weights is not None else tracked.weights(X, U), problem.dynamics)
    stretches = tracked.stretches(problem.horizon)
    lasting = lasting_of(problem.dynamics, problem.horizon)
    spans = [float(lasting[knots.start : knots.stop].sum()) for knots in stretches]
    counts = [len(knots) for knots in stretches]
    if step is not None:
        sizes = [span / positive("step", step) for span in spans]
        affordable("step", step, int(min(sum(sizes), 1e30)) * problem.dynamics.n**2)
        counts = [max(1, round(size)) if size > 0.0 else 0 for size in sizes]
    return tracked.in_steps(counts, spans), resampled(problem, X, U, stretches, counts, weigh), weigh


class Motion(NamedTuple):
    """Motion in steps of stretches.

    X (N+1, nx), U (N, nu): at all knots, events among them.   steps (M,): the knots that take time; of these
    starts, durations (M,) [s], X_start, X_end (M, nx), U_before, U_after, lower, upper (M, nu): see `Policy`.
    """

    X: Array
    U: Array
    steps: NDArray[np.int64]
    starts: Array
    durations: Array
    X_start: Array
    X_end: Array
    U_before: Array
    U_after: Array
    lower: Array
    upper: Array


def resampled(
    problem: Problem, X: Array, U: Array, stretches: Sequence[range], counts: Sequence[int], weights: Tracking
) -> Motion:
    """The motion with so many steps in each stretch."""
    d, lasting = problem.dynamics, durations_of(problem.dynamics, problem.horizon)
    ends = np.concatenate([[0.0], np.cumsum(lasting)])
    states, controls, columns = [], [], []
    knot = made = 0
    steps: list[int] = []
    struck = False
    for knots, count in zip(stretches, counts, strict=True):
        states.append(X[knot : knots.start])  # events before it
        controls.append(U[knot : knots.start])
        struck = struck or knots.start > knot
        made, knot = made + knots.start - knot, max(knot, knots.stop)
        if not knots:
            continue
        at = np.linspace(0.0, len(knots), count + 1)
        plan = X[knots.start : knots.stop + 1]
        path = along(d, plan, at)
        moving = along(d, in_time(d, plan, weights.lead * lasting[knots.start], None if struck else X[0]), at)
        times = np.linspace(ends[knots.start], ends[knots.stop], count + 1)
        own = knots.start + np.minimum((0.5 * (at[1:] + at[:-1])).astype(np.int64), len(knots) - 1)
        middle = before = after = U[own]
        if not weights.held:
            before, middle, after = (
                interpolated(U[knots.start : knots.stop], part) for part in (at[:-1], 0.5 * (at[1:] + at[:-1]), at[1:])
            )
        limits = (problem.lower[own], problem.upper[own]) if weights.limits is None else weights.limits
        lower, upper = (np.broadcast_to(limit, middle.shape) for limit in limits)
        states.append(path[:-1])
        controls.append(middle)
        columns.append((times[:-1], np.diff(times), moving[:-1], moving[1:], before, after, lower, upper))
        steps += range(made, made + count)
        made += count
    found = (np.concatenate(column) for column in zip(*columns, strict=True))
    return Motion(np.concatenate([*states, X[-1:]]), np.concatenate(controls), np.array(steps), *found)


def interpolated(U: Array, at: Array) -> Array:
    """Controls of knots U (m, nu), which are those of their middles, at positions from 0 to m, on straight lines."""
    if len(U) == 1:
        return U[np.zeros(len(at), np.int64)]
    k = np.clip((at - 0.5).astype(np.int64), 0, len(U) - 2)
    return np.asarray(U[k] + (at - 0.5 - k)[:, None] * (U[k + 1] - U[k]))


def in_time(system: System, X: Array, lead: float, start: Array | None) -> Array:
    """States X (M, nx) whose positions lead their velocities by ``lead`` [s], and are at the instants of these.

    start (nx,): where the motion began, at its own instant; None after an impact.
    """
    if lead == 0.0:
        return X
    half = system.n // 2
    passed = X[:, -half:] - (0.0 if start is None else start[-half:])
    return system.integrate(X, np.hstack([-lead * passed, np.zeros_like(passed)]))


def along(system: System, path: Array, at: Array) -> Array:
    """States on the way along a path (m+1, nx), at positions from 0 to m: X_k ⊕ s (X_{k+1} ⊖ X_k)."""
    k = np.minimum(at.astype(np.int64), len(path) - 2)
    return system.integrate(path[k], (at - k)[:, None] * system.difference(path[k], path[k + 1]))


def gains(system: System, X: Array, U: Array, weights: Tracking, slack: NDArray[np.bool_]) -> Array:
    """Gains K (N, nu, n) of the time-varying LQR about a motion; events, which no control changes, weigh nothing.

    slack (N, nu): controls that pull and do not, on which feedback does not count, since they could not push.
    """
    lasting = durations_of(system, len(U))
    Q = lasting[:, None, None] * matrix_of(weights.state)
    R = np.where(lasting > 0.0, lasting, 1.0)[:, None, None] * np.diag(weights.control)
    R[slack[:, :, None] & np.eye(len(weights.control), dtype=bool)] *= UNUSED
    return tvlqr(system, X, U, Q, R, held(system, X, U, Q[-1], R[-1], weights)).K


def held(system: System, X: Array, U: Array, Q: Array, R: Array, weights: Tracking) -> Array:
    """Cost-to-go (n, n) at the end of a motion: of errors then, after the last step has gone on for a time."""
    P, lasts = matrix_of(weights.final), durations_of(system, len(U))[-1]
    if weights.hold == 0.0 or lasts == 0.0:
        return P
    step = expanded(system, X[-2:-1], U[-1:], len(U) - 1)
    A, B = step.A[0], step.B[0]
    for _ in range(round(weights.hold / lasts)):
        K = -np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)
        closed = A + B @ K
        P = Q + K.T @ R @ K + closed.T @ P @ closed
    return P


def checked(weights: Tracking, system: System) -> Tracking:
    """Check shapes of weights, that none is negative and that those of controls are positive."""
    instance("weights", weights, Tracking, "Tracking(state, control, final, restoring)")
    n, nu = system.n, system.nu
    shapes = {"control": (nu,), "restoring": (nu, n)}
    shapes |= {name: (n, n) if axes(getattr(weights, name)) == 2 else (n,) for name in ("state", "final")}
    arrays = {name: as_array(f"weights.{name}", getattr(weights, name), shape) for name, shape in shapes.items()}
    for name in ("state", "control", "final"):
        if arrays[name].ndim == 2:
            arrays[name] = definite(f"weights.{name}", arrays[name], 1e-9)
        elif (arrays[name] < 0.0).any() or (name == "control" and not arrays[name].all()):
            least = "positive numbers" if name == "control" else "no negative number"
            raise ProblemError(f"weights.{name}: expected {least}, got {numbers(arrays[name])}")
    limits, lead = weights.limits, float(as_array("weights.lead", weights.lead, ()))
    if limits is not None:
        lower, upper = (as_array("weights.limits", limit, (nu,), finite=False) for limit in limits)
        limits = lower, upper
    friction = float(as_array("weights.friction", weights.friction, (), finite=False))
    if not friction > 0.0:
        raise ProblemError(f"weights.friction: expected a positive number, or infinity, got {friction:g}")
    held, hold = flag("weights.held", weights.held), at_least_zero("weights.hold", weights.hold, " s")
    return Tracking(**arrays, held=held, limits=limits, lead=lead, friction=friction, hold=hold)


def matrix_of(weights: Array) -> Array:
    """The matrix (n, n) of weights that are one, or its diagonal (n,)."""
    return np.diag(weights) if weights.ndim == 1 else weights


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
    tracked: Tracked | None = ability(system, "tracked")
    if given is None:
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
    slack = np.zeros(U.shape, bool) if tracked is None else tracked.pulling() & (problem.lower >= U)
    diagonal[:N, n:] += share * lasting * price.control * np.where(slack, UNUSED, 1.0)
    Q[:N, :n, :n] += share * lasting[:, :, None] * matrix_of(price.state)
    Q[N, :n, :n] += share * matrix_of(price.final)
    swept = Backward(d._replace(lzz=Q, exact=Q), system, structure=problem.structure)(1.0, 0.0)
    if swept.failed >= 0:
        raise ProblemError(f"feedback: expected a motion with least cost, there is none at knot {swept.failed}")
    return held_policy(system, X, U, swept.K.copy(), problem.lower, problem.upper, delay)

"""The outcome of a solve: a trajectory, its policy, how it was found, and the means to check it."""

import copy
import html
import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ddp.adjoint import control_gradient
from ddp.archive import write
from ddp.constraints.bounds import room
from ddp.constraints.lagrangian import Residual
from ddp.constraints.placement import shifted
from ddp.errors import ProblemError, at_least_zero, choice, instance, pointing, positive_integer
from ddp.feedback.adaptive import AdaptivePolicy, ContactPolicy, adaptive_policy
from ddp.feedback.feedback import priced_policy, tracking_policy
from ddp.feedback.policy import Policy, held_policy, within_motion
from ddp.feedback.predictive import PredictivePolicy, predictive_policy
from ddp.files import as_path, shown
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solutions import columns
from ddp.solutions.columns import Columns
from ddp.solutions.explanation import Explanation, advice_after, beyond_limits, explain, outcome
from ddp.solutions.sensitivity import Sensitivity, sensitivity
from ddp.solutions.status import Record, Status
from ddp.systems.system import Tracking, ability

NOTHING = 1e-8
"""Violations that are none, where two ways to go on are compared."""

drawers: list[Callable[[Any], str]] = []
"""Function from a Solution to HTML by which notebooks draw it, once a room above has given one."""


@pointing(
    X="x xs states state trajectory", U="us controls control inputs actions", K="gains gain feedback_gains",
    k="feedforward", cost="J objective value", t="time times", converged="success", status="message",
    iterations="iters nit niter", seconds="runtime solve_time", history="log", policy="controller",
)  # fmt: skip
@dataclass(frozen=True, eq=False)
class Solution:
    """A trajectory and the policy ``u = U + K (x ⊖ X)`` about it.

    X (N+1, nx), U (N, nu): states and controls.
    k (N, nu), K (N, nu, n): step and gain of a last sweep at X, U without regularisation. K[0] is
        du0*/dx0 where that sweep had exact Hessians (DDP), and Gauss-Newton's gain otherwise. Under K,
        constraints stay at their bounds to first order, as the default solver ends. They give way where gains are those
        of penalties (`AugmentedLagrangian`), of the last barrier (Newton's steps on what binds failed), or without
        `DDP.last_sweep`.
    cost, gradient: total cost, with what violated `Soft` constraints cost, and max-norm of its gradient in U, or of
        their Lagrangian's with constraints, without those that a control limit holds against.
    converged, status: whether it did, and why it ended, in words; ``status.ending`` is one of `Ending`.
    iterations, seconds: how many, and the wall time of the whole solve but for setup_seconds; NaN of one
        among many, as of `solve_many` and `solve_best`, which are not timed one by one.
    setup_seconds: wall time that it spent on loading and compiling kernels, most of it in a process's first solve;
        0 of files that do not say.
    history: one `Record` per iteration; of several attempts those of the one that is kept come last.
    problem: what was solved; None if loaded without it, or pickled: see `attached`.
    multipliers (m,), penalties: of all constraints in a row, see `residuals`; empty without constraints. Positive where
        an upper bound holds the motion, negative where a lower one does, so that ∇cost + Jᵀ multipliers = 0. Penalties
        are zero where they may be why rollouts failed, and of full-space steps: the next solve chooses its own.
    violation: the largest of a constraint, in its units.
    kind: "minimum" where the exact Hessian of the cost in the controls is positive definite (of the augmented
        Lagrangian with constraints; without those that a limit holds); "saddle" or "maximum" where it has negative
        curvature, which is then not converged; "unknown" where zeros decide, or nothing is known.
    workers: who computed the derivatives, and start: which states the solve began with, in words; empty if loaded.
    """

    X: Array = field(repr=False)
    U: Array = field(repr=False)
    k: Array = field(repr=False)
    K: Array = field(repr=False)
    cost: float
    gradient: float
    converged: bool
    status: Status
    iterations: int
    seconds: float
    history: tuple[Record, ...] = field(repr=False)
    problem: Problem | None = field(default=None, repr=False)
    multipliers: Array = field(default_factory=lambda: np.zeros(0), repr=False)
    penalties: Array = field(default_factory=lambda: np.zeros(0), repr=False)
    violation: float = 0.0
    workers: str = field(default="", repr=False)
    start: str = field(default="", repr=False)
    kind: str = "unknown"
    setup_seconds: float = 0.0

    def __str__(self) -> str:
        excesses = beyond_limits(self, self.problem) if self.converged and self.problem is not None else ()
        line, advice = outcome(self, excesses), advice_after(self, self.problem)
        return f"{line}; try this: {advice}" if advice else line

    def _repr_html_(self) -> str:
        """Show in a notebook its line, and its motion where `viz` draws it, as after ``import mayne``."""
        line = f"<p><code>{html.escape(str(self))}</code></p>"
        return line + "".join(drawer(self) for drawer in drawers)

    def residuals(self) -> tuple[Residual, ...]:
        """Every constraint along the trajectory: values, violations and multipliers.

        Raises ProblemError for a solution that was loaded without its problem.
        """
        return self._own_problem("residuals").residuals(self.X, self.U, self.multipliers)

    def explain(self) -> Explanation:
        """Explanation in words, for `print`: shares of the cost, what holds, how the solve went, what to try."""
        return explain(self, self._own_problem("explain"))

    @property
    def t(self) -> Array:
        """Times (N+1,) of the states [s]."""
        return columns.times(self._own_problem("t").dynamics, len(self.U))

    @property
    def q(self) -> Columns:
        """Positions (N+1, nq) by the names of joints, ``solution.q["elbow_joint"]``; of others, all of the state."""
        return columns.positions(self._own_problem("q").dynamics, self.X)

    @property
    def v(self) -> Columns:
        """Velocities (N+1, nv) by the names of joints; no column of systems that name none."""
        return columns.velocities(self._own_problem("v").dynamics, self.X)

    @property
    def u(self) -> Columns:
        """Controls (N, nu) by the names of what they drive, ``U`` as columns."""
        return columns.controls(self._own_problem("u").dynamics, self.U)

    @property
    def tau(self) -> Columns:
        """Forces and torques (N, nv) of a robot's actuators and cables by the names of joints [N, N m]."""
        return columns.torques(self._own_problem("tau").dynamics, self.X, self.U)

    def to_csv(self, path: str | os.PathLike[str]) -> Path:
        """Write time, positions, velocities and controls as a table with a header, completely or not at all."""
        return columns.to_csv(self._table("to_csv"), path)

    def to_dict(self) -> dict[str, Any]:
        """Trajectory, outcome and history as arrays, numbers and texts by name; gains are in `k`, `K`."""
        return columns.to_dict(self, self._own_problem("to_dict").dynamics)

    def to_pandas(self) -> Any:
        """The table of `to_csv` as a pandas.DataFrame whose index is the time [s]."""
        return columns.to_pandas(self._table("to_pandas"))

    @cached_property
    def policy(self) -> Policy:
        """Policy ``policy(t, x)``: the control (nu,) at time t [s] in state x (nx,), at any rate, within limits.

        `feedback` with its defaults: of robots the one that tracks the motion, of other systems the solver's own.
        It is found when it is first asked for. Raises ProblemError for a solution that was loaded without its problem.
        """
        robot = ability(self._own_problem("policy").dynamics, "tracked") is not None
        return self.feedback("tracking" if robot else "solver")

    def feedback(
        self, feedback: str = "tracking", weights: Tracking | None = None, step: float | None = None,
        delay: float = 0.0,
    ) -> Policy:  # fmt: skip
        """Policy about this motion: ``u = clip(U(t) + G_k (x ⊖ X(t)), lower, upper)``.

        feedback: "tracking", of a robot's dynamics: swept again to track the motion, see feedback.py; or "solver": its
        own gains K, whose cost cares little for the path, ``U_k + K_k (x ⊖ X_k)`` at the knots; or "priced": gains of
        its cost with a price on errors, exact to second order, see feedback.py: for robots without contacts.
        weights: of errors and controls in the sweep; default those of the system, in units of the robot; as a price, a
        hundredth of them.
        step [s]: of the sweep; default the motion's. Gains of a step bear a delay of half of it.
        delay [s]: from a measurement to the control that answers it, if it is known: planned controls are taken so much
        later. Feedback stays late; of 10 ms and more, see `predictive`.
        """
        problem = self._own_problem("feedback")
        choice("feedback", feedback, ("tracking", "solver", "priced"))
        late = within_motion("delay", at_least_zero("delay", delay, " s"), self.t[-1])
        if feedback == "tracking":
            return tracking_policy(problem, self.X, self.U, weights, step, late)
        if feedback == "priced" and step is None:
            return priced_policy(problem, self.X, self.U, self.multipliers, weights, late)
        if not (weights is None and step is None):
            field = "step" if feedback == "priced" else "weights, step"
            raise ProblemError(f"{field}: expected with feedback='tracking', gains of {feedback!r} have their own")
        return held_policy(problem.dynamics, self.X, self.U, self.K, problem.lower, problem.upper, late)

    def adaptive(
        self, weights: Tracking | None = None, step: float | None = None, delay: float = 0.0
    ) -> AdaptivePolicy:
        """Policy that tracks a robot's motion and learns while it is called; arguments as of `feedback`.

        ``.delay`` [s] is how late its controls act, as it believes; ``.slid`` tells whether a foot has slid, before
        which feedback does not keep forces within cones of friction. Call it at least every few milliseconds, from one
        loop.
        """
        problem = self._own_problem("adaptive")
        late = within_motion("delay", at_least_zero("delay", delay, " s"), self.t[-1])
        return adaptive_policy(problem, self.X, self.U, weights, step, late)

    def predictive(self, delay: float, weights: Tracking | None = None, step: float | None = None) -> PredictivePolicy:
        """Policy that answers the state which its late controls will meet; other arguments as of `feedback`.

        delay [s]: from a measurement to the control that answers it. From some 10 ms on, gains that track an arm's
        motion swing without this; below, they bear wrong masses better. Of robots whose contacts do not change.
        """
        return predictive_policy(self._own_problem("predictive"), self.X, self.U, delay, weights, step)

    def by_contact(
        self, weights: Tracking | None = None, step: float | None = None, delay: float = 0.0
    ) -> ContactPolicy:  # fmt: skip
        """Policy that is told which feet touch the ground, ``policy(t, x, touching)``; arguments as of `adaptive`.

        On ground that is not as planned, feet are taken to stand where they have landed: see adaptive.py.
        """
        return ContactPolicy(self.adaptive(weights, step, delay))

    def shift(self, steps: int = 1) -> "Solution":
        """The solution as it is ``steps`` knots later, a guess for the same problem from there.

        Its initial state is X[steps]. What enters at the end follows the last policy, or the nominal control there if
        that violates or costs less; where the policy diverges, the last state is repeated, and the status says so. It
        is not converged. Phases of contacts stay at their knots, where moved states do not fit (`gap` tells): such
        problems are better solved from their own guess.
        """
        problem, by = self._own_problem("shift"), positive_integer("steps", steps)
        if by > problem.horizon:
            raise ProblemError(f"steps: expected at most {problem.horizon}, the horizon, got {by}")
        later, told = problem.starting_at(self.X[by]), f"shifted by {by} knots"
        with np.errstate(all="ignore"):  # it may diverge
            X, U, diverged = self._gone_on(by, rests=False)
            if diverged:
                told += "; its last state is repeated where its policy diverges"
            else:
                resting = self._gone_on(by, rests=True)[:2]
                X, U = resting if badness(later, *resting) < badness(later, X, U) else (X, U)
            cost, violation = later.total(X, U) + later.paid(X, U), later.violation(X, U)
        k, K = (np.concatenate([part[by:], np.repeat(part[-1:], by, axis=0)]) for part in (self.k, self.K))
        return replace(
            self, X=X, U=U, k=k, K=K, cost=cost, converged=False,
            multipliers=shifted(problem.placed, problem.horizon, self.multipliers, by), violation=violation,
            status=Status(told), kind="unknown", iterations=0, seconds=0.0, setup_seconds=0.0,
            history=(), problem=later,
        )  # fmt: skip

    def _gone_on(self, by: int, rests: bool) -> tuple[Array, Array, bool]:
        """X, U ``by`` knots later, with nominal controls at the end or its policy; whether that diverges on the way."""
        problem = self._own_problem("shift")
        d, X, U, diverged = problem.dynamics, [*self.X[by:]], [*self.U[by:]], False
        for _ in range(by):
            if rests:
                u = np.asarray(d.nominal_control(X[-1]))
            else:
                u = self.U[-1] + self.K[-1] @ d.difference(self.X[-2], X[-1])
            u = np.clip(u, problem.lower[-1], problem.upper[-1])
            after = d.step(X[-1], u, problem.horizon - 1) if np.isfinite(u).all() else u
            if not _is_state(problem, after):
                u, after, diverged = self.U[-1], X[-1], True
            U.append(u)
            X.append(after)
        return np.array(X), np.array(U), diverged

    def stationarity(self) -> float:
        """The max-norm of the total cost's gradient with respect to U, recomputed from the problem alone.

        With constraints, of their Lagrangian ``cost + multipliers · c``. By the adjoint recursion; zero where a control
        is at a limit and the gradient pushes against it. It is a certificate where `gap` is zero. NaN if the trajectory
        or one of the derivatives is not finite. Raises ProblemError for a solution that was loaded without its problem.
        """
        problem = self._own_problem("stationarity")
        if not (np.isfinite(self.X).all() and np.isfinite(self.U).all()):
            return float("nan")
        d = problem.allocate()
        problem.expand(self.X, problem.padded(self.U), d, 0, problem.horizon + 1)
        if self.multipliers.size:
            problem.add_forces(self.X, self.U, self.multipliers, d.lz)
        gradient = control_gradient(d.A, d.B, d.lz)
        low, high = room(self.U, problem.lower, problem.upper)
        held = ((low >= 0.0) & (gradient > 0.0)) | ((high <= 0.0) & (gradient < 0.0))
        return float(np.abs(np.where(held, 0.0, gradient)).max())

    def sensitivity(self, *names: str) -> Sensitivity:
        """Derivatives of the optimum by numbers of its problem, and guesses for others: X, U, cost and multipliers.

            by = solution.sensitivity("target", "x0")
            by.dU[..., by.columns["target"]]      # (N, nu, 6)
            solve(problem.varying(target=pose), guess=by.predicted(target=pose))

        names: as of `Problem.varying`: "x0", targets, weights and prices of terms, bounds of constraints,
        "control_limits", "dynamics.masses". They hold as long as the same limits and constraints do. Constraints with
        multipliers count as held, controls at a limit as long as the cost pushes against it.

        Raises ProblemError for names that there are not, for numbers that cannot vary one by one, as the entries of a
        symmetric matrix, and for solutions that have not converged or were loaded without their problem.
        """
        return sensitivity(self, self._own_problem("sensitivity"), names)

    def gap(self) -> float:
        """The largest component of ``f(X_k, U_k) ⊖ X_{k+1}``, recomputed from the problem alone: 0 if X follows from U.

        Raises ProblemError for a solution that was loaded without its problem.
        """
        d = self._own_problem("gap").dynamics
        with np.errstate(all="ignore"):
            return float(np.abs(d.difference(self.X[1:], d.step(self.X[:-1], self.U))).max())

    def attached(self, problem: Problem) -> "Solution":
        """The solution with its problem: pickles leave it out, since whoever gathers solutions has it already.

        Raises ProblemError if their sizes differ, or what the motion costs and violates there.
        """
        instance("problem", problem, Problem)
        for name, shape in columns.shapes(problem).items():
            if (own := getattr(self, name).shape) != shape:
                raise ProblemError(f"problem: expected the one solved, {name} of {shape} there, got {own} here")
        columns.check_belongs("problem: expected the one solved, this solution is of another", self, problem)
        return replace(self, problem=problem)

    def __getstate__(self) -> dict[str, Any]:
        others = "problem", "policy"  # the one is attached again, the other made again
        return {name: value for name, value in vars(self).items() if name not in others} | {"problem": None}

    def __copy__(self) -> "Solution":
        return replace(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Solution":
        """A copy of all but the problem, which both have: unlike a pickle, it is in the same program."""
        own = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "problem"}
        return replace(self, **copy.deepcopy(own, memo))

    def _table(self, purpose: str) -> dict[str, Array]:
        return columns.as_table(self._own_problem(purpose).dynamics, self.t, self.X, self.U)

    def _own_problem(self, purpose: str) -> Problem:
        if self.problem is None:
            raise ProblemError(f"problem: {purpose} needs one: solution.attached(problem) gives it back")
        return self.problem

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all but the problem to one .npz file (no pickle), completely or not at all.

        Raises ProblemError if the file cannot be written, and for a name that ends as files of other formats do.
        """
        write(path, self.arrays())

    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays that `save` writes, by name."""
        return columns.arrays(self)

    @staticmethod
    def load(path: str | os.PathLike[str], problem: Problem | None = None) -> "Solution":
        """Read a saved solution; with its problem, it can check itself again.

        Raises ProblemError if the file is missing, is no such file, or does not belong to ``problem``.
        """
        file = as_path(path)
        if problem is not None and not isinstance(problem, Problem):
            raise ProblemError(f"problem: expected a Problem, got {type(problem).__name__}")
        solution = Solution(**columns.fields(file, problem), problem=problem)
        if problem is not None:
            columns.check_belongs(f"path: {shown(file)} is of another problem", solution, problem)
        return solution


def badness(problem: Problem, X: Array, U: Array) -> tuple[float, float]:
    """Violation of constraints along X (N+1, nx) and U (N, nu) beyond `NOTHING`, and the cost: one, then the other."""
    return max(problem.violation(X, U), NOTHING), problem.total(X, U) + problem.paid(X, U)


def _is_state(problem: Problem, x: Array) -> bool:
    """Whether x (nx,) is a state: quaternions, say, are no unit ones where speeds overflow."""
    if not np.isfinite(x).all():
        return False
    try:
        problem.dynamics.check_state("x", x)
    except ProblemError:
        return False
    return True

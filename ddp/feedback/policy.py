"""Policies: controls from time and state, at any rate, in microseconds; and files of their gains for robots."""

import json
import os
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ddp.archive import write
from ddp.costs.batch import durations_of
from ddp.errors import ProblemError, as_array, at_least_zero, pointing
from ddp.feedback.angles import nearest, unwound
from ddp.feedback.compiled_policy import ROUNDING, Steps, follow, follow_at
from ddp.files import as_path, shown, write_atomically, write_table
from ddp.protocols import Array
from ddp.systems.system import Cones, Contraction, System, ability


@pointing(G="K gains gain", X="x xs states", U="us controls k feedforward", starts="t times", export="save to_file")
@dataclass(frozen=True, eq=False)
class Policy:
    """Feedback about a reference: ``u = clip(U(t + delay) + du, lower, upper)``.

    du is the vector closest to G_k e, e = x ⊖ X(t), with ``C_k du + D_k e <= b_k``, nearly: see compiled_policy.py.

    X(t) is ``X_k ⊕ s (X_end_k ⊖ X_k)`` within step k, s the part of it that is over; no step spans an impact.

    system: what moves.   starts (M,), durations (M,) [s]: of the steps.
    X, X_end (M, nx): the reference at the beginning and at the end of each step.
    U, U_before, U_after (M, nu): controls in the middle, at the beginning and at the end; straight in between.
    G (M, nu, n): feedback on the errors of a step.
    lower, upper (M, nu): limits of controls.
    delay [s]: from a measurement to the control that answers it; the planned controls are taken so much later.
    cones: limits of what is added to planned controls, C (M, m, nu), D (M, m, n), b (M, m); None: there are none.
    """

    system: System = field(repr=False)
    starts: Array = field(repr=False)
    durations: Array = field(repr=False)
    X: Array = field(repr=False)
    X_end: Array = field(repr=False)
    U: Array = field(repr=False)
    U_before: Array = field(repr=False)
    U_after: Array = field(repr=False)
    G: Array = field(repr=False)
    lower: Array = field(repr=False)
    upper: Array = field(repr=False)
    delay: float = 0.0
    cones: Cones | None = field(default=None, repr=False)

    @cached_property
    def duration(self) -> float:
        """Duration of the motion [s]."""
        return float(self.starts[-1] + self.durations[-1])

    def __call__(self, t: float, x: ArrayLike) -> Array:
        """The control (nu,) at time t [s] in state x (nx,); before the motion by rounding, at its beginning.

        Raises ProblemError for a t outside of the motion, and for an x that is no state.
        """
        time, state = self.during(t), as_state(self.system, "x", x)
        if self._steps is None:
            return self._plainly(time, state)
        u = np.empty(self.system.nu)
        follow(self._steps.address, time, state, u)
        return u

    def during(self, t: float) -> float:
        """A time t [s] of the motion; raises ProblemError for others."""
        time = float(t) if type(t) is float else float(as_array("t", t, ()))
        if not self._first <= time < self.duration:
            told = f"{self.starts[0]:g} <= t < {self.duration:g} s, the horizon"
            raise ProblemError(f"t: expected {told}, got {time:g}")
        return time

    def inside(self, t: float) -> float:
        """The time nearest to t [s] within the motion: its beginning, or just before its end."""
        t = float(t) if type(t) is float else float(as_array("t", t, ()))
        return float(np.clip(t, self.starts[0], self.starts[-1] + 0.999 * self.durations[-1]))

    def reference(self, t: float) -> Array:
        """The state (nx,) of the reference at time t [s], at its ends before and after it."""
        k, s = self.part(t)
        return np.asarray(self.system.integrate(self.X[k], s * self.moved[k]))

    def planned(self, t: float) -> Array:
        """The planned control (nu,) at time t [s], at its ends before and after it."""
        k, s = self.part(t)
        side = self.U_before[k] if s < 0.5 else self.U_after[k]
        return np.asarray(self.U[k] + abs(2.0 * s - 1.0) * (side - self.U[k]))

    def part(self, t: float) -> tuple[int, float]:
        """The step at time t [s], and the part of it that is over."""
        t = float(t) if type(t) is float else float(as_array("t", t, ()))
        k = max(int(np.searchsorted(self._from, t, side="right")) - 1, 0)
        s = float((t - self.starts[k]) / self.durations[k])
        return k, 0.0 if s < ROUNDING else min(s, 1.0)

    def later(self, delay: float) -> "Policy":
        """The policy with another delay [s], 0 or more, which costs microseconds: it shares all tables."""
        other = replace(self, delay=at_least_zero("delay", delay, " s"))
        if self._steps is not None:
            vars(other).update(_steps=self._steps.replace(delay=other.delay), _kept=self)
        return other

    def compiled(self) -> Contraction:
        """The policy as a C function ``void(context, double *t, double *x, double *u)`` for a control loop.

        It belongs to this process, and lives as long as what is returned: its ``address`` and ``context``. It neither
        locks nor calls Python, and checks nothing. Raises ProblemError for systems whose differences of
        states are not compiled.
        """
        if self._steps is None:
            raise ProblemError(f"policy: expected a robot's, states of a {type(self.system).__name__} are not compiled")
        return Contraction(follow_at.address, self._steps.address, self)

    def export(self, path: str | os.PathLike[str]) -> Path:
        """Write reference and gains, by the names of joints, in the format that the file's name ends with.

        Of each step: time, q and v where it begins and where it ends, before an impact; u planned for its middle, its
        beginning and its end, taken later by ``delay``; G. A controller sends ``clip(u + G e, lower, upper)``, e what
        is measured less the reference: of a free base the logarithm of its displacement from there, and the difference
        of twists, each in the base's own axes. The reference goes straight on from (q, v) to where the step ends, and
        u from the beginning's to the middle's and on to the end's: both are the policy's own, u unless it changes at
        once within a step of a late policy.

        .npz: arrays ``time`` (M,), ``q``, ``q_end`` (M, nq), ``v``, ``v_end`` (M, nv), ``u``, ``u_before``, ``u_after``
        (M, nu), ``G`` (M, nu, 2 nv), ``lower``, ``upper``, ``durations`` (M,), ``delay`` (), ``C`` (M, m, nu), ``D``
        (M, m, 2 nv), ``b`` (M, m) if there are cones, and names ``names_q``, ``names_v``, ``names_u``.
        .csv: a row for each step, with a header; errors of states that have no names are e0, e1, ...
        .json: a trajectory_msgs/JointTrajectory of the joints with one degree of freedom, from where steps begin to
        where the last one ends, efforts among them; without gains and base.
        Returns where it is; raises ProblemError if it cannot be written.
        """
        return export(path, self, self.system)

    def _plainly(self, t: float, x: Array) -> Array:
        """The control, by the system's own ⊕ and ⊖; such systems have no cones."""
        k, s = self.part(t)
        e = self.system.difference(self.system.integrate(self.X[k], s * self.moved[k]), x)
        u = self.planned(t + self.delay) + self.G[k] @ e
        return np.asarray(np.clip(u, self.lower[k], self.upper[k]))

    @cached_property
    def _from(self) -> Array:
        """When steps begin [s], forgiving rounding."""
        return self.starts - ROUNDING * self.durations

    @cached_property
    def _first(self) -> float:
        return float(self._from[0])

    @cached_property
    def moved(self) -> Array:
        """``X_end ⊖ X`` (M, n), of wheels with all the turns that they make in a step."""
        found = np.asarray(self.system.difference(self.X, self.X_end))
        if np.abs(self.X).max() * self.durations.max() > 3.0:  # nearly half a turn, where it is a speed
            names_q, names_v, _ = names(self.system)
            wheels = [i for i, name in enumerate(names_v) if f"{name}.cos" in names_q]
            for i in wheels if self.system.n == 2 * len(names_v) else []:
                v = len(names_q) + i
                found[:, i] = nearest(found[:, i], self.X[:, v], self.X_end[:, v], self.durations)
        return found

    @cached_property
    def _steps(self) -> Steps | None:
        """The table of compiled_policy.py, with what it needs; None where ⊖ is not compiled."""
        if (tracked := ability(self.system, "tracked")) is None:
            return None
        flat, limits = self.G.reshape(len(self.G), -1), 0
        if self.cones is not None:
            C, D, b = self.cones
            flat = np.hstack([flat, np.concatenate([C, D, b[:, :, None]], axis=2).reshape(len(b), -1)])
            limits = b.shape[1]
        times = self._from[:, None], 1.0 / self.durations[:, None]
        rows = (*times, self.X, self.moved, self.U, self.U_before, self.U_after, self.lower, self.upper, flat)
        vars(self)["_kept"] = error = tracked.deviation()
        return Steps(
            table=np.ascontiguousarray(np.hstack(rows)), nx=self.system.nx, n=self.system.n, nu=self.system.nu,
            limits=limits, deviation=error.address, context=error.context, delay=self.delay,
        )  # fmt: skip

    def __getstate__(self) -> dict[str, object]:
        return {kept.name: getattr(self, kept.name) for kept in fields(self)}


def held_policy(system: System, X: Array, U: Array, K: Array, lower: Array, upper: Array, delay: float = 0.0) -> Policy:
    """``U_k + K_k (x ⊖ X_k)`` at the knots of a trajectory X (N+1, nx), U (N, nu), and controls held in between.

    lower, upper: limits, (nu,) or (N, nu).
    """
    lasting = lasting_of(system, len(U))
    steps = np.flatnonzero(lasting > 0.0)
    starts, held = (np.cumsum(lasting) - lasting)[steps], U[steps]
    low, high = (np.broadcast_to(limit, U.shape)[steps] for limit in (lower, upper))
    return Policy(system, starts, lasting[steps], X[steps], X[steps + 1], held, held, held, K[steps], low, high, delay)


def lasting_of(system: System, horizon: int) -> Array:
    """Durations (N,) [s] of the knots of a horizon; ProblemError where all of them are events, which take no time."""
    lasting = durations_of(system, horizon)
    if not lasting.any():
        raise ProblemError("solution: policies are for motions in which time passes, all knots of this one are impacts")
    return lasting


def knot_at(dynamics: System, horizon: int, t: float) -> int:
    """The knot that holds at time t [s], forgiving rounding; ProblemError for a t that the horizon does not hold."""
    time, lasting = float(as_array("t", t, ())), durations_of(dynamics, horizon)
    ends = np.cumsum(lasting)
    k = int(np.searchsorted(ends[:-1] - 1e-6 * dynamics.dt, time, side="right"))
    if not -1e-6 * dynamics.dt <= time < ends[-1]:
        raise ProblemError(f"t: expected 0 <= t < {ends[-1]:g} s, the horizon, got {time:g}")
    return k


def as_state(dynamics: System, field: str, x: ArrayLike) -> Array:
    """A state (nx,) of a system; ProblemError naming ``field`` for what is none."""
    state = as_array(field, x, (dynamics.nx,))
    dynamics.check_state(field, state)
    return state


def within_motion(field: str, value: float, duration: float) -> float:
    """The time itself; ProblemError for one that is longer than a motion [s]."""
    if value > duration:
        raise ProblemError(f"{field}: expected at most {duration:g} s, the motion's duration, got {value:g}")
    return value


SUFFIXES = ".npz", ".csv", ".json"


def export(path: str | os.PathLike[str], policy: Policy, system: System) -> Path:
    """Write a policy: see `Policy.export`."""
    target = as_path(path)
    if target.suffix not in SUFFIXES:
        raise ProblemError(f"path: expected a file whose name ends with {', '.join(SUFFIXES)}, got {shown(target)}")
    names_q, names_v, names_u = names(system)
    if len(names_q) + len(names_v) != system.nx:  # of a composition, which keeps more
        names_q, names_v = [f"x{i}" for i in range(system.nx)], []
    U_before, U, U_after = (controls(policy, share) for share in (0.0, 0.5, 1.0))
    (Q, V), (Q_end, V_end) = (np.hsplit(X, [len(names_q)]) for X in (policy.X, policy.X_end))
    if target.suffix == ".npz":
        arrays: dict[str, Any] = {"time": policy.starts, "q": Q, "v": V, "u": U, "G": policy.G}
        arrays |= {"q_end": Q_end, "v_end": V_end, "u_before": U_before, "u_after": U_after}
        arrays |= {"durations": policy.durations, "delay": np.array(policy.delay)}
        limits = {"lower": policy.lower, "upper": policy.upper}
        cones = {} if policy.cones is None else policy.cones._asdict()
        return write(target, arrays | limits | cones | {"names_q": names_q, "names_v": names_v, "names_u": names_u})
    if target.suffix == ".csv":
        errors = [f"d {name}" for name in names_v] + [f"d rate of {name}" for name in names_v]
        errors = errors[: policy.G.shape[2]] or [f"e{i}" for i in range(policy.G.shape[2])]
        gains = [f"{u} per {error}" for u in names_u for error in errors]
        states, sent = [*names_q, *(f"rate of {v}" for v in names_v)], [f"control {u}" for u in names_u]
        later = ((states, "end"), (sent, "beginning"), (sent, "end"))
        header = ["time", *states, *sent, *gains, *(f"{name} at the {side}" for given, side in later for name in given)]
        columns = policy.starts[:, None], policy.X, U, policy.G.reshape(len(U), -1), policy.X_end, U_before, U_after
        return write_table(target, header, np.hstack(columns).tolist())
    torques = getattr(system, "torques", None)  # of a robot whose controls are no speeds
    at, X = np.append(policy.starts, policy.duration), np.concatenate([policy.X, policy.X_end[-1:]])
    U = np.concatenate([U, U_after[-1:]])
    efforts = None if torques is None else torques(X, U)
    trajectory = _joint_trajectory(at.tolist(), X, efforts, names_q, names_v)
    return write_atomically(target, json.dumps(trajectory, indent=1))


def controls(policy: Policy, share: float) -> Array:
    """Planned controls (M, nu) when so much of each step is over, later by the delay."""
    if policy.delay == 0.0:
        return policy.U if share == 0.5 else policy.U_before if share == 0.0 else policy.U_after
    inside = min(max(share, 2.0 * ROUNDING), 1.0 - 2.0 * ROUNDING)  # on the step's own side of where controls change
    return np.array([policy.planned(t + policy.delay) for t in (policy.starts + inside * policy.durations).tolist()])


def names(system: System) -> tuple[list[str], list[str], list[str]]:
    """Names of the numbers of positions, of velocities and of controls; numbered where the system has none."""
    named: tuple[list[str], list[str], list[str]] | None = ability(system, "named_numbers")
    if named is not None:
        return named
    return [f"x{i}" for i in range(system.nx)], [], [f"u{i}" for i in range(system.nu)]


def _joint_trajectory(
    times: list[float], X: Array, efforts: Array | None, names_q: list[str], names_v: list[str]
) -> dict[str, Any]:
    """A message of ROS: joints whose velocity is one number, their positions, velocities and efforts [N m, N]."""
    Q, V = np.hsplit(X, [len(names_q)])
    every = ((name, _positions(name, Q, names_q, V[:, i], np.array(times))) for i, name in enumerate(names_v))
    places = {name: found for name, found in every if found is not None}
    if not places:
        raise ProblemError("path: a JointTrajectory has joints with one number, there are none: expected .npz or .csv")
    v = [names_v.index(name) for name in places]
    points = []
    for k, t in enumerate(times):
        seconds, part = divmod(round(1e9 * t), 10**9)
        points.append(
            {
                "positions": [float(found[k]) for found in places.values()], "velocities": V[k, v].tolist(),
                "effort": [] if efforts is None else efforts[k, v].tolist(),
                "time_from_start": {"sec": seconds, "nanosec": part},
            }
        )  # fmt: skip
    return {"joint_names": list(places), "points": points}


def _positions(name: str, Q: Array, names_q: list[str], speed: Array, t: Array) -> Array | None:
    """Positions (M,) of a joint with one, which may be an angle by its cosine and sine; None for others.

    speed (M,) [rad/s], t (M,) [s]: its turns are counted by these.
    """
    if name in names_q:
        return Q[:, names_q.index(name)]
    if f"{name}.cos" not in names_q:
        return None
    i = names_q.index(f"{name}.cos")
    return unwound(Q[:, i : i + 2], speed, t)

"""Simulated motions: their numbers by name, errors about their plans, and tables of them."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp.errors import pointing
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solutions import columns
from ddp.solutions.columns import Columns
from dynamics.phases.phased_dynamics import PhasedDynamics
from dynamics.steps.mimic import MimicDynamics
from dynamics.steps.robot_dynamics import RobotDynamics

LIMITED = 0.05
"""Share of the time at a limit from which a summary names a control."""

PlayedSystem = RobotDynamics | PhasedDynamics | MimicDynamics
"""System of a robot that MuJoCo plays."""

ROUNDING = 1e-9
"""Time by which a control may come before the knot whose limits it has [s]."""


@pointing()
@dataclass(frozen=True, eq=False)
class Play:
    """Simulated motion, S controls long.

    t (S+1,) [s], X (S+1, nx), U (S, nu): the motion, and the controls that acted.   plan (S+1, nx): the reference at
    these times, of legged motions with positions at the instants of their velocities, which the plan's own lead.
    error (S+1,): of a floating base, how far it is from its place at that time [m]; else the root of the mean square of
    all joints' errors [rad, m].   rms: of ``error``.
    attitude (S+1,): by how much a floating base is turned from its attitude at that time [deg]; else zeros.
    fell: whether the base came down, or leans by more than 90 degrees from its plan, and everything ends there; or does
    so soon after the motion, its end being held.   later [s]: how long after the motion it fell.
    system: of the robot that was played, whose names the numbers have.
    limited: share of the time that the policy had each control at a limit, by name; of functions it is not known.
    problem: of the solution that was played, or of the `RecedingHorizon`, as it ended; None of gaits by commands.
    bounds: lower and upper limits of the controls (S, nu) each, that the plans in force had, if others planned.
    """

    t: Array = field(repr=False)
    X: Array = field(repr=False)
    U: Array = field(repr=False)
    plan: Array = field(repr=False)
    error: Array = field(repr=False)
    attitude: Array = field(repr=False)
    rms: float
    fell: bool
    system: PlayedSystem = field(repr=False)
    limited: Mapping[str, float] = field(default_factory=dict, repr=False)
    later: float = 0.0
    problem: Problem | None = field(default=None, repr=False)
    bounds: tuple[Array, Array] | None = field(default=None, repr=False)

    @property
    def q(self) -> Columns:
        """Positions (S+1, nq) by the names of joints, ``run.q["elbow_joint"]``."""
        return columns.positions(self.system, self.X)

    @property
    def v(self) -> Columns:
        """Velocities (S+1, nv) by the names of joints."""
        return columns.velocities(self.system, self.X)

    @property
    def u(self) -> Columns:
        """Controls (S, nu) that acted, by the names of what they drive."""
        return columns.controls(self.system, self.U)

    @property
    def tau(self) -> Columns:
        """Forces and torques (S, nv) of the actuators by the names of joints [N, N m]."""
        return columns.torques(self.system, self.X, self.U)

    @property
    def limits(self) -> tuple[Array, Array]:
        """Lower and upper limits of the controls, (S, nu) each, as the plan's problem has them; ±inf without one."""
        if self.bounds is not None:
            return self.bounds
        if self.problem is None:
            none = np.full(self.U.shape, np.inf)
            return -none, none
        ends = columns.times(self.system, self.problem.horizon)[1:]
        knots = np.searchsorted(ends[:-1] - ROUNDING, self.t[:-1], side="right")
        return self.problem.lower[knots], self.problem.upper[knots]

    def to_csv(self, path: str | os.PathLike[str]) -> Path:
        """Write time, positions, velocities and controls as a table like a solution's, completely or not at all."""
        return columns.to_csv(columns.as_table(self.system, self.t, self.X, self.U), path)

    def to_dict(self) -> dict[str, Any]:
        """Motion, plan, errors and outcome as arrays and numbers by name."""
        found = columns.named_motion(self.system, self.t, self.X, self.U)
        outcome = "plan", "error", "attitude", "rms", "fell", "later"
        return found | {name: getattr(self, name) for name in outcome} | {"limited": dict(self.limited)}

    def to_pandas(self) -> Any:
        """The table of `to_csv` as a pandas.DataFrame whose index is the time [s]."""
        return columns.to_pandas(columns.as_table(self.system, self.t, self.X, self.U))

    def __str__(self) -> str:
        return self._told() + self.saturated

    @property
    def saturated(self) -> str:
        """The control that was at a limit for longest, in words, if it was for more than a twentieth of the time."""
        name, share = max(self.limited.items(), key=lambda item: item[1], default=("", 0.0))
        return f"; {name} at its limit for {share:.0%} of the time".replace("%", " %") if share > LIMITED else ""

    def with_limits(self, clipped: Sequence[NDArray[np.bool_]]) -> "Play":
        """Copy that knows which controls (nu,) of each that was asked for were at a limit; itself if none are told."""
        if not clipped:
            return self
        shares = np.mean(clipped[: len(self.U)], axis=0).tolist()
        return replace(self, limited=dict(zip(self.u.names, shares, strict=True)))

    def _told(self) -> str:
        if not np.isfinite(self.X).all():
            return f"numbers overflowed after {self.t[-1]:.2f} s"
        if self.fell:
            held = f", its end being held from {self.t[-1]:.2f} s on" if self.later else ""
            return f"fell after {self.t[-1] + self.later:.2f} s{held}"
        most = self.error.max()
        if not self.attitude.any():  # of a base that is fixed
            return f"rms of joints {self.rms:.2g}, at most {most:.2g} [rad, m], in {self.t[-1]:.2f} s"
        turned = root_mean_square(self.attitude), self.attitude.max()
        sizes = (f"{error:.2g} m and {turn:.2g} deg" for error, turn in zip((self.rms, most), turned, strict=True))
        return "rms {}, at most {}, in {:.2f} s".format(*sizes, self.t[-1])


def root_mean_square(values: Array) -> float:
    """Root of the mean of squares."""
    return float(np.sqrt((values**2).mean()))
